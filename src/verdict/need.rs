//! How much of each resource a job needs to never wait for input.

use crate::report::format::{count, rate};
use crate::report::{Need, ResourceReport};
use crate::scenario::{Job, Operation, Scenario, Stage, Unit};

use super::candidates::{Subject, USED};
use super::lever::{Kind, Lever};
use super::relax::relaxed;

/// Minimum ratio of a need to the capacity at which the need is reported: the run shows both only approximately.
const SHORT: f64 = 1.02;
/// Maximum number of needs in the text.
const MOST: usize = 4;

/// Returns the resources that would be too small if the job never waited for input, the scarcest first.
///
/// A job that never waits takes samples from its queue at the unstalled dequeue rate, and now loaders put them in at the enqueue
/// rate. Each sample loads resources as it does now, so every load grows by the ratio of these rates. That does not hold for
/// resources that other jobs or background loads use too, and not across failures: then nothing is returned.
pub(super) fn needs(subject: &Subject) -> Vec<Need> {
    let (scenario, job) = (subject.scenario, &subject.scenario.jobs[subject.job]);
    let alone = scenario.jobs.len() == 1 && scenario.background.is_empty();
    let queue = &subject.shown().queue;
    let rates = (queue.unstalled_dequeue_rate.mean, queue.enqueue_rate.mean);
    let (true, None, (Some(wanted), Some(now))) = (alone, &job.failures, rates) else {
        return Vec::new();
    };
    let growth = if now > 0.0 { wanted / now } else { return Vec::new() };
    let mut needs: Vec<Need> = workers(subject, wanted).into_iter().collect();
    for resource in &subject.report.resources {
        let levers = subject.of_resource(resource);
        let (Some(lever), Some(used)) = (levers.first(), resource.utilisation.mean) else {
            continue;
        };
        let name = lever.words(scenario);
        if used * growth >= SHORT && needs.iter().all(|need| need.name != name) {
            needs.push(Need {
                name,
                resource: resource.name.clone(),
                unit: resource.unit.clone(),
                capacity: resource.capacity,
                needed: used * growth * resource.capacity,
            });
        }
    }
    needs.sort_by(|a, b| (b.needed / b.capacity).total_cmp(&(a.needed / a.capacity)));
    needs
}

/// Returns the number of loader workers that put `wanted` samples/s into the queue, if the job has too few. While no resource is
/// full, more workers need the same time for each sample as now. If one is, a sample is counted with its time on idle resources,
/// as they are once all needs are met.
fn workers(subject: &Subject, wanted: f64) -> Option<Need> {
    let (scenario, job) = (subject.scenario, &subject.scenario.jobs[subject.job]);
    let stage = job.loader.stages.first()?;
    let used = |resource: &ResourceReport| resource.utilisation_max.mean.unwrap_or(0.0);
    let idle = subject.report.resources.iter().all(|resource| used(resource) < USED);
    let rate = match idle {
        true => subject.shown().queue.unblocked_enqueue_rate.mean?,
        false => {
            let all = f64::from(stage.workers) * f64::from(job.loaders());
            all / idle_seconds(scenario, job, (stage, wanted))
        }
    };
    let growth = wanted / rate;
    let lever = Lever { kind: Kind::Workers, at: subject.job };
    let now = f64::from(stage.workers);
    (growth.is_finite() && growth >= SHORT && relaxed(scenario, lever).is_some()).then(|| Need {
        name: lever.words(scenario),
        resource: lever.resource(scenario),
        unit: String::new(),
        capacity: now,
        needed: (now * growth).ceil(),
    })
}

/// Returns the mean time that a worker of the first stage needs for a sample if nothing else uses the storage and the cores [s],
/// and if the storage has the bandwidth for `wanted` samples/s.
fn idle_seconds(scenario: &Scenario, job: &Job, (stage, wanted): (&Stage, f64)) -> f64 {
    let dataset = &scenario.datasets[job.dataset];
    let path = &scenario.storage[job.reads_from()].path;
    let needed = wanted * f64::from(job.copies) * dataset.mean_read();
    let links = path.most_of_one(dataset.mean_request()).min(scenario.cluster.nic);
    let link = links.min(path.bandwidth.most().max(needed));
    let read = dataset.latencies_per_sample() * path.latency.mean() + dataset.mean_read() / link;
    let time = |operation: &Operation| match operation {
        Operation::Read => read + operation.mean_core_seconds(dataset),
        Operation::Delay(delay) => delay.mean(),
        other => other.mean_core_seconds(dataset),
    };
    let in_item = if stage.unit == Unit::Batch { job.batch as f64 } else { 1.0 };
    let items: f64 = stage.per_item.iter().map(time).sum();
    stage.per_sample.iter().map(time).sum::<f64>() + items / in_item
}

/// Returns a sentence on the largest needs of a job; `None` if every resource is large enough, or nothing is known. In a run of
/// several epochs the needs are averages over all of them, because later epochs read from caches.
pub(super) fn sentence(subject: &Subject, needs: &[Need]) -> Option<String> {
    let job = &subject.shown().name;
    let mean =
        if subject.shown().later_epochs.is_some() { ", averaged over all epochs" } else { "" };
    let each = |need: &Need| {
        format!(
            "{} {} (now {})",
            need.name,
            amount(need.needed, &need.unit),
            amount(need.capacity, &need.unit)
        )
    };
    let all: Vec<String> = needs.iter().take(MOST).map(each).collect();
    (!all.is_empty()).then(|| {
        format!("To never wait for input, `{job}` needs at least{mean}: {}.", all.join("; "))
    })
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
