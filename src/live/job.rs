//! One copy of a job on this machine: its threads, from the start to what they showed.

use super::Failure;
use super::clock::{Clock, process_cpu};
use super::data::{Data, Location};
use super::device::Trainer;
use super::log::Log;
use super::pace::{Limits, Pace, Pacer, Tally};
use super::reader::Reader;
use super::work::{Common, Hands, Link};
use crate::account::{HandOver, Queue, Recorder, Requests, Tuner, add_steps};
use crate::engine::Time;
use crate::hand_over::{self, State, Training, WorkerRun};
use crate::random::{FileOrder, Streams};
use crate::report::{JobOutcome, Trace};
use crate::scenario::{Job, Scenario, Stop};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the threads of a job copy share.
type Shared = hand_over::Shared<Clock>;

/// Which copy of which job to run, and how.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Part {
    /// Index of the job in the scenario.
    pub job: usize,
    /// Which copy of it.
    pub copy: u32,
    /// Number of the job copy among all of the scenario.
    pub owner: u64,
    /// Which replication.
    pub replication: u32,
    /// Where the job's data set is; `None`: in memory.
    pub location: Option<Location>,
    /// Where the books of its storage's limits are, if other job copies share them.
    pub books: Option<PathBuf>,
    /// Whether to record a timeline.
    pub trace: bool,
}

/// What a job copy showed.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct PartOutcome {
    /// Steps, stalls, queue.
    pub job: JobOutcome,
    /// Timeline, where it was asked for.
    pub trace: Option<Trace>,
    /// CPU time that its threads used [core·s].
    pub cpu: f64,
    /// Bytes read.
    pub bytes: u64,
    /// Time that workers were reading [worker·s].
    pub reading: f64,
    /// Where its storage has limits: time that its requests may take by them [s].
    pub allowed: f64,
    /// How much longer the machine took to read [s].
    pub exceeded: f64,
}

/// Runs a job copy. `ready` is called when all is prepared; it gives the instant, on the machine's
/// monotonic clock [ns], at which all jobs of the run start, or `None` if there will be no run.
/// Raising `stop` ends the run early; the outcome then holds what was complete.
///
/// # Errors
/// If the data cannot be read, or threads cannot be started.
pub fn run_part(
    scenario: &Scenario,
    part: &Part,
    stop: &AtomicBool,
    ready: impl FnOnce() -> Option<u64>,
) -> Result<PartOutcome, Failure> {
    let job = &scenario.jobs[part.job];
    let data = Arc::new(Data::find(scenario, job.dataset, part.location.as_ref())?);
    let until = match scenario.run.stop {
        Stop::Duration(seconds) => Time::from_seconds(seconds),
        Stop::Steps(_) | Stop::Epochs(_) => Time::NEVER,
    };
    let shared = Shared::new(state(scenario, job, part), until);
    let streams = Streams::new(scenario.run.seed, part.replication);
    let bandwidth = scenario.cluster.node.pcie;
    let links = if bandwidth.is_finite() { job.copies_per_node } else { 0 };
    let link = |_| Link { bandwidth, free_at: Mutex::new(Time::ZERO) };
    let common = Common {
        streams,
        owner: part.owner,
        links: Arc::new((0..links).map(link).collect()),
        decoded_size: scenario.datasets[job.dataset].decoded_size,
        image: scenario.datasets[job.dataset].image,
        clock: Clock::from_monotonic(0),
        over: shared.over.clone(),
    };
    let reader = {
        let order = FileOrder::new(&scenario.datasets[job.dataset], job.split, 0, 1);
        let next_file = Arc::new(AtomicU64::new(0));
        let owner = part.owner;
        let pacer = pacer(scenario, part, &shared, streams)?;
        move || {
            let pace = pacer.as_ref().map(Pace::new);
            let whose = (owner, streams);
            Reader::new(data.clone(), order.clone(), whose, next_file.clone(), pace)
        }
    };
    thread::scope(|threads| {
        let mut hands = Vec::new();
        let mut w = 0;
        for (index, stage) in job.loader.stages.iter().enumerate() {
            for _ in 0..stage.workers {
                let reader = (index == 0).then(&reader);
                let hand = Hands::new(&job.loader, index, reader, common.clone());
                let (shared, worker) = (&shared, w);
                let body = move || work(shared, worker, hand);
                let name = format!("{} {worker}", stage.name);
                match thread::Builder::new().name(name).spawn_scoped(threads, body) {
                    Ok(thread) => hands.push(thread),
                    Err(error) => {
                        shared.fail(String::new());
                        return Err(Failure::Lacking(format!("cannot start {w} threads: {error}")));
                    }
                }
                w += 1;
            }
        }
        for d in 0..job.copies_per_node {
            let mut device = Trainer::new(scenario, job, streams, part.owner, u64::from(d));
            let shared = &shared;
            threads.spawn(move || train(shared, d, &mut device));
        }
        let Some(start) = ready() else {
            shared.fail(String::new());
            return Err(Failure::Interrupted);
        };
        let clock = Clock::from_monotonic(start);
        let begin = job.start + job.stagger * f64::from(part.copy);
        clock.sleep_until(Time::from_seconds(begin), stop);
        let before = process_cpu();
        shared.start(clock, |state, now| open_queue(state, job, part, now));
        shared.wait(stop);
        let cpu = process_cpu() - before;
        let mut read = (0, Tally::default());
        for (bytes, tally) in hands.into_iter().filter_map(|hand| hand.join().ok()) {
            read.0 += bytes;
            read.1 += tally;
        }
        let (bytes, Tally { allowed, exceeded }) = read;
        let outcome = collect(&mut shared.lock(), part, Time::from_seconds(begin));
        outcome.map(|outcome| PartOutcome { cpu, bytes, allowed, exceeded, ..outcome })
    })
}

