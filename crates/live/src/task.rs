//! What a live run is asked for, what it tells on the way, and what a job copy of it measures.

use super::data::Location;
use forebay_report::{JobOutcome, Trace};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Settings of a run.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// Directory for working files.
    pub directory: &'a Path,
    /// Path of the user's data set; `None` to generate data sets.
    pub data: Option<&'a Path>,
    /// Whether the user named `directory` or `data`; the named path may be a mount of a file server.
    pub named: bool,
    /// Whether to record a timeline of the first replication.
    pub trace: bool,
    /// Path of this program.
    pub executable: &'a Path,
    /// Ends the run early when it becomes true.
    pub stop: &'a AtomicBool,
}

/// Progress of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A note for the user.
    Note(String),
    /// Bytes generated so far, and bytes to generate [B].
    Generated(u64, u64),
    /// Replications finished so far, and replications to run.
    Finished(u32, u32),
}

/// A job copy to run, with its settings.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct CopyTask {
    /// Index of the job in the scenario.
    pub job: usize,
    /// Number of the copy within the job.
    pub copy: u32,
    /// Number of the job copy among all job copies of the scenario.
    pub owner: u64,
    /// Number of the replication.
    pub replication: u32,
    /// Location of the job's data set; `None` if it is in memory.
    pub location: Option<Location>,
    /// Path of the shared state of the storage's limits; `None` if no other job copy shares that state.
    pub books: Option<PathBuf>,
    /// Whether to record a timeline.
    pub trace: bool,
}

/// Measurements of a job copy.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct CopyOutcome {
    /// Steps, stalls and queue.
    pub job: JobOutcome,
    /// Timeline; `None` if it was not requested.
    pub trace: Option<Trace>,
    /// CPU time that the threads of the job copy used [core·s].
    pub cpu: f64,
    /// Bytes read by the job copy.
    pub bytes: u64,
    /// Time that workers spent reading [worker·s].
    pub reading: f64,
    /// Time that requests may take by the limits of the storage; 0 if it has none [s].
    pub allowed: f64,
    /// Time by which reads on this machine exceeded `allowed` [s].
    pub exceeded: f64,
}
