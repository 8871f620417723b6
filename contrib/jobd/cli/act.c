/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Commands that change jobs, nodes, reservations and the daemon.
 */
#include <pwd.h>
#include <string.h>
#include <strings.h>

#include "contrib/jobd/cli/jobctl.h"
#include "contrib/jobd/cli/options.h"
#include "contrib/jobd/cli/queue_table.h"
#include "contrib/jobd/cli/values.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"

struct act_options {
	bool help;
};

#define HELP                                                                                       \
	{                                                                                          \
		.name = "help", .letter = 'h', .take = cli_take_help,                              \
		.offset = offsetof(struct act_options, help), .doc = "print this"                  \
	}

static const struct cli_option help_row[] = {HELP};

/* One call whose reply has nothing to print. */
static int act_take(
	struct jobd_client *client, const char *method, json_t *parameters, struct err *err)
{
	json_auto_t *reply = NULL;

	return jobd_call_take(client, method, parameters, JOBD_TIMEOUT_MS, &reply, err);
}

/* Only a refusal leaves the connection fit for the next job. */
static bool is_refusal(int r)
{
	return r == -EPERM || r == -ESRCH || r == -EINVAL || r == -EBUSY || r == -EOPNOTSUPP ||
		r == -EIO;
}

static void print_failure(const char *name, const char *job, const struct err *err)
{
	/* jobd names the job itself. */
	if (strncmp(err->text, "job ", 4) == 0)
		(void)fprintf(stderr, "%s: error: %s\n", name, err->text);
	else
		(void)fprintf(stderr, "%s: error: job %s: %s\n", name, job, err->text);
}

/* ---- a method for each job of the command line -------------------------------------------------
 */

/* "jobid=12" is what scontrol takes, too. */
static const char *bare_job(const char *word)
{
	return strncasecmp(word, "jobid=", 6) == 0 ? word + 6 : word;
}

