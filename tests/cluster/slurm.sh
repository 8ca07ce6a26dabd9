#!/usr/bin/env bash
# Does a sweep keep every row once on a cluster that loses a node? Starts a Slurm of four nodes on this machine, submits a sweep of
# 2,000 points as the guide says, and kills the daemon of one node while its task runs: Slurm requeues them, and their first
# attempts go on beside the second ones. Then joins the shards, and compares them with the rows of an undivided sweep.
#
#   tests/cluster/slurm.sh [DIRECTORY]
#
# Some five minutes. Needs root, and slurmctld, slurmd and munged (Debian: slurm-wlm and munge). FOREBAY is the program, by default
# that of `cargo build --release`. POINTS and TASKS say how many (2000, 10). Exit codes: 0 the same rows; 1 not; 3 something is missing.
set -euo pipefail

root=$(dirname "$(dirname "$(dirname "$(realpath "$0")")")")
forebay=$(realpath "${FOREBAY:-$root/target/release/forebay}")
place=${1:-$(mktemp -d)}
mkdir -p "$place"
place=$(realpath "$place")
points=${POINTS:-2000}
tasks=${TASKS:-10}
nodes=4
export PATH=$PATH:/usr/sbin
for program in slurmctld slurmd munged sbatch scontrol; do
    command -v "$program" >/dev/null || { echo "slurm.sh: $program is missing" >&2; exit 3; }
done
[[ $(id -u) == 0 ]] || { echo "slurm.sh: needs root" >&2; exit 3; }
[[ -x $forebay ]] || { echo "slurm.sh: $forebay is missing; run cargo build --release" >&2; exit 3; }

slurm=$place/slurm
export SLURM_CONF=$slurm/slurm.conf
mkdir -p "$slurm"/{state,spool,log}

# Ends a daemon that this script started, by the file that has its number.
end() {
    local file=$1 number
    [[ -s $file ]] || return 0
    number=$(<"$file")
    kill "$number" 2>/dev/null || true
    for _ in $(seq 60); do kill -0 "$number" 2>/dev/null || break; sleep 0.05; done
    kill -9 "$number" 2>/dev/null || true
    rm -f "$file"
}
down() {
    scancel --user=root 2>/dev/null || true
    for file in "$slurm"/slurmd.*.pid "$slurm/slurmctld.pid" "$slurm/munged.pid"; do end "$file"; done
}
trap down EXIT

host=$(hostname -s)
port=$((20000 + RANDOM % 12000))
(umask 077; head -c 128 /dev/urandom >"$slurm/munge.key")
munged --force --key-file="$slurm/munge.key" --socket="$slurm/munge.sock" --pid-file="$slurm/munged.pid" \
    --log-file="$slurm/log/munged.log" --seed-file="$slurm/munge.seed"
cat >"$SLURM_CONF" <<END
ClusterName=forebay
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge.sock
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool/%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.%n.pid
SlurmctldLogFile=$slurm/log/slurmctld.log
SlurmdLogFile=$slurm/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=1
$(for node in $(seq $nodes); do echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + node)) CPUs=1"; done)
PartitionName=main Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP
END
printf 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n' >"$slurm/cgroup.conf"
slurmctld -f "$SLURM_CONF"
for node in $(seq $nodes); do slurmd -f "$SLURM_CONF" -N "n$node"; done
for _ in $(seq 200); do
    [[ $(sinfo --noheader --states=idle --format=%D | awk '{ n += $1 } END { print n }') == "$nodes" ]] && break
    sleep 0.1
done
sinfo

# As the guide says.
cd "$place"
rm -rf shards
cp "$root/scenarios/trainer-cores.toml" mine.toml
sweep=(sweep mine.toml --set run.steps="${STEPS:-60000}" --set run.replications=1 --vary "cluster.node.cores={ from = 2, to = 16 }"
    --vary 'job.batch={ from = 16, to = 256, scale = "log" }' --vary "sample={ latin-hypercube = $points }")
begin=$SECONDS
"$forebay" "${sweep[@]}" --slurm --submit --tasks "$tasks" --output shards

finished() { find shards -name 'shard-*.rows' | wc -l; }
while (($(finished) < tasks / 5)); do sleep 0.2; done
# The node's daemon dies; what it had started goes on, and Slurm starts the same task elsewhere.
# Some points of the newest task are there. No other task takes the place of the one that is requeued.
sleep 3
job=$(squeue --noheader --format=%F | head -1)
scontrol hold "$job" 2>/dev/null || true # it says that some tasks have begun
read -r victim task < <(squeue --noheader --states=RUNNING --sort=-S --format='%N %i' | head -1)
echo "killing $victim, which runs $task"
kill -9 "$(<"$slurm/slurmd.$victim.pid")"
rm "$slurm/slurmd.$victim.pid"
scontrol update nodename="$victim" state=down reason=killed
squeue --noheader --format='%i %T %r' | sed 's/^/  /'
# Requeued tasks wait two minutes; an administrator can start them at once.
while (($(squeue --noheader | wc -l))); do
    if squeue --noheader --array --states=PENDING --format=%i | grep -qx "$task"; then
        scontrol release "$task" || true
        scontrol update jobid="$task" starttime=now
    else
        scontrol release "$job" 2>/dev/null || true
    fi
    # Two files of attempts at the same shard.
    twice=$(find shards -name '*.partial' -printf '%f\n' | cut -d. -f1 | sort | uniq -d)
    [[ -n $twice && -z ${seen:-} ]] && { seen=$twice; echo "two attempts run at the same time: $seen"; }
    sleep 0.5
done
[[ -n ${seen:-} ]] || echo "no second attempt began before the first had ended: run again, with fewer TASKS"
echo "all tasks have ended after $((SECONDS - begin)) s; attempts: $(find shards -name 'slurm-*' | wc -l) logs"
"$forebay" sweep --collect shards --columns all --output collected.csv
"$forebay" "${sweep[@]}" --columns all --quiet --output undivided.csv --force
rows=$(($(wc -l <collected.csv) - 1))
if cmp collected.csv undivided.csv; then
    echo "the same $rows rows"
else
    echo "the rows differ"
    exit 1
fi
