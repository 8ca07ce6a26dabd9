//! Rows with named columns.

use super::PlotError;
use std::collections::HashSet;
use std::io::Read;

/// Most rows, and most bytes of a file with them, that are read: figures of more show no more.
const MOST_ROWS: usize = 1_000_000;
const MOST_BYTES: u64 = 1 << 30;

/// Rows with named columns; an empty cell is a missing value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of these columns; rows are cut or filled up to their number.
    pub fn new(columns: Vec<String>, rows: Vec<Vec<String>>) -> Table {
        let width = columns.len();
        let fit = |mut row: Vec<String>| {
            row.resize(width, String::new());
            row
        };
        Table { columns, rows: rows.into_iter().map(fit).collect() }
    }

    /// Reads CSV with a header.
    pub fn read(csv: impl Read) -> Result<Table, PlotError> {
        let fail = |error: csv::Error| PlotError::Table(error.to_string());
        let mut reader = csv::Reader::from_reader(csv.take(MOST_BYTES));
        let columns = reader.headers().map_err(fail)?.iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(fail)?;
            if rows.len() == MOST_ROWS {
                return Err(too_long(&format!("{MOST_ROWS} rows")));
            }
            rows.push(record.iter().map(text_of).collect());
        }
        if reader.get_ref().limit() == 0 {
            return Err(too_long("1 GiB"));
        }
        Ok(Table { columns, rows })
    }

    /// Names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Index of a column.
    pub(super) fn find(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| name == column)
    }

    /// A cell as text.
    pub(super) fn text(&self, row: usize, column: usize) -> &str {
        self.rows.get(row).and_then(|row| row.get(column)).map_or("", String::as_str)
    }

    /// Keeps the rows that `keep` wants.
    pub(super) fn retain(&mut self, keep: impl Fn(&Table, usize) -> bool) {
        let kept: Vec<bool> = (0..self.len()).map(|row| keep(self, row)).collect();
        let mut kept = kept.into_iter();
        self.rows.retain(|_| kept.next().unwrap_or(false));
    }

    /// A column's values, if all that are there are numbers or all quantities of one unit (`"2 ms"`,
    /// `"10 ms"`), and that unit.
    pub(super) fn numbers(&self, column: usize) -> Option<(Vec<Option<f64>>, &str)> {
        let mut common = None;
        let mut parse = |row: usize| {
            let text = self.text(row, column).trim();
            if text.is_empty() {
                return Some(None);
            }
            let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
            (*common.get_or_insert(unit) == unit).then(|| number.parse().ok().map(Some))?
        };
        let values = (0..self.len()).map(&mut parse).collect::<Option<Vec<Option<f64>>>>()?;
        Some((values, common.unwrap_or("")))
    }

    /// The different texts of a column, in order of appearance.
    pub(super) fn distinct(&self, column: usize) -> Vec<&str> {
        let mut seen = HashSet::new();
        (0..self.len())
            .map(|row| self.text(row, column))
            .filter(|text| seen.insert(*text))
            .collect()
    }
}

fn too_long(limit: &str) -> PlotError {
    let remedy = "leave rows or columns out, or sweep fewer points";
    PlotError::Table(format!("it has more than {limit}, which is the most that is drawn; {remedy}"))
}

/// A cell's text. Sweeps write an apostrophe before what a spreadsheet would take for a formula.
fn text_of(cell: &str) -> String {
    let formula = |text: &&str| text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    cell.strip_prefix('\'').filter(formula).unwrap_or(cell).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_rows_is_said_when_it_is_reached() {
        // System: rows without end. Expectation: reading stops at the limit and says it.
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
                let pairs = to.len() / 2;
                to[..2 * pairs].chunks_exact_mut(2).for_each(|pair| pair.copy_from_slice(b"1\n"));
                Ok(2 * pairs)
            }
        }
        let error = Table::read(Endless).map_or_else(|error| error.to_string(), |_| String::new());
        assert!(error.contains("more than 1000000 rows"), "{error}");
    }

    #[test]
    fn the_mark_of_text_is_not_part_of_it() {
        let table = Table::read("a\n'=b\n'c\n".as_bytes()).unwrap_or_default();
        assert_eq!((table.text(0, 0), table.text(1, 0)), ("=b", "'c"));
    }

    #[test]
    fn numbers_may_have_one_unit() {
        let text = "a,b,c,d\n1,2 ms,2 ms,x\n,10 ms,1 s,1\n";
        let table = Table::read(text.as_bytes()).unwrap_or_default();
        assert_eq!(table.numbers(0), Some((vec![Some(1.0), None], "")));
        assert_eq!(table.numbers(1), Some((vec![Some(2.0), Some(10.0)], "ms")));
        assert_eq!(table.numbers(2), None);
        assert_eq!(table.numbers(3), None);
    }
}
