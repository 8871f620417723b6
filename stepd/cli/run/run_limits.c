/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Options of limits, into the JSON that the spec's rows read (stepd/spec/spec_limits.c).
 */
#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "stepd/base/parse.h"
#include "stepd/cli/run/run_convert.h"

#define MIB (UINT64_C(1) << 20)

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "read the options");
}

static bool is_digits(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

/* A whole number as a number, all else as text, for the spec to judge. */
static json_t *value_json(const char *text)
{
	uint64_t n;

	if (is_digits(text) && parse_u64(text, 0, INT64_MAX, &n) == 0)
		return json_integer((json_int_t)n);
	return json_string_nocheck(text);
}

int run_take_limit(
	const struct run_option *o, const char *arg, struct run_build *build, struct err *err)
{
	return run_set(build, o->path, value_json(arg), err);
}

int run_take_size(
	const struct run_option *o, const char *arg, struct run_build *build, struct err *err)
{
	uint64_t bytes;

	if (parse_size(arg, 1, &bytes) < 0 || bytes > INT64_MAX)
		return err_say(err, -EINVAL, "'%.200s' is no size such as 512M or 4G", arg);
	return run_set(build, o->path, json_integer((json_int_t)bytes), err);
}

/* As srun has it: a bare number is of MiB, and --mem=0 is all memory there is. */
int run_take_limit_mem(
	const struct run_option *o, const char *arg, struct run_build *build, struct err *err)
{
	bool is_swap = strstr(o->path, "swap") != NULL;
	uint64_t bytes;

	if (!is_digits(arg))
		return run_set(build, o->path, json_string_nocheck(arg), err);
	if (parse_size(arg, MIB, &bytes) < 0 || bytes > INT64_MAX)
		return err_say(err, -ERANGE, "'%.200s' is too large", arg);
	if (bytes == 0 && !is_swap)
		return run_set(build, o->path, json_string("max"), err);
	return run_set(build, o->path, json_integer((json_int_t)bytes), err);
}

int run_take_limit_bool(
	const struct run_option *o, const char *arg, struct run_build *build, struct err *err)
{
	bool yes = !arg || strcmp(arg, "yes") == 0;

	if (!yes && strcmp(arg, "no") != 0)
		return err_say(err, -EINVAL, "'%.200s' is neither yes nor no", arg);
	return run_set(build, o->path, json_boolean(yes), err);
}

/* ---- what may be repeated ----------------------------------------------------------------- */

/* Adds entry, which may be NULL for no memory, to the array at o's path. */
static int append(
	const struct run_option *o, struct run_build *build, json_t *entry, struct err *err)
{
	const char *dot = strchr(o->path, '.');
	char parent[32];
	json_t *array;
	int r;

	(void)snprintf(parent, sizeof(parent), "%.*s", (int)(dot - o->path), o->path);
	array = json_object_get(json_object_get(build->overlay, parent), dot + 1);
	if (!json_is_array(array)) {
		array = json_array();
		r = run_set(build, o->path, array, err);
		if (r < 0) {
			json_decref(entry);
			return r;
		}
	}
	return json_array_append_new(array, entry) < 0 ? no_memory(err) : 0;
}

/* "rbps=10M" */
static int add_rate(json_t *entry, char *text, struct err *err)
{
	static const struct {
		const char *name, *field; /* the kernel's and ours */
		bool is_size;
	} rates[] = {
		{"rbps", "read_bytes_per_sec", true},
		{"wbps", "write_bytes_per_sec", true},
		{"riops", "reads_per_sec", false},
		{"wiops", "writes_per_sec", false},
	};
	char *equals = strchr(text, '=');
	size_t i;

	if (equals)
		*equals = '\0';
	for (i = 0; i < ARRAY_SIZE(rates) && strcmp(rates[i].name, text) != 0; i++)
		;
	if (!equals || i == ARRAY_SIZE(rates))
		return err_say(
			err, -EINVAL, "'%.200s' is none of rbps=N, wbps=N, riops=N, wiops=N", text);
	return json_object_set_new(entry, rates[i].field, value_json(equals + 1)) < 0
		? no_memory(err)
		: 0;
}

int run_take_limit_io(
	const struct run_option *o, const char *arg, struct run_build *build, struct err *err)
{
	_cleanup_free_ char *copy = strdup(arg);
	json_t *entry = json_object();
	char *rest = copy, *piece;
	int r = copy && entry ? 0 : no_memory(err);

	if (strcmp(arg, "max") == 0 || strcmp(arg, "none") == 0) {
		json_decref(entry);
		return run_set(build, o->path, json_string(arg), err);
	}
	piece = r == 0 ? strsep(&rest, ",") : NULL;
	if (r == 0 && json_object_set_new(entry, "device", json_string_nocheck(piece)) < 0)
		r = no_memory(err);
	while (r == 0 && rest)
		r = add_rate(entry, strsep(&rest, ","), err);
	if (r == 0)
		return append(o, build, entry, err);
	json_decref(entry);
	return r;
}

/* Where ":rw" begins, or the end: what stands behind a colon in 'c 195:*' is no letter. */
static size_t find_access(const char *arg)
{
	const char *colon = strrchr(arg, ':');

	return colon && isalpha((unsigned char)colon[1]) ? (size_t)(colon - arg) : strlen(arg);
}

int run_take_limit_device(
	const struct run_option *o, const char *arg, struct run_build *build, struct err *err)
{
	size_t at = find_access(arg);
	json_t *entry;

	if (strcmp(arg, "none") == 0)
		return err_say(err, -EINVAL,
			"'none' could mean either: say default for the default devices alone, max for "
			"all there are");
	if (strcmp(arg, "max") == 0)
		return run_set(build, o->path, json_string(arg), err);
	if (strcmp(arg, "default") == 0)
		return run_set(build, o->path, json_array(), err);
	entry = json_object();
	if (json_object_set_new(entry, "device", json_stringn_nocheck(arg, at)) < 0 ||
		(arg[at] &&
			json_object_set_new(entry, "access", json_string_nocheck(arg + at + 1)) <
				0)) {
		json_decref(entry);
		return no_memory(err);
	}
	return append(o, build, entry, err);
}
