//! The level of a link: the rate ÷ weight to which it limits groups that could go faster.
//!
//! Every active group that uses a link is a member of it. A member records the level that the rest of the group's
//! route allows (`elsewhere`). The link's level λ solves Σ load · min(λ, elsewhere) = capacity. Members with
//! `elsewhere` below λ (`low`) are limited elsewhere, the others (`high`) here. While no member changes sides, a
//! change costs O(1): λ = (capacity - Σ load · elsewhere of the low) ÷ Σ load of the high.

mod level;

use super::follow::Cohort;
use super::{Capacity, LinkUse};
use crate::{PS_PER_SECOND, Span, Time, prefetch};
use level::{NO_HIGH, NO_LOW, Side};

/// Relative difference up to which two levels count as equal, because it may come from rounding.
pub(super) const SAME: f64 = 1e-14;

/// An active group at one of its links.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// The lowest level that the rest of the group's route and the group's cap allow.
    pub(super) elsewhere: f64,
    /// Capacity that all flows of the group use per unit of level.
    pub(super) load: f64,
    /// Index of the use in the network's list: it says which group this is, and at which of its links.
    pub(super) of: u32,
    /// Whether this link limits the group, not the rest of its route.
    pub(super) high: bool,
}

/// A shared resource, and the groups that use it now. The fields that starts and ends of flows need come first, in three cache
/// lines.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Link {
    pub(super) members: Vec<Member>,
    /// Capacity with the present number of flows [unit/ps].
    pub(super) limit: f64,
    /// The level to which the link limits its high members [1/ps]; infinite if it limits nobody. With one member, the
    /// level that the link alone allows it.
    pub(super) level: f64,
    /// Number of times that `contended` has changed.
    pub(super) turns: u64,
    pub(super) clock: u32,
    /// The link's own clock. While the link follows another link, `clock` is the clock of its cohort instead.
    pub(super) own_clock: u32,
    /// Whether several members compete for a finite capacity.
    pub(super) contended: bool,
    pub(super) queued: bool,
    low: Side,
    high: Side,
    edits: usize,
    busy_since: Time,
    busy: Span,
    /// Uses whose group has another contended link, to which a change of this link's level must be passed on.
    pub(super) coupled: Vec<u32>,
    /// Uses whose group is limited equally by this link and elsewhere, up to rounding.
    pub(super) tied: Vec<u32>,
    /// The link that this link follows, and the number of the cohort there.
    pub(super) leader: Option<(u32, u32)>,
    /// Cohorts of the links that follow this link.
    pub(super) cohorts: Vec<Cohort>,
    capacity: Capacity,
    /// Number of the last call of `settle` that computed the link's level, and how many times it did so.
    visits: (u64, u32),
    /// Number of active flows; kept up to date only if the capacity depends on it.
    flows: u64,
    /// All groups whose route has the link, each with the capacity that it uses per unit of work.
    pub(super) users: Vec<(u32, f64)>,
}

const _: () = assert!(std::mem::offset_of!(Link, low) == 64, "the first cache line is full");

impl Link {
    pub(super) fn new(capacity: Capacity, clock: u32) -> Link {
        let mut link = Link {
            capacity,
            limit: 0.0,
            level: f64::INFINITY,
            members: Vec::new(),
            clock,
            own_clock: clock,
            leader: None,
            cohorts: Vec::new(),
            coupled: Vec::new(),
            tied: Vec::new(),
            contended: false,
            turns: 0,
            queued: false,
            visits: (0, 0),
            flows: 0,
            low: NO_LOW,
            high: NO_HIGH,
            edits: 0,
            users: Vec::new(),
            busy: Span::ZERO,
            busy_since: Time::ZERO,
        };
        link.refresh_limit();
        link
    }

