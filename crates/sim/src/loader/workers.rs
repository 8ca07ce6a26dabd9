//! The work of workers: each worker makes one item at a time, by one operation after the other.

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_metrics::Activity;
use forebay_report::Cause;

use super::loaders::Loaders;
use super::worker::{Draw, Phase, Work, Worker};
use crate::env::{ActivityId, Cores, Delay, Env, Event, Waiting, broken};
use crate::ids::{StationId, WorkerId};
use crate::storage::Origin;

/// Maximum number of items that a worker may make at one instant before it is checked for an endless loop.
const SOME_ITEMS: u64 = 1 << 20;

impl Loaders {
    /// Runs worker `w` until it waits for something.
    pub(super) fn run_worker(&mut self, env: &mut Env, w: WorkerId) {
        let (mut made, mut ready) = (0_u64, self.workers[w].phase == Phase::Ready);
        loop {
            if ready && !self.take_input(env, w) {
                return;
            }
            if !self.work(env, w) || !self.finish_item(env, w) {
                return;
            }
            ready = true;
            made += 1;
            if !env.notices.is_empty() {
                // The owners that it notified act first.
                self.runnable.push_front(w);
                return;
            }
            if made.is_multiple_of(SOME_ITEMS) {
                self.assert_progress(w, made);
            }
        }
    }

    /// Asserts that the `made` items of worker `w` at this instant fit into the buffer behind it or were taken at once;
    /// otherwise the worker would loop for ever.
    #[cold]
    fn assert_progress(&self, w: WorkerId, made: u64) {
        let stage = &self.stages[self.workers[w].stage];
        let loader = &self.loaders[stage.loader];
        let most = match stage.next {
            Some(_) => stage.buffer.capacity() as u64,
            // A queue holds a batch at least, and each device takes one before it must compute.
            None => loader.queue.capacity().saturating_mul(1 + self.devices as u64),
        };
        assert!(
            made <= most + SOME_ITEMS,
            "worker {w:?} made {made} items, and no time has passed"
        );
    }

    /// Continues worker `w` after the event that the worker waited for.
    #[inline]
    pub(crate) fn resume(&mut self, env: &mut Env, w: WorkerId) {
        let done = match self.workers[w].phase {
            Phase::Starting => return self.run_worker(env, w),
            Phase::Asleep => return self.look_again(env, w),
            Phase::Refused => self.ask_again(env, w),
            Phase::Queued => self.operate(env, w),
            Phase::Opening => self.end_open(env, w),
            Phase::Latency => self.begin_bytes(env, w),
            Phase::File => self.count_file(w),
            Phase::Transfer | Phase::Request => self.end_transfer(env, w),
            Phase::Served => self.end_part(env, w),
            Phase::Computing | Phase::Receiving | Phase::Unpacking => self.end_compute(env, w),
            Phase::Delayed | Phase::Copying => true,
            Phase::OnGpu => {
                self.end_kernel(env.now, w);
                true
            }
            phase => unreachable_phase(phase),
        };
        if done {
            self.end_operation(w);
            self.run_worker(env, w);
        }
    }

    /// Executes the operations of the item of worker `w`; returns false if one takes time.
    #[inline]
    fn work(&mut self, env: &mut Env, w: WorkerId) -> bool {
        loop {
            let worker = &self.workers[w];
            let stage = &self.stages[worker.stage];
            if worker.cursor.operation == stage.operations {
                return true;
            }
            let work = &self.works[stage.first_operation + worker.cursor.operation];
            let over = match work {
                Work::Read => self.begin_read(env, w),
                Work::Compute(_) | Work::Decode(..) | Work::Team(_)
                    if self.workers[w].origin == Origin::Decoded =>
                {
                    self.workers[w].origin = Origin::Storage;
                    true
                }
                Work::Compute(draw) => {
                    let ((seconds, delay), cores) = (self.draw(env, draw, w), stage.cores);
                    self.begin_compute(env, w, cores, seconds, delay, Phase::Computing)
                }
                Work::Decode(law, pixels) => {
                    let (bytes, cores) = (self.stored_bytes(w), stage.cores);
                    let seconds = law.core_seconds(bytes, *pixels);
                    let delay = Delay::once(seconds);
                    self.begin_compute(env, w, cores, seconds, delay, Phase::Computing)
                }
                Work::Delay(draw) => {
                    let (seconds, delay) = self.draw(env, draw, w);
                    self.begin_delay(env, w, seconds, delay)
                }
                Work::Copy => self.begin_copy(env, w, true),
                Work::CopyStored => self.begin_copy(env, w, false),
                Work::Kernel(per_sample) => self.begin_kernel(env, w, *per_sample),
                Work::Memcpy(per_byte) => {
                    let (seconds, cores) = (per_byte * self.decoded_bytes(w), stage.cores);
                    let delay = Delay::once(seconds);
                    self.begin_compute(env, w, cores, seconds, delay, Phase::Computing)
                }
                Work::Team(team) => {
                    let (threads, cores) = (team.threads, stage.cores);
                    let seconds = self.team_seconds(env, team, w);
                    self.begin_team(env, w, cores, seconds, threads)
                }
            };
            if !over {
                return false;
            }
            self.end_operation(w);
        }
    }

