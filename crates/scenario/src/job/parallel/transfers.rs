//! Numbers of transfers that the collectives of a step consist of.

use super::buckets::StageBucket;
use super::context::Context;
use super::expert::Expert;
use super::placement::Members;
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
            if of.zero > 0 {
                sum += shard_transfers(job, (&nodes, cluster), (sync, stage), &bucket)?;
                continue;
            }
            for (operation, way, number) in ways(sync, of) {
                let each = way.collective(operation, bucket.bytes, fabric).most_transfers()?;
                let groups = f64::from(of.tensor_ranks() * groups);
                sum += each * f64::from(number) * groups / every;
            }
        }
    }
    Ok(sum)
}

/// Returns the mean number of transfers of a step with which ranks reduce a bucket of gradients of stage number `stage`, and gather
/// the parameters that they shard.
fn shard_transfers(
    job: &Job,
    (nodes, cluster): (&[u32], &Cluster),
    (sync, stage): (&Sync, u32),
    bucket: &StageBucket,
) -> Result<f64, Invalid> {
    let Some(of) = &job.parallelism else { return Ok(0.0) };
    let group = job.sharding_copies();
    let parts = if bucket.experts { of.expert_ranks() } else { 1 };
    let within = |group: u32| if bucket.experts { of.sharding_experts(group) } else { group };
    let all = if bucket.experts { job.copies_by_experts().next() } else { Some(job.all_copies()) };
    let Some(all) = all else { return Ok(0.0) };
    let transfers = |operation, bytes: u64, members: Option<Members>| {
        let fabric = members.map(|members| job.fabric_of(members, nodes, cluster));
        match fabric.filter(|fabric| fabric.ranks > 1) {
            Some(fabric) => sync.reduction.collective(operation, bytes, &fabric).most_transfers(),
            None => Ok(0.0),
        }
    };
    let own = |size: u32| all.groups(size).next().map(|copies| job.group_of(stage, 0, copies));
    let groups = |size: u32| f64::from(parts * of.tensor_ranks() * (all.number / size));
    let every = if of.zero < 2 { job.interval() as f64 } else { 1.0 };
    let (shard, mut sum) = (within(group), 0.0);
    for (operation, number) in operations(of.zero, of.micro_batches) {
        let gathers = operation == Operation::Allgather;
        let bytes = if gathers { of.gathered_bytes(bucket) } else { bucket.bytes };
        // Backward gathers from the secondary partition, if there is one.
        let (number, second) = match of.secondary_copies.filter(|_| gathers && of.zero == 3) {
            Some(copies) => (number / 2, Some(within(copies))),
            None => (number, None),
        };
        for size in [Some(shard), second].into_iter().flatten() {
            let each = transfers(operation, bytes, own(size))?;
            sum += each * f64::from(number) * groups(size) / every;
        }
    }
    if shard < all.number {
        let ranks = u64::from(shard * of.context_ranks());
        let across = all.across(shard).next();
        let across = across.and_then(|copies| job.replicas_of(stage, copies).next());
        let each = transfers(Operation::Allreduce, bucket.bytes.div_ceil(ranks), across)?;
        let groups = f64::from(parts * shard * of.ranks());
        sum += each * groups / job.interval() as f64;
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
