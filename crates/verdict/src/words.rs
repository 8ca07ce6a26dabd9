//! The verdict in words: one sentence, a table of what helps, what is needed, and what was not tried.

use forebay_report::format::{bytes, count, rate, seconds, share};
use forebay_report::{Limit, Need, OtherJob, Report, Verdict};
use forebay_scenario::{OverrideText, Scenario};

use super::base::Base;
use super::lever::Lever;
use super::numbers::{FULL, SAME};
use super::trial::long_run;
use super::{remarks, rules};

/// Most rows of the table of what helps.
const MOST_ROWS: usize = 6;
/// Most jobs that a row or a sentence names.
const MOST_NAMED: usize = 4;

/// How fast a job is in the long run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Speed {
    /// Step time [s].
    pub(crate) step_time: f64,
    /// Share of the time that devices compute.
    pub(crate) busy: f64,
}

impl Speed {
    /// Returns how fast the job of a base run is.
    pub(crate) fn of(base: &Base) -> Speed {
        let figures = &base.shown().figures;
        let seen = figures.step_time.mean.unwrap_or(0.0);
        let step_time = long_run(base.shown()).map_or(seen, |(step, _)| step);
        let busy = figures.accelerator_utilisation.mean.unwrap_or(0.0);
        Speed { step_time, busy: busy * seen / step_time }
    }

    /// Returns whether step times differ by more than this share.
    pub(crate) fn differs(&self, other: &Speed, share: f64) -> bool {
        (self.step_time / other.step_time - 1.0).abs() > share
    }
}

/// Returns the text of a verdict; `asked` is the report of the run that the user asked for.
pub(crate) fn text(base: &Base, asked: &Report, verdict: &Verdict) -> String {
    let mut said = Vec::new();
    said.extend(long_run_differs(base, asked, verdict));
    said.extend(marches(verdict));
    match verdict.limits.first() {
        Some(first) => {
            let next = first.next.as_ref();
            let next = next.map_or(String::new(), |next| format!("; the next limit is {next}"));
            said.push(format!("`{}` is limited by {}{next}.", verdict.job, first.name));
            said.extend(table(verdict));
        }
        None => said.push(nothing_helps(asked, verdict)),
    }
    said.extend(needs(verdict));
    said.extend(remarks::all(&base.scenario, &base.report, base.job, verdict));
    said.extend(left_out(verdict));
    said.join("\n")
}

/// Returns the text of a verdict on a further job, in one line.
pub(crate) fn line(base: &Base, verdict: &Verdict) -> String {
    let waits = share(base.shown().figures.stall.total.mean.unwrap_or(0.0));
    let job = &verdict.job;
    match verdict.limits.first() {
        Some(limit) => format!(
            "`{job}` waits {waits} of the time and is limited by {}: with {} a step takes {} instead of {}{}.",
            limit.name,
            pasted(&limit.changes),
            seconds(limit.after),
            seconds(limit.before),
            beside(limit),
        ),
        None => format!("`{job}` waits {waits} of the time; nothing that was tried helps."),
    }
}

