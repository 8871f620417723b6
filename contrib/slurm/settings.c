/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/settings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/cli/site_config.h"

void slurm_settings_clear(struct slurm_settings *settings)
{
	free(settings->stepd_path);
	free(settings->record_dir);
	rules_clear(&settings->handover);
	*settings = (struct slurm_settings){0};
}

/* ---- stepd.conf ---------------------------------------------------------------------------- */

static bool serve_kind(struct slurm_settings *settings, const char *name)
{
	int i;

	for (i = 0; i < SLURM_KIND_MAX; i++) {
		if (strcmp(name, slurm_kind_name((enum slurm_step_kind)i)) == 0)
			return settings->serves[i] = true;
	}
	return false;
}

/* "no", or kinds with commas between them. */
static int take_serve(struct slurm_settings *settings, const char *value, struct err *err)
{
	_cleanup_free_ char *copy = strdup(value);
	char *rest = copy, *name;

	if (!copy)
		return err_set(err, -ENOMEM, "read the configuration");
	if (strcmp(value, "no") == 0)
		return 0;
	while ((name = strsep(&rest, ", \t"))) {
		if (*name && !serve_kind(settings, name))
			return err_set_text(err, -EINVAL,
				"'%s' is not 'no', or a list of 'srun', 'batch', 'extern', "
				"'interactive' and 'het'",
				value);
	}
	return 0;
}

static int settings_take(const char *key, const char *value, void *userdata, struct err *err)
{
	struct slurm_settings *settings = userdata;
	char **member;

	assert(settings);
	if (strcmp(key, "slurm_serve") == 0)
		return take_serve(settings, value, err);
	if (strcmp(key, "slurm_handover") == 0)
		return rules_parse(value, &settings->handover, err);
	if (strcmp(key, "slurm_stepd_path") == 0)
		member = &settings->stepd_path;
	else if (strcmp(key, "slurm_record") == 0)
		member = &settings->record_dir;
	else
		return 0; /* of another program */
	if (value[0] != '/')
		return err_set_text(err, -EINVAL, "'%s' is not an absolute path", value);
	*member = strdup(value); /* a key is there once */
	return *member ? 0 : err_set(err, -ENOMEM, "read the configuration");
}

int slurm_settings_read(struct slurm_settings *settings, struct err *err)
{
	int r = site_read_foreign(secure_getenv("STEPD_CONFIG"), settings_take, settings, err);

	if (r < 0)
		memset(settings->serves, 0, sizeof(settings->serves));
	return r;
}

/* ---- the real slurmstepd ------------------------------------------------------------------- */

/* Those of packages, of "make install", and of sites that install below /opt. */
static const char *const usual_paths[] = {
	"/usr/sbin/slurmstepd",
	"/usr/local/sbin/slurmstepd",
	"/opt/slurm/sbin/slurmstepd",
};

/* 0, or -errno. A program that executes itself would never end. */
static int check_program(const char *path)
{
	struct stat st, self;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
		return -EACCES;
	if (stat("/proc/self/exe", &self) == 0 && st.st_dev == self.st_dev &&
		st.st_ino == self.st_ino)
		return -ELOOP;
	return 0;
}

int slurm_settings_find(
	const struct slurm_settings *settings, const char **ret_path, struct err *err)
{
	const char *path = settings->stepd_path;
	size_t i;
	int r;

	for (i = 0; !path && i < ARRAY_SIZE(usual_paths); i++) {
		if (check_program(usual_paths[i]) == 0)
			path = usual_paths[i];
	}
	if (!path)
		return err_set_text(err, -ENOENT,
			"Slurm's own slurmstepd is not in /usr/sbin, /usr/local/sbin or "
			"/opt/slurm/sbin; name it by slurm_stepd_path in stepd.conf");
	r = check_program(path);
	if (r == -ELOOP)
		return err_set_text(err, r,
			"'%s' is stepd-slurmstepd itself; name Slurm's own slurmstepd by "
			"slurm_stepd_path in stepd.conf",
			path);
	if (r < 0)
		return err_set(err, r,
			"can't execute Slurm's own slurmstepd '%s' (slurm_stepd_path in stepd.conf)",
			path);
	*ret_path = path;
	return 0;
}
