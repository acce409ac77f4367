/*
 * hotkeys_test.c
 *		The summary of hot keys against exact counts.
 */
#include "core/stats/hotkeys.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define KEYS 1000

static DcHotKeys hot;

static void
start(void)
{
	memset(&hot, 0, sizeof(hot));
}

static void
add(uint64_t key, uint64_t weight)
{
	char data[32];
	int len = snprintf(data, sizeof(data), "key %d", (int) key);

	hotkeys_add(&hot, key, data, (uint32_t) len, weight);
}

static const DcHotKey *
find(uint64_t key)
{
	for (int i = 0; i < hot.nkeys; i++)
	{
		if (hot.keys[i].hash == key)
			return &hot.keys[i];
	}
	return NULL;
}

static void
test_few_keys(void)
{
	bool exact = true;

	start();
	for (uint64_t key = 1; key <= DC_HOT_KEYS; key++)
	{
		for (uint64_t i = 0; i < key; i++)
			add(key, 2);
	}
	for (uint64_t key = 1; key <= DC_HOT_KEYS; key++)
		exact = exact && find(key)->count == 2 * key && find(key)->error == 0;
	ok(hot.nkeys == DC_HOT_KEYS && exact, "counts of as many keys as there are places are exact");
	ok(find(3)->len == 5 && memcmp(find(3)->data, "key 3", 5) == 0, "a key's bytes are kept");

	add(99, 1);
	ok(find(1) == NULL && find(99)->count == 3 && find(99)->error == 2,
	   "a new key takes the place of the lowest and inherits its count");
	ok(hot.nkeys == DC_HOT_KEYS && find(99)->len == 6, "and its own bytes");
}

/* A random stream: a few keys have most of the weight. */
static void
test_stream(uint64_t seed)
{
	static uint64_t truth[KEYS];
	uint64_t total = 0;
	bool bounds = true;
	bool complete = true;
	char name[80];

	snprintf(name, sizeof(name), "random stream %d: counts are within their errors",
			 (int) seed);
	start();
	memset(truth, 0, sizeof(truth));
	for (int i = 0; i < 100000; i++)
	{
		uint64_t r = unit_random(&seed);
		uint64_t key = r % 3 == 0 ? (r >> 8) % KEYS : (r >> 8) % (1 + (r >> 40) % 20);
		uint64_t weight = 1 + (r >> 60);

		add(key, weight);
		truth[key] += weight;
		total += weight;
	}
	for (int i = 0; i < hot.nkeys; i++)
	{
		const DcHotKey *key = &hot.keys[i];

		bounds = bounds && key->count >= truth[key->hash] &&
			key->count - key->error <= truth[key->hash] &&
			key->error <= total / DC_HOT_KEYS;
	}
	for (uint64_t key = 0; key < KEYS; key++)
		complete = complete && (truth[key] <= total / DC_HOT_KEYS || find(key) != NULL);
	ok(bounds && find(0) != NULL, name);
	ok(complete, "and no key of more than its share is missing");
}

static void
test_decay(void)
{
	start();
	add(1, 1000);
	add(2, 3);
	hotkeys_decay(&hot, 0);
	ok(find(1)->count == 1000 && find(2)->count == 3, "no halving changes nothing");
	hotkeys_decay(&hot, 1);
	ok(find(1)->count == 500 && find(2)->count == 1, "counts are halved");
	hotkeys_decay(&hot, 1);
	ok(hot.nkeys == 1 && find(1)->count == 250, "a key with nothing left is dropped");
	for (uint64_t key = 10; key < 10 + DC_HOT_KEYS; key++)
		add(key, 300);
	ok(find(1) == NULL && find(9 + DC_HOT_KEYS)->error == 250, "a new key has the old one's error");
	hotkeys_decay(&hot, 2);
	ok(find(9 + DC_HOT_KEYS)->error == 62 && find(9 + DC_HOT_KEYS)->count == 137, "errors are halved, too");
	hotkeys_decay(&hot, UINT64_MAX);
	ok(hot.nkeys == 0, "all is forgotten after a long time");
	add(1, 5);
	hotkeys_decay(&hot, 64);
	ok(hot.nkeys == 0, "also after 64 halvings");
}

static void
test_extremes(void)
{
	char *data = malloc(1024);

	start();
	add(1, UINT64_MAX - 1);
	add(1, 5);
	ok(find(1)->count == UINT64_MAX, "a count stops at its maximum");

	start();
	memset(data, 'x', 1024);
	hotkeys_add(&hot, 1, data, 1024, 1);
	hotkeys_add(&hot, 2, data, 1023, 1);
	hotkeys_add(&hot, 3, data, DC_HOT_KEY_BYTES, 1);
	hotkeys_add(&hot, 4, data, 0, 1);
	ok(hot.nkeys == 4 && find(1)->len == DC_HOT_KEY_BYTES && find(2)->len == DC_HOT_KEY_BYTES &&
		   find(3)->len == DC_HOT_KEY_BYTES && find(4)->len == 0,
	   "long keys are cut, and told apart by their hash");
	hotkeys_add(&hot, 1, data, 1024, 0);
	ok(find(1)->count == 1, "a weight of 0 adds nothing");
	free(data);
}

static void
test_windows(void)
{
	start();
	add(1, 100);
	add(2, 7);
	ok(find(1)->last == 0 && find(1)->window == 100, "a window that is open counts");
	hotkeys_roll(&hot, 1);
	add(1, 3);
	ok(find(1)->last == 100 && find(1)->window == 3 && find(2)->last == 7, "the one that is over is frozen");
	hotkeys_decay(&hot, 1);
	hotkeys_roll(&hot, 0);
	ok(find(1)->last == 100 && find(1)->window == 3, "it does not decay");
	hotkeys_roll(&hot, 1);
	ok(find(1)->last == 3 && find(2)->last == 0, "the next window follows");
	add(1, 9);
	hotkeys_roll(&hot, 2);
	ok(find(1)->last == 0 && find(1)->window == 0, "a window in which nothing was seen had no writes");

	start();
	for (uint64_t key = 1; key <= DC_HOT_KEYS; key++)
		add(key, 10 + key);
	hot.keys[0].is_hot = true;
	hotkeys_roll(&hot, 1);
	add(77, 1);
	ok(find(77)->last == 0 && find(77)->window == 1 && !find(77)->is_hot, "a key that takes a place has nothing of the one before");
	start();
	add(5, 1);
	add(6, 1);
	hot.keys[0].is_hot = true;
	hotkeys_decay(&hot, 10);
	ok(find(5) != NULL && find(6) == NULL, "a hot key stays until it is told to be cool");
}

int
main(void)
{
	test_few_keys();
	test_windows();
	for (uint64_t seed = 1; seed <= 20; seed++)
		test_stream(seed);
	test_decay();
	test_extremes();
	return done_testing();
}
