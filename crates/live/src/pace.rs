//! Holds storage to the limits that the scenario sets: real reads are delayed accordingly.
//!
//! A request passes the same stages as in a simulation: a slot in its I/O queue, the operation station, the latency (the
//! same random numbers), and a transfer over the link that all transfers of all job copies share. The real read happens at the
//! same time; the request ends when both have ended. Every wait has an absolute end, and the delay of a late wake-up is deducted
//! from the next wait, so that delays do not add up.

use super::books::{Bucket, Line};
use super::fault::Failure;
use super::ledger::Ledger;
use super::log::Log;
use forebay_engine::{Span, Time};
use forebay_model::law::TokenLaw;
use forebay_model::random::{Purpose, Sampler, Streams};
use forebay_report::Cause;
use forebay_scenario::storage::Bandwidth;
use forebay_scenario::{Burst, Distribution, Queues, Scenario};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Limit for the delay that is deducted from the next wait; longer delays are not due to timers.
const MOST_OWED: Span = Span(1_000_000_000);
/// Time between two checks of whether a slot in an I/O queue is free.
const LOOK: Span = Span(100_000_000);
/// Shortest wait that is worth a sleep.
const SHORTEST: Span = Span(2_000_000);

/// Limits that a live run enforces on a storage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Limits {
    /// Operations per second; `None` if the scenario sets no limit [1/s].
    operations: Option<f64>,
    /// Token bucket of operations; `None` if the scenario sets none.
    tokens: Option<TokenLaw>,
    /// I/O queues of a node; `None` if the scenario sets none.
    queues: Option<Queues>,
    /// Time to the first byte; `None` if the scenario sets none.
    latency: Option<Distribution>,
    /// Fixed delay that is added to the latency, or to the transfer if `latency` is `None` [s].
    more: f64,
    /// Limits on the rates of transfers; `None` if the scenario sets none.
    line: Option<Line>,
}

impl Limits {
    /// Returns the limits of storage number `index`; `None` if the scenario sets none, or if reads come from the page cache.
    pub(super) fn for_storage(scenario: &Scenario, index: usize) -> Option<Limits> {
        let storage = &scenario.storage[index];
        if storage.warm.is_some() {
            return None;
        }
        let written = storage.written;
        let path = &storage.path;
        let remote = path.is_remote();
        let cluster = &scenario.cluster;
        // All transfers of this machine are those of one node.
        let client = if written.per_client { path.per_client } else { f64::INFINITY };
        let nic = if remote { cluster.data_nic().min(client) } else { f64::INFINITY };
        let trip = if remote { 2.0 * cluster.latency } else { 0.0 };
        let drawn = Some(&path.latency).filter(|_| written.latency || trip > 0.0);
        let queues = path.queues.filter(|_| written.queues);
        // If the scenario sets none of these, the machine's own transfer is part of the real read.
        let paced = written.bandwidth
            || written.per_stream
            || written.queues
            || written.burst
            || nic.is_finite();
        let own = if drawn.is_none() { path.latency.mean() } else { 0.0 };
        let line = Line {
            bandwidth: narrowed(&path.bandwidth, nic),
            bucket: path.burst.filter(|_| written.burst).map(|burst| Bucket {
                gain: path.bandwidth.most(),
                of: Burst { bandwidth: burst.bandwidth.min(nic), ..burst },
            }),
            cap: path.per_stream,
            queues: queues.map_or((1, f64::INFINITY), |of| (of.number as usize, of.bandwidth)),
            at_once: path.in_flight(nic).map_or(usize::MAX, |number| number as usize),
            piece: path.sharing.piece(),
        };
        let limits = Limits {
            operations: Some(path.operations).filter(|rate| written.operations && rate.is_finite()),
            tokens: path.operation_burst.filter(|_| written.burst),
            queues,
            latency: drawn.cloned(),
            more: trip + own,
            line: Some(line).filter(|line| paced && line.is_finite()),
        };
        let any = limits.operations.is_some()
            || limits.latency.is_some()
            || limits.line.is_some()
            || limits.queues.is_some();
        any.then_some(limits)
    }

