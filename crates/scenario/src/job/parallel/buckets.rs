//! The gradients of a stage, and of its chunks.

use super::parallelism::Parallelism;
use crate::sync::{Bucket, Parameters, Root, Sync};

/// Parameters of a stage's chunk that a root broadcasts together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageParameters {
    /// Share of the chunk's first forward pass that runs before it needs the parameters.
    pub at: f64,
    /// Size of the parameters on each GPU of the stage [B].
    pub bytes: u64,
    /// Number of tensors that are broadcast together.
    pub tensors: u32,
    /// Whether the parameters belong to experts. Only some model copies hold the same experts.
    pub experts: bool,
}

/// Gradients of a stage's chunk that are reduced together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageBucket {
    /// Share of the chunk's last backward pass, or of its pass for gradients of weights, after which the gradients are
    /// reduced.
    pub at: f64,
    /// Share of a backward pass after which the gradients are computed; they may be reduced later.
    pub made: f64,
    /// Size of the gradients on each GPU of the stage, as they are exchanged among all model copies [B].
    pub bytes: u64,
    /// Size of the gradients before compression [B].
    pub raw: u64,
    /// Size of the parameters that these are the gradients of [B].
    pub parameters: u64,
    /// Number of tensors in the bucket.
    pub tensors: u32,
    /// Time that a GPU needs to compress the gradients once they are ready [s].
    pub compress: f64,
    /// Time for which a framework's fusion cycle delays the bucket beyond the end of backward, as a share of the
    /// model's step.
    pub late: f64,
    /// Whether the gradients belong to experts. Only some model copies hold the same experts.
    pub experts: bool,
}

impl Parallelism {
    /// Returns the buckets of gradients of chunk number `chunk`. `shares` are the chunks' shares of the time, in the
    /// model's order. Backward goes through the last chunk first, and each chunk has gradients in proportion to its
    /// parameters.
    #[must_use]
    pub fn buckets(&self, sync: &Sync, shares: &[f64], chunk: usize) -> Vec<StageBucket> {
        let after = |all: &[f64]| all[chunk + 1..].iter().sum::<f64>();
        let (begin, first) = (after(shares), after(&self.weights));
        let last = first + self.weights[chunk];
        let total: f64 = sync.buckets.iter().map(|bucket| bucket.raw as f64).sum();
        let parameters = sync.parameters_per_gradient();
        let mut end = 0.0;
        let share = self.expert.as_ref().map_or(0.0, |expert| expert.parameters[chunk]);
        let part = |bucket: &Bucket| {
            let from = f64::max(end, first);
            end += bucket.raw as f64 / total;
            let bytes = (end.min(last) - from).max(0.0) * total / f64::from(self.tensor_ranks());
            let of_chunk = |ready: f64| {
                let at =
                    (self.share_of_backward(ready) - begin) / shares[chunk].max(f64::MIN_POSITIVE);
                if at > 1.0 - 1e-9 { 1.0 } else { at.max(0.0) }
            };
            let (at, made) = (of_chunk(sync.ready(bucket)), of_chunk(bucket.ready));
            let late = (sync.ready(bucket) - 1.0).max(0.0);
            let parts = [(1.0 - share, 1, false), (share, self.expert_ranks(), true)];
            parts.map(|(share, ranks, experts)| {
                let tensors = (share * f64::from(bucket.tensors)).round() as u32;
                let raw = share * bytes / f64::from(ranks);
                let part = raw / (bucket.raw as f64).max(1.0);
                let bytes = if !sync.sparse && bucket.bytes == bucket.raw {
                    raw
                } else {
                    part * bucket.bytes as f64 * self.sparse_gather_factor(sync, ranks)
                };
                let (compress, parameters) = (bucket.compress * part, parameters * raw);
                let [raw, parameters] = [raw, parameters].map(|bytes| bytes.round() as u64);
                let bytes = (bytes.round() as u64).max(raw.min(1));
                StageBucket { at, made, bytes, raw, parameters, tensors, compress, late, experts }
            })
        };
        let all: Vec<StageBucket> = sync.buckets.iter().flat_map(part).collect();
        all.into_iter().filter(|bucket| bucket.raw > 0).collect()
    }

