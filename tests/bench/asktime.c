/* SPDX-License-Identifier: BSD-3-Clause
 *
 * asktime [-t TITLE] [-n ROUNDS] [-s SLURM_SOCKET] SOCKET: how long a step's agent takes to answer,
 * beside reading the lists of its cgroup by hand, and beside slurmstepd on the socket of a step of
 * Slurm that has as many processes. It speaks Varlink by itself: bytes out, bytes in up to the NUL.
 *
 * asktime -c CLIENTS SOCKET: that many connections at once, each of which asks and waits for all
 * others; the slowest answer counts, too.
 *
 * The lists are measured in turn, A B C A B C, so that what else the machine does hits them alike,
 * and so are the short questions; the last column is the ratio of the medians to reading by hand.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/slurmask.h"

#define CALL(method, parameters)                                                                   \
	"{\"method\":\"io.stepd.Step." method "\",\"more\":true,\"parameters\":{" parameters "}}"
#define ANSWER_MAX (4u << 20)
#define GROUPS_MAX 4096

static char answer[ANSWER_MAX];
static char list[ANSWER_MAX];

/* The files of the step's cgroup, and one of its processes. */
static char *groups[GROUPS_MAX];
static size_t groups_count;
static long member;

/* Of the step of Slurm, if there is one: the connection, and one of its processes. */
static int slurm = -1;
static pid_t slurm_member;
static uint32_t slurm_count; /* of those it lists, which can be fewer than there are */

static double now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int open_socket(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		err(1, "connect to '%s'", path);
	return fd;
}

static void send_call(int fd, const char *text)
{
	size_t size = strlen(text) + 1; /* with its NUL */

	if (write(fd, text, size) != (ssize_t)size)
		err(1, "send to the agent");
}

/* One frame into answer, with its NUL. More than one piece may come: false says that one does. */
static bool read_frame(int fd)
{
	static size_t had; /* bytes of the next frame, behind those of this */
	static char *next;
	size_t size = 0;
	ssize_t n;
	char *end;

	if (had)
		memmove(answer, next, size = had);
	had = 0;
	while (!(end = memchr(answer, '\0', size))) {
		n = read(fd, answer + size, sizeof(answer) - size);
		if (n <= 0)
			err(1, "read the agent's answer");
		size += (size_t)n;
	}
	next = end + 1;
	had = size - (size_t)(next - answer);
	if (strstr(answer, "\"error\""))
		errx(1, "the agent answers: %.300s", answer);
	return !(end - answer > 20 && strstr(end - 20, "\"continues\":true")) &&
		strncmp(answer, "{\"continues\":true", 17) != 0;
}

static void call(int fd, const char *text)
{
	send_call(fd, text);
	while (!read_frame(fd))
		;
}

/* ---- by hand ------------------------------------------------------------------------------- */

static void read_groups(void)
{
	size_t i;
	ssize_t n;
	int fd;

	for (i = 0; i < groups_count; i++) {
		fd = open(groups[i], O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			err(1, "open '%s'", groups[i]);
		do
			n = read(fd, list, sizeof(list) - 1);
		while (n > 0);
		(void)close(fd);
	}
}

static void add_group(const char *dir)
{
	if (groups_count == GROUPS_MAX ||
		asprintf(&groups[groups_count++], "%s/cgroup.procs", dir) < 0)
		errx(1, "too many groups");
}

/* The step's directory, from where a member is: .../step_S/task_R. */
static void find_groups(void)
{
	char path[PATH_MAX] = "", line[PATH_MAX], name[64], *at;
	struct dirent *de;
	FILE *f = fopen("/proc/mounts", "re");
	DIR *dir;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %s cgroup2", path) == 1 && strstr(line, " cgroup2 "))
			break;
	}
	if (f)
		(void)fclose(f);
	(void)snprintf(name, sizeof(name), "/proc/%ld/cgroup", member);
	f = fopen(name, "re");
	while (f && fgets(line, sizeof(line), f) && strncmp(line, "0::", 3) != 0)
		;
	if (!f || !(at = strstr(line, "/task_")))
		return; /* another tracker: nothing to compare with */
	(void)fclose(f);
	*at = '\0';
	(void)strncat(path, line + 3, sizeof(path) - strlen(path) - 1);
	add_group(path);
	dir = opendir(path);
	while (dir && (de = readdir(dir))) {
		if (de->d_type == DT_DIR && de->d_name[0] != '.' &&
			snprintf(line, sizeof(line), "%s/%s", path, de->d_name) < (int)sizeof(line))
			add_group(line);
	}
	if (dir)
		(void)closedir(dir);
}

