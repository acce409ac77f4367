/*
 * distinctadd.c
 *		dc_add(), dc_add_many().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An item that the session knows to be there (distinctknown.c) touches neither locks nor rows: it
 * is as if it had been added before the present locks on the table were taken. All other items lock
 * the tables, and are pending until the commit (distinctpending.c).
 *
 * Items are hashed as by dc_hll_agg() and dc_hll_add() (types/sketch/item.c), so the sketch of a
 * key is that of its items.
 *
 * A time says which bucket an item is in. The wall clock decides whether that is too old or in the
 * future; if the clock is set, other buckets can be written. Which buckets are kept is decided
 * elsewhere (distinctfold.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/bucket.h"
#include "base/compat.h"
#include "core/table/access.h"
#include "time/distinct/distinct.h"
#include "types/sketch/hash.h"
#include "types/sketch/item.h"

PG_FUNCTION_INFO_V1(dc_add);
PG_FUNCTION_INFO_V1(dc_add_many);

#define ADD_RIGHTS (ACL_INSERT | ACL_UPDATE)

/* What a call site remembers. */
typedef struct DcAddSite
{
	bool by_name; /* the table comes as text */
	Oid key_type;
	ItemType item;
} DcAddSite;

static DcAddSite *site_of(FunctionCallInfo fcinfo);
static void init_item(ItemType *item, Oid type, Oid collation, MemoryContext mcxt);
static int64 bucket_arg(FunctionCallInfo fcinfo, const DcDistinct *distinct, int argno);
static bool distinctadd_is_known(DcDistinct *distinct, const DcRowKey *key, uint64 hash);
static void add_to(FunctionCallInfo fcinfo, Oid relid, const DcKey *key, uint64 hash);

/*
 * dc_add(distinct_table text|regclass, key text|bigint|uuid, item any, at timestamptz) -> void
 *
 * Needs INSERT and UPDATE. Errors: 22004 for NULL, 42809 for another table, 42804 for a type that
 * keys cannot have, 54000 for a key that is too long, 22023 for a time without buckets, or in the
 * future; 22008 for one that is too long ago.
 */
Datum
dc_add(PG_FUNCTION_ARGS)
{
	DcAddSite *site = site_of(fcinfo);
	Oid relid;
	DcDistinct *distinct;
	DcKey key;
	uint64 hash;

	arg_not_null(fcinfo, 0, "distinct table");
	arg_not_null(fcinfo, 1, "key");
	arg_not_null(fcinfo, 2, "item");
	prevent_write("dc_add()");
	key_from_value(PG_GETARG_DATUM(1), site->key_type, &key);
	hash = item_hash(&site->item, PG_GETARG_DATUM(2), SKETCH_HASH_REDIS);

	AcceptInvalidationMessages();
	relid = site->by_name ? distinct_by_name(PG_GETARG_TEXT_PP(0)) : PG_GETARG_OID(0);
	distinct = distinct_lookup(relid);
	if (distinct_rights_known(distinct, ADD_RIGHTS) && !distinct->rls)
	{
		char buf[DC_MAX_KEY_BYTES];
		DcRowKey row_key = {.relid = relid, .data = buf};

		row_key.len = distinct_row_key(distinct, &key, bucket_arg(fcinfo, distinct, 3), buf);
		if (distinctadd_is_known(distinct, &row_key, hash))
			PG_RETURN_VOID();
	}
	add_to(fcinfo, relid, &key, hash);
	PG_RETURN_VOID();
}

/*
 * dc_add_many(distinct_table regclass, keys text[]|bigint[]|uuid[], items any[], at timestamptz) ->
 * void: items[i] is added to keys[i]. Errors: 2202E when the lengths differ.
 */
Datum
dc_add_many(PG_FUNCTION_ARGS)
{
	DcDistinct *distinct;
	ItemType type;
	Datum *keys;
	Datum *items;
	int nkeys;
	int nitems;
	int64 bucket;

	arg_not_null(fcinfo, 0, "distinct table");
	prevent_write("dc_add_many()");
	keys = key_array_arg(fcinfo, 1, &nkeys, NULL);
	items = array_arg(fcinfo, 2, "items", "item", &nitems);
	if (nitems != nkeys)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("keys and items must have the same length"),
				 errdetail("There are %d keys and %d items.", nkeys, nitems)));
	init_item(&type, ARR_ELEMTYPE(PG_GETARG_ARRAYTYPE_P(2)), PG_GET_COLLATION(), CurrentMemoryContext);
	distinct = distinct_lock(PG_GETARG_OID(0), RowExclusiveLock, ADD_RIGHTS);
	bucket = bucket_arg(fcinfo, distinct, 3);
	for (int i = 0; i < nkeys; i++)
	{
		char buf[DC_MAX_KEY_BYTES];
		DcRowKey row_key = {.relid = PG_GETARG_OID(0), .data = buf};
		uint64 hash = item_hash(&type, items[i], SKETCH_HASH_REDIS);
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(keys[i], &key);
		distinct = distinct_lookup(PG_GETARG_OID(0));
		row_key.len = distinct_row_key(distinct, &key, bucket, buf);
		if (!distinctadd_is_known(distinct, &row_key, hash))
			distinct_pending_add(distinct, &row_key, hash);
	}
	if (nkeys > 0)
	{
		DcDistinctRel rel;

		/* again, so that an error comes now and not at the commit */
		distinctrel_open(&rel, distinct_lookup(PG_GETARG_OID(0)), RowExclusiveLock);
		distinctrel_close(&rel);
	}
	PG_RETURN_VOID();
}

