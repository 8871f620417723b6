/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The errors of the library, the steps of this node by what agents leave on disk, and a function
 * for each method of the interface: it sends the request and reads the reply.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/strv.h"
#include "stepd/client/client_impl.h"
#include "stepd/state/steps.h"

/* ---- errors -------------------------------------------------------------------------------- */

#define SENTENCE_SIZE 768

static int set_error(struct stepd_error *error, int code, const char *name, const char *text)
{
	if (!error)
		return code;
	error->code = code;
	(void)snprintf(error->name, sizeof(error->name), "%s", name);
	(void)snprintf(error->text, sizeof(error->text), "%s", text);
	return code;
}

/* Formats it by set, err_set_text() or err_set(), which makes it printable. */
_printf_(4, 0) static int set_sentence(struct stepd_error *error, int code,
	int (*set)(struct err *err, int code, const char *fmt, ...), const char *fmt, va_list ap)
{
	char text[ERR_TEXT_SIZE];
	struct err err = ERR_INIT;

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	(void)set(&err, code, "%s", text);
	return set_error(error, code, "", err.text);
}

int client_error(struct stepd_error *error, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)set_sentence(error, code, err_set_text, fmt, ap);
	va_end(ap);
	return code;
}

int client_error_errno(struct stepd_error *error, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)set_sentence(error, code, err_set, fmt, ap);
	va_end(ap);
	return code;
}

int client_error_forward(struct stepd_error *error, const struct err *err)
{
	return set_error(error, err->code, "", err->text);
}

int client_no_memory(struct stepd_error *error)
{
	return client_error(error, -ENOMEM, "there is no memory left");
}

/* ---- the errors of agents ------------------------------------------------------------------ */

/* An empty text counts as none. */
static const char *get_text(const json_t *parameters, const char *key, const char *otherwise)
{
	const char *text = json_get_text(parameters, key, "");

	return text[0] ? text : otherwise;
}

static void format_failed(char *buf, const json_t *parameters)
{
	(void)snprintf(buf, SENTENCE_SIZE, "%s (%s)",
		get_text(parameters, "message", "the system refused it"),
		get_text(parameters, "errno", "no errno"));
}

static void format_denied(char *buf, const json_t *parameters)
{
	static const struct {
		const char *needs, *who;
	} table[] = {
		{"ask", "root, the agent's user, the step's owner or the operator group"},
		{"owner", "root, the agent's user or the step's owner"},
		{"agent", "root or the agent's user"},
	};
	const char *needs = get_text(parameters, "needs", ""), *who = "another user";
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		if (strcmp(table[i].needs, needs) == 0)
			who = table[i].who;
	(void)snprintf(buf, SENTENCE_SIZE, "%s",
		get_text(parameters, "message", "this user may not call it"));
	if (!json_object_get(parameters, "message"))
		(void)snprintf(
			buf + strlen(buf), SENTENCE_SIZE - strlen(buf), ": it takes %s", who);
}

static void format_unknown(char *buf, const json_t *parameters)
{
	char *text = json_dumps(parameters, JSON_COMPACT);

	(void)snprintf(buf, SENTENCE_SIZE,
		"its agent replied with an error unknown to this version, with %s",
		text ? text : "{}");
	free(text);
}

#define REFUSED .parameter = "message", .missing = "its agent refused it without a reason"

static const char older[] =
	"its agent has no such method; where it is an older one, let it execute the new program "
	"(Reexec)";

/* The sentence is before, the parameter and after, where no function makes it. */
static const struct remote_row {
	const char *name;
	int code;
	const char *before, *parameter, *missing, *after;
	void (*format)(char *buf, const json_t *parameters);
} remote_rows[] = {
	{"io.stepd.Step.PermissionDenied", -EPERM, .format = format_denied},
	{"io.stepd.Step.NoSuchProcess", -ESRCH, .before = "no process of the step has the pid ",
		.parameter = "pid"},
	{"io.stepd.Step.NoSuchTask", -ESRCH, .before = "the step has no task of rank ",
		.parameter = "rank", .after = " on this node (ListTasks has those it has)"},
	{"io.stepd.Step.WrongState", -EBUSY, REFUSED},
	{"io.stepd.Step.TooManyConnections", -EBUSY, .before = "its agent takes no more than ",
		.parameter = "limit", .after = " connections: close others, then try again"},
	{"io.stepd.Step.SuspendFailed", -ETIMEDOUT, REFUSED},
	{"io.stepd.Step.NotSupported", -EOPNOTSUPP, REFUSED},
	{"io.stepd.Step.Failed", -EIO, .format = format_failed},
	{"org.varlink.service.InterfaceNotFound", -EOPNOTSUPP, .before = older},
	{"org.varlink.service.MethodNotFound", -EOPNOTSUPP, .before = older},
	{"org.varlink.service.MethodNotImplemented", -EOPNOTSUPP, .before = older},
	{"org.varlink.service.InvalidParameter", -EINVAL,
		.before = "its agent does not know the parameter '", .parameter = "parameter",
		.after = "', or not this value of it"},
	{"org.varlink.service.ExpectedMore", -EINVAL,
		.before = "it has several replies: call it with STEPD_CALL_MORE"},
	{NULL, -EIO, .format = format_unknown},
};

