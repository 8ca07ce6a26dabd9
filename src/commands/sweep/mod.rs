//! `forebay sweep`: simulates all points of a grid, or a part of them, on all cores.

mod collect;
mod journal;
mod keeper;
mod output;
#[cfg_attr(not(feature = "parquet"), path = "no_parquet.rs")]
mod parquet;
mod shard;
mod slurm;

use super::interrupt;
use super::paths::Paths;
use super::points::{self, Opened};
use super::progress::Watch;
use super::{Failure, input, output as terminal};
use crate::cli::{Assume, KeyChange, Sweep};
use crate::input::{cut_words, printable, shown};
use crate::report::remarks;
use crate::scenario::Scenario;
use crate::sweep::{
    self, Finished, Grid, Journal, Plan, Row, Sampled, SampledRuns, Selection, Shard, ShardRecord,
    Start, SweepSettings,
};
use journal::files_beside;
use keeper::Keeper;
use output::{Output, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub(super) fn execute(sweep: &Sweep, quiet: bool) -> Result<(), Failure> {
    let refused = |error| Failure::Input(format!("cannot sweep: {error}"));
    // A misspelled column is reported first: the scenario may take long to be read.
    Selection::check(&sweep.columns).map_err(refused)?;
    let scenario = match (&sweep.scenario, &sweep.collect) {
        (_, Some(directory)) => return collect::execute(sweep, directory, quiet),
        (Some(scenario), None) => scenario,
        (None, None) => {
            let what = "name a scenario, or the directory of shards to join with `--collect DIR`";
            return Err(refused(what.to_owned()));
        }
    };
    let shard = match &sweep.shard {
        None => Shard::WHOLE,
        Some(text) => Shard::read(text, &|name| std::env::var(name).ok()).map_err(refused)?,
    };
    let opened =
        Opened::from_arguments(scenario, &sweep.options, Vec::new())?.varying(&sweep.vary)?;
    let grid = opened.grid()?;
    if sweep.uncertainty.is_some() {
        opened.profile_to_sample()?;
    }
    if (sweep.slurm || sweep.shard.is_some()) && scenario == Path::new("-") {
        let what =
            "tasks on other nodes cannot read standard input; write the scenario into a file";
        return Err(refused(what.to_owned()));
    }
    if let (true, Some(directory)) = (sweep.slurm, &sweep.output) {
        return slurm::execute(sweep, directory, (&opened, &grid), &words(sweep, scenario), quiet);
    }
    let header = sweep::header(&grid);
    let keys = grid.keys().count();
    let selection = Selection::new(&header, keys, &sweep.columns).map_err(refused)?;
    let record = sweep.shard.is_some().then(|| ShardRecord {
        shard,
        points: grid.len(),
        keys,
        header: header.clone(),
        units: grid.units(),
        command: words(sweep, scenario),
    });
    let pool = points::pool(sweep.options.threads)?;
    let ready = pool.install(|| ready(sweep, &opened, &grid, record.as_ref()))?;
    let Some(Ready { keeper, earlier, replications }) = ready else {
        let directory = sweep.output.as_deref().unwrap_or(Path::new("."));
        terminal::warn(quiet, &format!("shard {shard} is in {} already", shown(directory)));
        return Ok(());
    };
    if !quiet {
        let common = common_remarks(&opened, &grid);
        common.iter().for_each(|remark| terminal::say(&printable(&cut_words(remark))));
    }
    let own = shard.len(grid.len());
    let watch = Watch::new(u64::from(replications) * own as u64, pool.current_num_threads(), quiet);
    let out = match keeper.is_shard() {
        true => None,
        false => {
            let to = sweep.output.as_deref();
            let target = Target::kept(to)?;
            Some(Output::create(target, sweep.format, (&header, selection), &grid.units())?)
        }
    };
    let begun = keeper.finds().then(Mutex::default);
    let columns = header.len();
    let points =
        Points { opened: &opened, grid: &grid, earlier, columns, sampled: sampled(sweep), begun };
    let of_profile = |index, seed, run| opened.sampled_at(&grid, index, (seed, run));
    let over_ranges = |index, _, run| opened.over_ranges_at(&grid, index, run);
    let draws = sampled(sweep).map(|sampled| match sampled {
        Sampled::Profile(runs) => SampledRuns { runs, is_paired: false, sample: &of_profile },
        Sampled::Ranges => {
            SampledRuns { runs: sampled.runs(), is_paired: true, sample: &over_ranges }
        }
    });
    let start = |index| points.start(index, &watch, replications);
    let plan = Plan {
        grid: &grid,
        shard,
        start: &start,
        draws: draws.as_ref(),
        rows: sweep::rows,
        stop: interrupt::flag(),
        progress: watch.slots(),
    };
    let mut failure = None;
    let mut rows = Rows::new(&grid, keeper, out, &header);
    let deliver = |index, finished| match rows.take(index, finished) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            interrupt::raise();
            failure = Some(error);
            ControlFlow::Break(())
        }
    };
    sweep::run(&plan, &pool, || watch.done(), deliver);
    watch.end();
    rows.finish(failure, own, quiet)
}

