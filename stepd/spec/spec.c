/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From a document to a spec: fields are read in phases (the kind, then each by itself, then the
 * layout, then what names ranks), defaults are filled in, and the whole is checked.
 */
#include "stepd/spec/spec.h"

#include <assert.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

#include "stepd/spec/spec_json.h"

#define UNKILLABLE_TIMEOUT_MS 60000
#define SUSPEND_TIMEOUT_MS    10000
#define TERM_WAIT_MS          30000
#define LIMIT_SIGNAL_MS       60000
#define PMI_TIMEOUT_MS        300000
#define WIRE_FANOUT           16
#define WIRE_CONNECT_MS       60000

void spec_override_clear(struct spec_override *o)
{
	free(o->ranks);
	strv_clear(&o->argv);
	free(o->cwd);
	strv_clear(&o->env);
	*o = (struct spec_override){0};
}

static void spec_clear(struct spec *spec)
{
	size_t i;

	free(spec->text);
	free(spec->step_name);
	free(spec->job_name);
	free(spec->node_name);
	free(spec->node_list);
	strv_clear(&spec->node_names);
	free(spec->tasks_per_node);
	free(spec->rank_nodes);
	free(spec->ranks);
	strv_clear(&spec->argv);
	strv_clear(&spec->env);
	free(spec->cwd);
	free(spec->script);
	for (i = 0; i < spec->overrides_count; i++)
		spec_override_clear(&spec->overrides[i]);
	free(spec->overrides);
	free(spec->rank_entries);
	free(spec->user);
	free(spec->group);
	strv_clear(&spec->groups);
	free(spec->rlimits);
	limits_clear(&spec->limits);
	limits_clear(&spec->task_limits);
	bind_text_clear(&spec->cpu_bind);
	bind_text_clear(&spec->mem_bind);
	free(spec->distribution);
	free(spec->topology);
	free(spec->in.pattern);
	free(spec->out.pattern);
	free(spec->err.pattern);
	free(spec->proctrack);
	free(spec->mpi);
	spec_wire_clear(&spec->wire);
	free(spec->cgroup_root);
	free(spec->kill_sequence);
	*spec = (struct spec){.wire = {.listen_fd = -1}};
}

struct spec *spec_free(struct spec *spec)
{
	if (spec)
		spec_clear(spec);
	free(spec);
	return NULL;
}

static void draft_clear(struct spec_draft *draft)
{
	spec_clear(&draft->spec);
	free(draft->ranks.v);
	free(draft->map_ranks.v);
	free(draft->map_counts);
}

/* ---- defaults ----------------------------------------------------------------------------- */

static int default_text(char **text, const char *value, struct err *err)
{
	if (*text)
		return 0;
	*text = strdup(value);
	return *text ? 0 : spec_no_memory(err);
}

static int default_node_name(struct spec *spec, struct err *err)
{
	const struct spec_at *at = SPEC_AT(SPEC_AT(NULL, "node"), "name");
	char name[HOST_NAME_MAX + 1];

	if (spec->node_name)
		return 0;
	if (gethostname(name, sizeof(name)) < 0)
		return err_set(err, -errno, "node.name: is missing, and the host's can't be read");
	name[sizeof(name) - 1] = '\0';
	name[strcspn(name, ".")] = '\0';
	if (!*name || spec_node_name_problem(name))
		return spec_bad(
			err, at, "is missing, and the host's name '%s' can't be used", name);
	return default_text(&spec->node_name, name, err);
}

static int default_step_name(struct spec *spec, struct err *err)
{
	if (spec->kind == STEPD_STEP_BATCH)
		spec->step_id = STEPD_STEP_ID_BATCH;
	if (spec->kind == STEPD_STEP_EXTERN)
		spec->step_id = STEPD_STEP_ID_EXTERN;
	if (spec->kind != STEPD_STEP_NORMAL)
		return default_text(&spec->step_name, spec_kind_names[spec->kind], err);
	if (asprintf(&spec->step_name, "%u", spec->step_id) < 0) {
		spec->step_name = NULL;
		return spec_no_memory(err);
	}
	return 0;
}