    /// Describes the limits for users.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        let mut say = |what: String| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}{what}", if text.is_empty() { "" } else { ", " });
        };
        if let Some(Line { bandwidth, cap, bucket, .. }) = &self.line {
            match bandwidth {
                Bandwidth::Fixed(all) if all.is_finite() => {
                    say(format!("{} MB/s", short(all / 1e6)))
                }
                Bandwidth::Fixed(_) => {}
                Bandwidth::ByTransfers(table) => {
                    let most = table.iter().copied().fold(0.0, f64::max);
                    say(format!("at most {} MB/s, by number of transfers", short(most / 1e6)));
                }
            }
            if let Some(Bucket { of, .. }) = bucket {
                let (fast, size) = (short(of.bandwidth / 1e6), short(of.bucket / 1e6));
                say(format!("{fast} MB/s while a bucket of {size} MB holds bytes"));
            }
            if cap.is_finite() {
                say(format!("{} MB/s for each transfer", short(cap / 1e6)));
            }
        }
        if let Some(Queues { number, depth, bandwidth }) = self.queues {
            let each = format!("I/O queues ({number}) of {depth} requests");
            say(match bandwidth.is_finite() {
                true => format!("{each} and {} MB/s", short(bandwidth / 1e6)),
                false => each,
            });
        }
        if let Some(rate) = self.operations {
            say(format!("{} operations per second", short(rate)));
            if let Some(law) = &self.tokens {
                say(format!("{} of them at once after a rest", short(law.bucket)));
            }
        }
        if let Some(latency) = &self.latency {
            let mean = latency.mean() + self.more;
            say(format!("{} ms to the first byte on average", short(1e3 * mean)));
        }
        text
    }

    /// Returns whether the time to the first byte can be distinguished from the transfer.
    pub(super) fn tells_latency(&self) -> bool {
        self.latency.is_some()
    }
}

impl Line {
    fn is_finite(&self) -> bool {
        let all = match &self.bandwidth {
            Bandwidth::Fixed(all) => all.is_finite(),
            Bandwidth::ByTransfers(table) => table.iter().all(|rate| rate.is_finite()),
        };
        all || self.cap.is_finite() || self.queues.1.is_finite()
    }
}

/// Rounds to four decimals.
fn short(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Returns the bandwidth, limited to `most` [B/s].
fn narrowed(bandwidth: &Bandwidth, most: f64) -> Bandwidth {
    match bandwidth {
        Bandwidth::Fixed(all) => Bandwidth::Fixed(all.min(most)),
        Bandwidth::ByTransfers(table) => {
            Bandwidth::ByTransfers(table.iter().map(|all| all.min(most)).collect())
        }
    }
}

/// State that the readers of a job copy share to keep to the limits of their storage.
pub(super) struct Pacer {
    limits: Limits,
    ledger: Ledger,
    streams: Streams,
    /// Number of the job copy among all job copies of the scenario.
    owner: u64,
    readers: AtomicU64,
    over: Arc<AtomicBool>,
}

impl Pacer {
    /// Returns the pacer of job copy `owner`. The state of the limits is private to this process, or the shared state at the path
    /// `shared`.
    pub(super) fn new(
        limits: Limits,
        shared: Option<&Path>,
        streams: Streams,
        owner: u64,
        over: Arc<AtomicBool>,
    ) -> Result<Pacer, Failure> {
        // The upper half of a reader's number is its client's.
        let (ledger, readers) = (Ledger::open(shared)?, AtomicU64::new(owner << 32));
        Ok(Pacer { limits, ledger, streams, owner, readers, over })
    }
}

/// Compares the times of a reader's requests with the times that the storage limits allow.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Tally {
    /// Time that the requests may take by the limits [s].
    pub(super) allowed: f64,
    /// Time by which the machine's reads exceeded `allowed` [s].
    pub(super) exceeded: f64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.allowed += other.allowed;
        self.exceeded += other.exceeded;
    }
}

/// Paces the requests of one reader.
pub(super) struct Pace {
    pacer: Arc<Pacer>,
    reader: u64,
    latency: Option<Sampler>,
    /// Delay with which the last wait ended.
    late: Span,
    pub(super) tally: Tally,
}

/// A request in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    start: Time,
    /// Time at which the request's first byte arrives; `None` if the scenario sets no latency.
    first: Option<Time>,
}

impl Request {
    /// Returns whether the real read counts as waiting for the first byte.
    pub(super) fn tells_latency(&self) -> bool {
        self.first.is_some()
    }
}

impl Pace {
    /// Returns the pace of a new reader of the job copy.
    pub(super) fn new(pacer: &Arc<Pacer>) -> Pace {
        let reader = pacer.readers.fetch_add(1, Ordering::Relaxed);
        let latency = pacer.limits.latency.as_ref().map(Sampler::new);
        Pace { pacer: pacer.clone(), reader, latency, late: Span::ZERO, tally: Tally::default() }
    }

    /// Waits for the operation station before a file is opened, if opens are operations.
    pub(super) fn open(&mut self, log: &mut Log) {
        if self.pacer.limits.queues.is_none() {
            self.operate(log);
        }
    }

    fn operate(&mut self, log: &mut Log) {
        let Limits { operations, tokens, .. } = &self.pacer.limits;
        let Some(rate) = *operations else { return };
        log.begin(Cause::Open);
        let served =
            self.pacer.ledger.write(|books| books.operate(log.now(), rate, tokens.as_ref()));
        self.sleep(served, log);
    }

    /// Waits for a slot in the reader's I/O queue, if there are queues, and then for the operation station.
    fn enter(&mut self, log: &mut Log) {
        let Pacer { limits, ledger, over, .. } = &*self.pacer;
        let Some(Queues { number, depth, .. }) = limits.queues else { return };
        log.begin(Cause::Open);
        let enter = || {
            ledger.write(|books| books.enter(self.reader, number.into(), depth as usize))
                || over.load(Ordering::Relaxed)
        };
        while !enter() {
            log.sleep_until(log.now() + LOOK, over);
        }
        self.operate(log);
    }

