/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rows of the spec that a type and a range can't describe: vectors, accounts, the script, bindings,
 * streams, resource limits and the kill sequence; and the fields of collective operations (pmi) and
 * of the connections between nodes (wire). Their document names descriptors, which are taken by
 * spec_take_fds() alone, so that who reads the same document later, when their numbers mean
 * something else, touches none.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <net/if.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/base64.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/spec/fname.h"
#include "stepd/spec/spec_json.h"

#define ACCOUNTS_MAX 65536u /* the kernel's limit of groups of a process */
#define ID_MAX       0xfffffffeu

int spec_row_version(_unused_ const struct spec_field *field, _unused_ void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	int64_t n = 0;
	int r = spec_get_int(at, value, 0, INT64_MAX, &n, err);

	if (r == 0 && n != 1)
		return spec_bad(err, at, "%lld is not known here, only 1", (long long)n);
	return r;
}

/* The kernel's limit of an exec's strings: three quarters of a stack of 8 MiB, whatever the stack
 * limit, each text with a NUL and a pointer (execve(2), Linux 4.13). */
#define EXEC_BYTES_MAX (6u << 20)

static int check_exec_size(
	const struct strv *texts, const char *what, const struct spec_at *at, struct err *err)
{
	size_t bytes = 0, i;

	for (i = 0; i < texts->n; i++)
		bytes += strlen(texts->v[i]) + 1 + sizeof(char *);
	if (bytes <= EXEC_BYTES_MAX)
		return 0;
	return spec_bad(err, at,
		"holds %zu %s of %zu bytes, and the kernel executes no program with more than %u",
		texts->n, what, bytes, EXEC_BYTES_MAX);
}

int spec_row_argv(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct strv *argv = (struct strv *)((char *)into + field->offset);
	const char *text = NULL;
	size_t i;
	int r = spec_check_array(at, value, SIZE_MAX, err);

	for (i = 0; i < json_array_size(value) && r == 0; i++) {
		r = spec_get_text(SPEC_AT_INDEX(at, i), json_array_get(value, i), &text, err);
		if (r == 0 && strv_add(argv, text) < 0)
			r = spec_no_memory(err);
	}
	return r < 0 ? r : check_exec_size(argv, "arguments", at, err);
}

int spec_row_env(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct strv *env = (struct strv *)((char *)into + field->offset);
	json_t *object = (json_t *)value; /* the iterator's signature lacks const */
	const char *name, *text = NULL;
	json_t *member;
	int r = spec_check_object(SPEC_TABLE_MAX, at, value, err);

	if (r < 0)
		return r;
	json_object_foreach (object, name, member) {
		if (!*name)
			return spec_bad(err, at, "holds a variable without a name");
		if (strchr(name, '='))
			return spec_bad(err, SPEC_AT(at, name), "a variable's name can't hold '='");
		r = spec_get_text(SPEC_AT(at, name), member, &text, err);
		if (r < 0)
			return r;
		/* The object's names are unique: no search for each. */
		if (strv_addf(env, "%s=%s", name, text) < 0)
			return spec_no_memory(err);
	}
	return check_exec_size(env, "variables", at, err);
}

/* ---- accounts ------------------------------------------------------------------------------ */

static int check_account(const char *text, const struct spec_at *at, struct err *err)
{
	uint32_t id;

	if (!*text)
		return spec_bad(err, at, "is empty");
	if (text[strspn(text, "0123456789")] == '\0' && parse_u32(text, 0, ID_MAX, &id) < 0)
		return spec_bad(err, at, "%.200s is not in the range 0 to %u", text, ID_MAX);
	if (strpbrk(text, ":/ \t\n"))
		return spec_bad(err, at, "'%.200s' is neither a name nor a number", text);
	return 0;
}

