//! Notes on what was real and what was emulated in a live run, one sentence each.

use super::check::reads_files;
use super::gpu;
use super::pace::Limits;
use super::store::StoredDataset;
use super::task::CopyOutcome;
use forebay_scenario::{Access, Device, Job, Operation, Scenario, Storage};

/// Minimum ratio of excess time to allowed time of reads for a warning that the machine was too slow.
const EXCEEDED: f64 = 0.03;

/// Returns the notes on a scenario whose jobs read at `places`, and whose job copies had the outcomes `parts`.
pub(super) fn notes(
    scenario: &Scenario,
    places: &[Option<StoredDataset>],
    parts: &[CopyOutcome],
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut folded = false;
    for (job, place) in scenario.jobs.iter().zip(places) {
        let data = data(scenario, job, place.as_ref());
        for note in [device(job), launch(job), data, decoding(scenario, job), cut(scenario, job)] {
            notes.extend(note);
        }
        if job.gpu.is_none() && job.copies_to_devices() && scenario.cluster.node.pcie.is_finite() {
            notes.push(format!(
                "`{}` copies over an emulated link: a copy sleeps for its time.",
                job.name
            ));
        }
        folded |= paced(scenario, job, place.as_ref()).is_none_or(|l| !l.tells_latency());
    }
    for index in 0..scenario.storage.len() {
        notes.extend(storage(scenario, index, places));
        notes.extend(exceeded(scenario, index, parts));
    }
    if folded {
        notes.push(
            "Where the scenario does not write the request latency, it cannot be measured apart from transfer and counts as \
             transfer."
                .to_owned(),
        );
    }
    if scenario.cluster.node.page_cache.is_some() {
        let what =
            "The page cache is this machine's own: the scenario's settings of it have no effect.";
        notes.push(what.to_owned());
    }
    notes.extend(power(scenario));
    notes
}

/// Returns the note that power is not measured, if the scenario sets the power of nodes.
fn power(scenario: &Scenario) -> Option<String> {
    let cluster = &scenario.cluster;
    let kinds = [&cluster.node].into_iter().chain(cluster.groups.iter().map(|group| &group.node));
    kinds.into_iter().any(|node| node.power.is_some()).then(|| {
        "`cluster.node.power` has no effect here: the power of this machine is not measured."
            .to_owned()
    })
}

/// Returns the limits that are enforced on the storage of a job that reads at `place`; `None` if there are none.
pub(super) fn paced(
    scenario: &Scenario,
    job: &Job,
    place: Option<&StoredDataset>,
) -> Option<Limits> {
    let mounted = place.is_some_and(|place| place.location.mounted);
    Limits::for_storage(scenario, job.storage).filter(|_| !mounted)
}

/// Returns the note on the limits that were enforced on a storage.
fn storage(scenario: &Scenario, index: usize, places: &[Option<StoredDataset>]) -> Option<String> {
    let mut users = scenario.jobs.iter().zip(places).filter(|(job, _)| job.storage == index);
    let (job, place) = users.next()?;
    let Storage { name, path, .. } = &scenario.storage[index];
    let mounted = place.as_ref().is_some_and(|place| place.location.mounted);
    if mounted {
        return Some(format!(
            "`{name}` is the file server behind the named directory: its own limits hold, not those \
             of the scenario."
        ));
    }
    let limits = paced(scenario, job, place.as_ref())?;
    let what = match path.is_remote() {
        true => "is emulated: reads of local files are held",
        false => "was paced: reads are held",
    };
    Some(format!("`{name}` {what} to the scenario's limits, {}.", limits.describe()))
}

/// Returns a warning if the machine was slower than the limits that the scenario sets.
fn exceeded(scenario: &Scenario, index: usize, parts: &[CopyOutcome]) -> Option<String> {
    let of = parts.iter().filter(|part| scenario.jobs[part.job.job].storage == index);
    let (allowed, exceeded) =
        of.fold((0.0, 0.0), |(a, e), part| (a + part.allowed, e + part.exceeded));
    (exceeded > EXCEEDED * allowed).then(|| {
        format!(
            "Warning: this machine is slower than the scenario's limits for `{}`: reads took {:.0} % longer. Write lower \
             limits, or use a faster machine.",
            scenario.storage[index].name,
            100.0 * exceeded / allowed
        )
    })
}

fn device(job: &Job) -> Option<String> {
    let name = &job.name;
    if let (Some(gpu), Some(model)) = (job.gpu, job.catalogue) {
        let (model, precision, ahead) = (model.name(), gpu.precision.name(), gpu.ahead);
        return Some(format!(
            "`{name}` really trains {model} in {precision} on GPUs from number {} on, learners on each: {}, which begin each \
             step together, with {ahead} steps queued ahead; stalls are measured by the GPU's clock.",
            gpu.number, job.learners.most
        ));
    }
    Some(match (job.device, job.catalogue) {
        (Device::Cpu { threads }, Some(model)) => {
            format!("`{name}` really trains {} on {threads} threads.", model.name())
        }
        _ => format!("The accelerators of `{name}` are emulated: a step sleeps for its time."),
    })
}

/// Returns a warning if only a part of the decoded images is copied to a real GPU, because the scenario gives them a smaller size.
pub(super) fn cut(scenario: &Scenario, job: &Job) -> Option<String> {
    let dataset = &scenario.datasets[job.dataset];
    let decoded = job.gpu.and(gpu::decoded_size(job, dataset))?;
    let copied = dataset.decoded_size.unwrap_or_else(|| dataset.mean_size());
    (copied < decoded).then(|| {
        format!(
            "Warning: `{}` copies {copied:.0} B per image to the GPU, and a decoded image has {decoded:.0} B: only the \
             beginning of each batch is copied. Write `dataset.{}.decoded_size = \"{decoded:.0} B\"` to copy all of it.",
            job.name, dataset.name
        )
    })
}

fn launch(job: &Job) -> Option<String> {
    job.launch.as_ref()?;
    Some(format!("The trainers' own work of `{}` keeps cores busy for its time.", job.name))
}

fn data(scenario: &Scenario, job: &Job, place: Option<&StoredDataset>) -> Option<String> {
    let (name, dataset) = (&job.name, &scenario.datasets[job.dataset].name);
    if !job.reads_data() {
        return Some(format!("`{name}` trains on synthetic data."));
    }
    let Some(place) = place.filter(|_| reads_files(scenario, job)) else {
        return Some(format!("`{name}` copies the samples of `{dataset}` out of memory."));
    };
    let how = match place.location.access {
        Access::Direct => "past the page cache",
        Access::Cold => "dropped from the page cache before",
        Access::Warm | Access::Emulated => "in the page cache from the start",
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
