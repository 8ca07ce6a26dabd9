//! Devices that are given steps ahead wait only while they have nothing to do, whenever their threads ask.

use super::state::State;
use super::training::Training;
use forebay_engine::Time;
use forebay_metrics::{Activity, Queue, StageBuffer};
use forebay_report::{Cause, StallCause};
use forebay_scenario::{BatchInterval, Goal};

const MS: u64 = 1_000_000_000;

/// One worker that makes batches of one sample, and so many devices; at time 0.
fn begun(devices: u32) -> State {
    let goal = Goal { steps: u64::MAX, quota: u64::MAX, fresh: u64::MAX };
    let mut state = State::new(Training::new(BatchInterval::Every(1.0), goal));
    let loader = state.add_loader(u64::MAX, [(StageBuffer::of_samples(), 1)], devices);
    loader.queue = Queue::new(64, 1, false, 0, Time::ZERO);
    state.start(Time::ZERO);
    state
}

/// The worker has read a sample, since the one before.
fn read(state: &mut State, since: u64, at: u64) {
    let item = std::mem::take(&mut state.workers[0].item);
    state.finish(Time(at * MS), 0, item, &[(Time(since * MS), Activity::Doing(Cause::Transfer))]);
}

/// Of a step: end, computation and stalls with their causes, in milliseconds.
type Told = (f64, f64, Vec<(StallCause, f64)>);

fn steps(state: &mut State) -> Vec<Told> {
    let devices = state.training.devices.len();
    let (steps, stalls) = state.training.steps.finish(devices);
    let round = |seconds: f64| (seconds * 1e6).round() / 1e3;
    let of = |(index, step): (usize, &forebay_report::StepOutcome)| {
        let own = stalls.iter().filter(|stall| stall.step as usize == index);
        let own = own.map(|stall| (stall.cause, round(stall.seconds))).collect();
        (round(step.end), round(step.compute), own)
    };
    steps.iter().enumerate().map(of).collect()
}

/// System: a batch every 10 ms, steps of 3 ms. The device's thread asks for the next batch as soon as it has
/// given the one before, and learns after 13.2 ms that the device was done at 13. Expectation: of 10 ms 3 of
/// computation and 7 of stall, not 10 of stall as the thread has it.
#[test]
fn a_stall_begins_when_the_device_has_nothing_to_do() {
    let mut state = begun(1);
    for turn in 1..=3 {
        read(&mut state, 10 * (turn - 1), 10 * turn);
        assert!(state.training.devices[0].next_step().is_some());
        state.given(Time(10 * turn * MS), 0);
        let told = Time((10 * turn + 3) * MS + MS / 5);
        state.ran_dry(told, 0, Time((10 * turn + 3) * MS));
    }
    let transfer = StallCause::own(Cause::Transfer);
    let expected = [
        (10.0, 0.0, vec![(transfer, 10.0)]),
        (20.0, 3.0, vec![(transfer, 7.0)]),
        (30.0, 3.0, vec![(transfer, 7.0)]),
    ];
    assert_eq!(steps(&mut state), expected);
}

/// System: the second batch comes at 12 ms, while the device is at the first one until 13; the third at 20,
/// when it has had nothing to do since 16. Expectation: no stall before the second step, 4 ms before the third.
#[test]
fn what_comes_while_the_device_is_busy_ends_no_stall() {
    let mut state = begun(1);
    read(&mut state, 0, 10);
    assert!(state.training.devices[0].next_step().is_some());
    state.given(Time(10 * MS), 0);
    read(&mut state, 10, 12);
    assert!(state.training.devices[0].next_step().is_some());
    // Nobody is told of an end that no longer matters.
    state.ran_dry(Time(13 * MS), 0, Time(13 * MS));
    state.given(Time(13 * MS), 0);
    state.ran_dry(Time(16 * MS), 0, Time(16 * MS));
    read(&mut state, 12, 20);
    assert!(state.training.devices[0].next_step().is_some());
    state.given(Time(20 * MS), 0);
    let transfer = StallCause::own(Cause::Transfer);
    let expected = [
        (10.0, 0.0, vec![(transfer, 10.0)]),
        (13.0, 3.0, vec![]),
        (20.0, 3.0, vec![(transfer, 4.0)]),
    ];
    assert_eq!(steps(&mut state), expected);
}

/// System: two devices that step together; the first is given its step at 10 ms and done at 13, the thread of
/// the second gives at 14. Expectation: 1 ms of waiting for a peer, half of it in the mean of both.
#[test]
fn peers_are_waited_for_while_there_is_nothing_to_do() {
    let mut state = begun(2);
    read(&mut state, 0, 5);
    read(&mut state, 5, 10);
    for d in 0..2 {
        assert!(state.training.devices[d].next_step().is_some(), "{d}");
    }
    state.given(Time(10 * MS), 0);
    state.ran_dry(Time(13 * MS), 0, Time(13 * MS));
    state.given(Time(14 * MS), 1);
    let peers: f64 = steps(&mut state)[0]
        .2
        .iter()
        .filter(|(cause, _)| *cause == StallCause::peer(Cause::Compute))
        .map(|(_, ms)| ms)
        .sum();
    assert_eq!(peers, 0.5);
}
