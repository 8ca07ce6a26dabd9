//! `forebay published --table ranges`: published training beside predictions from data sheets and from one measured rate.

use super::published::{cells, table};
use crate::published::{Compared, Coverage, OverRanges, PublishedResult, Role};
use crate::report::format::{number, share, signed_share};
use crate::stats::{mean, quantile};
use serde_json::json;
use std::collections::BTreeMap;

/// Predictions from data sheets, and predictions of the same results with one measured rate of each transport.
pub(super) struct Judged<'p> {
    pub(super) over: Vec<OverRanges<'p>>,
    pub(super) compared: Vec<Compared<'p>>,
}

impl<'p> Judged<'p> {
    /// Returns the predictions with a measured rate, of results that the rate was not fitted to.
    fn measured(&self) -> impl Iterator<Item = &Compared<'p>> {
        let is_one = |one: &&Compared<'p>| {
            let judges = one.result.role() == Role::HeldOut;
            judges && self.over.iter().any(|of| std::ptr::eq(of.result, one.result))
        };
        self.compared.iter().filter(is_one)
    }
}

/// Results of a source and a transport.
#[derive(Default)]
struct OfSource<'j, 'p> {
    over: Vec<&'j OverRanges<'p>>,
    measured: Vec<&'j Compared<'p>>,
}

fn groups<'j, 'p>(all: &'j Judged<'p>) -> BTreeMap<[&'p str; 2], OfSource<'j, 'p>> {
    let key = |of: &'p PublishedResult| [of.source.as_str(), of.transport.as_str()];
    let mut groups: BTreeMap<[&str; 2], OfSource<'_, '_>> = BTreeMap::new();
    for one in &all.over {
        groups.entry(key(one.result)).or_default().over.push(one);
    }
    for one in all.measured() {
        groups.entry(key(one.result)).or_default().measured.push(one);
    }
    groups
}

/// Returns the median ratio of the upper to the lower end of intervals.
fn width(intervals: impl Iterator<Item = [f64; 2]>) -> Option<f64> {
    let mut ratios: Vec<f64> = intervals.map(|[low, high]| high / low).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    quantile(&ratios, 0.5)
}

impl OfSource<'_, '_> {
    fn width(&self) -> Option<f64> {
        width(self.over.iter().map(|one| one.interval90))
    }

    fn width_if_measured(&self) -> Option<f64> {
        width(self.measured.iter().filter_map(|one| one.interval90))
    }

    fn inside(&self) -> usize {
        self.over.iter().filter(|one| one.is_inside()).count()
    }

    fn inside_if_measured(&self) -> usize {
        self.measured.iter().filter(|one| one.is_inside() == Some(true)).count()
    }

    /// Returns how much faster than measured runs are predicted at the rates of data sheets, mean of the relative errors.
    fn nominal(&self) -> f64 {
        let errors: Vec<f64> = self.over.iter().map(|one| one.speed_error()).collect();
        mean(&errors).unwrap_or(f64::NAN)
    }
}

/// Coverage of draws, of 90 % intervals, and of intervals with a measured rate.
fn coverage(all: &Judged<'_>) -> [Option<Coverage>; 3] {
    let over = |is: &dyn Fn(&OverRanges<'_>) -> bool| {
        Coverage::of(all.over.iter().map(|one| (one.result.source.as_str(), is(one))))
    };
    let measured = all.measured();
    let measured = measured.filter_map(|one| Some((one.result.source.as_str(), one.is_inside()?)));
    [over(&|one| one.is_drawn()), over(&|one| one.is_inside()), Coverage::of(measured)]
}

/// Returns the median ratio of the ends of draws, of intervals, and of intervals with what was measured.
fn widths(all: &Judged<'_>) -> [Option<f64>; 3] {
    [
        width(all.over.iter().map(|one| one.draws)),
        width(all.over.iter().map(|one| one.interval90)),
        width(all.measured().filter_map(|one| one.interval90)),
    ]
}

