//! forebay from the outside: one binary, one module per promise.

mod analytic;
mod architecture;
mod base;
mod caches;
mod calibrate;
mod calibrated;
mod cli;
mod closed;
mod conformance;
mod conservation;
mod fletcher;
mod import;
mod knobs;
mod live;
mod output;
mod plot;
mod profile;
mod python_random;
mod runs;
mod scenarios;
mod stalls;
mod support;
mod sweep;
mod uncertainty;
mod validate;
mod yardstick;
