/*
 * crdtformat_test.c
 *		The bytes of mergeable types: golden vectors, what the checks refuse, and the
 *		borders of numbers.
 */
#include "crdt_unit.h"

/* Operations as a text: "add eu 3", "remove apple", one after another by ";". */
typedef struct Golden
{
	const CrdtType *type;
	const char *made_by;
	const char *hex;
} Golden;

static const Golden goldens[] = {
	/* header, number of nodes, and for each: name, amount */
	{&crdt_gcounter, "", "1100"},
	{&crdt_gcounter, "inc eu 1", "110102657501"},
	{&crdt_gcounter, "inc us 5;inc eu 300;inc us 2", "1102026575ac0202757307"},
	{&crdt_gcounter, "inc eu 9223372036854775807", "11010265 75 ffffffffffffffff7f"},
	/* inc, dec, and what resets have taken of them */
	{&crdt_pncounter, "", "2100"},
	{&crdt_pncounter, "inc eu 5;dec eu 2", "2101026575 05020000"},
	{&crdt_pncounter, "inc eu 3;dec us 1;reset;inc eu 2;inc a 1", "2103 0161 01000000 026575 05000300 027573 00010001"},
	/* as the grow-only counter */
	{&crdt_vclock, "", "8100"},
	{&crdt_vclock, "inc b 128;inc a 1", "8102 0161 01 0162 8001"},
	/* number of elements, and each */
	{&crdt_gset, "", "3100"},
	{&crdt_gset, "add b;add a;add b;add ab", "3103 0161 026162 0162"},
	{&crdt_gset, "add ", "3101 00"},
	/* nodes: name, ranges (left out before, length - 1); elements: bytes, dots (node, counter) */
	{&crdt_orset, "", "410000"},
	{&crdt_orset, "add apple eu", "4101 026575 01 0000 01 05 6170706c65 01 00 01"},
	{&crdt_orset, "add b us;add a eu;add b us;remove a", "4102 026575 01 0000 027573 01 0001 01 0162 01 01 02"},
	{&crdt_orset, "add a eu;add b eu;reset", "4101 026575 01 0001 00"},
	{&crdt_mvreg, "", "610000"},
	{&crdt_mvreg, "set 1 eu;set true us", "6102 026575 01 0000 027573 01 0000 01 0474727565 01 01 01"},
	/* nothing; or time, node, value */
	{&crdt_lww, "", "51"},
	{&crdt_lww, "write 1700000000000000 eu {}", "51 8080f9c0c1c48203 026575 027b7d"},
	{&crdt_lww, "write 0 n 1", "51 00 016e 0131"},
	{&crdt_lww, "write 253402300799999999 n 1", "51 ffbfcde3cc8191c203 016e 0131"},
	{&crdt_hlc, "stamp 1 eu", "71 01 026575"},
	{&crdt_hlc, "stamp 253402300799999999 eu:1", "71 ffbfcde3cc8191c203 0465753a31"},
};

/* Hexadecimal digits; blanks are not looked at. "xN" repeats the byte after it N times. */
static CrdtBuf
from_hex(const char *hex)
{
	CrdtBuf out = no_bytes;
	int digits = 0;
	unsigned byte = 0;
	long times = 1;

	for (; *hex != '\0'; hex++)
	{
		if (*hex == ' ')
			continue;
		if (*hex == 'x')
		{
			times = strtol(hex + 1, (char **) &hex, 10);
			continue;
		}
		byte = byte << 4 | (unsigned) (*hex <= '9' ? *hex - '0' : *hex - 'a' + 10);
		if (++digits < 2)
			continue;
		for (; times > 0; times--)
			crdt_put_byte(&out, (uint8_t) byte);
		times = 1;
		digits = 0;
		byte = 0;
	}
	return out;
}

static void
show(const CrdtBuf *state)
{
	printf("# ");
	for (size_t i = 0; i < state->len; i++)
		printf("%02x", state->data[i]);
	printf("\n");
}

/* The next word of a text, up to a blank or the operation's end. */
static CrdtString
word(const char **next)
{
	CrdtString string = {*next, strcspn(*next, " ;")};

	*next += string.len + ((*next)[string.len] == ' ');
	return string;
}

static int64_t
number(const char **next)
{
	return strtoll(word(next).data, NULL, 10);
}

