//! forebay from the outside: one binary, one module per promise.

mod analytic;
mod architecture;
mod base;
mod calibrated;
mod cli;
mod closed;
mod conformance;
mod conservation;
mod fletcher;
mod knobs;
mod live;
mod output;
mod plot;
mod python_random;
mod runs;
mod scenarios;
mod stalls;
mod support;
mod sweep;
mod uncertainty;
mod yardstick;
