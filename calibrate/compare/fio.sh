#!/usr/bin/env bash
# Are forebay's direct reads as fast as fio's? Same file, same threads, turn by turn.
#
#   calibrate/compare/fio.sh [DIRECTORY [ROUNDS [SECONDS]]]
#
# DIRECTORY gets one file of 1 GiB, which is removed afterwards. Each of ROUNDS (20) reads for
# SECONDS (2) with each program, in changing order; a ratio above 1 says that forebay reads more
# requests per second. Prints the mean ratio with its 95 % interval, for 4 KiB (wanted: at least
# 0.97, known to 0.03) and larger requests. FOREBAY names the program, READERS the threads (4).
set -euo pipefail

directory=${1:-.} rounds=${2:-20} seconds=${3:-2}
forebay=${FOREBAY:-forebay} readers=${READERS:-4}
for tool in fio "$forebay" awk; do
    if ! command -v "$tool" >/dev/null; then
        echo "fio.sh: $tool is not installed (Debian: apt-get install fio; FOREBAY names forebay)" >&2
        exit 3
    fi
done
if ((rounds < 5)); then
    echo "fio.sh: $rounds rounds are too few for an interval: 5 or more" >&2
    exit 2
fi

place=$(mktemp -d "$directory/forebay-fio-XXXXXX")
trap 'rm -rf "$place"' EXIT
mkdir "$place/data"
file=$place/data/records
fio --name=make --filename="$file" --size=1g --rw=write --bs=1m --end_fsync=1 \
    --refill_buffers --minimal >/dev/null

# Requests per second of forebay.
ours() {
    cat >"$place/plan.toml" <<PLAN
budget = "10 min"
seed = $2
[trials]
length = "$seconds s"
warm_up = 0
at_least = 1
at_most = 1
[watch]
others = 1e6
steal = 1e6
[read]
access = ["direct"]
layout = ["records"]
size = ["$1 KiB"]
readers = [$readers]
disk = "1 GiB"
PLAN
    rm -rf "$place/out"
    "$forebay" --quiet calibrate --plan "$place/plan.toml" --directory "$place" \
        --data "$place/data" --output "$place/out" >/dev/null
    sed -E 's/.*"operations":([0-9]+),"seconds":([0-9.e+-]+).*/\1 \2/' "$place/out/samples.jsonl" |
        awk '{ print $1 / $2 }'
}

# Requests per second of fio, in the part of the file that forebay reads past the cache.
theirs() {
    fio --name=read --filename="$file" --offset=256m --size=768m --direct=1 --rw=randread --bs="$1k" \
        --ioengine=psync --numjobs="$readers" --thread --group_reporting --time_based \
        --runtime="$seconds" --norandommap --randseed="$2" --minimal | awk -F';' '{ print $8 }'
}

echo "requests of $readers threads, $rounds rounds of $seconds s each: forebay / fio"
for size in 4 16 64 256 1024; do
    for ((round = 1; round <= rounds; round++)); do
        if ((round % 2)); then
            one=$(ours $size $round) two=$(theirs $size $round)
        else
            two=$(theirs $size $round) one=$(ours $size $round)
        fi
        echo "$one $two"
    done | awk -v size=$size '
        # Student, 97.5 %, by the expansion of Hill (1970); to 1 % from four degrees of freedom on.
        function student(v,   z) {
            z = 1.959964
            return z + (z^3 + z) / (4 * v) + (5 * z^5 + 16 * z^3 + 3 * z) / (96 * v^2) \
                + (3 * z^7 + 19 * z^5 + 17 * z^3 - 15 * z) / (384 * v^3)
        }
        $1 > 0 && $2 > 0 { n++; r = log($1 / $2); sum += r; squares += r * r; a += $1; b += $2 }
        END {
            if (n < 2) { print "fio.sh: no results" > "/dev/stderr"; exit 1 }
            mean = sum / n
            sd = sqrt((squares - n * mean * mean) / (n - 1))
            half = student(n - 1) * sd / sqrt(n)
            printf "%5d KiB  %.3f  [%.3f, %.3f]  %9.0f /s against %9.0f /s\n", size, exp(mean),
                exp(mean - half), exp(mean + half), a / n, b / n
        }'
done
