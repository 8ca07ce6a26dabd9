//! Devices and steps: model copies, pipeline stages, the barrier between them, batch intervals.
//!
//! A model copy is a chain of one or more devices (pipeline stages). All model copies of a job copy
//! train in step: the first device of each may begin step `s` once step `s − window` is complete
//! everywhere, where the window is the number of stages if they overlap and 1 if not.

use std::collections::VecDeque;

use crate::account::{NOBODY, Segment, blame};
use crate::engine::Time;
use crate::random::{Purpose, Sampler};
use crate::report::{Cause, Stall, StallCause, StepOutcome};
use crate::scenario::{BatchInterval, ENDLESS};

use super::barrier::Barrier;
use super::event::{Clock, Customer, Delay, Event};
use super::workers::{Cores, Waiting};
use super::world::World;

/// One copy of a job.
#[derive(Debug)]
pub(super) struct JobRun {
    /// Index into the scenario's jobs.
    pub(super) job: usize,
    pub(super) copy: u32,
    pub(super) start: Time,
    /// Its nodes' loaders and its devices, as ranges of the world's.
    pub(super) loaders: std::ops::Range<u32>,
    pub(super) devices: std::ops::Range<u32>,
    pub(super) batch: u64,
    pub(super) interval: BatchInterval,
    /// Time of each pipeline stage before jitter.
    pub(super) stage_times: Vec<Delay>,
    pub(super) jitter: Option<Sampler>,
    /// Threads of each model copy on the node's cores, where it trains there.
    pub(super) threads: Option<CpuThreads>,
    /// Bytes from one pipeline stage to the next, and the latency before they flow.
    pub(super) activations: f64,
    pub(super) hand_over: Delay,
    pub(super) total_steps: u64,
    /// Ends after this many fresh samples.
    pub(super) fresh_target: u64,
    fresh: u64,
    pub(super) window: u64,
    pub(super) barrier: Barrier,
    pub(super) finished: bool,
    pub(super) steps: Vec<StepOutcome>,
    pub(super) stalls: Vec<Stall>,
    /// Stalls of the step in progress by cause [accelerator·s].
    open_stalls: Vec<(StallCause, f64)>,
    open_compute: f64,
    open_fresh: u64,
    /// Ends of complete steps.
    ends: Vec<Time>,
    /// End of the last complete step, or the start.
    last_end: Time,
}

/// How a model copy uses the node's cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuThreads {
    pub(super) number: u32,
    /// Speed of a core while these threads have the node to themselves: their step time was measured
    /// like that.
    pub(super) speed: f64,
}

/// An accelerator: one pipeline stage of one model copy.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) job: u32,
    pub(super) loader: u32,
    /// Which model copy of the job copy.
    pub(super) model: u32,
    /// Which pipeline stage.
    pub(super) stage: u32,
    /// Batches that the stage before has handed over.
    received: u64,
    /// When each that has not been begun was sent, oldest first.
    sent: VecDeque<Time>,
    /// The step to begin next.
    next: u64,
    /// Since when it has done what it does.
    pub(super) since: Time,
    state: State,
    /// Steps on the batch at hand.
    on_batch: u64,
    /// Its recent waits for input by step, in order of time, for those who waited for it.
    waits: Vec<(u64, Segment)>,
    pub(super) track: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before its job starts or after its last step.
    Off,
    /// For the barrier, or the stage before.
    Idle,
    /// For a batch.
    Starving,
    Busy,
}

impl Device {
    pub(super) fn new(job: u32, loader: u32, model: u32, stage: u32) -> Device {
        Device {
            job,
            loader,
            model,
            stage,
            received: 0,
            sent: VecDeque::new(),
            next: 0,
            since: Time::ZERO,
            state: State::Off,
            on_batch: 0,
            waits: Vec::new(),
            track: None,
        }
    }
}

impl JobRun {
    #[expect(clippy::too_many_arguments, reason = "named at the one place that builds it")]
    pub(super) fn new(
        job: usize,
        copy: u32,
        start: Time,
        batch: u64,
        interval: BatchInterval,
        stage_times: Vec<Delay>,
        jitter: Option<Sampler>,
        total_steps: u64,
        window: u64,
        models: u32,
    ) -> JobRun {
        JobRun {
            job,
            copy,
            start,
            loaders: 0..0,
            devices: 0..0,
            batch,
            interval,
            stage_times,
            jitter,
            threads: None,
            activations: 0.0,
            hand_over: Delay::once(0.0),
            total_steps,
            fresh_target: ENDLESS,
            fresh: 0,
            window,
            barrier: Barrier::new(models, window as u32),
            finished: false,
            steps: Vec::new(),
            stalls: Vec::new(),
            open_stalls: Vec::new(),
            open_compute: 0.0,
            open_fresh: 0,
            ends: Vec::new(),
            last_end: start,
        }
    }

