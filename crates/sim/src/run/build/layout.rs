//! The layout of a job copy's GPUs: which groups of GPUs have collectives together, and what these collectives are.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_collective::{Cost, Operation};
use forebay_scenario::{Cluster, Copies, Job, Members, Method, Parallelism, StageBucket, Sync};

use super::sync::{collectives, planned};
use crate::communication::{
    ByCommunicator, ByStepKind, Collectives, Communicator, Cycle, Plan, RankRoutes, StepKind,
};
use crate::ids::{DeviceId, IdVec, JobId, RankId};
use crate::job::{Exchanges, OfRoot, OfStage, Program, stage_program};

/// Devices, and groups of their GPUs; each group has a communicator of its own.
pub(in crate::run) struct Set {
    pub(in crate::run) devices: Members,
    /// Number of model copies that the devices belong to. The learners on the same GPUs count as one.
    pub(in crate::run) copies: u32,
    pub(in crate::run) groups: Vec<Members>,
}

/// The programs of a stage in each kind of step.
#[derive(Clone, Copy)]
pub(in crate::run) struct OfStageInSteps<'p> {
    pub(in crate::run) all: &'p ByStepKind<Vec<Program>>,
    pub(in crate::run) stage: usize,
}

/// The layout of a job copy's GPUs, before its communicators are made.
pub(in crate::run) struct Laid<'j> {
    pub(in crate::run) job: &'j Job,
    pub(in crate::run) of: &'j Parallelism,
    /// Id of the job copy; `first` is its first device.
    pub(in crate::run) number: JobId,
    pub(in crate::run) first: DeviceId,
    pub(in crate::run) cluster: Cluster,
    /// For each GPU, the number of its node within the job copy.
    pub(in crate::run) nodes: IdVec<RankId, u32>,
    pub(in crate::run) ways: RankRoutes,
    /// Time of a step of a model copy [s].
    pub(in crate::run) step: f64,
    pub(in crate::run) cycle: Cycle,
}

