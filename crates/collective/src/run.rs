//! Runs of equal phases. A simulator that moves all ranks from phase to phase together needs nothing else of a
//! schedule.

use super::closed_form::Cost;
use super::part::{StepCopies, receive};
use super::transfer::Kind;

/// Successive phases that are equal, except for which rank sends which part to which rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first phase.
    pub phase: u64,
    /// Number of phases.
    pub repeat: u64,
    /// Whether the same ranks send to the same ranks in all phases, so that transfers take the same routes.
    pub same_pairs: bool,
    /// Number of transfers in each phase.
    pub transfers: u64,
    /// Length of the longest transfer [B]; others of the same phase may be a byte shorter.
    pub bytes: u64,
    /// Maximum number of transfers that one rank sends, or that one rank receives, in a phase.
    pub fan: u64,
    /// Maximum number of bytes that one rank sends in a phase [B].
    pub sent: u64,
    /// Maximum number of bytes that one rank receives in a phase [B].
    pub received: u64,
    /// Maximum number of bytes that one rank reduces in a phase [B].
    pub reduced: u64,
}

impl Run {
    /// Whether each rank sends and receives one transfer at most in a phase, so that one transfer stands for all
    /// `transfers`.
    #[must_use]
    pub fn is_symmetric(&self) -> bool {
        self.fan == 1
    }

    /// Returns the time of the run on an idle network where each rank has a link out and a link in [s].
    #[must_use]
    pub fn seconds(&self, cost: &Cost) -> f64 {
        let bytes = self.sent.max(self.received) as f64;
        let phase = cost.alpha + bytes * cost.beta + self.reduced as f64 * cost.gamma;
        self.repeat as f64 * phase
    }

    /// Returns one run in place of two runs that take place at the same time, on different ranks.
    fn beside(self, other: &Run) -> Run {
        Run {
            transfers: self.transfers + other.transfers,
            bytes: self.bytes.max(other.bytes),
            fan: self.fan.max(other.fan),
            sent: self.sent.max(other.sent),
            received: self.received.max(other.received),
            reduced: self.reduced.max(other.reduced),
            ..self
        }
    }
}

/// Returns the runs of steps that take place at the same time, from phase `first` on. `None` if the steps differ in
/// their number of ranks or in their phases, because their ranks do not go from phase to phase together then.
pub(super) fn side_by_side(parts: &[StepCopies], first: u64) -> Option<Vec<Run>> {
    let (part, others) = parts.split_first()?;
    let mut runs = runs(part);
    for other in others {
        let same = other.place.size == part.place.size && other.phases() == part.phases();
        let beside = same.then(|| self::runs(other)).filter(|b| b.len() == runs.len())?;
        runs = runs.into_iter().zip(&beside).map(|(run, beside)| run.beside(beside)).collect();
    }
    let mut phase = first;
    for run in &mut runs {
        run.phase = phase;
        phase += run.repeat;
    }
    Some(runs)
}

fn runs(part: &StepCopies) -> Vec<Run> {
    let (phases, alike) = (part.phases(), part.pattern().alike());
    let mut runs = Vec::new();
    let mut phase = 0;
    while phase < phases {
        let steady = phase == alike.start && !alike.is_empty();
        let repeat = if steady { alike.end - alike.start } else { 1 };
        let same_pairs = repeat == 1 || part.pattern().pairs_stay();
        runs.push(Run { repeat, same_pairs, ..one(part, phase) });
        phase += repeat;
    }
    if part.step.backwards {
        runs.reverse();
    }
    runs
}

/// Returns the run of one phase of the pattern.
fn one(part: &StepCopies, phase: u64) -> Run {
    let pattern = part.pattern();
    let switches = u64::from(pattern.switch());
    let mut run = Run {
        phase,
        repeat: 1,
        same_pairs: true,
        transfers: 0,
        bytes: 0,
        fan: 0,
        sent: 0,
        received: 0,
        reduced: 0,
    };
    for end in 0..pattern.ends() {
        let is_rank = end < pattern.ends() - switches;
        count(&mut run, part, phase, end, is_rank);
    }
    run.transfers *= part.place.copies;
    if part.step.backwards {
        std::mem::swap(&mut run.sent, &mut run.received);
    }
    run
}

fn count(run: &mut Run, part: &StepCopies, phase: u64, end: u64, is_rank: bool) {
    let pattern = part.pattern();
    let reduces = |kind: Kind| part.step.kind.unwrap_or(kind) == Kind::Reduce;
    let (mut out, mut into) = ([0; 3], [0; 3]);
    for sent in (0..pattern.sends(end)).filter_map(|slot| pattern.send(phase, end, slot)) {
        run.bytes = run.bytes.max(sent.bytes);
        run.transfers += 1;
        add(&mut out, sent.bytes, reduces(sent.kind));
    }
    if !is_rank {
        return;
    }
    let gets = (0..pattern.receives(end)).filter_map(|slot| receive(pattern, phase, end, slot));
    gets.for_each(|(_, got)| add(&mut into, got.bytes, reduces(got.kind)));
    run.fan = run.fan.max(out[0]).max(into[0]);
    run.sent = run.sent.max(out[1]);
    run.received = run.received.max(into[1]);
    run.reduced = run.reduced.max(if part.step.backwards { out[2] } else { into[2] });
}

/// Adds one transfer to `sums`: the number of transfers, their bytes, and the bytes of those that reduce.
fn add(sums: &mut [u64; 3], bytes: u64, reduces: bool) {
    sums[0] += 1;
    sums[1] += bytes;
    sums[2] += if reduces { bytes } else { 0 };
}
