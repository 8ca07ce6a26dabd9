//! The report for people in a terminal: the answer first, then what it rests on.

use super::device_memory;
use super::epochs;
use super::figures::{
    AccuracyReport, EnergyReport, Figure, JobReport, QueueReport, RecoveryReport, Report,
    ResourceReport, StagingReport, StalledSteps, SyncReport, TierShares,
};
use super::format::{number, prefixed, rate, seconds, share};
use super::learners;
use super::parallel;
use super::{Tuned, World};
use crate::scenario::printable_line;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// Stalls below this share have no line of their own.
const SMALL: f64 = 0.0005;

/// The report as lines of at most `width` columns (40 at least), with ANSI colours if `colour`.
pub fn render(report: &Report, width: usize, colour: bool) -> String {
    let mut page = Page { width: width.max(40), colour, text: String::new() };
    page.paragraph(&answer(report), "", Style::Bold);
    for line in report.jobs.iter().filter_map(too_short) {
        page.paragraph(&line, "", Style::Bold);
    }
    if let Some(bottleneck) = &report.bottleneck {
        page.paragraph(&bottleneck.text, "", Style::Plain);
    }
    page.blank();
    page.table(jobs_table(&report.jobs));
    page.paragraph(&jobs_legend(&report.jobs), "  ", Style::Dim);
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
    if !report.resources.is_empty() {
        page.blank();
        page.table(resources_table(&report.resources));
        page.paragraph(RESOURCES_LEGEND, "  ", Style::Dim);
    }
    for note in &report.notes {
        page.blank();
        page.paragraph(note, "  ", Style::Dim);
    }
    for warning in &report.warnings {
        page.blank();
        page.paragraph(&format!("Warning: {warning}"), "  ", Style::Warning);
    }
    page.blank();
    page.paragraph(&provenance(report), "  ", Style::Dim);
    page.text
}

/// One sentence: what the reader asked.
fn answer(report: &Report) -> String {
    let worst = report.bottleneck.as_ref();
    let named = worst.and_then(|worst| report.jobs.iter().find(|job| job.name == worst.job));
    let Some(job) = named else {
        return format!("{}: no step was completed.", report.scenario);
    };
    let figures = &job.figures;
    format!(
        "{}: a step of `{}` takes {}, and its {} compute {} of the time.",
        report.scenario,
        job.name,
        with_error(&figures.step_time, seconds),
        job.trainers(),
        shown(figures.accelerator_utilisation.mean, share)
    )
}

/// That the run says nothing of a longer one, and why.
fn too_short(job: &JobReport) -> Option<String> {
    let why = job.length.why.as_ref()?;
    let long = job.length.long_run_samples_per_second.map(|lasting| {
        let found = shown(job.figures.samples_per_second.mean, |value| rate(value, "samples"));
        format!(
            " Its storage and loader keep up {} in the long run, not {found}.",
            rate(lasting, "samples")
        )
    });
    Some(format!("The run is too short for `{}`: {why}.{}", job.name, long.unwrap_or_default()))
}

/// How rarely steps are held up, where that was seen rarely.
fn rarely(job: &JobReport) -> Option<String> {
    let StalledSteps { events, steps, at_most } = job.stalled_steps?;
    let seen = match events {
        0 => format!("No step of `{}` was held up in {steps}", job.name),
        1 => format!("One of {steps} steps of `{}` was held up", job.name),
        _ => format!("Steps of `{}` were held up {events} times in {steps}", job.name),
    };
    Some(format!("{seen}: in the long run at most one in {} is.", number((1.0 / at_most).floor())))
}

fn provenance(report: &Report) -> String {
    let replications = if report.replications == 1 { "replication" } else { "replications" };
    let (what, events) = match report.world {
        World::Simulated => ("simulated", format!("{} events", prefixed(report.events as f64, ""))),
        World::Live => ("live on this machine", "done".to_owned()),
    };
    format!(
        "{} {what} until the last step (makespan), {} {replications}, seed {}, {events} in {} (forebay {}).",
        shown(report.makespan.mean, seconds),
        report.replications,
        report.seed,
        seconds(report.wall_time),
        report.version
    )
}

