//! Loaders: workers that read, process and hand over samples, stage by stage, up to the last buffer.

mod caches;
mod lineage;
mod loader_run;
mod loaders;
mod outcome;
mod pacing;
mod prefetch;
mod ranges;
mod read;
mod repeat;
mod restart;
mod service;
mod stages;
mod worker;
mod workers;

pub(crate) use lineage::Lineage;
pub(crate) use loader_run::{
    Caches, Features, LoaderGpus, LoaderPlace, LoaderProgress, LoaderRun, LoaderStages, Pacing,
    Sizes, Waiters,
};
pub(crate) use loaders::{BatchTaken, Loaders};
pub(crate) use ranges::{Fetch, Fetches};
pub(crate) use restart::{Cursor, InitialLoader};
pub(crate) use stages::StageRun;
pub(crate) use worker::{Draw, Work, Worker};
pub(crate) use workers::Team;
