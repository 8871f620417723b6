/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/agent.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/account/apply_limits.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/proc.h"
#include "stepd/launch/hooks.h"
#include "stepd/plugin/plugin.h"
#include "stepd/process/process.h"
#include "stepd/record/clean.h"
#include "stepd/record/events.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"
#include "stepd/record/state_doc.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/ending.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/reaping.h"
#include "stepd/step/result.h"

/* ---- events for the frontends -------------------------------------------------------------- */

static const struct frontend *frontend_of(const struct agent *a)
{
	return a->frontends ? a->options->frontend : NULL;
}

int frontend_open(struct agent *a, struct err *err)
{
	return a->options->frontend ? a->options->frontend->open(a, err) : 0;
}

void frontend_ready(struct agent *a)
{
	if (frontend_of(a))
		frontend_of(a)->ready(a->frontends);
}

void frontend_state_changed(struct agent *a)
{
	if (frontend_of(a))
		frontend_of(a)->state_changed(a->frontends);
}

void frontend_suspended(struct agent *a, bool suspend, int code, const char *why)
{
	if (frontend_of(a))
		frontend_of(a)->suspended(a->frontends, suspend, code, why);
}

bool frontend_mpi_request(struct agent *a, const char *name, const struct json_t *request)
{
	return frontend_of(a) && frontend_of(a)->mpi_request(a->frontends, name, request);
}

static void frontend_end(struct agent *a)
{
	if (frontend_of(a))
		frontend_of(a)->end(a->frontends);
}

void frontend_close(struct agent *a)
{
	if (frontend_of(a))
		a->frontends = frontend_of(a)->close(a->frontends);
}

bool frontend_is_answering(const struct agent *a)
{
	return frontend_of(a) && frontend_of(a)->is_answering(a->frontends);
}

void frontend_not_reexeced(struct agent *a, const struct err *why)
{
	if (frontend_of(a))
		frontend_of(a)->not_reexeced(a->frontends, why);
}

void frontend_save(const struct agent *a, struct handover *h, struct json_t *root)
{
	if (frontend_of(a))
		frontend_of(a)->save(a->frontends, h, handover_put_object(h, root, "methods"));
}

int frontend_restore(
	struct agent *a, const struct handover *h, const struct json_t *object, struct err *err)
{
	return a->options->frontend ? a->options->frontend->restore(a, h, object, err) : 0;
}

/* ---- what an agent begins as, whether it runs a step, adopts one or goes on with its own ---- */

void agent_close_inherited(const struct agent_options *o)
{
	const int retained[] = {o->ready_fd, o->supervisor_fd, o->step_hooks_fd,
		o->listen_fd ? *o->listen_fd : -1, o->log->fd, report_descriptor_of(o->result_file),
		report_descriptor_of(o->sample_file), report_descriptor_of(o->trace_file)};

	process_close_inherited(retained, ARRAY_SIZE(retained));
}

void agent_init(struct agent *a, const struct agent_options *options)
{
	size_t i;

	*a = (struct agent){
		.options = options,
		.log = options->log,
		.start = {.launch = LAUNCH_INIT},
		.mpi = {.service_cgroup_fd = -1},
		.watch = {.signal_fd = -1,
			.container = PRI_WATCH_INIT,
			.member = MEMBER_WATCH_INIT,
			.supervisor = {.fd = options->supervisor_fd}},
		.account = ACCOUNT_INIT,
		.reexec = REEXEC_INIT,
		.origin = {.begin_ns = options->start_ns},
		.ready = {.fd = options->ready_fd},
	};
	for (i = 0; i < AGENT_SPARE_FDS; i++)
		a->start.spare_fd[i] = -1;
	trim_init(&a->trim);
}

struct account_setup agent_account_setup(struct agent *a)
{
	const struct agent_options *o = a->options;

	return (struct account_setup){
		.loop = a->loop,
		.log = a->log,
		.pt = a->pt,
		.job = &a->plan.job,
		.tasks = &a->tasks,
		.events = a->events,
		.label = a->plan.label,
		.begin_ns = a->origin.begin_ns,
		.sample_file = o->sample_file,
		.sample_interval_ms = o->sample_interval_ms,
		.usage_table = o->usage_table,
		.result_has_usage = o->result_file || o->keep_result_ms,
		.on_oom = ending_on_oom,
		.userdata = a,
	};
}

