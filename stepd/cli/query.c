/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd list, pids and find: what runs on this node, asked of the registry and of the trackers.
 * No agent is needed to answer: a container's id means something to every process.
 */
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "proctrack/proctrack.h"
#include "stepd/base/parse.h"
#include "stepd/base/procstat.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/query.h"
#include "stepd/plugin/plugin.h"

static const struct option long_options[] = {
	{"runtime-dir", required_argument, NULL, 'r'},
	{"plugin-dir", required_argument, NULL, 'p'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

/* The index of the first argument behind the options; -1: wrong usage, 0: help was shown. */
static int parse_arguments(struct query *q, int argc, char **argv, const char *usage)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (opt == 'r') {
			q->runtime_dir = optarg;
		} else if (opt == 'p') {
			q->plugin_dir_given = optarg;
		} else {
			fprintf(opt == 'h' ? stdout : stderr, "Usage: stepd %s\n", usage);
			return opt == 'h' ? 0 : -1;
		}
	}
	return optind;
}

static int fail(const struct query *q, const char *command)
{
	fprintf(stderr, "stepd %s: %s\n", command, q->err.text);
	return STATUS_FAILED;
}

void query_clear(struct query *q)
{
	q->pt = proctrack_close(q->pt);
	free(q->plugin_dir);
	q->plugin_dir = NULL;
}

