//! How gradients of some size are reduced, and parameters broadcast.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_collective::{
    Across, Algorithm, Collective, Cost, Fabric, Operation, Schedule, closed_form,
};
use forebay_model::law::TransportLaw;
use forebay_report::format;
use forebay_scenario::{self, Fidelity, Members};

use super::idle::idle_seconds;
use super::ways::RankRoutes;
use crate::env::{Delay, broken};

/// Maximum number of transfers that are simulated one by one to find the time of a collective on an idle network.
const MOST_FOLLOWED: f64 = 4e6;

/// How a collective is simulated.
#[derive(Debug, Clone)]
pub(crate) enum Reduction {
    /// The collective is simulated transfer by transfer, at its measured pace if its time was measured.
    Flow(Arc<Schedule>, Option<Pace>),
    /// The collective is simulated as a single delay: its time on an idle network.
    Analytic(Delay),
}

/// The settings of a communicator that determine how its collectives are done, for any number of bytes.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) reduction: forebay_scenario::Reduction,
    /// Algorithm for broadcasting parameters from a root, if there is one.
    pub(crate) broadcast: forebay_scenario::Reduction,
    /// Measured time of allreduces, if they were measured.
    pub(crate) measured: Option<TransportLaw>,
    pub(crate) fidelity: Fidelity,
    pub(crate) fabric: Fabric,
    /// Cost of a transfer inside a node. `across` is the cost of a transfer between nodes that has the NIC to itself, `shared`
    /// its cost while the node's other ranks transfer too.
    pub(crate) inside: Cost,
    pub(crate) across: Cost,
    pub(crate) shared: Cost,
    /// Whether the costs `inside`, `across` and `shared` are exact: no link is shared, except for the NICs of a node, which are
    /// shared evenly.
    pub(crate) uniform: bool,
    /// Groups of ranks (this communicator's included) that do the same collectives at the same time, over links that they may
    /// share.
    pub(crate) side_by_side: Vec<Members>,
    /// How each collective is simulated, by operation and bytes, once that has been determined.
    pub(crate) known: BTreeMap<(Operation, u64), Reduction>,
}

impl Plan {
    /// Returns how a collective of `operation` on `bytes` bytes over the routes `ways` is simulated.
    pub(crate) fn reduction_of(
        &mut self,
        operation: Operation,
        bytes: u64,
        ways: &RankRoutes,
    ) -> Reduction {
        if self.fabric.ranks < 2 {
            return Reduction::Analytic(Delay::once(0.0));
        }
        if let Some(known) = self.known.get(&(operation, bytes)) {
            return known.clone();
        }
        let found = self.find(operation, bytes, ways);
        self.known.insert((operation, bytes), found.clone());
        found
    }

    /// Returns the collective of `operation` on `bytes` bytes.
    pub(super) fn collective(&self, operation: Operation, bytes: u64) -> Collective {
        let broadcasts = operation == Operation::Broadcast;
        let way = if broadcasts { &self.broadcast } else { &self.reduction };
        way.collective(operation, bytes, &self.fabric)
    }

    /// Returns the collective's name in timelines.
    pub(super) fn name(&self, operation: Operation, bytes: u64) -> String {
        let algorithm = match self.measured {
            Some(_) => "measured",
            None => self.collective(operation, bytes).algorithm.name(),
        };
        format!("{} {}, {algorithm}", operation.name(), format::bytes(bytes as f64))
    }

    fn find(&self, operation: Operation, bytes: u64, ways: &RankRoutes) -> Reduction {
        if let Some(law) = self.measured.as_ref().filter(|_| operation == Operation::Allreduce) {
            return allreduce(law, bytes, self.fabric.ranks, self.fidelity);
        }
        let collective = self.collective(operation, bytes);
        let Ok(schedule) = collective.schedule().map(Arc::new) else {
            broken("collectives that have no schedule are refused when the scenario is read");
            return Reduction::Analytic(Delay::once(0.0));
        };
        if self.fidelity == Fidelity::Flow {
            return Reduction::Flow(schedule, None);
        }
        let seconds = match self.by_formula(&collective, &schedule) {
            Some(seconds) => seconds,
            None => self.followed(&collective, &schedule, ways),
        };
        Reduction::Analytic(Delay::once(seconds))
    }

    /// Returns the time of a collective on an idle network [s], from a simulation. If that takes too many transfers, returns
    /// the time by a formula that is not exact.
    fn followed(
        &self,
        collective: &Collective,
        schedule: &Arc<Schedule>,
        ways: &RankRoutes,
    ) -> f64 {
        let each = collective.most_transfers().unwrap_or(f64::INFINITY);
        if each * self.side_by_side.len() as f64 <= MOST_FOLLOWED {
            return idle_seconds(ways, schedule, &self.side_by_side);
        }
        let across = if collective.channels > 1 { &self.across } else { &self.shared };
        closed_form(collective, &self.inside, across).unwrap_or_else(|_| {
            broken("collectives that are not valid are refused when the scenario is read");
            0.0
        })
    }

