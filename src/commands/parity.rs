//! Parity plots: predicted over measured values as dots, the line where both are equal, and lines 10 % above and below it.

use crate::plot::{AxisSpec, Figure, Lines, Panel, Point as Dot, Scale, Series, Style};

/// Dots of one colour: their name in the legend, and the measured and the predicted value of each dot.
pub(super) struct Dots {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// Largest error of a prediction that the title counts as near, and at which lines are drawn.
const NEAR: f64 = 0.1;

/// Returns the title of a parity plot whose held-out points are `held_out`, named `what`: how many predictions are near.
fn title(what: &str, held_out: &[(f64, f64)]) -> String {
    let is_near = |(measured, predicted): &&(f64, f64)| (predicted / measured - 1.0).abs() <= NEAR;
    let near = held_out.iter().filter(is_near).count();
    match held_out.len() {
        0 => format!("Predicted and measured: no {what} are held out"),
        all => {
            format!("{near} of {all} held-out {what} are predicted within {:.0} %", 100.0 * NEAR)
        }
    }
}

/// Returns the parity plot of `sets`; `quantity` is on both axes, and the title calls the points `what`. The first set has the
/// points that are held out from fits, and is blue; the next ones are orange and green.
pub(super) fn figure(quantity: &str, what: &str, sets: Vec<Dots>) -> Figure {
    let title = title(what, sets.first().map_or(&[], |held_out| &held_out.points));
    let measured = || sets.iter().flat_map(|set| &set.points).map(|(x, _)| *x);
    let (low, high) = (measured().fold(f64::INFINITY, f64::min), measured().fold(0.0, f64::max));
    let line = |name: &str, factor: f64, index: usize| Series {
        name: name.to_owned(),
        points: [low, high]
            .map(|x| Dot { x, y: Some(factor * x), ..Dot::default() })
            .into_iter()
            .filter(|dot| dot.x.is_finite() && dot.x > 0.0)
            .collect(),
        index,
        style: Style::Line,
    };
    let mut series = vec![
        line("equal", 1.0, 7),
        line("10 % more", 1.0 + NEAR, 6),
        line("10 % less", 1.0 - NEAR, 6),
    ];
    let dots = |(index, set): (usize, &Dots)| Series {
        name: set.name.to_owned(),
        points: set
            .points
            .iter()
            .map(|(x, y)| Dot { x: *x, y: Some(*y), ..Dot::default() })
            .collect(),
        index,
        style: Style::Points,
    };
    let drawn = sets.iter().enumerate().filter(|(_, set)| !set.points.is_empty());
    series.extend(drawn.map(dots));
    let axis = |label: String| AxisSpec { label, scale: Scale::Log, ..AxisSpec::default() };
    let lines = Lines {
        x: axis(format!("Measured {quantity}")),
        y: axis(format!("Predicted {quantity}")),
        series,
        marks: Vec::new(),
        labels: Vec::new(),
        legend: String::new(),
        legend_shown: true,
        categories: Vec::new(),
        shares_x: false,
    };
    Figure { title, panels: vec![Panel::Lines(lines)], ..Figure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_parity_plots_say_how_many_held_out_points_are_predicted_within_ten_per_cent() {
        let held_out =
            Dots { name: "held out", points: vec![(10.0, 10.9), (10.0, 8.9), (10.0, 9.1)] };
        let fit = Dots { name: "fit points", points: vec![(10.0, 20.0)] };
        let noisy = Dots { name: "too noisy to count", points: Vec::new() };
        let figure = super::figure("samples per second", "points", vec![held_out, fit, noisy]);
        assert_eq!(figure.title, "2 of 3 held-out points are predicted within 10 %");
        let [Panel::Lines(lines)] = &figure.panels[..] else { panic!("a panel") };
        let named: Vec<&str> = lines.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(named, ["equal", "10 % more", "10 % less", "held out", "fit points"]);
        assert!(
            lines.series[3..].iter().all(|series| series.style != Style::Dots),
            "in the legend"
        );
        let none = super::figure("samples per second", "points", Vec::new()).title;
        assert_eq!(none, "Predicted and measured: no points are held out");
    }
}
