/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/cli/queue_table.h"

#include <ctype.h>
#include <pwd.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

#include "contrib/jobd/cli/values.h"
#include "stepd/base/buffer.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"

#define TASKS_SHOWN 64 /* characters of "3-9,12", as squeue has it */

/* A line: a job, or tasks of an array that wait. */
struct queue_row {
	const json_t *job; /* of tasks the first one */
	time_t now;
	bool joined;
	int64_t *tasks;
	size_t tasks_count, tasks_capacity;
	struct strv reasons; /* of the tasks, each once */
};

/* ---- states -----------------------------------------------------------------------------------
 */

static const struct {
	const char *name, *code;
	bool in_queue; /* shown without --states */
} states[] = {
	{"PENDING", "PD", true},
	{"RUNNING", "R", true},
	{"SUSPENDED", "S", true},
	{"COMPLETING", "CG", true},
	{"CONFIGURING", "CF", true},
	{"COMPLETED", "CD", false},
	{"CANCELLED", "CA", false},
	{"FAILED", "F", false},
	{"TIMEOUT", "TO", false},
	{"NODE_FAIL", "NF", false},
	{"PREEMPTED", "PR", false},
	{"OUT_OF_MEMORY", "OOM", false},
};

static const char *base_state(const json_t *job)
{
	return json_get_text(job, "job_state", "PENDING");
}

static bool has_state(const json_t *job, const char *state)
{
	return strcmp(base_state(job), state) == 0;
}

const char *queue_state(const json_t *job)
{
	if (has_state_flag(job, "COMPLETING"))
		return "COMPLETING";
	return has_state_flag(job, "CONFIGURING") ? "CONFIGURING" : base_state(job);
}

const char *queue_state_code(const json_t *job)
{
	const char *state = queue_state(job);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		if (strcmp(states[i].name, state) == 0)
			return states[i].code;
	}
	return "?";
}

int64_t queue_run_time(const json_t *job, time_t now)
{
	const int64_t start = json_get_int(job, "start_time", 0);
	const int64_t suspended = json_get_int(job, "suspended_s", 0);
	int64_t end = json_get_int(job, "end_time", 0);

	if (has_state(job, "PENDING") || start == 0)
		return 0;
	if (has_state(job, "SUSPENDED"))
		end = json_get_int(job, "suspend_time", now);
	else if (has_state(job, "RUNNING") || end == 0)
		end = now;
	/* a clock that was set back, and a jobd that was restarted */
	return end > start + suspended ? end - start - suspended : 0;
}

/* ---- cells ------------------------------------------------------------------------------------
 */

static const json_t *job_of(const void *row)
{
	return ((const struct queue_row *)row)->job;
}

static char *cell_text(const struct column *column, const void *row)
{
	return strdup(json_get_text(job_of(row), column->member, column->missing));
}

static char *cell_number(const struct column *column, const void *row)
{
	const json_t *value = json_object_get(job_of(row), column->member);

	return json_is_integer(value) ? text_printf("%lld", (long long)json_integer_value(value))
				      : strdup(column->missing);
}

static double number_of(const struct column *column, const void *row)
{
	return (double)json_get_int(job_of(row), column->member, 0);
}

/* A job without a start in sight is behind all others. */
static double number_start(const struct column *column, const void *row)
{
	const int64_t start = json_get_int(job_of(row), column->member, 0);

	return start ? (double)start : (double)INT64_MAX;
}

static char *cell_bool(const struct column *column, const void *row)
{
	return strdup(json_get_bool(job_of(row), column->member, false) ? "1" : "0");
}

static char *cell_time(const struct column *column, const void *row)
{
	return text_of_time(json_get_int(job_of(row), column->member, 0), column->missing);
}

static char *cell_user(const struct column *column, const void *row)
{
	return text_of_user(json_get_int(job_of(row), column->member, -1));
}

