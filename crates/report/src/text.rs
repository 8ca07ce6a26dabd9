//! The report for people in a terminal: the answer first, then the figures that it is based on.

use super::cost::cost_line;
use super::device_memory;
use super::epoch_starts;
use super::epochs;
use super::figures::{Figure, JobFigures, JobReport, Report};
use super::format::{Quantity, count, rate, seconds, share};
use super::learners;
use super::lines::{
    accuracy_line, cache_line, energy_line, queue_line, rarely, recovery_line, staging_line,
    sync_line, tier_line, tuned_line,
};
use super::page::{Page, Style};
use super::parallel;
use super::tables;
use super::{Cause, RepeatedSteps, World};
use forebay_scenario::printable_line;

/// Stalls below this share have no line of their own.
const SMALL: f64 = 0.0005;

/// Writes the report in lines of at most `width` columns (40 at least), with ANSI colours if `colour`.
pub fn render(report: &Report, width: usize, colour: bool) -> String {
    let mut page = Page::new(width.max(40), colour);
    page.paragraph(&answer(report), "", Style::Bold);
    if let Some(of) = &report.rests_on {
        page.paragraph(&of.text, "", Style::Plain);
    }
    for line in report.jobs.iter().filter_map(short_run) {
        page.paragraph(&line, "", Style::Bold);
    }
    for line in report.jobs.iter().flat_map(unseen) {
        page.paragraph(&line, "", Style::Plain);
    }
    let verdicts = report.other_verdicts.iter().map(|of| &of.text);
    for line in
        report.bottleneck.iter().map(|of| &of.text).chain(verdicts).flat_map(|of| of.lines())
    {
        // Rows of a table, and commands to be pasted, stay as they are.
        match line.starts_with("  ") {
            true => page.more(line, Style::Plain),
            false => page.paragraph(line, "", Style::Plain),
        }
    }
    page.blank();
    page.table(tables::of_jobs(&report.jobs));
    page.paragraph(&tables::legend_of_jobs(&report.jobs), "  ", Style::Dim);
    for job in &report.jobs {
        if let Some(line) = prediction(job) {
            page.paragraph(&line, "  ", Style::Plain);
        }
    }
    for job in &report.jobs {
        stalls(&mut page, job);
        if let Some(line) = rarely(job) {
            page.paragraph(&line, "  ", Style::Plain);
        }
        if let Some(line) = epochs::line(job) {
            page.paragraph(&line, "  ", Style::Plain);
        }
        if let Some(line) = epoch_starts::line(job) {
            page.paragraph(&line, "  ", Style::Plain);
        }
        page.paragraph(&queue_line(&job.name, &job.queue), "  ", Style::Plain);
        if let Some(line) = staging_line(&job.name, job.staging.as_ref()) {
            page.paragraph(&line, "  ", Style::Plain);
        }
        if let Some(line) = tier_line(&job.name, &job.tiers) {
            page.paragraph(&line, "  ", Style::Plain);
        }
        if let Some(local) = job.local_share {
            let local = shown(local.mean, share);
            let line = format!("Nodes of `{}` had {local} of the bytes that they read.", job.name);
            page.paragraph(&line, "  ", Style::Plain);
        }
        if let Some(held) = &job.device_memory {
            page.paragraph(
                &device_memory::line(&printable_line(&job.name), held),
                "  ",
                Style::Plain,
            );
        }
        if let Some(of) = &job.learners {
            page.paragraph(&learners::line(&printable_line(&job.name), of), "  ", Style::Plain);
        }
        if let Some(of) = &job.parallel {
            page.paragraph(&parallel::line(&printable_line(&job.name), of), "  ", Style::Plain);
        }
        if let Some(line) = accuracy_line(&job.name, job.time_to_accuracy.as_ref()) {
            page.paragraph(&line, "  ", Style::Plain);
        }
        if let Some(line) = sync_line(&job.name, job.sync.as_ref()) {
            page.paragraph(&line, "  ", Style::Plain);
        }
        if let Some(line) = recovery_line(&job.name, job.recovery.as_ref()) {
            page.paragraph(&line, "  ", Style::Plain);
        }
        let caches = [
            cache_line(&format!("Page cache of `{}`", job.name), &job.cache_miss_share),
            cache_line(&format!("Decoded samples of `{}`", job.name), &job.decoded_miss_share),
        ];
        for line in caches.into_iter().flatten() {
            page.paragraph(&line, "  ", Style::Plain);
        }
        if let Some(line) = tuned_line(&job.name, &job.tuned) {
            page.paragraph(&line, "  ", Style::Plain);
        }
    }
    if let Some(energy) = &report.energy {
        page.blank();
        page.paragraph(&energy_line(energy), "", Style::Plain);
    }
    if let Some(cost) = &report.cost {
        page.blank();
        page.paragraph(&cost_line(cost, &report.jobs), "", Style::Plain);
    }
    resources(&mut page, report);
    for note in &report.notes {
        page.blank();
        page.paragraph(note, "  ", Style::Dim);
    }
    for warning in &report.warnings {
        page.blank();
        page.paragraph(&format!("Warning: {warning}"), "  ", Style::Warning);
    }
    page.blank();
    if let Some(of) = &report.repeated_steps {
        page.paragraph(&repeated(of), "  ", Style::Dim);
    }
    page.paragraph(&provenance(report), "  ", Style::Dim);
    page.text
}