/* ---- set-up: nothing of the step exists yet ------------------------------------------------ */

static int open_plugins(struct agent *a, struct err *err)
{
	const struct spec *spec = a->plan.spec;
	_cleanup_free_ char *dir = NULL;
	const char *note;
	int r;

	r = spec->cgroup_root ? proctrack_set_root(spec->cgroup_root) : 0;
	if (r < 0)
		return err_set(err, r, "set the root '%s'", spec->cgroup_root);
	r = plugin_dir_find(a->options->plugin_dir, &dir, err);
	if (r == 0)
		r = leftover_check(a->registry, dir, a->plan.label, err);
	if (r == 0)
		clean_some(a->options->runtime_dir, registry_get_runtime_fd(a->registry), dir,
			adopt_settle);
	if (r == 0)
		r = proctrack_open_for_step(dir, spec->proctrack, spec_scope_names[spec->scope],
			&a->plan.job, &a->pt, err);
	if (r < 0)
		return r;
	note = proctrack_get_note(a->pt);
	if (note)
		log_warning(a->log, "%s", note);
	/* Batch and extern steps get no MPI hooks: the guide. */
	return spec->kind == STEPD_STEP_NORMAL ? mpi_open(dir, spec->mpi, &a->mpi.host, err) : 0;
}

/* Opens descriptors for the ending early: a launch that runs out of descriptors must still be
 * able to kill and to clean up. */
static int reserve_fds(struct agent *a, struct err *err)
{
	size_t i;

	for (i = 0; i < AGENT_SPARE_FDS; i++) {
		a->start.spare_fd[i] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		if (a->start.spare_fd[i] < 0)
			return err_set(err, -errno,
				"reserve descriptors for the step's end (raise the limit of open "
				"files, ulimit -Hn)");
	}
	return 0;
}

static int agent_prepare(struct agent *a, const struct spec *spec, struct err *err)
{
	uint64_t begin_ns = clock_now_ns();
	int r;

	r = plan_make(spec, &a->plan, err);
	if (r == 0)
		r = process_become_agent(&a->start.saved, err);
	if (r == 0) /* before anything of the step exists that a signal could leave behind */
		r = a->watch.signal_fd = process_catch_signals(err);
	if (r >= 0)
		r = result_check_files(a, err);
	if (r == 0 && a->options->step_hooks)
		r = hooks_open(a->options->step_hooks, a->options->step_hooks_fd, &a->hooks, err);
	if (r == 0)
		r = registry_open(a->options->runtime_dir, &a->plan.job, &a->registry, err);
	failpoint("claimed");
	if (r == 0)
		r = open_plugins(a, err);
	if (r == 0 && tasks_init(&a->tasks, spec->ranks, spec->local_ntasks) < 0)
		r = err_set(err, -ENOMEM, "plan the step");
	if (r < 0)
		return r;
	a->loop = ev_loop_new(EVFLAG_NOENV);
	if (!a->loop)
		return err_set(err, -ENOMEM, "make the event loop");
	r = reserve_fds(a, err);
	if (r == 0)
		r = reexec_init(a, err);
	trace_phase(a->trace, "plan", begin_ns);
	return r;
}

/* ---- the container ------------------------------------------------------------------------- */

static int record_root(struct agent *a, struct err *err)
{
	char root[PATH_MAX];
	int r = proctrack_get_root(a->pt, root, sizeof(root));

	if (r == 0)
		r = registry_set_root(a->registry, root);
	if (r < 0 && r != -EOPNOTSUPP)
		return err_set(err, r, "record where the step's container is");
	return 0;
}

/* Before anything else is in the container. With other trackers the service has only its own
 * limits. */
