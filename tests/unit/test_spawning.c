/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spawns over several nodes: their service processes in one process, with a wire that is a queue
 * and agents that a test speaks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mpi/serve/spawning_impl.h"

#define NODES 4u

/* ---- a wire, agents and a plugin ------------------------------------------------------------- */

struct letter {
	struct letter *next;
	uint32_t from, node;
	uint16_t channel;
	size_t size;
	char data[];
};

struct wire {
	uint32_t node;
};

struct node {
	struct serve serve;
	struct wire wire;
	stepd_mpi_service_t service;
	stepd_step_rec_t job;
	json_t *requested; /* the last that the agent was asked for */
	json_t *dropped;   /* likewise, to end */
	bool link_broken;  /* the agent is asked for nothing */
	unsigned prepared, started, failed;
	uint32_t local_count, ranks[64], commands[64], nodes[64];
	char data[64];
	bool refuses; /* in prepare */
	int fds[64];
};

static struct {
	struct node node[NODES];
	struct letter *first, **last;
	struct stepd_mpi_host host;
	stepd_mpi_wire_t wire;
	bool cut[NODES]; /* nothing gets there or comes from there */
	unsigned done;
	int r;
	uint32_t number, size;
	int errcodes[64];
	bool has_errcodes;
	char why[ERR_TEXT_SIZE];
} rig;

static const char *const names[NODES] = {"n0", "n1", "n2", "n3"};

struct ev_loop *serve_get_loop(const struct serve *s)
{
	return s->loop;
}

const stepd_step_rec_t *serve_get_job(const struct serve *s)
{
	return s->service->job;
}

const struct stepd_mpi_host *serve_get_host(const struct serve *s)
{
	(void)s;
	return &rig.host;
}

void serve_log(struct serve *s, enum log_level level, const char *fmt, ...)
{
	(void)s;
	(void)level;
	(void)fmt;
}

json_int_t serve_next_id(struct serve *s)
{
	return ++s->last_id;
}

int serve_link_send_take(struct serve *s, json_t *message)
{
	struct node *n = (struct node *)s;
	json_t **into = &n->requested;

	assert_non_null(message);
	if (n->link_broken) {
		json_decref(message);
		return -EMSGSIZE;
	}
	if (strcmp(json_string_value(json_object_get(message, "do")), "drop") == 0)
		into = &n->dropped;
	json_decref(*into);
	*into = message;
	return 0;
}

int wire_send(struct wire *w, uint32_t node, uint16_t channel, const struct iovec *iov, int iovcnt,
	struct err *err)
{
	size_t size = iov[0].iov_len + (iovcnt > 1 ? iov[1].iov_len : 0);
	struct letter *l = malloc(sizeof(*l) + size);

