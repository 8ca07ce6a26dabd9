#!/usr/bin/env bash
# Are cores busy, is memory flat, and are bytes the same, in a sweep of many points?
#
#   tests/cluster/points.sh [DIRECTORY]
#
# Some ten minutes of two cores. FOREBAY is the program, by default that of `cargo build --release`; POINTS is 2000. Needs GNU time.
# Prints how busy cores were and how much memory was used at most; exit code 1 if bytes differ between numbers of threads or shards.
set -euo pipefail

root=$(dirname "$(dirname "$(dirname "$(realpath "$0")")")")
forebay=$(realpath "${FOREBAY:-$root/target/release/forebay}")
place=${1:-$(mktemp -d)}
mkdir -p "$place"
cd "$place"
points=${POINTS:-2000}
cp "$root/scenarios/trainer-cores.toml" mine.toml

# Points of some 60 ms each.
sweep() {
    "$forebay" sweep mine.toml --quiet --set run.replications=1 --set run.steps="${STEPS:-60000}" \
        --vary 'cluster.node.cores={ from = 2, to = 16 }' --vary 'job.batch={ from = 16, to = 64 }' \
        --vary 'job.model.step={ from = "10 ms", to = "20 ms" }' \
        --vary "sample={ latin-hypercube = $1 }" "${@:2}"
}
measured() {
    local words=$1
    shift
    # GNU time runs programs, not functions.
    export -f sweep
    export forebay STEPS
    env time --format="%e %U %S %M" --output=time bash -c 'sweep "$@"' sweep "$@"
    read -r wall user system memory <time
    awk -v words="$words" -v wall="$wall" -v cpu="$(awk "BEGIN { print $user + $system }")" -v cores="${threads:-$(nproc)}" -v kb="$memory" \
        -v points="$points" 'BEGIN { printf "%s: %.1f s, cores %.1f %% busy, %.0f ms of one core a point, at most %.0f MB\n",
            words, wall, 100 * cpu / wall / cores, 1000 * cpu / points, kb / 1000 }'
}

measured "$points points" "$points" --output all.csv
points=$((points / 10)) measured "a tenth of them" "$((points / 10))" --output few.csv
threads=1 measured "$points points, one thread" "$points" --threads 1 --output one.csv
cmp all.csv one.csv
# Points that take next to no time, and many of them.
STEPS=20
points=65536 measured "65,536 short points" 65536 --columns step_time --output short.csv
unset STEPS
"$forebay" --version
for shards in 3 7; do
    rm -rf d
    for shard in $(seq "$shards"); do
        sweep "$points" --shard "$shard/$shards" --output d
    done
    "$forebay" sweep --collect d --quiet --output collected.csv
    cmp all.csv collected.csv
    echo "$shards shards: the same bytes"
done
