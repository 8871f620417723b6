/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/step_spec.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sys/resource.h>

#include "contrib/slurm/bind.h"
#include "contrib/slurm/decision.h"
#include "contrib/slurm/gres_bind.h"
#include "contrib/slurm/pmix_settings.h"
#include "contrib/slurm/site_conf.h"
#include "mpi/pmi/manager.h"
#include "stepd/base/parse.h"
#include "stepd/base/strv.h"

#define LIMIT_PREFIX "SLURM_RLIMIT_"
#define UMASK_NAME   "SLURM_UMASK"
#define PRIO_NAME    "SLURM_PRIO_PROCESS"
#define NICE_LEAST   (-20)
#define NICE_MOST    19

/* More is a flag of Slurm: none, or for each processor. */
#define MEMORY_MB_MAX (UINT64_C(1) << 40)

/* The reference is taken over; NULL is a text that is not UTF-8, or a lack of memory. */
static int set(json_t *object, const char *name, json_t *value)
{
	if (!value)
		return -EILSEQ;
	return json_object_set_new(object, name, value) < 0 ? -ENOMEM : 0;
}

const char *step_spec_getenv(const struct slurm_launch *launch, const char *name)
{
	struct slurm_strs rest = launch->env;
	size_t n = strlen(name);
	const char *entry, *value = NULL;

	while ((entry = slurm_strs_next(&rest))) {
		if (strncmp(entry, name, n) == 0 && entry[n] == '=')
			value = entry + n + 1; /* of two the later one counts */
	}
	return value;
}

/* ---- MPI ------------------------------------------------------------------------------------ */

/* "pmix_v4", and any other of its versions: the tasks' library speaks to all servers. */
const char *step_spec_find_mpi(const char *type)
{
	if (!type || !*type || strcmp(type, "none") == 0)
		return "none";
	if (strcmp(type, "pmi2") == 0)
		return "pmi2";
	return strncmp(type, "pmix", 4) == 0 ? "pmix" : NULL;
}

/* "none" also for one that is not served. */
static const char *step_spec_get_mpi(
	const struct slurm_launch *launch, const struct site_conf *site)
{
	const char *type = step_spec_getenv(launch, "SLURM_MPI_TYPE");
	const char *mpi = step_spec_find_mpi(type ? type : site->mpi_default);

	return mpi ? mpi : "none";
}

/* The user may choose it; as slurmstepd reads it. */
uint32_t step_spec_tree_width(const struct slurm_launch *launch, const struct site_conf *site)
{
	const char *text = step_spec_getenv(launch, "SLURM_PMI2_TREE_WIDTH");
	int width = text ? atoi(text) : 0;

	if (width >= 2)
		return (uint32_t)width;
	return site->tree_width >= 2 ? site->tree_width : 2;
}

bool step_spec_has_pmix(const struct slurm_launch *launch, const struct site_conf *site)
{
	return launch->kind != SLURM_KIND_BATCH && launch->kind != SLURM_KIND_EXTERN &&
		strcmp(step_spec_get_mpi(launch, site), "pmix") == 0;
}

/* Where a user chooses the order of the nodes, those of a set of ranks have another one. */
static bool has_own_order(const struct slurm_launch *launch)
{
	const char *text = step_spec_getenv(launch, "SLURM_DISTRIBUTION");

	return text && strncmp(text, "arbitrary", strlen("arbitrary")) == 0;
}

bool step_spec_is_managed(const struct slurm_launch *launch, const struct site_conf *site)
{
	const char *mpi = step_spec_get_mpi(launch, site);
	uint32_t nodes = slurm_whole_nnodes(launch);

	/* With components there are no levels between srun and the nodes. */
	if (launch->kind == SLURM_KIND_HET)
		return nodes > 1 && strcmp(mpi, "pmi2") == 0 &&
			nodes + UINT64_C(1) < step_spec_tree_width(launch, site);
	if (launch->kind != SLURM_KIND_SRUN || nodes < 2)
		return false;
	return strcmp(mpi, "pmix") == 0 ? !has_own_order(launch) : strcmp(mpi, "pmi2") == 0;
}

/* ---- arguments and environment ------------------------------------------------------------- */

static int append(json_t *argv, const char *text)
{
	return json_array_append_new(argv, json_string(text)) < 0 ? -EILSEQ : 0;
}

/* A program is called by the path at which it was found. */
static int set_argv(json_t *doc, const struct step_spec_input *in)
{
	struct slurm_strs rest = in->launch->argv;
	json_t *argv = json_array();
	const char *text = slurm_strs_next(&rest);
	int r = argv ? set(doc, "argv", argv) : -ENOMEM;
	size_t i;

	for (i = 0; r == 0 && in->before && i < in->before->n; i++)
		r = append(argv, in->before->v[i]);
	if (text && in->program)
		text = in->program;
	for (; r == 0 && text; text = slurm_strs_next(&rest))
		r = append(argv, text);
	return r;
}

