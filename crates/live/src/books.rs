//! What a storage with limits has served and is serving: the station of operations and the link of
//! the simulated world, kept in wall time.
//!
//! The station serves one operation after the other. All transfers share the link alike (processor
//! sharing; Kleinrock, *Queueing Systems* II, 4.4): each is given `min(cap, bandwidth(n) ÷ n)` while
//! `n` are there. A transfer ends when what each has been given since the start of the books reaches
//! the sum of what it had been then and its own bytes, so that one number stands for all of them.

use forebay_engine::{Span, Time};
use forebay_scenario::storage::Bandwidth;

/// The reader of transfers that nobody waits for any more.
const NOBODY: u64 = u64::MAX;

/// The books of one storage.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Books {
    /// When the station will have served all who came.
    served: Time,
    /// Up to when the transfers below are accounted for.
    until: Time,
    /// What a transfer that was always there would have been given [B].
    given: f64,
    /// How many of the transfers have not ended.
    active: usize,
    transfers: Vec<Transfer>,
}

/// Bytes on their way.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Transfer {
    /// Who waits for them.
    reader: u64,
    /// It ends when so much has been given [B].
    last: f64,
    ended: Option<Time>,
}

/// How fast bytes may come.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// All together.
    pub(super) bandwidth: Bandwidth,
    /// One transfer [B/s].
    pub(super) cap: f64,
}

impl Line {
    /// What each of `n` transfers gets [B/s].
    fn share(&self, n: usize) -> f64 {
        let all = match &self.bandwidth {
            Bandwidth::Fixed(all) => *all,
            Bandwidth::ByTransfers(table) => {
                table.get(n - 1).or(table.last()).copied().unwrap_or(f64::INFINITY)
            }
        };
        self.cap.min(all / n as f64)
    }
}

impl Books {
    /// Someone comes to the station, which serves `rate` [1/s]; gives when it is done.
    pub(super) fn operate(&mut self, now: Time, rate: f64) -> Time {
        self.served = self.served.max(now) + Span::from_seconds(1.0 / rate);
        self.served
    }

    /// `bytes` for `reader` begin to come; gives when they end if nobody else comes.
    pub(super) fn begin(&mut self, now: Time, line: &Line, reader: u64, bytes: f64) -> Time {
        self.advance(now, line);
        let last = self.given + bytes;
        self.transfers.push(Transfer { reader, last, ended: None });
        self.active += 1;
        self.end(line, last)
    }

    /// When the transfer of `reader` ends if nobody else comes, or when it did.
    pub(super) fn look(&mut self, now: Time, line: &Line, reader: u64) -> Time {
        self.advance(now, line);
        let found = self.transfers.iter().find(|transfer| transfer.reader == reader);
        found.map_or(now, |found| found.ended.unwrap_or_else(|| self.end(line, found.last)))
    }

    /// `reader` waits no longer; what has not come yet stays on the line.
    pub(super) fn leave(&mut self, reader: u64) {
        let of = |transfer: &&mut Transfer| transfer.reader == reader;
        self.transfers.iter_mut().filter(of).for_each(|transfer| transfer.reader = NOBODY);
        self.transfers.retain(|transfer| transfer.reader != NOBODY || transfer.ended.is_none());
    }

    /// When transfers that have not ended reach `last`, if nobody else comes.
    fn end(&self, line: &Line, last: f64) -> Time {
        let open = self.transfers.iter().filter(|t| t.ended.is_none() && t.last <= last);
        let mut before: Vec<f64> = open.map(|transfer| transfer.last).collect();
        before.sort_by(f64::total_cmp);
        let (mut given, mut seconds) = (self.given, 0.0);
        for (gone, next) in before.into_iter().enumerate() {
            seconds += (next - given) / line.share(self.active - gone);
            given = next;
        }
        self.until + Span::from_seconds(seconds)
    }

    /// Accounts for all until `now`; what others have accounted for stays.
    fn advance(&mut self, now: Time, line: &Line) {
        while self.step(now, line).is_some() {}
        self.until = self.until.max(now);
        self.transfers.retain(|transfer| transfer.reader != NOBODY || transfer.ended.is_none());
    }

    /// Goes on to the next end of a transfer, if that is not after `now`, and gives it; otherwise up
    /// to `now`.
    fn step(&mut self, now: Time, line: &Line) -> Option<Time> {
        let open = self.transfers.iter().filter(|transfer| transfer.ended.is_none());
        let next = open.map(|transfer| transfer.last).min_by(f64::total_cmp)?;
        let share = line.share(self.active);
        let end = self.until + Span::from_seconds((next - self.given) / share);
        if end > now {
            self.given += share * now.since(self.until).seconds();
            self.until = self.until.max(now);
            return None;
        }
        (self.given, self.until) = (next, end);
        for transfer in self.transfers.iter_mut().filter(|t| t.ended.is_none()) {
            if transfer.last <= next {
                transfer.ended = Some(end);
                self.active -= 1;
            }
        }
        Some(end)
    }

