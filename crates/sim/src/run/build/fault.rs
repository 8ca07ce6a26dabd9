//! The components that each fault slows, found among the resources and the devices.

use std::collections::{BTreeMap, BTreeSet};

use forebay_engine::Time;
use forebay_scenario::{Device as Processor, Fault, Faulty, Job};

use super::Builder;
use crate::env::{DeviceGpu, FaultRun, GpuPlace};
use crate::ids::DeviceId;
use crate::run::resource::{Member, ResourceRun};

impl Builder<'_> {
    /// Returns all faults in their initial state: none has begun.
    pub(in crate::run) fn faults(&self) -> Vec<FaultRun> {
        self.scenario.faults.iter().map(|fault| self.fault(fault)).collect()
    }

    fn fault(&self, fault: &Fault) -> FaultRun {
        let mut run = FaultRun {
            from: Time::from_seconds(fault.from),
            until: Time::from_seconds(fault.until),
            factor: fault.factor,
            links: Vec::new(),
            buckets: Vec::new(),
            stations: Vec::new(),
            gpus: BTreeSet::new(),
            devices: Vec::new(),
            active: false,
        };
        let slow = |resource: &&ResourceRun| resource.of.is_slowed_by(fault.what);
        for resource in self.resources.iter().filter(slow) {
            for ((member, _), node) in resource.members.iter().zip(&resource.nodes) {
                if fault.nodes.is_empty() || fault.nodes.contains(node) {
                    self.add(&mut run, *member);
                }
            }
        }
        if fault.what == Faulty::Gpus {
            self.add_gpus(&mut run, fault);
        }
        run
    }

    fn add(&self, run: &mut FaultRun, member: Member) {
        match member {
            Member::Link(link) => match self.env.bucket_of(link) {
                Some(bucket) => run.buckets.push(bucket),
                None => run.links.push((link, self.env.network.capacity(link).clone())),
            },
            Member::Station(station) => {
                run.stations.push((station, self.env.stations[station].service));
            }
            // Faults do not change request limits, measured tables and disk heads.
            Member::Limiter(_) | Member::Table(_) | Member::DiskHead(_) => {}
        }
    }

    /// Adds the GPUs that a fault slows, and the devices with at least one of them.
    fn add_gpus(&self, run: &mut FaultRun, fault: &Fault) {
        let is_slow = |(node, gpu): &GpuPlace| {
            (fault.nodes.is_empty() || fault.nodes.contains(node))
                && (fault.gpus.is_empty() || fault.gpus.contains(gpu))
        };
        for (device, gpus) in &self.places.gpus {
            let slow: Vec<GpuPlace> = gpus.iter().map(|gpu| gpu.place).filter(is_slow).collect();
            if !slow.is_empty() {
                run.devices.push(*device);
            }
            run.gpus.extend(slow);
        }
    }

    /// Records node and number of each device's GPUs, if a fault slows GPUs. The job copy's devices begin at `first`, its nodes at
    /// `begin`.
    pub(in crate::run) fn note_gpus(&mut self, job: &Job, (begin, first): (u32, DeviceId)) {
        let slows_gpus = self.scenario.faults.iter().any(|fault| fault.what == Faulty::Gpus);
        if !slows_gpus || job.device != Processor::Accelerator {
            return;
        }
        let mut next = BTreeMap::<u32, u64>::new();
        // Node of each GPU of the job copy, and the GPU's number among the job copy's GPUs there, which are numbered node by node.
        let places: Vec<(u32, u64)> = job
            .nodes_of_gpus()
            .into_iter()
            .map(|node| {
                let place = next.entry(node).or_default();
                *place += 1;
                (begin + node, *place - 1)
            })
            .collect();
        for d in self.parts.devices.ids_from(first) {
            let device = &self.parts.devices[d];
            let group = job.stage_group(device.model % job.ranks(), device.stage);
            let own: Vec<(u32, u64)> =
                group.gpus().filter_map(|gpu| places.get(gpu as usize).copied()).collect();
            let slowness = |(node, _): &(u32, u64)| self.slowness(job, *node);
            let slowest = own.iter().map(slowness).fold(0.0, f64::max);
            let gpus = own.iter().map(|of @ (node, place)| DeviceGpu {
                place: (*node, self.gpu_at(*node, *place)),
                lead: slowest / slowness(of),
            });
            let gpus = gpus.collect();
            self.places.gpus.insert(d, gpus);
        }
    }
}
