/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl clean: removes results that were retained long enough, and what dead agents left of steps
 * without a living process (stepd/record/clean.h). What is in doubt stays, with a warning.
 */
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "stepd/base/strv.h"
#include "stepd/cli/ctl/ctl.h"
#include "stepd/cli/options.h"
#include "stepd/record/clean.h"
#include "stepd/record/report.h"

struct cleaning {
	struct ctl *ctl;
	json_t *removed;
};

/* By stepd: taking a step over is agent code. */
static int settle(const char *step, const struct clean_options *options)
{
	_cleanup_strv_ struct strv args = {0};
	_cleanup_free_ char *program = NULL;
	struct err err = ERR_INIT;
	int fd, r = program_find("stepd", STEPD_PROGRAM, &program, &err);

	if (r < 0)
		return r;
	r |= strv_add(&args, program);
	r |= strv_add(&args, "adopt");
	r |= strv_add(&args, "--ended-only");
	if (options->runtime_dir)
		r |= strv_addf(&args, "--runtime-dir=%s", options->runtime_dir);
	if (options->plugin_dir)
		r |= strv_addf(&args, "--plugin-dir=%s", options->plugin_dir);
	r |= strv_add(&args, "--"); /* a directory's name may begin with a dash */
	r |= strv_add(&args, step);
	if (r < 0)
		return -ENOMEM;
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		return -errno;
	(void)unsetenv("NOTIFY_SOCKET"); /* of the caller's own */
	(void)execv(program, args.v);
	return -errno;
}

static json_t *pack(const struct clean_found *found)
{
	const char *under = strrchr(found->directory, '_');
	_cleanup_free_ char *node =
		strndup(found->directory, under ? (size_t)(under - found->directory) : 0);

	return node ? json_pack("{s:o, s:o, s:o, s:s}", "step",
			      report_json_text(under ? under + 1 : found->directory), "node",
			      report_json_text(node), "directory", report_json_text(found->path),
			      "what", clean_names[found->what])
		    : NULL;
}

static void on_found(const struct clean_found *found, void *userdata)
{
	struct cleaning *c = userdata;
	_cleanup_free_ char *safe = term_printable(&c->ctl->term, found->path, TERM_WHOLE);
	struct err err = ERR_INIT;

	if (found->what == CLEAN_ALONE && found->code == 0) {
		ctl_warn(c->ctl, found->directory, found->text);
	} else if (found->what == CLEAN_ALONE) {
		(void)err_set_text(&err, found->code, "%s", found->text);
		ctl_report_err(c->ctl, found->directory, &err, NULL);
	} else {
		if (!c->ctl->opt.json)
			printf("%s: %s\n", safe ? safe : "?", clean_names[found->what]);
		(void)json_array_append_new(
			c->removed, pack(found)); /* one line less, of no memory */
	}
}

int ctl_clean(struct ctl *ctl)
{
	json_auto_t *removed = json_array();
	struct cleaning c = {.ctl = ctl, .removed = removed};
	const struct clean_options options = {.runtime_dir = ctl->opt.runtime_dir,
		.plugin_dir = ctl->opt.plugin_dir,
		.dry_run = ctl->opt.dry_run,
		.settle = settle,
		.report = on_found,
		.userdata = &c};
	int r = clean_all(&options, &ctl->err);

	if (r == 0 && ctl->opt.json)
		r = ctl_print_json(ctl,
			json_pack(
				"{s:b, s:O}", "dry_run", (int)ctl->opt.dry_run, "removed", removed),
			false);
	return r;
}
