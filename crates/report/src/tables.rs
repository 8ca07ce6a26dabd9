//! The tables of the report for people: jobs and resources, each with the legend of its columns.

use super::epochs;
use super::figures::{JobFigures, JobReport, ResourceReport};
use super::format::{Quantity, count, number, rate, seconds, share};
use super::page::{cells, table};
use super::text::{shown, with_error, written};
use comfy_table::Table;
use forebay_scenario::printable_line;

/// A row of the table of jobs: a job, the epochs that the row is about, and its figures of these epochs.
struct JobRow<'r> {
    job: &'r JobReport,
    epochs: &'static str,
    figures: &'r JobFigures,
}

/// Returns the rows of the table of jobs. A job whose first epoch differs from later ones has two rows.
fn job_rows(jobs: &[JobReport]) -> Vec<JobRow<'_>> {
    let of_job = |job| match epochs::apart(job) {
        None => vec![JobRow { job, epochs: "all", figures: &job.figures }],
        Some([first, later]) => vec![
            JobRow { job, epochs: "first", figures: first },
            JobRow { job, epochs: "later", figures: later },
        ],
    };
    jobs.iter().flat_map(of_job).collect()
}

/// Returns the table of jobs.
pub(super) fn of_jobs(jobs: &[JobReport]) -> Table {
    let each = if several(jobs) { "samples/s each" } else { "samples/s" };
    let rows = job_rows(jobs);
    let apart = rows.len() > jobs.len();
    let mut heads = vec!["job"];
    heads.extend(apart.then_some("epochs"));
    heads.extend(["copies", "step time", "p99", each]);
    heads.extend(several(jobs).then_some("all copies"));
    heads.extend(repeats(&rows).then_some("new/s each"));
    heads.push("computing");
    let mut table = table(&heads);
    for JobRow { job, epochs, figures } in &rows {
        let samples = figures.samples_per_second;
        let all = samples.mean.map(|each| each * f64::from(job.copies));
        let new = figures.fresh_samples_per_second.mean;
        let mut row = vec![printable_line(&job.name)];
        row.extend(apart.then(|| (*epochs).to_owned()));
        row.extend([
            job.copies.to_string(),
            written(job, &figures.step_time, Quantity::Seconds),
            shown(figures.step_time.p99, seconds),
            written(job, &samples, Quantity::Count),
        ]);
        row.extend(several(jobs).then(|| shown(all, count)));
        row.extend(repeats(&rows).then(|| shown(new, count)));
        row.push(written(job, &figures.accelerator_utilisation, Quantity::Share));
        table.add_row(cells(&row));
    }
    table
}

/// Whether some job has several copies, whose rates add up.
fn several(jobs: &[JobReport]) -> bool {
    jobs.iter().any(|job| job.copies > 1)
}

/// Whether some job trains on samples more than once in an epoch.
fn repeats(rows: &[JobRow]) -> bool {
    rows.iter().any(|JobRow { figures, .. }| {
        let rates = figures.fresh_samples_per_second.mean.zip(figures.samples_per_second.mean);
        rates.is_some_and(|(new, all)| new < 0.9995 * all)
    })
}

/// Returns the legend of the columns of the table of jobs.
pub(super) fn legend_of_jobs(jobs: &[JobReport]) -> String {
    let rows = job_rows(jobs);
    let mut text = "p99: 99 % of the steps take less".to_owned();
    let rare = |row: &JobRow| {
        let step = &row.figures.step_time;
        step.p99.zip(step.mean).is_some_and(|(p99, mean)| p99 < 0.999 * mean)
    };
    if rows.iter().any(rare) {
        text += "; where p99 is below the mean, the other 1 % take much longer";
    }
    if several(jobs) {
        text += "; each: of one copy of the job, all its ranks together";
    }
    if repeats(&rows) {
        text += "; new/s: samples that this epoch had not trained on";
    }
    if rows.len() > jobs.len() {
        text +=
            "; epochs: the first epoch has a row of its own where caches make later ones differ";
    }
    text + "; computing: share of time that GPUs or other trainers compute."
}

