//! Predicted against measured, with where they should lie.

use crate::plot::{AxisSpec, Figure, Lines, Panel, Point as Dot, Scale, Series, Style, Unit};
use crate::validate::Point;

/// The parity plot: dots with the predicted 90 % interval, the line where both are equal, and lines
/// 10 % beside it.
pub(super) fn parity(points: &[Point]) -> Figure {
    let rate = |point: &Point| point.measured().map(|run| run.samples_per_second);
    let rates = || points.iter().filter_map(rate).filter(|rate| *rate > 0.0);
    let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let line = |name: &str, factor: f64, index: usize| Series {
        name: name.to_owned(),
        points: [low, high]
            .map(|x| Dot { x, y: Some(factor * x), band: None })
            .into_iter()
            .filter(|dot| dot.x.is_finite() && dot.x > 0.0)
            .collect(),
        index,
        style: Style::Line,
    };
    let dots = |name: &str, of: fn(&Point) -> bool, index: usize| {
        let of = points.iter().filter(|point| of(point));
        let dot = |point: &Point| {
            let predicted = &point.predicted;
            let x = rate(point).filter(|rate| *rate > 0.0)?;
            Some(Dot { x, y: Some(predicted.median.samples_per_second), band: None })
        };
        Series {
            name: name.to_owned(),
            points: of.filter_map(dot).collect(),
            index,
            style: Style::Auto,
        }
    };
    let mut series =
        vec![line("equal", 1.0, 7), line("10 % more", 1.1, 6), line("10 % less", 0.9, 6)];
    let sets = [
        dots("held out", Point::counts, 0),
        dots("fit points", |point| !point.held_out, 1),
        dots("too noisy to count", |point| point.held_out && !point.counts(), 2),
    ];
    for mut set in sets {
        set.style = Style::Dots;
        series.push(set);
    }
    let axis = |label: &str| AxisSpec {
        label: label.to_owned(),
        unit: Unit::default(),
        scale: Scale::Log,
        range: [None, None],
    };
    let lines = Lines {
        x: axis("Measured samples per second"),
        y: axis("Predicted samples per second"),
        series,
        marks: Vec::new(),
        legend: String::new(),
        legend_shown: true,
        categories: Vec::new(),
        shares_x: false,
    };
    Figure {
        title: "Held out: blue; fit points: orange; too noisy to count: green".to_owned(),
        panels: vec![Panel::Lines(lines)],
        ..Figure::default()
    }
}
