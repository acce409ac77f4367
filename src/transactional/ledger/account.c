/*
 * account.c
 *		The accounts of a ledger.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An account has a lower bound, an upper bound, both or none: its rules. A session that posts
 * reads them, or remembers them from before. They change only under a lock that conflicts with
 * posting, SHARE ROW EXCLUSIVE on the table of balances, and a relcache invalidation of that
 * table comes with it. So they cannot change while a transaction that has read them continues.
 * Rules that this transaction has written itself are not remembered, as they may be rolled back.
 *
 * The rules are read with SnapshotSelf: the latest committed ones, at any isolation
 * level, and no predicate locks on accounts that all transactions read.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "common/int.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/lockclass.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "core/counter/apply.h"
#include "core/counter/read.h"
#include "core/table/access.h"
#include "core/table/layout.h"
#include "transactional/ledger/account.h"
#include "transactional/ledger/ledgershape.h"
#include "transactional/ledger/ledgersql.h"
#include "transactional/ledger/transferpending.h"

PG_FUNCTION_INFO_V1(dc_account_open);

/* Maximum number of accounts that a session remembers of a ledger, and the longest key of one. */
#define MAX_REMEMBERED 8192
#define MAX_REMEMBERED_KEY 55

/*
 * The farthest that a balance may be from its bound: added and taken units are summed up separately
 * until compaction offsets them, and neither sum may overflow bigint.
 */
#define MAX_ROOM ((INT64CONST(1) << 62) - 1)

typedef struct RememberedRules
{
	char key[MAX_REMEMBERED_KEY + 1]; /* hash key: length, bytes, zeroes */
	DcRules rules;
} RememberedRules;

/* The amounts that are posted to an account, and that pending transfers have set aside. */
typedef struct DcBalance
{
	int64 posted;
	int64 out;
	int64 in;
} DcBalance;

/* key, min, max, now */
static const DcStatement sql_account_insert = {
	.text = "INSERT INTO @accounts (key, min_balance, max_balance, opened_at)"
			" VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO NOTHING",
	.argtypes = {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID}};

/* key, min, max */
static const DcStatement sql_account_update = {
	.text = "UPDATE @accounts AS a SET min_balance = $2, max_balance = $3 WHERE a.key = $1",
	.argtypes = {TEXTOID, INT8OID, INT8OID}};

/* key */
static const DcStatement sql_account_find = {
	.text = "SELECT a.min_balance, a.max_balance FROM @accounts AS a WHERE a.key = $1", .argtypes = {TEXTOID}, .columns = {DC_NULLABLE("min_balance", INT8OID), DC_NULLABLE("max_balance", INT8OID)}, .of = DC_OF_ACCOUNTS};

static void not_opened_error(const DcKey *key);
static bool remembered_key(const DcKey *key, char *buf);
static void account_remember(DcLedger *ledger, const char *key, const DcRules *rules);
static bool account_find_by_index(DcLedger *ledger, const DcKey *key, DcRules *rules, bool *own);
static bool find_by_sql(DcLedger *ledger, const DcKey *key, DcRules *rules);
static void rules_arg(FunctionCallInfo fcinfo, DcRules *rules);
static bool rules_equal(const DcRules *a, const DcRules *b);
static bool account_insert(DcLedger *ledger, const DcKey *key, const DcRules *rules);
static void account_change(DcLedger *ledger, const DcKey *key, const DcRules *rules);
static void read_balance(DcLedger *ledger, const DcKey *key, DcBalance *balance);
static void check_balance_seen(DcLedger *ledger, const DcKey *key,
							   const DcBalance *now);
static uint64 account_write(DcLedger *ledger, const DcStatement *statement,
							const DcKey *key, const DcRules *rules);
static void lock_opening(DcLedger *ledger, const DcKey *key);
static void check_account_right(DcLedger *ledger, AclMode right);
static int64 room_below(int64 amount, int64 bound, int64 pending);

/*
 * account_rules returns the rules of an account that is to be posted to. Opens it if
 * the ledger says so (LG003 otherwise).
 */
void
account_rules(DcLedger *ledger, const DcKey *key, DcRules *rules)
{
	static const DcRules automatic = {.has_min = true};

	if (account_find(ledger, key, rules))
		return;
	if (!ledger->row.auto_open)
		ereport(ERROR,
				(errcode(ERRCODE_DC_ACCOUNT_NOT_OPEN),
				 errmsg("account \"%.*s\" is not open", (int) key->len, key->data),
				 errhint("Use dc_account_open().")));
	(void) account_insert(ledger, key, &automatic);
	if (!account_find(ledger, key, rules))
		not_opened_error(key);
}