	(void)err;
	assert_true(node < NODES);
	assert_non_null(l);
	*l = (struct letter){.from = w->node, .node = node, .channel = channel, .size = size};
	memcpy(l->data, iov[0].iov_base, iov[0].iov_len);
	if (iovcnt > 1)
		memcpy(l->data + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
	*rig.last = l;
	rig.last = &l->next;
	return 0;
}

/* Delivers all, and what comes of it. */
static void deliver(void)
{
	struct wire_block block;
	struct letter *l;

	while ((l = rig.first)) {
		rig.first = l->next;
		if (!rig.first)
			rig.last = &rig.first;
		block = (struct wire_block){.node = l->from, .data = l->data, .size = l->size};
		if (!rig.cut[l->node] && !rig.cut[l->from])
			spawning_take_message(
				rig.node[l->node].serve.spawning, l->from, l->channel, &block);
		free(l);
	}
}

static int prepare(void *userdata, const struct spawn_part *part, struct err *err)
{
	struct node *n = userdata;
	uint32_t i;

	n->prepared++;
	if (n->refuses)
		return err_set_text(err, -ENOSPC, "there is no room");
	n->local_count = part->local_count;
	memcpy(n->data, part->data, part->data_size);
	for (i = 0; i < part->size; i++) {
		n->commands[i] = part->commands[i];
		n->nodes[i] = part->nodes[i];
	}
	for (i = 0; i < part->local_count; i++)
		n->ranks[i] = part->ranks[i];
	assert_int_equal(part->parent, 1);
	assert_int_equal(spawn_environ(part, -1, "ALL", "a"), 0);
	assert_int_equal(spawn_environ(part, part->local_count, "NONE", "x"), -EINVAL);
	if (part->local_count)
		assert_int_equal(spawn_environ(part, 0, "FIRST", "f"), 0);
	return 0;
}

static void started(void *userdata, const struct spawn_part *part, const int *fds)
{
	struct node *n = userdata;
	uint32_t i;

	n->started++;
	for (i = 0; i < part->local_count; i++)
		n->fds[i] = fds[i];
}

static void failed(void *userdata, const struct spawn_part *part)
{
	(void)part;
	((struct node *)userdata)->failed++;
}

static const struct spawn_events events = {prepare, started, failed};

static int set_up(void **state)
{
	static const uint32_t rank_nodes[] = {0, 0, 1, 2}; /* node 3 has none yet */
	uint32_t i;

	(void)state;
	memset(&rig, 0, sizeof(rig));
	rig.last = &rig.first;
	rig.wire.fanout = 2;
	rig.host.wire = &rig.wire;
	for (i = 0; i < NODES; i++) {
		struct node *n = &rig.node[i];

		n->job = (stepd_step_rec_t){.nodeid = i,
			.nnodes = NODES,
			.ntasks = 4,
			.node_names = names,
			.rank_nodes = rank_nodes};
		n->service.job = &n->job;
		n->wire.node = i;
		n->serve = (struct serve){.service = &n->service,
			.wire = &n->wire,
			.loop = ev_loop_new(EVFLAG_NOENV)};
		n->serve.spawning = spawning_new(&n->serve);
		spawn_set_events(&n->serve, &events, n);
	}
	return 0;
}

static int tear_down(void **state)
{
	uint32_t i;

	(void)state;
	rig.cut[0] = rig.cut[1] = rig.cut[2] = rig.cut[3] = true;
	deliver();
	for (i = 0; i < NODES; i++) {
		rig.node[i].serve.spawning = spawning_free(rig.node[i].serve.spawning);
		ev_loop_destroy(rig.node[i].serve.loop);
		json_decref(rig.node[i].requested);
		json_decref(rig.node[i].dropped);
	}
	return 0;
}

static void on_done(void *userdata, int r, uint32_t number, uint32_t size, const int *errcodes,
	const struct err *err)
{
	(void)userdata;
	rig.done++;
	rig.r = r;
	rig.number = number;
	rig.size = size;
	rig.has_errcodes = errcodes;
	if (errcodes)
		memcpy(rig.errcodes, errcodes, size * sizeof(*errcodes));
	(void)snprintf(rig.why, sizeof(rig.why), "%s", err ? err->text : "");
}

static int spawn_on(uint32_t node, uint32_t count, const char *const *hosts, struct err *err)
{
	static char *const argv[] = {(char *)"prog", (char *)"x", NULL},
			   *const env[] = {(char *)"E=1", NULL};
	struct spawn_command commands[] = {
		{.argv = argv, .count = count, .hosts = hosts, .env = env},
		{.argv = argv, .count = 1, .cwd = "/tmp", .hosts = hosts},
	};
	struct spawn_request request = {
		.commands = commands, .count = 2, .data = "keys", .size = 5};

	return spawn_start(&rig.node[node].serve, 1, &request, on_done, NULL, err);
}

static void begin(uint32_t node, uint32_t count)
{
	assert_int_equal(spawn_on(node, count, NULL, NULL), 0);
	deliver();
}

/* The agent of that node answers what it was asked last. */
static void agent_answers(uint32_t node, int error, const char *errors)
{
	struct node *n = &rig.node[node];
	struct link_message m = LINK_MESSAGE_INIT;

	assert_non_null(n->requested);
	m.object = json_pack("{s:s, s:O, s:i, s:s, s:o*}", "tell", "spawned", "id",
		json_object_get(n->requested, "id"), "error", error, "why", "no such program",
		"errors", errors ? json_loads(errors, 0, NULL) : NULL);
	assert_non_null(m.object);
	spawning_take_answer(&n->serve, &m);
	link_message_clear(&m);
	deliver();
}

static void all_agents_answer(void)
{
	uint32_t i;

	for (i = 0; i < NODES; i++) {
		if (rig.node[i].requested)
			agent_answers(i, 0, NULL);
	}
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* 7 + 1 tasks over loads of 2, 1, 1 and 0 make three each; ranks are in the order of the nodes. */
static void tasks_of_a_spawn_are_distributed_by_load(void **state)
{
	static const uint32_t wanted[] = {0, 1, 1, 2, 2, 3, 3, 3};
	struct node *n = &rig.node[3];
	json_t *group;
	uint32_t i;

	(void)state;
	begin(2, 7);
	for (i = 0; i < NODES; i++) {
		assert_int_equal(rig.node[i].prepared, 1);
		assert_string_equal(rig.node[i].data, "keys");
		assert_int_equal(rig.node[i].started, 0);
	}
	for (i = 0; i < 8; i++) {
		assert_int_equal(n->nodes[i], wanted[i]);
		assert_int_equal(n->commands[i], i == 7);
	}
	assert_int_equal(n->local_count, 3);
	assert_int_equal(json_integer_value(json_object_get(n->requested, "first_rank")), 4);
	assert_int_equal(json_integer_value(json_object_get(n->requested, "number")), 1);
	assert_int_equal(json_integer_value(json_object_get(n->requested, "size")), 8);
	group = json_array_get(json_object_get(n->requested, "groups"), 0);
	assert_int_equal(json_integer_value(json_object_get(group, "count")), 2);
	assert_int_equal(json_integer_value(json_object_get(group, "rank")), n->ranks[0]);
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(group, "env"), 0)), "E=1");
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(group, "env"), 1)), "ALL=a");
	assert_int_equal(json_array_size(json_object_get(group, "environ")), 2);
	assert_null(json_object_get(group, "cwd"));
	group = json_array_get(json_object_get(n->requested, "groups"), 1);
	assert_int_equal(json_integer_value(json_object_get(group, "appnum")), 1);
	assert_string_equal(json_string_value(json_object_get(group, "cwd")), "/tmp");
	all_agents_answer();
	assert_int_equal(rig.done, 1);
	assert_int_equal(rig.r, 0);
	assert_int_equal(rig.number, 1);
	assert_int_equal(rig.size, 8);
	assert_true(rig.has_errcodes);
	for (i = 0; i < NODES; i++) {
		assert_int_equal(rig.node[i].started, 1);
		assert_int_equal(rig.node[i].failed, 0);
		assert_true(LIST_EMPTY(&rig.node[i].serve.spawning->parts));
	}
	begin(0, 1); /* the next has other numbers */
	all_agents_answer();
	assert_int_equal(rig.number, 2);
}

