//! Which GPU holds which part of which model copy. GPUs are numbered in this order: tensor parallel ranks are next to
//! each other, then come context parallel ranks, then stages, then model copies (Narayanan et al., *Efficient
//! Large-Scale Language Model Training on GPU Clusters*, 2021, section 3).

use crate::{Cluster, Job};
use forebay_collective::Fabric;

/// Maximum number of GPUs of a job copy whose model copies take several GPUs each.
pub(super) const MOST_GPUS: f64 = 1e6;

/// A group of GPUs of a job copy. It consists of equal blocks; the first block begins at GPU number `first`, and the GPUs of a
/// block are `stride` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Members {
    /// Number of the first GPU.
    pub first: u32,
    /// Distance from one GPU of a block to the next.
    pub stride: u32,
    /// Number of GPUs in all blocks.
    pub ranks: u32,
    /// Number of GPUs in a block; `jump` is the distance from one block to the next.
    block: u32,
    jump: u32,
}

impl Members {
    /// Returns a group of one block with `ranks` GPUs, each `stride` after the one before.
    #[must_use]
    pub fn new(first: u32, stride: u32, ranks: u32) -> Members {
        Members { first, stride, ranks, block: ranks.max(1), jump: 0 }
    }

    /// Returns the group repeated `blocks` times, each repetition `jump` after the one before.
    #[must_use]
    pub fn repeated(self, blocks: u32, jump: u32) -> Members {
        if self.ranks == 1 {
            return Members::new(self.first, jump, blocks);
        }
        Members { ranks: self.ranks * blocks, jump, ..self }
    }

    /// Returns the number of the GPU that is rank number `rank` of the group.
    #[must_use]
    #[inline]
    pub fn gpu(&self, rank: u32) -> u32 {
        self.first + rank / self.block * self.jump + rank % self.block * self.stride
    }

    /// Returns the rank of GPU number `gpu` in the group; `None` if the GPU is not in the group.
    #[must_use]
    pub fn rank_of(&self, gpu: u32) -> Option<u32> {
        let offset = gpu.checked_sub(self.first)?;
        let block = offset.checked_div(self.jump).unwrap_or(0);
        let within = offset - block * self.jump;
        let place = within / self.stride.max(1);
        let rank = block * self.block + place;
        (place < self.block && rank < self.ranks).then_some(rank)
    }

    /// Returns all GPUs of the group in the order of their ranks.
    pub fn gpus(self) -> impl Iterator<Item = u32> {
        (0..self.ranks).map(move |rank| self.gpu(rank))
    }
}

/// Model copies at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// Number of the first model copy.
    pub first: u32,
    /// Distance from one model copy to the next.
    pub step: u32,
    /// Number of model copies.
    pub number: u32,
}

impl Copies {
    /// Divides the model copies into groups of `size` neighbours.
    pub fn groups(self, size: u32) -> impl Iterator<Item = Copies> {
        let Copies { first, step, number } = self;
        (0..number / size).map(move |group| Copies {
            first: first + group * size * step,
            step,
            number: size,
        })
    }

    /// Returns for each place in a group of `size` neighbours the model copies at this place, one of each group.
    pub fn across(self, size: u32) -> impl Iterator<Item = Copies> {
        let Copies { first, step, number } = self;
        (0..size).map(move |place| Copies {
            first: first + place * step,
            step: step * size,
            number: number / size,
        })
    }
}

impl Job {
    /// Returns all model copies.
    #[must_use]
    pub fn all_copies(&self) -> Copies {
        Copies { first: 0, step: 1, number: self.ranks() }
    }

    /// Returns for each part of the experts the model copies that hold it.
    pub fn copies_by_experts(&self) -> impl Iterator<Item = Copies> {
        let (step, number) = (self.expert_ranks(), self.ranks() / self.expert_ranks());
        (0..step).map(move |first| Copies { first, step, number })
    }

    /// Returns the number of model copies whose ranks shard states among themselves (ZeRO): all, or with hybrid sharding those of
    /// a group.
    #[must_use]
    pub fn sharding_copies(&self) -> u32 {
        let copies = self.ranks();
        self.parallelism.as_ref().map_or(copies, |of| of.sharding_copies(copies))
    }

