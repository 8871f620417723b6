/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/served_impl.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "contrib/slurm/accounting.h"
#include "contrib/slurm/auth.h"
#include "contrib/slurm/batch.h"
#include "contrib/slurm/epilogs.h"
#include "contrib/slurm/job_cgroup.h"
#include "contrib/slurm/job_tmpfs.h"
#include "contrib/slurm/names.h"
#include "contrib/slurm/pam_session.h"
#include "contrib/slurm/pmi_tree.h"
#include "contrib/slurm/pmix_nodes.h"
#include "contrib/slurm/spank_serve.h"
#include "contrib/slurm/srun_io.h"
#include "contrib/slurm/tree.h"
#include "contrib/slurm/window.h"
#include "contrib/slurm/x11.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/cli/relay/supervisor.h"

#define OTHERS_S 0.25

/* ---- slurmd's answer ------------------------------------------------------------------------ */

/* slurmd writes the rest of the init, takes the answer, and ends the pipe. */
static void on_init(struct ev_loop *loop, ev_io *watcher, _unused_ int revents)
{
	struct served *s = watcher->data;
	char piece[16384];
	ssize_t n = read(watcher->fd, piece, sizeof(piece));
	int null_fd;

	assert(s);

	if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
		return;
	ev_io_stop(loop, watcher);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd >= 0) {
		(void)dup2(null_fd, STDIN_FILENO); /* else they stay open, to nobody */
		(void)dup2(null_fd, STDOUT_FILENO);
	}
	(void)close_fd(null_fd);
	served_check_over(s);
}

/* error: of Slurm; 0: there is none. */
static int answer_slurmd(struct served *s, int32_t error)
{
	int r = fs_write_all(STDOUT_FILENO, &error, sizeof(error));

	if (r < 0)
		log_error(s->log, "step %s: slurmd takes no answer: %s", s->label, strerror(-r));
	else
		log_info(s->log, "%s step served", slurm_kind_name(s->launch->kind));
	s->answered = true;
	ev_io_init(&s->init_end, on_init, STDIN_FILENO, EV_READ);
	s->init_end.data = s;
	ev_io_start(s->loop, &s->init_end);
	return r;
}

/* ---- the agent ----------------------------------------------------------------------------- */

/* This process is as much of the step's daemon as its agent. */
static void settle(struct served *s)
{
	enum site_lock lock = s->init->site->lock_memory;
	int r = lock != SITE_LOCK_NONE ? trim_and_lock(lock == SITE_LOCK_ALL) : 0;

	if (r < 0)
		log_warning(s->log, "memory is not locked: %s", strerror(-r));
	trim_start(&s->trim, s->loop);
}

static void agent_on_ready(const json_t *line, void *userdata)
{
	struct served *s = userdata;
	const json_t *entry;
	struct served_task *task;
	int64_t rank, pid;
	size_t i;

	assert(s);
	json_array_foreach (json_get_array(line, "tasks"), i, entry) {
		if (!json_get_range(entry, "rank", 0, UINT32_MAX, &rank) ||
			!json_get_range(entry, "pid", 0, INT32_MAX, &pid))
			continue;
		task = served_find_task(&s->tasks, (uint32_t)rank);
		if (task)
			task->pid = (uint32_t)pid;
	}
	s->agent.runs = true;
	if (s->launch->kind == SLURM_KIND_EXTERN)
		(void)answer_slurmd(s, 0); /* has reported it: the step goes on without slurmd */
	accounting_start(s->accounting);
	served_report_launch(s);
	if (s->streams.io) /* a script has files */
		srun_io_start(s->streams.io);
	if (s->streams.window)
		served_on_resized(s); /* the size may have changed meanwhile */
	served_send_early(s);
	job_cgroup_sweep(s->job_cgroup);
	settle(s);
}

static void agent_on_task_ended(uint32_t rank, int wait_status, void *userdata)
{
	struct served *s = userdata;
	struct served_task *task;

	assert(s);
	task = served_find_task(&s->tasks, rank);
	if (task)
		served_end_task(s, task, wait_status);
}

static void agent_on_out_of_memory(uint32_t rank, uint64_t kills, void *userdata)
{
	assert(userdata);
	served_add_oom_kills(userdata, rank, kills);
}

static void agent_on_report(const char *text, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	log_warning(s->log, "step %s: %s", s->label, text);
}

