//! The simulated world: the scenario's jobs on a model of the cluster.
//!
//! [`run`] simulates one replication. A `World` holds the owners, routes each event to the one that it is about, and does
//! nothing else. An owner has its own tables, indexed by typed ids (`index`), and is the only one that changes them.
//!
//! ```text
//! World ── Env           the instant, calendar, links, stations, storages, draws, timeline, notices
//!       ├─ Jobs          job copies and their devices: programs, barriers, checkpoints, failures
//!       │   ├─ Loaders         workers, their stages, and the last buffer of each loader
//!       │   └─ Communicators   collectives between ranks, and the links that they use
//!       ├─ Stagings      data sets on their way to nodes before training
//!       ├─ Background    loads that are not ours
//!       ├─ Faults        what is slower for a while
//!       ├─ Resources     what reports name
//!       └─ Watch         when the run ends, and how far it is
//! ```
//!
//! `Jobs` asks its loaders and communicators by calling them. What happens there later is told upwards by a `Notice`: a batch
//! is ready, a collective is over, a core is free. Notices are handled in order, before workers go on and before anything else
//! happens at this instant.
//!
//! The files, by owner:
//!
//! - `env`, `event`: what all owners act on, and what can happen; `storages` with `limiter`, `table`, `arm`, `sizes`: what
//!   serves requests beside links and stations; `station`,
//! - `loaders`: `worker`, `workers`, `read`: workers of loader stages and what their operations ask of the machine; `team`: their inner
//!   threads; `cached`: what of that a node's page cache holds; `tiers`: what is on its own storage or another node's;
//!   `decoded`: samples that are kept as decoding leaves them; `ranges`: what is fetched in several requests; `stages`:
//!   hand-over between stages, order, blocking; `requests`: loaders that make what they are asked for; `tuned`, `polling`, `kernels`;
//!   `prefetch`: fetches from memory what comes next; `loader`: one of them,
//! - `communication`: collectives of model copies, parameter servers, on the same network,
//! - `jobs`: `program`: what each rank does in a step, op by op, and the one interpreter of all programs; `job_run`: a job copy; `trainer`: when a
//!   rank begins a step, and the barrier between model copies; `device`: accelerators; `batches`: what they take from a
//!   loader, `load`: on its way to them; `core_steps`: steps on the node's cores; `launch`: what trainers do there beside their
//!   devices; `pipeline`: activations of whole batches from stage to stage; `waits`: what devices waited for beside batches;
//!   `gpus`: GPUs that several use at once; `occupied`: how much; `buffers`: what learners leave to each other; `learners`:
//!   how many learners there are; `averaging`: how they agree; `recovery`: failures and what begins again after them,
//!   `abort`: what they end, `checkpoint`, `lineage`: which samples were trained on; `workflow`: jobs that begin when others
//!   have ended; `barrier`,
//! - `staging`, `background`, `fault`, `resource` with `energy`, `watch` with `progress`,
//! - `memory`: what a run takes; `build` and its folder: from the scenario to the start; `collect`: from the end to the
//!   outcome.
//!
//! # The path of a sample
//!
//! A worker takes the next place of its loader's order (`workers`, `sizes`), asks its node's page cache and tiers for the
//! file (`cached`, `tiers`), and opens and reads it from the storage: a station for operations, a latency, a flow over the
//! links between them (`read`, `station`, `forebay_engine::fluid`). It decodes on a core (`workers`) and hands the sample to the next
//! stage (`stages`); the last buffer is `forebay_metrics::Queue`. If a device waits there, `Loaders` tells that a batch is
//! ready, and `Jobs` lets the device take it. Otherwise a rank's op `TakeBatch` takes it later (`batches`), and has it copied
//! to the device where the trainer does that (`load`).
//!
//! # The path of a gradient
//!
//! `Compute` ends a piece of backward (`trainer`). `Offer` hands its buckets over: learners of a GPU add them up in its
//! memory and compress the sum (`communication::sums`); then each rank has started the collectives of these buckets in its
//! communicator. `Start` does the same for a stage of a model that is spread over GPUs. When all ranks have started a
//! collective, `Communicators` begins it: one after the other, or fused with those that wait too, in the time of a formula, or
//! transfer by transfer over the links that data use (`communication::communicator`, `exchange`). It tells that the
//! collective is over, and `Jobs` wakes the ranks whose op `Await` waits for it; the stall is for the rank that started last,
//! and from then on for communication (`program::waits`). With parameter servers, `Push` sends buckets to them and
//! `AwaitPull` waits for parameters (`communication::push`, `servers`).
//!
//! # How to add
//!
//! - *an op*: a variant of `program::Op`, and a line in each match of `program::interpreter`, which names all ops: how it
//!   begins, and when what it waits for is there.
//! - *a communicator*: a variant of `program::Communicator`; which GPUs it joins (`scenario`'s `placement`), by which
//!   algorithm (`build::parallel`), and where its bytes are counted (`communication::communicator`). Programs start and await
//!   its collectives; the interpreter does not change.
//! - *a schedule*: a variant of `scenario`'s `Schedule` and the order of its passes in `program::order`; what a pass waits for and
//!   leaves is in `program::pass`.
//!
//! The last buffer, steps with their stalls, the timelines that stalls are explained from and the
//! recorder are `forebay_metrics`'s: the live world keeps the same books.
//!
//! # Example
//!
//! ```
//! use forebay_scenario::ScenarioFile;
//! use forebay_sim::{Options, run};
//!
//! # let text = r#"
//! # name = "loader"
//! # run.steps = 200
//! # cluster = { nodes = 1, node.cores = 4 }
//! # storage.disk.local-disk = { bandwidth = "1 GB/s" }
//! # dataset.images = { samples = 10_000, sample_size = "100 kB" }
//! # [[job]]
//! # name = "train"
//! # dataset = "images"
//! # storage = "disk"
//! # batch = 32
//! # loader.tf-queue = { threads = 4, capacity = "256 samples" }
//! # model.step = "5 ms"
//! # "#;
//! let scenario = ScenarioFile::parse("loader.toml", text.to_owned())?.resolve(&[])?;
//! let outcome = run(&scenario, 0, &Options::default());
//! assert_eq!(outcome.jobs[0].steps.len(), 200);
//! # Ok::<(), forebay_scenario::Problems>(())
//! ```

mod abort;
mod averaging;
mod background;
mod barrier;
mod batches;
mod buffers;
mod build;
mod cached;
mod checkpoint;
mod collect;
mod communication;
mod core_steps;
mod decoded;
mod device;
mod disk_head;
mod energy;
mod env;
mod event;
mod fault;
mod gpus;
mod index;
mod job_run;
mod jobs;
mod kernels;
mod launch;
mod learners;
mod limiter;
mod lineage;
mod load;
mod loader;
mod loaders;
mod memory;
mod notice;
mod occupied;
mod pipeline;
mod polling;
mod prefetch;
mod program;
mod progress;
mod ranges;
mod read;
mod recovery;
mod requests;
mod resource;
mod sizes;
mod stages;
mod staging;
mod station;
mod storages;
mod table;
mod team;
mod tiers;
mod trainer;
mod tuned;
mod waits;
mod watch;
mod worker;
mod workers;
mod workflow;
mod world;

pub use barrier::Barrier;
pub use memory::{Memory, memory};
pub use progress::Progress;
pub use station::Station;
pub use world::{Options, run};
