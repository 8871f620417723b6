/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lines are those that squeue and sinfo of Slurm 22.05 printed for the same jobs and nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/jobd/cli/node_table.h"
#include "contrib/jobd/cli/queue_table.h"

#define START 1795453962 /* 2026-11-23T17:12:42 in UTC */
#define NOW   (START + 5)

static const char jobs_text[] =
	"["
	"{'job_id':1,'name':'averylongname','partition':'low','job_state':'RUNNING','priority':99,"
	" 'user_id':0,'group_id':0,'submit_time':1795453961,'start_time':1795453962,"
	" 'end_time':1795454562,'time_limit_min':10,'nodes':'n2','node_count':1,'cpus':2,"
	" 'memory_per_node_mb':1000,'batch_host':'n2','allocated_nodes':[{'name':'n2','cpus':2}]},"
	"{'job_id':2,'name':'b','partition':'low','job_state':'PENDING','state_reason':'Resources',"
	" 'priority':98,'user_id':0,'time_limit_min':20,'node_count':2,'cpus':8,"
	" 'start_time':1795454562,'scheduled_nodes':'n[2-3]','memory_per_cpu_mb':2048},"
	"{'job_id':3,'name':'c','partition':'low','job_state':'PENDING','state_reason':'Priority',"
	" 'priority':97,'user_id':0,'time_limit_min':5,'node_count':3,'cpus':3,"
	" 'oversubscribe':'NO'},"
	"{'job_id':4,'array_job_id':4,'array_task_id':3,'array_max_tasks':2,'name':'arr',"
	" 'partition':'low','job_state':'PENDING','state_reason':'Priority','priority':96,"
	" 'user_id':0,'time_limit_min':10,'node_count':1},"
	"{'job_id':5,'array_job_id':4,'array_task_id':4,'array_max_tasks':2,'name':'arr',"
	" 'partition':'low','job_state':'PENDING','state_reason':'Priority','priority':96,"
	" 'user_id':0,'time_limit_min':10,'node_count':1},"
	"{'job_id':6,'array_job_id':4,'array_task_id':7,'array_max_tasks':2,'name':'arr',"
	" 'partition':'low','job_state':'PENDING','state_reason':'Priority','priority':96,"
	" 'user_id':0,'time_limit_min':10,'node_count':1},"
	"{'job_id':7,'name':'dep','partition':'low','job_state':'PENDING','priority':95,"
	" 'state_reason':'Dependency','dependency':'afterok:1','user_id':0,'time_limit_min':-1,"
	" 'node_count':1},"
	"{'job_id':8,'name':'hi1','partition':'hi','job_state':'RUNNING','priority':94,'user_id':0,"
	" 'start_time':1795453962,'time_limit_min':-1,'nodes':'n1','node_count':1,'cpus':1},"
	"{'job_id':9,'name':'old','partition':'low','job_state':'FAILED','priority':93,"
	" 'user_id':65534,'start_time':1795450000,'end_time':1795453600,'exit_code':256,"
	" 'time_limit_min':2880,'nodes':'n[1-2]','node_count':2}"
	"]";

static const char nodes_text[] =
	"["
	"{'name':'n1','state':'MIXED','partitions':['low','hi'],'cpus':4,'alloc_cpus':1,"
	" 'sockets':1,'cores':4,'threads':1,'real_memory_mb':8000,'weight':1,'features':'a,b'},"
	"{'name':'n2','state':'MIXED','partitions':['low','hi'],'cpus':4,'alloc_cpus':2,"
	" 'sockets':1,'cores':4,'threads':1,'real_memory_mb':8000,'weight':1,'features':'a,b'},"
	"{'name':'n3','state':'IDLE','partitions':['low','hi'],'cpus':4,'alloc_cpus':0,"
	" 'sockets':1,'cores':4,'threads':1,'real_memory_mb':8000,'weight':1,'features':'a,b'},"
	"{'name':'m1','state':'DOWN','partitions':['hi','off'],'cpus':2048,'alloc_cpus':0,"
	" 'sockets':2,'cores':4,'threads':1,'real_memory_mb':16384,'weight':5,"
	" 'reason':'none of it','reason_changed_at':1795453961,'reason_set_by_user':0},"
	"{'name':'m2','state':'IDLE','state_flags':['DRAIN'],'partitions':['hi'],'cpus':8,"
	" 'sockets':2,'cores':4,'threads':1,'real_memory_mb':16000,'weight':5,"
	" 'reason':'bad disk, look','reason_changed_at':1795453961,'reason_set_by_user':0}"
	"]";

