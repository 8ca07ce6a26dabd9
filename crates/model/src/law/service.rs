//! Small requests beside large ones, at a storage that serves them in order of arrival: the closed system of a few readers.

/// One reader of small requests beside readers of large ones. Each sends its next request when the one before has been served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MixedReaders {
    /// Number of readers of large requests.
    pub large: u32,
    /// Size of a small request ÷ size of a large one.
    pub size: f64,
}

impl MixedReaders {
    /// Returns the requests per second of the small reader ÷ those of one large reader, at a storage that serves the first `at_once`
    /// requests in order of arrival, which share its bandwidth evenly.
    ///
    /// In order of arrival, each large reader has one request served between two small ones. But beside a small request `at_once - 1` large
    /// ones are in service, of which only the part `size` is served until it ends. So `large - (at_once - 1) · (1 - size)` large requests come
    /// for each small one: one for each reader if one is served at once, and the part `size` of one if all are.
    #[must_use]
    pub fn small_per_large(self, at_once: u32) -> f64 {
        let (large, beside) =
            (f64::from(self.large), f64::from(at_once.clamp(1, self.large + 1) - 1));
        large / (large - beside * (1.0 - self.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_once_gives_turns_and_all_at_once_bytes() {
        // System: small requests of an eighth of a large one. Expectation: one small request for one of each large reader if one is served at
        // once, eight if nobody waits, and more the more are served. Tiny requests beside three readers, two served at once: when one comes,
        // two large ones are in service and one waits before it, so that it is served after every second large one, of which each reader has
        // a third.
        for large in [1, 3, 6] {
            let readers = MixedReaders { large, size: 0.125 };
            let ratios: Vec<f64> = (1..=large + 1).map(|n| readers.small_per_large(n)).collect();
            assert_eq!((ratios[0], ratios[large as usize]), (1.0, 8.0));
            assert!(ratios.is_sorted(), "{ratios:?}");
            assert_eq!(readers.small_per_large(large + 5), 8.0);
        }
        assert_eq!(MixedReaders { large: 3, size: 0.0 }.small_per_large(2), 1.5);
    }
}
