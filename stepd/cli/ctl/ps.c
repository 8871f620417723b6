/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl ps and pids: the processes of steps, as a tree below each task, or a pid a line for
 * scripts. The agent lists them, or the tracker where it has died; ps reads their attributes from
 * /proc, as far as the caller may. Their names are whatever they gave themselves.
 */
#include <jansson.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/client/client.h"
#include "stepd/record/report.h"

#define COMMAND_SIZE_MAX 4096

/* ---- the tree ------------------------------------------------------------------------------ */

/* Processes by task, then each behind its parent, siblings by pid. They were read one after the
 * other and may be inconsistent: each is printed once, whatever its parent. */

struct ps_process {
	pid_t pid, ppid;
	int64_t rank; /* STEPD_NO_RANK: of no task */
	uid_t uid;
	char state;
	uint64_t start_ticks, cpu_usec, rss_bytes;
	char *command;
};

/* Deeper ones are shown at this depth. */
#define PS_DEPTH_MAX   20
#define PS_BRANCH_SIZE (PS_DEPTH_MAX * 8 + 8)

#define NONE ((size_t)-1)

struct node {
	size_t parent, child, next; /* NONE: none */
	bool printed;
};

struct ps_tree {
	struct ps_process *processes; /* by rank, then pid */
	struct node *nodes;           /* of the same indices */
	size_t n;
	size_t at;    /* printed last; NONE: nothing yet */
	size_t first; /* where the search for the next root begins */
};

