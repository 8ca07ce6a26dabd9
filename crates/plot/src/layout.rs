//! Layout of a figure: panels in columns below a title, as wide as their labels permit.

use super::bars::BarsDrawing;
use super::heat::HeatDrawing;
use super::key;
use super::lines::LinesDrawing;
use super::naming::name_curves;
use super::palette::{GREY, INK, PAPER};
use super::shape::{Frame, Shape, Side, Text, rectangle};
use super::{Figure, Panel, PlotError, font};

/// Default width of a figure with one column, and of each column if there are several [px].
const WIDTH: [u32; 2] = [720, 480];
/// Default height of a panel of lines: in a figure with one panel, and in a figure with several [px].
const HEIGHT: [u32; 2] = [320, 150];
/// Width of the white border [px].
const BORDER: f64 = 14.0;
/// Distance between panels [px].
const GUTTER: f64 = 20.0;
/// Size of the title's text, and height of its line [px].
const TITLE: f64 = 15.0;
const TITLE_LINE: f64 = 30.0;
/// Size of the subtitle's text, and height of its line [px].
const SUBTITLE: f64 = 12.0;
const SUBTITLE_LINE: f64 = 18.0;
/// Distance from the key to the panels [px].
const KEY_GAP: f64 = 4.0;
/// Maximum width and height of a figure [px].
const LARGEST: f64 = 4000.0;

/// A figure after layout.
pub(super) struct Picture {
    /// Width and height [px].
    pub size: (u32, u32),
    /// Shapes from back to front.
    pub shapes: Vec<Shape>,
    /// Areas of values in the picture, each with the text that is shown when a reader points at it.
    pub hints: Vec<(Frame, String)>,
}

