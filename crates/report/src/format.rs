//! Quantities as people write them: four significant digits at most, and an SI prefix.

/// Writes a time [s]: `3.2 ms`, `50 us`, `2 min 5 s`.
pub fn seconds(value: f64) -> String {
    if (60.0..f64::INFINITY).contains(&value) {
        return long(value);
    }
    let (factor, unit) = part_of_a_second(value);
    format!("{}{unit}", number(value / factor))
}

/// Returns the unit, as factor and symbol, in which a time below a minute is written.
fn part_of_a_second(value: f64) -> (f64, &'static str) {
    let scales = [(1.0, " s"), (1e-3, " ms"), (1e-6, " us"), (1e-9, " ns")];
    let scale = scales.into_iter().find(|(factor, _)| value.abs() >= 0.9999 * factor);
    scale.unwrap_or(if value == 0.0 { (1.0, " s") } else { (1e-12, " ps") })
}

/// A minute, an hour and a day [s].
const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;
/// Times from here on [s] are written in days, and in years.
const DAYS: f64 = 100.0 * HOUR;
const YEARS: f64 = 2.0 * YEAR;
/// A year [s].
const YEAR: f64 = 365.0 * DAY;

/// Returns the smallest unit [s] in which a time of at least a minute is written.
fn smallest_unit(value: f64) -> f64 {
    match value {
        YEARS.. => DAY,
        DAYS.. => HOUR,
        HOUR.. => MINUTE,
        _ => 1.0,
    }
}

/// Writes a time of at least a minute [s].
fn long(value: f64) -> String {
    if value >= 100.0 * YEAR {
        return format!("{} years", count(value / YEAR));
    }
    if value >= DAYS {
        let (unit, words) =
            if value >= YEARS { (YEAR, ["year", "day"]) } else { (DAY, ["day", "h"]) };
        let part = smallest_unit(value);
        let whole = (value / part).round() * part;
        let (many, rest) = ((whole / unit).floor(), (whole % unit / part).round());
        let rest = match words[1] {
            "h" => format!("{rest} h"),
            word => counted(rest, word),
        };
        return format!("{} {rest}", counted(many, words[0]));
    }
    let whole = value.round();
    let (hours, minutes, rest) =
        ((whole / 3600.0).floor(), (whole % 3600.0 / 60.0).floor(), whole % 60.0);
    if hours > 0.0 { format!("{hours} h {minutes} min") } else { format!("{minutes} min {rest} s") }
}

/// Writes a whole number with its noun: `1 day`, `2 days`.
fn counted(number: f64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1.0 { "" } else { "s" })
}

/// Writes the half-width [s] of the interval of a time that is written to whole units of `unit` [s], at the same precision;
/// `None` if it is less than half a unit.
fn half_of_long(half: f64, unit: f64) -> Option<String> {
    let whole = (half / unit).round() * unit;
    let rest = |larger: f64| whole < larger || !whole.is_finite();
    Some(match unit {
        _ if whole == 0.0 => return None,
        1.0 if rest(MINUTE) => format!("{whole} s"),
        MINUTE if rest(HOUR) => format!("{} min", whole / MINUTE),
        HOUR if rest(DAYS) => format!("{} h", whole / HOUR),
        DAY if rest(YEARS) => counted(whole / DAY, "day"),
        _ => long(whole),
    })
}

/// Writes a size [B]: `256 kB`, `1.5 GB`.
pub fn bytes(value: f64) -> String {
    prefixed(value, "B")
}

/// Writes a rate [`unit`/s]: `12,350 samples/s`, `2 GB/s`.
pub fn rate(value: f64, unit: &str) -> String {
    match unit {
        "B" => prefixed(value, "B/s"),
        _ if value.abs() < MILLION => format!("{} {unit}/s", count(value)),
        _ => prefixed(value, &format!("{unit}/s")),
    }
}

/// Smallest count that is written with an SI prefix, such as `1 M`.
const MILLION: f64 = 999_950.0;

/// Writes a count, or a number per second: `12,350`, `1.2 M`.
pub fn count(value: f64) -> String {
    if !(999.95..MILLION).contains(&value.abs()) {
        return prefixed(value, "");
    }
    let unit = 10f64.powf(value.abs().log10().floor() - 3.0);
    let digits = format!("{:.0}", (value.abs() / unit).round() * unit);
    let (thousands, rest) = digits.split_at(digits.len() - 3);
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{thousands},{rest}")
}

