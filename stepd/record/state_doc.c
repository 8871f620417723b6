/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/state_doc.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "stepd/base/buffer.h"
#include "stepd/base/proc.h"
#include "stepd/record/registry.h"
#include "stepd/state/steps.h"

/* ---- added processes ----------------------------------------------------------------------- */

static bool lives(const struct added_process *p)
{
	struct procstat st;

	return procstat_read(p->pid, &st) == 0 && st.start_ticks == p->start_ticks &&
		procstat_is_living(&st);
}

static void prune(struct added *added)
{
	size_t i, n = 0;

	for (i = 0; i < added->n; i++)
		if (lives(&added->v[i]))
			added->v[n++] = added->v[i];
	added->n = n;
}

int added_note(struct added *added, pid_t pid, uint64_t start_ticks)
{
	prune(added);
	if (array_reserve(added->v, added->capacity, added->n + 1) < 0)
		return -ENOMEM;
	added->v[added->n++] = (struct added_process){.pid = pid, .start_ticks = start_ticks};
	return 0;
}

json_t *added_pack(const struct added *added)
{
	json_auto_t *array = json_array();
	int r = array ? 0 : -1;
	size_t i;

	for (i = 0; r == 0 && i < added->n; i++)
		r = json_array_append_new(array,
			json_pack("[i, I]", (int)added->v[i].pid,
				(json_int_t)added->v[i].start_ticks));
	return r == 0 ? take_ptr(array) : NULL;
}

int added_unpack(struct added *added, const json_t *array)
{
	struct added_process p;
	json_int_t pid, ticks;
	const json_t *row;
	int r = 0;
	size_t i;

	json_array_foreach (array, i, row) {
		pid = json_integer_value(json_array_get(row, 0));
		ticks = json_integer_value(json_array_get(row, 1));
		if (pid <= 0 || pid > INT_MAX || ticks <= 0)
			continue;
		p = (struct added_process){.pid = (pid_t)pid, .start_ticks = (uint64_t)ticks};
		if (r == 0 && lives(&p))
			r = added_note(added, p.pid, p.start_ticks);
	}
	return r;
}

void added_clear(struct added *added)
{
	free(added->v);
	*added = (struct added){0};
}

/* ---- writing ------------------------------------------------------------------------------- */

static json_t *pack_options(const struct state_doc *s)
{
	return json_pack("{s:s?, s:s?, s:I, s:b, s:I, s:s?}", "result", s->result_file, "sample",
		s->sample_file, "sample_interval_ms", (json_int_t)s->sample_interval_ms, "usage",
		(int)s->usage_table, "keep_result_ms", (json_int_t)s->keep_result_ms, "plugin_dir",
		s->plugin_dir);
}

static json_t *pack_tasks(const struct state_doc *s)
{
	json_auto_t *array = json_array();
	json_t *task;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < s->tasks_count; i++) {
		task = json_pack("{s:I, s:i}", "rank", (json_int_t)s->tasks[i].rank, "pid",
			(int)s->tasks[i].pid);
		if (s->tasks[i].spawn)
			r = json_object_set_new(
				task, "spawn", json_integer((json_int_t)s->tasks[i].spawn));
		r |= json_array_append_new(array, task);
	}
	return r == 0 ? take_ptr(array) : NULL;
}

/* The times at which the tasks that joined the step were forked. */
static json_t *pack_joined(const struct state_doc *s)
{
	json_t *array = json_array();
	size_t i;

	for (i = 0; i < s->tasks_count; i++) {
		if (s->tasks[i].spawn) /* missing: never adopted */
			(void)json_array_append_new(array,
				json_pack("[I, I]", (json_int_t)s->tasks[i].forked.least,
					(json_int_t)s->tasks[i].forked.most));
	}
	return array;
}

static json_t *pack_service(const struct recover_service *service)
{
	return service->pid ? json_pack("{s:i, s:I}", "pid", (int)service->pid, "start_ticks",
				      (json_int_t)service->start_ticks)
			    : NULL;
}

