//! Number of model copies on each node of a job: the same on all nodes, or a list.

use super::Job;
use super::rules::Rules;
use super::settings::{Around, JobSettings};
use crate::field::Field;
use crate::number::Count;
use crate::{Cluster, Device};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{
    Deserialize, Deserializer, Error, IntoDeserializer, SeqAccess, Unexpected, Visitor,
};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Number of model copies on a node.
type Copies = Count<1, 10_000>;

/// Number of model copies on each node, as set in the scenario file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CopiesSettings {
    /// The same number of model copies on each node.
    All(Copies),
    /// A number of model copies for each node, in node order.
    Each(Vec<Field<Copies>>),
    /// As many model copies as the GPUs of each node allow.
    Gpus,
}

impl CopiesSettings {
    /// Returns the largest number of model copies on any node, and the number on each node; the list is empty if all
    /// nodes have the same. `gpus` returns how many model copies the GPUs of each node allow.
    fn resolve(&self, gpus: impl FnOnce() -> Vec<u32>) -> (u32, Vec<u32>) {
        let each = match self {
            Self::All(copies) => return (copies.small(), Vec::new()),
            Self::Each(list) => list.iter().filter_map(Field::get).map(|of| of.small()).collect(),
            Self::Gpus => gpus(),
        };
        let alike = each.windows(2).all(|pair| pair[0] == pair[1]);
        let most = each.iter().copied().max().unwrap_or(1);
        (most, if alike { Vec::new() } else { each })
    }

    /// Returns the length of the list, which has one number for each node; `None` if the setting is not a list.
    fn nodes(&self) -> Option<usize> {
        match self {
            Self::All(_) | Self::Gpus => None,
            Self::Each(list) => Some(list.len()),
        }
    }
}

/// Returns the number of model copies on all of `nodes` nodes: `most` on each, or the sum of the list `each`.
fn in_all(nodes: u32, most: u32, each: &[u32]) -> u32 {
    match each {
        [] => nodes.saturating_mul(most),
        each => each.iter().fold(0, |sum: u32, copies| sum.saturating_add(*copies)),
    }
}

impl JobSettings {
    /// Returns the largest number of model copies on any node, and the number on each node; the list is empty if all
    /// nodes have the same.
    pub(super) fn copies(&self, around: Around<'_>) -> (u32, Vec<u32>) {
        let span = self.nodes_per_copy();
        if span > 1 {
            // A model copy on several nodes counts on its first node, and begins where the copy before it ends.
            let nodes = 0..self.nodes.get().map_or(1, |nodes| nodes.small());
            return (1, nodes.map(|node| u32::from(node.is_multiple_of(span))).collect());
        }
        let Some((_, copies)) = self.copies_at() else { return (1, Vec::new()) };
        let stages = self.stages().saturating_mul(self.ranks_of_stage());
        let gpus = |node| around.cluster.map_or(1, |cluster| cluster.node_at(node).gpus);
        let models = |node| (gpus(node) / stages).clamp(1, 10_000);
        copies.resolve(|| self.nodes_of(around).map(models).collect())
    }

    /// Returns the number of model copies of a job copy.
    pub(super) fn ranks(&self, around: Around<'_>) -> u32 {
        let (most, each) = self.copies(around);
        in_all(self.nodes.get().map_or(1, |nodes| nodes.small()), most, &each)
    }
}

impl Job {
    /// Returns the number of model copies on node number `node` of a job copy.
    #[must_use]
    pub fn copies_on(&self, node: u32) -> u32 {
        self.copies_each.get(node as usize).copied().unwrap_or(self.copies_per_node)
    }

    /// Returns the number of model copies on each node of a job copy, in node order.
    pub fn copies_by_node(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.nodes).map(|node| self.copies_on(node))
    }

    /// Returns the number of ranks that send messages on each node of a job copy: model copies, or all GPUs where model
    /// copies are spread over several GPUs.
    pub fn ranks_by_node(&self) -> impl Iterator<Item = u32> + '_ {
        let on = |node| match &self.parallelism {
            Some(_) => self.gpus_on(node) as u32,
            None => self.copies_on(node),
        };
        (0..self.nodes).map(on)
    }

    /// Returns the number of ranks that reduce the gradients of each part of the model: in each model copy one rank, or
    /// all ranks that split its sequences.
    #[must_use]
    pub fn gradient_ranks(&self) -> u32 {
        let context = self.parallelism.as_ref().map_or(1, |of| of.context_ranks());
        self.ranks().saturating_mul(context)
    }

    /// Returns the number of model copies of a job copy, which reduce their gradients together.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        in_all(self.nodes, self.copies_per_node, &self.copies_each)
    }
}

