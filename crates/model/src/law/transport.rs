//! Time of a message or a collective by its size.

use super::MeasuredTimes;

/// A range of message sizes, from `from` to the start of the next range. The time is `alpha + beta · bytes + gamma · reduced`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeRange {
    /// Smallest size [B].
    pub from: f64,
    /// Time that does not depend on the size [s].
    pub alpha: f64,
    /// Time for each byte that is moved [s/B].
    pub beta: f64,
    /// Time for each byte that is reduced, i.e. added to other data [s/B].
    pub gamma: f64,
}

/// Times of a collective: as measured and interpolated between the measured sizes, and by a law beyond them.
///
/// The law is piecewise linear: each range of sizes has its own linear function, because libraries switch protocols and algorithms for
/// larger messages (R. Hockney, *The Communication Challenge for MPP*, 1994, for the linear function; R. Thakur et al.,
/// *Optimization of Collective Communication Operations in MPICH*, 2005, for the switches).
///
/// The time may jump, or even fall, from one range to the next, as measured times do.
#[derive(Debug, Clone, PartialEq)]
pub struct TransportLaw {
    ranges: Box<[SizeRange]>,
    measured: Option<MeasuredTimes>,
    /// Time ÷ the law's, beyond the measured sizes.
    beyond: f64,
}

impl TransportLaw {
    /// Returns the law with these ranges. `None` unless the first range begins at 0, each range begins above the previous one,
    /// and all times are finite and not negative.
    #[must_use]
    pub fn new(ranges: &[SizeRange]) -> Option<TransportLaw> {
        let times = |range: &SizeRange| [range.alpha, range.beta, range.gamma];
        let fine = |time: f64| time.is_finite() && time >= 0.0;
        let good = ranges.first()?.from == 0.0
            && ranges.windows(2).all(|pair| pair[0].from < pair[1].from)
            && ranges.iter().flat_map(times).all(fine);
        good.then(|| TransportLaw { ranges: ranges.into(), measured: None, beyond: 1.0 })
    }

    /// Returns the range that contains the size `bytes`.
    #[must_use]
    pub fn range(&self, bytes: f64) -> &SizeRange {
        let above = self.ranges.partition_point(|range| range.from <= bytes);
        &self.ranges[above.saturating_sub(1)]
    }

    /// Returns all ranges, in ascending order.
    #[must_use]
    pub fn ranges(&self) -> &[SizeRange] {
        &self.ranges
    }

    /// Returns the law with times at measured sizes, in which the time between these sizes is interpolated. Beyond them, the
    /// law continues the time of the nearest measured size, times `beyond`: 1, or another factor of a draw that tells how far
    /// measured times are from the law.
    #[must_use]
    pub fn with_measured(self, measured: MeasuredTimes, beyond: f64) -> TransportLaw {
        TransportLaw { measured: Some(measured), beyond, ..self }
    }

    /// Returns the time for `bytes` [B], of which `reduced` [B] are added to other data [s].
    #[must_use]
    pub fn seconds(&self, bytes: f64, reduced: f64) -> f64 {
        let Some(measured) = &self.measured else { return self.by_law(bytes, reduced) };
        if let Some(seconds) = measured.seconds(bytes) {
            return seconds;
        }
        let [first, last] = measured.ends();
        let (size, seconds) = if bytes < first.0 { first } else { last };
        let there = self.by_law(size, 0.0);
        let ratio = if there > 0.0 { self.by_law(bytes, reduced) / there } else { 1.0 };
        seconds * ratio * self.beyond
    }

    fn by_law(&self, bytes: f64, reduced: f64) -> f64 {
        let SizeRange { alpha, beta, gamma, .. } = self.range(bytes);
        alpha + beta * bytes + gamma * reduced
    }

    /// Splits the time for `bytes` [B], all of which are reduced, into the part that does not depend on the size and the part in
    /// which bytes move [s], in the proportion that the law has for this size.
    #[must_use]
    pub fn parts(&self, bytes: f64) -> [f64; 2] {
        let (seconds, by_law) = (self.seconds(bytes, bytes), self.by_law(bytes, bytes));
        let fixed = self.range(bytes).alpha;
        match &self.measured {
            None => [fixed, by_law - fixed],
            Some(_) if by_law > 0.0 => {
                let fixed = seconds * (fixed / by_law).min(1.0);
                [fixed, seconds - fixed]
            }
            Some(_) => [seconds, 0.0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: f64, alpha: f64, beta: f64) -> SizeRange {
        SizeRange { from, alpha, beta, gamma: 0.0 }
    }

    #[test]
    fn the_time_of_a_message_is_linear_within_each_range_of_sizes() {
        let ranges =
            [range(0.0, 5e-6, 1e-9), SizeRange { gamma: 2e-10, ..range(1e4, 2e-5, 1e-10) }];
        let law = TransportLaw::new(&ranges).expect("a law");
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-12);
        near(law.seconds(0.0, 0.0), 5e-6);
        near(law.seconds(9_999.0, 9_999.0), 5e-6 + 9_999e-9);
        near(law.seconds(1e4, 0.0), 2e-5 + 1e-6);
        near(law.seconds(1e6, 5e5), 2e-5 + 1e-4 + 1e-4);
        assert_eq!(law.ranges(), ranges);
    }

    #[test]
    fn measured_sizes_take_their_time_and_the_law_continues_it_beyond() {
        // System: a law of 10 us and 1 ns/B, and times that are twice as long. Expectation: the measured time between 1 kB and
        // 1 MB; beyond, twice the law's, and 10 % more in a draw that says so.
        let law = TransportLaw::new(&[range(0.0, 1e-5, 1e-9)]).expect("a law");
        let twice = |bytes: f64| 2.0 * (1e-5 + 1e-9 * bytes);
        let points: Vec<(f64, f64)> = [1e3, 1e4, 1e5, 1e6].map(|size| (size, twice(size))).into();
        let measured = MeasuredTimes::new(&points).expect("times");
        let near = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 1e-12, "{found}, not {expected}");
        };
        for beyond in [1.0, 1.1] {
            let law = law.clone().with_measured(measured.clone(), beyond);
            for (bytes, seconds) in &points {
                assert_eq!(law.seconds(*bytes, 0.0), *seconds);
            }
            for bytes in [0.0, 10.0, 1e7] {
                near(law.seconds(bytes, 0.0), beyond * twice(bytes));
            }
            let [fixed, moving] = law.parts(1e5);
            near(fixed + moving, twice(1e5));
            near(moving / fixed, 10.0);
        }
        let [fixed, moving] = law.parts(1e5);
        near(fixed, 1e-5);
        near(moving, 1e-4);
    }

    #[test]
    fn transport_laws_with_invalid_ranges_are_rejected() {
        for ranges in [
            vec![],
            vec![range(1.0, 0.0, 0.0)],
            vec![range(0.0, 0.0, 0.0), range(0.0, 0.0, 0.0)],
            vec![range(0.0, -1.0, 0.0)],
            vec![range(0.0, 0.0, f64::NAN)],
            vec![range(0.0, 0.0, 0.0), range(f64::NAN, 0.0, 0.0)],
        ] {
            assert_eq!(TransportLaw::new(&ranges), None, "{ranges:?}");
        }
    }
}
