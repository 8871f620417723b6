/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMI-1 and PMI-2 for the step's tasks, on one descriptor each, or over TCP by option. The protocol
 * is served in the service process, which has descriptors, events and time; the hooks give tasks
 * the environment by which programs find it:
 *
 *	PMI_FD, or PMI_PORT and PMI_ID; PMI_RANK, PMI_SIZE, PMI_JOBID; PMI_SPAWNED for tasks that
 *	were spawned
 *
 * Nothing of PMIX_* is left, as some MPI libraries refuse to see both.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "mpi/pmi/manager_link.h"
#include "mpi/pmi2/pmi_impl.h"
#include "mpi/serve/serve.h"
#include "mpi/wire/listener.h"
#include "stepd/api/env.h"
#include "stepd/api/mpi.h"
#include "stepd/base/clock.h"
#include "stepd/base/peer.h"

const char plugin_type[] = "mpi/pmi2";
const char plugin_name[] = "PMI-1 and PMI-2";
const uint32_t plugin_version = STEPD_API_VERSION;

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
}

int plugin_probe(char *text, size_t size)
{
	(void)snprintf(text, size, "PMI-1 and PMI-2 in a service process of the step's user");
	return SLURM_SUCCESS;
}

/* A conversation's descriptor. */
struct endpoint {
	TAILQ_ENTRY(endpoint) link;
	struct service *service;
	struct pmi_task *task;
	int fd;
	ev_io readable, writable;
};
TAILQ_HEAD(endpoint_list, endpoint);

struct service {
	struct serve *serve;
	struct pmi *pmi;
	struct ev_loop *loop;
	struct endpoint_list endpoints;
	ev_prepare prepare;
	ev_timer timer;
	struct tcp *tcp;              /* NULL: tasks have descriptors */
	struct manager_link *manager; /* NULL: there is none */
	/* With it: the step as if it had no other nodes, for serve. */
	stepd_step_rec_t alone;
	stepd_mpi_service_t alone_start;
};

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

static void endpoint_on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	(void)endpoint_read(io->data);
}

static void endpoint_on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct endpoint *endpoint = io->data;

	endpoint_attend(endpoint->service, endpoint->task);
}

/* The task's conversation is on fd, which is taken over, from now on. It must have no other. */
static int endpoint_open(struct service *s, struct pmi_task *task, int fd)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));

	if (!endpoint) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	*endpoint = (struct endpoint){.service = s, .task = task, .fd = fd};
	ev_io_init(&endpoint->readable, endpoint_on_readable, fd, EV_READ);
	ev_io_init(&endpoint->writable, endpoint_on_writable, fd, EV_WRITE);
	endpoint->readable.data = endpoint->writable.data = endpoint;
	ev_io_start(s->loop, &endpoint->readable);
	TAILQ_INSERT_TAIL(&s->endpoints, endpoint, link);
	task->endpoint = endpoint;
	serve_count(s->serve, 1);
	return 0;
}

/* ---- PMI over TCP --------------------------------------------------------------------------
 *
 * For programs that can't use a descriptor that they inherit. Tasks get PMI_PORT, an
 * address of the loopback interface, and PMI_ID, which they send first. Any local user can connect,
 * so two things must be right: the kernel names the step's user as the owner of the other end
 * (stepd/base/peer.h), and the PMI_ID is that of a task without a connection. PMI_ID is no rank but
 * a random number, which only that task's environment has; clients read it as an int, so it has 31
 * bits. Among the processes of the step's own user nothing is secret.
 */

#define TCP_ID_SIZE  16u
#define HELLO_MAX    128u
#define CALLERS_MAX  1024u /* not identified yet */
#define CALL_LIMIT_S 30.0
#define REFUSALS_MAX 64u

/* A connection that has not sent its PMI_ID yet. */
struct caller {
	TAILQ_ENTRY(caller) link;
	struct tcp *tcp;
	int fd;
	ev_io readable;
	ev_timer limit;
	char hello[HELLO_MAX];
	size_t size;
};

struct tcp {
	struct service *service;
	int fd, diag_fd;
	struct wire_listener listener;
	struct sockaddr_in address;
	char port[32];
	TAILQ_HEAD(caller_list, caller) callers;
	uint32_t callers_count;
	unsigned refusals;
};

static void hang_up(struct caller *c)
{
	ev_io_stop(c->tcp->service->loop, &c->readable);
	ev_timer_stop(c->tcp->service->loop, &c->limit);
	TAILQ_REMOVE(&c->tcp->callers, c, link);
	c->tcp->callers_count--;
	c->fd = close_fd(c->fd);
	free(c);
}

