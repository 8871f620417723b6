/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/spank_serve.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>

#include "contrib/slurm/decision.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/spank_file.h"
#include "contrib/slurm/spank_wire.h"
#include "contrib/slurm/step_spec.h"
#include "stepd/base/bitset.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/base/strv.h"
#include "stepd/cli/options.h"

/* Messages that are taken in one turn of the loop. */
#define MESSAGES_PER_TURN 64

/* Slurm's number of errors, and of what slurmd's log has in any case. */
#define LEVEL_ERROR 2u

struct spank_serve {
	struct spank_serve_options options;
	struct strv args;
	int fd, agent_fd; /* -1: closed */
	int failure;
	ev_io readable;
};

/* ---- what the step is ---------------------------------------------------------------------- */

/* Takes value. A text that is not UTF-8 makes none. */
static int put(json_t *facts, const char *name, json_t *value)
{
	if (!value)
		return -EILSEQ;
	return json_object_set_new(facts, name, value) < 0 ? -ENOMEM : 0;
}

static int append(json_t *array, json_t *value)
{
	if (!value)
		return -EILSEQ;
	return json_array_append_new(array, value) < 0 ? -ENOMEM : 0;
}

/* Those that have been checked alone. */
static int put_plugins(json_t *facts, const struct plugstack *stack, const struct log *log)
{
	json_t *plugins = json_array(), *plugin, *args;
	size_t i, k;
	int r = put(facts, "plugins", plugins);

	for (i = 0; r == 0 && i < stack->n; i++) {
		const struct plugstack_plugin *p = &stack->v[i];

		if (p->ignored) {
			log_info(log, "%s, ignoring", p->ignored);
			continue;
		}
		args = json_array();
		plugin = json_pack("{s:s, s:s, s:b, s:o}", "path", p->path, "where", p->where,
			"required", p->required, "args", args);
		r = append(plugins, plugin);
		for (k = 0; r == 0 && k < p->args.n; k++)
			r = append(args, json_string(p->args.v[k]));
	}
	return r;
}

static int put_options(json_t *facts, const struct slurm_launch *l)
{
	struct slurm_options rest = l->options;
	json_t *options = json_array();
	const char *name, *arg;
	int r = put(facts, "options", options);

	while (r == 0 && slurm_options_next(&rest, &name, &arg)) {
		if (name)
			r = append(options,
				arg ? json_pack("[s, s]", name, arg) : json_pack("[s, n]", name));
	}
	return r;
}

/* A script has its copy, which is executed, in the place of its name. */
static int put_argv(json_t *facts, const struct slurm_launch *l, const json_t *doc)
{
	const char *script = json_string_value(json_object_get(doc, "script_file")), *arg;
	struct slurm_strs rest = l->argv;
	json_t *argv = json_array();
	int r = put(facts, "argv", argv);

	if (r == 0 && script) {
		r = append(argv, json_string(script));
		(void)slurm_strs_next(&rest);
	}
	while (r == 0 && (arg = slurm_strs_next(&rest)))
		r = append(argv, json_string(arg));
	return r;
}

static int put_groups(json_t *facts, const struct spank_serve_options *o)
{
	json_t *groups = json_array();
	uint32_t i;
	int r = put(facts, "groups", groups);

	for (i = 0; r == 0 && i < o->groups_count; i++)
		r = append(groups, json_integer(o->groups[i]));
	return r;
}

/* "0-3": the cores of this node that a mask of all nodes has. */
static int put_cores(json_t *facts, const char *name, const struct slurm_launch *l,
	const struct slurm_bits *bits, const char *node)
{
	_cleanup_bitset_ struct bitset all = {0}, own = {0};
	uint64_t first, n;
	uint32_t index, i;
	char text[1024] = "";
	int r;

	if (!bits->mask || slurm_launch_find_job_node(l, node, &index) < 0 ||
		!slurm_cores_find(&l->cores, index, bits->n, &first, &n) || first + n > bits->n)
		return put(facts, name, json_string(text));
	r = slurm_bits_read(bits, &all);
	if (r == 0)
		r = bitset_init(&own, (uint32_t)n + 1);
	for (i = 0; r == 0 && i < n; i++) {
		if (bitset_test(&all, (uint32_t)first + i))
			(void)bitset_set(&own, i);
	}
	if (r < 0)
		return r;
	(void)bitset_format_list(&own, text, sizeof(text)); /* cut, as Slurm does */
	return put(facts, name, json_string(text));
}

