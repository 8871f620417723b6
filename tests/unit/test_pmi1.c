/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pmi_scene.h"

static const uint32_t in_turn[] = {0, 1, 0, 1};

static const struct rig_scene conversation = {
	.dialect = &pmi1_dialect,
	.nodes = 1,
	.size = 2,
	.lines =
		(const struct rig_line[]){
			{0, "cmd=get_maxes\n",
				"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"},
			{0, "cmd=get_appnum\n", "cmd=appnum appnum=0\n"},
			{0, "cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=7.0\n"},
			{0, "cmd=get_universe_size\n", "cmd=universe_size size=2\n"},
			{0, "cmd=get kvsname=7.0 key=PMI_process_mapping\n",
				"cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n"},
			{0, "cmd=put kvsname=7.0 key=a value=x=y z\n",
				"cmd=put_result rc=0 msg=success\n"},
			{0, "cmd=barrier_in\n", ""},
			{1, "cmd=barrier_in\n", "cmd=barrier_out\n"},
			{0, NULL, "cmd=barrier_out\n"},
			{1, "cmd=get kvsname=7.0 key=a\n",
				"cmd=get_result rc=0 msg=success value=x=y z\n"},
			{1, "cmd=get kvsname=7.0 key=-NONEXIST-KEY\n",
				"cmd=get_result rc=-1 msg=key_not_found\n"},
			{1, "cmd=getbyidx kvsname=7.0 idx=0\n",
				"cmd=getbyidx_results rc=0 nextidx=1 key=a val=x=y z\n"},
			{1, "cmd=getbyidx kvsname=7.0 idx=1\n",
				"cmd=getbyidx_results rc=-2 reason=no_more_keyvals\n"},
			{1, "cmd=finalize\n", "cmd=finalize_ack\n"},
			{.expects = NULL},
		},
};

