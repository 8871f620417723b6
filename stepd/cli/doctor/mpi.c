/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/doctor/doctor.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "mpi/selftest.h"
#include "stepd/base/parse.h"
#include "stepd/cli/options.h"

#define NAME_SIZE      128
#define PROGRAM(name_) "selftest/" name_, STEPD_LIBEXEC_DIR "/" name_

/* Kinds of clients. */
enum kind {
	KIND_ENV,
	KIND_PMI1,
	KIND_PMI2,
	KIND_PMIX,
	KIND_MAX,
};

static const struct {
	const char *name; /* in the finding's id, and the program's argument if it has one */
	const char *title;
	const char *program, *installed;
	bool has_argument;
} kinds[KIND_MAX] = {
	[KIND_ENV] = {"env", "their variables", PROGRAM("mpi-selftest"), true},
	[KIND_PMI1] = {"pmi1", "PMI-1", PROGRAM("mpi-selftest"), true},
	[KIND_PMI2] = {"pmi2", "PMI-2", PROGRAM("mpi-selftest"), true},
	[KIND_PMIX] = {"pmix", "PMIx", PROGRAM("mpi-selftest-pmix"), false},
};

/* The clients that a plugin of this tree serves. */
static const struct {
	const char *name;
	unsigned kinds; /* bits */
} plugins[] = {
	{"none", 1u << KIND_ENV},
	{"pmi2", 1u << KIND_PMI1 | 1u << KIND_PMI2},
	{"pmix", 1u << KIND_PMIX},
};

/* How far a task got. */
struct progress {
	enum {
		SILENT,
		AT,
		ABSENT,
		FAILED,
		DONE
	} state;
	const char *stage; /* of AT and FAILED */
	const char *text;  /* why; with DONE more about it */
	uint64_t usec;     /* of DONE */
};

/* One trial, and the input of its finding. */
struct report {
	const struct reporter *reporter;
	const char *plugin;
	enum kind kind;
	char id[NAME_SIZE];
	char remedy[256];
	struct trial trial;
	struct progress task[SELFTEST_SIZE];
};

/* ---- what the tasks report ----------------------------------------------------------------- */

static const char *next_field(char **rest)
{
	char *field = strsep(rest, " ");

	return field ? field : "";
}

/* Modifies the line. Lines that are not the self-test's come from libraries, and are ignored. */
static void read_line(struct report *r, char *line)
{
	const char *verb;
	struct progress *p;
	uint32_t rank;

	if (parse_u32(next_field(&line), 0, SELFTEST_SIZE - 1, &rank) < 0)
		return;
	p = &r->task[rank];
	verb = next_field(&line);
	if (strcmp(verb, SELFTEST_AT) == 0) {
		*p = (struct progress){.state = AT, .stage = next_field(&line)};
	} else if (strcmp(verb, SELFTEST_FAILED) == 0) {
		*p = (struct progress){.state = FAILED, .stage = next_field(&line)};
		p->text = line;
	} else if (strcmp(verb, SELFTEST_ABSENT) == 0) {
		*p = (struct progress){.state = ABSENT, .text = line};
	} else if (strcmp(verb, SELFTEST_DONE) == 0) {
		*p = (struct progress){.state = DONE};
		p->usec = strtoull(next_field(&line), NULL, 10);
		p->text = line;
	}
	if (!p->text)
		p->text = "";
}

static void read_lines(struct report *r)
{
	char *rest = r->trial.out, *line;

	while ((line = strsep(&rest, "\n")))
		read_line(r, line);
}

/* The rank of the first task in that state, or -1. */
static int find_task(const struct report *r, int state)
{
	int i;

	for (i = 0; i < (int)SELFTEST_SIZE; i++) {
		if ((int)r->task[i].state == state)
			return i;
	}
	return -1;
}

static bool are_all(const struct report *r, int state)
{
	unsigned i;

	for (i = 0; i < SELFTEST_SIZE && (int)r->task[i].state == state; i++)
		;
	return i == SELFTEST_SIZE;
}

/* ---- findings ------------------------------------------------------------------------------ */

/* Of the text of mpi/pmix/selftest.c: "client=4.2.2 server=5.0.1". */
static bool are_of_two_majors(const char *versions, int *ret_client, int *ret_server)
{
	const char *client = strstr(versions, "client="), *server = strstr(versions, "server=");

	if (!client || !server)
		return false;
	*ret_client = atoi(client + strlen("client="));
	*ret_server = atoi(server + strlen("server="));
	return *ret_client > 0 && *ret_server > 0 && *ret_client != *ret_server;
}

