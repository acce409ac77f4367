/*
 * ruleddl.c
 *		Creating, changing and dropping rules, and granting their use to roles.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * These are transactional, unlike what is done with a rule. A transaction that changes a rule has
 * the lock on its id, and one that creates a rule that on its name and role, until it ends. A
 * room's memory of a rule that is dropped is freed when that is committed. (Not if it was prepared:
 * then it stays until it is idle.) What was created or dropped is private to the backend, in
 * TopTransactionContext; the callback forgets it at each end, as it does that rules were changed.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/args.h"
#include "base/lockclass.h"
#include "base/rule.h"
#include "base/xactrooms.h"

/* In the lock of a name: ids of rules are locked with less. */
#define RULE_NAME_LOCK 0x80000000

static DcRuleKind *kinds = NULL;

static void rule_exists(const DcRuleKind *kind, const char *name, bool may_exist);
static void ruleddl_add_change(DcRuleKind *kind, int32 id, bool is_new);
static bool rules_are_idle(void);
static void rules_xact_callback(XactEvent event, void *arg);
static void rules_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg);

/*
 * rule_kind_add enters a kind of rules; called once for each, in the same order in each process.
 */
void
rule_kind_add(DcRuleKind *kind, bool preloading)
{
	rule_cache_init(kind, preloading);
	xact_room_add(DC_XACT_RULE, rules_xact_callback, rules_subxact_callback, rules_are_idle);
	kind->next = kinds;
	kinds = kind;
}

/*
 * Note that this transaction changes rules, so that other sessions are told at commit.
 */
static void
mark_changed(DcRuleKind *kind)
{
	xact_mark(DC_XACT_RULE);
	kind->is_changed = true; /* a ROLLBACK TO does not reset this: telling sessions needlessly does no harm */
}

/*
 * lock_name locks a name against other sessions of the same role that create a rule with this name.
 * Roles do not wait for each other here, as other names have the same hash: the unique index
 * decides between them.
 */
static void
lock_name(const DcRuleKind *kind, const char *name)
{
	uint32 hash = hash_bytes((const unsigned char *) name, strlen(name));

	(void) advisory_lock(kind->lockclass, GetUserId(), hash | RULE_NAME_LOCK, ExclusiveLock, true);
}

/*
 * rule_create_begin sets the name of a new row, and locks the name. If a rule of that name
 * exists, it returns false after a notice if the argument number if_not_exists is true, and
 * raises 42710 otherwise.
 */
bool
rule_create_begin(DcRuleKind *kind, FunctionCallInfo fcinfo, int if_not_exists, DcRuleRow *row)
{
	char *name = text_arg_limited(fcinfo, 0, kind->name_arg, RULE_NAME_MAX);
	bool may_exist = bool_arg(fcinfo, if_not_exists, "if_not_exists");

	prevent_write(psprintf("dc_%s_create()", kind->what));
	lock_name(kind, name);
	if (rule_read(kind, name) != NULL)
	{
		rule_exists(kind, name, may_exist);
		return false;
	}
	row->name = name;
	row->version = 1;
	return true;
}

/*
 * Raise 42710, or a NOTICE if that is wanted: there is a rule of this name.
 */
static void
rule_exists(const DcRuleKind *kind, const char *name, bool may_exist)
{
	ereport(may_exist ? NOTICE : ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("%s \"%s\" already exists%s", kind->what, name, may_exist ? ", skipping" : "")));
}

/*
 * Insert a new row. Another role may have created a rule of the same name in the meantime.
 */
static void
insert_unique(const DcRuleKind *kind, const DcRuleRow *row)
{
	PG_TRY();
	{
		rule_insert(kind, row);
	}
	PG_CATCH();
	{
		if (geterrcode() != ERRCODE_UNIQUE_VIOLATION)
			PG_RE_THROW();
		FlushErrorState();
		rule_exists(kind, row->name, false);
	}
	PG_END_TRY();
}

/*
 * Add a rule, owned by the current user, with the name and settings in the row; a NOTICE says
 * if rules cannot be used without preload.
 */
void
rule_create(DcRuleKind *kind, DcRuleRow *row)
{
	row->id = (int32) nextval_internal(catalog_relation(kind->ids), false);
	row->owner = GetUserId();
	row->created_at = GetCurrentTimestamp(); /* wall time, to be shown */
	insert_unique(kind, row);
	mark_changed(kind);
	ruleddl_add_change(kind, row->id, true);
	if (!rules_have_memory())
		ereport(NOTICE,
				(errmsg("%s \"%s\" cannot be used yet: %ss need shared memory", kind->what, row->name, kind->what),
				 errhint("Add dcounter to shared_preload_libraries and restart the server.")));
}

