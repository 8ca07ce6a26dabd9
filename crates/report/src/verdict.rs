//! The verdict: what binds a job, found by lifting it.

/// What holds the slowest job back, and what lifting it was seen to do.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Verdict {
    /// The job.
    pub job: String,
    /// Whether it is an estimate from the causes of waits alone: nothing was lifted.
    pub quick: bool,
    /// What the job does in the long run.
    pub long_run: Option<LongRun>,
    /// What helps when it is lifted, most helpful first.
    pub limits: Vec<Limit>,
    /// Resources that are used over 95 % on the way of what is waited for, and that were not lifted: the budget
    /// ended before.
    pub saturated: Vec<String>,
    /// Names of what was lifted and did not help.
    pub without_effect: Vec<String>,
    /// Names of what may help or not: the short runs varied too much to tell.
    pub uncertain: Vec<String>,
    /// Names of what may help and was not lifted: the budget ended before.
    pub not_tried: Vec<String>,
    /// Calendar events and flow completions of the short runs.
    pub events: u64,
    /// All of it in words.
    pub text: String,
}

/// What a job does in the long run, when what goes into its buffers equals what comes out.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LongRun {
    /// Time of a step [s].
    pub step_time: f64,
    /// Time that accelerators compute ÷ elapsed time.
    pub accelerator_utilisation: f64,
    /// Whether the run was long enough to show it. If not, steps used up what buffers held, and the rate is that
    /// at which they are filled.
    pub reached: bool,
}

/// Something that binds.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Limit {
    /// In words.
    pub name: String,
    /// What was lifted, as programs may compare it: `operations`, `nic`, `workers`, …; of two that bind together
    /// both, joined by `+`.
    pub lever: String,
    /// The resource, as the list of resources names it where it is one of them.
    pub resource: String,
    /// The key of the scenario that says how much of it there is.
    pub key: String,
    /// By how much it was multiplied; `None` where something was left out or turned on.
    pub factor: Option<f64>,
    /// Time of a step as it is, in the long run [s].
    pub before: f64,
    /// Time of a step with it lifted [s].
    pub after: f64,
    /// Interval of `after` [s].
    pub after_interval: [f64; 2],
    /// Share of a step's time that lifting it saves.
    pub gain: f64,
    /// Interval of `gain`.
    pub gain_interval: [f64; 2],
    /// What binds then.
    pub next: Option<String>,
}
