//! Predictions for the points of a plan. The runs of fit points (points that fits may use) show the pace of the cores and the
//! errors of predictions, and both correct the predictions.

use super::Failure;
use super::validate::{Base, nothing};
use crate::profile::Profile;
use crate::validate::{
    Bound, Likeness, Observed, Pace, Plan, PlanPoint, Point, Runs, Simulated, Use, Witness,
    simulate, with_errors,
};
use rayon::prelude::*;

/// Returns the points with their live runs and predictions. A prediction follows from the profile, with the times on cores scaled
/// to the pace that the fit points show in the same attempt. The spread of single runs around a prediction is the larger of two:
/// the spread at fit points with the same kind of work (timed, on the host, on a GPU), and the spread at those that also have the
/// same bottleneck.
pub(super) fn predictions(
    base: &Base,
    plan: &Plan,
    runs: Vec<Runs>,
) -> Result<Vec<Point>, Failure> {
    let expected: Vec<Expected> = plan
        .points
        .par_iter()
        .map(|point| Expected::new(base, plan, point, &base.profile))
        .collect::<Result<_, _>>()?;
    let seen = Seen { base, plan, runs: &runs, expected: &expected };
    let one = |at: usize| -> Result<Point, Failure> {
        let (point, runs) = (&plan.points[at], &runs[at]);
        let pace = seen.pace(runs.before.len(), None);
        let found = match pace == Pace::default() {
            true => expected[at].found.clone(),
            false => Expected::new(base, plan, point, &pace.applied(&base.profile))?.found,
        };
        let likeness = expected[at].likeness;
        let prediction =
            found.predict(&seen.errors(likeness)).ok_or_else(|| nothing(&point.name))?;
        let mut compared = Point::new(&point.name, point.used, prediction, plan.noise_floor);
        (compared.bound, compared.naive, compared.pace) = (likeness.bound, found.naive, pace);
        (compared.runs, compared.before) = (runs.last.clone(), runs.before.clone());
        Ok(compared)
    };
    (0..plan.points.len()).into_par_iter().map(one).collect()
}

/// Prediction that a profile gives for a point.
struct Expected {
    found: Simulated,
    /// Predicted median throughput [samples/s].
    rate: f64,
    likeness: Likeness,
}

impl Expected {
    fn new(
        base: &Base,
        plan: &Plan,
        point: &PlanPoint,
        profile: &Profile,
    ) -> Result<Expected, Failure> {
        let overrides = base.overrides(&point.set)?;
        let found = simulate(&base.file, &overrides, profile, plan.predictions, None, 0.0)?;
        let median = found.predict(profile).ok_or_else(|| nothing(&point.name))?.median;
        let likeness = Likeness::new(Bound::from_run(&median), &base.file.resolve(&overrides)?);
        Ok(Expected { found, rate: median.samples_per_second, likeness })
    }
}

/// Data on all points. A prediction uses no measurements except those of fit points.
struct Seen<'a> {
    base: &'a Base,
    plan: &'a Plan,
    runs: &'a [Runs],
    expected: &'a [Expected],
}

impl Seen<'_> {
    /// Returns the indices of fit points that were run.
    fn fit_points(&self) -> impl Iterator<Item = usize> {
        let used = |at: &usize| self.plan.points[*at].used == Use::Fit;
        (0..self.plan.points.len()).filter(used).filter(|at| !self.runs[*at].last.is_empty())
    }

    /// Returns the pace of the cores in an attempt, estimated from all fit points except `but`.
    fn pace(&self, attempt: usize, but: Option<usize>) -> Pace {
        let witness = |at: usize| {
            let Expected { rate, likeness, .. } = self.expected[at];
            let measured = self.runs[at].rate(attempt)?;
            Some(Witness { likeness, predicted: rate, measured })
        };
        let others = self.fit_points().filter(|at| Some(*at) != but);
        Pace::from_witnesses(&others.filter_map(witness).collect::<Vec<_>>())
    }

    /// Returns the profile with the errors of predictions as its noise. Errors are computed twice: over fit points whose work is of
    /// the same kind as that of `of` (timed, on the host, on a GPU), and over those that also have the same bottleneck. The larger
    /// errors are taken. Where there are none, the profile's own noise stands in for them. Each fit point is predicted without its own
    /// runs.
    fn errors(&self, of: Likeness) -> Profile {
        let bound_alike = self.errors_of(&|other| other == of);
        let work_alike = self.errors_of(&|other| other.work == of.work);
        if noise(&bound_alike) > noise(&work_alike) { bound_alike } else { work_alike }
    }

    fn errors_of(&self, wanted: &dyn Fn(Likeness) -> bool) -> Profile {
        let mine = self.fit_points().filter(|at| wanted(self.expected[*at].likeness));
        let group = |at: usize| {
            let (runs, expected) = (&self.runs[at], &self.expected[at]);
            let pace = self.pace(runs.before.len(), Some(at)).factor(expected.likeness);
            (expected.rate / pace, &runs.last[..])
        };
        let groups: Vec<(f64, &[Observed])> = mine.map(group).collect();
        with_errors(&self.base.profile, &groups)
    }
}

/// Returns the run-to-run noise in a profile, as a share; 0 if unknown.
fn noise(profile: &Profile) -> f64 {
    profile.noise.as_ref().and_then(|noise| noise.value("run_to_run")).unwrap_or(0.0)
}
