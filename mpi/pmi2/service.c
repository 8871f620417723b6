/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The service process of mpi/pmi2: descriptors, events and time.
 */
#include "mpi/pmi2/service.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "mpi/pmi2/tcp.h"
#include "stepd/base/clock.h"

/* ---- conversations' descriptors ------------------------------------------------------------- */

#define READ_SIZE 8192u /* on the stack, which is cleared for it: most messages have 100 bytes */

static void endpoint_close(struct endpoint *endpoint)
{
	struct service *s = endpoint->service;

	ev_io_stop(s->loop, &endpoint->readable);
	ev_io_stop(s->loop, &endpoint->writable);
	TAILQ_REMOVE(&s->endpoints, endpoint, link);
	endpoint->task->endpoint = NULL;
	endpoint->fd = close_fd(endpoint->fd);
	free(endpoint);
	serve_count(s->serve, -1);
}

/* The other end is closed. Over TCP the task's next program may connect again, but with how. */
static void endpoint_hang_up(struct endpoint *endpoint, const char *how)
{
	struct pmi_task *task = endpoint->task;
	bool is_final = !endpoint->service->tcp || how || pmi_is_initialized(task);

	endpoint_close(endpoint);
	if (is_final)
		pmi_hung_up(task, how);
}

/* False: the endpoint is closed. */
static bool endpoint_flush(struct endpoint *endpoint)
{
	struct slice out = pmi_output(endpoint->task);
	ssize_t n;

	while (out.size > 0) {
		n = send(endpoint->fd, out.data, out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			endpoint_hang_up(endpoint, NULL);
			return false;
		}
		if (n < 0)
			break;
		pmi_written(endpoint->task, (size_t)n);
		out = pmi_output(endpoint->task);
	}
	return true;
}

/* As pmi_ops has it; the userdata is the service. */
static void endpoint_attend(void *userdata, struct pmi_task *task)
{
	struct endpoint *endpoint = task->endpoint;
	struct service *s = userdata;

	if (!endpoint || !endpoint_flush(endpoint))
		return;
	if (pmi_output(task).size > 0)
		ev_io_start(s->loop, &endpoint->writable);
	else
		ev_io_stop(s->loop, &endpoint->writable);
	if (pmi_has_ended(task) && pmi_output(task).size == 0)
		endpoint_close(endpoint);
	else if (pmi_is_full(task) || pmi_has_ended(task))
		ev_io_stop(s->loop, &endpoint->readable);
	else
		ev_io_start(s->loop, &endpoint->readable);
}

/* One read. 1: there was something; 0: there is nothing now; -1: the endpoint is closed. */
static int endpoint_read(struct endpoint *endpoint)
{
	struct pmi_task *task = endpoint->task;
	char data[READ_SIZE];
	ssize_t n;

	n = recv(endpoint->fd, data, sizeof(data), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		endpoint_hang_up(endpoint, NULL);
		return -1;
	}
	pmi_input(task, data, (size_t)n);
	return task->endpoint == endpoint ? 1 : -1;
}

static void on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	(void)endpoint_read(io->data);
}

static void on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct endpoint *endpoint = io->data;

	endpoint_attend(endpoint->service, endpoint->task);
}

int endpoint_open(struct service *s, struct pmi_task *task, int fd)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));

	if (!endpoint) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	*endpoint = (struct endpoint){.service = s, .task = task, .fd = fd};
	ev_io_init(&endpoint->readable, on_readable, fd, EV_READ);
	ev_io_init(&endpoint->writable, on_writable, fd, EV_WRITE);
	endpoint->readable.data = endpoint->writable.data = endpoint;
	ev_io_start(s->loop, &endpoint->readable);
	TAILQ_INSERT_TAIL(&s->endpoints, endpoint, link);
	task->endpoint = endpoint;
	serve_count(s->serve, 1);
	return 0;
}

/* ---- what the server needs ----------------------------------------------------------------- */

static uint64_t now_ms(_unused_ void *userdata)
{
	return (uint64_t)clock_now_ms();
}

static const struct pmi_ops ops = {
	.now_ms = now_ms,
	.attend = endpoint_attend,
};

/* ---- events -------------------------------------------------------------------------------- */

static void on_task_exit(void *userdata, uint32_t rank, int wait_status, bool end_step)
{
	struct service *s = userdata;
	struct pmi_task *task = pmi_find_task(s->pmi, rank);
	struct endpoint *endpoint = task ? task->endpoint : NULL;
	char how[64] = "has ended";

	if (!task)
		return;
	if (WIFSIGNALED(wait_status))
		(void)snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(wait_status));
	else if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0)
		(void)snprintf(how, sizeof(how), "has ended with exit status %d",
			WEXITSTATUS(wait_status));
	/* Its last messages count. A child that it left has the descriptor perhaps, but is no
	 * rank. */
	while (endpoint && endpoint_read(endpoint) > 0)
		;
	if (end_step && pmi_leaves_others(task))
		serve_abort_died(s->serve, rank, wait_status);
	endpoint = task->endpoint;
	if (endpoint)
		endpoint_hang_up(endpoint, how);
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

