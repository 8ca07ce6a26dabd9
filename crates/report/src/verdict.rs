//! The verdict: what limits a job, found by changing its limits one by one.

use forebay_scenario::OverrideText;

/// What holds a job back, and how much faster it is with each limit changed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Verdict {
    /// Name of the job.
    pub job: String,
    /// Whether the verdict is an estimate from the causes of waits alone, without any trial.
    pub quick: bool,
    /// Speed of the job in the long run.
    pub long_run: Option<LongRun>,
    /// Step time with the times as they are written [s]; present only if constant times keep workers in step, so that the verdict
    /// rests on times that vary by 5 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_step: Option<f64>,
    /// Changes that make the job faster, most helpful first.
    pub limits: Vec<Limit>,
    /// Names of the limits whose change saves hardly any time.
    pub without_effect: Vec<String>,
    /// Names of the limits whose change may save time or not: the trials varied too much to tell.
    pub uncertain: Vec<String>,
    /// Names of the limits whose change may help, but was not tried, because the verdict had no events or no time left.
    pub not_tried: Vec<String>,
    /// Whether `--verdict-time` ended the trials: the same run may then give another verdict on another machine.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub time_ended: bool,
    /// What the job needs so that it does not wait for input: with all of these changes together it waits at most 2 % of the time. Empty
    /// if it does not wait, or if no amounts suffice.
    pub needs: Vec<Need>,
    /// Whether smaller amounts than `needs` may do, because the verdict had no events left to find the smallest.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_are_loose: bool,
    /// Whether the job waits for input even with 32 times of each amount that input may wait for.
    pub nothing_suffices: bool,
    /// Calendar events and flow completions of all simulations for the verdict.
    pub events: u64,
    /// The verdict in words.
    pub text: String,
}

/// Speed of a job in the long run, when its buffers neither fill nor drain.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LongRun {
    /// Time of a step [s].
    pub step_time: f64,
    /// Time that accelerators compute ÷ elapsed time.
    pub accelerator_utilisation: f64,
    /// Whether the run was long enough to show this speed.
    pub reached: bool,
}

/// A limit of a job's speed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Limit {
    /// Name of the limit, in words.
    pub name: String,
    /// Path of the changed key in the schema, in which `NAME` stands for a name of the user's: `storage.NAME.file-server.bandwidth`.
    pub lever: String,
    /// Name of the resource that sets the limit, as in the report's list of resources; the key if it is not listed there.
    pub resource: String,
    /// Key of the scenario that sets the limit.
    pub key: String,
    /// The changes that were tried, as `--set` and `--unset` take them.
    pub changes: Vec<OverrideText>,
    /// Factor by which the amount at the key was multiplied, before it was made one that the scenario accepts; `None` if something else
    /// was done with the key.
    pub factor: Option<f64>,
    /// Step time in the long run with the limit in place [s].
    pub before: f64,
    /// Step time in the long run with the changes [s].
    pub after: f64,
    /// Confidence interval of `after` [s].
    pub after_interval: [f64; 2],
    /// Share of a step's time that the changes save.
    pub gain: f64,
    /// Confidence interval of `gain`.
    pub gain_interval: [f64; 2],
    /// What limits the job once the changes are made.
    pub next: Option<String>,
    /// Number of draws of numbers that nobody measured in which it ranks above a limit that stands before it here, by the waits that
    /// each may shorten.
    #[serde(skip_serializing_if = "is_zero")]
    pub ranks_higher: usize,
    /// Other jobs whose steps take a different time with the changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherJob>,
    /// What else is to be known of the changes, in words: that they change training, rank higher in draws, or slow other jobs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub also: String,
}

/// Effect of a change on another job.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct OtherJob {
    /// Name of the other job.
    pub job: String,
    /// Its step time without the changes, over the steps that are compared [s].
    pub before: f64,
    /// Its step time with the changes [s].
    pub after: f64,
    /// Share of its step time that the changes save; negative if its steps take longer.
    pub gain: f64,
    /// Confidence interval of `gain`.
    pub gain_interval: [f64; 2],
}

/// An amount that a job needs so that it does not wait for input.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Need {
    /// Name of the limit, in words.
    pub name: String,
    /// Name of the resource in the report's list of resources; the key if it is not listed there.
    pub resource: String,
    /// Unit of `capacity` and `needed`; empty for numbers.
    pub unit: String,
    /// The amount now, as the scenario sets it.
    pub capacity: f64,
    /// The amount with which the job does not wait for input, together with all other needs.
    pub needed: f64,
    /// The changes that set the amount, as `--set` takes them.
    pub changes: Vec<OverrideText>,
}

/// A number from a data sheet that changes the answer if the hardware reaches less than it says.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct RestsOn {
    /// Name of the job.
    pub job: String,
    /// Key of the number that the step time depends on most.
    pub key: String,
    /// Its value, as the scenario has it; `None` if the file leaves it to its default.
    pub value: Option<String>,
    /// Name of the range of published results.
    pub range: String,
    /// Number of publications and threads that the range is made from.
    pub sources: usize,
    /// What 90 % of publications lie between: shares of the value, or amounts in its place [SI unit].
    pub reached90: [f64; 2],
    /// Number of draws. Each has one value for each nominal number.
    pub draws: usize,
    /// Step time with the nominal numbers over the steps of the draws, in the first replication [s].
    pub step_time: f64,
    /// Shortest and longest step time of the draws [s]: a 90 % range for the nominal numbers alone.
    pub step_time90: [f64; 2],
    /// What most of the job's time goes into with the nominal numbers: computing, or what is waited for last.
    pub limit: String,
    /// What limits the job in most draws, in the same way.
    pub limit_of_draws: String,
    /// Number of draws in which it does.
    pub draws_with_limit: usize,
    /// The command, or what else replaces the number by a measured one.
    pub measure: String,
    /// All of this in words.
    pub text: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
