/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMI servers whose way to the other nodes is a process manager's: its link, and what tasks hear.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mpi/pmi2/pmi_impl.h"
#include "pmi_scene.h"

static const uint32_t two_and_one[] = {0, 0, 1};

/* What the servers have sent since it was taken last, and what sending returns. */
static struct bytes sent[RIG_NODES_MAX];
static int send_error;

static int on_send(void *userdata, enum manager_type type, struct slice body)
{
	const struct rig_node *node = userdata;

	if (send_error == 0)
		manager_frame_add(&sent[node->node], type, body);
	return send_error;
}

static const struct pmi_manager manager = {.send = on_send};

static int set_up(void **state)
{
	int r = rig_set_up(state);
	struct rig *rig = *state;
	uint32_t i;

	for (i = 0; r == 0 && i < rig->count; i++)
		rig->nodes[i].pmi->config.manager = &manager;
	send_error = 0;
	return r;
}

static int tear_down(void **state)
{
	uint32_t i;

	for (i = 0; i < RIG_NODES_MAX; i++)
		bytes_clear(&sent[i]);
	return rig_tear_down(state);
}

/* The one frame that a node has sent; its body is the caller's to clear. */
static void take_frame(uint32_t node, enum manager_type type, struct bytes *body)
{
	struct manager_frame frame;
	struct slice all = slice_of(&sent[node]);

	assert_int_equal(manager_frame_read(all, &frame), (ssize_t)all.size);
	assert_int_equal(frame.type, type);
	bytes_add(body, frame.body.data, frame.body.size);
	bytes_clear(&sent[node]);
}

static void deliver(
	struct rig *rig, uint32_t node, enum manager_type type, const struct bytes *body)
{
	struct manager_frame frame = {type, slice_of(body)};

	pmi_manager_frame(rig->nodes[node].pmi, &frame);
}

static void a_fence_is_the_managers(void **state)
{
	_cleanup_bytes_ struct bytes pairs = {0}, result = {0};
	struct rig *rig = *state;
	struct slice rest, key, value;

	rig_expect(rig, 0, "cmd=kvs-put;key=a;value=1;", "cmd=kvs-put-response;rc=0;");
	rig_expect(rig, 0, "cmd=kvs-fence;", "");
	assert_int_equal(bytes_size(&sent[0]), 0); /* rank 1 is of this node, too */
	rig_expect(rig, 1, "cmd=kvs-fence;", "");
	take_frame(0, MANAGER_FENCE, &pairs);
	rest = slice_of(&pairs);
	assert_true(manager_pair_take(&rest, &key, &value));
	assert_true(slice_is(key, "a") && slice_is(value, "1") && rest.size == 0);
	bytes_add_u32(&result, 0);
	manager_pair_add(&result, slice_of_text("a"), slice_of_text("1"));
	manager_pair_add(&result, slice_of_text("b"), slice_of_text("2"));
	manager_pair_add(&result, slice_of_text("b"), slice_of_text("3"));
	deliver(rig, 0, MANAGER_FENCED, &result);
	assert_string_equal(rig_hear(rig, 0), "cmd=kvs-fence-response;rc=0;");
	assert_string_equal(rig_hear(rig, 1), "cmd=kvs-fence-response;rc=0;");
	rig_expect(rig, 1, "cmd=kvs-get;key=a;", "cmd=kvs-get-response;rc=0;found=TRUE;value=1;");
	rig_expect(rig, 0, "cmd=kvs-get;key=b;", "cmd=kvs-get-response;rc=0;found=TRUE;value=3;");
	rig_expect(rig, 2, "cmd=kvs-get;key=a;", "cmd=kvs-get-response;rc=0;found=FALSE;");
	assert_string_equal(rig->log, "");
	/* One that nobody waits for. */
	deliver(rig, 0, MANAGER_FENCED, &result);
	rig_expect(rig, 2, "cmd=kvs-fence;", "");
	take_frame(1, MANAGER_FENCE, &pairs);
}

static void fail_fence(struct rig *rig, const struct bytes *result, const char *why)
{
	char expected[300];

	rig_expect(rig, 2, "cmd=kvs-fence;", "");
	deliver(rig, 1, MANAGER_FENCED, result);
	(void)snprintf(expected, sizeof(expected), "cmd=kvs-fence-response;rc=14;errmsg=%s;", why);
	assert_string_equal(rig_hear(rig, 2), expected);
	bytes_clear(&sent[1]);
}

static void a_fence_fails_with_the_managers_reason(void **state)
{
	_cleanup_bytes_ struct bytes error = {0}, none = {0}, torn = {0};
	struct rig *rig = *state;

	bytes_add_u32(&error, 5);
	bytes_add_text(&error, "srun is gone");
	fail_fence(rig, &error, "srun is gone");
	fail_fence(rig, &none, "the step's process manager has sent no result");
	bytes_add_u32(&torn, 0);
	bytes_add_u32(&torn, 7);
	fail_fence(rig, &torn, "the data of the nodes can't be stored");
}

