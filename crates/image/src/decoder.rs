//! Decodes stored images to the tensors that networks take.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Mean and standard deviation of ImageNet's channels, for values from 0 to 1.
const MOMENTS: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];

/// Why bytes cannot be decoded as an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The bytes do not begin as a JPEG file does.
    #[error("not a JPEG image")]
    Foreign,
    /// The bytes end before the image does.
    #[error("the JPEG image is cut off")]
    Truncated,
    /// The image is invalid, or uses a feature that this decoder does not support.
    #[error("the JPEG image is invalid or uses an unsupported feature: {0}")]
    Broken(String),
}

/// A decoded image: the planes red, green and blue one after another, each row by row, normalised by ImageNet's
/// moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tensor<'a> {
    /// `3 · height · width` values.
    pub values: &'a [f32],
    /// Pixels of a row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// Pixels of the image before resizing.
    pub pixels: usize,
}

/// Decodes, resizes and normalises images; reuses its buffers from image to image. Each thread needs its own
/// decoder.
#[derive(Debug)]
pub struct Decoder {
    side: Option<u32>,
    stored: Vec<u8>,
    resized: Vec<u8>,
    resizer: Resizer,
    tensor: Vec<f32>,
}

impl Decoder {
    /// Returns a decoder that resizes every image to a square with side `resize` [pixels], bilinearly with
    /// antialiasing. Without `resize`, images keep their size.
    #[must_use]
    pub fn new(resize: Option<u32>) -> Decoder {
        let side = resize.filter(|&side| side > 0);
        let bytes = side.map_or(0, |side| 3 * side as usize * side as usize);
        let resized = vec![0; bytes];
        Decoder { side, stored: Vec::new(), resized, resizer: Resizer::new(), tensor: Vec::new() }
    }

    /// Turns a JPEG file into a tensor.
    ///
    /// # Errors
    ///
    /// The bytes are no JPEG image, or the image is cut off or broken.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Tensor<'_>, ImageError> {
        let stored = self.unpack(bytes)?;
        let (width, height) = self.resize(stored)?;
        let rgb = rgb(self.side, &self.resized, &self.stored);
        self.tensor.resize(rgb.len(), 0.0);
        normalise(rgb, &mut self.tensor, |value| value);
        let pixels = stored.0 * stored.1;
        Ok(Tensor { values: &self.tensor, width, height, pixels })
    }

    /// Turns a JPEG file into a tensor, whose values are written as 32-bit floats, least significant byte first. `space` gets
    /// their number of bytes, and returns where they are written.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode`]; then nothing is written, and `space` is not called.
    pub fn decode_into<'b>(
        &mut self,
        bytes: &[u8],
        space: impl FnOnce(usize) -> &'b mut [u8],
    ) -> Result<(), ImageError> {
        let stored = self.unpack(bytes)?;
        self.resize(stored)?;
        let rgb = rgb(self.side, &self.resized, &self.stored);
        normalise(rgb, space(4 * rgb.len()).as_chunks_mut().0, f32::to_le_bytes);
        Ok(())
    }

    /// Resizes the image in `stored`, which has this width and height; returns the new ones.
    fn resize(&mut self, (width, height): (usize, usize)) -> Result<(usize, usize), ImageError> {
        let Some(side) = self.side else { return Ok((width, height)) };
        let broken = |error: &dyn std::fmt::Display| ImageError::Broken(error.to_string());
        // `resize_typed` is compiled for this type of pixels only, `resize` would be compiled for thirteen.
        let from = TypedImageRef::<U8x3>::from_buffer(width as u32, height as u32, &self.stored)
            .map_err(|error| broken(&error))?;
        let mut to = TypedImage::<U8x3>::from_buffer(side, side, &mut self.resized)
            .map_err(|error| broken(&error))?;
        let how = ResizeAlg::Convolution(FilterType::Bilinear);
        let options = ResizeOptions::new().resize_alg(how);
        self.resizer.resize_typed(&from, &mut to, &options).map_err(|error| broken(&error))?;
        Ok((side as usize, side as usize))
    }

    /// Decodes an image into `stored` as RGB; returns width and height.
    fn unpack(&mut self, bytes: &[u8]) -> Result<(usize, usize), ImageError> {
        if !bytes.starts_with(&[0xff, 0xd8]) {
            return Err(ImageError::Foreign);
        }
        // The JPEG decoder fills the missing part of a cut file with grey, so a missing end marker is detected
        // here. Some programs add bytes behind the marker.
        if !bytes.windows(2).rev().take(1 << 10).any(|pair| pair == [0xff, 0xd9]) {
            return Err(ImageError::Truncated);
        }
        let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        let broken = |error: &dyn std::fmt::Debug| ImageError::Broken(format!("{error:?}"));
        decoder.decode_headers().map_err(|error| broken(&error))?;
        let missing = || ImageError::Broken("the image has no size".to_owned());
        let info = decoder.info().ok_or_else(missing)?;
        let size = decoder.output_buffer_size().ok_or_else(missing)?;
        let (width, height) = (usize::from(info.width), usize::from(info.height));
        if size != 3 * width * height || size == 0 {
            return Err(ImageError::Broken("it does not have three colour components".to_owned()));
        }
        self.stored.resize(size, 0);
        decoder.decode_into(&mut self.stored).map_err(|error| broken(&error))?;
        Ok((width, height))
    }
}

/// Returns the pixels of the decoded image: `resized` if a `side` is given, otherwise as `stored`.
fn rgb<'d>(side: Option<u32>, resized: &'d [u8], stored: &'d [u8]) -> &'d [u8] {
    if side.is_some() { resized } else { stored }
}

/// Converts interleaved bytes to a plane for each channel, with values of mean 0 and standard deviation 1 in the `form` of the
/// tensor.
fn normalise<T>(values: &[u8], tensor: &mut [T], form: impl Fn(f32) -> T) {
    let plane = values.len() / 3;
    let [r, g, b] = MOMENTS.map(|(mean, sd)| (1.0 / (255.0 * sd), -mean / sd));
    let (red, rest) = tensor.split_at_mut(plane);
    let (green, blue) = rest.split_at_mut(plane);
    let planes = red.iter_mut().zip(green).zip(blue);
    for (((x, y), z), pixel) in planes.zip(values.chunks_exact(3)) {
        *x = form(f32::from(pixel[0]) * r.0 + r.1);
        *y = form(f32::from(pixel[1]) * g.0 + g.1);
        *z = form(f32::from(pixel[2]) * b.0 + b.1);
    }
}
