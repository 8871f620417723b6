/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pmi_scene.h"

static const uint32_t in_turn[] = {0, 1, 0, 1, 2}, two_and_one[] = {0, 0, 1};

static const struct rig_scene conversation = {
	.dialect = &pmi2_dialect,
	.nodes = 1,
	.size = 2,
	.lines =
		(const struct rig_line[]){
			{0, "cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=7.0;"},
			{0, "cmd=kvs-put;key=a;value=b=c;;d\ne f;", "cmd=kvs-put-response;rc=0;"},
			{0, "cmd=kvs-fence;", ""},
			{1, "cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0;"},
			{0, NULL, "cmd=kvs-fence-response;rc=0;"},
			{1, "cmd=kvs-get;jobid=7.0;srcid=-1;key=a;",
				"cmd=kvs-get-response;rc=0;found=TRUE;value=b=c;;d\ne f;"},
			{1, "cmd=kvs-get;key=-NONEXIST-KEY;",
				"cmd=kvs-get-response;rc=0;found=FALSE;"},
			{1, "cmd=kvs-get;jobid=8.0;key=a;",
				"cmd=kvs-get-response;rc=3;errmsg=jobid '8.0' is unknown in this step;"},
			{1, "cmd=info-getjobattr;key=PMI_process_mapping;",
				"cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,1,2));"},
			{1, "cmd=info-getjobattr;key=universeSize;",
				"cmd=info-getjobattr-response;rc=0;found=TRUE;value=2;"},
			{1, "cmd=info-getjobattr;key=mpi_reserved_ports;",
				"cmd=info-getjobattr-response;rc=0;found=FALSE;"},
			{1, "cmd=info-getjobattr;key=a;",
				"cmd=info-getjobattr-response;rc=0;found=TRUE;value=b=c;;d\ne f;"},
			{1, "cmd=job-connect;jobid=7.0;",
				"cmd=job-connect-response;rc=0;kvscopy=FALSE;"},
			{1, "cmd=job-disconnect;jobid=7.0;", "cmd=job-disconnect-response;rc=0;"},
			{1, "cmd=sing;song=1;thrid=4;",
				"cmd=sing-response;thrid=4;rc=14;errmsg=unknown command;"},
			{1, "cmd=finalize;", "cmd=finalize-response;rc=0;"},
			{.expects = NULL},
		},
};

static void node_attributes_are_the_nodes_own(void **state)
{
	struct rig *rig = *state;

	rig_expect(rig, 0, "cmd=info-getnodeattr;key=x;",
		"cmd=info-getnodeattr-response;rc=0;found=FALSE;");
	rig_expect(rig, 0, "cmd=info-getnodeattr;key=x;wait=TRUE;", "");
	rig_expect(rig, 2, "cmd=info-putnodeattr;key=x;value=other;",
		"cmd=info-putnodeattr-response;rc=0;");
	assert_string_equal(rig_hear(rig, 0), ""); /* of another node */
	rig_expect(rig, 1, "cmd=info-putnodeattr;key=x;value=1;",
		"cmd=info-putnodeattr-response;rc=0;");
	assert_string_equal(
		rig_hear(rig, 0), "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=1;");
	rig_expect(rig, 0, "cmd=info-getnodeattr;key=y;wait=TRUE;", "");
	rig_pass(rig, 5000);
	assert_string_equal(rig_hear(rig, 0),
		"cmd=info-getnodeattr-response;rc=14;errmsg=nobody has put 'y' in time;");
	assert_string_equal(rig->log,
		"7.0: rank 0 has waited for the node attribute 'y' for 5 s "
		"(--pmi-timeout)\n");
}

