/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/job_namespace.h"

#include <limits.h>
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

void job_namespace_clear(struct job_namespace *n)
{
	free(n->path);
	free(n->base);
	free(n->dirs);
	free(n->init_script);
	free(n->clone_script);
	free(n->clone_epilog);
	*n = (struct job_namespace){0};
}

const char *job_namespace_entered(const struct job_namespace *n)
{
	return n->path && n->is_entered ? n->path : "";
}

static int set_path(struct job_namespace *n, uint32_t job_id, struct err *err)
{
	int size = asprintf(&n->path, "%s/%u/.ns", n->base, job_id);

	if (size < 0) {
		n->path = NULL;
		return err_set(err, -ENOMEM, "find the job's namespace");
	}
	return size < PATH_MAX
		? 0
		: err_set_text(err, -ENAMETOOLONG, "BasePath of " CONF_NAME " is too long");
}

/* "" is not there. */
static int copy(char **ret_copy, const char *text)
{
	if (!text || !*text)
		return 0;
	*ret_copy = strdup(text);
	return *ret_copy ? 0 : -ENOMEM;
}

/* ---- as slurmd sends it -------------------------------------------------------------------- */

struct packed_namespace {
	const char *base, *dirs, *init_script, *clone_script, *clone_epilog;
	uint8_t whole_step, shared;
	uint32_t clone_script_timeout_s, clone_epilog_timeout_s;
};

#define NAMESPACE(member_) UNPACK_KEEP(struct packed_namespace, member_)

/* clang-format off */
static const struct unpack_row namespace_rows[] = {
	FIELD("namespace auto_basepath", U8),
	FIELD("namespace basepath", TEXT, .keep = NAMESPACE(base)),
	FIELD("namespace dirs", TEXT, .keep = NAMESPACE(dirs)),
	FIELD("namespace entire_step_in_ns", U8, .since = SLURM_24_11,
		.keep = NAMESPACE(whole_step)),
	FIELD("namespace initscript", TEXT, .keep = NAMESPACE(init_script)),
	FIELD("namespace shared", U8, .keep = NAMESPACE(shared)),
	FIELD("namespace clonensscript", TEXT, .since = SLURM_24_11,
		.keep = NAMESPACE(clone_script)),
	FIELD("namespace clonensepilog", TEXT, .since = SLURM_24_11,
		.keep = NAMESPACE(clone_epilog)),
	FIELD("namespace clonensscript_wait", U32, .since = SLURM_24_11,
		.keep = NAMESPACE(clone_script_timeout_s)),
	FIELD("namespace clonensepilog_wait", U32, .since = SLURM_24_11,
		.keep = NAMESPACE(clone_epilog_timeout_s)),
};
/* clang-format on */

static int take_packed(
	const struct packed_namespace *p, uint32_t job_id, struct job_namespace *n, struct err *err)
{
	n->is_entered = !p->whole_step;
	n->is_shared = p->shared;
	n->clone_script_timeout_s = p->clone_script_timeout_s;
	n->clone_epilog_timeout_s = p->clone_epilog_timeout_s;
	n->dirs = strdup(p->dirs ? p->dirs : "");
	if (!n->dirs || copy(&n->base, p->base) < 0 || copy(&n->init_script, p->init_script) < 0 ||
		copy(&n->clone_script, p->clone_script) < 0 ||
		copy(&n->clone_epilog, p->clone_epilog) < 0)
		return err_set(err, -ENOMEM, "find the job's namespace");
	return set_path(n, job_id, err);
}

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
	return is_used(packed.base) ? take_packed(&packed, job_id, n, err) : 0;
}

/* ---- the file, for 22.05 ------------------------------------------------------------------- */

/* While it is read. */
struct reading {
	const char *node;
	bool found; /* node, in the list of a line */
	char *base, *init_script;
};

static int compare_node(const char *name, void *userdata)
{
	struct reading *reading = userdata;

	reading->found |= strcmp(name, reading->node) == 0;
	return 0;
}

