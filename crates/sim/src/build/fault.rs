//! The components that each fault slows, found among the resources.

use crate::fault::FaultRun;
use crate::index::DeviceId;
use crate::resource::{Member, Resource};
use forebay_engine::Time;
use forebay_scenario::{Device as Processor, Fault, Faulty, Job};
use std::collections::BTreeMap;

use super::Builder;

impl Builder<'_> {
    /// Returns all faults in their initial state: none has begun.
    pub(super) fn faults(&self) -> Vec<FaultRun> {
        self.scenario.faults.iter().map(|fault| self.fault(fault)).collect()
    }

    fn fault(&self, fault: &Fault) -> FaultRun {
        let mut run = FaultRun {
            from: Time::from_seconds(fault.from),
            until: Time::from_seconds(fault.until),
            factor: fault.factor,
            links: Vec::new(),
            stations: Vec::new(),
            devices: Vec::new(),
            active: false,
        };
        let storages = &self.scenario.storage;
        let slows = |resource: &&Resource| fault.what.slows(&resource.name, storages);
        for resource in self.resources.iter().filter(slows) {
            for ((member, _), node) in resource.members.iter().zip(&resource.nodes) {
                if fault.nodes.is_empty() || fault.nodes.contains(node) {
                    self.add(&mut run, *member);
                }
            }
        }
        if fault.what == Faulty::Gpus {
            run.devices = self.on_gpus_of(fault);
        }
        run
    }

    fn add(&self, run: &mut FaultRun, member: Member) {
        match member {
            Member::Link(link) => run.links.push((link, self.env.network.capacity(link).clone())),
            Member::Station(station) => {
                run.stations.push((station, self.env.stations[station].service));
            }
            // Faults do not change request limits, measured tables and disk heads.
            Member::Limiter(_) | Member::Table(_) | Member::DiskHead(_) => {}
        }
    }

    /// Returns the accelerators that the GPUs of a fault are, or are a part of.
    fn on_gpus_of(&self, fault: &Fault) -> Vec<DeviceId> {
        let is_on = |device: DeviceId| {
            let node = self.places.nodes[device];
            let of_node = |node: u32| fault.nodes.is_empty() || fault.nodes.contains(&node);
            match self.places.gpus.get(&device).filter(|_| !fault.gpus.is_empty()) {
                None => of_node(node),
                Some(all) => {
                    all.iter().any(|(node, gpu)| of_node(*node) && fault.gpus.contains(gpu))
                }
            }
        };
        let devices = self.parts.devices.iter().zip(self.parts.devices.ids());
        let slowed = devices.filter(|(device, number)| {
            let job = &self.scenario.jobs[self.parts.jobs[device.job].job];
            job.device == Processor::Accelerator && is_on(*number)
        });
        slowed.map(|(_, number)| number).collect()
    }

    /// Records which GPUs of which nodes the devices of a job copy, from `first` on, are, if a fault names single GPUs; the copy
    /// is on nodes from `begin` on.
    pub(super) fn note_gpus(&mut self, job: &Job, (begin, first): (u32, DeviceId)) {
        if self.scenario.faults.iter().all(|fault| fault.gpus.is_empty()) {
            return;
        }
        let mut next = BTreeMap::<u32, u64>::new();
        // GPUs of a job copy are numbered node by node.
        let places: Vec<(u32, u64)> = job
            .nodes_of_gpus()
            .into_iter()
            .map(|node| {
                let place = next.entry(node).or_default();
                *place += 1;
                (begin + node, *place - 1)
            })
            .collect();
        let of_job = self.node;
        for d in self.parts.devices.ids_from(first) {
            let device = &self.parts.devices[d];
            let group = job.stage_group(device.model % job.ranks(), device.stage);
            let mut all = Vec::new();
            for (node, place) in group.gpus().filter_map(|gpu| places.get(gpu as usize)) {
                self.node = *node;
                all.push((*node, self.gpu_at(*place)));
            }
            self.places.gpus.insert(d, all);
        }
        self.node = of_job;
    }
}
