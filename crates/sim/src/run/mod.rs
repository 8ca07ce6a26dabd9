//! A run: the simulation of a replication, on all nodes or on samples of them. The modules below build the start of a run from the
//! scenario, route its events to their owners, and collect its outcome.

mod build;
mod memory;
mod resource;
mod steady;
mod watch;
mod world;

use std::sync::atomic::AtomicBool;

use forebay_report::{JobOutcome, Outcome, SampleOfNodes, SampledOutcome};
use forebay_scenario::{SampledNodes, Scenario};

use crate::communication::IdleCollectives;

pub use memory::{Memory, memory};
pub use watch::Progress;

/// Number of look-ups in caches before a run begins that count as one event, because they take about as long.
pub const LOOK_UPS_IN_EVENT: u64 = 4;

/// Options of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// Whether to record a timeline.
    pub trace: bool,
    /// Whether to simulate every transfer of every collective, even on links that nothing else uses. If false, only the first
    /// collective of each kind on such links is simulated transfer by transfer, and later ones take the same time.
    pub every_transfer: bool,
    /// Results of collectives that earlier runs have simulated on links that nothing else uses, and to which this run adds its
    /// own. They only save time.
    pub collectives: Option<&'a IdleCollectives>,
    /// Number of epochs that the loaders of each job have read before the run begins, by index of the job; empty if none have.
    /// Caches then start with what they would hold after these epochs, and copies before training are done. To fill the caches, the
    /// run looks up each unit that was read; [`LOOK_UPS_IN_EVENT`] look-ups count as one event. Not for jobs with failures, because
    /// a restart counts the samples that were read since the start of the run.
    pub epochs_before: &'a [f64],
    /// Object that receives the progress of the run from time to time.
    pub progress: Option<&'a Progress>,
    /// Flag that ends the run early when it becomes true; the outcome then holds everything that was complete by then.
    pub stop: Option<&'a AtomicBool>,
    /// Index of the job whose end ends the run, however far the other jobs have come; `None`: the run ends with its last job. A run with
    /// this option does not end because its results are known.
    pub until: Option<usize>,
    /// Whether to simulate only the largest sample of nodes, for comparisons of runs on the same nodes. The outcome then has no estimate
    /// of the sampling error. Without effect where all nodes are simulated.
    pub largest_sample_only: bool,
    /// Maximum number of [`Outcome::events`], after which the run ends early; the outcome then holds everything that was complete
    /// by then.
    pub most_events: Option<u64>,
}

/// Simulates one replication of `scenario`: a pure function of the scenario and the replication's
/// number (as long as nobody interrupts). If only a sample of its nodes is simulated, two smaller samples are simulated too, and the
/// outcome has the results of each, from which the sampling error is estimated.
pub fn run(scenario: &Scenario, replication: u32, options: &Options) -> Outcome {
    let Some(wanted) = scenario.fidelity.nodes else {
        return world::run_nodes(scenario, None, replication, options);
    };
    let samples = scenario.samples(wanted);
    let of_sample = |sample: &SampledNodes, options: &Options| {
        world::run_nodes(scenario, Some(sample), replication, options)
    };
    if options.largest_sample_only {
        return of_sample(&samples[0], options);
    }
    let smaller = Options { trace: false, progress: None, ..*options };
    let (mut outcome, others) = rayon::join(
        || of_sample(&samples[0], options),
        || rayon::join(|| of_sample(&samples[1], &smaller), || of_sample(&samples[2], &smaller)),
    );
    outcome.events += others.0.events + others.1.events;
    let result = |sample: &SampledNodes, outcome: &Outcome| SampleOfNodes {
        nodes: sample.nodes.len() as u32,
        jobs: (0..scenario.jobs.len()).map(|job| of_job(outcome, job)).collect(),
    };
    let outcomes = [&outcome, &others.0, &others.1];
    let results = samples.iter().zip(outcomes).map(|(sample, of)| result(sample, of)).collect();
    outcome.sampled = Some(SampledOutcome { of: scenario.nodes_in_use(), samples: results });
    outcome
}

/// Returns the mean step time of a job's copies [s], and the share of the time in which their devices wait; `None` if no step is
/// complete.
fn of_job(outcome: &Outcome, job: usize) -> Option<[f64; 2]> {
    let copies = || outcome.jobs.iter().filter(|copy| copy.job == job);
    let elapsed = |copy: &JobOutcome| copy.steps.last().map_or(0.0, |step| step.end - copy.start);
    let seconds: f64 = copies().map(elapsed).sum();
    let steps: usize = copies().map(|copy| copy.steps.len()).sum();
    let computed: f64 = copies().flat_map(|copy| &copy.steps).map(|step| step.compute).sum();
    (steps > 0 && seconds > 0.0).then(|| [seconds / steps as f64, 1.0 - computed / seconds])
}
