/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl clean: results that were kept long enough go, and what agents left that died and whose
 * steps have no living process (stepd/step/clean.h). What is in doubt stays, with a word.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/cli/ctl/ctl.h"
#include "stepd/record/report.h"
#include "stepd/step/clean.h"

struct cleaning {
	struct ctl *ctl;
	json_t *removed;
};

static json_t *pack(const struct clean_found *found)
{
	const char *under = strrchr(found->directory, '_');
	_cleanup_free_ char *node =
		strndup(found->directory, under ? (size_t)(under - found->directory) : 0);

	return node ? json_pack("{s:o, s:o, s:o, s:s}", "step",
			      report_json_text(under ? under + 1 : found->directory), "node",
			      report_json_text(node), "directory", report_json_text(found->path),
			      "what", clean_words[found->what])
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
		(void)err_say(&err, found->code, "%s", found->text);
		ctl_complain_err(c->ctl, found->directory, &err, NULL);
	} else {
		if (!c->ctl->json)
			printf("%s: %s\n", safe ? safe : "?", clean_words[found->what]);
		(void)json_array_append_new(
			c->removed, pack(found)); /* one line less, of no memory */
	}
}

int ctl_clean(struct ctl *ctl)
{
	struct cleaning c = {.ctl = ctl, .removed = json_array()};
	const struct clean_options options = {.runtime_dir = ctl->runtime_dir,
		.plugin_dir = ctl->plugin_dir,
		.dry_run = ctl->dry_run,
		.told = on_found,
		.userdata = &c};
	int r = c.removed ? clean_all(&options, &ctl->err)
			  : err_set(&ctl->err, -ENOMEM, "clean up");

	if (r == 0 && ctl->json)
		r = ctl_print_json(ctl,
			json_pack("{s:b, s:O}", "dry_run", (int)ctl->dry_run, "removed", c.removed),
			false);
	json_decref(c.removed);
	return r;
}