/* ---- access --------------------------------------------------------------------------------- */

/* Everybody on the node may connect: they must not fill the log. */
static void report_refusal(struct tcp *tcp, const char *text)
{
	if (tcp->refusals > REFUSALS_MAX)
		return;
	serve_log(tcp->service->serve, LOG_LEVEL_WARNING, "PMI: a connection %s%s", text,
		tcp->refusals == REFUSALS_MAX ? "; no more of them are reported" : "");
	tcp->refusals++;
}

static bool is_own_user(struct tcp *tcp, int fd)
{
	struct err err = ERR_INIT;
	char text[300];
	struct peer peer;

	if (peer_find(tcp->diag_fd, fd, &peer, &err) < 0) {
		(void)snprintf(text, sizeof(text), "is refused: %.280s", err.text);
		report_refusal(tcp, text);
		return false;
	}
	if (peer.uid != geteuid()) {
		(void)snprintf(text, sizeof(text), "of user %u is refused", (unsigned)peer.uid);
		report_refusal(tcp, text);
		return false;
	}
	return true;
}

/* The task's PMI_ID from now on, another one than any other task has. 0 or -errno. */
static int tcp_admit(struct tcp *tcp, struct pmi_task *task, char id[TCP_ID_SIZE])
{
	struct pmi *pmi = tcp->service->pmi;
	uint32_t number;
	ssize_t n;

	do {
		n = getrandom(&number, sizeof(number), 0);
		if (n < 0 && errno != EINTR)
			return -errno;
		number &= INT32_MAX;
	} while (n != sizeof(number) || number == 0 || pmi_find_by_secret(pmi, number));
	task->secret = number;
	(void)snprintf(id, TCP_ID_SIZE, "%u", number);
	return 0;
}

/* ---- the first line: "cmd=initack pmiid=3" -------------------------------------------------- */

static int parse_hello(const char *hello, size_t size, uint32_t *ret_id)
{
	static const char begin[] = "cmd=initack pmiid=";
	const char *end = memchr(hello, '\n', size);
	struct slice id = {hello + sizeof(begin) - 1, 0};
	int64_t number;

	if (!end || size < sizeof(begin) || memcmp(hello, begin, sizeof(begin) - 1) != 0)
		return -EBADMSG;
	while (id.data + id.size < end && id.data[id.size] != ' ')
		id.size++;
	if (slice_parse_int(id, 1, INT32_MAX, &number) < 0)
		return -EBADMSG;
	*ret_id = (uint32_t)number;
	return 0;
}

static void introduce(struct caller *c)
{
	struct service *s = c->tcp->service;
	struct pmi_task *task = NULL;
	uint32_t id;

	if (parse_hello(c->hello, c->size, &id) == 0)
		task = pmi_find_by_secret(s->pmi, id);
	if (!task || task->endpoint) {
		report_refusal(c->tcp,
			"is refused: it does not begin with the PMI_ID of a task without a connection");
		hang_up(c);
		return;
	}
	if (endpoint_open(s, task, take_fd(&c->fd)) == 0)
		pmi_input(task, c->hello, c->size);
	hang_up(c);
}

static void caller_on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct caller *c = io->data;
	ssize_t n;

	n = recv(c->fd, c->hello + c->size, sizeof(c->hello) - c->size, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		hang_up(c);
		return;
	}
	c->size += (size_t)n;
	if (memchr(c->hello, '\n', c->size) || c->size == sizeof(c->hello))
		introduce(c);
}

static void caller_on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	hang_up(timer->data);
}

static void tcp_on_accepted(int accepted_fd, void *userdata)
{
	struct tcp *tcp = userdata;
	struct ev_loop *loop = tcp->service->loop;
	_cleanup_close_ int fd = accepted_fd;
	struct caller *c;
	int on = 1;

	if (fd < 0 || tcp->callers_count == CALLERS_MAX || !is_own_user(tcp, fd))
		return;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only slower without */
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	*c = (struct caller){.tcp = tcp, .fd = take_fd(&fd)};
	ev_io_init(&c->readable, caller_on_readable, c->fd, EV_READ);
	ev_timer_init(&c->limit, caller_on_limit, CALL_LIMIT_S, 0);
	c->readable.data = c->limit.data = c;
	ev_io_start(loop, &c->readable);
	ev_timer_start(loop, &c->limit);
	TAILQ_INSERT_TAIL(&tcp->callers, c, link);
	tcp->callers_count++;
}