/* The ends that no event has told of, and what the tasks have used. */
static void take_result(struct served *s, const char *text)
{
	json_auto_t *result = text ? json_loads(text, 0, NULL) : NULL;
	const json_t *entry;
	struct served_task *task;
	int64_t rank, status, kills;
	size_t i;

	json_array_foreach (json_get_array(result, "tasks"), i, entry) {
		if (!json_get_range(entry, "rank", 0, UINT32_MAX, &rank) ||
			!json_get_range(entry, "wait_status", 0, INT32_MAX, &status))
			continue;
		if (json_get_range(entry, "oom_kills", 0, INT64_MAX, &kills))
			served_add_oom_kills(s, (uint32_t)rank, (uint64_t)kills);
		task = served_find_task(&s->tasks, (uint32_t)rank);
		if (!task)
			continue;
		if (!s->agent.runs && !task->ended)
			task->reported = task->has_epilog = true; /* it has not run: finish() */
		served_end_task(s, task, (int)status);
	}
	served_note_oom(s);
	accounting_finish(s->accounting, result);
}

/* No task runs any more: there is nothing left to wait for, so that ends are reported together. Of
 * tasks that have not run srun has heard by the launch. */
static void finish(struct served *s)
{
	s->agent.over = true;
	if (s->agent.runs && ev_is_active(&s->reports.gather))
		served_report_ends(s);
	served_end_step(s);
}

/* As before slurmd had its answer, which it has not. */
static void leave_unstarted(struct served *s)
{
	s->unstarted = true;
	ev_break(s->loop, EVBREAK_ALL);
}

/* A plugin has failed it. As with slurmstepd the job goes on, but from 23.11 on slurmd ends it, and
 * no end is reported. */
static void leave_failed(struct served *s, int spank_error)
{
	s->reports.tree = tree_free(s->reports.tree);
	s->agent.over = true;
	(void)answer_slurmd(
		s, s->init->frame.release < SLURM_23_11 ? 0 : spank_error); /* has reported it */
}

/* From 23.11 on a hook that fails before the tasks run is the first one's end. srun goes on until
 * it knows of the launch, and may end then. */
static void end_by_hook(struct served *s, int spank_error)
{
	if (spank_error != SLURM_EXECVE_FAILED || s->init->frame.release < SLURM_23_11)
		return;
	s->tasks.v[0].has_epilog = true; /* none runs for a task that has not */
	served_end_task(s, &s->tasks.v[0], W_EXITCODE(1, 0));
	served_report_ends(s);
}

static void agent_on_ended(_unused_ int exit_code, const char *result, void *userdata)
{
	struct served *s = userdata;
	int spank_error;
	uint32_t i;

	assert(s);
	spank_error = spank_serve_finish(s->spank);
	if (!s->agent.runs && s->launch->kind == SLURM_KIND_EXTERN) {
		if (spank_error)
			leave_failed(s, spank_error);
		else
			leave_unstarted(s);
		return;
	}
	if (!s->agent.runs) { /* the agent's own messages are in slurmd's log */
		s->agent.launch_error = spank_error ? spank_error : SLURM_IO_ERROR;
		end_by_hook(s, spank_error);
		served_report_launch(s);
	}
	take_result(s, result);
	/* As a task whose status is lost, where even the successor of a killed agent has none. */
	for (i = 0; s->agent.runs && i < s->tasks.n && s->launch->kind != SLURM_KIND_EXTERN; i++)
		served_end_task(s, &s->tasks.v[i], SIGKILL);
	finish(s);
}

void served_on_resized(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	if (s->agent.supervisor && !s->agent.over)
		supervisor_resize(s->agent.supervisor);
}

static int start_agent(struct served *s, struct err *err)
{
	static const struct supervisor_events events = {.ready = agent_on_ready,
		.task_ended = agent_on_task_ended,
		.out_of_memory = agent_on_out_of_memory,
		.report = agent_on_report,
		.ended = agent_on_ended};
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fd = s->streams.window ? window_get_slave(s->streams.window) : null_fd, r;
	const struct supervisor_start start = {.program = s->agent.program,
		.args = s->spank ? spank_serve_args(s->spank) : &s->agent.args,
		.runtime_dir = s->agent.runtime_dir,
		.doc = s->agent.doc,
		.extra_fds = s->spank ? spank_serve_fd(s->spank) : NULL,
		.extra_fds_count = s->spank ? 1 : 0,
		.stdio = {fd, fd, s->log->fd >= 0 ? s->log->fd : null_fd}};

	if (null_fd < 0)
		return err_set(err, -errno, "open '/dev/null'");
	r = supervisor_new(s->loop, &start, &events, s, &s->agent.supervisor, err);
	if (s->streams.window)
		window_close_slave(s->streams.window);
	if (r < 0)
		return r;
	if (s->spank)
		spank_serve_start(s->spank);
	if (!s->epilogs) {
		json_decref(s->agent.doc); /* the user's whole environment */
		s->agent.doc = NULL;
	}
	return 0;
}

