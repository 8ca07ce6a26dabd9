//! Converts a published result into a scenario: the cluster follows from the catalogue, the speed of one GPU from measurements.

use super::constants::Constants;
use super::{Cluster, Precision, Published, PublishedResult, Quantity, Role};
use crate::catalogue::{gpu, interconnect};
use std::fmt::Write;

/// Returns the scenario of a run like that of `result`, but on `gpus` GPUs. `seconds` is the step time of one GPU alone.
pub(super) fn text(
    result: &PublishedResult,
    cluster: &Cluster,
    gpus: u32,
    seconds: f64,
    constants: &Constants,
) -> String {
    let per_node = cluster.gpus_per_node.min(gpus);
    let nodes = gpus.div_ceil(per_node);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |of: String| writeln!(text, "{of}").unwrap_or_default();
    line(format!("# {} on {gpus} GPUs: {}", result.series, cluster.about));
    line(format!("name = \"{}\"", result.series));
    line("[run]\nsteps = 3\nwarm_up = \"off\"\nreplications = 1".to_owned());
    line(format!("[cluster]\nnodes = {nodes}"));
    line("[cluster.node]\ncores = 1".to_owned());
    line(format!("gpus = {per_node}\nnics = {}", cluster.nics));
    line(intra(cluster, constants));
    if let Some(network) = network(cluster) {
        line(format!("[cluster.network]\nnic = \"{network} B/s\""));
    }
    line(
        "[storage.memory.memory]\n[dataset.d]\nsamples = 1000000000\nsample_size = \"1 B\""
            .to_owned(),
    );
    line(format!("[[job]]\nname = \"job\"\nnodes = {nodes}\nbatch = {}", result.batch));
    line("dataset = \"d\"\nstorage = \"memory\"\nloader.in-memory = {}".to_owned());
    line(format!("parallel.data.copies_per_node = {per_node}"));
    line(format!("model = {{ catalogue = \"{}\", step = \"{seconds} s\" }}", result.model));
    line("[job.sync.allreduce]\nfidelity = \"analytic\"".to_owned());
    line(format!("precision = \"{}\"", if sent_in_half(result) { "fp16" } else { "fp32" }));
    line(grouping(&result.framework).to_owned());
    line(algorithm(&result.transport).to_owned());
    line(constants.text());
    text
}

/// Returns the rate of a link of the catalogue [B/s].
fn rate(name: &str) -> f64 {
    interconnect(name).map_or(1.0, |link| link.bandwidth)
}

/// Returns the rate of the link between nodes [B/s].
pub(super) fn network(cluster: &Cluster) -> Option<f64> {
    cluster.network.as_deref().map(rate)
}

/// Returns the rate of the link between GPUs of a node that are not joined directly [B/s].
pub(super) fn beyond(cluster: &Cluster) -> Option<f64> {
    cluster.between.as_deref().map(rate)
}

/// Returns the key of a scenario that describes the links between the GPUs of a node.
fn intra(cluster: &Cluster, constants: &Constants) -> String {
    match (cluster.switch, &cluster.between) {
        (Some(switch), Some(between)) => format!(
            "intra = {{ kind = \"tree\", switch = {switch}, bandwidth = \"{} B/s\", uplink = \"{} B/s\" }}",
            rate(&cluster.inside),
            rate(between).min(constants.between)
        ),
        _ => format!("intra = {{ kind = \"switch\", bandwidth = \"{} B/s\" }}", inside(cluster)),
    }
}

/// Returns the largest rate at which a GPU sends to other GPUs of its node [B/s]: over all of its NVLinks, or over PCIe.
pub(super) fn inside(cluster: &Cluster) -> f64 {
    let links = gpu(&cluster.gpu).and_then(|gpu| gpu.nvlink);
    let number = links.filter(|(name, _)| *name == cluster.inside).map_or(1, |(_, links)| links);
    rate(&cluster.inside) * f64::from(number)
}

