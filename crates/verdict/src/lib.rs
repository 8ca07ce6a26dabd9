//! The verdict: what limits a job, what helps, and by how much.
//!
//! The causes of stalls say what an accelerator waited for last, which need not be the bottleneck. So the verdict does what a user would
//! do: it changes a key, simulates the scenario again, and compares.
//!
//! - A **lever** is a change of keys, as the options `--set` and `--unset` that make it ([`Limit::changes`]). Every key whose
//!   declaration says that it is a limit or a choice is a lever; `rules` says in which direction, and which stalls it may
//!   shorten. That decides what is tried first; a lever whose stalls do not occur is not tried.
//! - The changed scenario is the **file resolved again** with these options, so that presets, defaults and checks do their own work. What
//!   the verdict prints is what was simulated. Where the scenario refuses an amount, the largest accepted one is tried.
//! - A **trial** is a run with the same random numbers until the same step of the job, compared with the base run over the same
//!   steps. Other jobs go on until then, except those that further jobs wait for.
//! - The **base run** is the user's own run if it shows the long run, and otherwise a run of automatic length of the same file.
//! - The **search** tries the most promising levers first, in short runs; those that help then in whole runs. It ends when
//!   all are tried or when a number of events is spent, so that the result does not depend on threads or clocks.
//!
//! `lever`: levers of a scenario; `rules`: directions, reaches and names of keys; `base`: the base run, and constants that vary;
//! `trial`: the effect of changes; `search`: the order of trials; `need`: amounts that hold together; `numbers`: thresholds and
//! budgets; `words`: the text, and a verdict without trials; `remarks`: sentences beside it.
//!
//! [`Limit::changes`]: forebay_report::Limit

mod base;
mod lever;
mod machine;
mod need;
mod numbers;
mod remarks;
mod rules;
mod search;
#[cfg(test)]
mod tests;
mod trial;
mod words;

use forebay_report::{Limit, LongRun, Outcome, Report, Verdict, World};
use forebay_scenario::Scenario;

use base::{Base, Budget};
use need::Needs;
use numbers::{IN_STEP, MOST_OTHERS, PARTS, RUNS, WAITING};
use search::{Found, Tried};

pub use base::{Machines, Options, Told};
pub use lever::Source;
pub use numbers::LEAST_EVENTS;

/// Returns the verdict on the job of the report's `bottleneck`, from the outcomes of a scenario and their report, and then, if the
/// options ask for them, short verdicts on other jobs that wait, those that lose most time first. `source` is the file that
/// `scenario` was resolved from. Empty if no step was completed.
#[must_use]
pub fn find_all(
    source: Source<'_>,
    (scenario, outcomes, report): (&Scenario, &[Outcome], &Report),
    options: &Options<'_>,
) -> Vec<Verdict> {
    let named = report.bottleneck.as_ref().map(|of| &of.job);
    let job = scenario.jobs.iter().position(|job| named == Some(&job.name));
    let (Some(job), Some(first)) = (job, outcomes.first()) else { return Vec::new() };
    if options.quick || first.world == World::Live {
        return vec![words::estimate((scenario, report, job), None)];
    }
    let question = (scenario, outcomes, report);
    let found = judge(source, question, job, options);
    let estimate = |why| vec![words::estimate((scenario, report, job), Some(why))];
    if options.is_stopped() {
        return estimate("trials were interrupted");
    }
    let Some(found) = found else { return estimate("the run is too short for trials") };
    if found.time_ended && tried_nothing(&found) {
        return estimate("`--verdict-time` ended before the first trial");
    }
    let mut all = vec![found];
    if options.others {
        let others = others(source, question, job, options);
        // Trials that a signal cut off say nothing.
        if !options.is_stopped() {
            all.extend(others);
        }
    }
    all
}

/// Returns whether a verdict rests on no trial at all.
fn tried_nothing(verdict: &Verdict) -> bool {
    verdict.limits.is_empty() && verdict.without_effect.is_empty() && verdict.uncertain.is_empty()
}

/// Returns the verdict on one job; `None` if its base run completes no step.
fn judge(
    source: Source<'_>,
    question: (&Scenario, &[Outcome], &Report),
    job: usize,
    options: &Options<'_>,
) -> Option<Verdict> {
    let mut base = Base::new(source, question, job, options)?;
    let all = options.least_events().max(RUNS * base.events());
    // What one part leaves, the next ones may take.
    let [search_ends, next_ends, _] = PARTS.map(|part| (part * all as f64) as u64);
    let mut budget = Budget { all, most: search_ends, spent: base.spent, late: options.late };
    base.tell(&budget);
    let as_written = words::Speed::of(&base);
    if let Some(varied) = base.varied() {
        budget.spent += varied.spent;
        if words::Speed::of(&varied).differs(&as_written, IN_STEP) {
            base = varied;
        }
    }
    let levers = lever::all(source, question.0, job);
    let mut found = search::search(&base, &levers, &mut budget);
    budget.most = next_ends;
    let next = search::next(&base, &found, &levers, &mut budget);
    budget.most = all;
    let needs = need::needs(&base, &levers, &mut budget).unwrap_or_default();
    let first = found.good().next().map(|of| of.lever.key().to_owned());
    let next = next.map(|next| match Some(next.key()) == first.as_deref() {
        true => format!("still {}", next.words(&base.scenario)),
        false => next.words(&base.scenario),
    });
    base.widen_by_machines(&mut found, &mut budget);
    let mut verdict = statement(&base, &found, next, &needs, budget.spent);
    if needs.gave_up {
        verdict.not_tried.push("what input needs".to_owned());
    }
    verdict.time_ended = options.is_late();
    verdict.in_step = base.is_varied.then_some(as_written.step_time);
    verdict.text = words::text(&base, question.2, &verdict);
    Some(verdict)
}

