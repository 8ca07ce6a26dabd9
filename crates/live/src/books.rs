//! State of an emulated storage with limits: requests served and in progress. It has the I/O queues, the operation station and
//! the link of the simulated storage, but in wall time.
//!
//! A queue has a slot for each request in progress; requests without a slot wait in order of arrival. The station serves one
//! operation after another. Transfers share the link by processor sharing (Kleinrock, *Queueing Systems* II, 4.4), and the
//! transfers of a queue also share the queue's own link: each gets an equal share of the bandwidth, unless its cap or its queue
//! gives it less. Where requests wait for their turn, only the transfers whose turn it is share the link. With a token bucket, the link is
//! faster while the bucket holds bytes.

use forebay_engine::{Span, Time};
use forebay_model::law::{TokenLaw, TokensTaken};
use forebay_scenario::Burst;
use forebay_scenario::storage::Bandwidth;

/// Takes the place of the reader in a transfer whose reader no longer waits.
const NOBODY: u64 = u64::MAX;
/// Number of bytes that encodes, in shared state, that a transfer waits for its turn.
const WAITS: f64 = -1.0;

/// State of one storage.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Books {
    /// Time at which the station will have served all operations added so far.
    served: Time,
    /// Operations taken from their token bucket.
    tokens: TokensTaken,
    /// Time up to which the transfers are accounted for.
    until: Time,
    /// Bytes taken from the token bucket by then, beyond those that have entered it [B]; less than zero if it holds more than at the start.
    drawn: f64,
    /// Transfers in order of arrival.
    transfers: Vec<Transfer>,
    /// Clients that have had turns, and the number of the last turn of each.
    turns: Vec<(u64, u64)>,
    /// Readers with a request in progress or waiting for a slot, in order of arrival.
    requests: Vec<u64>,
}

/// A transfer that is in progress, or that has ended while its reader still waits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Transfer {
    /// Reader that waits for the bytes.
    reader: u64,
    /// Client that the reader belongs to.
    client: u64,
    /// Queue of the transfer.
    queue: usize,
    /// Bytes that have not arrived at time `until` [B].
    left: f64,
    /// Bytes of `left` that arrive in the transfer's current turn [B]; `None` while the transfer waits for its turn.
    turn: Option<f64>,
    ended: Option<Time>,
}

impl Transfer {
    fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    /// Lets `seconds` pass at this rate [B/s]. If the step ends at a time, given with the seconds until then, the turn may end, and the
    /// transfer with its last turn.
    fn pass(&mut self, rate: f64, seconds: f64, end: Option<(Time, f64)>) {
        let Some(turn) = self.turn else { return };
        // What ends next ends exactly then, whatever the rounding.
        match end.filter(|(_, after)| rate > 0.0 && turn / rate <= *after) {
            Some((end, _)) => {
                self.left = (self.left - turn).max(0.0);
                self.turn = None;
                self.ended = (self.left <= 0.0).then_some(end);
            }
            None => {
                let passed = (rate * seconds).min(turn);
                (self.left, self.turn) = (self.left - passed, Some(turn - passed));
            }
        }
    }
}

/// Limits on the rates of transfers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// Bandwidth of all transfers together.
    pub(super) bandwidth: Bandwidth,
    /// Token bucket by which all transfers together have another bandwidth while it holds bytes.
    pub(super) bucket: Option<Bucket>,
    /// Maximum rate of one transfer [B/s].
    pub(super) cap: f64,
    /// Number of queues, and bandwidth of each [B/s].
    pub(super) queues: (usize, f64),
    /// Number of transfers that share the bandwidth at once; others wait for their turn.
    pub(super) at_once: usize,
    /// Bytes of a transfer that are served in a turn, if clients take turns [B].
    pub(super) piece: Option<f64>,
}

/// A token bucket of bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    /// Its size, its bandwidth while it holds bytes, and its period.
    pub(super) of: Burst,
    /// Rate at which bytes enter the bucket [B/s].
    pub(super) gain: f64,
}

