//! `forebay validate --measured`: predictions of training jobs that ran elsewhere.

use super::validate::{Base, Fitted, check_memory, finish, nothing, paths};
use super::{Failure, input};
use crate::cli::Validate;
use crate::input::{Records, WRITTEN};
use crate::scenario::{Job, Override, Problems, Scenario, Value};
use crate::stats::quantile;
use crate::validate::{
    self, Explanation, Factors, MeasuredRow, Observed, Point, PredictError, Refit, Telling, Use,
    simulate, with_noise,
};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

/// Compares predictions with the rows of training jobs that ran elsewhere.
pub(super) fn execute(wanted: &Validate, rows: &Path) -> Result<(), Failure> {
    let Some(scenario) = &wanted.scenario else {
        let what = "rows need the scenario that describes their runs: give --scenario FILE";
        return Err(Failure::Input(what.to_owned()));
    };
    let base = Base::open(scenario, wanted.profile.as_deref(), false)?;
    base.read_by(paths(wanted).reads("--measured", rows)).check()?;
    let file = Records::new(BufReader::new(input::open_within(rows, WRITTEN)?));
    let cannot = |error| Failure::Input(format!("cannot use {}: {error}", input::name(rows)));
    let measured = validate::read_measured(file).map_err(cannot)?;
    check_memory(&base, measured.iter().map(|row| &row.set), rayon::current_num_threads())?;
    base.read_by(paths(wanted)).check()?;
    let times = NextTimes::new(&measured);
    measured.par_iter().try_for_each(|row| {
        let overrides = times.overrides(&base, row, &row.set)?;
        if let [job] = &base.file.resolve(&overrides)?.jobs[..] {
            row.check_keys(&job.name).map_err(cannot)?;
        }
        let factors = Factors::default().with_batch(times.of(row));
        let shown = validate::show(&base.file, &overrides, &base.profile, factors)?;
        let Some(shown) = shown else { return Ok(()) };
        row.check(shown.samples_per_second * shown.step_time, shown.step_time).map_err(cannot)
    })?;
    let rows = measured;
    let refit = refitted(&base, &rows, &times)?;
    let telling = refit.as_ref().and_then(|refit| telling(&base, &rows, &times, refit));
    let profile = with_noise(&base.profile, &equal_rows(&rows));
    let one = |row: &validate::MeasuredRow| -> Result<Point, Failure> {
        let overrides = times.overrides(&base, row, &row.set)?;
        let scenario = base.file.resolve(&overrides)?;
        let runs = wanted.predictions;
        let next_time = times.of(row);
        let found = simulate(&base.file, &overrides, &profile, runs, refit.as_ref(), next_time)?;
        let prediction = found.predict(&profile).ok_or_else(|| nothing(&row.name))?;
        // A row is a single run, so its noise is unknown; with an infinite noise floor, noise never excludes it.
        let mut point = Point::new(&row.name, row.used, prediction, f64::INFINITY);
        if row.is_measured() {
            point.runs = vec![row.observed(samples_of_a_step(&scenario))];
        }
        point.naive = found.naive;
        Ok(point)
    };
    let points: Vec<Point> = rows.par_iter().map(one).collect::<Result<_, _>>()?;
    let fitted =
        Fitted { refit: refit.as_ref(), telling: telling.as_ref(), next_time: times.usual };
    finish(wanted, &points, fitted)
}

/// What `next()` costs the loops of rows although their batches are ready.
struct NextTimes {
    /// Median over the rows that say it [s]; `None` if none does.
    usual: Option<f64>,
}

impl NextTimes {
    fn new(rows: &[MeasuredRow]) -> NextTimes {
        let mut known: Vec<f64> = rows.iter().filter_map(|row| row.next_time).collect();
        known.sort_by(f64::total_cmp);
        NextTimes { usual: quantile(&known, 0.5) }
    }