/* With thread ids, one thread waits and the others go on. */
static void a_request_with_a_thread_id_holds_that_thread_alone(void **state)
{
	struct rig *rig = *state;

	rig_expect(rig, 0, "cmd=info-getnodeattr;key=x;wait=TRUE;thrid=1;", "");
	rig_expect(rig, 0, "cmd=info-putnodeattr;key=y;value=1;thrid=2;",
		"cmd=info-putnodeattr-response;thrid=2;rc=0;");
	rig_send2(rig, 1, "cmd=info-putnodeattr;key=x;value=5;");
	assert_string_equal(
		rig_hear(rig, 0), "cmd=info-getnodeattr-response;thrid=1;rc=0;found=TRUE;value=5;");
	/* Two threads of a rank fence: one rank, and two fences. */
	rig_expect(rig, 0, "cmd=kvs-fence;thrid=1;", "");
	rig_expect(rig, 0, "cmd=kvs-fence;thrid=2;", "");
	(void)rig_hear(rig, 1);
	rig_expect(rig, 1, "cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0;");
	assert_string_equal(rig_hear(rig, 0), "cmd=kvs-fence-response;thrid=1;rc=0;");
	rig_expect(rig, 1, "cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0;");
	assert_string_equal(rig_hear(rig, 0), "cmd=kvs-fence-response;thrid=2;rc=0;");
}

/* Without, what comes behind a fence comes after it. */
static void without_thread_ids_requests_are_answered_in_order(void **state)
{
	struct rig *rig = *state;

	rig_send(rig, 0, "14    cmd=kvs-fence;18    cmd=kvs-get;key=a;14    cmd=kvs-fence;");
	assert_string_equal(rig_hear(rig, 0), "");
	rig_send(rig, 1, "26    cmd=kvs-put;key=a;value=1;");
	rig_send(rig, 1, "  0014cmd=kvs-fence;");
	assert_string_equal(rig_heard(rig, 0),
		"28    cmd=kvs-fence-response;rc=0;"
		"45    cmd=kvs-get-response;rc=0;found=TRUE;value=1;");
}

static void values_up_to_the_limit_are_unchanged(void **state)
{
	struct rig *rig = *state;
	const size_t most = 999999 - 1024;
	char *message = malloc(1100000);
	const char *heard;
	size_t i, size;

	assert_non_null(message);
	for (i = 0; i < 2; i++) {
		size = most + i + strlen("cmd=kvs-put;key=a;value=;");
		(void)snprintf(message, 100, "%-6zucmd=kvs-put;key=a;value=", size);
		memset(message + strlen(message), 'x', most + i + 1);
		message[6 + size - 1] = ';';
		rig_send_bytes(rig, 0, message, 6 + size);
		assert_string_equal(rig_hear(rig, 0),
			i == 0 ? "cmd=kvs-put-response;rc=0;"
			       : "cmd=kvs-put-response;rc=7;errmsg=the value has "
				 "998976 bytes, more than 998975;");
	}
	rig_expect(rig, 0, "cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0;");
	rig_send2(rig, 0, "cmd=kvs-get;key=a;");
	heard = rig_hear(rig, 0);
	assert_int_equal(
		strlen(heard), strlen("cmd=kvs-get-response;rc=0;found=TRUE;value=;") + most);
	free(message);
}

static void keys_above_the_limit_are_refused(void **state)
{
	struct rig *rig = *state;
	char body[200];

	(void)snprintf(body, sizeof(body), "cmd=kvs-put;key=%065d;value=1;", 0);
	rig_expect(rig, 0, body,
		"cmd=kvs-put-response;rc=5;errmsg=the key has 65 bytes, more than 64;");
	rig_expect(rig, 0, "cmd=kvs-put;value=1;",
		"cmd=kvs-put-response;rc=4;errmsg=a key is missing;");
	rig_expect(rig, 0, "cmd=kvs-get;", "cmd=kvs-get-response;rc=4;errmsg=a key is missing;");
}

static void a_malformed_message_ends_that_conversation_alone(void **state)
{
	static const char *const cases[] = {"      cmd=x;", "12x   cmd=x;", "0     ",
		"1 2   cmd=x;", "-1    x", "5     =abc;", "4     abc;", "9     abc;cmd=1",
		"7     key=cmd", "\n", "hello", "cmd=get_maxes\n", "cmd=inix"};
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rig_open_all(&rig, &pmi2_dialect, 1, 2, NULL);
		rig_send(&rig, 0, cases[i]);
		if (!pmi_has_ended(rig_task(&rig, 0)))
			fail_msg("'%s' is taken", cases[i]);
		rig_expect(&rig, 1, "cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=7.0;");
		rig_close(&rig);
	}
}

