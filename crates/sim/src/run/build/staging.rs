//! The copying of a job's data set to its nodes.

use forebay_engine::Time;
use forebay_engine::fluid::Use;
use forebay_model::random::Sampler;
use forebay_scenario::{BackgroundLoad, Convert, Distribution, Replicas};

use super::Builder;
use super::job::JobCopy;
use super::mount::{Client, StorageModel};
use crate::ids::DatasetId;
use crate::storage::{Conversion, Endless, Files, Load, Mount, Staging};

impl Builder<'_> {
    /// Adds the copying of a job copy's data set to the node being built, which is number `rank` of the job copy.
    pub(in crate::run) fn staging(&mut self, copy: &JobCopy, rank: u32) {
        let Some(staging) = &copy.job.staging else { return };
        let (mut write, mut to) = (None, None);
        if staging.shared {
            let mount = self
                .mount(staging.to, Client::Writer { most: f64::INFINITY, alone: false }, None)
                .0;
            to = Some(mount.after(self.files_before(copy.job.dataset)));
        } else {
            let model = StorageModel::new(&self.scenario.storage[staging.to].path);
            write = self.disk(staging.to, &model).write;
        }
        // Files to be converted or written to a shared storage are read completely before they are written.
        let whole = staging.convert.is_some() || staging.shared;
        let beyond = write.filter(|_| !whole);
        let convert = whole.then(|| self.conversion(copy, staging.convert.as_ref(), write, to));
        let (mount, ..) = self.mount(copy.job.storage, Client::Copy, beyond);
        let index = staging.convert.as_ref().map_or(copy.job.dataset, |convert| convert.from);
        let mount = mount.after(self.files_before(index));
        let dataset = &self.scenario.datasets[index];
        let of = match staging.shared {
            // Each node copies its part to the storage that all nodes share.
            true => Replicas { nodes: u64::from(copy.job.nodes), each: 1 },
            false => copy.job.parts().unwrap_or(Replicas::EVERYWHERE),
        };
        let files = Files {
            dataset: DatasetId::new(index as u32),
            next: 0,
            of,
            node: u64::from(rank),
            end: dataset.files(),
            samples_per_file: dataset.samples_per_file(),
            record: dataset.layout.record(),
            samples: dataset.samples,
        };
        self.parts.stagings.stagings.push(Staging {
            job: copy.number,
            mount,
            convert,
            files,
            streams: staging.streams,
            busy: 0,
            began: Time::ZERO,
            ended: None,
            bytes: 0.0,
        });
    }

    /// Returns how the data set of a job copy is written on the node being built: to a tier over `write`, or to the shared
    /// storage `to`. `convert` is the conversion that makes the data set from another one, if there is a conversion.
    fn conversion(
        &mut self,
        copy: &JobCopy,
        convert: Option<&Convert>,
        write: Option<Use>,
        to: Option<Mount>,
    ) -> Box<Conversion> {
        // Conversion streams share the cores with workers as a link, even if there are few of both.
        let cores = convert.map(|_| self.cores(copy.job, u32::MAX, true).0);
        let dataset = &self.scenario.datasets[copy.job.dataset];
        let nothing = Distribution::Constant(0.0);
        Box::new(Conversion {
            dataset: DatasetId::new(copy.job.dataset as u32),
            record: dataset.layout.record(),
            samples_per_file: dataset.samples_per_file(),
            compute: Sampler::new(convert.map_or(&nothing, |convert| &convert.compute)),
            cores,
            write: write.map(|of_tier| self.way(vec![of_tier], f64::INFINITY)),
            to,
        })
    }
}

impl Builder<'_> {
    /// Adds the background loads whose requests arrive at random; returns the endless background loads.
    pub(in crate::run) fn backgrounds(&mut self) -> Vec<Endless> {
        let mut endless = Vec::new();
        for background in &self.scenario.background {
            let storage = background.storage;
            match &background.load {
                BackgroundLoad::Streams { streams, cap } => {
                    endless.extend(self.streams(storage, *streams, *cap));
                }
                BackgroundLoad::Requests { rate, size } => {
                    let load = Load {
                        gap: Sampler::new(&Distribution::Exponential { mean: 1.0 / rate }),
                        size: Sampler::new(size),
                        mount: self.mount(storage, Client::Background, None).0,
                        arrived: 0,
                    };
                    self.parts.background.loads.push(load);
                }
            }
        }
        endless
    }

    /// Returns endless transfers of at most `cap` each [B/s]; `None` if nothing limits the storage's bytes.
    fn streams(&mut self, storage: usize, streams: u32, cap: f64) -> Option<Endless> {
        let cap = cap.min(StorageModel::new(&self.scenario.storage[storage].path).per_stream);
        let (mount, ..) = self.mount(storage, Client::Background, None);
        mount.group?;
        let link = self.shared[storage].as_ref().and_then(|backend| backend.link);
        // Endless transfers cannot be fewer, so that each takes less of what the sample has.
        let per_unit = self.sampled_share();
        let route = link.into_iter().map(|link| Use { link, per_unit }).collect();
        Some(Endless { group: self.way(route, cap), streams })
    }
}
