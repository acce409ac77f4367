/*
 * sourceexpr.c
 *		The expressions that say what a row of a source counts for.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * sourceexprcheck.c checks what an expression may consist of; sourceeval.c evaluates them.
 *
 * Expressions are stored as text, so that they survive a dump. The text is what the server's
 * deparser makes of them with settings pinned that it depends on, and it is parsed with the same
 * ones.
 *
 * A stored text is parsed in the sessions of others: of who writes to the source, or renames a type
 * that it names. The parser calls the input functions of constants, and a name may mean something
 * else than when the binding was made, such as a domain with a CHECK: dropping and renaming a type
 * does not wait for a binding that is not committed. So before a stored text is analysed, the types
 * in it are looked up, checked and replaced by their OIDs, and operators and functions must be the
 * server's (resolve_names).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_clause.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/runas.h"
#include "core/table/ownercode.h"
#include "transactional/bound/sourceexpr.h"
#include "transactional/bound/sourcesets.h"
#include "transactional/bound/sourcetext.h"

/*
 * Bytes of a stored text, in which all names are qualified. Those of all bindings are read by
 * the worker, and by DDL of other roles.
 */
#define MAX_STORED (32 * 1024)

static int pin_settings(void);
static SelectStmt *parse_select(const char *text, const char *what, bool several, bool grouped, bool stored);
static bool resolve_names(Node *node, void *arg);
static List *parse_exprs(ParseState *pstate, const char *text, const char *what, bool stored);
static List *transform_exprs(ParseState *pstate, List *targets, const char *what, bool named);
static List *parse_values(ParseState *pstate, const char *text, bool stored);
static void argument_context(void *arg);
static Node *one_expr(List *exprs, const char *what);
static ParseState *parse_begin(Relation source);
static List *parse_row(const DcSourceRow *row, const char *group_by, bool stored, Relation source);
static void check_values(List *values, Relation source);
static void check_distinct(Node *distinct_of, List *values, List *sets, Relation source);
static void check_stored_text(const char *name, const char *text);
static char *sourceexpr_deparse(Node *expr, Relation source);
static void pin_setting(const char *name, const char *value);
static bool is_read_as_key(Node *expr);

/* Settings that the text of a constant, or what is read from it, depends on. */
static const struct
{
	const char *name;
	const char *value;
} settings[] = {
	{"array_nulls", "on"},
	{"bytea_output", "hex"},
	{"datestyle", "ISO, YMD"},
	{"extra_float_digits", "1"},
	{"intervalstyle", "postgres"},
	{"lc_monetary", "C"},
	{"quote_all_identifiers", "off"},
	{"timezone", "GMT"},
	{"transform_null_equals", "off"},
	{"xmloption", "content"}};

/*
 * pin_settings is search_path_pin() for texts of expressions.
 */
static int
pin_settings(void)
{
	int level = search_path_pin();

	for (int i = 0; i < lengthof(settings); i++)
		pin_setting(settings[i].name, settings[i].value);
	if (COMPAT_STRINGS_ARE_SET)
	{
		pin_setting("escape_string_warning", "off");
		pin_setting("standard_conforming_strings", "on");
	}
	return level;
}

/*
 * Set a setting until the level of pin_settings() ends.
 */
static void
pin_setting(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Return a parse state in which expressions can name the columns of the source, with and
 * without the table's name.
 */
static ParseState *
parse_begin(Relation source)
{
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *item = addRangeTableEntryForRelation(pstate, source, AccessShareLock, NULL,
															 false, true);

	addNSItemToQuery(pstate, item, true, true, true);
	return pstate;
}

/*
 * parse_select parses a list of expressions, by the server's own grammar: what is more than that is
 * an error, but, if `grouped`, for GROUP BY. The names in the expressions of a stored text are
 * checked.
 */
static SelectStmt *
parse_select(const char *text, const char *what, bool several, bool grouped, bool stored)
{
	SelectStmt *plain = makeNode(SelectStmt);
	List *parsed = raw_parser(text, RAW_PARSE_PLPGSQL_EXPR);
	SelectStmt *select = (SelectStmt *) linitial_node(RawStmt, parsed)->stmt;

	if (IsA(select, SelectStmt))
		plain->targetList = select->targetList;
	if (IsA(select, SelectStmt) && grouped)
	{
		plain->groupClause = select->groupClause;
		plain->groupDistinct = select->groupDistinct;
	}
	if (!IsA(select, SelectStmt) || !equal(select, plain) || select->targetList == NIL ||
		(!several && list_length(select->targetList) != 1))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 several ? errmsg("%s must be an expression, or several separated by commas", what)
						 : errmsg("%s must be one expression", what)));
	if (stored)
		(void) resolve_names((Node *) select->targetList, unconstify(char *, what));
	return select;
}

