/*
 * setexpanded.c
 *		dc_gset and dc_orset values that are kept in memory between calls.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An expanded object saves a loop in PL/pgSQL from rewriting the whole set with each
 * s := dc_add(s, element): 20,000 elements take 20 ms instead of minutes.
 *
 * But up to PostgreSQL 17 a function is not handed its caller's variable for writing
 * (only array functions are), so that each step would copy the state. Therefore objects
 * share it, as those of dc_hll do (sketch/hll/dc_hllexpanded.c). A core is a state and a
 * version number. An object is a core and the version of it that is the object's
 * value. A change of an object whose version is the core's newest changes the state in
 * place, notes in the core's log what was before, and makes a new object of the next
 * version: nothing is copied. As a rule the caller then drops the older object, and with
 * only one object left the log is emptied. An older object that is read nevertheless
 * gets a core of its own: a copy of the state with the log played back.
 *
 * An UPDATE of one row changes a set once, and a state would be made for nothing. So the
 * first change of a flat value is made to its bytes, and if these are many, the result is an
 * object that has them and no core. It gets its core with the next change.
 *
 * An object and its context belong to the caller that holds it. A core has a context of
 * its own below TopMemoryContext. A callback of the object's context deletes it with
 * its last object, so errors release it as well. Nothing here is ever shared between
 * sessions. A change that fails, also for want of memory, leaves its core and all
 * objects as they were.
 */
#include "postgres.h"

#include "types/crdt/setexpanded.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#include "types/crdt/gset.h"
#include "types/crdt/setstate.h"

/* With this many changes logged, the next object gets a core of its own. */
#define MAX_LOG 64

/*
 * A value of fewer bytes stays flat. Objects cost a microsecond if there is only one
 * change, which is little of what a larger set costs.
 */
#define LEAST_BYTES 256

typedef struct Core
{
	MemoryContext mcxt;
	SetState *state;
	int objects;
	uint64 version; /* of the state */
	int nlog;
	SetChange log[MAX_LOG]; /* the last nlog changes, oldest first */
} Core;

/* Without a core, or without bytes, but never without both. */
typedef struct Object
{
	ExpandedObjectHeader header;
	Core *core;
	uint64 version;
	CrdtBuf flat; /* the value's bytes, once asked for */
	MemoryContextCallback callback;
} Object;

/* A change: the element is added on behalf of the node, or removed. */
typedef struct Step
{
	CrdtString element;
	CrdtString node;
	bool removes;
} Step;

static Size setexpanded_object_flat_size(ExpandedObjectHeader *header);
static void setexpanded_object_flatten(ExpandedObjectHeader *header, void *result, Size size);

static const ExpandedObjectMethods methods = {
	setexpanded_object_flat_size,
	setexpanded_object_flatten};

/*
 * Return true if a value is an expanded object. Those of the set types are all ours.
 */
static inline bool
is_expanded(Datum value)
{
	return VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value));
}

/*
 * Return the object that an expanded value points to.
 */
static Object *
setexpanded_object_of(Datum value)
{
	Object *object = (Object *) DatumGetEOHP(value);

	Assert(object->header.eoh_methods == &methods);
	return object;
}

/* Objects and cores. */

/*
 * Detach an object from its core, and delete the core if it was the last. core may be NULL.
 */
static void
setexpanded_leave_core(Core *core)
{
	if (core != NULL && --core->objects == 0)
		MemoryContextDelete(core->mcxt);
}

/*
 * Detach an object from its core when the object's context is deleted or reset.
 */
static void
setexpanded_object_freed(void *object)
{
	setexpanded_leave_core(((Object *) object)->core);
}

/*
 * Make an object refer to the newest version of a core. The first object moves the core's context
 * below TopMemoryContext.
 */
static void
setexpanded_join_core(Object *object, Core *core)
{
	if (core->objects++ == 0)
		MemoryContextSetParent(core->mcxt, TopMemoryContext);
	object->core = core;
	object->version = core->version;
}

/*
 * setexpanded_new_object creates an object that has nothing yet.
 */
static Object *
setexpanded_new_object(void)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter set",
											   ALLOCSET_SMALL_SIZES);
	Object *object = MemoryContextAllocZero(mcxt, sizeof(Object));

	EOH_init_header(&object->header, &methods, mcxt);
	object->callback.func = setexpanded_object_freed;
	object->callback.arg = object;
	MemoryContextRegisterResetCallback(mcxt, &object->callback);
	return object;
}

/*
 * setexpanded_new_core creates a core without a state. Until an object joins it, it is the current
 * context's, so that an error in between does not leave it behind.
 */
static Core *
setexpanded_new_core(void)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter set state",
											   ALLOCSET_DEFAULT_SIZES);
	Core *core = MemoryContextAllocZero(mcxt, sizeof(Core));

	core->mcxt = mcxt;
	return core;
}

/*
 * seed_index gives this process's index a key that nobody can guess.
 */