/* By task, processes without one last. */
static int compare_tree(const void *a, const void *b)
{
	const struct ps_process *x = a, *y = b;
	uint64_t rx = (uint64_t)x->rank, ry = (uint64_t)y->rank;

	if (rx != ry)
		return rx < ry ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The parent in the same task: a bisection over its pids. */
static size_t find_parent(const struct ps_tree *tree, size_t i)
{
	const struct ps_process *child = &tree->processes[i], *found;
	struct ps_process wanted = {.rank = child->rank, .pid = child->ppid};

	if (child->ppid <= 0 || child->ppid == child->pid)
		return NONE;
	found = bsearch(&wanted, tree->processes, tree->n, sizeof(wanted), compare_tree);
	return found ? (size_t)(found - tree->processes) : NONE;
}

/* Backwards, so that the list of children ascends. */
static void link_nodes(struct ps_tree *tree)
{
	size_t i, parent;

	for (i = tree->n; i-- > 0;) {
		struct node *node = &tree->nodes[i];

		node->parent = parent = find_parent(tree, i);
		if (parent != NONE) {
			node->next = tree->nodes[parent].child;
			tree->nodes[parent].child = i;
		}
	}
}

/* Sorts processes, which outlive the tree. 0 or -ENOMEM. */
static int ps_tree_make(struct ps_process *processes, size_t n, struct ps_tree *tree)
{
	size_t i;

	*tree = (struct ps_tree){.processes = processes, .n = n, .at = NONE};
	tree->nodes = calloc(n + 1, sizeof(*tree->nodes));
	if (!tree->nodes)
		return -ENOMEM;
	if (n > 0)
		qsort(processes, n, sizeof(*processes), compare_tree);
	for (i = 0; i < n; i++)
		tree->nodes[i] = (struct node){NONE, NONE, NONE, false};
	link_nodes(tree);
	return 0;
}

/* A child of the last one printed, else its sibling or that of an ancestor. */
static size_t find_next_in_tree(const struct ps_tree *tree)
{
	size_t at = tree->at;

	if (at == NONE)
		return NONE;
	if (tree->nodes[at].child != NONE && !tree->nodes[tree->nodes[at].child].printed)
		return tree->nodes[at].child;
	while (at != NONE &&
		(tree->nodes[at].next == NONE || tree->nodes[tree->nodes[at].next].printed))
		at = tree->nodes[at].parent;
	return at == NONE ? NONE : tree->nodes[at].next;
}

/* Roots come in the order of the array, a task's all before the next task's. A cycle of parents
 * has no root: one of its processes becomes one, after the other roots of its task. */
static size_t find_next_root(struct ps_tree *tree)
{
	size_t i, ring = NONE;

	while (tree->first < tree->n && tree->nodes[tree->first].printed)
		tree->first++;
	for (i = tree->first; i < tree->n; i++) {
		if (ring != NONE && tree->processes[i].rank != tree->processes[ring].rank)
			break;
		if (tree->nodes[i].printed)
			continue;
		if (tree->nodes[i].parent == NONE)
			return i;
		if (ring == NONE)
			ring = i;
	}
	if (ring != NONE)
		tree->nodes[ring].parent = NONE;
	return ring;
}

static void draw(const struct ps_tree *tree, size_t i, bool utf8, char *branch)
{
	const char *through = utf8 ? "\342\224\202 " : "| ", *blank = "  ";
	const char *fork = utf8 ? "\342\224\234\342\224\200" : "|-";
	const char *corner = utf8 ? "\342\224\224\342\224\200" : "`-", *piece;
	size_t path[PS_DEPTH_MAX], depth = 0, at = 0;
	bool last;

	branch[0] = '\0';
	for (; tree->nodes[i].parent != NONE && depth < PS_DEPTH_MAX; i = tree->nodes[i].parent)
		path[depth++] = i;
	while (depth-- > 0) {
		last = tree->nodes[path[depth]].next == NONE;
		if (depth > 0)
			piece = last ? blank : through;
		else
			piece = last ? corner : fork;
		at += (size_t)snprintf(branch + at, PS_BRANCH_SIZE - at, "%s", piece);
	}
}

/* The next one, with the lines that lead to it in branch; NULL after the last. */
static const struct ps_process *ps_tree_next(struct ps_tree *tree, bool utf8, char *branch)
{
	size_t next = find_next_in_tree(tree);

	if (next == NONE)
		next = find_next_root(tree);
	if (next == NONE)
		return NULL;
	tree->nodes[next].printed = true;
	tree->at = next;
	draw(tree, next, utf8, branch);
	return &tree->processes[next];
}

/* ---- from /proc ---------------------------------------------------------------------------- */

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
static int read_process(const struct stepd_process *process, struct ps_process *p)
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

static int read_processes(
	const struct stepd_process *processes, size_t n, struct ps_process *ps, size_t *ret_n)
{
	size_t i, count = 0;
	int r;

	for (i = 0; i < n; i++) {
		r = read_process(&processes[i], &ps[count]);
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

	/* The command comes from the process, and is made printable. */
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

static int print_tree(struct ctl *ctl, const struct target *target, struct ps_tree *tree)
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
		printf("%s%sstep %s%s\n", ctl->out.shown++ > 0 ? "\n" : "",
			term_paint(&ctl->term, TERM_BOLD), target->label,
			term_unpaint(&ctl->term, TERM_BOLD));
	return r < 0 ? r : table_print(&table, stdout, 0);
}

static json_t *pack_process(const struct ps_process *p)
{
	char user[64], state[2] = {p->state, '\0'};

	return json_pack("{s:i, s:o, s:i, s:I, s:o, s:s, s:I, s:I, s:I, s:o}", "pid", (int)p->pid,
		"rank", ctl_rank_json(p->rank), "ppid", (int)p->ppid, "uid", (json_int_t)p->uid,
		"user", report_json_text(user_of(p->uid, user, sizeof(user))), "state", state,
		"start_ticks", (json_int_t)p->start_ticks, "cpu_usec", (json_int_t)p->cpu_usec,
		"rss_bytes", (json_int_t)p->rss_bytes, "command", report_json_text(p->command));
}

/* In the order of the tree. */
static int pack_tree(json_t *entry, struct ps_tree *tree)
{
	json_auto_t *rows = json_array();
	char branch[PS_BRANCH_SIZE];
	const struct ps_process *p;
	int r = 0;

	while (r == 0 && (p = ps_tree_next(tree, false, branch)))
		r = json_array_append_new(rows, pack_process(p));
	return r < 0 ? -ENOMEM : ctl_put(entry, "processes", json_incref(rows));
}

static int show_tree(struct ctl *ctl, struct target *target, const struct stepd_process *processes,
	size_t n, struct stepd_error *error)
{
	struct ps_process *ps = calloc(n + 1, sizeof(*ps));
	struct ps_tree tree = {.nodes = NULL};
	size_t count = 0, i;
	int r = ps ? read_processes(processes, n, ps, &count) : -ENOMEM;

	if (r == 0)
		r = ps_tree_make(ps, count, &tree);
	if (r == 0)
		r = ctl->opt.json ? pack_tree(target->entry, &tree)
				  : print_tree(ctl, target, &tree);
	free(tree.nodes);
	for (i = 0; ps && i < n; i++)
		free(ps[i].command);
	free(ps);
	return r < 0 ? client_no_memory(error) : 0;
}

/* Pids of another pid namespace mean other processes here. */
static int check_namespace(struct target *target, struct stepd_error *error)
{
	json_auto_t *doc = NULL;
	json_int_t theirs = 0;
	struct stat here;
	int r;

	if (!target->client)
		return 0;
	r = client_call_take(target->client, "Describe", NULL, &doc, error);
	if (r == 0 && json_unpack(doc, "{s:I}", "pid_namespace", &theirs) < 0)
		r = client_error(error, -EPROTO, "its agent's description has no pid namespace");
	if (r == 0 && stat("/proc/self/ns/pid", &here) == 0 && (ino_t)theirs != here.st_ino)
		r = client_error(error, -EOPNOTSUPP,
			"its agent is in another pid namespace; run stepctl there, or see 'stepctl "
			"pids'");
	return r;
}

static int ps_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_free_ struct stepd_process *processes = NULL;
	size_t n = 0;
	int r = check_namespace(target, error);

	if (r == 0)
		r = tracker_list(ctl, target, true, &processes, &n, error);
	return r < 0 ? r : show_tree(ctl, target, processes, n, error);
}

int ctl_ps(struct ctl *ctl)
{
	static const struct request request = {.run = ps_step,
		.in_turn = true,
		.without_agent = ps_step,
		.without_agent_if = STEPD_ORPHAN,
		.with_ranks = true};

	return request_steps(ctl, &request);
}

/* ---- pids ---------------------------------------------------------------------------------- */

static int compare_pids(const void *a, const void *b)
{
	const struct stepd_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int pack_pids(json_t *entry, const struct stepd_process *p, size_t n)
{
	json_auto_t *rows = json_array();
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++)
		r = json_array_append_new(rows,
			json_pack("{s:i, s:o}", "pid", (int)p[i].pid, "rank",
				ctl_rank_json(p[i].rank)));
	return r < 0 ? -ENOMEM : ctl_put(entry, "processes", json_incref(rows));
}

static void print_pids(const struct ctl *ctl, const struct stepd_process *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (!ctl->opt.tasks)
			printf("%d\n", (int)p[i].pid);
		else if (p[i].rank == STEPD_NO_RANK)
			printf("%d -\n", (int)p[i].pid);
		else
			printf("%d %lld\n", (int)p[i].pid, (long long)p[i].rank);
	}
}

static int pids_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_free_ struct stepd_process *processes = NULL;
	size_t n = 0;
	int r = tracker_list(ctl, target, false, &processes, &n, error);

	if (r < 0)
		return r;
	if (n > 0)
		qsort(processes, n, sizeof(*processes), compare_pids);
	if (!ctl->opt.json)
		print_pids(ctl, processes, n);
	else if (pack_pids(target->entry, processes, n) < 0)
		return client_no_memory(error);
	return 0;
}

int ctl_pids(struct ctl *ctl)
{
	static const struct request request = {.run = pids_step,
		.in_turn = true,
		.without_agent = pids_step,
		.without_agent_if = STEPD_ORPHAN,
		.with_ranks = true};

	return request_steps(ctl, &request);
}
