//! Times of messages and collectives as benchmarks print them: nccl-tests, OSU micro-benchmarks, Intel
//! MPI Benchmarks, DeepBench. Each row becomes a sample that `fit` reads.
//!
//! Columns are found by their headers. Lines of other programs between rows are passed over, and so is
//! what launchers put before every line; a row that was torn apart is refused.

mod deepbench;
mod imb;
mod kind;
mod nccl;
mod nccl_json;
mod osu;
mod row;
mod text;

pub use kind::Collective;

use crate::measurement::Sample;
use row::Rows;

/// Which program printed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// NVIDIA's nccl-tests: text, or JSON as `-J` writes it.
    NcclTests,
    /// OSU micro-benchmarks, version 3 to 7.
    Osu,
    /// Intel MPI Benchmarks, IMB-MPI1.
    Imb,
    /// Baidu's DeepBench: what its programs print, or a table of results as CSV.
    DeepBench,
}

/// What files do not say, or not always.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectiveDefaults {
    /// Name of the transport.
    pub transport: String,
    /// What was timed, where the file does not say.
    pub collective: Option<Collective>,
    /// Number of ranks, where the file does not say.
    pub ranks: Option<u32>,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    /// A sample for each row.
    pub samples: Vec<Sample>,
    /// What was passed over, in words.
    pub left_out: Vec<String>,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}; {remedy}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct TableError {
    /// Line, from 1; none where it is no matter of a line.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl TableError {
    fn at(line: usize, what: impl Into<String>, remedy: impl Into<String>) -> TableError {
        TableError { line: Some(line), what: what.into(), remedy: remedy.into() }
    }
}

/// The samples in the text of a file.
///
/// # Errors
/// If a row is damaged or says something else than what is wanted, if neither file nor `wanted` says what
/// was timed on how many ranks, or if there are no rows.
pub fn read(
    of: Benchmark,
    text: &str,
    wanted: &CollectiveDefaults,
) -> Result<Imported, TableError> {
    let mut rows = Rows::new(wanted);
    match of {
        Benchmark::NcclTests if text.trim_start().starts_with('{') => {
            nccl_json::read(text, &mut rows)?
        }
        Benchmark::NcclTests => nccl::read(text, &mut rows)?,
        Benchmark::Osu => osu::read(text, &mut rows)?,
        Benchmark::Imb => imb::read(text, &mut rows)?,
        Benchmark::DeepBench if deepbench::is_csv(text) => deepbench::read_csv(text, &mut rows)?,
        Benchmark::DeepBench => deepbench::read(text, &mut rows)?,
    }
    rows.imported()
}

#[cfg(test)]
mod nccl_tests;
#[cfg(test)]
mod tests;
