/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/dynlib.h"

#include <dlfcn.h>
#include <string.h>

void *dynlib_open(const char *soname, const struct dynlib_symbol *symbols, size_t count, void *into)
{
	void *handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL), *address;
	size_t i;

	for (i = 0; handle && i < count; i++) {
		address = dlsym(handle, symbols[i].name);
		if (!address)
			return dynlib_close(handle);
		/* POSIX has objects and functions convert; C does not */
		memcpy((char *)into + symbols[i].offset, &address, sizeof(address));
	}
	return handle;
}

void *dynlib_close(void *handle)
{
	if (handle)
		(void)dlclose(handle); /* see dynlib.h */
	return NULL;
}
