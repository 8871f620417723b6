/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scontrol show: a block of NAME=VALUE for each job, node, partition or reservation.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "contrib/jobd/cli/jobctl.h"
#include "contrib/jobd/cli/node_table.h"
#include "contrib/jobd/cli/queue_table.h"
#include "stepd/base/json.h"

#define JOB_ID    "JobId=%A"
#define JOB_ARRAY " ArrayJobId=%F ArrayTaskId=%K"
#define JOB_HET   " HetJobId=%{HetJobID} HetJobOffset=%{HetJobOffset}"
#define JOB_REST                                                                                   \
	" JobName=%j\n"                                                                            \
	"   UserId=%u(%U) GroupId=%g(%G)\n"                                                        \
	"   Priority=%Q QOS=%q\n"                                                                  \
	"   JobState=%T Reason=%r Dependency=%E\n"                                                 \
	"   Requeue=%{Requeue} Restarts=%{RestartCnt} BatchFlag=%{BatchFlag} "                     \
	"ExitCode=%{ExitCode}\n"                                                                   \
	"   RunTime=%M TimeLimit=%l\n"                                                             \
	"   SubmitTime=%V EligibleTime=%{EligibleTime}\n"                                          \
	"   StartTime=%S EndTime=%e\n"                                                             \
	"   PreemptEligibleTime=%{PreemptEligibleTime} PreemptTime=%{PreemptTime}\n"               \
	"   SuspendTime=%{SuspendTime}\n"                                                          \
	"   Partition=%P Reservation=%v\n"                                                         \
	"   ReqNodeList=%n ExcNodeList=%x Features=%f\n"                                           \
	"   NodeList=%N SchedNodeList=%Y BatchHost=%B\n"                                           \
	"   NumNodes=%D NumCPUs=%C NumTasks=%{NumTasks} CPUs/Task=%{cpus-per-task} "               \
	"NtasksPerN:S:C=%{NTPerNode}:%{NTPerSocket}:%{NTPerCore}\n"                                \
	"   Distribution=%{Distribution} SpreadJob=%{SpreadJob} UseMinNodes=%{UseMinNodes}\n"      \
	"   MinCPUsNode=%c MinMemory=%m OverSubscribe=%h Contiguous=%O\n"                          \
	"   Command=%o\n"                                                                          \
	"   WorkDir=%Z\n"                                                                          \
	"   StdErr=%{STDERR}\n"                                                                    \
	"   StdIn=%{STDIN}\n"                                                                      \
	"   StdOut=%{STDOUT}\n"                                                                    \
	"   Comment=%k"

#define NODE_FORMAT                                                                                \
	"NodeName=%n State=%{StateComplete} Reason=%E [%u@%H]\n"                                   \
	"   CPUAlloc=%{AllocCPUs} CPUTot=%{CPUs} Sockets=%X CoresPerSocket=%Y ThreadsPerCore=%Z\n" \
	"   RealMemory=%m AllocMem=%{AllocMem} MemSpecLimit=%{SpecMem} Weight=%w\n"                \
	"   AvailableFeatures=%f Partitions=%{Partitions}\n"                                       \
	"   RunningJobs=%{RunningJobs} SuspendedJobs=%{SuspendedJobs}\n"

#define PART_FORMAT                                                                                \
	"PartitionName=%R\n"                                                                       \
	"   State=%{PartitionState} Default=%{Default} Hidden=%{Hidden} RootOnly=%r\n"             \
	"   AllowGroups=%g\n"                                                                      \
	"   DefaultTime=%L MaxTime=%l JobSize=%s\n"                                                \
	"   Nodes=%{PartitionNodes} TotalNodes=%{TotalNodes} TotalCPUs=%{TotalCPUs}\n"             \
	"   PriorityJobFactor=%I PriorityTier=%p OverSubscribe=%h PreemptMode=%M "                 \
	"GraceTime=%{GraceTime}\n"

struct show_options {
	bool json, details, help;
};

#define IN(member_) offsetof(struct show_options, member_)

/* clang-format off */
static const struct cli_option show_rows[] = {
	{.name = "details", .letter = 'd', .take = cli_take_flag, .offset = IN(details),
	 .doc = "of a job: its CPUs and memory on each node, and its request if the job is yours"},
	{.name = "json", .take = cli_take_flag, .offset = IN(json), .doc = "jobd's documents"},
	{.name = "help", .letter = 'h', .take = cli_take_help, .offset = IN(help), .doc = "print this"},
};
/* clang-format on */

