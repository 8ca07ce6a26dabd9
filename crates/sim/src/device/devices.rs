//! The owner of all devices and their trainers: work on the nodes' cores, and what the timeline shows of devices. If a device
//! computes during host-side work, a step takes the longer of the two times.

use std::ops::{Index, IndexMut};

use forebay_engine::fluid::GroupId;
use forebay_engine::{Span, Time};
use forebay_metrics::{HostWork, Segment};
use forebay_model::random::Purpose;
use forebay_report::Cause;

use super::trainer::{CpuThreads, LaunchRun, Next, Trainer};
use super::{Device, State};
use crate::env::{ActivityId, Cores, Delay, Env, Event, Notice, Waiting, broken};
use crate::ids::{DeviceId, IdVec, Ids, StationId, TrainerId};

/// The tables of all devices and their trainers.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    all: IdVec<DeviceId, Device>,
    trainers: IdVec<TrainerId, Trainer>,
}

impl Index<DeviceId> for Devices {
    type Output = Device;

    #[inline(always)]
    fn index(&self, d: DeviceId) -> &Device {
        &self.all[d]
    }
}

impl IndexMut<DeviceId> for Devices {
    #[inline(always)]
    fn index_mut(&mut self, d: DeviceId) -> &mut Device {
        &mut self.all[d]
    }
}

impl Index<Ids<DeviceId>> for Devices {
    type Output = [Device];

    fn index(&self, ids: Ids<DeviceId>) -> &[Device] {
        &self.all[ids]
    }
}

impl IndexMut<Ids<DeviceId>> for Devices {
    fn index_mut(&mut self, ids: Ids<DeviceId>) -> &mut [Device] {
        &mut self.all[ids]
    }
}

impl Devices {
    /// Adds a device.
    pub(crate) fn add(&mut self, device: Device) {
        self.all.push(device);
    }

    /// Adds a trainer.
    pub(crate) fn add_trainer(&mut self, trainer: Trainer) {
        self.trainers.push(trainer);
    }

    /// Returns the ids that the next device and the next trainer get.
    pub(crate) fn next_ids(&self) -> (DeviceId, TrainerId) {
        (self.all.next_id(), self.trainers.next_id())
    }

    /// Returns the ids of all devices.
    pub(crate) fn ids(&self) -> Ids<DeviceId> {
        self.all.ids()
    }

    /// Returns the devices from `first` on.
    pub(crate) fn ids_from(&self, first: DeviceId) -> Ids<DeviceId> {
        self.all.ids_from(first)
    }

    /// Returns the trainers from `first` on.
    pub(crate) fn trainers_from(&self, first: TrainerId) -> Ids<TrainerId> {
        self.trainers.ids_from(first)
    }

    /// Returns the speed of the slowest GPU of `devices`, relative to its speed without faults.
    pub(crate) fn slowest(&self, devices: Ids<DeviceId>) -> f64 {
        self.all[devices].iter().map(Device::pace).fold(1.0, f64::min)
    }

    /// Records in the timeline that device `d` does `name` from now on.
    pub(crate) fn trace(&self, env: &mut Env, d: DeviceId, name: &'static str) {
        if let (Some(recorder), Some(track)) = (&mut env.recorder, self.all[d].track) {
            recorder.begin(track, env.now, name);
        }
    }

    /// Records the causes of the wait of device `d` in the timeline.
    pub(crate) fn trace_causes(&self, env: &mut Env, d: DeviceId, segments: &[Segment]) {
        if let (Some(recorder), Some(track)) = (&mut env.recorder, self.all[d].track) {
            recorder.causes(track, segments);
        }
    }
}

impl Devices {
    /// Returns how the trainer of device `d` gets the cores of its node; `None` if it uses none.
    fn cores_of(&self, d: DeviceId) -> Option<Cores> {
        let launching = self.all[d].launching.as_ref()?;
        Some(self.trainers[launching.trainers().start].cores)
    }

    /// Returns the station of the cores of device `d`, if they serve one thread after the other.
    fn slots_of(&self, d: DeviceId) -> Option<StationId> {
        self.cores_of(d)?.slots().map(|(station, _)| station)
    }

