//! Quantities as people write them: four significant digits at most, and a prefix of the SI.

/// A time [s]: `3.2 ms`, `50 us`, `2 min 5 s`.
pub fn seconds(value: f64) -> String {
    if (60.0..f64::INFINITY).contains(&value) {
        return long(value);
    }
    let scales = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
    let scale = scales.into_iter().find(|(factor, _)| value.abs() >= 0.9999 * factor);
    let (factor, unit) = scale.unwrap_or(if value == 0.0 { (1.0, "s") } else { (1e-12, "ps") });
    format!("{} {unit}", number(value / factor))
}

fn long(value: f64) -> String {
    let whole = value.round();
    let (hours, minutes, rest) =
        ((whole / 3600.0).floor(), (whole % 3600.0 / 60.0).floor(), whole % 60.0);
    if hours > 0.0 { format!("{hours} h {minutes} min") } else { format!("{minutes} min {rest} s") }
}

/// A size [B]: `256 kB`, `1.5 GB`.
pub fn bytes(value: f64) -> String {
    prefixed(value, "B")
}

/// A rate [`unit`/s]: `12.3 k samples/s`, `2 GB/s`.
pub fn rate(value: f64, unit: &str) -> String {
    if unit == "B" { prefixed(value, "B/s") } else { prefixed(value, &format!("{unit}/s")) }
}

/// A share: `16.7 %`.
pub fn share(value: f64) -> String {
    if value.is_finite() { format!("{:.1} %", unsigned_zero(value)) } else { "-".to_owned() }
}

/// A share that may be less than nothing, with its sign: `+16.7 %`.
pub fn signed_share(value: f64) -> String {
    if value.is_finite() { format!("{:+.1} %", unsigned_zero(value)) } else { "-".to_owned() }
}

/// A share in per cent; what would be written as minus nothing is nothing.
fn unsigned_zero(share: f64) -> f64 {
    let percent = share * 100.0;
    if percent.abs() < 0.05 { 0.0 } else { percent }
}

/// A number with a prefix before its unit.
pub fn prefixed(value: f64, unit: &str) -> String {
    let scales = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let scale = scales.into_iter().find(|(factor, _)| value.abs() >= 0.9999 * factor);
    let (factor, prefix) = scale.unwrap_or((1.0, ""));
    let symbol = unit.starts_with(['B', 'J', 'W']);
    let gap = if prefix.is_empty() || symbol { "" } else { " " };
    format!("{} {prefix}{gap}{unit}", number(value / factor)).trim_end().to_owned()
}

/// A number with at most four significant digits.
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
    fn quantities_read_well() {
        let expected = [
            (seconds(0.0032), "3.2 ms"),
            (seconds(50e-6), "50 us"),
            (seconds(0.05), "50 ms"),
            (seconds(0.001), "1 ms"),
            (seconds(12.3456), "12.35 s"),
            (seconds(125.4), "2 min 5 s"),
            (seconds(7260.0), "2 h 1 min"),
            (seconds(0.0), "0 s"),
            (seconds(f64::INFINITY), "inf s"),
            (bytes(784.0), "784 B"),
            (bytes(1.5e9), "1.5 GB"),
            (rate(2e9, "B"), "2 GB/s"),
            (rate(12_345.0, "samples"), "12.35 k samples/s"),
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
}
