/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/service.h"

#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "mpi/pmi2/tcp.h"

/* ---- what the server needs ----------------------------------------------------------------- */

static uint64_t now_ms(void *userdata)
{
	struct timespec now;

	(void)userdata;
	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* always there */
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int fence(void *userdata, const struct wire_set *set, const struct iovec *iov, int iovcnt,
	wire_fence_fn done, void *data, struct err *err)
{
	struct service *s = userdata;

	return wire_fence(serve_get_wire(s->serve), set, iov, iovcnt,
		serve_get_host(s->serve)->timeout_ms, done, data, err);
}

static int fence_abandon(void *userdata, const struct wire_set *set, const char *why,
	wire_fence_fn done, void *data, struct err *err)
{
	struct service *s = userdata;

	return wire_fence_abandon(serve_get_wire(s->serve), set,
		serve_get_host(s->serve)->timeout_ms, why, done, data, err);
}

static int fence_fail(void *userdata, const struct wire_set *set, const char *why)
{
	struct service *s = userdata;

	return wire_fence_fail(serve_get_wire(s->serve), set, why);
}

static int send_to(void *userdata, uint32_t node, uint16_t channel, const struct iovec *iov,
	int iovcnt, struct err *err)
{
	struct service *s = userdata;

	return wire_send(serve_get_wire(s->serve), node, channel, iov, iovcnt, err);
}

static int broadcast(
	void *userdata, uint16_t channel, const struct iovec *iov, int iovcnt, struct err *err)
{
	struct service *s = userdata;

	return wire_broadcast(serve_get_wire(s->serve), channel, iov, iovcnt, err);
}

static int spawn(void *userdata, uint32_t parent, const struct spawn_request *request,
	spawn_done_fn done, void *data, struct err *err)
{
	struct service *s = userdata;

	return spawn_start(s->serve, parent, request, done, data, err);
}

static void do_abort(void *userdata, int code, const char *text)
{
	struct service *s = userdata;

	serve_abort(s->serve, code, text);
}

static void do_log(void *userdata, enum log_level level, const char *text)
{
	struct service *s = userdata;

	serve_log(s->serve, level, "%s", text);
}

static const struct pmi_ops ops = {
	.now_ms = now_ms,
	.attend = door_attend,
	.fence = fence,
	.fence_abandon = fence_abandon,
	.fence_fail = fence_fail,
	.send = send_to,
	.broadcast = broadcast,
	.spawn = spawn,
	.abort = do_abort,
	.log = do_log,
};

/* ---- events -------------------------------------------------------------------------------- */

static void on_task_exit(void *userdata, uint32_t rank, int wait_status, bool end_step)
{
	struct service *s = userdata;
	struct pmi_task *task = pmi_find_task(s->pmi, rank);
	struct door *door = task ? pmi_get_data(task) : NULL;
	char how[64] = "has ended";

	if (!task)
		return;
	if (WIFSIGNALED(wait_status))
		(void)snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(wait_status));
	else if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0)
		(void)snprintf(how, sizeof(how), "has ended with exit status %d",
			WEXITSTATUS(wait_status));
	/* What it has said last counts. A child that it left has the descriptor perhaps, but is no
	 * rank. */
	while (door && door_read(door) > 0)
		;
	if (end_step && pmi_leaves_others(task))
		serve_abort_died(s->serve, rank, wait_status);
	door = pmi_get_data(task);
	if (door)
		door_hang_up(door, how);
	else
		pmi_hung_up(task, how);
}

static void on_missing(void *userdata, uint64_t set_id, char *text, size_t size)
{
	pmi_missing(((struct service *)userdata)->pmi, set_id, text, size);
}

static void on_message(
	void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	pmi_message(((struct service *)userdata)->pmi, from, channel, block);
}

static void on_lost(void *userdata, uint32_t node, const struct err *err)
{
	pmi_lost(((struct service *)userdata)->pmi, node, err);
}

