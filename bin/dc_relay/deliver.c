/*
 * deliver.c
 *		Writing a batch, to standard output or elsewhere.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Events are formatted one after the other into a buffer that is written when
 * it is full. So a batch needs libpq's memory for it, and that of its largest event once more.
 *
 * Standard output belongs to other processes as well (it may be the same open file as
 * standard error, or a shell's terminal), so it is not made non-blocking. Instead,
 * each write is of so few bytes that a pipe which poll() says is writable has room for
 * them. So the relay can be stopped even when a reader has stopped reading.
 */
#include "bin/dc_relay/relay.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FULL (64 * 1024)
#define PIECE 4096 /* PIPE_BUF, and at least that of POSIX anywhere */
#define STALL 1000 /* ms that a reader has when the relay is to stop */

static bool is_file;	 /* standard output is a regular file */
static bool is_terminal; /* or a terminal */

static bool write_output(void *target, const Buffer *buffer);
static bool write_bytes(const Buffer *buffer);
static void sync_output(void);

/*
 * deliver_init exits if there is nowhere to write to, before any event is fetched.
 */
void
deliver_init(const Options *options)
{
	struct stat status;

	if (options->command != NULL)
		return;
	if (write(STDOUT_FILENO, "", 0) < 0)
		fail("could not write to standard output: %s", strerror(errno));
	is_file = fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode);
	is_terminal = isatty(STDOUT_FILENO) != 0;
	watch_output(STDOUT_FILENO);
}

/*
 * Deliver a part of a batch to the command or to standard output. A file is synchronized, so that
 * the acknowledgement does not come before the events are on disk.
 */
Delivery
deliver(const Options *options, Part part)
{
	if (options->command != NULL)
		return child_deliver(options, part);
	if (!write_part(options, part, write_output, NULL))
		return ABANDONED;
	if (is_file)
		sync_output();
	return DELIVERED;
}

/*
 * write_part formats some events of a batch, and passes them on in pieces. Returns
 * false if one was not wanted.
 */
bool
write_part(const Options *options, Part part, WriteBuffer write_buffer, void *target)
{
	static Buffer buffer;
	Source source = {.consumer = options->consumer, .database = server_database()};
	int end = part.harmless ? part.first + 1 : part.first + part.count;
	bool wanted = true;

	for (int row = part.first; row < end && wanted; row++)
	{
		Event event;

		batch_op(part.batch, row, &event);
		if (part.harmless)
			format_harmless(&buffer, &event);
		else
			format_event(&buffer, options->format, &event, &source);
		if (buffer.length >= FULL || row == end - 1)
		{
			wanted = write_buffer(target, &buffer);
			buffer_reset(&buffer);
		}
	}
	buffer_reset(&buffer);
	return wanted;
}

/*
 * write_output writes whole events. In formats other than JSON, a terminal gets text that cannot be
 * parsed again, but does no harm.
 */
static bool
write_output(void *target, const Buffer *buffer)
{
	static Buffer visible;
	bool wanted;

	(void) target;
	if (!is_terminal)
		return write_bytes(buffer);
	add_visible(&visible, buffer->data, buffer->length);
	wanted = write_bytes(&visible);
	buffer_reset(&visible);
	return wanted;
}

/*
 * write_bytes returns false if the relay is to stop and standard output is not read.
 */
static bool
write_bytes(const Buffer *buffer)
{
	int64_t deadline = NO_DEADLINE;
	size_t done = 0;

	while (done < buffer->length)
	{
		size_t piece = buffer->length - done;
		ssize_t written;

		if (stopping && deadline == NO_DEADLINE)
			deadline = now_ms() + STALL;
		if (wait_for(STDOUT_FILENO, POLLOUT, deadline) == 0)
		{
			if (deadline != NO_DEADLINE && now_ms() >= deadline)
			{
				say("standard output is not read: the current batch stays unconfirmed");
				return false;
			}
			continue;
		}
		written = write(STDOUT_FILENO, buffer->data + done, piece > PIECE ? PIECE : piece);
		if (written >= 0)
			done += (size_t) written;
		else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
			fail("could not write to standard output: %s", strerror(errno));
	}
	return true;
}

/*
 * sync_output ensures that a crash of this machine does not lose events that are about to be
 * acknowledged. After a failure it is not known what is on the disk, and asking again would say
 * that all is well. So a failure ends the program. EINVAL and EROFS come from files that only look
 * regular, and have nothing on a disk.
 */
static void
sync_output(void)
{
	int result;

	do
		result = fsync(STDOUT_FILENO);
	while (result != 0 && errno == EINTR);
	if (result != 0 && errno != EINVAL && errno != EROFS)
		fail("could not flush standard output to disk: %s", strerror(errno));
}
