/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/run/run_convert.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "stepd/account/usage.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/spec/spec.h"

#define MIB (UINT64_C(1) << 20)

int run_no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "read the options");
}

int run_set(struct run_build *build, const char *path, json_t *value, struct err *err)
{
	const char *dot = strchr(path, '.');
	json_t *object = build->overlay;
	char parent[32];

	if (dot) {
		(void)snprintf(parent, sizeof(parent), "%.*s", (int)(dot - path), path);
		object = json_object_get(build->overlay, parent);
		if (!object) {
			object = json_object();
			if (json_object_set_new(build->overlay, parent, object) < 0) {
				json_decref(value);
				return run_no_memory(err);
			}
		}
	}
	return json_object_set_new_nocheck(object, dot ? dot + 1 : path, value) < 0
		? run_no_memory(err)
		: 0;
}

/* ---- plain values -------------------------------------------------------------------------- */

int run_take_text(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return run_set(into, o->path, json_string_nocheck(arg), err);
}

/* A whole number with an optional sign; its range is checked by the spec. */
static int get_number(const char *text, int64_t *ret_n)
{
	char *end;
	long long n;

	if (!isdigit((unsigned char)text[*text == '-']))
		return -EINVAL;
	errno = 0;
	n = strtoll(text, &end, 10);
	if (*end || errno)
		return -EINVAL;
	*ret_n = n;
	return 0;
}

int run_take_number(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	int64_t n;

	if (get_number(arg, &n) < 0)
		return err_set_text(err, -EINVAL, "'%.200s' is not a whole number", arg);
	return run_set(into, o->path, json_integer(n), err);
}

int run_take_true(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)arg;
	return run_set(into, o->path, json_true(), err);
}

int run_take_false(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)arg;
	return run_set(into, o->path, json_false(), err);
}

int run_take_word(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)arg;
	return run_set(into, o->path, json_string(o->value), err);
}

int run_take_nice(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return run_take_number(o, arg ? arg : "10", into, err); /* 10 as nice(1) has it */
}

int run_take_pty(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return run_take_text(o, arg ? arg : "0", into, err);
}

/* ---- lists --------------------------------------------------------------------------------- */

static int take_list(const struct cli_option *o, const char *arg, const char *separator,
	struct run_build *build, struct err *err)
{
	_cleanup_free_ char *copy = strdup(arg);
	json_auto_t *list = json_array();
	char *rest = *arg ? copy : NULL;
	int r = copy ? 0 : -1;

	while (r == 0 && rest)
		r = json_array_append_new(list, json_string_nocheck(strsep(&rest, separator)));
	return r < 0 ? run_no_memory(err) : run_set(build, o->path, take_ptr(list), err);
}

int run_take_list(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return take_list(o, arg, ",", into, err);
}

int run_take_rank_lists(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return take_list(o, arg, ":", into, err);
}

/* "2" or, in Slurm's short form, "2(x3)". */
static int add_counts(json_t *list, char *piece)
{
	char *times = strstr(piece, "(x"), *close;
	uint32_t count, repeat = 1;

	if (times) {
		*times = '\0';
		times += 2;
		close = strchr(times, ')');
		if (!close || close[1])
			return -EINVAL;
		*close = '\0';
		if (parse_u32(times, 1, SPEC_NODES_MAX, &repeat) < 0)
			return -EINVAL;
	}
	if (parse_u32(piece, 0, UINT32_MAX, &count) < 0)
		return -EINVAL;
	for (; repeat > 0; repeat--) {
		if (json_array_size(list) > SPEC_NODES_MAX)
			return 0; /* one too many: the spec reports it */
		if (json_array_append_new(list, json_integer(count)) < 0)
			return -ENOMEM;
	}
	return 0;
}

int run_take_counts(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	_cleanup_free_ char *copy = strdup(arg);
	json_auto_t *list = json_array();
	char *rest = copy;
	int r = copy ? 0 : -ENOMEM;

	while (r == 0 && rest)
		r = add_counts(list, strsep(&rest, ","));
	if (r == 0)
		return run_set(into, o->path, take_ptr(list), err);
	if (r == -ENOMEM)
		return run_no_memory(err);
	return err_set_text(
		err, r, "'%.200s' is not a list of counts such as \"4,4\" or \"4(x2)\"", arg);
}