static bool
is(CrdtString string, const char *text)
{
	return crdt_compare(string, unit_string(text)) == 0;
}

static bool
operate(const CrdtType *type, CrdtBuf *out, CrdtBytes state, const char **next)
{
	CrdtString verb = word(next);
	CrdtString first;
	Stamp stamp;

	if (is(verb, "reset") && type->kind == CRDT_PNCOUNTER)
		amounts_reset(out, state);
	else if (is(verb, "reset"))
		dots_reset(out, state);
	else if (is(verb, "write") || is(verb, "stamp"))
	{
		stamp.time = number(next);
		stamp.node = word(next);
		if (is(verb, "stamp"))
			hlc_encode(out, &stamp);
		else
			lww_encode(out, &(Lww){true, stamp, word(next)});
	}
	else
	{
		first = word(next);
		if (is(verb, "inc") || is(verb, "dec"))
			return amounts_add(out, state, first, is(verb, "inc") ? AMOUNT_INC : AMOUNT_DEC, number(next));
		if (is(verb, "remove"))
			dots_remove(out, state, first);
		else if (type->kind == CRDT_GSET)
			gset_add(out, state, first);
		else
			return (is(verb, "add") ? dots_add : dots_set)(out, state, first, word(next));
	}
	return true;
}

static CrdtBuf
made_by(const CrdtType *type, const char *text)
{
	CrdtBuf state = unit_empty(type);

	while (*text != '\0')
	{
		CrdtBuf out = no_bytes;

		if (!operate(type, &out, crdt_bytes(&state), &text))
			abort();
		unit_replace(&state, out);
		text += *text == ';';
	}
	return state;
}

static void
test_goldens(void)
{
	char name[200];

	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++)
	{
		const Golden *golden = &goldens[i];
		CrdtBuf expected = from_hex(golden->hex);
		CrdtBuf state = made_by(golden->type, golden->made_by);
		bool same = unit_same(&state, &expected) && unit_valid(golden->type, &expected);

		if (!same)
			show(&state);
		snprintf(name, sizeof(name), "%s: the bytes of \"%s\"", golden->type->name, golden->made_by);
		ok(same, name);
		crdt_buf_free(&state);
		crdt_buf_free(&expected);
	}
}

/* Two states, their merge, and what the first has that the second has not. */
typedef struct GoldenMerge
{
	const CrdtType *type;
	const char *a;
	const char *b;
	const char *merged;
	const char *delta; /* of a since b; NULL for stamps */
} GoldenMerge;

static const GoldenMerge merges[] = {
	{&crdt_gcounter, "inc eu 3;inc us 1", "inc us 2;inc zz 1", "1103 026575 03 027573 02 027a7a 01", "1101 026575 03"},
	{&crdt_pncounter, "inc eu 3;reset", "inc eu 5", "2101 026575 05000300", "2101 026575 03000300"},
	{&crdt_gset, "add a;add c", "add b;add c", "3103 0161 0162 0163", "3101 0161"},
	/* add wins: the removal has not seen the other's addition */
	{&crdt_orset, "add a eu;remove a", "add a us", "4102 026575 01 0000 027573 01 0000 01 0161 01 01 01", "4101 026575 01 0000 00"},
	/* a removal is a dot that was seen and is at no element */
	{&crdt_orset, "add a eu;add b eu;remove a", "add a eu", "4101 026575 01 0001 01 0162 01 00 02", "4101 026575 01 0001 01 0162 01 00 02"},
	/* a delta with a gap before it */
	{&crdt_orset, "add a eu;add b eu", "add a eu", "4101 026575 01 0001 02 0161 01 0001 0162 01 0002", "4101 026575 01 0100 01 0162 01 00 02"},
	/* two additions at once: two dots */
	{&crdt_orset, "add a eu", "add a us", "4102 026575 01 0000 027573 01 0000 01 0161 02 0001 0101", "4101 026575 01 0000 01 0161 01 0001"},
	{&crdt_mvreg, "set 1 eu", "set 2 us", "6102 026575 01 0000 027573 01 0000 02 0131 01 0001 0132 01 0101", "6101 026575 01 0000 01 0131 01 0001"},
	{&crdt_lww, "write 5 eu 1", "write 5 us 0", "51 05 027573 0130", "51"},
	{&crdt_lww, "write 6 eu 1", "write 5 us 0", "51 06 026575 0131", "51 06 026575 0131"},
	{&crdt_lww, "write 5 eu 2", "write 5 eu 1", "51 05 026575 0132", "51 05 026575 0132"},
	{&crdt_hlc, "stamp 5 eu", "stamp 5 us", "71 05 027573", NULL},
	{&crdt_vclock, "inc a 2", "inc a 3", "8101 0161 03", "8100"},
};

