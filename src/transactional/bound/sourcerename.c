/*
 * sourcerename.c
 *		Names in the expressions of bindings, when they change or go.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Expressions are stored as text, which a dump needs. When something is renamed (a column, a
 * type, an enum's label, a schema), its name in the text changes. So before such a command the
 * expressions are parsed, which needs the old names, and after it they are deparsed, which
 * gives the new ones; rows whose text has become another one are updated. The binding itself
 * stays what it is: the sessions' own forms of the expressions have numbers of columns and
 * types, not names.
 *
 * The two ends are event triggers of the same command (core/table/ddlhooks.c). What was parsed
 * is kept in between under the address of the statement, until the transaction ends; a command
 * that fails may leave something, which is never looked up.
 *
 * Which bindings to parse is seen from their text, without the parser (sourcenames.c): only those
 * that name the renamed object. The source is locked ACCESS SHARE while it is parsed, and no
 * longer: the statement may be about to lock it in a mode that conflicts with ours, and other
 * sessions may hold the same one. It is waited for only if the statement waits too; otherwise the
 * statement fails at once. What was parsed holds numbers, so it need not be kept from being
 * renamed. But if the text has become another one when the command ends, another session has
 * renamed something as well, or has bound the counter again: then the command fails (55000).
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "base/subxact.h"
#include "transactional/bound/sourceddl.h"

/* A binding that was parsed. */
typedef struct DcParsed
{
	const Node *statement;
	DcSourceRow row; /* with the texts that were parsed */
	List *exprs;
} DcParsed;

/* DcParsed *, in TopTransactionContext of the transaction with this number. */
static List *parsed = NIL;
static LocalTransactionId parsed_in = InvalidLocalTransactionId;

/* The name that a source had before a command of this transaction. */
typedef struct DcRenamed
{
	Oid source;
	Oid schema;
	char *name;
} DcRenamed;

/* DcRenamed *, in TopTransactionContext of the transaction with this number. */
static List *renamed = NIL;
static LocalTransactionId renamed_in = InvalidLocalTransactionId;

/* A binding that is tried. */
typedef struct DcTried
{
	const DcSourceRow *row;
	Relation source;
} DcTried;

static void source_swap_begins(const Node *statement);
static void sourcerename_swapped(const DcSourceRow *row, const DcRenamed *was);
static List *sourcerename_concerned(DcNamed *named);
static void parse_binding(Oid counter, Node *statement);
static Relation sourcerename_open_source(const DcSourceRow *row, bool wait);
static bool sourcerename_is_column(const Node *statement);
static void deparse_binding(const DcParsed *binding);
static void check_unparsed(const DcDdl *ddl);
static bool sourcerename_is_missing(int sqlerrcode);
static bool sourcerename_parses(void *arg);

/*
 * source_rename_begins parses the bindings that a command may change names of, and notes the name
 * of a source.
 */
void
source_rename_begins(const DcDdl *ddl)
{
	DcNamed named;
	ListCell *lc;

	source_swap_begins(ddl->parsetree);
	if (!source_named_by(ddl->parsetree, &named))
		return;
	if (parsed_in != compat_local_xid())
		parsed = NIL;
	parsed_in = compat_local_xid();
	foreach(lc, parsed)
	{
		if (((DcParsed *) lfirst(lc))->statement == ddl->parsetree)
			parsed = foreach_delete_current(parsed, lc);
	}
	foreach(lc, sourcerename_concerned(&named))
		parse_binding(lfirst_oid(lc), ddl->parsetree);
}

/*
 * Return the counter tables of the bindings that name the renamed object. For a column, only those
 * of its tables are read.
 */
static List *
sourcerename_concerned(DcNamed *named)
{
	List *counters = NIL;
	ListCell *lc;

	if (!named->column || OidIsValid(named->type))
		return source_select(source_names, named);
	foreach(lc, named->tables)
	{
		ListCell *lc2;

		CHECK_FOR_INTERRUPTS();
		foreach(lc2, source_rows_of(lfirst_oid(lc)))
		{
			const DcSourceRow *row = lfirst(lc2);

			if (source_names(row, named))
				counters = lappend_oid(counters, row->counter);
		}
	}
	return counters;
}

