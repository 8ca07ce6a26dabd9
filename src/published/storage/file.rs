//! Reads official results from files; the first problem is an error.

use super::{StorageResult, StorageResults, System};
use crate::published::PublishedError;
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    system: Vec<FileSystem>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSystem {
    round: String,
    submitter: String,
    name: String,
    #[serde(default)]
    about: String,
    read_bandwidth: Option<Spanned<f64>>,
    results: Spanned<Vec<Spanned<Row>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    workload: String,
    accelerator: String,
    ranks: u32,
    hosts: u32,
    cores: u32,
    workers: u32,
    batch: u32,
    step: f64,
    steps: u32,
    sample_size: f64,
    utilisation: f64,
    samples_per_second: f64,
    first_batch: Option<f64>,
    first_batch_later: Option<f64>,
    path: String,
}

/// Steps of an epoch at most.
const MOST_STEPS: u32 = 10_000_000;

impl StorageResults {
    /// Reads and checks the text of a file; messages call it `name`.
    ///
    /// # Errors
    /// If the text is no TOML of this form, or has a value that no measurement can have.
    pub fn parse(name: &str, text: &str) -> Result<StorageResults, PublishedError> {
        let line = |byte: usize| text.get(..byte).unwrap_or(text).matches('\n').count() + 1;
        let refuse = |byte: usize, what: String| PublishedError {
            file: name.to_owned(),
            line: line(byte),
            what,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let what = error.message().replace('\n', ", ");
            let at = error.span().map_or(0, |span| span.start);
            refuse(at, format!("cannot be used: {what}; correct this entry"))
        })?;
        let mut systems = Vec::new();
        for of in file.system {
            let at = of.results.span().start;
            if of.results.get_ref().is_empty() {
                return Err(refuse(at, "`results` is empty; write at least one result".to_owned()));
            }
            if let Some(rate) =
                of.read_bandwidth.as_ref().filter(|rate| !is_positive(*rate.get_ref()))
            {
                let what = "`read_bandwidth` must be above 0; write bytes per second";
                return Err(refuse(rate.span().start, what.to_owned()));
            }
            let mut results = Vec::new();
            for row in of.results.into_inner() {
                let at = row.span().start;
                let row = row.into_inner();
                row.check().map_err(|what| refuse(at, what))?;
                results.push(row.read(line(at)));
            }
            systems.push(System {
                round: of.round,
                submitter: of.submitter,
                name: of.name,
                about: of.about,
                read_bandwidth: of.read_bandwidth.map(Spanned::into_inner),
                results,
            });
        }
        Ok(StorageResults { systems })
    }
}

fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

impl Row {
    /// Returns what is wrong with the row, and what to write.
    fn check(&self) -> Result<(), String> {
        let whole = [
            ("ranks", self.ranks, 100_000),
            ("hosts", self.hosts, self.ranks),
            ("cores", self.cores, 100_000),
            ("workers", self.workers, 10_000),
            ("batch", self.batch, 1_000_000),
        ];
        for (key, value, most) in whole {
            if value == 0 || value > most {
                return Err(format!("`{key}` is {value}; write a number from 1 to {most}"));
            }
        }
        // Utilisation needs a step beside the first.
        if !(2..=MOST_STEPS).contains(&self.steps) {
            return Err(format!(
                "`steps` is {}; write a number from 2 to {MOST_STEPS}",
                self.steps
            ));
        }
        let measured = [
            ("step", self.step),
            ("sample_size", self.sample_size),
            ("utilisation", self.utilisation),
            ("samples_per_second", self.samples_per_second),
        ];
        for (key, value) in measured {
            if !is_positive(value) {
                return Err(format!("`{key}` is {value}; write a number above 0"));
            }
        }
        if self.utilisation > 1.0 {
            return Err(format!(
                "`utilisation` is {}; write a share from 0 to 1",
                self.utilisation
            ));
        }
        for (key, value) in
            [("first_batch", self.first_batch), ("first_batch_later", self.first_batch_later)]
        {
            if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
                return Err(format!(
                    "`{key}` must be a number of seconds from 0 on; correct it, or leave it out"
                ));
            }
        }
        Ok(())
    }

    fn read(self, line: usize) -> StorageResult {
        StorageResult {
            workload: self.workload,
            accelerator: self.accelerator,
            ranks: self.ranks,
            hosts: self.hosts,
            cores: self.cores,
            workers: self.workers,
            batch: self.batch,
            step: self.step,
            steps: self.steps,
            sample_size: self.sample_size,
            utilisation: self.utilisation,
            samples_per_second: self.samples_per_second,
            first_batch: self.first_batch,
            first_batch_later: self.first_batch_later,
            path: self.path,
            line,
        }
    }
}
