//! Predicted bottleneck of a configuration.

use super::Observed;
use crate::scenario::{Device, Job, Operation, Scenario};
use serde::Serialize;

/// The resource that limits a configuration of a validation plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The job is limited by reading from storage.
    Storage,
    /// The job is limited by decoding, or by waiting for cores.
    Cores,
    /// There is no clear bottleneck: the rates of loaders and trainers are within 25 % of each other.
    Crossover,
    /// The job is limited by its training steps.
    Compute,
}

/// Maximum ratio of the rates of loaders and trainers at which a configuration counts as near a crossover.
const NEAR: f64 = 1.25;

impl Bound {
    /// All bottlenecks, in the order of tables.
    pub const ALL: [Bound; 4] = [Bound::Storage, Bound::Cores, Bound::Crossover, Bound::Compute];

    /// Returns the name of the bottleneck, to follow the words "bound by".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Bound::Storage => "storage",
            Bound::Cores => "cores",
            Bound::Crossover => "near a crossover",
            Bound::Compute => "compute",
        }
    }

    /// Returns the bottleneck of a run: compares the rate of its loaders when never blocked with the rate of its trainers when
    /// never stalled. If loaders are slower, the causes of stalls decide between storage and cores.
    #[must_use]
    pub fn from_run(run: &Observed) -> Bound {
        let [loader, trainer] = [run.unblocked_rate, run.unstalled_rate];
        if loader.max(trainer) <= NEAR * loader.min(trainer) {
            return Bound::Crossover;
        }
        if loader > trainer {
            return Bound::Compute;
        }
        let of =
            |names: &[&str]| -> f64 { names.iter().filter_map(|name| run.causes.get(*name)).sum() };
        if of(&["open", "latency", "transfer"]) >= of(&["decode", "cpu-wait"]) {
            Bound::Storage
        } else {
            Bound::Cores
        }
    }
}

/// Properties that two configurations must share for their run-to-run variation to be comparable: the bottleneck, and whether a
/// live run only emulates the bottleneck's time or really does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Likeness {
    /// Bottleneck of the configuration.
    pub bound: Bound,
    /// Whether the bottleneck takes the time that the scenario prescribes: storage throttled to its limits, computing for a
    /// given time, emulated steps.
    pub timed: bool,
}

impl Likeness {
    /// Returns the properties of a scenario with the bottleneck `bound`.
    #[must_use]
    pub fn new(bound: Bound, scenario: &Scenario) -> Likeness {
        let paced = |job: &Job| scenario.storage[job.storage].written.any();
        let emulated = |job: &Job| job.device == Device::Accelerator && job.gpu.is_none();
        let timed = scenario.jobs.iter().all(|job| match bound {
            Bound::Storage => paced(job),
            Bound::Cores => !decodes(job),
            Bound::Compute => emulated(job),
            Bound::Crossover => !decodes(job) && emulated(job),
        });
        Likeness { bound, timed }
    }
}

/// Returns whether a job's loader really decodes images.
fn decodes(job: &Job) -> bool {
    let work = job.loader.stages.iter().flat_map(|s| s.per_sample.iter().chain(&s.per_item));
    work.into_iter().any(|operation| matches!(operation, Operation::Decode(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioFile;

    #[test]
    fn a_bottleneck_counts_as_emulated_if_the_scenario_prescribes_its_time() {
        // System: the scenario of the shipped plan with other disks, decoding and steps. Expectation: each bottleneck is timed
        // exactly if the scenario prescribes its time.
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/validate.toml");
        let file = ScenarioFile::open(path.as_ref()).expect("a shipped scenario");
        let timed = |bound: Bound, set: &[&str]| {
            let overrides: Vec<_> = set.iter().map(|set| set.parse().expect(set)).collect();
            Likeness::new(bound, &file.resolve(&overrides).expect("a scenario")).timed
        };
        let disk = "storage.disk={ local-disk = { bandwidth = \"1 GB/s\" } }";
        assert!(!timed(Bound::Storage, &[]) && timed(Bound::Storage, &[disk]));
        let lenet = "job.model={ catalogue = \"lenet5\", device = { cpu = { threads = 1 } } }";
        assert!(timed(Bound::Compute, &[]) && !timed(Bound::Compute, &[lenet]));
        assert!(timed(Bound::Crossover, &[]) && !timed(Bound::Crossover, &[lenet]));
        let images = [
            "dataset.samples.image={ width = 64, height = 48 }",
            "job.loader.tf-queue.decode=\"decode\"",
        ];
        assert!(timed(Bound::Cores, &[]) && !timed(Bound::Cores, &images));
    }

    fn run(unblocked_rate: f64, unstalled_rate: f64, transfer: f64) -> Observed {
        let causes = [("transfer".to_owned(), transfer), ("decode".to_owned(), 0.3)].into();
        Observed { unblocked_rate, unstalled_rate, causes, ..Observed::default() }
    }

    #[test]
    fn the_slower_of_loader_and_trainer_is_the_bottleneck_unless_rates_are_close() {
        assert_eq!(Bound::from_run(&run(100.0, 200.0, 0.4)), Bound::Storage);
        assert_eq!(Bound::from_run(&run(100.0, 200.0, 0.2)), Bound::Cores);
        assert_eq!(Bound::from_run(&run(200.0, 100.0, 0.4)), Bound::Compute);
        assert_eq!(Bound::from_run(&run(100.0, 124.0, 0.4)), Bound::Crossover);
        assert_eq!(Bound::from_run(&run(124.0, 100.0, 0.4)), Bound::Crossover);
    }
}