/// Room around a panel's frame [px].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Margins {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// A panel ready to be drawn.
enum Drawing<'a> {
    Lines(LinesDrawing<'a>),
    Bars(BarsDrawing<'a>),
    /// Bars that take the whole width of a figure with several columns.
    Wide(BarsDrawing<'a>),
    Heat(HeatDrawing<'a>),
}

impl Drawing<'_> {
    fn margins(&self) -> Margins {
        match self {
            Drawing::Lines(lines) => lines.margins(),
            Drawing::Bars(bars) | Drawing::Wide(bars) => bars.margins(),
            Drawing::Heat(heat) => heat.margins(),
        }
    }

    fn height(&self) -> f64 {
        match self {
            Drawing::Lines(lines) => lines.height(),
            Drawing::Bars(bars) | Drawing::Wide(bars) => bars.height(),
            Drawing::Heat(heat) => heat.height(),
        }
    }

    fn hints(&self, frame: &Frame) -> Vec<(Frame, String)> {
        match self {
            Drawing::Lines(lines) => lines.hints(frame),
            Drawing::Bars(bars) | Drawing::Wide(bars) => bars.hints(frame),
            Drawing::Heat(heat) => heat.hints(frame),
        }
    }

    fn draw(&self, frame: &Frame, shapes: &mut Vec<Shape>) {
        match self {
            Drawing::Lines(lines) => lines.draw(frame, shapes),
            Drawing::Bars(bars) | Drawing::Wide(bars) => bars.draw(frame, shapes),
            Drawing::Heat(heat) => heat.draw(frame, shapes),
        }
    }
}

/// Lays out a figure.
pub(super) fn picture(figure: &Figure) -> Result<Picture, PlotError> {
    if figure.panels.is_empty() {
        return Err(PlotError::NoData("the figure has no panels".into()));
    }
    let columns = figure.columns.clamp(1, figure.panels.len());
    let width = match (figure.width, columns) {
        (0, 1) => WIDTH[0],
        (0, _) => WIDTH[1] * columns as u32,
        (width, _) => width,
    };
    let cell = (f64::from(width) - 2.0 * BORDER + GUTTER) / columns as f64 - GUTTER;
    let drawings = drawings(figure, cell)?;
    let (mut shapes, mut hints) = (Vec::new(), Vec::new());
    let line = |text: &str, height: f64| if text.is_empty() { 0.0 } else { height };
    let titles = line(&figure.title, TITLE_LINE);
    let mut top = BORDER + titles + line(&figure.subtitle, SUBTITLE_LINE);
    let key = key::Lines::new(&figure.key, f64::from(width) - 2.0 * BORDER);
    key.draw((BORDER, top), &mut shapes);
    top += if figure.key.is_empty() { 0.0 } else { key.height() + KEY_GAP };
    for row in drawings.chunks(columns) {
        top += draw_row(row, &drawings, columns, cell, top, (&mut shapes, &mut hints));
    }
    let height = top - GUTTER + BORDER;
    if f64::from(width) > LARGEST || height > LARGEST {
        let what = format!(
            "the figure would be {width} px by {height:.0} px, and at most {LARGEST} px are drawn"
        );
        let remedy = "give it fewer lines or panels, or less `width` or `height`";
        return Err(PlotError::NoData(format!("{what}; {remedy}")));
    }
    let paper = Frame { left: 0.0, top: 0.0, right: f64::from(width), bottom: height.ceil() };
    let titles = title(figure, width).into_iter().chain(subtitle(figure, width, titles));
    let back = [rectangle(paper, PAPER, 1.0)].into_iter().chain(titles);
    let shapes = back.chain(shapes).map(|shape| shape.painted(figure.theme)).collect();
    Ok(Picture { size: (width, height.ceil() as u32), shapes, hints })
}

/// Prepares every panel for a cell of width `cell` [px].
fn drawings<'a>(figure: &'a Figure, cell: f64) -> Result<Vec<Drawing<'a>>, PlotError> {
    let usual = f64::from(HEIGHT[usize::from(figure.panels.len() > 1)]);
    let height = if figure.panel_height > 0 { f64::from(figure.panel_height) } else { usual };
    let columns = figure.columns.clamp(1, figure.panels.len().max(1));
    let whole = columns as f64 * (cell + GUTTER) - GUTTER;
    let prepare = |(index, panel): (usize, &'a Panel)| match panel {
        Panel::Bars(bars) if spans(&figure.panels, index, columns) => {
            BarsDrawing::new(bars, whole).map(Drawing::Wide)
        }
        Panel::Lines(lines) => {
            let xs = shared_places(&figure.panels, index);
            LinesDrawing::new(lines, &xs, cell, height).map(Drawing::Lines)
        }
        Panel::Bars(bars) => BarsDrawing::new(bars, cell).map(Drawing::Bars),
        Panel::Heat(heat) => HeatDrawing::new(heat, cell).map(Drawing::Heat),
    };
    let mut drawings: Vec<_> =
        figure.panels.iter().enumerate().map(prepare).collect::<Result<_, _>>()?;
    let lines = drawings.iter_mut().filter_map(|drawing| match drawing {
        Drawing::Lines(lines) => Some(lines),
        Drawing::Bars(_) | Drawing::Wide(_) | Drawing::Heat(_) => None,
    });
    name_curves(&mut lines.collect::<Vec<_>>(), cell);
    let margins = |drawing: &Drawing<'_>| drawing.margins().left + drawing.margins().right;
    let narrow = |drawing: &Drawing<'_>| {
        let room = if matches!(drawing, Drawing::Wide(_)) { whole } else { cell };
        margins(drawing) + 60.0 > room
    };
    if drawings.iter().any(narrow) {
        let why = "labels and legend leave no room for the data; write a larger `width` or shorter labels";
        return Err(PlotError::NoData(why.into()));
    }
    Ok(drawings)
}

/// Returns whether a panel of bars takes the whole width: the only one of the last row, with several columns.
fn spans(panels: &[Panel], index: usize, columns: usize) -> bool {
    columns > 1 && index + 1 == panels.len() && index.is_multiple_of(columns)
}