static const struct rig_scene versions = {
	.dialect = &pmi1_dialect,
	.nodes = 1,
	.size = 1,
	.are_silent = true,
	.lines =
		(const struct rig_line[]){
			{0, "cmd=get_maxes\n", "cmd=maxes rc=-1 msg=init_comes_first\n"},
			{0, "cmd=init pmi_version=1 pmi_subversion=0\n",
				"cmd=response_to_init pmi_version=1 pmi_subversion=0 rc=0\n"},
			{0, "cmd=init pmi_version=1 pmi_subversion=7\n",
				"cmd=response_to_init pmi_version=1 pmi_subversion=2 rc=0\n"},
			{0, "cmd=init pmi_version=3\n",
				"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1\n"},
			{0, "cmd=init pmi_version=2 pmi_subversion=0\n",
				"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"},
			/* The next program of the same task. */
			{0, PMI1_INIT,
				"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
			{0, "cmd=finalize\n", "cmd=finalize_ack\n"},
			{0, "cmd=init pmi_version=2 pmi_subversion=0\n",
				"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"},
			{.expects = NULL},
		},
};

static void messages_may_come_in_any_pieces(void **state)
{
	static const char text[] = PMI1_INIT "cmd=put kvsname=7.0 key=a value=b\ncmd=barrier_in\n"
					     "cmd=get kvsname=7.0 key=a\ncmd=finalize\n";
	static const char answers[] = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
				      "cmd=put_result rc=0 msg=success\ncmd=barrier_out\n"
				      "cmd=get_result rc=0 msg=success value=b\ncmd=finalize_ack\n";
	struct rig rig;
	size_t i;

	(void)state;
	rig_open(&rig, 1, 1, NULL, 0);
	rig_send(&rig, 0, text);
	assert_string_equal(rig_heard(&rig, 0), answers);
	for (i = 0; i + 1 < sizeof(text); i++)
		rig_send_bytes(&rig, 0, text + i, 1);
	assert_string_equal(rig_heard(&rig, 0), answers);
	rig_close(&rig);
}

static void pipelined_barriers_are_answered_in_their_order(void **state)
{
	struct rig rig;
	size_t i, n = 0;
	const char *at;

	(void)state;
	rig_open_all(&rig, &pmi1_dialect, 1, 2, NULL);
	/* What comes behind a barrier sees what was put before it by the other. */
	rig_send(&rig, 0, "cmd=barrier_in\ncmd=get key=late\ncmd=barrier_in\n");
	assert_string_equal(rig_heard(&rig, 0), "");
	rig_send(&rig, 1, "cmd=put key=late value=1\ncmd=barrier_in\n");
	assert_string_equal(
		rig_heard(&rig, 0), "cmd=barrier_out\ncmd=get_result rc=0 msg=success value=1\n");
	assert_string_equal(
		rig_heard(&rig, 1), "cmd=put_result rc=0 msg=success\ncmd=barrier_out\n");
	rig_expect(&rig, 1, "cmd=barrier_in\n", "cmd=barrier_out\n");
	rig_close(&rig);

	rig_open(&rig, 1, 1, NULL, 0);
	rig_send(&rig, 0, PMI1_INIT);
	(void)rig_heard(&rig, 0);
	for (i = 0; i < 50000; i++)
		rig_send(&rig, 0, "cmd=barrier_in\n");
	do {
		at = rig_heard(&rig, 0);
		for (i = 0; at[i]; i++)
			n += at[i] == '\n';
	} while (i > 0);
	assert_int_equal(n, 50000);
	rig_close(&rig);
}

static void keys_and_values_above_the_limits_are_refused(void **state)
{
	struct rig *rig = *state;
	char line[3000], value[1100], key[80];

	memset(value, 'v', sizeof(value));
	memset(key, 'k', sizeof(key));
	(void)snprintf(line, sizeof(line), "cmd=put key=%.64s value=%.1024s\n", key, value);
	rig_expect(rig, 0, line, "cmd=put_result rc=0 msg=success\n");
	(void)snprintf(line, sizeof(line), "cmd=put key=%.65s value=x\n", key);
	rig_expect(rig, 0, line, "cmd=put_result rc=-1 msg=the_key_has_65_bytes,_more_than_64\n");
	(void)snprintf(line, sizeof(line), "cmd=put key=k value=%.1025s\n", value);
	rig_expect(rig, 0, line,
		"cmd=put_result rc=-1 msg=the_value_has_1025_bytes,_more_than_1024\n");
	rig_expect(rig, 0, "cmd=put key= value=x\n", "cmd=put_result rc=-1 msg=a_key_is_missing\n");
	rig_expect(rig, 0, "cmd=put key=k\n", "cmd=put_result rc=-1 msg=a_value_is_missing\n");
	rig_expect(rig, 0, "cmd=put kvsname=8.0 key=k value=x\n",
		"cmd=put_result rc=-1 msg=kvsname_'8.0'_is_unknown_in_this_step\n");
	rig_expect(rig, 0, "cmd=put key=PMI_process_mapping value=x\n",
		"cmd=put_result rc=-1 msg=key_'PMI_process_mapping'_is_the_server's\n");
	rig_expect(rig, 0, "cmd=sing song=1\n", "cmd=sing_result rc=-1 msg=unknown_command\n");
}

static void a_long_mapping_is_written_so_that_clients_can_read_it(void **state)
{
	static uint32_t layout[400];
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < 400; i++)
		layout[i] = (i * i + i / 3) % 7;
	rig_open_all(&rig, &pmi1_dialect, 7, 400, layout);
	rig_expect(&rig, 0, "cmd=get key=PMI_process_mapping\n",
		"cmd=get_result rc=-1 msg=key_not_found\n");
	rig_close(&rig);
}

