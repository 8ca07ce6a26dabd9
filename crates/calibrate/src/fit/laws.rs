//! Fits the laws of step, decode and read; each law is the maximum of several sums.

use super::cell::{Cell, Cells, Observation, median};
use super::estimate::{Law, Term, rounded};
use super::shape::Piece;
use crate::measurement::Sample;
use forebay_model::law::StepLaw;
use forebay_scenario::profile::{Fit, Ratio};
use std::collections::BTreeMap;

/// Shares of the highest observed rate. For each share, one start of the fit assumes that the highest rate limits all trials that
/// reach at least this share of the rate.
const NEAR: [f64; 3] = [0.97, 0.9, 0.75];

/// Groups samples into cells by `settings`.
pub(super) fn cells(
    samples: &[&Sample],
    settings: &[&str],
    value: impl Fn(&Sample) -> f64,
) -> Cells {
    let observation = |sample: &&Sample| Observation {
        x: settings.iter().map(|name| sample.setting(name)).collect(),
        value: value(sample),
        at: sample.at,
    };
    Cells::new(samples.iter().map(observation).collect())
}

const STEP: Law<'static> = Law {
    pieces: &[
        Piece { columns: 2, features: |x| [1.0, x[0], 0.0] },
        Piece { columns: 1, features: |_| [1.0, 0.0, 0.0] },
    ],
    terms: &[
        Term { name: "fixed", unit: "s", at: (0, 0), rate: false, unseen: "" },
        Term { name: "per_sample", unit: "s", at: (0, 1), rate: false, unseen: "" },
        Term {
            name: "floor",
            unit: "s",
            at: (1, 0),
            rate: false,
            unseen: "no batch was small enough to show a shortest step time",
        },
    ],
    settings: &["batch"],
};

/// Fits the time of a step as a function of the batch.
pub(super) fn step(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let cells = cells(samples, STEP.settings, seconds_on_cores);
    let n = cells.cells.len();
    // The floor binds the smallest batches; the line needs two other batches.
    let starts: Vec<Vec<usize>> = (0..n.saturating_sub(1).max(1))
        .map(|floor| (0..n).map(|cell| usize::from(cell < floor)).collect())
        .collect();
    let mut fit = STEP.fit(&cells, &starts, draws)?;
    draw_line_from_floor(&mut fit, &cells);
    centre_draws(&mut fit, &cells);
    fit.ratios = ratios(&fit, &cells);
    super::others::add_jitter(&mut fit, samples, draws);
    Some(fit)
}

/// Returns the time of one operation less what its threads waited for cores [s], because of others or of a quota. A simulation adds
/// such waits itself, from the number of cores and their speed. Steps on a GPU keep the waits of the host.
fn seconds_on_cores(sample: &Sample) -> f64 {
    let on_gpu = sample.settings.contains_key("gpu");
    let share = if on_gpu { 1.0 } else { super::others::got(sample) };
    share * sample.seconds_each()
}

/// Scales the draws of a step law so that at the measured batches their median is the law. Where a line fits badly, the few draws
/// that are kept lie apart, and more of them on one side: those of LeNet-5 on an H200, 12 % apart, were 5 % too slow.
fn centre_draws(fit: &mut Fit, cells: &Cells) {
    let Some(law) = fit.step() else { return };
    // In the order of the names: `fixed`, `floor`, `per_sample`.
    let drawn = |draw: &Vec<f64>| match draw[..] {
        [fixed, floor, per_sample] => Some(StepLaw { floor, fixed, per_sample }),
        _ => None,
    };
    let laws: Option<Vec<StepLaw>> = fit.draws.iter().map(drawn).collect();
    let Some(laws) = laws.filter(|laws| !laws.is_empty()) else { return };
    let off = |cell: &Cell| {
        let ratio = |of: &StepLaw| of.seconds(cell.x[0]) / law.seconds(cell.x[0]);
        median(&mut laws.iter().map(ratio).collect::<Vec<_>>()).ln()
    };
    let factor = (cells.cells.iter().map(off).sum::<f64>() / cells.cells.len() as f64).exp();
    if factor.is_finite() && factor > 0.0 {
        fit.draws.iter_mut().flatten().for_each(|value| *value = rounded(*value / factor));
    }
}

/// Returns each measured batch with the ratio of its measured to its fitted step time; nothing for a single batch.
fn ratios(fit: &Fit, cells: &Cells) -> Vec<Ratio> {
    let Some(law) = fit.step().filter(|_| cells.cells.len() > 1) else { return Vec::new() };
    let ratio = |cell: &Cell| {
        let batch = cell.x[0];
        Ratio { batch, ratio: rounded(cell.mean / law.seconds(batch)) }
    };
    let mut all: Vec<Ratio> = cells.cells.iter().map(ratio).collect();
    all.retain(|of| of.batch > 0.0 && Ratio::POSSIBLE.contains(&of.ratio));
    all.sort_by(|a, b| a.batch.total_cmp(&b.batch));
    all
}

