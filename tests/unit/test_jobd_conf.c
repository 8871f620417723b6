/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slurm.conf and the QOS file: what each key gives, and the sentence for what is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/jobd/conf/conf.h"
#include "contrib/jobd/conf/lines.h"
#include "tests/lib/scratch.h"

#define SMALL "NodeName=n[1-4] CPUs=4\nPartitionName=p Nodes=ALL\n"

static char *dir;

static int set_up(void **state)
{
	(void)state;
	dir = scratch_make();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scratch_remove(dir);
	free(dir);
	return 0;
}

static int read_texts(const char *text, const char *qos, struct conf **ret_conf, struct err *err)
{
	_cleanup_free_ char *file = scratch_path(dir, "slurm.conf");
	_cleanup_free_ char *qos_file = scratch_path(dir, "qos.conf");

	scratch_write(dir, "slurm.conf", text, strlen(text), 0644);
	if (qos)
		scratch_write(dir, "qos.conf", qos, strlen(qos), 0644);
	return conf_read(file, qos ? qos_file : NULL, ret_conf, err);
}

/* The configuration of these lines, and of small nodes and a partition. */
static struct conf *read_all(const char *text, const char *qos)
{
	struct err err = ERR_INIT;
	struct conf *conf = NULL;

	if (read_texts(text, qos, &conf, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return conf;
}

static struct conf *read_with(const char *lines)
{
	char text[4096];

	(void)snprintf(text, sizeof(text), "%s\n%s", lines, SMALL);
	return read_all(text, NULL);
}

/* wanted: how the sentence goes on behind "DIRECTORY/". */
static void refuses(const char *text, const char *qos, const char *wanted)
{
	struct err err = ERR_INIT;
	struct conf *conf = NULL;
	size_t at = strlen(dir) + 1;
	int r = read_texts(text, qos, &conf, &err);

	if (r == 0)
		fail_msg("'%s' was taken", text);
	assert_int_equal(r, err.code);
	assert_null(conf);
	if (strncmp(err.text, dir, at - 1) != 0 || strncmp(err.text + at, wanted, strlen(wanted)))
		fail_msg("'%s': '%s', wanted '%s'", text, err.text, wanted);
}

/* ---- the keys of the cluster -------------------------------------------------------------------
 */

static void test_defaults(void **state)
{
	struct conf *conf = read_with("");
	const struct conf_part *part = &conf->parts[0];

	(void)state;
	assert_string_equal(conf->cluster_name, "cluster");
	assert_string_equal(conf->select_type, "cons_tres");
	assert_int_equal(conf->select_type_param, 0);
	assert_string_equal(conf->preempt_type, "none");
	assert_int_equal(conf->preempt_mode, PREEMPT_MODE_OFF);
	assert_int_equal(conf->preempt_exempt_time_s, 0);
	assert_true(conf->job_requeue);
	assert_int_equal(conf->sched_time_slice_s, 30);
	assert_int_equal(conf->kill_wait_s, 30);
	assert_true(conf->backfill);
	assert_int_equal(conf->scheduler.default_queue_depth, 100);
	assert_int_equal(conf->scheduler.preempt_reorder_count, 1);
	assert_int_equal(conf->scheduler.bf_interval_s, 30);
	assert_int_equal(conf->scheduler.bf_window_min, 1440);
	assert_int_equal(conf->scheduler.bf_resolution_s, 60);
	assert_int_equal(conf->scheduler.bf_max_job_test, 500);
	assert_int_equal(conf->scheduler.sched_interval_s, 60);
	assert_false(conf->scheduler.defer);
	assert_int_equal(conf->first_job_id, 1);
	assert_true(conf->def_mem == 0 && conf->max_mem == 0);
	assert_null(conf->state_save_location);
	assert_int_equal(conf->left_out.n, 0);
	assert_int_equal(conf->qos_count, 0);
	assert_string_equal(part->name, "p");
	assert_true(part->is_up);
	assert_false(part->is_default);
	assert_int_equal(part->min_nodes, 1);
	assert_int_equal(part->max_nodes, CONF_INFINITE);
	assert_int_equal(part->max_time_min, CONF_INFINITE);
	assert_int_equal(part->default_time_min, CONF_NONE);
	assert_int_equal(part->max_share, 1);
	assert_int_equal(part->priority_tier, 1);
	assert_int_equal(part->priority_job_factor, 1);
	assert_int_equal(part->preempt_mode, NO_VAL16);
	assert_int_equal(part->allow_groups.n, 0);
	assert_int_equal(bit_set_count(part->nodes), 4);
	(void)conf_free(conf);
	assert_null(conf_free(NULL));
}

static void test_cluster(void **state)
{
	struct conf *conf = read_with("ClusterName=lab\n"
				      "selecttype=select/linear\n"
				      "SelectTypeParameters=CR_Core_Memory,CR_LLN,cr_pack_nodes\n"
				      "PreemptType=preempt/partition_prio\n"
				      "PreemptMode=suspend,GANG\n"
				      "PreemptExemptTime=0:20\n"
				      "JobRequeue=0 SchedulerTimeSlice=5 KillWait=0\n"
				      "SchedulerType=sched/builtin\n"
				      "PriorityType=priority/basic\n"
				      "FirstJobId=17 MaxJobId=999 MaxJobCount=5 MaxArraySize=0\n"
				      "MinJobAge=2 EnforcePartLimits=ALL\n"
				      "DefMemPerCPU=100 MaxMemPerNode=2G\n"
				      "StateSaveLocation=\"/var/spool/a b\"\n");

	(void)state;
	assert_string_equal(conf->cluster_name, "lab");
	assert_string_equal(conf->select_type, "linear");
	assert_int_equal(conf->select_type_param, CR_CORE | CR_MEMORY | CR_LLN | CR_PACK_NODES);
	assert_string_equal(conf->preempt_type, "partition_prio");
	assert_int_equal(conf->preempt_mode, PREEMPT_MODE_SUSPEND | PREEMPT_MODE_GANG);
	assert_int_equal(conf->preempt_exempt_time_s, 20);
	assert_false(conf->job_requeue);
	assert_int_equal(conf->sched_time_slice_s, 5);
	assert_int_equal(conf->kill_wait_s, 0);
	assert_false(conf->backfill);
	assert_int_equal(conf->first_job_id, 17);
	assert_int_equal(conf->max_job_id, 999);
	assert_int_equal(conf->max_job_count, 5);
	assert_int_equal(conf->max_array_size, 0);
	assert_int_equal(conf->min_job_age_s, 2);
	assert_true(conf->enforce_part_limits);
	assert_true(conf->def_mem == (MEM_PER_CPU | 100));
	assert_true(conf->max_mem == 2048);
	assert_string_equal(conf->state_save_location, "/var/spool/a b");
	(void)conf_free(conf);
}

static void test_select_parameters(void **state)
{
	static const struct {
		const char *text;
		uint32_t param;
	} rows[] = {
		{"CR_CPU", CR_CPU},
		{"CR_CPU_Memory", CR_CPU | CR_MEMORY},
		{"CR_Core", CR_CORE},
		{"CR_Core_Memory", CR_CORE | CR_MEMORY},
		{"CR_Socket", CR_SOCKET},
		{"CR_Socket_Memory", CR_SOCKET | CR_MEMORY},
		{"CR_Memory", CR_MEMORY},
		{"CR_Core,CR_ONE_TASK_PER_CORE", CR_CORE | CR_ONE_TASK_PER_CORE},
		{"CR_Core,CR_CORE_DEFAULT_DIST_BLOCK", CR_CORE | CR_CORE_DEFAULT_DIST_BLOCK},
		{"CR_CPU,CR_LLN", CR_CPU | CR_LLN},
		{"CR_CPU,CR_Pack_Nodes", CR_CPU | CR_PACK_NODES},
		{"CR_Core,CR_Least_Preempt", CR_CORE | CR_LEAST_PREEMPT},
	};
	struct conf *conf;
	char line[128];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(line, sizeof(line), "SelectTypeParameters=%s", rows[i].text);
		conf = read_with(line);
		assert_int_equal(conf->select_type_param, rows[i].param);
		(void)conf_free(conf);
	}
}

static void test_scheduler(void **state)
{
	struct conf *conf = read_with(
		"SchedulerParameters=default_queue_depth=7,defer,bf_interval=2,"
		"bf_window=60,bf_resolution=10,bf_max_job_test=3,bf_max_job_user=4,,"
		"bf_continue,preempt_reorder_count=3,preempt_strict_order,"
		"preempt_youngest_first,preempt_send_user_signal,sched_interval=9,max_switch_wait=5,bf_licenses");
	const struct conf_scheduler *s = &conf->scheduler;

	(void)state;
	assert_int_equal(s->default_queue_depth, 7);
	assert_true(
		s->defer && s->bf_continue && s->preempt_strict_order && s->preempt_youngest_first);
	assert_true(s->preempt_send_user_signal);
	assert_int_equal(s->bf_interval_s, 2);
	assert_int_equal(s->bf_window_min, 60);
	assert_int_equal(s->bf_resolution_s, 10);
	assert_int_equal(s->bf_max_job_test, 3);
	assert_int_equal(s->bf_max_job_user, 4);
	assert_int_equal(s->preempt_reorder_count, 3);
	assert_int_equal(s->sched_interval_s, 9);
	assert_int_equal(conf->left_out.n, 2);
	assert_string_equal(conf->left_out.v[0], "max_switch_wait");
	assert_string_equal(conf->left_out.v[1], "bf_licenses");
	(void)conf_free(conf);
}

/* Newer names for some of these. */
static void test_preempt_parameters(void **state)
{
	struct conf *conf = read_with("PreemptParameters=reorder_count=4,strict_order,,"
				      "youngest_first,send_user_signal,reclaim_licenses");
	const struct conf_scheduler *s = &conf->scheduler;

	(void)state;
	assert_int_equal(s->preempt_reorder_count, 4);
	assert_true(s->preempt_strict_order && s->preempt_youngest_first);
	assert_true(s->preempt_send_user_signal);
	assert_int_equal(conf->left_out.n, 1);
	assert_string_equal(conf->left_out.v[0], "preempt_reclaim_licenses");
	(void)conf_free(conf);
}

static void test_exempt_time(void **state)
{
	static const struct {
		const char *text;
		uint32_t seconds;
	} rows[] = {{"-1", 0}, {"0", 0}, {"2", 120}, {"2:30", 150}, {"1:02:03", 3723},
		{"1-2", 93600}, {"1-2:03", 93780}, {"1-2:03:04", 93784},
		{"UNLIMITED", CONF_INFINITE}};
	struct conf *conf;
	char line[64];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(line, sizeof(line), "PreemptExemptTime=%s", rows[i].text);
		conf = read_with(line);
		assert_int_equal(conf->preempt_exempt_time_s, rows[i].seconds);
		(void)conf_free(conf);
	}
}

