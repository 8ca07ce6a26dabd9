//! Amounts of money as users write them: `"$2.50"`, `"180000 EUR"`, `"€900 /month"`.
//!
//! A currency is a word or a sign before or after the number. Nothing is converted: all amounts of a scenario are in the same
//! currency.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Hours of a month: a twelfth of a year of 365 days.
pub const HOURS_OF_MONTH: f64 = 730.0;

/// Largest amount that is accepted.
const MOST: f64 = 1e15;
/// Longest name of a currency [characters].
const LONGEST: usize = 8;

/// An amount of money.
#[derive(Debug, Clone, PartialEq)]
pub struct Money {
    /// The amount; at least 0.
    pub amount: f64,
    /// The currency, as written: `$`, `EUR`.
    pub currency: String,
}

impl Money {
    /// Reads an amount with its currency.
    ///
    /// # Errors
    /// If there is no number or no currency, or two currencies; the message says what to write.
    pub fn parse(text: &str) -> Result<Money, String> {
        let wrong = |what: &str| {
            format!("{what}: write an amount with its currency, like \"$180000\" or \"180000 EUR\"")
        };
        let text = text.trim();
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let start = text.find(is_number).ok_or_else(|| wrong("there is no number"))?;
        let (before, rest) = text.split_at(start);
        let end = rest.find(|c: char| !is_number(c) && c != '_').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let number: f64 =
            number.replace('_', "").parse().map_err(|_| wrong("the number cannot be read"))?;
        let (factor, after) = match after.chars().next() {
            // `500kr` and `3MXN` are amounts in kr and in MXN.
            Some(prefix @ ('k' | 'M')) if !after[1..].starts_with(char::is_alphabetic) => {
                (if prefix == 'k' { 1e3 } else { 1e6 }, &after[1..])
            }
            _ => (1.0, after),
        };
        let (before, after) = (before.trim(), after.trim());
        let currency = match (before, after) {
            ("", "") => return Err(wrong("there is no currency")),
            ("", of) | (of, "") => of,
            _ => return Err(wrong("there is text on both sides of the number")),
        };
        let is_name = |c: char| !c.is_control() && !c.is_whitespace() && !"/<>=,-+%".contains(c);
        if !currency.chars().all(is_name) || currency.chars().count() > LONGEST {
            return Err(wrong("the currency is not a short word or sign"));
        }
        let amount = number * factor;
        match amount <= MOST {
            true => Ok(Money { amount, currency: currency.to_owned() }),
            false => Err(wrong("the amount is too large")),
        }
    }
}

/// A price: paid once, or by the hour.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// Amount of the purchase, or for an hour.
    pub money: Money,
    /// Whether the amount is paid every hour; otherwise it is paid once.
    pub is_hourly: bool,
}

impl Price {
    /// Reads a price: `"$180000"` is paid once; `"$2.50 /h"`, `"$900 /month"` and `"$9000 /year"` are paid by time.
    ///
    /// # Errors
    /// As [`Money::parse`], and if the time after the slash is none of these.
    pub fn parse(text: &str) -> Result<Price, String> {
        let Some((amount, time)) = text.split_once('/') else {
            return Ok(Price { money: Money::parse(text)?, is_hourly: false });
        };
        let hours = match time.trim() {
            "h" | "hour" => 1.0,
            "month" => HOURS_OF_MONTH,
            "year" => 12.0 * HOURS_OF_MONTH,
            _ => {
                return Err(format!(
                    "prices are by the hour, month or year, not by `{}`: write \"/h\", \"/month\" or \"/year\", or no time for a purchase",
                    time.trim()
                ));
            }
        };
        let Money { amount, currency } = Money::parse(amount)?;
        Ok(Price { money: Money { amount: amount / hours, currency }, is_hourly: true })
    }
}

/// Reads a text with `parse`.
struct Written<T>(fn(&str) -> Result<T, String>);

impl<T> Visitor<'_> for Written<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount with its currency, like \"$180000\" or \"$2.50 /h\",")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(|what| match what.split_once(": write ") {
            Some((what, remedy)) => E::custom(format!("{text:?}: {what}\nwrite {remedy}")),
            None => E::custom(what),
        })
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Written(Price::parse))
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Written(Money::parse))
    }
}

impl JsonSchema for Price {
    fn schema_name() -> Cow<'static, str> {
        "Price".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "an amount with its currency, paid once, or with `/h`, `/month` or `/year`",
            "pattern": r"^[^0-9]*[0-9._]+[kM]?[^/]*(/\s*(h|hour|month|year)\s*)?$",
            "examples": ["$2.50 /h"],
        })
    }
}

impl JsonSchema for Money {
    fn schema_name() -> Cow<'static, str> {
        "Money".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "an amount with its currency",
            "pattern": r"^[^0-9]*[0-9._]+[kM]?[^/]*$",
            "examples": ["$0.12"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_with_the_currency_before_or_after_them() {
        for (text, amount, currency) in [
            ("$180000", 180_000.0, "$"),
            ("$ 2.50", 2.5, "$"),
            ("180_000 EUR", 180_000.0, "EUR"),
            ("180k EUR", 180_000.0, "EUR"),
            ("€1.2M", 1.2e6, "€"),
            ("3MXN", 3.0, "MXN"),
            ("500kr", 500.0, "kr"),
            ("5kn", 5.0, "kn"),
            ("5k kr", 5000.0, "kr"),
            ("$180k", 180_000.0, "$"),
            ("$0", 0.0, "$"),
        ] {
            assert_eq!(Money::parse(text), Ok(Money { amount, currency: currency.to_owned() }));
        }
    }

    #[test]
    fn prices_by_time_are_prices_for_an_hour() {
        let price = |text: &str| Price::parse(text).map(|of| (of.money.amount, of.is_hourly));
        assert_eq!(price("$2.50 /h"), Ok((2.5, true)));
        assert_eq!(price("$730/month"), Ok((1.0, true)));
        assert_eq!(price("8760 EUR / year"), Ok((1.0, true)));
        assert_eq!(price("$730"), Ok((730.0, false)));
    }

    #[test]
    fn texts_that_are_no_amounts_are_refused_with_an_example() {
        for text in [
            "",
            "$",
            "5",
            "$5 EUR",
            "five $",
            "$1.2.3",
            "$5 -",
            "$9e99",
            "1e400 $",
            "$9999999999999999999",
        ] {
            let refused = Money::parse(text).expect_err(text);
            assert!(refused.contains(": write an amount"), "{refused}");
        }
        assert!(Price::parse("$5 /fortnight").expect_err("no time").contains("/month"));
        assert!(Price::parse("5 /h").expect_err("no currency").contains("no currency"));
    }
}
