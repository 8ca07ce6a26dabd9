//! Clocks of ranks. A rank's clock counts from its start; rank 0 asks for it several times, and the answer that came back soonest
//! tells best by how much both differ (Cristian, *Probabilistic clock synchronization*, 1989).

use std::thread;
use std::time::{Duration, Instant};

/// Clock of a process: time since its start.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Starts a clock.
    #[must_use]
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Returns the time since the start [s].
    #[must_use]
    pub fn now(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    /// Sleeps until `time`; returns how late it has become [s].
    pub fn wait(self, time: f64) -> f64 {
        let left = time - self.now();
        if left > 0.0 {
            thread::sleep(Duration::from_secs_f64(left));
        }
        (self.now() - time).max(0.0)
    }
}

/// Difference between the clock of a rank and that of rank 0, with its largest error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offset {
    /// What to add to rank 0's clock to get the rank's [s].
    pub seconds: f64,
    /// Largest error: half of the time in which the answer came back [s].
    pub error: f64,
}

impl Offset {
    /// Returns the offset that one answer tells: asked at `asked` and answered by `back`, both by rank 0's clock, while the rank's clock
    /// showed `there` [s].
    #[must_use]
    pub fn of(asked: f64, there: f64, back: f64) -> Offset {
        Offset { seconds: there - 0.5 * (asked + back), error: 0.5 * (back - asked) }
    }

    /// Returns the better of two.
    #[must_use]
    pub fn better(self, other: Offset) -> Offset {
        if other.error < self.error { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_that_comes_back_soonest_tells_the_offset() {
        // The rank's clock is 5 s ahead; one answer took 2 ms there and 8 ms back, another 1 ms each way.
        let slow = Offset::of(1.0, 6.002, 1.010);
        let fast = Offset::of(2.0, 7.001, 2.002);
        assert!((slow.seconds - 5.0).abs() <= slow.error + 1e-12);
        let best = slow.better(fast);
        assert!((best.seconds - 5.0).abs() < 1e-9 && (best.error - 0.001).abs() < 1e-9, "{best:?}");
    }

    #[test]
    fn waiting_ends_at_the_time_or_at_once() {
        let clock = Clock::start();
        let late = clock.wait(0.02);
        assert!(clock.now() >= 0.02 && late >= 0.0);
        assert!(clock.wait(-1.0) >= 1.0);
    }
}