static bool on_spoken(void *userdata)
{
	return pmi_has_spoken(((struct service *)userdata)->pmi);
}

static const struct serve_events serve_events = {
	.task_exit = on_task_exit,
	.missing = on_missing,
	.message = on_message,
	.lost = on_lost,
	.spoken = on_spoken,
};

/* The next deadline, before the loop waits. */
static void on_prepare(struct ev_loop *loop, ev_prepare *prepare, int revents)
{
	struct service *s = prepare->data;
	uint64_t next_ms = pmi_next_ms(s->pmi), now = next_ms ? now_ms(s) : 0;

	(void)revents;
	ev_timer_stop(loop, &s->timer);
	if (next_ms == 0)
		return;
	ev_timer_set(&s->timer, next_ms > now ? (double)(next_ms - now) / 1000 : 0, 0);
	ev_timer_start(loop, &s->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)loop;
	(void)revents;
	pmi_expire(((struct service *)timer->data)->pmi);
}

/* ---- spawned tasks ------------------------------------------------------------------------- */

static int hand_out_tcp(const struct service *s, const struct spawn_part *part)
{
	char id[TCP_ID_SIZE];
	uint32_t i;
	int r;

	if (!s->tcp)
		return 0;
	r = spawn_environ(part, -1, "PMI_PORT", tcp_get_port(s->tcp));
	for (i = 0; i < part->local_count && r == 0; i++) {
		r = tcp_admit(s->tcp, pmi_get_task(s->pmi, part->number, i), id);
		if (r == 0)
			r = spawn_environ(part, i, "PMI_ID", id);
	}
	return r;
}

static int on_spawn_prepare(void *userdata, const struct spawn_part *part, struct err *err)
{
	_cleanup_free_ uint32_t *appnums = calloc(part->local_count + 1, sizeof(*appnums));
	struct service *s = userdata;
	struct pmi_layout layout = {.number = part->number,
		.first_rank = part->first_rank,
		.size = part->size,
		.nodes = part->nodes,
		.local_count = part->local_count,
		.ranks = part->ranks,
		.appnums = appnums,
		.parent = part->parent,
		.preput = part->data,
		.preput_size = part->data_size};
	uint32_t i;
	int r;

	if (!appnums)
		return err_set(err, -ENOMEM, "PMI: make room for %u tasks", part->size);
	for (i = 0; i < part->local_count; i++)
		appnums[i] = part->commands[part->ranks[i]];
	r = pmi_add_space(s->pmi, &layout, err);
	if (r < 0)
		return r;
	r = hand_out_tcp(s, part);
	if (r < 0) {
		pmi_remove_space(s->pmi, part->number);
		return err_set(err, r, "PMI: hand out PMI_PORT");
	}
	return 0;
}

static void on_spawn_started(void *userdata, const struct spawn_part *part, const int *fds)
{
	struct service *s = userdata;
	struct pmi_task *task;
	uint32_t i;

	for (i = 0; i < part->local_count; i++) {
		task = pmi_get_task(s->pmi, part->number, i);
		/* A failure hangs up, as a task's end would. */
		if (fds[i] >= 0 && task && door_open(s, task, fds[i]) < 0)
			pmi_hung_up(task, "has no room in the service");
	}
}

static void on_spawn_failed(void *userdata, const struct spawn_part *part)
{
	struct service *s = userdata;
	struct pmi_task *task;
	uint32_t i;

	for (i = 0; i < part->local_count; i++) {
		task = pmi_get_task(s->pmi, part->number, i);
		if (task && pmi_get_data(task))
			door_close(pmi_get_data(task));
	}
	pmi_remove_space(s->pmi, part->number);
}

static const struct spawn_events spawn_events = {
	.prepare = on_spawn_prepare,
	.started = on_spawn_started,
	.failed = on_spawn_failed,
};

/* ---- its life ------------------------------------------------------------------------------ */