/* ---- a step whose program can't be executed ------------------------------------------------ */

/* Users know the sentence, once for each task, and the errno as its status. */
static void end_unexecuted(struct served *s)
{
	char text[PATH_MAX + 128];
	uint32_t i;

	(void)snprintf(text, sizeof(text),
		s->setup.probe.is_interpreter ? "execve(): bad interpreter(%s): %s"
					      : "execve(): %s: %s",
		s->setup.probe.program, strerror(s->setup.probe.program_error));
	s->agent.runs = true;
	for (i = 0; i < s->tasks.n; i++)
		s->tasks.v[i].pid = (uint32_t)getpid();
	served_report_launch(s);
	for (i = 0; i < s->tasks.n; i++) {
		served_put_note(s, text);
		served_end_task(s, &s->tasks.v[i], s->setup.probe.program_error << 8);
	}
	finish(s);
}

/* ---- the end ------------------------------------------------------------------------------- */

void served_on_drained(void *userdata)
{
	assert(userdata);
	served_check_over(userdata);
}

void served_on_reported(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	s->reports.over = true;
	served_report_rest(s);
	if (!served_reports_are_pending(&s->reports))
		ev_break(s->loop, EVBREAK_ALL);
}

static bool has_failure(const struct served *s)
{
	uint32_t i;

	for (i = 0; i < s->tasks.n; i++) {
		if (s->tasks.v[i].ended && s->tasks.v[i].status != 0)
			return true;
	}
	return s->reports.out_of_memory;
}

/* Those of the job on this node. */
static bool have_others_ended(const struct served *s)
{
	_cleanup_free_ char *prefix = NULL, *own = NULL;

	if (asprintf(&prefix, "%s_%u.", s->init->conf.node_name, s->launch->id.job) < 0)
		prefix = NULL;
	if (names_make_socket(s->init->conf.node_name, s->label, &own) < 0)
		own = NULL;
	return !prefix || !own || !spool_has_listener(s->requests.spool, prefix, own);
}

static void on_others(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct served *s = timer->data;

	assert(s);
	served_check_over(s);
}

void served_others_init(struct served *s)
{
	ev_timer_init(&s->others, on_others, OTHERS_S, 0.);
	s->others.data = s;
}

/* The namespace goes with this step, and with it what the others have in their /tmp, while they
 * do what they do at the end. slurmd waits for them, too. */
static bool awaits_others(struct served *s)
{
	if (!s->tmpfs || s->completes || have_others_ended(s))
		return false;
	ev_timer_stop(s->loop, &s->others);
	ev_timer_set(&s->others, OTHERS_S, 0.);
	ev_timer_start(s->loop, &s->others);
	return true;
}

void served_check_over(struct served *s)
{
	if (ev_is_active(&s->init_end) || !s->agent.over || !s->streams.ended ||
		served_reports_are_pending(&s->reports) || epilogs_are_running(s->epilogs))
		return;
	/* Of a step that has come to its end the other nodes may be in its last fence. */
	if (!has_failure(s) && pmix_nodes_are_pending(s->pmix))
		return;
	if (awaits_others(s))
		return;
	if (s->completes) {
		if (s->batch || s->reports.over) /* else the tree reports it */
			ev_break(s->loop, EVBREAK_ALL);
		return;
	}
	s->completes = true;
	s->pam = pam_session_close(s->pam, s->log);
	if (s->batch && !s->requests.aborted)
		served_report_script(s);
	else if (s->reports.tree)
		served_report_step(s);
	else
		served_on_reported(s);
}

void served_on_streams_finished(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	s->streams.ended = true;
	/* A failure is reported when it is due: srun shows what the tasks have written before it.
	 */
	if (!has_failure(s))
		served_report_ends(s);
	served_check_over(s);
}

void served_end_step(struct served *s)
{
	if (s->agent.over && !served_epilogs_run(s) && !s->streams.finishes) {
		s->streams.finishes = true;
		if (s->streams.io)
			srun_io_finish(s->streams.io);
	}
	served_check_over(s);
}

/* ---- the start ----------------------------------------------------------------------------- */

static void fail_launch(struct served *s, int error)
{
	s->agent.launch_error = error;
	served_report_launch(s);
	finish(s);
}

static void put_cwd_note(struct served *s, int error, uint32_t times)
{
	char text[PATH_MAX + 128];
	uint32_t i;

	(void)snprintf(text, sizeof(text), "couldn't chdir to `%s': %s: going to %s instead",
		s->launch->cwd, strerror(error), SERVED_FALLBACK_DIR);
	for (i = 0; error && i < times; i++)
		served_put_note(s, text);
}

