//! The simulated world: the scenario's jobs on a model of the cluster.
//!
//! [`run`] simulates one replication. A `World` holds the owners, routes each event to the owner that it concerns, and does
//! nothing else. An owner has its own tables, indexed by typed ids (`ids`); no other owner changes them.
//!
//! ```text
//! World ── Env           simulated time, calendar, links, stations, storages, random streams, timeline, notices
//!       ├─ Jobs          job copies and their devices: programs, barriers
//!       │   ├─ Loaders         workers, their stages, and the last buffer of each loader
//!       │   ├─ Communicators   collectives between ranks, and the links that they use
//!       │   └─ Recoveries      checkpoints and failures, and the states from which job copies restart
//!       ├─ Stagings      copying of data sets to nodes before training
//!       ├─ Background    background loads on storages
//!       ├─ Faults        components that are slower for a while
//!       ├─ Resources     shared resources, as reports show them
//!       └─ Watch         end and progress of the run
//! ```
//!
//! `Jobs` calls its loaders and communicators directly. They report later events upwards with a `Notice`: a batch is ready, a
//! collective is over, a core is free. Notices are handled in order, before workers go on and before anything else happens at
//! the same simulated time.
//!
//! The modules, by owner:
//!
//! - `world`: the owners, and the match that routes events; `env`: the environment that all owners share; `event`: what can
//!   happen; `notice`: messages between owners; `ids`: ids, which know nothing of what they identify, and tables; `invariant`: broken invariants; `standstill`:
//!   runs in which nothing is left to happen; `station`: servers with a queue; `storages`: contents of storages, and models
//!   of their service other than links and stations: `limiter` (request rates), `table` (measured throughput), `disk_head`
//!   (seeks), `sizes` (of samples),
//! - `loaders`: the owner of all loaders; `loader`: one loader; `worker`, `workers`: the workers of its stages, and their
//!   operations; `read`: reading from storages; `team`: inner threads; `cached`: the node's page cache; `tiers`: data on the
//!   node's own storage or on another node's; `decoded`: caches of decoded samples; `later`: runs
//!   that begin after some epochs; `ranges`: reads in several requests;
//!   `stages`: hand-over between stages, order, blocking; `requests`: loaders that make batches on request; `tuned`: number of
//!   active workers; `polling`: loaders that poll; `kernels`: kernels of loaders on GPUs; `prefetch`: prefetching from the
//!   host's memory,
//! - `communication`: collectives of model copies, averages of models, and parameter servers, on the same network,
//! - `jobs`: the owner of all job copies; `job_run`: one job copy; `program`: what each rank does in a step, op by op, and
//!   the interpreter of all programs; `trainer`: begin and end of steps; `tally`: which steps are complete, with `barrier`;
//!   `device`: accelerators; `batches`: hand-over of batches from loaders to devices; `host`: batches that hosts take
//!   ahead; `load`: copies of batches to devices; `core_steps`: steps on the node's cores; `launch`: host-side work of
//!   trainers; `waits`: stalls of devices other than for batches; `gpus`: GPUs shared by several devices and loaders;
//!   `occupied`: their occupancy; `buffers`: buffers that learners share; `learners`: number of learners on each GPU;
//!   `recovery`: the owner of checkpoints and failures, and restarts; `checkpoint`: when the state of a job copy is
//!   written; `job_state`: what that state is, how it is saved, and how it is restored; `abort`: the end of everything in
//!   progress; `lineage`: which samples were trained on; `workflow`: jobs that begin when others have ended,
//! - `staging`, `background`, `fault`: the owners of these names; `resource`: shared resources in reports, with `energy`;
//!   `watch`: the end of the run, with `progress`,
//! - `memory`: the memory that a run needs; `build` and its folder: from the scenario to the start; `collect`: from the end to
//!   the outcome.
//!
//! # The path of a sample
//!
//! A worker takes the next position of its loader's order (`workers`, `sizes`) and looks for the file in its node's page cache
//! and tiers (`cached`, `tiers`). Otherwise it opens and reads the file from the storage: a station for operations, a latency,
//! a flow over the links between storage and node (`read`, `station`, `forebay_engine::fluid`). It decodes the sample on a
//! core (`workers`) and hands it to the next stage (`stages`); the last buffer is `forebay_metrics::Queue`. If a device waits
//! there, `Loaders` reports that a batch is ready, and `Jobs` lets the device take it. Otherwise a rank's op `TakeBatch` takes
//! it later (`batches`), and has it copied to the device if the trainer does that (`load`).
//!
//! # The path of a gradient
//!
//! `Compute` ends a piece of backward (`trainer`). `Offer` offers the buckets of that piece: learners of a GPU add them up in
//! its memory, and the GPU compresses the sum (`communication::sums`); then each rank starts the collectives of these buckets
//! in its communicator. `Start` does the same for a stage of a model that is spread over GPUs. When all ranks have started a
//! collective, `Communicators` begins it. Collectives run one after the other, or fused with others that wait too. Their time
//! comes from a formula, or they are simulated transfer by transfer over the links that data use
//! (`communication::communicator`, `exchange`). At the end of a collective, `Communicators` reports it, and `Jobs` wakes the
//! ranks whose op `Await` waits for it. Their stall is attributed to the rank that started last until it has started, and to
//! communication after that (`program::waits`). Gradients that no op awaits hold up the end of the step: it is complete when all
//! devices have ended it (`tally`), all collectives are over, and the update has been made (`communication::sync`, `root`).
//!
//! Not every step updates parameters or ends with an exchange: each kind of step has programs of its own (`program::cycle`).
//! Between exchanges ranks may be at different steps, so each communicator counts its collectives step by step
//! (`communication::progress`). Where an exchange averages parameters, ranks that train one model together sum gradients at
//! each update in a communicator of their own (`Inner`).
//!
//! Ranks that shard states reduce-scatter gradients and gather parameters in `Data`. If only groups of ranks shard states (hybrid
//! sharding), they do so in `Shard`, and the end of the last reduce-scatter of a bucket starts its allreduce in `Replica`, among
//! the ranks that hold the same shard of each group (`communication::communicator`: `then`). If ranks shard a second copy of the
//! parameters (`secondary`), backward gathers them in `Secondary`.
//!
//! With parameter servers, `Offer` and `Push` push the buckets to them instead, and `AwaitPull` waits for parameters
//! (`communication::push`, `servers`); each part of a model has an exchange of its own, between the GPUs that hold the part and
//! the servers. The device goes on at once (`GoOn`); its step counts when the servers have added the gradients of all its GPUs,
//! and the model copy's when all its devices have ended it (`tally`).
//!
//! # How to add
//!
//! - *an op*: a variant of `program::Op`, and a line in each match of `program::interpreter`, which names all ops: how the op
//!   begins, and when its input is there.
//! - *a communicator*: a variant of `program::Communicator`; which GPUs it joins (`scenario`'s `placement`, `build::layout`), by
//!   which algorithm (`build::layout`), and where its bytes are counted (`communication::communicator`). Programs start and await
//!   its collectives; the interpreter does not change. Where the end of a collective in another communicator starts them, as for
//!   `Replica`, `build::parallel` links the two, and `Started::then` numbers them.
//! - *a schedule*: a variant of `scenario`'s `Schedule`, the order of its passes, and which stage holds which chunk of the model;
//!   what a pass waits for and leaves is in `program::pass`.
//! - *a storage*: its settings file and its variant in `forebay_scenario::storage`; only a new mechanism of serving touches
//!   `build/storage_model`, `build/mount` and `read`.
//!
//! The last buffer, steps with their stalls, the timelines that explain stalls, and the recorder are in `forebay_metrics`,
//! because the live world keeps the same books.
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
mod host;
mod ids;
mod invariant;
mod job_run;
mod job_state;
mod jobs;
mod kernels;
mod later;
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
mod standstill;
mod station;
mod storages;
mod table;
mod tally;
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
pub use communication::IdleCollectives;
pub use memory::{Memory, memory};
pub use progress::Progress;
pub use station::Station;
pub use world::{LOOK_UPS_IN_EVENT, Options, run};