/*
 * resolve_names replaces the names of types in a parsed text by OIDs, so that the analysis looks
 * none up again, and raises 0A000 for a type whose input may run a user's code, and for a user's
 * operator or function. arg is what the text is. Never returns true, so the whole text is walked.
 */
static bool
resolve_names(Node *node, void *arg)
{
	if (node == NULL)
		return false;
	if (IsA(node, A_Expr))
		source_name_check(((A_Expr *) node)->name, false, arg);
	else if (IsA(node, FuncCall))
		source_name_check(((FuncCall *) node)->funcname, true, arg);
	else if (IsA(node, SubLink))
		source_name_check(((SubLink *) node)->operName, false, arg);
	else if (IsA(node, TypeName))
	{
		TypeName *type = (TypeName *) node;

		type->typeOid = typenameTypeId(NULL, type);
		type->names = NIL;
		type->arrayBounds = NIL;
		source_type_check_input(type->typeOid, arg);
	}
	return raw_expression_tree_walker(node, resolve_names, arg);
}

/*
 * Parse the text of an argument, and return its expressions.
 */
static List *
parse_exprs(ParseState *pstate, const char *text, const char *what, bool stored)
{
	const char *argument[] = {what, text};
	ErrorContextCallback context = {error_context_stack, argument_context, argument};
	List *exprs;

	error_context_stack = &context;
	exprs = transform_exprs(pstate, parse_select(text, what, false, false, stored)->targetList, what, false);
	error_context_stack = context.previous;
	return exprs;
}

/*
 * Analyse parsed expressions. Raises an error for one with a name, unless they may have names.
 */
static List *
transform_exprs(ParseState *pstate, List *targets, const char *what, bool named)
{
	List *exprs = NIL;
	ListCell *lc;

	foreach(lc, targets)
	{
		ResTarget *target = lfirst_node(ResTarget, lc);

		if ((target->name != NULL && !named) || target->indirection != NIL)
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("an expression of %s cannot have a name", what),
					 target->name != NULL
						 ? errhint("Remove the name \"%s\". Several expressions are separated by commas.", target->name)
						 : 0));
		/* this kind accepts everything; source_expr_check() rejects what is not allowed */
		exprs = lappend(exprs, transformExpr(pstate, target->val, EXPR_KIND_OTHER));
	}
	return exprs;
}

/*
 * parse_values parses the values, as a list of TargetEntry. If there are several each has a name:
 * its own, or that of the column it is.
 */
static List *
parse_values(ParseState *pstate, const char *text, bool stored)
{
	const char *argument[] = {"value", text};
	ErrorContextCallback context = {error_context_stack, argument_context, argument};
	List *targets;
	List *exprs;
	List *values = NIL;
	bool several;

	error_context_stack = &context;
	targets = parse_select(text, "value", true, false, stored)->targetList;
	several = list_length(targets) > 1;
	exprs = transform_exprs(pstate, targets, "value", several);
	for (int i = 0; i < list_length(exprs); i++)
	{
		Node *expr = list_nth(exprs, i);
		const ResTarget *target = list_nth_node(ResTarget, targets, i);
		Oid type = getBaseType(exprType(expr));
		char *name = target->name;

		if (type != INT2OID && type != INT4OID && type != INT8OID)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("value must be of an integer type, not %s", format_type_be(exprType(expr))),
					 errhint("Cast it to bigint, in a unit that needs no fraction.")));
		if (several && name == NULL && IsA(target->val, ColumnRef))
			name = strVal(llast(((ColumnRef *) target->val)->fields));
		values = lappend(values, makeTargetEntry((Expr *) expr, i + 1, several ? name : NULL, false));
	}
	error_context_stack = context.previous;
	return values;
}

/*
 * Name the argument of dc_bind() in CONTEXT of errors; arg is its name and its text.
 */
static void
argument_context(void *arg)
{
	const char *const *argument = arg;

	errcontext("argument \"%s\" of dc_bind(): %s", argument[0], argument[1]);
}

/*
 * Return the only expression of a list, and raise an error if there is not exactly one.
 */
static Node *
one_expr(List *exprs, const char *what)
{
	Node *expr = linitial(exprs);

	if (list_length(exprs) != 1 || expr == NULL)
		elog(ERROR, "%s is not one expression", what);
	return expr;
}

