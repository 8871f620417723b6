/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/nodes.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "stepd/api/env.h"
#include "stepd/base/fs.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/parse.h"
#include "stepd/spec/spec.h"

#define HOSTFILE_MAX (16u << 20) /* bytes */

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "list the nodes");
}

void nodes_found_clear(struct nodes_found *found)
{
	free(found->cpus);
	free(found->on_nodes);
	*found = (struct nodes_found){0};
}

/* ---- names -------------------------------------------------------------------------------- */

static int add_name(const char *name, void *userdata)
{
	return strv_add(userdata, name);
}

static int add_list(const char *source, const char *text, struct strv *names, struct err *err)
{
	int r = hostlist_each(text, SPEC_NTASKS_MAX, add_name, names);

	if (r == -ENOMEM)
		return no_memory(err);
	return r < 0
		? err_say(err, -EINVAL, "%s: '%.200s' is no list of hosts such as n1,n2 or n[1-4]",
			  source, text)
		: 0;
}

/* A host a line, or a list; "#" begins a comment. */
static int add_file(const char *file, struct strv *names, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	char *line, *rest, *save = NULL;
	int r = fs_read(AT_FDCWD, file, HOSTFILE_MAX, &text, NULL);

	if (r < 0)
		return err_set(err, r, "--hostfile: read '%s'", file);
	for (line = strtok_r(text, "\n", &save); r == 0 && line;
		line = strtok_r(NULL, "\n", &save)) {
		line[strcspn(line, "#\r")] = '\0';
		line += strspn(line, " \t");
		rest = line + strcspn(line, " \t");
		if (rest[strspn(rest, " \t")])
			return err_say(err, -EINVAL,
				"--hostfile: '%s' has more than a host, or a list, in the line '%.200s'",
				file, line);
		*rest = '\0';
		if (*line)
			r = add_list(file, line, names, err);
	}
	if (r == 0 && names->n == 0)
		return err_say(err, -EINVAL, "--hostfile: '%s' names no host", file);
	return r;
}

struct known {
	const char *name;
	uint32_t index;
};

static int compare_known(const void *a, const void *b)
{
	const struct known *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : (x->index > y->index) - (x->index < y->index);
}

/* Of a list that may name a node again: each once, in the order in which they come first;
 * ret_on_nodes has the node of each entry. */
static int make_unique(struct strv *names, uint32_t **ret_on_nodes, struct err *err)
{
	_cleanup_free_ struct known *known = calloc(names->n + 1, sizeof(*known));
	_cleanup_free_ uint32_t *on = calloc(names->n + 1, sizeof(*on));
	uint32_t i, first = 0, n = 0;

	if (!known || !on)
		return no_memory(err);
	for (i = 0; i < names->n; i++)
		known[i] = (struct known){.name = names->v[i], .index = i};
	qsort(known, names->n, sizeof(*known), compare_known);
	for (i = 0; i < names->n; i++) { /* the entry where the same name stands first */
		if (i > 0 && strcmp(known[i].name, known[first].name) != 0)
			first = i;
		on[known[i].index] = known[first].index;
	}
	for (i = 0; i < names->n; i++) {
		if (on[i] == i) {
			names->v[n] = names->v[i];
			on[i] = n++;
		} else {
			free(names->v[i]);
			on[i] = on[on[i]];
		}
	}
	names->n = n;
	names->v[n] = NULL;
	*ret_on_nodes = take_ptr(on);
	return 0;
}

/* Agents on this machine, one for each node: "host-0", "host-1". */
static int make_local_names(uint32_t count, struct strv *names, struct err *err)
{
	char host[HOST_NAME_MAX + 1] = "";
	uint32_t i;

	if (gethostname(host, sizeof(host) - 1) < 0)
		return err_set(err, -errno, "read the host's name");
	host[strcspn(host, ".")] = '\0';
	for (i = 0; i < count; i++) {
		if (strv_addf(names, count > 1 ? "%s-%u" : "%s", host, i) < 0)
			return no_memory(err);
	}
	return 0;
}

/* ---- an allocation ------------------------------------------------------------------------ */

