//! The reference of all keys, columns, causes of stalls and exit codes, as Markdown.
//!
//! Nothing is said here that is said elsewhere: keys, types, ranges, defaults and meanings are those of the JSON Schemas, which
//! come from the types that read the files; columns are those of [`crate::metric`]. Beside them are only an example of each
//! key with the shipped scenario that has it (`examples.tsv`, which a test writes and keeps true) and which keys the live
//! world does not have ([`live`]).

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

/// The whole reference, with these examples.
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