/* The release is known by slurmd's protocol, the last number by a file alone. */
static int put_version(json_t *facts, const struct plugstack *stack, uint16_t release)
{
	_cleanup_spank_file_ struct spank_file file = {0};
	_cleanup_free_ char *path = NULL;
	const char *name = slurm_release_name(release), *dot = strchr(name, '.');
	char whole[32], micro[16] = "0";
	int r = plugstack_find(stack, SPANK_KNOWN_PLUGIN, &path);

	if (r < 0)
		return r;
	if (path && spank_file_read(path, &file, NULL) == 0)
		(void)snprintf(micro, sizeof(micro), "%u", file.version & 0xff);
	(void)snprintf(whole, sizeof(whole), "%s.%s", name, micro);
	r = put(facts, "version", json_string(whole));
	if (r == 0)
		r = put(facts, "version_major", json_stringn(name, (size_t)(dot - name)));
	if (r == 0)
		r = put(facts, "version_minor", json_string(dot + 1));
	return r == 0 ? put(facts, "version_micro", json_string(micro)) : r;
}

static uint32_t number_of(const struct slurm_launch *l, const char *variable, uint32_t otherwise)
{
	const char *text = step_spec_getenv(l, variable);

	return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

/* How many levels above that of errors users read: what --slurmd-debug has, which from 23.02 on is
 * the level itself, and root's and SlurmUser's alone. */
static uint32_t get_debug(const struct slurm_init *init)
{
	const struct slurm_launch *l = &init->launch;

	if (init->frame.release < SLURM_23_02)
		return l->debug;
	return l->debug > LEVEL_ERROR && (l->uid == 0 || l->uid == init->site->slurm_user)
		? l->debug - LEVEL_ERROR
		: 0;
}

static int put_numbers(json_t *facts, const struct slurm_init *init, uint32_t node_id)
{
	const struct slurm_launch *l = &init->launch;
	bool script = l->kind == SLURM_KIND_BATCH;
	uint32_t cpus = l->node_cpus;
	uint64_t memory_mb = l->cred_memory_mb;
	json_t *numbers;
	int r;

	if (script && l->batch.node_cpus.n > 0)
		cpus = slurm_array_u16(&l->batch.node_cpus, 0);
	if (memory_mb & SLURM_MEMORY_PER_CPU)
		memory_mb = (memory_mb & ~SLURM_MEMORY_PER_CPU) * cpus;
	/* slurmd says of a script neither. */
	numbers = json_pack("{s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"script", script, "extern", l->kind == SLURM_KIND_EXTERN, "node_id",
		(json_int_t)node_id, "nnodes", (json_int_t)(script ? 0 : l->nnodes), "ntasks",
		(json_int_t)(script ? 0 : l->ntasks), "cpus", (json_int_t)cpus, "cpus_per_task",
		(json_int_t)(script ? cpus : l->cpus_per_task), "restarts",
		(json_int_t)l->restart_count, "debug", (json_int_t)get_debug(init), "array_job",
		(json_int_t)(script ? l->batch.array_job
				    : number_of(l, "SLURM_ARRAY_JOB_ID", l->id.job)),
		"array_task",
		(json_int_t)(script ? l->batch.array_task
				    : number_of(l, "SLURM_ARRAY_TASK_ID", SLURM_NO_VAL)),
		"job_memory_mb", (json_int_t)(script ? memory_mb : l->job_memory_mb),
		"step_memory_mb", (json_int_t)(script ? memory_mb : l->step_memory_mb));
	r = numbers && json_object_update(facts, numbers) == 0 ? 0 : -ENOMEM;
	json_decref(numbers);
	return r;
}

static int make_facts(const struct spank_serve_options *o, json_t *facts)
{
	const struct slurm_launch *l = &o->init->launch;
	const struct plugstack *stack = &o->init->site->plugstack;
	const char *node = o->init->conf.node_name;
	int r = put(facts, "node", json_string(node));

	if (r == 0)
		r = put_plugins(facts, stack, o->log);
	if (r == 0)
		r = put_options(facts, l);
	if (r == 0)
		r = put_argv(facts, l, o->doc);
	if (r == 0)
		r = put_groups(facts, o);
	if (r == 0)
		r = put_cores(facts, "job_cores", l, &l->cores.job, node);
	if (r == 0)
		r = put_cores(facts, "step_cores", l, &l->cores.step, node);
	if (r == 0)
		r = put_version(facts, stack, o->init->frame.release);
	/* An option that srun has sent is not looked for in the environment any more. */
	if (r == 0)
		r = put(facts, "options_once", json_boolean(o->init->frame.release >= SLURM_24_05));
	return r == 0 ? put_numbers(facts, o->init, o->node_id) : r;
}

/* ---- to the agent -------------------------------------------------------------------------- */

static int send_facts(const struct spank_serve *s, struct err *err)
{
	json_auto_t *facts = json_object();
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int file = -1;
	int r = facts ? make_facts(&s->options, facts) : -ENOMEM;

	if (r == 0) {
		text = json_dumps(facts, JSON_COMPACT);
		file = text ? fs_memory("spank", text, strlen(text)) : -ENOMEM;
		r = file < 0 ? file : fs_send_descriptor(s->fd, file);
	}
	return r < 0 ? err_set(err, r, "tell SPANK plugins of the step") : 0;
}

/* As the agent does, which would fail the step. */
static int find_library(char **ret_library, struct err *err)
{
	int r = program_find(".libs/step_hooks_spank.so", SPANK_LIBRARY, ret_library, err);
	_cleanup_close_ int fd = r < 0 ? -1 : open(*ret_library, O_RDONLY | O_CLOEXEC);

	if (r < 0)
		return r;
	return fd < 0 ? err_set(err, -errno, "open '%s'", *ret_library)
		      : fs_check_file(fd, *ret_library, err);
}

static int make_args(struct spank_serve *s, struct err *err)
{
	_cleanup_free_ char *library = NULL;
	int r = find_library(&library, err);

	if (r < 0)
		return r;
	if (strv_extend(&s->args, s->options.args) < 0 ||
		strv_addf(&s->args, "--step-hooks=%s", library) < 0 ||
		strv_addf(&s->args, "--step-hooks-fd=%d", s->agent_fd) < 0)
		return err_set(err, -ENOMEM, "start the agent");
	return 0;
}

/* ---- the plugins' messages ----------------------------------------------------------------- */

static void take_log(const struct spank_serve *s, unsigned level, const char *text)
{
	if (level <= LEVEL_ERROR)
		log_error(s->options.log, "%s", text);
	else if (level <= s->options.init->conf.debug_level)
		log_info(s->options.log, "%s", text);
}

/* Without a byte that would steer a log; a line for the user is as the plugin has it. */
static void take_message(struct spank_serve *s, char *text)
{
	unsigned level = (unsigned)(text[1] - '0');
	uint32_t number;

	if (text[0] == SPANK_WIRE_SHOW) {
		s->options.show(text + 2, s->options.userdata);
	} else if (text[0] == SPANK_WIRE_LOG) {
		log_make_printable(text + 2);
		take_log(s, level, text + 2);
	} else if (text[0] == SPANK_WIRE_FAILURE &&
		parse_u32(text + 2, 1, UINT32_MAX, &number) == 0) {
		s->failure = (int)number;
	}
}

/* False: there is none now. */
static bool read_message(struct spank_serve *s)
{
	char message[SPANK_MESSAGE_MAX + 1];
	ssize_t n;

	do
		n = recv(s->fd, message, sizeof(message) - 1, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) { /* the last process that had the other end is gone */
		ev_io_stop(s->options.loop, &s->readable);
		s->fd = close_fd(s->fd);
		return false;
	}
	message[n] = '\0';
	if (n >= 2)
		take_message(s, message);
	return s->fd >= 0;
}

static void spank_on_readable(_unused_ struct ev_loop *loop, ev_io *watcher, _unused_ int revents)
{
	unsigned n;

	assert(watcher->data);
	for (n = 0; n < MESSAGES_PER_TURN && read_message(watcher->data); n++)
		;
}

/* ---- life ---------------------------------------------------------------------------------- */

DEFINE_CLEANUP(struct spank_serve *, spank_serve_free);

int spank_serve_new(
	const struct spank_serve_options *options, struct spank_serve **ret_spank, struct err *err)
{
	_cleanup_(spank_serve_free_p) struct spank_serve *s = calloc(1, sizeof(*s));
	int pair[2], r;

	if (!s)
		return err_set(err, -ENOMEM, "serve SPANK plugins");
	s->options = *options;
	s->fd = s->agent_fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, -errno, "make a socket for SPANK plugins");
	s->fd = pair[0];
	s->agent_fd = pair[1];
	r = send_facts(s, err);
	if (r == 0)
		r = make_args(s, err);
	if (r < 0)
		return r;
	ev_io_init(&s->readable, spank_on_readable, s->fd, EV_READ);
	s->readable.data = s;
	*ret_spank = take_ptr(s);
	return 0;
}

const struct strv *spank_serve_args(const struct spank_serve *spank)
{
	return &spank->args;
}

const int *spank_serve_fd(const struct spank_serve *spank)
{
	return &spank->agent_fd;
}

void spank_serve_start(struct spank_serve *spank)
{
	ev_io_start(spank->options.loop, &spank->readable);
}

int spank_serve_finish(struct spank_serve *spank)
{
	if (!spank)
		return 0;
	while (spank->fd >= 0 && read_message(spank))
		;
	return spank->failure;
}

struct spank_serve *spank_serve_free(struct spank_serve *spank)
{
	if (!spank)
		return NULL;
	if (spank->fd >= 0 && spank->options.loop)
		ev_io_stop(spank->options.loop, &spank->readable);
	spank->fd = close_fd(spank->fd);
	spank->agent_fd = close_fd(spank->agent_fd);
	strv_clear(&spank->args);
	free(spank);
	return NULL;
}
