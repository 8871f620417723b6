/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any arguments to each method of a live step: a container of linuxproc with one process in it and
 * three tasks, in this process's own agent. The input's first byte chooses the method, bit 7
 * requests for more; the parameters, of the types of the method's row, are made of the rest. Each
 * call is answered, with JSON, and nothing is kept of it when the caller has gone.
 *
 * Frames are fuzz_frame's. Signals reach the container's members alone; who doesn't trust that runs
 * this in a pid namespace of its own: unshare -pf --mount-proc. AddPid gets no living stranger.
 * STEPD_FUZZ_METHOD=NAME: that method alone. STEPD_PLUGIN_DIR is the directory of linuxproc, of
 * a build that is none for fuzzing: it is unloaded at times, and its counters with it. Run it with
 * ASAN_OPTIONS=symbolize=0, -print_funcs=0 and -detect_leaks=0: the symbolizer, and what stops this
 * process to look for leaks, are its children and so members, which get signals.
 */
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "proctrack/proctrack.h"
#include "stepd/base/err.h"
#include "stepd/frontend/frontends.h"
#include "stepd/operations/operations.h"
#include "stepd/plugin/plugin.h"
#include "stepd/record/events.h"
#include "stepd/record/registry.h"
#include "stepd/spec/spec.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/ending.h"

#define ANSWER_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char spec_text[] =
	"{\"job\": 1, \"node\": {\"name\": \"n\"}, \"ntasks\": 3, \"argv\": [\"true\"], \"cwd\": \"/\"}";

static void require(bool holds)
{
	if (!holds)
		abort();
}

struct rig {
	struct agent a;
	struct agent_options options;
	struct log log;
	struct spec *spec;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	char dir[64];
	pid_t member;
};

/* Not the fuzzer's handlers: they would report a signal to the member as a fault. */
static void reset_signals(const sigset_t *mask)
{
	int i;

	for (i = 1; i <= SIGRTMAX; i++)
		(void)signal(i, SIG_DFL); /* not for KILL and STOP */
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
}

static pid_t make_member(void)
{
	sigset_t all, mask;
	pid_t pid;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &mask);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		reset_signals(&mask);
		for (;;)
			pause();
	}
	(void)sigprocmask(SIG_SETMASK, &mask, NULL);
	require(pid > 0);
	return pid;
}

static void add_member(struct rig *rig)
{
	rig->member = make_member();
	require(proctrack_add(rig->a.pt, &rig->a.plan.job, rig->member) == 0);
}

static void open_step(struct rig *rig)
{
	const char *parent = getenv("TMPDIR");
	struct agent *a = &rig->a;
	_cleanup_free_ char *plugins = NULL;
	struct err err = ERR_INIT;
	int r;

	(void)snprintf(rig->dir, sizeof(rig->dir), "%s/fuzz.XXXXXX", parent ? parent : "/tmp");
	require(mkdtemp(rig->dir));
	r = spec_from_text(spec_text, strlen(spec_text), &rig->spec, &err);
	if (r == 0)
		r = plan_make(rig->spec, &a->plan, &err);
	if (r == 0)
		r = registry_open(rig->dir, &a->plan.job, &a->registry, &err);
	if (r == 0)
		r = plugin_dir_find(NULL, &plugins, &err);
	if (r == 0)
		r = proctrack_open(plugins, "linuxproc", &a->pt, &err);
	if (r == 0)
		r = proctrack_create(a->pt, &a->plan.job);
	if (r == 0)
		r = tasks_init(&a->tasks, rig->spec->ranks, rig->spec->local_ntasks);
	if (r < 0) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	(void)snprintf(rig->path, sizeof(rig->path), "%s/socket", registry_get_path(a->registry));
}

static struct rig *rig_new(void)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct agent *a;
	struct err err = ERR_INIT;
	int r;

	require(rig && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	rig->log = (struct log){.fd = 2, .most = LOG_LEVEL_ERROR, .ident = "fuzz"};
	rig->log.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	rig->options = (struct agent_options){.ready_fd = -1,
		.supervisor_fd = -1,
		.operator_gid = (gid_t)-1,
		.log = &rig->log,
		.frontend = &frontends};
	a = &rig->a;
	agent_init(a, &rig->options);
	a->watch.signal_fd = process_catch_signals(&err);
	require(a->watch.signal_fd >= 0);
	open_step(rig);
	a->loop = ev_loop_new(EVFLAG_NOENV);
	require(a->loop);
	add_member(rig);
	r = ending_watch(a, &err);
	if (r == 0)
		r = events_open(registry_get_dirfd(a->registry), false, a->log, &a->events, &err);
	if (r == 0)
		r = frontend_open(a, &err);
	if (r < 0) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	tasks_started(&a->tasks, 1, rig->member, 1);
	a->plan.job.task[1].pid = rig->member;
	a->state = AGENT_RUNNING;
	frontend_ready(a);
	return rig;
}

