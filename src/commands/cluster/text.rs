//! What a calibration of a cluster says: before it begins, what it will do; at the end, what it found.

use crate::cluster::crew::Crew;
use crate::cluster::survey::{Comparison, Report};
use crate::commands::output;
use crate::fit::Behind;
use crate::input::shown;
use crate::measurement::Sample;
use crate::probe::ClusterSettings;
use crate::profile::{Fit, NODE_VALUES, Parameter, Profile};
use crate::report::format::{bytes, number, rate, seconds, share, signed_share};
use crate::scenario::printable_line;
use crate::stats::quantile;
use comfy_table::CellAlignment;
use std::path::{Path, PathBuf};

/// Largest number of nodes that get a row.
const ROWS: usize = 40;

/// Returns the largest size of the working files of all nodes together [B].
pub(super) fn bytes_written(crew: &Crew, settings: &ClusterSettings, writes_files: bool) -> f64 {
    let nodes = crew.leaders().len() as f64;
    let streams = settings.streams.iter().map(|streams| streams.0).max().unwrap_or(1) as f64;
    let files: f64 = match writes_files {
        true => settings.files().iter().map(|(size, count)| (size * count) as f64).sum(),
        false => 0.0,
    };
    let checkpoints = settings.checkpoint.map_or(0.0, |size| size.0 as f64 * streams);
    nodes * (files + checkpoints)
}

/// Says what the nodes agree on, what differs, and what will be written, read and sent.
pub(super) fn before(
    crew: &Crew,
    settings: &ClusterSettings,
    comparison: &Comparison,
    directory: &Path,
    data: &[(PathBuf, u64)],
) -> String {
    let leaders = crew.leaders();
    let same: Vec<String> =
        comparison.same.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let mut text = format!("{} nodes agree on {}\n", leaders.len(), same.join(", "));
    for line in &comparison.differences {
        text.push_str(&format!("they differ in {line}\n"));
    }
    let count: u64 = settings.files().iter().map(|(_, count)| count).sum();
    let most = settings.most_bytes.map_or(200e9, |most| most.0 as f64);
    text.push_str(&match data.is_empty() {
        true => format!(
            "each node writes at most {count} files into {}; at most {} at once by all nodes, {} read and written in all\n",
            shown(directory),
            bytes(bytes_written(crew, settings, true)),
            bytes(most)
        ),
        false => format!(
            "the nodes read {} of your own files, and write nothing there; at most {} in all\n",
            data.len(),
            bytes(most)
        ),
    });
    text.push_str(&format!("clocks of the nodes are known within {}\n", seconds(crew.skew())));
    text
}

/// Says what was found.
pub(super) fn after(profile: &Profile, samples: &[Sample], report: &Report) -> String {
    let mut text = format!("{}\n\n{}\n", profile.provenance.machine, nodes(profile));
    for line in limits(profile) {
        text.push_str(&line);
        text.push('\n');
    }
    text.extend(beside(profile));
    text.extend(little(samples));
    text.extend(drift(samples));
    if report.late > 1e-3 {
        text.push_str(&format!("nodes began trials up to {} late\n", seconds(report.late)));
    }
    for of in &report.behind {
        text.push_str(&behind(of));
    }
    if report.behind.is_empty() && profile.node.len() > 1 {
        text.push_str("no node falls behind its siblings by 8 % or more\n");
    }
    text
}

/// Returns a table with a row for each node.
pub(in crate::commands) fn nodes(profile: &Profile) -> String {
    let used: Vec<&(&str, &str)> = NODE_VALUES
        .iter()
        .filter(|(name, _)| profile.node.values().any(|node| node.values.contains_key(*name)))
        .collect();
    let mut table = output::table(false);
    let mut header = vec!["node", "cores", "memory"];
    header.extend(used.iter().map(|(name, _)| *name));
    let columns = header.len();
    table.set_header(header);
    for (name, node) in profile.node.iter().take(ROWS) {
        let mut row = vec![printable_line(name), number(node.cores), bytes(node.memory)];
        row.extend(used.iter().map(|(quantity, unit)| match (node.value(quantity), *unit) {
            (None, _) => "-".to_owned(),
            (Some(value), "B/s") => rate(value, "B"),
            (Some(value), _) => format!("{:.1} %", 100.0 * value),
        }));
        table.add_row(row);
    }
    for column in 1..columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let spread = |name: &str| {
        let mut values: Vec<f64> =
            profile.node.values().filter_map(|node| node.value(name)).collect();
        values.sort_by(f64::total_cmp);
        let middle = quantile(&values, 0.5)?;
        let mut off: Vec<f64> = values.iter().map(|value| (value / middle - 1.0).abs()).collect();
        off.sort_by(f64::total_cmp);
        quantile(&off, 0.5)
    };
    if profile.node.len() > 1 {
        let mut row = vec!["spread".to_owned(), String::new(), String::new()];
        row.extend(used.iter().map(|(name, _)| spread(name).map_or("-".to_owned(), share)));
        table.add_row(row);
    }
    let more = profile.node.len().saturating_sub(ROWS);
    let more =
        if more > 0 { format!("\n… and {more} more, in the profile") } else { String::new() };
    format!(
        "{table}{more}\nsend, receive: to and from other nodes; read, write: shared storage; the rest is relative to the nodes' median. spread: half of the nodes are within it of the median.\n"
    )
}

