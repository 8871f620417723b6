/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/job_namespace.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "contrib/jobd/conf/lines.h"
#include "contrib/slurm/release.h"
#include "contrib/slurm/site_conf.h"
#include "stepd/base/hostlist.h"

#define CONF_NAME "job_container.conf"
#define NODES_MAX 65536u /* of a line; as for Slurm */

/* "job_container/tmpfs", "namespace/tmpfs". */
static const char *short_name(const char *plugin)
{
	const char *slash = plugin ? strchr(plugin, '/') : NULL;

	return slash ? slash + 1 : plugin ? plugin : "";
}

bool job_namespace_is_tmpfs(const char *plugin)
{
	return strcasecmp(short_name(plugin), "tmpfs") == 0;
}

bool job_namespace_is_other(const char *plugin)
{
	const char *name = short_name(plugin);

	return *name && strcasecmp(name, "none") != 0 && !job_namespace_is_tmpfs(plugin);
}

/* BasePath=none: not on this node. */
static bool is_used(const char *base)
{
	return base && *base && strncasecmp(base, "none", strlen("none")) != 0;
}

static int set_path(struct job_namespace *n, const char *base, const char *node, uint32_t job_id,
	struct err *err)
{
	int size = snprintf(n->path, sizeof(n->path), "%s%s%s/%u/.ns", base, node ? "/" : "",
		node ? node : "", job_id);

	return size < 0 || (size_t)size >= sizeof(n->path)
		? err_set_text(err, -ENAMETOOLONG, "BasePath of " CONF_NAME " is too long")
		: 0;
}

/* ---- as slurmd sends it -------------------------------------------------------------------- */

struct packed_namespace {
	const char *base;
	uint8_t whole_step;
};

#define NAMESPACE(member_) UNPACK_KEEP(struct packed_namespace, member_)

/* clang-format off */
static const struct unpack_row namespace_rows[] = {
	FIELD("namespace auto_basepath", U8),
	FIELD("namespace basepath", TEXT, .keep = NAMESPACE(base)),
	FIELD("namespace dirs", TEXT),
	FIELD("namespace entire_step_in_ns", U8, .keep = NAMESPACE(whole_step)),
	FIELD("namespace initscript", TEXT),
	FIELD("namespace shared", U8),
	FIELD("namespace clonensscript", TEXT),
	FIELD("namespace clonensepilog", TEXT),
	FIELD("namespace clonensscript_wait", U32),
	FIELD("namespace clonensepilog_wait", U32),
};
/* clang-format on */

static int decode(const void *data, const struct slurm_frame *frame, uint32_t job_id,
	struct job_namespace *n, struct err *err)
{
	struct unpack u = {.data = (const uint8_t *)data + frame->name_space.at,
		.size = frame->name_space.size,
		.release = frame->release};
	struct packed_namespace packed = {0};

	unpack_rows(&u, namespace_rows, ARRAY_SIZE(namespace_rows), &packed);
	if (u.bad || u.at != u.size)
		return err_set_text(err, -EBADMSG, CONF_NAME " is not that of release %s: %s at %s",
			slurm_release_name(frame->release), u.bad ? u.bad : "more data than fields",
			u.field ? u.field : "its end");
	n->is_made = is_used(packed.base);
	return n->is_made && !packed.whole_step ? set_path(n, packed.base, NULL, job_id, err) : 0;
}

/* ---- the file, for 22.05 ------------------------------------------------------------------- */

/* While it is read. */
struct reading {
	const char *node;
	bool found; /* node, in the list of a line */
	char *base;
};

static int compare_node(const char *name, void *userdata)
{
	struct reading *reading = userdata;

	reading->found |= strcmp(name, reading->node) == 0;
	return 0;
}

/* Of those for the node, the last line counts: "[NodeName=a[1-4]] BasePath=DIR ...". */
static int on_line(const struct conf_line *line, void *userdata, struct err *err)
{
	struct reading *reading = userdata;
	const char *base = NULL, *nodes = NULL;
	size_t i;
	int r = 0;

	for (i = 0; i < line->n; i++) {
		if (strcasecmp(line->pairs[i].key, "BasePath") == 0)
			base = line->pairs[i].value;
		else if (strcasecmp(line->pairs[i].key, "NodeName") == 0)
			nodes = line->pairs[i].value;
	}
	reading->found = !nodes;
	if (nodes)
		r = hostlist_each(nodes, NODES_MAX, compare_node, reading);
	if (r < 0)
		return err_set(err, r, "read the nodes '%s'", nodes);
	if (!base || !reading->found)
		return 0;
	free(reading->base);
	reading->base = strdup(base);
	return reading->base ? 0 : err_set(err, -ENOMEM, "read a line");
}

static int read_base(const char *conf_path, const char *node, char **ret_base, struct err *err)
{
	_cleanup_free_ char *path = site_conf_beside(conf_path, CONF_NAME);
	struct reading reading = {.node = node};
	int r;

	if (!path)
		return err_set(err, -ENOMEM, "read " CONF_NAME);
	r = conf_lines_read_trusted(path, on_line, &reading, err);
	if (r == 0)
		*ret_base = take_ptr(reading.base);
	free(reading.base);
	return r;
}

/* A Slurm that was built for several slurmds on a machine has a directory for each of them. */
static int find_in_file(const char *conf_path, const char *node, uint32_t job_id,
	struct job_namespace *n, struct err *err)
{
	_cleanup_free_ char *base = NULL;
	struct stat st;
	int r = read_base(conf_path, node ? node : "", &base, err);

	if (r < 0 || !is_used(base))
		return r;
	n->is_made = true;
	r = set_path(n, base, node, job_id, err);
	if (r == 0 && stat(n->path, &st) < 0)
		r = set_path(n, base, NULL, job_id, err);
	return r;
}

int job_namespace_find(const void *data, const struct slurm_frame *frame,
	const struct slurm_node_conf *conf, const struct site_conf *site, const char *conf_path,
	uint32_t job_id, struct job_namespace *ret_namespace, struct err *err)
{
	*ret_namespace = (struct job_namespace){0};
	if (frame->release == SLURM_22_05)
		return site->has_namespaces
			? find_in_file(conf_path, conf->node_name, job_id, ret_namespace, err)
			: 0;
	/* Of the releases between these nothing is served, and it is not read. */
	return frame->release >= SLURM_24_11 && job_namespace_is_tmpfs(conf->namespace_plugin)
		? decode(data, frame, job_id, ret_namespace, err)
		: 0;
}