/*
 * site_of returns what the call site remembers.
 */
static DcAddSite *
site_of(FunctionCallInfo fcinfo)
{
	DcAddSite *site = fcinfo->flinfo->fn_extra;
	Oid key;

	if (likely(site != NULL))
		return site;
	key = get_fn_expr_argtype(fcinfo->flinfo, 1);
	if (!OidIsValid(key))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("could not determine the type of the key")));
	site = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(DcAddSite));
	site->by_name = get_fn_expr_argtype(fcinfo->flinfo, 0) == TEXTOID;
	site->key_type = key_type(key);
	init_item(&site->item, get_fn_expr_argtype(fcinfo->flinfo, 2), PG_GET_COLLATION(), fcinfo->flinfo->fn_mcxt);
	fcinfo->flinfo->fn_extra = site;
	return site;
}

/*
 * Prepare the hashing of items of a type. `mcxt` must live as long as `item`. An error if the type
 * of a literal is not known.
 */
static void
init_item(ItemType *item, Oid type, Oid collation, MemoryContext mcxt)
{
	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("could not determine the type of the item")));
	item_type_init(item, type, collation, mcxt);
}

/*
 * distinct_key_arg reads the key argument of a function that has no other use of fn_extra.
 */
const DcKey *
distinct_key_arg(FunctionCallInfo fcinfo, int argno, DcKey *key)
{
	return key_arg(fcinfo, argno, key);
}

/*
 * bucket_arg returns the bucket of a time; 0 for a table without buckets.
 */
static int64
bucket_arg(FunctionCallInfo fcinfo, const DcDistinct *distinct, int argno)
{
	int64 width = distinct->row.bucket;
	TimestampTz now;
	int64 bucket;

	if (width == 0)
	{
		if (!PG_ARGISNULL(argno))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"%s\" has no buckets", get_rel_name(distinct->relid)),
					 errhint("Create it with a bucket, or leave out the time.")));
		return 0;
	}
	now = GetCurrentTimestamp();
	if (PG_ARGISNULL(argno))
		bucket = bucket_of(now, width);
	else
	{
		TimestampTz at = PG_GETARG_TIMESTAMPTZ(argno);

		bucket = TIMESTAMP_NOT_FINITE(at) ? -1 : bucket_of(at, width);
		if (bucket > bucket_of(now, width) + 1)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the time is in the future"),
					 errdetail("It is %s, more than one bucket ahead of the clock.", timestamptz_to_str(at))));
	}
	if (bucket < bucket_horizon(now, PG_INT64_MAX, width, distinct->row.keep) || bucket < 0 || bucket > BUCKET_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_FIELD_OVERFLOW),
				 errmsg("the time is out of range"),
				 errdetail("Its bucket is no longer kept, or does not exist.")));
	return bucket;
}

/*
 * distinct_row_key makes the key of the row of a key and a bucket, and returns its length. 54000 if
 * it is too long.
 */
uint32
distinct_row_key(const DcDistinct *distinct, const DcKey *key, int64 bucket, char *buf)
{
	uint32 suffix = distinct->row.bucket != 0 ? BUCKET_SUFFIX_BYTES : 0;

	check_length("counter key", key->len, 0, DC_MAX_KEY_BYTES - suffix);
	memcpy(buf, key->data, key->len);
	if (suffix != 0)
		bucket_put(buf + key->len, bucket);
	return key->len + suffix;
}

/*
 * Return true if nothing needs to be done for an item.
 */
static bool
distinctadd_is_known(DcDistinct *distinct, const DcRowKey *key, uint64 hash)
{
	DcKnown *known;

	if (IsolationIsSerializable())
		return false;
	distinct_pending_absorb();
	known = known_find(key, distinct);
	return known != NULL && known_has(known, hash) && known_is_safe(known);
}

/*
 * add_to adds an item that is not known: it locks the tables, and looks at them, so that the commit
 * need not fail.
 */
static pg_noinline void
add_to(FunctionCallInfo fcinfo, Oid relid, const DcKey *key, uint64 hash)
{
	DcDistinct *distinct = distinct_lock(relid, RowExclusiveLock, ADD_RIGHTS);
	char buf[DC_MAX_KEY_BYTES];
	DcRowKey row_key = {.relid = relid, .data = buf};

	if (!distinct->checked || distinct->problem != NULL)
	{
		DcDistinctRel rel;

		distinctrel_open(&rel, distinct, RowExclusiveLock);
		distinctrel_close(&rel);
	}
	row_key.len = distinct_row_key(distinct, key, bucket_arg(fcinfo, distinct, 3), buf);
	distinct_pending_add(distinct, &row_key, hash);
}