    fn completed(&self) -> u64 {
        self.steps.len() as u64
    }

    /// An accelerator waited; the time is split over the steps that it fell into.
    fn add_stall(&mut self, mut segment: Segment) {
        while segment.start < self.last_end && segment.start < segment.end {
            let (step, end) = self.step_at(segment.start);
            let until = end.min(segment.end);
            let seconds = until.since(segment.start).seconds();
            self.stalls.push(Stall { step, cause: segment.cause, seconds });
            segment.start = until;
        }
        let seconds = segment.end.since(segment.start).seconds();
        if seconds == 0.0 {
            return;
        }
        match self.open_stalls.iter_mut().find(|(cause, _)| *cause == segment.cause) {
            Some((_, sum)) => *sum += seconds,
            None => self.open_stalls.push((segment.cause, seconds)),
        }
    }

    /// An accelerator computed.
    fn add_compute(&mut self, mut start: Time, end: Time) {
        while start < self.last_end && start < end {
            let (step, step_end) = self.step_at(start);
            let until = step_end.min(end);
            self.steps[step as usize].compute += until.since(start).seconds();
            start = until;
        }
        self.open_compute += end.since(start).seconds();
    }

    /// The complete step in which `instant` lies, and its end.
    fn step_at(&self, instant: Time) -> (u32, Time) {
        let step = self.ends.partition_point(|end| *end <= instant);
        (step as u32, self.ends[step])
    }
}

