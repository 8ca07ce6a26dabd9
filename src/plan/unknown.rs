//! The values of a key that a plan tries.

use crate::scenario::{Override, Scenario, ScenarioFile, Value};
use crate::units;

/// Largest number of values of a key.
pub const MOST_VALUES: usize = 1000;

/// Preferred numbers of a decade, each about a tenth larger than the one before (IEC 60063, series E24).
const PREFERRED: [f64; 24] = [
    1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2.0, 2.2, 2.4, 2.7, 3.0, 3.3, 3.6, 3.9, 4.3, 4.7, 5.1, 5.6,
    6.2, 6.8, 7.5, 8.2, 9.1,
];

/// How far a key is searched around its value where no range is given: an amount up to this many times as small and as large, a number
/// up to [`TIMES`] as large, or up to [`LEAST_MOST`].
const AROUND: f64 = 100.0;
/// How many times as large a whole number may become.
const TIMES: u64 = 8;
/// Up to which number a whole number is searched at least.
const LEAST_MOST: u64 = 64;

/// A key whose smallest or largest value is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Unknown {
    /// The dotted key, as an override takes it.
    pub key: String,
    /// Whether the largest value is wanted.
    pub largest: bool,
    /// The values that may be tried, ascending.
    pub values: Vec<Value>,
}

impl Unknown {
    /// Reads a key with its values: `KEY`, `KEY = 1..64`, `KEY = 1 GB/s..20 GB/s` or `KEY = [1, 2, 4]`. A range of amounts has
    /// the preferred numbers in it, each about a tenth larger than the one before; one of whole numbers has all of them, up to a thousand.
    ///
    /// # Errors
    /// If the values cannot be read, or if a key alone has no value from which a range follows; what is wrong, and what to write.
    pub fn parse(
        text: &str,
        largest: bool,
        (file, overrides, scenario): (&ScenarioFile, &[Override], &Scenario),
    ) -> Result<Unknown, (String, String)> {
        let (key, range) = match text.split_once('=') {
            Some((key, range)) => (key.trim(), Some(range.trim())),
            None => (text.trim(), None),
        };
        let values = match range {
            Some(range) => read(key, range)?,
            None => {
                let present = present(key, (file, overrides, scenario));
                let values = present.as_ref().and_then(around);
                values.ok_or_else(|| {
                    let what = format!("`{key}` has no number here from which a range follows");
                    (what, format!("write its range, `{key}=1..64`, or a list, `{key}=[1, 2, 4]`"))
                })?
            }
        };
        let mut values: Vec<(f64, Value)> = values
            .into_iter()
            .map(|value| match value.as_f64() {
                Some(number) => Ok((number, value)),
                None => Err((
                    format!("`{value}` is no number and no amount, so that none is the smallest"),
                    "write numbers or amounts, or options, `--option NAME=KEY=VALUE`".to_owned(),
                )),
            })
            .collect::<Result<_, _>>()?;
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        values.dedup_by(|a, b| a.0 == b.0);
        let number = values.len();
        if number == 0 || number > MOST_VALUES {
            let what = format!("`{key}` has {number} values here");
            return Err((what, format!("write 1 to {MOST_VALUES}: a shorter range, or a list")));
        }
        let values = values.into_iter().map(|(_, value)| value).collect();
        Ok(Unknown { key: key.to_owned(), largest, values })
    }

    /// Returns the values in the order in which they are wanted: the best first.
    #[must_use]
    pub fn wanted(&self) -> Vec<Value> {
        let mut values = self.values.clone();
        if self.largest {
            values.reverse();
        }
        values
    }

    /// Returns the word for what is wanted.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.largest { "largest" } else { "smallest" }
    }
}

