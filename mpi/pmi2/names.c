/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is asked of one node for all: names of services, which node 0 keeps for the whole step, and
 * values of a space that has no task on the node of who asks. A question carries its number; the
 * answer, or the deadline, or the loss of the way there, ends it.
 *
 *	question: number, op, space, name, value; answer: number, status, value
 *	(numbers are 32 bits, little-endian; texts have their length before them)
 */
#include "mpi/pmi2/names.h"

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

struct remote {
	TAILQ_ENTRY(remote) link;
	struct pmi *pmi;
	uint32_t id, node;
	enum remote_op op;
	struct ask ask;
	struct deadline deadline;
};

struct name {
	TAILQ_ENTRY(name) link;
	char *service; /* the port follows it */
	size_t service_size, port_size;
};

/* ---- the one who is asked ------------------------------------------------------------------ */

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

static enum remote_status serve_question(struct pmi *pmi, uint32_t op, uint32_t number,
	struct slice key, struct slice value, struct slice *ret_value)
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

static void on_question(struct pmi *pmi, uint32_t from, struct slice data)
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
		pmi_log(pmi, LOG_LEVEL_WARNING,
			"PMI: node %u has asked what can't be understood, ignoring", from);
		return;
	}
	status = serve_question(pmi, op, number, key, value, &answer);
	bytes_add_u32(&head, id);
	bytes_add_u32(&head, status);
	bytes_add_u32(&head, (uint32_t)answer.size);
	if (head.failed)
		return; /* who asked has a deadline */
	iov[0] = (struct iovec){head.data, head.size};
	iov[1] = (struct iovec){(void *)answer.data, answer.size};
	if (pmi->ops.send(pmi->userdata, from, PMI_CHANNEL_ANSWER, iov, answer.size > 0 ? 2 : 1,
		    &err) < 0)
		pmi_log(pmi, LOG_LEVEL_WARNING, "PMI: %s, ignoring", err.text);
}

/* ---- the one who asks ---------------------------------------------------------------------- */

static void drop(struct remote *q)
{
	deadline_stop(q->pmi, &q->deadline);
	TAILQ_REMOVE(&q->pmi->remotes, q, link);
	free(q);
}

static void fail(struct remote *q, const char *why)
{
	answer_fail(&q->ask, PMI_OTHER, "%s", why);
	drop(q);
}

static void on_deadline(struct deadline *d)
{
	struct remote *q = (struct remote *)((char *)d - offsetof(struct remote, deadline));
	char why[120];

	(void)snprintf(why, sizeof(why), "node %u has not answered within %.3g s", q->node,
		(double)q->pmi->config.timeout_ms / 1000);
	fail(q, why);
}

static void answer_lookup(struct ask *ask, struct slice port)
{
	struct answer a;

	answer_open(&a, ask);
	answer_int(&a, "rc", PMI_OK);
	if (ask->protocol == PMI_2) { /* clients differ in what they look for */
		answer_text(&a, "found", "TRUE");
		answer_add(&a, "value", port);
	} else {
		answer_text(&a, "msg", "success");
		answer_text(&a, "info", "ok");
	}
	answer_add(&a, "port", port);
	answer_close(&a);
}

static void answer_name(struct ask *ask)
{
	struct answer a;

	if (ask->protocol == PMI_2) {
		answer_ok(ask);
		return;
	}
	answer_open(&a, ask);
	answer_int(&a, "rc", PMI_OK);
	answer_text(&a, "msg", "success");
	answer_text(&a, "info", "ok");
	answer_close(&a);
}

static void answer_question(struct remote *q, uint32_t status, struct slice value)
{
	static const char *const texts[REMOTE_STATUS_MAX] = {
		[REMOTE_UNKNOWN] = "there is no such name",
		[REMOTE_TAKEN] = "the name is published already",
		[REMOTE_FULL] = "there is no room for another name",
	};

	if (q->op == REMOTE_GET && q->ask.protocol == PMI_2)
		answer_value(&q->ask, status == REMOTE_DONE ? &value : NULL);
	else if (q->op == REMOTE_GET)
		answer_get(&q->ask, status == REMOTE_DONE ? &value : NULL);
	else if (status != REMOTE_DONE)
		answer_fail(&q->ask, PMI_OTHER, "%s",
			status < REMOTE_STATUS_MAX ? texts[status] : "the answer is unknown");
	else if (q->op == REMOTE_LOOKUP)
		answer_lookup(&q->ask, value);
	else
		answer_name(&q->ask);
}

