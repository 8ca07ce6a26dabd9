//! Training jobs that ran outside forebay: rows with keys of the scenario and measured values.

use super::{Observed, Use};
use std::io::Read;

/// A training job that ran elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredRow {
    /// Line of the file in which the row begins, from 1.
    pub line: u64,
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
    /// Time that the loop's thread needs for each batch besides its step although the batch is ready [s], if known: what PyTorch's
    /// `next()` costs.
    pub next_time: Option<f64>,
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
    /// There is a header and nothing else.
    #[error("the file has a header but no rows; write a row for each run that was measured")]
    NoRows,
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
const OWN: [&str; 7] =
    ["name", "use", "samples_per_second", "step_time", "stall", "steps", "next_time"];

/// Largest factor by which throughput × step time may differ from the samples of a step: means of both over the same steps agree
/// but for a last batch that is smaller.
const AGREE: f64 = 1.25;
/// Largest factor by which a prediction may be wrong if only another unit explains a value; units are 1,000 apart.
const PLAUSIBLE: f64 = 5.0;

/// Maximum number of rows that are read: each is predicted by simulations.
const MOST_ROWS: usize = 100_000;
/// Maximum size of the keys and values of all rows together [B].
const MOST_BYTES: usize = 64 << 20;

/// Reads rows of CSV. Columns are keys of the scenario (`job.batch`), `samples_per_second` or `step_time` [s], and optionally
/// `name`, `use` (`check` or `fit`; empty means `check`), `stall` and `next_time` [s].
///
/// # Errors
/// With line and column of the first cell that cannot be used.
pub fn read_measured(from: impl Read) -> Result<Vec<MeasuredRow>, MeasuredError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(from);
    let header = reader.headers()?.clone();
    once_each(&header)?;
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
    if rows.is_empty() {
        return Err(MeasuredError::NoRows);
    }
    Ok(rows)
}

/// Checks that no column comes twice.
fn once_each(header: &csv::StringRecord) -> Result<(), MeasuredError> {
    let names: Vec<&str> = header.iter().collect();
    for (at, name) in names.iter().enumerate() {
        if let Some(first) =
            names[..at].iter().position(|before| before == name && !name.is_empty())
        {
            let (first, second) = (first + 1, at + 1);
            let what = format!("is there twice, as columns {first} and {second}; keep one of them");
            return Err(MeasuredError::Cell { line: 1, column: (*name).to_owned(), what });
        }
    }
    Ok(())
}

/// Returns why a row's throughput and step time, which are both given, contradict each other; `samples` is the number of samples
/// that all jobs together train on in one step.
fn contradiction(row: &MeasuredRow, samples: f64) -> Option<String> {
    let (rate, step) = (row.samples_per_second?, row.step_time?);
    let off = rate * step / samples;
    if (1.0 / AGREE..=AGREE).contains(&off) {
        return None;
    }
    Some(match unit(off) {
        Some((name, _)) => format!(
            "{step} fits {rate} samples/s and {samples} samples a step only in {name}; write seconds"
        ),
        None => format!(
            "{step} s contradicts {rate} samples/s: a step of the scenario has {samples} samples, which take {:.4} s at that \
             rate; correct one of them, or the keys",
            samples / rate
        ),
    })
}

/// Returns the unit in which a time that is `off` times too long was written, and its number in a second; `None` if no unit
/// explains it.
fn unit(off: f64) -> Option<(&'static str, f64)> {
    let units = [("milliseconds", 1e3), ("microseconds", 1e6)];
    units.into_iter().find(|(_, scale)| (1.0 / PLAUSIBLE..=PLAUSIBLE).contains(&(off / scale)))
}

impl MeasuredRow {
    /// Checks that no two columns set the same key: with one job, whose name is `job`, `job.batch` and `job.NAME.batch` are one.
    ///
    /// # Errors
    /// With the second of the two columns.
    pub fn check_keys(&self, job: &str) -> Result<(), MeasuredError> {
        let names: Vec<&str> =
            self.set.iter().filter_map(|set| Some(set.split_once('=')?.0)).collect();
        let unnamed =
            |name: &str| match name.strip_prefix("job.").and_then(|rest| rest.strip_prefix(job)) {
                Some(rest) if rest.starts_with('.') => format!("job{rest}"),
                _ => name.to_owned(),
            };
        for (at, name) in names.iter().enumerate() {
            if let Some(first) = names[..at].iter().find(|before| unnamed(before) == unnamed(name))
            {
                let what = format!("sets the same key as the column `{first}`; keep one of them");
                let column = (*name).to_owned();
                return Err(MeasuredError::Cell { line: self.line, column, what });
            }
        }
        Ok(())
    }