/* A name or a number, as text. */
static int get_account(
	const struct spec_at *at, const json_t *value, char **ret_account, struct err *err)
{
	const char *text = NULL;
	char number[24];
	int64_t n = 0;
	int r;

	if (json_is_integer(value)) {
		r = spec_get_int(at, value, 0, ID_MAX, &n, err);
		(void)snprintf(number, sizeof(number), "%lld", (long long)n);
		text = number;
	} else {
		if (!json_is_string(value))
			return spec_bad(err, at, "must be a name or a number");
		r = spec_get_text(at, value, &text, err);
		if (r == 0)
			r = check_account(text, at, err);
	}
	if (r < 0)
		return r;
	*ret_account = strdup(text);
	return *ret_account ? 0 : spec_no_memory(err);
}

int spec_row_account(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	return get_account(at, value, (char **)((char *)into + field->offset), err);
}

int spec_row_accounts(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct strv *accounts = (struct strv *)((char *)into + field->offset);
	char *account = NULL;
	size_t i;
	int r = spec_check_array(at, value, ACCOUNTS_MAX, err);

	for (i = 0; i < json_array_size(value) && r == 0; i++) {
		r = get_account(SPEC_AT_INDEX(at, i), json_array_get(value, i), &account, err);
		if (r == 0 && strv_add_take(accounts, account) < 0)
			r = spec_no_memory(err);
	}
	return r;
}

int spec_row_umask(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	if (!*text || strlen(text) > 4 || text[strspn(text, "01234567")])
		return spec_bad(err, at, "'%.200s' is not an octal number such as \"0022\"", text);
	if (strtoul(text, NULL, 8) > 0777)
		return spec_bad(err, at, "'%s' is above 0777", text);
	*(mode_t *)((char *)into + field->offset) = (mode_t)strtoul(text, NULL, 8);
	return 0;
}

/* ---- script -------------------------------------------------------------------------------- */

/* bytes from malloc(), owned by the spec; NULL without memory. */
static int take_script(
	struct spec *spec, char *bytes, size_t size, const struct spec_at *at, struct err *err)
{
	_cleanup_free_ char *script = bytes;

	if (!script)
		return spec_no_memory(err);
	if (size == 0)
		return spec_bad(err, at, "is empty");
	if (size > SPEC_SCRIPT_MAX)
		return spec_bad(err, at, "has %zu bytes, more than %u", size, SPEC_SCRIPT_MAX);
	spec->script = take_ptr(script);
	spec->script_size = size;
	return 0;
}

int spec_row_script(_unused_ const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	return r < 0 ? r : take_script(spec, strdup(text), strlen(text), at, err);
}

int spec_row_script_base64(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	_cleanup_free_ char *bytes = NULL;
	const char *text = NULL;
	ssize_t n;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	if (spec->script)
		return spec_bad(err, at, "conflicts with script; give one of them");
	bytes = malloc(strlen(text) / 4 * 3 + 1);
	if (!bytes)
		return spec_no_memory(err);
	n = base64_decode(text, strlen(text), bytes);
	if (n < 0)
		return spec_bad(err, at, "is not base64 (RFC 4648, with padding, in one line)");
	bytes[n] = '\0';
	return take_script(spec, take_ptr(bytes), (size_t)n, at, err);
}

/* ---- CPUs and memory: texts as srun has them ----------------------------------------------- */

typedef int (*bind_parse_fn)(const char *text, struct bind_text *ret_text, struct err *err);

static int read_bind(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, bind_parse_fn parse, struct err *err)
{
	struct bind_text *bind = (struct bind_text *)((char *)into + field->offset);
	struct err why = ERR_INIT;
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	r = parse(text, bind, &why);
	if (r == -ENOMEM)
		return spec_no_memory(err);
	return r < 0 ? spec_bad(err, at, "%s", why.text) : 0;
}

int spec_row_cpu_bind(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	return read_bind(field, into, at, value, bind_text_parse_cpu, err);
}

int spec_row_mem_bind(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	return read_bind(field, into, at, value, bind_text_parse_mem, err);
}