json_t *state_doc_pack(struct state_doc *s, json_t *added)
{
	struct recover *recover = &s->recover;

	if (!recover->boot_id[0])
		steps_read_boot_id(recover->boot_id);
	return json_pack(
		"{s:o, s:s, s:I, s:I, s:I, s:I, s:b, s:s?, s:i, s:b, s:[I, I], s:o, s:I, s:I, s:o, s:o, "
		"s:o*}",
		"tasks", pack_tasks(s), "boot_id", recover->boot_id, "begin_ns",
		(json_int_t)s->begin_ns, "running_ns", (json_int_t)recover->running_ns,
		"suspended_since_ns", (json_int_t)s->suspended_since_ns, "suspended_ns",
		(json_int_t)s->suspended_ns, "suspending", (int)s->suspending, "reason", s->reason,
		"end_signal", s->end_signal, "limit_signal_sent", (int)s->limit_signal_sent,
		"fork_ticks", (json_int_t)recover->forked.least, (json_int_t)recover->forked.most,
		"joined_fork_ticks", pack_joined(s), "adopted", (json_int_t)recover->adopted, "gid",
		(json_int_t)s->gid, "options", pack_options(s), "added", added, "mpi_service",
		pack_service(&recover->service));
}

/* ---- reading ------------------------------------------------------------------------------- */

static int err_bad(const json_error_t *why, struct err *err)
{
	return err_set_text(err, -EBADMSG,
		"state.json is not what an agent writes, or one of another version: %s", why->text);
}

/* A newer agent's document: its additional members are ignored; a new version is refused. */
static int check_version(const json_t *doc, struct err *err)
{
	json_int_t version = json_integer_value(json_object_get(doc, "version"));

	if (version == REGISTRY_STATE_VERSION)
		return 0;
	return err_set_text(err, -EBADMSG,
		"state.json has version %lld, and this stepd knows version %d: adopt the step with the "
		"stepd of its agent",
		(long long)version, REGISTRY_STATE_VERSION);
}

static int unpack_registry(json_t *doc, struct state_doc *s, struct err *err)
{
	struct step_state state;
	int r = steps_parse_state(doc, &state, err);

	if (r < 0)
		return r;
	if (state.job_id < 0 || state.job_id > UINT32_MAX || state.node_id < 0 ||
		state.node_id > UINT32_MAX || state.uid < 0 || state.uid >= UINT32_MAX)
		return err_set_text(err, -EBADMSG,
			"state.json has a job, node_id or uid that is none: %lld, %lld, %lld",
			(long long)state.job_id, (long long)state.node_id, (long long)state.uid);
	s->job_id = (uint32_t)state.job_id;
	s->step_name = state.step_name;
	s->node_name = state.node;
	s->node_id = (uint32_t)state.node_id;
	s->uid = (uid_t)state.uid;
	s->user_name = state.user;
	s->state = state.state;
	s->proctrack = state.proctrack;
	s->container_root = state.container_root;
	s->cont_id = state.cont_id;
	s->agent_pid = state.agent_pid;
	return 0;
}

/* Members that an agent of another version may lack have defaults. */
static int unpack_own(json_t *doc, struct state_doc *s, struct err *err)
{
	json_int_t begin = 0, running = 0, since = 0, suspended = 0, adopted = 0;
	json_int_t least, most, gid;
	char boot_id[STEPS_BOOT_ID_SIZE];
	const char *boot;
	json_error_t why;
	int suspending = 0;

	if (json_unpack_ex(doc, &why, 0, "{s:s, s:[I, I], s:I, s?I, s?I, s?I, s?I, s?b, s?i, s?I}",
		    "boot_id", &boot, "fork_ticks", &least, &most, "gid", &gid, "begin_ns", &begin,
		    "running_ns", &running, "suspended_since_ns", &since, "suspended_ns",
		    &suspended, "suspending", &suspending, "end_signal", &s->end_signal, "adopted",
		    &adopted) < 0)
		return err_bad(&why, err);
	steps_read_boot_id(boot_id);
	s->same_boot = strcmp(boot_id, boot) == 0;
	s->reason = json_string_value(json_object_get(doc, "reason"));
	s->begin_ns = (uint64_t)begin;
	s->suspended_since_ns = (uint64_t)since;
	s->suspended_ns = (uint64_t)suspended;
	s->suspending = suspending;
	s->limit_signal_sent = json_is_true(json_object_get(doc, "limit_signal_sent"));
	s->gid = (gid_t)gid;
	s->recover = (struct recover){.running_ns = (uint64_t)running,
		.forked = {(uint64_t)least, (uint64_t)most},
		.adopted = (uint32_t)adopted};
	return 0;
}