static void a_fence_brings_the_values_of_all_nodes(void **state)
{
	struct rig *rig = *state;
	char sends[100], expects[100];
	uint32_t i, k;

	for (k = 0; k < 3; k++) {
		for (i = 0; i < 5; i++) {
			(void)snprintf(sends, sizeof(sends), "cmd=kvs-put;key=%u.%u;value=;", k, i);
			rig_expect(rig, i, sends, "cmd=kvs-put-response;rc=0;");
			rig_expect(rig, i, "cmd=kvs-fence;",
				i < 4 ? "" : "cmd=kvs-fence-response;rc=0;");
		}
		for (i = 0; i < 5; i++) {
			(void)snprintf(
				sends, sizeof(sends), "cmd=kvs-get;key=%u.%u;", k, (i + 1) % 5);
			(void)snprintf(expects, sizeof(expects),
				"cmd=kvs-get-response;rc=0;found=TRUE;value=;");
			if (i < 4)
				(void)rig_hear(rig, i);
			rig_expect(rig, i, sends, expects);
		}
	}
	rig_expect(rig, 3, "cmd=info-getjobattr;key=PMI_process_mapping;",
		"cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,2,1),(0,3,1));");
	assert_int_equal(rig->fences_done, 3);
}

static void put(struct rig *rig, uint32_t rank, const char *key, const char *value)
{
	char sends[100];

	(void)snprintf(sends, sizeof(sends), "cmd=kvs-put;key=%s;value=%s;", key, value);
	rig_expect(rig, rank, sends, "cmd=kvs-put-response;rc=0;");
}

/* value NULL: none is found */
static void expect_kvs(struct rig *rig, uint32_t rank, const char *key, const char *value)
{
	char sends[100], expects[100];

	(void)snprintf(sends, sizeof(sends), "cmd=kvs-get;key=%s;", key);
	(void)snprintf(expects, sizeof(expects), "cmd=kvs-get-response;rc=0;found=%s;%s%s%s",
		value ? "TRUE" : "FALSE", value ? "value=" : "", value ? value : "",
		value ? ";" : "");
	rig_expect(rig, rank, sends, expects);
}

static void fence_all(struct rig *rig, uint32_t size)
{
	uint32_t i;

	for (i = 0; i < size; i++)
		rig_send2(rig, i, "cmd=kvs-fence;");
	rig_settle(rig);
	for (i = 0; i < size; i++)
		assert_string_equal(rig_hear(rig, i), "cmd=kvs-fence-response;rc=0;");
}

/* The highest rank's last put, on all nodes, whoever put it first and wherever. */
static void the_highest_ranks_last_put_of_a_key_counts(void **state)
{
	struct rig *rig = *state;
	uint32_t i;

	put(rig, 4, "k", "early");
	put(rig, 4, "k", "four");
	put(rig, 0, "k", "zero");
	put(rig, 3, "k", "three");
	put(rig, 1, "own", "one");
	fence_all(rig, 5);
	for (i = 0; i < 5; i++) {
		expect_kvs(rig, i, "k", "four");
		expect_kvs(rig, i, "own", "one");
	}
	/* What a fence has published gives way to a lower rank's later put. */
	put(rig, 0, "k", "again");
	fence_all(rig, 5);
	for (i = 0; i < 5; i++)
		expect_kvs(rig, i, "k", "again");
}

