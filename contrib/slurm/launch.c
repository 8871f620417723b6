/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/launch.h"

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/slurm/token.h"
#include "stepd/base/hostlist.h"

#define SWITCH_NONE      100u
#define SELECT_CONS_RES  101u
#define SELECT_LINEAR    102u
#define SELECT_CONS_TRES 109u

const char *slurm_kind_name(enum slurm_step_kind kind)
{
	static const char *const names[SLURM_KIND_MAX] = {
		[SLURM_KIND_SRUN] = "srun",
		[SLURM_KIND_BATCH] = "batch",
		[SLURM_KIND_EXTERN] = "extern",
		[SLURM_KIND_INTERACTIVE] = "interactive",
		[SLURM_KIND_HET] = "het",
	};

	return names[kind];
}

void slurm_step_label(const struct slurm_step_id *id, char label[static SLURM_LABEL_SIZE])
{
	int n = snprintf(label, SLURM_LABEL_SIZE, "%u.", id->job);

	switch (id->step) {
	case SLURM_STEP_EXTERN:
		n += snprintf(label + n, SLURM_LABEL_SIZE - (size_t)n, "extern");
		break;
	case SLURM_STEP_BATCH:
		n += snprintf(label + n, SLURM_LABEL_SIZE - (size_t)n, "batch");
		break;
	case SLURM_STEP_INTERACTIVE:
		n += snprintf(label + n, SLURM_LABEL_SIZE - (size_t)n, "interactive");
		break;
	default:
		n += snprintf(label + n, SLURM_LABEL_SIZE - (size_t)n, "%u", id->step);
	}
	if (id->het_component != SLURM_NO_VAL)
		(void)snprintf(label + n, SLURM_LABEL_SIZE - (size_t)n, "+%u", id->het_component);
}

/* Each digit has five bits; the first one has four. */
void slurm_sluid_print(uint64_t sluid, char text[static SLURM_SLUID_SIZE])
{
	int i;

	text[0] = 's';
	for (i = SLURM_SLUID_SIZE - 2; i > 0; i--, sluid >>= 5)
		text[i] = SLURM_SLUID_DIGITS[sluid & 31];
	text[SLURM_SLUID_SIZE - 1] = '\0';
}

/* ---- parts that both messages have --------------------------------------------------------- */

/* Two arrays behind a count, if that is not 0. */
static void skip_arrays(struct unpack *u, uint32_t n, const enum unpack_type *types, size_t count)
{
	size_t i;

	for (i = 0; n > 0 && i < count; i++)
		unpack_skip(u, types[i]);
}

static void take_sockets(struct unpack *u, void *result)
{
	struct slurm_cores *cores = &((struct slurm_launch *)result)->cores;

	if (unpack_u16(u) == 0)
		return;
	cores->per_socket = unpack_array(u, unpack_u32(u), sizeof(uint16_t));
	cores->sockets = unpack_array(u, unpack_u32(u), sizeof(uint16_t));
	cores->reps = unpack_array(u, unpack_u32(u), sizeof(uint32_t));
	if (cores->sockets.n != cores->per_socket.n || cores->reps.n != cores->per_socket.n)
		unpack_fail(u, "lists of sockets of different lengths");
}

static void skip_cpus(struct unpack *u, _unused_ void *result)
{
	static const enum unpack_type types[] = {UNPACK_A16, UNPACK_A32};

	skip_arrays(u, unpack_u32(u), types, ARRAY_SIZE(types));
}

/* The step's counts, and the job's where the step has none. */
static void take_memory(struct unpack *u, void *result)
{
	struct slurm_launch *launch = result;
	struct slurm_array values;
	uint64_t first;

	if (unpack_u32(u) == 0)
		return;
	values = unpack_array(u, unpack_u32(u), sizeof(uint64_t));
	unpack_skip(u, UNPACK_A32);
	if (u->bad || values.n == 0)
		return;
	memcpy(&first, values.bytes, sizeof(first));
	if (first)
		launch->cred_memory_mb = be64toh(first);
}

static void skip_addresses(struct unpack *u, _unused_ void *result)
{
	uint32_t n;

	for (n = unpack_u32(u); n > 0 && !u->bad; n--)
		unpack_skip(u, UNPACK_ADDR);
}

