#!/usr/bin/env bash
# Do sweeps over executors have the rows of a sweep that runs here? Runs one over four ranks of MPI, over Dask with a worker that is
# killed, and over a pool of processes.
#
#   tests/cluster/python.sh [DIRECTORY]
#
# Two minutes. Needs mpiexec (Debian: openmpi-bin libopenmpi-dev) and python3 with venv; installs dask, distributed and mpi4py into
# DIRECTORY. FOREBAY is the program, by default that of `cargo build --release`. Exit codes: 0 the same rows; 1 not; 3 something is
# missing.
set -euo pipefail

root=$(dirname "$(dirname "$(dirname "$(realpath "$0")")")")
FOREBAY=$(realpath "${FOREBAY:-$root/target/release/forebay}")
place=${1:-$(mktemp -d)}
mkdir -p "$place"
place=$(realpath "$place")
export FOREBAY PYTHONPATH=$root/python PYTHONDONTWRITEBYTECODE=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for program in mpiexec python3; do
    command -v "$program" >/dev/null || { echo "python.sh: $program is missing" >&2; exit 3; }
done
cd "$place"
[[ -x venv/bin/python ]] || { python3 -m venv venv && venv/bin/pip install --quiet dask distributed mpi4py; }
cp "$root/scenarios/trainer-cores.toml" mine.toml

cat >sweep.py <<'END'
"""Sweeps over the executor that the first argument names, and compares the rows with those of a sweep that runs here."""

import os
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import forebay

CHANGES = {"run.steps": 4000, "run.replications": 1}
VARY = {"cluster.node.cores": range(2, 12), "job.batch": range(16, 56)}


def killed_in_the_middle(cluster):
    """Kills a worker of Dask when some shards are there."""

    def kill():
        while not any(name.endswith(".rows") for name in os.listdir("shards-dask")):
            time.sleep(0.05)
        worker = next(iter(cluster.workers.values()))
        print("killing worker", worker.pid, flush=True)
        os.kill(worker.pid, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()


def rows(kind):
    options = {"vary": VARY, "shards": 24, "columns": "all"}
    if kind == "mpi":
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor() as pool:
            return forebay.sweep("mine.toml", CHANGES, executor=pool, **options)
    if kind == "dask":
        from dask.distributed import Client, LocalCluster

        os.makedirs("shards-dask", exist_ok=True)
        with LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            killed_in_the_middle(cluster)
            return forebay.sweep("mine.toml", CHANGES, executor=client.get_executor(), directory="shards-dask", **options)
    with ProcessPoolExecutor(2) as pool:
        return forebay.sweep("mine.toml", CHANGES, executor=pool, **options)


if __name__ == "__main__":
    kind = sys.argv[1]
    begin = time.monotonic()
    found = rows(kind)
    print(f"{kind}: {len(found)} rows in {time.monotonic() - begin:.1f} s", flush=True)
    if found != forebay.sweep("mine.toml", CHANGES, vary=VARY, columns="all"):
        sys.exit(f"{kind}: the rows differ")
    print(f"{kind}: the same rows", flush=True)
END
rm -rf shards-dask
mpiexec --oversubscribe -n 4 venv/bin/python -m mpi4py.futures sweep.py mpi
venv/bin/python sweep.py dask
venv/bin/python sweep.py processes
