//! The components that each fault slows, found among the resources.

use crate::fault::FaultRun;
use crate::index::DeviceId;
use crate::resource::{Member, Resource};
use forebay_engine::Time;
use forebay_scenario::{Device as Processor, Fault, Faulty};

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
            loaders: Vec::new(),
            active: false,
        };
        for resource in self.resources.iter().filter(|resource| self.slows(fault.what, resource)) {
            for ((member, _), node) in resource.members.iter().zip(&resource.nodes) {
                if fault.nodes.is_empty() || fault.nodes.contains(node) {
                    self.add(&mut run, *member);
                }
            }
        }
        if fault.what == Faulty::Gpus {
            run.devices = self.gpus_of(&fault.nodes);
            let loader = |device: &DeviceId| self.parts.devices[*device].loader;
            run.loaders = run.devices.iter().map(loader).collect();
            run.loaders.dedup();
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

    fn slows(&self, what: Faulty, resource: &Resource) -> bool {
        let name = resource.name.as_str();
        match what {
            Faulty::Storage(index) => {
                let parts = ["bandwidth", "operations", "target", "write_bandwidth"];
                let own = name.strip_prefix(self.scenario.storage[index].name.as_str());
                own.and_then(|part| part.strip_prefix('.')).is_some_and(|p| parts.contains(&p))
            }
            Faulty::Link(link) => link.resources().contains(&name),
            Faulty::Cores => name == "node.cores",
            // Faults lengthen the kernels instead: a link with less capacity would not slow kernels that fill only a part of
            // the GPU.
            Faulty::Gpus => false,
        }
    }

    /// Returns the accelerators on these nodes, or all accelerators if `nodes` is empty.
    fn gpus_of(&self, nodes: &[u32]) -> Vec<DeviceId> {
        let devices =
            self.parts.devices.iter().zip(self.parts.devices.ids()).zip(&self.device_nodes);
        let slowed = devices.filter(|((device, _), node)| {
            let job = &self.scenario.jobs[self.parts.jobs[device.job].job];
            let accelerator = job.device == Processor::Accelerator;
            accelerator && (nodes.is_empty() || nodes.contains(node))
        });
        slowed.map(|((_, number), _)| number).collect()
    }
}
