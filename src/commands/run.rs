//! `forebay run`: simulates one scenario, its replications in parallel.

use super::interrupt::{self, Late};
use super::paths::Paths;
use super::points::{self, Opened};
use super::progress::{VerdictWatch, Watch};
use super::{Failure, output, run_figure, uncertain};
use crate::cli::{Assume, Run, VerdictKind};
use crate::profile::Profile;
use crate::ranges::{self, Draws, Question};
use crate::report::{self, Outcome, Report};
use crate::scenario::{self, Override, Scenario, printable_line};
use crate::sim;
use crate::uncertainty;
use crate::verdict::{self, Machines};
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Number of machines, drawn from what the measurements of a profile allow, on which the verdict tries again what helps.
const MACHINES: u32 = 9;

pub(super) fn execute(run: &Run, quiet: bool) -> Result<(), Failure> {
    let paths = Paths::default().writes("--output", run.output.as_ref())?;
    let paths = paths.writes("--trace", run.trace.as_ref())?;
    let paths = paths.writes("--figure", run.figure.as_ref())?.prints(run.output.is_none());
    let picture = run.figure.as_deref().map(run_figure::kind).transpose()?;
    let opened =
        Opened::from_arguments(&run.scenario.scenario, &run.scenario.options, overrides(run))?;
    let scenario = opened.resolve_to_run(|scenario| runs_of(run, scenario))?;
    opened.read_by(paths).check()?;
    let chosen = chosen(run, &scenario)?;
    if let Some(runs) = run.uncertainty {
        return uncertain::execute(run, runs, &opened, &scenario, picture, quiet);
    }
    let begin = Instant::now();
    let pool = points::pool(run.scenario.options.threads)?;
    let collectives = sim::IdleCollectives::default();
    let options = sim::Options {
        trace: run.trace.is_some(),
        stop: Some(interrupt::flag()),
        collectives: Some(&collectives),
        ..sim::Options::default()
    };
    let outcomes = simulate(&scenario, &pool, &options, quiet)?;
    let mut report = report::summarise(&scenario, &outcomes, begin.elapsed().as_secs_f64());
    let without_step = chosen.filter(|&job| !report::choose_job(&mut report, &scenario, job));
    let draws = match assumes_ranges(run) {
        true => draws(&opened, (&scenario, &outcomes, &report), &pool, &collectives),
        false => None,
    };
    let over_ranges: Vec<Report> = draws.iter().flat_map(Draws::reports).cloned().collect();
    let watch = VerdictWatch::new(quiet || run.verdict == VerdictKind::Quick, interim(&report));
    let late = Arc::new(AtomicBool::new(false));
    if let Some(time) = run.verdict_time {
        raise_after(time, &late)?;
    }
    let quick = run.verdict == VerdictKind::Quick;
    let profile = if quick { None } else { opened.profile()? };
    let seconds = outcomes.iter().map(|outcome| outcome.makespan).fold(0.0, f64::max);
    let spread = profile.as_ref().map_or(0.0, |profile| uncertainty::spread(profile, seconds));
    let draw = |profile: &Arc<Profile>| {
        (0..MACHINES).map(|run| uncertainty::drawn(profile, scenario.run.seed, run)).collect()
    };
    let drawn: Vec<Profile> = profile.as_ref().map(draw).unwrap_or_default();
    let options = verdict::Options {
        quick,
        machines: Machines { drawn: &drawn, spread },
        draws: &over_ranges,
        others: run.job.is_none(),
        stop: Some(interrupt::flag()),
        collectives: Some(&collectives),
        told: Some(&|job, share| watch.tell(job, share)),
        least_events: None,
        late: Some(&*late),
    };
    let asked = (&scenario, &outcomes[..], &report);
    let verdicts = pool.install(|| verdict::find_all(opened.source(), asked, &options));
    let is_cut = !options.quick && interrupt::raised();
    watch.end();
    verdict::put(&mut report, verdicts);
    report.rests_on = draws.as_ref().and_then(Draws::rests_on);
    if let Some(job) = without_step {
        report::say_without_step(&mut report, job);
    }
    if let Some(path) = &run.trace {
        let trace = outcomes.iter().find_map(|outcome| outcome.trace.as_ref());
        let trace = trace.cloned().unwrap_or_default();
        if trace.dropped > 0 {
            let lost = trace.dropped;
            output::warn(quiet, &format!("the timeline was too long: {lost} entries left out"));
        }
        output::file(path, |to| report::trace::write(&trace, to))?;
    }
    if let (Some(path), Some(kind)) = (&run.figure, picture) {
        run_figure::write(path, kind, &report, outcomes.first())?;
    }
    show(run, &report, quiet)?;
    let (done, all) = (outcomes.len(), scenario.run.replications as usize);
    if done < all {
        let kept = format!("the report is of {done} of {all} replications");
        return Err(Failure::Interrupted(kept));
    }
    if is_cut {
        return Err(Failure::Interrupted("the report is whole but for its verdict".into()));
    }
    Ok(())
}

/// Returns whether to simulate draws of numbers that nobody measured.
fn assumes_ranges(run: &Run) -> bool {
    match run.assume {
        Some(assume) => assume == Assume::Ranges,
        None => run.verdict == VerdictKind::Full,
    }
}

