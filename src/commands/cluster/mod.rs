//! `forebay calibrate` with a plan for a cluster: the same command on each node, of which rank 0 measures, fits and reports.

mod again;
mod cost;
mod folder;
mod hosts;
mod mpi;
mod text;

pub(super) use cost::table as cost_of_nodes;
pub(super) use hosts::{RANK, serve};
pub(super) use text::{beside, nodes};

use super::calibrate_output::{self, Header, Output};
use super::progress::tick;
use super::{Failure, interrupt, output};
use crate::cli::Calibrate;
use crate::cluster::arrivals::Member;
use crate::cluster::crew::{Crew, Gate};
use crate::cluster::facts;
use crate::cluster::launch::{self, Launch};
use crate::cluster::rank::{self, Way};
use crate::cluster::rendezvous::Rendezvous;
use crate::cluster::secret::{Run, Secret};
use crate::cluster::survey::{self, Comparison, Event, Order, Report, Survey};
use crate::input::shown;
use crate::measurement::Sample;
use crate::probe::wall_clock;
use crate::probe::{CLUSTER_PROBES, ClusterSettings, Plan};
use crate::profile::{Host, Profile};
use folder::Folder;
use hosts::Remote;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Largest number of the user's own files that are read, largest part of each [B], and largest number that are looked at.
const MOST_OWN: usize = 4000;
const MOST_OF_FILE: u64 = 64 << 20;
const LOOKED_AT: usize = 50_000;

/// What is measured.
pub(super) struct Wanted<'a> {
    pub(super) calibrate: &'a Calibrate,
    /// Name and text of the plan.
    pub(super) plan: (String, String),
    pub(super) parsed: Plan,
    pub(super) budget: Duration,
    /// The storage to measure.
    pub(super) directory: PathBuf,
    pub(super) output: PathBuf,
    /// Profile that is checked, if one is.
    pub(super) check: Option<Profile>,
}

/// Runs this process's part of a calibration of a cluster.
pub(super) fn execute(wanted: &Wanted<'_>, quiet: bool) -> Result<(), Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    let found = Launch::find(&variable).map_err(Failure::Input)?;
    match (found, &wanted.calibrate.hosts) {
        (Some(launch), None) if launch.rank > 0 => {
            let way = match told(&variable)? {
                Some(address) => Way::Told(address.meets(&launch)),
                None => Way::File { output: wanted.output.clone(), job: launch.job.clone() },
            };
            rank::serve(&launch, &way, &wanted.directory, interrupt::careful_flag())
                .map_err(Failure::Machine)
        }
        (Some(launch), None) => lead(wanted, &launch, None, quiet),
        (_, Some(file)) => {
            let node = launch::node(&variable);
            let hosts = hosts::read(file, &node)?;
            let size = hosts.len() as u32 + 1;
            let launch = Launch { rank: 0, size, node, job: None, launcher: "ssh" };
            lead(wanted, &launch, Some(&hosts), quiet)
        }
        (None, None) => Err(Failure::Input(
            "this plan measures several nodes: start it on each of them, by `srun --ntasks-per-node=1`, `mpirun` or `torchrun`, or name them with --hosts FILE"
                .to_owned(),
        )),
    }
}

