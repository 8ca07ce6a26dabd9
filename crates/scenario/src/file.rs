//! Scenario files; no other module parses the TOML of scenarios.

use super::distribution::FilesOfValues;
use super::document::{Document, Kind, Node, NodeId, ROOT};
use super::limits::{LISTS, MOST_ENTRIES, too_many_entries};
use super::problem::{Problem, Problems};
use super::reading::Cache;
use super::value::Tree;
use forebay_model::input::{self, FileKind, InputError, check_toml, is_descriptor};
use std::path::{Path, PathBuf};
use toml::de::{DeInteger, DeTable, DeValue};

/// A scenario file that is well-formed TOML, with the positions of its keys and values.
#[derive(Debug, Clone)]
pub struct ScenarioFile {
    pub(super) name: String,
    pub(super) directory: PathBuf,
    pub(super) text: String,
    pub(super) document: Document,
    /// Cache of the values in files that the scenario names for empirical distributions.
    pub(super) values: FilesOfValues,
    /// Cache of the profiles that were read for the scenario.
    pub(super) profiles: Cache,
}

impl ScenarioFile {
    /// Reads and parses a file.
    ///
    /// # Errors
    /// If it is neither a file nor a pipe that the shell has opened for us (`<(…)`), cannot be read,
    /// is larger than 16 MiB, or is not TOML in UTF-8.
    pub fn open(path: &Path) -> Result<Self, Problems> {
        let name = path.to_string_lossy().into_owned();
        let bytes = read(path, input::WRITTEN)
            .map_err(|(what, remedy)| Problem::new(&name, what, remedy))?;
        let text = String::from_utf8(bytes).map_err(|error| not_utf8(&name, &error))?;
        let mut file = Self::parse(&name, text)?;
        // A scenario from a pipe names files relative to the user's directory, as standard input does.
        let beside = path.parent().filter(|_| !is_descriptor(path));
        file.directory = beside.map(Path::to_path_buf).unwrap_or_default();
        Ok(file)
    }

    /// Parses a text. Messages call it `name`, and files that the text refers to are looked up in the directory of
    /// `name`.
    ///
    /// # Errors
    /// If the text is not TOML.
    pub fn parse(name: &str, text: String) -> Result<Self, Problems> {
        Self::parse_as("a scenario", name, text)
    }

    /// Parses a text as [`ScenarioFile::parse`] does; the refusal of another program's file says what was `wanted`, `a recipe`.
    ///
    /// # Errors
    /// If the text is not TOML.
    pub fn parse_as(wanted: &str, name: &str, text: String) -> Result<Self, Problems> {
        check_toml(&text).map_err(|error| crowded(name, &text, &error))?;
        let (table, errors) = DeTable::parse_recoverable(&text);
        if let Some(other) =
            FileKind::of(&text).filter(|kind| !errors.is_empty() && *kind != FileKind::Scenario)
        {
            return Err(Problem::new(name, format!("this is not {wanted}"), other.hint()).into());
        }
        if let Some(problems) = Problems::new(syntax_problems(name, &text, &errors)) {
            return Err(problems);
        }
        if let Some(problems) = Problems::new(too_many(name, &text, table.get_ref())) {
            return Err(problems);
        }
        let mut document = Document::new(table.span());
        grow_table(&mut document, ROOT, table.get_ref());
        let directory = Path::new(name).parent().map(Path::to_path_buf).unwrap_or_default();
        let (values, profiles) = (FilesOfValues::default(), Cache::default());
        Ok(Self { name: name.to_owned(), directory, text, document, values, profiles })
    }

    /// Returns the name of the file, as messages show it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the question that the file asks: its first comment line, without `#`.
    #[must_use]
    pub fn question(&self) -> Option<&str> {
        let comment = |line: &'_ str| line.trim_start().starts_with('#');
        let line = self.text.trim_start_matches('\u{feff}').lines().find(|line| comment(line))?;
        Some(line.trim_start().trim_start_matches('#').trim()).filter(|line| !line.is_empty())
    }
}

/// Returns the bytes of a file of at most `largest` bytes; if it cannot be read or is larger, returns what is wrong,
/// and a remedy.
pub(super) fn read(path: &Path, largest: u64) -> Result<Vec<u8>, (String, String)> {
    input::bytes(path, largest).map_err(|error| (error.to_string(), error.remedy()))
}

fn not_utf8(name: &str, error: &std::string::FromUtf8Error) -> Problem {
    let bytes = error.as_bytes();
    let start = error.utf8_error().valid_up_to();
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(start + 1)]).into_owned();
    let end = text.len();
    Problem::new(name, "this is not UTF-8 text", "save the file as UTF-8 text; is it a scenario?")
        .at(&text, start..end)
}