/// Writes the table of resources that are used, and how many others there are.
fn resources(page: &mut Page, report: &Report) {
    if report.resources.is_empty() {
        return;
    }
    page.blank();
    if let Some(table) = tables::of_resources(&report.resources) {
        page.table(table);
    }
    let legend = tables::legend_of_resources(&report.resources, &report.jobs);
    page.paragraph(&legend, "  ", Style::Dim);
}

/// Returns the answer in two sentences: the headline, and how long a step takes.
#[must_use]
pub fn answer(report: &Report) -> String {
    let headline = headline(report);
    let Some(job) = worst(report) else { return headline + "." };
    let time = |of: &JobFigures| written(job, &of.step_time, Quantity::Seconds);
    let step = match epochs::apart(job) {
        None => time(&job.figures),
        Some([first, later]) => {
            format!("{} in the first epoch and {} in later ones", time(first), time(later))
        }
    };
    format!("{headline}. A step takes {step}.")
}

/// Returns the job that the report's answer is about; `None` if no job has completed a step.
fn worst(report: &Report) -> Option<&JobReport> {
    let worst = report.bottleneck.as_ref()?;
    report.jobs.iter().find(|job| job.name == worst.job)
}

/// Returns the answer in one sentence, without a full stop: whether the trainers of the worst job are busy.
pub fn headline(report: &Report) -> String {
    let Some(job) = worst(report) else {
        return format!("{}: no step was completed", report.scenario);
    };
    let apart = epochs::apart(job);
    let figures = apart.map_or(&job.figures, |[_, later]| later);
    let computing = |of: &JobFigures| shown(of.accelerator_utilisation.mean, share);
    let mut at_work = computing(figures) + " of the time";
    if let Some([first, _]) = apart {
        at_work += &format!(" in later epochs, {} in the first", computing(first));
    }
    let trainers = job.trainers();
    let chosen = report.bottleneck.as_ref().is_some_and(|of| of.chosen);
    let others = match chosen || report.jobs.len() == 1 {
        true => "",
        false => ", the job that loses most,",
    };
    let state = match standing(figures) {
        Standing::Busy => format!("keeps its {trainers} busy: they compute {at_work}"),
        Standing::Starving => format!("starves: its {trainers} compute {at_work}"),
        Standing::Waiting => {
            format!("has input in time, and its {trainers} still compute only {at_work}")
        }
    };
    format!("{}: `{}`{others} {state}", report.scenario, job.name)
}

/// Minimum share of time that trainers must spend computing to count as busy.
const BUSY: f64 = 0.95;

/// Whether a job's trainers have what they need.
enum Standing {
    Busy,
    /// The trainers wait mostly for input.
    Starving,
    /// The trainers wait mostly for something other than input.
    Waiting,
}

fn standing(figures: &JobFigures) -> Standing {
    if figures.accelerator_utilisation.mean.is_some_and(|share| share >= BUSY) {
        return Standing::Busy;
    }
    // A wait for a computing peer does not tell whether input or something else made that peer late.
    let causes = figures.stall.causes.iter().filter(|(cause, _)| cause.cause != Cause::Compute);
    let (mut input, mut other) = (0.0, 0.0);
    for (cause, figure) in causes {
        let sum = if cause.cause.is_input() { &mut input } else { &mut other };
        *sum += figure.mean.unwrap_or(0.0);
    }
    if input > 0.0 && input >= other { Standing::Starving } else { Standing::Waiting }
}

/// Writes a figure with its interval; without the interval if the run is too short to predict a longer run.
pub(super) fn written(job: &JobReport, figure: &Figure, quantity: Quantity) -> String {
    match job.length.why {
        None => with_error(figure, quantity),
        Some(_) => shown(figure.mean, |mean| quantity.write(mean)),
    }
}