static bool on_had_client(void *userdata)
{
	return ((struct service *)userdata)->pmi->had_client;
}

static const struct serve_events serve_events = {
	.task_exit = on_task_exit,
	.missing = on_missing,
	.message = on_message,
	.lost = on_lost,
	.had_client = on_had_client,
};

/* The next deadline, before the loop waits. */
static void on_prepare(struct ev_loop *loop, ev_prepare *prepare, _unused_ int revents)
{
	struct service *s = prepare->data;
	uint64_t next_ms = pmi_next_ms(s->pmi), now = next_ms ? now_ms(s) : 0;

	ev_timer_stop(loop, &s->timer);
	if (next_ms == 0)
		return;
	ev_timer_set(&s->timer, next_ms > now ? (double)(next_ms - now) / 1000 : 0, 0);
	ev_timer_start(loop, &s->timer);
}

static void on_timer(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	pmi_expire(((struct service *)timer->data)->pmi);
}

/* ---- spawned tasks ------------------------------------------------------------------------- */

static int set_tcp_environ(const struct service *s, const struct spawn_part *part)
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
		return err_set(err, -ENOMEM, "PMI: add a space of %u tasks", part->size);
	for (i = 0; i < part->local_count; i++)
		appnums[i] = part->commands[part->ranks[i]];
	r = pmi_add_space(s->pmi, &layout, err);
	if (r < 0)
		return r;
	r = set_tcp_environ(s, part);
	if (r < 0) {
		pmi_remove_space(s->pmi, part->number);
		return err_set(err, r, "PMI: set PMI_PORT");
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
		if (fds[i] >= 0 && task && endpoint_open(s, task, fds[i]) < 0)
			pmi_hung_up(task, "has no memory in the service");
	}
}

static void on_spawn_failed(void *userdata, const struct spawn_part *part)
{
	struct service *s = userdata;
	struct pmi_task *task;
	uint32_t i;

	for (i = 0; i < part->local_count; i++) {
		task = pmi_get_task(s->pmi, part->number, i);
		if (task && task->endpoint)
			endpoint_close(task->endpoint);
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
		return err_set(err, -ENOMEM, "PMI: add a space of %u tasks", job->ntasks);
	for (i = 0; i < job->node_tasks; i++) {
		ranks[i] = job->task[i].gtid;
		appnums[i] = job->task[i].appnum;
	}
	return pmi_add_space(s->pmi, &layout, err);
}

/* Each task's descriptor, or where to connect to. */
static int open_endpoints(struct service *s, const stepd_mpi_service_t *start, struct err *err)
{
	char id[TCP_ID_SIZE];
	uint32_t i;
	int r = 0;

	if (start->task_fd) {
		for (i = 0; i < start->job->node_tasks && r == 0; i++)
			r = endpoint_open(s, pmi_get_task(s->pmi, 0, i), start->task_fd[i]);
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
	config.serve = s->serve;
	s->loop = serve_get_loop(s->serve);
	ev_prepare_init(&s->prepare, on_prepare);
	ev_timer_init(&s->timer, on_timer, 0, 0);
	s->prepare.data = s->timer.data = s;
	r = pmi_new(&config, &ops, s, &s->pmi, err);
	if (r == 0)
		r = add_step(s, job, err);
	if (r == 0)
		r = open_endpoints(s, start, err);
	if (r < 0)
		return r;
	ev_prepare_start(s->loop, &s->prepare);
	spawn_set_events(s->serve, &spawn_events, s);
	return 0;
}

static void close_service(struct service *s)
{
	struct endpoint *endpoint;

	while ((endpoint = TAILQ_FIRST(&s->endpoints)))
		endpoint_close(endpoint);
	s->tcp = tcp_close(s->tcp);
	/* What waits for other nodes ends with an error, and needs the server for it. */
	s->serve = serve_close(s->serve);
	s->pmi = pmi_free(s->pmi);
}

int service_main(const stepd_mpi_service_t *start)
{
	struct service s = {.endpoints = TAILQ_HEAD_INITIALIZER(s.endpoints)};
	struct err err = ERR_INIT;
	int status;

	if (open_service(&s, start, &err) < 0)
		status = serve_fail(start, &err);
	else
		status = serve_run(s.serve);
	close_service(&s);
	return status;
}
