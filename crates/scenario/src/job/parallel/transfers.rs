//! Numbers of transfers that the collectives of a step consist of.

use super::context::Context;
use super::expert::Expert;
use super::tensor::Tensor;
use crate::job::Job;
use crate::{Cluster, NicsAt, Parallelism, Reduction, Sync};
use forebay_collective::{Invalid, Operation};

/// Returns the mean number of transfers of a step that sum gradients or average parameters, for a model that is spread over GPUs.
pub(crate) fn gradient_transfers(
    job: &Job,
    cluster: &Cluster,
    sync: &Sync,
) -> Result<f64, Invalid> {
    let Some(of) = &job.parallelism else { return Ok(0.0) };
    let (nodes, mut sum) = (job.nodes_of_gpus(), 0.0);
    let every = if of.zero < 2 { job.interval() as f64 } else { 1.0 };
    let shares = of.schedule.chunk_shares(job.shares());
    for chunk in 0..shares.len() {
        let stage = of.schedule.holder(chunk, job.shares().len()).0 as u32;
        let members = [job.data_group(stage, 0), job.expert_data_group(stage, 0, 0)];
        let fabrics = members.map(|members| job.fabric_of(members, &nodes, cluster));
        for bucket in of.buckets(sync, &shares, chunk) {
            let (fabric, groups) =
                if bucket.experts { (&fabrics[1], of.expert_ranks()) } else { (&fabrics[0], 1) };
            let reduction = &sync.reduction;
            if job.averages_parameters() && !bucket.experts {
                let (copies, members) = (of.expert_ranks(), job.context_group(0, stage, 0));
                let jump = job.shares().len() as u32 * job.ranks_of_stage();
                let inner = job.fabric_of(members.repeated(copies, jump), &nodes, cluster);
                let each = reduction.collective(Operation::Allreduce, bucket.raw, &inner);
                let each = if inner.ranks < 2 { 0.0 } else { each.most_transfers()? };
                let groups = f64::from(job.ranks() / copies * of.tensor_ranks());
                sum += each * groups / job.accumulation as f64;
            }
            if fabric.ranks < 2 {
                continue;
            }
            for (operation, way, number) in ways(sync, of) {
                let bytes = match operation {
                    Operation::Allgather if of.zero > 0 => of.gathered_bytes(&bucket),
                    _ => bucket.bytes,
                };
                let each = way.collective(operation, bytes, fabric).most_transfers()?;
                let groups = f64::from(of.tensor_ranks() * groups);
                sum += each * f64::from(number) * groups / every;
            }
        }
    }
    Ok(sum)
}

/// Returns the number of transfers of a step's tensor parallel allreduces.
pub(crate) fn sum_transfers(job: &Job, cluster: &Cluster, tensor: &Tensor) -> Result<f64, Invalid> {
    let Some(of) = &job.parallelism else { return Ok(0.0) };
    let fabric = job.fabric_of(job.tensor_group(0, 0, 0), &job.nodes_of_gpus(), cluster);
    let bytes = (tensor.bytes / f64::from(of.micro_batches)).round() as u64;
    let each = tensor
        .method
        .reduction
        .collective(Operation::Allreduce, bytes, &fabric)
        .most_transfers()?;
    let sums = tensor.reductions.iter().map(|sums| f64::from(*sums)).sum::<f64>();
    Ok(each * 2.0 * sums * f64::from(of.micro_batches) * f64::from(job.gradient_ranks()))
}

/// Returns the number of transfers of a step that exchange keys, values and their gradients.
pub(crate) fn context_transfers(
    job: &Job,
    cluster: &Cluster,
    context: &Context,
) -> Result<f64, Invalid> {
    let Some(of) = &job.parallelism else { return Ok(0.0) };
    let fabric = job.fabric_of(job.context_group(0, 0, 0), &job.nodes_of_gpus(), cluster);
    let bytes = context.bytes_of_each(of);
    let mut each = 0.0;
    for operation in [Operation::Allgather, Operation::Allgather, Operation::ReduceScatter] {
        each += context.method.reduction.collective(operation, bytes, &fabric).most_transfers()?;
    }
    let attentions: f64 = context.attentions.iter().map(|number| f64::from(*number)).sum();
    let groups = f64::from(job.ranks()) * f64::from(of.tensor_ranks());
    Ok(each * attentions * f64::from(of.micro_batches) * groups)
}

/// Returns the number of transfers of a step that send tokens to experts and back.
pub(crate) fn dispatch_transfers(
    job: &Job,
    cluster: &Cluster,
    expert: &Expert,
) -> Result<f64, Invalid> {
    let Some(of) = &job.parallelism else { return Ok(0.0) };
    let fabric = job.fabric_of(job.expert_group(0, 0, 0), &job.nodes_of_gpus(), cluster);
    let bytes = expert.bytes_of_each(of);
    let each =
        expert.method.reduction.collective(Operation::AllToAll, bytes, &fabric).most_transfers()?;
    let groups = f64::from(job.ranks() / expert.ranks) * f64::from(of.ranks());
    Ok(each * 4.0 * layers(expert) * f64::from(of.micro_batches) * groups)
}

/// Returns the number of expert layers in all chunks.
pub(super) fn layers(expert: &Expert) -> f64 {
    expert.layers.iter().map(|number| f64::from(*number)).sum()
}

/// Returns whether the ranks that split a layer have the links of their node for themselves: simulating one allreduce
/// then gives the time of all.
pub(crate) fn sums_are_alone(job: &Job, cluster: &Cluster, of: &Tensor) -> bool {
    let fills = (0..job.nodes).all(|node| job.gpus_on(node) == u64::from(of.ranks));
    let apart = cluster.node.intra.tree.nics == NicsAt::Apart;
    fills && apart && !cluster.share_nodes
}

/// Returns the collectives of a step for a bucket, how each is done, and how often.
fn ways(sync: &Sync, of: &Parallelism) -> Vec<(Operation, Reduction, u32)> {
    match &sync.root {
        Some(root) => {
            vec![(Operation::Reduce, sync.reduction, 1), (Operation::Broadcast, root.broadcast, 1)]
        }
        None => {
            let all = operations(of.zero, of.micro_batches).into_iter();
            all.map(|(operation, number)| (operation, sync.reduction, number)).collect()
        }
    }
}

/// Returns the collectives of a step for a bucket of gradients at ZeRO's stage `zero`, and how often each is done.
pub(super) fn operations(zero: u32, micro_batches: u32) -> Vec<(Operation, u32)> {
    use Operation::{Allgather, Allreduce, ReduceScatter};
    match zero {
        0 => vec![(Allreduce, 1)],
        1 => vec![(ReduceScatter, 1), (Allgather, 1)],
        2 => vec![(ReduceScatter, micro_batches), (Allgather, 1)],
        _ => vec![(ReduceScatter, micro_batches), (Allgather, micro_batches.saturating_mul(2))],
    }
}