static char *cell_group(const struct column *column, const void *row)
{
	return text_of_group(json_get_int(job_of(row), column->member, -1));
}

static char *cell_cpus(const struct column *column, const void *row)
{
	return text_of_size((uint64_t)json_get_int(job_of(row), column->member, 0), 0);
}

/* With CPUs given, it is the larger of both. */
static char *cell_min_cpus(const struct column *column, const void *row)
{
	return text_printf("%lld", (long long)json_get_int(job_of(row), column->member, 1));
}

static int64_t memory_of(const json_t *job)
{
	return json_get_int(job, "memory_per_node_mb", json_get_int(job, "memory_per_cpu_mb", 0));
}

static char *cell_memory(const struct column *column, const void *row)
{
	(void)column;
	return text_of_size((uint64_t)memory_of(job_of(row)), 'M');
}

static double number_memory(const struct column *column, const void *row)
{
	(void)column;
	return (double)memory_of(job_of(row));
}

static int64_t end_of(const json_t *job)
{
	const int64_t start = json_get_int(job, "start_time", 0);
	const int64_t limit = json_get_int(job, "time_limit_min", -1);

	return has_state(job, "PENDING") ? (start && limit >= 0 ? start + limit * 60 : 0)
					 : json_get_int(job, "end_time", 0);
}

static char *cell_end(const struct column *column, const void *row)
{
	return text_of_time(end_of(job_of(row)), column->missing);
}

static double number_end(const struct column *column, const void *row)
{
	(void)column;
	return (double)end_of(job_of(row));
}

static char *cell_limit(const struct column *column, const void *row)
{
	return text_of_limit(json_get_int(job_of(row), column->member, -1), column->missing);
}

static double number_limit(const struct column *column, const void *row)
{
	const int64_t limit = json_get_int(job_of(row), column->member, -1);

	return limit < 0 ? (double)INT64_MAX : (double)limit;
}

static char *cell_run_time(const struct column *column, const void *row)
{
	(void)column;
	return text_of_seconds(queue_run_time(job_of(row), ((const struct queue_row *)row)->now));
}

static double number_run_time(const struct column *column, const void *row)
{
	(void)column;
	return (double)queue_run_time(job_of(row), ((const struct queue_row *)row)->now);
}

static double number_left(const struct column *column, const void *row)
{
	const int64_t limit = json_get_int(job_of(row), "time_limit_min", -1);

	return limit < 0 ? (double)INT64_MAX : (double)limit * 60 - number_run_time(column, row);
}

static char *cell_left(const struct column *column, const void *row)
{
	return json_get_int(job_of(row), "time_limit_min", -1) < 0
		? strdup("UNLIMITED")
		: text_of_seconds((int64_t)number_left(column, row));
}

static char *cell_pending_time(const struct column *column, const void *row)
{
	const json_t *job = job_of(row);
	const int64_t until = has_state(job, "PENDING") ? ((const struct queue_row *)row)->now
							: json_get_int(job, "start_time", 0);

	const int64_t submitted = json_get_int(job, "submit_time", 0);

	(void)column;
	return text_printf("%lld", until > submitted ? (long long)(until - submitted) : 0LL);
}

static char *cell_priority(const struct column *column, const void *row)
{
	return text_printf(
		"%16.14f", (double)json_get_int(job_of(row), column->member, 0) / 4294967296.0);
}

static char *cell_state(const struct column *column, const void *row)
{
	(void)column;
	return strdup(queue_state(job_of(row)));
}

static char *cell_state_code(const struct column *column, const void *row)
{
	(void)column;
	return strdup(queue_state_code(job_of(row)));
}

