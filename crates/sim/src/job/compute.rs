//! Computation of devices: on GPUs of their own or shared ones, on the nodes' cores, and the host-side work of their trainers.
//! If the device computes during host-side work, a step takes the longer of the two times.

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_metrics::Segment;
use forebay_model::random::Purpose;
use forebay_report::{Cause, StallCause};
use forebay_scenario::BatchInterval;

use super::jobs::Jobs;
use crate::device::{CpuThreads, Device, Gpu, State};
use crate::env::{ActivityId, Cores, Delay, Env, Event, Notice, Waiting, broken};
use crate::ids::{DeviceId, Ids, StationId, TrainerId};

impl Jobs {
    /// Begins a step of device `d`: its threads run in parallel on the node's cores.
    pub(super) fn compute_on_cores(
        &mut self,
        env: &mut Env,
        d: DeviceId,
        threads: CpuThreads,
        delay: Delay,
    ) {
        let activity = ActivityId::Step(d);
        match self.cores_of(d) {
            None => env.after(delay, Event::Stepped(d)),
            Some(Cores::Shared(group)) => {
                let work = delay.span.seconds() * threads.speed;
                env.network.start_many(env.now, group, work, threads.number, activity);
            }
            Some(Cores::Fifo(_) | Cores::Paced(..)) => self.take_cores(env, d, threads, delay),
        }
    }

    /// Lets each thread of a step of device `d` take a core that serves one thread after the other.
    fn take_cores(&mut self, env: &mut Env, d: DeviceId, threads: CpuThreads, delay: Delay) {
        let Some((station, pace)) = self.cores_of(d).and_then(Cores::slots) else {
            return broken("threads take cores that serve one thread after the other");
        };
        let delay = match threads.speed {
            1.0 => delay,
            speed => Delay::once(delay.span.seconds() * speed),
        };
        let visit = Waiting { activity: ActivityId::Step(d), delay, pace };
        let queue = &mut env.stations[station].queue;
        let begun = (0..threads.number).filter(|_| queue.arrive(env.now, visit)).count() as u32;
        if let Some(launching) = &mut self.devices[d].launching {
            launching.begin_threads(threads.number, begun, delay.span);
        }
        match pace {
            _ if begun == 0 => {}
            // Threads that begin together end together.
            None => env.use_core(visit),
            Some(group) => {
                let work = delay.span.seconds();
                env.network.start_many(env.now, group, work, begun, visit.activity);
            }
        }
    }

    /// Ends threads of the step of device `d`, and frees their cores; returns true if all threads have ended.
    pub(super) fn end_threads(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let Some(station) = self.slots_of(d) else { return true };
        let Some(launching) = &mut self.devices[d].launching else {
            broken("a step on cores has trainers");
            return true;
        };
        let (ended, over) = launching.end_threads();
        leave_slots(env, station, ended);
        over
    }

    /// Charges the computation or the update of device `d` up to `until`. Threads that have taken longer than a step takes have waited
    /// for cores first.
    pub(super) fn charge_step(&mut self, d: DeviceId, until: Time) {
        if self.devices[d].account.state() == State::Updating {
            let device = &mut self.devices[d];
            return device.account.update(&mut self.jobs[device.job].steps, until);
        }
        let threads = self.slots_of(d).and(self.devices[d].launching.as_ref());
        if let Some(span) = threads.map(|launching| launching.span()) {
            let turn = Time(until.0.saturating_sub(span.0));
            self.charge(d, turn, StallCause::own(Cause::CpuWait));
        }
        let device = &mut self.devices[d];
        device.account.compute(&mut self.jobs[device.job].steps, until);
    }

    /// Returns the station of the cores that device `d` trains on, if they serve one thread after the other.
    #[inline]
    fn slots_of(&self, d: DeviceId) -> Option<StationId> {
        self.jobs[self.devices[d].job].plan.threads?;
        self.cores_of(d)?.slots().map(|(station, _)| station)
    }

    /// Returns how the trainer of device `d` gets the cores of its node; `None` if it uses none.
    fn cores_of(&self, d: DeviceId) -> Option<Cores> {
        let launching = self.devices[d].launching.as_ref()?;
        Some(self.trainers[launching.trainers().start].cores)
    }

