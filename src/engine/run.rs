//! The loop over events.

use super::{Calendar, Time};

/// Steps at one instant after which a model is taken to be stuck there.
const STUCK: u64 = 1 << 26;

/// Something that reacts to events.
pub trait Model {
    /// What can happen to it.
    type Event: Copy;

    /// Reacts to an event that happens at `now`.
    fn handle(&mut self, now: Time, event: Self::Event, calendar: &mut Calendar<Self::Event>);

    /// The next instant at which the model itself finishes something, such as a flow; such
    /// instants never enter the calendar.
    fn pending(&mut self) -> Option<Time> {
        None
    }

    /// Finishes what [`Model::pending`] announced for `now`.
    fn advance(&mut self, now: Time, calendar: &mut Calendar<Self::Event>) {
        let _ = (now, calendar);
    }

    /// Whether nothing that could still happen matters.
    fn is_over(&self) -> bool {
        false
    }
}

/// Runs `model` up to and including the instant `until`, or until it is over; gives the number of
/// events handled.
///
/// At equal instants the model's own completions come before the calendar's events.
pub fn run<M: Model>(model: &mut M, calendar: &mut Calendar<M::Event>, until: Time) -> u64 {
    let (mut handled, mut now, mut steps) = (0, Time::ZERO, 0);
    while !model.is_over() {
        let pending = model.pending();
        let scheduled = calendar.peek();
        let Some(next) = earliest(pending, scheduled).filter(|&next| next <= until) else {
            break;
        };
        assert!(next >= now, "time went backwards");
        steps = if next == now { steps + 1 } else { 0 };
        assert!(steps < STUCK, "time does not advance");
        now = next;
        if pending == Some(now) {
            model.advance(now, calendar);
        } else if let Some((at, event)) = calendar.pop() {
            model.handle(at, event, calendar);
            handled += 1;
        }
    }
    handled
}

/// The earlier of two instants, either of which may be missing.
fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
