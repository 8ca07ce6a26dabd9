//! Models that are spread over GPUs: their links, communicators and programs.

use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use forebay_engine::fluid::{GroupId, LinkId};
use forebay_report::{Direction, ParallelOutcome, Part};
use forebay_scenario::{Members, Transport};

use super::Builder;
use super::job::{JobCopy, cycle};
use super::layout::{Laid, OfStageInSteps, Set};
use super::sync::LinkPlace;
use crate::communication::{
    ByStepKind, Communicator, CommunicatorRun, RankRoutes, Ranks, Sequence,
};
use crate::ids::{CommunicatorId, DeviceId, Ids, RangeVec, RankId};
use crate::job::{Op, ParallelDevice, Program, Programs, Spread};

/// The state of a job copy whose model copies are divided into stages.
pub(in crate::run) struct Stages {
    pub(in crate::run) spread: Spread,
    pub(in crate::run) ways: RankRoutes,
    /// The programs of each kind of step, ordered by model copy, then by stage. Model copies whose programs are equal share one
    /// entry for each stage.
    pub(in crate::run) programs: Programs,
}

impl Builder<'_> {
    /// Builds the stages of a job copy on nodes from `node` on; its first device has number `first`, and `number` is its number
    /// among the copies of its job. `ways` are the routes between its GPUs, if they have been made. Returns `None` if the model
    /// copies are not spread over GPUs.
    pub(in crate::run) fn parallel(
        &mut self,
        copy: &JobCopy,
        number: u32,
        (node, first): (u32, DeviceId),
        ways: Option<RankRoutes>,
    ) -> Option<Stages> {
        let job = copy.job;
        let of = job.parallelism.as_ref()?;
        let cluster = self.scenario.cluster.weakest(node..node + job.nodes);
        let links = Transport::of_links(cluster.node.intra.latency, cluster.latency);
        let transport = job.sync.as_ref().map_or(links, |sync| sync.transport);
        let ways = ways.unwrap_or_else(|| self.ways(copy, transport, node));
        let nodes = job.nodes_of_gpus().into_iter().collect();
        let factor =
            self.scenario.cluster.step_factor(node..node + job.nodes, job.device, job.peak);
        let step = job.step_seconds() * factor;
        let cycle = cycle(job);
        let laid = Laid { job, of, number: copy.number, first, cluster, nodes, ways, step, cycle };
        let programs = ByStepKind::of(cycle, |kind| {
            laid.experts().flat_map(|expert| laid.programs(expert, kind)).collect()
        });
        let mut parts = self.gpu_parts(&laid, node);
        self.communicators_of_copies(&laid, &programs, &mut parts);
        self.communicators_of_parts(&laid, &programs, &mut parts);
        self.servers_of_parts(copy, number, &laid, &programs[cycle.last()]);
        let micro_batches = f64::from(of.micro_batches);
        let spread = Spread {
            micro_batches,
            step_of: of.step_of,
            speed: self.scenario.cluster.node.gpu_speed,
            parts,
            ranks: job.ranks_of_stage(),
            bytes: of.activations / micro_batches / f64::from(of.context_ranks()),
            neighbours: neighbours(&programs[cycle.kind(0)][..job.shares().len()]),
            inside: None,
            books: ParallelOutcome::default(),
            shown: true,
        };
        Some(Stages { spread, ways: laid.ways, programs: Programs::new(cycle, &programs) })
    }

    /// Adds the communicators between the same stage of different model copies.
    fn communicators_of_copies(
        &mut self,
        laid: &Laid<'_>,
        all: &ByStepKind<Vec<Program>>,
        parts: &mut RangeVec<DeviceId, ParallelDevice>,
    ) {
        for stage in 0..laid.job.shares().len() {
            let program = OfStageInSteps { all, stage };
            for (kind, sets) in laid.sets(stage as u32) {
                self.share(laid, program, (kind, &sets), parts);
            }
        }
        self.continue_shards(laid, parts);
    }

    /// Lets the ranks that hold the same shards sum them once each group has reduced its own.
    fn continue_shards(&mut self, laid: &Laid<'_>, parts: &RangeVec<DeviceId, ParallelDevice>) {
        for (d, part) in (0..).map(|place| laid.first + place).zip(parts.as_slice()) {
            for experts in [false, true] {
                let of = |kind: Communicator| part.communicators[kind.for_experts(experts)];
                let (shards, replicas) = (of(Communicator::Shard), of(Communicator::Replica));
                // A group reduces the gradients of one tensor-parallel rank of each model copy; those of its ranks that split
                // sequences have shards of their own.
                let each = replicas.len() / shards.len().max(1);
                for (c, place) in shards.iter().zip(0..) {
                    let first = replicas.start + place * each as u32;
                    let all = Ids::new(first, first + each as u32).iter().map(|next| (next, d));
                    self.parts.communicators.continue_with(c, all);
                }
            }
        }
    }

    /// Adds a communicator for each group of GPUs in `sets`. Every device of a set takes part in all communicators of the set.
    fn share(
        &mut self,
        laid: &Laid<'_>,
        program: OfStageInSteps<'_>,
        (kind, sets): (Communicator, &[Set]),
        parts: &mut RangeVec<DeviceId, ParallelDevice>,
    ) {
        let own =
            |set: &Set| set.groups.iter().map(|group| (*group, set.devices, set.copies)).collect();
        let groups: Vec<(Members, Members, u32)> = sets.iter().flat_map::<Vec<_>, _>(own).collect();
        let all = self.communicators(laid, program, kind, &groups);
        if all.is_empty() {
            return;
        }
        let mut begin = all.start;
        for Set { devices, groups, .. } in sets {
            let end = begin + groups.len() as u32;
            for device in devices.gpus() {
                let part = &mut parts[DeviceId::new(device)];
                part.communicators[kind] = Ids::new(begin, end);
            }
            begin = end;
        }
    }

    /// Adds one communicator for each of `groups`, each with its devices and the number of participants that start its
    /// collectives; all these communicators do the same collectives at the same time. Returns the ids of the communicators.
    fn communicators(
        &mut self,
        laid: &Laid<'_>,
        program: OfStageInSteps<'_>,
        kind: Communicator,
        groups: &[(Members, Members, u32)],
    ) -> Ids<CommunicatorId> {
        let begin = self.parts.communicators.next_ids();
        let ranks = groups.first().map_or(0, |(group, ..)| group.ranks);
        let collectives = Arc::new(laid.collectives(program, (kind, ranks)));
        // Learners on the same GPUs may do their collectives one after the other.
        let mut known = BTreeSet::new();
        let apart = groups.iter().map(|(group, ..)| *group);
        let apart: Vec<Members> = apart.filter(|group| known.insert(group.first)).collect();
        if let Some(plan) = laid.plan(kind, &collectives, &apart) {
            for (members, devices, starters) in groups.iter().copied() {
                let ranks = Ranks { members, devices, starters };
                let (collectives, fusion) = (Arc::clone(&collectives), laid.fusion(kind));
                let each_step = !laid.is_averaged(kind);
                let sequence = Sequence { collectives, each_step, fusion };
                let number = (laid.number, self.parts.communicators.next_ids().0);
                let run = CommunicatorRun::new(number, kind, ranks, sequence, plan.clone());
                self.parts.communicators.add(run);
            }
        }
        self.parts.communicators.ids_from(begin).0
    }

    /// Returns the initial state of all devices (stages of model copies), on nodes from `first` on.
    fn gpu_parts(&mut self, laid: &Laid<'_>, first: u32) -> RangeVec<DeviceId, ParallelDevice> {
        let (job, mut parts) = (laid.job, Vec::new());
        let learners = |copy| iter::repeat_n(copy, job.learners.most as usize);
        for copy in (0..job.ranks()).flat_map(learners) {
            for stage in 0..job.shares().len() as u32 {
                let gpus = job.stage_group(copy, stage);
                let slowness = self.slowest(laid, gpus, first);
                let pcie = self.swap_ways(laid, gpus, first);
                let inputs = 2 * laid.of.schedule.chunks() as usize;
                parts.push(ParallelDevice::new((gpus.first, slowness), pcie, inputs));
            }
        }
        RangeVec::new(laid.first, parts)
    }

    /// Returns the slowdown of the slowest of `gpus` relative to the GPUs of the cluster's first nodes; the job copy is on nodes
    /// from `first` on.
    fn slowest(&self, laid: &Laid<'_>, gpus: Members, first: u32) -> f64 {
        let all = Ids::new(RankId::new(gpus.first), RankId::new(gpus.first + gpus.ranks));
        let nodes = laid.nodes[all].iter();
        nodes.map(|node| self.slowness(laid.job, first + node)).fold(0.0, f64::max)
    }

    /// Returns for each GPU the routes from and to its node's memory; empty if the job does not swap. The job copy is on nodes
    /// from `first` on.
    fn swap_ways(
        &mut self,
        laid: &Laid<'_>,
        gpus: Members,
        first: u32,
    ) -> Vec<[Option<GroupId>; 2]> {
        if laid.of.swap.is_empty() {
            return Vec::new();
        }
        let all = gpus.first..gpus.first + gpus.ranks;
        all.map(|gpu| self.swap_way(laid, gpu, first)).collect()
    }

    fn swap_way(&mut self, laid: &Laid<'_>, gpu: u32, first: u32) -> [Option<GroupId>; 2] {
        let place = laid.nodes[RankId::new(gpu)];
        let begin = laid.nodes.as_slice().partition_point(|node| *node < place) as u32;
        self.node = first + place;
        let (node, bandwidth) = (self.node, self.here().pcie);
        if bandwidth.is_infinite() {
            return [None; 2];
        }
        let (memory, own) = (self.memory(), self.gpu_at(node, u64::from(gpu - begin)));
        [Direction::In, Direction::Out].map(|direction| {
            let place = LinkPlace::of_gpu(Part::Pcie(direction), node, own);
            let link = self.link_at(place, bandwidth);
            let route: Vec<LinkId> = [link].into_iter().chain(memory).collect();
            Some(self.group(&route, f64::INFINITY))
        })
    }

    /// Adds the communicators inside each stage of each model copy: communicators of tensor-parallel ranks (which split layers),
    /// and of context-parallel ranks (which split sequences).
    fn communicators_of_parts(
        &mut self,
        laid: &Laid<'_>,
        all: &ByStepKind<Vec<Program>>,
        parts: &mut RangeVec<DeviceId, ParallelDevice>,
    ) {
        let (job, tensor) = (laid.job, laid.job.tensor_ranks());
        let stages = job.shares().len() as u32;
        for (part, place) in parts.iter_mut().zip(0..) {
            let (copy, stage) = (place / stages / job.learners.most, place % stages);
            let program = OfStageInSteps { all, stage: stage as usize };
            let device = Members::new((laid.first + place).number(), 1, 1);
            let layers = 0..job.ranks_of_stage() / tensor;
            let layers = layers.map(|part| job.tensor_group(copy, stage, part)).collect();
            let sequences = (0..tensor).map(|rank| job.context_group(copy, stage, rank)).collect();
            let kinds: [(Communicator, Vec<Members>); 2] =
                [(Communicator::Tensor, layers), (Communicator::Context, sequences)];
            for (kind, groups) in kinds {
                let groups: Vec<(Members, Members, u32)> =
                    groups.into_iter().map(|group| (group, device, 1)).collect();
                part.communicators[kind] = self.communicators(laid, program, kind, &groups);
            }
        }
    }
}

/// Returns all pairs (sending stage, receiving stage) between which programs send activations or their gradients.
fn neighbours(all: &[Program]) -> Vec<(usize, usize)> {
    let sent = |op: &Op| if let Op::Send(input) = op { Some(input.stage as usize) } else { None };
    let sends = all
        .iter()
        .enumerate()
        .flat_map(|(from, program)| program.ops.iter().filter_map(sent).map(move |to| (from, to)));
    sends.collect::<BTreeSet<_>>().into_iter().collect()
}