/// Chooses the line of a step law if only the largest batch takes longer than the floor, so that every line through the largest
/// batch fits. Takes the line that also goes through the second-largest batch, because step times begin to grow soon after the
/// batch size at which the floor stops binding.
fn draw_line_from_floor(fit: &mut Fit, cells: &Cells) {
    const NAMES: [&str; 3] = ["fixed", "floor", "per_sample"];
    let named = |name: &str| fit.parameters.get(name);
    let open =
        named("fixed").is_some_and(|fixed| fixed.unidentified.is_some() && fixed.value == 0.0);
    let floor = named("floor").is_some_and(|floor| floor.value > 0.0);
    let mut by_batch: Vec<(f64, f64)> = cells.cells.iter().map(|c| (c.x[0], c.mean)).collect();
    by_batch.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (true, [.., (near, least), (far, _)]) = (open && floor, &by_batch[..]) else { return };
    let line = |[_, floor, per_sample]: [f64; 3]| {
        let slope = (per_sample * far - least) / (far - near);
        let fixed = least - slope * near;
        if slope > 0.0 && fixed > 0.0 { [fixed, floor, slope] } else { [0.0, floor, per_sample] }
    };
    let centre = line(NAMES.map(|name| named(name).map_or(0.0, |of| of.value)));
    if centre[0] == 0.0 {
        return;
    }
    for (name, value) in NAMES.into_iter().zip(centre) {
        if let Some(parameter) = fit.parameters.get_mut(name).filter(|_| name != "floor") {
            parameter.value = rounded(value);
            parameter.ci95 = None;
            parameter.unidentified = Some(
                "only the largest batch takes longer than `floor`: the line goes through the two largest; measure larger batches"
                    .to_owned(),
            );
        }
    }
    for draw in &mut fit.draws {
        if let Ok(values) = <[f64; 3]>::try_from(&draw[..]) {
            *draw = line(values).map(rounded).to_vec();
        }
    }
}

/// Returns the core time of one operation of a sample [core-s]: the processor time of its threads, or the wall time if the sample
/// has no processor time.
fn cores_each(sample: &Sample) -> f64 {
    let own = sample.core_seconds_each();
    if own > 0.0 { own } else { sample.seconds_each() }
}

const DECODE: Law<'static> = Law {
    pieces: &[Piece { columns: 3, features: |x| [1.0, x[0], x[1]] }],
    terms: &[
        Term { name: "fixed", unit: "core-s", at: (0, 0), rate: false, unseen: "" },
        Term { name: "per_byte", unit: "core-s/B", at: (0, 1), rate: false, unseen: "" },
        Term { name: "per_pixel", unit: "core-s", at: (0, 2), rate: false, unseen: "" },
    ],
    settings: &["bytes", "pixels"],
};

/// Law of decoding if bytes and pixels of the images are proportional. Its third setting is the size of an image: the mean of
/// bytes and pixels, each relative to its mean over all cells. Bytes and pixels each get half of the cost that depends on the
/// size.
const DECODE_TOGETHER: Law<'static> = Law {
    pieces: &[Piece { columns: 2, features: |x| [1.0, x[2], 0.0] }],
    terms: &[
        Term { name: "fixed", unit: "core-s", at: (0, 0), rate: false, unseen: "" },
        Term { name: "size", unit: "core-s", at: (0, 1), rate: false, unseen: "" },
    ],
    settings: &["bytes", "pixels"],
};

/// Returns the number of threads of a trial; 1 if it is not set.
fn threads(sample: &Sample) -> f64 {
    sample.settings.get("threads").copied().unwrap_or(1.0)
}

/// Fits the core-seconds of decoding as a function of stored bytes and pixels, from the trials with the fewest threads.
pub(super) fn decode(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let fewest = samples.iter().map(|s| threads(s)).reduce(f64::min)?;
    let alone = |sample: &&&Sample| threads(sample) <= fewest;
    let image = |sample: &&&Sample| DECODE.settings.iter().all(|name| sample.setting(name) >= 1.0);
    let alone: Vec<&Sample> = samples.iter().filter(alone).filter(image).copied().collect();
    let cells = cells(&alone, DECODE.settings, cores_each);
    let fit = DECODE.fit(&cells, &[vec![0; cells.cells.len()]], draws)?;
    let unknown = |name: &str| fit.parameters.get(name).is_some_and(|p| p.unidentified.is_some());
    if unknown("per_byte") && unknown("per_pixel") { together(cells, draws) } else { Some(fit) }
}

