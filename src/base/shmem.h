/*
 * shmem.h
 *		The rooms' areas of shared memory (see shmem.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SHMEM_H
#define DC_SHMEM_H

#include "storage/lwlock.h"

/* Prepares an area, which is all zeroes; runs once, before there are sessions. */
typedef void (*DcShmemInit)(void *area);

extern void shmem_init(void);
extern void shmem_add(const char *name, Size size, void **area, DcShmemInit init);
extern void shmem_add_sized(const char *name, Size (*size)(void), void **area,
							DcShmemInit init);
extern void shmem_add_raw(const char *name, Size (*size)(void), void **area,
						  DcShmemInit init);
extern void shmem_init_lock(LWLock *lock);

#endif /* DC_SHMEM_H */
