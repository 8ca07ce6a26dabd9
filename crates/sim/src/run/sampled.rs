//! Runs in which a sample of nodes stands for all, and how far they may be from runs of all nodes.

use forebay_report::{JobOutcome, Outcome, SampleOfNodes, SampledOutcome};
use forebay_scenario::Scenario;

use super::options::Options;
use super::world::run_nodes;

/// Sizes of samples, relative to the largest one, each with the phase at which its nodes lie: samples of different sizes have
/// different nodes, as far as there are enough. How much their results differ says how far each is from all nodes.
const SIZES: [(u32, f64); 3] = [(1, 0.0), (2, 1.0 / 3.0), (4, 2.0 / 3.0)];

/// Simulates one replication of `scenario`: a pure function of the scenario and the replication's
/// number (as long as nobody interrupts).
pub fn run(scenario: &Scenario, replication: u32, options: &Options) -> Outcome {
    let Some(wanted) = scenario.sampled_nodes else {
        return run_nodes(scenario, None, replication, options);
    };
    let of_size = |(part, phase): (u32, f64), options: &Options| {
        let sample = scenario.sampled((wanted / part).max(2), phase);
        let outcome = run_nodes(scenario, Some(&sample), replication, options);
        (sample.nodes.len() as u32, outcome)
    };
    if options.largest_sample_only {
        return of_size(SIZES[0], options).1;
    }
    let smaller = Options { trace: false, progress: None, ..*options };
    let [first, second, third] = SIZES;
    let ((nodes, mut outcome), others) = rayon::join(
        || of_size(first, options),
        || rayon::join(|| of_size(second, &smaller), || of_size(third, &smaller)),
    );
    let others = [others.0, others.1];
    outcome.events += others.iter().map(|(_, other)| other.events).sum::<u64>();
    let of = |(nodes, outcome): (u32, &Outcome)| SampleOfNodes {
        nodes,
        jobs: (0..scenario.jobs.len()).map(|job| of_job(outcome, job)).collect(),
    };
    let all = [(nodes, &outcome)].into_iter().chain(others.iter().map(|(nodes, of)| (*nodes, of)));
    let samples = all.map(of).collect();
    outcome.sampled = Some(SampledOutcome { of: scenario.nodes_in_use(), samples });
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
