/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi/hostile: an MPI plugin whose service process is in the hands of somebody who means harm to
 * the agent, in the way that STEP_HOSTILE in the step's environment names:
 *
 * - greedy: hands out environment without end
 *
 * - full: as much as it may
 *
 * - storm: requests STEP_HOSTILE_COUNT signals to very many ranks, then more, and reads no answer
 *
 * - thrower: sends descriptors
 *
 * - crowd: requests spawns that can't be, and some that would take much memory
 *
 * - fuzz: STEP_HOSTILE_COUNT messages, valid ones that were changed and made-up ones, by the seed
 *   STEP_HOSTILE_SEED
 *
 * - stay: does not end when the step is over
 *
 * - stop: stands still when the step is over
 *
 * - empty: a message of no bytes
 *
 * - escape: tries what leads out of its process, and logs what was done: "done WORDS"
 *
 * - deadly: makes the system call STEP_HOSTILE_CALL; late: only when the step is over
 *
 * - brood: leaves a daemon
 *
 * The first task waits on the descriptor HOSTILE_FD until it is through: "through ANSWERS BUSY",
 * how many answers have come by then, and how many of them were EAGAIN. STEP_HOSTILE_ROOT "1": the
 * service reports, in HOSTILE_MEMORY for all tasks, whether it can find the agent's environment in
 * its memory.
 */
#include <fcntl.h>
#include <jansson.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "mpi/link.h"
#include "stepd/api/env.h"
#include "stepd/api/mpi.h"

const char plugin_type[] = "mpi/hostile";
const char plugin_name[] = "a service process that means harm";
const uint32_t plugin_version = STEPD_API_VERSION;

struct hostile {
	int fd; /* the link */
	uint32_t random;
	unsigned answers, busy;
	bool over;
};

struct order {
	char mood[16];
	unsigned count, seed;
	char call[32];
	char needle[64]; /* turned round, so that it is not found here */
};

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
}

/* ---- the link ------------------------------------------------------------------------------- */

/* What is there. */
static void hear(struct hostile *h)
{
	int r = 0;

	while (r == 0 || r == -EBADMSG) {
		_cleanup_link_message_ struct link_message m = LINK_MESSAGE_INIT;
		const char *what;

		r = link_receive(h->fd, &m);
		what = r == 0 ? json_string_value(json_object_get(m.object, "tell")) : NULL;
		h->answers += what && (strcmp(what, "done") == 0 || strcmp(what, "spawned") == 0);
		h->busy += what && json_integer_value(json_object_get(m.object, "error")) == EAGAIN;
		h->over |= what && strcmp(what, "over") == 0;
	}
	h->over |= r == -EPIPE;
}

