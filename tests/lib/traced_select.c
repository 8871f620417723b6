/* SPDX-License-Identifier: BSD-3-Clause
 *
 * select/traced: each call is a line in the file of TRACED_SELECT_LOG, and then that of the plugin
 * whose file TRACED_SELECT_PLUGIN names. What it has of a job is its own: how often the job has
 * begun, and what its user has said of networks; and of a node, how often that was unpacked. Its
 * machine has two dimensions.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stepd/select.h>

STEPD_EXPORT const char plugin_type[] = "select/traced";
STEPD_EXPORT const char plugin_name[] = "another plugin, and a line for each call";
STEPD_EXPORT const uint32_t plugin_version = STEPD_API_VERSION;

/* The first member is the other plugin's. */
struct select_jobinfo {
	uint32_t job_id;
	uint32_t begun;
	char network[64];
};

static void *other;
static FILE *trace_file;

__attribute__((format(printf, 1, 2))) static void trace(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vfprintf(trace_file, fmt, ap);
	va_end(ap);
	(void)fputc('\n', trace_file);
	(void)fflush(trace_file);
}

static void *find(const char *name)
{
	void *function = dlsym(other, name);

	if (!function)
		abort();
	return function;
}

int init(void)
{
	const char *plugin = getenv("TRACED_SELECT_PLUGIN"), *log = getenv("TRACED_SELECT_LOG");
	int (*inner)(void);

	other = plugin ? dlopen(plugin, RTLD_NOW | RTLD_LOCAL) : NULL;
	trace_file = log ? fopen(log, "ae") : NULL;
	if (!other || !trace_file) {
		errno = ENOENT;
		return SLURM_ERROR;
	}
	trace("init");
	inner = (int (*)(void))dlsym(other, "init");
	return inner ? inner() : SLURM_SUCCESS;
}

void fini(void)
{
	void (*inner)(void) = (void (*)(void))dlsym(other, "fini");

	trace("fini");
	if (inner)
		inner();
	(void)fclose(trace_file);
	(void)dlclose(other);
}