static int add_step(struct service *s, const stepd_step_rec_t *job, struct err *err)
{
	_cleanup_free_ uint32_t *ranks = calloc(job->node_tasks + 1, sizeof(*ranks));
	_cleanup_free_ uint32_t *appnums = calloc(job->node_tasks + 1, sizeof(*appnums));
	struct pmi_layout layout = {.size = job->ntasks,
		.nodes = job->rank_nodes,
		.local_count = job->node_tasks,
		.ranks = ranks,
		.appnums = appnums,
		.parent = -1};
	uint32_t i;

	if (!ranks || !appnums)
		return err_set(err, -ENOMEM, "PMI: make room for %u tasks", job->ntasks);
	for (i = 0; i < job->node_tasks; i++) {
		ranks[i] = job->task[i].gtid;
		appnums[i] = job->task[i].appnum;
	}
	return pmi_add_space(s->pmi, &layout, err);
}

/* Each task's descriptor, or where to connect to. */
static int open_doors(struct service *s, const stepd_mpi_service_t *start, struct err *err)
{
	char id[TCP_ID_SIZE];
	uint32_t i;
	int r = 0;

	if (start->task_fd) {
		for (i = 0; i < start->job->node_tasks && r == 0; i++)
			r = door_open(s, pmi_get_task(s->pmi, 0, i), start->task_fd[i]);
		return r < 0 ? err_set(err, r, "PMI: serve the tasks") : 0;
	}
	r = tcp_open(s, &s->tcp, err);
	if (r == 0)
		r = serve_environ(s->serve, -1, "PMI_PORT", tcp_get_port(s->tcp), err);
	for (i = 0; i < start->job->node_tasks && r == 0; i++) {
		r = tcp_admit(s->tcp, pmi_get_task(s->pmi, 0, i), id);
		if (r < 0)
			return err_set(err, r, "PMI: draw a PMI_ID");
		r = serve_environ(s->serve, i, "PMI_ID", id, err);
	}
	return r;
}

static int open_service(struct service *s, const stepd_mpi_service_t *start, struct err *err)
{
	const stepd_step_rec_t *job = start->job;
	char label[64];
	struct pmi_config config = {.label = label,
		.node_name = job->node_name,
		.node = job->nodeid,
		.node_count = job->nnodes,
		.universe_size = job->ntasks,
		.timeout_ms = job->mpi_host->timeout_ms};
	int r;

	(void)snprintf(label, sizeof(label), "%u.%s", job->job_id, job->step_name);
	r = serve_open(start, &serve_events, s, &s->serve, err);
	if (r < 0)
		return r;
	s->loop = serve_get_loop(s->serve);
	ev_prepare_init(&s->prepare, on_prepare);
	ev_timer_init(&s->timer, on_timer, 0, 0);
	s->prepare.data = s->timer.data = s;
	r = pmi_new(&config, &ops, s, &s->pmi, err);
	if (r == 0)
		r = add_step(s, job, err);
	if (r == 0)
		r = open_doors(s, start, err);
	if (r < 0)
		return r;
	ev_prepare_start(s->loop, &s->prepare);
	spawn_set_events(s->serve, &spawn_events, s);
	return 0;
}

static void close_service(struct service *s)
{
	struct door *door;

	while ((door = TAILQ_FIRST(&s->doors)))
		door_close(door);
	s->tcp = tcp_close(s->tcp);
	/* What waits for other nodes is told of their loss, and needs the server for it. */
	s->serve = serve_close(s->serve);
	s->pmi = pmi_free(s->pmi);
}

int service_main(const stepd_mpi_service_t *start)
{
	struct service s = {.doors = TAILQ_HEAD_INITIALIZER(s.doors)};
	struct err err = ERR_INIT;
	int status;

	if (open_service(&s, start, &err) < 0)
		status = serve_fail(start, &err);
	else
		status = serve_run(s.serve);
	close_service(&s);
	return status;
}
