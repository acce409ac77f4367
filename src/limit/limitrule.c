/*
 * limitrule.c
 *		Rules of limits: the catalog dcounter.limit_rule, what sessions remember of it, and rights.
 *
 * A rule has an owner, and users: roles that may ask. Of these, some may also give back what was used
 * (refund it), which opens the limit. A user with the privileges of one of these roles may do what the
 * role may. Superusers may do everything.
 *
 * A session remembers a rule by its name, until the catalog changes (catrow.c has how rows are read). It learns of that
 * by a number in shared memory, which is raised when the change is visible: so a statement that begins then
 * goes by it, also in a transaction that goes on. On a standby, and when the change was prepared, it is the relcache
 * invalidation alone, which a transaction sees when it begins. What a rule counts by is also in its slot, in shared memory, with the version of
 * the row: a session that has not heard of a change yet finds the newer one there (limitarea.c). So that no
 * version comes there that is rolled back, a rule cannot be used by the transaction that has created or
 * altered it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/catrow.h"
#include "base/relcached.h"
#include "base/roles.h"
#include "catalog/pg_type.h"
#include "limit/limiter.h"
#include "miscadmin.h"
#include "table/catalog.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define COL_NAME 2

const char *const limit_algorithms[] = {"gcra", "fixed", "log", "sliding", "concurrent"};
const char *const limit_on_full[] = {"deny", "allow"};
const char *const limit_after_crash[] = {"open", "full"};

static void columns(DcCatRow *io, void *data);
static void known_changed(void *entry, Oid relid);
static void fill(DcLimitKnown *known, const char *name);
static void forget_lost_roles(DcLimitRow *row);

static const DcCatalog rules = {
	.table = "limit_rule",
	.pkey = "limit_rule_pkey",
	.nkeys = 1,
	.size = sizeof(DcLimitRow),
	.columns = columns,
	.keeps_lock = true,
};

/* What this session knows of rules, by name. */
static DcRelCached known_rules = {
	.name = "dcounter limits",
	.keysize = LIMIT_NAME_MAX + 1,
	.size = sizeof(DcLimitKnown),
	.changed = known_changed,
};
static uint64 invalidations = 0;		/* of these */
static DcLimitKnown *last_known = NULL; /* the one that was asked for last; entries stay where they are */

static Datum
role_array(const List *roles)
{
	Datum *values = palloc((list_length(roles) + 1) * sizeof(Datum));
	int count = 0;
	ListCell *lc;

	foreach(lc, roles)
		values[count++] = ObjectIdGetDatum(lfirst_oid(lc));
	return PointerGetDatum(construct_array(values, count, REGROLEOID, sizeof(Oid), true, TYPALIGN_INT));
}

static List *
role_list(Datum value)
{
	ArrayType *array = DatumGetArrayTypeP(value);
	const Oid *roles = (const Oid *) ARR_DATA_PTR(array);
	int count = array_contains_nulls(array) ? 0 : ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	List *list = NIL;

	for (int i = 0; i < count; i++)
		list = lappend_oid(list, roles[i]);
	return list;
}

static void
columns(DcCatRow *io, void *data)
{
	DcLimitRow *row = data;
	Datum users = io->reading ? (Datum) 0 : role_array(row->users);
	Datum refunders = io->reading ? (Datum) 0 : role_array(row->refunders);

	cat_int4(io, &row->id);
	cat_string(io, &row->name);
	cat_oid(io, &row->owner);
	cat_datum(io, REGROLEARRAYOID, &users);
	cat_not_null(io);
	cat_datum(io, REGROLEARRAYOID, &refunders);
	cat_not_null(io);
	row->algorithm = cat_choice(io, row->algorithm, limit_algorithms, lengthof(limit_algorithms));
	cat_int8(io, &row->rate);
	cat_duration(io, &row->per, true);
	cat_int8(io, &row->burst);
	cat_int8(io, &row->max_keys);
	row->on_full = cat_choice(io, row->on_full, limit_on_full, lengthof(limit_on_full));
	row->after_crash = cat_choice(io, row->after_crash, limit_after_crash, lengthof(limit_after_crash));
	cat_int4(io, &row->version);
	cat_time(io, &row->created_at);
	if (!io->reading)
		return;
	row->tid = io->tid;
	row->xmin = io->xmin;
	row->users = role_list(users);
	row->refunders = role_list(refunders);
}

/*
 * limit_row_read finds a rule by its name, or returns NULL.
 */
DcLimitRow *
limit_row_read(const char *name)
{
	DcLimitRow *row = palloc0(sizeof(DcLimitRow));

	return cat_read_by(&rules, row, "limit_rule_name_key", COL_NAME, CStringGetTextDatum(name)) ? row : NULL;
}

/*
 * limit_row_read_all returns all rules, as the active snapshot shows them.
 */
List *
limit_row_read_all(void)
{
	return cat_read_all(&rules, GetActiveSnapshot());
}

/*
 * changed tells sessions that learn of it by a message, at commit. limit_rules_committed tells the others,
 * when that is done.
 */
static void
changed(void)
{
	relation_invalidate(catalog_relation(rules.table));
}

void
limit_rules_committed(void)
{
	pg_atomic_fetch_add_u32(&limit_area->changes, 1);
}

void
limit_row_insert(DcLimitRow *row)
{
	cat_insert(&rules, row);
	changed();
}

/*
 * limit_row_update stores a changed row, without roles that have been dropped. The caller has the
 * lock, and has raised the version if it is counted by other numbers.
 */