/// Returns the value of a key: that in the file, or its default if that is a value.
fn present(
    key: &str,
    (file, overrides, scenario): (&ScenarioFile, &[Override], &Scenario),
) -> Option<Value> {
    let editor = file.editor(overrides);
    let written = editor.value(key).or_else(|| {
        // `job.batch` may be written in each of several jobs.
        let (list, rest) = key.split_once('.')?;
        editor.elements(list).iter().find_map(|one| editor.value(&format!("{one}.{rest}")))
    });
    written.or_else(|| {
        let assumed = scenario.origins.assumed();
        let is_key = |of: &str| of == key || plain(of) == key;
        let found = assumed.iter().find(|of| is_key(&of.key))?;
        format!("{key}={}", found.value).parse::<Override>().ok()?.value().cloned()
    })
}

/// Returns a key without the name of the job in it.
fn plain(key: &str) -> String {
    let parts: Vec<&str> = key.split('.').collect();
    match parts[..] {
        ["job", _, ..] => format!("job.{}", parts[2..].join(".")),
        _ => key.to_owned(),
    }
}

/// Returns the values around a present one.
fn around(present: &Value) -> Option<Vec<Value>> {
    let number = present.as_f64()?;
    match present.as_str() {
        None if number.fract() == 0.0 && number >= 0.0 => {
            let most = TIMES.saturating_mul(number as u64).clamp(LEAST_MOST, MOST_VALUES as u64);
            Some((1..=most).map(Value::from).collect())
        }
        None => {
            Some(preferred(number / AROUND, number * AROUND).into_iter().map(Value::from).collect())
        }
        Some(text) => {
            let (number, unit) = units::number_and_unit(text)?;
            Some(amounts(number / AROUND, number * AROUND, unit))
        }
    }
}

/// Reads a range or a list.
fn read(key: &str, text: &str) -> Result<Vec<Value>, (String, String)> {
    let wrong = |what: String| {
        (what, format!("write `{key}=1..64`, `{key}=1 GB/s..20 GB/s` or `{key}=[1, 2, 4]`"))
    };
    if text.starts_with('[') {
        let list = Override::varied(&format!("x.{}={text}", "y")).map_err(|problems| {
            wrong(problems.iter().next().map_or_else(String::new, |problem| problem.what.clone()))
        })?;
        let list = list.value().and_then(Value::elements);
        return list.ok_or_else(|| wrong(format!("{text:?} is no list")));
    }
    let Some((from, to)) = text.split_once("..") else {
        return Err(wrong(format!("{text:?} is no range and no list")));
    };
    let bare = |text: &str| text.trim().trim_matches('"').trim().to_owned();
    let (from, to) = (bare(from), bare(to.trim_start_matches('=')));
    if let (Ok(from), Ok(to)) = (from.parse::<u64>(), to.parse::<u64>()) {
        return match to.checked_sub(from) {
            None => Err(wrong(format!("{from} is larger than {to}"))),
            Some(more) if more < MOST_VALUES as u64 => Ok((from..=to).map(Value::from).collect()),
            Some(_) => {
                let all = preferred(from.max(1) as f64, to as f64).into_iter();
                Ok(all.map(|value| Value::from(value.round() as u64)).collect())
            }
        };
    }
    if let (Ok(from), Ok(to)) = (from.parse::<f64>(), to.parse::<f64>()) {
        return match from > 0.0 && from <= to && to.is_finite() {
            true => Ok(preferred(from, to).into_iter().map(Value::from).collect()),
            false => Err(wrong(format!("{from} to {to} is no range of numbers above 0"))),
        };
    }
    let (Some(low), Some(high)) = (units::si(&from), units::si(&to)) else {
        return Err(wrong(format!("{text:?} is no range of numbers or amounts")));
    };
    if units::si_unit(&from) != units::si_unit(&to) || low <= 0.0 || low > high {
        return Err(wrong(format!("{from} to {to} is no range of amounts above 0 of one kind")));
    }
    match units::number_and_unit(&from) {
        Some((number, unit)) => Ok(amounts(number, number * high / low, unit)),
        None => Err(wrong(format!("{from:?} is no number with a unit"))),
    }
}

