/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/jobd_cluster.h"

#include <err.h>

#include "contrib/jobd/select/use.h"
#include "stepd/base/err.h"
#include "stepd/base/hostlist.h"
#include "tests/lib/scratch.h"

static void fill_nodes(struct cluster *c)
{
	uint32_t i, cores = 0;

	c->nodes = calloc(c->conf->nodes_count, sizeof(*c->nodes));
	if (!c->nodes)
		errx(99, "no memory");
	for (i = 0; i < c->conf->nodes_count; i++) {
		const struct conf_node *n = &c->conf->nodes[i];

		c->nodes[i] = (node_record_t){.name = n->name,
			.index = i,
			.node_state = n->state,
			.cpus = n->cpus,
			.tot_sockets = n->sockets,
			.cores = n->cores_per_socket,
			.threads = n->threads_per_core,
			.tot_cores = (uint32_t)n->sockets * n->cores_per_socket,
			.core_offset = cores,
			.real_memory = n->real_memory,
			.mem_spec_limit = n->mem_spec_limit,
			.weight = n->weight};
		cores += c->nodes[i].tot_cores;
	}
	node_record_table_ptr = c->nodes;
	node_record_count = (int)c->conf->nodes_count;
}

static void fill_parts(struct cluster *c)
{
	size_t i;

	c->parts = calloc(c->conf->parts_count, sizeof(*c->parts));
	if (!c->parts)
		errx(99, "no memory");
	part_list = list_create(NULL);
	for (i = 0; i < c->conf->parts_count; i++) {
		const struct conf_part *p = &c->conf->parts[i];

		c->parts[i] = (part_record_t){.name = p->name,
			.node_bitmap = p->nodes,
			.total_nodes = (uint32_t)bit_set_count(p->nodes),
			.min_nodes = p->min_nodes,
			.max_nodes = p->max_nodes,
			.max_share = p->max_share,
			.priority_tier = p->priority_tier};
		(void)list_append(part_list, &c->parts[i]);
	}
}

static struct select *plugin; /* of the one cluster */

void cluster_make(
	struct cluster *c, const char *conf_text, const char *plugin_dir, const struct log *log)
{
	static const struct log to_stderr = {
		.fd = STDERR_FILENO, .most = LOG_LEVEL_WARNING, .ident = "cluster"};
	_cleanup_free_ char *file = NULL, *dir = NULL;
	struct err e = ERR_INIT;

	*c = (struct cluster){.dir = scratch_make()};
	file = scratch_path(c->dir, "slurm.conf");
	scratch_write(c->dir, "slurm.conf", conf_text, strlen(conf_text), 0600);
	if (conf_read(file, NULL, &c->conf, &e) < 0)
		errx(99, "%s", e.text);
	fill_nodes(c);
	fill_parts(c);
	job_list = list_create(NULL);
	slurm_conf = (slurm_conf_t){.cluster_name = c->conf->cluster_name,
		.select_type_param = c->conf->select_type_param,
		.preempt_mode = c->conf->preempt_mode};
	select_clock = 1000000;
	if (!plugin_dir && !getenv("top_builddir"))
		errx(99, "top_builddir is not set");
	dir = plugin_dir ? strdup(plugin_dir)
			 : scratch_path(getenv("top_builddir"), "stepd/cli/plugins");
	if (!dir ||
		select_open(dir, c->conf->select_type, log ? log : &to_stderr, &c->select, &e) <
			0 ||
		select_begin(c->select, NULL, NULL, &e) < 0)
		errx(99, "%s", e.text);
	plugin = c->select;
}

void cluster_clear(struct cluster *c)
{
	uint32_t i;

	for (i = 0; i < c->conf->nodes_count; i++)
		free(c->nodes[i].select_nodeinfo);
	while (!list_is_empty(job_list))
		cluster_free_job(list_peek(job_list));
	c->select = plugin = select_close(c->select);
	FREE_NULL_LIST(job_list);
	FREE_NULL_LIST(part_list);
	free(c->nodes);
	free(c->parts);
	c->conf = conf_free(c->conf);
	scratch_remove(c->dir);
	free(c->dir);
}

job_record_t *cluster_add_job(struct cluster *c, part_record_t *part)
{
	job_record_t *job = calloc(1, sizeof(*job));

	if (!job)
		errx(99, "no memory");
	job->details = calloc(1, sizeof(*job->details));
	if (!job->details)
		errx(99, "no memory");
	*job->details = (job_details_t){.min_cpus = 1,
		.max_cpus = NO_VAL,
		.min_nodes = 1,
		.cpus_per_task = 1,
		.share_res = NO_VAL16};
	job->job_id = ++c->last_job_id;
	job->part_ptr = part;
	job->partition = part->name;
	job->job_state = JOB_PENDING;
	job->select_jobinfo = select_jobinfo_new(c->select);
	return list_append(job_list, job);
}

static int is_same(void *item, void *key)
{
	return item == key;
}

void cluster_free_job(job_record_t *job)
{
	(void)list_delete_all(job_list, is_same, job);
	use_resources_free(job->job_resrcs);
	select_jobinfo_free(plugin, job->select_jobinfo);
	bit_free(job->details->req_node_bitmap);
	bit_free(job->details->exc_node_bitmap);
	free(job->details);
	free(job);
}

struct named {
	const struct cluster *c;
	bitstr_t *nodes;
};

static int set_node(const char *name, void *userdata)
{
	const struct named *named = userdata;
	size_t i;

	for (i = 0; i < named->c->conf->nodes_count; i++) {
		if (strcmp(named->c->conf->nodes[i].name, name) == 0) {
			bit_set(named->nodes, (bitoff_t)i);
			return 0;
		}
	}
	errx(99, "there is no node '%s'", name);
}

bitstr_t *cluster_nodes(const struct cluster *c, const char *names)
{
	struct named named = {.c = c, .nodes = bit_alloc(node_record_count)};

	if (hostlist_each(names, CONF_NODES_MAX, set_node, &named) < 0)
		errx(99, "'%s' is not a list of nodes", names);
	return named.nodes;
}

void cluster_request(const struct cluster *c, job_record_t *job, struct select_request *ret_request)
{
	const job_details_t *d = job->details;
	uint32_t least = d->min_nodes, required = 0;

	(void)c;
	*ret_request =
		(struct select_request){.job = job, .nodes = bit_copy(job->part_ptr->node_bitmap)};
	if (d->exc_node_bitmap)
		bit_and_not(ret_request->nodes, d->exc_node_bitmap);
	if (d->req_node_bitmap)
		required = (uint32_t)bit_set_count(d->req_node_bitmap);
	ret_request->min_nodes = least > required ? least : required;
	ret_request->max_nodes = d->max_nodes ? d->max_nodes : (uint32_t)node_record_count;
	ret_request->req_nodes = d->max_nodes ? d->max_nodes : ret_request->min_nodes;
	if (job->bit_flags & USE_MIN_NODES)
		ret_request->req_nodes = ret_request->min_nodes;
	else if (job->bit_flags & SPREAD_JOB)
		ret_request->req_nodes = d->min_cpus / d->cpus_per_task;
	if (ret_request->req_nodes > ret_request->max_nodes)
		ret_request->req_nodes = ret_request->max_nodes;
}
