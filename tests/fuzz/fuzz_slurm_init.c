/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as what slurmd writes to a step daemon: the stream, the node's configuration, the
 * launch message with its credential, in the formats of whichever release the bytes name. Wherever
 * the stream is cut the reader knows that more has to come, and never wants what does not belong to
 * it; each text that it found is one, within the bytes; there is a reason against serving the step.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/slurm/batch_spec.h"
#include "contrib/slurm/decision.h"
#include "contrib/slurm/gres.h"
#include "contrib/slurm/gres_bind.h"
#include "contrib/slurm/site_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* Memory of just these bytes, for the sanitizer to see a read behind them. */
static ssize_t missing_of(const uint8_t *data, size_t size, struct slurm_frame *ret_frame)
{
	_cleanup_free_ void *bytes = malloc(size ? size : 1);

	require(bytes != NULL);
	if (size)
		memcpy(bytes, data, size);
	return slurm_init_missing(bytes, size, ret_frame);
}

/* As a reader goes: with what is missing at least, again and again. */
static ssize_t read_by_pieces(const uint8_t *data, size_t size, struct slurm_frame *ret_frame)
{
	size_t have = 0;
	ssize_t missing;

	while ((missing = missing_of(data, have, ret_frame)) > 0) {
		if ((size_t)missing > size - have)
			return missing;
		have += (size_t)missing;
	}
	require(missing < 0 || ret_frame->end == have);
	return missing;
}

static bool is_within(const uint8_t *data, size_t size, const char *text)
{
	const uint8_t *at = (const uint8_t *)text;

	return !text ||
		(at >= data && at < data + size && memchr(at, '\0', size - (size_t)(at - data)));
}

static void check_texts(const uint8_t *data, size_t size, struct slurm_strs strs)
{
	const char *text;
	uint32_t n = 0;

	while ((text = slurm_strs_next(&strs))) {
		require(!*text || is_within(data, size, text));
		n++;
	}
	require(strs.n == 0 && n <= size / sizeof(uint32_t));
}

static void check_init(const uint8_t *data, size_t size, const struct slurm_init *init)
{
	const struct slurm_launch *l = &init->launch;
	const struct slurm_node_conf *c = &init->conf;
	char label[SLURM_LABEL_SIZE];
	struct slurm_array ranks;
	uint32_t node;

	require(is_within(data, size, c->node_name) && is_within(data, size, c->log_file));
	require(is_within(data, size, c->switch_type) && is_within(data, size, c->tls_type));
	require(is_within(data, size, l->user) ||
		is_within(l->token_body, l->token_body_size, l->user));
	require(is_within(data, size, l->cwd));
	require(is_within(data, size, l->batch.script) && is_within(data, size, l->container));
	check_texts(data, size, l->argv);
	check_texts(data, size, l->env);
	require(l->kind < SLURM_KIND_MAX && slurm_kind_name(l->kind));
	slurm_step_label(&l->id, label);
	require(strlen(label) < sizeof(label) - 1);
	require(slurm_launch_find_node(l, c->node_name, &node) < 0 || node < l->nnodes);
	require(is_within(data, size, l->het.nodes));
	if (slurm_whole_find_node(l, c->node_name, &node) == 0) {
		require(node < slurm_whole_nnodes(l));
		require(!slurm_whole_ranks(l, node, &ranks) || ranks.n <= size / sizeof(uint32_t));
	}
}

/* What is made of a script, which is nothing where a text is not UTF-8. */
static void check_script(const struct slurm_init *init)
{
	const struct site_conf site = {.cluster = (char *)"c"};
	const struct step_spec_input input = {
		.node = &init->conf, .launch = &init->launch, .site = &site, .cwd = "/"};
	_cleanup_batch_files_ struct batch_files files = {0};
	json_auto_t *doc = NULL;
	struct err err = ERR_INIT;

	if (init->error || init->launch.kind != SLURM_KIND_BATCH || !init->launch.cwd ||
		batch_expand_files(&init->launch, &init->conf, &files, &err) < 0)
		return;
	require(files.path[1] && *files.path[1]);
	if (batch_spec_make(&input, &files, "/script", &doc, &err) == 0)
		require(json_is_object(json_object_get(doc, "env")));
}

static void check_namespace(const uint8_t *data, const struct slurm_init *init)
{
	const struct site_conf site = {0};
	struct job_namespace n;
	struct err err = ERR_INIT;

	if (init->error || init->frame.release == SLURM_22_05) /* that reads a file */
		return;
	if (job_namespace_find(
		    data, &init->frame, &init->conf, &site, "/nowhere/slurm.conf", 1, &n, &err) < 0)
		require(err.code == -EBADMSG || err.code == -ENAMETOOLONG);
	else
		require(n.base || !n.path);
	job_namespace_clear(&n);
}

/* What single tasks get of them. */
static void check_tasks(const struct slurm_init *init, bool local)
{
	const struct site_conf site = {.binds = local};
	_cleanup_(gres_binding_free_p) struct gres_binding *binding = NULL;
	struct slurm_init copy = *init;
	struct err err = ERR_INIT;
	uint32_t i;

	copy.site = &site;
	if (gres_binding_new(&copy, local, &binding, &err) < 0 || !binding)
		return;
	for (i = 0; i < 8; i++) {
		_cleanup_gres_task_ struct gres_task task = {0};

		if (gres_binding_make_task(binding, i, &task) == 0)
			require(json_is_object(task.env));
	}
}

/* What is made of its generic resources. */
static void check_gres(const struct slurm_init *init)
{
	json_auto_t *env = json_object(), *devices = NULL;
	struct err err = ERR_INIT;

	if (init->error || init->gres_err.code || gres_check(init, &err) < 0)
		return;
	require(gres_set_env(env, init, true) <= 0 && gres_set_env(env, init, false) <= 0);
	require(gres_make_devices(init, &devices) <= 0);
	check_tasks(init, true);
	check_tasks(init, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slurm_frame frame = {0}, again = {0};
	ssize_t missing = missing_of(data, size, &frame);
	char text[SLURM_REASON_SIZE];
	enum slurm_reason reason;
	struct slurm_init init;

	require(missing <= SLURM_INIT_MAX);
	require((read_by_pieces(data, size, &again) > 0) == (missing > 0));
	require(missing != 0 || (frame.end <= size && again.end == frame.end));
	slurm_init_decode(&init, data, &frame, missing > 0 ? -ENODATA : (int)missing);
	if (slurm_init_has_gres_conf(&init)) {
		missing = slurm_init_missing_gres_conf(data, size, &frame);
		require(missing <= SLURM_INIT_MAX && (missing != 0 || frame.end <= size));
		slurm_launch_clear(&init.launch);
		slurm_init_decode(&init, data, &frame, missing > 0 ? -ENODATA : (int)missing);
	}
	check_init(data, size, &init);
	check_script(&init);
	check_namespace(data, &init);
	check_gres(&init);
	reason = slurm_decide(&init);
	require(reason < SLURM_REASON_MAX);
	require(init.error == 0 || reason <= SLURM_REASON_UNREADABLE);
	slurm_reason_print(&init, reason, text);
	require(*text && strlen(text) < sizeof(text));
	slurm_launch_clear(&init.launch);
	return 0;
}
