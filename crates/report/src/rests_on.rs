//! What an answer rests on: the nominal number that matters most, and the answers over what publications reached in its place.

/// The nominal number that an answer rests on.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct RestsOn {
    /// Name of the job.
    pub job: String,
    /// Key of the number that matters most.
    pub key: String,
    /// Its value, as the scenario has it; `None` if the file leaves it to its default.
    pub value: Option<String>,
    /// Name of the range of published results.
    pub range: String,
    /// Number of sources of the range.
    pub sources: usize,
    /// What 90 % of publications lie between: shares of the value, or amounts in its place [SI unit].
    pub reached90: [f64; 2],
    /// Number of draws. Each has one value for each nominal number.
    pub draws: usize,
    /// Step time with the nominal numbers over the steps of the draws, in the first replication [s].
    pub step_time: f64,
    /// Shortest and longest step time of the draws, between which lie 90 % of what publications would give [s].
    pub step_time90: [f64; 2],
    /// What most of the job's time goes into with the nominal numbers: computing, or what is waited for last.
    pub limit: String,
    /// What limits the job in most draws, in the same way.
    pub limit_of_draws: String,
    /// Number of draws in which it does.
    pub draws_with_limit: usize,
    /// How to measure the number.
    pub measure: String,
    /// All of this in words.
    pub text: String,
}
