//! What a figure shows, as plain data.

use super::palette::{Colour, Theme};
use super::{Scale, Unit};

/// A figure: panels under a title.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figure {
    /// What it shows, or empty.
    pub title: String,
    /// What the title leaves to say, or empty.
    pub subtitle: String,
    /// In reading order.
    pub panels: Vec<Panel>,
    /// Panels side by side; at least 1.
    pub columns: usize,
    /// Width in pixels; 0 for the usual one.
    pub width: u32,
    /// Height of the drawing area of a panel of lines in pixels; 0 for the usual one.
    pub panel_height: u32,
    /// What it is drawn on.
    pub theme: Theme,
}

/// A part of a figure with axes of its own.
#[derive(Debug, Clone, PartialEq)]
pub enum Panel {
    /// Curves.
    Lines(Lines),
    /// Horizontal bars in parts.
    Bars(Bars),
}

/// Curves over a common axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// The axis below.
    pub x: AxisSpec,
    /// The axis at the left.
    pub y: AxisSpec,
    /// The curves.
    pub series: Vec<Series>,
    /// Reference lines.
    pub marks: Vec<Mark>,
    /// What the curves differ in, or empty.
    pub legend: String,
    /// Whether to show the legend here; another panel may have the same.
    pub legend_shown: bool,
    /// Names of the places 0, 1, … on the axis below, where they are not numbers.
    pub categories: Vec<String>,
    /// Whether the next panel below shows the same axis, so that this one need not.
    pub shares_x: bool,
}

/// An axis as asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AxisSpec {
    /// What it measures.
    pub label: String,
    /// In what.
    pub unit: Unit,
    /// How values become places.
    pub scale: Scale,
    /// Ends, where they are not to come from the data.
    pub range: [Option<f64>; 2],
    /// Where it was asked for, for messages: a file with line and column, or empty.
    pub place: String,
}

/// A curve.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// In the order in which to connect them.
    pub points: Vec<Point>,
    /// Which colour (and after eight, which dashes).
    pub index: usize,
    /// How its points are drawn.
    pub style: Style,
}

/// How the points of a curve are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// Connected, and as dots if they are few.
    #[default]
    Auto,
    /// Connected.
    Line,
    /// Each value holds up to the next point.
    Steps,
    /// As dots that nothing connects.
    Points,
    /// As upright bars from zero, where the places below are names.
    Bars,
    /// As dots; not in the legend, where the curve that they belong to is.
    Dots,
}

impl Style {
    /// Whether a line connects the points.
    pub(super) fn joins(self) -> bool {
        match self {
            Style::Auto | Style::Line | Style::Steps => true,
            Style::Points | Style::Bars | Style::Dots => false,
        }
    }
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// Place on the axis below.
    pub x: f64,
    /// Value; none leaves a gap.
    pub y: Option<f64>,
    /// Ends of its interval.
    pub band: Option<[f64; 2]>,
}

/// A reference line across a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Its place on the axis below if `vertical`, else on the other.
    pub at: f64,
    /// Which way it runs.
    pub vertical: bool,
    /// What it stands for, or empty.
    pub label: String,
}

/// Horizontal bars in parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// The axis below.
    pub x: AxisSpec,
    /// What the parts of all bars stand for.
    pub parts: Vec<BarPart>,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// What a part of every bar stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct BarPart {
    /// Name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
}

/// A bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Name at its left.
    pub name: String,
    /// Length of each part, in the order of the parts.
    pub lengths: Vec<f64>,
}
