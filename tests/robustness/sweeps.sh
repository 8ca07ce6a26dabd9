#!/bin/sh
# Checks that no finished point is lost when a sweep is killed, its disk fills, or it loses the permission to write.
#
#   tests/robustness/sweeps.sh [PROGRAM [ROUNDS]]
#
# PROGRAM is target/debug/forebay and ROUNDS 200 unless given. It runs for some minutes and is therefore not part of
# `cargo test`. It checks:
#
# 1. A sweep that is killed at a random moment by SIGHUP, SIGTERM or SIGKILL and then resumed gives the bytes of one
#    that was never interrupted, ROUNDS times; so do sweeps that are killed again while they resume.
#    The same of the two shards of a sweep, of which each attempt may have a second one beside it.
# 2. A sweep whose disk (a tmpfs of 128 KiB in a mount namespace of its own: needs root or user namespaces) fills reports the
#    kept points, and resumes when there is space.
# 3. A sweep of another user (needs root) who loses the directory during the run reports the kept points, and resumes when
#    the user has the permission again.
set -eu
program=$(realpath "${1:-target/debug/forebay}")
rounds=${2:-200}
place=$(mktemp -d)
# Another user reads the directory in the third part.
chmod 755 "$place"
trap 'rm -rf "$place"' EXIT
cd "$place"
cp "$program" forebay
chmod 755 forebay
program=$place/forebay

cat > s.toml <<'TOML'
name = "killed"
[run]
steps = 2000
replications = 2
seed = 1
[cluster]
nodes = 2
[cluster.node]
cores = 4
gpus = 1
[storage.disk.file-server]
bandwidth = "1 GB/s"
per_stream = "100 MB/s"
latency = { lognormal = { median = "1 ms", p99 = "5 ms" } }
[dataset.digits]
samples = 1000
sample_size = "1000 B"
[[job]]
name = "lenet"
copies = 2
nodes = 1
dataset = "digits"
storage = "disk"
batch = 8
batch_interval = 1
[job.loader.tf-queue]
threads = 2
capacity = "64 samples"
decode = "50 us"
[job.model]
step = { fixed = "2 ms", per_sample = "15 us" }
[sweep]
"job.loader.tf-queue.threads" = [1, 2, 3, 4]
"job.batch_interval" = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
TOML

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

begin=$(date +%s%N)
"$program" sweep s.toml -q -o ref.csv
# Duration of a whole sweep [ms].
whole=$((($(date +%s%N) - begin) / 1000000))

# Prints a random number from 0 to $1 - 1.
random() {
    echo $(($(od -An -N4 -tu4 /dev/urandom) % $1))
}

# Kills a sweep to x.csv at a random moment of its first $1 ms. Prints the signal.
kill_one() {
    # Not SIGINT: a shell starts background processes with SIGINT ignored.
    case $(random 3) in 0) signal=HUP ;; 1) signal=TERM ;; *) signal=KILL ;; esac
    "$program" sweep s.toml -q -o x.csv --resume 2> said &
    child=$!
    sleep "$(printf '0.%03d' "$(random "$1")")"
    kill -s $signal $child 2> /dev/null || true
    wait $child && code=0 || code=$?
    case $signal$code in
    *0 | KILL137) ;;
    HUP4 | TERM4) grep -q '^forebay: interrupted: ' said || fail "no message after $signal" ;;
    *) cat said; fail "exit code $code after $signal" ;;
    esac
}

kills=0
round=0
limit=$((whole < 999 ? whole : 999))
while [ $round -lt "$rounds" ]; do
    rm -f x.csv x.csv.partial
    again=$(random 3)
    while [ "$again" -ge 0 ]; do
        kill_one $limit
        kills=$((kills + 1))
        again=$((again - 1))
    done
    "$program" sweep s.toml -q -o x.csv --resume
    cmp ref.csv x.csv || fail "round $round: other bytes"
    [ "$(ls -A | tr '\n' ' ')" = 'forebay ref.csv s.toml said x.csv ' ] || fail "round $round left $(ls -A)"
    round=$((round + 1))
done
echo "killed: $rounds sweeps, $kills kills, the same bytes each time"

# Starts an attempt at shard $1, which is killed at a random moment of its first $2 ms.
attempt() {
    timeout -s KILL "$(printf '0.%03d' $((1 + $(random "$2"))))" "$program" sweep s.toml -q --shard "$1/2" -o d 2>> said ||
        [ $? -eq 137 ] || fail "an attempt at a shard: $(cat said)"
}

"$program" sweep s.toml -q --columns all -o all.csv
round=0
while [ $round -lt "$rounds" ]; do
    rm -rf d rows.csv said
    for shard in 1 2; do
        attempt $shard $limit &
        attempt $shard $limit &
        wait
        attempt $shard $limit
    done
    # Two attempts at once, of which neither is killed.
    for shard in 1 2; do
        "$program" sweep s.toml -q --shard $shard/2 -o d &
        other=$!
        "$program" sweep s.toml -q --shard $shard/2 -o d
        wait $other
    done
    "$program" sweep --collect d -q --columns all -o rows.csv
    cmp all.csv rows.csv || fail "round $round: other bytes"
    [ "$(ls d | tr '\n' ' ')" = 'shard-1-of-2.rows shard-2-of-2.rows ' ] || fail "round $round left $(ls d)"
    round=$((round + 1))
done
rm -rf d all.csv rows.csv
echo "killed: attempts at shards in $rounds rounds, the same bytes each time"

mkdir full
# shellcheck disable=SC2016
full='set -e
mount -t tmpfs -o size=128k none full
cp s.toml full
cd full
"$0" sweep s.toml -q -o x.csv --columns all 2> ../said && code=0 || code=$?
[ $code -eq 3 ] || { echo "exit code $code" >&2; exit 1; }
grep "no space left on device" ../said | grep -q "finished points are kept in x.csv.partial; --resume"
mount -o remount,size=64m none .
"$0" sweep s.toml -q -o x.csv --resume
cmp ../ref.csv x.csv'
if unshare -rm true 2> /dev/null; then
    unshare -rm sh -c "$full" "$program" || fail "full disk: $(cat said)"
    echo "full disk: $(cat said)"
else
    echo 'full disk: not run, there are no namespaces here'
fi

if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
    mkdir lost
    cp s.toml lost
    chown 65534 lost
    rm -f said
    (cd lost && exec setpriv --reuid 65534 --clear-groups "$program" sweep s.toml -q -o x.csv 2> ../said) &
    child=$!
    # Its first line has the settings, the second a point.
    while [ "$(wc -l 2> /dev/null < lost/x.csv.partial || echo 0)" -lt 2 ]; do sleep 0.01; done
    chmod 555 lost
    chown 0 lost
    wait $child && code=0 || code=$?
    [ $code -eq 2 ] || fail "permission lost: exit code $code"
    grep -q 'permission denied; 40 finished points are kept in x.csv.partial; --resume' said || fail "said $(cat said)"
    chown 65534 lost
    chmod 755 lost
    (cd lost && setpriv --reuid 65534 --clear-groups "$program" sweep s.toml -q -o x.csv --resume)
    cmp ref.csv lost/x.csv || fail 'permission lost: other bytes'
    echo "permission lost: $(cat said)"
else
    echo 'permission lost: not run, it needs root and setpriv'
fi
