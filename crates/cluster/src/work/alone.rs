//! Probes of a plan on this node alone, with the runner that calibrates one machine.

use super::Worker;
use crate::message::{Found, FromRank};
use forebay_calibrate::measurement::Sample;
use forebay_calibrate::probe::{Event, Journal, Machine, Plan, Ruler, Runner, Workspace};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is measured.
pub(super) struct Order {
    pub(super) name: String,
    pub(super) plan: String,
    pub(super) only: Vec<String>,
    pub(super) budget: f64,
    pub(super) earlier: Vec<Sample>,
}

/// Runs the probes; each sample goes to rank 0 as soon as it exists.
pub(super) fn run(worker: &Worker, order: &Order) -> Result<Found, String> {
    let plan = Plan::parse(&order.name, &order.plan).map_err(|error| error.to_string())?;
    // Working files are on the node's own disk.
    let named = ["SLURM_TMPDIR", "TMPDIR"].iter().filter_map(std::env::var_os);
    let directory = named.map(PathBuf::from).find(|path| path.is_dir());
    let directory = directory.unwrap_or_else(std::env::temp_dir);
    let machine = Machine::look(&directory);
    let mut probes = plan.probes(machine.cores, None).map_err(|error| error.to_string())?;
    let wanted = |name: &str| order.only.is_empty() || order.only.iter().any(|only| only == name);
    probes.retain(|probe| wanted(probe.name()));
    let (workspace, mut lines) =
        Workspace::create(&directory).map_err(|error| error.to_string())?;
    let place = workspace.directory("samples").map_err(|error| error.to_string())?;
    let journal = Journal::open(&place.join("samples.jsonl"));
    let mut journal = journal.map_err(|error| error.to_string())?;
    for sample in &order.earlier {
        journal.append(sample.clone()).map_err(|error| error.to_string())?;
    }
    let runner = Runner {
        rules: plan.trials,
        limits: plan.watch.limits(),
        cores: machine.cores,
        ruler: Ruler::measure(),
        seed: u64::from(plan.seed),
        workspace: &workspace,
        deadline: Instant::now() + Duration::from_secs_f64(order.budget),
        stop: &worker.stop,
    };
    let (mut said, mut failed) = (Vec::new(), Vec::new());
    let summary = runner.run(&mut probes, &mut journal, &mut |event| match event {
        Event::Trial(sample, _) => {
            let mut sample = sample.clone();
            sample.labels.insert("node".to_owned(), worker.node.clone());
            // A rank that cannot send is given up by rank 0, which says so.
            worker.to.send(&FromRank::Sample(Box::new(sample))).ok();
        }
        Event::Note(probe, text) => said.push(format!("{probe}: {text}")),
        Event::Failure(probe, error) => failed.push(format!("{probe}: {error}")),
        Event::Prepare(_) => {}
    });
    summary.map_err(|error| error.to_string())?;
    if !failed.is_empty() {
        return Err(failed.join("; "));
    }
    lines.extend(said);
    Ok(Found { lines, ..Found::default() })
}
