//! Empirical distributions: values from a file.

use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::file;
use crate::number::Factor;
use crate::problem::Problem;
use forebay_model::input;
use forebay_model::input::shown;
use forebay_model::units::{Dimension, Quantity, accepted};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of a file of values [B].
const LARGEST: u64 = 64 << 20;
/// Maximum number of problems that are reported for one file.
const MOST: usize = 10;

/// Values from a file, all equally likely.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmpiricalSettings {
    /// File with one value per line, looked up beside the scenario: a number in SI units (`784`), a quantity (`784
    /// B`), or a number and a unit in two columns (`784,B`). Empty lines, comments (`#`) and a line of headings are
    /// skipped.
    #[schemars(required)]
    file: Field<String>,
    /// Factor on each value (default: 1).
    pub(super) times: Field<Factor>,
}

/// Cache of the values read from files for empirical distributions, by path and physical dimension. A sweep
/// therefore reads each file once and not at every grid point.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilesOfValues(Arc<Mutex<Known>>);

impl FilesOfValues {
    /// Returns the paths of the files that were read.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.keys().map(|(path, _)| path.clone()).collect()
    }
}

type Known = BTreeMap<(PathBuf, &'static str), Arc<[f64]>>;

/// Returns the values of the file that `settings` at document node `at` names, times the factor [SI unit]; there is at least one.
/// Reports a problem and returns `None` if the file cannot be used, or if a value is too large.
pub(super) fn resolve<D: Dimension>(
    settings: &EmpiricalSettings,
    check: Check<'_>,
    at: NodeId,
) -> Option<Arc<[f64]>> {
    let values = read::<D>(settings, check, at)?;
    let Some((at, times)) = settings.times.given() else { return Some(values) };
    let products: Arc<[f64]> = values.iter().map(|value| value * times.0).collect();
    if let Some(largest) = products.iter().copied().reduce(f64::max).filter(|of| *of > D::MAX) {
        let what = format!("a value times {} is {largest}", times.0);
        check.wrong(at, what, format!("write a factor that leaves values of {} at most", D::MAX));
        return None;
    }
    Some(products)
}

/// Returns the values of the file that `settings` at document node `at` names [SI unit]; there is at least one.
/// Reports a problem and returns `None` if the file cannot be used.
pub(super) fn read<D: Dimension>(
    settings: &EmpiricalSettings,
    check: Check<'_>,
    at: NodeId,
) -> Option<Arc<[f64]>> {
    let name = check.required(at, &settings.file, "file", "write `file = \"sizes.csv\"`")?;
    let at = settings.file.at.unwrap_or(at);
    let path = check.directory.join(name);
    // The lock is held while a file is read, so that other threads wait for its values.
    let mut known = check.values.0.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (path, D::SCHEMA);
    if let Some(values) = known.get(&key) {
        return Some(values.clone());
    }
    let text = match text(&key.0) {
        Ok(text) => text,
        Err((what, remedy)) => {
            check.wrong(at, format!("{name:?}: {what}"), remedy);
            return None;
        }
    };
    let values: Arc<[f64]> = parse::<D>(&text, &shown(&key.0), check, at)?.into();
    if values.iter().all(|value| *value == 0.0) {
        let what = format!("{name:?} holds no value above zero");
        check.wrong(
            at,
            what,
            "write one value per line into the file, at least one of them above zero",
        );
        return None;
    }
    known.insert(key, values.clone());
    Some(values)
}

/// Returns the text of a file of values; if the file cannot be read, returns what is wrong, and a remedy.
fn text(path: &Path) -> Result<String, (String, &'static str)> {
    let remedy = "name a text file with one value per line, relative to the scenario";
    // A pipe could be read only once.
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(("the file is not a regular file".to_owned(), remedy));
    }
    let bytes = file::read(path, LARGEST).map_err(|(what, _)| (what, remedy))?;
    input::as_text(bytes).map_err(|error| (error.to_string(), remedy))
}

fn parse<D: Dimension>(text: &str, file: &str, check: Check<'_>, at: NodeId) -> Option<Vec<f64>> {
    let mut values = Vec::new();
    let mut wrong = 0;
    let mut headings = true;
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let line = whole.split('#').next().unwrap_or_default().trim();
        let span = start..start + whole.trim_end().len();
        start += whole.len();
        if line.is_empty() {
            continue;
        }
        let could_be_headings =
            std::mem::take(&mut headings) && line.starts_with(char::is_alphabetic);
        match value::<D>(line) {
            Ok(value) => values.push(value),
            Err(_) if could_be_headings && !line.to_lowercase().starts_with("nan") => {}
            Err(what) if wrong < MOST => {
                wrong += 1;
                let remedy = format!("write a number, or a number and one of {}", accepted::<D>());
                check.log.elsewhere(at, Problem::new(file, what, remedy).at(text, span));
            }
            Err(_) => break,
        }
    }
    (wrong == 0).then_some(values)
}

fn value<D: Dimension>(line: &str) -> Result<f64, String> {
    let value = match line.parse::<f64>() {
        Ok(value) => value,
        Err(_) => {
            let quantity = line.replacen(',', " ", 1).parse::<Quantity<D>>();
            quantity.map_err(|error| format!("this is no value: {error}"))?.si()
        }
    };
    if (0.0..=D::MAX).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{value} is not between 0 and {}", D::MAX))
    }
}
