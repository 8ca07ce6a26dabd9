//! Interpolation between measured sizes, whose times follow no law.

/// A measured size.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Knot {
    bytes: f64,
    seconds: f64,
    /// Slope of the logarithm of the time over the logarithm of the size, here.
    slope: f64,
}

/// Times at measured sizes, and a cubic between them in the logarithms of size and time. The cubic keeps the shape of the
/// measured times: between two neighbours it neither exceeds nor undercuts both (F. N. Fritsch and R. E. Carlson, *Monotone
/// Piecewise Cubic Interpolation*, 1980; slopes by F. N. Fritsch and J. Butland, 1984). Times may fall with size, as they do where a
/// library takes another protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredTimes {
    knots: Box<[Knot]>,
}

impl MeasuredTimes {
    /// Returns the times at measured sizes, pairs of size [B] and time [s]. `None` unless there is at least one, sizes are finite,
    /// not negative and ascend, and times are finite and above 0.
    #[must_use]
    pub fn new(points: &[(f64, f64)]) -> Option<MeasuredTimes> {
        let good = points.iter().all(|(bytes, seconds)| {
            (0.0..f64::INFINITY).contains(bytes) && seconds.is_finite() && *seconds > 0.0
        });
        let ascend = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if points.is_empty() || !good || !ascend {
            return None;
        }
        let slopes = slopes(points);
        let knot = |(&(bytes, seconds), slope): (&(f64, f64), f64)| Knot { bytes, seconds, slope };
        Some(MeasuredTimes { knots: points.iter().zip(slopes).map(knot).collect() })
    }

    /// Returns the smallest and the largest measured size with their times [B, s].
    #[must_use]
    pub fn ends(&self) -> [(f64, f64); 2] {
        [self.knots[0], self.knots[self.knots.len() - 1]].map(|knot| (knot.bytes, knot.seconds))
    }

    /// Returns the time for a size between the smallest and the largest measured one [s]; `None` for another size.
    #[must_use]
    pub fn seconds(&self, bytes: f64) -> Option<f64> {
        let above = self.knots.partition_point(|knot| knot.bytes < bytes);
        let high = self.knots.get(above)?;
        if high.bytes == bytes {
            return Some(high.seconds);
        }
        let low = self.knots[..above].last()?;
        // A message without bytes has no logarithm.
        if low.bytes == 0.0 {
            return Some(low.seconds + (high.seconds - low.seconds) * bytes / high.bytes);
        }
        let width = (high.bytes / low.bytes).ln();
        let (from, to) = (low.seconds.ln(), high.seconds.ln());
        let t = (bytes / low.bytes).ln() / width;
        let rest = 1.0 - t;
        let logarithm = (1.0 + 2.0 * t) * rest * rest * from
            + t * rest * rest * width * low.slope
            + t * t * (1.0 + 2.0 * rest) * to
            - t * t * rest * width * high.slope;
        Some(logarithm.exp())
    }
}

/// Returns the slope at each point in logarithms; 0 for a size of 0 bytes, where it is not used.
fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let skipped = usize::from(points[0].0 == 0.0);
    let logarithms: Vec<[f64; 2]> =
        points[skipped..].iter().map(|(bytes, seconds)| [bytes.ln(), seconds.ln()]).collect();
    // Width and secant of each interval.
    let intervals: Vec<[f64; 2]> = logarithms
        .windows(2)
        .map(|pair| {
            let width = pair[1][0] - pair[0][0];
            [width, (pair[1][1] - pair[0][1]) / width]
        })
        .collect();
    let mut slopes = vec![0.0; skipped];
    for index in 0..logarithms.len() {
        let before = index.checked_sub(1).and_then(|before| intervals.get(before));
        slopes.push(match (before, intervals.get(index)) {
            (Some(before), Some(after)) => inside(*before, *after),
            (None, Some(first)) => at_end(*first, intervals.get(1)),
            (Some(last), None) => at_end(*last, index.checked_sub(2).map(|next| &intervals[next])),
            (None, None) => 0.0,
        });
    }
    slopes
}

/// Returns the slope between two intervals: 0 at a peak or in a valley, otherwise a weighted harmonic mean of their secants.
fn inside([before, a]: [f64; 2], [after, b]: [f64; 2]) -> f64 {
    if a * b <= 0.0 {
        return 0.0;
    }
    let (of_a, of_b) = (before + 2.0 * after, 2.0 * before + after);
    (of_a + of_b) / (of_a / a + of_b / b)
}

