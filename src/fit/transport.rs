//! Messages and collectives by size: ranges of sizes with a line each.
//!
//! Sizes at which another algorithm was used, where tables say so, have a line of their own. Within an
//! algorithm the borders of ranges are those that make Huber's loss least with Schwarz's price (1978) for
//! each further range, found by dynamic programming (Jackson et al., *An Algorithm for Optimal Partitioning
//! of Data on an Interval*, 2005). The noise is known before any line is: from how far sizes lie from
//! the straight line between their neighbours (Gasser, Sroka and Jennen-Steinmetz, 1986).

use super::bootstrap;
use super::by;
use super::cell::{Cell, Cells, Observation, median};
use super::estimate::{KEPT, rounded};
use super::shape::{Piece, Problem, Solution};
use crate::measurement::Sample;
use crate::profile::{Fit, Parameter};
use std::collections::BTreeMap;

const LINE: [Piece; 1] = [Piece { columns: 2, features: |x| [1.0, x[0], 0.0] }];
/// Fewest sizes of a range that no algorithm's name sets apart: two are on a line always.
const FEWEST: usize = 3;
/// Most sizes that are looked at.
const MOST: usize = 200;
/// Relative noise that every table has at least.
const FLOOR: f64 = 0.01;
/// Why a line through one size has the slope that it has.
const ONE_SIZE: &str =
    "only one size was measured: the line is that of all sizes, faster or slower as a whole";

/// Fits by transport, and by collective with ranks: `allreduce-8`.
pub(super) fn transports(
    samples: &[&Sample],
    draws: usize,
) -> BTreeMap<String, BTreeMap<String, Fit>> {
    let named = |s: &&&Sample| !s.label("transport").is_empty() && s.setting("ranks") >= 1.0;
    let samples: Vec<&Sample> = samples.iter().filter(named).copied().collect();
    let kind = |s: &Sample| format!("{}-{}", s.label("collective"), s.setting("ranks"));
    let of_transport = |group: &[&Sample]| {
        let fits = by(group, kind, |group| fit(group, draws));
        fits.into_iter().filter_map(|(kind, fit)| Some((kind, fit?))).collect::<BTreeMap<_, _>>()
    };
    let mut all = by(&samples, |s| s.label("transport").to_owned(), of_transport);
    all.retain(|_, fits| !fits.is_empty());
    all
}

/// The law of one collective on so many ranks.
fn fit(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let fastest = fastest(samples);
    let observation = |(sample, _): &(&Sample, &str)| Observation {
        x: vec![sample.setting("bytes")],
        value: sample.seconds_each(),
        at: sample.at,
    };
    let mut cells = Cells::new(fastest.iter().map(observation).collect());
    let every = cells.cells.len().div_ceil(MOST).max(1);
    cells.cells = cells.cells.into_iter().step_by(every).collect();
    let named = |cell: &Cell| {
        let same = |(sample, _): &&(&Sample, &str)| sample.setting("bytes") == cell.x[0];
        fastest.iter().find(same).map_or("", |(_, name)| *name)
    };
    let noise = noise(&cells.cells).max(FLOOR);
    let mut lines = Vec::new();
    let mut algorithms: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, cell) in cells.cells.iter().enumerate() {
        algorithms.entry(named(cell)).or_default().push(index);
    }
    for of in algorithms.values() {
        lines.extend(split(&cells, of, noise)?);
    }
    Some(Lines { cells: &cells, lines, noise }.fit(draws)?)
}

/// Trials of the algorithm that was the fastest at their size, with its name.
fn fastest<'a>(samples: &[&'a Sample]) -> Vec<(&'a Sample, &'a str)> {
    let mut sizes: BTreeMap<u64, BTreeMap<&str, Vec<&Sample>>> = BTreeMap::new();
    for &sample in samples {
        // Sizes are not negative: their bits are in order.
        let size = sample.setting("bytes").to_bits();
        sizes.entry(size).or_default().entry(sample.label("algorithm")).or_default().push(sample);
    }
    let time = |trials: &Vec<&Sample>| {
        median(&mut trials.iter().map(|trial| trial.seconds_each()).collect::<Vec<_>>())
    };
    let best = |algorithms: BTreeMap<&'a str, Vec<&'a Sample>>| {
        let least = algorithms.into_iter().min_by(|(_, a), (_, b)| time(a).total_cmp(&time(b)));
        least.map(|(name, trials)| trials.into_iter().map(move |trial| (trial, name)))
    };
    sizes.into_values().filter_map(best).flatten().collect()
}

