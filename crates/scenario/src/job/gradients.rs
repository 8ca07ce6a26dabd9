//! Gradients and the ranks that add them up.

use super::model::ModelSettings;
use super::rules::Rules;
use super::{CountedBatch, Job};
use crate::sync::Gradient;
use crate::{BucketShare, Cluster, Fidelity, IntraKind, Servers, Sync};
use forebay_collective::{Fabric, Generation, Invalid};
use forebay_model::law::TransportLaw;

/// Maximum number of transfers in a step that is simulated transfer by transfer.
const MOST_MESSAGES: f64 = 2e8;
/// Maximum of the product of two numbers: the bucket parts on all parameter servers, and the model copies. The simulator keeps a
/// count for each pair of a part and a model copy.
const MOST_PARTS: f64 = 1e7;

impl Job {
    /// Returns the parameter servers to which the job's model copies push gradients or parameters, if any.
    #[must_use]
    pub fn servers(&self) -> Option<&Servers> {
        self.sync.as_ref()?.servers.as_ref()
    }

    /// Returns whether the time of some collective of the job is computed for an idle network. The simulator then adds no traffic of this
    /// collective to the links.
    #[must_use]
    pub fn has_analytic_collectives(&self) -> bool {
        let gradients = self.sync.as_ref().filter(|sync| sync.servers.is_none());
        let of = self.parallelism.as_ref();
        let inside = [
            of.and_then(|of| Some(of.tensor.as_ref()?.method)),
            of.and_then(|of| Some(of.context.as_ref()?.method)),
            of.and_then(|of| Some(of.expert.as_ref()?.method)),
        ];
        let inside = inside.into_iter().flatten().map(|method| method.fidelity);
        inside.chain(gradients.map(|sync| sync.fidelity)).any(|of| of == Fidelity::Analytic)
    }

    /// Returns the number of steps from one exchange between the job's model copies to the next.
    #[must_use]
    pub fn interval(&self) -> u64 {
        let others = self.ranks() > 1 || self.sums_gradients();
        match &self.sync {
            Some(sync) if others || sync.servers.is_some() => sync.interval,
            // The ranks that split sequences sum gradients at each update.
            Some(_) if self.gradient_ranks() > 1 => self.accumulation,
            _ => 1,
        }
    }

    /// Returns whether model copies average parameters after some updates, instead of summing gradients before each one (local
    /// SGD).
    #[must_use]
    pub fn averages_parameters(&self) -> bool {
        self.interval() > self.accumulation
    }

    /// Returns whether model copies can be at different steps at the same time, because they exchange only every few
    /// steps, or with servers.
    #[must_use]
    pub fn ranks_may_diverge(&self) -> bool {
        self.interval() > 1 || self.servers().is_some()
    }

    /// Returns whether some model copies may have done more steps than others when the job ends.
    #[must_use]
    pub fn is_uneven(&self) -> bool {
        self.servers().is_some_and(|servers| !servers.is_synchronous())
    }

    /// Returns the topology of a job copy's ranks as collective libraries see it, on a cluster of equal nodes.
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
            channels: if self.nodes > 1 { self.copies_per_node.min(cluster.node.nics) } else { 1 },
        }
    }
}

impl ModelSettings {
    /// Returns the gradients of each layer in 32 bits, last layer first; empty if the model's layers are not known. A layer's
    /// gradients are ready after its backward pass, and its parameters are needed when the next forward pass reaches the layer.
    /// Both times are given as shares of a step, in proportion to FLOPs.
    pub(super) fn gradients(&self) -> Vec<Gradient> {
        let Some(model) = self.known() else { return Vec::new() };
        let total = (model.flops() + model.backward_flops()) as f64;
        let (mut done, mut ahead) = (model.flops(), model.flops());
        let gradients = model.layers.iter().rev().map(|layer| {
            done += layer.backward_flops();
            ahead -= layer.flops;
            // A layer that is counted without FLOPs is a normalisation: its two tensors are scale and shift.
            let tensors = if layer.flops == 0 { 2 } else { 1 };
            let (bytes, ready) = (4.0 * layer.parameters as f64, done as f64 / total);
            Gradient { bytes, tensors, ready, needed: ahead as f64 / total }
        });
        gradients.filter(|gradient| gradient.bytes > 0.0).collect()
    }
}

