/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi/client.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "mpi/pmi/codec.h"
#include "stepd/base/clock.h"
#include "stepd/base/parse.h"

#define NAME_MAX_BYTES 256u  /* of the key-value space, of the job */
#define TEXT_MAX       8192u /* bytes of a message, without PMI-2's length */
#define FIELDS_MAX     64u   /* of a message */

struct pmi_client {
	int fd;
	enum pmi_protocol protocol;
	uint64_t deadline_ms; /* of the monotonic clock; 0: none */
	uint32_t rank, size;
	size_t value_max;               /* bytes of a value that the server takes */
	char space[NAME_MAX_BYTES + 1]; /* PMI-1: the key-value space; PMI-2: the job */

	char in[PMI2_HEAD_SIZE + TEXT_MAX + 2]; /* what has come */
	size_t in_used;                         /* bytes */
	char text[TEXT_MAX + 1];                /* the last message */
	struct pmi_message reply;               /* is made of it */
};

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Waits for these events of fd. what is the command under way: "barrier_in". */
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
		return err_set_text(err, -ETIMEDOUT,
			"the engine's PMI server has not answered to '%s' in time: an agent of "
			"another node has not come so far, or the engine has ended; --wire-timeout "
			"gives it more time",
			what);
	return 0;
}

static int send_all(struct pmi_client *o, struct slice text, const char *what, struct err *err)
{
	ssize_t n;
	int r;

	while (text.size > 0) {
		r = wait_ready(o, POLLOUT, what, err);
		if (r < 0)
			return r;
		n = write(o->fd, text.data, text.size);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return err_set(err, -errno, "write '%s' to the engine's PMI server", what);
		text.data += n;
		text.size -= (size_t)n;
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
		return err_set_text(err, -ECONNRESET,
			"the engine's PMI server has hung up at '%s'; the engine's own message says "
			"why",
			what);
	o->in_used += n > 0 ? (size_t)n : 0;
	return 0;
}

/* The first message of o->in, which is taken out, as o->reply. */
static int parse_reply(
	struct pmi_client *o, enum pmi_protocol protocol, const struct pmi_frame *frame)
{
	size_t size;
	int r;

	memcpy(o->text, o->in + frame->begin, frame->size);
	o->text[frame->size] = '\0';
	size = strlen(o->text);
	o->in_used -= frame->total;
	memmove(o->in, o->in + frame->total, o->in_used);
	r = protocol == PMI_1 ? pmi1_parse((struct slice){o->text, size}, &o->reply)
			      : pmi2_parse(o->text, size, &o->reply);
	if (r == 0 && (o->reply.count > FIELDS_MAX || !slice_is(o->reply.fields[0].key, "cmd")))
		r = -EBADMSG;
	return r;
}

/* A value of the reply, as a string; NULL: it has none of that name. */
static const char *get_text(struct pmi_client *o, const char *key)
{
	struct slice value;

	if (!pmi_message_get(&o->reply, key, &value))
		return NULL;
	o->text[value.data + value.size - o->text] = '\0'; /* its separator, or the end */
	return value.data;
}

/* Reads a message into o->reply, and takes it for an answer to what: its command is wanted. */
static int read_reply(struct pmi_client *o, enum pmi_protocol protocol, const char *what,
	const char *wanted, struct err *err)
{
	struct pmi_frame frame;
	const char *got;
	int r;

	while ((r = pmi_frame_find(protocol, (struct slice){o->in, o->in_used}, TEXT_MAX,
			&frame)) == -EAGAIN) {
		r = read_more(o, what, err);
		if (r < 0)
			return r;
	}
	if (r == -EMSGSIZE)
		return err_set_text(err, r,
			"the engine's PMI server answers '%s' with more than %u bytes", what,
			TEXT_MAX);
	if (r == 0)
		r = parse_reply(o, protocol, &frame);
	if (r == -EBADMSG)
		return err_set_text(err, -EPROTO,
			"the engine's PMI server answers '%s' with data that is no message of PMI-%u",
			what, (unsigned)protocol);
	if (r < 0)
		return err_set(err, r, "read the answer to '%s'", what);
	got = get_text(o, "cmd");
	if (strcmp(got, wanted) != 0)
		return err_set_text(err, -EPROTO,
			"the engine's PMI server answers '%s' with '%.64s', not with '%s'", what,
			got, wanted);
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Whether the reply reports success: rc=0 or no rc. */
static int check_rc(struct pmi_client *o, const char *what, struct err *err)
{
	const char *rc = get_text(o, "rc"), *why = get_text(o, "msg");

	if (!rc || strcmp(rc, "0") == 0)
		return 0;
	if (!why)
		why = get_text(o, "errmsg");
	return err_set_text(err, -EREMOTEIO,
		"the engine's PMI server refuses '%s' (rc %.16s%s%.200s)", what, rc,
		why ? ", " : "", why ? why : "");
}

/* pairs: keys and their values in turn, and NULL. */
static int send_message(
	struct pmi_client *o, const char *what, struct err *err, const char *const *pairs)
{
	_cleanup_bytes_ struct bytes text = {0};
	struct pmi_writer w;
	int r;

	pmi_write_begin(&w, &text, o->protocol);
	pmi_write_text(&w, "cmd", what);
	for (; *pairs; pairs += 2)
		pmi_write_text(&w, pairs[0], pairs[1]);
	r = pmi_write_end(&w);
	if (r == 0 && text.failed)
		r = -ENOMEM;
	if (r < 0)
		return err_set(err, r, "write '%s' to the engine's PMI server", what);
	return send_all(o, slice_of(&text), what, err);
}

/* Sends a command with these pairs, NULL behind them, and reads the reply to it. -EREMOTEIO: it
 * does not report success. */
#define REQUEST(o, what, wanted, err, ...)                                                         \
	request((o), (what), (wanted), (err), (const char *const[]){__VA_ARGS__})
static int request(struct pmi_client *o, const char *what, const char *wanted, struct err *err,
	const char *const *pairs)
{
	int r = send_message(o, what, err, pairs);

	if (r == 0)
		r = read_reply(o, o->protocol, what, wanted, err);
	return r < 0 ? r : check_rc(o, what, err);
}

static int get_number(
	struct pmi_client *o, const char *key, uint32_t least, uint32_t *ret_n, struct err *err)
{
	const char *text = get_text(o, key);

	if (text && parse_u32(text, least, PMI_CLIENT_SIZE_MAX, ret_n) == 0)
		return 0;
	return err_set_text(err, -EPROTO, "the engine's PMI server gives no usable %s%s%.32s", key,
		text ? ": " : "", text ? text : "");
}

static int store_name(struct pmi_client *o, const char *key, struct err *err)
{
	const char *name = get_text(o, key);

	if (!name || !*name || strlen(name) > NAME_MAX_BYTES || strpbrk(name, " ;\n"))
		return err_set_text(
			err, -EPROTO, "the engine's PMI server gives no usable %s", key);
	memcpy(o->space, name, strlen(name) + 1);
	return 0;
}

/* ---- the beginning -------------------------------------------------------------------------- */

static const char *environ_find(char *const *env, const char *name)
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
		return err_set_text(err, -EBADF,
			"PMI_FD is '%.32s', which is no open descriptor: stepd must inherit that of "
			"the engine",
			text);
	o->fd = (int)fd;
	return 0;
}

/* "HOST:PORT". The name is the engine's own host, so the resolver may take its time. */
static int connect_port(struct pmi_client *o, const char *port, struct err *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL, *one;
	const char *colon = strrchr(port, ':');
	_cleanup_free_ char *host = NULL;
	int r, saved = EHOSTUNREACH;

	host = colon ? strndup(port, (size_t)(colon - port)) : NULL;
	if (!host)
		return err_set_text(err, -EINVAL, "PMI_PORT is '%.200s', not HOST:PORT", port);
	r = getaddrinfo(host, colon + 1, &hints, &all);
	if (r != 0)
		return err_set_text(
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

/* Over TCP the server does not know which process has connected; it sends what PMI_RANK and
 * PMI_SIZE have otherwise. */
static int introduce(struct pmi_client *o, const char *id, struct err *err)
{
	char number[16];
	uint32_t n;
	int r;

	/* A server may give a number that is no rank, but clients read it as an int. */
	if (!id || parse_u32(id, 0, INT32_MAX, &n) < 0)
		return err_set_text(
			err, -EINVAL, "PMI_PORT is set, but PMI_ID is '%.32s'", id ? id : "not");
	(void)snprintf(number, sizeof(number), "%u", n);
	r = REQUEST(o, "initack", "initack", err, "pmiid", number, NULL);
	if (r == 0)
		r = read_reply(o, PMI_1, "initack", "set", err);
	if (r == 0)
		r = get_number(o, "size", 1, &o->size, err);
	if (r == 0)
		r = read_reply(o, PMI_1, "initack", "set", err);
	if (r == 0)
		r = get_number(o, "rank", 0, &o->rank, err);
	return r < 0 ? r : read_reply(o, PMI_1, "initack", "set", err); /* debug */
}

static int read_rank(struct pmi_client *o, char *const *env, struct err *err)
{
	const char *rank = environ_find(env, "PMI_RANK"), *size = environ_find(env, "PMI_SIZE");

	if (rank && size && parse_u32(rank, 0, PMI_CLIENT_SIZE_MAX - 1, &o->rank) == 0 &&
		parse_u32(size, 1, PMI_CLIENT_SIZE_MAX, &o->size) == 0)
		return 0;
	return err_set_text(err, -EINVAL,
		"PMI_FD is set, but PMI_RANK is '%.32s' and PMI_SIZE '%.32s'", rank ? rank : "not",
		size ? size : "not");
}

/* Both protocols begin with a line. */
static int init_protocol(struct pmi_client *o, struct err *err)
{
	const char *version = o->protocol == PMI_1 ? "1" : "2",
		   *sub = o->protocol == PMI_1 ? "1" : "0";
	enum pmi_protocol protocol = o->protocol;
	int r;

	o->protocol = PMI_1;
	r = REQUEST(o, "init", "response_to_init", err, "pmi_version", version, "pmi_subversion",
		sub, NULL);
	o->protocol = protocol;
	return r;
}

static int begin_1(struct pmi_client *o, struct err *err)
{
	uint32_t max = 0;
	int r = init_protocol(o, err);

	if (r == 0)
		r = REQUEST(o, "get_maxes", "maxes", err, NULL);
	if (r == 0)
		r = get_number(o, "vallen_max", 1, &max, err);
	if (r == 0)
		r = REQUEST(o, "get_my_kvsname", "my_kvsname", err, NULL);
	o->value_max = max < PMI_CLIENT_VALUE_MAX ? max : PMI_CLIENT_VALUE_MAX;
	return r < 0 ? r : store_name(o, "kvsname", err);
}

static int begin_2(struct pmi_client *o, const char *job, struct err *err)
{
	int r = init_protocol(o, err);
	char rank[16];

	(void)snprintf(rank, sizeof(rank), "%u", o->rank);
	if (r == 0 && job && strlen(job) <= NAME_MAX_BYTES && !strpbrk(job, ";\n"))
		r = REQUEST(o, "fullinit", "fullinit-response", err, "pmijobid", job, "pmirank",
			rank, "threaded", "FALSE", NULL);
	else if (r == 0)
		r = REQUEST(o, "fullinit", "fullinit-response", err, "pmirank", rank, "threaded",
			"FALSE", NULL);
	if (r == 0)
		r = get_number(o, "rank", 0, &o->rank, err);
	if (r == 0)
		r = get_number(o, "size", 1, &o->size, err);
	if (r == 0)
		r = REQUEST(o, "job-getid", "job-getid-response", err, NULL);
	o->value_max = PMI_CLIENT_VALUE_MAX;
	return r < 0 ? r : store_name(o, "jobid", err);
}

/* The descriptor is there, or a sentence why not. */
static int reach(struct pmi_client *o, char *const *env, struct err *err)
{
	const char *fd = environ_find(env, "PMI_FD"), *port = environ_find(env, "PMI_PORT");
	enum pmi_protocol protocol = o->protocol;
	int r;

	if (fd) {
		r = take_fd_number(o, fd, err);
		return r < 0 ? r : read_rank(o, env, err);
	}
	if (!port)
		return err_set_text(err, -ENOENT,
			"no engine has left its PMI here: neither PMI_FD nor PMI_PORT is set; start "
			"stepd by srun --mpi=pmi2, mpiexec.hydra or flux run, once a node");
	r = connect_port(o, port, err);
	o->protocol = PMI_1;
	if (r == 0)
		r = introduce(o, environ_find(env, "PMI_ID"), err);
	o->protocol = protocol;
	return r;
}

int pmi_client_open(
	const struct pmi_client_options *options, struct pmi_client **ret_client, struct err *err)
{
	_cleanup_pmi_client_ struct pmi_client *o = calloc(1, sizeof(*o));
	int r;

	if (!o)
		return err_set(err, -ENOMEM, "connect to the engine's PMI server");
	o->fd = -1;
	o->protocol = options->version == 1 ? PMI_1 : PMI_2;
	o->deadline_ms = options->timeout_ms ? clock_now_ms() + options->timeout_ms : 0;
	r = reach(o, options->environ, err);
	if (r == 0 && o->protocol == PMI_1)
		r = begin_1(o, err);
	else if (r == 0)
		r = begin_2(o, environ_find(options->environ, "PMI_JOBID"), err);
	if (r == 0 && o->rank >= o->size)
		r = err_set_text(err, -EPROTO,
			"the engine's PMI server gives this process the impossible rank %u of %u",
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
	return pmi_client_leave(o);
}

struct pmi_client *pmi_client_leave(struct pmi_client *o)
{
	if (o)
		pmi_message_clear(&o->reply);
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
	assert(strlen(key) <= PMI_CLIENT_KEY_MAX);
	if (strlen(value) > o->value_max)
		return err_set_text(err, -EMSGSIZE,
			"the engine's PMI server takes values of %zu bytes, and %zu are needed",
			o->value_max, strlen(value));
	if (o->protocol == PMI_1)
		return REQUEST(o, "put", "put_result", err, "kvsname", o->space, "key", key,
			"value", value, NULL);
	return REQUEST(o, "kvs-put", "kvs-put-response", err, "key", key, "value", value, NULL);
}

int pmi_client_fence(struct pmi_client *o, struct err *err)
{
	return o->protocol == PMI_1 ? REQUEST(o, "barrier_in", "barrier_out", err, NULL)
				    : REQUEST(o, "kvs-fence", "kvs-fence-response", err, NULL);
}

int pmi_client_get(struct pmi_client *o, const char *key,
	char value[static PMI_CLIENT_VALUE_MAX + 1], struct err *err)
{
	const char *got, *found;
	int r;

	if (o->protocol == PMI_1)
		r = REQUEST(o, "get", "get_result", err, "kvsname", o->space, "key", key, NULL);
	else
		r = REQUEST(o, "kvs-get", "kvs-get-response", err, "jobid", o->space, "srcid", "-1",
			"key", key, NULL);
	if (r < 0 && r != -EREMOTEIO)
		return r;
	got = get_text(o, "value");
	found = get_text(o, "found");
	if (r < 0 || !got || (found && strcmp(found, "TRUE") != 0))
		return err_set_text(err, -ENOENT, "the engine's PMI server knows no '%s'", key);
	if (strlen(got) > PMI_CLIENT_VALUE_MAX)
		return err_set_text(err, -EMSGSIZE,
			"the value of '%s' at the engine's PMI server has more than %u bytes", key,
			PMI_CLIENT_VALUE_MAX);
	memcpy(value, got, strlen(got) + 1);
	return 0;
}

int pmi_client_finalize(struct pmi_client *o, struct err *err)
{
	return REQUEST(o, "finalize", o->protocol == PMI_1 ? "finalize_ack" : "finalize-response",
		err, NULL);
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
