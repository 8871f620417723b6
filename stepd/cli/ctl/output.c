/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What verbs print: failures and their exit statuses, warnings, JSON.
 */
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "stepd/account/usage.h"
#include "stepd/cli/ctl/ctl.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/client/client.h"
#include "stepd/record/report.h"

const struct ctl_exit_row ctl_exits[CTL_EXIT_MAX] = {
	[CTL_OK] = {"ok", "done"},
	[CTL_NOT_FOUND] = {"not_found", "no such step, task or process, or it has ended"},
	[CTL_USAGE] = {"usage", "wrong usage"},
	[CTL_PERMISSION] = {"permission", "permission denied"},
	[CTL_AGENT_GONE] = {"agent_gone", "the step's agent has died"},
	[CTL_TIMED_OUT] = {"timed_out", "no reply in time, or processes that did not stop"},
	[CTL_WRONG_STATE] = {"wrong_state", "not in this state of the step"},
	[CTL_NOT_SUPPORTED] = {"not_supported", "not with this tracker, machine, step or agent"},
	[CTL_FAILED] = {"failed", "another failure: see the message"},
	[CTL_OUTPUT] = {"output", "standard output could not be written"},
};

enum ctl_exit ctl_exit_of(int code)
{
	static const struct {
		int code;
		enum ctl_exit exit;
	} table[] = {
		{0, CTL_OK},
		{-ENOENT, CTL_NOT_FOUND},
		{-ESRCH, CTL_NOT_FOUND},
		{-EINVAL, CTL_USAGE},
		{-ENOTUNIQ, CTL_USAGE},
		{-EPERM, CTL_PERMISSION},
		{-EACCES, CTL_PERMISSION},
		{-ECONNREFUSED, CTL_AGENT_GONE},
		{-ECONNRESET, CTL_AGENT_GONE},
		{-ETIMEDOUT, CTL_TIMED_OUT},
		{-EBUSY, CTL_WRONG_STATE},
		{-EOPNOTSUPP, CTL_NOT_SUPPORTED},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].code == code)
			return table[i].exit;
	}
	return CTL_FAILED;
}

/* Texts of agents, plugins and state files reach a terminal: no byte of them moves the cursor. */
void ctl_warn(const struct ctl *ctl, const char *label, const char *text)
{
	_cleanup_free_ char *step = term_printable(&ctl->term, label ? label : "", TERM_WHOLE);
	_cleanup_free_ char *safe = term_printable(&ctl->term, text, TERM_WHOLE);

	(void)fflush(stdout); /* in the order in which it came; its own failure is seen later */
	fprintf(stderr, "stepctl %s: %s%s%s%s\n", ctl->verb->name, label ? "step " : "",
		step ? step : "", label ? ": " : "", safe ? safe : "no memory left");
}

void ctl_report(struct ctl *ctl, const char *label, const struct stepd_error *error, json_t *entry)
{
	enum ctl_exit status = ctl_exit_of(error->code);

	if (ctl->out.status == CTL_OK)
		ctl->out.status = ctl->verb->failure ? ctl->verb->failure : (int)status;
	/* libstepd names the step itself. */
	ctl_warn(ctl, strncmp(error->text, "step ", 5) == 0 ? NULL : label, error->text);
	if (ctl_put(entry, "error",
		    json_pack("{s:s, s:o, s:o}", "code", ctl_exits[status].name, "name",
			    error->name[0] ? report_json_text(error->name) : json_null(), "text",
			    report_json_text(error->text))) < 0)
		ctl->out.status = CTL_FAILED;
}

void ctl_report_err(struct ctl *ctl, const char *label, const struct err *err, json_t *entry)
{
	struct stepd_error error;

	(void)client_error_forward(&error, err);
	ctl_report(ctl, label, &error, entry);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

int ctl_put(json_t *entry, const char *key, json_t *value)
{
	if (!entry) {
		json_decref(value);
		return 0;
	}
	return json_object_set_new(entry, key, value) < 0 ? -ENOMEM : 0;
}

json_t *ctl_add_entry(struct ctl *ctl, const struct target *target)
{
	json_t *entry;

	if (!ctl->opt.json)
		return NULL;
	entry = json_pack("{s:o, s:o}", "step", report_json_text(target->label), "node",
		target->node[0] ? report_json_text(target->node) : json_null());
	if (json_array_append_new(ctl->out.steps, entry) == 0)
		return entry;
	ctl->out.status = CTL_FAILED; /* no memory: the document can't be whole */
	return NULL;
}

json_t *ctl_rank_json(int64_t rank)
{
	return rank == STEPD_NO_RANK ? json_null() : json_integer(rank);
}

int ctl_print_json(struct ctl *ctl, json_t *doc, bool one_line)
{
	_cleanup_free_ char *text =
		doc ? json_dumps(doc, one_line ? JSON_COMPACT : JSON_INDENT(2)) : NULL;

	json_decref(doc);
	ctl->out.printed = true;
	if (!text)
		return err_set(&ctl->err, -ENOMEM, "print JSON");
	printf("%s\n", text); /* main() checks for write errors at the end */
	return 0;
}

/* ---- small things -------------------------------------------------------------------------- */

int ctl_timeout_ms(const struct ctl *ctl)
{
	return ctl->opt.timeout_ms >= 0 ? (int)ctl->opt.timeout_ms : STEPD_TIMEOUT_MS;
}

/* One value, as the tables of usage write it. */
static const char *value_text(uint64_t value, enum stepd_usage_value which, char *buf)
{
	stepd_usage_t usage = {0};

	usage.value[which] = value;
	usage.source[which] = STEPD_USAGE_PROC;
	return usage_text(&usage, which, buf);
}

const char *ctl_duration_text(uint64_t usec, char *buf)
{
	return value_text(usec, STEPD_USAGE_CPU_USER_USEC, buf);
}

const char *ctl_bytes_text(uint64_t bytes, char *buf)
{
	return value_text(bytes, STEPD_USAGE_MEMORY_BYTES, buf);
}
