/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/doctor/doctor_dir.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <libgen.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "stepd/record/clean.h"
#include "stepd/state/steps.h"
#include "stepd/step/adopt.h"

#define SHAPE       "doctor-??????"
#define LEFT_AT_SEC 60 /* no trial takes that long */

static void on_cleaned(const struct clean_found *found, void *userdata)
{
	(void)found;
	(void)userdata;
}

void doctor_dir_remove(const char *path, const char *plugin_dir)
{
	const struct clean_options options = {.runtime_dir = path,
		.plugin_dir = plugin_dir,
		.settle = adopt_settle,
		.told = on_cleaned};

	if (rmdir(path) == 0)
		return;
	(void)!clean_all(&options, NULL); /* what it could not do, the directory still tells */
	(void)rmdir(path);
}

static bool is_left(DIR *dir, const char *name)
{
	struct stat st;

	return fnmatch(SHAPE, name, 0) == 0 &&
		fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
		st.st_uid == geteuid() && time(NULL) - st.st_mtime > LEFT_AT_SEC;
}

static void remove_left(const char *above, const char *plugin_dir)
{
	_cleanup_closedir_ DIR *dir = opendir(above);
	_cleanup_free_ char *path = NULL;
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		if (!is_left(dir, d->d_name))
			continue;
		free(path);
		if (asprintf(&path, "%s/%s", above, d->d_name) < 0)
			path = NULL;
		else
			doctor_dir_remove(path, plugin_dir);
	}
}

int doctor_dir_make(
	const char *runtime_dir, const char *plugin_dir, char **ret_path, struct err *err)
{
	_cleanup_free_ char *dir = NULL, *path = NULL;
	const char *above;
	int r = steps_find_dir(runtime_dir, &dir, err);

	if (r < 0)
		return r;
	above = access(dir, F_OK) == 0 ? dir : dirname(dir);
	remove_left(above, plugin_dir);
	if (asprintf(&path, "%s/doctor-XXXXXX", above) < 0) {
		path = NULL;
		return err_set(err, -ENOMEM, "make a directory for a step");
	}
	if (!mkdtemp(path))
		return err_set(err, -errno, "make a directory for a step in '%s'", above);
	*ret_path = take_ptr(path);
	return 0;
}
