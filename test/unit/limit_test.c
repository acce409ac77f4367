/*
 * limit_test.c
 *		The algorithms of limits against models that are as plain as can be: a bucket with a level, lists
 *		of all that was allowed. And the bounds that are promised, in any window.
 */
#include "unit.h"

#include "limit_store.h"

#define CALLS 400
#define START (INT64_C(1) << 61)

typedef __int128 Wide;

/* One that was allowed. */
typedef struct Allowed
{
	int64_t at;
	int64_t units; /* 0: refunded, or given back */
	int64_t lease;
	int64_t ends; /* of a lease */
} Allowed;

typedef struct Model
{
	DcLimitNumbers numbers;
	Wide level; /* gcra: in 1/per units */
	int64_t level_at;
	int64_t window; /* fixed, sliding: start of the window; 0: none */
	int n;
	Allowed allowed[CALLS];
} Model;

static uint64_t seed;

static int64_t
random_to(int64_t n)
{
	return (int64_t) (unit_random(&seed) % (uint64_t) n);
}

static int64_t
units_between(const Model *model, int64_t after, int64_t upto)
{
	int64_t sum = 0;

	for (int i = 0; i < model->n; i++)
	{
		if (model->allowed[i].at > after && model->allowed[i].at <= upto)
			sum += model->allowed[i].units;
	}
	return sum;
}

static int64_t
live(const Model *model, int64_t now)
{
	int64_t sum = 0;

	for (int i = 0; i < model->n; i++)
	{
		if (model->allowed[i].at <= now && model->allowed[i].ends > now)
			sum += model->allowed[i].units;
	}
	return sum;
}

static Wide
level_at(const Model *model, int64_t now)
{
	Wide most = (Wide) model->numbers.burst * model->numbers.per;
	Wide level = model->level + (Wide) (now - model->level_at) * model->numbers.rate;

	return level < most ? level : most;
}

/* start of the window at a time, 0 if a call would begin one */
static int64_t
window_at(const Model *model, int64_t now)
{
	int64_t per = model->numbers.per;
	int64_t windows;

	if (model->window == 0)
		return 0;
	windows = (now - model->window) / per;
	if (model->numbers.kind == LIMIT_FIXED)
		return windows == 0 && units_between(model, model->window - 1, now) > 0 ? model->window : 0;
	/* the window begins again when the two last ones have nothing */
	if (units_between(model, model->window + (windows - 1) * per - 1, now) == 0)
		return 0;
	return model->window + windows * per;
}

/* units that could be had */
static int64_t
model_room(const Model *model, int64_t now)
{
	const DcLimitNumbers *numbers = &model->numbers;
	int64_t window = window_at(model, now);
	Wide room;

	switch (numbers->kind)
	{
		case LIMIT_GCRA:
			return (int64_t) (level_at(model, now) / numbers->per);
		case LIMIT_FIXED:
			return window == 0 ? numbers->rate : numbers->rate - units_between(model, window - 1, now);
		case LIMIT_SLIDING:
			if (window == 0)
				return numbers->rate;
			room = (Wide) numbers->rate * numbers->per;
			room -= (Wide) units_between(model, window - 1, now) * numbers->per;
			room -= (Wide) units_between(model, window - numbers->per - 1, window - 1) * (window + numbers->per - now);
			return room < 0 ? 0 : (int64_t) (room / numbers->per);
		case LIMIT_LOG:
			return numbers->rate - units_between(model, now - numbers->per, now);
		case LIMIT_CONCURRENT:
			return numbers->rate - live(model, now);
	}
	return -1;
}

static void
model_add(Model *model, int64_t now, int64_t cost, int64_t lease)
{
	int64_t window = window_at(model, now);

	model->level = level_at(model, now) - (Wide) cost * model->numbers.per;
	model->level_at = now;
	model->window = window != 0 ? window : now;
	model->allowed[model->n++] = (Allowed){now, cost, lease, now + model->numbers.per};
}

static DcLimitNumbers
random_numbers(void)
{
	static const int64_t pers[] = {1, 7, 1000, 60000, 1000000, INT64_C(60000000), INT64_C(86400000000)};
	DcLimitNumbers numbers = {.kind = (DcLimitKind) random_to(5)};

	numbers.rate = 1 + random_to(random_to(2) ? 5 : 60);
	numbers.per = pers[random_to(7)] * (1 + random_to(3));
	numbers.burst = 1 + random_to(random_to(2) ? 3 : 100);
	if (numbers.kind == LIMIT_GCRA && random_to(4) == 0)
		numbers.rate = 1 + random_to(LIMIT_MAX_UNITS);
	return numbers;
}

