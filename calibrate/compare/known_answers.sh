#!/usr/bin/env bash
# Does calibration find what was set, and is a loader that starves on it predicted? A disk throttled to a known
# rate and to a known number of requests per second, half a core, and a limit of memory as size of the page cache.
#
#   sudo calibrate/compare/known_answers.sh [DIRECTORY [PART...]]
#
# PARTs: bandwidth operations cores memory buckets mixes (all of them if none is named: about twenty minutes). Needs root, cgroup v1
# (blkio, cpu, memory), a loop device, 1 GB below DIRECTORY (.), and the tools listed below; what it makes it removes,
# after an error or Ctrl-C too. FOREBAY names the program, RESULT a CSV file for the table, SEED (1) the mixes. Exit codes:
# 0 all within 5 %, mixes and refills within 20 %, sizes of buckets within 15 %; 1 not; 2 wrong arguments; 3 the machine lacks something.
#
# Plans, scenarios and held-out points are in known_answers/. What the throttle shares out it shares out ten times per
# second, and to a reader that is alone or in company of one it adds up to a tick of the kernel's clock (4 ms), at times
# and at times not: neither is what was set, so trials are long and limits meet several readers.
set -euo pipefail

here=$(dirname "$(realpath "$0")")/known_answers
directory=$(realpath "${1:-.}")
shift || true
parts=("$@")
all=(bandwidth operations cores memory buckets mixes)
((${#parts[@]})) || parts=("${all[@]}")
for part in "${parts[@]}"; do
    [[ " ${all[*]} " == *" $part "* ]] || { echo "known_answers.sh: there is no part $part" >&2; exit 2; }
done
script=known_answers.sh
gigabytes=1
. "$here/limits.sh"

# Measures by the plan of part $1.
calibrate() {
    echo "known_answers.sh: calibrating: $1" >&2
    inside "$forebay" --quiet calibrate --plan "$here/$1.toml" --directory "$place/disk" \
        --output "$place/$1" >"$place/$1.log" || { cat "$place/$1.log" >&2; return 1; }
}

# Runs the held-out points of part $1 live and predicted.
predict() {
    echo "known_answers.sh: running and predicting: $1" >&2
    inside "$forebay" --quiet validate "$here/$1-points.toml" --profile "$place/$1/profile.toml" \
        --directory "$place/disk" --output "$place/$1/validation" >"$place/$1.log" ||
        { cat "$place/$1.log" >&2; return 1; }
    while IFS='|' read -r point truth found; do
        row "$1" predicted "$point" samples/s "$truth" "$found"
    done < <(python3 -c "
import json, statistics, sys
for point in json.load(open(sys.argv[1])):
    if not point['held_out']:
        continue
    rate = 'samples_per_second'
    runs = [run[rate] for run in point['runs']]
    print(point['name'].replace(',', ' with'), statistics.median(runs), point['predicted']['median'][rate], sep='|')
" "$place/$1/validation/points.json")
}

bandwidth() {
    set_limit blkio.throttle.read_bps_device "$number 104857600"
    calibrate bandwidth
    row bandwidth fitted "read bandwidth" B/s 104857600 \
        "$(fitted bandwidth "profile['read']['direct']['parameters']['bandwidth']['value']")"
    predict bandwidth
    set_limit blkio.throttle.read_bps_device "$number 0"
}

operations() {
    set_limit blkio.throttle.read_iops_device "$number 500"
    calibrate operations
    row operations fitted "read requests" 1/s 500 \
        "$(fitted operations "profile['read']['direct']['parameters']['operations']['value']")"
    predict operations
    set_limit blkio.throttle.read_iops_device "$number 0"
}

cores() {
    set_limit cpu.cfs_period_us 100000
    set_limit cpu.cfs_quota_us 50000
    calibrate cores
    row cores fitted cores 1 0.5 "$(fitted cores "profile['host']['cores']")"
    predict cores
    set_limit cpu.cfs_quota_us -1
}

# Writes, five times per second, the bytes that the group uses for anything but cached files, while it is at its limit.
own_use() {
    local group=$groups/memory/$name usage cache
    while sleep 0.2; do
        usage=$(cat "$group/memory.usage_in_bytes")
        cache=$(awk '$1 == "cache" { print $2 }' "$group/memory.stat")
        ((usage > $1 * 97 / 100)) && echo $((usage - cache))
    done
}

# What a process of the group does not use itself (its own memory, and the kernel's for it) is left for cached files.
memory() {
    local limit=$((300 << 20)) watcher own
    set_limit memory.limit_in_bytes "$limit"
    own_use "$limit" >"$place/own" 2>/dev/null &
    watcher=$!
    calibrate memory
    kill "$watcher"
    wait "$watcher" 2>/dev/null || true
    own=$(sort -n "$place/own" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] + 0 }')
    echo "known_answers.sh: of the limit of $limit B the group itself used $own B" >&2
    local policy="next(name for name in profile['cache'] if name != 'any')"
    row memory fitted "page cache" B $((limit - own)) \
        "$(fitted memory "profile['cache'][$policy]['parameters']['size']['value']")"
    echo "known_answers.sh: the page cache's policy: $(fitted memory "', '.join(profile['cache'])") (Linux: lru)" >&2
    predict_cached
    set_limit memory.limit_in_bytes -1
}

# Loaders that starve on the throttled disk behind this page cache: reads through it go as fast as those past it, and
# what a profile says of one is what it says of the other. Nothing of it is written in the scenario, so that a live run
# is held to nothing but the kernel's limits.
predict_cached() {
    set_limit blkio.throttle.read_bps_device "$number 104857600"
    [[ -e $place/bandwidth/samples.jsonl ]] || calibrate bandwidth
    sed 's/"direct"/"cold"/g' "$place/bandwidth/samples.jsonl" | cat "$place/memory/samples.jsonl" - >"$place/both.jsonl"
    "$forebay" profile fit "$place/both.jsonl" --like "$place/memory/profile.toml" --output "$place/both.toml"
    mv "$place/both.toml" "$place/memory/profile.toml"
    predict memory
    set_limit blkio.throttle.read_bps_device "$number 0"
}

# Prints the samples per second of each job of the reports in these files: a line for each job, the median over the files.
rates() {
    python3 -c "
import json, statistics, sys
reports = [json.load(open(name)) for name in sys.argv[1:]]
for jobs in zip(*(report['jobs'] for report in reports)):
    print(jobs[0]['name'], statistics.median(job['samples_per_second']['mean'] for job in jobs))
" "$@"
}

# Token buckets that last for 1, 3 and 10 seconds at 240 MB/s, and then give 60 MB/s.
buckets() {
    local high=240000000 low=60000000 seconds size limiter
    for seconds in 1 3 10; do
        size=$(((high - low) * seconds))
        python3 "$here/bucket.py" "$groups/blkio/$name" "$number" "$high" "$low" "$size" &
        limiter=$!
        calibrate buckets
        kill "$limiter"
        wait "$limiter" 2>/dev/null || true
        local of="profile['burst']['direct']['parameters']"
        row buckets "$seconds s" burst B/s "$high" "$(fitted buckets "$of['bandwidth']['value']")"
        row buckets "$seconds s" sustained B/s "$low" "$(fitted buckets "$of['sustained']['value']")"
        row buckets "$seconds s" bucket B "$size" "$(fitted buckets "$of['bucket']['value']")"
        row buckets "$seconds s" refill B/s "$low" "$(fitted buckets "$of['refill']['value']")"
        rm -rf "$place/buckets"
        set_limit blkio.throttle.read_bps_device "$number 0"
    done
}

# A job with small files beside one with large files, which `mixes.py` draws: predicted, then run three times.
mixes() {
    set_limit blkio.throttle.read_bps_device "$number 104857600"
    [[ -e $place/mixes/profile.toml ]] || calibrate mixes
    local drawn mix value changes repeat job truth found
    while IFS=$'\t' read -r -a drawn; do
        mix=${drawn[0]} changes=()
        for value in "${drawn[@]:1}"; do changes+=(--set "$value"); done
        echo "known_answers.sh: predicting and running: $mix" >&2
        changes+=(--set "profile=\"$place/mixes/profile.toml\"")
        "$forebay" --quiet run "$here/mixes-scenario.toml" --verdict quick "${changes[@]}" --format json \
            --output "$place/found.json"
        for repeat in 1 2 3; do
            inside "$forebay" --quiet live "$here/mixes-scenario.toml" "${changes[@]}" --directory "$place/disk" --format json \
                --output "$place/live-$repeat.json" </dev/null
        done
        while read -r job truth found; do
            row mixes predicted "$mix: $job" samples/s "$truth" "$found"
        done < <(join <(rates "$place"/live-[123].json | sort) <(rates "$place/found.json" | sort))
    done < <(python3 "$here/mixes.py" "${SEED:-1}" 12)
    set_limit blkio.throttle.read_bps_device "$number 0"
}

for part in "${parts[@]}"; do
    "$part"
done
column -s, -t <"$rows"
[[ -n ${RESULT:-} ]] && cp "$rows" "$RESULT"
awk -F, 'BEGIN { within["bucket"] = 0.15; within["refill"] = within["mixes"] = 0.2 }
    NR > 1 { most = $3 in within ? within[$3] : $1 in within ? within[$1] : 0.05; if ($7 == "" || $7 > most || $7 < -most) bad++ }
    END { if (bad) print bad " of " NR - 1 " beyond their tolerance"; else print "all " NR - 1 " within their tolerance"
          exit bad > 0 }' "$rows"
