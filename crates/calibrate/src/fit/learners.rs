//! Fits what learners on one GPU add to each other's steps, and what an averaging of their models adds.

use super::additions::{self, Term};
use super::averages;
use super::cell::{Cell, Cells, Observation};
use super::laws::cells;
use crate::measurement::Sample;
use forebay_scenario::profile::Fit;

/// Fits the time that each other learner adds to a step; `None` unless several learners were timed with a batch that one learner was
/// timed with, or with one between two such batches.
pub(super) fn sharing(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let cells = cells(samples, &["batch", "learners"], Sample::seconds_each);
    let times = |beside: &Cell| Some(beside.x[1] - 1.0).filter(|others| *others > 0.0);
    let pairs = additions::pairs(&cells.cells, times, |alone, _| alone.x[1] == 1.0);
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
    let times = |with: &Cell| (with.x[2] > 0.0).then(|| with.x[1] / with.x[2]);
    let same = |without: &Cell, with: &Cell| without.x[1..] == [with.x[1], 0.0];
    let pairs = additions::pairs(&cells.cells, times, same);
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
    cells.keep(|index| pairs.iter().any(|pair| pair.uses(index)));
    fit.samples = cells.count() as u64;
    // Batches of cells without the addition, between which steps are interpolated, say nothing of where it was measured.
    let batches = pairs.iter().map(|pair| pair.batch);
    let ends = [batches.clone().fold(f64::INFINITY, f64::min), batches.fold(0.0, f64::max)];
    let learners = cells.range(1).map(|learners| ("learners".to_owned(), learners));
    fit.range = learners.into_iter().chain([("batch".to_owned(), ends)]).collect();
    Some(fit)
}
