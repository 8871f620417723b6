/* SPDX-License-Identifier: BSD-3-Clause
 *
 * In the place of libFuzzer where there is none: gives a target each file that is named, and those
 * of each directory that is, once. A target that finds a fault aborts.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"

#define INPUT_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In memory of just these bytes, for a sanitizer to see a read behind them. */
static int run_file(int dir_fd, const char *name)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;
	int r = fs_read(dir_fd, name, INPUT_MAX, &text, &size);

	if (r < 0)
		return r;
	data = malloc(size ? size : 1);
	if (!data)
		return -ENOMEM;
	memcpy(data, text, size);
	(void)LLVMFuzzerTestOneInput(data, size); /* 0, or it does not return */
	return 1;
}

static int run_directory(const char *path)
{
	_cleanup_closedir_ DIR *dir = opendir(path);
	const struct dirent *entry;
	int r = dir ? 0 : -errno, count = 0;

	while (r >= 0 && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		r = run_file(dirfd(dir), entry->d_name);
		count += r > 0;
	}
	return r < 0 ? r : count;
}

int main(int argc, char **argv)
{
	struct stat st;
	int i, r = 0, count = 0;

	for (i = 1; i < argc; i++) {
		r = stat(argv[i], &st) < 0    ? -errno
			: S_ISDIR(st.st_mode) ? run_directory(argv[i])
					      : run_file(AT_FDCWD, argv[i]);
		if (r < 0) {
			(void)fprintf(stderr, "%s: %s: %s\n", argv[0], argv[i], strerror(-r));
			return 1;
		}
		count += r;
	}
	return printf("%d inputs\n", count) < 0;
}