static void
test_merges(void)
{
	char name[200];

	for (size_t i = 0; i < sizeof(merges) / sizeof(merges[0]); i++)
	{
		const GoldenMerge *golden = &merges[i];
		CrdtBuf a = made_by(golden->type, golden->a);
		CrdtBuf b = made_by(golden->type, golden->b);
		CrdtBuf merged = unit_merge(golden->type, &a, &b);
		CrdtBuf expected = from_hex(golden->merged);
		CrdtBuf delta = golden->delta == NULL ? from_hex("") : unit_delta(golden->type, &a, &b);
		CrdtBuf expected_delta = from_hex(golden->delta == NULL ? "" : golden->delta);
		bool right = unit_same(&merged, &expected) && (golden->delta == NULL || unit_same(&delta, &expected_delta));

		if (!right)
		{
			show(&merged);
			show(&delta);
		}
		snprintf(name, sizeof(name), "%s: the bytes of (%s) and (%s) merged, and of the delta", golden->type->name, golden->a, golden->b);
		ok(right, name);
		crdt_buf_free(&a);
		crdt_buf_free(&b);
		crdt_buf_free(&merged);
		crdt_buf_free(&expected);
		crdt_buf_free(&delta);
		crdt_buf_free(&expected_delta);
	}
}

/* Strings that begin with "!" are not valid in the server's eyes. */
static bool
not_marked(CrdtString string, CrdtStringKind kind)
{
	(void) kind;
	return string.len == 0 || string.data[0] != '!';
}

typedef struct Wrong
{
	const CrdtType *type;
	const char *hex;
	const char *says;
} Wrong;