/// Returns what the runs of a point differ in, if that is not their random numbers.
fn sampled(sweep: &Sweep) -> Option<Sampled> {
    let of_profile = sweep.uncertainty.map(Sampled::Profile);
    of_profile.or((sweep.assume == Assume::Ranges).then_some(Sampled::Ranges))
}

/// Returns the words of the command that makes a shard of this sweep, without `--shard`. Paths are absolute, because tasks start elsewhere.
fn words(sweep: &Sweep, scenario: &Path) -> Vec<String> {
    let absolute = |path: &Path| absolute(path).to_string_lossy().into_owned();
    let mut words = vec!["sweep".to_owned(), absolute(scenario)];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    for change in &sweep.options.changes.0 {
        match change.clone() {
            KeyChange::Set(text) => option("--set", text),
            KeyChange::Unset(key) => option("--unset", key),
        }
    }
    for axis in &sweep.vary {
        option("--vary", axis.clone());
    }
    if let Some(profile) = &sweep.options.profile {
        option("--profile", absolute(profile));
    }
    if let Some(runs) = sweep.uncertainty {
        option("--uncertainty", runs.to_string());
    }
    if sweep.assume == Assume::Ranges {
        option("--assume", "ranges".to_owned());
    }
    words
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A sweep whose points and paths are checked.
struct Ready {
    keeper: Keeper,
    /// The points of earlier sweeps.
    earlier: Vec<Journal>,
    /// Number of replications of each point.
    replications: u32,
}

/// Checks all points and paths, and opens the journal. Returns `None` if there is nothing to do, because another attempt has finished
/// the shard.
fn ready(
    sweep: &Sweep,
    opened: &Opened,
    grid: &Grid,
    record: Option<&ShardRecord>,
) -> Result<Option<Ready>, Failure> {
    // The journal records the files that points read, so these are read first.
    opened.read_files(grid);
    let to = sweep.output.as_deref();
    let mut paths = Paths::default();
    // The files of shards have names of their own in their directory.
    if record.is_none() {
        paths = paths.writes("--output", to)?.prints(to.is_none());
        for file in to.map(files_beside).transpose()?.into_iter().flatten() {
            paths = paths.writes_below("a file beside --output", file);
        }
    }
    let paths = opened.read_by(paths);
    paths.check()?;
    // The journal is locked before anything takes long, so that a second sweep to the same file fails at once.
    let opening = match opened.at(grid, 0) {
        Ok(first) => Keeper::open(sweep, &settings(opened, grid, &first, sampled(sweep)), record)?,
        // The check describes this point, and others with it.
        Err(problems) => {
            opened.check(grid, sampled(sweep).map(Sampled::runs))?;
            return Err(points::invalid(grid, 0, &problems));
        }
    };
    let Some((keeper, earlier)) = opening else { return Ok(None) };
    let replications = opened.check(grid, sampled(sweep).map(Sampled::runs))?;
    // The check may have read more files.
    opened.read_by(paths).check()?;
    Ok(Some(Ready { keeper, earlier, replications }))
}

/// Counts the points that ran too short to show the long run.
pub(super) struct Short {
    /// The column that says why.
    column: Option<usize>,
    points: usize,
}

impl Short {
    pub(super) fn new(header: &[String]) -> Short {
        Short { column: header.iter().position(|name| name == "too_short"), points: 0 }
    }

    /// Looks at the rows of a point.
    pub(super) fn look(&mut self, rows: &[Row]) {
        let says_why = |row: &Row| {
            self.column.and_then(|at| row.get(at)).is_some_and(|why| !why.to_string().is_empty())
        };
        self.points += usize::from(rows.iter().any(says_why));
    }

    pub(super) fn warn(&self, of: usize, quiet: bool) {
        if self.points > 0 {
            let what = format!("{} of {of} points ran too short to show the long run", self.points);
            terminal::warn(quiet, &format!("{what}: the column `too_short` says why"));
        }
    }
}

/// Returns the remarks that the first and the last point of a grid have in common. Rows have no column for remarks.
fn common_remarks(opened: &Opened, grid: &Grid) -> Vec<String> {
    let ends = [0, grid.len().saturating_sub(1)].map(|index| opened.at(grid, index));
    let [Ok(first), Ok(last)] = ends else { return Vec::new() };
    let last = remarks(&last);
    remarks(&first).into_iter().filter(|remark| last.contains(remark)).collect()
}

/// Returns what the results of the sweep depend on; `first` is the scenario at its first point, and the files that the points name have
/// been read.
fn settings(
    opened: &Opened,
    grid: &Grid,
    first: &Scenario,
    sampled: Option<Sampled>,
) -> SweepSettings {
    let mut files = Vec::new();
    // Tasks may have other working directories, but the same files beside the scenario.
    let beside = absolute(Path::new(opened.name()).parent().unwrap_or(Path::new("")));
    for path in opened.files_read().iter().map(|path| absolute(path)) {
        // A pipe has been read; what came through it is part of the first point's result. The check lists points whose files cannot be
        // read.
        if !input::is_read_once(&path)
            && let Ok(bytes) = input::bytes_within(&path, input::RECORDED)
        {
            files.push((shown(path.strip_prefix(&beside).unwrap_or(&path)), bytes));
        }
    }
    SweepSettings::new(grid, first, opened.overrides().len(), &files, sampled)
}

/// Decides for each point of a grid whether it must be simulated.
struct Points<'a> {
    opened: &'a Opened,
    grid: &'a Grid,
    earlier: Vec<Journal>,
    /// Number of columns of a whole row.
    columns: usize,
    /// What the runs of each point differ in, if that is not their random numbers.
    sampled: Option<Sampled>,
    /// Keys of the points that were begun: a point with the same scenario takes the same rows. `None` where these are not kept.
    begun: Option<Mutex<BTreeSet<String>>>,
}