/* The member is the agent's child, reaped by it or here. */
static void rig_free(struct rig *rig)
{
	struct agent *a = &rig->a;

	(void)kill(rig->member, SIGKILL);
	ending_unwatch(a);
	frontend_close(a);
	ev_loop_destroy(a->loop);
	a->events = events_close(a->events);
	while (waitpid(-1, NULL, 0) > 0)
		;
	(void)!proctrack_destroy(a->pt, a->plan.job.cont_id);
	tasks_clear(&a->tasks);
	a->pt = proctrack_close(a->pt);
	a->registry = registry_close(a->registry);
	(void)rmdir(rig->dir);
	plan_clear(&a->plan);
	free(a->end.unkillable_text);
	(void)close_fd(a->watch.signal_fd);
	(void)close_fd(rig->log.fd);
	spec_free(rig->spec);
	free(rig);
}

/* ---- parameters of an input ------------------------------------------------------------------ */

struct input {
	const uint8_t *p;
	size_t size;
};

static uint8_t take(struct input *in)
{
	if (in->size == 0)
		return 0;
	in->size--;
	return *in->p++;
}

static json_int_t take_int(struct input *in, const struct rig *rig)
{
	const json_int_t known[] = {0, 1, -1, rig->member, getpid(), INT32_MAX, (json_int_t)1 << 32,
		INT64_MAX, INT64_MIN, 100, 99, 86400000, 86400001, 4194304};
	uint8_t which = take(in);
	json_int_t n = 0;
	int i;

	if (which < ARRAY_SIZE(known))
		return known[which];
	for (i = 0; i < which % 9; i++)
		n = (json_int_t)((uint64_t)n << 8 | take(in));
	return n;
}

static json_t *take_text(struct input *in)
{
	static const char *const known[] = {"TERM", "KILL", "CONT", "STOP", "USR1", "RTMIN+3",
		"0-2", "1", "0,2", "TERM:1s,KILL", "KILL", "INT:0,TERM:1d,KILL", "", "64"};
	uint8_t which = take(in);
	char text[256];
	size_t n = 0;
	json_t *value;

	if (which < ARRAY_SIZE(known))
		return json_string(known[which]);
	for (; n < which && in->size; n++) {
		text[n] = (char)take(in);
		if (!text[n]) /* no call then: fuzz_frame's */
			text[n] = ' ';
	}
	value = json_stringn(text, n);
	return value ? value : json_string("?"); /* no UTF-8 */
}

/* An object of limits: fields by their names, or whatever the bytes are as JSON. */
static json_t *take_object(struct input *in, const struct rig *rig)
{
	static const char *const names[] = {"pids_max", "memory_max", "cpuset_cpus", "io_max",
		"devices", "cpu_weight", "memory_high", "x"};
	uint8_t how = take(in);
	json_t *object;

	if (how & 1) {
		object = json_loadb((const char *)in->p, in->size, 0, NULL);
		if (json_is_object(object))
			return object;
		json_decref(object);
	}
	object = json_object();
	for (; how > 1; how >>= 2)
		(void)json_object_set_new(object, names[take(in) % ARRAY_SIZE(names)],
			how & 2 ? json_integer(take_int(in, rig)) : take_text(in));
	return object;
}

static json_t *take_value(struct input *in, const struct rig *rig, enum op_type type)
{
	json_t *array;
	int n;

	switch (type) {
	case OP_BOOL:
		return json_boolean(take(in) & 1);
	case OP_INT:
		return json_integer(take_int(in, rig));
	case OP_STRING:
		return take_text(in);
	case OP_OBJECT:
		return take_object(in, rig);
	default:
		array = json_array();
		for (n = take(in); n > 0; n--)
			(void)json_array_append_new(array, json_integer(take_int(in, rig)));
		return array;
	}
}

/* None that lives, and is neither the agent nor the member. */
static void spare_strangers(json_t *parameters, const struct rig *rig)
{
	json_int_t pid = json_integer_value(json_object_get(parameters, "pid"));

	if (pid > 0 && pid <= INT32_MAX && pid != rig->member && pid != getpid() &&
		kill((pid_t)pid, 0) == 0)
		(void)json_object_set_new(parameters, "pid", json_integer(rig->member));
}

