/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program: the ranks add up what they have and say whether it is right. With an argument the
 * last rank aborts with that code.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int rank, size, node_size;
	long sum, mine;
	MPI_Comm node;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &node_size);
	if (argc > 1 && rank == size - 1)
		MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
	mine = (long)rank * rank + 1;
	MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (sum == (long)(size - 1) * size * (2 * size - 1) / 6 + size)
		printf("rank %d of %d, %d here: right\n", rank, size, node_size);
	else
		printf("rank %d of %d, %d here: WRONG, %ld\n", rank, size, node_size, sum);
	MPI_Finalize();
	return 0;
}