static void a_spawn_may_name_its_hosts(void **state)
{
	const char *const hosts[] = {"n2", "n1", "n2", NULL}, *const wrong[] = {"n7", NULL};
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(spawn_on(0, 3, wrong, &err), -ENOENT);
	assert_string_equal(err.text, "spawn: 'n7' is no node of the step");
	assert_int_equal(spawn_on(0, 3, hosts, NULL), 0);
	deliver();
	assert_int_equal(rig.node[1].local_count, 2);
	assert_int_equal(rig.node[2].local_count, 2);
	assert_int_equal(rig.node[3].local_count, 0);
	assert_int_equal(rig.node[3].started, 1); /* there is nothing to wait for */
	assert_null(rig.node[3].requested);
	all_agents_answer();
	assert_int_equal(rig.r, 0);
}

/* One node's agent can't execute them: those of the others end. */
static void a_spawn_that_fails_on_one_node_ends_on_all(void **state)
{
	uint32_t i;

	(void)state;
	begin(1, 7);
	agent_answers(3, 0, NULL);
	agent_answers(1, ENOENT, "[2, 0]");
	assert_int_equal(rig.done, 1);
	assert_int_equal(rig.r, -ENOENT);
	assert_string_equal(rig.why, "no such program");
	assert_true(rig.has_errcodes);
	assert_int_equal(rig.errcodes[0], ECANCELED);
	for (i = 0; rig.node[3].nodes[i] != 1; i++)
		;
	assert_int_equal(rig.errcodes[i], ENOENT);
	assert_int_equal(rig.node[1].failed, 1);
	assert_int_equal(rig.node[3].failed, 0);
	assert_non_null(rig.node[3].dropped);
	for (i = 0; i < rig.node[3].local_count; i++) {
		assert_int_equal(rig.node[3].failed, 0);
		spawning_task_exit(rig.node[3].serve.spawning, 4 + rig.node[3].ranks[i]);
	}
	assert_int_equal(rig.node[3].failed, 1);
	/* One that was not heard of yet is told to drop it, and answers that it has. */
	assert_non_null(rig.node[2].dropped);
	assert_int_equal(rig.node[2].failed, 0);
	agent_answers(2, ECANCELED, NULL);
	assert_int_equal(rig.node[2].failed, 1);
	/* One whose tasks had started by then ends them. */
	agent_answers(0, 0, NULL);
	assert_int_equal(rig.node[0].failed, 0);
	for (i = 0; i < rig.node[0].local_count; i++)
		spawning_task_exit(rig.node[0].serve.spawning, 4 + rig.node[0].ranks[i]);
	assert_int_equal(rig.node[0].failed, 1);
	for (i = 0; i < NODES; i++)
		assert_true(LIST_EMPTY(&rig.node[i].serve.spawning->parts));
	assert_int_equal(rig.done, 1);
}

