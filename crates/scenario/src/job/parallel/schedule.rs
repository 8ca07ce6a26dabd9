//! Pipeline schedules: in which order stages work on micro-batches, and which activations and bubbles follow.

mod order;

use schemars::JsonSchema;

pub use order::{Pass, Turn};

/// Name of a schedule in scenario files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
pub(crate) enum ScheduleName {
    /// Forward of all micro-batches, then backward of all.
    #[serde(rename = "gpipe")]
    Gpipe,
    /// One backward pass after each forward pass, as soon as possible.
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// 1F1B with several chunks of the model on each stage.
    #[serde(rename = "interleaved-1f1b")]
    Interleaved,
    /// 1F1B whose gradients of weights fill bubbles.
    #[serde(rename = "zb-h1")]
    ZeroBubble,
    /// Two chunks on each stage, in the shape of a V, with gradients of weights that fill bubbles.
    #[serde(rename = "zb-v")]
    VShaped,
}

/// In which order a stage works on the micro-batches of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Schedule {
    /// Forward of all micro-batches, then backward of all (Huang et al., *GPipe*, 2019).
    Gpipe,
    /// Stage i of p begins with the forward passes of p − i micro-batches, then does one backward and one forward pass
    /// in turn (Narayanan et al., *PipeDream*, 2019; with a flush at the end of each batch, 2021, section 2.2).
    OneForwardOneBackward,
    /// Stage i of p has the model's chunks i, i + p, i + 2p, … and takes each p micro-batches through its chunks, one
    /// after the other. It begins with 2 (p − i − 1) + (v − 1) p forward passes on one of its v chunks each, then 1F1B
    /// (Narayanan et al., *Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM*, 2021,
    /// section 2.2).
    Interleaved {
        /// Chunks of each stage.
        chunks: u32,
    },
    /// 1F1B whose backward is split into two passes: one for gradients of inputs, which the stage before waits for, and
    /// one for gradients of weights, which stage i does i micro-batches later. The second pass fills bubbles, and no
    /// stage has more than p micro-batches in progress (Qi, Wan, Huang, Lin, *Zero Bubble Pipeline Parallelism*, ICLR
    /// 2024, section 2.1, figure 3).
    ZeroBubble {
        /// Share of the backward time that gradients of weights take.
        weights: f64,
    },
    /// Stage i of p has the model's chunks i and 2 p − 1 − i, so that the first stage has both ends of the model. Backward is
    /// split as in ZB-H1, and no stage holds more activations than the first one of 1F1B (Qi, Wan, Huang, Lin, *Zero Bubble
    /// Pipeline Parallelism*, ICLR 2024, section 6). The order of passes is that of PyTorch's `ScheduleZBVZeroBubble`, which is
    /// made for passes that take equally long.
    VShaped {
        /// Share of the backward time that gradients of weights take.
        weights: f64,
    },
}