/* ---- one client ---------------------------------------------------------------------------- */

enum {
	BY_HAND,
	LIST,
	LIST_TICKS,
	SLURM_LIST, /* the last of the lists */
	FIND,
	FIND_NONE,
	DESCRIBE,
	SLURM_FIND, /* as the last of the short questions */
	SLURM_FIND_NONE,
	KINDS
};

static const char *const titles[KINDS] = {
	[BY_HAND] = "cgroup.procs, open, read, close",
	[LIST] = "ListPids, start_ticks false",
	[LIST_TICKS] = "ListPids, start_ticks true",
	[FIND] = "FindPid",
	[FIND_NONE] = "FindPid of a stranger",
	[DESCRIBE] = "Describe",
	[SLURM_LIST] = "slurmstepd, list_pids",
	[SLURM_FIND] = "slurmstepd, pid_in_container",
	[SLURM_FIND_NONE] = "slurmstepd, that of a stranger",
};

static char calls[KINDS][256] = {
	[LIST] = CALL("ListPids", "\"start_ticks\":false"),
	[LIST_TICKS] = CALL("ListPids", "\"start_ticks\":true"),
	[DESCRIBE] = CALL("Describe", ""),
};

static void call_stranger(int fd)
{
	send_call(fd, calls[FIND_NONE]);
	if (read(fd, answer, sizeof(answer)) <= 0 || !strstr(answer, "NoSuchProcess"))
		errx(1, "the agent finds this process: %.300s", answer);
}

static void call_slurm(int kind)
{
	bool has;

	if (kind == SLURM_LIST) {
		(void)slurm_list_pids(slurm, NULL);
		return;
	}
	has = slurm_has_pid(slurm, kind == SLURM_FIND ? slurm_member : getpid());
	if (has != (kind == SLURM_FIND))
		errx(1, "slurmstepd %s", has ? "finds this process" : "loses one of its own");
}

static double measure(int fd, int kind)
{
	double begin = now_us();

	if (kind == BY_HAND)
		read_groups();
	else if (kind == FIND_NONE)
		call_stranger(fd);
	else if (kind == SLURM_LIST || kind == SLURM_FIND || kind == SLURM_FIND_NONE)
		call_slurm(kind);
	else
		call(fd, calls[kind]);
	return now_us() - begin;
}

static int by_value(const void *a, const void *b)
{
	double da = *(const double *)a, db = *(const double *)b;

	return (da > db) - (da < db);
}

static double quantile(double *v, int n, int percent)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[(n - 1) * percent / 100];
}

static void find_member(int fd)
{
	const char *at;

	call(fd, calls[LIST]);
	at = strstr(answer, "\"pid\":");
	if (!at)
		errx(1, "the step has no process: %.300s", answer);
	member = strtol(at + strlen("\"pid\":"), NULL, 10);
	(void)snprintf(calls[FIND], sizeof(calls[FIND]), CALL("FindPid", "\"pid\":%ld"), member);
	(void)snprintf(calls[FIND_NONE], sizeof(calls[FIND_NONE]), CALL("FindPid", "\"pid\":%ld"),
		(long)getpid());
}

/* In turn, and each behind every other: a long list leaves cold caches. */
static void measure_all(int fd, int first, int end, int rounds, double *v[KINDS])
{
	int n = end - first, kind, i, k;

	for (i = 0; i < rounds; i++) {
		for (k = 0; k < n; k++) {
			kind = first + (i % 2 ? n - 1 - k : k); /* there and back */
			v[kind][i] = measure(fd, kind);
		}
	}
}

static void print_table(const char *title, const double median[KINDS], const double high[KINDS])
{
	int kind;

	(void)printf("%-34s %10s %10s %8s\n", title, "median us", "90 % us", "ratio");
	for (kind = 0; kind < KINDS; kind++) {
		if (median[kind] > 0)
			(void)printf("  %-32s %10.1f %10.1f %8.2f\n", titles[kind], median[kind],
				high[kind],
				median[BY_HAND] > 0 ? median[kind] / median[BY_HAND] : 0);
	}
	if (slurm >= 0)
		(void)printf("  slurmstepd, which lists %u, to ours: list %.2f, with start times "
			     "%.2f; find %.2f, a stranger %.2f\n",
			slurm_count, median[SLURM_LIST] / median[LIST],
			median[SLURM_LIST] / median[LIST_TICKS], median[SLURM_FIND] / median[FIND],
			median[SLURM_FIND_NONE] / median[FIND_NONE]);
}

