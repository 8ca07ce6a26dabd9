//! Samples of nodes: which nodes are simulated, and whether they can represent all nodes.

use super::storage::{Bandwidth, Service, Sharing};
use super::sync::Fidelity;
use super::{BackgroundLoad, Faulty, FaultyLink, Job, Scenario, Stop, Storage};
use std::collections::BTreeSet;
use std::ops::Range;

/// Largest number of events of a run for which "auto" simulates all nodes.
const FEW_EVENTS: f64 = 20e6;

/// Number of events of the largest sample that "auto" aims at.
const EVENTS: f64 = 15e6;

/// Smallest and largest sample of "auto" [nodes].
const NODES: (u32, u32) = (16, 256);

/// Approximate number of events for each sample that is read (open, latency, transfer, decode), and for each step of a model copy.
const EVENTS_OF_SAMPLE: f64 = 4.0;
const EVENTS_OF_STEP: f64 = 3.0;

/// Number of steps after which most runs without a length end.
const KNOWN_AFTER: f64 = 200.0;

/// Tolerated relative difference between the simulated share of a job's nodes and that of all nodes. The job's part of the load on
/// shared storages is wrong by as much.
const TOLERATED: f64 = 0.02;

/// Tolerated difference between the part of unique nodes in the sample and among all nodes. Means over nodes are those of the sample, so
/// that unique nodes count too much by as much.
const UNLIKE: f64 = 0.07;

/// The samples of a run: the divisor of the largest size, and the phase of [`Scenario::sampled`]. Different phases give different
/// nodes, as far as there are enough, so that the differences between the results show the sampling error.
const SAMPLES: [(u32, f64); 3] = [(1, 0.0), (2, 1.0 / 3.0), (4, 2.0 / 3.0)];

/// A sample of a cluster's nodes. Each node that is not simulated is taken to be like the simulated ones of its range.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledNodes {
    /// Ranges of nodes that are alike, in order: nodes with equal hardware and the same jobs, none of which has a task or a fault
    /// of its own.
    pub alike: Vec<Range<u32>>,
    /// The simulated nodes, ascending.
    pub nodes: Vec<u32>,
    /// Number of simulated nodes divided by the number of nodes that jobs use.
    pub share: f64,
}

impl SampledNodes {
    /// Returns the simulated nodes among `nodes`.
    #[must_use]
    pub fn among(&self, nodes: &Range<u32>) -> &[u32] {
        let at = |node: u32| self.nodes.partition_point(|simulated| *simulated < node);
        &self.nodes[at(nodes.start)..at(nodes.end)]
    }

    /// Returns the number of nodes that simulated node number `node` represents, itself included.
    #[must_use]
    pub fn represents(&self, node: u32) -> f64 {
        let range = self.alike.iter().find(|range| range.contains(&node));
        range.map_or(1.0, |range| range.len() as f64 / self.among(range).len().max(1) as f64)
    }

    /// Returns the ranges of nodes that are alike among `nodes`.
    pub fn alike_among(&self, nodes: Range<u32>) -> impl Iterator<Item = &Range<u32>> {
        self.alike.iter().filter(move |of| nodes.start <= of.start && of.end <= nodes.end)
    }
}

impl Scenario {
    /// Returns the samples to simulate, of about `wanted` nodes and of half and a quarter of that number.
    #[must_use]
    pub fn samples(&self, wanted: u32) -> [SampledNodes; 3] {
        SAMPLES.map(|(divisor, phase)| self.sampled((wanted / divisor).max(2), phase))
    }

    /// Returns a sample of about `wanted` nodes, at least two of each range of nodes that are alike. `phase` (0 to 1) selects the place of
    /// its nodes among those that are alike.
    #[must_use]
    pub fn sampled(&self, wanted: u32, phase: f64) -> SampledNodes {
        let alike = self.alike_nodes();
        let all: u32 = alike.iter().map(ExactSizeIterator::len).map(|len| len as u32).sum();
        let share = f64::from(wanted) / f64::from(all.max(1));
        let mut nodes = Vec::new();
        for range in &alike {
            let len = range.len() as u32;
            // Two nodes show how much equal nodes differ.
            let number = ((share * f64::from(len)).round() as u32).clamp(len.min(2), len);
            let place = |i: u32| (f64::from(i) + phase) * f64::from(len) / f64::from(number);
            nodes.extend((0..number).map(|i| range.start + (place(i) as u32).min(len - 1)));
        }
        let share = nodes.len() as f64 / f64::from(all.max(1));
        SampledNodes { alike, nodes, share }
    }