static const Wrong wrongs[] = {
	{&crdt_gcounter, "", "A value must not be empty."},
	{&crdt_gcounter, "2100", "The first byte belongs to another type."},
	{&crdt_gcounter, "12", "The version is unknown."},
	{&crdt_gcounter, "10", "The version is unknown."},

	{&crdt_gcounter, "11", "The number of nodes is missing."},
	{&crdt_gcounter, "118000", "The number of nodes is missing."},
	{&crdt_gcounter, "11 ff", "The number of nodes is missing."},
	{&crdt_gcounter, "11 ffffffffffffffffff 01", "The number of nodes is missing."},
	{&crdt_gcounter, "11 ffffffffffffffff7f", "A node's name is missing or too long."},
	{&crdt_gcounter, "11 01", "A node's name is missing or too long."},
	{&crdt_gcounter, "11 01 02 61", "A node's name is missing or too long."},
	{&crdt_gcounter, "11 01 41 x65 61 01", "A node's name is missing or too long."},
	{&crdt_gcounter, "11 01 ffffffffffffffff7f 61 01", "A node's name is missing or too long."},
	{&crdt_gcounter, "11 01 00 01", "A node's name must not be empty."},
	{&crdt_gcounter, "11 01 02 610a 01", "A node's name must not contain control characters."},
	{&crdt_gcounter, "11 01 01 7f 01", "A node's name must not contain control characters."},
	{&crdt_gcounter, "11 01 01 00 01", "A node's name must not contain control characters."},
	{&crdt_gcounter, "11 01 01 21 01", "A node's name is not valid in the database's encoding."},
	{&crdt_gcounter, "11 02 0162 01 0161 01", "Nodes must be in order, without duplicates."},
	{&crdt_gcounter, "11 02 0161 01 0161 01", "Nodes must be in order, without duplicates."},
	{&crdt_gcounter, "11 02 026161 01 0161 01", "Nodes must be in order, without duplicates."},
	{&crdt_gcounter, "11 01 0161", "An amount is missing or not in its shortest form."},
	{&crdt_gcounter, "11 01 0161 8100", "An amount is missing or not in its shortest form."},
	{&crdt_gcounter, "11 01 0161 ffffffffffffffffff01", "An amount is missing or not in its shortest form."},
	{&crdt_gcounter, "11 01 0161 00", "A node must have amounts."},
	{&crdt_gcounter, "11 00 00", "There are extra bytes at the end."},
	{&crdt_gcounter, "11 01 0161 01 02", "There are extra bytes at the end."},
	{&crdt_vclock, "81 01 0161 00", "A node must have amounts."},
	{&crdt_pncounter, "21 01 0161 01 00 00", "An amount is missing or not in its shortest form."},
	{&crdt_pncounter, "21 01 0161 00 00 00 00", "A node must have amounts."},
	{&crdt_pncounter, "21 01 0161 00 00 01 00", "A node must have amounts."},
	{&crdt_pncounter, "21 01 0161 01 02 02 00", "A reset must not exceed the amount."},
	{&crdt_pncounter, "21 01 0161 02 01 00 02", "A reset must not exceed the amount."},

	{&crdt_gset, "31", "The number of elements is missing."},
	{&crdt_gset, "31 ffffffffffffffff7f", "An element is missing or too long."},
	{&crdt_gset, "31 02 00", "An element is missing or too long."},
	{&crdt_gset, "31 01 818040 x1048577 61", "An element is missing or too long."},
	{&crdt_gset, "31 02 0162 0161", "Elements must be in order, without duplicates."},
	{&crdt_gset, "31 02 00 00", "Elements must be in order, without duplicates."},
	{&crdt_gset, "31 01 0121", "An element is not valid."},
	{&crdt_gset, "31 00 61", "There are extra bytes at the end."},

	{&crdt_orset, "41", "The number of nodes is missing."},
	{&crdt_orset, "41 01", "A node's name is missing or too long."},
	{&crdt_orset, "41 01 00 01 00 00 00", "A node's name must not be empty."},
	{&crdt_orset, "41 01 0121 01 00 00 00", "A node's name is not valid in the database's encoding."},
	{&crdt_orset, "41 02 0162 01 0000 0161 01 0000 00", "Nodes must be in order, without duplicates."},
	{&crdt_orset, "41 01 0161 00 00", "A node must have at least one range of dots."},
	{&crdt_orset, "41 01 0161", "A node must have at least one range of dots."},
	{&crdt_orset, "41 01 0161 02 0000", "A range of dots is missing or not in its shortest form."},
	{&crdt_orset, "41 01 0161 01 8000 00", "A range of dots is missing or not in its shortest form."},
	{&crdt_orset, "41 01 0161 ffffffffffffffff7f 00", "A range of dots is missing or not in its shortest form."},
	{&crdt_orset, "41 01 0161 02 0000 0000 00", "Adjacent ranges of dots must be joined."},
	{&crdt_orset, "41 01 0161 01 ffffffffffffffff7f 00 00", "A dot is out of range."},
	{&crdt_orset, "41 01 0161 01 00 ffffffffffffffff7f 00", "A dot is out of range."},
	{&crdt_orset, "41 01 0161 02 00 feffffffffffffff7f 01 00 00", "A dot is out of range."},
	{&crdt_orset, "41 00", "The number of elements is missing."},
	{&crdt_orset, "41 00 01", "An element is missing or too long."},
	{&crdt_orset, "41 01 0161 01 0001 02 0162 01 0001 0161 01 0002", "Elements must be in order, without duplicates."},
	{&crdt_orset, "41 01 0161 01 0000 01 0121 01 0001", "An element is not valid."},
	{&crdt_orset, "41 01 0161 01 0000 01 0161", "An element must have at least one dot."},
	{&crdt_orset, "41 01 0161 01 0000 01 0161 00", "An element must have at least one dot."},
	{&crdt_orset, "41 01 0161 01 0000 01 0161 01 00", "A dot is missing or not in its shortest form."},
	{&crdt_orset, "41 01 0161 01 0000 01 0161 02 00 01", "A dot is missing or not in its shortest form."},
	{&crdt_orset, "41 01 0161 01 0000 01 0161 01 00 00", "A dot has not been seen."},
	{&crdt_orset, "41 01 0161 01 0000 01 0161 01 00 02", "A dot has not been seen."},
	{&crdt_orset, "41 01 0161 01 0000 01 0161 01 01 01", "A dot has not been seen."},
	{&crdt_orset, "41 00 01 0161 01 00 01", "A dot has not been seen."},
	{&crdt_orset, "41 01 0161 01 0001 01 0161 02 0002 0001", "Dots must be in order, without duplicates."},
	{&crdt_orset, "41 01 0161 01 0001 01 0161 02 0001 0001", "Dots must be in order, without duplicates."},
	{&crdt_orset, "41 02 0161 01 0000 0162 01 0000 01 0161 02 0101 0001", "Dots must be in order, without duplicates."},
	{&crdt_orset, "41 00 00 00", "There are extra bytes at the end."},
	{&crdt_mvreg, "61 01 0161 01 0000 01 0121 01 0001", "An element is not valid."},
	{&crdt_mvreg, "61 00 00 00", "There are extra bytes at the end."},

	{&crdt_lww, "51 80", "The time is missing or out of range."},
	{&crdt_lww, "51 80c0cde3cc8191c203 0161 0131", "The time is missing or out of range."},
	{&crdt_lww, "51 01", "A node's name is missing or too long."},
	{&crdt_lww, "51 01 00 0131", "A node's name must not be empty."},
	{&crdt_lww, "51 01 0121 0131", "A node's name is not valid in the database's encoding."},
	{&crdt_lww, "51 01 0161", "The value is missing or too long."},
	{&crdt_lww, "51 01 0161 02 31", "The value is missing or too long."},
	{&crdt_lww, "51 01 0161 818040 x1048577 31", "The value is missing or too long."},
	{&crdt_lww, "51 01 0161 0121", "The value is not in the form in which jsonb is printed."},
	{&crdt_lww, "51 01 0161 0131 00", "There are extra bytes at the end."},
	{&crdt_hlc, "71", "The time is missing or out of range."},
	{&crdt_hlc, "71 ffffffffffffffff7f 0161", "The time is missing or out of range."},
	{&crdt_hlc, "71 01 41 x65 61", "A node's name is missing or too long."},
	{&crdt_hlc, "71 01 0121", "A node's name is not valid in the database's encoding."},
	{&crdt_hlc, "71 01 0161 00", "There are extra bytes at the end."},
};

