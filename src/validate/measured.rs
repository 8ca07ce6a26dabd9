//! Training jobs that ran outside forebay: rows with keys of the scenario and measured values.

use super::{Observed, Use};
use std::io::Read;

/// A training job that ran elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredRow {
    /// Name of the row, or its line in the file.
    pub name: String,
    /// Whether fits may use the row.
    pub used: Use,
    /// Keys of the scenario that describe the run, `key=value`.
    pub set: Vec<String>,
    /// Throughput [samples/s], if known.
    pub samples_per_second: Option<f64>,
    /// Mean step time [s], if known.
    pub step_time: Option<f64>,
    /// Share of time that the accelerators waited, if known.
    pub stall: Option<f64>,
}

/// Why the rows of measured jobs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// The file is not valid CSV.
    #[error("not a CSV file with a header: {0}")]
    Csv(#[from] csv::Error),
    /// The file has too many rows or bytes.
    #[error("the file has more than {0}; use a file with fewer rows")]
    TooMuch(String),
    /// There is neither a column for the throughput nor one for the step time.
    #[error(
        "the file has neither a column `samples_per_second` nor `step_time`; each row needs one of them beside \
         the scenario's keys"
    )]
    Nothing,
    /// A cell cannot be used.
    #[error("line {line}, column `{column}`: {what}")]
    Cell {
        /// Line of the file, from 1.
        line: u64,
        /// Name of the column.
        column: String,
        /// What is wrong and what to write.
        what: String,
    },
}

/// Columns that are no keys of a scenario. Other columns without a dot in their name are ignored.
const OWN: [&str; 6] = ["name", "use", "samples_per_second", "step_time", "stall", "steps"];

/// Maximum number of rows that are read: each is predicted by simulations.
const MOST_ROWS: usize = 100_000;
/// Maximum size of the keys and values of all rows together [B].
const MOST_BYTES: usize = 64 << 20;

/// Reads rows of CSV. Columns are keys of the scenario (`job.batch`), `samples_per_second` or `step_time` [s], and optionally
/// `name`, `use` (`check` or `fit`; empty means `check`) and `stall`.
///
/// # Errors
/// With line and column of the first cell that cannot be used.
pub fn read_measured(from: impl Read) -> Result<Vec<MeasuredRow>, MeasuredError> {
    let mut reader = csv::Reader::from_reader(from);
    let header = reader.headers()?.clone();
    if !header.iter().any(|name| name == "samples_per_second" || name == "step_time") {
        return Err(MeasuredError::Nothing);
    }
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for record in reader.records() {
        let record = record?;
        // Each row stores the keys of the header in addition to its own cells.
        bytes += header.as_slice().len() + record.as_slice().len();
        if rows.len() == MOST_ROWS {
            return Err(MeasuredError::TooMuch(format!("{MOST_ROWS} rows")));
        }
        if bytes > MOST_BYTES {
            let line = record.position().map_or(0, csv::Position::line);
            return Err(MeasuredError::TooMuch(format!(
                "64 MiB of keys and values up to line {line}"
            )));
        }
        rows.push(row(&header, &record)?);
    }
    Ok(rows)
}

fn row(
    header: &csv::StringRecord,
    record: &csv::StringRecord,
) -> Result<MeasuredRow, MeasuredError> {
    let line = record.position().map_or(0, csv::Position::line);
    let wrong =
        |column: &str, what: String| MeasuredError::Cell { line, column: column.to_owned(), what };
    let cell = |name: &str| {
        let at = header.iter().position(|column| column == name)?;
        record.get(at).map(str::trim).filter(|text| !text.is_empty())
    };
    let figure = |name: &str, most: f64| match cell(name).map(|text| (text, text.parse::<f64>())) {
        None => Ok(None),
        Some((_, Ok(value))) if (0.0..=most).contains(&value) && value.is_finite() => {
            Ok(Some(value))
        }
        Some((text, _)) => {
            let range = if most == 1.0 { "a share from 0 to 1" } else { "a number, not negative" };
            Err(wrong(name, format!("{text:?} is not {range}")))
        }
    };
    let used = match cell("use") {
        None | Some("check" | "held-out") => Use::HeldOut,
        Some("fit") => Use::Fit,
        Some(other) => {
            return Err(wrong("use", format!("{other:?} is neither \"check\" nor \"fit\"")));
        }
    };
    let rate = figure("samples_per_second", f64::INFINITY)?.filter(|&rate| rate > 0.0);
    let step_time = figure("step_time", f64::INFINITY)?.filter(|&time| time > 0.0);
    if rate.is_none() && step_time.is_none() {
        let what = "is empty or 0; write what was measured, or leave the row out".to_owned();
        return Err(wrong("samples_per_second", what));
    }
    Ok(MeasuredRow {
        name: cell("name").map_or_else(|| format!("line {line}"), str::to_owned),
        used,
        set: keys(header, record),
        samples_per_second: rate,
        step_time,
        stall: figure("stall", 1.0)?,
    })
}