static void on_answer(struct pmi *pmi, struct slice data)
{
	struct slice value;
	uint32_t id, status;
	struct remote *q;

	if (!slice_take_u32(&data, &id) || !slice_take_u32(&data, &status) ||
		!slice_take_sized(&data, &value))
		return; /* the deadline will tell */
	TAILQ_FOREACH(q, &pmi->remotes, link)
	{
		if (q->id == id)
			break;
	}
	if (!q)
		return; /* it came too late */
	answer_question(q, status, value);
	drop(q);
}

static int ask_node(struct ask *ask, uint32_t node, enum remote_op op, uint32_t number,
	struct slice key, struct slice value)
{
	_cleanup_bytes_ struct bytes data = {0};
	struct pmi *pmi = ask->task->pmi;
	struct remote *q = calloc(1, sizeof(*q));
	struct err err = ERR_INIT;
	struct iovec iov;

	if (!q)
		return -ENOMEM;
	*q = (struct remote){.pmi = pmi, .id = ++pmi->last_remote, .node = node, .op = op};
	ask_park(&q->ask, ask);
	TAILQ_INSERT_TAIL(&pmi->remotes, q, link);
	deadline_start(pmi, &q->deadline, on_deadline);
	bytes_add_u32(&data, q->id);
	bytes_add_u32(&data, op);
	bytes_add_u32(&data, number);
	bytes_add_u32(&data, (uint32_t)key.size);
	bytes_add(&data, key.data, key.size);
	bytes_add_u32(&data, (uint32_t)value.size);
	bytes_add(&data, value.data, value.size);
	iov = (struct iovec){data.data, data.size};
	/* The answer may be here before this returns: q is not touched but on failure. */
	if (data.failed)
		fail(q, "there is no memory for the question");
	else if (pmi->ops.send(pmi->userdata, node, PMI_CHANNEL_ASK, &iov, 1, &err) < 0)
		fail(q, err.text);
	return 0;
}

/* PMI-1 says service, PMI-2 name. */
static int ask_name(
	struct ask *ask, const struct pmi_message *m, enum remote_op op, struct slice port)
{
	struct slice name = {"", 0};

	(void)pmi_message_get(m, ask->protocol == PMI_1 ? "service" : "name", &name);
	if (name.size > 0 && name.size <= PMI_VALUE_MAX)
		return ask_node(ask, 0, op, 0, name, port);
	answer_fail(ask, PMI_ARG, "a name has 1 to %u bytes", PMI_VALUE_MAX);
	return 0;
}

int name_publish(struct ask *ask, const struct pmi_message *m)
{
	struct slice port = {"", 0};

	(void)pmi_message_get(m, "port", &port);
	return ask_name(ask, m, REMOTE_PUBLISH, port);
}

int name_unpublish(struct ask *ask, const struct pmi_message *m)
{
	return ask_name(ask, m, REMOTE_UNPUBLISH, (struct slice){"", 0});
}

int name_lookup(struct ask *ask, const struct pmi_message *m)
{
	return ask_name(ask, m, REMOTE_LOOKUP, (struct slice){"", 0});
}

int remote_get(struct ask *ask, struct pmi_space *space, struct slice key)
{
	uint32_t node = bitset_next(&space->node_set, 0);

	return ask_node(ask, node, REMOTE_GET, space->number, key, (struct slice){"", 0});
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

	if (channel == PMI_CHANNEL_ASK)
		on_question(pmi, from, data);
	else if (channel == PMI_CHANNEL_ANSWER)
		on_answer(pmi, data);
	else if (channel == PMI_CHANNEL_DEATH)
		death_take(pmi, from, data);
	pmi_run(pmi);
}

/* Whose way is gone is the exchange's knowledge; what can't come is better ended than awaited. */
void pmi_lost(struct pmi *pmi, uint32_t node, const struct err *err)
{
	struct remote *q, *next;

	for (q = TAILQ_FIRST(&pmi->remotes); q; q = next) {
		next = TAILQ_NEXT(q, link);
		if (q->node == node || node < pmi->config.node)
			fail(q, err->text);
	}
	pmi_run(pmi);
}