static void a_malformed_message_ends_that_conversation_alone(void **state)
{
	static const char *const cases[] = {"hello\n", "cmd\n", "=x\n", "\n", "put=x\n",
		"cmd=get_maxes junk\n", "endcmd\n", "mcmd=dance\n", "cmd=init\n"};
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rig_open_all(&rig, &pmi1_dialect, 1, 2, NULL);
		rig_send(&rig, 0, cases[i]);
		assert_true(pmi_has_ended(rig_task(&rig, 0)));
		assert_string_equal(rig.log,
			"7.0: the PMI conversation with rank 0 is ended: it sent data that is no "
			"message of PMI-1 or PMI-2\n");
		/* The other goes on. */
		rig_expect(&rig, 1, "cmd=get_appnum\n", "cmd=appnum appnum=0\n");
		rig_close(&rig);
	}
}

static void a_line_without_end_ends_the_conversation(void **state)
{
	struct rig *rig = *state;
	static char bytes[70000];

	memset(bytes, 'x', sizeof(bytes));
	rig_send(rig, 0, "cmd=put key=");
	rig_send_bytes(rig, 0, bytes, sizeof(bytes));
	assert_true(pmi_has_ended(rig_task(rig, 0)));
}

static void unread_answers_stop_the_conversation(void **state)
{
	struct rig *rig = *state;
	size_t i;

	for (i = 0; i < 200000 && !pmi_is_full(rig_task(rig, 0)); i++)
		rig_send(rig, 0, "cmd=get_maxes\n");
	assert_true(i < 200000); /* it is read no more */
	assert_true(pmi_output(rig_task(rig, 0)).size < 300000);
	rig_expect(rig, 1, "cmd=get_appnum\n", "cmd=appnum appnum=0\n");
	while (rig_heard(rig, 0)[0])
		;
	assert_false(pmi_is_full(rig_task(rig, 0)));
	rig_expect(rig, 0, "cmd=get_appnum\n", "cmd=appnum appnum=0\n");
}

static void barriers_of_groups_wait_for_their_members(void **state)
{
	struct rig *rig = *state;

	rig_expect(rig, 0, "cmd=put key=a value=1\ncmd=barrier_in group=0,1:x\n",
		"cmd=put_result rc=0 msg=success\n");
	rig_expect(rig, 1, "cmd=barrier_in group=1,0:x\n", "cmd=barrier_out rc=0 tag=x\n");
	assert_string_equal(rig_heard(rig, 0), "cmd=barrier_out rc=0 tag=x\n");
	rig_expect(rig, 1, "cmd=get key=a\n", "cmd=get_result rc=0 msg=success value=1\n");
	assert_int_equal(rig->fences_done, 1);

	/* On one node nothing is exchanged. */
	rig_expect(rig, 1, "cmd=barrier_in group=NODE:y\n", "");
	rig_expect(rig, 3, "cmd=barrier_in group=NODE:y\n", "cmd=barrier_out rc=0 tag=y\n");
	assert_string_equal(rig_heard(rig, 1), "cmd=barrier_out rc=0 tag=y\n");
	assert_int_equal(rig->fences_done, 1);

	rig_expect(rig, 0, "cmd=barrier_in group=1,2:x\n",
		"cmd=barrier_out rc=-1 msg=group_'1,2'_is_not_WORLD,_NODE_or_a_list_of_ranks_with_"
		"the_caller's\n");
	rig_expect(rig, 0, "cmd=barrier_in group=0,9\n",
		"cmd=barrier_out rc=-1 msg=group_'0,9'_is_not_WORLD,_NODE_or_a_list_of_ranks_with_"
		"the_caller's\n");

	rig_expect(rig, 0, "cmd=barrier_in group=WORLD:z\n", "");
	rig_expect(rig, 1, "cmd=barrier_in group=WORLD:z\n", "");
	rig_expect(rig, 2, "cmd=barrier_in group=WORLD:z\n", "");
	rig_expect(rig, 3, "cmd=barrier_in group=WORLD:z\n", "cmd=barrier_out rc=0 tag=z\n");
}