/*
 * Parse the binding of a counter table, and keep what was parsed. A binding that cannot be parsed
 * is its owner's problem, and must not keep other users from renaming their own objects.
 */
static void
parse_binding(Oid counter, Node *statement)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter binding", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Relation source = NULL;
	DcSourceRow row;
	bool missing;

	if (source_read(counter, &row))
		source = sourcerename_open_source(&row, sourcerename_is_column(statement));
	/* read again: while it waited for the lock, the binding may have got another source */
	if (source != NULL && source_read(counter, &row) && row.source == RelationGetRelid(source) && source_parses(&row, source, &missing))
	{
		List *exprs = source_parse(&row, source);
		DcParsed *binding;

		MemoryContextSwitchTo(TopTransactionContext);
		binding = palloc(sizeof(DcParsed));
		*binding = (DcParsed){.statement = statement, .exprs = copyObject(exprs)};
		(void) source_read(counter, &binding->row);
		parsed = lappend(parsed, binding);
	}
	if (source != NULL)
		relation_close(source, AccessShareLock);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/*
 * sourcerename_open_source opens the source of a binding that names the renamed object; NULL if it
 * is gone. 55P03 if it would have to be waited for, and the statement does not wait for it as well.
 */
static Relation
sourcerename_open_source(const DcSourceRow *row, bool wait)
{
	if (wait)
		LockRelationOid(row->source, AccessShareLock);
	else if (!ConditionalLockRelationOid(row->source, AccessShareLock))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on relation \"%s\"", get_rel_name(row->source)),
				 errdetail("The object being renamed is used in the binding of \"%s\".", get_rel_name(row->counter))));
	return try_relation_open(row->source, NoLock);
}

/*
 * Return true if a statement renames a column of a table, which it locks.
 */
static bool
sourcerename_is_column(const Node *statement)
{
	return IsA(statement, RenameStmt) && ((const RenameStmt *) statement)->renameType == OBJECT_COLUMN;
}

/*
 * source_renamed updates the texts, at the end of the command.
 */
void
source_renamed(const DcDdl *ddl)
{
	ListCell *lc;

	if (parsed_in != compat_local_xid())
		parsed = NIL;
	foreach(lc, parsed)
	{
		if (((DcParsed *) lfirst(lc))->statement != ddl->parsetree)
			continue;
		deparse_binding(lfirst(lc));
		parsed = foreach_delete_current(parsed, lc);
	}
	if (IsA(ddl->parsetree, RenameStmt))
		check_unparsed(ddl);
}

/*
 * Update the texts of a binding after the command, if they have changed. Raises 55P03 if its
 * lock is taken and must not be waited for, 55000 if another session has changed it in the
 * meantime.
 */
static void
deparse_binding(const DcParsed *binding)
{
	Relation source = sourcerename_open_source(&binding->row, false);
	DcSourceRow row = binding->row;

	if (source == NULL)
		return;
	source_deparse(&row, binding->exprs, source);
	if (source_texts_equal(&row, &binding->row))
	{
		relation_close(source, AccessShareLock); /* there may be very many */
		return;
	}
	if (!bound_lock(binding->row.counter, sourcerename_is_column(binding->statement)))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on the binding of \"%s\"", get_rel_name(binding->row.counter)),
				 errdetail("The object being renamed is used in it.")));
	if (source_read(binding->row.counter, &row) && row.source == binding->row.source)
	{
		if (!source_texts_equal(&row, &binding->row))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the way \"%s\" is counted in \"%s\" was changed in the meantime",
							RelationGetRelationName(source), get_rel_name(row.counter)),
					 errhint("Try again.")));
		source_deparse(&row, binding->exprs, source);
		source_update(&row);
		CommandCounterIncrement();
	}
	relation_close(source, NoLock);
}

/*
 * check_unparsed makes sure, when a column was renamed, that all bindings of its table
 * can be parsed: the library may not have been there when the command began, or the name
 * of the table may have meant another one. Raises the parser's error if not.
 */
static void
check_unparsed(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->columns)
	{
		Oid relid = ((DcDdlColumn *) lfirst(lc))->relid;
		List *rows = source_rows_of(relid);
		Relation source;
		ListCell *lc2;

		if (rows == NIL)
			continue;
		source = table_open_present(relid, NoLock);
		foreach(lc2, rows)
			(void) source_parse(lfirst(lc2), source);
		table_close(source, NoLock);
	}
}