    /// Returns the parameters of chunk number `chunk` that a root broadcasts, in the order in which forward needs them.
    /// `shares` are the chunks' shares of the time, in the model's order.
    #[must_use]
    pub fn parameters(&self, root: &Root, shares: &[f64], chunk: usize) -> Vec<StageParameters> {
        let before = |all: &[f64]| all[..chunk].iter().sum::<f64>();
        let (begin, first) = (before(shares), before(&self.weights));
        let last = first + self.weights[chunk];
        let total: f64 = root.parameters.iter().map(|of| of.bytes as f64).sum();
        let share = self.expert.as_ref().map_or(0.0, |expert| expert.parameters[chunk]);
        let mut end = 0.0;
        let part = |of: &Parameters| {
            let from = f64::max(end, first);
            end += of.bytes as f64 / total;
            let bytes = (end.min(last) - from).max(0.0) * total / f64::from(self.tensor_ranks());
            let needed = of.needed / self.forward.max(f64::MIN_POSITIVE);
            let at = (needed - begin) / shares[chunk].max(f64::MIN_POSITIVE);
            let at = if at < 1e-9 { 0.0 } else { at.min(1.0) };
            let parts = [(1.0 - share, 1, false), (share, self.expert_ranks(), true)];
            parts.map(|(share, ranks, experts)| {
                let tensors = (share * f64::from(of.tensors)).round() as u32;
                let bytes = (share * bytes / f64::from(ranks)).round() as u64;
                StageParameters { at, bytes, tensors, experts }
            })
        };
        let all: Vec<StageParameters> = root.parameters.iter().flat_map(part).collect();
        all.into_iter().filter(|of| of.bytes > 0).collect()
    }

    /// Returns the factor by which gathered gradients exceed those of one rank for each model copy: a copy's sequences are split
    /// over ranks with sparse gradients of their own, and only one of `experts` model copies has the gradients of an expert. 1 for
    /// gradients that are summed.
    fn sparse_gather_factor(&self, sync: &Sync, experts: u32) -> f64 {
        match sync.sparse {
            true => f64::from(self.context_ranks()) / f64::from(experts),
            false => 1.0,
        }
    }

    /// Returns the time that a GPU of stage number `stage` needs to decompress the gradients that it receives in a
    /// reduction of its part of the model, for `copies` model copies [s]; a rank that keeps only a shard of the
    /// gradients (ZeRO) receives only the shard. Gradients of experts count only if `experts` is true, which means that
    /// other model copies hold the same experts.
    #[must_use]
    pub fn decompress(&self, sync: &Sync, stage: usize, (copies, experts): (u32, bool)) -> f64 {
        let (share, apart) = (self.experts_of(stage), self.expert_ranks());
        let (group, context) = (self.sharding_copies(copies), self.context_ranks());
        let received = |[copies, group]: [u32; 2]| match self.zero {
            0 => sync.received(copies.saturating_mul(context)),
            _ => 1.0 / f64::from(group.saturating_mul(context)),
        };
        let of_experts = [copies / apart, self.sharding_experts(group)];
        let of_experts = share / f64::from(apart) * received(of_experts);
        let dense = (1.0 - share) * received([copies, group]);
        let all = dense + if experts { of_experts } else { 0.0 };
        sync.decompress * self.weight(stage) * all / f64::from(self.tensor_ranks())
    }

    /// Converts `ready`, a share of the step's time, to the share of the backward pass that is done by then.
    fn share_of_backward(&self, ready: f64) -> f64 {
        ((ready - self.forward) / (1.0 - self.forward)).clamp(0.0, 1.0)
    }
}