/* A put is seen after a fence, by its own rank and node too, and never by a get before it. */
static void a_put_is_visible_after_a_fence_only(void **state)
{
	struct rig *rig = *state;

	put(rig, 0, "k", "1");
	expect_kvs(rig, 0, "k", NULL);
	expect_kvs(rig, 1, "k", NULL);
	rig_expect(rig, 0, "cmd=info-getjobattr;key=k;",
		"cmd=info-getjobattr-response;rc=0;found=FALSE;");
	fence_all(rig, 3);
	put(rig, 0, "k", "2");
	expect_kvs(rig, 0, "k", "1");
	expect_kvs(rig, 1, "k", "1");
	expect_kvs(rig, 2, "k", "1");
	/* Nor does a slower rank that leaves the fence later. */
	rig_send2(rig, 0, "cmd=kvs-fence;");
	rig_send2(rig, 2, "cmd=kvs-fence;");
	rig_send2(rig, 1, "cmd=kvs-fence;");
	rig_settle(rig);
	assert_string_equal(rig_hear(rig, 0), "cmd=kvs-fence-response;rc=0;");
	put(rig, 0, "k", "3");
	assert_string_equal(rig_hear(rig, 1), "cmd=kvs-fence-response;rc=0;");
	assert_string_equal(rig_hear(rig, 2), "cmd=kvs-fence-response;rc=0;");
	expect_kvs(rig, 1, "k", "2");
	expect_kvs(rig, 2, "k", "2");
}

/* Another thread's put while the fence is under way is of the next one. */
static void a_put_during_a_fence_belongs_to_the_next_one(void **state)
{
	struct rig *rig = *state;

	rig_expect(rig, 2, "cmd=kvs-put;key=k;value=before;thrid=1;",
		"cmd=kvs-put-response;thrid=1;rc=0;");
	rig_send2(rig, 2, "cmd=kvs-fence;thrid=1;");
	rig_expect(rig, 2, "cmd=kvs-put;key=k;value=during;thrid=2;",
		"cmd=kvs-put-response;thrid=2;rc=0;");
	rig_send2(rig, 0, "cmd=kvs-fence;");
	rig_send2(rig, 1, "cmd=kvs-fence;");
	rig_settle(rig);
	assert_string_equal(rig_hear(rig, 2), "cmd=kvs-fence-response;thrid=1;rc=0;");
	assert_string_equal(rig_hear(rig, 0), "cmd=kvs-fence-response;rc=0;");
	assert_string_equal(rig_hear(rig, 1), "cmd=kvs-fence-response;rc=0;");
	expect_kvs(rig, 0, "k", "before");
	expect_kvs(rig, 2, "k", "before");
	fence_all(rig, 3);
	expect_kvs(rig, 0, "k", "during");
	expect_kvs(rig, 2, "k", "during");
}

static void the_deadline_of_a_fence_names_the_missing_ranks(void **state)
{
	struct rig *rig = *state;
	char text[100] = "";

	rig_send2(rig, 0, "cmd=kvs-fence;");
	rig_pass(rig, 5000);
	assert_string_equal(rig_hear(rig, 0),
		"cmd=kvs-fence-response;rc=14;errmsg=missing are rank 1 on n0, rank 2 on n1;");
	assert_non_null(strstr(rig->log, "PMI fence failed: missing are rank 1 on n0, rank 2 on"));
	pmi_missing(rig->nodes[0].pmi, 12345, text, sizeof(text));
	assert_string_equal(text, "");
}

/* A rank that has died fails every later fence of the other nodes at once; one that has finalized
 * does not. */
static void later_fences_fail_at_once_when_a_rank_has_died(void **state)
{
	static const uint32_t layout[] = {0, 0, 1, 1};
	static const char failed[] =
		"cmd=kvs-fence-response;rc=14;errmsg=rank 3 on node 1 (n1) was killed before "
		"the fence;";
	struct rig rig;
	uint32_t i, turn;

	(void)state;
	rig_open_all(&rig, &pmi2_dialect, 2, 4, layout);
	for (i = 0; i < 4; i++) {
		if (i != 1)
			rig_send2(&rig, i, "cmd=kvs-fence;");
	}
	pmi_hung_up(rig_task(&rig, 3), "was killed");
	rig_settle(&rig);
	rig_send2(&rig, 1, "cmd=kvs-fence;");
	for (i = 0; i < 3; i++)
		assert_string_equal(rig_hear(&rig, i), failed);
	for (turn = 0; turn < 3; turn++) {
		for (i = 0; i < 2; i++)
			rig_expect(&rig, i, "cmd=kvs-fence;", failed);
	}
	rig_expect(&rig, 2, "cmd=kvs-fence;", failed);
	rig_expect(&rig, 0, "cmd=ring;ring-count=1;ring-left=l;ring-right=r;",
		"cmd=ring-response;rc=14;errmsg=rank 3 on node 1 (n1) was killed before the ring;");
	rig_close(&rig);

	/* while all of another node wait in it */
	rig_open_all(&rig, &pmi2_dialect, 2, 4, layout);
	rig_send2(&rig, 0, "cmd=kvs-fence;");
	rig_send2(&rig, 1, "cmd=kvs-fence;");
	pmi_hung_up(rig_task(&rig, 3), "was killed");
	rig_settle(&rig);
	for (i = 0; i < 2; i++)
		assert_string_equal(rig_hear(&rig, i), failed);
	rig_close(&rig);

	rig_open_all(&rig, &pmi2_dialect, 2, 4, layout);
	rig_expect(&rig, 3, "cmd=finalize;", "cmd=finalize-response;rc=0;");
	pmi_hung_up(rig_task(&rig, 3), NULL);
	rig_settle(&rig);
	rig_send2(&rig, 0, "cmd=kvs-fence;");
	assert_string_equal(rig_heard(&rig, 0), "");
	rig_close(&rig);
}

