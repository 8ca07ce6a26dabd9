//! Problems of a file: what is wrong, where, and what to write instead.

use super::assumed::Assumed;
use super::document::{Document, NodeId, ROOT};
use super::fitting::TooLarge;
use super::overrides::Override;
use annotate_snippets::{AnnotationKind, Element, Level, Origin, Renderer, Snippet};
use forebay_model::input::{cut_words, unsafe_to_show};
pub use forebay_model::input::{printable, printable_line};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;

/// Maximum number of problems that are kept; further ones are only counted.
const MOST: usize = 100;
/// Maximum number of characters that are shown on each side of the marked text.
const AROUND: usize = 60;

/// One problem: what is wrong, where, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, or the option such as `--set key=value`, that causes the problem.
    pub file: String,
    /// Line, from 1; 0 if the problem is in the whole file or in an override.
    pub line: usize,
    /// Column in characters, from 1; 0 if the problem is in the whole file or in an override.
    pub column: usize,
    /// The key, in the form that `--set` takes; empty if the problem concerns no key.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub remedy: String,
    excerpt: Option<Excerpt>,
}

/// The part of a line that a message shows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Excerpt {
    text: String,
    marked: Range<usize>,
    /// Whether the line is shown from its beginning.
    from_start: bool,
}

impl Problem {
    /// Creates a problem of `file` as a whole.
    #[must_use]
    pub fn new(
        file: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            file: clean(&cut_words(&file.into())),
            line: 0,
            column: 0,
            key: String::new(),
            what: clean(&cut_words(&what.into())),
            remedy: clean(&cut_words(&remedy.into())),
            excerpt: None,
        }
    }

    /// Returns this problem with a position: a range of bytes of the file's text.
    #[must_use]
    pub(super) fn at(mut self, text: &str, span: Range<usize>) -> Self {
        let start = floor(text, span.start);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find(['\r', '\n']).map_or(text.len(), |at| start + at);
        let end = floor(text, span.end).clamp(start, line_end);
        self.line = before.matches('\n').count() + 1;
        self.column = text[line_start..start].chars().count() + 1;
        self.excerpt =
            Some(excerpt(&text[line_start..start], &text[start..end], &text[end..line_end]));
        self
    }

    fn title(&self) -> String {
        if self.key.is_empty() { self.what.clone() } else { format!("{}: {}", self.key, self.what) }
    }

    /// Returns the problem as text with its excerpt and remedy: several lines, without a line end after the last.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let file = self.file.as_str();
        let mut elements: Vec<Element<'_>> = Vec::new();
        match &self.excerpt {
            Some(Excerpt { text, marked, from_start }) => {
                let mark = AnnotationKind::Primary.span(marked.clone());
                let mut snippet = Snippet::source(text).line_start(self.line).annotation(mark);
                if *from_start {
                    snippet = snippet.path(file);
                } else {
                    let origin = Origin::path(file).line(self.line).char_column(self.column);
                    elements.push(origin.into());
                }
                elements.push(snippet.into());
            }
            None => elements.push(Origin::path(file).into()),
        }
        elements.push(Level::HELP.message(self.remedy.as_str()).into());
        let group = Level::ERROR.primary_title(self.title()).elements(elements);
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

/// Returns the part of a line that is shown: at most `AROUND` characters of the marked text and on each side of it.
fn excerpt(before: &str, marked: &str, after: &str) -> Excerpt {
    let skip = before.chars().count().saturating_sub(AROUND);
    let mut text = String::from(if skip > 0 { "…" } else { "" });
    text.extend(before.chars().skip(skip).map(visible));
    let start = text.len();
    text.extend(marked.chars().take(AROUND).map(visible));
    let end = text.len();
    if marked.chars().nth(AROUND).is_none() {
        text.extend(after.chars().take(AROUND).map(visible));
    }
    let cut = marked.chars().nth(AROUND).or_else(|| after.chars().nth(AROUND)).is_some();
    text.push_str(if cut { "…" } else { "" });
    Excerpt { text, marked: start..end, from_start: skip == 0 }
}

fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        c if unsafe_to_show(c) => '\u{fffd}',
        c => c,
    }
}

/// Returns a message without control characters, cut if it is too long.
fn clean(text: &str) -> String {
    const MOST_CHARACTERS: usize = 600;
    let short: String = text.chars().take(MOST_CHARACTERS).collect();
    let mut out = printable_line(&short);
    out.push_str(if text.chars().nth(MOST_CHARACTERS).is_some() { "…" } else { "" });
    out
}

/// Returns the last character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// All problems of a file; not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Collects these problems; `None` if there are none.
    #[must_use]
    pub fn new(problems: Vec<Problem>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self(problems))
    }

    /// Returns the problems, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// Returns the first problem in a line: its key, what is wrong, and what to write.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        let line = |of: &Problem| match of.key.is_empty() {
            true => format!("{}; {}", of.what, of.remedy),
            false => format!("{}: {}; {}", of.key, of.what, of.remedy),
        };
        self.0.first().map(line).unwrap_or_default()
    }

    /// Returns the problems with their keys changed by `change`.
    pub(super) fn with_keys(mut self, change: impl Fn(&str) -> String) -> Self {
        self.0.iter_mut().for_each(|problem| problem.key = change(&problem.key));
        self
    }

    /// Returns all problems as text with their excerpts and remedies, with an empty line between problems and a line end
    /// after the last.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let texts: Vec<_> = self.iter().map(|problem| problem.render(colour) + "\n").collect();
        texts.join("\n")
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for Problems {}

