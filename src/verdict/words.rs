//! The verdict in sentences, a line each.

use crate::input::shell_word;
use crate::report::format::{bytes, seconds, share};
use crate::report::{Cause, Limit, Need, OtherJob, Outcome, Verdict};
use crate::scenario::{Scenario, Stop};

use super::candidates::{FULL, Subject, is_of_loader};
use super::checkpoints;
use super::demand::{self, Demands};
use super::finder::Tried;
use super::lever::Lever;
use super::need::{needs, sentence};
use super::statement::Statement;

/// Maximum number of further limits that are named after the first.
const MOST_OTHERS: usize = 2;
/// Maximum number of other jobs that a sentence names.
const MOST_NAMED: usize = 4;

/// Returns a verdict from the causes of stalls alone; `why` says why no limit was relaxed.
pub(super) fn estimate(subject: &Subject, base: &Outcome, why: Option<&str>) -> Verdict {
    let finding = subject.report.bottleneck.as_ref().map_or("", |of| of.finding.as_str());
    let why = why.unwrap_or("nothing was lifted");
    let job = subject.scenario.jobs[subject.job].name.clone();
    let candidates = subject.candidates(false, None);
    let full = || candidates.iter().filter(|candidate| candidate.used >= FULL).map(|of| of.lever);
    let names: Vec<String> = full().map(|lever| lever.words(subject.scenario)).collect();
    let full_resources = (!names.is_empty())
        .then(|| format!("Full, and on the path of the input of `{job}`: {}.", names.join(", ")));
    let alike = subject.scenario.jobs.len() == 1 && subject.shown().later_epochs.is_none();
    let demands = if alike { demand::of_only_job(subject, base) } else { Demands::default() };
    let needs = needs(subject, &demands.lasting, false);
    let all = [
        Some(finding.to_owned()),
        full_resources,
        checkpoints::sentence(subject),
        sentence(subject, &needs, &[]),
    ];
    let said: Vec<String> = all.into_iter().flatten().collect();
    let text = format!("{} (An estimate from what was waited for last: {why}.)", said.join(" "));
    Verdict {
        job,
        quick: true,
        long_run: None,
        limits: Vec::new(),
        saturated: full().map(|lever| lever.resource(subject.scenario)).collect(),
        without_effect: Vec::new(),
        uncertain: Vec::new(),
        not_tried: Vec::new(),
        needs,
        first_epoch_needs: Vec::new(),
        events: 0,
        text,
    }
}

/// Returns the text of a verdict.
pub(super) fn paragraph(statement: &Statement, verdict: &Verdict) -> String {
    let (subject, advice, full) =
        (&statement.subject, statement.advice(), statement.full_in_words());
    let mut said = Vec::new();
    said.extend(too_short(subject, verdict));
    match (verdict.limits.first(), advice.first()) {
        (Some(first), Some(advice)) => said.extend(first_limit(&verdict.job, first, advice)),
        _ if !full.is_empty() => said.push(format!(
            "What `{}` waits for is full: {}. How much more of it would help cannot be told from so short a run: {}.",
            verdict.job,
            full.join(", "),
            longer(subject)
        )),
        _ => said.extend(nothing_helps(statement, verdict)),
    }
    let others: Vec<String> =
        verdict.limits.iter().zip(&advice).skip(1).take(MOST_OTHERS).map(other).collect();
    if !others.is_empty() {
        said.push(format!("Alone, these would help too: {}.", others.join("; ")));
    }
    said.extend(other_stall(subject, verdict));
    said.extend(checkpoints::sentence(subject));
    said.extend(sentence(subject, &verdict.needs, &verdict.first_epoch_needs));
    said.extend(copy_first(statement));
    if !full.is_empty() && !verdict.limits.is_empty() {
        said.push(format!(
            "Nearly full too, and not tried within the verdict's budget of events: {}.",
            full.join(", ")
        ));
    }
    if !verdict.not_tried.is_empty() {
        let (may, longer) = match verdict.limits.is_empty() {
            true => ("May help", format!(": {}", longer(subject))),
            false => ("May help too", String::new()),
        };
        let why = match (statement.found.too_variable, statement.found.tried.is_empty()) {
            (true, true) => "",
            (true, false) => " because step times vary too much",
            (false, _) => " within the verdict's budget of events",
        };
        said.push(format!("{may}, and not tried{why}: {}{longer}.", verdict.not_tried.join(", ")));
    }
    said.join("\n")
}

