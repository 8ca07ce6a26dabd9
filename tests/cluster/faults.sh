#!/usr/bin/env bash
# What a calibration of a cluster says when something goes wrong: three ranks on this machine's loopback, as three nodes.
#   tests/cluster/faults.sh PROGRAM [CASE...]
# Takes about 15 minutes. Needs no root, except for the case `full`, which mounts a small file system and is left out without root.
# The cases `by_hydra` and `by_torchrun` start the ranks by these launchers, and are left out where there are none; TORCHRUN names one.
set -u
program=$(realpath "${1:?the program}"); shift
place=$(mktemp -d); trap 'kill $(jobs -p) 2>/dev/null; umount "$place/small" 2>/dev/null; rm -rf "$place"' EXIT
cd "$place"
mkdir shared
cat > plan.toml <<'P'
budget = "2 min"
[cluster]
disk = "2 MiB"
size = ["16 KiB", "256 KiB"]
streams = [1, 2]
window = "300 ms"
before = "100 ms"
allreduce = ["64 KiB", "1 MiB"]
checkpoint = "4 MiB"
P
failed=0
# rank R [OPTIONS...]: starts rank R of three in the background; its output goes to rank-R.log.
rank() {
    local number=$1; shift
    FOREBAY_RANK=$number FOREBAY_RANKS=3 FOREBAY_NODE=n$((number + 1)) FOREBAY_JOB=${job:-1} "$program" calibrate \
        --plan plan.toml --directory "${directory:-shared}" -o "${output:-out}" "$@" > rank-$number.log 2>&1 &
}
# expect CASE CODE SECONDS TEXT...: waits for rank 0, which must end with the code in time and say the texts.
expect() {
    local name=$1 code=$2 most=$3; shift 3
    local begin=$SECONDS
    wait "$leader"; local got=$?
    local took=$((SECONDS - begin))
    local wrong=""
    test $got = "$code" || wrong="exit code $got instead of $code"
    test $took -le "$most" || wrong="$wrong, $took s instead of at most $most"
    for text in "$@"; do grep -qF -- "$text" rank-0.log || wrong="$wrong, does not say '$text'"; done
    if test -n "$wrong"; then echo "$name: WRONG: $wrong"; cat rank-0.log; failed=1
    else echo "$name: as expected ($took s)"; fi
}
start() { rank 1; two=$!; rank 2; three=$!; rank 0 "$@"; leader=$!; }
# begun: waits until the first samples of reads exist.
begun() { for _ in $(seq 200); do grep -q shared-read out/samples.jsonl 2>/dev/null && return; sleep 0.1; done; }
clean() { wait; rm -rf out shared; mkdir shared; }