/* Keys of Slurm's that jobd has no use for: each is named once. */
static void test_left_out(void **state)
{
	struct conf *conf = read_all("SlurmctldHost=a\nSlurmctldHost=b\nslurmctldHOST=c\n"
				     "ProctrackType=proctrack/cgroup\nDownNodes=n1 State=DOWN\n"
				     "NodeName=DEFAULT Gres=gpu:2 TmpDisk=5\n"
				     "NodeName=n1 NodeAddr=10.0.0.1 Gres=gpu:1\n"
				     "PartitionName=p Nodes=n1 AllowAccounts=a QOS=x\n",
		"QOSName=q Flags=DenyOnLimit Description=a\nQOSName=r Flags=denyonlimit\n");
	static const char *const names[] = {"SlurmctldHost", "ProctrackType", "DownNodes", "Gres",
		"TmpDisk", "NodeAddr", "AllowAccounts", "QOS", "DenyOnLimit", "Description"};
	size_t i;

	(void)state;
	assert_int_equal(conf->left_out.n, ARRAY_SIZE(names));
	for (i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(conf->left_out.v[i], names[i]);
	(void)conf_free(conf);
}

/* ---- nodes -------------------------------------------------------------------------------------
 */

static void test_nodes(void **state)
{
	struct conf *conf = read_all(
		"NodeName=DEFAULT Weight=5 RealMemory=1000 Feature=a,b\n"
		"NodeName=n[08-10] Sockets=2 CoresPerSocket=4 ThreadsPerCore=2\n"
		"NodeName=m CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 Weight=1 Feature=c\n"
		"NodeName=x1,y[1-2] Procs=3 State=DRAIN Reason=\"a disk\" RealMemory=2G "
		"MemSpecLimit=100\n"
		"NodeName=later State=FUTURE\n"
		"NodeName=DEFAULT Weight=7\n"
		"NodeName=z State=DOWN\n"
		"PartitionName=p Nodes=n09,z\n",
		NULL);
	const struct conf_node *n = conf->nodes;

	(void)state;
	assert_int_equal(conf->nodes_count, 8);
	assert_string_equal(n[0].name, "n08");
	assert_string_equal(n[2].name, "n10");
	assert_int_equal(n[0].cpus, 16);
	assert_int_equal(n[0].threads_per_core, 2);
	assert_int_equal(n[0].weight, 5);
	assert_string_equal(n[0].features, "a,b");
	assert_true(n[0].real_memory == 1000);
	assert_int_equal(n[0].state, NODE_STATE_IDLE);
	assert_null(n[0].reason);
	assert_string_equal(n[3].name, "m"); /* as many CPUs as cores: a CPU is a core */
	assert_int_equal(n[3].cpus, 8);
	assert_int_equal(n[3].threads_per_core, 1);
	assert_int_equal(n[3].weight, 1);
	assert_string_equal(n[3].features, "c");
	assert_string_equal(n[5].name, "y1");
	assert_int_equal(n[5].sockets, 3);
	assert_int_equal(n[5].cores_per_socket, 1);
	assert_int_equal(n[5].state, NODE_STATE_IDLE | NODE_STATE_DRAIN);
	assert_string_equal(n[5].reason, "a disk");
	assert_true(n[5].real_memory == 2048 && n[5].mem_spec_limit == 100);
	assert_string_equal(n[7].name, "z");
	assert_int_equal(n[7].weight, 7);
	assert_int_equal(n[7].state, NODE_STATE_DOWN);
	assert_int_equal(bit_set_count(conf->parts[0].nodes), 2);
	assert_true(bit_test(conf->parts[0].nodes, 1) && bit_test(conf->parts[0].nodes, 7));
	(void)conf_free(conf);
}

static void test_node_states(void **state)
{
	static const struct {
		const char *text;
		uint32_t state;
	} rows[] = {
		{"UNKNOWN", NODE_STATE_IDLE},
		{"idle", NODE_STATE_IDLE},
		{"CLOUD", NODE_STATE_IDLE},
		{"DOWN", NODE_STATE_DOWN},
		{"FAIL", NODE_STATE_DOWN},
		{"FAILING", NODE_STATE_IDLE | NODE_STATE_DRAIN},
		{"DRAIN", NODE_STATE_IDLE | NODE_STATE_DRAIN},
	};
	struct conf *conf;
	char line[64];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(line, sizeof(line), "NodeName=s State=%s", rows[i].text);
		conf = read_with(line);
		assert_int_equal(conf->nodes[0].state, rows[i].state);
		(void)conf_free(conf);
	}
}

