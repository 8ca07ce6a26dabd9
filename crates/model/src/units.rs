//! Quantities as users write them: a number, a space, a unit. `"10 Gbit/s"`, `"256 KiB"`, `"3 ms"`.
//!
//! All other modules use SI units: seconds, bytes, bytes per second, per second.

mod scaled;

pub use scaled::{is_counted, natural, number, number_and_unit, rounded, scaled, scaled_count};

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// A unit: its name, and its size in SI units as `numerator / denominator`. Both numbers are exact, so that `"15.6 us"` is the
/// double nearest to 15.6e-6.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// Name as written in a file.
    pub name: &'static str,
    numerator: f64,
    denominator: f64,
}

impl Unit {
    /// Returns `number` of this unit [SI unit]: the nearest double, so that all spellings of an amount are the same one.
    fn si(&self, number: f64) -> f64 {
        let in_decimals = || {
            let power = power_of_ten(self.numerator)? - power_of_ten(self.denominator)?;
            let text = format!("{number:e}");
            let (mantissa, exponent) = text.split_once('e')?;
            format!("{mantissa}e{}", exponent.parse::<i32>().ok()? + power).parse().ok()
        };
        in_decimals().unwrap_or(number * self.numerator / self.denominator)
    }
}

/// Returns the exponent of a power of ten; `None` for other numbers.
fn power_of_ten(number: f64) -> Option<i32> {
    (0..=18).find(|power| 10_f64.powi(*power) == number)
}

const fn unit(name: &'static str, numerator: f64, denominator: f64) -> Unit {
    Unit { name, numerator, denominator }
}

/// A kind of quantity: its units, and the range of values that a scenario may use.
pub trait Dimension:
    fmt::Debug + Clone + Copy + PartialEq + schemars::JsonSchema + 'static
{
    /// Name with its article: `a time`.
    const WHAT: &'static str;
    /// Name of its JSON Schema definition.
    const SCHEMA: &'static str;
    /// Accepted units, in the order in which messages list them.
    const UNITS: &'static [Unit];
    /// An example value, such as `3 ms`.
    const EXAMPLE: &'static str;
    /// Smallest value that can be simulated, other than zero [SI unit].
    const MIN: f64;
    /// Largest value that can be simulated [SI unit].
    const MAX: f64;
    /// Whether only whole numbers are valid.
    const WHOLE: bool = false;
}

macro_rules! dimension {
    ($(#[$doc:meta])* $name:ident, $what:literal, $example:literal, $min:literal ..= $max:literal,
     [$($unit:literal $numerator:literal / $denominator:literal),* $(,)?] $(, $whole:literal)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, schemars::JsonSchema)]
        pub struct $name;
        impl Dimension for $name {
            const WHAT: &'static str = $what;
            const SCHEMA: &'static str = stringify!($name);
            const UNITS: &'static [Unit] = &[$(unit($unit, $numerator, $denominator)),*];
            const EXAMPLE: &'static str = $example;
            const MIN: f64 = $min;
            const MAX: f64 = $max;
            $(const WHOLE: bool = $whole;)?
        }
    };
}

