/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/mpi_list.h"

#include <stdbool.h>
#include <string.h>

#include "mpi/mpi.h"
#include "stepd/cli/text.h"
#include "stepd/plugin/plugin.h"

struct mpi_list {
	const char *dir;
	FILE *out;
};

static int print_plugin(const char *name, void *userdata)
{
	const struct mpi_list *list = userdata;
	_cleanup_free_ void *functions = calloc(1, plugin_functions_size(mpi_plugin_kind()));
	_cleanup_plugin_ struct plugin *plugin = NULL;
	_cleanup_free_ char *shown = strdup(name);
	char text[ERR_TEXT_SIZE] = "";
	struct err err = ERR_INIT;
	bool usable = true;

	if (!functions || !shown)
		return -ENOMEM;
	if (plugin_load(list->dir, mpi_plugin_kind(), name, functions, &plugin, &err) < 0)
		(void)snprintf(text, sizeof(text), "can't be loaded: %.1000s", err.text);
	else
		usable = plugin_probe_here(plugin, text, sizeof(text));
	text_make_printable(shown);
	text_make_printable(text);
	(void)fprintf(list->out, "  %-8s %s%s\n", shown, usable ? "" : "not usable here: ", text);
	return 0;
}

int mpi_list_print(const char *plugin_dir, FILE *out, struct err *err)
{
	_cleanup_free_ char *dir = NULL;
	struct mpi_list list = {.out = out};
	int r = plugin_dir_find(plugin_dir, &dir, err);

	if (r < 0)
		return r;
	list.dir = dir;
	(void)fprintf(out, "MPI plugins, for --mpi:\n");
	r = plugin_each(dir, mpi_plugin_kind(), print_plugin, &list, err);
	if (r < 0)
		return err->code ? r : err_set(err, r, "list the plugins of '%s'", dir);
	return fflush(out) != 0 || ferror(out)
		? err_set(err, errno ? -errno : -EIO, "write the list of plugins")
		: 0;
}
