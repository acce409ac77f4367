/*
 * limit_fuzz.c
 *		Limits: any numbers, any calls. Answers keep to the rule, waiting as long as one is told
 *		is enough and not too long, and no chunk is lost.
 */
#include "../unit/limit_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input
{
	const uint8_t *data;
	size_t size;
} Input;

static int64_t
take(Input *input, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes && input->size > 0; i++, input->data++, input->size--)
		value = value << 8 | *input->data;
	return (int64_t) (value & INT64_MAX);
}

static DcLimitNumbers
take_numbers(Input *input, DcLimitKind kind)
{
	DcLimitNumbers numbers = {.kind = kind};

	numbers.rate = take(input, 1 + (size_t) take(input, 1) % 8);
	numbers.per = take(input, 1 + (size_t) take(input, 1) % 8);
	numbers.burst = take(input, 1 + (size_t) take(input, 1) % 8);
	return numbers;
}

static void
must(bool what)
{
	if (!what)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static Store store;
	Input input = {data, size};
	DcLimitKind kind = (DcLimitKind) (take(&input, 1) % 5);
	DcLimitNumbers numbers;
	DcLimitState state;
	int64_t now = INT64_C(1) << 61;
	int64_t leases = 0;

	store_init(&store, 2 + (uint32_t) take(&input, 1) % 17);
	numbers = take_numbers(&input, kind);
	if (limit_numbers_wrong(&numbers) != NULL)
		return 0;
	limit_begin(&numbers, &state, now, take(&input, 1) % 4 == 0 ? now - 1 : 0);
	while (input.size > 0)
	{
		int64_t most = kind == LIMIT_GCRA ? numbers.burst : numbers.rate;
		int64_t what = take(&input, 1);
		int64_t cost;
		DcLimitAnswer answer;
		DcLimitNumbers others;

		now += take(&input, 1 + (size_t) take(&input, 1) % 6);
		must(now < (INT64_C(1) << 62));
		cost = 1 + take(&input, what >> 3 & 3);
		limit_turn(&numbers, &state, now, &store.api);
		switch (what & 7)
		{
			case 0:
				if (kind != LIMIT_CONCURRENT)
					limit_refund(&numbers, &state, now, cost, &store.api);
				break;
			case 1:
				if (kind == LIMIT_CONCURRENT)
					must(!limitlist_release(&state, cost, &store.api) || cost <= leases);
				break;
			case 2:
				if (kind == LIMIT_CONCURRENT)
					must(!limitlist_renew(&numbers, &state, now, cost, &store.api) || cost <= leases);
				break;
			case 3:
				others = take_numbers(&input, kind);
				if (limit_numbers_wrong(&others) != NULL)
					break;
				limit_convert(&numbers, &others, &state, now, &store.api);
				numbers = others;
				break;
			default:
				if (!store_call(&store, &numbers, &state, now, cost, ++leases, &answer) && answer.retry_after != LIMIT_NEVER)
				{
					DcLimitAnswer again;
					DcLimitState copy = state;

					/* what a list has is not copied, so of these the time is checked alone */
					must(answer.retry_after > 0 && cost <= most);
					if (!limit_has_list(&numbers))
					{
						limit_turn(&numbers, &copy, now + answer.retry_after - 1, &store.api);
						limit_test(&numbers, &copy, now + answer.retry_after - 1, cost, &store.api, &again);
						must(!again.allowed && again.retry_after == 1);
						limit_turn(&numbers, &copy, now + answer.retry_after, &store.api);
						limit_test(&numbers, &copy, now + answer.retry_after, cost, &store.api, &again);
						must(again.allowed);
					}
				}
				must(answer.remaining >= 0 && answer.remaining <= most && (!answer.allowed || cost <= most));
		}
		must(state.idle_at <= now + 2 * LIMIT_MAX_US);
		if (limit_has_list(&numbers))
			must((state.used == 0) == (store.taken == 0));
		must(store.taken <= LIMIT_MAX_LISTED + 1);
	}
	if (limit_has_list(&numbers))
		limitlist_free(&state, &store.api);
	must(store.taken == 0);
	return 0;
}
