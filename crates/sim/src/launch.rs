//! Host-side work of trainers on their nodes' cores for a step, such as launching kernels or running the interpreter. If the
//! device computes meanwhile, a step takes the longer of the two times.
//!
//! Each GPU has a trainer. The trainers of the GPUs that split a stage work at the same time, each on the cores of its node,
//! and the stage waits for the last of them.

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_metrics::launch_waits;
use forebay_model::random::{Purpose, Sampler};
use forebay_report::Cause;

use super::core_steps::CoreThreads;
use super::device::State;
use super::env::Env;
use super::event::{ActivityId, Delay};
use super::ids::{DeviceId, Ids, StationId, TrainerId};
use super::invariant::broken;
use super::jobs::Jobs;
use super::notice::Notice;
use super::worker::{Cores, Waiting};

/// The trainer of one GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trainer {
    pub(super) device: DeviceId,
    /// Number of the trainer within the job copy.
    pub(super) number: u32,
    /// How the trainer gets the cores of its node.
    pub(super) cores: Cores,
}

/// The settings of the host-side work that each trainer of a job does for a step.
#[derive(Debug, Clone)]
pub(super) struct LaunchRun {
    /// Core-seconds of each thread for a step [s].
    pub(super) work: Sampler,
    pub(super) threads: u32,
    /// Whether the device computes during the host-side work.
    pub(super) overlap: bool,
}

/// The trainers of a device, and the work on cores that they are doing for a step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Launching {
    pub(super) trainers: Ids<TrainerId>,
    since: Time,
    /// Core-seconds of each thread of the trainer with the most work [s].
    work: f64,
    /// Number of trainers that are still working; where cores are given first come, first served, the number of their threads.
    open: u32,
    /// The threads of the device's step, if the device trains on cores and has no host-side work.
    pub(super) threads: CoreThreads,
}

impl Launching {
    /// Returns trainers that do nothing yet.
    pub(super) fn of(trainers: Ids<TrainerId>) -> Launching {
        Launching { trainers, ..Launching::default() }
    }

    /// Forgets the work in progress, which has been cancelled.
    pub(super) fn stop(&mut self) {
        *self = Launching::of(self.trainers);
    }
}

impl Jobs {
    /// Begins the host-side work of the trainers of device `d` for a step; returns true if the device computes meanwhile.
    pub(super) fn begin_launch(&mut self, env: &mut Env, d: DeviceId) -> bool {
        if self.devices[d].op.at == 0 {
            // A stage without input of its own begins its step here.
            self.end_wait_for_stage(env.now, d);
        }
        let device = &mut self.devices[d];
        let job = &self.jobs[device.job];
        let (Some(launch), Some(launching)) = (&job.plan.launch, &mut device.launching) else {
            return true;
        };
        let trainers = launching.trainers;
        **launching = Launching { since: env.now, ..Launching::of(trainers) };
        (device.state, device.since) = (State::Launching, env.now);
        for t in trainers {
            let (owner, trainer) = (device.job.number() as u64, self.trainers[t]);
            let number = trainer.number.into();
            let mut generator = env.streams.at(Purpose::Launch, owner, number, device.next);
            let work = launch.work.draw(&mut generator);
            launching.work = launching.work.max(work);
            launching.open += launch_threads(env, t, trainer.cores, (work, launch.threads));
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
    pub(super) fn launched(&mut self, env: &mut Env, t: TrainerId) {
        let next = self.leave_launch(env, t);
        env.notices.extend(next.map(Notice::CoreFree));
        let d = self.trainers[t].device;
        let device = &mut self.devices[d];
        let Some(launching) = &mut device.launching else {
            return broken("a device whose trainer has launched has trainers");
        };
        launching.open -= 1;
        if launching.open > 0 || device.state != State::Launching {
            return;
        }
        let (job, Launching { since, work, .. }) = (device.job, **launching);
        self.devices[d].times.worked = env.now;
        for wait in launch_waits(since, work, self.devices[d].since, env.now) {
            self.jobs[job].steps.add_stall(wait);
        }
        self.end_op(env, d);
    }

    /// Returns whether device `d`, which has finished computing, has to wait for its trainers' threads; if so, begins that
    /// wait.
    pub(super) fn awaits_launch(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let device = &mut self.devices[d];
        if device.launching.as_ref().is_none_or(|launching| launching.open == 0) {
            return false;
        }
        (device.state, device.since) = (State::Launching, env.now);
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