/// Returns the slope at the end of the outermost interval, by the parabola through three points unless that loses the shape.
fn at_end([width, secant]: [f64; 2], next: Option<&[f64; 2]>) -> f64 {
    let Some([next_width, next_secant]) = next else { return secant };
    let slope = ((2.0 * width + next_width) * secant - width * next_secant) / (width + next_width);
    if slope * secant <= 0.0 {
        0.0
    } else if secant * next_secant <= 0.0 && slope.abs() > 3.0 * secant.abs() {
        3.0 * secant
    } else {
        slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [(f64, f64); 6] = [
        (8.0, 2e-5),
        (64.0, 2e-5),
        (512.0, 3e-5),
        (4096.0, 9e-5),
        (32_768.0, 4e-5),
        (262_144.0, 1e-4),
    ];

    #[test]
    fn measured_sizes_take_exactly_their_measured_time() {
        let times = MeasuredTimes::new(&TABLE).expect("times");
        for (bytes, seconds) in TABLE {
            assert_eq!(times.seconds(bytes), Some(seconds));
        }
        assert_eq!(times.ends(), [TABLE[0], TABLE[5]]);
        assert_eq!((times.seconds(7.0), times.seconds(262_145.0)), (None, None));
    }

    #[test]
    fn times_between_measured_sizes_stay_between_their_neighbours() {
        let times = MeasuredTimes::new(&TABLE).expect("times");
        for pair in TABLE.windows(2) {
            let [(from, a), (to, b)] = [pair[0], pair[1]];
            let mut before = a;
            for step in 0..=100 {
                let bytes = from * (to / from).powf(f64::from(step) / 100.0);
                let seconds = times.seconds(bytes.clamp(from, to)).expect("a time");
                assert!(seconds >= a.min(b) * (1.0 - 1e-12) && seconds <= a.max(b) * (1.0 + 1e-12));
                // It rises or falls all the way, as its ends do.
                assert!((seconds - before) * (b - a) >= -1e-18, "{bytes}: {before} {seconds}");
                before = seconds;
            }
        }
    }

    const PCHIP: [(f64, f64); 6] = [
        (20.0, 2e-5),
        (100.0, 2.053_882_037_677e-5),
        (1000.0, 4.282_559_052_359e-5),
        (6000.0, 8.375_144_307_663e-5),
        (50_000.0, 4.161_462_745_989e-5),
        (200_000.0, 8.043_229_554_735e-5),
    ];

    #[test]
    fn cubics_are_those_of_the_reference_implementation() {
        // SciPy's PchipInterpolator over the logarithms of the table.
        let times = MeasuredTimes::new(&TABLE).expect("times");
        for (bytes, expected) in PCHIP {
            let found = times.seconds(bytes).expect("a time");
            assert!((found / expected - 1.0).abs() < 1e-9, "{bytes}: {found}, not {expected}");
        }
    }

    #[test]
    fn a_power_of_the_size_is_interpolated_exactly() {
        let table: Vec<(f64, f64)> =
            [1.0, 10.0, 1e3, 1e4].map(|n: f64| (n, 1e-6 * n.powf(0.7))).into();
        let times = MeasuredTimes::new(&table).expect("times");
        for bytes in [1.5_f64, 3.0, 99.0, 5e3] {
            let expected = 1e-6 * bytes.powf(0.7);
            assert!((times.seconds(bytes).expect("a time") / expected - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn messages_without_bytes_one_size_and_bad_tables_are_handled() {
        let times =
            MeasuredTimes::new(&[(0.0, 1e-6), (100.0, 3e-6), (200.0, 4e-6)]).expect("times");
        assert_eq!(times.seconds(0.0), Some(1e-6));
        assert!((times.seconds(50.0).expect("a time") / 2e-6 - 1.0).abs() < 1e-12);
        let one = MeasuredTimes::new(&[(8.0, 1e-6)]).expect("times");
        assert_eq!(
            (one.seconds(8.0), one.seconds(9.0), one.seconds(7.0)),
            (Some(1e-6), None, None)
        );
        for bad in [
            vec![],
            vec![(8.0, 0.0)],
            vec![(8.0, -1.0)],
            vec![(8.0, f64::NAN)],
            vec![(-1.0, 1.0)],
            vec![(8.0, 1.0), (8.0, 1.0)],
            vec![(f64::INFINITY, 1.0)],
        ] {
            assert_eq!(MeasuredTimes::new(&bad), None, "{bad:?}");
        }
    }
}
