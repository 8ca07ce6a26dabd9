//! The wall clock of one run, and the CPU clock of a thread.

use forebay_engine::{Span, Time};
use forebay_live_queue::Watch;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longest sleep between two checks of whether the run is over.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Time since the common start of all jobs in a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock(Instant);

impl Clock {
    /// Returns a clock that is zero when the machine's monotonic clock shows `nanoseconds`: the same instant in every process.
    pub(super) fn from_monotonic(nanoseconds: u64) -> Clock {
        let (now, instant) = (monotonic(), Instant::now());
        let zero = if nanoseconds >= now {
            instant + Duration::from_nanos(nanoseconds - now)
        } else {
            instant.checked_sub(Duration::from_nanos(now - nanoseconds)).unwrap_or(instant)
        };
        Clock(zero)
    }

    /// Returns the current time; zero before the start.
    #[inline]
    pub(super) fn now(self) -> Time {
        self.at(Instant::now())
    }

    /// Returns the time of an instant; zero before the start.
    pub(super) fn at(self, instant: Instant) -> Time {
        let elapsed = instant.saturating_duration_since(self.0);
        Time(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000))
    }

    /// Sleeps until `deadline`, or until `stop` is set. The sleep ends late by the delay of the system's timer.
    pub(super) fn sleep_until(self, deadline: Time, stop: &AtomicBool) {
        let deadline = Duration::from_nanos(deadline.0 / 1000);
        while !stop.load(Ordering::Relaxed) {
            // Before the start, the time left until the start is added.
            let to_start = self.0.saturating_duration_since(Instant::now());
            let elapsed = Instant::now().saturating_duration_since(self.0);
            let left = (deadline + to_start).saturating_sub(elapsed);
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(LONGEST_SLEEP));
        }
    }
}

impl Watch for Clock {
    fn begun() -> Clock {
        Clock::from_monotonic(monotonic())
    }

    #[inline]
    fn now(self) -> Time {
        Clock::now(self)
    }
}

/// Returns the time of the machine's monotonic clock [ns].
#[must_use]
pub fn monotonic() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Returns the CPU time that the calling thread has used.
pub(super) fn thread_cpu() -> Span {
    Span(nanoseconds(ClockId::ThreadCPUTime).saturating_mul(1000))
}

/// Returns the CPU time that this process has used [s].
pub(super) fn process_cpu() -> f64 {
    nanoseconds(ClockId::ProcessCPUTime) as f64 / 1e9
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Keeps a core busy until the calling thread has used `work` of CPU time. This takes longer if other threads use the core too.
pub(super) fn busy(work: Span) {
    let start = thread_cpu();
    loop {
        let used = thread_cpu().0.saturating_sub(start.0);
        let left = work.0.saturating_sub(used) / 1000;
        // For shorter times, reading the clock takes longer than the work.
        if left < 200 {
            return;
        }
        // A thread uses at most as much CPU time as wall time passes, so it need not check earlier.
        let until = Instant::now() + Duration::from_nanos(left.min(10_000_000));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}
