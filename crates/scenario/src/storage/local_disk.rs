//! A disk in each node.

use super::burst::{BurstSettings, burst, operation_burst};
use super::service::{InFlight, ServiceKeys, ServiceOrder};
use super::settings::{BandwidthSettings, CpuSettings, Kind};
use super::tier::Tier;
use super::{Access, Bandwidth, Burst, Location, ReadCpu, RequestPath, Service, Sharing, Written};
use crate::Distribution;
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Positive;
use crate::profile::SERVED_ALL;
use crate::reading::read_law;
use crate::role::Role;
use forebay_model::law::{ReadLaw, TokenLaw};
use forebay_model::units::{Bandwidth as BytesPerSecond, Rate, Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// A disk in each node.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LocalDisk {
    /// Bandwidth of a node's disk for all transfers together; a list has one entry for each number of concurrent transfers
    /// (default: as the profile says).
    #[schemars(extend("x-role" = Role::Limit))]
    bandwidth: Field<BandwidthSettings>,
    /// Token bucket by which a node's disk gives more than its `bandwidth` for a while: the credits of a cloud volume, or the
    /// gate of a throttle (default: the bucket of the profile if it says the `bandwidth`, or its gate, or none).
    #[schemars(extend("x-role" = Role::Identity))]
    burst: Field<BurstSettings>,
    /// Highest bandwidth of one transfer (default: as the profile says, or infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    per_stream: Field<Positive<BytesPerSecond>>,
    /// Time from request to first byte (default: as the profile says, or 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    latency: Field<Varying<Time>>,
    /// File opens per second that a node's disk can serve (default: as the profile says, or infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    operations: Field<Positive<Rate>>,
    /// How files are read: "direct": past the page cache (`O_DIRECT`), so that every epoch reads from the disk; "cold": through a
    /// page cache that is empty at the start; "warm": from the node's page cache, which holds all files from the start, so that
    /// the disk's limits do not apply to reads; "emulated": as "direct", except that live runs keep the files in the page cache
    /// and hold reads to the limits that the scenario sets, so that another disk than the machine's own can be run (default:
    /// "cold").
    #[schemars(extend("x-role" = Role::Choice))]
    access: Field<Access>,
    /// Core time that each request costs the node; the request's time includes it (default: as the profile says, or nothing).
    #[schemars(extend("x-role" = Role::Limit))]
    cpu: Field<CpuSettings>,
    /// Seek time of a hard disk, for each request that does not begin where the previous request ended; the disk's arm serves
    /// one request at a time (default: there is no arm).
    #[schemars(extend("x-role" = Role::Limit))]
    seek: Field<Positive<Time>>,
    /// How reads by loaders share the bandwidth: "in-order": in order of arrival, `in_flight` at once, as disks and throttles do;
    /// "round-robin": clients take turns, as control groups with the same weight do; "fair": all at once, with the same bandwidth for
    /// each (default: as the profile says if it says the `bandwidth`, or "in-order").
    #[schemars(extend("x-role" = Role::Identity))]
    service: Field<ServiceOrder>,
    /// Requests that are served at once, with "in-order" and "round-robin" (default: as the profile says, or as many as reach the full
    /// bandwidth).
    #[schemars(extend("x-role" = Role::Limit))]
    in_flight: Field<InFlight>,
    /// Bytes of a request that are served in a turn, with "round-robin"; its rest waits for the client's next turn (default: the whole
    /// request).
    #[schemars(extend("x-role" = Role::Identity))]
    piece: Field<Positive<Size>>,
    /// Capacity of each node's disk for data that is copied to it (default: none).
    #[schemars(extend("x-role" = Role::Limit))]
    capacity: Field<Positive<Size>>,
    /// Bandwidth of a node's writes, which share the disk with its reads (default: as that of
    /// reads).
    #[schemars(extend("x-role" = Role::Limit))]
    write_bandwidth: Field<Positive<BytesPerSecond>>,
}

