//! From stored bytes to what a network takes.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Mean and standard deviation of ImageNet's channels, of values from 0 to 1.
const MOMENTS: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];

/// Why bytes are no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// They do not begin as JPEG files do.
    #[error("not a JPEG image")]
    Foreign,
    /// They end before the image does.
    #[error("the JPEG image is cut off")]
    Truncated,
    /// They say something that makes no sense, or nothing that this decoder knows.
    #[error("a JPEG image that cannot be decoded: {0}")]
    Broken(String),
}

/// A decoded image: red, then green, then blue, row by row, normalised by ImageNet's moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tensor<'a> {
    /// `3 · height · width` values.
    pub values: &'a [f32],
    /// Pixels of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Pixels of the image before resizing.
    pub pixels: usize,
}

/// Decodes, resizes, normalises; keeps its buffers from image to image. One for each thread.
#[derive(Debug)]
pub struct Decoder {
    side: Option<u32>,
    stored: Vec<u8>,
    resized: Vec<u8>,
    resizer: Resizer,
    tensor: Vec<f32>,
}

impl Decoder {
    /// `resize`: side of the square [pixels] that every image is resized to, bilinear with
    /// antialiasing; images keep their size without.
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
    /// It is none, cut off, or broken.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Tensor<'_>, ImageError> {
        let (width, height) = self.unpack(bytes)?;
        let pixels = width * height;
        let broken = |error: &dyn std::fmt::Display| ImageError::Broken(error.to_string());
        let (values, width, height) = match self.side {
            Some(side) => {
                let stored = &self.stored[..3 * pixels];
                // `resize_typed` is compiled for this type of pixels only, `resize` for thirteen.
                let from = TypedImageRef::<U8x3>::from_buffer(width as u32, height as u32, stored)
                    .map_err(|error| broken(&error))?;
                let mut to = TypedImage::<U8x3>::from_buffer(side, side, &mut self.resized)
                    .map_err(|error| broken(&error))?;
                let how = ResizeAlg::Convolution(FilterType::Bilinear);
                let options = ResizeOptions::new().resize_alg(how);
                self.resizer
                    .resize_typed(&from, &mut to, &options)
                    .map_err(|error| broken(&error))?;
                (&self.resized[..], side as usize, side as usize)
            }
            None => (&self.stored[..3 * pixels], width, height),
        };
        self.tensor.resize(values.len(), 0.0);
        normalise(values, &mut self.tensor);
        Ok(Tensor { values: &self.tensor, width, height, pixels })
    }

    /// Into `stored` as RGB; returns width and height.
    fn unpack(&mut self, bytes: &[u8]) -> Result<(usize, usize), ImageError> {
        if !bytes.starts_with(&[0xff, 0xd8]) {
            return Err(ImageError::Foreign);
        }
        // The decoder fills what is missing with grey; a cut file lacks its end marker. Some
        // writers add bytes behind it.
        if !bytes.windows(2).rev().take(1 << 10).any(|pair| pair == [0xff, 0xd9]) {
            return Err(ImageError::Truncated);
        }
        let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        let broken = |error: &dyn std::fmt::Debug| ImageError::Broken(format!("{error:?}"));
        decoder.decode_headers().map_err(|error| broken(&error))?;
        let missing = || ImageError::Broken("it has no size".to_owned());
        let info = decoder.info().ok_or_else(missing)?;
        let size = decoder.output_buffer_size().ok_or_else(missing)?;
        let (width, height) = (usize::from(info.width), usize::from(info.height));
        if size != 3 * width * height || size == 0 {
            return Err(ImageError::Broken("it has no three colours".to_owned()));
        }
        self.stored.resize(size, 0);
        decoder.decode_into(&mut self.stored).map_err(|error| broken(&error))?;
        Ok((width, height))
    }
}

/// Interleaved bytes to planes of numbers with mean 0 and standard deviation 1.
fn normalise(values: &[u8], tensor: &mut [f32]) {
    let plane = values.len() / 3;
    let [r, g, b] = MOMENTS.map(|(mean, sd)| (1.0 / (255.0 * sd), -mean / sd));
    let (red, rest) = tensor.split_at_mut(plane);
    let (green, blue) = rest.split_at_mut(plane);
    let planes = red.iter_mut().zip(green).zip(blue);
    for (((x, y), z), pixel) in planes.zip(values.chunks_exact(3)) {
        *x = f32::from(pixel[0]) * r.0 + r.1;
        *y = f32::from(pixel[1]) * g.0 + g.1;
        *z = f32::from(pixel[2]) * b.0 + b.1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generated;

    #[test]
    fn a_decoded_image_is_nearly_what_was_encoded() {
        let images = Generated::new(1, 95);
        let (pixels, bytes) = (images.pixels(64, 48, 3), images.jpeg(64, 48, 3));
        let mut decoder = Decoder::new(None);
        let tensor = decoder.decode(&bytes).unwrap();
        assert_eq!((tensor.width, tensor.height, tensor.pixels), (64, 48, 64 * 48));
        let mut expected = vec![0.0; pixels.len()];
        normalise(&pixels, &mut expected);
        let apart = |(a, b): (&f32, &f32)| f64::from((a - b).abs());
        let error: f64 = tensor.values.iter().zip(&expected).map(apart).sum();
        assert!(error / (expected.len() as f64) < 0.1, "mean error {}", error / 9216.0);
    }

    #[test]
    fn a_resized_image_is_square_and_keeps_its_mean() {
        let bytes = Generated::new(2, 90).jpeg(200, 120, 0);
        let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
        let whole = mean(Decoder::new(None).decode(&bytes).unwrap().values);
        let mut decoder = Decoder::new(Some(32));
        for _ in 0..2 {
            let tensor = decoder.decode(&bytes).unwrap();
            assert_eq!((tensor.values.len(), tensor.width, tensor.height), (3 * 32 * 32, 32, 32));
            assert!((mean(tensor.values) - whole).abs() < 0.02);
        }
    }

    #[test]
    fn what_is_no_image_is_refused_and_the_next_one_decoded() {
        let bytes = Generated::new(3, 90).jpeg(100, 80, 0);
        let mut decoder = Decoder::new(Some(16));
        for (cut, expected) in [(0, ImageError::Foreign), (1, ImageError::Foreign)] {
            assert_eq!(decoder.decode(&bytes[..cut]), Err(expected));
        }
        for cut in [2, 20, bytes.len() / 2, bytes.len() - 2] {
            assert_eq!(decoder.decode(&bytes[..cut]), Err(ImageError::Truncated), "{cut} bytes");
        }
        assert_eq!(decoder.decode(b"\x89PNG and so on"), Err(ImageError::Foreign));
        let mut headless = vec![0xff, 0xd8];
        headless.extend(&bytes[bytes.len() / 2..]);
        assert!(matches!(decoder.decode(&headless), Err(ImageError::Broken(_))));
        assert!(decoder.decode(&bytes).is_ok());
    }
}