/* ---- times --------------------------------------------------------------------------------- */

static int set_ms(struct run_build *build, const char *path, uint64_t ms, struct err *err)
{
	return run_set(build, path, json_integer((json_int_t)ms), err);
}

int run_take_duration(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	uint64_t ms;

	if (parse_duration_ms(arg, &ms) < 0)
		return err_set_text(err, -EINVAL,
			"'%.200s' is not a duration such as 90, 30s, 250ms, 5m or 2h", arg);
	return set_ms(into, o->path, ms, err);
}

int run_take_time(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	uint64_t ms = 0;

	if (strcasecmp(arg, "infinite") != 0 && strcasecmp(arg, "unlimited") != 0 &&
		parse_slurm_time_ms(arg, &ms) < 0)
		return err_set_text(err, -EINVAL,
			"'%.200s' is not a time such as 5 (minutes), 5:30, 1:00:00 or 2-12", arg);
	return set_ms(into, o->path, ms, err);
}

/* srun's "R:" is about reservations, which an agent knows nothing of. */
int run_take_signal(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	bool tasks = strncasecmp(arg, "B:", 2) == 0;
	const char *from = tasks || strncasecmp(arg, "R:", 2) == 0 ? arg + 2 : arg;
	_cleanup_free_ char *name = strndup(from, strcspn(from, "@"));
	const char *at = strchr(from, '@');
	uint64_t ms = 0;
	int r;

	if (!name)
		return err_set(err, -ENOMEM, "read '%.200s'", arg);
	if (signals_parse(name) < 0)
		return err_set_text(err, -EINVAL, "'%.200s' is not a signal", name);
	if (at && parse_duration_ms(at + 1, &ms) < 0)
		return err_set_text(err, -EINVAL,
			"'%.200s' is not a number of seconds before the time limit", at + 1);
	r = run_set(
		into, "time_limit_signal_ms", at ? json_integer((json_int_t)ms) : json_null(), err);
	if (r == 0)
		r = run_set(into, "time_limit_signal_to",
			tasks ? json_string("tasks") : json_null(), err);
	return r < 0 ? r : run_set(into, o->path, json_string(name), err);
}

int run_take_wait(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	uint64_t ms;

	if (parse_duration_ms(arg, &ms) < 0)
		return err_set_text(err, -EINVAL, "'%.200s' is not a number of seconds", arg);
	if (ms == 0) /* as in srun: wait without a limit */
		return run_set(into, o->path, json_null(), err);
	return set_ms(into, o->path, ms, err);
}

int run_take_bad_exit(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	bool on = !arg || strcmp(arg, "0") != 0;
	json_t *grace = json_null();
	uint64_t ms;
	int r;

	if (arg && strcmp(arg, "0") != 0 && strcmp(arg, "1") != 0) {
		if (parse_duration_ms(arg, &ms) < 0)
			return err_set_text(err, -EINVAL,
				"'%.200s' is neither 0 nor 1 nor a duration such as 5s", arg);
		grace = json_integer((json_int_t)ms);
	}
	r = run_set(into, "kill_on_bad_exit_grace_ms", grace, err);
	return r < 0 ? r : run_set(into, o->path, json_boolean(on), err);
}

int run_take_no_kill(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)arg;
	return run_take_bad_exit(o, "0", into, err);
}

/* ---- streams and directories --------------------------------------------------------------- */

int run_take_stream(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	json_t *stream;
	int64_t rank;

	if (strcmp(arg, "all") == 0)
		stream = json_string(strcmp(o->path, "stdin") == 0 ? "all" : "inherit");
	else if (strcmp(arg, "none") == 0)
		stream = json_string("none");
	else if (strcmp(o->path, "stdin") == 0 &&
		(strcmp(arg, "tool") == 0 || strcmp(arg, "attach") == 0))
		stream = json_string(arg);
	else if (isdigit((unsigned char)*arg) && get_number(arg, &rank) == 0)
		stream = json_pack("{s:s, s:I}", "mode", "rank", "rank", (json_int_t)rank);
	else
		stream = json_pack("{s:s, s:o}", "mode", "file", "path", json_string_nocheck(arg));
	return run_set(into, o->path, stream, err);
}

