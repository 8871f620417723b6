/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/init.h"

#include <assert.h>
#include <string.h>

#include "contrib/slurm/job_namespace.h"

#define CPU_FREQUENCY_SIZE 332 /* of a record */
#define NODE_NAME_MAX      1024

/* ---- the stream ---------------------------------------------------------------------------- */

struct stream {
	const uint8_t *data;
	size_t size, at;
	size_t missing;
	int error;
};

/* Passes the next bytes: false if not all of them are there. */
static bool stream_pass(struct stream *s, uint64_t size, struct slurm_span *ret_span)
{
	if (s->missing || s->error)
		return false;
	if (size > SLURM_INIT_MAX - s->at) {
		s->error = -EMSGSIZE;
		return false;
	}
	if (s->size - s->at < size) {
		s->missing = (size_t)size - (s->size - s->at);
		return false;
	}
	if (ret_span)
		*ret_span = (struct slurm_span){s->at, (size_t)size};
	s->at += (size_t)size;
	return true;
}

static bool stream_take(struct stream *s, void *value, size_t size)
{
	struct slurm_span span;

	if (!stream_pass(s, size, &span))
		return false;
	memcpy(value, s->data + span.at, size);
	return true;
}

/* A length and so many bytes. */
static bool stream_pass_item(struct stream *s, int32_t most, struct slurm_span *ret_span)
{
	int32_t size;

	if (!stream_take(s, &size, sizeof(size)))
		return false;
	if (size < 0 || size > most) {
		s->error = -EBADMSG;
		return false;
	}
	return stream_pass(s, (uint64_t)size, ret_span);
}

/* The configuration alone tells the release, and with it what follows. */
static bool stream_take_release(struct stream *s, struct slurm_frame *f)
{
	int32_t size;
	uint8_t bytes[2];
	struct slurm_span begin;

	if (!stream_take(s, &size, sizeof(size)))
		return false;
	if (size < (int32_t)sizeof(bytes)) {
		s->error = -EBADMSG;
		return false;
	}
	if (!stream_pass(s, sizeof(bytes), &begin))
		return false;
	memcpy(bytes, s->data + begin.at, sizeof(bytes));
	f->release = (uint16_t)(bytes[0] << 8 | bytes[1]);
	if (!slurm_release_name(f->release)) {
		s->error = -EPROTONOSUPPORT;
		return false;
	}
	f->conf = (struct slurm_span){begin.at, (size_t)size};
	return stream_pass(s, (uint64_t)size - sizeof(bytes), NULL);
}

static bool stream_take_tree(struct stream *s, struct slurm_frame *f)
{
	if (!stream_take(s, &f->type, sizeof(f->type)))
		return false;
	if (f->type != SLURM_LAUNCH_BATCH && f->type != SLURM_LAUNCH_TASKS) {
		s->error = -EBADMSG;
		return false;
	}
	return stream_take(s, &f->rank, sizeof(f->rank)) &&
		stream_take(s, &f->parent_rank, sizeof(f->parent_rank)) &&
		stream_take(s, &f->children, sizeof(f->children)) &&
		stream_take(s, &f->depth, sizeof(f->depth)) &&
		stream_take(s, &f->max_depth, sizeof(f->max_depth));
}

/* Its address, as this machine has it, or its name. */
static bool stream_take_parent(struct stream *s, struct slurm_frame *f)
{
	struct sockaddr_storage address;

	if (f->release >= SLURM_23_11)
		return stream_pass_item(s, NODE_NAME_MAX, &f->parent_name);
	if (!stream_take(s, &address, sizeof(address)))
		return false;
	if (address.ss_family == AF_INET)
		memcpy(&f->parent, &address, sizeof(f->parent));
	return true;
}

/* Where slurmd has got the message, up to 23.02. */
static bool stream_take_self(struct stream *s, struct slurm_frame *f)
{
	static const struct unpack_row row =
		FIELD("self", ADDR, .keep = UNPACK_KEEP(struct slurm_frame, self));
	struct slurm_span span;
	struct unpack u;

	if (f->release >= SLURM_23_11)
		return true;
	if (!stream_pass_item(s, SLURM_INIT_MAX, &span))
		return false;
	u = (struct unpack){.data = s->data + span.at, .size = span.size, .release = f->release};
	unpack_rows(&u, &row, 1, f); /* without one it is not known */
	return true;
}

