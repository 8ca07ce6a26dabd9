//! The values of a key that a plan tries.

use crate::scenario::{Override, Scenario, ScenarioFile, Value};
use crate::units::{self, LongTime, Quantity};

/// Largest number of values of a key.
pub const MOST_VALUES: usize = 1000;

/// Preferred numbers of a decade, each about a tenth larger than the one before (IEC 60063, series E24).
const PREFERRED: [f64; 24] = [
    1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2.0, 2.2, 2.4, 2.7, 3.0, 3.3, 3.6, 3.9, 4.3, 4.7, 5.1, 5.6,
    6.2, 6.8, 7.5, 8.2, 9.1,
];

/// How many times as small and as large as its present value an amount may become if no range is given.
const AROUND: f64 = 100.0;
/// How many times as large as its present value a whole number may become.
const TIMES: u64 = 8;
/// Number up to which a whole number is searched at least.
const LEAST_MOST: u64 = 64;

/// A key whose smallest or largest value is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Unknown {
    /// The dotted key as written; several with commas between them take the same value.
    pub key: String,
    /// Each of the keys, as an override takes it.
    pub keys: Vec<String>,
    /// Whether the largest value is wanted.
    pub largest: bool,
    /// The values that may be tried, ascending.
    pub values: Vec<Value>,
    /// The value of the first key now; `None` if it has none.
    pub present: Option<Value>,
}

