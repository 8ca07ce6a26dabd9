//! Bursts: token buckets of bytes and of operations, from which a storage gives more than its sustained rates for a while.

use super::Bandwidth;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Factor, Positive, Share};
use crate::role::Role;
use forebay_model::law::TokenLaw;
use forebay_model::units::{Bandwidth as BytesPerSecond, Rate, Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Shortest period, and shortest time that empties a full bucket [s]: the simulator checks a bucket many times in either.
const SHORTEST: f64 = 1e-3;

/// The token bucket of a storage, or of each node's disk. Its bytes come in at the storage's sustained bandwidth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Bandwidth of all transfers together while the bucket holds bytes [B/s]; more than the sustained bandwidth.
    pub bandwidth: f64,
    /// Largest content of the bucket [B].
    pub bucket: f64,
    /// Content of the bucket when a run begins [B].
    pub content: f64,
    /// Period [s]: the bytes of a period enter the bucket at once when it begins, and nothing passes while the bucket is empty. `None`:
    /// bytes enter continuously, and pass at the sustained bandwidth while the bucket is empty.
    pub period: Option<f64>,
}

impl Burst {
    /// Returns the highest mean bandwidth over the first `seconds` of a run, for a storage of this sustained bandwidth [B/s].
    #[must_use]
    pub fn most_over(&self, sustained: f64, seconds: f64) -> f64 {
        self.bandwidth.min(sustained + self.content / seconds)
    }
}

/// Token buckets of bytes and of operations, by which a storage gives more than its `bandwidth` and `operations` for a while: the
/// credits of cloud volumes and file systems, and the gates of throttles.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BurstSettings {
    /// Bandwidth of all transfers together while the bucket holds bytes. The `bandwidth` of the storage, one value, is what the bucket
    /// gains per second (default: there is no bucket of bytes; required without `operations_bucket`).
    #[schemars(extend("x-role" = Role::Identity))]
    bandwidth: Field<Positive<BytesPerSecond>>,
    /// Size of the bucket; the bytes of one `period`, if these are more (default: the bytes of one period; required without `period`).
    #[schemars(extend("x-role" = Role::Identity))]
    bucket: Field<Positive<Size>>,
    /// Share of the bucket that is full when a run begins (default: 1).
    #[schemars(extend("x-role" = Role::Identity))]
    level: Field<Share>,
    /// Period of a gate: the bytes of a period enter the bucket at once when it begins, and nothing passes while the bucket is empty, as
    /// in Linux's `blk-throttle` (default: bytes enter continuously, and pass at the storage's `bandwidth` while the bucket is empty).
    #[schemars(extend("x-role" = Role::Identity))]
    period: Field<Positive<Time>>,
    /// Largest number of operations in a bucket of them, which gains the storage's `operations` per second (default: that of one
    /// `period` if `operations` is written here, otherwise there is no such bucket).
    #[schemars(extend("x-role" = Role::Identity))]
    operations_bucket: Field<Factor>,
    /// Operations per second while the bucket holds some (default: infinite).
    #[schemars(extend("x-role" = Role::Identity))]
    operations: Field<Positive<Rate>>,
}

impl BurstSettings {
    /// Returns whether the table sets a bucket of operations.
    fn has_operations(&self) -> bool {
        self.operations.is_written() || self.operations_bucket.is_written()
    }
}

