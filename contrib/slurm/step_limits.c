/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/step_limits.h"

#include <fcntl.h>
#include <jansson.h>
#include <mntent.h>
#include <string.h>

#include "contrib/slurm/decision.h"
#include "stepd/base/bitset.h"
#include "stepd/base/fs.h"

#define MIB               (UINT64_C(1) << 20)
#define BYTES_MAX         (UINT64_C(1) << 60) /* as in a spec */
#define CONTROLLERS_BYTES 4096
#define CPUS_MAX          4096 /* bytes of a list, in a spec */
#define JOB_NAME_SIZE     16

void step_limits_clear(struct step_limits *limits)
{
	free(limits->cgroup_root);
	free(limits->scope);
	free(limits->cpus);
	json_decref(limits->devices);
	*limits = (struct step_limits){0};
}

/* ---- cores --------------------------------------------------------------------------------- */

/* The bits of this node's cores in the credential's: from first on, so many. */
struct node_bits {
	uint64_t first, count;
};

/* A core's threads, as the machine counts them: the same CPU several times where the node has been
 * given more of them than the machine has. */
static void add_core(struct bitset *cpus, const struct slurm_node_conf *node, uint32_t core)
{
	uint32_t thread, abstract;

	for (thread = 0; thread < node->threads; thread++) {
		abstract =
			(uint32_t)(((uint64_t)core * node->threads + thread) % node->block_map.n);
		(void)bitset_set(
			cpus, slurm_array_u16(&node->block_map, abstract) % node->block_map.n);
	}
}

static int add_cores(struct bitset *cpus, const struct slurm_node_conf *node,
	const struct bitset *cores, const struct node_bits *bits, struct err *err)
{
	uint64_t most = (uint64_t)node->sockets * node->cores, end = bits->first + bits->count;
	uint32_t bit;

	for (bit = bitset_next(cores, (uint32_t)bits->first); bit != BITSET_NONE && bit < end;
		bit = bitset_next(cores, bit + 1)) {
		if (bit - bits->first >= most)
			return err_set_text(err, -EBADMSG,
				"the credential has core %llu of this node, which slurmd has not",
				(unsigned long long)(bit - bits->first));
		add_core(cpus, node, (uint32_t)(bit - bits->first));
	}
	return 0;
}

static int format_cpus(const struct bitset *cpus, char **ret_text, struct err *err)
{
	size_t size = bitset_format_list(cpus, NULL, 0) + 1;
	char *text = size <= CPUS_MAX ? malloc(size) : NULL;

	if (!text)
		return err_set(
			err, size <= CPUS_MAX ? -ENOMEM : -EMSGSIZE, "limit the step's CPUs");
	(void)bitset_format_list(cpus, text, size);
	*ret_text = text;
	return 0;
}

static int find_cpus(const struct slurm_init *init, char **ret_cpus, struct err *err)
{
	_cleanup_bitset_ struct bitset cores = {0}, cpus = {0};
	const struct slurm_cores *c = &init->launch.cores;
	const struct slurm_node_conf *node = &init->conf;
	struct node_bits bits = {0};
	uint32_t id = 0;
	int r = slurm_launch_find_job_node(&init->launch, node->node_name, &id);

	if (r < 0)
		return err_set(err, r, "find node '%s' among those of the job, '%s'",
			node->node_name ? node->node_name : "", c->hosts ? c->hosts : "");
	if (!slurm_cores_find(c, id, c->step.n, &bits.first, &bits.count) ||
		bits.first + bits.count > c->step.n || node->block_map.n == 0)
		return err_set_text(err, -EBADMSG, "the credential has no cores of this node");
	r = slurm_bits_read(&c->step, &cores);
	if (r < 0)
		return err_set(err, r, "read the credential's cores");
	if (bitset_init(&cpus, node->block_map.n) < 0)
		r = err_set(err, -ENOMEM, "limit the step's CPUs");
	if (r == 0)
		r = add_cores(&cpus, node, &cores, &bits, err);
	if (r == 0 && bitset_count(&cpus) == 0)
		r = err_set_text(err, -EBADMSG, "the step has no cores of this node");
	return r == 0 ? format_cpus(&cpus, ret_cpus, err) : r;
}

