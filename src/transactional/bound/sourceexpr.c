/*
 * sourceexpr.c
 *		The expressions that say what a row of a source counts for.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The trigger that counts a change and the scan that compares use the same code, so they
 * cannot disagree. A row counts if the filter is true, no part of the key is null, and
 * the value is neither null nor zero.
 *
 * What an expression may consist of is told by sourceexprcheck.c, how it is written by sourcetext.c.
 *
 * Expressions are stored as text, so that they survive a dump. The text is what the server's
 * deparser makes of them with settings pinned that it depends on, and it is parsed with the same
 * ones.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/partition.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "executor/executor.h"
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
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "core/table/ownercode.h"
#include "transactional/bound/sourceexpr.h"
#include "transactional/bound/sourcetext.h"

/*
 * Bytes of a text that is stored, which has all names whole. Those of all bindings are read by the worker, and by DDL of other roles.
 */
#define MAX_STORED (32 * 1024)

/* The members of the list that source_parse() returns. */
enum
{
	PARSED_KEYS, /* a list */
	PARSED_VALUE,
	PARSED_FILTER,		/* or NULL */
	PARSED_DISTINCT_OF, /* or NULL */
	PARSED_COUNT
};

struct DcSourceEval
{
	ExprContext *context;
	MemoryContext cxt;
	DcTextOf key;	   /* of one expression, */
	int nelements;	   /* or 0: */
	DcTextOf *elements; /* of several */
	StringInfoData array; /* the text of the latter, for one row */
	DcTextOf value; /* of type bigint if it is an expression */
	int64 constant; /* instead, if it is not 0 */
	ExprState *filter;
	DcTextOf item;
	bool distinct;
};

static int pin_settings(void);
static List *parse_exprs(ParseState *pstate, const char *text, const char *what, bool several);
static void argument_context(void *arg);
static Node *one_expr(List *exprs, const char *what);
static ParseState *parse_begin(Relation source);
static void check_stored_text(const char *name, const char *text);
static char *sourceexpr_deparse(Node *expr, Relation source);
static void make_key(DcSourceEval *eval, List *keys);
static bool key_of(DcSourceEval *eval, TupleTableSlot *slot, DcKey *key);
static bool value_of(DcSourceEval *eval, TupleTableSlot *slot, int64 *value);

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
	{"escape_string_warning", "off"},
	{"intervalstyle", "postgres"},
	{"lc_monetary", "C"},
	{"quote_all_identifiers", "off"},
	{"standard_conforming_strings", "on"},
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
		(void) set_config_option(settings[i].name, settings[i].value, PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	return level;
}

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
 * parse_exprs parses a list of expressions, by the server's own grammar: what is more than
 * that is an error.
 */
static List *
parse_exprs(ParseState *pstate, const char *text, const char *what, bool several)
{
	const char *argument[] = {what, text};
	ErrorContextCallback context = {error_context_stack, argument_context, argument};
	SelectStmt *plain = makeNode(SelectStmt);
	SelectStmt *select;
	List *parsed;
	List *exprs = NIL;
	ListCell *lc;

	error_context_stack = &context;
	parsed = raw_parser(text, RAW_PARSE_PLPGSQL_EXPR);
	select = (SelectStmt *) linitial_node(RawStmt, parsed)->stmt;
	if (IsA(select, SelectStmt))
		plain->targetList = select->targetList;
	if (!IsA(select, SelectStmt) || !equal(select, plain) || select->targetList == NIL ||
		(!several && list_length(select->targetList) != 1))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 several ? errmsg("%s must be an expression, or several with commas in between", what)
						 : errmsg("%s must be one expression", what)));
	foreach(lc, select->targetList)
	{
		ResTarget *target = lfirst_node(ResTarget, lc);

		if (target->name != NULL || target->indirection != NIL)
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("an expression of %s cannot have a name", what)));
		/* a kind that lets all pass: what may not be there is told by source_expr_check() */
		exprs = lappend(exprs, transformExpr(pstate, target->val, EXPR_KIND_OTHER));
	}
	error_context_stack = context.previous;
	return exprs;
}

static void
argument_context(void *arg)
{
	const char *const *argument = arg;

	errcontext("argument \"%s\" of dc_bind(): %s", argument[0], argument[1]);
}

static Node *
one_expr(List *exprs, const char *what)
{
	Node *expr = linitial(exprs);

	if (list_length(exprs) != 1 || expr == NULL)
		elog(ERROR, "%s is not one expression", what);
	return expr;
}

/*
 * parse_row parses the expressions of a binding, with the search_path as it is.
 */
