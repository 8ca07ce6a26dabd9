//! Models that are spread over GPUs: their links, communicators and programs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::communication::{
    CommunicatorRun, Plan, Planned, RankLinks, RankRoutes, Ranks, Sequence,
};
use crate::device::Device;
use crate::index::{DeviceId, IdVec, Ids, JobId, RangeVec, RankId};
use crate::program::{
    Communicator, OfStage, Op, ParallelDevice, Spread, StageProgram, Started, stage_program,
};
use forebay_collective::{Cost, Operation};
use forebay_engine::Span;
use forebay_engine::fluid::{GroupId, LinkId};
use forebay_report::ParallelOutcome;
use forebay_scenario::{Cluster, Job, Members, Method, Parallelism, StageBucket, Transport};

use super::Builder;
use super::job::JobCopy;
use super::sync::LinkPlace;

/// The state of a job copy whose model copies are divided into stages.
pub(super) struct Stages {
    pub(super) spread: Spread,
    pub(super) ways: RankRoutes,
    /// The programs, ordered by model copy, then by stage. Model copies whose programs are equal share one entry for each stage.
    pub(super) programs: Vec<Vec<Op>>,
}

/// The layout of a job copy's GPUs, before its communicators are made.
struct Laid<'j> {
    job: &'j Job,
    of: &'j Parallelism,
    /// Id of the job copy; `first` is its first device.
    number: JobId,
    first: DeviceId,
    cluster: Cluster,
    /// For each GPU, the number of its node within the job copy.
    nodes: IdVec<RankLinks, u32>,
    ways: RankRoutes,
    /// Time of a step of a model copy [s].
    step: f64,
}

