/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl ps: the processes of steps, as a tree below each task. Which they are is told by the
 * agent, or by the tracker where it has died; what they are is read from /proc, as far as the
 * caller may. Their names are whatever they gave themselves.
 */
#include <jansson.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"
#include "stepd/base/procstat.h"
#include "stepd/cli/ctl/ps_tree.h"
#include "stepd/cli/ctl/table.h"
#include "stepd/cli/ctl/tracker.h"
#include "stepd/record/report.h"

#define COMMAND_SIZE_MAX 4096

/* ---- what /proc tells ---------------------------------------------------------------------- */

static uint64_t usec_of(uint64_t ticks)
{
	long hz = sysconf(_SC_CLK_TCK);

	return ticks * 1000000 / (uint64_t)(hz > 0 ? hz : 100);
}

/* The arguments with blanks between, or "[name]" where there are none to be read. */
static char *read_command(const char *dir, const char *comm)
{
	_cleanup_free_ char *text = NULL;
	char path[64], *command = NULL;
	size_t size = 0, i;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/cmdline", dir);
	file = fopen(path, "re");
	text = file ? malloc(COMMAND_SIZE_MAX + 1) : NULL;
	if (text)
		size = fread(text, 1, COMMAND_SIZE_MAX, file);
	if (file)
		(void)fclose(file); /* only read */
	while (size > 0 && text[size - 1] == '\0')
		size--;
	if (size == 0)
		return asprintf(&command, "[%s]", comm) < 0 ? NULL : command;
	for (i = 0; i < size; i++) {
		if (text[i] == '\0')
			text[i] = ' ';
	}
	text[size] = '\0';
	return take_ptr(text);
}

/* 0, -ESRCH if it is gone or another has its pid, or -ENOMEM. */
static int look_at(const struct stepd_process *process, struct ps_process *p)
{
	struct procstat st;
	struct stat owner;
	char dir[32];

	if (procstat_read(process->pid, &st) < 0 ||
		(process->start_ticks && st.start_ticks != process->start_ticks))
		return -ESRCH;
	(void)snprintf(dir, sizeof(dir), "/proc/%d", (int)process->pid);
	if (stat(dir, &owner) < 0)
		return -ESRCH;
	*p = (struct ps_process){.pid = process->pid,
		.ppid = st.ppid,
		.rank = process->rank,
		.uid = owner.st_uid,
		.state = st.state,
		.start_ticks = st.start_ticks,
		.cpu_usec = usec_of(st.utime_ticks + st.stime_ticks),
		.rss_bytes = st.rss_pages * (uint64_t)sysconf(_SC_PAGESIZE),
		.command = read_command(dir, st.comm)};
	return p->command ? 0 : -ENOMEM;
}

static int look_at_all(
	const struct stepd_process *processes, size_t n, struct ps_process *ps, size_t *ret_n)
{
	size_t i, count = 0;
	int r;

	for (i = 0; i < n; i++) {
		r = look_at(&processes[i], &ps[count]);
		if (r == -ENOMEM)
			return r;
		if (r == 0)
			*ret_n = ++count;
	}
	return 0;
}

static const char *user_of(uid_t uid, char *buf, size_t size)
{
	struct passwd *pw = getpwuid(uid); /* nothing else here uses its buffer */

	if (pw)
		(void)snprintf(buf, size, "%s", pw->pw_name);
	else
		(void)snprintf(buf, size, "%u", (unsigned)uid);
	return buf;
}

/* ---- for people and for programs ----------------------------------------------------------- */

static void add_heading(struct table *table, int64_t rank, const char *blank)
{
	char text[32];

	if (rank == STEPD_NO_RANK)
		(void)snprintf(text, sizeof(text), "no task");
	else
		(void)snprintf(text, sizeof(text), "task %lld", (long long)rank);
	table_add(table, (const char *const[]){blank, blank, blank, blank, blank, text});
	table_paint(table, 5, TERM_BOLD);
}

static int add_process(struct table *table, const struct ps_process *p, const char *branch)
{
	char pid[16], user[64], state[2] = {p->state, '\0'};
	char cpu[CTL_TEXT_SIZE], rss[CTL_TEXT_SIZE];
	_cleanup_free_ char *command = NULL, *safe = NULL;

	/* The lines of the tree are ours; the command is not. */
	safe = term_printable(table->term, p->command, TERM_WHOLE);
	if (!safe || asprintf(&command, "%s%s", branch, safe) < 0) {
		command = NULL;
		return -ENOMEM;
	}
	(void)snprintf(pid, sizeof(pid), "%d", (int)p->pid);
	table_add(table,
		(const char *const[]){pid, user_of(p->uid, user, sizeof(user)), state,
			ctl_duration_text(p->cpu_usec, cpu), ctl_bytes_text(p->rss_bytes, rss),
			command});
	return 0;
}

