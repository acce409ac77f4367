/*
 * ownercodeexpr.c
 *		Which expressions on a table are harmless to the process that evaluates them.
 *
 * Code of users is not, nor is an expression that takes long: it is evaluated without
 * a look at the interrupts between its parts, so a cancel, and the end of the server,
 * would wait for all of it; and a few large strings are all of the memory. The server has
 * immutable functions for both: products of numbers of 100000 digits, repeat(), xpath().
 * So an expression is harmless if it consists of
 *
 *	- node types that are listed here, of the server's types;
 *	- immutable functions of the server that are given, and return, values of fixed length
 *	  only, or are listed here: these take time in proportion to their arguments, and
 *	  return no more than that. Besides there are a few others, as now(). Not listed is what
 *	  looks for one string in another, which takes the product of both, or more than any power of
 *	  it, if it is a regular expression; nor what fills a cache of the process, as timezone();
 *	- columns of fixed length, and those of the primary key, which an index limits. In
 *	  others an owner may have strings of a gigabyte. Of these no more is looked at than
 *	  whether they are null, how long they are, and whether they are equal to a constant, as
 *	  strings of different lengths are not compared.
 *
 * And all expressions on a table together have a limit, constants included.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "table/ownercode.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* Bytes of all expressions of a table, as they are stored. */
#define MAX_STORED (8 * 1024)

/* Functions of the server, by their names: all of a name do the same. */
static const char *const harmless[] = {
	"ascii", "bit_length", "bpchar", "bpcharcmp", "bpchareq", "bpcharge", "bpchargt",
	"bpcharle", "bpcharlt", "bpcharne", "char_length", "character_length", "date_part",
	"date_trunc", "extract", "float4", "float8", "hashtext", "hashtextextended",
	"initcap", "int2", "int4", "int8", "left", "length", "lower", "md5", "numeric",
	"numeric_cmp", "numeric_eq", "numeric_ge", "numeric_gt", "numeric_le", "numeric_lt",
	"numeric_ne", "numeric_out", "octet_length", "reverse", "right", "starts_with",
	"substr", "text", "text_ge", "text_gt", "text_larger", "text_le", "text_lt",
	"text_pattern_ge", "text_pattern_gt", "text_pattern_le", "text_pattern_lt",
	"text_smaller", "textcat", "texteq", "textin", "textlen", "textne", "textout",
	"upper", "varchar", "varcharout"};

/* Bytes of the expressions that were looked at, of the table that is. */
static Size stored_bytes;

static bool code_walker(Node *node, void *rel);
static bool planned_walker(Node *node, void *context);
static bool is_untrusted_function(Oid function, void *context);
static bool is_folded(Node *node);
static bool folded_walker(Node *node, void *has_column);
static bool reads_little(Node *node);
static bool is_equal_operator(Oid opno, List *args);
static bool is_known_node(Node *node, bool *has_type);
static bool is_limited(Relation rel, const Var *var);
static bool is_code_function(Oid function, void *context);
static bool is_harmless_function(Oid function);
static bool is_listed(const char *name);
static bool has_fixed_lengths(Form_pg_proc form);
static bool is_fixed_length(Oid type);
static bool count_vars(Node *node, void *count);

/*
 * ownercode_expressions_begin is called before the expressions of a table are looked at.
 */
void
ownercode_expressions_begin(Relation rel)
{
	stored_bytes = 0;
}

/*
 * ownercode_in_stored tells whether a stored expression, or list of them, is not harmless.
 * Columns are those of a relation; without one, they are of fixed length only.
 */
bool
ownercode_in_stored(Relation rel, const char *stored)
{
	stored_bytes += strlen(stored);
	return stored_bytes > MAX_STORED || code_walker(stringToNode(stored), rel);
}

/*
 * ownercode_in_expression does the same for one that is being made.
 */
bool
ownercode_in_expression(Relation rel, Node *expression)
{
	return code_walker(expression, rel);
}

/*
 * Return true if code of users may run, or something take long, when a stored expression, or list of them, is planned: then
 * no column has a value, but what is constant is evaluated.
 */
bool
ownercode_in_planned(const char *stored)
{
	stored_bytes += strlen(stored);
	return stored_bytes > MAX_STORED || planned_walker(stringToNode(stored), NULL);
}

static bool
planned_walker(Node *node, void *context)
{
	bool has_type;

	if (node == NULL)
		return false;
	if (!is_known_node(node, &has_type) || check_functions_in_node(node, is_untrusted_function, NULL))
		return true;
	switch (nodeTag(node))
	{
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_MinMaxExpr:
			if (is_folded(node) && code_walker(node, NULL))
				return true;
			break;
		default:
			break;
	}
	return expression_tree_walker(node, planned_walker, context);
}

static bool
is_untrusted_function(Oid function, void *context)
{
	return !is_trusted_object(ProcedureRelationId, function);
}

/*
 * Return true if the planner may make a constant of an expression. It does not if there is a column, no NULL, and nothing but
 * functions, which need all of their arguments, and COALESCE, which needs the first one.
 */
static bool
is_folded(Node *node)
{
	bool has_column = false;

	return folded_walker(node, &has_column) || !has_column;
}