/// Rank 0: gathers the others, measures, fits and reports.
fn lead(
    wanted: &Wanted<'_>,
    launch: &Launch,
    hosts: Option<&[String]>,
    quiet: bool,
) -> Result<(), Failure> {
    let Wanted { calibrate, parsed, directory, .. } = wanted;
    let Some(settings) = &parsed.cluster else { return Ok(()) };
    let alone = select(parsed, &calibrate.only)?;
    let data = calibrate.data.as_deref().map(own_files).transpose()?.unwrap_or_default();
    if launch.size < 2 {
        let what = format!(
            "{} started one rank, and two nodes are needed: start one on each node",
            launch.launcher
        );
        return Err(Failure::Input(what));
    }
    let (name, plan) = wanted.plan.clone();
    let header = Header {
        name: name.clone(),
        plan: plan.clone(),
        machine: format!("a cluster of {} ranks", launch.size),
        data: calibrate
            .data
            .as_deref()
            .map(|data| fs::canonicalize(data).unwrap_or_else(|_| data.to_owned())),
    };
    // The lock of the earlier check, until that of this one is held.
    let _earlier = match wanted.check {
        Some(_) => clear_check(&wanted.output)?,
        None => None,
    };
    let mut out = Output::open(&wanted.output, &header)?;
    let (folder, note) =
        Folder::make(directory, &wanted.output, &launch.node, calibrate.remove_leftovers)?;
    note.iter().for_each(|note| output::warn(quiet, note));
    let stop = interrupt::careful_flag();
    let mut crew = gather(wanted, launch, hosts, stop)?;
    let comparison = survey::compare(&crew);
    let fits = same_nodes(&crew, &out)
        .and_then(|()| has_room(&crew, settings, directory, data.is_empty()));
    if let Err(why) = fits {
        crew.end();
        return Err(why);
    }
    output::warn(quiet, text::before(&crew, settings, &comparison, directory, &data).trim_end());
    record_nodes(&crew, &mut out)?;
    let order = Order {
        settings: settings.clone(),
        plan: (name, plan),
        alone,
        only: calibrate.only.clone(),
        alone_budget: alone_budget(parsed),
        seed: u64::from(parsed.seed),
        folder: folder.path().to_owned(),
        data,
        deadline: Instant::now() + wanted.budget,
    };
    let report = measure(&mut crew, &order, &mut out, stop, quiet)?;
    let lost: Vec<String> = crew.lost().keys().map(|rank| crew.node(*rank)).collect();
    let mpi = match calibrate.mpi_probe && !report.interrupted {
        true => mpi::measure(&mut crew, settings, &mut out, &wanted.output, hosts.is_some())?,
        false => None,
    };
    crew.end();
    match report.left_files {
        // Storage that hangs would also keep this process.
        true => std::mem::forget(folder),
        false => drop(folder),
    }
    finish(wanted, &out, &comparison, report, &lost, mpi)
}

/// Where rank 0 listens, and the secret of the run, as the launcher's environment says.
struct Told {
    address: SocketAddr,
    secret: Secret,
}

impl Told {
    /// Returns what all ranks of a job agree on.
    fn meets(&self, launch: &Launch) -> Rendezvous {
        let Told { address, secret } = self;
        let job = launch.job.clone();
        let run = Run::of(job.as_deref().unwrap_or_default());
        let node = launch.node.clone();
        Rendezvous { run, secret: secret.clone(), address: *address, job, node }
    }
}