int run_take_open_mode(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct run_build *build = into;

	(void)o;
	if (strcmp(arg, "append") != 0 && strcmp(arg, "a") != 0 && strcmp(arg, "truncate") != 0 &&
		strcmp(arg, "t") != 0)
		return err_set_text(err, -EINVAL, "'%.200s' is neither append nor truncate", arg);
	build->open_mode = arg;
	return 0;
}

int run_take_path(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	_cleanup_free_ char *here = NULL, *path = NULL;

	if (arg[0] == '/' || !*arg)
		return run_take_text(o, arg, into, err);
	here = getcwd(NULL, 0);
	if (!here)
		return err_set(err, -errno, "'%.200s' can't be made absolute", arg);
	if (asprintf(&path, "%s/%s", strcmp(here, "/") == 0 ? "" : here, arg) < 0) {
		path = NULL;
		return run_no_memory(err);
	}
	return run_take_text(o, path, into, err);
}

/* ---- rlimits and the escalation ------------------------------------------------------------ */

static json_t *limit_json(const char *text)
{
	int64_t n;

	return get_number(text, &n) == 0 ? json_integer(n) : json_string_nocheck(text);
}

int run_take_rlimit(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	const char *equals = strchr(arg, '='), *colon;
	_cleanup_free_ char *soft = NULL;
	json_t *limit;
	char path[64];

	if (!equals || equals == arg)
		return err_set_text(
			err, -EINVAL, "'%.200s' is not of the form NAME=SOFT[:HARD]", arg);
	/* A dot would make the name a path; no limit has one. */
	if (memchr(arg, '.', (size_t)(equals - arg)) || equals - arg > 32)
		return err_set_text(err, -EINVAL, "'%.*s' is not a limit's name",
			(int)(equals - arg > 200 ? 200 : equals - arg), arg);
	(void)snprintf(path, sizeof(path), "%s.%.*s", o->path, (int)(equals - arg), arg);
	colon = strchr(equals, ':');
	if (!colon)
		return run_set(into, path, limit_json(equals + 1), err);
	soft = strndup(equals + 1, (size_t)(colon - equals - 1));
	if (!soft)
		return run_no_memory(err);
	limit = json_pack("{s:o, s:o}", "soft", limit_json(soft), "hard", limit_json(colon + 1));
	return run_set(into, path, limit, err);
}

int run_take_kill_sequence(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	json_t *sequence = NULL;
	int r = spec_kill_sequence_json(arg, &sequence, err);

	return r < 0 ? r : run_set(into, o->path, sequence, err);
}

/* ---- limits -------------------------------------------------------------------------------- */

