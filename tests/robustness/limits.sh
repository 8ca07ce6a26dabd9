#!/usr/bin/env bash
# Checks forebay's messages where the machine refuses something: processes, cores, memory, disk space, permission, and
# files whose handles go stale.
#
# usage: sudo tests/robustness/limits.sh [PROGRAM]
#
# Needs root: other users, control groups, mounts. It uses control groups of version 2 if the machine's controllers belong
# to it, otherwise of version 1. Stale files need FUSE (`pip install mfusepy`, libfuse 3); without it, a line says that this
# part is left out. Each line names a check and whether its result was as expected; the exit code is the number of failed
# checks. It takes a minute with a release build.
set -uo pipefail
program=$(realpath "${1:-target/debug/forebay}")
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d /tmp/forebay-limits.XXXXXX)
chmod 755 "$scratch"
cp "$program" "$scratch/F"
chmod 755 "$scratch/F"
F=$scratch/F
failures=0
mounts=()
groups=()
clean_up() {
    for mount in "${mounts[@]}"; do umount -l "$mount" 2>/dev/null; done
    for group in "${groups[@]}"; do rmdir "$group" 2>/dev/null; done
    rm -rf "$scratch"
}
trap clean_up EXIT
cd "$scratch"

# expect NAME CODE PATTERN: checks the last command's exit code $code and output $said.
expect() {
    if [[ $code == "$2" ]] && grep -qE -- "$3" <<<"$said" && ! grep -q panicked <<<"$said"; then
        echo "as expected: $1"
    else
        echo "NOT as expected: $1: exit code $code instead of $2, or no /$3/ in:"
        sed 's/^/    /' <<<"$said"
        failures=$((failures + 1))
    fi
}
# try COMMAND...: runs a command; stores standard output and error in $said, the exit code in $code.
try() {
    said=$("$@" 2>&1)
    code=$?
}

cat >live.toml <<'TOML'
name = "l"
[run]
steps = 200
warm_up = "off"
replications = 1
[cluster]
nodes = 1
share_nodes = true
node.cores = 1
[storage.disk.local-disk]
access = "cold"
bandwidth = "2 GB/s"
latency = "10 us"
[dataset.d]
samples = 512
sample_size = "64 KiB"
[[job]]
name = "j"
dataset = "d"
storage = "disk"
batch = 4
loader.tf-queue = { threads = 2, capacity = "16 samples", decode = "100 us" }
model.step = "2 ms"
[sweep]
"job.batch" = [1, 2]
TOML
cat >tiny.toml <<'TOML'
budget = "60 s"
[trials]
length = "1 ms"
at_least = 3
at_most = 3
[watch]
others = 1e6
steal = 1e6
[clock]
[host]
[queue]
capacity = [4]
producers = [2]
consumers = [1]
batch = [1]
TOML
cat >cpu.toml <<'TOML'
budget = "60 s"
[trials]
length = "1 ms"
at_least = 3
at_most = 3
[watch]
others = 1e6
steal = 1e6
[step]
model = ["lenet5"]
batch = [8]
threads = [2]
TOML
sed 's/node.cores = 1/node = {}/' live.toml >any.toml
sed 's/\[storage.disk.local-disk\]/[storage.disk.memory]/; /^access = /d; /^latency = /d; s/^bandwidth = .*/bandwidth = "2 GB\/s"/' any.toml >memory.toml

echo "# Threads and processes that the system refuses"
mkdir user && chown 65534:65534 user
as_user() { (cd user && setpriv --reuid=65534 --regid=65534 --clear-groups prlimit --nproc="$1" "${@:2}"); }
try as_user 2 "$F" live ../live.toml
expect "live, two processes" 3 "cannot start .*(threads|process).*ulimit -u"
# Each further process lets the run get one step further: the program, its helpers, a job copy and its threads.
for most in 1 3 4 5 6; do
    try as_user $most "$F" live ../live.toml
    if [[ $code == 101 || $code -gt 128 ]]; then expect "live, $most processes" 3 "cannot start"; fi
    try as_user $most "$F" calibrate --plan ../tiny.toml --output "c$most"
    if [[ $code == 101 || $code -gt 128 ]]; then expect "calibrate, $most processes" 3 "cannot start"; fi
    try as_user $most "$F" sweep ../live.toml --threads 2
    if [[ $code == 101 || $code -gt 128 ]]; then expect "sweep, $most processes" 3 "cannot start"; fi
