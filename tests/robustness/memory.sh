#!/usr/bin/env bash
# Measures the memory of runs with many objects of one kind: the figures of src/sim/memory.rs.
#
# usage: tests/robustness/memory.sh [PROGRAM]
#
# Prints the bytes of one more object for each kind: peak memory minus that of a run with one object, divided by their number.
set -euo pipefail
program=$(realpath "${1:-target/release/forebay}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/m.toml" <<'TOML'
name = "m"
[run]
steps = 1
warm_up = "off"
replications = 1
[cluster]
nodes = 1
share_nodes = true
node.cores = 1
[storage.m.memory]
[dataset.d]
samples = 2000000
sample_size = "10 B"
[[job]]
name = "j"
dataset = "d"
storage = "m"
batch = 1
loader.tf-queue = { threads = 1, capacity = "1 samples", decode = "1 us" }
model.step = "1 ms"
TOML
peak() {
    /usr/bin/time -f %M "$program" run "$scratch/m.toml" --verdict quick -q --format json "$@" 2>&1 >/dev/null | tail -1
}
base=$(peak)
show() {
    local name=$1 number=$2
    shift 2
    echo "$name: $((($(peak "$@") - base) * 1024 / number)) B"
}
many=100000
show "job copy on a shared node" $many --set job.copies=$many
show "job copy on a node of its own" $many --set job.copies=$many --set cluster.nodes=$many --set cluster.share_nodes=false
show "further node" $many --set job.nodes=$many --set cluster.nodes=$many
show "worker" $many --set job.loader.tf-queue.threads=$many
show "model copy" $many --set cluster.nodes=100 --set job.nodes=100 --set cluster.node.gpus=1000 \
    --set job.parallel.data.copies_per_node=1000
show "model copy with gradients" 10000 --set cluster.nodes=100 --set job.nodes=100 --set cluster.node.gpus=100 \
    --set job.parallel.data.copies_per_node=100 --set 'job.sync={ allreduce = { gradients = "1 MB" } }'
show "place of a full buffer" 1000000 --set 'job.loader.tf-queue.capacity="1000000 samples"' \
    --set 'job.model.step="10 s"' --set run.steps=3
server='storage.m={ file-server = { bandwidth = "100 GB/s", latency = "1 ms" } }'
pytorch='job.loader={ pytorch = { workers = 24, prefetch_factor = 1, decode = "7 ms" } }'
drawn='dataset.d.sample_size={ lognormal = { mean = "400 kB", cv = 0.6 } }'
show "further node that reads from a file server" 10000 --set job.nodes=10000 --set cluster.nodes=10000 --set "$server"
show "further node with 24 workers and batches of 64 samples" 1000 --set job.nodes=1000 --set cluster.nodes=1000 \
    --set "$server" --set "$pytorch" --set "$drawn" --set job.batch=64 --set run.steps=6
show "worker that reads from a file server" 20000 --set "$server" --set "$drawn" \
    --set 'job.loader={ pytorch = { workers = 20000, prefetch_factor = 1, decode = "1 us" } }'
show "step" 1000000 --set run.steps=1000000