/// Largest excess of a share's interval below 0 or above 1 at which the interval is still written as ± its half-width, which is
/// shorter in a table.
const BEYOND: f64 = 0.01;

/// Kind of a figure, which decides how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A time [s].
    Seconds,
    /// A share, from 0 to 1.
    Share,
    /// A count, or a number per second.
    Count,
}

impl Quantity {
    /// Writes a value with its unit.
    pub fn write(self, value: f64) -> String {
        match self {
            Quantity::Seconds => seconds(value),
            Quantity::Share => share(value),
            Quantity::Count => count(value),
        }
    }

    /// Writes a mean and its interval: `50.94 ± 0.04 ms`. If the interval of a share goes well beyond 0 or 1, its two
    /// ends are written, cut off at 0 and 1: `95.8 % (87.4 to 100 %)`.
    pub fn with_interval(self, mean: f64, [low, high]: [f64; 2]) -> String {
        let half = (high - low) / 2.0;
        let written = self.with_half(mean, half);
        let beyond = low.min(mean - half) < -BEYOND || high.max(mean + half) > 1.0 + BEYOND;
        if self != Quantity::Share || !beyond || !written.contains('±') {
            return written;
        }
        let end = |value: f64| match value.clamp(0.0, 1.0) {
            0.0 => "0".to_owned(),
            1.0 => "100".to_owned(),
            inside => format!("{:.1}", 100.0 * inside),
        };
        format!("{} ({} to {} %)", share(mean), end(low), end(high))
    }

    /// Writes a mean and the half-width of its interval in one unit: `50.94 ± 0.04 ms`. A half-width that would be written as
    /// zero is left out.
    fn with_half(self, mean: f64, half: f64) -> String {
        let (factor, unit) = match self {
            Quantity::Seconds if mean.abs() < 60.0 => part_of_a_second(mean),
            Quantity::Seconds if mean.is_finite() => {
                let half = half_of_long(half, smallest_unit(mean));
                let written = self.write(mean);
                return half.map_or(written.clone(), |half| format!("{written} ± {half}"));
            }
            Quantity::Count if mean.abs() < MILLION => (1.0, ""),
            Quantity::Share => (0.01, " %"),
            Quantity::Seconds | Quantity::Count => {
                return format!("{} ± {}", self.write(mean), self.write(half));
            }
        };
        let decimals = match self {
            Quantity::Share => 1,
            Quantity::Seconds | Quantity::Count => {
                (3.0 - (mean.abs() / factor).log10().floor()).clamp(0.0, 4.0) as usize
            }
        };
        let half = format!("{:.decimals$}", half / factor);
        let written = self.write(mean);
        let zero = half.bytes().all(|byte| matches!(byte, b'0' | b'.'));
        match written.strip_suffix(unit) {
            Some(mean) if !zero => format!("{mean} ± {half}{unit}"),
            _ => written,
        }
    }
}

/// Writes a share: `16.7 %`.
pub fn share(value: f64) -> String {
    if value.is_finite() { format!("{:.1} %", unsigned_zero(value)) } else { "-".to_owned() }
}

/// Writes a share that may be negative, with its sign: `+16.7 %`.
pub fn signed_share(value: f64) -> String {
    if value.is_finite() { format!("{:+.1} %", unsigned_zero(value)) } else { "-".to_owned() }
}

/// Returns a share in per cent; a value that would be written as −0.0 becomes 0.
fn unsigned_zero(share: f64) -> f64 {
    let percent = share * 100.0;
    if percent.abs() < 0.05 { 0.0 } else { percent }
}

/// Writes a number with an SI prefix before its unit.
pub fn prefixed(value: f64, unit: &str) -> String {
    let scales = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let scale = scales.into_iter().find(|(factor, _)| value.abs() >= 0.9999 * factor);
    let (factor, prefix) = scale.unwrap_or((1.0, ""));
    let symbol = unit.starts_with(['B', 'J', 'W']);
    let gap = if prefix.is_empty() || symbol { "" } else { " " };
    format!("{} {prefix}{gap}{unit}", number(value / factor)).trim_end().to_owned()
}

