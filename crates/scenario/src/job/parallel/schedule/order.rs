//! The order of passes in a stage's step: the published pipeline schedules.

use std::iter::repeat_n;

use super::Schedule;
use Pass::{Backward, Forward, InputGradients, WeightGradients};

/// A pass of one micro-batch through one chunk of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Computes the chunk's activations.
    Forward,
    /// Computes the gradients of the chunk's input and of its weights.
    Backward,
    /// Computes the gradients of the chunk's input only.
    InputGradients,
    /// Computes the gradients of the chunk's weights, in a schedule with a separate pass for them.
    WeightGradients,
}

impl Pass {
    /// Returns the pass's name in timelines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
            Pass::InputGradients => "input gradients",
            Pass::WeightGradients => "weight gradients",
        }
    }

    /// Returns whether the pass computes gradients of weights.
    #[must_use]
    pub fn makes_gradients(self) -> bool {
        match self {
            Pass::Forward | Pass::InputGradients => false,
            Pass::Backward | Pass::WeightGradients => true,
        }
    }
}

/// A pass of the next micro-batch on one of the stage's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The pass.
    pub pass: Pass,
    /// Number of the chunk among those of the stage.
    pub chunk: usize,
}

impl Schedule {
    /// Returns the passes of stage number `stage` of `stages` with `all` micro-batches, in order.
    #[must_use]
    pub fn turns(self, stage: usize, stages: usize, all: usize) -> Vec<Turn> {
        let after = stages - 1 - stage;
        match self {
            Schedule::Gpipe => alternate(all, &whole(Forward, all), &whole(Backward, all)),
            Schedule::OneForwardOneBackward => {
                alternate(after, &whole(Forward, all), &whole(Backward, all))
            }
            Schedule::Interleaved { chunks } => {
                let chunks = chunks as usize;
                let ahead = 2 * after + (chunks - 1) * stages;
                let turns = |pass| interleaved(pass, chunks, stages, all);
                alternate(ahead, &turns(Forward), &turns(Backward))
            }
            Schedule::ZeroBubble { .. } => {
                let turns = alternate(after, &whole(Forward, all), &whole(InputGradients, all));
                defer_weights(&turns, stage, all)
            }
            Schedule::VShaped { .. } => v_shaped(stage, stages, all),
        }
    }

    /// Returns the time from the first pass to the last, if each pass begins as soon as its stage is free and its input is
    /// there. `long` is the time of a pass on a chunk, the same for all chunks.
    pub(super) fn makespan(self, stages: usize, all: usize, long: impl Fn(Pass) -> f64) -> f64 {
        let orders: Vec<Vec<Turn>> = (0..stages).map(|i| self.turns(i, stages, all)).collect();
        let positions = stages * self.chunks() as usize;
        // For each chunk of the model, when the passes of its micro-batches have ended: forward, and backward.
        let mut ended = vec![[Vec::new(), Vec::new()]; positions];
        let (mut free, mut next) = (vec![0.0_f64; stages], vec![0; stages]);
        let mut goes_on = true;
        while std::mem::take(&mut goes_on) {
            for stage in 0..stages {
                while let Some(turn) = orders[stage].get(next[stage]) {
                    let at = self.position(stage, stages, turn.chunk);
                    let (back, input) = match turn.pass {
                        Forward => (0, at.checked_sub(1)),
                        Backward | InputGradients => (1, Some(at + 1).filter(|at| *at < positions)),
                        WeightGradients => {
                            free[stage] += long(turn.pass);
                            next[stage] += 1;
                            continue;
                        }
                    };
                    let number = ended[at][back].len();
                    let arrived =
                        input.map_or(Some(0.0), |at| ended[at][back].get(number).copied());
                    let Some(arrived) = arrived else { break };
                    free[stage] = free[stage].max(arrived) + long(turn.pass);
                    ended[at][back].push(free[stage]);
                    next[stage] += 1;
                    goes_on = true;
                }
            }
        }
        free.into_iter().fold(0.0, f64::max)
    }
}

/// Returns `all` equal passes, one for each micro-batch, on a stage that has one chunk.
fn whole(pass: Pass, all: usize) -> Vec<Turn> {
    vec![Turn { pass, chunk: 0 }; all]
}

/// Returns one pass for each micro-batch and chunk, in interleaved order: each chunk takes as many micro-batches in a row as
/// there are stages, then it is the next chunk's turn. Backward passes start with the last chunk.
fn interleaved(pass: Pass, chunks: usize, stages: usize, all: usize) -> Vec<Turn> {
    let chunk = |turn: usize| match turn / stages % chunks {
        chunk if pass == Forward => chunk,
        chunk => chunks - 1 - chunk,
    };
    (0..all * chunks).map(|turn| Turn { pass, chunk: chunk(turn) }).collect()
}