static bool stream_take_rest(struct stream *s, struct slurm_frame *f)
{
	int32_t most = SLURM_INIT_MAX;
	struct slurm_node_conf conf;
	struct err err = ERR_INIT;

	if (f->release == SLURM_22_05)
		return stream_pass_item(s, most, &f->gres);
	/* A configuration that can't be read is the decoder's to report. */
	if (slurm_init_decode_conf(s->data, f, &conf, &err) < 0 ||
		job_namespace_is_other(conf.namespace_plugin))
		return true;
	/* slurmd's scope of cgroup v2, from 24.11 on; cgroup.conf, acct_gather.conf. */
	if (f->release >= SLURM_24_11 && !stream_pass_item(s, most, NULL))
		return false;
	if (!stream_pass_item(s, most, &f->cgroup) || !stream_pass_item(s, most, NULL))
		return false;
	if (job_namespace_is_tmpfs(conf.namespace_plugin) &&
		!stream_pass_item(s, most, &f->name_space))
		return false;
	return stream_pass_item(s, most, &f->gres);
}

static bool stream_take_items(struct stream *s, struct slurm_frame *f)
{
	int32_t most = SLURM_INIT_MAX;

	if (!stream_take_release(s, f))
		return false;
	/* 22.05: cgroup.conf and acct_gather.conf; from 23.02 on the table of the node lines. */
	if (f->release == SLURM_22_05 && !stream_pass_item(s, most, &f->cgroup))
		return false;
	if (!stream_pass_item(s, most, NULL))
		return false;
	if (!stream_take_tree(s, f))
		return false;
	if (!stream_take_parent(s, f))
		return false;
	/* The client's address, and the node's own. */
	if (!stream_pass_item(s, most, NULL) || !stream_take_self(s, f))
		return false;
	return stream_take(s, &f->frequencies, sizeof(f->frequencies)) &&
		stream_pass(s, (uint64_t)f->frequencies * CPU_FREQUENCY_SIZE, NULL) &&
		stream_take(s, &f->client_release, sizeof(f->client_release)) &&
		stream_pass_item(s, most, &f->launch) && stream_take_rest(s, f);
}

ssize_t slurm_init_missing(const void *data, size_t size, struct slurm_frame *ret_frame)
{
	struct stream s = {.data = data, .size = size};
	struct slurm_frame f = {0};

	if (stream_take_items(&s, &f)) {
		f.end = s.at;
		*ret_frame = f;
		return 0;
	}
	assert(s.error || s.missing);
	ret_frame->release = f.release;
	return s.error ? s.error : (ssize_t)s.missing;
}

ssize_t slurm_init_missing_gres_conf(const void *data, size_t size, struct slurm_frame *frame)
{
	struct stream s = {.data = data, .size = size, .at = frame->end};
	struct slurm_span conf;

	if (stream_pass_item(&s, SLURM_INIT_MAX, &conf)) {
		frame->gres_conf = conf;
		frame->has_gres_conf = true;
		frame->end = s.at;
		return 0;
	}
	assert(s.error || s.missing);
	return s.error ? s.error : (ssize_t)s.missing;
}

/* ---- the node's configuration -------------------------------------------------------------- */

#define CONF(member_) UNPACK_KEEP(struct slurm_node_conf, member_)
#define TRES(member_) UNPACK_KEEP(struct slurm_tres, member_)

static void take_daemon(struct unpack *u, void *result)
{
	struct slurm_node_conf *conf = result;

	conf->daemon = u->release < SLURM_23_02 ? unpack_u32(u) : unpack_u8(u);
}