static void report_good(const struct report *r)
{
	const struct progress *slowest = &r->task[r->task[1].usec > r->task[0].usec ? 1 : 0];
	const char *versions = slowest->text;
	double step_ms = (double)r->trial.took_us / 1e3, ms = (double)slowest->usec / 1e3;
	int client, server;
	char value[SELFTEST_TEXT_MAX + 32];

	(void)snprintf(value, sizeof(value), "%.1f%s%s", ms, *versions ? " " : "", versions);
	if (r->kind == KIND_ENV)
		reporter_add(r->reporter, STEPD_FINDING_OK, r->id, value, NULL,
			"two tasks find their rank and the step's size in %s; the step took %.0f ms",
			kinds[r->kind].title, step_ms);
	else if (are_of_two_majors(versions, &client, &server))
		reporter_add(r->reporter, STEPD_FINDING_NOTE, r->id, value, NULL,
			"two tasks exchange values by %s in %.1f ms, though their library is of "
			"another major version than the server's (%s)",
			kinds[r->kind].title, ms, versions);
	else
		reporter_add(r->reporter, STEPD_FINDING_OK, r->id, value, NULL,
			"two tasks exchange values by %s in %.1f ms%s%s%s; the step took %.0f ms",
			kinds[r->kind].title, ms, *versions ? " (" : "", versions,
			*versions ? ")" : "", step_ms);
}

/* The remedy, around a command that tries it again. */
static const char *make_remedy(struct report *r, const char *before, const char *after)
{
	(void)snprintf(r->remedy, sizeof(r->remedy), "%s'stepd run -n 2 --mpi=%s PROGRAM'%s",
		before, r->plugin, after);
	return r->remedy;
}

/* value is the stage for programs. */
static void report_bad(const struct report *r, const char *value, const char *remedy,
	const char *fmt, ...) _printf_(4, 5);
static void report_bad(
	const struct report *r, const char *value, const char *remedy, const char *fmt, ...)
{
	const char *error = r->trial.agent_error;
	char what[SELFTEST_TEXT_MAX + 128];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	reporter_add(r->reporter, STEPD_FINDING_PROBLEM, r->id, value, remedy, "%s%s%s", what,
		error[0] ? "; the step reports: " : "", error);
}

static void report_not_begun(struct report *r)
{
	if (r->trial.late)
		report_bad(r, "start",
			make_remedy(r,
				"see in which of its hooks the plugin hangs, or whether its "
				"service process does, while ",
				" runs"),
			"a step hangs before its tasks begin, and was ended after %u s",
			TRIAL_TIMEOUT_MS / 1000);
	else
		report_bad(r, "start",
			make_remedy(r, "repair what the step names; ", " tries it again"),
			"no task of a step could begin%s",
			r->trial.agent_error[0] ? "" : ", and no message has the reason");
}

static void report_hang(struct report *r)
{
	int rank = find_task(r, AT);
	const char *stage = rank >= 0 ? r->task[rank].stage : "end";

	report_bad(r, stage,
		make_remedy(r, "see what the plugin's service process waits for while ", " runs"),
		"rank %d of two hangs at '%s' of %s, and the step was ended after %u s",
		rank >= 0 ? rank : 0, stage, kinds[r->kind].title, TRIAL_TIMEOUT_MS / 1000);
}

static void report_failure(struct report *r, int rank)
{
	const struct progress *p = &r->task[rank];
	int client, server;

	if (are_of_two_majors(p->text, &client, &server))
		(void)snprintf(r->remedy, sizeof(r->remedy),
			"start programs with a libpmix of major version %d, as the server's is (and "
			"not %d)",
			server, client);
	else
		(void)make_remedy(r, "see the messages of ", "");
	report_bad(r, p->stage, r->remedy, "rank %d of two fails at '%s' of %s: %s", rank, p->stage,
		kinds[r->kind].title, p->text);
}

/* Both tasks, or the one that didn't fail, are done or got nowhere. */
static void report_rest(struct report *r)
{
	const char *remedy = make_remedy(r, "see the messages of ", "");
	int at = find_task(r, AT), silent = find_task(r, SILENT);

	if (at >= 0)
		report_bad(r, r->task[at].stage, remedy,
			"rank %d of two ended in the middle of '%s' of %s", at, r->task[at].stage,
			kinds[r->kind].title);
	else if (silent >= 0)
		report_bad(r, "end", remedy, "rank %d of two came to nothing", silent);
	else
		report_bad(r, "end", remedy,
			"two tasks exchange values by %s, but their step fails",
			kinds[r->kind].title);
}

static void report_absent(const struct report *r, int rank)
{
	report_bad(r, "init", "install a plugin that serves it, or repair this one",
		"tasks find no %s server: %s", kinds[r->kind].title, r->task[rank].text);
}

