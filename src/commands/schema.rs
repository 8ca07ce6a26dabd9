//! `forebay schema`: prints the JSON Schema of a file format, for editors.

use super::{Failure, output};
use crate::cli::{Schema, SchemaOf};
use crate::metric;
use crate::plot;
use crate::probe;
use crate::profile;
use crate::scenario;
use crate::validate;

pub(super) fn execute(schema: &Schema) -> Result<(), Failure> {
    let value = match schema.of {
        SchemaOf::Scenario => scenario::schema(),
        SchemaOf::Profile => profile::schema(),
        SchemaOf::Report => metric::report_schema(),
        SchemaOf::Recipe => plot::schema(),
        SchemaOf::Plan => probe::schema(),
        SchemaOf::Validation => validate::schema(),
    };
    output::stdout(format!("{value:#}\n").as_bytes())
}