static int act_on_jobs(const char *name, const char *method, int argc, char **argv, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	struct act_options o = {0};
	int i, rest = 0, status = 0;
	int r = jobctl_parse(name, "JOB...", help_row, 1, argc, argv, &o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (rest == argc)
		return err_set_text(err, -EINVAL, "which job? Give its number, such as 12 or 12_3");
	r = jobd_connect(&client, err);
	for (i = rest; r == 0 && i < argc; i++) {
		const char *job = bare_job(argv[i]);
		struct err own = ERR_INIT;
		int failed = act_take(client, method, json_pack("{s:s}", "job", job), &own);

		if (failed < 0) {
			print_failure(name, job, &own);
			status = 1;
		}
		if (failed < 0 && !is_refusal(failed))
			return status;
	}
	return r < 0 ? r : status;
}

int jobctl_hold(const char *name, int argc, char **argv, struct err *err)
{
	return act_on_jobs(name, "Hold", argc, argv, err);
}

int jobctl_release(const char *name, int argc, char **argv, struct err *err)
{
	return act_on_jobs(name, "Release", argc, argv, err);
}

int jobctl_suspend(const char *name, int argc, char **argv, struct err *err)
{
	return act_on_jobs(name, "Suspend", argc, argv, err);
}

int jobctl_resume(const char *name, int argc, char **argv, struct err *err)
{
	return act_on_jobs(name, "Resume", argc, argv, err);
}

int jobctl_requeue(const char *name, int argc, char **argv, struct err *err)
{
	return act_on_jobs(name, "Requeue", argc, argv, err);
}

/* ---- scancel ----------------------------------------------------------------------------------
 */

struct cancel_options {
	struct queue_view view;
	const char *signal;
	bool batch, full, interactive, quiet, ignored, help;
};

#define IN(member_) offsetof(struct cancel_options, member_)

/* clang-format off */
static const struct cli_option cancel_rows[] = {
	{.heading = "Jobs, in addition to those named",
	 .name = "user", .letter = 'u', .arg = "USER", .take = cli_take_text, .offset = IN(view.users), .doc = "of this user"},
	{.name = "name", .letter = 'n', .arg = "NAME", .take = cli_take_text, .offset = IN(view.job_names), .doc = "of this name"},
	{.name = "jobname", .arg = "NAME", .take = cli_take_text, .offset = IN(view.job_names), .doc = "the same, by an older name"},
	{.name = "partition", .letter = 'p', .arg = "NAME", .take = cli_take_text, .offset = IN(view.partitions),
	 .doc = "of this partition"},
	{.name = "qos", .letter = 'q', .arg = "NAME", .take = cli_take_text, .offset = IN(view.qos), .doc = "of this QOS"},
	{.name = "reservation", .letter = 'R', .arg = "NAME", .take = cli_take_text, .offset = IN(view.reservation),
	 .doc = "in this reservation"},
	{.name = "state", .letter = 't', .arg = "STATE", .take = cli_take_text, .offset = IN(view.states), .doc = "in this state"},
	{.name = "nodelist", .letter = 'w', .arg = "NODES", .take = cli_take_text, .offset = IN(view.nodes),
	 .doc = "on these nodes"},

	{.heading = "Action",
	 .name = "signal", .letter = 's', .arg = "SIGNAL", .take = cli_take_text, .offset = IN(signal),
	 .doc = "send them this signal instead of cancelling them"},
	{.name = "batch", .letter = 'b', .take = cli_take_flag, .offset = IN(batch), .doc = "send it to the batch script alone"},
	{.name = "full", .letter = 'f', .take = cli_take_flag, .offset = IN(full), .doc = "send it to the batch script, too"},
	{.name = "interactive", .letter = 'i', .take = cli_take_flag, .offset = IN(interactive), .doc = "confirm each one"},
	{.name = "quiet", .letter = 'Q', .take = cli_take_flag, .offset = IN(quiet), .doc = "do not report jobs that do not exist"},
	{.name = "hurry", .letter = 'H', .take = cli_take_flag, .offset = IN(ignored), .doc = "ignored"},
	{.name = "verbose", .letter = 'v', .take = cli_take_flag, .offset = IN(ignored), .doc = "likewise"},
	{.name = "help", .take = cli_take_help, .offset = IN(help), .doc = "print this"},
};
/* clang-format on */

static bool has_filter(const struct queue_view *view)
{
	return view->users || view->job_names || view->partitions || view->qos ||
		view->reservation || view->states || view->nodes;
}

static bool confirm(const char *job)
{
	char answer[16];

	(void)printf("Cancel job_id=%s? [y/n] ", job);
	(void)fflush(stdout);
	return fgets(answer, sizeof(answer), stdin) && (*answer == 'y' || *answer == 'Y');
}

/* 0, 1: refused, which is printed; -errno: the connection is unusable. */
static int cancel_one(const char *name, struct jobd_client *client, const struct cancel_options *o,
	const char *job)
{
	struct err err = ERR_INIT;
	int r;

	if (o->interactive && !confirm(job))
		return 0;
	r = o->signal || o->batch || o->full
		? act_take(client, "Signal",
			  json_pack("{s:s, s:s, s:b, s:b}", "job", job, "signal",
				  o->signal ? o->signal : "KILL", "batch", o->batch, "full",
				  o->full),
			  &err)
		: act_take(client, "Cancel", json_pack("{s:s}", "job", job), &err);
	if (r < 0 && !(o->quiet && r == -ESRCH))
		print_failure(name, job, &err);
	return r < 0 ? (is_refusal(r) ? !(o->quiet && r == -ESRCH) : r) : 0;
}

/* Those that the filters have, and of the command line those that were named, if any. */
static int cancel_filtered(const char *name, struct jobd_client *client,
	const struct cancel_options *o, struct err *err)
{
	json_auto_t *jobs = NULL, *chosen = NULL;
	const json_t *job;
	int64_t now;
	size_t i;
	int failed, status = 0;
	int r = jobd_list(client, "ListJobs", "jobs", NULL, &jobs, &now, err);

	if (r == 0)
		r = queue_choose(&o->view, jobs, &chosen, err);
	if (r < 0)
		return r;
	json_array_foreach (chosen, i, job) {
		_cleanup_free_ char *id = queue_job_name(job);

		failed = id ? cancel_one(name, client, o, id) : -ENOMEM;
		if (failed < 0)
			return 1;
		status |= failed;
	}
	return status;
}

static int cancel_named(const char *name, struct jobd_client *client,
	const struct cancel_options *o, int argc, char **argv)
{
	int i, failed, status = 0;

	for (i = 0; i < argc; i++) {
		failed = cancel_one(name, client, o, bare_job(argv[i]));
		if (failed < 0)
			return 1;
		status |= failed;
	}
	return status;
}

int jobctl_cancel(const char *name, int argc, char **argv, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	_cleanup_free_ char *ids = NULL;
	struct cancel_options o = {0};
	int rest = 0;
	int r = jobctl_parse(name, "[OPTION...] [JOB...]", cancel_rows, ARRAY_SIZE(cancel_rows),
		argc, argv, &o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (rest == argc && !has_filter(&o.view))
		return err_set_text(
			err, -EINVAL, "which job? Give its number, or --user, --name, ...");
	r = jobd_connect(&client, err);
	if (r < 0)
		return r;
	if (!has_filter(&o.view))
		return cancel_named(name, client, &o, argc - rest, argv + rest);
	ids = rest < argc ? strv_join(argv + rest, ',') : NULL;
	if (rest < argc && !ids)
		return err_set(err, -ENOMEM, "cancel jobs");
	o.view.jobs = ids;
	return cancel_filtered(name, client, &o, err);
}

/* ---- update -----------------------------------------------------------------------------------
 */

/* scontrol's names, and the options of sbatch that take such a value. */
static const struct {
	const char *name, *option;
} changes[] = {
	{"Comment", "comment"},
	{"CPUsPerTask", "cpus-per-task"},
	{"Dependency", "dependency"},
	{"ExcNodeList", "exclude"},
	{"Features", "constraint"},
	{"JobName", "job-name"},
	{"MinCPUsNode", "mincpus"},
	{"MinMemoryCPU", "mem-per-cpu"},
	{"MinMemoryNode", "mem"},
	{"Name", "job-name"},
	{"NodeList", "nodelist"},
	{"NumNodes", "nodes"},
	{"NumTasks", "ntasks"},
	{"Partition", "partition"},
	{"Priority", "priority"},
	{"QOS", "qos"},
	{"ReqNodeList", "nodelist"},
	{"ReservationName", "reservation"},
	{"StartTime", "begin"},
	{"TimeLimit", "time"},
};

/* "TimeLimit=30" as "--time=30"; sbatch's own names are fine, too. */
static int add_change(struct strv *argv, const char *word, struct err *err)
{
	const size_t size = strcspn(word, "=");
	size_t i;

	if (!word[size])
		return err_set_text(err, -EINVAL, "'%.100s' is not NAME=VALUE", word);
	for (i = 0; i < ARRAY_SIZE(changes); i++) {
		const bool known = (strlen(changes[i].name) == size &&
					   strncasecmp(changes[i].name, word, size) == 0) ||
			(strlen(changes[i].option) == size &&
				strncmp(changes[i].option, word, size) == 0);

		if (!known)
			continue;
		if (strv_addf(argv, "--%s%s", changes[i].option, word + size) < 0)
			return err_set(err, -ENOMEM, "read the changes");
		return 0;
	}
	return err_set_text(err, -EINVAL,
		"'%.*s' can't be changed; these can: TimeLimit, Partition, QOS, Priority, "
		"NumNodes, NodeList, JobName, StartTime, ... (jobctl(1))",
		(int)(size < 100 ? size : 100), word);
}

/* The changes as members of a request, by the options of sbatch. */
static int make_changes(struct strv *argv, json_t **ret_changes, struct err *err)
{
	_cleanup_options_ struct options options = {0};
	const struct options_input input = {.command = OPTIONS_SBATCH,
		.argc = (int)argv->n,
		.argv = argv->v,
		.now = time(NULL)};
	int r = options_parse(&options, &input, err);

	if (r < 0)
		return r;
	*ret_changes = request_to_json(&options.request);
	return *ret_changes ? 0 : err_set(err, -ENOMEM, "read the changes");
}

static int update_job(const char *job, int argc, char **argv, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	_cleanup_strv_ struct strv options = {0};
	json_auto_t *made = NULL;
	int i, r = strv_add(&options, "update") < 0 ? err_set(err, -ENOMEM, "read the changes") : 0;

	for (i = 0; r == 0 && i < argc; i++)
		r = add_change(&options, argv[i], err);
	if (r == 0)
		r = make_changes(&options, &made, err);
	if (r == 0)
		r = jobd_connect(&client, err);
	return r < 0 ? r
		     : act_take(client, "Update",
			       json_pack("{s:s, s:O}", "job", job, "changes", made), err);
}

/* The value of "NAME=VALUE" in argv; NULL: none. */
static const char *find_value(int argc, char **argv, const char *name)
{
	const size_t size = strlen(name);
	int i;

	for (i = 0; i < argc; i++) {
		if (strncasecmp(argv[i], name, size) == 0 && argv[i][size] == '=')
			return argv[i] + size + 1;
	}
	return NULL;
}

static int update_nodes(const char *nodes, int argc, char **argv, struct err *err)
{
	static const char *const names[] = {"DOWN", "DRAIN", "RESUME"};
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	const char *state = find_value(argc, argv, "state"),
		   *reason = find_value(argc, argv, "reason");
	size_t i;
	int r;

	for (i = 0; state && i < ARRAY_SIZE(names) && strcasecmp(state, names[i]) != 0; i++)
		;
	if (!state || i == ARRAY_SIZE(names))
		return err_set_text(err, -EINVAL,
			"only a node's state can be changed: State=DOWN, State=DRAIN or "
			"State=RESUME");
	r = jobd_connect(&client, err);
	return r < 0 ? r
		     : act_take(client, "UpdateNodes",
			       json_pack("{s:s, s:s, s:s*}", "nodes", nodes, "state", names[i],
				       "reason", reason),
			       err);
}

int jobctl_update(const char *name, int argc, char **argv, struct err *err)
{
	struct act_options o = {0};
	const char *nodes, *job;
	int rest = 0;
	int r = jobctl_parse(name,
		"JOB NAME=VALUE... | NodeName=NODES State=DOWN|DRAIN|RESUME [Reason=TEXT]",
		help_row, 1, argc, argv, &o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	nodes = find_value(argc - rest, argv + rest, "NodeName");
	if (nodes)
		return update_nodes(nodes, argc - rest, argv + rest, err);
	job = rest < argc ? bare_job(argv[rest]) : NULL;
	if (!job || strchr(job, '='))
		return err_set_text(err, -EINVAL, "which job? 'jobctl update 12 TimeLimit=30'");
	if (rest + 1 == argc)
		return err_set_text(
			err, -EINVAL, "change what? 'jobctl update %.20s TimeLimit=30'", job);
	return update_job(job, argc - rest - 1, argv + rest + 1, err);
}

int jobctl_expand(const char *name, int argc, char **argv, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	struct act_options o = {0};
	int rest = 0;
	int r = jobctl_parse(name, "JOB OTHER", help_row, 1, argc, argv, &o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (argc - rest != 2)
		return err_set_text(err, -EINVAL,
			"name two jobs: the first one ends, and the other one gets all its "
			"resources");
	r = jobd_connect(&client, err);
	return r < 0
		? r
		: act_take(client, "Expand",
			  json_pack("{s:s, s:s}", "job", argv[rest], "to", argv[rest + 1]), err);
}

/* ---- reservations -----------------------------------------------------------------------------
 */

static int put(json_t *json, const char *member, json_t *value, struct err *err)
{
	return json_object_set_new(json, member, value) < 0
		? err_set(err, -ENOMEM, "read the reservation")
		: 0;
}

typedef int reserve_take_fn(json_t *json, const char *member, const char *value, struct err *err);

static int reserve_text(json_t *json, const char *member, const char *value, struct err *err)
{
	if (!*value)
		return err_set_text(err, -EINVAL, "the value is empty");
	return put(json, member, json_string(value), err);
}

static int reserve_nodes(json_t *json, const char *member, const char *value, struct err *err)
{
	int r = value_check_nodes(value, err);

	return r < 0 ? r : reserve_text(json, member, value, err);
}

static int reserve_count(json_t *json, const char *member, const char *value, struct err *err)
{
	uint32_t n;
	int r = value_parse_count(value, &n, err);

	return r < 0 ? r : put(json, member, json_integer(n), err);
}

static int reserve_duration(json_t *json, const char *member, const char *value, struct err *err)
{
	uint32_t minutes;
	int r = value_parse_limit(value, &minutes, err);

	return r < 0 ? r
		     : put(json, member,
			       json_integer(minutes == INFINITE ? -1 : (json_int_t)minutes), err);
}

static int reserve_time(json_t *json, const char *member, const char *value, struct err *err)
{
	time_t t;
	int r = value_parse_begin(value, time(NULL), &t, err);

	return r < 0 ? r : put(json, member, json_integer(t), err);
}

/* Each word of "a,b" becomes an element, which make() returns: NULL with err. */
static int reserve_list(json_t *json, const char *member, const char *value,
	json_t *(*make)(const char *word, struct err *err), struct err *err)
{
	json_t *element;
	size_t size;
	int r = put(json, member, json_array(), err);

	for (; r == 0 && *value; value += size + (value[size] == ',')) {
		_cleanup_free_ char *word = NULL;

		size = strcspn(value, ",");
		word = strndup(value, size);
		if (!word)
			return err_set(err, -ENOMEM, "read the reservation");
		element = make(word, err);
		if (!element)
			r = err->code;
		else if (json_array_append_new(json_object_get(json, member), element) < 0)
			r = err_set(err, -ENOMEM, "read the reservation");
	}
	return r;
}

static json_t *integer_or_error(json_int_t n, struct err *err)
{
	json_t *json = json_integer(n);

	if (!json)
		(void)err_set(err, -ENOMEM, "read the reservation");
	return json;
}

static json_t *make_uid(const char *word, struct err *err)
{
	const struct passwd *pw = getpwnam(word);
	uint32_t uid;

	if (!pw && parse_u32(word, 0, UINT32_MAX - 1, &uid) < 0) {
		(void)err_set_text(err, -ENOENT, "there is no user '%.100s'", word);
		return NULL;
	}
	return integer_or_error(pw ? pw->pw_uid : uid, err);
}

static json_t *make_count(const char *word, struct err *err)
{
	uint32_t n;

	return value_parse_count(word, &n, err) < 0 ? NULL : integer_or_error(n, err);
}

static int reserve_users(json_t *json, const char *member, const char *value, struct err *err)
{
	return reserve_list(json, member, value, make_uid, err);
}

static int reserve_counts(json_t *json, const char *member, const char *value, struct err *err)
{
	return reserve_list(json, member, value, make_count, err);
}

static int reserve_flags(json_t *json, const char *member, const char *value, struct err *err)
{
	static const struct {
		const char *name, *member;
	} known[] = {{"ignore_jobs", "ignore_jobs"}, {"maint", "maintenance"}};
	_cleanup_free_ char *copy = strdup(value);
	char *rest = copy;
	const char *word;
	size_t i;
	int r = copy ? 0 : err_set(err, -ENOMEM, "read the reservation");

	(void)member;
	while (r == 0 && (word = strsep(&rest, ","))) {
		for (i = 0; i < ARRAY_SIZE(known) && strcasecmp(word, known[i].name) != 0; i++)
			;
		r = i == ARRAY_SIZE(known)
			? err_set_text(
				  err, -EINVAL, "'%.100s' is neither ignore_jobs nor maint", word)
			: put(json, known[i].member, json_true(), err);
	}
	return r;
}

static const struct {
	const char *name, *member;
	reserve_take_fn *take;
} reserve_members[] = {
	{"ReservationName", "name", reserve_text},
	{"Reservation", "name", reserve_text},
	{"Nodes", "nodes", reserve_nodes},
	{"NodeCnt", "node_count", reserve_count},
	{"CoreCnt", "core_counts", reserve_counts},
	{"StartTime", "start_time", reserve_time},
	{"Duration", "duration_min", reserve_duration},
	{"Users", "users", reserve_users},
	{"User", "users", reserve_users},
	{"PartitionName", "partition", reserve_text},
	{"Partition", "partition", reserve_text},
	{"Flags", "", reserve_flags},
};

static int reserve_word(json_t *json, const char *word, struct err *err)
{
	const size_t size = strcspn(word, "=");
	size_t i;
	int r;

	for (i = 0; i < ARRAY_SIZE(reserve_members); i++) {
		if (strlen(reserve_members[i].name) != size || !word[size] ||
			strncasecmp(reserve_members[i].name, word, size) != 0)
			continue;
		r = reserve_members[i].take(json, reserve_members[i].member, word + size + 1, err);
		return r < 0 ? err_prefix(err, "%s", reserve_members[i].name) : 0;
	}
	return err_set_text(err, -EINVAL,
		"'%.100s' is not one of ReservationName=, Nodes=, NodeCnt=, CoreCnt=, StartTime=, "
		"Duration=, Users=, PartitionName= and Flags=",
		word);
}

struct reserve_options {
	const char *delete;
	bool help;
};

/* clang-format off */
static const struct cli_option reserve_rows[] = {
	{.name = "delete", .arg = "NAME", .take = cli_take_text, .offset = offsetof(struct reserve_options, delete),
	 .doc = "delete this reservation"},
	{.name = "help", .letter = 'h', .take = cli_take_help, .offset = offsetof(struct reserve_options, help),
	 .doc = "print this"},
};
/* clang-format on */

static int make_reservation(int argc, char **argv, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	json_auto_t *reservation = json_object(), *reply = NULL;
	int i, r = reservation ? 0 : err_set(err, -ENOMEM, "read the reservation");

	for (i = 0; r == 0 && i < argc; i++)
		r = reserve_word(reservation, argv[i], err);
	if (r == 0)
		r = jobd_connect(&client, err);
	if (r == 0)
		r = jobd_call_take(client, "Reserve",
			json_pack("{s:O}", "reservation", reservation), JOBD_TIMEOUT_MS, &reply,
			err);
	if (r == 0)
		(void)printf("Reservation created: %s\n", json_get_text(reply, "name", ""));
	return r;
}

int jobctl_reserve(const char *name, int argc, char **argv, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	struct reserve_options o = {0};
	int rest = 0;
	int r = jobctl_parse(name, "[--delete NAME | NAME=VALUE...]", reserve_rows,
		ARRAY_SIZE(reserve_rows), argc, argv, &o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (!o.delete &&rest < argc)
		return make_reservation(argc - rest, argv + rest, err);
	if (!o.delete || rest < argc)
		return err_set_text(err, -EINVAL,
			"reserve what? 'jobctl reserve Nodes=n[1-2] StartTime=now Duration=60 "
			"Users=alice', or --delete NAME");
	r = jobd_connect(&client, err);
	return r < 0
		? r
		: act_take(client, "DeleteReservation", json_pack("{s:s}", "name", o.delete), err);
}

/* ---- the daemon -------------------------------------------------------------------------------
 */

int jobctl_reconfigure(const char *name, int argc, char **argv, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	struct act_options o = {0};
	json_auto_t *reply = NULL;
	const json_t *key;
	const char *text;
	size_t i;
	int rest = 0;
	int r = jobctl_parse(name, "", help_row, 1, argc, argv, &o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = jobd_connect(&client, err);
	if (r == 0)
		r = jobd_call_take(
			client, "Reconfigure", json_object(), JOBD_TIMEOUT_MS, &reply, err);
	if (r < 0)
		return r;
	text = json_get_text(reply, "needs_restart", NULL);
	if (text)
		(void)printf("Changed, but effective only after a restart of jobd: %s\n", text);
	json_array_foreach (json_get_array(reply, "left_out"), i, key)
		(void)printf("Ignored by jobd: %s\n",
			json_string_value(key) ? json_string_value(key) : "");
	return 0;
}
