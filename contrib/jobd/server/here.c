/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/server/here.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

#include "contrib/jobd/run/machine.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

#define CPUS_MAX      65535u
#define FILE_MAX_SIZE (64u << 10)

/* ---- processors ---------------------------------------------------------------------------------
 */

struct place {
	uint32_t socket, core;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->socket != y->socket)
		return x->socket < y->socket ? -1 : 1;
	return (x->core > y->core) - (x->core < y->core);
}

/* Sockets and cores, where all sockets have as many cores, and all cores as many CPUs. */
static void count_places(struct here *here, struct place *places)
{
	uint32_t i, sockets = 1, cores = 1;

	qsort(places, here->cpus, sizeof(*places), compare_places);
	for (i = 1; i < here->cpus; i++) {
		sockets += places[i].socket != places[i - 1].socket;
		cores += compare_places(&places[i], &places[i - 1]) != 0;
	}
	if (cores % sockets != 0 || here->cpus % cores != 0) {
		sockets = 1;
		cores = here->cpus;
	}
	here->sockets = sockets;
	here->cores_per_socket = cores / sockets;
	here->threads_per_core = here->cpus / cores;
}

static int find_cpus(struct here *here, struct err *err)
{
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	const size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	_cleanup_free_ struct place *places = calloc(CPUS_MAX, sizeof(*places));
	uint32_t cpu;
	int r = 0;

	if (!set || !places)
		r = -ENOMEM;
	else if (sched_getaffinity(0, size, set) < 0)
		r = -errno;
	for (cpu = 0; r == 0 && cpu < CPUS_MAX; cpu++) {
		if (!CPU_ISSET_S(cpu, size, set))
			continue;
		places[here->cpus++] = (struct place){
			.socket = machine_read_topology(cpu, "physical_package_id", 0),
			.core = machine_read_topology(cpu, "core_id", cpu),
		};
	}
	CPU_FREE(set);
	if (r == 0 && here->cpus == 0)
		r = -ENODEV;
	if (r < 0)
		return err_set(err, r, "count this machine's CPUs");
	count_places(here, places);
	return 0;
}

/* ---- memory -------------------------------------------------------------------------------------
 */

static int find_memory(struct here *here, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	uint64_t kb = 0;
	int r = fs_read(AT_FDCWD, "/proc/meminfo", FILE_MAX_SIZE, &text, NULL);

	if (r == 0)
		r = parse_line_u64(text, "MemTotal:", &kb);
	if (r < 0)
		return err_set(err, r, "read this machine's memory in /proc/meminfo");
	here->memory_mb = kb >> 10;
	return 0;
}

/* ---- the machine --------------------------------------------------------------------------------
 */

int here_find(struct here *here, const char *cgroup_root, struct err *err)
{
	struct here h = {
		.limits_memory = geteuid() == 0 && machine_has_controller(cgroup_root, "memory")};
	int r;

	if (gethostname(h.host, sizeof(h.host) - 1) < 0)
		return err_set(err, -errno, "find this machine's name");
	h.host[strcspn(h.host, ".")] = '\0';
	if (!h.host[0])
		(void)snprintf(h.host, sizeof(h.host), "localhost");
	r = find_cpus(&h, err);
	if (r == 0)
		r = find_memory(&h, err);
	if (r == 0)
		*here = h;
	return r;
}

/* ---- files --------------------------------------------------------------------------------------
 */

static int make_directory(const char *path, mode_t mode, struct err *err)
{
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return err_set(err, -errno, "make the directory '%s'", path);
	return 0;
}

/* All directories above the last name. */
static int make_parents(const char *path, struct err *err)
{
	_cleanup_free_ char *copy = strdup(path);
	char *slash = copy;
	int r = copy ? 0 : err_set(err, -ENOMEM, "make the directory '%s'", path);

	while (r == 0 && (slash = strchr(slash + 1, '/'))) {
		*slash = '\0';
		r = make_directory(copy, 0755, err);
		*slash = '/';
	}
	return r;
}

int here_make_state_dir(char **ret_dir, struct err *err)
{
	const char *base = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
	_cleanup_free_ char *dir = NULL;
	int r;

	if (geteuid() == 0)
		r = asprintf(&dir, "/var/lib/jobd");
	else if (base && base[0] == '/')
		r = asprintf(&dir, "%s/jobd", base);
	else if (home && home[0] == '/')
		r = asprintf(&dir, "%s/.local/state/jobd", home);
	else
		return err_set_text(err, -EINVAL,
			"neither XDG_STATE_HOME nor HOME is set: name a directory with --state");
	if (r < 0) {
		dir = NULL;
		return err_set(err, -ENOMEM, "name the directory for state");
	}
	r = make_parents(dir, err);
	if (r == 0)
		*ret_dir = take_ptr(dir);
	return r;
}

/* Without --mem a job has its CPUs' part of the memory. */
static char *make_text(const struct here *h)
{
	char memory[64] = "", *text = NULL;
	int n;

	if (h->limits_memory)
		(void)snprintf(memory, sizeof(memory), "DefMemPerCPU=%llu\n",
			(unsigned long long)h->memory_mb / h->cpus);
	n = asprintf(&text,
		"# This machine, as jobd --here has found it at its last start. To change it,\n"
		"# copy the file, and start jobd --conf COPY.\n"
		"ClusterName=%s\n"
		"SelectType=select/cons_tres\n"
		"SelectTypeParameters=%s\n"
		"SchedulerType=sched/backfill\n"
		"%s"
		"NodeName=%s CPUs=%u Sockets=%u CoresPerSocket=%u ThreadsPerCore=%u "
		"RealMemory=%llu State=UNKNOWN\n"
		"PartitionName=main Nodes=%s Default=YES MaxTime=INFINITE State=UP\n",
		h->host, h->limits_memory ? "CR_Core_Memory" : "CR_Core", memory, h->host, h->cpus,
		h->sockets, h->cores_per_socket, h->threads_per_core,
		(unsigned long long)h->memory_mb, h->host);
	return n < 0 ? NULL : text;
}

int here_write_conf(const struct here *h, const char *dir, char **ret_path, struct err *err)
{
	_cleanup_free_ char *text = make_text(h), *path = NULL;
	_cleanup_close_ int fd = -1;
	int r = make_directory(dir, 0700, err);

	if (r < 0)
		return r;
	if (!text || asprintf(&path, "%s/slurm.conf", dir) < 0) {
		path = NULL;
		return err_set(err, -ENOMEM, "write a configuration");
	}
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = fd < 0 ? -errno : fs_write_atomic(fd, "slurm.conf", text, strlen(text), 0644, true);
	if (r < 0)
		return err_set(err, r, "write '%s'", path);
	*ret_path = take_ptr(path);
	return 0;
}
