//! Host-side work of a trainer on the node's cores for a step, such as launching kernels or running the interpreter. If the
//! device computes meanwhile, a step takes the longer of the two times.

use super::device::State;
use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::DeviceId;
use super::jobs::Jobs;
use super::worker::{Cores, Waiting};
use forebay_engine::Time;
use forebay_metrics::launch_waits;
use forebay_model::random::{Purpose, Sampler};
use forebay_report::Cause;

/// The settings of the host-side work that each trainer of a job does for a step.
#[derive(Debug, Clone)]
pub(super) struct LaunchRun {
    /// Core-seconds of each thread for a step [s].
    pub(super) work: Sampler,
    pub(super) threads: u32,
    /// Whether the device computes during the host-side work.
    pub(super) overlap: bool,
}

/// The host-side work that a trainer is doing for a step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Launching {
    since: Time,
    /// Core-seconds of each thread [s].
    work: f64,
    /// Whether the threads are still working.
    open: bool,
}

impl Jobs {
    /// Begins the host-side work of the trainer of device `d` for a step; returns true if the device computes meanwhile.
    pub(super) fn begin_launch(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let device = &mut self.devices[d];
        let job = &self.jobs[device.job];
        let Some(launch) = &job.plan.launch else { return true };
        let (owner, entity) = (device.job.number() as u64, device.model as u64);
        let mut generator = env.streams.at(Purpose::Launch, owner, entity, device.next);
        let work = launch.work.draw(&mut generator);
        device.launching = Launching { since: env.now, work, open: true };
        (device.state, device.since) = (State::Launching, env.now);
        let (threads, overlap) = (launch.threads, launch.overlap);
        match self.loaders[device.loader].trainers.cores {
            Cores::Shared(group) => {
                env.network.start_many(env.now, group, work, threads, ActivityId::Launch(d));
            }
            // The station has a core for every thread.
            Cores::Fifo(station) => {
                let delay = Delay::once(work);
                let visit = Waiting { activity: ActivityId::Launch(d), delay };
                let station = &mut env.stations[station].queue;
                for _ in 0..threads {
                    station.arrive(env.now, visit);
                }
                env.after(delay, Event::Launched(d));
            }
        }
        if !overlap {
            self.trace_device(env, d, Cause::Launch.name());
        }
        overlap
    }

    /// Frees the cores that the trainer of device `d` used.
    pub(super) fn leave_launch(&mut self, env: &mut Env, d: DeviceId) {
        let device = &self.devices[d];
        let launch = self.jobs[device.job].plan.launch.as_ref();
        let threads = launch.map_or(0, |launch| launch.threads);
        if let Cores::Fifo(station) = self.loaders[device.loader].trainers.cores {
            for _ in 0..threads {
                env.stations[station].queue.leave(env.now);
            }
        }
    }

    /// Ends the host-side work of the trainer of device `d` for a step.
    pub(super) fn launched(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        device.launching.open = false;
        let state = device.state;
        let (job, Launching { since, work, .. }) = (device.job, device.launching);
        self.leave_launch(env, d);
        if state != State::Launching {
            return;
        }
        self.devices[d].times.worked = env.now;
        for wait in launch_waits(since, work, self.devices[d].since, env.now) {
            self.jobs[job].steps.add_stall(wait);
        }
        self.end_op(env, d);
    }

    /// Returns whether device `d`, which has finished computing, has to wait for its trainer's threads; if so, begins that
    /// wait.
    pub(super) fn awaits_launch(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let device = &mut self.devices[d];
        if !device.launching.open {
            return false;
        }
        (device.state, device.since) = (State::Launching, env.now);
        self.trace_device(env, d, Cause::Launch.name());
        true
    }
}