impl Points<'_> {
    /// Returns what to do at a point: run it, take rows that are there, or report that it is invalid. `replications` is the number of
    /// runs that was expected for this point.
    fn start(&self, index: usize, watch: &Watch, replications: u32) -> Start {
        let scenario = match self.opened.at(self.grid, index) {
            Ok(scenario) => scenario,
            Err(problems) => return Start::Invalid(problems),
        };
        // Points with the same scenario may sample different profiles.
        let sampled = self.sampled.map(|of| format!("{of}, {}", self.grid.describe(index)));
        let key = sweep::key(&scenario, sampled.as_deref());
        if let Some(begun) = &self.begun {
            let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
            if !begun.insert(key.clone()) {
                watch.expect(replications, 0);
                return Start::Same { key };
            }
        }
        match self.earlier.iter().find_map(|of| of.find(&key, self.columns)) {
            Some(rows) => {
                watch.expect(replications, 0);
                Start::Kept { key, rows }
            }
            None => {
                watch.expect(
                    replications,
                    self.sampled.map_or(scenario.run.replications, Sampled::runs),
                );
                Start::Run { scenario: Box::new(scenario), key }
            }
        }
    }
}

/// Takes the rows of finished points.
struct Rows<'a> {
    grid: &'a Grid,
    keeper: Keeper,
    /// Where rows are written; `None` for a shard, whose journal is its result.
    out: Option<Output>,
    short: Short,
    /// Number of columns of a whole row.
    columns: usize,
    /// Points that wait for the rows of the point with this key, which has the same scenario.
    waiting: BTreeMap<String, Vec<usize>>,
}

