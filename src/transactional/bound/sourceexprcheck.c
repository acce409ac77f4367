/*
 * sourceexprcheck.c
 *		What the expressions of a binding may consist of.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Columns of the source, and immutable functions and operators of the server, and for ranks one of
 * the extension. So nothing of a user's runs where an expression is evaluated, which happens in all
 * sessions that write to the source; and its value depends on the row alone. An enum may be
 * compared, though its name and labels are a user's: no code belongs to them.
 *
 * The same must be true where its text is parsed, in these sessions: that calls the input functions
 * of constants. So a constant may not be of a type whose input runs a user's code (an array of a
 * domain with a CHECK), nor of one that looks up a name, as regclass. And some of the server's
 * functions are called immutable though a setting changes what they return: all that show
 * floating-point numbers or bytea as text. Two sessions would count a row under different keys.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "core/table/catalog.h"
#include "core/table/ownercode.h"
#include "transactional/bound/sourceexpr.h"

/* What check_walker() needs. */
typedef struct DcExprCheck
{
	Relation rel; /* the source, or a partition of it */
	Oid source;
	const char *what;
} DcExprCheck;

static bool setting_walker(Node *node, void *arg);
static bool is_setting_type(Oid type);
static bool is_setting_function(Oid function, void *arg);
static bool date_walker(Node *node, void *arg);
static bool is_date_output(Oid function, void *arg);
static bool zone_walker(Node *node, void *arg);
static bool enum_walker(Node *node, void *arg);
static bool is_enum_output(Oid function, void *arg);
static void code_error(const char *what);
static bool check_walker(Node *node, void *arg);
static bool has_foreign_operator(Node *node);
static bool is_foreign_function(Oid function, void *arg);
static bool is_plain_type(Oid type);
static bool is_temp_type(Oid type);
static bool has_domain(Oid type);
static bool is_name_type(Oid type);

/*
 * source_expr_check raises an error if an expression may not say what a row counts for.
 *
 * Errors: 42P17 if it is not immutable, or has a subquery, an aggregate or the like, 0A000 for
 * code of users and names of objects.
 */
void
source_expr_check(Node *expr, Relation source, const char *what)
{
	source_code_check(expr, source, RelationGetRelid(source), what);
	if (contain_mutable_functions(expr) || setting_walker(expr, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("%s must be immutable", what),
				 errdetail("What a row counts for must depend only on the row, not on settings. The text of a timestamp depends on DateStyle, the day of a timestamp with time zone on TimeZone, the text of a float on extra_float_digits, that of bytea on bytea_output, and that of an enum on its labels, which can be renamed."),
				 date_walker(expr, NULL)	   ? errhint("Use a date, which needs no cast to text: t::date of a timestamp, (t AT TIME ZONE 'UTC')::date of a timestamp with time zone.")
					 : zone_walker(expr, NULL) ? errhint("Name the time zone: t AT TIME ZONE 'UTC' instead of t, as in date_trunc('month', t AT TIME ZONE 'UTC')::date.")
					 : enum_walker(expr, NULL) ? errhint("List the labels: CASE e WHEN 'a' THEN 'a' WHEN 'b' THEN 'b' END.")
											   : 0));
}

/*
 * source_code_check raises an error if an expression has code of users, a subquery or the like. It
 * is called again for what was parsed from a stored text, before that is evaluated: since the
 * binding was made, a name or an operator may have come to mean something else.
 */
void
source_code_check(Node *expr, Relation rel, Oid source, const char *what)
{
	DcExprCheck check = {rel, source, what};

	(void) check_walker(expr, &check);
}

/*
 * source_type_check_input raises 0A000 if reading a value of a type from text may run code of
 * users, or if the type may not be in an expression at all.
 */
void
source_type_check_input(Oid type, const char *what)
{
	if (has_domain(type) || !is_plain_type(type))
		code_error(what);
}

/*
 * source_json_check raises 0A000 for a type whose values the server makes JSON of by a cast that its
 * owner may create: an enum, or an array of one.
 */
void
source_json_check(Oid type, const char *what)
{
	Oid base = getBaseType(type);

	for (Oid element = get_element_type(base); OidIsValid(element); element = get_element_type(base))
		base = getBaseType(element);
	if (base >= FirstUnpinnedObjectId)
		code_error(what);
}

/*
 * source_name_check raises 0A000 for the name of an operator or a function, in a stored text, that
 * is not in the server's schema, or in the extension's: with the settings that the text is parsed
 * with, the names of all others have a schema.
 */
void
source_name_check(List *name, bool function, const char *what)
{
	const char *schema = list_length(name) > 1 ? strVal(linitial(name)) : "pg_catalog";

	if (strcmp(schema, "pg_catalog") != 0 && !(function && strcmp(schema, DC_SCHEMA) == 0))
		code_error(what);
}

/*
 * Raise the error for code of users.
 */
