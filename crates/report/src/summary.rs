//! The report of a scenario's replications.

use super::accuracy::accuracy;
use super::bottleneck::bottleneck;
use super::cost::{Costing, cost, job_cost};
use super::device_memory::device_memory;
use super::energy::energy;
use super::epoch_starts::epoch_starts;
use super::epochs;
use super::figures::{JobReport, Report, ResourceReport, Spread, StalledSteps};
use super::known::{correct_for_others, length};
use super::learners::learners;
use super::locality::local_share;
use super::measured::{Measured, Rule};
use super::parallel::parallel;
use super::queue::{queue, series};
use super::recovery::recovery;
use super::sample::{Sample, Stretch, over_replications};
use super::sampling::{error_or_infinite, sampled};
use super::schedule;
use super::staging::{staging, tier_shares};
use super::sync::sync;
use super::warnings::{nature, warnings};
use super::window::{durations, first_epoch, ratio};
use super::{CacheRequests, JobOutcome, Outcome, ResourceOutcome, World};
use forebay_engine::stats::mean;
use forebay_scenario::{Scenario, Stop};

/// Summarises the replications of a scenario, given in their order, which took `wall_time` [s] to run. Sums are
/// formed in order of index, so that the same outcomes give the same bytes.
pub fn summarise(scenario: &Scenario, outcomes: &[Outcome], wall_time: f64) -> Report {
    let mut jobs: Vec<JobReport> =
        (0..scenario.jobs.len()).map(|job| job_report(scenario, outcomes, job)).collect();
    correct_for_others(scenario, &mut jobs);
    let resources = resources(outcomes);
    let mut warnings = warnings(scenario, outcomes);
    warnings.extend(jobs.iter().filter_map(no_interval));
    let sampled = sampled(outcomes, scenario.jobs.len());
    warnings.extend(sampled.as_ref().and_then(|of| of.warning(&jobs)));
    let makespan = over_replications(&outcomes.iter().map(|o| o.makespan).collect::<Vec<_>>());
    let energy = energy(outcomes);
    let costings = costings(scenario, outcomes, &jobs);
    let cost = cost(scenario, energy.as_ref(), &costings);
    for (index, job) in jobs.iter_mut().enumerate() {
        job.cost = cost.as_ref().map(|cost| job_cost(scenario, cost, &costings, (index, job)));
    }
    Report {
        answer: None,
        command: None,
        scenario: scenario.name.clone(),
        world: world(outcomes),
        seed: scenario.run.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        replications: outcomes.len(),
        sampled,
        bottleneck: bottleneck(scenario, &jobs, &resources),
        verdict: None,
        rests_on: None,
        other_verdicts: Vec::new(),
        jobs,
        resources,
        makespan,
        energy,
        cost,
        events: outcomes.iter().map(|outcome| outcome.events).sum(),
        flows: outcomes.iter().map(|outcome| outcome.flows).sum(),
        repeated_steps: outcomes.iter().find_map(|outcome| outcome.repeated.clone()),
        wall_time,
        notes: scenario
            .notes
            .iter()
            .chain(outcomes.first().into_iter().flat_map(|of| &of.notes))
            .cloned()
            .collect(),
        warnings,
        origins: scenario.origins.clone(),
    }
}

/// Returns what each replication shows of costs; nothing without prices.
fn costings(scenario: &Scenario, outcomes: &[Outcome], jobs: &[JobReport]) -> Vec<Costing> {
    let Some(prices) = &scenario.prices else { return Vec::new() };
    // Only energy costs differently in each replication, by times that differ, too.
    let all_differ = prices.kwh > 0.0 && outcomes.len() > 1;
    let of = |outcome: &Outcome| {
        if !all_differ {
            return Costing::of(prices, outcome, jobs);
        }
        let of_one = (0..scenario.jobs.len())
            .map(|job| job_report(scenario, std::slice::from_ref(outcome), job));
        Costing::of(prices, outcome, &of_one.collect::<Vec<_>>())
    };
    outcomes.iter().map(of).collect()
}

/// Returns a sentence that says why the figures of a job have no interval; `None` if they have one.
fn no_interval(job: &JobReport) -> Option<String> {
    let why = job.length.no_interval.as_ref()?;
    Some(format!("The figures of `{}` have no interval, because {why}.", job.name))
}

fn world(outcomes: &[Outcome]) -> World {
    outcomes.first().map_or(World::Simulated, |outcome| outcome.world)
}