static void report_outcome(struct report *r)
{
	if (are_all(r, DONE) && !r->trial.failed && !r->trial.agent_error[0])
		report_good(r);
	else if (are_all(r, SILENT))
		report_not_begun(r);
	else if (find_task(r, FAILED) >= 0)
		report_failure(r, find_task(r, FAILED));
	else if (r->trial.late)
		report_hang(r);
	else if (find_task(r, ABSENT) >= 0)
		report_absent(r, find_task(r, ABSENT));
	else
		report_rest(r);
}

/* ---- one plugin ---------------------------------------------------------------------------- */

static void make_id(struct report *r)
{
	char *at;

	(void)snprintf(r->id, sizeof(r->id), "mpi.%s.%s", r->plugin, kinds[r->kind].name);
	for (at = r->id; *at; at++)
		*at = (char)tolower((unsigned char)*at);
}

/* False: it can't be tried, which is reported. The caller clears r->trial. */
static bool try_kind(struct report *r, const struct trial_options *options, bool known)
{
	_cleanup_free_ char *program = NULL;
	struct err err = ERR_INIT;
	const char *argument = kinds[r->kind].has_argument ? kinds[r->kind].name : NULL;
	int status = program_find(kinds[r->kind].program, kinds[r->kind].installed, &program, &err);

	make_id(r);
	if (status == 0 && access(program, X_OK) < 0) {
		if (known)
			reporter_add(r->reporter, STEPD_FINDING_WARNING, "mpi.selftest", program,
				"install all of stepd",
				"mpi/%s can't be tried: the program of its self-test can't be executed: "
				"%s",
				r->plugin, strerror(errno));
		return false;
	}
	if (status == 0)
		status = trial_run(options, r->plugin, program, argument, &r->trial, &err);
	if (status < 0) {
		reporter_add(r->reporter, STEPD_FINDING_WARNING, "mpi.selftest", program,
			"see the findings of the runtime directory", "mpi/%s can't be tried: %s",
			r->plugin, err.text);
		return false;
	}
	read_lines(r);
	return true;
}

/* Whether a task got no further than init. */
static bool is_refused(const struct report *r)
{
	int rank = find_task(r, FAILED);

	return rank >= 0 && strcmp(r->task[rank].stage, selftest_stage_names[SELFTEST_INIT]) == 0;
}

static void try_known(const struct reporter *reporter, const struct trial_options *options,
	const char *name, unsigned for_kinds)
{
	unsigned i;

	for (i = 0; i < KIND_MAX; i++) {
		struct report r = {.reporter = reporter, .plugin = name, .kind = (enum kind)i};

		if (!(for_kinds & 1u << i))
			continue;
		if (try_kind(&r, options, true))
			report_outcome(&r);
		trial_clear(&r.trial);
	}
}

/* Tries the protocols and reports those that the plugin serves: how many. A server may refuse
 * clients of a protocol that it doesn't speak, if it speaks another. */
static unsigned try_protocols(
	const struct reporter *reporter, const struct trial_options *options, const char *name)
{
	struct report reports[KIND_MAX] = {0};
	bool tried[KIND_MAX] = {0};
	unsigned i, spoken = 0, reported = 0;

	for (i = KIND_PMI1; i < KIND_MAX; i++) {
		reports[i] =
			(struct report){.reporter = reporter, .plugin = name, .kind = (enum kind)i};
		tried[i] = try_kind(&reports[i], options, false);
		spoken +=
			tried[i] && find_task(&reports[i], ABSENT) < 0 && !is_refused(&reports[i]);
	}
	for (i = KIND_PMI1; i < KIND_MAX; i++) {
		if (tried[i] && find_task(&reports[i], ABSENT) < 0 &&
			!(spoken && is_refused(&reports[i]))) {
			report_outcome(&reports[i]);
			reported++;
		}
		trial_clear(&reports[i].trial);
	}
	return reported;
}

/* First, whether tasks begin with it at all: if not, there is one finding instead of one for each
 * kind. */
static void try_unknown(
	const struct reporter *reporter, const struct trial_options *options, const char *name)
{
	struct report r = {.reporter = reporter, .plugin = name, .kind = KIND_ENV};
	bool begins;

	if (try_kind(&r, options, true)) {
		begins = are_all(&r, DONE);
		if (!begins || try_protocols(reporter, options, name) == 0) {
			report_outcome(&r);
			if (begins)
				reporter_add(reporter, STEPD_FINDING_NOTE, "mpi.selftest", name,
					NULL,
					"tasks of mpi/%s find no server of PMI-1, PMI-2 or PMIx",
					name);
		}
	}
	trial_clear(&r.trial);
}

void doctor_mpi(
	const struct reporter *reporter, const struct trial_options *options, const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(plugins); i++) {
		if (strcmp(name, plugins[i].name) == 0) {
			try_known(reporter, options, name, plugins[i].kinds);
			return;
		}
	}
	try_unknown(reporter, options, name);
}
