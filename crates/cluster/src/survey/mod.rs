//! Probes of a cluster, which rank 0 runs in this order: each node alone; pairs of nodes; reads of files that another node wrote, by one
//! node up to all of them; opens; writes; all-reduce; reads beside all-reduce. The first reads come again at the end, to show drift.
//!
//! A kind of trial has labels and settings; each trial gives a sample for each node that takes part. What an earlier run has measured is
//! not measured again. A node with several ranks takes part with its lowest one ([`Crew::leaders`]).

mod again;
mod network;
mod preflight;
mod storage;
#[cfg(test)]
mod tests;

pub use preflight::{Comparison, compare};

use crate::crew::{Apart, Crew, Failed};
use crate::message::{Files, Found, Task};
use forebay_calibrate::fit::{self, Behind};
use forebay_calibrate::measurement::Sample;
use forebay_calibrate::probe::{ClusterSettings, Journal, ProbeError, wall_clock};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Time between the order of a trial and its begin, in which all ranks get ready [s].
const AHEAD: f64 = 0.2;

/// Probes that use the shared storage.
const ON_STORAGE: [&str; 5] = ["shared-read", "service", "shared-open", "shared-write", "beside"];

/// What is measured, and where.
#[derive(Debug)]
pub struct Order {
    /// Settings of the plan's table `[cluster]`.
    pub settings: ClusterSettings,
    /// Name and text of the plan, whose other probes run on each node alone.
    pub plan: (String, String),
    /// Number of the plan's probes that run on each node alone.
    pub alone: usize,
    /// Probes to run; all if empty.
    pub only: Vec<String>,
    /// Time for the probes of each node alone [s].
    pub alone_budget: f64,
    /// Random seed of the order of files.
    pub seed: u64,
    /// Folder on the shared storage for all working files; it does not exist yet.
    pub folder: PathBuf,
    /// The user's own files, with their sizes, to be read in place of written ones.
    pub data: Vec<(PathBuf, u64)>,
    /// Time at which probes stop, whether all are done or not.
    pub deadline: Instant,
}

/// Progress of a survey, for the caller to show.
#[derive(Debug)]
pub enum Event<'e> {
    /// A probe begins.
    Begin(&'e str),
    /// A trial has ended, of this many that are expected of the probe.
    Trial(usize, usize),
    /// A line for the user.
    Note(String),
}

/// Result of a survey.
#[derive(Debug, Default)]
pub struct Report {
    /// What could not be measured, and why.
    pub failures: Vec<String>,
    /// Whether the user has interrupted the run.
    pub interrupted: bool,
    /// Largest time by which a node began a trial late [s].
    pub late: f64,
    /// Whether working files could not be removed.
    pub left_files: bool,
    /// Nodes that fall behind their siblings, also when measured again.
    pub behind: Vec<Behind>,
}

/// A running survey.
pub struct Survey<'a> {
    crew: &'a mut Crew,
    order: &'a Order,
    journal: &'a mut Journal,
    on: &'a mut dyn FnMut(Event<'_>),
    report: Report,
    /// The rank of each node that takes part.
    leaders: Vec<u32>,
    /// Whether reads go past the page cache.
    direct: bool,
    /// Whether the files that nodes read have been written.
    written: bool,
    /// Whether a rank hung while it used the shared storage. Whatever uses it would hang too, and hold the process of rank 0.
    storage_hangs: bool,
    /// Bytes read and written on the shared storage, and files opened, by all nodes.
    moved: f64,
    opened: f64,
    stop: &'static AtomicBool,
}

/// A kind of trial.
#[derive(Debug, Clone, PartialEq)]
struct Kind {
    probe: &'static str,
    labels: BTreeMap<String, String>,
    settings: BTreeMap<String, f64>,
}

/// Runs a probe.
type Step<'a> = fn(&mut Survey<'a>) -> Result<(), End>;

/// Why a probe ends early.
#[derive(Debug)]
enum End {
    /// Samples cannot be written.
    Journal(ProbeError),
    /// The user has interrupted the run.
    Interrupted,
    /// The time is up.
    Time,
    /// A node failed.
    Failed(Failed),
    /// The probe itself ended, for this reason.
    Because(String),
}

impl From<Failed> for End {
    fn from(failed: Failed) -> End {
        End::Failed(failed)
    }
}

impl Kind {
    fn new(probe: &'static str, labels: &[(&str, &str)], settings: &[(&str, f64)]) -> Kind {
        let label = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let setting = |&(name, value): &(&str, f64)| (name.to_owned(), value);
        Kind {
            probe,
            labels: labels.iter().map(label).collect(),
            settings: settings.iter().map(setting).collect(),
        }
    }

