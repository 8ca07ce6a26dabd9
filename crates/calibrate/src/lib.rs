//! Timed experiments on a machine, imports of what other programs measured, and the parameters fitted to both.
//!
//! # Example
//!
//! A plan has a table for each probe to run.
//!
//! ```
//! let plan = forebay_calibrate::probe::Plan::parse("plan.toml", "budget = \"9 s\"\n[host]\nbudget = \"3 s\"\n");
//! assert!(plan.is_ok_and(|plan| plan.host.is_some()));
//! ```

pub mod fit;
pub mod import;
pub mod measurement;
pub mod probe;