static int64_t
random_pause(const DcLimitNumbers *numbers)
{
	switch (random_to(6))
	{
		case 0:
			return 0;
		case 1:
			return 1;
		case 2:
			return numbers->per;
		case 3:
			return random_to(numbers->per * 3 + 1);
		default:
			return random_to(numbers->per / numbers->rate + 2);
	}
}

static int wrong_answers;
static int wrong_room;
static int wrong_fits;
static int wrong_retry;
static int wrong_idle;
static int wrong_bound;
static int leaks;
static int denials;

/* the most that any window may have */
static void
check_bound(const Model *model)
{
	const DcLimitNumbers *numbers = &model->numbers;

	for (int i = 0; i < model->n; i++)
	{
		int64_t from = model->allowed[i].at;
		int64_t end = from + numbers->per - 1;
		int64_t sum = units_between(model, from - 1, end);

		switch (numbers->kind)
		{
			case LIMIT_GCRA:
				for (int j = i; j < model->n; j++)
				{
					Wide most = (Wide) numbers->burst * numbers->per + (Wide) (model->allowed[j].at - from) * numbers->rate;

					if ((Wide) units_between(model, from - 1, model->allowed[j].at) * numbers->per > most)
						wrong_bound++;
				}
				break;
			case LIMIT_LOG:
				wrong_bound += sum > numbers->rate;
				break;
			case LIMIT_FIXED:
				wrong_bound += sum > 2 * numbers->rate;
				break;
			case LIMIT_SLIDING:
				wrong_bound += sum >= 2 * numbers->rate && numbers->rate > 1 && numbers->per > numbers->rate;
				break;
			case LIMIT_CONCURRENT:
				wrong_bound += live(model, from) > numbers->rate;
				break;
		}
	}
}

static void
check_denied(const Model *model, int64_t now, int64_t cost, const DcLimitAnswer *answer)
{
	int64_t most = model->numbers.kind == LIMIT_GCRA ? model->numbers.burst : model->numbers.rate;

	denials++;
	if (cost > most)
		wrong_retry += answer->retry_after != LIMIT_NEVER || answer->remaining != model_room(model, now);
	else
		wrong_retry += answer->retry_after <= 0 || model_room(model, now + answer->retry_after) < cost ||
			model_room(model, now + answer->retry_after - 1) >= cost;
}

static void
one_run(void)
{
	static Model model;
	static Store store;
	DcLimitState state;
	DcLimitAnswer answer;
	int64_t now = START + random_to(1000000);

	memset(&model, 0, sizeof(model));
	model.numbers = random_numbers();
	model.level = (Wide) model.numbers.burst * model.numbers.per;
	model.level_at = now;
	store_init(&store, 2 + (uint32_t) random_to(8));
	limit_begin(&model.numbers, &state, now, 0);
	for (int call = 0; call < CALLS; call++)
	{
		int64_t most = model.numbers.kind == LIMIT_GCRA ? model.numbers.burst : model.numbers.rate;
		int64_t cost = random_to(3) ? 1 : 1 + random_to(most + 1);
		int64_t room;

		now += random_pause(&model.numbers);
		room = model_room(&model, now);
		if (random_to(10) == 0 && model.numbers.kind == LIMIT_CONCURRENT && model.n > 0)
		{
			Allowed *some = &model.allowed[random_to(model.n)];
			bool is_live = some->ends > now && some->units > 0;

			limit_turn(&model.numbers, &state, now, &store.api);
			if (random_to(2))
			{
				wrong_answers += limitlist_release(&state, some->lease, &store.api) != is_live;
				some->units = 0;
			}
			else
			{
				wrong_answers += limitlist_renew(&model.numbers, &state, now, some->lease, &store.api) != is_live;
				if (is_live)
					some->ends = now + model.numbers.per;
			}
			continue;
		}
		if (random_to(500) == 0 && state.idle_at > now)
		{
			/* nobody comes until it is idle: then it is as if it were new */
			DcLimitState fresh;
			DcLimitAnswer new_answer;

			now = state.idle_at;
			limit_begin(&model.numbers, &fresh, now, 0);
			limit_turn(&model.numbers, &state, now, &store.api);
			limit_test(&model.numbers, &state, now, 1, &store.api, &answer);
			limit_test(&model.numbers, &fresh, now, 1, &store.api, &new_answer);
			wrong_idle += answer.remaining != new_answer.remaining || model_room(&model, now) != most;
			limit_begin(&model.numbers, &state, now, 0);
			room = most;
		}
		limit_turn(&model.numbers, &state, now, &store.api);
		wrong_fits += limit_fits(&model.numbers, &state, now, cost, &store.api) != (cost < room ? cost : room);
		if (random_to(4) == 0 && room > 0 && cost > room)
			cost = limit_fits(&model.numbers, &state, now, cost, &store.api);
		if (store_call(&store, &model.numbers, &state, now, cost, call, &answer))
			model_add(&model, now, cost, call);
		else
			check_denied(&model, now, cost, &answer);
		wrong_answers += answer.allowed != (cost <= room);
		wrong_room += cost <= most && answer.remaining != model_room(&model, now);
		wrong_idle += state.idle_at > now + 2 * model.numbers.per && model.numbers.kind != LIMIT_GCRA;
	}
	check_bound(&model);
	limitlist_free(&state, &store.api);
	leaks += store.taken != 0;
}

