//! Runs one copy of a job on this machine: its threads, from the start to the outcome.

use super::clock::{Clock, process_cpu};
use super::content::Pool;
use super::device::Trainer;
use super::fault::Failure;
use super::gpu::{Accelerator, Opened};
use super::launch::Turn;
use super::log::Log;
use super::pace::Tally;
use super::task::{CopyOutcome, CopyTask};
use super::team::team;
use super::work::Hands;
use super::{build, collect, gpu};
use forebay_engine::Time;
use forebay_model::random::Streams;
use forebay_scenario::{Job, Scenario, Stop};
use std::sync::atomic::AtomicBool;
use std::thread;

/// State that the threads of a job copy share.
type Shared = forebay_live_queue::Shared<Clock>;

/// Runs a job copy. When everything is prepared, calls `ready`, which returns the instant on the machine's monotonic clock at
/// which all jobs of the run start [ns], or `None` if the run is cancelled. Setting `stop` ends the run early; the outcome then
/// has the steps that were complete.
///
/// # Errors
/// If the data cannot be read, or threads cannot be started.
pub fn run_copy(
    scenario: &Scenario,
    part: &CopyTask,
    stop: &AtomicBool,
    ready: impl FnOnce() -> Option<u64>,
) -> Result<CopyOutcome, Failure> {
    run_on(scenario, part, stop, gpu::open(scenario, part)?, ready)
}

/// Runs a job copy as [`run_copy`] does, on the real GPUs `opened`; on none if this is empty.
pub(super) fn run_on(
    scenario: &Scenario,
    part: &CopyTask,
    stop: &AtomicBool,
    opened: Opened,
    ready: impl FnOnce() -> Option<u64>,
) -> Result<CopyOutcome, Failure> {
    let job = &scenario.jobs[part.job];
    let until = match scenario.run.stop {
        Stop::Duration(seconds) => Time::from_seconds(seconds),
        // Live runs without a given length are refused earlier.
        Stop::Steps(_) | Stop::Epochs(_) | Stop::Known { .. } => Time::NEVER,
    };
    let shared = Shared::new(build::state(scenario, part), until);
    let (learners, paths): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    let team = team(scenario, part, &shared.over, &paths)?;
    thread::scope(|threads| {
        let mut hands = Vec::new();
        for (w, (name, hand)) in team.into_iter().enumerate() {
            let shared = &shared;
            let body = move || work(shared, w as u32, hand);
            let started = thread::Builder::new().name(name).spawn_scoped(threads, body);
            hands.push(started.map_err(|error| refused(shared, job, &error))?);
        }
        let streams = Streams::new(scenario.run.seed, part.replication);
        let on_gpus = !learners.is_empty();
        let learners = learners.into_iter().zip(&paths);
        let learners =
            learners.flat_map(|(of_gpu, path)| of_gpu.into_iter().map(move |of| (of, &path.pool)));
        for (d, (learner, pool)) in (0..).zip(learners) {
            let shared = &shared;
            let body = move || train_on_gpu(shared, d, (learner, pool), scenario, job);
            let started = thread::Builder::new().spawn_scoped(threads, body);
            started.map_err(|error| refused(shared, job, &error))?;
        }
        let turn = Turn::default();
        for d in 0..if on_gpus { 0 } else { job.copies_per_node } {
            let rank = (part.owner, u64::from(d));
            let mut device = Trainer::new(scenario, job, streams, rank, &turn);
            let shared = &shared;
            let body = move || train(shared, d, &mut device);
            let started = thread::Builder::new().spawn_scoped(threads, body);
            started.map_err(|error| refused(shared, job, &error))?;
        }
        let Some(start) = ready() else {
            shared.fail(String::new());
            return Err(Failure::Interrupted);
        };
        let clock = Clock::from_monotonic(start);
        let begin = job.start + job.stagger * f64::from(part.copy);
        clock.sleep_until(Time::from_seconds(begin), stop);
        let before = process_cpu();
        shared.start(clock, |state, now| build::open_queues(state, job, part, now));
        shared.wait(stop);
        let cpu = process_cpu() - before;
        let mut read = (0, Tally::default());
        for (bytes, tally) in hands.into_iter().filter_map(|hand| hand.join().ok()) {
            read.0 += bytes;
            read.1 += tally;
        }
        let (bytes, Tally { allowed, exceeded }) = read;
        let outcome = collect::part(&mut shared.lock(), part, Time::from_seconds(begin));
        outcome.map(|outcome| CopyOutcome { cpu, bytes, allowed, exceeded, ..outcome })
    })
}

/// Ends the threads that were started, and returns the failure that the system refuses to start more.
fn refused(shared: &Shared, job: &Job, error: &std::io::Error) -> Failure {
    shared.fail(String::new());
    Failure::threads(&format!("the workers and devices of `{}`", job.name), error)
}

/// Runs a worker until the job is over. Returns the bytes that the worker read, and the tally of its requests against the storage
/// limits.
fn work(shared: &Shared, w: u32, mut hands: Hands) -> (u64, Tally) {
    let mut next = shared.next(w);
    let clock = shared.clock();
    hands.begin(clock);
    let (mut log, mut woken) = (Log::new(clock), Vec::new());
    while let Some((mut item, since)) = next {
        log.clear(since);
        next = match hands.carry_out(&mut item, &mut log) {
            Ok(()) => shared.finish(w, item, &log.entries, &mut woken),
            Err(error) => {
                shared.fail(error.to_string());
                None
            }
        };
    }
    hands.read()
}

/// Runs the steps of a device that is emulated or trains on CPU cores, until the job is over.
fn train(shared: &Shared, d: u32, device: &mut Trainer) {
    let mut next = shared.next_step(d);
    let (clock, mut woken) = (shared.clock(), Vec::new());
    while let Some(step) = next {
        next = match device.step(&step, clock, &shared.over) {
            Ok(waits) => shared.stepped(d, &waits, &mut woken),
            Err(error) => {
                shared.fail(error.to_string());
                None
            }
        };
    }
}

/// Runs the steps of a device that is a real GPU, until the job is over.
fn train_on_gpu(
    shared: &Shared,
    d: u32,
    (mut learner, pool): (Box<dyn Accelerator>, &Pool),
    scenario: &Scenario,
    job: &Job,
) {
    let Some(ahead) = job.gpu.map(|gpu| u64::from(gpu.ahead)) else { return };
    let last = scenario.goal(job).steps.saturating_sub(1);
    gpu::train(shared, d, (&mut *learner, pool), ahead, last);
}