impl Laid<'_> {
    /// Returns the device of stage number `stage` of learner number `learner` on the GPUs of model copy number `copy`.
    pub(in crate::run) fn device(&self, (copy, learner): (u32, u32), stage: u32) -> DeviceId {
        let model = copy * self.job.learners.most + learner;
        self.first + model * self.job.shares().len() as u32 + stage
    }

    /// Returns the sets of GPUs that have collectives with the same stage of other model copies, by kind of communicator: of
    /// all model copies, of the model copies that together hold all experts, and of those that hold the same experts. If only
    /// groups of ranks shard states, also these groups, and the ranks that hold the same shards. If ranks shard a second copy of
    /// the parameters, also the groups that do so. If exchanges average parameters, also the ranks that train one model together.
    /// The learners of a GPU exchange gradients together, and do everything else by themselves.
    pub(in crate::run) fn sets(&self, stage: u32) -> Vec<(Communicator, Vec<Set>)> {
        let (job, stages) = (self.job, self.job.shares().len() as u32);
        let (copies, experts, learners) = (job.ranks(), job.expert_ranks(), job.learners.most);
        let tensor = || 0..job.tensor_ranks();
        let device = |copy: u32, learner: u32| self.device((copy, learner), stage).number();
        // Distances between the devices of neighbouring model copies, and between their GPUs.
        let (apart, jump) = (stages * learners, stages * job.ranks_of_stage());
        let all_learners = |of: Copies| {
            let own = Members::new(device(of.first, 0), stages, learners);
            own.repeated(of.number, apart * of.step)
        };
        let among = |of: Copies| {
            let groups = tensor().map(|rank| job.group_of(stage, rank, of)).collect();
            Set { devices: all_learners(of), copies: of.number, groups }
        };
        let replicas = |of: Copies| {
            let groups = job.replicas_of(stage, of).collect();
            Set { devices: all_learners(of), copies: of.number, groups }
        };
        let mut sets = vec![(Communicator::Data, vec![among(job.all_copies())])];
        // The learners of the first model copies of groups that hold all experts together.
        let first = || {
            let copies = (0..copies).step_by(experts as usize);
            copies.flat_map(|copy| (0..learners).map(move |learner| (copy, learner)))
        };
        let together = |(copy, learner), groups| {
            let devices = Members::new(device(copy, learner), apart, experts);
            Set { devices, copies: experts, groups }
        };
        if experts > 1 {
            let places = || 0..job.ranks_of_stage();
            let of = |(copy, learner): (u32, u32)| {
                let groups = places().map(|place| job.expert_group(stage, copy, place));
                together((copy, learner), groups.collect())
            };
            sets.push((Communicator::Expert, first().map(of).collect()));
            let alike = job.copies_by_experts().map(among);
            sets.push((Communicator::ExpertData, alike.collect()));
        }
        let second = self.of.secondary_copies;
        let group = self.of.shard_copies.map(|_| job.sharding_copies());
        let kinds = if experts > 1 { &[false, true][..] } else { &[false] };
        for with_experts in kinds.iter().copied() {
            let all: Vec<Copies> = match with_experts {
                true => job.copies_by_experts().collect(),
                false => vec![job.all_copies()],
            };
            let size = |group| if with_experts { self.of.sharding_experts(group) } else { group };
            let in_groups =
                |group: u32| all.iter().flat_map(|of| of.groups(size(group))).map(among).collect();
            if let Some(group) = group {
                let same = all.iter().flat_map(|of| of.across(size(group))).map(replicas);
                sets.push((Communicator::Shard.for_experts(with_experts), in_groups(group)));
                sets.push((Communicator::Replica.for_experts(with_experts), same.collect()));
            }
            if let Some(group) = second {
                sets.push((Communicator::Secondary.for_experts(with_experts), in_groups(group)));
            }
        }
        if job.averages_models() {
            let dense = |(copy, learner): (u32, u32)| {
                let own = |rank| job.context_group(copy, stage, rank).repeated(experts, jump);
                together((copy, learner), tensor().map(own).collect())
            };
            sets.push((Communicator::Inner, first().map(dense).collect()));
            let all =
                (0..copies).flat_map(|copy| (0..learners).map(move |learner| (copy, learner)));
            let of_experts = all.map(|(copy, learner)| {
                let groups = tensor().map(|rank| job.context_group(copy, stage, rank));
                let devices = Members::new(device(copy, learner), stages, 1);
                Set { devices, copies: 1, groups: groups.collect() }
            });
            sets.push((Communicator::ExpertInner, of_experts.collect()));
        }
        sets
    }

    /// Returns the numbers of the model copies that have programs of their own; the other model copies share these programs.
    pub(in crate::run) fn experts(&self) -> Range<u32> {
        0..self.job.programs_of_stage()
    }

    /// Returns the programs of all stages in a kind of step, for model copy number `expert`, which has programs of its own.
    pub(in crate::run) fn programs(&self, expert: u32, kind: StepKind) -> Vec<Program> {
        (0..self.job.shares().len()).map(|stage| self.program(stage, expert, kind)).collect()
    }

    fn program(&self, stage: usize, expert: u32, kind: StepKind) -> Program {
        let shares = self.job.shares();
        let (ranks, experts) = (self.job.gradient_ranks(), self.job.expert_ranks());
        // Learners and parameter servers have all parameters.
        let learners = self.job.sums_gradients() || self.job.averaging().is_some();
        let whole = learners || self.job.servers().is_some();
        let (alone, shared) = (ranks < 2 && !whole, ranks > experts || whole);
        let sync = self.job.sync.as_ref().filter(|_| !alone);
        let buckets = sync.map_or(Vec::new(), |sync| {
            let chunks = self.of.schedule.chunk_shares(shares);
            let own = self.of.schedule.positions(stage, shares.len());
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
            exchanges: Exchanges {
                reduction: sync.map_or(Operation::Allreduce, |sync| sync.operation()),
                decompress: sync.map_or(0.0, |sync| {
                    self.of.decompress(sync, stage, (self.job.ranks(), shared))
                }),
                overlap: sync.is_none_or(|sync| sync.overlap),
                ranks: self.sizes(stage as u32),
            },
            root: sync.and_then(|sync| self.root(sync, stage)),
            launches: self.job.launch.is_some(),
            kind,
            servers: self.job.servers().is_some(),
            averages: self.job.averages_models(),
            learners: self.job.averaging().is_some(),
            sums: self.job.sums_gradients(),
        })
    }

    /// Returns the number of ranks in each kind of communicator of a stage with the same stage of other model copies.
    fn sizes(&self, stage: u32) -> ByCommunicator<u32> {
        let mut sizes = ByCommunicator::default();
        for (kind, sets) in self.sets(stage) {
            let first = sets.first().and_then(|set| set.groups.first());
            sizes[kind] = first.map_or(0, |group| group.ranks);
        }
        sizes
    }

    /// Returns the root's part in the steps of a stage, if the job copy has a root: the first model copy, or the first ones that
    /// together hold all experts.
    fn root(&self, sync: &Sync, stage: usize) -> Option<OfRoot> {
        let root = sync.root.as_ref()?;
        let chunks = self.of.schedule.chunk_shares(self.job.shares());
        let own = self.of.schedule.positions(stage, self.job.shares().len());
        Some(OfRoot {
            parameters: own.map(|chunk| self.of.parameters(root, &chunks, chunk)).collect(),
            update: root.update * self.of.share_of_gpu(stage),
            copies: self.job.expert_ranks(),
        })
    }

    /// Returns whether collectives of this kind average the models of learners, and begin when all learners have corrected
    /// theirs.
    pub(in crate::run) fn is_averaged(&self, kind: Communicator) -> bool {
        let of_all = matches!(kind, Communicator::Data | Communicator::ExpertData);
        of_all && self.job.averaging().is_some()
    }

    /// Returns the collectives that a stage starts in communicators of `ranks` ranks.
    pub(in crate::run) fn collectives(
        &self,
        program: OfStageInSteps<'_>,
        (kind, ranks): (Communicator, u32),
    ) -> Collectives {
        // With a single rank nothing leaves the GPU, and no communication library is involved.
        let of_data = Communicator::OF_GRADIENTS.as_flattened().contains(&kind);
        let alone = of_data && ranks < 2;
        let sync = self.job.sync.as_ref().filter(|_| !alone);
        collectives(self.cycle, self.is_averaged(kind), |step| {
            let all = &program.all[step][program.stage].collectives[kind];
            all.iter().map(|started| planned(started, self.step, sync)).collect()
        })
    }

    /// Returns the maximum size of a fused collective of a communicator [B]; 0 if collectives are not fused.
    pub(in crate::run) fn fusion(&self, kind: Communicator) -> u64 {
        match kind {
            Communicator::Tensor | Communicator::Context | Communicator::Expert => 0,
            Communicator::Data
            | Communicator::ExpertData
            | Communicator::Shard
            | Communicator::ExpertShard
            | Communicator::Replica
            | Communicator::ExpertReplica
            | Communicator::Secondary
            | Communicator::ExpertSecondary
            | Communicator::Inner
            | Communicator::ExpertInner => self.job.sync.as_ref().map_or(0, |sync| sync.buffer),
        }
    }

    /// Returns the plan for the collectives `all`. All `groups` of ranks do these collectives at the same time. Returns `None` if
    /// there are no collectives.
    pub(in crate::run) fn plan(
        &self,
        kind: Communicator,
        all: &Collectives,
        groups: &[Members],
    ) -> Option<Plan> {
        let (sync, of) = (self.job.sync.as_ref(), self.of);
        let method = match kind {
            Communicator::Data
            | Communicator::ExpertData
            | Communicator::Shard
            | Communicator::ExpertShard
            | Communicator::Replica
            | Communicator::ExpertReplica
            | Communicator::Secondary
            | Communicator::ExpertSecondary
            | Communicator::Inner
            | Communicator::ExpertInner => sync.map(|sync| {
                let chosen_by = sync.chosen_by;
                Method { reduction: sync.reduction, fidelity: sync.fidelity, chosen_by }
            }),
            Communicator::Tensor => of.tensor.as_ref().map(|tensor| tensor.method),
            Communicator::Context => of.context.as_ref().map(|context| context.method),
            Communicator::Expert => of.expert.as_ref().map(|expert| expert.method),
        };
        let Method { reduction, fidelity, .. } = method?;
        let of_all_copies = matches!(kind, Communicator::Data | Communicator::ExpertData);
        let measured = sync.filter(|_| of_all_copies).and_then(|sync| sync.measured.clone());
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
            broadcast: sync
                .and_then(|sync| sync.root.as_ref())
                .map_or(reduction, |of| of.broadcast),
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
        for planned in all.all() {
            plan.reduction_of(planned.operation, planned.bytes, &self.ways);
        }
        all.all().next().is_some().then_some(plan)
    }
}
