//! How gradients of some size are reduced.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::collective::{Cost, Fabric, Schedule, closed_form};
use crate::scenario::{self, Fidelity};
use crate::sim::event::Delay;

use super::idle::idle_seconds;
use super::ways::Ways;

/// Most transfers that are followed one by one to find the time of a collective on an idle network.
const MOST_FOLLOWED: u64 = 4_000_000;

/// How gradients are reduced.
#[derive(Debug, Clone)]
pub(in crate::sim) enum Reduction {
    /// Transfer by transfer.
    Flow(Arc<Schedule>),
    /// In the time that it takes on an idle network.
    Analytic(Delay),
}

/// How gradients of any size are reduced by the ranks of a job copy.
#[derive(Debug)]
pub(in crate::sim) struct Plan {
    pub(in crate::sim) reduction: scenario::Reduction,
    pub(in crate::sim) fidelity: Fidelity,
    pub(in crate::sim) fabric: Fabric,
    /// What a transfer costs inside a node and across.
    pub(in crate::sim) costs: (Cost, Cost),
    /// By bytes, what was found before.
    pub(in crate::sim) known: BTreeMap<u64, Reduction>,
}

impl Plan {
    /// How `bytes` are reduced over `ways`.
    pub(super) fn of(&mut self, bytes: u64, ways: &Ways) -> Reduction {
        if let Some(known) = self.known.get(&bytes) {
            return known.clone();
        }
        let found = self.find(bytes, ways);
        self.known.insert(bytes, found.clone());
        found
    }

    fn find(&self, bytes: u64, ways: &Ways) -> Reduction {
        let collective = self.reduction.collective(bytes, &self.fabric);
        // What cannot be is refused when the scenario is read.
        let Ok(schedule) = collective.schedule().map(Arc::new) else {
            return Reduction::Analytic(Delay::once(0.0));
        };
        if self.fidelity == Fidelity::Flow {
            return Reduction::Flow(schedule);
        }
        let transfers = schedule.phases().saturating_mul(u64::from(self.fabric.ranks));
        let (inner, outer) = &self.costs;
        let seconds = match transfers <= MOST_FOLLOWED {
            true => idle_seconds(ways, &schedule),
            false => closed_form(&collective, inner, outer).unwrap_or(0.0),
        };
        Reduction::Analytic(Delay::once(seconds))
    }
}
