//! The overhead of timing itself, which is subtracted from measured times.

use std::hint::black_box;
use std::time::Instant;

/// The overhead of timing itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ruler {
    /// Time of one clock reading [s].
    pub look: f64,
    /// Time of one iteration of an empty loop [s].
    pub turn: f64,
}

impl Ruler {
    /// Measures the overhead within some milliseconds, as the median of many short measurements, so that
    /// interruptions do not count.
    #[must_use]
    pub fn measure() -> Ruler {
        const GOES: usize = 51;
        let median = |go: fn(u32) -> f64| {
            let mut each: Vec<f64> = (0..GOES).map(|_| go(1000)).collect();
            each.sort_by(f64::total_cmp);
            each[GOES / 2]
        };
        Ruler { look: median(looks), turn: median(turns) }
    }

    /// Returns `seconds` less the time of `looks` clock readings, but at least a tenth of `seconds`.
    #[must_use]
    pub fn less(&self, seconds: f64, looks: u64) -> f64 {
        (seconds - self.look * looks as f64).max(0.1 * seconds)
    }
}

/// Returns the mean time of one clock reading [s], measured over `count` readings.
pub(super) fn looks(count: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        black_box(Instant::now());
    }
    start.elapsed().as_secs_f64() / f64::from(count)
}

/// Returns the mean time of one iteration of an empty loop [s], measured over `count` iterations.
pub(super) fn turns(count: u32) -> f64 {
    let start = Instant::now();
    for turn in 0..count {
        black_box(turn);
    }
    start.elapsed().as_secs_f64() / f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_clock_readings_is_subtracted_from_measured_times() {
        let ruler = Ruler::measure();
        assert!(ruler.look > 0.0 && ruler.turn >= 0.0);
        let ruler = Ruler { look: 1e-3, turn: 0.0 };
        assert!((ruler.less(1.0, 100) - 0.9).abs() < 1e-12);
        assert!((ruler.less(1.0, 2000) - 0.1).abs() < 1e-12, "time never ends before it began");
    }
}