/// Returns the key of a scenario for how a framework groups gradients into buckets.
fn grouping(framework: &str) -> &'static str {
    if framework.contains("Horovod") {
        "fusion = { buffer = \"64 MiB\", cycle = \"5 ms\" }"
    } else {
        "buckets = \"25 MiB\""
    }
}

/// Returns the keys of a scenario for the all-reduce algorithm of a transport.
fn algorithm(transport: &str) -> &'static str {
    if transport.contains("halving-doubling") {
        "algorithm = \"hierarchical\"\ninner = \"ring\"\nouter = \"halving-doubling\""
    } else if transport.contains("parameter-server") {
        "algorithm = \"flat\""
    } else {
        "algorithm = \"ring\""
    }
}

/// Returns the step time of one GPU alone [s], if publications determine it. It is taken from the first of these that is
/// published: the throughput of one GPU in the same series; throughput and efficiency of equal runs; the throughput of one GPU in
/// another series; the epoch time on the fewest GPUs.
pub(super) fn alone(published: &Published, result: &PublishedResult) -> Option<f64> {
    let like = |other: &&PublishedResult| {
        other.model == result.model
            && other.precision == result.precision
            && other.batch == result.batch
            && (other.cluster == result.cluster)
    };
    let find = |of: &dyn Fn(&PublishedResult) -> bool, quantity: Quantity| {
        let mut all = published.results.iter().filter(like);
        all.find(|other| other.quantity == quantity && of(other))
    };
    let batch = f64::from(result.batch);
    let own = |other: &PublishedResult| other.gpus == 1 && other.series == result.series;
    if let Some(one) = find(&own, Quantity::Throughput) {
        return Some(batch / one.measured);
    }
    let same = |other: &PublishedResult| {
        other.gpus == result.gpus && other.transport == result.transport && other.baseline == 1
    };
    let pair = |of: &PublishedResult| of.gpus == result.gpus && of.source == result.source;
    if let (Some(throughput), Some(efficiency)) =
        (find(&pair, Quantity::Throughput), find(&same, Quantity::Efficiency))
    {
        let one = throughput.measured / (f64::from(result.gpus) * efficiency.measured);
        return Some(batch / one);
    }
    if let Some(one) = find(&|other| other.gpus == 1, Quantity::Throughput) {
        return Some(batch / one.measured);
    }
    let epoch = smallest_epoch(published, result)?;
    let samples = epoch.samples? as f64;
    Some(batch * f64::from(epoch.gpus) * epoch.measured / samples)
}

/// Returns the epoch time with the fewest GPUs among runs like that of `result`.
fn smallest_epoch<'p>(
    published: &'p Published,
    result: &PublishedResult,
) -> Option<&'p PublishedResult> {
    let epochs = published.results.iter().filter(|other| {
        other.quantity == Quantity::EpochTime
            && other.cluster == result.cluster
            && other.model == result.model
            && other.batch == result.batch
    });
    epochs.min_by_key(|other| other.gpus)
}

/// Returns whether `result` is an input of predictions: the speed of one GPU, or the epoch time from which that speed follows.
pub(super) fn is_input(published: &Published, result: &PublishedResult) -> bool {
    let one = |other: &PublishedResult| {
        other.role() == Role::Input
            && other.cluster == result.cluster
            && other.model == result.model
    };
    let epoch = result.quantity == Quantity::EpochTime
        && smallest_epoch(published, result).is_some_and(|least| least.gpus == result.gpus)
        && !published.results.iter().any(one);
    result.role() == Role::Input || epoch
}

/// Returns whether gradients are sent in 16 bits. NVIDIA's own programs do so in mixed precision; `tf_cnn_benchmarks` keeps
/// variables and gradients in 32 bits.
fn sent_in_half(result: &PublishedResult) -> bool {
    let all = result.framework.contains("tf_cnn_benchmarks");
    result.precision == Precision::Mixed && !all
}