/// Returns short verdicts on other jobs that wait, those that lose most time first.
fn others(
    source: Source<'_>,
    question: (&Scenario, &[Outcome], &Report),
    job: usize,
    options: &Options<'_>,
) -> Vec<Verdict> {
    let (scenario, _, report) = question;
    let waiting = |index: &usize| {
        *index != job && report.jobs[*index].figures.stall.total.mean.unwrap_or(0.0) >= WAITING
    };
    let lost = |index: usize| {
        let described = &scenario.jobs[index];
        let waits = report.jobs[index].figures.stall.total.mean.unwrap_or(0.0);
        waits * f64::from(described.copies) * f64::from(described.models())
    };
    let mut all: Vec<usize> = (0..scenario.jobs.len()).filter(waiting).collect();
    all.sort_by(|a, b| lost(*b).total_cmp(&lost(*a)));
    let short = |&index: &usize| {
        let base = Base::new(source, question, index, options)?;
        let most = options.least_events().max(RUNS * base.events()) / 2;
        let mut budget = Budget { all: most, most, spent: base.spent, late: options.late };
        let levers = lever::all(source, scenario, index);
        let mut found = search::search(&base, &levers, &mut budget);
        base.widen_by_machines(&mut found, &mut budget);
        let mut verdict = statement(&base, &found, None, &Needs::default(), budget.spent);
        verdict.text = words::line(&base, &verdict);
        Some(verdict)
    };
    let in_time = all.iter().take(MOST_OTHERS).take_while(|_| !options.is_late());
    let judged: Vec<Option<Verdict>> = in_time.map(short).collect();
    let names = all.iter().skip(judged.len()).map(|&of| scenario.jobs[of].name.as_str());
    let rest: Vec<&str> = names.collect();
    let mut found: Vec<Verdict> = judged.into_iter().flatten().collect();
    if let Some(last) = found.last_mut().filter(|_| !rest.is_empty()) {
        last.text += &words::untold(&rest);
    }
    found
}

/// Returns the verdict as reports have it, without its text.
fn statement(
    base: &Base,
    found: &Found,
    next: Option<String>,
    needs: &Needs,
    events: u64,
) -> Verdict {
    let speed = words::Speed::of(base);
    let ranks = search::ranks_higher(base, found);
    let limits = found.good().zip(ranks).enumerate().map(|(at, (tried, ranks_higher))| {
        limit(base, tried, next.clone().filter(|_| at == 0), ranks_higher)
    });
    let limits = limits.collect();
    let names = |of: &dyn Fn(&Tried) -> bool| {
        let mut names: Vec<String> = Vec::new();
        for tried in found.tried.iter().filter(|tried| of(tried)) {
            let name = tried.lever.words(&base.scenario);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let mut not_tried: Vec<String> =
        found.not_tried.iter().map(|lever| lever.words(&base.scenario)).collect();
    not_tried.dedup();
    Verdict {
        job: base.shown().name.clone(),
        quick: false,
        long_run: Some(LongRun {
            step_time: speed.step_time,
            accelerator_utilisation: speed.busy,
            reached: !base.is_automatic || base.shown().length.enough,
        }),
        in_step: None,
        limits,
        without_effect: names(&Tried::is_useless),
        uncertain: names(&|tried| !tried.helps() && !tried.is_useless()),
        not_tried,
        time_ended: false,
        needs: needs.all.iter().map(|amount| amount.need(base)).collect(),
        needs_are_loose: needs.loose,
        nothing_suffices: needs.nothing_suffices,
        events,
        text: String::new(),
    }
}

fn limit(base: &Base, tried: &Tried, next: Option<String>, ranks_higher: usize) -> Limit {
    let (lever, effect) = (&tried.lever, &tried.effect);
    let resource = base.report.resources.iter().find(|of| lever.enlarges(of.of));
    let also = words::also(lever, ranks_higher, &effect.others);
    Limit {
        name: lever.words(&base.scenario),
        lever: lever.class.clone(),
        resource: resource.map_or_else(|| lever.key().to_owned(), |of| of.name.clone()),
        key: lever.key().to_owned(),
        changes: lever.changes.iter().cloned().map(Into::into).collect(),
        factor: lever.factor,
        before: words::Speed::of(base).step_time,
        after: effect.after,
        after_interval: effect.after_interval,
        gain: effect.gain,
        gain_interval: effect.gain_interval,
        next,
        ranks_higher,
        others: effect.others.clone(),
        also,
    }
}

/// Stores verdicts in the report, and makes the report's `bottleneck` agree with the first one.
pub fn put(report: &mut Report, verdicts: Vec<Verdict>) {
    let mut verdicts = verdicts.into_iter();
    let Some(verdict) = verdicts.next() else { return };
    report.other_verdicts = verdicts.collect();
    if let Some(bottleneck) = &mut report.bottleneck {
        bottleneck.text.clone_from(&verdict.text);
        if let Some(first) = verdict.limits.first() {
            bottleneck.resource.clone_from(&first.resource);
            if first.name == rules::words("job.model.step", None) {
                "compute".clone_into(&mut bottleneck.cause);
            }
        }
    }
    report.verdict = Some(verdict);
}
