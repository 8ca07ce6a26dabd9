#!/usr/bin/env bash
# Calibrates clusters whose limits are known: hosts are network namespaces with shaped links, on this machine's kernel, and their shared
# storage is a file system on a loop device behind a throttle, or a parallel file system (MooseFS) behind their links.
#   tests/cluster/calibrate.sh PROGRAM DIR [CASE...]
# Needs root on a machine of one's own, and slurm-wlm munge openmpi-bin libopenmpi-dev iproute2 iperf3 fio moosefs-master
# moosefs-chunkserver moosefs-client. Writes below DIR; network namespaces fch1 to fch6 and fcs1, fcs2 are made and removed.
#   limits     three hosts of 200 Mbit/s under Slurm, storage of 40 MB/s and 400 requests/s          six minutes
#   trunk      four hosts of 200 Mbit/s under mpirun, two and two joined by 300 Mbit/s; MPI's own all-reduce   three minutes
#   gigabit    three hosts of 1 Gbit/s, by --hosts                                                    half a minute
#   slow [N]   N rounds (20): a slow NIC, a slow disk and half of the cores, each on another host     two minutes a round
#   equal [N]  N rounds (20) of equal hosts                                                           a minute and a half a round
#   parallel   four hosts on MooseFS: reads through the NIC that carries all-reduce too; its one queue for all streams is not simulated,
#              and the profile says how much that matters                                        six minutes
#   fair       the same, with switches that share each link equally among streams, as forebay assumes six minutes
#   hangs      three hosts on MooseFS, whose server hangs amid the reads and goes on later              four minutes
set -u
program=$(realpath "${1:?the program}"); place=$(realpath -m "${2:?a directory}"); shift 2
here=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$place"; cd "$place"
group=/sys/fs/cgroup/blkio/forebay-test
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
trap 'down' EXIT