static void
code_error(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s can use only built-in functions, operators and types", what),
			 errdetail("It is evaluated in the sessions of all roles that write to the table.")));
}

/*
 * source_item_check raises 0A000 if equal values may have different texts, by which distinct
 * items are told apart.
 */
void
source_item_check(Node *expr)
{
	Oid type = getBaseType(exprType(expr));
	Oid collation = exprCollation(expr);
	const char *hint;

	if (type == NUMERICOID && !(IsA(expr, FuncExpr) && ((FuncExpr *) expr)->funcid == F_TRIM_SCALE))
		hint = _("Use trim_scale().");
	else if (type == JSONBOID)
		hint = _("Equal numbers in it can be written in several ways. Extract a field as text with ->>.");
	else if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
		hint = _("Add COLLATE \"C\" to compare texts by their bytes.");
	else
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("distinct_of would count different spellings of equal values"),
			 errhint("%s", hint)));
}

/*
 * Return true if an expression has a function of a timestamp with time zone that depends on the
 * setting of the zone.
 */
static bool
zone_walker(Node *node, void *arg)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && func_volatile(castNode(FuncExpr, node)->funcid) != PROVOLATILE_IMMUTABLE)
	{
		ListCell *lc;

		foreach(lc, castNode(FuncExpr, node)->args)
		{
			if (exprType(lfirst(lc)) == TIMESTAMPTZOID)
				return true;
		}
	}
	return expression_tree_walker(node, zone_walker, arg);
}

/*
 * Return true if an expression shows a date or a timestamp as text.
 */
static bool
date_walker(Node *node, void *arg)
{
	if (node == NULL)
		return false;
	return check_functions_in_node(node, is_date_output, NULL) || expression_tree_walker(node, date_walker, arg);
}

/*
 * Return true for a function that writes a date or a timestamp as text, which depends on
 * DateStyle and TimeZone, or on lc_time.
 */
static bool
is_date_output(Oid function, void *arg)
{
	return function == F_DATE_OUT || function == F_TIMESTAMP_OUT || function == F_TIMESTAMPTZ_OUT ||
		function == F_TO_CHAR_TIMESTAMP_TEXT || function == F_TO_CHAR_TIMESTAMPTZ_TEXT;
}

/*
 * Return true if an expression shows an enum as text.
 */
static bool
enum_walker(Node *node, void *arg)
{
	if (node == NULL)
		return false;
	return check_functions_in_node(node, is_enum_output, NULL) || expression_tree_walker(node, enum_walker, arg);
}

/*
 * Return true for the function that writes an enum as text: labels can be renamed.
 */
static bool
is_enum_output(Oid function, void *arg)
{
	return function == F_ENUM_OUT;
}

/*
 * Return true if an expression has functions that depend on settings, though the
 * server calls them immutable.
 */
static bool
setting_walker(Node *node, void *arg)
{
	ListCell *lc;

	if (node == NULL)
		return false;
	foreach(lc, compat_json_arguments(node))
	{
		if (is_setting_type(exprType(lfirst(lc))))
			return true;
	}
	if (IsA(node, XmlExpr) || check_functions_in_node(node, is_setting_function, NULL))
		return true;
	return expression_tree_walker(node, setting_walker, arg);
}

/*
 * Return true for a type whose text depends on settings, and for what may have such a value inside. A
 * constructor of JSON calls its output function without naming it.
 */
static bool
is_setting_type(Oid type)
{
	Oid base = getBaseType(type);
	Oid element = get_element_type(base);
	Oid output;
	bool varlena;

	if (OidIsValid(element))
		return is_setting_type(element);
	getTypeOutputInfo(base, &output, &varlena);
	return is_setting_function(output, NULL) || (get_typtype(base) != TYPTYPE_BASE && get_typtype(base) != TYPTYPE_ENUM);
}

/*
 * Return true for functions of the server that are called immutable, though the setting named
 * here changes their result.
 */
static bool
is_setting_function(Oid function, void *arg)
{
	switch (function)
	{
		case F_BYTEAOUT:  /* bytea_output */
		case F_FLOAT4OUT: /* extra_float_digits */
		case F_FLOAT8OUT:
		case F_POINT_OUT:
		case F_LSEG_OUT:
		case F_PATH_OUT:
		case F_BOX_OUT:
		case F_POLY_OUT:
		case F_LINE_OUT:
		case F_CIRCLE_OUT:
		case F_QUOTE_IDENT: /* quote_all_identifiers */
			return true;
		default:
			return false;
	}
}

/*
 * Raise an error for a node that an expression of a binding may not have; arg is a DcExprCheck.
 * Never returns true, so the whole expression is walked.
 */