    /// Checks a row against the scenario with its keys: throughput and step time agree, and are in samples per second and seconds.
    /// `samples` is the number of samples that all jobs together train on in one step, `predicted` the predicted time of a step
    /// [s]; both as simulated.
    ///
    /// # Errors
    /// If a value contradicts another, or fits the prediction only in another unit.
    pub fn check(&self, samples: f64, predicted: f64) -> Result<(), MeasuredError> {
        let refuse = |column: &str, what| {
            Err(MeasuredError::Cell { line: self.line, column: column.to_owned(), what })
        };
        if let Some(what) = contradiction(self, samples) {
            return refuse("step_time", what);
        }
        if predicted.is_nan() || predicted <= 0.0 {
            return Ok(());
        }
        let seconds = self.step_time.or_else(|| Some(samples / self.samples_per_second?));
        let off = seconds.map_or(1.0, |seconds| seconds / predicted);
        match (unit(off), unit(1.0 / off), self.step_time) {
            (Some((name, _)), _, Some(time)) => refuse(
                "step_time",
                format!("{time} fits the predicted {predicted:.4} s only in {name}; write seconds"),
            ),
            (Some((_, scale)), _, None) | (_, Some((_, scale)), None) => {
                let (rate, expected) =
                    (self.samples_per_second.unwrap_or(0.0), samples / predicted);
                let factor = if off > 1.0 { 1.0 / scale } else { scale };
                let what = format!(
                    "{rate} is about {factor} times the predicted {expected:.4} samples/s; write samples per second"
                );
                refuse("samples_per_second", what)
            }
            _ => Ok(()),
        }
    }
}

