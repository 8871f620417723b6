/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/program.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

int program_find(const char *below, const char *installed, char **ret_path, struct err *err)
{
	char own[PATH_MAX], *slash, *path = NULL;
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[n > 0 ? n : 0] = '\0';
	slash = strrchr(own, '/');
	if (slash && asprintf(&path, "%.*s/%s", (int)(slash - own), own, below) < 0)
		path = NULL;
	if (!path || access(path, X_OK) < 0) {
		free(path);
		path = strdup(installed);
	}
	if (!path)
		return err_set(err, -ENOMEM, "find '%s'", installed);
	*ret_path = path;
	return 0;
}
