/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl find: the steps and tasks of any number of processes.
 *
 * The kernel is read first: a cgroup names its container, so that such a step needs no agent, and
 * each process is read once, however many steps there are. What is then left is searched by the
 * agents of the steps of other trackers, all at the same time.
 */
#include <fcntl.h>
#include <linux/nsfs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "proctrack/proctrack.h"
#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/client/client.h"
#include "stepd/record/report.h"

/* ---- pids of another namespace ------------------------------------------------------------- */

/* A process has a pid in its own pid namespace and in each above it (pid_namespaces(7)). Found are
 * those whose namespace the caller may read, proc_pid_ns(5): as root, all. */

typedef int (*namespace_fn)(pid_t number, pid_t pid, void *userdata);

#define PID_MAX_LIMIT 4194304 /* of the kernel */
#define LEVELS_MAX    32      /* likewise: MAX_PID_NS_LEVEL */

/* A namespace, and how many levels it is below the requested one; -1: not below it. */
struct known {
	ino_t inode;
	int below;
};

struct scan {
	ino_t wanted;
	int proc_fd;
	struct known *known;
	size_t n, capacity;
};

/* The value of "--namespace": the inode of a pid namespace, or a pid, whose namespace it is. Inodes
 * of namespaces are larger than any pid. */
static int namespace_parse(const char *text, ino_t *ret_inode, struct err *err)
{
	uint64_t number;
	char path[64];
	struct stat st;

	if (parse_u64(text, 1, INT64_MAX, &number) < 0)
		return err_set_text(
			err, -EINVAL, "--namespace: '%.100s' is neither a pid nor an inode", text);
	if (number > PID_MAX_LIMIT) {
		*ret_inode = (ino_t)number;
		return 0;
	}
	(void)snprintf(path, sizeof(path), "/proc/%llu/ns/pid", (unsigned long long)number);
	if (stat(path, &st) < 0)
		return err_set(err, -errno, "--namespace: stat '%s'", path);
	*ret_inode = st.st_ino;
	return 0;
}

/* Goes up from the namespace of fd, which is closed, to the requested one. */
static int namespace_count_levels(const struct scan *scan, int fd)
{
	struct stat st;
	int below, up;

	for (below = 0; fd >= 0 && below < LEVELS_MAX; below++) {
		if (fstat(fd, &st) == 0 && st.st_ino == scan->wanted) {
			(void)close(fd);
			return below;
		}
		up = ioctl(fd, NS_GET_PARENT); /* EPERM above the caller's own */
		(void)close(fd);
		fd = up;
	}
	(void)close_fd(fd);
	return -1;
}

/* -ENOMEM, or 0; -1 levels also for a process that is gone or may not be read. */
static int namespace_find_below(struct scan *scan, uint32_t pid, int *ret_below)
{
	char path[64];
	struct stat st;
	size_t i;

	*ret_below = -1;
	(void)snprintf(path, sizeof(path), "%u/ns/pid", pid);
	if (fstatat(scan->proc_fd, path, &st, 0) < 0)
		return 0;
	for (i = 0; i < scan->n && scan->known[i].inode != st.st_ino; i++)
		;
	if (i == scan->n) {
		if (array_reserve(scan->known, scan->capacity, scan->n + 1) < 0)
			return -ENOMEM;
		scan->known[scan->n++] = (struct known){.inode = st.st_ino,
			.below = namespace_count_levels(
				scan, openat(scan->proc_fd, path, O_RDONLY | O_CLOEXEC))};
	}
	*ret_below = scan->known[i].below;
	return 0;
}

/* The number so many levels above the innermost; 0: it is gone. */
static pid_t namespace_read_number(const struct scan *scan, uint32_t pid, int below)
{
	_cleanup_free_ char *text = NULL;
	char path[64], *line, *number;
	unsigned numbers[LEVELS_MAX + 1];
	int n = 0;

	(void)snprintf(path, sizeof(path), "%u/status", pid);
	if (fs_read(scan->proc_fd, path, 1u << 16, &text, NULL) < 0)
		return 0;
	line = strstr(text, "\nNSpid:");
	if (!line)
		return 0;
	line += strlen("\nNSpid:");
	line[strcspn(line, "\n")] = '\0';
	while ((number = strsep(&line, "\t ")) && n <= LEVELS_MAX) {
		if (*number && parse_u32(number, 1, PID_MAX_LIMIT, &numbers[n]) == 0)
			n++;
	}
	return n > below ? (pid_t)numbers[n - 1 - below] : 0;
}