impl Builder<'_> {
    /// Builds the stages of a job copy on nodes from `node` on; its first device has number `first`. Returns `None` if the
    /// model copies are not spread over GPUs.
    pub(super) fn parallel(
        &mut self,
        copy: &JobCopy,
        node: u32,
        first: DeviceId,
    ) -> Option<Stages> {
        let job = copy.job;
        let of = job.parallelism.as_ref()?;
        let cluster = self.scenario.cluster.weakest(node..node + job.nodes);
        let links = Transport::of_links(cluster.node.intra.latency, cluster.latency);
        let transport = job.sync.as_ref().map_or(links, |sync| sync.transport);
        let ways = self.ways_of_gpus(copy, transport, node);
        let nodes = job.nodes_of_gpus().into_iter().collect();
        let factor =
            self.scenario.cluster.step_factor(node..node + job.nodes, job.device, job.peak);
        let step = job.step_seconds() * factor;
        let laid = Laid { job, of, number: copy.number, first, cluster, nodes, ways, step };
        let programs: Vec<StageProgram> =
            laid.experts().flat_map(|expert| laid.programs(expert)).collect();
        let mut parts = self.gpu_parts(&laid, node);
        self.communicators_of_copies(&laid, &programs, &mut parts);
        self.communicators_of_parts(&laid, &programs, &mut parts);
        let micro_batches = f64::from(of.micro_batches);
        let spread = Spread {
            micro_batches,
            step_of: of.step_of,
            speed: self.scenario.cluster.node.gpu_speed,
            parts,
            ranks: job.ranks_of_stage(),
            bytes: of.activations / micro_batches / f64::from(of.context_ranks()),
            neighbours: neighbours(&programs[..job.shares().len()]),
            inside: None,
            books: ParallelOutcome::default(),
            shown: true,
        };
        let programs = programs.into_iter().map(|program| program.ops).collect();
        Some(Stages { spread, ways: laid.ways, programs })
    }

    /// Adds the communicators between the same stage of different model copies: of all model copies, of the model copies that
    /// together hold all experts, and of the model copies that hold the same experts.
    fn communicators_of_copies(
        &mut self,
        laid: &Laid<'_>,
        all: &[StageProgram],
        parts: &mut RangeVec<Device, ParallelDevice>,
    ) {
        let (job, stages) = (laid.job, laid.job.shares().len() as u32);
        let (copies, experts) = (job.ranks(), job.expert_ranks());
        let tensor = 0..job.tensor_ranks();
        for (stage, program) in (0..stages).zip(all) {
            let device = |model: u32| (laid.first + model * stages + stage).number();
            let same = tensor.clone().map(|rank| job.data_group(stage, rank)).collect();
            let devices = Members::new(device(0), stages, copies);
            let mut sets = vec![(Communicator::Data, vec![(devices, same)])];
            if experts > 1 {
                let together = (0..copies / experts).map(|group| {
                    let first = group * experts;
                    let places = 0..job.ranks_of_stage();
                    let groups = places.map(|place| job.expert_group(stage, first, place));
                    (Members::new(device(first), stages, experts), groups.collect())
                });
                let alike = (0..experts).map(|first| {
                    let ranks = tensor.clone();
                    let groups = ranks.map(|rank| job.expert_data_group(stage, first, rank));
                    (
                        Members::new(device(first), stages * experts, copies / experts),
                        groups.collect(),
                    )
                });
                sets.push((Communicator::Expert, together.collect()));
                sets.push((Communicator::ExpertData, alike.collect()));
            }
            for (kind, sets) in sets {
                self.share(laid, program, (kind, &sets), parts);
            }
        }
    }

    /// Adds a communicator for each group of GPUs in `sets`. Each set consists of devices and of groups of their GPUs; every
    /// device of a set takes part in all communicators of the set.
    fn share(
        &mut self,
        laid: &Laid<'_>,
        program: &StageProgram,
        (kind, sets): (Communicator, &[(Members, Vec<Members>)]),
        parts: &mut RangeVec<Device, ParallelDevice>,
    ) {
        let groups: Vec<Members> = sets.iter().flat_map(|(_, groups)| groups.clone()).collect();
        let devices = sets.iter().flat_map(|(devices, groups)| vec![*devices; groups.len()]);
        let devices: Vec<Members> = devices.collect();
        let all = self.communicators(laid, program, kind, (&groups, &devices));
        if all.is_empty() {
            return;
        }
        let mut begin = all.start;
        for (devices, groups) in sets {
            let end = begin + groups.len() as u32;
            for device in devices.gpus() {
                let part = &mut parts[DeviceId::new(device)];
                part.communicators[kind] = Ids::new(begin, end);
            }
            begin = end;
        }
    }

    /// Adds one communicator for each of `groups`, whose ranks are on `devices`; all these communicators do the same collectives
    /// at the same time. Returns the ids of the communicators.
    fn communicators(
        &mut self,
        laid: &Laid<'_>,
        program: &StageProgram,
        kind: Communicator,
        (groups, devices): (&[Members], &[Members]),
    ) -> Ids<CommunicatorRun> {
        let begin = self.parts.communicators.all.next_id();
        let collectives = laid.sequence(program, kind);
        if let Some(plan) = laid.plan(kind, &collectives, groups) {
            for (members, devices) in groups.iter().zip(devices) {
                let ranks = Ranks { members: *members, devices: *devices, starters: devices.ranks };
                let collectives = Arc::clone(&collectives);
                let started = program.collectives[kind].len() as u32;
                let fusion = laid.fusion(kind);
                let sequence = Sequence { collectives, number: started, given: 0, fusion };
                let number = (laid.number, self.parts.communicators.all.next_id());
                let run = CommunicatorRun::new(number, kind, ranks, sequence, plan.clone());
                self.parts.communicators.all.push(run);
            }
        }
        self.parts.communicators.all.ids_from(begin)
    }

    /// Returns the initial state of all devices (stages of model copies), on nodes from `first` on.
    fn gpu_parts(&mut self, laid: &Laid<'_>, first: u32) -> RangeVec<Device, ParallelDevice> {
        let (job, mut parts) = (laid.job, Vec::new());
        for model in 0..job.ranks() {
            for stage in 0..job.shares().len() as u32 {
                let gpus = job.stage_group(model, stage);
                let slowness = self.slowest(laid, gpus, first);
                let pcie = self.swap_ways(laid, gpus, first);
                let received = vec![VecDeque::new(); 2 * laid.of.schedule.chunks() as usize];
                parts.push(ParallelDevice {
                    gpu: gpus.first,
                    slowness,
                    pcie,
                    received,
                    ..ParallelDevice::default()
                });
            }
        }
        RangeVec::new(laid.first, parts)
    }

    /// Returns the slowdown of the slowest of `gpus` relative to the GPUs of the cluster's first nodes; the job copy is on nodes
    /// from `first` on.
    fn slowest(&mut self, laid: &Laid<'_>, gpus: Members, first: u32) -> f64 {
        let all = Ids::new(RankId::new(gpus.first), RankId::new(gpus.first + gpus.ranks));
        let mut slowness = 0.0_f64;
        for node in &laid.nodes[all] {
            self.node = first + node;
            slowness = slowness.max(self.slowness(laid.job));
        }
        slowness
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
        let (memory, own) = (self.memory(), self.gpu_at(u64::from(gpu - begin)));
        ["node.pcie", "node.pcie.out"].map(|name| {
            let link = self.link_at(LinkPlace::of_gpu(name, node, own), bandwidth);
            let route: Vec<LinkId> = [link].into_iter().chain(memory).collect();
            Some(self.group(&route, f64::INFINITY))
        })
    }

    /// Adds the communicators inside each stage of each model copy: communicators of tensor-parallel ranks (which split layers),
    /// and of context-parallel ranks (which split sequences).
    fn communicators_of_parts(
        &mut self,
        laid: &Laid<'_>,
        all: &[StageProgram],
        parts: &mut RangeVec<Device, ParallelDevice>,
    ) {
        let (job, tensor) = (laid.job, laid.job.tensor_ranks());
        let stages = job.shares().len() as u32;
        let programs = all.iter().take(job.shares().len()).cycle();
        for ((part, program), place) in parts.iter_mut().zip(programs).zip(0..) {
            let (model, stage) = (place / stages, place % stages);
            let device = Members::new((laid.first + place).number(), 1, 1);
            let layers = 0..job.ranks_of_stage() / tensor;
            let layers = layers.map(|part| job.tensor_group(model, stage, part)).collect();
            let sequences = (0..tensor).map(|rank| job.context_group(model, stage, rank)).collect();
            let kinds: [(Communicator, Vec<Members>); 2] =
                [(Communicator::Tensor, layers), (Communicator::Context, sequences)];
            for (kind, groups) in kinds {
                let devices = vec![device; groups.len()];
                part.communicators[kind] =
                    self.communicators(laid, program, kind, (&groups, &devices));
            }
        }
    }
}