/* ---- its life ------------------------------------------------------------------------------ */

static int listen_on(struct tcp *tcp)
{
	socklen_t size = sizeof(tcp->address);

	tcp->address.sin_family = AF_INET;
	tcp->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	tcp->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (tcp->fd < 0 || bind(tcp->fd, (struct sockaddr *)&tcp->address, size) < 0 ||
		listen(tcp->fd, SOMAXCONN) < 0 ||
		getsockname(tcp->fd, (struct sockaddr *)&tcp->address, &size) < 0)
		return -errno;
	return 0;
}

static struct tcp *tcp_close(struct tcp *tcp)
{
	if (!tcp)
		return NULL;
	while (!TAILQ_EMPTY(&tcp->callers))
		hang_up(TAILQ_FIRST(&tcp->callers));
	wire_listener_stop(&tcp->listener);
	(void)close_fd(tcp->fd);
	(void)close_fd(tcp->diag_fd);
	free(tcp);
	return NULL;
}

static int tcp_open(struct service *s, struct tcp **ret_tcp, struct err *err)
{
	struct tcp *tcp = calloc(1, sizeof(*tcp));
	int r;

	if (!tcp)
		return err_set(err, -ENOMEM, "PMI: listen on 127.0.0.1");
	*tcp = (struct tcp){.service = s, .fd = -1, .diag_fd = -1};
	TAILQ_INIT(&tcp->callers);
	wire_listener_init(&tcp->listener, s->loop, tcp_on_accepted, tcp);
	r = peer_open(&tcp->diag_fd, err);
	if (r == 0) {
		r = listen_on(tcp);
		if (r < 0)
			(void)err_set(err, r, "PMI: listen on 127.0.0.1");
	}
	if (r < 0) {
		(void)tcp_close(tcp);
		return r;
	}
	(void)snprintf(tcp->port, sizeof(tcp->port), "127.0.0.1:%u", ntohs(tcp->address.sin_port));
	wire_listener_start(&tcp->listener, tcp->fd);
	*ret_tcp = tcp;
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

static void service_on_message(
	void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	pmi_message(((struct service *)userdata)->pmi, from, channel, block);
}

static void service_on_lost(void *userdata, uint32_t node, const struct err *err)
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
	.message = service_on_message,
	.lost = service_on_lost,
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

static void service_on_timer(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
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
	r = spawn_environ(part, -1, "PMI_PORT", s->tcp->port);
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

/* ---- the process manager ------------------------------------------------------------------- */

/* What the hook in the agent has found in the environment. */
struct manager_names {
	const char *path; /* NULL: there is none */
	const char *job;  /* NULL: the step's */
};

static int manager_send(void *userdata, enum manager_type type, struct slice body)
{
	return manager_link_send(((struct service *)userdata)->manager, type, body);
}

static void on_manager_frame(void *userdata, const struct manager_frame *frame)
{
	pmi_manager_frame(((struct service *)userdata)->pmi, frame);
}

static void on_manager_lost(void *userdata, const struct err *err)
{
	struct service *s = userdata;

	serve_log(s->serve, LOG_LEVEL_WARNING, "PMI: %s", err->text);
	pmi_manager_lost(s->pmi, err);
}

static const struct pmi_manager manager_ops = {.send = manager_send};

static int open_manager(struct service *s, const char *path, struct err *err)
{
	const struct manager_link_options options = {.loop = s->loop,
		.path = path,
		.frame = on_manager_frame,
		.lost = on_manager_lost,
		.userdata = s};

	return manager_link_open(&options, &s->manager, err);
}

/* Where a process manager has the way to the other nodes, there is no wire. */
static const stepd_mpi_service_t *leave_others(struct service *s, const stepd_mpi_service_t *start)
{
	const struct manager_names *manager = start->userdata;

	if (!manager->path)
		return start;
	s->alone = *start->job;
	s->alone.nodeid = 0;
	s->alone.nnodes = 1;
	s->alone_start = *start;
	s->alone_start.job = &s->alone;
	return &s->alone_start;
}

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
		r = serve_environ(s->serve, -1, "PMI_PORT", s->tcp->port, err);
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
	const struct manager_names *manager = start->userdata;
	const stepd_step_rec_t *job = start->job;
	char label[64];
	struct pmi_config config = {.label = label,
		.node_name = job->node_name,
		.node = job->nodeid,
		.node_count = job->nnodes,
		.universe_size = job->ntasks,
		.timeout_ms = job->mpi_host->timeout_ms};
	int r;

	if (manager->job)
		(void)snprintf(label, sizeof(label), "%s", manager->job);
	else
		(void)snprintf(label, sizeof(label), "%u.%s", job->job_id, job->step_name);
	r = serve_open(leave_others(s, start), &serve_events, s, &s->serve, err);
	if (r < 0)
		return r;
	config.manager = manager->path ? &manager_ops : NULL;
	config.serve = s->serve;
	s->loop = serve_get_loop(s->serve);
	ev_prepare_init(&s->prepare, on_prepare);
	ev_timer_init(&s->timer, service_on_timer, 0, 0);
	s->prepare.data = s->timer.data = s;
	r = pmi_new(&config, &ops, s, &s->pmi, err);
	if (r == 0 && manager->path)
		r = open_manager(s, manager->path, err);
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
	/* Requests that wait for other nodes end with an error, for which the server must be there.
	 */
	s->manager = manager_link_close(s->manager);
	s->serve = serve_close(s->serve);
	s->pmi = pmi_free(s->pmi);
}

/* The stepd_mpi_service_fn. */
static int service_main(const stepd_mpi_service_t *start)
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

/* ---- the hooks ----------------------------------------------------------------------------- */

int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env)
{
	const struct stepd_mpi_host *host = job->mpi_host;
	const char *path = stepd_env_get(*env, MANAGER_VARIABLE);
	const char *name = stepd_env_get(*env, MANAGER_JOB_VARIABLE);
	_cleanup_free_ char *path_copy = path ? strdup(path) : NULL;
	_cleanup_free_ char *name_copy = name ? strdup(name) : NULL;
	struct manager_names manager = {.path = path_copy, .job = name_copy};

	if (!host || (path && !path_copy) || (name && !name_copy)) {
		errno = host ? ENOMEM : ENOTSUP;
		return SLURM_ERROR;
	}
	stepd_env_unset(*env, MANAGER_VARIABLE);
	stepd_env_unset(*env, MANAGER_JOB_VARIABLE);
	/* The service is forked: it has a copy of them. */
	return host->service_start(host->ctx, service_main, &manager, !host->tcp) == 0
		? SLURM_SUCCESS
		: SLURM_ERROR;
}

