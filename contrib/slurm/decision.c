/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/decision.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "contrib/slurm/batch_spec.h"
#include "contrib/slurm/bind.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/step_spec.h"

#define PROFILE_NONE 1u

void slurm_init_decode(
	struct slurm_init *init, const void *data, const struct slurm_frame *frame, int error)
{
	*init = (struct slurm_init){.error = error, .frame = *frame};
	if (error)
		return;
	init->error = slurm_init_decode_conf(data, frame, &init->conf, &init->err);
	if (init->error < 0)
		return;
	init->error = slurm_launch_decode(data, frame, &init->conf, &init->launch, &init->err);
	init->has_launch = init->error == 0 || init->launch.id.job;
	if (init->error)
		return;
	if (frame->gres.size == 0)
		return; /* of a release that is not served, or with a plugin that is not */
	init->error = slurm_init_decode_cgroup(data, frame, &init->cgroup, &init->err);
	/* A plugin of the site's own may have written into it what it likes. */
	if (gres_read_kinds((const uint8_t *)data + frame->gres.at, frame->gres.size,
		    frame->release, &init->kinds, &init->gres_err) < 0)
		init->kinds = (struct gres_kinds){0};
	if (frame->has_gres_conf &&
		gres_read_conf((const uint8_t *)data + frame->gres_conf.at, frame->gres_conf.size,
			&init->gres_conf, &init->gres_err) < 0)
		init->gres_conf = (struct gres_conf){0};
}

bool slurm_init_has_gres_conf(const struct slurm_init *init)
{
	const struct slurm_launch *l = &init->launch;

	if (init->error || init->frame.type != SLURM_LAUNCH_TASKS)
		return false;
	if (init->frame.release == SLURM_22_05)
		return l->accel_bind_type || l->tres_bind || l->tres_freq;
	/* Later slurmds send it to each step with GRES; it is only read where it is needed, up to
	 * 23.02 for --accel-bind, too. */
	if (!l->tres_bind && (init->frame.release >= SLURM_23_11 || !l->accel_bind_type))
		return false;
	return l->step_gres.n > 0 && (l->kind == SLURM_KIND_SRUN || l->kind == SLURM_KIND_HET);
}

/* ---- the reasons --------------------------------------------------------------------------- */

static bool is_plugin(const char *value, const char *none)
{
	return value && *value && strcmp(value, none) != 0;
}

static bool has_unknown_release(const struct slurm_init *i)
{
	return i->error == -EPROTONOSUPPORT;
}

static bool has_switch(const struct slurm_init *i)
{
	return i->launch.switch_plugin;
}

static bool is_unreadable(const struct slurm_init *i)
{
	return i->error;
}

static bool is_number(uint32_t n)
{
	return n && n != SLURM_NO_VAL;
}

static bool is_given(const char *text)
{
	return text && *text;
}

static bool has_step_manager(const struct slurm_init *i)
{
	return i->launch.has_job || is_given(i->launch.step_manager);
}

static bool wants_container(const struct slurm_init *i)
{
	return i->launch.container && *i->launch.container;
}

static bool wants_namespace(const struct slurm_init *i)
{
	return job_namespace_is_other(i->conf.namespace_plugin) || i->namespace_err.code;
}

static bool wants_tls(const struct slurm_init *i)
{
	return is_plugin(i->conf.tls_type, "tls/none");
}

static bool is_not_chosen(const struct slurm_init *i)
{
	return !i->chosen;
}

static bool has_rule(const struct slurm_init *i)
{
	return i->rule;
}

/* ---- what is not served yet ---------------------------------------------------------------- */

/* During an upgrade slurmd, srun and slurmctld may have several. */
static bool is_other_release(const struct slurm_init *i)
{
	uint16_t release = i->frame.release;

	return !slurm_release_is_served(release) || i->frame.client_release != release ||
		i->launch.cred_release != release;
}

static bool has_site_settings(const struct slurm_init *i)
{
	return !i->site || i->site->not_served.n > 0;
}

static bool wants_profile(const struct slurm_init *i)
{
	if (i->site->profile == SITE_PROFILE_NEVER)
		return false;
	if (i->launch.profile)
		return i->launch.profile != PROFILE_NONE;
	return i->site->profile == SITE_PROFILE_DEFAULT ||
		(i->site->profile == SITE_PROFILE_RELEASE && i->frame.release < SLURM_26_05);
}

/* A plugin of the site's gathers what slurmctld accounts for. */
static bool is_accounted(const struct slurm_init *i, const char *type, const char *name)
{
	struct slurm_tres_list rest = i->conf.tres;
	struct slurm_tres tres;

	while (name && slurm_tres_next(&rest, &tres)) {
		if (tres.type && tres.name && strcasecmp(tres.type, type) == 0 &&
			strcasecmp(tres.name, name) == 0)
			return true;
	}
	return false;
}

