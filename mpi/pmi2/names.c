/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Requests to one node: names of services, which node 0 holds for the whole step, and values of a
 * space that has no task on the requesting node. A query carries its number; the answer, or the
 * deadline, or the loss of the way there, ends it.
 *
 *	query: number, op, space, name, value; answer: number, status, value
 *	(numbers are 32 bits, little-endian; texts have their length before them)
 */
#include "mpi/pmi2/pmi_impl.h"

#include <assert.h>
#include <string.h>

#include "mpi/pmi2/gather.h"

#define NAMES_MAX      16384u
#define NAME_BYTES_MAX 65536u /* of a name and its port */

enum remote_op {
	REMOTE_PUBLISH,
	REMOTE_UNPUBLISH,
	REMOTE_LOOKUP,
	REMOTE_GET,
	REMOTE_OP_MAX,
};

enum remote_status {
	REMOTE_DONE,
	REMOTE_UNKNOWN,
	REMOTE_TAKEN,
	REMOTE_FULL,
	REMOTE_STATUS_MAX,
};

/* The numbers of an answer's status are those of manager_status, too. */
static_assert((int)REMOTE_DONE == MANAGER_DONE && (int)REMOTE_UNKNOWN == MANAGER_UNKNOWN &&
		(int)REMOTE_TAKEN == MANAGER_TAKEN && (int)REMOTE_FULL == MANAGER_FULL,
	"one table of texts");

static const enum manager_query queries[REMOTE_GET] = {
	[REMOTE_PUBLISH] = MANAGER_PUBLISH,
	[REMOTE_UNPUBLISH] = MANAGER_UNPUBLISH,
	[REMOTE_LOOKUP] = MANAGER_LOOKUP,
};

struct remote {
	TAILQ_ENTRY(remote) link;
	struct pmi *pmi;
	uint32_t id, node;
	enum remote_op op;
	struct request request;
	struct deadline deadline;
};

struct name {
	TAILQ_ENTRY(name) link;
	char *service; /* the port follows it */
	size_t service_size, port_size;
};

/* ---- the node that answers ----------------------------------------------------------------- */

static struct name *find_name(struct pmi *pmi, struct slice service)
{
	struct name *name;

	TAILQ_FOREACH(name, &pmi->names, link)
	{
		if (name->service_size == service.size &&
			memcmp(name->service, service.data, service.size) == 0)
			return name;
	}
	return NULL;
}

static void remove_name(struct pmi *pmi, struct name *name)
{
	TAILQ_REMOVE(&pmi->names, name, link);
	pmi->names_count--;
	free(name->service);
	free(name);
}

static enum remote_status add_name(struct pmi *pmi, struct slice service, struct slice port)
{
	_cleanup_free_ struct name *name = NULL;

	if (find_name(pmi, service))
		return REMOTE_TAKEN;
	if (pmi->names_count == NAMES_MAX || service.size + port.size > NAME_BYTES_MAX)
		return REMOTE_FULL;
	name = calloc(1, sizeof(*name));
	if (!name)
		return REMOTE_FULL;
	name->service = malloc(service.size + port.size + 1);
	if (!name->service)
		return REMOTE_FULL;
	memcpy(name->service, service.data, service.size);
	if (port.size > 0)
		memcpy(name->service + service.size, port.data, port.size);
	name->service_size = service.size;
	name->port_size = port.size;
	TAILQ_INSERT_TAIL(&pmi->names, name, link);
	pmi->names_count++;
	(void)take_ptr(name);
	return REMOTE_DONE;
}

static enum remote_status get_value(
	struct pmi *pmi, uint32_t number, struct slice key, struct slice *ret_value)
{
	struct pmi_space *space = pmi_find_space(pmi, number);

	return space && kvs_get(&space->kvs, key, ret_value) ? REMOTE_DONE : REMOTE_UNKNOWN;
}

static enum remote_status run_query(struct pmi *pmi, uint32_t op, uint32_t number, struct slice key,
	struct slice value, struct slice *ret_value)
{
	struct name *name = op == REMOTE_GET ? NULL : find_name(pmi, key);

	switch (op) {
	case REMOTE_PUBLISH:
		return add_name(pmi, key, value);
	case REMOTE_GET:
		return get_value(pmi, number, key, ret_value);
	case REMOTE_UNPUBLISH:
		if (name)
			remove_name(pmi, name);
		return name ? REMOTE_DONE : REMOTE_UNKNOWN;
	case REMOTE_LOOKUP:
		if (name)
			*ret_value =
				(struct slice){name->service + name->service_size, name->port_size};
		return name ? REMOTE_DONE : REMOTE_UNKNOWN;
	default:
		return REMOTE_UNKNOWN;
	}
}