impl Kind for LocalDisk {
    fn name(&self) -> &'static str {
        "local-disk"
    }

    fn tier(&self) -> Option<Tier> {
        Some(Tier::new(&self.capacity, &self.write_bandwidth))
    }

    fn written(&self) -> Written {
        Written {
            bandwidth: self.bandwidth.is_written(),
            per_stream: self.per_stream.is_written(),
            per_client: false,
            latency: self.latency.is_written(),
            operations: self.operations.is_written(),
            queues: false,
            burst: self.burst.is_written(),
        }
    }

    fn warm(&self, check: Check<'_>, layout: &str) -> Option<RequestPath> {
        let unlimited = RequestPath::unlimited(Location::Node, Access::Warm);
        let fit = |fit| Fitted::of(check, fit, layout);
        match (self.access.get()?, fit(Access::Warm.measured())) {
            (Access::Direct | Access::Cold | Access::Emulated, _) => None,
            (Access::Warm, None) => Some(RequestPath { cpu: self.cpu(None), ..unlimited }),
            (Access::Warm, Some(Fitted { law, spread })) => Some(RequestPath {
                bandwidth: together(law),
                per_stream: law.per_stream,
                latency: spread_out((law.latency - 1.0 / law.operations).max(0.0), spread),
                operations: law.operations,
                cpu: self.cpu(Some(law)),
                ..unlimited
            }),
        }
    }

    fn check_own_limits(&self, check: Check<'_>, at: NodeId, layout: &str) {
        let asked = Access::Direct.measured();
        if !self.bandwidth.is_written() && Fitted::of(check, asked, layout).is_none() {
            let _reported = bandwidth_is_missing(check, at, asked);
        }
    }

    fn path(&self, check: Check<'_>, at: NodeId, layout: &str) -> Option<RequestPath> {
        let access = self.access.get().copied().unwrap_or(Access::Cold);
        // Warm files are read over `warm`. This path then serves the other uses of the disk, such as checkpoints.
        let asked = if access == Access::Warm { Access::Direct } else { access };
        let fit = Fitted::of(check, asked.measured(), layout);
        let is_measured = fit.is_some() && !self.bandwidth.is_written() && !self.seek.is_written();
        let has_burst = self.burst.at.is_some();
        let measured = measured_burst(check).filter(|_| is_measured && !has_burst);
        // With another `bandwidth`, a throttle is set to another rate.
        let has_gate = measured.is_none() && !has_burst && !self.seek.is_written();
        let gate = Gate::of(check, asked.measured()).filter(|_| has_gate && fit.is_some());
        let law = fit.map(|fit| fit.law);
        let law = law.map(|law| match gate {
            Some(Gate { per_stream, .. }) => ReadLaw { per_stream, ..law },
            None => law,
        });
        let latency = match self.latency.given() {
            Some((at, latency)) => latency.resolve(check, at)?,
            None => {
                let mean = match gate {
                    Some(gate) => gate.latency,
                    None => law.map_or(0.0, |law| self.first_byte(law)),
                };
                spread_out(mean, fit.map_or(0.0, |fit| fit.spread))
            }
        };
        let or_infinite = |of: fn(ReadLaw) -> f64| law.map_or(f64::INFINITY, of);
        let bandwidth = match (measured, law.filter(|_| gate.is_some())) {
            (Some((_, sustained)), _) => Bandwidth::Fixed(sustained),
            (None, Some(law)) if is_measured => Bandwidth::Fixed(law.bandwidth),
            _ => self.bandwidth(check, at, access, law)?,
        };
        let per_stream = self
            .per_stream
            .get()
            .map_or_else(|| or_infinite(|law| law.per_stream), |given| given.0);
        let operations = self
            .operations
            .get()
            .map_or_else(|| or_infinite(|law| law.operations), |given| given.0);
        let burst = burst(check, &self.burst, &bandwidth)
            .or(measured.map(|(burst, _)| burst))
            .or(gate.and_then(|gate| gate.bytes(bandwidth.most())));
        let operation_burst = operation_burst(check, &self.burst, operations)
            .or(gate.and_then(|gate| gate.operations(operations)));
        let service = self.service_keys();
        let found = measured_sharing(
            check,
            Access::Direct.measured(),
            burst.map_or(bandwidth.most(), |of| of.bandwidth),
            per_stream,
        )
        .filter(|_| is_measured && service.written().next().is_none());
        let written = || service.resolve(check, ServiceOrder::InOrder, f64::INFINITY);
        let spent = law.map_or(0.0, |law| law.overhead);
        let path = RequestPath {
            burst,
            operation_burst,
            sharing: found.unwrap_or_else(written),
            bandwidth,
            per_stream,
            latency,
            operations,
            cpu: self.cpu(law),
            service: self
                .seek(check, access)
                .map_or(Service::Link, |seek| Service::DiskHead { seek }),
            ..RequestPath::unlimited(Location::Node, access)
        };
        if spent == 0.0 || self.operations.is_written() || path.seek().is_some() {
            return Some(path);
        }
        // Requests that are served at once share what is spent on one after the other; without turns, it limits their number. What a
        // profile says of the time to the first byte includes it.
        let at_once = path.in_flight(f64::INFINITY).map(|number| f64::from(number.max(1)));
        let (overhead, operations) = match at_once {
            Some(at_once) => (spent * at_once, path.operations),
            None => (0.0, path.operations.min(1.0 / spent)),
        };
        let mean = path.latency.mean();
        let left = mean - overhead.max(1.0 / operations);
        let latency = match (self.latency.is_written(), gate) {
            (false, None) if left > 0.0 => path.latency.scaled(left / mean),
            (false, None) => Distribution::Constant(0.0),
            _ => path.latency.clone(),
        };
        Some(RequestPath { overhead, operations, latency, ..path })
    }

    fn asks_profile(&self) -> bool {
        let written = [
            self.bandwidth.is_written(),
            self.per_stream.is_written(),
            self.latency.is_written(),
            self.operations.is_written(),
            self.cpu.is_written(),
        ];
        written.contains(&false)
    }
}

