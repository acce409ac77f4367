/*
 * dc_hllexpanded.c
 *		dc_hll values that are kept as states between calls.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An expanded object saves a loop in PL/pgSQL from decoding and encoding the
 * sketch with each item. That is why this file is here: 20,000 items take 5 ms, while
 * postgresql-hll, which does both each time, takes a second (doc/benchmarks.md).
 *
 * But up to PostgreSQL 17 a function is not handed its caller's variable for writing
 * (only array functions are), so that each h := dc_hll_add(h, item) would copy the state.
 * Therefore objects share it.
 *
 * A core is a state and a version number. An object is a core and the version
 * of it that is the object's value. Adding to an object whose version is the
 * core's newest changes the state in place, notes the cell's old value in the core's
 * log, and makes a new object of the next version: nothing is copied.
 * As a rule the caller then drops the older object, and with only one object
 * left the log is emptied. An older object that is read nevertheless gets a core
 * of its own: a copy of the state with the log played back.
 *
 * An object and its context belong to the caller that holds it. A core has a context of
 * its own below TopMemoryContext. A callback of the object's context deletes it with
 * its last object, so errors release it as well. Nothing here is ever shared between
 * sessions.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "types/sketch/hll/dc_hll.h"

/* With this many changes logged, the next object gets a core of its own. */
#define MAX_LOG 256

typedef struct Change
{
	uint32 cell;
	uint32 before;
} Change;

typedef struct Core
{
	MemoryContext mcxt;
	HllState *state;
	int objects;
	uint64 version; /* of the state */
	int nlog;
	Change log[MAX_LOG]; /* the last nlog changes, oldest first */
} Core;

typedef struct Object
{
	ExpandedObjectHeader header;
	Core *core;
	uint64 version;
	uint8_t *flat; /* the value's bytes, once asked for */
	size_t flat_len;
	MemoryContextCallback callback;
} Object;

static Size hllexpanded_object_flat_size(ExpandedObjectHeader *header);
static void hllexpanded_object_flatten(ExpandedObjectHeader *header, void *result, Size size);
static bool would_change(const HllState *state, const uint64 *hashes, int n);
static Object *hllexpanded_object_of(Datum value);
static Object *hllexpanded_new_object(Core *core);
static void hllexpanded_join_core(Object *object, Core *core);
static void hllexpanded_object_freed(void *object);
static Core *hllexpanded_new_core(const HllState *state);
static const HllState *hllexpanded_object_state(Object *object);
static void hllexpanded_own_core(Object *object);
static void object_add(Object *object, uint64 hash);

static const ExpandedObjectMethods methods = {
	hllexpanded_object_flat_size,
	hllexpanded_object_flatten};

/*
 * Return true if a dc_hll is an expanded object.
 */
static inline bool
hllexpanded_is_object(Datum value)
{
	return VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value));
}

/*
 * hll_from_datum is the state of any dc_hll, only to be read. It is in the
 * current context, or the object's own.
 */
const HllState *
hll_from_datum(Datum value)
{
	HllState *state;
	bytea *flat;

	if (hllexpanded_is_object(value))
		return hllexpanded_object_state(hllexpanded_object_of(value));
	flat = DatumGetByteaPP(value);
	state = hll_absorb_bytes(NULL, flat);
	if ((Pointer) flat != DatumGetPointer(value))
		pfree(flat);
	return state;
}

/*
 * Return true if adding an item would change a dc_hll.
 */
bool
hll_datum_would_change(Datum value, uint64 hash)
{
	const uint8_t *data;
	size_t len;
	bytea *flat;
	uint32 cell;
	uint32 set;

	if (hllexpanded_is_object(value))
		return hll_probe(hllexpanded_object_state(hllexpanded_object_of(value)), hash, &cell, &set) != HLL_SAME;
	flat = DatumGetByteaPP(value);
	data = hll_bytes(flat, &len);
	return hll_value_would_change(data, len, hash);
}

/*
 * hll_datum_add adds items by their hashes to any dc_hll. The result is an
 * object, which the caller may write to; the value that came in stays as it is,
 * unless it was handed over for writing. A flat value that does not change is
 * returned itself.
 */
Datum
hll_datum_add(Datum value, const uint64 *hashes, int n)
{
	Object *object;

	if (hllexpanded_is_object(value))
	{
		object = hllexpanded_object_of(value);
		(void) hllexpanded_object_state(object);
		/* Without another object, nobody needs the log. */
		if (object->core->objects == 1)
			object->core->nlog = 0;
		if (!VARATT_IS_EXTERNAL_EXPANDED_RW(DatumGetPointer(value)))
			object = hllexpanded_new_object(object->core);
	}
	else
	{
		const HllState *state;

		if (n == 0 || (n == 1 && !hll_datum_would_change(value, hashes[0])))
			return value;
		state = hll_from_datum(value);
		if (!would_change(state, hashes, n))
			return value;
		object = hllexpanded_new_object(hllexpanded_new_core(state));
	}
	for (int i = 0; i < n; i++)
		object_add(object, hashes[i]);
	return EOHPGetRWDatum(&object->header);
}

/*
 * Return true if adding one of n items, by their hashes, would change a state.
 */