/* NULL: it stays. */
static int replace(char **text, const char *by)
{
	char *copied = by ? strdup(by) : NULL;

	if (!by)
		return 0;
	if (!copied)
		return -ENOMEM;
	free(*text);
	*text = copied;
	return 0;
}

/* Of those for the node, the last line counts: "[NodeName=a[1-4]] BasePath=DIR [InitScript=FILE]".
 */
static int on_line(const struct conf_line *line, void *userdata, struct err *err)
{
	struct reading *reading = userdata;
	const char *base = NULL, *nodes = NULL, *init_script = NULL;
	size_t i;
	int r = 0;

	for (i = 0; i < line->n; i++) {
		if (strcasecmp(line->pairs[i].key, "BasePath") == 0)
			base = line->pairs[i].value;
		else if (strcasecmp(line->pairs[i].key, "NodeName") == 0)
			nodes = line->pairs[i].value;
		else if (strcasecmp(line->pairs[i].key, "InitScript") == 0)
			init_script = line->pairs[i].value;
	}
	reading->found = !nodes;
	if (nodes)
		r = hostlist_each(nodes, NODES_MAX, compare_node, reading);
	if (r < 0)
		return err_set(err, r, "read the nodes '%s'", nodes);
	if (!base || !reading->found)
		return 0;
	if (replace(&reading->base, base) < 0 || replace(&reading->init_script, init_script) < 0)
		return err_set(err, -ENOMEM, "read a line");
	return 0;
}

/* A Slurm that was built for several slurmds on a machine has a directory for each of them, which
 * slurmd has made or looked for when it started. */
static int find_base(const char *given, const char *node, char **ret_base)
{
	struct stat st;

	if (asprintf(ret_base, "%s/%s", given, node) < 0) {
		*ret_base = NULL;
		return -ENOMEM;
	}
	if (*node && stat(*ret_base, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	free(*ret_base);
	*ret_base = strdup(given);
	return *ret_base ? 0 : -ENOMEM;
}

static int take_reading(
	struct reading *reading, uint32_t job_id, struct job_namespace *n, struct err *err)
{
	if (!is_used(reading->base))
		return 0;
	n->is_entered = true;
	if (find_base(reading->base, reading->node, &n->base) < 0 ||
		copy(&n->init_script, reading->init_script) < 0)
		return err_set(err, -ENOMEM, "find the job's namespace");
	return set_path(n, job_id, err);
}

static int find_in_file(const char *conf_path, const char *node, uint32_t job_id,
	struct job_namespace *n, struct err *err)
{
	_cleanup_free_ char *path = site_conf_beside(conf_path, CONF_NAME);
	struct reading reading = {.node = node ? node : ""};
	int r;

	if (!path)
		return err_set(err, -ENOMEM, "read " CONF_NAME);
	r = conf_lines_read_trusted(path, on_line, &reading, err);
	if (r == 0)
		r = take_reading(&reading, job_id, n, err);
	free(reading.base);
	free(reading.init_script);
	return r;
}

static int find(const void *data, const struct slurm_frame *frame,
	const struct slurm_node_conf *conf, const struct site_conf *site, const char *conf_path,
	uint32_t job_id, struct job_namespace *n, struct err *err)
{
	if (frame->release == SLURM_22_05)
		return site->has_namespaces
			? find_in_file(conf_path, conf->node_name, job_id, n, err)
			: 0;
	return job_namespace_is_tmpfs(conf->namespace_plugin) ? decode(data, frame, job_id, n, err)
							      : 0;
}

int job_namespace_find(const void *data, const struct slurm_frame *frame,
	const struct slurm_node_conf *conf, const struct site_conf *site, const char *conf_path,
	uint32_t job_id, struct job_namespace *ret_namespace, struct err *err)
{
	struct job_namespace n = {0};
	int r = find(data, frame, conf, site, conf_path, job_id, &n, err);

	if (r < 0)
		job_namespace_clear(&n);
	*ret_namespace = n;
	return r;
}
