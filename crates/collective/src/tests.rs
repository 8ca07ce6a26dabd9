//! Tests of every algorithm for every operation: what each rank ends with, what is sent, how long
//! it takes.

mod bytes;
mod cases;
mod choices;
mod ownership;
mod placed;
mod properties;
mod reference;
mod requests;
mod runs;
mod times;
