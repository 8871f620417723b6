/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Cleans the runtime directory: expired results go, and what agents left
 * whose steps have no living process: those get their result, as by an adopter (adopt_settle()).
 * Nothing that lives is touched, and what is no step's directory of this user is left alone.
 */
#ifndef STEPD_RECORD_CLEAN_H
#define STEPD_RECORD_CLEAN_H

#include <stdbool.h>

#include "stepd/base/err.h"

struct clean_options;
struct registry;

enum clean_what {
	CLEAN_RESULT,  /* an expired result */
	CLEAN_REMAINS, /* what a dead agent left */
	CLEAN_ALONE,   /* left alone; text is the reason */
	CLEAN_WHAT_MAX,
};

extern const char *const clean_names[CLEAN_WHAT_MAX];

/* Strings are borrowed for the call. */
struct clean_found {
	enum clean_what what;
	const char *directory; /* its name below the runtime directory */
	const char *path;      /* the whole of it */
	const char *text;      /* the reason, or NULL */
	int code;              /* of CLEAN_ALONE: 0, or the -errno that it met */
};

typedef void (*clean_fn)(const struct clean_found *found, void *userdata);

/* Ends a step ("n1/7.0") without living processes: 0 or -errno. The step's directory shows
 * whether that succeeded. Runs in a process of its own, and may execute another program. */
typedef int (*clean_settle_fn)(const char *step, const struct clean_options *options);

struct clean_options {
	const char *runtime_dir; /* NULL: the default */
	const char *plugin_dir;  /* NULL: the default */
	bool dry_run;            /* only report */
	clean_settle_fn settle;
	clean_fn report;
	void *userdata;
};

/* Cleans the whole runtime directory. -errno only where that itself can't be read. Waits for its
 * child processes, which do the work. */
int clean_all(const struct clean_options *options, struct err *err) _must_check_;

/* For a starting agent, before it has a tracker: checks a few entries, from a random position,
 * and cleans at most two, without a report. Takes some tens of microseconds where there is
 * nothing to clean. */
void clean_some(
	const char *runtime_dir, int runtime_fd, const char *plugin_dir, clean_settle_fn settle);

/* ---- what a dead agent left ---------------------------------------------------------------- */

/* A dead agent of the same step may have left processes in a container elsewhere, such as in its
 * own scope. The tracker finds them only below the root that the registry recorded. */

/* -EEXIST, with the message in err, if processes of an earlier agent's step live. To be called
 * before the tracker is opened: a process can have only one of each. */
int leftover_check(const struct registry *registry, const char *plugin_dir, const char *label,
	struct err *err) _must_check_;

/* Only sets the message. Returns -EEXIST. */
int leftover_error(const char *label, struct err *err);

#endif