static int namespace_visit(struct scan *scan, const char *name, namespace_fn fn, void *userdata)
{
	pid_t number;
	uint32_t pid;
	int below, r;

	if (parse_u32(name, 1, PID_MAX_LIMIT, &pid) < 0)
		return 0; /* no process */
	r = namespace_find_below(scan, pid, &below);
	if (r < 0 || below < 0)
		return r;
	number = namespace_read_number(scan, pid, below);
	return number > 0 ? fn(number, (pid_t)pid, userdata) : 0;
}

/* Calls fn for each process that has a number there, with it and its pid here, until it returns
 * other than 0, which is returned. */
static int namespace_each(ino_t inode, namespace_fn fn, void *userdata, struct err *err)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	struct scan scan = {.wanted = inode};
	struct dirent *d;
	int r = 0;

	if (!proc)
		return err_set(err, -errno, "read '/proc'");
	scan.proc_fd = dirfd(proc);
	while (r == 0 && (d = readdir(proc)))
		r = namespace_visit(&scan, d->d_name, fn, userdata);
	free(scan.known);
	return r == -ENOMEM ? err_set(err, r, "search a pid namespace") : r;
}

struct find_step {
	struct step_entry entry;       /* of tracker_copy_entry() */
	bool searched;                 /* by its tracker */
	stepd_step_task_info_t *tasks; /* NULL: not read yet */
	size_t n_tasks;
};

struct wanted {
	pid_t given;                  /* the argument */
	pid_t pid;                    /* in this pid namespace; 0: there is none */
	const struct find_step *step; /* NULL: in none */
	int64_t rank;
};

struct find {
	struct ctl *ctl;
	char *runtime_dir;
	struct wanted *v; /* in the order of the arguments */
	size_t n, capacity;
	struct find_step *steps;
	size_t n_steps, steps_capacity;
	bool incomplete; /* a step could not be searched: pids that were not found may belong to it
			  */
	json_t *unanswered; /* those steps, with reasons */
};

static int find_no_memory(struct find *f)
{
	return err_set(&f->ctl->err, -ENOMEM, "search for the processes");
}

/* Reports that a step could not be searched. */
static void find_report(
	struct find *f, const struct find_step *step, const struct stepd_error *error)
{
	json_t *entry = json_pack("{s:o, s:o}", "step", report_json_text(step->entry.step), "node",
		report_json_text(step->entry.node));

	ctl_report(f->ctl, step->entry.step, error, entry);
	if (json_array_append_new(f->unanswered, entry) < 0)
		f->ctl->out.status = CTL_FAILED; /* no memory: the document can't be whole */
	f->incomplete = true;
}

/* ---- the pids ------------------------------------------------------------------------------ */

static int add_pid(struct find *f, const char *text)
{
	uint32_t pid;

	if (parse_u32(text, 1, INT32_MAX, &pid) < 0)
		return err_set_text(&f->ctl->err, -EINVAL, "'%.200s' is not a pid", text);
	if (array_reserve(f->v, f->capacity, f->n + 1) < 0)
		return find_no_memory(f);
	f->v[f->n++] = (struct wanted){.given = (pid_t)pid,
		.pid = f->ctl->opt.namespace ? 0 : (pid_t)pid,
		.rank = STEPD_NO_RANK};
	return 0;
}

static int add_pids_from(struct find *f, FILE *in)
{
	_cleanup_free_ char *line = NULL;
	char *number, *at;
	size_t size = 0;
	int r = 0;

	while (r == 0 && getline(&line, &size, in) > 0) {
		at = line;
		while (r == 0 && (number = strsep(&at, " \t\r\n"))) {
			if (*number)
				r = add_pid(f, number);
		}
	}
	if (r == 0 && ferror(in))
		r = err_set(&f->ctl->err, -errno, "read pids from standard input");
	return r;
}

static int add_pids(struct find *f)
{
	int i, r = 0;

	for (i = 0; r == 0 && i < f->ctl->count; i++) {
		if (strcmp(f->ctl->args[i], "-") == 0)
			r = add_pids_from(f, stdin);
		else
			r = add_pid(f, f->ctl->args[i]);
	}
	return r;
}

/* The pids that are not found yet, in the order of the pid or of the given number. */
struct unfound {
	struct wanted **v;
	size_t n;
	bool by_given;
};

