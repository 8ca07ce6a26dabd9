//! Generated images that cost as much to decode as photographs.
//!
//! Noise and drawings do not compress like photographs, but pictures of dead leaves do. Such a picture consists of opaque discs
//! of all sizes that cover one another; the number of discs falls with the cube of the radius. It has edges, flat regions and the
//! spectrum of natural scenes at all scales (Lee, Mumford and Huang, *Occlusion models for natural images*, IJCV 41, 2001). Some
//! leaves are smooth, some rough; colours vary less than brightness.

use forebay_model::random::Generator;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Default JPEG quality of generated images.
pub const QUALITY: u8 = 90;

/// Side of the scene from which images are cut [pixels]; larger images repeat the scene.
const SIDE: usize = 1024;
/// Radii of leaves [pixels].
const RADII: (f64, f64) = (2.0, 300.0);
/// Area of all leaves divided by the area of the scene: so large that hardly a point remains uncovered.
const COVER: f64 = 9.0;
/// Standard deviations of brightness and of colour among leaves, on a scale up to 255.
const BRIGHTNESS: f64 = 42.0;
const COLOUR: f64 = 11.0;
/// Standard deviation of the strongest texture, on a scale up to 255.
const ROUGHNESS: f64 = 24.0;
/// Standard deviation of the sensor noise, on a scale up to 255.
const SENSOR: f64 = 2.0;

/// A scene, from which images are cut.
#[derive(Debug, Clone)]
pub struct Generated {
    /// Interleaved RGB, row by row.
    scene: Arc<[[u8; 3]]>,
    seed: u64,
    quality: u8,
}

impl Generated {
    /// Returns a generator of the images that belong to `seed`, as JPEG of the given quality (1 to 100).
    #[must_use]
    pub fn new(seed: u64, quality: u8) -> Generated {
        let mut draw = Generator::seed_from_u64(seed);
        let texture = texture(&mut draw);
        let leaves = paint(&mut draw);
        let pixel = |(leaf, rough): (&[f32; 4], &f32)| {
            let [light, red, blue, gain] = *leaf;
            let y = 118.0 + light + gain * rough;
            let noise = (SENSOR * normal(&mut draw)) as f32;
            // Red and blue get offsets of their own; green gets the offset that keeps the brightness.
            [y + red + noise, y - 0.5 * red - 0.2 * blue + noise, y + blue + noise].map(|v| v as u8)
        };
        let scene = leaves.iter().zip(&texture).map(pixel).collect();
        Generated { scene, seed, quality: quality.clamp(1, 100) }
    }

    /// Returns the same images as JPEG of another quality.
    #[must_use]
    pub fn at_quality(&self, quality: u8) -> Generated {
        Generated { quality: quality.clamp(1, 100), ..self.clone() }
    }

    /// Returns the same images at the quality at which images of `width` × `height` have `bytes` on average; `None` if no quality
    /// comes within a tenth of `bytes`. The average is taken over up to eight images. For an image larger than the scene, only a
    /// piece of the scene's size is encoded, because the scene repeats anyway.
    #[must_use]
    pub fn of_size(&self, width: usize, height: usize, bytes: f64) -> Option<Generated> {
        let (across, down) = (width.clamp(1, SIDE), height.clamp(1, SIDE));
        let pieces = (width.max(1) * height.max(1)) as f64 / (across * down) as f64;
        let number = (SIDE * SIDE / (across * down)).clamp(1, 8) as u64;
        let mean = |quality: u8| {
            let images = self.at_quality(quality);
            let sizes = (0..number).map(|index| images.jpeg(across, down, index).len() as f64);
            sizes.sum::<f64>() / number as f64 * pieces
        };
        // Sizes grow with quality. The search ends with the lowest quality that is large enough and the quality
        // below it.
        let (mut below, mut above) = (1, 100);
        while above - below > 1 {
            let middle = (below + above) / 2;
            if mean(middle) < bytes { below = middle } else { above = middle }
        }
        let off = |quality: u8| (mean(quality) / bytes - 1.0).abs();
        let best = if off(below) < off(above) { below } else { above };
        (off(best) <= 0.1).then(|| self.at_quality(best))
    }

    /// Returns the pixels of image number `index` as interleaved RGB.
    #[must_use]
    pub fn pixels(&self, width: usize, height: usize, index: u64) -> Vec<u8> {
        let mut draw = Generator::seed_from_u64(self.seed ^ (index + 1).wrapping_mul(GOLDEN));
        let [left, top, turn] = [0; 3].map(|_: u64| draw.next_u64() as usize);
        let (mirror, transpose) = (turn & 1 == 1, turn & 2 == 2);
        let place = |x: usize, y: usize| {
            let (x, y) = if transpose { (y, x) } else { (x, y) };
            let (x, y) = (left.wrapping_add(x) % SIDE, top.wrapping_add(y) % SIDE);
            self.scene[y * SIDE + if mirror { SIDE - 1 - x } else { x }]
        };
        (0..height).flat_map(|y| (0..width).flat_map(move |x| place(x, y))).collect()
    }