    /// Returns the ranges of nodes, of those that jobs use, that are alike, in order.
    fn alike_nodes(&self) -> Vec<Range<u32>> {
        let (mut ends, mut used) = (BTreeSet::new(), 0);
        for (job, nodes) in self.nodes_of_copies() {
            ends.extend([nodes.start, nodes.end]);
            used = used.max(nodes.end);
            if self.has_single_writer(job) {
                ends.insert(nodes.start + 1);
            }
        }
        for range in self.cluster.alike(0..used) {
            ends.insert(range.start);
        }
        let slow = self.faults.iter().filter(|of| of.what != Faulty::Link(FaultyLink::Uplink));
        for node in slow.flat_map(|fault| &fault.nodes).filter(|node| **node < used) {
            ends.extend([*node, *node + 1]);
        }
        let ends: Vec<u32> = ends.into_iter().collect();
        ends.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// Returns the number of nodes that jobs use.
    #[must_use]
    pub fn nodes_in_use(&self) -> u32 {
        self.nodes_of_copies().into_iter().map(|(_, nodes)| nodes.end).max().unwrap_or(0)
    }

    /// Returns the nodes of each job copy.
    fn nodes_of_copies(&self) -> Vec<(&Job, Range<u32>)> {
        let (mut all, mut first) = (Vec::new(), 0);
        for job in &self.jobs {
            let copies = if self.cluster.share_nodes { 1 } else { job.copies };
            for _ in 0..copies {
                all.push((job, first..first + job.nodes));
                first += if self.cluster.share_nodes { 0 } else { job.nodes };
            }
        }
        all
    }

    /// Returns whether the first node of `job` writes the job's checkpoints alone.
    #[must_use]
    pub fn has_single_writer(&self, job: &Job) -> bool {
        let written = job.checkpoint.as_ref().map(|of| job.bytes_written_by_node(of));
        written.is_some_and(|bytes| job.nodes > 1 && bytes[1..].iter().all(|bytes| *bytes == 0.0))
    }

    /// Returns why a sample of about `wanted` nodes cannot represent all nodes; `None` if it can.
    #[must_use]
    pub fn why_not_sampled(&self, wanted: u32) -> Option<String> {
        let of_job = self.jobs.iter().find_map(|job| {
            let why = self.why_job_is_not_sampled(job)?;
            Some(format!("`{}` {why}", job.name))
        });
        of_job
            .or_else(|| self.why_storage_is_not_sampled())
            .or_else(|| self.samples(wanted).iter().find_map(|of| self.why_out_of_proportion(of)))
            .or_else(|| self.why_unlike(wanted))
    }

    /// Returns why a sample does not have nodes of all jobs in proportion; `None` if it does.
    fn why_out_of_proportion(&self, sampled: &SampledNodes) -> Option<String> {
        let share = |nodes: &Range<u32>| sampled.among(nodes).len() as f64 / nodes.len() as f64;
        let mut copies = self.nodes_of_copies().into_iter();
        let is_apart = |nodes: &Range<u32>| (share(nodes) / sampled.share - 1.0).abs() > TOLERATED;
        copies.find(|(_, nodes)| is_apart(nodes)).map(|(job, nodes)| {
            format!(
                "of the nodes of `{}` {} of {} would be simulated, and of all nodes {:.0} %",
                job.name,
                sampled.among(&nodes).len(),
                nodes.len(),
                100.0 * sampled.share
            )
        })
    }

    /// Returns why means over the nodes of a sample are not those of all nodes; `None` if they are.
    fn why_unlike(&self, wanted: u32) -> Option<String> {
        let sampled = self.sampled(wanted, 0.0);
        let all = f64::from(self.nodes_in_use());
        let single: Vec<&Range<u32>> =
            sampled.alike.iter().filter(|of| sampled.among(of).len() == of.len()).collect();
        let nodes: usize = single.iter().map(|of| of.len()).sum();
        let (of_sample, of_all) = (nodes as f64 / sampled.nodes.len() as f64, nodes as f64 / all);
        (of_sample - of_all > UNLIKE).then(|| {
            format!(
                "{nodes} nodes that no other is like would be {:.0} % of the sample",
                100.0 * of_sample
            )
        })
    }

    fn why_job_is_not_sampled(&self, job: &Job) -> Option<&'static str> {
        let read = self.storage.get(job.reads_from());
        let flows = |sync: &super::Sync| sync.fidelity == Fidelity::Flow && sync.measured.is_none();
        let beside = job.sync.as_ref().is_some_and(flows) && job.nodes > 1;
        let several = self.nodes_of_copies().len() > 1 || self.jobs.len() > 1;
        let among_jobs = several && (self.cluster.share_nodes || self.cluster.racks.is_some());
        let slow_links = self.faults.iter().any(|fault| matches!(fault.what, Faulty::Link(_)));
        let remote = read.is_some_and(|storage| storage.path.is_remote()) && job.reads_data();
        let on_nic = self.cluster.storage_nic.is_none() && self.cluster.nic.is_finite();
        let reasons = [
            (job.servers().is_some(), "exchanges gradients with parameter servers"),
            (job.parallelism.is_some(), "splits model copies over several ranks"),
            (
                beside && (among_jobs || slow_links),
                "exchanges gradients, transfer by transfer, over links that other jobs use or faults slow",
            ),
            (job.pipeline.as_ref().is_some_and(|of| of.overlap), "has steps that overlap"),
            (job.averaging().is_some(), "averages the models of learners"),
            (!job.learners.is_one(), "has several learners on each GPU"),
            (!job.copies_each.is_empty(), "has different numbers of model copies on its nodes"),
            (job.reads_parts(), "has a part of its data set on each node"),
            (
                job.sync.as_ref().is_some_and(|sync| sync.root.is_some()),
                "reduces gradients to a root, which has more to do than others",
            ),
            (
                read.and_then(|storage| storage.cache).is_some_and(|cache| cache.peers),
                "has nodes that read from each other's caches",
            ),
            (
                beside && remote && on_nic,
                "exchanges gradients, transfer by transfer, over the NICs by which it reads: write `fidelity = \"analytic\"` for \
                 the exchange, or `cluster.network.storage_nic`",
            ),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
    }

    fn why_storage_is_not_sampled(&self) -> Option<String> {
        let shared = self.storage.iter().filter(|storage| storage.path.is_remote());
        let mut other = shared.filter(|storage| storage.path.service != Service::Link);
        other.next().map(|storage| {
            format!(
                "`{}` has measured throughput for each number of requests, or a disk head: neither can be divided",
                storage.name
            )
        })
    }

    /// Returns the sizes of samples that "auto" may simulate, smallest first; none if it simulates all nodes, because they are few or the
    /// run is short.
    pub(super) fn sizes_for_auto(&self) -> impl Iterator<Item = u32> {
        let least = self.least_for_auto();
        std::iter::successors(least, |size| (*size < NODES.1).then_some(2 * size))
    }

    fn least_for_auto(&self) -> Option<u32> {
        let of_copy = |(job, nodes): (&Job, Range<u32>)| {
            let [of_node, number] = [self.events_of_node(job), nodes.len() as f64];
            [of_node * number, number]
        };
        let copies = self.nodes_of_copies().into_iter().map(of_copy);
        let [events, nodes] = copies.fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
        if events <= FEW_EVENTS {
            return None;
        }
        let affordable = (nodes * EVENTS / events).clamp(f64::from(NODES.0), f64::from(NODES.1));
        // A power of two, so that small changes of the scenario do not change the nodes.
        let number = 1 << (affordable as u32).ilog2();
        (f64::from(number) * 2.0 <= nodes).then_some(number)
    }

    /// Estimates the number of events that a node of `job` causes.
    fn events_of_node(&self, job: &Job) -> f64 {
        let seconds = job.step_seconds().max(1e-9);
        let goal = self.goal(job);
        let steps = match self.stop_of(job) {
            Stop::Duration(duration) => duration / seconds,
            Stop::Known { .. } => KNOWN_AFTER,
            Stop::Steps(_) | Stop::Epochs(_) if goal.steps != super::ENDLESS => goal.steps as f64,
            Stop::Steps(_) | Stop::Epochs(_) => {
                goal.fresh as f64 / (job.batch as f64 * f64::from(job.models()))
            }
        };
        let samples = if job.reads_data() { job.batch as f64 * EVENTS_OF_SAMPLE } else { 0.0 };
        let copies = f64::from(job.copies_per_node);
        let shared = if self.cluster.share_nodes { f64::from(job.copies) } else { 1.0 };
        shared * copies * steps * (samples + EVENTS_OF_STEP)
    }

    /// Returns the scenario in which storages that nodes share, and loads on them from outside, have only `share` of their size.
    #[must_use]
    pub fn with_share_of_storages(&self, share: f64) -> Scenario {
        let mut scenario = self.clone();
        let nic = self.cluster.data_nic();
        for storage in scenario.storage.iter_mut().filter(|storage| storage.path.is_remote()) {
            storage.keep_share(share, nic);
        }
        for background in &mut scenario.background {
            if let BackgroundLoad::Requests { rate, .. } = &mut background.load {
                *rate *= share;
            }
        }
        scenario
    }
}

impl Storage {
    /// Leaves only `share` of what the storage serves for all nodes together; a node's NIC has bandwidth `nic` [B/s].
    fn keep_share(&mut self, share: f64, nic: f64) {
        let path = &mut self.path;
        if let Some(number) = path.in_flight(nic) {
            let scaled = (f64::from(number) * share).round().max(1.0);
            let scaled = if number == u32::MAX { None } else { Some(scaled as u32) };
            match &mut path.sharing {
                Sharing::Fair => {}
                Sharing::InOrder { in_flight } | Sharing::RoundRobin { in_flight, .. } => {
                    *in_flight = scaled;
                }
            }
        }
        path.bandwidth = match &path.bandwidth {
            Bandwidth::Fixed(rate) => Bandwidth::Fixed(share * rate),
            Bandwidth::ByTransfers(table) => {
                let number = (table.len() as f64 * share).ceil().max(1.0) as usize;
                let of = |n: usize| {
                    let all = ((n as f64 / share).round() as usize).clamp(1, table.len());
                    share * table[all - 1]
                };
                Bandwidth::ByTransfers((1..=number).map(of).collect())
            }
        };
        path.operations *= share;
        if let Some(burst) = &mut path.burst {
            [&mut burst.bandwidth, &mut burst.bucket, &mut burst.content]
                .into_iter()
                .for_each(|of| *of *= share);
        }
        if let Some(burst) = &mut path.operation_burst {
            [&mut burst.sustained, &mut burst.fast, &mut burst.bucket, &mut burst.content]
                .into_iter()
                .for_each(|of| *of *= share);
        }
        if let Some(limit) = &mut path.limit {
            [&mut limit.rate, &mut limit.burst, &mut limit.tokens]
                .into_iter()
                .for_each(|of| *of *= share);
        }
        if let Some(targets) = &mut path.targets {
            targets.bandwidth *= share;
        }
        if let Some(write) = self.tier.as_mut().and_then(|tier| tier.write.as_mut()) {
            *write *= share;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Override, Problems, Scenario, ScenarioFile};

    const NODES: &str = r#"
name = "nodes"
run.steps = 20
storage.nfs.file-server = { bandwidth = "100 GB/s", operations = "50000 /s" }
dataset.images = { samples = 1_000_000, sample_size = "100 kB" }
cluster = { nodes = 100, node = { cores = 8, gpus = 4 }, network.nic = "10 GB/s" }
[[job]]
name = "train"
dataset = "images"
storage = "nfs"
nodes = 100
batch = 8
loader.tf-queue = { threads = 2, capacity = "16 samples", decode = "1 ms" }
model.step = "10 ms"
"#;

    fn with(changes: &[&str]) -> Result<Scenario, Problems> {
        let changes: Vec<Override> =
            changes.iter().map(|change| change.parse().expect("an override")).collect();
        ScenarioFile::parse("nodes.toml", NODES.to_owned())?.resolve(&changes)
    }

    fn right(changes: &[&str]) -> Scenario {
        with(changes).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn a_sample_has_nodes_of_each_range_of_nodes_that_are_alike() {
        // System: 100 nodes, of which 20 are old, and node 3 has a slow GPU. Expectation: the slow node, and the others in proportion;
        // other phases give other nodes.
        let scenario = right(&[
            "cluster.nodes=80",
            "cluster.group.old={ nodes = 20, node.gpu_speed = 0.5 }",
            "fault=[{ node = \"gpus\", nodes = [3], factor = 0.5 }]",
        ]);
        let sample = scenario.sampled(20, 0.0);
        assert_eq!(sample.alike, [0..3, 3..4, 4..80, 80..100]);
        assert_eq!(sample.among(&(3..4)), [3]);
        assert_eq!([0..4, 4..80, 80..100].map(|range| sample.among(&range).len()), [3, 15, 4]);
        assert_eq!(sample.represents(80), 5.0);
        assert_eq!(sample.share, 0.22);
        let other = scenario.sampled(20, 0.5);
        assert_eq!(other.nodes.len(), sample.nodes.len());
        let common = other.nodes.iter().filter(|node| sample.nodes.contains(node));
        assert!(common.count() <= 3);
    }

    #[test]
    fn auto_samples_many_nodes_and_long_runs_only() {
        let sampled = |changes: &[&str]| right(&[changes, &["fidelity.nodes=auto"]].concat());
        assert_eq!(sampled(&[]).fidelity.nodes, None);
        let many = ["cluster.nodes=20000", "job.nodes=20000", "run.steps=200"];
        assert_eq!(sampled(&many).fidelity.nodes, Some(256));
        assert_eq!(sampled(&["run.steps=20000"]).fidelity.nodes, Some(16));
    }

    #[test]
    fn nodes_that_are_not_alike_are_refused_with_the_reason() {
        for (changes, reason) in [
            (
                &["job.sync.parameter-server={ parameters = \"1 MB\", servers = 2 }"][..],
                "parameter servers",
            ),
            (
                &["job.sync.allreduce={ gradients = \"1 MB\", fidelity = \"flow\" }"],
                "transfer by transfer, over the NICs by which it reads",
            ),
            (&["job.parallel.data.learners=2"], "several learners"),
        ] {
            let refused = with(&[changes, &["fidelity.nodes=10"]].concat());
            let text = refused.expect_err("refused").to_string();
            assert!(text.contains(reason), "{text}");
        }
        let scenario = right(&[
            "job.sync.parameter-server={ parameters = \"1 MB\", servers = 2 }",
            "run.steps=100000",
            "fidelity.nodes=auto",
        ]);
        assert_eq!(scenario.fidelity.nodes, None);
        assert!(scenario.remarks.iter().any(|remark| remark.contains("parameter servers")));
    }

    #[test]
    fn storages_that_nodes_share_keep_their_share_of_everything() {
        let stores = [
            "file-server = { bandwidth = \"100 GB/s\", operations = \"50000 /s\" }",
            "file-server = { bandwidth = \"100 GB/s\", burst = { bandwidth = \"200 GB/s\", bucket = \"1 TB\" } }",
            "object-store = { bandwidth = \"10 GB/s\", requests = \"1000 /s\" }",
            "local-disk = { bandwidth = \"1 GB/s\" }",
        ];
        for store in stores {
            let text = NODES.replace(stores[0], store);
            let file = ScenarioFile::parse("nodes.toml", text).expect("TOML");
            let scenario = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
            let part = scenario.with_share_of_storages(0.1);
            let (whole, part) = (&scenario.storage[0].path, &part.storage[0].path);
            let share = if whole.is_remote() { 0.1 } else { 1.0 };
            let close = |a: f64, b: f64| (a / b - share).abs() < 1e-12 || a == b && b.is_infinite();
            assert!(close(part.bandwidth.most(), whole.bandwidth.most()), "{store}");
            assert!(close(part.operations, whole.operations), "{store}");
            assert!(close(part.peak(), whole.peak()), "{store}");
            if let (Some(part), Some(whole)) = (part.limit, whole.limit) {
                assert!(close(part.rate, whole.rate), "{store}");
            }
        }
    }
}