static pid_t unfound_key(const struct unfound *u, const struct wanted *w)
{
	return u->by_given ? w->given : w->pid;
}

static int compare_wanted(const void *a, const void *b, void *userdata)
{
	pid_t x = unfound_key(userdata, *(struct wanted *const *)a);
	pid_t y = unfound_key(userdata, *(struct wanted *const *)b);

	return (x > y) - (x < y);
}

static int unfound_collect(struct find *f, struct unfound *u)
{
	size_t i;

	u->v = calloc(f->n + 1, sizeof(*u->v));
	if (!u->v)
		return find_no_memory(f);
	for (i = 0; i < f->n; i++) {
		if (!f->v[i].step && unfound_key(u, &f->v[i]) > 0)
			u->v[u->n++] = &f->v[i];
	}
	if (u->n > 0)
		qsort_r(u->v, u->n, sizeof(struct wanted *), compare_wanted, u);
	return 0;
}

/* The first whose key is not below this one, or n. */
static size_t unfound_first(const struct unfound *u, pid_t key)
{
	size_t low = 0, high = u->n, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (unfound_key(u, u->v[middle]) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int translate_pid(pid_t number, pid_t pid, void *userdata)
{
	const struct unfound *u = userdata;
	size_t i;

	for (i = unfound_first(u, number); i < u->n && u->v[i]->given == number; i++)
		u->v[i]->pid = pid;
	return 0;
}

/* --namespace: the numbers that were given, as pids of this namespace. */
static int translate_pids(struct find *f)
{
	struct unfound u = {.by_given = true};
	ino_t inode = 0;
	int r;

	if (!f->ctl->opt.namespace)
		return 0;
	r = namespace_parse(f->ctl->opt.namespace, &inode, &f->ctl->err);
	if (r == 0)
		r = unfound_collect(f, &u);
	if (r == 0)
		r = namespace_each(inode, translate_pid, &u, &f->ctl->err);
	free(u.v);
	return r;
}

/* ---- the steps of the node ----------------------------------------------------------------- */

static int add_step(const struct step_entry *entry, void *userdata)
{
	struct find *f = userdata;
	int r = array_reserve(f->steps, f->steps_capacity, f->n_steps + 1);

	if (r < 0)
		return r;
	f->steps[f->n_steps] = (struct find_step){.searched = false};
	r = tracker_copy_entry(entry, &f->steps[f->n_steps].entry);
	f->n_steps += r == 0;
	return r;
}

static int read_steps(struct find *f)
{
	int r = steps_find_dir(f->ctl->opt.runtime_dir, &f->runtime_dir, &f->ctl->err);

	if (r == 0)
		r = steps_each(f->ctl->opt.runtime_dir, add_step, f, &f->ctl->err);
	return r == -ENOMEM ? find_no_memory(f) : r;
}

/* ---- by the trackers ----------------------------------------------------------------------- */

/* Whether the tracker alone is enough to search a step. With other trackers than cgroup, a living
 * agent knows more: which process had a pid before it was used again. */
static bool is_local(const struct find_step *step)
{
	if (strcmp(step->entry.proctrack, "proctrack/cgroup") == 0)
		return true;
	return !step->entry.alive && strcmp(step->entry.proctrack, "proctrack/linuxproc") != 0;
}

/* Of one tracker and container root. */
static bool is_sibling(const struct find_step *a, const struct find_step *b)
{
	if (tracker_is_of_one(&a->entry) || tracker_is_of_one(&b->entry))
		return a == b;
	return strcmp(a->entry.proctrack, b->entry.proctrack) == 0 &&
		strcmp(json_get_text(a->entry.doc, "container_root", ""),
			json_get_text(b->entry.doc, "container_root", "")) == 0;
}

static struct find_step *find_container(
	const struct find *f, const struct find_step *sibling, uint64_t id)
{
	size_t i;

	for (i = 0; id && i < f->n_steps; i++) {
		struct find_step *s = &f->steps[i];

		if (s->entry.cont_id == id && is_local(s) && is_sibling(s, sibling))
			return s;
	}
	return NULL;
}

/* The tasks of a step are read for its first process. */
static int find_rank(struct find_step *s, struct proctrack *pt, pid_t pid, uint32_t *ret_rank)
{
	int r = s->tasks ? 0 : tracker_read_tasks(&s->entry, &s->tasks, &s->n_tasks);

	return r < 0
		? r
		: proctrack_find_member(pt, s->entry.cont_id, s->tasks, s->n_tasks, pid, ret_rank);
}

/* Searches all pids in the containers of a step and its siblings. */
static int search_siblings(struct find *f, struct proctrack *pt, const struct find_step *sibling)
{
	uint32_t rank = STEPD_MEMBER_NO_RANK;
	struct find_step *s;
	size_t i;
	int r;

	for (i = 0; i < f->n; i++) {
		struct wanted *w = &f->v[i];

		s = w->step || w->pid <= 0 ? NULL
					   : find_container(f, sibling, proctrack_find(pt, w->pid));
		if (!s)
			continue;
		r = find_rank(s, pt, w->pid, &rank);
		if (r == -ENOMEM)
			return find_no_memory(f);
		if (r < 0)
			continue; /* it has just ended */
		w->step = s;
		w->rank = rank == STEPD_MEMBER_NO_RANK ? STEPD_NO_RANK : rank;
	}
	return 0;
}

/* After a bad state.json the other steps are searched all the same. */
static int find_by_tracker(struct find *f, const struct find_step *step)
{
	struct stepd_error error = {.code = 0};
	struct proctrack *pt = NULL;
	struct err err = ERR_INIT;
	int r = tracker_open(f->ctl, &step->entry, &pt, &err);
	size_t i;

	if (r == -ENOMEM)
		return find_no_memory(f);
	if (r < 0) {
		(void)client_error_forward(&error, &err);
		error.code = r == -ENOENT ? -EOPNOTSUPP : r; /* the plugin, not a process */
	}
	for (i = 0; i < f->n_steps; i++) {
		if (!is_local(&f->steps[i]) || !is_sibling(&f->steps[i], step))
			continue;
		f->steps[i].searched = true;
		if (r < 0)
			find_report(f, &f->steps[i], &error);
	}
	r = r < 0 ? 0 : search_siblings(f, pt, step);
	(void)proctrack_close(pt);
	return r;
}

static int find_by_trackers(struct find *f)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < f->n_steps; i++) {
		if (is_local(&f->steps[i]) && !f->steps[i].searched)
			r = find_by_tracker(f, &f->steps[i]);
	}
	return r;
}

