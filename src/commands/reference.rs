//! `forebay reference`: prints every key, column, cause of stalls and exit code.

use super::{Failure, output};
use crate::cli::Reference;
use crate::reference::{Examples, examples, markdown};

pub(super) fn execute(reference: &Reference) -> Result<(), Failure> {
    output::check(reference.output.as_deref())?;
    let text = markdown(&Examples::parse(examples::SHIPPED));
    match &reference.output {
        Some(path) => output::file(path, |to| to.write_all(text.as_bytes())),
        None => output::stdout(text.as_bytes()),
    }
}