    /// Returns the GPUs of stage number `stage` that hold part `rank` of each layer, in the model copies `copies`.
    #[must_use]
    pub fn group_of(&self, stage: u32, rank: u32, copies: Copies) -> Members {
        let first = self.context_group(copies.first, stage, rank);
        first.repeated(copies.number, copies.step * self.gpus_of_copy())
    }

    /// Returns the groups of GPUs of stage number `stage` that hold the same shards, in the model copies `copies`: one group for
    /// each GPU of the stage.
    pub fn replicas_of(&self, stage: u32, copies: Copies) -> impl Iterator<Item = Members> {
        let apart = copies.step * self.gpus_of_copy();
        let gpus = (0..self.tensor_ranks())
            .map(move |rank| self.context_group(copies.first, stage, rank))
            .flat_map(Members::gpus);
        gpus.map(move |gpu| Members::new(gpu, apart, copies.number))
    }

    /// Returns the number of GPUs of a stage of a model copy.
    #[must_use]
    pub fn ranks_of_stage(&self) -> u32 {
        self.parallelism.as_ref().map_or(1, |of| of.ranks())
    }

    /// Returns the number of ranks that split each layer.
    #[must_use]
    pub fn tensor_ranks(&self) -> u32 {
        self.parallelism.as_ref().map_or(1, |of| of.tensor_ranks())
    }

    /// Returns the number of GPUs of a model copy, in all its stages.
    pub(super) fn gpus_of_copy(&self) -> u32 {
        (self.shares().len() as u32).saturating_mul(self.ranks_of_stage())
    }

    /// Returns the number of nodes that a model copy is on.
    #[must_use]
    pub fn nodes_per_copy(&self) -> u32 {
        let each = self.parallelism.as_ref().map_or(u32::MAX, |of| of.gpus_per_node.max(1));
        self.gpus_of_copy().div_ceil(each)
    }

    /// Returns the node of the first GPU of stage number `stage`, counted from the first node of its model copy.
    #[must_use]
    pub fn node_of_stage(&self, stage: u32) -> u32 {
        let gpu = stage * self.ranks_of_stage();
        self.parallelism.as_ref().map_or(0, |of| gpu / of.gpus_per_node.max(1))
    }

    /// Returns the largest number of GPUs that a model copy has on a node.
    #[must_use]
    pub fn gpus_per_copy(&self) -> u64 {
        let each = self.parallelism.as_ref().map_or(u32::MAX, |of| of.gpus_per_node);
        u64::from(self.gpus_of_copy().min(each))
    }

    /// Returns the number of GPUs that the job uses on node number `node` of a job copy.
    #[must_use]
    pub fn gpus_on(&self, node: u32) -> u64 {
        let span = self.nodes_per_copy();
        if span == 1 {
            return u64::from(self.copies_on(node)) * self.gpus_per_copy();
        }
        let each = self.gpus_per_copy();
        (u64::from(self.gpus_of_copy()) - u64::from(node % span) * each).min(each)
    }

    /// Returns the node of each GPU of a job copy, in the order of GPUs; nodes are counted from the copy's first node.
    #[must_use]
    pub fn nodes_of_gpus(&self) -> Vec<u32> {
        let on = |node| std::iter::repeat_n(node, self.gpus_on(node) as usize);
        (0..self.nodes).flat_map(on).collect()
    }

    /// Returns the GPUs of stage number `stage` of model copy `model`.
    #[must_use]
    pub fn stage_group(&self, model: u32, stage: u32) -> Members {
        let (stages, ranks) = (self.shares().len() as u32, self.ranks_of_stage());
        Members::new((model * stages + stage) * ranks, 1, ranks)
    }

    /// Returns a tensor parallel group: the GPUs of stage number `stage` of model copy `model` that work on part `part`
    /// of each sequence. Each of these GPUs has a part of each layer.
    #[must_use]
    pub fn tensor_group(&self, model: u32, stage: u32, part: u32) -> Members {
        let ranks = self.tensor_ranks();
        Members::new(self.stage_group(model, stage).first + part * ranks, 1, ranks)
    }

    /// Returns a context parallel group: the GPUs of stage number `stage` of model copy `model` that hold part `rank` of
    /// each layer. Each of these GPUs has a part of each sequence.
    #[must_use]
    pub fn context_group(&self, model: u32, stage: u32, rank: u32) -> Members {
        let (first, tensor) = (self.stage_group(model, stage).first, self.tensor_ranks());
        Members::new(first + rank, tensor, self.ranks_of_stage() / tensor)
    }

