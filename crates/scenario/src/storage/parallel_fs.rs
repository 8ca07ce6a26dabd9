//! A parallel file system: files striped over targets, and a metadata server.

use super::burst::{BurstSettings, burst, operation_burst};
use super::service::{InFlight, ServiceKeys, ServiceOrder};
use super::settings::Kind;
use super::shared::{SharedFit, SharedKeys, sharing};
use super::tier::{CacheSettings, Tier};
use super::{
    Access, Bandwidth, Location, RequestPath, StripeOffset, Targets, WriteLimits, Written,
};
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive};
use crate::role::Role;
use forebay_model::units::{self, Rate, Size, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Default stripe size [B]: Lustre's.
const STRIPE: f64 = 1_048_576.0;

/// Default piece [B]: the size of a request by Lustre's clients (`max_pages_per_rpc`, 256 pages of 4 KiB: `client_obd_setup`).
const PIECE: f64 = 1_048_576.0;

/// A parallel file system, such as Lustre, BeeGFS or GPFS: files striped over targets, and a metadata server.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParallelFs {
    /// Number of storage targets (default: one, if the profile of a cluster says what all together reach).
    #[schemars(extend("x-role" = Role::Limit))]
    targets: Field<Count<1, 10_000>>,
    /// Bandwidth of each target (default: infinite, if the profile of a cluster says what all together reach).
    #[schemars(extend("x-role" = Role::Limit))]
    target_bandwidth: Field<Positive<units::Bandwidth>>,
    /// Maximum number of targets that a file is striped over (default: 1).
    #[schemars(extend("x-role" = Role::Choice))]
    stripe_count: Field<Count<1, 10_000>>,
    /// Stripe size: bytes of a file on one target before the file goes on to the next target (default: 1 MiB).
    #[schemars(extend("x-role" = Role::Choice))]
    stripe_size: Field<Positive<Size>>,
    /// Target on which every file begins, counted from 0, or "round-robin": each file begins on the target after
    /// the last target of the previous file, as Lustre places files (default: "round-robin").
    #[schemars(extend("x-role" = Role::Choice))]
    stripe_offset: Field<StripeOffsetSettings>,
    /// Bandwidth of all transfers together (default: as the profile of a cluster says, or infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    bandwidth: Field<Positive<units::Bandwidth>>,
    /// Token bucket by which the file system gives more than its `bandwidth` for a while: the credits of a cloud file system
    /// (default: there is none).
    #[schemars(extend("x-role" = Role::Identity))]
    burst: Field<BurstSettings>,
    /// Highest bandwidth of one transfer (default: as the profile of a cluster says, or infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    per_stream: Field<Positive<units::Bandwidth>>,
    /// Highest bandwidth of all transfers of one node together, as a node's client has (default: as the profile of a cluster says, or
    /// infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    per_client: Field<Positive<units::Bandwidth>>,
    /// Time from request to first byte (default: as the profile of a cluster says, or 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    latency: Field<Varying<Time>>,
    /// File opens per second that the metadata server can serve (default: as the profile of a cluster says, or infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    operations: Field<Positive<Rate>>,
    /// How reads by loaders share the bandwidth of each target: "in-order": in order of arrival, `in_flight` at once, as Lustre's request
    /// scheduler `fifo` does; "round-robin": clients take turns, as with `crrn`; "fair": all at once, with the same bandwidth for each
    /// (default: "fair"). A request waits at its first target.
    #[schemars(extend("x-role" = Role::Identity))]
    service: Field<ServiceOrder>,
    /// Requests that a target serves at once, with "in-order" and "round-robin" (default: as many as reach its bandwidth).
    #[schemars(extend("x-role" = Role::Limit))]
    in_flight: Field<InFlight>,
    /// Bytes of a request that are served in a turn, with "round-robin"; its rest waits for the client's next turn (default: 1 MiB, as a
    /// remote procedure call of Lustre's clients asks for).
    #[schemars(extend("x-role" = Role::Identity))]
    piece: Field<Positive<Size>>,
    /// Capacity of the file system for data sets that jobs copy to it (default: as much as they copy).
    #[schemars(extend("x-role" = Role::Limit))]
    capacity: Field<Positive<Size>>,
    /// Bandwidth of all writes together; writes and reads share the file system (default: as the profile of a cluster says, or as that of
    /// reads).
    #[schemars(extend("x-role" = Role::Limit))]
    write_bandwidth: Field<Positive<units::Bandwidth>>,
    /// Highest bandwidth of one writer, such as a rank that writes its part of a checkpoint (default: as `per_stream`).
    #[schemars(extend("x-role" = Role::Limit))]
    write_per_stream: Field<Positive<units::Bandwidth>>,
    /// Highest bandwidth of all writers of one node together, beside what the node reads (default: reads and writes share `per_client`).
    #[schemars(extend("x-role" = Role::Limit))]
    write_per_client: Field<Positive<units::Bandwidth>>,
    /// Cache of the file system's files on a tier of each node (default: nothing).
    #[schemars(extend("x-role" = Role::Limit))]
    cache: Field<CacheSettings>,
}

