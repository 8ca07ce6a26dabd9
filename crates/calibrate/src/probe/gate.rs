//! The probe `gate`: reads after a rest, until the storage stops for a moment. A throttle lets what it allows in a period pass at once, at
//! the speed of the storage behind it, and then nothing until the period is over. Loaders that ask for less never wait for it.

use super::read::{Access, Buffer, Set, drop_units, impossible, open, records};
use super::{
    Bytes, Cell, Context, Count, List, Probe, ProbeError, Rules, Seconds, Share, Trial, team,
};
use forebay_engine::stats::quantile;
use forebay_model::random::{Purpose, Streams};
use rand::seq::SliceRandom;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The table `[gate]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateSettings {
    /// How reads use the page cache: `direct`, `cold` (default: both).
    pub access: Option<List<Access>>,
    /// Sizes of a read request (default: ["32 KiB", "256 KiB", "1 MiB"]).
    pub size: Option<List<Bytes>>,
    /// Numbers of threads that read at the same time (default: [1, 4]).
    pub readers: Option<List<Count>>,
    /// Size of the file that is read.
    pub disk: Bytes,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

const ACCESS: [Access; 2] = [Access::Direct, Access::Cold];
const SIZES: [u64; 3] = [32 << 10, 256 << 10, 1 << 20];
const READERS: [usize; 2] = [1, 4];
/// Time without reads before those of a trial: several periods of a throttle, so that one begins with the first read.
const REST: Duration = Duration::from_millis(250);
/// Time after which a trial ends although the storage has not stopped; longer than the period of a throttle.
const LONGEST: Duration = Duration::from_millis(300);
/// Shortest time without a completion that counts as a stop [s], and as a multiple of the median time between two.
const STOP: f64 = 5e-3;
const TIMES: f64 = 8.0;
/// Number of trials of each cell.
const TRIALS: usize = 4;

/// The probe `gate`: each operation is a request before the storage stops.
#[derive(Debug)]
pub struct GateProbe {
    settings: GateSettings,
    sets: Vec<Set>,
    /// Names of the kinds of access that the file system does not support.
    impossible: BTreeSet<&'static str>,
}

impl GateProbe {
    /// Returns a probe with these settings.
    #[must_use]
    pub fn new(settings: &GateSettings) -> GateProbe {
        GateProbe { settings: settings.clone(), sets: Vec::new(), impossible: BTreeSet::new() }
    }
}

impl GateSettings {
    fn access(&self) -> Vec<Access> {
        self.access.as_ref().map_or(ACCESS.to_vec(), |list| list.0.clone())
    }

    fn sizes(&self) -> Vec<u64> {
        let given = self.size.as_ref();
        given.map_or(SIZES.to_vec(), |list| list.iter().map(|size| size.0).collect())
    }

    fn readers(&self) -> Vec<usize> {
        let given = self.readers.as_ref();
        given.map_or(READERS.to_vec(), |list| list.iter().map(|readers| readers.0).collect())
    }

    /// Returns why the settings contradict each other, with a remedy; `None` if they do not.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if self.access().contains(&Access::Warm) {
            let what = "gate.access: reads from memory pass no gate";
            return Some(format!("{what}; write \"direct\" or \"cold\""));
        }
        let (size, readers) = (self.sizes().into_iter().max()?, self.readers().into_iter().max()?);
        let needed = size.saturating_mul(8 * readers as u64);
        (self.disk.0 < needed).then(|| {
            format!(
                "gate.disk: {} B are too few for eight of the largest requests of each of {readers} readers; write at least \
                 \"{needed} B\"",
                self.disk.0
            )
        })
    }
}

impl Probe for GateProbe {
    fn name(&self) -> &'static str {
        "gate"
    }

    /// Returns a cell for each size with one reader, and for the largest size with each number of readers.
    fn cells(&self) -> Vec<Cell> {
        let (sizes, readers) = (self.settings.sizes(), self.settings.readers());
        let (most, fewest) = (sizes.iter().max(), readers.iter().min());
        let mut cells = Vec::new();
        for access in self.settings.access() {
            for size in &sizes {
                for number in readers.iter().filter(|n| Some(*n) == fewest || Some(size) == most) {
                    let numbers = [("size", *size as f64), ("readers", *number as f64)];
                    cells.push(Cell::new(&[("access", access.label())], &numbers));
                }
            }
        }
        cells.retain(|cell| !self.impossible.contains(cell.label("access")));
        cells
    }

    fn disk(&self) -> u64 {
        self.settings.disk.0
    }

    fn budget(&self) -> Option<Duration> {
        self.settings.budget.map(Seconds::duration)
    }

    fn rules(&self, rules: Rules) -> Rules {
        // What a gate lets pass does not differ from trial to trial.
        let trials = Count(TRIALS);
        Rules { warm_up: 1, at_least: trials, at_most: trials, precision: Share(0.0), ..rules }
    }

    fn prepare(&mut self, context: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        self.sets = records(context, self.settings.disk.0, self.settings.sizes().into_iter())?;
        let Some(set) = self.sets.first() else { return Ok(Vec::new()) };
        let (mut notes, access) = (Vec::new(), self.settings.access());
        for (of, why) in impossible(set)? {
            if access.contains(&of) && self.impossible.insert(of.label()) {
                notes.push(format!("{} not measured: {why}", of.label()));
            }
        }
        Ok(notes)
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let size = cell.count("size") as u64;
        let access = ACCESS.into_iter().find(|of| of.label() == cell.label("access"));
        let set = self.sets.iter().find(|set| set.size == size);
        let (Some(set), Some(access)) = (set, access) else { return Ok(Trial::default()) };
        let (readers, part) = (cell.count("readers"), set.cold_part());
        if access == Access::Cold {
            drop_units(&part)?;
        }
        thread::sleep(REST);
        context.go_on()?;
        let (origin, over) = (Instant::now(), AtomicBool::new(false));
        let team = team(readers, |member| {
            completions(&part, access, (member, readers), (origin, &over), context)
        })?;
        let (core_seconds, waited) = (team.core_seconds(), team.waited());
        let done: Vec<Vec<f64>> =
            team.members.into_iter().map(|member| member.value).collect::<Result<_, _>>()?;
        let seen = Seen::new(done, readers);
        let observed = [("stopped", seen.stopped), ("again", seen.again)];
        Ok(Trial {
            operations: seen.operations,
            seconds: seen.seconds,
            core_seconds,
            threads: readers,
            waited,
            observed: observed.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Trial::default()
        })
    }
}

/// Reads requests of `set` one after another until a read has taken very long or the time is up. Readers share the requests: this one is
/// number `of.0` of `of.1`. Returns the times of completions since the origin [s].
fn completions(
    set: &Set,
    access: Access,
    of: (usize, usize),
    (origin, over): (Instant, &AtomicBool),
    context: &Context<'_>,
) -> Result<Vec<f64>, ProbeError> {
    let mut order: Vec<usize> = (0..set.units.len()).collect();
    let address = Streams::new(context.seed, 0).at(Purpose::Trial, 0, 0, 1);
    order.shuffle(&mut { address });
    let files: Vec<File> =
        set.files.iter().map(|file| open(&file.path, access)).collect::<Result<_, _>>()?;
    let mut buffer = Buffer::new(set.size);
    let mut done: Vec<f64> = Vec::new();
    for &unit in order.iter().skip(of.0).step_by(of.1) {
        let unit = &set.units[unit];
        let target = &mut buffer.bytes()[..unit.length as usize];
        files[unit.file]
            .read_exact_at(target, unit.offset)
            .map_err(ProbeError::file("read", &set.files[unit.file].path))?;
        let now = origin.elapsed().as_secs_f64();
        let took = now - done.last().copied().unwrap_or(0.0);
        done.push(now);
        let each = now / done.len() as f64;
        if done.len() > 2 && took > STOP.max(TIMES * (now - took) / (done.len() - 1) as f64) {
            // One read of each reader waits for the gate: that is all there is to see.
            over.store(true, Ordering::Relaxed);
        }
        let is_over = over.load(Ordering::Relaxed) || context.stop.load(Ordering::Relaxed);
        if is_over || now + each > LONGEST.as_secs_f64() {
            break;
        }
    }
    Ok(done)
}

/// What the completions of a trial show.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    /// Requests that ended before the storage stopped, after the first of each reader.
    operations: u64,
    /// Time that these took [s].
    seconds: f64,
    /// When the last request ended before the gate closed, and when the first one ended after it opened again [s]; both 0 if it stayed open.
    stopped: f64,
    again: f64,
}

impl Seen {
    /// Returns what the completions of all readers show.
    fn new(done: Vec<Vec<f64>>, readers: usize) -> Seen {
        let mut all: Vec<f64> = done.into_iter().flatten().collect();
        all.sort_by(f64::total_cmp);
        let gaps: Vec<f64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut sorted = gaps.clone();
        sorted.sort_by(f64::total_cmp);
        let usual = quantile(&sorted, 0.5).unwrap_or(0.0);
        let stop = gaps.iter().position(|gap| *gap > STOP.max(TIMES * usual));
        let open = &all[..stop.map_or(all.len(), |at| at + 1)];
        // The first requests after a rest take longer.
        let first = readers.min(open.len().saturating_sub(1));
        let (begin, end) = match first {
            0 => (0.0, open.last().copied().unwrap_or(0.0)),
            _ => (open[first - 1], open[open.len() - 1]),
        };
        let (stopped, again) = stop.map_or((0.0, 0.0), |at| (all[at], all[at + 1]));
        Seen { operations: (open.len() - first) as u64, seconds: end - begin, stopped, again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Ruler;

    #[test]
    fn a_stop_ends_what_counts_and_its_end_is_seen() {
        // System: a reader whose reads take 1 ms but the first, 3 ms, and stop after the tenth until 101 ms; one that never stops.
        let mut done: Vec<f64> = (0..10).map(|n| 3e-3 + 1e-3 * f64::from(n)).collect();
        let free = Seen::new(vec![done.clone()], 1);
        assert_eq!((free.operations, free.stopped, free.again), (9, 0.0, 0.0));
        assert!((free.seconds - 9e-3).abs() < 1e-9, "{free:?}");
        done.push(0.101);
        let stopped = Seen::new(vec![done], 1);
        assert_eq!((stopped.operations, stopped.seconds), (free.operations, free.seconds));
        assert!((stopped.stopped - 0.012).abs() < 1e-9 && stopped.again == 0.101, "{stopped:?}");
        // Completions of several readers are those of the storage.
        let two = vec![vec![2e-3, 4e-3, 6e-3, 0.1], vec![3e-3, 5e-3, 0.1005]];
        let two = Seen::new(two, 2);
        assert_eq!((two.operations, two.again), (3, 0.1));
        assert_eq!(Seen::new(vec![vec![]], 1).operations, 0);
    }

    #[test]
    fn a_trial_reads_after_a_rest() {
        let (stop, place) = (AtomicBool::new(false), tempfile::tempdir().expect("a directory"));
        let context = Context {
            directory: place.path(),
            length: Duration::from_millis(1),
            longest: Duration::from_millis(1),
            noise: 1.0,
            ruler: Ruler::default(),
            deadline: Instant::now() + Duration::from_secs(60),
            stop: &stop,
            seed: 3,
        };
        let text = "disk = \"32 MiB\"\nsize = [\"4 KiB\", \"64 KiB\"]\nreaders = [1, 2]";
        let settings: GateSettings = toml::from_str(text).expect("settings");
        assert_eq!(settings.problem(), None);
        let mut probe = GateProbe::new(&settings);
        assert_eq!(probe.cells().len(), 6, "two kinds of access, three cells each");
        let notes = probe.prepare(&context).expect("room for the file");
        if notes.is_empty() {
            let trial = probe.trial(&probe.cells()[0], &context).expect("a trial");
            assert!(trial.operations > 0 && trial.seconds > 0.0, "{trial:?}");
        }
        let few: GateSettings = toml::from_str("disk = \"1 MiB\"").expect("settings");
        assert!(few.problem().is_some_and(|said| said.contains("33554432 B")));
        let warm: GateSettings =
            toml::from_str("disk = \"1 GiB\"\naccess = [\"warm\"]").expect("settings");
        assert!(warm.problem().is_some_and(|said| said.contains("pass no gate")));
    }
}
