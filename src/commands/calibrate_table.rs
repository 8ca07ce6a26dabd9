//! The results of a calibration as text: a table and remarks.

use super::output;
use crate::probe::{Cell, CellSummary, End, Machine, Summary};
use crate::report::format;
use comfy_table::CellAlignment;
use std::collections::BTreeMap;

/// Returns the results as text: the machine, a table with a row for each kind of trial, and remarks.
pub(super) fn render(summary: &Summary, machine: &Machine) -> String {
    let mut text = format!("{}\n\n", machine.words());
    let mut table = output::table(false);
    table.set_header(["probe", "what", "trials", "not used", "per operation", "±", ""]);
    for cell in summary.cells.iter().filter(|cell| begun(cell)) {
        table.add_row(row(cell));
    }
    for column in [2, 3, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    text.push_str(&format!("{table}\n\n"));
    for line in remarks(summary, machine) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Returns whether the kind of trial `cell` gets a row: if a trial was made, or if its trials ended for a reason other than
/// [`End::Stopped`]. A probe that could not start gets no rows, because a message says what the probe lacked.
fn begun(cell: &CellSummary) -> bool {
    cell.end != End::Stopped || cell.used > 0 || !cell.excluded.is_empty()
}

fn row(cell: &CellSummary) -> [String; 7] {
    let excluded: u32 = cell.excluded.values().sum();
    let width = cell.interval.map(|[low, high]| (high - low) / 2.0 / cell.median);
    let end = match cell.end {
        End::Precise => "",
        End::MostTrials => "noisy",
        End::Drifts => "drifts",
        End::Excluded => "none to use",
        End::Budget => "time was up",
        End::Stopped => "stopped",
    };
    [
        cell.probe.clone(),
        what(&cell.cell),
        cell.used.to_string(),
        excluded.to_string(),
        if cell.used == 0 { "-".to_owned() } else { format::seconds(cell.median) },
        width.map_or("-".to_owned(), format::share),
        end.to_owned(),
    ]
}

/// Describes a kind of trial: `direct, readers 8, size 64 KiB`.
fn what(cell: &Cell) -> String {
    let labels = cell.labels.values().cloned().collect::<Vec<_>>().join(" ");
    let settings = cell.settings.iter().map(|(name, value)| match name.as_str() {
        "size" | "bytes" => format!("{name} {}", bytes(*value)),
        _ => format!("{name} {}", format::number(*value)),
    });
    let labels = (!labels.is_empty()).then_some(labels).into_iter();
    labels.chain(settings).collect::<Vec<_>>().join(", ")
}

/// Formats a size [B] as plans write it: `64 KiB` if it is a whole number of KiB or MiB, otherwise `70.1 kB`.
fn bytes(value: f64) -> String {
    let binary = [(1 << 20, "MiB"), (1 << 10, "KiB")].map(|(size, unit)| (f64::from(size), unit));
    match binary.iter().find(|(size, _)| value >= *size && value % size == 0.0) {
        Some((size, unit)) => format!("{} {unit}", value / size),
        None => format::bytes(value),
    }
}

/// Returns the lines below the table: why trials were not used, how many kinds of trials are precise enough, notes of probes,
/// and how to measure a GPU.
fn remarks(summary: &Summary, machine: &Machine) -> Vec<String> {
    let mut lines = Vec::new();
    let mut excluded: BTreeMap<&str, u32> = BTreeMap::new();
    for (why, count) in summary.cells.iter().flat_map(|cell| &cell.excluded) {
        *excluded.entry(why).or_default() += count;
    }
    for (why, count) in excluded {
        lines.push(format!("{count} trials not used: {why}"));
    }
    lines.extend(beside(summary));
    let count = |end: End| summary.cells.iter().filter(|cell| cell.end == end).count();
    lines.push(format!(
        "{} of {} kinds of trials reached the plan's precision; time ended {} others",
        count(End::Precise),
        summary.cells.len(),
        count(End::Budget)
    ));
    lines.extend(summary.notes.iter().map(|(probe, note)| format!("{probe}: {note}")));
    let on_gpu = |cell: &CellSummary| cell.cell.label("device").starts_with("cuda");
    if summary.cells.iter().any(on_gpu) {
        return lines;
    }
    lines.push(if machine.gpu {
        "a GPU is here: `forebay calibrate --plan gpu` measures it".into()
    } else {
        "no GPU here: step on CUDA and copy not measured".into()
    });
    lines
}

/// Returns a line that says how many trials ran beside others, and what those took; `None` if all ran alone.
fn beside(summary: &Summary) -> Option<String> {
    let mut what: BTreeMap<&str, u32> = BTreeMap::new();
    for (taken, count) in summary.cells.iter().flat_map(|cell| &cell.beside) {
        *what.entry(taken).or_default() += count;
    }
    // Trials of a trend are told apart only after they have counted.
    let drifted = |cell: &CellSummary| cell.excluded.get("a trend").copied().unwrap_or(0);
    let counted = |cell: &CellSummary| cell.used as u32 + drifted(cell);
    let (beside, of): (u32, u32) = (what.values().sum(), summary.cells.iter().map(counted).sum());
    let what: Vec<String> =
        what.iter().map(|(taken, count)| format!("{taken} in {count}")).collect();
    (beside > 0).then(|| {
        let what = what.join(", ");
        format!(
            "{beside} of {of} trials ran beside others ({what}); they count, and the profile also has the values alone"
        )
    })
}

/// Says which probes of a calibration measured nothing, and why; `None` if each measured something.
pub(super) fn missing(summary: &Summary) -> Option<String> {
    let each = |(probe, excluded): (&str, BTreeMap<&str, u32>)| {
        let why: Vec<String> =
            excluded.iter().map(|(why, count)| format!("{why}: {count}")).collect();
        match &why[..] {
            [] => format!("{probe} (time was up before its first trial)"),
            why => format!("{probe} (trials not used: {})", why.join(", ")),
        }
    };
    let all: Vec<String> = summary.unmeasured().into_iter().map(each).collect();
    (!all.is_empty()).then(|| {
        let all = all.join(", ");
        format!("nothing measured of {all}; give more time with --budget, or leave out the probe's table")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibration_settings_and_sizes_are_formatted_as_in_plans() {
        let cell = Cell::new(&[("access", "direct")], &[("size", 65536.0), ("readers", 8.0)]);
        assert_eq!(what(&cell), "direct, readers 8, size 64 KiB");
        assert_eq!([bytes(3145728.0), bytes(70123.0)], ["3 MiB", "70.12 kB"]);
    }
}
