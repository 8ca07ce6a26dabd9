//! Which rank writes which part of a checkpoint.

use crate::{Checkpoint, Job, Parallelism, ServerPlace, Writers};
use forebay_model::device_memory::{Footprint, Spread, State};

/// The part of a checkpoint that one rank writes or reads, in a stream of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankPart {
    /// Node of the rank, counted from the first node of the job copy.
    pub node: u32,
    /// Size of the part [B].
    pub bytes: f64,
    /// Number of the file that the part is in; each writer has a file of its own.
    pub file: usize,
}

impl Job {
    /// Returns the parts of a checkpoint that the ranks of a job copy write, in the order of their GPUs; they sum to the size of the
    /// checkpoint.
    ///
    /// All model copies have the same state: the first one writes it, or each writes an equal part. PyTorch's distributed checkpoints
    /// do the latter: each rank writes a file, and of a tensor that several ranks hold, the one with the least to write so far writes
    /// it (`dedup_save_plans`, torch/distributed/checkpoint/_dedup_save_plans.py). Experts are written by the first copies that hold
    /// all of them together; each writes its part. Where a copy is spread over GPUs, each GPU writes what it holds: a stage's part of
    /// the state, divided equally among the ranks that split its tensors. State that model copies shard (Rajbhandari et al., *ZeRO*,
    /// 2020) exists once in each group that shards it: each copy of the first group writes its own shard, or each of all copies a part
    /// of its own. Where the model is not known, the parts of stages are in proportion to their parameters or time, and all of the state
    /// is sharded if any is.
    #[must_use]
    pub fn parts_written(&self, checkpoint: &Checkpoint) -> Vec<RankPart> {
        let parts = self.bytes_written(checkpoint).into_iter().zip(self.nodes_of_gpus());
        let parts = parts.filter(|(bytes, _)| *bytes > 0.0).enumerate();
        parts.map(|(file, (bytes, node))| RankPart { node, bytes, file }).collect()
    }

    /// Returns the bytes of a checkpoint that each node of a job copy writes [B]. Parameter servers write from the nodes that they are
    /// on; nodes of their own are left out.
    #[must_use]
    pub fn bytes_written_by_node(&self, checkpoint: &Checkpoint) -> Vec<f64> {
        let mut nodes = vec![0.0; self.nodes as usize];
        let Some(servers) = self.servers() else {
            let parts = self.parts_written(checkpoint);
            parts.iter().for_each(|part| nodes[part.node as usize] += part.bytes);
            return nodes;
        };
        let shares = match (servers.place, checkpoint.writers) {
            (ServerPlace::Own { .. }, _) => Vec::new(),
            (ServerPlace::WithWorkers, Writers::First) => vec![1.0],
            (ServerPlace::WithWorkers, Writers::Each) => servers.shares(),
        };
        for (server, share) in shares.into_iter().enumerate() {
            nodes[server % self.nodes as usize] += share * checkpoint.bytes;
        }
        nodes
    }

    /// Returns the parts of a checkpoint that the ranks of a job copy read to restore their state, in the order of their GPUs: each
    /// reads what its GPU holds. If the checkpoint is `inside` the job's nodes, each rank reads the file that it has written, and
    /// the time in which ranks exchange the rest is not counted.
    #[must_use]
    pub fn parts_read(&self, checkpoint: &Checkpoint, inside: bool) -> Vec<RankPart> {
        if inside {
            return self.parts_written(checkpoint);
        }
        let written = self.bytes_written(checkpoint);
        let mut files = Vec::with_capacity(written.len());
        for bytes in &written {
            let before = files
                .last()
                .map_or(0, |(file, writes): &(usize, bool)| file + usize::from(*writes));
            files.push((before, *bytes > 0.0));
        }
        let held = self.bytes_held(checkpoint);
        let sharded = self.parallelism.as_ref().is_some_and(|of| of.zero > 0);
        let sharding = if sharded { self.sharding_copies() } else { 1 };
        let models = self.expert_ranks().max(sharding) as usize;
        let each = self.gpus_of_copy() as usize;
        // A rank that writes nothing reads the file of the rank with the same part of the first model copies.
        let file = |gpu: usize| match files[gpu] {
            (file, true) => file,
            _ => files[gpu / each % models * each + gpu % each].0,
        };
        let parts = held.into_iter().zip(self.nodes_of_gpus()).enumerate();
        let parts = parts.filter(|(_, (bytes, _))| *bytes > 0.0);
        parts.map(|(gpu, (bytes, node))| RankPart { node, bytes, file: file(gpu) }).collect()
    }

