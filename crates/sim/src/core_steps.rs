//! Training steps that run on the node's cores, which the loader uses too.

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::DeviceId;
use super::jobs::Jobs;
use super::worker::{Cores, Waiting};

/// How a model copy uses the node's cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuThreads {
    pub(super) number: u32,
    /// Speed of a core relative to an undisturbed core, when these threads have the node to themselves. This was the case when
    /// the step time was measured.
    pub(super) speed: f64,
}

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
            Cores::Shared(group) => {
                let work = delay.span.seconds() * threads.speed;
                env.network.start_many(env.now, group, work, threads.number, activity);
            }
            // The station has a core for every thread.
            Cores::Fifo(station) => {
                let station = &mut env.stations[station].queue;
                for _ in 0..threads.number {
                    station.arrive(env.now, Waiting { activity, delay });
                }
                env.after(delay, Event::Stepped(d));
            }
        }
    }

    /// Returns how the trainer of device `d` gets the cores of its node.
    fn cores_of(&self, d: DeviceId) -> Cores {
        self.trainers[self.devices[d].launching.trainers.start].cores
    }

    /// Frees the cores that the step of device `d` used.
    pub(super) fn leave_cores(&mut self, env: &mut Env, d: DeviceId) {
        let device = &self.devices[d];
        if let Some(threads) = self.jobs[device.job].plan.threads
            && let Cores::Fifo(station) = self.cores_of(d)
        {
            for _ in 0..threads.number {
                env.stations[station].queue.leave(env.now);
            }
        }
    }
}
