//! Synchronisation of model copies: the routes between them, and how each bucket is reduced.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_collective::{Cost, Operation};
use forebay_engine::Span;
use forebay_engine::fluid::LinkId;
use forebay_report::{Direction, Part, Resource};
use forebay_scenario::{
    Bucket, Cluster, Fidelity, IntraKind, Job, Members, NicsAt, Node, Parameters, Sync, Transport,
};

use super::Builder;
use super::job::{JobCopy, cycle};
use crate::communication::{
    Averages, ByStepKind, Collectives, Communicator, CommunicatorRun, Cycle, Plan, Planned,
    RankRoutes, Ranks, Sequence, StepKind, SyncTracks,
};
use crate::env::{NodeSample, SampledBarrier};
use crate::ids::DeviceId;
use crate::job::{CutExchange, Piece, Program, Started};

/// The key of a link: what it is, and the node or rack where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::run) struct LinkPlace {
    pub(in crate::run) what: Resource,
    /// Number of the link among the links of the same sort at its node or rack.
    pub(in crate::run) index: u32,
    /// Number of the node or rack.
    pub(in crate::run) of: u32,
}

impl LinkPlace {
    /// Returns the place of the only link of this sort on a node.
    pub(in crate::run) fn of_node(part: Part, node: u32) -> LinkPlace {
        LinkPlace { what: Resource::node(part), index: 0, of: node }
    }

    /// Returns the place of the link of this sort at a GPU of a node.
    pub(in crate::run) fn of_gpu(part: Part, node: u32, gpu: u32) -> LinkPlace {
        LinkPlace { what: Resource::node(part), index: gpu, of: node }
    }
}

impl Builder<'_> {
    /// Adds the communicator of a job copy whose model copies compute on whole batches and exchange gradients, or average models, in
    /// the collectives of `programs`. The job copy has number `copy` among the copies of its job, and is on nodes from `node` on with
    /// devices from `device` on. Returns the routes between the model copies; `None` if they have no collectives.
    pub(in crate::run) fn sync(
        &mut self,
        of: &JobCopy,
        copy: u32,
        (node, device): (u32, DeviceId),
        (programs, sampled): (&ByStepKind<Vec<Program>>, Option<Arc<NodeSample>>),
    ) -> Option<Box<RankRoutes>> {
        let job = of.job;
        let sync = exchange_of_whole_batches(job).filter(|sync| sync.servers.is_none())?;
        let ways = match sampled {
            None => self.ways(of, sync.transport, node),
            Some(_) => self.idle_ways(of, sync.transport, node),
        };
        let nodes = node..node + job.nodes;
        let all = &self.scenario.cluster;
        let cluster = all.weakest(nodes.clone());
        let step = job.step.seconds(job.batch as f64)
            * all.step_factor(nodes.clone(), job.device, job.peak);
        let [inside, across, shared] = costs(job, sync, &cluster);
        let members = Members::new(0, 1, job.ranks());
        let plan = Plan {
            reduction: sync.reduction,
            broadcast: sync.root.as_ref().map_or(sync.reduction, |root| root.broadcast),
            measured: sync.measured.clone(),
            // Collectives of a sample of nodes take as long as those of all nodes.
            fidelity: if sampled.is_some() { Fidelity::Analytic } else { sync.fidelity },
            fabric: job.fabric(&cluster),
            inside,
            across,
            shared,
            uniform: self.scenario.cluster.kinds(nodes).len() == 1
                && is_uniform(job, sync, &cluster),
            side_by_side: vec![members],
            known: BTreeMap::new(),
        };
        // With a single rank nothing leaves the GPU, and no communication library is involved.
        let others = Some(sync).filter(|_| job.ranks() > 1);
        let averaged = job.averaging().is_some();
        let all = collectives(cycle(job), averaged, |kind| {
            let all =
                programs[kind].iter().flat_map(|program| &program.collectives[Communicator::Data]);
            all.map(|started| planned(started, step, others)).collect()
        });
        let (all, fusion) = (Arc::new(all), sync.buffer);
        let sequence = Sequence { collectives: all, each_step: !averaged, fusion };
        let devices = self.parts.devices.next_ids().0 - device;
        let devices = Members::new(device.number(), 1, devices);
        let ranks = Ranks { members, devices, starters: self.ranks_of(of) };
        let number = self.parts.communicators.next_ids().0;
        let mut communicator =
            CommunicatorRun::new((of.number, number), Communicator::Data, ranks, sequence, plan);
        communicator.barrier = sampled.map(|nodes| Box::new(SampledBarrier::new(nodes)));
        communicator.tracks = self.sync_tracks(&format!("{}[{copy}] gradients", job.name));
        self.parts.communicators.add(communicator);
        Some(Box::new(ways))
    }

    /// Returns the routes between the ranks of all nodes of a job copy, on links apart from those of the nodes that are simulated.
    fn idle_ways(&self, of: &JobCopy, transport: Transport, node: u32) -> RankRoutes {
        let mut apart = Builder::new((self.scenario, None), self.replication, false);
        let all: Vec<u32> = (0..of.job.nodes).collect();
        apart.take_gpus(of.index, node, &all);
        apart.ways(of, transport, node)
    }

    /// Returns the averages of the models of a job copy on nodes from `node` on; `None` if its learners do not average
    /// models.
    pub(in crate::run) fn averages(&self, job: &Job, node: u32) -> Option<Averages> {
        let averaging = job.averaging()?;
        let all: f64 = job.sync.iter().flat_map(|sync| &sync.buckets).map(|b| b.bytes as f64).sum();
        let bytes = job.model_on_each_gpu(if averaging.includes_bytes { 0.0 } else { all });
        let weakest = self.scenario.cluster.weakest(node..node + job.nodes);
        let bandwidth = weakest.node.gpu_memory_bandwidth;
        let overlap = job.sync.as_ref().is_some_and(|sync| sync.overlap);
        Some(Averages::new(averaging, overlap, &bytes, bandwidth))
    }

    /// Returns the timeline's tracks for gradient collectives and for gradients that wait for their collective; `None` if no
    /// timeline is recorded.
    fn sync_tracks(&mut self, process: &str) -> Option<SyncTracks> {
        let process = self.env.recorder.as_mut()?.process(process.to_owned());
        let reduction = self.track(Some(process), || "collectives".to_owned())?;
        let waiting = self.track(Some(process), || "waiting [B]".to_owned())?;
        Some(SyncTracks { reduction, waiting })
    }

    /// Returns the link at `place`, which all jobs on that node or rack share; adds the link at the first call.
    pub(in crate::run) fn link_at(&mut self, place: LinkPlace, bandwidth: f64) -> LinkId {
        self.node = place.of;
        // Storage data use the first NIC of a node too.
        match (place.what.part, place.index) {
            (Part::Nic(Direction::In), 0) => return self.nic(bandwidth),
            (Part::Nic(Direction::Out), 0) => return self.nic_out(bandwidth),
            _ => {}
        }
        if let Some(known) = self.links.get(&place) {
            return *known;
        }
        let link = self.own_link(place.what, bandwidth);
        self.links.insert(place, link);
        link
    }
}

