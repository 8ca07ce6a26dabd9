//! Draws a panel of horizontal bars, stacked or with intervals.

use super::axis::Axis;
use super::layout::Margins;
use super::legend::{Entry, Legend, Look};
use super::lines::{
    LABEL_LINE, TICK, TICK_LINE, frame_and_titles, nothing, tick_text, ticks_below,
};
use super::naming::LONGEST_NAME;
use super::palette::{GRID, INK};
use super::shape::{Frame, Shape, Side, segment};
use super::upright::filled;
use super::{Bar, Bars, PlotError, font};

/// Minimum distance from one bar to the next, and maximum thickness of a bar [px].
const PITCH: f64 = 26.0;
const THICK: f64 = 26.0;

/// Half the height of the caps of an interval [px].
const CAP: f64 = 3.5;

/// A panel of bars whose axis is fixed.
pub(super) struct BarsDrawing<'a> {
    pub(super) bars: &'a Bars,
    x: Axis,
    /// Names of the bars, shortened if they are long.
    names: Vec<String>,
    legend: Legend,
}

impl<'a> BarsDrawing<'a> {
    /// Computes the axis for a cell of width `cell` [px].
    pub(super) fn new(bars: &'a Bars, cell: f64) -> Result<Self, PlotError> {
        let total = |lengths: &[f64]| lengths.iter().filter(|length| length.is_finite()).sum();
        let totals = bars.bars.iter().map(|bar| total(&bar.lengths));
        let bands = bars.bars.iter().flat_map(|bar| bar.band.into_iter().flatten());
        let ends: Vec<f64> = totals.chain(bands).chain([0.0]).collect();
        if bars.bars.is_empty() {
            return Err(nothing(&bars.x));
        }
        let x = Axis::fit(&bars.x, &ends, &[], (cell / 85.0) as usize, true);
        let x = x.ok_or_else(|| nothing(&bars.x))?;
        let room = LONGEST_NAME * cell;
        let names = bars.bars.iter().map(|bar| font::shortened(&bar.name, TICK, false, room));
        let entry = |part: &super::BarPart| Entry {
            name: part.name.clone(),
            colour: part.colour,
            look: Look::Area,
        };
        // One part needs no name: the axis has it.
        let named = bars.parts.iter().filter(|_| bars.parts.len() > 1);
        let entries = named.map(entry).collect();
        let (names, legend) = (names.collect(), Legend { title: String::new(), entries });
        Ok(BarsDrawing { bars, x, names, legend })
    }

    pub(super) fn height(&self) -> f64 {
        (self.bars.bars.len() as f64 * PITCH + 6.0).max(self.legend.height())
    }

    pub(super) fn margins(&self) -> Margins {
        let names = self.names.iter().map(|name| font::width(name, TICK, false));
        Margins {
            left: names.fold(0.0, f64::max) + 8.0,
            top: 6.0,
            right: self.legend.width().max(self.texts()).max(20.0),
            bottom: TICK_LINE + LABEL_LINE,
        }
    }

    /// Returns the room for the texts behind the bars [px].
    fn texts(&self) -> f64 {
        let texts = self.bars.bars.iter().filter(|bar| !bar.text.is_empty());
        texts.map(|bar| font::width(&bar.text, TICK, false) + 8.0).fold(0.0, f64::max)
    }

    fn across(&self, value: f64, frame: &Frame) -> f64 {
        let place = self.x.place(value).unwrap_or(0.0).clamp(0.0, 1.0);
        frame.left + place * frame.width()
    }

    /// Returns the place of each part of each bar.
    pub(super) fn places(&self, frame: &Frame) -> Vec<Vec<Frame>> {
        let pitch = frame.height() / self.bars.bars.len() as f64;
        let half = (0.34 * pitch).min(THICK / 2.0);
        let of_bar = |(index, bar): (usize, &Bar)| {
            let middle = frame.top + (index as f64 + 0.5) * pitch;
            let (top, bottom) = (middle - half, middle + half);
            let mut sum = 0.0;
            let part = |length: &f64| {
                let left = self.across(sum, frame);
                sum += length.max(0.0);
                Frame { left, top, right: self.across(sum, frame), bottom }
            };
            bar.lengths.iter().take(self.bars.parts.len()).map(part).collect()
        };
        self.bars.bars.iter().enumerate().map(of_bar).collect()
    }

    pub(super) fn draw(&self, frame: &Frame, shapes: &mut Vec<Shape>) {
        for tick in &self.x.ticks {
            let x = self.across(tick.at, frame);
            shapes.push(segment((x, frame.top), (x, frame.bottom), GRID, 0.8));
        }
        let pitch = frame.height() / self.bars.bars.len() as f64;
        let named = self.bars.bars.iter().zip(&self.names);
        for (index, (places, (bar, name))) in self.places(frame).iter().zip(named).enumerate() {
            let middle = frame.top + (index as f64 + 0.5) * pitch;
            for (part, place) in self.bars.parts.iter().zip(places) {
                shapes.extend(filled(*place, part.colour, bar.short));
            }
            if let Some(ends) = bar.band {
                let [low, high] = ends.map(|end| self.across(end, frame));
                let cap = |x: f64| segment((x, middle - CAP), (x, middle + CAP), INK, 1.1);
                shapes.push(segment((low, middle), (high, middle), INK, 1.1));
                shapes.extend([cap(low), cap(high)]);
            }
            if !bar.text.is_empty() {
                shapes.push(tick_text((frame.right + 6.0, middle), &bar.text, Side::Left));
            }
            shapes.push(tick_text((frame.left - 7.0, middle), name, Side::Right));
        }
        shapes.extend(ticks_below(&self.x, frame));
        frame_and_titles(frame, "", false, &self.bars.x.label, 0.0, shapes);
        self.legend.draw(frame, shapes);
    }
}