/*
 * parse_row parses the expressions of a binding, with the search_path as it is. Grouping sets are
 * those of `group_by`, or, if the binding is stored, of its key.
 */
static List *
parse_row(const DcSourceRow *row, const char *group_by, bool stored, Relation source)
{
	ParseState *pstate = parse_begin(source);
	const char *argument[] = {"key", row->key};
	ErrorContextCallback context = {error_context_stack, argument_context, argument};
	SelectStmt *key;
	List *keys;
	List *sets = NIL;
	List *values;
	Node *filter = NULL;
	Node *distinct_of = NULL;

	error_context_stack = &context;
	key = parse_select(row->key, "key", true, stored, stored);
	keys = transform_exprs(pstate, key->targetList, "key", group_by != NULL);
	if (stored)
		sets = source_sets_read(key->groupClause, list_length(keys));
	else if (group_by != NULL)
	{
		SelectStmt *group;

		argument[0] = "group_by";
		argument[1] = group_by;
		group = parse_select(psprintf("1 GROUP BY %s", group_by), "group_by", false, true, false);
		sets = source_sets_analyse(key->targetList, group->groupClause, group->groupDistinct, source);
	}
	error_context_stack = context.previous;
	values = parse_values(pstate, row->value, stored);
	if (row->filter != NULL)
		filter = coerce_to_boolean(pstate, one_expr(parse_exprs(pstate, row->filter, "filter", stored), "filter"),
								   "filter");
	if (row->distinct_of != NULL)
		distinct_of = one_expr(parse_exprs(pstate, row->distinct_of, "distinct_of", stored),
							   "distinct_of");
	assign_expr_collations(pstate, (Node *) keys);
	assign_expr_collations(pstate, (Node *) values);
	assign_expr_collations(pstate, filter);
	assign_expr_collations(pstate, distinct_of);
	free_parsestate(pstate);
	return list_make5(keys, values, filter, distinct_of, sets);
}

/*
 * source_parse parses the stored expressions of a binding; the source is open and locked.
 */
List *
source_parse(const DcSourceRow *row, Relation source)
{
	int level = pin_settings();
	List *parsed = parse_row(row, NULL, true, source);

	AtEOXact_GUC(false, level);
	return parsed;
}

/*
 * source_deparse sets the texts of a binding's expressions by what they were parsed to,
 * with the names that there are now.
 */
void
source_deparse(DcSourceRow *row, List *parsed, Relation source)
{
	int level = pin_settings();
	StringInfoData keys;
	StringInfoData values;
	ListCell *lc;

	initStringInfo(&keys);
	initStringInfo(&values);
	foreach(lc, (List *) list_nth(parsed, PARSED_KEYS))
		appendStringInfo(&keys, "%s%s", keys.len > 0 ? ", " : "", sourceexpr_deparse(lfirst(lc), source));
	source_sets_append(&keys, list_nth(parsed, PARSED_SETS));
	foreach(lc, (List *) list_nth(parsed, PARSED_VALUES))
	{
		const TargetEntry *value = lfirst_node(TargetEntry, lc);

		appendStringInfo(&values, "%s%s", values.len > 0 ? ", " : "", sourceexpr_deparse((Node *) value->expr, source));
		if (value->resname != NULL)
			appendStringInfo(&values, " AS %s", quote_identifier(value->resname));
	}
	row->key = keys.data;
	row->value = values.data;
	row->filter = sourceexpr_deparse(list_nth(parsed, PARSED_FILTER), source);
	row->distinct_of = sourceexpr_deparse(list_nth(parsed, PARSED_DISTINCT_OF), source);
	AtEOXact_GUC(false, level);
}

/*
 * check_stored_text raises 54000 for a text that has become too long: ROW(t.*) names each
 * column. Only dc_bind() checks this: names in it may become longer later, when another role
 * renames its objects.
 */
static void
check_stored_text(const char *name, const char *text)
{
	if (text != NULL)
		check_length(name, strlen(text), 1, MAX_STORED);
}

/*
 * Return the text of an expression on the source, NULL for NULL.
 */
static char *
sourceexpr_deparse(Node *expr, Relation source)
{
	if (expr == NULL)
		return NULL;
	return deparse_expression(expr, deparse_context_for(RelationGetRelationName(source), RelationGetRelid(source)),
							  false, false);
}

/*
 * source_expressions_check checks the expressions that the caller has given, by the names of
 * the caller's search_path, and replaces them by the texts to be stored.
 *
 * Errors: 42601 if one is not an expression, 42804 for types that will not do, 42P17 if one is not
 * immutable, or has a subquery, an aggregate or the like, 0A000 for code of users, and those of
 * source_sets_analyse().
 */
