//! Faults: links, stations and GPUs that are slower than normal for a while.

use std::collections::{BTreeMap, BTreeSet};

use forebay_engine::Time;
use forebay_engine::fluid::{Capacity, LinkId};

use super::env::Env;
use super::event::{Delay, Event};
use super::ids::{DeviceId, FaultId, IdVec, StationId};
use super::notice::Notice;

/// A fault, and the components that it slows.
#[derive(Debug)]
pub(super) struct FaultRun {
    pub(super) from: Time,
    pub(super) until: Time,
    pub(super) factor: f64,
    /// Links that the fault slows, each with its capacity without faults.
    pub(super) links: Vec<(LinkId, Capacity)>,
    /// Stations that the fault slows, each with its service time without faults.
    pub(super) stations: Vec<(StationId, Delay)>,
    /// GPUs that the fault slows, and devices with at least one of them.
    pub(super) gpus: BTreeSet<GpuPlace>,
    pub(super) devices: Vec<DeviceId>,
    pub(super) active: bool,
}

/// Number of a GPU's node, and number of the GPU on that node.
pub(super) type GpuPlace = (u32, u32);

/// A GPU of a device.
#[derive(Debug)]
pub(super) struct DeviceGpu {
    pub(super) place: GpuPlace,
    /// Speed of the GPU relative to the device's slowest GPU, both without faults.
    pub(super) lead: f64,
}

/// The owner of all faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) all: IdVec<FaultId, FaultRun>,
    /// The GPUs of each device, if a fault slows GPUs.
    pub(super) gpus: BTreeMap<DeviceId, Vec<DeviceGpu>>,
}

impl Faults {
    /// Schedules the begin and the end of each fault.
    pub(super) fn begin(&self, env: &mut Env) {
        for (fault, f) in self.all.iter().zip(self.all.ids()) {
            for at in [fault.from, fault.until].into_iter().filter(|at| *at != Time::NEVER) {
                env.calendar.schedule(at, Event::Turned(f));
            }
        }
    }

    /// Returns whether all temporary faults are over and all permanent ones have begun.
    pub(super) fn have_turned(&self, now: Time) -> bool {
        let turned =
            |fault: &FaultRun| if fault.until == Time::NEVER { fault.from } else { fault.until };
        self.all.iter().all(|fault| turned(fault) <= now)
    }

    /// Begins or ends fault `f`.
    #[cold]
    pub(super) fn turn(&mut self, env: &mut Env, f: FaultId) {
        self.all[f].active ^= true;
        let fault = &self.all[f];
        for (link, capacity) in &fault.links {
            let left = self.left(|other| other.links.iter().any(|(of, _)| of == link));
            env.network.set_capacity(env.now, *link, times(capacity, left));
        }
        for (station, service) in &fault.stations {
            let left = self.left(|other| other.stations.iter().any(|(of, _)| of == station));
            env.stations[*station].service = match left < 1.0 {
                true => Delay::once(service.span.seconds() / left),
                false => *service,
            };
        }
        for device in &fault.devices {
            // The device's GPUs make each step together, so the slowest one determines its time.
            let pace_of =
                |gpu: &DeviceGpu| gpu.lead * self.left(|other| other.gpus.contains(&gpu.place));
            let pace = self.gpus[device].iter().map(pace_of).fold(f64::INFINITY, f64::min);
            env.notices.push_back(Notice::DevicePace { device: *device, pace });
        }
    }

    /// Returns the relative speed of a component under all active faults; `slows` returns whether a fault slows the component.
    fn left(&self, slows: impl Fn(&FaultRun) -> bool) -> f64 {
        self.all.iter().filter(|of| of.active && slows(of)).map(|of| of.factor).product()
    }
}

fn times(capacity: &Capacity, factor: f64) -> Capacity {
    match capacity {
        Capacity::Fixed(rate) => Capacity::Fixed(rate * factor),
        Capacity::ByFlows(table) => Capacity::ByFlows(table.iter().map(|c| c * factor).collect()),
    }
}
