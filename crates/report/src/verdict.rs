//! The verdict: what limits a job, found by lifting its limits one by one.

/// What holds the slowest job back, and how much faster it ran with each limit lifted.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Verdict {
    /// Name of the job.
    pub job: String,
    /// Whether the verdict is an estimate from the causes of waits alone, without lifting any limit.
    pub quick: bool,
    /// Speed of the job in the long run.
    pub long_run: Option<LongRun>,
    /// Limits that speed the job up when they are lifted, most helpful first.
    pub limits: Vec<Limit>,
    /// Names of resources that are on the path of the awaited data and used over 95 %. Their limits were not lifted, because
    /// the budget for short runs was exhausted.
    pub saturated: Vec<String>,
    /// Names of the limits that were lifted and did not help.
    pub without_effect: Vec<String>,
    /// Names of the limits that may help or not: the short runs varied too much to tell.
    pub uncertain: Vec<String>,
    /// Names of the limits that may help but were not lifted, because the budget for short runs was exhausted.
    pub not_tried: Vec<String>,
    /// Resources that would be too small if jobs never waited for input, the scarcest first. Empty beside background loads, if
    /// nodes fail, or if jobs begin after others: then the run does not show how much of them the job needs.
    pub needs: Vec<Need>,
    /// The same in the first epoch, when caches are empty, if later epochs find more in caches; `needs` then is about later epochs,
    /// and is empty if there are several jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_epoch_needs: Vec<Need>,
    /// Calendar events and flow completions of the short runs.
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
    /// Whether the run was long enough to show this speed. If not, steps used up what buffers held, and the speed is computed
    /// from the rate at which buffers are filled.
    pub reached: bool,
}

/// A limit of a job's speed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Limit {
    /// Name of the limit, in words.
    pub name: String,
    /// Identifier of what was lifted, for programs: `operations`, `nic`, `workers`, …; the identifiers of two limits that were
    /// lifted together are joined by `+`.
    pub lever: String,
    /// Name of the resource that sets the limit; the same name as in the report's list of resources, if it is listed there.
    pub resource: String,
    /// For each limit that was lifted, the index of the storage, job or faults that it belongs to.
    #[serde(skip)]
    pub at: Vec<usize>,
    /// Key of the scenario that sets the limit.
    pub key: String,
    /// Factor by which the limit was multiplied; `None` if it was lifted in another way, such as by leaving something out.
    pub factor: Option<f64>,
    /// Step time in the long run with the limit in place [s].
    pub before: f64,
    /// Time of a step with the limit lifted [s].
    pub after: f64,
    /// Confidence interval of `after` [s].
    pub after_interval: [f64; 2],
    /// Share of a step's time that lifting the limit saves.
    pub gain: f64,
    /// Confidence interval of `gain`.
    pub gain_interval: [f64; 2],
    /// What limits the job once this limit is lifted.
    pub next: Option<String>,
    /// Other jobs whose steps take a different time once this limit is lifted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherJob>,
}

/// Effect of lifting a limit of one job on another job.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct OtherJob {
    /// Name of the other job.
    pub job: String,
    /// Its step time in the long run with the limit in place [s].
    pub before: f64,
    /// Its step time with the limit lifted [s].
    pub after: f64,
    /// Share of its step time that lifting the limit saves; negative if its steps take longer.
    pub gain: f64,
    /// Confidence interval of `gain`.
    pub gain_interval: [f64; 2],
}

/// A resource that would be too small if the job never waited for input.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Need {
    /// Name of the limit, in words.
    pub name: String,
    /// Name of the resource in the report's list of resources.
    pub resource: String,
    /// Unit of `capacity` and `needed`.
    pub unit: String,
    /// Capacity of one resource now.
    pub capacity: f64,
    /// Minimum capacity of one resource with which the job never waits for input: the load of each sample now, times the samples
    /// per second that the trainers take when they do not wait. If jobs share the resource, the sum over all of them.
    pub needed: f64,
    /// Parts of the jobs that share the resource, the largest first; empty if the job does not share it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_job: Vec<JobNeed>,
}

/// Use of a shared resource by a job that never waits for input.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct JobNeed {
    /// Name of the job.
    pub job: String,
    /// Use of one resource, in the unit of the need.
    pub needed: f64,
}
