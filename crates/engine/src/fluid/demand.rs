//! Types of the network's interface: links, groups, flows and demands, and the reports on flows and
//! links.

/// Identifies a link, which is a shared resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) u32);

impl LinkId {
    /// Returns the id of the link that was added after `index` others; for
    /// [`super::max_min_shares`], of the link whose capacity is at `index`.
    pub fn new(index: usize) -> LinkId {
        LinkId(u32::try_from(index).expect("fewer than 2^32 links"))
    }

    /// Returns the number of links that were added before this one.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Identifies a group: all flows with one demand, which all have the same rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub(super) u32);

impl GroupId {
    /// Returns the number of groups that were made before this one.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Identifies a flow, or several flows that were started together. Cancelling by this id has no
/// effect once the flow has finished or was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// The capacity of a link [unit/s]; zero and infinity are allowed.
#[derive(Debug, Clone, PartialEq)]
pub enum Capacity {
    /// A capacity that does not depend on the number of active flows.
    Fixed(f64),
    /// A capacity for each number of active flows: entry n - 1 while n flows are active, the last
    /// entry beyond the table.
    ByFlows(Box<[f64]>),
}

impl Capacity {
    /// Returns the capacity with `flows` active flows [unit/s].
    #[inline]
    pub fn at(&self, flows: u64) -> f64 {
        match self {
            Capacity::Fixed(capacity) => *capacity,
            Capacity::ByFlows(table) => {
                let last = table.len() as u64;
                table[(flows.clamp(1, last) - 1) as usize]
            }
        }
    }

    /// Panics if a capacity is negative or not a number, or if a table is empty.
    pub(super) fn check(&self) {
        let table = match self {
            Capacity::Fixed(capacity) => std::slice::from_ref(capacity),
            Capacity::ByFlows(table) => table,
        };
        assert!(!table.is_empty(), "a capacity by flows has an entry");
        assert!(table.iter().all(|&c| c >= 0.0), "a capacity is not negative");
    }
}

/// One link of a route.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// The link.
    pub link: LinkId,
    /// Capacity used per unit of work [link unit/unit of work]; zero uses nothing.
    pub per_unit: f64,
}

/// The demand of a flow: its route, weight and cap.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// The links used, in any order; a link that appears twice is used twice.
    pub route: Box<[Use]>,
    /// Weight of the flow's rate relative to other flows; positive.
    pub weight: f64,
    /// Largest rate of one flow [unit of work/s]; may be infinite.
    pub cap: f64,
}

impl Demand {
    /// Returns the demand in normal form: links in ascending order, each of them once, none with
    /// zero use.
    pub(super) fn normal(self) -> Demand {
        assert!(self.weight > 0.0 && self.weight.is_finite(), "a weight is positive");
        assert!(self.cap >= 0.0, "a cap is not negative");
        let mut route = self.route.into_vec();
        assert!(
            route.iter().all(|u| u.per_unit >= 0.0 && u.per_unit.is_finite()),
            "a use is finite and not negative"
        );
        route.retain(|u| u.per_unit > 0.0);
        route.sort_by_key(|u| u.link);
        route.dedup_by(|next, kept| {
            let same = next.link == kept.link;
            kept.per_unit += if same { next.per_unit } else { 0.0 };
            same
        });
        Demand { route: route.into(), ..self }
    }

    /// Returns a key that is equal for equal demands; the demand must be in normal form.
    pub(super) fn key(&self) -> Box<[u64]> {
        let uses = self.route.iter().flat_map(|u| [u64::from(u.link.0), u.per_unit.to_bits()]);
        [self.weight.to_bits(), self.cap.to_bits()].into_iter().chain(uses).collect()
    }
}

/// A flow that has done its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished<T> {
    /// The token that the caller gave at the start.
    pub token: T,
    /// The flow's id, which is no longer valid.
    pub flow: FlowId,
    /// Number of flows that were started together under this id.
    pub count: u32,
}

/// The usage of a link since it was added.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinkUse {
    /// Time with at least one active flow [s].
    pub busy: f64,
    /// Capacity used, summed over time [unit].
    pub served: f64,
    /// Active flows, summed over time [s].
    pub flow_seconds: f64,
}
