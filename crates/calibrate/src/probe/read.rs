//! The probe `read`: times reads of real files by threads that each read one request after the other. They call
//! `pread` on files opened as a loader opens them.

mod count;
mod data;
mod files;
mod reader;

pub use count::Window;
pub use data::no_file;
pub use files::{DataFile, Set, Unit};
pub(super) use files::{records, write};
pub use reader::{Access, Buffer, Reads, drop_from_cache, open_data, read_units};
pub(super) use reader::{drop_units, impossible, open};

use super::{Bytes, Cell, Context, Count, List, Probe, ProbeError, Seconds, Trial};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// The table `[read]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadSettings {
    /// How reads use the page cache: `direct`, `cold`, `warm`.
    pub access: List<Access>,
    /// Layouts of samples in files: `file-per-sample`, `records`.
    pub layout: List<Layout>,
    /// Sizes of a read request.
    pub size: List<Bytes>,
    /// Numbers of threads that read at the same time.
    pub readers: List<Count>,
    /// Largest size of all generated files together.
    pub disk: Bytes,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

/// Largest size of the data for warm reads [B]: more than the caches of a core, and little enough to be read
/// into the page cache before each trial within a fraction of a second.
const WARM: u64 = 64 << 20;

/// A layout of samples in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Each sample is a file of its own: a request opens a file and reads it whole.
    FilePerSample,
    /// Samples lie one after the other in large files, each at a multiple of 4 KiB: a request reads one sample.
    Records,
}

impl Layout {
    /// Returns the name in samples.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Layout::FilePerSample => "file-per-sample",
            Layout::Records => "records",
        }
    }
}

impl ReadSettings {
    /// Returns the disk space for the files of each layout [B].
    fn share(&self) -> u64 {
        self.disk.0 / self.layout.0.len() as u64
    }

    /// Returns the disk space for the files of one request size, in the layout with a file per sample [B].
    fn share_of_size(&self) -> u64 {
        self.share() / self.size.0.len() as u64
    }

    /// Returns why the disk space is too small for the other settings, with a remedy; `None` if it is enough.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let (largest, readers) = (self.size.iter().max()?.0, self.readers.iter().max()?.0);
        // Three quarters of the files are for cold reads, each for one read only. Each reader needs two of
        // them.
        let files = (3 * readers).max(4) as u64;
        let sets = (self.size.0.len() * self.layout.0.len()) as u64;
        let needed = files.saturating_mul(sets).saturating_mul(largest);
        (self.disk.0 < needed).then(|| {
            format!(
                "read.disk: {} B are too few for {files} files of the largest size and as much \
                 of each other size; write at least \"{needed} B\", or remove sizes or readers",
                self.disk.0
            )
        })
    }
}

/// The probe `read`: each operation is one read request.
#[derive(Debug)]
pub struct ReadProbe {
    settings: ReadSettings,
    /// Directory of the user's own files, which are read instead of generated ones.
    data: Option<PathBuf>,
    sets: Vec<Set>,
    /// Note for the user on own files that are left out.
    note: Option<String>,
    /// Names of the kinds of access that the file system does not support.
    impossible: BTreeSet<&'static str>,
}

impl ReadProbe {
    /// Returns a probe with these settings that reads the files below `data`, or generated files without
    /// `data`.
    ///
    /// # Errors
    ///
    /// Nothing below `data` can be read.
    pub fn new(settings: &ReadSettings, data: Option<PathBuf>) -> Result<ReadProbe, ProbeError> {
        let (mut sets, mut note) = (Vec::new(), None);
        if let Some(data) = &data {
            let sizes: Vec<u64> = settings.size.iter().map(|size| size.0).collect();
            (sets, note) = data::sets(data, &sizes, settings.disk.0)?;
        }
        Ok(ReadProbe { settings: settings.clone(), data, sets, note, impossible: [].into() })
    }

    /// Returns the layout and size [B] of each kind of request.
    fn kinds(&self) -> Vec<(Layout, u64)> {
        if self.data.is_some() {
            return self.sets.iter().map(|set| (set.layout, set.size)).collect();
        }
        let of = |&layout: &Layout| self.settings.size.iter().map(move |size| (layout, size.0));
        self.settings.layout.iter().flat_map(of).collect()
    }
}

impl Probe for ReadProbe {
    fn name(&self) -> &'static str {
        "read"
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (layout, size) in self.kinds() {
            for access in self.settings.access.iter().map(|access| access.label()) {
                for readers in &self.settings.readers {
                    let labels = [("access", access), ("layout", layout.label())];
                    let settings = [("size", size as f64), ("readers", readers.0 as f64)];
                    cells.push(Cell::new(&labels, &settings));
                }
            }
        }
        cells.retain(|cell| !self.impossible.contains(cell.label("access")));
        cells
    }

    fn disk(&self) -> u64 {
        if self.data.is_some() { 0 } else { self.settings.disk.0 }
    }

    fn budget(&self) -> Option<Duration> {
        self.settings.budget.map(Seconds::duration)
    }

    fn prepare(&mut self, context: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        if self.data.is_none() {
            self.sets.clear();
            let settings = &self.settings;
            if settings.layout.0.contains(&Layout::Records) {
                let sizes = settings.size.iter().map(|size| size.0);
                self.sets.extend(files::records(context, settings.share(), sizes)?);
            }
            if settings.layout.0.contains(&Layout::FilePerSample) {
                for size in &settings.size {
                    self.sets.push(files::one_each(context, settings.share_of_size(), size.0)?);
                }
            }
        }
        let mut notes: Vec<String> = self.note.iter().cloned().collect();
        if let Some(set) = self.sets.first() {
            for (access, why) in reader::impossible(set)? {
                if self.settings.access.0.contains(&access)
                    && self.impossible.insert(access.label())
                {
                    notes.push(format!("{} not measured: {why}", access.label()));
                }
            }
        }
        Ok(notes)
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let of = |set: &&Set| {
            set.layout.label() == cell.label("layout") && set.size == cell.count("size") as u64
        };
        let access = self.settings.access.iter().find(|a| a.label() == cell.label("access"));
        let (Some(set), Some(&access)) = (self.sets.iter().find(of), access) else {
            return Ok(Trial::default());
        };
        let readers = cell.count("readers");
        let reads = if access == Access::Warm {
            let part = set.warm_part(WARM);
            reader::warm(&part, context)?;
            read_units(&part, access, readers, context)?
        } else {
            let part = set.cold_part();
            reader::drop_units(&part)?;
            read_units(&part, access, readers, context)?
        };
        Ok(reads.trial(readers))
    }
}

#[cfg(test)]
mod tests;