impl<'a> Rows<'a> {
    fn new(grid: &'a Grid, keeper: Keeper, out: Option<Output>, header: &[String]) -> Self {
        let (short, columns) = (Short::new(header), header.len());
        Rows { grid, keeper, out, short, columns, waiting: BTreeMap::new() }
    }

    /// Takes the result of a point. Returns an error if the point has no rows.
    fn take(&mut self, index: usize, finished: Finished) -> Result<(), Failure> {
        match finished {
            Finished::Rows { key, rows } => {
                self.keeper.append(&key, index, &rows)?;
                self.put(&key, index, rows)
            }
            Finished::Kept { key, rows } => {
                let rows = self.with_values_of(index, rows);
                self.keeper.append_kept(&key, index, &rows)?;
                self.put(&key, index, rows)
            }
            Finished::Same { key } => match self.keeper.find(&key, self.columns) {
                Some(rows) => self.same(&key, index, rows),
                None => {
                    self.waiting.entry(key).or_default().push(index);
                    Ok(())
                }
            },
            Finished::Unfinished(why) => Err(points::endless(self.grid, index, why)),
            Finished::Invalid(problems) => Err(points::invalid(self.grid, index, &problems)),
        }
    }

    /// Writes the rows of a point and of those that waited for them.
    fn put(&mut self, key: &str, index: usize, rows: Vec<Row>) -> Result<(), Failure> {
        for other in self.waiting.remove(key).unwrap_or_default() {
            self.same(key, other, rows.clone())?;
        }
        self.write(index, rows)
    }

    fn write(&mut self, index: usize, rows: Vec<Row>) -> Result<(), Failure> {
        self.short.look(&rows);
        self.out.as_mut().map_or(Ok(()), |out| out.put(index, rows))
    }

    /// Takes the rows of another point with the same scenario.
    fn same(&mut self, key: &str, index: usize, rows: Vec<Row>) -> Result<(), Failure> {
        let rows = self.with_values_of(index, rows);
        self.keeper.append_kept(key, index, &rows)?;
        self.write(index, rows)
    }

    /// Returns the rows with the swept values of point `index`.
    fn with_values_of(&self, index: usize, mut rows: Vec<Row>) -> Vec<Row> {
        let values = sweep::point(self.grid, index);
        for row in &mut rows {
            row.splice(..values.len(), values.iter().cloned());
        }
        rows
    }

    /// Ends a sweep that failed, was interrupted, or has finished all of its `points`. What was finished is kept unless all rows are
    /// written.
    fn finish(self, failure: Option<Failure>, points: usize, quiet: bool) -> Result<(), Failure> {
        self.keeper.finish(failure, self.out, points, quiet)?;
        self.short.warn(points, quiet);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::SCENARIO;
    use std::fs;

    #[test]
    fn a_point_with_the_scenario_of_an_earlier_one_is_not_run() {
        // System: a time written in three ways, with another between them. Expectation: the first and the other are run, the rest take
        // the rows of the first; where rows cannot be found again, all are run.
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("s.toml");
        fs::write(&path, SCENARIO).expect("a file");
        let vary = "job.model.step=[\"2 ms\", \"2000 us\", \"3 ms\", \"0.002 s\"]".to_owned();
        let opened = Opened::open(&path, &[]).and_then(|opened| opened.varying(&[vary]));
        let opened = opened.unwrap_or_else(|failure| panic!("{}", failure.message(false)));
        let grid = opened.grid().expect("four points");
        let watch = Watch::new(4, 1, true);
        for (begun, expected) in
            [(Some(Mutex::default()), "run same run same"), (None, "run run run run")]
        {
            let points = Points {
                opened: &opened,
                grid: &grid,
                earlier: Vec::new(),
                columns: 9,
                sampled: None,
                begun,
            };
            let what = |index| match points.start(index, &watch, 1) {
                Start::Run { .. } => "run",
                Start::Same { .. } => "same",
                Start::Kept { .. } | Start::Invalid(_) => "other",
            };
            assert_eq!((0..4).map(what).collect::<Vec<_>>().join(" "), expected);
        }
    }
}
