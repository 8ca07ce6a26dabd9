//! `forebay published`: compares predictions with published measurements of clusters.

use super::parity::{self, Dots};
use super::paths::Paths;
use super::published_ranges::Judged;
use super::{
    Failure, input, output, points, published_ranges, published_storage, published_transfer,
    run_figure,
};
use crate::cli::{self, ReportFormat};
use crate::input::shown;
use crate::published::storage::{self, STORAGE, StorageResults};
use crate::published::{
    self, Absorbed, Compared, DATA_SHEET, Fit, Fitted, Group, Limit, Published, PublishedResult,
    Quantity, Rates, Role, SCALING, Transferred, Transfers, compare,
};
use crate::report::format::{number, share, signed_share};
use comfy_table::{Cell, CellAlignment, Table};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// Carries out the command.
pub(super) fn execute(wanted: &cli::Published) -> Result<(), Failure> {
    let paths = Paths::default().writes("--figure", wanted.figure.as_ref())?.prints(true);
    paths.reads_all("the published results", wanted.file.as_ref()).check()?;
    let kind = wanted.figure.as_deref().map(run_figure::kind).transpose()?;
    let pool = points::pool(None)?;
    match wanted.table {
        cli::PublishedTable::Training => {}
        cli::PublishedTable::Transfer => return pool.install(|| of_transfer(wanted)),
        cli::PublishedTable::Ranges => return pool.install(|| of_ranges(wanted)),
        cli::PublishedTable::Storage => return pool.install(|| of_storage(wanted)),
    }
    let published = read(wanted.file.as_deref())?;
    if let Some(of) = &wanted.scenario {
        return pool.install(|| scenario(&published, of));
    }
    let fitted = pool.install(|| published::fit(&published));
    let transfers = pool.install(|| published::transfers(&published));
    let compared = pool.install(|| compare(&published, &fitted, &transfers));
    if let (Some(path), Some(kind)) = (&wanted.figure, kind) {
        run_figure::save(path, kind, &figure(&compared))?;
    }
    let all = Training { published: &published, fitted, transfers, compared };
    print(wanted, || text(&all), || as_json(&all))
}

/// Results of training with their predictions, and what these rest on.
struct Training<'p> {
    published: &'p Published,
    fitted: Fitted,
    transfers: Transfers,
    compared: Vec<Compared<'p>>,
}

impl Training<'_> {
    /// Returns how far predictions of models that the fit of `group` did not use are off.
    fn transferred(&self, group: &Group) -> Option<Transferred> {
        let fit = self.fitted.get(group)?;
        let spans = self.published.group_spans_nodes(group);
        published::transferred(group, spans, None, fit.others, &self.transfers)
    }
}

/// Prints a table in the format that was asked for.
fn print(
    wanted: &cli::Published,
    text: impl FnOnce() -> String,
    json: impl FnOnce() -> serde_json::Value,
) -> Result<(), Failure> {
    match wanted.format {
        ReportFormat::Text => output::text(&text()),
        ReportFormat::Json => output::stdout(format!("{:#}\n", json()).as_bytes()),
    }
}

/// Refuses options of other tables.
fn has_table_only(wanted: &cli::Published, table: &str) -> Result<(), Failure> {
    for (given, option) in
        [(wanted.figure.is_some(), "--figure"), (wanted.scenario.is_some(), "--scenario")]
    {
        if given {
            let what = format!("{option} is of another table; leave out `--table {table}`");
            return Err(wrong(what));
        }
    }
    Ok(())
}

/// Predicts training on clusters of which only data sheets are known, and the same with one measurement of each transport.
fn of_ranges(wanted: &cli::Published) -> Result<(), Failure> {
    has_table_only(wanted, "ranges")?;
    let mut published = read(wanted.file.as_deref())?;
    if wanted.file.is_none() {
        let more = Published::parse("data-sheet.toml", DATA_SHEET).map_err(wrong)?;
        published.clusters.extend(more.clusters);
        published.results.extend(more.results);
    }
    let (fitted, transfers) = (published::fit(&published), published::transfers(&published));
    let compared = compare(&published, &fitted, &transfers);
    let all = Judged { over: published::over_ranges(&published), compared };
    print(wanted, || published_ranges::text(&all), || published_ranges::as_json(&all))
}