/* ---- partitions --------------------------------------------------------------------------------
 */

static void test_partitions(void **state)
{
	struct conf *conf = read_all(
		"PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\n"
		"NodeName=n[1-4]\n"
		"PartitionName=DEFAULT Nodes=n[1-2] MaxTime=1:00:00 PriorityTier=3 AllowGroups=a\n"
		"PartitionName=low\n"
		"PartitionName=high Nodes=n[2,4] Default=YES MaxTime=-1 DefaultTime=1-0 "
		"MinNodes=2 MaxNodes=3 PriorityTier=9 PriorityJobFactor=10 PreemptMode=off "
		"GraceTime=30 AllowGroups=b,c DefMemPerNode=10 MaxMemPerCPU=20 Hidden=YES "
		"RootOnly=1\n"
		"PartitionName=any Nodes=ALL MaxNodes=UNLIMITED MaxTime=INFINITE AllowGroups=ALL\n"
		"PartitionName=none Nodes=\"\"\n",
		NULL);
	const struct conf_part *p = conf->parts;

	(void)state;
	assert_int_equal(conf->parts_count, 4);
	assert_int_equal(p[0].max_time_min, 60);
	assert_int_equal(p[0].priority_tier, 3);
	assert_int_equal(bit_set_count(p[0].nodes), 2);
	assert_int_equal(p[0].allow_groups.n, 1);
	assert_true(p[1].is_default && p[1].is_hidden && p[1].is_root_only && !p[0].is_default);
	assert_int_equal(p[1].max_time_min, CONF_INFINITE);
	assert_int_equal(p[1].default_time_min, 1440);
	assert_int_equal(p[1].min_nodes, 2);
	assert_int_equal(p[1].max_nodes, 3);
	assert_int_equal(p[1].priority_tier, 9);
	assert_int_equal(p[1].priority_job_factor, 10);
	assert_int_equal(p[1].preempt_mode, PREEMPT_MODE_OFF);
	assert_int_equal(p[1].grace_time_s, 30);
	assert_int_equal(p[1].allow_groups.n, 2);
	assert_string_equal(p[1].allow_groups.v[1], "c");
	assert_true(p[1].def_mem == 10 && p[1].max_mem == (MEM_PER_CPU | 20));
	assert_true(bit_test(p[1].nodes, 1) && bit_test(p[1].nodes, 3));
	assert_int_equal(bit_set_count(p[1].nodes), 2);
	assert_int_equal(bit_set_count(p[2].nodes), 4);
	assert_int_equal(p[2].allow_groups.n, 0);
	assert_int_equal(p[2].max_time_min, CONF_INFINITE);
	assert_int_equal(bit_set_count(p[3].nodes), 0);
	assert_int_equal(conf_find_part(conf, "any"), 2);
	assert_int_equal(conf_find_part(conf, "Any"), -1);
	(void)conf_free(conf);
}

static void test_share(void **state)
{
	static const struct {
		const char *text;
		uint16_t share;
	} rows[] = {{"NO", 1}, {"EXCLUSIVE", 0}, {"YES", 4}, {"yes:2", 2},
		{"FORCE", 4 | SHARED_FORCE}, {"FORCE:1", 1 | SHARED_FORCE},
		{"force:9", 9 | SHARED_FORCE}, {"YES:32767", 32767}};
	struct conf *conf;
	char line[64];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(line, sizeof(line), "PartitionName=s %s=%s",
			i % 2 ? "Shared" : "OverSubscribe", rows[i].text);
		conf = read_with(line);
		assert_int_equal(conf->parts[0].max_share, rows[i].share);
		(void)conf_free(conf);
	}
}

static void test_part_states(void **state)
{
	static const struct {
		const char *text;
		bool up, drained;
	} rows[] = {{"UP", true, false}, {"down", false, false}, {"DRAIN", true, true},
		{"INACTIVE", false, true}};
	struct conf *conf;
	char line[64];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(line, sizeof(line), "PartitionName=s State=%s", rows[i].text);
		conf = read_with(line);
		assert_int_equal(conf->parts[0].is_up, rows[i].up);
		assert_int_equal(conf->parts[0].is_drained, rows[i].drained);
		(void)conf_free(conf);
	}
}

/* ---- QOS ---------------------------------------------------------------------------------------
 */

static void test_qos(void **state)
{
	struct conf *conf = read_all("PreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\n" SMALL,
		"# a file of its own\n"
		"QOSName=low Priority=10 PreemptMode=cluster\n"
		"QOSName=high Priority=100 Preempt=low,MID, GraceTime=8 PreemptMode=requeue "
		"PreemptExemptTime=1:00\n"
		"QOSName=mid Priority=20 Preempt=low Description=\"a b\" "
		"Flags=PartitionTimeLimit,partitionMAXnodes,NoReserve\n"
		"QOSName=last Flags=PartitionMinNodes,RequiresReservation\n");
	const struct conf_qos *q = conf->qos;

	(void)state;
	assert_int_equal(conf->qos_count, 4);
	assert_int_equal(q[0].flags, 0);
	assert_int_equal(q[2].flags, QOS_FLAG_PART_TIME_LIMIT | QOS_FLAG_PART_MAX_NODE);
	assert_int_equal(q[3].flags, QOS_FLAG_PART_MIN_NODE | QOS_FLAG_REQ_RESV);
	assert_int_equal(q[0].priority, 10);
	assert_int_equal(q[0].preempt_mode, NO_VAL16);
	assert_int_equal(q[0].exempt_time_s, CONF_NONE);
	assert_int_equal(bit_set_count(q[0].preempts), 0);
	assert_int_equal(q[1].priority, 100);
	assert_int_equal(q[1].grace_time_s, 8);
	assert_int_equal(q[1].exempt_time_s, 60);
	assert_int_equal(q[1].preempt_mode, PREEMPT_MODE_REQUEUE);
	assert_true(bit_test(q[1].preempts, 0) && bit_test(q[1].preempts, 2));
	assert_int_equal(bit_set_count(q[1].preempts), 2);
	assert_int_equal(bit_set_count(q[2].preempts), 1);
	assert_int_equal(conf_find_qos(conf, "HIGH"), 1);
	assert_int_equal(conf_find_qos(conf, "none"), -1);
	(void)conf_free(conf);
}

