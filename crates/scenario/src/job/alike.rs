//! Checks of job copies on different kinds of nodes: values that are found once, from the nodes of the first copy, must
//! hold for all copies.

use super::Job;
use super::copies::CopiesSettings;
use super::rules::Rules;
use super::settings::Around;
use crate::Cluster;
use crate::sync::Sync;
use std::ops::Range;

const REMEDY: &str = "write a job for each kind of node";

impl Rules<'_> {
    /// Checks that values found from the nodes of the first copy are the same for the nodes of the other copies.
    pub(super) fn check_alike(&self, job: &Job, cluster: &Cluster) {
        self.check_cores(job, cluster);
        let nodes = self.nodes(job);
        if nodes.len() <= job.nodes as usize || cluster.alike(nodes).len() < 2 {
            return;
        }
        self.check_numbers(job);
        if let Some(sync) = &job.sync {
            self.check_latencies(job, cluster, sync);
            self.check_cycles(job, cluster, sync);
        }
    }

    /// Checks that all nodes of the job have the same number of cores if the number of parallel calls of a loader stage
    /// is "auto". The number that "auto" chooses is at most the number of cores.
    fn check_cores(&self, job: &Job, cluster: &Cluster) {
        let alike = cluster.alike(self.nodes(job)).into_iter();
        let mut cores = alike.map(|alike| cluster.node_at(alike.start).cores);
        let first = cores.next();
        if job.loader.stages.iter().any(|stage| stage.tuned)
            && let Some(other) = cores.find(|other| Some(*other) != first)
        {
            let at = self.check.blame(&[self.settings.loader.at], self.at);
            let what = format!(
                "\"auto\" allows one call for each core of a node, but nodes of this job have {} and {other} cores",
                first.unwrap_or(0)
            );
            self.check.wrong(at, what, "write the number of parallel calls instead of \"auto\", or a separate job for each kind of node");
        }
    }

    /// Checks that all job copies have the same numbers of model copies on their nodes, if these follow from the nodes'
    /// GPUs.
    fn check_numbers(&self, job: &Job) {
        let Some((at, CopiesSettings::Gpus)) = self.settings.copies_at() else { return };
        let copies = |first_node| self.settings.copies(Around { first_node, ..self.around });
        if self.differs(job, |nodes| copies(nodes.start)) {
            let what = "copies of this job are on nodes with different numbers of GPUs";
            self.check.wrong(at, what, REMEDY);
        }
    }

    /// Checks that the latency of transfers inside nodes is the same for all job copies, if it is taken from the nodes.
    fn check_latencies(&self, job: &Job, cluster: &Cluster, sync: &Sync) {
        let of = |nodes| cluster.weakest(nodes).node.intra.latency;
        let own = of(self.nodes_of_copy(job, self.around.first_node));
        let used = job.copies_per_node > 1 && sync.measured.is_none();
        if used && sync.transport.latency_inside == own && self.differs(job, of) {
            let at = self.check.blame(&[self.settings.sync_at()], self.at);
            let what = "copies of this job are on nodes with different latencies inside the node";
            self.check.wrong(at, what, REMEDY);
        }
    }

    /// Checks that a step takes equally long in all job copies if gradients are fused, because fusion cycles are given
    /// as shares of a step.
    fn check_cycles(&self, job: &Job, cluster: &Cluster, sync: &Sync) {
        let fused = sync.buffer > 0;
        if fused && self.differs(job, |nodes| cluster.slowest(nodes, job.peak)) {
            let at = self.check.blame(&[self.settings.sync_at()], self.at);
            let what =
                "copies of this job have different step times, and so different cycles of `fusion`";
            self.check.wrong(at, what, REMEDY);
        }
    }

    /// Returns whether `of` gives another value for the nodes of some copy than for the nodes of the first copy.
    fn differs<T: PartialEq>(&self, job: &Job, of: impl Fn(Range<u32>) -> T) -> bool {
        let starts = self.nodes(job).step_by(job.nodes as usize);
        let mut found = starts.map(|start| of(self.nodes_of_copy(job, start)));
        let first = found.next();
        found.any(|other| Some(other) != first)
    }

    /// Returns the nodes of the job copy that begins at node `start`.
    fn nodes_of_copy(&self, job: &Job, start: u32) -> Range<u32> {
        start..start.saturating_add(job.nodes)
    }
}