/* clang-format off */
static const struct unpack_row node_rows[] = {
	FIELD("version", U16),
	FIELD("hostname", TEXT, .keep = CONF(hostname)),
	FIELD("cpus", U16),
	FIELD("boards", U16),
	FIELD("sockets", U16, .keep = CONF(sockets)),
	FIELD("cores", U16, .keep = CONF(cores)),
	FIELD("threads", U16, .keep = CONF(threads)),
	FIELD("actual_threads", U16, .since = SLURM_23_11),
	FIELD("cpu_spec_list", TEXT),
	FIELD("core_spec_cnt", U16),
	FIELD("mem_spec_limit", U64),
	FIELD("memory_size", U64, .keep = CONF(memory_mb)),
	FIELD("block_map_size", U16),
	FIELD("block_map", A16, .keep = CONF(block_map)),
	FIELD("block_map_inv", A16),
	FIELD("conffile", TEXT, .since = SLURM_24_05),
	FIELD("spooldir", TEXT, .keep = CONF(spool_dir)),
	FIELD("node_name", TEXT, .keep = CONF(node_name)),
	FIELD("logfile", TEXT, .keep = CONF(log_file)),
	FIELD("debug_level", U32, .keep = CONF(debug_level)),
	FIELD("syslog_debug", U32, .keep = CONF(syslog_level)),
	FIELD("stepd_loc", TEXT, .since = SLURM_24_05),
	FIELD("daemonize", CALL, .call = take_daemon),
	FIELD("node_topo_addr", TEXT, .keep = CONF(topology_addr)),
	FIELD("node_topo_pattern", TEXT, .keep = CONF(topology_pattern)),
	FIELD("port", U16),
};

/* Fields that came within a release's life: an init has them or not, and each way is tried. */
enum { WITH_CLUSTER = 1, WITH_ROUTE = 2, WITH_TIMEOUT = 4, WITH_TOPOLOGY = 8, WITH_PORTS = 16,
	WITH_EPILOG_TIME = 32 };