fn sentence(what: &str, of: Option<Coverage>, width: Option<f64>) -> String {
    let (Some(of), Some(width)) = (of, width) else { return String::new() };
    format!(
        "{what}: {} of {} results inside, {} with {} sources counted once each; median ratio of an interval's ends {}.\n",
        share(of.of_results),
        of.results,
        share(of.of_sources),
        of.sources,
        number(width),
    )
}

pub(super) fn text(all: &Judged<'_>) -> String {
    let mut rows = table(&[
        "transport",
        "source",
        "results",
        "faster",
        "inside",
        "ends",
        "held out",
        "inside",
        "ends",
    ]);
    let ends = |of: Option<f64>| of.map_or_else(String::new, |of| format!("× {}", number(of)));
    let mut sources: Vec<String> = Vec::new();
    for ([source, transport], of) in groups(all) {
        let url = of.over.first().map_or("", |one| one.result.url.as_str());
        if !sources.last().is_some_and(|last| last.starts_with(source)) {
            sources.push(format!("{source}, {url}"));
        }
        rows.add_row(cells(&[
            transport.to_owned(),
            format!("[{}]", sources.len()),
            of.over.len().to_string(),
            signed_share(of.nominal()),
            of.inside().to_string(),
            ends(of.width()),
            of.measured.len().to_string(),
            of.inside_if_measured().to_string(),
            ends(of.width_if_measured()),
        ]));
    }
    if all.over.is_empty() {
        return "No result takes a line with a range of published results.\n".to_owned();
    }
    let list = (1..).zip(&sources).map(|(n, source)| format!("[{n}] {source}\n"));
    let list: String = list.collect();
    let ([drawn, over, measured], [of_draws, of_intervals, of_measured]) =
        (coverage(all), widths(all));
    format!(
        "{rows}\n\n\
         Each cluster is known by its data sheets and the speed of one GPU. A publication judges no range that it is a source of.\n\
         results     that take a line with a range\n\
         faster      than measured, at the rates of data sheets: mean\n\
         inside      results in their 90 % interval: the draws, as far widened as other publications' results lie outside theirs; \
         then with the measured rate of the transport\n\
         ends        median ratio of an interval's upper to its lower end\n\
         held out    results from which no rate was taken\n\n{}{}{}\n{list}",
        sentence("Draws of what publications reached", drawn, of_draws),
        sentence("Draws, widened", over, of_intervals),
        sentence("With a measured rate of each transport", measured, of_measured),
    )
}

pub(super) fn as_json(all: &Judged<'_>) -> serde_json::Value {
    let result = |one: &OverRanges<'_>| {
        json!({
            "series": one.result.series, "gpus": one.result.gpus, "unit": one.result.quantity.unit(),
            "measured": one.result.measured, "nominal": one.nominal, "draws": one.draws,
            "interval90": one.interval90, "inside": one.is_inside(),
        })
    };
    let group = |([source, transport], of): ([&str; 2], OfSource<'_, '_>)| {
        json!({
            "source": source, "transport": transport, "mean_error_if_nominal": of.nominal(),
            "inside": of.inside(), "ratio_of_ends": of.width(),
            "if_measured": {
                "results": of.measured.len(), "inside": of.inside_if_measured(),
                "ratio_of_ends": of.width_if_measured(),
            },
            "results": of.over.iter().map(|one| result(one)).collect::<Vec<_>>(),
        })
    };
    let covered = |of: Option<Coverage>, ratio_of_ends: Option<f64>| {
        of.map(|of| {
            json!({
                "results": of.results, "of_results": of.of_results, "sources": of.sources,
                "of_sources": of.of_sources, "ratio_of_ends": ratio_of_ends,
            })
        })
    };
    let ([drawn, over, measured], [of_draws, of_intervals, of_measured]) =
        (coverage(all), widths(all));
    json!({
        "coverage_of_draws": covered(drawn, of_draws),
        "coverage": covered(over, of_intervals),
        "coverage_if_measured": covered(measured, of_measured),
        "sources": groups(all).into_iter().map(group).collect::<Vec<_>>(),
    })
}