static void test_wrong_qos(void **state)
{
	(void)state;
	refuses(SMALL, "Priority=1\n", "qos.conf:1: Priority=1: the line must begin with QOSName");
	refuses(SMALL, "\nQOSName=a\nQOSName=A\n", "qos.conf:3: QOSName=A: the line must begin");
	refuses(SMALL, "QOSName=a Prio=1\n", "qos.conf:1: 'Prio' is not a key");
	refuses(SMALL, "QOSName=a Priority=-1\n", "qos.conf:1: Priority=-1: must be from 0 to ");
	refuses(SMALL, "QOSName=a PreemptMode=kill\n",
		"qos.conf:1: PreemptMode=kill: must be OFF, CANCEL, REQUEUE, SUSPEND or GANG");
	refuses(SMALL, "QOSName=a Preempt=b\n", "qos.conf:1: QOS a: Preempt=b: there is no such");
	refuses(SMALL, "QOSName=a Flags=NoReserve,x\n",
		"qos.conf:1: Flags=x: must be PartitionMin");
	refuses(SMALL, "QOSName=a Preempt=a\n", "qos.conf:1: QOS a: Preempt=a leads back to it");
	refuses(SMALL,
		"QOSName=z Preempt=a\nQOSName=a Preempt=b\nQOSName=b Preempt=c\n"
		"QOSName=c Preempt=a\n",
		"qos.conf:2: QOS a: Preempt=b leads back to it");
}

/* ---- lines -------------------------------------------------------------------------------------
 */

static void test_lines(void **state)
{
	struct conf *conf = read_all("# ClusterName=a\n"
				     "ClusterName=b # NodeName=none\n"
				     "\t \r\n"
				     "StateSaveLocation = /a\\#b\r\n"
				     "FirstJobId=1\\\n"
				     "7 \\  \n"
				     "  KillWait=3 \\\n"
				     "\\\n"
				     "\n"
				     "# no continuation of a comment \\\n"
				     "MinJobAge=4 # \\\n"
				     "NodeName = n[1-4]\tCPUs= 4\n"
				     "PartitionName=p Nodes=\"n[1-2],n4\" \\",
		NULL);

	(void)state;
	assert_string_equal(conf->cluster_name, "b");
	assert_string_equal(conf->state_save_location, "/a#b");
	assert_int_equal(conf->first_job_id, 17);
	assert_int_equal(conf->kill_wait_s, 3);
	assert_int_equal(conf->min_job_age_s, 4);
	assert_int_equal(conf->nodes[0].cpus, 4);
	assert_int_equal(bit_set_count(conf->parts[0].nodes), 3);
	(void)conf_free(conf);
}

static void test_include(void **state)
{
	static const char nodes[] = "NodeName=n[1-2] CPUs=2\nInclude parts.conf # more\n";
	static const char parts[] = "PartitionName=p Nodes=ALL\n";
	static const char wrong[] = "\nNodeName=n1 CPUs=0\n";
	struct conf *conf;
	char text[512];

	(void)state;
	scratch_write(dir, "nodes.conf", nodes, strlen(nodes), 0644);
	scratch_write(dir, "parts.conf", parts, strlen(parts), 0644);
	scratch_write(dir, "wrong.conf", wrong, strlen(wrong), 0644);
	conf = read_all("include nodes.conf\nFirstJobId=5\n", NULL);
	assert_int_equal(conf->nodes_count, 2);
	assert_int_equal(conf->parts_count, 1);
	assert_int_equal(conf->first_job_id, 5);
	(void)conf_free(conf);
	(void)snprintf(text, sizeof(text), "Include \t%s/nodes.conf\n", dir);
	(void)conf_free(read_all(text, NULL));
	refuses("\nInclude wrong.conf\n", NULL, "wrong.conf:2: CPUs=0: must be from 1 to 65535");
	refuses("\nInclude none.conf\n", NULL, "slurm.conf:2: read '");
	refuses("Include slurm.conf\n", NULL,
		"slurm.conf:1: more than 10 files include each other");
	refuses("Include .\n", NULL, "slurm.conf:1: '");
	refuses("Include\n", NULL, "slurm.conf:1: 'Include' must be Key=Value");
	refuses("Include /dev/zero\n", NULL, "slurm.conf:1: '/dev/zero' must be a regular file");
}

static void test_long_lines(void **state)
{
	char *text = malloc(3 * LINES_SIZE_MAX);
	struct conf *conf;
	size_t n;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', 3 * LINES_SIZE_MAX);
	memcpy(text, "ClusterName=", 12);
	text[LINES_SIZE_MAX] = '\n';
	memcpy(text + LINES_SIZE_MAX + 1, SMALL, sizeof(SMALL));
	conf = read_all(text, NULL);
	assert_int_equal(strlen(conf->cluster_name), LINES_SIZE_MAX - 12);
	(void)conf_free(conf);
	text[LINES_SIZE_MAX] = 'x';
	text[LINES_SIZE_MAX + 1] = '\n';
	memcpy(text + LINES_SIZE_MAX + 2, SMALL, sizeof(SMALL));
	refuses(text, NULL, "slurm.conf:1: a line must be text of at most 65536 bytes");
	for (n = 20; n < 2 * LINES_SIZE_MAX; n += 20)
		memcpy(text + n, "\\\n", 2);
	memcpy(text + n, "\n" SMALL, sizeof(SMALL) + 1);
	refuses(text, NULL, "slurm.conf:3");
	free(text);
}

static void test_nul(void **state)
{
	static const char inside[] = "ClusterName=a\0b\n" SMALL, at_end[] = SMALL "KillWait=1\0";
	_cleanup_free_ char *file = scratch_path(dir, "nul.conf");
	struct err err = ERR_INIT;
	struct conf *conf = NULL;

	(void)state;
	scratch_write(dir, "nul.conf", inside, sizeof(inside) - 1, 0644);
	assert_int_equal(conf_read(file, NULL, &conf, &err), -EINVAL);
	assert_non_null(strstr(err.text, "nul.conf:1: a line must be text"));
	scratch_write(dir, "nul.conf", at_end, sizeof(at_end) - 1, 0644);
	err = (struct err)ERR_INIT;
	assert_int_equal(conf_read(file, NULL, &conf, &err), -EINVAL);
	assert_non_null(strstr(err.text, "nul.conf:3: a line must be text"));
}

/* ---- what is wrong -----------------------------------------------------------------------------
 */

struct fault {
	const char *line, *wanted; /* wanted: behind "slurm.conf:" */
};