/// Relative standard deviation of a size about the line between its neighbours.
fn noise(cells: &[Cell]) -> f64 {
    let off = |three: &[Cell]| {
        let share = (three[1].x[0] - three[0].x[0]) / (three[2].x[0] - three[0].x[0]);
        let ends = [(1.0 - share) * three[0].mean, share * three[2].mean];
        let spread = (three[1].mean.powi(2) + ends[0].powi(2) + ends[1].powi(2)).sqrt();
        (three[1].mean - ends[0] - ends[1]).abs() / spread
    };
    let mut all: Vec<f64> = cells.windows(3).map(off).collect();
    if all.is_empty() { 0.0 } else { 1.4826 * median(&mut all) }
}

/// The line through some cells.
fn line(cells: &Cells, of: &[usize], means: &[f64], noise: f64) -> Option<(Solution, f64)> {
    let settings: Vec<&[f64]> = of.iter().map(|index| &cells.cells[*index].x[..]).collect();
    let variances = of.iter().map(|index| cells.cells[*index].variance).collect();
    let means: Vec<f64> = of.iter().map(|index| means[*index]).collect();
    let problem = Problem::new(&LINE, &settings, variances);
    let solution = problem.refine(&means, &vec![0; of.len()], noise)?;
    let loss = solution.loss(&problem.deviations(noise));
    Some((solution, loss))
}

/// The cells of one algorithm in ranges: those of least loss and price.
fn split(cells: &Cells, of: &[usize], noise: f64) -> Option<Vec<Vec<usize>>> {
    let means = cells.means();
    // A border, and the two coefficients of another line.
    let price = 3.0 * (0.5 * (of.len() as f64).ln() + 0.5);
    // For each number of cells from the first on: the least cost, and where its last range begins.
    let mut best: Vec<Option<(f64, usize)>> = vec![None; of.len() + 1];
    for end in 1..=of.len() {
        for start in (0..end).filter(|start| *start == 0 || end - start >= FEWEST) {
            let before = match start {
                0 => 0.0,
                _ => match best[start] {
                    Some((cost, _)) if start >= FEWEST => cost + price,
                    _ => continue,
                },
            };
            let cost = before + line(cells, &of[start..end], &means, noise)?.1;
            if best[end].is_none_or(|(least, _)| cost < least) {
                best[end] = Some((cost, start));
            }
        }
    }
    let mut ranges = Vec::new();
    let mut end = of.len();
    while end > 0 {
        let (_, start) = best[end]?;
        ranges.push(of[start..end].to_vec());
        end = start;
    }
    Some(ranges)
}

/// Which cells are on which line.
struct Lines<'a> {
    cells: &'a Cells,
    lines: Vec<Vec<usize>>,
    noise: f64,
}

