//! Measured throughput of reads by size and number of readers, to which no law has to be fitted.

use super::Profile;
use super::check::Log;
use super::write::{key, list};
use serde::{Deserialize, Serialize};

/// Maximum number of request sizes in a table, and maximum number of reader counts.
const MOST: usize = 1000;
/// Total throughput of readers in closed loops: each reader reads one request after the other.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThroughputTable {
    /// Sizes of requests, ascending [B].
    pub sizes: Vec<f64>,
    /// Numbers of readers, ascending.
    pub readers: Vec<f64>,
    /// Throughputs of all readers together [B/s]: a row for each size, with a value for each number of readers.
    pub rates: Vec<Vec<f64>>,
}

impl Profile {
    /// Returns the throughput table of reads by `access` (such as `direct`) with the given layout (`file-per-sample`,
    /// `records`). If layouts were not measured separately, returns the table of the access.
    #[must_use]
    pub fn throughput_of(&self, access: &str, layout: &str) -> Option<&ThroughputTable> {
        super::named(&self.throughput, access, layout).map(|(_, table)| table)
    }
}

impl ThroughputTable {
    /// Valid range of the sizes [B], numbers of readers and throughputs [B/s] of a table.
    pub const MEASURABLE: std::ops::RangeInclusive<f64> = 1e-3..=1e18;

    pub(super) fn check(&self, path: &str, log: &mut Log) {
        let remedy = format!("give 1 to {MOST} numbers above 0, each larger than the one before");
        for (name, values) in [("sizes", &self.sizes), ("readers", &self.readers)] {
            let ascend = values.windows(2).all(|pair| pair[0] < pair[1]);
            let measured = values.iter().all(|value| Self::MEASURABLE.contains(value));
            if !(1..=MOST).contains(&values.len()) || !ascend || !measured {
                log.add(&format!("{path}.{name}"), "is not an ascending list of numbers", &remedy);
            }
        }
        let (rows, columns) = (self.sizes.len(), self.readers.len());
        let whole = self.rates.len() == rows && self.rates.iter().all(|row| row.len() == columns);
        if !whole || !self.rates.iter().flatten().all(|rate| Self::MEASURABLE.contains(rate)) {
            let remedy = format!("give {rows} rows of {columns} throughputs above 0 [B/s]");
            log.add(
                &format!("{path}.rates"),
                "does not have one throughput for each size and number of readers",
                remedy,
            );
        }
    }

    pub(super) fn write(&self, text: &mut String, name: &str) {
        *text += &format!("\n[throughput.{}]\n", key(name));
        *text += &format!("sizes = {}\nreaders = {}\n", list(&self.sizes), list(&self.readers));
        *text += "rates = [\n";
        self.rates.iter().for_each(|row| *text += &format!("  {},\n", list(row)));
        *text += "]\n";
    }
}
