//! The content of a figure, as plain data.

use super::palette::{Colour, Theme};
use super::{Scale, Unit};

/// A figure: panels below a title.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figure {
    /// Title, or empty.
    pub title: String,
    /// Subtitle, or empty.
    pub subtitle: String,
    /// What signs in the figure mean, in a line below the titles.
    pub key: Vec<Key>,
    /// Panels in reading order.
    pub panels: Vec<Panel>,
    /// Number of panels side by side; at least 1.
    pub columns: usize,
    /// Width [px]; 0 for the default width.
    pub width: u32,
    /// Height of the drawing area of a panel of lines [px]; 0 for the default height.
    pub panel_height: u32,
    /// Colour theme.
    pub theme: Theme,
}

/// A sign with its meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The sign.
    pub sign: Sign,
    /// What it means, in words.
    pub text: String,
}

/// A way of drawing that needs an explanation in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A dot with a hole.
    Hollow,
    /// A pale bar with an outline.
    Pale,
    /// A cell of a heat map whose colour is only a border.
    Outlined,
    /// A hatched cell.
    Hatched,
    /// A shaded area around a curve.
    Band,
    /// A thin line with caps at both ends.
    Whisker,
    /// The front of a scatter.
    Front,
}

/// A part of a figure with its own axes.
#[derive(Debug, Clone, PartialEq)]
pub enum Panel {
    /// Curves.
    Lines(Lines),
    /// Stacked horizontal bars.
    Bars(Bars),
    /// A table of values as colours.
    Heat(Heat),
}

/// Curves with a common x axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lines {
    /// X axis.
    pub x: AxisSpec,
    /// Y axis.
    pub y: AxisSpec,
    /// The curves.
    pub series: Vec<Series>,
    /// Reference lines.
    pub marks: Vec<Mark>,
    /// Names beside points, as far as there is room.
    pub labels: Vec<Label>,
    /// Title of the legend (what distinguishes the curves), or empty.
    pub legend: String,
    /// Whether this panel shows the legend; false if another panel shows the same legend.
    pub legend_shown: bool,
    /// Names of the positions 0, 1, … on the x axis; empty if positions are numbers.
    pub categories: Vec<String>,
    /// Whether the panel below has the same x axis, so that this panel shows no tick labels.
    pub shares_x: bool,
}

/// The requested properties of an axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AxisSpec {
    /// Label.
    pub label: String,
    /// Unit of the values.
    pub unit: Unit,
    /// How values are mapped to positions.
    pub scale: Scale,
    /// Lower and upper end; `None` for an end that is computed from the data.
    pub range: [Option<f64>; 2],
    /// Where the recipe requests the axis, for messages: file with line and column, or empty.
    pub place: String,
}

/// A name beside a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// Position of the point on the x axis.
    pub x: f64,
    /// Position of the point on the y axis.
    pub y: f64,
    /// The name.
    pub text: String,
}

/// A curve.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points, in the order in which they are connected.
    pub points: Vec<Point>,
    /// Index of the colour. The eight colours repeat, so the index also determines the
    /// dashes.
    pub index: usize,
    /// How the points of the curve are drawn.
    pub style: Style,
}

/// How the points of a curve are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// A line connects the points; if the points are few, each is also marked by a dot.
    #[default]
    Auto,
    /// A line connects the points.
    Line,
    /// Steps connect the points: each value holds up to the next point.
    Steps,
    /// Dots without a line between them.
    Points,
    /// Vertical bars from zero, for named positions on the x axis.
    Bars,
    /// Dots that belong to another curve, and so have no entry in the legend.
    Dots,
    /// Steps without dots, in the colour of text, that have no entry in the legend: a front through points of other curves.
    Front,
}

impl Style {
    /// Returns whether a line connects the points.
    pub(super) fn joins(self) -> bool {
        match self {
            Style::Auto | Style::Line | Style::Steps | Style::Front => true,
            Style::Points | Style::Bars | Style::Dots => false,
        }
    }
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// Position on the x axis.
    pub x: f64,
    /// Value; `None` leaves a gap.
    pub y: Option<f64>,
    /// Ends of the value's interval.
    pub band: Option<[f64; 2]>,
    /// Whether the run was too short to show the long run: the dot is hollow, and the bar pale.
    pub short: bool,
}

/// A reference line across a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Position on the x axis if `vertical`, otherwise on the y axis.
    pub at: f64,
    /// Whether the line is vertical.
    pub vertical: bool,
    /// Label, or empty.
    pub label: String,
}

/// A heat map: a table whose cells are the darker, the larger their values are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Heat {
    /// Names of the rows from top to bottom.
    pub rows: Vec<String>,
    /// Names of the columns from left to right.
    pub columns: Vec<String>,
    /// For each row, the cell of each column; `None` leaves a gap, which is hatched if there is a colour bar.
    pub cells: Vec<Vec<Option<Cell>>>,
    /// Values of the faintest and of the darkest colour, without a colour bar.
    pub range: [f64; 2],
    /// Label below the columns.
    pub label: String,
    /// Label above the names of the rows, or empty.
    pub row_label: String,
    /// Axis of the colours, drawn as a bar above the cells (default: no bar).
    pub bar: Option<AxisSpec>,
}

/// A cell of a heat map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// Value, which determines the colour.
    pub value: f64,
    /// The value as text, shown if it fits.
    pub text: String,
    /// Whether the run was too short to show the long run: only the border has the colour.
    pub short: bool,
}

/// Stacked horizontal bars.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// X axis.
    pub x: AxisSpec,
    /// The parts that every bar consists of.
    pub parts: Vec<BarPart>,
    /// Bars from top to bottom.
    pub bars: Vec<Bar>,
}

/// A part that every bar has.
#[derive(Debug, Clone, PartialEq)]
pub struct BarPart {
    /// Name in the legend.
    pub name: String,
    /// Colour of the part.
    pub colour: Colour,
}

/// A bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bar {
    /// Name at its left.
    pub name: String,
    /// Length of each part, in the order of `parts`.
    pub lengths: Vec<f64>,
    /// Ends of the interval of the whole length, drawn as a whisker.
    pub band: Option<[f64; 2]>,
    /// Text behind the bar, or empty.
    pub text: String,
    /// Whether the run was too short to show the long run: the bar is pale.
    pub short: bool,
}
