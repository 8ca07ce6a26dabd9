//! Settings of `[sweep]`, and how they are read.

mod range;
mod sample;

use super::document::{Document, Kind, NodeId, ROOT};
use super::dotted::{split_key, split_keys};
use super::file::ScenarioFile;
use super::overrides::Override;
use super::problem::{Log, Problems, Source};
use super::settings::read;
use super::value::{Axis, Condition, Value};
use range::Range;
use sample::Sample;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, IgnoredAny};
use std::borrow::Cow;

/// Maximum number of keys in `[sweep]`.
const MOST_AXES: usize = 100;
/// Maximum number of values of one key.
const MOST_VALUES: usize = 100_000;
/// Line of `[sweep]` that says how many points are drawn from ranges, and how.
const SAMPLE: &str = "sample";

/// Placeholder for the values of a key of `[sweep]`; [`ScenarioFile::axes`] reads them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AxisSettings;

impl<'de> Deserialize<'de> for AxisSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_ignored_any(IgnoredAny).map(|_| Self)
    }
}

impl JsonSchema for AxisSettings {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Axis".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["array", "object"], "minItems": 1, "maxItems": MOST_VALUES })
    }
}

/// What a line of `[sweep]` says.
enum Line {
    Axis(Axis),
    /// A range without `steps`, from which `sample` draws values.
    Range(NodeId, Range),
    Sample(NodeId, Sample),
}

impl ScenarioFile {
    /// Returns the axes of the sweep, one for each line of `[sweep]`, in the order of the file; none if the file has no
    /// `[sweep]`. All keys with ranges that `sample` draws from form one axis, the last.
    ///
    /// # Errors
    /// If a key is unknown, or a value is not one that `--set` would accept for it.
    pub fn axes(&self) -> Result<Vec<Axis>, Problems> {
        self.axes_with(&[])
    }

    /// Returns the axes of the sweep, changed by the values in `varied`. Each replaces the file's values for its key, or comes
    /// after the file's axes.
    ///
    /// # Errors
    /// As [`ScenarioFile::axes`].
    pub fn axes_with(&self, varied: &[Override]) -> Result<Vec<Axis>, Problems> {
        self.axes_in(self.document.clone(), varied)
    }

    /// Returns the axes of the lists in `rows` alone, without those of `[sweep]`.
    ///
    /// # Errors
    /// As [`ScenarioFile::axes`].
    pub fn axes_of(&self, rows: &[Override]) -> Result<Vec<Axis>, Problems> {
        let mut document = self.document.clone();
        document.apply(&Override::unset("sweep"), 0);
        // The lists were read as lines of `[sweep]`, which the user did not write.
        self.axes_in(document, rows).map_err(|problems| {
            problems.with_keys(|key| match split_key(key) {
                Some(parts) if parts.len() > 1 && parts[0] == "sweep" => parts[1..].join("."),
                _ => key.to_owned(),
            })
        })
    }

    fn axes_in(&self, mut document: Document, varied: &[Override]) -> Result<Vec<Axis>, Problems> {
        for (index, varied) in varied.iter().enumerate() {
            let path = ["sweep".to_owned(), varied.key().to_owned()];
            if let Some(values) = varied.value() {
                document.set(&path, values, index);
            }
        }
        let log = Log::default();
        let sweep = document.member(ROOT, "sweep");
        let lines = sweep.map_or(&[][..], |sweep| document.children(sweep));
        if let Some(at) = sweep
            && !matches!(document.node(at).kind, Kind::Table(_))
        {
            log.value(at, "a table is expected", "write `[sweep]` and keys with lists of values");
        }
        if let Some(&line) = lines.get(MOST_AXES) {
            let what = format!("there are {} keys here", lines.len());
            log.key(line, what, format!("write at most {MOST_AXES}"));
        }
        let (mut axes, mut ranges, mut sample) = (Vec::new(), Vec::new(), None);
        for &line in lines.iter().take(MOST_AXES) {
            match self.line(&document, line, &axes, &log) {
                Some(Line::Axis(axis)) => axes.push(axis),
                Some(Line::Range(at, range)) => ranges.push((at, range)),
                Some(Line::Sample(at, how)) => sample = Some((at, how)),
                None => {}
            }
        }
        axes.extend(drawn(ranges, sample, &log));
        refuse_keys_swept_twice(&document, lines, &axes, &log);
        let document = &document;
        let source = Source { file: &self.name, text: &self.text, document, overrides: varied };
        log.into_problems(&source).map_or(Ok(axes), Err)
    }