/* Both ranks of a node have sent a further fence already when their fence fails: the first of them
 * ends that one, which is still under way when the other comes, who does not begin it again. */
static void a_fence_that_failed_is_not_begun_again_by_late_ranks(void **state)
{
	static const uint32_t layout[] = {0, 0, 1};
	static const char failed[] =
		"cmd=kvs-fence-response;rc=14;errmsg=rank 2 on node 1 (n1) was killed before "
		"the fence;";
	char twice[300];
	struct rig rig;
	uint32_t i;

	(void)state;
	rig_open_all(&rig, &pmi2_dialect, 2, 3, layout);
	for (i = 0; i < 4; i++)
		rig_send2(&rig, i / 2, "cmd=kvs-fence;");
	pmi_hung_up(rig_task(&rig, 2), "was killed");
	rig_settle(&rig);
	(void)snprintf(twice, sizeof(twice), "%-6zu%s%-6zu%s", strlen(failed), failed,
		strlen(failed), failed);
	for (i = 0; i < 2; i++)
		assert_string_equal(rig_heard(&rig, i), twice);
	rig_close(&rig);
}

static void a_ring_gives_each_rank_its_neighbours(void **state)
{
	static const uint32_t layout[] = {0, 1, 0, 1, 1};
	static const char *const expects[] = {
		"cmd=ring-response;rc=0;ring-count=0;ring-left=r4;ring-right=l1;",
		"cmd=ring-response;rc=0;ring-count=1;ring-left=r0;ring-right=l2;",
		"cmd=ring-response;rc=0;ring-count=3;ring-left=r1;ring-right=l3;",
		"cmd=ring-response;rc=0;ring-count=6;ring-left=r2;ring-right=l4;",
		"cmd=ring-response;rc=0;ring-count=10;ring-left=r3;ring-right=l0;",
	};
	struct rig rig;
	char sends[100];
	uint32_t i, nodes;

	(void)state;
	for (nodes = 1; nodes <= 2; nodes++) {
		rig_open_all(&rig, &pmi2_dialect, nodes, 5, nodes == 1 ? NULL : layout);
		for (i = 0; i < 5; i++) {
			(void)snprintf(sends, sizeof(sends),
				"cmd=ring;ring-count=%u;ring-left=l%u;ring-right=r%u;", i + 1, i,
				i);
			rig_send2(&rig, i, sends);
		}
		for (i = 0; i < 5; i++)
			assert_string_equal(rig_hear(&rig, i), expects[i]);
		rig_close(&rig);
	}
}

static const struct rig_scene names = {
	.dialect = &pmi2_dialect,
	.nodes = 2,
	.size = 2,
	.layout = in_turn,
	.lines =
		(const struct rig_line[]){
			{1, "cmd=name-publish;name=a;;b;port=p;;q;infokeycount=0;",
				"cmd=name-publish-response;rc=0;"},
			{0, "cmd=name-lookup;name=a;;b;infokeycount=0;",
				"cmd=name-lookup-response;rc=0;found=TRUE;value=p;;q;port=p;;q;"},
			{0, "cmd=name-publish;name=a;;b;port=p;",
				"cmd=name-publish-response;rc=14;errmsg=the name is published already;"},
			{0, "cmd=name-unpublish;name=a;;b;", "cmd=name-unpublish-response;rc=0;"},
			{0, "cmd=name-unpublish;name=a;;b;",
				"cmd=name-unpublish-response;rc=14;errmsg=there is no such name;"},
			{.expects = NULL},
		},
};