/* "STATUS:SIGNAL" */
static char *cell_exit(const struct column *column, const void *row)
{
	const int status = (int)json_get_int(job_of(row), column->member, 0);

	return text_printf("%d:%d", WIFEXITED(status) ? WEXITSTATUS(status) : 0,
		WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* "afterok:1(unfulfilled),singleton(unfulfilled)" */
static char *cell_dependency(const struct column *column, const void *row)
{
	const char *text = json_get_text(job_of(row), column->member, NULL);
	_cleanup_buffer_ struct buffer made = {0};
	static const char mark[] = "(unfulfilled)";
	size_t size;

	if (!text || !*text)
		return strdup(column->missing);
	for (; *text; text += size + (text[size] != '\0')) {
		size = strcspn(text, ",?");
		if (buffer_add(&made, text, size) < 0 ||
			buffer_add(&made, mark, sizeof(mark) - 1) < 0 ||
			buffer_add(&made, text[size] ? text + size : "", 1) < 0)
			return NULL;
	}
	return strndup(buffer_bytes(&made), buffer_size(&made));
}

/* ---- tasks of arrays --------------------------------------------------------------------------
 */

char *queue_job_name(const json_t *job)
{
	const int64_t array = json_get_int(job, "array_job_id", 0);
	const int64_t het = json_get_int(job, "het_job_id", 0);

	if (array > 0)
		return text_printf("%lld_%lld", (long long)array,
			(long long)json_get_int(job, "array_task_id", 0));
	if (het > 0)
		return text_printf("%lld+%lld", (long long)het,
			(long long)json_get_int(job, "het_job_offset", 0));
	return text_printf("%lld", (long long)json_get_int(job, "job_id", 0));
}

/* Writes "3-9,12%2" as bit_fmt() has ranges, and cuts it where squeue does. */
static char *tasks_text(const struct queue_row *row)
{
	const int64_t most = json_get_int(row->job, "array_max_tasks", 0);
	_cleanup_free_ char *text = NULL;
	size_t size = 0, i, last;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (i = 0; i < row->tasks_count; i = last + 1) {
		for (last = i;
			last + 1 < row->tasks_count && row->tasks[last + 1] == row->tasks[last] + 1;
			last++)
			;
		(void)fprintf(f, "%s%lld", i ? "," : "", (long long)row->tasks[i]);
		if (last > i)
			(void)fprintf(f, "-%lld", (long long)row->tasks[last]);
	}
	if (fclose(f) == EOF)
		return NULL;
	if (size > TASKS_SHOWN) {
		for (i = TASKS_SHOWN - 4; i > 0 && text[i] != ','; i--)
			;
		text[i] = '\0';
		return most > 0 ? text_printf("%s,...%%%lld", text, (long long)most)
				: text_printf("%s,...", text);
	}
	return most > 0 ? text_printf("%s%%%lld", text, (long long)most) : strdup(text);
}

static char *cell_job_id(const struct column *column, const void *row)
{
	const struct queue_row *r = row;
	_cleanup_free_ char *tasks = NULL;

	(void)column;
	if (!r->joined)
		return queue_job_name(r->job);
	tasks = tasks_text(r);
	return tasks ? text_printf("%lld_[%s]", (long long)json_get_int(r->job, "array_job_id", 0),
			       tasks)
		     : NULL;
}

static double number_job_id(const struct column *column, const void *row)
{
	const json_t *job = job_of(row);

	(void)column;
	return (double)json_get_int(job, "array_job_id", json_get_int(job, "job_id", 0)) +
		(double)json_get_int(job, "array_task_id", 0) / 4294967296.0;
}

static char *cell_array_job(const struct column *column, const void *row)
{
	const json_t *job = job_of(row);

	(void)column;
	return text_printf("%lld",
		(long long)json_get_int(job, "array_job_id", json_get_int(job, "job_id", 0)));
}

static char *cell_array_task(const struct column *column, const void *row)
{
	const struct queue_row *r = row;

	return r->joined ? tasks_text(r) : cell_number(column, row);
}

/* ---- reasons ----------------------------------------------------------------------------------
 */

/* For an end of which only the state is known. */
static const char *reason_of(const json_t *job)
{
	const char *reason = json_get_text(job, "state_reason", "None");

	if (strcmp(reason, "None") != 0)
		return reason;
	if (has_state(job, "FAILED"))
		return json_object_get(job, "state_description") ? "JobLaunchFailure"
								 : "NonZeroExitCode";
	if (has_state(job, "TIMEOUT"))
		return "TimeLimit";
	return has_state(job, "OUT_OF_MEMORY") ? "OutOfMemory" : reason;
}

static char *cell_reason(const struct column *column, const void *row)
{
	const struct queue_row *r = row;

	(void)column;
	return r->reasons.n ? strv_join(r->reasons.v, ',') : strdup(reason_of(r->job));
}

static bool shows_reason(const json_t *job)
{
	static const char *const ends[] = {"PENDING", "FAILED", "TIMEOUT", "OUT_OF_MEMORY"};

	return !has_state_flag(job, "COMPLETING") &&
		strv_index(ends, ARRAY_SIZE(ends), base_state(job)) >= 0;
}

static char *cell_nodes_or_reason(const struct column *column, const void *row)
{
	const json_t *job = job_of(row);
	_cleanup_free_ char *reason = NULL;

	if (!shows_reason(job))
		return strdup(json_get_text(job, "nodes", ""));
	reason = cell_reason(column, row);
	return reason ? text_printf("(%s)", reason) : NULL;
}

/* ---- the columns ------------------------------------------------------------------------------
 */

/* clang-format off */
#define NONE(letter, name, title, missing)         {letter, name, title, column_constant, NULL, NULL, missing, 0, 0}
#define TEXT(letter, name, title, member, missing) {letter, name, title, cell_text, NULL, member, missing, 0, 0}
#define NUMBER(letter, name, title, member, missing) \
	{letter, name, title, cell_number, number_of, member, missing, 0, 0}
#define TIME(letter, name, title, member)          {letter, name, title, cell_time, number_of, member, "N/A", 0, 0}
#define BOOL(letter, name, title, member)          {letter, name, title, cell_bool, NULL, member, NULL, 0, 0}
#define OWN(letter, name, title, cell, number, member, missing) \
	{letter, name, title, cell, number, member, missing, 0, 0}

static const struct column columns[] = {
	NONE('a', "Account", "ACCOUNT", "(null)"),
	NUMBER('A', "JobID", "JOBID", "job_id", "0"),
	NONE('b', "tres-per-node", "TRES_PER_NODE", "N/A"),
	TEXT('B', "BatchHost", "EXEC_HOST", "batch_host", "n/a"),
	OWN('c', "MinCpus", "MIN_CPUS", cell_min_cpus, number_of, "minimum_cpus_per_node", NULL),
	OWN('C', "NumCPUs", "CPUS", cell_cpus, number_of, "cpus", NULL),
	NONE('d', "MinTmpDisk", "MIN_TMP_DISK", "0"),
	NUMBER('D', "NumNodes", "NODES", "node_count", "0"),
	OWN('e', "EndTime", "END_TIME", cell_end, number_end, NULL, "N/A"),
	OWN('E', "Dependency", "DEPENDENCY", cell_dependency, NULL, "dependency", "(null)"),
	TEXT('f', "Feature", "FEATURES", "features", "(null)"),
	OWN('F', "ArrayJobID", "ARRAY_JOB_ID", cell_array_job, number_job_id, NULL, NULL),
	OWN('g', "GroupName", "GROUP", cell_group, NULL, "group_id", NULL),
	NUMBER('G', "GroupID", "GROUP", "group_id", "0"),
	TEXT('h', "OverSubscribe", "OVER_SUBSCRIBE", "oversubscribe", "OK"),
	NONE('H', "Sockets", "SOCKETS_PER_NODE", "*"),
	OWN('i', "JobArrayID", "JOBID", cell_job_id, number_job_id, NULL, NULL),
	NONE('I', "Cores", "CORES_PER_SOCKET", "*"),
	TEXT('j', "Name", "NAME", "name", ""),
	NONE('J', "Threads", "THREADS_PER_CORE", "*"),
	TEXT('k', "Comment", "COMMENT", "comment", "(null)"),
	OWN('K', "ArrayTaskID", "ARRAY_TASK_ID", cell_array_task, number_of, "array_task_id", "N/A"),
	OWN('l', "TimeLimit", "TIME_LIMIT", cell_limit, number_limit, "time_limit_min", "UNLIMITED"),
	OWN('L', "TimeLeft", "TIME_LEFT", cell_left, number_left, NULL, NULL),
	OWN('m', "MinMemory", "MIN_MEMORY", cell_memory, number_memory, NULL, NULL),
	OWN('M', "TimeUsed", "TIME", cell_run_time, number_run_time, NULL, NULL),
	TEXT('n', "ReqNodes", "REQ_NODES", "required_nodes", ""),
	TEXT('N', "NodeList", "NODELIST", "nodes", ""),
	TEXT('o', "Command", "COMMAND", "command", "(null)"),
	BOOL('O', "Contiguous", "CONTIGUOUS", "contiguous"),
	OWN('p', "Priority", "PRIORITY", cell_priority, number_of, "priority", NULL),
	TEXT('P', "Partition", "PARTITION", "partition", "(null)"),
	TEXT('q', "QOS", "QOS", "qos", "(null)"),
	NUMBER('Q', "PriorityLong", "PRIORITY", "priority", "0"),
	OWN('r', "Reason", "REASON", cell_reason, NULL, NULL, NULL),
	OWN('R', "ReasonList", "NODELIST(REASON)", cell_nodes_or_reason, NULL, NULL, NULL),
	TEXT('s', "SelectJobInfo", "SELECT_JOBINFO", "select_data", ""),
	OWN('S', "StartTime", "START_TIME", cell_time, number_start, "start_time", "N/A"),
	OWN('t', "StateCompact", "ST", cell_state_code, NULL, NULL, NULL),
	OWN('T', "State", "STATE", cell_state, NULL, NULL, NULL),
	OWN('u', "UserName", "USER", cell_user, NULL, "user_id", NULL),
	NUMBER('U', "UserID", "UID", "user_id", "0"),
	TEXT('v', "Reservation", "RESERVATION", "resv_name", "(null)"),
	TIME('V', "SubmitTime", "SUBMIT_TIME", "submit_time"),
	NONE('w', "WCKey", "WCKEY", "(null)"),
	NONE('W', "Licenses", "LICENSES", "(null)"),
	TEXT('x', "ExcNodes", "EXC_NODES", "excluded_nodes", ""),
	NONE('X', "CoreSpec", "CORE_SPEC", "N/A"),
	NONE('y', "Nice", "NICE", "0"),
	TEXT('Y', "SchedNodes", "SCHEDNODES", "scheduled_nodes", "(null)"),
	NONE('z', "SCT", "S:C:T", "*:*:*"),
	TEXT('Z', "WorkDir", "WORK_DIR", "current_working_directory", "(null)"),
	BOOL(0, "BatchFlag", "BATCH_FLAG", "batch"),
	NUMBER(0, "cpus-per-task", "CPUS_PER_TASK", "cpus_per_task", "1"),
	TIME(0, "EligibleTime", "ELIGIBLE_TIME", "eligible_time"),
	NUMBER(0, "exit_code", "EXIT_CODE", "exit_code", "0"),
	OWN(0, "ExitCode", "EXIT_CODE", cell_exit, NULL, "exit_code", NULL),
	TIME(0, "SuspendTime", "SUSPEND_TIME", "suspend_time"),
	TIME(0, "PreemptEligibleTime", "PREEMPT_ELIGIBLE_TIME", "preemptable_time"),
	NUMBER(0, "HetJobID", "HET_JOB_ID", "het_job_id", "N/A"),
	NUMBER(0, "HetJobOffset", "HET_JOB_OFFSET", "het_job_offset", "N/A"),
	NUMBER(0, "MaxNodes", "MAX_NODES", "max_nodes", "0"),
	TEXT(0, "Distribution", "DISTRIBUTION", "distribution", "(null)"),
	NUMBER(0, "NTPerCore", "NTASKS_PER_CORE", "ntasks_per_core", "0"),
	NUMBER(0, "NTPerNode", "NTASKS_PER_NODE", "ntasks_per_node", "0"),
	NUMBER(0, "NTPerSocket", "NTASKS_PER_SOCKET", "ntasks_per_socket", "0"),
	BOOL(0, "SpreadJob", "SPREAD_JOB", "spread_job"),
	BOOL(0, "UseMinNodes", "USE_MIN_NODES", "use_min_nodes"),
	NUMBER(0, "NumTasks", "TASKS", "tasks", "1"),
	OWN(0, "PendingTime", "PENDING_TIME", cell_pending_time, NULL, NULL, NULL),
	TIME(0, "PreemptTime", "PREEMPT_TIME", "preempt_time"),
	BOOL(0, "Requeue", "REQUEUE", "requeue"),
	NUMBER(0, "RestartCnt", "RESTART_COUNT", "restart_cnt", "0"),
	TEXT(0, "STDERR", "STDERR", "standard_error", ""),
	TEXT(0, "STDIN", "STDIN", "standard_input", "/dev/null"),
	TEXT(0, "STDOUT", "STDOUT", "standard_output", ""),
};
/* clang-format on */

static const struct column_table table = {
	.columns = columns, .n = ARRAY_SIZE(columns), .command = "squeue"};

/* ---- which jobs -------------------------------------------------------------------------------
 */

/* Calls check for each word of a list, which has it for as long. */
static int each_word(const char *list, int (*check)(const char *word, struct err *err),
	const char *option, struct err *err)
{
	_cleanup_free_ char *copy = strdup(list ? list : "");
	char *rest = copy;
	const char *word;
	int r = copy ? 0 : err_set(err, -ENOMEM, "%s", option);

	while (r == 0 && list && (word = strsep(&rest, ",")))
		r = check(word, err);
	return r < 0 ? r : 0;
}

static int find_uid(const char *word, int64_t *ret_uid)
{
	const struct passwd *pw = getpwnam(word);
	uint32_t uid;

	if (!pw && parse_u32(word, 0, UINT32_MAX - 1, &uid) < 0)
		return -ENOENT;
	*ret_uid = pw ? pw->pw_uid : uid;
	return 0;
}

static int check_user(const char *word, struct err *err)
{
	int64_t uid;

	return find_uid(word, &uid) < 0 ? err_set_text(err, -ENOENT, "Invalid user: %.100s", word)
					: 0;
}

static int check_state(const char *word, struct err *err)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		if (strcasecmp(word, states[i].name) == 0 || strcasecmp(word, states[i].code) == 0)
			return 0;
	}
	return strcasecmp(word, "all") == 0
		? 0
		: err_set_text(err, -EINVAL,
			  "Invalid job state specified: %.100s (PENDING, RUNNING, SUSPENDED, "
			  "COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL, PREEMPTED, "
			  "OUT_OF_MEMORY, COMPLETING, CONFIGURING or all)",
			  word);
}

