/*
 * rule.c
 *		Rules of limits and presences: their catalogs, what sessions remember of them, and rights.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A rule has an owner, and users: roles that may use it. Of these, some may be trusted with more
 * (for a limit: refunding units, which opens it). A user with the privileges of one of these roles
 * may do what the role may. Superusers may do everything.
 *
 * A session remembers a rule by its name, until the catalog changes (catrow.c has how rows are
 * read). It learns of that by a number in shared memory, which is raised when the change is
 * visible: so a statement that begins later obeys it, even in a transaction that began before. One
 * number serves all kinds: rules change rarely. On a standby, and when the change was prepared,
 * there is only the relcache invalidation, which a transaction sees when it begins. A rule cannot
 * be used by the transaction that has created or altered it: using it is not transactional.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "base/roles.h"
#include "base/rule.h"
#include "base/shmem.h"

#define COL_NAME 2

static pg_atomic_uint32 *rule_changes = NULL; /* that have been committed */
static uint64 rule_invalidations = 0;		  /* of entries of this session */

static void rule_forget_lost(const DcRuleKind *kind, DcRuleRow *row);
static void rule_fill(DcRuleKind *kind, DcRuleKnown *known, const char *name);
static void known_rule_changed(void *entry, Oid relid);
static void rule_changes_init(void *area);

/*
 * rule_columns_begin takes the first columns of a row: id, name, owner and users.
 */
void
rule_columns_begin(DcCatRow *io, DcRuleRow *row)
{
	cat_int4(io, &row->id);
	cat_string(io, &row->name);
	cat_oid(io, &row->owner);
	cat_roles(io, &row->users);
}

/*
 * rule_columns_end takes the last columns that all kinds have: version and created_at.
 */
void
rule_columns_end(DcCatRow *io, DcRuleRow *row)
{
	cat_int4(io, &row->version);
	cat_time(io, &row->created_at);
	if (io->reading)
	{
		row->tid = io->tid;
		row->xmin = io->xmin;
	}
}

/*
 * rule_read finds a rule by its name, or returns NULL.
 */
void *
rule_read(const DcRuleKind *kind, const char *name)
{
	void *row = palloc0(kind->catalog.size);

	return cat_read_by(&kind->catalog, row, kind->by_name, COL_NAME, CStringGetTextDatum(name)) ? row : NULL;
}

/*
 * rule_read_all returns all rules, as the active snapshot shows them.
 */
List *
rule_read_all(const DcRuleKind *kind)
{
	return cat_read_all(&kind->catalog, GetActiveSnapshot());
}

/*
 * rule_any returns true if this database has rules.
 */
bool
rule_any(const DcRuleKind *kind)
{
	DcCatScan scan;
	bool found;

	cat_scan_begin(&scan, &kind->catalog, NULL, AccessShareLock, NULL, 0);
	found = cat_scan_next(&scan, ForwardScanDirection, NULL);
	cat_scan_end(&scan);
	return found;
}

/*
 * Store a row, and tell sessions that learn of it by a message, at commit. rules_committed() tells
 * the other sessions when that is done.
 */
void
rule_insert(const DcRuleKind *kind, const DcRuleRow *row)
{
	cat_insert(&kind->catalog, row);
	relation_invalidate(catalog_relation(kind->catalog.table));
}

/*
 * rule_update stores a changed row, without roles that have been dropped. The caller has the lock.
 */
void
rule_update(const DcRuleKind *kind, DcRuleRow *row)
{
	rule_forget_lost(kind, row);
	cat_store_at(&kind->catalog, &row->tid, row);
	relation_invalidate(catalog_relation(kind->catalog.table));
}

/*
 * Delete the row of a rule, which the caller has locked, and have all sessions forget it at
 * commit.
 */
void
rule_delete(const DcRuleKind *kind, DcRuleRow *row)
{
	cat_delete_at(&kind->catalog, &row->tid);
	relation_invalidate(catalog_relation(kind->catalog.table));
}

/*
 * rule_forget_lost removes roles that have been dropped, as another role may get the number. A rule
 * that has lost its owner belongs to the owner of the extension's tables.
 */
static void
rule_forget_lost(const DcRuleKind *kind, DcRuleRow *row)
{
	if (role_is_lost(row->owner))
		row->owner = relation_owner(catalog_relation(kind->catalog.table));
	row->users = roles_without_lost(row->users);
	row->trusted = roles_without_lost(row->trusted);
}

/*
 * Raise 42704: there is no rule of this name.
 */
void
rule_missing_error(const DcRuleKind *kind, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("%s \"%s\" does not exist", kind->what, name),
			 errhint("Create it with dc_%s_create(). %s lists the existing ones.", kind->what, kind->view)));
}

