//! Draws a panel of curves.

use super::axis::{Axis, Tick};
use super::clip;
use super::direct::Direct;
use super::layout::Margins;
use super::legend::Legend;
use super::palette::{Colour, FINE_GRID, GREY, GRID, INK, PAPER, colour, dash};
use super::shape::{Frame, Place, Shape, Side, Text, dashes, segment};
use super::{AxisSpec, Lines, PlotError, Point, Scale, Series, Style, font};

/// Size of the text of tick labels and of axis titles [px].
pub(super) const TICK: f64 = 11.0;
pub(super) const LABEL: f64 = 12.0;
/// Height of the lines of axis titles and of tick labels below the frame [px].
pub(super) const LABEL_LINE: f64 = 20.0;
pub(super) const TICK_LINE: f64 = 18.0;
/// Maximum number of points of a curve whose points are marked with dots.
const DOTTED: usize = 40;
/// Target distances between ticks, horizontally and vertically [px].
const ACROSS: f64 = 85.0;
const DOWN: f64 = 42.0;
/// Minimum distance between the labels of an x axis [px].
const LABEL_GAP: f64 = 6.0;

/// A panel of curves whose axes are fixed. The curves get their names afterwards, from `naming`.
pub(super) struct LinesDrawing<'a> {
    pub(super) lines: &'a Lines,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) legend: Legend,
    /// Names at the ends of curves.
    pub(super) direct: Option<Direct>,
    /// Height without a legend [px].
    pub(super) height: f64,
}

impl<'a> LinesDrawing<'a> {
    /// Computes the axes for a frame of height `height` in a cell of width `cell` [px]. `xs` are the positions in all panels that
    /// have the same x axis.
    pub(super) fn new(
        lines: &'a Lines,
        xs: &[f64],
        cell: f64,
        height: f64,
    ) -> Result<Self, PlotError> {
        let points = || lines.series.iter().flat_map(|series| &series.points);
        let marks = |vertical: bool| {
            let wanted = lines.marks.iter().filter(move |mark| mark.vertical == vertical);
            wanted.map(|mark| mark.at)
        };
        let ys: Vec<f64> = points().filter_map(|point| point.y).collect();
        if !ys.iter().any(|y| y.is_finite()) {
            return Err(nothing(&lines.y));
        }
        let x = match lines.categories.as_slice() {
            [] => {
                let others: Vec<f64> = marks(true).collect();
                Axis::fit(&lines.x, xs, &others, (cell / ACROSS) as usize, true)
            }
            names => Some(Axis::of_categories(names)),
        };
        let x = x.ok_or_else(|| nothing(&lines.x))?;
        let bands = points().flat_map(|point| point.band.into_iter().flatten());
        let zero = lines.series.iter().any(|series| series.style == Style::Bars).then_some(0.0);
        let others: Vec<f64> = bands.chain(marks(false)).chain(zero).collect();
        let y = Axis::fit(&lines.y, &ys, &others, (height / DOWN) as usize, false);
        let y = y.ok_or_else(|| nothing(&lines.y))?;
        Ok(LinesDrawing { lines, x, y, legend: Legend::default(), direct: None, height })
    }

    pub(super) fn height(&self) -> f64 {
        self.height.max(self.legend.height())
    }

    pub(super) fn margins(&self) -> Margins {
        let ticks = self.y.ticks.iter().map(|tick| font::width(&tick.label, TICK, false));
        let marked = self.lines.marks.iter().any(|mark| mark.vertical && !mark.label.is_empty());
        // The label of a named position is not wider than its part of the axis.
        let last = self.x.ticks.last().filter(|_| self.lines.categories.is_empty());
        let last = last.map_or(0.0, |tick| font::width(&tick.label, TICK, false));
        Margins {
            left: ticks.fold(0.0, f64::max) + 8.0,
            top: LABEL_LINE + if marked { 14.0 } else { 0.0 },
            right: self.legend.width().max(last / 2.0).max(self.direct_width()),
            bottom: if self.lines.shares_x { 0.0 } else { TICK_LINE + LABEL_LINE },
        }
    }

    fn direct_width(&self) -> f64 {
        self.direct.as_ref().map_or(0.0, Direct::width)
    }