/// Fits decoding if the costs of bytes and pixels cannot be distinguished: half of the cost that depends on an image's size is
/// attributed to each.
fn together(mut cells: Cells, draws: usize) -> Option<Fit> {
    let count = cells.cells.len() as f64;
    let mean = |index: usize| cells.cells.iter().map(|c| c.x[index]).sum::<f64>() / count;
    let means = [mean(0), mean(1)];
    for cell in &mut cells.cells {
        let size = 0.5 * (cell.x[0] / means[0] + cell.x[1] / means[1]);
        cell.x.push(size);
    }
    let mut fit = DECODE_TOGETHER.fit(&cells, &[vec![0; cells.cells.len()]], draws)?;
    let size = fit.parameters.remove("size")?;
    let names = [("per_byte", "core-s/B", "per_pixel"), ("per_pixel", "core-s", "per_byte")];
    for ((name, unit, other), mean) in names.into_iter().zip(means) {
        let factor = 0.5 / mean;
        let mut part = size.clone();
        part.unit = unit.to_owned();
        part.value = rounded(size.value * factor);
        part.ci95 = size.ci95.map(|ends| ends.map(|end| rounded(end * factor)));
        part.unidentified = Some(format!(
            "cannot be told apart from `{other}`: bytes are proportional to pixels in these images; each gets half of the \
             cost"
        ));
        fit.parameters.insert(name.to_owned(), part);
    }
    if let Some(why) = fit.parameters.get_mut("fixed").and_then(|p| p.unidentified.as_mut()) {
        *why = why.replace("`size`", "`per_byte` and `per_pixel`");
    }
    for draw in &mut fit.draws {
        if let Some(size) = draw.pop() {
            draw.extend(means.map(|mean| rounded(0.5 * size / mean)));
        }
    }
    Some(fit)
}

/// Explanation if no trial shows the time of a single request, because the total limit of all readers bound every trial.
const NEVER_ALONE: &str = "all trials were bound by the total limit of all readers: no limit is assumed for a single \
                           request; measure with fewer readers to find it";

const READ: Law<'static> = Law {
    pieces: &[
        Piece { columns: 2, features: |x| [1.0 / x[1], x[0] / x[1], 0.0] },
        Piece { columns: 1, features: |x| [x[0], 0.0, 0.0] },
        Piece { columns: 1, features: |_| [1.0, 0.0, 0.0] },
    ],
    terms: &[
        Term { name: "latency", unit: "s", at: (0, 0), rate: false, unseen: NEVER_ALONE },
        Term { name: "per_stream", unit: "B/s", at: (0, 1), rate: true, unseen: NEVER_ALONE },
        Term {
            name: "bandwidth",
            unit: "B/s",
            at: (1, 0),
            rate: true,
            unseen: "no trial was bound by the total bandwidth of all readers: no limit is assumed",
        },
        Term {
            name: "operations",
            unit: "1/s",
            at: (2, 0),
            rate: true,
            unseen: "no trial was bound by the number of requests: no limit is assumed",
        },
    ],
    settings: &["size", "readers"],
};

/// The same where the storage serves one request after the other, and spends time on each besides its bytes.
const READ_IN_TURN: Law<'static> = Law {
    pieces: &[
        Piece { columns: 2, features: |x| [1.0 / x[1], x[0] / x[1], 0.0] },
        Piece { columns: 2, features: |x| [1.0, x[0], 0.0] },
    ],
    terms: &[
        Term { name: "latency", unit: "s", at: (0, 0), rate: false, unseen: NEVER_ALONE },
        Term { name: "per_stream", unit: "B/s", at: (0, 1), rate: true, unseen: NEVER_ALONE },
        Term { name: "overhead", unit: "s", at: (1, 0), rate: false, unseen: NEVER_BOUND },
        Term { name: "bandwidth", unit: "B/s", at: (1, 1), rate: true, unseen: NEVER_BOUND },
    ],
    settings: &["size", "readers"],
};

/// Explanation if no trial shows a limit of all readers together.
const NEVER_BOUND: &str =
    "no trial was bound by a limit of all readers together: no limit is assumed";

/// Difference of log-likelihoods from which data support one of two laws with as many parameters substantially.
const SUPPORT: f64 = 2.0;

const READ_CORES: Law<'static> = Law {
    pieces: &[Piece { columns: 2, features: |x| [1.0, x[0], 0.0] }],
    terms: &[
        Term { name: "cpu_fixed", unit: "core-s", at: (0, 0), rate: false, unseen: "" },
        Term { name: "cpu_per_byte", unit: "core-s/B", at: (0, 1), rate: false, unseen: "" },
    ],
    settings: &["size", "readers"],
};