    #[inline]
    fn end_operation(&mut self, w: WorkerId) {
        let worker = &mut self.workers[w];
        let per_sample = self.stages[worker.stage].per_sample;
        worker.cursor.end_operation(per_sample, worker.item.samples);
    }

    fn begin_delay(&mut self, env: &mut Env, w: WorkerId, seconds: f64, delay: Delay) -> bool {
        if seconds <= 0.0 {
            return true;
        }
        self.enter(env, w, Phase::Delayed, Cause::Latency);
        env.after(delay, Event::Waited(ActivityId::Worker(w)));
        false
    }

    #[inline(always)]
    pub(super) fn draw(&self, env: &Env, draw: &Draw, w: WorkerId) -> (f64, Delay) {
        match draw.constant {
            Some(constant) => constant,
            None => self.draw_anew(env, draw, w),
        }
    }

    #[inline(never)]
    fn draw_anew(&self, env: &Env, draw: &Draw, w: WorkerId) -> (f64, Delay) {
        let worker = &self.workers[w];
        let loader = &self.loaders[worker.loader];
        let position = loader.source.place(worker.item.first + worker.cursor.sample as u64);
        let (owner, entity) = (loader.place.owner(), loader.place.in_job(position));
        let mut generator = env.streams.at(draw.purpose, owner, entity, draw.index);
        let seconds = draw.sampler.draw(&mut generator);
        (seconds, Delay::once(seconds))
    }

    /// Returns the stored bytes of the current sample of worker `w`; in a stage after the first, the mean over the samples of
    /// the item.
    pub(super) fn stored_bytes(&self, w: WorkerId) -> f64 {
        let worker = &self.workers[w];
        match self.stages[worker.stage].previous {
            None => worker.sample.size,
            Some(_) => worker.item.bytes / f64::from(worker.item.samples.max(1)),
        }
    }

    /// Begins a computation of worker `w` on a core, in `phase`; returns true if it takes no time.
    #[inline]
    pub(super) fn begin_compute(
        &mut self,
        env: &mut Env,
        w: WorkerId,
        cores: Cores,
        seconds: f64,
        delay: Delay,
        phase: Phase,
    ) -> bool {
        if seconds <= 0.0 {
            return true;
        }
        let mut cause = phase.on_core();
        match cores {
            Cores::Shared(group) => {
                self.work[w] = seconds;
                env.network.start(env.now, group, seconds, ActivityId::Worker(w));
            }
            Cores::Fifo(station) => {
                let station = &mut env.stations[station];
                let visit = Waiting { activity: ActivityId::Worker(w), delay, pace: None };
                if station.queue.arrive(env.now, visit) {
                    env.after(delay, Event::Computed(w));
                } else {
                    cause = Cause::CpuWait;
                }
            }
            Cores::Paced(station, group) => {
                self.work[w] = seconds;
                if !env.take_core((station, Some(group)), ActivityId::Worker(w), delay) {
                    cause = Cause::CpuWait;
                }
            }
        }
        self.enter(env, w, phase, cause);
        false
    }

    /// Ends the computation of worker `w` on a core and gives the core to the next activity.
    #[inline]
    pub(crate) fn end_computation(&mut self, env: &mut Env, w: WorkerId) {
        let Worker { stage, loader, phase, .. } = self.workers[w];
        if let Some(group) = self.loaders[loader].mount.group
            && self.loaders[loader].reads_at_once()
        {
            // Most workers go on with a read.
            env.network.prefetch(group);
        }
        if let Cores::Fifo(station) = self.stages[stage].cores
            && let Some(next) = env.stations[station].queue.leave(env.now)
        {
            self.admit(env, next);
        }
        let over = match phase {
            Phase::Receiving => self.end_receive(env, w),
            Phase::Unpacking => self.count_file(w),
            _ => self.end_thread(env, w),
        };
        if over {
            self.end_operation(w);
            self.run_worker(env, w);
        }
    }

    /// Frees one of `cores` and gives it to the next activity in the queue; shared cores need not be freed.
    pub(crate) fn leave_core(&mut self, env: &mut Env, cores: Cores) {
        if let Some((station, _)) = cores.slots()
            && let Some(next) = env.stations[station].queue.leave(env.now)
        {
            self.admit(env, next);
        }
    }

