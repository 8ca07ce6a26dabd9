//! Imports times of messages and collectives from the output of benchmarks: nccl-tests, OSU micro-benchmarks, Intel MPI
//! Benchmarks, DeepBench. Each row becomes a sample for `fit`.
//!
//! Columns are found by their headers. Lines of other programs between rows are ignored, and so are labels that launchers put
//! before every line. A damaged row is an error.

mod deepbench;
mod imb;
mod kind;
mod nccl;
mod nccl_json;
mod osu;
mod ranks;
mod row;
mod text;

pub use kind::Collective;

use super::label;
use crate::measurement::Sample;
use row::Rows;

/// The program that printed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// NVIDIA's nccl-tests: text, or JSON as `-J` writes it.
    NcclTests,
    /// OSU micro-benchmarks, version 3 to 7.
    Osu,
    /// Intel MPI Benchmarks, IMB-MPI1.
    Imb,
    /// Baidu's DeepBench: the output of its programs, or a table of results as CSV.
    DeepBench,
}

/// Settings for files that do not contain them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectiveDefaults {
    /// Name of the transport.
    pub transport: String,
    /// Timed operation, if the file does not name it.
    pub collective: Option<Collective>,
    /// Number of ranks, if the file does not contain it.
    pub ranks: Option<u32>,
}

/// Result of an import.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    /// Samples, one for each row.
    pub samples: Vec<Sample>,
    /// Descriptions of what was left out.
    pub left_out: Vec<String>,
    /// How the file was understood, where that is not evident: what a column means, ranks without lines, excluded samples.
    pub notes: Vec<String>,
}

/// Why a file cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}; {remedy}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct TableError {
    /// Number of the line, from 1; `None` if the problem is not in one line.
    pub line: Option<usize>,
    /// The problem.
    pub what: String,
    /// How to fix it.
    pub remedy: String,
}

impl TableError {
    fn at(line: usize, what: impl Into<String>, remedy: impl Into<String>) -> TableError {
        TableError { line: Some(line), what: what.into(), remedy: remedy.into() }
    }
}

/// Returns the samples in the text of a file. `wanted` has settings that the file may lack.
///
/// # Errors
/// If a row is damaged or contradicts `wanted`, if neither the file nor `wanted` has the operation or the number of ranks, or if
/// there are no rows.
pub fn read(
    of: Benchmark,
    text: &str,
    wanted: &CollectiveDefaults,
) -> Result<Imported, TableError> {
    let mut rows = Rows::new(wanted);
    let text = &*label::unlabelled(text);
    tables(of, text, &mut rows).and_then(|()| rows.imported())
}

fn tables(of: Benchmark, text: &str, rows: &mut Rows<'_>) -> Result<(), TableError> {
    match of {
        Benchmark::NcclTests if text.trim_start().starts_with('{') => nccl_json::read(text, rows),
        Benchmark::NcclTests => nccl::read(text, rows),
        Benchmark::Osu => osu::read(text, rows),
        Benchmark::Imb => imb::read(text, rows),
        Benchmark::DeepBench if deepbench::is_csv(text) => deepbench::read_csv(text, rows),
        Benchmark::DeepBench => deepbench::read(text, rows),
    }
}

#[cfg(test)]
mod nccl_tests;
#[cfg(test)]
mod tests;
