//! Validation plans: which points of a scenario are run, and how often.

use crate::input::shown;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// A validation plan, as read from its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Path of the scenario file, relative to the working directory.
    pub scenario: PathBuf,
    /// Number of live runs of each point.
    pub repetitions: u32,
    /// Maximum relative standard deviation of throughput between the live runs of a point; above it, the runs are made again.
    pub noise_floor: f64,
    /// Maximum number of times that all runs of a point are made again because they were too noisy.
    pub retries: u32,
    /// Number of simulations of each point; each has its own parameters and seed.
    pub predictions: u32,
    /// The points, in the order of the file.
    pub points: Vec<PlanPoint>,
}

/// A point of a plan: a configuration of the scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanPoint {
    /// Name of the point in the table of results.
    pub name: String,
    /// Whether fits may use the point.
    pub used: Use,
    /// Changes to the scenario at this point, `key=value`.
    pub set: Vec<String>,
    /// Step time as a multiple of the time that the loader needs for the step's samples, for points near a crossover.
    pub crossover: Option<f64>,
}

/// How a point is used: to fit predictions, or to test them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// Fits may use the point: its runs show how fast the cores are and how much equal runs differ. Its error is not counted.
    Fit,
    /// No fit uses the point: its error is counted.
    HeldOut,
}

/// Why a plan cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use {name}{place}: {what}")]
pub struct PlanError {
    name: String,
    place: String,
    what: String,
}

/// A plan of `forebay validate`: configurations of a scenario that run on this machine and are predicted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "forebay validation plan")]
struct File {
    /// Path of the scenario file, relative to the directory of the plan.
    scenario: PathBuf,
    /// Number of live runs of each point, 1 to 1000 (default: 5).
    #[serde(default = "five")]
    #[schemars(with = "u32")]
    repetitions: Spanned<u32>,
    /// Maximum relative standard deviation of throughput between the live runs of a point, 0 to 1; above it, the runs are made
    /// again (default: 0.04).
    #[serde(default = "four_percent")]
    #[schemars(with = "f64")]
    noise_floor: Spanned<f64>,
    /// Maximum number of times that the runs of a point are made again because they are too noisy, up to 1000 (default: 2).
    #[serde(default = "two")]
    #[schemars(with = "u32")]
    retries: Spanned<u32>,
    /// Number of simulations of each point, 2 to 1000; each has its own parameters and seed (default: 40).
    #[serde(default = "forty")]
    #[schemars(with = "u32")]
    predictions: Spanned<u32>,
    /// Changes to the scenario at all points, by dotted key (default: none).
    #[serde(default)]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    set: toml::Table,
    /// The points of the plan: configurations of the scenario, at least one.
    #[serde(default)]
    #[schemars(with = "Vec<FilePoint>", required)]
    point: Vec<Spanned<FilePoint>>,
}

/// A point of the plan: a configuration of the scenario.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FilePoint {
    /// Name of the point in the table of results.
    name: String,
    /// Whether fits may use the point.
    #[serde(rename = "use")]
    used: Use,
    /// Changes to the scenario at this point, by dotted key (default: none).
    #[serde(default)]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    set: toml::Table,
    /// Step time as a multiple of the time that the loader needs for the step's samples, 0.01 to 100 (default: as the scenario
    /// says).
    #[serde(default)]
    #[schemars(with = "Option<f64>")]
    crossover: Option<Spanned<f64>>,
}

/// Returns the JSON Schema of a validation plan, generated from the types that read the plan.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(File).to_value()
}

fn default<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

fn five() -> Spanned<u32> {
    default(5)
}

fn four_percent() -> Spanned<f64> {
    default(0.04)
}

fn two() -> Spanned<u32> {
    default(2)
}

fn forty() -> Spanned<u32> {
    default(40)
}

/// Maximum value of `repetitions`, `retries` and `predictions`.
const MOST: u32 = 1000;

impl Plan {
    /// Reads a plan. Messages name it by `path`, and the path of its scenario is relative to the directory of `path`.
    ///
    /// # Errors
    /// With the place of the first problem.
    pub fn parse(path: &Path, text: &str) -> Result<Plan, PlanError> {
        let error = |at: Range<usize>, what: &str| PlanError {
            name: shown(path),
            place: if at.is_empty() { String::new() } else { position(text, at.start) },
            what: what.to_owned(),
        };
        let file: File = toml::from_str(text).map_err(|found| {
            let at = found.span().unwrap_or(0..0);
            error(at.start..at.end.max(at.start + 1), found.message())
        })?;
        file.check(error)?;
        let common = changes(&file.set);
        let point = |point: Spanned<FilePoint>| {
            let point = point.into_inner();
            let set = common.iter().cloned().chain(changes(&point.set)).collect();
            let crossover = point.crossover.map(Spanned::into_inner);
            PlanPoint { name: point.name, used: point.used, set, crossover }
        };
        Ok(Plan {
            scenario: path.parent().unwrap_or(Path::new("")).join(&file.scenario),
            repetitions: file.repetitions.into_inner(),
            noise_floor: file.noise_floor.into_inner(),
            retries: file.retries.into_inner(),
            predictions: file.predictions.into_inner(),
            points: file.point.into_iter().map(point).collect(),
        })
    }
}