static char *make_frame(struct input *in, const struct rig *rig, bool *ret_more)
{
	const char *only = getenv("STEPD_FUZZ_METHOD");
	const struct operation *table;
	const struct op_parameter *p;
	json_t *parameters = json_object(), *frame;
	uint8_t which = take(in), given;
	char name[64];
	size_t count, i;
	char *text;

	table = operations_get_table(&count);
	i = which % 128 % count;
	while (only && strcmp(table[i].name, only) != 0)
		i = (i + 1) % count;
	if (strcmp(table[i].name, "Reexec") == 0)
		i = 0; /* it would execute this program */
	given = take(in);
	for (p = table[i].parameters; p->name; p++, given >>= 1) {
		if (!p->optional || given & 1)
			(void)json_object_set_new(
				parameters, p->name, take_value(in, rig, p->type));
	}
	if (strcmp(table[i].name, "AddPid") == 0)
		spare_strangers(parameters, rig);
	(void)snprintf(name, sizeof(name), "io.stepd.Step.%s", table[i].name);
	frame = json_pack("{s:s, s:o, s:b}", "method", name, "parameters", parameters, "more",
		which & 128 ? 1 : 0);
	*ret_more = which & 128 || strcmp(table[i].name, "Wait") == 0; /* that one waits, too */
	text = json_dumps(frame, JSON_COMPACT);
	json_decref(frame);
	require(text);
	return text;
}

/* ---- a call ---------------------------------------------------------------------------------- */

static int connect_to(const struct rig *rig)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", rig->path);
	require(fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
	return fd;
}

/* The answers so far are whole JSON objects; true if the last of them was one to end with. */
static bool check_answers(const char *text, size_t size)
{
	const char *end;
	bool last = false;
	json_t *doc;

	while (size > 0 && (end = memchr(text, '\0', size))) {
		doc = json_loads(text, 0, NULL);
		require(json_is_object(doc) && !last);
		require(json_is_object(json_object_get(doc, "parameters")));
		last = !json_is_true(json_object_get(doc, "continues"));
		json_decref(doc);
		size -= (size_t)(end + 1 - text);
		text = end + 1;
	}
	return last;
}

/* Without more an answer comes; with it what comes in a few turns is enough. */
static void run_call(struct rig *rig, int fd, bool more)
{
	_cleanup_free_ char *answers = malloc(ANSWER_MAX);
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	size_t size = 0;
	ssize_t n;
	int turns;

	require(answers);
	for (turns = 0; turns < (more ? 20 : 20000); turns++) {
		ev_run(rig->a.loop, EVRUN_NOWAIT);
		while ((n = read(fd, answers + size, ANSWER_MAX - size)) > 0)
			size += (size_t)n;
		if (check_answers(answers, size))
			return;
		if (rig->a.state >= AGENT_DRAINING)
			return; /* frontend_end() notifies pending calls */
		if (turns > 4)
			(void)poll(&readable, 1, 1); /* a worker's time */
	}
	require(more);
}

static struct rig *rig_held; /* between inputs: a step is made in milliseconds, a call in less */

static void rig_free_held(void)
{
	if (rig_held)
		rig_free(rig_held);
	rig_held = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool frees_at_exit;
	struct rig *rig;
	struct input in = {data, size};
	_cleanup_free_ char *frame = NULL;
	_cleanup_close_ int fd = -1;
	bool more;
	int turns;

	if (!frees_at_exit)
		require(atexit(rig_free_held) == 0);
	frees_at_exit = true;
	if (!rig_held)
		rig_held = rig_new();
	rig = rig_held;
	frame = make_frame(&in, rig, &more);
	fd = connect_to(rig);
	require(send(fd, frame, strlen(frame) + 1, MSG_NOSIGNAL) == (ssize_t)strlen(frame) + 1);
	run_call(rig, fd, more);
	fd = close_fd(fd);
	for (turns = 0; frontends_has_pending(rig->a.frontends) && turns < 20000; turns++) {
		ev_run(rig->a.loop, EVRUN_NOWAIT);
		(void)poll(NULL, 0, turns > 4);
	}
	require(!frontends_has_pending(rig->a.frontends));
	if (rig->a.state != AGENT_RUNNING || rig->a.tasks.running == 0)
		rig_free_held();
	return 0;
}
