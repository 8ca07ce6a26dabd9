//! forebay: will the accelerators starve, on what, and what should be changed or bought?
pub mod cli;
pub mod commands;
pub mod engine;
pub mod fluid;
pub mod plot;
pub mod random;
pub mod report;
pub mod scenario;
pub mod sim;
pub mod stats;
pub mod sweep;
pub mod units;
