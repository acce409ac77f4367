/*
 * shmem.c
 *		The rooms' areas of shared memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Shared memory is there only if shared_preload_libraries has dcounter. A room
 * that wants an area calls shmem_add() while the library is being loaded. Its
 * pointer is set when the server has allocated the area, and stays NULL otherwise.
 * So "if (pointer == NULL)" is the test for a server without preload.
 *
 * Each area says in its own header which lock protects what. All LWLocks of the
 * extension belong to one tranche, which pg_stat_activity shows as "dcounter".
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "base/compat.h"
#include "base/shmem.h"

#define MAX_AREAS 24

typedef struct DcArea
{
	const char *name;
	Size size;
	Size (*size_function)(void); /* or NULL */
	void **area;
	DcShmemInit init;
	bool raw; /* init clears it */
} DcArea;

static DcArea areas[MAX_AREAS];
static int nareas = 0;

/* The tranche of locks, in shared memory. */
static int *tranche = NULL;

static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

static void tranche_init(void *area);
static void request_hook(void);
static void startup_hook(void);

/*
 * shmem_init installs the hooks; called once, when the library is preloaded.
 */
void
shmem_init(void)
{
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_hook;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_hook;
	shmem_add("dcounter tranche", sizeof(int), (void **) &tranche, tranche_init);
}

/*
 * shmem_add asks for an area of shared memory. *area is set at startup, and init
 * is called if the area is new.
 */
void
shmem_add(const char *name, Size size, void **area, DcShmemInit init)
{
	if (nareas == MAX_AREAS)
		elog(ERROR, "too many areas of shared memory");
	areas[nareas++] = (DcArea){.name = name, .size = size, .area = area, .init = init};
}

/*
 * shmem_add_sized does the same for an area whose size depends on a value that is not known
 * while the library is being loaded, such as MaxBackends.
 */
void
shmem_add_sized(const char *name, Size (*size)(void), void **area,
				DcShmemInit init)
{
	shmem_add(name, 0, area, init);
	areas[nareas - 1].size_function = size;
}

/*
 * shmem_add_raw does the same for a large area that should not be touched before it is used: init
 * clears the parts that must be zero.
 */
void
shmem_add_raw(const char *name, Size (*size)(void), void **area, DcShmemInit init)
{
	shmem_add_sized(name, size, area, init);
	areas[nareas - 1].raw = true;
}

/*
 * shmem_init_lock prepares a lock in an area, from its DcShmemInit.
 */
void
shmem_init_lock(LWLock *lock)
{
	LWLockInitialize(lock, *tranche);
}

/*
 * Get the id of the locks' tranche.
 */
static void
tranche_init(void *area)
{
	*(int *) area = compat_new_tranche("dcounter");
}

/*
 * Ask the server for the memory of all areas.
 */
static void
request_hook(void)
{
	if (previous_request_hook != NULL)
		previous_request_hook();
	for (int i = 0; i < nareas; i++)
	{
		if (areas[i].size_function != NULL)
			areas[i].size = areas[i].size_function();
		RequestAddinShmemSpace(MAXALIGN(areas[i].size));
	}
}

/*
 * Set the pointers of all areas, and initialize those that are new; each backend runs this with
 * EXEC_BACKEND.
 */
static void
startup_hook(void)
{
	if (previous_startup_hook != NULL)
		previous_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < nareas; i++)
	{
		DcArea *area = &areas[i];
		bool found;

		*area->area = ShmemInitStruct(area->name, area->size, &found);
		if (!found)
		{
			if (!area->raw)
				memset(*area->area, 0, area->size);
			area->init(*area->area);
		}
	}
	LWLockRelease(AddinShmemInitLock);
	compat_name_tranche(*tranche, "dcounter");
}
