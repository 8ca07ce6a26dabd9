//! An object store: connections of limited speed, and a rate limit of requests.

use super::settings::{Kind, or_infinite, time_or_none};
use super::tier::{CacheSettings, Tier};
use super::{Access, Bandwidth, Location, RequestLimit, RequestPath, WriteLimits, Written};
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive};
use crate::role::Role;
use forebay_model::units::{self, Rate, Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Default maximum waits after the first refusal and after any refusal [s]: those of Amazon's SDKs.
const FIRST: f64 = 0.1;
const MOST: f64 = 20.0;
/// Minimum value of `retry.most` [s].
const SHORTEST: f64 = 1e-3;

/// An object store, such as S3 or Azure Blob: each request has a connection of its own, and requests beyond a rate
/// are refused and retried.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ObjectStore {
    /// Highest bandwidth of one connection (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    per_connection: Field<Positive<units::Bandwidth>>,
    /// Highest bandwidth of all requests of one node together, as a node's client has (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    per_client: Field<Positive<units::Bandwidth>>,
    /// Time from request to first byte (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    latency: Field<Varying<Time>>,
    /// Bandwidth of all requests together (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    bandwidth: Field<Positive<units::Bandwidth>>,
    /// Requests per second that are served (default: all).
    #[schemars(extend("x-role" = Role::Limit))]
    requests: Field<Positive<Rate>>,
    /// Number of requests that are served in a burst before the rate limits them (default: those of a second).
    #[schemars(extend("x-role" = Role::Limit))]
    burst: Field<Count<1, 1_000_000_000>>,
    /// How refused requests are retried (default: as `first` and `most` are by default).
    #[schemars(extend("x-role" = Role::Limit))]
    retry: Field<Retry>,
    /// Capacity of the object store for data sets that jobs copy to it (default: as much as they copy).
    #[schemars(extend("x-role" = Role::Limit))]
    capacity: Field<Positive<Size>>,
    /// Bandwidth of all writes together; writes and reads share the object store (default: as that of reads).
    #[schemars(extend("x-role" = Role::Limit))]
    write_bandwidth: Field<Positive<units::Bandwidth>>,
    /// Highest bandwidth of one writer, such as a rank that writes its part of a checkpoint (default: as `per_connection`).
    #[schemars(extend("x-role" = Role::Limit))]
    write_per_stream: Field<Positive<units::Bandwidth>>,
    /// Highest bandwidth of all writers of one node together, beside what the node reads (default: reads and writes share `per_client`).
    #[schemars(extend("x-role" = Role::Limit))]
    write_per_client: Field<Positive<units::Bandwidth>>,
    /// Cache of the object store's files on a tier of each node (default: nothing).
    #[schemars(extend("x-role" = Role::Limit))]
    cache: Field<CacheSettings>,
}

/// Exponential back-off with full jitter.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Retry {
    /// Maximum wait after the first refusal, doubled after each further one (default: 100 ms).
    #[schemars(extend("x-role" = Role::Limit))]
    first: Field<Positive<Time>>,
    /// Maximum wait after any refusal (default: 20 s).
    #[schemars(extend("x-role" = Role::Limit))]
    most: Field<Positive<Time>>,
}

impl Kind for ObjectStore {
    fn name(&self) -> &'static str {
        "object-store"
    }

    fn tier(&self) -> Option<Tier> {
        Some(Tier::new(&self.capacity, &self.write_bandwidth))
    }

    fn writes(&self) -> WriteLimits {
        let rate = |key: &Field<Positive<units::Bandwidth>>| key.get().map(|of| of.0);
        WriteLimits {
            per_stream: rate(&self.write_per_stream),
            per_client: rate(&self.write_per_client),
        }
    }

    fn cache(&self) -> Option<&Field<CacheSettings>> {
        Some(&self.cache)
    }

    fn written(&self) -> Written {
        Written {
            bandwidth: self.bandwidth.is_written(),
            per_stream: self.per_connection.is_written(),
            per_client: self.per_client.is_written(),
            latency: self.latency.is_written(),
            operations: self.requests.is_written(),
            queues: false,
            burst: false,
        }
    }

    /// Returns the resources that a request passes: clients read objects over HTTP and bypass the page cache.
    fn path(&self, check: Check<'_>, _: NodeId, _: &str) -> Option<RequestPath> {
        Some(RequestPath {
            latency: time_or_none(check, &self.latency)?,
            bandwidth: Bandwidth::Fixed(or_infinite(&self.bandwidth)),
            per_stream: or_infinite(&self.per_connection),
            per_client: or_infinite(&self.per_client),
            limit: self.limit(check),
            ..RequestPath::unlimited(Location::Shared, Access::Direct)
        })
    }
}

impl ObjectStore {
    fn limit(&self, check: Check<'_>) -> Option<RequestLimit> {
        let Some(rate) = self.requests.get() else {
            for at in [self.burst.at, self.retry.at].into_iter().flatten() {
                let path = check.document.path(at);
                check.remark(format!("`{path}` has no effect: `requests` is not set."));
            }
            return None;
        };
        let most = self.retry.get().and_then(|retry| retry.most.given());
        if let Some((at, _)) = most.filter(|(_, most)| most.0 < SHORTEST) {
            let what = "refused requests that never wait longer than this are retried without end";
            check.wrong(at, what, "write at least \"1 ms\"");
        }
        let retry = |of: fn(&Retry) -> &Field<Positive<Time>>| Some(of(self.retry.get()?).get()?.0);
        let first = retry(|retry| &retry.first).unwrap_or(FIRST);
        let burst = self.burst.get().map_or(rate.0.max(1.0), |burst| burst.0 as f64);
        Some(RequestLimit {
            rate: rate.0,
            burst,
            tokens: burst,
            first,
            most: retry(|retry| &retry.most).unwrap_or(MOST).max(first),
        })
    }
}