/// Returns the text of a verdict on a further job, in one line.
pub(super) fn line(statement: &Statement, verdict: &Verdict) -> String {
    let (subject, advice, full) =
        (&statement.subject, statement.advice(), statement.full_in_words());
    let waits = format!("`{}` waits {} of the time", verdict.job, share(subject.waiting()));
    let why = match (verdict.limits.first(), advice.first()) {
        (Some(limit), Some(advice)) => format!(
            " and is limited by {}: with {advice} a step takes {} instead of {}.",
            limit.name,
            seconds(limit.after),
            seconds(limit.before)
        ),
        _ if !full.is_empty() => format!("; what it waits for is full: {}.", full.join(", ")),
        _ if statement.found.too_variable => {
            "; its step times vary too much to see what would help.".to_owned()
        }
        _ => format!(
            "; what would help was not found, and `--job {}` tries more.",
            shell_word(&verdict.job)
        ),
    };
    let own = |needs: &[Need]| -> Vec<Need> {
        needs.iter().filter(|need| need.by_job.is_empty()).cloned().collect()
    };
    let own = [own(&verdict.needs), own(&verdict.first_epoch_needs)];
    let more =
        checkpoints::sentence(subject).into_iter().chain(sentence(subject, &own[0], &own[1]));
    std::iter::once(format!("{waits}{why}")).chain(more).collect::<Vec<_>>().join(" ")
}

