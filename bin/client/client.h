/*
 * client.h
 *		Shared by dc_relay and dc_region: growing strings, text for a terminal, signals, waiting.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They are programs of their own, not a part of the module: only libpq and POSIX.
 */
#ifndef DC_CLIENT_H
#define DC_CLIENT_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NO_DEADLINE (-1)

#if defined(__GNUC__) || defined(__clang__)
#define PRINTF_LIKE(string, args) __attribute__((format(printf, string, args)))
#else
#define PRINTF_LIKE(string, args)
#endif

/* The name of the program, with which its messages begin. */
extern const char program[];

/* ---------- sendbuffer.c ---------- */

typedef struct Buffer
{
	char *data;
	size_t length;
	size_t size;
} Buffer;

extern void buffer_add(Buffer *buffer, const char *data, size_t length);
extern void buffer_add_string(Buffer *buffer, const char *string);
extern void buffer_printf(Buffer *buffer, const char *format, ...) PRINTF_LIKE(2, 3);
extern void buffer_reset(Buffer *buffer);
extern void *get_memory(size_t size);

/* ---------- controlchar.c ---------- */

extern size_t control_at(const char *text, size_t left, unsigned int *code);
extern void add_visible(Buffer *buffer, const char *text, size_t length);

/* ---------- stop.c ---------- */

extern volatile sig_atomic_t stopping;

extern void signals_init(void);
extern void signals_of_child(long pid);
extern void signals_block(void);
extern void signals_unblock(void);
extern void signals_default(void);
extern void watch_output(int fd);
extern int64_t now_ms(void);
extern short wait_for(int fd, short events, int64_t deadline);

/* A pause that doubles with each failure in a row */
typedef struct Pause
{
	int ms;
} Pause;

extern void pause_reset(Pause *pause);
extern void pause_next(Pause *pause);

extern void say(const char *format, ...) PRINTF_LIKE(1, 2);
extern void say_args(const char *format, va_list args) PRINTF_LIKE(1, 0);
extern void fail(const char *format, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));

#endif /* DC_CLIENT_H */