static bool
folded_walker(Node *node, void *has_column)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			*(bool *) has_column = true;
			return false;
		case T_Const:
			return ((Const *) node)->constisnull;
		case T_FuncExpr:
		case T_OpExpr:
		case T_ScalarArrayOpExpr:
		case T_ArrayExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_CollateExpr:
		case T_NullTest:
		case T_List:
			return expression_tree_walker(node, folded_walker, has_column);
		case T_CoalesceExpr:
			if (is_folded(linitial(((CoalesceExpr *) node)->args)))
				return true;
			*(bool *) has_column = true;
			return false;
		default:
			return true;
	}
}

static bool
code_walker(Node *node, void *rel)
{
	bool has_type;

	if (node == NULL)
		return false;
	if (reads_little(node))
		return false;
	if (!is_known_node(node, &has_type) ||
		(has_type && !is_trusted_object(TypeRelationId, exprType(node))) ||
		(IsA(node, Var) && !is_limited(rel, (Var *) node)) ||
		check_functions_in_node(node, is_code_function, NULL))
		return true;
	return expression_tree_walker(node, code_walker, rel);
}

/*
 * reads_little tells whether a node takes a column of a type of the server's, however long
 * a value of it is, and reads but a little of it.
 */
static bool
reads_little(Node *node)
{
	switch (nodeTag(node))
	{
		case T_NullTest:
			return IsA(((NullTest *) node)->arg, Var) &&
				is_trusted_object(TypeRelationId, exprType((Node *) ((NullTest *) node)->arg));
		case T_FuncExpr:
			return ((FuncExpr *) node)->funcid == F_OCTET_LENGTH_TEXT &&
				IsA(linitial(((FuncExpr *) node)->args), Var);
		case T_OpExpr:
			return is_equal_operator(((OpExpr *) node)->opno, ((OpExpr *) node)->args);
		case T_ScalarArrayOpExpr:
			return is_equal_operator(((ScalarArrayOpExpr *) node)->opno,
									 ((ScalarArrayOpExpr *) node)->args);
		default:
			return false;
	}
}

/*
 * is_equal_operator tells whether an operator compares a column with an expression without columns.
 */
static bool
is_equal_operator(Oid opno, List *args)
{
	RegProcedure function = get_opcode(opno);
	int vars = 0;

	if (function != F_TEXTEQ && function != F_TEXTNE)
		return false;
	(void) count_vars(lsecond(args), &vars);
	return IsA(linitial(args), Var) && vars == 0 && !code_walker(lsecond(args), NULL);
}

/*
 * is_known_node tells whether a node calls nothing but what check_functions_in_node()
 * finds, and what the types of its arguments are compared with.
 */
static bool
is_known_node(Node *node, bool *has_type)
{
	*has_type = true;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Const:
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_CollateExpr:
		case T_CaseExpr:
		case T_CaseTestExpr:
		case T_ArrayExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_SQLValueFunction:
			return true;
		case T_List:
		case T_CaseWhen:
			*has_type = false;
			return true;
		default:
			return false;
	}
}

/*
 * is_limited tells whether values of a column cannot be long.
 */
static bool
is_limited(Relation rel, const Var *var)
{
	return is_fixed_length(var->vartype) ||
		(rel != NULL && ownercode_is_limited(rel, var->varattno));
}

/*
 * ownercode_is_limited tells the same of a column by its number.
 */
bool
ownercode_is_limited(Relation rel, AttrNumber att)
{
	Bitmapset *key;
	bool found;

	if (att > 0 && is_fixed_length(TupleDescAttr(RelationGetDescr(rel), att - 1)->atttypid))
		return true;
	key = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_PRIMARY_KEY);
	found = bms_is_member(att - FirstLowInvalidHeapAttributeNumber, key);
	bms_free(key);
	return found;
}

static bool
is_code_function(Oid function, void *context)
{
	switch (function)
	{
		case F_NOW:
		case F_TRANSACTION_TIMESTAMP:
		case F_STATEMENT_TIMESTAMP:
		case F_CLOCK_TIMESTAMP:
		case F_GEN_RANDOM_UUID:
		case F_NEXTVAL:
			return false;
		case F_SATISFIES_HASH_PARTITION: /* evaluates another table's partition key */
			return true;
		default:
			break;
	}
	return function >= FirstUnpinnedObjectId || func_volatile(function) != PROVOLATILE_IMMUTABLE ||
		!is_harmless_function(function);
}

/*
 * is_harmless_function returns true if a function of the server is harmless.
 */
static bool
is_harmless_function(Oid function)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc form;
	bool known;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	known = has_fixed_lengths(form) || is_listed(NameStr(form->proname));
	ReleaseSysCache(tuple);
	return known;
}

static bool
is_listed(const char *name)
{
	for (int i = 0; i < lengthof(harmless); i++)
	{
		if (strcmp(name, harmless[i]) == 0)
			return true;
	}
	return false;
}

static bool
has_fixed_lengths(Form_pg_proc form)
{
	if (form->proretset || !is_fixed_length(form->prorettype))
		return false;
	for (int i = 0; i < form->pronargs; i++)
	{
		if (!is_fixed_length(form->proargtypes.values[i]))
			return false;
	}
	return true;
}

/*
 * is_fixed_length tells whether values of a type are of fixed length; a cstring here is
 * the text of one.
 */
static bool
is_fixed_length(Oid type)
{
	return type == CSTRINGOID || (get_typlen(type) > 0 && get_typtype(type) == TYPTYPE_BASE);
}

/*
 * count_vars counts columns, and nodes that stand for another value.
 */
static bool
count_vars(Node *node, void *count)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) || IsA(node, CaseTestExpr))
		(*(int *) count)++;
	return expression_tree_walker(node, count_vars, count);
}
