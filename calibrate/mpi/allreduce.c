/* Times MPI_Allreduce of floats with the cluster's own library, for `forebay calibrate --mpi-probe`.
 *
 *   mpicc -O2 -o allreduce allreduce.c
 *   mpirun ./allreduce 3 65536 1048576 > mpi.txt     trials of each size, and sizes in bytes
 *   forebay import osu mpi.txt --ranks 16 --format profile
 *
 * A row has the time of one operation: of the slowest rank, averaged over the operations of a trial, which takes about a second.
 * The table has the format of the OSU micro-benchmarks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Times `times` operations; returns the time of the slowest rank [s]. */
static double run(float *from, float *to, int count, int times) {
    double begin, own, slowest;
    int i;
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (i = 0; i < times; i++)
        MPI_Allreduce(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    own = MPI_Wtime() - begin;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

int main(int argc, char **argv) {
    int rank, ranks, trials, argument, i, t;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3) {
        if (rank == 0)
            fprintf(stderr, "usage: allreduce TRIALS BYTES [BYTES ...]\n");
        MPI_Finalize();
        return 2;
    }
    trials = atoi(argv[1]);
    if (rank == 0)
        printf("# ranks %d\n"
               "# OSU MPI Allreduce Latency Test\n"
               "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n",
               ranks);
    for (argument = 2; argument < argc; argument++) {
        long bytes = atol(argv[argument]);
        int count = (int)(bytes / (long)sizeof(float)), times;
        float *from = malloc(bytes), *to = malloc(bytes);
        double first;
        if (!from || !to || count < 1) {
            fprintf(stderr, "no memory for %ld bytes\n", bytes);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        for (i = 0; i < count; i++)
            from[i] = 1.0f;
        first = run(from, to, count, 1);
        if (to[0] != (float)ranks || to[count - 1] != (float)ranks) {
            fprintf(stderr, "the sum of ones among %d ranks is %g\n", ranks, to[0]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        times = first > 0.0 && 1.0 / first < 10000.0 ? (int)(1.0 / first) : 10000;
        if (times < 1)
            times = 1;
        MPI_Bcast(&times, 1, MPI_INT, 0, MPI_COMM_WORLD);
        for (t = 0; t < trials; t++) {
            double each = 1e6 * run(from, to, count, times) / times;
            if (rank == 0)
                printf("%ld %17.2f %17.2f %17.2f %d\n", bytes, each, each, each, times);
        }
        free(from);
        free(to);
    }
    MPI_Finalize();
    return 0;
}
