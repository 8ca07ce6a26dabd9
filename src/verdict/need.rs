//! How much of each resource a job needs to never wait for input.

use crate::report::Need;
use crate::report::format::{count, rate};

use super::candidates::{Subject, USED};
use super::lever::{Kind, Lever};
use super::relax::relaxed;

/// Minimum ratio of a need to the capacity at which the need is reported: the run shows both only approximately.
const SHORT: f64 = 1.05;
/// Maximum number of needs in the text.
const MOST: usize = 3;

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
/// full, more workers need the same time for each sample. Otherwise they wait for the resource, and nothing is returned.
fn workers(subject: &Subject, wanted: f64) -> Option<Need> {
    let resources = &subject.report.resources;
    if resources
        .iter()
        .any(|resource| resource.utilisation_max.mean.is_some_and(|used| used >= USED))
    {
        return None;
    }
    let growth = wanted / subject.shown().queue.unblocked_enqueue_rate.mean?;
    let lever = Lever { kind: Kind::Workers, at: subject.job };
    let now = f64::from(subject.scenario.jobs[subject.job].loader.stages.first()?.workers);
    (growth.is_finite() && growth >= SHORT && relaxed(subject.scenario, lever).is_some()).then(
        || Need {
            name: lever.words(subject.scenario),
            resource: lever.resource(subject.scenario),
            unit: String::new(),
            capacity: now,
            needed: (now * growth).ceil(),
        },
    )
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