impl Kind for ParallelFs {
    fn name(&self) -> &'static str {
        "parallel-fs"
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
            bandwidth: true,
            per_stream: self.per_stream.is_written(),
            per_client: self.per_client.is_written(),
            latency: self.latency.is_written(),
            operations: self.operations.is_written(),
            queues: false,
            burst: self.burst.is_written(),
        }
    }

    fn path(&self, check: Check<'_>, at: NodeId, _: &str) -> Option<RequestPath> {
        let fit = SharedFit::of(check);
        let (number, target) = match (fit, self.targets.at.or(self.target_bandwidth.at)) {
            // What all targets reach together was measured.
            (Some(_), None) => (1, f64::INFINITY),
            _ => {
                let number = check.required(at, &self.targets, "targets", "write `targets = 16`");
                let remedy = "write `target_bandwidth = \"1 GB/s\"`";
                let target = check.required(at, &self.target_bandwidth, "target_bandwidth", remedy);
                (number?.small(), target?.0)
            }
        };
        let stripe_count = self.stripe_count.get().map_or(1, |count| count.small());
        if stripe_count > number {
            let at = self.stripe_count.at.unwrap_or(at);
            let what = format!("a file cannot be on {stripe_count} of {number} targets");
            check.wrong(at, what, format!("write at most {number}"));
        }
        self.check_offset(check, at, number);
        let measured = || fit.map_or(f64::INFINITY, SharedFit::bandwidth);
        let together = self.bandwidth.get().map_or_else(measured, |given| given.0);
        let together = Bandwidth::Fixed(together);
        let keys =
            ServiceKeys { service: &self.service, in_flight: &self.in_flight, piece: &self.piece };
        let shared = SharedKeys {
            per_stream: &self.per_stream,
            per_client: &self.per_client,
            latency: &self.latency,
            operations: &self.operations,
        };
        let path = shared.fill(check, RequestPath::unlimited(Location::Shared, Access::Cold))?;
        Some(RequestPath {
            burst: burst(check, &self.burst, &together),
            operation_burst: operation_burst(check, &self.burst, path.operations),
            sharing: sharing(
                check,
                &keys,
                keys.resolve(check, ServiceOrder::Fair, PIECE),
                &path,
                together.most(),
            ),
            bandwidth: together,
            targets: Some(Targets {
                number,
                bandwidth: target,
                stripe_count: stripe_count.min(number),
                stripe_size: self.stripe_size.get().map_or(STRIPE, |size| size.0),
                stripe_offset: self.offset(),
            }),
            ..path
        })
    }
}

impl ParallelFs {
    fn offset(&self) -> StripeOffset {
        match self.stripe_offset.get() {
            Some(StripeOffsetSettings::Target(target)) => StripeOffset::Target(target.small()),
            Some(StripeOffsetSettings::RoundRobin) | None => StripeOffset::RoundRobin,
        }
    }

    /// Checks that the target on which files begin exists.
    fn check_offset(&self, check: Check<'_>, at: NodeId, number: u32) {
        if let StripeOffset::Target(target) = self.offset()
            && target >= number
        {
            let at = self.stripe_offset.at.unwrap_or(at);
            let what = format!("files cannot begin on target {target} of {number}");
            check.wrong(at, what, format!("write 0 to {}, or \"round-robin\"", number - 1));
        }
    }
}

/// A target's number, or `"round-robin"`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum StripeOffsetSettings {
    RoundRobin,
    Target(Count<0, 9_999>),
}

impl<'de> Deserialize<'de> for StripeOffsetSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TargetOrWord;

        impl Visitor<'_> for TargetOrWord {
            type Value = StripeOffsetSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"round-robin\" or the number of a target")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                match text {
                    "round-robin" => Ok(StripeOffsetSettings::RoundRobin),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                Count::check(value).map(StripeOffsetSettings::Target)
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
                Count::check(value).map(StripeOffsetSettings::Target)
            }
        }

        deserializer.deserialize_any(TargetOrWord)
    }
}

impl JsonSchema for StripeOffsetSettings {
    fn schema_name() -> Cow<'static, str> {
        "StripeOffset".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let target = generator.subschema_for::<Count<0, 9_999>>();
        json_schema!({
            "description": "the target that files begin on, or \"round-robin\"",
            "anyOf": [target, { "const": "round-robin" }],
        })
    }
}
