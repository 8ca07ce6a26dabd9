//! The effect of a relaxed limit on a job whose nodes fail.

use crate::report::{Cause, RecoveryOutcome};
use crate::scenario::Every;
use crate::stats::t_interval;

use super::effect::Effect;
use super::{FEWEST, Reference};
use crate::verdict::course::Course;

/// Number of equal parts of the time in which a short run with failures is compared with the base run.
const PARTS: usize = 10;
/// Largest share of its time that a job is taken to lose to failures.
const MOST_FAILING: f64 = 0.95;
/// Uncertainty of the time that one failure costs, relative to that time.
const ROUGH: f64 = 0.5;

impl Reference<'_> {
    /// Returns the effect on steps with failures between them, from the effect on steps without.
    ///
    /// Failures come at the same times whatever steps take, and the job is down for as long. They destroy the steps since the last
    /// checkpoint: as much time if checkpoints come in intervals of time, and as many steps if they come after a number of steps.
    pub(super) fn amid_failures(&self, without: Effect) -> Option<Effect> {
        let now = self.long.as_ref()?.step;
        let (failing, shrinking) = (self.failing(), self.lost_by_steps());
        let gain = |gain: f64| {
            let (ratio, saved) = (1.0 - gain, shrinking * gain.clamp(0.0, 1.0));
            1.0 - ratio * (1.0 - failing) / (1.0 - failing + saved)
        };
        let [low, high] = without.gain_interval.map(gain);
        let gain = gain(without.gain);
        // What a failure costs is only known from as many failures as there were.
        let of_one = (shrinking + failing * ROUGH) / (self.recovery().failures as f64).sqrt();
        let rough = of_one * (1.0 - gain);
        Some(self.effect_on(now, gain, [low - rough, high + rough]))
    }

    /// Returns the share of the job's time that failures cost.
    fn failing(&self) -> f64 {
        self.subject.share(Cause::Fault).min(MOST_FAILING)
    }

    /// Returns the part of that share that shrinks with the step time: the lost steps, if checkpoints come after a number of steps.
    fn lost_by_steps(&self) -> f64 {
        let RecoveryOutcome { lost_seconds, down_seconds, .. } = self.recovery();
        let every = self.described().checkpoint.as_ref().map(|of| of.every);
        match every {
            Some(Every::Steps(_)) if lost_seconds > 0.0 => {
                self.failing() * lost_seconds / (lost_seconds + down_seconds)
            }
            Some(Every::Steps(_) | Every::Seconds(_)) | None => 0.0,
        }
    }

    /// Returns the effect of the relaxed limit, from the number of steps completed by the same time in both runs. Failures come at the
    /// same times in both, unless they are what is relaxed.
    pub(super) fn effect_in_time(&self, then: &Course) -> Option<Effect> {
        let long = self.long.as_ref()?;
        let start = self.course.time_of(self.counted.start);
        let end = self.course.time_of(self.counted.end).min(then.time_of(then.steps()));
        let ends = (0..=PARTS).map(|part| start + (end - start) * part as f64 / PARTS as f64);
        let steps: Vec<[f64; 2]> =
            ends.map(|end| [self.course.progress(end), then.progress(end)]).collect();
        let parts = steps.windows(2).map(|of| [of[1][0] - of[0][0], of[1][1] - of[0][1]]);
        let parts: Vec<[f64; 2]> = parts.collect();
        let [before, after] = [0, 1].map(|run| parts.iter().map(|of| of[run]).sum::<f64>());
        if end <= start || before.min(after) < FEWEST as f64 {
            return None;
        }
        // A ratio of sums, and its standard error (Cochran, *Sampling Techniques*, section 6.4).
        let ratio = before / after;
        let each = after / PARTS as f64;
        let errors: Vec<f64> = parts.iter().map(|of| (of[0] - ratio * of[1]) / each).collect();
        let [low, high] = t_interval(&errors)?;
        // The compared time may have had more failures than the whole run, or fewer.
        let usual = ((end - start) / before / long.step - 1.0).abs() * ratio;
        let half = ((high - low) / 2.0).hypot(usual);
        let gain = 1.0 - ratio.max(long.computing);
        Some(self.effect_on(long.step, gain, [gain - half, gain + half]))
    }

    /// Returns the effect of a gain on the long-run step time `now` [s].
    pub(super) fn effect_on(&self, now: f64, gain: f64, gain_interval: [f64; 2]) -> Effect {
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
}
