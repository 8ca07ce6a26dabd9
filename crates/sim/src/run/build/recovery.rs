//! Checkpoints and failures of job copies.

use std::collections::BTreeSet;

use forebay_scenario::{BatchInterval, Checkpoint, RankPart, ServerPlace, Stop, Writers};

use super::Builder;
use super::job::JobCopy;
use super::mount::Client;
use crate::communication::RankRoutes;
use crate::ids::{LoaderId, Parts, RangeVec};
use crate::job::{
    CheckpointRun, CheckpointSettings, EpochRun, FailureRun, FailureSettings, RecoveryRun,
    Restored, StatePart, WritePlace,
};

impl Builder<'_> {
    /// Adds the checkpoints and failures of a job copy, if it has any, and records them in its `parts`. The job copy is on nodes
    /// from `node` on and has loaders from `first` on. `servers` are the routes to its parameter servers, if it has any.
    pub(in crate::run) fn recovery(
        &mut self,
        of: &JobCopy,
        parts: &mut Parts,
        (node, first): (u32, LoaderId),
        servers: Option<&RankRoutes>,
    ) {
        let job = of.job;
        let recovery = self.parts.recoveries.next_id();
        let (mut checkpoints, mut failing) = (None, None);
        let (mut readers, mut loses) = (Vec::new(), Vec::new());
        if let Some(checkpoint) = &job.checkpoint {
            let storage = &self.scenario.storage[checkpoint.storage];
            let writers = self.state_parts(of, checkpoint, (node, servers), true);
            if let Some(failures) = &job.failures {
                if failures.reads_back {
                    readers = self.state_parts(of, checkpoint, (node, servers), false);
                }
                if checkpoint.is_lost_with_nodes(storage, failures.node) {
                    let all = of.job.parts_written(checkpoint);
                    let by_ranks = |node| all.iter().any(|part| part.node == node);
                    let by_servers = |node| writers.iter().any(|part| part.node == node);
                    let has_part =
                        |node| if servers.is_some() { by_servers(node) } else { by_ranks(node) };
                    loses.extend((0..job.failing_nodes()).map(has_part));
                }
            }
            // Files of the next job copy begin on other targets.
            self.checkpoint_files += writers.len() as u64;
            let settings = CheckpointSettings {
                shared: self.write_places(checkpoint, node, &writers),
                every: checkpoint.every,
                writers,
                asynchronous: checkpoint.asynchronous,
                when_busy: checkpoint.when_busy,
                pause: self.recurring(checkpoint.pause),
            };
            checkpoints = Some(CheckpointRun::new(of.number, recovery, settings));
        }
        if let Some(failures) = &job.failures {
            let settings = FailureSettings {
                when: failures.when.clone(),
                nodes: failures.nodes.clone(),
                loses,
                restart: failures.restart,
                readers,
                resume: failures.resume,
                epoch: self.epoch(of, first),
            };
            let nodes = job.failing_nodes();
            failing = Some(FailureRun::new(of.number, recovery, settings, nodes));
        }
        let recovers = job.checkpoint.is_some() || job.failures.is_some();
        let recovery = recovers.then(|| RecoveryRun::new(self.restored(of, first)));
        self.parts.recoveries.add(parts, recovery, (checkpoints, failing));
    }

    /// Returns the initial state of each loader of a job copy; its loaders are those from `first` on.
    fn restored(&self, of: &JobCopy, first: LoaderId) -> RangeVec<LoaderId, Restored> {
        let loaders = &self.parts.loaders;
        let restored = |l| Restored::new(loaders, l, of.job.prefill);
        RangeVec::new(first, loaders.loaders.ids_from(first).iter().map(restored))
    }

    /// Returns the places to which the `writers` of a job copy, on nodes from `node` on, write, if other job copies may write there
    /// too: the storage, or disks of nodes that jobs share.
    fn write_places(
        &self,
        checkpoint: &Checkpoint,
        node: u32,
        writers: &[StatePart],
    ) -> Vec<WritePlace> {
        let storage = checkpoint.storage;
        if self.scenario.storage[storage].path.is_remote() {
            return vec![WritePlace { storage, node: None }];
        }
        if !self.scenario.cluster.share_nodes {
            return Vec::new();
        }
        let nodes: BTreeSet<u32> = writers.iter().map(|part| node + part.node).collect();
        nodes.into_iter().map(|node| WritePlace { storage, node: Some(node) }).collect()
    }

    /// Returns the parts of a checkpoint that a job copy's ranks or servers write or, if `writes` is false, read back after a
    /// failure.
    fn state_parts(
        &mut self,
        of: &JobCopy,
        checkpoint: &Checkpoint,
        (node, servers): (u32, Option<&RankRoutes>),
        writes: bool,
    ) -> Vec<StatePart> {
        if let Some(servers) = servers {
            return self.server_parts(of, checkpoint, (servers, node), writes);
        }
        let inside = !self.scenario.storage[checkpoint.storage].path.is_remote();
        let (parts, client) = match writes {
            true => {
                let (most, alone) =
                    (checkpoint.per_writer, self.scenario.has_single_writer(of.job));
                (of.job.parts_written(checkpoint), Client::Writer { most, alone })
            }
            false => (of.job.parts_read(checkpoint, inside), Client::ReadBack),
        };
        let is_simulated = |part: &RankPart| of.nodes.binary_search(&part.node).is_ok();
        let parts: Vec<RankPart> = parts.into_iter().filter(is_simulated).collect();
        let mut found = Vec::with_capacity(parts.len());
        // Ranks of a node share its route to the storage.
        for of_node in parts.chunk_by(|a, b| a.node == b.node) {
            self.node = node + of_node[0].node;
            let (mount, ..) = self.mount(checkpoint.storage, client, None);
            found.extend(of_node.iter().map(|part| {
                let file = self.checkpoint_files + part.file as u64;
                StatePart {
                    node: part.node,
                    bytes: part.bytes,
                    way: mount.way_of_file(&mut self.env.network, file, part.bytes),
                }
            }));
        }
        found
    }

    /// Returns the parts of a checkpoint that servers write or read: each server its part, unless the first one writes
    /// everything. Then all servers read from its file; if that file is inside the job's nodes, only the first server reads, and
    /// the time in which it sends the others their parts is not counted.
    fn server_parts(
        &mut self,
        of: &JobCopy,
        checkpoint: &Checkpoint,
        (ways, node): (&RankRoutes, u32),
        writes: bool,
    ) -> Vec<StatePart> {
        let Some(of_job) = of.job.servers() else { return Vec::new() };
        let inside = !self.scenario.storage[checkpoint.storage].path.is_remote();
        let shares = match checkpoint.writers {
            Writers::First if writes || inside => vec![1.0],
            Writers::First | Writers::Each => of_job.shares(),
        };
        let (mut parts, first) = (Vec::new(), of.job.ranks_by_node().sum::<u32>());
        for (number, share) in (0..).zip(shares).filter(|(_, share)| *share > 0.0) {
            let port = ways.port(first + number);
            let (place, at, client) = match of_job.place {
                ServerPlace::Own { .. } => {
                    let nic = port.outside[usize::from(!writes)].first().copied();
                    let most = checkpoint.per_writer;
                    (of.job.nodes + number, node, Client::Server { nic, writes, most })
                }
                ServerPlace::WithWorkers => {
                    let client = match writes {
                        true => Client::Writer { most: checkpoint.per_writer, alone: false },
                        false => Client::ReadBack,
                    };
                    (port.node - node, port.node, client)
                }
            };
            let file = match checkpoint.writers {
                Writers::First => self.checkpoint_files,
                Writers::Each => self.checkpoint_files + u64::from(number),
            };
            let bytes = share * checkpoint.bytes;
            self.node = at;
            let (mount, ..) = self.mount(checkpoint.storage, client, None);
            let way = mount.way_of_file(&mut self.env.network, file, bytes);
            parts.push(StatePart { node: place, bytes, way });
        }
        parts
    }

    /// Returns the size of an epoch of a job copy whose first loader is `first`.
    fn epoch(&self, of: &JobCopy, first: LoaderId) -> EpochRun {
        let dataset = &self.scenario.datasets[of.job.dataset];
        let interval = match of.job.batch_interval {
            BatchInterval::Every(interval) => interval,
            BatchInterval::Adaptive { .. } => 1.0,
        };
        let requests = self.parts.loaders[first].requests.as_ref();
        EpochRun {
            samples: dataset.samples,
            places: dataset.places(),
            per_place: dataset.layout.samples_per_place().min(dataset.samples),
            goal: matches!(self.scenario.stop_of(of.job), Stop::Epochs(_)),
            interval,
            copies: u64::from(of.job.models_per_loader()),
            batch: of.job.batch,
            batches: requests.map_or(1, |requests| requests.epoch()),
        }
    }
}