static const struct unpack_row slurm_conf_rows[] = {
	FIELD("accounting_storage_enforce", U16, .since = SLURM_24_05),
	FIELD("accounting_storage_params", TEXT, .since = SLURM_24_05),
	FIELD("accounting_storage_type", TEXT, .since = SLURM_24_05),
	FIELD("acct_gather_energy_type", TEXT),
	FIELD("acct_gather_profile_type", TEXT),
	FIELD("acct_gather_interconnect_type", TEXT),
	FIELD("acct_gather_filesystem_type", TEXT),
	FIELD("acct_gather_node_freq", U16),
	FIELD("authalttypes", TEXT),
	FIELD("authinfo", TEXT),
	FIELD("authalt_params", TEXT),
	FIELD("authtype", TEXT),
	FIELD("core_spec_plugin", TEXT, .until = SLURM_23_11),
	FIELD("cluster_name", TEXT, .until = SLURM_23_11, .optional = WITH_CLUSTER),
	FIELD("cluster_name", TEXT, .since = SLURM_24_05),
	FIELD("comm_params", TEXT),
	FIELD("conf_flags", U32),
	FIELD("control_addr", TEXTS),
	FIELD("cpu_freq_def", U32),
	FIELD("cpu_freq_govs", U32),
	FIELD("cred_type", TEXT, .keep = CONF(cred_type)),
	FIELD("debug_flags", U64),
	FIELD("epilog", TEXTS, .since = SLURM_24_05),
	FIELD("epilog_msg_time", U32, .since = SLURM_25_11, .until = SLURM_25_11,
		.optional = WITH_EPILOG_TIME),
	FIELD("epilog_msg_time", U32, .since = SLURM_26_05),
	FIELD("gres_plugins", TEXT),
	FIELD("gpu_freq_def", TEXT),
	FIELD("hash_plugin", TEXT, .since = SLURM_24_05),
	FIELD("job_acct_gather_freq", TEXT),
	FIELD("job_acct_gather_type", TEXT),
	FIELD("job_acct_gather_params", TEXT),
	FIELD("job_acct_oom_kill", U16),
	FIELD("def_runtime_plugin", TEXT, .since = SLURM_26_11),
	FIELD("job_container_plugin", TEXT, .keep = CONF(namespace_plugin)),
	FIELD("job_file_append", U16),
	FIELD("keepalive_interval", U32),
	FIELD("keepalive_probes", U32),
	FIELD("keepalive_time", U32),
	FIELD("kill_wait", U16),
	FIELD("launch_params", TEXT),
	FIELD("log_fmt", U16),
	FIELD("max_step_cnt", U32, .since = SLURM_24_05),
	FIELD("max_tasks_per_node", U16, .since = SLURM_24_05),
	FIELD("mpi_default", TEXT),
	FIELD("msg_timeout", U16),
	FIELD("plugindir", TEXT),
	FIELD("plugstack", TEXT),
	FIELD("preempt_params", TEXT, .since = SLURM_23_11),
	FIELD("prep_params", TEXT),
	FIELD("prep_plugins", TEXT),
	FIELD("proctrack_type", TEXT),
	FIELD("prolog", TEXTS, .since = SLURM_24_05),
	FIELD("prolog_flags", U16, .since = SLURM_24_05, .keep = CONF(prolog_flags)),
	FIELD("propagate_prio_process", U16),
	FIELD("propagate_rlimits", TEXT),
	FIELD("propagate_rlimits_except", TEXT),
	FIELD("route_plugin", TEXT, .since = SLURM_23_02, .until = SLURM_23_02,
		.optional = WITH_ROUTE),
	FIELD("select_type", TEXT),
	FIELD("select_type_param", U16),
	FIELD("slurm_user_id", U32),
	FIELD("slurmd_user_id", U32),
	FIELD("slurmctld_addr", TEXT),
	FIELD("slurmctld_port", U32),
	FIELD("slurmctld_port_count", U16),
	FIELD("slurmctld_timeout", U16, .until = SLURM_23_02, .optional = WITH_TIMEOUT),
	FIELD("slurmctld_timeout", U16, .since = SLURM_23_11),
	FIELD("slurmd_spooldir", TEXT),
	FIELD("slurmstepd_params", TEXT, .since = SLURM_26_11),
	FIELD("srun_port_min", U16, .since = SLURM_24_05, .until = SLURM_24_05,
		.optional = WITH_PORTS, .keep = CONF(srun_port_min)),
	FIELD("srun_port_max", U16, .since = SLURM_24_05, .until = SLURM_24_05,
		.optional = WITH_PORTS, .keep = CONF(srun_port_max)),
	FIELD("srun_port_min", U16, .since = SLURM_24_11, .keep = CONF(srun_port_min)),
	FIELD("srun_port_max", U16, .since = SLURM_24_11, .keep = CONF(srun_port_max)),
	FIELD("switch_type", TEXT, .keep = CONF(switch_type)),
	FIELD("switch_param", TEXT),
	FIELD("task_epilog", TEXT),
	FIELD("task_plugin", TEXT),
	FIELD("task_plugin_param", U32),
	FIELD("task_prolog", TEXT),
	FIELD("tcp_timeout", U16),
	FIELD("tls_params", TEXT, .since = SLURM_25_11),
	FIELD("tls_type", TEXT, .since = SLURM_24_05, .keep = CONF(tls_type)),
	FIELD("tmp_fs", TEXT),
	FIELD("topology_param", TEXT, .until = SLURM_23_02, .optional = WITH_TOPOLOGY),
	FIELD("topology_plugin", TEXT, .until = SLURM_23_02, .optional = WITH_TOPOLOGY),
	FIELD("topology_param", TEXT, .since = SLURM_23_11),
	FIELD("topology_plugin", TEXT, .since = SLURM_23_11),
	FIELD("tree_width", U16, .keep = CONF(tree_width)),
	FIELD("unkillable_program", TEXT),
	FIELD("unkillable_timeout", U16),
	FIELD("vsize_factor", U16),
	FIELD("wait_time", U16),
	FIELD("x11_params", TEXT),
};

static const struct unpack_row tres_rows[] = {
	FIELD("alloc_secs", U64, .keep = TRES(seconds)),
	FIELD("count", U64, .keep = TRES(count)),
	FIELD("id", U32, .keep = TRES(id)),
	FIELD("name", TEXT, .keep = TRES(name)),
	FIELD("type", TEXT, .keep = TRES(type)),
};
/* clang-format on */

static uint16_t conf_variants(uint16_t release)
{
	switch (release) {
	case SLURM_23_02:
		return WITH_CLUSTER | WITH_ROUTE | WITH_TIMEOUT | WITH_TOPOLOGY;
	case SLURM_23_11:
		return WITH_CLUSTER;
	case SLURM_24_05:
		return WITH_PORTS;
	case SLURM_25_11:
		return WITH_EPILOG_TIME;
	default:
		return 0;
	}
}