dimension!(
    /// Time, in seconds; also core-seconds.
    Time, "a time", "3 ms", 1e-12 ..= 1e7,
    ["ps" 1.0 / 1e12, "ns" 1.0 / 1e9, "us" 1.0 / 1e6, "µs" 1.0 / 1e6, "ms" 1.0 / 1e3, "s" 1.0 / 1.0,
     "min" 60.0 / 1.0, "h" 3600.0 / 1.0, "d" 86400.0 / 1.0]
);
dimension!(
    /// Time that may exceed the longest time that can be simulated, such as the mean time between failures of a node.
    LongTime, "a time", "5000 h", 1e-12 ..= 1e12,
    ["ps" 1.0 / 1e12, "ns" 1.0 / 1e9, "us" 1.0 / 1e6, "µs" 1.0 / 1e6, "ms" 1.0 / 1e3, "s" 1.0 / 1.0,
     "min" 60.0 / 1.0, "h" 3600.0 / 1.0, "d" 86400.0 / 1.0, "y" 31536000.0 / 1.0]
);
dimension!(
    /// Size, in bytes.
    Size, "a size", "256 KiB", 1.0 ..= 1e18,
    ["B" 1.0 / 1.0, "kB" 1e3 / 1.0, "MB" 1e6 / 1.0, "GB" 1e9 / 1.0, "TB" 1e12 / 1.0, "PB" 1e15 / 1.0,
     "KiB" 1024.0 / 1.0, "MiB" 1048576.0 / 1.0, "GiB" 1073741824.0 / 1.0,
     "TiB" 1099511627776.0 / 1.0, "PiB" 1125899906842624.0 / 1.0]
);
dimension!(
    /// Bandwidth [B/s].
    Bandwidth, "a bandwidth", "10 Gbit/s", 1.0 ..= 1e18,
    ["B/s" 1.0 / 1.0, "kB/s" 1e3 / 1.0, "MB/s" 1e6 / 1.0, "GB/s" 1e9 / 1.0, "TB/s" 1e12 / 1.0,
     "PB/s" 1e15 / 1.0,
     "KiB/s" 1024.0 / 1.0, "MiB/s" 1048576.0 / 1.0, "GiB/s" 1073741824.0 / 1.0,
     "TiB/s" 1099511627776.0 / 1.0, "bit/s" 1.0 / 8.0, "kbit/s" 125.0 / 1.0,
     "Mbit/s" 125000.0 / 1.0, "Gbit/s" 125000000.0 / 1.0, "Tbit/s" 125000000000.0 / 1.0]
);
dimension!(
    /// Rate of operations [1/s].
    Rate, "a rate", "20000 /s", 1e-6 ..= 1e12,
    ["/s" 1.0 / 1.0, "/ms" 1e3 / 1.0, "/us" 1e6 / 1.0, "/min" 1.0 / 60.0, "/h" 1.0 / 3600.0,
     "k/s" 1e3 / 1.0, "M/s" 1e6 / 1.0, "G/s" 1e9 / 1.0, "T/s" 1e12 / 1.0]
);
dimension!(
    /// Power [W].
    Power, "a power", "300 W", 1e-6 ..= 1e9,
    ["mW" 1.0 / 1e3, "W" 1.0 / 1.0, "kW" 1e3 / 1.0, "MW" 1e6 / 1.0]
);
dimension!(
    /// Number of samples.
    Samples, "a number of samples", "2000 samples", 1.0 ..= 1e12,
    ["samples" 1.0 / 1.0, "sample" 1.0 / 1.0], true
);
dimension!(
    /// Number of batches.
    Batches, "a number of batches", "4 batches", 1.0 ..= 1e9,
    ["batches" 1.0 / 1.0, "batch" 1.0 / 1.0], true
);

/// All dimensions with their units. Error messages name the dimension of a unit that is used for another dimension.
const FAMILIES: [(&str, &[Unit]); 7] = [
    (Time::WHAT, Time::UNITS),
    (Size::WHAT, Size::UNITS),
    (Bandwidth::WHAT, Bandwidth::UNITS),
    (Rate::WHAT, Rate::UNITS),
    (Power::WHAT, Power::UNITS),
    (Samples::WHAT, Samples::UNITS),
    (Batches::WHAT, Batches::UNITS),
];

/// Description of a dimension, for documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DimensionWords {
    /// Name with its article: `a time`.
    pub what: &'static str,
    /// An example value, such as `3 ms`.
    pub example: &'static str,
    /// Smallest value other than zero that can be simulated.
    pub least: String,
    /// Largest value that can be simulated.
    pub most: String,
    /// Accepted units, separated by commas.
    pub units: String,
}

/// Returns the descriptions of all dimensions.
#[must_use]
pub fn families() -> [DimensionWords; 7] {
    [
        family::<Time>(),
        family::<Size>(),
        family::<Bandwidth>(),
        family::<Rate>(),
        family::<Power>(),
        family::<Samples>(),
        family::<Batches>(),
    ]
}