void
source_expressions_check(DcSourceRow *row, const char *group_by, Relation source)
{
	List *parsed = parse_row(row, group_by, false, source);
	List *values = list_nth(parsed, PARSED_VALUES);
	List *sets = list_nth(parsed, PARSED_SETS);
	Node *distinct_of = list_nth(parsed, PARSED_DISTINCT_OF);
	ListCell *lc;

	foreach(lc, (List *) list_nth(parsed, PARSED_KEYS))
	{
		source_expr_check(lfirst(lc), source, "key");
		source_expr_check(sourcetext_cast(lfirst(lc), "key"), source, "key");
	}
	check_values(values, source);
	source_expr_check(list_nth(parsed, PARSED_FILTER), source, "filter");
	if (distinct_of != NULL)
		check_distinct(distinct_of, values, sets, source);
	source_deparse(row, parsed, source);
	check_stored_text("key", row->key);
	check_stored_text("value", row->value);
	check_stored_text("filter", row->filter);
	check_stored_text("distinct_of", row->distinct_of);
	(void) source_parse(row, source); /* as each session will */
}

/*
 * Check the expressions of value: how many there are, what they consist of, and their names.
 */
static void
check_values(List *values, Relation source)
{
	List *names = NIL;
	ListCell *lc;

	if (list_length(values) > SOURCE_MAX_VALUES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("value has more than %d expressions", SOURCE_MAX_VALUES)));
	foreach(lc, values)
	{
		const TargetEntry *value = lfirst_node(TargetEntry, lc);

		source_expr_check((Node *) value->expr, source, "value");
		if (list_length(values) == 1)
			continue;
		if (value->resname == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("each of several values must have a name"),
					 errdetail("The name is the last element of the keys."),
					 errhint("For example: value => '1 AS comments, length(body) AS bytes'.")));
		if (list_member(names, makeString(value->resname)))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_ALIAS),
					 errmsg("two values have the name \"%s\"", value->resname)));
		names = lappend(names, makeString(value->resname));
	}
}

/*
 * Check distinct_of, with which there is one value, 1, and no group_by.
 */
static void
check_distinct(Node *distinct_of, List *values, List *sets, Relation source)
{
	const Const *value = (Const *) linitial_node(TargetEntry, values)->expr;

	if (sets != NIL || list_length(values) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("distinct_of cannot be used with group_by or several values")));
	source_expr_check(distinct_of, source, "distinct_of");
	source_expr_check(sourcetext_cast(distinct_of, "distinct_of"), source, "distinct_of");
	source_item_check(distinct_of);
	if (!IsA(value, Const) || value->constisnull || DatumGetInt64(value->constvalue) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("value must be 1 with distinct_of")));
}

/*
 * source_columns returns the numbers of the columns that the expressions of a binding name.
 */
Bitmapset *
source_columns(const DcSourceRow *row, Relation source)
{
	List *vars = pull_var_clause((Node *) source_parse(row, source), 0);
	Bitmapset *columns = NULL;
	ListCell *lc;

	foreach(lc, vars)
		columns = bms_add_member(columns, lfirst_node(Var, lc)->varattno);
	return columns;
}

/*
 * Return true if the worker may evaluate the expressions: none takes a long time, or much memory
 * (core/table/ownercodeexpr.c).
 */
bool
source_is_harmless(const DcSourceRow *row, Relation source)
{
	List *parsed = source_parse(row, source);
	List *texts = lappend(list_copy(list_nth(parsed, PARSED_KEYS)), list_nth(parsed, PARSED_DISTINCT_OF));
	List *rest = list_make1(list_nth(parsed, PARSED_FILTER));
	ListCell *lc;

	foreach(lc, (List *) list_nth(parsed, PARSED_VALUES))
		rest = lappend(rest, lfirst_node(TargetEntry, lc)->expr);
	foreach(lc, texts)
	{
		if (lfirst(lc) != NULL && !is_read_as_key(lfirst(lc)))
			rest = lappend(rest, lfirst(lc));
	}
	return !ownercode_in_expression((Node *) rest);
}

/*
 * Return true if an expression is a column that is not read further than a key can be long
 * (sourcetext.c), or a number or an enum, whose values are never long. The text of another type may
 * be made of a gigabyte.
 */
static bool
is_read_as_key(Node *expr)
{
	Oid type = getBaseType(exprType(expr));

	return IsA(expr, Var) && (type == TEXTOID || type == VARCHAROID || type == NUMERICOID || get_typtype(type) == TYPTYPE_ENUM);
}
