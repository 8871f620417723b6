/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/release.h"

#include <stddef.h>
#include <stdio.h>

#include "stepd/base/cleanup.h"

/* One that is not served yet is so by .served = true, once a test like 0728 has been seen to pass
 * with it. */
static const struct release_row {
	unsigned release;
	const char *name;
	bool served;
} rows[] = {
	{SLURM_22_05, "22.05", .served = true},
	{SLURM_23_02, "23.02", .served = true},
	{SLURM_23_11, "23.11", .served = true},
	{SLURM_24_05, "24.05", .served = true},
	{SLURM_24_11, "24.11", .served = true},
	{SLURM_25_05, "25.05", .served = true},
	{SLURM_25_11, "25.11", .served = true},
	{SLURM_26_05, "26.05", .served = true},
	{SLURM_26_11, "26.11", .served = false},
};

static const struct release_row *find_row(unsigned release)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].release == release)
			return &rows[i];
	}
	return NULL;
}

const char *slurm_release_name(unsigned release)
{
	const struct release_row *row = find_row(release);

	return row ? row->name : NULL;
}

uint32_t slurm_release_version(unsigned release)
{
	const char *name = slurm_release_name(release);
	unsigned major, minor;

	if (!name || sscanf(name, "%u.%u", &major, &minor) != 2)
		return 0;
	return major << 16 | minor << 8;
}

bool slurm_release_is_served(unsigned release)
{
	const struct release_row *row = find_row(release);

	return row && row->served;
}
