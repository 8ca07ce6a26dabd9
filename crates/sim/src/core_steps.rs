//! Steps on the node's cores, where the loader works too.

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::DeviceId;
use super::jobs::Jobs;
use super::worker::{Cores, Waiting};

/// How a model copy uses the node's cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuThreads {
    pub(super) number: u32,
    /// Speed of a core while these threads have the node to themselves: their step time was measured
    /// like that.
    pub(super) speed: f64,
}

impl Jobs {
    /// The threads of a step run side by side, each as one of the node's.
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
            // There is a core for everyone.
            Cores::Fifo(station) => {
                let station = &mut env.stations[station].queue;
                for _ in 0..threads.number {
                    station.arrive(env.now, Waiting { activity, delay });
                }
                env.after(delay, Event::Stepped(d));
            }
        }
    }

    /// How the trainer of device `d` gets the cores of its node.
    fn cores_of(&self, d: DeviceId) -> Cores {
        self.loaders[self.devices[d].loader].trainer
    }

    /// Slots of device `d` are free again.
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
