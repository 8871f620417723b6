/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A SPANK plugin that holds the start of a step with the variable WAITING: it writes the step's
 * number into the file $WAITING.step, and goes on once somebody has written to the FIFO
 * $WAITING.fifo.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "spank_plugin.h"

SPANK_PLUGIN("waiting");

static int put_number(const char *name, uint32_t step)
{
	char path[4096], new[4096];
	FILE *f;

	if (snprintf(path, sizeof(path), "%s.step", name) >= (int)sizeof(path) ||
		snprintf(new, sizeof(new), "%s.new", name) >= (int)sizeof(new))
		return -1;
	f = fopen(new, "we");
	if (!f || fprintf(f, "%u\n", step) < 0 || fclose(f) != 0)
		return -1;
	return rename(new, path);
}

static int wait_for_writer(const char *name)
{
	char path[4096], byte;
	int fd, r;

	if (snprintf(path, sizeof(path), "%s.fifo", name) >= (int)sizeof(path))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	r = fd >= 0 && read(fd, &byte, 1) == 1 ? 0 : -1;
	(void)close(fd);
	return r;
}

int slurm_spank_user_init(spank_t spank, int argc, char **argv);
int slurm_spank_user_init(spank_t spank, int argc, char **argv)
{
	char name[4000];
	uint32_t step;

	(void)argc;
	(void)argv;
	if (!spank_remote(spank) || spank_getenv(spank, "WAITING", name, sizeof(name)) != 0)
		return 0;
	if (spank_get_item(spank, S_JOB_STEPID, &step) != 0 || put_number(name, step) != 0 ||
		wait_for_writer(name) != 0) {
		slurm_error("waiting: '%s' can't be waited for: %m", name);
		return -1;
	}
	return 0;
}