/// Returns the token bucket that `field` sets, for a storage of this sustained `bandwidth`; `None` if there is none, or if it has no
/// effect, which is remarked. Reports what contradicts the storage's bandwidth.
pub(super) fn burst(
    check: Check<'_>,
    field: &Field<BurstSettings>,
    bandwidth: &Bandwidth,
) -> Option<Burst> {
    let (at, settings) = field.given()?;
    if settings.has_operations() && !settings.bandwidth.is_written() {
        check.no_effect(settings.bucket.at, "`burst` has no `bandwidth`");
        return None;
    }
    let remedy = "write `bandwidth = \"400 MB/s\"`";
    let fast = check.required(at, &settings.bandwidth, "bandwidth", remedy)?.0;
    let sustained = sustained(check, at, bandwidth)?;
    let period = settings.period.get().map(|period| period.0);
    if period.is_none() {
        let remedy = "write `bucket = \"6 GB\"`, or `period = \"100 ms\"`";
        check.required(at, &settings.bucket, "bucket", remedy)?;
    }
    if fast <= sustained {
        // Not an error, so that a faster storage can be tried without the removal of its bucket.
        check.no_effect(Some(at), "the storage's own `bandwidth` is not less");
        return None;
    }
    let of_period = period.map_or(0.0, |period| sustained * period);
    let written = settings.bucket.get().map_or(0.0, |bucket| bucket.0);
    if written < of_period {
        check.no_effect(settings.bucket.at, "the bytes of one `period` are more");
    }
    let bucket = written.max(of_period);
    check_times(check, settings, bucket / fast);
    let level = settings.level.get().map_or(1.0, |level| level.0);
    Some(Burst { bandwidth: fast, bucket, content: level * bucket, period })
}

/// Returns the bucket of operations that `field` sets, for a storage that serves `operations` per second in the long run; `None` if there
/// is none, or if it has no effect, which is remarked.
pub(super) fn operation_burst(
    check: Check<'_>,
    field: &Field<BurstSettings>,
    operations: f64,
) -> Option<TokenLaw> {
    let settings = field.get().filter(|settings| settings.has_operations())?;
    let written = [settings.operations_bucket.at, settings.operations.at];
    let fast = settings.operations.get().map_or(f64::INFINITY, |rate| rate.0);
    if operations.is_infinite() || fast <= operations {
        let why = match operations.is_infinite() {
            true => "nothing limits the storage's operations",
            false => "the storage's own `operations` are not less",
        };
        written.into_iter().for_each(|at| check.no_effect(at, why));
        return None;
    }
    let period = settings.period.get().map(|period| period.0);
    let of_period = period.map_or(1.0, |period| operations * period);
    let bucket = settings.operations_bucket.get().map_or(of_period, |number| number.0);
    let bucket = bucket.max(of_period);
    let level = settings.level.get().map_or(1.0, |level| level.0);
    Some(TokenLaw { sustained: operations, fast, bucket, content: level * bucket, period })
}

/// Returns the single finite bandwidth of a storage; reports a problem at the bucket's node `at` if there is none.
fn sustained(check: Check<'_>, at: NodeId, bandwidth: &Bandwidth) -> Option<f64> {
    let rate = match bandwidth {
        Bandwidth::Fixed(rate) => Some(*rate),
        Bandwidth::ByTransfers(table) if table.len() == 1 => table.first().copied(),
        Bandwidth::ByTransfers(_) => None,
    };
    match rate {
        Some(rate) if rate.is_finite() => return Some(rate),
        Some(_) => {
            let what = "a storage whose bandwidth is not limited has no bursts";
            check.wrong(at, what, "write the storage's `bandwidth`, which the bucket gains");
        }
        None => {
            let what =
                "the bandwidth after a burst is one value, not a list by number of transfers";
            check.wrong(at, what, "write one value for the storage's `bandwidth`");
        }
    }
    None
}

/// Reports a period that is too short to simulate, or a bucket that is: `lasts` is the time after which a full one is empty at the
/// bandwidth of bursts [s].
fn check_times(check: Check<'_>, settings: &BurstSettings, lasts: f64) {
    match settings.period.given() {
        Some((at, period)) if period.0 < SHORTEST => {
            check.wrong(at, "this is too short", "write at least \"1 ms\"");
        }
        None if lasts < SHORTEST => {
            if let Some(at) = settings.bucket.at {
                let what = "a full bucket is empty in less than a millisecond";
                check.wrong(at, what, "write a larger bucket, or leave out `burst`");
            }
        }
        _ => {}
    }
}