fn job_report(scenario: &Scenario, outcomes: &[Outcome], job: usize) -> JobReport {
    let described = &scenario.jobs[job];
    let dataset = scenario.samples_of_epoch(described);
    let copies: Vec<Vec<&JobOutcome>> = outcomes.iter().map(|o| copies_of(o, job)).collect();
    let measured = measured(scenario, outcomes, job);
    let nature = nature(scenario, described);
    let sampling = error_or_infinite(outcomes, job);
    let stretches = |of: &dyn Fn(&JobOutcome, &Measured) -> (usize, usize)| {
        let mut all: Vec<Vec<Stretch>> = Vec::new();
        for copies in &measured {
            let each = copies.iter().map(|(copy, measured)| (*copy, of(copy, measured)));
            all.push(each.map(|(copy, (from, to))| Stretch::new(copy, from.min(to)..to)).collect());
        }
        Sample::new(&all, nature).of_nodes(sampling)
    };
    let mut whole: Vec<Vec<Stretch>> = Vec::new();
    for copies in &measured {
        whole.push(copies.iter().map(|(copy, of)| Stretch::measured(copy, of)).collect());
    }
    let behind = Sample::new(&whole, nature).of_nodes(sampling);
    let mut length = length(&measured, (described, &Rule::of_job(scenario, job)), &behind);
    let scheduled = schedule::no_interval(scenario, job, &measured);
    let by_chance = scheduled.is_none();
    length.no_interval = length.no_interval.or(scheduled);
    let withheld = length.no_interval.is_some() && !behind.lacks_batches();
    let behind = if withheld { behind.without_intervals() } else { behind };
    let epoch = |copy: &JobOutcome| first_epoch(copy, dataset);
    // Synthetic data are the same in every epoch.
    let goes_on = |copy: &JobOutcome| described.reads_data() && epoch(copy) < copy.steps.len();
    let first = stretches(&|copy, _| (0, if goes_on(copy) { epoch(copy) } else { 0 }));
    let later =
        stretches(&|copy, measured| (epoch(copy).max(measured.steps.start), measured.steps.end));
    let warm_ups: Vec<f64> =
        measured.iter().flatten().map(|(_, measured)| measured.steps.start as f64).collect();
    let start = copies.first().and_then(|copies| copies.first());
    let weakest = scenario.cluster.weakest(scenario.nodes_of(job));
    let figures = behind.figures(dataset);
    let step_time = figures.step_time.mean;
    let trained = epochs::trained(copies.iter().flatten().copied(), dataset);
    // Samples that pad the last batches of ranks do not count as a further epoch.
    let epochs = match scenario.stop_of(described) {
        Stop::Epochs(most) => trained.min(most.ceil() as usize),
        Stop::Steps(_) | Stop::Duration(_) | Stop::Known { .. } => trained,
    };
    JobReport {
        name: described.name.clone(),
        copies: described.copies,
        device: described.device.name(),
        learners: learners(
            (described, &scenario.datasets[described.dataset]),
            &weakest,
            &figures,
            &copies,
        ),
        figures,
        samples_per_second_max: fastest_step(&measured),
        stalled_steps: stalled_steps(&behind).filter(|_| by_chance),
        length,
        step_time_spread: spread(&behind),
        warm_up_steps: mean(&warm_ups).unwrap_or(0.0),
        first_epoch: of_epochs(first, by_chance).map(|of| of.figures(dataset)),
        later_epochs: of_epochs(later, by_chance).map(|of| of.figures(dataset)),
        cache_miss_share: miss_shares(copies.iter().flatten().map(|copy| &copy.cache[..]), epochs),
        tuned: start.map_or(Vec::new(), |copy| copy.tuned.clone()),
        decoded_miss_share: miss_shares(
            copies.iter().flatten().map(|copy| &copy.decoded[..]),
            epochs,
        ),
        tiers: tier_shares(copies.iter().flatten().map(|copy| &copy.tiers[..]), epochs),
        local_share: local_share(&copies),
        epoch_starts: epoch_starts(&copies),
        staging: staging(&scenario.storage[described.reads_from()].name, &copies),
        device_memory: device_memory(described, &weakest.node),
        parallel: parallel(described, &copies),
        time_to_accuracy: accuracy(scenario, described, world(outcomes), &measured),
        sync: sync(described, &copies),
        recovery: recovery(scenario, described, &copies, step_time),
        cost: None,
        queue: queue(&copies, &behind, described),
        series: start
            .map(|copy| series(copy, end(copy, scenario.stop_of(described))))
            .unwrap_or_default(),
    }
}

/// Returns, for each of the first `epochs` epochs, the share of misses among the requests of all copies.
fn miss_shares<'o>(copies: impl Iterator<Item = &'o [CacheRequests]>, epochs: usize) -> Vec<f64> {
    let mut sums: Vec<CacheRequests> = Vec::new();
    for requests in copies {
        sums.resize(sums.len().max(requests.len()), CacheRequests::default());
        for (sum, requests) in sums.iter_mut().zip(requests) {
            sum.hits += requests.hits;
            sum.misses += requests.misses;
        }
    }
    let share = |sum: &CacheRequests| ratio(sum.misses as f64, (sum.hits + sum.misses) as f64);
    sums.iter().take(epochs).map(|sum| share(sum).unwrap_or(0.0)).collect()
}