static List *
parse_row(const DcSourceRow *row, Relation source)
{
	ParseState *pstate = parse_begin(source);
	List *keys = parse_exprs(pstate, row->key, "key", true);
	Node *value = one_expr(parse_exprs(pstate, row->value, "value", false), "value");
	Node *filter = NULL;
	Node *distinct_of = NULL;
	Oid type = getBaseType(exprType(value));

	if (type != INT2OID && type != INT4OID && type != INT8OID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("value must be of an integer type, not %s", format_type_be(exprType(value))),
				 errhint("Cast it to bigint, in a unit that needs no fraction.")));
	if (row->filter != NULL)
		filter = coerce_to_boolean(pstate, one_expr(parse_exprs(pstate, row->filter, "filter", false), "filter"),
								   "filter");
	if (row->distinct_of != NULL)
		distinct_of = one_expr(parse_exprs(pstate, row->distinct_of, "distinct_of", false),
							   "distinct_of");
	assign_expr_collations(pstate, (Node *) keys);
	assign_expr_collations(pstate, value);
	assign_expr_collations(pstate, filter);
	assign_expr_collations(pstate, distinct_of);
	free_parsestate(pstate);
	return list_make4(keys, value, filter, distinct_of);
}

/*
 * source_parse parses the stored expressions of a binding; the source is open and locked.
 */
List *
source_parse(const DcSourceRow *row, Relation source)
{
	int level = pin_settings();
	List *parsed = parse_row(row, source);

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
	ListCell *lc;

	initStringInfo(&keys);
	foreach(lc, (List *) list_nth(parsed, PARSED_KEYS))
		appendStringInfo(&keys, "%s%s", keys.len > 0 ? ", " : "", sourceexpr_deparse(lfirst(lc), source));
	row->key = keys.data;
	row->value = sourceexpr_deparse(list_nth(parsed, PARSED_VALUE), source);
	row->filter = sourceexpr_deparse(list_nth(parsed, PARSED_FILTER), source);
	row->distinct_of = sourceexpr_deparse(list_nth(parsed, PARSED_DISTINCT_OF), source);
	AtEOXact_GUC(false, level);
}

/*
 * check_stored_text raises 54000 for a text that has become too long: ROW(t.*) names each column. Only for the one who binds: names in it may
 * become longer when another role renames what is theirs.
 */
static void
check_stored_text(const char *name, const char *text)
{
	if (text != NULL)
		check_length(name, strlen(text), 1, MAX_STORED);
}

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
 * Errors: 42601 if one is not an expression, 42804 for types that will not do, 42P17 if one is
 * not immutable, or has a subquery, an aggregate or the like, 0A000 for code of users.
 */
void
source_expressions_check(DcSourceRow *row, Relation source)
{
	List *parsed = parse_row(row, source);
	List *keys = list_nth(parsed, PARSED_KEYS);
	Node *distinct_of = list_nth(parsed, PARSED_DISTINCT_OF);
	Node *value = list_nth(parsed, PARSED_VALUE);
	ListCell *lc;

	foreach(lc, keys)
	{
		source_expr_check(lfirst(lc), source, "key");
		source_expr_check(sourcetext_cast(lfirst(lc), "key"), source, "key");
	}
	source_expr_check(value, source, "value");
	source_expr_check(list_nth(parsed, PARSED_FILTER), source, "filter");
	if (distinct_of != NULL)
	{
		source_expr_check(distinct_of, source, "distinct_of");
		source_expr_check(sourcetext_cast(distinct_of, "distinct_of"), source, "distinct_of");
		source_item_check(distinct_of);
		if (!IsA(value, Const) || ((Const *) value)->constisnull ||
			DatumGetInt64(((Const *) value)->constvalue) != 1)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("value must be 1 with distinct_of")));
	}
	source_deparse(row, parsed, source);
	check_stored_text("key", row->key);
	check_stored_text("value", row->value);
	check_stored_text("filter", row->filter);
	check_stored_text("distinct_of", row->distinct_of);
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
 * Return true if the worker may evaluate the expressions: none takes long, or
 * much memory (core/table/ownercodeexpr.c). A key that is a plain column is not read further than
 * a key can be long.
 */
bool
source_is_harmless(const DcSourceRow *row, Relation source)
{
	List *parsed = source_parse(row, source);
	List *keys = list_nth(parsed, PARSED_KEYS);
	List *rest = list_make2(list_nth(parsed, PARSED_VALUE), list_nth(parsed, PARSED_FILTER));
	Node *item = list_nth(parsed, PARSED_DISTINCT_OF);

	ownercode_expressions_begin();
	if (list_length(keys) > 1 || !IsA(linitial(keys), Var))
		rest = list_concat(rest, keys);
	if (item != NULL && !IsA(item, Var))
		rest = lappend(rest, item);
	return !ownercode_in_expression((Node *) rest);
}

/*
 * source_eval_make prepares the expressions for rows of `rel`: the source, or a partition of
 * it. Both are open and locked. What is made lives in a new child of `cxt`.
 */
