//! Cost of decoding a stored sample into a tensor.

/// Cost of decoding on one core: `fixed + per_byte · bytes + per_pixel · pixels`. Entropy decoding is proportional to the stored
/// bytes, transforms and resizing to the pixels.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DecodeLaw {
    /// Fixed cost of each sample [core-s].
    pub fixed: f64,
    /// Cost per stored byte [core-s/B].
    pub per_byte: f64,
    /// Cost per pixel [core-s].
    pub per_pixel: f64,
}

impl DecodeLaw {
    /// Returns the cost of one sample [core-s].
    #[must_use]
    pub fn core_seconds(&self, bytes: f64, pixels: f64) -> f64 {
        self.fixed + self.per_byte * bytes + self.per_pixel * pixels
    }
}