/// Returns all pairs (sending stage, receiving stage) between which programs send activations or their gradients.
fn neighbours(all: &[StageProgram]) -> Vec<(usize, usize)> {
    let sent = |op: &Op| if let Op::Send(input) = op { Some(input.stage as usize) } else { None };
    let sends = all
        .iter()
        .enumerate()
        .flat_map(|(from, program)| program.ops.iter().filter_map(sent).map(move |to| (from, to)));
    sends.collect::<BTreeSet<_>>().into_iter().collect()
}

impl Laid<'_> {
    /// Returns the numbers of the model copies that have programs of their own; the other model copies share these programs.
    fn experts(&self) -> Range<u32> {
        0..self.job.programs_of_stage()
    }

    /// Returns the programs of all stages for model copy number `expert`, which has programs of its own.
    fn programs(&self, expert: u32) -> Vec<StageProgram> {
        (0..self.job.shares().len()).map(|stage| self.program(stage, expert)).collect()
    }

    fn program(&self, stage: usize, expert: u32) -> StageProgram {
        let shares = self.job.shares();
        let shared = self.job.gradient_ranks() > self.job.expert_ranks();
        let sync = self.job.sync.as_ref().filter(|_| self.job.gradient_ranks() > 1);
        let buckets = sync.map_or(Vec::new(), |sync| {
            let chunks = self.of.schedule.chunk_shares(shares);
            let own = (stage..chunks.len()).step_by(shares.len());
            let reduced = |bucket: &StageBucket| shared || !bucket.experts;
            let buckets = |chunk| self.of.buckets(sync, &chunks, chunk).into_iter();
            own.map(|chunk| buckets(chunk).filter(reduced).collect()).collect()
        });
        stage_program(&OfStage {
            parallelism: self.of,
            stage,
            expert,
            shares,
            buckets,
            reduction: sync.map_or(Operation::Allreduce, |sync| sync.operation()),
            decompress: sync.map_or(0.0, |sync| self.of.decompress(sync, stage, shared)),
            launches: self.job.launch.is_some(),
        })
    }

    /// Returns the collectives that a program starts in a communicator, in order; if all of them are equal, returns only one.
    fn sequence(&self, program: &StageProgram, kind: Communicator) -> Arc<[Planned]> {
        let all = &program.collectives[kind];
        let same = all.iter().all(|started| *started == all[0]);
        let all = if same { &all[..all.len().min(1)] } else { all };
        let per_tensor = match (kind, &self.job.sync) {
            (Communicator::Data | Communicator::ExpertData, Some(sync)) => {
                sync.transport.per_tensor
            }
            _ => 0.0,
        };
        let planned = |started: &Started| {
            let Started { operation, bytes, tensors, late } = *started;
            let late = Span::from_seconds(late * self.step);
            let overhead = Span::from_seconds(per_tensor * f64::from(tensors));
            Planned { operation, bytes, late, overhead }
        };
        all.iter().map(planned).collect()
    }

    /// Returns the maximum size of a fused collective of a communicator [B]; 0 if collectives are not fused.
    fn fusion(&self, kind: Communicator) -> u64 {
        match kind {
            Communicator::Data | Communicator::ExpertData => {
                self.job.sync.as_ref().map_or(0, |sync| sync.buffer)
            }
            Communicator::Tensor | Communicator::Context | Communicator::Expert => 0,
        }
    }

    /// Returns the plan for the collectives `all`. All `groups` of ranks do these collectives at the same time. Returns `None` if
    /// there are no collectives.
    fn plan(&self, kind: Communicator, all: &[Planned], groups: &[Members]) -> Option<Plan> {
        let (sync, of) = (self.job.sync.as_ref(), self.of);
        let method = match kind {
            Communicator::Data | Communicator::ExpertData => sync.map(|sync| {
                let chosen_by = sync.chosen_by;
                Method { reduction: sync.reduction, fidelity: sync.fidelity, chosen_by }
            }),
            Communicator::Tensor => of.tensor.as_ref().map(|tensor| tensor.method),
            Communicator::Context => of.context.as_ref().map(|context| context.method),
            Communicator::Expert => of.expert.as_ref().map(|expert| expert.method),
        };
        let Method { reduction, fidelity, .. } = method?;
        let of_gradients = matches!(kind, Communicator::Data | Communicator::ExpertData);
        let measured = sync.filter(|_| of_gradients).and_then(|sync| sync.measured.clone());
        let fabric = self.job.fabric_of(*groups.first()?, self.nodes.as_slice(), &self.cluster);
        let (node, nic) = (&self.cluster.node, self.cluster.nic);
        let across = fabric.nodes() > 1;
        let cost = Cost {
            alpha: if across { self.cluster.latency } else { node.intra.latency },
            beta: 1.0 / if across { nic } else { node.intra.least() },
            gamma: 0.0,
        };
        let mut plan = Plan {
            reduction,
            broadcast: reduction,
            measured,
            fidelity,
            fabric,
            inside: cost,
            across: cost,
            shared: cost,
            uniform: false,
            side_by_side: groups.to_vec(),
            known: BTreeMap::new(),
        };
        for planned in all {
            plan.reduction_of(planned.operation, planned.bytes, &self.ways);
        }
        (!all.is_empty()).then_some(plan)
    }
}