/// Returns the advice in the error about an impossible collective.
pub(super) fn remedy(error: &Invalid) -> &'static str {
    match error {
        Invalid::Bytes(_) => "write fewer bytes, or a smaller `ratio` of `compression`",
        _ => "write `algorithm = \"ring\"`, or another number of nodes or copies",
    }
}

/// Returns the number of transfers of all collectives of a step among the ranks of `fabric`; an error if a collective
/// is impossible.
pub(super) fn transfers(sync: &Sync, fabric: &Fabric) -> Result<f64, Invalid> {
    if sync.measured.is_some() {
        return Ok(f64::from(fabric.ranks));
    }
    let mut sum = 0.0;
    for (operation, way, bytes) in sync.sent() {
        sum += way.collective(operation, bytes, fabric).most_transfers()?;
    }
    Ok(sum)
}

impl Rules<'_> {
    /// Remarks on each link that is too slow for a ring with the bus bandwidth that the profile measured: collectives then
    /// take longer than measured.
    fn remark_links(&self, job: &Job, cluster: &Cluster, (sync, law): (&Sync, &TransportLaw)) {
        if sync.fidelity == Fidelity::Analytic {
            return;
        }
        let share = 2.0 * (1.0 - 1.0 / f64::from(job.ranks()));
        let sizes = sync.buckets.iter().map(|bucket| bucket.bytes).chain([sync.most_together()]);
        let per_byte = |bytes: u64| law.parts(bytes as f64)[1] / (bytes as f64).max(1.0);
        // A size without time per byte does not use the links.
        let times = sizes.map(per_byte).filter(|time| *time > 0.0);
        let rate = times.map(|time| share / time).fold(0.0, f64::max);
        let links = self.on_ring(job, cluster, sync);
        for (key, _, _) in links.into_iter().filter(|(_, link, flows)| *link < rate * flows) {
            self.check.remark(format!(
                "`{key}` is slower than the links on which the profile's collectives were measured: the collectives of `{}` take longer than in the profile.",
                job.name
            ));
        }
    }

    /// Returns the links that a ring through all ranks uses: the key of the setting, the bandwidth [B/s], and how many
    /// of the ring's flows share the link.
    fn on_ring(&self, job: &Job, cluster: &Cluster, sync: &Sync) -> [(&'static str, f64, f64); 6] {
        let (intra, ranks) = (cluster.node.intra, job.copies_per_node);
        let one = |used: bool| if used { 1.0 } else { 0.0 };
        let across = job.nodes > 1;
        // A ring over several nodes enters and leaves each node; a ring inside one node is closed there.
        let flows = |places: u32| match places {
            1 => 0.0,
            _ => f64::from(places) - one(across),
        };
        let (inside, above) = (flows(ranks), flows(ranks.div_ceil(intra.tree.switch)));
        let inside = if intra.kind == IntraKind::Shared { inside } else { inside.min(1.0) };
        let uplink = cluster.racks.map_or(f64::INFINITY, |racks| racks.uplink);
        [
            ("cluster.network.nic", cluster.nic, one(across)),
            ("cluster.network.racks.uplink", uplink, one(self.leaves_rack(job, cluster))),
            ("cluster.node.pcie", cluster.node.pcie, one(across && sync.transport.via_host)),
            ("cluster.node.intra", intra.bandwidth, inside),
            ("cluster.node.intra.uplink", intra.tree.uplink, above.min(1.0)),
            ("cluster.node.intra.root", intra.tree.root, above),
        ]
    }

    /// Returns whether some copy of `job` has nodes in several racks.
    fn leaves_rack(&self, job: &Job, cluster: &Cluster) -> bool {
        let Some(racks) = cluster.racks else { return false };
        let mut first = self.nodes(job).step_by(job.nodes as usize);
        first.any(|first| first / racks.nodes != first.saturating_add(job.nodes - 1) / racks.nodes)
    }

    /// Checks that the parts of buckets at servers are few enough to be simulated, and remarks where `staleness` is not
    /// set although updates can be stale.
    fn check_servers(&self, job: &Job, servers: &Servers) {
        let used = |part: &&BucketShare| part.push.max(part.pull) > 0;
        let parts = servers.parts.iter().flatten().filter(used).count();
        let all = parts.max(servers.number() as usize) as f64 * f64::from(job.ranks());
        if all > MOST_PARTS {
            let at = self.check.blame(&[self.settings.sync_at()], self.at);
            let what = format!(
                "{} model copies exchange {parts} parts of buckets each: too many to simulate",
                job.ranks()
            );
            self.check.wrong(at, what, "write larger `buckets`, or fewer `servers`");
        }
        if let (Some(accuracy), true) = (self.settings.accuracy.get(), job.is_uneven())
            && !accuracy.says_staleness()
        {
            self.check.remark(format!(
                "`accuracy` of `{}` counts stale updates as fully useful: write `staleness = 0.02`, the relative increase of the number of epochs for each update that a model copy has missed.",
                job.name
            ));
        }
    }

    /// Remarks that `step_of` has no effect where batches are not cut into micro-batches.
    pub(super) fn remark_step_of(&self, job: &Job) {
        let cut = job.parallelism.as_ref().is_some_and(|of| of.micro_batches > 1);
        if let Some(model) = self.settings.model.get().filter(|_| !cut) {
            let why = "no batch is cut into micro-batches";
            self.check.no_effect(model.step_of.at, why);
        }
    }

    /// Remarks that `accumulation` has no effect where model copies exchange nothing, and the number of epochs does not
    /// depend on the batch.
    pub(super) fn remark_accumulation(&self, job: &Job) {
        let counts = job.accuracy.as_ref().is_some_and(|of| of.batch == CountedBatch::Global);
        if job.interval() == 1 && !counts {
            let why =
                "model copies exchange nothing, and `accuracy` does not depend on the global batch";
            self.check.no_effect(self.settings.accumulation.at, why);
        }
    }

    /// Checks that gradients can be exchanged as `sync` says, and remarks where `sync` has no effect.
    pub(super) fn check_sync(&self, job: &Job, cluster: &Cluster) {
        let Some(sync) = &job.sync else { return };
        let at = self.check.blame(&[self.settings.sync_at()], self.at);
        if job.pipeline.is_some() && job.parallelism.is_none() {
            let what = "without a `schedule` of micro-batches, stages have no backward passes after which `sync` could exchange gradients";
            let remedy = "write `schedule = \"1f1b\"` and `micro_batches = 8` in `parallel.pipeline`, or \
                          leave out `sync`, or `parallel.pipeline`";
            self.check.wrong(at, what, remedy);
        }
        if job.averaging().is_some() && job.ranks() < 2 {
            return;
        }
        if let Some(servers) = &sync.servers {
            return self.check_servers(job, servers);
        }
        if job.gradient_ranks() < 2 && job.sums_gradients() {
            return self.remark_sums(job);
        }
        if job.gradient_ranks() < 2 {
            let what = format!("`{}` has one model copy", job.name);
            self.check
                .remark(format!("`sync` has no effect: {what}, so no gradients are exchanged."));
            return;
        }
        if job.parallelism.is_some() {
            return;
        }
        if let Some(law) = &sync.measured {
            return self.remark_links(job, cluster, (sync, law));
        }
        let fabric = job.fabric(cluster);
        let messages = match transfers(sync, &fabric) {
            Ok(messages) => messages,
            Err(error) => return self.check.wrong(at, error.to_string(), remedy(&error)),
        };
        let followed = sync.fidelity == Fidelity::Flow;
        if followed && messages > MOST_MESSAGES {
            let what =
                format!("a step takes {messages:.1e} transfers among {} ranks", fabric.ranks);
            self.check.wrong(
                at,
                what,
                "write `fidelity = \"analytic\"`, larger buckets, or larger chunks",
            );
        }
    }
}
