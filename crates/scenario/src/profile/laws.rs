//! Conversion of fits into laws.

use super::Fit;
use forebay_model::law::{
    CopyLaw, DecodeLaw, OccupancyLaw, ReadLaw, SizeRange, StepLaw, TransportLaw,
};

impl Fit {
    /// Returns the fit as a law of step times; `None` if a parameter is missing.
    #[must_use]
    pub fn step(&self) -> Option<StepLaw> {
        Some(StepLaw {
            floor: self.value("floor").unwrap_or(0.0),
            fixed: self.value("fixed")?,
            per_sample: self.value("per_sample")?,
        })
    }

    /// Returns the factor by which a step over `batch` samples takes longer than the law says: between measured batches, times are
    /// interpolated linearly; beyond them, the nearest measured batch gives the factor. Returns 1 without ratios.
    #[must_use]
    pub fn step_ratio(&self, batch: f64) -> f64 {
        let after = self.ratios.partition_point(|[measured, _]| *measured < batch);
        let near = [after.saturating_sub(1), after].map(|index| self.ratios.get(index));
        match (near, self.step()) {
            ([Some([low, before]), Some([high, behind])], Some(law))
                if low < &batch && low < high =>
            {
                let [from, to] = [law.seconds(*low) * before, law.seconds(*high) * behind];
                let seconds = from + (to - from) * (batch - low) / (high - low);
                let ratio = seconds / law.seconds(batch);
                if ratio.is_finite() { ratio } else { 1.0 }
            }
            ([_, Some([_, ratio])] | [Some([_, ratio]), None], _) => *ratio,
            _ => 1.0,
        }
    }

    /// Returns the fit as a law of messages or collectives by size; `None` if it has no range of sizes. In a range
    /// without `gamma`, the time of reductions is part of `beta`.
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

    /// Returns the fit as a law of learners that share a GPU; `None` if a parameter is missing.
    #[must_use]
    pub fn occupancy(&self) -> Option<OccupancyLaw> {
        Some(OccupancyLaw::Saturating { half: self.value("half_batch")? })
    }

    /// Returns the fit as a law of copies to or from a GPU; `None` if a parameter is missing.
    #[must_use]
    pub fn copy(&self) -> Option<CopyLaw> {
        Some(CopyLaw { latency: self.value("latency")?, bandwidth: self.value("bandwidth")? })
    }

    /// Returns the fit as a law of decoding; `None` if a parameter is missing.
    #[must_use]
    pub fn decode(&self) -> Option<DecodeLaw> {
        Some(DecodeLaw {
            fixed: self.value("fixed")?,
            per_byte: self.value("per_byte")?,
            per_pixel: self.value("per_pixel")?,
        })
    }

    /// Returns the fit as a law of reads; `None` if the latency is missing. A missing rate is unlimited.
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