/* slurmstepd tries in itself, and in each task. */
static void put_cwd_notes(struct served *s)
{
	put_cwd_note(s, s->setup.probe.outside_cwd_error, 1);
	put_cwd_note(s, s->setup.probe.cwd_error, s->tasks.n);
}

static void start_tasks(struct served *s)
{
	struct err err = ERR_INIT;

	/* Before anything is shown: only then srun of 26.05 makes its terminal raw. */
	if (s->streams.window)
		window_follow(s->streams.window);
	put_cwd_notes(s);
	if (s->setup.probe.file_error) {
		log_error(s->log, "step %s: a file of its tasks can't be opened: %s", s->label,
			strerror(s->setup.probe.file_error));
		fail_launch(s, SLURM_IO_ERROR);
	} else if (s->setup.probe.program_error) {
		end_unexecuted(s);
	} else if (start_agent(s, &err) < 0) {
		log_error(s->log, "step %s: %s", s->label, err.text);
		s->agent.node_error = SLURM_EXECVE_FAILED;
		fail_launch(s, SLURM_IO_ERROR);
	}
}

void served_on_streams_connected(int r, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	if (r == 0) {
		start_tasks(s);
		return;
	}
	log_error(s->log, "step %s: can't connect to srun for the tasks' streams: %s", s->label,
		strerror(-r));
	fail_launch(s, SLURM_IO_ERROR);
}

/* ---- the life ------------------------------------------------------------------------------ */

static int run_extern(struct served *s)
{
	struct err err = ERR_INIT;

	if (start_agent(s, &err) < 0) {
		log_error(s->log, "step %s: %s", s->label, err.text);
		s->unstarted = true;
	} else {
		ev_run(s->loop, 0);
	}
	if (!s->unstarted)
		return EXIT_SUCCESS;
	(void)signal(SIGPIPE, SIG_DFL); /* slurmstepd has it so */
	return -ECANCELED;
}

int served_run(struct served *s)
{
	(void)signal(SIGPIPE, SIG_IGN);
	if (s->launch->kind == SLURM_KIND_EXTERN)
		return run_extern(s);
	if (answer_slurmd(s, 0) < 0)
		return EXIT_FAILURE;
	if (s->batch && !s->setup.probe.file_error)
		batch_open_notes(s->batch);
	if (s->batch)
		start_tasks(s); /* else once srun is connected */
	ev_run(s->loop, 0);
	return EXIT_SUCCESS;
}

static void streams_clear(struct served_streams *streams)
{
	fifos_close(&streams->fifos);
	if (streams->raised) /* for slurmstepd; it was so before */
		(void)setrlimit(RLIMIT_NOFILE, &streams->nofile);
}

static void agent_clear(struct served_agent *agent)
{
	json_decref(agent->doc);
	strv_clear(&agent->args);
	free(agent->program);
	free(agent->runtime_dir);
	free(agent->directory);
}

struct served *served_free(struct served *s)
{
	if (!s)
		return NULL;
	s->agent.supervisor = supervisor_free(s->agent.supervisor);
	s->spank = spank_serve_free(s->spank);
	s->x11 = x11_close(s->x11);
	s->job_cgroup = job_cgroup_close(s->job_cgroup);
	s->accounting = accounting_close(s->accounting);
	s->epilogs = epilogs_close(s->epilogs);
	s->streams.io = srun_io_close(s->streams.io);
	s->batch = batch_free(s->batch);
	s->pmi = pmi_tree_close(s->pmi);
	s->pmix = pmix_nodes_close(s->pmix);
	served_reports_close(&s->reports, s->loop);
	s->streams.window = window_close(s->streams.window);
	if (s->loop) {
		ev_io_stop(s->loop, &s->init_end);
		ev_timer_stop(s->loop, &s->others);
		trim_stop(&s->trim, s->loop);
	}
	if (s->answered) /* else slurmstepd has the answers */
		served_requests_drain(&s->requests);
	served_requests_close(&s->requests);
	s->tmpfs = job_tmpfs_remove(s->tmpfs);
	streams_clear(&s->streams);
	if (s->loop)
		ev_loop_destroy(s->loop);
	s->pam = pam_session_close(s->pam, s->log);
	s->auth = slurm_auth_close(s->auth);
	agent_clear(&s->agent);
	served_setup_clear(&s->setup);
	free(s->tasks.v);
	free(s->tasks.ranks);
	free(s->tasks.whole_ranks);
	free(s);
	return NULL;
}
