//! `forebay published --table storage`: compares predictions with official results of MLPerf Storage.

use super::output;
use crate::published::storage::{
    self, StorageCompared, StorageResult, StorageResults, StorageRole, target,
};
use crate::report::format::{number, seconds, share, signed_share};
use crate::stats::{mean, quantile};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, Table};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How far from the target of utilisation a result must lie to be counted as off it.
const OFF: f64 = 0.025;
/// First batches that are compared take at least this time [s].
const LONG: f64 = 4.0;

/// Returns the text of the scenario with which the result `of` (`SYSTEM:WORKLOAD-ACCELERATOR:RANKS`) is predicted; `None` if there is none.
pub(super) fn scenario(all: &StorageResults, of: &str) -> Option<String> {
    let (system, found) = all
        .systems
        .iter()
        .flat_map(|system| system.results.iter().map(move |result| (system, result)))
        .find(|(system, result)| format!("{}:{}", system.name, named(result)) == of)?;
    let law = storage::fit(all, &system.round, &found.workload, Some(&system.submitter));
    let beside = law.map_or_else(Default::default, |law| law.beside);
    let start = storage::start(all, system, found);
    Some(storage::scenario(system, found, system.bandwidth().0, &beside, start))
}

fn named(of: &StorageResult) -> String {
    format!("{}-{}:{}", of.workload, of.accelerator, of.ranks)
}

fn used(role: StorageRole) -> &'static str {
    match role {
        StorageRole::Bandwidth => "bandwidth",
        StorageRole::Held => "held out",
        StorageRole::PriceList => "price list",
        StorageRole::Single => "single",
    }
}