impl Unknown {
    /// Reads a key with its values: `KEY`, `KEY = 1..64`, `KEY = 1 GB/s..20 GB/s` or `KEY = [1, 2, 4]`; `KEY, KEY = 1..64` for keys that
    /// change together. A range of amounts has the preferred numbers in it, each about a tenth larger than the one before; one of whole
    /// numbers has all of them, up to a thousand.
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
        if key.is_empty() {
            let remedy = "write the key first: `job.loader.pytorch.workers=1..64`";
            return Err(("there is no key".to_owned(), remedy.to_owned()));
        }
        let keys = separate(key);
        keys.iter().try_for_each(|key| quoted_where_needed(key, scenario))?;
        let present = keys.first().and_then(|key| present(key, (file, overrides, scenario)));
        let example = example(key, present.as_ref());
        let values = match range {
            Some(range) => read(range).map_err(|what| (what, format!("write {example}")))?,
            None => {
                let is_accepted = |value: Value| {
                    let all = [overrides, &all_set(&keys, &value)].concat();
                    file.resolve(&all).is_ok()
                };
                let values = present.as_ref().and_then(|present| around(present, is_accepted));
                values.ok_or_else(|| {
                    let what = format!("`{key}` has no number here around which to search");
                    // A key that there is not is refused whatever its value is.
                    let one = [overrides, &all_set(&keys, &Value::from(1_u64))].concat();
                    let unknown = file.resolve(&one).err().map(|found| found.in_one_line());
                    match unknown.filter(|why| why.contains("unknown key")) {
                        Some(why) => (why, "write a key of the scenario".to_owned()),
                        None => (what, format!("write its range, {example}")),
                    }
                })?
            }
        };
        let mut values: Vec<(f64, Value)> = values
            .into_iter()
            .map(|value| match size(&value) {
                Some(number) => Ok((number, value)),
                None => Err((
                    format!("`{value}` is neither a number nor an amount"),
                    "write numbers or amounts; for other values write options, `--option NAME=KEY=VALUE`"
                        .to_owned(),
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
        Ok(Unknown { key: key.to_owned(), keys, largest, values, present })
    }

    /// Returns the overrides that set all of the keys to a value.
    #[must_use]
    pub fn set(&self, value: &Value) -> Vec<Override> {
        all_set(&self.keys, value)
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

fn all_set(keys: &[String], value: &Value) -> Vec<Override> {
    keys.iter().map(|key| Override::new(&**key, value.clone())).collect()
}

/// Returns keys that stand with commas between them.
fn separate(keys: &str) -> Vec<String> {
    let mut is_quoted = false;
    let ends = |letter: char| {
        is_quoted ^= letter == '"';
        letter == ',' && !is_quoted
    };
    keys.split(ends).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).collect()
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

/// Refuses a key in which a name with a dot is not quoted.
fn quoted_where_needed(key: &str, scenario: &Scenario) -> Result<(), (String, String)> {
    let jobs = scenario.jobs.iter().map(|job| ("job", &job.name));
    let storages = scenario.storage.iter().map(|storage| ("storage", &storage.name));
    let datasets = scenario.datasets.iter().map(|dataset| ("dataset", &dataset.name));
    for (table, name) in jobs.chain(storages).chain(datasets).filter(|(_, name)| name.contains('.'))
    {
        let rest = key.strip_prefix(table).and_then(|rest| rest.strip_prefix('.'));
        let rest = rest.and_then(|rest| rest.strip_prefix(&**name));
        if let Some(rest) = rest.filter(|rest| rest.starts_with('.')) {
            let what = format!("`{name}` has a dot, which divides keys");
            return Err((what, format!("write the name in quotes: `{table}.\"{name}\"{rest}`")));
        }
    }
    Ok(())
}

/// Returns examples of ranges and lists of a key, by the kind of its present value.
fn example(key: &str, present: Option<&Value>) -> String {
    let amount = present.and_then(Value::as_str).and_then(parsed);
    match (present.and_then(size), amount) {
        (_, Some(Amount { number, unit, .. })) => {
            let more = units::rounded(number * 10.0);
            format!(
                "`{key}={number} {unit}..{more} {unit}`, or a list, `{key}=[\"{number} {unit}\", \"{more} {unit}\"]`"
            )
        }
        (Some(_), None) => format!("`{key}=1..64`, or a list, `{key}=[1, 2, 4]`"),
        (None, None) => {
            format!(
                "`{key}=1..64`, with units where the key has them, or a list, `{key}=[1, 2, 4]`"
            )
        }
    }
}

/// Returns the values around a present one; `is_accepted` says whether the scenario accepts a value.
fn around(present: &Value, is_accepted: impl Fn(Value) -> bool) -> Option<Vec<Value>> {
    let number = size(present)?;
    match present.as_str() {
        None if number.fract() == 0.0 && (0.0..=WHOLE).contains(&number) => {
            let present = number as u64;
            let most = TIMES.saturating_mul(present).max(LEAST_MOST);
            let mut all = whole_numbers(1, most);
            all.push(present);
            // For some keys, such as PyTorch's workers, zero has a meaning of its own.
            if present == 0 || is_accepted(Value::from(0_u64)) {
                all.push(0);
            }
            Some(all.into_iter().map(Value::from).collect())
        }
        None => {
            Some(preferred(number / AROUND, number * AROUND).into_iter().map(Value::from).collect())
        }
        Some(text) => {
            let Amount { number, unit, .. } = parsed(text)?;
            Some(amounts(number / AROUND, number * AROUND, unit))
        }
    }
}

/// Returns all whole numbers of a range, or the preferred ones if there are too many.
fn whole_numbers(from: u64, to: u64) -> Vec<u64> {
    match to - from < MOST_VALUES as u64 {
        true => (from..=to).collect(),
        false => {
            let zero = (from == 0).then_some(0);
            let all = preferred(from.max(1) as f64, to as f64).into_iter();
            zero.into_iter().chain(all.map(|value| value.round() as u64)).collect()
        }
    }
}

/// Largest whole number that is exact as a floating-point number, as TOML and JSON may have it.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// Reads a whole number, which may be written `1e6` or `1_000_000`.
fn whole(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    let written = || {
        let number = text.parse::<f64>().ok().filter(|_| !text.contains('.'))?;
        ((0.0..=WHOLE).contains(&number) && number.fract() == 0.0).then_some(number as u64)
    };
    text.parse().ok().or_else(written)
}

/// An amount as written.
struct Amount<'t> {
    number: f64,
    unit: &'t str,
    /// The amount in its SI unit.
    si: f64,
    si_unit: &'static str,
}

/// Reads an amount of any kind.
fn parsed(text: &str) -> Option<Amount<'_>> {
    let text = text.trim();
    if let (Some(si), Some(si_unit)) = (units::si(text), units::si_unit(text)) {
        // A time in several units is taken in seconds.
        let (number, unit) = units::number_and_unit(text).unwrap_or((si, si_unit));
        return Some(Amount { number, unit, si, si_unit });
    }
    let si = text.parse::<Quantity<LongTime>>().ok()?.si();
    let unit = text.trim_start_matches(|c: char| !c.is_alphabetic());
    Some(Amount { number: text.strip_suffix(unit)?.trim().parse().ok()?, unit, si, si_unit: "s" })
}

/// Returns the size of a number or an amount, by which values are ordered.
fn size(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| Some(parsed(value.as_str()?)?.si))
}

/// Reads a list of amounts without quotes, `[5 min, 10 min]`; `None` if it is none.
fn bare_list(text: &str) -> Option<Vec<Value>> {
    let items = text.strip_prefix('[')?.strip_suffix(']')?.split(',').map(str::trim);
    let amount = |item: &str| parsed(item).map(|_| Value::from(item));
    items.filter(|item| !item.is_empty()).map(amount).collect()
}

/// Reads a range or a list; what is wrong if it is neither.
fn read(text: &str) -> Result<Vec<Value>, String> {
    if let Some(amounts) = bare_list(text) {
        return Ok(amounts);
    }
    if text.starts_with('[') {
        let list = Override::varied(&format!("x.y={text}")).map_err(|problems| {
            problems.iter().next().map_or_else(String::new, |problem| problem.what.clone())
        })?;
        let list = list.value().and_then(Value::elements);
        return list.ok_or_else(|| format!("{text:?} is not a list"));
    }
    let Some((from, to)) = text.split_once("..") else {
        return Err(format!("{text:?} is neither a range nor a list"));
    };
    let bare = |text: &str| text.trim().trim_matches('"').trim().to_owned();
    let (from, to) = (bare(from), bare(to.trim_start_matches('=')));
    if let (Some(low), Some(high)) = (whole(&from), whole(&to)) {
        return match low <= high {
            true => Ok(whole_numbers(low, high).into_iter().map(Value::from).collect()),
            false => Err(format!("{from} is larger than {to}")),
        };
    }
    if let (Ok(low), Ok(high)) = (from.parse::<f64>(), to.parse::<f64>()) {
        return match low > 0.0 && low <= high && high.is_finite() {
            true => Ok(preferred(low, high).into_iter().map(Value::from).collect()),
            false => Err(format!("{from} to {to} is not a range of numbers above 0")),
        };
    }
    let (Some(low), Some(high)) = (parsed(&from), parsed(&to)) else {
        return Err(format!("{text:?} is not a range of numbers or amounts"));
    };
    match low.si_unit == high.si_unit && low.si > 0.0 && low.si <= high.si {
        true => Ok(amounts(low.number, low.number * high.si / low.si, low.unit)),
        false => Err(format!("{from} to {to} is not a range of amounts above 0 of one kind")),
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
        read_with(text, &[])
    }

    /// Returns the values of a key in a scenario with this change.
    fn with(text: &str, change: &str) -> Result<Vec<String>, (String, String)> {
        read_with(text, &[change.parse().expect("a key")])
    }

    fn read_with(text: &str, changes: &[Override]) -> Result<Vec<String>, (String, String)> {
        Ok(unknown(text, changes)?.values.iter().map(ToString::to_string).collect())
    }

    fn unknown(text: &str, changes: &[Override]) -> Result<Unknown, (String, String)> {
        let file = ScenarioFile::parse("x.toml", crate::sweep::SCENARIO.to_owned()).expect("TOML");
        let scenario = file.resolve(changes).unwrap_or_else(|problems| panic!("{problems}"));
        Unknown::parse(text, false, (&file, changes, &scenario))
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
        let times = parsed("job.checkpoint.interval = [1 h, 5 min]").expect("times");
        assert_eq!(times, ["\"5 min\"", "\"1 h\""]);
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
        // A hundredth to a hundred times as much: four decades of 24 numbers each, and the ends.
        let steps = parsed("job.model.step").expect("steps");
        assert_eq!(steps.len(), 4 * 24 + 1, "{steps:?}");
        assert_eq!((&*steps[0], &*steps[96]), ("\"0.02 ms\"", "\"200 ms\""));
    }

    #[test]
    fn a_large_number_alone_is_searched_around_its_value_too() {
        // System: a data set of 20,000 samples. Expectation: preferred numbers up to eight times as many, and 20,000 itself.
        let text = with("dataset.digits.samples", "dataset.digits.samples=20000");
        let samples: Vec<u64> =
            text.expect("samples").iter().map(|of| of.parse().expect("a number")).collect();
        assert_eq!((samples[0], samples.last()), (1, Some(&160_000)));
        assert!(samples.contains(&20_000) && samples.len() < 200, "{samples:?}");
        assert!(samples.is_sorted(), "{samples:?}");
        let odd = with("dataset.digits.samples", "dataset.digits.samples=12345").expect("samples");
        assert!(odd.contains(&"12345".to_owned()), "{odd:?}");
    }

    #[test]
    fn keys_with_commas_between_them_take_the_same_value() {
        let unknown = unknown("cluster.nodes, job.nodes = [1, 2]", &[]).expect("two keys");
        let changes: Vec<String> =
            unknown.set(&unknown.values[1]).iter().map(ToString::to_string).collect();
        assert_eq!(changes, ["--set cluster.nodes=2", "--set job.nodes=2"]);
        let quoted = separate("storage.\"a, b\".tier, job.batch");
        assert_eq!(quoted, ["storage.\"a, b\".tier", "job.batch"]);
    }

    #[test]
    fn zero_is_tried_where_the_scenario_accepts_it() {
        let loader = "job.loader={ pytorch = { workers = 2 } }";
        let workers = with("job.loader.pytorch.workers", loader).expect("workers");
        assert_eq!((&*workers[0], &*workers[1], workers.len()), ("0", "1", 65));
        assert_eq!(parsed("job.batch").expect("sizes")[0], "1");
    }

    #[test]
    fn ranges_of_whole_numbers_may_have_exponents_and_those_of_times_years() {
        let many = parsed("job.batch=4..1e9").expect("whole numbers");
        assert_eq!((&*many[0], many.last().map(String::as_str)), ("4", Some("1000000000")));
        assert!(many.iter().all(|of| of.parse::<u64>().is_ok()), "{many:?}");
        assert_eq!(parsed("job.batch=0..2"), Ok(["0", "1", "2"].map(str::to_owned).into()));
        assert_eq!(parsed("job.batch=0..5000").expect("many")[..2], ["0", "1"]);
        let years = parsed("prices.lifetime = 1 y..2 y").expect("years");
        assert_eq!((&*years[0], years.last().map(String::as_str)), ("\"1 y\"", Some("\"2 y\"")));
        let days = parsed("prices.lifetime = 180 d..1 y").expect("days");
        assert_eq!(days.last().map(String::as_str), Some("\"365 d\""));
        let seconds = parsed("job.start = 1 min 15 s..2 min").expect("times");
        assert_eq!(
            (&*seconds[0], seconds.last().map(String::as_str)),
            ("\"75 s\"", Some("\"120 s\""))
        );
    }

    #[test]
    fn remedies_fit_the_key() {
        for (text, words) in [
            ("job.loader.tf-queue.threads = many", "threads=1..64`"),
            ("job.model.step = many", "step=2 ms..20 ms`"),
            ("=1..4", "write the key first"),
            ("", "write the key first"),
        ] {
            let (what, remedy) = parsed(text).expect_err(text);
            assert!(remedy.contains(words), "{text}: {what}: {remedy}");
        }
        for key in ["job.a.b.batch", "job.a.b.batch = 1..8"] {
            let (what, remedy) = with(key, "job.name=\"a.b\"").expect_err(key);
            assert!(remedy.contains("`job.\"a.b\".batch`"), "{key}: {what}: {remedy}");
        }
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