/// Returns whether a node has two cores for each of its ranks: one for a message that the rank sends, and one for a message
/// that it receives.
fn has_cores(node: &Node, job: &Job) -> bool {
    let messages = 2 * u64::from(job.copies_per_node);
    let alike = node.most_threads() == 1 && job.cpu.quota >= messages as f64;
    alike && messages <= u64::from(node.cores)
}

/// Returns whether each rank has its own links on a `cluster` of equal nodes; only NICs may be shared, each by the same number
/// of ranks.
fn is_uniform(job: &Job, sync: &Sync, cluster: &Cluster) -> bool {
    let host = sync.transport.via_host && cluster.node.pcie.is_finite();
    let even = job.copies_per_node.is_multiple_of(cluster.node.nics) || job.copies_per_node == 1;
    let own_cores = sync.transport.cpu.is_none() || has_cores(&cluster.node, job);
    let alike = job.copies_each.is_empty() && cluster.racks.is_none();
    let one = job.copies_per_node == 1 && cluster.node.intra.tree.nics == NicsAt::Apart;
    let apart = cluster.node.intra.kind == IntraKind::Switch || one;
    apart && alike && own_cores && !host && even
}

/// Returns the cost of a transfer inside a node, of a transfer between nodes that has the NIC to itself, and of a transfer
/// between nodes while all other ranks of the node transfer too.
fn costs(job: &Job, sync: &Sync, cluster: &Cluster) -> [Cost; 3] {
    let transport = &sync.transport;
    let (gamma, cpu) = (1.0 / transport.sum, transport.cpu);
    // Both ends spend this time, one after the other.
    let cost = |latency: f64, rate: f64| Cost {
        alpha: latency + 2.0 * cpu.per_message,
        beta: 1.0 / rate + 2.0 * cpu.per_byte,
        gamma,
    };
    let intra = &cluster.node.intra;
    let to_nic = match intra.tree.nics {
        NicsAt::Apart => f64::INFINITY,
        NicsAt::Switches => intra.bandwidth,
        NicsAt::Root => intra.least(),
    };
    let wire = cluster.nic.min(to_nic) * transport.efficiency;
    let on_nic = f64::from(job.copies_per_node.div_ceil(cluster.node.nics));
    let inside = cluster.node.intra.least().min(transport.per_stream_inside);
    [
        cost(transport.latency_inside, inside),
        cost(transport.latency, wire.min(transport.per_stream)),
        cost(transport.latency, (wire / on_nic).min(transport.per_stream)),
    ]
}