static int default_job_name(struct spec *spec, struct err *err)
{
	const struct spec_override *o = spec->overrides;
	const char *program, *slash;

	if (spec->kind != STEPD_STEP_NORMAL)
		return default_text(&spec->job_name, spec_kind_names[spec->kind], err);
	while (spec->argv.n == 0 && o->ranks_count == 0)
		o++; /* there is one: check_programs() */
	program = spec->argv.n ? spec->argv.v[0] : o->argv.v[0];
	slash = strrchr(program, '/');
	return default_text(&spec->job_name, slash && slash[1] ? slash + 1 : program, err);
}

static int default_kill_sequence(struct spec *spec, struct err *err)
{
	static const struct spec_kill sequence[] = {
		{.signal = SIGCONT},
		{.signal = SIGTERM, .wait_ms = TERM_WAIT_MS},
		{.signal = SIGKILL},
	};

	if (spec->kill_sequence)
		return 0;
	spec->kill_sequence = malloc(sizeof(sequence));
	if (!spec->kill_sequence)
		return spec_no_memory(err);
	memcpy(spec->kill_sequence, sequence, sizeof(sequence));
	spec->kill_sequence_count = ARRAY_SIZE(sequence);
	return 0;
}

static int fill_defaults(struct spec *spec, struct err *err)
{
	int r = default_node_name(spec, err);

	if (r == 0)
		r = default_step_name(spec, err);
	if (r == 0)
		r = default_job_name(spec, err);
	if (r == 0)
		r = default_text(&spec->proctrack, "auto", err);
	if (r == 0)
		r = default_text(&spec->mpi, "none", err);
	if (r == 0)
		r = default_text(
			&spec->wire.auth, spec->wire.secret_number ? "secret" : "munge", err);
	if (r == 0)
		r = default_kill_sequence(spec, err);
	return r;
}

/* ---- checks ------------------------------------------------------------------------------- */

static int check_kinds(const struct spec_draft *draft, struct err *err)
{
	const struct spec_field *fields;
	size_t n, i;
	int r = 0;

	fields = spec_table_get(SPEC_TABLE_STEP, &n);
	for (i = 0; i < n && r == 0; i++) {
		if (!fields[i].kinds || fields[i].kinds & 1u << draft->spec.kind)
			continue;
		if (json_object_get(draft->doc, fields[i].name))
			r = spec_collect(spec_bad(err, SPEC_AT(NULL, fields[i].name),
						 "is not for a step of kind '%s'",
						 spec_kind_names[draft->spec.kind]),
				err);
	}
	return r;
}

/* Every task of this node has a program, by its entry in tasks or by the step. */
static int check_programs(const struct spec *spec, struct err *err)
{
	uint64_t covered = 0;
	size_t i;

	if (spec->argv.n > 0 && !spec->argv.v[0][0])
		return spec_bad(err, SPEC_AT_INDEX(SPEC_AT(NULL, "argv"), 0), "is empty");
	if (spec->argv.n > 0)
		return 0;
	for (i = 0; i < spec->overrides_count; i++)
		covered += spec->overrides[i].argv.n > 0 ? spec->overrides[i].ranks_count : 0;
	if (covered == spec->local_ntasks)
		return 0; /* no rank is in two entries */
	if (covered == 0)
		return spec_bad(
			err, SPEC_AT(NULL, "argv"), "is missing: there is no program to run");
	return spec_bad(err, SPEC_AT(NULL, "argv"),
		"is missing: %llu of this node's %u tasks have no program in tasks either",
		(unsigned long long)(spec->local_ntasks - covered), spec->local_ntasks);
}

static int check_mpi(const struct spec *spec, struct err *err)
{
	if (!spec->mpi || strcmp(spec->mpi, "none") == 0 || strcmp(spec->mpi, "mpi/none") == 0)
		return 0;
	return spec_bad(err, SPEC_AT(NULL, "mpi"),
		"'%s' is not for a step of kind '%s': give none or nothing", spec->mpi,
		spec_kind_names[spec->kind]);
}

static int check_batch(const struct spec *spec, struct err *err)
{
	if (!spec->script)
		return spec_bad(err, SPEC_AT(NULL, "script"),
			"is missing: a batch step needs script or script_base64");
	return check_mpi(spec, err);
}

static int check_grace(const struct spec *spec, const json_t *doc, struct err *err)
{
	if (!json_object_get(doc, "kill_on_bad_exit_grace_ms") || spec->kill_on_bad_exit)
		return 0;
	return spec_bad(err, SPEC_AT(NULL, "kill_on_bad_exit_grace_ms"),
		"needs kill_on_bad_exit to be true");
}