/*
 * rule_open finds the rule that the first argument names and the caller owns, and locks it for the
 * function with this verb in its name.
 */
void *
rule_open(DcRuleKind *kind, FunctionCallInfo fcinfo, const char *verb)
{
	char *name = text_arg_limited(fcinfo, 0, kind->name_arg, RULE_NAME_MAX);
	DcRuleRow *row;

	prevent_write(psprintf("dc_%s_%s()", kind->what, verb));
	row = rule_read(kind, name);
	if (row != NULL && has_privs_of_role(GetUserId(), row->owner))
	{
		(void) advisory_lock(kind->lockclass, row->id, 0, ExclusiveLock, true);
		mark_changed(kind);
		row = rule_read(kind, name); /* as it is now */
	}
	if (row == NULL)
		rule_missing_error(kind, name);
	if (!has_privs_of_role(GetUserId(), row->owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of %s \"%s\"", kind->what, name)));
	return row;
}

/*
 * rule_alter stores a row whose settings apply from now on.
 */
void
rule_alter(const DcRuleKind *kind, DcRuleRow *row)
{
	row->version++;
	rule_update(kind, row);
}

/*
 * Drop the rule named by the first argument, which the caller owns. Its state in memory goes at
 * commit.
 */
Datum
rule_drop(DcRuleKind *kind, FunctionCallInfo fcinfo)
{
	DcRuleRow *row = rule_open(kind, fcinfo, "drop");

	rule_delete(kind, row);
	ruleddl_add_change(kind, row->id, false);
	PG_RETURN_VOID();
}

/*
 * Let the role in argument 1 use the rule named by the first argument; `trusted` also trusts it
 * with more.
 */
Datum
rule_grant(DcRuleKind *kind, FunctionCallInfo fcinfo, bool trusted)
{
	DcRuleRow *row = rule_open(kind, fcinfo, "grant");
	Oid role = role_arg(fcinfo, 1, true, true);

	row->users = list_append_unique_oid(row->users, role);
	if (trusted)
		row->trusted = list_append_unique_oid(row->trusted, role);
	rule_update(kind, row);
	PG_RETURN_VOID();
}

/*
 * rule_revoke takes rights from a role; from a dropped one, too.
 */
Datum
rule_revoke(DcRuleKind *kind, FunctionCallInfo fcinfo)
{
	DcRuleRow *row = rule_open(kind, fcinfo, "revoke");
	Oid role = role_arg(fcinfo, 1, false, true);

	row->users = list_delete_oid(row->users, role);
	row->trusted = list_delete_oid(row->trusted, role);
	rule_update(kind, row);
	PG_RETURN_VOID();
}

/*
 * Remember that this transaction has created or dropped a rule.
 */
static void
ruleddl_add_change(DcRuleKind *kind, int32 id, bool is_new)
{
	DcRuleChange *change = MemoryContextAlloc(TopTransactionContext, sizeof(DcRuleChange));

	*change = (DcRuleChange){kind->changes, catalog_relation(kind->catalog.table), id, is_new, GetCurrentTransactionNestLevel()};
	kind->changes = change;
}

/*
 * Return true if this transaction has changed no rules.
 */
static bool
rules_are_idle(void)
{
	for (const DcRuleKind *kind = kinds; kind != NULL; kind = kind->next)
	{
		if (kind->is_changed)
			return false;
	}
	return true;
}

/*
 * Tell other sessions at commit, let the rooms finish what was created or dropped, and forget it at
 * each end of a transaction. Must not throw.
 */
static void
rules_xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	for (DcRuleKind *kind = kinds; kind != NULL; kind = kind->next)
	{
		if (event == XACT_EVENT_COMMIT && kind->is_changed && rules_have_memory())
		{
			rules_committed();
			if (kind->changes != NULL)
				kind->settle(kind->changes);
		}
		kind->is_changed = false;
		kind->changes = NULL;
	}
}

/*
 * Keep or forget the changes of a subtransaction that ends. Must not throw.
 */
static void
rules_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int nest = GetCurrentTransactionNestLevel();

	for (DcRuleKind *kind = kinds; kind != NULL; kind = kind->next)
	{
		if (event == SUBXACT_EVENT_ABORT_SUB)
		{
			while (kind->changes != NULL && kind->changes->nest >= nest)
				kind->changes = kind->changes->next;
		}
		else if (event == SUBXACT_EVENT_COMMIT_SUB)
		{
			for (DcRuleChange *change = kind->changes; change != NULL && change->nest >= nest; change = change->next)
				change->nest = nest - 1;
		}
	}
}
