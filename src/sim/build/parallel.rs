//! Models that are spread over GPUs: links, groups, programs.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::collective::Cost;
use crate::engine::Span;
use crate::fluid::{GroupId, LinkId};
use crate::report::ParallelOutcome;
use crate::scenario::{Cluster, Job, Members, Parallelism, Transport};
use crate::sim::communication::{Group, Planned, Ways, planned};
use crate::sim::program::{
    Communicator, OfStage, Op, ParallelRun, Part, StageProgram, Started, stage_program,
};

use super::Builder;
use super::job::JobCopy;
use super::sync::Place;

/// What is found of a job copy's GPUs before its groups are made.
struct Laid<'j> {
    job: &'j Job,
    of: &'j Parallelism,
    /// The job copy, its first device.
    number: u32,
    first: u32,
    cluster: Cluster,
    /// On which of its nodes each GPU is.
    nodes: Vec<u32>,
    ways: Ways,
}

impl Builder<'_, '_> {
    /// What the GPUs of a job copy on nodes from `node` on do, whose first device is number `first`.
    pub(super) fn parallel(
        &mut self,
        copy: &JobCopy,
        node: u32,
        first: u32,
    ) -> Option<(Box<ParallelRun>, Vec<Vec<Op>>)> {
        let job = copy.job;
        let of = job.parallelism.as_ref()?;
        let cluster = self.scenario.cluster.weakest(node..node + job.nodes);
        let links = Transport::of_links(cluster.node.intra.latency, cluster.latency);
        let transport = job.sync.as_ref().map_or(links, |sync| sync.transport);
        let ways = self.ways_of_gpus(job, transport, node);
        let nodes = job.nodes_of_gpus();
        let laid = Laid { job, of, number: copy.number, first, cluster, nodes, ways };
        let programs: Vec<StageProgram> =
            (0..job.shares().len()).map(|s| laid.program(s)).collect();
        let begin = self.parts.groups.len() as u32;
        let data = self.data_groups(&laid, &programs);
        let mut parts = self.gpu_parts(&laid, node, &data);
        self.tensor_groups(&laid, &programs, &mut parts);
        let micro_batches = f64::from(of.micro_batches);
        let run = ParallelRun {
            stages: programs.len(),
            micro_batches,
            step_of: of.step_of,
            speed: self.scenario.cluster.node.gpu_speed,
            parts,
            first,
            ways: laid.ways,
            ranks: job.tensor_ranks(),
            bytes: of.activations / micro_batches,
            neighbours: neighbours(&programs),
            groups: begin..self.parts.groups.len() as u32,
            done: 0,
            books: ParallelOutcome::default(),
        };
        Some((Box::new(run), programs.into_iter().map(|program| program.ops).collect()))
    }

    /// The groups in which parts of each stage's GPUs are with those of other model copies: by stage, their numbers.
    fn data_groups(&mut self, laid: &Laid<'_>, all: &[StageProgram]) -> Vec<Range<u32>> {
        let mut found = Vec::new();
        for (stage, program) in (0..).zip(all) {
            let begin = self.parts.groups.len() as u32;
            let ranks = 0..laid.job.tensor_ranks();
            let groups: Vec<Members> = ranks.map(|rank| laid.job.data_group(stage, rank)).collect();
            let sequence = laid.sequence(program, Communicator::Data, &groups);
            for members in groups.into_iter().filter(|_| !sequence.is_empty()) {
                let devices = (0..members.ranks).map(|model| laid.device(model, stage)).collect();
                self.add_group(laid, Communicator::Data, members, devices, &sequence);
            }
            found.push(begin..self.parts.groups.len() as u32);
        }
        found
    }

    fn add_group(
        &mut self,
        laid: &Laid<'_>,
        communicator: Communicator,
        members: Members,
        devices: Vec<u32>,
        sequence: &Arc<[Planned]>,
    ) {
        let number = (laid.number, self.parts.groups.len() as u32);
        let group = Group::new(number, communicator, members, devices, Arc::clone(sequence));
        self.parts.groups.push(group);
    }

    /// The parts of all model copies, on nodes from `first` on.
    fn gpu_parts(&mut self, laid: &Laid<'_>, first: u32, data: &[Range<u32>]) -> Vec<Part> {
        let (job, mut parts) = (laid.job, Vec::new());
        for model in 0..job.ranks() {
            for (stage, data) in (0..).zip(data) {
                let gpus = job.tensor_group(model, stage);
                self.node = first + laid.nodes[gpus.first as usize];
                let slowness = self.slowness(job);
                let pcie = self.swap_ways(laid, gpus);
                let received = vec![VecDeque::new(); 2 * laid.of.schedule.chunks() as usize];
                let mut part =
                    Part { gpu: gpus.first, slowness, pcie, received, ..Part::default() };
                part.communicators[Communicator::Data as usize] = data.clone();
                parts.push(part);
            }
        }
        parts
    }

