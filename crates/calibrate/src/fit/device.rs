//! Fits the times of copies to GPUs as a linear function of size, and the GPU memory of learners as a linear function of the
//! batch size.

use super::estimate::{Law, Term, rounded};
use super::laws::cells;
use super::shape::Piece;
use crate::measurement::Sample;
use forebay_scenario::profile::Fit;

const LINE: [Piece; 1] = [Piece { columns: 2, features: |x| [1.0, x[0], 0.0] }];

const fn term(name: &'static str, unit: &'static str, column: usize, rate: bool) -> Term {
    Term { name, unit, at: (0, column), rate, unseen: "" }
}

const COPY: Law<'static> = Law {
    pieces: &LINE,
    terms: &[term("latency", "s", 0, false), term("bandwidth", "B/s", 1, true)],
    settings: &["size"],
};

/// Fits the time of a copy as a function of its size.
pub(super) fn copy(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let cells = cells(samples, COPY.settings, Sample::seconds_each);
    COPY.fit(&cells, &[vec![0; cells.cells.len()]], draws)
}

/// Returns the key of a copy: the kind of host memory, what ran at the same time, and the number of threads that decoded. Examples are
/// `pinned`, `pinned-beside-step` and `staged-beside-decode-12`.
pub(super) fn copy_key(sample: &Sample) -> String {
    let threads = sample.settings.get("threads").map(|n| format!("-{n}")).unwrap_or_default();
    match (sample.label("memory"), sample.label("beside")) {
        (memory, "") => memory.to_owned(),
        (memory, beside) => format!("{memory}-beside-{beside}{threads}"),
    }
}

const MEMORY: Law<'static> = Law {
    pieces: &LINE,
    terms: &[term("fixed", "B", 0, false), term("per_sample", "B", 1, false)],
    settings: &["batch"],
};

/// Fits the GPU memory of a learner as a function of its batch size. The memory is the decrease of the GPU's free memory if the
/// trial observed it, otherwise the size of the allocated block.
pub(super) fn memory(samples: &[&Sample], draws: usize) -> Option<Fit> {
    /// Scale that brings the fitted numbers near 1.
    const GIGA: f64 = 1e9;
    let of = |name: &str, s: &Sample| s.observed.get(name).copied();
    let learners = |s: &Sample| s.settings.get("learners").copied().unwrap_or(1.0).max(1.0);
    let seen = |s: &Sample| Some(of("memory_taken", s)? / learners(s));
    let bytes = |s: &Sample| seen(s).or_else(|| of("memory", s)).unwrap_or(0.0);
    let cells = cells(samples, MEMORY.settings, |s| bytes(s) / GIGA);
    let mut fit = MEMORY.fit(&cells, &[vec![0; cells.cells.len()]], draws)?;
    for parameter in fit.parameters.values_mut() {
        parameter.value = rounded(parameter.value * GIGA);
        parameter.ci95 = parameter.ci95.map(|ends| ends.map(|end| rounded(end * GIGA)));
    }
    for value in fit.draws.iter_mut().flatten() {
        *value = rounded(*value * GIGA);
    }
    Some(fit)
}
