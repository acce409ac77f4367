/*
 * guc.c
 *		The extension's settings, all named dcounter.*.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "base/guc.h"

#define MS_PER_DAY (24 * 60 * 60 * 1000)

int dc_pending_memory = 16 * 1024;
bool dc_worker = true;
int dc_max_workers = 3;
char *dc_worker_role = NULL;
bool dc_worker_runs_owner_code = false;
bool dc_prepare_events = false;
int dc_compact_interval = 1000;
int dc_compact_batch = 1000;
int dc_worker_load = 15;
int dc_cache_size = 8 * 1024;
int dc_log_min_duration = -1;
int dc_expire_interval = 1000;
int dc_hold_retention = 24 * 60 * 60;
int dc_region_beat_interval = 10000;
int dc_region_handshake = 30000;
int dc_rights_interval = 1000;
int dc_rights_low = 0;
int dc_events_interval = 1000;
int dc_op_interval = 60 * 1000;
int dc_outbox_interval = 5000;
int dc_window_interval = 10 * 1000;
int dc_outbox_rotate_age = 600;
int dc_outbox_rotate_size = 256;
int dc_outbox_keep = 3600;
int dc_max_events = 1000000;
bool dc_async_ack = true;
int dc_verify_rate = 20000;
int dc_verify_max_rows = 1000000;
int dc_buffer_size = 32 * 1024;
int dc_stats_size = 12 * 1024;
int dc_limit_size = 16 * 1024;
int dc_presence_size = 16 * 1024;
int dc_presence_interval = 1000;
int dc_hot_key_alarm = 0;
int dc_throttle_max_keys = 10000;
int dc_distinct_interval = 1000;
int dc_distinct_cache = 16 * 1024;

/*
 * A numeric setting. Its default is the variable's initial value. Sizes of shared memory
 * are fixed at the start of the server, and not defined without preload.
 */
typedef struct IntSetting
{
	const char *name;
	const char *what;
	const char *more;
	int *value;
	int min;
	int max;
	GucContext context;
	int unit;
} IntSetting;

typedef struct BoolSetting
{
	const char *name;
	const char *what;
	const char *more;
	bool *value;
	GucContext context;
} BoolSetting;