/* What is srun's for the PMI server. */
static bool is_pmi2s(const char *entry)
{
	static const char *const names[] = {"SRUN_PORT=", "STEP_NODES=", "PROC_MAPPING="};
	static const char prefix[] = "SLURM_PMI2_";
	size_t i;

	if (strncmp(entry, prefix, sizeof(prefix) - 1) != 0)
		return false;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (strncmp(entry + sizeof(prefix) - 1, names[i], strlen(names[i])) == 0)
			return true;
	}
	return false;
}

/* As slurmstepd: those that are meant for it are not the tasks', nor what the step has in another
 * form. */
static bool is_consumed(const char *entry, const struct step_spec_input *in, bool pmi2)
{
	if (pmi2 && is_pmi2s(entry))
		return true;
	if (in->site->priority != SITE_PRIORITY_DEFAULT &&
		strncmp(entry, PRIO_NAME "=", strlen(PRIO_NAME) + 1) == 0)
		return true;
	if (in->launch->kind == SLURM_KIND_INTERACTIVE &&
		strncmp(entry, UMASK_NAME "=", sizeof(UMASK_NAME)) == 0)
		return true;
	return strncmp(entry, LIMIT_PREFIX, strlen(LIMIT_PREFIX)) == 0;
}

static int set_variable(json_t *env, const char *entry, const struct step_spec_input *in, bool pmi2)
{
	_cleanup_free_ char *name = NULL;
	const char *equals = strchr(entry, '=');

	if (!equals || equals == entry || is_consumed(entry, in, pmi2))
		return 0;
	name = strndup(entry, (size_t)(equals - entry));
	return name ? set(env, name, json_string(equals + 1)) : -ENOMEM;
}

static int set_text(json_t *env, const char *name, const char *value)
{
	return value ? set(env, name, json_string(value)) : 0;
}

/* What slurmstepd adds, and the agent does not. */
static int set_own_variables(json_t *env, const struct step_spec_input *in)
{
	char number[24], address[INET_ADDRSTRLEN];
	int r = set_text(env, "SLURM_TOPOLOGY_ADDR", in->node->topology_addr);

	if (r == 0)
		r = set_text(env, "SLURM_TOPOLOGY_ADDR_PATTERN", in->node->topology_pattern);
	if (r == 0 && in->launch->srun.sin_family == AF_INET &&
		inet_ntop(AF_INET, &in->launch->srun.sin_addr, address, sizeof(address)))
		r = set_text(env, "SLURM_LAUNCH_NODE_IPADDR", address);
	if (r == 0 && in->launch->resp_ports.n > 0) {
		(void)snprintf(number, sizeof(number), "%u",
			slurm_launch_port(&in->launch->resp_ports, in->node_id));
		r = set_text(env, "SLURM_SRUN_COMM_PORT", number);
	}
	if (r == 0)
		r = set_text(env, MANAGER_VARIABLE, in->pmi_manager);
	if (r == 0 && in->pmi_manager && in->launch->kind == SLURM_KIND_HET) {
		(void)snprintf(number, sizeof(number), "%u.%u", slurm_whole_job(in->launch),
			in->launch->id.step);
		r = set_text(env, MANAGER_JOB_VARIABLE, number);
	}
	if (r == 0 && in->launch->restart_count) {
		(void)snprintf(number, sizeof(number), "%u", in->launch->restart_count);
		r = set_text(env, "SLURM_RESTART_COUNT", number);
	}
	return r;
}

static int set_number(json_t *env, const char *name, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, n);
	return set_text(env, name, text);
}

/* By which the ranks of Open MPI know each other on networks of PSM2. The user's own counts. */
static int set_transport_key(json_t *env, const struct slurm_launch *l)
{
	static const char name[] = "OMPI_MCA_orte_precondition_transports";
	char text[40];

	if (l->cred_release < SLURM_24_11 || json_object_get(env, name))
		return 0;
	(void)snprintf(text, sizeof(text), "%08x%08x-%08x%08x", l->id.job, l->id.step, l->id.job,
		l->id.step);
	return set_text(env, name, text);
}

/* Those of mpi.conf replace the user's. */
static int set_pmix_variables(json_t *env, const struct step_spec_input *in)
{
	const char *rest = in->pmix ? in->pmix->env : NULL;
	struct slice name, value;
	int r = 0;

	while (r == 0 && pmix_settings_next(&rest, &name, &value)) {
		_cleanup_free_ char *key = slice_dup(name), *text = slice_dup(value);

		r = key && text ? set_text(env, key, text) : -ENOMEM;
	}
	if (r == 0)
		r = set_text(env, MANAGER_NSPACE_VARIABLE, in->pmix_nspace);
	if (r == 0 && in->pmix)
		r = set_text(env, MANAGER_TMPDIR_VARIABLE, in->pmix->tmpdir);
	return r == 0 && in->pmix ? set_transport_key(env, in->launch) : r;
}

