//! Checks the verdict on one scenario by following it: each printed change is made, and simulated for long.

use forebay::report::{Limit, Outcome, Report, Verdict, summarise};
use forebay::scenario::change::Change;
use forebay::scenario::{
    FailureTimes, Fault, Job, Override, OverrideText, Reading, Scenario, ScenarioFile,
};
use forebay::{sim, verdict};
use rayon::prelude::*;
use std::collections::HashMap;

use crate::levers::{self, Lever};
use crate::long::{self, Aim, Long, Question};
use crate::tally::{Promise, Seen};

/// Seed of long runs; those of the scenarios are smaller.
const SEED: u64 = 1_000_003;
/// Number of times as many steps as the user's run that long runs have, all together.
const TIMES: usize = 4;
/// Number of long runs, at least.
const RUNS: u32 = 2;
/// Relative half-width at which a long run is long enough, however narrow the printed interval.
const NARROW: f64 = 0.003;
/// Relative half-width for the savings of levers.
const LEVER: f64 = 0.005;
/// Largest relative half-width of a printed interval.
const WIDEST: f64 = 0.05;
/// Saving from which on a lever must be listed.
const LISTED: f64 = 0.05;
/// Share of the time that a job computes from which on computing may be its first limit.
const BUSY: f64 = 0.9;
/// Savings that differ by less are equal.
const EQUAL: f64 = 0.02;
/// Share of the time that a job may wait for input and still count as fed.
const FED: f64 = 0.02;
/// By how much a job must wait more with less of a need.
const MORE: f64 = 0.01;
/// Saving below which a short run tells that a lever is not worth a long one.
const HOPELESS: f64 = 0.03;
/// Share of the events of a long run that a short one takes.
const SHORT: u64 = 20;

/// A scenario file with its name.
#[derive(Debug, Clone)]
pub(crate) struct System {
    pub(crate) name: String,
    pub(crate) file: ScenarioFile,
}

/// Bounds on what a check takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Events of a long run.
    pub(crate) long: u64,
    /// Events that a verdict may always take, in place of the default.
    pub(crate) verdict: Option<u64>,
    /// Events of the user's run, beyond which a scenario is left out.
    pub(crate) largest: u64,
}

/// What was seen of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) seen: Vec<Seen>,
    /// Why the scenario was left out; empty if it was not.
    pub(crate) left_out: String,
    /// What could not be checked.
    pub(crate) remarks: Vec<String>,
    pub(crate) events: u64,
    /// The verdict in words.
    pub(crate) text: String,
}

/// Returns what was seen of the verdict on a scenario.
pub(crate) fn check(system: &System, bounds: Bounds) -> Checked {
    let left_out = |why: &str| Checked { left_out: why.to_owned(), ..Checked::default() };
    let Ok(scenario) = system.file.resolve(&[]) else { return left_out("refused") };
    let run = |i| {
        let options = sim::Options { most_events: Some(bounds.largest), ..Default::default() };
        sim::run(&scenario, i, &options)
    };
    let outcomes: Vec<Outcome> = (0..scenario.run.replications).into_par_iter().map(run).collect();
    if outcomes.iter().any(|of| of.events >= bounds.largest) {
        return left_out("too large");
    }
    let report = summarise(&scenario, &outcomes, 0.0);
    let source =
        verdict::Source { file: &system.file, overrides: &[], reading: Reading::default() };
    let options = verdict::Options {
        others: true,
        least_events: bounds.verdict,
        ..verdict::Options::default()
    };
    let mut found = verdict::find_all(source, (&scenario, &outcomes, &report), &options);
    if found.is_empty() || found[0].quick {
        return left_out("no verdict");
    }
    let others = found.split_off(1);
    let first = found.remove(0);
    let mut check = Check::new(system, &scenario, (&outcomes, &report), &first, bounds);
    check.done.text.clone_from(&first.text);
    check.done.events += first.events;
    check.verdict();
    let mut done = check.done;
    for other in &others {
        // The sentence on another job has one limit.
        let mut check = Check::new(system, &scenario, (&outcomes, &report), other, bounds);
        other.limits.iter().take(1).for_each(|limit| check.sentence(limit));
        done.seen.extend(check.done.seen);
        done.events += check.done.events;
    }
    done
}