impl Bucket {
    /// Returns the content when `drawn` bytes have been taken [B].
    fn content(&self, drawn: f64) -> f64 {
        self.of.content - drawn
    }

    /// Returns the number of periods that are over at `at`; 0 without periods.
    fn periods(&self, at: Time) -> u64 {
        self.of.period.map_or(0, |period| at.0 / Span::from_seconds(period).0.max(1))
    }

    /// Returns the bytes that enter from `since` to `until`, `seconds` later [B].
    fn gained(&self, since: Time, until: Time, seconds: f64) -> f64 {
        let seconds = match self.of.period {
            None => seconds,
            Some(period) => (self.periods(until) - self.periods(since)) as f64 * period,
        };
        self.gain * seconds
    }

    /// Returns the time from `now` until the bucket is empty [s]: infinite if it is already, or if `used` [B/s] does not empty it.
    fn lasts(&self, drawn: f64, used: f64) -> f64 {
        let drain = if self.of.period.is_some() { used } else { used - self.gain };
        let content = self.content(drawn);
        if content > 0.0 && drain > 0.0 { content / drain } else { f64::INFINITY }
    }

    /// Returns the time from `now` until the next period begins [s]; infinite without periods.
    fn next_period(&self, now: Time) -> f64 {
        let begin = |period: f64| {
            let span = Span::from_seconds(period).0.max(1);
            Time(span.saturating_mul(self.periods(now) + 1)).since(now).seconds()
        };
        self.of.period.map_or(f64::INFINITY, begin)
    }
}

impl Line {
    /// Returns how many of `left` bytes arrive in one turn [B].
    fn piece(&self, left: f64) -> f64 {
        // Half a byte of slack, because differences of sizes are rounded.
        self.piece.filter(|piece| left >= piece + 0.5).unwrap_or(left)
    }

    /// Returns the bandwidth of `number` transfers together when `drawn` bytes have been taken from the bucket [B/s].
    fn together(&self, number: usize, drawn: f64) -> f64 {
        match (&self.bucket, &self.bandwidth) {
            (Some(bucket), _) if bucket.content(drawn) > 0.0 => bucket.of.bandwidth,
            (Some(Bucket { of: Burst { period: Some(_), .. }, .. }), _) => 0.0,
            (_, Bandwidth::Fixed(all)) => *all,
            (_, Bandwidth::ByTransfers(table)) => {
                let entry = table.get(number.saturating_sub(1)).or(table.last());
                entry.copied().unwrap_or(f64::INFINITY)
            }
        }
    }