    pub(super) fn draw(&self, frame: &Frame, shapes: &mut Vec<Shape>) {
        shapes.extend(self.grid(frame));
        for series in &self.lines.series {
            shapes.extend(self.band(series, frame));
        }
        for mark in &self.lines.marks {
            shapes.extend(self.mark_line(mark, frame));
        }
        shapes.extend(self.upright_bars(frame));
        for series in &self.lines.series {
            self.curve(series, frame, shapes);
        }
        shapes.extend(self.point_labels(frame));
        shapes.extend(
            self.lines.marks.iter().filter_map(|mark| self.mark_label(mark, frame)).flatten(),
        );
        frame_and_titles(
            frame,
            &self.lines.y.label,
            self.lines.shares_x,
            &self.lines.x.label,
            self.margins().top,
            shapes,
        );
        if self.y.is_cut() {
            shapes.extend(cut(frame));
        }
        self.ticks(frame, shapes);
        self.legend.draw(frame, shapes);
        if let Some(direct) = &self.direct {
            direct.draw(frame, self.margins().top, shapes);
        }
    }

    pub(super) fn across(&self, value: f64, frame: &Frame) -> Option<f64> {
        self.x.place(value).map(|place| frame.left + place * frame.width())
    }

    pub(super) fn down(&self, value: f64, frame: &Frame) -> Option<f64> {
        self.y.place(value).map(|place| frame.bottom - place * frame.height())
    }

    fn grid(&self, frame: &Frame) -> Vec<Shape> {
        let vertical = |at: f64, colour| {
            let x = self.across(at, frame)?;
            Some(segment((x, frame.top), (x, frame.bottom), colour, 0.8))
        };
        let horizontal = |at: f64, colour| {
            let y = self.down(at, frame)?;
            Some(segment((frame.left, y), (frame.right, y), colour, 0.8))
        };
        let fine = self.x.minor.iter().filter_map(|at| vertical(*at, FINE_GRID));
        let fine = fine.chain(self.y.minor.iter().filter_map(|at| horizontal(*at, FINE_GRID)));
        let main = self.x.ticks.iter().filter_map(|tick| vertical(tick.at, GRID));
        let main = main.chain(self.y.ticks.iter().filter_map(|tick| horizontal(tick.at, GRID)));
        // The zero line is emphasized if there are values on both sides of it.
        let zero = (self.y.low < 0.0 && self.y.high > 0.0).then(|| horizontal(0.0, GREY)).flatten();
        fine.chain(main).chain(zero).collect()
    }

    /// Returns the interval around a curve as areas, one for each run of points that have an interval; for points without a line,
    /// as whiskers.
    fn band(&self, series: &Series, frame: &Frame) -> Vec<Shape> {
        let ends = |point: &Point| {
            let [low, high] = point.band.filter(|_| point.y.is_some())?;
            let x = self.across(point.x, frame)?;
            // A low end that a logarithmic axis cannot show is drawn at the axis' low end.
            let low = self.down(low, frame).unwrap_or(frame.bottom);
            Some((x, low, self.down(high, frame)?))
        };
        let ends: Vec<_> = series.points.iter().map(ends).collect();
        if series.style == Style::Bars {
            // They have whiskers of their own.
            return Vec::new();
        }
        if series.style == Style::Points {
            let whisker = |(x, low, high): &(f64, f64, f64)| {
                whisker(frame, (*x, CAP), [*low, *high], colour(series.index))
            };
            return ends.iter().flatten().flat_map(whisker).collect();
        }
        let area = |run: &[Option<(f64, f64, f64)>]| {
            let upper = run.iter().flatten().map(|(x, _, high)| (*x, *high));
            let lower = run.iter().flatten().rev().map(|(x, low, _)| (*x, *low));
            let path = clip::area(&upper.chain(lower).collect::<Vec<_>>(), frame);
            Shape::Area { path, colour: colour(series.index), opacity: 0.16 }
        };
        ends.split(Option::is_none).filter(|run| run.len() > 1).map(area).collect()
    }

    /// Returns the positions of a curve's points; `None` leaves a gap.
    pub(super) fn places(&self, series: &Series, frame: &Frame) -> Vec<Option<Place>> {
        let place =
            |point: &Point| Some((self.across(point.x, frame)?, self.down(point.y?, frame)?));
        series.points.iter().map(place).collect()
    }

