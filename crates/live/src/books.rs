//! State of an emulated storage with limits: requests served and in progress. It has the I/O queues, the operation station and
//! the link of the simulated storage, but in wall time.
//!
//! A queue has a slot for each request in progress; requests without a slot wait in order of arrival. The station serves one
//! operation after another. Transfers share the link by processor sharing (Kleinrock, *Queueing Systems* II, 4.4), and the
//! transfers of a queue also share the queue's own link: each gets an equal share of the bandwidth, unless its cap or its queue
//! gives it less. A storage that serves in order of arrival lets only the first few transfers share the link.

use forebay_engine::{Span, Time};
use forebay_scenario::storage::Bandwidth;

/// Takes the place of the reader in a transfer whose reader no longer waits.
const NOBODY: u64 = u64::MAX;

/// State of one storage.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Books {
    /// Time at which the station will have served all operations added so far.
    served: Time,
    /// Time up to which the transfers are accounted for.
    until: Time,
    transfers: Vec<Transfer>,
    /// Readers with a request in progress or waiting for a slot, in order of arrival.
    requests: Vec<u64>,
}

/// A transfer that is in progress, or that has ended while its reader still waits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Transfer {
    /// Reader that waits for the bytes.
    reader: u64,
    /// Queue of the transfer.
    queue: usize,
    /// Bytes that have not arrived at time `until` [B].
    left: f64,
    ended: Option<Time>,
}

impl Transfer {
    fn is_open(&self) -> bool {
        self.ended.is_none()
    }
}

/// Limits on the rates of transfers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// Bandwidth of all transfers together.
    pub(super) bandwidth: Bandwidth,
    /// Maximum rate of one transfer [B/s].
    pub(super) cap: f64,
    /// Number of queues, and bandwidth of each [B/s].
    pub(super) queues: (usize, f64),
    /// Number of transfers, the first in order of arrival, that share the bandwidth.
    pub(super) at_once: usize,
}

impl Line {
    /// Returns, for each queue, the rate of each of its transfers [B/s]. `transfers` is the number of transfers in each queue.
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
    /// Puts the request of `reader` into its queue, out of `queues`. Returns true if the request is one of the first `depth` in
    /// the queue and thus in progress; false if the request waits for a slot.
    pub(super) fn enter(&mut self, reader: u64, queues: u64, depth: usize) -> bool {
        if !self.requests.contains(&reader) {
            self.requests.push(reader);
        }
        let before = self.requests.iter().take_while(|other| **other != reader);
        before.filter(|other| **other % queues == reader % queues).count() < depth
    }

    /// Removes the request of `reader` from its queue.
    pub(super) fn exit(&mut self, reader: u64) {
        self.requests.retain(|other| *other != reader);
    }

    /// Adds an operation to the station, which serves `rate` operations per second [1/s]. Returns the time at which the operation
    /// is done.
    pub(super) fn operate(&mut self, now: Time, rate: f64) -> Time {
        self.served = self.served.max(now) + Span::from_seconds(1.0 / rate);
        self.served
    }

    /// Starts a transfer of `bytes` for `reader`. Returns the time at which the transfer ends if no other transfer starts.
    pub(super) fn begin(&mut self, now: Time, line: &Line, reader: u64, bytes: f64) -> Time {
        self.advance(now, line);
        let queue = (reader % line.queues.0 as u64) as usize;
        self.transfers.push(Transfer { reader, queue, left: bytes, ended: None });
        self.end(line, reader)
    }

    /// Returns the time at which the transfer of `reader` ended, or at which it will end if no other transfer starts.
    pub(super) fn look(&mut self, now: Time, line: &Line, reader: u64) -> Time {
        self.advance(now, line);
        let found = self.transfers.iter().find(|transfer| transfer.reader == reader);
        found.map_or(now, |found| found.ended.unwrap_or_else(|| self.end(line, reader)))
    }