static int check_job(const char *word, struct err *err)
{
	const size_t digits = strspn(word, "0123456789");

	if (digits == 0 ||
		(word[digits] &&
			((word[digits] != '_' && word[digits] != '+') || !word[digits + 1] ||
				word[digits + 1 + strspn(word + digits + 1, "0123456789")])))
		return err_set_text(err, -EINVAL, "Invalid job id: %.100s", word);
	return 0;
}

static int check_view(const struct queue_view *view, struct err *err)
{
	int r = each_word(view->users, check_user, "--user", err);

	if (r == 0)
		r = each_word(view->states, check_state, "--states", err);
	if (r == 0)
		r = each_word(view->jobs, check_job, "--jobs", err);
	if (r == 0 && view->nodes)
		r = value_check_nodes(view->nodes, err);
	return r;
}

static bool has_user(const char *list, const json_t *job)
{
	_cleanup_free_ char *copy = list ? strdup(list) : NULL;
	char *rest = copy;
	const char *word;
	int64_t uid;

	while (copy && (word = strsep(&rest, ","))) {
		if (find_uid(word, &uid) == 0 && uid == json_get_int(job, "user_id", -1))
			return true;
	}
	return !list;
}

static bool list_has_case(const char *list, const char *text)
{
	_cleanup_free_ char *copy = strdup(list);
	char *rest = copy;
	const char *word;

	while (copy && (word = strsep(&rest, ","))) {
		if (strcasecmp(word, text) == 0)
			return true;
	}
	return false;
}