    /// Returns the overrides `set` of a row. What the profile says of taking batches does not count where the row, or another, says it.
    fn overrides(
        &self,
        base: &Base,
        row: &MeasuredRow,
        set: &[String],
    ) -> Result<Vec<Override>, Problems> {
        let mut all = base.overrides(set)?;
        if row.next_time.or(self.usual).is_some() {
            let scenario = validate::resolve(&base.file, &all, &base.profile)?;
            let taking = scenario.jobs.iter().filter(|job| job.loader.taking > 0.0);
            let key = |job: &Job| format!("job.{}.loader.pytorch.take", job.name);
            all.extend(taking.map(|job| Override::new(key(job), Value::from("0 s"))));
        }
        Ok(all)
    }

    /// Returns that of a row, or the usual one if it does not say it; 0 if none does [s].
    fn of(&self, row: &MeasuredRow) -> f64 {
        row.next_time.or(self.usual).unwrap_or(0.0)
    }
}

/// Fits factors on times to the rows that are marked for the fit; `None` if no row is marked.
fn refitted(
    base: &Base,
    rows: &[MeasuredRow],
    times: &NextTimes,
) -> Result<Option<Refit>, Failure> {
    let marked: Vec<&MeasuredRow> = rows.iter().filter(|row| row.used == Use::Fit).collect();
    let scenario = |row: &&MeasuredRow| {
        let overrides = times.overrides(base, row, &row.set)?;
        validate::resolve(&base.file, &overrides, &base.profile)
    };
    let scenarios = marked.iter().map(scenario).collect::<Result<Vec<_>, Problems>>()?;
    let pairs = || marked.iter().zip(&scenarios);
    let measured: Vec<Observed> =
        pairs().map(|(row, scenario)| row.observed(samples_of_a_step(scenario))).collect();
    let bytes: Vec<f64> = measured
        .iter()
        .zip(&scenarios)
        .map(|(row, scenario)| row.samples_per_second * largest_sample(scenario))
        .collect();
    let simulate = |factors: &[Factors]| -> Result<Vec<Vec<Option<Observed>>>, Failure> {
        let row = |(row, scenario): (&&MeasuredRow, &Scenario), factors: &Factors| {
            let factors = factors.with_batch(times.of(row));
            Ok(validate::figures(&factors.applied(scenario.clone())).map_err(PredictError::from)?)
        };
        let all = |factors| pairs().map(|pair| row(pair, factors)).collect();
        factors.par_iter().map(all).collect()
    };
    validate::refit(&measured, &Explanation::all(&measured, &bytes), simulate)
}

/// Returns the run that would tell the explanations of the rows apart, beside the fastest row of the fit.
fn telling(base: &Base, rows: &[MeasuredRow], times: &NextTimes, refit: &Refit) -> Option<Telling> {
    let rate = |row: &MeasuredRow| row.samples_per_second.or_else(|| Some(1.0 / row.step_time?));
    let fitted = rows.iter().filter(|row| row.used == Use::Fit);
    let fastest =
        fitted.max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)))?;
    let overrides = times.overrides(base, fastest, &fastest.set).ok()?;
    let scenario = base.file.resolve(&overrides).ok()?;
    let simulate = |set: &[String], factors: Factors| {
        let set = [&fastest.set[..], set].concat();
        let factors = factors.with_batch(times.of(fastest));
        let overrides = times.overrides(base, fastest, &set).ok()?;
        validate::show(&base.file, &overrides, &base.profile, factors).ok()?
    };
    validate::telling(validate::candidates(&scenario), &refit.explanations, simulate)
}

/// Groups rows for the fit with equal keys: their differences show the run-to-run noise.
fn equal_rows(rows: &[MeasuredRow]) -> Vec<Vec<Observed>> {
    let mut groups: BTreeMap<&[String], Vec<Observed>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.used == Use::Fit && row.samples_per_second.is_some()) {
        groups.entry(&row.set).or_default().push(row.observed(1.0));
    }
    groups.into_values().collect()
}

/// Returns the mean size of a sample of the data set with the largest ones [B].
fn largest_sample(scenario: &Scenario) -> f64 {
    let sizes = scenario.jobs.iter().map(|job| scenario.datasets[job.dataset].mean_size());
    sizes.fold(0.0, f64::max)
}

/// Returns the number of samples that all jobs together train on in one step.
fn samples_of_a_step(scenario: &Scenario) -> f64 {
    let of = |job: &Job| job.batch * u64::from(job.copies_per_node);
    scenario.jobs.iter().map(of).sum::<u64>() as f64
}