static const IntSetting ints[] = {
	{"dcounter.pending_memory",
	 "Sets the memory for increments that wait for commit.",
	 "A transaction that would exceed it writes its pending increments to the shard tables early. Each open "
	 "savepoint with increments of its own may use the same amount again.",
	 &dc_pending_memory, 64, MAX_KILOBYTES, PGC_USERSET, GUC_UNIT_KB},
	{"dcounter.max_workers",
	 "Sets how many databases have a worker at a time.",
	 "If there are more with something to do, they take turns. A worker is started only as long as some of "
	 "max_worker_processes stay free for others.",
	 &dc_max_workers, 1, 128, PGC_SIGHUP, 0},
	{"dcounter.worker_load",
	 "Sets how much of the time a worker works off a backlog, in percent.",
	 "Short runs of its jobs are not slowed down. In long ones it sleeps between two transactions, so that "
	 "sessions have the processor.",
	 &dc_worker_load, 1, 100, PGC_SIGHUP, 0},
	{"dcounter.compact_interval",
	 "Sets the time from one compaction to the next.",
	 "The tables of totals lag behind by about this time.",
	 &dc_compact_interval, 10, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.events_interval",
	 "Sets how often the worker looks for changed keys to report.",
	 "Events of a counter table can be further apart, as set by dc_alter().",
	 &dc_events_interval, 10, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.compact_batch",
	 "Sets how many shard rows a compaction handles at a time.",
	 "The worker and dc_maintain() commit after each batch, so this is also how many rows they keep locked.",
	 &dc_compact_batch, 10, 100000, PGC_USERSET, 0},
	{"dcounter.log_min_duration",
	 "Sets the time above which a run of a worker's job is logged.",
	 "Zero logs all runs. -1 logs none.",
	 &dc_log_min_duration, -1, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.expire_interval",
	 "Sets how often the worker looks for expired holds.",
	 "Until then an expired hold's units are given back to the first who would otherwise get none.",
	 &dc_expire_interval, 10, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.hold_retention",
	 "Sets how long ended holds are kept.",
	 "During that time, a repeated call returns how the hold ended. -1 keeps them forever.",
	 &dc_hold_retention, -1, INT_MAX, PGC_SIGHUP, GUC_UNIT_S},
	{"dcounter.rights_interval",
	 "Sets how often the worker looks for units that other regions ask for.",
	 "It gives them what they need, if there are enough here.",
	 &dc_rights_interval, 10, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.rights_low",
	 "Sets the number of units of a key below which a region asks others for more.",
	 "This applies to keys that it has asked for before. Others give what they can spare. Zero turns it off.",
	 &dc_rights_low, 0, INT_MAX, PGC_SIGHUP, 0},
	{"dcounter.region_beat_interval",
	 "Sets how often an idle region tells the others what it has received from them.",
	 "In between, it writes nothing.",
	 &dc_region_beat_interval, 100, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.region_handshake",
	 "Sets how long a region waits after a start for the others to acknowledge it.",
	 "It publishes nothing until then. If they do not, it takes a new epoch.",
	 &dc_region_handshake, 100, MS_PER_DAY, PGC_SUSET, GUC_UNIT_MS},
	{"dcounter.op_interval",
	 "Sets how often the worker looks for expired ops.",
	 "These are the ops of dc_incr_once() and of ledgers, which are kept for the op_retention of their table.",
	 &dc_op_interval, 10, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.outbox_interval",
	 "Sets how often the worker maintains the partitions of the outbox.",
	 NULL,
	 &dc_outbox_interval, 10, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.outbox_rotate_age",
	 "Sets the age at which events go to the next partition of the outbox.",
	 NULL,
	 &dc_outbox_rotate_age, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S},
	{"dcounter.outbox_rotate_size",
	 "Sets the size at which events go to the next partition of the outbox.",
	 "If the next partition is not empty yet, the current one goes on growing.",
	 &dc_outbox_rotate_size, 1, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB},
	{"dcounter.outbox_keep",
	 "Sets how long events are kept that no consumer needs.",
	 "For that long, a consumer that is created or moved back can still get them.",
	 &dc_outbox_keep, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S},
	{"dcounter.window_interval",
	 "Sets how often the worker looks for expired buckets of windowed counters.",
	 NULL,
	 &dc_window_interval, 10, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.verify_rate",
	 "Sets how many rows a second a worker reads to verify bound counter tables.",
	 "It compares them with their sources, over and over. Zero turns that off.",
	 &dc_verify_rate, 0, INT_MAX, PGC_SIGHUP, 0},
	{"dcounter.verify_max_rows",
	 "Sets how many rows of one key a worker reads to verify it.",
	 "Keys with more rows, and sources with more that have no index on the key, are left to dc_source_check() and dc_build().",
	 &dc_verify_max_rows, 1, INT_MAX, PGC_SIGHUP, 0},
	{"dcounter.buffer_size",
	 "Sets the shared memory for increments of buffered counters.",
	 "When it is used up, increments are written to the shard tables as in exact mode.",
	 &dc_buffer_size, 128, MAX_KILOBYTES, PGC_POSTMASTER, GUC_UNIT_KB},
	{"dcounter.cache_size",
	 "Sets the shared memory for values that answer reads with max_staleness.",
	 NULL,
	 &dc_cache_size, 64, MAX_KILOBYTES, PGC_POSTMASTER, GUC_UNIT_KB},
	{"dcounter.limit_size",
	 "Sets the shared memory for keys of limits.",
	 "A key takes 160 bytes. When it is used up, new keys are answered by on_full of their limit.",
	 &dc_limit_size, 128, MAX_KILOBYTES, PGC_POSTMASTER, GUC_UNIT_KB},
	{"dcounter.presence_size",
	 "Sets the shared memory for members of rooms.",
	 "A member takes 160 bytes, as much as a named connection. When it is used up, nobody can enter.",
	 &dc_presence_size, 128, MAX_KILOBYTES, PGC_POSTMASTER, GUC_UNIT_KB},
	{"dcounter.presence_interval",
	 "Sets how often the worker looks for expired members, and for rooms with changes to report.",
	 NULL,
	 &dc_presence_interval, 10, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.hot_key_alarm",
	 "Sets how many writes a second, over 10 seconds, make a key hot, which the worker reports. Zero turns this off.",
	 "It is reported in the server log and by an event of type counter.hot. A key stays hot until it has half as many.",
	 &dc_hot_key_alarm, 0, INT_MAX, PGC_SIGHUP, 0},
	{"dcounter.throttle_max_keys",
	 "Sets how many keys of dc_throttle() a role may keep in memory.",
	 "Calls for more keys are refused until others have their full budget again.",
	 &dc_throttle_max_keys, 0, INT_MAX, PGC_SUSET, 0},
	{"dcounter.distinct_interval",
	 "Sets the time from one folding of distinct tables to the next.",
	 "Until then, reads combine what was added since.",
	 &dc_distinct_interval, 10, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS},
	{"dcounter.max_events_per_transaction",
	 "Sets how many events a transaction of a role that is not a superuser can have.",
	 "While they are written when it commits, no event of others is delivered. Zero: any number.",
	 &dc_max_events, 0, INT_MAX, PGC_SUSET, 0},
	{"dcounter.distinct_cache",
	 "Sets the memory in which a session remembers sketches of distinct tables.",
	 "An item that a remembered sketch has is not written again. A sketch takes up to 16 kB at precision 14.",
	 &dc_distinct_cache, 64, MAX_KILOBYTES, PGC_USERSET, GUC_UNIT_KB},
	{"dcounter.stats_size",
	 "Sets the shared memory for statistics of counter tables.",
	 "A table takes about 5 kB. When it is used up, tables that have not been used for a while lose their "
	 "statistics to others.",
	 &dc_stats_size, 64, MAX_KILOBYTES, PGC_POSTMASTER, GUC_UNIT_KB},
};

