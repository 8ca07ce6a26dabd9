//! Reads of real files, by threads that each read one request after the other: `pread` on files
//! opened as a loader opens them.

mod data;
mod files;
mod reader;

pub(super) use files::write;
pub use files::{DataFile, Set, Unit};
pub use reader::{Access, Reads, drop_from_cache, read_units};
pub(super) use reader::{Buffer, open};

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
    /// Ways past or through the page cache.
    pub access: List<Access>,
    /// How samples lie in files.
    pub layout: List<Layout>,
    /// Bytes of a request.
    pub size: List<Bytes>,
    /// Numbers of threads.
    pub readers: List<Count>,
    /// Most bytes of files.
    pub disk: Bytes,
    /// Time for this probe (default: what the budget of the plan leaves).
    pub budget: Option<Seconds>,
}

/// Most of what is read from memory [B]: more than the caches of a core, and checked to be there
/// before each trial within a fraction of a second.
const WARM: u64 = 64 << 20;

/// How samples lie in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// One file each: a request opens it and reads it whole.
    FilePerSample,
    /// One after the other in large files, each at a multiple of 4 KiB: a request reads one.
    Records,
}

impl Layout {
    /// Its name in samples.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Layout::FilePerSample => "file-per-sample",
            Layout::Records => "records",
        }
    }
}

impl ReadSettings {
    /// What of the disk each layout may have [B].
    fn share(&self) -> u64 {
        self.disk.0 / self.layout.0.len() as u64
    }

    /// Bytes of files of one size, where each sample has its own [B].
    fn share_of_size(&self) -> u64 {
        self.share() / self.size.0.len() as u64
    }

    /// Why the numbers do not go together, with a remedy.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let (largest, readers) = (self.size.iter().max()?.0, self.readers.iter().max()?.0);
        // Three quarters of the files are cold, and read once: each reader needs two.
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

/// The probe `read`: operations are requests.
#[derive(Debug)]
pub struct ReadProbe {
    settings: ReadSettings,
    /// The user's own files, instead of generated ones.
    data: Option<PathBuf>,
    sets: Vec<Set>,
    /// What the user should know of those files.
    note: Option<String>,
    /// Ways that the file system does not have.
    impossible: BTreeSet<&'static str>,
}

impl ReadProbe {
    /// A probe by these settings, of generated files or of those below `data`.
    ///
    /// # Errors
    ///
    /// Below `data` is nothing that can be read.
    pub fn new(settings: &ReadSettings, data: Option<PathBuf>) -> Result<ReadProbe, ProbeError> {
        let (mut sets, mut note) = (Vec::new(), None);
        if let Some(data) = &data {
            let sizes: Vec<u64> = settings.size.iter().map(|size| size.0).collect();
            (sets, note) = data::sets(data, &sizes, settings.disk.0)?;
        }
        Ok(ReadProbe { settings: settings.clone(), data, sets, note, impossible: [].into() })
    }

    /// Layouts and sizes [B] of the requests.
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
        Ok(Trial {
            operations: reads.operations(),
            seconds: reads.seconds(),
            core_seconds: reads.core_seconds,
            threads: readers,
            waited: reads.waited,
            observed: reads.observed(),
            excluded: None,
        })
    }
}

#[cfg(test)]
mod tests;
