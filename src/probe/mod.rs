//! Timed experiments on this machine; knows nothing of scenarios.

pub mod cpu;
