/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An agent from its start to its end. Its process reads its spec from a pipe: a complete spec
 * starts the step, and an incomplete one, because jobd has died, starts nothing. If it dies later
 * it leaves its step behind, which another agent takes over, "stepd adopt".
 */
#include <assert.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "contrib/jobd/run/run_impl.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/state/steps.h"

#define RESULT_MAX (16u << 20) /* bytes */
#define LOG_TAIL   4096        /* bytes, which have the last line */

/* An agent that dies so often would die again. */
#define ADOPTIONS_MAX 10

/* Numbers that none of a child's final descriptors has. */
#define FD_ABOVE 10

extern char **environ;

static struct ev_loop *loop_of(const struct agent *a)
{
	return a->job->run->options.loop;
}

/* ---- names -------------------------------------------------------------------------------------
 */

static const char *kind_of(const struct agent *a)
{
	return a->batch ? "batch" : "extern";
}

char *agent_step_name(const struct agent *a)
{
	char *name;

	return asprintf(&name, "%s/%u.%s", a->node->name, a->job->id, kind_of(a)) < 0 ? NULL : name;
}

char *agent_directory(const struct agent *a)
{
	char *path;

	return asprintf(&path, "%s/%s_%u.%s", a->job->run->runtime_dir, a->node->name, a->job->id,
		       kind_of(a)) < 0
		? NULL
		: path;
}

char *agent_file(const struct agent *a, const char *ending)
{
	char *name;

	return asprintf(&name, "%u.%u.%s.%s", a->job->id, a->job->restarts, a->node->name, ending) <
			0
		? NULL
		: name;
}

void agent_remove_files(const struct agent *a)
{
	static const char *const endings[] = {"result", "log"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(endings); i++) {
		_cleanup_free_ char *name = agent_file(a, endings[i]);

		if (name)
			(void)unlinkat(a->job->run->dir_fd, name, 0); /* it may never have been */
	}
}

/* ---- processes ---------------------------------------------------------------------------------
 */

/* Copies of descriptors, where no dup2() of the child overwrites them. */
struct spawn_fds {
	int v[SPAWN_READY_FD + 1];
};

static void spawn_fds_clear(struct spawn_fds *fds)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(fds->v); i++)
		fds->v[i] = close_fd(fds->v[i]);
}

static int copy_fds(const struct spawn *s, struct spawn_fds *fds)
{
	const int from[] = {s->in, s->out, s->error, s->spec, s->ready};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(from); i++) {
		if (from[i] >= 0)
			fds->v[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FD_ABOVE);
		else if (i <= STDERR_FILENO)
			fds->v[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fds->v[i] < 0 && (from[i] >= 0 || i <= STDERR_FILENO))
			return -errno;
		if (fds->v[i] >= 0 && fds->v[i] < FD_ABOVE) {
			int above = fcntl(fds->v[i], F_DUPFD_CLOEXEC, FD_ABOVE);

			fds->v[i] = close_fd(fds->v[i]);
			if (above < 0)
				return -errno;
			fds->v[i] = above;
		}
	}
	return 0;
}

/* Positive codes of posix_spawn(3). */
static int spawn_with(const struct spawn *s, const struct spawn_fds *fds,
	posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, pid_t *ret_pid)
{
	sigset_t all, none;
	size_t i;
	int r = 0;

	(void)sigfillset(&all);
	(void)sigemptyset(&none);
	for (i = 0; r == 0 && i < ARRAY_SIZE(fds->v); i++) {
		if (fds->v[i] >= 0)
			r = posix_spawn_file_actions_adddup2(actions, fds->v[i], (int)i);
	}
	if (r == 0)
		r = posix_spawn_file_actions_addchdir_np(actions, "/");
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attributes, &all);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attributes, &none);
	if (r == 0)
		r = posix_spawnattr_setflags(attributes,
			POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	if (r == 0)
		r = posix_spawn(ret_pid, s->argv[0], actions, attributes, s->argv, environ);
	return r;
}