    /// As bytes, for other processes.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.clear();
        let head = [self.served.0, self.until.0, self.given.to_bits(), self.transfers.len() as u64];
        let rows = self.transfers.iter().flat_map(|transfer| {
            let ended = transfer.ended.unwrap_or(Time::NEVER).0;
            [transfer.reader, transfer.last.to_bits(), ended]
        });
        head.into_iter().chain(rows).for_each(|word| to.extend_from_slice(&word.to_le_bytes()));
    }

    /// What [`Books::encode`] wrote; empty books of anything else.
    pub(super) fn decode(from: &[u8]) -> Books {
        let mut words = from
            .chunks_exact(8)
            .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        let mut word = || words.next();
        let mut read = || {
            let (served, until) = (Time(word()?), Time(word()?));
            let (given, count) = (f64::from_bits(word()?), word()?);
            let mut transfers = Vec::new();
            for _ in 0..count {
                let (reader, last) = (word()?, f64::from_bits(word()?));
                let ended = Some(Time(word()?)).filter(|ended| *ended != Time::NEVER);
                transfers.push(Transfer { reader, last, ended });
            }
            let active = transfers.iter().filter(|transfer| transfer.ended.is_none()).count();
            Some(Books { served, until, given, active, transfers })
        };
        read().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_seconds(seconds)
    }

    fn line(bandwidth: f64, cap: f64) -> Line {
        Line { bandwidth: Bandwidth::Fixed(bandwidth), cap }
    }

    fn near(time: Time, seconds: f64) {
        assert!((time.seconds() - seconds).abs() < 1e-9, "{} for {seconds}", time.seconds());
    }

    #[test]
    fn the_station_serves_one_after_the_other() {
        let mut books = Books::default();
        near(books.operate(at(1.0), 10.0), 1.1);
        near(books.operate(at(1.05), 10.0), 1.2);
        near(books.operate(at(5.0), 10.0), 5.1);
    }

    #[test]
    fn transfers_share_the_line_alike() {
        // System: 100 B/s; 100 B from 0 s, 50 B from 0.5 s. Expectation: the first has 50 B when the
        // second comes; both get 50 B/s and end at 1.5 s, alone the first would have at 1 s.
        let (mut books, line) = (Books::default(), line(100.0, f64::INFINITY));
        near(books.begin(at(0.0), &line, 1, 100.0), 1.0);
        near(books.begin(at(0.5), &line, 2, 50.0), 1.5);
        near(books.look(at(1.0), &line, 1), 1.5);
        near(books.look(at(2.0), &line, 1), 1.5);
        near(books.look(at(2.0), &line, 2), 1.5);
        (1..=2).for_each(|reader| books.leave(reader));
        assert!(books.transfers.is_empty() && books.active == 0);
    }

    #[test]
    fn a_cap_holds_for_each_and_a_table_for_all() {
        let mut books = Books::default();
        near(books.begin(at(0.0), &line(100.0, 40.0), 1, 40.0), 1.0);
        let table = Bandwidth::ByTransfers(Box::new([100.0, 60.0]));
        let (mut books, falling) = (Books::default(), Line { bandwidth: table, cap: 1e9 });
        near(books.begin(at(0.0), &falling, 1, 30.0), 0.3);
        near(books.begin(at(0.0), &falling, 2, 30.0), 1.0);
    }

    #[test]
    fn what_nobody_waits_for_stays_on_the_line() {
        // System: 100 B/s; a reader leaves at 0.9 s, 0.1 s early, and comes again. Expectation: the
        // last 10 B of the first transfer still take their part of the line.
        let (mut books, line) = (Books::default(), line(100.0, f64::INFINITY));
        books.begin(at(0.0), &line, 1, 100.0);
        near(books.look(at(0.9), &line, 1), 1.0);
        books.leave(1);
        near(books.begin(at(0.9), &line, 1, 100.0), 2.0);
        near(books.look(at(1.5), &line, 1), 2.0);
        assert_eq!((books.transfers.len(), books.active), (1, 1));
    }

    #[test]
    fn books_survive_the_way_to_another_process() {
        let (mut books, line) = (Books::default(), line(1e3, 1e9));
        books.operate(at(0.25), 7.0);
        books.begin(at(0.5), &line, 1, 10.0);
        books.begin(at(0.6), &line, 1 << 40, 3000.0);
        let mut bytes = Vec::new();
        books.encode(&mut bytes);
        assert_eq!(Books::decode(&bytes), books);
        assert_eq!(Books::decode(&bytes[..20]), Books::default());
    }
}
