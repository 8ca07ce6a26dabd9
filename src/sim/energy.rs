//! What the nodes draw, from what was at work on them for how long.

use crate::engine::Time;
use crate::report::EnergyOutcome;
use crate::scenario::{Power, Scenario};

use super::device::State;
use super::world::World;

impl World<'_> {
    /// The energy of all nodes up to `now`; `None` where it is not said what one of them draws.
    pub(super) fn energy(&mut self, scenario: &Scenario, now: Time) -> Option<EnergyOutcome> {
        let cluster = &scenario.cluster;
        let power = |node: u32| cluster.node_at(node).power;
        let (seconds, mut idle) = (now.seconds(), 0.0);
        for alike in cluster.alike(0..cluster.nodes) {
            idle += alike.len() as f64 * power(alike.start)?.idle * seconds;
        }
        let of = |node: u32, part: fn(Power) -> f64| power(node).map_or(0.0, part);
        let mut gpus = 0.0;
        for d in 0..self.devices.len() as u32 {
            gpus += of(self.device_nodes[d as usize], |power| power.gpu) * self.gpu_seconds(now, d);
        }
        gpus += self.served_by_node(now, "node.gpu", |node| of(node, |power| power.gpu));
        let cores = self.served_by_node(now, "node.cores", |node| of(node, |power| power.core));
        Some(EnergyOutcome { seconds, idle, gpus, cores })
    }

    /// Time that a GPU computed as device `d` up to `now`, unless it is one that its loader uses too [s].
    fn gpu_seconds(&self, now: Time, d: u32) -> f64 {
        let device = &self.devices[d as usize];
        let shared = device.stage == 0 && !self.loaders[device.loader as usize].gpus.is_empty();
        if shared || self.jobs[device.job as usize].threads.is_some() {
            return 0.0;
        }
        let open =
            if device.state == State::Busy { now.since(device.since).seconds() } else { 0.0 };
        device.busy + open
    }

    /// What all like resources of this name have served up to `now`, each times what its node says.
    fn served_by_node(&mut self, now: Time, name: &str, weight: impl Fn(u32) -> f64) -> f64 {
        let found = self.resources.iter().position(|resource| resource.name == name);
        let Some(resource) = found.map(|index| &self.resources[index]) else { return 0.0 };
        let members: Vec<_> = resource.members.iter().copied().zip(&resource.nodes).collect();
        let capacity = resource.capacity;
        let members: Vec<_> = members.into_iter().map(|(member, node)| (member, *node)).collect();
        let served = members
            .into_iter()
            .map(|(member, node)| weight(node) * self.use_of(now, member, capacity).served);
        served.sum()
    }
}