/// Returns where rank 0 listens if the environment says it, with a secret: `FOREBAY_ADDRESS` (`host:port`) and `FOREBAY_SECRET`. Otherwise
/// ranks find each other by a file.
fn told(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Told>, Failure> {
    let (place, secret) = (variable("FOREBAY_ADDRESS"), variable("FOREBAY_SECRET"));
    let (Some(place), Some(secret)) = (&place, &secret) else {
        return match (place, secret) {
            (None, None) => Ok(None),
            _ => Err(Failure::Input(
                "FOREBAY_ADDRESS and FOREBAY_SECRET belong together: set both, or neither"
                    .to_owned(),
            )),
        };
    };
    let wrong = |why: String| {
        Failure::Input(format!("FOREBAY_ADDRESS: `{place}` is no `host:port`: {why}"))
    };
    let mut found = place.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    let address = found.next().ok_or_else(|| wrong("the host has no address".to_owned()))?;
    let secret = Secret::try_from(secret.clone()).map_err(|why| {
        Failure::Input(format!("FOREBAY_SECRET: {why}, as `openssl rand -hex 32` prints them"))
    })?;
    Ok(Some(Told { address, secret }))
}

/// Opens rank 0's gate, tells the others where it is, and waits for them.
fn gather(
    wanted: &Wanted<'_>,
    launch: &Launch,
    hosts: Option<&[String]>,
    stop: &'static AtomicBool,
) -> Result<Crew, Failure> {
    let machine = |error: std::io::Error| Failure::Machine(format!("cannot begin a run: {error}"));
    let interface = wanted.calibrate.interface.as_deref();
    let address = facts::address(interface).map_err(Failure::Input)?;
    let told = told(&|name| std::env::var(name).ok())?.filter(|_| hosts.is_none());
    let (secret, run, place) = match &told {
        Some(told) => {
            let Rendezvous { run, secret, address, .. } = told.meets(launch);
            (secret, run, address)
        }
        None => {
            let (secret, run) = (Secret::new().map_err(machine)?, Run::new().map_err(machine)?);
            (secret, run, SocketAddr::new(address, 0))
        }
    };
    let member = Member { secret: secret.clone(), run, rank: 0 };
    let gate = Gate::open(place, member).map_err(|error| {
        Failure::Machine(format!(
            "cannot listen at {place}: {error}; --interface names another network interface"
        ))
    })?;
    let rendezvous = Rendezvous {
        run,
        secret,
        address: gate.address().map_err(machine)?,
        job: launch.job.clone(),
        node: launch.node.clone(),
    };
    let nobody: &mut dyn FnMut() -> Vec<String> = &mut Vec::new;
    let gathered = match hosts {
        None if told.is_some() => {
            gate.gather(launch.size, &launch.node, &wanted.directory, stop, nobody)
        }
        None => {
            let published = rendezvous.publish(&wanted.output);
            let published =
                published.map_err(|error| Failure::unwritable(&wanted.output, &error))?;
            let crew = gate.gather(launch.size, &launch.node, &wanted.directory, stop, nobody);
            drop(published);
            crew
        }
        Some(hosts) => {
            let directory = fs::canonicalize(&wanted.directory);
            let directory = directory.unwrap_or_else(|_| wanted.directory.clone());
            let mut remote = Remote::start(hosts, &wanted.calibrate.ssh, &rendezvous, &directory)?;
            let (node, ended) = (&launch.node, &mut || remote.ended());
            let crew = gate.gather(launch.size, node, &wanted.directory, stop, ended);
            if crew.is_ok() {
                // Ranks end when rank 0 does.
                std::mem::forget(remote);
            }
            crew
        }
    };
    gathered.map_err(|why| match interrupt::raised() {
        true => Failure::Interrupted("nothing was measured".to_owned()),
        false => Failure::Machine(why),
    })
}

/// Checks that the earlier samples are those of the same nodes.
fn same_nodes(crew: &Crew, out: &Output) -> Result<(), Failure> {
    let own: BTreeSet<String> =
        crew.leaders().into_iter().map(|(rank, _)| crew.node(rank)).collect();
    let of_nodes = out.journal.samples().iter().filter(|sample| sample.probe == "node");
    let earlier: BTreeSet<String> =
        of_nodes.map(|sample| sample.label("node").to_owned()).collect();
    if own.len() < 2 {
        let node = own.first().cloned().unwrap_or_default();
        let what = format!(
            "all ranks are on one node, {node}; start one rank on each of two nodes or more"
        );
        return Err(Failure::Input(what));
    }
    if earlier.is_empty() || earlier == own {
        return Ok(());
    }
    let listed = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    Err(Failure::Input(format!(
        "{} has samples of other nodes ({}; now {}); name another --output, or run on the same nodes",
        shown(out.directory()),
        listed(&earlier),
        listed(&own)
    )))
}

/// Checks that the working files fit into the directory, as each node sees it.
fn has_room(
    crew: &Crew,
    settings: &ClusterSettings,
    directory: &Path,
    writes_files: bool,
) -> Result<(), Failure> {
    let needed = text::bytes_written(crew, settings, writes_files) as u64;
    for (rank, _) in crew.leaders() {
        let (node, place) = (crew.node(rank), shown(directory));
        match crew.mate(rank).and_then(|mate| mate.facts.free) {
            None => {
                let what = format!(
                    "{node} has no directory {place}; name one on storage that all nodes mount, with --directory"
                );
                return Err(Failure::Machine(what));
            }
            Some(free) if free < needed + needed / 20 => {
                return Err(Failure::Machine(format!(
                    "{place} has {:.1} MB free on {node}, but {:.1} MB are needed: free some space, name another --directory, or lower `disk` or `checkpoint` in the plan",
                    free as f64 / 1e6,
                    needed as f64 * 1.05e-6
                )));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Writes a sample for each node with its cores and memory, unless it is there.
fn record_nodes(crew: &Crew, out: &mut Output) -> Result<(), Failure> {
    for (rank, _) in crew.leaders() {
        let (node, Some(mate)) = (crew.node(rank), crew.mate(rank)) else { continue };
        let is_known = |sample: &Sample| sample.probe == "node" && sample.label("node") == node;
        if out.journal.samples().iter().any(is_known) {
            continue;
        }
        let settings = [("cores", mate.facts.cores), ("memory", mate.facts.memory)];
        out.journal.append(Sample {
            probe: "node".to_owned(),
            labels: [("node".to_owned(), node)].into(),
            settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
            trial: 0,
            operations: 1,
            seconds: 1.0,
            core_seconds: 0.0,
            observed: BTreeMap::new(),
            beside: None,
            excluded: None,
            at: wall_clock(),
        })?;
    }
    Ok(())
}

/// Runs the survey with a progress bar.
fn measure(
    crew: &mut Crew,
    order: &Order,
    out: &mut Output,
    stop: &'static AtomicBool,
    quiet: bool,
) -> Result<Report, Failure> {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(1), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {elapsed} elapsed: {msg}") {
        bar.set_style(style);
    }
    tick(&bar);
    let mut show = |event: Event<'_>| match event {
        Event::Begin(what) => {
            bar.set_position(0);
            bar.set_message(what.to_owned());
        }
        Event::Trial(done, all) => {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
        Event::Note(text) => bar.suspend(|| output::warn(quiet, &text)),
    };
    let ended = Survey::new(crew, order, &mut out.journal, stop, &mut show).run();
    bar.finish_and_clear();
    ended.map_err(Failure::from)
}

/// Fits, writes the profile, and prints what was found. Returns an error if something could not be measured, or if a node or the storage
/// is worse than in the profile that is checked.
fn finish(
    wanted: &Wanted<'_>,
    out: &Output,
    comparison: &Comparison,
    report: Report,
    lost: &[String],
    mpi: Option<String>,
) -> Result<(), Failure> {
    let place = shown(out.directory());
    let kept = format!("{} samples are kept in {place}", out.journal.samples().len());
    let rest = match wanted.check {
        Some(_) => "a check measures all anew: run it again",
        None => "the same command measures the rest",
    };
    if report.interrupted {
        return Err(Failure::Interrupted(format!("{kept}; {rest}")));
    }
    let (machine, host) = described(out, comparison);
    let profile = out.fit(machine, host, BTreeMap::new());
    let mut said = text::after(&profile, out.journal.samples(), &report);
    let verdict = wanted.check.as_ref().map(|before| {
        let worse = again::worse(before, &profile, out.journal.samples(), &report.behind);
        said.push_str(&text::checked(&worse));
        worse
    });
    said.push_str(&mpi.unwrap_or_default());
    said.push_str(&match out.write(&profile)? {
        true => format!("{kept}, the profile in {}\n", shown(&out.profile())),
        false => format!("{kept}; {} is as it was\n", shown(&out.profile())),
    });
    if let (Some(scenario), false) = (&wanted.calibrate.scenario, report.behind.is_empty()) {
        said.push_str(&match cost::table(scenario, &profile) {
            Ok(text) => text,
            Err(why) => format!("{} was not simulated: {why}\n", shown(scenario)),
        });
    } else if !report.behind.is_empty() {
        let profile = shown(&out.profile());
        said.push_str(&format!(
            "what they cost a job: forebay profile nodes {profile} --scenario mine.toml\n"
        ));
    }
    output::text(&said)?;
    let mut missing = report.failures;
    missing.extend(lost.iter().map(|node| format!("{node} was lost")));
    missing.dedup();
    if !missing.is_empty() {
        let lines = missing.join("\n");
        return Err(Failure::Machine(format!("not everything was measured:\n{lines}\n{rest}")));
    }
    match verdict {
        Some(worse) if !worse.is_empty() => {
            Err(Failure::Check(format!("{} figures are worse than in the profile", worse.len())))
        }
        _ => Ok(()),
    }
}

/// Describes the cluster: its machine in words, and cores and memory of a usual node.
fn described(out: &Output, comparison: &Comparison) -> (String, Host) {
    let of = out.journal.samples().iter().filter(|sample| sample.probe == "node");
    let nodes: Vec<&Sample> = of.collect();
    let middle = |name: &str| {
        let mut values: Vec<f64> = nodes.iter().map(|sample| sample.setting(name)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    let named =
        ["processor", "memory", "kernel", "file system", "GPUs"].iter().filter_map(|name| {
            let found = comparison.same.iter().find(|(of, _)| of == name)?;
            Some(match *name {
                "kernel" => format!("Linux {}", found.1),
                _ => found.1.clone(),
            })
        });
    let words: Vec<String> =
        std::iter::once(format!("{} nodes", nodes.len())).chain(named).collect();
    (words.join(", "), Host { cores: middle("cores"), memory: middle("memory") })
}

/// Returns the number of the plan's probes that run on each node alone. Returns an error if `only` names a probe that the plan does not
/// have.
fn select(plan: &Plan, only: &[String]) -> Result<usize, Failure> {
    let alone = plan.probes(1.0, None)?;
    let names: Vec<&str> =
        alone.iter().map(|probe| probe.name()).chain(CLUSTER_PROBES.iter().copied()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        let known = names.join(", ");
        return Err(Failure::Input(format!(
            "--only {unknown}: the plan has no such probe; choose from {known}"
        )));
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    Ok(alone.iter().filter(|probe| wanted(probe.name())).count())
}

/// Returns the time for the probes of each node alone: the sum of their budgets [s].
fn alone_budget(plan: &Plan) -> f64 {
    let probes = plan.probes(1.0, None).unwrap_or_default();
    let share = plan.budget().as_secs_f64() / 4.0;
    let of = |budget: Option<Duration>| budget.map_or(share, |budget| budget.as_secs_f64());
    probes.iter().map(|probe| of(probe.budget())).sum::<f64>().max(1.0)
}

/// Returns the user's own files below `data`, with their sizes: at most [`MOST_OWN`], evenly spaced in order of name.
fn own_files(data: &Path) -> Result<Vec<(PathBuf, u64)>, Failure> {
    let mut files: Vec<(PathBuf, u64)> = Vec::new();
    let mut folders = vec![data.to_owned()];
    'folders: while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).map_err(|error| Failure::unreadable(&folder, &error))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            match fs::symlink_metadata(&path) {
                Ok(at) if at.is_dir() => folders.push(path),
                Ok(at) if at.is_file() && at.len() > 0 => {
                    let path = fs::canonicalize(&path).unwrap_or(path);
                    // Names go to other ranks as text.
                    if path.to_str().is_some() {
                        files.push((path, at.len().min(MOST_OF_FILE)));
                    }
                }
                _ => {}
            }
            if files.len() > LOOKED_AT {
                break 'folders;
            }
        }
    }
    if files.is_empty() {
        let what = format!(
            "{} has no file with anything in it; name the data set's directory",
            shown(data)
        );
        return Err(Failure::Input(what));
    }
    let step = files.len().div_ceil(MOST_OWN);
    Ok(files.into_iter().step_by(step).collect())
}

/// Returns the profile to check, read from a file.
pub(super) fn to_check(path: &Path) -> Result<Profile, Failure> {
    let profile = Profile::open(path).map_err(|error| Failure::Input(error.to_string()))?;
    if profile.node.is_empty() {
        let what = "has no nodes: only the profile of a cluster can be checked so; compare those of one machine with `forebay profile diff`";
        return Err(Failure::Input(format!("{} {what}", shown(path))));
    }
    Ok(profile)
}

/// Returns the directory of a check, beside the profile.
pub(super) fn check_directory(profile: &Path) -> PathBuf {
    profile.with_file_name("check")
}

/// Removes what an earlier check has left; returns its lock. Returns an error if that check still runs.
fn clear_check(directory: &Path) -> Result<Option<File>, Failure> {
    let lock = File::open(directory.join(calibrate_output::FILES[0])).ok();
    if let Some(Err(TryLockError::WouldBlock)) = lock.as_ref().map(File::try_lock) {
        let what =
            format!("another check is running into {}; wait until it ends", shown(directory));
        return Err(Failure::Input(what));
    }
    for file in calibrate_output::FILES {
        fs::remove_file(directory.join(file)).ok();
    }
    Ok(lock)
}