/* What slurmstepd adds in releases after 22.05. */
static int set_later_variables(json_t *env, const struct slurm_launch *l)
{
	char sluid[SLURM_SLUID_SIZE];
	int r = set_text(env, "SLURM_JOB_LICENSES", l->licenses);

	if (r == 0 && l->start_time)
		r = set_number(env, "SLURM_JOB_START_TIME", l->start_time);
	if (r == 0 && l->end_time)
		r = set_number(env, "SLURM_JOB_END_TIME", l->end_time);
	if (r == 0 && l->cred_release >= SLURM_24_11)
		r = set_number(env, "SLURM_OOM_KILL_STEP", l->oom_kill_step != 0);
	if (r == 0 && l->cred_release >= SLURM_26_05 && l->id.sluid) {
		slurm_sluid_print(l->id.sluid, sluid);
		r = set_text(env, "SLURM_JOB_SLUID", sluid);
	}
	return r;
}

/* "4,5,6": the ranks of this node. */
static int set_gtids(json_t *env, const struct step_spec_input *in)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	uint32_t i;

	if (!f)
		return -ENOMEM;
	for (i = 0; i < in->ntasks; i++)
		(void)fprintf(f, i ? ",%u" : "%u", in->ranks[i]);
	return fclose(f) == 0 ? set_text(env, "SLURM_GTIDS", text) : -ENOMEM;
}

/* What the agent would add, of a component: srun has told the tasks of the whole step, and the
 * agent runs a step of the component's job. So the environment is complete. */
static int set_component_variables(json_t *env, const struct step_spec_input *in)
{
	const struct slurm_launch *l = in->launch;
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{"SLURM_JOB_ID", slurm_whole_job(l)},
		{"SLURM_JOBID", slurm_whole_job(l)},
		{"SLURM_STEP_ID", l->id.step},
		{"SLURM_STEPID", l->id.step},
		{"SLURM_NODEID", slurm_whole_first_node(l) + (uint64_t)in->node_id},
		{"SLURM_JOB_UID", l->uid},
		{"SLURM_JOB_GID", l->gid},
	};
	const char *mpi = json_string_value(json_object_get(env, "SLURM_MPI_TYPE"));
	size_t i;
	int r = 0;

	if (mpi && strcmp(mpi, "none") == 0) /* so slurmstepd has it */
		(void)json_object_del(env, "SLURM_MPI_TYPE");
	for (i = 0; r == 0 && i < ARRAY_SIZE(numbers); i++)
		r = set_number(env, numbers[i].name, numbers[i].value);
	if (r == 0 && l->node_cpus)
		r = set_number(env, "SLURM_CPUS_ON_NODE", l->node_cpus);
	if (r == 0)
		r = set_text(env, "SLURM_JOB_USER", l->user);
	if (r == 0)
		r = set_text(env, "SLURMD_NODENAME", in->node->node_name);
	if (r == 0 && !json_object_get(env, "TMPDIR"))
		r = set_text(env, "TMPDIR", "/tmp");
	return r == 0 ? set_gtids(env, in) : r;
}

static int set_env(json_t *doc, const struct step_spec_input *in)
{
	struct slurm_strs rest = in->launch->env;
	/* Found once: a user may have very many variables. */
	bool pmi2 = strcmp(step_spec_get_mpi(in->launch, in->site), "pmi2") == 0;
	json_t *env = json_object();
	const char *entry;
	int r = env ? set(doc, "env", env) : -ENOMEM;

	while (r == 0 && (entry = slurm_strs_next(&rest)))
		r = set_variable(env, entry, in, pmi2);
	if (r == 0)
		r = set_own_variables(env, in);
	if (r == 0)
		r = set_later_variables(env, in->launch);
	if (r == 0)
		r = set_pmix_variables(env, in);
	if (r < 0 || in->launch->kind != SLURM_KIND_HET)
		return r;
	r = set(doc, "env_complete", json_true());
	return r == 0 ? set_component_variables(env, in) : r;
}

/* ---- limits -------------------------------------------------------------------------------- */

static json_t *pack_limit(rlim_t n)
{
	return n == RLIM_INFINITY ? json_string("unlimited") : json_integer((json_int_t)n);
}

static int put_limit(json_t *rlimits, const char *field, struct rlimit limit)
{
	json_t *value = json_pack("{s:o, s:o}", "soft", pack_limit(limit.rlim_cur), "hard",
		pack_limit(limit.rlim_max));

	return value ? set(rlimits, field, value) : -ENOMEM;
}