/// Returns the copies of a job in one replication.
fn copies_of(outcome: &Outcome, job: usize) -> Vec<&JobOutcome> {
    outcome.jobs.iter().filter(|copy| copy.job == job).collect()
}

/// Returns the copies of a job by replication, each with its measured steps.
pub(super) fn measured<'o>(
    scenario: &Scenario,
    outcomes: &'o [Outcome],
    job: usize,
) -> Vec<Vec<(&'o JobOutcome, Measured)>> {
    let rule = Rule::of_job(scenario, job);
    let of = |outcome: &'o Outcome| {
        let until = outcome.first_end(&scenario.run);
        let others = rule.other_copies(&outcome.jobs);
        let copies = copies_of(outcome, job).into_iter();
        copies.map(|copy| (copy, Measured::new(copy, &rule, until, &others))).collect()
    };
    outcomes.iter().map(of).collect()
}

/// Returns the highest throughput of a single measured step [samples/s].
fn fastest_step(copies: &[Vec<(&JobOutcome, Measured)>]) -> Option<f64> {
    let rates = copies.iter().flatten().flat_map(|(copy, measured)| {
        let each = durations(copy).into_iter().zip(&copy.steps);
        let inside = each.take(measured.steps.end).skip(measured.steps.start);
        inside.filter_map(|(seconds, step)| ratio(step.samples as f64, seconds)).collect::<Vec<_>>()
    });
    rates.reduce(f64::max)
}

/// Returns the sample of the first or of later epochs, without intervals unless step times vary `by_chance` alone; `None` if it has no
/// steps.
fn of_epochs(sample: Sample, by_chance: bool) -> Option<Sample> {
    let sample = if by_chance { sample } else { sample.without_intervals() };
    (!sample.is_empty()).then_some(sample)
}

/// Returns the rare stalls after the warm-up; `None` if stalls are frequent.
fn stalled_steps(behind: &Sample) -> Option<StalledSteps> {
    let rare = behind.rare()?;
    Some(StalledSteps { events: rare.events, steps: rare.steps, at_most: rare.most() })
}

/// Returns the minimum and the maximum of the copies' mean step times; each copy's mean is taken over its
/// replications.
fn spread(sample: &Sample) -> Option<Spread> {
    let copies = sample.windows.iter().map(Vec::len).min()?;
    let step_time = |copy: usize| {
        let each = sample.windows.iter().filter_map(|copies| copies.get(copy));
        mean(&each.filter_map(|w| ratio(w.elapsed, w.steps)).collect::<Vec<_>>())
    };
    let times: Vec<f64> = (0..copies).filter_map(step_time).collect();
    let min = times.iter().copied().reduce(f64::min)?;
    Some(Spread { min, max: times.iter().copied().fold(min, f64::max) })
}

/// Returns the time at which a copy's recording ended [s].
fn end(copy: &JobOutcome, stop: Stop) -> f64 {
    match stop {
        Stop::Duration(end) => end,
        Stop::Steps(_) | Stop::Epochs(_) | Stop::Known { .. } => {
            copy.steps.last().map_or(copy.start, |step| step.end)
        }
    }
}

/// Returns the resources in the order of the first replication's list, with figures over all replications.
fn resources(outcomes: &[Outcome]) -> Vec<ResourceReport> {
    let all: Vec<&[ResourceOutcome]> = outcomes.iter().map(|of| &of.resources[..]).collect();
    over_all(&all)
}

/// Returns the report of each resource of the first list, over the lists of all replications.
fn over_all(lists: &[&[ResourceOutcome]]) -> Vec<ResourceReport> {
    let report = |resource: &ResourceOutcome| {
        let same = lists.iter().filter_map(|all| all.iter().find(|r| r.of == resource.of));
        let same: Vec<&ResourceOutcome> = same.collect();
        let figure = |of: fn(&ResourceOutcome) -> f64| {
            over_replications(&same.iter().map(|r| of(r)).collect::<Vec<_>>())
        };
        let groups: Vec<&[ResourceOutcome]> = same.iter().map(|r| &r.groups[..]).collect();
        ResourceReport {
            of: resource.of,
            name: resource.name.clone(),
            count: resource.count,
            capacity: resource.capacity,
            unit: resource.unit.to_owned(),
            utilisation: figure(|r| r.utilisation),
            utilisation_max: figure(|r| r.utilisation_max),
            mean_flows: figure(|r| r.mean_flows),
            groups: over_all(&groups),
        }
    };
    lists.first().map_or(&[][..], |first| first).iter().map(report).collect()
}