fn family<D: Dimension>() -> DimensionWords {
    let unit = D::UNITS.first().map_or("", |unit| unit.name);
    let shown = |value| match D::WHOLE {
        true => format!("{value} {unit}"),
        false => Quantity::<D>::new(value).map(|of| of.to_string()).unwrap_or_default(),
    };
    DimensionWords {
        what: D::WHAT,
        example: D::EXAMPLE,
        least: shown(D::MIN),
        most: shown(D::MAX),
        units: accepted::<D>(),
    }
}

/// A finite number of SI units of dimension `D`, of any sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity<D>(f64, PhantomData<D>);

impl<D: Dimension> Quantity<D> {
    /// Returns a quantity of `value` SI units; `None` if `value` is not finite.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self(value, PhantomData))
    }

    /// Returns the value [SI unit].
    #[must_use]
    pub fn si(self) -> f64 {
        self.0
    }
}

/// Returns a time that is written in several units, as reports write it: `1 min 15 s` [s]; `None` for any other text.
///
/// # Errors
/// If a part has an unknown unit or is negative, or the units do not descend.
fn sum_of_times(text: &str, units: &[Unit]) -> Result<Option<f64>, UnitError> {
    let Some(parts) = parts(text)? else { return Ok(None) };
    if parts.len() < 2 {
        return Ok(None);
    }
    let (mut sum, mut last) = (0.0, f64::INFINITY);
    for (number, name) in parts {
        let unit = units.iter().find(|unit| unit.name == name);
        let unit = unit.ok_or_else(|| not_a_unit::<Time>(name))?;
        if number.is_sign_negative() || unit.si(1.0) >= last {
            return Err(UnitError::WrongSum);
        }
        (sum, last) = (sum + unit.si(number), unit.si(1.0));
    }
    if sum.is_finite() { Ok(Some(sum)) } else { Err(UnitError::TooLarge) }
}

/// Splits a text into numbers, each with the word behind it; `None` if it is anything else.
fn parts(text: &str) -> Result<Option<Vec<(f64, &str)>>, UnitError> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (number, after) = match split(rest) {
            Err(UnitError::TooLarge) => return Err(UnitError::TooLarge),
            Err(_) => return Ok(None),
            Ok(part) => part,
        };
        let (name, next) = after.split_at(after.find(char::is_whitespace).unwrap_or(after.len()));
        parts.push((number, name));
        rest = next.trim_start();
    }
    Ok(Some(parts))
}

impl<D: Dimension> FromStr for Quantity<D> {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, name) = split(text)?;
        let name = &joined(name);
        let accepted = accepted::<D>;
        if name.is_empty() {
            return Err(UnitError::NoUnit { what: D::WHAT, accepted: accepted() });
        }
        let Some(unit) = D::UNITS.iter().find(|unit| unit.name == name) else {
            let sum = if D::WHAT == Time::WHAT { sum_of_times(text, D::UNITS)? } else { None };
            return sum.and_then(Self::new).ok_or_else(|| not_a_unit::<D>(name));
        };
        Self::new(unit.si(number)).ok_or(UnitError::TooLarge)
    }
}

/// Writes the shortest text that reads back as exactly this value.
impl<D: Dimension> fmt::Display for Quantity<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = D::UNITS.iter().filter_map(|unit| {
            let text = format!("{} {}", self.0 * unit.denominator / unit.numerator, unit.name);
            (text.parse() == Ok(*self)).then_some(text)
        });
        // A unit of size 1 reads back exactly, so `texts` is not empty.
        f.write_str(&texts.min_by_key(String::len).unwrap_or_default())
    }
}

/// Reads a share, such as `95 %` or `0.95`. A number without a percent sign must be below 1: `1` may mean 1 % or 100 %.
#[must_use]
pub fn share(text: &str) -> Option<f64> {
    let number = |text: &str| text.trim().replace('_', "").parse::<f64>().ok();
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(text).filter(|share| *share < 1.0)?,
    };
    Some(share).filter(|share| share.is_finite())
}

