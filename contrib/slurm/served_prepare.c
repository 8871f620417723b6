/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/served_impl.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "config.h"
#include "contrib/slurm/accounting.h"
#include "contrib/slurm/auth.h"
#include "contrib/slurm/batch.h"
#include "contrib/slurm/credential.h"
#include "contrib/slurm/job_cgroup.h"
#include "contrib/slurm/job_tmpfs.h"
#include "contrib/slurm/pam_session.h"
#include "contrib/slurm/pmi_tree.h"
#include "contrib/slurm/pmix_nodes.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/spank_serve.h"
#include "contrib/slurm/srun_io.h"
#include "contrib/slurm/step_spec.h"
#include "contrib/slurm/task_script.h"
#include "contrib/slurm/window.h"
#include "contrib/slurm/x11.h"
#include "stepd/cli/options.h"
#include "stepd/spec/fname.h"
#include "stepd/state/steps.h"

/* A step whose files take longer is handed over, before srun gives slurmd up (MessageTimeout). */
#define PROBE_TIMEOUT_MS 8000

/* ---- who runs what ------------------------------------------------------------------------- */

/* Of a component: its numbers are within the whole. */
static int check_component(const struct served *s, struct err *err)
{
	const struct slurm_launch *l = s->launch;
	uint32_t first = slurm_whole_first_rank(l), ntasks = slurm_whole_ntasks(l);
	uint32_t nnodes = slurm_whole_nnodes(l), i;

	if (ntasks > SRUN_IO_TASKS_MAX || first > ntasks || l->ntasks > ntasks - first ||
		nnodes > UINT16_MAX || slurm_whole_first_node(l) > nnodes ||
		l->nnodes > nnodes - slurm_whole_first_node(l))
		return err_set_text(err, -EBADMSG,
			"component %u has %u tasks from %u on, of %u, on %u of %u nodes",
			l->het.offset, l->ntasks, first, ntasks, l->nnodes, nnodes);
	for (i = 0; i < s->tasks.n; i++) {
		if (s->tasks.ranks[i] >= l->ntasks)
			return err_set_text(
				err, -EBADMSG, "the component has no rank %u", s->tasks.ranks[i]);
	}
	return 0;
}

static int prepare_tasks(struct served *s, struct err *err)
{
	static const uint8_t first[sizeof(uint32_t)] = {0};
	struct slurm_array ranks = {1, first}; /* of a script */
	bool script = s->launch->kind == SLURM_KIND_BATCH;
	int r = script
		? 0
		: slurm_launch_find_node(s->launch, s->init->conf.node_name, &s->setup.node_id);
	uint32_t i;

	if (r < 0)
		return err_set(err, r, "find node '%s' among those of the step, '%s'",
			s->init->conf.node_name ? s->init->conf.node_name : "",
			s->launch->nodes ? s->launch->nodes : "");
	if (!script &&
		(!slurm_launch_ranks(s->launch, s->setup.node_id, &ranks) || ranks.n == 0 ||
			s->launch->ntasks > SRUN_IO_TASKS_MAX || ranks.n > s->launch->ntasks))
		return err_set_text(err, -EBADMSG, "the message has no tasks for this node");
	s->tasks.n = ranks.n;
	s->tasks.ranks = calloc(ranks.n, sizeof(*s->tasks.ranks));
	s->tasks.whole_ranks = calloc(ranks.n, sizeof(*s->tasks.whole_ranks));
	s->tasks.v = calloc(ranks.n, sizeof(*s->tasks.v));
	if (!s->tasks.ranks || !s->tasks.whole_ranks || !s->tasks.v)
		return err_set(err, -ENOMEM, "read the step's tasks");
	for (i = 0; i < ranks.n; i++) {
		s->tasks.ranks[i] = slurm_array_u32(&ranks, i);
		s->tasks.whole_ranks[i] = slurm_whole_first_rank(s->launch) + s->tasks.ranks[i];
	}
	return s->launch->kind == SLURM_KIND_HET ? check_component(s, err) : 0;
}

static int prepare_identity(struct served *s, struct err *err)
{
	int r = slurm_auth_open(s->init->site, s->init->frame.release, &s->auth, err);

	if (r == 0)
		r = credential_check(s->launch, s->auth, s->init->site->slurm_user, err);
	if (r == 0)
		r = credential_groups(s->launch, &s->setup.groups, &s->setup.groups_count, err);
	return r == 0 ? credential_user(s->launch, &s->setup.user, err) : r;
}

/* Before the spec, which has the limits of this process. A failure is slurmstepd's to report: it
 * meets the same one. */
