//! Which GPU has which piece of which model copy: ranks that split layers next to each other, then ranks that split
//! sequences, then stages, then model copies (Narayanan et al., *Efficient Large-Scale Language Model Training on GPU Clusters*, 2021, section 3).

use crate::{Cluster, Job};
use forebay_collective::Fabric;

/// The most GPUs that a job copy may have where each of its model copies takes several.
pub(super) const MOST_GPUS: f64 = 1e6;

/// GPUs of a job copy: blocks of some that are `stride` apart, from number `first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Members {
    /// The first one.
    pub first: u32,
    /// From one to the next of a block.
    pub stride: u32,
    /// How many in all.
    pub ranks: u32,
    /// How many in a block, and from one block to the next.
    block: u32,
    jump: u32,
}

impl Members {
    /// So many, one `stride` after the other.
    #[must_use]
    pub fn new(first: u32, stride: u32, ranks: u32) -> Members {
        Members { first, stride, ranks, block: ranks.max(1), jump: 0 }
    }

    /// The same in so many blocks, each `jump` after the one before.
    #[must_use]
    pub fn repeated(self, blocks: u32, jump: u32) -> Members {
        if self.ranks == 1 {
            return Members::new(self.first, jump, blocks);
        }
        Members { ranks: self.ranks * blocks, jump, ..self }
    }

    /// The GPU of rank number `rank`.
    #[must_use]
    pub fn gpu(&self, rank: u32) -> u32 {
        self.first + rank / self.block * self.jump + rank % self.block * self.stride
    }

    /// The rank of a GPU, if it is one of them.
    #[must_use]
    pub fn rank_of(&self, gpu: u32) -> Option<u32> {
        let offset = gpu.checked_sub(self.first)?;
        let block = offset.checked_div(self.jump).unwrap_or(0);
        let within = offset - block * self.jump;
        let place = within / self.stride.max(1);
        let rank = block * self.block + place;
        (place < self.block && rank < self.ranks).then_some(rank)
    }

    /// All of them, in the order of their ranks.
    pub fn gpus(self) -> impl Iterator<Item = u32> {
        (0..self.ranks).map(move |rank| self.gpu(rank))
    }
}

impl Job {
    /// GPUs of a stage of a model copy.
    #[must_use]
    pub fn ranks_of_stage(&self) -> u32 {
        self.parallelism.as_ref().map_or(1, |of| of.ranks())
    }

    /// Ranks that split each layer.
    #[must_use]
    pub fn tensor_ranks(&self) -> u32 {
        self.parallelism.as_ref().map_or(1, |of| of.tensor_ranks())
    }

    /// GPUs of a model copy: those of its stages, one stage after the other.
    fn gpus_of_copy(&self) -> u32 {
        (self.shares().len() as u32).saturating_mul(self.ranks_of_stage())
    }

    /// Nodes that a model copy is on.
    #[must_use]
    pub fn nodes_per_copy(&self) -> u32 {
        let each = self.parallelism.as_ref().map_or(u32::MAX, |of| of.gpus_per_node.max(1));
        self.gpus_of_copy().div_ceil(each)
    }

    /// How many nodes after the first one of its model copy the first GPU of stage number `stage` is.
    #[must_use]
    pub fn node_of_stage(&self, stage: u32) -> u32 {
        let gpu = stage * self.ranks_of_stage();
        self.parallelism.as_ref().map_or(0, |of| gpu / of.gpus_per_node.max(1))
    }

    /// GPUs that a model copy has on a node, at most.
    #[must_use]
    pub fn gpus_per_copy(&self) -> u64 {
        let each = self.parallelism.as_ref().map_or(u32::MAX, |of| of.gpus_per_node);
        u64::from(self.gpus_of_copy().min(each))
    }

    /// GPUs that it has on node number `node` of a job copy.
    #[must_use]
    pub fn gpus_on(&self, node: u32) -> u64 {
        let span = self.nodes_per_copy();
        if span == 1 {
            return u64::from(self.copies_on(node)) * self.gpus_per_copy();
        }
        let each = self.gpus_per_copy();
        (u64::from(self.gpus_of_copy()) - u64::from(node % span) * each).min(each)
    }