    /// By GPU, its ways from its node's memory and back there, where it needs them.
    fn swap_ways(&mut self, laid: &Laid<'_>, gpus: Members) -> Vec<[Option<GroupId>; 2]> {
        let bandwidth = self.here().pcie;
        if laid.of.swap.is_empty() || bandwidth.is_infinite() {
            return Vec::new();
        }
        let (node, memory) = (self.node, self.memory());
        let own = laid.nodes[gpus.first as usize];
        let begin = laid.nodes.partition_point(|node| *node < own) as u32;
        let mut way = |name, gpu: u32| {
            let own = self.gpu_at(u64::from(gpu - begin));
            let link = self.link_at(Place::of_gpu(name, node, own), bandwidth);
            let route: Vec<LinkId> = [link].into_iter().chain(memory).collect();
            Some(self.group(&route, f64::INFINITY))
        };
        let all = gpus.first..gpus.first + gpus.ranks;
        all.map(|gpu| ["node.pcie", "node.pcie.out"].map(|name| way(name, gpu))).collect()
    }

    /// The groups in which GPUs split layers.
    fn tensor_groups(&mut self, laid: &Laid<'_>, all: &[StageProgram], parts: &mut [Part]) {
        for (part, place) in parts.iter_mut().zip(0..) {
            let (model, stage) = (place / all.len() as u32, place % all.len() as u32);
            let members = laid.job.tensor_group(model, stage);
            let program = &all[stage as usize];
            let sequence = laid.sequence(program, Communicator::Tensor, &[members]);
            if sequence.is_empty() {
                continue;
            }
            let begin = self.parts.groups.len() as u32;
            let devices = vec![laid.first + place];
            self.add_group(laid, Communicator::Tensor, members, devices, &sequence);
            part.communicators[Communicator::Tensor as usize] = begin..begin + 1;
        }
    }
}

/// Which stage sends to which.
fn neighbours(all: &[StageProgram]) -> Vec<(usize, usize)> {
    let sent = |op: &Op| if let Op::Send(input) = op { Some(input.stage as usize) } else { None };
    let sends = all
        .iter()
        .enumerate()
        .flat_map(|(from, program)| program.ops.iter().filter_map(sent).map(move |to| (from, to)));
    sends.collect::<BTreeSet<_>>().into_iter().collect()
}

impl Laid<'_> {
    /// The device that is stage number `stage` of model copy `model`.
    fn device(&self, model: u32, stage: u32) -> u32 {
        self.first + model * self.job.shares().len() as u32 + stage
    }

    fn program(&self, stage: usize) -> StageProgram {
        let shares = self.job.shares();
        let sync = self.job.sync.as_ref().filter(|_| self.job.ranks() > 1);
        let buckets = sync.map_or(Vec::new(), |sync| {
            let chunks = self.of.schedule.chunk_shares(shares);
            let own = (stage..chunks.len()).step_by(shares.len());
            own.map(|chunk| self.of.buckets(sync, &chunks, chunk)).collect()
        });
        let launches = stage == 0 && self.job.launch.is_some();
        stage_program(&OfStage { parallelism: self.of, stage, shares, buckets, launches })
    }

    /// The collectives of a program in a communicator, by groups that are alike; where all are the same, one of them.
    fn sequence(
        &self,
        program: &StageProgram,
        communicator: Communicator,
        groups: &[Members],
    ) -> Arc<[Planned]> {
        let all = &program.collectives[communicator as usize];
        let same = all.iter().all(|started| *started == all[0]);
        let all = if same { &all[..all.len().min(1)] } else { all };
        all.iter().filter_map(|started| self.planned(*started, communicator, groups)).collect()
    }

    fn planned(
        &self,
        started: Started,
        communicator: Communicator,
        groups: &[Members],
    ) -> Option<Planned> {
        let (reduction, fidelity, per_tensor) = match communicator {
            Communicator::Data => {
                let sync = self.job.sync.as_ref()?;
                (sync.reduction, sync.fidelity, sync.transport.per_tensor)
            }
            Communicator::Tensor => {
                let tensor = self.of.tensor.as_ref()?;
                (tensor.reduction, tensor.fidelity, 0.0)
            }
        };
        let Started { operation, bytes, tensors } = started;
        let overhead = Span::from_seconds(per_tensor * f64::from(tensors));
        let way = self.plan((operation, bytes), (reduction, fidelity), groups);
        Some(Planned { operation, bytes, overhead, way })
    }

    fn plan(
        &self,
        what: (crate::collective::Operation, u64),
        how: (crate::scenario::Reduction, crate::scenario::Fidelity),
        groups: &[Members],
    ) -> crate::sim::communication::Reduction {
        let fabric = self.job.fabric_of(groups[0], &self.nodes, &self.cluster);
        let (node, nic) = (&self.cluster.node, self.cluster.nic);
        let across = fabric.nodes() > 1;
        let cost = Cost {
            alpha: if across { self.cluster.latency } else { node.intra.latency },
            beta: 1.0 / if across { nic } else { node.intra.least() },
            gamma: 0.0,
        };
        planned(what, how, (&fabric, &cost), &self.ways, groups)
    }
}