/* Up to the last byte: that shows that the fields were the right ones. */
static bool decode_slurm_conf(struct unpack *u, uint16_t variant, struct slurm_node_conf *conf)
{
	struct slurm_tres tres;
	size_t begin;
	uint32_t i;

	u->variant = variant;
	if (u->release >= SLURM_23_02)
		unpack_rows(u, slurm_conf_rows, ARRAY_SIZE(slurm_conf_rows), conf);
	conf->tres.n = unpack_u32(u);
	begin = u->at;
	for (i = 0; i < conf->tres.n && !u->bad; i++)
		unpack_rows(u, tres_rows, ARRAY_SIZE(tres_rows), &tres);
	conf->tres.bytes = u->data + begin;
	conf->tres.size = u->at - begin;
	return !u->bad && u->at == u->size;
}

bool slurm_tres_next(struct slurm_tres_list *rest, struct slurm_tres *ret_tres)
{
	struct unpack u = {.data = rest->bytes, .size = rest->size};
	struct slurm_tres tres = {0};

	if (rest->n == 0)
		return false;
	unpack_rows(&u, tres_rows, ARRAY_SIZE(tres_rows), &tres);
	if (u.bad)
		return false; /* not where all of it has been decoded */
	*ret_tres = tres;
	rest->n--;
	rest->bytes += u.at;
	rest->size -= u.at;
	return true;
}

/* With all optional fields first, then with fewer of them. */
static bool decode_variants(struct unpack *u, struct slurm_node_conf *conf)
{
	uint16_t all = conf_variants(u->release), variant = all;
	struct slurm_node_conf c;
	struct unpack attempt;

	for (;;) {
		c = *conf;
		attempt = *u;
		if (decode_slurm_conf(&attempt, variant, &c)) {
			*conf = c;
			return true;
		}
		if (variant == 0)
			break;
		variant = (uint16_t)((variant - 1) & all);
	}
	u->bad = attempt.bad ? attempt.bad : "more data than fields";
	u->field = attempt.field;
	return false;
}

int slurm_init_decode_conf(const void *data, const struct slurm_frame *frame,
	struct slurm_node_conf *conf, struct err *err)
{
	struct unpack u = {.data = (const uint8_t *)data + frame->conf.at,
		.size = frame->conf.size,
		.release = frame->release};

	*conf = (struct slurm_node_conf){0};
	unpack_rows(&u, node_rows, ARRAY_SIZE(node_rows), conf);
	if (!u.bad)
		(void)decode_variants(&u, conf); /* u has the failure */
	if (u.bad)
		return err_set_text(err, -EBADMSG,
			"the node's configuration is not that of release %s: %s at %s",
			slurm_release_name(u.release), u.bad, u.field ? u.field : "its end");
	return 0;
}

/* ---- cgroup.conf --------------------------------------------------------------------------- */

#define MIN_MEMORY_MB    30u
#define FLOAT_MILLIONTHS 1e6

/* As it is packed. */
struct packed_cgroup {
	uint8_t cores, memory, swap, devices, job_id_paths;
	uint32_t allowed_memory, max_memory, allowed_swap, max_swap; /* the bits of a float */
	uint64_t min_memory_mb;
	const char *mount, *slice;
};

#define CGROUP(member_) UNPACK_KEEP(struct packed_cgroup, member_)

/* clang-format off */
enum { WITH_CONTROLLERS = 1 }; /* a bit of unpack.variant, as above */