static void
seed_index(void)
{
	static bool seeded = false;
	uint64 key[2];

	if (seeded)
		return;
	if (!pg_strong_random(key, sizeof(key)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	hashindex_seed(key[0], key[1]);
	seeded = true;
}

/*
 * load_core gives an object that has only bytes a core.
 */
static void
load_core(Object *object)
{
	Core *core = setexpanded_new_core();
	MemoryContext before = MemoryContextSwitchTo(core->mcxt);

	seed_index();
	core->state = setstate_load(crdt_bytes(&object->flat));
	MemoryContextSwitchTo(before);
	setexpanded_join_core(object, core);
}

/*
 * setexpanded_own_core gives an object a core of its own, with the object's version of the state.
 * The log has all later changes: it was never emptied since the object was created.
 */
static void
setexpanded_own_core(Object *object)
{
	Core *shared = object->core;
	Core *core = setexpanded_new_core();
	uint64 changes = shared->version - object->version;
	MemoryContext before = MemoryContextSwitchTo(core->mcxt);

	Assert(changes <= shared->nlog);
	core->state = setstate_copy(shared->state);
	for (uint64 i = 0; i < changes; i++)
		setstate_undo(core->state, &shared->log[shared->nlog - 1 - i]);
	MemoryContextSwitchTo(before);
	setexpanded_join_core(object, core);
	setexpanded_leave_core(shared);
}

/*
 * setexpanded_object_state is an object's state. After this, the object's version is its core's
 * newest.
 */
static SetState *
setexpanded_object_state(Object *object)
{
	if (object->core == NULL)
		load_core(object);
	else if (object->version != object->core->version)
		setexpanded_own_core(object);
	return object->core->state;
}

/*
 * Raise 54000 if a value's bytes are more than CRDT_MAX_SIZE.
 */
static void
check_size(const CrdtBuf *flat)
{
	if (flat->len > CRDT_MAX_SIZE)
		crdt_too_large(crdt_type_of_value(crdt_bytes(flat)), flat->len);
}

/*
 * object_bytes is an object's value as bytes, which are the object's.
 */
static CrdtBytes
object_bytes(Object *object)
{
	if (object->flat.data == NULL)
	{
		const SetState *state = setexpanded_object_state(object);
		MemoryContext before = MemoryContextSwitchTo(object->header.eoh_context);
		CrdtBuf flat = {NULL, 0, 0};

		setstate_encode(&flat, state);
		MemoryContextSwitchTo(before);
		object->flat = flat;
	}
	check_size(&object->flat);
	return crdt_bytes(&object->flat);
}

/* Changes. */

/*
 * Raise 22003: the node has no dot left for another addition.
 */
pg_noreturn static void
no_dots(CrdtString node)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("node \"%.*s\" has no dots left", (int) node.len, node.data)));
}

/*
 * make_step makes a change to an object of its core's newest version.
 */
static void
make_step(Object *object, const Step *step)
{
	Core *core = object->core;
	bool logged = core->objects > 1;
	SetChange *change = logged ? &core->log[core->nlog] : NULL;
	MemoryContext before = MemoryContextSwitchTo(core->mcxt);
	SetEffect effect;

	effect = step->removes ? setstate_remove(core->state, step->element, change)
						   : setstate_add(core->state, step->element, step->node, change);
	MemoryContextSwitchTo(before);
	if (effect == SET_NO_DOTS)
		no_dots(step->node);
	if (effect == SET_TOO_LARGE)
		crdt_too_large(core->state->kind == CRDT_GSET ? &crdt_gset : &crdt_orset,
					   core->state->bytes + step->element.len);
	if (effect != SET_CHANGED)
		return;
	if (logged)
	{
		core->nlog++;
		object->version = ++core->version;
	}
	crdt_buf_free(&object->flat);
}

/*
 * flat_step makes a change to a value's bytes. False, and nothing is written, if it
 * changes nothing.
 */
static bool
flat_step(CrdtBuf *out, CrdtBytes state, const Step *step)
{
	if (state.data[0] == CRDT_HEADER(CRDT_GSET))
	{
		if (gset_contains(state, step->element))
			return false;
		gset_add(out, state, step->element);
	}
	else if (step->removes)
	{
		if (!dots_contains(state, step->element))
			return false;
		dots_remove(out, state, step->element);
	}
	else if (!dots_add(out, state, step->element, step->node))
		no_dots(step->node);
	return true;
}

/*
 * Return true if the last value that a call did not change was this one. It may
 * say so of another that has the same hash.
 */
static bool
came_last(FmgrInfo *flinfo, Datum value)
{
	Pointer bytes = DatumGetPointer(value);
	uint64 hash = DatumGetUInt32(hash_any((unsigned char *) bytes, (int) VARSIZE_ANY(bytes))) + UINT64CONST(1);
	uint64 *last = flinfo->fn_extra;
	bool same;

	if (last == NULL)
		flinfo->fn_extra = last = MemoryContextAllocZero(flinfo->fn_mcxt, sizeof(uint64));
	same = *last == hash;
	*last = hash;
	return same;
}

