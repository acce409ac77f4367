/*
 * ctlconfig.c
 *		The file that says how each region is reached.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *		[eu]
 *		conninfo = host=eu.example.com dbname=shop user=postgres
 *		link = host=eu.example.com dbname=shop user=replicator
 *
 * "conninfo" is for dc_region, "link" for the servers of the other regions: without it, it is the
 * same except for the password. "eu = CONNINFO" outside of a section is short for a section with
 * conninfo alone. Lines that begin with # or ; are comments.
 */
#include "bin/dc_region/ctl.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 40

Mesh mesh;

static char *ctlconfig_read_file(const char *path);
static bool parse_line(char *line, Mesh *into, Region **section, const char **error);
static char *ctlconfig_trimmed(char *begin);
static bool is_name(const char *name);
static Region *add_region(Mesh *into, const char *name);
static const char *ctlconfig_check(Region *region);
static const char *without_password(const char *conninfo, const char *instead);
static void add_setting(Buffer *to, const char *keyword, const char *value);

/*
 * config_read fills in the mesh, or ends the program. Its messages do not quote the file, as it may
 * have passwords.
 */
void
config_read(const char *path)
{
	char *content = ctlconfig_read_file(path);
	const char *error;
	int line;

	if (!config_parse(content, &mesh, &line, &error))
		give_up(STATUS_USAGE, "%s, line %d: %s", path, line, error);
	if (mesh.count == 0)
		give_up(STATUS_USAGE, "%s does not define any region", path);
	each_region(region)
	{
		error = ctlconfig_check(region);
		if (error != NULL)
			give_up(STATUS_USAGE, "%s, region \"%s\": %s", path, region->name, error);
		if (region->link == NULL)
			region->link = without_password(region->conninfo, NULL);
		region->shown = without_password(region->link, "***");
	}
}

/*
 * Return the content of a file as a string, or exit.
 */
static char *
ctlconfig_read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	Buffer content = {0};
	char part[4096];
	size_t length;

	if (file == NULL)
		give_up(STATUS_USAGE, "could not open \"%s\": %s", path, strerror(errno));
	while ((length = fread(part, 1, sizeof(part), file)) > 0)
		buffer_add(&content, part, length);
	if (ferror(file))
		give_up(STATUS_USAGE, "could not read \"%s\": %s", path, strerror(errno));
	fclose(file);
	buffer_add(&content, "", 1);
	return content.data;
}

/*
 * config_parse reads the text of a file, which it changes; false if a line is wrong.
 */
bool
config_parse(char *content, Mesh *into, int *line, const char **error)
{
	Region *section = NULL;

	*into = (Mesh){0};
	*line = 0;
	while (content != NULL)
	{
		char *end = strchr(content, '\n');

		if (end != NULL)
			*end++ = '\0';
		(*line)++;
		if (!parse_line(ctlconfig_trimmed(content), into, &section, error))
			return false;
		content = end;
	}
	return true;
}

/*
 * Read a line of the file, which is trimmed, and change it. *section is the region that the line is
 * about. Return false, and *error, if it cannot be read.
 */
static bool
parse_line(char *line, Mesh *into, Region **section, const char **error)
{
	char *value = strchr(line, '=');
	char *name = line;
	Region *region = *section;
	const char **setting;

	if (*line == '\0' || *line == '#' || *line == ';')
		return true;
	if (*line == '[' && line[strlen(line) - 1] == ']')
	{
		line[strlen(line) - 1] = '\0';
		name = ctlconfig_trimmed(line + 1);
		*error = is_name(name) ? "the region is defined twice" : "a region name consists of up to 40 lower-case letters, digits and underscores";
		*section = is_name(name) ? add_region(into, name) : NULL;
		return *section != NULL;
	}
	*error = "neither [REGION] nor NAME = VALUE";
	if (value == NULL)
		return false;
	*value++ = '\0';
	name = ctlconfig_trimmed(name);
	if (region == NULL)
	{
		*error = is_name(name) ? "the region is defined twice" : "a region name consists of up to 40 lower-case letters, digits and underscores";
		region = is_name(name) ? add_region(into, name) : NULL;
		if (region == NULL)
			return false;
		setting = &region->conninfo;
	}
	else if (strcmp(name, "conninfo") == 0)
		setting = &region->conninfo;
	else if (strcmp(name, "link") == 0)
		setting = &region->link;
	else
	{
		*error = "a region has only the settings conninfo and link";
		return false;
	}
	*error = "the setting is given twice";
	if (*setting != NULL)
		return false;
	*setting = ctlconfig_trimmed(value);
	return true;
}

