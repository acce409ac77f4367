/*
 * pass.c
 *		Passing a batch on, and getting past events that are never accepted.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A batch that was not accepted comes again. That is right as long as the receiver is the problem.
 * But if one of the events is, this would go on forever, and nothing else would be delivered. On
 * the other hand, events must not become dead letters because a server was down for a while. So
 * events are refused, by dc_nack(), only if they are known to be at fault:
 *
 *	- the command says so: it ends with status 65 (EX_DATAERR of sysexits.h);
 *	- or the command gets commands of Redis and fails, but accepts one that adds
 *	  nothing. Redis would refuse that one, too, if it refused all events: without
 *	  memory, as a replica, while it loads, without a password. redis-cli only reports that
 *	  something went wrong. After that, the event alone must fail once more, and the harmless
 *	  command must be accepted again, so that an outage which ends in between is not taken for the
 *	  event's fault.
 *
 * Halving finds the event at fault: the command gets parts of the batch, one
 * after the other. Each is acknowledged when it has been accepted. A part of one
 * event that is at fault is refused, and comes again later, until it is a dead
 * letter (max_attempts of the consumer). Parts grow again as they are accepted.
 *
 * The order of a key is kept: parts are delivered in order, and none continues with a key that has
 * had an event refused. The server decides whether the key's later events have to wait (on_nack),
 * so the batch ends in front of the first of them.
 */
#include "bin/dc_relay/relay.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_DELAY 0.2 /* seconds until a refused event comes again; doubles */
#define LONGEST_DELAY 30

static int part_size = INT_MAX; /* events that the next run of the command gets */

static Delivery deliver_part(const Options *options, Part part);
static bool accepts_harmless(const Options *options, Part part);
static Outcome relay_pass_refuse(const Options *options, const PGresult *batch, int row);
static int end_of_part(const PGresult *batch, int first, const int *refused, int nrefused);
static bool relay_pass_same_key(const PGresult *batch, int a, int b);
static bool relay_pass_same(Field a, Field b);

/*
 * pass_on delivers a batch and acknowledges it. OUTCOME_OK: fetch again, even if some of
 * the batch comes again.
 */
Outcome
pass_on(const Options *options, const PGresult *batch)
{
	int rows = PQntuples(batch);
	int *refused = NULL;
	int nrefused = 0;
	int first = 0;
	int end;
	Outcome outcome = OUTCOME_OK;

	while (outcome == OUTCOME_OK && first < rows &&
		   (end = end_of_part(batch, first, refused, nrefused)) > first)
	{
		Part part = {.batch = batch, .first = first, .count = end - first};

		if (stopping)
		{
			outcome = OUTCOME_STOPPED;
			break;
		}
		switch (deliver_part(options, part))
		{
			case DELIVERED:
				first = end;
				part_size = part_size > INT_MAX / 2 ? INT_MAX : part_size * 2;
				outcome = server_ack(options, batch_seq(batch, end - 1));
				break;
			case NOT_DELIVERED:
				outcome = OUTCOME_RETRY;
				break;
			case ABANDONED:
				outcome = OUTCOME_STOPPED;
				break;
			case AT_FAULT:
				part_size = (part.count + 1) / 2;
				if (part.count > 1)
					break;
				if (refused == NULL)
					refused = get_memory((size_t) rows * sizeof(int));
				refused[nrefused++] = first;
				outcome = relay_pass_refuse(options, batch, first++);
				break;
		}
	}
	free(refused);
	return outcome;
}

/*
 * deliver_part delivers some events, and finds out whether it is their fault if that
 * fails.
 */
static Delivery
deliver_part(const Options *options, Part part)
{
	Delivery delivery = deliver(options, part);

	if (delivery != NOT_DELIVERED || options->format != FORMAT_REDIS || stopping ||
		!accepts_harmless(options, part))
		return delivery;
	if (part.count > 1)
		return AT_FAULT;
	delivery = deliver(options, part);
	if (delivery == NOT_DELIVERED && accepts_harmless(options, part))
		delivery = AT_FAULT;
	return delivery;
}

/*
 * Return true if the command accepts something that adds nothing: then it is the event that is at
 * fault, not the receiver.
 */
static bool
accepts_harmless(const Options *options, Part part)
{
	part.harmless = true;
	return deliver(options, part) == DELIVERED;
}

/*
 * relay_pass_refuse makes the server deliver an event later, or give it up.
 */
static Outcome
relay_pass_refuse(const Options *options, const PGresult *batch, int row)
{
	double delay = FIRST_DELAY;
	bool dead;
	Outcome outcome;
	Event event;

	batch_op(batch, row, &event);
	for (long i = strtol(event.attempt.data, NULL, 10); i > 1 && delay < LONGEST_DELAY; i--)
		delay *= 2;
	if (delay > LONGEST_DELAY)
		delay = LONGEST_DELAY;
	outcome = server_nack(options, batch_seq(batch, row), delay, &dead);
	if (outcome == OUTCOME_OK && dead)
		say("event %s of topic \"%s\" was refused %s times and is now a dead letter",
			event.seq.data, event.topic.data, event.attempt.data);
	else if (outcome == OUTCOME_OK)
		say("event %s of topic \"%s\" was refused, and will be retried in %.1f seconds",
			event.seq.data, event.topic.data, delay);
	return outcome;
}

/*
 * end_of_part returns where the next part ends: it is not larger than it should be, and
 * has no event whose key has had one refused.
 */
static int
end_of_part(const PGresult *batch, int first, const int *refused, int nrefused)
{
	int rows = PQntuples(batch);
	int end = part_size < rows - first ? first + part_size : rows;

	for (int row = first; row < end && nrefused > 0; row++)
	{
		for (int i = 0; i < nrefused; i++)
		{
			if (relay_pass_same_key(batch, row, refused[i]))
				return row;
		}
	}
	return end;
}

/*
 * Return true if two events have to keep their order: they have the same topic
 * and the same key.
 */
static bool
relay_pass_same_key(const PGresult *batch, int a, int b)
{
	Event left;
	Event right;

	batch_op(batch, a, &left);
	batch_op(batch, b, &right);
	return left.key.data != NULL && right.key.data != NULL &&
		relay_pass_same(left.key, right.key) && relay_pass_same(left.topic, right.topic);
}

/*
 * Return true if both fields have the same bytes.
 */
static bool
relay_pass_same(Field a, Field b)
{
	return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}
