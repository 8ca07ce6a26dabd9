//! Fits as the laws that they are of.

use super::Fit;
use forebay_model::law::{
    CopyLaw, DecodeLaw, OccupancyLaw, ReadLaw, SizeRange, StepLaw, TransportLaw,
};

impl Fit {
    /// The fit as a law of steps.
    #[must_use]
    pub fn step(&self) -> Option<StepLaw> {
        Some(StepLaw {
            floor: self.value("floor").unwrap_or(0.0),
            fixed: self.value("fixed")?,
            per_sample: self.value("per_sample")?,
        })
    }

    /// The fit as a law of messages or collectives by size; what a range does not say of reductions is
    /// within its `beta`.
    #[must_use]
    pub fn transport(&self) -> Option<TransportLaw> {
        let range = |number: usize| {
            let value = |name: &str| self.value(&format!("{name}_{number}"));
            let from = if number == 1 { Some(0.0) } else { value("from") };
            let gamma = value("gamma").unwrap_or(0.0);
            Some(SizeRange { from: from?, alpha: value("alpha")?, beta: value("beta")?, gamma })
        };
        let ranges: Vec<SizeRange> = (1..).map_while(range).collect();
        TransportLaw::new(&ranges)
    }

    /// The fit as a law of learners that share a GPU.
    #[must_use]
    pub fn occupancy(&self) -> Option<OccupancyLaw> {
        Some(OccupancyLaw::Saturating { half: self.value("half_batch")? })
    }

    /// The fit as a law of copies to or from a GPU.
    #[must_use]
    pub fn copy(&self) -> Option<CopyLaw> {
        Some(CopyLaw { latency: self.value("latency")?, bandwidth: self.value("bandwidth")? })
    }

    /// The fit as a law of decoding.
    #[must_use]
    pub fn decode(&self) -> Option<DecodeLaw> {
        Some(DecodeLaw {
            fixed: self.value("fixed")?,
            per_byte: self.value("per_byte")?,
            per_pixel: self.value("per_pixel")?,
        })
    }

    /// The fit as a law of reads; what is not there does not limit.
    #[must_use]
    pub fn read(&self) -> Option<ReadLaw> {
        Some(ReadLaw {
            latency: self.value("latency")?,
            per_stream: self.value("per_stream").unwrap_or(f64::INFINITY),
            bandwidth: self.value("bandwidth").unwrap_or(f64::INFINITY),
            operations: self.value("operations").unwrap_or(f64::INFINITY),
            cpu_fixed: self.value("cpu_fixed").unwrap_or(0.0),
            cpu_per_byte: self.value("cpu_per_byte").unwrap_or(0.0),
        })
    }
}
