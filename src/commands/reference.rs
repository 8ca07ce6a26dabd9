//! `forebay reference`: prints every key, column, cause of stalls and exit code.

use super::paths::Paths;
use super::{Failure, output};
use crate::cli::Reference;
use crate::reference::{Examples, examples, markdown};

pub(super) fn execute(reference: &Reference) -> Result<(), Failure> {
    Paths::default().writes("--output", reference.output.as_ref())?;
    let text = markdown(&Examples::parse(examples::SHIPPED));
    match &reference.output {
        Some(path) => output::file(path, |to| to.write_all(text.as_bytes())),
        None => output::stdout(text.as_bytes()),
    }
}