static int unpack_options(json_t *doc, struct state_doc *s, struct err *err)
{
	json_t *options = json_object_get(doc, "options");
	json_int_t interval = 0, keep_ms = 0;
	json_error_t why;
	int usage = 0;

	if (options &&
		json_unpack_ex(options, &why, 0, "{s?I, s?b, s?I}", "sample_interval_ms", &interval,
			"usage", &usage, "keep_result_ms", &keep_ms) < 0)
		return err_bad(&why, err);
	s->sample_interval_ms = (uint64_t)interval;
	s->usage_table = usage;
	s->keep_result_ms = (uint64_t)keep_ms;
	s->result_file = json_string_value(json_object_get(options, "result"));
	s->sample_file = json_string_value(json_object_get(options, "sample"));
	s->plugin_dir = json_string_value(json_object_get(options, "plugin_dir"));
	return 0;
}

static void unpack_joined(const json_t *doc, struct state_doc *s)
{
	const json_t *ticks = json_object_get(doc, "joined_fork_ticks");
	json_int_t least, most;
	size_t i, n = 0;

	for (i = 0; i < s->tasks_count; i++) {
		if (s->tasks[i].spawn == 0 ||
			json_unpack(json_array_get(ticks, n++), "[I, I]", &least, &most) < 0)
			continue;
		s->tasks[i].forked =
			(struct fork_ticks){.least = (uint64_t)least, .most = (uint64_t)most};
	}
}

static int unpack_tasks(const json_t *doc, struct state_doc *s, struct err *err)
{
	const json_t *tasks = json_object_get(doc, "tasks");
	json_int_t rank, spawn;
	json_error_t why;
	size_t i;
	int pid;

	s->tasks_count = json_array_size(tasks);
	s->tasks = calloc(s->tasks_count + 1, sizeof(*s->tasks));
	if (!s->tasks)
		return err_set(err, -ENOMEM, "read state.json");
	for (i = 0; i < s->tasks_count; i++) {
		spawn = 0;
		if (json_unpack_ex(json_array_get(tasks, i), &why, 0, "{s:I, s:i, s?I}", "rank",
			    &rank, "pid", &pid, "spawn", &spawn) < 0)
			return err_bad(&why, err);
		if (rank < 0 || rank > UINT32_MAX || pid < 0 || spawn < 0 || spawn > UINT32_MAX)
			return err_set_text(err, -EBADMSG,
				"state.json has a task whose rank or pid is none: %lld, %d",
				(long long)rank, pid);
		s->tasks[i] = (struct state_task){
			.rank = (uint32_t)rank, .pid = pid, .spawn = (uint32_t)spawn};
	}
	unpack_joined(doc, s);
	return 0;
}

/* An incomplete entry is invalid: no process is signalled by its pid alone. */
static void unpack_service(const json_t *doc, struct recover_service *service)
{
	const json_t *object = json_object_get(doc, "mpi_service");
	json_int_t pid = json_integer_value(json_object_get(object, "pid"));
	json_int_t ticks = json_integer_value(json_object_get(object, "start_ticks"));

	if (pid > 1 && pid <= INT32_MAX && ticks > 0)
		*service =
			(struct recover_service){.pid = (pid_t)pid, .start_ticks = (uint64_t)ticks};
}

int state_doc_unpack(json_t *doc, struct state_doc *ret_doc, struct err *err)
{
	int r = unpack_own(doc, ret_doc, err);

	if (r == 0)
		r = unpack_options(doc, ret_doc, err);
	if (r == 0 && ret_doc->same_boot)
		unpack_service(doc, &ret_doc->recover.service);
	return r < 0 ? r : unpack_tasks(doc, ret_doc, err);
}

int state_doc_read(int dir_fd, struct state_doc *ret_doc, struct err *err)
{
	_cleanup_state_doc_ struct state_doc s = {0};
	int r;

	r = steps_read_state(dir_fd, &s.doc);
	if (r < 0)
		return err_set(err, r, "read what the step's agent has left, state.json");
	r = check_version(s.doc, err);
	if (r == 0)
		r = unpack_registry(s.doc, &s, err);
	if (r == 0)
		r = state_doc_unpack(s.doc, &s, err);
	if (r < 0)
		return r;
	*ret_doc = s;
	s = (struct state_doc){0};
	return 0;
}

void state_doc_clear(struct state_doc *s)
{
	json_decref(s->doc);
	free(s->tasks);
	*s = (struct state_doc){0};
}