fn row(
    header: &csv::StringRecord,
    record: &csv::StringRecord,
) -> Result<MeasuredRow, MeasuredError> {
    let line = record.position().map_or(0, csv::Position::line);
    let figures = ["samples_per_second", "step_time", "stall", "steps"];
    if let Some(column) = header.iter().zip(record).find(|(_, cell)| figures.contains(&cell.trim()))
    {
        let what = "the line is another header; remove it, and see that the columns of its rows are in the same order".to_owned();
        return Err(MeasuredError::Cell { line, column: column.0.to_owned(), what });
    }
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
            let range = match most == 1.0 {
                true => "a share from 0 to 1; write 0.25 for 25 %",
                false => "a number from 0 on",
            };
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
    if rate.is_none() && step_time.is_none() && used == Use::Fit {
        let what = "is empty or 0; write what was measured, or leave `use` empty for a prediction"
            .to_owned();
        return Err(wrong("samples_per_second", what));
    }
    // Rows of other commands say how many steps they are of; the number judges nothing, but a wrong one is a wrong row.
    figure("steps", f64::INFINITY)?;
    let next_time = figure("next_time", f64::INFINITY)?;
    if let (Some(next), Some(step)) = (next_time, step_time)
        && next > step
    {
        let what = format!("{next} s is more than the whole step of {step} s; write seconds");
        return Err(wrong("next_time", what));
    }
    Ok(MeasuredRow {
        line,
        name: cell("name").map_or_else(|| format!("line {line}"), str::to_owned),
        used,
        set: keys(header, record),
        samples_per_second: rate,
        step_time,
        stall: figure("stall", 1.0)?,
        next_time,
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
    /// Returns whether the row has a measurement; others are predicted only.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.samples_per_second.is_some() || self.step_time.is_some()
    }

    /// Returns the row as figures of one run. `samples` is the number of samples that all jobs together train on in one step.
    #[must_use]
    pub fn observed(&self, samples: f64) -> Observed {
        let rate = self.samples_per_second.or_else(|| Some(samples / self.step_time?));
        let samples_per_second = rate.unwrap_or(f64::NAN);
        let step_time = self.step_time.unwrap_or(samples / samples_per_second);
        // A loop that is in `next()` works there for a part of the time.
        let works = self.next_time.unwrap_or(0.0) / step_time;
        Observed {
            samples_per_second,
            step_time,
            stall: self.stall.map_or(f64::NAN, |stall| (stall - works).max(0.0)),
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
    fn time_in_next_is_no_wait_and_less_than_a_step() {
        let rows = read("step_time,stall,next_time\n0.1,0.5,0.02\n0.1,0.1,0.02\n").expect("rows");
        assert_eq!(rows[0].next_time, Some(0.02));
        let stalls = [0, 1].map(|row| rows[row].observed(64.0).stall);
        assert!((stalls[0] - 0.3).abs() < 1e-12 && stalls[1] == 0.0, "{stalls:?}");
        let error = read("step_time,next_time\n0.1,20\n").expect_err("milliseconds");
        assert!(error.starts_with("line 2, column `next_time`: 20 s is more"), "{error}");
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
    fn repeated_columns_and_headers_are_refused_with_line_and_column() {
        let wrong = |text| read(text).expect_err(text);
        let twice = wrong("job.batch,step_time,job.batch\n64,0.1,32\n");
        assert!(
            twice.starts_with("line 1, column `job.batch`: is there twice, as columns 1 and 3")
        );
        assert!(wrong("step_time,step_time\n1,1\n").starts_with("line 1, column `step_time`"));
        for repeated in [
            "name,step_time,stall\na,1,0\nname,step_time,stall\nb,1,0\n",
            "name,step_time,stall\na,1,0\nname,stall,step_time\nb,0,1\n",
        ] {
            let error = wrong(repeated);
            assert!(
                error.starts_with("line 3, column `") && error.contains("another header"),
                "{error}"
            );
        }
        // Spaces around names change nothing.
        let rows = read("samples_per_second, use, stall\n1000,fit,0.5\n").expect("rows");
        assert_eq!((rows[0].used, rows[0].stall), (Use::Fit, Some(0.5)));
        assert!(wrong("step_time\n").contains("a header but no rows"));
        assert!(wrong("step_time,stall\n1,35\n").contains("write 0.25 for 25 %"));
    }

    #[test]
    fn values_that_contradict_each_other_or_fit_only_in_other_units_are_refused() {
        let check = |text: &str, predicted: f64| {
            let rows = read(text).expect("rows");
            rows[0].check(64.0, predicted).map_err(|error| error.to_string())
        };
        // 64 samples a step: 640/s is a step of 0.1 s.
        let both = |rate: &str, step: &str| {
            check(&format!("samples_per_second,step_time\n{rate},{step}\n"), 0.0)
        };
        assert_eq!(
            (both("640", "0.1"), both("640", "0.11"), both("640", "")),
            (Ok(()), Ok(()), Ok(()))
        );
        let error = both("640", "100").expect_err("ms");
        assert!(
            error.contains("line 2, column `step_time`") && error.contains("only in milliseconds"),
            "{error}"
        );
        let error = both("640", "0.2").expect_err("contradiction");
        assert!(
            error.contains("contradicts 640 samples/s") && error.contains("0.1000 s"),
            "{error}"
        );
        let step = |step: &str, predicted| check(&format!("step_time\n{step}\n"), predicted);
        assert_eq!(
            (step("0.1", 0.1), step("5", 0.1), step("0.001", 0.1)),
            (Ok(()), Ok(()), Ok(()))
        );
        for (time, words) in
            [("100", "milliseconds"), ("350", "milliseconds"), ("1e5", "microseconds")]
        {
            let error = step(time, 0.1).expect_err(time);
            assert!(
                error.contains("line 2, column `step_time`") && error.contains(words),
                "{error}"
            );
        }
        let rate = |rate: &str| check(&format!("samples_per_second\n{rate}\n"), 0.1);
        assert_eq!((rate("640"), rate("20")), (Ok(()), Ok(())));
        // In thousands of samples, and per millisecond.
        let error = rate("0.64").expect_err("thousands");
        assert!(
            error.contains("column `samples_per_second`") && error.contains("about 0.001 times"),
            "{error}"
        );
        assert!(rate("640000").expect_err("per 1000 s").contains("about 1000 times"));
    }

    #[test]
    fn errors_in_measurement_files_name_line_and_column() {
        let wrong = |text| read(text).expect_err(text);
        assert!(wrong("job.batch\n64\n").contains("neither a column"));
        assert!(wrong("").contains("neither a column"));
        assert!(wrong("step_time\n-1\n").starts_with("line 2, column `step_time`: \"-1\" is not"));
        assert!(
            wrong("steps,step_time\n-5,1\n")
                .contains("column `steps`: \"-5\" is not a number from 0 on")
        );
        assert!(wrong("step_time\nnan\n").contains("\"nan\" is not a number"));
        assert!(wrong("use,step_time\nfit,0\n").contains("is empty or 0"));
        assert!(wrong("step_time,use\n1,maybe\n").contains("neither \"check\" nor \"fit\""));
        assert!(wrong("step_time,stall\n1,1.5\n").contains("a share from 0 to 1"));
        assert!(wrong("a,step_time\n1\n").contains("not a CSV file"));
    }
}
