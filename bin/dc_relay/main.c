/*
 * main.c
 *		dc_relay: fetch a batch, deliver it, acknowledge it, again.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * At least once: a batch is acknowledged after it has been delivered, so any failure
 * before that makes it come again. There is one batch at a time, and nothing is kept of
 * it afterwards.
 *
 * Exit status: 0 if told to stop, or with --once when nothing is left; 1 for an error that a retry
 * does not fix.
 */
#include "bin/dc_relay/relay.h"

#include <stdlib.h>

#define SHORTEST_ROUND 100 /* ms for a fetch that finds nothing */
#define LONGEST_BUSY 10000 /* ms that --once waits for other sessions */

const char program[] = "dc_relay";

static void relay_main_relay(const Options *options);
static Outcome one_batch(const Options *options, bool *empty);
static Outcome look_whether_empty(bool *empty);

/*
 * Run the relay until it is told to stop, or with --once until nothing is left.
 */
int
main(int argc, char **argv)
{
	Options options;

	signals_init();
	options_parse(&options, argc, argv);
	deliver_init(&options);
	relay_main_relay(&options);
	return EXIT_SUCCESS;
}

/*
 * Pass batches on, one after the other. After a failure it pauses, for longer each time, and
 * connects again if necessary.
 */
static void
relay_main_relay(const Options *options)
{
	Pause pause = {0};
	Outcome outcome = OUTCOME_LOST;
	bool connected = false;

	while (!stopping)
	{
		bool empty = false;

		outcome = OUTCOME_OK;
		if (!connected)
			outcome = server_connect(options);
		if (outcome == OUTCOME_OK)
		{
			connected = true;
			outcome = one_batch(options, &empty);
		}
		else
			connected = false;

		if (outcome == OUTCOME_OK)
		{
			pause_reset(&pause);
			if (empty && options->once)
				break;
			continue;
		}
		if (outcome == OUTCOME_STOPPED)
			break;
		if (outcome == OUTCOME_LOST && connected)
		{
			server_close();
			connected = false;
		}
		pause_next(&pause);
	}
	if (connected)
		server_close();
}

/*
 * one_batch fetches, delivers and acknowledges a batch.
 */
static Outcome
one_batch(const Options *options, bool *empty)
{
	int64_t begin = now_ms();
	PGresult *batch;
	Outcome outcome;

	outcome = server_fetch(options, &batch);
	if (outcome == OUTCOME_REFUSED)
		fail("the consumer cannot be read");
	if (outcome != OUTCOME_OK)
		return outcome;
	*empty = PQntuples(batch) == 0;
	if (!*empty)
		outcome = pass_on(options, batch);
	PQclear(batch);
	if (*empty && options->once)
		return look_whether_empty(empty);

	/* a fetch that does not wait must not keep two processes busy */
	while (*empty && !stopping && now_ms() < begin + SHORTEST_ROUND)
		wait_for(-1, 0, begin + SHORTEST_ROUND);
	return outcome;
}

/*
 * look_whether_empty finds out whether a fetch that has found nothing means that nothing is
 * left. There may be more events to look through, or another session may be fetching.
 */
static Outcome
look_whether_empty(bool *empty)
{
	static int64_t busy_since = NO_DEADLINE;
	FetchEnd end;
	Outcome outcome = server_last_fetch(&end);
	int64_t next = now_ms() + SHORTEST_ROUND;

	if (outcome != OUTCOME_OK)
		return outcome;
	*empty = end == FETCH_COMPLETE;
	if (end != FETCH_BUSY)
		busy_since = NO_DEADLINE;
	else if (busy_since == NO_DEADLINE)
		busy_since = now_ms();
	else if (now_ms() - busy_since > LONGEST_BUSY)
		fail("another session is reading the consumer");
	while (end == FETCH_BUSY && !stopping && now_ms() < next)
		wait_for(-1, 0, next);
	return OUTCOME_OK;
}