static void run_one(const char *path, const char *title, int rounds)
{
	double *v[KINDS], median[KINDS] = {0}, high[KINDS] = {0};
	int fd = open_socket(path), kind;

	find_member(fd);
	find_groups();
	for (kind = 0; kind < KINDS; kind++) {
		v[kind] = calloc((size_t)rounds, sizeof(double));
		if (!v[kind])
			err(1, "memory");
	}
	measure_all(fd, groups_count ? BY_HAND : LIST, slurm >= 0 ? FIND : SLURM_LIST, rounds, v);
	measure_all(fd, FIND, slurm >= 0 ? KINDS : SLURM_FIND, rounds, v);
	for (kind = 0; kind < KINDS; kind++) {
		median[kind] = quantile(v[kind], rounds, 50); /* 0: not measured */
		high[kind] = quantile(v[kind], rounds, 90);
		free(v[kind]);
	}
	print_table(title, median, high);
	(void)close(fd);
}

static void open_slurm(const char *path)
{
	slurm = open_socket(path);
	slurm_greet(slurm);
	slurm_count = slurm_list_pids(slurm, &slurm_member);
	if (!slurm_member)
		errx(1, "the step of Slurm at '%s' has no process", path);
}

/* ---- many ---------------------------------------------------------------------------------- */

/* All ask before any answer is read; then what comes is read as it comes. */
static void run_many(const char *path, int clients)
{
	struct pollfd *p = calloc((size_t)clients, sizeof(*p));
	double *took = calloc((size_t)clients, sizeof(*took)), begin, median;
	struct rlimit files = {(rlim_t)clients + 64, (rlim_t)clients + 64};
	int i, left = clients;
	ssize_t n;

	(void)setrlimit(RLIMIT_NOFILE, &files);
	if (!p || !took)
		err(1, "memory");
	begin = now_us();
	for (i = 0; i < clients; i++)
		p[i] = (struct pollfd){.fd = open_socket(path), .events = POLLIN};
	(void)printf("%-34s %10.1f us each\n", "connections", (now_us() - begin) / clients);
	find_member(p[0].fd);
	begin = now_us();
	for (i = 0; i < clients; i++)
		send_call(p[i].fd, calls[FIND]);
	while (left > 0) {
		if (poll(p, (nfds_t)clients, 60000) <= 0)
			errx(1, "%d answers do not come", left);
		for (i = 0; i < clients; i++) {
			if (p[i].fd < 0 || !p[i].revents)
				continue;
			n = read(p[i].fd, answer, sizeof(answer));
			if (n <= 0 || answer[n - 1] != '\0' || strstr(answer, "\"error\""))
				errx(1, "client %d gets %zd bytes: %.300s", i, n, answer);
			took[i] = now_us() - begin;
			(void)close(p[i].fd);
			p[i].fd = -1;
			left--;
		}
	}
	median = quantile(took, clients, 50); /* and sorts */
	(void)printf("%-34s %10.1f us median, %.1f us the last\n", "FindPid, all at once", median,
		took[clients - 1]);
	free(took);
	free(p);
}

int main(int argc, char **argv)
{
	const char *title = "one client";
	int rounds = 201, clients = 0, c;

	while ((c = getopt(argc, argv, "t:n:c:s:")) != -1) {
		if (c == 't')
			title = optarg;
		else if (c == 'n')
			rounds = atoi(optarg);
		else if (c == 'c')
			clients = atoi(optarg);
		else if (c == 's')
			open_slurm(optarg);
	}
	if (optind != argc - 1 || rounds < 1 || clients < 0)
		errx(2, "usage: asktime [-t TITLE] [-n ROUNDS] [-c CLIENTS] [-s SLURM_SOCKET] SOCKET");
	if (clients)
		run_many(argv[optind], clients);
	else
		run_one(argv[optind], title, rounds);
	return 0;
}
