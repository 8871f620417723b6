/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi_client/pmi_client.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include "mpi/pmi_client/message.h"
#include "stepd/base/clock.h"
#include "stepd/base/parse.h"

#define NAME_MAX_BYTES 256u /* of the key-value space, of the job */

struct pmi_client {
	int fd;
	unsigned version;
	uint64_t deadline_ms; /* of the monotonic clock; 0: none */
	uint32_t rank, size;
	size_t value_max;               /* bytes of a value that the server takes */
	char space[NAME_MAX_BYTES + 1]; /* PMI-1: the key-value space; PMI-2: the job */

	char in[MESSAGE_LENGTH_SIZE + MESSAGE_MAX + 2]; /* what has come */
	size_t in_used;                                 /* bytes */
	char text[MESSAGE_MAX + 1];                     /* the last message */
	struct message reply;                           /* is made of it */
};

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Until fd is ready for what is asked. what is the sentence's middle: "barrier_in". */
static int wait_ready(const struct pmi_client *o, short events, const char *what, struct err *err)
{
	struct pollfd pollfd = {.fd = o->fd, .events = events};
	uint64_t now;
	int left = -1, n;

	do {
		now = clock_now_ms();
		if (o->deadline_ms && now >= o->deadline_ms)
			left = 0;
		else if (o->deadline_ms)
			left = o->deadline_ms - now > INT_MAX ? INT_MAX
							      : (int)(o->deadline_ms - now);
		n = poll(&pollfd, 1, left);
	} while ((n < 0 && errno == EINTR) || (n == 0 && left > 0));
	if (n < 0)
		return err_set(err, -errno, "wait for the engine's PMI server");
	if (n == 0)
		return err_say(err, -ETIMEDOUT,
			"the engine's PMI server has not answered to '%s' in time: an agent of "
			"another node has not come so far, or the engine has ended; --wire-timeout "
			"gives it more time",
			what);
	return 0;
}

static int send_all(
	struct pmi_client *o, const char *text, size_t size, const char *what, struct err *err)
{
	size_t done = 0;
	ssize_t n;
	int r;

	while (done < size) {
		r = wait_ready(o, POLLOUT, what, err);
		if (r < 0)
			return r;
		n = write(o->fd, text + done, size - done);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return err_set(err, -errno, "write '%s' to the engine's PMI server", what);
		done += (size_t)n;
	}
	return 0;
}

static int read_more(struct pmi_client *o, const char *what, struct err *err)
{
	ssize_t n;
	int r = wait_ready(o, POLLIN, what, err);

	if (r < 0)
		return r;
	n = read(o->fd, o->in + o->in_used, sizeof(o->in) - o->in_used);
	if (n < 0 && errno != EINTR && errno != EAGAIN)
		return err_set(err, -errno, "read from the engine's PMI server");
	if (n == 0)
		return err_say(err, -ECONNRESET,
			"the engine's PMI server has hung up at '%s'; the engine's own message says "
			"why",
			what);
	o->in_used += n > 0 ? (size_t)n : 0;
	return 0;
}

/* Reads a message into o->reply, and takes it for an answer to what: its command is wanted. */
static int read_reply(struct pmi_client *o, unsigned version, const char *what, const char *wanted,
	struct err *err)
{
	size_t size = 0, text = 0, len;
	const char *got;
	int r;

