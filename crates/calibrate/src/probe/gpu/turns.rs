//! Steps of several learners in turn, submitted ahead of the GPU.

use crate::probe::ProbeError;
use std::ops::Range;
use std::time::Instant;

/// Number of steps that are submitted beyond the one that the GPU executes, so that the GPU never waits for the host.
const AHEAD: u64 = 8;

/// A learner whose steps are submitted first and end later.
pub(super) trait Stepper {
    /// Submits step number `step`.
    fn begin(&mut self, step: u64) -> Result<(), ProbeError>;

    /// Waits for the end of step number `step`, and returns when it was.
    fn end(&mut self, step: u64) -> Result<Instant, ProbeError>;
}

/// Trains learners, each one step in turn, and waits for the ends of all steps. Returns when each step of the first learner ended.
pub(super) fn train(
    learners: &mut [impl Stepper],
    steps: Range<u64>,
) -> Result<Vec<Instant>, ProbeError> {
    let (mut ends, mut begun) = (Vec::new(), steps.clone());
    for step in steps {
        for ahead in begun.start..(step + AHEAD + 1).min(begun.end) {
            learners.iter_mut().try_for_each(|learner| learner.begin(ahead))?;
            begun.start += 1;
        }
        let of_all = learners.iter_mut().map(|learner| learner.end(step));
        ends.extend(of_all.collect::<Result<Vec<_>, _>>()?.first());
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::time::Duration;

    /// A learner that records what is asked of it; step number n ends n ms after the start.
    struct Recorder<'r> {
        number: usize,
        start: Instant,
        calls: &'r RefCell<Vec<(&'static str, usize, u64)>>,
    }

    impl Stepper for Recorder<'_> {
        fn begin(&mut self, step: u64) -> Result<(), ProbeError> {
            self.calls.borrow_mut().push(("begin", self.number, step));
            Ok(())
        }

        fn end(&mut self, step: u64) -> Result<Instant, ProbeError> {
            self.calls.borrow_mut().push(("end", self.number, step));
            Ok(self.start + Duration::from_millis(step))
        }
    }

    /// System: two learners and steps 3 to 49. Expectation: learners begin each step in turn, 8 steps ahead of the oldest that
    /// has not ended; all steps end in order, and the ends are those of the first learner.
    #[test]
    fn learners_step_in_turn_and_a_few_steps_ahead() {
        let (calls, start) = (RefCell::new(Vec::new()), Instant::now());
        let mut learners = [0, 1].map(|number| Recorder { number, start, calls: &calls });
        let ends = train(&mut learners, 3..50).unwrap();
        let expected: Vec<_> = (3..50).map(|step| start + Duration::from_millis(step)).collect();
        assert_eq!(ends, expected);
        let calls = calls.into_inner();
        let of =
            |what| calls.iter().filter(move |call| call.0 == what).map(|call| (call.2, call.1));
        let in_turn: Vec<_> = (3..50).flat_map(|step| [(step, 0), (step, 1)]).collect();
        assert_eq!(of("begin").collect::<Vec<_>>(), in_turn);
        assert_eq!(of("end").collect::<Vec<_>>(), in_turn);
        let mut ahead = 0_i64;
        let most = calls.iter().map(|call| {
            ahead += if call.0 == "begin" { 1 } else { -1 };
            ahead
        });
        assert_eq!(most.max(), Some(2 * 9));
    }
}
