//! Faults: what is slower than it should be, for a while.

use crate::engine::Time;
use crate::fluid::{Capacity, LinkId};

use super::event::{Clock, Delay};
use super::index::{DeviceId, FaultId, LoaderId, StationId};
use super::world::World;

/// A fault, and what it slows.
#[derive(Debug)]
pub(super) struct FaultRun {
    pub(super) from: Time,
    pub(super) until: Time,
    pub(super) factor: f64,
    /// Links with what they carry otherwise.
    pub(super) links: Vec<(LinkId, Capacity)>,
    /// Stations with their service otherwise.
    pub(super) stations: Vec<(StationId, Delay)>,
    pub(super) devices: Vec<DeviceId>,
    /// Loaders whose kernels run on slower GPUs.
    pub(super) loaders: Vec<LoaderId>,
    pub(super) active: bool,
}

impl World<'_> {
    /// Fault number `f` begins, or ends.
    #[cold]
    pub(super) fn turn(&mut self, clock: &mut Clock, f: FaultId) {
        self.faults[f].active ^= true;
        let fault = &self.faults[f];
        for (link, capacity) in &fault.links {
            let left = self.left(|other| other.links.iter().any(|(of, _)| of == link));
            self.network.set_capacity(clock.now, *link, times(capacity, left));
        }
        for (station, service) in &fault.stations {
            let left = self.left(|other| other.stations.iter().any(|(of, _)| of == station));
            self.stations[*station].service = match left < 1.0 {
                true => Delay::once(service.span.seconds() / left),
                false => *service,
            };
        }
        for device in &fault.devices {
            self.devices[*device].pace = self.left(|other| other.devices.contains(device));
        }
        for loader in &fault.loaders {
            let left = self.left(|other| other.loaders.contains(loader));
            self.loaders[*loader].kernel_pace = left;
        }
    }

    /// What all faults that are there now leave of something that some of them slow.
    fn left(&self, slows: impl Fn(&FaultRun) -> bool) -> f64 {
        self.faults.iter().filter(|of| of.active && slows(of)).map(|of| of.factor).product()
    }
}

fn times(capacity: &Capacity, factor: f64) -> Capacity {
    match capacity {
        Capacity::Fixed(rate) => Capacity::Fixed(rate * factor),
        Capacity::ByFlows(table) => Capacity::ByFlows(table.iter().map(|c| c * factor).collect()),
    }
}