/*
 * Raise 55000: code of the owner has kept an account from being opened.
 */
static void
not_opened_error(const DcKey *key)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("account \"%.*s\" could not be opened", (int) key->len, key->data),
			 errdetail("A trigger or rule prevented it from being inserted.")));
}

/*
 * account_check_key raises 54000 for a key that is too long for an account: the keys of
 * its limits have a byte more.
 */
void
account_check_key(const DcKey *key)
{
	check_length("key of an account", key->len, 0, DC_MAX_KEY_BYTES - 1);
}

/*
 * account_find looks an account up; false if it is not open.
 */
bool
account_find(DcLedger *ledger, const DcKey *key, DcRules *rules)
{
	char buf[MAX_REMEMBERED_KEY + 1];
	bool short_key = remembered_key(key, buf);
	bool own = true;
	bool found;

	ledger_recheck(ledger); /* the remembered rules may be from before a change */
	if (short_key && ledger->rules != NULL)
	{
		RememberedRules *known = hash_search(ledger->rules, buf, HASH_FIND, NULL);

		if (known != NULL)
		{
			*rules = known->rules;
			return true;
		}
	}
	memset(rules, 0, sizeof(*rules));
	found = OidIsValid(ledger->account_layout.index)
		? account_find_by_index(ledger, key, rules, &own)
		: find_by_sql(ledger, key, rules);
	if (found && !own && short_key && ledger->valid)
		account_remember(ledger, buf, rules);
	return found;
}

/*
 * remembered_key makes the hash key of an account; false if it is too long.
 */
static bool
remembered_key(const DcKey *key, char *buf)
{
	if (key->len > MAX_REMEMBERED_KEY)
		return false;
	memset(buf, 0, MAX_REMEMBERED_KEY + 1);
	buf[0] = (char) key->len;
	memcpy(buf + 1, key->data, key->len);
	return true;
}

/*
 * Remember the rules of an account in this session. When MAX_REMEMBERED accounts are known, all
 * are forgotten first.
 */
