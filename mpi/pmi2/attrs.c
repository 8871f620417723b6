/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Attributes of PMI-2: those of the job, which the server knows or which somebody has put into the
 * space's keys (before a spawn, or with kvs-put), and those that the tasks of one node leave for
 * each other there. Who asks for one of these with wait=TRUE is answered at the put.
 */
#include <string.h>

#include "mpi/pmi2/pmi_impl.h"

struct node_wait {
	TAILQ_ENTRY(node_wait) link;
	struct pmi *pmi;
	struct pmi_space *space;
	struct ask ask;
	char *key;
	size_t key_size;
	struct deadline deadline;
};

static bool get_key(struct ask *ask, const struct pmi_message *m, struct slice *ret_key)
{
	if (pmi_message_get(m, "key", ret_key) && ret_key->size > 0)
		return true;
	answer_fail(ask, PMI_KEY, "a key is missing");
	return false;
}

int attr_get_job(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_space *space = ask->task->space;
	_cleanup_free_ char *netinfo = NULL;
	struct slice key, value;
	char number[16];
	const char *known = NULL;

	if (!get_key(ask, m, &key))
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
		value = (struct slice){known, strlen(known)};
		answer_value(ask, &value);
	} else {
		answer_value(ask, kvs_get(&space->kvs, key, &value) ? &value : NULL);
	}
	return 0;
}

/* ---- of the node ---------------------------------------------------------------------------- */

static void drop(struct node_wait *w)
{
	deadline_stop(w->pmi, &w->deadline);
	TAILQ_REMOVE(&w->space->node_waits, w, link);
	free(w->key);
	free(w);
}

static void on_deadline(struct deadline *d)
{
	struct node_wait *w =
		(struct node_wait *)((char *)d - offsetof(struct node_wait, deadline));

	pmi_log(w->pmi, LOG_LEVEL_ERROR,
		"%s: rank %u has waited for the node attribute '%.*s' for %.3g s (--pmi-timeout)",
		w->space->name, w->ask.task->rank, (int)w->key_size, w->key,
		(double)w->pmi->config.timeout_ms / 1000);
	answer_fail(&w->ask, PMI_OTHER, "nobody has put '%.*s' in time", (int)w->key_size, w->key);
	drop(w);
}

int attr_put_node(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_space *space = ask->task->space;
	struct node_wait *w, *next;
	struct slice key = {"", 0}, value = {"", 0};

	(void)pmi_message_get(m, "key", &key);
	(void)pmi_message_get(m, "value", &value);
	if (!put_is_allowed(ask, key, value))
		return 0;
	if (kvs_set(&space->node_attrs, key, value) < 0) {
		answer_fail(ask, PMI_NOMEM, "there is no memory for it");
		return 0;
	}
	answer_ok(ask);
	for (w = TAILQ_FIRST(&space->node_waits); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->key_size != key.size || memcmp(w->key, key.data, key.size) != 0)
			continue;
		answer_value(&w->ask, &value);
		drop(w);
	}
	return 0;
}

int attr_get_node(struct ask *ask, const struct pmi_message *m)
{
	struct pmi_space *space = ask->task->space;
	struct slice key, value, wait = {"", 0};
	struct node_wait *w;

	if (!get_key(ask, m, &key))
		return 0;
	(void)pmi_message_get(m, "wait", &wait);
	if (kvs_get(&space->node_attrs, key, &value)) {
		answer_value(ask, &value);
		return 0;
	}
	if (!slice_is(wait, "TRUE")) {
		answer_value(ask, NULL);
		return 0;
	}
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct node_wait){
		.pmi = space->pmi, .space = space, .key = slice_dup(key), .key_size = key.size};
	if (!w->key) {
		free(w);
		return -ENOMEM;
	}
	ask_park(&w->ask, ask);
	TAILQ_INSERT_TAIL(&space->node_waits, w, link);
	deadline_start(space->pmi, &w->deadline, on_deadline);
	return 0;
}

void attr_drop_waits(struct pmi_space *space)
{
	while (!TAILQ_EMPTY(&space->node_waits))
		drop(TAILQ_FIRST(&space->node_waits));
}
