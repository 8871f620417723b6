/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The energy that a node takes while a step runs, from the counters of the node that two of Slurm's
 * plugins (AcctGatherEnergyType) read in the step's daemon:
 *	pm_counters	/sys/cray/pm_counters: joules in "energy", watts in "power" (HPE Cray)
 *	rapl		registers of each package of processors, /dev/cpu/N/msr: 0x606, the
 *			unit; 0x611 and 0x619, what the package and its memory have taken, 32 bits
 *			(Intel's manual, volume 4; AMD's processors that have them)
 * It is the whole node's, whoever runs there. What is derived of it is as with slurmstepd, for who
 * compares steps: the mean of the watts is one of readings, the first of which counts as 0.
 */
#ifndef SLURM_STEP_ENERGY_H
#define SLURM_STEP_ENERGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "contrib/slurm/site_conf.h"

struct step_energy {
	enum site_energy source;
	bool is_read;               /* the node has the counters */
	uint64_t joules;            /* since step_energy_open() */
	uint64_t most_joules;       /* at a reading */
	uint64_t watts, most_watts; /* between two readings, or as the counter has them */
	uint32_t mean_watts;
	/* The rest is its own. */
	char *root;
	uint64_t first, last; /* what the counters have had */
	time_t last_time;
	uint32_t readings;
	struct step_energy_package *packages;
	size_t packages_count;
	double unit, memory_unit; /* joules */
};

/* The first reading. release: of slurmd, as from 25.05 on the memory of some processors counts in
 * a unit of its own. root: "", or the directory that has dev, proc and sys for tests. 0 or -ENOMEM;
 * that there is no counter is no error. */
int step_energy_open(struct step_energy *energy, enum site_energy source, unsigned release,
	const char *root) _must_check_;
void step_energy_close(struct step_energy *energy);

/* A reading. A counter that can't be read leaves all as it is. */
void step_energy_read(struct step_energy *energy);

#endif