/// Fits the time of a read as a function of size and number of readers in a closed loop, and the core time of readers.
pub(super) fn read(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let usable = |s: &&&Sample| s.setting("size") > 0.0 && s.setting("readers") > 0.0;
    let samples: Vec<&Sample> = samples.iter().filter(usable).copied().collect();
    let times = cells(&samples, READ.settings, Sample::seconds_each);
    let starts = starts_of_reads(&times);
    let fit = READ.fit(&times, &starts, draws)?;
    // Requests bind where bytes do.
    let together = |piece: &usize| (*piece).min(1);
    let starts: Vec<Vec<usize>> =
        starts.iter().map(|start| start.iter().map(together).collect()).collect();
    // Reads from memory have no turns.
    let waits = samples.iter().all(|sample| sample.label("access") != "warm");
    let in_turn = waits.then(|| READ_IN_TURN.fit(&times, &starts, draws)).flatten();
    let mut fit = in_turn.filter(|other| is_better(other, &fit, &times)).unwrap_or(fit);
    let cores = cells(&samples, READ_CORES.settings, Sample::core_seconds_each);
    if let Some(cpu) = READ_CORES.fit(&cores, &[vec![0; cores.cells.len()]], draws) {
        join(&mut fit, cpu);
    }
    super::others::add_latency_spread(&mut fit, &samples, draws);
    Some(fit)
}

/// Returns whether the times of `cells` support the law of reads in `one` substantially better than that in `other`.
fn is_better(one: &Fit, other: &Fit, cells: &Cells) -> bool {
    let squares = |fit: &Fit| -> Option<f64> {
        let law = fit.read()?;
        let off = |cell: &Cell| (cell.mean * law.requests_per_second(cell.x[0], cell.x[1])).ln();
        Some(cells.cells.iter().map(|cell| off(cell).powi(2)).sum())
    };
    let determined = one.parameters.get("overhead").is_some_and(|of| of.unidentified.is_none());
    let (Some(one), Some(other)) = (squares(one), squares(other)) else { return false };
    determined && 0.5 * cells.cells.len() as f64 * (other / one).ln() > SUPPORT
}

/// Returns assignments of cells to pieces from which the fit of reads starts. Cells near the highest observed rate of bytes or of
/// requests may be limited by this rate. In some starts, cells with the fewest readers count as not limited. The other starts let
/// these cells be limited too; they are tried only if there are several numbers of readers.
fn starts_of_reads(cells: &Cells) -> Vec<Vec<usize>> {
    let rate = |cell: &super::cell::Cell, bytes: bool| {
        if bytes { cell.x[0] / cell.mean } else { 1.0 / cell.mean }
    };
    let fewest = cells.cells.iter().map(|cell| cell.x[1]).fold(f64::INFINITY, f64::min);
    let highest = |bytes: bool| cells.cells.iter().map(|c| rate(c, bytes)).fold(0.0, f64::max);
    let (most_bytes, most_requests) = (highest(true), highest(false));
    // A share above one binds no cell.
    let levels = || std::iter::once(2.0).chain(NEAR);
    let several = cells.cells.iter().any(|cell| cell.x[1] > fewest);
    let mut starts = Vec::new();
    for (bytes, requests) in levels().flat_map(|bytes| levels().map(move |other| (bytes, other))) {
        for alone in [Some(fewest), several.then_some(0.0)].into_iter().flatten() {
            let piece = |cell: &Cell| match cell {
                cell if cell.x[1] <= alone => 0,
                cell if rate(cell, true) >= bytes * most_bytes => 1,
                cell if rate(cell, false) >= requests * most_requests => 2,
                _ => 0,
            };
            starts.push(cells.cells.iter().map(piece).collect());
        }
    }
    starts
}

/// Adds to `fit` the parameters of `other`, a fit to the same trials. Draws with the same number belong together, as both fits
/// use the same random deviates.
pub(super) fn join(fit: &mut Fit, other: Fit) {
    let names = |fit: &Fit| fit.parameters.keys().cloned().collect::<Vec<_>>();
    let (first, second) = (names(fit), names(&other));
    let joined = |(a, b): (&Vec<f64>, &Vec<f64>)| {
        let all = first.iter().zip(a).chain(second.iter().zip(b));
        all.collect::<BTreeMap<_, _>>().into_values().copied().collect()
    };
    fit.draws = fit.draws.iter().zip(&other.draws).map(joined).collect();
    fit.parameters.extend(other.parameters);
}