    /// Detaches `reader`, which no longer waits, from its transfer. The rest of the transfer still takes its share of the link.
    pub(super) fn leave(&mut self, reader: u64) {
        let of = |transfer: &&mut Transfer| transfer.reader == reader;
        self.transfers.iter_mut().filter(of).for_each(|transfer| transfer.reader = NOBODY);
        self.transfers.retain(|transfer| transfer.reader != NOBODY || transfer.is_open());
    }

    /// Returns the time at which the transfer of `reader` ends if no other transfer starts.
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

    /// Advances all transfers to `now`. Does nothing if another process has advanced them further.
    fn advance(&mut self, now: Time, line: &Line) {
        while self.step(now, line) {}
        self.until = self.until.max(now);
        self.transfers.retain(|transfer| transfer.reader != NOBODY || transfer.is_open());
    }

    /// Advances to the next end of a transfer and returns true, if that end is not after `now`; otherwise advances to `now` and
    /// returns false.
    fn step(&mut self, now: Time, line: &Line) -> bool {
        let open = || self.transfers.iter().filter(|of| of.is_open());
        let mut served = vec![0; line.queues.0];
        open().take(line.at_once).for_each(|of| served[of.queue] += 1);
        let in_queue = line.rates(&served);
        let rate = |(place, of): (usize, &Transfer)| {
            if place < line.at_once { in_queue[of.queue] } else { 0.0 }
        };
        let rates: Vec<f64> = open().enumerate().map(rate).collect();
        let after = open().zip(&rates).map(|(of, rate)| of.left / rate);
        let Some(after) = after.min_by(f64::total_cmp) else { return false };
        let end = self.until + Span::from_seconds(after);
        let ends = end <= now;
        let passed = if ends { after } else { now.since(self.until).seconds() };
        self.until = self.until.max(end.min(now));
        let open = self.transfers.iter_mut().filter(|of| of.is_open());
        for (of, rate) in open.zip(&rates) {
            // What ends next ends exactly then, whatever the rounding.
            of.ended = (ends && of.left / rate <= after).then_some(end);
            of.left = (of.left - rate * passed).max(0.0);
        }
        ends
    }