static int prepare_pam(struct served *s, struct err *err)
{
	const char *host = s->init->conf.hostname;

	if (!s->init->site->uses_pam || s->launch->kind == SLURM_KIND_EXTERN)
		return 0;
	if (!s->launch->user)
		return err_set_text(err, -EBADMSG, "the message has no user for PAM");
	return pam_session_open(s->launch->user, host ? host : "", &s->pam, err);
}

/* ---- what the user can reach --------------------------------------------------------------- */

/* job_name is found once: a user may have very many variables, and tasks. */
static int add_file(const struct served *s, const char *job_name, int stream, uint32_t rank,
	struct user_probe_file *file, struct err *err)
{
	char step[16];
	const struct fname_vars vars = {.job_id = s->launch->id.job,
		.step_name = step,
		.rank = rank,
		.node_id = s->setup.node_id,
		.node_name = s->init->conf.node_name,
		.user_name = s->launch->user ? s->launch->user : "",
		.job_name = job_name ? job_name : ""};

	(void)snprintf(step, sizeof(step), "%u", s->launch->id.step);
	file->flags = stream == 0 ? O_RDONLY : O_WRONLY | O_CREAT;
	return fname_expand(s->launch->files[stream], &vars, &file->path, err);
}

static void files_clear(struct user_probe_options *o)
{
	size_t i;

	for (i = 0; i < o->files_count; i++)
		free(o->files[i].path);
	free((void *)o->files);
}

/* All files of all tasks; one that several tasks share is among them several times. */
static int add_files(const struct served *s, struct user_probe_options *o, struct err *err)
{
	const char *name = step_spec_getenv(s->launch, "SLURM_JOB_NAME");
	struct user_probe_file *files;
	bool uses[FIFO_KIND_MAX];
	uint32_t i;
	int stream, r = 0;

	if (step_spec_wants_terminal(s->launch))
		return 0; /* that is all streams */
	files = calloc((size_t)s->tasks.n * 3, sizeof(*files));
	if (!files)
		return err_set(err, -ENOMEM, "look for the step's files");
	o->files = files;
	step_spec_uses(s->launch, uses);
	for (i = 0; r == 0 && i < s->tasks.n; i++) {
		for (stream = 0; r == 0 && stream < 3; stream++) {
			if (!uses[stream])
				r = add_file(s, name, stream, s->tasks.ranks[i],
					&files[o->files_count++], err);
		}
	}
	return r;
}

static mode_t get_umask(const struct slurm_launch *launch)
{
	const char *text = step_spec_getenv(launch, "SLURM_UMASK");

	return text ? (mode_t)(strtoul(text, NULL, 8) & 0777) : 022;
}

static struct user_probe_options make_probe(const struct served *s)
{
	const struct slurm_launch *launch = s->launch;
	const struct served_setup *setup = &s->setup;

	return (struct user_probe_options){.uid = launch->uid,
		.gid = launch->gid,
		.groups = setup->groups,
		.groups_count = setup->groups_count,
		.cwd = launch->cwd,
		.programs = setup->programs.names.v,
		.programs_count = setup->programs.names.n,
		.path = step_spec_getenv(launch, "PATH"),
		.makes_directories = launch->cred_release >= SLURM_23_02,
		.umask = get_umask(launch),
		.timeout_ms = PROBE_TIMEOUT_MS,
		.mount_namespace = job_namespace_entered(&s->init->name_space)};
}

static int prepare_probe(struct served *s, struct err *err)
{
	_cleanup_(files_clear) struct user_probe_options options = make_probe(s);
	int r;

	if (!options.cwd)
		return err_set_text(err, -EBADMSG, "the message has no directory");
	r = add_files(s, &options, err);
	if (r == 0)
		r = user_probe_run(&options, &s->setup.probe, err);
	/* A prolog may change the PATH, or make the program. */
	if (task_script_has_prolog(s->launch, s->init->site))
		s->setup.probe.program_error = 0;
	/* The tasks of the others would run. */
	if (r == 0 && s->setup.programs.tasks && s->setup.probe.program_error)
		return err_set(err, -s->setup.probe.program_error,
			"a program of --multi-prog, '%s'", s->setup.probe.program);
	return r;
}

/* Before the spec, which has it as the agent's own streams. */
static int prepare_terminal(struct served *s, struct err *err)
{
	const struct window_options options = {.loop = s->loop,
		.log = s->log,
		.launch = s->launch,
		.resized = served_on_resized,
		.userdata = s};

	if (!step_spec_wants_terminal(s->launch) ||
		!served_find_task(&s->tasks, slurm_whole_first_rank(s->launch)))
		return 0;
	return window_open(&options, &s->streams.window, err);
}

