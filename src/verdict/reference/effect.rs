//! The effect of a relaxed limit: a short run compared with the base run.

use crate::report::Outcome;
use crate::scenario::Scenario;
use crate::stats::t_interval;
use std::ops::Range;

use super::{FEWEST, FEWEST_PAIRS, Reference, whole};
use crate::verdict::course::{Course, LongRate, slope};
use crate::verdict::lever::Lever;
use crate::verdict::{TELLING, WORTH};

/// Largest difference between the mean of the compared steps and the long-run step time that is attributed to chance [half-widths
/// of the mean's confidence interval].
const CHANCE: f64 = 2.0;

/// Effect of a relaxed limit on a job's steps.
#[derive(Debug, Clone, Copy)]
pub(in crate::verdict) struct Effect {
    /// Step time with the limit relaxed [s].
    pub(in crate::verdict) after: f64,
    pub(in crate::verdict) after_interval: [f64; 2],
    /// Share of the step time that is saved.
    pub(in crate::verdict) gain: f64,
    pub(in crate::verdict) gain_interval: [f64; 2],
}

impl Effect {
    /// Returns whether step times are exactly the same.
    pub(in crate::verdict) fn is_none(&self) -> bool {
        self.gain_interval.iter().all(|end| end.abs() < 1e-9)
    }
}

impl Reference<'_> {
    /// Returns the effect of relaxed levers on the job, from the outcome of a short run of the changed scenario; `None` if too few
    /// steps were completed, or if nodes fail in only one of the runs to compare.
    pub(in crate::verdict) fn effect_of(
        &self,
        levers: &[Lever],
        then: &Scenario,
        outcome: &Outcome,
    ) -> Option<Effect> {
        let base = self.for_levers(levers);
        let fails = |scenario: &Scenario| scenario.jobs.iter().any(|job| job.failures.is_some());
        if fails(then) != fails(base.subject.scenario) {
            return None;
        }
        let job = self.subject.job;
        let course = Course::new(&then.jobs[job], job, outcome)?.compared_with(&base.course);
        match (&self.failure_free, &self.later_epochs) {
            (None, Some(later)) if std::ptr::eq(&raw const **later, base) => {
                self.in_all_later_epochs(later, later.effect(&course)?)
            }
            (None, _) => self.effect(&course),
            (Some(free), _) if std::ptr::eq(&raw const **free, base) => {
                self.amid_failures(free.effect(&course)?)
            }
            (Some(_), _) => self.effect_in_time(&course),
        }
    }

    /// Returns the effect on all later epochs, from the effect on a part of them. The time of a step may differ between these, so the
    /// gain is uncertain by the same ratio.
    fn in_all_later_epochs(&self, part: &Reference, of: Effect) -> Option<Effect> {
        let [now, shown] = [self, part].map(|of| of.long_rate().map(|long| long.step));
        let (now, shown) = (now?, shown?);
        let apart = of.gain.abs() * (now - shown).abs() / now;
        let [low, high] = of.gain_interval;
        Some(self.effect_on(now, of.gain, [low - apart, high + apart]))
    }

    /// Returns the effect of the relaxed limit in the long run, extrapolated from the compared steps. The compared steps may be
    /// faster than the average step, by chance or because caches hold their samples. `None` if too few steps were completed.
    fn effect(&self, then: &Course) -> Option<Effect> {
        let of = self.compared(then)?;
        if of.waits_come_later() {
            return None;
        }
        let slope = of.slope();
        let step = of.lasting(slope, of.after.step, of.now.step);
        let gain = |after: f64| 1.0 - after / of.long.step;
        let saved: Vec<f64> =
            of.pairs.iter().map(|(now, then)| gain(of.lasting(slope, *then, *now))).collect();
        let after = self.interval_of(&of);
        let paired = t_interval(&saved).filter(|_| saved.len() >= FEWEST_PAIRS);
        // Variation of the base run that the short run does not share makes the gain uncertain, too.
        let own = (step / of.long.step - slope).abs() * self.half_width() / of.long.step;
        let paired = paired.map(|[low, high]| {
            let (middle, half) = ((low + high) / 2.0, ((high - low) / 2.0).hypot(own));
            [middle - half, middle + half]
        });
        let [low, high] = after.map(|end| (end + step - of.after.step).max(0.0));
        // Paired differences may vary more than the steps of the short run, because they are extrapolated to the long run.
        let [fastest, slowest] = match paired {
            Some([least, most]) => [most, least].map(|gain| of.long.step * (1.0 - gain)),
            None => [low, high],
        };
        let (low, high) = (low.min(fastest.max(of.compute())), high.max(slowest));
        let apart = || [1.0 - after[1] / of.now.interval[0], 1.0 - after[0] / of.now.interval[1]];
        let [least, most] = paired.unwrap_or_else(apart);
        let place = self.difference_of_places(&of);
        Some(Effect {
            after: step,
            after_interval: [(low - place).max(low.min(of.compute())), high + place],
            gain: gain(step),
            gain_interval: [least - place / of.long.step, most + place / of.long.step],
        })
    }

    /// Returns the steps to compare; `None` if the short run has too few.
    fn compared(&self, then: &Course) -> Option<Compared> {
        let (first, last, end) = (self.counted.start, self.counted.end, then.steps());
        // Steps without a whole cycle of workers, or a whole period between exchanges, say nothing of cycles or exchanges.
        let least = FEWEST.max(then.cycle()).min(last - first).max(then.period());
        if end < first + least {
            return None;
        }
        let (short, common) = (whole(first..end, then.cycle()), first..end.min(last));
        let steps = short.len();
        let after = then.long_rate(self.input_from(), short)?;
        let now = whole(common.clone(), self.course.cycle());
        let now = self.course.long_rate(self.input_from(), now)?;
        let pairs = match after.draining || now.draining {
            true => Vec::new(),
            false => self.pairs(then, common),
        };
        let long = self.long_rate().unwrap_or_else(|| now.clone());
        Some(Compared { after, now, long, pairs, steps })
    }

    /// Returns mean step times of the base run and of a short run over the same steps. A mean covers whole cycles of both runs: more
    /// workers have longer cycles.
    fn pairs(&self, then: &Course, common: Range<usize>) -> Vec<(f64, f64)> {
        let cycle = common_multiple(self.course.cycle(), then.cycle());
        let both = whole(common, cycle);
        let now = self.course.batches(both.clone(), cycle);
        now.into_iter().zip(then.batches(both, cycle)).collect()
    }

    /// Returns the interval of the compared steps of the short run [s]. Few pairs do not show how much steps vary, but the whole base run
    /// does.
    fn interval_of(&self, of: &Compared) -> [f64; 2] {
        let shown = if of.pairs.len() < FEWEST_PAIRS { self.deviation_of(of.steps) } else { 0.0 };
        let half = ((of.after.interval[1] - of.after.interval[0]) / 2.0).max(shown);
        [(of.after.step - half).max(0.0), of.after.step + half]
    }

    /// Returns how far the compared steps may be from whole epochs [s]. With caches, step times change in the course of an epoch, and
    /// the short run shows only a part of one. Its mean may be as far from that of whole epochs as the mean of the same part is in the
    /// base run.
    fn difference_of_places(&self, of: &Compared) -> f64 {
        if self.outlasts_first_epoch() { (of.long.step - of.now.step).abs() } else { 0.0 }
    }
}

