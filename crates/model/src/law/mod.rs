//! Formulas that calibration fits and simulation evaluates: pure functions of named parameters in SI units.

mod accuracy;
mod cache;
mod copy;
mod decode;
mod measured;
mod occupancy;
mod read;
mod recovery;
mod service;
mod step;
mod throughput;
mod tokens;
mod transport;

pub use accuracy::{EpochsLaw, useful_samples};
pub use cache::{CachePolicy, PassOrder};
pub use copy::CopyLaw;
pub use decode::DecodeLaw;
pub use measured::MeasuredTimes;
pub use occupancy::{OccupancyLaw, Sharing};
pub use read::{ReadLaw, SharedReadLaw};
pub use recovery::RecoveryLaw;
pub use service::MixedReaders;
pub use step::StepLaw;
pub use throughput::{Between, Throughput};
pub use tokens::{TokenLaw, TokensTaken};
pub use transport::{SizeRange, TransportLaw};