int spec_row_distribution(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	struct err why = ERR_INIT;
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	if (bind_text_parse_distribution(text, &spec->plane, &why) < 0)
		return spec_bad(err, at, "%s", why.text);
	spec->distribution = strdup(text);
	return spec->distribution ? 0 : spec_no_memory(err);
}

#define KILL_SEQUENCE_MAX 16

/* ---- streams ------------------------------------------------------------------------------- */

static int check_stream_rank(const struct spec_stream *stream, uint32_t ntasks,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	bool given = json_is_object(value) && json_object_get(value, "rank");

	if (stream->mode != SPEC_STREAM_RANK)
		return given ? spec_bad(err, SPEC_AT(at, "rank"), "goes with mode 'rank' only") : 0;
	if (!given)
		return spec_bad(err, SPEC_AT(at, "rank"), "is missing");
	if (stream->rank >= ntasks)
		return spec_bad(err, SPEC_AT(at, "rank"), "%u is not below ntasks (%u)",
			stream->rank, ntasks);
	return 0;
}

static int check_stream_file(const struct spec_stream *stream, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct err why = ERR_INIT;

	if (stream->mode != SPEC_STREAM_FILE && stream->pattern)
		return spec_bad(err, SPEC_AT(at, "path"), "goes with mode 'file' only");
	if (stream->mode != SPEC_STREAM_FILE && json_object_get(value, "append"))
		return spec_bad(err, SPEC_AT(at, "append"), "goes with mode 'file' only");
	if (stream->mode != SPEC_STREAM_FILE)
		return 0;
	if (!stream->pattern)
		return spec_bad(err, SPEC_AT(at, "path"), "is missing");
	if (fname_check(stream->pattern, &why) < 0)
		return spec_bad(err, SPEC_AT(at, "path"), "%s", why.text);
	return 0;
}

/* The stream (0 to 2) that name stands for, or -1. */
static int own_stream(const char *path)
{
	static const char *const names[3][3] = {
		{"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"},
		{"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"},
		{"/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"},
	};
	int stream;
	size_t i;

	for (stream = 0; stream < 3; stream++) {
		for (i = 0; i < ARRAY_SIZE(names[stream]); i++) {
			if (strcmp(path, names[stream][i]) == 0)
				return stream;
		}
	}
	return -1;
}

/* Such a path means the agent's own stream and is not opened: opening a link of /proc has a
 * result that depends on the process (userpath_open()). */
static int resolve_own_stream(const struct spec_field *field, struct spec_stream *stream,
	const struct spec_at *at, struct err *err)
{
	bool is_in = field->modes & 1u << SPEC_STREAM_ALL;
	bool is_err = field->modes & 1u << SPEC_STREAM_STDOUT;
	int own = stream->mode == SPEC_STREAM_FILE ? own_stream(stream->pattern) : -1;

	if (own < 0)
		return 0;
	if (is_err && own == STDOUT_FILENO)
		stream->mode = SPEC_STREAM_STDOUT;
	else if (own == (is_in ? STDIN_FILENO : is_err ? STDERR_FILENO : STDOUT_FILENO))
		stream->mode = SPEC_STREAM_INHERIT;
	else
		return spec_bad(err, SPEC_AT(at, "path"),
			"'%s' is another stream of the agent, which can't be this one of the tasks",
			stream->pattern);
	free(take_ptr(stream->pattern));
	stream->append = false;
	return 0;
}

/* A mode that needs nothing else may stand for the object. */
static int read_short_stream(
	struct spec_stream *stream, const struct spec_at *at, const json_t *value, struct err *err)
{
	const struct spec_field *mode;
	const char *text = NULL;
	size_t n;
	int i, r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	mode = spec_table_get(SPEC_TABLE_STREAM, &n); /* its first row */
	i = strv_index(mode->choices, SPEC_STREAM_MODE_MAX, text);
	if (i >= 0 && !(SPEC_MODES_NOT_ALONE >> i & 1)) {
		stream->mode = (enum spec_stream_mode)i;
		return 0;
	}
	return spec_bad(err, at,
		"'%.200s' is not one of inherit, none, all, stdout, tool, attach (a file is "
		"{\"mode\": \"file\", \"path\": ...})",
		text);
}

