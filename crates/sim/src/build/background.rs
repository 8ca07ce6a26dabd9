//! Background loads on storages, from outside the simulated jobs.

use forebay_engine::fluid::LinkId;
use forebay_model::random::Sampler;
use forebay_scenario::{BackgroundLoad, Distribution};

use super::Builder;
use super::mount::Client;
use super::storage_model::StorageModel;
use crate::background::{Endless, Load};

impl Builder<'_> {
    /// Adds the background loads whose requests arrive at random; returns the endless background loads.
    pub(super) fn backgrounds(&mut self) -> Vec<Endless> {
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
        let route: Vec<LinkId> = link.into_iter().collect();
        Some(Endless { group: self.group(&route, cap), streams })
    }
}
