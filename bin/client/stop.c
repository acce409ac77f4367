/*
 * stop.c
 *		Signals, waiting, and messages.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The handlers only set a flag and write a byte to a pipe. wait_for() does all waiting,
 * and also waits for that pipe. So no signal is missed between
 * looking at the flag and going to sleep. A second signal that asks to stop is
 * obeyed on the spot. It is passed on to the command of --exec, which is a process group
 * of its own, so that a Ctrl-C does not reach it.
 */
#include "bin/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FIRST_PAUSE 200 /* ms */
#define LONGEST_PAUSE 30000

volatile sig_atomic_t stopping = 0;

static int wake_up[2];
static int output = -1;
static volatile sig_atomic_t child = 0;

static void on_stop(int signal_number);
static void on_child(int signal_number);
static void client_stop_install(int signal_number, void (*handler)(int));
static void client_stop_drain(void);

/*
 * signals_init installs the handlers. It also ensures that no file or socket that is opened later
 * becomes descriptor 0, 1 or 2: with standard output closed, events would go to the server.
 */
void
signals_init(void)
{
	for (int fd = 0; fd <= 2; fd++)
	{
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			exit(EXIT_FAILURE);
	}
	if (pipe(wake_up) != 0)
		fail("could not make a pipe: %s", strerror(errno));
	for (int i = 0; i < 2; i++)
	{
		fcntl(wake_up[i], F_SETFL, O_NONBLOCK);
		fcntl(wake_up[i], F_SETFD, FD_CLOEXEC);
	}
	client_stop_install(SIGPIPE, SIG_IGN);
	client_stop_install(SIGCHLD, on_child);
	client_stop_install(SIGTERM, on_stop);
	client_stop_install(SIGINT, on_stop);
	signals_unblock();
}

/*
 * Install a handler of a signal. Calls that it interrupts are not restarted.
 */
static void
client_stop_install(int signal_number, void (*handler)(int))
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	sigemptyset(&action.sa_mask);
	sigaction(signal_number, &action, NULL);
}

/*
 * Handle a signal that asks to stop: note it and wake up the main loop. The second one ends the
 * process at once, and the command of --exec.
 */
static void
on_stop(int signal_number)
{
	int saved_errno = errno;

	if (stopping)
	{
		if (child != 0)
			kill(-(pid_t) child, signal_number);
		_exit(EXIT_FAILURE);
	}
	stopping = 1;
	/* a full pipe wakes up as well */
	if (write(wake_up[1], "s", 1) < 0)
		errno = 0;
	errno = saved_errno;
}

/*
 * Handle the end of a child: wake up the main loop, which looks after it.
 */
static void
on_child(int signal_number)
{
	int saved_errno = errno;

	(void) signal_number;
	if (write(wake_up[1], "c", 1) < 0)
		errno = 0;
	errno = saved_errno;
}

/*
 * Return the set of signals that have a handler here.
 */
static void
our_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGCHLD);
	sigaddset(set, SIGPIPE);
}

/*
 * Keep the signals pending that have a handler here, until signals_unblock.
 */
void
signals_block(void)
{
	sigset_t set;

	our_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/*
 * Let the signals through again that signals_block has kept pending.
 */
void
signals_unblock(void)
{
	sigset_t set;

	our_signals(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/*
 * signals_default is for the child, before it becomes the command.
 */
void
signals_default(void)
{
	client_stop_install(SIGPIPE, SIG_DFL);
	client_stop_install(SIGCHLD, SIG_DFL);
	client_stop_install(SIGTERM, SIG_DFL);
	client_stop_install(SIGINT, SIG_DFL);
}

/*
 * signals_of_child remembers the process that a second signal is passed on to; 0: none.
 */
void
signals_of_child(long pid)
{
	child = (sig_atomic_t) pid;
}

/*
 * watch_output makes wait_for() notice that a descriptor no longer has a reader.
 */
void
watch_output(int fd)
{
	output = fd;
}

/*
 * Return the time of the monotonic clock in milliseconds.
 */
int64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * wait_for waits until something happens to the descriptor (-1: to none), a signal
 * comes, or the deadline is reached. Returns what happened to the descriptor. 0 does not say which
 * of the others happened, so callers check for themselves.
 */
short
wait_for(int fd, short events, int64_t deadline)
{
	struct pollfd fds[3] = {
		{.fd = wake_up[0], .events = POLLIN},
		{.fd = fd, .events = events},
		{.fd = fd == output ? -1 : output, .events = 0}};
	int timeout = -1;

	if (deadline != NO_DEADLINE)
	{
		int64_t left = deadline - now_ms();

		timeout = left < 0 ? 0 : left > 3600000 ? 3600000
												: (int) left;
	}
	if (poll(fds, 3, timeout) <= 0)
		return 0;
	if (fds[0].revents != 0)
		client_stop_drain();
	if (fds[2].revents != 0)
		fail("standard output has been closed by its reader");
	return fds[1].revents;
}

/*
 * Empty the pipe of the handlers, which does not block.
 */
static void
client_stop_drain(void)
{
	char bytes[64];

	while (read(wake_up[0], bytes, sizeof(bytes)) > 0)
		;
}

/*
 * Let the next pause be the shortest one again, as after a success.
 */
void
pause_reset(Pause *pause)
{
	pause->ms = 0;
}

/*
 * pause_next waits longer than the last time, or until told to stop.
 */
void
pause_next(Pause *pause)
{
	int64_t end;

	pause->ms = pause->ms == 0 ? FIRST_PAUSE : pause->ms * 2;
	if (pause->ms > LONGEST_PAUSE)
		pause->ms = LONGEST_PAUSE;
	end = now_ms() + pause->ms;
	while (!stopping && now_ms() < end)
		wait_for(-1, 0, end);
}

/*
 * say_args writes a line to standard error. Messages of libpq and the server end with a
 * newline, and may have more of them, and names that other users have chosen.
 */
void
say_args(const char *format, va_list args)
{
	char text[8192];
	char storage[4 * sizeof(text) + 1]; /* not allocated: the message may be about a failed allocation */
	Buffer visible = {.data = storage, .size = sizeof(storage)};
	size_t length;

	vsnprintf(text, sizeof(text), format, args);
	length = strlen(text);
	while (length > 0 && text[length - 1] == '\n')
		text[--length] = '\0';
	add_visible(&visible, text, length);
	fprintf(stderr, "%s: %.*s\n", program, (int) visible.length, visible.data);
}

/*
 * Print a message to standard error.
 */
void
say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_args(format, args);
	va_end(args);
}

/*
 * Print a message to standard error and exit with status 1.
 */
void
fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_args(format, args);
	va_end(args);
	exit(EXIT_FAILURE);
}
