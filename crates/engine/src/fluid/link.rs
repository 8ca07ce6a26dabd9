//! The level of a link: the rate ÷ weight to which it limits groups that could go faster.
//!
//! Every active group that uses a link is a member of it. A member records the level that the rest of the group's
//! route allows (`elsewhere`). The link's level λ solves Σ load · min(λ, elsewhere) = capacity. Members with
//! `elsewhere` below λ (`low`) are limited elsewhere, the others (`high`) here. While no member changes sides, a
//! change costs O(1): λ = (capacity - Σ load · elsewhere of the low) ÷ Σ load of the high.

use super::follow::Cohort;
use super::{Capacity, LinkUse};
use crate::{PS_PER_SECOND, Span, Time};

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

/// A shared resource, and the groups that use it now.
#[derive(Debug, Clone)]
pub(super) struct Link {
    capacity: Capacity,
    /// Capacity with the present number of flows [unit/ps].
    pub(super) limit: f64,
    /// The level to which the link limits its high members [1/ps]; infinite if it limits nobody. With one member, the
    /// level that the link alone allows it.
    pub(super) level: f64,
    pub(super) members: Vec<Member>,
    pub(super) clock: u32,
    /// The link's own clock. While the link follows another link, `clock` is the clock of its cohort instead.
    pub(super) own_clock: u32,
    /// The link that this link follows, and the number of the cohort there.
    pub(super) leader: Option<(u32, u32)>,
    /// Cohorts of the links that follow this link.
    pub(super) cohorts: Vec<Cohort>,
    /// Uses whose group has another contended link, to which a change of this link's level must be passed on.
    pub(super) coupled: Vec<u32>,
    /// Uses whose group is limited equally by this link and elsewhere, up to rounding.
    pub(super) tied: Vec<u32>,
    /// Whether several members compete for a finite capacity.
    pub(super) contended: bool,
    /// Number of times that `contended` has changed.
    pub(super) turns: u64,
    pub(super) queued: bool,
    /// Number of the last call of `settle` that computed the link's level, and how many times it did so.
    visits: (u64, u32),
    /// Number of active flows; kept up to date only if the capacity depends on it.
    flows: u64,
    low: Side,
    high: Side,
    edits: usize,
    /// All groups whose route has the link, each with the capacity that it uses per unit of work.
    pub(super) users: Vec<(u32, f64)>,
    busy: Span,
    busy_since: Time,
}

/// Sums over the members of one side.
#[derive(Debug, Clone, Copy)]
struct Side {
    count: usize,
    /// Low side: Σ load · elsewhere; high side: Σ load.
    sum: f64,
    /// Low side: an upper bound of `elsewhere` of its members; high side: a lower bound.
    bound: f64,
}

const NO_LOW: Side = Side { count: 0, sum: 0.0, bound: f64::NEG_INFINITY };
const NO_HIGH: Side = Side { count: 0, sum: 0.0, bound: f64::INFINITY };

impl Side {
    /// Returns the side with one more member, which adds `part` to the sum and has `elsewhere` = `bound`.
    #[inline]
    fn with(self, part: f64, bound: f64) -> Side {
        Side { count: self.count + 1, sum: self.sum + part, bound }
    }