static void a_spawn_that_the_plugin_refuses_fails(void **state)
{
	(void)state;
	rig.node[2].refuses = true;
	begin(0, 7);
	assert_int_equal(rig.r, -ENOSPC);
	assert_string_equal(rig.why, "there is no room");
	assert_int_equal(rig.node[2].failed, 0);
	agent_answers(0, ECANCELED, NULL);
	assert_int_equal(rig.node[0].failed, 1);
	assert_int_equal(rig.done, 1);
}

static void a_spawn_too_large_for_the_link_fails(void **state)
{
	(void)state;
	rig.node[1].link_broken = true;
	begin(0, 7);
	assert_int_equal(rig.r, -EMSGSIZE);
	assert_non_null(strstr(rig.why, "tasks on a node exceed"));
	assert_int_equal(rig.node[1].failed, 1);
}

/* Node 3 is behind node 1. */
static void a_spawn_fails_when_a_node_is_lost(void **state)
{
	const char *const hosts[] = {"n3", NULL};
	struct err gone = ERR_INIT, err = ERR_INIT;

	(void)state;
	(void)err_set_text(&gone, -EPIPE, "the way to n1 is lost");
	begin(2, 7);
	agent_answers(0, 0, NULL);
	agent_answers(2, 0, NULL);
	agent_answers(1, 0, NULL);
	assert_int_equal(rig.done, 0);
	rig.cut[1] = rig.cut[3] = true;
	spawning_node_lost(rig.node[0].serve.spawning, 1, &gone);
	deliver();
	assert_int_equal(rig.r, -EPIPE);
	assert_string_equal(rig.why, "spawn 1: the way to n1 is lost");
	assert_non_null(rig.node[2].dropped);
	assert_int_equal(spawn_on(2, 1, hosts, &err), 0);
	deliver();
	assert_int_equal(rig.r, -EHOSTUNREACH);
	/* On the other side of it. */
	assert_int_equal(spawn_on(1, 1, NULL, NULL), 0);
	spawning_node_lost(rig.node[1].serve.spawning, 0, &gone);
	assert_int_equal(rig.done, 3);
	assert_non_null(strstr(rig.why, "the way to node 0 is lost"));
	assert_non_null(rig.node[1].dropped);
	assert_int_equal(rig.node[1].failed, 0);
	/* The others do without it. */
	begin(0, 3);
	assert_int_equal(rig.node[2].prepared, 2);
}

static void a_spawn_has_a_deadline(void **state)
{
	(void)state;
	rig.host.timeout_ms = 5;
	begin(1, 7);
	agent_answers(0, 0, NULL);
	ev_run(rig.node[0].serve.loop, 0); /* has nothing but the deadline */
	deliver();
	assert_int_equal(rig.r, -ETIMEDOUT);
	assert_string_equal(rig.why,
		"spawn 1: node 1, n1 has not started its tasks after 5 ms, nor have others");
}

static void a_spawn_whose_agent_is_gone_fails(void **state)
{
	(void)state;
	begin(1, 7);
	spawning_agent_gone(rig.node[2].serve.spawning);
	deliver();
	assert_int_equal(rig.r, -EPIPE);
	assert_string_equal(rig.why, "spawn: the agent of node 2 is gone");
	assert_int_equal(rig.node[2].failed, 1);
}

