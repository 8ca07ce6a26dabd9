//! Faults: links, stations and GPUs that are slower than normal for a while.

use std::collections::{BTreeMap, BTreeSet};

use forebay_engine::Time;
use forebay_engine::fluid::{Capacity, LinkId};

use super::Env;
use super::event::{Delay, Event, Notice};
use crate::ids::{DeviceId, FaultId, IdVec, StationId, TokenBucketId};

/// A fault, and the components that it slows.
#[derive(Debug)]
pub(crate) struct FaultRun {
    pub(crate) from: Time,
    pub(crate) until: Time,
    pub(crate) factor: f64,
    /// Links that the fault slows, each with its capacity without faults.
    pub(crate) links: Vec<(LinkId, Capacity)>,
    /// Token buckets whose links the fault slows; their owner changes the links' capacities.
    pub(crate) buckets: Vec<TokenBucketId>,
    /// Stations that the fault slows, each with its service time without faults.
    pub(crate) stations: Vec<(StationId, Delay)>,
    /// GPUs that the fault slows, and devices with at least one of them.
    pub(crate) gpus: BTreeSet<GpuPlace>,
    pub(crate) devices: Vec<DeviceId>,
    pub(crate) active: bool,
}

/// Number of a GPU's node, and number of the GPU on that node.
pub(crate) type GpuPlace = (u32, u32);

/// A GPU of a device.
#[derive(Debug)]
pub(crate) struct DeviceGpu {
    pub(crate) place: GpuPlace,
    /// Speed of the GPU relative to the device's slowest GPU, both without faults.
    pub(crate) lead: f64,
}

/// The owner of all faults.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) all: IdVec<FaultId, FaultRun>,
    /// The GPUs of each device, if a fault slows GPUs.
    pub(crate) gpus: BTreeMap<DeviceId, Vec<DeviceGpu>>,
}

impl Faults {
    /// Schedules the begin and the end of each fault.
    pub(crate) fn begin(&self, env: &mut Env) {
        for (fault, f) in self.all.iter().zip(self.all.ids()) {
            for at in [fault.from, fault.until].into_iter().filter(|at| *at != Time::NEVER) {
                env.calendar.schedule(at, Event::Turned(f));
            }
        }
    }

    /// Returns whether all temporary faults are over and all permanent ones have begun.
    pub(crate) fn have_turned(&self, now: Time) -> bool {
        let turned =
            |fault: &FaultRun| if fault.until == Time::NEVER { fault.from } else { fault.until };
        self.all.iter().all(|fault| turned(fault) <= now)
    }

    /// Begins or ends fault `f`.
    #[cold]
    pub(crate) fn turn(&mut self, env: &mut Env, f: FaultId) {
        self.all[f].active ^= true;
        let fault = &self.all[f];
        for (link, capacity) in &fault.links {
            let left = self.left(|other| other.links.iter().any(|(of, _)| of == link));
            env.network.set_capacity(env.now, *link, times(capacity, left));
        }
        for bucket in &fault.buckets {
            let pace = self.left(|other| other.buckets.contains(bucket));
            env.set_bucket_pace(*bucket, pace);
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