int spawn_process(const struct spawn *s, struct pidref *ret_process)
{
	_cleanup_(spawn_fds_clear) struct spawn_fds fds = {.v = {-1, -1, -1, -1, -1}};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	struct procstat stat = {0};
	pid_t pid = 0;
	int r = copy_fds(s, &fds);

	if (r < 0)
		return r;
	r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r == 0) {
		r = spawn_with(s, &fds, &actions, &attributes, &pid);
		(void)posix_spawnattr_destroy(&attributes);
	}
	(void)posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return -r;
	/* It is our child, and not waited for yet: it is there. */
	r = pidref_open(pid, 0, ret_process);
	if (r == 0 && procstat_read(pid, &stat) == 0)
		ret_process->start_ticks = stat.start_ticks;
	if (r < 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	return r;
}

static void put_replaced(FILE *out, char letter, const char *host, const char *command)
{
	switch (letter) {
	case 'h':
		strv_put_quoted(out, host);
		break;
	case 'c':
		fputs(command, out);
		break;
	case 'q':
		strv_put_quoted(out, command);
		break;
	default:
		fputc('%', out);
		if (letter != '%')
			fputc(letter, out);
	}
}

int make_launcher_argv(
	const struct run *run, const char *host, const struct strv *command, struct strv *ret_argv)
{
	_cleanup_free_ char *quoted = strv_quote(command), *text = NULL;
	const char *p;
	size_t size;
	FILE *out = quoted ? open_memstream(&text, &size) : NULL;

	if (!out)
		return -ENOMEM;
	for (p = run->options.launcher; *p; p++) {
		if (*p != '%' || !p[1])
			fputc(*p, out);
		else
			put_replaced(out, *++p, host, quoted);
	}
	if (fclose(out) != 0)
		return -ENOMEM;
	return strv_add(ret_argv, "/bin/sh") | strv_add(ret_argv, "-c") | strv_add(ret_argv, text);
}

/* ---- its command -------------------------------------------------------------------------------
 */

static int add_option(struct strv *argv, const char *option, const char *value)
{
	return value ? strv_add(argv, option) | strv_add(argv, value) : 0;
}

/* 0 or -ENOMEM. On another host the document comes by standard input, and the result goes to
 * standard output: the launcher carries them. */
static int add_agent_argv(const struct agent *a, bool adopts, struct strv *argv)
{
	const struct run *run = a->job->run;
	_cleanup_free_ char *name = agent_file(a, "result"), *step = agent_step_name(a),
			    *result = NULL;
	int r = name && step && asprintf(&result, "%s/%s", run->dir, name) >= 0 ? 0 : -ENOMEM;

	r |= strv_add(argv, run->stepd) | strv_add(argv, adopts ? "adopt" : "serve");
	r |= add_option(argv, "--result", a->remote ? "-" : result);
	r |= add_option(argv, "--keep-result", a->remote ? "1h" : "0");
	r |= add_option(argv, "--plugin-dir", a->remote ? NULL : run->options.plugin_dir);
	r |= add_option(argv, "--runtime-dir", a->remote ? NULL : run->runtime_dir);
	if (!a->remote)
		r |= strv_add(argv, "--ready-fd") | strv_addf(argv, "%d", SPAWN_READY_FD);
	if (adopts)
		return r | strv_add(argv, step);
	r |= strv_add(argv, "--spec-fd");
	return r | strv_addf(argv, "%d", a->remote ? STDIN_FILENO : SPAWN_SPEC_FD);
}

static int make_argv(const struct agent *a, bool adopts, struct strv *argv)
{
	_cleanup_strv_ struct strv command = {0};
	int r;

	if (!a->remote)
		return add_agent_argv(a, adopts, argv);
	r = add_agent_argv(a, adopts, &command);
	return r == 0 ? make_launcher_argv(a->job->run, a->node->name, &command, argv) : r;
}

/* ---- its end -----------------------------------------------------------------------------------
 */