static bool has_wanted_state(const char *list, const json_t *job)
{
	const char *state = queue_state(job);
	size_t i;

	if (list && list_has_case(list, "all"))
		return true;
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		if (strcmp(states[i].name, state) == 0)
			return list ? list_has_case(list, states[i].name) ||
					list_has_case(list, states[i].code) ||
					list_has_case(list, base_state(job))
				    : states[i].in_queue;
	}
	return false;
}

/* "12" is a job, all tasks of an array or all components of a job; "12_3" is a task, "12+1" a
 * component; these have numbers of their own, too. */
static bool has_job(const char *list, const json_t *job)
{
	_cleanup_free_ char *name = list ? queue_job_name(job) : NULL;
	const int64_t array = json_get_int(job, "array_job_id", 0);
	const int64_t het = json_get_int(job, "het_job_id", 0);
	char number[24];

	if (!list || (name && list_has(list, name)))
		return true;
	(void)snprintf(number, sizeof(number), "%lld", (long long)json_get_int(job, "job_id", 0));
	if (list_has(list, number))
		return true;
	(void)snprintf(number, sizeof(number), "%lld", (long long)(het > 0 ? het : array));
	return (het > 0 || array > 0) && list_has(list, number);
}

static bool is_wanted(const struct queue_view *view, const json_t *job)
{
	return has_wanted_state(view->states, job) && has_user(view->users, job) &&
		list_has(view->partitions, json_get_text(job, "partition", "")) &&
		list_has(view->qos, json_get_text(job, "qos", "")) &&
		list_has(view->reservation, json_get_text(job, "resv_name", "")) &&
		list_has(view->job_names, json_get_text(job, "name", "")) &&
		has_job(view->jobs, job) && (!view->pending || has_state(job, "PENDING")) &&
		(!view->nodes || nodes_meet(json_get_text(job, "nodes", ""), view->nodes));
}