/* Before 24.05 a plugin for switches packs what it likes, without a length. */
static void skip_switch(struct unpack *u, void *result)
{
	const struct slurm_node_conf *conf = u->about;
	struct slurm_launch *launch = result;
	bool configured = conf->switch_type && strcmp(conf->switch_type, "switch/none") != 0;
	uint32_t plugin;

	if (u->release >= SLURM_23_11 && !configured)
		return; /* nothing is packed */
	plugin = unpack_u32(u);
	if (plugin == SWITCH_NONE)
		return;
	launch->switch_plugin = plugin;
	unpack_fail(u, "a switch plugin's data");
}

static void skip_select(struct unpack *u, _unused_ void *result)
{
	uint32_t plugin = unpack_u32(u);

	if (plugin != SELECT_CONS_RES && plugin != SELECT_LINEAR && plugin != SELECT_CONS_TRES)
		unpack_fail(u, "a select plugin's data");
}

/* ---- GRES ---------------------------------------------------------------------------------- */

static void take_job_gres(struct unpack *u, void *result)
{
	((struct slurm_launch *)result)->job_gres = gres_unpack_records(u, false);
}

static void take_step_gres(struct unpack *u, void *result)
{
	((struct slurm_launch *)result)->step_gres = gres_unpack_records(u, true);
}

static void skip_nodes(struct unpack *u, uint32_t nodes, enum unpack_type type)
{
	for (; nodes > 0 && !u->bad; nodes--)
		unpack_skip(u, type);
}

/* ---- the credential ------------------------------------------------------------------------ */

/* In late 23.02 to 24.05 a switch plugin's data stand in the partition's text, behind its NUL; from
 * 24.11 on they have a length of their own. The node addresses are those of cloud nodes. */

#define LAUNCH(member_) UNPACK_KEEP(struct slurm_launch, member_)

/* What the signature is of. */
static void end_credential(struct unpack *u, void *result)
{
	struct slurm_launch *launch = result;

	if (!u->bad)
		launch->cred_body.n = (uint32_t)(u->data + u->at - launch->cred_body.bytes);
}

/* clang-format off */
static const struct unpack_row cred_rows[] = {
	FIELD("cred step_id", STEP_ID, .keep = LAUNCH(id)),
	FIELD("cred uid", U32, .keep = LAUNCH(uid)),
	FIELD("cred gid", U32, .keep = LAUNCH(gid)),
	FIELD("cred pw_name", TEXT, .keep = LAUNCH(user)),
	FIELD("cred pw_gecos", TEXT, .keep = LAUNCH(gecos)),
	FIELD("cred pw_dir", TEXT, .keep = LAUNCH(home)),
	FIELD("cred pw_shell", TEXT, .keep = LAUNCH(shell)),
	FIELD("cred gids", A32, .keep = LAUNCH(cred_gids)),
	FIELD("cred gr_names", TEXTS, .keep = LAUNCH(group_names)),
	FIELD("cred job_gres", CALL, .call = take_job_gres),
	FIELD("cred step_gres", CALL, .call = take_step_gres),
	FIELD("cred core_spec", U16),
	FIELD("cred account", TEXT),
	FIELD("cred node_addrs", CALL, .since = SLURM_23_11, .call = skip_addresses),
	FIELD("cred alias_list", TEXT, .keep = LAUNCH(cred_node_aliases)),
	FIELD("cred comment", TEXT),
	FIELD("cred constraints", TEXT),
	FIELD("cred end_time", U64, .since = SLURM_23_02, .keep = LAUNCH(end_time)),
	FIELD("cred extra", TEXT, .since = SLURM_23_02),
	FIELD("cred exclusive", U16, .since = SLURM_26_05),
	FIELD("cred oversubscribe", U16, .since = SLURM_23_02),
	FIELD("cred partition", BYTES, .keep = LAUNCH(cred_partition)),
	FIELD("cred qos", TEXT, .since = SLURM_26_05),
	FIELD("cred reservation", TEXT),
	FIELD("cred restart_cnt", U16, .keep = LAUNCH(restart_count)),
	FIELD("cred start_time", U64, .since = SLURM_23_02, .keep = LAUNCH(start_time)),
	FIELD("cred std_err", TEXT),
	FIELD("cred std_in", TEXT),
	FIELD("cred std_out", TEXT),
	FIELD("cred step_hostlist", TEXT),
	FIELD("cred x11", U16),
	FIELD("cred ctime", U64),
	FIELD("cred cores", U32),
	FIELD("cred job_core_bitmap", BITS, .keep = LAUNCH(cores.job)),
	FIELD("cred step_core_bitmap", BITS, .keep = LAUNCH(cores.step)),
	FIELD("cred sockets", CALL, .call = take_sockets),
	FIELD("cred cpus", CALL, .call = skip_cpus),
	FIELD("cred job_nhosts", U32, .keep = LAUNCH(cores.nhosts)),
	FIELD("cred job_ntasks", U32),
	FIELD("cred job_hostlist", TEXT, .keep = LAUNCH(cores.hosts)),
	FIELD("cred licenses", TEXT, .since = SLURM_23_02, .keep = LAUNCH(licenses)),
	FIELD("cred job_mem", CALL, .call = take_memory),
	FIELD("cred step_mem", CALL, .call = take_memory),
	FIELD("cred selinux_context", TEXT),
	FIELD("cred switch", BYTES, .since = SLURM_24_11),
};