static const struct fault faults[] = {
	{"Foo=1", "1: 'Foo' is not a key of such a line"},
	{"NodeName=a Foo=1", "1: 'Foo' is not a key of such a line"},
	{"PartitionName=a CPUs=1", "1: 'CPUs' is not a key of such a line"},
	{"NodeName=DEFAULT Nodes=a", "1: 'Nodes' is not a key"},
	{"CPUs=1 NodeName=a", "1: 'CPUs' is not a key"},
	{"ClusterName", "1: 'ClusterName' must be Key=Value"},
	{"=x", "1: '=x' must be Key=Value"},
	{"ClusterName=", "1: ClusterName must have a value"},
	{"ClusterName=\"a", "1: ClusterName must have a value, in quotation marks"},
	{"ClusterName=\"a\"b", "1: ClusterName must have a value, in quotation marks"},
	{"ClusterName=a \\\n KillWait=x", "1: KillWait=x: must be from 0 to 4294967293"},
	{"\n\nKillWait=-1", "3: KillWait=-1: must be from 0 to"},
	{"KillWait=4294967295", "1: KillWait=4294967295: must be"},
	{"SelectType=linear", "1: SelectType=linear: must be select/NAME"},
	{"SelectType=select/", "1: SelectType=select/: must be select/NAME"},
	{"SelectType=select/../x", "1: SelectType=select/../x: must be select/NAME"},
	{"PreemptType=preempt/a/b", "1: PreemptType=preempt/a/b: must be preempt/NAME"},
	{"SelectTypeParameters=CR_Gpu",
		"1: SelectTypeParameters=CR_Gpu: must be CR_CPU, CR_CPU_Memory, CR_Core,"},
	{"SelectTypeParameters=CR_CPU,", "1: SelectTypeParameters=: must be CR_CPU,"},
	{"PreemptMode=CANCEL,REQUEUE",
		"1: PreemptMode=CANCEL,REQUEUE: must be one of OFF, CANCEL, REQUEUE and SUSPEND"},
	{"PreemptMode=OFF,CANCEL", "1: PreemptMode=OFF,CANCEL: must be one of"},
	{"PreemptExemptTime=1:2:3:4", "1: PreemptExemptTime=1:2:3:4: must be a time: minutes,"},
	{"PreemptExemptTime=-2", "1: PreemptExemptTime=-2: must be a time"},
	{"JobRequeue=maybe", "1: JobRequeue=maybe: must be YES or NO"},
	{"SchedulerTimeSlice=4", "1: SchedulerTimeSlice=4: must be from 5 to 65533"},
	{"SchedulerType=sched/hold",
		"1: SchedulerType=sched/hold: must be sched/backfill or sched/builtin"},
	{"PriorityType=priority/multifactor",
		"1: PriorityType=priority/multifactor: must be priority/basic in jobd"},
	{"EnforcePartLimits=NO,YES", "1: EnforcePartLimits=NO,YES: must be NO, YES, ALL or ANY"},
	{"FirstJobId=0", "1: FirstJobId=0: must be from 1 to"},
	{"DefMemPerCPU=x", "1: DefMemPerCPU=x: must be a number of MB, or one with its unit, 4G"},
	{"MaxMemPerNode=-1", "1: MaxMemPerNode=-1: must be a number of MB"},
	{"SchedulerParameters=bf_interval=0", "1: bf_interval=0: must be from 1 to 10800"},
	{"SchedulerParameters=bf_window", "1: bf_window=: must be from 1 to 43200"},
	{"SchedulerParameters=defer=1", "1: SchedulerParameters: defer must have no value"},
	{"NodeName=a CPUs=0", "1: CPUs=0: must be from 1 to 65535"},
	{"NodeName=a CPUs=65536", "1: CPUs=65536: must be from 1 to 65535"},
	{"NodeName=a RealMemory=0", "1: RealMemory=0: must be a size of 1 MB or more"},
	{"NodeName=a RealMemory=UNLIMITED", "1: RealMemory=UNLIMITED: must be a number of MB"},
	{"NodeName=a State=BROKEN", "1: State=BROKEN: must be UNKNOWN, IDLE, CLOUD, DOWN, FAIL,"},
	{"NodeName=a State=DOWN,DRAIN", "1: State=DOWN,DRAIN: must be UNKNOWN"},
	{"NodeName=a CPUs=3 Sockets=1 CoresPerSocket=2 ThreadsPerCore=2",
		"1: a: CPUs=3 is neither its cores, 2, nor its threads, 4"},
	{"NodeName=a Sockets=256 CoresPerSocket=256", "1: a has more than 65535 CPUs"},
	{"NodeName=a[", "1: NodeName=a[: must be a list of nodes"},
	{"NodeName=big[1-2000000]", "1: there are more than 1000000 nodes"},
	{"PartitionName=a,b", "1: PartitionName=a,b: must be a name without commas"},
	{"PartitionName=\"a b\"", "1: PartitionName=a b: must be a name"},
	{"PartitionName=x\nPartitionName=x", "2: PartitionName=x: must be a name"},
	{"PartitionName=a OverSubscribe=YES:0",
		"1: OverSubscribe=YES:0: must be NO, EXCLUSIVE, YES[:COUNT] or FORCE[:COUNT]"},
	{"PartitionName=a OverSubscribe=FORCE:32768", "1: OverSubscribe=FORCE:32768: must be"},
	{"PartitionName=a OverSubscribe=NO:2", "1: OverSubscribe=NO:2: must be"},
	{"PartitionName=a State=OPEN", "1: State=OPEN: must be UP, DOWN, DRAIN or INACTIVE"},
	{"PartitionName=a MaxTime=soon", "1: MaxTime=soon: must be a time"},
	{"PartitionName=a MaxNodes=some",
		"1: MaxNodes=some: must be from 0 to 4294967293, or INFINITE"},
	{"PartitionName=a PriorityTier=65536", "1: PriorityTier=65536: must be from 0 to 65535"},
	{"PartitionName=a GraceTime=x", "1: GraceTime=x: must be from 0"},
	{"PartitionName=a Default=2", "1: Default=2: must be YES or NO"},
	{"PartitionName=a PreemptMode=x", "1: PreemptMode=x: must be OFF, CANCEL"},
};

static void test_faults(void **state)
{
	char text[1024], wanted[256];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		(void)snprintf(text, sizeof(text), "%s\n%s", faults[i].line, SMALL);
		(void)snprintf(wanted, sizeof(wanted), "slurm.conf:%s", faults[i].wanted);
		refuses(text, NULL, wanted);
	}
}

