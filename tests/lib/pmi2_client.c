/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Slurm's libpmi2 against our server: each task prints a line for each thing that works, "ok NAME",
 * or "not ok NAME". With an argument rank 0 aborts; SPAWN_PROGRAM in the environment is
 * spawned.
 */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;

static void check(int holds, const char *name)
{
	printf("%s rank %d: %s\n", holds ? "ok" : "not ok", rank, name);
	(void)fflush(stdout);
}

static void check_attributes(int size)
{
	char value[2048];
	int found = 0;

	check(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof(value), &found) == 0 &&
			found && strncmp(value, "(vector,(0,1,", 13) == 0,
		"the mapping");
	check(PMI2_Info_GetJobAttr("universeSize", value, sizeof(value), &found) == 0 && found &&
			atoi(value) == size,
		"the universe");
	check(PMI2_Info_GetJobAttr("PMI_netinfo_of_task", value, sizeof(value), &found) == 0 &&
			found && value[0] == '(' && value[strlen(value) - 1] == ')',
		"the node's addresses");
	check(PMI2_Info_GetJobAttr("mpi_reserved_ports", value, sizeof(value), &found) == 0 &&
			!found,
		"no reserved ports");
	if (rank == 0)
		check(PMI2_Info_PutNodeAttr("attr", "here") == 0, "a node attribute put");
	check(PMI2_Info_GetNodeAttr("attr", value, sizeof(value), &found, 1) == 0 && found &&
			strcmp(value, "here") == 0,
		"a node attribute waited for");
}

static void check_keys(const char *id, int size)
{
	char key[64], value[2048], wanted[64];
	int length;

	(void)snprintf(key, sizeof(key), "key-%d", rank);
	(void)snprintf(value, sizeof(value), "value=%d,x", rank);
	check(PMI2_KVS_Put(key, value) == 0, "a put");
	check(PMI2_KVS_Fence() == 0, "a fence");
	(void)snprintf(key, sizeof(key), "key-%d", (rank + 1) % size);
	(void)snprintf(wanted, sizeof(wanted), "value=%d,x", (rank + 1) % size);
	check(PMI2_KVS_Get(id, PMI2_ID_NULL, key, value, sizeof(value), &length) == 0 &&
			strcmp(value, wanted) == 0 && length == (int)strlen(wanted),
		"a get");
	check(PMI2_KVS_Get(id, PMI2_ID_NULL, "none", value, sizeof(value), &length) != 0,
		"a get of nothing");
}

static void check_ring(int size)
{
	char mine[64], left[64], right[64], wanted_left[64], wanted_right[64];
	int ring_rank = -1, ring_size = -1;

	(void)snprintf(mine, sizeof(mine), "address-%d", rank);
	(void)snprintf(wanted_left, sizeof(wanted_left), "address-%d", (rank + size - 1) % size);
	(void)snprintf(wanted_right, sizeof(wanted_right), "address-%d", (rank + 1) % size);
	check(PMIX_Ring(mine, &ring_rank, &ring_size, left, right, sizeof(left)) == 0 &&
			ring_rank == rank && ring_size == size && strcmp(left, wanted_left) == 0 &&
			strcmp(right, wanted_right) == 0,
		"a ring");
}

static void check_names(void)
{
	char port[256];

	check(PMI2_Nameserv_publish("service", NULL, "port 1;2") == 0, "a name published");
	check(PMI2_Nameserv_lookup("service", NULL, port, sizeof(port)) == 0 &&
			strncmp(port, "port 1", 6) == 0,
		"a name looked up");
	check(PMI2_Nameserv_unpublish("service", NULL) == 0, "a name unpublished");
}

static void spawn(const char *program)
{
	const char *commands[] = {program};
	const char *arg[] = {"child", "one", NULL};
	const char **args[] = {arg};
	int counts[] = {2}, errors[] = {5, 5}, arg_counts[] = {2}, info_sizes[] = {0};
	const struct MPID_Info *infos[] = {NULL};
	struct MPID_Info word = {.key = "word", .value = "w"};
	const struct MPID_Info *before[] = {&word};
	char job[256] = "";

	check(PMI2_Job_Spawn(1, commands, arg_counts, args, counts, info_sizes, infos, 1, before,
		      job, sizeof(job), errors) == 0 &&
			errors[0] == 0 && errors[1] == 0,
		"a spawn");
}

int main(int argc, char **argv)
{
	int spawned, size, appnum;
	char id[256];

	(void)argv;
	if (PMI2_Init(&spawned, &size, &rank, &appnum) != 0)
		return 3;
	check(!spawned && appnum == 0 && size > 0, "init");
	check(PMI2_Job_GetId(id, sizeof(id)) == 0 && strchr(id, '.'), "the job's id");
	check_keys(id, size);
	check_attributes(size);
	check_ring(size);
	if (rank == 0)
		check_names();
	if (rank == 0 && getenv("SPAWN_PROGRAM"))
		spawn(getenv("SPAWN_PROGRAM"));
	if (argc > 1 && rank == 0)
		(void)PMI2_Abort(1, "application called MPI_Abort(MPI_COMM_WORLD, 9) - process 0");
	check(PMI2_KVS_Fence() == 0, "a last fence");
	check(PMI2_Finalize() == 0, "finalize");
	return 0;
}
