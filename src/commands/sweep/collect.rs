//! `forebay sweep --collect`: joins the shards of a sweep.

use super::output::{Output, Target};
use super::shard::{Found, damaged, other_settings};
use super::{Short, slurm};
use crate::cli;
use crate::commands::paths::Paths;
use crate::commands::{Failure, output};
use crate::input::{shell_word, shown};
use crate::sweep::{Journal, JournalRead, Selection, Shard, ShardRecord, SweepSettings};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Number of shards that a message names.
const NAMED: usize = 20;

pub(super) fn execute(sweep: &cli::Sweep, directory: &Path, quiet: bool) -> Result<(), Failure> {
    let to = sweep.output.as_deref();
    let found = Found::all(directory)?;
    let files = found.iter().map(|file| file.path.clone());
    let paths = Paths::default().writes("--output", to)?.prints(to.is_none());
    paths.reads_all("a shard", files).check()?;
    open_many(found.len());
    let shards = Shards::read(directory)?;
    let ShardRecord { points, keys, header, units, .. } = &shards.record;
    let selection = Selection::new(header, *keys, &sweep.columns)
        .map_err(|error| Failure::Input(format!("cannot sweep: {error}")))?;
    shards.check(directory)?;
    let target = Target::shared(to)?;
    let mut out = Output::create(target, sweep.format, (header, selection), units)?;
    let mut short = Short::new(header);
    for index in 0..*points {
        let number = Shard::of_point(index, shards.record.shard.count()) + 1;
        let rows = shards.all[&number].at(index, header.len());
        let Some(rows) = rows else { return Err(damaged(&directory.join(shards.name(number)))) };
        short.look(&rows);
        out.put(index, rows)?;
    }
    out.finish(*points)?;
    if let Some(path) = to {
        remove_overtaken(directory);
        output::warn(quiet, &format!("wrote {}: {points} points", shown(path)));
    }
    short.warn(*points, quiet);
    Ok(())
}

/// Lets this process open as many files as it may: one for each shard.
fn open_many(files: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Besides shards, a few files are open.
    if current.is_some_and(|current| current < files as u64 + 64) {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).ok();
    }
}

/// Removes the files that killed or overtaken attempts at finished shards left.
fn remove_overtaken(directory: &Path) {
    for file in Found::all(directory).unwrap_or_default() {
        if file.is_partial && file.finished().is_file() {
            fs::remove_file(&file.path).ok();
        }
    }
}

/// The finished shards of a sweep.
struct Shards {
    /// Journals by the number of their shard, from 1.
    all: BTreeMap<usize, Journal>,
    /// Number of finished points in unfinished shards, by their number.
    begun: BTreeMap<usize, usize>,
    /// Header of one of the shards; the others say the same of the sweep.
    record: ShardRecord,
}

impl Shards {
    /// Reads all shards, and checks that they are of one sweep.
    fn read(directory: &Path) -> Result<Shards, Failure> {
        // An attempt that ends meanwhile gives its file another name, so that the directory must be read again.
        const ATTEMPTS: u32 = 10;
        for _ in 1..ATTEMPTS {
            let found = Found::all(directory)?;
            let read: Vec<_> = found.iter().map(Found::read).collect::<Result<_, Failure>>()?;
            if read.iter().all(Option::is_some) {
                return Shards::of(directory, found.iter().zip(read.into_iter().flatten()));
            }
        }
        let directory = shown(directory);
        Err(Failure::Input(format!(
            "cannot sweep: shards in {directory} keep changing; try again when their tasks have ended"
        )))
    }

