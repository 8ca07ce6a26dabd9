//! What is responsible for a cause of stalls.

use crate::Resource;
use forebay_scenario::Scenario;

/// What is responsible for a cause of stalls: a shared resource, or something whose use reports do not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Shared(Resource),
    /// Latency of the storage with this index.
    Latency(usize),
    /// Throughput of a single stream of the storage with this index.
    PerStream(usize),
    /// Workers of the job's loader.
    Workers,
    /// Delivery of the job's samples in order.
    Order,
    /// The job's loader, which starts anew.
    Loader,
    /// Pipeline of the job's stages.
    Pipeline,
    Accelerators,
    /// Whatever connects the job's model copies.
    Network,
    /// Time that averages of models take on a GPU besides moving bytes.
    Averaging,
    SlowestRank,
    Faults,
}

impl Carrier {
    /// Returns the name that reports show for the carrier of a stall of the job with index `job`.
    pub(super) fn name(self, scenario: &Scenario, job: usize) -> String {
        let storage = |index: usize, part| format!("{}.{part}", scenario.storage[index].name);
        let of_job = |part| format!("{}.{part}", scenario.jobs[job].name);
        match self {
            Self::Shared(resource) => resource.name(scenario),
            Self::Latency(index) => storage(index, "latency"),
            Self::PerStream(index) => storage(index, "per_stream"),
            Self::Workers => of_job("workers"),
            Self::Order => of_job("order"),
            Self::Loader => of_job("loader"),
            Self::Pipeline => of_job("pipeline"),
            Self::Accelerators => "accelerators".to_owned(),
            Self::Network => "network".to_owned(),
            Self::Averaging => "averaging".to_owned(),
            Self::SlowestRank => "slowest rank".to_owned(),
            Self::Faults => "faults".to_owned(),
        }
    }
}