impl Schedule {
    /// Returns the schedule's name in scenario files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpipe => "gpipe",
            Self::OneForwardOneBackward => "1f1b",
            Self::Interleaved { .. } => "interleaved-1f1b",
            Self::ZeroBubble { .. } => "zb-h1",
            Self::VShaped { .. } => "zb-v",
        }
    }

    /// Returns the schedules that may have fewer bubbles than this one: those that fill bubbles with gradients of weights, and more
    /// chunks on each stage.
    pub(crate) fn others(self) -> Vec<Schedule> {
        let weights = super::LINEAR;
        let filled = [Self::VShaped { weights }, Self::ZeroBubble { weights }];
        match self {
            Self::Gpipe | Self::OneForwardOneBackward => {
                [&filled[..], &[Self::Interleaved { chunks: 2 }]].concat()
            }
            Self::Interleaved { chunks } => {
                [&filled[..], &[Self::Interleaved { chunks: 2 * chunks }]].concat()
            }
            Self::ZeroBubble { weights } => vec![Self::VShaped { weights }],
            Self::VShaped { .. } => Vec::new(),
        }
    }

    /// Returns the number of chunks of the model on each stage.
    #[must_use]
    pub fn chunks(self) -> u32 {
        match self {
            Self::Interleaved { chunks } => chunks,
            Self::VShaped { .. } => 2,
            Self::Gpipe | Self::OneForwardOneBackward | Self::ZeroBubble { .. } => 1,
        }
    }

    /// Returns the share of the backward time that the separate pass for gradients of weights takes; 0 without such a
    /// pass.
    #[must_use]
    pub fn weight_gradients(self) -> f64 {
        match self {
            Self::ZeroBubble { weights } | Self::VShaped { weights } => weights,
            Self::Gpipe | Self::OneForwardOneBackward | Self::Interleaved { .. } => 0.0,
        }
    }

    /// Returns the position in the model, from 0, of chunk number `chunk` of stage number `stage` of `stages`.
    #[must_use]
    pub fn position(self, stage: usize, stages: usize, chunk: usize) -> usize {
        match self {
            Self::VShaped { .. } if chunk > 0 => 2 * stages - 1 - stage,
            _ => chunk * stages + stage,
        }
    }

    /// Returns the stage that holds the chunk at `position` of the model, and the chunk's number on that stage.
    #[must_use]
    pub fn holder(self, position: usize, stages: usize) -> (usize, usize) {
        match self {
            Self::VShaped { .. } if position >= stages => (2 * stages - 1 - position, 1),
            _ => (position % stages, position / stages),
        }
    }

    /// Returns the positions in the model of the chunks of stage number `stage` of `stages`.
    pub fn positions(self, stage: usize, stages: usize) -> impl Iterator<Item = usize> {
        (0..self.chunks() as usize).map(move |chunk| self.position(stage, stages, chunk))
    }

    /// Returns the share of a step that each chunk takes, in the model's order, for stages with the shares `stages`.
    #[must_use]
    pub fn chunk_shares(self, stages: &[f64]) -> Vec<f64> {
        let chunks = self.chunks();
        let all = 0..stages.len() * chunks as usize;
        let stage = |position| self.holder(position, stages.len()).0;
        all.map(|position| stages[stage(position)] / f64::from(chunks)).collect()
    }

    /// Returns the largest number of forward passes whose activations stage number `stage` of `stages` holds at once,
    /// with `all` micro-batches. Each pass takes one micro-batch through one chunk.
    ///
    /// With interleaved chunks, the first stage holds 1 + (p − 1) ÷ (p v) times the activations of p micro-batches on
    /// all its chunks (Korthikanti et al., *Reducing Activation Recomputation in Large Transformer Models*, 2022,
    /// section 4.2.3). Where gradients of weights are deferred, the activations that they need are counted like the
    /// activations for gradients of inputs, of which they are a part (Qi et al., table 1).
    #[must_use]
    pub fn in_progress(self, stage: u32, stages: u32, all: u32) -> u32 {
        match self {
            Self::Gpipe => all,
            Self::OneForwardOneBackward => all.min(stages - stage),
            Self::Interleaved { chunks } => {
                let ahead = 2 * (stages - 1 - stage) + (chunks - 1) * stages;
                all.saturating_mul(chunks).min(ahead + 1)
            }
            Self::ZeroBubble { .. } => all.min(stages),
            Self::VShaped { .. } => (2 * stages).min(all.saturating_add(all.min(stage + 1))),
        }
    }

    /// Returns the share of time that each of `stages` equal stages waits for other stages, if nothing else holds it
    /// up. `all` is the number of micro-batches, and `forward` is the share of their time that forward passes take.
    ///
    /// The share is (p − 1) ÷ (m + p − 1) (Huang et al., section 2.3), and with v chunks (p − 1) ÷ (v m + p − 1)
    /// (Narayanan et al., 2021, who divide by v m). With TF, TB and TW for the times of a micro-batch's passes F, B and
    /// W on a stage, the bubbles of ZB-H1 are (p − 1) (TF + TB − TW) if W is the shortest pass and m ≥ p (Qi et al.,
    /// table 2). If another pass is shorter, or there are fewer micro-batches, W fills less of the bubbles.
    ///
    /// In ZB-V (p − 1) TF ÷ 2 remain if all passes take equally long and m ≥ 2 p − 1: the last stage begins so much later
    /// than the first, and the step ends when all stages have ended. Its authors go on to the next step before that, and
    /// count none.
    #[must_use]
    pub fn bubble(self, stages: u32, all: u32, forward: f64) -> f64 {
        let (before, m) = (f64::from(stages) - 1.0, f64::from(all));
        match self {
            Self::Gpipe | Self::OneForwardOneBackward => before / (m + before),
            Self::Interleaved { chunks } => before / (f64::from(chunks) * m + before),
            Self::ZeroBubble { weights } => {
                let backward = 1.0 - forward;
                let (inputs, weights) = (backward * (1.0 - weights), backward * weights);
                let filled = f64::from(stages.min(all)) - 1.0;
                let idle = before * (forward + inputs) - filled * weights.min(forward).min(inputs);
                idle / (m + idle)
            }
            Self::VShaped { weights } => {
                let backward = 1.0 - forward;
                let long = |pass| match pass {
                    Pass::Forward => forward / 2.0,
                    Pass::Backward => backward / 2.0,
                    Pass::InputGradients => backward * (1.0 - weights) / 2.0,
                    Pass::WeightGradients => backward * weights / 2.0,
                };
                // Each further micro-batch only adds its own time.
                let few = all.min(2 * stages);
                let idle = self.makespan(stages as usize, few as usize, long) - f64::from(few);
                idle / (m + idle)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERLEAVED: Schedule = Schedule::Interleaved { chunks: 2 };
    const ZERO_BUBBLE: Schedule = Schedule::ZeroBubble { weights: 0.5 };
    const V_SHAPED: Schedule = Schedule::VShaped { weights: 0.5 };

    #[test]
    fn passes_in_flight_on_each_pipeline_stage_match_the_schedule() {
        let of = |schedule: Schedule, all| {
            (0..4).map(|stage| schedule.in_progress(stage, 4, all)).collect::<Vec<_>>()
        };
        assert_eq!(of(Schedule::Gpipe, 8), [8; 4]);
        assert_eq!(of(Schedule::OneForwardOneBackward, 8), [4, 3, 2, 1]);
        assert_eq!(of(Schedule::OneForwardOneBackward, 2), [2, 2, 2, 1]);
        assert_eq!(of(INTERLEAVED, 8), [11, 9, 7, 5]);
        assert_eq!(of(INTERLEAVED, 4), [8, 8, 7, 5]);
        assert_eq!(of(ZERO_BUBBLE, 8), [4; 4]);
        assert_eq!(of(ZERO_BUBBLE, 3), [3; 4]);
        // Passes on a half of a stage each.
        assert_eq!(of(V_SHAPED, 8), [8; 4]);
        assert_eq!(of(V_SHAPED, 2), [3, 4, 4, 4]);
    }

    #[test]
    fn the_first_interleaved_stage_holds_the_published_activation_memory() {
        // Korthikanti et al., section 4.2.3: the first stage holds 1 + (p − 1) ÷ (p v) times the activations of p
        // micro-batches on all its chunks.
        for (p, v) in [(2_u32, 2_u32), (4, 2), (8, 3), (8, 4)] {
            let found = Schedule::Interleaved { chunks: v }.in_progress(0, p, 4 * p);
            let (p, v) = (f64::from(p), f64::from(v));
            let expected = 1.0 + (p - 1.0) / (p * v);
            assert!((f64::from(found) / (p * v) - expected).abs() < 1e-12, "{p} {v}: {found}");
        }
    }

    #[test]
    fn pipeline_bubble_shares_equal_the_published_formulas() {
        let near = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
        };
        near(Schedule::Gpipe.bubble(4, 12, 0.3), 3.0 / 15.0);
        near(Schedule::OneForwardOneBackward.bubble(4, 12, 0.3), 3.0 / 15.0);
        near(INTERLEAVED.bubble(4, 12, 0.3), 3.0 / 27.0);
        // Equal passes: a third of the bubbles of 1F1B.
        near(ZERO_BUBBLE.bubble(4, 12, 1.0 / 3.0), 3.0 / (3.0 * 12.0 + 3.0));
        // Forward 0.3, gradients of inputs 0.42, of weights 0.28.
        let uneven = Schedule::ZeroBubble { weights: 0.4 };
        let idle = 3.0 * (0.3 + 0.42 - 0.28);
        near(uneven.bubble(4, 12, 0.3), idle / (12.0 + idle));
        // Forward 0.5, gradients of inputs 0.15, of weights 0.35: these are not the shortest pass.
        let long = Schedule::ZeroBubble { weights: 0.7 };
        near(long.bubble(4, 12, 0.5), 3.0 * 0.5 / (12.0 + 3.0 * 0.5));
        // Equal passes: a sixth of the bubbles of 1F1B.
        near(V_SHAPED.bubble(4, 12, 1.0 / 3.0), 0.5 / (12.0 + 0.5));
        near(V_SHAPED.bubble(1, 5, 0.3), 0.0);
    }

    #[test]
    fn model_chunks_are_assigned_to_pipeline_stages_round_robin() {
        assert_eq!(INTERLEAVED.chunk_shares(&[0.75, 0.25]), [0.375, 0.125, 0.375, 0.125]);
        assert_eq!(ZERO_BUBBLE.chunk_shares(&[0.75, 0.25]), [0.75, 0.25]);
    }

    #[test]
    fn zb_v_places_model_chunks_on_stages_in_the_shape_of_a_v() {
        let stages: Vec<usize> = (0..6).map(|position| V_SHAPED.holder(position, 3).0).collect();
        assert_eq!(stages, [0, 1, 2, 2, 1, 0]);
        assert_eq!(V_SHAPED.chunk_shares(&[0.75, 0.25]), [0.375, 0.125, 0.125, 0.375]);
        for schedule in [INTERLEAVED, V_SHAPED, ZERO_BUBBLE] {
            for (stage, chunk) in
                (0..4).flat_map(|i| (0..schedule.chunks() as usize).map(move |c| (i, c)))
            {
                let position = schedule.position(stage, 4, chunk);
                assert_eq!(schedule.holder(position, 4), (stage, chunk), "{schedule:?}");
            }
        }
    }
}
