//! Counts the ranks of a table of nccl-tests from the lines that name their devices.

use super::TableError;
use super::row::Rows;
use std::collections::BTreeMap;

/// The ranks that were named before a table, by group and number. Groups run independently and alike.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    groups: BTreeMap<u32, BTreeMap<u32, String>>,
    /// A rank that two processes claim, and the line of the second.
    twice: Option<(u32, usize)>,
    /// Whether a row followed: the next line begins the list of another table.
    closed: bool,
}

impl Ranks {
    /// Reads a line `Rank 0 Group 0 Pid 11 on node1 device 0 …`, split into words; `Group` is missing in old versions.
    pub(super) fn read(&mut self, line: usize, words: &[&str]) {
        if self.closed {
            *self = Ranks::default();
        }
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
        let Some(rank) = number(1) else { return };
        let group = (words.get(2) == Some(&"Group")).then(|| number(3)).flatten().unwrap_or(0);
        let (ranks, process) = (self.groups.entry(group).or_default(), words[2..].join(" "));
        // A line that a log holds twice is one rank.
        if ranks.insert(rank, process.clone()).is_some_and(|before| before != process) {
            self.twice = self.twice.or(Some((rank, line)));
        }
    }

    /// Ends the list, at the first row of its table.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Returns whether rows have followed the list.
    pub(super) fn are_closed(&self) -> bool {
        self.closed
    }

    /// Returns the number of ranks; `None` if no line named any. Notes lines that are missing.
    ///
    /// # Errors
    /// If two processes claim the same rank: they ran alone.
    pub(super) fn number(&self, rows: &mut Rows<'_>) -> Result<Option<u32>, TableError> {
        if let Some((rank, line)) = self.twice {
            let what =
                format!("two processes are rank {rank}: they ran alone and exchanged nothing");
            let remedy = "build nccl-tests with MPI=1 and measure again, or import the output of each run alone";
            return Err(TableError::at(line, what, remedy));
        }
        let Some(first) = self.groups.values().next() else { return Ok(None) };
        let listed = u32::try_from(first.len()).unwrap_or(u32::MAX);
        let last = first.keys().next_back().map_or(0, |rank| rank.saturating_add(1));
        // Ranks of a group among several need not have neighbouring numbers.
        if self.groups.len() > 1 || last == listed {
            return Ok(Some(listed));
        }
        rows.note(format!(
            "the lines of {} of {last} ranks are missing; the number of ranks follows from the last",
            last - listed
        ));
        Ok(Some(last))
    }
}
