//! The trainers of a job copy's GPUs, on the cores of their nodes.

use std::collections::BTreeMap;

use forebay_scenario::Device as Processor;

use super::Builder;
use super::cores::OnCores;
use super::job::JobCopy;
use crate::ids::{DeviceId, IdVec, Ids, RankId, TrainerId};
use crate::launch::{Launching, Trainer};

impl Builder<'_> {
    /// Adds the trainers of all GPUs of a job copy if they use cores, and returns them. The job copy is on nodes from `begin` on
    /// and has devices from `first` on; `loaders` holds, for each of its loaders, the node and how threads get cores there. The
    /// trainers that work for the same loader on the same node have the interpreter's lock in common.
    pub(super) fn trainers(
        &mut self,
        of: &JobCopy,
        (begin, first): (u32, DeviceId),
        loaders: &[(u32, OnCores)],
    ) -> Ids<TrainerId> {
        let (job, all) = (of.job, self.parts.trainers.next_id());
        if job.launch.is_none() && job.device == Processor::Accelerator {
            return self.parts.trainers.ids_from(all);
        }
        let nodes: IdVec<RankId, u32> = job.nodes_of_gpus().into_iter().collect();
        let mut known = BTreeMap::new();
        for (number, (node, on_node)) in (0..).zip(loaders) {
            known.insert((number, *node), on_node.of_trainers(self, job));
        }
        let fed_by = job.copies_per_loader();
        for d in self.parts.devices.ids_from(first) {
            let device = &self.parts.devices[d];
            let (gpu, model, stage) = (device.model % job.ranks(), device.model, device.stage);
            let own = self.parts.trainers.next_id();
            // Further learners have trainers of their own on the same GPUs.
            let (gpus, numbers) = (job.stage_group(gpu, stage), job.stage_group(model, stage));
            for (place, number) in gpus.gpus().zip(numbers.gpus()) {
                let node = begin + nodes[RankId::new(place)];
                let cores = *known.entry((gpu / fed_by, node)).or_insert_with(|| {
                    self.node = node;
                    self.on_cores(of, false).of_trainers(self, job)
                });
                self.parts.trainers.push(Trainer { device: d, number, cores });
            }
            let launching = Launching::of(self.parts.trainers.ids_from(own));
            self.parts.devices[d].launching = Some(Box::new(launching));
        }
        self.parts.trainers.ids_from(all)
    }
}
