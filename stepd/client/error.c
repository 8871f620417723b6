/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/client/error.h"

#include <jansson.h>
#include <stdarg.h>
#include <string.h>

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

/* By set, err_say() or err_set(), which make it printable. */
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
	(void)set_sentence(error, code, err_say, fmt, ap);
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

/* ---- the errors of agents ----------------------------------------------------------------- */

static const char *get_text(const json_t *parameters, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(parameters, key));

	return text && text[0] ? text : otherwise;
}

static long long get_number(const json_t *parameters, const char *key)
{
	return (long long)json_integer_value(json_object_get(parameters, key));
}

static void format_message(char *buf, const json_t *parameters)
{
	(void)snprintf(buf, SENTENCE_SIZE, "%s",
		get_text(parameters, "message", "its agent refused it without a reason"));
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

static void format_no_process(char *buf, const json_t *parameters)
{
	(void)snprintf(buf, SENTENCE_SIZE, "no process of the step has the pid %lld",
		get_number(parameters, "pid"));
}

static void format_no_task(char *buf, const json_t *parameters)
{
	(void)snprintf(buf, SENTENCE_SIZE,
		"the step has no task of rank %lld on this node (ListTasks has those it has)",
		get_number(parameters, "rank"));
}

static void format_too_many(char *buf, const json_t *parameters)
{
	(void)snprintf(buf, SENTENCE_SIZE,
		"its agent takes no more than %lld connections: close others, then try again",
		get_number(parameters, "limit"));
}

static void format_older(char *buf, const json_t *parameters)
{
	(void)parameters;
	(void)snprintf(buf, SENTENCE_SIZE,
		"its agent has no such method; where it is an older one, let it execute the new "
		"program (Reexec)");
}

static void format_parameter(char *buf, const json_t *parameters)
{
	(void)snprintf(buf, SENTENCE_SIZE,
		"its agent does not know the parameter '%s', or not this value of it",
		get_text(parameters, "parameter", "?"));
}

static void format_more(char *buf, const json_t *parameters)
{
	(void)parameters;
	(void)snprintf(
		buf, SENTENCE_SIZE, "it has more answers than one: call it with STEPD_CALL_MORE");
}

static void format_unknown(char *buf, const json_t *parameters)
{
	char *text = json_dumps(parameters, JSON_COMPACT);

	(void)snprintf(buf, SENTENCE_SIZE,
		"its agent replied with an error unknown to this version, with %s",
		text ? text : "{}");
	free(text);
}

static const struct remote_row {
	const char *name;
	int code;
	void (*format)(char *buf, const json_t *parameters);
} remote_rows[] = {
	{"io.stepd.Step.PermissionDenied", -EPERM, format_denied},
	{"io.stepd.Step.NoSuchProcess", -ESRCH, format_no_process},
	{"io.stepd.Step.NoSuchTask", -ESRCH, format_no_task},
	{"io.stepd.Step.WrongState", -EBUSY, format_message},
	{"io.stepd.Step.TooManyConnections", -EBUSY, format_too_many},
	{"io.stepd.Step.SuspendFailed", -ETIMEDOUT, format_message},
	{"io.stepd.Step.NotSupported", -EOPNOTSUPP, format_message},
	{"io.stepd.Step.Failed", -EIO, format_failed},
	{"org.varlink.service.InterfaceNotFound", -EOPNOTSUPP, format_older},
	{"org.varlink.service.MethodNotFound", -EOPNOTSUPP, format_older},
	{"org.varlink.service.MethodNotImplemented", -EOPNOTSUPP, format_older},
	{"org.varlink.service.InvalidParameter", -EINVAL, format_parameter},
	{"org.varlink.service.ExpectedMore", -EINVAL, format_more},
	{NULL, -EIO, format_unknown},
};

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
	row->format(sentence, parameters);
	(void)client_error(
		error, code, "step %s: %s: %s: %s", step, method, bare ? bare + 1 : name, sentence);
	if (error)
		(void)snprintf(error->name, sizeof(error->name), "%s", name);
	return code;
}