static const struct unpack_row cred_end_rows[] = {
	FIELD("cred body", CALL, .call = end_credential),
	FIELD("cred signature", BYTES, .keep = LAUNCH(cred_signature)),
};
/* clang-format on */

/* The body is in it. */
static void take_token(struct unpack *u, struct slurm_launch *launch, uint16_t version)
{
	struct slurm_array text = unpack_array(u, unpack_u32(u), 1);
	struct slurm_token token = {0};
	struct unpack body = {.release = version, .about = u->about};

	if (u->bad)
		return;
	if (slurm_token_read_credential(text.bytes, text.n, &token) < 0) {
		unpack_fail(u, "a token without a credential");
		return;
	}
	launch->has_token = true;
	launch->token_uid = token.uid;
	launch->token_gid = token.gid;
	launch->token_body = token.payload;
	launch->token_body_size = token.payload_size;
	launch->cred_signature = text;
	body.data = token.payload;
	body.size = token.payload_size;
	unpack_rows(&body, cred_rows, ARRAY_SIZE(cred_rows), launch);
	if (body.bad || body.at != body.size) {
		unpack_fail(u, body.bad ? body.bad : "more data than fields");
		u->field = body.field ? body.field : "the token's end";
	}
}

/* In its own version, which may be that of an older slurmctld or srun. */
static void take_credential(struct unpack *u, void *result)
{
	const struct slurm_node_conf *conf = u->about;
	struct slurm_launch *launch = result;
	uint16_t release = u->release, version = unpack_u16(u);

	if (u->bad)
		return;
	if (!slurm_release_name(version)) {
		unpack_fail(u, "a credential of an unknown release");
		return;
	}
	launch->cred_release = version;
	if (conf->cred_type && slurm_token_is_type(conf->cred_type)) {
		take_token(u, launch, version);
		return;
	}
	u->release = version;
	launch->cred_body.bytes = u->data + u->at;
	unpack_rows(u, cred_rows, ARRAY_SIZE(cred_rows), result);
	unpack_rows(u, cred_end_rows, ARRAY_SIZE(cred_end_rows), result);
	u->release = release;
}

/* ---- tasks --------------------------------------------------------------------------------- */

/* Of a het job: lists of task numbers, one for each node; NO_VAL nodes: none. And the component of
 * each task. */
static void take_het_tasks(struct unpack *u, void *result)
{
	struct slurm_het *het = &((struct slurm_launch *)result)->het;
	size_t begin;

	het->nnodes = unpack_u32(u);
	begin = u->at;
	if (het->nnodes != SLURM_NO_VAL) {
		skip_nodes(u, het->nnodes, UNPACK_A32);
		het->node_tasks = (struct slurm_array){(uint32_t)(u->at - begin), u->data + begin};
	}
	het->ntasks = unpack_u32(u);
	if (het->ntasks != SLURM_NO_VAL)
		unpack_skip_bytes(u, (uint64_t)het->ntasks * sizeof(uint32_t));
}

static void take_het_offset(struct unpack *u, void *result)
{
	uint32_t offset = unpack_u32(u), count = unpack_u32(u);

	((struct slurm_launch *)result)->het.offset = offset;
	if (u->release >= SLURM_25_05 && offset < SLURM_NO_VAL && count > 0)
		unpack_skip(u, UNPACK_A32);
}

static void take_node_tasks(struct unpack *u, void *result)
{
	struct slurm_launch *launch = result;
	size_t begin = u->at;
	uint32_t n;

	for (n = launch->nnodes; n > 0 && !u->bad; n--) {
		(void)unpack_u16(u);
		unpack_skip(u, UNPACK_A32);
	}
	if (!u->bad)
		launch->node_tasks =
			(struct slurm_array){(uint32_t)(u->at - begin), u->data + begin};
}