    /// Reads a line of `[sweep]`; `before` are the axes of the lines above it.
    fn line(&self, document: &Document, line: NodeId, before: &[Axis], log: &Log) -> Option<Line> {
        let node = document.node(line);
        if node.key == SAMPLE {
            return Sample::read(document, line, log).map(|sample| Line::Sample(line, sample));
        }
        let Some(keys) = split_keys(&node.key) else {
            log.key(line, "this is not a dotted key", "write `\"job.batch\" = [32, 64]`");
            return None;
        };
        let reader = AxisReader { file: self, document, line, keys: &keys, log };
        match &node.kind {
            Kind::List(_) => reader.listed(line).map(|values| reader.axis(values, Vec::new())),
            Kind::Table(_) if document.member(line, "values").is_some() => {
                reader.conditional(before)
            }
            Kind::Table(_) if range::is_range(document, line) => reader.range(),
            Kind::Table(_) => {
                let remedy = "write the whole key in quotes: `\"job.batch\" = [32, 64]`; or a range: `{ from = 1, to = 16, steps = 4 }`";
                log.value(line, "a list of values is expected", remedy);
                None
            }
            _ => {
                log.value(
                    line,
                    "a list of values is expected",
                    "write a list of values: [1, 2, 4]",
                );
                None
            }
        }
    }

    /// Returns whether the key is known; records a problem if the value is refused.
    fn accepts(
        &self,
        path: &[String],
        value: &Value,
        line: NodeId,
        element: NodeId,
        log: &Log,
    ) -> bool {
        let (mut skeleton, path) = self.document.skeleton(path);
        let whole = path.is_empty() || path.first().is_some_and(|part| part == "sweep");
        if whole {
            log.key(line, "this key cannot be swept", "name a single setting: `\"job.batch\"`");
            return false;
        }
        skeleton.set(&path, value, 0);
        let problems = Log::default();
        read(&skeleton, &problems);
        let mut known = true;
        for found in problems.into_found() {
            if skeleton.node(found.at).origin.is_none() {
                continue;
            }
            if found.on_key {
                log.key(line, found.what, found.remedy);
                known = false;
            } else {
                log.value(element, found.what, found.remedy);
            }
        }
        known
    }
}

/// Returns the axis of all keys with ranges that `sample` draws from; `None` if there are none.
fn drawn(
    ranges: Vec<(NodeId, Range)>,
    sample: Option<(NodeId, Sample)>,
    log: &Log,
) -> Option<Axis> {
    match (ranges.first(), sample) {
        (None, None) => None,
        (Some(&(line, _)), None) => {
            let remedy = "write `steps = 5` into the range, or how many points are drawn from all ranges: `sample = { sobol = 64 }`";
            log.value(line, "this range does not say how many values it gives", remedy);
            None
        }
        (None, Some((line, _))) => {
            let remedy = "write a key with a range: `\"job.batch\" = { from = 16, to = 256 }`";
            log.key(line, "there is no range to draw from", remedy);
            None
        }
        (Some(_), Some((_, sample))) => {
            let ranges: Vec<Range> = ranges.into_iter().map(|(_, range)| range).collect();
            let values = sample.points(ranges.len()).map(|shares| {
                ranges.iter().zip(shares).map(|(range, share)| range.drawn(share)).collect()
            });
            let values = values.collect();
            let keys = ranges.into_iter().map(|range| range.key).collect();
            Some(Axis { keys, values, when: Vec::new() })
        }
    }
}

/// Records a problem for each key that two lines of `[sweep]` sweep.
fn refuse_keys_swept_twice(document: &Document, lines: &[NodeId], axes: &[Axis], log: &Log) {
    let all: Vec<&String> = axes.iter().flat_map(|axis| &axis.keys).collect();
    for (at, key) in all.iter().enumerate() {
        if !all[..at].contains(key) {
            continue;
        }
        let line = lines.iter().rev().find(|&&line| {
            let keys = split_keys(&document.node(line).key).unwrap_or_default();
            keys.iter().any(|path| &written(path) == *key)
        });
        if let Some(&line) = line {
            log.key(line, format!("`{key}` is swept twice"), "sweep each key in one line only");
        }
    }
}

/// Returns a dotted key as an override takes it.
fn written(path: &[String]) -> String {
    path.iter().map(|part| super::document::quoted(part)).collect::<Vec<_>>().join(".")
}

/// Reads the values of a line of `[sweep]`.
struct AxisReader<'a> {
    file: &'a ScenarioFile,
    document: &'a Document,
    line: NodeId,
    /// The keys that take their values together.
    keys: &'a [Vec<String>],
    log: &'a Log,
}