impl Lines<'_> {
    fn fit(&self, draws: usize) -> Option<Fit> {
        let means = self.cells.means();
        let coefficients = self.coefficients(&means)?;
        let ranges = self.ranges();
        let centre = self.values(&ranges, &coefficients);
        let used = 2 * self.lines.len();
        let misfit = self.misfit(&coefficients).max(self.noise);
        let again = |means: &[f64]| Some(self.values(&ranges, &self.coefficients(means)?));
        let freedom = bootstrap::freedom(self.cells, used);
        let all = bootstrap::draws(self.cells, misfit, &centre, draws, freedom, again);
        let names = names(ranges.len());
        let parameters = (0..names.len()).map(|index| {
            let parameter = self.parameter(index, &ranges, centre[index], &all);
            (names[index].clone(), parameter)
        });
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|index| &names[*index]);
        let drawn = |draw: &Vec<f64>| order.iter().map(|index| rounded(draw[*index])).collect();
        Some(Fit {
            parameters: parameters.collect(),
            samples: self.cells.count() as u64,
            residual: rounded(self.residual(&coefficients)),
            range: self
                .cells
                .range(0)
                .map(|range| ("bytes".to_owned(), range))
                .into_iter()
                .collect(),
            draws: all.iter().take(KEPT).map(drawn).collect(),
        })
    }

    /// Offset [s] and slope [s/B] of each line.
    fn coefficients(&self, means: &[f64]) -> Option<Vec<[f64; 2]>> {
        let all: Vec<usize> = (0..means.len()).collect();
        let of = |cells: &[usize]| {
            let found = line(self.cells, cells, means, self.noise)?.0.pieces[0]?;
            Some([found[0], found[1]])
        };
        let whole = of(&all)?;
        let at = |size: f64| whole[0] + whole[1] * size;
        let each = |cells: &Vec<usize>| match cells[..] {
            [one] => Some(whole.map(|part| part * means[one] / at(self.cells.cells[one].x[0]))),
            _ => of(cells),
        };
        self.lines.iter().map(each).collect()
    }

    /// Ranges in ascending order: line, and the sizes [B] on both sides of the border below it.
    fn ranges(&self) -> Vec<(usize, [f64; 2])> {
        let mut of: Vec<(usize, usize)> = Vec::new();
        for (number, cells) in self.lines.iter().enumerate() {
            of.extend(cells.iter().map(|cell| (*cell, number)));
        }
        of.sort_unstable();
        let size = |cell: usize| self.cells.cells[cell].x[0];
        let mut ranges: Vec<(usize, [f64; 2])> = Vec::new();
        for (cell, line) in of {
            if ranges.last().is_none_or(|(before, _)| *before != line) {
                let below = if cell == 0 { 0.0 } else { size(cell - 1) };
                ranges.push((line, [below, size(cell)]));
            }
        }
        ranges
    }

    /// The parameters in the order of their names: of the first range two, of others three.
    fn values(&self, ranges: &[(usize, [f64; 2])], lines: &[[f64; 2]]) -> Vec<f64> {
        let mut values = Vec::new();
        for (number, (line, [below, above])) in ranges.iter().enumerate() {
            values.extend(lines[*line]);
            if number > 0 {
                values.push((below.max(1.0) * above).sqrt());
            }
        }
        values
    }

    fn parameter(
        &self,
        index: usize,
        ranges: &[(usize, [f64; 2])],
        value: f64,
        draws: &[Vec<f64>],
    ) -> Parameter {
        let (range, part) = place(index);
        let (line, border) = ranges[range];
        let unit = ["s", "s/B", "B"][part].to_owned();
        if part == 2 {
            let ci95 = Some([border[0].min(value), border[1].max(value)].map(rounded));
            return Parameter { value: rounded(value), unit, ci95, unidentified: None };
        }
        let ci95 = bootstrap::interval(draws, index, value).map(|ends| ends.map(rounded));
        let unidentified = match ci95 {
            _ if self.lines[line].len() == 1 => Some(ONE_SIZE.to_owned()),
            None => Some("too few trials for an interval".to_owned()),
            Some([low, high]) if high - low <= value => None,
            Some(_) if value == 0.0 => Some("too small to be seen".to_owned()),
            Some(_) => Some("its interval is wider than the value".to_owned()),
        };
        Parameter { value: rounded(value), unit, ci95, unidentified }
    }

    /// |measured − fitted| ÷ measured of each value of each cell.
    fn errors(&self, lines: &[[f64; 2]]) -> Vec<f64> {
        let mut errors = Vec::new();
        for (number, cells) in self.lines.iter().enumerate() {
            for cell in cells.iter().map(|cell| &self.cells.cells[*cell]) {
                let fitted = lines[number][0] + lines[number][1] * cell.x[0];
                errors.extend(cell.values.iter().map(|value| (1.0 - fitted / value).abs()));
            }
        }
        errors
    }

    fn residual(&self, lines: &[[f64; 2]]) -> f64 {
        median(&mut self.errors(lines))
    }

    /// Relative standard deviation about the lines.
    fn misfit(&self, lines: &[[f64; 2]]) -> f64 {
        let errors = self.errors(lines);
        let free = errors.len().saturating_sub(2 * self.lines.len());
        let wider = (errors.len() as f64 / free.max(1) as f64).sqrt();
        1.4826 * wider * self.residual(lines)
    }
}

/// Range (from 0) and part (offset, slope, border) of parameter number `index`.
fn place(index: usize) -> (usize, usize) {
    if index < 2 { (0, index) } else { ((index - 2) / 3 + 1, (index - 2) % 3) }
}