/* ---- memory -------------------------------------------------------------------------------- */

static uint64_t get_part(uint64_t mb, double percent)
{
	double bytes = (double)mb * (double)MIB * (percent / 100);

	if (!(bytes > 0))
		return 0;
	return bytes < (double)BYTES_MAX ? (uint64_t)bytes : BYTES_MAX;
}

static uint64_t get_within(uint64_t bytes, uint64_t least, uint64_t most)
{
	if (bytes < least)
		return least;
	return bytes > most ? most : bytes;
}

uint64_t step_limits_job_mb(const struct slurm_launch *l)
{
	return l->kind == SLURM_KIND_BATCH ? l->cred_memory_mb : l->job_memory_mb;
}

/* What both the job's and the step's limit allow, as far as they are limits. */
static uint64_t get_step_mb(const struct slurm_launch *l, uint64_t job_mb)
{
	uint64_t step = l->kind == SLURM_KIND_BATCH ? l->cred_memory_mb : l->step_memory_mb;

	if (!step || (job_mb && job_mb < step))
		return job_mb;
	return step;
}

/* By the rules of cgroup.conf(5): parts of what is allocated, or of the node's memory where that is
 * not limited, between the least and a part of the node's memory. */
static int find_memory(const struct slurm_init *init, uint64_t mb, struct memory_limits *ret_limits,
	struct err *err)
{
	const struct slurm_cgroup_conf *c = &init->cgroup;
	uint64_t node_mb = init->conf.memory_mb;
	uint64_t most = get_part(node_mb, c->max_memory), least = get_part(c->min_memory_mb, 100);
	double allowed = mb && c->constrains_memory ? c->allowed_memory : 100;
	uint64_t soft, hard, with_swap;

	if (!node_mb)
		return err_set_text(err, -EBADMSG, "slurmd does not know the node's memory");
	if (!mb)
		mb = node_mb;
	soft = get_within(get_part(mb, 100), least, most);
	hard = get_within(get_part(mb, allowed), least, most);
	with_swap = get_within(
		hard + get_part(mb, c->allowed_swap), least, most + get_part(node_mb, c->max_swap));
	ret_limits->swap_bytes = with_swap > hard ? with_swap - hard : 0;
	ret_limits->max_bytes = c->constrains_memory ? hard : with_swap;
	if (ret_limits->max_bytes < MIB || ret_limits->max_bytes >= BYTES_MAX)
		return err_set_text(err, -EBADMSG, "a limit of %llu bytes of memory",
			(unsigned long long)ret_limits->max_bytes);
	ret_limits->high_bytes = soft < ret_limits->max_bytes ? soft : ret_limits->max_bytes;
	return 0;
}

int step_limits_find_memory(
	const struct slurm_init *init, uint64_t job_mb, struct step_limits *limits, struct err *err)
{
	int r = find_memory(init, get_step_mb(&init->launch, job_mb), &limits->step, err);

	if (r == 0)
		r = find_memory(init, job_mb, &limits->job, err);
	limits->has_memory = r == 0;
	limits->has_swap = init->cgroup.constrains_swap;
	return r;
}

/* ---- where the container is ---------------------------------------------------------------- */

static bool has_name(const char *list, const char *name)
{
	size_t size = strlen(name), n;

	for (; *list; list += n, list += strspn(list, " \n")) {
		n = strcspn(list, " \n");
		if (n == size && memcmp(list, name, n) == 0)
			return true;
	}
	return false;
}