int queue_choose(
	const struct queue_view *view, const json_t *jobs, json_t **ret_chosen, struct err *err)
{
	json_auto_t *chosen = json_array();
	json_t *job;
	size_t i;
	int r = check_view(view, err);

	if (r < 0)
		return r;
	json_array_foreach (jobs, i, job) {
		if (json_is_object(job) && is_wanted(view, job) &&
			json_array_append(chosen, job) < 0)
			return err_set(err, -ENOMEM, "list jobs");
	}
	if (!chosen)
		return err_set(err, -ENOMEM, "list jobs");
	*ret_chosen = json_incref(chosen);
	return 0;
}

/* ---- lines ------------------------------------------------------------------------------------
 */

/* Not one that has been queued again: it has its own story. */
static bool is_joinable(const json_t *job)
{
	return json_get_int(job, "array_job_id", 0) > 0 && has_state(job, "PENDING") &&
		!has_state_flag(job, "COMPLETING") && json_get_int(job, "restart_cnt", 0) == 0;
}

static int add_task(struct queue_row *row, const json_t *job)
{
	const char *reason = reason_of(job);

	if (array_reserve(row->tasks, row->tasks_capacity, row->tasks_count + 1) < 0)
		return -ENOMEM;
	row->tasks[row->tasks_count++] = json_get_int(job, "array_task_id", 0);
	row->joined = true;
	if (strv_index((const char *const *)row->reasons.v, row->reasons.n, reason) >= 0)
		return 0;
	return strv_add(&row->reasons, reason);
}

