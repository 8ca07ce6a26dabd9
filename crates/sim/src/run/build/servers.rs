//! Exchanges of model copies, or of the GPUs that hold a part of the model, with parameter servers.

use forebay_engine::Span;
use forebay_scenario::{BucketShare, Members, Servers, Sync};

use super::Builder;
use super::job::JobCopy;
use super::layout::{Laid, Set};
use crate::communication::{Communicator, Ports, ServerRun, ServerTracks, ServerWorker, Shard};
use crate::ids::{DeviceId, RangeVec, ServersId};
use crate::job::Program;

/// The bucket parts that servers hold, by bucket, then by server, with the number of tensors of each bucket.
type Held = Vec<(u32, Vec<BucketShare>)>;

impl Builder<'_> {
    /// Adds the exchange of a job copy's model copies, each on one GPU, with its parameter servers, if it has any. Its devices
    /// are those from `first` on, and `copy` is its number among the copies of its job.
    pub(in crate::run) fn servers_of_copies(&mut self, of: &JobCopy, copy: u32, first: DeviceId) {
        let Some((sync, servers)) = servers_of(of).filter(|_| of.job.parallelism.is_none()) else {
            return;
        };
        let (ranks, learners) = (of.job.ranks(), of.job.learners.most);
        let of_worker =
            |worker: u32| Members::new((first + worker * learners).number(), 1, learners);
        let buckets = sync.buckets.iter().zip(&servers.parts);
        let held = buckets.map(|(bucket, parts)| (bucket.tensors, parts.clone())).collect();
        let ports = (Members::new(0, 1, ranks), 1);
        let name = format!("{}[{copy}] servers", of.job.name);
        let all = (0..ranks).map(of_worker).collect();
        let servers = self.server_run(of, ports, all, (&name, held), true);
        let workers: Vec<ServerWorker> = (0..ranks * learners)
            .map(|d| ServerWorker { servers, worker: d / learners, experts: false })
            .collect();
        self.parts.communicators.add_workers(first, workers.chunks(1));
    }

    /// Adds the exchanges of a job copy's GPUs with its parameter servers, if it has any: one for each part of the model, among
    /// the GPUs that hold it. `programs` has the program of each stage for steps
    /// that end with an exchange.
    pub(in crate::run) fn servers_of_parts(
        &mut self,
        of: &JobCopy,
        copy: u32,
        laid: &Laid<'_>,
        programs: &[Program],
    ) {
        let Some((_, servers)) = servers_of(of) else { return };
        let stages = of.job.shares().len();
        let none = (0..of.job.models() * stages as u32).map(|_| Vec::new());
        let mut workers = RangeVec::new(laid.first, none);
        let (mut bytes, mut counted) = (Vec::new(), false);
        for (stage, program) in programs.iter().enumerate().take(stages) {
            let name = format!("{}[{copy}] servers, stage {stage}", of.job.name);
            for (kind, sets) in laid.sets(stage as u32) {
                let experts = match kind {
                    Communicator::Data => false,
                    Communicator::ExpertData => true,
                    _ => continue,
                };
                let own = || program.pushed.iter().filter(|bucket| bucket.experts == experts);
                if own().next().is_none() {
                    continue;
                }
                let parts = servers.divide(&mut bytes, own().map(|of| (of.bytes, of.raw)));
                let held: Held = own().map(|bucket| bucket.tensors).zip(parts).collect();
                for set in &sets {
                    self.servers_of_set(of, set, (&name, &held, experts), !counted, &mut workers);
                }
                counted = true;
            }
        }
        let all = workers.as_slice().iter().map(Vec::as_slice);
        self.parts.communicators.add_workers(laid.first, all);
    }

    /// Adds an exchange for each group of GPUs of a set, and each device's workers to `workers`. If `counts` is true, the
    /// updates of the first group count as updates of the model.
    fn servers_of_set(
        &mut self,
        of: &JobCopy,
        Set { devices, copies, groups }: &Set,
        (name, held, experts): (&str, &Held, bool),
        counts: bool,
        workers: &mut RangeVec<DeviceId, Vec<ServerWorker>>,
    ) {
        for (group, place) in groups.iter().zip(0..) {
            let (per_copy, learners) = (group.ranks / copies, of.job.learners.most);
            let stages = of.job.shares().len() as u32;
            let first = |worker: u32| devices.gpu(worker / per_copy * learners);
            let of_worker = |worker| Members::new(first(worker), stages, learners);
            let all = (0..group.ranks).map(of_worker).collect();
            let (ports, counts) = ((*group, per_copy), counts && place == 0);
            let servers = self.server_run(of, ports, all, (name, held.clone()), counts);
            for worker in 0..group.ranks {
                for device in of_worker(worker).gpus() {
                    let worker = ServerWorker { servers, worker, experts };
                    workers[DeviceId::new(device)].push(worker);
                }
            }
        }
    }

    /// Adds an exchange of workers, given by their ports and their number in each model copy, with the parameter servers of a
    /// job copy. Each worker exchanges for the given devices. `counts` says whether the updates of the part count as updates of the
    /// model. Returns the exchange's id.
    fn server_run(
        &mut self,
        of: &JobCopy,
        (workers, per_copy): (Members, u32),
        devices: Vec<Members>,
        (name, held): (&str, Held),
        counts: bool,
    ) -> ServersId {
        let (_, id) = self.parts.communicators.next_ids();
        let (interval, slack, number, per_tensor) = match servers_of(of) {
            Some((sync, servers)) => {
                let slack = servers.slack.unwrap_or(u64::MAX);
                (sync.interval, slack, servers.number(), sync.transport.per_tensor)
            }
            None => (1, 0, 0, 0.0),
        };
        let shard = |(number, part): (u32, BucketShare)| {
            // A bucket without bytes is pushed to the first server.
            let used = number == 0 || part.push > 0 || part.pull > 0;
            used.then(|| Shard::new(number, part, workers.ranks))
        };
        let bucket = |(tensors, parts): (u32, Vec<BucketShare>)| {
            let before = Span::from_seconds(per_tensor * f64::from(tensors));
            (before, (0..).zip(parts).filter_map(shard).collect())
        };
        let buckets = held.into_iter().map(bucket).collect();
        let first = of.job.ranks_by_node().sum();
        let ports = Ports { workers, per_copy, servers: number, first };
        let (of, steps) = ((of.number, id), (interval, slack));
        let shown = (counts, self.server_tracks(name));
        let run = ServerRun::new(of, steps, ports, devices, buckets, shown);
        self.parts.communicators.add_servers(run);
        id
    }

    /// Returns the timeline's tracks for bytes in transfer to and from servers and for the lead of the fastest model copy;
    /// `None` if no timeline is recorded.
    fn server_tracks(&mut self, process: &str) -> Option<ServerTracks> {
        let process = self.env.recorder.as_mut()?.process(process.to_owned());
        let moving = self.track(Some(process), || "on the way [B]".to_owned())?;
        let ahead = self.track(Some(process), || "lead [exchanges]".to_owned())?;
        Some(ServerTracks { moving, ahead })
    }
}

/// Returns the parameter servers of a job copy, and the exchange with them, if it has any.
fn servers_of<'j>(of: &JobCopy<'j>) -> Option<(&'j Sync, &'j Servers)> {
    let sync = of.job.sync.as_ref()?;
    Some((sync, sync.servers.as_ref()?))
}