/// Returns `ahead` forward passes first, then one forward and one backward pass alternately, then the remaining backward
/// passes.
fn alternate(ahead: usize, forward: &[Turn], backward: &[Turn]) -> Vec<Turn> {
    let (first, rest) = forward.split_at(ahead.min(forward.len()));
    let (paired, last) = backward.split_at(rest.len());
    let pairs = rest.iter().zip(paired).flat_map(|(forward, backward)| [*forward, *backward]);
    first.iter().copied().chain(pairs).chain(last.iter().copied()).collect()
}

/// Adds passes for gradients of weights to `turns`. After the first `late` passes for gradients of inputs, each further pass for
/// gradients of inputs is followed by a pass for gradients of weights, on the micro-batch that is `late` passes behind. The last
/// `late` passes for gradients of weights come at the end.
fn defer_weights(turns: &[Turn], late: usize, all: usize) -> Vec<Turn> {
    let weights = Turn { pass: WeightGradients, chunk: 0 };
    let (mut made, mut added) = (0, Vec::new());
    for turn in turns {
        added.push(*turn);
        made += usize::from(turn.pass == InputGradients);
        if turn.pass == InputGradients && made > late {
            added.push(weights);
        }
    }
    added.extend(repeat_n(weights, late.min(all)));
    added
}