/* What no line has wrong by itself. */
static void test_whole(void **state)
{
	(void)state;
	refuses("", NULL, "slurm.conf: there is no NodeName line, or no PartitionName line");
	refuses("NodeName=a\n", NULL, "slurm.conf: there is no NodeName line, or no Part");
	refuses("PartitionName=a\n", NULL, "slurm.conf: there is no NodeName line");
	refuses("NodeName=a[1-3]\nNodeName=a2\nPartitionName=p\n", NULL,
		"slurm.conf:2: node a2 is defined twice");
	refuses("PartitionName=p\nNodeName=b,a\nNodeName=a\nNodeName=c\n", NULL,
		"slurm.conf:3: node a is defined twice");
	refuses("FirstJobId=9\nMaxJobId=8\n" SMALL, NULL,
		"slurm.conf:2: FirstJobId=9: must not be above MaxJobId=8");
	refuses("NodeName=a\nPartitionName=p Nodes=a,b\n", NULL,
		"slurm.conf:2: partition p: there is no node 'b'");
	refuses("NodeName=a\nPartitionName=p Nodes=a[\n", NULL,
		"slurm.conf:2: partition p: Nodes=a[: must be a list of nodes");
	refuses("NodeName=a\nPartitionName=p Nodes=a MinNodes=3 MaxNodes=2\n", NULL,
		"slurm.conf:2: MinNodes=3: must not be above MaxNodes=2");
}

static void test_no_file(void **state)
{
	_cleanup_free_ char *file = scratch_path(dir, "none.conf");
	_cleanup_free_ char *there = scratch_path(dir, "there.conf");
	struct err err = ERR_INIT;
	struct conf *conf = NULL;

	(void)state;
	scratch_write(dir, "there.conf", SMALL, sizeof(SMALL) - 1, 0644);
	assert_int_equal(conf_read(file, NULL, &conf, &err), -ENOENT);
	assert_non_null(strstr(err.text, "none.conf"));
	assert_int_equal(conf_read(there, file, &conf, NULL), -ENOENT);
	assert_int_equal(conf_read(dir, NULL, &conf, NULL), -EINVAL);
}

/* ---- which mode goes with which type ------------------------------------------------------------
 */

/* The line of the last partition, behind two lines and SMALL. */
#define OF_PART "slurm.conf:5"

static void test_preemption(void **state)
{
	static const struct {
		const char *lines, *part, *qos;
		const char *wanted; /* NULL: it is fine */
		const char *place;
	} rows[] = {
		{"", "", NULL, NULL, NULL},
		{"PreemptMode=GANG", "", NULL, NULL, NULL},
		{"PreemptMode=OFF,GANG", "", NULL, NULL, NULL},
		{"PreemptMode=CANCEL", "", NULL, "PreemptMode has more than GANG, but",
			"slurm.conf:1"},
		{"PreemptMode=SUSPEND,GANG", "", NULL, "PreemptMode has more than GANG, but",
			"slurm.conf:1"},
		{"PreemptType=preempt/partition_prio", "", NULL,
			"PreemptType=preempt/partition_prio needs a PreemptMode", "slurm.conf:1"},
		{"PreemptType=preempt/qos\nPreemptMode=GANG", "", NULL,
			"PreemptType=preempt/qos needs a PreemptMode", "slurm.conf:2"},
		{"PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE", "", NULL, NULL, NULL},
		{"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL,GANG", "", NULL, NULL,
			NULL},
		{"PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND", "", NULL,
			"PreemptMode=SUSPEND needs GANG", "slurm.conf:2"},
		{"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL", "PreemptMode=SUSPEND",
			NULL, "PreemptMode=SUSPEND needs GANG", OF_PART},
		{"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL",
			"PreemptMode=SUSPEND,GANG", NULL, "partition q: GANG is an option",
			OF_PART},
		{"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL,GANG",
			"PreemptMode=SUSPEND", NULL, NULL, NULL},
		{"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL", "PreemptMode=OFF", NULL,
			NULL, NULL},
		{"PreemptType=preempt/qos\nPreemptMode=CANCEL", "PreemptMode=OFF", NULL,
			"partition q: PreemptMode needs PreemptType=preempt/partition_prio",
			OF_PART},
		{"PreemptType=preempt/qos\nPreemptMode=CANCEL", "", "QOSName=a PreemptMode=off",
			NULL, NULL},
		{"PreemptType=preempt/qos\nPreemptMode=CANCEL", "", "QOSName=a PreemptMode=suspend",
			"PreemptMode=SUSPEND needs GANG", "qos.conf:1"},
		{"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL", "",
			"QOSName=a PreemptMode=off",
			"QOS a: PreemptMode needs PreemptType=preempt/qos", "qos.conf:1"},
		/* modes of their own without preemption */
		{"", "PreemptMode=CANCEL", NULL,
			"partition q: PreemptMode needs PreemptType=preempt/partition_prio, but it "
			"is preempt/none",
			"slurm.conf:4"},
		{"PreemptMode=GANG", "PreemptMode=OFF", NULL,
			"partition q: PreemptMode needs PreemptType=preempt/partition_prio, but it "
			"is preempt/none",
			"slurm.conf:4"},
		{"", "", "QOSName=a PreemptMode=requeue",
			"QOS a: PreemptMode needs PreemptType=preempt/qos, but it is preempt/none",
			"qos.conf:1"},
		{"", "", "QOSName=a PreemptMode=cluster", NULL, NULL},
		{"PreemptType=preempt/mine\nPreemptMode=CANCEL", "PreemptMode=REQUEUE",
			"QOSName=a PreemptMode=requeue", NULL, NULL},
		/* GANG is the cluster's */
		{"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL", "PreemptMode=GANG", NULL,
			"partition q: GANG is an option of the whole cluster", OF_PART},
		{"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL",
			"PreemptMode=REQUEUE,GANG", NULL, "partition q: GANG is an option",
			OF_PART},
		{"PreemptType=preempt/qos\nPreemptMode=CANCEL", "", "QOSName=a PreemptMode=gang",
			"QOS a: GANG is an option of the whole cluster", "qos.conf:1"},
		{"", "PreemptMode=GANG", NULL, "partition q: GANG is an option", "slurm.conf:4"},
		{"PreemptMode=GANG", "PreemptMode=GANG", NULL, NULL, NULL},
		{"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL,GANG", "PreemptMode=GANG",
			NULL, NULL, NULL},
		{"PreemptType=preempt/qos\nPreemptMode=CANCEL,GANG", "PreemptMode=GANG",
			"QOSName=a PreemptMode=GANG\nQOSName=b PreemptMode=SUSPEND,GANG", NULL,
			NULL},
		{"PreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG", "", NULL, NULL, NULL},
		{"PreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\nSelectType=select/cons_res",
			"", NULL, NULL, NULL},
		{"PreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\nSelectType=select/linear", "",
			NULL, "PreemptType=preempt/qos with PreemptMode=SUSPEND needs SelectType",
			"slurm.conf:2"},
	};
	char text[1024], wanted[256];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(text, sizeof(text), "%s\n%sPartitionName=q %s\n", rows[i].lines,
			SMALL, rows[i].part);
		(void)snprintf(wanted, sizeof(wanted), "%s: %s", rows[i].place ? rows[i].place : "",
			rows[i].wanted ? rows[i].wanted : "");
		if (rows[i].wanted)
			refuses(text, rows[i].qos, wanted);
		else
			(void)conf_free(read_all(text, rows[i].qos));
	}
}

