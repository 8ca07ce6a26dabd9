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
        if of(&["open", "latency", "transfer"]) >= of(&["decode", "cpu-wait", "throttled"]) {
            Bound::Storage
        } else {
            Bound::Cores
        }
    }
}

/// Kind of work that limits a configuration in a live run. Kinds are listed by how much the times of equal runs vary, least first. If
/// several apply, the last one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// The bottleneck takes the time that the scenario prescribes: reads are held to written limits, computing lasts for a given
    /// time, or steps are emulated.
    Timed,
    /// A GPU really trains.
    OnGpu,
    /// The host does real work: its cores decode or train, or it reads files as fast as it can.
    OnHost,
}

/// Properties that two configurations must share for their run-to-run variation to be comparable: the bottleneck, and what kind
/// of work it is in a live run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Likeness {
    /// Bottleneck of the configuration.
    pub bound: Bound,
    /// Kind of the bottleneck's work.
    pub work: Work,
}

impl Likeness {
    /// Returns the properties of a scenario with the bottleneck `bound`. If jobs differ, real work of the host counts before work
    /// on a GPU, and that before timed work.
    #[must_use]
    pub fn new(bound: Bound, scenario: &Scenario) -> Likeness {
        let reading = |job: &Job| match scenario.storage[job.storage].written.any() {
            true => Work::Timed,
            false => Work::OnHost,
        };
        let of = |job: &Job| match bound {
            Bound::Storage => reading(job),
            Bound::Cores => decoding(job),
            Bound::Compute => training(job),
            Bound::Crossover => decoding(job).max(training(job)),
        };
        let work = scenario.jobs.iter().map(of).max().unwrap_or(Work::Timed);
        Likeness { bound, work }
    }
}

/// Returns the kind of work that a job's decoding is.
fn decoding(job: &Job) -> Work {
    if decodes(job) { Work::OnHost } else { Work::Timed }
}

/// Returns the kind of work that a job's training steps are.
pub(super) fn training(job: &Job) -> Work {
    match job.device {
        _ if job.gpu.is_some() => Work::OnGpu,
        Device::Accelerator => Work::Timed,
        Device::Cpu { .. } => Work::OnHost,
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

    /// Returns the kind of work that limits a shipped scenario with the changes `set`, if its bottleneck is `bound`.
    fn work(scenario: &str, bound: Bound, set: &[&str]) -> Work {
        let path = format!("{}/scenarios/{scenario}.toml", env!("CARGO_MANIFEST_DIR"));
        let file = ScenarioFile::open(path.as_ref()).expect("a shipped scenario");
        let overrides: Vec<_> = set.iter().map(|set| set.parse().expect(set)).collect();
        Likeness::new(bound, &file.resolve(&overrides).expect("a scenario")).work
    }

    #[test]
    fn a_bottleneck_counts_as_timed_if_the_scenario_prescribes_its_time() {
        // System: the scenario of the shipped plan with other disks, decoding and steps. Expectation: each bottleneck is timed
        // exactly if the scenario prescribes its time, and real work of the host otherwise.
        let work = |bound: Bound, set: &[&str]| work("validate", bound, set);
        let disk = "storage.disk={ local-disk = { bandwidth = \"1 GB/s\" } }";
        let lenet = "job.model={ catalogue = \"lenet5\", device = { cpu = { threads = 1 } } }";
        let images = [
            "dataset.samples.image={ width = 64, height = 48 }",
            "job.loader.tf-queue.decode=\"decode\"",
        ];
        assert_eq!(work(Bound::Storage, &[]), Work::OnHost);
        assert_eq!(work(Bound::Storage, &[disk]), Work::Timed);
        assert_eq!(work(Bound::Compute, &[]), Work::Timed);
        assert_eq!(work(Bound::Compute, &[lenet]), Work::OnHost);
        assert_eq!(work(Bound::Crossover, &[]), Work::Timed);
        assert_eq!(work(Bound::Crossover, &[lenet]), Work::OnHost);
        assert_eq!(work(Bound::Crossover, &images), Work::OnHost);
        assert_eq!(work(Bound::Cores, &[]), Work::Timed);
        assert_eq!(work(Bound::Cores, &images), Work::OnHost);
    }

    #[test]
    fn training_on_a_gpu_is_no_work_on_cores_but_decoding_beside_it_is() {
        // System: the scenario of the shipped plan for GPUs, with decoding whose time is prescribed, then with real decoding.
        // Expectation: a job that is limited by its steps is limited by the GPU's work. Near a crossover it is too, unless cores
        // really decode.
        let work = |bound: Bound, set: &[&str]| {
            let gpu =
                "job.model={ catalogue = \"lenet5\", device = { gpu = {} }, step = \"2 ms\" }";
            work("validate-gpu", bound, &[&[gpu], set].concat())
        };
        let images = [
            "dataset.samples.image={ width = 64, height = 48 }",
            "job.loader.pytorch.decode=\"decode\"",
        ];
        assert_eq!(work(Bound::Compute, &[]), Work::OnGpu);
        assert_eq!(work(Bound::Compute, &images), Work::OnGpu);
        assert_eq!(work(Bound::Crossover, &[]), Work::OnGpu);
        assert_eq!(work(Bound::Crossover, &images), Work::OnHost);
        assert_eq!(work(Bound::Cores, &[]), Work::Timed);
        assert_eq!(work(Bound::Cores, &images), Work::OnHost);
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
