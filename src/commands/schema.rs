//! `forebay schema`: JSON Schema for editors.

use super::{Failure, output};
use crate::cli::{Schema, SchemaOf};
use crate::metric;
use crate::profile;
use crate::scenario;

pub(super) fn execute(schema: &Schema) -> Result<(), Failure> {
    let value = match schema.of {
        SchemaOf::Scenario => scenario::schema(),
        SchemaOf::Profile => profile::schema(),
        SchemaOf::Report => metric::report_schema(),
    };
    output::stdout(format!("{value:#}\n").as_bytes())
}
