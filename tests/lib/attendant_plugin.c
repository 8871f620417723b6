/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi/attendant: an MPI plugin whose service process executes requests of its tasks, a line each
 * on the descriptor in ATTEND_FD:
 *	abort CODE	has the agent end the step
 *	signal NAME [RANK]	has it signal a task, or all; the answer is "done ERRNO"
 *	log TEXT	a line for the step's log
 *	flood COUNT	COUNT messages that are none, and as many lines for the log
 *	die		ends the service process
 *	ends		answers the number of ends of tasks that it got
 * Its standing as a process is in ATTEND_STANDING, for all tasks; ATTEND_LOCAL is one task's.
 * STEP_ATTENDANT, in the step's environment, spoils its beginning: "fail", "mute", "rubbish".
 */
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "mpi/link.h"
#include "stepd/api/env.h"
#include "stepd/api/mpi.h"

#define TASKS_MAX 1024u

const char plugin_type[] = "mpi/attendant";
const char plugin_name[] = "a service process on trial";
const uint32_t plugin_version = STEPD_API_VERSION;

struct attendant {
	const stepd_mpi_service_t *service;
	struct pollfd p[TASKS_MAX + 1]; /* the last one is the link */
	uint32_t tasks;
	unsigned ends;
	int client_fd; /* whom "done" goes to */
};

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
}