/// Predicts each model of a transport from the transport's other models.
fn of_transfer(wanted: &cli::Published) -> Result<(), Failure> {
    has_table_only(wanted, "transfer")?;
    let published = read(wanted.file.as_deref())?;
    let left_out = published::left_out(&published);
    print(wanted, || published_transfer::text(&left_out), || published_transfer::as_json(&left_out))
}

/// Compares predictions with results of storages.
fn of_storage(wanted: &cli::Published) -> Result<(), Failure> {
    if wanted.figure.is_some() {
        return Err(wrong("--figure draws results of training; leave out `--table storage`"));
    }
    let (name, all) = match wanted.file.as_deref() {
        None => ("mlperf.toml".to_owned(), StorageResults::parse("mlperf.toml", STORAGE)),
        Some(path) => (shown(path), StorageResults::parse(&shown(path), &input::toml(path)?)),
    };
    let all = all.map_err(wrong)?;
    if let Some(of) = &wanted.scenario {
        let text = published_storage::scenario(&all, of).ok_or_else(|| {
            wrong(format!(
                "--scenario {of:?} is no result; write SYSTEM:WORKLOAD-ACCELERATOR:RANKS as the table has them"
            ))
        })?;
        return output::stdout(text.as_bytes());
    }
    let compared = storage::compare(&name, &all).map_err(wrong)?;
    print(wanted, || published_storage::text(&compared), || published_storage::as_json(&compared))
}

fn read(file: Option<&Path>) -> Result<Published, Failure> {
    let Some(path) = file else {
        return Published::parse("scaling.toml", SCALING).map_err(wrong);
    };
    Published::parse(&shown(path), &input::toml(path)?).map_err(wrong)
}

fn wrong(error: impl ToString) -> Failure {
    Failure::Input(error.to_string())
}

/// Prints the scenario with which the result `of` (`SERIES:GPUS`) is predicted.
fn scenario(published: &Published, of: &str) -> Result<(), Failure> {
    let (series, gpus) = of.rsplit_once(':').unwrap_or((of, ""));
    let named = |result: &&PublishedResult| {
        result.series == series && result.gpus.to_string() == gpus && result.gpus > 1
    };
    let found = published.results.iter().find(named);
    let text = found.and_then(|result| {
        let fitted = published::fit_for(published, result);
        published::scenario(published, result, &published::constants(published, result, &fitted))
    });
    let Some(text) = text else {
        let what = format!("--scenario {of:?} is no predicted result");
        return Err(wrong(format!(
            "{what}; write SERIES:GPUS as the table of `published` has them"
        )));
    };
    output::stdout(text.as_bytes())
}

/// Returns the mean of the absolute relative errors.
fn mean(compared: &[&Compared<'_>]) -> f64 {
    let sum: f64 = compared.iter().map(|one| one.relative_error().abs()).sum();
    sum / compared.len().max(1) as f64
}

/// Groups results by cluster, transport and use, in order of names.
fn groups<'c, 'p>(compared: &'c [Compared<'p>]) -> BTreeMap<[&'p str; 3], Vec<&'c Compared<'p>>> {
    let mut groups: BTreeMap<[&str; 3], Vec<&Compared<'_>>> = BTreeMap::new();
    for one in compared {
        let of = one.result;
        groups.entry([&of.cluster, &of.transport, role(of)]).or_default().push(one);
    }
    groups
}

fn role(result: &PublishedResult) -> &'static str {
    match (result.role(), result.verified) {
        (Role::Fit, _) => "fitted",
        (_, false) => "unverified",
        _ => "held out",
    }
}