static const char parts_text[] =
	"["
	"{'name':'low','is_default':true,'state':'UP','nodes':'n[1-3]','max_time_min':1440,"
	" 'default_time_min':10,'min_nodes':0,'max_nodes':-1,'oversubscribe':'NO',"
	" 'priority_tier':1,'preempt_mode':'OFF'},"
	"{'name':'hi','state':'UP','nodes':'n[1-3],m[1-2]','max_time_min':-1,'min_nodes':1,"
	" 'max_nodes':4,'oversubscribe':'FORCE:2','priority_tier':2,'preempt_mode':'OFF'},"
	"{'name':'off','state':'DOWN','nodes':'m1','max_time_min':-1,'max_nodes':-1},"
	"{'name':'empty','is_hidden':true,'state':'UP','nodes':'','max_time_min':30,'max_nodes':-1}"
	"]";

static json_t *load(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	json_t *json;
	char *p;

	assert_non_null(copy);
	for (p = copy; *p; p++) {
		if (*p == '\'')
			*p = '"';
	}
	json = json_loads(copy, 0, NULL);
	assert_non_null(json);
	return json;
}

static void queue_is(const struct queue_view *view, const char *wanted)
{
	json_auto_t *jobs = load(jobs_text);
	_cleanup_free_ char *text = NULL;
	struct err err = ERR_INIT;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_int_equal(queue_print(view, jobs, NOW, f, &err), 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, wanted);
}

static void nodes_are(const struct node_view *view, const char *wanted)
{
	json_auto_t *nodes = load(nodes_text), *parts = load(parts_text);
	_cleanup_free_ char *text = NULL;
	struct err err = ERR_INIT;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_int_equal(node_table_print(view, nodes, parts, f, &err), 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, wanted);
}

/* ---- squeue -----------------------------------------------------------------------------------
 */

static void test_queue_default(void **state)
{
	(void)state;
	queue_is(&(struct queue_view){.header = true},
		"             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
		"                 8        hi      hi1     root  R       0:05      1 n1\n"
		"                 2       low        b     root PD       0:00      2 (Resources)\n"
		"                 3       low        c     root PD       0:00      3 (Priority)\n"
		"       4_[3-4,7%2]       low      arr     root PD       0:00      1 (Priority)\n"
		"                 7       low      dep     root PD       0:00      1 (Dependency)\n"
		"                 1       low averylon     root  R       0:05      1 n2\n");
}

static void test_queue_long_and_start(void **state)
{
	(void)state;
	queue_is(&(struct queue_view){.header = true, .format = QUEUE_LONG_FORMAT, .jobs = "8,2,1"},
		"             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES "
		"NODELIST(REASON)\n"
		"                 8        hi      hi1     root  RUNNING       0:05 UNLIMITED      1 "
		"n1\n"
		"                 2       low        b     root  PENDING       0:00     20:00      2 "
		"(Resources)\n"
		"                 1       low averylon     root  RUNNING       0:05     10:00      1 "
		"n2\n");
	queue_is(&(struct queue_view){.header = true,
			 .format = QUEUE_START_FORMAT,
			 .pending = true,
			 .jobs = "7,2"},
		"             JOBID PARTITION     NAME     USER ST          START_TIME  NODES "
		"SCHEDNODES           NODELIST(REASON)\n"
		"                 2       low        b     root PD 2026-11-23T17:22:42      2 "
		"n[2-3]               (Resources)\n"
		"                 7       low      dep     root PD                 N/A      1 "
		"(null)               (Dependency)\n");
}

static void test_queue_tasks(void **state)
{
	(void)state;
	queue_is(&(struct queue_view){.tasks = true, .format = "%i %A %F %K", .jobs = "4"},
		"4_3 4 4 3\n4_4 5 4 4\n4_7 6 4 7\n");
	queue_is(&(struct queue_view){.format = "%i|%K|%r", .jobs = "4_7,4_3"},
		"4_[3,7%2]|3,7%2|Priority\n");
	queue_is(&(struct queue_view){.format = "%i", .jobs = "6"}, "4_[7%2]\n");
}

