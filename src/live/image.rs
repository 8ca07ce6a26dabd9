//! Images: generated ones, and decoding.

use crate::scenario::Image;

/// Decodes images and keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct Decoder;

impl Decoder {
    /// Decodes `stored` and resizes it as `image` says.
    pub(super) fn decode(&mut self, _stored: &[u8], _image: Image) -> Result<(), String> {
        Err("decoding images is not built in".to_owned())
    }
}
