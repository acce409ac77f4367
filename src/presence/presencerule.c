/*
 * presencerule.c
 *		Rules of presences: the catalog dcounter.presence_rule, what sessions remember of it, and rights.
 *
 * A rule has an owner, and users: roles that may let members enter and go, and see who is there. A user with the privileges
 * of one of these roles may do what the role may. Superusers may do everything.
 *
 * A session remembers a rule by its name, until the catalog changes (catrow.c has how rows are read). It learns of that
 * by a number in shared memory, which is raised when the change is visible: so a statement that begins then
 * goes by it, also in a transaction that goes on. On a standby, and when the change was prepared, it is the relcache
 * invalidation alone, which a transaction sees when it begins. A rule cannot be used by the transaction that has
 * created or altered it: members would stay if it is rolled back.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/catrow.h"
#include "base/relcached.h"
#include "base/roles.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "presence/presence.h"
#include "table/catalog.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define COL_NAME 2

static void columns(DcCatRow *io, void *data);
static void known_changed(void *entry, Oid relid);
static void fill(DcPresenceKnown *known, const char *name);
static void forget_lost_roles(DcPresenceRow *row);

static const DcCatalog rules = {
	.table = "presence_rule",
	.pkey = "presence_rule_pkey",
	.nkeys = 1,
	.size = sizeof(DcPresenceRow),
	.columns = columns,
	.keeps_lock = true,
};

/* What this session knows of rules, by name. */
static DcRelCached known_rules = {
	.name = "dcounter presences",
	.keysize = PRESENCE_NAME_MAX + 1,
	.size = sizeof(DcPresenceKnown),
	.changed = known_changed,
};
static uint64 invalidations = 0;		   /* of these */
static DcPresenceKnown *last_known = NULL; /* the one that was asked for last; entries stay where they are */

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
	DcPresenceRow *row = data;
	Datum users = io->reading ? (Datum) 0 : role_array(row->users);
	Datum channel = io->reading || row->channel == NULL ? (Datum) 0 : CStringGetTextDatum(row->channel);
	int64 events = row->events < 0 ? 0 : row->events;

	cat_int4(io, &row->id);
	cat_string(io, &row->name);
	cat_oid(io, &row->owner);
	cat_datum(io, REGROLEARRAYOID, &users);
	cat_not_null(io);
	cat_duration(io, &row->ttl, false);
	cat_duration(io, &events, false);
	cat_datum(io, TEXTOID, &channel);
	cat_int8(io, &row->max_members);
	cat_bool(io, &row->approx);
	cat_int4(io, &row->version);
	cat_time(io, &row->created_at);
	cat_int8(io, &row->epoch);
	if (!io->reading)
		return;
	row->tid = io->tid;
	row->xmin = io->xmin;
	row->users = role_list(users);
	row->events = events == 0 ? -1 : events;
	row->channel = channel != (Datum) 0 ? TextDatumGetCString(channel) : NULL;
}

/*
 * presence_row_read finds a rule by its name, or returns NULL.
 */
DcPresenceRow *
presence_row_read(const char *name)
{
	DcPresenceRow *row = palloc0(sizeof(DcPresenceRow));

	return cat_read_by(&rules, row, "presence_rule_name_key", COL_NAME, CStringGetTextDatum(name)) ? row : NULL;
}

/*
 * presence_row_read_all returns all rules, as the active snapshot shows them.
 */
List *
presence_row_read_all(void)
{
	return cat_read_all(&rules, GetActiveSnapshot());
}

/*
 * changed tells sessions that learn of it by a message, at commit. presence_rules_committed tells the others,
 * when that is done.
 */
static void
changed(void)
{
	relation_invalidate(catalog_relation(rules.table));
}

void
presence_rules_committed(void)
{
	pg_atomic_fetch_add_u32(&presence_area->changes, 1);
}

void
presence_row_insert(DcPresenceRow *row)
{
	cat_insert(&rules, row);
	changed();
}

/*
 * presence_row_update stores a changed row, without roles that have been dropped. The caller has the
 * lock, and has raised the version.
 */