static void test_queue_letters(void **state)
{
	(void)state;
	queue_is(
		&(struct queue_view){
			.header = true, .jobs = "1", .format = "%C %B %e %L %m %h %E %U"},
		"CPUS EXEC_HOST END_TIME TIME_LEFT MIN_MEMORY OVER_SUBSCRIBE DEPENDENCY UID\n"
		"2 n2 2026-11-23T17:22:42 9:55 1000M OK (null) 0\n");
	queue_is(&(struct queue_view){.jobs = "2", .format = "%m %S %e %Y %N|%p"},
		"2G 2026-11-23T17:22:42 2026-11-23T17:42:42 n[2-3] |0.00000002281740\n");
	queue_is(&(struct queue_view){.jobs = "7", .format = "%E %l %L"},
		"afterok:1(unfulfilled) UNLIMITED UNLIMITED\n");
	queue_is(
		&(struct queue_view){.header = true, .jobs = "1", .format = "%.3j|%3j|%15j|%.15j|"},
		"NAM|NAM|NAME           |           NAME|\n"
		"ave|ave|averylongname  |  averylongname|\n");
	queue_is(
		&(struct queue_view){
			.header = true, .jobs = "8", .names = "JobID:.8,Partition:5,Name,State:3"},
		"   JOBIDPARTINAME                STA\n"
		"       8hi   hi1                 RUN\n");
}

static void test_queue_filters(void **state)
{
	(void)state;
	queue_is(&(struct queue_view){.format = "%i", .states = "F,CD"}, "9\n");
	queue_is(&(struct queue_view){.format = "%i %R %M %l", .states = "failed"},
		"9 (NonZeroExitCode) 1:00:00 2-00:00:00\n");
	queue_is(&(struct queue_view){.format = "%i", .states = "all", .users = "65534"}, "9\n");
	queue_is(&(struct queue_view){.format = "%i", .partitions = "hi,off"}, "8\n");
	queue_is(&(struct queue_view){.format = "%i", .nodes = "n[2-9]"}, "1\n");
	queue_is(&(struct queue_view){.format = "%i", .job_names = "b,dep"}, "2\n7\n");
	queue_is(&(struct queue_view){.format = "%i", .sort = "-i", .jobs = "1,2,8"}, "8\n2\n1\n");
	queue_is(&(struct queue_view){.format = "%i", .sort = "-M,u,i", .jobs = "1,2,8"},
		"1\n8\n2\n");
}

static int fails(const struct queue_view *view, struct err *err)
{
	json_auto_t *jobs = load(jobs_text);

	return queue_print(view, jobs, NOW, stderr, err);
}

