//! Bytes that do not fit into a GPU's memory and are kept in the memory of its node.

use crate::Job;
use forebay_model::device_memory::Footprint;

/// Bytes that a GPU of a stage keeps in its node's memory, and fetches from there for each use [B].
///
/// Activations are moved out first: they are copied to the node during forward and back to the GPU during backward. The
/// next to be moved out are the optimizer's values, which are copied in both directions at the update. Then come
/// gradients, to which each backward pass adds and which the update needs, and at last parameters, which forward and
/// backward need and which the update changes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Swap {
    /// Activations of all micro-batches that are in progress at once.
    pub activations: f64,
    /// Values of the optimizer.
    pub optimizer: f64,
    /// Gradients.
    pub gradients: f64,
    /// Parameters.
    pub parameters: f64,
}

impl Swap {
    /// Returns the bytes of `held` that do not fit into `capacity`.
    pub(super) fn beyond(held: &Footprint, capacity: f64) -> Swap {
        let mut left = (held.total() - capacity).max(0.0);
        let mut take = |all: f64| {
            let taken = all.min(left);
            left -= taken;
            taken
        };
        let (activations, optimizer) = (take(held.activations), take(held.optimizer));
        let (gradients, parameters) = (take(held.gradients), take(held.parameters));
        Swap { activations, optimizer, gradients, parameters }
    }

    /// Returns all bytes in the node's memory [B].
    #[must_use]
    pub fn total(&self) -> f64 {
        self.activations + self.optimizer + self.gradients + self.parameters
    }
}

impl Job {
    /// Returns the bytes that the job's GPUs keep in their node's memory, on the node that has most of these GPUs [B].
    #[must_use]
    pub fn swapped(&self) -> f64 {
        let Some(parallelism) = &self.parallelism else { return 0.0 };
        let each: f64 = parallelism.swap.iter().map(Swap::total).sum();
        let stages = parallelism.swap.len().max(1) as f64;
        let most = (0..self.nodes.min(self.nodes_per_copy())).map(|node| self.gpus_on(node)).max();
        let here = if self.nodes_per_copy() == 1 {
            u64::from(self.copies_per_node) * self.gpus_per_copy()
        } else {
            most.unwrap_or(0)
        };
        each / stages * here as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_are_swapped_out_of_gpu_memory_first_and_parameters_last() {
        let held = Footprint {
            parameters: 2.0,
            gradients: 2.0,
            optimizer: 12.0,
            activations: 8.0,
            workspace: 1.0,
            ..Footprint::default()
        };
        let of = |capacity| {
            let Swap { activations, optimizer, gradients, parameters } =
                Swap::beyond(&held, capacity);
            [activations, optimizer, gradients, parameters]
        };
        assert_eq!(of(30.0), [0.0; 4]);
        assert_eq!(of(21.0), [4.0, 0.0, 0.0, 0.0]);
        assert_eq!(of(10.0), [8.0, 7.0, 0.0, 0.0]);
        assert_eq!(of(2.0), [8.0, 12.0, 2.0, 1.0]);
    }
}