impl Rules<'_> {
    /// Returns the nodes of all copies of `job`.
    pub(super) fn nodes(&self, job: &Job) -> Range<u32> {
        let cluster = self.around.cluster;
        let shared = cluster.is_some_and(|cluster| cluster.share_nodes);
        let copies = if shared { 1 } else { job.copies };
        let first = self.around.first_node;
        first..first.saturating_add(copies.saturating_mul(job.nodes))
    }

    /// Checks that a list of numbers of model copies has one number for each node. Checks that each model copy has a
    /// loader of its own if the numbers differ: with one loader on each node, nodes would need unequal shares of the
    /// data.
    pub(super) fn check_copies(&self, job: &Job) {
        let Some((at, copies)) = self.settings.copies_at() else { return };
        if let Some(nodes) = copies.nodes().filter(|nodes| *nodes != job.nodes as usize) {
            let what =
                format!("the list has numbers for {nodes} nodes, but the job has {}", job.nodes);
            self.check.wrong(at, what, "write one number for each of the job's `nodes`");
        } else if !job.copies_each.is_empty() && !job.loader_per_copy {
            let what = "nodes with more model copies need a larger share of the data";
            self.check.wrong(at, what, "also write `parallel.data.loaders = \"per-rank\"`");
        }
    }

    /// Checks that each node has enough GPUs for its model copies and their stages.
    pub(super) fn check_gpus(&self, job: &Job, cluster: &Cluster) {
        if job.device != Device::Accelerator {
            if job.kernel().is_some() {
                let at = self.check.blame(&[self.settings.loader.at], self.at);
                let what = "the loader decodes on a GPU, and this job trains on cores";
                self.check.wrong(at, what, "leave out `loader.dali.gpu`, or `device.cpu`");
            }
            return;
        }
        let each = job.gpus_per_copy();
        let nodes = self.nodes(job);
        for alike in cluster.alike(nodes.clone()) {
            let gpus = cluster.node_at(alike.start).gpus;
            let place = |node: u32| (node - nodes.start) % job.nodes;
            let most = match alike.len() < job.nodes as usize && !job.copies_each.is_empty() {
                true => alike.map(|node| job.copies_on(place(node))).max().unwrap_or(0),
                false => job.copies_per_node,
            };
            // A model copy on several nodes has these nodes for itself.
            let most = if job.nodes_per_copy() > 1 { 1 } else { u64::from(most) };
            if most * each > u64::from(gpus) {
                return self.too_few_gpus(most, job, gpus);
            }
        }
    }

    /// Checks that every GPU type of a job whose step times follow from peak FLOP/s has a peak for the job's precision.
    pub(super) fn check_peaks(&self, job: &Job, cluster: &Cluster) {
        let Some(precision) = job.peak else { return };
        let gpus = cluster.kinds(self.nodes(job)).into_iter().filter_map(|kind| kind.node.gpu);
        for gpu in gpus.filter(|gpu| gpu.peak(precision).is_none()) {
            let at = self.check.blame(&[self.settings.model_at()], self.at);
            let what = format!("the GPU `{}` has no peak rate in {}", gpu.name, precision.name());
            self.check.wrong(at, what, "write another `model.precision`, or `model.step`");
        }
    }

    fn too_few_gpus(&self, copies: u64, job: &Job, gpus: u32) {
        let parallel = self.settings.parallel.get();
        let pipeline = parallel.and_then(|parallel| parallel.pipeline.at);
        let pipeline = pipeline.or(parallel.and_then(|parallel| parallel.tensor.at));
        let data = self.settings.copies_at().map(|(at, _)| at);
        let of_node = self.check.find(&["cluster", "node", "gpus"]);
        let at = self.check.blame(&[data, pipeline, of_node], self.at);
        let what = format!(
            "{copies} model copies{} need {} GPUs, and a node has {gpus}",
            pieces(job),
            copies * job.gpus_per_copy()
        );
        let fewer = "write fewer copies or stages, or more `cluster.node.gpus`";
        let apart = "write fewer `ranks`, copies or stages, fewer of them on a node by `stages_per_node` or \
                     `ranks_per_node`, or more `cluster.node.gpus`";
        self.check.wrong(at, what, if job.parallelism.is_some() { apart } else { fewer });
    }
}

/// Describes, as text, the number of stages that a model copy has on a node and the number of ranks of each stage; empty for a
/// model copy on one GPU.
fn pieces(job: &Job) -> String {
    if job.gpus_per_copy() == 1 {
        return String::new();
    }
    let ranks = u64::from(job.ranks_of_stage()).min(job.gpus_per_copy());
    let stages = job.gpus_per_copy() / ranks.max(1);
    let of = if ranks > 1 { format!(" of {ranks} ranks") } else { String::new() };
    let plural = if stages == 1 { "stage" } else { "stages" };
    format!(" of {stages} {plural}{of}")
}

impl<'de> Deserialize<'de> for CopiesSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = CopiesSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 1 to 10000, an array of them, or \"gpus\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<CopiesSettings, E> {
                match text {
                    "gpus" => Ok(CopiesSettings::Gpus),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<CopiesSettings, E> {
                Copies::deserialize(value.into_deserializer()).map(CopiesSettings::All)
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<CopiesSettings, E> {
                Copies::deserialize(value.into_deserializer()).map(CopiesSettings::All)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<CopiesSettings, A::Error> {
                let mut list = Vec::new();
                while let Some(copies) = seq.next_element()? {
                    list.push(copies);
                }
                if list.is_empty() {
                    let what = "the list is empty\nwrite `copies_per_node = [4, 4, 2]`";
                    return Err(A::Error::custom(what));
                }
                Ok(CopiesSettings::Each(list))
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}

impl JsonSchema for CopiesSettings {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CopiesPerNode".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Copies>();
        let list = json_schema!({ "type": "array", "items": one, "minItems": 1 });
        json_schema!({ "anyOf": [one, list, { "const": "gpus" }] })
    }
}