/// Problems, remarks and used defaults of a document while it is being read.
#[derive(Debug, Default)]
pub(super) struct Log {
    found: RefCell<Vec<Found>>,
    more: Cell<usize>,
    remarks: RefCell<Vec<String>>,
    notes: RefCell<Vec<String>>,
    assumed: RefCell<Vec<Assumed>>,
    too_large: RefCell<Vec<TooLarge>>,
}

/// A problem at a document node, or in another file that the node names.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) at: NodeId,
    pub(super) on_key: bool,
    pub(super) what: String,
    pub(super) remedy: String,
    elsewhere: Option<Problem>,
}

impl Log {
    /// Records a problem with the value of a document node.
    pub(super) fn value(&self, at: NodeId, what: impl fmt::Display, remedy: impl fmt::Display) {
        self.add(at, false, what, remedy);
    }

    /// Records a problem with the key of a document node.
    pub(super) fn key(&self, at: NodeId, what: impl fmt::Display, remedy: impl fmt::Display) {
        self.add(at, true, what, remedy);
    }

    fn add(&self, at: NodeId, on_key: bool, what: impl fmt::Display, remedy: impl fmt::Display) {
        let (what, remedy) = (what.to_string(), remedy.to_string());
        self.push(Found { at, on_key, what, remedy, elsewhere: None });
    }

    /// Records a problem in another file that document node `at` names.
    pub(super) fn elsewhere(&self, at: NodeId, problem: Problem) {
        let (what, remedy) = (problem.what.clone(), problem.remedy.clone());
        self.push(Found { at, on_key: false, what, remedy, elsewhere: Some(problem) });
    }

    /// Records a remark: nothing is wrong, but a reader of the results should know.
    pub(super) fn remark(&self, sentence: String) {
        let mut all = self.remarks.borrow_mut();
        if !all.contains(&sentence) {
            all.push(sentence);
        }
    }

    /// Returns and removes the remarks, in the order in which they were made.
    pub(super) fn take_remarks(&self) -> Vec<String> {
        self.remarks.take()
    }

    /// Records a note: a default that may differ from what the user expects.
    pub(super) fn note(&self, text: String) {
        self.notes.borrow_mut().push(text);
    }

    /// Returns and removes the notes.
    pub(super) fn take_notes(&self) -> Vec<String> {
        self.notes.take()
    }

    /// Records that a key is not set, and the default used for it.
    pub(super) fn assume(&self, assumed: Assumed) {
        self.assumed.borrow_mut().push(assumed);
    }

    /// Returns and removes the defaults that were recorded.
    pub(super) fn take_assumed(&self) -> Vec<Assumed> {
        self.assumed.take()
    }

    /// Records a job whose model does not fit into GPU memory. It becomes a problem once it is known which changes help.
    pub(super) fn too_large(&self, job: TooLarge) {
        self.too_large.borrow_mut().push(job);
    }

    /// Returns and removes the jobs whose models do not fit into GPU memory.
    pub(super) fn take_too_large(&self) -> Vec<TooLarge> {
        self.too_large.take()
    }

    /// Returns the number of problems that have been recorded.
    pub(super) fn number(&self) -> usize {
        self.found.borrow().len() + self.more.get()
    }

    /// Returns whether `key` was suggested for an unknown key of `table`.
    pub(super) fn suggested(&self, document: &Document, table: NodeId, key: &str) -> bool {
        let suggestion = format!("did you mean `{key}`?");
        self.found.borrow().iter().any(|found| {
            let here = found.on_key && document.node(found.at).parent == table;
            here && found.at != table && found.remedy.starts_with(&suggestion)
        })
    }

    /// Returns whether no problem and no model that is too large has been recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty() && self.too_large.borrow().is_empty()
    }

    /// Returns whether the maximum number of problems is reached: further ones are only counted and need no wording.
    pub(super) fn is_full(&self) -> bool {
        self.found.borrow().len() >= MOST
    }

    fn push(&self, found: Found) {
        let mut all = self.found.borrow_mut();
        if all.len() < MOST { all.push(found) } else { self.more.set(self.more.get() + 1) }
    }

    /// Returns the problems in the order in which they were found.
    pub(super) fn into_found(self) -> Vec<Found> {
        self.found.into_inner()
    }

    /// Returns the problems in the order of the file, with problems of overrides first.
    pub(super) fn into_problems(self, source: &Source<'_>) -> Option<Problems> {
        let more = self.more.get();
        let found = self.found.into_inner().into_iter();
        let mut problems: Vec<_> = found.map(|found| source.problem(found)).collect();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems.dedup();
        if more > 0 {
            let what = format!("{more} more problems");
            problems.push(Problem::new(source.file, what, "correct those above first"));
        }
        Problems::new(problems)
    }
}

/// Where document nodes come from: the file and the overrides.
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    pub(super) document: &'a Document,
    pub(super) overrides: &'a [Override],
}

impl Source<'_> {
    fn problem(&self, found: Found) -> Problem {
        let node = self.document.node(found.at);
        let key = self.document.path(found.at);
        let problem = match (found.elsewhere, node.origin.and_then(|o| self.overrides.get(o))) {
            (Some(elsewhere), _) => elsewhere,
            (None, Some(change)) => Problem::new(change.to_string(), found.what, found.remedy),
            (None, None) => {
                let on_key = found.on_key && !node.key.is_empty();
                let span = if on_key { &node.key_span } else { &node.span };
                let span = if found.at == ROOT { 0..0 } else { span.clone() };
                Problem::new(self.file, found.what, found.remedy).at(self.text, span)
            }
        };
        Problem { key: clean(&key), ..problem }
    }
}