/* A million calls at a rate that no us divides: not one too many, nor too few. */
static bool
no_drift(int64_t rate, int64_t per)
{
	static Store store;
	DcLimitNumbers numbers = {LIMIT_GCRA, rate, per, 10 + rate / 1000};
	DcLimitState state;
	DcLimitAnswer answer;
	int64_t now = START;
	int64_t allowed = 0;
	int64_t step = per / rate + 1;
	Wide most;

	store_init(&store, 2);
	limit_begin(&numbers, &state, now, 0);
	for (int i = 0; i < 1000000; i++)
	{
		while (store_call(&store, &numbers, &state, now, 1 + numbers.burst / 7, 0, &answer))
			allowed += 1 + numbers.burst / 7;
		now += step;
	}
	now -= step;
	most = (Wide) numbers.burst * per + (Wide) (now - START) * rate;
	return (Wide) allowed * per <= most && (Wide) (allowed + 1 + numbers.burst / 7) * per > most;
}

static int64_t
remaining(Store *store, const DcLimitNumbers *numbers, DcLimitState *state, int64_t now)
{
	DcLimitAnswer answer;

	limit_turn(numbers, state, now, &store->api);
	limit_test(numbers, state, now, 1, &store->api, &answer);
	return answer.allowed ? answer.remaining + 1 : answer.remaining;
}

static void
conversions(void)
{
	static Store store;
	DcLimitState state;
	DcLimitAnswer answer;
	DcLimitNumbers old;
	DcLimitNumbers new;
	int64_t now = START;
	int kept = 0;

	store_init(&store, 4);
	for (int run = 0; run < 20000; run++)
	{
		int64_t before;
		int64_t after;
		int64_t most;

		old = random_numbers();
		new = random_numbers();
		new.kind = old.kind;
		limit_begin(&old, &state, now, 0);
		for (int i = 0; i < 10; i++)
			(void) store_call(&store, &old, &state, now, 1 + random_to(3), i, &answer);
		before = (old.kind == LIMIT_GCRA ? old.burst : old.rate) - remaining(&store, &old, &state, now);
		most = new.kind == LIMIT_GCRA ? new.burst : new.rate;
		limit_convert(&old, &new, &state, now, &store.api);
		after = remaining(&store, &new, &state, now);
		kept += after == (most > before ? most - before : 0);
		now = state.idle_at;
		limit_turn(&new, &state, now, &store.api);
		kept -= remaining(&store, &new, &state, now) != most;
		limitlist_free(&state, &store.api);
	}
	ok(kept == 20000, "a rule that is altered keeps what was used");

	old = (DcLimitNumbers){LIMIT_LOG, 3, 10, 0};
	new = (DcLimitNumbers){LIMIT_LOG, 3, 20, 0};
	limit_begin(&old, &state, START, 0);
	(void) store_call(&store, &old, &state, START, 1, 0, &answer);
	(void) store_call(&store, &old, &state, START + 4, 2, 0, &answer);
	limit_convert(&old, &new, &state, START + 5, &store.api);
	ok(remaining(&store, &new, &state, START + 19) == 0 && remaining(&store, &new, &state, START + 20) == 1 &&
		   remaining(&store, &new, &state, START + 23) == 1 && remaining(&store, &new, &state, START + 24) == 3,
	   "a unit of a log counts for the new period, from when it came");
	limitlist_free(&state, &store.api);
}