/*
 * change_flat makes a change to a flat value. A value that does not change also becomes an object,
 * as a loop may continue with it and should not search it each time. But a value that is compressed
 * or stored out of line is returned itself the first time, since an UPDATE stores it as it is, and
 * as an object if it comes again.
 */
static Datum
change_flat(FmgrInfo *flinfo, Datum value, const Step *step)
{
	CrdtBytes state = crdt_bytes_of(value);
	CrdtBuf buf = {NULL, 0, 0};
	MemoryContext before;
	Object *object;
	bool changed;

	if (state.len < LEAST_BYTES)
		return flat_step(&buf, state, step) ? crdt_datum(&buf) : value;
	object = setexpanded_new_object();
	before = MemoryContextSwitchTo(object->header.eoh_context);
	changed = flat_step(&object->flat, state, step);
	if (!changed)
		crdt_put_bytes(&object->flat, state.data, state.len);
	MemoryContextSwitchTo(before);
	check_size(&object->flat);
	if (changed || !VARATT_IS_EXTENDED(DatumGetPointer(value)) || came_last(flinfo, value))
		return EOHPGetRWDatum(&object->header);
	MemoryContextDelete(object->header.eoh_context);
	return value;
}

/*
 * setexpanded_change returns the first argument, flat or expanded, with a change. The argument
 * itself does not change unless it was passed read-write.
 */
static Datum
setexpanded_change(FunctionCallInfo fcinfo, const Step *step)
{
	Datum value = PG_GETARG_DATUM(0);
	Object *object;

	if (!is_expanded(value))
		return change_flat(fcinfo->flinfo, value, step);
	object = setexpanded_object_of(value);
	(void) setexpanded_object_state(object);
	/* Without another object, nobody needs the log. */
	if (object->core->objects == 1)
	{
		while (object->core->nlog > 0)
			setstate_forget(&object->core->log[--object->core->nlog]);
	}
	if (!VARATT_IS_EXTERNAL_EXPANDED_RW(DatumGetPointer(value)))
	{
		Core *core = object->core;

		object = setexpanded_new_object();
		setexpanded_join_core(object, core);
	}
	if (object->core->objects > 1 && object->core->nlog == MAX_LOG)
		setexpanded_own_core(object);
	make_step(object, step);
	return EOHPGetRWDatum(&object->header);
}

/*
 * set_add adds an element to the first argument: to a dc_gset, or on behalf of a node to
 * a dc_orset.
 */
Datum
set_add(FunctionCallInfo fcinfo, CrdtString element, CrdtString node)
{
	Step step = {element, node, false};

	return setexpanded_change(fcinfo, &step);
}

/*
 * set_remove removes an element from the first argument, a dc_orset.
 */
Datum
set_remove(FunctionCallInfo fcinfo, CrdtString element)
{
	Step step = {element, {NULL, 0}, true};

	return setexpanded_change(fcinfo, &step);
}

/*
 * set_reset removes all elements from a dc_orset. What is left is small, and flat.
 */
Datum
set_reset(Datum value)
{
	CrdtBuf buf = {NULL, 0, 0};
	Object *object = is_expanded(value) ? setexpanded_object_of(value) : NULL;

	if (object != NULL && object->core != NULL)
		setstate_encode_reset(&buf, setexpanded_object_state(object));
	else
		dots_reset(&buf, set_bytes(value));
	return crdt_datum(&buf);
}

/*
 * Return true if a set has an element.
 */
bool
set_contains(Datum value, CrdtString element)
{
	CrdtBytes state;

	if (is_expanded(value))
		return setstate_contains(setexpanded_object_state(setexpanded_object_of(value)), element);
	state = crdt_bytes_of(value);
	return state.data[0] == CRDT_HEADER(CRDT_GSET) ? gset_contains(state, element) : dots_contains(state, element);
}

/*
 * set_bytes is a value's bytes, only to be read, and only as long as it stays as it is.
 */
CrdtBytes
set_bytes(Datum value)
{
	return is_expanded(value) ? object_bytes(setexpanded_object_of(value)) : crdt_bytes_of(value);
}

/* The methods of an expanded object. */

/*
 * Return the size of an object's flat form. Its bytes are written here, and kept in the object.
 */
static Size
setexpanded_object_flat_size(ExpandedObjectHeader *header)
{
	return VARHDRSZ + object_bytes((Object *) header).len;
}

/*
 * Copy an object's flat form to `result`. setexpanded_object_flat_size() has made it.
 */
static void
setexpanded_object_flatten(ExpandedObjectHeader *header, void *result, Size size)
{
	CrdtBytes flat = crdt_bytes(&((Object *) header)->flat);

	Assert(size == VARHDRSZ + flat.len);
	memcpy(VARDATA(result), flat.data, flat.len);
	SET_VARSIZE(result, size);
}
