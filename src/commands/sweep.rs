//! `forebay sweep`: simulates all points of a grid on all cores.

use super::interrupt::{self, Late};
use super::paths::Paths;
use super::points::{self, Opened};
use super::progress::Watch;
use super::sweep_journal::{Earlier, JournalFile, files_beside};
use super::sweep_output::Output;
use super::{Failure, input, output};
use crate::cli::Sweep;
use crate::input::{cut_words, printable, shown};
use crate::report::remarks;
use crate::scenario::Scenario;
use crate::sweep::{self, Finished, Grid, Journal, Plan, Row, Selection, Start, SweepSettings};
use std::fs;
use std::ops::ControlFlow;

pub(super) fn execute(sweep: &Sweep, quiet: bool) -> Result<(), Failure> {
    let to = sweep.output.as_deref();
    let paths = Paths::default().writes("--output", to)?.prints(to.is_none());
    let refused = |error| Failure::Input(format!("cannot sweep: {error}"));
    // A misspelled column is reported first: the scenario may take long to be read.
    Selection::check(&sweep.columns).map_err(refused)?;
    let opened = Opened::from_arguments(&sweep.scenario, Vec::new())?.varying(&sweep.vary)?;
    let grid = opened.grid()?;
    let header = sweep::header(&grid);
    let selection =
        Selection::new(&header, grid.keys().count(), &sweep.columns).map_err(refused)?;
    let pool = points::pool(sweep.scenario.threads)?;
    let Ready { mut journal, earlier, replications } =
        pool.install(|| ready(sweep, &opened, &grid, paths))?;
    if !quiet {
        let common = common_remarks(&opened, &grid);
        common.iter().for_each(|remark| output::say(&printable(&cut_words(remark))));
    }
    let runs = replications as usize * grid.len();
    let watch = Watch::new(runs as u64, pool.current_num_threads(), quiet);
    let mut out = Output::create(to, sweep.format, (&header, selection))?;
    let points = Points { opened: &opened, grid: &grid, earlier, columns: header.len() };
    let start = |index| points.start(index, &watch, replications);
    let plan = Plan {
        grid: &grid,
        start: &start,
        rows: sweep::rows,
        stop: interrupt::flag(),
        progress: watch.slots(),
    };
    let mut failure = None;
    let mut short = Short::new(&header);
    let mut take = |index, finished| {
        short.look(&finished);
        take(&grid, index, finished, &mut journal, &mut out)
    };
    let deliver = |index, finished| match take(index, finished) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            interrupt::raise();
            failure = Some(error);
            ControlFlow::Break(())
        }
    };
    sweep::run(&plan, &pool, || watch.done(), deliver);
    watch.end();
    finish(failure, journal, out, grid.len())?;
    short.warn(grid.len(), quiet);
    Ok(())
}

/// What a sweep has before its first run.
struct Ready {
    journal: Option<JournalFile>,
    /// The points of an earlier sweep.
    earlier: Journal,
    /// Number of replications of each point.
    replications: u32,
}

/// Checks all points and `paths`, to which it adds what the points read, and opens the journal.
fn ready(sweep: &Sweep, opened: &Opened, grid: &Grid, paths: Paths) -> Result<Ready, Failure> {
    // The journal records the files that points read, so these are read first.
    opened.read_files(grid);
    let mut paths = opened.read_by(paths);
    let beside = sweep.output.as_deref().map(files_beside).transpose()?;
    for file in beside.into_iter().flatten() {
        paths = paths.writes_below("a file beside --output", file);
    }
    paths.check()?;
    // The journal is locked before anything takes long, so that a second sweep to the same file fails at once.
    let (journal, earlier) = match opened.at(grid, 0) {
        Ok(first) => journal(sweep, &settings(opened, grid, &first))?,
        // The check below reports this point.
        Err(_) => (None, Journal::default()),
    };
    let replications = opened.check(grid)?;
    opened.read_by(paths).check()?;
    Ok(Ready { journal, earlier, replications })
}

/// Counts the points that ran too short to show the long run.
struct Short {
    /// The column that says why.
    column: Option<usize>,
    points: usize,
}

impl Short {
    fn new(header: &[String]) -> Short {
        Short { column: header.iter().position(|name| name == "too_short"), points: 0 }
    }

    fn look(&mut self, finished: &Finished) {
        let says_why = |row: &Row| {
            self.column.and_then(|at| row.get(at)).is_some_and(|why| !why.to_string().is_empty())
        };
        if let Finished::Rows { rows, .. } | Finished::Kept(rows) = finished {
            self.points += usize::from(rows.iter().any(says_why));
        }
    }

