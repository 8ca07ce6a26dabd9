//! How much of each resource a job needs to never wait for input.

use crate::report::format::{count, rate};
use crate::report::{JobNeed, Need, Resource};
use crate::scenario::{Job, Operation, Scenario, Stage, Unit};

use super::candidates::{Subject, USED};
use super::demand::{Demands, Uses, rates};
use super::lever::{Kind, Lever};
use super::relax::relaxed;

/// Minimum ratio of a need to the capacity at which the need is reported: the run shows both only approximately.
const SHORT: f64 = 1.02;
/// Ratio of a need to the capacity from which on the text gives no amount: nothing that can be bought meets it.
const FAR: f64 = 100.0;
/// Maximum number of needs in the text.
const MOST: usize = 4;
/// Maximum number of jobs whose parts of a shared resource are in the text.
const MOST_PARTS: usize = 4;

/// Returns the needs in the first epoch, if later epochs find more in caches.
pub(super) fn first_epoch_needs(subject: &Subject, demands: &Demands) -> Vec<Need> {
    demands.first_epoch.as_ref().map_or(Vec::new(), |uses| needs(subject, uses, true))
}

/// Returns the resources that would be too small if jobs never waited for input, the scarcest first: those that this job uses. A
/// shared resource needs the sum of the uses by all jobs; it is left out if one of these uses is not known. `cold` says whether the
/// needs are those of the first epoch, when caches are empty.
pub(super) fn needs(subject: &Subject, uses: &Uses, cold: bool) -> Vec<Need> {
    let Some((own, (wanted, _))) = uses.get(&subject.job).zip(rates(subject)) else {
        return Vec::new();
    };
    let mut needs: Vec<Need> = workers(subject, wanted, cold).into_iter().collect();
    let mut known: Vec<Lever> = Vec::new();
    for resource in &subject.report.resources {
        let lever = subject.of_resource(resource.of).into_iter().next();
        let (Some(lever), Some(own)) = (lever, own.get(&resource.of)) else { continue };
        let Some(by_job) = by_job(subject, uses, resource.of) else { continue };
        let needed = by_job.iter().map(|of| of.needed).sum::<f64>().max(*own);
        let name = lever.words(subject.scenario);
        // A fault leaves a part of the capacity that the scenario sets.
        let left = subject.left(resource);
        let needed = needed / left;
        if needed >= SHORT * resource.capacity && !known.contains(&lever) {
            known.push(lever);
            let by_job = by_job.into_iter().map(|of| JobNeed { needed: of.needed / left, ..of });
            let by_job = by_job.collect();
            let (resource, unit) = (resource.clone(), resource.unit.clone());
            let (resource, capacity) = (resource.name, resource.capacity);
            needs.push(Need { name, resource, unit, capacity, needed, by_job });
        }
    }
    needs.sort_by(|a, b| (b.needed / b.capacity).total_cmp(&(a.needed / a.capacity)));
    needs
}

/// Returns the parts of the jobs that share a resource, the largest first; empty if the job does not share it, and `None` if the
/// part of one of them is not known.
fn by_job(subject: &Subject, uses: &Uses, resource: Resource) -> Option<Vec<JobNeed>> {
    let jobs = &subject.scenario.jobs;
    if jobs.len() == 1 || resource.is_in_nodes(subject.scenario) {
        return Some(Vec::new());
    }
    let part = |(index, job): (usize, &Job)| {
        let needed = *uses.get(&index)?.get(&resource)?;
        Some(JobNeed { job: job.name.clone(), needed })
    };
    let mut all: Vec<JobNeed> = jobs.iter().enumerate().map(part).collect::<Option<_>>()?;
    all.retain(|of| of.needed > 0.0);
    all.sort_by(|a, b| b.needed.total_cmp(&a.needed));
    Some(if all.len() > 1 { all } else { Vec::new() })
}

/// Returns the number of loader workers that put `wanted` samples/s into the queue, if the job has too few. While no resource is
/// full, more workers need the same time for each sample as now. If one is, a sample is counted with its time on idle resources,
/// as they are once all needs are met.
fn workers(subject: &Subject, wanted: f64, cold: bool) -> Option<Need> {
    let (scenario, job) = (subject.scenario, &subject.scenario.jobs[subject.job]);
    let stage = job.loader.stages.first()?;
    let idle =
        subject.report.resources.iter().all(|resource| subject.used_of_left(resource) < USED);
    let rate = match idle && !cold {
        true => subject.shown().queue.unblocked_enqueue_rate.mean?,
        false => {
            let all = f64::from(stage.workers) * f64::from(job.loaders());
            all / idle_seconds(scenario, job, (stage, wanted), share_read(subject, cold))
        }
    };
    let growth = wanted / rate;
    let lever = Lever { kind: Kind::Workers, at: subject.job };
    let workers = f64::from(stage.workers);
    // Without workers, the trainer makes its own batches in one more thread.
    let alone = job.loader.requests.as_ref().is_some_and(|requests| requests.ahead == 0);
    let now = if alone { 0.0 } else { workers };
    (growth.is_finite() && growth >= SHORT && relaxed(scenario, lever).is_some()).then(|| Need {
        name: lever.words(scenario),
        resource: lever.resource(scenario),
        unit: String::new(),
        capacity: now,
        needed: (workers * growth).ceil(),
        by_job: Vec::new(),
    })
}