/* The agent's result has usage where it is written to a file. */
static int prepare_accounting(struct served *s, struct err *err)
{
	const struct accounting_options options = {.loop = s->loop,
		.log = s->log,
		.directory = s->agent.directory,
		.tres = &s->init->conf.tres,
		.node = slurm_whole_first_node(s->launch) + s->setup.node_id,
		.ranks = s->tasks.whole_ranks,
		.ntasks = s->tasks.n,
		.whole = s->launch->kind == SLURM_KIND_EXTERN,
		.cache_counts = s->init->site->accounting == SITE_ACCOUNTING_CGROUP,
		.energy = s->init->site->energy,
		.release = s->init->frame.release,
		.interval_s = site_sample_interval(s->launch->sample_interval, s->init->site),
		.polled = served_on_polled,
		.userdata = s};

	if (strv_add(&s->agent.args, "--result=/dev/null") < 0)
		return err_set(err, -ENOMEM, "account for the step");
	return accounting_open(&options, &s->accounting, err);
}

/* Arguments before those of the program. */
static int prepare_scripts(struct served *s, struct strv *before, struct err *err)
{
	int r = program_find("stepd-slurm-task", TASK_PROGRAM, &s->setup.task_program, err);

	if (r == 0 &&
		task_script_add(s->launch, s->init->site, s->init->conf.node_name,
			s->setup.task_program, before) < 0)
		r = err_set(err, -ENOMEM, "prepare the step's tasks");
	return r;
}

static struct step_spec_input make_input(const struct served *s)
{
	return (struct step_spec_input){.node = &s->init->conf,
		.launch = s->launch,
		.site = s->init->site,
		.init = s->init,
		.node_id = s->setup.node_id,
		.ranks = s->tasks.whole_ranks,
		.groups = s->setup.groups,
		.ntasks = s->tasks.n,
		.groups_count = s->setup.groups_count,
		.fifos = &s->streams.fifos,
		.tasks = s->setup.programs.tasks,
		.has_terminal = s->streams.window,
		.cwd = s->setup.probe.cwd_error ? SERVED_FALLBACK_DIR : s->launch->cwd};
}

/* As slurmstepd calls it: by the path at which it was found, but for one of a directory that is not
 * the step's. A plugin or a prolog may change where it is found, when the step begins. */
static const char *find_program_path(const struct served *s)
{
	const struct user_probe *probe = &s->setup.probe;
	struct slurm_strs argv = s->launch->argv;
	const char *name = slurm_strs_next(&argv);

	if (!name || s->setup.programs.tasks || probe->program_error ||
		s->init->site->spank_loads || task_script_has_prolog(s->launch, s->init->site) ||
		(*name != '.' && strchr(name, '/')))
		return NULL;
	return probe->program;
}

/* A batch script, in place of the next three. */
static int prepare_script(struct served *s, struct err *err)
{
	_cleanup_strv_ struct strv before = {0};
	struct user_probe_options probe = make_probe(s);
	struct step_spec_input input;
	int r = batch_new(s->init, &s->batch, err);

	if (r < 0)
		return r;
	batch_fill_probe(s->batch, &probe);
	r = user_probe_run(&probe, &s->setup.probe, err);
	if (r == 0)
		r = prepare_scripts(s, &before, err);
	if (r < 0)
		return r;
	input = make_input(s);
	input.before = &before;
	s->streams.ended = true; /* there are none */
	return batch_make_spec(s->batch, &input, &s->agent.doc, err);
}

static int prepare_pmix(struct served *s, struct step_spec_input *input, struct err *err)
{
	const struct pmix_nodes_options options = {.loop = s->loop,
		.log = s->log,
		.label = s->label,
		.auth = s->auth,
		.init = s->init,
		.settings = &s->setup.pmix,
		.fifos = &s->streams.fifos,
		.node_id = s->setup.node_id,
		.abort = served_cancel_step,
		.stop = served_stop_step,
		.drained = served_on_drained,
		.userdata = s};
	const char *path = NULL;
	int r = site_conf_find(&path, err);

	if (r == 0)
		r = pmix_settings_read(path, s->launch, &s->setup.pmix, err);
	if (r < 0)
		return r;
	input->pmix = &s->setup.pmix;
	if (!step_spec_is_managed(s->launch, s->init->site))
		return 0;
	r = pmix_nodes_open(&options, &s->pmix, err);
	if (r < 0)
		return r;
	input->pmi_manager = pmix_nodes_get_path(s->pmix);
	input->pmix_nspace = pmix_nodes_get_nspace(s->pmix);
	return 0;
}

