//! What a plan found: the JSON of `forebay plan`.

use super::keys;
use crate::metric::Unit;
use crate::plan::{Answer, Choice, Goal, OverDraws, Unknown, Wanted};
use crate::scenario::{Origins, Override, Value, printable_line};
use serde::{Deserialize, Serialize};

/// What a plan found.
#[derive(Serialize, Deserialize)]
pub(super) struct Planned {
    /// The answer to each row in sentences.
    #[serde(default)]
    pub(super) sentences: Vec<String>,
    pub(super) scenario: String,
    pub(super) seed: u64,
    /// Version of forebay.
    pub(super) version: String,
    /// The command that computed this.
    pub(super) command: String,
    pub(super) goals: Vec<ShownGoal>,
    /// Keys that are searched.
    pub(super) unknowns: Vec<ShownUnknown>,
    /// Figure by which options are chosen; `None` without options.
    pub(super) best: Option<ShownFigure>,
    pub(super) certainty: f64,
    pub(super) within: f64,
    /// Currency of costs; `None` without prices.
    pub(super) currency: Option<String>,
    pub(super) rows: Vec<Row>,
    /// Number of replications that were simulated.
    pub(super) simulated: usize,
    /// Keys that the scenario file and overrides set, and defaults of the others.
    #[serde(flatten, skip_deserializing)]
    pub(super) origins: Origins,
}

/// A key that is searched.
#[derive(Serialize, Deserialize)]
pub(super) struct ShownUnknown {
    /// The key, as the user wrote it.
    pub(super) key: String,
    /// `smallest` or `largest`.
    pub(super) wanted: String,
    /// Its value now; `None` if it has none.
    pub(super) now: Option<String>,
}

impl From<&Unknown> for ShownUnknown {
    fn from(of: &Unknown) -> ShownUnknown {
        let now = of.present.as_ref().map(Value::plain);
        ShownUnknown { key: of.key.clone(), wanted: of.word().to_owned(), now }
    }
}

/// A goal.
#[derive(Serialize, Deserialize)]
pub(super) struct ShownGoal {
    /// The goal, as the user wrote it.
    pub(super) goal: String,
    #[serde(flatten)]
    pub(super) figure: ShownFigure,
    /// Value that the figure is compared with.
    pub(super) limit: f64,
}

/// A figure that goals or choices are about.
#[derive(Serialize, Deserialize)]
pub(super) struct ShownFigure {
    /// Name, as the user wrote it.
    pub(super) figure: String,
    pub(super) unit: Unit,
    /// Name of the job, if the user wrote `of JOB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) job: Option<String>,
}

impl ShownFigure {
    /// Returns whether it is throughput or the cost of a month, which tables and figures of options always show.
    pub(super) fn is_usual(&self) -> bool {
        ["throughput", "cost per month", "cost_per_month"].contains(&self.figure.as_str())
    }

    /// Returns the name for a sentence: a job's name stands between backticks.
    pub(super) fn in_sentence(&self) -> String {
        match &self.job {
            Some(job) => {
                let quotes = ['"', '\'', ' '];
                let head = self.figure.trim_end_matches(quotes).trim_end_matches(job.as_str());
                format!("{} `{}`", head.trim_end_matches(quotes), printable_line(job))
            }
            None => printable_line(&self.figure),
        }
    }
}

impl From<&Goal> for ShownGoal {
    fn from(of: &Goal) -> ShownGoal {
        let figure = ShownFigure::from(&of.wanted);
        ShownGoal { goal: of.text.clone(), figure, limit: of.limit }
    }
}

impl From<&Wanted> for ShownFigure {
    fn from(of: &Wanted) -> ShownFigure {
        ShownFigure { figure: of.text.clone(), unit: of.unit(), job: of.job().map(str::to_owned) }
    }
}

/// The answer for one value of the keys of `--for` and, with unknown keys, for one option.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    /// Keys of `--for` with their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) at: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) option: Option<String>,
    /// The value that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<Answer>,
    /// The option that is best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) choice: Option<Choice>,
    /// How often each option is best over what publications reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) over_draws: Option<OverDraws>,
    /// What binds where no setting meets the goals, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) binds: Option<String>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
}

impl Planned {
    /// Returns the figure by which options are chosen, unless another column of their table shows it.
    pub(super) fn deciding_column(&self) -> Option<&ShownFigure> {
        let is_goal =
            |best: &ShownFigure| self.goals.iter().any(|goal| goal.figure.figure == best.figure);
        self.best.as_ref().filter(|best| !best.is_usual() && !is_goal(best))
    }

    /// Returns short names of the keys that are searched.
    pub(super) fn short_names(&self) -> Vec<&str> {
        let keys: Vec<&str> = self.unknowns.iter().map(|of| of.key.as_str()).collect();
        keys::short_names(&keys)
    }

    /// Returns why nothing could be tried, if nothing could.
    pub(super) fn all_failed(&self) -> Option<String> {
        let each = self.rows.iter().map(|row| match &row.choice {
            Some(choice) => {
                let all = choice.options.iter().map(|option| option.failed.clone());
                all.collect::<Option<Vec<String>>>()?.into_iter().next()
            }
            None => row.failed.clone(),
        });
        each.collect::<Option<Vec<String>>>()?.into_iter().next()
    }
}

impl Row {
    /// Returns its keys with their values.
    pub(super) fn keys(&self) -> String {
        let pairs = self.at.iter().map(|(key, value)| format!("{key} = {value}"));
        pairs.collect::<Vec<_>>().join(", ")
    }

    /// Returns its keys with their values, and its option.
    pub(super) fn named(&self) -> String {
        match (&self.option, self.at.is_empty()) {
            (None, _) => self.keys(),
            (Some(option), true) => option.clone(),
            (Some(option), false) => format!("{}, {option}", self.keys()),
        }
    }

    /// Returns whether something meets the goals.
    pub(super) fn is_met(&self) -> bool {
        let found = self.answer.as_ref().is_some_and(|answer| answer.found.is_some());
        found || self.choice.as_ref().is_some_and(|choice| choice.best.is_some())
    }

    /// Returns whether the plan was interrupted before all was decided.
    pub(super) fn is_stopped(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.is_stopped)
            || self.choice.as_ref().is_some_and(|choice| choice.is_stopped)
    }

    /// Returns the changes that make the answer; `None` if nothing meets the goals.
    pub(super) fn changes(&self) -> Option<&[Override]> {
        match (&self.answer, &self.choice) {
            (Some(answer), _) => answer.found.map(|_| &answer.changes[..]),
            (None, Some(choice)) => choice.best.map(|best| &choice.options[best].changes[..]),
            (None, None) => None,
        }
    }
}