static void send_bytes(struct hostile *h, const void *bytes, size_t size, bool reads)
{
	struct pollfd p = {.fd = h->fd, .events = POLLOUT};

	while (send(h->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EAGAIN) {
		(void)poll(&p, 1, 1000);
		if (reads)
			hear(h);
	}
}

static void send_it(struct hostile *h, json_t *message, bool reads)
{
	char *text = json_dumps(message, JSON_COMPACT);

	json_decref(message);
	if (text)
		send_bytes(h, text, strlen(text), reads);
	free(text);
}

/* ---- what it does --------------------------------------------------------------------------- */

static void greedy(struct hostile *h, unsigned bytes)
{
	json_t *set;
	char text[64];
	unsigned i, n = 0;

	while (n < bytes) {
		set = json_array();
		for (i = 0; i < 1000 && n < bytes; i++) {
			n += (unsigned)snprintf(text, sizeof(text), "V%u=%u", n, i) + 64;
			(void)json_array_append_new(set, json_string(text));
		}
		send_it(h, json_pack("{s:s, s:o}", "do", "environ", "set", set), false);
	}
}

static void storm(struct hostile *h, int count)
{
	json_t *ranks = json_array();
	int i;

	for (i = 0; i < 40000; i++)
		(void)json_array_append_new(ranks, json_integer(i % 7));
	for (i = 0; i < count; i++)
		send_it(h,
			json_pack("{s:s, s:i, s:s, s:O}", "do", "signal", "id", i, "signal", "URG",
				"ranks", ranks),
			false);
	json_decref(ranks);
	for (i = 0; i < 20000; i++)
		send_it(h, json_pack("{s:s, s:i, s:s}", "do", "signal", "id", i, "signal", "URG"),
			false);
}

static void throw(struct hostile * h)
{
	int fds[LINK_FDS_MAX], i;

	for (i = 0; i < (int)LINK_FDS_MAX; i++)
		fds[i] = STDIN_FILENO;
	for (i = 0; i < 100; i++)
		(void)!link_send_take(h->fd,
			json_pack(
				"{s:s, s:s, s:s}", "do", "log", "level", "error", "text", "caught"),
			fds, LINK_FDS_MAX);
	send_it(h, json_pack("{s:s, s:s, s:s}", "do", "log", "level", "info", "text", "thrown"),
		false);
}

static json_t *make_spawn(int id, int groups, int first_count)
{
	json_t *array = json_array();
	int i, rank = 0, n;

	for (i = 0; i < groups; i++, rank += n) {
		n = i == 0 ? first_count : 1;
		(void)json_array_append_new(array,
			json_pack("{s:i, s:i, s:i, s:[s]}", "count", n, "appnum", 0, "rank", rank,
				"argv", "true"));
	}
	return json_pack("{s:s, s:i, s:i, s:i, s:i, s:o}", "do", "spawn", "id", id, "number",
		id + 1, "first_rank", 1000, "size", rank, "groups", array);
}

static void crowd(struct hostile *h)
{
	int i;

	for (i = 0; i < 10; i++)
		send_it(h, make_spawn(i, 2000, 14000), true);
	for (i = 0; i < 4000; i++)
		send_it(h, json_pack("{s:s, s:i, s:s}", "do", "spawn", "id", i, "groups", "none"),
			true);
}

/* ---- made-up messages ----------------------------------------------------------------------- */

static uint32_t dice(struct hostile *h, uint32_t sides)
{
	h->random = h->random * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)h->random * sides) >> 32);
}

static json_t *made_up(struct hostile *h, int depth)
{
	static const char *const texts[] = {"", "true", "A=B", "=", "URG", "CONT", "error", "TERMS",
		"0", "\n", "/", "/bin/true", "PATH=/bin", "LD_PRELOAD=/x"};
	static const json_int_t numbers[] = {0, 1, -1, 2, 64, 16384, 65536, INT32_MAX, INT32_MIN,
		UINT32_MAX, INT64_MAX, INT64_MIN};
	json_t *array;
	uint32_t i, n;

	switch (dice(h, depth > 3 ? 3 : 6)) {
	case 0:
		return json_integer(numbers[dice(h, ARRAY_SIZE(numbers))]);
	case 1:
		return json_string(texts[dice(h, ARRAY_SIZE(texts))]);
	case 2:
		return dice(h, 2) ? json_null() : json_real(1e300);
	case 3:
		return json_pack("{s:o}", "argv", made_up(h, depth + 1));
	default:
		array = json_array();
		n = dice(h, dice(h, 50) ? 4 : 3000);
		for (i = 0; i < n; i++)
			(void)json_array_append_new(array, made_up(h, depth + 1));
		return array;
	}
}

static json_t *make_valid(struct hostile *h, unsigned i)
{
	switch (dice(h, 6)) {
	case 0:
		return json_pack("{s:s, s:s, s:s}", "do", "log", "level", "debug", "text", "x");
	case 1:
		return json_pack("{s:s, s:i, s:s, s:[i,i]}", "do", "signal", "id", i, "signal",
			"URG", "ranks", 0, (int)dice(h, 5));
	case 2:
		return json_pack(
			"{s:s, s:i, s:i}", "do", "drop", "id", i, "number", (int)dice(h, i + 2));
	case 3:
		return json_pack("{s:s, s:i, s:[s]}", "do", "environ", "local", 0, "set", "A=B");
	default:
		return json_pack(
			"{s:s, s:i, s:i, s:i, s:i, s:[{s:[s,s], s:i, s:i, s:i, s:[s], s:s}]}", "do",
			"spawn", "id", i, "number", i + 1, "first_rank", (int)(1000 + i), "size", 1,
			"groups", "argv", "true", "x", "count", 1, "appnum", 0, "rank", 0, "env",
			"A=B", "cwd", "/");
	}
}

