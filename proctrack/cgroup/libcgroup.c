/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/libcgroup.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>

#include "config.h"

static void swallow(
	_unused_ void *userdata, _unused_ int level, _unused_ const char *fmt, _unused_ va_list ap)
{
}

static int resolve(struct libcgroup *lib)
{
	const struct {
		void *place;
		const char *name;
	} symbols[] = {
		{&lib->init, "cgroup_init"},
		{&lib->set_logger, "cgroup_set_logger"},
		{&lib->get_controller_begin, "cgroup_get_controller_begin"},
		{&lib->get_controller_next, "cgroup_get_controller_next"},
		{&lib->get_controller_end, "cgroup_get_controller_end"},
	};
	void *address;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(symbols); i++) {
		address = dlsym(lib->handle, symbols[i].name);
		if (!address)
			return -ENOENT;
		memcpy(symbols[i].place, &address, sizeof(address));
	}
	return 0;
}

int libcgroup_open(struct libcgroup *ret_lib)
{
	struct libcgroup lib = {.handle = dlopen(LIBCGROUP_SONAME, RTLD_NOW | RTLD_LOCAL)};

	if (!lib.handle)
		return -ENOENT;
	if (resolve(&lib) == 0) {
		lib.set_logger(swallow, CGROUP_LOG_ERROR, NULL); /* without one it prints */
		if (lib.init() == 0) {
			*ret_lib = lib;
			return 0;
		}
	}
	(void)dlclose(lib.handle); /* what it can't unload stays mapped, unused */
	return -ENOENT;
}

void libcgroup_close(struct libcgroup *lib)
{
	if (lib->handle)
		(void)dlclose(lib->handle); /* as above */
	lib->handle = NULL;
}