static void put(struct rig *rig, uint32_t rank, const char *value)
{
	char sends[100];

	(void)snprintf(sends, sizeof(sends), "cmd=put key=k value=%s\n", value);
	rig_expect(rig, rank, sends, "cmd=put_result rc=0 msg=success\n");
}

/* value NULL: none is found */
static void expect_kvs(struct rig *rig, uint32_t rank, const char *value)
{
	char expects[100] = "cmd=get_result rc=-1 msg=key_not_found\n";

	if (value)
		(void)snprintf(expects, sizeof(expects),
			"cmd=get_result rc=0 msg=success value=%s\n", value);
	rig_expect(rig, rank, "cmd=get key=k\n", expects);
}

static void fence_ranks(struct rig *rig, const char *group, const uint32_t *ranks, size_t count)
{
	char sends[100];
	size_t i;

	(void)snprintf(sends, sizeof(sends), "cmd=barrier_in group=%s:t\n", group);
	for (i = 0; i < count; i++)
		rig_send(rig, ranks[i], sends);
	rig_settle(rig);
	for (i = 0; i < count; i++)
		assert_string_equal(rig_heard(rig, ranks[i]), "cmd=barrier_out rc=0 tag=t\n");
}

/* A barrier of some ranks publishes on their nodes alone, and what is put behind it comes after
 * what was put before, whichever rank is higher. Even ranks are on node 0. */
static void a_barrier_of_a_group_publishes_in_the_order_of_puts(void **state)
{
	struct rig *rig = *state;
	uint32_t i;

	put(rig, 2, "two");
	expect_kvs(rig, 0, NULL);
	rig_expect(rig, 0, "cmd=getbyidx idx=0\n",
		"cmd=getbyidx_results rc=-2 reason=no_more_keyvals\n");
	fence_ranks(rig, "NODE", (uint32_t[]){0, 2}, 2);
	expect_kvs(rig, 0, "two");
	expect_kvs(rig, 1, NULL);
	put(rig, 0, "zero");
	expect_kvs(rig, 0, "two");
	fence_ranks(rig, "0,1", (uint32_t[]){0, 1}, 2);
	expect_kvs(rig, 1, "zero");
	expect_kvs(rig, 2, "zero");
	put(rig, 1, "one");
	fence_ranks(rig, "WORLD", (uint32_t[]){3, 2, 1, 0}, 4);
	for (i = 0; i < 4; i++)
		expect_kvs(rig, i, "one");
	/* At the same time, the highest rank has it. */
	put(rig, 3, "three");
	put(rig, 0, "zero");
	fence_ranks(rig, "0,1", (uint32_t[]){0, 1}, 2);
	expect_kvs(rig, 0, "three");
	fence_ranks(rig, "WORLD", (uint32_t[]){0, 1, 2, 3}, 4);
	for (i = 0; i < 4; i++)
		expect_kvs(rig, i, "three");
}

static void a_barrier_has_a_deadline(void **state)
{
	struct rig *rig = *state;

	rig_send(rig, 0, "cmd=barrier_in\n");
	rig_send(rig, 4, "cmd=barrier_in\n");
	rig_pass(rig, 4999);
	assert_string_equal(rig_heard(rig, 0), "");
	rig_pass(rig, 1);
	assert_string_equal(rig_heard(rig, 0),
		"cmd=barrier_out rc=-1 msg=ranks_1-3,_5-11_did_not_come_to_the_fence_within_5_s_("
		"--pmi-timeout)\n");
	assert_string_equal(rig->log,
		"7.0: PMI fence failed: ranks 1-3, 5-11 did not come to the "
		"fence within 5 s (--pmi-timeout)\n");
	assert_int_not_equal(strlen(rig_heard(rig, 4)), 0);
	assert_int_equal(pmi_next_ms(rig->nodes[0].pmi), 0);
}