    fn warn(&self, of: usize, quiet: bool) {
        if self.points > 0 {
            let what = format!("{} of {of} points ran too short to show the long run", self.points);
            output::warn(quiet, &format!("{what}: the column `too_short` says why"));
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
fn settings(opened: &Opened, grid: &Grid, first: &Scenario) -> SweepSettings {
    let mut files = Vec::new();
    for path in opened.files_read() {
        // A pipe has been read; what came through it is part of the first point's result. The check lists points whose files cannot be
        // read.
        if !input::is_read_once(&path)
            && let Ok(bytes) = input::bytes_within(&path, input::RECORDED)
        {
            files.push((shown(&path), bytes));
        }
    }
    SweepSettings::new(grid, first, opened.overrides().len(), &files)
}

/// Decides for each point of a grid whether it must be simulated.
struct Points<'a> {
    opened: &'a Opened,
    grid: &'a Grid,
    earlier: Journal,
    /// Number of columns of a whole row.
    columns: usize,
}

impl Points<'_> {
    /// Returns what to do at a point: run it, take its rows from the earlier sweep, or report that it is invalid. `replications`
    /// is the number of runs that was expected for this point.
    fn start(&self, index: usize, watch: &Watch, replications: u32) -> Start {
        let scenario = match self.opened.at(self.grid, index) {
            Ok(scenario) => scenario,
            Err(problems) => return Start::Invalid(problems),
        };
        let key = sweep::key(&self.grid.describe(index), &scenario);
        match self.earlier.find(&key, self.columns) {
            Some(rows) => {
                watch.expect(replications, 0);
                Start::Kept(rows)
            }
            None => {
                watch.expect(replications, scenario.run.replications);
                Start::Run { scenario: Box::new(scenario), key }
            }
        }
    }
}

/// Opens the journal of a sweep whose output is a file, and returns it with the points of an earlier sweep. Standard output, a
/// device or a pipe has no journal.
fn journal(
    sweep: &Sweep,
    settings: &SweepSettings,
) -> Result<(Option<JournalFile>, Journal), Failure> {
    let file =
        |path: &&std::path::PathBuf| fs::metadata(path).map_or(true, |found| found.is_file());
    let Some(path) = sweep.output.as_ref().filter(file) else {
        let written = "rows up to the first point that was in progress were written";
        interrupt::when_late(Late::End(written.to_owned()));
        return Ok((None, Journal::default()));
    };
    let earlier = match (sweep.resume, sweep.force) {
        (true, _) => Earlier::Resume,
        (false, true) => Earlier::Force,
        (false, false) => Earlier::Refuse,
    };
    let (journal, earlier) = JournalFile::open(path, earlier, settings)?;
    interrupt::when_late(Late::End(journal.kept()));
    interrupt::when_ended_at_once(journal.always_kept());
    Ok((Some(journal), earlier))
}

/// Writes the rows of a finished point to the output and, if the point was run now, to the journal. Returns an error if the point
/// has no rows.
fn take(
    grid: &Grid,
    index: usize,
    finished: Finished,
    journal: &mut Option<JournalFile>,
    out: &mut Output,
) -> Result<(), Failure> {
    match finished {
        Finished::Rows { key, rows } => {
            if let Some(journal) = journal {
                journal.append(&key, &rows)?;
                interrupt::when_late(Late::End(journal.kept()));
            }
            out.put(index, rows)
        }
        Finished::Kept(rows) => out.put(index, rows),
        Finished::Unfinished(why) => Err(points::endless(grid, index, why)),
        Finished::Invalid(problems) => Err(points::invalid(grid, index, &problems)),
    }
}

/// Ends a sweep that failed, was interrupted, or has finished all of `points`. The journal stays unless all rows are written.
fn finish(
    failure: Option<Failure>,
    journal: Option<JournalFile>,
    out: Output,
    points: usize,
) -> Result<(), Failure> {
    interrupt::when_late(Late::GoOn("writing the rows of finished points".to_owned()));
    let ended = failure.map_or_else(|| out.finish(points), Err);
    let Some(journal) = journal else { return ended };
    match ended {
        Ok(()) => journal.remove(),
        Err(failure) if journal.is_empty() => Err(failure),
        // The message of the interruption already says what was kept.
        Err(failure @ Failure::Interrupted(_)) => Err(failure),
        Err(failure) => Err(failure.keeping(&journal.kept())),
    }
}