/// Names of the parameters of so many ranges.
fn names(ranges: usize) -> Vec<String> {
    let name = |index: usize| {
        let (range, part) = place(index);
        format!("{}_{}", ["alpha", "beta", "from"][part], range + 1)
    };
    (0..3 * ranges - 1).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Generator, Purpose, Streams};
    use rand::RngExt;

    fn sample(algorithm: &str, bytes: f64, seconds: f64) -> Sample {
        let labels = [("transport", "t"), ("collective", "allreduce"), ("algorithm", algorithm)];
        Sample {
            probe: "collective".into(),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            settings: [("bytes".to_owned(), bytes), ("ranks".to_owned(), 4.0)].into(),
            trial: 0,
            operations: 1,
            seconds,
            core_seconds: 0.0,
            observed: BTreeMap::new(),
            excluded: None,
            at: 0.0,
        }
    }

    fn fitted(samples: &[Sample]) -> Option<Fit> {
        transports(&samples.iter().collect::<Vec<_>>(), 100).remove("t")?.remove("allreduce-4")
    }

    fn generator() -> Generator {
        Streams::new(5, 0).at(Purpose::Trial, 0, 0, 0)
    }

    /// Powers of two from 256 B on, with the noise of a share of the time.
    fn table(law: impl Fn(f64) -> f64, noise: f64, generator: &mut Generator) -> Vec<Sample> {
        let sizes = (8..28).map(|power| f64::from(1u32 << power));
        let mut noisy = |size: f64| law(size) * (1.0 + noise * (generator.random::<f64>() - 0.5));
        sizes
            .flat_map(|size| [sample("", size, noisy(size)), sample("", size, noisy(size))])
            .collect()
    }

    #[test]
    fn a_switch_of_protocol_is_found_with_both_lines() {
        // System: 5 us + 1 ns/B up to 16 KiB, 40 us + 0.1 ns/B above, trials that differ by 4 %.
        let law =
            |size: f64| if size <= 16_384.0 { 5e-6 + 1e-9 * size } else { 4e-5 + 1e-10 * size };
        let fit = fitted(&table(law, 0.04, &mut generator())).expect("a fit");
        let names: Vec<&String> = fit.parameters.keys().collect();
        assert_eq!(names, ["alpha_1", "alpha_2", "beta_1", "beta_2", "from_2"]);
        let expected = [("alpha_1", 5e-6), ("beta_1", 1e-9), ("alpha_2", 4e-5), ("beta_2", 1e-10)];
        for (name, value) in expected {
            let found = &fit.parameters[name];
            assert!((found.value / value - 1.0).abs() < 0.1, "{name}: {found:?}");
            let [low, high] = found.ci95.expect("an interval");
            assert!((low..=high).contains(&value), "{name}: {found:?}");
        }
        assert_eq!(fit.parameters["from_2"].ci95, Some([16_384.0, 32_768.0]));
        assert!(fit.residual < 0.02);
        let law = fit.transport().expect("a law");
        assert!((law.seconds(1e8, 0.0) / 1.004e-2 - 1.0).abs() < 0.03);
    }

    #[test]
    fn a_line_has_one_range_however_noisy_it_is() {
        for noise in [0.0, 0.05, 0.3] {
            let fit = fitted(&table(|size| 1e-5 + 2e-10 * size, noise, &mut generator()));
            assert_eq!(fit.expect("a fit").parameters.len(), 2, "{noise}");
        }
    }

    #[test]
    fn an_algorithm_in_the_middle_does_not_bend_the_line_of_the_other() {
        let ring = |size: f64| 1e-4 + 1e-9 * size;
        let mut all: Vec<Sample> =
            [1e4, 1e5, 1e7, 1e8].map(|size| sample("ring", size, ring(size))).into();
        all.push(sample("tree", 1e6, 3.0 * ring(1e6)));
        // Slower than the tree at its size: not taken.
        all.push(sample("ring", 1e6, 9.0 * ring(1e6)));
        let law = fitted(&all).and_then(|fit| fit.transport()).expect("a law");
        let at = |size: f64| law.seconds(size, 0.0) / ring(size);
        assert!((at(3e4) - 1.0).abs() < 0.01 && (at(5e7) - 1.0).abs() < 0.01);
        assert!((at(1e6) - 3.0).abs() < 0.01, "{}", at(1e6));
        assert_eq!(law.ranges().len(), 3);
        assert!((law.ranges()[1].from / 1e11_f64.sqrt() - 1.0).abs() < 1e-5);
    }

    #[test]
    fn what_tells_little_says_so_and_nothing_panics() {
        let one = fitted(&[sample("", 1e6, 1e-3)]).expect("a fit");
        assert!((one.transport().expect("a law").seconds(1e6, 0.0) - 1e-3).abs() < 1e-8);
        assert!(one.parameters.values().all(|p| p.unidentified.is_some()));
        assert_eq!(fitted(&[]), None);
        let bad = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300];
        let all: Vec<Sample> = bad.iter().flat_map(|a| bad.map(|b| sample("", *a, b))).collect();
        assert_eq!(fitted(&all), None);
        let many: Vec<Sample> = (1..3000).map(|n| sample("", f64::from(n), 1e-3)).collect();
        assert!(fitted(&many).is_some());
    }
}