static void
test_wrongs(void)
{
	char name[200];
	bool right = true;

	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++)
	{
		CrdtBuf state = from_hex(wrongs[i].hex);
		uint8_t *exact = malloc(state.len);
		const char *says;

		/* so that a read beyond the end is seen */
		if (state.len > 0)
			memcpy(exact, state.data, state.len);
		says = crdt_check(wrongs[i].type, (CrdtBytes){exact, state.len}, not_marked);
		snprintf(name, sizeof(name), "%s %.40s: %s", wrongs[i].type->name, wrongs[i].hex, wrongs[i].says);
		if (says == NULL || strcmp(says, wrongs[i].says) != 0)
			printf("# %s\n", says == NULL ? "is valid" : says);
		ok(says != NULL && strcmp(says, wrongs[i].says) == 0, name);
		free(exact);
		crdt_buf_free(&state);
	}
	/* the beginning of a state is none */
	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++)
	{
		CrdtBuf state = from_hex(goldens[i].hex);

		for (size_t len = 0; len < state.len; len++)
		{
			if (goldens[i].type != &crdt_lww || len != 1)
				right = right && crdt_check(goldens[i].type, (CrdtBytes){state.data, len}, NULL) != NULL;
		}
		crdt_buf_free(&state);
	}
	ok(right, "no state is the beginning of another");
}

/* Borders of numbers. */

/* Adds to a state in place; the state stays if that cannot be. */
static bool
raise(CrdtBuf *state, const char *node, AmountsField field, int64_t amount)
{
	CrdtBuf out = no_bytes;
	bool done = amounts_add(&out, crdt_bytes(state), unit_string(node), field, amount);

	if (done)
		unit_replace(state, out);
	else
		crdt_buf_free(&out);
	return done;
}