/* A soft limit of srun's environment, "U8192" if the user has asked for it. One above the hard
 * limit of this process is as high as that, unless the user has asked for it: then it can't be had,
 * and changes nothing, as a value that can't be read. */
static int set_propagated(json_t *rlimits, const struct step_spec_input *in, enum site_limit limit)
{
	static const int resources[SITE_LIMIT_MAX] = {
		[SITE_LIMIT_CPU] = RLIMIT_CPU,
		[SITE_LIMIT_FSIZE] = RLIMIT_FSIZE,
		[SITE_LIMIT_DATA] = RLIMIT_DATA,
		[SITE_LIMIT_STACK] = RLIMIT_STACK,
		[SITE_LIMIT_CORE] = RLIMIT_CORE,
		[SITE_LIMIT_RSS] = RLIMIT_RSS,
		[SITE_LIMIT_NPROC] = RLIMIT_NPROC,
		[SITE_LIMIT_NOFILE] = RLIMIT_NOFILE,
		[SITE_LIMIT_MEMLOCK] = RLIMIT_MEMLOCK,
		[SITE_LIMIT_AS] = RLIMIT_AS,
	};
	struct rlimit now;
	char name[32];
	const char *value;
	bool asked;
	uint64_t n;

	(void)snprintf(name, sizeof(name), LIMIT_PREFIX "%s", site_limit_name(limit));
	value = step_spec_getenv(in->launch, name);
	if (!value || getrlimit(resources[limit], &now) < 0)
		return 0;
	asked = *value == 'U';
	if (asked)
		value++;
	else if (!(in->site->propagated & 1u << limit))
		return 0;
	if (parse_u64(value, 0, UINT64_MAX, &n) < 0 || (asked && n > now.rlim_max))
		return 0;
	now.rlim_cur = n < now.rlim_max ? n : now.rlim_max;
	return put_limit(rlimits, site_limit_field(limit), now);
}

uint64_t step_spec_memory_bytes(const struct slurm_launch *l)
{
	uint64_t memory_mb = l->kind == SLURM_KIND_BATCH ? l->cred_memory_mb : l->step_memory_mb;

	return memory_mb < MEMORY_MB_MAX ? memory_mb << 20 : 0;
}

uint64_t step_spec_virtual_bytes(const struct slurm_launch *l, const struct site_conf *site)
{
	return (uint64_t)((double)step_spec_memory_bytes(l) * (site->virtual_percent / 100.0));
}

static int set_rlimits(json_t *doc, const struct step_spec_input *in)
{
	uint64_t memory = step_spec_memory_bytes(in->launch);
	json_t *rlimits = json_object();
	struct rlimit nofile, limited;
	int limit, r = rlimits ? set(doc, "rlimits", rlimits) : -ENOMEM;

	for (limit = 0; r == 0 && limit < SITE_LIMIT_MAX; limit++)
		r = set_propagated(rlimits, in, (enum site_limit)limit);
	if (r == 0 && memory) {
		limited.rlim_cur = limited.rlim_max = memory;
		r = put_limit(rlimits, site_limit_field(SITE_LIMIT_RSS), limited);
		limited.rlim_cur = limited.rlim_max = step_spec_virtual_bytes(in->launch, in->site);
		if (r == 0 && in->site->virtual_percent)
			r = put_limit(rlimits, site_limit_field(SITE_LIMIT_AS), limited);
	}
	/* This process raises its own, which the agent inherits. */
	if (r == 0 && !json_object_get(rlimits, "nofile") && getrlimit(RLIMIT_NOFILE, &nofile) == 0)
		r = put_limit(rlimits, "nofile", nofile);
	return r;
}

static int get_niceness(const struct step_spec_input *in, const char *text)
{
	int nice = atoi(text), own = getpriority(PRIO_PROCESS, 0);

	if (in->site->priority == SITE_PRIORITY_NICER && nice <= own)
		nice = own + 1;
	return nice > NICE_MOST ? NICE_MOST : nice < NICE_LEAST ? NICE_LEAST : nice;
}

static int set_priority(json_t *doc, const struct step_spec_input *in)
{
	const char *text = step_spec_getenv(in->launch, PRIO_NAME);

	if (!text || in->site->priority == SITE_PRIORITY_DEFAULT)
		return 0;
	return set(doc, "nice", json_integer(get_niceness(in, text)));
}

static int set_umask(json_t *doc, const struct slurm_launch *launch)
{
	const char *value = step_spec_getenv(launch, UMASK_NAME);

	if (!value || !*value || value[strspn(value, "01234567")] || strlen(value) > 4)
		return 0;
	return set(doc, "umask", json_string(value));
}

