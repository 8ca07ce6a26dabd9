//! What a storage with limits has served and is serving: the I/O queues, the station of operations and the link of
//! the simulated world, kept in wall time.
//!
//! A queue has slots for the requests in progress; who finds none waits in order of arrival. The station serves one
//! operation after the other. All transfers share the link alike, and those of a queue its own link (processor
//! sharing; Kleinrock, *Queueing Systems* II, 4.4): of what is shared out, each has as much as the others unless its
//! cap or its queue gives it less. Transfers of a queue all go at the same rate, so each queue has a clock of the bytes
//! that a transfer would have been given that was always there; a transfer ends when the clock has gone on by its own
//! bytes.

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
    /// By queue, what a transfer that was always there would have been given [B].
    given: Vec<f64>,
    transfers: Vec<Transfer>,
    /// Readers with a request in progress or waiting for a slot, in order of arrival.
    requests: Vec<u64>,
}

/// Bytes on their way.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Transfer {
    /// Who waits for them.
    reader: u64,
    /// The queue that they go through.
    queue: usize,
    /// It ends when its queue's clock has come to this [B].
    last: f64,
    ended: Option<Time>,
}

impl Transfer {
    fn is_open(&self) -> bool {
        self.ended.is_none()
    }
}

/// How fast bytes may come.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// All together.
    pub(super) bandwidth: Bandwidth,
    /// One transfer [B/s].
    pub(super) cap: f64,
    /// Number of queues, and bandwidth of each [B/s].
    pub(super) queues: (usize, f64),
}

impl Line {
    /// What each transfer of each queue gets where they have so many [B/s].
    fn rates(&self, transfers: &[usize]) -> Vec<f64> {
        let number: usize = transfers.iter().sum();
        let mut left = match &self.bandwidth {
            Bandwidth::Fixed(all) => *all,
            Bandwidth::ByTransfers(table) => {
                let entry = table.get(number.saturating_sub(1)).or(table.last());
                entry.copied().unwrap_or(f64::INFINITY)
            }
        };
        let most = |queue: usize| self.cap.min(self.queues.1 / transfers[queue] as f64);
        let mut queues: Vec<usize> = (0..transfers.len()).filter(|q| transfers[*q] > 0).collect();
        queues.sort_by(|a, b| most(*a).total_cmp(&most(*b)));
        let (mut rates, mut others) = (vec![0.0; transfers.len()], number);
        for queue in queues {
            rates[queue] = most(queue).min(left / others as f64);
            left -= rates[queue] * transfers[queue] as f64;
            others -= transfers[queue];
        }
        rates
    }
}

impl Books {
    /// Whether the request of `reader` is in progress, one of at most `depth` of the queue that it goes through, out of
    /// `queues`; if not, it has its place among those that wait.
    pub(super) fn enter(&mut self, reader: u64, queues: u64, depth: usize) -> bool {
        if !self.requests.contains(&reader) {
            self.requests.push(reader);
        }
        let before = self.requests.iter().take_while(|other| **other != reader);
        before.filter(|other| **other % queues == reader % queues).count() < depth
    }

    /// The request of `reader` leaves its queue.
    pub(super) fn exit(&mut self, reader: u64) {
        self.requests.retain(|other| *other != reader);
    }

    /// Someone comes to the station, which serves `rate` [1/s]; gives when it is done.
    pub(super) fn operate(&mut self, now: Time, rate: f64) -> Time {
        self.served = self.served.max(now) + Span::from_seconds(1.0 / rate);
        self.served
    }

    /// `bytes` for `reader` begin to come; gives when they end if nobody else comes.
    pub(super) fn begin(&mut self, now: Time, line: &Line, reader: u64, bytes: f64) -> Time {
        self.advance(now, line);
        let queue = (reader % line.queues.0 as u64) as usize;
        let transfer = Transfer { reader, queue, last: self.given[queue] + bytes, ended: None };
        self.transfers.push(transfer);
        self.end(line, reader)
    }

    /// When the transfer of `reader` ends if nobody else comes, or when it did.
    pub(super) fn look(&mut self, now: Time, line: &Line, reader: u64) -> Time {
        self.advance(now, line);
        let found = self.transfers.iter().find(|transfer| transfer.reader == reader);
        found.map_or(now, |found| found.ended.unwrap_or_else(|| self.end(line, reader)))
    }

    /// `reader` waits no longer; what has not come yet stays on the line.
    pub(super) fn leave(&mut self, reader: u64) {
        let of = |transfer: &&mut Transfer| transfer.reader == reader;
        self.transfers.iter_mut().filter(of).for_each(|transfer| transfer.reader = NOBODY);
        self.transfers.retain(|transfer| transfer.reader != NOBODY || transfer.is_open());
    }

    /// When the transfer of `reader` ends, if nobody else comes.
    fn end(&self, line: &Line, reader: u64) -> Time {
        let mut then = self.clone();
        loop {
            let found = then.transfers.iter().rev().find(|transfer| transfer.reader == reader);
            match found.map(|found| found.ended) {
                Some(None) if then.step(Time::NEVER, line) => {}
                found => return found.flatten().unwrap_or(then.until),
            }
        }
    }

    /// Accounts for all until `now`; what others have accounted for stays.
    fn advance(&mut self, now: Time, line: &Line) {
        self.given.resize(line.queues.0, 0.0);
        while self.step(now, line) {}
        self.until = self.until.max(now);
        self.transfers.retain(|transfer| transfer.reader != NOBODY || transfer.is_open());
    }

