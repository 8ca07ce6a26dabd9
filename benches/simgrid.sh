#!/usr/bin/env bash
# forebay against SimGrid on the yardstick: both on this machine, one after the other, several
# times; prints flow completions per CPU-second and their ratio. Installs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

missing() {
    echo "simgrid.sh: $1 is missing; install it first, on Debian with: apt-get install $2" >&2
    exit 1
}
command -v cargo >/dev/null || missing cargo "rustup (or see https://rustup.rs)"
command -v python3 >/dev/null || missing python3 python3
command -v g++ >/dev/null || missing g++ g++
echo '#include <simgrid/s4u.hpp>' | g++ -std=c++17 -fsyntax-only -x c++ - 2>/dev/null ||
    missing SimGrid libsimgrid-dev

out=target/peers
mkdir -p "$out"
cargo bench --quiet --bench yardstick --no-run
g++ -O2 -std=c++17 benches/peers/fletcher_simgrid.cpp -o "$out/fletcher_simgrid" -lsimgrid
python3 benches/peers/sizes.py lognormal "$out/lognormal.f64"

# Exact sharing (no TCP model). Of the optimisations Lazy, TI and Full the last was the fastest.
simgrid() {
    "$out/fletcher_simgrid" "sizes=$out/lognormal.f64" "jobs=$1" "steps=$2" \
        --cfg=network/model:CM02 --cfg=network/TCP-gamma:0 --cfg=network/optim:Full \
        --log=root.t:critical | sed 's/.*"flows_per_cpu_second": \([0-9]*\).*/\1/'
}

# Each job reads sizes of its own, as in the other program: copies that read the same ones, as those of
# `scenarios/yardstick.toml` do, move as one, which is easier. The report counts.
forebay() {
    cargo bench --quiet --bench yardstick -- server "$1" | awk 'END { printf "%.0f\n", $5 * 1e6 }'
}

# Runs a command three times; the best counts, since other programs only take time away.
best() {
    for _ in 1 2 3; do "$@"; done | sort -n | tail -1
}

printf '%5s %18s %18s %8s\n' jobs "forebay [flows/s]" "SimGrid [flows/s]" ratio
# jobs, steps of SimGrid: its time per flow grows with the number of jobs.
while read -r jobs steps; do
    a=$(best forebay "$jobs")
    b=$(best simgrid "$jobs" "$steps")
    printf '%5d %18d %18d %8.0f\n' "$jobs" "$a" "$b" "$(awk "BEGIN { print $a / $b }")"
done <<'CASES'
16 20
256 1
CASES