done
try as_user 1 "$F" sweep ../live.toml
expect "sweep, one process" 3 "cannot start"
try as_user 1 "$F" run ../live.toml
expect "run, one process" 3 "cannot start"
try as_user 1 "$F" published
expect "published, one process" 3 "cannot start"
try as_user 1 "$F" calibrate --plan ../tiny.toml --output c
expect "calibrate, one process" 3 "cannot start .* threads"
try as_user 2 "$F" calibrate --plan ../cpu.toml --output cpu
expect "calibrate of steps on cores, two processes" 3 "cannot start .* threads"

echo "# Part of a core"
# cpu QUOTA: creates a control group with a quota of QUOTA thousandths of a core.
if grep -qw cpu /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
    echo "control groups of version 2"
    echo "+cpu +memory" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
    make_group() { group=/sys/fs/cgroup/forebay-$1-$$; mkdir "$group"; groups+=("$group"); }
    cpu() { make_group "cpu$1"; echo "$(($1 * 100)) 100000" >"$group/cpu.max"; }
    memory() { make_group memory; echo "$1" >"$group/memory.max"; }
else
    echo "control groups of version 1"
    make_group() { group=/sys/fs/cgroup/$2/forebay-$1-$$; mkdir "$group"; groups+=("$group"); }
    cpu() { make_group "cpu$1" cpu; echo 100000 >"$group/cpu.cfs_period_us"; echo $(($1 * 100)) >"$group/cpu.cfs_quota_us"; }
    memory() { make_group memory memory; echo "$1" >"$group/memory.limit_in_bytes"; }
fi
inside() { (echo $BASHPID >"$group/cgroup.procs" && exec "$@"); }
cat >plan.toml <<'TOML'
scenario = "memory.toml"
repetitions = 1
retries = 0
predictions = 2
[[point]]
name = "p"
use = "held-out"
TOML
for quota in 1300 1990; do
    cores=$(awk "BEGIN { print $quota / 1000 }")
    if (($(nproc) * 1000 < quota)); then echo "left out: $cores cores of $(nproc)"; continue; fi
    cpu $quota
    try inside "$F" doctor
    expect "doctor, $cores cores" 0 ", $cores cores,"
    try inside "$F" live memory.toml --set "cluster.node.cores=$cores"
    expect "live with cores = $cores" 0 "live"
    try inside "$F" live memory.toml --set "cluster.node.cores=1"
    expect "live with cores = 1 of $cores" 0 "live"
    try inside "$F" live memory.toml --set "cluster.node.cores=2"
    expect "live with cores = 2 of $cores" 3 "may use $cores: write .cluster.node.cores = $cores"
    try inside "$F" calibrate --plan tiny.toml --output "cores$quota"
    expect "calibrate, $cores cores" 0 "$cores cores"
    try grep cores "cores$quota/profile.toml"
    expect "the profile has $cores cores" 0 "cores = $cores"
    sed -i "s/^cores = .*/cores = $cores/" "cores$quota/profile.toml"
    try inside "$F" validate plan.toml --profile "cores$quota/profile.toml" --predict-only
    expect "validate --predict-only, $cores cores" 0 "p "
    try grep -c "cannot be run here" <<<"$said"
    expect "validate --predict-only, $cores cores: nothing to warn of" 1 "^0$"
    try inside "$F" validate plan.toml --profile "cores$quota/profile.toml" --output "v$quota"
    expect "validate, $cores cores" 0 "p "
done

echo "# Memory"
memory $((400 << 20))
try inside "$F" run memory.toml --set job.copies=1000000 --set cluster.node.cores=1 --set run.steps=1
expect "a million copies in 400 MiB" 3 "needs about .* and this process may use"
try inside "$F" run memory.toml --set cluster.node.cores=1
expect "one copy in 400 MiB" 0 "simulated"
try bash -c "ulimit -v 400000; exec $F run memory.toml --set job.copies=1000000 --set cluster.node.cores=1 --set run.steps=1"
expect "a million copies under ulimit -v" 3 "needs about .* and this process may use"

