//! Do generated images cost what photographs cost to decode? Prints core time per byte and per
//! pixel of both beside published rates, and for each photograph the ratio to generated images of
//! the same sides and stored bytes. Photographs: a directory of JPEG files (4:2:0), if given.
#![expect(clippy::print_stdout, reason = "this is all that it does")]

use forebay::image::{Decoder, Generated, QUALITY};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::path::Path;

/// Each image is decoded this often; the fastest counts.
const ROUNDS: usize = 25;

/// Images that generated ones are averaged over.
const ALIKE: u64 = 6;

fn core_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Core time [core-s] of each image, interleaved, and its pixels.
fn cost(images: &[Vec<u8>]) -> Result<Vec<(f64, usize)>, Box<dyn Error>> {
    let mut decoder = Decoder::new(None);
    let mut best = vec![(f64::INFINITY, 0); images.len()];
    for _ in 0..ROUNDS {
        for (image, best) in images.iter().zip(&mut best) {
            let start = core_seconds();
            let pixels = decoder.decode(image)?.pixels;
            *best = (best.0.min(core_seconds() - start), pixels);
        }
    }
    Ok(best)
}

fn line(name: &str, images: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let costs = cost(images)?;
    let bytes = images.iter().map(Vec::len).sum::<usize>() as f64;
    let pixels = costs.iter().map(|&(_, pixels)| pixels).sum::<usize>() as f64;
    let seconds: f64 = costs.iter().map(|&(seconds, _)| seconds).sum();
    let (per_byte, per_pixel) = (seconds / bytes * 1e9, seconds / pixels * 1e9);
    let density = bytes / pixels;
    println!("{name:34} {per_byte:6.2} ns/B {per_pixel:6.2} ns/pixel {density:6.3} B/pixel");
    Ok(())
}

/// Generated images of these sides whose mean size is nearest to `bytes`.
fn alike(scene: &Generated, width: usize, height: usize, bytes: usize) -> Vec<Vec<u8>> {
    let of = |quality| -> Vec<Vec<u8>> {
        let scene = scene.at_quality(quality);
        (0..ALIKE).map(|i| scene.jpeg(width, height, i)).collect()
    };
    let error = |images: &[Vec<u8>]| {
        (images.iter().map(Vec::len).sum::<usize>() / images.len()).abs_diff(bytes)
    };
    (20..=98).step_by(2).map(of).min_by_key(|images| error(images)).unwrap_or_default()
}

fn photographs(directory: &Path, scene: &Generated) -> Result<(), Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        names.push(entry?.path());
    }
    names.sort();
    let mut photographs = Vec::new();
    let mut ratios = Vec::new();
    for name in names {
        let photograph = std::fs::read(&name)?;
        let mut decoder = Decoder::new(None);
        let Ok(tensor) = decoder.decode(&photograph) else { continue };
        let mut images = alike(scene, tensor.width, tensor.height, photograph.len());
        images.insert(0, photograph.clone());
        let costs = cost(&images)?;
        let per_byte = |i: usize| costs[i].0 / images[i].len() as f64;
        let generated = (1..images.len()).map(per_byte).sum::<f64>() / ALIKE as f64;
        ratios.push(generated / per_byte(0));
        let stem = name.file_stem().unwrap_or_default().to_string_lossy();
        println!(
            "  generated / {stem:20} {:5.2} at the same sides and bytes",
            generated / per_byte(0)
        );
        photographs.push(photograph);
    }
    if !photographs.is_empty() {
        line("photographs", &photographs)?;
        println!("mean ratio {:.3}", ratios.iter().sum::<f64>() / ratios.len() as f64);
    }
    Ok(())
}

fn published() -> Result<(), Box<dyn Error>> {
    let table: toml::Table =
        toml::from_str(include_str!("../calibrate/compare/decode_rates.toml"))?;
    for rate in table["rate"].as_array().into_iter().flatten() {
        let bytes = rate["bytes"].as_integer().unwrap_or(1) as f64;
        for (library, images) in rate["images_per_second"].as_table().into_iter().flatten() {
            let per_byte = 1e9 / (bytes * images.as_integer().unwrap_or(1) as f64);
            let processor = rate["processor"].as_str().unwrap_or_default();
            println!("{library:14} {per_byte:6.2} ns/B  {processor}");
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    published()?;
    let scene = Generated::new(1, QUALITY);
    for width in [250, 500, 1000] {
        let images: Vec<_> = (0..24).map(|i| scene.jpeg(width, width * 3 / 4, i)).collect();
        line(&format!("generated, {width} wide, quality {QUALITY}"), &images)?;
    }
    match std::env::args().nth(1) {
        Some(directory) => photographs(Path::new(&directory), &scene),
        None => Ok(()),
    }
}
