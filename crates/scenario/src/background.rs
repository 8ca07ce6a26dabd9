//! Settings of `[[background]]`.

use super::check::Check;
use super::distribution::settings::Varying;
use super::document::NodeId;
use super::field::Field;
use super::number::{Count, Positive};
use super::storage::Service;
use super::{Background, BackgroundLoad, Storage};
use crate::role::Role;
use forebay_model::units::{Bandwidth, Rate, Size};
use schemars::JsonSchema;
use serde::Deserialize;

/// A load on a storage that does not come from the scenario's jobs: write one of `streams` and `requests`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BackgroundSettings {
    /// Name, for reports.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) name: Field<String>,
    /// Name of the storage that the load uses.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    storage: Field<String>,
    /// Endless transfers, each as fast as sharing allows.
    #[schemars(extend("x-role" = Role::Limit))]
    streams: Field<StreamSettings>,
    /// Requests that arrive as a Poisson process.
    #[schemars(extend("x-role" = Role::Limit))]
    requests: Field<RequestSettings>,
}

/// Endless transfers.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StreamSettings {
    /// Number of transfers that go on at once.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    streams: Field<Count<1, 1_000_000>>,
    /// Highest bandwidth of one transfer (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    cap: Field<Positive<Bandwidth>>,
}

/// Requests that arrive as a Poisson process.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    /// Arrival rate.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    rate: Field<Positive<Rate>>,
    /// Size of a request.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    size: Field<Varying<Size>>,
}

impl BackgroundSettings {
    /// Returns the name of the storage that the load is on, if it is set.
    pub(super) fn storage(&self) -> Option<&str> {
        self.storage.get().map(String::as_str)
    }

    /// Checks the table at document node `at` and returns its load; `None` if the table is invalid.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        names: &[&str],
        storage: &[Option<Storage>],
    ) -> Option<Background> {
        let name = check.required(at, &self.name, "name", "write `name = \"backup\"`");
        check.required(at, &self.storage, "storage", "name a storage");
        let index = check.reference(&self.storage, "storage", names);
        let of = index.and_then(|index| storage.get(index)).and_then(Option::as_ref);
        let takes_load = |of: &&Storage| {
            let plain = of.path.targets.is_none() && of.path.limit.is_none();
            of.path.is_remote() && plain && of.path.service == Service::Link
        };
        if let Some(storage) = of.filter(|of| !takes_load(of)) {
            let what = match storage.path.is_remote() {
                true => format!("background load on {:?} is not simulated", storage.name),
                false => {
                    format!("{:?} is local to each node, so nothing outside loads it", storage.name)
                }
            };
            let remedy = "name a file server, or write the load as another `[[job]]`";
            check.wrong(self.storage.at.unwrap_or(at), what, remedy);
        }
        let choices = [("streams", self.streams.at), ("requests", self.requests.at)];
        let remedy = "write `streams = { streams = 4 }` or `requests = { rate = \"100 /s\", \
                      size = \"1 MiB\" }`";
        let load = match check.one_of(at, &choices, remedy)? {
            0 => self.streams.given().and_then(|(at, streams)| streams.resolve(check, at)),
            _ => self.requests.given().and_then(|(at, requests)| requests.resolve(check, at)),
        };
        Some(Background { name: name?.clone(), storage: index?, load: load? })
    }
}

impl StreamSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<BackgroundLoad> {
        let streams = check.required(at, &self.streams, "streams", "write `streams = 4`")?;
        let cap = self.cap.get().map_or(f64::INFINITY, |cap| cap.0);
        Some(BackgroundLoad::Streams { streams: streams.small(), cap })
    }
}

impl RequestSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<BackgroundLoad> {
        let rate = check.required(at, &self.rate, "rate", "write `rate = \"100 /s\"`");
        check.required(at, &self.size, "size", "write `size = \"1 MiB\"`");
        let size = self.size.given().and_then(|(at, size)| size.resolve(check, at));
        Some(BackgroundLoad::Requests { rate: rate?.0, size: size? })
    }
}
