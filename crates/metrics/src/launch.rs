//! Causes of a device's wait for its trainer's threads on the node's cores.

use super::timeline::Segment;
use forebay_engine::{Span, Time};
use forebay_report::{Cause, StallCause};

/// Host-side work of a device's trainers for a step, as far as its device waits for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostWork {
    /// Time at which the work began.
    pub since: Time,
    /// Core-seconds of a thread of the trainer that has the most to do [s].
    pub work: f64,
    /// Longest time from the end of a trainer's threads to its own end: its wait, then its turn and the wait for it.
    pub after: Span,
    /// Time for which the CPU quota stopped the threads.
    pub throttled: Span,
}

/// Splits a device's wait for `host`, from `from` to `now`, into three causes: first the quota that stopped the threads, then other
/// threads that had the cores, then the threads' work, with what a trainer does after it.
pub fn launch_waits(host: HostWork, from: Time, now: Time) -> [Segment; 3] {
    let work = (Span::from_seconds(host.work).0 + host.after.0).min(now.since(host.since).0);
    let turn = Time(now.0 - work).clamp(from, now);
    let resumed = (from + host.throttled).min(turn);
    let segment = |start, end, cause| Segment { start, end, cause: StallCause::own(cause) };
    [
        segment(from, resumed, Cause::Throttled),
        segment(resumed, turn, Cause::CpuWait),
        segment(turn, now, Cause::Launch),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_wait_is_split_into_waiting_for_cores_and_then_cpu_work() {
        // System: threads at work from 2 s to 10 s for 3 core-seconds; the device waited from 5 s. Expectation: 2 s of waiting
        // for cores, 3 s for the work; from 8 s on, 2 s for the work and none for cores. Where the quota stopped the threads, that
        // comes first, and is no longer than the wait.
        const S: u64 = 1_000_000_000_000;
        let split = |from: u64, throttled: u64| {
            let throttled = Span(throttled * S);
            let host = HostWork { since: Time(2 * S), work: 3.0, throttled, after: Span::ZERO };
            let parts = launch_waits(host, Time(from * S), Time(10 * S));
            parts.map(|part| part.end.since(part.start).seconds())
        };
        assert_eq!(split(5, 0), [0.0, 2.0, 3.0]);
        assert_eq!(split(8, 0), [0.0, 0.0, 2.0]);
        assert_eq!(split(2, 0), [0.0, 5.0, 3.0]);
        assert_eq!(split(2, 4), [4.0, 1.0, 3.0]);
        assert_eq!(split(5, 4), [2.0, 0.0, 3.0]);
    }
}
