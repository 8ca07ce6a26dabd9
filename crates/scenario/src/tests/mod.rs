//! Tests of scenario files, with and without mistakes.

mod any;
mod bad;
mod clusters;
mod contradictions;
mod distributions;
mod endless;
mod files;
mod good;
mod hostile;
mod loaders;
mod overrides;
mod parts;
mod plan;
mod prices;
mod profiles;
mod remarks;
mod removals;
mod schema;
mod sharding;
mod warm;

use super::*;

/// The example of the design document, without the parts that come later in it.
pub(super) const FLETCHER: &str = include_str!("fletcher.toml");

/// Returns all problems of a text, rendered.
fn wrong(text: &str) -> String {
    let file = match ScenarioFile::parse("a.toml", text.to_owned()) {
        Ok(file) => file,
        Err(problems) => return problems.to_string(),
    };
    match (file.resolve(&[]), file.axes()) {
        (Err(problems), _) | (Ok(_), Err(problems)) => problems.to_string(),
        (Ok(_), Ok(_)) => String::new(),
    }
}

pub(super) fn fletcher() -> ScenarioFile {
    ScenarioFile::parse("fletcher.toml", FLETCHER.to_owned()).expect("it is TOML")
}

fn resolved(overrides: &[&str]) -> Result<Scenario, Problems> {
    let overrides: Vec<Override> =
        overrides.iter().map(|text| text.parse().expect("a key and a value")).collect();
    fletcher().resolve(&overrides)
}