    /// Returns whether `sample` is of this kind, whichever node it is of.
    fn has(&self, sample: &Sample) -> bool {
        let mut labels = sample.labels.clone();
        if !self.labels.contains_key("node") {
            labels.remove("node");
        }
        sample.probe == self.probe && labels == self.labels && sample.settings == self.settings
    }
}

impl<'a> Survey<'a> {
    /// Begins a survey. `stop` is set when the user interrupts it.
    pub fn new(
        crew: &'a mut Crew,
        order: &'a Order,
        journal: &'a mut Journal,
        stop: &'static AtomicBool,
        on: &'a mut dyn FnMut(Event<'_>),
    ) -> Survey<'a> {
        let leaders = crew.leaders().into_iter().map(|(rank, _)| rank).collect();
        let report = Report::default();
        Survey {
            crew,
            order,
            journal,
            on,
            report,
            leaders,
            direct: true,
            written: false,
            storage_hangs: false,
            moved: 0.0,
            opened: 0.0,
            stop,
        }
    }

    /// Measures everything that is ordered. A probe that fails does not keep the others from running.
    ///
    /// # Errors
    /// If samples cannot be written.
    pub fn run(mut self) -> Result<Report, ProbeError> {
        let ended = self.run_probes().and_then(|()| self.name_slow_nodes());
        self.clear();
        ended.map(|()| self.report)
    }

    fn run_probes(&mut self) -> Result<(), ProbeError> {
        let probes: [(&str, Step<'a>); 10] = [
            ("alone", Self::alone),
            ("pair", Self::pairs),
            ("shared-read", Self::reads),
            ("service", Self::service),
            ("shared-open", Self::opens),
            ("shared-write", Self::writes),
            ("allreduce", Self::all_reduces),
            ("nccl", Self::nccl),
            ("beside", Self::beside),
            ("shared-read", Self::drift),
        ];
        for (name, probe) in probes {
            if name != "alone" && !self.wanted(name) {
                continue;
            }
            if self.storage_hangs && ON_STORAGE.contains(&name) {
                if !self.report.failures.iter().any(|of| of.starts_with(name)) {
                    self.fail(name, "left out, because the storage hangs");
                }
                continue;
            }
            if name != "alone" && self.leaders.len() < 2 {
                self.fail(name, "fewer than two nodes are left");
                continue;
            }
            let ended = probe(self);
            // Ranks that were lost meanwhile take no further part.
            self.leaders.retain(|rank| self.crew.mate(*rank).is_some());
            self.ended(name, ended)?;
            if self.report.interrupted {
                break;
            }
        }
        Ok(())
    }

    /// Looks for nodes that fall behind their siblings, and measures these again.
    fn name_slow_nodes(&mut self) -> Result<(), ProbeError> {
        if self.report.interrupted || self.storage_hangs {
            return Ok(());
        }
        let first = fit::behind(self.journal.samples(), false);
        let known = fit::behind(self.journal.samples(), true);
        let open: Vec<Behind> = first.iter().filter(|of| !has(&known, of)).cloned().collect();
        if open.iter().any(|of| of.quantity != "cores") {
            (self.on)(Event::Begin("nodes that fall behind, again"));
            let ended = self.confirm(&open);
            self.ended("again", ended)?;
        }
        let again = fit::behind(self.journal.samples(), true);
        let confirmed = |of: &Behind| of.quantity == "cores" || has(&again, of);
        self.report.behind = first.into_iter().filter(confirmed).collect();
        Ok(())
    }

    /// Notes how the probe of this name ended. Returns an error only if samples cannot be written.
    fn ended(&mut self, name: &str, ended: Result<(), End>) -> Result<(), ProbeError> {
        match ended {
            Ok(()) => {}
            Err(End::Journal(error)) => return Err(error),
            Err(End::Interrupted) => self.report.interrupted = true,
            Err(End::Time) => self.fail(name, "time was up; give more with --budget"),
            Err(End::Because(why)) => self.fail(name, &why),
            Err(End::Failed(Failed { rank, node, why, hangs, .. })) => {
                self.storage_hangs |= hangs && ON_STORAGE.contains(&name);
                self.fail(name, &format!("{node} (rank {rank}): {why}"));
            }
        }
        Ok(())
    }

    /// Returns whether the probe of this name is to run.
    fn wanted(&self, name: &str) -> bool {
        self.order.only.is_empty() || self.order.only.iter().any(|only| only == name)
    }

    fn fail(&mut self, probe: &str, why: &str) {
        let what = format!("{probe}: {why}");
        (self.on)(Event::Note(what.clone()));
        if !self.report.failures.contains(&what) {
            self.report.failures.push(what);
        }
    }

    fn note(&mut self, what: String) {
        (self.on)(Event::Note(what));
    }

    /// Removes the working files.
    fn clear(&mut self) {
        if self.storage_hangs {
            self.report.failures.push("working files are left: the storage hangs".to_owned());
            self.report.left_files = true;
            return;
        }
        let Some(rank) = self.crew.ranks().first().copied() else { return };
        let folder = self.order.folder.clone();
        // Each node removes its own files first: they are elsewhere if the directory is on no shared storage.
        let own = |rank: &u32| (*rank, Task::Remove { folder: self.folder_of(*rank) });
        let own = self.leaders.iter().map(own).collect();
        self.crew.work(own, 30.0, Apart::Yes, &mut |_| {}).ok();
        if let Err(failed) =
            self.crew.work(vec![(rank, Task::Remove { folder })], 30.0, Apart::No, &mut |_| {})
        {
            self.report.failures.push(format!("working files are left: {}", failed.why));
            self.report.left_files = true;
        }
    }

    /// Checks that the survey may go on.
    fn go_on(&self) -> Result<(), End> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(End::Interrupted);
        }
        if Instant::now() >= self.order.deadline {
            return Err(End::Time);
        }
        Ok(())
    }

    /// Returns the number of trials of a kind that the journal has.
    fn trials(&self, kind: &Kind) -> usize {
        let of = self.journal.samples().iter().filter(|sample| kind.has(sample));
        of.map(|sample| sample.trial as usize + 1).max().unwrap_or(0)
    }

    /// Lets ranks work together, and returns what each found.
    fn work(&mut self, tasks: Vec<(u32, Task)>, seconds: f64) -> Result<Vec<Found>, End> {
        let found = self.crew.work(tasks, seconds, Apart::No, &mut |_| {});
        if self.stop.load(Ordering::Relaxed) {
            return Err(End::Interrupted);
        }
        let found = found?;
        let late = found.iter().map(|of| of.late).fold(0.0, f64::max);
        self.report.late = self.report.late.max(late);
        Ok(found)
    }

    /// Writes a sample of `rank` to the journal.
    fn record(
        &mut self,
        kind: &Kind,
        trial: usize,
        rank: u32,
        operations: f64,
        seconds: f64,
        found: &Found,
    ) -> Result<(), End> {
        if !(operations > 0.0 && seconds > 0.0 && (seconds / operations).is_finite()) {
            let why =
                "no operation ended in the time that counts; write a longer `window` in the plan";
            return Err(End::Because(why.to_owned()));
        }
        let mut labels = kind.labels.clone();
        labels.entry("node".to_owned()).or_insert_with(|| self.crew.node(rank));
        let mut observed = found.figures.clone();
        observed.insert("late".to_owned(), found.late);
        observed.retain(|_, value| value.is_finite());
        let sample = Sample {
            probe: kind.probe.to_owned(),
            labels,
            settings: kind.settings.clone(),
            trial: trial as u32,
            operations: operations.round().max(1.0) as u64,
            seconds: seconds * operations.round().max(1.0) / operations.max(f64::MIN_POSITIVE),
            core_seconds: 0.0,
            observed,
            beside: None,
            excluded: None,
            at: wall_clock(),
        };
        self.journal.append(sample).map_err(End::Journal)
    }

    /// Returns the numbers of nodes to measure with, in increasing order: of the plan, or 1, 2, 4, … and all.
    fn numbers_of_nodes(&self) -> Vec<usize> {
        let all = self.leaders.len();
        let mut numbers: BTreeSet<usize> = match &self.order.settings.nodes {
            Some(given) => given.iter().map(|of| of.0).filter(|of| *of <= all).collect(),
            None => (0..).map(|power| 1 << power).take_while(|of| *of < all).chain([all]).collect(),
        };
        numbers.retain(|of| *of > 0);
        numbers.into_iter().collect()
    }

    /// Returns the `count` ranks that take part in trial number `trial`; over the trials, all ranks take turns.
    fn turn(&self, trial: usize, count: usize) -> Vec<u32> {
        let all = self.leaders.len();
        (0..count).map(|index| self.leaders[(trial * count + index) % all]).collect()
    }

    /// Returns the number of trials of each kind.
    fn at_least(&self) -> usize {
        self.order.settings.trials.map_or(3, |trials| trials.0)
    }

    /// Runs the probes of each node alone, all nodes at once. Nodes that share a kernel, and so cores and disks, run them one after the
    /// other.
    fn alone(&mut self) -> Result<(), End> {
        if self.order.alone == 0 {
            return Ok(());
        }
        (self.on)(Event::Begin("each node alone"));
        let mut kernels: BTreeMap<String, usize> = BTreeMap::new();
        let mut rounds: Vec<Vec<u32>> = Vec::new();
        for rank in self.leaders.clone() {
            let boot = self.crew.mate(rank).map(|mate| mate.facts.boot.clone());
            let turn = kernels.entry(boot.unwrap_or_default()).or_default();
            if rounds.len() <= *turn {
                rounds.push(Vec::new());
            }
            rounds[*turn].push(rank);
            *turn += 1;
        }
        let names = forebay_calibrate::probe::CLUSTER_PROBES;
        for (number, ranks) in rounds.iter().enumerate() {
            self.go_on()?;
            let task = |rank: &u32| {
                let node = self.crew.node(*rank);
                let of_node = |sample: &&Sample| {
                    sample.label("node") == node && !names.contains(&sample.probe.as_str())
                };
                let mut earlier: Vec<Sample> =
                    self.journal.samples().iter().filter(of_node).cloned().collect();
                earlier.iter_mut().for_each(|sample| {
                    sample.labels.remove("node");
                });
                let budget = self.order.alone_budget;
                self.alone_task(*rank, self.order.only.clone(), earlier, budget)
            };
            let tasks: Vec<(u32, Task)> = ranks.iter().map(task).collect();
            let ended = self.alone_on(tasks, self.order.alone_budget, None)?;
            for (rank, found) in ranks.iter().zip(ended) {
                let node = self.crew.node(*rank);
                match found {
                    Ok(found) => {
                        found.lines.iter().for_each(|line| self.note(format!("{node}: {line}")))
                    }
                    Err(why) => self.fail("alone", &format!("{node}: {why}")),
                }
            }
            (self.on)(Event::Trial(number + 1, rounds.len()));
        }
        Ok(())
    }

    /// Runs probes of nodes alone; returns what each node found, or why it failed. Samples are written as soon as they arrive, with the
    /// number `again` of a repetition.
    fn alone_on(
        &mut self,
        tasks: Vec<(u32, Task)>,
        budget: f64,
        again: Option<usize>,
    ) -> Result<Vec<Result<Found, String>>, End> {
        let ranks: Vec<u32> = tasks.iter().map(|(rank, _)| *rank).collect();
        let (journal, mut wrong) = (&mut *self.journal, None);
        let mut keep = |mut sample: Sample| {
            let number = again.map(|number| (fit::AGAIN.to_owned(), number.to_string()));
            sample.labels.extend(number);
            if let Err(error) = journal.append(sample) {
                wrong.get_or_insert(error);
            }
        };
        let mut all = Vec::new();
        match self.crew.work(tasks, budget, Apart::Yes, &mut keep) {
            Ok(found) => all.extend(found.into_iter().map(Ok)),
            Err(_) => {
                let failed = self.crew.failures().to_vec();
                for rank in ranks {
                    let own = failed.iter().find(|of| of.rank == rank);
                    all.push(own.map_or(Ok(Found::default()), |of| Err(of.why.clone())));
                }
            }
        }
        match wrong {
            Some(error) => Err(End::Journal(error)),
            None if self.stop.load(Ordering::Relaxed) => Err(End::Interrupted),
            None => Ok(all),
        }
    }

    /// Returns the task of running the plan's probes on a node alone. Its working files are on the node's own disk.
    fn alone_task(
        &self,
        rank: u32,
        only: Vec<String>,
        earlier: Vec<Sample>,
        budget: f64,
    ) -> (u32, Task) {
        let (name, plan) = self.order.plan.clone();
        (rank, Task::Alone { name, plan, only, budget, earlier })
    }

    /// Returns the files that the participant number `index` reads, of trial `trial`: those of another node.
    fn files_of_another(&self, index: usize, trial: usize, size: u64) -> Files {
        if !self.order.data.is_empty() {
            let (all, data) = (self.leaders.len(), &self.order.data);
            let part = (index + trial) % all;
            let own = data.iter().skip(part % data.len()).step_by(all.min(data.len()));
            return Files::Own(own.cloned().collect());
        }
        let all = self.leaders.len();
        let shift = 1 + trial % (all - 1).max(1);
        let writer = self.leaders[(index + shift) % all];
        let count = self.order.settings.files().iter().find(|of| of.0 == size).map_or(0, |of| of.1);
        Files::Written { folder: self.folder_of(writer), size, count }
    }

    /// Returns the folder of a rank's working files.
    fn folder_of(&self, rank: u32) -> PathBuf {
        self.order.folder.join(format!("rank-{rank}"))
    }
}

/// Returns whether `all` have the node and quantity of `of`.
fn has(all: &[Behind], of: &Behind) -> bool {
    all.iter().any(|other| (&other.node, other.quantity) == (&of.node, of.quantity))
}