/// Returns the draws of numbers that nobody measured; `None` if they do not change the answer, or if a signal came before that was known.
fn draws(
    opened: &Opened,
    (scenario, outcomes, report): (&Scenario, &[Outcome], &Report),
    pool: &rayon::ThreadPool,
    collectives: &sim::IdleCollectives,
) -> Option<Draws> {
    let stop = Some(interrupt::flag());
    let options = sim::Options { stop, collectives: Some(collectives), ..sim::Options::default() };
    let of = (scenario, outcomes.first()?, report);
    let question = Question::of_bottleneck(opened.source(), of, &options)?;
    let found = pool.install(|| ranges::draws(question));
    found.filter(|_| !interrupt::raised())
}

/// Raises a flag after some time, in a thread.
fn raise_after(time: Duration, flag: &Arc<AtomicBool>) -> Result<(), Failure> {
    if time.is_zero() {
        flag.store(true, Ordering::Relaxed);
        return Ok(());
    }
    let flag = Arc::clone(flag);
    let wait = move || {
        thread::sleep(time);
        flag.store(true, Ordering::Relaxed);
    };
    let started = thread::Builder::new().name("verdict time".to_owned()).spawn(wait);
    let refused =
        |error| Failure::Machine(format!("--verdict-time: no thread can be started: {error}"));
    started.map(drop).map_err(refused)
}

/// Returns the number of runs whose outcomes must fit into memory: runs with sampled parameters, or replications. It is at least
/// 2 for a full verdict, whose short runs are simulated two at a time.
fn runs_of(run: &Run, scenario: &Scenario) -> usize {
    match run.uncertainty {
        Some(runs) => runs as usize,
        None if run.verdict == VerdictKind::Quick => scenario.run.replications as usize,
        None => (scenario.run.replications as usize).max(2),
    }
}

/// Returns the first lines of the report before there is a verdict, for users who wait for it.
fn interim(report: &Report) -> String {
    let finding = report.bottleneck.as_ref().map(|of| of.finding.as_str());
    before_verdict(&report::text::headline(report), finding)
}

/// Joins a headline, which has no full stop, and what was found before the verdict.
fn before_verdict(headline: &str, finding: Option<&str>) -> String {
    let finding = finding.map(|finding| format!(" {finding}")).unwrap_or_default();
    format!("Before the verdict: {headline}.{finding}")
}

/// Returns the index of the job that `--job` names; `None` without the option.
fn chosen(run: &Run, scenario: &Scenario) -> Result<Option<usize>, Failure> {
    let Some(name) = &run.job else { return Ok(None) };
    let names: Vec<&str> = scenario.jobs.iter().map(|job| job.name.as_str()).collect();
    let job = names.iter().position(|known| known == name).ok_or_else(|| {
        let remedy = scenario::choose(name, &names);
        Failure::Input(format!("--job {}: there is no such job; {remedy}", printable_line(name)))
    })?;
    Ok(Some(job))
}

/// Returns the overrides that the options `--replications` and `--seed` stand for.
fn overrides(run: &Run) -> Vec<Override> {
    let replications = run.replications.map(|n| Override::new("run.replications", n.into()));
    let seed = run.seed.map(|n| Override::new("run.seed", n.into()));
    replications.into_iter().chain(seed).collect()
}

/// Message of an interrupted run that still has to stop the runs in progress and write its report.
pub(super) const FINISHED: &str =
    "the report of what was finished comes when the runs in progress have stopped";

/// Simulates every replication. After a signal, returns only the replications that had finished.
fn simulate(
    scenario: &Scenario,
    pool: &rayon::ThreadPool,
    options: &sim::Options,
    quiet: bool,
) -> Result<Vec<Outcome>, Failure> {
    let runs = scenario.run.replications;
    let watch = Watch::new(u64::from(runs), runs as usize, quiet);
    let one = |replication: u32| {
        if interrupt::raised() {
            return None;
        }
        let trace = options.trace && replication == 0;
        let progress = watch.slots().get(replication as usize);
        let options = sim::Options { trace, progress, ..*options };
        let outcome = sim::run(scenario, replication, &options);
        progress.into_iter().for_each(sim::Progress::reset);
        watch.done();
        if interrupt::raised() {
            return None;
        }
        // From now on, a finished replication can be reported.
        interrupt::when_late(Late::GoOn(FINISHED.to_owned()));
        Some(outcome)
    };
    let found: Vec<_> = pool.install(|| (0..runs).into_par_iter().filter_map(one).collect());
    watch.end();
    let outcomes = found.into_iter().map(Outcome::whole).collect::<Result<Vec<_>, _>>()?;
    if outcomes.is_empty() {
        return Err(Failure::Interrupted("no replication was finished".into()));
    }
    Ok(outcomes)
}

/// Writes the report to the file of `--output` or to standard output.
pub(super) fn show(run: &Run, report: &Report, quiet: bool) -> Result<(), Failure> {
    output::report(report, (run.format, run.output.as_deref()), quiet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_before_the_verdict_is_told_in_whole_sentences() {
        let said = before_verdict("s: `j` computes 50 % of the time", Some("It waits."));
        assert_eq!(said, "Before the verdict: s: `j` computes 50 % of the time. It waits.");
        assert_eq!(before_verdict("s: no step", None), "Before the verdict: s: no step.");
    }
}
