//! Time to accuracy: the scenario assumes how much training a job needs to reach its target; the run shows how long this
//! training takes.

use super::figures::{AccuracyReport, Figure};
use super::measured::Measured;
use super::sample::{Nature, Ratio, Sample, Stretch, over_replications};
use super::sync::mean_staleness;
use super::window::{Window, first_epoch, ratio};
use super::{JobOutcome, World};
use forebay_engine::stats::mean;
use forebay_model::law::EpochsLaw;
use forebay_scenario::{Accuracy, CountedBatch, Job, Scenario};

/// Returns the time that a job needs to reach its target, from the job's copies in each replication (`all`); `None` if the
/// scenario sets no target, or no step was completed.
pub(super) fn accuracy(
    scenario: &Scenario,
    job: &Job,
    world: World,
    all: &[Vec<(&JobOutcome, Measured)>],
) -> Option<AccuracyReport> {
    let accuracy = job.accuracy.as_ref()?;
    let copies: Vec<Vec<&JobOutcome>> =
        all.iter().map(|copies| copies.iter().map(|(copy, _)| *copy).collect()).collect();
    let dataset = scenario.datasets[job.dataset].samples;
    let staleness = mean_staleness(&copies);
    let epochs = accuracy.epochs(job) * (1.0 + accuracy.staleness * staleness);
    let way = PathToTarget { accuracy, needed: epochs * dataset as f64 };
    let behind = |(copy, measured): &(&JobOutcome, Measured)| {
        let (from, epoch) = (measured.steps.start, first_epoch(copy, dataset));
        let from = if epoch < copy.steps.len() { from.max(epoch) } else { from };
        if from < copy.steps.len() { from } else { 0 }
    };
    let stretches: Vec<Vec<Stretch>> = all
        .iter()
        .map(|copies| {
            let steps = |of| behind(of)..of.1.steps.end.max(behind(of));
            copies.iter().map(|of| Stretch::new(of.0, steps(of))).collect()
        })
        .collect();
    let sample = Sample::new(&stretches, Nature { chance: false, round: 0 });
    let figure = |of: fn(&Course) -> f64| {
        let each = |copies: &Vec<(&JobOutcome, Measured)>| {
            let course = copies.iter().filter_map(|copy| way.course(copy.0, behind(copy)));
            mean(&course.map(|course| of(&course)).collect::<Vec<f64>>())
        };
        over_replications(&all.iter().filter_map(each).collect::<Vec<f64>>())
    };
    let rate = sample.ratio(Ratio::Rate, |w| Some((way.useful(w), w.elapsed)));
    let (ahead, observed) = (figure(|course| course.ahead), figure(|course| course.observed));
    let worth = sample.figure(|w| ratio(way.useful(w), w.samples));
    let time = as_wide(figure(|course| course.time), ahead.mean?, &rate);
    let efficiency = accuracy.law.least() / epochs;
    Some(AccuracyReport {
        epochs,
        batch: accuracy.batch_of(job),
        fresh_samples: way.needed,
        samples: figure(|course| course.samples),
        useful_samples_per_second: rate,
        statistical_efficiency: scaled(worth, efficiency),
        time,
        observed: observed.mean?.min(1.0),
        assumed: assumed(accuracy, job, staleness),
        measured: measured(world, observed.mean?),
    })
}

/// The training that a job needs to reach its target.
struct PathToTarget<'a> {
    accuracy: &'a Accuracy,
    /// Training needed to reach the target, as a number of fresh samples; a repeated sample counts as the part of a fresh
    /// sample that it is worth.
    needed: f64,
}

/// How a job copy reaches its target: the time and the samples that it needs.
struct Course {
    /// Time from the copy's arrival to the target [s].
    time: f64,
    /// Part of `time` that lies after the end of the run and is extrapolated [s].
    ahead: f64,
    /// Samples trained on until the target.
    samples: f64,
    /// Share of the needed training that the run covered; above 1 if the run went further.
    observed: f64,
}

