//! Warnings: what the reader should know before trusting the figures.

use super::format::{prefixed, seconds};
use super::known::failures_out_of_reach;
use super::measured::{Measured, TOLERATED};
use super::periods::kept_share;
use super::sample::Nature;
use super::summary::measured;
use super::{JobOutcome, Outcome, Part, RecoveryOutcome, Resource, World};
use forebay_scenario::{
    Arrivals, Background, BackgroundLoad, Checkpoint, Distribution, Every, FailureTimes, Job,
    Operation, SampleSizes, Scenario, ServerPlace, Servers, Stop, Unit, Writers,
};

/// Minimum number of steps after the warm-up for figures to count as reliable.
pub(super) const FEWEST_STEPS: usize = 20;

/// Returns the remarks on a scenario that can be made without running it, one sentence each.
#[must_use]
pub fn of_scenario(scenario: &Scenario) -> Vec<String> {
    let mut found = scenario.remarks.clone();
    found.extend(lockstep(scenario));
    found.extend(failures_out_of_reach(scenario));
    found
}

/// Returns a warning if several workers do the same work at the same times because nothing in the scenario is random.
#[must_use]
pub fn lockstep(scenario: &Scenario) -> Option<String> {
    (workers(scenario) > 1 && draws_nothing(scenario)).then(|| {
        "Nothing in this scenario varies, so workers may run in lockstep, which real ones never do: give the latency or the decoding \
         a distribution."
            .to_owned()
    })
}

/// Returns the warnings about a run's figures, one sentence each.
pub(super) fn warnings(scenario: &Scenario, outcomes: &[Outcome]) -> Vec<String> {
    let live = outcomes.iter().any(|outcome| outcome.world == World::Live);
    // Remarks on the model do not apply to a live run on a machine.
    let mut found = if live { Vec::new() } else { of_scenario(scenario) };
    for (place, distribution) in distributions(scenario) {
        if has_infinite_mean(distribution) {
            found.push(format!(
                "The {place} has an infinite mean (Pareto with a shape of 1 or less): averages \
                 depend on the length of the run."
            ));
        }
    }
    if scenario.cluster.node.pcie.is_finite() && !scenario.jobs.iter().any(uses_pcie) {
        found.push(
            "`cluster.node.pcie` has no effect, because no loader copies to the device and no gradients go through the host: \
             write a loader stage with the work \"copy\", or remove `pcie`."
                .to_owned(),
        );
    }
    found.extend(run_warnings(scenario, outcomes));
    found
}

/// Returns warnings, one sentence each, where a longer run would show other figures.
#[must_use]
pub fn run_warnings(scenario: &Scenario, outcomes: &[Outcome]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, job) in scenario.jobs.iter().enumerate() {
        let copies: Vec<_> = measured(scenario, outcomes, index).into_iter().flatten().collect();
        found.extend(
            length_warning(job, &copies)
                .map(|sentence| unfinished_copy(job, outcomes, index).unwrap_or(sentence)),
        );
        found.extend(unwritten_checkpoint(job, outcomes, index));
        found.extend(backlog(scenario, outcomes, index));
    }
    found.extend(early_end(scenario, outcomes));
    found.extend((0..scenario.storage.len()).flat_map(|index| bursts(scenario, outcomes, index)));
    found
}

/// Smallest share of the bytes that come from what a token bucket held at the start at which a run shows something else than the long
/// run: as large as the smallest change of a step time that the verdict tells.
const DRAWN: f64 = 0.01;