/* Another value in the place of one of its own, at any depth. */
static void change(struct hostile *h, json_t *value)
{
	const char *key;
	json_t *member;
	uint32_t n = (uint32_t)json_object_size(value), at;
	void *iter;

	if (json_is_array(value) && json_array_size(value) > 0) {
		at = dice(h, (uint32_t)json_array_size(value));
		member = json_array_get(value, at);
		if ((json_is_object(member) || json_is_array(member)) && dice(h, 4))
			change(h, member);
		else
			(void)json_array_set_new(value, at, made_up(h, 0));
		return;
	}
	if (n == 0)
		return;
	iter = json_object_iter(value);
	for (at = dice(h, n); at > 0; at--)
		iter = json_object_iter_next(value, iter);
	key = json_object_iter_key(iter);
	member = json_object_iter_value(iter);
	if ((json_is_object(member) || json_is_array(member)) && dice(h, 4))
		change(h, member);
	else if (dice(h, 8) == 0)
		(void)json_object_del(value, key);
	else if (strcmp(key, "do") != 0 || dice(h, 4) == 0)
		(void)json_object_set_new(value, key, made_up(h, 0));
}

static void fuzz(struct hostile *h, unsigned count)
{
	uint32_t k, n;
	json_t *message;
	unsigned i;
	char *text;

	for (i = 0; i < count; i++) {
		message = make_valid(h, i);
		n = dice(h, 4);
		for (k = 0; message && k < n; k++)
			change(h, message);
		text = message ? json_dumps(message, JSON_COMPACT) : NULL;
		json_decref(message);
		if (!text)
			continue;
		n = (uint32_t)strlen(text);
		for (k = dice(h, 8); k > 5; k--)
			text[dice(h, n)] = (char)dice(h, 256);
		if (!strstr(text, "KILL") && !strstr(text, "abort"))
			send_bytes(h, text, n < LINK_SIZE_MAX ? n : LINK_SIZE_MAX, true);
		free(text);
		hear(h);
	}
}

/* ---- ways out ------------------------------------------------------------------------------- */

static long try_process(unsigned long flags)
{
	long pid = syscall(SYS_clone, flags, NULL, NULL, NULL, 0);

	if (pid == 0)
		_exit(0);
	return pid;
}