static void what_the_manager_does_not_know_fails(void **state)
{
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	rig_expect(rig, 2, "cmd=ring;ring-count=1;ring-left=l;ring-right=r;",
		"cmd=ring-response;rc=14;errmsg=the step's process manager knows fences of all "
		"ranks alone;");
	rig_expect(rig, 2, "cmd=spawn;ncmds=1;subcmd=x;maxprocs=1;argc=0;",
		"cmd=spawn-response;rc=14;errmsg=spawn: the step's process manager starts no "
		"tasks;errcodes=-1;");
	rig_expect(rig, 2, "cmd=kvs-fence;", "");
	(void)err_set_text(&err, -EPIPE, "it is gone");
	pmi_manager_lost(rig->nodes[1].pmi, &err);
	assert_string_equal(rig_hear(rig, 2), "cmd=kvs-fence-response;rc=14;errmsg=it is gone;");
	send_error = -EPIPE;
	rig_expect(rig, 2, "cmd=kvs-fence;",
		"cmd=kvs-fence-response;rc=14;errmsg=the step's process manager can't be reached;");
}

static void a_rank_that_dies_fails_its_nodes_fence(void **state)
{
	struct rig *rig = *state;

	rig_expect(rig, 0, "cmd=kvs-fence;", "");
	pmi_hung_up(rig_task(rig, 1), "was killed by signal 9");
	assert_string_equal(rig_hear(rig, 0),
		"cmd=kvs-fence-response;rc=14;errmsg=rank 1 on node 0 (n0) was killed by signal 9 "
		"before the fence;");
	assert_int_equal(bytes_size(&sent[0]), 0);
}

static void names_are_the_managers(void **state)
{
	_cleanup_bytes_ struct bytes query = {0}, answer = {0};
	struct rig *rig = *state;
	struct slice rest, name = {0}, value = {0};
	uint32_t id = 0, kind = 0;

	rig_expect(rig, 2, "cmd=name-lookup;name=svc;", "");
	take_frame(1, MANAGER_QUERY, &query);
	rest = slice_of(&query);
	assert_true(slice_take_u32(&rest, &id) && slice_take_u32(&rest, &kind) &&
		slice_take_sized(&rest, &name) && slice_take_sized(&rest, &value));
	assert_int_equal(kind, MANAGER_LOOKUP);
	assert_true(slice_is(name, "svc") && value.size == 0);
	bytes_add_u32(&answer, id);
	bytes_add_u32(&answer, MANAGER_DONE);
	bytes_add_sized(&answer, slice_of_text("port"));
	deliver(rig, 1, MANAGER_ANSWER, &answer);
	assert_string_equal(
		rig_hear(rig, 2), "cmd=name-lookup-response;rc=0;found=TRUE;value=port;port=port;");
	send_error = -EPIPE;
	rig_expect(rig, 2, "cmd=name-publish;name=svc;port=p;",
		"cmd=name-publish-response;rc=14;errmsg=the step's process manager can't be "
		"reached for it;");
}

static void an_abort_is_the_managers(void **state)
{
	_cleanup_bytes_ struct bytes body = {0};
	struct rig *rig = *state;
	struct slice rest;
	uint32_t status;

	rig_expect(rig, 2, "cmd=abort;isworld=TRUE;msg=MPI_Abort(MPI_COMM_WORLD, 7);", "");
	take_frame(1, MANAGER_ABORT, &body);
	rest = slice_of(&body);
	assert_true(slice_take_u32(&rest, &status));
	assert_int_equal(status, 7);
	assert_int_equal(rig->abort_code, -1);
	send_error = -EPIPE;
	rig_expect(rig, 2, "cmd=abort;isworld=TRUE;msg=MPI_Abort(MPI_COMM_WORLD, 7);", "");
	assert_int_equal(rig->abort_code, 7); /* the agent's, on this node */
}

static void frames_are_read_as_they_come(void **state)
{
	_cleanup_bytes_ struct bytes out = {0};
	struct manager_frame frame;
	struct slice all;
	size_t cut;

	(void)state;
	manager_frame_add(&out, MANAGER_ABORT, slice_of_text("abc"));
	all = slice_of(&out);
	for (cut = 0; cut < all.size; cut++)
		assert_int_equal(manager_frame_read((struct slice){all.data, cut}, &frame), 0);
	assert_int_equal(manager_frame_read(all, &frame), all.size);
	assert_true(frame.type == MANAGER_ABORT && slice_is(frame.body, "abc"));
	bytes_clear(&out);
	bytes_add_u32(&out, 0);
	bytes_add_u32(&out, MANAGER_TYPE_MAX);
	assert_int_equal(manager_frame_read(slice_of(&out), &frame), -EBADMSG);
	bytes_clear(&out);
	bytes_add_u32(&out, MANAGER_BODY_MAX + 1);
	bytes_add_u32(&out, MANAGER_FENCE);
	assert_int_equal(manager_frame_read(slice_of(&out), &frame), -EBADMSG);
}

#define MANAGED(test)                                                                              \
	{                                                                                          \
		.name = #test, .test_func = test, .initial_state = (void *)(uintptr_t)&scene,      \
		.setup_func = set_up, .teardown_func = tear_down                                   \
	}

int main(void)
{
	static const struct rig_scene scene = {
		.dialect = &pmi2_dialect, .nodes = 2, .size = 3, .layout = two_and_one};
	const struct CMUnitTest tests[] = {
		MANAGED(a_fence_is_the_managers),
		MANAGED(a_fence_fails_with_the_managers_reason),
		MANAGED(what_the_manager_does_not_know_fails),
		MANAGED(a_rank_that_dies_fails_its_nodes_fence),
		MANAGED(names_are_the_managers),
		MANAGED(an_abort_is_the_managers),
		cmocka_unit_test(frames_are_read_as_they_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