/// Returns the preferred amounts from one number of a unit to another.
fn amounts(from: f64, to: f64, unit: &str) -> Vec<Value> {
    let whole = units::is_counted(&format!("1 {unit}"));
    let all = preferred(from, to).into_iter();
    let all = all.map(|number| if whole { number.round().max(1.0) } else { number });
    all.map(|number| Value::from(format!("{number} {unit}").as_str())).collect()
}

/// Returns the preferred numbers between two numbers above 0, and these; none if one of them is out of all proportion.
fn preferred(from: f64, to: f64) -> Vec<f64> {
    // Beyond, a number is no size of anything, and its decades would take long to count.
    if !(1e-30..=1e30).contains(&from) || !(from..=1e30).contains(&to) {
        return Vec::new();
    }
    let mut all = vec![from];
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    for decade in first..=last {
        let numbers = PREFERRED.iter().map(|number| match decade {
            // Whole powers of ten are exact; parts of one are rounded as they are written.
            0.. => number * 10_f64.powi(decade),
            _ => number / 10_f64.powi(-decade),
        });
        all.extend(numbers.map(units::rounded).filter(|number| *number > from && *number < to));
    }
    if to > from {
        all.push(units::rounded(to));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// System: any text as the values of a key. Expectation: it is read or refused.
        #[test]
        fn any_range_is_read_or_refused(text in "\\PC*", low in proptest::num::f64::ANY, high in proptest::num::f64::ANY) {
            let _ = (parsed(&text), parsed(&format!("job.batch = {text}")));
            let _ = (parsed(&format!("job.batch = {low}..{high}")), parsed(&format!("job.x = {low} GB..{high} kB")));
        }
    }

    fn parsed(text: &str) -> Result<Vec<String>, (String, String)> {
        let file = ScenarioFile::parse("x.toml", crate::sweep::SCENARIO.to_owned()).expect("TOML");
        let scenario = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
        let unknown = Unknown::parse(text, false, (&file, &[], &scenario))?;
        Ok(unknown.values.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn ranges_of_whole_numbers_have_all_of_them_and_ranges_of_amounts_preferred_ones() {
        assert_eq!(parsed("job.batch = 2..5"), Ok(["2", "3", "4", "5"].map(str::to_owned).into()));
        let list = parsed("job.batch=[8, 2, 4]").expect("a list");
        assert_eq!(list, ["2", "4", "8"]);
        let rates = parsed("storage.x.file-server.bandwidth = 900 MB/s..1.25 GB/s").expect("rates");
        assert_eq!(
            rates,
            ["900", "910", "1000", "1100", "1200", "1250"].map(|of| format!("\"{of} MB/s\""))
        );
        let many = parsed("job.batch = 1..100000").expect("many");
        assert!(
            many.len() < 125
                && many.first().is_some_and(|of| of == "1")
                && many.last().is_some_and(|of| of == "100000")
        );
    }

    #[test]
    fn a_key_alone_is_searched_around_its_value() {
        let threads = parsed("job.loader.tf-queue.threads").expect("threads");
        assert_eq!((threads.len(), threads[0].as_str()), (64, "1"));
        let all = parsed("storage.disk.file-server.bandwidth");
        assert!(all.as_ref().is_ok_and(|all| all.len() > 90) || all.is_err(), "{all:?}");
    }

    #[test]
    fn ranges_that_cannot_be_read_say_what_to_write() {
        for text in [
            "job.batch = 5..2",
            "job.batch = many",
            "job.batch = [\"a\", \"b\"]",
            "job.batch = [",
            "job.x = 1 GB/s..2 ms",
            "job.x = 2 GB/s..1 GB/s",
            "job.nowhere",
        ] {
            let (what, remedy) = parsed(text).expect_err(text);
            assert!(!what.is_empty() && remedy.contains("write"), "{text}: {what}: {remedy}");
        }
    }
}