/// Returns warnings if a storage gave more than it gives in the long run, because its token buckets held bytes or operations at the start.
fn bursts(scenario: &Scenario, outcomes: &[Outcome], index: usize) -> Vec<String> {
    let path = &scenario.storage[index].path;
    let bytes = path.burst.and_then(|burst| {
        let what = format!(
            "token bucket of `{}` ({})",
            scenario.storage[index].name,
            prefixed(burst.bucket, "B")
        );
        let rates = [burst.bandwidth, path.bandwidth.most()].map(|rate| prefixed(rate, "B/s"));
        burst_warning(scenario, outcomes, (index, Part::Bandwidth), (what, rates))
    });
    let operations = path.operation_burst.and_then(|burst| {
        let name = &scenario.storage[index].name;
        let what = format!("token bucket of `{name}` ({})", prefixed(burst.bucket, "operations"));
        let rates = [burst.fast, burst.sustained].map(|rate| match rate.is_finite() {
            true => prefixed(rate, "/s"),
            false => "any number".to_owned(),
        });
        burst_warning(scenario, outcomes, (index, Part::Operations), (what, rates))
    });
    bytes.into_iter().chain(operations).collect()
}

/// Returns a warning if part of a storage, whose bucket is `what` and which gives the first of `rates` while it holds something and the
/// other one in the long run, lived on the bucket.
fn burst_warning(
    scenario: &Scenario,
    outcomes: &[Outcome],
    (index, part): (usize, Part),
    (what, [fast, sustained]): (String, [String; 2]),
) -> Option<String> {
    let of = Resource::storage(index, part);
    let drawn = outcomes.iter().filter_map(|outcome| {
        let is_live = outcome.world == World::Live;
        let resource = outcome.resources.iter().find(|resource| resource.of == of)?;
        let found = resource.burst?;
        let share = found.drawn / resource.served;
        (share > DRAWN).then_some((share, found, outcome.makespan, is_live))
    });
    let (share, found, makespan, is_live) = drawn.max_by(|(a, ..), (b, ..)| a.total_cmp(b))?;
    let run = seconds(makespan);
    let lasted = match found.emptied {
        // Nobody sees the bucket of a real storage run dry.
        None if is_live => format!("gave {:.0} % of what this run of {run} read", 100.0 * share),
        Some(end) if end < makespan => format!("was empty after {} of {run}", seconds(end)),
        _ => format!("lasted for the whole run ({run})"),
    };
    let (name, kind) = (&scenario.storage[index].name, scenario.storage[index].kind);
    Some(format!(
        "The {what} {lasted}: it gives up to {fast} until then, and {sustained} in the long run, which \
         `--set storage.{name}.{kind}.burst.level=0` shows."
    ))
}

/// Returns a warning if no copy of a job wrote a checkpoint, although the job writes some.
fn unwritten_checkpoint(job: &Job, outcomes: &[Outcome], index: usize) -> Option<String> {
    let due = match job.checkpoint.as_ref()?.every {
        Every::Seconds(interval) => seconds(interval),
        Every::Steps(steps) => format!("{steps} steps"),
    };
    let copies = outcomes.iter().flat_map(|outcome| &outcome.jobs).filter(|copy| copy.job == index);
    let mut written = copies.filter(|copy| !copy.steps.is_empty()).filter_map(|copy| copy.recovery);
    let first = written.next()?;
    let begins_none = |of: RecoveryOutcome| of.checkpoints + of.unwritten == 0;
    let none = begins_none(first) && written.all(begins_none);
    none.then(|| {
        format!(
            "`{}` wrote no checkpoint, since the run ended before {due} of training: the figures have no cost of checkpoints. \
             Write a longer run, or a shorter interval.",
            job.name
        )
    })
}

/// The number of checkpoints that are not yet written grows without bound if it is larger by this number, and by half, when the
/// last checkpoint begins than when half of them have begun.
const GROWTH: u64 = 3;