/* A function that does what the other plugin's does. */
#define FORWARD(ret, name, parameters, arguments, ...)                                             \
	ret select_p_##name parameters                                                             \
	{                                                                                          \
		ret(*inner) parameters = (ret(*) parameters)find("select_p_" #name);               \
                                                                                                   \
		trace(__VA_ARGS__);                                                                \
		return inner arguments;                                                            \
	}

FORWARD(int, state_save, (char *dir), (dir), "state_save")
FORWARD(int, state_restore, (char *dir), (dir), "state_restore")
FORWARD(int, node_init, (node_record_t * nodes, int count), (nodes, count), "node_init %d", count)
FORWARD(int, job_init, (List jobs), (jobs), "job_init %d", list_count(jobs))
FORWARD(int, reconfigure, (void), (), "reconfigure")
FORWARD(int, select_nodeinfo_free, (select_nodeinfo_t * info), (info), "nodeinfo_free")
FORWARD(int, select_nodeinfo_set, (job_record_t * job), (job), "nodeinfo_set %u", job->job_id)
FORWARD(int, select_nodeinfo_set_all, (void), (), "nodeinfo_set_all")
FORWARD(select_nodeinfo_t *, select_nodeinfo_alloc, (void), (), "nodeinfo_alloc")
FORWARD(int, select_nodeinfo_pack, (select_nodeinfo_t * info, Buf buffer, uint16_t version),
	(info, buffer, version), "nodeinfo_pack")
FORWARD(int, select_nodeinfo_unpack, (select_nodeinfo_t * *info, Buf buffer, uint16_t version),
	(info, buffer, version), "nodeinfo_unpack")
FORWARD(int, select_nodeinfo_get,
	(select_nodeinfo_t * info, enum select_nodedata_type dinfo, enum node_states state,
		void *data),
	(info, dinfo, state, data), "nodeinfo_get %d", (int)dinfo)
FORWARD(int, update_node_config, (int index), (index), "update_node_config %s",
	node_record_table_ptr[index].name)
FORWARD(bool, node_ranking, (node_record_t * nodes, int count), (nodes, count), "node_ranking")
FORWARD(int, update_node_state, (node_record_t * node), (node), "update_node_state %s", node->name)
FORWARD(int, job_test,
	(job_record_t * job, bitstr_t *bitmap, uint32_t min_nodes, uint32_t max_nodes,
		uint32_t req_nodes, uint32_t mode, List candidates, List *preempted,
		bitstr_t *exc_cores),
	(job, bitmap, min_nodes, max_nodes, req_nodes, mode, candidates, preempted, exc_cores),
	"job_test %u %s", job->job_id,
	mode == SELECT_MODE_TEST_ONLY          ? "TEST_ONLY"
		: mode == SELECT_MODE_WILL_RUN ? "WILL_RUN"
					       : "RUN_NOW")
FORWARD(int, job_ready, (job_record_t * job), (job), "job_ready %u", job->job_id)
FORWARD(int, job_fini, (job_record_t * job), (job), "job_fini %u", job->job_id)
FORWARD(int, job_signal, (job_record_t * job, int signal), (job, signal), "job_signal %u %d",
	job->job_id, signal)
FORWARD(int, job_mem_confirm, (job_record_t * job), (job), "job_mem_confirm %u", job->job_id)
FORWARD(int, job_suspend, (job_record_t * job, bool indf), (job, indf), "job_suspend %u %d",
	job->job_id, indf)
FORWARD(int, job_resume, (job_record_t * job, bool indf), (job, indf), "job_resume %u %d",
	job->job_id, indf)
FORWARD(bool, job_expand_allow, (void), (), "job_expand_allow")
FORWARD(int, job_expand, (job_record_t * from, job_record_t *to), (from, to), "job_expand %u %u",
	from->job_id, to->job_id)
FORWARD(int, job_resized, (job_record_t * job, node_record_t *node), (job, node),
	"job_resized %u %s", job->job_id, node->name)
FORWARD(bitstr_t *, step_pick_nodes,
	(job_record_t * job, select_jobinfo_t *step, uint32_t node_count), (job, step, node_count),
	"step_pick_nodes %u %u", job->job_id, node_count)
FORWARD(int, step_finish, (step_record_t * step, bool killing), (step, killing),
	"step_finish %u %d", step->job_ptr->job_id, killing)
FORWARD(bitstr_t *, resv_test,
	(resv_desc_msg_t * desc, uint32_t node_cnt, bitstr_t *avail, bitstr_t **cores),
	(desc, node_cnt, avail, cores), "resv_test %s", desc->name)
FORWARD(int, get_info_from_plugin,
	(enum select_plugindata_info info, job_record_t *job, void *data), (info, job, data),
	"get_info_from_plugin %d", (int)info)

int select_p_job_begin(job_record_t *job)
{
	int (*inner)(job_record_t *) = (int (*)(job_record_t *))find("select_p_job_begin");

	trace("job_begin %u", job->job_id);
	job->select_jobinfo->begun++;
	return inner(job);
}

/* ---- of jobs -----------------------------------------------------------------------------------
 */

select_jobinfo_t *select_p_select_jobinfo_alloc(void)
{
	trace("jobinfo_alloc");
	return xmalloc(sizeof(select_jobinfo_t));
}

select_jobinfo_t *select_p_select_jobinfo_copy(select_jobinfo_t *info)
{
	select_jobinfo_t *copy = xmalloc(sizeof(*copy));

	trace("jobinfo_copy %s", info->network);
	*copy = *info;
	return copy;
}

int select_p_select_jobinfo_free(select_jobinfo_t *info)
{
	trace("jobinfo_free");
	xfree(info);
	return SLURM_SUCCESS;
}

int select_p_select_jobinfo_pack(select_jobinfo_t *info, Buf buffer, uint16_t version)
{
	(void)version;
	trace("jobinfo_pack");
	pack32(info->begun, buffer);
	packstr(info->network, buffer);
	return SLURM_SUCCESS;
}

int select_p_select_jobinfo_unpack(select_jobinfo_t **ret_info, Buf buffer, uint16_t version)
{
	select_jobinfo_t *info = xmalloc(sizeof(*info));
	char *network = NULL;
	uint32_t size = 0;

	(void)version;
	trace("jobinfo_unpack");
	if (unpack32(&info->begun, buffer) != SLURM_SUCCESS ||
		unpackstr_xmalloc(&network, &size, buffer) != SLURM_SUCCESS) {
		xfree(info);
		errno = EBADMSG;
		return SLURM_ERROR;
	}
	(void)snprintf(info->network, sizeof(info->network), "%s", network ? network : "");
	xfree(network);
	*ret_info = info;
	return SLURM_SUCCESS;
}

int select_p_select_jobinfo_get(select_jobinfo_t *info, enum select_jobdata_type type, void *data)
{
	(void)info;
	trace("jobinfo_get %d", (int)type);
	if (type == SELECT_JOBDATA_CLEANING) {
		*(uint16_t *)data = 0;
		return SLURM_SUCCESS;
	}
	errno = EINVAL;
	return SLURM_ERROR;
}

int select_p_select_jobinfo_set(select_jobinfo_t *info, enum select_jobdata_type type, void *data)
{
	trace("jobinfo_set %d", (int)type);
	if (type == SELECT_JOBDATA_NETWORK) {
		(void)snprintf(info->network, sizeof(info->network), "%s", (const char *)data);
		return SLURM_SUCCESS;
	}
	errno = EINVAL;
	return SLURM_ERROR;
}

char *select_p_select_jobinfo_sprint(select_jobinfo_t *info, char *buf, size_t size, int mode)
{
	trace("jobinfo_sprint %d", mode);
	(void)snprintf(buf, size, "%u/%s", (unsigned)info->begun, info->network);
	return buf;
}

char *select_p_select_jobinfo_xstrdup(select_jobinfo_t *info, int mode)
{
	char text[96];

	trace("jobinfo_xstrdup %d", mode);
	(void)snprintf(
		text, sizeof(text), "Begun=%u Network=%s", (unsigned)info->begun, info->network);
	return xstrdup(text);
}

/* ---- of the machine ----------------------------------------------------------------------------
 */

static uint32_t nodes;

void select_p_ba_init(node_info_msg_t *msg, bool sanity_check)
{
	nodes = msg->record_count;
	trace("ba_init %u %s %d %d", msg->record_count, msg->node_array[0].name,
		msg->node_array[0].cpus, sanity_check);
}

int *select_p_ba_get_dims(void)
{
	static int dims[3];

	trace("ba_get_dims");
	dims[0] = 2;
	dims[1] = (int)nodes / 2;
	return dims;
}