/// Returns a sentence on the jobs that wait and have no verdict.
pub(super) fn untold(names: &[String]) -> String {
    let named: Vec<String> =
        names.iter().take(MOST_NAMED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let waits = if names.len() == 1 { "waits" } else { "wait" };
    format!(" {}{more} {waits} too: `--job NAME` gives the verdict on a job.", named.join(", "))
}

/// Returns the advice for a trial: for each lever, what to change, and the key of the scenario that sets it.
pub(super) fn advice(scenario: &Scenario, tried: &Tried) -> String {
    let each = tried
        .levers
        .iter()
        .map(|lever| format!("{} ({})", lever.advice(scenario, &tried.then), lever.key(scenario)));
    each.collect::<Vec<_>>().join(" and ")
}

/// Returns a clause on the other jobs that a relaxed limit makes faster or slower; an empty text if there are none.
fn on_others(limit: &Limit) -> String {
    let mut others: Vec<&OtherJob> = limit.others.iter().collect();
    others.sort_by(|a, b| b.gain.abs().total_cmp(&a.gain.abs()));
    let each = others.iter().take(MOST_NAMED).map(|other| {
        let rate = other.before / other.after - 1.0;
        let which = if rate < 0.0 { "slower" } else { "faster" };
        format!("`{}` is then {} {which}", other.job, share(rate.abs()))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { String::new() } else { format!("; {}", each.join(", ")) }
}

/// Returns what to write for a longer run.
fn longer(subject: &Subject) -> &'static str {
    match subject.scenario.stop_of(&subject.scenario.jobs[subject.job]) {
        Stop::Steps(_) => "write more `steps`",
        Stop::Duration(_) => "write a longer `duration`",
        Stop::Epochs(_) => "write more `epochs`",
        Stop::Known { .. } if !subject.shown().length.enough => "raise `run.most`",
        Stop::Known { .. } => "write a smaller `run.precision`",
    }
}

fn too_short(subject: &Subject, verdict: &Verdict) -> Option<String> {
    let long = verdict.long_run.filter(|long| !long.reached)?;
    Some(format!(
        "In the long run, when buffers no longer drain, a step of `{}` takes {}, and its {} compute {} of the time.",
        verdict.job,
        seconds(long.step_time),
        subject.shown().trainers(),
        share(long.accelerator_utilisation)
    ))
}

/// Returns the sentences on what limits a job and what to change.
fn first_limit(job: &str, limit: &Limit, advice: &str) -> [String; 2] {
    let together = if limit.lever.contains('+') { " together" } else { "" };
    let next = limit.next.as_ref();
    let next = next.map_or(String::new(), |next| format!("; the next limit is {next}"));
    let [low, high] = limit.after_interval;
    [
        format!("`{job}` is limited by {}{together}{next}.", limit.name),
        format!(
            "With {advice} a step takes {} instead of {} (95 % interval {} to {}){}.",
            seconds(limit.after),
            seconds(limit.before),
            seconds(low),
            seconds(high),
            on_others(limit)
        ),
    ]
}

/// Returns a sentence on the largest stall if relieving it is not what helps most; otherwise `None`.
fn other_stall(subject: &Subject, verdict: &Verdict) -> Option<String> {
    let (first, stall) = (verdict.limits.first()?, subject.report.bottleneck.as_ref()?);
    let name = stall.cause.strip_prefix("peer.").unwrap_or(&stall.cause);
    let cause = Cause::ALL.into_iter().find(|cause| cause.name() == name)?;
    let relieves = |lever: Lever| first.lever.split('+').any(|name| name == lever.kind.row().name);
    let mut levers = subject.of_cause(cause).into_iter().chain(subject.faults_behind(cause));
    let other = is_of_loader(cause) && !levers.any(relieves);
    other.then(|| {
        format!(
            "The largest stall is `{}`, but relieving it helps less: a stall is charged to what the awaited batch does last.",
            stall.cause
        )
    })
}

/// Returns advice to copy the data set into the nodes before training; `None` unless the first limit is that of a storage outside
/// the nodes which every epoch reads again.
fn copy_first(statement: &Statement) -> Option<String> {
    let subject = &statement.subject;
    let (scenario, job) = (subject.scenario, &subject.scenario.jobs[subject.job]);
    let (storage, dataset) = (&scenario.storage[job.storage], &scenario.datasets[job.dataset]);
    let first = statement.found.good().next()?.levers.first()?;
    let limited = first.kind.is_of_storage() && first.at == job.storage;
    let size = dataset.samples as f64 * dataset.mean_size();
    let node = &scenario.cluster.node;
    let caches = node.page_cache.as_ref().filter(|_| scenario.keeps_pages(job, node));
    let kept = storage.cache.is_some() || caches.is_some_and(|cache| cache.capacity >= size);
    let again = limited && storage.reads().is_remote() && job.staging.is_none() && !kept;
    let part = match job.nodes {
        1 => String::new(),
        nodes => format!(", or {} as parts (`share = \"part\"`)", bytes(size / f64::from(nodes))),
    };
    again.then(|| {
        format!(
            "Not tried: copying the data set to storage in each node before training (`job.copy`), which takes {} there{part}.",
            bytes(size)
        )
    })
}

fn other((limit, advice): (&Limit, &String)) -> String {
    format!("{}, with {advice}: {} a step", limit.name, seconds(limit.after))
}

fn nothing_helps(statement: &Statement, verdict: &Verdict) -> Option<String> {
    let subject = &statement.subject;
    let finding = subject.report.bottleneck.as_ref().map_or("", |of| of.finding.as_str());
    // If the run was too short, the causes of its last waits say nothing.
    let reached = verdict.long_run.is_some_and(|long| long.reached);
    let finding = (reached && !finding.is_empty()).then(|| finding.to_owned());
    let list = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{what}: {}.", names.join(", ")))
    };
    let lifted = list("Tried, and not a limit", &verdict.without_effect);
    let maybe = list("Tried, and not clear from a short run", &verdict.uncertain);
    let nothing = match (statement.found.too_variable, verdict.events) {
        (true, _) => {
            "Nothing was tried to see what helps: step times vary more than a trial could save."
        }
        (false, 0) => {
            "Nothing was tried to see what helps: that would take more events than a verdict may."
        }
        (false, _) => "No trial was long enough to show what helps.",
    };
    let nothing = statement.found.tried.is_empty().then(|| nothing.to_owned());
    let said: Vec<String> = finding.into_iter().chain(nothing).chain(lifted).chain(maybe).collect();
    (!said.is_empty()).then(|| said.join(" "))
}