void
limit_row_update(DcLimitRow *row)
{
	forget_lost_roles(row);
	cat_store_at(&rules, &row->tid, row);
	changed();
}

void
limit_row_delete(DcLimitRow *row)
{
	cat_delete_at(&rules, &row->tid);
	changed();
}

static bool
is_lost(Oid role)
{
	return OidIsValid(role) && !SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role));
}

/*
 * forget_lost_roles removes roles that have been dropped, as another role may get the number. A rule
 * that has lost its owner belongs to the owner of the extension's tables.
 */
static void
forget_lost_roles(DcLimitRow *row)
{
	ListCell *lc;

	if (is_lost(row->owner))
		row->owner = relation_owner(catalog_relation(rules.table));
	foreach(lc, row->users)
	{
		if (is_lost(lfirst_oid(lc)))
			row->users = foreach_delete_current(row->users, lc);
	}
	foreach(lc, row->refunders)
	{
		if (is_lost(lfirst_oid(lc)))
			row->refunders = foreach_delete_current(row->refunders, lc);
	}
}

/*
 * limit_rule_of returns what counting goes by.
 */
DcLimitRule
limit_rule_of(const DcLimitRow *row)
{
	return (DcLimitRule){
		.id = row->id,
		.version = row->version,
		.numbers = {.kind = (DcLimitKind) row->algorithm, .rate = row->rate, .per = row->per, .burst = row->burst},
		.max_keys = row->max_keys,
		.allow_if_full = row->on_full == 1,
		.full_if_lost = row->after_crash == 1,
	};
}

void
limit_missing_error(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("limit \"%s\" does not exist", name),
			 errhint("Create it with dc_limit_create(). dc_stat_limits shows those that there are.")));
}

/*
 * limit_row_owner returns what the slot of a rule is known by.
 */
DcLimitOwner
limit_row_owner(int32 id)
{
	return (DcLimitOwner){.catalog = catalog_relation(rules.table), .id = id};
}

static void
known_changed(void *entry, Oid relid)
{
	DcLimitKnown *known = entry;

	if (OidIsValid(relid) && known->use.owner.catalog != relid)
		return;
	known->valid = false;
	invalidations++;
}

/* InvalidOid stands for everybody */
static bool
has_one_of(Oid role, const Oid *roles, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (!OidIsValid(roles[i]) || has_privs_of_role(role, roles[i]))
			return true;
	}
	return false;
}

/*
 * limit_may_use tells whether the current user may ask a rule.
 */
bool
limit_may_use(const DcLimitRow *row)
{
	ListCell *lc;

	foreach(lc, row->users)
	{
		if (!OidIsValid(lfirst_oid(lc)) || has_privs_of_role(GetUserId(), lfirst_oid(lc)))
			return true;
	}
	return has_privs_of_role(GetUserId(), row->owner);
}

/*
 * limit_known returns a rule that the current user may use, or may also refund units of. Errors:
 * 42704, 42501, 55006 if this transaction has changed it, 55000 without shared memory.
 */
DcLimitKnown *
limit_known(const char *name, bool refund)
{
	DcLimitKnown *known = last_known;
	Oid role = GetUserId();

	limit_check_memory();
	if (known == NULL || strcmp(known->name, name) != 0)
		known = relcached_find(&known_rules, name);
	if (known == NULL || !known->valid || known->changes != pg_atomic_read_u32(&limit_area->changes))
	{
		if (known == NULL)
		{
			if (limit_row_read(name) == NULL)
				limit_missing_error(name);
			known = relcached_enter(&known_rules, name);
		}
		fill(known, name);
	}
	last_known = known;
	if (known->role != role || known->role_changes != role_changes)
	{
		known->may_refund = has_privs_of_role(role, known->owner) ||
			has_one_of(role, known->refunders, known->nrefunders);
		known->may_use = known->may_refund || has_one_of(role, known->users, known->nusers);
		known->role_changes = role_changes;
		known->role = role;
	}
	if (refund ? !known->may_refund : !known->may_use)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for limit \"%s\"", name),
				 refund ? errhint("Its owner can allow it with dc_limit_grant(..., refund => true).")
						: errhint("Its owner can allow it with dc_limit_grant().")));
	return known;
}

/*
 * fill reads a rule. It is valid when all is there, if no invalidation has come meanwhile.
 */
static void
fill(DcLimitKnown *known, const char *name)
{
	uint64 seen = invalidations;
	DcLimitRow *row;

	known->valid = false;
	known->role = InvalidOid;
	known->use = (DcLimitUse){.owner = limit_row_owner(0)};
	known->changes = pg_atomic_read_u32(&limit_area->changes);
	pg_read_barrier(); /* then the row: a change that comes later raises the number later */
	row = limit_row_read(name);
	if (row == NULL || TransactionIdIsCurrentTransactionId(row->xmin))
	{
		if (row == NULL)
			limit_missing_error(name);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("limit \"%s\" was created or altered by this transaction", name),
				 errdetail("Limits are not transactional: what is counted by one would stay if it is rolled back."),
				 errhint("Commit first.")));
	}
	known->owner = row->owner;
	relcached_set_oids(&known->users, &known->nusers, row->users);
	relcached_set_oids(&known->refunders, &known->nrefunders, row->refunders);
	known->use.rule = limit_rule_of(row);
	known->use.owner.id = row->id;
	limit_use_slot(&known->use);
	known->valid = seen == invalidations;
}
