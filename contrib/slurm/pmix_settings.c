/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/pmix_settings.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "contrib/jobd/conf/lines.h"
#include "contrib/slurm/step_spec.h"
#include "stepd/base/parse.h"

#define TIMEOUT_S 300u

void pmix_settings_clear(struct pmix_settings *settings)
{
	free(settings->tmpdir);
	free(settings->env);
	*settings = (struct pmix_settings){0};
}

/* ---- values -------------------------------------------------------------------------------- */

/* Another word changes nothing. */
static void take_bool(const char *value, bool *member)
{
	static const char *const yes[] = {"yes", "up", "true", "1"},
				 *const no[] = {"no", "down", "false", "0"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(yes); i++) {
		if (strcasecmp(value, yes[i]) == 0)
			*member = true;
		if (strcasecmp(value, no[i]) == 0)
			*member = false;
	}
}

static void take_kind(const char *value, enum slurm_pmix_kind *member)
{
	if (strcmp(value, "mixed") == 0)
		*member = SLURM_PMIX_KIND_MAX;
	else if (strcmp(value, "tree") == 0)
		*member = SLURM_PMIX_BY_TREE;
	else if (strcmp(value, "ring") == 0)
		*member = SLURM_PMIX_BY_RING;
}

static int take_text(const char *value, char **member)
{
	free(*member);
	*member = *value ? strdup(value) : NULL;
	return *value && !*member ? -ENOMEM : 0;
}

/* A key, and the variable that counts more; NULL: it has none. */
static const struct setting_row {
	const char *key, *variable;
	enum {
		SETTING_BOOL,
		SETTING_KIND,
		SETTING_NUMBER,
		SETTING_TEXT
	} type;
	size_t offset;
} rows[] = {
	{"PMIxEnv", NULL, SETTING_TEXT, offsetof(struct pmix_settings, env)},
	{"PMIxCliTmpDirBase", "SLURM_PMIX_TMPDIR", SETTING_TEXT,
		offsetof(struct pmix_settings, tmpdir)},
	{"PMIxTimeout", "SLURM_PMIX_TIMEOUT", SETTING_NUMBER,
		offsetof(struct pmix_settings, timeout_s)},
	{"PMIxCollFence", "SLURM_PMIX_FENCE", SETTING_KIND, offsetof(struct pmix_settings, kind)},
	{"PMIxDirectConn", "SLURM_PMIX_DIRECT_CONN", SETTING_BOOL,
		offsetof(struct pmix_settings, direct)},
	{"PMIxDirectConnUCX", "SLURM_PMIX_DIRECT_CONN_UCX", SETTING_BOOL,
		offsetof(struct pmix_settings, by_ucx)},
	{"PMIxDirectSameArch", "SLURM_PMIX_SAMEARCH", SETTING_BOOL,
		offsetof(struct pmix_settings, native)},
};

static int take_value(
	struct pmix_settings *settings, const struct setting_row *row, const char *value)
{
	void *member = (char *)settings + row->offset;

	switch (row->type) {
	case SETTING_BOOL:
		take_bool(value, member);
		return 0;
	case SETTING_KIND:
		take_kind(value, member);
		return 0;
	case SETTING_NUMBER:
		/* What is no number changes nothing. */
		(void)!parse_u32(value, 1, UINT32_MAX, member);
		return 0;
	default:
		return take_text(value, member);
	}
}

/* ---- the file ------------------------------------------------------------------------------ */

static int settings_on_line(const struct conf_line *line, void *userdata, struct err *err)
{
	size_t i, k;
	int r = 0;

	for (i = 0; r == 0 && i < line->n; i++) {
		for (k = 0; r == 0 && k < ARRAY_SIZE(rows); k++) {
			if (strcasecmp(rows[k].key, line->pairs[i].key) == 0)
				r = take_value(userdata, &rows[k], line->pairs[i].value);
		}
	}
	return r < 0 ? err_set(err, r, "read a line") : 0;
}

static int read_file(const char *slurm_conf, struct pmix_settings *settings, struct err *err)
{
	const char *slash = strrchr(slurm_conf, '/');
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%.*smpi.conf", slash ? (int)(slash + 1 - slurm_conf) : 0, slurm_conf) <
		0) {
		path = NULL;
		return err_set(err, -ENOMEM, "read mpi.conf");
	}
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	return conf_lines_read_trusted(path, settings_on_line, settings, err);
}

/* ---- the environment ----------------------------------------------------------------------- */

bool pmix_settings_next(const char **rest, struct slice *ret_name, struct slice *ret_value)
{
	const char *at = *rest, *end, *equals;

	for (; at && *at; at = *end ? end + 1 : end) {
		end = at + strcspn(at, ";");
		equals = memchr(at, '=', (size_t)(end - at));
		if (!equals || equals == at)
			continue;
		*ret_name = (struct slice){at, (size_t)(equals - at)};
		*ret_value = (struct slice){equals + 1, (size_t)(end - equals - 1)};
		*rest = *end ? end + 1 : end;
		return true;
	}
	*rest = at;
	return false;
}

static int take_variable(
	struct pmix_settings *settings, const struct setting_row *row, const char *given)
{
	const char *rest = settings->env;
	_cleanup_free_ char *of_site = NULL;
	struct slice name, value;

	while (pmix_settings_next(&rest, &name, &value)) {
		if (!slice_is(name, row->variable))
			continue;
		free(of_site);
		of_site = slice_dup(value);
		if (!of_site)
			return -ENOMEM;
	}
	if (of_site)
		return take_value(settings, row, of_site);
	return given ? take_value(settings, row, given) : 0;
}

int pmix_settings_read(const char *slurm_conf, const struct slurm_launch *launch,
	struct pmix_settings *settings, struct err *err)
{
	size_t i;
	int r;

	*settings = (struct pmix_settings){
		.direct = true, .kind = SLURM_PMIX_KIND_MAX, .timeout_s = TIMEOUT_S};
	r = read_file(slurm_conf, settings, err);
	if (r < 0)
		return r;
	for (i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
		if (rows[i].variable)
			r = take_variable(
				settings, &rows[i], step_spec_getenv(launch, rows[i].variable));
	}
	return r < 0 ? err_set(err, r, "read mpi.conf") : 0;
}
