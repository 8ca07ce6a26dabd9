//! Time of a message or a collective by its size.

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

/// A piecewise linear law: each range of sizes has its own linear function, because libraries switch protocols and algorithms for
/// larger messages (R. Hockney, *The Communication Challenge for MPP*, 1994, for the linear function; R. Thakur et al.,
/// *Optimization of Collective Communication Operations in MPICH*, 2005, for the switches).
///
/// The time may jump, or even fall, from one range to the next, as measured times do.
#[derive(Debug, Clone, PartialEq)]
pub struct TransportLaw {
    ranges: Box<[SizeRange]>,
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
        good.then(|| TransportLaw { ranges: ranges.into() })
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

    /// Returns the time for `bytes` [B], of which `reduced` [B] are added to other data [s].
    #[must_use]
    pub fn seconds(&self, bytes: f64, reduced: f64) -> f64 {
        let SizeRange { alpha, beta, gamma, .. } = self.range(bytes);
        alpha + beta * bytes + gamma * reduced
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