int spec_row_stream(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec_draft *draft = into;
	struct spec_stream *stream = (struct spec_stream *)((char *)into + field->offset);
	bool is_short = json_is_string(value);
	int r;

	if (is_short) {
		r = read_short_stream(stream, at, value, err);
	} else {
		r = spec_read_object(SPEC_TABLE_STREAM, stream, at, value, err);
	}
	if (r < 0)
		return r;
	if (!(field->modes & 1u << stream->mode))
		return spec_bad(err, is_short ? at : SPEC_AT(at, "mode"), "%s can't have this mode",
			field->name);
	r = check_stream_rank(stream, draft->spec.ntasks, at, value, err);
	if (r == 0)
		r = check_stream_file(stream, at, value, err);
	if (r == 0 && stream == &draft->spec.in && json_is_object(value) &&
		json_object_get(value, "append"))
		return spec_bad(err, SPEC_AT(at, "append"), "is nothing for stdin");
	return r < 0 ? r : resolve_own_stream(field, stream, at, err);
}

/* ---- limits -------------------------------------------------------------------------------- */

/* Those of setrlimit(2) in lower case, without "RLIMIT_". */
const char *const spec_rlimit_names[RLIM_NLIMITS + 1] = {
	[RLIMIT_AS] = "as",
	[RLIMIT_CORE] = "core",
	[RLIMIT_CPU] = "cpu",
	[RLIMIT_DATA] = "data",
	[RLIMIT_FSIZE] = "fsize",
	[RLIMIT_LOCKS] = "locks",
	[RLIMIT_MEMLOCK] = "memlock",
	[RLIMIT_MSGQUEUE] = "msgqueue",
	[RLIMIT_NICE] = "nice",
	[RLIMIT_NOFILE] = "nofile",
	[RLIMIT_NPROC] = "nproc",
	[RLIMIT_RSS] = "rss",
	[RLIMIT_RTPRIO] = "rtprio",
	[RLIMIT_RTTIME] = "rttime",
	[RLIMIT_SIGPENDING] = "sigpending",
	[RLIMIT_STACK] = "stack",
};

int spec_row_limit(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	rlim_t *limit = (rlim_t *)((char *)into + field->offset);
	int64_t n = 0;
	int r;

	if (json_is_string(value) && strcmp(json_string_value(value), "unlimited") == 0) {
		*limit = RLIM_INFINITY;
		return 0;
	}
	if (json_is_string(value))
		return spec_bad(err, at, "'%.200s' is neither a number nor 'unlimited'",
			json_string_value(value));
	r = spec_get_int(at, value, 0, INT64_MAX, &n, err);
	if (r == 0)
		*limit = (rlim_t)n;
	return r;
}

static int read_rlimit(
	struct rlimit *limit, const struct spec_at *at, const json_t *value, struct err *err)
{
	static const struct spec_field alone = {.offset = offsetof(struct rlimit, rlim_cur)};
	int r;

	if (!json_is_object(value)) {
		r = spec_row_limit(&alone, limit, at, value, err);
		limit->rlim_max = limit->rlim_cur;
		return r;
	}
	r = spec_read_object(SPEC_TABLE_RLIMIT, limit, at, value, err);
	if (r < 0)
		return r;
	if (!json_object_get(value, "hard"))
		limit->rlim_max = limit->rlim_cur;
	if (limit->rlim_cur > limit->rlim_max) /* RLIM_INFINITY is the largest */
		return spec_bad(err, SPEC_AT(at, "soft"), "is above the hard limit");
	return 0;
}

