//! Where the finished points of a sweep are kept until all are there: beside its output, in the file of a shard, or, for standard
//! output, in a file without a name.

use super::collect;
use super::journal::{Earlier, JournalFile};
use super::output::Output;
use super::shard::ShardFile;
use crate::cli::Sweep;
use crate::commands::Failure;
use crate::commands::interrupt::{self, Late};
use crate::sweep::{Journal, Row, ShardRecord, SweepSettings};
use std::fs;
use std::path::Path;

pub(super) enum Keeper {
    /// A journal beside the output, which an interrupted sweep leaves.
    Beside(JournalFile),
    /// The file of a shard.
    Shard(ShardFile),
    /// A temporary file, for a sweep to standard output, a device or a pipe; `None` where none can be written.
    Nameless(Option<Journal>),
}

impl Keeper {
    /// Opens the file that keeps finished points, and returns it with the points that earlier sweeps with these settings finished; `None`
    /// if another attempt has finished the shard.
    pub(super) fn open(
        sweep: &Sweep,
        settings: &SweepSettings,
        record: Option<&ShardRecord>,
    ) -> Result<Option<(Keeper, Vec<Journal>)>, Failure> {
        let to = sweep.output.as_deref();
        if let (Some(record), Some(directory)) = (record, to) {
            let opened = ShardFile::open(directory, settings, record)?;
            return Ok(opened.map(|(file, earlier)| {
                interrupt::when_late(Late::End(file.kept()));
                (Keeper::Shard(file), earlier)
            }));
        }
        let file = |path: &&Path| fs::metadata(path).map_or(true, |found| found.is_file());
        let Some(path) = to.filter(file) else {
            let written = "rows up to the first point that was in progress were written";
            interrupt::when_late(Late::End(written.to_owned()));
            let file = tempfile::tempfile();
            let journal = file.and_then(|file| Journal::begin(file, settings, None)).ok();
            return Ok(Some((Keeper::Nameless(journal), Vec::new())));
        };
        let earlier = match (sweep.resume, sweep.force) {
            (true, _) => Earlier::Resume,
            (false, true) => Earlier::Force,
            (false, false) => Earlier::Refuse,
        };
        let (journal, earlier) = JournalFile::open(path, earlier, settings)?;
        interrupt::when_late(Late::End(journal.kept()));
        interrupt::when_ended_at_once(journal.always_kept());
        Ok(Some((Keeper::Beside(journal), vec![earlier])))
    }

    /// Returns whether [`Keeper::find`] finds the rows of finished points.
    pub(super) fn finds(&self) -> bool {
        !matches!(self, Keeper::Nameless(None))
    }

    /// Returns whether this is the file of a shard.
    pub(super) fn is_shard(&self) -> bool {
        matches!(self, Keeper::Shard(_))
    }

    /// Keeps the rows of a point that was run.
    pub(super) fn append(&mut self, key: &str, index: usize, rows: &[Row]) -> Result<(), Failure> {
        match self {
            Keeper::Beside(journal) => {
                journal.append(key, index, rows)?;
                interrupt::when_late(Late::End(journal.kept()));
                Ok(())
            }
            Keeper::Shard(file) => {
                file.append(key, index, rows)?;
                interrupt::when_late(Late::End(file.kept()));
                Ok(())
            }
            Keeper::Nameless(Some(journal)) => {
                let written = journal.append(key, index, rows);
                written.map_err(|error| Failure::unwritable(&std::env::temp_dir(), &error))
            }
            Keeper::Nameless(None) => Ok(()),
        }
    }

    /// Keeps the rows of a point that was not run. Only a shard needs them: the others have them from the point that was run.
    pub(super) fn append_kept(
        &mut self,
        key: &str,
        index: usize,
        rows: &[Row],
    ) -> Result<(), Failure> {
        if self.is_shard() { self.append(key, index, rows) } else { Ok(()) }
    }

    /// Returns the rows of a point with this key, if they are kept and have this number of columns.
    pub(super) fn find(&self, key: &str, columns: usize) -> Option<Vec<Row>> {
        match self {
            Keeper::Beside(journal) => journal.journal().find(key, columns),
            Keeper::Shard(file) => file.journal().find(key, columns),
            Keeper::Nameless(journal) => journal.as_ref()?.find(key, columns),
        }
    }

    /// Ends a sweep of `points` points: completes its output if all are finished; otherwise the error says what is kept.
    pub(super) fn finish(
        self,
        failure: Option<Failure>,
        out: Option<Output>,
        points: usize,
        quiet: bool,
    ) -> Result<(), Failure> {
        interrupt::when_late(Late::GoOn("writing the rows of finished points".to_owned()));
        let written = |out: Option<Output>| out.map_or(Ok(()), |out| out.finish(points));
        match self {
            Keeper::Nameless(_) => failure.map_or_else(|| written(out), Err),
            Keeper::Beside(journal) => match failure.map_or_else(|| written(out), Err) {
                Ok(()) => journal.remove(),
                Err(failure) if journal.is_empty() => Err(failure),
                // The message of the interruption already says what was kept.
                Err(failure @ Failure::Interrupted(_)) => Err(failure),
                Err(failure) => Err(failure.keeping(&journal.kept())),
            },
            Keeper::Shard(file) => match failure {
                None if file.journal().points() == points => {
                    let directory = file.directory().to_owned();
                    file.finish()?;
                    collect::advise(&directory, quiet);
                    Ok(())
                }
                None => Err(Failure::Interrupted(file.kept())),
                // Another attempt has finished the shard, and `--collect` may have removed this one's file.
                Some(Failure::Input(_) | Failure::Machine(_)) if file.is_overtaken() => Ok(()),
                Some(failure) => Err(failure.keeping(&file.kept())),
            },
        }
    }
}