    fn curve(&self, series: &Series, frame: &Frame, shapes: &mut Vec<Shape>) {
        if series.style == Style::Bars {
            return;
        }
        let places = self.places(series, frame);
        let front = series.style == Style::Front;
        let colour = if front { INK } else { colour(series.index) };
        for run in places.split(Option::is_none).filter(|_| series.style.joins()) {
            let run: Vec<Place> = run.iter().flatten().copied().collect();
            let stepped = matches!(series.style, Style::Steps | Style::Front);
            let run = if stepped { stairs(&run) } else { run };
            for path in clip::path(&run, frame) {
                let paths = match dash(series.index) {
                    Some(dash) => dashes(&path, dash),
                    None => vec![path],
                };
                shapes.extend(paths.into_iter().map(|path| Shape::Line {
                    path,
                    colour,
                    width: if front { 1.1 } else { 1.8 },
                }));
            }
        }
        // Points of runs that were too short are marked on curves without dots, too.
        let is_dotted = dotted(series);
        for (point, at) in series.points.iter().zip(places) {
            let at = at.filter(|at| (is_dotted || point.short) && clip::holds(frame, *at));
            let Some(at) = at else { continue };
            match point.short {
                true => shapes.extend(hollow(at, colour)),
                false => shapes.extend(dot(at, colour)),
            }
        }
    }

    fn ticks(&self, frame: &Frame, shapes: &mut Vec<Shape>) {
        for tick in &self.y.ticks {
            if let Some(y) = self.down(tick.at, frame) {
                shapes.push(tick_text((frame.left - 7.0, y), &tick.label, Side::Right));
            }
        }
        if !self.lines.shares_x {
            shapes.extend(ticks_below(&self.x_labelled(frame), frame));
        }
    }

    /// Returns the x axis with labels that fit. Named positions keep all of their labels, shortened if they need more room.
    fn x_labelled(&self, frame: &Frame) -> Axis {
        let mut x = self.x.clone();
        let room = frame.width() / x.ticks.len().max(1) as f64 - LABEL_GAP;
        let fit = |tick: &Tick| font::width(&tick.label, TICK, false) <= room;
        if !self.lines.categories.is_empty() && !x.ticks.iter().all(fit) {
            for tick in &mut x.ticks {
                tick.label = font::shortened(&tick.label, TICK, false, room);
            }
        }
        x
    }
}

/// Returns the mark of an axis that does not begin at zero: the axis is cut near its foot by two strokes.
fn cut(frame: &Frame) -> [Shape; 3] {
    let stroke =
        |y: f64| segment((frame.left - 4.0, y + 2.5), (frame.left + 4.0, y - 2.5), INK, 0.9);
    let y = frame.bottom - 10.0;
    let gap = segment((frame.left, y), (frame.left, y - 4.0), PAPER, 2.5);
    [gap, stroke(y), stroke(y - 4.0)]
}

/// Returns the tick labels of the x axis, without labels that would touch the previous one.
pub(super) fn ticks_below(axis: &Axis, frame: &Frame) -> Vec<Shape> {
    let mut free = f64::NEG_INFINITY;
    let mut shapes = Vec::new();
    for tick in &axis.ticks {
        let Some(place) = axis.place(tick.at) else { continue };
        let x = frame.left + place * frame.width();
        let half = font::width(&tick.label, TICK, false) / 2.0;
        if x - half >= free {
            free = x + half + LABEL_GAP;
            shapes.push(segment((x, frame.bottom), (x, frame.bottom + 4.0), INK, 0.9));
            shapes.push(tick_text((x, frame.bottom + 13.0), &tick.label, Side::Middle));
        }
    }
    shapes
}

/// Returns the text of a tick label.
pub(super) fn tick_text(at: Place, text: &str, side: Side) -> Shape {
    Shape::Text(Text { at, text: text.to_owned(), size: TICK, bold: false, side, colour: INK })
}

/// Draws the left and lower borders and the titles of both axes. The title of the y axis is horizontal, above the axis, so that
/// it is easy to read.
pub(super) fn frame_and_titles(
    frame: &Frame,
    above: &str,
    shares_x: bool,
    below: &str,
    head: f64,
    shapes: &mut Vec<Shape>,
) {
    let path =
        vec![(frame.left, frame.top), (frame.left, frame.bottom), (frame.right, frame.bottom)];
    shapes.push(Shape::Line { path, colour: INK, width: 0.9 });
    let text = |at, text: &str, side| {
        Shape::Text(Text { at, text: text.to_owned(), size: LABEL, bold: false, side, colour: INK })
    };
    shapes.push(text((frame.left, frame.top - head + 8.0), above, Side::Left));
    if !shares_x {
        let at = ((frame.left + frame.right) / 2.0, frame.bottom + TICK_LINE + 12.0);
        shapes.push(text(at, below, Side::Middle));
    }
}

/// Half the width of the caps of a point's whisker [px].
const CAP: f64 = 3.0;

