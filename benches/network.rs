//! Flow completions per second through the network alone, one thread.
//!
//! Each of J nodes has 8 workers, a private link of 1.25e9 B/s, and reads samples of 256 KiB
//! (lognormal, sigma 0.6) from one server. A worker reads again at once, or, in the cases with
//! thinking, after a while (exponential, a quarter of a read), so that the numbers of active
//! flows change. In the mixed cases a ring of 1 MiB chunks goes from each node to the next.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay::engine::{Calendar, Time};
use forebay::fluid::{Capacity, Demand, GroupId, LinkId, Network, Use};
use std::time::Duration;

const WORKERS: u32 = 8;
const NIC: f64 = 1.25e9;
const SAMPLE: f64 = 262_144.0;
const CHUNK: f64 = 1_048_576.0;
const RING: u32 = u32::MAX;

/// A small random number generator; its quality does not matter here.
struct Draw(u64);

impl Draw {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a random lognormal size with mean `SAMPLE` [B].
    fn size(&mut self) -> f64 {
        let normal = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        SAMPLE * (0.6 * normal - 0.18).exp()
    }
}

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    server: fn(u32) -> f64,
    thinking: bool,
    /// Workers of each node; with one, each read makes its group active and inactive again.
    workers: u32,
    ring: bool,
    /// Whether each node's link is a little faster than the link of the node before.
    unequal: bool,
}

struct World {
    net: Network<u32>,
    /// Workers of each node.
    workers: u32,
    calendar: Calendar<u32>,
    reads: Vec<GroupId>,
    ring: Vec<GroupId>,
    sizes: Vec<f64>,
    thoughts: Vec<u64>,
    drawn: usize,
}

fn route(links: &[LinkId]) -> Demand {
    let route = links.iter().map(|&link| Use { link, per_unit: 1.0 }).collect();
    Demand { route, weight: 1.0, cap: f64::INFINITY }
}

impl World {
    fn new(nodes: u32, case: Case) -> World {
        let (mut net, mut draw) = (Network::new(), Draw(1));
        let capacity = (case.server)(nodes);
        let server = net.link(Capacity::Fixed(capacity));
        let nic =
            |j: u32| NIC * if case.unequal { 1.0 + f64::from(j) / f64::from(nodes) } else { 1.0 };
        let inward: Vec<_> = (0..nodes).map(|j| net.link(Capacity::Fixed(nic(j)))).collect();
        let outward: Vec<_> = (0..nodes).map(|j| net.link(Capacity::Fixed(nic(j)))).collect();
        let reads = inward.iter().map(|&nic| net.group(route(&[server, nic]))).collect();
        let next = |j: usize| inward[(j + 1) % inward.len()];
        let ring = outward.iter().enumerate().map(|(j, &out)| net.group(route(&[out, next(j)])));
        let ring: Vec<_> = if case.ring { ring.collect() } else { Vec::new() };
        let sizes = (0..65_536).map(|_| draw.size()).collect();
        // A read takes about this long [ps].
        let read =
            SAMPLE * f64::from(nodes * case.workers) / capacity.min(NIC * f64::from(nodes)) * 1e12;
        let thought = |draw: &mut Draw| (-0.25 * read * (1.0 - draw.unit()).ln()) as u64;
        let thoughts =
            (0..if case.thinking { 65_536 } else { 0 }).map(|_| thought(&mut draw)).collect();
        let mut world = World {
            net,
            workers: case.workers,
            calendar: Calendar::new(),
            reads,
            ring,
            sizes,
            thoughts,
            drawn: 0,
        };
        for worker in 0..nodes * case.workers {
            world.read(Time::ZERO, worker);
        }
        for (j, &group) in world.ring.iter().enumerate() {
            // Start times differ, so that chunks do not move in lockstep.
            let first = CHUNK * (j + 1) as f64 / f64::from(nodes);
            world.net.start(Time::ZERO, group, first, RING - j as u32);
        }
        world
    }

    fn read(&mut self, now: Time, worker: u32) {
        self.drawn += 1;
        let size = self.sizes[self.drawn & 65_535];
        self.net.start(now, self.reads[(worker / self.workers) as usize], size, worker);
    }

    fn finished(&mut self, now: Time, token: u32) {
        if token as usize >= self.reads.len() * self.workers as usize {
            self.net.start(now, self.ring[(RING - token) as usize], CHUNK, token);
        } else if self.thoughts.is_empty() {
            self.read(now, token);
        } else {
            let wait = self.thoughts[self.drawn & 65_535];
            self.calendar.schedule(Time(now.0 + wait), token);
        }
    }

    /// Runs until `flows` more flows have finished; returns the time of the last.
    fn run(&mut self, flows: u64) -> Time {
        let mut left = flows as i64;
        let mut now = Time::ZERO;
        while left > 0 {
            let due = self.net.next();
            match self.calendar.peek() {
                Some(at) if due.is_none_or(|due| at < due) => {
                    now = at;
                    if let Some((now, worker)) = self.calendar.pop() {
                        self.read(now, worker);
                    }
                }
                _ => {
                    now = due.expect("flows are active");
                    while let Some(flow) = self.net.finish(now) {
                        left -= 1;
                        self.finished(now, flow.token);
                    }
                }
            }
        }
        now
    }
}

/// Returns the processor time of this thread: wall time would include other work on a shared machine.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match stat.split(' ').next().and_then(|ns| ns.parse().ok()) {
        Some(ns) => Duration::from_nanos(ns),
        None => std::time::UNIX_EPOCH.elapsed().unwrap_or_default(),
    }
}

const SERVER: fn(u32) -> f64 = |_| 2e9;
const AMPLE: fn(u32) -> f64 = |nodes| 2e10 * f64::from(nodes);
const BOTH: fn(u32) -> f64 = |nodes| 0.8 * NIC * f64::from(nodes);

const fn case(name: &'static str, server: fn(u32) -> f64, thinking: bool) -> Case {
    Case { name, server, thinking, workers: WORKERS, ring: false, unequal: false }
}

const CASES: [Case; 12] = [
    case("server", SERVER, false),
    case("server, thinking", SERVER, true),
    case("nic", AMPLE, false),
    case("nic, thinking", AMPLE, true),
    case("both", BOTH, false),
    case("both, thinking", BOTH, true),
    Case { unequal: true, ..case("both unequal, thinking", BOTH, true) },
    Case { workers: 1, ..case("server, one worker, thinking", SERVER, true) },
    Case { workers: 1, ..case("nic, one worker, thinking", AMPLE, true) },
    Case { workers: 1, ..case("both, one worker, thinking", BOTH, true) },
    Case { ring: true, ..case("ring", SERVER, false) },
    Case { ring: true, ..case("ring, thinking", SERVER, true) },
];

fn flows(c: &mut Criterion) {
    const FLOWS: u64 = 20_000;
    for case in CASES {
        let mut group = c.benchmark_group(case.name);
        group.sample_size(10).throughput(Throughput::Elements(FLOWS));
        for nodes in [16, 64, 256, 4096] {
            let mut world = None;
            let fresh = || {
                let mut world = World::new(nodes, case);
                world.run(4 * u64::from(nodes * case.workers));
                world
            };
            group.bench_function(BenchmarkId::from_parameter(nodes), |b| {
                b.iter_custom(|n| {
                    let world = world.get_or_insert_with(fresh);
                    let start = processor_time();
                    for _ in 0..n {
                        world.run(FLOWS);
                    }
                    processor_time().saturating_sub(start)
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, flows);
criterion_main!(benches);