int spec_row_rlimits(_unused_ const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	json_t *object = (json_t *)value; /* the iterator's signature lacks const */
	char names[SPEC_NAMES_SIZE];
	const char *name;
	json_t *limit;
	int r = spec_check_object(SPEC_TABLE_MAX, at, value, err);

	if (r < 0)
		return r;
	spec->rlimits = calloc(json_object_size(value) + 1, sizeof(*spec->rlimits));
	if (!spec->rlimits)
		return spec_no_memory(err);
	json_object_foreach (object, name, limit) {
		struct spec_rlimit *slot = &spec->rlimits[spec->rlimits_count];

		slot->resource = strv_index(spec_rlimit_names, RLIM_NLIMITS, name);
		if (slot->resource < 0)
			return spec_bad(err, SPEC_AT(at, name),
				"there is no such limit; there are %s",
				spec_list_names(spec_rlimit_names, names));
		r = read_rlimit(&slot->value, SPEC_AT(at, name), limit, err);
		if (r < 0)
			return r;
		spec->rlimits_count++;
	}
	return 0;
}

/* ---- escalation ---------------------------------------------------------------------------- */

int spec_row_signal(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	int *signal = (int *)((char *)into + field->offset);
	const char *text = NULL;
	int64_t n = 0;
	int r;

	if (!json_is_string(value)) {
		r = spec_get_int(at, value, 1, SIGRTMAX, &n, err);
		if (r == 0)
			*signal = (int)n;
		return r;
	}
	r = spec_get_text(at, value, &text, err);
	if (r < 0)
		return r;
	*signal = signals_parse(text);
	if (*signal < 0)
		return spec_bad(err, at, "'%.200s' is not a signal", text);
	return 0;
}

static int check_kill(
	const struct spec_kill *entry, bool last, const struct spec_at *at, struct err *err)
{
	if (last && entry->signal != SIGKILL)
		return spec_bad(err, SPEC_AT(at, "signal"), "the last one must be KILL");
	if (!last && entry->signal == SIGKILL)
		return spec_bad(err, SPEC_AT(at, "signal"), "nothing can come after KILL");
	if (last && entry->wait_ms)
		return spec_bad(err, SPEC_AT(at, "wait_ms"),
			"the wait after KILL is unkillable_timeout_ms");
	return 0;
}

int spec_row_kill_sequence(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	size_t i, n = json_array_size(value);
	int r = spec_check_array(at, value, SIZE_MAX, err);

	if (r < 0)
		return r;
	if (n == 0 || n > KILL_SEQUENCE_MAX)
		return spec_bad(err, at, "has %zu entries, not 1 to %d", n, KILL_SEQUENCE_MAX);
	spec->kill_sequence = calloc(n, sizeof(*spec->kill_sequence));
	if (!spec->kill_sequence)
		return spec_no_memory(err);
	spec->kill_sequence_count = n;
	for (i = 0; i < n && r == 0; i++) {
		const struct spec_at *here = SPEC_AT_INDEX(at, i);
		const json_t *entry = json_array_get(value, i);

		r = spec_read_object(SPEC_TABLE_KILL, &spec->kill_sequence[i], here, entry, err);
		if (r == 0)
			r = check_kill(&spec->kill_sequence[i], i + 1 == n, here, err);
		r = spec_collect(r, err);
	}
	return r;
}

/* Adds "TERM" or "TERM:30s". */
static int add_kill(json_t *array, char *piece, struct err *err)
{
	char *wait = piece, name[SIGNALS_NAME_SIZE];
	uint64_t wait_ms = 0;
	json_t *entry;
	int signal;

	signal = signals_parse(strsep(&wait, ":"));
	if (signal < 0)
		return err_set_text(err, -EINVAL, "'%.200s' is not a signal", piece);
	if (wait && parse_duration_ms(wait, &wait_ms) < 0)
		return err_set_text(err, -EINVAL, "'%.200s' is not a duration such as 30s", wait);
	entry = json_pack("{s:s, s:o*}", "signal", signals_name(signal, name, sizeof(name)),
		"wait_ms", wait_ms ? json_integer((json_int_t)wait_ms) : NULL);
	return json_array_append_new(array, entry) < 0 ? spec_no_memory(err) : 0;
}

