/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that a user has put where somebody else's process may look for plugins. Whoever loads
 * it leaves a line with its user's number in the file "loaded" beside it.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static __attribute__((constructor)) void loaded(void)
{
	char path[4096], *slash;
	Dl_info info;
	int fd;

	/* Not by a variable: the environment may have been cleared. */
	if (!dladdr((void *)loaded, &info) || !info.dli_fname)
		return;
	(void)snprintf(path, sizeof(path) - sizeof("loaded"), "%s", info.dli_fname);
	slash = strrchr(path, '/');
	if (!slash)
		return;
	memcpy(slash + 1, "loaded", sizeof("loaded"));
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return;
	(void)dprintf(fd, "uid %u\n", (unsigned)geteuid());
	(void)close(fd);
}
