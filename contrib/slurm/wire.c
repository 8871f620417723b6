/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/wire.h"

#include <string.h>

/* The parts of a request, in their order. */
struct cursor {
	const uint8_t *data;
	size_t size, at;
};

static const char *const kind_names[WIRE_KIND_MAX] = {
	[WIRE_SLUID] = "sluid",
	[WIRE_SIGNAL] = "signal",
	[WIRE_STATE] = "state",
	[WIRE_ATTACH] = "attach",
	[WIRE_PID_IN_CONTAINER] = "pid_in_container",
	[WIRE_DAEMON_PID] = "daemon_pid",
	[WIRE_SUSPEND] = "suspend",
	[WIRE_RESUME] = "resume",
	[WIRE_TERMINATE] = "terminate",
	[WIRE_TASK_INFO] = "task_info",
	[WIRE_LIST_PIDS] = "list_pids",
	[WIRE_RECONFIGURE] = "reconfigure",
	[WIRE_USAGE] = "usage",
	[WIRE_COMPLETION] = "completion",
	[WIRE_MEM_LIMITS] = "mem_limits",
	[WIRE_UID] = "uid",
	[WIRE_NODEID] = "nodeid",
	[WIRE_ADD_PID] = "add_pid",
	[WIRE_X11_DISPLAY] = "x11_display",
	[WIRE_USER] = "user",
	[WIRE_GROUPS] = "groups",
	[WIRE_NAMESPACE] = "namespace",
	[WIRE_NAMESPACES] = "namespaces",
	[WIRE_MEM_UPDATE] = "mem_update",
	[WIRE_NOTIFY] = "notify",
};

const char *wire_kind_name(int kind)
{
	return kind >= 0 && kind < WIRE_KIND_MAX ? kind_names[kind] : NULL;
}

/* The first version that has it; clients of an older one use no such number. */
static uint16_t get_first_version(enum wire_kind kind)
{
	switch (kind) {
	case WIRE_SLUID:
	case WIRE_NAMESPACES:
		return WIRE_25_11;
	case WIRE_MEM_UPDATE:
		return WIRE_26_05;
	default:
		return WIRE_22_05;
	}
}

/* ---- what a client sends --------------------------------------------------------------------- */

static bool take(struct cursor *c, void *ret, size_t size)
{
	if (c->size - c->at < size)
		return false;
	memcpy(ret, c->data + c->at, size); /* nothing here is aligned */
	c->at += size;
	return true;
}

int wire_parse_hello(const void *data, size_t size, uint16_t *ret_version)
{
	struct cursor c = {.data = data, .size = size};
	int32_t version;

	if (!take(&c, &version, sizeof(version)))
		return 0;
	if (version < WIRE_22_05)
		return -EPROTONOSUPPORT;
	*ret_version = (uint16_t)(version > WIRE_26_11 ? WIRE_26_11 : version);
	return (int)c.at;
}

/* Passes a length and so many bytes: what comes behind them, or as wire_parse_request(). */
static int pass_bytes(struct cursor *c, int32_t most)
{
	int32_t length;

	if (!take(c, &length, sizeof(length)))
		return 0;
	if (length < 0 || length > most)
		return -EMSGSIZE;
	if (c->size - c->at < (size_t)length)
		return 0;
	c->at += (size_t)length;
	return (int)c->at;
}

/* The signal, flags, a reason of so many bytes, and the uid that the sender claims: the kernel
 * knows that better. */
static int parse_signal(struct cursor *c, struct wire_request *r)
{
	uint32_t uid;
	int n;

	if (!take(c, &r->signal, sizeof(r->signal)) || !take(c, &r->flags, sizeof(r->flags)))
		return 0;
	n = pass_bytes(c, WIRE_DETAILS_MAX);
	if (n <= 0)
		return n;
	return take(c, &uid, sizeof(uid)) ? (int)c->at : 0;
}