/* ---- jobs -------------------------------------------------------------------------------------
 */

static void print_allocation(const json_t *job)
{
	const json_t *node;
	size_t i;

	json_array_foreach (json_get_array(job, "allocated_nodes"), i, node)
		(void)printf("     Nodes=%s CPUs=%lld CPU_IDs=%s Mem=%lld\n",
			json_get_text(node, "name", ""), (long long)json_get_int(node, "cpus", 0),
			json_get_text(node, "cores", "all"),
			(long long)json_get_int(node, "memory_mb", 0));
}

/* Unless it is missing. It may come from a user. */
static void print_text(const char *name, const char *text)
{
	char shown[ERR_TEXT_SIZE];

	if (!text)
		return;
	err_printable(shown, sizeof(shown), text);
	(void)printf("   %s=%s\n", name, shown);
}

static int print_job(json_t *job, int64_t now, bool details, struct err *err)
{
	json_auto_t *alone = json_pack("[O]", job);
	const char *format = JOB_ID JOB_REST;
	struct queue_view view = {.states = "all", .tasks = true};
	int r;

	if (json_get_int(job, "array_job_id", 0) > 0)
		format = JOB_ID JOB_ARRAY JOB_REST;
	else if (json_get_int(job, "het_job_id", 0) > 0)
		format = JOB_ID JOB_HET JOB_REST;
	view.format = format;
	if (!alone)
		return err_set(err, -ENOMEM, "print a job");
	r = queue_print(&view, alone, (time_t)now, stdout, err);
	if (r == 0) {
		print_text("StateDesc", json_get_text(job, "state_description", NULL));
		print_text("Signal", json_get_text(job, "signal", NULL));
		print_text("Network", json_get_text(job, "network", NULL));
		print_text("SelectJobInfo", json_get_text(job, "select_jobinfo", NULL));
	}
	if (r == 0 && details)
		print_allocation(job);
	(void)putchar('\n');
	return r;
}

static int show_jobs(
	struct jobd_client *client, const struct show_options *o, const char *id, struct err *err)
{
	json_auto_t *jobs = NULL,
		    *call = json_pack(
			    "{s:s*, s:o*}", "job", id, "details", o->details ? json_true() : NULL);
	int64_t now = 0;
	json_t *job;
	size_t i;
	int r = call ? jobd_list(client, "ListJobs", "jobs", call, &jobs, &now, err)
		     : err_set(err, -ENOMEM, "list jobs");

	if (r < 0)
		return r;
	if (o->json)
		return jobctl_print_json_take(
			json_pack("{s:O, s:I}", "jobs", jobs, "time", now), err);
	json_array_foreach (jobs, i, job) {
		r = print_job(job, now, o->details, err);
		if (r < 0)
			return r;
	}
	if (i == 0 && !id)
		(void)puts("No jobs in the system");
	return 0;
}

/* ---- nodes and partitions ---------------------------------------------------------------------
 */

static int show_table(struct jobd_client *client, const struct show_options *o,
	const struct node_view *view, struct err *err)
{
	json_auto_t *nodes = NULL, *parts = NULL;
	int64_t now = 0;
	int r = jobd_list(client, "ListPartitions", "partitions", NULL, &parts, &now, err);

	if (r == 0)
		r = jobd_list(client, "ListNodes", "nodes", NULL, &nodes, &now, err);
	if (r < 0)
		return r;
	if (o->json)
		return jobctl_print_json_take(json_pack("{s:O, s:O, s:I}", "nodes", nodes,
						      "partitions", parts, "time", now),
			err);
	return node_table_print(view, nodes, parts, stdout, err);
}

static int show_nodes(struct jobd_client *client, const struct show_options *o, const char *names,
	struct err *err)
{
	const struct node_view view = {
		.format = NODE_FORMAT, .sort = "N", .single = true, .hidden = true, .nodes = names};

	return show_table(client, o, &view, err);
}

static int show_parts(struct jobd_client *client, const struct show_options *o, const char *names,
	struct err *err)
{
	const struct node_view view = {
		.format = PART_FORMAT, .sort = "#P", .hidden = true, .partitions = names};

	return show_table(client, o, &view, err);
}

/* ---- reservations -----------------------------------------------------------------------------
 */