    /// Returns the cores on which worker `w` computes.
    pub(crate) fn cores_of(&self, w: WorkerId) -> Cores {
        self.stages[self.workers[w].stage].cores
    }

    /// Returns whether worker `w` uses a core at the moment, or waits for one.
    pub(crate) fn is_on_core(&self, w: WorkerId) -> bool {
        self.workers[w].phase.is_on_core()
    }

    /// Gives a core that has become free to the next activity in its queue: another worker's or a message's.
    #[inline]
    pub(crate) fn admit(&mut self, env: &mut Env, next: Waiting) {
        if let ActivityId::Worker(other) = next.activity
            && !self.is_team(other)
        {
            let cause = self.workers[other].phase.on_core();
            self.note(env, other, Activity::Doing(cause));
        }
        env.use_core(next);
    }

    /// Ends a computation of worker `w` that its cores did not do in a fixed time; returns true if the worker is done.
    #[inline(never)]
    fn end_compute(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let Worker { stage, phase, .. } = self.workers[w];
        self.leave_core(env, self.stages[stage].cores);
        if !self.is_team(w) {
            self.split_cpu_wait(env, w);
        }
        match phase {
            Phase::Receiving => self.end_receive(env, w),
            Phase::Unpacking => self.count_file(w),
            _ => self.end_thread(env, w),
        }
    }

    /// Splits the time of a computation of worker `w` on shared cores that took longer than its core-seconds. The excess,
    /// during which the CPU quota stopped the worker or other activities used the cores, is recorded first.
    pub(super) fn split_cpu_wait(&mut self, env: &Env, w: WorkerId) {
        let now = env.now;
        let worker = &mut self.workers[w];
        let quota = self.stages[worker.stage].quota;
        let cause = worker.phase.on_core();
        let work = forebay_engine::Span::from_seconds(self.work[w]);
        let Some(since) = worker.timeline.last_start(&self.pages) else {
            return broken("a worker that computes has begun an activity");
        };
        let took = now.since(since);
        if took.0 > work.0 + 1 {
            let then = since + forebay_engine::Span(took.0 - work.0);
            if let Some(quota) = quota {
                let resumed = (since + env.buckets[quota].closed(since, now)).min(then);
                worker.timeline.split(&mut self.pages, Cause::Throttled, resumed, Cause::CpuWait);
            }
            worker.timeline.split(&mut self.pages, Cause::CpuWait, then, cause);
        }
    }

    /// Begins to copy the item of worker `w` to its GPU, `decoded` or as stored; returns true if the copy takes no time.
    fn begin_copy(&mut self, env: &mut Env, w: WorkerId, decoded: bool) -> bool {
        let worker = &self.workers[w];
        let loader = &self.loaders[worker.loader];
        let Some(group) = loader.gpus.route(worker.item.sequence) else { return true };
        let bytes = if decoded { self.decoded_bytes(w) } else { worker.item.bytes };
        self.enter(env, w, Phase::Copying, Cause::Copy);
        env.network.start(env.now, group, bytes, ActivityId::Worker(w));
        false
    }

    /// Returns the decoded bytes of the item of worker `w`.
    fn decoded_bytes(&self, w: WorkerId) -> f64 {
        let worker = &self.workers[w];
        match self.loaders[worker.loader].sizes.decoded {
            Some(size) => size * worker.item.samples as f64,
            None => worker.item.bytes,
        }
    }

    /// Puts worker `w` into `phase`, and records in the worker's timeline that the worker's time counts as `cause` from `env.now`
    /// on.
    #[inline]
    pub(super) fn enter(&mut self, env: &mut Env, w: WorkerId, phase: Phase, cause: Cause) {
        self.note(env, w, Activity::Doing(cause)).phase = phase;
    }

    /// Records in the timeline of worker `w` that it does `activity` from `env.now` on.
    #[inline]
    pub(super) fn note(&mut self, env: &mut Env, w: WorkerId, activity: Activity) -> &mut Worker {
        if env.recorder.is_some() {
            self.trace_worker(env, w, activity);
        }
        if !self.workers[w].timeline.try_push(&mut self.pages, env.now, activity) {
            self.forget(env.now, w, activity);
        }
        &mut self.workers[w]
    }

    /// Makes room for `activity` in the timeline of worker `w`: drops entries from before the oldest wait in progress, which no
    /// stall needs any more.
    #[cold]
    fn forget(&mut self, now: Time, w: WorkerId, activity: Activity) {
        let worker = &mut self.workers[w];
        if worker.timeline.may_forget() {
            let oldest = self.loaders[worker.loader].waiters.get(0);
            let since = oldest.map_or(now, |waiter| waiter.since);
            worker.timeline.forget_before(&mut self.pages, since);
        }
        worker.timeline.push(&mut self.pages, now, activity);
    }