static bool
would_change(const HllState *state, const uint64 *hashes, int n)
{
	uint32 cell;
	uint32 value;

	for (int i = 0; i < n; i++)
	{
		if (hll_probe(state, hashes[i], &cell, &value) != HLL_SAME)
			return true;
	}
	return false;
}

/*
 * Return the object that an expanded dc_hll points to.
 */
static Object *
hllexpanded_object_of(Datum value)
{
	Object *object = (Object *) DatumGetEOHP(value);

	Assert(object->header.eoh_methods == &methods);
	return object;
}

/*
 * hllexpanded_new_object creates an object of a core's newest version.
 */
static Object *
hllexpanded_new_object(Core *core)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "dc_hll",
											   ALLOCSET_SMALL_SIZES);
	Object *object = MemoryContextAllocZero(mcxt, sizeof(Object));

	EOH_init_header(&object->header, &methods, mcxt);
	object->callback.func = hllexpanded_object_freed;
	object->callback.arg = object;
	MemoryContextRegisterResetCallback(mcxt, &object->callback);
	hllexpanded_join_core(object, core);
	return object;
}

/*
 * Make an object refer to the newest version of a core. The first object moves the core's context
 * below TopMemoryContext.
 */
static void
hllexpanded_join_core(Object *object, Core *core)
{
	if (core->objects++ == 0)
		MemoryContextSetParent(core->mcxt, TopMemoryContext);
	object->core = core;
	object->version = core->version;
}

/*
 * Detach an object from its core, and delete the core if it was the last.
 */
static void
hllexpanded_leave_core(Core *core)
{
	if (--core->objects == 0)
		MemoryContextDelete(core->mcxt);
}

/*
 * Detach an object from its core when the object's context is deleted or reset.
 */
static void
hllexpanded_object_freed(void *object)
{
	hllexpanded_leave_core(((Object *) object)->core);
}

/*
 * hllexpanded_new_core creates a core from a copy of a state. Until an object joins it, it is the
 * current context's, so that an error in between does not leave it behind.
 */
static Core *
hllexpanded_new_core(const HllState *state)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "dc_hll state",
											   ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(mcxt);
	Core *core = palloc0(sizeof(Core));

	core->mcxt = mcxt;
	core->state = hll_copy(state);
	MemoryContextSwitchTo(before);
	return core;
}

/*
 * hllexpanded_object_state is an object's state, only to be read. After this, the object's
 * version is its core's newest.
 */
static const HllState *
hllexpanded_object_state(Object *object)
{
	if (object->version != object->core->version)
		hllexpanded_own_core(object);
	return object->core->state;
}

/*
 * hllexpanded_own_core gives an object a core of its own, with the object's version of the
 * state. The log has all later changes: it was never emptied since the object
 * was created.
 */
static void
hllexpanded_own_core(Object *object)
{
	Core *shared = object->core;
	Core *core = hllexpanded_new_core(shared->state);
	uint64 changes = shared->version - object->version;

	Assert(changes <= shared->nlog);
	for (uint64 i = 0; i < changes; i++)
	{
		Change *change = &shared->log[shared->nlog - 1 - i];

		hll_unput(core->state, change->cell, change->before);
	}
	hllexpanded_join_core(object, core);
	hllexpanded_leave_core(shared);
}

/*
 * object_add adds an item to an object of its core's newest version.
 */
static void
object_add(Object *object, uint64 hash)
{
	Core *core = object->core;
	uint32 cell;
	uint32 value;
	HllEffect effect = hll_probe(core->state, hash, &cell, &value);

	if (effect == HLL_SAME)
		return;
	if (object->flat != NULL)
		pfree(object->flat);
	object->flat = NULL;
	if (core->objects > 1 && (effect == HLL_FULL || core->nlog == MAX_LOG))
	{
		hllexpanded_own_core(object);
		core = object->core;
	}
	if (effect == HLL_FULL)
	{
		MemoryContext before = MemoryContextSwitchTo(core->mcxt);

		core->state = hll_add(core->state, hash);
		MemoryContextSwitchTo(before);
		return;
	}
	if (core->objects > 1)
	{
		core->log[core->nlog].cell = cell;
		core->log[core->nlog].before = hll_put(core->state, cell, value);
		core->nlog++;
		object->version = ++core->version;
	}
	else
		(void) hll_put(core->state, cell, value);
}

/* The methods of an expanded object. */

/*
 * Return the size of an object's flat form. Its bytes are written here, and kept in the object.
 */
static Size
hllexpanded_object_flat_size(ExpandedObjectHeader *header)
{
	Object *object = (Object *) header;

	if (object->flat == NULL)
	{
		const HllState *state = hllexpanded_object_state(object);
		MemoryContext before = MemoryContextSwitchTo(header->eoh_context);

		object->flat = hll_encode(state, &object->flat_len);
		MemoryContextSwitchTo(before);
	}
	return VARHDRSZ + object->flat_len;
}

/*
 * Copy an object's flat form to `result`. hllexpanded_object_flat_size() has made it.
 */
static void
hllexpanded_object_flatten(ExpandedObjectHeader *header, void *result, Size size)
{
	Object *object = (Object *) header;

	Assert(object->flat != NULL && size == VARHDRSZ + object->flat_len);
	memcpy(VARDATA(result), object->flat, object->flat_len);
	SET_VARSIZE(result, size);
}
