/*
 * consumerrow.c
 *		The catalog dcounter.consumer.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A transaction that changes a row holds the lock on the consumer's settings
 * (consumeraccess.c).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/catrow.h"
#include "base/roles.h"
#include "core/table/catalog.h"
#include "events/consumer/consumer.h"

#define COL_NAME 2

/* Longest interval that makes sense: 100 years. */
#define INTERVAL_MAX_US (INT64CONST(100) * 366 * USECS_PER_DAY)

static const char *const on_nack_names[] = {"wait", "skip"};

static void consumerrow_columns(DcCatRow *io, void *data);
static void listed_columns(DcCatRow *io, void *data);
static void rest_columns(DcCatRow *io, DcConsumer *consumer, Datum *topics);

static const DcCatalog consumers = {
	.table = "consumer",
	.pkey = "consumer_pkey",
	.size = sizeof(DcConsumer),
	.columns = consumerrow_columns,
	.keeps_lock = true,
};

static const DcCatalog listed_consumers = {
	.table = "consumer",
	.size = sizeof(DcConsumer),
	.columns = listed_columns,
};

/*
 * Read or write the columns of dcounter.consumer, in their order.
 */
static void
consumerrow_columns(DcCatRow *io, void *data)
{
	DcConsumer *consumer = data;
	Datum topics = PointerGetDatum(consumer->topics);

	rest_columns(io, consumer, &topics);
	if (io->reading && topics != (Datum) 0)
		consumer_set_topics(consumer, DatumGetArrayTypeP(topics));
}

/*
 * Read the columns of a row, but for the topics.
 */
static void
listed_columns(DcCatRow *io, void *data)
{
	rest_columns(io, data, NULL);
}

/*
 * Read or write the columns; those of the topics are left out if there is no place for them.
 */
static void
rest_columns(DcCatRow *io, DcConsumer *consumer, Datum *topics)
{
	Datum age = consumer->max_age != 0 ? consumer->age_setting : (Datum) 0;

	cat_int4(io, &consumer->id);
	cat_string(io, &consumer->name);
	cat_oid(io, &consumer->owner);
	cat_roles(io, &consumer->readers);
	if (io->reading)
		consumer->filtered = !io->nulls[io->column];
	if (topics != NULL)
		cat_datum(io, TEXTARRAYOID, topics);
	else
		cat_skip(io, 1);
	cat_datum(io, INTERVALOID, &consumer->lease_setting);
	cat_not_null(io);
	cat_int4(io, &consumer->max_attempts);
	consumer->skip = cat_choice(io, consumer->skip, on_nack_names, lengthof(on_nack_names));
	cat_datum(io, INTERVALOID, &age);
	cat_int8(io, &consumer->max_size);
	cat_int8(io, &consumer->cut_off);
	cat_time(io, &consumer->created_at);
	cat_int8(io, &consumer->revived);
	if (!io->reading)
		return;
	consumer->tid = io->tid;
	consumer->lease = interval_setting_us(consumer->lease_setting, "lease");
	consumer->age_setting = age;
	if (age != (Datum) 0)
		consumer->max_age = interval_setting_us(age, "max_retention_age");
}

/*
 * consumer_read finds a consumer by its name, or returns NULL.
 */
DcConsumer *
consumer_read(const char *name)
{
	DcConsumer *consumer = palloc(sizeof(DcConsumer));

	return cat_read_by(&consumers, consumer, "consumer_name_key", COL_NAME,
					   CStringGetTextDatum(name))
		? consumer
		: NULL;
}

/*
 * consumer_read_by_id finds a consumer by its id, or returns NULL.
 */
DcConsumer *
consumer_read_by_id(int32 id)
{
	DcConsumer *consumer = palloc(sizeof(DcConsumer));

	return cat_read(&consumers, consumer, Int32GetDatum(id)) ? consumer : NULL;
}

/*
 * consumer_list returns all consumers, as a snapshot shows them, without their topics: these may be
 * long, and the worker asks often. Such a row must not be stored.
 */
List *
consumer_list(Snapshot snapshot)
{
	return cat_read_all(&listed_consumers, snapshot);
}

/*
 * consumer_insert adds a consumer; a unique violation is raised as usual.
 */
void
consumer_insert(DcConsumer *consumer)
{
	cat_insert(&consumers, consumer);
}

/*
 * consumer_has_lost_roles returns true if roles of a consumer have been dropped.
 */
bool
consumer_has_lost_roles(const DcConsumer *consumer)
{
	return role_is_lost(consumer->owner) ||
		list_length(roles_without_lost(list_copy(consumer->readers))) != list_length(consumer->readers);
}

/*
 * consumer_update stores changed settings, without roles that have been dropped. A consumer that
 * has lost its owner belongs to the owner of the extension's tables.
 */
void
consumer_update(DcConsumer *consumer)
{
	if (role_is_lost(consumer->owner))
		consumer->owner = relation_owner(catalog_relation(consumers.table));
	consumer->readers = roles_without_lost(consumer->readers);
	cat_store_at(&consumers, &consumer->tid, consumer);
}

/*
 * Delete the consumer's row. The caller holds the lock on its settings.
 */
void
consumer_delete(DcConsumer *consumer)
{
	cat_delete_at(&consumers, &consumer->tid);
}

/*
 * Return true if a consumer is interested in a topic, a text that is
 * not compressed or stored elsewhere.
 */
bool
consumer_wants(const DcConsumer *consumer, const text *topic)
{
	if (consumer->topics == NULL)
		return true;
	for (int i = 0; i < consumer->ntopics; i++)
	{
		if (same_text((text *) DatumGetPointer(consumer->topic_list[i]), topic))
			return true;
	}
	return false;
}

/*
 * consumer_set_topics sets the topics; NULL or no element stands for all. Errors:
 * 22004 for a NULL among them, 22023 for more than one dimension.
 */
void
consumer_set_topics(DcConsumer *consumer, ArrayType *topics)
{
	consumer->topics = NULL;
	consumer->ntopics = 0;
	if (topics == NULL || ArrayGetNItems(ARR_NDIM(topics), ARR_DIMS(topics)) == 0)
		return;
	if (ARR_NDIM(topics) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("topics must be a one-dimensional array")));
	if (array_contains_nulls(topics))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("topics must not contain nulls")));
	consumer->topics = topics;
	deconstruct_array(topics, TEXTOID, -1, false, TYPALIGN_INT,
					  &consumer->topic_list, NULL, &consumer->ntopics);
}

/*
 * interval_setting_us returns an interval in us, with months of 30 days, which settings of 0.1 may
 * have. An interval that is longer than 100 years (or infinite) counts as 100 years. 22023 if it is
 * negative.
 */
int64
interval_setting_us(Datum value, const char *what)
{
	Interval *interval = DatumGetIntervalP(value);
	int64 days = (int64) interval->month * DAYS_PER_MONTH + interval->day;
	int64 us;

	if (pg_mul_s64_overflow(days, USECS_PER_DAY, &us) ||
		pg_add_s64_overflow(us, interval->time, &us))
		us = days < 0 ? -1 : INTERVAL_MAX_US;
	if (us < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be negative", what)));
	return Min(us, INTERVAL_MAX_US);
}
