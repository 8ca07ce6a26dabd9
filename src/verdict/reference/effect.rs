//! The effect of a relaxed limit: a short run compared with the base run.

use crate::report::Outcome;
use crate::scenario::Scenario;
use crate::stats::t_interval;

use super::{FEWEST, FEWEST_PAIRS, Reference, whole};
use crate::verdict::course::{Course, LongRate, slope};
use crate::verdict::lever::Lever;
use crate::verdict::{TELLING, WORTH};

/// Largest difference between the mean of the compared steps and the long-run step time that is attributed to chance [half-widths
/// of the mean's confidence interval].
const CHANCE: f64 = 2.0;
/// Number of equal parts of the time in which a short run with failures is compared with the base run.
const PARTS: usize = 10;

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
        match &self.failure_free {
            None => self.effect(&course),
            Some(free) if std::ptr::eq(&raw const **free, base) => {
                self.amid_failures(free.effect(&course)?)
            }
            Some(_) => self.effect_in_time(&course),
        }
    }

    /// Returns the effect on steps with failures between them, from the effect on steps without: failures take the same share of time.
    fn amid_failures(&self, without: Effect) -> Option<Effect> {
        let now = self.long.as_ref()?.step;
        Some(self.effect_on(now, without.gain, without.gain_interval))
    }

    /// Returns the effect of the relaxed limit, from the number of steps completed by the same time in both runs. Both runs have
    /// failures at the same times.
    fn effect_in_time(&self, then: &Course) -> Option<Effect> {
        let now = self.long.as_ref()?.step;
        let start = self.course.time_of(self.counted.start);
        let end = self.course.time_of(self.counted.end).min(then.time_of(then.steps()));
        let ends = (0..=PARTS).map(|part| start + (end - start) * part as f64 / PARTS as f64);
        let steps: Vec<[f64; 2]> =
            ends.map(|end| [self.course.progress(end), then.progress(end)]).collect();
        let parts = steps.windows(2).map(|of| [of[1][0] - of[0][0], of[1][1] - of[0][1]]);
        let parts: Vec<[f64; 2]> = parts.collect();
        let [before, after] = [0, 1].map(|run| parts.iter().map(|of| of[run]).sum::<f64>());
        if end <= start || after < FEWEST as f64 {
            return None;
        }
        // A ratio of sums, and its standard error (Cochran, *Sampling Techniques*, section 6.4).
        let ratio = before / after;
        let errors: Vec<f64> = parts
            .iter()
            .map(|of| (of[0] - ratio * of[1]) / (after / PARTS as f64) - ratio)
            .collect();
        let [low, high] = t_interval(&errors)?;
        Some(self.effect_on(now, 1.0 - ratio, [1.0 + low, 1.0 + high]))
    }

    /// Returns the effect of a gain on the long-run step time `now` [s].
    fn effect_on(&self, now: f64, gain: f64, gain_interval: [f64; 2]) -> Effect {
        let after = now * (1.0 - gain);
        let own = after * self.half_width() / now;
        let [less, more] = gain_interval.map(|end| now * (gain - end));
        Effect {
            after,
            after_interval: [(after - more.hypot(own)).max(0.0), after + less.hypot(own)],
            gain,
            gain_interval,
        }
    }

    /// Returns the effect of the relaxed limit in the long run, extrapolated from the compared steps. The compared steps may be
    /// faster than the average step, by chance or because caches hold their samples. `None` if too few steps were completed.
    fn effect(&self, then: &Course) -> Option<Effect> {
        // A batch mean covers whole cycles of both runs: more workers have longer cycles.
        let (cycle, first) =
            (common_multiple(self.course.cycle(), then.cycle()), self.counted.start);
        let end = then.steps();
        // Steps without a whole cycle of workers, or a whole period between exchanges, say nothing of cycles or exchanges.
        let least = FEWEST.max(then.cycle()).min(self.counted.end - first).max(then.period());
        if end < first + least {
            return None;
        }
        let after = whole(first..end, then.cycle());
        let compared = after.len();
        let after = then.long_rate(self.input_from(), after)?;
        let common = first..end.min(self.counted.end);
        let now = whole(common.clone(), self.course.cycle());
        let now = self.course.long_rate(self.input_from(), now)?;
        let both = whole(common, cycle);
        let long = self.long_rate().unwrap_or_else(|| now.clone());
        let pairs = if after.draining || now.draining {
            Vec::new()
        } else {
            let (now, after) =
                (self.course.batches(both.clone(), cycle), then.batches(both, cycle));
            now.into_iter().zip(after).collect()
        };
        // The base run is a control variate (Law, *Simulation Modeling and Analysis*, section 11.4) if its compared steps
        // differ from its average by chance. If they differ by more, such as before a fault or in a cold cache, the waits of
        // the short run are assumed to differ by the same ratio.
        let waits = |of: &LongRate| of.step * (1.0 - of.computing);
        let chance = (now.interval[1] - now.interval[0]) / 2.0 * CHANCE;
        let most = after.step / now.step;
        // Compared steps without waits say nothing if the waits come later.
        let unhindered = waits(&now) <= WORTH * long.step;
        if unhindered && long.step - now.step > chance.max(TELLING * long.step) {
            return None;
        }
        let alike = match waits(&now) {
            none if none <= 0.0 => 0.0,
            now => (waits(&after) / now).clamp(0.0, most),
        };
        let known = slope(&pairs).filter(|_| (long.step - now.step).abs() <= chance);
        let slope = known.map_or(alike, |slope| slope.clamp(0.0, most));
        // No step takes less time than the accelerators compute.
        let compute = after.computing * after.step;
        let lasting =
            |short: f64, now: f64| (short + slope * (long.step - now)).max(short.min(compute));
        let step = lasting(after.step, now.step);
        let gain = |after: f64| 1.0 - after / long.step;
        let saved: Vec<f64> =
            pairs.iter().map(|(now, after)| gain(lasting(*after, *now))).collect();
        // Few pairs do not show how much steps vary, but the whole base run does.
        let shown = if pairs.len() < FEWEST_PAIRS { self.deviation_of(compared) } else { 0.0 };
        let half = ((after.interval[1] - after.interval[0]) / 2.0).max(shown);
        let after_interval = [(after.step - half).max(0.0), after.step + half];
        let apart =
            [1.0 - after_interval[1] / now.interval[0], 1.0 - after_interval[0] / now.interval[1]];
        // Variation of the base run that the short run does not share makes the gain uncertain, too.
        let own = (step / long.step - slope).abs() * self.half_width() / long.step;
        let paired = t_interval(&saved).filter(|_| saved.len() >= FEWEST_PAIRS);
        let paired = paired.map(|[low, high]| {
            let half = ((high - low) / 2.0).hypot(own);
            [(low + high) / 2.0 - half, (low + high) / 2.0 + half]
        });
        // With caches, step times change in the course of an epoch. The short run shows only a part of one, so its mean may be as far
        // from that of whole epochs as the mean of the same part is in the base run.
        let place = match self.outlasts_first_epoch() {
            true => (long.step - now.step).abs(),
            false => 0.0,
        };
        let [low, high] = after_interval.map(|end| (end + step - after.step).max(0.0));
        let [least, most] = paired.unwrap_or(apart);
        // Paired differences may vary more than the steps of the short run, because they are extrapolated to the long run.
        let [fastest, slowest] = match paired {
            Some([least, most]) => [most, least].map(|gain| long.step * (1.0 - gain)),
            None => [low, high],
        };
        let (low, high) = (low.min(fastest.max(compute)), high.max(slowest));
        Some(Effect {
            after: step,
            after_interval: [(low - place).max(low.min(compute)), high + place],
            gain: gain(step),
            gain_interval: [least - place / long.step, most + place / long.step],
        })
    }
}

/// Returns the smallest common multiple of two lengths of cycles [steps].
fn common_multiple(a: usize, b: usize) -> usize {
    let (mut large, mut rest) = (a, b);
    while rest > 0 {
        (large, rest) = (rest, large % rest);
    }
    a / large.max(1) * b
}