impl PathToTarget<'_> {
    fn useful(&self, window: &Window) -> f64 {
        self.accuracy.useful(window.samples, window.fresh)
    }

    /// Returns how a copy reaches its target. If the run ends before the target, the remaining time is extrapolated from the
    /// rate of the steps with index `behind` or higher. Returns `None` if the copy has no step, or if its samples contribute
    /// nothing to the training.
    fn course(&self, copy: &JobOutcome, behind: usize) -> Option<Course> {
        let all = Window::new(copy, 0..copy.steps.len())?;
        let before = copy.staging.iter().map(|node| node.seconds).fold(0.0, f64::max);
        let done = self.useful(&all);
        let observed = ratio(done, self.needed)?;
        if done >= self.needed {
            let (time, samples) = self.reached(copy);
            return Some(Course { time: before + time, ahead: 0.0, samples, observed });
        }
        let steady = Window::new(copy, behind..copy.steps.len())?;
        let left = self.needed - done;
        let ahead = left * ratio(steady.elapsed, self.useful(&steady))?;
        let samples = all.samples + left * ratio(steady.samples, self.useful(&steady))?;
        Some(Course { time: before + all.elapsed + ahead, ahead, samples, observed })
    }

    /// For a copy that reached the target during the run: returns the time from the copy's start to the target [s], and the
    /// number of samples trained on until then.
    fn reached(&self, copy: &JobOutcome) -> (f64, f64) {
        let (mut start, mut done, mut samples) = (copy.start, 0.0, 0.0);
        for step in &copy.steps {
            let here = self.accuracy.useful(step.samples as f64, step.fresh as f64);
            if done + here >= self.needed {
                let part = ratio(self.needed - done, here).unwrap_or(0.0);
                let time = start + part * (step.end - start) - copy.start;
                return (time, samples + part * step.samples as f64);
            }
            (start, done, samples) = (step.end, done + here, samples + step.samples as f64);
        }
        (start - copy.start, samples)
    }
}

/// Returns `time` with a confidence interval. If `time` has no interval, it gets one whose half-width is the relative
/// half-width of `rate`, multiplied by `ahead` [s]: the part of the time that was extrapolated from this rate.
fn as_wide(time: Figure, ahead: f64, rate: &Figure) -> Figure {
    let (Some(mean), None) = (time.mean, time.ci95) else { return time };
    let spread = |[low, high]: [f64; 2]| ratio((high - low) / 2.0, rate.mean.unwrap_or(0.0));
    let half = rate.ci95.and_then(spread).map(|relative| relative * ahead);
    Figure { ci95: half.map(|half| [mean - half, mean + half]), ..time }
}

fn scaled(figure: Figure, factor: f64) -> Figure {
    Figure {
        mean: figure.mean.map(|mean| mean * factor),
        ci95: figure.ci95.map(|ends| ends.map(|end| end * factor)),
        ..Figure::default()
    }
}

/// Writes what the scenario assumes about accuracy, in words.
fn assumed(accuracy: &Accuracy, job: &Job, staleness: f64) -> String {
    let number = super::format::number;
    let mut text = match &accuracy.law {
        EpochsLaw::Fixed(epochs) => format!("{} epochs whatever the batch", number(*epochs)),
        EpochsLaw::Critical { least, critical_batch } => format!(
            "{} epochs × (1 + batch {} ÷ critical batch {})",
            number(*least),
            accuracy.batch_of(job),
            number(*critical_batch)
        ),
        EpochsLaw::Table(_) => {
            format!("epochs at a batch of {} from the table", accuracy.batch_of(job))
        }
    };
    if accuracy.batch == CountedBatch::ModelCopy {
        text += ", counting the batch of one model copy";
    }
    let averaging = accuracy.averaging_factor(job);
    if averaging != 1.0 {
        text += &format!(", × {} for {} models that are averaged", number(averaging), job.models());
    }
    if accuracy.factor != 1.0 {
        text += &format!(", × {} by `factor`", number(accuracy.factor));
    }
    if job.is_uneven() && accuracy.staleness > 0.0 {
        let (each, mean) = (number(accuracy.staleness), number(staleness));
        text += &format!(", × (1 + {each} × {mean}) for stale updates");
    } else if job.is_uneven() {
        text += ", stale updates counted as fully useful";
    }
    if job.repeats() {
        text += &format!(", repeated samples worth {} of fresh ones", number(accuracy.usefulness));
    }
    text
}

/// Writes which part of the time was simulated or measured, in words.
fn measured(world: World, observed: f64) -> String {
    let how = match world {
        World::Simulated => "simulated",
        World::Live => "measured",
    };
    if observed >= 1.0 {
        return format!("time, {how} up to the target");
    }
    let share = super::format::share(observed);
    format!(
        "time, {how} for {share} of the way, the rest at the rate after warm-up and first epoch"
    )
}