/// Writes a number with at most four significant digits.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "-" } else { "inf" }.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    let decimals = (3.0 - magnitude).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sizes_rates_and_shares_are_rounded_and_have_units() {
        let expected = [
            (seconds(0.0032), "3.2 ms"),
            (seconds(50e-6), "50 us"),
            (seconds(0.05), "50 ms"),
            (seconds(0.001), "1 ms"),
            (seconds(12.3456), "12.35 s"),
            (seconds(125.4), "2 min 5 s"),
            (seconds(7260.0), "2 h 1 min"),
            (seconds(99.5 * 3600.0), "99 h 30 min"),
            (seconds(100.0 * 3600.0), "4 days 4 h"),
            (seconds(15_461.9 * 3600.0), "644 days 6 h"),
            (seconds(2.0 * 365.0 * 86_400.0), "2 years 0 days"),
            (seconds(2.0 * 366.0 * 86_400.0 + 40_000.0), "2 years 2 days"),
            (seconds(1e12), "31,710 years"),
            (seconds(0.0), "0 s"),
            (seconds(f64::INFINITY), "inf s"),
            (bytes(784.0), "784 B"),
            (bytes(1.5e9), "1.5 GB"),
            (rate(2e9, "B"), "2 GB/s"),
            (rate(12_345.0, "samples"), "12,350 samples/s"),
            (rate(1.25e6, "samples"), "1.25 M samples/s"),
            (count(999.96), "1,000"),
            (count(999_960.0), "1 M"),
            (count(-5_025.4), "-5,025"),
            (count(80_398.0), "80,400"),
            (rate(-12.5, "samples"), "-12.5 samples/s"),
            (share(0.1667), "16.7 %"),
            (share(-1e-17), "0.0 %"),
            (share(-0.0004), "0.0 %"),
            (share(-0.0006), "-0.1 %"),
            (signed_share(-1e-17), "+0.0 %"),
            (signed_share(-0.25), "-25.0 %"),
            (number(-0.0), "0"),
            (number(1_234_567.0), "1234567"),
            (number(f64::NAN), "-"),
        ];
        for (found, expected) in expected {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn intervals_of_shares_end_where_shares_end() {
        let share = |mean, ends| Quantity::Share.with_interval(mean, ends);
        assert_eq!(share(0.509, [0.505, 0.513]), "50.9 ± 0.4 %");
        assert_eq!(share(0.958, [0.874, 1.042]), "95.8 % (87.4 to 100 %)");
        assert_eq!(share(0.958, [0.874, 1.0]), "95.8 % (87.4 to 100 %)");
        assert_eq!(share(0.02, [-0.01, 0.05]), "2.0 % (0 to 5.0 %)");
        assert_eq!(share(1.0, [0.99999, 1.00001]), "100.0 %");
        assert_eq!(share(1.0, [0.995, 1.005]), "100.0 ± 0.5 %");
        assert_eq!(Quantity::Count.with_interval(5_025.0, [5_020.0, 5_030.0]), "5,025 ± 5");
    }

    #[test]
    fn half_widths_follow_a_mean_in_matching_units_unless_they_round_to_zero() {
        let expected = [
            (Quantity::Seconds.with_half(0.05094, 42.96e-6), "50.94 ± 0.04 ms"),
            (Quantity::Seconds.with_half(0.05094, 1e-6), "50.94 ms"),
            (Quantity::Seconds.with_half(2.0, 0.125), "2 ± 0.125 s"),
            (Quantity::Seconds.with_half(120.0, 3.0), "2 min 0 s ± 3 s"),
            (Quantity::Seconds.with_half(203.4, 0.4497), "3 min 23 s"),
            (Quantity::Seconds.with_half(203.4, 3.217), "3 min 23 s ± 3 s"),
            (Quantity::Seconds.with_half(203.4, 90.0), "3 min 23 s ± 1 min 30 s"),
            (Quantity::Seconds.with_half(7260.0, 129.0), "2 h 1 min ± 2 min"),
            (Quantity::Seconds.with_half(5.5e7, 30_000.0), "636 days 14 h ± 8 h"),
            (Quantity::Share.with_half(0.059, 0.0004), "5.9 %"),
            (Quantity::Share.with_half(0.509, 0.004), "50.9 ± 0.4 %"),
            (Quantity::Count.with_half(5_025.0, 4.219), "5,025 ± 4"),
            (Quantity::Count.with_half(582.2, 4.655), "582.2 ± 4.7"),
            (Quantity::Count.with_half(2e6, 5e4), "2 M ± 50,000"),
            (Quantity::Seconds.with_half(0.0, 0.0), "0 s"),
        ];
        for (found, expected) in expected {
            assert_eq!(found, expected);
        }
    }
}