static bool opens(int family, int type, int protocol)
{
	int fd = socket(family, type, protocol);

	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

/* Whether a raw system call did something. */
static bool does(long number, long a, long b, long c, long d)
{
	return syscall(number, a, b, c, d, 0, 0) >= 0;
}

static bool writes(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

static void *set_flag(void *flag)
{
	*(bool *)flag = true;
	return NULL;
}

static bool makes_thread(void)
{
	bool ran = false;
	pthread_t thread;

	return pthread_create(&thread, NULL, set_flag, &ran) == 0 &&
		pthread_join(thread, NULL) == 0 && ran;
}

/* System calls of the first table must fail, those of the second must not. */
static void escape(struct hostile *h)
{
	const struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	uint64_t args[11] = {[4] = SIGCHLD};
	pid_t agent = getppid();
	const struct {
		const char *name;
		bool done;
	} ways[] =
		{
			{"fork", try_process(SIGCHLD) > 0},
			{"vfork", try_process(CLONE_VFORK | SIGCHLD) > 0},
			{"namespace", try_process(CLONE_NEWUSER | SIGCHLD) > 0},
			{"clone3", does(SYS_clone3, (long)args, sizeof(args), 0, 0)},
			{"kill", does(SYS_kill, agent, SIGCONT, 0, 0)},
			{"kill-all", does(SYS_kill, -1, SIGURG, 0, 0)},
			{"tgkill", does(SYS_tgkill, agent, agent, SIGCONT, 0)},
			{"dumpable", prctl(PR_SET_DUMPABLE, 1) == 0},
			{"session", setsid() > 0},
			{"limits", does(SYS_prlimit64, agent, RLIMIT_CORE, (long)&limit, 0)},
			{"own-limit", setrlimit(RLIMIT_CORE, &limit) == 0},
			{"packet", opens(AF_PACKET, SOCK_RAW, 0)},
			{"algorithm", opens(AF_ALG, SOCK_SEQPACKET, 0)},
			{"vsock", opens(AF_VSOCK, SOCK_STREAM, 0)},
			{"netlink", opens(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT)},
			{"raw", opens(AF_INET, SOCK_RAW, 1)},
			{"io_uring", does(SYS_io_uring_setup, 4, (long)args, 0, 0)},
			{"shadow", writes("/etc/shadow")},
			{"cgroup", writes("/sys/fs/cgroup/cgroup.procs")},
			{"memory", writes("/proc/1/mem")},
			{"unlike", does(-1, 0, 0, 0, 0)},
		},
	  needs[] = {
		  {"thread", makes_thread()},
		  {"inet", opens(AF_INET, SOCK_STREAM, 0)},
		  {"inet6", opens(AF_INET6, SOCK_STREAM, 0) || errno != ENOSYS},
		  {"unix", opens(AF_UNIX, SOCK_STREAM, 0)},
		  {"route", opens(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE)},
		  {"sock_diag", opens(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG)},
		  {"raise", kill(getpid(), SIGURG) == 0 && raise(SIGURG) == 0},
	  };
	char text[512] = "done:";
	size_t i, n = strlen(text);

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		if (ways[i].done)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %s", ways[i].name);
	}
	n += (size_t)snprintf(text + n, sizeof(text) - n, ". refused:");
	for (i = 0; i < ARRAY_SIZE(needs); i++) {
		if (!needs[i].done)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %s", needs[i].name);
	}
	(void)snprintf(text + n, sizeof(text) - n, ".");
	send_it(h, json_pack("{s:s, s:s, s:s}", "do", "log", "level", "info", "text", text), false);
}

/* A process that nobody finds by its parent, its session or its descriptors. */
static bool leave_child(void)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid > 0;
	(void)setsid();
	(void)syscall(SYS_close_range, 0, ~0u, 0);
	for (;;)
		(void)pause();
}

/* Ends this process where all is well. */
static void make_call(const char *name)
{
	static const struct {
		const char *name;
		long number;
	} calls[] = {{"bpf", SYS_bpf}, {"chroot", SYS_chroot}, {"execve", SYS_execve},
		{"execveat", SYS_execveat}, {"init_module", SYS_init_module}, {"mount", SYS_mount},
		{"open_by_handle_at", SYS_open_by_handle_at}, {"pidfd_getfd", SYS_pidfd_getfd},
		{"process_vm_readv", SYS_process_vm_readv}, {"ptrace", SYS_ptrace},
		{"setns", SYS_setns}, {"setresuid", SYS_setresuid}, {"setuid", SYS_setuid},
		{"unshare", SYS_unshare}};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		if (strcmp(name, calls[i].name) == 0)
			(void)does(calls[i].number, 0, 0, 0, 0);
	}
}

/* ---- its life ------------------------------------------------------------------------------- */

/* Whether the needle stands in memory that can be written. */
static bool finds(const char *turned)
{
	char needle[64], line[256], *at;
	unsigned long begin, end;
	size_t n = strlen(turned), i;
	bool found = false;
	FILE *f = fopen("/proc/self/maps", "re");

	for (i = 0; i < n; i++)
		needle[i] = turned[n - 1 - i];
	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx rw", &begin, &end) != 2 || !strstr(line, " rw"))
			continue;
		at = (char *)begin;
		while (n && (at = memmem(at, end - (unsigned long)at, needle, n))) {
			found |= at != needle;
			at++;
		}
	}
	if (f)
		(void)fclose(f);
	return found;
}