	while ((r = message_find(version, o->in, o->in_used, &size, &text)) == -EAGAIN) {
		r = read_more(o, what, err);
		if (r < 0)
			return r;
	}
	if (r == -EMSGSIZE)
		return err_say(err, r,
			"the engine's PMI server answers '%s' with more than %u bytes", what,
			MESSAGE_MAX);
	if (r == 0) {
		len = size - text - (version == 1); /* a line's newline */
		memcpy(o->text, o->in + text, len);
		o->text[len] = '\0';
		o->in_used -= size;
		memmove(o->in, o->in + size, o->in_used);
		r = message_parse(version, o->text, &o->reply);
	}
	if (r < 0)
		return err_say(err, r,
			"the engine's PMI server answers '%s' with what is no message of PMI-%u",
			what, version);
	got = message_get(&o->reply, "cmd");
	if (strcmp(got, wanted) != 0)
		return err_say(err, -EPROTO,
			"the engine's PMI server answers '%s' with '%.64s', not with '%s'", what,
			got, wanted);
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Whether the reply says that it went well: rc=0 or no rc. */
static int check_rc(const struct pmi_client *o, const char *what, struct err *err)
{
	const char *rc = message_get(&o->reply, "rc"), *why = message_get(&o->reply, "msg");

	if (!rc || strcmp(rc, "0") == 0)
		return 0;
	if (!why)
		why = message_get(&o->reply, "errmsg");
	return err_say(err, -EREMOTEIO, "the engine's PMI server refuses '%s' (rc %.16s%s%.200s)",
		what, rc, why ? ", " : "", why ? why : "");
}

/* Sends what fmt makes, "key=value" pairs behind the command, each with the protocol's separator
 * before it, and reads the reply. */
static int ask(struct pmi_client *o, const char *what, const char *wanted, struct err *err,
	const char *fmt, ...) _printf_(5, 6);
static int ask(struct pmi_client *o, const char *what, const char *wanted, struct err *err,
	const char *fmt, ...)
{
	char fields[2048], text[2200];
	va_list ap;
	int n, r;

	va_start(ap, fmt);
	n = vsnprintf(fields, sizeof(fields), fmt, ap);
	va_end(ap);
	assert(n >= 0 && (size_t)n < sizeof(fields)); /* keys, values and names are bounded */
	if (o->version == 1)
		n = snprintf(text, sizeof(text), "cmd=%s%s\n", what, fields);
	else
		n = snprintf(text, sizeof(text), "%-6zucmd=%s;%s",
			strlen(what) + strlen(fields) + 5, what, fields);
	r = send_all(o, text, (size_t)n, what, err);
	return r < 0 ? r : read_reply(o, o->version, what, wanted, err);
}

static int get_number(const struct pmi_client *o, const char *key, uint32_t least, uint32_t *ret_n,
	struct err *err)
{
	const char *text = message_get(&o->reply, key);

	if (text && parse_u32(text, least, PMI_CLIENT_SIZE_MAX, ret_n) == 0)
		return 0;
	return err_say(err, -EPROTO, "the engine's PMI server says no %s that can be%s%.32s", key,
		text ? ": " : "", text ? text : "");
}

static int keep_name(struct pmi_client *o, const char *key, struct err *err)
{
	const char *name = message_get(&o->reply, key);

	if (!name || !*name || strlen(name) > NAME_MAX_BYTES || strpbrk(name, " ;\n"))
		return err_say(err, -EPROTO, "the engine's PMI server says no %s that can be", key);
	memcpy(o->space, name, strlen(name) + 1);
	return 0;
}

/* ---- the beginning -------------------------------------------------------------------------- */

static const char *find(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; *env; env++) {
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	}
	return NULL;
}

static int take_fd_number(struct pmi_client *o, const char *text, struct err *err)
{
	uint32_t fd;

	if (parse_u32(text, 0, INT_MAX, &fd) < 0 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_say(err, -EBADF,
			"PMI_FD is '%.32s', which is no open descriptor: whoever started stepd has "
			"to hand down that of the engine",
			text);
	o->fd = (int)fd;
	return 0;
}

/* "HOST:PORT". The name is the engine's own host: a look-up that waits for long is its affair. */
static int connect_port(struct pmi_client *o, const char *port, struct err *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL, *one;
	const char *colon = strrchr(port, ':');
	_cleanup_free_ char *host = NULL;
	int r, saved = EHOSTUNREACH;

	host = colon ? strndup(port, (size_t)(colon - port)) : NULL;
	if (!host)
		return err_say(err, -EINVAL, "PMI_PORT is '%.200s', not HOST:PORT", port);
	r = getaddrinfo(host, colon + 1, &hints, &all);
	if (r != 0)
		return err_say(
			err, -EHOSTUNREACH, "PMI_PORT is '%.200s': %s", port, gai_strerror(r));
	for (one = all; one && o->fd < 0; one = one->ai_next) {
		o->fd = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
		if (o->fd < 0 || connect(o->fd, one->ai_addr, one->ai_addrlen) == 0)
			continue;
		saved = errno;
		o->fd = close_fd(o->fd);
	}
	freeaddrinfo(all);
	if (o->fd < 0)
		return err_set(err, -saved, "connect to the engine's PMI server at '%.200s'", port);
	return 0;
}

/* Over TCP the server does not know who has called, and tells what variables say else. */
static int introduce(struct pmi_client *o, const char *id, struct err *err)
{
	uint32_t n;
	int r;

	/* A server may give a number that is no rank, but clients read it as an int. */
	if (!id || parse_u32(id, 0, INT32_MAX, &n) < 0)
		return err_say(
			err, -EINVAL, "PMI_PORT is set, but PMI_ID is '%.32s'", id ? id : "not");
	r = ask(o, "initack", "initack", err, " pmiid=%u", n);
	if (r == 0)
		r = check_rc(o, "initack", err);
	if (r == 0)
		r = read_reply(o, 1, "initack", "set", err);
	if (r == 0)
		r = get_number(o, "size", 1, &o->size, err);
	if (r == 0)
		r = read_reply(o, 1, "initack", "set", err);
	if (r == 0)
		r = get_number(o, "rank", 0, &o->rank, err);
	return r < 0 ? r : read_reply(o, 1, "initack", "set", err); /* debug */
}

static int read_place(struct pmi_client *o, char *const *env, struct err *err)
{
	const char *rank = find(env, "PMI_RANK"), *size = find(env, "PMI_SIZE");

	if (rank && size && parse_u32(rank, 0, PMI_CLIENT_SIZE_MAX - 1, &o->rank) == 0 &&
		parse_u32(size, 1, PMI_CLIENT_SIZE_MAX, &o->size) == 0)
		return 0;
	return err_say(err, -EINVAL, "PMI_FD is set, but PMI_RANK is '%.32s' and PMI_SIZE '%.32s'",
		rank ? rank : "not", size ? size : "not");
}

/* Both protocols begin with a line. */
static int say_hello(struct pmi_client *o, struct err *err)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "cmd=init pmi_version=%u pmi_subversion=%u\n",
		o->version, o->version == 1 ? 1u : 0u);
	int r = send_all(o, line, (size_t)n, "init", err);

	if (r == 0)
		r = read_reply(o, 1, "init", "response_to_init", err);
	return r < 0 ? r : check_rc(o, "init", err);
}