static bool is_in_path(const char *program, const char *path)
{
	_cleanup_free_ char *file = NULL;
	size_t len;

	for (; path && *path; path += len + (path[len] == ':')) {
		len = strcspn(path, ":");
		free(take_ptr(file));
		if (asprintf(&file, "%.*s/%s", (int)len, path, program) < 0) {
			file = NULL;
			return false;
		}
		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}

/* Both: stepd's own tasks have SLURM_JOB_ID, too. */
static const char *allocation_nodes(char **env)
{
	const char *list = stepd_env_get(env, "SLURM_JOB_NODELIST");

	return list && stepd_env_get(env, "SLURM_JOB_ID") ? list : NULL;
}

/* "4(x2),8" */
static int parse_cpus(const char *text, struct nodes_found *found)
{
	uint32_t n = 0, cpus, times;
	char *end;

	found->cpus = calloc(found->count, sizeof(*found->cpus));
	if (!found->cpus)
		return -ENOMEM;
	while (n < found->count) {
		cpus = (uint32_t)strtoul(text, &end, 10);
		times = 1;
		if (strncmp(end, "(x", 2) == 0) {
			times = (uint32_t)strtoul(end + 2, &end, 10);
			end += *end == ')';
		}
		if (end == text || cpus == 0 || times == 0)
			return -EINVAL;
		for (; times > 0 && n < found->count; times--)
			found->cpus[n++] = cpus;
		if (n < found->count && *end != ',')
			return -EINVAL;
		text = end + 1;
	}
	return 0;
}

/* What can't be read is not known. */
static void read_allocation(struct steprun_options *o, char **env, struct nodes_found *found)
{
	const char *cpus = stepd_env_get(env, "SLURM_JOB_CPUS_PER_NODE");
	const char *ntasks = stepd_env_get(env, "SLURM_NTASKS");

	if (ntasks && parse_u32(ntasks, 1, SPEC_NTASKS_MAX, &found->ntasks) < 0)
		found->ntasks = 0;
	if (cpus && !o->hosts && !o->hostfile && parse_cpus(cpus, found) < 0) {
		free(found->cpus);
		found->cpus = NULL;
	}
}

/* ---- the choice --------------------------------------------------------------------------- */

static int choose_launcher(struct steprun_options *o, char **env, struct err *err)
{
	const char *text = o->launcher_text;

	if (!text && allocation_nodes(env) && is_in_path("srun", stepd_env_get(env, "PATH")))
		text = "slurm";
	if (!text)
		text = o->hosts || o->hostfile ? "ssh" : "local";
	o->here = !o->launcher_text && strcmp(text, "local") == 0 && o->nodes_asked <= 1;
	if (launcher_parse(text, &o->launcher) < 0)
		return err_say(err, -EINVAL,
			"--launcher: '%.200s' is none of local, ssh[:OPTIONS], slurm and exec:TEMPLATE, "
			"where the template has a %%c",
			text);
	return 0;
}

static int list_nodes(struct steprun_options *o, char **env, struct err *err)
{
	const char *allocated = allocation_nodes(env);
	int r = 0;

	if (o->hosts && o->hostfile)
		return err_say(err, -EINVAL, "--hosts and --hostfile conflict; give one of them");
	if (o->hosts)
		return add_list("--hosts", o->hosts, &o->nodes, err);
	if (o->hostfile)
		return add_file(o->hostfile, &o->nodes, err);
	if (o->launcher.kind == LAUNCHER_SLURM && allocated)
		return add_list("SLURM_JOB_NODELIST", allocated, &o->nodes, err);
	if (o->launcher.kind == LAUNCHER_LOCAL)
		return make_local_names(o->nodes_asked ?: 1, &o->nodes, err);
	if (o->launcher.kind == LAUNCHER_SSH || strstr(o->launcher.text, "%h"))
		return err_say(err, -EINVAL, "--launcher=%s needs nodes: give --hosts",
			launcher_kind_name(o->launcher.kind));
	if (!o->launcher.at_once)
		r = make_local_names(o->nodes_asked ?: 1, &o->nodes, err);
	return r;
}

static int limit_nodes(struct steprun_options *o, uint32_t *ret_count, struct err *err)
{
	if (o->nodes.n > SPEC_NODES_MAX)
		return err_say(err, -E2BIG, "%zu nodes are more than a step can have (%u)",
			o->nodes.n, SPEC_NODES_MAX);
	if (o->nodes.n > 0 && o->nodes_asked > o->nodes.n)
		return err_say(err, -EINVAL,
			"--nodes: %u nodes are requested, but only %zu are given", o->nodes_asked,
			o->nodes.n);
	while (o->nodes_asked && o->nodes.n > o->nodes_asked) {
		free(o->nodes.v[--o->nodes.n]);
		o->nodes.v[o->nodes.n] = NULL;
	}
	*ret_count = o->nodes.n ? (uint32_t)o->nodes.n : o->nodes_asked ?: 1;
	return 0;
}

int nodes_find(struct steprun_options *o, enum layout_kind kind, char **env,
	struct nodes_found *found, struct err *err)
{
	_cleanup_free_ uint32_t *on_nodes = NULL;
	size_t entries;
	int r = choose_launcher(o, env, err);

	if (r == 0)
		r = list_nodes(o, env, err);
	if (r < 0)
		return r;
	entries = o->nodes.n;
	if (kind == LAYOUT_ARBITRARY && !o->hosts && !o->hostfile)
		return err_say(err, -EINVAL,
			"--distribution=arbitrary needs the node of each task: give --hosts or --hostfile");
	if (o->nodes.n > 0) {
		r = make_unique(&o->nodes, &on_nodes, err);
		if (r < 0)
			return r;
	}
	if (kind == LAYOUT_ARBITRARY) {
		found->on_nodes = take_ptr(on_nodes);
		found->on_nodes_count = (uint32_t)entries;
		found->count = (uint32_t)o->nodes.n;
		return 0;
	}
	r = limit_nodes(o, &found->count, err);
	if (r == 0 && o->launcher.kind == LAUNCHER_SLURM)
		read_allocation(o, env, found);
	return r;
}
