//! Settings that all kinds of storage have in common.

use super::tier::{self, CacheSettings, Tier};
use super::{
    Bandwidth, ReadCpu, RequestPath, Storage, WriteLimits, Written, file_server, local_disk,
    measured, memory, nvme_of, object_store, parallel_fs, shared,
};
use crate::Distribution;
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::{Field, List, Named};
use crate::number::{Amount, Positive};
use crate::role::Role;
use forebay_model::units;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Kind of storage, given as a table with its name: `[storage.NAME.file-server]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StorageSettings {
    /// The node's main memory.
    Memory(memory::Memory),
    /// A disk in each node.
    LocalDisk(local_disk::LocalDisk),
    /// One server that all nodes share, behind their NICs.
    FileServer(file_server::FileServer),
    /// A parallel file system: files striped over targets.
    ParallelFs(parallel_fs::ParallelFs),
    /// An object store: connections of limited speed, and a rate limit of requests.
    ObjectStore(object_store::ObjectStore),
    /// NVMe over fabrics: block devices of a shared target, through I/O queues of limited depth.
    NvmeOf(nvme_of::NvmeOf),
    /// Measured throughput, by size and number of requests.
    Measured(measured::Measured),
}

/// Checks and returns the storages of a scenario; `None` for each invalid one, whose problems are recorded. `layout`
/// returns the name of the layout of the data on the storage with a given name.
pub(crate) fn resolve(
    check: Check<'_>,
    settings: &Named<StorageSettings>,
    layout: impl Fn(&str) -> &'static str,
) -> Vec<Option<Storage>> {
    let one = |(name, field): &(String, Field<StorageSettings>)| {
        let (at, settings) = field.given()?;
        let at = check.inside(at);
        let kind = settings.kind();
        let path = kind.path(check, at, layout(name))?;
        // Object stores and block devices are no file systems.
        let is_measured = matches!(kind.name(), "file-server" | "parallel-fs");
        let measured = is_measured.then(|| shared::write_bandwidth(check)).flatten();
        Some(Storage {
            name: name.clone(),
            kind: kind.name(),
            path,
            warm: kind.warm(check, layout(name)),
            written: kind.written(),
            writes: kind.writes(),
            tier: kind.tier().map(|tier| Tier { write: tier.write.or(measured), ..tier }),
            cache: None,
        })
    };
    let mut all: Vec<Option<Storage>> = settings.0.iter().map(one).collect();
    let caches = tier::caches(check, settings, &all);
    for (storage, cache) in all.iter_mut().zip(caches) {
        storage.iter_mut().for_each(|storage| storage.cache = cache);
    }
    all
}

/// A kind of storage: a new kind must implement this trait and have a variant of [`StorageSettings`].
pub(super) trait Kind {
    /// Returns the name of the kind's table.
    fn name(&self) -> &'static str;

    /// Returns the resources that a request passes, for the storage whose table is at document node `at` and for data
    /// in files of this `layout`. Reports a problem and returns `None` if a key is invalid.
    fn path(&self, check: Check<'_>, at: NodeId, layout: &str) -> Option<RequestPath>;

    /// Returns the resources that a read passes if nodes' page caches hold all files from the start; `None` if they do not.
    fn warm(&self, _: Check<'_>, _layout: &str) -> Option<RequestPath> {
        None
    }

    /// Reports limits that the table at document node `at` leaves out and that it needs if something else than reads from page
    /// caches uses the storage. [`Kind::path`] reports those that any use needs.
    fn check_own_limits(&self, _check: Check<'_>, _at: NodeId, _layout: &str) {}

    /// Returns which limits of the storage the scenario file sets.
    fn written(&self) -> Written {
        Written::default()
    }

    /// Returns the storage's capacity and write bandwidth as a tier, if it can be one.
    fn tier(&self) -> Option<Tier> {
        None
    }

    /// Returns the limits of writes that differ from those of reads.
    fn writes(&self) -> WriteLimits {
        WriteLimits::default()
    }

    /// Returns the setting that caches the storage's files on nodes, if the kind has this setting.
    fn cache(&self) -> Option<&Field<CacheSettings>> {
        None
    }

    /// Returns whether the file leaves out a key whose value a profile may give.
    fn asks_profile(&self) -> bool {
        false
    }
}

impl StorageSettings {
    /// Calls [`Kind::check_own_limits`] of this kind.
    pub(crate) fn check_own_limits(&self, check: Check<'_>, at: NodeId, layout: &str) {
        self.kind().check_own_limits(check, at, layout);
    }

    pub(super) fn kind(&self) -> &dyn Kind {
        match self {
            Self::Memory(kind) => kind,
            Self::LocalDisk(kind) => kind,
            Self::FileServer(kind) => kind,
            Self::ParallelFs(kind) => kind,
            Self::ObjectStore(kind) => kind,
            Self::NvmeOf(kind) => kind,
            Self::Measured(kind) => kind,
        }
    }
}

/// Returns, for each storage, whether the file leaves out a key whose value a profile may give.
pub(crate) fn asks_profile(settings: &Named<StorageSettings>) -> Vec<bool> {
    let one = |(_, field): &(String, Field<StorageSettings>)| {
        field.get().is_some_and(|settings| settings.kind().asks_profile())
    };
    settings.0.iter().map(one).collect()
}

/// Returns the limit that is set, or infinity if none is set.
pub(super) fn or_infinite<D: units::Dimension>(field: &Field<Positive<D>>) -> f64 {
    field.get().map_or(f64::INFINITY, |given| given.0)
}

/// Returns the time that is set, or 0 s if none is set; `None` if the time is invalid.
pub(super) fn time_or_none(
    check: Check<'_>,
    field: &Field<Varying<units::Time>>,
) -> Option<Distribution> {
    match field.given() {
        Some((at, time)) => time.resolve(check, at),
        None => Some(Distribution::Constant(0.0)),
    }
}

/// Core time that each request costs the node; the request's time includes it.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CpuSettings {
    /// Core time for each request (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    fixed: Field<Amount<units::Time>>,
    /// Core time for each byte (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    per_byte: Field<Amount<units::Time>>,
}

impl CpuSettings {
    pub(super) fn resolve(&self) -> ReadCpu {
        let or_zero = |field: &Field<Amount<_>>| field.get().map_or(0.0, |given| given.0);
        ReadCpu { fixed: or_zero(&self.fixed), per_byte: or_zero(&self.per_byte) }
    }
}

/// A bandwidth, `"2 GB/s"`, or a list of bandwidths by number of concurrent transfers: `["1 GB/s", "1.8 GB/s"]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BandwidthSettings {
    Fixed(Positive<units::Bandwidth>),
    ByTransfers(List<Positive<units::Bandwidth>>),
}