static void format_row(char *buf, const struct remote_row *row, const json_t *parameters)
{
	const json_t *value = row->parameter ? json_object_get(parameters, row->parameter) : NULL;
	const char *missing = row->missing ?: row->parameter ? "?" : "";
	char number[32];

	(void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
	(void)snprintf(buf, SENTENCE_SIZE, "%s%s%s", row->before ?: "",
		json_is_integer(value) ? number
				       : get_text(parameters, row->parameter ?: "", missing),
		row->after ?: "");
}

/* The one reason for a failure that has a code of its own: the process or the step is gone. */
static int remote_code(const struct remote_row *row, const json_t *parameters)
{
	return row->code == -EIO && strcmp(get_text(parameters, "errno", ""), "ESRCH") == 0
		? -ESRCH
		: row->code;
}

int client_error_remote(struct stepd_error *error, const char *step, const char *method,
	const char *name, const json_t *parameters)
{
	const struct remote_row *row = remote_rows;
	char sentence[SENTENCE_SIZE];
	const char *bare;
	int code;

	while (row->name && strcmp(row->name, name) != 0)
		row++;
	code = remote_code(row, parameters);
	bare = strrchr(name, '.');
	if (row->format)
		row->format(sentence, parameters);
	else
		format_row(sentence, row, parameters);
	(void)client_error(
		error, code, "step %s: %s: %s: %s", step, method, bare ? bare + 1 : name, sentence);
	if (error)
		(void)snprintf(error->name, sizeof(error->name), "%s", name);
	return code;
}

/* ---- the steps of this node ---------------------------------------------------------------- */

#define RESULT_SIZE_MAX (64u << 20)
#define NAME_SIZE_MAX   320 /* node, '/', job, '.' and step */

struct walk {
	stepd_step_fn fn;
	void *userdata;
	const char *path; /* of the step's directory */
	bool found;       /* its state */
};

/* Whether an agent serves the step that has a state. */
static enum stepd_presence find_presence(const struct step_entry *entry, const char *directory)
{
	struct stepd_error error = {0};
	int fd;

	if (entry->locked >= 0)
		return entry->locked ? STEPD_LIVES : STEPD_ORPHAN;
	fd = client_connect_socket(directory, "", 0, &error); /* only its user may read the lock */
	if (fd >= 0)
		(void)close(fd);
	return fd == -ECONNREFUSED || fd == -ENOENT ? STEPD_ORPHAN : STEPD_LIVES;
}

/* Calls fn if there is a result, and sets *ret to what it returns. */
static bool visit_result(const struct walk *walk, int dir_fd, int *ret)
{
	struct stepd_step step = {.directory = walk->path, .presence = STEPD_ENDED};
	json_int_t container_id = 0, uid = 0;
	json_auto_t *doc = NULL;
	bool found;

	found = steps_read_result(dir_fd, &doc) == 0 &&
		json_unpack(doc, "{s:s, s:s, s:s, s:s, s:I, s:{s:s, s:I}}", "step", &step.step,
			"node", &step.node, "user", &step.user, "state", &step.state, "uid", &uid,
			"container", "plugin", &step.proctrack, "id", &container_id) == 0;
	step.uid = (uint32_t)uid;
	step.container_id = (uint64_t)container_id;
	if (found)
		*ret = walk->fn(&step, walk->userdata);
	return found;
}

static int visit_state(const struct step_entry *entry, void *userdata)
{
	struct walk *walk = userdata;
	const struct stepd_step step = {.step = entry->step,
		.node = entry->node,
		.directory = walk->path,
		.user = entry->user,
		.state = entry->state,
		.proctrack = entry->proctrack,
		.uid = (uint32_t)json_get_int(entry->doc, "uid", 0),
		.container_id = entry->cont_id,
		.agent_pid = entry->agent_pid,
		.presence = find_presence(entry, walk->path)};
	int r = 0;

	walk->found = true;
	/* An agent that died after it had reported the end leaves both. */
	if (step.presence == STEPD_ORPHAN && visit_result(walk, entry->dir_fd, &r))
		return r;
	return walk->fn(&step, walk->userdata);
}

static int visit_step(int dir_fd, const char *path, void *userdata)
{
	struct walk *walk = userdata;
	int r;

	walk->path = path;
	walk->found = false;
	r = steps_show(dir_fd, visit_state, walk);
	if (!walk->found)
		(void)visit_result(walk, dir_fd, &r);
	return r;
}

int stepd_each_step(
	const char *runtime_dir, stepd_step_fn fn, void *userdata, struct stepd_error *error)
{
	struct walk walk = {.fn = fn, .userdata = userdata};
	struct err err = ERR_INIT;
	int r = steps_each_dir(runtime_dir, visit_step, &walk, &err);

	return r < 0 && err.code < 0 ? client_error_forward(error, &err) : r;
}

struct search {
	const char *name;
	struct strv exact,
		partial;  /* directories of the steps that it names exactly, or by a beginning */
	char listed[512]; /* the candidates, for the message */
};

/* Whether it begins with name, no number of which goes on: with 7.1 for 7.10 a request to a step
 * that has ended would come to another one. */
static bool begins_with(const char *full, const char *name)
{
	size_t length = strlen(name);

	return strncmp(full, name, length) == 0 &&
		!(length > 0 && isdigit((unsigned char)name[length - 1]) &&
			isdigit((unsigned char)full[length]));
}

static int match_step(const struct stepd_step *step, void *userdata)
{
	struct search *search = userdata;
	size_t used = strlen(search->listed);
	struct strv *matches;
	char full[NAME_SIZE_MAX];

	(void)snprintf(full, sizeof(full), "%s/%s", step->node, step->step);
	if (strcmp(full, search->name) == 0 || strcmp(step->step, search->name) == 0)
		matches = &search->exact;
	else if (begins_with(full, search->name) || begins_with(step->step, search->name))
		matches = &search->partial;
	else
		return 0;
	(void)snprintf(search->listed + used, sizeof(search->listed) - used, "%s%s",
		used > 0 ? ", " : "", full);
	return strv_add(matches, step->directory);
}

/* A name that no step can have is -EINVAL. */
static bool is_name(const char *name)
{
	const char *slash = strchr(name, '/'), *p;

	if (!name[0] || name[0] == '/' || strlen(name) >= NAME_SIZE_MAX)
		return false;
	if (slash && strchr(slash + 1, '/'))
		return false;
	for (p = name; *p; p++)
		if (!isascii(*p) || (!isalnum(*p) && !strchr("/._-", *p)))
			return false;
	return true;
}

static int choose_match(struct search *search, char **ret_directory, struct stepd_error *error)
{
	const struct strv *matches = search->exact.n > 0 ? &search->exact : &search->partial;

	if (matches->n == 0)
		return client_error(
			error, -ENOENT, "there is no step '%s' on this node", search->name);
	if (matches->n > 1)
		return client_error(error, -ENOTUNIQ, "'%s' could be any of %s: name one of them",
			search->name, search->listed);
	*ret_directory = take_ptr(matches->v[0]);
	return 0;
}

int stepd_find_step(
	const char *runtime_dir, const char *name, char **ret_directory, struct stepd_error *error)
{
	struct search search = {.name = name};
	int r;

	if (!is_name(name))
		return client_error(error, -EINVAL,
			"'%s' is not the name of a step (such as 7.0, or n1/7.0)", name);
	r = stepd_each_step(runtime_dir, match_step, &search, error);
	if (r == 0)
		r = choose_match(&search, ret_directory, error);
	else if (r == -ENOMEM)
		r = client_no_memory(error);
	strv_clear(&search.exact);
	strv_clear(&search.partial);
	return r;
}

int stepd_read_result(const char *directory, char **ret_json, struct stepd_error *error)
{
	_cleanup_close_ int dir_fd =
		open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_free_ char *step = client_step_name(directory);
	_cleanup_close_ int fd = -1;
	int r = dir_fd < 0 ? -errno : 0;

	if (!step)
		return client_no_memory(error);
	if (r == 0)
		r = fd = fs_open_regular(dir_fd, "result.json");
	if (r >= 0)
		r = fs_read_fd(fd, RESULT_SIZE_MAX, ret_json, NULL);
	if (r == -ENOENT)
		return client_error(error, r,
			"step %s: there is no '%s/result.json': it has not ended, or its result was "
			"removed after its retention time",
			step, directory);
	return r < 0
		? client_error_errno(error, r, "step %s: read '%s/result.json'", step, directory)
		: 0;
}

/* A step may take this long to stop (stepd(8), --suspend-timeout). */
#define STEP_TIMEOUT_MS 60000

/* ---- processes ----------------------------------------------------------------------------- */

/* A number of the interface, in its range; otherwise if it is missing. */
static bool get_int(
	const json_t *object, const char *key, int64_t least, int64_t most, int64_t *ret_n)
{
	const json_t *value = json_object_get(object, key);

	return !value || json_is_null(value) || json_get_range(object, key, least, most, ret_n);
}

static bool fill_process(struct stepd_process *process, const json_t *element)
{
	int64_t pid = 0, rank = STEPD_NO_RANK, start_ticks = 0;

	if (!json_get_range(element, "pid", 1, INT32_MAX, &pid) ||
		!get_int(element, "rank", 0, UINT32_MAX, &rank) ||
		!get_int(element, "start_ticks", 0, INT64_MAX, &start_ticks))
		return false;
	*process = (struct stepd_process){
		.pid = (pid_t)pid, .rank = rank, .start_ticks = (uint64_t)start_ticks};
	return true;
}

struct processes {
	struct stepd_process *v;
	size_t n, capacity;
};

static int add_processes(struct stepd_client *client, const char *method, const json_t *array,
	struct processes *processes, struct stepd_error *error)
{
	json_t *element;
	size_t i;

	if (!json_is_array(array))
		return client_refuse(client, method, "it lacks the array", error);
	if (json_array_size(array) > 0 &&
		array_reserve(processes->v, processes->capacity,
			processes->n + json_array_size(array)) < 0) {
		client->broken = true;
		return client_no_memory(error);
	}
	json_array_foreach (array, i, element) {
		if (!fill_process(&processes->v[processes->n++], element))
			return client_refuse(client, method,
				"an element of its array is not as in the interface", error);
	}
	return 0;
}

/* Calls method, takes over parameters, and adds the processes in this array of all replies. */
static int call_processes_take(struct stepd_client *client, const char *method, json_t *parameters,
	unsigned flags, const char *array, struct processes *processes, struct stepd_error *error)
{
	bool continues = true;
	int r;

	if (!parameters)
		return client_no_memory(error);
	r = client_begin_take(client, method, parameters, flags, error);
	while (r == 0 && continues) {
		_cleanup_reply_ struct reply reply = {0};

		r = client_next_in_time(client, client->timeout_ms, &reply, error);
		if (r == 0)
			r = add_processes(client, method, json_object_get(reply.parameters, array),
				processes, error);
		continues = reply.continues;
	}
	return r;
}

/* After a failure r, which it returns, there are none. */
static int finish_processes(
	struct processes *processes, int r, struct stepd_process **ret_processes, size_t *ret_count)
{
	if (r < 0) {
		free(processes->v);
		return r;
	}
	*ret_processes = processes->v;
	*ret_count = processes->n;
	return 0;
}

int stepd_list_pids(struct stepd_client *client, const char *ranks, bool start_ticks,
	struct stepd_process **ret_processes, size_t *ret_count, struct stepd_error *error)
{
	struct processes processes = {0};
	int r = call_processes_take(client, "ListPids",
		json_pack("{s:s*, s:b}", "ranks", ranks, "start_ticks", (int)start_ticks),
		STEPD_CALL_MORE, "pids", &processes, error);

	return finish_processes(&processes, r, ret_processes, ret_count);
}

static json_t *pack_pids(const pid_t *pids, size_t count, uint64_t pid_namespace)
{
	json_auto_t *array = json_array();
	int r = 0;
	size_t i;

	for (i = 0; r == 0 && i < count; i++)
		r = json_array_append_new(array, json_integer(pids[i]));
	if (r < 0)
		return NULL;
	if (pid_namespace == 0)
		return json_pack("{s:O}", "pids", array);
	return json_pack("{s:O, s:I}", "pids", array, "pid_namespace", (json_int_t)pid_namespace);
}

int stepd_find_pids(struct stepd_client *client, const pid_t *pids, size_t count,
	uint64_t pid_namespace, struct stepd_process **ret_processes, size_t *ret_count,
	struct stepd_error *error)
{
	struct processes processes = {0};
	size_t at, n;
	int r = 0;

	for (at = 0; r == 0 && at < count; at += n) {
		n = count - at < CLIENT_FIND_PIDS_MAX ? count - at : CLIENT_FIND_PIDS_MAX;
		r = call_processes_take(client, "FindPids", pack_pids(pids + at, n, pid_namespace),
			0, "found", &processes, error);
	}
	return finish_processes(&processes, r, ret_processes, ret_count);
}

/* ---- acting -------------------------------------------------------------------------------- */

/* Takes over parameters; NULL: no memory. The reply is empty. */
static int call_done_take(struct stepd_client *client, const char *method, json_t *parameters,
	int timeout_ms, struct stepd_error *error)
{
	if (!parameters)
		return client_no_memory(error);
	return client_call_within_take(client, method, parameters, timeout_ms, NULL, error);
}

static json_t *pack_signal(const char *signal, const struct stepd_signal_target *target)
{
	json_auto_t *doc = json_pack("{s:s}", "signal", signal);
	int r = doc ? 0 : -1;

	if (r == 0 && target && target->ranks)
		r = json_object_set_new(doc, "ranks", json_string(target->ranks));
	if (r == 0 && target && target->pid)
		r = json_object_set_new(doc, "pid", json_integer(target->pid));
	if (r == 0 && target && target->start_ticks)
		r = json_object_set_new(
			doc, "start_ticks", json_integer((json_int_t)target->start_ticks));
	if (r == 0 && target && target->leader)
		r = json_object_set_new(doc, "leader", json_true());
	return r < 0 ? NULL : take_ptr(doc);
}

int stepd_signal(struct stepd_client *client, const char *signal,
	const struct stepd_signal_target *target, struct stepd_error *error)
{
	/* Refuses the pids with a special meaning for kill(2): none means "the whole step". */
	if (target && (target->pid < 0 || (target->start_ticks > 0 && target->pid == 0)))
		return client_error(error, -EINVAL,
			"step %s: Signal: %d is not a pid of one process (a signal for all of a step "
			"names none)",
			client->name, (int)target->pid);
	return call_done_take(
		client, "Signal", pack_signal(signal, target), client->timeout_ms, error);
}

static int step_timeout_ms(const struct stepd_client *client)
{
	if (client->split || client->timeout_ms < 0 || client->timeout_ms > STEP_TIMEOUT_MS)
		return client->timeout_ms;
	return STEP_TIMEOUT_MS;
}

int stepd_suspend(struct stepd_client *client, struct stepd_error *error)
{
	return call_done_take(client, "Suspend", json_object(), step_timeout_ms(client), error);
}

int stepd_resume(struct stepd_client *client, struct stepd_error *error)
{
	return call_done_take(client, "Resume", json_object(), step_timeout_ms(client), error);
}

int stepd_terminate(struct stepd_client *client, const char *kill_sequence, int64_t grace_ms,
	struct stepd_error *error)
{
	json_auto_t *parameters = json_pack("{s:s*}", "kill_sequence", kill_sequence);

	if (grace_ms >= 0 &&
		json_object_set_new(parameters, "grace_ms", json_integer(grace_ms)) < 0)
		return client_no_memory(error);
	return call_done_take(client, "Terminate", take_ptr(parameters), client->timeout_ms, error);
}

/* ---- the others ---------------------------------------------------------------------------- */

int stepd_add_pid(
	struct stepd_client *client, pid_t pid, uint64_t start_ticks, struct stepd_error *error)
{
	json_auto_t *parameters = json_pack("{s:i}", "pid", (int)pid);

	if (start_ticks &&
		json_object_set_new(
			parameters, "start_ticks", json_integer((json_int_t)start_ticks)) < 0)
		return client_no_memory(error);
	return call_done_take(client, "AddPid", take_ptr(parameters), client->timeout_ms, error);
}

int stepd_notify(struct stepd_client *client, const char *message, struct stepd_error *error)
{
	json_t *parameters = json_pack("{s:s}", "message", message);

	if (!parameters) /* jansson requires it */
		return client_error(
			error, -EINVAL, "step %s: Notify: the message is not UTF-8", client->name);
	return call_done_take(client, "Notify", parameters, client->timeout_ms, error);
}

int stepd_reexec(struct stepd_client *client, char **ret_version, struct stepd_error *error)
{
	json_auto_t *reply = NULL;
	const char *version;
	int r = client_call_within_take(
		client, "Reexec", json_object(), step_timeout_ms(client), &reply, error);

	if (r == 0 && ret_version) {
		version = json_get_text(reply, "version", NULL);
		if (!version)
			r = client_refuse(client, "Reexec", "it names no version", error);
		else if (!(*ret_version = strdup(version)))
			r = client_no_memory(error);
	}
	return r;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* The result of the reply, or of the file that the agent left. */
static int take_result(struct stepd_client *client, const json_t *parameters, char **ret_result,
	struct stepd_error *error)
{
	json_t *result = json_object_get(parameters, "result");

	if (json_is_object(result))
		return client_dump_take(json_incref(result), ret_result, error);
	return stepd_read_result(client->directory, ret_result, error);
}

int stepd_wait(
	struct stepd_client *client, int timeout_ms, char **ret_result, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	int r = 0;

	if (client->broken || !client_is_pending(client, "Wait"))
		r = client_start_take(client, "Wait", NULL, 0, error);
	if (r == 0)
		r = client_next(client, timeout_ms, &reply, error);
	/* The agent may have ended between the result and the reply. */
	if (r == -ECONNRESET && stepd_read_result(client->directory, ret_result, NULL) == 0)
		return 0;
	return r < 0 ? r : take_result(client, reply.parameters, ret_result, error);
}

/* ---- events -------------------------------------------------------------------------------- */

int stepd_follow(struct stepd_client *client, uint64_t from, struct stepd_error *error)
{
	json_t *parameters =
		from > 0 ? json_pack("{s:I}", "from", (json_int_t)from) : json_object();

	if (!parameters)
		return client_no_memory(error);
	client->followed = false;
	return client_start_take(client, "Events", parameters, STEPD_CALL_MORE, error);
}

/* Cuts at the end of a character. */
static void copy_text(char *buf, size_t size, const char *text)
{
	size_t length = strlen(text);

	if (length >= size)
		for (length = size - 1; length > 0 && (text[length] & 0xc0) == 0x80;)
			length--;
	memcpy(buf, text, length);
	buf[length] = '\0';
}

static bool fill_event(struct stepd_event *event, const json_t *doc)
{
	int64_t sequence = json_get_int(doc, "sequence", -1);
	int64_t time_usec = json_get_int(doc, "time_usec", -1);

	if (sequence < 1 || time_usec < 0 || !json_is_string(json_object_get(doc, "kind")))
		return false;
	*event = (struct stepd_event){.sequence = (uint64_t)sequence,
		.time_usec = (uint64_t)time_usec,
		.rank = json_get_int(doc, "rank", -1),
		.pid = json_get_int(doc, "pid", -1),
		.wait_status = json_get_int(doc, "wait_status", -1),
		.exit_code = json_get_int(doc, "exit_code", -1),
		.count = json_get_int(doc, "count", -1)};
	copy_text(event->kind, sizeof(event->kind), json_get_text(doc, "kind", ""));
	copy_text(event->state, sizeof(event->state), json_get_text(doc, "state", ""));
	copy_text(event->text, sizeof(event->text), json_get_text(doc, "text", ""));
	return true;
}

int stepd_next_event(struct stepd_client *client, int timeout_ms, struct stepd_event *ret_event,
	struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	const json_t *doc;
	int r;

	if (client->followed)
		return 0;
	if (!client->broken && !client_is_pending(client, "Events"))
		return client_error(error, -EINVAL,
			"step %s: Events: stepd_follow() comes before stepd_next_event()",
			client->name);
	r = client_next(client, timeout_ms, &reply, error);
	if (r < 0)
		return r;
	client->followed = !reply.continues;
	doc = json_object_get(reply.parameters, "event");
	if (!doc && !reply.continues)
		return 0; /* the last reply need not have one */
	if (!fill_event(ret_event, doc))
		return client_refuse(
			client, "Events", "its event is not as in the interface", error);
	return 1;
}