/// Returns the problem for a text that is too large to be parsed into a tree.
fn crowded(name: &str, text: &str, error: &InputError) -> Problem {
    let problem = Problem::new(name, error.to_string(), error.remedy());
    match error {
        InputError::Crowded { at, .. } => problem.at(text, *at..*at),
        _ => problem,
    }
}

/// Returns a problem for each list with too many entries. Such lists are refused before their entries become document
/// nodes.
fn too_many(name: &str, text: &str, table: &DeTable<'_>) -> Vec<Problem> {
    let length = |value: &DeValue<'_>| match value {
        DeValue::Array(entries) => entries.len(),
        DeValue::Table(entries) => entries.len(),
        _ => 0,
    };
    let entries = table.iter().filter(|(key, _)| LISTS.contains(&key.get_ref().as_ref()));
    let long = entries.filter(|(_, value)| length(value.get_ref()) > MOST_ENTRIES);
    long.map(|(key, value)| {
        let (key, number) = (key.get_ref(), length(value.get_ref()));
        let (what, remedy) = too_many_entries(number);
        Problem::new(name, format!("{key}: {what}"), remedy).at(text, value.span())
    })
    .collect()
}

/// Returns the syntax errors, at most one per line: one mistake can make the rest of its line wrong.
fn syntax_problems(name: &str, text: &str, errors: &[toml::de::Error]) -> Vec<Problem> {
    const MOST: usize = 100;
    let mut problems: Vec<_> = errors
        .iter()
        .take(MOST)
        .map(|error| {
            let what = format!("this is not TOML: {}", error.message());
            let remedy = syntax_remedy(error.message());
            Problem::new(name, what, remedy).at(text, error.span().unwrap_or(0..0))
        })
        .collect();
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems.dedup_by_key(|problem| problem.line);
    problems
}

fn syntax_remedy(message: &str) -> &'static str {
    if message.contains("duplicate") {
        "keep one of the two"
    } else if message.contains("recurs") {
        "nest at most 80 levels deep"
    } else if message.contains("quot") || message.contains("string values") {
        "write text and quantities in quotes: \"3 ms\""
    } else {
        "look for a missing quote, bracket or `=` here; text and quantities are written in \
         quotes: \"3 ms\""
    }
}

/// Returns the value of a text in TOML syntax; if the text is invalid, returns what is wrong.
pub(super) fn parse_value(text: &str) -> Result<Tree, String> {
    let value = DeValue::parse(text).map_err(|error| error.message().to_owned())?;
    let mut document = Document::new(0..0);
    grow(&mut document, ROOT, "", 0..0, &value);
    Ok(document.tree(document.children(ROOT)[0]))
}

fn grow_table(document: &mut Document, at: NodeId, table: &DeTable<'_>) {
    for (key, value) in table {
        let new = document.present_name(at, key.get_ref());
        // If both names are there, the old one is an unknown key.
        let name = if table.contains_key(new.as_str()) { key.get_ref().as_ref() } else { &new };
        grow(document, at, name, key.span(), value);
    }
    document.sort(at);
}

fn grow(
    document: &mut Document,
    parent: NodeId,
    key: &str,
    key_span: std::ops::Range<usize>,
    value: &toml::Spanned<DeValue<'_>>,
) {
    let kind = match value.get_ref() {
        DeValue::String(text) => Kind::Text(text.clone().into_owned()),
        DeValue::Integer(value) => integer(value),
        DeValue::Float(value) => Kind::Float(value.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Kind::Boolean(*value),
        DeValue::Datetime(value) => Kind::Date(value.to_string()),
        DeValue::Array(_) => Kind::List(Vec::new()),
        DeValue::Table(_) => Kind::Table(Vec::new()),
    };
    let node =
        Node { parent, key: key.to_owned(), key_span, span: value.span(), origin: None, kind };
    let id = document.push(node);
    match value.get_ref() {
        DeValue::Array(elements) => {
            for element in elements.iter() {
                grow(document, id, "", 0..0, element);
            }
        }
        DeValue::Table(table) => grow_table(document, id, table),
        _ => {}
    }
}

fn integer(value: &DeInteger<'_>) -> Kind {
    match i128::from_str_radix(value.as_str(), value.radix()) {
        Ok(value) => Kind::Integer(value),
        // Later checks need to know only that the number is too large.
        Err(_) => Kind::Float(if value.as_str().starts_with('-') { f64::MIN } else { f64::MAX }),
    }
}
