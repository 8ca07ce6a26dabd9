//! forebay: will the accelerators starve, on what, and what should be changed or bought?
//!
//! A scenario (TOML) says which jobs train where on which data. It is run by the simulated world or, on this
//! machine, by the live world. The result is a report: how fast each job trains, how long its accelerators wait,
//! and for what.
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
//! | [`units`] | model | quantities with units: `"10 Gbit/s"` | |
//! | [`input`] | model | reading files that users name, each with a size limit | |
//! | [`scenario`] | scenario | checked scenarios; the only reader of scenario files | `catalogue`, `collective`, `device_memory`, `distribution`, `input`, `law`, `profile`, `random`, `units` |
//! | [`collective`] | collective | collectives as schedules of transfers, closed forms of their times, and which algorithm a library selects | |
//! | [`distribution`] | model | quantities that are constant or random | |
//! | [`random`] | model | random numbers addressed by seed, replication, purpose and entity; which rank reads which file | `distribution` |
//! | [`stats`] | engine | confidence intervals, quantiles, MSER-5, histograms | |
//! | [`engine`] | engine | simulated time, the event calendar, the event loop | |
//! | [`fluid`] | engine | links and flows: weighted max-min fair sharing | `engine` |
//! | [`cache`] | model | which data of a storage a node caches | `law`, `random` |
//! | [`catalogue`] | model | published facts: models layer by layer, GPUs, interconnects | |
//! | [`device_memory`] | model | how much memory of a GPU the training of a model takes | `catalogue` |
//! | [`report`] | report | results of a run: outcome, summary, text, JSON, trace | `device_memory`, `law`, `scenario`, `stats` |
//! | [`metric`] | report | every metric: column, place in JSON, unit, meaning, which way is better | `report` |
//! | [`import`] | calibrate | reading what other programs measured | `input`, `measurement` |
//! | [`law`] | model | formulas whose parameters are fitted to measurements and that simulations evaluate | |
//! | [`measurement`] | calibrate | raw samples of a probe | |
//! | [`profile`] | scenario | fitted parameters of a machine, with their intervals | `input`, `law` |
//! | [`published`] | | published measurements of clusters and storages, compared with predictions | `catalogue`, `ranges`, `import`, `report`, `scenario`, `sim`, `stats` |
//! | [`fit`] | calibrate | fitting parameters to raw samples | `law`, `measurement`, `profile`, `random`, `stats` |
//! | [`metrics`] | metrics | what simulated and live runs record: hand-over of batches, the last buffer, steps, timelines, causes of stalls, traces | `engine`, `report`, `scenario`, `stats` |
//! | [`live_queue`] | live-queue | the bounded buffers between loaders and trainers of live runs, with their threads | `engine`, `metrics`, `report`, `scenario` |
//! | [`image`] | image | JPEG images: decoded and resized as loaders do, and generated ones that take as long to decode as photographs | `random` |
//! | [`networks`] | networks | small neural networks as data, and their training steps on CPU cores | `random` |
//! | [`probe`] | calibrate | timed experiments on this machine; knows nothing of scenarios | `engine`, `image`, `input`, `live_queue`, `measurement`, `networks`, `random`, `stats`, `units` |
//! | [`cluster`] | cluster | processes on several nodes that measure network and shared storage together | `fit`, `input`, `measurement`, `probe`, `random`, `stats` |
//! | [`select`] | select | which of several settings meets constraints or is the best, by replications that vary | `stats` |
//! | [`sim`] | sim | the simulated world | `cache`, `collective`, `engine`, `fluid`, `law`, `metrics`, `random`, `report`, `scenario`, `stats` |
//! | [`live`] | live | the live world: runs of a scenario on this machine | `engine`, `image`, `input`, `law`, `live_queue`, `metrics`, `networks`, `probe`, `random`, `report`, `scenario`, `stats` |
//! | [`ranges`] | | ranges of nominal numbers, from publications, and runs with amounts from them | `catalogue`, `random`, `report`, `scenario`, `sim`, `stats`, `units`, `verdict` |
//! | [`uncertainty`] | | profiles with parameters sampled from the uncertainty of measurements, for each run | `profile`, `random`, `scenario` |
//! | [`validate`] | | errors of predictions against measurements; the only module that uses both worlds | `input`, `law`, `profile`, `report`, `scenario`, `sim`, `stats`, `uncertainty` |
//! | [`verdict`] | verdict | what limits a job and what helps, found by simulating the scenario with changed keys | `profile`, `report`, `scenario`, `sim`, `stats` |
//! | [`plan`] | | decisions: the smallest or largest value of a key that meets goals, the best of several options | `metric`, `profile`, `ranges`, `report`, `scenario`, `select`, `sim`, `stats`, `uncertainty`, `units`, `verdict` |
//! | [`sweep`] | | runs of all points of a grid, or of a shard of them, on all cores, with rows in order | `metric`, `profile`, `ranges`, `report`, `scenario`, `sim`, `uncertainty`, `units` |
//! | [`plot`] | plot | figures from rows | `metric` |
//! | [`page`] | | pages of results: one HTML file with figures and tables, which loads nothing | `plot` |
//! | [`reference`] | | every key, column, cause of stalls and exit code, as Markdown | `cli`, `metric`, `plot`, `probe`, `report`, `scenario`, `units`, `validate` |
//! | [`template`] | | first files for a new user, generated from a few answers | `catalogue`, `import`, `metric`, `plot`, `probe`, `scenario` |
//! | [`cli`] | | the command line: commands, options and their help | `units` |
//! | [`commands`] | | the commands: files, standard output, progress | everything |
//!
//! # Invariants
//!
//! - A module names only the modules in its row; a test reads the source and keeps this table true. The column
//!   `crate` is the folder below `crates/` that has the module; modules without one belong to the program, in `src`.
//! - [`engine`] knows time and nothing else; [`fluid`] knows links and flows, not what they stand
//!   for; [`sim`] knows no TOML and no command line; [`plot`] knows rows, not worlds.
//! - Every [`scenario::Scenario`] can be simulated: a user's errors are reported before a scenario is
//!   made, all at once, each with file, line, column and remedy.
//! - A run is a pure function of scenario, seed and replication: it uses no wall clock, no statics and no
//!   hashing order. The same seed gives the same bytes whatever the number of threads.
//! - Simulated time is [`engine::Time`] in whole picoseconds; wall time is `std::time::Duration`.
//! - Only [`commands`] prints.

pub use forebay_calibrate::{fit, import, measurement, probe};
pub use forebay_cluster as cluster;
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
pub use forebay_select as select;
pub use forebay_sim as sim;
pub use forebay_verdict as verdict;

pub mod cli;
pub mod commands;
pub mod page;
pub mod plan;
pub mod published;
pub mod ranges;
pub mod reference;
pub mod sweep;
pub mod template;
pub mod uncertainty;
pub mod validate;