/// Returns the positions on the x axis of all visible points in the panels that share their x axis with this panel.
fn shared_places(panels: &[Panel], index: usize) -> Vec<f64> {
    let shares = |panel: &Panel| matches!(panel, Panel::Lines(lines) if lines.shares_x);
    let first = panels[..index].iter().rposition(|panel| !shares(panel)).map_or(0, |at| at + 1);
    let after = panels[index..].iter().position(|panel| !shares(panel)).unwrap_or(0);
    let mut places = Vec::new();
    for panel in &panels[first..=index + after] {
        if let Panel::Lines(lines) = panel {
            let points = lines.series.iter().flat_map(|series| &series.points);
            let seen = points.filter(|point| point.y.is_some_and(f64::is_finite));
            places.extend(seen.map(|point| point.x));
        }
    }
    places
}

/// Draws panels side by side and returns the height that they took, including the gutter below [px].
fn draw_row(
    row: &[Drawing<'_>],
    all: &[Drawing<'_>],
    columns: usize,
    cell: f64,
    top: f64,
    (shapes, hints): (&mut Vec<Shape>, &mut Vec<(Frame, String)>),
) -> f64 {
    let largest = |side: fn(Margins) -> f64, of: &[&Drawing<'_>]| {
        of.iter().map(|drawing| side(drawing.margins())).fold(0.0, f64::max)
    };
    let beside: Vec<_> = row.iter().collect();
    let head = largest(|margins| margins.top, &beside);
    let foot = largest(|margins| margins.bottom, &beside);
    let height = row.iter().map(Drawing::height).fold(0.0, f64::max);
    for (column, drawing) in row.iter().enumerate() {
        // The frames of panels above each other are aligned.
        let is_wide = matches!(drawing, Drawing::Wide(_));
        let alike = |other: &&Drawing<'_>| matches!(other, Drawing::Wide(_)) == is_wide;
        let stacked: Vec<_> = all.iter().skip(column).step_by(columns).filter(alike).collect();
        let left = BORDER + column as f64 * (cell + GUTTER);
        let width = if is_wide { columns as f64 * (cell + GUTTER) - GUTTER } else { cell };
        let frame = Frame {
            left: left + largest(|margins| margins.left, &stacked),
            top: top + head,
            right: left + width - largest(|margins| margins.right, &stacked),
            bottom: top + head + height,
        };
        drawing.draw(&frame, shapes);
        hints.extend(drawing.hints(&frame));
    }
    head + height + foot + GUTTER
}

/// Returns the title, in a smaller size if it is long.
fn title(figure: &Figure, width: u32) -> Option<Shape> {
    let size = fitting(&figure.title, TITLE, true, width);
    let at = (BORDER, BORDER + TITLE_LINE / 2.0 - 5.0);
    let (text, side) = (figure.title.clone(), Side::Left);
    (!text.is_empty()).then_some(Shape::Text(Text {
        at,
        text,
        size,
        bold: true,
        side,
        colour: INK,
    }))
}

/// Returns the subtitle; `below` is the height of the title above it [px].
fn subtitle(figure: &Figure, width: u32, below: f64) -> Option<Shape> {
    let size = fitting(&figure.subtitle, SUBTITLE, false, width);
    let at = (BORDER, BORDER + below + SUBTITLE_LINE / 2.0 - 7.0);
    let (text, side, colour) = (figure.subtitle.clone(), Side::Left, GREY);
    let text = Text { at, text, size, bold: false, side, colour };
    (!text.text.is_empty()).then_some(Shape::Text(text))
}

/// Returns the text size at which a text fits into a figure of this width.
fn fitting(text: &str, usual: f64, bold: bool, width: u32) -> f64 {
    let room = f64::from(width) - 2.0 * BORDER;
    let needed = font::width(text, usual, bold);
    if needed > room { (usual * room / needed).max(8.0) } else { usual }
}
