/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/libcgroup.h"

#include <stdarg.h>
#include <string.h>

#include "config.h"
#include "stepd/base/dynlib.h"

static void swallow(
	_unused_ void *userdata, _unused_ int level, _unused_ const char *fmt, _unused_ va_list ap)
{
}

static const struct dynlib_symbol symbols[] = {
	{"cgroup_init", offsetof(struct libcgroup, init)},
	{"cgroup_set_logger", offsetof(struct libcgroup, set_logger)},
	{"cgroup_get_controller_begin", offsetof(struct libcgroup, get_controller_begin)},
	{"cgroup_get_controller_next", offsetof(struct libcgroup, get_controller_next)},
	{"cgroup_get_controller_end", offsetof(struct libcgroup, get_controller_end)},
};

int libcgroup_open(struct libcgroup *ret_lib)
{
	struct libcgroup lib = {.handle = NULL};

	lib.handle = dynlib_open(LIBCGROUP_SONAME, symbols, ARRAY_SIZE(symbols), &lib);
	if (!lib.handle)
		return -ENOENT;
	lib.set_logger(swallow, CGROUP_LOG_ERROR, NULL); /* without one it prints */
	if (lib.init() != 0) {
		libcgroup_close(&lib);
		return -ENOENT;
	}
	*ret_lib = lib;
	return 0;
}

void libcgroup_close(struct libcgroup *lib)
{
	lib->handle = dynlib_close(lib->handle);
}
