//! Tests that devices with steps submitted ahead stall only while they have nothing to do, whenever their threads ask for work.

use super::state::State;
use super::training::Training;
use forebay_engine::Time;
use forebay_metrics::{Activity, Queue, StageBuffer};
use forebay_report::{Cause, StallCause};
use forebay_scenario::{BatchInterval, Goal};

const MS: u64 = 1_000_000_000;

/// Returns the state at time 0 with one worker that makes batches of one sample, and `devices` devices.
fn begun(devices: u32) -> State {
    let goal = Goal { steps: u64::MAX, quota: u64::MAX, fresh: u64::MAX };
    let mut state = State::new(Training::new(BatchInterval::Every(1.0), goal));
    let loader = state.add_loader(u64::MAX, [(StageBuffer::of_samples(), 1)], devices);
    loader.queue = Queue::new(64, 1, false, 0, Time::ZERO);
    state.start(Time::ZERO);
    state
}

/// Reports that the worker has read a sample from `since` to `at` [ms].
fn read(state: &mut State, since: u64, at: u64) {
    let item = std::mem::take(&mut state.workers[0].item);
    state.finish(Time(at * MS), 0, item, &[(Time(since * MS), Activity::Doing(Cause::Transfer))]);
}

/// Outcome of a step: end, computation, and stalls with their causes [ms].
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

/// System: a batch every 10 ms, steps of 3 ms. The device's thread asks for the next batch as soon as it has submitted a step,
/// and learns at 13.2 ms that the device became idle at 13 ms. Expectation: each 10 ms have 3 ms of computation and 7 ms of
/// stall, although the thread has waited for all 10 ms.
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
    // The queue was empty for a device until 10 ms, from 13.2 to 20 ms and from 23.2 to 30 ms.
    let empty = state.loaders[0].queue.totals(Time(33 * MS + MS / 5)).empty_seconds;
    assert!((empty - 0.0236).abs() < 1e-9, "{empty}");
    let transfer = StallCause::own(Cause::Transfer);
    let expected = [
        (10.0, 0.0, vec![(transfer, 10.0)]),
        (20.0, 3.0, vec![(transfer, 7.0)]),
        (30.0, 3.0, vec![(transfer, 7.0)]),
    ];
    assert_eq!(steps(&mut state), expected);
}

/// System: the second batch arrives at 12 ms, while the device computes until 13 ms; the third arrives at 20 ms, when the device
/// has been idle since 16 ms. Expectation: no stall before the second step, 4 ms before the third.
#[test]
fn a_batch_that_arrives_while_the_device_is_busy_ends_no_stall() {
    let mut state = begun(1);
    read(&mut state, 0, 10);
    assert!(state.training.devices[0].next_step().is_some());
    state.given(Time(10 * MS), 0);
    read(&mut state, 10, 12);
    assert!(state.training.devices[0].next_step().is_some());
    // This late report has no effect, as the device has its next step already.
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

/// System: two devices that step together. The first gets its step at 10 ms and ends it at 13 ms; the thread of the second
/// submits its step at 14 ms. Expectation: the first waits 1 ms for its peer, which is 0.5 ms on average over both.
#[test]
fn a_device_waits_for_its_peer_only_while_it_is_idle() {
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
