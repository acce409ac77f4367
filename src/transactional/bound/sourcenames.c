/*
 * sourcenames.c
 *		Whether the expressions of a binding name what a command renames.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * That a text contains a name says little: it may be a part of another one, or of a string, and an owner may have put it there to be in the way of
 * others' commands. So the text is parsed, without a look at the catalogs: that needs no lock on the source. It was deparsed, so all names in it
 * have their schema but those of pg_catalog; functions, operators and composite types are the server's (sourceexprcheck.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/subxact.h"
#include "transactional/bound/sourceddl.h"

/* What is renamed. */
typedef struct DcNamed
{
	const DcSourceRow *row;
	const char *schema; /* NULL: nothing that exists */
	const char *name;	/* of a type or collation; NULL: all in the schema */
} DcNamed;

static void named_by_statement(Node *statement, DcNamed *named);
static void named_extension(const char *extension, DcNamed *named);
static void named_type(Oid type, DcNamed *named);
static void named_collation(Oid collation, DcNamed *named);
static bool sourcenames_in_texts(void *arg);
static bool names_walker(Node *node, void *arg);
static bool sourcenames_is_it(List *names, const DcNamed *named);
static bool is_of_type(Oid relid, Oid type);

/*
 * Return true if a binding names what a statement, which has not run yet, gives another name or schema.
 */
bool
source_names(const DcSourceRow *row, Node *statement)
{
	MemoryContext cxt = CurrentMemoryContext;
	DcNamed named = {.row = row};
	volatile bool found = false;

	if (IsA(statement, RenameStmt) && ((RenameStmt *) statement)->renameType == OBJECT_ATTRIBUTE)
		return is_of_type(row->source, get_rel_type_id(RangeVarGetRelid(((RenameStmt *) statement)->relation, NoLock, true)));
	named_by_statement(statement, &named);
	if (named.schema == NULL)
		return false;
	PG_TRY();
	{
		found = subxact_run(sourcenames_in_texts, &named);
	}
	PG_CATCH();
	{
		ErrorData *error = error_caught(cxt);

		/* only its owner can mend a broken text */
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION)
			ReThrowError(error);
	}
	PG_END_TRY();
	return found;
}

/*
 * Find what a statement renames, of the kinds that texts of bindings may contain.
 */
static void
named_by_statement(Node *statement, DcNamed *named)
{
	ObjectType kind = OBJECT_TYPE;
	List *names;

	if (IsA(statement, RenameStmt) && ((RenameStmt *) statement)->renameType == OBJECT_SCHEMA)
	{
		named->schema = ((RenameStmt *) statement)->subname;
		return;
	}
	if (IsA(statement, AlterObjectSchemaStmt) && ((AlterObjectSchemaStmt *) statement)->objectType == OBJECT_EXTENSION)
	{
		named_extension(strVal(((AlterObjectSchemaStmt *) statement)->object), named);
		return;
	}
	if (IsA(statement, AlterEnumStmt))
		names = ((AlterEnumStmt *) statement)->typeName;
	else if (IsA(statement, AlterObjectSchemaStmt))
	{
		kind = ((AlterObjectSchemaStmt *) statement)->objectType;
		names = castNode(List, ((AlterObjectSchemaStmt *) statement)->object);
	}
	else
	{
		kind = castNode(RenameStmt, statement)->renameType;
		names = castNode(List, ((RenameStmt *) statement)->object);
	}
	if (kind == OBJECT_COLLATION)
		named_collation(get_collation_oid(names, true), named);
	else
		named_type(LookupTypeNameOid(NULL, makeTypeNameFromNameList(names), true), named);
}

/*
 * Set the schema of an extension, which has all its objects.
 */
static void
named_extension(const char *extension, DcNamed *named)
{
	Relation rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum(extension));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		named->schema = get_namespace_name(((Form_pg_extension) GETSTRUCT(tuple))->extnamespace);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/*
 * Set schema and name of a type; they stay NULL if there is none.
 */
static void
named_type(Oid type, DcNamed *named)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));

	if (!HeapTupleIsValid(tuple))
		return;
	named->schema = get_namespace_name(((Form_pg_type) GETSTRUCT(tuple))->typnamespace);
	named->name = pstrdup(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname));
	ReleaseSysCache(tuple);
}

/*
 * Set schema and name of a collation; they stay NULL if there is none.
 */
static void
named_collation(Oid collation, DcNamed *named)
{
	HeapTuple tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));

	if (!HeapTupleIsValid(tuple))
		return;
	named->schema = get_namespace_name(((Form_pg_collation) GETSTRUCT(tuple))->collnamespace);
	named->name = pstrdup(NameStr(((Form_pg_collation) GETSTRUCT(tuple))->collname));
	ReleaseSysCache(tuple);
}

/*
 * Return true if one of a binding's expressions names what is renamed; arg is the DcNamed. Runs
 * in a subtransaction: a text that does not parse raises an error.
 */
static bool
sourcenames_in_texts(void *arg)
{
	const DcSourceRow *row = ((const DcNamed *) arg)->row;
	const char *const texts[] = {row->key, row->value, row->filter, row->distinct_of};

	for (int i = 0; i < lengthof(texts); i++)
	{
		SelectStmt *select;

		if (texts[i] == NULL)
			continue;
		select = castNode(SelectStmt, linitial_node(RawStmt, raw_parser(texts[i], RAW_PARSE_PLPGSQL_EXPR))->stmt);
		if (names_walker((Node *) select->targetList, arg))
			return true;
	}
	return false;
}

/*
 * Return true if a raw parse tree names what is renamed, as a type or as a collation.
 */
static bool
names_walker(Node *node, void *arg)
{
	CHECK_FOR_INTERRUPTS();
	if (node == NULL)
		return false;
	if ((IsA(node, TypeName) && sourcenames_is_it(((TypeName *) node)->names, arg)) ||
		(IsA(node, CollateClause) && sourcenames_is_it(((CollateClause *) node)->collname, arg)))
		return true;
	return raw_expression_tree_walker(node, names_walker, arg);
}

/*
 * Return true if a name in a stored text is that of what is renamed. Names without a schema are
 * in pg_catalog.
 */
static bool
sourcenames_is_it(List *names, const DcNamed *named)
{
	const char *schema = list_length(names) > 1 ? strVal(list_nth(names, list_length(names) - 2)) : "pg_catalog";

	return names != NIL && strcmp(schema, named->schema) == 0 &&
		(named->name == NULL || strcmp(strVal(llast(names)), named->name) == 0);
}

/*
 * Return true if a table, or one above it, was made of a composite type: a column gets another name with the type's.
 */
static bool
is_of_type(Oid relid, Oid type)
{
	Relation rel = table_open(InheritsRelationId, AccessShareLock);
	List *tables = list_make1_oid(relid);
	bool found = false;

	for (int i = 0; OidIsValid(type) && i < list_length(tables) && !found; i++)
	{
		HeapTuple class = SearchSysCache1(RELOID, ObjectIdGetDatum(list_nth_oid(tables, i)));
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple tuple;

		CHECK_FOR_INTERRUPTS();
		if (!HeapTupleIsValid(class))
			continue;
		found = ((Form_pg_class) GETSTRUCT(class))->reloftype == type;
		ReleaseSysCache(class);
		ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(list_nth_oid(tables, i)));
		scan = systable_beginscan(rel, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
			tables = list_append_unique_oid(tables, ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent);
		systable_endscan(scan);
	}
	table_close(rel, AccessShareLock);
	return found;
}