static bool has_other_usage(const struct slurm_init *i)
{
	return is_accounted(i, "ic", i->site->interconnect) ||
		is_accounted(i, "fs", i->site->filesystem);
}

/* Where processors have none to be set nothing comes of it. What a script has of its job's is not
 * in each release's message. */
static bool wants_frequency(const struct slurm_init *i)
{
	const struct slurm_launch *l = &i->launch;

	if (l->kind == SLURM_KIND_BATCH)
		return i->frame.frequencies && i->site->sets_batch_frequency;
	return i->frame.frequencies && (l->kind == SLURM_KIND_SRUN || l->kind == SLURM_KIND_HET) &&
		(i->site->sets_frequency || is_number(l->cpu_freq_min) ||
			is_number(l->cpu_freq_max) || is_number(l->cpu_freq_gov));
}

/* From 24.05 on; and the epilog at its end. */
static bool runs_prolog(const struct slurm_init *i)
{
	return i->launch.kind == SLURM_KIND_EXTERN &&
		(i->conf.prolog_flags & SLURM_PROLOG_RUN_IN_JOB);
}

static bool has_gres(const struct slurm_init *i)
{
	return i->gres_err.code;
}

static bool has_other_limits(const struct slurm_init *i)
{
	return i->limits_err.code;
}

static bool is_debugged(const struct slurm_init *i)
{
	return i->launch.flags & SLURM_FLAG_DEBUG;
}

/* From 25.05 on. */
static bool waits_for_children(const struct slurm_init *i)
{
	return i->launch.kind != SLURM_KIND_BATCH &&
		(i->launch.flags & SLURM_FLAG_WAIT_FOR_CHILDREN);
}

static bool wants_binding(const struct slurm_init *i)
{
	const struct slurm_launch *l = &i->launch;

	return is_given(l->tres_freq) || !bind_is_served(l) ||
		(!i->site->binds && (is_given(l->cpu_bind) || is_given(l->mem_bind)));
}

static const char *find_mpi(const struct slurm_init *i)
{
	const char *type = step_spec_getenv(&i->launch, "SLURM_MPI_TYPE");

	return step_spec_find_mpi(type ? type : i->site->mpi_default);
}

/* A step that mpi/pmi2 of Slurm has spawned belongs to another one. */
static bool wants_mpi(const struct slurm_init *i)
{
	const char *mpi = find_mpi(i);

	return !mpi ||
		(strcmp(mpi, "pmi2") == 0 && step_spec_getenv(&i->launch, "SLURM_PMI2_SPAWN_SEQ"));
}

/* What is for a node above goes by this node's slurmd: pmi_gather.h. */
static bool has_levels(const struct slurm_init *i)
{
	return i->launch.nnodes + UINT64_C(1) >= step_spec_tree_width(&i->launch, i->site);
}

bool slurm_needs_own_address(const struct slurm_init *i)
{
	const struct slurm_launch *l = &i->launch;

	return !i->error && i->frame.release >= SLURM_23_11 && l->kind == SLURM_KIND_SRUN &&
		has_levels(i) && step_spec_is_managed(l, i->site) &&
		strcmp(find_mpi(i), "pmi2") == 0;
}

/* The agents of a step would have to find each other. */
static bool has_mpi_nodes(const struct slurm_init *i)
{
	const struct slurm_launch *l = &i->launch;
	const char *mpi = find_mpi(i);
	uint32_t node;

	if (!mpi || strcmp(mpi, "none") == 0)
		return false;
	if (l->kind == SLURM_KIND_HET && strcmp(mpi, "pmi2") != 0)
		return true;
	if (slurm_whole_nnodes(l) == 1)
		return false;
	/* srun has a port for each component of a step that is none of such a job. */
	if (l->kind == SLURM_KIND_HET && !is_number(l->het.job))
		return true;
	if (strcmp(mpi, "pmix") == 0)
		return !step_spec_is_managed(l, i->site);
	/* Two components on a node have one socket for messages between step daemons. */
	return !step_spec_is_managed(l, i->site) ||
		(has_levels(i) && i->frame.self.sin_family != AF_INET) ||
		(l->kind == SLURM_KIND_HET &&
			slurm_whole_find_node(l, i->conf.node_name, &node) < 0);
}

static bool has_spank(const struct slurm_init *i)
{
	return i->site->spank_obstacle ||
		(i->launch.kind == SLURM_KIND_HET && i->site->spank_loads);
}

