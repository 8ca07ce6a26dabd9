//! Sentences beside what limits a job: what checkpoints and failures cost, what the first epoch waits for, and copying the data set.

use forebay_report::format::{bytes, seconds, share};
use forebay_report::{Cause, JobFigures, JobReport, RecoveryReport, Report, StallCause, Verdict};
use forebay_scenario::Scenario;

use super::numbers::{FEWEST_FAILURES, MENTIONED, NOTED, TOGETHER};

/// Returns the sentences on a job of a report that has this verdict.
pub(crate) fn all(
    scenario: &Scenario,
    report: &Report,
    job: usize,
    verdict: &Verdict,
) -> Vec<String> {
    let shown = &report.jobs[job];
    let all = [
        recovery(scenario, shown, job),
        first_epoch(scenario, shown, job),
        copy_first(scenario, report, job, verdict),
    ];
    all.into_iter().flatten().collect()
}

/// Returns a sentence on what checkpoints and failures cost a job, and on how the interval between checkpoints compares with the
/// best one; `None` if they take hardly any time.
fn recovery(scenario: &Scenario, shown: &JobReport, job: usize) -> Option<String> {
    let stall = |cause| {
        let stall = &shown.figures.stall;
        stall.share(StallCause::own(cause)) + stall.share(StallCause::peer(cause))
    };
    let (name, [writing, failing]) = (&shown.name, [Cause::Checkpoint, Cause::Fault].map(stall));
    let cost = match (writing >= MENTIONED, failing >= MENTIONED) {
        (false, false) => return None,
        (true, false) => format!("Checkpoints cost `{name}` {} of its time", share(writing)),
        (false, true) => format!("Failures cost `{name}` {} of its time", share(failing)),
        (true, true) => format!(
            "Checkpoints cost `{name}` {} of its time, and failures {}",
            share(writing),
            share(failing)
        ),
    };
    let recovery = shown.recovery.as_ref();
    let together = recovery.filter(|_| writing >= MENTIONED);
    let together = together.and_then(|of| together_with_others(scenario, of, job));
    let failures = recovery.and_then(|of| of.failures.mean).unwrap_or(0.0);
    let few = (failing >= MENTIONED && failures < FEWEST_FAILURES)
        .then(|| "fewer than ten failures make no average".to_owned());
    let all = [Some(cost), together, recovery.and_then(interval), few];
    Some(format!("{}.", all.into_iter().flatten().collect::<Vec<_>>().join("; ")))
}

/// Returns a clause on other job copies that write checkpoints at the same time.
fn together_with_others(scenario: &Scenario, of: &RecoveryReport, job: usize) -> Option<String> {
    let storage = scenario.jobs[job].checkpoint.as_ref()?.storage;
    let overlap = of.checkpoint_overlap.mean.filter(|overlap| *overlap >= TOGETHER)?;
    Some(format!(
        "other job copies write theirs to `{}` in {} of the time of writing",
        scenario.storage[storage].name,
        share(overlap),
    ))
}

/// Returns a clause on the interval between checkpoints and the best one; `None` if nothing is known of the best.
fn interval(of: &RecoveryReport) -> Option<String> {
    let (now, best) = (of.interval?, of.best_interval.as_ref());
    let Some(best) = best else { return of.no_best_interval.clone() };
    let costs = of.interval_cost.zip(of.best_cost);
    Some(match costs.map(|(now, best)| [share(now), share(best)]) {
        Some([cost, least]) if cost != least => format!(
            "by Daly's formula an interval of {} costs {cost}, and the best one, {}, {least}",
            seconds(now),
            seconds(*best)
        ),
        _ => format!(
            "its interval of {} is about as good as the best by Daly's formula, {}",
            seconds(now),
            seconds(*best)
        ),
    })
}

/// Returns a sentence on what a job waits for in its first epoch, if that is not what it waits for in later ones.
fn first_epoch(scenario: &Scenario, shown: &JobReport, job: usize) -> Option<String> {
    let models = f64::from(scenario.jobs[job].models());
    let largest = |of: &JobFigures| of.stall.largest(models).filter(|(_, part)| *part >= NOTED);
    let (first, later) = (shown.first_epoch.as_ref()?, shown.later_epochs.as_ref()?);
    let (cause, part) = largest(first)?;
    let other = largest(later).is_none_or(|(later, _)| later.cause != cause.cause);
    other.then(|| {
        format!(
            "In the first epoch `{}` waits {} of the time, most of it for `{cause}` ({}).",
            shown.name,
            share(first.stall.total.mean.unwrap_or(0.0)),
            share(part)
        )
    })
}

/// Returns advice to copy the data set into the nodes before training; `None` unless the first limit is that of a storage outside
/// the nodes which every epoch reads again.
fn copy_first(
    scenario: &Scenario,
    report: &Report,
    job: usize,
    verdict: &Verdict,
) -> Option<String> {
    let described = &scenario.jobs[job];
    let (storage, dataset) =
        (&scenario.storage[described.storage], &scenario.datasets[described.dataset]);
    let first = verdict.limits.first()?;
    let resource = report.resources.iter().find(|of| of.name == first.resource)?;
    let limited = resource.of.owner == forebay_report::Owner::Storage(described.storage);
    let size = dataset.samples as f64 * dataset.mean_size();
    let node = &scenario.cluster.node;
    let caches = node.page_cache.as_ref().filter(|_| scenario.keeps_pages(described, node));
    let kept = storage.cache.is_some() || caches.is_some_and(|cache| cache.capacity >= size);
    let again = limited && storage.reads().is_remote() && described.staging.is_none() && !kept;
    let part = match described.nodes {
        1 => String::new(),
        nodes => format!(", or {} as parts (`share = \"part\"`)", bytes(size / f64::from(nodes))),
    };
    again.then(|| {
        format!(
            "Not tried: copying the data set to storage in each node before training (`job.copy`), which takes {} there{part}.",
            bytes(size)
        )
    })
}
