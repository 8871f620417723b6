/* SPDX-License-Identifier: BSD-3-Clause
 *
 * squeue, sinfo, and the daemon's statistics.
 */
#include <poll.h>
#include <string.h>

#include "contrib/jobd/cli/jobctl.h"
#include "contrib/jobd/cli/node_table.h"
#include "contrib/jobd/cli/queue_table.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"

#define ITERATE_MAX_S 86400u

/* Options of both commands besides their views. */
struct list_options {
	bool is_long, no_header, json, help, ignored;
	uint32_t iterate_s; /* 0: once */
};

static int take_iterate(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	if (parse_u32(arg, 1, ITERATE_MAX_S, (uint32_t *)((char *)into + o->offset)) < 0)
		return err_set_text(err, -EINVAL, "'%.50s' is not a number of seconds from 1 to %u",
			arg, ITERATE_MAX_S);
	return 0;
}

/* Slurm's date above a long list. */
static void print_date(int64_t now)
{
	const time_t t = (time_t)now;
	char text[64];
	struct tm tm;

	if (localtime_r(&t, &tm) && strftime(text, sizeof(text), "%a %b %d %H:%M:%S %Y", &tm) > 0)
		(void)puts(text);
}

/* Prints once, or again and again; 0 or a failure ends it. */
static int repeat(int (*print)(void *userdata, struct err *err), void *userdata, uint32_t iterate_s,
	struct err *err)
{
	int r = print(userdata, err);

	while (r == 0 && iterate_s > 0) {
		if (putchar('\n') == EOF || fflush(stdout) == EOF)
			return 0;                           /* main() reports it */
		(void)poll(NULL, 0, (int)iterate_s * 1000); /* a signal ends the program */
		r = print(userdata, err);
	}
	return r;
}

/* ---- squeue -----------------------------------------------------------------------------------
 */

struct queue_options {
	struct list_options list;
	struct queue_view view;
};

#define VIEW(member_) offsetof(struct queue_options, view.member_)
#define LIST(member_) offsetof(struct queue_options, list.member_)

/* clang-format off */
static const struct cli_option queue_rows[] = {
	{.heading = "Jobs",
	 .name = "jobs", .letter = 'j', .arg = "IDS", .take = cli_take_text, .offset = VIEW(jobs), .doc = "these jobs"},
	{.name = "user", .letter = 'u', .arg = "USERS", .take = cli_take_text, .offset = VIEW(users), .doc = "of these users"},
	{.name = "partition", .letter = 'p', .arg = "NAMES", .take = cli_take_text, .offset = VIEW(partitions),
	 .doc = "of these partitions"},
	{.name = "qos", .letter = 'q', .arg = "NAMES", .take = cli_take_text, .offset = VIEW(qos), .doc = "of these QOS"},
	{.name = "reservation", .letter = 'R', .arg = "NAME", .take = cli_take_text, .offset = VIEW(reservation),
	 .doc = "in this reservation"},
	{.name = "states", .letter = 't', .arg = "STATES", .take = cli_take_text, .offset = VIEW(states),
	 .doc = "in these states, or all (those that have not ended)"},
	{.name = "nodelist", .letter = 'w', .arg = "NODES", .take = cli_take_text, .offset = VIEW(nodes), .doc = "on these nodes"},
	{.name = "name", .letter = 'n', .arg = "NAMES", .take = cli_take_text, .offset = VIEW(job_names), .doc = "of these names"},
	{.name = "all", .letter = 'a', .take = cli_take_flag, .offset = LIST(ignored), .doc = "partitions are never hidden here"},

	{.heading = "Output",
	 .name = "format", .letter = 'o', .arg = "FORMAT", .take = cli_take_text, .offset = VIEW(format),
	 .doc = "columns by letters, \"%.18i %.9P\""},
	{.name = "Format", .letter = 'O', .arg = "NAMES", .take = cli_take_text, .offset = VIEW(names),
	 .doc = "columns by names, \"JobID:.18,Partition\""},
	{.name = "long", .letter = 'l', .take = cli_take_flag, .offset = LIST(is_long), .doc = "with states in full, and limits"},
	{.name = "start", .take = cli_take_flag, .offset = VIEW(pending), .doc = "when jobs that wait are expected to start"},
	{.name = "array", .letter = 'r', .take = cli_take_flag, .offset = VIEW(tasks), .doc = "a line for each task of an array"},
	{.name = "sort", .letter = 'S', .arg = "LETTERS", .take = cli_take_text, .offset = VIEW(sort),
	 .doc = "in this order (P,t,-p)"},
	{.name = "noheader", .letter = 'h', .take = cli_take_flag, .offset = LIST(no_header), .doc = "without a title"},
	{.name = "iterate", .letter = 'i', .arg = "SECONDS", .take = take_iterate, .offset = LIST(iterate_s),
	 .doc = "repeat the list every SECONDS"},
	{.name = "json", .take = cli_take_flag, .offset = LIST(json), .doc = "jobd's documents"},
	{.name = "help", .take = cli_take_help, .offset = LIST(help), .doc = "print this"},
};
/* clang-format on */