    /// Encodes the state as bytes, for other processes.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.clear();
        let lengths = [self.transfers.len(), self.requests.len()];
        let head = [self.served.0, self.until.0].into_iter().chain(lengths.map(|n| n as u64));
        let rows = self.transfers.iter().flat_map(|transfer| {
            let ended = transfer.ended.unwrap_or(Time::NEVER).0;
            [transfer.reader, transfer.queue as u64, transfer.left.to_bits(), ended]
        });
        let words = head.chain(rows).chain(self.requests.iter().copied());
        words.for_each(|word| to.extend_from_slice(&word.to_le_bytes()));
    }

    /// Decodes what [`Books::encode`] wrote; returns an empty state for any other bytes.
    pub(super) fn decode(from: &[u8]) -> Books {
        let mut words = from
            .chunks_exact(8)
            .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        let mut word = || words.next();
        let mut read = || {
            let (served, until) = (Time(word()?), Time(word()?));
            let (transfers, requests) = (word()?, word()?);
            let transfer = |_| {
                let (reader, queue) = (word()?, word()? as usize);
                let (left, ended) = (f64::from_bits(word()?), Time(word()?));
                let ended = Some(ended).filter(|ended| *ended != Time::NEVER);
                Some(Transfer { reader, queue, left, ended })
            };
            let transfers = (0..transfers).map(transfer).collect::<Option<_>>()?;
            let requests = (0..requests).map(|_| word()).collect::<Option<_>>()?;
            Some(Books { served, until, transfers, requests })
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
        Line {
            bandwidth: Bandwidth::Fixed(bandwidth),
            cap,
            queues: (1, f64::INFINITY),
            at_once: usize::MAX,
        }
    }

    fn near(time: Time, seconds: f64) {
        assert!((time.seconds() - seconds).abs() < 1e-9, "{} for {seconds}", time.seconds());
    }

    #[test]
    fn a_storage_device_serves_operations_one_after_another() {
        let mut books = Books::default();
        near(books.operate(at(1.0), 10.0), 1.1);
        near(books.operate(at(1.05), 10.0), 1.2);
        near(books.operate(at(5.0), 10.0), 5.1);
    }

    #[test]
    fn transfers_share_the_link_equally() {
        // System: 100 B/s; 100 B from 0 s, 50 B from 0.5 s. Expectation: the first transfer has 50 B left when the second starts;
        // both get 50 B/s and end at 1.5 s. Alone, the first would have ended at 1 s.
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
    fn rate_caps_limit_each_transfer_and_bandwidth_tables_limit_the_total_rate() {
        let mut books = Books::default();
        near(books.begin(at(0.0), &line(100.0, 40.0), 1, 40.0), 1.0);
        let table = Bandwidth::ByTransfers(Box::new([100.0, 60.0]));
        let falling =
            Line { bandwidth: table, cap: 1e9, queues: (1, f64::INFINITY), at_once: usize::MAX };
        let mut books = Books::default();
        near(books.begin(at(0.0), &falling, 1, 30.0), 0.3);
        near(books.begin(at(0.0), &falling, 2, 30.0), 1.0);
    }

    #[test]
    fn abandoned_transfers_still_take_their_share_of_the_link() {
        // System: 100 B/s; a reader leaves at 0.9 s, 0.1 s before its transfer ends, and starts another. Expectation: the last
        // 10 B of the first transfer still take their share of the link.
        let (mut books, line) = (Books::default(), line(100.0, f64::INFINITY));
        books.begin(at(0.0), &line, 1, 100.0);
        near(books.look(at(0.9), &line, 1), 1.0);
        books.leave(1);
        near(books.begin(at(0.9), &line, 1, 100.0), 2.0);
        near(books.look(at(1.5), &line, 1), 2.0);
        assert_eq!(books.transfers.len(), 1);
    }

    #[test]
    fn queues_share_the_link_and_transfers_in_a_queue_share_its_bandwidth() {
        // System: 100 B/s, two queues of 40 B/s; readers 1 and 3 in queue 1, reader 2 in queue 0. Expectation: the two transfers
        // in queue 1 get 20 B/s each, the one in queue 0 gets 40 B/s. With 60 B/s for all, each gets 20 B/s.
        let line = |all| Line { queues: (2, 40.0), ..super::tests::line(all, f64::INFINITY) };
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
    fn a_storage_that_serves_in_order_lets_only_the_first_transfers_share_the_link() {
        // System: 100 B/s, two transfers at once; 100 B, 50 B and 50 B from 0 s. Expectation: the first two get 50 B/s; the third begins
        // when the second ends at 1 s, and ends with the first at 2 s.
        let line = Line { at_once: 2, ..line(100.0, f64::INFINITY) };
        let mut books = Books::default();
        for (reader, bytes) in [(1, 100.0), (2, 50.0), (3, 50.0)] {
            books.begin(at(0.0), &line, reader, bytes);
        }
        for (reader, end) in [(1, 2.0), (2, 1.0), (3, 2.0)] {
            near(books.look(at(0.0), &line, reader), end);
        }
    }

    #[test]
    fn a_queue_has_at_most_its_depth_of_requests_in_progress() {
        // System: two queues of depth 1; readers 2 and 4 in queue 0, reader 3 in queue 1. Expectation: reader 4 waits
        // until reader 2 has left.
        let mut books = Books::default();
        assert!(books.enter(2, 2, 1) && books.enter(3, 2, 1) && !books.enter(4, 2, 1));
        assert!(!books.enter(4, 2, 1) && books.enter(2, 2, 1));
        books.exit(2);
        assert!(books.enter(4, 2, 1) && !books.enter(2, 2, 1));
    }

    #[test]
    fn encoded_storage_state_is_decoded_unchanged() {
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