int spec_kill_sequence_json(const char *text, json_t **ret_array, struct err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	json_t *array = json_array();
	char *rest = copy, *piece;
	int r = copy && array ? 0 : spec_no_memory(err);

	while (r == 0 && (piece = strsep(&rest, ",")))
		r = add_kill(array, piece, err);
	if (r < 0) {
		json_decref(array);
		return r;
	}
	*ret_array = array;
	return 0;
}

int spec_kill_sequence_parse(
	const char *text, struct spec_kill **ret_steps, size_t *ret_count, struct err *err)
{
	struct spec_draft draft = {0};
	json_t *array = NULL;
	int r = spec_kill_sequence_json(text, &array, err);

	if (r < 0)
		return r;
	r = spec_row_kill_sequence(NULL, &draft, SPEC_AT(NULL, "kill_sequence"), array, err);
	json_decref(array);
	if (r < 0) {
		free(draft.spec.kill_sequence);
		return r;
	}
	*ret_steps = draft.spec.kill_sequence;
	*ret_count = draft.spec.kill_sequence_count;
	return 0;
}

/* ---- pmi and wire: texts -------------------------------------------------------------------- */

#define STEP(member_) offsetof(struct spec_draft, spec.member_)
#define TIME_MS_MAX   3153600000000 /* a century */
#define FD_MAX        1048576
#define HOST_MAX      255u

static bool is_host(const char *host, size_t len)
{
	size_t i;

	for (i = 0; i < len && (isalnum((unsigned char)host[i]) || strchr("-_.", host[i])); i++)
		;
	return len > 0 && len <= HOST_MAX && i == len && host[0] != '-';
}

/* With or without a zone: fe80::1%eth0. */
static bool is_ipv6(const char *host, size_t len)
{
	char text[INET6_ADDRSTRLEN + IFNAMSIZ];
	struct in6_addr address;

	if (len >= sizeof(text))
		return false;
	memcpy(text, host, len);
	text[len] = '\0';
	text[strcspn(text, "%")] = '\0';
	return inet_pton(AF_INET6, text, &address) == 1;
}

const char *spec_address_problem(const char *address)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : 0;
	uint32_t port;

	if (!colon || parse_u32(colon + 1, 1, 65535, &port) < 0)
		return "has no port from 1 to 65535 behind its last ':'";
	if (address[0] == '[')
		return len > 2 && address[len - 1] == ']' && is_ipv6(address + 1, len - 2)
			? NULL
			: "holds no IPv6 address between '[' and ']'";
	return is_host(address, len) ? NULL : "is neither HOST:PORT nor [IPV6]:PORT";
}

static const char *auth_problem(const char *text)
{
	return strcmp(text, "secret") == 0 || strcmp(text, "munge") == 0 ||
			strcmp(text, "none") == 0
		? NULL
		: "is not one of secret, munge, none";
}

static const char *ifname_problem(const char *text)
{
	size_t i;

	for (i = 0; isgraph((unsigned char)text[i]) && text[i] != '/'; i++)
		;
	return text[i] || i >= IFNAMSIZ ? "is not a network interface's name" : NULL;
}

/* ---- pmi and wire: their tables ------------------------------------------------------------- */

const struct spec_field spec_pmi_fields[SPEC_PMI_FIELDS] = {
	{.name = "timeout_ms",
		.parse = spec_row_u64,
		.offset = STEP(pmi.timeout_ms),
		.most = TIME_MS_MAX,
		.doc = "The deadline of a fence, and of other waits of one rank for another, "
		       "in milliseconds. When it has passed the operation fails in all tasks "
		       "that wait, and the step's log names the ranks that are missing. 0 is "
		       "no deadline.",
		.unset = "`pmi_timeout` of stepd.conf(5), else 300000"},
	{.name = "tcp",
		.parse = spec_row_bool,
		.offset = STEP(pmi.tcp),
		.doc = "Whether tasks reach their PMI server over TCP, by `$PMI_PORT` and "
		       "`$PMI_ID`, instead of an inherited descriptor.",
		.unset = "false"},
	{.name = "memory_bytes",
		.parse = spec_row_u64,
		.offset = STEP(pmi.memory_bytes),
		.most = SPEC_PMI_MEMORY_MAX,
		.doc = "How far the node's MPI service process, which holds the data that ranks "
		       "put, may grow beyond its initial size. It is a limit of writable private "
		       "memory (`RLIMIT_DATA`). A rank whose data exceeds it gets an error. 0 is no "
		       "limit.",
		.unset = "`pmi_memory` of stepd.conf(5), else a quarter of the machine's memory"},
};