fn jobs_table(jobs: &[JobReport]) -> Table {
    let each = if several(jobs) { "samples/s each" } else { "samples/s" };
    let mut heads = vec!["job", "copies", "step time", "p99", each];
    heads.extend(several(jobs).then_some("all copies"));
    heads.extend(repeats(jobs).then_some("new/s each"));
    heads.push("computing");
    let mut table = table(&heads);
    for job in jobs {
        let figures = &job.figures;
        let samples = figures.samples_per_second;
        let all = samples.mean.map(|each| each * f64::from(job.copies));
        let new = figures.fresh_samples_per_second.mean;
        let mut row = vec![
            printable_line(&job.name),
            job.copies.to_string(),
            with_error(&figures.step_time, seconds),
            shown(figures.step_time.p99, seconds),
            with_error(&samples, |value| prefixed(value, "")),
        ];
        row.extend(several(jobs).then(|| shown(all, |value| prefixed(value, ""))));
        row.extend(repeats(jobs).then(|| shown(new, |value| prefixed(value, ""))));
        row.push(with_error(&figures.accelerator_utilisation, share));
        table.add_row(cells(&row));
    }
    table
}

/// Whether some job has several copies, whose rates add up.
fn several(jobs: &[JobReport]) -> bool {
    jobs.iter().any(|job| job.copies > 1)
}

/// Whether some job trains on samples more than once in an epoch.
fn repeats(jobs: &[JobReport]) -> bool {
    jobs.iter().any(|job| {
        let rates =
            job.figures.fresh_samples_per_second.mean.zip(job.figures.samples_per_second.mean);
        rates.is_some_and(|(new, all)| new < 0.9995 * all)
    })
}

/// What the columns of the table of jobs are.
fn jobs_legend(jobs: &[JobReport]) -> String {
    let mut text = "p99: 99 % of the steps take less".to_owned();
    if several(jobs) {
        text += "; each: of one copy of the job, all its ranks together";
    }
    if repeats(jobs) {
        text += "; new/s: samples that this epoch had not trained on";
    }
    text + "; computing: share of the time of a GPU, or of what trains."
}

/// What those of the table of resources are.
const RESOURCES_LEGEND: &str = "used: share of the capacity over the whole run, mean of all that are alike, and of the \
                                most used; in use by: transfers or requests at one of them at a time, on average.";

fn resources_table(resources: &[ResourceReport]) -> Table {
    let heads = ["resource", "count", "capacity", "used", "most used", "in use by"];
    let mut table = table(&heads);
    for resource in resources {
        table.add_row(cells(&[
            printable_line(&resource.name),
            resource.count.to_string(),
            capacity(resource),
            with_error(&resource.utilisation, share),
            shown(resource.utilisation_max.mean, share),
            shown(resource.mean_flows.mean, number),
        ]));
    }
    table
}

fn capacity(resource: &ResourceReport) -> String {
    match resource.unit.split_once("/s") {
        Some(("B", "")) => rate(resource.capacity, "B"),
        Some(("1", "")) => format!("{} /s", prefixed(resource.capacity, "")),
        _ => format!("{} {}", number(resource.capacity), printable_line(&resource.unit)),
    }
}

/// Where single runs of a job lie, where that was asked for.
fn prediction(job: &JobReport) -> Option<String> {
    let figures = &job.figures;
    let range = |figure: &Figure, write: fn(f64) -> String| {
        let [low, high] = figure.prediction90?;
        Some(format!("{} [{}, {}]", shown(figure.mean, write), write(low), write(high)))
    };
    Some(format!(
        "`{}` in one run: {} samples/s, step time {}, stall {} (90 % of runs).",
        job.name,
        range(&figures.samples_per_second, |value| prefixed(value, ""))?,
        range(&figures.step_time, seconds)?,
        range(&figures.stall.total, share)?
    ))
}

/// How long a job's nodes took to copy its data set.
fn staging_line(job: &str, staging: Option<&StagingReport>) -> Option<String> {
    let staging = staging?;
    Some(format!(
        "Staging of `{job}`: {} copied to `{}` in {}, before the first step.",
        shown(staging.bytes.mean, |bytes| prefixed(bytes, "B")),
        staging.to,
        with_error(&staging.seconds, seconds)
    ))
}

/// How long a job trains until its target, and what that rests on.
fn accuracy_line(job: &str, accuracy: Option<&AccuracyReport>) -> Option<String> {
    let accuracy = accuracy?;
    Some(format!(
        "Time to accuracy of `{job}`: {} for {} epochs, {} samples, each worth {} of one in the smallest of \
         batches. Assumed: {}. Observed: {}.",
        with_error(&accuracy.time, seconds),
        number(accuracy.epochs),
        shown(accuracy.samples.mean, |samples| prefixed(samples, "")),
        shown(accuracy.statistical_efficiency.mean, share),
        accuracy.assumed,
        accuracy.measured
    ))
}

