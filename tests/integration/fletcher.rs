//! Fletcher's results (2018): the shipped scenarios show what he measured, for his reasons, and an
//! independent calculation agrees.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::runs::{Steady, shipped, simulate, steady};

const SCENARIO: &str = "fletcher-lenet";

/// The scenario with a batch interval and a number of threads; steps enough for `batches` batches.
fn run(threads: u32, interval: u32, batches: u32) -> Steady {
    let (skip, steps) = (interval * batches / 4, interval * batches);
    let changes = [
        ("job.loader.tf-queue.threads", threads.to_string()),
        ("job.batch_interval", interval.to_string()),
        ("run.steps", steps.to_string()),
    ];
    let changes: Vec<(&str, &str)> = changes.iter().map(|(k, v)| (*k, v.as_str())).collect();
    steady(&simulate(&shipped(SCENARIO, &changes)), skip.max(1) as usize)
}

fn in_memory() -> f64 {
    steady(&simulate(&shipped("fletcher-in-memory", &[("run.steps", "60")])), 10).step
}

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {value} instead of {expected} ({error:+.3})");
}

#[test]
fn starved_in_memory_and_the_knee_between() {
    let (starved, memory) = (run(8, 1, 48).step, in_memory());
    assert_near("step time with the queue exhausted", starved, 50e-3, 0.20);
    assert_near("step time in memory", memory, 3e-3, 0.20);
    assert_near("their ratio", starved / memory, 16.7, 0.10);
    // The knee: where t·k = constant meets t = compute.
    let below = [2, 4, 8].map(|k| run(8, k, 48).step * k as f64);
    let constant = below.iter().sum::<f64>() / below.len() as f64;
    assert_near("the knee", constant / memory, 16.7, 0.15);
    let beyond = run(8, 32, 40).step;
    assert!(beyond < 1.08 * memory, "beyond the knee a step takes as long as the model: {beyond}");
}

#[test]
fn below_the_knee_steps_pay_for_fresh_samples_only() {
    // System: threads fixed, k = 1, 2, 4, 8. Expectation: t·k and fresh samples per second constant,
    // because the input delivers what it can whatever the trainer does with it.
    let runs = [1, 2, 4, 8].map(|k| (k as f64, run(8, k, 64)));
    for (k, steady) in runs {
        assert_near("step time × k", steady.step * k, runs[0].1.step, 0.02);
        assert_near("fresh samples per second", steady.fresh, runs[0].1.fresh, 0.02);
    }
}

#[test]
fn a_starved_step_takes_what_the_input_takes() {
    // System: k fixed, threads vary. Expectation: step time × enqueue rate = 256 samples.
    for threads in [1, 2, 4, 8] {
        let steady = run(threads, 4, 32);
        let product = steady.step * 4.0 * steady.unblocked_enqueue;
        assert_near("step time × enqueue rate", product, 256.0, 0.02);
    }
    // More threads soften exhaustion.
    let steps = [1, 2, 4, 8].map(|threads| run(threads, 1, 16).step);
    assert!(steps.windows(2).all(|pair| pair[1] < pair[0]), "{steps:?}");
}

#[test]
fn the_net_enqueue_rate_changes_sign_at_the_knee() {
    let net = |k| {
        let steady = run(8, k, 40);
        steady.unblocked_enqueue - steady.unstalled_dequeue
    };
    let (below, beyond) = (net(14), net(20));
    assert!(below < 0.0 && beyond > 0.0, "net rate {below} at 14 and {beyond} at 20");
}

#[test]
fn the_net_enqueue_rate_predicts_how_long_a_full_queue_lasts() {
    // System: 20,000 samples, k = 8. Expectation: they last 20,000 ÷ −net, more threads longer.
    let mut before = 0.0;
    for threads in ["2", "4", "8"] {
        let changes =
            [("job.loader.tf-queue.threads", threads), ("run.steps", "1600"), ("job.copies", "4")];
        let outcome = simulate(&shipped("time-to-exhaustion", &changes));
        let lasted = outcome.jobs.iter().map(|job| job.queue.exhaustions[0].start).sum::<f64>()
            / outcome.jobs.len() as f64;
        let steady = steady(&outcome, 1000);
        let predicted = 20_000.0 / (steady.unstalled_dequeue - steady.unblocked_enqueue);
        assert_near("time to exhaustion", lasted, predicted, 0.05);
        assert!(lasted > before, "more threads delay exhaustion");
        before = lasted;
    }
}

#[test]
fn epochs_per_second_fall_only_beyond_the_knee() {
    let fresh = [1, 8, 32, 64].map(|k| run(8, k, 40).fresh);
    assert_near("at k = 8 as at k = 1", fresh[1], fresh[0], 0.02);
    assert!(fresh[2] < 0.6 * fresh[0], "at k = 32 the trainer asks for less: {fresh:?}");
    assert_near("half again at twice the interval", fresh[3], fresh[2] / 2.0, 0.05);
}

#[test]
fn an_independent_calculation_agrees() {
    let base = Plain::default();
    type Changes = Vec<(&'static str, &'static str)>;
    let cases: [(&str, Plain, Changes); 6] = [
        ("as shipped", base, vec![]),
        ("4 jobs", Plain { jobs: 4, ..base }, vec![("job.copies", "4")]),
        ("3 threads", Plain { threads: 3, ..base }, vec![("job.loader.tf-queue.threads", "3")]),
        (
            "16 threads: the operations are the limit",
            Plain { threads: 16, ..base },
            vec![("job.loader.tf-queue.threads", "16")],
        ),
        (
            "256 KiB: the server's bandwidth is the limit",
            Plain { size: 262_144.0, ..base },
            vec![("dataset.mnist.sample_size", "\"256 KiB\"")],
        ),
        (
            "60,000 operations per second",
            Plain { operations: 60e3, ..base },
            vec![("storage.hpctmp.file-server.operations", "\"60000 /s\"")],
        ),
    ];
    for (what, plain, mut changes) in cases {
        changes.push(("run.steps", "64"));
        let forebay = steady(&simulate(&shipped(SCENARIO, &changes)), 16).step;
        assert_near(what, forebay, plain.step_time(64, 16), 0.01);
    }
}

