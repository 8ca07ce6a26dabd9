//! forebay from the outside: one binary, one module per promise.

mod analytic;
mod architecture;
mod base;
mod cli;
mod conservation;
mod fletcher;
mod output;
mod plot;
mod runs;
mod support;
mod sweep;