const struct spec_field spec_wire_fields[SPEC_WIRE_FIELDS] = {
	{.name = "addresses",
		.parse = spec_row_addresses,
		.form = "addresses",
		.doc = "The address at which each node listens, as `HOST:PORT` or `[IPV6]:PORT`: as "
		       "many as `node.count`, in the order of the nodes' ids.",
		.unset = "unknown; the step then has no collective operations across nodes"},
	{.name = "listen_fd",
		.parse = spec_row_u32,
		.offset = STEP(wire.listen_number),
		.least = 3,
		.most = FD_MAX,
		.doc = "A descriptor that the agent inherits: the TCP socket that listens at this "
		       "node's address. It is for the agent that starts the step; an adopter does "
		       "not need it.",
		.unset = "none"},
	{.name = "auth",
		.parse = spec_row_text,
		.offset = STEP(wire.auth),
		.problem = auth_problem,
		.form = "auth",
		.doc = "How the nodes authenticate each other: `secret`, by the secret of "
		       "`secret_fd`; `munge`, by munge(7); or `none`, for a network without other "
		       "users. With the first two everything that passes between them is encrypted "
		       "and authenticated by AES-256-GCM, under a key of each connection's own; "
		       "with `none` it is neither.",
		.unset =
			"`secret` if `secret_fd` is given, else `wire_auth` of stepd.conf(5), else "
			"`munge`"},
	{.name = "secret_fd",
		.parse = spec_row_u32,
		.offset = STEP(wire.secret_number),
		.least = 3,
		.most = FD_MAX,
		.doc = "A descriptor that the agent inherits and reads to its end when it starts: "
		       "16 to 4096 bytes that only the step's nodes know. The secret is stored "
		       "nowhere.",
		.unset = "none"},
	{.name = "fanout",
		.parse = spec_row_u32,
		.offset = STEP(wire.fanout),
		.least = 2,
		.most = 1024,
		.doc = "The number of nodes connected to each node above in the tree of nodes; the "
		       "same on all nodes.",
		.unset = "`wire_fanout` of stepd.conf(5), else 16"},
	{.name = "ifname",
		.parse = spec_row_text,
		.offset = STEP(wire.ifname),
		.problem = ifname_problem,
		.form = "ifname",
		.doc = "The network interface whose address this node uses.",
		.unset = "`wire_ifname` of stepd.conf(5), else any"},
	{.name = "connect_timeout_ms",
		.parse = spec_row_u64,
		.offset = STEP(wire.connect_timeout_ms),
		.least = 1,
		.most = TIME_MS_MAX,
		.doc = "The time in which the other nodes must be connected.",
		.unset = "60000"},
};

/* ---- pmi and wire: their objects ------------------------------------------------------------ */

int spec_row_addresses(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	static const struct spec_field address = {.problem = spec_address_problem};
	struct spec_wire *wire = &((struct spec_draft *)into)->spec.wire;
	size_t i, n = json_array_size(value);
	int r = spec_check_array(at, value, SPEC_NODES_MAX, err);

	if (r < 0)
		return r;
	wire->addresses = calloc(n + 1, sizeof(*wire->addresses));
	if (!wire->addresses)
		return spec_no_memory(err);
	wire->addresses_count = (uint32_t)n;
	for (i = 0; i < n && r == 0; i++)
		r = spec_row_text(&address, &wire->addresses[i], SPEC_AT_INDEX(at, i),
			json_array_get(value, i), err);
	return r;
}