    /// Returns the group that reduces gradients: in all model copies, the GPUs of stage number `stage` that hold part
    /// `rank` of each layer.
    #[must_use]
    pub fn data_group(&self, stage: u32, rank: u32) -> Members {
        self.group_of(stage, rank, self.all_copies())
    }

    /// Returns the group that reduces gradients of experts: the GPUs of stage number `stage` that hold part `rank` of
    /// each layer, in all model copies with the same experts as copy number `model`. `model` must be less than the
    /// number of model copies that hold all experts together.
    #[must_use]
    pub fn expert_data_group(&self, stage: u32, model: u32, rank: u32) -> Members {
        let apart = self.expert_ranks();
        let copies = Copies { first: model, step: apart, number: self.ranks() / apart };
        self.group_of(stage, rank, copies)
    }

    /// Returns the GPUs of an expert parallel group: GPU number `place` of stage number `stage` in each model copy of
    /// the group, whose first copy is number `model`.
    #[must_use]
    pub fn expert_group(&self, stage: u32, model: u32, place: u32) -> Members {
        let first = self.stage_group(model, stage).first + place;
        Members::new(first, self.gpus_of_copy(), self.expert_ranks())
    }

    /// Returns the number of model copies that hold all experts together.
    #[must_use]
    pub fn expert_ranks(&self) -> u32 {
        self.parallelism.as_ref().map_or(1, |of| of.expert_ranks())
    }

    /// Returns the number of programs (orders of passes and collectives) that each stage needs; model copy i runs
    /// program i modulo this number.
    #[must_use]
    pub fn programs_of_stage(&self) -> u32 {
        let expert = self.parallelism.as_ref().and_then(|of| of.expert.as_ref());
        expert.map_or(1, |expert| expert.programs())
    }

    /// Returns whether the job has at most `MOST_GPUS` GPUs, and the number of its model copies is a multiple of the number of
    /// copies that hold all experts together.
    pub(crate) fn can_be_laid_out(&self) -> bool {
        let gpus = f64::from(self.ranks()) * f64::from(self.gpus_of_copy());
        gpus <= MOST_GPUS && self.ranks().is_multiple_of(self.expert_ranks())
    }

    /// Returns the topology of `members` as collective libraries see it; `nodes` has the node of each GPU.
    #[must_use]
    pub fn fabric_of(&self, members: Members, nodes: &[u32], cluster: &Cluster) -> Fabric {
        let mut each: Vec<(u32, u32)> = Vec::new();
        for gpu in members.gpus() {
            let node = nodes.get(gpu as usize).copied().unwrap_or(0);
            match each.last_mut() {
                Some((last, number)) if *last == node => *number += 1,
                _ => each.push((node, 1)),
            }
        }
        let each: Vec<u32> = each.into_iter().map(|(_, number)| number).collect();
        let most = each.iter().copied().max().unwrap_or(1);
        let alike = each.iter().all(|number| *number == most);
        let channels = if each.len() > 1 { most.min(cluster.node.nics) } else { 1 };
        let unequal = if alike { Vec::new() } else { each };
        let fabric = self.fabric(cluster);
        Fabric { ranks: members.ranks, ranks_per_node: most, unequal, channels, ..fabric }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converting_a_rank_to_a_gpu_and_back_gives_the_same_rank() {
        let plain = Members::new(3, 4, 3);
        assert_eq!(plain.gpus().collect::<Vec<u32>>(), [3, 7, 11]);
        // In each of three model copies of eight GPUs, two ranks that are two GPUs apart.
        let blocks = Members::new(1, 2, 2).repeated(3, 8);
        assert_eq!(blocks.gpus().collect::<Vec<u32>>(), [1, 3, 9, 11, 17, 19]);
        for members in [plain, blocks] {
            let ranks = members.gpus().map(|gpu| members.rank_of(gpu));
            assert_eq!(ranks.flatten().collect::<Vec<u32>>(), Vec::from_iter(0..members.ranks));
        }
        assert_eq!([0, 5, 25, u32::MAX].map(|gpu| blocks.rank_of(gpu)), [None; 4]);
    }
}
