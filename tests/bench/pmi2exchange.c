/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmi2exchange [get]: what pmixclient's "fences 1" and "modex collect" do, with a library of PMI-2
 * (Slurm's libpmi2): init, a fence and finalize; with "get" it puts a value before, and gets those
 * of all ranks.
 */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <string.h>

static int put(int rank)
{
	char key[32], value[32];

	(void)snprintf(key, sizeof(key), "own-%d", rank);
	(void)snprintf(value, sizeof(value), "data of %d", rank);
	return PMI2_KVS_Put(key, value);
}

static int get(const char *job, int rank)
{
	char key[32], value[64], wanted[32];
	int length;

	(void)snprintf(key, sizeof(key), "own-%d", rank);
	(void)snprintf(wanted, sizeof(wanted), "data of %d", rank);
	return PMI2_KVS_Get(job, PMI2_ID_NULL, key, value, sizeof(value), &length) != 0 ||
		strcmp(value, wanted) != 0;
}

int main(int argc, char **argv)
{
	int all = argc > 1 && strcmp(argv[1], "get") == 0, spawned, size, rank, appnum;
	char job[256];

	if (PMI2_Init(&spawned, &size, &rank, &appnum) != 0 ||
		PMI2_Job_GetId(job, sizeof(job)) != 0)
		return 1;
	if (all && put(rank) != 0)
		return 1;
	if (PMI2_KVS_Fence() != 0)
		return 1;
	for (int i = 0; all && i < size; i++) {
		if (get(job, (rank + i) % size) != 0)
			return 1;
	}
	return PMI2_Finalize() != 0;
}