    /// Returns, for each queue, the rate of each of its transfers [B/s]. `transfers` is the number of transfers in each queue, `drawn` the
    /// bytes that have been taken from the bucket.
    fn rates(&self, transfers: &[usize], drawn: f64) -> Vec<f64> {
        let number: usize = transfers.iter().sum();
        let mut left = self.together(number, drawn);
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

    /// Adds an operation to the station, which serves `rate` operations per second [1/s], or lets them pass by a token bucket. Returns
    /// the time at which the operation is done.
    pub(super) fn operate(&mut self, now: Time, rate: f64, bucket: Option<&TokenLaw>) -> Time {
        if let Some(bucket) = bucket {
            return Time::from_seconds(bucket.take(&mut self.tokens, now.seconds(), 1.0));
        }
        self.served = self.served.max(now) + Span::from_seconds(1.0 / rate);
        self.served
    }

    /// Starts a transfer of `bytes` for the reader with the number `reader`; its upper 32 bits are the number of the reader's client. Returns the time at which the transfer ends if
    /// no other transfer starts.
    pub(super) fn begin(&mut self, now: Time, line: &Line, reader: u64, bytes: f64) -> Time {
        self.advance(now, line);
        let queue = (reader % line.queues.0 as u64) as usize;
        let client = reader >> 32;
        self.transfers.push(Transfer {
            reader,
            client,
            queue,
            left: bytes,
            turn: None,
            ended: None,
        });
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

    /// Begins turns until as many transfers are served as are at once.
    fn begin_turns(&mut self, line: &Line) {
        let served = self.transfers.iter().filter(|of| of.is_open() && of.turn.is_some()).count();
        for _ in served..line.at_once {
            let Some(place) = self.next_turn(line) else { return };
            let of = &mut self.transfers[place];
            of.turn = Some(line.piece(of.left));
            let (client, number) =
                (of.client, 1 + self.turns.iter().map(|of| of.1).max().unwrap_or(0));
            self.turns.retain(|of| of.0 != client);
            self.turns.push((client, number));
        }
    }

    /// Returns the place of the transfer whose turn is next: the first that came, of those of the client whose last turn began longest
    /// ago if clients take turns.
    fn next_turn(&self, line: &Line) -> Option<usize> {
        let waits = |place: &usize| {
            self.transfers[*place].is_open() && self.transfers[*place].turn.is_none()
        };
        let mut waiting = (0..self.transfers.len()).filter(waits);
        if line.piece.is_none() {
            return waiting.next();
        }
        let last = |client| self.turns.iter().find(|of| of.0 == client).map_or(0, |of| of.1);
        waiting.min_by_key(|place| {
            let client = self.transfers[*place].client;
            (last(client), client)
        })
    }

    /// Advances to the next end of a turn, or to the instant at which the token bucket is empty or a period begins, and returns true, if
    /// that is not after `now`; otherwise advances to `now` and returns false.
    fn step(&mut self, now: Time, line: &Line) -> bool {
        self.begin_turns(line);
        let served = || {
            self.transfers
                .iter()
                .filter_map(|of| Some((of.queue, of.turn.filter(|_| of.is_open())?)))
        };
        let mut in_queues = vec![0; line.queues.0];
        served().for_each(|(queue, _)| in_queues[queue] += 1);
        let in_queue = line.rates(&in_queues, self.drawn);
        let rates: Vec<f64> = served().map(|(queue, _)| in_queue[queue]).collect();
        if rates.is_empty() {
            if now > self.until && now != Time::NEVER {
                self.pass(now, now.since(self.until).seconds(), 0.0, line);
            }
            return false;
        }
        let used: f64 = rates.iter().sum();
        let time = |((_, left), rate): ((usize, f64), &f64)| {
            if *rate > 0.0 { left / rate } else { f64::INFINITY }
        };
        let ending = served().zip(&rates).map(time).fold(f64::INFINITY, f64::min);
        let empty = line.bucket.map_or(f64::INFINITY, |bucket| bucket.lasts(self.drawn, used));
        let period = line.bucket.map_or(f64::INFINITY, |bucket| bucket.next_period(self.until));
        let after = ending.min(empty).min(period);
        let end = self.until + Span::from_seconds(after);
        let ends = after.is_finite() && end <= now;
        let passed = if ends { after } else { now.since(self.until).seconds() };
        self.pass(end.min(now), passed, used, line);
        if let Some(bucket) = line.bucket.filter(|_| ends && empty <= ending.min(period)) {
            // The bucket is empty exactly then, whatever the rounding.
            self.drawn = bucket.of.content;
        }
        let served = self.transfers.iter_mut().filter(|of| of.is_open() && of.turn.is_some());
        for (of, rate) in served.zip(&rates) {
            of.pass(*rate, passed, Some((end, after)).filter(|_| ends));
        }
        ends
    }

    /// Lets `seconds` pass until `until`, in which the transfers use `used` [B/s].
    fn pass(&mut self, until: Time, seconds: f64, used: f64, line: &Line) {
        if let Some(bucket) = line.bucket {
            let gained = bucket.gained(self.until, until.max(self.until), seconds);
            let full = bucket.of.content - bucket.of.bucket;
            self.drawn = (self.drawn + used * seconds - gained).max(full);
        }
        self.until = self.until.max(until);
    }

    /// Encodes the state as bytes, for other processes.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.clear();
        let lengths = [self.transfers.len(), self.turns.len(), self.requests.len()];
        let tokens = [self.tokens.beyond, self.tokens.until].map(f64::to_bits);
        let head = [self.served.0, self.until.0, self.drawn.to_bits()];
        let head = tokens.into_iter().chain(head);
        let head = head.into_iter().chain(lengths.map(|n| n as u64));
        let rows = self.transfers.iter().flat_map(|transfer| {
            let ended = transfer.ended.unwrap_or(Time::NEVER).0;
            let turn = transfer.turn.unwrap_or(WAITS).to_bits();
            let of = [transfer.reader, transfer.client, transfer.queue as u64];
            of.into_iter().chain([transfer.left.to_bits(), turn, ended])
        });
        let turns = self.turns.iter().flat_map(|(client, number)| [*client, *number]);
        let words = head.chain(rows).chain(turns).chain(self.requests.iter().copied());
        words.for_each(|word| to.extend_from_slice(&word.to_le_bytes()));
    }

    /// Decodes what [`Books::encode`] wrote; returns an empty state for any other bytes.
    pub(super) fn decode(from: &[u8]) -> Books {
        let mut words = from
            .chunks_exact(8)
            .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        let mut word = || words.next();
        let mut read = || {
            let [beyond, taken] = [f64::from_bits(word()?), f64::from_bits(word()?)];
            let tokens = TokensTaken { beyond, until: taken };
            let (served, until) = (Time(word()?), Time(word()?));
            let drawn = f64::from_bits(word()?);
            let (transfers, turns, requests) = (word()?, word()?, word()?);
            let transfer = |_| {
                let (reader, client, queue) = (word()?, word()?, word()? as usize);
                let [left, turn] = [f64::from_bits(word()?), f64::from_bits(word()?)];
                let turn = Some(turn).filter(|turn| *turn != WAITS);
                let ended = Some(Time(word()?)).filter(|ended| *ended != Time::NEVER);
                Some(Transfer { reader, client, queue, left, turn, ended })
            };
            let transfers = (0..transfers).map(transfer).collect::<Option<_>>()?;
            let turns = (0..turns).map(|_| Some((word()?, word()?))).collect::<Option<_>>()?;
            let requests = (0..requests).map(|_| word()).collect::<Option<_>>()?;
            Some(Books { served, tokens, until, drawn, transfers, turns, requests })
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
            bucket: None,
            cap,
            queues: (1, f64::INFINITY),
            at_once: usize::MAX,
            piece: None,
        }
    }

    fn near(time: Time, seconds: f64) {
        assert!((time.seconds() - seconds).abs() < 1e-9, "{} for {seconds}", time.seconds());
    }

    #[test]
    fn a_storage_device_serves_operations_one_after_another() {
        let mut books = Books::default();
        near(books.operate(at(1.0), 10.0, None), 1.1);
        near(books.operate(at(1.05), 10.0, None), 1.2);
        near(books.operate(at(5.0), 10.0, None), 5.1);
        // With a token bucket of two operations, those that come seldom do not wait.
        let law = TokenLaw {
            sustained: 10.0,
            fast: f64::INFINITY,
            bucket: 2.0,
            content: 2.0,
            period: None,
        };
        for (now, end) in [(6.0, 6.0), (6.0, 6.0), (6.0, 6.1), (6.0, 6.2), (6.4, 6.4)] {
            near(books.operate(at(now), 10.0, Some(&law)), end);
        }
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
        let falling = Line { bandwidth: table, ..line(1.0, 1e9) };
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
    fn clients_take_turns_of_a_piece_each() {
        // System: 100 B/s, turns of 20 B. A reader of client 1 asks for 50 B and then one for 20 B, one of client 2 for 20 B and then
        // another for 30 B, all at 0 s. Expectation: turns of clients 1, 2, 1, 2, 1 (10 B), 2 (10 B), 1; each client's requests in order
        // of arrival. The first to wait after a pause is the client whose last turn was longer ago.
        let line = Line { at_once: 1, piece: Some(20.0), ..line(100.0, f64::INFINITY) };
        let mut books = Books::default();
        let reader = |client: u64, number: u64| (client << 32) + number;
        let asked = [(1, 1, 50.0), (1, 2, 20.0), (2, 1, 20.0), (2, 2, 30.0)];
        for (client, number, bytes) in asked {
            books.begin(at(0.0), &line, reader(client, number), bytes);
        }
        let ends = [(1, 1, 0.9), (1, 2, 1.2), (2, 1, 0.4), (2, 2, 1.0)];
        for now in [0.0, 0.3, 2.0] {
            for (client, number, end) in ends {
                near(books.look(at(now), &line, reader(client, number)), end);
            }
        }
        near(books.begin(at(3.0), &line, reader(3, 1), 10.0), 3.1);
        near(books.begin(at(3.0), &line, reader(1, 3), 10.0), 3.2);
        near(books.begin(at(3.0), &line, reader(2, 3), 10.0), 3.2);
        near(books.look(at(3.0), &line, reader(1, 3)), 3.3);
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

    /// Returns a link of 100 B/s, and of 400 B/s while a bucket of `bucket` bytes, full at the start, holds bytes.
    fn bursting(bucket: f64, period: Option<f64>) -> Line {
        let of = Burst { bandwidth: 400.0, bucket, content: bucket, period };
        Line { bucket: Some(Bucket { of, gain: 100.0 }), ..line(100.0, f64::INFINITY) }
    }

    #[test]
    fn a_bucket_of_bytes_makes_transfers_faster_while_it_lasts() {
        // System: 100 B/s, and 400 B/s from a bucket of 300 B. Expectation: it lasts for 1 s, so that 600 B take 3 s. After 1.5 s without
        // transfers it holds 150 B, which last for 0.5 s: 250 B take 1 s. It never holds more than 300 B.
        let (mut books, line) = (Books::default(), bursting(300.0, None));
        near(books.begin(at(0.0), &line, 1, 600.0), 3.0);
        near(books.look(at(1.7), &line, 1), 3.0);
        near(books.look(at(3.0), &line, 1), 3.0);
        books.leave(1);
        near(books.begin(at(4.5), &line, 1, 250.0), 5.5);
        books.look(at(5.5), &line, 1);
        books.leave(1);
        near(books.begin(at(1000.0), &line, 1, 600.0), 1003.0);
    }

    #[test]
    fn a_gate_lets_the_bytes_of_a_period_pass_and_then_nothing_until_the_next() {
        // System: 100 B/s in periods of 0.5 s at 400 B/s, so 50 B in the first 0.125 s of each. Expectation: 120 B end in the third
        // period, at 1.05 s. The 30 B that the bucket then holds are the first of 40 B from 1.1 s on; the others pass from 1.5 s on.
        let (mut books, line) = (Books::default(), bursting(50.0, Some(0.5)));
        near(books.begin(at(0.0), &line, 1, 120.0), 1.05);
        near(books.look(at(0.3), &line, 1), 1.05);
        near(books.look(at(1.1), &line, 1), 1.05);
        books.leave(1);
        near(books.begin(at(1.1), &line, 1, 40.0), 1.525);
        assert!((books.drawn - 20.0).abs() < 1e-9, "{}", books.drawn);
    }

    #[test]
    fn encoded_storage_state_is_decoded_unchanged() {
        let (mut books, line) = (Books::default(), line(1e3, 1e9));
        books.operate(at(0.25), 7.0, None);
        books.tokens = TokensTaken { beyond: 3.0, until: 0.25 };
        books.begin(at(0.5), &line, 1, 10.0);
        books.begin(at(0.6), &line, 1 << 40, 3000.0);
        assert!(books.turns.len() == 1 && books.transfers.iter().any(|of| of.turn.is_none()));
        books.enter(7, 1, 1);
        books.drawn = 12.5;
        let mut bytes = Vec::new();
        books.encode(&mut bytes);
        assert_eq!(Books::decode(&bytes), books);
        assert_eq!(Books::decode(&bytes[..20]), Books::default());
    }
}