impl LocalDisk {
    fn service_keys(&self) -> ServiceKeys<'_> {
        ServiceKeys { service: &self.service, in_flight: &self.in_flight, piece: &self.piece }
    }

    /// Returns the seek time; `None` if it is not set. Reports a problem if all files are in memory, and remarks on
    /// bandwidths that have no effect with a seek time.
    fn seek(&self, check: Check<'_>, access: Access) -> Option<f64> {
        let (at, seek) = self.seek.given()?;
        if access == Access::Warm {
            let what = "files that are all in the page cache need no seeks";
            check.wrong(at, what, "write `access = \"cold\"` or \"direct\", or no `seek`");
        }
        if let Some(at) = self.burst.at {
            let what = "the head of a hard disk reads no faster for a while";
            check.wrong(at, what, "leave it out, or leave out `seek`");
        }
        for at in self.service_keys().written() {
            let what = "a hard disk's arm serves one request at a time, in order of arrival";
            check.wrong(at, what, "leave it out, or leave out `seek`");
        }
        if let (Some(by), false) = (self.bandwidth.get(), check.lenient)
            && let Bandwidth::ByTransfers(table) = by.resolve()
            && table.len() > 1
        {
            let path = check.document.path(at);
            check.remark(format!(
                "With `{path}`, only the first bandwidth has an effect: a hard disk's head serves one request at a time."
            ));
        }
        Some(seek.0)
    }

    fn bandwidth(
        &self,
        check: Check<'_>,
        at: NodeId,
        access: Access,
        law: Option<ReadLaw>,
    ) -> Option<Bandwidth> {
        if self.bandwidth.is_written() {
            return Some(self.bandwidth.get()?.resolve());
        }
        if let Some(law) = law {
            return Some(together(law));
        }
        // `check_own_limits` reports the missing bandwidth if something else than warm reads uses the disk.
        if access != Access::Warm {
            bandwidth_is_missing(check, at, access.measured())?;
        }
        Some(Bandwidth::Fixed(f64::INFINITY))
    }

    /// Returns the core time that a request costs, which is `law`'s unless the file sets it.
    fn cpu(&self, law: Option<ReadLaw>) -> ReadCpu {
        let measured = law.map(|law| ReadCpu { fixed: law.cpu_fixed, per_byte: law.cpu_per_byte });
        self.cpu.get().map(CpuSettings::resolve).or(measured).unwrap_or_default()
    }

    /// Returns the time from the end of an operation (which takes 1 ÷ `operations`) to the first byte [s]. The latency of the
    /// profile includes the time of the operation; this time is subtracted if `operations` is the profile's too.
    fn first_byte(&self, law: ReadLaw) -> f64 {
        let served = if self.operations.is_written() { 0.0 } else { 1.0 / law.operations };
        (law.latency - served).max(0.0)
    }
}

