/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/result.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/agent/registry.h"
#include "stepd/base/fs.h"
#include "stepd/base/log.h"
#include "stepd/base/signals.h"

#define RESULT_VERSION 1

const char *const agent_state_words[AGENT_STATE_MAX] = {
	[AGENT_STARTING] = "starting",
	[AGENT_RUNNING] = "running",
	[AGENT_ENDING] = "ending",
	[AGENT_DRAINING] = "draining",
	[AGENT_ENDED] = "ended",
};

const char *const agent_reason_words[AGENT_REASON_MAX] = {
	[AGENT_REASON_COMPLETED] = "completed",
	[AGENT_REASON_SIGNAL] = "signal",
	[AGENT_REASON_TIME_LIMIT] = "time-limit",
	[AGENT_REASON_BAD_EXIT] = "bad-exit",
	[AGENT_REASON_WAIT] = "wait",
	[AGENT_REASON_EXEC] = "exec-failed",
	[AGENT_REASON_LAUNCH] = "launch-failed",
};

int agent_exit_code(const struct agent *a)
{
	if (a->unkillable)
		return STATUS_UNKILLABLE;
	switch (a->reason) {
	case AGENT_REASON_LAUNCH:
		return STATUS_FAILED;
	case AGENT_REASON_TIME_LIMIT:
		return STATUS_TIME_LIMIT;
	case AGENT_REASON_SIGNAL:
		return STATUS_SIGNAL_BASE + a->end_signal;
	default:
		return a->tasks.status.code;
	}
}

void result_send_ready(struct agent *a)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *line = NULL;
	_cleanup_close_ int fd = a->options->ready_fd;
	json_t *doc;
	int r;

	if (fd < 0)
		return;
	doc = json_pack("{s:s, s:i, s:s, s:{s:s, s:I}, s:o}", "step", a->plan.label, "pid",
		(int)getpid(), "state", agent_state_words[a->state], "container", "plugin",
		proctrack_get_type(a->pt), "id", (json_int_t)a->plan.job.cont_id, "tasks",
		registry_pack_tasks(&a->plan.job));
	text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
	json_decref(doc);
	if (!text || asprintf(&line, "%s\n", text) < 0) {
		line = NULL;
		log_warning(a->log, "no memory for the ready line, ignoring");
		return;
	}
	r = fs_write_all(fd, line, strlen(line));
	if (r < 0)
		log_warning(a->log, "write the ready line: %s, ignoring", strerror(-r));
}

void result_publish_state(struct agent *a, const char *state)
{
	struct err err = ERR_INIT;

	if (registry_publish(a->registry, &a->plan.job, proctrack_get_type(a->pt), state, &err) < 0)
		log_warning(a->log, "%s, ignoring", err.text);
}

static uint64_t usec_of(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000u + (uint64_t)tv->tv_usec;
}

static json_t *pack_task(const struct task *task)
{
	char words[96];
	json_t *doc = json_pack("{s:I, s:i, s:s, s:b}", "rank", (json_int_t)task->rank, "pid",
		(int)task->ref.pid, "text", task_words(task, words, sizeof(words)), "on_request",
		(int)task->requested);
	int r = doc ? 0 : -1;

	if (r < 0 || task->state != TASK_ENDED)
		return doc;
	r |= json_object_set_new(doc, "wait_status", json_integer(task->wait_status));
	r |= json_object_set_new(
		doc, "exit_code", json_integer(status_exit_code(task->wait_status)));
	r |= json_object_set_new(doc, "elapsed_usec",
		json_integer((json_int_t)((task->end_ns - task->start_ns) / 1000)));
	r |= json_object_set_new(
		doc, "cpu_user_usec", json_integer((json_int_t)usec_of(&task->usage.ru_utime)));
	r |= json_object_set_new(
		doc, "cpu_system_usec", json_integer((json_int_t)usec_of(&task->usage.ru_stime)));
	r |= json_object_set_new(
		doc, "memory_peak_bytes", json_integer((json_int_t)task->usage.ru_maxrss * 1024));
	if (r == 0)
		return doc;
	json_decref(doc);
	return NULL;
}

static json_t *pack_tasks(const struct agent *a)
{
	json_t *tasks = json_array();
	uint32_t i;
	int r = tasks ? 0 : -1;

	for (i = 0; r == 0 && i < a->tasks.n; i++)
		r = json_array_append_new(tasks, pack_task(&a->tasks.v[i]));
	if (r == 0)
		return tasks;
	json_decref(tasks);
	return NULL;
}

static json_t *pack_result(const struct agent *a)
{
	const stepd_step_rec_t *job = &a->plan.job;
	char name[SIGNALS_NAME_SIZE];
	json_t *doc;
	int r = 0;

	doc = json_pack("{s:i, s:s, s:s, s:I, s:s, s:s, s:s, s:i, s:I, s:{s:s, s:I}, s:o}",
		"version", RESULT_VERSION, "step", a->plan.label, "node", job->node_name, "uid",
		(json_int_t)job->uid, "user", job->user_name, "state", agent_state_words[a->state],
		"reason", agent_reason_words[a->reason], "exit_code", agent_exit_code(a),
		"elapsed_usec", (json_int_t)((a->end_ns - a->begin_ns) / 1000), "container",
		"plugin", proctrack_get_type(a->pt), "id", (json_int_t)job->cont_id, "tasks",
		pack_tasks(a));
	if (!doc)
		return NULL;
	if (a->reason == AGENT_REASON_SIGNAL)
		r |= json_object_set_new(doc, "signal",
			json_string(signals_name(a->end_signal, name, sizeof(name))));
	if (a->reason == AGENT_REASON_LAUNCH)
		r |= json_object_set_new(doc, "error", json_string(a->failure.text));
	if (a->unkillable)
		r |= json_object_set_new(doc, "unkillable",
			json_string(a->unkillable_text ? a->unkillable_text : "?"));
	if (r == 0)
		return doc;
	json_decref(doc);
	return NULL;
}

int result_write(const struct agent *a, struct err *err)
{
	const char *path = a->options->result_file;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *line = NULL;
	json_t *doc;
	int r;

	if (!path)
		return 0;
	doc = pack_result(a);
	text = doc ? json_dumps(doc, JSON_INDENT(2)) : NULL;
	json_decref(doc);
	if (!text || asprintf(&line, "%s\n", text) < 0) {
		line = NULL;
		return err_set(err, -ENOMEM, "write the result '%s'", path);
	}
	if (strcmp(path, "-") == 0)
		r = fs_write_all(STDOUT_FILENO, line, strlen(line));
	else
		r = fs_write_atomic(AT_FDCWD, path, line, strlen(line), 0644, true);
	return r < 0 ? err_set(err, r, "write the result '%s'", path) : 0;
}