    /// Returns the side with one member less, which takes `part` from the sum; `empty` if it was the last one.
    #[inline]
    fn without(self, part: f64, empty: Side) -> Side {
        if self.count == 1 {
            return empty;
        }
        Side { count: self.count - 1, sum: self.sum - part, ..self }
    }
}

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

    /// Marks the sums as outdated: they are not kept while the link has no competing members, so the next solution
    /// computes them anew.
    pub(super) fn forget_sums(&mut self) {
        self.edits = usize::MAX / 2;
    }

    #[inline]
    fn add(&mut self, member: Member) {
        if member.high {
            self.high.count += 1;
            self.high.sum += member.load;
            self.high.bound = self.high.bound.min(member.elsewhere);
        } else {
            self.low.count += 1;
            self.low.sum += member.load * member.elsewhere;
            self.low.bound = self.low.bound.max(member.elsewhere);
        }
    }

    #[inline]
    fn take(&mut self, member: Member) {
        self.edits += 1;
        if member.high {
            self.high = self.high.without(member.load, NO_HIGH);
        } else {
            self.low = self.low.without(member.load * member.elsewhere, NO_LOW);
        }
    }

    /// Computes the water-filling level of the link and returns whether it changed. Appends to `crossed` the members of the link that
    /// moved between the high and the low side.
    #[inline]
    pub(super) fn relevel(&mut self, crossed: &mut Vec<u32>) -> bool {
        let level = self.solve(crossed);
        let same =
            level == self.level || (level - self.level).abs() <= 1e-15 * level.min(self.level);
        if !same {
            self.level = level;
        }
        !same
    }

    #[inline]
    fn solve(&mut self, crossed: &mut Vec<u32>) -> f64 {
        if self.limit.is_infinite() || self.members.is_empty() {
            return f64::INFINITY;
        }
        if let Some(level) = self.alone() {
            return level;
        }
        let level = self.level_of_sides(-1.0);
        let between =
            level * (1.0 - SAME) <= self.high.bound && level >= self.low.bound * (1.0 - SAME);
        // Sums that are updated by differences are made anew from time to time, because rounding errors add up.
        if between && self.edits <= 64 + 4 * self.members.len() {
            level
        } else {
            self.water_fill(crossed)
        }
    }

    /// Counts how often call number `settling` of `settle` computes the link's level; returns the number so far.
    #[inline]
    pub(super) fn visit(&mut self, settling: u64) -> u32 {
        let before = if self.visits.0 == settling { self.visits.1 } else { 0 };
        self.visits = (settling, before + 1);
        before + 1
    }

    /// Returns the level, given that each member is on the right side; `overfull` if no member is high and the low
    /// ones exceed the capacity.
    #[inline]
    fn level_of_sides(&self, overfull: f64) -> f64 {
        if self.high.count > 0 {
            (self.limit - self.low.sum) / self.high.sum
        } else if self.low.sum <= self.limit {
            f64::INFINITY
        } else {
            overfull
        }
    }

    /// Solves for the level from scratch, by Newton's method. The level that follows from the sides is never above
    /// the level sought. So after the first pass it only rises, and members only move from high to low.
    #[cold]
    fn water_fill(&mut self, crossed: &mut Vec<u32>) -> f64 {
        let before: Vec<bool> = self.members.iter().map(|m| m.high).collect();
        self.sum_sides();
        let mut level = self.level_of_sides(-1.0);
        for member in &mut self.members {
            member.high = member.elsewhere >= level;
        }
        for _pass in 0..=self.members.len() {
            self.sum_sides();
            level = self.level_of_sides(f64::INFINITY);
            let mut moved = false;
            for member in &mut self.members {
                moved |= member.high && member.elsewhere < level;
                member.high &= member.elsewhere >= level;
            }
            if !moved {
                let changed =
                    self.members.iter().zip(&before).filter(|(m, before)| m.high != **before);
                crossed.extend(changed.map(|(member, _)| member.of));
                return level;
            }
        }
        unreachable!("every pass moves a member")
    }

    fn sum_sides(&mut self) {
        (self.low, self.high) = (NO_LOW, NO_HIGH);
        for at in 0..self.members.len() {
            self.add(self.members[at]);
        }
        self.edits = 0;
    }

    /// Returns the level that the link allows its only member, whatever limits the member elsewhere; `None` unless
    /// there is exactly one member.
    #[inline]
    pub(super) fn alone(&self) -> Option<f64> {
        match self.members[..] {
            [only] => Some(self.limit / only.load),
            _ => None,
        }
    }

    /// Divides the members into high and low ones and computes the sums anew, after progressive filling has set the
    /// level and each `elsewhere`.
    pub(super) fn impose(&mut self) {
        let level = self.level;
        for member in &mut self.members {
            member.high = member.elsewhere >= level * (1.0 - SAME);
        }
        self.sum_sides();
    }

    /// Returns the usage of the link, given the capacity and the flow-seconds that all its groups have used.
    pub(super) fn usage(&self, now: Time, served: f64, flow_seconds: f64) -> LinkUse {
        let open = if self.members.is_empty() { Span::ZERO } else { now.since(self.busy_since) };
        LinkUse { busy: (self.busy + open).seconds(), served, flow_seconds }
    }
}