static const struct unpack_row cgroup_rows[] = {
	FIELD("cgroup automount", U8, .until = SLURM_23_02),
	FIELD("cgroup mountpoint", TEXT, .keep = CGROUP(mount)),
	FIELD("cgroup prepend", TEXT),
	FIELD("cgroup slice", TEXT, .since = SLURM_25_11, .keep = CGROUP(slice)),
	FIELD("cgroup constrain_cores", U8, .keep = CGROUP(cores)),
	FIELD("cgroup constrain_ram_space", U8, .keep = CGROUP(memory)),
	FIELD("cgroup allowed_ram_space", U32, .keep = CGROUP(allowed_memory)),
	FIELD("cgroup max_ram_percent", U32, .keep = CGROUP(max_memory)),
	FIELD("cgroup min_ram_space", U64, .keep = CGROUP(min_memory_mb)),
	FIELD("cgroup constrain_kmem_space", U8, .until = SLURM_23_02),
	FIELD("cgroup allowed_kmem_space", U32, .until = SLURM_23_02),
	FIELD("cgroup max_kmem_percent", U32, .until = SLURM_23_02),
	FIELD("cgroup min_kmem_space", U64, .until = SLURM_23_02),
	FIELD("cgroup constrain_swap_space", U8, .keep = CGROUP(swap)),
	FIELD("cgroup allowed_swap_space", U32, .keep = CGROUP(allowed_swap)),
	FIELD("cgroup max_swap_percent", U32, .keep = CGROUP(max_swap)),
	FIELD("cgroup memory_swappiness", U64),
	FIELD("cgroup constrain_devices", U8, .keep = CGROUP(devices)),
	FIELD("cgroup plugin", TEXT),
	FIELD("cgroup ignore_systemd", U8),
	FIELD("cgroup ignore_systemd_on_failure", U8),
	FIELD("cgroup root_owned_cgroups", U8, .since = SLURM_23_02, .until = SLURM_23_02),
	FIELD("cgroup enable_controllers", U8, .since = SLURM_23_02, .optional = WITH_CONTROLLERS),
	FIELD("cgroup enable_extra_controllers", TEXT, .since = SLURM_25_05),
	FIELD("cgroup signal_children_processes", U8, .since = SLURM_23_11),
	FIELD("cgroup systemd_timeout", U64, .since = SLURM_24_05),
	FIELD("cgroup job_id_paths", U8, .since = SLURM_26_05, .keep = CGROUP(job_id_paths)),
};
/* clang-format on */

/* All but 23.02.0 have the optional field. */
static bool decode_cgroup(struct unpack *u, uint16_t variant, struct packed_cgroup *packed)
{
	u->variant = variant;
	unpack_rows(u, cgroup_rows, ARRAY_SIZE(cgroup_rows), packed);
	return !u->bad && u->at == u->size;
}

/* Millionths in a float. */
static double unpack_percent(uint32_t bits)
{
	float millionths;

	memcpy(&millionths, &bits, sizeof(millionths));
	return (double)millionths / FLOAT_MILLIONTHS;
}

int slurm_init_decode_cgroup(const void *data, const struct slurm_frame *frame,
	struct slurm_cgroup_conf *conf, struct err *err)
{
	struct unpack u = {.data = (const uint8_t *)data + frame->cgroup.at,
		.size = frame->cgroup.size,
		.release = frame->release};
	struct packed_cgroup packed = {0};
	struct unpack begin;
	bool job_id_paths = frame->release < SLURM_26_05;

	*conf = (struct slurm_cgroup_conf){.allowed_memory = 100,
		.max_memory = 100,
		.max_swap = 100,
		.min_memory_mb = MIN_MEMORY_MB,
		.mount = SLURM_CGROUP_MOUNT,
		.slice = SLURM_CGROUP_SLICE,
		.job_id_paths = job_id_paths};
	if (!unpack_u8(&u) && !u.bad)
		return 0; /* there is no such file */
	begin = u;
	if (!decode_cgroup(&u, WITH_CONTROLLERS, &packed) &&
		!(frame->release == SLURM_23_02 && decode_cgroup(&begin, 0, &packed)))
		return err_set_text(err, -EBADMSG,
			"cgroup.conf is not that of release %s: %s at %s",
			slurm_release_name(frame->release), u.bad ? u.bad : "more data than fields",
			u.field ? u.field : "its end");
	*conf = (struct slurm_cgroup_conf){.constrains_cores = packed.cores,
		.constrains_memory = packed.memory,
		.constrains_swap = packed.swap,
		.constrains_devices = packed.devices,
		.allowed_memory = unpack_percent(packed.allowed_memory),
		.max_memory = unpack_percent(packed.max_memory),
		.allowed_swap = unpack_percent(packed.allowed_swap),
		.max_swap = unpack_percent(packed.max_swap),
		.min_memory_mb = packed.min_memory_mb,
		.mount = packed.mount ? packed.mount : SLURM_CGROUP_MOUNT,
		.slice = packed.slice ? packed.slice : SLURM_CGROUP_SLICE,
		.job_id_paths = job_id_paths || packed.job_id_paths};
	return 0;
}
