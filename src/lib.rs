//! forebay: will the accelerators starve, on what, and what should be changed or bought?
//!
//! A scenario (TOML) says what trains where on which data; the simulated world or the live one runs it
//! and returns a report: how fast each job trains, how long its accelerators wait, and for what.
//!
//! # Parse, run, summarise
//!
//! ```
//! use forebay::scenario::ScenarioFile;
//! use forebay::{report, sim};
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
//! let outcome = sim::run(&scenario, 0, &sim::Options::default());
//! let report = report::summarise(&scenario, &[outcome], 0.0);
//! let text = report::text::render(&report, 100, false);
//! assert!(text.contains("train"));
//! # Ok::<(), forebay::scenario::Problems>(())
//! ```
//!
//! # The map
//!
//! | module | crate | is | names |
//! |---|---|---|---|
//! | [`units`] | model | quantities as people write them: `"10 Gbit/s"` | |
//! | [`input`] | model | files that users name, each with a limit | |
//! | [`scenario`] | scenario | what the user says, checked; the only reader of scenario files | `catalogue`, `collective`, `device_memory`, `distribution`, `input`, `law`, `profile`, `random`, `units` |
//! | [`collective`] | collective | collectives as schedules of transfers, their closed forms, which one a library takes | |
//! | [`distribution`] | model | a quantity that may vary | |
//! | [`random`] | model | draws addressed by seed, replication, purpose, entity; which rank visits which file | `distribution` |
//! | [`stats`] | engine | intervals, quantiles, MSER-5, histograms | |
//! | [`engine`] | engine | simulated time, the calendar of events, the loop over them | |
//! | [`fluid`] | engine | links and flows: weighted max-min fair sharing | `engine` |
//! | [`cache`] | model | which of a storage's data a node keeps | `law`, `random` |
//! | [`catalogue`] | model | published facts: models layer by layer, GPUs, interconnects | |
//! | [`device_memory`] | model | what a GPU holds while it trains a model | `catalogue` |
//! | [`report`] | report | what a run showed: outcome, summary, text, JSON, trace | `device_memory`, `law`, `scenario`, `stats` |
//! | [`metric`] | report | every metric: column, place in JSON, unit, meaning, which way is better | `report` |
//! | [`import`] | calibrate | what other programs measured, from their files | `input`, `measurement` |
//! | [`law`] | model | the formulas that fits fit and simulations evaluate | |
//! | [`measurement`] | calibrate | raw samples of a probe | |
//! | [`profile`] | scenario | fitted parameters of a machine, with their intervals | `input`, `law` |
//! | [`published`] | | what clusters were published to do, beside predictions | `catalogue`, `scenario`, `sim` |
//! | [`fit`] | calibrate | from raw samples to parameters | `law`, `measurement`, `profile`, `random`, `stats` |
//! | [`metrics`] | metrics | the books both worlds keep: hand-over, the last buffer, steps, timelines, causes of stalls, traces | `engine`, `report`, `scenario`, `stats` |
//! | [`live_queue`] | live-queue | the bounded buffers between real loaders and trainers, with their threads | `engine`, `metrics`, `report`, `scenario` |
//! | [`image`] | image | JPEG images: decoded and resized as loaders do, and generated ones that cost what photographs do | `random` |
//! | [`networks`] | networks | small networks as data, and their training steps on cores | `random` |
//! | [`probe`] | calibrate | timed experiments on this machine; knows nothing of scenarios | `engine`, `image`, `input`, `live_queue`, `measurement`, `networks`, `random`, `stats`, `units` |
//! | [`sim`] | sim | the simulated world | `cache`, `collective`, `engine`, `fluid`, `law`, `metrics`, `random`, `report`, `scenario`, `stats` |
//! | [`live`] | live | the live world: the scenario on this machine | `engine`, `image`, `input`, `law`, `live_queue`, `metrics`, `networks`, `probe`, `random`, `report`, `scenario`, `stats` |
//! | [`uncertainty`] | | profiles as measurements allow them, run by run | `profile`, `random`, `scenario` |
//! | [`validate`] | | how far predictions are from measurements; the only module that sees both worlds | `input`, `law`, `profile`, `report`, `scenario`, `sim`, `stats`, `uncertainty` |
//! | [`verdict`] | | what binds a job, found by lifting it in short runs | `report`, `scenario`, `sim`, `stats` |
//! | [`sweep`] | | points of a grid, on all cores, in order | `metric`, `report`, `scenario`, `sim` |
//! | [`plot`] | plot | figures from rows | `metric` |
//! | [`reference`] | | every key, column, cause of stalls and exit code, as Markdown | `cli`, `metric`, `plot`, `probe`, `report`, `scenario`, `units`, `validate` |
//! | [`template`] | | first files for a new user, from a few answers | `catalogue`, `metric`, `plot`, `probe`, `scenario` |
//! | [`cli`] | | what may be typed | |
//! | [`commands`] | | files, standard output, progress: glue | everything |
//!
//! # Invariants
//!
//! - A module names only those in its row; a test reads the source and keeps this table true. The column
//!   `crate` is the folder below `crates/` that has the module; modules without one are the program, in `src`.
//! - [`engine`] knows time and nothing else; [`fluid`] knows links and flows, not what they stand
//!   for; [`sim`] knows no TOML and no command line; [`plot`] knows rows, not worlds.
//! - Holding a [`scenario::Scenario`] means that it can be simulated: what a user can get wrong is
//!   refused before, all of it at once, with file, line, column and remedy.
//! - A run is a pure function of scenario, seed and replication: no wall clock, no statics, no order
//!   of hashing in it. The same seed gives the same bytes whatever the number of threads.
//! - Simulated time is [`engine::Time`] in whole picoseconds; wall time is `std::time::Duration`.
//! - Only [`commands`] prints.

pub use forebay_calibrate::{fit, import, measurement, probe};
pub use forebay_collective as collective;
pub use forebay_engine::{self as engine, fluid, stats};
pub use forebay_image as image;
pub use forebay_live as live;
pub use forebay_live_queue as live_queue;
pub use forebay_metrics as metrics;
pub use forebay_model::{cache, catalogue, device_memory, distribution, input, law, random, units};
pub use forebay_networks as networks;
pub use forebay_plot as plot;
pub use forebay_report::{self as report, metric};
pub use forebay_scenario::{self as scenario, profile};
pub use forebay_sim as sim;

pub mod cli;
pub mod commands;
pub mod published;
pub mod reference;
pub mod sweep;
pub mod template;
pub mod uncertainty;
pub mod validate;
pub mod verdict;
