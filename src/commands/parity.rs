//! Parity plots: predicted over measured values as dots, the line where both are equal, and lines 10 % above and below it.

use crate::plot::{AxisSpec, Figure, Lines, Panel, Point as Dot, Scale, Series, Style};

/// Dots of one colour: their name in the legend, and the measured and the predicted value of each dot.
pub(super) struct Dots {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// Returns the parity plot of `sets`; `what` names the quantity on both axes. The first set is blue, the next ones are orange
/// and green.
pub(super) fn figure(what: &str, title: &str, sets: Vec<Dots>) -> Figure {
    let measured = || sets.iter().flat_map(|set| &set.points).map(|(x, _)| *x);
    let (low, high) = (measured().fold(f64::INFINITY, f64::min), measured().fold(0.0, f64::max));
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
    let mut series =
        vec![line("equal", 1.0, 7), line("10 % more", 1.1, 6), line("10 % less", 0.9, 6)];
    series.extend(sets.iter().enumerate().map(|(index, set)| Series {
        name: set.name.to_owned(),
        points: set.points.iter().map(|(x, y)| Dot { x: *x, y: Some(*y), band: None }).collect(),
        index,
        style: Style::Dots,
    }));
    let axis = |label: String| AxisSpec { label, scale: Scale::Log, ..AxisSpec::default() };
    let lines = Lines {
        x: axis(format!("Measured {what}")),
        y: axis(format!("Predicted {what}")),
        series,
        marks: Vec::new(),
        legend: String::new(),
        legend_shown: true,
        categories: Vec::new(),
        shares_x: false,
    };
    Figure { title: title.to_owned(), panels: vec![Panel::Lines(lines)], ..Figure::default() }
}