static bool is_digits(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

/* A whole number as a number, all else as text, which the spec checks. */
static json_t *value_json(const char *text)
{
	uint64_t n;

	if (is_digits(text) && parse_u64(text, 0, INT64_MAX, &n) == 0)
		return json_integer((json_int_t)n);
	return json_string_nocheck(text);
}

int run_take_limit(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return run_set(into, o->path, value_json(arg), err);
}

int run_take_size(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	uint64_t bytes;

	if (parse_size(arg, 1, &bytes) < 0 || bytes > INT64_MAX)
		return err_set_text(err, -EINVAL, "'%.200s' is not a size such as 512M or 4G", arg);
	return run_set(into, o->path, json_integer((json_int_t)bytes), err);
}

/* As srun has it: a bare number is of MiB, and --mem=0 is all memory there is. */
int run_take_limit_mem(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	bool is_swap = strstr(o->path, "swap") != NULL;
	uint64_t bytes;

	if (!is_digits(arg))
		return run_set(into, o->path, json_string_nocheck(arg), err);
	if (parse_size(arg, MIB, &bytes) < 0 || bytes > INT64_MAX)
		return err_set_text(err, -ERANGE, "'%.200s' is too large", arg);
	if (bytes == 0 && !is_swap)
		return run_set(into, o->path, json_string("max"), err);
	return run_set(into, o->path, json_integer((json_int_t)bytes), err);
}

int run_take_limit_bool(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	bool yes = !arg || strcmp(arg, "yes") == 0;

	if (!yes && strcmp(arg, "no") != 0)
		return err_set_text(err, -EINVAL, "'%.200s' is neither yes nor no", arg);
	return run_set(into, o->path, json_boolean(yes), err);
}

/* ---- what may be repeated ------------------------------------------------------------------ */

/* Adds entry, which may be NULL for no memory, to the array at o's path. */
static int run_append(
	const struct cli_option *o, struct run_build *build, json_t *entry, struct err *err)
{
	const char *dot = strchr(o->path, '.');
	char parent[32];
	json_t *array;

	(void)snprintf(parent, sizeof(parent), "%.*s", (int)(dot - o->path), o->path);
	array = json_get_array(json_object_get(build->overlay, parent), dot + 1);
	if (!array) {
		array = json_array();
		if (run_set(build, o->path, array, err) < 0)
			array = NULL; /* which takes no entry */
	}
	return json_array_append_new(array, entry) < 0 ? run_no_memory(err) : 0;
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
		return err_set_text(err, -EINVAL,
			"'%.200s' is not one of rbps=N, wbps=N, riops=N, wiops=N", text);
	return json_object_set_new(entry, rates[i].field, value_json(equals + 1)) < 0
		? run_no_memory(err)
		: 0;
}

int run_take_limit_io(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	_cleanup_free_ char *copy = strdup(arg);
	json_auto_t *entry = json_object();
	char *rest = copy;
	int r = 0;

	if (strcmp(arg, "max") == 0 || strcmp(arg, "none") == 0)
		return run_set(into, o->path, json_string(arg), err);
	if (!copy ||
		json_object_set_new(entry, "device", json_string_nocheck(strsep(&rest, ","))) < 0)
		return run_no_memory(err);
	while (r == 0 && rest)
		r = add_rate(entry, strsep(&rest, ","), err);
	return r < 0 ? r : run_append(o, into, take_ptr(entry), err);
}

/* The beginning of ":rw", or the end: behind the colon of 'c 195:*' there is no letter. */
static size_t find_access(const char *arg)
{
	const char *colon = strrchr(arg, ':');

	return colon && isalpha((unsigned char)colon[1]) ? (size_t)(colon - arg) : strlen(arg);
}

int run_take_limit_device(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	size_t at = find_access(arg);
	json_auto_t *entry = json_object();

	if (strcmp(arg, "none") == 0)
		return err_set_text(err, -EINVAL,
			"'none' could mean either: give default for the default devices alone, max for "
			"all there are");
	if (strcmp(arg, "max") == 0)
		return run_set(into, o->path, json_string(arg), err);
	if (strcmp(arg, "default") == 0)
		return run_set(into, o->path, json_array(), err);
	if (json_object_set_new(entry, "device", json_stringn_nocheck(arg, at)) < 0 ||
		(arg[at] &&
			json_object_set_new(entry, "access", json_string_nocheck(arg + at + 1)) <
				0))
		return run_no_memory(err);
	return run_append(o, into, take_ptr(entry), err);
}

/* ---- what is no part of the spec ----------------------------------------------------------- */

int run_take_own_text(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct run_build *build = into;

	if (!*arg)
		return err_set_text(err, -EINVAL, "is empty");
	return cli_take_text(o, arg, build->options, err);
}

int run_take_own_flag(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct run_build *build = into;

	return cli_take_flag(o, arg, build->options, err);
}

int run_take_sample(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct run_build *build = into;

	(void)o;
	return sample_parse_interval(arg, &build->options->sample_interval_ms, err);
}

int run_take_config(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct run_build *build = into;
	int r = run_take_own_text(o, arg, into, err);

	build->options->site.config_file = build->options->config;
	return r;
}

int run_take_keep_result(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct run_build *build = into;

	(void)o;
	return site_take_keep_result(&build->options->site, arg, err);
}

int run_take_mpi(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct run_build *build = into;

	build->options->mpi_list = strcmp(arg, "list") == 0;
	return build->options->mpi_list ? 0 : run_take_text(o, arg, into, err);
}

int run_take_verbose(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct run_build *build = into;

	(void)o;
	(void)arg;
	(void)err;
	build->options->verbosity++;
	return 0;
}

int run_take_quiet(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct run_build *build = into;

	(void)o;
	(void)arg;
	(void)err;
	build->options->verbosity--;
	return 0;
}