void
presence_row_update(DcPresenceRow *row)
{
	forget_lost_roles(row);
	cat_store_at(&rules, &row->tid, row);
	changed();
}

void
presence_row_delete(DcPresenceRow *row)
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
forget_lost_roles(DcPresenceRow *row)
{
	ListCell *lc;

	if (is_lost(row->owner))
		row->owner = relation_owner(catalog_relation(rules.table));
	foreach(lc, row->users)
	{
		if (is_lost(lfirst_oid(lc)))
			row->users = foreach_delete_current(row->users, lc);
	}
}

/*
 * presence_rule_of returns what sessions go by.
 */
DcPresenceRule
presence_rule_of(const DcPresenceRow *row)
{
	return (DcPresenceRule){
		.id = row->id,
		.version = row->version,
		.ttl = row->ttl,
		.events = row->events,
		.max_members = row->max_members,
		.approx = row->approx,
	};
}

void
presence_missing_error(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("presence \"%s\" does not exist", name),
			 errhint("Create it with dc_presence_create(). dc_stat_presence shows those that there are.")));
}

/*
 * presence_row_owner returns what the slot of a rule is known by.
 */
DcPresenceOwner
presence_row_owner(int32 id)
{
	return (DcPresenceOwner){.catalog = catalog_relation(rules.table), .id = id};
}

static void
known_changed(void *entry, Oid relid)
{
	DcPresenceKnown *known = entry;

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
 * presence_may_use tells whether the current user may use a rule.
 */
bool
presence_may_use(const DcPresenceRow *row)
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
 * presence_known returns a rule that the current user may use. Errors:
 * 42704, 42501, 55006 if this transaction has changed it, 55000 without shared memory.
 */
DcPresenceKnown *
presence_known(const char *name)
{
	DcPresenceKnown *known = last_known;
	Oid role = GetUserId();

	presence_check_memory();
	if (known == NULL || strcmp(known->name, name) != 0)
		known = relcached_find(&known_rules, name);
	if (known == NULL || !known->valid || known->changes != pg_atomic_read_u32(&presence_area->changes))
	{
		if (known == NULL)
		{
			if (presence_row_read(name) == NULL)
				presence_missing_error(name);
			known = relcached_enter(&known_rules, name);
		}
		fill(known, name);
	}
	last_known = known;
	if (known->role != role || known->role_changes != role_changes)
	{
		known->may_use = has_privs_of_role(role, known->rule_owner) ||
			has_one_of(role, known->users, known->nusers);
		known->role_changes = role_changes;
		known->role = role;
	}
	if (!known->may_use)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for presence \"%s\"", name),
				 errhint("Its owner can allow it with dc_presence_grant().")));
	return known;
}

/*
 * fill reads a rule. It is valid when all is there, if no invalidation has come meanwhile.
 */
static void
fill(DcPresenceKnown *known, const char *name)
{
	uint64 seen = invalidations;
	DcPresenceRow *row;

	known->valid = false;
	known->role = InvalidOid;
	known->use = (DcPresenceUse){.owner = presence_row_owner(0)};
	known->changes = pg_atomic_read_u32(&presence_area->changes);
	pg_read_barrier(); /* then the row: a change that comes later raises the number later */
	row = presence_row_read(name);
	if (row == NULL || TransactionIdIsCurrentTransactionId(row->xmin))
	{
		if (row == NULL)
			presence_missing_error(name);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("presence \"%s\" was created or altered by this transaction", name),
				 errdetail("Presences are not transactional: members would stay if it is rolled back."),
				 errhint("Commit first.")));
	}
	known->rule_owner = row->owner;
	relcached_set_oids(&known->users, &known->nusers, row->users);
	known->use.rule = presence_rule_of(row);
	known->use.owner.id = row->id;
	presence_use_slot(&known->use);
	known->valid = seen == invalidations;
}

/*
 * presence_any_rule tells whether this database has rules.
 */
bool
presence_any_rule(void)
{
	DcCatScan scan;
	bool found;

	cat_scan_begin(&scan, &rules, NULL, AccessShareLock, NULL, 0);
	found = cat_scan_next(&scan, ForwardScanDirection, NULL);
	cat_scan_end(&scan);
	return found;
}