/* ---- by the agents ------------------------------------------------------------------------- */

struct agent_search {
	const struct find_step *step;
	struct stepd_client *client;
	struct stepd_error error; /* code 0: it can be searched */
};

static size_t connect_agents(struct find *f, struct agent_search *searches)
{
	size_t i, n = 0;

	for (i = 0; i < f->n_steps; i++) {
		const struct step_entry *entry = &f->steps[i].entry;
		_cleanup_free_ char *directory = NULL;
		struct agent_search *s = &searches[n];

		if (is_local(&f->steps[i]) || !entry->alive)
			continue;
		n++;
		s->step = &f->steps[i];
		if (asprintf(&directory, "%s/%s_%s", f->runtime_dir, entry->node, entry->step) <
			0) {
			directory = NULL;
			(void)client_no_memory(&s->error);
		} else if (stepd_connect_directory(
				   directory, ctl_timeout_ms(f->ctl), &s->client, &s->error) == 0) {
			client_split_calls(s->client);
		}
	}
	return n;
}

/* Called twice, as calls are split: the first call only sends the request. */
static void search_agent(
	struct agent_search *s, const pid_t *pids, size_t count, const struct unfound *u)
{
	_cleanup_free_ struct stepd_process *found = NULL;
	size_t n = 0, i, k;
	int r;

	if (s->error.code)
		return;
	r = stepd_find_pids(s->client, pids, count, 0, &found, &n, &s->error);
	if (r == -EAGAIN)
		s->error.code = 0;
	for (i = 0; r == 0 && i < n; i++) {
		for (k = unfound_first(u, found[i].pid); k < u->n && u->v[k]->pid == found[i].pid;
			k++) {
			u->v[k]->step = s->step;
			u->v[k]->rank = found[i].rank;
		}
	}
}

static void search_agents(struct agent_search *searches, size_t n_searches, const pid_t *pids,
	size_t n_pids, const struct unfound *u)
{
	size_t at, count, i;

	for (at = 0; at < n_pids; at += count) {
		count = n_pids - at < CLIENT_FIND_PIDS_MAX ? n_pids - at : CLIENT_FIND_PIDS_MAX;
		for (i = 0; i < n_searches; i++)
			search_agent(&searches[i], pids + at, count, u);
		for (i = 0; i < n_searches; i++)
			search_agent(&searches[i], pids + at, count, u);
	}
}