/// Minimum use of the most used of equal resources, as a share of its capacity, at which the table lists them: what rounds to
/// 0.1 %.
const USED: f64 = 0.0005;

fn is_used(resource: &ResourceReport) -> bool {
    resource.utilisation_max.mean.is_some_and(|share| share >= USED)
}

/// Returns the table of the resources that are used; `None` if none is.
pub(super) fn of_resources(resources: &[ResourceReport]) -> Option<Table> {
    let heads = ["resource", "count", "capacity", "used", "most used", "in use by"];
    let mut table = table(&heads);
    for resource in resources.iter().filter(|resource| is_used(resource)) {
        table.add_row(cells(&[
            printable_line(&resource.name),
            resource.count.to_string(),
            capacity(resource),
            with_error(&resource.utilisation, Quantity::Share),
            shown(resource.utilisation_max.mean, share),
            shown(resource.mean_flows.mean, number),
        ]));
    }
    (!table.is_empty()).then_some(table)
}

/// Returns the legend of the table of resources, with what the table does not have: resources that are hardly used, and
/// collectives that are not simulated on links.
pub(super) fn legend_of_resources(resources: &[ResourceReport], jobs: &[JobReport]) -> String {
    let columns = "used: share of the capacity over the whole run, mean over all equal resources, and of the most used one; \
                   in use by: mean number of concurrent transfers or requests at one of them.";
    let columns = resources.iter().any(is_used).then(|| columns.to_owned());
    let all = [columns, hardly_used(resources), not_counted(jobs)];
    all.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns a sentence on how many resources the table leaves out; `None` if it has all.
fn hardly_used(resources: &[ResourceReport]) -> Option<String> {
    let number = resources.iter().filter(|resource| !is_used(resource)).count();
    let subject = match (number, resources.len()) {
        (0, _) => return None,
        (1, 1) => "The only resource is".to_owned(),
        (_, all) if number == all => format!("All {all} resources are"),
        (1, _) => "1 more is".to_owned(),
        _ => format!("{number} more are"),
    };
    Some(format!("{subject} used less than 0.05 %: `--format json` lists all."))
}

/// Returns a sentence with the names of the jobs whose collectives the table does not count; `None` if it counts all.
fn not_counted(jobs: &[JobReport]) -> Option<String> {
    let is_analytic = |job: &&JobReport| {
        let gradients = job.sync.as_ref().and_then(|sync| sync.fidelity);
        let inside = job.parallel.as_ref().map(|parallel| {
            [parallel.sum_fidelity, parallel.key_value_fidelity, parallel.token_fidelity]
        });
        inside.into_iter().flatten().chain([gradients]).any(|of| of == Some("analytic"))
    };
    let names: Vec<String> =
        jobs.iter().filter(is_analytic).map(|job| format!("`{}`", job.name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Collectives with `fidelity = \"analytic\"` ({}) take time, but are not counted here.",
            names.join(", ")
        )
    })
}

fn capacity(resource: &ResourceReport) -> String {
    match resource.unit.split_once("/s") {
        Some(("B", "")) => rate(resource.capacity, "B"),
        Some(("1", "")) => format!("{} /s", count(resource.capacity)),
        _ => {
            let unit = printable_line(&resource.unit);
            let one = unit.strip_suffix('s').filter(|_| resource.capacity == 1.0);
            format!("{} {}", number(resource.capacity), one.unwrap_or(&unit))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figure, Part, Resource};

    #[test]
    fn units_of_a_single_thing_are_written_in_the_singular() {
        let written = |amount: f64, unit: &str| {
            let none = Figure::default();
            capacity(&ResourceReport {
                of: Resource::node(Part::Cores),
                name: "r".into(),
                count: 1,
                capacity: amount,
                unit: unit.into(),
                utilisation: none,
                utilisation_max: none,
                mean_flows: none,
                groups: Vec::new(),
            })
        };
        let found = [(1.0, "arms"), (2.0, "cores"), (0.5, "cores"), (1.0, "thread"), (1.0, "1/s")];
        let found = found.map(|(amount, unit)| written(amount, unit));
        assert_eq!(found, ["1 arm", "2 cores", "0.5 cores", "1 thread", "1 /s"]);
    }
}