    /// Prefetches what the link's first flow, and the end of its last one, need.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.low);
        prefetch(&self.coupled);
    }

    pub(super) fn set_capacity(&mut self, capacity: Capacity, flows: u64) {
        self.flows = flows;
        self.capacity = capacity;
        self.refresh_limit();
    }

    pub(super) fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    fn refresh_limit(&mut self) {
        self.limit = self.capacity.at(self.flows) / PS_PER_SECOND;
    }

    /// Records that the number of active flows of a group changes from `before` to `after`.
    #[inline]
    pub(super) fn count(&mut self, before: u32, after: u32) {
        if let Capacity::ByFlows(_) = self.capacity {
            self.flows = self.flows + u64::from(after) - u64::from(before);
            self.refresh_limit();
        }
    }

    /// Whether the capacity is the same under any number of flows.
    #[inline]
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self.capacity, Capacity::Fixed(_))
    }

    /// Sets the load and `elsewhere` of the member at `place`, and updates the link's level. `stays` says on which
    /// side the member must be before and after: true for high (limited by this link), false for low (limited
    /// elsewhere). Returns false, with nothing changed, if a member would change sides or another link would have to
    /// be updated to the level.
    #[inline]
    pub(super) fn recheck(&mut self, place: u32, load: f64, elsewhere: f64, stays: bool) -> bool {
        let old = self.members[place as usize];
        let (mut low, mut high) = (self.low, self.high);
        if old.high {
            high.sum += load - old.load;
            high.bound = if elsewhere < high.bound { elsewhere } else { high.bound };
        } else {
            low.sum += load * elsewhere - old.load * old.elsewhere;
            low.bound = if elsewhere > low.bound { elsewhere } else { low.bound };
        }
        let simple = old.high == stays && self.adopt(low, high);
        if simple {
            self.members[place as usize] = Member { elsewhere, load, ..old };
        }
        simple
    }

    /// Adds a member to a contended link; returns its place, and whether it is high (limited by this link). `None`,
    /// with nothing changed, if a member would change sides or another link would have to be updated to the level.
    #[inline]
    pub(super) fn try_join(&mut self, of: u32, load: f64, elsewhere: f64) -> Option<(u32, bool)> {
        let low = self.low.with(load * elsewhere, self.low.bound.max(elsewhere));
        let high = self.adopt(self.low, self.high.with(load, self.high.bound.min(elsewhere)));
        if !high && !self.adopt(low, self.high) {
            return None;
        }
        self.members.push(Member { elsewhere, load, of, high });
        Some((self.members.len() as u32 - 1, high))
    }

    /// Removes a member from a contended link, if it is on the side `is_high`. Returns false, with nothing changed,
    /// if a member would change sides or another link would have to be updated to the level.
    #[inline]
    pub(super) fn try_leave(&mut self, place: u32, is_high: bool) -> bool {
        let member = self.members[place as usize];
        let (mut low, mut high) = (self.low, self.high);
        if member.high {
            high = high.without(member.load, NO_HIGH);
        } else {
            low = low.without(member.load * member.elsewhere, NO_LOW);
        }
        let simple = member.high == is_high && self.adopt(low, high);
        if simple {
            self.members.swap_remove(place as usize);
        }
        simple
    }

    /// Sets both sides, and the level that follows from them. Returns false, with nothing changed, if a member would
    /// change sides, another link would have to be updated to the level, or the sums have been edited so often that
    /// they must be computed anew.
    #[inline]
    fn adopt(&mut self, low: Side, high: Side) -> bool {
        let open = high.count == 0;
        let level = if open { f64::INFINITY } else { (self.limit - low.sum) / high.sum };
        let simple = (if open { low.sum <= self.limit } else { level * (1.0 + SAME) < high.bound })
            && level > low.bound * (1.0 + SAME)
            && (level == self.level || self.coupled.is_empty())
            && self.tied.is_empty()
            && self.leader.is_none()
            && self.edits <= 64 + 4 * self.members.len();
        if simple {
            self.edits += 1;
            (self.low, self.high, self.level) = (low, high, level);
        }
        simple
    }

    /// Adds an active group to the members of the link; returns its place among them.
    pub(super) fn join(&mut self, now: Time, of: u32, load: f64, elsewhere: f64) -> u32 {
        if self.members.is_empty() {
            self.busy_since = now;
        }
        let high = elsewhere >= self.level;
        let member = Member { elsewhere, load, of, high };
        self.members.push(member);
        self.add(member);
        self.members.len() as u32 - 1
    }

    /// Removes the member at `place`; the last member moves to that place.
    pub(super) fn leave(&mut self, now: Time, place: u32) {
        let member = self.members.swap_remove(place as usize);
        self.take(member);
        if self.members.is_empty() {
            self.busy += now.since(self.busy_since);
            self.level = f64::INFINITY;
        }
    }

    /// Changes the load of a member without competitors, and the link's level with it.
    #[inline]
    pub(super) fn set_load_alone(&mut self, place: u32, load: f64) {
        self.members[place as usize].load = load;
        self.level = self.limit / load;
    }

    /// Gives the member at `place` another load and `elsewhere`; returns whether it is high at the link's present
    /// level.
    #[inline]
    pub(super) fn edit(&mut self, place: u32, load: f64, elsewhere: f64) -> bool {
        let member = &mut self.members[place as usize];
        let old = *member;
        *member = Member { elsewhere, load, high: elsewhere >= self.level, ..old };
        if old.high && member.high {
            self.edits += 1;
            self.high.sum += load - old.load;
            self.high.bound = self.high.bound.min(elsewhere);
            return true;
        }
        let new = *member;
        self.take(old);
        self.add(new);
        new.high
    }

    /// Returns the cohort in which this link could follow the link that limits the member at `place`. `None` unless
    /// this link limits all its other members at any level of the other link, and has a fixed capacity, no leader, no
    /// followers, no ties and no other coupled use. `rides` says whether the group of a use rides this link's clock.
    #[inline]
    pub(super) fn as_follower(&self, place: u32, rides: impl Fn(u32) -> bool) -> Option<Cohort> {
        let alone = self.leader.is_none() && self.cohorts.iter().all(Cohort::is_empty);
        let quiet = !self.queued && self.tied.is_empty() && self.coupled.len() == 1;
        let sides =
            self.low.count == 1 && !self.members[place as usize].high && self.high.count > 0;
        if !(alone && quiet && sides && self.is_fixed()) {
            return None;
        }
        let others = || self.members.iter().filter(|member| member.high);
        let load: f64 = others().map(|member| member.load).sum();
        let stay = others().all(|m| m.elsewhere >= self.limit / load && rides(m.of));
        stay.then(|| Cohort::new(self.limit, self.members[place as usize].load, load))
    }

    /// Records that the link no longer follows its leader. The link has one low member, which the leader limited: this
    /// member's `elsewhere` becomes the link's present `level`, and the low side is summed anew. Returns the place of
    /// this member.
    pub(super) fn stop_following(&mut self) -> u32 {
        let place = self.members.iter().position(|member| !member.high);
        let place = place.expect("one member is limited by the leader");
        let member = &mut self.members[place];
        member.elsewhere = self.level;
        self.low = NO_LOW.with(member.load * self.level, self.level);
        place as u32
    }

    /// Returns the usage of the link, given the capacity and the flow-seconds that all its groups have used.
    pub(super) fn usage(&self, now: Time, served: f64, flow_seconds: f64) -> LinkUse {
        let open = if self.members.is_empty() { Span::ZERO } else { now.since(self.busy_since) };
        LinkUse { busy: (self.busy + open).seconds(), served, flow_seconds }
    }
}