/* Numbers of nodes and a status, and their accounting. */
static int parse_completion(struct cursor *c, uint16_t version, struct wire_request *r)
{
	uint32_t step;
	uint8_t to_manager;
	size_t at;
	int n;

	if (!take(c, &r->first, sizeof(r->first)) || !take(c, &r->last, sizeof(r->last)) ||
		!take(c, &r->status, sizeof(r->status)))
		return 0;
	if (version >= WIRE_24_05 &&
		(!take(c, &step, sizeof(step)) || !take(c, &to_manager, sizeof(to_manager))))
		return 0;
	at = c->at + sizeof(int32_t); /* behind its length */
	n = pass_bytes(c, WIRE_ACCOUNTING_MAX);
	if (n > 0) {
		r->record = c->data + at;
		r->record_size = (size_t)n - at;
	}
	return n;
}

/* A text for the step's user, which has an end or not. */
static int parse_notify(struct cursor *c, struct wire_request *r)
{
	int32_t length;

	if (!take(c, &length, sizeof(length)))
		return 0;
	if (length < 0 || length > WIRE_DETAILS_MAX)
		return -EMSGSIZE;
	r->text[length] = '\0';
	return take(c, r->text, (size_t)length) ? (int)c->at : 0;
}

/* How it has to match, a number, and a name without an end. */
static int parse_lookup(struct cursor *c, struct wire_lookup *l)
{
	int32_t length;

	if (!take(c, &l->match, sizeof(l->match)) || !take(c, &l->id, sizeof(l->id)) ||
		!take(c, &length, sizeof(length)))
		return 0;
	if (length < 0 || length > WIRE_NAME_MAX)
		return -EMSGSIZE;
	l->name[length] = '\0';
	return take(c, l->name, (size_t)length) ? (int)c->at : 0;
}

static int parse_core_spec(struct cursor *c, uint16_t version)
{
	uint16_t core_spec; /* CPUs that Slurm sets aside for the system */

	if (version < WIRE_23_11 && !take(c, &core_spec, sizeof(core_spec)))
		return 0;
	return (int)c->at;
}

#define ADDRESS_SIZE 128 /* as struct sockaddr_storage */

static bool take_address(struct cursor *c, struct sockaddr_in *ret_address)
{
	uint8_t bytes[ADDRESS_SIZE];

	if (!take(c, bytes, sizeof(bytes)))
		return false;
	memcpy(ret_address, bytes, sizeof(*ret_address));
	if (ret_address->sin_family != AF_INET)
		*ret_address = (struct sockaddr_in){0};
	return true;
}

/* Two addresses, a key of so many bytes, the user's uid and its program's version; before them,
 * from 25.05 on, a certificate of so many bytes. */
static int parse_attach(struct cursor *c, uint16_t version, struct wire_attach *a)
{
	size_t at = c->at + sizeof(int32_t); /* behind the certificate's length */
	int n;

	if (version >= WIRE_25_05) {
		n = pass_bytes(c, WIRE_CERTIFICATE_MAX);
		if (n <= 0)
			return n;
		a->encrypted = (size_t)n > at;
	}
	if (!take_address(c, &a->io) || !take_address(c, &a->response) ||
		!take(c, &a->key_size, sizeof(a->key_size)))
		return 0;
	if (a->key_size > WIRE_KEY_MAX)
		return -EMSGSIZE;
	return take(c, a->key, a->key_size) && take(c, &a->uid, sizeof(a->uid)) &&
			take(c, &a->version, sizeof(a->version))
		? (int)c->at
		: 0;
}

