/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/run/machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

#define NUMBER_SIZE      64
#define CONTROLLERS_SIZE 4096

uint32_t machine_read_topology(uint32_t cpu, const char *name, uint32_t other)
{
	_cleanup_free_ char *text = NULL;
	char path[128];
	uint32_t n;

	(void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/%s", cpu, name);
	if (fs_read(AT_FDCWD, path, NUMBER_SIZE, &text, NULL) < 0)
		return other;
	text[strcspn(text, "\n")] = '\0';
	return parse_u32(text, 0, UINT32_MAX, &n) == 0 ? n : other; /* "-1": unknown */
}

static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (; *text; text += strcspn(text, " \n"), text += strspn(text, " \n")) {
		if (strcspn(text, " \n") == length && strncmp(text, word, length) == 0)
			return true;
	}
	return false;
}

bool machine_has_controller(const char *root, const char *name)
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	_cleanup_free_ char *text = NULL;
	size_t i;

	for (i = 0; i < (root ? 1 : ARRAY_SIZE(mounts)) && !text; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/cgroup.controllers", root ? root : mounts[i]) < 0) {
			path = NULL;
			return false;
		}
		if (fs_read(AT_FDCWD, path, CONTROLLERS_SIZE, &text, NULL) < 0)
			text = NULL;
	}
	return text && has_word(text, name);
}