    /// Frees the cores of threads of the step of device `d`, which are cancelled at the same time.
    pub(super) fn leave_cores(&mut self, env: &mut Env, d: DeviceId) {
        if let Some(station) = self.slots_of(d)
            && let Some(launching) = &mut self.devices[d].launching
        {
            leave_slots(env, station, launching.end_threads().0);
        }
    }
}

/// Frees `number` cores, and gives each to the next activity in the queue.
fn leave_slots(env: &mut Env, station: StationId, number: u32) {
    for _ in 0..number {
        let next = env.stations[station].queue.leave(env.now);
        env.notices.extend(next.map(Notice::CoreFree));
    }
}

impl Jobs {
    /// Records the causes of the wait of device `d` in the timeline.
    pub(super) fn trace_causes(&mut self, env: &mut Env, d: DeviceId, segments: &[Segment]) {
        if let (Some(recorder), Some(track)) = (&mut env.recorder, self.devices[d].track) {
            recorder.causes(track, segments);
        }
    }

    /// Records in the timeline that device `d` does `name` from now on.
    pub(super) fn trace_device(&mut self, env: &mut Env, d: DeviceId, name: &'static str) {
        if let (Some(recorder), Some(track)) = (&mut env.recorder, self.devices[d].track) {
            recorder.begin(track, env.now, name);
        }
    }
}

impl Jobs {
    /// Sets the speed of the GPU of device `d` relative to its speed without faults.
    pub(crate) fn set_pace(&mut self, env: &mut Env, d: DeviceId, pace: f64) {
        self.devices[d].set_pace(pace);
        let Some(gpu) = self.gpu_of(d) else { return };
        gpu.set_pace(env, pace);
    }

    /// Returns the speed of the slowest GPU of `devices`, relative to its speed without faults.
    pub(super) fn slowest_of(&self, devices: Ids<DeviceId>) -> f64 {
        self.devices[devices].iter().map(Device::pace).fold(1.0, f64::min)
    }

    /// Returns the shared GPU of device `d`; `None` if GPUs are not simulated as shared.
    #[inline]
    pub(super) fn gpu_of(&mut self, d: DeviceId) -> Option<&mut Gpu> {
        let device = &self.devices[d];
        self.loaders[device.loader].gpus.shared(device.model.into(), device.stage)
    }

    /// Puts the batch of device `d` into a buffer of its GPU. If the device still has a buffer from its last batch, the batch
    /// overwrites that one.
    pub(super) fn hold_input(&mut self, d: DeviceId) {
        let new = self.devices[d].input.hold_buffer();
        if let (true, Some(gpu)) = (new, self.gpu_of(d)) {
            gpu.take_input();
        }
    }

    /// Frees the buffer of the batch of device `d`, unless the device may train on the batch again.
    pub(super) fn leave_input(&mut self, d: DeviceId) {
        let device = &mut self.devices[d];
        if self.jobs[device.job].plan.batches.interval != BatchInterval::Every(1.0) {
            return;
        }
        let held = device.input.leave_buffer();
        if let (true, Some(gpu)) = (held, self.gpu_of(d)) {
            gpu.free_input();
        }
    }

    /// Begins the computation of device `d` on its GPU, which other devices and loaders may use at the same time.
    pub(super) fn compute_on_gpu(&mut self, env: &mut Env, d: DeviceId, delay: Delay) {
        self.devices[d].begin_kernels(delay.span.seconds());
        if let Some(gpu) = self.gpu_of(d) {
            gpu.take_activations();
        }
        self.begin_kernels(env, d);
    }

    /// Begins the current kind of kernels of device `d`.
    fn begin_kernels(&mut self, env: &mut Env, d: DeviceId) {
        let kernels = self.devices[d].kernels();
        let Some(gpu) = self.gpu_of(d) else {
            return broken("kernels run on a GPU that is simulated as shared");
        };
        gpu.begin_kernels(env, d, kernels);
    }