static int make_service_cgroup(struct agent *a, struct err *err)
{
	int fd;

	if (!a->mpi.host || !mpi_get_env_type(a->mpi.host))
		return 0;
	fd = proctrack_service_fd(a->pt, &a->plan.job, &a->mpi.service_may_clone);
	if (fd < 0 && fd != -EOPNOTSUPP)
		return err_set(err, fd, "make the cgroup of the MPI service process");
	a->mpi.service_cgroup_fd = fd < 0 ? -1 : fd;
	return 0;
}

static int create_container(struct agent *a, struct err *err)
{
	uint64_t begin_ns = clock_now_ns();
	int r;

	/* Recorded before it exists: an agent that dies while creating it leaves a record of the
	 * place. */
	r = record_root(a, err);
	if (r == 0)
		r = registry_store_spec(a->registry, a->plan.spec->text, err);
	if (r == 0)
		r = result_publish(a, agent_state_names[a->state], err);
	if (r == 0)
		r = result_reserve(a, err);
	if (r < 0)
		return r;
	failpoint("described");
	r = proctrack_create(a->pt, &a->plan.job);
	failpoint("contained");
	if (r == -EEXIST)
		return leftover_error(a->plan.label, err);
	if (r < 0 && a->plan.spec->cgroup_root)
		return err_set(err, r,
			"create the step's container with %s below '%s' (cgroup_root: a directory of a "
			"cgroup2 file system that this user may write)",
			proctrack_get_type(a->pt), a->plan.spec->cgroup_root);
	if (r < 0)
		return err_set(err, r,
			"create the step's container with %s ('stepd plugins' shows what it needs)",
			proctrack_get_type(a->pt));
	r = make_service_cgroup(a, err);
	if (r < 0)
		return r;
	r = result_publish(a, agent_state_names[a->state], err);
	failpoint("published");
	trace_phase(a->trace, "container", begin_ns);
	return r;
}

/* From now on requests are served. */
static int open_socket(struct agent *a, struct err *err)
{
	uint64_t begin_ns = clock_now_ns();
	int r;

	r = events_open(registry_get_dirfd(a->registry), false, a->log, &a->events, err);
	if (r < 0)
		return r;
	events_reserve(a->events, a->tasks.n);
	events_set_readers(a->events, a->plan.job.uid, a->options->operator_gid);
	r = frontend_open(a, err);
	failpoint("listening");
	trace_phase(a->trace, "socket", begin_ns);
	return r;
}

/* While nothing runs in it: every process is limited from its first instruction on. */
static int apply_limits(struct agent *a, struct err *err)
{
	const struct spec *spec = a->plan.spec;
	uint64_t begin_ns = clock_now_ns();
	int r;

	if (!limits_are_given(spec))
		return 0;
	r = limits_apply_spec(spec, a->pt, a->plan.job.cont_id, a->log, err);
	trace_phase(a->trace, "limits", begin_ns);
	return r;
}

/* ---- during the launch --------------------------------------------------------------------- */

static void agent_on_readable(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	assert(w->data);
	*(bool *)w->data = true;
	ev_break(loop, EVBREAK_ONE);
}

static void agent_on_too_long(struct ev_loop *loop, _unused_ ev_timer *w, _unused_ int revents)
{
	ev_break(loop, EVBREAK_ONE);
}

bool agent_serve_meanwhile(struct agent *a, int fd, uint64_t limit_ms)
{
	bool readable = false;
	ev_timer limit;
	ev_io io;

	ev_io_stop(a->loop, &a->watch.signal_io);
	supervisor_line_pause(&a->watch.supervisor, true);
	ev_io_init(&io, agent_on_readable, fd, EV_READ);
	io.data = &readable;
	ev_timer_init(&limit, agent_on_too_long, (double)limit_ms / 1e3, 0.);
	if (fd >= 0)
		ev_io_start(a->loop, &io);
	ev_now_update(a->loop);
	if (limit_ms != AGENT_NO_LIMIT)
		ev_timer_start(a->loop, &limit);
	ev_run(a->loop, fd >= 0 ? 0 : EVRUN_NOWAIT);
	ev_timer_stop(a->loop, &limit);
	ev_io_stop(a->loop, &io);
	ev_io_start(a->loop, &a->watch.signal_io);
	supervisor_line_pause(&a->watch.supervisor, false);
	return readable;
}