    /// Returns the time of a collective by its closed formula [s]; `None` if the formula is not exact for this collective.
    fn by_formula(&self, collective: &Collective, schedule: &Schedule) -> Option<f64> {
        if !self.uniform {
            return None;
        }
        if collective.operation.has_root() {
            return self.by_root(collective);
        }
        let (nodes, ranks) = (self.fabric.nodes(), self.fabric.ranks_per_node);
        let Some(levels) = &collective.levels else {
            if collective.channels == 1 {
                return self.in_one_level(collective.algorithm, schedule);
            }
            // The formula assumes that inside each node some rank sends the bytes of all channels. If each rank is the last
            // one of a channel, no rank does so.
            let ring = collective.algorithm == Algorithm::Ring && collective.channels < ranks;
            return ring.then(|| closed_form(collective, &self.inside, &self.across).ok())?;
        };
        let exact = self.fabric.ranks == nodes * ranks
            && levels.across == Across::SameIndex
            && is_in_step(levels.inner, ranks)
            && is_in_step(levels.outer, nodes);
        exact.then(|| closed_form(collective, &self.inside, &self.shared).ok())?
    }

    /// Returns the time of a collective from or to a root over a single kind of link [s]; `None` if there are several kinds,
    /// or if sums overlap with the transfer of pieces.
    fn by_root(&self, collective: &Collective) -> Option<f64> {
        let cost = match (self.fabric.nodes(), self.fabric.ranks_per_node) {
            (1, _) => &self.inside,
            (_, 1) => &self.across,
            _ => return None,
        };
        let exact = match collective.algorithm {
            Algorithm::Flat => true,
            // Pieces that a rank sends at the same time share its links, but not its cores.
            Algorithm::BinomialTree => collective.chunk.is_none(),
            Algorithm::Ring => cost.gamma == 0.0 || collective.chunk.is_none(),
            Algorithm::ScatterAllgather
            | Algorithm::RecursiveDoubling
            | Algorithm::HalvingDoubling
            | Algorithm::Bruck
            | Algorithm::DoubleBinaryTree
            | Algorithm::Hierarchical
            | Algorithm::InSwitch => false,
        };
        exact.then(|| closed_form(collective, cost, cost).ok())?
    }

    /// Returns the time of a collective that is not hierarchical [s]; `None` if it is not known exactly. The slowest link
    /// determines the time of a ring; for other algorithms the time is exact only if all links are of one kind.
    fn in_one_level(&self, algorithm: Algorithm, schedule: &Schedule) -> Option<f64> {
        let (nodes, ranks) = (self.fabric.nodes(), self.fabric.ranks_per_node);
        let costs = match (nodes, ranks) {
            (1, _) => vec![&self.inside],
            (_, 1) => vec![&self.across],
            _ if algorithm == Algorithm::Ring => vec![&self.inside, &self.across],
            _ => return None,
        };
        if !is_in_step(algorithm, self.fabric.ranks) {
            return None;
        }
        let times = costs.into_iter().map(|cost| schedule.in_step(cost));
        times.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
    }
}

/// Returns whether all ranks do the same in each phase.
fn is_in_step(algorithm: Algorithm, ranks: u32) -> bool {
    match algorithm {
        Algorithm::Ring => true,
        Algorithm::HalvingDoubling | Algorithm::RecursiveDoubling => ranks.is_power_of_two(),
        Algorithm::Flat
        | Algorithm::BinomialTree
        | Algorithm::ScatterAllgather
        | Algorithm::Bruck
        | Algorithm::DoubleBinaryTree
        | Algorithm::Hierarchical
        | Algorithm::InSwitch => false,
    }
}

/// A pace of transfers that is used instead of the transport's: latency and throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// Latency before a transfer's bytes.
    pub(super) latency: Delay,
    /// Maximum throughput of each transfer [B/s].
    pub(super) cap: f64,
}

/// Returns how to simulate an allreduce of `bytes` among `ranks` ranks so that it takes the measured time, which `law` gives.
///
/// The measurement does not say how much the allreduce used each link. The allreduce is assumed to load links as a ring does:
/// after the part of its time that does not depend on the size, each rank sends 2 (n − 1) ÷ n of the bytes to the next one, at
/// most at the measured throughput, which nccl-tests call the bus bandwidth.
pub(super) fn allreduce(
    law: &TransportLaw,
    bytes: u64,
    ranks: u32,
    fidelity: Fidelity,
) -> Reduction {
    let size = bytes as f64;
    let [fixed, moving] = law.parts(size);
    if fidelity == Fidelity::Analytic || moving <= 0.0 {
        return Reduction::Analytic(Delay::once(fixed + moving));
    }
    let each = (2.0 * size * (1.0 - 1.0 / f64::from(ranks))).round().max(1.0);
    let pace = Pace { latency: Delay::once(fixed), cap: each / moving };
    Reduction::Flow(Arc::new(Schedule::to_next(ranks, each as u64)), Some(pace))
}