/// Returns warnings if a job begins checkpoints faster than they are written, or if their states do not fit into a node's memory.
fn backlog(scenario: &Scenario, outcomes: &[Outcome], index: usize) -> Vec<String> {
    let job = &scenario.jobs[index];
    let copies = outcomes.iter().flat_map(|outcome| &outcome.jobs).filter(|copy| copy.job == index);
    let all: Vec<RecoveryOutcome> = copies.filter_map(|copy| copy.recovery).collect();
    let grows = |of: &&RecoveryOutcome| {
        let [half, end] = [of.backlog_half_way, of.backlog_at_end];
        end >= half + GROWTH && 2 * end >= 3 * half
    };
    let mut found = Vec::new();
    if let Some(of) = all.iter().filter(grows).max_by_key(|of| of.backlog_at_end) {
        found.push(format!(
            "`{}` begins checkpoints faster than they are written, so that the backlog keeps growing ({} at the last checkpoint): \
             write a longer interval, `when_busy = \"wait\"`, or a faster storage for checkpoints.",
            job.name, of.backlog_at_end
        ));
    }
    found.extend(states_beyond_memory(scenario, outcomes, index));
    found
}

/// Returns a warning if the states of a job's pending checkpoints take more memory than one of its nodes has left.
fn states_beyond_memory(scenario: &Scenario, outcomes: &[Outcome], index: usize) -> Option<String> {
    let (job, cluster) = (&scenario.jobs[index], &scenario.cluster);
    let checkpoint = job.checkpoint.as_ref()?;
    let states = job.bytes_written_by_node(checkpoint);
    let (begin, taken) = (scenario.nodes_of(index).start, scenario.memory_taken(job));
    let left = |node: u32| cluster.node_at(node).memory - taken;
    let copies = outcomes.iter().flat_map(|outcome| &outcome.jobs).filter(|copy| copy.job == index);
    let held = copies.flat_map(|copy| {
        let pending = copy.recovery.map_or(0, |of| of.backlog) as f64;
        let first = if cluster.share_nodes { begin } else { begin + copy.copy * job.nodes };
        (first..).zip(&states).map(move |(node, state)| (node, *state, pending * state))
    });
    let beyond = held.filter(|(node, _, all)| *all > 0.0 && *all > left(*node));
    let (node, state, all) =
        beyond.max_by(|a, b| (a.2 - left(a.0)).total_cmp(&(b.2 - left(b.0))))?;
    let most = |states: &[f64]| states.iter().copied().fold(0.0, f64::max);
    let each = Checkpoint { writers: Writers::Each, ..checkpoint.clone() };
    let spreads = || most(&job.bytes_written_by_node(&each)) < most(&states);
    // Whoever waits for the checkpoint before keeps one state only.
    let remedy = match state > left(node) {
        true if spreads() => "One of them alone is too large. Write `writers = \"each\"`, or more",
        true => "One of them alone is too large. Write more",
        false => "Write a longer interval, `when_busy = \"wait\"`, or more",
    };
    let group = cluster.group_of(node).map_or(String::new(), |of| format!("group.{}.", of.name));
    let place = match cluster.groups.is_empty() {
        true => "a node".to_owned(),
        false => format!("node {node}"),
    };
    Some(format!(
        "The states that `{}` keeps in the memory of a node until their checkpoints are written take up to {}, and {place} has {}: a \
         real job would be killed. {remedy} `cluster.{group}node.memory`.",
        job.name,
        prefixed(all, "B"),
        prefixed(cluster.node_at(node).memory, "B")
    ))
}

/// Returns a warning if a job's data set was still being copied to the nodes when the run ended.
fn unfinished_copy(job: &Job, outcomes: &[Outcome], index: usize) -> Option<String> {
    job.staging.as_ref()?;
    let copies = outcomes.iter().flat_map(|outcome| &outcome.jobs).filter(|copy| copy.job == index);
    let mut waiting = copies.filter(|copy| copy.steps.is_empty());
    waiting.next().map(|_| {
        format!(
            "The data set of `{}` was still being copied to the nodes (`copy`) when the run ended: write a longer run.",
            job.name
        )
    })
}

/// A job that ends before this share of the longest job's time leaves the others without competition for long.
const EARLY: f64 = 0.8;

