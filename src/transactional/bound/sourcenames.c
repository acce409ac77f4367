/*
 * sourcenames.c
 *		What a command renames or drops, and whether the expressions of a binding name it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each command of any role looks through the bindings of all owners. So what this costs, and whom
 * it concerns, must not be in the hands of an owner who puts the names of others into strings, or
 * makes very many bindings: the texts are only looked through, token by token, without the parser,
 * catalogs or locks. They were deparsed, so all types and collations in them have their schema but
 * those of pg_catalog, and functions, operators and composite types are the server's
 * (sourceexprcheck.c). Columns have no schema.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_type.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/relopen.h"
#include "transactional/bound/sourceddl.h"

static bool named_by_rename(RenameStmt *rename, DcNamed *named);
static bool named_by_names(ObjectType kind, List *names, DcNamed *named);
static bool named_extension(const char *extension, DcNamed *named);
static bool named_type(Oid type, DcNamed *named);
static bool named_collation(Oid collation, DcNamed *named);
static bool is_renamed(const char *schema, const char *name, void *arg);
static bool sourcenames_in_text(const char *text, DcNameTest test, void *arg);
static const char *skip_literal(const char *at);
static const char *take_identifier(const char *at, char *name);

/*
 * Return true if a statement, which has not run yet, may rename objects that expressions contain,
 * or move them to another schema, and find these objects.
 */
bool
source_named_by(Node *statement, DcNamed *named)
{
	*named = (DcNamed){0};
	if (IsA(statement, RenameStmt))
		return named_by_rename((RenameStmt *) statement, named);
	if (IsA(statement, AlterEnumStmt) && ((AlterEnumStmt *) statement)->oldVal != NULL)
		return named_by_names(OBJECT_TYPE, ((AlterEnumStmt *) statement)->typeName, named);
	if (IsA(statement, AlterObjectSchemaStmt))
	{
		AlterObjectSchemaStmt *move = (AlterObjectSchemaStmt *) statement;

		if (move->objectType == OBJECT_EXTENSION)
			return named_extension(strVal(move->object), named);
		if (move->objectType == OBJECT_TYPE || move->objectType == OBJECT_DOMAIN || move->objectType == OBJECT_COLLATION)
			return named_by_names(move->objectType, castNode(List, move->object), named);
	}
	return false;
}

/*
 * A column is one of the table, and of its partitions and children; an attribute is one of the
 * tables that were created from the type.
 */
static bool
named_by_rename(RenameStmt *rename, DcNamed *named)
{
	Oid relid;

	switch (rename->renameType)
	{
		case OBJECT_COLUMN:
		case OBJECT_ATTRIBUTE:
			relid = RangeVarGetRelid(rename->relation, NoLock, true);
			if (!OidIsValid(relid))
				return false;
			named->column = true;
			named->name = rename->subname;
			if (rename->renameType == OBJECT_COLUMN)
				named->tables = relation_members(relid, NoLock);
			else
				named->type = get_rel_type_id(relid);
			return true;
		case OBJECT_SCHEMA:
			named->schema = rename->subname;
			return true;
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
		case OBJECT_COLLATION:
			return named_by_names(rename->renameType, castNode(List, rename->object), named);
		default:
			return false;
	}
}

/*
 * Find a type, domain or collation by the names of a statement.
 */
static bool
named_by_names(ObjectType kind, List *names, DcNamed *named)
{
	if (kind == OBJECT_COLLATION)
		return named_collation(get_collation_oid(names, true), named);
	return named_type(LookupTypeNameOid(NULL, makeTypeNameFromNameList(names), true), named);
}

/*
 * What an extension contains is in its schema.
 */
static bool
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
	return named->schema != NULL;
}

/*
 * Name a type by its OID.
 */
static bool
named_type(Oid type, DcNamed *named)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));

	if (!HeapTupleIsValid(tuple))
		return false;
	named->schema = get_namespace_name(((Form_pg_type) GETSTRUCT(tuple))->typnamespace);
	named->name = pstrdup(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname));
	ReleaseSysCache(tuple);
	return named->schema != NULL;
}