# --- hosts
down() {
    slurm_down; moose_down
    for name in fcs1 fcs2 $(seq -f 'fch%g' 1 6); do ip netns del "$name" 2>/dev/null; done
    for mounted in disk blkio; do mountpoint -q "$place/$mounted" && umount "$place/$mounted"; done
    rmdir $group/slow $group 2>/dev/null
}
# up N RATE [TRUNK]: hosts fch1 to fchN on a switch, or on two switches that a trunk joins.
up() {
    local hosts=$1 rate=$2 trunk=${3:-} host switch
    for name in fcs1 fcs2; do
        ip netns add $name; ip -n $name link add br0 type bridge; ip -n $name link set br0 up; ip -n $name link set lo up
    done
    for host in $(seq "$hosts"); do
        switch=fcs1; test -n "$trunk" && test "$host" -gt $((hosts / 2)) && switch=fcs2
        ip netns add fch$host
        ip link add eth0 netns fch$host type veth peer name p$host netns $switch
        ip -n $switch link set p$host master br0 up
        ip -n fch$host addr add 10.78.0.$host/24 dev eth0; ip -n fch$host link set eth0 up; ip -n fch$host link set lo up
        ip -n fch$host route replace 10.78.0.0/24 dev eth0 src 10.78.0.$host congctl cubic
        shape "$host" "$rate" $switch
    done
    test -n "$trunk" || return 0
    ip link add t0 netns fcs1 type veth peer name t0 netns fcs2
    for switch in fcs1 fcs2; do
        ip -n $switch link set t0 master br0 up
        tc -n $switch qdisc add dev t0 root tbf rate "$trunk" burst 64kb latency 20ms
    done
}
# shape HOST RATE SWITCH: both directions of a host's NIC.
shape() {
    tc -n fch"$1" qdisc replace dev eth0 root tbf rate "$2" burst 64kb latency 20ms
    tc -n "$3" qdisc replace dev p"$1" root tbf rate "$2" burst 64kb latency 20ms
}
# share HOST RATE: the switch sends to a host what the server sends, in four streams, and what other hosts send, in one, by equal shares of
# each stream. A queue for all drops whole bursts of the stream that has to start anew at each step of a ring.
share() {
    local port=p$1 class
    tc -n fcs1 qdisc del dev "$port" root; tc -n fcs1 qdisc add dev "$port" root handle 1: htb default 10
    tc -n fcs1 class add dev "$port" parent 1: classid 1:1 htb rate "$2mbit" ceil "$2mbit" burst 64kb quantum 60000
    tc -n fcs1 class add dev "$port" parent 1:1 classid 1:10 htb rate $(($2 / 5))mbit ceil "$2mbit" burst 64kb quantum 15000
    tc -n fcs1 class add dev "$port" parent 1:1 classid 1:20 htb rate $(($2 * 4 / 5))mbit ceil "$2mbit" burst 64kb quantum 60000
    tc -n fcs1 filter add dev "$port" parent 1: protocol ip u32 match ip src 10.78.0.5/32 flowid 1:20
    for class in 10 20; do tc -n fcs1 qdisc add dev "$port" parent 1:$class pfifo limit 300; done
}
# disk BYTES_PER_SECOND REQUESTS_PER_SECOND: a throttled disk for all processes of the group.
disk() {
    # Within a host's namespaces /sys has no control groups, so that they are also mounted here.
    mkdir -p disk blkio $group/slow
    mountpoint -q blkio || mount --bind /sys/fs/cgroup/blkio blkio
    mountpoint -q disk || { truncate -s 3G disk.img; mkfs.ext4 -q -F disk.img; mount -o loop disk.img disk; }
    device=$(lsblk -no MAJ:MIN "$(findmnt -no SOURCE "$place/disk")" | tr -d ' ')
    echo "$device $1" > $group/blkio.throttle.read_bps_device
    echo "$device $2" > $group/blkio.throttle.read_iops_device
    echo "$device 0" > $group/slow/blkio.throttle.read_bps_device
    chmod 1777 disk
}
# A remote shell: `rsh HOST COMMAND` runs a command in a host's namespaces. On the hosts in `cores` it gets one core, on those in `disks` a
# slower disk.
cat > rsh <<P
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
host=\$1; shift
grep -qsx "\$host" "$place/disks" && echo \$\$ > $place/blkio/forebay-test/slow/cgroup.procs
mask=\$(nproc --all); mask=0-\$((mask - 1)); grep -qsx "\$host" "$place/cores" && mask=0
# A shell that another host's shell started sees that host's mount.
mount=true; test -e "$place/mounted" && mount="umount -l $place/shared 2> /dev/null; mfsmount -H 10.78.0.5 $place/shared > /dev/null"
exec ip netns exec "\$host" taskset -c \$mask unshare -u bash -c "hostname \$host; \$mount; exec /bin/sh -c \"\\\$0\"" "\$*"
P
chmod +x rsh
# calibrate OUTPUT HOSTS OPTIONS...: by --hosts, from the first host.
calibrate() {
    local output=$1 count=$2; shift 2
    seq -f 'fch%g' 1 "$count" > hosts
    "$place/rsh" fch1 "$program calibrate --hosts $place/hosts --ssh $place/rsh --directory ${storage:-$place/disk} -o $output $*"
}
# value PROFILE FIT PARAMETER: a value of a profile.
value() { "$program" profile show "$1" --format json | python3 -c "
import json, sys
of = json.load(sys.stdin)
for name in '$2'.split('.'): of = of[name]
print(of['parameters']['$3']['value'] if 'parameters' in of else of['$3'])"; }
# compare WHAT FOUND TRUTH MOST: prints both, and whether they differ by at most MOST per cent.
compare() { python3 -c "
off = 100 * ($2 / $3 - 1)
print(f'$1: {$2:.6g} for {$3:.6g} ({off:+.1f} %)', '' if abs(off) <= $4 else 'WRONG')"; }

# --- Slurm: a slurmd in each host's namespaces
slurm_down() {
    for file in slurm/*.pid; do test -s "$file" && kill "$(cat "$file")" 2>/dev/null; done
    test -d slurm && sleep 3
    for file in slurm/*.pid; do test -s "$file" && kill -9 "$(cat "$file")" 2>/dev/null; done
    rm -rf slurm
}
slurm_up() {
    local hosts=$1 cpus; cpus=$(nproc)
    mkdir -p slurm/state slurm/log; chmod 755 slurm
    export SLURM_CONF=$place/slurm/slurm.conf PATH=$PATH:/usr/sbin
    (umask 077; head -c 128 /dev/urandom > slurm/munge.key)
    munged --force --key-file="$place/slurm/munge.key" --socket="$place/slurm/munge.sock" --pid-file="$place/slurm/munged.pid" \
        --log-file="$place/slurm/log/munged" --seed-file="$place/slurm/seed" --num-threads=2
    cat > slurm/slurm.conf <<P
ClusterName=forebay
SlurmctldHost=fch1(10.78.0.1)
SlurmctldPort=23817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$place/slurm/munge.sock
CredType=cred/munge
StateSaveLocation=$place/slurm/state
SlurmdSpoolDir=$place/slurm/spool-%n
SlurmctldPidFile=$place/slurm/slurmctld.pid
SlurmdPidFile=$place/slurm/slurmd.%n.pid
SlurmctldLogFile=$place/slurm/log/slurmctld
SlurmdLogFile=$place/slurm/log/slurmd.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
$(for host in $(seq "$hosts"); do echo "NodeName=fch$host NodeHostname=fch$host NodeAddr=10.78.0.$host CPUs=$cpus State=UNKNOWN"; done)
PartitionName=main Nodes=fch[1-$hosts] Default=YES MaxTime=INFINITE State=UP
P
    printf 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n' > slurm/cgroup.conf
    ./rsh fch1 "$(command -v slurmctld || echo /usr/sbin/slurmctld) -f $SLURM_CONF"
    for host in $(seq "$hosts"); do ./rsh fch"$host" "$(command -v slurmd || echo /usr/sbin/slurmd) -f $SLURM_CONF -N fch$host"; done
    for _ in $(seq 100); do
        test "$(ip netns exec fch1 sinfo -h -t idle -o %D 2>/dev/null)" = "$hosts" && return 0; sleep 0.2
    done
    echo "Slurm does not come up"; tail -3 slurm/log/*; return 1
}

# --- MooseFS: a server on fch5 with a link of 1 Gbit/s; each remote shell mounts it by FUSE in its own namespaces
moose_down() {
    for pid in $(pgrep -f "mfsmount.*$place/shared" 2>/dev/null); do kill "$pid" 2>/dev/null; done
    test -d moose || return 0
    ip netns exec fch5 mfschunkserver -c "$place/moose/chunks.cfg" stop > moose/stop.log 2>&1
    ip netns exec fch5 mfsmaster -c "$place/moose/master.cfg" stop >> moose/stop.log 2>&1
    mountpoint -q moose/hdd && umount moose/hdd
    rm -rf moose mounted
}
moose_up() {
    mkdir -p moose/master moose/chunks moose/hdd shared; chmod -R 777 moose
    truncate -s 3G moose/img; mkfs.ext4 -q -F moose/img; mount -o loop moose/img moose/hdd; chmod 777 moose/hdd
    printf 'MFSM NEW' > moose/master/metadata.mfs; touch moose/topology.cfg
    echo '* / rw,alldirs,admin,maproot=0:0' > moose/exports.cfg
    echo "$place/moose/hdd" > moose/hdd.cfg
    cat > moose/master.cfg <<P
WORKING_USER=root
WORKING_GROUP=root
DATA_PATH=$place/moose/master
EXPORTS_FILENAME=$place/moose/exports.cfg
TOPOLOGY_FILENAME=$place/moose/topology.cfg
P
    cat > moose/chunks.cfg <<P
WORKING_USER=root
WORKING_GROUP=root
DATA_PATH=$place/moose/chunks
HDD_CONF_FILENAME=$place/moose/hdd.cfg
MASTER_HOST=10.78.0.5
BIND_HOST=10.78.0.5
HDD_LEAVE_SPACE_DEFAULT=64MiB
P
    ip netns exec fch5 mfsmaster -c "$place/moose/master.cfg" start > moose/start.log 2>&1 || { cat moose/start.log; return 1; }
    ip netns exec fch5 mfschunkserver -c "$place/moose/chunks.cfg" start >> moose/start.log 2>&1 || { cat moose/start.log; return 1; }
    touch mounted; sleep 3
}

# --- cases
limits() {
    rm -rf limits; up 3 200mbit; disk 40000000 400
    echo $$ > $group/cgroup.procs
    slurm_up 3 || return
    ip netns exec fch1 srun -N 3 --ntasks-per-node=1 --chdir="$place" \
        "$program" calibrate --plan cluster --directory "$place/disk" --output "$place/limits"
    echo "exit code $?"
    # Truth: iperf3 for the link, fio for the disk.
    ip netns exec fch2 iperf3 -s -1 -D; sleep 0.5
    local nic; nic=$(ip netns exec fch1 iperf3 -c 10.78.0.2 -P 4 -t 5 --json | python3 -c "import json,sys; print(json.load(sys.stdin)['end']['sum_received']['bits_per_second'] / 8)")
    reader() { fio --name=x --directory=disk --direct=1 --rw=randread --size=256m --bs="$1" --numjobs="$2" --time_based --runtime=5 --ramp_time=1 --group_reporting --output-format=json |
        python3 -c "import json,sys; of=json.load(sys.stdin)['jobs'][0]['read']; print(of['$3'])"; }
    compare "NIC [B/s]" "$(value limits/profile.toml network.nic bandwidth)" "$nic" 5
    compare "storage [B/s]" "$(value limits/profile.toml storage.direct bandwidth)" "$(reader 1m 4 bw_bytes)" 5
    compare "storage [1/s]" "$(value limits/profile.toml storage.direct operations)" "$(reader 4k 4 iops)" 5
    left_out limits
    for size in 1048576 16777216 67108864; do
        compare "all-reduce of $size B [s]" "$(value limits/profile.toml transport.tcp.allreduce-3 at_$size 2>/dev/null || echo nan)" "(2 * 2 / 3 * $size / $nic)" 8
    done
    slurm_down; down
}
# left_out OUTPUT: fits without the reads by two nodes, and predicts them.
left_out() {
    python3 - "$1" "$program" <<'P'
import collections, json, statistics, subprocess, sys, os
folder, program = sys.argv[1:]
samples = [json.loads(line) for line in open(f"{folder}/samples.jsonl")]
reads = [s for s in samples if s["probe"] == "shared-read" and "again" not in s["labels"]]
counts = sorted({s["settings"]["nodes"] for s in reads})
for out in counts[1:]:
    with open("part.jsonl", "w") as to:
        for s in samples:
            if not (s["probe"] in ("shared-read", "drift") and s["settings"]["nodes"] == out): to.write(json.dumps(s) + "\n")
    subprocess.run([program, "profile", "fit", "part.jsonl", "--like", f"{folder}/profile.toml", "-o", "part.toml"], check=True)
    show = json.loads(subprocess.run([program, "profile", "show", "part.toml", "--format", "json"], capture_output=True, check=True).stdout)
    p = {k: v["value"] for k, v in show["storage"]["direct" if "direct" in show["storage"] else "cold"]["parameters"].items()}
    inf = lambda name: p.get(name) or float("inf")
    trials = collections.defaultdict(lambda: collections.defaultdict(float))
    for s in reads:
        if s["settings"]["nodes"] == out:
            trials[(s["settings"]["streams"], s["settings"]["size"])][s["trial"]] += s["operations"] / s["seconds"]
    worst, errors = 0, []
    for (streams, size), rates in sorted(trials.items()):
        measured = statistics.median(rates.values())
        alone = p.get("latency", 0) + size / inf("per_stream")
        predicted = min(out * streams / alone if alone > 0 else float("inf"), inf("bandwidth") / size, inf("operations"), out * inf("per_client") / size)
        errors.append(100 * (predicted / measured - 1))
    print(f"reads by {out:.0f} nodes, left out of the fit: errors", ", ".join(f"{e:+.1f}" for e in errors), "%", "" if max(map(abs, errors)) <= 10 else "WRONG")
P
}
trunk() {
    rm -rf trunk; up 4 200mbit 300mbit; disk 0 0
    seq -f 'fch%g slots=1' 1 4 > hostfile
    for host in $(seq 4); do mkdir -p /etc/netns/fch$host; seq 4 | sed 's/.*/10.78.0.& fch&/' > /etc/netns/fch$host/hosts; done
    ./rsh fch1 "mpirun --mca plm_rsh_agent $place/rsh --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
        --hostfile $place/hostfile -np 4 --map-by node --mca mpi_yield_when_idle 1 -x PATH $program calibrate --plan cluster \
        --only pair,allreduce --mpi-probe --directory $place/disk --output $place/trunk"
    echo "exit code $?"
    rm -rf /etc/netns/fch[1-4]
    compare "NIC [B/s]" "$(value trunk/profile.toml network.nic bandwidth)" "(200e6 / 8 * 0.96)" 5
    compare "trunk [B/s]" "$(value trunk/profile.toml network.uplink bandwidth)" "(300e6 / 8 * 0.96)" 5
    compare "nodes of a rack" "$(value trunk/profile.toml network.uplink nodes)" 2 0
    down
}
gigabit() {
    rm -rf gigabit; up 3 1gbit; disk 0 0
    calibrate "$place/gigabit" 3 --plan cluster --only pair
    compare "NIC [B/s]" "$(value gigabit/profile.toml network.nic bandwidth)" "(1e9 / 8 * 0.96)" 5
    down
}
# Rounds with one slow host each time another one, and with none.
slow() {
    local rounds=${1:-20} wrong=0 round odd what
    for round in $(seq "$rounds"); do
        up 3 200mbit; disk 40000000 400; rm -f disks cores; echo $$ > $group/cgroup.procs
        odd=$((round % 3 + 1)); what=$((round % 3))
        case $what in
        0) shape $odd 140mbit fcs1;;
        1) echo fch$odd > disks; echo "$device 28000000" > $group/slow/blkio.throttle.read_bps_device;;
        2) echo fch$odd > cores;;
        esac
        rm -rf slow-out; calibrate "$place/slow-out" 3 --plan "$here/calibrate/plans/check.toml" > slow.log 2>&1
        local named; named=$(grep -oE '^fch[0-9] (sends|receives|reads|writes|decodes|copies|has)' slow.log | sort -u | tr '\n' ';')
        local others own
        others=$(echo "$named" | tr ';' '\n' | grep -c '^fch'); own=$(echo "$named" | tr ';' '\n' | grep -c "^fch$odd ")
        test "$own" -gt 0 && test "$own" = "$others" || { wrong=$((wrong + 1)); cat slow.log; }
        echo "round $round: $(echo 'NIC disk cores' | cut -d' ' -f$((what + 1))) of fch$odd: $named"
        down
    done
    echo "slow: $wrong of $rounds rounds wrong"
}
equal() {
    local rounds=${1:-20} wrong=0 round
    for round in $(seq "$rounds"); do
        up 3 200mbit; disk 40000000 400; rm -f disks cores; echo $$ > $group/cgroup.procs
        rm -rf equal-out; calibrate "$place/equal-out" 3 --plan "$here/calibrate/plans/check.toml" > equal.log 2>&1
        grep -q 'no node falls behind' equal.log || { wrong=$((wrong + 1)); cat equal.log; }
        echo "round $round: $(grep -cE '^fch[0-9] ' equal.log) named"
        down
    done
    echo "equal: $wrong of $rounds rounds wrong"
}
parallel() { moose parallel; }
fair() { moose fair; }
moose() {
    local host
    rm -rf "$1"; up 5 200mbit; shape 5 1gbit fcs1; disk 0 0; moose_up || return
    test "$1" = fair && for host in 1 2 3 4; do share $host 200; done
    storage=$place/shared calibrate "$place/$1" 4 --plan cluster --only pair,shared-read,allreduce,beside
    echo "exit code $?"
    left_out "$1"
    together "$1"
    down
}
hangs() {
    local server begin code kept again
    rm -rf hangs; up 5 200mbit; shape 5 1gbit fcs1; disk 0 0; moose_up || return
    reads() { storage=$place/shared calibrate "$place/hangs" 3 --plan "$here/calibrate/plans/check.toml" --only shared-read; }
    reads > hangs.log 2>&1 & local run=$!
    for _ in $(seq 600); do grep -qs shared-read hangs/samples.jsonl && break; sleep 0.1; done
    server=$(ip netns exec fch5 mfschunkserver -c "$place/moose/chunks.cfg" test 2>&1 | grep -oE 'pid: ?[0-9]+' | grep -oE '[0-9]+')
    kill -STOP "$server"; begin=$SECONDS
    wait $run; code=$?
    test $code = 3 && test $((SECONDS - begin)) -le 90 && grep -qE 'fch[1-3].*does its storage or network hang' hangs.log &&
        echo "a hanging server: exit code $code after $((SECONDS - begin)) s" || { echo "a hanging server: WRONG: exit code $code after $((SECONDS - begin)) s"; cat hangs.log; }
    kill -CONT "$server"; sleep 3
    kept=$(wc -l < hangs/samples.jsonl); again=$(sha1sum < hangs/samples.jsonl)
    reads > hangs.log 2>&1; code=$?
    test $code = 0 && test "$(head -n "$kept" hangs/samples.jsonl | sha1sum)" = "$again" &&
        echo "it goes on: $kept samples kept of $(wc -l < hangs/samples.jsonl)" || { echo "it goes on: WRONG: exit code $code"; cat hangs.log; }
    down
}
# together OUTPUT: predicts reads and all-reduce at the same time, from what was measured of each apart.
together() {
    # The vector that was added up beside reads.
    local vector; vector=$(python3 -c "import json; print(int([s for s in map(json.loads, open('$1/samples.jsonl')) if s['probe'] == 'beside'][0]['settings']['bytes']))")
    cat > together.toml <<P
name = "together"
profile = "$1/profile.toml"
run = { duration = "60 s", warm_up = "off", replications = 1 }
storage.s.parallel-fs = {}
storage.m.memory = {}
dataset.files = { samples = 2000, sample_size = "4 MiB" }
dataset.none = { samples = 100000, sample_size = "1 B" }
cluster = { nodes = 4, share_nodes = true, node.page_cache = "none" }
[[job]]
name = "read"
nodes = 4
dataset = "files"
storage = "s"
batch = 1
loader.tf-queue = { threads = 4, capacity = "1 samples" }
model.step = "1 us"
[[job]]
name = "ring"
nodes = 4
dataset = "none"
storage = "m"
batch = 1
loader.tf-queue = { threads = 1, capacity = "8 samples" }
model.step = "1 us"
sync.allreduce = { gradients = "$vector B", buckets = "all", algorithm = "ring", fidelity = "flow" }
P
    python3 - "$1" "$program" <<'P'
import json, statistics, subprocess, sys
folder, program = sys.argv[1:]
samples = [json.loads(line) for line in open(f"{folder}/samples.jsonl")]
def each(what): return [s for s in samples if s["probe"] == "beside" and s["labels"]["what"] == what]
rates = {}
for s in each("read"): rates[s["trial"]] = rates.get(s["trial"], 0) + s["operations"] / s["seconds"]
reads = statistics.median(rates.values())
ring = statistics.median(s["seconds"] / s["operations"] for s in each("allreduce"))
run = subprocess.run([program, "run", "together.toml", "--format", "json"], capture_output=True, text=True)
if run.returncode: sys.exit(run.stderr)
jobs = {job["name"]: job for job in json.loads(run.stdout)["jobs"]}
for what, predicted, measured in [("files/s", jobs["read"]["samples_per_second"]["mean"], reads), ("all-reduce [s]", jobs["ring"]["step_time"]["mean"], ring)]:
    off = 100 * (predicted / measured - 1)
    print(f"together, {what}: predicted {predicted:.4g}, measured {measured:.4g} ({off:+.1f} %)", "" if abs(off) <= 10 else "WRONG")
P
}
while test $# -gt 0; do
    name=$1; shift
    case ${1:-} in [0-9]*) "$name" "$1"; shift;; *) "$name";; esac
done
