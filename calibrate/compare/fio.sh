#!/usr/bin/env bash
# Are forebay's direct reads as fast as fio's? Same file, same sizes, same threads, turn by turn.
#
#   calibrate/compare/fio.sh [DIRECTORY [ROUNDS [SECONDS]]]
#
# DIRECTORY (.) gets one file of 1 GiB, which is removed afterwards. A round reads for SECONDS (1) with each program
# twice: forebay, fio, fio, forebay, or the other way round, so that a machine that drifts favours neither. 4 KiB gets
# up to ROUNDS (60) rounds, until its ratio is known to 2.5 %; larger requests get a quarter of ROUNDS. A ratio above 1
# says that forebay reads more requests per second; in brackets its 95 % interval. SIZES (4 16 64 256 1024) are in KiB,
# FOREBAY names the program, READERS the threads (4). Exit codes: 0 the ratio at 4 KiB is at least 0.97, and known to
# 3 %; 1 not; 2 wrong arguments; 3 something is not installed.
set -euo pipefail

directory=${1:-.} rounds=${2:-60} seconds=${3:-1}
forebay=${FOREBAY:-forebay} readers=${READERS:-4}
read -ra sizes <<<"${SIZES:-4 16 64 256 1024}"
for tool in fio "$forebay" awk; do
    if ! command -v "$tool" >/dev/null; then
        echo "fio.sh: $tool is not installed (Debian: apt-get install fio; FOREBAY names forebay)" >&2
        exit 3
    fi
done
if ((rounds < 20)); then
    echo "fio.sh: $rounds rounds are too few for an interval: 20 or more" >&2
    exit 2
fi

place=$(mktemp -d "$directory/forebay-fio-XXXXXX")
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM
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

# Mean ratio of rounds (a line each: forebay's rate, fio's), its 95 % interval, and mean rates.
summary() {
    awk '
        # Student, 97.5 %, by the expansion of Hill (1970); to 1 % from four degrees of freedom on.
        function student(v,   z) {
            z = 1.959964
            return z + (z^3 + z) / (4 * v) + (5 * z^5 + 16 * z^3 + 3 * z) / (96 * v^2) \
                + (3 * z^7 + 19 * z^5 + 17 * z^3 - 15 * z) / (384 * v^3)
        }
        $1 > 0 && $2 > 0 { n++; r = log($1 / $2); sum += r; squares += r * r; a += $1; b += $2 }
        END {
            if (n < 5) { print "0 0 0 1 0 0"; exit }
            mean = sum / n
            half = student(n - 1) * sqrt((squares - n * mean * mean) / (n - 1) / n)
            print exp(mean), exp(mean - half), exp(mean + half), half, a / n, b / n
        }' "$1"
}

echo "requests of $readers threads, turns of $seconds s each: forebay / fio"
failed=0
for size in "${sizes[@]}"; do
    most=$((size == 4 ? rounds : rounds / 4))
    : >"$place/rates"
    for ((round = 1; round <= most; round++)); do
        seed=$((2 * round))
        if ((round % 2)); then
            a=$(ours "$size" $seed) b=$(theirs "$size" $seed)
            d=$(theirs "$size" $((seed + 1))) c=$(ours "$size" $((seed + 1)))
        else
            b=$(theirs "$size" $seed) a=$(ours "$size" $seed)
            c=$(ours "$size" $((seed + 1))) d=$(theirs "$size" $((seed + 1)))
        fi
        echo "$a $b $c $d" | awk '$1 && $2 && $3 && $4 { print sqrt($1 * $3), sqrt($2 * $4) }' >>"$place/rates"
        read -r ratio low high half one two < <(summary "$place/rates")
        if ((size == 4 && round >= 12)) && awk -v half="$half" 'BEGIN { exit half > 0.025 }'; then
            break
        fi
    done
    printf '%5d KiB  %.3f  [%.3f, %.3f]  %9.0f /s against %9.0f /s, %d rounds\n' "$size" "$ratio" "$low" "$high" \
        "$one" "$two" "$(wc -l <"$place/rates")"
    if ((size == 4)); then
        awk -v ratio="$ratio" -v half="$half" 'BEGIN { exit !(ratio >= 0.97 && half <= 0.03) }' || failed=1
    fi
done
if ((failed)); then
    echo "fio.sh: wanted at 4 KiB: at least 0.97, known to 0.03" >&2
fi
exit "$failed"