echo "# A disk that fills"
mkdir disk && mount -t tmpfs -o size=16m tmpfs disk && mounts+=("$scratch/disk")
warm='storage.disk={ local-disk = { access = "warm", bandwidth = "2 GB/s" } }'
try "$F" live live.toml --directory disk --set "$warm"
expect "live, too little room" 3 "MB free, where .* needed.*(fewer|smaller) .*samples"
if grep -q "in the plan" <<<"$said"; then expect "no advice about plans" 3 "^$"; fi
# Another process fills the disk while forebay writes its data.
mkdir large && mount -t tmpfs -o size=600m tmpfs large && mounts+=("$scratch/large")
"$F" live live.toml --directory large --set "$warm" --set dataset.d.samples=8000 >out 2>&1 &
child=$!
until compgen -G "large/forebay-live-*" >/dev/null || ! kill -0 $child 2>/dev/null; do :; done
head -c 600m /dev/zero >large/other 2>/dev/null
wait $child
code=$? said=$(cat out)
expect "live, a disk that fills meanwhile" 3 "cannot write .*(space|storage).*fewer samples"
if compgen -G "large/*forebay-*" >/dev/null; then said=$(ls -a large) code=1; expect "live leaves nothing" 0 "^$"; fi
rm -f large/other
# The journal of a calibration on a disk that fills.
sed 's/at_least = 3/at_least = 20000/; s/at_most = 3/at_most = 20000/' tiny.toml >long.toml
"$F" calibrate --plan long.toml --output disk/c >out 2>&1 &
child=$!
until [[ -s disk/c/samples.jsonl ]] || ! kill -0 $child 2>/dev/null; do sleep 0.02; done
head -c 32m /dev/zero >disk/other 2>/dev/null
wait $child
code=$? said=$(cat out)
expect "calibrate, a disk that fills" 3 "samples.jsonl.*no (space|storage)"
rm -f disk/other
kept=$(wc -l <disk/c/samples.jsonl)
try "$F" calibrate --plan long.toml --output disk/c --budget "1 s"
expect "calibrate goes on with the $kept samples that it kept" 0 "samples are kept"
if (($(wc -l <disk/c/samples.jsonl) < kept)); then said="$kept before" code=1; expect "no sample is lost" 0 "^$"; fi

echo "# Permission that is lost"
mkdir user/data && for i in $(seq 600); do head -c 65536 /dev/urandom >user/data/$i.bin; done
chown -R 65534:65534 user
(cd user && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$F" live ../live.toml --data data --set run.steps=100000) >out 2>&1 &
child=$!
sleep 1
chmod 000 user/data
wait $child
code=$? said=$(cat out)
expect "live, data that may not be read any more" 3 "cannot (open|read) .*permission denied"
chmod 755 user/data
# A calibration that loses the permission to write its directory keeps its samples.
(cd user && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$F" calibrate --plan ../long.toml --output lost) >out 2>&1 &
child=$!
until [[ -s user/lost/samples.jsonl ]] || ! kill -0 $child 2>/dev/null; do sleep 0.02; done
chown -R root user/lost && chmod 755 user/lost && chmod 644 user/lost/*
sleep 0.5
kill -TERM $child 2>/dev/null
wait $child
code=$? said=$(cat out)
[[ $code -eq 3 || $code -eq 4 ]] && code=kept
expect "calibrate, a directory that may not be written any more" kept "samples are kept"
try test -s user/lost/samples.jsonl
expect "no sample is lost" 0 "^$"

echo "# Files that go stale"
if python3 -c 'import mfusepy' 2>/dev/null && [[ -c /dev/fuse ]]; then
    mkdir stale
    python3 "$here/stale_fs.py" "$scratch/stale" 65536 600 900 >stale.log 2>&1 &
    server=$!
    mounts+=("$scratch/stale")
    for _ in $(seq 50); do mountpoint -q stale && break; sleep 0.1; done
    try "$F" live live.toml --data stale --set run.steps=5000
    expect "live, stale files" 3 "cannot (open|read) .*stale.*file server"
    umount -l stale
    kill $server 2>/dev/null
    python3 "$here/stale_fs.py" "$scratch/stale" 65536 64 100 >stale.log 2>&1 &
    server=$!
    for _ in $(seq 50); do mountpoint -q stale && break; sleep 0.1; done
    cat >read.toml <<'TOML'
budget = "60 s"
[trials]
length = "5 ms"
at_least = 30
at_most = 30
[watch]
others = 1e6
steal = 1e6
[clock]
[read]
access = ["cold"]
layout = ["file-per-sample"]
size = ["64 KiB"]
readers = [1]
disk = "4 MiB"
TOML
    try "$F" calibrate --plan read.toml --data stale --output stale-out
    expect "calibrate, stale files" 3 "stale.*file server"
    expect "calibrate keeps what it measured" 3 "samples are kept"
    umount -l stale
    kill $server 2>/dev/null
else
    echo "left out: no FUSE, or no mfusepy"
fi

echo "$failures not as expected"
exit $failures