static void malformed_requests_are_refused(void **state)
{
	static char *const argv[] = {(char *)"prog", NULL}, *const bytes[] = {(char *)"\xff", NULL},
			   *const none[] = {NULL};
	struct spawn_command c = {.argv = argv, .count = SPAWNING_SIZE_MAX + 1};
	struct spawn_request request = {.commands = &c, .count = 1};
	struct serve *s = &rig.node[0].serve;

	(void)state;
	assert_int_equal(spawn_start(s, 1, &request, on_done, NULL, NULL), -E2BIG);
	c.count = 0;
	assert_int_equal(spawn_start(s, 1, &request, on_done, NULL, NULL), -EINVAL);
	c = (struct spawn_command){.argv = none, .count = 1};
	assert_int_equal(spawn_start(s, 1, &request, on_done, NULL, NULL), -EINVAL);
	c.argv = bytes;
	assert_int_equal(spawn_start(s, 1, &request, on_done, NULL, NULL), -EILSEQ);
	request.count = 0;
	assert_int_equal(spawn_start(s, 1, &request, on_done, NULL, NULL), -EINVAL);
}

/* Whatever another node sends harms nobody. */
static void malformed_messages_of_another_node_are_ignored(void **state)
{
	static const char *const rubbish[] = {"", "{", "[]", "{}",
		"{\"number\":1,\"first_rank\":4,\"size\":2,\"parent\":0,\"commands\":[],\"blocks\":[[0,0,2]]}",
		"{\"number\":1,\"first_rank\":4,\"size\":2,\"parent\":0,\"commands\":[{}],\"blocks\":[[0,0,3]]}",
		"{\"number\":1,\"first_rank\":4,\"size\":2,\"parent\":0,\"commands\":[{}],\"blocks\":[[0,0,1]]}",
		"{\"number\":1,\"first_rank\":4,\"size\":2,\"parent\":0,\"commands\":[{}],\"blocks\":[1]}",
		"{\"token\":1,\"commands\":[{\"count\":-1}]}",
		"{\"token\":1,\"commands\":[{\"count\":1,\"hosts\":[9]}]}",
		"{\"token\":77,\"error\":1}", "{\"number\":9,\"error\":0}",
		"{\"number\":9,\"failed\":true}"};
	struct wire_block block;
	uint16_t channel;
	size_t i;

	(void)state;
	for (channel = SPAWNING_REQUEST; channel < SPAWNING_CHANNEL_MAX + 1; channel++) {
		for (i = 0; i < ARRAY_SIZE(rubbish); i++) {
			block = (struct wire_block){
				.data = rubbish[i], .size = strlen(rubbish[i]) + 1};
			spawning_take_message(rig.node[0].serve.spawning, 0, channel, &block);
			block.size--; /* no NUL at its end */
			spawning_take_message(rig.node[0].serve.spawning, 0, channel, &block);
			spawning_take_message(rig.node[2].serve.spawning, 3, channel, &block);
			deliver();
		}
	}
	assert_int_equal(rig.done, 0);
	assert_null(rig.node[0].requested);
}

/* As even as it can be, whatever the nodes have. */
static void the_distribution_is_as_even_as_possible(void **state)
{
	uint32_t load[] = {5, 0, 3, 0, 9}, nodes[] = {0, 1, 2, 3, 4}, before[5], i;
	_cleanup_distribution_ struct distribution distribution = {0};

	(void)state;
	memcpy(before, load, sizeof(load));
	assert_int_equal(distribution_add(&distribution, 0, 7, nodes, 5, load), 0);
	assert_int_equal(load[0], 5);
	assert_int_equal(load[1], 4);
	assert_int_equal(load[2], 3);
	assert_int_equal(load[3], 3);
	assert_int_equal(distribution_add(&distribution, 1, 1000000, nodes, 5, load), 0);
	for (i = 1; i < 5; i++)
		assert_true(load[i] <= load[0] && load[0] <= load[i] + 1);
	distribution_take_back(&distribution, load);
	assert_memory_equal(load, before, sizeof(load));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			tasks_of_a_spawn_are_distributed_by_load, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_spawn_may_name_its_hosts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_spawn_that_fails_on_one_node_ends_on_all, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_spawn_that_the_plugin_refuses_fails, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_spawn_too_large_for_the_link_fails, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_spawn_fails_when_a_node_is_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_spawn_has_a_deadline, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_spawn_whose_agent_is_gone_fails, set_up, tear_down),
		cmocka_unit_test_setup_teardown(malformed_requests_are_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			malformed_messages_of_another_node_are_ignored, set_up, tear_down),
		cmocka_unit_test(the_distribution_is_as_even_as_possible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