/// Reports that neither the file nor the profile gives the bandwidth, and returns `None`; returns `Some` if keys may be missing.
fn bandwidth_is_missing(check: Check<'_>, at: NodeId, measured: &str) -> Option<()> {
    check.unsaid(at, "bandwidth", "bandwidth = \"2 GB/s\"", &format!("read.{measured}"))
}

/// A profile's fit of reads.
#[derive(Debug, Clone, Copy)]
struct Fitted {
    law: ReadLaw,
    /// Standard deviation of the logarithm of the latency.
    spread: f64,
}

impl Fitted {
    /// Returns the profile's fit of reads with this kind of access; `None` if there is no profile, or it has no such fit.
    fn of(check: Check<'_>, access: &str, layout: &str) -> Option<Fitted> {
        let (_, fit) = check.profile?.read_fit(access, layout)?;
        Some(Fitted { law: read_law(fit)?, spread: fit.value("latency_spread").unwrap_or(0.0) })
    }
}

/// Returns the token bucket that the profile has for direct reads, and its sustained bandwidth [B/s]; `None` if it has none.
fn measured_burst(check: Check<'_>) -> Option<(Burst, f64)> {
    let fit = check.profile?.burst.get(Access::Direct.measured())?;
    let [bandwidth, bucket, sustained] =
        ["bandwidth", "bucket", "sustained"].map(|name| fit.value(name).unwrap_or(0.0));
    let burst = Burst { bandwidth, bucket, content: bucket, period: None };
    let is_possible = sustained > 0.0
        && bandwidth > sustained
        && bandwidth.is_finite()
        && POSSIBLE.contains(&(bucket / bandwidth));
    is_possible.then_some((burst, sustained))
}

/// The gate of a throttle, as the profile has it: what a period's bytes and operations allow passes at once, at the speed of the disk
/// behind the gate.
#[derive(Debug, Clone, Copy)]
struct Gate {
    /// Period [s].
    period: f64,
    /// Time to the first byte behind the gate [s].
    latency: f64,
    /// Bandwidth of one transfer behind the gate [B/s].
    per_stream: f64,
    /// Bandwidth of all transfers together behind the gate [B/s].
    bandwidth: f64,
}

impl Gate {
    /// Returns the gate that the profile has for reads of kind `access` ("direct" or "cold"); `None` if calibration found none.
    fn of(check: Check<'_>, access: &str) -> Option<Gate> {
        let fit = check.profile?.gate.get(access)?;
        let value = |name: &str| fit.value(name).filter(|value| *value > 0.0);
        let period = value("period").filter(|period| GATES.contains(period))?;
        let per_stream = value("per_stream").unwrap_or(f64::INFINITY);
        let bandwidth = value("bandwidth").unwrap_or(per_stream).max(per_stream);
        Some(Gate { period, latency: fit.value("latency")?, per_stream, bandwidth })
    }