static const BoolSetting bools[] = {
	{"dcounter.worker",
	 "Runs workers in the databases that have dcounter.",
	 "Needs dcounter in shared_preload_libraries. Turning it off also ends a worker that dc_worker_start() "
	 "has started.",
	 &dc_worker, PGC_SIGHUP},
	{"dcounter.worker_runs_owner_code",
	 "Lets workers maintain tables on which code of their owner can run.",
	 "Such code, for example a trigger, may take as long as it likes, and keep the worker from other "
	 "tables. When off, such a table is left to its owner, who calls dc_maintain(). Tables of superusers are "
	 "maintained in any case.",
	 &dc_worker_runs_owner_code, PGC_SIGHUP},
	{"dcounter.prepare_events",
	 "Lets roles that are not superusers use PREPARE TRANSACTION after they have written events.",
	 "Until a prepared transaction ends, no later event of the database is delivered.",
	 &dc_prepare_events, PGC_SUSET},
	{"dcounter.async_ack",
	 "Lets transactions that only fetch and acknowledge events commit without waiting for the disk.",
	 "After a crash events may be delivered again, as they may be in any case. Transactions that write "
	 "anything else are not affected.",
	 &dc_async_ack, PGC_USERSET},
};

/*
 * guc_init defines the settings and reserves their prefix. A reload changes all settings of
 * the worker.
 */
void
guc_init(void)
{
	for (int i = 0; i < lengthof(ints); i++)
	{
		const IntSetting *s = &ints[i];

		if (s->context != PGC_POSTMASTER || process_shared_preload_libraries_in_progress)
			DefineCustomIntVariable(s->name, s->what, s->more, s->value, *s->value, s->min, s->max,
									s->context, s->unit, NULL, NULL, NULL);
	}
	for (int i = 0; i < lengthof(bools); i++)
	{
		const BoolSetting *s = &bools[i];

		DefineCustomBoolVariable(s->name, s->what, s->more, s->value, *s->value, s->context, 0,
								 NULL, NULL, NULL);
	}
	DefineCustomStringVariable("dcounter.worker_role",
							   "Sets the role that workers connect as.",
							   "It needs LOGIN, and CONNECT on the databases; an empty value is the "
							   "bootstrap superuser. In either case a table is worked on as its owner. "
							   "A change takes effect when a worker starts.",
							   &dc_worker_role, "", PGC_SIGHUP,
							   GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
	MarkGUCPrefixReserved("dcounter");
}
