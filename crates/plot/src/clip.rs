//! Clips curves and areas to a frame.

use super::shape::{Frame, Place};

/// Returns the parts of a path inside `frame`, up to rounding.
pub(super) fn path(path: &[Place], frame: &Frame) -> Vec<Vec<Place>> {
    let mut parts: Vec<Vec<Place>> = Vec::new();
    let (wide, inside) = (wider(frame), |place| onto(frame, place));
    for pair in path.windows(2) {
        let Some((from, to)) = segment(pair[0], pair[1], &wide) else { continue };
        let (from, to) = (inside(from), inside(to));
        match parts.last_mut() {
            Some(part) if part.last() == Some(&from) => part.push(to),
            _ => parts.push(vec![from, to]),
        }
    }
    parts
}

/// Returns whether a position is inside `frame`, up to rounding.
pub(super) fn holds(frame: &Frame, (x, y): Place) -> bool {
    let frame = wider(frame);
    (frame.left..=frame.right).contains(&x) && (frame.top..=frame.bottom).contains(&y)
}

/// Returns the nearest position inside `frame`.
fn onto(frame: &Frame, (x, y): Place) -> Place {
    (x.clamp(frame.left, frame.right), y.clamp(frame.top, frame.bottom))
}

/// Returns a slightly wider frame, so that rounding does not lose points on the frame itself.
fn wider(frame: &Frame) -> Frame {
    const ROUNDING: f64 = 0.01;
    Frame {
        left: frame.left - ROUNDING,
        top: frame.top - ROUNDING,
        right: frame.right + ROUNDING,
        bottom: frame.bottom + ROUNDING,
    }
}

/// Returns the part of a segment inside `frame` (Liang and Barsky, 1984).
fn segment(from: Place, to: Place, frame: &Frame) -> Option<(Place, Place)> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (mut enter, mut leave) = (0f64, 1f64);
    let sides = [
        (-dx, from.0 - frame.left),
        (dx, frame.right - from.0),
        (-dy, from.1 - frame.top),
        (dy, frame.bottom - from.1),
    ];
    for (speed, room) in sides {
        if speed == 0.0 {
            if room < 0.0 {
                return None;
            }
        } else if speed < 0.0 {
            enter = enter.max(room / speed);
        } else {
            leave = leave.min(room / speed);
        }
    }
    let at = |share: f64| match share {
        0.0 => from,
        1.0 => to,
        _ => (from.0 + share * dx, from.1 + share * dy),
    };
    (enter <= leave).then(|| (at(enter), at(leave)))
}

/// Returns the part of an area inside `frame` (Sutherland and Hodgman, 1974).
pub(super) fn area(path: &[Place], frame: &Frame) -> Vec<Place> {
    let path = half(path, |place| place.0 - frame.left);
    let path = half(&path, |place| frame.right - place.0);
    let path = half(&path, |place| place.1 - frame.top);
    half(&path, |place| frame.bottom - place.1)
}

/// Returns the part of an area where `inside` is not negative; `inside` is linear.
fn half(path: &[Place], inside: impl Fn(Place) -> f64) -> Vec<Place> {
    let mut kept = Vec::new();
    for (index, &to) in path.iter().enumerate() {
        let from = path[(index + path.len() - 1) % path.len()];
        let (before, after) = (inside(from), inside(to));
        if (before < 0.0) != (after < 0.0) {
            let share = before / (before - after);
            kept.push((from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1)));
        }
        if after >= 0.0 {
            kept.push(to);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_along_the_frame_is_drawn_in_spite_of_rounding() {
        let frame = Frame { left: 0.0, top: 0.0, right: 10.0, bottom: 10.0 };
        let along = [(2.0, -1e-12), (8.0, -1e-12)];
        assert_eq!(path(&along, &frame), [[(2.0, 0.0), (8.0, 0.0)]]);
    }

    const FRAME: Frame = Frame { left: 0.0, top: 0.0, right: 10.0, bottom: 10.0 };

    #[test]
    fn a_curve_is_clipped_where_it_leaves_the_frame() {
        let parts = path(&[(-5.0, 5.0), (5.0, 5.0), (5.0, 15.0), (8.0, 15.0), (8.0, 5.0)], &FRAME);
        let first = vec![(0.0, 5.0), (5.0, 5.0), (5.0, 10.0)];
        assert_eq!(parts, [first, vec![(8.0, 10.0), (8.0, 5.0)]]);
    }

    #[test]
    fn an_area_is_clipped_at_every_side() {
        let cut = area(&[(-5.0, -5.0), (15.0, -5.0), (15.0, 15.0), (-5.0, 15.0)], &FRAME);
        assert!(cut.len() >= 4 && cut.iter().all(|place| holds(&FRAME, *place)), "{cut:?}");
        assert_eq!(area(&[(20.0, 0.0), (30.0, 0.0), (30.0, 5.0)], &FRAME), []);
    }
}
