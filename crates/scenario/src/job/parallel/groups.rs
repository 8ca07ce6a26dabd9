//! Hybrid sharding: groups of ranks that shard states among themselves, and hold the same states as other groups.

use super::Parallelism;
use super::placement::Members;
use super::transfers::operations;
use super::zero::ZeroSettings;
use crate::Cluster;
use crate::field::Field;
use crate::job::Job;
use crate::job::rules::Rules;
use crate::number::Count;
use forebay_collective::Operation;
use schemars::JsonSchema;

/// Ranks that shard states among themselves.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GroupSettings {
    /// All data parallel ranks.
    All,
    /// The data parallel ranks of each node.
    Node,
    /// Groups of this many neighbouring data-parallel ranks.
    Size(Field<Count<2, 1_000_000>>),
}

impl GroupSettings {
    /// Returns the number of model copies whose ranks are a group; `None` for all. Each model copy has `context` ranks with the same
    /// part of the model, and there are `on_node` model copies on a node.
    pub(super) fn copies(&self, on_node: u32, context: u32) -> Option<u32> {
        match self {
            Self::All => None,
            Self::Node => Some(on_node),
            Self::Size(ranks) => Some((ranks.get()?.small() / context).max(1)),
        }
    }
}

impl Job {
    /// Returns the job with its states sharded inside each node and replicated across nodes; `None` if its ranks do not shard states
    /// over several nodes, or if groups of the ranks of a node are not possible.
    #[must_use]
    pub fn sharded_in_nodes(&self) -> Option<Job> {
        let of = self.parallelism.as_ref().filter(|of| of.zero > 0)?;
        let (ranks, on_node) = (self.ranks(), self.copies_per_node);
        let experts = of.expert_ranks();
        let apart = on_node.is_multiple_of(experts) || experts.is_multiple_of(on_node);
        let one = self.nodes_per_copy() == 1 && self.copies_each.is_empty();
        if !one || !apart || on_node < 2 || on_node >= of.sharding_copies(ranks) {
            return None;
        }
        let secondary_copies = of.secondary_copies.filter(|copies| *copies < on_node);
        let grouped = Parallelism { shard_copies: Some(on_node), secondary_copies, ..of.clone() };
        let (before, after) = (of.spread(ranks), grouped.spread(ranks));
        let footprints = self.footprints.iter().enumerate();
        let respread = |(stage, held)| before.respread(held, of.experts_of(stage), &after);
        Some(Job {
            footprints: footprints.map(respread).collect(),
            parallelism: Some(grouped),
            ..self.clone()
        })
    }

    /// Returns an estimate of the share of the bytes between nodes that is saved if states are sharded inside nodes: each node then
    /// sends two halves of an allreduce of the gradients in an update, and nothing else.
    #[must_use]
    pub fn saved_by_groups(&self) -> f64 {
        let (Some(of), true) = (&self.parallelism, self.sharded_in_nodes().is_some()) else {
            return 0.0;
        };
        let halves = |(operation, number): (Operation, u32)| {
            let each = f64::from(number) * self.share_between_nodes(of, operation);
            let in_each_step =
                of.zero == 3 || of.zero == 2 && operation == Operation::ReduceScatter;
            if in_each_step { each * self.accumulation as f64 } else { each }
        };
        let all: f64 = operations(of.zero, of.micro_batches).into_iter().map(halves).sum();
        (1.0 - 2.0 / all).max(0.0)
    }

    /// Returns the share of the bytes of `operation`, half an allreduce among all data parallel ranks, that goes between nodes.
    fn share_between_nodes(&self, of: &Parallelism, operation: Operation) -> f64 {
        if operation != Operation::Allgather {
            return 1.0;
        }
        let inside = of.secondary_copies.is_some_and(|copies| copies <= self.copies_per_node);
        // Forward gathers from all ranks, and backward inside the node.
        let gathers = if of.zero == 3 && inside { 0.5 } else { 1.0 };
        gathers * of.quantised.map_or(1.0, |quantised| quantised.ratio)
    }
}

impl Parallelism {
    /// Returns the number of model copies, out of `copies`, whose ranks shard states among themselves.
    #[must_use]
    pub fn sharding_copies(&self, copies: u32) -> u32 {
        self.shard_copies.unwrap_or(copies).clamp(1, copies.max(1))
    }

    /// Returns the number of model copies that shard the states of the same experts, where `group` model copies shard all states
    /// among themselves.
    #[must_use]
    pub fn sharding_experts(&self, group: u32) -> u32 {
        (group / self.expert_ranks()).max(1)
    }
}

