//! Numbers and quantities that are checked when they are read.

use forebay_model::units::{self, Dimension, Quantity, accepted};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A quantity of at least 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Amount<D>(pub(super) f64, PhantomData<D>);

/// A quantity above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Positive<D>(pub(super) f64, PhantomData<D>);

impl<D: Dimension> Amount<D> {
    /// Returns the value as an integer, for quantities that are whole numbers.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked at least 0"
    )]
    pub(super) fn whole(self) -> u64 {
        self.0 as u64
    }
}

impl<D: Dimension> Positive<D> {
    /// Returns the value as an integer, for quantities that are whole numbers.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above 0")]
    pub(super) fn whole(self) -> u64 {
        self.0 as u64
    }
}

/// Parses a quantity and returns its value in SI units; if the text is invalid, returns what is wrong, with the
/// remedy on a second line. `zero` tells whether 0 is valid.
fn check<D: Dimension>(text: &str, zero: bool) -> Result<f64, String> {
    let example = format!("write {} with its unit: \"{}\"", D::WHAT, D::EXAMPLE);
    let shown: String = text.chars().take(80).collect();
    let value =
        text.parse::<Quantity<D>>().map_err(|error| format!("{shown:?}: {error}\n{example}"))?.si();
    let show = |value: f64| Quantity::<D>::new(value).map(|q| q.to_string()).unwrap_or_default();
    let (least, most) = (show(D::MIN), show(D::MAX));
    let wrong = if value < 0.0 {
        "is negative"
    } else if value == 0.0 && !zero {
        "is zero"
    } else if value > D::MAX {
        "is larger than anything that can be simulated"
    } else if value > 0.0 && value < D::MIN {
        "is smaller than anything that can be simulated"
    } else if D::WHOLE && value.fract() != 0.0 {
        "is not a whole number"
    } else {
        return Ok(value);
    };
    let or = if zero { ", or zero" } else { "" };
    Err(format!("{shown:?} {wrong}\nwrite {} from {least} to {most}{or}", D::WHAT))
}

struct QuantityText<D>(bool, PhantomData<D>);

impl<D: Dimension> Visitor<'_> for QuantityText<D> {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with its unit, like \"{}\",", D::WHAT, D::EXAMPLE)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        check::<D>(text, self.0).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
        Err(no_unit::<D, E>(&value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<f64, E> {
        Err(no_unit::<D, E>(&value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        Err(no_unit::<D, E>(&shown(value)))
    }
}

/// Formats a number in few characters: plainly, or with a power of ten if the plain number would be long.
fn shown(value: f64) -> String {
    let long = value != 0.0 && !(1e-6..1e15).contains(&value.abs());
    if long { format!("{value:e}") } else { value.to_string() }
}

fn no_unit<D: Dimension, E: Error>(number: &str) -> E {
    let (what, units, example) = (D::WHAT, accepted::<D>(), D::EXAMPLE);
    E::custom(format!(
        "the number {number} has no unit, where {what} is expected\n\
         write it in quotes with one of the units {units}: \"{example}\""
    ))
}

impl<'de, D: Dimension> Deserialize<'de> for Amount<D> {
    fn deserialize<R: Deserializer<'de>>(reader: R) -> Result<Self, R::Error> {
        let value = reader.deserialize_str(QuantityText::<D>(true, PhantomData))?;
        Ok(Self(value, PhantomData))
    }
}

impl<'de, D: Dimension> Deserialize<'de> for Positive<D> {
    fn deserialize<R: Deserializer<'de>>(reader: R) -> Result<Self, R::Error> {
        let value = reader.deserialize_str(QuantityText::<D>(false, PhantomData))?;
        Ok(Self(value, PhantomData))
    }
}

impl<D: Dimension> JsonSchema for Amount<D> {
    fn schema_name() -> Cow<'static, str> {
        D::SCHEMA.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        units::schema::<D>()
    }
}

impl<D: Dimension> JsonSchema for Positive<D> {
    fn schema_name() -> Cow<'static, str> {
        D::SCHEMA.into()
    }

    fn schema_id() -> Cow<'static, str> {
        Amount::<D>::schema_id()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        units::schema::<D>()
    }
}

/// A whole number from `LEAST` to `MOST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count<const LEAST: u64, const MOST: u64>(pub(super) u64);

