//! Resources: they served what jobs asked of them.

use super::models;
use forebay::report::{JobOutcome, Outcome, ResourceOutcome};
use forebay::scenario::{Distribution, Job, Layout, Operation, SampleSizes, Scenario, Unit};

fn named<'o>(outcome: &'o Outcome, name: &str) -> Option<&'o ResourceOutcome> {
    outcome.resources.iter().find(|resource| resource.name == name)
}

fn assert_between(what: &str, low: f64, value: f64, high: f64) {
    let slack = 1e-7 * high + 1e-6;
    assert!(low - slack <= value && value <= high + slack, "{what}: {low} ≤ {value} ≤ {high}");
}

/// Checks that the bytes and operations served lie between those of the samples that have reached the queue and
/// those of the samples that were begun.
pub(super) fn audit_resources(name: &str, scenario: &Scenario, outcome: &Outcome) {
    for resource in &outcome.resources {
        let name = format!("{name}: {}", resource.name);
        assert!(resource.utilisation_max <= 1.0 + 1e-9, "{name}: {}", resource.utilisation_max);
        assert!(resource.utilisation <= resource.utilisation_max + 1e-12, "{name}");
        assert!(resource.served >= 0.0 && resource.mean_flows >= 0.0, "{name}");
    }
    for (index, storage) in scenario.storage.iter().enumerate() {
        let saves = |job: &Job| job.checkpoint.as_ref().is_some_and(|of| of.storage == index);
        let loaded = scenario.background.iter().any(|load| load.storage == index);
        if loaded || scenario.jobs.iter().any(saves) {
            continue;
        }
        let copies = || outcome.jobs.iter().filter(|c| scenario.jobs[c.job].storage == index);
        let (bytes, opens) = asked(scenario, copies());
        if let (Some(link), Some((low, high))) =
            (named(outcome, &format!("{}.bandwidth", storage.name)), bytes)
        {
            assert_between(&format!("{name}: bytes of {}", storage.name), low, link.served, high);
        }
        if let Some(station) = named(outcome, &format!("{}.operations", storage.name)) {
            let what = format!("{name}: operations of {}", storage.name);
            assert_between(&what, opens.0, station.served, opens.1);
        }
    }
    let remote = |job: &Job| scenario.storage[job.storage].path.is_remote();
    let copies = outcome.jobs.iter().filter(|c| remote(&scenario.jobs[c.job]));
    if let (Some(nic), Some((low, high))) = (named(outcome, "node.nic"), asked(scenario, copies).0)
    {
        // Traffic between GPUs may use the NICs too.
        let sent = outcome.jobs.iter().filter_map(|copy| copy.parallel);
        let sent: f64 = sent.map(|of| of.activations + of.sums + of.gradients).sum();
        assert_between(&format!("{name}: bytes of NICs"), low, nic.served, high + sent);
    }
    audit_cores(name, scenario, outcome);
}

/// Returns the least and most bytes (for constant sizes) and operations of some job copies.
fn asked<'o>(
    scenario: &Scenario,
    copies: impl Iterator<Item = &'o JobOutcome>,
) -> (Option<(f64, f64)>, (f64, f64)) {
    let (mut bytes, mut opens) = (Some((0.0, 0.0)), (0.0, 0.0));
    for copy in copies {
        let job = &scenario.jobs[copy.job];
        let dataset = &scenario.datasets[job.dataset];
        let (least, most) = (copy.samples.enqueued as f64, copy.samples.started as f64);
        // At a failure, readers have read parts of shards or row groups whose samples they had not begun; after it, they begin
        // with the rest of a shard or with a whole row group again.
        let failures = copy.recovery.as_ref().map_or(0, |of| of.failures);
        let readers = f64::from(job.loader.stages[0].workers) * f64::from(job.nodes);
        let readers = readers * (1.0 + 2.0 * failures as f64);
        let all = dataset.samples as f64;
        // The last shard of an epoch may be short: one of all shards of the epoch.
        let opens_of = |samples: u64| {
            let n = samples.min(dataset.samples) as f64;
            let files = (all / n).ceil();
            let whole = if files > 1.0 { 1.0 - 1.0 / files } else { 1.0 };
            (least / n - 1.0, (most / n + readers + 1.0) / whole)
        };
        let (ahead, (least_opens, most_opens)) = match dataset.layout {
            Layout::FilePerSample => (0.0, (least, most)),
            Layout::OneFile { opened, .. } => {
                let epochs = if opened { most / all + 2.0 } else { 0.0 };
                (0.0, (0.0, readers * epochs))
            }
            Layout::Shards { samples_per_shard, request, .. } => {
                (readers * request, opens_of(samples_per_shard))
            }
            Layout::RowGroups(groups) => {
                let group = groups.samples.min(dataset.samples) as f64 * dataset.mean_read();
                (readers * group, opens_of(groups.samples_per_file()))
            }
        };
        opens = (opens.0 + least_opens.max(0.0), opens.1 + most_opens);
        bytes = match (&dataset.sizes, bytes) {
            (SampleSizes::Drawn(Distribution::Constant(_)), Some((low, high))) => {
                let size = dataset.mean_read();
                Some((low + least * size, high + most * size + ahead))
            }
            _ => None,
        };
    }
    (bytes, opens)
}

/// Checks that the core-seconds served are those of the samples, where their work is constant.
fn audit_cores(name: &str, scenario: &Scenario, outcome: &Outcome) {
    let (mut low, mut high) = (0.0, 0.0);
    for copy in &outcome.jobs {
        let job = &scenario.jobs[copy.job];
        if let Some(launch) = &job.launch {
            let Distribution::Constant(work) = launch.work else { return };
            let each = work * f64::from(launch.threads) * models(job) as f64;
            low += each * copy.steps.len() as f64;
            high += each * (copy.steps.len() + 1) as f64;
        }
        let dataset = &scenario.datasets[job.dataset];
        if let Layout::RowGroups(groups) = dataset.layout {
            let SampleSizes::Drawn(Distribution::Constant(_)) = dataset.sizes else { return };
            let failures = copy.recovery.as_ref().map_or(0, |of| of.failures);
            let readers = f64::from(job.loader.stages[0].workers) * f64::from(job.nodes);
            let readers = readers * (1.0 + 2.0 * failures as f64);
            let ahead = readers * groups.samples.min(dataset.samples) as f64;
            low += dataset.unpacking() * copy.samples.enqueued as f64;
            high += dataset.unpacking() * (copy.samples.started as f64 + ahead);
        }
        let threads = job.cpu.inner.map_or(1.0, |inner| 1.0 / inner.efficiency);
        for stage in &job.loader.stages {
            let items = if stage.unit == Unit::Batch { job.batch as f64 } else { 1.0 };
            let lists = [(&stage.per_sample, 1.0, threads), (&stage.per_item, items, 1.0)];
            for (operations, samples, threads) in lists {
                for operation in operations {
                    match operation {
                        Operation::Compute(Distribution::Constant(work)) => {
                            low += work * threads * copy.samples.enqueued as f64 / samples;
                            high += work * threads * copy.samples.started as f64 / samples;
                        }
                        Operation::Compute(_) | Operation::Memcpy(_) => return,
                        _ => {}
                    }
                }
            }
        }
    }
    let Some(cores) = named(outcome, "node.cores") else { panic!("{name}: there are cores") };
    assert_between(&format!("{name}: core-seconds"), low, cores.served, high);
}
