//! Fits what learners on one GPU add to each other's steps, and what an averaging of their models adds.

use super::additions::{self, Term};
use super::averages;
use super::cell::{Cell, Cells, Observation};
use super::laws::cells;
use crate::measurement::Sample;
use forebay_scenario::profile::Fit;

/// Fits the time that each other learner adds to a step; `None` unless some batch was trained both by one learner and by several.
pub(super) fn sharing(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let cells = cells(samples, &["batch", "learners"], Sample::seconds_each);
    let times = |alone: &Cell, beside: &Cell| {
        let [batch, learners] = beside.x[..] else { return None };
        (learners > 1.0 && alone.x == [batch, 1.0]).then_some(learners - 1.0)
    };
    let pairs = additions::pairs(&cells.cells, times);
    fit_in_range(cells, &pairs, Term::PerSample, draws)
}

/// Fits the time that an averaging takes for each learner of the GPU; `None` unless the same learners were timed with and without
/// averaging.
pub(super) fn averaging(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let observation = |sample: &&Sample| Observation {
        x: vec![
            sample.setting("batch"),
            sample.setting("learners"),
            averages(sample).unwrap_or(0.0),
        ],
        value: sample.seconds_each(),
        at: sample.at,
    };
    let cells = Cells::new(samples.iter().map(observation).collect());
    let times = |without: &Cell, with: &Cell| {
        let [batch, learners, every] = with.x[..] else { return None };
        (every > 0.0 && without.x == [batch, learners, 0.0]).then_some(learners / every)
    };
    let pairs = additions::pairs(&cells.cells, times);
    fit_in_range(cells, &pairs, Term::Fixed, draws)
}

/// Fits the addition to the cells of `pairs`, and adds the range of batches and learners.
fn fit_in_range(
    mut cells: Cells,
    pairs: &[additions::Pair],
    only: Term,
    draws: usize,
) -> Option<Fit> {
    let mut fit = additions::fit(&cells, pairs, only, draws)?;
    cells.keep(|index| pairs.iter().any(|pair| [pair.cells.0, pair.cells.1].contains(&index)));
    fit.samples = cells.count() as u64;
    let ends = |(index, name): (usize, &str)| Some((name.to_owned(), cells.range(index)?));
    fit.range = [(0, "batch"), (1, "learners")].into_iter().filter_map(ends).collect();
    Some(fit)
}