static int check_limit_signal(const struct spec *spec, const json_t *doc, struct err *err)
{
	static const char *const details[] = {"time_limit_signal_ms", "time_limit_signal_to"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(details) && !spec->time_limit_signal; i++) {
		if (json_object_get(doc, details[i]))
			return spec_bad(err, SPEC_AT(NULL, details[i]), "needs time_limit_signal");
	}
	if (spec->time_limit_signal && !spec->time_limit_ms)
		return spec_bad(err, SPEC_AT(NULL, "time_limit_signal"),
			"needs a time limit: give time_limit_ms (--time or --time-limit), too");
	return 0;
}

static int check_whole(const struct spec *spec, const json_t *doc, struct err *err)
{
	static int (*const by_kind[STEPD_STEP_KIND_MAX])(const struct spec *, struct err *) = {
		[STEPD_STEP_NORMAL] = check_programs,
		[STEPD_STEP_BATCH] = check_batch,
		[STEPD_STEP_EXTERN] = check_mpi,
	};
	int r = spec_collect(check_grace(spec, doc, err), err);

	if (r == 0)
		r = spec_collect(check_limit_signal(spec, doc, err), err);
	if (r == 0)
		r = spec_collect(spec_check_wire(spec, err), err);
	return r < 0 ? r : spec_collect(by_kind[spec->kind](spec, err), err);
}

/* ---- entry points ------------------------------------------------------------------------ */

static int read_ranks(struct spec_draft *draft, struct err *err)
{
	int r = spec_layout(draft, err);

	if (r < 0)
		return spec_collect(r, err);
	return spec_read_phase(SPEC_PHASE_RANKS, draft, err);
}

static int read_draft(struct spec_draft *draft, struct err *err)
{
	int r = spec_check_object(SPEC_TABLE_STEP, NULL, draft->doc, err);

	if (r == 0)
		r = spec_read_phase(SPEC_PHASE_KIND, draft, err);
	if (r == 0 && !draft->layout_wrong)
		r = check_kinds(draft, err);
	if (r == 0)
		r = spec_read_phase(SPEC_PHASE_STEP, draft, err);
	if (r == 0 && !draft->layout_wrong)
		r = read_ranks(draft, err);
	/* The whole is judged, and made, of parts that are right. */
	if (r == 0 && !spec_is_wrong(err))
		r = check_whole(&draft->spec, draft->doc, err);
	if (r == 0 && spec_is_wrong(err))
		return -EINVAL;
	return r < 0 ? r : fill_defaults(&draft->spec, err);
}

int spec_from_json(const json_t *doc, struct spec **ret_spec, struct err *err)
{
	_cleanup_(draft_clear) struct spec_draft draft = {
		.doc = doc,
		.spec =
			{
				.job_id = (uint32_t)getpid(),
				.node_count = 1,
				.in = {.mode = SPEC_STREAM_NONE},
				.hold = true,
				.pmi = {.timeout_ms = PMI_TIMEOUT_MS,
					.memory_bytes = SPEC_PMI_MEMORY_DEFAULT},
				.wire =
					{
						.listen_fd = -1,
						.fanout = WIRE_FANOUT,
						.connect_timeout_ms = WIRE_CONNECT_MS,
					},
				.time_limit_signal_ms = LIMIT_SIGNAL_MS,
				.unkillable_timeout_ms = UNKILLABLE_TIMEOUT_MS,
				.suspend_timeout_ms = SUSPEND_TIMEOUT_MS,
			},
	};
	struct spec *spec;
	int r;

	assert(doc);
	r = read_draft(&draft, err);
	if (r < 0)
		return r;
	draft.spec.text = spec_dump(doc);
	if (!draft.spec.text)
		return spec_no_memory(err);
	spec = malloc(sizeof(*spec));
	if (!spec)
		return spec_no_memory(err);
	*spec = draft.spec;
	draft.spec = (struct spec){.wire = {.listen_fd = -1}};
	*ret_spec = spec;
	return 0;
}

int spec_from_text(const char *text, size_t size, struct spec **ret_spec, struct err *err)
{
	json_t *doc = NULL;
	int r = spec_json_load(text, size, &doc, err);

	if (r == 0)
		r = spec_from_json(doc, ret_spec, err);
	json_decref(doc);
	return r;
}