    /// Begins request number `request` of `bytes` for the sample at `position`. The caller then makes the real read.
    pub(super) fn begin(
        &mut self,
        position: u64,
        request: u64,
        bytes: u64,
        log: &mut Log,
    ) -> Request {
        self.enter(log);
        let more = self.pacer.limits.more;
        let latency = self.latency.as_ref().map(|sampler| {
            let of = &self.pacer;
            let mut draws = of.streams.at(Purpose::Latency, of.owner, position, request);
            Span::from_seconds(sampler.draw(&mut draws) + more)
        });
        let start = if latency.is_some() { log.begin(Cause::Latency) } else { log.now() };
        if latency.is_none() {
            self.transfer(bytes, log);
        }
        Request { start, first: latency.map(|latency| start + latency) }
    }

    /// Ends a request whose bytes have really been read: waits until they would have arrived under the limits.
    pub(super) fn end(&mut self, request: Request, bytes: u64, log: &mut Log) {
        let read = log.now();
        let mut end = request.start;
        if let Some(first) = request.first {
            self.sleep(first, log);
            end = first;
            if self.pacer.limits.line.is_some() {
                self.transfer(bytes, log);
                log.begin(Cause::Transfer);
            }
        }
        if self.pacer.limits.line.is_some() {
            end = self.receive(request.first.is_none(), log);
        }
        if self.pacer.limits.queues.is_some() {
            self.pacer.ledger.write(|books| books.exit(self.reader));
        }
        if end > request.start {
            self.tally.allowed += end.since(request.start).seconds();
            self.tally.exceeded += read.since(end).seconds();
        }
        self.late = self.late.min(MOST_OWED);
    }

    /// Starts the transfer of `bytes` to this reader on the storage's link; does nothing if transfers have no limits.
    fn transfer(&self, bytes: u64, log: &Log) {
        let Pacer { limits, ledger, .. } = &*self.pacer;
        let Some(line) = &limits.line else { return };
        ledger.write(|books| books.begin(log.now(), line, self.reader, bytes as f64));
    }

    /// Waits for the end of this reader's transfer, which later transfers may delay, and returns the time of that end. If the
    /// reader did not wait for a latency (`not_awaited`), the fixed delay is added to the transfer.
    fn receive(&mut self, not_awaited: bool, log: &Log) -> Time {
        let Pacer { limits, ledger, over, .. } = &*self.pacer;
        let more = Span::from_seconds(if not_awaited { limits.more } else { 0.0 });
        loop {
            let (late, stop) = (self.late.0, over.load(Ordering::Relaxed));
            let (end, due, now) = ledger.write(|books| {
                let now = log.now();
                let end =
                    limits.line.as_ref().map_or(now, |line| books.look(now, line, self.reader));
                let due = Time((end + more).0.saturating_sub(late));
                if due <= now + SHORTEST || stop {
                    books.leave(self.reader);
                }
                (end + more, due, now)
            });
            if due <= now + SHORTEST || stop {
                self.late = now.since(due);
                return end;
            }
            log.sleep_until(due, over);
        }
    }

    /// Sleeps until `deadline`, less the delay with which the last wait ended.
    fn sleep(&mut self, deadline: Time, log: &Log) {
        let due = Time(deadline.0.saturating_sub(self.late.0));
        if due > log.now() + SHORTEST {
            log.sleep_until(due, &self.pacer.over);
        }
        self.late = log.now().since(due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_scenario::ScenarioFile;

    #[test]
    fn live_runs_emulate_token_buckets_that_the_scenario_writes_and_not_those_of_the_profile() {
        // System: a disk with a token bucket, then the same one as a profile would give it, with nothing written. Expectation: limits with
        // the bucket; no limits, because the machine itself has them.
        let text = r#"
name = "bucket"
run.steps = 10
cluster = { nodes = 1, node.cores = 4 }
storage.s.local-disk = { bandwidth = "100 MB/s", burst = { bandwidth = "1 GB/s", bucket = "1 GB" } }
dataset.d = { samples = 100, sample_size = "100 kB" }
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 8
loader.tf-queue = { threads = 2, capacity = "16 samples", decode = "1 ms" }
model.step = "10 ms"
"#;
        let file = ScenarioFile::parse("bucket.toml", text.to_owned()).expect("a scenario");
        let mut scenario = file.resolve(&[]).expect("a scenario");
        let limits = Limits::for_storage(&scenario, 0).expect("limits");
        assert!(limits.line.is_some_and(|line| line.bucket.is_some()));
        scenario.storage[0].written = forebay_scenario::Written::default();
        assert_eq!(Limits::for_storage(&scenario, 0), None);
    }
}
