/*
 * child.c
 *		A shell command that takes a part of a batch.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The part is confirmed if the command ends with status 0 and has read all of it.
 * Writing it would not be enough: it may still have been in the pipe when the command ended,
 * depending on which of the two was faster. So the relay keeps the pipe's other end open too, and
 * looks afterwards how much is left in it. (So there is no EPIPE either: the relay knows that a
 * command has stopped reading early by its end.)
 *
 * The command's standard output goes to the relay's standard error, since the relay's
 * standard output may belong to something else.
 */
#include "bin/dc_relay/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

typedef struct Child
{
	pid_t pid;
	int in;	 /* the pipe's end that the relay writes to */
	int out; /* the end that the command reads from */
	bool ended;
	int status;
} Child;

static bool child_start(Child *child, const char *command);
static void become_command(const char *command, int input) __attribute__((noreturn));
static bool write_child(void *target, const Buffer *buffer);
static bool child_ended(Child *child);
static Delivery relay_child_judge(const Child *child, bool all_written);

/*
 * Deliver a part to the command: start it, write the part to its standard input, and wait for its
 * end.
 */
Delivery
child_deliver(const Options *options, Part part)
{
	Child child;
	bool all_written;
	Delivery delivery;

	if (!child_start(&child, options->command))
		return NOT_DELIVERED;
	all_written = write_part(options, part, write_child, &child);
	close(child.in);
	while (!child_ended(&child))
		wait_for(-1, 0, NO_DEADLINE);
	delivery = relay_child_judge(&child, all_written);
	close(child.out);
	return delivery;
}

/*
 * Start the command in a process group of its own, with a pipe to its standard input. Return false
 * if that fails.
 */
static bool
child_start(Child *child, const char *command)
{
	int fds[2];

	*child = (Child){.pid = -1};
	if (pipe(fds) != 0)
	{
		say("could not make a pipe: %s", strerror(errno));
		return false;
	}
	fcntl(fds[0], F_SETFD, FD_CLOEXEC);
	fcntl(fds[1], F_SETFD, FD_CLOEXEC);
	fcntl(fds[1], F_SETFL, O_NONBLOCK);

	/* A signal for the child must not run the relay's handlers in it. */
	signals_block();
	child->pid = fork();
	if (child->pid == 0)
		become_command(command, fds[0]);
	if (child->pid > 0)
	{
		/* either process may be the first to get there */
		setpgid(child->pid, child->pid);
		signals_of_child(child->pid);
	}
	signals_unblock();
	if (child->pid < 0)
	{
		say("could not start a process: %s", strerror(errno));
		close(fds[0]);
		close(fds[1]);
		return false;
	}
	child->out = fds[0];
	child->in = fds[1];
	return true;
}

/*
 * Replace the forked process by the command. Its standard output is the relay's standard error.
 */
static void
become_command(const char *command, int input)
{
	setpgid(0, 0);
	signals_default();
	signals_unblock();
	if (dup2(input, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
		execl("/bin/sh", "sh", "-c", command, (char *) NULL);
	_exit(127);
}

/*
 * write_child returns false if the command has ended. When the relay is told to stop, it neither
 * stops the command nor abandons it: the command's part is nearly done.
 */
static bool
write_child(void *target, const Buffer *buffer)
{
	Child *child = target;
	size_t done = 0;

	while (done < buffer->length)
	{
		ssize_t written;

		if (child_ended(child))
			return false;
		written = write(child->in, buffer->data + done, buffer->length - done);
		if (written >= 0)
			done += (size_t) written;
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			wait_for(child->in, POLLOUT, NO_DEADLINE);
		else if (errno != EINTR)
		{
			say("could not write to the command: %s", strerror(errno));
			return false;
		}
	}
	return true;
}

/*
 * Return true if the command has ended, and note its status. Does not wait.
 */
static bool
child_ended(Child *child)
{
	pid_t pid;

	if (child->ended)
		return true;
	/* a second signal must not go to a process that is no longer the child */
	signals_block();
	pid = waitpid(child->pid, &child->status, WNOHANG);
	child->ended = pid == child->pid;
	if (child->ended)
		signals_of_child(0);
	signals_unblock();
	if (pid < 0 && errno != EINTR)
		fail("could not wait for the command: %s", strerror(errno));
	return child->ended;
}

/*
 * relay_child_judge returns whether the part is confirmed, and prints why it is not.
 */
static Delivery
relay_child_judge(const Child *child, bool all_written)
{
	int unread = 0;

	if (WIFSIGNALED(child->status))
		say("the command was terminated by signal %d", WTERMSIG(child->status));
	else if (WEXITSTATUS(child->status) != 0)
		say("the command failed with status %d", WEXITSTATUS(child->status));
	else if (!all_written || ioctl(child->out, FIONREAD, &unread) != 0 || unread > 0)
		say("the command ended before it had read all events");
	else
		return DELIVERED;
	return WIFEXITED(child->status) && WEXITSTATUS(child->status) == EX_DATAERR ? AT_FAULT : NOT_DELIVERED;
}
