//! Core time that messages take on the nodes of their senders and receivers.

use std::collections::BTreeMap;

use forebay_engine::fluid::{Capacity, Demand, GroupId, Network, Use};
use forebay_scenario::MessageCpu;

use crate::event::{ActivityId, Delay};
use crate::ids::{IdVec, StationId};
use crate::station::{Service, Station};
use crate::worker::Cores;

/// Core-seconds of messages, and the cores that spend them.
#[derive(Debug, Clone)]
pub(crate) struct Overhead {
    pub(crate) cost: MessageCpu,
    /// Core-seconds that a server spends for each byte that it receives [core-s/B]; `servers` is the number of the first rank
    /// that is a server.
    pub(crate) update: f64,
    pub(crate) servers: u32,
    /// The cores of each rank's node, if messages from and to the rank use any.
    pub(crate) cores: Vec<Option<Cores>>,
    /// For each different entry of `cores`, a description from which an unshared copy of these cores can be made.
    pub(crate) idle: BTreeMap<Cores, IdleCores>,
}

/// The cores of a node while nothing else uses them.
#[derive(Debug, Clone)]
pub(crate) enum IdleCores {
    /// Number of cores that are used one by one, as servers of a FIFO station, up to a CPU quota [cores], which may be infinite.
    Slots { cores: u32, quota: f64 },
    /// Cores that threads share, up to a CPU quota [cores], which may be infinite.
    Shared { cores: Capacity, quota: f64 },
}

impl Overhead {
    /// Returns the cores that a message of `bytes` bytes uses at `rank`, and for how long [core-s]; `gets` is true at the
    /// receiver, false at the sender. `None` if the message needs no core time. Switches need no cores.
    pub(super) fn of(&self, rank: u32, bytes: u64, gets: bool) -> Option<(Cores, f64)> {
        let adds = gets && rank >= self.servers;
        let update = if adds { self.update * bytes as f64 } else { 0.0 };
        let seconds = self.cost.seconds(bytes as f64) + update;
        let cores = self.cores.get(rank as usize).copied().flatten()?;
        (seconds > 0.0).then_some((cores, seconds))
    }

    /// Returns the same overhead on copies of the cores. The copies are added to `network` and `stations`, and nothing else
    /// uses them.
    pub(super) fn alone(
        &self,
        network: &mut Network<ActivityId>,
        stations: &mut IdVec<StationId, Service>,
    ) -> Overhead {
        let idle = self.idle.iter().map(|(cores, idle)| (*cores, idle.make(network, stations)));
        let idle: BTreeMap<Cores, Cores> = idle.collect();
        let cores = self.cores.iter().map(|cores| idle.get(cores.as_ref()?).copied()).collect();
        Overhead { cores, idle: BTreeMap::new(), ..*self }
    }
}

impl IdleCores {
    fn make(
        &self,
        network: &mut Network<ActivityId>,
        stations: &mut IdVec<StationId, Service>,
    ) -> Cores {
        match self {
            IdleCores::Slots { cores, quota } => {
                let service = Delay::once(0.0);
                let station = stations.push(Service { queue: Station::new(*cores), service });
                let limit = quota.is_finite().then_some(Capacity::Fixed(*quota));
                match limit {
                    None => Cores::Fifo(station),
                    Some(limit) => Cores::Paced(station, group([limit], network)),
                }
            }
            IdleCores::Shared { cores, quota } => {
                let quota = quota.is_finite().then_some(Capacity::Fixed(*quota));
                Cores::Shared(group([Some(cores.clone()), quota].into_iter().flatten(), network))
            }
        }
    }
}

/// Returns a group of flows over new links with these capacities.
fn group(
    capacities: impl IntoIterator<Item = Capacity>,
    network: &mut Network<ActivityId>,
) -> GroupId {
    let links = capacities.into_iter();
    let route = links.map(|cores| Use { link: network.link(cores), per_unit: 1.0 }).collect();
    network.group(Demand { route, weight: 1.0, cap: 1.0 })
}
