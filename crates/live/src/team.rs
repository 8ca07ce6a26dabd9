//! Creates the workers of a job copy: the state that the workers of each loader share, and the state that each worker owns.

use super::clock::Clock;
use super::content::GpuPath;
use super::data::Data;
use super::fault::Failure;
use super::loader_stream::LoaderStream;
use super::pace::{Limits, Pace, Pacer};
use super::reader::Reader;
use super::task::CopyTask;
use super::work::{Common, Hands, Link};
use forebay_engine::Time;
use forebay_model::random::{FileOrder, Streams};
use forebay_scenario::{Job, Scenario};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

/// Returns the workers of a job copy in order, each with its name. Setting `over` ends their waits.
pub(super) fn team(
    scenario: &Scenario,
    part: &CopyTask,
    over: &Arc<AtomicBool>,
    paths: &[GpuPath],
) -> Result<Vec<(String, Hands)>, Failure> {
    let job = &scenario.jobs[part.job];
    let data = Arc::new(Data::find(scenario, job.dataset, part.location.as_ref())?);
    let streams = Streams::new(scenario.run.seed, part.replication);
    let pacer = pacer(scenario, part, streams, over)?;
    let mut team = Vec::new();
    for rank in 0..job.loaders_per_node() {
        let stream = LoaderStream { owner: part.owner, rank, ranks: job.loaders(), streams };
        let order =
            FileOrder::new(scenario.datasets[job.dataset].visits(), job.split, rank, stream.ranks);
        let next_file = Arc::new(AtomicU64::new(0));
        let reader = || {
            let pace = pacer.as_ref().map(Pace::new);
            Reader::new(data.clone(), order.clone(), stream, next_file.clone(), pace)
        };
        let path = paths.get(rank as usize).cloned();
        let common = common(scenario, job, stream, over, path);
        for (index, stage) in job.loader.stages.iter().enumerate() {
            for _ in 0..stage.workers {
                let reader = (index == 0).then(&reader);
                let name = format!("{} {}", stage.name, team.len());
                team.push((name, Hands::new(&job.loader, index, reader, common.clone())));
            }
        }
    }
    Ok(team)
}

/// Returns the state that the workers of one loader share. It includes an emulated link to each of the loader's devices, if the
/// scenario limits the links' bandwidth.
fn common(
    scenario: &Scenario,
    job: &Job,
    stream: LoaderStream,
    over: &Arc<AtomicBool>,
    path: Option<GpuPath>,
) -> Common {
    let bandwidth = scenario.cluster.node.pcie;
    let emulated = bandwidth.is_finite() && path.is_none();
    let links = if emulated { job.copies_per_loader() } else { 0 };
    let link = |_| Link { bandwidth, free_at: Mutex::new(Time::ZERO) };
    Common {
        stream,
        links: Arc::new((0..links).map(link).collect()),
        path,
        decoded_size: scenario.datasets[job.dataset].decoded_size,
        image: scenario.datasets[job.dataset].image,
        clock: Clock::from_monotonic(0),
        over: over.clone(),
    }
}

/// Returns the pacer that holds the job copy's readers to the limits of its storage; `None` if no limits are enforced.
fn pacer(
    scenario: &Scenario,
    part: &CopyTask,
    streams: Streams,
    over: &Arc<AtomicBool>,
) -> Result<Option<Arc<Pacer>>, Failure> {
    let mounted = part.location.as_ref().is_some_and(|location| location.mounted);
    let limits = Limits::for_storage(scenario, scenario.jobs[part.job].storage);
    let Some(limits) = limits.filter(|_| !mounted) else { return Ok(None) };
    let pacer = Pacer::new(limits, part.books.as_deref(), streams, part.owner, over.clone())?;
    Ok(Some(Arc::new(pacer)))
}