/// Returns a line between two heights with a cap at each end that is in the frame; `cap` is half a cap's width [px].
pub(super) fn whisker(
    frame: &Frame,
    (x, cap): (f64, f64),
    ends: [f64; 2],
    colour: Colour,
) -> Vec<Shape> {
    let inside = ends.map(|y| y.clamp(frame.top, frame.bottom));
    let line = |from, to| segment(from, to, colour, 1.1);
    let caps = ends.into_iter().filter(|y| clip::holds(frame, (x, *y)));
    let caps = caps.map(|y| line((x - cap, y), (x + cap, y)));
    std::iter::once(line((x, inside[0]), (x, inside[1]))).chain(caps).collect()
}

/// Returns the dot of a point.
fn dot(at: Place, colour: Colour) -> [Shape; 2] {
    [Shape::Dot { at, radius: 3.8, colour: PAPER }, Shape::Dot { at, radius: 2.8, colour }]
}

/// Returns the dot of a run that was too short.
pub(super) fn hollow(at: Place, colour: Colour) -> [Shape; 2] {
    [Shape::Dot { at, radius: 3.8, colour }, Shape::Dot { at, radius: 2.2, colour: PAPER }]
}

/// Returns a path that goes to each position first horizontally and then vertically.
fn stairs(run: &[Place]) -> Vec<Place> {
    let corner = |pair: &[Place]| [(pair[1].0, pair[0].1), pair[1]];
    run.iter().take(1).copied().chain(run.windows(2).flat_map(corner)).collect()
}

/// Returns whether a curve's points are marked with dots.
pub(super) fn dotted(series: &Series) -> bool {
    match series.style {
        Style::Auto => series.points.len() <= DOTTED,
        Style::Line | Style::Steps | Style::Bars | Style::Front => false,
        Style::Points | Style::Dots => true,
    }
}

/// Returns the error for an axis without usable values.
pub(super) fn nothing(axis: &AxisSpec) -> PlotError {
    let place = match axis.place.as_str() {
        "" => String::new(),
        place => format!(" ({place})"),
    };
    let remedy = match axis.scale {
        Scale::Linear => "choose rows and columns with finite numbers",
        Scale::Log => {
            "a logarithmic axis shows only positive values: choose other rows, or a \"linear\" scale"
        }
    };
    let label = &axis.label;
    PlotError::NoData(format!("no usable values for the axis \"{label}\"{place}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figure, Panel, svg};

    fn lines(values: &[f64], categories: &[&str]) -> Lines {
        let point = |(x, y): (usize, &f64)| Point { x: x as f64, y: Some(*y), ..Point::default() };
        let style = if categories.is_empty() { Style::Auto } else { Style::Bars };
        let points = values.iter().enumerate().map(point).collect();
        Lines {
            x: AxisSpec::default(),
            y: AxisSpec::default(),
            series: vec![Series { points, style, ..Series::default() }],
            marks: Vec::new(),
            labels: Vec::new(),
            legend: String::new(),
            legend_shown: true,
            categories: categories.iter().map(|name| (*name).to_owned()).collect(),
            shares_x: false,
        }
    }

    #[test]
    fn every_named_position_has_its_label_and_long_labels_are_shortened() {
        let names =
            ["lustre, 16 targets of 2 GB/s, stripe of 1", "lustre, 16 targets, stripe of 16"];
        let names: Vec<&str> = names.into_iter().cycle().take(6).chain(["nfs"]).collect();
        let panels = vec![Panel::Lines(lines(&[1.0; 7], &names))];
        let text = svg(&Figure { panels, ..Figure::default() }).expect("a figure");
        assert_eq!(text.matches("lust").count(), 6, "{text}");
        assert_eq!(text.matches('…').count(), 6, "{text}");
        assert!(text.contains("nfs"), "{text}");
    }

    #[test]
    fn an_axis_that_leaves_out_zero_is_marked_as_cut() {
        let frame = Frame { left: 50.0, top: 0.0, right: 400.0, bottom: 200.0 };
        let gaps = |values: &[f64]| {
            let (lines, mut shapes) = (lines(values, &[]), Vec::new());
            let drawing = LinesDrawing::new(&lines, &[0.0, 1.0], 400.0, 200.0).expect("a panel");
            drawing.draw(&frame, &mut shapes);
            let gap =
                |shape: &&Shape| matches!(shape, Shape::Line { colour, .. } if *colour == PAPER);
            shapes.iter().filter(gap).count()
        };
        assert_eq!([gaps(&[90.0, 100.0]), gaps(&[30.0, 100.0]), gaps(&[-5.0, 5.0])], [1, 0, 0]);
    }
}