/// Returns the collectives of steps that follow `cycle`; `of` returns those of a kind of step. Those that average the models of
/// learners are all in one step.
pub(in crate::run) fn collectives(
    cycle: Cycle,
    averaged: bool,
    of: impl Fn(StepKind) -> Vec<Planned>,
) -> Collectives {
    match averaged {
        true => Collectives::new(Cycle::EACH_STEP, |_| of(cycle.last())),
        false => Collectives::new(cycle, of),
    }
}

/// Returns the plan of a collective in a step of duration `step` [s]. Without `sync` no communication library is involved.
pub(in crate::run) fn planned(started: &Started, step: f64, sync: Option<&Sync>) -> Planned {
    let Started { operation, bytes, tensors, late, then } = *started;
    let (late, per_tensor) =
        sync.map_or((0.0, 0.0), |sync| (late * step, sync.transport.per_tensor));
    let overhead = Span::from_seconds(per_tensor * f64::from(tensors));
    Planned { operation, bytes, late: Span::from_seconds(late), overhead, then }
}

/// Returns how the model copies of a job exchange gradients, or average models, if they compute on whole batches and exchange
/// anything.
pub(in crate::run) fn exchange_of_whole_batches(job: &Job) -> Option<&Sync> {
    let alone = job.ranks() < 2 && !job.sums_gradients() && job.servers().is_none();
    job.sync.as_ref().filter(|_| !alone && job.parallelism.is_none())
}

/// Returns the exchange at the end of a step of `job` on a whole batch, and the pieces that it cuts the step into.
pub(in crate::run) fn cut_exchange(job: &Job, sync: &Sync) -> CutExchange {
    let parameters = sync.root.iter().flat_map(|root| &root.parameters);
    let needed = until(parameters.clone().map(|of| of.needed).collect());
    // Parameters are complete only after the step.
    let after = job.averages_parameters();
    let ready = |of: &Bucket| if after { 1.0 } else { sync.ready(of).min(1.0) };
    let ready = from_then(sync.buckets.iter().map(ready).collect());
    let reduction = |of: &Bucket| {
        // A framework's cycle may end after the step has ended.
        let late = (sync.ready(of) - 1.0).max(0.0);
        Started { tensors: of.tensors, late, ..Started::at_once(sync.operation(), of.bytes) }
    };
    let mut ends: Vec<f64> = needed.iter().chain(&ready).copied().chain([1.0]).collect();
    ends.retain(|end| *end > 0.0);
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    let (mut start, mut made, mut pieces) = (0.0, 0, Vec::new());
    for end in ends {
        let needs = needed.partition_point(|at| *at <= start) as u32;
        let by_then = ready.partition_point(|at| *at <= end);
        let ready = &sync.buckets[made..by_then];
        let compress = ready.iter().map(|bucket| bucket.compress).sum();
        let bytes = ready.iter().map(|bucket| bucket.raw as f64).sum();
        let reductions = ready.iter().map(reduction).collect();
        pieces.push(Piece { share: end - start, compress, needs, made: reductions, bytes });
        (start, made) = (end, by_then);
    }
    let broadcast = |of: &Parameters| Started {
        tensors: of.tensors,
        ..Started::at_once(Operation::Broadcast, of.bytes)
    };
    // A root updates parameters; without a root every device decompresses gradients.
    let decompress = (sync.decompress * sync.received(job.ranks()), u32::MAX);
    let update = sync.root.as_ref().map_or(decompress, |root| (root.update, 1));
    CutExchange { pieces, broadcasts: parameters.map(broadcast).collect(), update }
}

/// Returns the time by which each parameter bucket must have arrived, given the time when each bucket is used. A computation that
/// waits for a bucket also waits for all buckets sent before it. So each bucket is needed no later than the buckets sent after
/// it.
fn until(mut needed: Vec<f64>) -> Vec<f64> {
    let mut least = f64::INFINITY;
    for at in needed.iter_mut().rev() {
        least = least.min(*at);
        *at = least;
    }
    needed
}

/// Returns the time from which each gradient bucket can be reduced. Buckets are reduced in order, so no bucket can be reduced
/// earlier than the buckets before it.
fn from_then(mut ready: Vec<f64>) -> Vec<f64> {
    let mut most = 0.0_f64;
    for at in &mut ready {
        most = most.max(*at);
        *at = most;
    }
    ready
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn need_and_ready_times_of_buckets_never_decrease_in_exchange_order() {
        assert_eq!(until(vec![0.2, 0.0, 0.5, 0.3]), [0.0, 0.0, 0.3, 0.3]);
        assert_eq!(from_then(vec![0.6, 0.9, 0.7, 1.0]), [0.6, 0.9, 0.9, 1.0]);
    }
}
