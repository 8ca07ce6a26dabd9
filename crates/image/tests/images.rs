//! Images that are generated, decoded and resized.
//!
//! These tests stand outside the crate because building it takes half a minute of a core: its dependencies are compiled into it, for
//! each instruction set and precision.

use forebay_image::{Decoder, Generated, ImageError, QUALITY};

/// Mean and standard deviation of the red, green and blue of ImageNet's pixels, by which loaders normalise.
const MOMENTS: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];

#[test]
fn decoded_pixels_are_close_to_the_encoded_pixels() {
    let images = Generated::new(1, 95);
    let (pixels, bytes) = (images.pixels(64, 48, 3), images.jpeg(64, 48, 3));
    let mut decoder = Decoder::new(None);
    let tensor = decoder.decode(&bytes).unwrap();
    assert_eq!((tensor.width, tensor.height, tensor.pixels), (64, 48, 64 * 48));
    let plane = |colour: usize, (mean, sd): (f32, f32)| {
        let values = pixels.iter().skip(colour).step_by(3);
        values.map(move |value| (f32::from(*value) / 255.0 - mean) / sd).collect::<Vec<f32>>()
    };
    let planes = MOMENTS.iter().enumerate().map(|(colour, of)| plane(colour, *of));
    let expected: Vec<f32> = planes.flatten().collect();
    let apart = |(a, b): (&f32, &f32)| f64::from((a - b).abs());
    let error: f64 = tensor.values.iter().zip(&expected).map(apart).sum();
    assert!(error / (expected.len() as f64) < 0.1, "mean error {}", error / 9216.0);
}

#[test]
fn a_resized_image_is_square_and_keeps_its_mean_pixel_value() {
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
fn a_tensor_is_written_into_a_given_buffer_as_32_bit_floats() {
    let bytes = Generated::new(4, 90).jpeg(120, 90, 0);
    for side in [None, Some(32)] {
        let mut decoder = Decoder::new(side);
        let values = decoder.decode(&bytes).unwrap().values;
        let expected: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut buffer = vec![0; expected.len() + 1];
        decoder.decode_into(&bytes, |size| &mut buffer[1..=size]).unwrap();
        assert_eq!(buffer[1..], expected);
        let unused = |_: usize| -> &mut [u8] { unreachable!("there is no image") };
        assert_eq!(decoder.decode_into(b"no image", unused), Err(ImageError::Foreign));
    }
}

#[test]
fn invalid_images_are_refused_and_the_next_valid_image_is_decoded() {
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

#[test]
fn the_same_seed_and_image_number_generate_the_same_image() {
    let (one, two) = (Generated::new(4, 90), Generated::new(5, 90));
    let image = one.jpeg(60, 40, 0);
    assert_eq!(image, Generated::new(4, 90).jpeg(60, 40, 0));
    assert_ne!(image, one.jpeg(60, 40, 1));
    assert_ne!(image, two.jpeg(60, 40, 0));
}

#[test]
fn bytes_per_pixel_are_those_of_photographs() {
    let images = Generated::new(1, QUALITY);
    let sizes: Vec<usize> = (0..20).map(|i| images.jpeg(500, 375, i).len()).collect();
    let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64 / (500.0 * 375.0);
    assert!((0.33..0.53).contains(&mean), "{mean} B per pixel");
    assert!(sizes.iter().max() > sizes.iter().min(), "images differ");
}

#[test]
fn images_have_the_size_that_is_asked_for() {
    let images = Generated::new(2, QUALITY);
    let mean = |images: &Generated| {
        (0..20).map(|i| images.jpeg(192, 144, i).len() as f64).sum::<f64>() / 20.0
    };
    for bytes in [4e3, 8e3, 14e3] {
        let found = mean(&images.of_size(192, 144, bytes).expect("a quality"));
        assert!((found / bytes - 1.0).abs() < 0.15, "{found} for {bytes}");
    }
    assert!(images.of_size(192, 144, 200.0).is_none() && images.of_size(192, 144, 1e6).is_none());
}

/// System: images larger than the scene, and images without pixels. Expectation: pixels and a JPEG file all
/// the same.
#[test]
fn images_of_any_size_can_be_generated() {
    let images = Generated::new(1, QUALITY);
    assert_eq!(images.pixels(1500, 2, 0).len(), 9000);
    assert!(!images.jpeg(0, 0, 0).is_empty());
}