/* Variables that a launcher around this step has left, or another plugin would have set. The
 * service's own come before this hook: with TCP, PMI_PORT and PMI_ID. */
static bool is_stale(const char *entry, bool tcp)
{
	if (strncmp(entry, "PMIX_", 5) == 0)
		return true;
	if (strncmp(entry, "PMI_", 4) != 0 || strncmp(entry, "PMI_DEBUG=", 10) == 0)
		return false;
	return !tcp || (strncmp(entry, "PMI_PORT=", 9) != 0 && strncmp(entry, "PMI_ID=", 7) != 0);
}

static void environ_remove_stale(char **env, bool tcp)
{
	size_t from, to = 0;

	for (from = 0; env[from]; from++) {
		if (!is_stale(env[from], tcp))
			env[to++] = env[from];
	}
	env[to] = NULL;
}

static int set_number(char ***env, const char *name, uint32_t n)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", n);
	return stepd_env_set(env, name, text);
}

static int set_job(const mpi_plugin_task_info_t *job, char ***env)
{
	char jobid[64];
	int n = snprintf(jobid, sizeof(jobid), "%u.%u", job->job_id, job->step_id);

	if (job->spawn > 0)
		(void)snprintf(jobid + n, sizeof(jobid) - (size_t)n, ".%u", job->spawn);
	return stepd_env_set(env, "PMI_JOBID", jobid);
}

int p_mpi_task_environ(const mpi_plugin_task_info_t *job, char ***env)
{
	environ_remove_stale(*env, job->service_fd < 0);
	if (job->service_fd >= 0 && set_number(env, "PMI_FD", (uint32_t)job->service_fd) < 0)
		return SLURM_ERROR;
	if (set_number(env, "PMI_RANK", job->rank) < 0 ||
		set_number(env, "PMI_SIZE", job->size) < 0 || set_job(job, env) < 0)
		return SLURM_ERROR;
	if (job->spawn > 0 && stepd_env_set(env, "PMI_SPAWNED", "1") < 0)
		return SLURM_ERROR;
	return SLURM_SUCCESS;
}

/* For a host that knows the guide's hooks only. */
void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env)
{
	/* The program will find a failure here, and report it. */
	if (p_mpi_task_environ(job, env) == SLURM_SUCCESS && job->service_fd >= 0)
		(void)fcntl(job->service_fd, F_SETFD, 0);
}
