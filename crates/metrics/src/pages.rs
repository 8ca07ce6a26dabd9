//! The memory of timelines: pages of a few entries each, which all timelines share.
//!
//! A timeline is a chain of pages. A page is a cache line, and those taken at the same time lie side by side: with tens of
//! thousands of workers, timelines with a growing list each would be most of a run's memory, and each of their entries would be
//! written far from the others.

use forebay_engine::{Time, prefetch};
use forebay_report::Cause;

use super::timeline::{Activity, Entry, NOBODY};

const NONE: u32 = u32::MAX;
/// Number of further pages after which a timeline checks whether it can free earlier ones.
const FEW: u32 = 8;
/// Number of places of a page.
const PLACES: usize = 8;
/// Time after the start of a page in which its entries begin [ps]: 1.1 s.
const SPAN: u64 = 1 << 40;

/// Kinds of a page's places. Below `IDLE`: an entry whose cause has this number.
const IDLE: u8 = 64;
const BLOCKED: u8 = 65;
/// Not an entry: the worker that ended the idle or blocked period in the place before.
const ENDED_BY: u8 = 66;
const UNUSED: u8 = 67;

/// Consecutive entries of a timeline.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Page {
    /// Start of the first entry.
    base: Time,
    /// The timeline's page before this one.
    earlier: u32,
    /// For each place, the start of its entry after `base` [ps], in two parts, or the number of a worker.
    low: [u32; PLACES],
    high: [u8; PLACES],
    kind: [u8; PLACES],
}

/// The pages of all timelines.
#[derive(Debug, Default)]
pub struct Pages {
    pages: Vec<Page>,
    /// Free pages, in the chains in which they became free: the first and the last page of each. So a chain becomes free without a
    /// look at its pages.
    free: Vec<(u32, u32)>,
}

/// A timeline's entries, in a chain of pages.
#[derive(Debug)]
pub struct Entries {
    first: u32,
    last: u32,
    /// Number of places in use on the last page.
    used: u32,
    /// Number of pages after `mark`.
    since_mark: u32,
    /// The last page at the previous clean-up, and its start. Once no wait needs the time before this start, all earlier pages can be
    /// freed.
    mark: u32,
    mark_base: Time,
}

impl Default for Entries {
    fn default() -> Entries {
        Entries {
            first: NONE,
            last: NONE,
            used: 0,
            since_mark: 0,
            mark: NONE,
            mark_base: Time::ZERO,
        }
    }
}

impl Pages {
    /// Takes a free page for entries from `base` on; the page before it in the timeline is `earlier`.
    fn take(&mut self, base: Time, earlier: u32) -> u32 {
        let page = Page { base, earlier, low: [0; _], high: [0; _], kind: [UNUSED; _] };
        let Some((first, last)) = self.free.pop() else {
            self.pages.push(page);
            return self.pages.len() as u32 - 1;
        };
        let next = std::mem::replace(&mut self.pages[last as usize], page).earlier;
        if first != last {
            self.free.push((first, next));
        }
        // The page that will be taken next is in no cache by now.
        if let Some((_, next)) = self.free.last() {
            prefetch(&self.pages[*next as usize]);
        }
        last
    }
}

impl Page {
    fn put(&mut self, place: usize, low: u32, high: u8, kind: u8) {
        (self.low[place], self.high[place], self.kind[place]) = (low, high, kind);
    }

    fn start(&self, place: usize) -> Time {
        Time(self.base.0 + (u64::from(self.high[place]) << 32 | u64::from(self.low[place])))
    }
}

impl Entries {
    pub(super) fn is_empty(&self) -> bool {
        self.last == NONE
    }

    /// Adds an entry if the last page has room for it; returns whether it has.
    #[inline]
    pub(super) fn try_push(&mut self, pages: &mut Pages, start: Time, activity: Activity) -> bool {
        let Some(page) = pages.pages.get_mut(self.last as usize) else { return false };
        let (kind, worker) = match activity {
            Activity::Doing(cause) => (cause as u8, None),
            Activity::Idle(worker) => (IDLE, Some(worker)),
            Activity::Blocked(worker) => (BLOCKED, Some(worker)),
        };
        let (place, after) = (self.used as usize, start.0.wrapping_sub(page.base.0));
        if place + usize::from(worker.is_some()) >= PLACES || after >= SPAN {
            return false;
        }
        page.put(place, after as u32, (after >> 32) as u8, kind);
        self.used += 1;
        if let Some(worker) = worker {
            page.put(place + 1, worker, 0, ENDED_BY);
            self.used += 1;
        }
        true
    }

    /// Adds an entry on a further page.
    #[cold]
    pub(super) fn add_page(&mut self, pages: &mut Pages, start: Time, activity: Activity) {
        let page = pages.take(start, self.last);
        if self.is_empty() {
            (self.first, self.mark, self.mark_base) = (page, page, start);
        }
        (self.last, self.used) = (page, 0);
        self.since_mark += 1;
        self.try_push(pages, start, activity);
    }