/* The last line of its log, which has the reason of its failure. */
static void read_reason(struct agent *a)
{
	_cleanup_free_ char *name = agent_file(a, "log");
	_cleanup_close_ int fd =
		name ? openat(a->job->run->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	char text[LOG_TAIL + 1], *line, *error;
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	ssize_t n =
		size < 0 ? -1 : pread(fd, text, LOG_TAIL, size > LOG_TAIL ? size - LOG_TAIL : 0);

	if (n <= 0) {
		(void)snprintf(
			a->why, sizeof(a->why), "its agent has ended without giving a reason");
		return;
	}
	text[n] = '\0';
	text[strcspn(text + (n - 1), "\n") + (size_t)n - 1] = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	error = strstr(line, "error: ");
	err_printable(a->why, sizeof(a->why), error ? error + strlen("error: ") : line);
}

/* Whether the agent failed because of the user's request: the job fails, the node doesn't. */
static bool is_users_fault(const char *why)
{
	static const char *const beginnings[] = {"standard input", "standard output",
		"standard error", "stdin", "stdout", "stderr", "script", "argv", "env", "cwd",
		"name:", "uid", "gid"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(beginnings); i++) {
		if (strncmp(why, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	}
	return false;
}

/* The status of its task, which wait(2) gave; where the agent lost it, by its own exit status. */
static int status_of(const json_t *result)
{
	const json_t *task = json_array_get(json_get_array(result, "tasks"), 0);
	int64_t status = 0;

	if (json_get_range(task, "wait_status", 0, UINT16_MAX, &status))
		return (int)status;
	(void)json_get_range(result, "exit_code", 0, UINT8_MAX, &status);
	return W_EXITCODE((int)status, 0);
}

int agent_read_result(struct agent *a)
{
	_cleanup_free_ char *name = agent_file(a, "result"), *text = NULL;
	json_auto_t *result = NULL;
	size_t size = 0;
	int r = name ? fs_read(a->job->run->dir_fd, name, RESULT_MAX, &text, &size) : -ENOMEM;

	if (r < 0)
		return r;
	/* Of a launcher there may be a line of its own before. */
	result = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(result))
		return -ENOENT;
	a->status = status_of(result);
	a->out_of_memory = json_get_bool(result, "oom_killed", false);
	if (strcmp(json_get_text(result, "reason", ""), "launch-failed") == 0) {
		a->lost = true;
		err_printable(a->why, sizeof(a->why), json_get_text(result, "error", "?"));
		a->users_fault = is_users_fault(a->why);
	}
	return 0;
}

static void agent_ended(struct agent *a)
{
	a->state = AGENT_ENDED;
	calls_end(a);
	run_want_work(a->job);
}

static void close_channels(struct agent *a)
{
	if (a->ready_fd >= 0)
		ev_io_stop(loop_of(a), &a->ready_io);
	a->ready_fd = close_fd(a->ready_fd);
	if (a->spec_fd >= 0)
		ev_io_stop(loop_of(a), &a->spec_io);
	a->spec_fd = close_fd(a->spec_fd);
	buffer_clear(&a->spec);
}

static void agent_adopt(struct agent *a);

/* Of an agent that could not write its result, as on a full disk: it exits as its step did. */
static bool take_exit_code(struct agent *a)
{
	if (a->remote || a->exit_code < 0 || a->exit_code == STATUS_FAILED)
		return false;
	log_warning(a->job->run->options.log,
		"job %u: its agent on node %s has left no result in '%s': its exit status, %d, is "
		"used",
		a->job->id, a->node->name, a->job->run->dir, a->exit_code);
	a->status = a->exit_code > 128 ? a->exit_code - 128 : W_EXITCODE(a->exit_code, 0);
	return true;
}

void agent_take_end(struct agent *a)
{
	struct pidref process = PIDREF_INIT;
	bool had_spec = a->state > AGENT_WAITS;

	close_channels(a);
	if (agent_read_result(a) == 0) {
		agent_ended(a);
		return;
	}
	if (!a->remote && had_spec && agent_find_step(a, &process)) {
		calls_interrupt(a);
		if (process.fd >= 0) { /* somebody has adopted it */
			a->process = process;
			agent_watch(a);
			return;
		}
		if (a->adoptions < ADOPTIONS_MAX) {
			agent_adopt(a);
			return;
		}
	}
	if (a->found && !agent_has_left_something(a)) {
		/* jobd has died before all of its spec was sent: it has started nothing */
		calls_end(a);
		a->state = AGENT_NONE;
		a->job->begun = false;
		run_want_work(a->job);
		return;
	}
	if (had_spec && take_exit_code(a)) {
		agent_ended(a);
		return;
	}
	if (!a->lost) {
		read_reason(a);
		a->users_fault = is_users_fault(a->why);
	}
	a->lost = true;
	agent_ended(a);
}

static void on_exit_fd(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct agent *a = w->data;
	siginfo_t info = {0};

	assert(a);
	ev_io_stop(loop_of(a), &a->exit_io);
	a->exit_code = -1;
	/* Not a child of this jobd, or taken by the loop's own handler: its result has all. */
	if (waitid(P_PIDFD, (id_t)a->process.fd, &info, WEXITED | WNOHANG) == 0 &&
		info.si_code == CLD_EXITED)
		a->exit_code = info.si_status;
	pidref_close(&a->process);
	agent_take_end(a);
}

static void watch_exit(struct agent *a)
{
	ev_io_init(&a->exit_io, on_exit_fd, a->process.fd, EV_READ);
	a->exit_io.data = a;
	ev_io_start(loop_of(a), &a->exit_io);
}

void agent_watch(struct agent *a)
{
	a->state = AGENT_RUNNING;
	watch_exit(a);
	calls_begin(a);
	run_want_work(a->job);
}

/* ---- its beginning -----------------------------------------------------------------------------
 */

static void on_ready(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct agent *a = w->data;
	char bytes[4096];
	ssize_t n;

	assert(a);
	n = read(a->ready_fd, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	ev_io_stop(loop_of(a), &a->ready_io);
	a->ready_fd = close_fd(a->ready_fd);
	if (n <= 0)
		return; /* it can't start its step: its process ends */
	a->state = AGENT_RUNNING;
	calls_begin(a);
	run_want_work(a->job);
}

/* A pipe, both ends O_CLOEXEC, and ours not blocking. */
static int make_pipe(int ours, int ret_fds[2])
{
	if (pipe2(ret_fds, O_CLOEXEC) < 0)
		return -errno;
	if (fcntl(ret_fds[ours], F_SETFL, O_NONBLOCK) == 0)
		return 0;
	ours = -errno;
	(void)close(ret_fds[0]);
	(void)close(ret_fds[1]);
	return ours;
}

static int open_file(const struct agent *a, const char *ending, int flags)
{
	_cleanup_free_ char *name = agent_file(a, ending);
	int fd = name ? openat(a->job->run->dir_fd, name,
				O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600)
		      : -1;

	return fd < 0 ? -errno : fd;
}

static int agent_execute(struct agent *a, bool adopts)
{
	_cleanup_close_ int log_fd = open_file(a, "log", O_APPEND), out_fd = -1, spec_fd = -1,
			    ready_fd = -1;
	_cleanup_strv_ struct strv argv = {0};
	int fds[2], r = log_fd < 0 ? log_fd : make_argv(a, adopts, &argv);

	if (r == 0 && a->remote)
		r = out_fd = open_file(a, "result", O_TRUNC);
	if (r >= 0 && !a->remote) {
		r = make_pipe(0, fds);
		a->ready_fd = r < 0 ? -1 : fds[0];
		ready_fd = r < 0 ? -1 : fds[1];
	}
	if (r >= 0 && !adopts) {
		r = make_pipe(1, fds);
		a->spec_fd = r < 0 ? -1 : fds[1];
		spec_fd = r < 0 ? -1 : fds[0];
	}
	if (r >= 0)
		r = spawn_process(&(struct spawn){.argv = argv.v,
					  .in = a->remote ? spec_fd : -1,
					  .out = a->remote ? out_fd : log_fd,
					  .error = log_fd,
					  .spec = a->remote ? -1 : spec_fd,
					  .ready = ready_fd},
			&a->process);
	if (r < 0) {
		a->ready_fd = close_fd(a->ready_fd);
		a->spec_fd = close_fd(a->spec_fd);
		return r;
	}
	watch_exit(a);
	if (a->ready_fd >= 0) {
		ev_io_init(&a->ready_io, on_ready, a->ready_fd, EV_READ);
		a->ready_io.data = a;
		ev_io_start(loop_of(a), &a->ready_io);
	}
	return 0;
}

static int make_spec(struct agent *a, struct err *err)
{
	json_auto_t *doc = spec_make(a, err);
	_cleanup_free_ char *text = NULL;

	if (!doc)
		return err->code;
	text = json_dumps(doc, JSON_COMPACT);
	if (!text || buffer_add(&a->spec, text, strlen(text)) < 0)
		return err_set(err, -ENOMEM, "make the step of job %u", a->job->id);
	return 0;
}

int agent_spawn(struct agent *a, struct err *err)
{
	int r = make_spec(a, err);

	a->lost = a->stored = a->found = a->has_replied = false;
	a->users_fault = r == -EINVAL;
	if (r < 0)
		return r;
	r = agent_execute(a, false);
	if (r < 0)
		return err_set(err, r, "start '%s'", a->job->run->stepd);
	a->state = AGENT_WAITS;
	return 0;
}

static bool should_stand(const struct run_job *j)
{
	if (j->change != CHANGE_NONE)
		return (j->change == CHANGE_SUSPEND) != j->taken_back;
	return j->job && (j->job->record.job_state & JOB_STATE_BASE) == JOB_SUSPENDED;
}

void agent_settle(struct agent *a)
{
	if (a->leaves || (a->job->ending && !a->batch))
		calls_add(a, CALL_TERMINATE, 0);
	else
		run_change_agent(a, should_stand(a->job));
}

static void agent_adopt(struct agent *a)
{
	struct err err = ERR_INIT;
	int r;

	log_warning(a->job->run->options.log,
		"job %u: its agent on node %s has died: another one takes the step over",
		a->job->id, a->node->name);
	a->adoptions++;
	a->state = AGENT_STARTING;
	r = agent_execute(a, true);
	if (r < 0) {
		(void)err_set(&err, r, "start '%s adopt'", a->job->run->stepd);
		(void)snprintf(a->why, sizeof(a->why), "%.500s", err.text);
		a->lost = true;
		agent_ended(a);
		return;
	}
	if (agent_store(a, &err) < 0)
		log_warning(a->job->run->options.log, "%s, ignoring", err.text);
	agent_settle(a);
}

int agent_store(struct agent *a, struct err *err)
{
	struct run *run = a->job->run;
	char text[BOOT_ID_SIZE + 64];
	int r;

	if (!run->options.store)
		return 0;
	(void)snprintf(text, sizeof(text), "%u %d %llu %s", a->job->restarts, a->process.pid,
		(unsigned long long)a->process.start_ticks, run->boot_id);
	r = store_save_step(run->options.store,
		&(struct store_step){.job_id = a->job->id,
			.step_id = a->batch ? STEP_ID_BATCH : STEP_ID_EXTERN,
			.node = a->node->name,
			.agent = text,
			.state = STORE_STEP_RUNNING,
			.exit_status = -1},
		err);
	a->stored = r == 0;
	return r;
}

/* ---- its spec ----------------------------------------------------------------------------------
 */

static void write_spec(struct agent *a)
{
	ssize_t n;

	while (buffer_size(&a->spec) > 0) {
		n = write(a->spec_fd, buffer_bytes(&a->spec), buffer_size(&a->spec));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break; /* its process has ended, or ends */
		buffer_drop(&a->spec, (size_t)n);
	}
	ev_io_stop(loop_of(a), &a->spec_io);
	a->spec_fd = close_fd(a->spec_fd);
	buffer_clear(&a->spec);
	/* Of a launcher there is no more to wait for. */
	if (a->remote && a->state == AGENT_STARTING) {
		a->state = AGENT_RUNNING;
		calls_begin(a);
		run_want_work(a->job);
	}
}

static void on_spec(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	assert(w->data);
	write_spec(w->data);
}

void agent_send_spec(struct agent *a)
{
	a->state = AGENT_STARTING;
	ev_io_init(&a->spec_io, on_spec, a->spec_fd, EV_WRITE);
	a->spec_io.data = a;
	ev_io_start(loop_of(a), &a->spec_io);
	write_spec(a);
}

void agent_refuse_spec(struct agent *a)
{
	a->spec_fd = close_fd(a->spec_fd);
	buffer_clear(&a->spec);
}

/* ---- what it has left --------------------------------------------------------------------------
 */

int agent_find_step(const struct agent *a, struct pidref *ret_process)
{
	_cleanup_free_ char *path = agent_directory(a);
	_cleanup_close_ int fd =
		path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	json_auto_t *doc = NULL;
	struct step_state state;
	struct err err = ERR_INIT;

	*ret_process = (struct pidref)PIDREF_INIT;
	if (fd < 0 || steps_read_state(fd, &doc) < 0 || steps_parse_state(doc, &state, &err) < 0)
		return 0;
	if (steps_is_locked(fd) == 1 && state.agent_pid > 0 &&
		pidref_open(state.agent_pid, state.agent_start_ticks, ret_process) < 0)
		*ret_process = (struct pidref)PIDREF_INIT; /* it has ended since */
	return 1;
}

void agent_clear(struct agent *a)
{
	calls_clear(a);
	close_channels(a);
	if (a->process.fd >= 0)
		ev_io_stop(loop_of(a), &a->exit_io);
	pidref_close(&a->process);
}
