//! forebay: will the accelerators starve, on what, and what should be changed or bought?
//!
//! A scenario (TOML) says what trains where on which data; the simulated world or the live one runs it
//! and returns a report: how fast each job trains, how long its accelerators wait, and for what.
//!
//! # The map
//!
//! | module | is | names |
//! |---|---|---|
//! | [`units`] | quantities as people write them: `"10 Gbit/s"` | |
//! | [`input`] | files that users name, each with a limit | |
//! | [`scenario`] | what the user says, checked; the only reader of scenario files | `catalogue`, `collective`, `device_memory`, `distribution`, `input`, `law`, `profile`, `random`, `units` |
//! | [`collective`] | collectives as schedules of transfers, their closed forms, which one a library takes | |
//! | [`distribution`] | a quantity that may vary | |
//! | [`random`] | draws addressed by seed, replication, purpose, entity; which rank visits which file | `distribution` |
//! | [`stats`] | intervals, quantiles, MSER-5, histograms | |
//! | [`engine`] | simulated time, the calendar of events, the loop over them | |
//! | [`fluid`] | links and flows: weighted max-min fair sharing | `engine` |
//! | [`cache`] | which of a storage's data a node keeps | `law`, `random` |
//! | [`catalogue`] | published facts: models layer by layer, GPUs, interconnects | |
//! | [`device_memory`] | what a GPU holds while it trains a model | `catalogue` |
//! | [`report`] | what a run showed: outcome, summary, text, JSON, trace | `device_memory`, `law`, `scenario`, `stats` |
//! | [`metric`] | every metric: column, place in JSON, unit, meaning, which way is better | `report` |
//! | [`import`] | what other programs measured, from their files | `input`, `measurement` |
//! | [`law`] | the formulas that fits fit and simulations evaluate | |
//! | [`measurement`] | raw samples of a probe | |
//! | [`profile`] | fitted parameters of a machine, with their intervals | `input`, `law` |
//! | [`published`] | what clusters were published to do, beside predictions | `catalogue`, `scenario`, `sim` |
//! | [`fit`] | from raw samples to parameters | `law`, `measurement`, `profile`, `random`, `stats` |
//! | [`account`] | the books both worlds keep: hand-over, the last buffer, steps, timelines, causes of stalls, traces | `engine`, `report`, `scenario`, `stats` |
//! | [`hand_over`] | the bounded buffers between real loaders and trainers, with their threads | `account`, `engine`, `report`, `scenario` |
//! | [`probe`] | timed experiments on this machine; knows nothing of scenarios | `engine`, `hand_over`, `input`, `measurement`, `random`, `stats`, `units` |
//! | [`sim`] | the simulated world | `account`, `cache`, `collective`, `engine`, `fluid`, `law`, `random`, `report`, `scenario`, `stats` |
//! | [`live`] | the live world: the scenario on this machine | `account`, `engine`, `hand_over`, `input`, `law`, `probe`, `random`, `report`, `scenario`, `stats` |
//! | [`uncertainty`] | profiles as measurements allow them, run by run | `profile`, `random`, `scenario` |
//! | [`validate`] | how far predictions are from measurements; the only module that sees both worlds | `input`, `law`, `profile`, `report`, `scenario`, `sim`, `stats`, `uncertainty` |
//! | [`verdict`] | what binds a job, found by lifting it in short runs | `report`, `scenario`, `sim`, `stats` |
//! | [`sweep`] | points of a grid, on all cores, in order | `metric`, `report`, `scenario`, `sim` |
//! | [`plot`] | figures from rows | `metric` |
//! | [`reference`] | every key, column, cause of stalls and exit code, as Markdown | `cli`, `metric`, `plot`, `probe`, `report`, `scenario`, `units`, `validate` |
//! | [`template`] | first files for a new user, from a few answers | `catalogue`, `metric`, `plot`, `probe`, `scenario` |
//! | [`cli`] | what may be typed | |
//! | [`commands`] | files, standard output, progress: glue | everything |
//!
//! # Invariants
//!
//! - A module names only those in its row; a test reads the source and keeps this table true.
//! - [`engine`] knows time and nothing else; [`fluid`] knows links and flows, not what they stand
//!   for; [`sim`] knows no TOML and no command line; [`plot`] knows rows, not worlds.
//! - Holding a [`scenario::Scenario`] means that it can be simulated: what a user can get wrong is
//!   refused before, all of it at once, with file, line, column and remedy.
//! - A run is a pure function of scenario, seed and replication: no wall clock, no statics, no order
//!   of hashing in it. The same seed gives the same bytes whatever the number of threads.
//! - Simulated time is [`engine::Time`] in whole picoseconds; wall time is `std::time::Duration`.
//! - Only [`commands`] prints.

pub mod account;
pub mod cache;
pub mod catalogue;
pub mod cli;
pub mod collective;
pub mod commands;
pub mod device_memory;
pub mod distribution;
pub mod engine;
pub mod fit;
pub mod fluid;
pub mod hand_over;
pub mod import;
pub mod input;
pub mod law;
pub mod live;
pub mod measurement;
pub mod metric;
pub mod plot;
pub mod probe;
pub mod profile;
pub mod published;
pub mod random;
pub mod reference;
pub mod report;
pub mod scenario;
pub mod sim;
pub mod stats;
pub mod sweep;
pub mod template;
pub mod uncertainty;
pub mod units;
pub mod validate;
pub mod verdict;
