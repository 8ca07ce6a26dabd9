//! Gradients and the ranks that add them up.

use super::Job;
use super::model::ModelSettings;
use super::rules::Rules;
use crate::collective::{Fabric, Generation};
use crate::law::TransportLaw;
use crate::scenario::sync::Gradient;
use crate::scenario::{Cluster, IntraKind};

/// Most messages of a step that is followed transfer by transfer.
const MOST_MESSAGES: f64 = 2e8;

impl Job {
    /// The ranks of a job copy as libraries see them, on a cluster of equal nodes.
    #[must_use]
    pub fn fabric(&self, cluster: &Cluster) -> Fabric {
        Fabric {
            ranks: self.ranks(),
            ranks_per_node: self.copies_per_node,
            unequal: self.copies_each.clone(),
            intra: cluster.node.intra.least(),
            inter: cluster.nic * f64::from(cluster.node.nics),
            nvlink: matches!(cluster.node.intra.kind, IntraKind::Switch | IntraKind::Ring),
            in_switch: false,
            generation: Generation::Volta,
            channels: 1,
        }
    }
}

impl ModelSettings {
    /// Its gradients in 32 bits, where its layers are known: there after the backward pass of their layer, which takes
    /// a share of the step by its arithmetic, as does the forward pass up to there.
    pub(super) fn gradients(&self) -> Vec<Gradient> {
        let Some(model) = self.known() else { return Vec::new() };
        let total = (model.flops() + model.backward_flops()) as f64;
        let (mut done, mut ahead) = (model.flops(), model.flops());
        let gradients = model.layers.iter().rev().map(|layer| {
            done += layer.backward_flops();
            ahead -= layer.flops;
            // What has no arithmetic of its own scales and shifts.
            let tensors = if layer.flops == 0 { 2 } else { 1 };
            let (bytes, ready) = (4.0 * layer.parameters as f64, done as f64 / total);
            Gradient { bytes, tensors, ready, needed: ahead as f64 / total }
        });
        gradients.filter(|gradient| gradient.bytes > 0.0).collect()
    }
}

impl Rules<'_> {
    /// Links that are slower than what was measured hold it up.
    fn remark_links(&self, job: &Job, cluster: &Cluster, law: &TransportLaw) {
        let share = 2.0 * (1.0 - 1.0 / f64::from(job.ranks()));
        let least = law.ranges().iter().map(|range| range.beta + range.gamma);
        let rate = share / least.fold(f64::INFINITY, f64::min);
        let links = [
            ("cluster.network.nic", cluster.nic, job.nodes > 1),
            ("cluster.node.intra", cluster.node.intra.bandwidth, job.copies_per_node > 1),
        ];
        for (key, _, _) in links.into_iter().filter(|(_, link, used)| *used && *link < rate) {
            self.check.remark(format!(
                "`{key}` is slower than what the profile measured of `{}`'s collectives: they take longer.",
                job.name
            ));
        }
    }

    /// Gradients can be added up as is written.
    pub(super) fn check_sync(&self, job: &Job, cluster: &Cluster) {
        let Some(sync) = &job.sync else { return };
        let at = self.check.blame(&[self.settings.sync_at()], self.at);
        if job.pipeline.is_some() {
            let what = "gradients of a model that is split over stages are not simulated";
            self.check.wrong(at, what, "leave out `sync`, or `parallel.pipeline`");
        }
        if job.ranks() < 2 {
            let what = format!("`{}` has one model copy", job.name);
            self.check.remark(format!(
                "`sync` has no effect: {what}, whose gradients stay where they are."
            ));
            return;
        }
        if let Some(law) = &sync.measured {
            return self.remark_links(job, cluster, law);
        }
        let fabric = job.fabric(cluster);
        let mut messages = 0.0;
        for (operation, way, bytes) in sync.sent() {
            match way.collective(operation, bytes, &fabric).schedule() {
                Ok(schedule) => messages += schedule.phases() as f64 * f64::from(fabric.ranks),
                Err(error) => {
                    let remedy = "write `algorithm = \"ring\"`, or other nodes and copies";
                    return self.check.wrong(at, error.to_string(), remedy);
                }
            }
        }
        let followed = sync.fidelity == crate::scenario::Fidelity::Flow;
        if followed && messages > MOST_MESSAGES {
            let what =
                format!("a step takes {messages:.1e} transfers among {} ranks", fabric.ranks);
            self.check.wrong(at, what, "write `fidelity = \"analytic\"`, larger buckets or chunks");
        }
    }
}
