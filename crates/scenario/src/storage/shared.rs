//! Limits of a shared storage that come from a cluster's profile where the scenario does not give them.

use super::local_disk::{measured_sharing, spread_out};
use super::service::ServiceKeys;
use super::{RequestPath, Sharing};
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::field::Field;
use crate::number::Positive;
use forebay_model::law::SharedReadLaw;
use forebay_model::units::{Bandwidth, Rate, Time};

/// Keys of a shared storage that a profile may give.
pub(super) struct SharedKeys<'a> {
    pub(super) per_stream: &'a Field<Positive<Bandwidth>>,
    pub(super) per_client: &'a Field<Positive<Bandwidth>>,
    pub(super) latency: &'a Field<Varying<Time>>,
    pub(super) operations: &'a Field<Positive<Rate>>,
}

/// A profile's fit of reads by several nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedFit {
    law: SharedReadLaw,
    /// Standard deviation of the logarithm of the latency.
    spread: f64,
}

impl SharedFit {
    /// Returns the profile's fit; `None` if there is none, or if the scenario is read for a live run, whose storage has these limits anyway.
    pub(super) fn of(check: Check<'_>) -> Option<SharedFit> {
        let fit = check.profile.filter(|_| !check.lenient)?.shared_reads()?.1;
        let spread = fit.value("latency_spread").unwrap_or(0.0);
        Some(SharedFit { law: fit.shared_read()?, spread })
    }

    /// Returns the bandwidth of all nodes together [B/s]; infinite if the trials did not reach it.
    pub(super) fn bandwidth(self) -> f64 {
        self.law.read.bandwidth
    }
}

impl SharedKeys<'_> {
    /// Gives `path` what the keys say, otherwise what the profile says, otherwise no limit. Returns `None` if a key is invalid.
    pub(super) fn fill(&self, check: Check<'_>, path: RequestPath) -> Option<RequestPath> {
        let fit = SharedFit::of(check);
        let measured = |of: fn(SharedReadLaw) -> f64| fit.map_or(f64::INFINITY, |fit| of(fit.law));
        let rate = |key: &Field<Positive<Bandwidth>>, of: fn(SharedReadLaw) -> f64| {
            key.get().map_or_else(|| measured(of), |given| given.0)
        };
        let operations = self
            .operations
            .get()
            .map_or_else(|| measured(|law| law.read.operations), |given| given.0);
        let latency = match (self.latency.given(), fit) {
            (Some((at, latency)), _) => latency.resolve(check, at)?,
            (None, Some(fit)) => {
                // The measured latency includes the time of the operation, and that of the network there and back.
                let served = if self.operations.is_written() { 0.0 } else { 1.0 / operations };
                let network = check.profile.and_then(|of| of.network_value("nic", "latency"));
                let before = served + 2.0 * network.unwrap_or(0.0);
                spread_out((fit.law.read.latency - before).max(0.0), fit.spread)
            }
            (None, None) => crate::Distribution::Constant(0.0),
        };
        Some(RequestPath {
            per_stream: rate(self.per_stream, |law| law.read.per_stream),
            per_client: rate(self.per_client, |law| law.per_client),
            operations,
            latency,
            ..path
        })
    }
}

/// Returns how the profile of a cluster says that reads share the bandwidth of `path`, unless the scenario writes it; otherwise `written`.
pub(super) fn sharing(
    check: Check<'_>,
    keys: &ServiceKeys<'_>,
    written: Sharing,
    path: &RequestPath,
    bandwidth: f64,
) -> Sharing {
    let measured = SharedFit::of(check)
        .and_then(|_| measured_sharing(check, "shared", bandwidth, path.per_stream));
    measured.filter(|_| keys.written().next().is_none()).unwrap_or(written)
}

/// Returns the bandwidth of all writes together that the profile has [B/s], for a storage that nodes share.
pub(super) fn write_bandwidth(check: Check<'_>) -> Option<f64> {
    let fit = check.profile.filter(|_| !check.lenient)?.storage.get("write")?;
    fit.value("bandwidth").filter(|rate| *rate > 0.0 && rate.is_finite())
}