    /// Goes on to the next end of a transfer, if that is not after `now`; otherwise up to `now`.
    fn step(&mut self, now: Time, line: &Line) -> bool {
        let mut transfers = vec![0; self.given.len()];
        let open = self.transfers.iter().filter(|transfer| transfer.is_open());
        open.clone().for_each(|transfer| transfers[transfer.queue] += 1);
        let rates = line.rates(&transfers);
        let seconds = |of: &Transfer| (of.last - self.given[of.queue]) / rates[of.queue];
        let Some(next) = open.min_by(|a, b| seconds(a).total_cmp(&seconds(b))).copied() else {
            return false;
        };
        let after = seconds(&next);
        let end = self.until + Span::from_seconds(after);
        let ends = end <= now;
        let passed = if ends { after } else { now.since(self.until).seconds() };
        self.given.iter_mut().zip(&rates).for_each(|(given, rate)| *given += rate * passed);
        self.until = self.until.max(end.min(now));
        if ends {
            // Not a rounding before it.
            self.given[next.queue] = next.last;
            let given = &self.given;
            let done = |of: &&mut Transfer| of.is_open() && of.last <= given[of.queue];
            self.transfers.iter_mut().filter(done).for_each(|of| of.ended = Some(end));
        }
        ends
    }

    /// As bytes, for other processes.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.clear();
        let lengths = [self.given.len(), self.transfers.len(), self.requests.len()];
        let head = [self.served.0, self.until.0].into_iter().chain(lengths.map(|n| n as u64));
        let rows = self.transfers.iter().flat_map(|transfer| {
            let ended = transfer.ended.unwrap_or(Time::NEVER).0;
            [transfer.reader, transfer.queue as u64, transfer.last.to_bits(), ended]
        });
        let words = head.chain(self.given.iter().map(|given| given.to_bits())).chain(rows);
        let words = words.chain(self.requests.iter().copied());
        words.for_each(|word| to.extend_from_slice(&word.to_le_bytes()));
    }

    /// What [`Books::encode`] wrote; empty books of anything else.
    pub(super) fn decode(from: &[u8]) -> Books {
        let mut words = from
            .chunks_exact(8)
            .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        let mut word = || words.next();
        let mut read = || {
            let (served, until) = (Time(word()?), Time(word()?));
            let (queues, transfers, requests) = (word()?, word()?, word()?);
            let given =
                (0..queues).map(|_| Some(f64::from_bits(word()?))).collect::<Option<_>>()?;
            let transfer = |_| {
                let (reader, queue) = (word()?, word()? as usize);
                let (last, ended) = (f64::from_bits(word()?), Time(word()?));
                let ended = Some(ended).filter(|ended| *ended != Time::NEVER);
                Some(Transfer { reader, queue, last, ended })
            };
            let transfers = (0..transfers).map(transfer).collect::<Option<_>>()?;
            let requests = (0..requests).map(|_| word()).collect::<Option<_>>()?;
            Some(Books { served, until, given, transfers, requests })
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
        Line { bandwidth: Bandwidth::Fixed(bandwidth), cap, queues: (1, f64::INFINITY) }
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
        assert!(books.transfers.is_empty());
    }

    #[test]
    fn a_cap_holds_for_each_and_a_table_for_all() {
        let mut books = Books::default();
        near(books.begin(at(0.0), &line(100.0, 40.0), 1, 40.0), 1.0);
        let table = Bandwidth::ByTransfers(Box::new([100.0, 60.0]));
        let falling = Line { bandwidth: table, cap: 1e9, queues: (1, f64::INFINITY) };
        let mut books = Books::default();
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
        assert_eq!(books.transfers.len(), 1);
    }

    #[test]
    fn queues_share_the_line_and_transfers_share_their_queue() {
        // System: 100 B/s, two queues of 40 B/s; readers 1 and 3 in queue 1, reader 2 in queue 0. Expectation: queue 1
        // gives its two 20 B/s each, queue 0 its one 40 B/s; with 60 B/s for all, each has 20 B/s.
        let line =
            |all| Line { bandwidth: Bandwidth::Fixed(all), cap: f64::INFINITY, queues: (2, 40.0) };
        for (all, alone) in [(100.0, 40.0), (60.0, 20.0)] {
            let (mut books, line) = (Books::default(), line(all));
            for reader in 1..=3 {
                books.begin(at(0.0), &line, reader, 10.0);
            }
            for (reader, rate) in [(1, 20.0), (2, alone), (3, 20.0)] {
                near(books.look(at(0.0), &line, reader), 10.0 / rate);
            }
        }
    }

    #[test]
    fn a_queue_lets_as_many_requests_in_as_it_is_deep() {
        // System: two queues of depth 1; readers 2 and 4 in queue 0, reader 3 in queue 1. Expectation: reader 4 waits
        // until reader 2 has left.
        let mut books = Books::default();
        assert!(books.enter(2, 2, 1) && books.enter(3, 2, 1) && !books.enter(4, 2, 1));
        assert!(!books.enter(4, 2, 1) && books.enter(2, 2, 1));
        books.exit(2);
        assert!(books.enter(4, 2, 1) && !books.enter(2, 2, 1));
    }

    #[test]
    fn books_survive_the_way_to_another_process() {
        let (mut books, line) = (Books::default(), line(1e3, 1e9));
        books.operate(at(0.25), 7.0);
        books.begin(at(0.5), &line, 1, 10.0);
        books.begin(at(0.6), &line, 1 << 40, 3000.0);
        books.enter(7, 1, 1);
        let mut bytes = Vec::new();
        books.encode(&mut bytes);
        assert_eq!(Books::decode(&bytes), books);
        assert_eq!(Books::decode(&bytes[..20]), Books::default());
    }
}