/* A Slurm that is built for several slurmds on a machine has each one's name in it. */
static int open_scope(
	const struct slurm_cgroup_conf *conf, const char *node, char **ret_path, struct err *err)
{
	const char *name = node ? node : "";
	_cleanup_free_ char *path = NULL, *plain = NULL;
	int fd;

	if (strchr(name, '/') ||
		asprintf(&path, "%s/%s/%s_slurmstepd.scope", conf->mount, conf->slice, name) < 0) {
		path = NULL;
		return err_set(err, -ENOMEM, "find slurmd's scope");
	}
	if (asprintf(&plain, "%s/%s/slurmstepd.scope", conf->mount, conf->slice) < 0) {
		plain = NULL;
		return err_set(err, -ENOMEM, "find slurmd's scope");
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*ret_path = fd >= 0 ? take_ptr(path) : take_ptr(plain);
	if (fd < 0)
		fd = open(*ret_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 ? fd
		       : err_set(err, -EOPNOTSUPP, "slurmd's scope of cgroup v2 is not there, '%s'",
				 *ret_path);
}

/* The agent would fail where the step can't be handed over any more. */
static int check_scope(int fd, const struct slurm_cgroup_conf *c, const char *path, struct err *err)
{
	_cleanup_free_ char *controllers = NULL;
	int r = fs_read(fd, "cgroup.controllers", CONTROLLERS_BYTES, &controllers, NULL);
	const char *missing = NULL;

	if (r < 0)
		return err_set(err, r, "read '%s/cgroup.controllers'", path);
	if (c->constrains_cores && !has_name(controllers, "cpuset"))
		missing = "cpuset";
	if ((c->constrains_memory || c->constrains_swap) && !has_name(controllers, "memory"))
		missing = "memory";
	if (missing)
		return err_set_text(err, -EOPNOTSUPP, "slurmd's scope '%s' has no %s controller",
			path, missing);
	if (c->constrains_swap && faccessat(fd, "memory.swap.max", F_OK, 0) < 0)
		return err_set_text(err, -EOPNOTSUPP, "the kernel counts no swap, in '%s'", path);
	return 0;
}

static int find_scope(
	const struct slurm_cgroup_conf *conf, const char *node, char **ret_scope, struct err *err)
{
	_cleanup_close_ int fd = open_scope(conf, node, ret_scope, err);

	return fd < 0 ? fd : check_scope(fd, conf, *ret_scope, err);
}

/* slurmstepd's names. */
bool step_limits_is_job_name(const char *name)
{
	size_t size = strlen(name);

	return strncmp(name, "job_", strlen("job_")) == 0 ||
		(size == SLURM_SLUID_SIZE - 1 && *name == 's' &&
			strspn(name + 1, SLURM_SLUID_DIGITS) == size - 1);
}

static void name_job(const struct slurm_init *init, char name[static JOB_NAME_SIZE])
{
	if (init->cgroup.job_id_paths)
		(void)snprintf(name, JOB_NAME_SIZE, "job_%u", init->launch.id.job);
	else
		slurm_sluid_print(init->launch.id.sluid, name);
}

/* The job's cgroup in the scope, if that is to have limits. */
static int find_root(const struct slurm_init *init, struct step_limits *limits, struct err *err)
{
	_cleanup_free_ char *scope = NULL;
	char name[JOB_NAME_SIZE];
	int r = find_scope(&init->cgroup, init->conf.node_name, &scope, err);

	if (r < 0)
		return r;
	if (!limits->has_memory) {
		limits->cgroup_root = take_ptr(scope);
		return 0;
	}
	name_job(init, name);
	if (asprintf(&limits->cgroup_root, "%s/%s", scope, name) < 0) {
		limits->cgroup_root = NULL;
		return err_set(err, -ENOMEM, "limit the job");
	}
	limits->scope = take_ptr(scope);
	return 0;
}

/* Devices need no controller. */
static bool has_cgroup2(void)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	const struct mntent *m;
	bool found = false;

	while (f && !found && (m = getmntent(f)))
		found = strcmp(m->mnt_type, "cgroup2") == 0;
	if (f)
		(void)endmntent(f); /* always succeeds */
	return found;
}

static int check_devices(struct err *err)
{
	return has_cgroup2()
		? 0
		: err_set_text(err, -EOPNOTSUPP, "there is no cgroup v2, which limits devices");
}

static int find_devices(const struct slurm_init *init, json_t **ret_devices, struct err *err)
{
	int r = gres_make_devices(init, ret_devices);

	if (r < 0)
		return err_set(err, r, "limit the step's devices");
	return *ret_devices ? check_devices(err) : 0;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* Those of cores or memory need controllers. */
static bool needs_scope(const struct slurm_cgroup_conf *conf)
{
	return conf->constrains_cores || conf->constrains_memory || conf->constrains_swap;
}

int step_limits_find(const struct slurm_init *init, struct step_limits *limits, struct err *err)
{
	const struct slurm_cgroup_conf *c = &init->cgroup;
	bool memory = c->constrains_memory || c->constrains_swap;
	int r = 0;

	/* slurmstepd has the other nodes' slurmds end it. */
	if (memory && init->launch.oom_kill_step &&
		(init->launch.nnodes > 1 || init->launch.kind == SLURM_KIND_HET))
		return err_set_text(err, -EOPNOTSUPP,
			"a kill for lack of memory would end the step on all nodes "
			"(--oom-kill-step)");
	if (c->constrains_devices)
		r = find_devices(init, &limits->devices, err);
	if (r == 0 && c->constrains_cores)
		r = find_cpus(init, &limits->cpus, err);
	if (r == 0 && memory)
		r = step_limits_find_memory(init, step_limits_job_mb(&init->launch), limits, err);
	if (r == 0 && needs_scope(c))
		r = find_root(init, limits, err);
	limits->kills_all = limits->has_memory && init->launch.oom_kill_step;
	limits->any = limits->devices || memory || c->constrains_cores;
	return r;
}

int step_limits_check(
	const struct slurm_cgroup_conf *conf, const char *node, char **ret_root, struct err *err)
{
	_cleanup_free_ char *root = NULL;
	int r = conf->constrains_devices ? check_devices(err) : 0;

	if (r == 0 && needs_scope(conf))
		r = find_scope(conf, node, &root, err);
	if (r == 0)
		*ret_root = take_ptr(root);
	return r;
}

static int set(json_t *object, const char *name, json_t *value)
{
	return json_object_set_new(object, name, value) < 0 ? -ENOMEM : 0;
}

static int set_bytes(json_t *object, const char *name, uint64_t bytes)
{
	return set(object, name, json_integer((json_int_t)bytes));
}

int step_limits_set_memory(json_t *values, const struct step_limits *limits)
{
	int r = 0;

	if (limits->has_memory)
		r = set_bytes(values, "memory_max_bytes", limits->step.max_bytes);
	if (r == 0 && limits->has_memory)
		r = set_bytes(values, "memory_high_bytes", limits->step.high_bytes);
	if (r == 0 && limits->has_swap)
		r = set_bytes(values, "memory_swap_max_bytes", limits->step.swap_bytes);
	return r;
}

int step_limits_set(json_t *doc, const struct step_limits *limits)
{
	json_t *values = json_object();
	int r = set(doc, "limits", values);

	if (r == 0 && limits->cpus)
		r = set(values, "cpuset_cpus", json_string(limits->cpus));
	if (r == 0)
		r = step_limits_set_memory(values, limits);
	if (r == 0 && limits->kills_all)
		r = set(values, "memory_oom_group", json_true());
	if (r == 0 && limits->devices)
		r = set(values, "devices", json_incref(limits->devices));
	if (r == 0)
		r = set(doc, "limits_mode", json_string("strict"));
	if (r == 0)
		r = set(doc, "proctrack", json_string("cgroup"));
	if (r < 0 || !limits->cgroup_root)
		return r;
	r = set(doc, "cgroup_root", json_string(limits->cgroup_root));
	return r == 0 ? set(doc, "scope", json_string("no")) : r;
}