/// Returns a sentence on the jobs that wait and have no verdict.
pub(crate) fn untold(names: &[&str]) -> String {
    let named: Vec<String> =
        names.iter().take(MOST_NAMED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let waits = if names.len() == 1 { "waits" } else { "wait" };
    format!(" {}{more} {waits} too: `--job NAME` gives the verdict on a job.", named.join(", "))
}

/// Returns a sentence on the long run, if the run that the user asked for shows something else.
fn long_run_differs(base: &Base, asked: &Report, verdict: &Verdict) -> Option<String> {
    let long = verdict.long_run?;
    let asked = asked.jobs[base.job].figures.step_time.mean?;
    let differs = (long.step_time / asked - 1.0).abs() > SAME && !base.is_varied;
    differs.then(|| {
        format!(
            "In the long run a step of `{}` takes {}, and its {} compute {} of the time: the steps above take {}.",
            verdict.job,
            seconds(long.step_time),
            base.shown().trainers(),
            share(long.accelerator_utilisation),
            seconds(asked),
        )
    })
}

/// Returns a sentence on constants that march in step.
fn marches(verdict: &Verdict) -> Option<String> {
    let (as_written, long) = (verdict.in_step?, verdict.long_run?);
    Some(format!(
        "Constant times keep the workers of `{}` in step: if they vary by 5 %, a step takes {} instead of {}. What follows holds for times that vary.",
        verdict.job,
        seconds(long.step_time),
        seconds(as_written),
    ))
}

/// Returns the rows of what helps, best first, each with what to paste.
fn table(verdict: &Verdict) -> Vec<String> {
    let rows: Vec<[String; 3]> = verdict
        .limits
        .iter()
        .take(MOST_ROWS)
        .map(|limit| {
            let [low, high] = limit.after_interval;
            [
                format!("{} [{}, {}]", seconds(limit.after), seconds(low), seconds(high)),
                share(limit.gain),
                format!("{}{}", pasted(&limit.changes), beside(limit)),
            ]
        })
        .collect();
    let heads = ["step", "saves", "with"].map(str::to_owned);
    let all: Vec<&[String; 3]> = std::iter::once(&heads).chain(&rows).collect();
    let width =
        |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let more = verdict.limits.len().saturating_sub(MOST_ROWS);
    let more = (more > 0).then(|| format!("  and {more} more in the JSON report"));
    let lines =
        all.iter().map(|[step, saves, with]| format!("  {step:first$}  {saves:>second$}  {with}"));
    lines.chain(more).collect()
}

/// Returns the options that make changes, as a shell takes them.
pub(crate) fn pasted(changes: &[OverrideText]) -> String {
    let each = changes.iter().filter_map(|change| change.parse().ok());
    each.map(|change| change.pasted()).collect::<Vec<_>>().join(" ")
}

/// Returns in brackets what else is to be known of changes.
fn beside(limit: &Limit) -> String {
    if limit.also.is_empty() { String::new() } else { format!(" ({})", limit.also) }
}

/// Returns clauses on the other jobs that a change makes faster or slower, and on what it does to training; an empty text if there is
/// nothing to say.
pub(crate) fn also(lever: &Lever, ranks_higher: usize, others: &[OtherJob]) -> String {
    let mut others: Vec<&OtherJob> = others.iter().collect();
    others.sort_by(|a, b| b.gain.abs().total_cmp(&a.gain.abs()));
    let each = others.iter().take(MOST_NAMED).map(|other| {
        let longer = other.after / other.before - 1.0;
        let which = if longer > 0.0 { "longer" } else { "shorter" };
        format!("steps of `{}` {} {which}", other.job, share(longer.abs()))
    });
    let training = rules::changes_training(&lever.class).then(|| "changes training".to_owned());
    let higher = (ranks_higher > 0).then(|| format!("ranks higher in {ranks_higher} draws"));
    training.into_iter().chain(higher).chain(each).collect::<Vec<_>>().join(", ")
}

fn nothing_helps(asked: &Report, verdict: &Verdict) -> String {
    let finding = asked.bottleneck.as_ref().map_or("", |of| of.finding.as_str());
    let lists = [
        list("Tried, and not a limit", &verdict.without_effect),
        list("Tried, and not clear from runs of this length", &verdict.uncertain),
    ];
    let begins = (!finding.is_empty()).then(|| finding.to_owned());
    let nothing = format!("Nothing that was tried makes `{}` faster.", verdict.job);
    let all: Vec<String> =
        begins.into_iter().chain([nothing]).chain(lists.into_iter().flatten()).collect();
    all.join(" ")
}

/// Returns a sentence on what was not tried.
fn left_out(verdict: &Verdict) -> Option<String> {
    let events = "Not tried, because the verdict had no events left";
    if !verdict.time_ended {
        return list(events, &verdict.not_tried);
    }
    let names = if verdict.not_tried.is_empty() {
        "nothing".to_owned()
    } else {
        verdict.not_tried.join(", ")
    };
    Some(format!(
        "`--verdict-time` ended the trials, so another run may say something else. Not tried: {names}."
    ))
}

fn list(what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what}: {}.", names.join(", ")))
}

/// Returns the lines on what the job needs.
fn needs(verdict: &Verdict) -> Vec<String> {
    if verdict.nothing_suffices {
        return vec![format!(
            "No amounts of these keep `{}` from waiting for input: it waits with 32 times of each.",
            verdict.job
        )];
    }
    if verdict.needs.is_empty() {
        return Vec::new();
    }
    let each: Vec<String> = verdict.needs.iter().map(need).collect();
    let changes: Vec<String> = verdict.needs.iter().map(|need| pasted(&need.changes)).collect();
    let (job, each) = (&verdict.job, each.join("; "));
    let sentence = match verdict.needs_are_loose {
        true => format!(
            "For input to keep up, `{job}` needs no more than this, all together: {each}. The verdict had no events left to find the least of each."
        ),
        false => format!("For input to keep up, `{job}` needs, all together: {each}."),
    };
    vec![sentence, format!("  {}", changes.join(" "))]
}

fn need(of: &Need) -> String {
    let write = |value: f64| amount(value, &of.unit);
    format!("{} {} (now {})", of.name, write(of.needed), write(of.capacity))
}

fn amount(value: f64, unit: &str) -> String {
    match unit {
        "B/s" => rate(value, "B"),
        "B" => bytes(value),
        "" | "cores" => count(value),
        "1/s" => format!("{} /s", count(value)),
        _ => format!("{} {unit}", count(value)),
    }
}

/// Returns the verdict on a job from the causes of its stalls alone, without trials; `why` says why nothing was tried.
pub(crate) fn estimate(
    (scenario, report, job): (&Scenario, &Report, usize),
    why: Option<&str>,
) -> Verdict {
    let finding = report.bottleneck.as_ref().map_or("", |of| of.finding.as_str());
    let full: Vec<&str> = report
        .resources
        .iter()
        .filter(|of| of.utilisation_max.mean.is_some_and(|used| used >= FULL))
        .map(|of| of.name.as_str())
        .collect();
    let full = (!full.is_empty()).then(|| format!("Full: {}.", full.join(", ")));
    let said: Vec<String> = std::iter::once(finding.to_owned()).chain(full).collect();
    let why = why.unwrap_or("nothing was tried");
    let text = format!("{} (An estimate from what was waited for last: {why}.)", said.join(" "));
    Verdict {
        job: scenario.jobs[job].name.clone(),
        quick: true,
        long_run: None,
        in_step: None,
        limits: Vec::new(),
        without_effect: Vec::new(),
        uncertain: Vec::new(),
        not_tried: Vec::new(),
        time_ended: false,
        needs: Vec::new(),
        needs_are_loose: false,
        nothing_suffices: false,
        events: 0,
        text,
    }
}