struct queue_rows {
	struct queue_row *rows;
	size_t n;
};

static void rows_clear(struct queue_rows *all)
{
	size_t i;

	for (i = 0; i < all->n; i++) {
		free(all->rows[i].tasks);
		strv_clear(&all->rows[i].reasons);
	}
	free(all->rows);
}

/* Tasks of an array have numbers one after the other, so that the line of the task before is the
 * last one, or there are lines of its running tasks behind it. */
static struct queue_row *find_array(const struct queue_rows *all, const json_t *job)
{
	const int64_t array = json_get_int(job, "array_job_id", 0);
	size_t i;

	for (i = all->n; i > 0 && json_get_int(all->rows[i - 1].job, "array_job_id", 0) == array;
		i--) {
		if (all->rows[i - 1].joined)
			return &all->rows[i - 1];
	}
	return NULL;
}

static int compare_tasks(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int make_rows(
	const struct queue_view *view, const json_t *jobs, time_t now, struct queue_rows *all)
{
	struct queue_row *row;
	const json_t *job;
	size_t i;
	int r = 0;

	all->rows = calloc(json_array_size(jobs) + 1, sizeof(*all->rows));
	if (!all->rows)
		return -ENOMEM;
	json_array_foreach (jobs, i, job) {
		const bool joinable = !view->tasks && is_joinable(job);

		row = joinable ? find_array(all, job) : NULL;
		if (!row) {
			row = &all->rows[all->n++];
			*row = (struct queue_row){.job = job, .now = now};
		}
		r = joinable ? add_task(row, job) : 0;
		if (r < 0)
			return r;
	}
	for (i = 0; i < all->n; i++) {
		if (all->rows[i].tasks_count)
			qsort(all->rows[i].tasks, all->rows[i].tasks_count, sizeof(int64_t),
				compare_tasks);
	}
	return 0;
}

static int print_rows(
	const struct queue_view *view, const struct queue_rows *all, FILE *out, struct err *err)
{
	_cleanup_format_ struct format format = {0};
	_cleanup_free_ const void **order = calloc(all->n + 1, sizeof(*order));
	size_t i;
	int r;

	if (!order)
		return err_set(err, -ENOMEM, "list jobs");
	for (i = 0; i < all->n; i++)
		order[i] = &all->rows[i];
	r = view->names
		? format_parse_names(&table, view->names, &format, err)
		: format_parse(&table, view->format ? view->format : QUEUE_FORMAT, &format, err);
	if (r == 0)
		r = rows_sort(&table,
			view->sort              ? view->sort
				: view->pending ? "S"
						: "P,t,-p",
			NULL, order, all->n, err);
	if (r < 0)
		return r;
	r = format_print(&format, out, view->header, order, all->n);
	return r < 0 ? err_set(err, r, "print the queue") : 0;
}

int queue_print(
	const struct queue_view *view, const json_t *jobs, time_t now, FILE *out, struct err *err)
{
	_cleanup_(rows_clear) struct queue_rows all = {0};
	json_auto_t *chosen = NULL;
	int r = queue_choose(view, jobs, &chosen, err);

	if (r < 0)
		return r;
	r = make_rows(view, chosen, now, &all);
	return r < 0 ? err_set(err, r, "list jobs") : print_rows(view, &all, out, err);
}
