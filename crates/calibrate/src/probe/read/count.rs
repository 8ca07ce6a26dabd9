//! Throughput of a closed loop of readers, by counting completed requests within a window of time.
//!
//! A trial that begins and ends with requests under way counts more than the storage serves in its time: those that a throttle
//! lets pass at once at the beginning, and the parts of requests that end after it. So what completes before the window begins
//! does not count, and the window is as long as the throughput's own unrest demands.

use forebay_engine::stats::{mean, sd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Period in which Linux's throttles share out bytes, requests and core time: of `blk-throttle`, and the default of quotas.
const PERIOD: Duration = Duration::from_millis(100);
/// Number of parts of a period, or of a short window, whose counts are compared.
const PARTS: u32 = 5;
/// Smallest number of periods of a long window: what a burst at its edge can change falls with the square of this number.
const PERIODS: usize = 10;

/// Requests that a reader has completed. Each counter has a cache line of its own, so that readers do not slow each other.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Publishes how many requests the reader has completed so far.
    pub(super) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}

/// The part of a trial in which completions count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Begin, since the origin of the trial [s].
    pub from: f64,
    /// End, since the origin of the trial [s].
    pub to: f64,
}

impl Window {
    /// Returns whether a completion at `at` lies in the window.
    #[must_use]
    pub fn has(&self, at: f64) -> bool {
        at > self.from && at <= self.to
    }

    /// Returns the completions per second [1/s]: the slope of the straight line through their count over time, by least squares.
    /// Each completion counts with a weight that falls to zero towards both ends (Epanechnikov's), so that a burst at an edge
    /// counts neither whole nor not at all.
    #[must_use]
    pub fn rate(&self, completions: impl Iterator<Item = f64>) -> f64 {
        let (middle, half) = (0.5 * (self.from + self.to), 0.5 * (self.to - self.from));
        let weight = |at: f64| 0.75 / half * (1.0 - ((at - middle) / half).powi(2));
        completions.filter(|at| self.has(*at)).map(weight).sum()
    }
}

/// Time since the origin of a trial [s], and number of completions until then.
type Look = (f64, f64);

/// How long a trial goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Length of the window if throughput is steady.
    pub(super) length: Duration,
    /// Longest time of the whole trial.
    pub(super) longest: Duration,
    /// Relative standard error of the throughput with which a window is long enough.
    pub(super) noise: f64,
}

/// Watches `counters` until the throughput is known well enough; `over` says whether the readers have ended by themselves.
/// Returns the window, of times since `origin`, which ends before the first reader does; `None` if a reader ended within the first
/// period that counts.
pub(super) fn watch(
    counters: &[Counter],
    origin: Instant,
    limits: Limits,
    over: impl Fn() -> bool,
) -> Option<Window> {
    let begin = origin.elapsed();
    let look = || {
        let count: u64 = counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum();
        (origin.elapsed().as_secs_f64(), count as f64)
    };
    let looks = |tick: Duration, until: &mut dyn FnMut(&[Look]) -> bool| {
        let mut seen = vec![look()];
        let start = origin.elapsed();
        while !until(&seen) {
            let next = start + tick * seen.len() as u32;
            thread::sleep(next.saturating_sub(origin.elapsed()));
            if over() {
                // What was seen until then counts, if it has the length of a period.
                let whole = tick * (seen.len() as u32 - 1) >= PERIOD;
                return whole.then_some(seen);
            }
            seen.push(look());
        }
        Some(seen)
    };
    // The first part lets the readers start.
    let short = looks(limits.length / PARTS, &mut |seen| seen.len() as u32 > PARTS + 1)?;
    let [first, .., last] = short[1..] else { return None };
    let longest = limits.longest.saturating_sub(origin.elapsed() - begin);
    if error(&short[1..]) <= limits.noise || longest.is_zero() {
        return Some(Window { from: first.0, to: last.0 });
    }
    // A throttle lets a whole period's worth pass at once to whoever begins, so the first period does not count.
    let skipped = PERIOD.saturating_sub(origin.elapsed() - begin).min(longest / 4);
    thread::sleep(skipped);
    let longest = longest - skipped;
    let tick = (PERIOD / PARTS).min(longest / PARTS).max(Duration::from_micros(100));
    let parts = PARTS as usize;
    let mut long_enough = |seen: &[Look]| {
        let periods: Vec<Look> = seen.iter().step_by(parts).copied().collect();
        let known = seen.len() % parts == 1 && periods.len() > PERIODS;
        known && error(&periods) <= limits.noise || tick * seen.len() as u32 > longest
    };
    let long = looks(tick, &mut long_enough)?;
    let [first, .., last] = long[..] else { return None };
    Some(Window { from: first.0, to: last.0 })
}