    /// Returns image number `index` as a JPEG file (4:2:0); sides are limited to 1 to 65535.
    #[must_use]
    pub fn jpeg(&self, width: usize, height: usize, index: u64) -> Vec<u8> {
        let side = |n: usize| u16::try_from(n.max(1)).unwrap_or(u16::MAX);
        let (width, height) = (side(width), side(height));
        let pixels = self.pixels(width.into(), height.into(), index);
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, self.quality);
        encoder.set_sampling_factor(SamplingFactor::F_2_2);
        // Encoding cannot fail: it writes to memory, and the sizes fit.
        encoder.encode(&pixels, width, height, ColorType::Rgb).expect("an image in memory");
        bytes
    }
}

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns a uniform random number in [0, 1).
fn uniform(draw: &mut Generator) -> f64 {
    (draw.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns a nearly standard normal random number: the scaled sum of four uniform ones.
fn normal(draw: &mut Generator) -> f64 {
    let word = draw.next_u64();
    let part = |i: u32| f64::from((word >> (16 * i)) as u16) / 65_536.0;
    (part(0) + part(1) + part(2) + part(3) - 2.0) * 3.0_f64.sqrt()
}

/// Paints leaves one over the other, the last on top. Returns brightness, red, blue and roughness of each
/// point.
fn paint(draw: &mut Generator) -> Vec<[f32; 4]> {
    let mut scene = vec![[0.0; 4]; SIDE * SIDE];
    let (low, high) = (RADII.0.powi(-2), RADII.1.powi(-2));
    let mut area = 0.0;
    while area < COVER * (SIDE * SIDE) as f64 {
        // The number of leaves falls with the cube of the radius.
        let radius = (high + uniform(draw) * (low - high)).sqrt().recip();
        let [x, y] = [0; 2].map(|_| uniform(draw) * SIDE as f64);
        let rough = uniform(draw).powi(3) * ROUGHNESS;
        let leaf = [BRIGHTNESS * normal(draw), COLOUR * normal(draw), COLOUR * normal(draw), rough];
        disc(&mut scene, x, y, radius, leaf.map(|v| v as f32));
        area += std::f64::consts::PI * radius * radius;
    }
    scene
}

/// Paints a disc with a soft edge of one pixel; parts that leave the scene come in on the opposite side.
fn disc(scene: &mut [[f32; 4]], x: f64, y: f64, radius: f64, leaf: [f32; 4]) {
    let reach = radius.ceil() as i64 + 1;
    for row in y as i64 - reach..=y as i64 + reach {
        let wide = ((radius + 1.0).powi(2) - (row as f64 - y).powi(2)).max(0.0).sqrt();
        let line = row.rem_euclid(SIDE as i64) as usize * SIDE;
        for column in (x - wide).ceil() as i64..=(x + wide).floor() as i64 {
            let inside = radius - (column as f64 - x).hypot(row as f64 - y) + 0.5;
            let share = inside.clamp(0.0, 1.0) as f32;
            let point = &mut scene[line + column.rem_euclid(SIDE as i64) as usize];
            for (value, new) in point.iter_mut().zip(leaf) {
                *value += share * (new - *value);
            }
        }
    }
}

/// Returns smooth noise with equal power in each octave, so that its spectral power falls with the square of
/// the frequency; its standard deviation is about 1.
fn texture(draw: &mut Generator) -> Vec<f32> {
    let mut sum = vec![0.0_f32; SIDE * SIDE];
    for octave in 1..6 {
        let cell = 1 << octave;
        let across = SIDE / cell;
        let lattice: Vec<f32> = (0..across * across).map(|_| normal(draw) as f32).collect();
        for (i, value) in sum.iter_mut().enumerate() {
            let (x, y) = (i % SIDE, i / SIDE);
            let corner = |dx: usize, dy: usize| {
                lattice[(y / cell + dy) % across * across + (x / cell + dx) % across]
            };
            let (u, v) = ((x % cell) as f32 / cell as f32, (y % cell) as f32 / cell as f32);
            let upper = corner(0, 0) * (1.0 - u) + corner(1, 0) * u;
            let lower = corner(0, 1) * (1.0 - u) + corner(1, 1) * u;
            *value += (upper * (1.0 - v) + lower * v) * 0.65;
        }
    }
    sum
}
