/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/client/client.h"

#include <stdarg.h>
#include <string.h>

#include "stepd/base/json.h"

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

/* By set, err_set_text() or err_set(), which make it printable. */
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

/* ---- the errors of agents ----------------------------------------------------------------- */

/* An empty text is as good as none. */
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
		.before = "it has more answers than one: call it with STEPD_CALL_MORE"},
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