static void a_barrier_fails_when_a_rank_dies(void **state)
{
	static const uint32_t layout[] = {0, 0, 1};
	struct rig rig;

	(void)state;
	rig_open_all(&rig, &pmi1_dialect, 1, 3, NULL);
	rig_send(&rig, 0, "cmd=barrier_in\n");
	rig_send(&rig, 1, "cmd=barri");
	pmi_hung_up(rig_task(&rig, 1), NULL);
	assert_string_equal(rig_heard(&rig, 0),
		"cmd=barrier_out rc=-1 msg=rank_1_has_hung_up_without_PMI_Finalize()_before_the_"
		"fence\n");
	rig_expect(&rig, 2, "cmd=barrier_in\n",
		"cmd=barrier_out rc=-1 msg=rank_1_has_hung_up_without_PMI_Finalize()_before_the_"
		"fence\n");
	rig_close(&rig);

	/* Those on other nodes wait no longer either. */
	rig_open_all(&rig, &pmi1_dialect, 2, 3, layout);
	rig_send(&rig, 2, "cmd=barrier_in\n");
	assert_string_equal(rig_heard(&rig, 2), "");
	pmi_hung_up(rig_task(&rig, 0), "was killed by signal 9");
	rig_settle(&rig);
	assert_string_equal(rig_heard(&rig, 2),
		"cmd=barrier_out rc=-1 msg=rank_0_on_node_0_(n0)_was_killed_by_signal_9_before_the_"
		"fence\n");
	rig_close(&rig);

	/* The last of its node: by the way of the exchange too, which says next that the node's
	 * tasks have ended. */
	rig_open_all(&rig, &pmi1_dialect, 2, 2, layout + 1);
	rig_send(&rig, 0, "cmd=barrier_in\n");
	rig.refuse_mail = true;
	pmi_hung_up(rig_task(&rig, 1), "was killed by signal 9");
	rig_settle(&rig);
	assert_string_equal(rig_heard(&rig, 0),
		"cmd=barrier_out rc=-1 msg=rank_1_on_node_1_(n1)_was_killed_by_signal_9_before_the_"
		"fence\n");
	rig_close(&rig);
}

static void an_abort_ends_the_step_with_its_code(void **state)
{
	struct rig *rig = *state;

	rig_expect(rig, 1, "cmd=abort exitcode=7\n", "");
	assert_int_equal(rig->abort_code, 7);
	assert_string_equal(rig->abort_text, "rank 1 called MPI_Abort() with code 7");
	rig_send(rig, 1, "cmd=abort exitcode=256\n");
	assert_int_equal(rig->abort_code, 1);
	rig_send(rig, 1, "cmd=abort exitcode=0\n");
	assert_int_equal(rig->abort_code, 0);
	rig_send(rig, 1, "cmd=abort\n");
	assert_int_equal(rig->abort_code, 1);
}

static const struct rig_scene names = {
	.dialect = &pmi1_dialect,
	.nodes = 2,
	.size = 2,
	.layout = in_turn,
	.lines =
		(const struct rig_line[]){
			{1, "cmd=publish_name service=s port=p:1\n",
				"cmd=publish_result rc=0 msg=success info=ok\n"},
			{0, "cmd=publish_name service=s port=p:2\n",
				"cmd=publish_result rc=-1 msg=the_name_is_published_already\n"},
			{0, "cmd=lookup_name service=s\n",
				"cmd=lookup_result rc=0 msg=success info=ok port=p:1\n"},
			{0, "cmd=unpublish_name service=s\n",
				"cmd=unpublish_result rc=0 msg=success info=ok\n"},
			{1, "cmd=lookup_name service=s\n",
				"cmd=lookup_result rc=-1 msg=there_is_no_such_name\n"},
			{1, "cmd=lookup_name\n",
				"cmd=lookup_result rc=-1 msg=a_name_has_1_to_1024_bytes\n"},
			{.expects = NULL},
		},
};

