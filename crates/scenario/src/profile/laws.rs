//! Conversion of fits into laws.

use super::{Fit, Parameter, known};
use forebay_model::law::{
    CopyLaw, DecodeLaw, MeasuredTimes, ReadLaw, SharedReadLaw, SizeRange, StepLaw, TransportLaw,
};

impl Fit {
    /// Returns the fit as a law of step times, or of times that are added to steps; `None` if a parameter is missing.
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
        let (Some(law), [first, .., last]) = (self.step(), &self.ratios[..]) else {
            return self.ratios.first().map_or(1.0, |only| only.ratio);
        };
        let within = batch.clamp(first.batch, last.batch);
        let after = self.ratios.partition_point(|of| of.batch < within).max(1);
        let [low, high] = [self.ratios[after - 1], self.ratios[after]];
        let [from, to] = [low, high].map(|of| of.ratio * law.seconds(of.batch));
        let seconds = from + (to - from) * (within - low.batch) / (high.batch - low.batch);
        let ratio = seconds / law.seconds(within);
        if ratio.is_finite() { ratio } else { 1.0 }
    }

    /// Returns the fit as a law of messages or collectives by size, with the times at measured sizes; `None` if it has no range
    /// of sizes. In a range without `gamma`, the time of reductions is part of `beta`.
    #[must_use]
    pub fn transport(&self) -> Option<TransportLaw> {
        let range = |number: usize| {
            let value = |name: &str| self.value(&format!("{name}_{number}"));
            let from = if number == 1 { Some(0.0) } else { value("from") };
            let gamma = value("gamma").unwrap_or(0.0);
            Some(SizeRange { from: from?, alpha: value("alpha")?, beta: value("beta")?, gamma })
        };
        let ranges: Vec<SizeRange> = (1..).map_while(range).collect();
        let law = TransportLaw::new(&ranges)?;
        Some(match MeasuredTimes::new(&self.measured_sizes()) {
            Some(measured) => law.with_measured(measured, self.value("beyond").unwrap_or(1.0)),
            None => law,
        })
    }

    /// Returns the measured sizes of a collective with their median times [B, s], ascending; none for other fits.
    #[must_use]
    pub fn measured_sizes(&self) -> Vec<(f64, f64)> {
        // A draw may have no time left.
        let size = |(name, parameter): (&String, &Parameter)| {
            let bytes = known::measured_size(name).filter(|_| parameter.value > 0.0)?;
            Some((bytes as f64, parameter.value))
        };
        let mut sizes: Vec<(f64, f64)> = self.parameters.iter().filter_map(size).collect();
        sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
        sizes.dedup_by_key(|size| size.0);
        sizes
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
            overhead: self.value("overhead").unwrap_or(0.0),
            cpu_fixed: self.value("cpu_fixed").unwrap_or(0.0),
            cpu_per_byte: self.value("cpu_per_byte").unwrap_or(0.0),
        })
    }

    /// Returns the fit as a law of reads from a storage that nodes share; `None` if the fit has none of its parameters. A missing rate is
    /// unlimited.
    #[must_use]
    pub fn shared_read(&self) -> Option<SharedReadLaw> {
        let names = ["latency", "per_stream", "per_client", "bandwidth", "operations"];
        names.iter().any(|name| self.parameters.contains_key(*name)).then(|| SharedReadLaw {
            read: ReadLaw {
                latency: self.value("latency").unwrap_or(0.0),
                per_stream: self.value("per_stream").unwrap_or(f64::INFINITY),
                bandwidth: self.value("bandwidth").unwrap_or(f64::INFINITY),
                operations: self.value("operations").unwrap_or(f64::INFINITY),
                overhead: 0.0,
                cpu_fixed: 0.0,
                cpu_per_byte: 0.0,
            },
            per_client: self.value("per_client").unwrap_or(f64::INFINITY),
        })
    }
}
