/*
 * clock_shim.c
 *		A wall clock that a test can set, preloaded (LD_PRELOAD) into a server.
 *
 * The first 8 bytes of the file that DC_CLOCK_OFFSET names are a number of seconds
 * (int64 of this machine), which is added to the time of day. Who writes another
 * number there steps the clock of all processes of the server at once. The monotonic
 * clock is left alone then, as it is when an administrator or NTP steps a real clock.
 *
 * The monotonic clock is behind by DC_CLOCK_BOOT seconds, if that is set, as if the
 * machine had been booted so much later.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t
offset(void)
{
	static volatile int64_t *shared = NULL;

	if (shared == NULL)
	{
		const char *path = getenv("DC_CLOCK_OFFSET");
		int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		void *map;

		if (fd < 0)
			return 0;
		map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		if (map == MAP_FAILED)
			return 0;
		shared = map;
	}
	return *shared;
}

static int64_t
boot(void)
{
	static int64_t seconds = -1;

	if (seconds < 0)
	{
		const char *text = getenv("DC_CLOCK_BOOT");

		seconds = text ? atoll(text) : 0;
	}
	return seconds;
}

static int
real_time(clockid_t clock, struct timespec *now)
{
	return (int) syscall(SYS_clock_gettime, clock, now);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = real_time(clock, now);

	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += offset();
	if (result == 0 && clock == CLOCK_MONOTONIC)
		now->tv_sec -= boot();
	return result;
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec real;
	int result = real_time(CLOCK_REALTIME, &real);

	(void) zone;
	now->tv_sec = real.tv_sec + offset();
	now->tv_usec = real.tv_nsec / 1000;
	return result;
}

time_t
time(time_t *result)
{
	struct timespec real;

	(void) real_time(CLOCK_REALTIME, &real);
	real.tv_sec += offset();
	if (result != NULL)
		*result = real.tv_sec;
	return real.tv_sec;
}