/* GANG of a partition or QOS is no mode: its mode is the cluster's then. */
static void test_own_modes(void **state)
{
	static const struct {
		const char *text;
		uint16_t mode;
		bool gang;
	} rows[] = {
		{"GANG", NO_VAL16, true},
		{"OFF,GANG", PREEMPT_MODE_OFF, true},
		{"OFF", PREEMPT_MODE_OFF, false},
		{"suspend,gang", PREEMPT_MODE_SUSPEND, true},
		{"GANG,REQUEUE", PREEMPT_MODE_REQUEUE, true},
	};
	char text[512], qos[64];
	struct conf *conf;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(text, sizeof(text),
			"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL,GANG\n" SMALL
			"PartitionName=DEFAULT PreemptMode=REQUEUE,GANG\n"
			"PartitionName=q\nPartitionName=r PreemptMode=%s\n",
			rows[i].text);
		conf = read_all(text, NULL);
		assert_int_equal(conf->parts[1].preempt_mode, PREEMPT_MODE_REQUEUE);
		assert_true(conf->parts[1].names_gang);
		assert_int_equal(conf->parts[2].preempt_mode, rows[i].mode);
		assert_int_equal(conf->parts[2].names_gang, rows[i].gang);
		(void)conf_free(conf);
		(void)snprintf(qos, sizeof(qos), "QOSName=a PreemptMode=%s\n", rows[i].text);
		conf = read_all("PreemptType=preempt/qos\nPreemptMode=CANCEL,GANG\n" SMALL, qos);
		assert_int_equal(conf->qos[0].preempt_mode, rows[i].mode);
		(void)conf_free(conf);
	}
}

/* ---- what is allowed, and reported -------------------------------------------------------------
 */

#define PRIO(mode) "PreemptType=preempt/partition_prio\nPreemptMode=" mode "\n"
#define SWAPS      "PreemptMode=SUSPEND, but memory is not counted"

static void test_warnings(void **state)
{
	static const struct {
		const char *text, *qos;
		const char *wanted[3]; /* how they go on behind "DIRECTORY/" */
	} rows[] = {
		{SMALL, NULL, {NULL}},
		{PRIO("CANCEL") SMALL "PartitionName=q GraceTime=5\n", NULL, {NULL}},
		{PRIO("SUSPEND,GANG") SMALL, NULL, {"slurm.conf:2: " SWAPS}},
		{PRIO("SUSPEND,GANG") "SelectTypeParameters=CR_Core\n" SMALL, NULL,
			{"slurm.conf:2: " SWAPS}},
		{PRIO("SUSPEND,GANG") "SelectTypeParameters=CR_Core_Memory\n" SMALL, NULL, {NULL}},
		{PRIO("SUSPEND,GANG") "SelectType=select/linear\nSelectTypeParameters=CR_Memory\n" SMALL,
			NULL, {NULL}},
		{PRIO("CANCEL,GANG") SMALL "PartitionName=q PreemptMode=SUSPEND GraceTime=5\n",
			NULL,
			{"slurm.conf:5: " SWAPS,
				"slurm.conf:5: partition q: GraceTime has no effect with "
				"PreemptMode=SUSPEND"}},
		{PRIO("REQUEUE") SMALL "PartitionName=q GraceTime=5\n"
				       "PartitionName=r GraceTime=5 PreemptMode=CANCEL\n"
				       "PartitionName=s GraceTime=5 PreemptMode=OFF\n",
			"QOSName=a GraceTime=1\n",
			{"slurm.conf:5: partition q: GraceTime has no effect with "
			 "PreemptMode=REQUEUE: it is only honoured with CANCEL"}},
		{"PreemptType=preempt/qos\nPreemptMode=REQUEUE\n" SMALL
		 "PartitionName=q GraceTime=5\n",
			"QOSName=a GraceTime=1\nQOSName=b\n"
			"QOSName=c GraceTime=2 PreemptMode=CANCEL\n",
			{"qos.conf:1: QOS a: GraceTime has no effect with PreemptMode=REQUEUE"}},
		{SMALL "PartitionName=q GraceTime=5\n", NULL, {NULL}},
	};
	size_t i, k, n, at = strlen(dir) + 1;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct conf *conf = read_all(rows[i].text, rows[i].qos);
		_cleanup_strv_ struct strv warnings = {.v = NULL};

		assert_int_equal(conf_list_warnings(conf, &warnings), 0);
		for (n = 0; rows[i].wanted[n]; n++)
			;
		for (k = 0; k < warnings.n && k < n; k++) {
			if (strncmp(warnings.v[k] + at, rows[i].wanted[k],
				    strlen(rows[i].wanted[k])) != 0)
				fail_msg("row %zu: %s", i, warnings.v[k]);
		}
		if (warnings.n != n)
			fail_msg("row %zu: %zu warnings, not %zu", i, warnings.n, n);
		(void)conf_free(conf);
	}
}

/* ---- read again --------------------------------------------------------------------------------
 */

#define AGAIN_CLUSTER                                                                              \
	"ClusterName=a\nSelectType=select/linear\nSelectTypeParameters=CR_Memory\n"                \
	"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n"
#define AGAIN_NODES                                                                                \
	"NodeName=n[1-2] Sockets=2 CoresPerSocket=2 RealMemory=100 MemSpecLimit=10 Weight=2\n"
#define AGAIN_PARTS "PartitionName=p Nodes=n[1-2]\nPartitionName=q Nodes=n1 Default=YES\n"

