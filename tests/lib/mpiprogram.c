/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program that does one thing a run, for the tests of the MPI plugins with real libraries:
 * "mpiprogram hello|ring|allreduce|spawn|ports|abort", or "mpiprogram spawns COUNT", one program
 * after another, each of which ends while the parent goes on; or "mpiprogram ends STATUS|sSIGNAL":
 * the last rank ends so before MPI_Finalize, after it with "late" behind it, and the others wait
 * for it; "mpiprogram outlives STATUS|sSIGNAL": they go on, and say so.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void hello(void)
{
	int sum = 0;

	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (sum != size * (size - 1) / 2)
		MPI_Abort(MPI_COMM_WORLD, 3);
	if (rank == 0)
		printf("hello from %d\n", size);
}

/* From a few bytes to half a megabyte, for which MPI libraries have algorithms of their own. */
static void allreduce(void)
{
	static int mine[1 << 17], sum[1 << 17];
	int wrong = 0;

	for (int count = 1; count <= 1 << 17; count <<= 17 / 2) {
		for (int i = 0; i < count; i++)
			mine[i] = rank + i % 100;
		MPI_Allreduce(mine, sum, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < count; i++)
			wrong += sum[i] != size * (size - 1) / 2 + size * (i % 100);
	}
	MPI_Allreduce(&wrong, sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (rank == 0)
		printf("allreduce of %d: %s\n", size, sum[0] ? "wrong" : "right");
}

static void ring(void)
{
	int token = 0;

	if (rank == 0)
		MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
	MPI_Recv(
		&token, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	token++;
	if (rank != 0)
		MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
	else
		printf("ring of %d\n", token);
}

static void spawn(char *self)
{
	MPI_Comm parent, children;
	char *args[] = {"spawn", NULL};
	int value = 42, n = 0, failed[2];

	MPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL) {
		value = 0;
		if (rank == 0)
			MPI_Recv(&value, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
		printf("child %d of %d got %d\n", rank, size, value);
		MPI_Comm_disconnect(&parent);
		return;
	}
	MPI_Comm_spawn(self, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, failed);
	MPI_Comm_remote_size(children, &n);
	if (rank == 0) {
		MPI_Send(&value, 1, MPI_INT, 0, 0, children);
		printf("parent of %d\n", n);
	}
	MPI_Comm_disconnect(&children);
}

/* A merged communicator of the parent and its child, which is both sides' to free. */
static int meet(MPI_Comm other, int is_child)
{
	int sum = 0, one = 1;
	MPI_Comm merged;

	MPI_Intercomm_merge(other, is_child, &merged);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
	MPI_Comm_free(&merged);
	return sum;
}

/* The even ones part from their parent, which forgets the odd ones without a word: it comes to the
 * next spawn while they finalize. */
static void spawns(char *self, int count)
{
	MPI_Comm parent, child;
	char number[16], *args[] = {"spawns", number, NULL};
	int right = 0, failed;

	MPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL) {
		(void)meet(parent, 1);
		if (count % 2 == 0)
			MPI_Comm_disconnect(&parent);
		else
			MPI_Comm_free(&parent);
		return;
	}
	for (int i = 0; i < count; i++) {
		(void)snprintf(number, sizeof(number), "%d", i);
		MPI_Comm_spawn(self, args, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, &failed);
		right += meet(child, 0) == size + 1;
		if (i % 2 == 0)
			MPI_Comm_disconnect(&child);
		else
			MPI_Comm_free(&child);
	}
	if (rank == 0)
		printf("spawned %d\n", right);
}

/* The lower half publishes a port and accepts, the upper half looks it up and connects. */
static void ports(void)
{
	char port[MPI_MAX_PORT_NAME] = "";
	int value = 7, upper = rank >= size / 2;
	MPI_Comm half, both;

	MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
	if (rank == 0) {
		MPI_Open_port(MPI_INFO_NULL, port);
		MPI_Publish_name("stepd-test", MPI_INFO_NULL, port);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size / 2)
		MPI_Lookup_name("stepd-test", MPI_INFO_NULL, port);
	if (upper)
		MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &both);
	else
		MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &both);
	if (rank == 0)
		MPI_Send(&value, 1, MPI_INT, 0, 0, both);
	if (rank == size / 2) {
		value = 0;
		MPI_Recv(&value, 1, MPI_INT, 0, 0, both, MPI_STATUS_IGNORE);
		printf("through a port: %d\n", value);
	}
	MPI_Comm_disconnect(&both);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Unpublish_name("stepd-test", MPI_INFO_NULL, port);
		MPI_Close_port(port);
	}
}

static void end(const char *how)
{
	if (how[0] != 's')
		_exit(atoi(how));
	signal(atoi(how + 1), SIG_DFL); /* libraries have handlers that print */
	raise(atoi(how + 1));
}

static void ends(const char *how, int late)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (!late && rank == size - 1)
		end(how);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	if (rank == size - 1)
		end(how);
	/* Long enough for an end of the step to be seen, where one is wrong. */
	sleep(1);
	printf("ran on: %d\n", rank);
}

/* Nothing of MPI is called that would wait for the one that is gone. */
static void outlives(const char *how)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1)
		end(how);
	sleep(1);
	printf("ran on: %d\n", rank);
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "hello";

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (strcmp(what, "hello") == 0)
		hello();
	else if (strcmp(what, "ring") == 0)
		ring();
	else if (strcmp(what, "allreduce") == 0)
		allreduce();
	else if (strcmp(what, "spawn") == 0)
		spawn(argv[0]);
	else if (strcmp(what, "spawns") == 0 && argc > 2)
		spawns(argv[0], atoi(argv[2]));
	else if (strcmp(what, "ports") == 0)
		ports();
	else if (strcmp(what, "ends") == 0 && argc > 2)
		return ends(argv[2], argc > 3), 0;
	else if (strcmp(what, "outlives") == 0 && argc > 2)
		outlives(argv[2]);
	else if (rank == size - 1)
		MPI_Abort(MPI_COMM_WORLD, 5);
	else
		pause();
	MPI_Finalize();
	return 0;
}