/* ---- launch -------------------------------------------------------------------------------- */

static void warn_of_sharing(const struct agent *a)
{
	const struct spec *spec = a->plan.spec;
	const char *type = bind_cpu_names[spec->cpu_bind.how];
	uint32_t cpus = 0;

	if (spec->cpu_bind.quiet || !binding_is_shared(spec, &a->plan.binding, &cpus))
		return;
	log_warning(a->log,
		"%u tasks of %u CPU%s each are bound to %u CPU%s: some share theirs "
		"(--cpu-bind=quiet,%s takes this for granted)",
		spec->local_ntasks, spec->cpus_per_task ? spec->cpus_per_task : 1,
		spec->cpus_per_task > 1 ? "s" : "", cpus, cpus == 1 ? "" : "s", type);
}

/* The memory for reading the topology is freed before the first fork. */
static int make_binding(struct agent *a, struct err *err)
{
	_cleanup_binding_bounds_ struct binding_bounds bounds = {0};
	_cleanup_close_ int cgroup_fd = -1;
	uint64_t begin_ns = clock_now_ns();
	int r;

	if (!binding_is_wanted(a->plan.spec))
		return 0;
	cgroup_fd = proctrack_clone_fd(a->pt, &a->plan.job, 0);
	if (cgroup_fd < 0 && cgroup_fd != -EOPNOTSUPP)
		return err_set(err, cgroup_fd, "make the container of task 0");
	r = binding_bounds_read(cgroup_fd, &bounds, err);
	if (r == 0)
		r = binding_make(a->plan.spec, &bounds, &a->plan.id, &a->plan.binding, err);
	if (r == 0 && plan_record_binding(&a->plan) < 0)
		r = err_set(err, -ENOMEM, "bind the tasks");
	if (r == 0)
		warn_of_sharing(a);
	trace_phase(a->trace, "binding", begin_ns);
	return r;
}

static int run_prefork(struct agent *a, struct err *err)
{
	uint64_t begin_ns = clock_now_ns();
	int r;

	r = plan_make_environ(&a->plan, a->mpi.host ? mpi_get_env_type(a->mpi.host) : NULL, err);
	if (r < 0 || !a->mpi.host)
		return r;
	r = mpi_link_prefork(a, err);
	trace_phase(a->trace, "mpi hook", begin_ns);
	return r;
}

/* A task's oom_score_adj: the spec's, or the agent's before it protected itself. */
static const char *task_oom_score_adj(struct agent *a)
{
	struct process_saved *saved = &a->start.saved;

	if (a->plan.spec->oom_score_adj_given)
		(void)snprintf(saved->oom_score_adj, sizeof(saved->oom_score_adj), "%d",
			a->plan.spec->oom_score_adj);
	return saved->oom_score_adj[0] ? saved->oom_score_adj : NULL;
}

static void go_on_meanwhile(int fd, void *userdata)
{
	(void)agent_serve_meanwhile(userdata, fd, AGENT_NO_LIMIT); /* fd is readable, or none */
}

void agent_report_start(const struct agent *a, const struct task *task)
{
	struct event event = EVENT_INIT(EVENT_TASK_START);

	event.rank = task->rank;
	event.pid = task->pid;
	events_add(a->events, &event);
}

static int open_launch(struct agent *a, struct err *err)
{
	struct launch *l = &a->start.launch;

	l->setup.plan = &a->plan;
	l->setup.mpi = a->mpi.host && mpi_has_task_hook(a->mpi.host) ? a->mpi.host : NULL;
	l->setup.hooks = a->hooks;
	l->setup.nofile = &a->start.saved.nofile;
	l->setup.oom_score_adj = task_oom_score_adj(a);
	l->setup.lock_fd = registry_get_lock_fd(a->registry);
	l->setup.traced = a->trace != NULL;
	l->agent_fds = a->start.spare_fd;
	l->agent_fds_count = AGENT_SPARE_FDS;
	l->meanwhile = go_on_meanwhile;
	l->userdata = a;
	return launch_open(l, a->pt, a->plan.spec->hold || a->hooks, err);
}