    /// Of all GPUs of a job copy, on which node of it each is, in order.
    #[must_use]
    pub fn nodes_of_gpus(&self) -> Vec<u32> {
        let on = |node| std::iter::repeat_n(node, self.gpus_on(node) as usize);
        (0..self.nodes).flat_map(on).collect()
    }

    /// GPUs of stage number `stage` of model copy `model`.
    #[must_use]
    pub fn stage_group(&self, model: u32, stage: u32) -> Members {
        let (stages, ranks) = (self.shares().len() as u32, self.ranks_of_stage());
        Members::new((model * stages + stage) * ranks, 1, ranks)
    }

    /// Those of a stage that split its layers for part `part` of each sequence.
    #[must_use]
    pub fn tensor_group(&self, model: u32, stage: u32, part: u32) -> Members {
        let ranks = self.tensor_ranks();
        Members::new(self.stage_group(model, stage).first + part * ranks, 1, ranks)
    }

    /// Those of a stage that split sequences, and have part `rank` of each layer.
    #[must_use]
    pub fn context_group(&self, model: u32, stage: u32, rank: u32) -> Members {
        let (first, tensor) = (self.stage_group(model, stage).first, self.tensor_ranks());
        Members::new(first + rank, tensor, self.ranks_of_stage() / tensor)
    }

    /// Those of all model copies that have part `rank` of each layer of stage number `stage`.
    #[must_use]
    pub fn data_group(&self, stage: u32, rank: u32) -> Members {
        let jump = self.shares().len() as u32 * self.ranks_of_stage();
        self.context_group(0, stage, rank).repeated(self.ranks(), jump)
    }

    /// Those with part `rank` of each layer of stage number `stage` of all model copies that hold the same experts as copy
    /// number `model`, which is one of the first that hold all experts together.
    #[must_use]
    pub fn expert_data_group(&self, stage: u32, model: u32, rank: u32) -> Members {
        let (first, apart) = (self.context_group(model, stage, rank), self.expert_ranks());
        first.repeated(self.ranks() / apart, apart * self.gpus_of_copy())
    }

    /// GPU number `place` of stage number `stage` of each of the model copies, from number `model` on, that hold all experts
    /// together.
    #[must_use]
    pub fn expert_group(&self, stage: u32, model: u32, place: u32) -> Members {
        let first = self.stage_group(model, stage).first + place;
        Members::new(first, self.gpus_of_copy(), self.expert_ranks())
    }

    /// Model copies that hold all experts together.
    #[must_use]
    pub fn expert_ranks(&self) -> u32 {
        self.parallelism.as_ref().map_or(1, |of| of.expert_ranks())
    }

    /// Programs that each stage needs, one for model copy i modulo their number.
    #[must_use]
    pub fn programs_of_stage(&self) -> u32 {
        let expert = self.parallelism.as_ref().and_then(|of| of.expert.as_ref());
        expert.map_or(1, |expert| expert.programs())
    }

    /// Whether its model copies and their GPUs are so many that they can be numbered.
    pub(crate) fn can_be_laid_out(&self) -> bool {
        let gpus = f64::from(self.ranks()) * f64::from(self.gpus_of_copy());
        gpus <= MOST_GPUS && self.ranks().is_multiple_of(self.expert_ranks())
    }

    /// `members` as libraries see them, of GPUs on these nodes.
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
    fn members_are_found_by_rank_and_by_gpu() {
        let plain = Members::new(3, 4, 3);
        assert_eq!(plain.gpus().collect::<Vec<u32>>(), [3, 7, 11]);
        // Two ranks next but one to each other in each of three model copies of eight GPUs.
        let blocks = Members::new(1, 2, 2).repeated(3, 8);
        assert_eq!(blocks.gpus().collect::<Vec<u32>>(), [1, 3, 9, 11, 17, 19]);
        for members in [plain, blocks] {
            let ranks = members.gpus().map(|gpu| members.rank_of(gpu));
            assert_eq!(ranks.flatten().collect::<Vec<u32>>(), Vec::from_iter(0..members.ranks));
        }
        assert_eq!([0, 5, 25, u32::MAX].map(|gpu| blocks.rank_of(gpu)), [None; 4]);
    }
}