impl BandwidthSettings {
    /// Returns the bandwidth; invalid elements of a list are left out, and their problems are recorded.
    pub(super) fn resolve(&self) -> Bandwidth {
        match self {
            Self::Fixed(bandwidth) => Bandwidth::Fixed(bandwidth.0),
            Self::ByTransfers(list) => {
                let table = list.0.iter().filter_map(|field| Some(field.get()?.0));
                Bandwidth::ByTransfers(table.collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for BandwidthSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrList;

        impl<'de> Visitor<'de> for OneOrList {
            type Value = BandwidthSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a bandwidth with its unit, like \"10 Gbit/s\", or a list of them,")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<BandwidthSettings, E> {
                let text = serde::de::value::StrDeserializer::new(text);
                Positive::deserialize(text).map(BandwidthSettings::Fixed)
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<BandwidthSettings, E> {
                let number = serde::de::value::I64Deserializer::new(value);
                Positive::deserialize(number).map(BandwidthSettings::Fixed)
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<BandwidthSettings, E> {
                let number = serde::de::value::F64Deserializer::new(value);
                Positive::deserialize(number).map(BandwidthSettings::Fixed)
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<BandwidthSettings, A::Error> {
                let mut table = Vec::new();
                while let Some(bandwidth) = seq.next_element()? {
                    table.push(bandwidth);
                }
                if table.is_empty() {
                    let message = "the list is empty\nwrite the bandwidth of 1, 2, 3 … transfers";
                    return Err(A::Error::custom(message));
                }
                Ok(BandwidthSettings::ByTransfers(List(table)))
            }
        }

        deserializer.deserialize_any(OneOrList)
    }
}

impl JsonSchema for BandwidthSettings {
    fn schema_name() -> Cow<'static, str> {
        "BandwidthByTransfers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Positive<units::Bandwidth>>();
        json_schema!({
            "description": "aggregate bandwidth, or a list of it by number of concurrent transfers",
            "anyOf": [one, { "type": "array", "minItems": 1, "items": one }],
        })
    }
}