DcSourceEval *
source_eval_make(const DcSourceRow *row, Relation source, Relation rel, MemoryContext cxt)
{
	MemoryContext own = AllocSetContextCreate(cxt, "dcounter source expressions", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(own);
	DcSourceEval *eval = palloc0(sizeof(DcSourceEval));
	List *parsed = source_parse(row, source);
	Node *filter;
	Node *value;

	if (RelationGetRelid(rel) != RelationGetRelid(source))
		parsed = map_partition_varattnos(parsed, 1, rel, source);
	filter = list_nth(parsed, PARSED_FILTER);
	value = list_nth(parsed, PARSED_VALUE);
	eval->cxt = own;
	eval->context = CreateStandaloneExprContext();
	make_key(eval, list_nth(parsed, PARSED_KEYS));
	if (IsA(value, Const) && !((Const *) value)->constisnull && ((Const *) value)->consttype == INT4OID)
		eval->constant = DatumGetInt32(((Const *) value)->constvalue);
	if (eval->constant == 0)
		sourcetext_make(&eval->value, coerce_to_target_type(NULL, value, exprType(value), INT8OID, -1, COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1));
	if (filter != NULL)
		eval->filter = ExecInitExpr(expression_planner((Expr *) filter), NULL);
	eval->distinct = list_nth(parsed, PARSED_DISTINCT_OF) != NULL;
	if (eval->distinct)
		sourcetext_make(&eval->item, sourcetext_cast(list_nth(parsed, PARSED_DISTINCT_OF), "distinct_of"));
	MemoryContextSwitchTo(old);
	return eval;
}

static void
make_key(DcSourceEval *eval, List *keys)
{
	ListCell *lc;

	if (list_length(keys) == 1)
	{
		sourcetext_make(&eval->key, sourcetext_cast(linitial(keys), "key"));
		return;
	}
	initStringInfo(&eval->array);
	eval->elements = palloc0(list_length(keys) * sizeof(DcTextOf));
	foreach(lc, keys)
		sourcetext_make_element(&eval->elements[eval->nelements++], lfirst(lc));
}

/*
 * Return true if a row counts, and for what. The result may point into the row, and
 * into memory that source_eval_reset() frees.
 */
bool
source_eval(DcSourceEval *eval, TupleTableSlot *slot, DcCounted *counted)
{
	MemoryContext old = MemoryContextSwitchTo(eval->context->ecxt_per_tuple_memory);
	bool counts = true;

	eval->context->ecxt_scantuple = slot;
	if (eval->filter != NULL)
	{
		bool isnull;

		counts = DatumGetBool(ExecEvalExpr(eval->filter, eval->context, &isnull)) && !isnull;
	}
	counts = counts && value_of(eval, slot, &counted->value) &&
		key_of(eval, slot, &counted->key) &&
		(!eval->distinct || sourcetext_key(&eval->item, eval->context, slot, &counted->item));
	MemoryContextSwitchTo(old);
	return counts;
}

/*
 * Return true if the value of a row is neither null nor zero.
 */
static bool
value_of(DcSourceEval *eval, TupleTableSlot *slot, int64 *value)
{
	if (eval->constant != 0)
	{
		*value = eval->constant;
		return true;
	}
	return sourcetext_number(&eval->value, eval->context, slot, value) && *value != 0;
}

/*
 * key_of makes the key of a row; false if a part of it is null. One that is too long is an error (54000).
 */
static bool
key_of(DcSourceEval *eval, TupleTableSlot *slot, DcKey *key)
{
	if (eval->nelements == 0)
		return sourcetext_key(&eval->key, eval->context, slot, key);
	resetStringInfo(&eval->array);
	for (int i = 0; i < eval->nelements; i++)
	{
		appendStringInfoString(&eval->array, i > 0 ? ", " : "[");
		if (!sourcetext_element(&eval->elements[i], eval->context, slot, &eval->array))
			return false;
	}
	appendStringInfoChar(&eval->array, ']');
	check_length("counter key", eval->array.len, 0, DC_MAX_KEY_BYTES);
	key->data = eval->array.data;
	key->len = eval->array.len;
	return true;
}

/*
 * source_eval_reset frees the memory of what was evaluated since the last call.
 */
void
source_eval_reset(DcSourceEval *eval)
{
	ResetExprContext(eval->context);
}

void
source_eval_free(DcSourceEval *eval)
{
	FreeExprContext(eval->context, true);
	MemoryContextDelete(eval->cxt);
}

/*
 * source_eval_key_column returns the number of the column that is the key, in the relation that
 * the expressions were prepared for; 0 if it is an expression, or of a type that is not looked for by indexes.
 */
AttrNumber
source_eval_key_column(const DcSourceEval *eval)
{
	return eval->key.base == DATEOID ? 0 : eval->key.column;
}

/*
 * source_eval_constant returns what each row counts for whose key is not null, if that is the same
 * for all; else 0.
 */
int64
source_eval_constant(const DcSourceEval *eval)
{
	return eval->filter == NULL && !eval->distinct ? eval->constant : 0;
}
