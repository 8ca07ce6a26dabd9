//! Which node writes what of a checkpoint.

use crate::scenario::{Checkpoint, Job, Parallelism, Writers};

impl Job {
    /// Bytes of a checkpoint that each node of a job copy writes, from the first on [B]; they sum to its bytes.
    ///
    /// Model copies have the same state, which the first one writes, or all of them an equal part. Where one is
    /// spread over GPUs, nodes write of what their GPUs hold: of a stage its part of the state, of tensors that
    /// ranks split an equal part each. What model copies shard (Rajbhandari et al., *ZeRO*, 2020) each has alone, and
    /// writes in any case. Where the model is not known, stages have parts as of the parameters or the time, and all of
    /// the state is sharded, if any is.
    #[must_use]
    pub fn parts_of(&self, checkpoint: &Checkpoint) -> Vec<f64> {
        let mut parts = vec![0.0; self.nodes as usize];
        match (&self.parallelism, checkpoint.writers) {
            (Some(of), _) => self.add_parts(of, checkpoint, &mut parts),
            (None, Writers::First) => parts[0] = checkpoint.bytes,
            (None, Writers::Each) => parts.fill(checkpoint.bytes / f64::from(self.nodes)),
        }
        parts
    }

    /// Whether it matters which model copies write a checkpoint: they are on several nodes, and have something alike.
    pub(in crate::scenario) fn has_copies_of_state(&self) -> bool {
        let alike = |of: &Parallelism| self.states(of).iter().any(|(whole, _)| *whole > 0.0);
        self.nodes > self.nodes_per_copy() && self.parallelism.as_ref().is_none_or(alike)
    }

    fn add_parts(&self, of: &Parallelism, checkpoint: &Checkpoint, parts: &mut [f64]) {
        let (states, ranks) = (self.states(of), self.ranks());
        let all: f64 = states.iter().map(|(whole, sharded)| whole + sharded).sum();
        let nodes = self.nodes_of_gpus();
        let equal = 1.0 / f64::from(ranks);
        for model in 0..ranks {
            let own = match checkpoint.writers {
                Writers::First => f64::from(u8::from(model == 0)),
                Writers::Each => equal,
            };
            for (stage, (whole, sharded)) in (0..).zip(&states) {
                let gpus = self.stage_group(model, stage);
                let share = (own * whole + equal * sharded) / all / f64::from(gpus.ranks);
                for gpu in gpus.first..gpus.first + gpus.ranks {
                    parts[nodes[gpu as usize] as usize] += checkpoint.bytes * share;
                }
            }
        }
    }

    /// By stage, the state that all its ranks have, and that they shard: in bytes, or as shares.
    fn states(&self, of: &Parallelism) -> Vec<(f64, f64)> {
        let spread = of.spread(self.ranks());
        let states: Vec<(f64, f64)> = self.footprints.iter().map(|of| spread.state(of)).collect();
        if states.iter().any(|(whole, sharded)| whole + sharded > 0.0) {
            return states;
        }
        let share = |weight: f64| if of.zero > 0 { (0.0, weight) } else { (weight, 0.0) };
        (0..of.stages()).map(|stage| share(of.weight(stage))).collect()
    }
}
