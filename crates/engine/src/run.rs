//! The loop over events.

use super::{Calendar, Time};

/// Number of steps at one instant after which the loop assumes that the model is stuck there, and
/// panics.
const STUCK: u64 = 1 << 26;

/// Something that reacts to events.
pub trait Model {
    /// An event of the model.
    type Event: Copy;

    /// Returns the model's calendar, from which the loop takes one event after the other.
    fn calendar(&mut self) -> &mut Calendar<Self::Event>;

    /// Reacts to an event that happens at `now`.
    fn handle(&mut self, now: Time, event: Self::Event);

    /// Returns the next instant at which the model itself completes something, such as a flow;
    /// `None` if it completes nothing. Such instants never enter the calendar.
    fn pending(&mut self) -> Option<Time> {
        None
    }

    /// Completes what [`Model::pending`] announced for `now`, such as a flow.
    fn advance(&mut self, now: Time) {
        let _ = now;
    }

    /// Whether the run is over, because no event that could still happen matters.
    fn is_over(&self) -> bool {
        false
    }
}

/// Runs `model` up to and including the instant `until`, or until it is over; returns the number of
/// events handled.
///
/// At equal instants the model's own completions come before the calendar's events.
pub fn run<M: Model>(model: &mut M, until: Time) -> u64 {
    let (mut handled, mut now, mut steps) = (0, Time::ZERO, 0);
    while !model.is_over() {
        let pending = model.pending().unwrap_or(Time::NEVER);
        let event = model.calendar().peek().unwrap_or(Time::NEVER);
        let next = pending.min(event);
        if next > until || next == Time::NEVER {
            break;
        }
        assert!(next >= now, "time went backwards");
        steps = if next == now { steps + 1 } else { 0 };
        assert!(steps < STUCK, "time does not advance");
        now = next;
        // At equal instants the event waits for the completion.
        if pending <= event {
            model.advance(now);
        } else if let Some((_, event)) = model.calendar().pop() {
            model.handle(now, event);
            handled += 1;
        }
    }
    handled
}