static void test_queue_errors(void **state)
{
	static const struct queue_view views[] = {
		{.format = "%"},
		{.format = "%4"},
		{.format = "%!"},
		{.format = "%99999i"},
		{.format = "%{Nothing}"},
		{.names = "Nothing"},
		{.names = "JobID:x"},
		{.names = "JobID:.8extra"},
		{.sort = "P,!"},
		{.states = "FOO"},
		{.users = "no such user"},
		{.jobs = "x"},
		{.jobs = "12_"},
		{.jobs = "12_x"},
		{.nodes = "n[1"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(views); i++) {
		struct err err = ERR_INIT;

		assert_true(fails(&views[i], &err) < 0);
		assert_true(strlen(err.text) > 0);
	}
}

/* Nothing of a name reaches the terminal as a command to it, and columns count characters. */
static void test_hostile_texts(void **state)
{
	json_auto_t *jobs = json_pack("[{s:i, s:s, s:s, s:i}]", "job_id", 1, "name",
		"\033[2Ja\n\xc2\x9b\xc3\xa4\xc3\xa4zzz", "job_state", "RUNNING", "user_id", 0);
	const struct queue_view view = {.format = "%.10j|%12j|"};
	_cleanup_free_ char *text = NULL;
	struct err err = ERR_INIT;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	assert_non_null(f);
	assert_int_equal(queue_print(&view, jobs, NOW, f, &err), 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, "?[2Ja??\xc3\xa4\xc3\xa4z|?[2Ja??\xc3\xa4\xc3\xa4zzz|\n");
}

/* What jobd sends is an object of another version: a member of another type is one that is missing.
 */
static void test_strange_documents(void **state)
{
	json_auto_t *jobs = load("[{}, 1, null, {'job_id':'x','name':3,'job_state':[],"
				 "'state_flags':{},'user_id':'root','nodes':7}]");
	const struct queue_view view = {.format = "%i %j %t %N %u %R", .states = "all"};
	_cleanup_free_ char *text = NULL;
	struct err err = ERR_INIT;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	assert_non_null(f);
	assert_int_equal(queue_print(&view, jobs, NOW, f, &err), 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, "0  PD  -1 (None)\n0  PD  -1 (None)\n");
}

static void test_suspended_and_completing(void **state)
{
	json_auto_t *jobs = load(
		"[{'job_id':1,'job_state':'SUSPENDED','start_time':1795453000,"
		"  'suspend_time':1795453100,'suspended_s':26,'nodes':'n1','user_id':0},"
		" {'job_id':2,'job_state':'CANCELLED','state_flags':['COMPLETING'],'user_id':0,"
		"  'start_time':1795453000,'end_time':1795453001,'nodes':'n[1-2]'},"
		" {'job_id':3,'job_state':'RUNNING','state_flags':['CONFIGURING'],'user_id':0}]");
	const struct queue_view view = {.format = "%i %t %T %M %R", .sort = "i"};
	_cleanup_free_ char *text = NULL;
	struct err err = ERR_INIT;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	assert_non_null(f);
	assert_int_equal(queue_print(&view, jobs, NOW, f, &err), 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text,
		"1 S SUSPENDED 1:14 n1\n2 CG COMPLETING 0:01 n[1-2]\n"
		"3 CF CONFIGURING 0:00 \n");
}

/* ---- sinfo ------------------------------------------------------------------------------------
 */

static void test_nodes_default(void **state)
{
	(void)state;
	nodes_are(&(struct node_view){.header = true},
		"PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
		"low*         up 1-00:00:00      2    mix n[1-2]\n"
		"low*         up 1-00:00:00      1   idle n3\n"
		"hi           up   infinite      1  drain m2\n"
		"hi           up   infinite      2    mix n[1-2]\n"
		"hi           up   infinite      1   idle n3\n"
		"hi           up   infinite      1   down m1\n"
		"off        down   infinite      1   down m1\n");
}

static void test_nodes_long(void **state)
{
	(void)state;
	nodes_are(
		&(struct node_view){
			.header = true, .format = NODES_LONG_FORMAT, .partitions = "low,hi"},
		"PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE "
		"NODELIST\n"
		"low*         up 1-00:00:00 1-infinite   no       NO        all      2       mixed "
		"n[1-2]\n"
		"low*         up 1-00:00:00 1-infinite   no       NO        all      1        idle "
		"n3\n"
		"hi           up   infinite        1-4   no  FORCE:2        all      1     drained "
		"m2\n"
		"hi           up   infinite        1-4   no  FORCE:2        all      2       mixed "
		"n[1-2]\n"
		"hi           up   infinite        1-4   no  FORCE:2        all      1        idle "
		"n3\n"
		"hi           up   infinite        1-4   no  FORCE:2        all      1        down "
		"m1\n");
}

static void test_nodes_single(void **state)
{
	(void)state;
	nodes_are(&(struct node_view){.header = true,
			  .single = true,
			  .format = NODES_SINGLE_FORMAT,
			  .nodes = "m2,n[1,3]"},
		"NODELIST   NODES PARTITION STATE \n"
		"m2             1        hi drain \n"
		"n1             1      low* mix   \n"
		"n1             1        hi mix   \n"
		"n3             1      low* idle  \n"
		"n3             1        hi idle  \n");
	nodes_are(&(struct node_view){.header = true,
			  .single = true,
			  .format = NODES_SINGLE_LONG_FORMAT,
			  .nodes = "m2,n3",
			  .partitions = "hi"},
		"NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT "
		"AVAIL_FE REASON              \n"
		"m2             1        hi     drained 8       2:4:1  16000        0      5   "
		"(null) bad disk, look      \n"
		"n3             1        hi        idle 4       1:4:1   8000        0      1      "
		"a,b none                \n");
}

static void test_nodes_reasons_and_summary(void **state)
{
	(void)state;
	nodes_are(&(struct node_view){.header = true,
			  .reasons = true,
			  .format = NODES_REASONS_FORMAT,
			  .nodes = "m2"},
		"REASON               USER      TIMESTAMP           NODELIST\n"
		"bad disk, look       root      2026-11-23T17:12:41 m2\n");
	nodes_are(&(struct node_view){.header = true,
			  .reasons = true,
			  .format = NODES_REASONS_LONG_FORMAT,
			  .nodes = "m2"},
		"REASON               USER         TIMESTAMP           STATE  NODELIST\n"
		"bad disk, look       root(0)      2026-11-23T17:12:41 drain  m2\n");
	nodes_are(&(struct node_view){.header = true, .format = NODES_SUMMARY_FORMAT},
		"PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST\n"
		"low*         up 1-00:00:00          2/1/0/3 n[1-3]\n"
		"hi           up   infinite          2/1/2/5 m[1-2],n[1-3]\n"
		"off        down   infinite          0/0/1/1 m1\n");
	nodes_are(&(struct node_view){.hidden = true, .partitions = "empty"},
		"empty        up      30:00      0    n/a \n");
}

static void test_nodes_groups(void **state)
{
	(void)state;
	/* a node in two partitions counts once, where partitions are not shown */
	nodes_are(&(struct node_view){.format = "%D %F %C %m %w %z %N"},
		"5 2/1/2/5 3/9/2056/2068 8000+ 1+ 1+:4:1 m[1-2],n[1-3]\n");
	nodes_are(&(struct node_view){.format = "%c %N", .nodes = "m1"}, "2K m1\n");
	nodes_are(&(struct node_view){.format = "%m %N", .exact = true},
		"8000 n[1-3]\n16000 m2\n16384 m1\n");
	nodes_are(&(struct node_view){.format = "%N", .states = "drain,mix"}, "m2,n[1-2]\n");
	nodes_are(&(struct node_view){.format = "%t %N", .sort = "t", .partitions = "hi"},
		"down m1\nidle n3\nmix n[1-2]\ndrain m2\n");
	nodes_are(&(struct node_view){.names = "Partition:6,NodeAIOT:.9,StateComplete:12",
			  .partitions = "hi",
			  .states = "drain"},
		"hi      0/0/1/1idle+drain  \n");
}

static void test_node_states(void **state)
{
	static const struct {
		const char *json, *code, *name;
	} rows[] = {
		{"{'state':'ALLOCATED','state_flags':['DRAIN']}", "drng", "draining"},
		{"{'state':'IDLE','state_flags':['DRAIN','COMPLETING']}", "drng", "draining"},
		{"{'state':'DOWN','state_flags':['DRAIN']}", "drain", "drained"},
		{"{'state':'IDLE','state_flags':['COMPLETING']}", "comp", "completing"},
		{"{'state':'IDLE','state_flags':['RESERVED']}", "resv", "reserved"},
		{"{'state':'IDLE','state_flags':['MAINT','RESERVED']}", "maint", "maint"},
		{"{'state':'ALLOCATED','state_flags':['RESERVED']}", "alloc", "allocated"},
		{"{'state':'UNKNOWN'}", "unk", "unknown"},
		{"{}", "unk", "unknown"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		json_auto_t *node = load(rows[i].json);

		assert_string_equal(node_state(node, false), rows[i].code);
		assert_string_equal(node_state(node, true), rows[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queue_default),
		cmocka_unit_test(test_queue_long_and_start),
		cmocka_unit_test(test_queue_tasks),
		cmocka_unit_test(test_queue_letters),
		cmocka_unit_test(test_queue_filters),
		cmocka_unit_test(test_queue_errors),
		cmocka_unit_test(test_hostile_texts),
		cmocka_unit_test(test_strange_documents),
		cmocka_unit_test(test_suspended_and_completing),
		cmocka_unit_test(test_nodes_default),
		cmocka_unit_test(test_nodes_long),
		cmocka_unit_test(test_nodes_single),
		cmocka_unit_test(test_nodes_reasons_and_summary),
		cmocka_unit_test(test_nodes_groups),
		cmocka_unit_test(test_node_states),
	};

	if (setenv("TZ", "UTC", 1) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