static void on_query(struct pmi *pmi, uint32_t from, struct slice data)
{
	_cleanup_bytes_ struct bytes head = {0};
	struct slice key, value, answer = {"", 0};
	uint32_t id, op, number;
	struct err err = ERR_INIT;
	struct iovec iov[2];
	enum remote_status status;

	if (!slice_take_u32(&data, &id) || !slice_take_u32(&data, &op) ||
		!slice_take_u32(&data, &number) || !slice_take_sized(&data, &key) ||
		!slice_take_sized(&data, &value)) {
		serve_log(pmi->config.serve, LOG_LEVEL_WARNING,
			"PMI: node %u has sent a query that can't be parsed, ignoring", from);
		return;
	}
	status = run_query(pmi, op, number, key, value, &answer);
	bytes_add_u32(&head, id);
	bytes_add_u32(&head, status);
	bytes_add_u32(&head, (uint32_t)answer.size);
	if (head.failed)
		return; /* the requester has a deadline */
	iov[0] = bytes_iovec(&head);
	iov[1] = (struct iovec){(void *)answer.data, answer.size};
	if (wire_send(serve_get_wire(pmi->config.serve), from, PMI_CHANNEL_ANSWER, iov,
		    answer.size > 0 ? 2 : 1, &err) < 0)
		serve_log(pmi->config.serve, LOG_LEVEL_WARNING, "PMI: %s, ignoring", err.text);
}

/* ---- the node that requests ---------------------------------------------------------------- */

static void drop(struct remote *q)
{
	deadline_stop(q->pmi, &q->deadline);
	TAILQ_REMOVE(&q->pmi->remotes, q, link);
	free(q);
}

static void remote_fail(struct remote *q, const char *why)
{
	answer_fail(&q->request, PMI_OTHER, "%s", why);
	drop(q);
}

static void remote_on_deadline(struct deadline *d)
{
	struct remote *q = (struct remote *)((char *)d - offsetof(struct remote, deadline));
	char why[120];

	(void)snprintf(why, sizeof(why), "node %u has not answered within %.3g s", q->node,
		(double)q->pmi->config.timeout_ms / 1000);
	remote_fail(q, why);
}

/* port: what was looked up; NULL: nothing. */
static void answer_name(struct request *request, const struct slice *port)
{
	struct answer a;

	answer_open(&a, request);
	answer_int(&a, "rc", PMI_OK);
	if (request->protocol == PMI_1) {
		answer_text(&a, "msg", "success");
		answer_text(&a, "info", "ok");
	} else if (port) { /* clients differ in the key that they read */
		answer_text(&a, "found", "TRUE");
		answer_add(&a, "value", *port);
	}
	if (port)
		answer_add(&a, "port", *port);
	answer_close(&a);
}

static void answer_query(struct remote *q, uint32_t status, struct slice value)
{
	static const char *const texts[REMOTE_STATUS_MAX] = {
		[REMOTE_UNKNOWN] = "there is no such name",
		[REMOTE_TAKEN] = "the name is published already",
		[REMOTE_FULL] = "the table of names is full",
	};

	if (q->op == REMOTE_GET)
		answer_value(&q->request, status == REMOTE_DONE ? &value : NULL);
	else if (status != REMOTE_DONE)
		answer_fail(&q->request, PMI_OTHER, "%s",
			status < REMOTE_STATUS_MAX ? texts[status] : "the answer is unknown");
	else
		answer_name(&q->request, q->op == REMOTE_LOOKUP ? &value : NULL);
}

void remote_take_answer(struct pmi *pmi, struct slice data)
{
	struct slice value;
	uint32_t id, status;
	struct remote *q;

	if (!slice_take_u32(&data, &id) || !slice_take_u32(&data, &status) ||
		!slice_take_sized(&data, &value))
		return; /* the deadline ends it */
	TAILQ_FOREACH(q, &pmi->remotes, link)
	{
		if (q->id == id)
			break;
	}
	if (!q)
		return; /* it came too late */
	answer_query(q, status, value);
	drop(q);
}

/* The way to the node that answers. 0 or -errno. */
static int remote_dispatch(
	struct remote *q, uint32_t number, struct slice key, struct slice value, struct err *err)
{
	_cleanup_bytes_ struct bytes data = {0};
	struct pmi *pmi = q->pmi;
	struct iovec iov;