static void
test_amounts(void)
{
	CrdtBuf state = unit_empty(&crdt_gcounter);
	CrdtBuf same;
	int64_t value;
	bool right = true;
	char node[80];

	ok(amounts_value(crdt_bytes(&state), &value) && value == 0, "an empty counter is 0");
	ok(raise(&state, "eu", AMOUNT_INC, 0) && state.len == 2, "0 adds no node");
	for (int i = 0; i < 300; i++)
	{
		snprintf(node, sizeof(node), "n%d", (i * 7) % 300);
		right = right && raise(&state, node, AMOUNT_INC, i + 1) && unit_valid(&crdt_gcounter, &state);
		same = unit_merge(&crdt_gcounter, &state, &state);
		right = right && unit_same(&state, &same);
		crdt_buf_free(&same);
	}
	ok(right && amounts_value(crdt_bytes(&state), &value) && value == 150 * 301, "one to 300 nodes");
	unit_replace(&state, unit_empty(&crdt_pncounter));
	ok(raise(&state, "eu", AMOUNT_INC, INT64_MAX) && !raise(&state, "eu", AMOUNT_INC, 1) && raise(&state, "eu", AMOUNT_INC, 0), "a node's amount ends at that of bigint");
	ok(raise(&state, "eu", AMOUNT_DEC, 5) && amounts_value(crdt_bytes(&state), &value) && value == INT64_MAX - 5, "decrements have their own");
	ok(raise(&state, "us", AMOUNT_INC, 6) && !amounts_value(crdt_bytes(&state), &value), "the sum can be out of range");
	ok(raise(&state, "us", AMOUNT_DEC, 1) && amounts_value(crdt_bytes(&state), &value) && value == INT64_MAX, "and in range again");
	unit_replace(&state, made_by(&crdt_pncounter, "dec a 9223372036854775807;dec b 1"));
	ok(amounts_value(crdt_bytes(&state), &value) && value == INT64_MIN, "the least sum");
	ok(raise(&state, "c", AMOUNT_DEC, 1) && !amounts_value(crdt_bytes(&state), &value), "and one less");
	unit_replace(&state, made_by(&crdt_pncounter, "inc a 9223372036854775807;inc b 1;reset;dec b 3"));
	ok(amounts_value(crdt_bytes(&state), &value) && value == -3 && !raise(&state, "a", AMOUNT_INC, 1), "a reset counter goes on, up to the same end");
	crdt_buf_free(&state);
}

static bool
add_dot(CrdtBuf *state, CrdtString element, CrdtString node)
{
	CrdtBuf out = no_bytes;
	bool done = dots_add(&out, crdt_bytes(state), element, node);

	if (done)
		unit_replace(state, out);
	return done;
}

static void
test_dots(void)
{
	CrdtBuf state = unit_empty(&crdt_orset);
	CrdtBuf out = no_bytes;
	char node[80];
	bool right = true;

	for (int i = 0; i < 300; i++)
	{
		int n = snprintf(node, sizeof(node), "n%d", (i * 7) % 300);

		right = right && add_dot(&state, unit_elements[i % UNIT_ELEMENTS], (CrdtString){node, (size_t) n});
		right = right && unit_valid(&crdt_orset, &state);
	}
	ok(right && dots_count(crdt_bytes(&state)) == UNIT_ELEMENTS, "dots of one to 300 nodes, whose numbers change");
	ok(dots_contains(crdt_bytes(&state), unit_elements[0]) && dots_contains(crdt_bytes(&state), unit_elements[2]) &&
		   !dots_contains(crdt_bytes(&state), (CrdtString){"\0", 1}),
	   "the empty element and one with a zero byte");

	unit_replace(&state, from_hex("41 01 026575 01 00 feffffffffffffff7f 00"));
	ok(unit_valid(&crdt_orset, &state) && !add_dot(&state, unit_elements[1], unit_string("eu")) &&
		   !dots_set(&out, crdt_bytes(&state), unit_elements[1], unit_string("eu")) && out.len == 0,
	   "a node whose last dot was seen has none left");
	ok(add_dot(&state, unit_elements[1], unit_string("us")), "another has");
	unit_replace(&state, from_hex("41 01 026575 01 feffffffffffffff7f 00 00"));
	ok(unit_valid(&crdt_orset, &state) && !add_dot(&state, unit_elements[1], unit_string("eu")), "nor if there is a gap before it");
	unit_replace(&state, from_hex("41 01 026575 02 0000 0100 00"));
	unit_replace(&out, from_hex("41 01 026575 02 0000 0101 01 0161 01 0004"));
	ok(add_dot(&state, unit_elements[1], unit_string("eu")) && unit_same(&state, &out), "a node's next dot is after all gaps");
	unit_replace(&state, from_hex("41 01 026575 01 00 fdffffffffffffff7f 00"));
	ok(add_dot(&state, unit_elements[1], unit_string("eu")), "the last dot");
	unit_replace(&out, from_hex("41 01 026575 01 00 feffffffffffffff7f 01 0161 01 00 ffffffffffffffff7f"));
	ok(unit_same(&state, &out), "closes its range");
	unit_replace(&out, unit_merge(&crdt_orset, &state, &out));
	ok(unit_same(&state, &out), "and merges");
	crdt_buf_free(&state);
	crdt_buf_free(&out);
}

