/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/files.h"

#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

int cgfile_gone(int r)
{
	return r == -ENOENT || r == -ENODEV ? -ESRCH : r;
}

int cgfile_get_key(const char *text, const char *key, uint64_t *ret_n)
{
	size_t len = strlen(key);
	const char *line;

	for (line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		if (strncmp(line, key, len) == 0 && line[len] == ' ') {
			*ret_n = strtoull(line + len + 1, NULL, 10);
			return 0;
		}
	}
	return -EBADMSG;
}

int cgfile_get_path(int fd, char path[PATH_MAX])
{
	char name[40];
	ssize_t n;

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, path, PATH_MAX - 1);
	if (n < 0) {
		n = -errno;
		memcpy(path, "?", sizeof("?"));
		return (int)n;
	}
	path[n] = '\0';
	return 0;
}

bool cgfile_is_cgroup2(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (uint32_t)fs.f_type == CGROUP2_SUPER_MAGIC;
}