/// Returns the mean time that a worker of the first stage needs for a sample if nothing else uses the storage and the cores [s],
/// and if the storage has the bandwidth for `wanted` samples/s. It reads the share `read` of the samples from the storage.
fn idle_seconds(
    scenario: &Scenario,
    job: &Job,
    (stage, wanted): (&Stage, f64),
    share_read: f64,
) -> f64 {
    let dataset = &scenario.datasets[job.dataset];
    let path = scenario.storage[job.reads_from()].reads();
    let needed = wanted * f64::from(job.copies) * dataset.mean_read();
    let links = path.most_of_one(dataset.mean_request()).min(scenario.cluster.nic);
    let link = links.min(path.bandwidth.most().max(needed));
    let read = dataset.latencies_per_sample() * path.latency.mean() + dataset.mean_read() / link;
    let time = |operation: &Operation| match operation {
        Operation::Read => share_read * read + operation.mean_core_seconds(dataset),
        Operation::Delay(delay) => delay.mean(),
        other => other.mean_core_seconds(dataset),
    };
    let in_item = if stage.unit == Unit::Batch { job.batch as f64 } else { 1.0 };
    let items: f64 = stage.per_item.iter().map(time).sum();
    stage.per_sample.iter().map(time).sum::<f64>() + items / in_item
}

/// Returns the share of the samples that workers read from the storage. If caches are empty (`cold`), workers read all samples;
/// otherwise, they read those that caches missed in the last epoch.
fn share_read(subject: &Subject, cold: bool) -> f64 {
    let missed = subject.shown().cache_miss_share.last().copied().unwrap_or(1.0);
    if cold { 1.0 } else { missed }
}

/// Returns a sentence on the largest needs of a job, and on those in its first epoch if these are others; `None` if every resource
/// is large enough, or nothing is known.
pub(super) fn sentence(
    subject: &Subject,
    lasting: &[Need],
    first_epoch: &[Need],
) -> Option<String> {
    let job = &subject.shown().name;
    let all = |needs: &[Need]| {
        let all: Vec<String> = needs.iter().take(MOST).map(need).collect();
        (!all.is_empty()).then(|| all.join("; "))
    };
    let begins = format!("For input to keep up on average, `{job}` needs at least");
    match (all(first_epoch), all(lasting)) {
        (None, None) => None,
        (None, Some(lasting)) => Some(format!("{begins}: {lasting}.")),
        (Some(first), None) => Some(format!("{begins}, while caches are empty: {first}.")),
        (Some(first), Some(lasting)) => {
            Some(format!("{begins}, while caches are empty: {first}. In later epochs: {lasting}."))
        }
    }
}

/// Writes a need: `cores 4 (now 2)`; with its parts, if several jobs share the resource.
fn need(of: &Need) -> String {
    let write = |value: f64| amount(value, &of.unit);
    if of.needed > FAR * of.capacity && of.capacity > 0.0 {
        return format!("over {FAR} times the {} (now {})", of.name, write(of.capacity));
    }
    let parts = of.by_job.iter().take(MOST_PARTS);
    let parts: Vec<String> =
        parts.map(|part| format!("`{}` {}", part.job, write(part.needed))).collect();
    let more = of.by_job.len().saturating_sub(MOST_PARTS);
    let more = if more > 0 { format!(" and {more} more jobs") } else { String::new() };
    let shared = match parts.is_empty() {
        true => String::new(),
        false => format!(" for all jobs: {}{more}", parts.join(", ")),
    };
    format!("{} {} (now {}){shared}", of.name, write(of.needed), write(of.capacity))
}

fn amount(value: f64, unit: &str) -> String {
    match unit {
        "B/s" => rate(value, "B"),
        "" => count(value),
        "cores" => value.ceil().to_string(),
        "1/s" => format!("{} /s", count(value)),
        _ => format!("{} {unit}", count(value)),
    }
}