static int wait_for_mpi(struct agent *a, struct err *err)
{
	uint64_t begin_ns = clock_now_ns();
	int r;

	if (a->plan.job.service_pid == 0)
		return 0;
	r = mpi_link_wait(a, err);
	trace_phase(a->trace, "mpi wait", begin_ns);
	return r;
}

static int fork_tasks(struct agent *a, struct err *err)
{
	_cleanup_free_ pid_t *pids = calloc(a->tasks.n, sizeof(*pids));
	uint64_t begin_ns = clock_now_ns();
	sigset_t all, saved;
	uint32_t i;
	int r;

	if (!pids)
		return err_set(err, -ENOMEM, "fork the tasks");
	a->origin.recover.forked.least = fork_ticks_now();
	a->start.launch.io = a->stdio;
	/* A child inherits the mask and unblocks all at the end: until its exec none of the
	 * agent's handlers runs in it, and SIGPIPE does not end it. */
	(void)sigfillset(&all); /* can't fail, nor can the two calls with valid arguments */
	(void)sigprocmask(SIG_SETMASK, &all, &saved);
	/* A task that runs may request copies of a stream that has not reached the agent yet. */
	if (stdio_carries(a->stdio))
		mpi_link_pause(a, true);
	r = launch_fork_all(&a->start.launch, pids, err);
	hooks_after_forks(a->hooks);
	if (stdio_carries(a->stdio))
		mpi_link_pause(a, false);
	(void)sigprocmask(SIG_SETMASK, &saved, NULL);
	mpi_link_forked(a);
	a->origin.recover.forked.most = fork_ticks_now();
	/* Only now: each page that the agent writes to between two forks would be copied. */
	events_begin(a->events);
	for (i = 0; i < a->tasks.n && pids[i] > 0; i++) {
		tasks_started(&a->tasks, i, pids[i], begin_ns);
		agent_report_start(a, &a->tasks.v[i]);
	}
	events_end(a->events);
	mpi_link_tasks_started(a, 0, i);
	trace_phase(a->trace, "fork", begin_ns);
	for (i = 0; r == 0 && i < a->tasks.n; i++)
		r = hooks_task_forked(a->hooks, &a->plan, i, err);
	if (r < 0)
		return r;
	failpoint("forked");
	a->start.release_ns = clock_now_ns();
	r = launch_release(&a->start.launch, err);
	failpoint("released");
	trace_phase(a->trace, "release", a->start.release_ns);
	return r;
}

/* It has no task. */
static int launch_extern(struct agent *a, struct err *err)
{
	int r = hooks_begin(a->hooks, &a->plan, err);

	return r == 0 ? hooks_extern_started(a->hooks, &a->plan, err) : r;
}

static int launch(struct agent *a, struct err *err)
{
	const struct spec *spec = a->plan.spec;
	int r = 0;

	if (spec->kind == STEPD_STEP_EXTERN)
		return launch_extern(a, err);
	if (spec->kind == STEPD_STEP_BATCH)
		r = plan_store_script(&a->plan, a->registry, err);
	if (r == 0) {
		r = open_launch(a, err);
		if (r == 0)
			r = hooks_begin(a->hooks, &a->plan, err);
		if (r == 0)
			r = wait_for_mpi(a, err);
		if (r == 0)
			r = process_narrow_terminals(&a->plan.id, err);
		if (r == 0)
			r = stdio_open(spec, &a->plan.id, a->plan.cwd, a->plan.umask, a->loop,
				a->log, &a->stdio, err);
		if (r == 0)
			r = process_new_keyring(&a->plan.id, err);
		if (r == 0)
			r = hooks_before_tasks(a->hooks, &a->plan, err);
		if (r == 0)
			r = fork_tasks(a, err);
	}
	return r;
}

/* ---- the step's life ----------------------------------------------------------------------- */

void agent_settle(struct agent *a)
{
	enum spec_lock lock = a->plan.spec->lock_memory;
	int r = lock != SPEC_LOCK_NONE ? trim_and_lock(lock == SPEC_LOCK_ALL) : 0;

	if (r < 0)
		log_warning(a->log, "the agent's memory is not locked: %s", strerror(-r));
	trim_start(&a->trim, a->loop);
}

