/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slurm_decode FILE: prints what a recorded init says, as it is decoded, as a JSON object. Exit
 * status 1: it could not be decoded, and why.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "contrib/slurm/decision.h"
#include "stepd/base/fs.h"

static json_t *pack_texts(struct slurm_strs strs)
{
	json_t *array = json_array();
	const char *text;

	while ((text = slurm_strs_next(&strs)))
		(void)json_array_append_new(array, json_string(text));
	return array;
}

/* The ranks of each node. */
static json_t *pack_ranks(const struct slurm_launch *l)
{
	json_t *nodes = json_array();
	struct slurm_array values;
	uint32_t node, i;

	for (node = 0; slurm_launch_ranks(l, node, &values); node++) {
		json_t *ranks = json_array();

		for (i = 0; i < values.n; i++)
			(void)json_array_append_new(
				ranks, json_integer(slurm_array_u32(&values, i)));
		(void)json_array_append_new(nodes, ranks);
	}
	return nodes;
}

static void put(json_t *doc, const char *name, json_t *value)
{
	if (value)
		(void)json_object_set_new(doc, name, value);
}

static void put_text(json_t *doc, const char *name, const char *text)
{
	put(doc, name, text ? json_string(text) : NULL);
}

static void put_conf(json_t *doc, const struct slurm_node_conf *c)
{
	put_text(doc, "node_name", c->node_name);
	put_text(doc, "spool_dir", c->spool_dir);
	put_text(doc, "log_file", c->log_file);
	put_text(doc, "cred_type", c->cred_type);
	put(doc, "tres", json_integer(c->tres.n));
}

static void put_launch(json_t *doc, const struct slurm_launch *l)
{
	char label[SLURM_LABEL_SIZE];

	slurm_step_label(&l->id, label);
	put_text(doc, "step", label);
	put(doc, "sluid", json_boolean(l->id.sluid != 0));
	put_text(doc, "kind", slurm_kind_name(l->kind));
	put(doc, "uid", json_integer(l->uid));
	put(doc, "gid", json_integer(l->gid));
	put_text(doc, "user", l->user);
	put_text(doc, "cwd", l->cwd);
	put_text(doc, "nodes", l->nodes);
	put(doc, "ntasks", json_integer(l->ntasks));
	put(doc, "flags", json_integer(l->flags));
	put(doc, "argv", pack_texts(l->argv));
	put(doc, "env", pack_texts(l->env));
	put_text(doc, "stdin", l->files[0]);
	put_text(doc, "stdout", l->files[1]);
	put_text(doc, "stderr", l->files[2]);
	put_text(doc, "script", l->batch.script);
	put_text(doc, "partition", l->batch.partition);
	if (l->kind != SLURM_KIND_BATCH) {
		put(doc, "ranks", pack_ranks(l));
		put(doc, "nnodes", json_integer(l->nnodes));
	}
	put(doc, "signature", json_integer(l->cred_signature.n));
}

int main(int argc, char **argv)
{
	json_auto_t *doc = json_object();
	struct slurm_frame frame = {0};
	_cleanup_free_ char *bytes = NULL;
	struct slurm_init init;
	ssize_t missing;
	size_t size;
	int r = argc == 2 ? fs_read(AT_FDCWD, argv[1], SLURM_INIT_MAX, &bytes, &size) : -EINVAL;

	if (r < 0) {
		(void)fprintf(stderr, "slurm_decode: read '%s': error %d\n",
			argc == 2 ? argv[1] : "", -r);
		return 1;
	}
	missing = slurm_init_missing(bytes, size, &frame);
	slurm_init_decode(&init, bytes, &frame, missing > 0 ? -ENODATA : (int)missing);
	if (init.error) {
		(void)fprintf(stderr, "slurm_decode: '%s': error %d %s\n", argv[1], -init.error,
			init.err.code ? init.err.text : "");
		return 1;
	}
	put_text(doc, "release", slurm_release_name(frame.release));
	put_text(doc, "srun_release", slurm_release_name(frame.client_release));
	put_text(doc, "credential_release", slurm_release_name(init.launch.cred_release));
	put(doc, "tree", json_pack("[i,i,i]", frame.rank, frame.parent_rank, frame.children));
	put(doc, "rest", json_integer((json_int_t)(size - frame.end)));
	put_conf(doc, &init.conf);
	put_launch(doc, &init.launch);
	return json_dumpf(doc, stdout, JSON_INDENT(1)) < 0;
}