/* ---- streams ------------------------------------------------------------------------------- */

/* slurmstepd adds the component's number to the ranks there. */
static bool has_other_ranks(const struct slurm_launch *launch)
{
	return launch->kind == SLURM_KIND_HET && launch->het.offset != SLURM_NO_VAL &&
		launch->het.offset > 0;
}

bool step_spec_find_input(const struct slurm_launch *launch, uint32_t *ret_rank)
{
	const char *name = launch->files[FIFO_STDIN];

	return launch->kind != SLURM_KIND_BATCH && launch->ntasks > 0 && name &&
		!has_other_ranks(launch) && parse_u32(name, 0, launch->ntasks - 1, ret_rank) == 0;
}

void step_spec_uses(const struct slurm_launch *launch, bool ret_uses[static FIFO_KIND_MAX])
{
	bool fifos = !step_spec_wants_terminal(launch);
	uint32_t rank;

	ret_uses[FIFO_STDIN] = fifos && (!launch->files[0] || step_spec_find_input(launch, &rank));
	ret_uses[FIFO_STDOUT] = fifos && !launch->files[1];
	ret_uses[FIFO_STDERR] = fifos && !launch->files[2];
}

bool step_spec_wants_terminal(const struct slurm_launch *launch)
{
	return launch->flags & SLURM_FLAG_PTY;
}

bool step_spec_knows_pattern(
	const struct slurm_launch *launch, const struct site_conf *site, const char *name)
{
	/* The node's number is that in the component: set_node(). */
	bool other_nodes = launch->kind == SLURM_KIND_HET && step_spec_is_managed(launch, site);
	const char *at = name;

	/* A number is a task, which alone has that stream. */
	if (strchr(name, '\\') || !name[strspn(name, "0123456789")])
		return false;
	while ((at = strchr(at, '%'))) {
		at += 1 + strspn(at + 1, "0123456789");
		if (!*at || !strchr("%jJstnNux", *at) || (*at == 't' && has_other_ranks(launch)) ||
			(*at == 'n' && other_nodes))
			return false;
		at++;
	}
	return true;
}

static int set_file(json_t *doc, const char *field, const char *pattern, bool append)
{
	json_t *stream = json_pack("{s:s, s:s}", "mode", "file", "path", pattern);
	int r = set(doc, field, stream);

	return r == 0 && append ? set(stream, "append", json_true()) : r;
}

/* The other tasks, and those of other nodes, have no streams at all. */
static int set_terminal(json_t *doc, bool here, json_int_t rank)
{
	json_t *out =
		here ? json_pack("{s:s, s:I}", "mode", "rank", "rank", rank) : json_string("none");
	int r = set(doc, "stdout", out);

	if (r == 0)
		r = set(doc, "stderr", json_string("stdout"));
	if (r == 0)
		r = set(doc, "stdin", json_string(here ? "all" : "none"));
	return r == 0 && here ? set(doc, "pty", json_pack("[I]", rank)) : r;
}

static int set_streams(json_t *doc, const struct step_spec_input *in)
{
	static const char *const fields[] = {"stdin", "stdout", "stderr"};
	const struct slurm_launch *l = in->launch;
	bool append = l->open_mode == SLURM_OPEN_APPEND ||
		(l->open_mode == SLURM_OPEN_DEFAULT && in->site->appends);
	bool uses[FIFO_KIND_MAX];
	int i, r = 0;

	step_spec_uses(l, uses);
	if (step_spec_wants_terminal(l))
		return set_terminal(doc, in->has_terminal, slurm_whole_first_rank(l));
	for (i = 0; r == 0 && i < FIFO_KIND_MAX; i++) {
		_cleanup_free_ char *fifo = NULL;

		if (i == FIFO_STDERR && l->files[1] && l->files[2] &&
			strcmp(l->files[1], l->files[2]) == 0) {
			r = set(doc, fields[i], json_pack("{s:s}", "mode", "stdout"));
		} else if (!uses[i]) {
			r = set_file(doc, fields[i], l->files[i], append && i != FIFO_STDIN);
		} else {
			fifo = fifos_pattern(in->fifos, (enum fifo_kind)i);
			r = fifo ? set_file(doc, fields[i], fifo, false) : -ENOMEM;
		}
	}
	/* What srun gets it labels itself. */
	if (r == 0 && (l->flags & SLURM_FLAG_LABEL) && !uses[FIFO_STDOUT] && !uses[FIFO_STDERR])
		r = set(doc, "label", json_true());
	return r;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static json_t *pack_numbers(const uint32_t *values, uint32_t n)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; array && i < n; i++) {
		if (json_array_append_new(array, json_integer(values[i])) < 0) {
			json_decref(array);
			array = NULL;
		}
	}
	return array;
}