static int print(struct ctl *ctl, const struct target *target, struct ps_tree *tree)
{
	static const struct column columns[] = {
		{"PID", true, 0, 0},
		{"USER", false, 4, 2},
		{"S", false, 0, 4},
		{"CPU", true, 0, 1},
		{"RSS", true, 0, 3},
		{"COMMAND", false, 10, 0},
	};
	_cleanup_table_ struct table table = TABLE_INIT(columns, &ctl->term);
	char branch[PS_BRANCH_SIZE];
	const struct ps_process *p;
	int64_t rank = INT64_MIN;
	int r = 0;

	while (r == 0 && (p = ps_tree_next(tree, ctl->term.utf8, branch))) {
		if (p->rank != rank)
			add_heading(&table, p->rank, "");
		rank = p->rank;
		r = add_process(&table, p, branch);
	}
	if (ctl->count > 1)
		printf("%s%sstep %s%s\n", ctl->shown++ > 0 ? "\n" : "",
			term_paint(&ctl->term, TERM_BOLD), target->label,
			term_unpaint(&ctl->term, TERM_BOLD));
	return r < 0 ? r : table_print(&table, stdout, 0);
}

static json_t *pack_process(const struct ps_process *p)
{
	char user[64], state[2] = {p->state, '\0'};

	return json_pack("{s:i, s:o, s:i, s:I, s:o, s:s, s:I, s:I, s:I, s:o}", "pid", (int)p->pid,
		"rank", p->rank == STEPD_NO_RANK ? json_null() : json_integer(p->rank), "ppid",
		(int)p->ppid, "uid", (json_int_t)p->uid, "user",
		report_json_text(user_of(p->uid, user, sizeof(user))), "state", state,
		"start_ticks", (json_int_t)p->start_ticks, "cpu_usec", (json_int_t)p->cpu_usec,
		"rss_bytes", (json_int_t)p->rss_bytes, "command", report_json_text(p->command));
}

/* In the order of the tree. */
static int pack(json_t *entry, struct ps_tree *tree)
{
	json_t *rows = json_array();
	char branch[PS_BRANCH_SIZE];
	const struct ps_process *p;
	int r = rows ? 0 : -1;

	while (r == 0 && (p = ps_tree_next(tree, false, branch)))
		r = json_array_append_new(rows, pack_process(p));
	if (r == 0)
		return ctl_put(entry, "processes", rows);
	json_decref(rows);
	return -ENOMEM;
}

static int show(struct ctl *ctl, struct target *target, const struct stepd_process *processes,
	size_t n, struct stepd_error *error)
{
	struct ps_process *ps = calloc(n + 1, sizeof(*ps));
	struct ps_tree *tree = NULL;
	size_t count = 0, i;
	int r = ps ? look_at_all(processes, n, ps, &count) : -ENOMEM;

	if (r == 0)
		r = ps_tree_make(ps, count, &tree);
	if (r == 0)
		r = ctl->json ? pack(target->entry, tree) : print(ctl, target, tree);
	ps_tree_free(tree);
	for (i = 0; ps && i < n; i++)
		free(ps[i].command);
	free(ps);
	return r < 0 ? target_error(error, r, "no memory left") : 0;
}

/* Numbers of another pid namespace mean others here. */
static int check_namespace(struct target *target, struct stepd_error *error)
{
	_cleanup_free_ char *text = NULL;
	struct stat here;
	json_t *doc = NULL;
	json_int_t theirs;
	int r;

	if (!target->client)
		return 0;
	r = stepd_describe(target->client, &text, error);
	if (r == 0)
		r = json_unpack(doc = json_loads(text, 0, NULL), "{s:I}", "pid_namespace", &theirs);
	if (r == 0 && stat("/proc/self/ns/pid", &here) == 0 && (ino_t)theirs != here.st_ino)
		r = target_error(error, -EOPNOTSUPP,
			"its agent is in another pid namespace; ask there, or see 'stepctl pids'");
	json_decref(doc);
	return r < 0 && !error->code
		? target_error(error, -EPROTO, "its agent does not tell its pid namespace")
		: r;
}

int ctl_ps(struct ctl *ctl)
{
	int i, r;

	for (i = 0; i < ctl->count; i++) {
		_cleanup_free_ struct stepd_process *processes = NULL;
		_cleanup_target_ struct target target = TARGET_INIT;
		struct stepd_error error = {0};
		size_t n = 0;

		r = target_find(ctl, ctl->args[i], true, &target, &error);
		if (r == 0)
			r = target_connect(ctl, &target, &error);
		if (r == 0)
			r = check_namespace(&target, &error);
		if (r == 0)
			r = tracker_list(ctl, &target, true, &processes, &n, &error);
		if (r == 0)
			r = show(ctl, &target, processes, n, &error);
		if (r < 0)
			ctl_complain(ctl, target.label, &error, target.entry);
	}
	return 0;
}
