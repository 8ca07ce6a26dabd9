//! Measured throughput of a storage, by size of requests and number of concurrent requests.

/// Throughput that closed loops of requests reached in total, for each request size and each number of concurrent requests.
///
/// Between entries the logarithm of the throughput is linear in the logarithms of size and number, so that power laws are exact.
/// Requests smaller than the smallest size reach as many requests per second as that size; requests larger than the largest size
/// reach as many bytes per second. Below the smallest measured number of requests, the throughput is proportional to the number;
/// above the largest, it is constant.
#[derive(Debug, Clone, PartialEq)]
pub struct Throughput {
    /// Logarithms of the sizes [B], ascending.
    sizes: Box<[f64]>,
    /// Logarithms of the numbers of requests, ascending.
    numbers: Box<[f64]>,
    /// Logarithms of the throughputs [B/s]; one row for each size.
    rates: Box<[f64]>,
}

/// Position of a value in a sorted list: between entry `below` and the next entry, at the fraction `share` of the distance
/// between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Between {
    below: usize,
    share: f64,
    /// Logarithm of (first entry ÷ value) if the value is below the first entry; otherwise 0.
    short: f64,
}

impl Between {
    fn new(entries: &[f64], value: f64) -> Between {
        let log = value.max(f64::MIN_POSITIVE).ln();
        let above = entries.partition_point(|entry| *entry <= log);
        let (Some(below), Some(last)) = (above.checked_sub(1), entries.len().checked_sub(1)) else {
            let short = entries.first().map_or(0.0, |first| first - log);
            return Between { below: 0, share: 0.0, short };
        };
        let share = match entries.get(above) {
            Some(next) => (log - entries[below]) / (next - entries[below]),
            None => 0.0,
        };
        Between { below: below.min(last), share, short: 0.0 }
    }
}

impl Throughput {
    /// Returns the table of measured throughputs. `rates` [B/s] has a row for each size [B], with a column for each number of
    /// requests. Sizes and numbers ascend, and all values are above 0.
    #[must_use]
    pub fn new(sizes: &[f64], numbers: &[f64], rates: &[f64]) -> Throughput {
        debug_assert_eq!(sizes.len() * numbers.len(), rates.len());
        let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect();
        Throughput { sizes: logs(sizes), numbers: logs(numbers), rates: logs(rates) }
    }

    /// Returns the position of a size [B] among the measured sizes.
    #[must_use]
    pub fn size(&self, size: f64) -> Between {
        Between::new(&self.sizes, size)
    }

    /// Returns the position of a number of requests among the measured numbers.
    #[must_use]
    pub fn number(&self, number: f64) -> Between {
        Between::new(&self.numbers, number)
    }

    /// Returns the throughput of all requests together [B/s].
    #[must_use]
    pub fn at(&self, size: Between, number: Between) -> f64 {
        let columns = self.numbers.len();
        let entry = |row: usize, column: usize| self.rates[row * columns + column];
        let row = |row: usize| {
            let next = (number.below + 1).min(columns - 1);
            mix(entry(row, number.below), entry(row, next), number.share)
        };
        let next = (size.below + 1).min(self.sizes.len() - 1);
        (mix(row(size.below), row(next), size.share) - size.short - number.short).exp()
    }

    /// Returns the throughput of `number` concurrent requests of `size` [B], all together [B/s].
    #[must_use]
    pub fn of(&self, size: f64, number: f64) -> f64 {
        self.at(self.size(size), self.number(number))
    }

    /// Returns this table with all throughputs multiplied by `factor` (positive).
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Throughput {
        let rates = self.rates.iter().map(|rate| rate + factor.ln()).collect();
        Throughput { rates, ..self.clone() }
    }

    /// Returns the highest measured throughput [B/s].
    #[must_use]
    pub fn most(&self) -> f64 {
        self.rates.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp()
    }

    /// Returns the lowest measured throughput [B/s].
    #[must_use]
    pub fn least(&self) -> f64 {
        self.rates.iter().copied().fold(f64::INFINITY, f64::min).exp()
    }
}

fn mix(a: f64, b: f64, share: f64) -> f64 {
    if share == 0.0 { a } else { a + share * (b - a) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of 4 KiB and 1 MiB; 1, 4 and 16 concurrent requests.
    fn table() -> Throughput {
        let rates = [10e6, 40e6, 30e6, 100e6, 400e6, 200e6];
        Throughput::new(&[4096.0, 1_048_576.0], &[1.0, 4.0, 16.0], &rates)
    }

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-12, "{found}, not {expected}");
    }

    #[test]
    fn throughput_at_table_entries_equals_the_measurements() {
        near(table().of(4096.0, 1.0), 10e6);
        near(table().of(1_048_576.0, 4.0), 400e6);
        near(table().of(1_048_576.0, 16.0), 200e6);
        near(table().most(), 400e6);
        near(table().least(), 10e6);
    }

    #[test]
    fn power_laws_are_interpolated_exactly_between_table_entries() {
        // From 1 to 4 requests the throughput is four times as high, so 2 requests have twice the throughput. A size in the
        // middle, by logarithm, has √10 times the throughput of the smaller size. Then both together.
        near(table().of(4096.0, 2.0), 20e6);
        near(table().of(65_536.0, 1.0), 10e6 * 10f64.sqrt());
        near(table().of(65_536.0, 2.0), 20e6 * 10f64.sqrt());
        near(table().of(4096.0, 8.0), (40e6_f64 * 30e6).sqrt());
    }

    #[test]
    fn beyond_the_table_the_nearest_entry_limits_throughput() {
        // Smaller size: as many requests per second. Larger size: as many bytes per second. More requests: the same total.
        near(table().of(1024.0, 4.0), 10e6);
        near(table().of(1e9, 4.0), 400e6);
        near(table().of(4096.0, 100.0), 30e6);
        let few = Throughput::new(&[1e6], &[4.0], &[8e6]);
        near(few.of(1e6, 1.0), 2e6);
        near(few.of(1e6, 9.0), 8e6);
    }
}