impl World<'_> {
    /// A job copy begins: its workers read, its devices wait.
    pub(super) fn start_job(&mut self, clock: &mut Clock, j: u32) {
        for l in self.jobs[j as usize].loaders.clone() {
            for s in self.loaders[l as usize].stages.clone() {
                for w in self.loaders[l as usize].workers_of(s) {
                    self.make_ready(w);
                }
            }
        }
        for d in self.jobs[j as usize].devices.clone() {
            let device = &mut self.devices[d as usize];
            (device.state, device.since) = (State::Idle, clock.now);
        }
        for d in self.jobs[j as usize].devices.clone() {
            self.try_start(clock, d);
        }
    }

    /// Device `d` begins its next step if it can.
    fn try_start(&mut self, clock: &mut Clock, d: u32) {
        let device = &self.devices[d as usize];
        let job = &self.jobs[device.job as usize];
        if device.state != State::Idle || device.next == job.total_steps {
            return;
        }
        if device.stage > 0 {
            if device.received > device.next {
                self.end_stage_wait(clock.now, d);
                self.compute(clock, d);
            }
            return;
        }
        if device.next >= job.completed() + job.window {
            return;
        }
        let queue = &self.loaders[device.loader as usize].queue;
        let fresh = job.interval.is_fresh(device.next, device.on_batch, queue.level());
        if job.window > 1 {
            self.end_gate_wait(clock.now, d);
        }
        if fresh {
            self.devices[d as usize].on_batch = 0;
            self.want_batch(clock, d);
        } else {
            self.compute(clock, d);
        }
    }

    fn want_batch(&mut self, clock: &mut Clock, d: u32) {
        let device = &mut self.devices[d as usize];
        let l = device.loader;
        let loader = &mut self.loaders[l as usize];
        if loader.waiters.is_empty() && loader.queue.has_batch() {
            loader.queue.served_at_once();
            self.take_batch(clock, d);
            self.unblock_last(clock, l);
            return;
        }
        device.state = State::Starving;
        device.since = clock.now;
        loader.queue.begin_wait(clock.now);
        loader.waiters.push_back(d);
        self.trace_device(clock.now, d, "starving");
    }

    fn take_batch(&mut self, clock: &mut Clock, d: u32) {
        let device = &self.devices[d as usize];
        let (l, job) = (device.loader as usize, &mut self.jobs[device.job as usize]);
        job.open_fresh += self.loaders[l].queue.take(clock.now);
        self.trace_level(clock.now, l as u32);
        self.compute(clock, d);
    }

    /// Worker `w` puts samples into the queue of loader `l`.
    pub(super) fn enqueue(&mut self, clock: &mut Clock, l: u32, w: u32, samples: u64) {
        let loader = &mut self.loaders[l as usize];
        loader.queue.put(clock.now, samples);
        loader.in_progress -= samples;
        let served = !loader.waiters.is_empty() && loader.queue.has_batch();
        if self.recorder.is_some() {
            self.trace_level(clock.now, l);
        }
        if served {
            self.serve(clock, l, w);
        }
    }

    /// Worker `w` has put in what the devices waited for that can be served now.
    fn serve(&mut self, clock: &mut Clock, l: u32, w: u32) {
        while let Some(&d) = self.loaders[l as usize].waiters.front()
            && self.loaders[l as usize].queue.has_batch()
        {
            self.end_starving(clock.now, d, w);
            self.take_batch(clock, d);
        }
        self.unblock_last(clock, l);
    }

    fn unblock_last(&mut self, clock: &mut Clock, l: u32) {
        let last = self.loaders[l as usize].stages.end - 1;
        self.unblock(clock, last, NOBODY);
    }

    /// Worker `w` has put in what device `d` starved for.
    fn end_starving(&mut self, now: Time, d: u32, w: u32) {
        let device = &mut self.devices[d as usize];
        let loader = &mut self.loaders[device.loader as usize];
        loader.waiters.pop_front();
        loader.queue.end_wait(now);
        let (since, step, j) = (device.since, device.next, device.job as usize);
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        blame(|w| &self.workers[w as usize].timeline, w, since, now, &mut segments);
        segments.iter().rev().for_each(|segment| self.jobs[j].add_stall(*segment));
        if self.jobs[j].devices.len() > 1 {
            let chain = d..d + self.jobs[j].stage_times.len() as u32;
            let oldest = chain.map(|d| self.devices[d as usize].since).min().unwrap_or(now);
            let waits = &mut self.devices[d as usize].waits;
            waits.retain(|(_, wait)| wait.end > oldest);
            waits.extend(segments.iter().rev().map(|segment| (step, *segment)));
        }
        self.segments = segments;
    }

    fn compute(&mut self, clock: &mut Clock, d: u32) {
        let device = &mut self.devices[d as usize];
        let job = &self.jobs[device.job as usize];
        let mut delay = job.stage_times[device.stage as usize];
        if let Some(jitter) = &job.jitter {
            let (owner, entity) = (device.job as u64, device.model as u64);
            let mut generator = self.streams.at(Purpose::Jitter, owner, entity, device.next);
            delay = Delay::once(delay.span.seconds() * jitter.draw(&mut generator));
        }
        device.state = State::Busy;
        device.since = clock.now;
        device.on_batch += 1;
        match job.threads {
            None => clock.after(delay, Event::Stepped(d)),
            Some(threads) => self.compute_on_cores(clock, d, threads, delay),
        }
        self.trace_device(clock.now, d, "compute");
    }

    /// The threads of a step run side by side, each as one of the node's.
    fn compute_on_cores(&mut self, clock: &mut Clock, d: u32, threads: CpuThreads, delay: Delay) {
        let customer = Customer::Step(d);
        match self.cores_of(d) {
            Cores::Shared(group) => {
                let work = delay.span.seconds() * threads.speed;
                self.network.start_many(clock.now, group, work, threads.number, customer);
            }
            // There is a core for everyone.
            Cores::Fifo(station) => {
                let station = &mut self.stations[station as usize].queue;
                for _ in 0..threads.number {
                    station.arrive(clock.now, Waiting { customer, delay });
                }
                clock.after(delay, Event::Stepped(d));
            }
        }
    }

    /// The cores of the node of device `d`: those of its loader.
    fn cores_of(&self, d: u32) -> Cores {
        let loader = &self.loaders[self.devices[d as usize].loader as usize];
        self.stages[loader.stages.start as usize].cores
    }

    /// Slots of device `d` are free again.
    fn leave_cores(&mut self, clock: &mut Clock, d: u32) {
        let device = &self.devices[d as usize];
        if let Some(threads) = self.jobs[device.job as usize].threads
            && let Cores::Fifo(station) = self.cores_of(d)
        {
            for _ in 0..threads.number {
                self.stations[station as usize].queue.leave(clock.now);
            }
        }
    }

    /// Device `d` has done its part of a step.
    pub(super) fn stepped(&mut self, clock: &mut Clock, d: u32) {
        self.leave_cores(clock, d);
        let device = &mut self.devices[d as usize];
        if device.state == State::Off {
            // Its job ended while it was at a step beyond the last one.
            return;
        }
        let j = device.job as usize;
        let (step, started) = (device.next, device.since);
        device.next += 1;
        device.state = State::Idle;
        device.since = clock.now;
        let last_stage = device.stage as usize + 1 == self.jobs[j].stage_times.len();
        self.jobs[j].add_compute(started, clock.now);
        self.trace_device(clock.now, d, "waiting");
        if !last_stage {
            self.hand_over(clock, d + 1);
            self.try_start(clock, d);
        } else if self.jobs[j].barrier.arrive(step) {
            self.complete_step(clock, j, d);
        } else {
            self.try_start(clock, d);
        }
    }

    /// The stage before has a batch's activations for device `d`.
    fn hand_over(&mut self, clock: &mut Clock, d: u32) {
        self.devices[d as usize].sent.push_back(clock.now);
        let job = &self.jobs[self.devices[d as usize].job as usize];
        if job.activations > 0.0 {
            clock.after(job.hand_over, Event::Waited(Customer::Activations(d)));
        } else {
            self.handed_over(clock, d);
        }
    }

    /// The latency is over; the bytes follow.
    pub(super) fn hand_over_bytes(&mut self, clock: &mut Clock, d: u32) {
        let device = &self.devices[d as usize];
        let bytes = self.jobs[device.job as usize].activations;
        match self.loaders[device.loader as usize].intra {
            Some(group) => {
                self.network.start(clock.now, group, bytes, Customer::Activations(d));
            }
            None => self.handed_over(clock, d),
        }
    }

    /// A batch's activations are there.
    pub(super) fn handed_over(&mut self, clock: &mut Clock, d: u32) {
        self.devices[d as usize].received += 1;
        self.try_start(clock, d);
    }

    /// Device `last` was the last to finish the step.
    fn complete_step(&mut self, clock: &mut Clock, j: usize, last: u32) {
        if self.jobs[j].window == 1 {
            self.blame_peers(clock.now, j, last);
        }
        self.record_step(clock.now, j);
        let job = &mut self.jobs[j];
        if job.completed() == job.total_steps || job.fresh >= job.fresh_target {
            self.finish_job(clock.now, j);
            return;
        }
        let in_step = job.window == 1;
        for d in self.jobs[j].devices.clone() {
            if in_step {
                self.devices[d as usize].since = clock.now;
            }
            self.try_start(clock, d);
        }
    }

    fn record_step(&mut self, now: Time, j: usize) {
        let job = &mut self.jobs[j];
        job.fresh += job.open_fresh;
        let step = job.steps.len() as u32;
        let models = job.barrier.parties() as u64;
        let mut outcome = StepOutcome {
            end: now.seconds(),
            compute: std::mem::take(&mut job.open_compute),
            samples: job.batch * models,
            fresh: std::mem::take(&mut job.open_fresh),
            ..StepOutcome::default()
        };
        for loader in &mut self.loaders[job.loaders.start as usize..job.loaders.end as usize] {
            outcome.queue += loader.queue.totals(now);
        }
        let stalls = job.open_stalls.drain(..);
        job.stalls.extend(stalls.map(|(cause, seconds)| Stall { step, cause, seconds }));
        job.steps.push(outcome);
        job.ends.push(now);
        job.last_end = now;
    }

    fn finish_job(&mut self, now: Time, j: usize) {
        self.jobs[j].finished = true;
        self.unfinished -= 1;
        for l in self.jobs[j].loaders.clone() {
            let loader = &mut self.loaders[l as usize];
            loader.quota = loader.started;
        }
        self.close_open(j);
        for d in self.jobs[j].devices.clone() {
            let device = &mut self.devices[d as usize];
            if device.state == State::Starving {
                let loader = &mut self.loaders[device.loader as usize];
                loader.waiters.retain(|waiter| *waiter != d);
                loader.queue.end_wait(now);
            }
            device.state = State::Off;
            self.trace_device(now, d, "done");
        }
    }

    /// Accounts for what overlapping pipeline stages of job copy `j` were at when its last complete
    /// step ended: those that begin the next steps are cut off, early ones have nothing left to do.
    pub(super) fn close_open(&mut self, j: usize) {
        if self.jobs[j].window == 1 {
            return;
        }
        let end = self.jobs[j].last_end;
        for d in self.jobs[j].devices.clone() {
            let (start, state) = (self.devices[d as usize].since, self.devices[d as usize].state);
            if start >= end {
                continue;
            }
            match state {
                State::Off => {}
                State::Busy => self.jobs[j].add_compute(start, end),
                State::Idle | State::Starving => {
                    let cause = StallCause::own(Cause::Bubble);
                    self.jobs[j].add_stall(Segment { start, end, cause });
                }
            }
        }
    }

    /// Everyone who was done earlier waited for `last`: for what it waited, or its computation.
    fn blame_peers(&mut self, now: Time, j: usize, last: u32) {
        let (first_stage, busy) = self.chain_of(last);
        let mut pieces: Vec<Segment> = Vec::new();
        for d in self.jobs[j].devices.clone() {
            let device = &self.devices[d as usize];
            let own = self.chain_of(d).0 == first_stage;
            if device.since == now || device.state != State::Idle {
                continue;
            }
            let from = device.since;
            pieces.clear();
            if own {
                // A stage of the same model copy: the model passes through one stage at a time.
                let cause = StallCause::own(Cause::Bubble);
                pieces.push(Segment { start: from, end: now, cause });
            } else {
                let waits = self.devices[first_stage as usize].waits.iter();
                pieces.extend(waits.filter_map(|(_, wait)| clip(wait, from, now)));
                let start = from.max(busy);
                let cause = StallCause::peer(Cause::Compute);
                pieces.push(Segment { start, end: now.max(start), cause });
            }
            pieces.iter().for_each(|piece| self.jobs[j].add_stall(*piece));
        }
    }

    /// The first device of the model copy to which `d` belongs, and when that began to compute.
    fn chain_of(&self, d: u32) -> (u32, Time) {
        let first = d - self.devices[d as usize].stage;
        let ended = self.devices[first as usize].waits.last().map_or(Time::ZERO, |(_, w)| w.end);
        (first, ended)
    }

    /// A later pipeline stage has got its input: while the first stage starved for this batch, that
    /// was the cause; otherwise the pipeline itself was.
    fn end_stage_wait(&mut self, now: Time, d: u32) {
        let device = &mut self.devices[d as usize];
        let sent = device.sent.pop_front().unwrap_or(now).max(device.since);
        let arriving = StallCause::own(Cause::Communication);
        self.jobs[device.job as usize].add_stall(Segment {
            start: sent,
            end: now,
            cause: arriving,
        });
        self.end_wait_for_stage(sent, d);
    }

    fn end_wait_for_stage(&mut self, now: Time, d: u32) {
        let device = &self.devices[d as usize];
        let (from, step, j) = (device.since, device.next, device.job as usize);
        let bubble = StallCause::own(Cause::Bubble);
        let mut at = from;
        for (of, wait) in &self.devices[(d - device.stage) as usize].waits {
            let Some(wait) = clip(wait, from, now).filter(|_| *of <= step) else { continue };
            let cause = StallCause::own(wait.cause.cause);
            self.jobs[j].add_stall(Segment { start: at, end: wait.start, cause: bubble });
            self.jobs[j].add_stall(Segment { cause, ..wait });
            at = wait.end;
        }
        self.jobs[j].add_stall(Segment { start: at, end: now, cause: bubble });
    }

    /// The first stage may begin a step again because an earlier one has left the pipeline.
    fn end_gate_wait(&mut self, now: Time, d: u32) {
        let device = &mut self.devices[d as usize];
        let segment =
            Segment { start: device.since, end: now, cause: StallCause::own(Cause::Bubble) };
        device.since = now;
        self.jobs[device.job as usize].add_stall(segment);
    }

    fn trace_device(&mut self, now: Time, d: u32, name: &'static str) {
        if let (Some(recorder), Some(track)) = (&mut self.recorder, self.devices[d as usize].track)
        {
            recorder.begin(track, now, name);
        }
    }

    fn trace_level(&mut self, now: Time, l: u32) {
        let Some(recorder) = &mut self.recorder else { return };
        let loader = &self.loaders[l as usize];
        if let Some(track) = loader.level_track {
            recorder.count(track, now, loader.queue.level() as f64);
        }
    }
}

/// The part of a peer's wait within `[from, to)`, as the wait of those who waited for it.
fn clip(wait: &Segment, from: Time, to: Time) -> Option<Segment> {
    let (start, end) = (wait.start.max(from), wait.end.min(to));
    let cause = StallCause::peer(wait.cause.cause);
    (start < end).then_some(Segment { start, end, cause })
}

/// Seconds of a step of `batch` samples, shared out to pipeline stages.
pub(super) fn stage_seconds(step: &crate::scenario::StepTime, batch: u64, share: f64) -> f64 {
    step.seconds(batch as f64) * share
}
