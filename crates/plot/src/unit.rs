//! Units, and formatting of values with units.

use schemars::JsonSchema;
use serde::Deserialize;

/// Unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// No unit: a number, a count or a rate.
    #[default]
    Number,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// A part of 1, shown in per cent.
    Share,
}

impl Unit {
    /// Returns the factor and name of this unit and its multiples, in ascending order.
    fn multiples(self) -> &'static [(f64, &'static str)] {
        match self {
            Unit::Number => {
                &[(1e-6, " µ"), (1e-3, " m"), (1.0, ""), (1e3, " k"), (1e6, " M"), (1e9, " G")]
            }
            Unit::Seconds => &[
                (1e-9, " ns"),
                (1e-6, " µs"),
                (1e-3, " ms"),
                (1.0, " s"),
                (60.0, " min"),
                (3600.0, " h"),
            ],
            Unit::Bytes => &[(1.0, " B"), (1e3, " kB"), (1e6, " MB"), (1e9, " GB"), (1e12, " TB")],
            Unit::BytesPerSecond => {
                &[(1.0, " B/s"), (1e3, " kB/s"), (1e6, " MB/s"), (1e9, " GB/s"), (1e12, " TB/s")]
            }
            Unit::Share => &[(0.01, " %")],
        }
    }

    /// Returns the multiple of the unit in which to write `value`.
    pub(super) fn multiple(self, value: f64) -> (f64, &'static str) {
        // Thresholds above which a larger multiple reads better: 200 s, but 5 min.
        let from = |(factor, name): &(f64, &str)| match *name {
            " min" => 300.0,
            " h" => 10_800.0,
            " k" => 2e3,
            _ => factor * (1.0 - 1e-9),
        };
        let all = self.multiples();
        let found = all.iter().rev().find(|multiple| value.abs() >= from(multiple));
        // Small plain numbers read better without a prefix.
        let plain = self == Unit::Number && (1e-2..1.0).contains(&value.abs());
        let least = all.first().copied().unwrap_or((1.0, ""));
        if plain { (1.0, "") } else { found.copied().unwrap_or(least) }
    }

    /// Returns positions of grid lines on a logarithmic axis, from below `low` to above `high`: powers of ten. For times over a
    /// minute these are powers of ten of seconds, then 1 and 10 minutes, then powers of ten of hours.
    pub(super) fn decades(self, low: f64, high: f64) -> Vec<f64> {
        let power = |of: f64| move |power: i32| of * 10f64.powi(power);
        let tens = |low: f64, high: f64| low.log10().floor() as i32..=high.log10().ceil() as i32;
        if self != Unit::Seconds || high <= 60.0 {
            return tens(low, high).map(power(1.0)).collect();
        }
        let seconds = tens(low.min(1.0), 10.0).map(power(1.0));
        let minutes = [60.0, 600.0].into_iter();
        let hours = (0..=(high / 3600.0).max(1.0).log10().ceil() as i32).map(power(3600.0));
        let all: Vec<f64> = seconds.chain(minutes).chain(hours).collect();
        let below = all.partition_point(|at| *at <= low).saturating_sub(1);
        all[below..].to_vec()
    }

    /// Formats `value` for a tick. Times use the largest multiple in which they are whole numbers (minutes and hours: whole or
    /// half numbers); counts below 10,000 are written in full.
    pub(super) fn write_whole(self, value: f64) -> String {
        let whole = |(factor, _): &&(f64, &str)| {
            // Half minutes and half hours read well too.
            let parts = if *factor >= 60.0 { 2.0 } else { 1.0 };
            let scaled = parts * value / factor;
            scaled > 0.5 * parts && (scaled - scaled.round()).abs() < 1e-9 * scaled
        };
        match self.multiples().iter().rev().find(whole) {
            Some((factor, name)) if self == Unit::Seconds => {
                format!("{}{name}", trimmed(value / factor, 1))
            }
            _ if self == Unit::Number && value.fract() == 0.0 && value.abs() < 1e4 => {
                minus(&value.to_string())
            }
            _ => self.write(value),
        }
    }

    /// Formats `value` with its unit, such as `2.5 ms`, with as many decimals as it needs, up to three digits.
    pub fn write(self, value: f64) -> String {
        if value == 0.0 {
            return "0".into();
        }
        let (factor, name) = self.multiple(value);
        let scaled = value / factor;
        let digits = 3 - scaled.abs().max(1.0).log10().floor() as i32 - 1;
        let plain = (1e-2..1e5).contains(&scaled.abs());
        let text = if plain {
            trimmed(scaled, digits.max(0) as usize)
        } else {
            minus(&format!("{scaled:e}"))
        };
        format!("{text}{name}")
    }
}

/// Formats a number with at most `decimals` decimals, without trailing zeros.
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    minus(text)
}

/// Replaces hyphens by typographic minus signs.
pub(super) fn minus(text: &str) -> String {
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_a_suitable_multiple_of_their_unit() {
        assert_eq!(Unit::Seconds.write(0.0025), "2.5 ms");
        assert_eq!(Unit::Number.write(20_000.0), "20 k");
        assert_eq!(Unit::Number.write(1000.0), "1000");
        assert_eq!(Unit::Share.write(0.5), "50 %");
        assert_eq!(Unit::Number.write(-0.5), "−0.5");
    }
}