impl Rules<'_> {
    /// Returns the settings of `parallel.zero`, if the file has them.
    fn zero(&self) -> Option<&ZeroSettings> {
        self.settings.parallel.get()?.zero.get()
    }

    /// Checks that the ranks that shard states among themselves are whole groups of model copies, all of which are distributed over
    /// nodes in the same way; returns false and reports an error if not.
    pub(super) fn check_shards(&self, job: &Job, cluster: &Cluster) -> bool {
        let (Some(zero), Some(of)) = (self.zero(), &job.parallelism) else { return true };
        if job.gradient_ranks() < 2 {
            return true;
        }
        let sizes = [
            (&zero.groups, job.ranks(), "there is only one such group"),
            (&zero.secondary, job.sharding_copies(), "states are sharded inside one such group"),
        ];
        for (written, within, one) in sizes {
            let Some((at, setting)) = written.given() else { continue };
            let Some(copies) = setting.copies(job.copies_per_node, of.context_ranks()) else {
                continue;
            };
            if let Some((what, remedy)) = wrong_group(job, cluster, setting, (copies, within)) {
                self.check.wrong(at, what, remedy);
                return false;
            }
            if copies == within && !self.check.lenient {
                self.check.no_effect(written.at, one);
            }
        }
        true
    }

    /// Checks that there is a secondary partition only at stage 3, and that it is smaller than the first; returns false and reports an
    /// error if not.
    pub(super) fn check_secondary(&self, job: &Job) -> bool {
        let (Some(zero), Some(of)) = (self.zero(), &job.parallelism) else { return true };
        let Some((at, secondary)) = zero.secondary.given() else { return true };
        if *secondary == GroupSettings::All {
            let what = "a secondary partition over all ranks would be the first one again";
            let remedy = "write \"node\" or `{ size = 8 }`, or leave out `secondary`";
            self.check.wrong(at, what, remedy);
            return false;
        }
        if of.zero < 3 {
            let what = "`secondary` needs `stage = 3`: lower stages do not shard parameters";
            self.check.wrong(at, what, "write `stage = 3`, or leave out `secondary`");
            return false;
        }
        true
    }
}

/// Returns what is wrong with groups of `copies` model copies out of `within` whose ranks shard states among themselves, and a
/// remedy; `None` if nothing is.
fn wrong_group(
    job: &Job,
    cluster: &Cluster,
    setting: &GroupSettings,
    (copies, within): (u32, u32),
) -> Option<(String, &'static str)> {
    let of = job.parallelism.as_ref()?;
    let (context, experts) = (of.context_ranks(), of.expert_ranks());
    let of_node = *setting == GroupSettings::Node;
    let size = match setting {
        GroupSettings::Size(size) => size.get()?.small(),
        GroupSettings::All | GroupSettings::Node => copies.saturating_mul(context),
    };
    if of_node && !job.copies_each.is_empty() && job.nodes_per_copy() == 1 {
        let what =
            "nodes with different numbers of model copies would be groups of different sizes";
        return Some((what.to_owned(), "write equal `copies_per_node`, or leave it out"));
    }
    if size < 2 {
        let what = "a node has only one rank with each part of the model, which would keep all of its states";
        let remedy =
            "write `{ size = … }` with the ranks of several nodes, or more `copies_per_node`";
        return Some((what.to_owned(), remedy));
    }
    if !size.is_multiple_of(context) {
        let what = format!(
            "a group of {size} ranks is not a whole number of model copies: each copy has {context} context ranks"
        );
        return Some((what, "write a `size` that is a multiple of `context.ranks`"));
    }
    if !within.is_multiple_of(copies) {
        let ranks = within.saturating_mul(context);
        let what = format!("{ranks} ranks cannot be divided into groups of {size}");
        return Some((what, "write a `size` that divides the ranks that shard states"));
    }
    if !copies.is_multiple_of(experts) && !experts.is_multiple_of(copies) {
        let what = format!(
            "a group of {copies} model copies would hold some experts twice: {experts} copies hold each expert once"
        );
        return Some((what, "write a `size` that is a multiple or a divisor of `expert.ranks`"));
    }
    let nodes = job.nodes_of_gpus();
    let fabric = |members| job.fabric_of(members, &nodes, cluster);
    let all = job.all_copies();
    let mut groups = all.groups(copies).map(|copies| fabric(job.group_of(0, 0, copies)));
    let mut across = all
        .across(copies)
        .flat_map(|copies| job.replicas_of(0, copies).collect::<Vec<Members>>())
        .map(fabric);
    let (first, other) = (groups.next()?, across.next()?);
    if of_node && first.nodes() > 1 {
        let what = "ranks that split sequences are on several nodes";
        return Some((what.to_owned(), "write `{ size = … }`, or leave it out"));
    }
    let alike = groups.all(|fabric| fabric == first) && across.all(|fabric| fabric == other);
    (!alike).then(|| {
        let what = format!("groups of {size} ranks would be on different numbers of nodes");
        (what, "write a `size` that is a multiple or a divisor of the ranks of a node")
    })
}