static void answer_task(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void answer_task(int fd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vdprintf(fd, fmt, ap);
	va_end(ap);
}

static void send_it(const struct attendant *at, json_t *message)
{
	while (link_send_take(at->service->link_fd, json_incref(message), NULL, 0) == -EAGAIN) {
		struct pollfd p = {.fd = at->service->link_fd, .events = POLLOUT};

		(void)poll(&p, 1, -1);
	}
	json_decref(message);
}

/* Descriptors that it holds open, but for its own ends and 0 to 2. */
static int strays(const struct attendant *at)
{
	int fd, n = 0;
	uint32_t i;

	for (fd = 3; fd < 4096; fd++) {
		if (fcntl(fd, F_GETFD) < 0 || fd == at->service->link_fd)
			continue;
		for (i = 0; i < at->tasks && at->service->task_fd[i] != fd; i++)
			;
		n += i == at->tasks;
	}
	return n;
}

/* How far it may grow yet, in bytes; -1: without limit. */
static long long memory_left(void)
{
	unsigned long long pages = 0;
	struct rlimit limit = {0};
	FILE *statm = fopen("/proc/self/statm", "re");

	if (!statm || fscanf(statm, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
		pages = 0;
	if (statm)
		(void)fclose(statm);
	if (getrlimit(RLIMIT_DATA, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return -1;
	return (long long)(limit.rlim_cur - pages * (unsigned long long)sysconf(_SC_PAGESIZE));
}

static bool has_terminal(void)
{
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

static void send_standing(const struct attendant *at)
{
	char name[16] = "", text[320], cwd[64] = "";
	mode_t mask = umask(077);
	json_t *message;
	uint32_t i;

	(void)prctl(PR_GET_NAME, name);
	(void)!getcwd(cwd, sizeof(cwd));
	(void)snprintf(text, sizeof(text),
		"ATTEND_STANDING=pid=%d uid=%u gid=%u groups=%d strays=%d dumpable=%d nnp=%d "
		"umask=%03o name=%s cwd=%s group=%d terminal=%d environment=%s left=%lld",
		(int)getpid(), getuid(), getgid(), getgroups(0, NULL), strays(at),
		prctl(PR_GET_DUMPABLE), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), (unsigned)mask,
		name, cwd, getpgid(0) == getpid(), has_terminal(),
		getenv("STEPD_RUNTIME_DIR") ? "whole" : "cleared", memory_left());
	send_it(at, json_pack("{s:s, s:[s]}", "do", "environ", "set", text));
	for (i = 0; i < at->tasks; i++) {
		(void)snprintf(text, sizeof(text), "ATTEND_LOCAL=%u", i);
		message = json_pack(
			"{s:s, s:i, s:[s]}", "do", "environ", "local", (int)i, "set", text);
		send_it(at, message);
	}
}

static void flood(const struct attendant *at, int count)
{
	while (count-- > 0) {
		(void)!write(at->service->link_fd, "{\"do\":", 6);
		send_it(at, json_pack("{s:[i]}", "do", 1));
		send_it(at,
			json_pack("{s:s, s:s, s:s}", "do", "log", "level", "info", "text", "much"));
	}
}

static void obey(struct attendant *at, int fd, char *line)
{
	char *word = strtok(line, " \n"), *rest = strtok(NULL, "\n"), *rank;
	json_t *message;

	if (!word)
		return;
	if (strcmp(word, "die") == 0)
		_exit(7);
	if (strcmp(word, "abort") == 0) {
		send_it(at,
			json_pack("{s:s, s:i, s:s}", "do", "abort", "code", atoi(rest), "text",
				"a task wanted it\nso"));
	} else if (strcmp(word, "log") == 0) {
		send_it(at,
			json_pack(
				"{s:s, s:s, s:s}", "do", "log", "level", "warning", "text", rest));
		answer_task(fd, "ok\n");
	} else if (strcmp(word, "flood") == 0) {
		flood(at, atoi(rest));
		answer_task(fd, "ok\n");
	} else if (strcmp(word, "ends") == 0) {
		answer_task(fd, "%u\n", at->ends);
	} else if (strcmp(word, "signal") == 0) {
		rank = strchr(rest, ' ');
		if (rank)
			*rank++ = '\0';
		message = json_pack("{s:s, s:i, s:s}", "do", "signal", "id", 1, "signal", rest);
		if (rank)
			(void)json_object_set_new(message, "ranks", json_pack("[i]", atoi(rank)));
		at->client_fd = fd;
		send_it(at, message);
	}
}

static void hear_task(struct attendant *at, struct pollfd *p)
{
	char line[256];
	ssize_t n = read(p->fd, line, sizeof(line) - 1);

	if (n <= 0) {
		p->fd = -1;
		return;
	}
	line[n] = '\0';
	obey(at, p->fd, line);
}

/* Whether the agent is there. */
static bool hear_agent(struct attendant *at)
{
	_cleanup_link_message_ struct link_message m = LINK_MESSAGE_INIT;
	int r = link_receive(at->service->link_fd, &m);
	const char *what = r == 0 ? json_string_value(json_object_get(m.object, "tell")) : NULL;

	if (what && strcmp(what, "task-exit") == 0)
		at->ends++;
	if (what && strcmp(what, "done") == 0)
		answer_task(at->client_fd, "done %d\n",
			(int)json_integer_value(json_object_get(m.object, "error")));
	return r != -EPIPE && !(what && strcmp(what, "over") == 0);
}

static int attend(const stepd_mpi_service_t *service)
{
	struct attendant at = {.service = service, .tasks = service->job->node_tasks};
	const char *mood = service->userdata;
	bool there = true;
	uint32_t i;

	if (strcmp(mood, "fail") == 0) {
		send_it(&at, json_pack("{s:s, s:s}", "do", "failed", "why", "it rains\a"));
		return 1;
	}
	if (strcmp(mood, "mute") == 0)
		return 3;
	if (strcmp(mood, "rubbish") == 0)
		send_it(&at,
			json_pack(
				"{s:s, s:i, s:[s]}", "do", "environ", "local", 4711, "set", "A=B"));
	send_standing(&at);
	send_it(&at, json_pack("{s:s}", "do", "ready"));
	for (i = 0; i < at.tasks; i++)
		at.p[i] = (struct pollfd){.fd = service->task_fd[i], .events = POLLIN};
	at.p[at.tasks] = (struct pollfd){.fd = service->link_fd, .events = POLLIN};
	while (there && poll(at.p, at.tasks + 1, -1) >= 0) {
		for (i = 0; i < at.tasks; i++) {
			if (at.p[i].revents)
				hear_task(&at, &at.p[i]);
		}
		if (at.p[at.tasks].revents)
			there = hear_agent(&at);
	}
	return 0;
}

int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env)
{
	const char *mood = stepd_env_get(*env, "STEP_ATTENDANT");

	if (job->node_tasks > TASKS_MAX) {
		errno = E2BIG;
		return SLURM_ERROR;
	}
	return job->mpi_host->service_start(
		       job->mpi_host->ctx, attend, (void *)(mood ? mood : ""), true) < 0
		? SLURM_ERROR
		: SLURM_SUCCESS;
}

void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env)
{
	char text[16];

	(void)fcntl(job->service_fd, F_SETFD, 0);
	(void)snprintf(text, sizeof(text), "%d", job->service_fd);
	(void)stepd_env_set(env, "ATTEND_FD", text);
}