/// Returns the keys of the scenario in a row, `key=value`.
fn keys(header: &csv::StringRecord, record: &csv::StringRecord) -> Vec<String> {
    let cells = header.iter().zip(record.iter());
    let keys = cells.filter(|(name, text)| name.contains('.') && !text.trim().is_empty());
    keys.filter(|(name, _)| !OWN.contains(name))
        .map(|(name, text)| format!("{name}={}", text.trim()))
        .collect()
}

impl MeasuredRow {
    /// Returns the row as figures of one run. `samples` is the number of samples that all jobs together train on in one step.
    #[must_use]
    pub fn observed(&self, samples: f64) -> Observed {
        let rate = self.samples_per_second.or_else(|| Some(samples / self.step_time?));
        let samples_per_second = rate.unwrap_or(f64::NAN);
        Observed {
            samples_per_second,
            step_time: self.step_time.unwrap_or(samples / samples_per_second),
            stall: self.stall.unwrap_or(f64::NAN),
            occupancy: f64::NAN,
            ..Observed::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<MeasuredRow>, String> {
        read_measured(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn measurement_rows_are_read_with_settings_and_measured_metrics() {
        let text = "name,use,job.batch,storage.a.local-disk.bandwidth,samples_per_second,stall,note\n\
                    a,fit,64,\"2 GB/s\",1000,0.5,x\n,,32,,250.5,,\n";
        let rows = read(text).expect("rows");
        assert_eq!(rows[0].set, ["job.batch=64", "storage.a.local-disk.bandwidth=2 GB/s"]);
        assert_eq!((rows[0].used, rows[0].stall), (Use::Fit, Some(0.5)));
        assert_eq!((rows[1].name.as_str(), rows[1].used), ("line 3", Use::HeldOut));
        assert_eq!(rows[1].set, ["job.batch=32"]);
        assert_eq!(rows[1].observed(32.0).samples_per_second, 250.5);
    }

    #[test]
    fn throughput_of_a_measurement_row_follows_from_step_time_and_batch() {
        let rows = read("job.batch,step_time\n64,0.5\n").expect("rows");
        assert_eq!(rows[0].observed(64.0).samples_per_second, 128.0);
    }

    #[test]
    fn too_many_rows_or_bytes_of_measurements_are_refused() {
        let rows = "step_time\n".to_owned() + &"1\n".repeat(MOST_ROWS + 1);
        assert!(read(&rows).expect_err("rows").contains("more than 100000 rows"));
        // A key of a megabyte counts in each row.
        let long = format!("step_time,a.{}\n{}", "b".repeat(1 << 20), "1,1\n".repeat(100));
        assert!(read(&long).expect_err("keys").contains("64 MiB of keys and values up to line 65"));
    }

    #[test]
    fn errors_in_measurement_files_name_line_and_column() {
        let wrong = |text| read(text).expect_err(text);
        assert!(wrong("job.batch\n64\n").contains("neither a column"));
        assert!(wrong("").contains("neither a column"));
        assert!(wrong("step_time\n-1\n").starts_with("line 2, column `step_time`: \"-1\" is not"));
        assert!(wrong("step_time\nnan\n").contains("\"nan\" is not a number"));
        assert!(wrong("step_time\n0\n").contains("is empty or 0"));
        assert!(wrong("step_time,use\n1,maybe\n").contains("neither \"check\" nor \"fit\""));
        assert!(wrong("step_time,stall\n1,1.5\n").contains("a share from 0 to 1"));
        assert!(wrong("a,step_time\n1\n").contains("not a CSV file"));
    }
}