/*
 * Name a collation by its OID.
 */
static bool
named_collation(Oid collation, DcNamed *named)
{
	HeapTuple tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));

	if (!HeapTupleIsValid(tuple))
		return false;
	named->schema = get_namespace_name(((Form_pg_collation) GETSTRUCT(tuple))->collnamespace);
	named->name = pstrdup(NameStr(((Form_pg_collation) GETSTRUCT(tuple))->collname));
	ReleaseSysCache(tuple);
	return named->schema != NULL;
}

/*
 * Return true if a binding names what a statement (`arg` is its DcNamed) renames.
 */
bool
source_names(const DcSourceRow *row, void *arg)
{
	DcNamed *named = arg;

	if (named->column && !OidIsValid(named->type) && !list_member_oid(named->tables, row->source))
		return false;
	if (!source_any_name(row, is_renamed, named))
		return false;
	if (OidIsValid(named->type))
	{
		ListCell *lc;

		foreach(lc, relation_ancestors(row->source))
		{
			if (relation_of_type(lfirst_oid(lc)) == named->type)
				return true;
		}
		return false;
	}
	return true;
}

/*
 * Return true if a name in a text is that of the renamed object.
 */
static bool
is_renamed(const char *schema, const char *name, void *arg)
{
	const DcNamed *named = arg;

	if (!named->column && strcmp(schema != NULL ? schema : "pg_catalog", named->schema) != 0)
		return false;
	return named->name == NULL || strcmp(name, named->name) == 0;
}

/*
 * source_any_name returns true if a function returns true for one of the names in the expressions
 * of a binding. The function is called with the schema, if there is one, and the name; it may also
 * be called for words that are not names, such as SQL keywords.
 */
bool
source_any_name(const DcSourceRow *row, DcNameTest test, void *arg)
{
	return sourcenames_in_text(row->key, test, arg) || sourcenames_in_text(row->value, test, arg) ||
		sourcenames_in_text(row->filter, test, arg) || sourcenames_in_text(row->distinct_of, test, arg);
}

/*
 * Look through the names of a text, which may be NULL.
 */
static bool
sourcenames_in_text(const char *text, DcNameTest test, void *arg)
{
	const char *at = text != NULL ? text : "";

	while (*at != '\0')
	{
		char names[2][NAMEDATALEN];

		if (*at == '\'')
		{
			at = skip_literal(at);
			continue;
		}
		if (take_identifier(at, names[0]) == at)
		{
			at++;
			continue;
		}
		at = take_identifier(at, names[0]);
		if (*at != '.' || take_identifier(at + 1, names[1]) == at + 1)
		{
			if (test(NULL, names[0], arg))
				return true;
			continue;
		}
		at = take_identifier(at + 1, names[1]);
		if (test(names[0], names[1], arg))
			return true;
	}
	return false;
}

/*
 * Return what comes after a string literal. Those that are deparsed have no escapes but the doubled
 * quote.
 */
static const char *
skip_literal(const char *at)
{
	for (at++; *at != '\0'; at++)
	{
		if (*at == '\'' && *++at != '\'')
			return at;
		if (*at == '\0')
			break;
	}
	return at;
}

/*
 * Read an identifier, quoted or not, without its quotes, and return the text after it. An
 * identifier that is too long for a name, which text that was not deparsed may contain, is
 * truncated.
 */
static const char *
take_identifier(const char *at, char *name)
{
	bool quoted = *at == '"';
	int len = 0;

	at += quoted;
	for (; *at != '\0'; at++)
	{
		if (quoted ? *at == '"' && *++at != '"' : !(isalnum((unsigned char) *at) || *at == '_' || *at == '$' || IS_HIGHBIT_SET(*at)))
			break;
		if (*at == '\0')
			break;
		if (len < NAMEDATALEN - 1)
			name[len++] = *at;
	}
	name[len] = '\0';
	return at;
}
