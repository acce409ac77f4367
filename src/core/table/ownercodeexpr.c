/*
 * ownercodeexpr.c
 *		Finding expressions on a table that are harmless to the process that evaluates them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Code of users is not, nor is an expression that takes a long time: it is evaluated without a
 * check for interrupts between its parts, so a cancel, and the shutdown of the server, would wait
 * for all of it; and a few large strings can use up all memory. The server has immutable functions
 * for both: products of numbers of 100000 digits, repeat(), xpath(). So an expression is harmless
 * if it consists of
 *
 *	- node types that are listed here, of the server's types;
 *	- immutable functions of the server, or of the extension, that are given, and return, values of
 *	  fixed length only, and a few others that do little, such as now(). Functions of strings are
 *	  not among them: their time and memory depend on what they are given, and an owner may have
 *	  strings of a gigabyte;
 *	- columns of fixed length. Of other columns, only tests for null, their length, and equality
 *	  with a constant are allowed, as strings of different lengths are not compared;
 *	- the text of a value of fixed length.
 *
 * And all expressions on a table together have a limit, constants included.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "core/table/ownercode.h"

/* Bytes of all expressions of a table, as they are stored. */
#define MAX_STORED (8 * 1024)

/* Bytes of the expressions that were checked, of the table that is. */
static Size stored_bytes;

static bool code_walker(Node *node, void *context);
static bool reads_little(Node *node);
static bool is_plain_column(Node *node);
static bool is_short_constant(const FuncExpr *expr);
static bool is_short_text(const CoerceViaIO *expr);
static bool is_equal_operator(Oid opno, Oid collation, List *args);
static bool is_known_node(Node *node, bool *has_type);
static bool has_owner_operator(Node *node);
static bool is_code_function(Oid function, void *context);
static bool has_fixed_lengths(Oid function);
static bool is_fixed_length(Oid type);
static bool count_vars(Node *node, void *count);

/*
 * Return true if an object is the server's, or this extension's. The
 * collations of the operating system are among the server's.
 */
bool
is_trusted_object(Oid classid, Oid oid)
{
	Oid extension;

	if (oid < (classid == CollationRelationId ? FirstNormalObjectId : FirstUnpinnedObjectId))
		return true;
	extension = getExtensionOfObject(classid, oid);
	return OidIsValid(extension) && extension == get_extension_oid("dcounter", true);
}

/*
 * ownercode_expressions_begin is called before the expressions of a table are checked.
 */
void
ownercode_expressions_begin(void)
{
	stored_bytes = 0;
}

/*
 * Return true if a stored expression, or list of them, is not harmless.
 */
bool
ownercode_in_stored(const char *stored)
{
	stored_bytes += strlen(stored);
	return stored_bytes > MAX_STORED || code_walker(stringToNode(stored), NULL);
}

/*
 * Do the same for the condition of one of our triggers; *bytes: of those of its table so far.
 */
bool
ownercode_in_condition(const char *stored, Size *bytes)
{
	*bytes += strlen(stored);
	return *bytes > MAX_STORED || code_walker(stringToNode(stored), NULL);
}

/*
 * Do the same for an expression that is not stored.
 */
bool
ownercode_in_expression(Node *expression)
{
	return code_walker(expression, NULL);
}

/*
 * Return true if an expression has a node that is not known to be harmless.
 */
static bool
code_walker(Node *node, void *context)
{
	bool has_type;

	if (node == NULL)
		return false;
	if (reads_little(node))
		return false;
	if (!is_known_node(node, &has_type) ||
		(has_type && !is_trusted_object(TypeRelationId, exprType(node))) ||
		(IsA(node, Var) && !is_fixed_length(((Var *) node)->vartype)) ||
		has_owner_operator(node) || check_functions_in_node(node, is_code_function, NULL))
		return true;
	return expression_tree_walker(node, code_walker, context);
}

/*
 * Return true if a node takes a column of a type of the server's, however long a value of it is,
 * and reads but a little of it, or makes the text of a short value.
 */