/*
 * source_swap_begins notes the name of a source that a command may give another name, or schema.
 */
static void
source_swap_begins(const Node *statement)
{
	const RangeVar *table = IsA(statement, RenameStmt) ? ((const RenameStmt *) statement)->relation
		: IsA(statement, AlterObjectSchemaStmt)		   ? ((const AlterObjectSchemaStmt *) statement)->relation
													   : NULL;
	Oid relid = table != NULL ? RangeVarGetRelid(table, NoLock, true) : InvalidOid;
	MemoryContext old;
	DcRenamed *was;

	if (!OidIsValid(relid) || source_rows_of(relid) == NIL)
		return;
	if (renamed_in != compat_local_xid())
		renamed = NIL;
	renamed_in = compat_local_xid();
	old = MemoryContextSwitchTo(TopTransactionContext);
	was = palloc(sizeof(DcRenamed));
	*was = (DcRenamed){relid, get_rel_namespace(relid), pstrdup(table->relname)};
	renamed = lappend(renamed, was);
	MemoryContextSwitchTo(old);
}

/*
 * source_swapped follows names of sources in this transaction. A source that has another name goes
 * on being counted; if another table takes the one that it had, that is likely meant to be counted,
 * so the bindings become suspect.
 */
void
source_swapped(void)
{
	ListCell *lc;

	if (renamed_in != compat_local_xid())
		return;
	foreach(lc, renamed)
	{
		const DcRenamed *was = lfirst(lc);
		Oid now = get_relname_relid(was->name, was->schema);
		ListCell *lc2;

		if (!OidIsValid(now) || now == was->source)
			continue;
		foreach(lc2, get_rel_name(was->source) != NULL ? source_rows_of(was->source) : NIL)
			sourcerename_swapped(lfirst(lc2), was);
		renamed = foreach_delete_current(renamed, lc);
	}
}

/*
 * Warn that a counter goes on counting a table that was renamed, while another table has its
 * name, and make the binding suspect.
 */
static void
sourcerename_swapped(const DcSourceRow *row, const DcRenamed *was)
{
	(void) bound_lock(row->counter, true);
	ereport(WARNING,
			(errmsg("counter table \"%s\" still counts %s, not the table that is now %s", get_rel_name(row->counter),
					relation_sql_name(row->source), quote_qualified_identifier(get_namespace_name(was->schema), was->name)),
			 errhint("Call dc_unbind() and dc_bind() to count that one, or dc_build() if this is intended.")));
	source_state_change(row->counter, DC_SOURCE_SUSPECT, false);
}

/*
 * Return true if the expressions of a binding can be parsed, and if not, whether the reason is that
 * they name something that does not exist. The source is open and locked.
 */
bool
source_parses(const DcSourceRow *row, Relation source, bool *missing)
{
	MemoryContext cxt = CurrentMemoryContext;
	DcTried tried = {row, source};
	volatile int code = 0;

	PG_TRY();
	{
		(void) subxact_run(sourcerename_parses, &tried);
	}
	PG_CATCH();
	{
		ErrorData *error = error_caught(cxt);
		int category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

		code = error->sqlerrcode;
		if (!sourcerename_is_missing(code) && category != ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION &&
			category != ERRCODE_DATA_EXCEPTION && category != ERRCODE_FEATURE_NOT_SUPPORTED)
			ReThrowError(error);
	}
	PG_END_TRY();
	*missing = sourcerename_is_missing(code);
	return code == 0;
}

/*
 * Return true if an error is what the parser says of a name that has gone.
 */
static bool
sourcerename_is_missing(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_UNDEFINED_COLUMN || sqlerrcode == ERRCODE_UNDEFINED_OBJECT ||
		sqlerrcode == ERRCODE_UNDEFINED_SCHEMA;
}

/*
 * Parse the expressions of a binding, in a subtransaction; arg is a DcTried. Raises the
 * parser's error if that fails.
 */
static bool
sourcerename_parses(void *arg)
{
	DcTried *tried = arg;

	(void) source_parse(tried->row, tried->source);
	return true;
}