/// What a step is where model copies do not agree after each, and how old what they learn from is.
fn sync_line(job: &str, sync: Option<&SyncReport>) -> Option<String> {
    let sync = sync.filter(|of| of.steps_per_exchange > 1 || of.staleness.is_some())?;
    let mut line = format!("Synchronisation of `{job}`: {}", sync.text);
    if let Some(staleness) = sync.staleness.as_ref().filter(|of| of.max > 0) {
        let mean = shown(staleness.mean.mean, number);
        line += &format!("; an update misses {mean} of the others', {} at most", staleness.max);
    }
    Some(line + ".")
}

/// What failures and checkpoints of a job cost.
fn recovery_line(job: &str, recovery: Option<&RecoveryReport>) -> Option<String> {
    let of = recovery?;
    let mut line = format!(
        "Recovery of `{job}`: {} failures, {} of work lost and {} down; {} checkpoints",
        shown(of.failures.mean, number),
        shown(of.lost.mean, seconds),
        shown(of.down.mean, seconds),
        shown(of.checkpoints.mean, number),
    );
    if let Some(time) = of.checkpoint_time.mean {
        let bytes = shown(of.checkpoint_bytes.mean, |bytes| prefixed(bytes, "B"));
        line += &format!(" of {bytes}, each written in {}", seconds(time));
    }
    if let Some(best) = of.best_interval {
        line += &format!("; Daly's estimate of the best interval is {}", seconds(best));
    }
    Some(line + ".")
}

/// What a run took out of the wall.
fn energy_line(of: &EnergyReport) -> String {
    let all = of.total.mean.unwrap_or(0.0);
    let joules = |figure: Figure| shown(figure.mean, |joules| prefixed(joules, "J"));
    let part = |figure: Figure| {
        shown(figure.mean, |joules| share(if all > 0.0 { joules / all } else { 0.0 }))
    };
    format!(
        "Energy: {} at {} on average, {} of it idle, {} by GPUs at work, {} by cores; {} a step, {} a sample.",
        joules(of.total),
        shown(of.power.mean, |watts| prefixed(watts, "W")),
        part(of.idle),
        part(of.gpus),
        part(of.cores),
        joules(of.per_step),
        joules(of.per_sample),
    )
}

/// Where a job's requests found their bytes, epoch by epoch.
fn tier_line(job: &str, tiers: &[TierShares]) -> Option<String> {
    let (first, later) = tiers.split_first()?;
    let say = |shares: &TierShares| {
        let own = format!("{} on the node's own tier", share(shares.hit));
        let peers = format!("{} on other nodes'", share(shares.peer));
        let peers = if shares.peer > 0.0 { format!(", {peers}") } else { String::new() };
        format!("{own}{peers}, {} on the storage", share(shares.miss))
    };
    let first = format!("Requests of `{job}` found {}", say(first));
    Some(match later {
        [] => format!("{first}."),
        [.., last] => {
            format!("{first} in the first epoch; {} in epoch {}.", say(last), tiers.len())
        }
    })
}

/// What a job's requests missed in a cache, epoch by epoch.
fn cache_line(cache: &str, misses: &[f64]) -> Option<String> {
    let (first, later) = misses.split_first()?;
    let first = format!("{cache}: {} of the requests missed", share(*first));
    Some(match later {
        [] => format!("{first}."),
        [.., last] => {
            format!("{first} in the first epoch, {} in epoch {}.", share(*last), misses.len())
        }
    })
}

/// What parallelism came to, where it is tuned.
fn tuned_line(job: &str, tuned: &[Tuned]) -> Option<String> {
    let each = tuned.iter().map(|of| format!("{} of `{}`", of.workers, printable_line(&of.stage)));
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| format!("Workers of `{job}` as tuned: {}.", each.join(", ")))
}