impl<const LEAST: u64, const MOST: u64> Count<LEAST, MOST> {
    /// Returns the value as `u32`; `MOST` must be a valid `u32`.
    pub(super) fn small(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    pub(super) fn check<E: Error>(value: impl Into<i128>) -> Result<Self, E> {
        let value = value.into();
        match u64::try_from(value) {
            Ok(value) if (LEAST..=MOST).contains(&value) => Ok(Self(value)),
            _ => Err(E::custom(format!(
                "{value} is out of range\nwrite a whole number from {LEAST} to {MOST}"
            ))),
        }
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Count<LEAST, MOST> {
    fn deserialize<R: Deserializer<'de>>(reader: R) -> Result<Self, R::Error> {
        struct Whole<const LEAST: u64, const MOST: u64>;

        impl<const LEAST: u64, const MOST: u64> Visitor<'_> for Whole<LEAST, MOST> {
            type Value = Count<LEAST, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {LEAST} to {MOST}")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                Count::check(value)
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
                Count::check(value)
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
                Err(E::invalid_type(Unexpected::Float(value), &self))
            }
        }

        reader.deserialize_u64(Whole)
    }
}

impl<const LEAST: u64, const MOST: u64> JsonSchema for Count<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Count{LEAST}To{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LEAST, "maximum": MOST })
    }
}

/// A number without a unit, above 0 and at most 1e9.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Factor(pub(super) f64);

impl Factor {
    const MOST: f64 = 1e9;
    const RANGE: Range = Range {
        least: 1e-9,
        most: Factor::MOST,
        what: "a number above 0",
        rest: ", at least 1e-9 and at most 1e9",
    };
}

/// Cores of a node: a number above 0, which may be a part of a core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cores(pub(super) f64);

impl Cores {
    pub(super) const MOST: f64 = 1e5;
    /// Valid range; CPU quotas are counted in thousandths of a core.
    const RANGE: Range = Range {
        least: 0.001,
        most: Cores::MOST,
        what: "a number of cores from 0.001 to 100000",
        rest: "; a quota of one core and a half is 1.5",
    };
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<R: Deserializer<'de>>(reader: R) -> Result<Self, R::Error> {
        reader.deserialize_f64(Cores::RANGE).map(Cores)
    }
}

impl JsonSchema for Cores {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Cores".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let Range { least, most, .. } = Cores::RANGE;
        json_schema!({ "type": "number", "minimum": least, "maximum": most })
    }
}

/// A share: a number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share(pub(super) f64);

impl Share {
    const RANGE: Range = Range { least: 0.0, most: 1.0, what: "a number from 0 to 1", rest: "" };
}

/// Half-width of a confidence interval relative to the mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Precision(pub(super) f64);

impl Precision {
    /// Valid range; narrower intervals would need hundreds of millions of steps.
    const RANGE: Range = Range {
        least: 1e-5,
        most: 0.5,
        what: "a share of the mean from 0.00001 to 0.5",
        rest: "; 0.005 is half a per cent",
    };
}

impl<'de> Deserialize<'de> for Precision {
    fn deserialize<R: Deserializer<'de>>(reader: R) -> Result<Self, R::Error> {
        reader.deserialize_f64(Precision::RANGE).map(Precision)
    }
}

impl JsonSchema for Precision {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Precision".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let Range { least, most, .. } = Precision::RANGE;
        json_schema!({ "type": "number", "minimum": least, "maximum": most })
    }
}

/// Valid range of a number, and a description of the range in words.
#[derive(Clone, Copy)]
struct Range {
    least: f64,
    most: f64,
    what: &'static str,
    rest: &'static str,
}

impl Visitor<'_> for Range {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    #[expect(clippy::cast_precision_loss, reason = "what is inexact is too large anyway")]
    fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
        self.visit_f64(value as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "what is inexact is too large anyway")]
    fn visit_u64<E: Error>(self, value: u64) -> Result<f64, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        if (self.least..=self.most).contains(&value) {
            return Ok(value);
        }
        let value = shown(value);
        Err(E::custom(format!("{value} is out of range\nwrite {}{}", self.what, self.rest)))
    }
}

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<R: Deserializer<'de>>(reader: R) -> Result<Self, R::Error> {
        reader.deserialize_f64(Factor::RANGE).map(Factor)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<R: Deserializer<'de>>(reader: R) -> Result<Self, R::Error> {
        reader.deserialize_f64(Share::RANGE).map(Share)
    }
}

impl JsonSchema for Factor {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Factor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0, "maximum": Factor::MOST })
    }
}

impl JsonSchema for Share {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}
