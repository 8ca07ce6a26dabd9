//! forebay from the outside: one binary, one module per promise.

mod analytic;
mod fletcher;
mod support;
