/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cray_aries/libjob.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "stepd/base/dynlib.h"

/* Its version has always been 0; the second name is that of development packages. */
static const char *const sonames[] = {"libjob.so.0", "libjob.so"};

static const struct dynlib_symbol symbols[] = {
	{"job_create", offsetof(struct libjob, create)},
	{"job_getjid", offsetof(struct libjob, getjid)},
	{"job_attachpid", offsetof(struct libjob, attachpid)},
	{"job_detachpid", offsetof(struct libjob, detachpid)},
	{"job_killjid", offsetof(struct libjob, killjid)},
	{"job_getpidcnt", offsetof(struct libjob, getpidcnt)},
	{"job_getpidlist", offsetof(struct libjob, getpidlist)},
};

/* Processes that may join a job between its count and its list, before the list is read again. */
#define LIST_SPARE 128
#define LIST_MAX   (1 << 24) /* more is no list */

int libjob_load(struct libjob *lib)
{
	size_t i;

	for (i = 0; !lib->handle && i < ARRAY_SIZE(sonames); i++)
		lib->handle = dynlib_open(sonames[i], symbols, ARRAY_SIZE(symbols), lib);
	return lib->handle ? 0 : -ELIBACC;
}

void libjob_unload(struct libjob *lib)
{
	lib->handle = dynlib_close(lib->handle);
}

void libjob_describe_missing(char *text, size_t size)
{
	void *handle = NULL;
	size_t i;

	for (i = 0; !handle && i < ARRAY_SIZE(sonames); i++)
		handle = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		(void)snprintf(text, size,
			"the vendor's job library %s can't be loaded (install the job package of "
			"the Cray system, or use another tracker)",
			sonames[0]);
		return;
	}
	for (i = 0; i < ARRAY_SIZE(symbols) && dlsym(handle, symbols[i].name); i++)
		;
	(void)snprintf(text, size,
		"the job library %s lacks the function %s() (update the job package of the Cray "
		"system, or use another tracker)",
		sonames[0], i < ARRAY_SIZE(symbols) ? symbols[i].name : "?");
	(void)dynlib_close(handle);
}

/* -errno of a function that failed; a library that forgot errno gets -EIO. */
static int libjob_failure(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* One list of at most capacity: their number, or -errno. */
static int libjob_read_list(const struct libjob *lib, jid_t jid, pid_t *pids, int capacity)
{
	int n;

	errno = 0;
	n = lib->getpidlist(jid, pids, (int)((size_t)capacity * sizeof(*pids)));
	if (n < 0)
		return libjob_failure();
	return n <= capacity ? n : -EBADMSG;
}

int libjob_list(const struct libjob *lib, jid_t jid, pid_t **ret_pids, size_t *ret_count)
{
	int capacity, n;

	errno = 0;
	capacity = lib->getpidcnt(jid);
	if (capacity < 0)
		return libjob_failure();
	for (capacity = capacity < LIST_MAX ? capacity + LIST_SPARE : LIST_MAX;; capacity *= 2) {
		_cleanup_free_ pid_t *pids = NULL;

		if (capacity > LIST_MAX)
			return -EFBIG;
		pids = calloc((size_t)capacity, sizeof(*pids));
		if (!pids)
			return -ENOMEM;
		n = libjob_read_list(lib, jid, pids, capacity);
		if (n < 0)
			return n;
		if (n < capacity) { /* a full list may have been cut */
			*ret_pids = n > 0 ? take_ptr(pids) : NULL;
			*ret_count = (size_t)n;
			return 0;
		}
	}
}
