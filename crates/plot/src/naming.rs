//! Names the curves of a figure: at their right ends, if they are apart there in one of the panels that draw them, otherwise in
//! a legend.

use super::direct::{Direct, GAP};
use super::legend::{self, Entry, Legend, Look};
use super::lines::{LABEL, LinesDrawing, dotted};
use super::palette::{colour, dash};
use super::{Lines, Series, Style, font};

/// Maximum width of a name beside the data, as a share of the panel's cell. Longer names are shortened.
pub(super) const LONGEST_NAME: f64 = 0.35;
/// Distance from the end of a curve to its name that is as good as none [px].
const NEAR: f64 = 18.0;
/// Minimum distance between the title of the y axis and that of the names [px].
const TITLE_GAP: f64 = 12.0;

/// Names the curves of all panels, in cells of width `cell` [px]. A panel without names of its own has those of the last panel
/// before it that has some.
pub(super) fn name_curves(panels: &mut [&mut LinesDrawing<'_>], cell: f64) {
    let left = panels.iter().map(|panel| panel.margins().left).fold(0.0, f64::max);
    for alike in panels.chunk_by_mut(|_, next| !next.lines.legend_shown) {
        let room = LONGEST_NAME * cell;
        let first = alike[0].lines;
        if named(first).count() < 2 || !first.legend_shown {
            continue;
        }
        match nearest(alike, cell - left, room) {
            Some((index, direct)) => alike[index].direct = Some(direct),
            None => alike[0].legend = legend(first, room),
        }
    }
}

/// Returns the panel in which the names of the curves are nearest to their ends, with the names. `width` is the room for a
/// panel with its names [px]. The first of several equal panels is taken.
fn nearest(alike: &[&mut LinesDrawing<'_>], width: f64, room: f64) -> Option<(usize, Direct)> {
    let curves: Vec<&Series> = named(alike[0].lines).collect();
    let joined = curves.iter().all(|series| series.style.joins());
    let fit = |(index, panel): (usize, &&mut LinesDrawing<'_>)| {
        let direct = Direct::fit(panel.lines, &curves, [&panel.x, &panel.y], panel.height, room)?;
        let label = font::width(&panel.lines.y.label, LABEL, false) + TITLE_GAP;
        let frame = width - direct.width() + GAP;
        (!direct.has_title() || label <= frame).then_some((index, direct))
    };
    let far = |direct: &Direct| (direct.bundled(), direct.farthest().max(NEAR));
    let found = alike.iter().enumerate().filter(|_| joined).filter_map(fit);
    found.reduce(|best, next| if far(&next.1) < far(&best.1) { next } else { best })
}

/// Returns the curves that have names.
fn named(lines: &Lines) -> impl Iterator<Item = &Series> {
    lines.series.iter().filter(|series| !matches!(series.style, Style::Dots | Style::Front))
}

/// Returns the legend, with names of at most `room` px.
fn legend(lines: &Lines, room: f64) -> Legend {
    let entry = |series: &Series| Entry {
        name: font::shortened(&series.name, legend::SIZE, false, room),
        colour: colour(series.index),
        look: match series.style {
            Style::Bars => Look::Area,
            Style::Auto
            | Style::Line
            | Style::Steps
            | Style::Points
            | Style::Dots
            | Style::Front => Look::Line {
                line: series.style.joins(),
                dash: dash(series.index),
                dots: dotted(series),
            },
        },
    };
    let title = font::shortened(&lines.legend, legend::SIZE, true, room);
    Legend { title, entries: named(lines).map(entry).collect() }
}
