/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi/ailing: an MPI plugin that fails at the point that STEP_AILING, in the agent's environment,
 * names:
 *
 *	refuse   its prefork hook fails
 *	stuck    its prefork hook never returns, and what ends others doesn't end it
 *	unready  its service process never reports that it is ready
 *	rainy    its service process can't start, and reports why
 *	hook     its hook in the tasks never returns
 *	well     it serves PMI-1
 *	die      it does until the first fence, and its service process dies there
 *	linger   it dies there, too, but is still there for a moment once its descriptors are closed
 *	mute     it does until the first fence, and is silent from then on
 *	forget   it does, but for the values: it has none
 *	liar     it does, but all are rank 0
 *	idle     its tasks get nothing
 */
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <string.h>

#include "mpi/link.h"
#include "stepd/api/env.h"
#include "stepd/api/mpi.h"

#define TASKS 2u

const char plugin_type[] = "mpi/ailing";
const char plugin_name[] = "a plugin that is not well";
const uint32_t plugin_version = STEPD_API_VERSION;

struct ailing {
	const stepd_mpi_service_t *service;
	char line[TASKS][1024];
	size_t used[TASKS];
	char values[TASKS * 4][128];
	unsigned count, waiting;
};

static const char *configured; /* the service process has no environment */

static bool is(const char *mood)
{
	return strcmp(configured ? configured : "idle", mood) == 0;
}

int init(void)
{
	/* A copy: the environment is wiped in the service process. */
	configured = getenv("STEP_AILING") ? strdup(getenv("STEP_AILING")) : NULL;
	return SLURM_SUCCESS;
}

void fini(void)
{
}

static void answer_task(const struct ailing *a, unsigned task, const char *text)
{
	(void)!write(a->service->task_fd[task], text, strlen(text));
}

/* "put kvsname=S key=K value=V" and "get kvsname=S key=K". */
static const char *key_of(const char *line)
{
	return strstr(line, "key=");
}

static void get(const struct ailing *a, unsigned task, const char *line)
{
	const char *key = key_of(line);
	char text[256];
	unsigned i;

	for (i = 0; i < a->count && !is("forget"); i++) {
		if (strncmp(a->values[i], key, strcspn(key, " ")) == 0) {
			(void)snprintf(text, sizeof(text), "cmd=get_result rc=0 %s\n",
				strstr(a->values[i], "value="));
			answer_task(a, task, text);
			return;
		}
	}
	answer_task(a, task, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
}

static void fence(struct ailing *a)
{
	if (is("mute") || ++a->waiting < TASKS)
		return;
	if (is("die")) /* both are there: none fails at another stage */
		_exit(7);
	if (is("linger")) {
		(void)close_range(3, ~0u, 0);
		(void)poll(NULL, 0, 500);
		_exit(7);
	}
	a->waiting = 0;
	answer_task(a, 0, "cmd=barrier_out\n");
	answer_task(a, 1, "cmd=barrier_out\n");
}

static void answer(struct ailing *a, unsigned task, const char *line)
{
	if (strstr(line, "cmd=init pmi_version=1"))
		answer_task(a, task, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
	else if (strstr(line, "cmd=init"))
		answer_task(a, task, "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n");
	else if (strstr(line, "cmd=get_maxes"))
		answer_task(a, task, "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=64\n");
	else if (strstr(line, "cmd=get_my_kvsname"))
		answer_task(a, task, "cmd=my_kvsname kvsname=ailing\n");
	else if (strstr(line, "cmd=put") && a->count < TASKS * 4)
		(void)snprintf(a->values[a->count++], sizeof(a->values[0]), "%s", key_of(line));
	else if (strstr(line, "cmd=get "))
		get(a, task, line);
	else if (strstr(line, "cmd=barrier_in"))
		fence(a);
	else if (strstr(line, "cmd=finalize"))
		answer_task(a, task, "cmd=finalize_ack\n");
	if (strstr(line, "cmd=put"))
		answer_task(a, task, "cmd=put_result rc=0 msg=success\n");
}

/* Whether the task is there. */
static bool hear_task(struct ailing *a, unsigned task)
{
	char *line = a->line[task], *end;
	ssize_t n = read(a->service->task_fd[task], line + a->used[task],
		sizeof(a->line[0]) - 1 - a->used[task]);

	if (n <= 0)
		return false;
	a->used[task] += (size_t)n;
	line[a->used[task]] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end = '\0';
		answer(a, task, line);
		a->used[task] -= (size_t)(end + 1 - line);
		memmove(line, end + 1, a->used[task] + 1);
	}
	return true;
}

static bool hear_agent(const struct ailing *a)
{
	_cleanup_link_message_ struct link_message m = LINK_MESSAGE_INIT;
	int r = link_receive(a->service->link_fd, &m);
	const char *what = r == 0 ? json_string_value(json_object_get(m.object, "tell")) : NULL;

	return r != -EPIPE && !(what && strcmp(what, "over") == 0);
}

static int serve(const stepd_mpi_service_t *service)
{
	struct ailing a = {.service = service};
	struct pollfd p[TASKS + 1];
	bool there = true;
	unsigned i;

	while (is("unready"))
		(void)poll(NULL, 0, -1);
	if (is("rainy"))
		return link_send_take(service->link_fd,
			json_pack("{s:s, s:s}", "do", "failed", "why", "it rains; wait for sun"),
			NULL, 0);
	(void)!link_send_take(service->link_fd, json_pack("{s:s}", "do", "ready"), NULL, 0);
	for (i = 0; i < TASKS; i++)
		p[i] = (struct pollfd){.fd = service->task_fd[i], .events = POLLIN};
	p[TASKS] = (struct pollfd){.fd = service->link_fd, .events = POLLIN};
	while (there && poll(p, TASKS + 1, -1) >= 0) {
		for (i = 0; i < TASKS; i++) {
			if (p[i].revents && !hear_task(&a, i))
				p[i].fd = -1;
		}
		if (p[TASKS].revents)
			there = hear_agent(&a);
	}
	return 0;
}

int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env)
{
	(void)env;
	if (is("idle") || is("hook"))
		return SLURM_SUCCESS;
	errno = EHOSTDOWN;
	if (is("refuse"))
		return SLURM_ERROR;
	while (is("stuck"))
		(void)poll(NULL, 0, -1);
	return job->mpi_host->service_start(job->mpi_host->ctx, serve, NULL, true) < 0
		? SLURM_ERROR
		: SLURM_SUCCESS;
}

void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env)
{
	char text[16];

	while (is("hook"))
		(void)poll(NULL, 0, -1);
	if (job->service_fd < 0)
		return;
	(void)fcntl(job->service_fd, F_SETFD, 0);
	(void)snprintf(text, sizeof(text), "%d", job->service_fd);
	(void)stepd_env_set(env, "PMI_FD", text);
	(void)snprintf(text, sizeof(text), "%u", is("liar") ? 0 : job->gtaskid);
	(void)stepd_env_set(env, "PMI_RANK", text);
	(void)stepd_env_set(env, "PMI_SIZE", "2");
}