    /// Returns the token bucket of bytes, for reads that get `sustained` in the long run [B/s]; `None` if bytes are not limited.
    fn bytes(self, sustained: f64) -> Option<Burst> {
        let bucket = sustained * self.period;
        let is_limited = sustained.is_finite() && self.bandwidth > sustained;
        is_limited.then_some(Burst {
            bandwidth: self.bandwidth,
            bucket,
            content: bucket,
            period: Some(self.period),
        })
    }

    /// Returns the token bucket of operations, of which there are `sustained` per second in the long run; `None` if they are not
    /// limited.
    fn operations(self, sustained: f64) -> Option<TokenLaw> {
        let bucket = sustained * self.period;
        sustained.is_finite().then_some(TokenLaw {
            sustained,
            fast: f64::INFINITY,
            bucket,
            content: bucket,
            period: Some(self.period),
        })
    }
}

/// Bounds of the period of a gate [s]; others are mistakes of a profile.
const GATES: std::ops::Range<f64> = 1e-3..10.0;

/// Returns how the profile says that reads of kind `access` share the bandwidth; `None` if it does not tell. Where one request is slower than
/// the disk, as many are served at once as reach nine tenths of its bandwidth, which is at `most` so much [B/s].
pub(super) fn measured_sharing(
    check: Check<'_>,
    access: &str,
    most: f64,
    per_stream: f64,
) -> Option<Sharing> {
    let fit = check.profile?.service.get(access)?;
    let found = fit.parameters.get("in_flight").filter(|of| of.unidentified.is_none())?.value;
    if found >= SERVED_ALL {
        return Some(Sharing::Fair);
    }
    let needed = Bandwidth::Fixed(0.9 * most).transfers_for_most(per_stream);
    Some(Sharing::InOrder { in_flight: Some((found.round() as u32).max(needed)) })
}

/// Bounds of the time for which a full bucket lasts [s]; others are mistakes of a profile.
const POSSIBLE: std::ops::Range<f64> = 1e-3..1e6;

/// Returns the bandwidth of all transfers together. The law's bandwidth is the mean with many requests. If a single stream was
/// measured to be faster, a transfer that is alone gets the bandwidth of that stream.
fn together(law: ReadLaw) -> Bandwidth {
    if law.per_stream > law.bandwidth && law.per_stream.is_finite() {
        Bandwidth::ByTransfers(Box::new([law.per_stream, law.bandwidth]))
    } else {
        Bandwidth::Fixed(law.bandwidth)
    }
}

/// Returns the lognormal distribution with this mean [s] and standard deviation `sigma` of the logarithm; the
/// constant mean if `sigma` is too small or too large.
pub(super) fn spread_out(mean: f64, sigma: f64) -> Distribution {
    if mean > 0.0 && (1e-3..=3.0).contains(&sigma) {
        Distribution::Lognormal { mu: mean.ln() - sigma * sigma / 2.0, sigma }
    } else {
        Distribution::Constant(mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_unmeasured_speed_does_not_raise_the_bandwidth_of_all_transfers() {
        let law = |per_stream| ReadLaw {
            latency: 0.0,
            per_stream,
            bandwidth: 1e8,
            operations: f64::INFINITY,
            overhead: 0.0,
            cpu_fixed: 0.0,
            cpu_per_byte: 0.0,
        };
        let by_transfers = Bandwidth::ByTransfers(Box::new([2e8, 1e8]));
        assert_eq!(together(law(2e8)), by_transfers);
        assert_eq!(together(law(5e7)), Bandwidth::Fixed(1e8));
        assert_eq!(together(law(f64::INFINITY)), Bandwidth::Fixed(1e8));
    }
}