    fn of<'a>(
        directory: &Path,
        files: impl Iterator<Item = (&'a Found, JournalRead)>,
    ) -> Result<Shards, Failure> {
        let mut first: Option<(SweepSettings, ShardRecord)> = None;
        let (mut all, mut begun) = (BTreeMap::new(), BTreeMap::new());
        for (file, read) in files {
            let (journal, settings) = match read {
                JournalRead::Journal(journal, settings) => (journal, *settings),
                _ if file.is_partial => continue,
                _ => return Err(damaged(&file.path)),
            };
            let Some(record) = journal.shard().cloned() else { return Err(damaged(&file.path)) };
            match &first {
                None => first = Some((settings, record.clone())),
                Some((of, one)) if *of != settings || one.shard.count() != record.shard.count() => {
                    return Err(other_settings(&file.path, of, &settings));
                }
                Some(_) => {}
            }
            let (number, points) = (record.shard.number(), journal.points());
            if points == record.shard.len(record.points) {
                all.insert(number, journal);
            } else {
                let most = begun.entry(number).or_insert(0);
                *most = points.max(*most);
            }
        }
        let Some((_, record)) = first else {
            let script = slurm::script_in(directory);
            if script.is_file() {
                return Err(Failure::Check(format!(
                    "no task of {} has begun a shard; collect when its tasks have ended (`squeue --me`)",
                    shown(&script)
                )));
            }
            let directory = shown(directory);
            return Err(Failure::Input(format!(
                "cannot sweep: {directory} has no shards; make them with `forebay sweep SCENARIO --shard 1/16 --output {directory}`"
            )));
        };
        Ok(Shards { all, begun, record })
    }

    /// Returns the name of the file of shard `number`.
    fn name(&self, number: usize) -> String {
        Shard::new(number, self.record.shard.count()).unwrap_or(Shard::WHOLE).file_name()
    }

    /// Returns an error that names the missing shards, with the command that makes them.
    fn check(&self, directory: &Path) -> Result<(), Failure> {
        let count = self.record.shard.count();
        let missing: Vec<usize> = (1..=count).filter(|of| !self.all.contains_key(of)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut named: Vec<String> = missing
            .iter()
            .take(NAMED)
            .map(|number| {
                let shard = Shard::new(*number, count).unwrap_or(Shard::WHOLE);
                let all = shard.len(self.record.points);
                let begun = self.begun.get(number).filter(|points| **points > 0);
                begun.map_or(number.to_string(), |points| {
                    format!("{number} ({points} of {all} points)")
                })
            })
            .collect();
        if missing.len() > NAMED {
            named.push(format!("{} more", missing.len() - NAMED));
        }
        let what = format!(
            "{} of {count} shards are missing in {}: {}",
            missing.len(),
            shown(directory),
            named.join(", ")
        );
        Err(Failure::Check(format!(
            "{what}\nIf their tasks still run or wait, collect when they have ended. Otherwise make these shards with\n  {}\n",
            self.remedy(directory, &missing)
        )))
    }

    /// Returns the command that makes shards.
    fn remedy(&self, directory: &Path, missing: &[usize]) -> String {
        let count = self.record.shard.count();
        let script = slurm::script_in(directory);
        if slurm::makes(&script, count, &self.record.command) {
            return format!("sbatch --array={} {}", ranges(missing), shell_word(&shown(&script)));
        }
        let command: Vec<String> =
            self.record.command.iter().map(|word| shell_word(word)).collect();
        let (command, output) = (command.join(" "), shell_word(&shown(directory)));
        match missing {
            [one] => format!("forebay {command} --shard {one}/{count} --output {output}"),
            several => format!(
                "for shard in {}; do forebay {command} --shard $shard/{count} --output {output}; done",
                several.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            ),
        }
    }
}

/// Returns numbers as Slurm takes them: `1-3,7`.
fn ranges(numbers: &[usize]) -> String {
    let together = numbers.chunk_by(|one, next| one + 1 == *next);
    let words = together.map(|of| match of {
        [] => String::new(),
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

/// Says how to join the shards in a directory.
pub(super) fn advise(directory: &Path, quiet: bool) {
    let directory = shell_word(&shown(directory));
    output::warn(
        quiet,
        &format!("join all shards with `forebay sweep --collect {directory} --output rows.csv`"),
    );
}