impl AxisReader<'_> {
    fn axis(&self, values: Vec<Vec<Value>>, when: Vec<Condition>) -> Line {
        Line::Axis(Axis { keys: self.names(), values, when })
    }

    /// Returns the keys as written in the file: a single key is not changed.
    fn names(&self) -> Vec<String> {
        match self.keys {
            [_] => vec![self.document.node(self.line).key.clone()],
            several => several.iter().map(|path| written(path)).collect(),
        }
    }

    /// Returns the elements of a list, each with one value for each key.
    fn listed(&self, list: NodeId) -> Option<Vec<Vec<Value>>> {
        let Kind::List(elements) = &self.document.node(list).kind else {
            self.log.value(
                list,
                "a list of values is expected",
                "write a list of values: [1, 2, 4]",
            );
            return None;
        };
        if elements.is_empty() || elements.len() > MOST_VALUES {
            let what = format!("the list has {} values", elements.len());
            self.log.value(list, what, format!("write 1 to {MOST_VALUES} values"));
            return None;
        }
        let mut values = Vec::with_capacity(elements.len());
        for &element in elements {
            values.push(self.together(element)?);
            if !self.accepted(values.last()?, element) {
                break;
            }
        }
        Some(values)
    }

    /// Returns the value of each key in one element of a list.
    fn together(&self, element: NodeId) -> Option<Vec<Value>> {
        if self.keys.len() == 1 {
            return Some(vec![Value(self.document.tree(element))]);
        }
        let parts = match &self.document.node(element).kind {
            Kind::List(parts) if parts.len() == self.keys.len() => parts,
            _ => {
                let what = format!("{} keys are swept together here", self.keys.len());
                let remedy = "write one value for each in brackets: `\"job.batch, cluster.nodes\" = [[32, 1], [64, 2]]`";
                self.log.value(element, what, remedy);
                return None;
            }
        };
        Some(parts.iter().map(|&part| Value(self.document.tree(part))).collect())
    }

    /// Returns whether all keys are known; records a problem if a value is refused.
    fn accepted(&self, values: &[Value], element: NodeId) -> bool {
        self.keys
            .iter()
            .zip(values)
            .all(|(path, value)| self.file.accepts(path, value, self.line, element, self.log))
    }

    /// Reads `{ values = […], when = { … } }`.
    fn conditional(&self, before: &[Axis]) -> Option<Line> {
        let values = self.listed(self.document.member(self.line, "values")?)?;
        let when = self.document.member(self.line, "when");
        let when = when
            .map_or(Some(Vec::new()), |when| conditions(self.document, when, before, self.log))?;
        range::only(self.document, self.line, &["values", "when"], self.log)?;
        Some(self.axis(values, when))
    }

    /// Reads `{ from = 1, to = 16 }`: an axis if it says how many steps it has.
    fn range(&self) -> Option<Line> {
        let [path] = self.keys else {
            let remedy = "give each key a range of its own, or write lists of values";
            self.log.key(self.line, "several keys cannot take one range", remedy);
            return None;
        };
        let key = self.document.node(self.line).key.clone();
        let (range, steps) = Range::read(self.document, self.line, key, self.log)?;
        for (value, end) in [(range.end(0.0), "from"), (range.end(1.0), "to")] {
            let element = self.document.member(self.line, end).unwrap_or(self.line);
            if !self.file.accepts(path, &value, self.line, element, self.log) {
                return None;
            }
        }
        Some(match steps {
            Some(steps) => self.axis(range.steps(steps), Vec::new()),
            None => Line::Range(self.line, range),
        })
    }
}

/// Reads `when = { "job.loader.pytorch.workers" = [4, 8] }`; `before` are the axes of the lines above.
fn conditions(
    document: &Document,
    when: NodeId,
    before: &[Axis],
    log: &Log,
) -> Option<Vec<Condition>> {
    let Kind::Table(members) = &document.node(when).kind else {
        let remedy = "write `when = { \"job.batch\" = [32] }`: a key that is swept in a line above, and its values";
        log.value(when, "a table is expected", remedy);
        return None;
    };
    if members.is_empty() {
        let remedy = "name a key that is swept in a line above, or leave out `when`";
        log.value(when, "this condition names no key", remedy);
        return None;
    }
    members.iter().map(|&member| condition(document, member, before, log)).collect()
}

fn condition(document: &Document, member: NodeId, before: &[Axis], log: &Log) -> Option<Condition> {
    let key = &document.node(member).key;
    let place = before.iter().enumerate().find_map(|(axis, of)| {
        of.keys.iter().position(|other| other == key).map(|place| (axis, place))
    });
    let Some((axis, place)) = place else {
        let what = format!("`{key}` is not swept in a line above");
        log.key(member, what, "name such a key, as it is written there; ranges that points are drawn from have no lines");
        return None;
    };
    let values: Vec<Value> = match &document.node(member).kind {
        Kind::List(elements) => elements.iter().map(|&one| Value(document.tree(one))).collect(),
        _ => vec![Value(document.tree(member))],
    };
    let swept: Vec<&Value> = before[axis].values.iter().filter_map(|of| of.get(place)).collect();
    if let Some(never) = values.iter().find(|value| !swept.contains(value)) {
        let what = format!("`{key}` never is {never}");
        log.value(member, what, "write values that its line has");
        return None;
    }
    Some(Condition { axis, place, values })
}