/// Returns the order of ZB-V. It is made for at least 2 `stages` − 1 micro-batches, and passes of micro-batches beyond `all` are
/// left out.
fn v_shaped(stage: usize, stages: usize, all: usize) -> Vec<Turn> {
    let most = all.max(2 * stages - 1);
    let [f, b, w] = [Forward, InputGradients, WeightGradients].map(|pass| {
        let of = |chunk| Turn { pass, chunk };
        [of(0), of(1)]
    });
    let after = stages - stage;
    let phases: [(&[Turn], usize); 8] = [
        (&[f[0]], 2 * after - 1),
        (&[f[1], f[0]], stage),
        (&[f[1], b[1], w[1]], after),
        (&[f[0], b[0], w[0], f[1], b[1], w[1]], most + 1 - stages - after),
        (&[b[0], w[0], f[1], b[1], w[1]], after - 1),
        (&[b[0], b[1]], stage),
        (&[b[0], w[0]], after),
        (&[w[1]], stage),
    ];
    let turns = phases.into_iter().flat_map(|(turns, times)| turns.repeat(times));
    let mut made = [0; 8];
    let mut is_needed = |turn: &Turn| {
        let made = &mut made[2 * turn.pass as usize + turn.chunk];
        *made += 1;
        *made <= all
    };
    turns.chain(repeat_n(w[0], stage)).filter(|turn| is_needed(turn)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERLEAVED: Schedule = Schedule::Interleaved { chunks: 2 };
    const ZERO_BUBBLE: Schedule = Schedule::ZeroBubble { weights: 0.5 };
    const V_SHAPED: Schedule = Schedule::VShaped { weights: 0.5 };

    /// Returns a schedule as letters, one for each turn: F forward, B backward, b gradients of inputs, W gradients of weights;
    /// followed by the chunk's number, counted from 1, if there are several chunks.
    fn shown(schedule: Schedule, stage: usize, stages: usize, all: usize) -> String {
        let letter = |turn: &Turn| {
            let letter = match turn.pass {
                Forward => 'F',
                Backward => 'B',
                InputGradients => 'b',
                WeightGradients => 'W',
            };
            let chunk =
                if schedule.chunks() > 1 { (turn.chunk + 1).to_string() } else { String::new() };
            format!("{letter}{chunk}")
        };
        schedule.turns(stage, stages, all).iter().map(letter).collect()
    }

    #[test]
    fn gpipe_and_1f1b_orders_are_as_published() {
        // Narayanan et al. (2021), figures 3 and 4: four stages; the first stage is three forward passes ahead.
        let of = |stage| shown(Schedule::OneForwardOneBackward, stage, 4, 5);
        assert_eq!(of(3), "FBFBFBFBFB");
        assert_eq!(of(0), "FFFFBFBBBB");
        assert_eq!(shown(Schedule::Gpipe, 2, 4, 3), "FFFBBB");
        // Fewer micro-batches than stages.
        assert_eq!(shown(Schedule::OneForwardOneBackward, 0, 4, 1), "FB");
    }

    #[test]
    fn interleaved_1f1b_order_is_as_published() {
        // Narayanan et al. (2021), figure 4, bottom: four stages of two chunks and eight micro-batches. The first stage runs
        // forward of micro-batches 1 to 4 on its first chunk, then on its second chunk, then of micro-batches 5 to 8 on the
        // first chunk. Two of these last ones come before the forward pass that precedes the first backward pass.
        let of = |stage| shown(INTERLEAVED, stage, 4, 8);
        let first = "F1F1F1F1F2F2F2F2F1F1\
                     F1B2F1B2F2B2F2B2F2B1F2B1\
                     B1B1B2B2B2B2B1B1B1B1";
        assert_eq!(of(0), first);
        let last = "F1F1F1F1\
                    F2B2F2B2F2B2F2B2F1B1F1B1F1B1F1B1F2B2F2B2F2B2F2B2\
                    B1B1B1B1";
        assert_eq!(of(3), last);
        assert!(of(1).starts_with("F1F1F1F1F2F2F2F2F1B2"));
        assert!(of(2).starts_with("F1F1F1F1F2F2F2B2"));
    }

    #[test]
    fn zb_h1_order_is_as_published() {
        // Qi et al. (2024), figure 3, top: four stages and eight micro-batches.
        let of = |stage| shown(ZERO_BUBBLE, stage, 4, 8);
        assert_eq!(of(0), "FFFFbWFbWFbWFbWFbWbWbWbW");
        assert_eq!(of(1), "FFFbFbWFbWFbWFbWFbWbWbWW");
        assert_eq!(of(2), "FFbFbFbWFbWFbWFbWFbWbWWW");
        assert_eq!(of(3), "FbFbFbFbWFbWFbWFbWFbWWWW");
        assert_eq!(shown(ZERO_BUBBLE, 3, 4, 2), "FbFbWW");
    }

    #[test]
    fn zb_v_order_is_as_pytorch_makes_it() {
        // PyTorch, `ScheduleZBVZeroBubble`, two stages and four micro-batches; for the second stage with fewer micro-batches than
        // the order is made for, the rest of it.
        assert_eq!(shown(V_SHAPED, 0, 2, 4), "F1F1F1F2b2W2F2b2W2F1b1W1F2b2W2b1W1F2b2W2b1W1b1W1");
        assert_eq!(shown(V_SHAPED, 1, 2, 4), "F1F2F1F2b2W2F1b1W1F2b2W2F1b1W1F2b2W2b1b2b1W1W2W1");
        assert_eq!(shown(V_SHAPED, 1, 2, 1), "F1F2b2W2b1W1");
    }

    /// Returns the maximum number of micro-batches (or micro-batch parts on a chunk) whose activations are held at once.
    fn most_held(schedule: Schedule, stage: usize, stages: usize, all: usize) -> u32 {
        let (mut held, mut most) = (0, 0);
        for turn in schedule.turns(stage, stages, all) {
            match turn.pass {
                Forward => held += 1,
                Backward | WeightGradients => held -= 1,
                InputGradients => {}
            }
            most = held.max(most);
        }
        assert_eq!(held, 0, "{schedule:?}");
        most
    }

    #[test]
    fn peak_activation_counts_of_pipeline_orders_match_the_formula() {
        let schedules =
            [Schedule::Gpipe, Schedule::OneForwardOneBackward, INTERLEAVED, ZERO_BUBBLE, V_SHAPED];
        for schedule in schedules.into_iter().chain([Schedule::Interleaved { chunks: 3 }]) {
            for (stages, all) in [(1, 3), (2, 1), (2, 2), (2, 8), (4, 4), (4, 12), (8, 3), (8, 16)]
            {
                if matches!(schedule, Schedule::Interleaved { .. })
                    && (stages < 2 || all % stages > 0)
                {
                    continue;
                }
                for stage in 0..stages {
                    let found = most_held(schedule, stage, stages, all);
                    let said = schedule.in_progress(stage as u32, stages as u32, all as u32);
                    assert_eq!(found, said, "{schedule:?}, {stage} of {stages}, {all}");
                }
            }
        }
    }

    #[test]
    fn pipeline_orders_contain_every_pass_of_every_micro_batch_and_chunk() {
        for (schedule, passes) in [
            (Schedule::OneForwardOneBackward, &[Forward, Backward][..]),
            (Schedule::Interleaved { chunks: 3 }, &[Forward, Backward]),
            (ZERO_BUBBLE, &[Forward, InputGradients, WeightGradients]),
            (V_SHAPED, &[Forward, InputGradients, WeightGradients]),
        ] {
            for stage in 0..4 {
                let turns = schedule.turns(stage, 4, 8);
                let chunks = 0..schedule.chunks() as usize;
                assert_eq!(turns.len(), 8 * passes.len() * chunks.len(), "{schedule:?}");
                for turn in chunks.flat_map(|c| passes.iter().map(move |p| (c, *p))) {
                    let same = turns.iter().filter(|of| (of.chunk, of.pass) == turn);
                    assert_eq!(same.count(), 8, "{schedule:?}: {turn:?}");
                }
            }
        }
    }
}