/// Returns the value of a text with a unit of any dimension [SI unit]; `None` if the text is no quantity.
#[must_use]
pub fn si(text: &str) -> Option<f64> {
    let (number, name) = split(text).ok()?;
    let name = joined(name);
    match FAMILIES.iter().flat_map(|(_, units)| *units).find(|unit| unit.name == name) {
        Some(unit) => Some(unit.si(number)).filter(|value| value.is_finite()),
        None => sum_of_times(text, Time::UNITS).ok()?,
    }
}

/// Returns the SI unit of a quantity: `B/s` for `"10 Gbit/s"`; `None` if the text is no quantity.
#[must_use]
pub fn si_unit(text: &str) -> Option<&'static str> {
    let (_, name) = split(text).ok()?;
    let name = joined(name);
    let family = FAMILIES.iter().find(|(_, units)| units.iter().any(|unit| unit.name == name));
    let Some((_, units)) = family else {
        return sum_of_times(text, Time::UNITS).ok()?.map(|_| "s");
    };
    units.iter().find(|unit| unit.si(1.0) == 1.0).map(|unit| unit.name)
}

/// Returns the unit's name without the space that reports put between a prefix and `/`: `k /s` becomes `k/s`.
fn joined(name: &str) -> Cow<'_, str> {
    match name.split_once('/') {
        Some((prefix, per)) if prefix.ends_with(' ') => {
            format!("{}/{per}", prefix.trim_end()).into()
        }
        _ => name.into(),
    }
}

/// Returns the names of the units of `D`, separated by commas.
#[must_use]
pub fn accepted<D: Dimension>() -> String {
    D::UNITS.iter().map(|unit| unit.name).collect::<Vec<_>>().join(", ")
}

/// Returns the JSON Schema of a quantity as text: a pattern with every unit, and an example.
#[must_use]
pub fn schema<D: Dimension>() -> schemars::Schema {
    // Reports put a space between a prefix and `/` in rates: `k /s`.
    let units = D::UNITS.iter().map(|unit| match unit.name.split_once('/') {
        Some((prefix @ ("k" | "M" | "G" | "T"), per)) => format!("{prefix} ?/{per}"),
        _ => unit.name.to_owned(),
    });
    let units: Vec<String> = units.collect();
    let one = format!(r"\+?[0-9_]*\.?[0-9_]*([eE][+-]?[0-9]+)?\s*({})", units.join("|"));
    // Times may be sums: `1 min 15 s`.
    let more = if D::WHAT == Time::WHAT { format!(r"(\s+{one})*") } else { String::new() };
    schemars::json_schema!({
        "type": "string",
        "description": format!("{} with its unit: one of {}", D::WHAT, accepted::<D>()),
        "pattern": format!(r"^\s*{one}{more}\s*$"),
        "examples": [D::EXAMPLE],
    })
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text does not begin with a number.
    #[error("the value does not begin with a number")]
    NoNumber,
    /// The number is `nan` or `inf`.
    #[error("the value is not a finite number")]
    NotFinite,
    /// There is no unit after the number.
    #[error("{what} needs a unit: one of {accepted}")]
    NoUnit {
        /// Expected dimension, with its article.
        what: &'static str,
        /// Accepted units, separated by commas.
        accepted: String,
    },
    /// The unit belongs to another dimension.
    #[error("`{unit}` is a unit of {found}, but {what} is expected: write one of {accepted}")]
    WrongKind {
        /// Unit as written.
        unit: String,
        /// Dimension that the unit belongs to.
        found: &'static str,
        /// Expected dimension, with its article.
        what: &'static str,
        /// Accepted units, separated by commas.
        accepted: String,
    },
    /// There is no such unit.
    #[error("`{unit}` is not a unit of {what}{}: one of {accepted}",
        nearest.map(|name| format!(" (`{name}`?)")).unwrap_or_default())]
    Unknown {
        /// Unit as written.
        unit: String,
        /// Expected dimension, with its article.
        what: &'static str,
        /// Accepted units, separated by commas.
        accepted: String,
        /// The accepted unit that is most similar.
        nearest: Option<&'static str>,
    },
    /// A time of several parts has a negative part, or its units do not descend.
    #[error("a time of several units needs the larger unit first, without signs: `1 min 15 s`")]
    WrongSum,
    /// The number is too large for a double.
    #[error("the value is too large")]
    TooLarge,
}