static int begin_1(struct pmi_client *o, struct err *err)
{
	uint32_t max = 0;
	int r = say_hello(o, err);

	if (r == 0)
		r = ask(o, "get_maxes", "maxes", err, "%s", "");
	if (r == 0)
		r = get_number(o, "vallen_max", 1, &max, err);
	if (r == 0)
		r = ask(o, "get_my_kvsname", "my_kvsname", err, "%s", "");
	if (r == 0)
		r = check_rc(o, "get_my_kvsname", err);
	o->value_max = max < PMI_CLIENT_VALUE_MAX ? max : PMI_CLIENT_VALUE_MAX;
	return r < 0 ? r : keep_name(o, "kvsname", err);
}

static int begin_2(struct pmi_client *o, const char *job, struct err *err)
{
	int r = say_hello(o, err);

	if (r == 0 && job && strlen(job) <= NAME_MAX_BYTES && !strpbrk(job, ";\n"))
		r = ask(o, "fullinit", "fullinit-response", err,
			"pmijobid=%s;pmirank=%u;threaded=FALSE;", job, o->rank);
	else if (r == 0)
		r = ask(o, "fullinit", "fullinit-response", err, "pmirank=%u;threaded=FALSE;",
			o->rank);
	if (r == 0)
		r = check_rc(o, "fullinit", err);
	if (r == 0)
		r = get_number(o, "rank", 0, &o->rank, err);
	if (r == 0)
		r = get_number(o, "size", 1, &o->size, err);
	if (r == 0)
		r = ask(o, "job-getid", "job-getid-response", err, "%s", "");
	if (r == 0)
		r = check_rc(o, "job-getid", err);
	o->value_max = PMI_CLIENT_VALUE_MAX;
	return r < 0 ? r : keep_name(o, "jobid", err);
}

/* The descriptor is there, or a sentence why not. */
static int reach(struct pmi_client *o, char *const *env, struct err *err)
{
	const char *fd = find(env, "PMI_FD"), *port = find(env, "PMI_PORT");
	unsigned version = o->version;
	int r;

	if (fd) {
		r = take_fd_number(o, fd, err);
		return r < 0 ? r : read_place(o, env, err);
	}
	if (!port)
		return err_say(err, -ENOENT,
			"no engine has left its PMI here: neither PMI_FD nor PMI_PORT is set; start "
			"stepd by srun --mpi=pmi2, mpiexec.hydra or flux run, once a node");
	r = connect_port(o, port, err);
	o->version = 1;
	if (r == 0)
		r = introduce(o, find(env, "PMI_ID"), err);
	o->version = version;
	return r;
}

int pmi_client_open(
	const struct pmi_client_options *options, struct pmi_client **ret_client, struct err *err)
{
	_cleanup_pmi_client_ struct pmi_client *o = calloc(1, sizeof(*o));
	int r;

	if (!o)
		return err_set(err, -ENOMEM, "speak with the engine's PMI server");
	o->fd = -1;
	o->version = options->version;
	o->deadline_ms = options->timeout_ms ? clock_now_ms() + options->timeout_ms : 0;
	r = reach(o, options->environ, err);
	if (r == 0 && o->version == 1)
		r = begin_1(o, err);
	else if (r == 0)
		r = begin_2(o, find(options->environ, "PMI_JOBID"), err);
	if (r == 0 && o->rank >= o->size)
		r = err_say(err, -EPROTO,
			"the engine's PMI says that this is process %u of %u, which can't be",
			o->rank, o->size);
	if (r < 0)
		return r;
	*ret_client = take_ptr(o);
	return 0;
}