/* The answer is not awaited for ever, and one that comes late is for nobody. */
static void a_query_to_another_node_has_a_deadline(void **state)
{
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	pmi_input(rig_task(rig, 1), "28    cmd=name-lookup;name=svc123;", 34);
	rig->now_ms += 5000;
	pmi_expire(rig->nodes[1].pmi);
	assert_string_equal(rig_hear(rig, 1),
		"cmd=name-lookup-response;rc=14;errmsg=node 0 has not answered within 5 s;");
	rig_settle(rig);
	assert_string_equal(rig_hear(rig, 1), "");
	pmi_input(rig_task(rig, 1), "28    cmd=name-lookup;name=svc123;", 34);
	(void)err_set_text(&err, -ECONNRESET, "node 0 is lost");
	pmi_lost(rig->nodes[1].pmi, 0, &err);
	assert_string_equal(
		rig_hear(rig, 1), "cmd=name-lookup-response;rc=14;errmsg=node 0 is lost;");
}

static void a_spawn_is_answered_with_its_job(void **state)
{
	struct rig *rig = *state;

	rig_expect(rig, 0,
		"cmd=spawn;ncmds=2;preputcount=1;ppkey0=k;ppval0=v;;1;subcmd=/a;maxprocs=2;argc=2;"
		"argv0=x=1;argv1=y z;infokeycount=1;infokey0=wdir;infoval0=/d;subcmd=b;maxprocs=1;"
		"argc=0;infokeycount=0;",
		"cmd=spawn-response;rc=0;jobid=7.0.1;errcodes=0,0,0;");
	assert_string_equal(rig->spawned, "/a x=1 y z x 2 in /d; b x 1; ");
	rig_send(rig, 1000, PMI2_INIT);
	(void)rig_heard(rig, 1000);
	rig_expect(rig, 1000, "cmd=fullinit;",
		"cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=3;appnum=0;"
		"spawner-jobid=7.0;debugged=FALSE;pmiverbose=FALSE;");
	rig_expect(rig, 1000, "cmd=kvs-get;key=k;",
		"cmd=kvs-get-response;rc=0;found=TRUE;value=v;;1;");
	/* From the other node, where none of them is. */
	rig_expect(rig, 1, "cmd=kvs-get;jobid=7.0.1;key=k;",
		"cmd=kvs-get-response;rc=0;found=TRUE;value=v;;1;");
	rig_expect(rig, 1, "cmd=abort;isworld=TRUE;msg=bad;", "");
	assert_int_equal(rig->abort_code, 1);
	rig_expect(rig, 0, "cmd=spawn;ncmds=2;subcmd=a;",
		"cmd=spawn-response;rc=3;errmsg=the spawn request can't be parsed;");
	rig_expect(rig, 0, "cmd=spawn;ncmds=1;maxprocs=1;",
		"cmd=spawn-response;rc=3;errmsg=the spawn request can't be parsed;");
	rig->hold_spawns = true;
	rig_expect(rig, 0, "cmd=spawn;ncmds=1;subcmd=a;maxprocs=2;", "");
	rig_finish_spawn(rig, -ENOENT);
	assert_string_equal(rig_hear(rig, 0),
		"cmd=spawn-response;rc=14;errmsg=the spawn has failed;errcodes=-1,-1;");
}

static void an_abort_takes_its_code_from_the_text(void **state)
{
	struct rig *rig = *state;

	rig_expect(rig, 0,
		"cmd=abort;isworld=TRUE;msg=application called MPI_Abort(MPI_COMM_WORLD, 7) - process 0;",
		"");
	assert_int_equal(rig->abort_code, 7);
	assert_string_equal(rig->abort_text,
		"rank 0 called MPI_Abort() with code 7: application "
		"called MPI_Abort(MPI_COMM_WORLD, 7) - process 0");
	rig->abort_code = -1;
	rig_expect(rig, 0, "cmd=abort;isworld=FALSE;msg=x;", "");
	assert_int_equal(rig->abort_code, -1);
}

