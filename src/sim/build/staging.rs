//! The copying of a job's data set to its nodes.

use crate::engine::Time;
use crate::fluid::Use;
use crate::random::Sampler;
use crate::scenario::{Convert, Share};
use crate::sim::staging::{Conversion, Files, Staging};
use crate::sim::workers::Cores;

use super::Builder;
use super::job::JobCopy;
use super::medium::Medium;
use super::mount::Client;

impl Builder<'_, '_> {
    /// Adds the copying of a job copy's data set to the node being built, its number `rank`.
    pub(super) fn staging(&mut self, copy: &JobCopy, rank: u32) {
        let Some(staging) = &copy.job.staging else { return };
        let medium = Medium::of(&self.scenario.storage[staging.to].kind);
        let write = self.disk(staging.to, &medium).write;
        let convert = staging.convert.as_ref().map(|convert| self.conversion(copy, convert, write));
        // What is converted is there before it is written.
        let beyond = write.filter(|_| convert.is_none());
        let (mount, ..) = self.mount(copy.job.storage, Client::Copy, beyond);
        let index = staging.convert.as_ref().map_or(copy.job.dataset, |convert| convert.from);
        let dataset = &self.scenario.datasets[index];
        let (next, every) = match staging.share {
            Share::All => (0, 1),
            Share::Part => (u64::from(rank), u64::from(copy.job.nodes)),
        };
        let files = Files {
            dataset: index as u32,
            next,
            every,
            end: dataset.files(),
            samples_per_file: dataset.samples_per_file(),
            record: dataset.layout.record(),
            samples: dataset.samples,
        };
        self.parts.stagings.push(Staging {
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

    /// How the data set of a job copy is made on the node being built, from another one, and written
    /// to a tier over `write`.
    fn conversion(
        &mut self,
        copy: &JobCopy,
        convert: &Convert,
        write: Option<Use>,
    ) -> Box<Conversion> {
        // Streams and workers share cores as a link, however few they are.
        let cores = match self.cores(u32::MAX, true).0 {
            Cores::Shared(group) => Some(group),
            Cores::Fifo(_) => None,
        };
        Box::new(Conversion {
            dataset: copy.job.dataset as u32,
            record: self.scenario.datasets[copy.job.dataset].layout.record(),
            compute: Sampler::new(&convert.compute),
            cores,
            write: write.map(|of_tier| self.way(vec![of_tier], f64::INFINITY)),
        })
    }
}