/// What keeps the job copy's readers to the limits of its storage, where any are enforced.
fn pacer(
    scenario: &Scenario,
    part: &Part,
    shared: &Shared,
    streams: Streams,
) -> Result<Option<Arc<Pacer>>, Failure> {
    let mounted = part.location.as_ref().is_some_and(|location| location.mounted);
    let limits = Limits::of(scenario, scenario.jobs[part.job].storage);
    let Some(limits) = limits.filter(|_| !mounted) else { return Ok(None) };
    let over = shared.over.clone();
    Pacer::new(limits, part.books.as_deref(), streams, part.owner, over).map(Arc::new).map(Some)
}

/// The state before the start.
fn state(scenario: &Scenario, job: &Job, part: &Part) -> State {
    let mut recorder = part.trace.then(Recorder::default);
    let process = recorder.as_mut().map(|r| r.process(format!("{}[{}]", job.name, part.copy)));
    let mut track = |name: String| Some(recorder.as_mut()?.track(process?, name));
    let mut workers = Vec::new();
    for (index, stage) in job.loader.stages.iter().enumerate() {
        for i in 0..stage.workers {
            let track = track(format!("{} {i}", stage.name));
            workers.push(WorkerRun { stage: index, track, ..WorkerRun::default() });
        }
    }
    let goal = scenario.goal(job);
    let mut training = Training::new(job.batch_interval, goal, job.copies_per_node);
    for (d, device) in training.devices.iter_mut().enumerate() {
        device.track = track(format!("gpu {d}"));
    }
    let level_track = track("queue".to_owned());
    let stages =
        (0..job.loader.stages.len()).map(|index| HandOver::new(job, index, goal.quota)).collect();
    let mut state = State::new(stages, workers, training, goal.quota);
    (state.recorder, state.level_track) = (recorder, level_track);
    state.requests = Requests::of(job, &scenario.datasets[job.dataset], goal.quota);
    state.tuner = Tuner::of(job);
    if let (Some(requests), true) = (&mut state.requests, part.trace) {
        requests.record();
    }
    state
}

/// The last buffer, at the start.
fn open_queue(state: &mut State, job: &Job, part: &Part, now: Time) {
    state.queue = Queue::of(job, state.quota, now);
    if part.copy == 0 {
        state.queue.record(now);
    }
}

/// The life of a worker; gives the bytes that it read, and how it kept to limits.
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

/// The life of a device.
fn train(shared: &Shared, d: u32, device: &mut Trainer) {
    let mut next = shared.next_step(d);
    let (clock, mut woken) = (shared.clock(), Vec::new());
    while let Some(step) = next {
        let waits = device.step(step, clock, &shared.over);
        next = shared.stepped(d, &waits, &mut woken);
    }
}

/// What the job copy showed.
fn collect(state: &mut State, part: &Part, planned: Time) -> Result<PartOutcome, Failure> {
    if let Some(why) = state.failure.take() {
        return Err(Failure::Lacking(why));
    }
    let end = state.ended.unwrap_or(planned);
    let totals = state.queue.totals(end);
    let start = state.began.seconds();
    let (steps, stalls) = state.training.steps.finish(state.training.devices.len());
    let mut outcome = JobOutcome {
        job: part.job,
        copy: part.copy,
        start,
        steps,
        stalls,
        ..JobOutcome::default()
    };
    state.queue.collect(end, &mut outcome.queue);
    // Where batches are made on request, those wait who might be asked.
    let last = if state.requests.is_some() { 0 } else { state.stages.len() - 1 };
    outcome.deliveries = state.requests.as_mut().map_or(Vec::new(), Requests::deliveries);
    outcome.tuned = state.tuner.as_ref().map_or(Vec::new(), Tuner::settled);
    outcome.queue.workers = state.workers.iter().filter(|w| w.stage == last).count() as u64;
    outcome.queue.ages = state.queue.ages().map_or(Vec::new(), |ages| ages.iter().collect());
    outcome.samples.started = state.started;
    outcome.samples.enqueued = totals.enqueued;
    outcome.samples.in_progress = state.in_progress;
    outcome.samples.dequeued = totals.dequeued;
    outcome.samples.overwritten = state.queue.overwritten();
    outcome.samples.left = state.queue.left();
    if let Some(snapshots) = state.queue.snapshots() {
        snapshots.add_to(totals, &mut outcome.series);
    }
    add_steps(&outcome.steps, outcome.start, &mut outcome.series);
    Ok(PartOutcome {
        job: outcome,
        trace: state.recorder.take().map(|recorder| recorder.finish(end)),
        reading: state.reading.seconds(),
        ..PartOutcome::default()
    })
}
