//! Tables: rows with named columns.

use super::PlotError;
use std::collections::HashSet;
use std::io::Read;
use std::rc::Rc;

/// Maximum number of rows read from CSV; a figure could not show more rows distinctly.
const MOST_ROWS: usize = 1_000_000;
/// Limit for the memory of all cells of a table [B].
const MOST_BYTES: usize = 256 << 20;

/// Rows with named columns; an empty cell is a missing value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    columns: Vec<String>,
    cells: Rc<Cells>,
    /// Indices of this table's rows in `cells`, which several tables may share.
    rows: Vec<u32>,
}

/// Cells of a table: their texts, concatenated, and the end of each cell within this text [B].
#[derive(Debug, PartialEq, Default)]
struct Cells {
    text: String,
    ends: Vec<u32>,
}

impl Cells {
    /// Adds a cell; `None` if there is not enough memory for it.
    fn push(&mut self, cell: &str) -> Option<()> {
        if self.text.len() + cell.len() + 4 * (self.ends.len() + 1) > MOST_BYTES {
            return None;
        }
        self.text.try_reserve(cell.len()).ok()?;
        self.ends.try_reserve(1).ok()?;
        self.text.push_str(cell);
        self.ends.push(u32::try_from(self.text.len()).ok()?);
        Some(())
    }

    fn get(&self, index: usize) -> Option<&str> {
        let begin = index.checked_sub(1).map_or(Some(0), |last| self.ends.get(last).copied())?;
        self.text.get(begin as usize..*self.ends.get(index)? as usize)
    }
}

impl Table {
    /// Returns a table with these columns. Longer rows are cut, and shorter ones filled with empty cells.
    pub fn new(
        columns: Vec<String>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Result<Table, PlotError> {
        let (mut cells, mut count) = (Cells::default(), 0);
        for row in rows {
            let row = row.iter().map(String::as_str).chain(std::iter::repeat(""));
            let kept = row.take(columns.len()).try_for_each(|cell| cells.push(cell));
            kept.ok_or_else(|| too_long("fits into 256 MiB of memory"))?;
            count += 1;
        }
        Ok(Table { columns, cells: Rc::new(cells), rows: (0..count).collect() })
    }

    /// Reads CSV with a header.
    pub fn read(csv: impl Read) -> Result<Table, PlotError> {
        let fail = |error: csv::Error| PlotError::Table(error.to_string());
        let mut reader = csv::Reader::from_reader(csv);
        let columns = reader.headers().map_err(fail)?.iter().map(str::to_owned).collect();
        let (mut cells, mut rows, mut record) = (Cells::default(), 0, csv::StringRecord::new());
        while reader.read_record(&mut record).map_err(fail)? {
            if rows == MOST_ROWS {
                return Err(too_long(&format!("{MOST_ROWS} rows")));
            }
            let kept = record.iter().try_for_each(|cell| cells.push(text_of(cell)));
            kept.ok_or_else(|| {
                let line = record.position().map_or(0, csv::Position::line);
                too_long(&format!("fits into 256 MiB of memory, up to line {line}"))
            })?;
            rows += 1;
        }
        let rows = (0..).take(rows).collect();
        Ok(Table { columns, cells: Rc::new(cells), rows })
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the index of a column; `None` if there is no such column.
    pub(super) fn find(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| name == column)
    }

    /// Returns a cell as text.
    #[must_use]
    pub fn text(&self, row: usize, column: usize) -> &str {
        let place = |row: &u32| (*row as usize) * self.columns.len() + column;
        let row = self.rows.get(row).filter(|_| column < self.columns.len());
        row.and_then(|row| self.cells.get(place(row))).unwrap_or_default()
    }

    /// Removes the rows for which `keep` returns false.
    pub(super) fn retain(&mut self, keep: impl Fn(&Table, usize) -> bool) {
        let kept: Vec<bool> = (0..self.len()).map(|row| keep(self, row)).collect();
        let mut kept = kept.into_iter();
        self.rows.retain(|_| kept.next().unwrap_or(false));
    }

    /// Returns a column's values and their unit, if all non-empty cells are numbers, or all are quantities with the same unit
    /// (`"2 ms"`, `"10 ms"`). Otherwise returns `None`.
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

    /// Returns the distinct texts of a column, in order of appearance.
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
    PlotError::Table(format!(
        "the file has more than {limit}, which is the most that is drawn; {remedy}"
    ))
}

/// Returns a cell's text, without the apostrophe that sweeps write before text that a spreadsheet would take for a formula.
fn text_of(cell: &str) -> &str {
    let formula = |text: &&str| text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    cell.strip_prefix('\'').filter(formula).unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_rows_is_reported_when_it_is_reached() {
        // System: endless rows. Expectation: reading stops at the limit and reports it.
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
    fn cells_that_take_too_much_memory_are_refused() {
        // System: endless rows of a thousand empty cells. Expectation: reading stops before the limit for rows.
        struct Endless(usize);
        impl Read for Endless {
            fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
                for byte in &mut *to {
                    self.0 += 1;
                    *byte = if self.0.is_multiple_of(1000) { b'\n' } else { b',' };
                }
                Ok(to.len())
            }
        }
        let error =
            Table::read(Endless(0)).map_or_else(|error| error.to_string(), |_| String::new());
        assert!(error.contains("more than fits into 256 MiB of memory, up to line 67"), "{error}");
    }

    #[test]
    fn removing_rows_leaves_the_other_rows_unchanged() {
        let mut table = Table::read("a,b\n1,x\n2,\n3,z\n".as_bytes()).unwrap_or_default();
        let whole = table.clone();
        table.retain(|table, row| table.text(row, 0) != "2");
        assert_eq!((table.len(), whole.len()), (2, 3));
        assert_eq!((table.text(1, 0), table.text(1, 1), whole.text(1, 1)), ("3", "z", ""));
        assert_eq!((table.text(2, 0), table.text(0, 2)), ("", ""));
    }

    #[test]
    fn the_apostrophe_that_guards_csv_formulas_is_removed_on_reading() {
        let table = Table::read("a\n'=b\n'c\n".as_bytes()).unwrap_or_default();
        assert_eq!((table.text(0, 0), table.text(1, 0)), ("=b", "'c"));
    }

    #[test]
    fn a_column_is_numeric_if_all_cells_are_numbers_with_one_common_unit() {
        let text = "a,b,c,d\n1,2 ms,2 ms,x\n,10 ms,1 s,1\n";
        let table = Table::read(text.as_bytes()).unwrap_or_default();
        assert_eq!(table.numbers(0), Some((vec![Some(1.0), None], "")));
        assert_eq!(table.numbers(1), Some((vec![Some(2.0), Some(10.0)], "ms")));
        assert_eq!(table.numbers(2), None);
        assert_eq!(table.numbers(3), None);
    }
}
