//! `forebay run --uncertainty`: simulates runs in parallel, each with parameters sampled from the uncertainty of the
//! measurements.

use super::interrupt::{self, Late};
use super::points::{self, Opened};
use super::{Failure, output, run, run_figure};
use crate::cli::Run;
use crate::profile::Profile;
use crate::report::{self, Predicted};
use crate::scenario::Scenario;
use crate::sim;
use crate::uncertainty;
use rayon::prelude::*;
use std::time::Instant;

pub(super) fn execute(
    arguments: &Run,
    runs: u32,
    opened: &Opened,
    scenario: &Scenario,
    picture: Option<run_figure::Kind>,
    quiet: bool,
) -> Result<(), Failure> {
    let profile = opened.profile_to_sample()?;
    let begin = Instant::now();
    let seed = scenario.run.seed;
    let one = |index: u32| simulate(opened, &profile, seed, index, arguments);
    let pool = points::pool(arguments.scenario.options.threads)?;
    let found: Vec<_> = pool.install(|| (0..runs).into_par_iter().filter_map(one).collect());
    let done: Vec<Predicted> = found.into_iter().collect::<Result<_, Failure>>()?;
    if done.is_empty() {
        return Err(Failure::Interrupted("no run was finished".into()));
    }
    let report = report::predict(scenario, &done, begin.elapsed().as_secs_f64());
    if let Some(path) = &arguments.trace {
        let trace = done.iter().find_map(|run| run.outcome.trace.clone()).unwrap_or_default();
        output::file(path, |to| report::trace::write(&trace, to))?;
    }
    if let (Some(path), Some(kind)) = (&arguments.figure, picture) {
        let first = done.first().map(|run| &run.outcome);
        run_figure::write(path, kind, &report, first)?;
    }
    run::show(arguments, &report, quiet)?;
    if done.len() < runs as usize {
        let kept = format!("the report is of {} of {runs} runs", done.len());
        return Err(Failure::Interrupted(kept));
    }
    Ok(())
}

/// Simulates one run; `None` if a signal came before its end.
fn simulate(
    opened: &Opened,
    profile: &Profile,
    seed: u64,
    index: u32,
    arguments: &Run,
) -> Option<Result<Predicted, Failure>> {
    if interrupt::raised() {
        return None;
    }
    let scenario = match opened.resolve_on(&uncertainty::drawn(profile, seed, index)) {
        Ok(scenario) => scenario,
        Err(problems) => return Some(Err(problems.into())),
    };
    let trace = arguments.trace.is_some() && index == 0;
    let options = sim::Options { trace, stop: Some(interrupt::flag()), ..sim::Options::default() };
    let outcome = sim::run(&scenario, index, &options);
    let slowdown = uncertainty::slowdown(profile, seed, index, outcome.makespan);
    if interrupt::raised() {
        return None;
    }
    interrupt::when_late(Late::GoOn(run::FINISHED.to_owned()));
    let whole = || Ok(Predicted { scenario, outcome: outcome.whole()?, slowdown });
    Some(whole())
}