int query_owner_of(int dir_fd, uid_t *ret_uid)
{
	struct stat st;

	if (fstatat(dir_fd, "state.json", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	*ret_uid = st.st_uid;
	return 0;
}

int query_check_owner(const struct step_entry *entry, struct err *err)
{
	uid_t owner = 0;
	int r = query_owner_of(entry->dir_fd, &owner);

	if (r < 0)
		return err_set(err, r, "see whose step %s is", entry->step);
	if (owner == geteuid())
		return 0;
	if (geteuid() != 0)
		return err_say(err, -EPERM,
			"only root and the user whose agent runs step %s (uid %u) may do this",
			entry->step, (unsigned)owner);
	return err_say(err, -EPERM,
		"step %s is of an agent of another user; do it as that one (uid %u)", entry->step,
		(unsigned)owner);
}

bool query_can_ask(const struct step_entry *entry)
{
	return entry->alive || strcmp(entry->proctrack, "proctrack/linuxproc") != 0;
}

int query_use_backend(struct query *q, const struct step_entry *entry)
{
	const char *root = json_string_value(json_object_get(entry->doc, "container_root"));
	int r;

	q->pt = proctrack_close(q->pt);
	r = proctrack_set_root(root);
	if (r < 0)
		return err_set(
			&q->err, r, "look for the containers where step %s hangs", entry->step);
	if (!q->plugin_dir)
		r = plugin_dir_find(q->plugin_dir_given, &q->plugin_dir, &q->err);
	return r < 0 ? r : proctrack_open(q->plugin_dir, entry->proctrack, &q->pt, &q->err);
}

/* ---- list --------------------------------------------------------------------------------- */

static int print_entry(const struct step_entry *entry, void *userdata)
{
	(void)userdata;
	printf("%-14s %-16s %-12s %-9s %-20s %8d  %s\n", entry->step, entry->node, entry->user,
		entry->state, entry->proctrack, (int)entry->agent_pid,
		entry->alive ? "yes" : "no: it died");
	return 0;
}

int cli_list(int argc, char **argv)
{
	struct query q = {0};
	int first = parse_arguments(&q, argc, argv, "list [--runtime-dir DIR]");

	if (first <= 0)
		return first == 0 ? 0 : STATUS_FAILED;
	if (first < argc) {
		fprintf(stderr, "stepd list: '%s' is no option; it takes no argument\n",
			argv[first]);
		return STATUS_FAILED;
	}
	printf("%-14s %-16s %-12s %-9s %-20s %8s  %s\n", "STEP", "NODE", "USER", "STATE",
		"PROCTRACK", "AGENT", "ALIVE");
	if (steps_each(q.runtime_dir, print_entry, &q, &q.err) < 0)
		return fail(&q, "list");
	return 0;
}

/* ---- pids --------------------------------------------------------------------------------- */

bool query_names_entry(const char *step, const struct step_entry *entry)
{
	const char *slash = strrchr(step, '/');
	size_t len = slash ? (size_t)(slash - step) : 0;

	if (slash && (strncmp(step, entry->node, len) != 0 || entry->node[len]))
		return false;
	return strcmp(slash ? slash + 1 : step, entry->step) == 0;
}

static int print_pids(const struct step_entry *entry, void *userdata)
{
	struct query *q = userdata;
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, i, r;

	if (!query_names_entry(q->step, entry))
		return 0;
	q->found = true;
	if (!query_can_ask(entry))
		return 1;
	r = query_use_backend(q, entry);
	if (r < 0)
		return r;
	r = proctrack_get_pids(q->pt, entry->cont_id, &pids, &n);
	if (r < 0 && r != -ESRCH)
		return err_set(&q->err, r, "list the processes of step %s", entry->step);
	for (i = 0; i < n; i++)
		printf("%d\n", (int)pids[i]);
	return 1;
}

int query_say_no_step(const struct query *q, const char *command)
{
	fprintf(stderr, "stepd %s: there is no step '%s' on this node ('stepd list' shows them)\n",
		command, q->step);
	return EXIT_NOT_FOUND;
}

int cli_pids(int argc, char **argv)
{
	struct query q = {0};
	int first = parse_arguments(
		    &q, argc, argv, "pids [--runtime-dir DIR] [--plugin-dir DIR] [NODE/]JOB.STEP"),
	    r;

	if (first <= 0)
		return first == 0 ? 0 : STATUS_FAILED;
	if (argc - first != 1) {
		fprintf(stderr, "stepd pids: give one step, such as 7.0\n");
		return STATUS_FAILED;
	}
	q.step = argv[first];
	r = steps_each(q.runtime_dir, print_pids, &q, &q.err);
	query_clear(&q);
	if (r < 0)
		return fail(&q, "pids");
	return q.found ? 0 : query_say_no_step(&q, "pids");
}

/* ---- find --------------------------------------------------------------------------------- */

/* The rank of the task that pid is or descends from, -1 where the line of parents does not lead
 * to one: its task has ended, or it has detached itself. */
static json_int_t rank_of(const json_t *doc, pid_t pid)
{
	const json_t *tasks = json_object_get(doc, "tasks"), *task;
	struct procstat st;
	size_t i;
	int depth;

	for (depth = 0; pid > 1 && depth < 4096; depth++) {
		json_array_foreach (tasks, i, task) {
			if (json_integer_value(json_object_get(task, "pid")) == pid)
				return json_integer_value(json_object_get(task, "rank"));
		}
		if (procstat_read(pid, &st) < 0)
			return -1;
		pid = st.ppid;
	}
	return -1;
}

static int print_if_found(const struct step_entry *entry, void *userdata)
{
	struct query *q = userdata;
	json_int_t rank;
	int r;

	if (!query_can_ask(entry))
		return 0;
	r = query_use_backend(q, entry);
	if (r < 0)
		return r;
	if (!proctrack_has_pid(q->pt, entry->cont_id, q->pid))
		return 0;
	rank = rank_of(entry->doc, q->pid);
	printf("%d step %s", (int)q->pid, entry->step);
	if (rank >= 0)
		printf(" task %lld", (long long)rank);
	printf(" user %s container %llu (%s)\n", entry->user, (unsigned long long)entry->cont_id,
		entry->proctrack);
	q->found = true;
	return 1;
}

static int find_one(struct query *q, const char *text)
{
	uint32_t pid;
	int r;

	if (parse_u32(text, 1, INT32_MAX, &pid) < 0)
		return err_say(&q->err, -EINVAL, "'%s' is no pid", text);
	q->pid = (pid_t)pid;
	q->found = false;
	r = steps_each(q->runtime_dir, print_if_found, q, &q->err);
	if (r >= 0 && !q->found)
		printf("%u is in no step\n", pid);
	return r < 0 ? r : q->found;
}

int cli_find(int argc, char **argv)
{
	struct query q = {0};
	int i = parse_arguments(
		    &q, argc, argv, "find [--runtime-dir DIR] [--plugin-dir DIR] PID..."),
	    r = 0;
	bool all = true;

	if (i <= 0)
		return i == 0 ? 0 : STATUS_FAILED;
	if (i == argc) {
		fprintf(stderr, "stepd find: give one pid or more\n");
		return STATUS_FAILED;
	}
	for (; r >= 0 && i < argc; i++) {
		r = find_one(&q, argv[i]);
		if (r == 0)
			all = false;
	}
	query_clear(&q);
	if (r < 0)
		return fail(&q, "find");
	return all ? 0 : EXIT_NOT_FOUND;
}