/// The steps of a short run that are compared, and those of the base run.
struct Compared {
    /// The short run.
    after: LongRate,
    /// The same steps of the base run.
    now: LongRate,
    /// All steps of the base run that count.
    long: LongRate,
    /// Mean step times of the base run and of the short run over the same steps.
    pairs: Vec<(f64, f64)>,
    /// Number of steps of the short run.
    steps: usize,
}

impl Compared {
    /// Returns whether the base run hardly waits in the compared steps, but does in later ones: then the comparison says nothing.
    fn waits_come_later(&self) -> bool {
        let unhindered = waits(&self.now) <= WORTH * self.long.step;
        let slower = self.long.step - self.now.step;
        unhindered && slower > self.chance().max(TELLING * self.long.step)
    }

    /// Returns by how much the compared steps of the base run may differ from its average step by chance [s].
    fn chance(&self) -> f64 {
        (self.now.interval[1] - self.now.interval[0]) / 2.0 * CHANCE
    }

    /// Returns by how much longer a step of the short run is for each second by which a step of the base run is longer.
    ///
    /// The base run is a control variate (Law, *Simulation Modeling and Analysis*, section 11.4) if its compared steps differ from its
    /// average by chance. If they differ by more, such as before a fault or in a cold cache, the waits of the short run are assumed
    /// to differ by the same ratio.
    fn slope(&self) -> f64 {
        let most = self.after.step / self.now.step;
        let by_chance = (self.long.step - self.now.step).abs() <= self.chance();
        let known = slope(&self.pairs).filter(|_| by_chance);
        let alike = match waits(&self.now) {
            none if none <= 0.0 => 0.0,
            now => waits(&self.after) / now,
        };
        known.unwrap_or(alike).clamp(0.0, most)
    }

    /// Returns the step time of the short run in the long run [s], from its step time `short` while steps of the base run took `now`.
    fn lasting(&self, slope: f64, short: f64, now: f64) -> f64 {
        (short + slope * (self.long.step - now)).max(short.min(self.compute()))
    }

    /// Returns the time in which accelerators compute in a step of the short run [s]. No step takes less.
    fn compute(&self) -> f64 {
        self.after.computing * self.after.step
    }
}

/// Returns the time that accelerators wait in a step [s].
fn waits(of: &LongRate) -> f64 {
    of.step * (1.0 - of.computing)
}

/// Returns the smallest common multiple of two lengths of cycles [steps].
fn common_multiple(a: usize, b: usize) -> usize {
    let (mut large, mut rest) = (a, b);
    while rest > 0 {
        (large, rest) = (rest, large % rest);
    }
    a / large.max(1) * b
}
