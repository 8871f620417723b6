/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Attributes of PMI-2: those of the job, which the server knows or which somebody has put into the
 * space's keys (before a spawn, or with kvs-put), and those that the tasks of one node leave for
 * each other there. A request for one of these with wait=TRUE is answered at the put.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "mpi/pmi/bytes.h"
#include "mpi/pmi2/pmi_impl.h"
#include "mpi/pmi2/pmi.h"

/* ---- the process mapping -------------------------------------------------------------------- */

struct block {
	uint32_t first, count, each;
};

/* How many ranks from at on are on the same node. */
static uint32_t run_at(const uint32_t *nodes, uint32_t size, uint32_t at)
{
	uint32_t n = 1;

	while (at + n < size && nodes[at + n] == nodes[at])
		n++;
	return n;
}

/* As few blocks as nodes in ascending order with equal runs make. */
static uint32_t make_blocks(const uint32_t *nodes, uint32_t size, struct block *blocks)
{
	uint32_t count = 0, at, run;
	struct block *last;

	for (at = 0; at < size; at += run) {
		run = run_at(nodes, size, at);
		last = count > 0 ? &blocks[count - 1] : NULL;
		if (last && last->each == run && nodes[at] == last->first + last->count)
			last->count++;
		else
			blocks[count++] = (struct block){nodes[at], 1, run};
	}
	return count;
}

/* The blocks after which the list begins again. */
static uint32_t period_of(const struct block *blocks, uint32_t count)
{
	uint32_t period, i;

	for (period = 1; period < count; period++) {
		for (i = period; i < count; i++) {
			if (memcmp(&blocks[i], &blocks[i - period], sizeof(*blocks)) != 0)
				break;
		}
		if (i == count && count % period == 0)
			return period;
	}
	return count;
}

static void write_blocks(const struct block *blocks, uint32_t count, struct bytes *b)
{
	uint32_t i;

	bytes_cut(b, 0);
	bytes_add_text(b, "(vector");
	for (i = 0; i < count; i++)
		bytes_addf(b, ",(%u,%u,%u)", blocks[i].first, blocks[i].count, blocks[i].each);
	bytes_add_text(b, ")");
}

int mapping_format(const uint32_t *nodes, uint32_t size, char **ret_text)
{
	_cleanup_bytes_ struct bytes text = {0};
	_cleanup_free_ struct block *blocks = calloc(nodes ? (size_t)size + 1 : 1, sizeof(*blocks));
	uint32_t count = 1;

	if (!blocks)
		return -ENOMEM;
	if (nodes)
		count = make_blocks(nodes, size, blocks);
	else
		blocks[0] = (struct block){0, 1, size};
	write_blocks(blocks, count, &text);
	if (bytes_size(&text) >= PMI_VALUE_MAX)
		write_blocks(blocks, period_of(blocks, count), &text);
	*ret_text = text.failed ? NULL : slice_dup(slice_of(&text));
	return *ret_text ? 0 : -ENOMEM;
}

/* ---- the network interfaces -----------------------------------------------------------------
 *
 * PMI_netinfo_of_task, as Slurm's server has it: the node's name and its addresses,
 * "(n1,(eth0,IP_V4,10.0.0.1),(eth0,IP_V6,fe80::1))".
 */

static void free_addresses(struct ifaddrs **list)
{
	if (*list)
		freeifaddrs(*list);
}