/* Labels are put into both streams of a step or into none, and srun puts them into what it gets;
 * those of a component have its offset or its number. */
static bool has_other_files(const struct slurm_init *i)
{
	const struct slurm_launch *l = &i->launch;
	bool batch = l->kind == SLURM_KIND_BATCH;
	uint32_t rank;
	int k, n = 0;

	if (step_spec_wants_terminal(l))
		return false;
	for (k = 0; k < 3; k++) {
		if (k == 0 && step_spec_find_input(l, &rank))
			continue;
		if (l->files[k] &&
			!(batch ? batch_knows_pattern(l->files[k])
				: step_spec_knows_pattern(l, i->site, l->files[k])))
			return true;
		n += k > 0 && l->files[k];
	}
	return (l->flags & SLURM_FLAG_LABEL) && (n == 1 || (n > 0 && l->kind == SLURM_KIND_HET));
}

static bool has_other_address(const struct slurm_init *i)
{
	const struct slurm_launch *l = &i->launch;
	bool srun = l->kind != SLURM_KIND_EXTERN;

	return (srun &&
		       (l->srun.sin_family != AF_INET || l->resp_ports.n == 0 ||
			       l->io_ports.n == 0)) ||
		(i->frame.parent_rank >= 0 && i->frame.parent.sin_family != AF_INET);
}

static bool is_arbitrary(const struct slurm_init *i)
{
	return i->launch.kind == SLURM_KIND_BATCH &&
		step_spec_getenv(&i->launch, "SLURM_ARBITRARY_NODELIST");
}

static const struct reason_row {
	const char *name;
	bool (*holds)(const struct slurm_init *init);
	const char *text;
} rows[SLURM_REASON_NONE] = {
	[SLURM_REASON_RELEASE] = {"release", has_unknown_release,
		"slurmd speaks a protocol that is not known here"},
	[SLURM_REASON_SWITCH] = {"switch", has_switch,
		"a switch plugin's data have no length in this release"},
	[SLURM_REASON_UNREADABLE] = {"unreadable", is_unreadable,
		"what slurmd sent is not understood"},
	[SLURM_REASON_STEP_MANAGER] = {"stepmgr", has_step_manager,
		"a step manages those of its job (enable_stepmgr)"},
	[SLURM_REASON_CONTAINER] = {"container", wants_container, "it runs in an OCI container"},
	[SLURM_REASON_NAMESPACE] = {"namespace", wants_namespace,
		"the job's namespace is made by a plugin of Slurm"},
	[SLURM_REASON_TLS] = {"tls", wants_tls, "connections are encrypted (TLSType)"},
	[SLURM_REASON_NOT_SERVED] = {"not-served", is_not_chosen,
		"steps of this kind are not served here (slurm_serve in stepd.conf)"},
	[SLURM_REASON_RULE] = {"rule", has_rule, "by a rule of the site"},
	[SLURM_REASON_OTHER_RELEASE] = {"other-release", is_other_release,
		"slurmd, srun and slurmctld are not of one release that is served"},
	[SLURM_REASON_SITE] = {"site", has_site_settings, "slurm.conf has what is not served"},
	[SLURM_REASON_PROFILE] = {"profile", wants_profile,
		"it is profiled (--profile, or the default of acct_gather.conf)"},
	[SLURM_REASON_USAGE] = {"usage", has_other_usage,
		"its use of a network or of Lustre is accounted for (AccountingStorageTRES)"},
	[SLURM_REASON_FREQUENCY] = {"frequency", wants_frequency,
		"its processors get a frequency or a governor (--cpu-freq, CpuFreqDef, "
		"batch_step_set_cpu_freq)"},
	[SLURM_REASON_PROLOG] = {"prolog", runs_prolog,
		"it runs the job's prolog and epilog (PrologFlags=RunInJob)"},
	[SLURM_REASON_GRES] = {"gres", has_gres, "its generic resources (GRES) are not served"},
	[SLURM_REASON_LIMITS] = {"limits", has_other_limits,
		"its limits (task/cgroup) can't be had here"},
	[SLURM_REASON_DEBUGGER] = {"debugger", is_debugged, "a debugger attaches to it"},
	[SLURM_REASON_CHILDREN] = {"children", waits_for_children,
		"its tasks end with the last of their processes (--wait-for-children)"},
	[SLURM_REASON_BINDING] = {"binding", wants_binding,
		"it is bound to processors without task/affinity, chooses a frequency of devices, or in "
		"24.11 is bound to devices"},
	[SLURM_REASON_MPI] = {"mpi", wants_mpi, "its MPI is served by no plugin of stepd (--mpi)"},
	[SLURM_REASON_MPI_NODES] = {"mpi-nodes", has_mpi_nodes,
		"it has several nodes, or is a het step, and its MPI can't be served there (--mpi)"},
	[SLURM_REASON_SPANK] = {"spank", has_spank, "a SPANK plugin can't be served with it"},
	[SLURM_REASON_FILES] = {"files", has_other_files,
		"some of its labels go to files, or its files have names with patterns of Slurm's "
		"own"},
	[SLURM_REASON_ADDRESS] = {"address", has_other_address,
		"srun, or the node above, has no address of IPv4"},
	[SLURM_REASON_ARBITRARY] = {"arbitrary", is_arbitrary,
		"its tasks are distributed by a list of nodes (--distribution=arbitrary)"},
};