/// Returns a warning if a run of a number of steps went on for long after some job had ended. Only jobs that read from one shared
/// storage, or run on the same nodes, compete.
fn early_end(scenario: &Scenario, outcomes: &[Outcome]) -> Option<String> {
    let by_steps = matches!(scenario.run.stop, Stop::Steps(_) | Stop::Epochs(_));
    let together = scenario.jobs.iter().all(|job| job.after.is_empty() && job.stop.is_none());
    let server = scenario.jobs.first()?.reads_from();
    let one_server = scenario.storage[server].path.is_remote()
        && scenario.jobs.iter().all(|job| job.reads_from() == server);
    if !by_steps || !together || !(one_server || scenario.cluster.share_nodes) {
        return None;
    }
    let end = |index: usize| {
        let copies = outcomes.iter().flat_map(|outcome| &outcome.jobs);
        let ends = copies.filter(|copy| copy.job == index).filter_map(|copy| copy.steps.last());
        ends.map(|step| step.end).fold(0.0, f64::max)
    };
    let mut ends: Vec<(f64, &str)> =
        scenario.jobs.iter().enumerate().map(|(index, job)| (end(index), &*job.name)).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((first, early), (last, late)) = (*ends.first()?, *ends.last()?);
    (first > 0.0 && first < EARLY * last).then(|| {
        format!(
            "`{early}` ended at {}, and `{late}` went on without it until {}: to measure both jobs together, write \
             `run.duration` in place of `steps` or `epochs`.",
            seconds(first),
            seconds(last)
        )
    })
}

/// Returns a warning if some copy of a job has too few steps after the warm-up.
fn length_warning(job: &Job, copies: &[(&JobOutcome, Measured)]) -> Option<String> {
    let name = &job.name;
    match copies.iter().map(|(_, measured)| measured.steps.len()).min() {
        None | Some(0) => Some(format!(
            "No step of `{name}` is left after the warm-up: run longer, or write a shorter `run.warm_up`."
        )),
        Some(steps) if steps < FEWEST_STEPS => Some(format!(
            "Only {steps} steps of `{name}` are left after the warm-up: its figures are rough."
        )),
        Some(_) => None,
    }
}

/// Whether samples or gradients of a job move over PCIe.
fn uses_pcie(job: &Job) -> bool {
    let staged = job.sync.as_ref().is_some_and(|sync| sync.transport.via_host);
    let beside = |servers: &Servers| servers.place == ServerPlace::WithWorkers;
    let served = job.servers().is_some_and(|servers| staged || beside(servers));
    job.copies_to_devices() || served || staged && job.ranks() > 1 || job.swapped() > 0.0
}

fn workers(scenario: &Scenario) -> u64 {
    scenario
        .jobs
        .iter()
        .flat_map(|job| job.loader.stages.iter().map(move |stage| (job, stage)))
        .filter(|(_, stage)| !stage.per_sample.is_empty() || !stage.per_item.is_empty())
        .map(|(job, stage)| {
            u64::from(job.copies) * u64::from(job.loaders()) * u64::from(stage.workers)
        })
        .sum()
}

/// Returns whether nothing that a scenario describes is drawn at random. Only the order of samples may then differ between replications.
#[must_use]
pub fn draws_nothing(scenario: &Scenario) -> bool {
    let fails = |job: &Job| {
        let times = job.failures.as_ref().map(|failures| &failures.when);
        matches!(times, Some(FailureTimes::Random { .. }))
    };
    let comes = |job: &Job| job.copies > 1 && job.arrivals == Arrivals::Poisson;
    let poisson = |load: &Background| matches!(load.load, BackgroundLoad::Requests { .. });
    let table = |sizes: &SampleSizes| match sizes {
        SampleSizes::Drawn(_) => false,
        SampleSizes::Table { table, .. } => table.iter().any(|size| Some(size) != table.first()),
    };
    distributions(scenario).iter().all(|(_, distribution)| is_constant(distribution))
        && !scenario.background.iter().any(poisson)
        && !scenario.jobs.iter().any(|job| fails(job) || comes(job))
        && !scenario.datasets.iter().any(|dataset| table(&dataset.sizes))
}