static void supervise(struct agent *a)
{
	a->state = AGENT_RUNNING;
	a->origin.recover.running_ns = clock_now_ns();
	if (a->stdio) {
		stdio_start(a->stdio);
		stdio_hold(a->stdio, registry_get_dirfd(a->registry), a->plan.label);
		a->plan.job.holder_pid = stdio_get_holder(a->stdio);
	}
	ending_started(a);
	account_started(&a->account);
	result_publish_state(a, agent_state_names[a->state]);
	failpoint("running");
	result_send_ready(a);
	frontend_ready(a);
	service_notify_state(a);
	ending_check(a); /* a container that was empty before it was watched reports nothing */
	reexec_go_on(a);
	agent_settle(a);
	ev_run(a->loop, 0);
}

/* Processes forked before the failure must end, and be reaped. */
static void abort_launch(struct agent *a)
{
	mpi_link_forked(a); /* else the service waits for tasks that never come */
	a->state = AGENT_RUNNING;
	ending_kill(a, AGENT_REASON_LAUNCH);
	/* Only then: a held task that sees its agent gone ends by itself, with a status of its own.
	 */
	launch_close(&a->start.launch);
	if (a->state != AGENT_ENDED)
		ev_run(a->loop, 0);
}

static void agent_release_fds(struct agent *a)
{
	size_t i;

	for (i = 0; i < AGENT_SPARE_FDS; i++)
		a->start.spare_fd[i] = close_fd(a->start.spare_fd[i]);
}

static int run_step(struct agent *a, struct err *err)
{
	const struct account_setup setup = agent_account_setup(a);
	int r;

	r = ending_watch(a, err);
	if (r == 0)
		r = account_open(&a->account, &setup, err);
	if (r == 0)
		r = launch(a, err);
	agent_release_fds(a);
	if (r == 0) {
		supervise(a);
		return 0;
	}
	a->end.failure = *err;
	abort_launch(a);
	return r;
}

/* ---- the step's last minute, however it began here ----------------------------------------- */

/* Only the container existed. */
void agent_note_failure(struct agent *a, const struct err *err)
{
	a->end.failure = *err;
	a->reason = AGENT_REASON_LAUNCH;
	a->state = AGENT_ENDED;
	a->end.time_ns = clock_now_ns();
}

/* The dead agent's MPI service process ends by itself, once no process of the step is left. If
 * not it gets SIGTERM, then SIGKILL. */
#define SERVICE_END_MS 1000 /* by itself, by SIGTERM, by SIGKILL */