/* A batch script is one process, on the job's first node, without an srun; an extern step has none
 * to begin with. */
static bool is_of_tasks(enum slurm_reason reason, enum slurm_step_kind kind)
{
	switch (reason) {
	case SLURM_REASON_MPI:
	case SLURM_REASON_MPI_NODES:
		return kind == SLURM_KIND_BATCH || kind == SLURM_KIND_EXTERN;
	case SLURM_REASON_ADDRESS:
		return kind == SLURM_KIND_BATCH;
	default:
		return false;
	}
}

enum slurm_reason slurm_decide(const struct slurm_init *init)
{
	size_t i;

	for (i = 0; i < SLURM_REASON_NONE; i++) {
		if (!is_of_tasks((enum slurm_reason)i, init->launch.kind) && rows[i].holds(init))
			return (enum slurm_reason)i;
	}
	return SLURM_REASON_NONE;
}

const char *slurm_reason_text(enum slurm_reason reason)
{
	return rows[reason].text;
}

const char *slurm_reason_name(enum slurm_reason reason)
{
	return rows[reason].name;
}

static void print_releases(const struct slurm_init *init, FILE *out)
{
	const char *client = slurm_release_name(init->frame.client_release),
		   *credential = slurm_release_name(init->launch.cred_release);

	(void)fprintf(out, " (they are of %s, %s and %s)", slurm_release_name(init->frame.release),
		client ? client : "another", credential ? credential : "none");
}

static void print_site(const struct slurm_init *init, FILE *out)
{
	size_t i;

	if (!init->site)
		(void)fprintf(out, ": %s", init->site_err.text);
	for (i = 0; init->site && i < init->site->not_served.n; i++)
		(void)fprintf(out, "%s %s", i > 0 ? "," : ":", init->site->not_served.v[i]);
}

/* What an operator needs besides: the number, or the place. */
static void print_detail(const struct slurm_init *init, enum slurm_reason reason, FILE *out)
{
	switch (reason) {
	case SLURM_REASON_RELEASE:
		(void)fprintf(out, " (%u)", init->frame.release);
		break;
	case SLURM_REASON_SWITCH:
		(void)fprintf(out, " (plugin %u)", init->launch.switch_plugin);
		break;
	case SLURM_REASON_UNREADABLE:
		(void)fprintf(
			out, ": %s", init->err.code ? init->err.text : strerror(-init->error));
		break;
	case SLURM_REASON_NAMESPACE:
		if (init->namespace_err.code)
			(void)fprintf(out, ": %s", init->namespace_err.text);
		else
			(void)fprintf(out, " (%s)", init->conf.namespace_plugin);
		break;
	case SLURM_REASON_RULE:
		(void)fprintf(out, " (slurm_handover in stepd.conf: %s)%s%s", init->rule,
			init->rule_err.code ? ": " : "",
			init->rule_err.code ? init->rule_err.text : "");
		break;
	case SLURM_REASON_OTHER_RELEASE:
		print_releases(init, out);
		break;
	case SLURM_REASON_SITE:
		print_site(init, out);
		break;
	case SLURM_REASON_GRES:
		(void)fprintf(out, ": %s", init->gres_err.text);
		break;
	case SLURM_REASON_LIMITS:
		(void)fprintf(out, ": %s", init->limits_err.text);
		break;
	case SLURM_REASON_SPANK:
		if (init->site->spank_obstacle)
			(void)fprintf(out, ": %s", init->site->spank_obstacle);
		break;
	default:
		break;
	}
}

void slurm_reason_print(const struct slurm_init *init, enum slurm_reason reason,
	char text[static SLURM_REASON_SIZE])
{
	FILE *out = fmemopen(text, SLURM_REASON_SIZE, "w");

	text[0] = '\0';
	if (!out)
		return; /* without memory there is no text */
	(void)fputs(rows[reason].text, out);
	print_detail(init, reason, out);
	(void)fclose(out); /* text has what fits */
	text[SLURM_REASON_SIZE - 1] = '\0';
}