static void
test_strings(void)
{
	static char long_text[CRDT_MAX_ELEMENT];
	CrdtString node = {long_text, CRDT_MAX_NODE};
	CrdtString element = {long_text, CRDT_MAX_ELEMENT};
	CrdtBuf state = unit_empty(&crdt_gset);
	CrdtBuf out = no_bytes;
	const char *too_large;

	memset(long_text, 'x', sizeof(long_text));
	gset_add(&out, crdt_bytes(&state), element);
	ok(unit_valid(&crdt_gset, &out) && gset_contains(crdt_bytes(&out), element), "an element of 1 MB");
	unit_replace(&state, unit_empty(&crdt_vclock));
	unit_replace(&out, no_bytes);
	ok(crdt_node_wrong(node) == NULL && amounts_add(&out, crdt_bytes(&state), node, AMOUNT_INC, 1) && unit_valid(&crdt_vclock, &out),
	   "a node's name of 64 bytes");
	unit_replace(&state, no_bytes);
	hlc_encode(&state, &(Stamp){STAMP_MAX_TIME, node});
	ok(unit_valid(&crdt_hlc, &state), "in a stamp");
	node.len++;
	ok(strcmp(crdt_node_wrong(node), "A node's name must not be longer than 64 bytes.") == 0, "of 65");
	ok(crdt_node_wrong((CrdtString){"\xc3\xa4 \x80", 4}) == NULL, "bytes beyond ASCII are no control characters");

	crdt_buf_free(&out);
	crdt_buf_reserve(&out, CRDT_MAX_SIZE + 1);
	memset(out.data, 0, CRDT_MAX_SIZE + 1);
	out.data[0] = CRDT_HEADER(CRDT_GSET);
	too_large = crdt_check(&crdt_gset, (CrdtBytes){out.data, CRDT_MAX_SIZE + 1}, NULL);
	ok(too_large != NULL && strcmp(too_large, "A value must not be larger than 10 MB.") == 0, "a state of 10 MB and a byte");
	too_large = crdt_check(&crdt_gset, (CrdtBytes){out.data, CRDT_MAX_SIZE}, NULL);
	ok(too_large != NULL && strcmp(too_large, "There are extra bytes at the end.") == 0, "10 MB are looked at");
	crdt_buf_free(&out);
	crdt_buf_free(&state);
}

static void
test_stamps(void)
{
	ok(stamp_next(10, 5, 7) == 10 && stamp_next(10, 10, 7) == 11 && stamp_next(3, 10, 70) == 71 && stamp_next(10, 9, 0) == 10,
	   "the next stamp is after the last, after all seen, and not before the clock");
	ok(stamp_next(10, 0, INT64_MAX) > STAMP_MAX_TIME && stamp_next(10, INT64_MAX - 1, 0) > STAMP_MAX_TIME && stamp_next(10, INT64_MIN, INT64_MIN) == 10,
	   "after forged ones it is out of range, or as without them");
	ok(stamp_compare(&(Stamp){1, {"b", 1}}, &(Stamp){2, {"a", 1}}) < 0 && stamp_compare(&(Stamp){1, {"b", 1}}, &(Stamp){1, {"a", 1}}) > 0 &&
		   stamp_compare(&(Stamp){1, {"a", 1}}, &(Stamp){1, {"a", 1}}) == 0 && stamp_compare(&(Stamp){1, {"a", 1}}, &(Stamp){1, {"ab", 2}}) < 0,
	   "stamps are in order of times, then of nodes");
}

int
main(void)
{
	test_goldens();
	test_merges();
	test_wrongs();
	test_amounts();
	test_dots();
	test_strings();
	test_stamps();
	return done_testing();
}