    /// Returns the largest part of a checkpoint that a GPU of a job copy holds [B].
    pub(in crate::job) fn largest_state(&self, checkpoint: &Checkpoint) -> f64 {
        self.bytes_held(checkpoint).into_iter().fold(0.0, f64::max)
    }

    /// Returns the bytes of a checkpoint that each GPU of a job copy holds [B].
    fn bytes_held(&self, checkpoint: &Checkpoint) -> Vec<f64> {
        self.bytes_of_gpus(checkpoint.bytes, |copies, _| 1.0 / f64::from(copies))
    }

    /// Returns whether it matters which model copies or parameter servers write a checkpoint: some copies hold the same state, or the
    /// first of several servers could write the parts of all.
    pub fn has_copies_of_state(&self) -> bool {
        if let Some(servers) = self.servers() {
            return servers.number() > 1;
        }
        let several = self.ranks() > self.expert_ranks();
        let grouped = self.sharding_copies() < self.ranks();
        let alike = |state: &State| {
            state.whole > 0.0
                || (several && state.experts > 0.0)
                || (grouped && state.sharded > 0.0)
        };
        let alike = |of: &Parallelism| self.states(of).iter().any(alike);
        self.ranks() > 1 && self.parallelism.as_ref().is_none_or(alike)
    }

    /// Returns the bytes of a checkpoint that each GPU of a job copy writes [B].
    fn bytes_written(&self, checkpoint: &Checkpoint) -> Vec<f64> {
        let equal = 1.0 / f64::from(self.ranks());
        match checkpoint.writers {
            Writers::First => self.bytes_of_gpus(checkpoint.bytes, |copies, model| {
                if model < copies { 1.0 / f64::from(copies) } else { 0.0 }
            }),
            Writers::Each => self.bytes_of_gpus(checkpoint.bytes, |_, _| equal),
        }
    }

    /// Returns the bytes of a checkpoint of `bytes` bytes that each GPU of a job copy writes or reads [B]. `share(n, m)` is the part
    /// that model copy number `m` moves of a state that each group of `n` model copies holds once.
    fn bytes_of_gpus(&self, bytes: f64, share: impl Fn(u32, u32) -> f64) -> Vec<f64> {
        let states = match &self.parallelism {
            Some(of) => self.states(of),
            None => {
                let whole = |part: &f64| State { whole: *part, ..State::default() };
                self.shares().iter().map(whole).collect()
            }
        };
        let ranks = self.ranks();
        let all: f64 = states.iter().map(|state| state.whole + state.experts + state.sharded).sum();
        let mut parts = Vec::with_capacity((ranks * self.gpus_of_copy()) as usize);
        for model in 0..ranks {
            let (own, experts) = (share(1, model), share(self.expert_ranks(), model));
            let shard = share(self.sharding_copies(), model);
            for state in &states {
                let held = own * state.whole + experts * state.experts + shard * state.sharded;
                let of_gpu = bytes * held / all / f64::from(self.ranks_of_stage());
                parts.extend((0..self.ranks_of_stage()).map(|_| of_gpu));
            }
        }
        parts
    }

    /// Returns the state of each stage, in bytes if they are known, otherwise as shares of the whole.
    fn states(&self, of: &Parallelism) -> Vec<State> {
        let states = of.states(&self.footprints, self.ranks());
        if states.iter().any(|state| *state != State::default()) {
            return states;
        }
        let share = |stage: usize| {
            let (weight, experts) = (of.weight(stage), of.experts_of(stage));
            if of.zero > 0 {
                return State { sharded: weight, ..State::default() };
            }
            State { whole: weight * (1.0 - experts), experts: weight * experts, sharded: 0.0 }
        };
        (0..of.stages()).map(share).collect()
    }
}

impl Parallelism {
    /// Returns the state of each stage in bytes, for `ranks` model copies; `held` is the footprint of a GPU of each
    /// stage.
    fn states(&self, held: &[Footprint], ranks: u32) -> Vec<State> {
        let spread = self.spread(ranks);
        (0..).zip(held).map(|(stage, held)| spread.state(held, self.experts_of(stage))).collect()
    }
}

/// Returns the size of a model's state [B]; 0 if it is not known. `held` is the footprint of a GPU of each stage.
pub(crate) fn state_bytes(
    held: &[Footprint],
    parallelism: Option<&Parallelism>,
    ranks: u32,
) -> f64 {
    let states = match parallelism {
        Some(of) => of.states(held, ranks),
        None => held.iter().map(|held| Spread::NONE.state(held, 0.0)).collect(),
    };
    states.iter().map(State::bytes).sum()
}
