//! The parity plot of a validation: predicted over measured throughput.

use super::parity::{self, Dots};
use crate::plot::Figure;
use crate::validate::Point;

/// Returns the parity plot of `points`.
pub(super) fn parity(points: &[Point]) -> Figure {
    let dots = |name: &'static str, of: fn(&Point) -> bool| {
        let dot = |point: &Point| {
            let measured = point.measured()?.samples_per_second;
            (measured > 0.0).then_some((measured, point.predicted.median.samples_per_second))
        };
        Dots { name, points: points.iter().filter(|point| of(point)).filter_map(dot).collect() }
    };
    let sets = vec![
        dots("held out", Point::counts),
        dots("fit points", |point| !point.held_out),
        dots("too noisy to count", Point::is_too_noisy),
    ];
    parity::figure("samples per second", "points", sets)
}