/*
 * rule_name_copy copies the name of a rule; 42704 if it is longer than any name can be. Every call
 * runs this, so it must be fast.
 */
void
rule_name_copy(const DcRuleKind *kind, Datum value, char *name)
{
	text *t = DatumGetTextPP(value);
	uint32 len = VARSIZE_ANY_EXHDR(t);

	if (len > RULE_NAME_MAX)
		rule_missing_error(kind, text_to_cstring(t));
	memcpy(name, VARDATA_ANY(t), len);
	name[len] = '\0';
}

/*
 * rule_may_use returns true if the current user may use a rule. InvalidOid among the users
 * stands for all roles.
 */
bool
rule_may_use(const DcRuleRow *row)
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
 * Return true if a role has the privileges of one of some roles; InvalidOid stands for all
 * roles.
 */
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
 * rule_known returns a rule that the current user may use, or is trusted with. Errors: 42704,
 * 42501, 55006 if this transaction has changed it. The caller has checked whether there is shared
 * memory.
 */
void *
rule_known(DcRuleKind *kind, const char *name, bool trusted)
{
	DcRuleKnown *known = kind->last;
	Oid role = GetUserId();

	if (known == NULL || strcmp(known->name, name) != 0)
		known = relcached_find(&kind->cache, name);
	if (known == NULL || !known->valid || known->changes != pg_atomic_read_u32(rule_changes))
	{
		if (known == NULL)
		{
			if (rule_read(kind, name) == NULL)
				rule_missing_error(kind, name);
			known = relcached_enter(&kind->cache, name);
		}
		rule_fill(kind, known, name);
	}
	kind->last = known;
	if (known->role != role || known->role_changes != role_changes)
	{
		uint32 roles = role_changes; /* a change that comes in the meantime is noticed the next time */

		known->is_trusted = has_privs_of_role(role, known->owner) ||
			has_one_of(role, known->trusted, known->ntrusted);
		known->may_use = known->is_trusted || has_one_of(role, known->users, known->nusers);
		known->role_changes = roles;
		known->role = role;
	}
	if (trusted ? !known->is_trusted : !known->may_use)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for %s \"%s\"", kind->what, name),
				 errhint("Its owner can allow it with dc_%s_grant(%s).", kind->what, trusted ? kind->trusted_args : "")));
	return known;
}

/*
 * rule_fill reads a rule. It is valid when all is there, if no invalidation has come in the
 * meantime.
 */
static void
rule_fill(DcRuleKind *kind, DcRuleKnown *known, const char *name)
{
	uint64 seen = rule_invalidations;
	DcRuleRow *row;

	known->valid = false;
	known->role = InvalidOid;
	known->catalog = catalog_relation(kind->catalog.table);
	known->changes = pg_atomic_read_u32(rule_changes);
	pg_read_barrier(); /* then the row: a change that comes later raises the number later */
	row = rule_read(kind, name);
	if (row == NULL)
		rule_missing_error(kind, name);
	if (TransactionIdIsCurrentTransactionId(row->xmin))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("%s \"%s\" was created or altered by this transaction", kind->what, name),
				 errdetail_internal("%s", kind->uncommits),
				 errhint("Commit first.")));
	known->owner = row->owner;
	relcached_set_oids(&known->users, &known->nusers, row->users);
	relcached_set_oids(&known->trusted, &known->ntrusted, row->trusted);
	kind->fill(known, row);
	known->valid = seen == rule_invalidations;
}

/*
 * Mark a rule that this session knows as invalid, if its catalog has changed. Must not throw.
 */
static void
known_rule_changed(void *entry, Oid relid)
{
	DcRuleKnown *known = entry;

	if (OidIsValid(relid) && known->catalog != relid)
		return;
	known->valid = false;
	rule_invalidations++;
}

/*
 * rule_cache_init prepares what sessions remember of a kind; called once for each.
 */
void
rule_cache_init(DcRuleKind *kind, bool preloading)
{
	static bool has_asked = false;

	kind->cache.keysize = RULE_NAME_MAX + 1;
	kind->cache.changed = known_rule_changed;
	if (preloading && !has_asked)
		shmem_add("dcounter rules", sizeof(*rule_changes), (void **) &rule_changes, rule_changes_init);
	has_asked = true;
}

/*
 * Initialize the number of changes in shared memory.
 */
static void
rule_changes_init(void *area)
{
	pg_atomic_init_u32(area, 0);
}

/*
 * Return true if there is shared memory, without which rules cannot be used.
 */
bool
rules_have_memory(void)
{
	return rule_changes != NULL;
}

/*
 * rules_committed tells all sessions that rules have changed.
 */
void
rules_committed(void)
{
	pg_atomic_fetch_add_u32(rule_changes, 1);
}
