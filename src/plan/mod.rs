//! Decisions: the smallest or largest value of a key that meets goals, and the best of several options.
//!
//! - [`figure`]: a figure of the report by its name.
//! - [`goal`]: a figure, a comparison and a value, as users write them.
//! - [`unknown`]: the values of a key that are tried.
//! - [`trial`]: replications of changed scenarios, and whether they meet the goals, with the certainty that is asked for.
//! - [`search`]: the smallest or largest values, by bisection.
//! - [`choice`]: the best option, by ranking and selection.
//! - [`draws`]: whether the choice stays over what publications reached of nominal numbers.
//!
//! Decisions need the simulation only through reports, and a report only through its table of metrics.

pub mod choice;
pub mod draws;
pub mod figure;
pub mod goal;
pub mod search;
pub mod trial;
pub mod unknown;

use crate::scenario::{Override, PlanText, Problems, Scenario, ScenarioFile};

pub use choice::{Choice, Rank, Standing, choose};
pub use draws::{OverDraws, over_draws};
pub use figure::Wanted;
pub use goal::Goal;
pub use search::{Answer, MOST_COMBINATIONS, Tried, search};
pub use trial::{Failed, Figured, Question, Setting, first_outcome};
pub use unknown::Unknown;

/// Reads the `[plan]` table of a scenario, so that mistakes in it are found by every command. Nothing is read if the command line changes
/// keys and the table only fits the file without these changes.
///
/// # Errors
/// If a goal, a key or the figure of `best` cannot be read, with its line.
pub fn check(
    file: &ScenarioFile,
    overrides: &[Override],
    scenario: &Scenario,
) -> Result<(), Problems> {
    let found = check_one(file, overrides, scenario);
    match (found, overrides.is_empty()) {
        (Err(problems), false) => match file.resolve(&[]) {
            Ok(scenario) if check_one(file, &[], &scenario).is_ok() => Ok(()),
            _ => Err(problems),
        },
        (found, _) => found,
    }
}

/// Reads a text of the table; what is wrong with it, and what to write.
type Reader<'a> = dyn Fn(&str) -> Result<(), (String, String)> + 'a;

fn check_one(
    file: &ScenarioFile,
    overrides: &[Override],
    scenario: &Scenario,
) -> Result<(), Problems> {
    let table = file.plan(overrides)?;
    let goal = |text: &str| Goal::parse(text, scenario).map(drop);
    let best = |text: &str| Wanted::parse(text, scenario).map(drop);
    let key = |text: &str| Unknown::parse(text, false, (file, overrides, scenario)).map(drop);
    let read = |texts: &[PlanText], read: &Reader<'_>| {
        texts.iter().try_for_each(|text| {
            let refuse =
                |(what, remedy): (String, String)| file.refuse(overrides, text, (&what, &remedy));
            read(&text.text).map_err(refuse)
        })
    };
    read(&table.goals, &goal)?;
    read(&table.min, &key)?;
    read(&table.max, &key)?;
    read(&table.among, &key)?;
    read(table.best.as_slice(), &best)
}