int spec_check_wire(const struct spec *spec, struct err *err)
{
	const struct spec_at *at = SPEC_AT(NULL, "wire");
	const struct spec_wire *wire = &spec->wire;

	if (wire->addresses && wire->addresses_count != spec->node_count)
		return spec_bad(err, SPEC_AT(at, "addresses"),
			"has %u entries, but node.count is %u", wire->addresses_count,
			spec->node_count);
	if (wire->secret_number && wire->secret_number == wire->listen_number)
		return spec_bad(
			err, SPEC_AT(at, "secret_fd"), "%u is listen_fd too", wire->secret_number);
	if (wire->auth && strcmp(wire->auth, "secret") == 0 && !wire->secret_number)
		return spec_bad(err, SPEC_AT(at, "auth"), "'secret' needs secret_fd");
	if (wire->auth && strcmp(wire->auth, "secret") != 0 && wire->secret_number)
		return spec_bad(
			err, SPEC_AT(at, "secret_fd"), "conflicts with auth '%s'", wire->auth);
	return 0;
}

void spec_wire_clear(struct spec_wire *wire)
{
	uint32_t i;

	for (i = 0; i < wire->addresses_count; i++)
		free(wire->addresses[i]);
	free(wire->addresses);
	if (wire->listen_fd >= 0)
		(void)close(wire->listen_fd);
	free(wire->auth);
	if (wire->secret)
		explicit_bzero(wire->secret, wire->secret_size);
	free(wire->secret);
	free(wire->ifname);
	*wire = (struct spec_wire){.listen_fd = -1};
}

/* ---- pmi and wire: descriptors -------------------------------------------------------------- */

static int get_option(int fd, int option)
{
	socklen_t size = sizeof(int);
	int value = -1;

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -errno : value;
}

static int take_listen_fd(struct spec_wire *wire, struct err *err)
{
	const struct spec_at *at = SPEC_AT(SPEC_AT(NULL, "wire"), "listen_fd");
	int fd = (int)wire->listen_number, domain;

	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return spec_bad(
			err, at, "%d is not an open descriptor; pass the listening socket", fd);
	domain = get_option(fd, SO_DOMAIN);
	if (get_option(fd, SO_TYPE) != SOCK_STREAM || (domain != AF_INET && domain != AF_INET6))
		return spec_bad(err, at, "%d is not a TCP socket", fd);
	if (get_option(fd, SO_ACCEPTCONN) != 1)
		return spec_bad(err, at, "%d does not listen; call listen(2) before", fd);
	wire->listen_fd = fd;
	return 0;
}

static int take_secret(struct spec_wire *wire, struct err *err)
{
	const struct spec_at *at = SPEC_AT(SPEC_AT(NULL, "wire"), "secret_fd");
	_cleanup_close_ int fd = (int)wire->secret_number;
	char *secret;
	size_t size;
	int r;

	if (fcntl(fd, F_GETFD) < 0) {
		r = fd;
		fd = -1;
		return spec_bad(err, at, "%d is not an open descriptor; pass the secret's", r);
	}
	r = fs_read_fd(fd, SPEC_SECRET_MAX, &secret, &size);
	if (r == -EFBIG)
		return spec_bad(err, at, "the secret has more than %u bytes", SPEC_SECRET_MAX);
	if (r < 0)
		return err_set(err, r, "wire.secret_fd: read the secret from descriptor %d", fd);
	wire->secret = secret;
	wire->secret_size = size;
	if (size < SPEC_SECRET_MIN)
		return spec_bad(
			err, at, "the secret has %zu bytes, less than %u", size, SPEC_SECRET_MIN);
	return 0;
}

int spec_take_fds(struct spec *spec, struct err *err)
{
	int r = 0;

	if (spec->wire.listen_number && spec->wire.listen_fd < 0)
		r = take_listen_fd(&spec->wire, err);
	if (r == 0 && spec->wire.secret_number && !spec->wire.secret)
		r = take_secret(&spec->wire, err);
	return r;
}