    /// Iterates over the entries, latest first.
    pub(super) fn backwards<'p>(&self, pages: &'p Pages) -> Backwards<'p> {
        Backwards { pages: &pages.pages, page: self.last, place: PLACES }
    }

    #[inline]
    pub(super) fn prefetch(&self, pages: &Pages) {
        if let Some(last) = pages.pages.get(self.last as usize) {
            prefetch(last);
        }
    }

    pub(super) fn clear(&mut self, pages: &mut Pages) {
        if !self.is_empty() {
            pages.free.push((self.first, self.last));
            *self = Entries::default();
        }
    }

    /// Frees all pages but the last.
    pub(super) fn keep_last_page(&mut self, pages: &mut Pages) {
        if !self.is_empty() {
            (self.mark, self.mark_base) = (self.last, pages.pages[self.last as usize].base);
            self.forget_before_mark(pages);
        }
    }

    /// Whether it may be time to [forget](Entries::forget_before) pages: from time to time, as a look at what waits takes its time.
    pub(super) fn may_forget(&self) -> bool {
        self.since_mark.is_multiple_of(FEW)
    }

    /// Frees pages whose entries all ended before `since`, and moves the mark: at any time, about as much is kept as waits need, or twice
    /// as much.
    pub(super) fn forget_before(&mut self, pages: &mut Pages, since: Time) {
        if self.mark_base <= since && !self.is_empty() {
            self.forget_before_mark(pages);
            (self.mark, self.mark_base) = (self.last, pages.pages[self.last as usize].base);
            self.since_mark = 0;
        }
    }

    fn forget_before_mark(&mut self, pages: &mut Pages) {
        if self.first != self.mark {
            let earlier = std::mem::replace(&mut pages.pages[self.mark as usize].earlier, NONE);
            pages.free.push((self.first, earlier));
            self.first = self.mark;
        }
    }

    /// Records that worker `by` ended the idle or blocked period of the last entry, unless a worker is already recorded.
    pub(super) fn link(&mut self, pages: &mut Pages, by: u32) {
        let Some(page) = pages.pages.get_mut(self.last as usize) else { return };
        let place = self.used as usize - 1;
        if page.kind[place] == ENDED_BY && page.low[place] == NOBODY {
            page.low[place] = by;
        }
    }

    /// Gives the last entry this cause.
    pub(super) fn set_cause(&mut self, pages: &mut Pages, cause: Cause) {
        let Some(page) = pages.pages.get_mut(self.last as usize) else { return };
        if page.kind[self.used as usize - 1] == ENDED_BY {
            self.used -= 1;
            page.kind[self.used as usize] = UNUSED;
        }
        page.kind[self.used as usize - 1] = cause as u8;
    }
}

/// The entries of a timeline, latest first.
pub(super) struct Backwards<'p> {
    pages: &'p [Page],
    page: u32,
    /// One more than the place that comes next.
    place: usize,
}

impl Iterator for Backwards<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let mut worker = NOBODY;
        loop {
            let page = self.pages.get(self.page as usize)?;
            let Some(place) = self.place.checked_sub(1) else {
                (self.page, self.place) = (page.earlier, PLACES);
                continue;
            };
            self.place = place;
            let activity = match page.kind[place] {
                UNUSED => continue,
                ENDED_BY => {
                    worker = page.low[place];
                    continue;
                }
                IDLE => Activity::Idle(worker),
                BLOCKED => Activity::Blocked(worker),
                cause => Activity::Doing(Cause::ALL[cause as usize]),
            };
            return Some(Entry { start: page.start(place), activity });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timelines_share_pages_and_leave_none_behind() {
        // System: two timelines that take turns, with gaps of up to two seconds; waits begin 100 entries before the present one. At
        // the end one of them keeps only its last page. Expectation: what is left is in order and complete, and pages are used again.
        let mut pages = Pages::default();
        let mut both = [Entries::default(), Entries::default()];
        let at = |n: u64| Time(n * 7_000_000_000 + n / 100 * 2_000_000_000_000);
        let does = |n: u64| match n % 5 {
            0 => Activity::Idle(n as u32),
            1 => Activity::Blocked(NOBODY),
            n => Activity::Doing(Cause::ALL[n as usize]),
        };
        for round in 0..3 {
            for n in 0..1000 {
                for entries in &mut both {
                    if !entries.try_push(&mut pages, at(n), does(n)) {
                        entries.forget_before(&mut pages, at(n.saturating_sub(100)));
                        entries.add_page(&mut pages, at(n), does(n));
                    }
                }
            }
            let [one, other] = &mut both;
            other.keep_last_page(&mut pages);
            for (entries, expected) in [(&*one, 100..250), (&*other, 1..PLACES)] {
                let left: Vec<Entry> = entries.backwards(&pages).collect();
                assert!(expected.contains(&left.len()), "{}", left.len());
                for (entry, n) in left.iter().zip((0..1000).rev()) {
                    assert_eq!((entry.start, entry.activity), (at(n), does(n)), "{round} {n}");
                }
            }
            both.iter_mut().for_each(|entries| entries.clear(&mut pages));
            assert!(pages.pages.len() < 2 * 250 / 4, "{}", pages.pages.len());
        }
    }
}