/* In the directory of the FIFOs. */
static int prepare_pmi(struct served *s, struct step_spec_input *input, struct err *err)
{
	const struct pmi_tree_options options = {.loop = s->loop,
		.log = s->log,
		.label = s->label,
		.auth = s->auth,
		.init = s->init,
		.fifos = &s->streams.fifos,
		.node_id = slurm_whole_first_node(s->launch) + s->setup.node_id,
		.abort = served_cancel_step,
		.userdata = s};
	int r;

	if (step_spec_has_pmix(s->launch, s->init->site))
		return prepare_pmix(s, input, err);
	if (!step_spec_is_managed(s->launch, s->init->site))
		return 0;
	r = pmi_tree_open(&options, &s->pmi, err);
	if (r == 0)
		input->pmi_manager = pmi_tree_get_path(s->pmi);
	return r;
}

/* A failure is slurmstepd's to report: it meets the same one. */
static int prepare_x11(struct served *s, struct err *err)
{
	const struct x11_options options = {.loop = s->loop,
		.log = s->log,
		.auth = s->auth,
		.init = s->init,
		.groups = s->setup.groups,
		.groups_count = s->setup.groups_count,
		.home = s->setup.user.home};

	return s->launch->x11.flags ? x11_open(&options, &s->x11, err) : 0;
}

/* Likewise. Before anything that has to be in it. */
static int prepare_tmpfs(struct served *s, struct err *err)
{
	const char *path = NULL;
	int r = s->init->name_space.path ? site_conf_find(&path, err) : 0;

	if (r < 0 || !path)
		return r;
	return job_tmpfs_make(s->init, path, s->log, &s->tmpfs, err);
}

/* Which has neither tasks nor streams. */
static int prepare_extern(struct served *s, struct err *err)
{
	struct step_spec_input input = make_input(s);
	int r = served_reports_open(s, err);

	s->streams.ended = true;
	if (r == 0)
		r = prepare_tmpfs(s, err);
	if (r == 0)
		r = step_spec_make_extern(&input, &s->agent.doc, err);
	return r == 0 ? prepare_x11(s, err) : r;
}

static int prepare_spec(struct served *s, struct err *err)
{
	_cleanup_strv_ struct strv before = {0};
	struct step_spec_input input = make_input(s);
	_cleanup_free_ char *name = NULL;
	int r;

	if (asprintf(&name, "%s_%s", s->init->conf.node_name, s->label) < 0) {
		name = NULL;
		return err_set(err, -ENOMEM, "make the step's streams");
	}
	s->streams.fifos.first_rank = slurm_whole_first_rank(s->launch);
	r = fifos_open(&s->streams.fifos, name, err);
	if (r == 0)
		r = prepare_scripts(s, &before, err);
	if (r == 0)
		r = prepare_pmi(s, &input, err);
	input.before = &before;
	input.program = find_program_path(s);
	input.task_program = s->setup.task_program;
	return r == 0 ? step_spec_make(&input, &s->agent.doc, err) : r;
}

/* With the arguments that the agent has besides. */
static int prepare_spank(struct served *s, struct err *err)
{
	const struct spank_serve_options options = {.loop = s->loop,
		.log = s->log,
		.init = s->init,
		.node_id = s->setup.node_id,
		.groups = s->setup.groups,
		.groups_count = s->setup.groups_count,
		.doc = s->agent.doc,
		.args = &s->agent.args,
		.show = served_on_spank_line,
		.userdata = s};

	/* Slurm reports options whose plugin is not there. */
	if (!s->init->site->spank_loads && s->launch->options.n == 0)
		return 0;
	return spank_serve_new(&options, &s->spank, err);
}

static int prepare_agent(struct served *s, struct err *err)
{
	struct slurm_step_id id = s->launch->id;
	char label[SLURM_LABEL_SIZE];
	int r = program_find("../../stepd/cli/stepd", STEPD_PROGRAM, &s->agent.program, err);

	if (r == 0)
		r = steps_find_dir(NULL, &s->agent.runtime_dir, err);
	/* The components of one job's step are on nodes of their own. */
	id.het_component = SLURM_NO_VAL;
	slurm_step_label(&id, label);
	if (r == 0 &&
		asprintf(&s->agent.directory, "%s/%s_%s", s->agent.runtime_dir,
			s->init->conf.node_name, label) < 0) {
		s->agent.directory = NULL;
		r = err_set(err, -ENOMEM, "start the agent");
	}
	if (r == 0 && s->init->site->accounting)
		r = prepare_accounting(s, err);
	if (r == 0 &&
		(strv_add(&s->agent.args, "--quiet") < 0 ||
			strv_addf(&s->agent.args, "--runtime-dir=%s", s->agent.runtime_dir) < 0 ||
			strv_add(&s->agent.args, "--keep-result=0") < 0))
		r = err_set(err, -ENOMEM, "start the agent");
	if (r == 0)
		r = prepare_spank(s, err);
	return r == 0 && s->launch->kind != SLURM_KIND_EXTERN ? served_epilogs_open(s, err) : r;
}

