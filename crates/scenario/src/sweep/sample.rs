//! Points drawn from the ranges of `[sweep]`: `sample = { sobol = 64 }`.

use super::MOST_VALUES;
use super::range::{count, only};
use crate::document::{Document, Kind, NodeId};
use crate::problem::Log;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Largest number of Sobol points.
const MOST_SOBOL: usize = 1 << 16;

/// How points are drawn from ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    kind: Kinds,
    points: usize,
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinds {
    /// Scrambled Sobol points, which fill all ranges evenly together.
    Sobol,
    /// Latin hypercube: each range is cut into as many parts as there are points, and each part has one point.
    LatinHypercube,
}

impl Sample {
    /// Reads `{ sobol = 64 }` or `{ latin-hypercube = 100, seed = 1 }`.
    pub(super) fn read(document: &Document, line: NodeId, log: &Log) -> Option<Sample> {
        let remedy = "write `sample = { sobol = 64 }` or `sample = { latin-hypercube = 100 }`";
        if !matches!(document.node(line).kind, Kind::Table(_)) {
            log.value(line, "a table is expected", remedy);
            return None;
        }
        only(document, line, &["sobol", "latin-hypercube", "seed"], log)?;
        let of = |name: &str| document.member(line, name);
        let (kind, points) = match (of("sobol"), of("latin-hypercube")) {
            (Some(at), None) => (Kinds::Sobol, count(document, at, 1, MOST_SOBOL, log)?),
            (None, Some(at)) => (Kinds::LatinHypercube, count(document, at, 1, MOST_VALUES, log)?),
            _ => {
                log.value(line, "one kind of points is expected", remedy);
                return None;
            }
        };
        let seed =
            of("seed").map_or(Some(0), |at| count(document, at, 0, u32::MAX as usize, log))?;
        Some(Sample { kind, points, seed: seed as u64 })
    }

    /// Returns the points: for each, a number from 0 to below 1 for each of `ranges`.
    pub(super) fn points(self, ranges: usize) -> Box<dyn Iterator<Item = Vec<f64>>> {
        match self.kind {
            Kinds::Sobol => Box::new((0..self.points).map(move |point| {
                let dimension = |range: usize| {
                    sobol_burley::sample(point as u32, range as u32, self.seed as u32).into()
                };
                (0..ranges).map(dimension).collect()
            })),
            Kinds::LatinHypercube => {
                let parts = (0..ranges).map(|range| self.parts(range)).collect::<Vec<_>>();
                Box::new(
                    (0..self.points).map(move |point| parts.iter().map(|of| of[point]).collect()),
                )
            }
        }
    }

    /// Returns a place in each of the equal parts of a range, in random order. A range's places do not depend on how many ranges
    /// there are.
    fn parts(self, range: usize) -> Vec<f64> {
        let seed = self.seed << 32 | range as u64;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut parts: Vec<usize> = (0..self.points).collect();
        parts.shuffle(&mut random);
        let within = |part: usize| (part as f64 + random.random::<f64>()) / self.points as f64;
        parts.into_iter().map(within).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_latin_hypercube_has_one_point_in_every_range() {
        let sample = Sample { kind: Kinds::LatinHypercube, points: 50, seed: 3 };
        let points: Vec<Vec<f64>> = sample.points(4).collect();
        for range in 0..4 {
            let mut parts: Vec<usize> =
                points.iter().map(|point| (point[range] * 50.0) as usize).collect();
            assert!(!parts.is_sorted(), "range {range}");
            parts.sort_unstable();
            assert_eq!(parts, (0..50).collect::<Vec<_>>(), "range {range}");
        }
    }

    #[test]
    fn sobol_points_fill_every_quarter_of_two_ranges_equally() {
        // System: 64 points. Expectation: 16 in each of the four quarters, for every pair of ranges; another seed, other points.
        let of = |seed| Sample { kind: Kinds::Sobol, points: 64, seed }.points(5);
        let points: Vec<Vec<f64>> = of(0).collect();
        for (a, b) in [(0, 1), (1, 2), (0, 4), (3, 4)] {
            let mut quarters = [0; 4];
            for point in &points {
                quarters[2 * usize::from(point[a] >= 0.5) + usize::from(point[b] >= 0.5)] += 1;
            }
            assert_eq!(quarters, [16; 4], "ranges {a} and {b}");
        }
        assert_ne!(points, of(1).collect::<Vec<_>>());
    }
}
