#!/usr/bin/env bash
# Does calibration by the guide's plan hold on machines as they are: throttled disks, quotas of cores, neighbours at work?
#
#   sudo calibrate/compare/as_found.sh [DIRECTORY [PART...]]
#
# PARTs: bandwidths requests quotas hogs loaders (all of them if none is named: about three hours; `bandwidths-115 hogs loaders-2`,
# each of which is one of several set-ups, takes three quarters of an hour). RESULT names a CSV file for the table: what it holds is not measured
# again. SEED (1) draws the loaders. Needs what known_answers.sh needs, and 4 GB below DIRECTORY (.). Exit codes: 0 all within their
# tolerance; 1 not; 2 wrong arguments; 3 the machine lacks something.
#
# Every truth is measured beside by a reader or a spinner of its own (known_answers/reader.py, spinner.py), not taken from the setting.
set -euo pipefail

here=$(dirname "$(realpath "$0")")/known_answers
root=$(realpath "$here/../../..")
directory=$(realpath "${1:-.}")
shift || true
rates=(40 63 115 150)
requests=(300 835 2000)
quotas=(0.5 1.0 1.5 1.7)
all=()
for rate in "${rates[@]}"; do all+=("bandwidths-$rate"); done
for rate in "${requests[@]}"; do all+=("requests-$rate"); done
for quota in "${quotas[@]}"; do all+=("quotas-$quota"); done
all+=(hogs loaders-1 loaders-2 loaders-3 loaders-4)
parts=()
for part in "${@:-${all[@]}}"; do
    found=()
    for one in "${all[@]}"; do [[ $one == "$part" || $one == "$part"-* ]] && found+=("$one"); done
    ((${#found[@]})) || { echo "as_found.sh: there is no part $part" >&2; exit 2; }
    parts+=("${found[@]}")
done
script=as_found.sh
gigabytes=4
[[ -n ${RESULT:-} ]] && rows=$(realpath "$RESULT")
. "$here/limits.sh"

# The file that the independent reader reads.
prepare() {
    [[ -e $place/disk/own ]] || { head -c 1000000000 /dev/urandom >"$place/disk/own"; sync "$place/disk/own"; }
}

# Measures by the guide's plan; the profile is in $place/profile.
calibrate() {
    tell "calibrating: $1"
    rm -rf "$place/profile"
    inside "$forebay" --quiet calibrate --plan "$root/calibrate/plans/loader.toml" --directory "$place/disk" \
        --output "$place/profile" >"$place/log" || { cat "$place/log" >&2; return 1; }
}

# Prints what a Python expression finds in the profile, or nothing.
found() { fitted profile "$1"; }

# Adds a row that says whether the 95 % interval of a parameter, as a Python expression, holds the truth; its error is the half-width.
held() {
    local low high value
    read -r value low high < <(found "$4['value'], *$4.get('ci95', [0, float('inf')])" | tr -d '(),') || true
    [[ -z $value ]] && return
    awk -v OFS=, -v a="$1" -v b="$2" -v truth="$3" -v low="$low" -v high="$high" -v value="$value" \
        'BEGIN { inside = (truth >= low && truth <= high)
            print a, "held", b, 1, 1, inside, sprintf("%+.4f", (high - low) / 2 / value) }' >>"$rows"
}

# Compares a fitted limit of direct reads with what the reader of requests of $4 gets in bytes (field 1) or requests (field 2).
limit() {
    local part=$1 what=$2 unit=$3 size=$4 field=$5 other=$6 truth
    truth=$(inside python3 "$here/reader.py" "$place/disk/own" "$size" 8 20 | cut -d' ' -f"$field")
    local of="profile['read']['direct']['parameters']"
    row "$part" fitted "$what" "$unit" "$truth" "$(found "$of['$what']['value']")"
    held "$part" "$what" "$truth" "$of['$what']"
    # A limit that nothing sets has no value of its own.
    row "$part" invented "$other" 1 1 "$(found "1 if $of['$other'].get('unidentified') else 2")"
}

bandwidths() {
    set_limit blkio.throttle.read_bps_device "$number $1000000"
    calibrate "$1 MB/s"
    limit "bandwidths-$1" bandwidth B/s 262144 1 operations
    set_limit blkio.throttle.read_bps_device "$number 0"
}

requests() {
    set_limit blkio.throttle.read_iops_device "$number $1"
    calibrate "$1 requests/s"
    limit "requests-$1" operations 1/s 32768 2 bandwidth
    set_limit blkio.throttle.read_iops_device "$number 0"
}

quota() { set_limit cpu.cfs_quota_us "$(awk -v q="$1" 'BEGIN { print q < 0 ? -1 : int(q * 100000) }')"; }

quotas() {
    quota "$1"
    calibrate "a quota of $1 cores"
    row "quotas-$1" fitted cores 1 "$(inside python3 "$here/spinner.py" 4 10)" "$(found "profile['host']['cores']")"
    local image="profile['decode']['jpeg']['parameters']"
    image="$image['fixed']['value'] + 17722 * $image['per_byte']['value'] + 256 * 192 * $image['per_pixel']['value']"
    local here_cost=$(found "$image")
    quota -1
    if [[ ! -e $place/free ]]; then
        calibrate "no quota"
        found "$image" >"$place/free"
    fi
    row "quotas-$1" fitted "cost of an image" core-s "$(<"$place/free")" "$here_cost"
}

# Others who compute on both cores, outside the groups.
hogs_begin() {
    python3 "$here/spinner.py" "$(nproc)" 100000 >/dev/null &
    hog=$!
}

hogs_end() {
    pkill -P "$hog" || true
    kill "$hog" 2>/dev/null || true
    wait "$hog" 2>/dev/null || true
}

hogs() {
    # Neighbours have as much weight as the program.
    echo 1024 >"$groups/cpu/$name/cpu.shares"
    set_limit blkio.throttle.read_bps_device "$number 115000000"
    hogs_begin
    calibrate "115 MB/s beside others"
    limit hogs bandwidth B/s 262144 1 operations
    hogs_end
    set_limit blkio.throttle.read_bps_device "$number 0"
    echo 262144 >"$groups/cpu/$name/cpu.shares"
}

# Runs what `forebay run` promises for $2 other loaders on set-up $1, throttled to $3 MB/s (0: not) and $4 cores (-1: not).
what_ifs() {
    local rate=$3 cores=$4 plan changed_rate changed_quota
    mkdir -p "$place/promises"
    tell "asking what would help: set-up $1"
    inside python3 "$here/what_ifs.py" ask "$forebay" "$here/loaders-scenario.toml" "$place/profile/profile.toml" "${SEED:-1}-if-$1" "$2" \
        "$rate" "$cores" "$place/promises" >"$place/plans"
    while read -r plan changed_rate changed_quota <&3; do
        set_limit blkio.throttle.read_bps_device "$number $(awk -v r="$changed_rate" 'BEGIN { printf "%d", r * 1e6 }')"
        quota "$changed_quota"
        inside "$forebay" --quiet validate "$place/promises/$plan.toml" --profile "$place/profile/profile.toml" \
            --directory "$place/disk" --output "$place/promises/$plan" >"$place/log" || { cat "$place/log" >&2; return 1; }
    done 3<"$place/plans"
    python3 "$here/what_ifs.py" answer "loaders-$1" "$place/promises" >>"$rows"
    rm -r "$place/promises"
}

# Eight loaders that `loaders.py` draws on set-up $1, predicted before each is run three times in turns with the others.
loaders() {
    local what
    case $1 in
        1) what="44 MB/s and 1 core"
            set_limit blkio.throttle.read_bps_device "$number 44000000"
            quota 1.0 ;;
        2) what="115 MB/s, 835 requests/s and 1.5 cores"
            set_limit blkio.throttle.read_bps_device "$number 115000000"
            set_limit blkio.throttle.read_iops_device "$number 835"
            quota 1.5 ;;
        3) what="beside others"
            echo 1024 >"$groups/cpu/$name/cpu.shares"
            hogs_begin ;;
        4) what="free" ;;
    esac
    calibrate "$what"
    python3 "$here/loaders.py" "$here/loaders-scenario.toml" "${SEED:-1}-$1" 8 >"$place/loaders.toml"
    rm -rf "$place/validation"
    tell "running and predicting: $what"
    inside "$forebay" --quiet validate "$place/loaders.toml" --profile "$place/profile/profile.toml" \
        --directory "$place/disk" --output "$place/validation" >"$place/log" || { cat "$place/log" >&2; return 1; }
    python3 "$here/points.py" "loaders-$1" "$place/validation/points.json" >>"$rows"
    case $1 in
        1) what_ifs 1 10 44 1.0 ;;
        2) what_ifs 2 10 115 1.5 ;;
        3) hogs_end ;;
    esac
    echo 262144 >"$groups/cpu/$name/cpu.shares"
    set_limit blkio.throttle.read_bps_device "$number 0"
    set_limit blkio.throttle.read_iops_device "$number 0"
    quota -1
}

prepare
for part in "${parts[@]}"; do
    grep -q "^$part," "$rows" && continue
    "${part%-*}" "${part##*-}"
done
column -s, -t <"$rows"
python3 "$here/found.py" "$rows"