impl File {
    fn check(&self, error: impl Fn(Range<usize>, &str) -> PlanError) -> Result<(), PlanError> {
        for (number, least) in [(&self.repetitions, 1), (&self.retries, 0), (&self.predictions, 2)]
        {
            if !(least..=MOST).contains(number.get_ref()) {
                let what = format!("write a number from {least} to {MOST}");
                return Err(error(number.span(), &what));
            }
        }
        if !(0.0..=1.0).contains(self.noise_floor.get_ref()) {
            let what = "write `noise_floor` as a share from 0 to 1, such as 0.04";
            return Err(error(self.noise_floor.span(), what));
        }
        if self.point.is_empty() {
            let what = "the plan has no points; write `[[point]]` with `name`, `use` and `set`";
            return Err(error(0..0, what));
        }
        for (index, point) in self.point.iter().enumerate() {
            let same = |other: &Spanned<FilePoint>| other.get_ref().name == point.get_ref().name;
            if self.point[..index].iter().any(same) {
                let what = format!("two points are named {:?}; rename one", point.get_ref().name);
                return Err(error(point.span(), &what));
            }
            self.check_held_out(index, &error)?;
            check_crossover(point.get_ref(), &error)?;
        }
        Ok(())
    }

    /// Checks that no earlier point has the same configuration. Otherwise a fit could use the configuration of a held-out point.
    fn check_held_out(
        &self,
        index: usize,
        error: &impl Fn(Range<usize>, &str) -> PlanError,
    ) -> Result<(), PlanError> {
        let point = self.point[index].get_ref();
        let twin = self.point[..index].iter().map(Spanned::get_ref).find(|p| p.set == point.set);
        let Some(twin) = twin else { return Ok(()) };
        let what = format!("{:?} is the same configuration as {:?}", point.name, twin.name);
        Err(error(self.point[index].span(), &format!("{what}; remove one")))
    }
}

/// Checks the range of `crossover`, and that a point with `crossover` does not also set the step time.
fn check_crossover(
    point: &FilePoint,
    error: &impl Fn(Range<usize>, &str) -> PlanError,
) -> Result<(), PlanError> {
    let Some(crossover) = &point.crossover else { return Ok(()) };
    if !(0.01..=100.0).contains(crossover.get_ref()) {
        let what = "write `crossover` as a multiple of what the loader needs, 0.01 to 100";
        return Err(error(crossover.span(), what));
    }
    if point.set.keys().any(|key| key.starts_with("job.model")) {
        let what = "`crossover` says how long a step takes; remove it, or `job.model` from `set`";
        return Err(error(crossover.span(), what));
    }
    Ok(())
}

/// Returns the entries of a table as `key=value`.
fn changes(table: &toml::Table) -> Vec<String> {
    table.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// Returns the position of a byte in a text as `:line:column`.
fn position(text: &str, byte: usize) -> String {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!(":{line}:{column}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
scenario = "../s.toml"
repetitions = 3
set = { "run.steps" = 50 }

[[point]]
name = "slow"
use = "held-out"
set = { "job.batch" = 64, "job.model.step" = "3 ms" }

[[point]]
name = "fast"
use = "fit"
"#;

    fn parse(text: &str) -> Result<Plan, String> {
        Plan::parse(Path::new("plans/p.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn validation_points_add_their_settings_to_the_settings_of_the_plan() {
        let plan = parse(PLAN).expect("a plan");
        assert_eq!(plan.scenario, Path::new("plans/../s.toml"));
        assert_eq!((plan.repetitions, plan.retries, plan.predictions), (3, 2, 40));
        let [slow, fast] = &plan.points[..] else { panic!("two points") };
        assert_eq!((slow.used, fast.used), (Use::HeldOut, Use::Fit));
        assert_eq!(slow.set, ["run.steps=50", "job.batch=64", "job.model.step=\"3 ms\""]);
        assert_eq!(fast.set, ["run.steps=50"]);
    }

    #[test]
    fn errors_in_validation_plans_name_file_position_and_remedy() {
        let with = |from: &str, to: &str| parse(&PLAN.replace(from, to)).expect_err(to);
        let unknown = with("repetitions", "repetition");
        assert!(unknown.starts_with("cannot use plans/p.toml:3:1: unknown field"), "{unknown}");
        let number = with("= 3\n", "= 0\n");
        assert!(number.contains("p.toml:3:15: write a number from 1 to 1000"), "{number}");
        let twice = with("\"fast\"", "\"slow\"");
        assert!(twice.contains("two points are named \"slow\""), "{twice}");
        let other = with("\"held-out\"", "\"maybe\"");
        assert!(other.contains("p.toml:8:7: unknown variant `maybe`"), "{other}");
        let seen = PLAN.replace("set = { \"job.batch\" = 64, \"job.model.step\" = \"3 ms\" }", "");
        assert!(parse(&seen).expect_err("seen").contains("same configuration as \"slow\""));
        assert!(parse("scenario = \"s\"").expect_err("empty").contains("no points"));
        assert!(with("= 3\n", "= 3\nnoise_floor = nan\n").contains("as a share"));
        let step = with("use = \"held-out\"", "use = \"held-out\"\ncrossover = 1.0");
        assert!(step.contains("p.toml:9:13: `crossover` says how long a step takes"), "{step}");
        let much = with("use = \"fit\"", "use = \"fit\"\ncrossover = 1e9");
        assert!(much.contains("0.01 to 100"), "{much}");
    }
}
