//! What of a live run is real and what emulated, one sentence each.

use super::check::reads_files;
use super::run::Place;
use crate::scenario::{Access, Device, Job, Operation, Scenario};

/// The notes of a scenario whose jobs read at `places`.
pub(super) fn of(scenario: &Scenario, places: &[Option<Place>]) -> Vec<String> {
    let mut notes = Vec::new();
    for (job, place) in scenario.jobs.iter().zip(places) {
        for note in [device(job), data(scenario, job, place.as_ref()), decoding(scenario, job)] {
            notes.extend(note);
        }
        if job.copies_to_devices() && scenario.cluster.node.pcie.is_finite() {
            notes.push(format!("`{}` copies over an emulated link: it sleeps.", job.name));
        }
    }
    if scenario.cluster.node.page_cache.is_some() {
        notes
            .push("The page cache is this machine's own, whatever the scenario says of it.".into());
    }
    notes.push(
        "Request latency cannot be told from transfer here and counts as transfer.".to_owned(),
    );
    notes
}

fn device(job: &Job) -> Option<String> {
    let name = &job.name;
    Some(match (job.device, job.catalogue) {
        (Device::Cpu { threads }, Some(model)) => {
            format!("`{name}` really trains {} on {threads} threads.", model.name())
        }
        _ => format!("The accelerators of `{name}` are emulated: a step sleeps for its time."),
    })
}

fn data(scenario: &Scenario, job: &Job, place: Option<&Place>) -> Option<String> {
    let (name, dataset) = (&job.name, &scenario.datasets[job.dataset].name);
    let Some(place) = place.filter(|_| reads_files(scenario, job)) else {
        return Some(format!("`{name}` copies the samples of `{dataset}` out of memory."));
    };
    let how = match place.location.access {
        Access::Direct => "past the page cache",
        Access::Cold => "dropped from the page cache before",
        Access::Warm => "in the page cache from the start",
    };
    let what = if place.location.users { "the user's files" } else { "generated files" };
    Some(format!("`{name}` reads {what} of `{dataset}`, {how}."))
}

fn decoding(scenario: &Scenario, job: &Job) -> Option<String> {
    let name = &job.name;
    let mut work = job.loader.stages.iter().flat_map(|s| s.per_sample.iter().chain(&s.per_item));
    let decodes = work.clone().any(|operation| matches!(operation, Operation::Decode(_)));
    if decodes && scenario.datasets[job.dataset].image.is_some() {
        return Some(format!("`{name}` really decodes its images."));
    }
    work.any(|operation| matches!(operation, Operation::Decode(_) | Operation::Compute(_)))
        .then(|| format!("The computing of `{name}`'s loader keeps cores busy for its time."))
}
