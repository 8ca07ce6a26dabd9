//! Checks rows and turns them into samples.

use super::kind::Collective;
use super::{CollectiveDefaults, Imported, TableError};
use crate::measurement::Sample;
use std::collections::{BTreeMap, BTreeSet};

/// Limits for the ranks, bytes and seconds in a row.
const MOST_RANKS: u32 = 10_000_000;
const MOST_BYTES: f64 = 1e15;
const MOST_SECONDS: f64 = 1e6;

/// One row of a table.
#[derive(Debug, Clone, Default)]
pub(super) struct Row<'a> {
    /// Number of the line, from 1.
    pub(super) line: usize,
    /// Timed operation; `None` if the file does not name it.
    pub(super) collective: Option<Collective>,
    /// Number of ranks; `None` if the file does not contain it.
    pub(super) ranks: Option<u32>,
    /// Total size of the operation [B].
    pub(super) bytes: f64,
    /// Time of one operation [s].
    pub(super) seconds: f64,
    /// Number of operations; `None` if the file does not contain it.
    pub(super) operations: Option<u64>,
    /// Further labels: `algorithm`, `buffers`.
    pub(super) labels: &'a [(&'a str, &'a str)],
    /// Why the sample must not be used; `None` if it may be used.
    pub(super) excluded: Option<String>,
}

/// Collects the rows of a file as samples.
pub(super) struct Rows<'a> {
    pub(super) wanted: &'a CollectiveDefaults,
    samples: Vec<Sample>,
    left_out: BTreeSet<String>,
    notes: BTreeSet<String>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(wanted: &'a CollectiveDefaults) -> Rows<'a> {
        Rows { wanted, samples: Vec::new(), left_out: BTreeSet::new(), notes: BTreeSet::new() }
    }

    /// Records a description of something that is left out.
    pub(super) fn leave_out(&mut self, what: impl Into<String>) {
        self.left_out.insert(what.into());
    }

    /// Records how the file was understood, where that is not evident.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        self.notes.insert(what.into());
    }

    /// Returns the operation that a table times: the operation in the file (`said`), otherwise the operation that the user
    /// gave. Reports an error if file and user contradict each other, or if neither names an operation.
    pub(super) fn collective(
        &self,
        line: usize,
        said: Option<Collective>,
    ) -> Result<Collective, TableError> {
        match (said, self.wanted.collective) {
            (Some(said), Some(wanted)) if said != wanted => {
                let what = format!("the table is of `{}`, not of `{}`", said.name(), wanted.name());
                Err(TableError::at(line, what, "leave out --collective"))
            }
            (Some(one), _) | (None, Some(one)) => Ok(one),
            (None, None) => {
                let names: Vec<&str> = Collective::ALL.iter().map(|one| one.name()).collect();
                let remedy = format!("give --collective: {}", names.join(", "));
                Err(TableError::at(line, "no line before this row names the collective", remedy))
            }
        }
    }

    /// Returns the number of ranks: the number in the file (`said`), otherwise the number that the user gave, otherwise 2 for
    /// messages. Reports an error if file and user contradict each other, or if the number is missing or impossible.
    pub(super) fn ranks(
        &self,
        line: usize,
        of: Collective,
        said: Option<u32>,
    ) -> Result<u32, TableError> {
        let ranks = match (said, self.wanted.ranks) {
            (Some(said), Some(wanted)) if said != wanted => {
                let what = format!("the table is of {said} ranks, not of {wanted}");
                return Err(TableError::at(line, what, "leave out --ranks"));
            }
            (Some(ranks), _) | (None, Some(ranks)) => ranks,
            (None, None) if of == Collective::Message => 2,
            (None, None) => {
                let what = "no line before this row gives the number of ranks";
                return Err(TableError::at(line, what, "give --ranks"));
            }
        };
        if (1..=MOST_RANKS).contains(&ranks) {
            return Ok(ranks);
        }
        let what = format!("{ranks} is not a possible number of ranks");
        Err(TableError::at(line, what, format!("write 1 to {MOST_RANKS}")))
    }

    /// Adds a row of an MPI benchmark: its size is that of one rank's part where each rank has a part of its own.
    pub(super) fn add_mpi(&mut self, row: Row<'_>) -> Result<(), TableError> {
        let collective = self.collective(row.line, row.collective)?;
        let ranks = self.ranks(row.line, collective, row.ranks)?;
        let parts = if collective.per_rank() { f64::from(ranks) } else { 1.0 };
        self.add(Row { bytes: row.bytes * parts, ..row })
    }

    /// Adds a row. Leaves out collectives of zero bytes, rows with one rank, and rows whose time was rounded to zero.
    pub(super) fn add(&mut self, row: Row<'_>) -> Result<(), TableError> {
        let collective = self.collective(row.line, row.collective)?;
        let ranks = self.ranks(row.line, collective, row.ranks)?;
        for (name, value, most) in
            [("size", row.bytes, MOST_BYTES), ("time [s]", row.seconds, MOST_SECONDS)]
        {
            if !(0.0..=most).contains(&value) {
                let what = format!("the {name} {value:.3e} is not possible");
                return Err(TableError::at(row.line, what, "correct or remove the row"));
            }
        }
        if row.bytes == 0.0 && collective != Collective::Message {
            self.leave_out("rows of no bytes, which move nothing");
        } else if ranks < 2 {
            self.leave_out(
                "tables of one rank, which move nothing (several processes without MPI run alone)",
            );
        } else if row.seconds == 0.0 {
            self.leave_out("rows whose time was rounded to 0");
        } else {
            self.push(collective, ranks, row);
        }
        Ok(())
    }

    fn push(&mut self, collective: Collective, ranks: u32, row: Row<'_>) {
        let own =
            [("transport", self.wanted.transport.as_str()), ("collective", collective.name())];
        let labels = own.iter().chain(row.labels);
        let labels: BTreeMap<String, String> =
            labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let operations = row.operations.unwrap_or(1).max(1);
        self.samples.push(Sample {
            probe: "collective".to_owned(),
            labels,
            settings: BTreeMap::from([
                ("bytes".to_owned(), row.bytes),
                ("ranks".to_owned(), f64::from(ranks)),
            ]),
            trial: u32::try_from(self.samples.len()).unwrap_or(u32::MAX),
            operations,
            seconds: row.seconds * operations as f64,
            core_seconds: 0.0,
            observed: BTreeMap::new(),
            beside: None,
            excluded: row.excluded,
            at: 0.0,
        });
    }

    /// Returns the samples and the descriptions of what was left out; an error if there are no samples.
    pub(super) fn imported(self) -> Result<Imported, TableError> {
        let left_out: Vec<String> = self.left_out.into_iter().collect();
        if !self.samples.is_empty() {
            let excluded = self.samples.iter().filter(|sample| sample.excluded.is_some()).count();
            let mut notes: Vec<String> = self.notes.into_iter().collect();
            if excluded > 0 {
                notes.push(format!(
                    "{excluded} of {} samples are not used in fits: their results were wrong",
                    self.samples.len()
                ));
            }
            return Ok(Imported { samples: self.samples, left_out, notes });
        }
        let (what, remedy) = match left_out.is_empty() {
            true => (
                "the file has no rows that can be used".to_owned(),
                "check that the file is of this program, with its header lines",
            ),
            false => (
                format!("nothing can be imported: the file has only {}", left_out.join(" and ")),
                "give the output of a collective, or of a latency test between two ranks",
            ),
        };
        Err(TableError { line: None, what, remedy: remedy.to_owned() })
    }
}