static void add_address(struct bytes *b, const struct ifaddrs *address)
{
	const struct sockaddr *sa = address->ifa_addr;
	char text[INET6_ADDRSTRLEN];
	const void *raw;

	if (!sa || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return;
	if (address->ifa_flags & IFF_LOOPBACK)
		return;
	raw = sa->sa_family == AF_INET ? (const void *)&((const struct sockaddr_in *)sa)->sin_addr
				       : &((const struct sockaddr_in6 *)sa)->sin6_addr;
	if (inet_ntop(sa->sa_family, raw, text, sizeof(text)))
		bytes_addf(b, ",(%s,%s,%s)", address->ifa_name,
			sa->sa_family == AF_INET ? "IP_V4" : "IP_V6", text);
}

static char *netinfo_text(const char *node_name)
{
	_cleanup_(free_addresses) struct ifaddrs *list = NULL;
	_cleanup_bytes_ struct bytes text = {0};
	const struct ifaddrs *p;

	if (getifaddrs(&list) < 0)
		return NULL; /* not found */
	bytes_addf(&text, "(%.200s", node_name);
	for (p = list; p; p = p->ifa_next)
		add_address(&text, p);
	bytes_add_text(&text, ")");
	return text.failed ? NULL : slice_dup(slice_of(&text));
}

/* ---- the commands -------------------------------------------------------------------------- */

struct node_wait {
	TAILQ_ENTRY(node_wait) link;
	struct pmi *pmi;
	struct pmi_space *space;
	struct request request;
	char *key;
	size_t key_size;
	struct deadline deadline;
};

int attr_get_job(struct request *request, const struct pmi_message *m)
{
	struct pmi_space *space = request->task->space;
	_cleanup_free_ char *netinfo = NULL;
	struct slice key, value;
	char number[16];
	const char *known = NULL;

	if (!get_key(request, m, &key))
		return 0;
	if (slice_is(key, "PMI_process_mapping")) {
		known = space->mapping;
	} else if (slice_is(key, "universeSize")) {
		(void)snprintf(number, sizeof(number), "%u", space->pmi->config.universe_size);
		known = number;
	} else if (slice_is(key, "PMI_netinfo_of_task")) {
		netinfo = netinfo_text(space->pmi->node_name);
		known = netinfo;
	}
	if (known) {
		value = slice_of_text(known);
		answer_value(request, &value);
	} else {
		answer_value(request, kvs_get(&space->kvs, key, &value) ? &value : NULL);
	}
	return 0;
}

/* ---- of the node ---------------------------------------------------------------------------- */

static void node_wait_drop(struct node_wait *w)
{
	deadline_stop(w->pmi, &w->deadline);
	TAILQ_REMOVE(&w->space->node_waits, w, link);
	free(w->key);
	free(w);
}

static void attr_on_deadline(struct deadline *d)
{
	struct node_wait *w =
		(struct node_wait *)((char *)d - offsetof(struct node_wait, deadline));

	serve_log(w->pmi->config.serve, LOG_LEVEL_ERROR,
		"%s: rank %u has waited for the node attribute '%.*s' for %.3g s (--pmi-timeout)",
		w->space->name, w->request.task->rank, (int)w->key_size, w->key,
		(double)w->pmi->config.timeout_ms / 1000);
	answer_fail(
		&w->request, PMI_OTHER, "nobody has put '%.*s' in time", (int)w->key_size, w->key);
	node_wait_drop(w);
}

int attr_put_node(struct request *request, const struct pmi_message *m)
{
	struct pmi_space *space = request->task->space;
	struct node_wait *w, *next;
	struct slice key = {"", 0}, value = {"", 0};

	(void)pmi_message_get(m, "key", &key);
	(void)pmi_message_get(m, "value", &value);
	if (!put_is_allowed(request, key, value))
		return 0;
	if (kvs_set(&space->node_attrs, key, value) < 0) {
		answer_fail(request, PMI_NOMEM, "there is no memory for it");
		return 0;
	}
	answer_ok(request);
	for (w = TAILQ_FIRST(&space->node_waits); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->key_size != key.size || memcmp(w->key, key.data, key.size) != 0)
			continue;
		answer_value(&w->request, &value);
		node_wait_drop(w);
	}
	return 0;
}

int attr_get_node(struct request *request, const struct pmi_message *m)
{
	struct pmi_space *space = request->task->space;
	struct slice key, value, wait = {"", 0};
	_cleanup_free_ struct node_wait *w = NULL;

	if (!get_key(request, m, &key))
		return 0;
	(void)pmi_message_get(m, "wait", &wait);
	if (kvs_get(&space->node_attrs, key, &value)) {
		answer_value(request, &value);
		return 0;
	}
	if (!slice_is(wait, "TRUE")) {
		answer_value(request, NULL);
		return 0;
	}
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct node_wait){
		.pmi = space->pmi, .space = space, .key = slice_dup(key), .key_size = key.size};
	if (!w->key)
		return -ENOMEM;
	request_park(&w->request, request);
	TAILQ_INSERT_TAIL(&space->node_waits, w, link);
	deadline_start(space->pmi, &w->deadline, attr_on_deadline);
	(void)take_ptr(w);
	return 0;
}

void attr_drop_waits(struct pmi_space *space)
{
	while (!TAILQ_EMPTY(&space->node_waits))
		node_wait_drop(TAILQ_FIRST(&space->node_waits));
}