kills() {
    start; begun; kill -9 $three
    expect killed 3 60 "n3" "its process killed?" "the same command measures the rest"
    local before kept; before=$(wc -l < out/samples.jsonl); kept=$(sha1sum < out/samples.jsonl)
    wait; start
    expect "killed, again" 0 90 "the profile in out/profile.toml"
    test "$(head -n "$before" out/samples.jsonl | sha1sum)" = "$kept" || { echo "killed, again: WRONG: samples were lost"; failed=1; }
    clean
}
stops() {
    start; begun; kill -STOP $three
    expect stopped 3 90 "n3" "nothing was heard of it for 20 s"
    kill -CONT $three; clean
}
leader_killed() {
    start; begun; kill -9 $leader; wait $leader 2>/dev/null
    wait $two; grep -q "has lost rank 0" rank-1.log && echo "rank 0 killed: as expected" || { echo "rank 0 killed: WRONG"; cat rank-1.log; failed=1; }
    # What it left is removed by the next run.
    start; expect "rank 0 killed, again" 0 90 "left by a run that was killed"; clean
}
absent() {
    rank 1; rank 0; leader=$!
    expect absent 3 100 "2 of 3 ranks joined" "missing: 2"; clean
}
blind() {
    mkdir elsewhere
    rank 1; directory=nowhere rank 2; rank 0; leader=$!
    expect "a host without the directory" 3 60 "n3 has no directory"
    clean
}
full() {
    test "$(id -u)" = 0 || { echo "full: left out without root"; return; }
    mkdir -p small; mount -t tmpfs -o size=4M none small || { echo "full: no file system can be mounted"; return; }
    directory=small start; expect "too little space" 3 60 "MB free on n1"
    clean; umount small
}
two_at_once() {
    start; first=$leader; begun
    FOREBAY_RANK=0 FOREBAY_RANKS=3 FOREBAY_NODE=n1 "$program" calibrate --plan plan.toml --directory shared -o out > other.log 2>&1
    local code=$?
    grep -q "another calibration is writing" other.log && test $code = 2 || { echo "two in one output: WRONG"; cat other.log; failed=1; }
    FOREBAY_RANK=0 FOREBAY_RANKS=3 FOREBAY_NODE=n1 "$program" calibrate --plan plan.toml --directory shared -o other > other.log 2>&1
    code=$?
    grep -q "add --remove-leftovers" other.log && test $code = 2 || { echo "two in one directory: WRONG"; cat other.log; failed=1; }
    leader=$first; expect "two at once" 0 90 "the profile in out/profile.toml"; clean
}
stale() {
    # The rendezvous of a job that was killed, and of another one with another address.
    job=7 rank 0; old=$!; sleep 1; kill -9 $old; wait $old 2>/dev/null
    test -e out/rendezvous/key.json || { echo "stale: WRONG: no rendezvous"; failed=1; }
    job=8 start; expect "stale rendezvous" 0 90 "the profile in out/profile.toml"; clean
}
strangers() {
    start
    for _ in $(seq 100); do test -e out/rendezvous/key.json && break; sleep 0.05; done
    python3 - out/rendezvous/key.json <<'P'
import json, os, socket, sys, threading
host, port = json.load(open(sys.argv[1]))["address"].rsplit(":", 1)
def bother(number):
    try:
        with socket.create_connection((host.strip("[]"), int(port)), 5) as to:
            to.sendall([b"GET / HTTP/1.1\r\n\r\n", b"fb1\n\xff\xff\xff\xff", b"fb1\n\0\0\0\4junk", os.urandom(4096), b""][number % 5])
            to.settimeout(1); to.recv(100)
    except OSError: pass
threads = [threading.Thread(target=bother, args=(n,)) for n in range(100)]
[t.start() for t in threads]; [t.join() for t in threads]
P
    expect strangers 0 90 "the profile in out/profile.toml"; clean
}
# told R [SECRET]: starts rank R with an address and a secret, and an output directory of its own.
told() {
    FOREBAY_ADDRESS=localhost:23999 FOREBAY_SECRET=${2:-$secret} output=out-$1 rank "$1"
}
no_shared_output() {
    secret=$(openssl rand -hex 32)
    told 1; two=$!; told 2; three=$!; told 0; leader=$!
    expect "no shared output" 0 150 "the profile in out-0/profile.toml"
    wait $two $three
    for written in out-1 out-2; do
        test -e $written && { echo "no shared output: WRONG: another rank wrote $written"; failed=1; }
    done
    rm -rf out-*; clean
}
another_secret() {
    secret=$(openssl rand -hex 32)
    told 1; told 2 "$(openssl rand -hex 32)"; three=$!; told 0; leader=$!
    expect "another secret" 3 100 "missing: 2" "FOREBAY_SECRET"
    wait $three; grep -q "rank 2 on n3 .* same FOREBAY_SECRET" rank-2.log || { echo "another secret: WRONG"; cat rank-2.log; failed=1; }
    rm -rf out-*; clean
}
# launched NAME COMMAND...: a calibration of three ranks that a launcher starts, as n1 to n3.
launched() {
    local name=$1; shift
    command -v "$1" > launchers || { echo "$name: left out, it is not here"; return; }
    cat > as-node <<'P'
#!/bin/bash
FOREBAY_NODE=n$((${PMI_RANK:-$RANK} + 1)) exec "$@"
P
    chmod +x as-node
    "$@" ./as-node "$program" calibrate --plan plan.toml --directory shared -o out > rank-0.log 2>&1 & leader=$!
    expect "$name" 0 150 "3 nodes agree on" "the profile in out/profile.toml"; clean
}
by_hydra() { launched hydra mpiexec.hydra -np 3; }
by_torchrun() { launched torchrun "${TORCHRUN:-torchrun}" --no-python --nnodes 1 --nproc-per-node 3; }
for name in ${*:-kills stops leader_killed absent blind full two_at_once stale strangers no_shared_output another_secret by_hydra by_torchrun}; do $name; done
exit $failed