struct node_search {
	const char *name;
	uint32_t index, only;
	bool found;
};

static int search_node(const char *name, void *userdata)
{
	struct node_search *search = userdata;

	assert(search);
	search->found = strcmp(name, search->name) == 0;
	if (search->found)
		return -ECANCELED; /* no more names */
	search->index++;
	return 0;
}

static int find_node(const char *list, uint32_t n, const char *name, uint32_t *ret_node)
{
	struct node_search search = {.name = name};
	int r = list && name ? hostlist_each(list, n, search_node, &search) : -EINVAL;

	if (!search.found)
		return r < 0 ? -EINVAL : -ENOENT;
	*ret_node = search.index;
	return 0;
}

int slurm_launch_find_node(const struct slurm_launch *launch, const char *name, uint32_t *ret_node)
{
	return find_node(launch->nodes, launch->nnodes, name, ret_node);
}

struct node_nth {
	uint32_t left;
	char *name;
};

static int take_nth(const char *name, void *userdata)
{
	struct node_nth *nth = userdata;

	assert(nth);
	if (nth->left-- > 0)
		return 0;
	nth->name = strdup(name);
	return -ECANCELED; /* no more names */
}

char *slurm_launch_node_name(const struct slurm_launch *launch, uint32_t node)
{
	struct node_nth nth = {.left = node};

	if (launch->nodes)
		(void)!hostlist_each(launch->nodes, launch->nnodes, take_nth, &nth);
	return nth.name;
}

int slurm_launch_find_job_node(
	const struct slurm_launch *launch, const char *name, uint32_t *ret_node)
{
	return find_node(launch->cores.hosts, launch->cores.nhosts, name, ret_node);
}

/* Nodes with the same sockets stand in one entry of the lists. */
bool slurm_cores_find(const struct slurm_cores *cores, uint32_t node, uint32_t bits,
	uint64_t *ret_first, uint64_t *ret_count)
{
	uint64_t first = 0, count;
	uint32_t i, reps;

	for (i = 0; i < cores->per_socket.n; i++) {
		count = (uint64_t)slurm_array_u16(&cores->per_socket, i) *
			slurm_array_u16(&cores->sockets, i);
		reps = slurm_array_u32(&cores->reps, i);
		if (node < reps && count * node <= bits) {
			*ret_first = first + count * node;
			*ret_count = count;
			return true;
		}
		/* Of more than there are no sum is made, which could overflow. */
		if (node < reps || count * reps > bits)
			return false;
		node -= reps;
		first += count * reps;
	}
	return false;
}

/* The list of another node, which a u16 may precede. */
static bool ranks_next(struct slurm_array *rest, bool has_number, struct slurm_array *ret_ranks)
{
	struct unpack u = {.data = rest->bytes, .size = rest->n};

	if (rest->n == 0)
		return false;
	if (has_number)
		(void)unpack_u16(&u);
	*ret_ranks = unpack_array(&u, unpack_u32(&u), sizeof(uint32_t));
	rest->bytes += u.at;
	rest->n -= (uint32_t)u.at;
	return !u.bad;
}

bool slurm_ranks_next(struct slurm_array *rest, struct slurm_array *ret_ranks)
{
	return ranks_next(rest, true, ret_ranks);
}