static bool has_ended(const struct pidref *ref, int timeout_ms)
{
	struct pollfd end = {.fd = ref->fd, .events = POLLIN};
	int n;

	do
		n = poll(&end, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

static void end_service_of_dead_agent(struct agent *a)
{
	const struct recover_service service = a->origin.recover.service;
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	int r;

	a->origin.recover.service = (struct recover_service){.pid = 0};
	if (!service.pid)
		return;
	r = pidref_open(service.pid, service.start_ticks, &ref);
	if (r < 0 && r != -ESRCH)
		log_warning(a->log,
			"can't find the MPI service process of the dead agent (pid %d): %s",
			(int)service.pid, strerror(-r));
	if (r < 0 || has_ended(&ref, SERVICE_END_MS))
		return;
	if (pidref_signal(&ref, SIGTERM) == -ESRCH || has_ended(&ref, SERVICE_END_MS))
		return;
	log_warning(a->log,
		"the MPI service process of the dead agent (pid %d) does not end: killing it",
		(int)service.pid);
	if (pidref_signal(&ref, SIGKILL) < 0 || !has_ended(&ref, SERVICE_END_MS))
		log_error(a->log, "SIGKILL did not end the MPI service process (pid %d)",
			(int)service.pid);
}

static void remove_container(struct agent *a)
{
	int r;

	if (!a->plan.job.cont_id)
		return;
	r = proctrack_destroy(a->pt, a->plan.job.cont_id);
	/* ESRCH: it is gone, for example because systemd has removed its scope, which this agent
	 * is not in. */
	if (r < 0 && r != -ESRCH)
		log_warning(a->log, "can't remove the step's container: %s; 'stepctl clean' can",
			strerror(-r));
}

static void write_reports(struct agent *a)
{
	const char *trace_file = a->options->trace_file;
	struct err err = ERR_INIT;

	if (a->state == AGENT_ENDED && result_store(a, &err) < 0)
		log_error(a->log, "%s", err.text);
	if (a->state == AGENT_ENDED && result_write(a, &err) < 0)
		log_error(a->log, "%s", err.text);
	if (a->reason != AGENT_REASON_LAUNCH)
		account_report(&a->account, a->end.time_ns);
	if (a->trace && trace_write(a->trace, trace_file, a->plan.label, &err) < 0)
		log_error(a->log, "%s", err.text);
}

static void agent_clear(struct agent *a)
{
	reexec_clear(a);
	a->stdio = stdio_free(a->stdio);
	agent_release_fds(a);
	result_drop_ready(a);
	if (a->loop) {
		mpi_link_close(a);
		account_close(&a->account);
		a->origin.exits = exit_watch_close(a->origin.exits);
		ending_unwatch(a);
		frontend_close(a);
		trim_stop(&a->trim, a->loop);
		ev_loop_destroy(a->loop);
	}
	a->events = events_close(a->events);
	added_clear(&a->origin.added);
	launch_close(&a->start.launch);
	a->mpi.host = mpi_close(a->mpi.host);
	if (a->end.unkillable && a->registry) {
		/* The administrator must be able to find them: 'stepctl pids' still lists them.
		 */
		result_publish_state(a, "unkillable");
		a->registry = registry_leave(a->registry);
	}
	a->mpi.service_cgroup_fd = close_fd(a->mpi.service_cgroup_fd);
	a->pt = proctrack_close(a->pt);
	failpoint("leaving");
	if (a->result_stored)
		a->registry = registry_retire(a->registry);
	a->registry = registry_close(a->registry);
	a->trace = trace_free(a->trace);
	tasks_clear(&a->tasks);
	plan_clear(&a->plan);
	free(a->end.unkillable_text);
	supervisor_line_close(&a->watch.supervisor);
	a->watch.signal_fd = close_fd(a->watch.signal_fd);
}

int agent_finish(struct agent *a, int r, int *ret_code, const struct err *err)
{
	agent_release_fds(a);
	if (a->loop)
		mpi_link_close(a); /* after a failed launch: it is in the container */
	if (a->origin.recover.adopted)
		end_service_of_dead_agent(a);
	a->hooks = hooks_end(a->hooks, &a->plan);
	remove_container(a);
	failpoint("removed");
	write_reports(a);
	failpoint("result");
	if (r < 0)
		a->end.failure = *err;
	frontend_end(a);
	failpoint("client-notified");
	service_notify_end(a);
	result_end_ready(a);
	if (r == 0)
		*ret_code = agent_exit_code(a);
	agent_clear(a);
	return r;
}

/* ---- the whole ----------------------------------------------------------------------------- */

int agent_run(const struct spec *spec, const struct agent_options *options, int *ret_code,
	struct err *err)
{
	struct agent a;
	int r;

	agent_close_inherited(options);
	agent_init(&a, options);
	if (options->trace_file) {
		a.trace = trace_new(options->start_ns);
		trace_phase(a.trace, "spec", options->start_ns);
	}
	r = agent_prepare(&a, spec, err);
	if (r == 0)
		r = create_container(&a, err);
	if (r == 0)
		r = apply_limits(&a, err);
	if (r == 0)
		r = make_binding(&a, err);
	/* As early as possible: the MPI service process gets ready in parallel. */
	if (r == 0)
		r = run_prefork(&a, err);
	if (r == 0)
		r = open_socket(&a, err);
	if (r == 0)
		r = run_step(&a, err);
	else if (a.plan.job.cont_id)
		agent_note_failure(&a, err);
	return agent_finish(&a, r, ret_code, err);
}