/// A bar for each cause of a job's stalls that is worth one.
fn stalls(page: &mut Page, job: &JobReport) {
    let total = job.figures.stall.total.mean.unwrap_or(0.0);
    page.blank();
    page.paragraph(
        &format!("`{}` stalls {} of the time", job.name, share(total)),
        "  ",
        Style::Bold,
    );
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

fn queue_line(name: &str, queue: &QueueReport) -> String {
    let samples = |value| rate(value, "samples");
    let mut line = format!(
        "Queue of `{name}`: {} of {} samples on average, empty {} of the time, {} in, {} out",
        shown(queue.occupancy.mean, number),
        queue.capacity,
        shown(queue.time_empty.mean, share),
        shown(queue.enqueue_rate.mean, samples),
        shown(queue.dequeue_rate.mean, samples),
    );
    line += &unhindered(queue).unwrap_or_default();
    if let Some(dry) = queue.exhausted_copies.mean {
        line += ", full at the start and ";
        line += &match queue.time_to_exhaustion.mean {
            Some(time) => format!("dry after {} in {} of the copies", seconds(time), share(dry)),
            None => "never dry".to_owned(),
        };
    }
    if let Some(age) = queue.age {
        line += &format!(
            ", samples read {} times at an age of {}",
            shown(queue.reuse.as_ref().and_then(|reuse| reuse.mean), number),
            shown(age.mean, seconds)
        );
    }
    line + "."
}

/// What workers and trainers would do if the other side never held them up.
fn unhindered(queue: &QueueReport) -> Option<String> {
    let samples = |value| rate(value, "samples");
    let into = queue.unblocked_enqueue_rate.mean?;
    let out = queue.unstalled_dequeue_rate.mean?;
    let then = match queue.net_enqueue_rate.mean? {
        net if net < -1e-3 * out => format!("the queue would drain by {}", samples(-net)),
        net if net > 1e-3 * out => format!("the queue would fill by {}", samples(net)),
        _ => "the queue would keep its level".to_owned(),
    };
    Some(format!(
        "; if neither waited for the other, workers would put in {} and trainers take out {}: {then}",
        samples(into),
        samples(out)
    ))
}

fn shown(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or("-".to_owned(), write)
}

/// A mean and the half-width of its interval.
fn with_error(figure: &Figure, write: impl Fn(f64) -> String) -> String {
    let half = figure.ci95.map(|[low, high]| (high - low) / 2.0);
    match (figure.mean, half) {
        (Some(mean), Some(half)) if half > 1e-4 * mean.abs() => {
            format!("{} ± {}", write(mean), write(half))
        }
        _ => shown(figure.mean, write),
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(cells(&header.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()));
    table
}

/// The first to the left, numbers to the right.
fn cells(values: &[String]) -> Vec<Cell> {
    let align = |i| if i == 0 { CellAlignment::Left } else { CellAlignment::Right };
    values.iter().enumerate().map(|(i, value)| Cell::new(value).set_alignment(align(i))).collect()
}

/// How a piece of text looks.
#[derive(Clone, Copy)]
enum Style {
    Plain,
    Bold,
    Dim,
    Bar,
    Warning,
}

/// The text so far.
struct Page {
    width: usize,
    colour: bool,
    text: String,
}

impl Page {
    fn blank(&mut self) {
        self.text.push('\n');
    }

    fn table(&mut self, mut table: Table) {
        table.set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        for line in table.lines() {
            self.text += line.trim_end();
            self.text.push('\n');
        }
    }

    /// The beginning of a line that [`Page::more`] ends.
    fn line(&mut self, text: &str, style: Style) {
        self.styled(text, style);
    }

    fn more(&mut self, text: &str, style: Style) {
        self.styled(text, style);
        self.text.push('\n');
    }

    /// Text in lines, those after the first indented.
    fn paragraph(&mut self, text: &str, indent: &str, style: Style) {
        for line in wrapped(&printable_line(text), self.width, indent) {
            self.styled(&line, style);
            self.text.push('\n');
        }
    }

    fn styled(&mut self, text: &str, style: Style) {
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Bar => "31",
            Style::Warning => "33",
            Style::Plain => "",
        };
        if self.colour && !code.is_empty() {
            self.text += &format!("\u{1b}[{code}m{text}\u{1b}[0m");
        } else {
            self.text += text;
        }
    }
}

/// Lines of at most `width` characters, broken between words where that is possible.
fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for piece in letters.chunks(width - indent.len()) {
            let line = lines.last().map_or(0, |line| line.chars().count());
            let started = line > indent.len() || (lines.len() == 1 && line > 0);
            if started && line + 1 + piece.len() > width {
                lines.push(indent.to_owned());
            } else if started {
                lines.iter_mut().last().into_iter().for_each(|line| line.push(' '));
            }
            lines.iter_mut().last().into_iter().for_each(|line| line.extend(piece));
        }
    }
    lines
}