struct Check<'a> {
    system: &'a System,
    scenario: &'a Scenario,
    report: &'a Report,
    verdict: &'a Verdict,
    question: Question,
    bounds: Bounds,
    /// Steps of each long run.
    steps: usize,
    /// Long runs that were made, by the changes.
    known: HashMap<String, Option<Long>>,
    done: Checked,
}

impl<'a> Check<'a> {
    fn new(
        system: &'a System,
        scenario: &'a Scenario,
        (outcomes, report): (&[Outcome], &'a Report),
        verdict: &'a Verdict,
        bounds: Bounds,
    ) -> Check<'a> {
        let job = scenario.jobs.iter().position(|job| job.name == verdict.job).unwrap_or(0);
        let copies = outcomes.iter().flat_map(|of| &of.jobs).filter(|copy| copy.job == job);
        let steps = copies.map(|copy| copy.steps.len()).min().unwrap_or(0);
        let left_out = report.jobs[job].warm_up_steps.ceil() as usize;
        let fixed = has_end(scenario, job).then_some((steps, left_out));
        let question = Question { job, seed: SEED, varied: verdict.in_step.is_some(), fixed };
        // One run must not take all events.
        let of_step = outcomes[0].events as f64 / steps.max(1) as f64;
        let most = (bounds.long as f64 / f64::from(RUNS) / of_step.max(1.0)) as usize;
        let steps = (TIMES / RUNS as usize * steps).min(most);
        let (known, done) = (HashMap::new(), Checked::default());
        Check { system, scenario, report, verdict, question, bounds, steps, known, done }
    }

    fn see(&mut self, promise: Promise, is_kept: bool, class: String, detail: String) {
        let system = self.system.name.clone();
        self.done.seen.push(Seen { promise, is_kept, class, detail, system });
    }

    fn verdict(&mut self) {
        let verdict = self.verdict;
        for limit in &verdict.limits {
            self.sentence(limit);
        }
        let Some(base) = self.long(&[], NARROW) else { return };
        let levers = levers::all(&self.system.file, &[], self.scenario, self.question.job);
        let savings = self.savings(&[], &base, &levers);
        self.listed(&savings);
        self.first(&base, &savings);
        if let Some(first) = verdict.limits.first() {
            self.next(first);
        }
        self.needs(&base, &levers);
    }

    /// Returns what the job does in the long run with changes.
    fn long(&mut self, changes: &[Override], half: f64) -> Option<Long> {
        let key = changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let aim = Aim { steps: self.steps, runs: RUNS, half, events: self.bounds.long };
        let found = self.run(changes, aim);
        self.known.insert(key, found.clone());
        found
    }

    fn run(&mut self, changes: &[Override], aim: Aim) -> Option<Long> {
        let scenario = self.system.file.resolve(changes).ok()?;
        let found = long::long(&scenario, self.question, aim);
        self.done.events += found.as_ref().map_or(0, |of| of.events);
        found
    }

    /// Checks one row of a verdict's table: that its changes are accepted, and that a long run with them takes the printed time.
    fn sentence(&mut self, limit: &Limit) {
        let changes = match followed(&self.system.file, &limit.changes) {
            Ok(changes) => changes,
            Err(why) => return self.see(Promise::Accepted, false, limit.lever.clone(), why),
        };
        self.see(Promise::Accepted, true, String::new(), String::new());
        let [low, high] = limit.after_interval;
        let printed = (high - low) / 2.0 / limit.after;
        let wide = if printed > 2.0 * WIDEST { "over 10 %" } else { "5 to 10 %" };
        let class = format!("{wide}{}", self.features());
        let detail = format!("{}: {}", limit.key, interval(limit));
        self.see(Promise::Narrow, printed <= WIDEST, class, detail);
        let Some(shown) = self.long(&changes, NARROW.max(printed / 4.0)) else { return };
        let off = (low - shown.step).max(shown.step - high);
        if off.abs() < shown.half && shown.half > limit.after * NARROW.max(printed / 4.0) {
            self.done.remarks.push(format!("{}: the long run does not tell", limit.key));
            return;
        }
        let detail = format!(
            "{}: printed {}, true {:.5} ± {:.5} s{}",
            said(&limit.changes),
            interval(limit),
            shown.step,
            shown.half,
            self.features()
        );
        let class = self.kind_of_miss(limit, &shown);
        self.see(Promise::Inside, off <= 0.0, class, detail);
    }