/// Returns how the steps of a job vary: whether by chance, and how many samples its workers make in one round.
pub(super) fn nature(scenario: &Scenario, job: &Job) -> Nature {
    let stages = job.loader.stages.iter();
    let whole = stages.filter(|stage| stage.unit == Unit::Batch);
    let workers = whole.map(|stage| u64::from(stage.workers)).max().unwrap_or(0);
    // Which samples a cache still holds is chance if it holds a part of them.
    let kept = (TOLERATED..1.0).contains(&kept_share(scenario, job));
    Nature { chance: kept || varies(scenario, job), round: workers * job.batch }
}

/// Whether a step of a job may be held up by chance: its loader works, and something in the scenario is sampled at random.
fn varies(scenario: &Scenario, job: &Job) -> bool {
    let works = |stage: &forebay_scenario::Stage| {
        !stage.per_sample.is_empty() || !stage.per_item.is_empty()
    };
    let drawn = |(_, distribution): &(String, &Distribution)| !is_constant(distribution);
    let sizes =
        scenario.datasets.iter().any(|dataset| matches!(dataset.sizes, SampleSizes::Table { .. }));
    job.loader.stages.iter().any(works) && (sizes || distributions(scenario).iter().any(drawn))
}

/// Returns every distribution of a scenario, with the name of the quantity that it describes.
fn distributions(scenario: &Scenario) -> Vec<(String, &Distribution)> {
    let mut all = Vec::new();
    for dataset in &scenario.datasets {
        if let SampleSizes::Drawn(sizes) = &dataset.sizes {
            all.push((format!("sample size of `{}`", dataset.name), sizes));
        }
    }
    for storage in &scenario.storage {
        all.push((format!("latency of `{}`", storage.name), &storage.path.latency));
    }
    for job in &scenario.jobs {
        all.extend(job.step.jitter.iter().map(|by| (format!("jitter of `{}`", job.name), by)));
        let launch = job.launch.iter();
        all.extend(launch.map(|of| (format!("launches of `{}`", job.name), &of.work)));
        let stages = job.loader.stages.iter();
        let work = stages.flat_map(|stage| stage.per_sample.iter().chain(&stage.per_item));
        all.extend(work.filter_map(|operation| match operation {
            Operation::Compute(by) => Some((format!("computing of `{}`'s loader", job.name), by)),
            Operation::Delay(by) => Some((format!("delay of `{}`'s loader", job.name), by)),
            Operation::Read
            | Operation::Decode(_)
            | Operation::Copy
            | Operation::CopyStored
            | Operation::Memcpy(_)
            | Operation::Kernel(_) => None,
        }));
    }
    for load in &scenario.background {
        if let BackgroundLoad::Requests { size, .. } = &load.load {
            all.push((format!("request size of `{}`", load.name), size));
        }
    }
    all
}

fn is_constant(distribution: &Distribution) -> bool {
    match *distribution {
        Distribution::Constant(_) => true,
        Distribution::Exponential { mean } => mean == 0.0,
        Distribution::Lognormal { sigma, .. } => sigma == 0.0,
        Distribution::Normal { sd, .. } => sd == 0.0,
        Distribution::Uniform { low, high } => low == high,
        Distribution::Empirical(ref values) => values.windows(2).all(|pair| pair[0] == pair[1]),
        Distribution::Gamma { .. } | Distribution::Pareto { .. } => false,
    }
}

fn has_infinite_mean(distribution: &Distribution) -> bool {
    matches!(*distribution, Distribution::Pareto { shape, .. } if shape <= 1.0)
}