/* A step that has ended meanwhile has no processes. */
static void close_agents(struct find *f, struct agent_search *searches, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		int code = searches[i].error.code;

		if (code && code != -ENOENT && code != -ECONNREFUSED && code != -ECONNRESET)
			find_report(f, searches[i].step, &searches[i].error);
		(void)stepd_disconnect(searches[i].client);
	}
}

static int find_by_agents(struct find *f)
{
	_cleanup_free_ struct agent_search *searches = calloc(f->n_steps + 1, sizeof(*searches));
	_cleanup_free_ pid_t *pids = calloc(f->n + 1, sizeof(*pids));
	struct unfound u = {.v = NULL};
	size_t n, n_pids = 0, i;
	int r = searches && pids ? unfound_collect(f, &u) : find_no_memory(f);

	for (i = 0; r == 0 && i < u.n; i++) {
		if (i == 0 || u.v[i]->pid != u.v[i - 1]->pid)
			pids[n_pids++] = u.v[i]->pid;
	}
	if (n_pids > 0) {
		n = connect_agents(f, searches);
		search_agents(searches, n, pids, n_pids, &u);
		close_agents(f, searches, n);
	}
	free(u.v);
	return r;
}

/* ---- the output ---------------------------------------------------------------------------- */

static void print_one(const struct find *f, const struct wanted *w)
{
	const struct step_entry *s = w->step ? &w->step->entry : NULL;
	_cleanup_free_ char *user = NULL;

	if (!s) {
		printf("%d is in no step%s\n", (int)w->given,
			f->incomplete ? " that could be searched" : "");
		return;
	}
	user = term_printable(&f->ctl->term, s->user, TERM_WHOLE);
	printf("%d step %s", (int)w->given, s->step);
	if (w->rank != STEPD_NO_RANK)
		printf(" task %lld", (long long)w->rank);
	printf(" user %s container %llu (%s)", user ? user : "?", (unsigned long long)s->cont_id,
		s->proctrack);
	if (w->pid != w->given)
		printf(" pid %d", (int)w->pid);
	putchar('\n');
}

static json_t *pack_one(const struct wanted *w)
{
	const struct step_entry *s = &w->step->entry;

	return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:I, s:s}", "given", (int)w->given, "pid",
		(int)w->pid, "step", report_json_text(s->step), "node", report_json_text(s->node),
		"rank", ctl_rank_json(w->rank), "user", report_json_text(s->user), "container_id",
		(json_int_t)s->cont_id, "proctrack", s->proctrack);
}

static int print_all(struct find *f)
{
	json_auto_t *found = json_array(), *missing = json_array();
	size_t i, n_missing = 0;
	int r = 0;

	for (i = 0; r == 0 && i < f->n; i++) {
		n_missing += !f->v[i].step;
		if (!f->ctl->opt.json)
			print_one(f, &f->v[i]);
		else if (f->v[i].step)
			r = json_array_append_new(found, pack_one(&f->v[i]));
		else
			r = json_array_append_new(missing, json_integer(f->v[i].given));
	}
	if (n_missing > 0 && f->ctl->out.status == CTL_OK)
		f->ctl->out.status = CTL_NOT_FOUND;
	if (r < 0)
		return find_no_memory(f);
	if (!f->ctl->opt.json)
		return 0;
	return ctl_print_json(f->ctl,
		json_pack("{s:O, s:O, s:O}", "processes", found, "not_found", missing, "unanswered",
			f->unanswered),
		false);
}

static void find_clear(struct find *f)
{
	size_t i;

	for (i = 0; i < f->n_steps; i++) {
		tracker_free_entry(&f->steps[i].entry);
		free(f->steps[i].tasks);
	}
	free(f->runtime_dir);
	free(f->steps);
	free(f->v);
	json_decref(f->unanswered);
}

int ctl_find(struct ctl *ctl)
{
	_cleanup_(find_clear) struct find f = {.ctl = ctl, .unanswered = json_array()};
	int r = f.unanswered ? add_pids(&f) : find_no_memory(&f);

	if (r == 0)
		r = translate_pids(&f);
	if (r == 0)
		r = read_steps(&f);
	if (r == 0)
		r = find_by_trackers(&f);
	if (r == 0)
		r = find_by_agents(&f);
	return r < 0 ? r : print_all(&f);
}