/* A descriptor for each stream of each task; with fewer, a large step can't be served. The spec has
 * the tasks' own limit. */
static void raise_descriptors(struct served_streams *streams)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &streams->nofile) < 0)
		return;
	limit = streams->nofile;
	limit.rlim_cur = limit.rlim_max;
	streams->raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static int prepare_streams(struct served *s, struct err *err)
{
	struct srun_io_options options = {.loop = s->loop,
		.address = s->launch->srun,
		.version = s->init->frame.client_release,
		.node_id = s->setup.node_id,
		.attach_node_id = s->setup.node_id,
		.key = s->launch->cred_signature.bytes,
		.key_size = s->launch->cred_signature.n,
		.fifos = &s->streams.fifos,
		.uid = s->launch->uid,
		.ntasks = s->tasks.n,
		.ranks = s->tasks.ranks,
		.unbuffered = !(s->launch->flags & SLURM_FLAG_BUFFERED),
		.terminal_fd = s->streams.window ? window_get_master(s->streams.window) : -1,
		.patience_s = ATTACH_PATIENCE_S,
		.connected = served_on_streams_connected,
		.detached = served_on_detached,
		.finished = served_on_streams_finished,
		.userdata = s};

	/* So slurmstepd has it. */
	if (s->launch->id.het_component != SLURM_NO_VAL)
		options.attach_node_id += slurm_whole_first_node(s->launch);
	step_spec_uses(s->launch, options.uses);
	options.one_input = step_spec_find_input(s->launch, &options.input_rank);
	/* Of a plugin, or that the limit of memory was reached. */
	options.notes_later = task_script_has_epilog(s->launch, s->init->site) ||
		s->init->site->spank_loads || s->init->limits.has_memory;
	options.address.sin_port = htons(slurm_launch_port(&s->launch->io_ports, s->setup.node_id));
	raise_descriptors(&s->streams);
	return srun_io_open(&options, &s->streams.io, err);
}

static int prepare_srun(struct served *s, struct err *err)
{
	int r = served_reports_open(s, err);

	if (r == 0)
		r = programs_read(s->launch, &s->setup.programs, err);
	if (r == 0)
		r = prepare_probe(s, err);
	if (r == 0)
		r = prepare_terminal(s, err);
	if (r == 0)
		r = prepare_spec(s, err);
	return r == 0 ? prepare_streams(s, err) : r;
}

static int prepare_kind(struct served *s, struct err *err)
{
	switch (s->launch->kind) {
	case SLURM_KIND_BATCH:
		return prepare_script(s, err);
	case SLURM_KIND_EXTERN:
		return prepare_extern(s, err);
	default:
		return prepare_srun(s, err);
	}
}

int served_prepare(const struct slurm_init *init, const struct log *log, struct served **ret_served,
	struct err *err)
{
	_cleanup_(served_free_p) struct served *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "serve the step");
	s->init = init;
	s->launch = &init->launch;
	s->log = log;
	s->streams.fifos = (struct fifos)FIFOS_INIT;
	slurm_step_label(&s->launch->id, s->label);
	s->loop = ev_loop_new(EVFLAG_NOENV);
	if (!s->loop)
		return err_set(err, -ENOMEM, "make an event loop");
	trim_init(&s->trim);
	served_others_init(s);
	served_reports_init(s);
	r = prepare_tasks(s, err);
	if (r == 0)
		r = prepare_identity(s, err);
	if (r == 0)
		r = prepare_pam(s, err);
	if (r == 0)
		r = prepare_kind(s, err);
	if (r == 0 && init->limits.scope)
		r = job_cgroup_open(&init->limits, &s->job_cgroup, err);
	if (r == 0)
		r = prepare_agent(s, err);
	if (r == 0)
		r = served_requests_open(s, err);
	if (r == 0)
		*ret_served = take_ptr(s);
	return r;
}

void served_setup_clear(struct served_setup *setup)
{
	programs_clear(&setup->programs);
	pmix_settings_clear(&setup->pmix);
	lookup_user_clear(&setup->user);
	free(setup->task_program);
	free(setup->groups);
}