	if (pmi->config.manager) {
		if (q->op < REMOTE_GET && managed_query(pmi, q->id, queries[q->op], key, value))
			return 0;
		return err_set_text(
			err, -EHOSTUNREACH, "the step's process manager can't be reached for it");
	}
	bytes_add_u32(&data, q->id);
	bytes_add_u32(&data, q->op);
	bytes_add_u32(&data, number);
	bytes_add_sized(&data, key);
	bytes_add_sized(&data, value);
	iov = bytes_iovec(&data);
	if (data.failed)
		return err_set_text(err, -ENOMEM, "there is no memory for the query");
	return wire_send(
		serve_get_wire(pmi->config.serve), q->node, PMI_CHANNEL_QUERY, &iov, 1, err);
}

static int remote_send(struct request *request, uint32_t node, enum remote_op op, uint32_t number,
	struct slice key, struct slice value)
{
	struct pmi *pmi = request->task->pmi;
	struct remote *q = calloc(1, sizeof(*q));
	struct err err = ERR_INIT;

	if (!q)
		return -ENOMEM;
	*q = (struct remote){.pmi = pmi, .id = ++pmi->last_remote, .node = node, .op = op};
	request_park(&q->request, request);
	TAILQ_INSERT_TAIL(&pmi->remotes, q, link);
	deadline_start(pmi, &q->deadline, remote_on_deadline);
	/* The answer may be here before this returns: q is not touched but on failure. */
	if (remote_dispatch(q, number, key, value, &err) < 0)
		remote_fail(q, err.text);
	return 0;
}

/* The key is "service" in PMI-1, "name" in PMI-2. */
static int name_send(
	struct request *request, const struct pmi_message *m, enum remote_op op, struct slice port)
{
	struct slice name = {"", 0};

	(void)pmi_message_get(m, request->protocol == PMI_1 ? "service" : "name", &name);
	if (name.size > 0 && name.size <= PMI_VALUE_MAX)
		return remote_send(request, 0, op, 0, name, port);
	answer_fail(request, PMI_ARG, "a name has 1 to %u bytes", PMI_VALUE_MAX);
	return 0;
}

int name_publish(struct request *request, const struct pmi_message *m)
{
	struct slice port = {"", 0};

	(void)pmi_message_get(m, "port", &port);
	return name_send(request, m, REMOTE_PUBLISH, port);
}

int name_unpublish(struct request *request, const struct pmi_message *m)
{
	return name_send(request, m, REMOTE_UNPUBLISH, (struct slice){"", 0});
}

int name_lookup(struct request *request, const struct pmi_message *m)
{
	return name_send(request, m, REMOTE_LOOKUP, (struct slice){"", 0});
}

int remote_get(struct request *request, struct pmi_space *space, struct slice key)
{
	uint32_t node = bitset_next(&space->node_set, 0);

	return remote_send(request, node, REMOTE_GET, space->number, key, (struct slice){"", 0});
}

void remote_drop(struct pmi *pmi)
{
	while (!TAILQ_EMPTY(&pmi->remotes))
		drop(TAILQ_FIRST(&pmi->remotes));
	while (!TAILQ_EMPTY(&pmi->names))
		remove_name(pmi, TAILQ_FIRST(&pmi->names));
}

void pmi_message(struct pmi *pmi, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	struct slice data = {block->data, block->size};

	if (channel == PMI_CHANNEL_QUERY)
		on_query(pmi, from, data);
	else if (channel == PMI_CHANNEL_ANSWER)
		remote_take_answer(pmi, data);
	else if (channel == PMI_CHANNEL_DEATH)
		death_receive(pmi, from, data);
	pmi_run(pmi);
}

void remote_fail_all(struct pmi *pmi, const char *why)
{
	while (!TAILQ_EMPTY(&pmi->remotes))
		remote_fail(TAILQ_FIRST(&pmi->remotes), why);
}

/* A query whose answer can't come any more ends now. Which nodes are behind a lost one only the
 * exchange knows: all that may be are taken for it. */
void pmi_lost(struct pmi *pmi, uint32_t node, const struct err *err)
{
	struct remote *q, *next;

	for (q = TAILQ_FIRST(&pmi->remotes); q; q = next) {
		next = TAILQ_NEXT(q, link);
		if (q->node == node || node < pmi->config.node)
			remote_fail(q, err->text);
	}
	pmi_run(pmi);
}