/// Other names of units, in lower case and in the singular, with the unit that each stands for.
const OTHER_NAMES: [(&str, &str); 26] = [
    ("nanosecond", "ns"),
    ("nsec", "ns"),
    ("microsecond", "us"),
    ("usec", "us"),
    ("millisecond", "ms"),
    ("msec", "ms"),
    ("second", "s"),
    ("sec", "s"),
    ("minute", "min"),
    ("m", "min"),
    ("hour", "h"),
    ("hr", "h"),
    ("day", "d"),
    ("year", "y"),
    ("yr", "y"),
    ("byte", "B"),
    ("kilobyte", "kB"),
    ("megabyte", "MB"),
    ("gigabyte", "GB"),
    ("terabyte", "TB"),
    ("petabyte", "PB"),
    ("iop", "/s"),
    ("op/s", "/s"),
    ("ops/s", "/s"),
    ("watt", "W"),
    ("kilowatt", "kW"),
];

/// Returns the unit of `D` that another name stands for: `minutes` for `min`.
fn by_other_name<D: Dimension>(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let is = |other: &str| name == other || name.strip_suffix('s') == Some(other);
    let mut units = OTHER_NAMES.iter().filter(|(other, _)| is(other)).map(|(_, unit)| *unit);
    units.find(|unit| D::UNITS.iter().any(|known| known.name == *unit))
}

fn not_a_unit<D: Dimension>(name: &str) -> UnitError {
    let unit: String = name.chars().take(40).collect();
    let (what, accepted) = (D::WHAT, accepted::<D>());
    if let Some((found, _)) =
        FAMILIES.iter().find(|(_, units)| units.iter().any(|unit| unit.name == name))
    {
        return UnitError::WrongKind { unit, found, what, accepted };
    }
    let distance = |candidate: &&str| strsim::damerau_levenshtein(candidate, &unit);
    // A lower-case b stands for bits: `Gb/s` and `Gbps` are an eighth of `GB/s`.
    let bits = unit.strip_suffix("b/s").or_else(|| unit.strip_suffix("bps"));
    let bits = bits.map(|prefix| format!("{prefix}bit/s"));
    let in_bits = bits.and_then(|bits| D::UNITS.iter().map(|u| u.name).find(|u| *u == bits));
    let same = in_bits
        .or_else(|| D::UNITS.iter().map(|u| u.name).find(|u| u.eq_ignore_ascii_case(&unit)))
        .or_else(|| by_other_name::<D>(&unit));
    let nearest =
        same.or_else(|| D::UNITS.iter().map(|u| u.name).min_by_key(distance)).filter(|near| {
            same.is_some() || distance(near) <= 2.min(near.chars().count().saturating_sub(1))
        });
    UnitError::Unknown { unit, what, accepted, nearest }
}

/// Splits a text into the number at its beginning and the rest; removes the spaces around both.
fn split(text: &str) -> Result<(f64, &str), UnitError> {
    let text = text.trim();
    let end = number_length(text.as_bytes());
    let (number, rest) = text.split_at_checked(end).ok_or(UnitError::NoNumber)?;
    let rest = rest.trim();
    let Ok(value) = number.replace('_', "").parse::<f64>() else {
        let word = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
        let not_finite = word.starts_with("nan") || word.starts_with("inf");
        return Err(if not_finite { UnitError::NotFinite } else { UnitError::NoNumber });
    };
    if value.is_finite() { Ok((value, rest)) } else { Err(UnitError::TooLarge) }
}

/// Returns the length of the longest prefix that looks like a decimal number [B].
fn number_length(bytes: &[u8]) -> usize {
    let digits = |from: usize| {
        from + bytes
            .iter()
            .skip(from)
            .take_while(|byte| byte.is_ascii_digit() || **byte == b'_')
            .count()
    };
    let sign = |at: usize| at + usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
    let mut end = digits(sign(0));
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let exponent = sign(end + 1);
        if digits(exponent) > exponent {
            end = digits(exponent);
        }
    }
    end
}

#[cfg(test)]
mod tests;