/* PMI-1 and PMI-2 in one step. */
static void both_protocols_meet_in_one_step(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, 1, 2, NULL, 0);
	rig.dialect = &pmi2_dialect;
	rig_send(&rig, 0, PMI2_INIT);
	rig_send(&rig, 1, "cmd=init pmi_version=1 pmi_subversion=1\n");
	(void)rig_heard(&rig, 0);
	(void)rig_heard(&rig, 1);
	rig_expect(&rig, 0, "cmd=kvs-put;key=a;value=1\n2;", "cmd=kvs-put-response;rc=0;");
	rig_expect(&rig, 0, "cmd=kvs-put;key=b;value=3;;4;", "cmd=kvs-put-response;rc=0;");
	rig_expect(&rig, 0, "cmd=kvs-fence;", "");
	rig_send(&rig, 1, "cmd=barrier_in\n");
	assert_string_equal(rig_heard(&rig, 1), "cmd=barrier_out\n");
	assert_string_equal(rig_hear(&rig, 0), "cmd=kvs-fence-response;rc=0;");
	rig_send(&rig, 1, "cmd=get key=a\ncmd=get key=b\ncmd=getbyidx idx=0\n");
	assert_string_equal(rig_heard(&rig, 1),
		"cmd=get_result rc=-1 msg=the_value_can't_be_sent_in_PMI-1\n"
		"cmd=get_result rc=0 msg=success value=3;4\n"
		"cmd=getbyidx_results rc=0 nextidx=2 key=b val=3;4\n");
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLAY(conversation),
		IN_SCENE(node_attributes_are_the_nodes_own, pmi2_dialect, 2, 3, two_and_one),
		IN_SCENE(a_request_with_a_thread_id_holds_that_thread_alone, pmi2_dialect, 1, 2,
			NULL),
		IN_SCENE(without_thread_ids_requests_are_answered_in_order, pmi2_dialect, 1, 2,
			NULL),
		IN_SCENE(values_up_to_the_limit_are_unchanged, pmi2_dialect, 1, 1, NULL),
		IN_SCENE(keys_above_the_limit_are_refused, pmi2_dialect, 1, 1, NULL),
		cmocka_unit_test(a_malformed_message_ends_that_conversation_alone),
		IN_SCENE(a_fence_brings_the_values_of_all_nodes, pmi2_dialect, 3, 5, in_turn),
		IN_SCENE(the_highest_ranks_last_put_of_a_key_counts, pmi2_dialect, 3, 5, in_turn),
		TEST_OF("test_same_key_one_node", the_highest_ranks_last_put_of_a_key_counts,
			(&(struct rig_scene){.dialect = &pmi2_dialect, .nodes = 1, .size = 5})),
		IN_SCENE(a_put_is_visible_after_a_fence_only, pmi2_dialect, 2, 3, two_and_one),
		IN_SCENE(a_put_during_a_fence_belongs_to_the_next_one, pmi2_dialect, 2, 3,
			two_and_one),
		IN_SCENE(the_deadline_of_a_fence_names_the_missing_ranks, pmi2_dialect, 2, 3,
			two_and_one),
		cmocka_unit_test(later_fences_fail_at_once_when_a_rank_has_died),
		cmocka_unit_test(a_fence_that_failed_is_not_begun_again_by_late_ranks),
		cmocka_unit_test(a_ring_gives_each_rank_its_neighbours),
		PLAY(names),
		IN_SCENE(a_query_to_another_node_has_a_deadline, pmi2_dialect, 2, 2, in_turn),
		IN_SCENE(a_spawn_is_answered_with_its_job, pmi2_dialect, 2, 2, in_turn),
		IN_SCENE(an_abort_takes_its_code_from_the_text, pmi2_dialect, 1, 1, NULL),
		cmocka_unit_test(both_protocols_meet_in_one_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
