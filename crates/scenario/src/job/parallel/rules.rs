//! Checks of a model that is spread over GPUs.

use super::placement::MOST_GPUS;
use super::swap::Swap;
use super::transfers::{
    context_transfers, dispatch_transfers, gradient_transfers, layers, operations, sum_transfers,
    sums_are_alone,
};
use crate::document::NodeId;
use crate::job::Job;
use crate::job::gradients::remedy;
use crate::job::rules::Rules;
use crate::{Cluster, Fidelity, Node, Parallelism, Schedule, Sync};

/// Maximum number of transfers in a step that is simulated transfer by transfer; `MOST_PIECES` is the maximum number of
/// passes and collectives in a step.
const MOST_MESSAGES: f64 = 2e8;
const MOST_PIECES: f64 = 1e7;

impl Rules<'_> {
    /// Checks that a step whose passes are simulated one by one can be simulated as the settings say.
    pub(crate) fn check_parallelism(&self, job: &Job, cluster: &Cluster) {
        let Some(of) = &job.parallelism else { return };
        let (micro, batch) = (u64::from(of.micro_batches), job.batch);
        if !batch.is_multiple_of(micro) {
            let what =
                format!("a batch of {batch} cannot be divided into {micro} equal micro-batches");
            self.wrong_at(
                "pipeline",
                what,
                "write a `batch` that is a multiple of `micro_batches`",
            );
        }
        self.check_tensor_nodes(of);
        let span = job.nodes_per_copy();
        if span > 1 && !job.nodes.is_multiple_of(span) {
            let what = format!(
                "a model copy takes {span} nodes, and {} nodes are not a multiple of that",
                job.nodes
            );
            self.wrong_at(
                "pipeline",
                what,
                "write `nodes` as a multiple of the nodes of a model copy",
            );
        }
        if let (Some((at, _)), true) = (self.settings.copies_at(), span > 1) {
            let what = "a model copy on several nodes uses them alone";
            let remedy = "leave out `copies_per_node`, or `stages_per_node` and `ranks_per_node`";
            self.check.wrong(at, what, remedy);
        }
        let zero = self.check_zero(job) && self.check_secondary(job);
        let pieces = self.check_chunks(of, job.shares().len()) && self.check_pieces(job);
        // Groups are laid out GPU by GPU.
        if !pieces || !zero || !self.check_groups(job, cluster) || !self.check_shards(job, cluster)
        {
            return;
        }
        if let Some(sync) = &job.sync
            && (job.gradient_ranks() > 1 || sync.servers.is_some())
        {
            self.check_stage_sync(job, cluster, sync);
        }
        self.check_tensor(job, cluster);
        self.check_context(job, cluster);
        self.check_expert(job, cluster);
    }

    /// Checks that the schedule supports this number of stages and micro-batches; returns false and reports an error if
    /// not. Interleaved 1F1B needs a multiple of the number of stages as the number of micro-batches, because it takes
    /// this many micro-batches through a chunk at a time, as Megatron-LM does.
    fn check_chunks(&self, of: &Parallelism, stages: usize) -> bool {
        let micro = of.micro_batches as usize;
        let (what, remedy) = match of.schedule {
            Schedule::Gpipe
            | Schedule::OneForwardOneBackward
            | Schedule::ZeroBubble { .. }
            | Schedule::VShaped { .. } => return true,
            Schedule::Interleaved { .. } if stages < 2 => (
                "\"interleaved-1f1b\" needs several stages".to_owned(),
                "write at least 2 `stages`, or `schedule = \"1f1b\"`",
            ),
            Schedule::Interleaved { .. } if !micro.is_multiple_of(stages) => (
                format!(
                    "\"interleaved-1f1b\" needs a multiple of {stages} micro-batches for {stages} stages, not {micro}"
                ),
                "write `micro_batches` that are a multiple of the stages",
            ),
            Schedule::Interleaved { .. } => return true,
        };
        self.wrong_at("pipeline", what, remedy);
        false
    }

    /// Reports an error at the table `table` of `parallel`.
    fn wrong_at(&self, table: &str, what: String, remedy: &str) {
        self.check.wrong(self.table(table), what, remedy);
    }

    fn table(&self, table: &str) -> NodeId {
        let parallel = self.settings.parallel.get();
        let at = parallel.and_then(|parallel| match table {
            "pipeline" => parallel.pipeline.at,
            "tensor" => parallel.tensor.at,
            "context" => parallel.context.at,
            "expert" => parallel.expert.at,
            _ => parallel.zero.at,
        });
        let model = self.settings.model_at();
        self.check.blame(&[at, model], self.at)
    }

    /// Checks that ranks that shard states can exchange them; returns false and reports an error if not.
    fn check_zero(&self, job: &Job) -> bool {
        if job.parallelism.as_ref().is_none_or(|of| of.zero == 0) {
            return true;
        }
        if job.gradient_ranks() < 2 {
            self.check.remark(format!(
                "`parallel.zero` has no effect: `{}` has only one model copy.",
                job.name
            ));
        } else if job.sync.is_none() {
            let what = "`parallel.zero` needs `[job.sync]`".to_owned();
            self.wrong_at("zero", what, "write `sync.allreduce = {}`, or remove `parallel.zero`");
            return false;
        }
        true
    }

    /// Checks that gradients of stages can be reduced as `sync` says.
    fn check_stage_sync(&self, job: &Job, cluster: &Cluster, sync: &Sync) {
        let at = self.check.blame(&[self.settings.sync_at()], self.at);
        let sharded = job.parallelism.as_ref().is_some_and(|of| of.zero > 0);
        if sharded && sync.root.is_some() {
            let what =
                "a root updates all parameters, which `parallel.zero` shards over model copies";
            self.check.wrong(at, what, "remove `parallel.zero`, or write `sync.allreduce`");
        }
        if sharded && sync.servers.is_some() {
            let what = "parameter servers hold what `parallel.zero` shards over model copies";
            self.check.wrong(at, what, "remove `parallel.zero`, or write `sync.allreduce`");
        } else if sharded && job.averages_models() {
            let what = "`parallel.zero` shards one model over all model copies, but with `period` each model copy has a model of its own";
            self.check.wrong(at, what, "leave out `period`, or `parallel.zero`");
        }
        if sharded && sync.measured.is_some() {
            let what = "the profile measured allreduces, but ranks that shard gradients reduce-scatter them";
            self.check.wrong(at, what, "leave out `transport.….profile`, or `parallel.zero`");
        }
        if sharded && sync.sparse {
            let what = "sparse gradients cannot be summed, but ranks that shard gradients sum them";
            self.check.wrong(
                at,
                what,
                "write `compression.quantised`, or leave out `parallel.zero`",
            );
        }
        if sync.servers.is_some() {
            return;
        }
        match gradient_transfers(job, cluster, sync) {
            Ok(messages) => self.check_messages(messages, sync.fidelity, at),
            Err(error) => self.check.wrong(at, error.to_string(), remedy(&error)),
        }
    }

    /// Checks that `ranks_per_node` divides the number of tensor parallel ranks, and that `stages_per_node` is not set
    /// too.
    fn check_tensor_nodes(&self, of: &Parallelism) {
        let parallel = self.settings.parallel.get();
        let tensor = parallel.and_then(|parallel| parallel.tensor.get());
        let Some((at, each)) = tensor.and_then(|tensor| tensor.ranks_per_node.given()) else {
            return;
        };
        let (ranks, each) = (of.tensor_ranks(), each.small());
        let stages = parallel.and_then(|parallel| parallel.pipeline.get());
        if !ranks.is_multiple_of(each) {
            let what = format!("{ranks} ranks cannot be divided equally into nodes of {each}");
            self.check.wrong(at, what, "write a `ranks_per_node` that divides `ranks`");
        } else if stages.is_some_and(|stages| stages.stages_per_node.is_written()) {
            let what = "`ranks_per_node` already determines how many stages a node has";
            self.check.wrong(at, what, "leave out `stages_per_node`, or `ranks_per_node`");
        }
    }

    fn check_tensor(&self, job: &Job, cluster: &Cluster) {
        let tensor = job.parallelism.as_ref().and_then(|of| of.tensor.as_ref());
        let Some(tensor) = tensor.filter(|tensor| tensor.ranks > 1) else { return };
        let at = self.table("tensor");
        match sum_transfers(job, cluster, tensor) {
            // If the ranks have their links for themselves, only one collective is simulated for all.
            Ok(_) if sums_are_alone(job, cluster, tensor) => {}
            Ok(messages) => self.check_messages(messages, tensor.method.fidelity, at),
            Err(error) => self.check.wrong(at, error.to_string(), remedy(&error)),
        }
    }

    /// Checks that keys and values can be exchanged as `parallel.context` says.
    fn check_context(&self, job: &Job, cluster: &Cluster) {
        let context = job.parallelism.as_ref().and_then(|of| of.context.as_ref());
        let Some(context) = context.filter(|context| context.ranks > 1) else { return };
        let at = self.table("context");
        match context_transfers(job, cluster, context) {
            Ok(messages) => self.check_messages(messages, context.method.fidelity, at),
            Err(error) => self.check.wrong(at, error.to_string(), remedy(&error)),
        }
    }

    /// Checks that model copies form whole groups that hold all experts together, and that all groups are distributed
    /// over nodes in the same way; returns false and reports an error if not.
    fn check_groups(&self, job: &Job, cluster: &Cluster) -> bool {
        let (copies, ranks) = (job.ranks(), job.expert_ranks());
        if ranks == 1 {
            return true;
        }
        if !copies.is_multiple_of(ranks) {
            let what = format!("{copies} model copies cannot be divided into groups of {ranks}");
            let remedy = "write `data.copies_per_node` or `nodes` such that the copies are a multiple of `ranks`";
            self.wrong_at("expert", what, remedy);
            return false;
        }
        let nodes = job.nodes_of_gpus();
        let fabric = |members| job.fabric_of(members, &nodes, cluster);
        let (first, alike) = (fabric(job.expert_group(0, 0, 0)), job.expert_data_group(0, 0, 0));
        let (alike, mut groups) = (fabric(alike), (0..copies).step_by(ranks as usize));
        let same = groups.all(|copy| fabric(job.expert_group(0, copy, 0)) == first)
            && (0..ranks).all(|copy| fabric(job.expert_data_group(0, copy, 0)) == alike);
        if !same {
            let what =
                format!("groups of {ranks} model copies would be on different numbers of nodes");
            let remedy =
                "write a `data.copies_per_node` that is a multiple or a divisor of `ranks`";
            self.wrong_at("expert", what, remedy);
        }
        same
    }

    /// Checks that tokens can be dispatched as `parallel.expert` says.
    fn check_expert(&self, job: &Job, cluster: &Cluster) {
        let expert = job.parallelism.as_ref().and_then(|of| of.expert.as_ref());
        let Some(expert) = expert.filter(|expert| expert.ranks > 1) else { return };
        let at = self.table("expert");
        match dispatch_transfers(job, cluster, expert) {
            Ok(messages) => self.check_messages(messages, expert.method.fidelity, at),
            Err(error) => self.check.wrong(at, error.to_string(), remedy(&error)),
        }
    }

    fn check_messages(&self, messages: f64, fidelity: Fidelity, at: NodeId) {
        if fidelity == Fidelity::Flow && messages > MOST_MESSAGES {
            let what = format!("a step takes {messages:.1e} transfers: too many to simulate");
            self.check.wrong(at, what, "write `fidelity = \"analytic\"`");
        }
    }

    /// Checks that the job's GPUs, and the passes and collectives of a step, are few enough to be simulated; returns
    /// false and reports an error if not.
    fn check_pieces(&self, job: &Job) -> bool {
        let Some(of) = &job.parallelism else { return true };
        let stages = job.shares().len() as f64;
        let gpus = f64::from(job.ranks()) * stages * f64::from(of.ranks());
        if gpus > MOST_GPUS {
            let what = format!("the model copies have {gpus:.1e} GPUs: too many to simulate");
            self.wrong_at("pipeline", what, "write fewer copies, stages or ranks");
        }
        let sums = of.tensor.as_ref().map_or(0.0, |tensor| {
            tensor.reductions.iter().map(|sums| f64::from(*sums)).sum::<f64>()
        });
        let buckets = job.sync.as_ref().map_or(0.0, |sync| sync.buckets.len() as f64);
        let exchanges = operations(of.zero, of.micro_batches);
        let exchanges: f64 = exchanges.iter().map(|(_, number)| f64::from(*number)).sum();
        let chunks = stages * f64::from(of.schedule.chunks());
        let layers = of.expert.as_ref().map_or(0.0, layers);
        let passes = f64::from(of.micro_batches) * (chunks + 2.0 * sums + 4.0 * layers);
        // Buckets are cut in two where some of their gradients belong to experts.
        let halves = if of.expert.is_some() { 2.0 } else { 1.0 };
        let pieces = passes + chunks * buckets * halves * exchanges;
        let pieces = pieces * f64::from(job.programs_of_stage());
        if pieces > MOST_PIECES {
            let what = format!("a step has {pieces:.1e} pieces of work: too many to simulate");
            self.wrong_at("pipeline", what, "write fewer `micro_batches`, stages or buckets");
        }
        pieces <= MOST_PIECES && gpus <= MOST_GPUS
    }

    /// Moves the part of the model that does not fit into the GPUs' memory to their nodes' memory, if
    /// `model.out_of_core` is true.
    pub(crate) fn swap(&self, job: &mut Job, node: &Node) {
        let model = self.settings.model.get();
        let Some((at, true)) = model.and_then(|model| model.out_of_core.given()) else { return };
        let capacity = node.gpu_memory;
        let beyond = job.footprint().is_some_and(|full| full.total() > capacity);
        if !beyond {
            let why = if job.footprints.is_empty() {
                "how much GPU memory the model needs is not known"
            } else {
                "the model fits into the GPU's memory"
            };
            let key = self.check.document.path(at);
            return self.check.remark(format!("`{key}` has no effect: {why}."));
        }
        if node.pcie.is_infinite() {
            let what = "`out_of_core` needs the bandwidth between GPU and node, which is not known";
            self.check.wrong(at, what, "write `cluster.node.pcie = \"12 GB/s\"`");
        }
        let swap: Vec<Swap> =
            job.footprints.iter().map(|held| Swap::beyond(held, capacity)).collect();
        if let Some(parallelism) = &mut job.parallelism {
            parallelism.swap = swap;
        }
    }
}
