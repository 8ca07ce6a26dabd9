//! What a caller says to the network, and what it hears back.

/// A shared resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) u32);

impl LinkId {
    /// The link that was added after `index` others; for [`super::max_min_shares`], the place of
    /// its capacity.
    pub fn new(index: usize) -> LinkId {
        LinkId(u32::try_from(index).expect("fewer than 2^32 links"))
    }

    /// Number of links that were added before this one.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All flows of one demand: they progress alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub(super) u32);

impl GroupId {
    /// Number of groups that were made before this one.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A flow, or several that started as one; harmless once it has finished or was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// What a link can carry [unit/s]: not negative, zero and infinity allowed.
#[derive(Debug, Clone, PartialEq)]
pub enum Capacity {
    /// The same whatever happens.
    Fixed(f64),
    /// Entry n - 1 while n flows are active; beyond the table its last entry.
    ByFlows(Box<[f64]>),
}

impl Capacity {
    /// The capacity under `flows` active flows [unit/s].
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

    /// Panics unless every capacity is a number, not negative.
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

/// What a flow asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// The links used, in any order; a link that appears twice is used twice.
    pub route: Box<[Use]>,
    /// Share relative to other flows; positive.
    pub weight: f64,
    /// Largest rate of one flow [unit of work/s]; may be infinite.
    pub cap: f64,
}

impl Demand {
    /// The same demand in its one normal form: links ascending, each once, none unused.
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

    /// The demand as a key under which equal demands are equal; to be called in normal form.
    pub(super) fn key(&self) -> Box<[u64]> {
        let uses = self.route.iter().flat_map(|u| [u64::from(u.link.0), u.per_unit.to_bits()]);
        [self.weight.to_bits(), self.cap.to_bits()].into_iter().chain(uses).collect()
    }
}

/// A flow that has done its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished<T> {
    /// What the caller gave at the start.
    pub token: T,
    /// The flow; stale by now.
    pub flow: FlowId,
    /// Flows that started as this one.
    pub count: u32,
}

/// What a link has done since it was added.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinkUse {
    /// Time with at least one active flow [s].
    pub busy: f64,
    /// Capacity used, summed over time [unit].
    pub served: f64,
    /// Active flows, summed over time [s].
    pub flow_seconds: f64,
}
