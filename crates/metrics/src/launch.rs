//! Causes of a device's wait for its trainer's threads on the node's cores.

use super::timeline::Segment;
use forebay_engine::{Span, Time};
use forebay_report::{Cause, StallCause};

/// Splits a device's wait for its trainer's threads, from `from` to `now`, into two causes: first waiting for cores, then the
/// threads' work. The threads began at `since` and took longer than their `work` [core-s] because other threads had the cores.
pub fn launch_waits(since: Time, work: f64, from: Time, now: Time) -> [Segment; 2] {
    let work = Span::from_seconds(work).0.min(now.since(since).0);
    let turn = Time(now.0 - work).clamp(from, now);
    let segment = |start, end, cause| Segment { start, end, cause: StallCause::own(cause) };
    [segment(from, turn, Cause::CpuWait), segment(turn, now, Cause::Launch)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_wait_is_split_into_waiting_for_cores_and_then_cpu_work() {
        // System: threads at work from 2 s to 10 s for 3 core-seconds; the device waited from 5 s. Expectation: 2 s of waiting
        // for cores, 3 s for the work; from 8 s on, 2 s for the work and none for cores.
        const S: u64 = 1_000_000_000_000;
        let split = |from: u64| {
            let parts = launch_waits(Time(2 * S), 3.0, Time(from * S), Time(10 * S));
            parts.map(|part| part.end.since(part.start).seconds())
        };
        assert_eq!(split(5), [2.0, 3.0]);
        assert_eq!(split(8), [0.0, 2.0]);
        assert_eq!(split(2), [5.0, 3.0]);
    }
}
