/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi/spawner, an MPI plugin whose service process forwards requests of its tasks to the agent. A
 * task has its service at descriptor 9; a line there is a message of the link (mpi/link.h), to
 * which an id is added, and a line comes back with the answer. It requests nothing by itself. A
 * line "who" is answered by the task's local id, "fds" by how many descriptors the service has. A
 * task's environment has SPAWNER=spawn:rank:size:appnum as its hook got them.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mpi/link.h"
#include "stepd/api/env.h"
#include "stepd/api/mpi.h"

#define TASK_FD   9
#define TASKS_MAX 4096u
#define LINE_MAX_ 100000u

const char plugin_type[] = "mpi/spawner";
const char plugin_name[] = "forwards requests of tasks to the agent";
const uint32_t plugin_version = STEPD_API_VERSION;

struct spawner {
	int link_fd;
	int fd[TASKS_MAX];
	unsigned count;
	int new_fds[TASKS_MAX]; /* of the spawn that is being answered */
	unsigned new_count;
	char line[LINE_MAX_];
};

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
}

/* One byte at a time, or what belongs to the next reader would be lost. The sockets are not
 * blocking: a task writes its line in one piece. */
static bool read_line(int fd, char *line, size_t size)
{
	size_t n = 0;
	char c;

	while (n + 1 < size && read(fd, &c, 1) == 1) {
		if (c == '\n') {
			line[n] = '\0';
			return true;
		}
		line[n++] = c;
	}
	return false;
}

static void answer_task(int fd, const char *text)
{
	(void)!dprintf(fd, "%s\n", text); /* a task that has gone does not miss it */
}

static void forward(struct spawner *a, unsigned task)
{
	json_t *message = json_loads(a->line, 0, NULL);
	int r;

	if (message)
		(void)json_object_set_new(message, "id", json_integer(task));
	r = link_send_take(a->link_fd, message, NULL, 0);
	if (r < 0)
		answer_task(a->fd[task], strerror(-r));
}

static void on_task(struct spawner *a, unsigned task)
{
	char text[32];

	if (!read_line(a->fd[task], a->line, sizeof(a->line))) {
		a->fd[task] = close_fd(a->fd[task]);
	} else if (strcmp(a->line, "who") == 0) {
		(void)snprintf(text, sizeof(text), "%u", task);
		answer_task(a->fd[task], text);
	} else {
		forward(a, task);
	}
}

/* Ends of tasks that run come before the answer that has them; those of none that does, with none.
 */
static void take_spawned(struct spawner *a, const json_t *object)
{
	unsigned i;

	for (i = 0; i < a->new_count && a->count < TASKS_MAX; i++)
		a->fd[a->count++] = a->new_fds[i];
	if (json_integer_value(json_object_get(object, "error")) == 0 &&
		json_array_size(json_object_get(object, "locals")) != a->new_count)
		_exit(1); /* a test sees it */
	a->new_count = 0;
}

static void on_link(struct spawner *a)
{
	struct link_message message = LINK_MESSAGE_INIT;
	const char *what;
	unsigned task;
	char *text;
	size_t i;
	int r = link_receive(a->link_fd, &message);

	if (r == -EPIPE)
		_exit(0);
	if (r < 0)
		return;
	what = json_string_value(json_object_get(message.object, "tell"));
	task = (unsigned)json_integer_value(json_object_get(message.object, "id"));
	if (strcmp(what, "over") == 0)
		_exit(0);
	if (strcmp(what, "fds") == 0) {
		for (i = 0; i < message.fds_count && a->new_count < TASKS_MAX; i++)
			a->new_fds[a->new_count++] = message.fds[i];
		message.fds_count = 0;
	} else if (strncmp(what, "task-", 5) != 0 && task < a->count) {
		if (strcmp(what, "spawned") == 0)
			take_spawned(a, message.object);
		text = json_dumps(message.object, JSON_COMPACT | JSON_SORT_KEYS);
		answer_task(a->fd[task], text ? text : "no memory");
		free(text);
	}
	link_message_clear(&message);
}

static int run(const stepd_mpi_service_t *service)
{
	static struct spawner a;
	static struct pollfd p[TASKS_MAX + 1];
	unsigned i, n;

	a.link_fd = service->link_fd;
	for (i = 0; service->task_fd && i < service->job->node_tasks; i++)
		a.fd[a.count++] = service->task_fd[i];
	if (link_send_take(a.link_fd,
		    json_pack("{s:s, s:[s]}", "do", "environ", "set", "SPAWNER_COMMON=yes"), NULL,
		    0) < 0 ||
		link_send_take(a.link_fd, json_pack("{s:s}", "do", "ready"), NULL, 0) < 0)
		return 1;
	for (;;) {
		n = a.count;
		p[n] = (struct pollfd){.fd = a.link_fd, .events = POLLIN};
		for (i = 0; i < n; i++)
			p[i] = (struct pollfd){.fd = a.fd[i], .events = POLLIN};
		if (poll(p, n + 1, -1) < 0 && errno != EINTR)
			return 1;
		for (i = 0; i < n; i++) {
			if (p[i].fd >= 0 && p[i].revents)
				on_task(&a, i);
		}
		if (p[n].revents)
			on_link(&a);
	}
}

int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env)
{
	if (stepd_env_set(env, "SPAWNER_PREFORK", "yes") < 0)
		return SLURM_ERROR;
	return job->mpi_host->service_start(job->mpi_host->ctx, run, NULL, true) == 0
		? SLURM_SUCCESS
		: SLURM_ERROR;
}

void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env)
{
	char text[64];

	(void)snprintf(
		text, sizeof(text), "%u:%u:%u:%u", job->spawn, job->rank, job->size, job->appnum);
	(void)stepd_env_set(env, "SPAWNER", text);
	if (job->service_fd >= 0)
		(void)dup2(job->service_fd, TASK_FD);
}