/* Whom the tasks run as is the credential's to say. The superuser's variables, HOME and the like,
 * are left as they are. */
static int set_identity(json_t *doc, const struct step_spec_input *in)
{
	int r = in->launch->uid ? set(doc, "uid", json_integer(in->launch->uid)) : 0;

	if (r == 0)
		r = set(doc, "gid", json_integer(in->launch->gid));
	return r == 0 ? set(doc, "groups", pack_numbers(in->groups, in->groups_count)) : r;
}

/* Of all nodes, ["0-3,8","4-7"]: the PMI server tells them. */
static json_t *pack_layout(const struct slurm_launch *launch)
{
	struct slurm_array rest = slurm_whole_node_tasks(launch), ranks;
	json_t *nodes = json_array();
	uint32_t node, i;

	for (node = 0; nodes && node < slurm_whole_nnodes(launch); node++) {
		_cleanup_free_ char *text = NULL;
		size_t size;
		FILE *f = open_memstream(&text, &size);
		bool good = f && slurm_whole_ranks_next(launch, &rest, &ranks);

		for (i = 0; good && i < ranks.n; i++)
			good = fprintf(f, i ? ",%u" : "%u", slurm_array_u32(&ranks, i)) > 0;
		good &= f && fclose(f) == 0;
		if (!good || json_array_append_new(nodes, json_string(text)) < 0) {
			json_decref(nodes);
			nodes = NULL;
		}
	}
	return nodes;
}

/* With the layout of all nodes, where the PMI server needs it, they are those of the whole; else
 * those that are meant by a file's name. */
static int set_node(json_t *doc, const struct step_spec_input *in)
{
	const struct slurm_launch *l = in->launch;
	uint32_t id = in->node_id, count = l->nnodes;
	int r = 0;

	if (in->pmi_manager && l->kind == SLURM_KIND_HET) {
		r = slurm_whole_find_node(l, in->node->node_name, &id);
		count = slurm_whole_nnodes(l);
	}
	if (r == 0)
		r = set(doc, "node",
			json_pack("{s:s, s:I, s:I, s:i}", "name", in->node->node_name, "id",
				(json_int_t)id, "count", (json_int_t)count, "cpus",
				(int)(l->node_cpus ? l->node_cpus : 1)));
	if (r == 0 && in->pmi_manager)
		r = set(json_object_get(doc, "node"), "ranks", pack_layout(l));
	if (r == 0 && in->pmix_nspace)
		r = set(json_object_get(doc, "node"), "list",
			json_string(step_spec_getenv(l, "SLURM_STEP_NODELIST")));
	return r;
}

static int set_step(json_t *doc, const struct step_spec_input *in)
{
	const struct slurm_launch *l = in->launch;
	const char *name = step_spec_getenv(l, "SLURM_JOB_NAME");
	int r = set(doc, "job", json_integer(l->id.job));

	if (r == 0)
		r = set(doc, "step", json_integer(l->id.step));
	if (r == 0 && name && *name)
		r = set(doc, "name", json_string(name));
	if (r == 0)
		r = set_node(doc, in);
	if (r == 0)
		r = set(doc, "ntasks", json_integer(slurm_whole_ntasks(l)));
	if (r == 0)
		r = set(doc, "ranks", pack_numbers(in->ranks, in->ntasks));
	return r == 0 ? set(doc, "cwd", json_string(in->cwd)) : r;
}

/* What would differ by the site's stepd.conf. */
static int set_fixed(json_t *doc, const struct step_spec_input *in)
{
	const char *mpi = step_spec_get_mpi(in->launch, in->site);
	bool batch = in->launch->kind == SLURM_KIND_BATCH; /* its steps may have it */
	int r = set(doc, "mpi", json_string(batch ? "none" : mpi));

	/* Over nodes Slurm has no deadline, nor a way to tell the others of one. */
	if (r == 0 && in->pmi_manager)
		r = set(doc, "pmi", json_pack("{s:i}", "timeout_ms", 0));
	if (r == 0)
		r = set(doc, "hold", json_false());
	if (r == 0)
		r = set(doc, "kill_sequence",
			json_pack("[{s:s}, {s:s, s:I}, {s:s}]", "signal", "CONT", "signal", "TERM",
				"wait_ms", (json_int_t)in->site->kill_wait_s * 1000, "signal",
				"KILL"));
	if (r == 0 && in->site->lock_memory != SITE_LOCK_NONE)
		r = set(doc, "lock_memory",
			json_string(in->site->lock_memory == SITE_LOCK_ALL ? "all" : "current"));
	return r == 0 ? set(doc, "kill_on_bad_exit", json_false()) : r;
}

static bool constrains_devices(const struct step_spec_input *in)
{
	return in->site->limits && in->init->cgroup.constrains_devices;
}

