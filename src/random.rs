//! Draws addressed by (seed, replication, purpose, owner, entity, index).
//!
//! Every draw has an address and depends on nothing else, so that changing one part of a scenario
//! leaves the draws of the others alone (common random numbers), whatever the order in which they
//! are asked for.

/// What a draw is for: two purposes never share a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Size of a sample; owner: data set, entity: sample.
    SampleSize = 1,
    /// Order of an epoch; owner: job copy, entity: epoch.
    Order = 2,
    /// Request latency; owner: job copy, entity: ordinal of the sample, index: request.
    Latency = 3,
    /// Core-seconds; owner: job copy, entity: ordinal of the sample, index: stage and operation.
    Compute = 4,
    /// A delay; addressed as `Compute`.
    Delay = 5,
    /// Jitter of a step; owner: job copy, entity: model copy, index: step.
    Jitter = 6,
    /// Inter-arrival time of a background load; owner: the load, entity: ordinal of the request.
    Arrival = 7,
    /// Size of a background request; addressed as `Arrival`.
    RequestSize = 8,
    /// Latency of a background request; addressed as `Arrival`.
    RequestLatency = 9,
}