static bool
reads_little(Node *node)
{
	switch (nodeTag(node))
	{
		case T_NullTest:
			return is_plain_column((Node *) ((NullTest *) node)->arg) &&
				is_trusted_object(TypeRelationId, exprType((Node *) ((NullTest *) node)->arg));
		case T_FuncExpr:
			return is_short_constant((FuncExpr *) node) ||
				(((FuncExpr *) node)->funcid == F_OCTET_LENGTH_TEXT &&
				 is_plain_column(linitial(((FuncExpr *) node)->args)));
		case T_OpExpr:
			return is_equal_operator(((OpExpr *) node)->opno, ((OpExpr *) node)->inputcollid, ((OpExpr *) node)->args);
		case T_ScalarArrayOpExpr:
			return is_equal_operator(((ScalarArrayOpExpr *) node)->opno, ((ScalarArrayOpExpr *) node)->inputcollid,
									 ((ScalarArrayOpExpr *) node)->args);
		case T_CoerceViaIO:
			return is_short_text((CoerceViaIO *) node);
		default:
			return false;
	}
}

/*
 * Return true if a node is a column, perhaps as another type of the same form, as varchar is one of
 * text.
 */
static bool
is_plain_column(Node *node)
{
	return IsA(node, Var) || (IsA(node, RelabelType) && IsA(((RelabelType *) node)->arg, Var));
}

/*
 * Return true if a call makes a constant one of a type with a length: defaults are stored so.
 */
static bool
is_short_constant(const FuncExpr *expr)
{
	ListCell *lc;

	if (expr->funcid != F_VARCHAR_VARCHAR_INT4_BOOL && expr->funcid != F_BPCHAR_BPCHAR_INT4_BOOL &&
		expr->funcid != F_NUMERIC_NUMERIC_INT4 && expr->funcid != F_NUMERIC_INT4)
		return false;
	foreach(lc, expr->args)
	{
		if (!IsA(lfirst(lc), Const))
			return false;
	}
	return true;
}

/*
 * Return true if an expression is the text of a harmless one whose values are of fixed length.
 */
static bool
is_short_text(const CoerceViaIO *expr)
{
	Oid type = exprType((Node *) expr->arg);
	Oid output;
	bool varlena;

	if (expr->resulttype != TEXTOID || !is_fixed_length(type) || !is_trusted_object(TypeRelationId, type))
		return false;
	getTypeOutputInfo(type, &output, &varlena);
	return !is_code_function(output, NULL) && !code_walker((Node *) expr->arg, NULL);
}

/*
 * Return true if an operator compares a column with an expression without columns. By a collation
 * that is not deterministic it would compare texts of any length, and cannot be interrupted.
 */
static bool
is_equal_operator(Oid opno, Oid collation, List *args)
{
	RegProcedure function = get_opcode(opno);
	int vars = 0;

	if ((function != F_TEXTEQ && function != F_TEXTNE) || !is_trusted_object(OperatorRelationId, opno) ||
		(OidIsValid(collation) && !get_collation_isdeterministic(collation)))
		return false;
	(void) count_vars(lsecond(args), &vars);
	return is_plain_column(linitial(args)) && vars == 0 && !code_walker(lsecond(args), NULL);
}

/*
 * Return true if a node calls nothing but what check_functions_in_node()
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
 * Return true for an operator that is not the server's or ours, though its function may be: where it is
 * negated, the server calls the function of its negator, which may be anybody's.
 */
static bool
has_owner_operator(Node *node)
{
	switch (nodeTag(node))
	{
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return !is_trusted_object(OperatorRelationId, ((OpExpr *) node)->opno);
		case T_ScalarArrayOpExpr:
			return !is_trusted_object(OperatorRelationId, ((ScalarArrayOpExpr *) node)->opno);
		default:
			return false;
	}
}

/*
 * Return true if a function is not known to be harmless: neither the server's nor ours, not
 * immutable, or with values of variable length. A few others of the server that do little are
 * allowed.
 */
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
		default:
			return !is_trusted_object(ProcedureRelationId, function) || func_volatile(function) != PROVOLATILE_IMMUTABLE ||
				!has_fixed_lengths(function);
	}
}

/*
 * Return true if a function is given, and returns, values of fixed length only.
 */
static bool
has_fixed_lengths(Oid function)
{
	Oid *args;
	int nargs;
	bool fixed = !get_func_retset(function) && is_fixed_length(get_func_signature(function, &args, &nargs));

	for (int i = 0; fixed && i < nargs; i++)
		fixed = is_fixed_length(args[i]);
	return fixed;
}

/*
 * Return true if values of a type are of fixed length; a cstring here is
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
