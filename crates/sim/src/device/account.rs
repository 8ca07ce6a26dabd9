//! The account of a device's time: what the device does now, and what its time was spent on.

use forebay_engine::Time;
use forebay_metrics::{Segment, Steps};
use forebay_report::StallCause;

/// The activity of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Before its job starts or after its last step.
    Off,
    /// Waiting at the barrier, or for the input of its current op.
    Idle,
    /// Waiting for a batch.
    Starving,
    /// Waiting for its batch to be copied to it.
    Loading,
    /// Waiting for the host-side work of its trainers.
    Launching,
    /// Waiting for parameters from the parameter servers.
    AwaitingParameters,
    /// Computing.
    Busy,
    /// Updating parameters or decompressing gradients.
    Updating,
    /// Moving its model towards the reference model of its GPU, or waiting to do so.
    Averaging,
}

/// The account of a device's time.
///
/// Its clock is the instant up to which the device's time has been charged. Once started, it only moves forward, and only by
/// [`wait`](Account::wait), [`compute`](Account::compute) and [`update`](Account::update), which charge exactly the time by which
/// they move it. So the waits of all causes and the computation add up to the time since the start: none is left out, and none is
/// counted twice. Only this type adds the time of devices to a job copy's [`Steps`].
#[derive(Debug)]
pub(crate) struct Account {
    state: State,
    clock: Time,
    /// Time spent computing [s].
    computed: f64,
    /// Time spent updating parameters or decompressing gradients, after the kernels of each step [s].
    updated: f64,
}

impl Account {
    /// Returns the account of a device that is off.
    pub(super) fn new() -> Account {
        Account { state: State::Off, clock: Time::ZERO, computed: 0.0, updated: 0.0 }
    }

    /// Starts the clock at `now`; the device is idle.
    pub(crate) fn start(&mut self, now: Time) {
        (self.state, self.clock) = (State::Idle, now);
    }

    /// Stops the clock at `now`: the device is off. Time that is not charged yet belongs to no step, but a computation counts as
    /// work of the device.
    pub(crate) fn stop(&mut self, now: Time) {
        self.computed = self.computed(now);
        (self.state, self.clock) = (State::Off, now);
    }

    /// Begins another activity at `now`, up to which all time is charged.
    pub(crate) fn begin(&mut self, now: Time, state: State) {
        debug_assert_eq!(self.clock, now, "{:?} is charged before {state:?} begins", self.state);
        self.state = state;
    }

    /// Charges the time up to `until` as a wait with this cause.
    #[inline]
    pub(crate) fn wait(&mut self, steps: &mut Steps, until: Time, cause: StallCause) {
        if self.clock < until {
            steps.add_stall(Segment { start: self.clock, end: until, cause });
            self.clock = until;
        }
    }

    /// Charges the time up to `until` as computation.
    #[inline]
    pub(crate) fn compute(&mut self, steps: &mut Steps, until: Time) {
        self.computed += self.charge_work(steps, until);
    }

    /// Charges the time up to `until` as an update of parameters.
    pub(crate) fn update(&mut self, steps: &mut Steps, until: Time) {
        self.updated += self.charge_work(steps, until);
    }

    /// Charges the time up to `until` as work; returns this time [s].
    fn charge_work(&mut self, steps: &mut Steps, until: Time) -> f64 {
        if until <= self.clock {
            return 0.0;
        }
        steps.add_compute(self.clock, until);
        until.since(std::mem::replace(&mut self.clock, until)).seconds()
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Returns the instant up to which the device's time has been charged: usually the start of what it does now.
    pub(crate) fn clock(&self) -> Time {
        self.clock
    }

    /// Returns the time spent computing up to `now` [s], without updates.
    pub(crate) fn computed(&self, now: Time) -> f64 {
        let open =
            if self.state == State::Busy { now.since(self.clock) } else { Default::default() };
        self.computed + open.seconds()
    }

    /// Returns the time spent on updates [s].
    pub(crate) fn updated(&self) -> f64 {
        self.updated
    }
}

#[cfg(test)]
mod tests {
    use forebay_engine::Span;
    use forebay_report::{Cause, QueueTotals};

    use super::*;

    /// Numbers from 0 to below `limit` that look random (Knuth's MMIX generator).
    fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |limit| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        }
    }

    #[test]
    fn waits_of_all_causes_and_computation_add_up_to_the_elapsed_time() {
        // System: random sequences of waits, computations and updates of a device, some charged to an earlier time than the account
        // has reached, while the job copy completes steps at random times. Expectation: what the steps hold is the time from the
        // device's start to the last step's end, and the work is what the account says.
        for seed in 0..200 {
            let mut draw = draws(seed);
            let begin = Time(draw(1 << 40));
            let (mut steps, mut account) = (Steps::new(begin), Account::new());
            account.start(begin);
            let mut now = begin;
            for _ in 0..50 {
                now += Span(draw(1 << 40));
                let until = Time(now.0.saturating_sub(draw(3) * draw(1 << 40))).max(begin);
                let cause = Cause::ALL[draw(Cause::ALL.len() as u64) as usize];
                match draw(4) {
                    0 => account.compute(&mut steps, until),
                    1 => account.update(&mut steps, until),
                    2 => account.wait(&mut steps, until, StallCause::peer(cause)),
                    _ => account.wait(&mut steps, until, StallCause::own(cause)),
                }
                if draw(5) == 0 {
                    steps.complete(now, 1, QueueTotals::default(), 0);
                }
            }
            account.wait(&mut steps, now, StallCause::own(Cause::Order));
            steps.complete(now, 1, QueueTotals::default(), 0);
            let (complete, stalls) = steps.finish(1);
            let computed: f64 = complete.iter().map(|step| step.compute).sum();
            let waited: f64 = stalls.iter().map(|stall| stall.seconds).sum();
            let elapsed = now.since(begin).seconds();
            assert!((computed + waited - elapsed).abs() < 1e-9 * elapsed, "seed {seed}");
            let work = account.computed(now) + account.updated();
            assert!((computed - work).abs() < 1e-9 * elapsed, "seed {seed}");
        }
    }

    #[test]
    fn a_device_that_stops_while_computing_counts_the_computation_as_its_work_only() {
        // System: 3 s of computation, of which 1 s is charged when the device stops. Expectation: the device has worked for 3 s;
        // the steps hold 1 s.
        let second = Span::from_seconds(1.0).0;
        let (mut steps, mut account) = (Steps::new(Time::ZERO), Account::new());
        account.start(Time::ZERO);
        account.begin(Time::ZERO, State::Busy);
        account.compute(&mut steps, Time(second));
        account.stop(Time(3 * second));
        steps.complete(Time(3 * second), 1, QueueTotals::default(), 0);
        let worked = [account.computed(Time(9 * second)), steps.finish(1).0[0].compute];
        assert_eq!((worked, account.state()), ([3.0, 1.0], State::Off));
    }
}