pub(super) fn text(compared: &[StorageCompared<'_>]) -> String {
    let mut rows = String::new();
    // Results of a system are beside each other.
    for of in compared.chunk_by(|a, b| a.system == b.system) {
        let Some(system) = of.first().map(|one| one.system) else { continue };
        let head = format!("{}: {}, {}", system.name, system.submitter, system.round);
        let _ = write!(rows, "{head}\n{}\n\n", of_system(of));
    }
    let mut means = table(&[
        "workload",
        "results",
        "mean",
        "worst",
        "within interval",
        "others' median",
        "bandwidth alone",
    ]);
    for (name, of) in groups(compared) {
        let errors = Errors::of(&of);
        means.add_row(cells(&[
            name,
            of.len().to_string(),
            share(errors.own[0]),
            share(errors.own[1]),
            errors.within.map_or("-".to_owned(), share),
            share(errors.constant),
            share(errors.bandwidth),
        ]));
    }
    let first = first_batches(compared).map_or_else(String::new, |(number, median)| {
        format!(
            "First batches of {} and more in later epochs, {number} results: half are predicted within {}.\n",
            seconds(LONG),
            share(median)
        )
    });
    format!(
        "{rows}\
         Predicted, and in brackets official, by the rules of the round; the first batch in later epochs. `--scenario SYSTEM:RESULT` prints \
         the scenario.\n\
         error            of samples per second; in brackets where the result's own are an input: they give its system's bandwidth\n\
         !                outside of where nine of ten results should lie, by the errors of other submitters' results\n\
         ranks            the most that reach the target of utilisation, in closed form, and in brackets those submitted\n\n\
         {means}\n\n\
         mean, worst      errors of samples per second of results that judge predictions\n\
         others' median   mean error of the median share of the fastest rate that other submitters reach\n\
         bandwidth alone  mean error of min(1, bandwidth / demand)\n\
         off the target   results more than {} points of utilisation from it\n{first}",
        number(100.0 * OFF)
    )
}

/// Returns the table of the results of one system.
fn of_system(of: &[StorageCompared<'_>]) -> Table {
    let mut rows =
        table(&["result", "samples/s", "error", "utilisation %", "first batch s", "ranks"]);
    // A result's name is an argument of `--scenario`.
    if let Some(names) = rows.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    for one in of {
        let official = one.result;
        let both = |predicted: String, official: String| format!("{predicted} ({official})");
        let error = signed_share(one.relative_error());
        let outside = one
            .interval90
            .is_some_and(|[low, high]| !(low..=high).contains(&official.samples_per_second));
        rows.add_row(cells(&[
            named(official),
            both(number(one.samples_per_second), number(official.samples_per_second)),
            match (one.is_judged(), outside) {
                (false, _) => format!("({error})"),
                (true, false) => error,
                (true, true) => format!("! {error}"),
            },
            both(number(100.0 * one.utilisation), number(100.0 * official.utilisation)),
            official
                .first_batch_later
                .map_or("-".to_owned(), |official| both(number(one.first_batch), number(official))),
            both(one.accelerators.to_string(), official.ranks.to_string()),
        ]));
    }
    rows
}

/// Groups the results that judge predictions by workload and round. Those off the target also have a group of their own.
fn groups<'c, 'p>(
    compared: &'c [StorageCompared<'p>],
) -> BTreeMap<String, Vec<&'c StorageCompared<'p>>> {
    let mut groups: BTreeMap<String, Vec<&StorageCompared<'_>>> = BTreeMap::new();
    for one in compared.iter().filter(|one| one.is_judged()) {
        let name = format!("{} {}", one.result.workload, one.system.round);
        if (one.result.utilisation - target(&one.result.workload)).abs() > OFF {
            groups.entry(format!("{name}, off the target")).or_default().push(one);
        }
        groups.entry(name).or_default().push(one);
    }
    groups
}

/// Errors of a group of results: mean and largest of the prediction, mean of the two simpler ones.
struct Errors {
    own: [f64; 2],
    /// Share of the results that lie in their intervals, of those that have one.
    within: Option<f64>,
    constant: f64,
    bandwidth: f64,
}

impl Errors {
    fn of(all: &[&StorageCompared<'_>]) -> Errors {
        let error = |of: &dyn Fn(&StorageCompared<'_>) -> f64| -> Vec<f64> {
            all.iter().map(|one| (of(one) / one.result.samples_per_second - 1.0).abs()).collect()
        };
        let own = error(&|one| one.samples_per_second);
        let mean_of = |errors: &[f64]| mean(errors).unwrap_or_default();
        let inside = all.iter().filter_map(|one| {
            let [low, high] = one.interval90?;
            Some(f64::from(u8::from((low..=high).contains(&one.result.samples_per_second))))
        });
        Errors {
            within: mean(&inside.collect::<Vec<_>>()),
            own: [mean_of(&own), own.iter().copied().fold(0.0, f64::max)],
            constant: mean_of(&error(&|one| one.constant)),
            bandwidth: mean_of(&error(&|one| one.bandwidth_only)),
        }
    }
}

/// Returns how many first batches of at least 4 s are predicted, each with its own official time held out, and the median of the relative
/// errors.
fn first_batches(compared: &[StorageCompared<'_>]) -> Option<(usize, f64)> {
    let judged = compared.iter().filter(|one| one.judges_first_batch);
    let long = judged.filter_map(|one| Some((one, one.result.first_batch_later?)));
    let long = long.filter(|(_, official)| *official >= LONG);
    let mut errors: Vec<f64> =
        long.map(|(one, official)| (one.first_batch / official - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    Some((errors.len(), quantile(&errors, 0.5)?))
}

pub(super) fn as_json(compared: &[StorageCompared<'_>]) -> serde_json::Value {
    let result = |one: &StorageCompared<'_>| {
        let of = one.result;
        json!({
            "system": one.system.name, "submitter": one.system.submitter, "round": one.system.round,
            "workload": of.workload, "accelerator": of.accelerator, "ranks": of.ranks, "hosts": of.hosts,
            "use": used(one.role), "bandwidth": one.bandwidth,
            "launch": { "work": one.beside.work, "threads": one.beside.threads, "varying": one.beside.varying,
                        "serial": one.beside.serial },
            "samples_per_second": { "predicted": one.samples_per_second, "official": of.samples_per_second,
                                    "relative_error": one.relative_error(), "interval90": one.interval90, "by_others_median": one.constant,
                                    "by_bandwidth_alone": one.bandwidth_only },
            "utilisation": { "predicted": one.utilisation, "official": of.utilisation },
            "first_batch": { "predicted": one.first_batch, "official": of.first_batch, "official_of_later_epochs": of.first_batch_later },
            "accelerators": { "predicted": one.accelerators, "submitted": of.ranks }, "path": of.path,
        })
    };
    let group = |(name, all): (String, Vec<&StorageCompared<'_>>)| {
        let errors = Errors::of(&all);
        let of = json!({
            "results": all.len(), "mean_error": errors.own[0], "worst_error": errors.own[1], "within_interval": errors.within,
            "mean_error_of_others_median": errors.constant, "mean_error_of_bandwidth_alone": errors.bandwidth,
        });
        (name, of)
    };
    json!({
        "results": compared.iter().map(result).collect::<Vec<_>>(),
        "errors": groups(compared).into_iter().map(group).collect::<serde_json::Map<_, _>>(),
        "median_error_of_long_first_batches": first_batches(compared).map(|(_, median)| median),
    })
}

fn table(header: &[&str]) -> Table {
    let mut table = output::table(false);
    table.set_header(header);
    table
}

fn cells(texts: &[String]) -> Vec<Cell> {
    let right = |index: usize| if index < 1 { CellAlignment::Left } else { CellAlignment::Right };
    let cell = |(index, text)| Cell::new(text).set_alignment(right(index));
    texts.iter().enumerate().map(cell).collect()
}