static bool
check_walker(Node *node, void *arg)
{
	DcExprCheck *check = arg;
	ListCell *lc;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_SubLink:
		case T_Aggref:
		case T_GroupingFunc:
		case T_WindowFunc:
		case T_Param:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("%s cannot contain a subquery, an aggregate, a window function or a parameter",
							check->what)));
			break;
		case T_Var:
			if (((Var *) node)->varattno <= 0)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
						 errmsg("%s cannot contain a system column or a whole row", check->what)));
			if (compat_is_virtual(TupleDescAttr(RelationGetDescr(check->rel), ((Var *) node)->varattno - 1)))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("%s cannot contain a virtual generated column", check->what),
						 errdetail("Triggers do not see its values.")));
			break;
		case T_Const:
			if (is_name_type(((Const *) node)->consttype))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("%s cannot contain a constant of type %s", check->what, format_type_be(((Const *) node)->consttype)),
						 errdetail("It is stored as a name, which may later refer to another object.")));
			break;
		case T_FuncExpr:
			if (((FuncExpr *) node)->funcretset)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
						 errmsg("%s cannot return a set", check->what)));
			break;
		default:
			break;
	}
	foreach(lc, compat_json_arguments(node))
		source_json_check(exprType(lfirst(lc)), check->what);
	if (IsA(node, CoerceToDomain) || has_foreign_operator(node) ||
		((IsA(node, Const) || IsA(node, ArrayExpr)) && has_domain(exprType(node))) ||
		check_functions_in_node(node, is_foreign_function, &check->source) ||
		(!IsA(node, List) && !IsA(node, CaseWhen) && !is_plain_type(exprType(node))))
		code_error(check->what);
	if ((IsA(node, Var) || IsA(node, Const)) && is_temp_type(exprType(node)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("%s cannot use the temporary type %s", check->what, format_type_be(exprType(node))),
				 errdetail("It would be dropped with the session.")));
	return expression_tree_walker(node, check_walker, arg);
}

/*
 * Return true for an operator that is not the server's own, whatever its function is: its text
 * names the operator, which its owner may replace by another one.
 */
static bool
has_foreign_operator(Node *node)
{
	ListCell *lc;

	switch (nodeTag(node))
	{
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return ((OpExpr *) node)->opno >= FirstUnpinnedObjectId;
		case T_ScalarArrayOpExpr:
			return ((ScalarArrayOpExpr *) node)->opno >= FirstUnpinnedObjectId;
		case T_RowCompareExpr:
			foreach(lc, ((RowCompareExpr *) node)->opnos)
			{
				if (lfirst_oid(lc) >= FirstUnpinnedObjectId)
					return true;
			}
			return false;
		default:
			return false;
	}
}

/*
 * Return true for a function that is not the server's own. If the source (arg) is a table of
 * totals, whose ranks are counted (transactional/rank), the extension's are not foreign either.
 */
static bool
is_foreign_function(Oid function, void *arg)
{
	DcCounterRow row;

	return function >= FirstUnpinnedObjectId &&
		!(catalog_read(*(const Oid *) arg, &row) && is_trusted_object(ProcedureRelationId, function));
}

/*
 * Return true if values of a type can be compared and cast without code of
 * users: one of the server's, an enum, a domain over such or an array of such.
 */
static bool
is_plain_type(Oid type)
{
	Oid base = getBaseType(type);
	Oid element = get_element_type(base);

	if (OidIsValid(element))
		return is_plain_type(element);
	return base < FirstUnpinnedObjectId || get_typtype(base) == TYPTYPE_ENUM;
}

/*
 * Return true if a type, or one that it is made of, is dropped at the end of the session. No
 * event trigger is called for that.
 */
static bool
is_temp_type(Oid type)
{
	HeapTuple tuple;
	Form_pg_type form;
	Oid inner;
	bool temp;

	if (type < FirstUnpinnedObjectId)
		return false;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	form = (Form_pg_type) GETSTRUCT(tuple);
	temp = isAnyTempNamespace(form->typnamespace);
	inner = form->typtype == TYPTYPE_DOMAIN ? form->typbasetype : form->typelem;
	ReleaseSysCache(tuple);
	return temp || (OidIsValid(inner) && is_temp_type(inner));
}

/*
 * Return true if a type is a domain, or an array of one: reading a value from text runs
 * its CHECK constraints.
 */
static bool
has_domain(Oid type)
{
	Oid element = get_element_type(type);

	return OidIsValid(element) ? has_domain(element) : get_typtype(type) == TYPTYPE_DOMAIN;
}

/*
 * Return true if values of a type, or of the elements of an array, are names as text.
 */
static bool
is_name_type(Oid type)
{
	Oid element = get_element_type(type);

	switch (OidIsValid(element) ? element : type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return true;
		default:
			return false;
	}
}

/*
 * source_type_check raises an error if a table is of a temporary type: it would be dropped with the
 * session, and the binding would stay.
 */
void
source_type_check(Relation source)
{
	if (OidIsValid(source->rd_rel->reloftype) && is_temp_type(source->rd_rel->reloftype))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is of the temporary type %s", RelationGetRelationName(source),
						format_type_be(source->rd_rel->reloftype))));
}
