//! Models that are spread over GPUs: links, groups, programs.

use crate::collective::Cost;
use crate::engine::Span;
use crate::fluid::{GroupId, LinkId};
use crate::report::ParallelOutcome;
use crate::scenario::{Cluster, Job, Members, Parallelism, Transport};
use crate::sim::communication::{Group, Planned, Ways, planned};
use crate::sim::program::{OfStage, Op, ParallelRun, Part, StageProgram, stage_program};

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
        self.tensor_groups(&laid, &mut parts);
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
            groups: begin..self.parts.groups.len() as u32,
            done: 0,
            books: ParallelOutcome::default(),
        };
        Some((Box::new(run), programs.into_iter().map(|program| program.ops).collect()))
    }

    /// The groups in which parts of each stage's GPUs are with those of other model copies: by stage, their numbers.
    fn data_groups(&mut self, laid: &Laid<'_>, all: &[StageProgram]) -> Vec<std::ops::Range<u32>> {
        let mut found = Vec::new();
        for (stage, program) in (0..).zip(all) {
            let begin = self.parts.groups.len() as u32;
            let groups: Vec<Members> =
                (0..laid.job.tensor_ranks()).map(|rank| laid.job.data_group(stage, rank)).collect();
            let sequence = laid.sequence(program, &groups);
            for members in groups.into_iter().filter(|_| !sequence.is_empty()) {
                let devices = (0..members.ranks).map(|model| laid.device(model, stage)).collect();
                let number = (laid.number, self.parts.groups.len() as u32);
                self.parts.groups.push(Group::new(number, members, devices, sequence.clone()));
            }
            found.push(begin..self.parts.groups.len() as u32);
        }
        found
    }

    /// The parts of all model copies, on nodes from `first` on.
    fn gpu_parts(
        &mut self,
        laid: &Laid<'_>,
        first: u32,
        data: &[std::ops::Range<u32>],
    ) -> Vec<Part> {
        let (job, mut parts) = (laid.job, Vec::new());
        for model in 0..job.ranks() {
            for (stage, data) in (0..).zip(data) {
                let gpus = job.tensor_group(model, stage);
                self.node = first + laid.nodes[gpus.first as usize];
                let slowness = self.slowness(job);
                let pcie = self.swap_ways(laid, gpus);
                let (gpu, data) = (gpus.first, data.clone());
                parts.push(Part { gpu, slowness, data, pcie, ..Part::default() });
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
    fn tensor_groups(&mut self, laid: &Laid<'_>, parts: &mut [Part]) {
        let Some(tensor) = laid.of.tensor.as_ref().filter(|tensor| tensor.ranks > 1) else {
            return;
        };
        let bytes = (tensor.bytes / f64::from(laid.of.micro_batches)).round() as u64;
        let what = (crate::collective::Operation::Allreduce, bytes);
        let how = (tensor.reduction, tensor.fidelity);
        let stages = laid.job.shares().len() as u32;
        for (part, place) in parts.iter_mut().zip(0..) {
            let members = laid.job.tensor_group(place / stages, place % stages);
            let way = laid.plan(what, how, &[members]);
            let (operation, bytes) = what;
            let sum = Planned { operation, bytes, overhead: Span::ZERO, way };
            let g = self.parts.groups.len() as u32;
            let device = vec![laid.first + place];
            self.parts.groups.push(Group::new((laid.number, g), members, device, vec![sum]));
            part.sums = Some(g);
        }
    }
}

impl Laid<'_> {
    /// The device that is stage number `stage` of model copy `model`.
    fn device(&self, model: u32, stage: u32) -> u32 {
        self.first + model * self.job.shares().len() as u32 + stage
    }

    fn program(&self, stage: usize) -> StageProgram {
        let shares = self.job.shares();
        let sync = self.job.sync.as_ref().filter(|_| self.job.ranks() > 1);
        let buckets = sync.map_or(Vec::new(), |sync| self.of.buckets(sync, shares, stage));
        let launches = stage == 0 && self.job.launch.is_some();
        stage_program(&OfStage { parallelism: self.of, stage, shares, buckets, launches })
    }

    /// The collectives of a program, by groups that are alike.
    fn sequence(&self, program: &StageProgram, groups: &[Members]) -> Vec<Planned> {
        let Some(sync) = &self.job.sync else { return Vec::new() };
        let one = |&(operation, bytes, tensors): &(_, u64, u32)| {
            let overhead = Span::from_seconds(sync.transport.per_tensor * f64::from(tensors));
            let way = self.plan((operation, bytes), (sync.reduction, sync.fidelity), groups);
            Planned { operation, bytes, overhead, way }
        };
        program.collectives.iter().map(one).collect()
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
