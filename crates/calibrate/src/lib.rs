//! Timed experiments on a machine, what other programs measured, and the parameters fitted to both.
//!
//! # Example
//!
//! A plan names its probes and what each varies.
//!
//! ```
//! let plan = forebay_calibrate::probe::Plan::parse("plan.toml", "budget = \"9 s\"\n[host]\nbudget = \"3 s\"\n");
//! assert!(plan.is_ok_and(|plan| plan.host.is_some()));
//! ```

pub mod fit;
pub mod import;
pub mod measurement;
pub mod probe;
