//! The simulated world: the scenario's jobs on a model of the cluster.
//!
//! [`run()`] simulates one replication. A `World` holds the owners, routes each event to the owner that it concerns, and does
//! nothing else. An owner has its own tables, indexed by typed ids; no other owner changes them. What only an owner may change is
//! private to its file or folder: others ask it by a method that says what it does. A method that changes something begins with
//! what it does; one that answers changes nothing that others see.
//!
//! ```text
//! World ── Env           simulated time, calendar, links, stations, random streams, timeline, notices
//!       ├─ Jobs          job copies: programs, steps, learners
//!       │   ├─ Devices         accelerators, the host that takes batches for each, and training on cores
//!       │   ├─ Loaders         workers, their stages, the last buffer of each loader, and the storages that they read
//!       │   ├─ Communicators   collectives between ranks, and the links that they use
//!       │   ├─ Recoveries      checkpoints and failures, and the states from which job copies restart
//!       │   └─ Workflow        which job copies must finish, and which begin when others have ended
//!       ├─ Stagings      copying of data sets to nodes before training
//!       ├─ Background    background loads on storages
//!       ├─ Faults        components that are slower for a while
//!       ├─ Resources     shared resources, as reports show them
//!       ├─ Watch         end and progress of the run
//!       └─ Steady        search for steps that repeat exactly
//! ```
//!
//! # Floors
//!
//! Each folder is a floor, and imports only from the floors below it; a test reads the sources for that. `Jobs` calls its
//! devices, loaders and communicators directly. They report later events upwards with a `Notice`: a batch is ready, a collective
//! is over, a core is free. Notices are handled in one match, in order, before workers go on and before anything else happens at
//! the same simulated time.
//!
//! - `run`: the start of runs, of all nodes or of samples; `world` (the owners, and the match that routes events), `watch` (the end
//!   of the run, and its progress), `steady` (repeated steps that are not simulated), `resource` (shared resources in reports, and
//!   energy), `memory` (the memory that a run needs); `build`: from the scenario to the start,
//! - `job`: `jobs` (the owner of all job copies), `workflow` (the end of the run, and jobs that begin when others have ended),
//!   `job_run` (one job copy), `steps` (begin and end of steps), `tally` (which steps are complete), `sampled` (job copies of which
//!   only some nodes are simulated), `batches` (hand-over of batches from loaders to devices), `compute` (computation on GPUs and
//!   cores, and host-side work), `gradients`, `averages` and `servers` (exchanges between model copies), `causes` (why a device
//!   waits: a view that changes nothing), `waits` (charges waits to their causes, whether they end or are cut off), `learners`
//!   (number of learners on each GPU), `outcome`, `repeat` (states that come again), `standstill` (runs in which nothing is left to
//!   happen); `program`: what each rank does in a step, op by op, and the interpreter of all programs; `recovery`: restarts,
//!   `tables` (the owner, and the saved state of a job copy), `failures` (what a failure means), `checkpoint` (when states are
//!   written), `state` (what a state is), `restored` (what restarts restore of loaders), `abort` (the end of everything in
//!   progress),
//! - `communication`: collectives of model copies, and exchanges with parameter servers, on the same network,
//! - `loader`: `loaders` (the owner), `loader_run` (one loader), `worker` and `workers` (the workers of its stages, and their
//!   operations), `read` (reading from storages), `service` (what a request meets there besides links), `ranges` (reads in several
//!   requests), `caches` (look-ups in caches), `stages` (hand-over between stages, order, blocking), `pacing` (batches on request,
//!   polling, tuned numbers of workers), `lineage` (which samples were trained on), `restart` (positions that checkpoints save, and
//!   restarts from them), `repeat` (states that come again), `outcome`, `prefetch` (from the host's memory),
//! - `device`: `devices` (the owner), `account` (what a device does, and the only way in which its time is charged), `gpu` (GPUs that
//!   several devices and loaders share), `input` (a device's batches, and the host that takes them ahead), `past_waits` (its waits,
//!   which may explain stalls of others), `trainer` (work on the nodes' cores),
//! - `storage`: contents of storages, and models of their service: `mount` (a storage as a node sees it, and its routes), `source`
//!   (reading orders), `caches` (page caches, tiers, decoded samples), `limiter` (request rates), `bucket` (bursts of bytes),
//!   `table` (measured throughput), `disk_head` (seeks), `turns` (service in order of arrival, or of clients in turn), `sizes` (of
//!   samples); and two owners of activities there: `staging`, `background`,
//! - `env`: the environment that all owners share; `event` (what can happen, and messages between owners), `station` (servers with a
//!   queue, and cores), `fault`, `sampled_barrier` (barriers of jobs of which only some nodes are simulated) and `arrival_law` (the
//!   distribution of arrivals there),
//! - `ids`: ids, which know nothing of what they identify, and the tables that they index.
//!
//! # The path of a sample
//!
//! A worker takes the next position of its loader's order (`loader::workers`, `storage::source`) and looks for the file in its
//! node's page cache and tiers (`loader::caches`). Otherwise it opens and reads the file from the storage: a station for
//! operations, a latency, a flow over the links between storage and node (`loader::read`, `env::station`,
//! `forebay_engine::fluid`). It decodes the sample on a core (`loader::workers`) and hands it to the next stage
//! (`loader::stages`); the last buffer is `forebay_metrics::Queue`. If a device waits there, `Loaders` reports that a batch is
//! ready, and `Jobs` lets the device take it. Otherwise a rank's op `TakeBatch` takes it later, and has it copied to the device
//! if the trainer does that (`job::batches`).
//!
//! # The path of a gradient
//!
//! `Compute` ends a piece of backward (`job::steps`); for a part of a split model, `ComputePass` ends a piece of a pass. `Start`
//! then starts the collectives of the buckets that are ready in the rank's communicator. Where a GPU has several learners, they
//! `Offer` their gradients first: the GPU adds them up in its memory, compresses the sum, and begins that `Start`
//! (`job::gradients`). When all ranks have started a collective, `Communicators` begins it. Collectives run one after the other,
//! or fused with others that wait too. Their time comes from a formula, or they are simulated transfer by transfer over the links
//! that data use (`communication::communicator`, `exchange`). At the end of a collective, `Communicators` reports it, and `Jobs`
//! wakes the ranks whose op `Await` waits for it. Their stall is attributed to the rank that started last until it has started,
//! and to communication after that (`job::causes`). Each rank then decompresses the gradients, or a root updates parameters
//! (`Update`), and the step is complete when all devices have ended it (`job::tally`).
//!
//! Not every step updates parameters or ends with an exchange: each kind of step has programs of its own
//! (`communication::cycle`). Between exchanges ranks may be at different steps, so each communicator counts its collectives step
//! by step (`communication::progress`). Where an exchange averages parameters, ranks that train one model together sum gradients
//! at each update in a communicator of their own (`Inner`).
//!
//! Ranks that shard states reduce-scatter gradients and gather parameters in `Data`. If only groups of ranks shard states (hybrid
//! sharding), they do so in `Shard`, and the end of the last reduce-scatter of a bucket starts its allreduce in `Replica`, among
//! the ranks that hold the same shard of each group (`communication::communicator`: `then`). If ranks shard a second copy of the
//! parameters (`secondary`), backward gathers them in `Secondary`.
//!
//! With parameter servers, `Push` pushes the buckets to them instead of `Start`, and `AwaitPull` waits for parameters
//! (`job::servers`, `communication::servers`); each part of a model has an exchange of its own, between the GPUs that hold the
//! part and the servers. The device goes on at once (`GoOn`); its step counts when the servers have added the gradients of all
//! its GPUs, and the model copy's when all its devices have ended it (`job::tally`).
//!
//! # How to add
//!
//! - *an op*: a variant of `job::program::Op`, and a line in each match of `job::program::interpreter`, which names all ops: how
//!   the op begins, and when its input is there.
//! - *a communicator*: a variant of `communication::Communicator`; which GPUs it joins (`scenario`'s `placement`,
//!   `run::build::layout`), by which algorithm (`run::build::layout`), and where its bytes are counted
//!   (`communication::communicator`). Programs start and await its collectives; the interpreter does not change. Where the end of
//!   a collective in another communicator starts them, as for `Replica`, `run::build::parallel` links the two, and
//!   `Started::then` numbers them.
//! - *a schedule*: a variant of `scenario`'s `Schedule`, the order of its passes, and which stage holds which chunk of the model;
//!   what a pass waits for and leaves is in `job::program::pass`.
//! - *a storage*: its settings file and its variant in `forebay_scenario::storage`; only a new mechanism of serving touches
//!   `run::build::mount`, `storage::mount` and `loader::service`.
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

mod communication;
mod device;
mod env;
mod ids;
mod job;
mod loader;
mod run;
mod storage;

pub use communication::IdleCollectives;
pub use env::Station;
pub use job::Barrier;
pub use run::{LOOK_UPS_IN_EVENT, Memory, Options, Progress, memory, run};