/*
 * Return the string without white space around it. It is cut in place.
 */
static char *
ctlconfig_trimmed(char *begin)
{
	char *end;

	while (isspace((unsigned char) *begin))
		begin++;
	end = begin + strlen(begin);
	while (end > begin && isspace((unsigned char) end[-1]))
		end--;
	*end = '\0';
	return begin;
}

/*
 * Return true if a region can have the name.
 */
static bool
is_name(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length <= MAX_NAME && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

/*
 * add_region returns NULL if there is one of that name.
 */
static Region *
add_region(Mesh *into, const char *name)
{
	for (int i = 0; i < into->count; i++)
	{
		if (strcmp(into->regions[i].name, name) == 0)
			return NULL;
	}
	into->regions = realloc(into->regions, (size_t) (into->count + 1) * sizeof(Region));
	if (into->regions == NULL)
		fail("out of memory");
	into->regions[into->count] = (Region){.name = name};
	return &into->regions[into->count++];
}

/*
 * Return what is wrong with a region's connection strings, or NULL. They are not part of the
 * message, as they may have passwords.
 */
static const char *
ctlconfig_check(Region *region)
{
	const char *both[2] = {region->conninfo, region->link};

	if (region->conninfo == NULL)
		return "conninfo is missing";
	for (int i = 0; i < 2; i++)
	{
		PQconninfoOption *settings;

		if (both[i] == NULL)
			continue;
		settings = PQconninfoParse(both[i], NULL); /* its message has parts of the text */
		if (settings == NULL)
			return i == 0 ? "conninfo is not a valid libpq connection string" : "link is not a valid libpq connection string";
		PQconninfoFree(settings);
	}
	return NULL;
}

/*
 * without_password returns a connection string with another password, or none.
 */
static const char *
without_password(const char *conninfo, const char *instead)
{
	PQconninfoOption *settings = PQconninfoParse(conninfo, NULL);
	Buffer result = {0};

	if (settings == NULL)
		fail("out of memory");
	for (PQconninfoOption *setting = settings; setting->keyword != NULL; setting++)
	{
		bool secret = strcmp(setting->keyword, "password") == 0 || strcmp(setting->keyword, "sslpassword") == 0;

		if (setting->val != NULL && !secret)
			add_setting(&result, setting->keyword, setting->val);
		else if (setting->val != NULL && instead != NULL)
			add_setting(&result, setting->keyword, instead);
	}
	PQconninfoFree(settings);
	buffer_add(&result, "", 1);
	return result.data;
}

/*
 * Append a setting to a connection string, quoted if necessary.
 */
static void
add_setting(Buffer *to, const char *keyword, const char *value)
{
	bool plain = *value != '\0' && strpbrk(value, " \t\n\r\v\f'\\") == NULL;

	if (to->length > 0)
		buffer_add_string(to, " ");
	buffer_add_string(to, keyword);
	buffer_add_string(to, plain ? "=" : "='");
	for (const char *at = value; *at != '\0'; at++)
	{
		if (*at == '\'' || *at == '\\')
			buffer_add_string(to, "\\");
		buffer_add(to, at, 1);
	}
	if (!plain)
		buffer_add_string(to, "'");
}

/*
 * mesh_find returns the region of a name; NULL if the file has none.
 */
Region *
mesh_find(const char *name)
{
	each_region(region)
	{
		if (strcmp(region->name, name) == 0)
			return region;
	}
	return NULL;
}
