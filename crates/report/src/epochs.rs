//! Epochs of a run: their number, and a sentence on how long they take.

use super::JobOutcome;
use super::figures::{JobFigures, JobReport};
use super::format::seconds;

/// Returns the number of epochs that some copy trained on, in whole or in part. An epoch that only readers have begun, ahead of
/// the trainers, does not count.
pub(super) fn trained<'o>(copies: impl Iterator<Item = &'o JobOutcome>, samples: u64) -> usize {
    let fresh = |copy: &JobOutcome| copy.steps.iter().map(|step| step.fresh).sum::<u64>();
    let most = copies.map(fresh).max().unwrap_or(0);
    usize::try_from(most.div_ceil(samples.max(1)).max(1)).unwrap_or(usize::MAX)
}

/// Minimum relative difference of the step times in the first epoch and in later ones at which both are given.
const APART: f64 = 0.05;

/// Returns the figures of the first epoch and of later epochs, if caches make their step times differ; otherwise `None`.
pub(super) fn apart(job: &JobReport) -> Option<[&JobFigures; 2]> {
    let epochs = [job.first_epoch.as_ref()?, job.later_epochs.as_ref()?];
    let [before, after] = epochs.map(|figures| figures.step_time.mean);
    ((before? / after? - 1.0).abs() > APART).then_some(epochs)
}

/// Returns which epochs the figures of all measured steps are about, as the end of a phrase; empty if epochs do not differ.
pub(super) fn of_all_figures(job: &JobReport) -> &'static str {
    match apart(job) {
        None => "",
        Some([_, later]) if later.steps.mean < job.figures.steps.mean => {
            ", first and later epochs together"
        }
        Some(_) => " in later epochs",
    }
}

/// Returns a sentence on how long an epoch takes: the first one and later ones where both were observed; `None` if no step was.
pub(super) fn line(job: &JobReport) -> Option<String> {
    let time = |figures: &JobFigures| figures.epoch_time.mean.map(seconds);
    let (name, mean) = (&job.name, time(&job.figures)?);
    let first = job.first_epoch.as_ref().and_then(time);
    let later = job.later_epochs.as_ref().and_then(time);
    // The mean of all measured steps is left out beside the two: without the warm-up it need not lie between them.
    Some(match (first, later) {
        (Some(first), Some(later)) => {
            format!("The first epoch of `{name}` takes {first}, a later one {later}.")
        }
        _ => format!("An epoch of `{name}` takes {mean} at this rate."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{outcome, scenario};
    use crate::{StepOutcome, summarise};

    #[test]
    fn the_times_of_the_first_and_of_later_epochs_are_not_shown_beside_their_mean() {
        let mut job = summarise(&scenario(), &[outcome([0.1, 0.05])], 0.0).jobs.remove(0);
        let figures = |time| {
            let mut figures = job.figures.clone();
            figures.epoch_time.mean = Some(time);
            Some(figures)
        };
        let [first, later] = [figures(90.0), figures(30.0)];
        (job.first_epoch, job.later_epochs) = (None, None);
        assert_eq!(line(&job).as_deref(), Some("An epoch of `lenet` takes 2.25 s at this rate."));
        (job.first_epoch, job.later_epochs) = (first, later);
        let expected = "The first epoch of `lenet` takes 1 min 30 s, a later one 30 s.";
        assert_eq!(line(&job).as_deref(), Some(expected));
    }

    #[test]
    fn an_epoch_read_ahead_but_not_trained_on_is_not_counted() {
        let copy = |fresh: &[u64]| {
            let step = |fresh: &u64| StepOutcome { fresh: *fresh, ..StepOutcome::default() };
            JobOutcome { steps: fresh.iter().map(step).collect(), ..JobOutcome::default() }
        };
        let of = |copies: &[JobOutcome]| trained(copies.iter(), 100);
        assert_eq!(of(&[copy(&[50, 50, 50, 50, 50, 50])]), 3);
        assert_eq!(of(&[copy(&[50, 50]), copy(&[50, 50, 1])]), 2);
        // Incomplete batches are left out at the ends of epochs.
        assert_eq!(of(&[copy(&[90, 90, 90])]), 3);
        assert_eq!(of(&[copy(&[])]), 1);
    }
}