    fn kind_of_miss(&self, limit: &Limit, shown: &Long) -> String {
        let off = (limit.after / shown.step - 1.0).abs();
        let far = if off < 0.02 { "by less than 2 %" } else { "by 2 % or more" };
        let side = if limit.after < shown.step { "too fast" } else { "too slow" };
        format!("printed {side} {far}{}", self.features())
    }

    /// Returns what of the scenario may explain a failure.
    fn features(&self) -> String {
        let mut all = String::new();
        let mut add = |has: bool, words: &str| all += if has { words } else { "" };
        let job = &self.scenario.jobs[self.question.job];
        let length = &self.report.jobs[self.question.job].length;
        add(!length.enough, ", run too short");
        add(self.scenario.run.replications > 1, ", replications");
        add(self.verdict.in_step.is_some(), ", in step");
        add(self.verdict.long_run.is_some_and(|of| !of.reached), ", long run not reached");
        add(job.failures.is_some(), ", failures");
        add(job.checkpoint.is_some(), ", checkpoints");
        add(self.scenario.jobs.len() > 1, ", several jobs");
        all
    }

    /// Returns the levers that may save time, with what they save in long runs: those that short runs do not rule out. `before` are
    /// changes that come before those of the levers, and `base` what the job does with them.
    fn savings(
        &mut self,
        before: &[Override],
        base: &Long,
        levers: &[Lever],
    ) -> Vec<(Lever, f64, f64)> {
        let short =
            Aim { steps: 0, runs: 1, half: f64::INFINITY, events: self.bounds.long / SHORT };
        let short = Aim { steps: self.steps_within(short.events), ..short };
        let Some(plain) = self.run(before, short) else { return Vec::new() };
        let mut found = Vec::new();
        for lever in levers {
            let changes = [before, &lever.changes[..]].concat();
            let Some(then) = self.run(&changes, short) else { continue };
            let (gain, half) = plain.gain(&then);
            if gain + half.min(0.1) < HOPELESS {
                continue;
            }
            let Some(then) = self.long(&changes, LEVER) else { continue };
            let (gain, half) = base.gain(&then);
            found.push((lever.clone(), gain, half));
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found
    }

    /// Returns how many steps a run takes that is to take so many events.
    fn steps_within(&self, events: u64) -> usize {
        let share = events as f64 / (self.bounds.long as f64 / f64::from(RUNS));
        ((self.steps as f64 * share) as usize).max(self.steps / 8)
    }

    fn listed(&mut self, savings: &[(Lever, f64, f64)]) {
        for (lever, gain, half) in savings {
            if gain - half < LISTED {
                continue;
            }
            let is = |limit: &&Limit| lever.is(&limit.lever, &read(&limit.changes));
            let is_listed = self.verdict.limits.iter().any(|limit| is(&limit));
            let verdict = self.verdict;
            let has = |names: &[String]| names.contains(&lever.words);
            let why = match () {
                () if has(&verdict.not_tried) => "not tried",
                () if has(&verdict.uncertain) => "uncertain",
                () if has(&verdict.without_effect) => "tried, without effect",
                () => "not named",
            };
            let detail = format!("{} saves {:.1} ± {:.1} %", lever.key, 100.0 * gain, 100.0 * half);
            let class = format!("{}, {why}", lever.class);
            self.see(Promise::Listed, is_listed, class, detail + &self.features());
        }
    }

    fn first(&mut self, base: &Long, savings: &[(Lever, f64, f64)]) {
        // The question is what a job waits for, unless it computes nearly all the time.
        let waits = self.verdict.long_run.is_some_and(|of| of.accelerator_utilisation < BUSY);
        let may = |lever: &Lever| !(lever.of_training || waits && lever.of_computing);
        let best = savings.iter().find(|(lever, ..)| may(lever));
        let most = best.map_or(0.0, |(_, gain, _)| *gain);
        let printed = self.verdict.limits.first();
        let of_training = printed.is_some_and(|limit| levers::changes_training(&limit.lever));
        let saved = match printed {
            Some(limit) if !of_training => {
                let changes = read(&limit.changes);
                self.long(&changes, LEVER).map_or(0.0, |then| base.gain(&then).0)
            }
            _ => 0.0,
        };
        let named = printed.map_or("nothing", |limit| limit.lever.as_str());
        let best = best.map_or(String::new(), |(lever, ..)| lever.class.clone());
        let key = printed.map_or("nothing", |limit| limit.key.as_str());
        let detail = format!(
            "{key} saves {:.1} %, {best} saves {:.1} %{}",
            100.0 * saved,
            100.0 * most,
            self.features()
        );
        let class = format!("{named} instead of {best}");
        self.see(Promise::First, saved >= most - EQUAL, class, detail);
    }

    fn next(&mut self, first: &Limit) {
        let changes = read(&first.changes);
        let Some(base) = self.long(&changes, NARROW) else { return };
        let Ok(scenario) = self.system.file.resolve(&changes) else { return };
        let mut levers = levers::all(&self.system.file, &changes, &scenario, self.question.job);
        levers.retain(|lever| !lever.is(&first.lever, &changes));
        let savings = self.savings(&changes, &base, &levers);
        let best = savings.iter().find(|(lever, ..)| !lever.of_training);
        let (most, best) =
            best.map_or((0.0, String::new()), |(of, gain, _)| (*gain, of.class.clone()));
        let saved = match &first.next {
            None => Some(0.0),
            Some(words) => self.saved_by(words, &changes, &base, &levers, &savings),
        };
        let named = first.next.as_deref().unwrap_or("nothing");
        let Some(saved) = saved else {
            self.done.remarks.push(format!("the next limit, {named}, is not in the list"));
            return;
        };
        let detail = format!(
            "after {}: {named} saves {:.1} %, {best} saves {:.1} %{}",
            first.key,
            100.0 * saved,
            100.0 * most,
            self.features()
        );
        let class = format!("{named} instead of {best}");
        self.see(Promise::Next, saved >= most - EQUAL, class, detail);
    }

    /// Returns the share of the step time that the limit with this name saves after changes; `None` if no lever has this name.
    fn saved_by(
        &mut self,
        words: &str,
        before: &[Override],
        base: &Long,
        levers: &[Lever],
        savings: &[(Lever, f64, f64)],
    ) -> Option<f64> {
        if let Some((of, gain, _)) = savings.iter().find(|(lever, ..)| lever.words == words) {
            return Some(if of.of_training { 0.0 } else { *gain });
        }
        if levers.iter().any(|lever| lever.words == words) {
            // Short runs show that it saves little.
            return Some(0.0);
        }
        let listed = self.verdict.limits.iter().find(|limit| limit.name == words)?;
        let changes = [before, &read(&listed.changes)[..]].concat();
        let then = self.long(&changes, LEVER)?;
        Some(base.gain(&then).0)
    }

    fn needs(&mut self, base: &Long, levers: &[Lever]) {
        let verdict = self.verdict;
        if base.waits - base.waits_half > FED {
            let waits = 100.0 * base.waits;
            let kept = match verdict.nothing_suffices {
                true => self.nothing_suffices(levers),
                false => Some((!verdict.needs.is_empty(), "no needs".to_owned())),
            };
            if let Some((kept, class)) = kept {
                let detail = format!("it waits {waits:.1} % for input{}", self.features());
                self.see(Promise::Needs, kept, class, detail);
            }
        }
        if !verdict.needs.is_empty() {
            self.follow_needs();
        }
    }

    /// Returns whether the job waits for input even with 32 times of everything.
    fn nothing_suffices(&mut self, levers: &[Lever]) -> Option<(bool, String)> {
        let mut changes: Vec<Override> = Vec::new();
        for plenty in levers.iter().filter_map(|lever| lever.plenty.as_ref()) {
            let with = [&changes[..], &plenty[..]].concat();
            if self.system.file.resolve(&with).is_ok() {
                changes = with;
            }
        }
        let found = self.long(&changes, LEVER)?;
        let class = format!("nothing suffices, but it waits {:.1} %", 100.0 * found.waits);
        Some((found.waits + found.waits_half > FED, class))
    }

    fn follow_needs(&mut self) {
        let needs = &self.verdict.needs;
        let texts: Vec<OverrideText> = needs.iter().flat_map(|need| need.changes.clone()).collect();
        let all = match followed(&self.system.file, &texts) {
            Ok(all) => all,
            Err(why) => return self.see(Promise::Accepted, false, "needs".to_owned(), why),
        };
        self.see(Promise::Accepted, true, String::new(), String::new());
        let Some(fed) = self.long(&all, NARROW) else { return };
        let detail = format!(
            "waits {:.2} ± {:.2} % with {}{}",
            100.0 * fed.waits,
            100.0 * fed.waits_half,
            said(&texts),
            self.features()
        );
        let far = if fed.waits < 2.0 * FED { "less than 4 %" } else { "4 % or more" };
        let class = format!("waits {far}{}", self.features());
        self.see(Promise::Suffices, fed.waits <= FED + fed.waits_half.min(FED), class, detail);
        for need in needs.iter().filter(|_| !self.verdict.needs_are_loose) {
            let Some(first) = read(&need.changes).first().cloned() else { continue };
            let Some(less) = self.less(&all, &first) else { continue };
            let changes = [&all[..], std::slice::from_ref(&less)].concat();
            let Some(then) = self.long(&changes, LEVER) else { continue };
            let detail = format!(
                "waits {:.2} % with {}, {:.2} % with {}",
                100.0 * fed.waits,
                first,
                100.0 * then.waits,
                less
            );
            let resource = need.name.clone();
            self.see(Promise::Needed, then.waits > fed.waits + MORE, resource, detail);
        }
    }

    /// Returns the change to one unit less than the one of `change`, or a fifth less if that is more.
    fn less(&self, all: &[Override], change: &Override) -> Option<Override> {
        let editor = self.system.file.editor(all);
        let number = change.value()?.as_f64()?;
        let is_counted = change.value()?.as_str().is_none() && number.fract() == 0.0;
        if is_counted && number <= 5.0 {
            return (number > 1.0).then(|| Override::new(change.key(), (number as u32 - 1).into()));
        }
        let less = editor.change(change.key(), &Change::Times(0.8), None)?;
        let changes = [all, std::slice::from_ref(&less)].concat();
        self.system.file.resolve(&changes).is_ok().then_some(less)
    }
}

/// Returns whether something of a scenario happens only at given times, or jobs beside this one have ends of their own.
fn has_end(scenario: &Scenario, job: usize) -> bool {
    let of_job = |(index, of): (usize, &Job)| {
        let fails_once =
            of.failures.as_ref().is_some_and(|of| matches!(of.when, FailureTimes::At(_)));
        let ends = index != job && (of.stop.is_some() || !of.after.is_empty());
        ends || of.stagger > 0.0 || fails_once
    };
    let of_fault = |of: &Fault| of.from > 0.0 || of.until.is_finite();
    scenario.jobs.iter().enumerate().any(of_job) || scenario.faults.iter().any(of_fault)
}

/// Returns printed changes as a user makes them, or why that does not work.
fn followed(file: &ScenarioFile, texts: &[OverrideText]) -> Result<Vec<Override>, String> {
    let parsed: Result<Vec<Override>, _> = texts.iter().map(OverrideText::parse).collect();
    let changes = parsed.map_err(|problems| format!("{}: {problems}", said(texts)))?;
    for change in &changes {
        if pasted(&change.pasted()).as_ref() != Some(change) {
            return Err(format!("`{}` is read as another change", change.pasted()));
        }
    }
    file.resolve(&changes).map_err(|problems| format!("{}: {problems}", said(texts)))?;
    Ok(changes)
}

/// Returns the change that an option stands for as a shell passes it on.
fn pasted(text: &str) -> Option<Override> {
    let (option, argument) = text.split_once(' ')?;
    let quoted = argument.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let argument = quoted.map_or(argument.to_owned(), |of| of.replace(r"'\''", "'"));
    match option {
        "--set" => argument.parse().ok(),
        _ => Override::parse_unset(&argument).ok(),
    }
}

/// Returns the changes of a limit.
fn read(texts: &[OverrideText]) -> Vec<Override> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

fn said(texts: &[OverrideText]) -> String {
    read(texts).iter().map(Override::pasted).collect::<Vec<_>>().join(" ")
}

fn interval(limit: &Limit) -> String {
    let [low, high] = limit.after_interval;
    format!("{:.5} [{low:.5}, {high:.5}] s", limit.after)
}
