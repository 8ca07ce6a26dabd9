#!/usr/bin/env bash
# Does calibration find what was set? A disk throttled to a known rate and to a known number of requests per
# second, and a share of a core.
#
#   sudo calibrate/compare/known_answers.sh [DIRECTORY]
#
# Needs root, cgroup v1 (blkio, cpu), loop devices and mkfs.ext4; everything that it makes it removes. FOREBAY
# names the program. Prints what was set, what was fitted and the difference; fails if one is beyond 5 %.
set -euo pipefail

directory=$(realpath "${1:-.}")
forebay=$(command -v "${FOREBAY:-forebay}") || { echo "FOREBAY names no program" >&2; exit 3; }
[[ $EUID -eq 0 ]] || { echo "known_answers.sh: needs root for throttles" >&2; exit 3; }
groups=/sys/fs/cgroup
[[ -d $groups/blkio && -d $groups/cpu ]] || { echo "known_answers.sh: needs cgroup v1" >&2; exit 3; }

place=$(mktemp -d "$directory/forebay-known-XXXXXX")
device= failed=0
clean() {
    mountpoint -q "$place/disk" && umount "$place/disk"
    [[ -n $device ]] && losetup -d "$device"
    for kind in blkio cpu; do
        [[ -d $groups/$kind/forebay-known ]] && rmdir "$groups/$kind/forebay-known"
    done
    rm -rf "$place"
}
trap clean EXIT
mkdir -p "$place/disk" "$groups/blkio/forebay-known" "$groups/cpu/forebay-known"
truncate -s 600M "$place/image"
mkfs.ext4 -q "$place/image"
device=$(losetup --find --show --direct-io=on "$place/image")
mount "$device" "$place/disk"
number=$(lsblk -ndo MAJ:MIN "$device" | tr -d ' ')

# Runs a plan (standard input) in the group $1 and prints the parameter $2.
fitted() {
    cat >"$place/plan.toml"
    rm -rf "$place/out"
    (
        echo "$BASHPID" >"$groups/$1/forebay-known/cgroup.procs"
        exec "$forebay" --quiet calibrate --plan "$place/plan.toml" --directory "$place/disk" \
            --output "$place/out" >/dev/null
    )
    "$forebay" profile show "$place/out/profile.toml" --format json | python3 -c "
import json, sys
value = json.load(sys.stdin)
for name in '$2'.split('/'):
    value = value[name]
print(value)"
}

compare() {
    awk -v what="$1" -v set="$2" -v found="$3" 'BEGIN {
        error = found / set - 1
        printf "%-40s set %.6g, fitted %.6g: %+.1f %%\n", what, set, found, 100 * error
        exit error > 0.05 || error < -0.05
    }' || failed=1
}

plan() {
    cat <<PLAN
budget = "2 min"
[trials]
length = "1 s"
warm_up = 1
at_least = 5
at_most = 8
[watch]
others = 1e6                 # a throttled disk is slow whoever computes
steal = 1e6
[read]
access = ["direct"]
layout = ["records"]
size = [$1]
readers = [1, 4, 8]
disk = "400 MiB"
PLAN
}

throttle() { echo "$number $2" >"$groups/blkio/forebay-known/blkio.throttle.$1"; }

throttle read_bps_device 104857600
compare "read bandwidth [B/s]" 104857600 \
    "$(plan '"256 KiB", "1 MiB"' | fitted blkio read/direct/parameters/bandwidth/value)"
throttle read_bps_device 0
throttle read_iops_device 500
compare "read requests [1/s]" 500 \
    "$(plan '"4 KiB", "16 KiB"' | fitted blkio read/direct/parameters/operations/value)"
throttle read_iops_device 0

echo 100000 >"$groups/cpu/forebay-known/cpu.cfs_period_us"
echo 50000 >"$groups/cpu/forebay-known/cpu.cfs_quota_us"
compare "cores" 0.5 "$(printf 'budget = "10 s"\n[host]\n' | fitted cpu host/cores)"
exit "$failed"