/// The same system on one page, sharing nothing with forebay: floating-point seconds, its own
/// random numbers, every transfer's rate worked out anew at every change.
#[derive(Clone, Copy)]
struct Plain {
    jobs: usize,
    threads: usize,
    size: f64,
    operations: f64,
}

impl Default for Plain {
    fn default() -> Self {
        Plain { jobs: 16, threads: 8, size: 784.0, operations: 100e3 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Opened,
    FirstByte,
    Decoded,
    Trained,
}

impl Plain {
    const SERVER: f64 = 2e9;
    const NIC: f64 = 1.25e9;
    const STREAM: f64 = 400e6;

    fn step_time(&self, steps: usize, skip: usize) -> f64 {
        let workers = self.jobs * self.threads;
        let mut random = 88_172_645_463_325_252_u64;
        let mut plan: BinaryHeap<Reverse<(u64, Next, usize)>> = BinaryHeap::new();
        let at = |seconds: f64| (seconds * 1e15) as u64;
        let (mut now, mut server_free) = (0.0_f64, 0.0_f64);
        let mut transfers: Vec<(usize, f64)> = Vec::new();
        let mut queue = vec![0_usize; self.jobs];
        let mut blocked = vec![VecDeque::new(); self.jobs];
        let mut waiting = vec![true; self.jobs];
        let mut ends: Vec<Vec<f64>> = vec![Vec::new(); self.jobs];
        let mut idle: Vec<usize> = (0..workers).collect();
        while ends.iter().any(|e| e.len() < steps) {
            // Idle threads ask the operation station, which serves one after the other.
            for worker in idle.drain(..) {
                server_free = server_free.max(now) + 1.0 / self.operations;
                plan.push(Reverse((at(server_free), Next::Opened, worker)));
            }
            let rates = self.rates(&transfers);
            let (first, left) = transfers
                .iter()
                .zip(&rates)
                .map(|((_, bytes), rate)| bytes / rate)
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(&b.1))
                .unwrap_or((0, f64::INFINITY));
            let planned = plan.peek().map_or(f64::INFINITY, |e| e.0.0 as f64 / 1e15);
            let then = planned.min(now + left);
            for ((_, bytes), rate) in transfers.iter_mut().zip(&rates) {
                *bytes -= rate * (then - now);
            }
            now = then;
            if planned > now || plan.is_empty() {
                let (worker, _) = transfers.swap_remove(first);
                plan.push(Reverse((at(now + 50e-6), Next::Decoded, worker)));
                continue;
            }
            let Some(Reverse((_, next, who))) = plan.pop() else { break };
            match next {
                Next::Opened => {
                    // Median 0.92 ms, 99th percentile 9.2 ms; 5 µs each way.
                    let sigma = 10.0_f64.ln() / 2.326_347_874;
                    let latency = 0.92e-3 * (sigma * normal(&mut random)).exp() + 10e-6;
                    plan.push(Reverse((at(now + latency), Next::FirstByte, who)));
                }
                Next::FirstByte => transfers.push((who, self.size)),
                Next::Decoded => {
                    let job = who / self.threads;
                    if queue[job] == 2000 {
                        blocked[job].push_back(who);
                    } else {
                        queue[job] += 1;
                        idle.push(who);
                    }
                }
                Next::Trained => {
                    ends[who].push(now);
                    waiting[who] = true;
                }
            }
            let job = if next == Next::Trained { who } else { who / self.threads };
            if waiting[job] && queue[job] >= 256 {
                queue[job] -= 256;
                waiting[job] = false;
                plan.push(Reverse((at(now + 2e-3 + 64.0 * 15.6e-6), Next::Trained, job)));
                while queue[job] < 2000
                    && let Some(worker) = blocked[job].pop_front()
                {
                    queue[job] += 1;
                    idle.push(worker);
                }
            }
        }
        let mean = |e: &Vec<f64>| (e[steps - 1] - e[skip - 1]) / (steps - skip) as f64;
        ends.iter().map(mean).sum::<f64>() / self.jobs as f64
    }

    /// Fair shares: no stream above its cap, no node above its NIC, all within the server. From the slowest stream on, each takes
    /// its equal part of what is left, or less where it cannot take that.
    fn rates(&self, transfers: &[(usize, f64)]) -> Vec<f64> {
        let mut of_node = vec![0.0; self.jobs];
        transfers.iter().for_each(|(worker, _)| of_node[worker / self.threads] += 1.0);
        let most = |(worker, _): &(usize, f64)| {
            Self::STREAM.min(Self::NIC / of_node[worker / self.threads])
        };
        let mut rates: Vec<f64> = transfers.iter().map(most).collect();
        let mut slowest_first: Vec<usize> = (0..rates.len()).collect();
        slowest_first.sort_by(|a, b| rates[*a].total_cmp(&rates[*b]));
        let mut left = Self::SERVER;
        for (done, stream) in slowest_first.into_iter().enumerate() {
            rates[stream] = rates[stream].min(left / (transfers.len() - done) as f64);
            left -= rates[stream];
        }
        rates
    }
}

/// Sum of twelve uniforms would be too short in the tail: Box–Muller over a xorshift generator.
fn normal(state: &mut u64) -> f64 {
    let mut uniform = || {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        ((*state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}
