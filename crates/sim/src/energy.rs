//! Energy of the nodes, from their power draw and the busy time of their GPUs and cores.

use forebay_engine::Time;
use forebay_report::{EnergyOutcome, Part, Resource};
use forebay_scenario::{Job, Power, Scenario, ServerPlace};

use super::device::State;
use super::env::Env;
use super::ids::DeviceId;
use super::jobs::Jobs;
use super::resource::Resources;

impl Resources {
    /// Returns the energy that all nodes have used until now; `None` if the power of any node is not set. Nodes of parameter
    /// servers count too, with the power settings of the first node.
    pub(super) fn energy(
        &self,
        env: &mut Env,
        jobs: &Jobs,
        scenario: &Scenario,
    ) -> Option<EnergyOutcome> {
        let cluster = &scenario.cluster;
        let power = |node: u32| cluster.node_at(node).power;
        let (seconds, mut idle) = (env.now.seconds(), 0.0);
        for alike in cluster.alike(0..cluster.nodes) {
            idle += alike.len() as f64 * power(alike.start)?.idle * seconds;
        }
        let server = power(0)?;
        idle += own_servers(scenario) * server.idle * seconds;
        let of = |node: u32, part: fn(Power) -> f64| power(node).map_or(0.0, part);
        let mut gpus = 0.0;
        for d in jobs.devices.ids() {
            let job = &scenario.jobs[jobs.jobs[jobs.devices[d].job].job];
            let seconds = f64::from(job.ranks_of_stage()) * jobs.gpu_seconds(env.now, d);
            gpus += of(self.device_nodes[d], |power| power.gpu) * seconds;
        }
        let shared = Resource::node(Part::Gpu);
        gpus += self.served_by_node(env, shared, |node| of(node, |power| power.gpu));
        let on_nodes = Resource::node(Part::Cores);
        let mut cores = self.served_by_node(env, on_nodes, |node| of(node, |power| power.core));
        cores += self.served_by_node(env, Resource::server(Part::Cores), |_| server.core);
        Some(EnergyOutcome { seconds, idle, gpus, cores })
    }
}

impl Jobs {
    /// Returns the time that a GPU has computed as device `d` up to `now` [s]; if the device consists of several GPUs, the time
    /// for each of them. If several learners share the GPU, excludes the time that is simulated as flows on the GPU.
    fn gpu_seconds(&self, now: Time, d: DeviceId) -> f64 {
        let device = &self.devices[d];
        if self.jobs[device.job].plan.threads.is_some() {
            return 0.0;
        }
        if !self.loaders[device.loader].gpus.shared.is_empty() {
            return device.times.updated;
        }
        let open =
            if device.state == State::Busy { now.since(device.since).seconds() } else { 0.0 };
        device.times.busy + device.times.updated + open
    }
}

/// Returns the number of nodes that only serve as parameter servers of job copies, in addition to the cluster's nodes.
fn own_servers(scenario: &Scenario) -> f64 {
    let of = |job: &Job| {
        let own = job.servers().filter(|of| matches!(of.place, ServerPlace::Own { .. }));
        own.map_or(0.0, |of| f64::from(job.copies) * f64::from(of.number()))
    };
    scenario.jobs.iter().map(of).sum()
}