int wire_parse_request(
	const void *data, size_t size, uint16_t version, struct wire_request *ret_request)
{
	struct cursor c = {.data = data, .size = size};
	struct wire_request r = {0};
	int32_t kind;
	int used;

	if (!take(&c, &kind, sizeof(kind)))
		return 0;
	if (kind == WIRE_NUMBER_NOTIFY)
		kind = WIRE_NOTIFY;
	else if (kind == WIRE_NOTIFY || !wire_kind_name(kind) ||
		version < get_first_version((enum wire_kind)kind))
		return -EOPNOTSUPP;
	r.kind = (enum wire_kind)kind;
	used = (int)c.at;
	if (r.kind == WIRE_SIGNAL)
		used = parse_signal(&c, &r);
	else if (r.kind == WIRE_COMPLETION)
		used = parse_completion(&c, version, &r);
	else if (r.kind == WIRE_USER || r.kind == WIRE_GROUPS)
		used = parse_lookup(&c, &r.lookup);
	else if (r.kind == WIRE_NOTIFY)
		used = parse_notify(&c, &r);
	else if (r.kind == WIRE_SUSPEND || r.kind == WIRE_RESUME)
		used = parse_core_spec(&c, version);
	else if (r.kind == WIRE_PID_IN_CONTAINER || r.kind == WIRE_ADD_PID)
		used = take(&c, &r.pid, sizeof(r.pid)) ? (int)c.at : 0;
	else if (r.kind == WIRE_RECONFIGURE && version >= WIRE_23_11)
		used = pass_bytes(&c, WIRE_CONTROLLERS_MAX);
	else if (r.kind == WIRE_MEM_UPDATE)
		used = take(&c, &r.memory_mb, sizeof(r.memory_mb)) ? (int)c.at : 0;
	else if (r.kind == WIRE_ATTACH)
		used = parse_attach(&c, version, &r.attach);
	if (used > 0)
		*ret_request = r;
	return used;
}

/* ---- what it gets ---------------------------------------------------------------------------- */

static void answer_put(struct wire_answer *a, const void *data, size_t size)
{
	if (!a->failed)
		a->failed = buffer_add(&a->bytes, data, size) < 0;
}

void wire_answer_clear(struct wire_answer *a)
{
	buffer_clear(&a->bytes);
	*a = (struct wire_answer){0};
}

void wire_put_u8(struct wire_answer *a, uint8_t n)
{
	answer_put(a, &n, sizeof(n));
}

void wire_put_i32(struct wire_answer *a, int32_t n)
{
	answer_put(a, &n, sizeof(n));
}

void wire_put_u32(struct wire_answer *a, uint32_t n)
{
	answer_put(a, &n, sizeof(n));
}

void wire_put_u64(struct wire_answer *a, uint64_t n)
{
	answer_put(a, &n, sizeof(n));
}

void wire_put_text(struct wire_answer *a, const char *text)
{
	size_t size = strlen(text) + 1;

	wire_put_i32(a, (int32_t)size);
	answer_put(a, text, size);
}

void wire_put_bytes(struct wire_answer *a, const void *data, size_t size)
{
	answer_put(a, data, size);
}

void wire_put_result(struct wire_answer *a, int error)
{
	wire_put_i32(a, error ? -1 : 0);
	wire_put_i32(a, error);
}

void wire_begin_list(struct wire_answer *a)
{
	wire_put_u32(a, 0);
}

void wire_count_entry(struct wire_answer *a)
{
	uint32_t n;

	if (a->failed)
		return;
	memcpy(&n, a->bytes.data, sizeof(n));
	n++;
	memcpy(a->bytes.data, &n, sizeof(n));
}

void wire_put_task(struct wire_answer *a, const struct wire_task *task)
{
	wire_put_i32(a, task->local_id);
	wire_put_u32(a, task->rank);
	wire_put_i32(a, task->pid);
	wire_put_u8(a, task->exited);
	wire_put_i32(a, task->wait_status);
}

void wire_put_mem_limits(struct wire_answer *a, uint16_t version, uint64_t job_mb, uint64_t step_mb)
{
	wire_put_u64(a, job_mb);
	if (version < WIRE_26_05)
		wire_put_u64(a, step_mb);
}

void wire_put_state(struct wire_answer *a, uint16_t version, enum wire_state state)
{
	int32_t n = (int32_t)state;

	if (version < WIRE_23_11 && n >= WIRE_CANCELLED)
		n = WIRE_CANCELLED; /* there "ending" has this number, and nothing comes after it */
	wire_put_i32(a, n);
}