struct pmi_client *pmi_client_close(struct pmi_client *o)
{
	if (o && o->fd >= 0)
		(void)close(o->fd);
	free(o);
	return NULL;
}

struct pmi_client *pmi_client_leave(struct pmi_client *o)
{
	free(o);
	return NULL;
}

uint32_t pmi_client_get_rank(const struct pmi_client *o)
{
	return o->rank;
}

uint32_t pmi_client_get_size(const struct pmi_client *o)
{
	return o->size;
}

/* ---- the key-value space -------------------------------------------------------------------- */

int pmi_client_put(struct pmi_client *o, const char *key, const char *value, struct err *err)
{
	int r;

	assert(strlen(key) <= PMI_CLIENT_KEY_MAX);
	if (strlen(value) > o->value_max)
		return err_say(err, -EMSGSIZE,
			"the engine's PMI server takes values of %zu bytes, and %zu are needed",
			o->value_max, strlen(value));
	if (o->version == 1)
		r = ask(o, "put", "put_result", err, " kvsname=%s key=%s value=%s", o->space, key,
			value);
	else
		r = ask(o, "kvs-put", "kvs-put-response", err, "key=%s;value=%s;", key, value);
	return r < 0 ? r : check_rc(o, "put", err);
}

int pmi_client_fence(struct pmi_client *o, struct err *err)
{
	int r;

	if (o->version == 1)
		r = ask(o, "barrier_in", "barrier_out", err, "%s", "");
	else
		r = ask(o, "kvs-fence", "kvs-fence-response", err, "%s", "");
	return r < 0 ? r : check_rc(o, "fence", err);
}

int pmi_client_get(struct pmi_client *o, const char *key,
	char value[static PMI_CLIENT_VALUE_MAX + 1], struct err *err)
{
	const char *got, *found;
	int r;

	if (o->version == 1)
		r = ask(o, "get", "get_result", err, " kvsname=%s key=%s", o->space, key);
	else
		r = ask(o, "kvs-get", "kvs-get-response", err, "jobid=%s;srcid=-1;key=%s;",
			o->space, key);
	if (r < 0)
		return r;
	got = message_get(&o->reply, "value");
	found = message_get(&o->reply, "found");
	if (check_rc(o, "get", NULL) < 0 || !got || (found && strcmp(found, "TRUE") != 0))
		return err_say(err, -ENOENT, "the engine's PMI server knows no '%s'", key);
	if (strlen(got) > PMI_CLIENT_VALUE_MAX)
		return err_say(err, -EMSGSIZE,
			"the engine's PMI server says of '%s' more than %u bytes", key,
			PMI_CLIENT_VALUE_MAX);
	memcpy(value, got, strlen(got) + 1);
	return 0;
}

int pmi_client_finalize(struct pmi_client *o, struct err *err)
{
	int r;

	if (o->version == 1)
		r = ask(o, "finalize", "finalize_ack", err, "%s", "");
	else
		r = ask(o, "finalize", "finalize-response", err, "%s", "");
	return r < 0 ? r : check_rc(o, "finalize", err);
}

/* ---- variables ------------------------------------------------------------------------------ */

/* Whether the name begins with the prefix, or is the text before its '='. */
static bool is_of(const char *variable, const char *form)
{
	size_t len = strcspn(form, "=");

	if (strncmp(variable, form, len) != 0)
		return false;
	return !form[len] || variable[len] == '=' || !variable[len];
}

/* Of Slurm only what is the job's stays: the rest is of the step that the agents are tasks of. */
bool pmi_client_is_variable(const char *variable)
{
	static const char *const jobs[] = {"SLURM_JOB_",
		"SLURM_CLUSTER_NAME=", "SLURM_CONF=", "SLURM_SUBMIT_", "SLURM_ARRAY_"};
	static const char *const own[] = {"PMI_", "PMI2_", "PMIX_", "HYDI_", "HYDRA_",
		"MPI_LOCALRANKID=", "MPI_LOCALNRANKS=", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME=",
		"FLUX_TASK_", "FLUX_PMI_", "FLUX_KVS_NAMESPACE=", "PRTE_", "OMPI_COMM_WORLD_",
		"SLURM_", "SLURMD_"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(jobs); i++) {
		if (is_of(variable, jobs[i]))
			return false;
	}
	for (i = 0; i < ARRAY_SIZE(own); i++) {
		if (is_of(variable, own[i]))
			return true;
	}
	return false;
}
