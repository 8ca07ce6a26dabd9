//! The verdict in sentences, a line each.

use crate::report::format::{seconds, share};
use crate::report::{Limit, Verdict};

use super::candidates::Subject;

/// Maximum number of further limits that are named after the first.
const MOST_OTHERS: usize = 2;

/// Returns a verdict from the causes of stalls alone; `why` says why no limit was relaxed.
pub(super) fn estimate(subject: &Subject, why: Option<&str>) -> Verdict {
    let finding = subject.report.bottleneck.as_ref().map_or("", |of| of.finding.as_str());
    let why = why.unwrap_or("nothing was lifted");
    Verdict {
        job: subject.scenario.jobs[subject.job].name.clone(),
        quick: true,
        long_run: None,
        limits: Vec::new(),
        saturated: Vec::new(),
        without_effect: Vec::new(),
        uncertain: Vec::new(),
        not_tried: Vec::new(),
        events: 0,
        text: format!("{finding} (An estimate from what was waited for last: {why}.)"),
    }
}

/// Returns the text of a verdict. `advice` says what to do about each of its limits; `full` names resources that are full and
/// were not relaxed.
pub(super) fn paragraph(
    subject: &Subject,
    verdict: &Verdict,
    advice: &[String],
    full: &[String],
) -> String {
    let mut said = Vec::new();
    said.extend(too_short(subject, verdict));
    match (verdict.limits.first(), advice.first()) {
        (Some(first), Some(advice)) => said.extend(first_limit(&verdict.job, first, advice)),
        _ if !full.is_empty() => said.push(format!(
            "What `{}` waits for is full: {}. How much more of it would help cannot be told from so short a run: run more \
             steps.",
            verdict.job,
            full.join(", ")
        )),
        _ => said.extend(nothing_helps(subject, verdict)),
    }
    let others: Vec<String> =
        verdict.limits.iter().zip(advice).skip(1).take(MOST_OTHERS).map(other).collect();
    if !others.is_empty() {
        said.push(format!("Alone, these would help too: {}.", others.join("; ")));
    }
    if !full.is_empty() && !verdict.limits.is_empty() {
        said.push(format!(
            "Nearly full too, and not tried within the verdict's budget of events: {}.",
            full.join(", ")
        ));
    }
    if !verdict.not_tried.is_empty() && !verdict.limits.is_empty() {
        said.push(format!(
            "May help too, and not tried within the verdict's budget of events: {}.",
            verdict.not_tried.join(", ")
        ));
    }
    said.join("\n")
}

fn too_short(subject: &Subject, verdict: &Verdict) -> Option<String> {
    let long = verdict.long_run.filter(|long| !long.reached)?;
    Some(format!(
        "The run is too short: its steps used up what the buffers of `{}` held. What goes into them allows {} a step \
         in the long run, with {} computing {} of the time.",
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
            "With {advice} a step takes {} instead of {} (95 % interval {} to {}).",
            seconds(limit.after),
            seconds(limit.before),
            seconds(low),
            seconds(high)
        ),
    ]
}

fn other((limit, advice): (&Limit, &String)) -> String {
    format!("{}, with {advice}: {} a step", limit.name, seconds(limit.after))
}

fn nothing_helps(subject: &Subject, verdict: &Verdict) -> Option<String> {
    let finding = subject.report.bottleneck.as_ref().map_or("", |of| of.finding.as_str());
    // If the run was too short, the causes of its last waits say nothing.
    let reached = verdict.long_run.is_some_and(|long| long.reached);
    let finding = (reached && !finding.is_empty()).then(|| finding.to_owned());
    let list = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{what}: {}.", names.join(", ")))
    };
    let lifted = list("Tried, and not a limit", &verdict.without_effect);
    let maybe = list("Tried, and too variable in so short a run to tell", &verdict.uncertain);
    let nothing = (verdict.events == 0).then(|| {
        "Nothing was tried to see what helps: that would take more events than a verdict may."
            .to_owned()
    });
    let said: Vec<String> = finding.into_iter().chain(nothing).chain(lifted).chain(maybe).collect();
    (!said.is_empty()).then(|| said.join(" "))
}