static void a_request_to_a_lost_node_fails(void **state)
{
	struct rig *rig = *state;

	rig->refuse_mail = true;
	rig_expect(rig, 1, "cmd=lookup_name service=s\n",
		"cmd=lookup_result rc=-1 msg=node_0_can't_be_reached\n");
}

static void a_spawn_is_answered_with_its_job(void **state)
{
	struct rig *rig = *state;

	rig_send(rig, 0,
		"mcmd=spawn\nnprocs=2\nexecname=/bin/a\ntotspawns=2\nspawnssofar=1\narg1=x y\n"
		"arg2=z=1\nargcnt=2\npreput_num=1\npreput_key_0=port\npreput_val_0=a b\n"
		"info_num=2\ninfo_key_0=wdir\ninfo_val_0=/tmp\ninfo_key_1=host\ninfo_val_1=n1,n2\n"
		"endcmd\n");
	assert_string_equal(rig_heard(rig, 0), "");
	rig_expect(rig, 0,
		"mcmd=spawn\nnprocs=1\nexecname=b\ntotspawns=2\nspawnssofar=2\nargcnt=0\n"
		"preput_num=0\ninfo_num=0\nendcmd\n",
		"cmd=spawn_result rc=0 jobid=7.0.1 errcodes=0,0,0\n");
	assert_string_equal(rig->spawned, "/bin/a x y z=1 x 2 in /tmp on n1 on n2; b x 1; ");
	rig_expect(rig, 1001, PMI1_INIT "cmd=get_my_kvsname\ncmd=get key=port\n",
		"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
		"cmd=my_kvsname kvsname=7.0.1\ncmd=get_result rc=0 msg=success value=a b\n");
	/* A fence there waits for nobody here. */
	rig_send(rig, 1000, PMI1_INIT "cmd=barrier_in\n");
	rig_send(rig, 1002, PMI1_INIT "cmd=barrier_in\n");
	rig_expect(rig, 1001, "cmd=barrier_in\n", "cmd=barrier_out\n");

	rig->spawn_error = -ENOSPC;
	rig_expect(rig, 0, "mcmd=spawn\nnprocs=1\nexecname=b\nendcmd\n",
		"cmd=spawn_result rc=-1 msg=no_spawn_today errcodes=-1\n");
	rig_expect(rig, 0, "mcmd=spawn\nnprocs=0\nexecname=b\nendcmd\n",
		"cmd=spawn_result rc=-1 msg=spawn_can't_be_understood\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLAY(conversation),
		PLAY(versions),
		cmocka_unit_test(messages_may_come_in_any_pieces),
		cmocka_unit_test(pipelined_barriers_are_answered_in_their_order),
		IN_SCENE(keys_and_values_above_the_limits_are_refused, pmi1_dialect, 1, 1, NULL),
		cmocka_unit_test(a_long_mapping_is_written_so_that_clients_can_read_it),
		cmocka_unit_test(a_malformed_message_ends_that_conversation_alone),
		IN_SCENE(a_line_without_end_ends_the_conversation, pmi1_dialect, 1, 1, NULL),
		IN_SCENE(unread_answers_stop_the_conversation, pmi1_dialect, 1, 2, NULL),
		IN_SCENE(barriers_of_groups_wait_for_their_members, pmi1_dialect, 2, 4, in_turn),
		IN_SCENE(a_barrier_of_a_group_publishes_in_the_order_of_puts, pmi1_dialect, 2, 4,
			in_turn),
		IN_SCENE(a_barrier_has_a_deadline, pmi1_dialect, 1, 12, NULL),
		cmocka_unit_test(a_barrier_fails_when_a_rank_dies),
		IN_SCENE(an_abort_ends_the_step_with_its_code, pmi1_dialect, 1, 2, NULL),
		PLAY(names),
		IN_SCENE(a_request_to_a_lost_node_fails, pmi1_dialect, 2, 2, in_turn),
		IN_SCENE(a_spawn_is_answered_with_its_job, pmi1_dialect, 1, 1, NULL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
