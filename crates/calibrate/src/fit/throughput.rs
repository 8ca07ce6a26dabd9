//! Table of the measured throughput of reads, by size and number of readers.

use super::laws::cells;
use crate::measurement::Sample;
use forebay_scenario::profile::ThroughputTable;
use std::collections::BTreeMap;

/// Returns a table of the robust mean throughput by size and number of readers. The table has the numbers of readers of the
/// size that was measured with the most different numbers. Sizes that lack any of these numbers are left out, and so are
/// values outside the table's limits. Returns `None` if nothing is left.
pub(super) fn table(samples: &[&Sample]) -> Option<ThroughputTable> {
    let cells = cells(samples, &["size", "readers"], Sample::seconds_each);
    // Positive floats have the same order as their bits.
    let mut rows: BTreeMap<u64, BTreeMap<u64, f64>> = BTreeMap::new();
    for cell in cells.cells {
        let (size, readers, rate) = (cell.x[0], cell.x[1], cell.x[0] / cell.mean);
        if [size, readers, rate].iter().all(|value| ThroughputTable::MEASURABLE.contains(value)) {
            rows.entry(size.to_bits()).or_default().insert(readers.to_bits(), rate);
        }
    }
    let numbers: Vec<u64> = rows.values().max_by_key(|row| row.len())?.keys().copied().collect();
    rows.retain(|_, row| numbers.iter().all(|number| row.contains_key(number)));
    let of = |row: &BTreeMap<u64, f64>| numbers.iter().map(|number| row[number]).collect();
    Some(ThroughputTable {
        sizes: rows.keys().map(|size| f64::from_bits(*size)).collect(),
        readers: numbers.iter().map(|number| f64::from_bits(*number)).collect(),
        rates: rows.values().map(of).collect(),
    })
}