/// Returns a sentence that the run is too short for the job, and why; `None` if it is long enough.
#[must_use]
pub fn short_run(job: &JobReport) -> Option<String> {
    let why = job.length.why.as_ref()?;
    let slower =
        |lasting: &f64| job.figures.samples_per_second.mean.is_none_or(|found| *lasting < found);
    let long = job.length.long_run_samples_per_second.filter(slower).map(|lasting| {
        let found = shown(job.figures.samples_per_second.mean, |value| rate(value, "samples"));
        format!(
            " In the long run its storage and loader sustain {}, not {found}.",
            rate(lasting, "samples")
        )
    });
    Some(format!("The run is too short for `{}`: {why}.{}", job.name, long.unwrap_or_default()))
}

/// Returns sentences on what a job does more rarely than the run is long.
fn unseen(job: &JobReport) -> impl Iterator<Item = String> + '_ {
    let also = job.length.unseen.iter().filter(|of| job.length.why.as_ref() != Some(of));
    also.map(|of| format!("Note on `{}`: {of}.", job.name))
}

fn provenance(report: &Report) -> String {
    let sampled = report.sampled.as_ref().map_or_else(String::new, |of| of.sentence() + " ");
    let replications = if report.replications == 1 { "replication" } else { "replications" };
    let (what, events) = match report.world {
        World::Simulated => ("simulated", format!("{} events", count(report.events as f64))),
        World::Live => ("live on this machine", "done".to_owned()),
    };
    format!(
        "{sampled}{} {what} until the last step (makespan), {} {replications}, seed {}, {events} in {} (forebay {}).",
        shown(report.makespan.mean, seconds),
        report.replications,
        report.seed,
        seconds(report.wall_time),
        report.version
    )
}

/// Returns a sentence on the steps that were not simulated.
fn repeated(of: &RepeatedSteps) -> String {
    let RepeatedSteps { job, first, last, cycle, .. } = of;
    let steps = |first: u64, last: u64| match first == last {
        true => format!("step {last}"),
        false => format!("steps {first} to {last}"),
    };
    let (left_out, cycle) = (steps(*first, *last), steps(first - cycle, first - 1));
    let [repeat, were] = if first == last { ["repeats", "was"] } else { ["repeat", "were"] };
    format!(
        "{} of `{job}` {repeat} {cycle} and {were} not simulated (`fidelity.steady_state`).",
        left_out.replacen('s', "S", 1)
    )
}

/// Returns a sentence with the intervals that hold 90 % of a job's single runs; `None` if uncertainty was not asked for.
fn prediction(job: &JobReport) -> Option<String> {
    let figures = &job.figures;
    let range = |figure: &Figure, write: fn(f64) -> String| {
        let [low, high] = figure.prediction90?;
        Some(format!("{} [{}, {}]", shown(figure.mean, write), write(low), write(high)))
    };
    Some(format!(
        "`{}` in one run: {} samples/s, step time {}, stall {} (90 % of runs).",
        job.name,
        range(&figures.samples_per_second, count)?,
        range(&figures.step_time, seconds)?,
        range(&figures.stall.total, share)?
    ))
}

/// Draws a bar for each cause of a job's stalls whose share is not below [`SMALL`].
fn stalls(page: &mut Page, job: &JobReport) {
    let total = job.figures.stall.total.mean.unwrap_or(0.0);
    page.blank();
    let epochs = epochs::of_all_figures(job);
    let heading = format!("`{}` stalls {} of the time{epochs}", job.name, share(total));
    page.paragraph(&heading, "  ", Style::Bold);
    let room = page.width.saturating_sub(2 + 18 + 9).min(50);
    for (cause, figure) in &job.figures.stall.causes {
        let part = figure.mean.unwrap_or(0.0);
        if part >= SMALL {
            let bar = "█".repeat(((part * room as f64).round() as usize).clamp(1, room));
            page.line(&format!("  {:<18}{:>7}  ", cause.to_string(), share(part)), Style::Plain);
            page.more(&bar, Style::Bar);
        }
    }
}

pub(super) fn shown(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or("-".to_owned(), write)
}

/// Writes a mean and its interval.
pub(super) fn with_error(figure: &Figure, quantity: Quantity) -> String {
    match (figure.mean, figure.ci95) {
        (Some(mean), Some(ends)) => quantity.with_interval(mean, ends),
        (mean, _) => shown(mean, |mean| quantity.write(mean)),
    }
}