static void print_users(const json_t *reservation)
{
	const json_t *uid;
	const char *separator = "   Users=";
	size_t i;

	json_array_foreach (json_get_array(reservation, "users"), i, uid) {
		_cleanup_free_ char *name = text_of_user(json_integer_value(uid));

		(void)printf("%s%s", separator, name ? name : "?");
		separator = ",";
	}
	if (i > 0)
		(void)putchar('\n');
}

static void print_reservation(const json_t *reservation, int64_t now)
{
	const int64_t from = json_get_int(reservation, "start_time", 0),
		      to = json_get_int(reservation, "end_time", 0);
	_cleanup_free_ char *start = text_of_time(from, "Unknown"),
			    *end = text_of_time(to, "Unknown"),
			    *duration = text_of_seconds(to - from);
	const json_t *value;
	size_t i;

	(void)printf("ReservationName=%s StartTime=%s EndTime=%s Duration=%s\n"
		     "   Nodes=%s NodeCnt=%lld CoreCnt=%lld PartitionName=%s State=%s\n",
		json_get_text(reservation, "name", ""), start ? start : "?", end ? end : "?",
		duration ? duration : "?", json_get_text(reservation, "nodes", ""),
		(long long)json_get_int(reservation, "node_count", 0),
		(long long)json_get_int(reservation, "core_count", 0),
		json_get_text(reservation, "partition", "(null)"),
		from <= now && now < to ? "ACTIVE" : "INACTIVE");
	json_array_foreach (json_get_array(reservation, "cores"), i, value)
		(void)printf("     NodeName=%s CoreIDs=%s\n", json_get_text(value, "name", ""),
			json_get_text(value, "cores", ""));
	print_users(reservation);
	json_array_foreach (json_get_array(reservation, "flags"), i, value)
		(void)printf("%s%s", i ? "," : "   Flags=",
			json_string_value(value) ? json_string_value(value) : "");
	(void)fputs(i > 0 ? "\n\n" : "\n", stdout);
}

static int show_reservations(struct jobd_client *client, const struct show_options *o,
	const char *names, struct err *err)
{
	json_auto_t *all = NULL;
	const json_t *reservation;
	int64_t now = 0;
	size_t i, shown = 0;
	int r = jobd_list(client, "ListReservations", "reservations", NULL, &all, &now, err);

	if (r < 0)
		return r;
	if (o->json)
		return jobctl_print_json_take(
			json_pack("{s:O, s:I}", "reservations", all, "time", now), err);
	json_array_foreach (all, i, reservation) {
		if (!list_has(names, json_get_text(reservation, "name", "")))
			continue;
		print_reservation(reservation, now);
		shown++;
	}
	if (shown == 0 && names)
		return err_set_text(err, -ENOENT, "there is no reservation '%.100s'", names);
	if (shown == 0)
		(void)puts("No reservations in the system");
	return 0;
}

/* ---- the command ------------------------------------------------------------------------------
 */

static const struct {
	const char *name;
	int (*show)(struct jobd_client *client, const struct show_options *o, const char *names,
		struct err *err);
} kinds[] = {
	{"job", show_jobs},
	{"node", show_nodes},
	{"partition", show_parts},
	{"reservation", show_reservations},
};

/* "job", "jobs" or a beginning of it; "job=12" has the name, too. */
static int find_kind(const char *word, const char **ret_name)
{
	size_t size = strcspn(word, "="), i;

	if (word[size])
		*ret_name = word + size + 1;
	if (size > 1 && tolower((unsigned char)word[size - 1]) == 's')
		size--;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (size > 0 && strncasecmp(kinds[i].name, word, size) == 0)
			return (int)i;
	}
	return -1;
}

int jobctl_show(const char *name, int argc, char **argv, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	struct show_options o = {0};
	const char *which = NULL;
	int kind, rest = 0;
	int r = jobctl_parse(name, "job|node|partition|reservation [NAME]", show_rows,
		ARRAY_SIZE(show_rows), argc, argv, &o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	kind = rest < argc ? find_kind(argv[rest], &which) : -1;
	if (kind < 0 || argc - rest > 2)
		return err_set_text(err, -EINVAL,
			"show what? job, node, partition or reservation, and "
			"the name of one");
	if (argc - rest == 2)
		which = argv[rest + 1];
	r = jobd_connect(&client, err);
	return r < 0 ? r : kinds[kind].show(client, &o, which, err);
}