    /// Ends the current kind of kernels of device `d`, or its step on cores.
    pub(crate) fn end_kernels(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let (busy, kernels) = (device.account.state() == State::Busy, device.kernels().0);
        let Some(gpu) = self.gpu_of(d) else { return self.end_work(env, d) };
        // A device whose job has ended runs no further kernels.
        if let Some(next) = gpu.end_kernels(env.now, kernels).filter(|_| busy) {
            self.devices[d].go_on_with_kernels(next);
            return self.begin_kernels(env, d);
        }
        gpu.free_activations();
        self.end_work(env, d);
    }
}

impl Jobs {
    /// Begins the host-side work of the trainers of device `d` for a step; returns true if the device computes meanwhile.
    pub(super) fn begin_launch(&mut self, env: &mut Env, d: DeviceId) -> bool {
        if self.devices[d].op.at() == 0 {
            // A stage without input of its own begins its step here.
            self.settle(d, env.now);
        }
        let device = &mut self.devices[d];
        let (job, step) = (&self.jobs[device.job], device.step());
        let (Some(launch), Some(launching)) = (&job.plan.launch, &mut device.launching) else {
            return true;
        };
        let trainers = launching.trainers();
        launching.begin(env.now);
        device.account.begin(env.now, State::Launching);
        for t in trainers {
            let (owner, trainer) = (device.job.number() as u64, self.trainers[t]);
            let number = trainer.number.into();
            let mut generator = env.streams.at(Purpose::Launch, owner, number, step);
            let work = launch.work.draw(&mut generator);
            launching.add(work, launch_threads(env, t, trainer.cores, (work, launch.threads)));
        }
        let overlap = launch.overlap;
        if !overlap {
            self.trace_device(env, d, Cause::Launch.name());
        }
        overlap
    }

    /// Frees a core that trainer `t` used; returns the activity that gets it next, if one waits for it.
    pub(super) fn leave_launch(&self, env: &mut Env, t: TrainerId) -> Option<Waiting> {
        let (station, _) = self.trainers[t].cores.slots()?;
        env.stations[station].queue.leave(env.now)
    }

    /// Ends the host-side work of trainer `t` for a step, or of one of its threads.
    pub(crate) fn end_launch(&mut self, env: &mut Env, t: TrainerId) {
        let next = self.leave_launch(env, t);
        env.notices.extend(next.map(Notice::CoreFree));
        let d = self.trainers[t].device;
        let device = &mut self.devices[d];
        let Some(launching) = &mut device.launching else {
            return broken("a device whose trainer has launched has trainers");
        };
        if !launching.end_part() || device.account.state() != State::Launching {
            return;
        }
        device.note_work(env.now);
        self.settle(d, env.now);
        self.end_op(env, d);
    }

    /// Begins the wait of device `d`, which has finished computing, for its trainers' threads; returns false if all have ended.
    pub(super) fn begin_launch_wait(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let device = &mut self.devices[d];
        if device.launching.as_ref().is_none_or(|launching| !launching.is_working()) {
            return false;
        }
        device.account.begin(env.now, State::Launching);
        self.trace_device(env, d, Cause::Launch.name());
        true
    }
}

/// Begins the host-side work of trainer `t` on its cores: `work` [core-s] by each of `threads` threads. Returns how often the
/// end of a part of the work will be reported.
fn launch_threads(env: &mut Env, t: TrainerId, cores: Cores, (work, threads): (f64, u32)) -> u32 {
    let activity = ActivityId::Launch(t);
    match cores {
        Cores::Shared(group) => {
            env.network.start_many(env.now, group, work, threads, activity);
            1
        }
        Cores::Fifo(station) => take_cores(env, (station, None), (activity, work), threads),
        Cores::Paced(station, group) => {
            take_cores(env, (station, Some(group)), (activity, work), threads)
        }
    }
}

/// Lets each of `threads` threads of `activity` take one of the cores `slots` for `work` [core-s]; returns their number.
fn take_cores(
    env: &mut Env,
    slots: (StationId, Option<GroupId>),
    (activity, work): (ActivityId, f64),
    threads: u32,
) -> u32 {
    for _ in 0..threads {
        env.take_core(slots, activity, Delay::once(work));
    }
    threads
}