static int print_queue(void *userdata, struct err *err)
{
	const struct queue_options *o = userdata;
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	json_auto_t *jobs = NULL, *chosen = NULL;
	int64_t now = 0;
	int r = jobd_connect(&client, err);

	if (r == 0)
		r = jobd_list(client, "ListJobs", "jobs", NULL, &jobs, &now, err);
	if (r < 0)
		return r;
	if (o->list.json) {
		r = queue_choose(&o->view, jobs, &chosen, err);
		return r < 0 ? r
			     : jobctl_print_json_take(
				       json_pack("{s:O, s:I}", "jobs", chosen, "time", now), err);
	}
	if (o->list.is_long)
		print_date(now);
	return queue_print(&o->view, jobs, (time_t)now, stdout, err);
}

int jobctl_queue(const char *name, int argc, char **argv, struct err *err)
{
	struct queue_options o = {0};
	int rest = 0;
	int r = jobctl_parse(name, "[OPTION...]", queue_rows, ARRAY_SIZE(queue_rows), argc, argv,
		&o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (rest < argc)
		return err_set_text(err, -EINVAL, "'%.100s' is not an option", argv[rest]);
	o.view.header = !o.list.no_header;
	if (!o.view.format && o.view.pending)
		o.view.format = QUEUE_START_FORMAT;
	else if (!o.view.format && o.list.is_long)
		o.view.format = QUEUE_LONG_FORMAT;
	if (!o.view.format && !o.view.names)
		o.view.format = getenv("SQUEUE_FORMAT");
	return repeat(print_queue, &o, o.list.iterate_s, err);
}

/* ---- sinfo ------------------------------------------------------------------------------------
 */

struct node_options {
	struct list_options list;
	struct node_view view;
	bool summary;
};

#undef VIEW
#undef LIST
#define VIEW(member_) offsetof(struct node_options, view.member_)
#define LIST(member_) offsetof(struct node_options, list.member_)

/* clang-format off */
static const struct cli_option node_rows[] = {
	{.heading = "Nodes",
	 .name = "nodes", .letter = 'n', .arg = "NODES", .take = cli_take_text, .offset = VIEW(nodes), .doc = "these nodes"},
	{.name = "partition", .letter = 'p', .arg = "NAMES", .take = cli_take_text, .offset = VIEW(partitions),
	 .doc = "of these partitions"},
	{.name = "states", .letter = 't', .arg = "STATES", .take = cli_take_text, .offset = VIEW(states), .doc = "in these states"},
	{.name = "list-reasons", .letter = 'R', .take = cli_take_flag, .offset = VIEW(reasons),
	 .doc = "that are down or drained, and why"},
	{.name = "dead", .letter = 'd', .take = cli_take_flag, .offset = VIEW(dead), .doc = "that are down"},
	{.name = "responding", .letter = 'r', .take = cli_take_flag, .offset = VIEW(alive), .doc = "that are not"},
	{.name = "all", .letter = 'a', .take = cli_take_flag, .offset = VIEW(hidden), .doc = "hidden partitions, too"},

	{.heading = "Output",
	 .name = "format", .letter = 'o', .arg = "FORMAT", .take = cli_take_text, .offset = VIEW(format),
	 .doc = "columns by letters, \"%9P %.5a %N\""},
	{.name = "Format", .letter = 'O', .arg = "NAMES", .take = cli_take_text, .offset = VIEW(names),
	 .doc = "columns by names, \"Partition:9,NodeList\""},
	{.name = "Node", .letter = 'N', .take = cli_take_flag, .offset = VIEW(single), .doc = "a line for each node"},
	{.name = "long", .letter = 'l', .take = cli_take_flag, .offset = LIST(is_long), .doc = "more columns"},
	{.name = "summarize", .letter = 's', .take = cli_take_flag, .offset = offsetof(struct node_options, summary),
	 .doc = "a line for each partition"},
	{.name = "exact", .letter = 'e', .take = cli_take_flag, .offset = VIEW(exact),
	 .doc = "group nodes by CPUs and memory, too"},
	{.name = "sort", .letter = 'S', .arg = "LETTERS", .take = cli_take_text, .offset = VIEW(sort),
	 .doc = "in this order (#P,-t)"},
	{.name = "noheader", .letter = 'h', .take = cli_take_flag, .offset = LIST(no_header), .doc = "without a title"},
	{.name = "iterate", .letter = 'i', .arg = "SECONDS", .take = take_iterate, .offset = LIST(iterate_s),
	 .doc = "repeat the list every SECONDS"},
	{.name = "json", .take = cli_take_flag, .offset = LIST(json), .doc = "jobd's documents"},
	{.name = "help", .take = cli_take_help, .offset = LIST(help), .doc = "print this"},
};
/* clang-format on */

static int print_nodes(void *userdata, struct err *err)
{
	const struct node_options *o = userdata;
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	json_auto_t *nodes = NULL, *parts = NULL;
	int64_t now = 0;
	int r = jobd_connect(&client, err);

	if (r == 0)
		r = jobd_list(client, "ListPartitions", "partitions", NULL, &parts, &now, err);
	if (r == 0)
		r = jobd_list(client, "ListNodes", "nodes", NULL, &nodes, &now, err);
	if (r < 0)
		return r;
	if (o->list.json)
		return jobctl_print_json_take(json_pack("{s:O, s:O, s:I}", "nodes", nodes,
						      "partitions", parts, "time", now),
			err);
	if (o->list.is_long)
		print_date(now);
	return node_table_print(&o->view, nodes, parts, stdout, err);
}

static const char *node_format(const struct node_options *o)
{
	const char *own = getenv("SINFO_FORMAT");

	if (o->view.reasons)
		return o->list.is_long ? NODES_REASONS_LONG_FORMAT : NODES_REASONS_FORMAT;
	if (o->summary)
		return NODES_SUMMARY_FORMAT;
	if (o->view.single)
		return o->list.is_long ? NODES_SINGLE_LONG_FORMAT : NODES_SINGLE_FORMAT;
	if (o->list.is_long)
		return NODES_LONG_FORMAT;
	return own ? own : NODES_FORMAT;
}

int jobctl_nodes(const char *name, int argc, char **argv, struct err *err)
{
	struct node_options o = {0};
	int rest = 0;
	int r = jobctl_parse(
		name, "[OPTION...]", node_rows, ARRAY_SIZE(node_rows), argc, argv, &o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (rest < argc)
		return err_set_text(err, -EINVAL, "'%.100s' is not an option", argv[rest]);
	o.view.header = !o.list.no_header;
	if (!o.view.format && !o.view.names)
		o.view.format = node_format(&o);
	return repeat(print_nodes, &o, o.list.iterate_s, err);
}

/* ---- stats ------------------------------------------------------------------------------------
 */

struct stats_options {
	bool json, help;
};

/* clang-format off */
static const struct cli_option stats_rows[] = {
	{.name = "json", .take = cli_take_flag, .offset = offsetof(struct stats_options, json), .doc = "as a JSON object"},
	{.name = "help", .letter = 'h', .take = cli_take_help, .offset = offsetof(struct stats_options, help),
	 .doc = "print this"},
};

static const struct {
	const char *member, *title;
} stats_lines[] = {
	{"cluster", "Cluster"}, {"select_type", "Select plugin"}, {"preempt_type", "Preempt plugin"},
	{"pending", "Jobs pending"}, {"running", "Jobs running"}, {"suspended", "Jobs suspended"},
	{"submitted", "Jobs submitted"}, {"started", "Jobs started"}, {"backfilled", "  by backfill"},
	{"completed", "Jobs completed"}, {"cancelled", "Jobs cancelled"}, {"failed", "Jobs failed"},
	{"requeued", "Jobs requeued"}, {"preempted", "Jobs preempted"},
	{"passes", "Scheduling passes"}, {"backfill_cycles", "Backfill cycles"},
	{"last_backfill_jobs", "  jobs of the last one"}, {"tests", "Tests by the select plugin"},
};
/* clang-format on */

static int print_stats(const json_t *reply, struct err *err)
{
	_cleanup_free_ char *since = text_of_time(json_get_int(reply, "since", 0), "Unknown");
	const json_t *value;
	size_t i;

	if (!since)
		return err_set(err, -ENOMEM, "print the numbers");
	(void)printf("%-28s%s\n", "Since", since);
	for (i = 0; i < ARRAY_SIZE(stats_lines); i++) {
		value = json_object_get(reply, stats_lines[i].member);
		if (json_is_integer(value))
			(void)printf("%-28s%lld\n", stats_lines[i].title,
				(long long)json_integer_value(value));
		else if (json_is_string(value))
			(void)printf("%-28s%s\n", stats_lines[i].title, json_string_value(value));
	}
	return 0;
}

int jobctl_stats(const char *name, int argc, char **argv, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	struct stats_options o = {0};
	json_auto_t *reply = NULL;
	int rest = 0;
	int r = jobctl_parse(name, "[OPTION...]", stats_rows, ARRAY_SIZE(stats_rows), argc, argv,
		&o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = jobd_connect(&client, err);
	if (r == 0)
		r = jobd_call_take(client, "Stats", json_object(), JOBD_TIMEOUT_MS, &reply, err);
	if (r < 0)
		return r;
	return o.json ? jobctl_print_json_take(json_incref(reply), err) : print_stats(reply, err);
}
