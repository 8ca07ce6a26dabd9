//! Which node writes which part of a checkpoint.

use crate::{Checkpoint, Job, Parallelism, Writers};
use forebay_model::device_memory::{Footprint, Spread, State};

impl Job {
    /// Returns the bytes of a checkpoint that each node of a job copy writes, in node order [B]; they sum to the size
    /// of the checkpoint.
    ///
    /// All model copies have the same state: the first one writes it, or each writes an equal part. Experts are written
    /// by the first copies that hold all of them together; each writes its part. Where a copy is spread over GPUs, each
    /// node writes what its GPUs hold: a stage's part of the state, divided equally among the ranks that split its
    /// tensors. State that model copies shard (Rajbhandari et al., *ZeRO*, 2020) exists only once, so that each copy
    /// writes its own shard in any case. Where the model is not known, the parts of stages are in proportion to their
    /// parameters or time, and all of the state is sharded if any is.
    #[must_use]
    pub fn parts_of(&self, checkpoint: &Checkpoint) -> Vec<f64> {
        let mut parts = vec![0.0; self.nodes as usize];
        match (&self.parallelism, checkpoint.writers) {
            (Some(of), Writers::First) => {
                let of_first = |copies: u32, model| match model < copies {
                    true => 1.0 / f64::from(copies),
                    false => 0.0,
                };
                self.add_parts(of, checkpoint.bytes, of_first, &mut parts);
            }
            (Some(of), Writers::Each) => {
                let equal = 1.0 / f64::from(self.ranks());
                self.add_parts(of, checkpoint.bytes, |_, _| equal, &mut parts);
            }
            (None, Writers::First) => parts[0] = checkpoint.bytes,
            (None, Writers::Each) => parts.fill(checkpoint.bytes / f64::from(self.nodes)),
        }
        parts
    }

    /// Returns the bytes of a checkpoint that each node of the job reads to restore the model copies on its GPUs [B]: what they
    /// hold, once for each node whose model copies are whole, and once for each GPU that holds a part of a model.
    #[must_use]
    pub fn parts_read(&self, checkpoint: &Checkpoint) -> Vec<f64> {
        let mut parts = vec![0.0; self.nodes as usize];
        match &self.parallelism {
            Some(of) => {
                let held = |copies: u32, _| 1.0 / f64::from(copies);
                self.add_parts(of, checkpoint.bytes, held, &mut parts);
            }
            None => parts.fill(checkpoint.bytes),
        }
        parts
    }

    /// Returns which node of the job has written what node `node` reads back: with [`Writers::First`] the one with the same part
    /// of the first model copy, unless all states are sharded.
    #[must_use]
    pub fn file_read(&self, checkpoint: &Checkpoint, node: u32) -> u32 {
        let sharded = self.parallelism.as_ref().is_some_and(|of| of.zero > 0);
        match checkpoint.writers {
            Writers::First if !sharded => node % self.nodes_per_copy(),
            Writers::First | Writers::Each => node,
        }
    }

    /// Returns whether it matters which model copies write a checkpoint: the model copies are on several nodes, and
    /// some of them hold the same state.
    pub fn has_copies_of_state(&self) -> bool {
        let several = self.ranks() > self.expert_ranks();
        let alike = |state: &State| state.whole > 0.0 || (several && state.experts > 0.0);
        let alike = |of: &Parallelism| self.states(of).iter().any(alike);
        self.nodes > self.nodes_per_copy() && self.parallelism.as_ref().is_none_or(alike)
    }

    /// Adds to each node's entry in `parts` the bytes of a checkpoint of `bytes` bytes that its GPUs write or read. `share(n, m)` is
    /// the part that model copy number `m` moves of a state that each group of `n` model copies holds once.
    fn add_parts(
        &self,
        of: &Parallelism,
        bytes: f64,
        share: impl Fn(u32, u32) -> f64,
        parts: &mut [f64],
    ) {
        let (states, ranks) = (self.states(of), self.ranks());
        let all: f64 = states.iter().map(|state| state.whole + state.experts + state.sharded).sum();
        let nodes = self.nodes_of_gpus();
        let equal = 1.0 / f64::from(ranks);
        for model in 0..ranks {
            let (own, experts) = (share(1, model), share(self.expert_ranks(), model));
            for (stage, state) in (0..).zip(&states) {
                let gpus = self.stage_group(model, stage);
                let held = own * state.whole + experts * state.experts + equal * state.sharded;
                let of_gpu = held / all / f64::from(gpus.ranks);
                for gpu in gpus.first..gpus.first + gpus.ranks {
                    parts[nodes[gpu as usize] as usize] += bytes * of_gpu;
                }
            }
        }
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