    #[cold]
    fn trace_worker(&mut self, env: &mut Env, w: WorkerId, activity: Activity) {
        if let Some(recorder) = &mut env.recorder {
            recorder.begin(self.tracks[w], env.now, activity.name());
        }
    }

    /// Records in the timeline of worker `w` that worker `by` ended the idleness or blocking of `w`.
    pub(super) fn link(&mut self, w: WorkerId, by: WorkerId) {
        self.workers[w].timeline.link(&mut self.pages, by.number());
    }
}

#[cold]
fn unreachable_phase(phase: Phase) -> bool {
    panic!("a worker in phase {phase:?} waits for nothing that can come")
}

/// A computation that several threads share.
#[derive(Debug)]
pub(crate) struct Team {
    /// The computation of a single thread.
    pub(crate) work: Work,
    pub(crate) threads: u32,
    /// Speed-up of all threads together over one thread, if each has a core of its own.
    pub(crate) speed: f64,
}

impl Loaders {
    /// Returns the core-seconds of each thread of a team for the current sample of worker `w`.
    pub(super) fn team_seconds(&self, env: &Env, team: &Team, w: WorkerId) -> f64 {
        let alone = match &team.work {
            Work::Compute(draw) => self.draw(env, draw, w).0,
            Work::Decode(law, pixels) => law.core_seconds(self.stored_bytes(w), *pixels),
            // A team has no other kinds of work.
            _ => 0.0,
        };
        alone / team.speed
    }

    /// Begins a computation of worker `w` with `threads` threads, each of which needs a core for `seconds`; returns true if it
    /// takes no time.
    pub(super) fn begin_team(
        &mut self,
        env: &mut Env,
        w: WorkerId,
        cores: Cores,
        seconds: f64,
        threads: u32,
    ) -> bool {
        if seconds <= 0.0 {
            return true;
        }
        let activity = ActivityId::Worker(w);
        self.enter(env, w, Phase::Computing, Cause::Decode);
        self.work[w] = seconds;
        match cores {
            Cores::Shared(group) => {
                env.network.start_many(env.now, group, seconds, threads, activity);
            }
            Cores::Fifo(station) => self.begin_threads(env, w, (station, None), threads),
            Cores::Paced(station, group) => {
                self.begin_threads(env, w, (station, Some(group)), threads);
            }
        }
        false
    }

    /// Lets each of `threads` threads of worker `w` take one of the cores `slots` for its part of the computation.
    fn begin_threads(
        &mut self,
        env: &mut Env,
        w: WorkerId,
        slots: (StationId, Option<GroupId>),
        threads: u32,
    ) {
        self.threads[w] = threads;
        let delay = Delay::once(self.work[w]);
        for _ in 0..threads {
            env.take_core(slots, ActivityId::Worker(w), delay);
        }
    }

    /// Ends the computation of worker `w`, or of one of its threads; returns true if all of them have ended.
    #[inline]
    pub(super) fn end_thread(&mut self, env: &Env, w: WorkerId) -> bool {
        if !self.is_team(w) {
            return true;
        }
        self.threads[w] -= 1;
        let over = self.threads[w] == 0;
        if over {
            self.split_cpu_wait(env, w);
        }
        over
    }

    /// Returns whether worker `w` computes with several threads that take cores one by one.
    #[inline]
    pub(super) fn is_team(&self, w: WorkerId) -> bool {
        self.threads.get(w).is_some_and(|threads| *threads > 0)
    }
}

impl Loaders {
    /// Begins the kernel of worker `w` on the GPU that the worker's item is for; of a model copy in stages, this is the GPU of the
    /// first stage. The kernel takes `per_sample` for each of the item's samples [s]. Returns true if the kernel takes no time, or
    /// if GPUs are not simulated as shared.
    pub(super) fn begin_kernel(&mut self, env: &mut Env, w: WorkerId, per_sample: f64) -> bool {
        let worker = &self.workers[w];
        let gpus = &mut self.loaders[worker.loader].gpus;
        let seconds = gpus.kernel_seconds(per_sample, worker.item.samples);
        let Some(gpu) = gpus.shared(worker.item.sequence, 0).filter(|_| seconds > 0.0) else {
            return true;
        };
        gpu.begin_loader_kernel(env, w, seconds);
        self.enter(env, w, Phase::OnGpu, Cause::Decode);
        false
    }

    /// Ends the kernel of worker `w` on the GPU of its item.
    pub(super) fn end_kernel(&mut self, now: Time, w: WorkerId) {
        let worker = &self.workers[w];
        let gpus = &mut self.loaders[worker.loader].gpus;
        if let Some(gpu) = gpus.shared(worker.item.sequence, 0) {
            gpu.end_loader_kernel(now);
        }
    }
}