static void
account_remember(DcLedger *ledger, const char *key, const DcRules *rules)
{
	RememberedRules *known;

	if (ledger->rules != NULL && hash_get_num_entries(ledger->rules) >= MAX_REMEMBERED)
	{
		hash_destroy(ledger->rules);
		ledger->rules = NULL;
	}
	if (ledger->rules == NULL)
	{
		HASHCTL ctl = {0};

		ctl.keysize = MAX_REMEMBERED_KEY + 1;
		ctl.entrysize = sizeof(RememberedRules);
		ctl.hcxt = TopMemoryContext;
		ledger->rules = hash_create("dcounter accounts", 256, &ctl,
									HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	known = hash_search(ledger->rules, key, HASH_ENTER, NULL);
	known->rules = *rules;
}

/*
 * account_find_by_index looks an account up without SQL; false if it is not open. Sets *own to
 * true if this transaction has written the row.
 */
static bool
account_find_by_index(DcLedger *ledger, const DcKey *key, DcRules *rules, bool *own)
{
	Relation heap = table_open_present(ledger->row.accounts, AccessShareLock);
	const DcTableLayout *layout = &ledger->account_layout;
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	IndexScanDesc scan;
	ScanKeyData scan_key;
	Relation index;
	bool found;

	/* taking the lock may have received invalidations of it */
	ledger_recheck(ledger);
	if (!OidIsValid(layout->index))
		layout_altered_error(heap);
	index = index_open(layout->index, AccessShareLock);

	ScanKeyEntryInitialize(&scan_key, 0, 1, BTEqualStrategyNumber, InvalidOid,
						   index->rd_indcollation[0], F_TEXTEQ, key_text_datum(key));
	scan = compat_index_beginscan(heap, index, SnapshotSelf, 1);
	index_rescan(scan, &scan_key, 1, NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, slot);
	if (found)
	{
		HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, NULL);
		bool isnull;

		rules->min = DatumGetInt64(slot_nullable(slot, layout->atts[ACCOUNT_MIN], INT8OID, &isnull));
		rules->has_min = !isnull;
		rules->max = DatumGetInt64(slot_nullable(slot, layout->atts[ACCOUNT_MAX], INT8OID, &isnull));
		rules->has_max = !isnull;
		*own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(heap, NoLock);
	return found;
}

/*
 * Read the rules of an account by SQL, as the owner; false if it is not open.
 */
static bool
find_by_sql(DcLedger *ledger, const DcKey *key, DcRules *rules)
{
	DcSqlSession session;
	Datum text_key = key_text_datum(key);
	bool found;

	PushActiveSnapshot(GetLatestSnapshot());
	ledger_sql_begin(&session, ledger);
	found = sql_read(&session, &sql_account_find, &text_key) > 0;
	if (found)
	{
		bool isnull;

		rules->min = DatumGetInt64(rows_nullable(&session.rows, 0, 1, &isnull));
		rules->has_min = !isnull;
		rules->max = DatumGetInt64(rows_nullable(&session.rows, 0, 2, &isnull));
		rules->has_max = !isnull;
	}
	sql_end(&session);
	PopActiveSnapshot();
	return found;
}

/*
 * dc_account_open(ledger regclass, key text|bigint|uuid, min_balance bigint, max_balance bigint)
 * -> void: opens an account, or changes the bounds of one that is open. NULL: no bound.
 * Needs INSERT on the table of accounts, and UPDATE to change bounds.
 *
 * Errors: 22023 if the bounds are not in order, LG001 or LG002 if the balance is not within
 * them. Changing bounds waits for transfers in progress, and keeps other sessions out until the
 * transaction ends.
 */
Datum
dc_account_open(PG_FUNCTION_ARGS)
{
	LOCKMODE mode = RowExclusiveLock;
	bool refused = false;
	DcLedger *ledger;
	DcRules rules;
	DcRules old;
	DcKey key;

	prevent_write("dc_account_open()");
	key_arg(fcinfo, 1, &key);
	account_check_key(&key);
	rules_arg(fcinfo, &rules);
	/* a weak lock first: if two calls upgraded to a stronger one, they would deadlock */
	ledger = ledger_open(fcinfo, "dc_account_open()", AccessShareLock, ACL_INSERT | ACL_UPDATE);
	check_account_right(ledger, ACL_INSERT);
	if (account_find(ledger, &key, &old))
	{
		if (rules_equal(&rules, &old))
			PG_RETURN_VOID();
		mode = ShareRowExclusiveLock;
	}
	else
		lock_opening(ledger, &key);
	for (;;)
	{
		ledger = ledger_open(fcinfo, "dc_account_open()", mode, ACL_INSERT | ACL_UPDATE);
		if (account_find(ledger, &key, &old))
		{
			if (rules_equal(&rules, &old))
				PG_RETURN_VOID();
			if (mode == ShareRowExclusiveLock)
				break;
			mode = ShareRowExclusiveLock; /* another session was faster */
		}
		else if (refused)
			not_opened_error(&key);
		else if (account_insert(ledger, &key, &rules))
			PG_RETURN_VOID();
		else
			refused = true; /* unless the loop finds it now */
	}
	check_account_right(ledger, ACL_UPDATE);
	account_change(ledger, &key, &rules);
	PG_RETURN_VOID();
}

/*
 * lock_opening lets one transaction at a time open an account. Other transactions may then have to
 * change its bounds, and would deadlock if they already had the weaker lock.
 */
static void
lock_opening(DcLedger *ledger, const DcKey *key)
{
	(void) advisory_lock(OPENING_LOCK_CLASS, ledger->relid,
						 hash_bytes((const unsigned char *) key->data, key->len),
						 ExclusiveLock, true);
}

/*
 * Read the bounds from arguments 2 and 3; raise 22023 if the lower one is above the upper one.
 */
static void
rules_arg(FunctionCallInfo fcinfo, DcRules *rules)
{
	rules->has_min = !PG_ARGISNULL(2);
	rules->min = rules->has_min ? PG_GETARG_INT64(2) : 0;
	rules->has_max = !PG_ARGISNULL(3);
	rules->max = rules->has_max ? PG_GETARG_INT64(3) : 0;
	if (rules->has_min && rules->has_max && rules->min > rules->max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("min_balance must not be greater than max_balance")));
}

/*
 * Return true if two accounts have the same bounds.
 */
static bool
rules_equal(const DcRules *a, const DcRules *b)
{
	return a->has_min == b->has_min && a->has_max == b->has_max &&
		a->min == b->min && a->max == b->max;
}

/*
 * Raise 42501 unless the caller has a right on the table of accounts.
 */
static void
check_account_right(DcLedger *ledger, AclMode right)
{
	if (pg_class_aclcheck(ledger->row.accounts, GetUserId(), right) != ACLCHECK_OK)
		permission_error(ledger->row.accounts, right);
}

/*
 * account_insert opens an account; returns false if another transaction has opened it. Waits for a
 * transaction that is about to open it.
 */
static bool
account_insert(DcLedger *ledger, const DcKey *key, const DcRules *rules)
{
	/* its balance is zero */
	if ((rules->has_min && rules->min > 0) || (rules->has_max && rules->max < 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the bounds of a new account must include zero")));
	if (account_write(ledger, &sql_account_insert, key, rules) == 0)
		return false;
	if (rules->has_min)
		limit_give(ledger, key, false, room_below(0, rules->min, 0));
	if (rules->has_max)
		limit_give(ledger, key, true, room_below(rules->max, 0, 0));
	return true;
}

/*
 * account_change changes the bounds of an account. No transaction posts in the meantime. Pending
 * transfers whose time is up must not stand in the way, so they are ended first.
 */
static void
account_change(DcLedger *ledger, const DcKey *key, const DcRules *rules)
{
	DcBalance now;
	int64 lower;
	int64 upper;

	while (pendings_expire_key(ledger, key))
		CHECK_FOR_INTERRUPTS();
	apply_early();
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	read_balance(ledger, key, &now);
	PopActiveSnapshot();
	if (IsolationIsSerializable())
		check_balance_seen(ledger, key, &now);

	lower = rules->has_min ? room_below(now.posted, rules->min, now.out) : 0;
	upper = rules->has_max ? room_below(rules->max, now.posted, now.in) : 0;
	if (lower < 0)
		ereport(ERROR,
				(errcode(ERRCODE_DC_BALANCE_TOO_LOW),
				 errmsg("the balance of account \"%.*s\" is below its new bound",
						(int) key->len, key->data),
				 errdetail("The balance is %lld, of which %lld are pending.",
						   (long long) now.posted, (long long) now.out)));
	if (upper < 0)
		ereport(ERROR,
				(errcode(ERRCODE_DC_BALANCE_TOO_HIGH),
				 errmsg("the balance of account \"%.*s\" is above its new bound",
						(int) key->len, key->data),
				 errdetail("The balance is %lld, and %lld are pending.",
						   (long long) now.posted, (long long) now.in)));
	limit_set(ledger, key, false, lower);
	limit_set(ledger, key, true, upper);
	account_write(ledger, &sql_account_update, key, rules);
	relation_invalidate(ledger->relid); /* sessions remember rules */
	CommandCounterIncrement();
}

/*
 * read_balance reads the amounts of an account, posted and pending, in the active
 * snapshot. Expired pending transfers count until they are ended, as they do in the limits.
 */
static void
read_balance(DcLedger *ledger, const DcKey *key, DcBalance *balance)
{
	Datum values[2];
	DcSqlSession session;

	balance->posted = counter_value(ledger->counter, key);
	values[0] = key_text_datum(key);
	values[1] = TimestampTzGetDatum(DT_NOBEGIN);
	ledger_sql_begin(&session, ledger);
	sql_read(&session, &sql_balance, values);
	balance->out = rows_bigint(&session.rows, 0, 1);
	balance->in = rows_bigint(&session.rows, 0, 2);
	sql_end(&session);
}

/*
 * check_balance_seen raises 40001 if the transaction's snapshot shows a balance other than the
 * current one: a decision based on the current one would contradict what the transaction reads.
 */
static void
check_balance_seen(DcLedger *ledger, const DcKey *key, const DcBalance *now)
{
	DcBalance seen;

	PushCopiedSnapshot(GetTransactionSnapshot());
	UpdateActiveSnapshotCommandId();
	read_balance(ledger, key, &seen);
	PopActiveSnapshot();
	if (seen.posted != now->posted || seen.out != now->out || seen.in != now->in)
		serialization_error();
}

/*
 * account_write inserts or updates the row of an account, and returns how many rows it
 * has written.
 */
static uint64
account_write(DcLedger *ledger, const DcStatement *statement, const DcKey *key,
			  const DcRules *rules)
{
	char nulls[] = "    ";
	DcSqlSession session;
	Datum values[4];
	uint64 rows;

	values[0] = key_text_datum(key);
	values[1] = Int64GetDatum(rules->min);
	values[2] = Int64GetDatum(rules->max);
	values[3] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (!rules->has_min)
		nulls[1] = 'n';
	if (!rules->has_max)
		nulls[2] = 'n';
	ledger_sql_begin(&session, ledger);
	rows = sql_run_nulls(&session, statement, values, nulls);
	sql_end(&session);
	return rows;
}

/*
 * room_below returns amount - bound - pending (22003 if it is more than a limit can
 * count).
 */
static int64
room_below(int64 amount, int64 bound, int64 pending)
{
	int64 room;

	if (pg_sub_s64_overflow(amount, bound, &room) ||
		pg_sub_s64_overflow(room, pending, &room) || room > MAX_ROOM)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The distance of a balance from its bound must be less than 2^62.")));
	return room;
}
