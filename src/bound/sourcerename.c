/*
 * sourcerename.c
 *		Names in the expressions of bindings, when they change.
 *
 * Expressions are stored as text, which a dump needs. What is renamed (a column, a type, an
 * enum's label, a schema) is another name in it. So before such a command the expressions
 * are parsed, which needs the old names, and after it they are deparsed, which gives the new
 * ones; rows whose text has become another one are updated. The binding itself stays what it is:
 * the sessions' own forms of the expressions have numbers of columns and types, not names.
 *
 * The two ends are event triggers of the same command (table/ddlhooks.c). What was parsed
 * is kept in between under the address of the statement, until the transaction ends; of one
 * that has failed something may be left, which nobody looks for.
 *
 * Which bindings to parse is seen from their text: what does not contain the old name cannot
 * change. The statement locks the source if it is about a column of it. Else the
 * source is locked ACCESS SHARE, without waiting, as the statement has locks already that
 * others may wait for.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/compat.h"
#include "bound/sourceddl.h"
#include "catalog/namespace.h"
#include "catalog/pg_inherits.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* A binding that was parsed. */
typedef struct DcParsed
{
	const Node *statement;
	Oid counter;
	Oid source;
	List *exprs;
} DcParsed;

/* DcParsed *, in TopTransactionContext of the transaction with this number. */
static List *parsed = NIL;
static LocalTransactionId parsed_in = InvalidLocalTransactionId;

static bool changes_names(Node *statement, const char **name);
static bool is_concerned(const DcSourceRow *row, Node *statement, const char *name);
static bool mentions(const char *text, const char *name);
static void parse_binding(const DcSourceRow *row, Node *statement);
static void deparse_binding(const DcParsed *binding);
static bool same_text(const char *a, const char *b);
static void check_unparsed(const DcDdl *ddl);

/*
 * source_rename_begins parses the bindings that a command may change names of.
 */
void
source_rename_begins(const DcDdl *ddl)
{
	const char *name;
	ListCell *lc;

	if (!changes_names(ddl->parsetree, &name))
		return;
	if (parsed_in != compat_local_xid())
		parsed = NIL;
	parsed_in = compat_local_xid();
	foreach(lc, parsed)
	{
		if (((DcParsed *) lfirst(lc))->statement == ddl->parsetree)
			parsed = foreach_delete_current(parsed, lc);
	}
	foreach(lc, source_read_all())
	{
		if (is_concerned(lfirst(lc), ddl->parsetree, name))
			parse_binding(lfirst(lc), ddl->parsetree);
	}
}

/*
 * changes_names tells whether a statement may change a name that expressions contain, and which;
 * NULL: any.
 */
static bool
changes_names(Node *statement, const char **name)
{
	*name = NULL;
	if (IsA(statement, AlterEnumStmt))
		return ((AlterEnumStmt *) statement)->oldVal != NULL;
	if (IsA(statement, AlterObjectSchemaStmt))
		return true;
	if (!IsA(statement, RenameStmt))
		return false;
	switch (((RenameStmt *) statement)->renameType)
	{
		case OBJECT_COLUMN:
		case OBJECT_ATTRIBUTE:
		case OBJECT_SCHEMA:
			*name = ((RenameStmt *) statement)->subname;
			return true;
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
		case OBJECT_COLLATION:
			return true;
		default:
			return false;
	}
}

/*
 * is_concerned tells whether a statement may change the text of a binding.
 */
static bool
is_concerned(const DcSourceRow *row, Node *statement, const char *name)
{
	Oid relid;

	if (get_rel_name(row->source) == NULL)
		return false;
	if (name != NULL && !mentions(row->key, name) && !mentions(row->value, name) &&
		!mentions(row->filter, name) && !mentions(row->distinct_of, name))
		return false;
	if (!IsA(statement, RenameStmt) || ((RenameStmt *) statement)->renameType != OBJECT_COLUMN)
		return true;
	relid = RangeVarGetRelid(((RenameStmt *) statement)->relation, NoLock, true);
	return relid == row->source ||
		(OidIsValid(relid) && list_member_oid(find_all_inheritors(relid, NoLock, NULL), row->source));
}

static bool
mentions(const char *text, const char *name)
{
	return text != NULL && strstr(text, quote_identifier(name)) != NULL;
}

static void
parse_binding(const DcSourceRow *row, Node *statement)
{
	MemoryContext old;
	Relation source;
	DcParsed *binding;

	if (!ConditionalLockRelationOid(row->source, AccessShareLock))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on relation \"%s\"", get_rel_name(row->source)),
				 errdetail("What is being renamed may be named in how it is counted in \"%s\".", get_rel_name(row->counter))));
	source = try_relation_open(row->source, NoLock);
	if (source == NULL)
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	binding = palloc(sizeof(DcParsed));
	binding->statement = statement;
	binding->counter = row->counter;
	binding->source = row->source;
	binding->exprs = source_parse(row, source);
	parsed = lappend(parsed, binding);
	MemoryContextSwitchTo(old);
	relation_close(source, NoLock);
}

/*
 * source_renamed makes the texts true, at the end of the command.
 */
void
source_renamed(const DcDdl *ddl)
{
	const char *name;
	ListCell *lc;

	if (!changes_names(ddl->parsetree, &name))
		return;
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

static void
deparse_binding(const DcParsed *binding)
{
	Relation source = try_relation_open(binding->source, NoLock);
	DcSourceRow row;
	DcSourceRow was;

	if (source == NULL)
		return;
	(void) bound_lock(binding->counter, true); /* two commands may rename something of it */
	if (source_read(binding->counter, &row) && row.source == binding->source)
	{
		was = row;
		source_deparse(&row, binding->exprs, source);
		if (!same_text(row.key, was.key) || !same_text(row.value, was.value) ||
			!same_text(row.filter, was.filter) || !same_text(row.distinct_of, was.distinct_of))
		{
			source_update(&row);
			CommandCounterIncrement();
		}
	}
	relation_close(source, NoLock);
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
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
		source = table_open(relid, NoLock);
		foreach(lc2, rows)
			(void) source_parse(lfirst(lc2), source);
		table_close(source, NoLock);
	}
}
