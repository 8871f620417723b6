/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The vendor's job library, loaded when it is needed: the functions that Cray and SGI document in
 * job(3), as far as the tracker calls them. A job is a set of processes, their children included,
 * with a number; it begins with the process that creates it and ends with its last one.
 */
#ifndef PROCTRACK_CRAY_ARIES_LIBJOB_H
#define PROCTRACK_CRAY_ARIES_LIBJOB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

typedef uint64_t jid_t; /* the library's name of it */

#define JID_NONE ((jid_t)-1) /* a failure: errno has why */

/* errno of all: ENODATA: no such job, or the process is in none. ESRCH: no such process. ENOENT:
 * the job service does not run. EPERM: the caller may not. */
struct libjob {
	void *handle; /* NULL: not loaded */
	/* Makes the caller the first process of a new job. requested: its number, 0 for any. */
	jid_t (*create)(jid_t requested, uid_t uid, int options);
	jid_t (*getjid)(pid_t pid);
	/* EINVAL: it is in a job already. */
	jid_t (*attachpid)(pid_t pid, jid_t jid);
	jid_t (*detachpid)(pid_t pid); /* the job that it was in */
	int (*killjid)(jid_t jid, int signal);
	int (*getpidcnt)(jid_t jid);
	int (*getpidlist)(jid_t jid, pid_t *pids, int size_bytes); /* how many it wrote */
};

/* -ELIBACC: it, or one of its functions, is not there. */
int libjob_load(struct libjob *lib) _must_check_;
void libjob_unload(struct libjob *lib);

/* What is missing, and the remedy, where libjob_load() failed. */
void libjob_describe_missing(char *text, size_t size);

/* The processes and threads of a job, in no order, for free(); NULL if there are none. A job that
 * ends meanwhile, or does not exist: -ENODATA. */
int libjob_list(
	const struct libjob *lib, jid_t jid, pid_t **ret_pids, size_t *ret_count) _must_check_;

#endif
