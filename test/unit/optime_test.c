/*
 * optime_test.c
 *		Ids that carry their time, against the examples of their specifications.
 */
#include "transactional/once/optime.h"

#include <string.h>

#include "unit.h"

typedef struct Example
{
	const char *id;
	DcIdKind kind;
	int64_t ms;
	const char *what;
} Example;

static const Example examples[] = {
	{"017F22E2-79B0-7CC3-98C4-DC0C0C07398F", ID_UUIDV7, INT64_C(1645557742000), "the UUIDv7 of RFC 9562"},
	{"017f22e2-79b0-7cc3-98c4-dc0c0c07398f", ID_UUIDV7, INT64_C(1645557742000), "the same in lower case"},
	{"00000000-0000-7000-8000-000000000000", ID_UUIDV7, 0, "the first UUIDv7"},
	{"ffffffff-ffff-7fff-bfff-ffffffffffff", ID_UUIDV7, (INT64_C(1) << 48) - 1, "the last UUIDv7"},
	{"919108f7-52d1-4320-9bac-f847db4148a8", ID_OPAQUE, 0, "a UUIDv4"},
	{"1EC9414C-232A-6B00-B3C8-9F6BDECED846", ID_OPAQUE, 0, "a UUIDv6"},
	{"017F22E2-79B0-7CC3-C8C4-DC0C0C07398F", ID_OPAQUE, 0, "another variant"},
	{"017F22E2-79B0-7CC3-08C4-DC0C0C07398F", ID_OPAQUE, 0, "the oldest variant"},
	{"017F22E2079B0-7CC3-98C4-DC0C0C07398F", ID_OPAQUE, 0, "a digit for a hyphen"},
	{"-17F22E2-79B0-7CC3-98C4-DC0C0C07398F", ID_OPAQUE, 0, "a hyphen for a digit"},
	{"017F22E2-79B0-7CC3-98C4-DC0C0C07398G", ID_OPAQUE, 0, "no digit"},
	{"017F22E279B07CC398C4DC0C0C07398F", ID_OPAQUE, 0, "no hyphens"},
	{"{17F22E2-79B0-7CC3-98C4-DC0C0C07398}", ID_OPAQUE, 0, "braces"},
	{"017F22E2-79B0-7CC3-98C4-DC0C0C07398F ", ID_OPAQUE, 0, "a space"},
	{"01ARZ3NDEKTSV4RRFFQ69G5FAV", ID_ULID, INT64_C(1469922850259), "the ULID of the specification"},
	{"01arz3ndektsv4rrffq69g5fav", ID_ULID, INT64_C(1469922850259), "the same in lower case"},
	{"00000000000000000000000000", ID_ULID, 0, "the first ULID"},
	{"7ZZZZZZZZZZZZZZZZZZZZZZZZZ", ID_ULID, (INT64_C(1) << 48) - 1, "the last ULID"},
	{"8ZZZZZZZZZZZZZZZZZZZZZZZZZ", ID_OPAQUE, 0, "a ULID that overflows"},
	{"01ARZ3NDEKTSV4RRFFQ69G5FAI", ID_OPAQUE, 0, "the letter I"},
	{"01ARZ3NDEKTSV4RRFFQ69G5FLV", ID_OPAQUE, 0, "the letter L"},
	{"01ARZ3NDEKTSV4RRFFQ69O5FAV", ID_OPAQUE, 0, "the letter O"},
	{"01ARZ3NDEUTSV4RRFFQ69G5FAV", ID_OPAQUE, 0, "the letter U"},
	{"01ARZ3NDEKTSV4RRFFQ69G5F-V", ID_OPAQUE, 0, "a hyphen"},
	{"01ARZ3NDEKTSV4RRFFQ69G5FA", ID_OPAQUE, 0, "a ULID that is too short"},
	{"", ID_OPAQUE, 0, "nothing"},
	{"order-1", ID_OPAQUE, 0, "some other id"},
};

int
main(void)
{
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
	{
		const Example *e = &examples[i];
		int64_t ms = 0;
		DcIdKind kind = id_time(e->id, strlen(e->id), &ms);

		ok(kind == e->kind && ms == e->ms, e->what);
	}
	return done_testing();
}