fn text(all: &Training<'_>) -> String {
    let compared = &all.compared;
    let sources = sources(compared);
    let place = |of: &PublishedResult| sources.iter().position(|known| *known == source(of));
    let mut rows = table(&[
        "series",
        "GPUs",
        "predicted",
        "90 % interval",
        "measured",
        "error",
        "use",
        "source",
    ]);
    for one in compared {
        let of = one.result;
        rows.add_row(cells(&[
            of.series.clone(),
            of.gpus.to_string(),
            value(of.quantity, one.predicted),
            one.interval90.map_or("-".to_owned(), |ends| interval(of.quantity, ends)),
            value(of.quantity, of.measured),
            signed_share(one.relative_error()),
            role(of).to_owned(),
            format!("[{}]", place(of).map_or(0, |place| place + 1)),
        ]));
    }
    let mut means = table(&["cluster", "transport", "use", "results", "mean error", "worst"]);
    for ([cluster, transport, role], all) in groups(compared) {
        let worst = all.iter().map(|one| one.relative_error().abs()).fold(0.0, f64::max);
        means.add_row(cells(&[
            cluster.to_owned(),
            transport.to_owned(),
            role.to_owned(),
            all.len().to_string(),
            share(mean(&all)),
            share(worst),
        ]));
    }
    let list = (1..).zip(&sources);
    let list: String = list.map(|(n, (name, url))| format!("[{n}] {name}, {url}\n")).collect();
    let inside = published::coverage(compared).map_or_else(String::new, |of| {
        format!(
            "Of {} held-out results {} lie in their 90 % intervals; {} if each of {} sources counts once.\n",
            of.results,
            share(of.of_results),
            share(of.of_sources),
            of.sources
        )
    });
    format!("{rows}\n\n{means}\n\n{inside}\n{}\n{list}", costs(all))
}

/// Returns the sources of results, each once, in the order of the results.
fn sources<'p>(compared: &[Compared<'p>]) -> Vec<(&'p str, &'p str)> {
    let mut sources = Vec::new();
    for one in compared.iter().map(|one| source(one.result)) {
        if !sources.contains(&one) {
            sources.push(one);
        }
    }
    sources
}

/// Returns the name and URL of a result's source.
fn source(of: &PublishedResult) -> (&str, &str) {
    (&of.source, &of.url)
}

/// Describes the fitted costs of each transport, how far predictions with them are off, and what they absorb.
fn costs(all: &Training<'_>) -> String {
    let line = |(group, fit): (&Group, &Fit)| {
        let ((site, transport), of) = (group, &fit.constants);
        let limits = [Limit::Inside, Limit::Between, Limit::Across].into_iter();
        let limits = limits.filter(|limit| limit.fitted(of).is_finite());
        let limit =
            |of: f64, limit: Limit| format!("{} GB/s {}, ", number(of / 1e9), limit.words());
        format!(
            "Fitted, {transport} of {site}: {} us a transfer, {}{} us a tensor.{}{}\n",
            number(of.latency * 1e6),
            limits.map(|one| limit(one.fitted(of), one)).collect::<String>(),
            number(of.per_tensor * 1e6),
            spreads(all, group, fit),
            absorbed(fit),
        )
    };
    all.fitted.iter().map(line).collect()
}

/// Describes how far predictions with a fit are off for its own models and for others.
fn spreads(all: &Training<'_>, group: &Group, fit: &Fit) -> String {
    let off = |root: f64| share(root.exp_m1());
    let models: Vec<&str> = fit.models.iter().map(String::as_str).collect();
    let residual = published::residual(group, &all.fitted).map_or_else(String::new, |of| {
        let pooled = if fit.freedom > 0 { "" } else { " (from other fits)" };
        format!("\n  Off {} by {}{pooled}", models.join(" and "), off(of.root()))
    });
    let transferred = all.transferred(group).map_or_else(String::new, |of| {
        let rates = match fit.others {
            Rates::Fitted => "",
            Rates::Nominal => ", at nominal rates, which predict models that are left out better",
        };
        let pooled = match of.pooled {
            true => " (from other transports: this one has fewer than three models)",
            false => " (each model left out)",
        };
        format!("\n  Off other models by {}{pooled}{rates}.", off(of.spread.root()))
    });
    let stop = if residual.is_empty() { "" } else { "." };
    format!("{residual}{stop}{transferred}")
}