/// Returns the relative standard error of the throughput, from the counts between neighbouring looks.
fn error(seen: &[Look]) -> f64 {
    let rate = |pair: &[Look]| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
    let rates: Vec<f64> = seen.windows(2).map(rate).collect();
    match (mean(&rates), sd(&rates)) {
        (Some(mean), Some(sd)) if mean > 0.0 => sd / mean / (rates.len() as f64).sqrt(),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// System: four readers of 1 MiB behind a gate that lets 44 MB pass per second, in bursts every 100 ms, and a period's worth
    /// at once at the beginning. Expectation: windows of one second, wherever they begin, find the rate within 2 %, and those
    /// of two seconds within 0.7 %, while plain counts over the first second are wrong by 7 %.
    #[test]
    fn rates_from_weighted_counts_depend_little_on_bursts_at_the_edges() {
        const SIZE: f64 = (1 << 20) as f64;
        let rate = 44e6 / SIZE;
        let burst = |number: u32| {
            let passed = |period: u32| (rate * 0.1 * f64::from(period)).floor();
            let count = passed(number + 1) - passed(number) + if number == 0 { 4.0 } else { 0.0 };
            (0..count as u32).map(move |n| 0.1 * f64::from(number) + 1e-3 * f64::from(n))
        };
        let all: Vec<f64> = (0..40).flat_map(burst).collect();
        for (seconds, within) in [(1.0, 0.02), (2.0, 0.007)] {
            for begin in 0..100 {
                let from = 0.1 + f64::from(begin) * 1e-3;
                let found = Window { from, to: from + seconds }.rate(all.iter().copied());
                assert!((found / rate - 1.0).abs() < within, "{seconds} {begin}: {}", found / rate);
            }
        }
        let plain = all.iter().filter(|at| **at < 1.0).count() as f64;
        assert!(plain / rate > 1.07, "{plain}");
    }

    #[test]
    fn the_rate_of_steady_completions_is_exact_in_any_window() {
        let all: Vec<f64> = (0..100_000).map(|n| f64::from(n) * 1e-5).collect();
        for (from, to) in [(0.1, 0.2), (0.05, 0.95)] {
            let found = Window { from, to }.rate(all.iter().copied());
            assert!((found / 1e5 - 1.0).abs() < 1e-4, "{found}");
        }
    }

    /// Counts as a reader does: `each` gives the number of completions after this many seconds.
    fn watched(longest: f64, each: impl Fn(f64) -> f64 + Sync) -> Window {
        let (counters, origin) = ([Counter::default()], Instant::now());
        let done = std::sync::atomic::AtomicBool::new(false);
        let limits = Limits {
            length: Duration::from_millis(50),
            longest: Duration::from_secs_f64(longest),
            noise: 0.1,
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    counters[0].set(each(origin.elapsed().as_secs_f64()) as u64);
                    thread::sleep(Duration::from_micros(200));
                }
            });
            let window = watch(&counters, origin, limits, || false);
            done.store(true, Ordering::Relaxed);
            window.expect("readers go on")
        })
    }

    #[test]
    fn windows_are_short_if_throughput_is_steady_and_long_if_it_comes_in_bursts() {
        let long = watched(1.3, |at| 40.0 * (10.0 * at).floor());
        assert!(long.from >= 0.1 && (0.9..1.5).contains(&(long.to - long.from)), "{long:?}");
        // A machine that takes the cores from this test for 20 ms makes steady throughput look unsteady, so one of several counts.
        let steady = || watched(1.3, |at| 1e6 * at);
        let shortest = (0..10).map(|_| steady()).map(|of| of.to - of.from).fold(9.0, f64::min);
        assert!((0.03..0.3).contains(&shortest), "{shortest}");
    }

    #[test]
    fn a_window_ends_before_the_first_reader_does() {
        // System: requests in bursts, of readers that end after 0.6 s. Expectation: a window that leaves out the first period and ends
        // before 0.6 s.
        let (counters, origin) = ([Counter::default()], Instant::now());
        let limits = Limits {
            length: Duration::from_millis(50),
            longest: Duration::from_secs(5),
            noise: 0.01,
        };
        let ended = || origin.elapsed() > Duration::from_millis(600);
        let count = || {
            counters[0].set(40 * (origin.elapsed().as_millis() as u64 / 100));
            ended()
        };
        let window = watch(&counters, origin, limits, count).expect("a window");
        assert!(window.from >= 0.1 && window.to <= 0.6, "{window:?}");
        assert!(window.to - window.from >= 0.1, "{window:?}");
    }

    #[test]
    fn there_is_no_window_if_readers_end_before_it_does() {
        let limits = Limits { length: PERIOD, longest: PERIOD, noise: 0.1 };
        assert_eq!(watch(&[Counter::default()], Instant::now(), limits, || true), None);
    }
}
