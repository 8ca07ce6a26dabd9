//! The order in which a storage serves reads of different size: the keys `service`, `in_flight` and `piece`.

use super::Sharing;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive};
use forebay_model::units::Size;
use schemars::JsonSchema;

/// Order of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ServiceOrder {
    /// Requests are served in order of arrival, `in_flight` at once.
    InOrder,
    /// Each client has a queue of its own in order of arrival, and clients take turns: the next turn is that of the client whose last
    /// turn began longest ago. `in_flight` turns are served at once. A client is a job copy on a node.
    RoundRobin,
    /// All requests get the same bandwidth.
    Fair,
}

/// Smallest piece [B].
const SECTOR: f64 = 512.0;

/// Number of requests that are served at once.
pub(super) type InFlight = Count<1, 65_536>;

/// The keys of a storage that say in which order it serves reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServiceKeys<'f> {
    pub(super) service: &'f Field<ServiceOrder>,
    pub(super) in_flight: &'f Field<InFlight>,
    pub(super) piece: &'f Field<Positive<Size>>,
}

impl ServiceKeys<'_> {
    /// Returns the document nodes of the keys that are written.
    pub(super) fn written(self) -> impl Iterator<Item = NodeId> {
        [self.service.at, self.in_flight.at, self.piece.at].into_iter().flatten()
    }

    /// Returns how requests share the bandwidth; `order` and `piece` [B] hold where the keys are not written. Reports keys that the order
    /// of service does not know.
    pub(super) fn resolve(self, check: Check<'_>, order: ServiceOrder, piece: f64) -> Sharing {
        let order = self.service.get().copied().unwrap_or(order);
        if let (Some((at, _)), true) = (self.piece.given(), order != ServiceOrder::RoundRobin) {
            let what = "only clients that take turns are served in pieces";
            check.wrong(at, what, "write `service = \"round-robin\"`, or leave out `piece`");
        }
        if let (Some((at, _)), ServiceOrder::Fair) = (self.in_flight.given(), order) {
            let what = "requests that share fairly do not wait for each other";
            check.wrong(at, what, "write `service = \"in-order\"`, or leave out `in_flight`");
        }
        if let Some((at, piece)) = self.piece.given()
            && piece.0 < SECTOR
        {
            check.wrong(at, "storages serve at least a sector at once", "write at least \"512 B\"");
        }
        let in_flight = self.in_flight.get().map(|number| number.small());
        match order {
            ServiceOrder::InOrder => Sharing::InOrder { in_flight },
            ServiceOrder::RoundRobin => {
                let piece = self.piece.get().map_or(piece, |piece| piece.0);
                Sharing::RoundRobin { in_flight, piece }
            }
            ServiceOrder::Fair => Sharing::Fair,
        }
    }
}