/* What task/cgroup and the GRES plugins would do. */
static int set_resources(json_t *doc, const struct step_spec_input *in)
{
	int r = gres_set_env(json_object_get(doc, "env"), in->init, constrains_devices(in));

	return r == 0 && in->init->limits.any ? step_limits_set(doc, &in->init->limits) : r;
}

int step_spec_set_shared(json_t *doc, const struct step_spec_input *input)
{
	int r = set_identity(doc, input);

	if (r == 0)
		r = set_env(doc, input);
	if (r == 0)
		r = set_rlimits(doc, input);
	if (r == 0)
		r = set_priority(doc, input);
	if (r == 0 && input->site->binds)
		r = bind_set(doc, input->launch);
	if (r == 0)
		r = set_umask(doc, input->launch);
	if (r == 0 && input->init && *job_namespace_entered(&input->init->name_space))
		r = set(doc, "mount_namespace",
			json_string(job_namespace_entered(&input->init->name_space)));
	if (r == 0 && input->init)
		r = set_resources(doc, input);
	return r == 0 ? set_fixed(doc, input) : r;
}

/* ---- tasks with devices of their own ------------------------------------------------------- */

/* Of all tasks together: more than a user has. */
#define TASKS_ARGV_MAX ((size_t)64 << 20)

struct task_programs {
	const struct step_spec_input *in;
	json_t **argv; /* by rank, borrowed; NULL: all tasks have the step's */
	uint32_t n;
	size_t left; /* bytes of arguments that tasks may still have */
	json_t *current;
};

static int note_program(uint32_t rank, void *userdata)
{
	struct task_programs *p = userdata;

	if (rank < p->n && !p->argv[rank])
		p->argv[rank] = p->current;
	return 0;
}

/* Of "--multi-prog", whose entries are for one rank, or for several. Found once for all tasks: both
 * may be very many. */
static int find_programs(struct task_programs *p)
{
	const json_t *entry, *one, *ranks;
	const char *list;
	size_t i, k;
	int r = 0;

	p->n = slurm_whole_ntasks(p->in->launch);
	p->argv = calloc((size_t)p->n + 1, sizeof(*p->argv));
	if (!p->argv)
		return -ENOMEM;
	json_array_foreach (p->in->tasks, i, entry) {
		p->current = json_object_get(entry, "argv");
		one = json_object_get(entry, "rank");
		ranks = json_object_get(entry, "ranks");
		list = json_string_value(ranks);
		if (one)
			(void)note_program((uint32_t)json_integer_value(one), p);
		json_array_foreach (ranks, k, one)
			(void)note_program((uint32_t)json_integer_value(one), p);
		if (list && r == 0)
			r = parse_ranges(list, p->n, note_program, p);
	}
	return r;
}

/* False: it is more than all of them may have. */
static bool count_argv(struct task_programs *p, const json_t *argv)
{
	const json_t *text;
	size_t i, size = 0;

	json_array_foreach (argv, i, text)
		size += json_string_length(text) + 1;
	if (size > p->left)
		return false;
	p->left -= size;
	return true;
}

static int insert(json_t *argv, size_t *at, const char *text)
{
	return json_array_insert_new(argv, (*at)++, json_string(text)) < 0 ? -EILSEQ : 0;
}

/* As task_script_add(): behind the program that prints them. */
static int insert_lines(json_t *argv, const struct step_spec_input *in, const struct strv *lines)
{
	_cleanup_free_ char *node = NULL;
	bool is_there = in->before && in->before->n > 0;
	size_t i, at = 0;
	int r = 0;

	if (asprintf(&node, "node=%s", in->node->node_name) < 0) {
		node = NULL;
		return -ENOMEM;
	}
	if (!is_there)
		r = insert(argv, &at, in->task_program);
	else
		at = 1;
	if (r == 0 && !is_there)
		r = insert(argv, &at, node);
	if (r == 0 && !is_there && in->launch->cred_release >= SLURM_25_05)
		r = insert(argv, &at, "timed");
	for (i = 0; r == 0 && i < lines->n; i++)
		r = insert(argv, &at, lines->v[i]);
	return r == 0 && !is_there ? insert(argv, &at, "--") : r;
}

/* Its arguments, if they are not those of all tasks. */
static int set_task_argv(json_t *entry, const json_t *doc, struct task_programs *p, uint32_t rank,
	const struct strv *lines)
{
	const json_t *all =
		p->argv ? rank < p->n ? p->argv[rank] : NULL : json_object_get(doc, "argv");
	json_t *argv;
	int r;

	if (!p->argv && lines->n == 0)
		return 0;
	if (!count_argv(p, all))
		return -E2BIG;
	argv = json_deep_copy(all);
	r = argv ? set(entry, "argv", argv) : -EBADMSG;
	return r == 0 && lines->n > 0 ? insert_lines(argv, p->in, lines) : r;
}

