//! Floating-point formats that models compute in, and the peak rates of GPUs in each.

use super::Gpu;
use schemars::JsonSchema;
use serde::Deserialize;

/// Floating-point format of the matrix products in a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// 32-bit floats.
    #[default]
    Fp32,
    /// TF32: 32 bits in memory, 19 bits in products.
    Tf32,
    /// 16-bit floats, with a copy of the weights in 32 bits: mixed precision (Micikevicius et al., *Mixed Precision Training*,
    /// 2018).
    Fp16,
    /// BF16: 16 bits with the exponent range of 32-bit floats, and a copy of the weights in 32 bits.
    Bf16,
}

impl Precision {
    /// All formats.
    pub const ALL: [Precision; 4] =
        [Precision::Fp32, Precision::Tf32, Precision::Fp16, Precision::Bf16];

    /// Returns the format's name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Fp16 => "fp16",
            Precision::Bf16 => "bf16",
        }
    }

    /// Returns the size of one element of an activation or a gradient [B].
    #[must_use]
    pub fn bytes(self) -> f64 {
        match self {
            Precision::Fp32 | Precision::Tf32 => 4.0,
            Precision::Fp16 | Precision::Bf16 => 2.0,
        }
    }
}

impl Gpu {
    /// Returns the peak rate in `precision` [FLOP/s]; `None` if the GPU lacks that format.
    #[must_use]
    pub fn peak(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Fp32 => Some(self.fp32),
            Precision::Tf32 => self.tf32,
            Precision::Fp16 => Some(self.fp16.unwrap_or(self.fp32)),
            Precision::Bf16 => self.bf16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::gpu;

    #[test]
    fn peak_flops_of_each_precision_match_data_sheets() {
        let v100 = gpu("v100-sxm2").expect("known");
        let peaks = Precision::ALL.map(|precision| v100.peak(precision));
        assert_eq!(peaks, [Some(15.7e12), None, Some(125e12), None]);
        let k80 = gpu("k80").expect("known");
        assert_eq!(k80.peak(Precision::Fp16), k80.peak(Precision::Fp32));
    }
}