bool slurm_launch_ranks(
	const struct slurm_launch *launch, uint32_t node, struct slurm_array *ret_ranks)
{
	struct slurm_array rest = launch->node_tasks;
	uint32_t i;

	*ret_ranks = (struct slurm_array){0};
	if (node >= launch->nnodes)
		return false;
	for (i = 0; i < node; i++) {
		if (!slurm_ranks_next(&rest, ret_ranks))
			return false;
	}
	return slurm_ranks_next(&rest, ret_ranks);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static uint32_t get_known(const struct slurm_launch *l, uint32_t n, uint32_t otherwise)
{
	return l->kind == SLURM_KIND_HET && n != SLURM_NO_VAL ? n : otherwise;
}

uint32_t slurm_whole_first_rank(const struct slurm_launch *l)
{
	return get_known(l, l->het.task_offset, 0);
}

uint32_t slurm_whole_first_node(const struct slurm_launch *l)
{
	return get_known(l, l->het.node_offset, 0);
}

uint32_t slurm_whole_nnodes(const struct slurm_launch *l)
{
	return get_known(l, l->het.nnodes, l->nnodes);
}

uint32_t slurm_whole_ntasks(const struct slurm_launch *l)
{
	return get_known(l, l->het.ntasks, l->ntasks);
}

uint32_t slurm_whole_job(const struct slurm_launch *l)
{
	return get_known(l, l->het.job ? l->het.job : SLURM_NO_VAL, l->id.job);
}

static int search_only_node(const char *name, void *userdata)
{
	struct node_search *search = userdata;

	assert(search);
	if (strcmp(name, search->name) == 0) {
		search->only = search->found ? UINT32_MAX : search->index;
		search->found = true;
	}
	search->index++;
	return 0;
}

int slurm_whole_find_node(const struct slurm_launch *l, const char *name, uint32_t *ret_node)
{
	struct node_search search = {.name = name};
	int r;

	if (l->kind != SLURM_KIND_HET || !l->het.nodes)
		return slurm_launch_find_node(l, name, ret_node);
	r = name ? hostlist_each(l->het.nodes, slurm_whole_nnodes(l), search_only_node, &search)
		 : -EINVAL;
	if (r < 0 || !search.found)
		return r < 0 ? -EINVAL : -ENOENT;
	if (search.only == UINT32_MAX)
		return -EEXIST;
	*ret_node = search.only;
	return 0;
}

static bool has_whole_tasks(const struct slurm_launch *l)
{
	return l->kind == SLURM_KIND_HET && l->het.node_tasks.bytes;
}

struct slurm_array slurm_whole_node_tasks(const struct slurm_launch *l)
{
	return has_whole_tasks(l) ? l->het.node_tasks : l->node_tasks;
}

bool slurm_whole_ranks_next(
	const struct slurm_launch *l, struct slurm_array *rest, struct slurm_array *ret_ranks)
{
	return ranks_next(rest, !has_whole_tasks(l), ret_ranks);
}

bool slurm_whole_ranks(const struct slurm_launch *l, uint32_t node, struct slurm_array *ret_ranks)
{
	struct slurm_array rest = slurm_whole_node_tasks(l);
	bool good = node < slurm_whole_nnodes(l);
	uint32_t i;

	*ret_ranks = (struct slurm_array){0};
	for (i = 0; good && i <= node; i++)
		good = slurm_whole_ranks_next(l, &rest, ret_ranks);
	return good;
}

static void take_resp_ports(struct unpack *u, void *result)
{
	((struct slurm_launch *)result)->resp_ports =
		unpack_array(u, unpack_u16(u), sizeof(uint16_t));
}

static void take_io_ports(struct unpack *u, void *result)
{
	((struct slurm_launch *)result)->io_ports =
		unpack_array(u, unpack_u16(u), sizeof(uint16_t));
}

const char *slurm_launch_partition(const struct slurm_launch *launch)
{
	const struct slurm_array *bytes = &launch->cred_partition;
	const char *text = (const char *)bytes->bytes;

	return bytes->n > 0 && *text && memchr(text, '\0', bytes->n) ? text : NULL;
}

uint16_t slurm_launch_port(const struct slurm_array *ports, uint32_t node)
{
	return slurm_array_u16(ports, node % ports->n);
}

/* SPANK's options. */
static void take_options(struct unpack *u, void *result)
{
	struct slurm_options *options = &((struct slurm_launch *)result)->options;
	const char *tag = unpack_text(u);
	uint32_t n;
	size_t at;

	if (!tag || strcmp(tag, "job_options") != 0)
		unpack_fail(u, "no job options");
	options->n = unpack_u32(u);
	options->bytes = u->data + u->at;
	at = u->at;
	for (n = options->n; n > 0 && !u->bad; n--) {
		(void)unpack_u32(u);
		(void)unpack_text(u);
		(void)unpack_text(u);
	}
	options->size = u->at - at;
}

bool slurm_options_next(struct slurm_options *rest, const char **ret_name, const char **ret_arg)
{
	struct unpack u = {.data = rest->bytes, .size = rest->size};

	if (rest->n == 0)
		return false;
	(void)unpack_u32(&u); /* the type: there is one only */
	*ret_name = unpack_text(&u);
	*ret_arg = unpack_text(&u);
	rest->n--;
	rest->bytes += u.at;
	rest->size -= u.at;
	return !u.bad;
}

/* Records of the job, node and partition, for the agent that manages the job's steps. */
static void take_job(struct unpack *u, void *result)
{
	struct slurm_launch *launch = result;

	launch->has_job = unpack_u8(u);
	if (launch->has_job)
		u->at = u->size;
}

static void skip_runtime(struct unpack *u, void *result)
{
	const struct slurm_launch *launch = result;

	if (!launch->has_job)
		(void)unpack_text(u);
}

/* clang-format off */
static const struct unpack_row tasks_rows[] = {
	FIELD("step_id", STEP_ID, .keep = LAUNCH(id)),
	FIELD("uid", U32, .until = SLURM_23_02, .keep = LAUNCH(claimed_uid)),
	FIELD("gid", U32, .until = SLURM_23_02, .keep = LAUNCH(claimed_gid)),
	FIELD("user_name", TEXT, .until = SLURM_23_02, .keep = LAUNCH(user)),
	FIELD("gids", A32, .keep = LAUNCH(gids)),
	FIELD("het_job_node_offset", U32, .keep = LAUNCH(het.node_offset)),
	FIELD("het_job_id", U32, .keep = LAUNCH(het.job)),
	FIELD("het_job_tids", CALL, .call = take_het_tasks),
	FIELD("het_job_steps", CALL, .call = take_het_offset),
	FIELD("het_job_task_offset", U32, .keep = LAUNCH(het.task_offset)),
	FIELD("het_job_node_list", TEXT, .keep = LAUNCH(het.nodes)),
	FIELD("mpi_plugin_id", U32),
	FIELD("ntasks", U32, .keep = LAUNCH(ntasks)),
	FIELD("ntasks_per_board", U16),
	FIELD("ntasks_per_core", U16),
	FIELD("ntasks_per_tres", U16),
	FIELD("ntasks_per_socket", U16),
	FIELD("job_mem_lim", U64, .keep = LAUNCH(job_memory_mb)),
	FIELD("step_mem_lim", U64, .keep = LAUNCH(step_memory_mb)),
	FIELD("nnodes", U32, .keep = LAUNCH(nnodes)),
	FIELD("cpus_per_task", U16, .keep = LAUNCH(cpus_per_task)),
	FIELD("cpt_compact", A16, .since = SLURM_23_11),
	FIELD("cpt_reps", A32, .since = SLURM_23_11),
	FIELD("tres_per_task", TEXT),
	FIELD("threads_per_core", U16),
	FIELD("task_dist", U32),
	FIELD("node_cpus", U16, .keep = LAUNCH(node_cpus)),
	FIELD("job_core_spec", U16),
	FIELD("accel_bind_type", U16, .keep = LAUNCH(accel_bind_type)),
	FIELD("cred", CALL, .call = take_credential),
	FIELD("tasks_to_launch", CALL, .call = take_node_tasks),
	FIELD("resp_port", CALL, .call = take_resp_ports),
	FIELD("orig_addr", ADDR, .keep = LAUNCH(srun)),
	FIELD("env", TEXTS, .keep = LAUNCH(env)),
	FIELD("spank_job_env", TEXTS, .keep = LAUNCH(spank_env)),
	FIELD("container", TEXT, .keep = LAUNCH(container)),
	FIELD("cwd", TEXT, .keep = LAUNCH(cwd)),
	FIELD("cpu_bind_type", U16, .keep = LAUNCH(cpu_bind_type)),
	FIELD("cpu_bind", TEXT, .keep = LAUNCH(cpu_bind)),
	FIELD("mem_bind_type", U16, .keep = LAUNCH(mem_bind_type)),
	FIELD("mem_bind", TEXT, .keep = LAUNCH(mem_bind)),
	FIELD("argv", TEXTS, .keep = LAUNCH(argv)),
	FIELD("flags", U32, .keep = LAUNCH(flags)),
	FIELD("ofname", TEXT, .keep = LAUNCH(files[1])),
	FIELD("efname", TEXT, .keep = LAUNCH(files[2])),
	FIELD("ifname", TEXT, .keep = LAUNCH(files[0])),
	FIELD("io_port", CALL, .call = take_io_ports),
	FIELD("alloc_tls_cert", TEXT, .since = SLURM_25_05, .keep = LAUNCH(tls_cert)),
	FIELD("profile", U32, .keep = LAUNCH(profile)),
	FIELD("task_prolog", TEXT, .keep = LAUNCH(task_prolog)),
	FIELD("task_epilog", TEXT, .keep = LAUNCH(task_epilog)),
	FIELD("slurmd_debug", U16, .keep = LAUNCH(debug)),
	FIELD("switch", CALL, .until = SLURM_24_05, .call = skip_switch),
	FIELD("job_options", CALL, .call = take_options),
	FIELD("alias_list", TEXT, .until = SLURM_24_11),
	FIELD("complete_nodelist", TEXT, .keep = LAUNCH(nodes)),
	FIELD("open_mode", U8, .keep = LAUNCH(open_mode)),
	FIELD("acctg_freq", TEXT, .keep = LAUNCH(sample_interval)),
	FIELD("cpu_freq_min", U32, .keep = LAUNCH(cpu_freq_min)),
	FIELD("cpu_freq_max", U32, .keep = LAUNCH(cpu_freq_max)),
	FIELD("cpu_freq_gov", U32, .keep = LAUNCH(cpu_freq_gov)),
	FIELD("select", CALL, .until = SLURM_22_05, .call = skip_select),
	FIELD("tres_bind", TEXT, .keep = LAUNCH(tres_bind)),
	FIELD("tres_freq", TEXT, .keep = LAUNCH(tres_freq)),
	FIELD("x11", U16, .keep = LAUNCH(x11.flags)),
	FIELD("x11_alloc_host", TEXT, .keep = LAUNCH(x11.host)),
	FIELD("x11_alloc_port", U16, .keep = LAUNCH(x11.port)),
	FIELD("x11_magic_cookie", TEXT, .keep = LAUNCH(x11.cookie)),
	FIELD("x11_target", TEXT, .keep = LAUNCH(x11.target)),
	FIELD("x11_target_port", U16, .keep = LAUNCH(x11.target_port)),
	FIELD("stepmgr", TEXT, .since = SLURM_24_05, .keep = LAUNCH(step_manager)),
	FIELD("oom_kill_step", U8, .since = SLURM_24_11, .keep = LAUNCH(oom_kill_step)),
	FIELD("job_ptr", CALL, .since = SLURM_24_05, .call = take_job),
	FIELD("runtime", CALL, .since = SLURM_26_11, .call = skip_runtime),
};
/* clang-format on */

/* ---- a batch script ------------------------------------------------------------------------ */

static void take_node_cpus(struct unpack *u, void *result)
{
	struct slurm_batch_job *batch = &((struct slurm_launch *)result)->batch;

	if (unpack_u32(u) == 0)
		return;
	batch->node_cpus = unpack_array(u, unpack_u32(u), sizeof(uint16_t));
	batch->node_cpus_reps = unpack_array(u, unpack_u32(u), sizeof(uint32_t));
	if (batch->node_cpus.n != batch->node_cpus_reps.n)
		unpack_fail(u, "two lists of nodes of different lengths");
}

/* clang-format off */
static const struct unpack_row batch_rows[] = {
	FIELD("job_id", U32, .until = SLURM_25_05, .keep = LAUNCH(id.job)),
	FIELD("het_job_id", U32, .keep = LAUNCH(het.job)),
	FIELD("uid", U32, .until = SLURM_23_02, .keep = LAUNCH(claimed_uid)),
	FIELD("gid", U32, .until = SLURM_23_02, .keep = LAUNCH(claimed_gid)),
	FIELD("user_name", TEXT, .until = SLURM_23_02, .keep = LAUNCH(user)),
	FIELD("gids", A32, .keep = LAUNCH(gids)),
	FIELD("partition", TEXT, .keep = LAUNCH(batch.partition)),
	FIELD("ntasks", U32, .keep = LAUNCH(ntasks)),
	FIELD("pn_min_memory", U64, .keep = LAUNCH(batch.memory_mb)),
	FIELD("open_mode", U8, .keep = LAUNCH(open_mode)),
	FIELD("overcommit", U8, .keep = LAUNCH(batch.overcommit)),
	FIELD("array_job_id", U32, .keep = LAUNCH(batch.array_job)),
	FIELD("array_task_id", U32, .keep = LAUNCH(batch.array_task)),
	FIELD("acctg_freq", TEXT, .keep = LAUNCH(sample_interval)),
	FIELD("container", TEXT, .keep = LAUNCH(container)),
	FIELD("cpu_bind_type", U16, .keep = LAUNCH(cpu_bind_type)),
	FIELD("cpus_per_task", U16, .keep = LAUNCH(batch.cpus_per_task)),
	FIELD("restart_cnt", U16, .keep = LAUNCH(batch.restart_count)),
	FIELD("job_core_spec", U16),
	FIELD("cpu_groups", CALL, .call = take_node_cpus),
	FIELD("alias_list", TEXT, .until = SLURM_24_05, .keep = LAUNCH(batch.node_aliases)),
	FIELD("cpu_bind", TEXT, .keep = LAUNCH(cpu_bind)),
	FIELD("nodes", TEXT, .keep = LAUNCH(nodes)),
	FIELD("script", TEXT, .keep = LAUNCH(batch.script)),
	FIELD("work_dir", TEXT, .keep = LAUNCH(cwd)),
	FIELD("std_err", TEXT, .keep = LAUNCH(files[2])),
	FIELD("std_in", TEXT, .keep = LAUNCH(files[0])),
	FIELD("std_out", TEXT, .keep = LAUNCH(files[1])),
	FIELD("argc", U32),
	FIELD("argv", TEXTS, .keep = LAUNCH(argv)),
	FIELD("spank_job_env", TEXTS, .keep = LAUNCH(spank_env)),
	FIELD("envc", U32),
	FIELD("env", TEXTS, .keep = LAUNCH(env)),
	FIELD("job_mem", U64),
	FIELD("cred", CALL, .call = take_credential),
	FIELD("select", CALL, .until = SLURM_22_05, .call = skip_select),
	FIELD("account", TEXT, .keep = LAUNCH(batch.account)),
	FIELD("qos", TEXT, .keep = LAUNCH(batch.qos)),
	FIELD("resv_name", TEXT, .keep = LAUNCH(batch.reservation)),
	FIELD("profile", U32, .keep = LAUNCH(profile)),
	FIELD("tres_bind", TEXT, .keep = LAUNCH(tres_bind)),
	FIELD("tres_freq", TEXT, .keep = LAUNCH(tres_freq)),
	FIELD("tres_per_task", TEXT, .since = SLURM_25_05, .keep = LAUNCH(batch.tres_per_task)),
	FIELD("cpu_freq_min", U32, .since = SLURM_24_11, .keep = LAUNCH(cpu_freq_min)),
	FIELD("cpu_freq_max", U32, .since = SLURM_24_11, .keep = LAUNCH(cpu_freq_max)),
	FIELD("cpu_freq_gov", U32, .since = SLURM_24_11, .keep = LAUNCH(cpu_freq_gov)),
	FIELD("oom_kill_step", U8, .since = SLURM_24_11, .keep = LAUNCH(oom_kill_step)),
	FIELD("runtime", TEXT, .since = SLURM_26_11),
};
/* clang-format on */

/* ---- the message --------------------------------------------------------------------------- */

static enum slurm_step_kind kind_of(const struct slurm_frame *frame, const struct slurm_launch *l)
{
	if (frame->type == SLURM_LAUNCH_BATCH)
		return SLURM_KIND_BATCH;
	if (l->id.step == SLURM_STEP_EXTERN)
		return SLURM_KIND_EXTERN;
	if (l->id.step == SLURM_STEP_INTERACTIVE)
		return SLURM_KIND_INTERACTIVE;
	/* Of a component of a job, and of one that is of a step alone. */
	return (l->het.job && l->het.job != SLURM_NO_VAL) || l->id.het_component != SLURM_NO_VAL
		? SLURM_KIND_HET
		: SLURM_KIND_SRUN;
}

void slurm_launch_clear(struct slurm_launch *launch)
{
	free(take_ptr(launch->token_body));
}

int slurm_launch_decode(const void *data, const struct slurm_frame *frame,
	const struct slurm_node_conf *conf, struct slurm_launch *launch, struct err *err)
{
	struct unpack u = {.data = (const uint8_t *)data + frame->launch.at,
		.size = frame->launch.size,
		.release = frame->release,
		.about = conf};
	bool batch = frame->type == SLURM_LAUNCH_BATCH;

	*launch = (struct slurm_launch){.id.het_component = SLURM_NO_VAL,
		.claimed_uid = SLURM_NO_VAL,
		.claimed_gid = SLURM_NO_VAL};
	if (batch)
		unpack_rows(&u, batch_rows, ARRAY_SIZE(batch_rows), launch);
	else
		unpack_rows(&u, tasks_rows, ARRAY_SIZE(tasks_rows), launch);
	launch->kind = kind_of(frame, launch);
	if (batch)
		launch->id.step = SLURM_STEP_BATCH;
	if (u.bad || u.at != u.size)
		return err_set_text(err, -EBADMSG,
			"the launch message is not that of release %s: %s at %s",
			slurm_release_name(frame->release), u.bad ? u.bad : "more data than fields",
			u.field ? u.field : "its end");
	return 0;
}
