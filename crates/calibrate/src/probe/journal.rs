//! The file of samples, one line each. Every sample is written at once, so that a killed calibration loses
//! none.

use super::ProbeError;
use crate::measurement::Sample;
use forebay_model::input;
use forebay_model::input::shown;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time of this machine's wall clock [s since 1970, UTC].
#[must_use]
pub fn wall_clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The file of samples, and the samples in it.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Length of the complete lines of the file [B].
    length: u64,
    samples: Vec<Sample>,
}

impl Journal {
    /// Opens a file of samples, or makes it. A last line that was cut off is dropped.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or has a line that is no sample.
    pub fn open(path: &Path) -> Result<Journal, ProbeError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.map_err(ProbeError::results(path))?;
        let read = input::bytes(path, input::RECORDED);
        let bytes = read.map_err(|error| ProbeError::input(path, error))?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let samples = parse(path, &bytes[..whole])?;
        let length = whole as u64;
        let cut = file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length)));
        cut.map_err(ProbeError::results(path))?;
        Ok(Journal { path: path.to_owned(), file, length, samples })
    }

    /// Appends a sample to the file at once.
    ///
    /// # Errors
    ///
    /// The sample cannot be written; the lines before it stay complete.
    pub fn append(&mut self, sample: Sample) -> Result<(), ProbeError> {
        let mut line = line(&sample).map_err(ProbeError::results(&self.path))?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            // A part of a line would spoil the next line.
            let cut = self.file.set_len(self.length);
            cut.and_then(|()| self.file.seek(SeekFrom::Start(self.length)).map(|_| ())).ok();
            return Err(ProbeError::results(&self.path)(error));
        }
        self.length += line.len() as u64;
        self.samples.push(sample);
        Ok(())
    }

    /// Returns all samples, in the order in which they were taken.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Replaces all samples in the file; the new samples may differ from the old ones only in their marks
    /// of exclusion. A concurrent reader sees either the old file or the new one.
    ///
    /// # Errors
    ///
    /// The new file cannot be written; the old one stays.
    pub fn replace(&mut self, samples: Vec<Sample>) -> Result<(), ProbeError> {
        if samples == self.samples {
            return Ok(());
        }
        let unwritable = |error| ProbeError::results(&self.path)(error);
        let mut bytes = Vec::new();
        for sample in &samples {
            bytes.extend(line(sample).map_err(unwritable)?);
            bytes.push(b'\n');
        }
        let fresh = self.path.with_extension("jsonl.new");
        // A file that a killed calibration left there is removed. So is a link that somebody else made: it must
        // not be followed.
        fs::remove_file(&fresh).ok();
        let written = File::create_new(&fresh).and_then(|mut file| file.write_all(&bytes));
        let written = written.and_then(|()| fs::rename(&fresh, &self.path));
        if let Err(error) = written {
            fs::remove_file(&fresh).ok();
            return Err(unwritable(error));
        }
        *self = Journal::open(&self.path)?;
        Ok(())
    }
}

/// Formats a sample as a line, without the line break at its end.
fn line(sample: &Sample) -> std::io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(sample)?)
}

/// Parses the samples of complete lines.
fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Sample>, ProbeError> {
    let lines = bytes.split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    let parse = |(index, line): (usize, &[u8])| {
        serde_json::from_slice(line).map_err(|error| {
            ProbeError::Machine(format!(
                "{}: line {} is no sample: {error}; remove the line, or name another --output",
                shown(path),
                index + 1
            ))
        })
    };
    lines.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(trial: u32) -> Sample {
        Sample {
            probe: "read".into(),
            labels: [("access".to_owned(), "direct".to_owned())].into(),
            settings: [("size".to_owned(), 4096.0)].into(),
            trial,
            operations: 10,
            seconds: 0.1 / 3.0,
            core_seconds: 1e-9,
            observed: [].into(),
            beside: None,
            excluded: (trial == 0).then(|| "warm-up".to_owned()),
            at: 1.7e9,
        }
    }

    #[test]
    fn a_symbolic_link_at_the_temporary_file_name_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let [path, value] = ["samples.jsonl", "value"].map(|name| directory.path().join(name));
        fs::write(&value, "of value").unwrap();
        std::os::unix::fs::symlink(&value, path.with_extension("jsonl.new")).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        journal.append(sample(0)).unwrap();
        journal.replace(vec![sample(1)]).unwrap();
        assert_eq!(fs::read(&value).unwrap(), b"of value");
        assert_eq!(Journal::open(&path).unwrap().samples(), [sample(1)]);
    }

    #[test]
    fn an_incomplete_last_line_is_dropped_before_appending() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("samples.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        (0..3).for_each(|trial| journal.append(sample(trial)).unwrap());
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.samples(), [sample(0), sample(1)]);
        journal.append(sample(7)).unwrap();
        assert_eq!(Journal::open(&path).unwrap().samples(), [sample(0), sample(1), sample(7)]);
    }

    #[test]
    fn the_number_of_an_invalid_line_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("samples.jsonl");
        fs::write(&path, "\n{\"probe\": 3}\n").unwrap();
        let message = Journal::open(&path).unwrap_err().to_string();
        assert!(message.contains("samples.jsonl: line 2 is no sample"), "{message}");
    }

    #[test]
    fn replaced_samples_keep_their_exclusion_marks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("samples.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.append(sample(1)).unwrap();
        let marked = Sample { excluded: Some("a trend".into()), ..sample(1) };
        journal.replace(vec![marked.clone()]).unwrap();
        journal.append(sample(2)).unwrap();
        assert_eq!(Journal::open(&path).unwrap().samples(), [marked, sample(2)]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
