//! The signs that a figure has, with their meanings.

use super::{Bars, Heat, Key, Panel, Series, Sign, Style};

/// What intervals are, unless someone says otherwise.
pub const INTERVAL: &str = "95 % interval";
const SHORT: &str = "run too short to show the long run";
const FRONT: &str = "front: no other point is better in both";

/// Returns the signs that are drawn in panels, each once. `interval` is the meaning of intervals, such as `95 % interval`.
#[must_use]
pub fn signs(panels: &[Panel], interval: &str) -> Vec<Key> {
    let mut key: Vec<Key> = Vec::new();
    for panel in panels {
        let own = match panel {
            Panel::Lines(lines) => {
                lines.series.iter().flat_map(|series| of_series(series, interval)).collect()
            }
            Panel::Heat(heat) => of_heat(heat),
            Panel::Bars(bars) => of_bars(bars, interval),
        };
        for one in own {
            if !key.contains(&one) {
                key.push(one);
            }
        }
    }
    key
}

fn of_series(series: &Series, interval: &str) -> Vec<Key> {
    if series.style == Style::Front {
        let front = Key { sign: Sign::Front, text: FRONT.to_owned() };
        return if series.points.is_empty() { Vec::new() } else { vec![front] };
    }
    let [band, short] = match series.style {
        Style::Bars => [Sign::Whisker, Sign::Pale],
        Style::Points | Style::Dots => [Sign::Whisker, Sign::Hollow],
        Style::Auto | Style::Line | Style::Steps | Style::Front => [Sign::Band, Sign::Hollow],
    };
    let drawn = || series.points.iter().filter(|point| point.y.is_some());
    let both = [
        (drawn().any(|point| point.band.is_some()), band, interval),
        (drawn().any(|point| point.short), short, SHORT),
    ];
    seen(&both)
}

fn of_heat(heat: &Heat) -> Vec<Key> {
    let cells = || heat.cells.iter().flatten();
    let both = [
        (cells().flatten().any(|cell| cell.short), Sign::Outlined, SHORT),
        (heat.bar.is_some() && cells().any(Option::is_none), Sign::Hatched, "no value"),
    ];
    seen(&both)
}

fn of_bars(bars: &Bars, interval: &str) -> Vec<Key> {
    let both = [
        (bars.bars.iter().any(|bar| bar.band.is_some()), Sign::Whisker, interval),
        (bars.bars.iter().any(|bar| bar.short), Sign::Pale, SHORT),
    ];
    seen(&both)
}

fn seen(all: &[(bool, Sign, &str)]) -> Vec<Key> {
    let seen = all.iter().filter(|(is_seen, ..)| *is_seen);
    seen.map(|(_, sign, text)| Key { sign: *sign, text: (*text).to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bar, Cell, Lines, Point};

    #[test]
    fn each_sign_that_is_drawn_stands_once_with_its_meaning() {
        let point = |short: bool, band| Point { y: Some(1.0), band, short, ..Point::default() };
        let points = vec![point(false, Some([0.0, 2.0])), point(true, None)];
        let series = vec![Series { points, ..Series::default() }];
        let lines = || Panel::Lines(Lines { series: series.clone(), ..Lines::default() });
        let cells = vec![vec![Some(Cell { short: true, ..Cell::default() }), None]];
        let heat = Panel::Heat(Heat { cells, bar: Some(Default::default()), ..Heat::default() });
        let bars = vec![Bar { short: true, band: Some([0.0, 1.0]), ..Bar::default() }];
        let bars = Panel::Bars(Bars { x: Default::default(), parts: Vec::new(), bars });
        let found: Vec<Sign> =
            signs(&[lines(), lines(), heat, bars], "90 %").into_iter().map(|of| of.sign).collect();
        let expected =
            [Sign::Band, Sign::Hollow, Sign::Outlined, Sign::Hatched, Sign::Whisker, Sign::Pale];
        assert_eq!(found, expected);
        assert_eq!(signs(&[], "90 %"), []);
    }
}