/// Returns lines with the limits of network and storage.
fn limits(profile: &Profile) -> Vec<String> {
    let line = |what: &str, fit: &Fit| {
        let order = ["bandwidth", "per_client", "per_stream", "operations", "latency", "nodes"];
        let values: Vec<String> =
            order.iter().filter_map(|name| value(name, fit.parameters.get(*name)?)).collect();
        (!values.is_empty()).then(|| format!("{what}: {}", values.join(", ")))
    };
    let mut lines: Vec<String> = profile
        .network
        .iter()
        .filter_map(|(name, fit)| line(&format!("network {name}"), fit))
        .collect();
    lines.extend(
        profile.storage.iter().filter_map(|(name, fit)| line(&format!("storage {name}"), fit)),
    );
    for (transport, kinds) in &profile.transport {
        for (kind, fit) in kinds {
            let sizes = fit.measured_sizes();
            if let (Some(first), Some(last)) = (sizes.first(), sizes.last()) {
                lines.push(format!(
                    "{transport} {kind}: {} for {}, {} for {}",
                    seconds(first.1),
                    bytes(first.0),
                    seconds(last.1),
                    bytes(last.0)
                ));
            }
        }
    }
    lines
}

/// Returns a parameter in words; nothing for one that the trials did not reach.
fn value(name: &str, of: &Parameter) -> Option<String> {
    let is_known = of.unidentified.is_none() || (of.ci95.is_some() && of.value > 0.0);
    if !of.value.is_finite() || !is_known {
        return None;
    }
    let show = |value: f64| match of.unit.as_str() {
        "B/s" => rate(value, "B"),
        "s" => seconds(value),
        "1/s" => format!("{}/s", number(value)),
        _ => number(value),
    };
    let ends =
        of.ci95.map_or(String::new(), |[low, high]| format!(" [{}, {}]", show(low), show(high)));
    let name = name.replace('_', " ");
    Some(format!("{name} {}{ends}", show(of.value)))
}

/// Says how reads and all-reduce share a NIC.
pub(in crate::commands) fn beside(profile: &Profile) -> Option<String> {
    let fit = profile.beside.as_ref()?;
    let of = |name: &str| -> Option<String> {
        let parameter = fit.parameters.get(name)?;
        let ends = parameter
            .ci95
            .map_or(String::new(), |[low, high]| format!(" [{}, {}]", share(low), share(high)));
        Some(format!("{}{ends}", share(parameter.value)))
    };
    let known = match profile.unequal_shares() {
        Some(_) => "; a simulation, which shares a NIC equally, does not know this",
        None => "",
    };
    Some(format!(
        "reads beside all-reduce have {} of the rate that equal shares of the NIC give, and all-reduce {}{known}\n",
        of("reads")?,
        of("allreduce")?
    ))
}

/// Says how well the reads obey Little's law: requests under way = throughput × latency.
fn little(samples: &[Sample]) -> Option<String> {
    let off = |sample: &Sample| {
        let latency = sample.observed.get("latency_mean")?;
        Some((latency / sample.seconds_each() / sample.setting("streams") - 1.0).abs())
    };
    let reads = samples.iter().filter(|sample| sample.probe == "shared-read");
    let mut all: Vec<f64> = reads.filter_map(off).collect();
    all.sort_by(f64::total_cmp);
    let middle = quantile(&all, 0.5)?;
    Some(format!(
        "threads = throughput × latency holds within {} (median of reads)\n",
        share(middle)
    ))
}

/// Says how much the first reads have changed by the end.
fn drift(samples: &[Sample]) -> Option<String> {
    let last: Vec<&Sample> = samples.iter().filter(|sample| sample.probe == "drift").collect();
    let first = last.first()?;
    let same = |sample: &&Sample| {
        sample.probe == "shared-read"
            && sample.settings == first.settings
            && !sample.labels.contains_key(crate::fit::AGAIN)
    };
    let middle = |samples: Vec<&Sample>| {
        let mut rates: Vec<f64> =
            samples.iter().map(|sample| 1.0 / sample.seconds_each()).collect();
        rates.sort_by(f64::total_cmp);
        quantile(&rates, 0.5)
    };
    let change = middle(last.clone())? / middle(samples.iter().filter(same).collect())? - 1.0;
    Some(format!("the first reads again at the end: {}\n", signed_share(change)))
}

/// Says how a node falls behind.
fn behind(of: &Behind) -> String {
    let Behind { node, quantity, value, usual, siblings } = of;
    let (less, others) = (
        share(of.share()),
        match siblings {
            1 => "its sibling".to_owned(),
            count => format!("its {count} siblings"),
        },
    );
    let verb = match *quantity {
        "cores" => return format!("{node} has {value} cores, and {others} {usual}\n"),
        "send" => "sends",
        "receive" => "receives",
        "read" => "reads",
        "write" => "writes",
        "core" => "decodes on one core",
        "decode" => "decodes on all cores",
        "disk" => "reads its own disk",
        "step" => "trains",
        _ => "copies memory",
    };
    let values = match NODE_VALUES.iter().find(|(name, _)| name == quantity) {
        Some((_, "B/s")) => format!(": {} instead of {}", rate(*value, "B"), rate(*usual, "B")),
        _ => String::new(),
    };
    format!("{node} {verb} {less} slower than {others}{values}\n")
}

/// Says what is worse than in the profile that was checked.
pub(super) fn checked(worse: &[String]) -> String {
    match worse {
        [] => "nothing is worse than in the profile\n".to_owned(),
        lines => format!("worse than in the profile:\n  {}\n", lines.join("\n  ")),
    }
}