static int add_task(json_t *tasks, const json_t *doc, struct task_programs *p,
	struct gres_binding *binding, uint32_t number)
{
	_cleanup_gres_task_ struct gres_task task = {0};
	uint32_t rank = p->in->ranks[number];
	json_auto_t *entry = json_pack("{s:I}", "rank", (json_int_t)rank);
	int r = entry ? gres_binding_make_task(binding, number, &task) : -ENOMEM;

	if (r == 0)
		r = set(entry, "env", json_incref(task.env));
	if (r == 0 && task.devices && constrains_devices(p->in))
		r = set(entry, "limits", json_pack("{s:O}", "devices", task.devices));
	if (r == 0)
		r = set_task_argv(entry, doc, p, rank, &task.lines);
	return r == 0 && json_array_append(tasks, entry) < 0 ? -ENOMEM : r;
}

static int set_bound_tasks(
	json_t *doc, const struct step_spec_input *in, struct gres_binding *binding)
{
	struct task_programs programs = {.in = in, .left = TASKS_ARGV_MAX};
	json_auto_t *tasks = json_array();
	uint32_t i;
	int r = tasks ? gres_binding_clear_env(binding, json_object_get(doc, "env")) : -ENOMEM;

	if (r == 0)
		r = in->tasks ? find_programs(&programs) : set_argv(doc, in);
	for (i = 0; r == 0 && i < in->ntasks; i++)
		r = add_task(tasks, doc, &programs, binding, i);
	free(programs.argv);
	return r == 0 ? set(doc, "tasks", json_incref(tasks)) : r;
}

static int set_programs(json_t *doc, const struct step_spec_input *in)
{
	_cleanup_(gres_binding_free_p) struct gres_binding *binding = NULL;
	struct err err = ERR_INIT;
	int r = in->init ? gres_binding_new(in->init, constrains_devices(in), &binding, &err) : 0;

	if (r < 0)
		return r;
	if (binding)
		return set_bound_tasks(doc, in, binding);
	return in->tasks ? set(doc, "tasks", json_deep_copy(in->tasks)) : set_argv(doc, in);
}

/* Each program's arguments with those that come before them; NULL: there is only one program. */
static int copy_programs(const struct step_spec_input *in, json_t **ret_tasks)
{
	json_auto_t *tasks = in->tasks ? json_deep_copy(in->tasks) : NULL;
	size_t i, at, count = in->before ? in->before->n : 0;
	const json_t *entry;
	int r = in->tasks && !tasks ? -ENOMEM : 0;

	json_array_foreach (tasks, i, entry) {
		json_t *argv = json_object_get(entry, "argv");

		for (at = 0; r == 0 && at < count;)
			r = insert(argv, &at, in->before->v[at]);
	}
	if (r == 0)
		*ret_tasks = json_incref(tasks);
	return r;
}

int step_spec_make(const struct step_spec_input *input, json_t **ret_doc, struct err *err)
{
	json_auto_t *doc = json_object(), *tasks = NULL;
	struct step_spec_input in = *input;
	int r = doc ? set_step(doc, input) : -ENOMEM;

	if (r == 0)
		r = step_spec_set_shared(doc, input);
	if (r == 0)
		r = copy_programs(input, &tasks);
	in.tasks = tasks;
	if (r == 0)
		r = set_programs(doc, &in);
	if (r == 0)
		r = set_streams(doc, input);
	if (r < 0)
		return err_set(err, r, "make the step's spec");
	*ret_doc = json_incref(doc);
	return 0;
}

/* ---- an extern step ------------------------------------------------------------------------ */

#define EXTERN_GRACE_MS 1000

int step_spec_make_extern(const struct step_spec_input *input, json_t **ret_doc, struct err *err)
{
	/* The node's number: several slurmds of a machine have their containers beside each other.
	 */
	json_auto_t *doc = json_pack("{s:s, s:I, s:{s:s, s:I, s:I}, s:[{s:s}, {s:s, s:i}, {s:s}]}",
		"kind", "extern", "job", (json_int_t)input->launch->id.job, "node", "name",
		input->node->node_name, "id", (json_int_t)input->node_id, "count",
		(json_int_t)input->launch->nnodes, "kill_sequence", "signal", "CONT", "signal",
		"TERM", "wait_ms", EXTERN_GRACE_MS, "signal", "KILL");
	int r = doc ? set_identity(doc, input) : -ENOMEM;

	if (r == 0 && input->init->limits.any)
		r = step_limits_set(doc, &input->init->limits);
	if (r < 0)
		return err_set(err, r, "make the extern step's spec");
	*ret_doc = json_incref(doc);
	return 0;
}