/// Describes the fitted rates that the hardware does not explain; empty if there are none.
fn absorbed(fit: &Fit) -> String {
    if fit.absorbed.is_empty() {
        return String::new();
    }
    let one = |of: &Absorbed| {
        let (sold, times) = (number(of.sold / 1e9), number(of.factor()));
        format!("{} the link is sold at {sold} GB/s, {times} times as fast", of.limit.words())
    };
    let rates: Vec<String> = fit.absorbed.iter().map(one).collect();
    format!("\n  It absorbs something else than links: {}.", rates.join("; "))
}

fn value(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Throughput => format!("{} /s", number(value)),
        Quantity::Efficiency => share(value),
        Quantity::StepGrowth => format!("x {}", number(value)),
        Quantity::EpochTime => format!("{} s", number(value)),
    }
}

/// Writes the ends of an interval beside a value that has the unit.
fn interval(quantity: Quantity, [low, high]: [f64; 2]) -> String {
    match quantity {
        Quantity::Efficiency => format!("{:.1} to {:.1}", 100.0 * low, 100.0 * high),
        _ => format!("{} to {}", number(low), number(high)),
    }
}

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = output::table(true);
    table.set_header(header);
    table
}

pub(super) fn cells(texts: &[String]) -> Vec<Cell> {
    let right = |index: usize| if index == 0 { CellAlignment::Left } else { CellAlignment::Right };
    let cell = |(index, text)| Cell::new(text).set_alignment(right(index));
    texts.iter().enumerate().map(cell).collect()
}

fn as_json(all: &Training<'_>) -> serde_json::Value {
    let result = |one: &Compared<'_>| {
        let of = one.result;
        json!({
            "series": of.series, "cluster": of.cluster, "model": of.model, "transport": of.transport,
            "batch": of.batch, "gpus": of.gpus, "unit": of.quantity.unit(), "use": role(of),
            "rates": published_transfer::word(one.rates),
            "predicted": one.predicted, "interval90": one.interval90, "measured": of.measured,
            "relative_error": one.relative_error(), "source": of.source, "url": of.url,
        })
    };
    let absorbed = |of: &Absorbed| {
        json!({
            "rate": of.limit.key(), "fitted": of.fitted, "sold": of.sold, "factor": of.factor(),
        })
    };
    let cost = |(group, fit): (&Group, &Fit)| {
        let ((site, transport), of) = (group, &fit.constants);
        let residual = published::residual(group, &all.fitted);
        let transferred = all.transferred(group);
        json!({
            "site": site, "transport": transport, "latency": of.latency, "per_stream_inside": of.inside,
            "per_stream": of.across, "uplink": of.between, "per_tensor": of.per_tensor,
            "models": fit.models, "rates_of_other_models": published_transfer::word(fit.others),
            "residual": residual.map(|of| json!({
                "root_mean_square_log": of.root(), "freedom": of.freedom, "from_other_fits": fit.freedom == 0,
            })),
            "transfer_error": transferred.map(|of| json!({
                "root_mean_square_log": of.spread.root(), "models_left_out": of.spread.freedom,
                "from_other_transports": of.pooled,
            })),
            "absorbs_something_else": !fit.absorbed.is_empty(),
            "absorbed": fit.absorbed.iter().map(absorbed).collect::<Vec<_>>(),
        })
    };
    json!({
        "results": all.compared.iter().map(result).collect::<Vec<_>>(),
        "inside_interval90": published::coverage(&all.compared).map(|of| json!({
            "results": of.results, "share_of_results": of.of_results,
            "sources": of.sources, "mean_share_of_sources": of.of_sources,
        })),
        "fitted": all.fitted.iter().map(cost).collect::<Vec<_>>(),
    })
}

/// Returns the parity plot of results whose quantity is throughput; other quantities are not in samples per second.
fn figure(compared: &[Compared<'_>]) -> crate::plot::Figure {
    let dots = |name: &'static str, uses: &str| {
        let of = compared.iter().filter(|one| one.result.quantity == Quantity::Throughput);
        let of = of.filter(|one| role(one.result) == uses);
        Dots { name, points: of.map(|one| (one.result.measured, one.predicted)).collect() }
    };
    let sets = vec![dots("held out", "held out"), dots("fitted", "fitted")];
    parity::figure("samples per second", "published results", sets)
}
