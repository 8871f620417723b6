/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl: queries and controls the steps of this node over libstepd (<stepd/client.h>). One verb,
 * or a few related ones, a file; main.c has their table and that of the options. stepctl(1)
 * describes each; doc/stepctl.schema.json is what --json prints.
 */
#ifndef STEPD_CLI_CTL_CTL_H
#define STEPD_CLI_CTL_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/api/client.h"
#include "stepd/base/err.h"
#include "stepd/cli/ctl/term.h"
#include "stepd/cli/options.h"

struct json_t;
struct target;

/* 125 and above are exit statuses of steps and their agents: stepd(8). */
enum ctl_exit {
	CTL_OK,
	CTL_NOT_FOUND,
	CTL_USAGE,
	CTL_PERMISSION,
	CTL_AGENT_GONE,
	CTL_TIMED_OUT,
	CTL_WRONG_STATE,
	CTL_NOT_SUPPORTED,
	CTL_FAILED,
	CTL_OUTPUT,
	CTL_EXIT_MAX,
};

/* Of "stepctl wait", whose other statuses are those of steps. */
#define CTL_WAIT_FAILED 125

struct ctl_exit_row {
	const char *name; /* the "code" of an error in JSON */
	const char *doc;
};
extern const struct ctl_exit_row ctl_exits[CTL_EXIT_MAX];

struct ctl;

struct verb {
	const char *name;
	int (*run)(struct ctl *ctl); /* 0 or -errno with ctl->err: the verb can't do its work */
	const char *arguments;       /* for help: "STEP..." */
	int least, most;             /* how many; most -1: any number */
	uint64_t options;            /* bits 1 << enum ctl_option_id; 0: run() takes its own */
	const char *doc;             /* a line of help */
	int failure;                 /* the exit status of any failure; 0: as ctl_exits[] */
};

/* ---- options: a row of main.c each --------------------------------------------------------- */

enum ctl_option_id {
	CTL_OPT_SIGNAL,
	CTL_OPT_LEADER,
	CTL_OPT_PID,
	CTL_OPT_TASKS,
	CTL_OPT_NAMES,
	CTL_OPT_NAMESPACE,
	CTL_OPT_NOW,
	CTL_OPT_GRACE,
	CTL_OPT_KILL_SEQUENCE,
	CTL_OPT_FROM,
	CTL_OPT_FOLLOW,
	CTL_OPT_INTERVAL,
	CTL_OPT_ROUNDS,
	CTL_OPT_BATCH,
	CTL_OPT_SORT,
	CTL_OPT_STDIN,
	CTL_OPT_SINCE,
	CTL_OPT_TAIL,
	CTL_OPT_STREAM,
	CTL_OPT_LABEL,
	CTL_OPT_DETACH_KEYS,
	CTL_OPT_DRY_RUN,
	CTL_OPT_JSON,
	CTL_OPT_TIMEOUT,
	CTL_OPT_RUNTIME_DIR,
	CTL_OPT_PLUGIN_DIR,
	CTL_OPT_HELP,
	CTL_OPT_MAX,
};

#define CTL_BIT(id) (UINT64_C(1) << CTL_OPT_##id)

/* NULL and 0: not given. */
struct ctl_options {
	const char *runtime_dir;
	const char *plugin_dir;
	const char *signal;
	const char *kill_sequence;
	const char *namespace;
	const char *sort;
	const char *stream, *detach_keys;
	int64_t timeout_ms, grace_ms; /* -1: not given */
	int64_t since;                /* likewise */
	int64_t interval_ms;
	uint64_t rounds;
	uint64_t from;
	uint64_t pid;
	bool json, help, leader, now, tasks, follow, batch, dry_run, names;
	bool input, tail, label;
};

#define CTL_OPTIONS_INIT                                                                           \
	{                                                                                          \
		.timeout_ms = -1, .grace_ms = -1, .since = -1, .from = 1, .sort = "cpu"            \
	}

/* The output, printed and collected. */
struct ctl_output {
	int status;           /* of the first failure, CTL_OK so far */
	int step_status;      /* of wait: the largest of the steps */
	struct json_t *steps; /* what --json prints: an object for each step ... */
	bool printed;         /* ... unless the verb has printed a document of its own */
	int shown;            /* steps so far, for the empty lines between */
};

struct ctl {
	const struct verb *verb;
	int argc; /* from the verb on */
	char **argv;
	char **args; /* behind the options */
	int count;
	struct ctl_options opt;
	struct ctl_output out;
	struct term term;
	struct err err;
};

/* Reports the failure of a step on stderr; in JSON in entry, which may be NULL. label: the step. */
void ctl_report(
	struct ctl *ctl, const char *label, const struct stepd_error *error, struct json_t *entry);
void ctl_report_err(
	struct ctl *ctl, const char *label, const struct err *err, struct json_t *entry);

/* A warning, which does not change the exit status. */
void ctl_warn(const struct ctl *ctl, const char *label, const char *text);

/* A new object {"step", "node"} for --json: borrowed. NULL: no memory, or no --json. */
struct json_t *ctl_add_entry(struct ctl *ctl, const struct target *target);

/* Sets a member of an entry; owns value. Does nothing for an entry of NULL. 0 or -ENOMEM. */
int ctl_put(struct json_t *entry, const char *key, struct json_t *value);

/* A new reference, null for STEPD_NO_RANK. */
struct json_t *ctl_rank_json(int64_t rank);

/* Prints a document on a line of its own, or indented. Consumes doc, NULL is no memory. */
int ctl_print_json(struct ctl *ctl, struct json_t *doc, bool one_line) _must_check_;

/* The timeout that was given, or the one of libstepd. */
int ctl_timeout_ms(const struct ctl *ctl);

/* For people, at most 8 bytes: "1.50 s", "2h05m" and "340 KiB". */
#define CTL_TEXT_SIZE 24
const char *ctl_duration_text(uint64_t usec, char *buf);
const char *ctl_bytes_text(uint64_t bytes, char *buf);

/* The verbs. */
int ctl_list(struct ctl *ctl);
int ctl_show(struct ctl *ctl);
int ctl_ps(struct ctl *ctl);
int ctl_pids(struct ctl *ctl);
int ctl_find(struct ctl *ctl);
int ctl_signal(struct ctl *ctl);
int ctl_suspend(struct ctl *ctl);
int ctl_resume(struct ctl *ctl);
int ctl_terminate(struct ctl *ctl);
int ctl_wait(struct ctl *ctl);
int ctl_events(struct ctl *ctl);
int ctl_usage(struct ctl *ctl);
int ctl_attach(struct ctl *ctl);
int ctl_top(struct ctl *ctl);
int ctl_set_limits(struct ctl *ctl);
int ctl_notify(struct ctl *ctl);
int ctl_add(struct ctl *ctl);
int ctl_reexec(struct ctl *ctl);
int ctl_clean(struct ctl *ctl);

#endif
