//! Reads the values of a workload by their paths of keys, and remembers which were used.

use super::yaml::DlioError;
use super::{Times, at};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A workload's keys.
pub(super) struct Keys<'a> {
    of: &'a Value,
    used: RefCell<BTreeSet<String>>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(of: &'a Value) -> Keys<'a> {
        Keys { of, used: RefCell::default() }
    }

    /// Returns the value at a path; `None` if it is missing or null. The key counts as used.
    pub(super) fn at(&self, path: &str) -> Option<&'a Value> {
        self.used.borrow_mut().insert(path.to_owned());
        at(self.of, path)
    }

    /// Returns whether the value at a path was used, alone or as a part of another.
    pub(super) fn was_used(&self, path: &str) -> bool {
        let used = self.used.borrow();
        let mut outer = Some(path);
        while let Some(path) = outer {
            if used.contains(path) {
                return true;
            }
            outer = path.rsplit_once('.').map(|(outer, _)| outer);
        }
        false
    }

    /// Returns the section that sets the reader. DLIO prefers `data_reader`, and then ignores `reader`.
    pub(super) fn reader(&self) -> &'static str {
        if self.of.get("data_reader").is_some() { "data_reader" } else { "reader" }
    }

    pub(super) fn wrong(key: &str, value: &Value, remedy: &str) -> DlioError {
        DlioError::Value {
            key: key.to_owned(),
            value: value.to_string(),
            remedy: remedy.to_owned(),
        }
    }

    /// Returns a word in lower case.
    pub(super) fn word(&self, key: &str, default: &str) -> Result<String, DlioError> {
        Ok(self.word_as_written(key, default)?.to_lowercase())
    }

    pub(super) fn word_as_written(&self, key: &str, default: &str) -> Result<String, DlioError> {
        match self.at(key) {
            None => Ok(default.to_owned()),
            Some(Value::String(word)) => Ok(word.clone()),
            // YAML reads `off` as a boolean.
            Some(Value::Bool(false)) => Ok("off".to_owned()),
            Some(other) => Err(Self::wrong(key, other, "write a word")),
        }
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool, DlioError> {
        match self.at(key) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(Value::String(word))
                if ["true", "false"].contains(&word.to_lowercase().as_str()) =>
            {
                Ok(word.eq_ignore_ascii_case("true"))
            }
            Some(other) => Err(Self::wrong(key, other, "write True or False")),
        }
    }

    pub(super) fn number(&self, key: &str, default: f64) -> Result<f64, DlioError> {
        let Some(value) = self.at(key) else { return Ok(default) };
        let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| Self::wrong(key, value, "write a number of at least 0"))
    }

    pub(super) fn whole_or(&self, key: &str, default: u64, least: u64) -> Result<u64, DlioError> {
        let Some(value) = self.at(key) else { return Ok(default) };
        let whole = value.as_u64().filter(|whole| *whole >= least);
        let remedy = format!("write a whole number of at least {least}");
        whole.ok_or_else(|| Self::wrong(key, value, &remedy))
    }

    /// Returns a number of steps; `None` if it is missing, 0, or -1, which stands for no limit.
    pub(super) fn steps(&self, key: &str) -> Result<Option<u64>, DlioError> {
        match self.at(key) {
            Some(value) if value.as_i64() == Some(-1) => Ok(None),
            _ => Ok(Some(self.whole_or(key, 0, 0)?).filter(|steps| *steps > 0)),
        }
    }

    /// Returns the number of threads that decode, which only TensorFlow's loader has; the key stays unused otherwise.
    pub(super) fn threads(&self, key: &str, pytorch: bool) -> Result<u64, DlioError> {
        if pytorch { Ok(1) } else { self.whole_or(key, 1, 1) }
    }

    /// Returns the size of a sample whose sides are given [B]; `None` if they are not.
    pub(super) fn record_dims(&self) -> Result<Option<f64>, DlioError> {
        let (dims, kind) = ("dataset.record_dims", "dataset.record_element_type");
        let Some(value) = self.at(dims) else { return Ok(None) };
        let side = |side: &Value| side.as_u64().filter(|side| *side > 0).map(|side| side as f64);
        let sides: Option<Vec<f64>> =
            value.as_array().and_then(|sides| sides.iter().map(side).collect());
        let sides =
            sides.ok_or_else(|| Self::wrong(dims, value, "write a list of whole numbers"))?;
        if sides.is_empty() {
            return Ok(None);
        }
        let word = self.word(kind, "uint8")?;
        let bits: String = word.chars().filter(char::is_ascii_digit).collect();
        let bytes = bits.parse::<u32>().ok().filter(|bits| [8, 16, 32, 64, 128].contains(bits));
        let bytes = bytes.map(|bits| f64::from(bits) / 8.0).ok_or_else(|| {
            Self::wrong(kind, &word.as_str().into(), "write a type with its bits, such as uint8")
        })?;
        Ok(Some(sides.iter().product::<f64>() * bytes))
    }

    /// Reads a time: a number, `{mean, stdev}`, or `{type, …}`; older files have the deviation in a key of its own.
    pub(super) fn times(&self, key: &str) -> Result<Times, DlioError> {
        let beside = self.number(&format!("{key}_stdev"), 0.0)?;
        let Some(value) = self.at(key) else { return Ok(Times::Constant(0.0)) };
        if !value.is_object() {
            let mean = self.number(key, 0.0)?;
            return Ok(match beside > 0.0 && mean > 0.0 {
                true => Times::Normal { mean, sd: beside },
                false => Times::Constant(mean),
            });
        }
        let of = |part: &str| self.number(&format!("{key}.{part}"), 0.0);
        let kind = self.word(&format!("{key}.type"), "normal")?;
        let times = match kind.as_str() {
            "normal" if of("stdev")? == 0.0 => Times::Constant(of("mean")?),
            "normal" => Times::Normal { mean: of("mean")?, sd: of("stdev")? },
            "uniform" => Times::Uniform { low: of("min")?, high: of("max")? },
            "gamma" => Times::Gamma { shape: of("shape")?, scale: of("scale")? },
            "exponential" => Times::Exponential { mean: of("scale")? },
            _ => {
                let remedy = "forebay imports normal, uniform, gamma and exponential";
                return Err(Self::wrong(&format!("{key}.type"), &kind.into(), remedy));
            }
        };
        if times == Times::Constant(0.0)
            || times.mean() > 0.0 && times.cv().is_finite() && times.cv() >= 0.0
        {
            return Ok(times);
        }
        Err(Self::wrong(key, value, "write parameters whose mean is above 0"))
    }
}
