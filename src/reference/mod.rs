//! The reference of all keys, columns, causes of stalls and exit codes, as Markdown.
//!
//! The reference has no facts of its own. Keys, types, ranges, defaults and meanings come from the JSON Schemas, which are
//! generated from the types that read the files. Columns come from [`crate::metric`]. This module adds only two things:
//! an example of each key with a shipped scenario that contains the key (`examples.tsv`, which a test writes and keeps true), and
//! the list of keys that the live world does not support ([`live`]).

pub mod examples;
pub mod live;
mod page;
mod rows;
mod tables;
mod words;

pub use examples::Examples;
pub use tables::{Key, Table, Tables};

use crate::metric;
use crate::plot;
use crate::probe;
use crate::scenario;
use crate::validate;

/// Returns the whole reference, with these examples.
#[must_use]
pub fn markdown(examples: &Examples) -> String {
    let mut page = page::Page::new();
    page.introduction();
    page.values();
    page.file(&page::SCENARIO, &scenario::schema(), examples);
    page.file(&page::RECIPE, &plot::schema(), examples);
    page.file(&page::PLAN, &probe::schema(), examples);
    page.file(&page::VALIDATION, &validate::schema(), examples);
    rows::columns(&mut page, metric::all());
    rows::only_json(&mut page, metric::all());
    rows::causes(&mut page);
    rows::exit_codes(&mut page);
    page.finish()
}