static void
refunds(void)
{
	static Store store;
	DcLimitState state;
	DcLimitAnswer answer;
	int good = 0;

	store_init(&store, 3);
	for (int run = 0; run < 5000; run++)
	{
		DcLimitNumbers numbers = random_numbers();
		int64_t most = numbers.kind == LIMIT_GCRA ? numbers.burst : numbers.rate;
		int64_t used = 1 + random_to(most);
		int64_t refunded = 1 + random_to(most + 2);

		limit_begin(&numbers, &state, START, 0);
		(void) store_call(&store, &numbers, &state, START, used, 0, &answer);
		limit_refund(&numbers, &state, START, refunded, &store.api);
		good += remaining(&store, &numbers, &state, START) == most - (used > refunded ? used - refunded : 0) &&
			(used > refunded || state.idle_at == START || limit_has_list(&numbers));
		limitlist_free(&state, &store.api);
	}
	ok(good == 5000, "what is refunded can be had again, and no more");
}

static void
losses(void)
{
	static Store store;
	DcLimitState state;
	int good = 0;

	store_init(&store, 3);
	for (int run = 0; run < 5000; run++)
	{
		DcLimitNumbers numbers = random_numbers();
		int64_t most = numbers.kind == LIMIT_GCRA ? numbers.burst : numbers.rate;
		int64_t now = START + (random_to(2) ? 0 : random_to(3 * numbers.per));
		int64_t first;

		limit_begin(&numbers, &state, START, START);
		first = remaining(&store, &numbers, &state, START);
		limit_begin(&numbers, &state, now, START);
		good += first == 0 && (now > START || remaining(&store, &numbers, &state, now) == 0) && state.idle_at >= START &&
			remaining(&store, &numbers, &state, state.idle_at > now ? state.idle_at : now) == most;
	}
	ok(good == 5000, "what is lost is a budget that is empty, and filled again");
}

static void
wrong_numbers(void)
{
	ok(limit_numbers_wrong(&(DcLimitNumbers){LIMIT_GCRA, 1, 1, 1}) == NULL &&
		   limit_numbers_wrong(&(DcLimitNumbers){LIMIT_GCRA, 0, 1, 1}) != NULL &&
		   limit_numbers_wrong(&(DcLimitNumbers){LIMIT_GCRA, 1, 0, 1}) != NULL &&
		   limit_numbers_wrong(&(DcLimitNumbers){LIMIT_GCRA, 1, 1, 0}) != NULL &&
		   limit_numbers_wrong(&(DcLimitNumbers){LIMIT_GCRA, LIMIT_MAX_UNITS + 1, 1, 1}) != NULL &&
		   limit_numbers_wrong(&(DcLimitNumbers){LIMIT_GCRA, 1, LIMIT_MAX_US / 10, 10}) == NULL &&
		   limit_numbers_wrong(&(DcLimitNumbers){LIMIT_GCRA, 1, LIMIT_MAX_US / 10, 11}) != NULL &&
		   limit_numbers_wrong(&(DcLimitNumbers){LIMIT_FIXED, 1, LIMIT_MAX_US / 10 + 1, 0}) != NULL &&
		   limit_numbers_wrong(&(DcLimitNumbers){LIMIT_FIXED, INT64_MIN, 5, 0}) != NULL &&
		   limit_numbers_wrong(&(DcLimitNumbers){LIMIT_LOG, 1025, 5, 0}) != NULL &&
		   limit_numbers_wrong(&(DcLimitNumbers){LIMIT_CONCURRENT, 1024, 5, 0}) == NULL,
	   "numbers that are no good are refused");
}

int
main(int argc, char **argv)
{
	int runs = argc > 1 && strcmp(argv[1], "short") == 0 ? 300 : 200000;

	seed = 25;
	for (int run = 0; run < runs; run++)
		one_run();
	printf("# %d runs, %d denials\n", runs, denials);
	ok(wrong_answers == 0, "what the model allows is allowed, and nothing else");
	ok(wrong_fits == 0, "as much is allowed of a cost as the model has left");
	ok(wrong_room == 0, "what remains is what the model has left");
	ok(wrong_retry == 0, "retry_after is the first time at which it is allowed");
	ok(wrong_idle == 0, "a key that is idle is like a new one");
	ok(wrong_bound == 0, "no window has more than is promised");
	ok(leaks == 0, "all chunks are given back");
	ok(no_drift(3, 1000000) && no_drift(7, 60000000) && no_drift(INT64_C(999999937), 1000000) && no_drift(LIMIT_MAX_UNITS, 999983),
	   "no drift, up to a billion units a second and more");
	conversions();
	refunds();
	losses();
	wrong_numbers();
	return done_testing();
}
