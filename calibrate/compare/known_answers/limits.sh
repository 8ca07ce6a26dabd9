# Sourced by `known_answers.sh` and `as_found.sh`: a disk of its own in a file, and control groups that limit the programs inside.
# Needs `here`, `directory` and `script` (its name for messages), and `gigabytes`, the size of the disk.

tell() { echo "$script: $1" >&2; }

forebay=$(command -v "${FOREBAY:-forebay}") || { tell "FOREBAY names no program, and none is on the path"; exit 3; }
forebay=$(realpath "$forebay")
[[ $EUID -eq 0 ]] || { tell "needs root: limits are set for groups of processes, and a disk is mounted"; exit 3; }
for tool in awk column losetup lsblk mkfs.ext4 mount mountpoint python3 realpath truncate umount; do
    command -v "$tool" >/dev/null || { tell "$tool is not installed"; exit 3; }
done
groups=/sys/fs/cgroup
for kind in blkio cpu memory; do
    [[ -e $groups/$kind/cgroup.procs ]] || { tell "needs cgroup v1: $groups/$kind is not mounted"; exit 3; }
done

name=forebay-known-$$
place=$(mktemp -d "$directory/$name-XXXXXX")
device=
clean() {
    trap '' INT TERM
    set +e
    local try pids
    for signal in TERM KILL; do
        for try in {1..50}; do
            pids=$(cat "$groups/blkio/$name/cgroup.procs" 2>/dev/null)
            [[ -z $pids ]] && break 2
            # Ours: nothing else was put into this group.
            ((try == 1)) && kill -s "$signal" $pids 2>/dev/null
            sleep 0.2
        done
    done
    mountpoint -q "$place/disk" && umount "$place/disk"
    [[ -n $device ]] && losetup -d "$device"
    for kind in blkio cpu memory; do
        [[ -d $groups/$kind/$name ]] && rmdir "$groups/$kind/$name"
    done
    rm -rf "$place"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir "$groups"/{blkio,cpu,memory}/"$name"
mkdir "$place/disk"
truncate -s "${gigabytes}G" "$place/image"
mkfs.ext4 -q "$place/image"
device=$(losetup --find --show --direct-io=on "$place/image")
mount "$device" "$place/disk"
number=$(lsblk -ndo MAJ:MIN "$device" | tr -d ' ')
# Others who compute must not take the half of a core that is ours.
echo 262144 >"$groups/cpu/$name/cpu.shares"
rows=${rows:-$place/rows.csv}
[[ -s $rows ]] || echo "part,question,what,unit,truth,found,error" >"$rows"

set_limit() { echo "$2" >"$groups/${1%%.*}/$name/$1"; }

# Runs a command in the groups. It is waited for, so that a signal to this script is heard meanwhile.
inside() {
    (
        for kind in blkio cpu memory; do
            echo "$BASHPID" >"$groups/$kind/$name/cgroup.procs"
        done
        exec "$@"
    ) &
    wait $!
}

# Prints what a Python expression finds in the profile of part $1, or nothing.
fitted() {
    "$forebay" profile show "$place/$1/profile.toml" --format json | python3 -c "
import json, sys
profile = json.load(sys.stdin)
try:
    print($2)
except (KeyError, StopIteration):
    pass"
}

# Adds a row: part, question, what, unit, truth, found.
row() {
    if [[ -z $6 ]]; then
        tell "$1: the profile does not say $3"
        echo "$1,$2,$3,$4,$5,," >>"$rows"
    else
        awk -v OFS=, -v a="$1" -v b="$2" -v c="$3" -v d="$4" -v truth="$5" -v found="$6" \
            'BEGIN { print a, b, c, d, sprintf("%.5g", truth), sprintf("%.5g", found), sprintf("%+.4f", found / truth - 1) }' \
            >>"$rows"
    fi
}
