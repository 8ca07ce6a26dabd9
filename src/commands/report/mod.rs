//! `forebay report`: writes a page of results that other commands wrote.
//!
//! [`kind`] recognises a result, and one file for each kind makes a section of it: the answer first, then figures, tables, how sure the
//! answer is, what was assumed, the scenario, and where the result comes from.

mod comparison;
mod decision;
mod kind;
mod profile;
mod provenance;
mod purchase;
mod read;
mod run;
mod sweep;
mod sweep_figure;
mod validation;

use super::paths::Paths;
use super::{Failure, input, output};
use crate::cli::Report;
use crate::input::{TRACED, printable_line, shown};
use crate::page::{self, Block, Page, Part, Section};
use crate::scenario::ScenarioFile;
use kind::Kind;
use std::path::{Path, PathBuf};

/// A section, and the scenario that it is the result of.
struct Made {
    section: Section,
    scenario: Of,
}

/// What scenario a result is of.
enum Of {
    Named(String),
    /// One that its file does not name.
    Unnamed,
    /// None, or several: profiles and validations.
    None,
}

impl Of {
    fn name(&self) -> Option<&str> {
        match self {
            Of::Named(name) => Some(name),
            Of::Unnamed | Of::None => None,
        }
    }
}

/// The text of a scenario.
struct Text {
    path: PathBuf,
    name: String,
    text: String,
}

pub(super) fn execute(arguments: &Report, quiet: bool) -> Result<(), Failure> {
    let paths = Paths::default().writes("--output", arguments.output.as_ref())?;
    let paths = paths.prints(arguments.output.is_none());
    let paths = paths.reads_all("the result", arguments.inputs.iter().map(PathBuf::as_path));
    paths.reads_all("--scenario", arguments.scenario.iter().map(PathBuf::as_path)).check()?;
    let texts = arguments.scenario.iter().map(|path| text_of(path));
    let texts: Vec<Text> = texts.collect::<Result<_, _>>()?;
    // The mistakes of all inputs are told together.
    let (made, failures): (Vec<_>, Vec<_>) =
        arguments.inputs.iter().map(|path| make(path)).partition(Result::is_ok);
    Failure::all(failures.into_iter().filter_map(Result::err).collect())?;
    let mut made: Vec<Made> = made.into_iter().filter_map(Result::ok).collect();
    for text in &texts {
        place(text, &mut made)?;
    }
    let title = arguments.title.clone().unwrap_or_else(|| title(&made));
    let sections = made.into_iter().map(|made| made.section).collect();
    let html = page::render(&Page { title, sections });
    match &arguments.output {
        None => output::stdout(html.as_bytes()),
        Some(path) => {
            output::file(path, |to| to.write_all(html.as_bytes()))?;
            output::warn(quiet, &format!("wrote {}", shown(path)));
            Ok(())
        }
    }
}

/// Makes the section of an input.
fn make(path: &Path) -> Result<Made, Failure> {
    let text = input::text_or_standard_input(path, TRACED)?;
    let name = input::name(path);
    let (mut section, scenario) = match kind::of(&name, &text)? {
        Kind::Run(report) => {
            let name = read::text(&report, "/scenario").unwrap_or_default();
            (run::section(&report), Of::Named(name))
        }
        Kind::Plan(plan, json) => {
            (decision::section(&plan, &json), Of::Named(plan.scenario.clone()))
        }
        Kind::Comparison(found, json) => (comparison::section(&found, &json), Of::Unnamed),
        Kind::Validation(found) => (validation::section(&found), Of::None),
        Kind::Rows(table) => (sweep::section(&table), Of::Unnamed),
        Kind::Profile(profile) => (profile::section(path, &profile), Of::None),
    };
    provenance::add_file(&mut section, &name, &text);
    Ok(Made { section, scenario })
}

/// Reads a scenario that the page shows.
fn text_of(path: &Path) -> Result<Text, Failure> {
    let file = ScenarioFile::open(path)?;
    let name = file.resolve(&[])?.name;
    Ok(Text { path: path.to_owned(), name, text: file.text().to_owned() })
}

/// Adds the text of a scenario to the sections of its results or, if no result names it, to those of results that name no scenario.
fn place(text: &Text, made: &mut [Made]) -> Result<(), Failure> {
    let is_own = |made: &Made| made.scenario.name() == Some(&text.name);
    let named = made.iter().any(is_own);
    let wanted =
        |made: &Made| if named { is_own(made) } else { matches!(made.scenario, Of::Unnamed) };
    let mut placed = false;
    for made in made.iter_mut().filter(|made| wanted(made)) {
        let label = format!("`{}`", printable_line(&shown(&text.path)));
        let block = Block::Lines { label, text: text.text.clone() };
        let parts = &mut made.section.parts;
        match parts.iter_mut().find(|part| part.title == SCENARIO) {
            Some(part) => part.blocks.push(block),
            None => parts.insert(parts.len().saturating_sub(1), Part::new(SCENARIO, vec![block])),
        }
        placed = true;
    }
    if placed {
        return Ok(());
    }
    let mut names: Vec<String> =
        made.iter().filter_map(|of| of.scenario.name()).map(printable_line).collect();
    names.sort();
    names.dedup();
    let (path, name) = (shown(&text.path), printable_line(&text.name));
    let what = match names.is_empty() {
        true => "no result is of a scenario".to_owned(),
        false => format!("the results are of `{}`", names.join("`, `")),
    };
    Err(Failure::Input(format!(
        "--scenario {path}: its name is `{name}`, and {what}; name the scenario that was run"
    )))
}

/// Title of the part with the scenario's keys and text.
const SCENARIO: &str = "The scenario";

fn title(made: &[Made]) -> String {
    match made {
        [one] => one.section.title.clone(),
        [first, others @ ..] => {
            let number = made.len();
            let is_same = |of: &Made| of.scenario.name() == first.scenario.name();
            match first.scenario.name().filter(|_| others.iter().all(is_same)) {
                Some(name) => format!("{name}: {number} results"),
                None => format!("{number} results of forebay"),
            }
        }
        [] => String::new(),
    }
}
