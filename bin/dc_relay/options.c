/*
 * options.c
 *		The command line.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "bin/dc_relay/relay.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BATCH 100
#define DEFAULT_WAIT 5
#define MAX_BATCH 1000000
#define MAX_WAIT 3600
#define TRY_HELP "try \"dc_relay --help\" for more information"

static const char *const format_names[] = {
	[FORMAT_JSON] = "json",
	[FORMAT_DEBEZIUM] = "debezium",
	[FORMAT_REDIS] = "redis",
	[FORMAT_KAFKA] = "kafka",
};

enum
{
	OPTION_CONSUMER = 256,
	OPTION_MEMBER,
	OPTION_FORMAT,
	OPTION_BATCH,
	OPTION_WAIT,
	OPTION_EXEC,
	OPTION_ONCE,
	OPTION_HELP
};

static const struct option long_options[] = {
	{"dbname", required_argument, NULL, 'd'},
	{"consumer", required_argument, NULL, OPTION_CONSUMER},
	{"member", required_argument, NULL, OPTION_MEMBER},
	{"format", required_argument, NULL, OPTION_FORMAT},
	{"batch", required_argument, NULL, OPTION_BATCH},
	{"wait", required_argument, NULL, OPTION_WAIT},
	{"exec", required_argument, NULL, OPTION_EXEC},
	{"once", no_argument, NULL, OPTION_ONCE},
	{"help", no_argument, NULL, OPTION_HELP},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0}};

static void relay_options_print_and_exit(const char *text) __attribute__((noreturn));
static void wrong_usage(const char *format, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));
static Format parse_format(const char *name);
static int parse_batch(const char *text);
static double parse_wait(const char *text);

static const char help[] =
	"dc_relay passes the events of a dcounter consumer on, at least once each.\n"
	"\n"
	"Usage:\n"
	"  dc_relay -d DSN --consumer NAME [OPTION]...\n"
	"\n"
	"Options:\n"
	"  -d, --dbname=DSN   database to connect to: a name, a URI, or key=value pairs\n"
	"  --consumer=NAME    consumer to read\n"
	"  --member=NAME      share the consumer with other members, as this one\n"
	"  --format=FORMAT    json (the default), debezium, redis or kafka\n"
	"  --batch=N          fetch at most N events at once (default 100)\n"
	"  --wait=SECONDS     ask again after waiting so long for an event (default 5)\n"
	"  --exec=COMMAND     write each batch to a shell command, instead of standard\n"
	"                     output, and acknowledge it when the command succeeds\n"
	"  --once             stop when nothing is left; does not wait, unless --wait says so\n"
	"  -V, --version      show the version, then exit\n"
	"  -?, --help         show this help, then exit\n";

/*
 * options_parse fills in the options, or ends the program.
 */
void
options_parse(Options *options, int argc, char **argv)
{
	int option;

	*options = (Options){.dsn = "", .batch = DEFAULT_BATCH, .wait = -1};
	while ((option = getopt_long(argc, argv, "d:V?", long_options, NULL)) != -1)
	{
		switch (option)
		{
			case 'd':
				options->dsn = optarg;
				break;
			case OPTION_CONSUMER:
				options->consumer = optarg;
				break;
			case OPTION_MEMBER:
				options->member = optarg;
				break;
			case OPTION_FORMAT:
				options->format = parse_format(optarg);
				break;
			case OPTION_BATCH:
				options->batch = parse_batch(optarg);
				break;
			case OPTION_WAIT:
				options->wait = parse_wait(optarg);
				break;
			case OPTION_EXEC:
				options->command = optarg;
				break;
			case OPTION_ONCE:
				options->once = true;
				break;
			case 'V':
				relay_options_print_and_exit("dc_relay (dcounter) " DCOUNTER_VERSION "\n");
			case OPTION_HELP:
				relay_options_print_and_exit(help);
			default:
				/* getopt returns the same for an option that it does not know */
				if (strcmp(argv[optind - 1], "-?") == 0)
					relay_options_print_and_exit(help);
				fail(TRY_HELP);
		}
	}
	if (optind < argc)
		wrong_usage("unexpected argument \"%s\"", argv[optind]);
	if (options->consumer == NULL)
		wrong_usage("--consumer is missing");
	if (options->wait < 0)
		options->wait = options->once ? 0 : DEFAULT_WAIT;
}

/*
 * Print a text to standard output and exit.
 */
static void
relay_options_print_and_exit(const char *text)
{
	fputs(text, stdout);
	exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/*
 * Print a message and a hint at --help, and exit with status 1.
 */
static void
wrong_usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_args(format, args);
	va_end(args);
	fail(TRY_HELP);
}

/*
 * Return the format of a name, or exit.
 */
static Format
parse_format(const char *name)
{
	for (size_t i = 0; i < sizeof(format_names) / sizeof(format_names[0]); i++)
	{
		if (strcmp(name, format_names[i]) == 0)
			return (Format) i;
	}
	wrong_usage("unknown format \"%s\"", name);
}

/*
 * Return the number of events that --batch says, or exit.
 */
static int
parse_batch(const char *text)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || value < 1 || value > MAX_BATCH)
		wrong_usage("--batch must be a number from 1 to %d, not \"%s\"", MAX_BATCH, text);
	return (int) value;
}

/*
 * Return the seconds that --wait says, or exit.
 */
static double
parse_wait(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end != '\0' || isnan(value) || value < 0 || value > MAX_WAIT)
		wrong_usage("--wait must be a number of seconds from 0 to %d, not \"%s\"", MAX_WAIT, text);
	return value;
}