static void report_memory(struct hostile *h, const struct order *o)
{
	char text[64];

	if (!o->needle[0])
		return;
	(void)snprintf(
		text, sizeof(text), "HOSTILE_MEMORY=%s", finds(o->needle) ? "found" : "clean");
	send_it(h, json_pack("{s:s, s:[s]}", "do", "environ", "set", text), false);
}

static void stay(struct hostile *h, const char *mood, const char *call)
{
	struct pollfd p = {.fd = h->fd, .events = POLLIN};

	while (!h->over) {
		(void)poll(&p, 1, -1);
		hear(h);
	}
	if (strcmp(mood, "stop") == 0)
		(void)raise(SIGSTOP);
	while (strcmp(mood, "stay") == 0 || strcmp(mood, "stop") == 0)
		(void)pause();
	if (strcmp(mood, "late") == 0)
		make_call(call);
}

static int attack(const stepd_mpi_service_t *service)
{
	const struct order *o = service->userdata;
	struct hostile h = {.fd = service->link_fd, .random = o->seed};

	report_memory(&h, o);
	if (strcmp(o->mood, "greedy") == 0)
		greedy(&h, 3u << 20);
	if (strcmp(o->mood, "full") == 0)
		greedy(&h, 1u << 19);
	send_it(&h, json_pack("{s:s}", "do", "ready"), false);
	(void)dprintf(service->task_fd[0], "go\n");
	if (strcmp(o->mood, "storm") == 0)
		storm(&h, (int)o->count);
	else if (strcmp(o->mood, "thrower") == 0)
		throw(&h);
	else if (strcmp(o->mood, "crowd") == 0)
		crowd(&h);
	else if (strcmp(o->mood, "fuzz") == 0)
		fuzz(&h, o->count);
	else if (strcmp(o->mood, "escape") == 0)
		escape(&h);
	else if (strcmp(o->mood, "deadly") == 0)
		make_call(o->call);
	else if (strcmp(o->mood, "brood") == 0)
		(void)leave_child(); /* the task sees that there is none */
	else if (strcmp(o->mood, "empty") == 0)
		send_bytes(&h, "", 0, false);
	hear(&h);
	(void)dprintf(service->task_fd[0], "through %u %u\n", h.answers, h.busy);
	stay(&h, o->mood, o->call);
	return 0;
}

int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env)
{
	static struct order o;
	const char *mood = stepd_env_get(*env, "STEP_HOSTILE");
	const char *count = stepd_env_get(*env, "STEP_HOSTILE_COUNT");
	const char *seed = stepd_env_get(*env, "STEP_HOSTILE_SEED");
	const char *call = stepd_env_get(*env, "STEP_HOSTILE_CALL");
	const char *needle = stepd_env_get(*env, "STEP_HOSTILE_NEEDLE");

	(void)snprintf(o.mood, sizeof(o.mood), "%s", mood ? mood : "");
	(void)snprintf(o.needle, sizeof(o.needle), "%s", needle ? needle : "");
	(void)snprintf(o.call, sizeof(o.call), "%s", call ? call : "");
	o.count = count ? (unsigned)atoi(count) : 1000;
	o.seed = seed ? (unsigned)atoi(seed) : 1;
	return job->mpi_host->service_start(job->mpi_host->ctx, attack, &o, true) < 0
		? SLURM_ERROR
		: SLURM_SUCCESS;
}

void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env)
{
	char text[16];

	if (job->service_fd < 0)
		return;
	(void)fcntl(job->service_fd, F_SETFD, 0);
	(void)snprintf(text, sizeof(text), "%d", job->service_fd);
	(void)stepd_env_set(env, "HOSTILE_FD", text);
}