    /// Begins a step of device `d` that takes `delay`: its threads run in parallel on the node's cores.
    pub(crate) fn begin_threads(
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
        if let Some(launching) = &mut self.all[d].launching {
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

    /// Ends threads of the step of device `d`, which trains on cores, and gives their cores to the next activities in the queue;
    /// returns true if all threads have ended.
    pub(crate) fn end_threads(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let Some(station) = self.slots_of(d) else { return true };
        let Some(launching) = &mut self.all[d].launching else {
            broken("a step on cores has trainers");
            return true;
        };
        let (ended, over) = launching.end_threads();
        for _ in 0..ended {
            let next = env.stations[station].queue.leave(env.now);
            env.notices.extend(next.map(Notice::CoreFree));
        }
        over
    }

    /// Returns the time that each thread of a step of device `d`, which trains on cores, takes on an undisturbed core; `None` if
    /// threads need not wait for a core of their own.
    pub(crate) fn span_of_threads(&self, d: DeviceId) -> Option<Span> {
        self.slots_of(d)?;
        self.all[d].launching.as_ref().map(|launching| launching.span())
    }

    /// Begins the host-side work of the trainers of device `d` for a step; returns true if the device computes meanwhile.
    pub(crate) fn begin_launch(&mut self, env: &mut Env, d: DeviceId, launch: &LaunchRun) -> bool {
        let device = &mut self.all[d];
        let step = device.step();
        let Some(launching) = &mut device.launching else { return true };
        let trainers = launching.trainers();
        launching.begin(env.now);
        device.account.begin(env.now, State::Launching);
        for t in trainers {
            let (owner, trainer) = (device.job.number() as u64, self.trainers[t]);
            let number = trainer.number.into();
            let mut generator = env.streams.at(Purpose::Launch, owner, number, step);
            let varying = launch.varying.as_ref();
            let work = launch.taking + launch.work.draw(&mut generator);
            let wait = varying.map_or(0.0, |varying| varying.draw(&mut generator));
            launching.add(work);
            let parts = launch_threads(env, t, trainer.cores, (work, launch.threads));
            self.trainers[t].begin(parts, Span::from_seconds(wait));
        }
        if !launch.overlap {
            self.trace(env, d, Cause::Launch.name());
        }
        launch.overlap
    }

    /// Returns the host-side work of the trainers of device `d` up to `until`.
    pub(crate) fn host_work(&self, d: DeviceId, until: Time) -> HostWork {
        let Some(launching) = &self.all[d].launching else { return HostWork::default() };
        let mut host = launching.work();
        let after = launching.trainers().iter().map(|t| self.trainers[t].after_threads(until));
        host.after = after.fold(host.after, Span::max);
        host
    }

    /// Ends the use of a core, or the turn on the node, that trainer `t` has now. Returns the next waiting user of it, if there is one.
    pub(crate) fn leave_core(&self, env: &mut Env, t: TrainerId) -> Option<Waiting> {
        let station = self.trainers[t].station()?;
        env.stations[station].queue.leave(env.now)
    }

    /// Returns how trainer `t` gets the cores of its node.
    pub(crate) fn cores_of_trainer(&self, t: TrainerId) -> Cores {
        self.trainers[t].cores
    }

    /// Ends the host-side work of trainer `t` for a step, or of one of its threads, or its turn; returns its device if the device has
    /// waited for that, and goes on.
    pub(crate) fn end_launch(&mut self, env: &mut Env, t: TrainerId) -> Option<DeviceId> {
        let next = self.leave_core(env, t);
        env.notices.extend(next.map(Notice::CoreFree));
        let trainer = &mut self.trainers[t];
        let Trainer { device: d, quota, .. } = *trainer;
        let device = &mut self.all[d];
        let Some(launching) = &mut device.launching else {
            broken("a device whose trainer has launched has trainers");
            return None;
        };
        let works = trainer.works();
        let next = trainer.end_part(env.now);
        if works && !matches!(next, Next::Threads) {
            launching.note_throttling(env, quota);
        }
        let after = match next {
            Next::Threads => return None,
            Next::Wait(wait) => {
                env.after(wait, Event::Waited(ActivityId::Launch(t)));
                return None;
            }
            Next::Turn(turns, length) => {
                env.take_core((turns, None), ActivityId::Launch(t), length);
                return None;
            }
            Next::Done(after) => after,
        };
        if !launching.end_trainer(after) || device.account.state() != State::Launching {
            return None;
        }
        device.note_work(env.now);
        Some(d)
    }

    /// Begins the wait of device `d`, which has finished computing, for its trainers' threads; returns false if all have ended.
    pub(crate) fn begin_launch_wait(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let device = &mut self.all[d];
        if device.launching.as_ref().is_none_or(|launching| !launching.is_working()) {
            return false;
        }
        device.account.begin(env.now, State::Launching);
        self.trace(env, d, Cause::Launch.name());
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
