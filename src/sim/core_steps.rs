//! Steps on the node's cores, where the loader works too.

use super::event::{Clock, Customer, Delay, Event};
use super::index::DeviceId;
use super::workers::{Cores, Waiting};
use super::world::World;

/// How a model copy uses the node's cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuThreads {
    pub(super) number: u32,
    /// Speed of a core while these threads have the node to themselves: their step time was measured
    /// like that.
    pub(super) speed: f64,
}

impl World<'_> {
    /// The threads of a step run side by side, each as one of the node's.
    pub(super) fn compute_on_cores(
        &mut self,
        clock: &mut Clock,
        d: DeviceId,
        threads: CpuThreads,
        delay: Delay,
    ) {
        let customer = Customer::Step(d);
        match self.cores_of(d) {
            Cores::Shared(group) => {
                let work = delay.span.seconds() * threads.speed;
                self.network.start_many(clock.now, group, work, threads.number, customer);
            }
            // There is a core for everyone.
            Cores::Fifo(station) => {
                let station = &mut self.stations[station].queue;
                for _ in 0..threads.number {
                    station.arrive(clock.now, Waiting { customer, delay });
                }
                clock.after(delay, Event::Stepped(d));
            }
        }
    }

    /// How the trainer of device `d` gets the cores of its node.
    fn cores_of(&self, d: DeviceId) -> Cores {
        self.loaders[self.devices[d].loader].trainer
    }

    /// Slots of device `d` are free again.
    pub(super) fn leave_cores(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &self.devices[d];
        if let Some(threads) = self.jobs[device.job].threads
            && let Cores::Fifo(station) = self.cores_of(d)
        {
            for _ in 0..threads.number {
                self.stations[station].queue.leave(clock.now);
            }
        }
    }
}