/* Each key of an old file whose new value matters to jobd. */
static void test_keep(void **state)
{
	static const struct {
		const char *text, *restart, *refused;
	} rows[] = {
		{AGAIN_CLUSTER AGAIN_NODES AGAIN_PARTS, NULL, NULL},
		{AGAIN_CLUSTER "ClusterName=b\n" AGAIN_NODES AGAIN_PARTS, "ClusterName", NULL},
		{AGAIN_CLUSTER "FirstJobId=9\nStateSaveLocation=/x\n" AGAIN_NODES AGAIN_PARTS,
			"FirstJobId StateSaveLocation", NULL},
		{AGAIN_CLUSTER "SelectType=select/cons_res\n" AGAIN_NODES AGAIN_PARTS, "SelectType",
			NULL},
		{AGAIN_CLUSTER "SelectTypeParameters=CR_LLN\n" AGAIN_NODES AGAIN_PARTS,
			"SelectTypeParameters", NULL},
		{AGAIN_CLUSTER
			"PreemptMode=OFF\nPreemptType=preempt/none\n" AGAIN_NODES AGAIN_PARTS,
			"PreemptMode PreemptType", NULL},
		/* what is taken while it runs */
		{AGAIN_CLUSTER
			"DefMemPerCPU=5\nMaxMemPerCPU=6\nEnforcePartLimits=ALL\nJobRequeue=0\n"
			"KillWait=3\nMaxArraySize=7\nMaxJobCount=8\nMaxJobId=90\nMinJobAge=1\n"
			"PreemptExemptTime=3\nSchedulerTimeSlice=9\nSchedulerType=sched/builtin\n"
			"SchedulerParameters=defer,bf_interval=7\n" AGAIN_NODES AGAIN_PARTS,
			NULL, NULL},
		{AGAIN_CLUSTER
			"NodeName=n[1-2] Sockets=2 CoresPerSocket=2 RealMemory=100 MemSpecLimit=10 "
			"Weight=3 Feature=a State=DRAIN Reason=r\n"
			"PartitionName=p Nodes=n1,n2 Default=YES PriorityTier=4 MaxTime=5 MinNodes=2 "
			"OverSubscribe=YES State=DOWN GraceTime=4 RootOnly=YES AllowGroups=x\n"
			"PartitionName=q Nodes=ALL Nodes=n1\n",
			NULL, NULL},
		/* of one of the nodes */
		{AGAIN_CLUSTER
			"NodeName=n1 Sockets=2 CoresPerSocket=2 RealMemory=100 MemSpecLimit=10 Weight=2\n"
			"NodeName=n2 Sockets=2 CoresPerSocket=2 RealMemory=100 MemSpecLimit=11 "
			"Weight=2\n" AGAIN_PARTS,
			"MemSpecLimit", NULL},
		{AGAIN_CLUSTER
			"NodeName=n1 Sockets=2 CoresPerSocket=2 RealMemory=100 MemSpecLimit=10\n"
			"NodeName=n2 Sockets=1 CoresPerSocket=4 RealMemory=99 ThreadsPerCore=2 "
			"MemSpecLimit=11\n" AGAIN_PARTS,
			NULL, "CPUs CoresPerSocket RealMemory Sockets ThreadsPerCore"},
		{AGAIN_CLUSTER "NodeName=n[1-3]\n" AGAIN_PARTS, NULL, "NodeName"},
		{AGAIN_CLUSTER "NodeName=m[1-2]\nPartitionName=p Nodes=ALL\n", NULL,
			"NodeName PartitionName"},
		{AGAIN_CLUSTER AGAIN_NODES "PartitionName=p Nodes=ALL\nPartitionName=q Nodes=n2\n",
			NULL, "Nodes"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct conf *old = read_all(AGAIN_CLUSTER AGAIN_NODES AGAIN_PARTS, NULL);
		struct conf *now = read_all(rows[i].text, NULL);
		_cleanup_free_ char *restart = NULL;
		struct err err = ERR_INIT;
		int r = conf_keep(old, now, &restart, &err);

		if ((r < 0) != (rows[i].refused != NULL) ||
			strcmp(restart ? restart : "", rows[i].restart ? rows[i].restart : "") != 0)
			fail_msg("row %zu: needs a restart: %s; %s", i,
				restart ? restart : "nothing", err.text);
		if (r < 0 && !strstr(err.text, rows[i].refused))
			fail_msg("row %zu: %s", i, err.text);
		if (r == 0) {
			assert_string_equal(now->cluster_name, "a");
			assert_string_equal(now->select_type, "linear");
			assert_int_equal(now->select_type_param, CR_MEMORY);
			assert_string_equal(now->preempt_type, "partition_prio");
			assert_int_equal(now->preempt_mode, PREEMPT_MODE_CANCEL);
			assert_int_equal(now->first_job_id, 1);
			assert_null(now->state_save_location);
			assert_int_equal(now->nodes[1].mem_spec_limit, 10);
		}
		(void)conf_free(old);
		(void)conf_free(now);
	}
}

#define AGAIN(cluster, part) cluster SMALL "PartitionName=q " part "\n"

/* What is allowed in either file is not always so with what of the old one stays in force. */
static void test_keep_forbidden(void **state)
{
	static const struct {
		const char *old, *now, *qos;
		const char *wanted;
	} rows[] = {
		{AGAIN(PRIO("CANCEL"), ""), AGAIN(PRIO("SUSPEND,GANG"), "PreemptMode=SUSPEND"),
			NULL, "PreemptMode=SUSPEND needs GANG in the cluster's"},
		{AGAIN(PRIO("CANCEL"), ""), AGAIN(PRIO("CANCEL,GANG"), "PreemptMode=REQUEUE,GANG"),
			NULL, "partition q: GANG is an option of the whole cluster"},
		{AGAIN("", ""), AGAIN(PRIO("CANCEL"), "PreemptMode=REQUEUE"), NULL,
			"partition q: PreemptMode needs PreemptType=preempt/partition_prio, but it "
			"is preempt/none"},
		{AGAIN("PreemptType=preempt/qos\nPreemptMode=CANCEL\n", ""),
			AGAIN(PRIO("CANCEL"), "PreemptMode=REQUEUE"), NULL,
			"but it is preempt/qos"},
		{AGAIN(PRIO("CANCEL"), ""),
			AGAIN("PreemptType=preempt/qos\nPreemptMode=CANCEL\n", ""),
			"QOSName=a PreemptMode=REQUEUE\n", "but it is preempt/partition_prio"},
		{AGAIN("SelectType=select/linear\nPreemptType=preempt/qos\nPreemptMode=CANCEL,GANG\n",
			 ""),
			AGAIN("PreemptType=preempt/qos\nPreemptMode=CANCEL,GANG\n", ""),
			"QOSName=a PreemptMode=SUSPEND\n", "not select/linear"},
		{AGAIN("FirstJobId=100\n", ""), AGAIN("MaxJobId=50\n", ""), NULL,
			"FirstJobId=100: must not be above MaxJobId=50"},
		/* the mode is in force already */
		{AGAIN(PRIO("CANCEL,GANG"), ""), AGAIN(PRIO("SUSPEND,GANG"), "PreemptMode=SUSPEND"),
			NULL, NULL},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct conf *old = read_all(rows[i].old, NULL);
		struct conf *now = read_all(rows[i].now, rows[i].qos);
		struct conf *was = read_all(rows[i].old, NULL);
		_cleanup_free_ char *restart = NULL;
		struct err err = ERR_INIT;
		int r = conf_keep(old, now, &restart, &err);

		if ((r < 0) != (rows[i].wanted != NULL))
			fail_msg("row %zu: %d: %s", i, r, err.text);
		if (r < 0) {
			assert_null(restart);
			assert_int_equal(r, err.code);
			if (!strstr(err.text, rows[i].wanted) ||
				strncmp(err.text, "nothing was changed: ", 21) != 0)
				fail_msg("row %zu: %s", i, err.text);
			/* as it was */
			assert_int_equal(old->preempt_mode, was->preempt_mode);
			assert_string_equal(old->preempt_type, was->preempt_type);
			assert_string_equal(old->select_type, was->select_type);
			assert_int_equal(old->first_job_id, was->first_job_id);
		}
		(void)conf_free(old);
		(void)conf_free(now);
		(void)conf_free(was);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_cluster),
		cmocka_unit_test(test_select_parameters),
		cmocka_unit_test(test_scheduler),
		cmocka_unit_test(test_preempt_parameters),
		cmocka_unit_test(test_exempt_time),
		cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_node_states),
		cmocka_unit_test(test_partitions),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_part_states),
		cmocka_unit_test(test_qos),
		cmocka_unit_test(test_wrong_qos),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_include),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_nul),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_preemption),
		cmocka_unit_test(test_own_modes),
		cmocka_unit_test(test_warnings),
		cmocka_unit_test(test_keep),
		cmocka_unit_test(test_keep_forbidden),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
