//! A data set as readers find it: in memory, or in files that were generated or are the user's.

use super::Failure;
use super::sizes::Sizes;
use forebay_image::{Generated, QUALITY};
use forebay_model::input::path_as_json;
use forebay_model::input::shown;
use forebay_scenario::{Access, Dataset, Framing, Image, Layout, Scenario};
use rustix::fs::{Advice, Mode, OFlags, fadvise, open, openat};
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Files in one directory at most.
const PER_DIRECTORY: u64 = 1000;
/// Memory that stands for a data set in memory at most [B]: more than caches hold.
const MEMORY: u64 = 256 << 20;

/// Where a data set's files are.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Location {
    /// Directory.
    #[serde(with = "path_as_json")]
    pub(super) root: PathBuf,
    /// Whether it is the user's: then its files are listed, else they are numbered.
    pub(super) users: bool,
    /// How they are read.
    pub(super) access: Access,
    /// Whether sizes are the files' own, not the drawn ones.
    pub(super) measured: bool,
    /// Whether it is on a file server: then that one's limits hold, not the scenario's.
    pub(super) mounted: bool,
}

/// A data set as readers find it.
pub(super) struct Data {
    pub(super) samples: u64,
    pub(super) sizes: Sizes,
    pub(super) layout: Layout,
    pub(super) place: DataSource,
}

/// Where its bytes are.
pub(super) enum DataSource {
    /// Any bytes will do.
    Memory(Vec<u8>),
    Files(Files),
}

/// Files below a directory.
pub(super) struct Files {
    pub(super) root: OwnedFd,
    path: PathBuf,
    /// Names relative to the directory; `None`: numbered.
    names: Option<Vec<String>>,
    pub(super) direct: bool,
}

impl Data {
    /// Data set number `index` of `scenario`, at `location`, or in memory without one.
    pub(super) fn find(
        scenario: &Scenario,
        index: usize,
        location: Option<&Location>,
    ) -> Result<Data, Failure> {
        let dataset = &scenario.datasets[index];
        let drawn = Sizes::drawn(dataset, index, scenario.run.seed).ok_or_else(|| {
            Failure::Lacking("a table of sample sizes can only be simulated".to_owned())
        })?;
        let (samples, layout) = (dataset.samples, dataset.layout);
        let Some(location) = location else {
            let bytes = drawn.sum(0, samples.min(1 << 20), Framing::NONE).clamp(1, MEMORY);
            let longest = (0..samples.min(1 << 20)).map(|i| drawn.of(i)).max().unwrap_or(1);
            let length = usize::try_from(bytes.max(longest)).unwrap_or(usize::MAX);
            let place = DataSource::Memory(noise(index as u64, length));
            return Ok(Data { samples, sizes: drawn, layout, place });
        };
        let files = Files::open(location)?;
        let sizes = if location.measured { files.sizes(dataset)? } else { drawn };
        Ok(Data { samples, sizes, layout, place: DataSource::Files(files) })
    }

    /// The name of a file in messages.
    pub(super) fn path(&self, file: u64) -> String {
        match &self.place {
            DataSource::Memory(_) => "memory".to_owned(),
            DataSource::Files(files) => shown(&files.path(file)),
        }
    }
}

impl Files {
    /// The files at `location`.
    pub(super) fn open(location: &Location) -> Result<Files, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(&location.root, flags, Mode::empty())
            .map_err(|error| Failure::file("open", &location.root, error))?;
        let names = if location.users { Some(list(&location.root)?) } else { None };
        let direct = location.access == Access::Direct;
        Ok(Files { root, path: location.root.clone(), names, direct })
    }

    /// Puts the name of a file, relative to the root, into `name`.
    pub(super) fn name(&self, file: u64, name: &mut String) {
        name.clear();
        match &self.names {
            // Writing to a string cannot fail.
            None => write!(name, "{}/{file}", file / PER_DIRECTORY).unwrap_or_default(),
            Some(names) => name.push_str(names.get(file as usize).map_or("", String::as_str)),
        }
    }

    /// Where a file is.
    pub(super) fn path(&self, file: u64) -> PathBuf {
        let mut name = String::new();
        self.name(file, &mut name);
        self.path.join(name)
    }

    /// Number of the user's files.
    pub(super) fn listed(&self) -> Option<u64> {
        self.names.as_ref().map(|names| names.len() as u64)
    }

    /// Length of a file [B]; 0 where it cannot be had.
    pub(super) fn length(&self, file: u64) -> u64 {
        fs::metadata(self.path(file)).map_or(0, |found| found.len())
    }

    /// Opens the first file past the page cache, and reads of it.
    pub(super) fn try_direct(&self) -> Result<(), rustix::io::Errno> {
        let mut name = String::new();
        self.name(0, &mut name);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT;
        openat(&self.root, name.as_str(), flags, Mode::empty()).map(drop)
    }

    /// The samples' sizes as the files have them: shards are cut into equal samples.
    fn sizes(&self, dataset: &Dataset) -> Result<Sizes, Failure> {
        let mut sizes = Vec::with_capacity(dataset.samples as usize);
        for file in 0..dataset.files() {
            let path = self.path(file);
            let length = fs::metadata(&path).map_err(|e| Failure::file("open", &path, e))?.len();
            let samples = samples_of(dataset, file);
            let samples = samples.end - samples.start;
            if length < samples {
                let what = format!("{} has {length} bytes for {samples} samples", shown(&path));
                return Err(Failure::Input(what));
            }
            let size = dataset.layout.record().inside(length / samples);
            let size = u32::try_from(size).unwrap_or(u32::MAX);
            sizes.extend((0..samples).map(|_| size));
        }
        Ok(Sizes::Each(sizes))
    }

    /// Brings the first `count` files into the page cache or drops them from it.
    pub(super) fn settle(&self, count: u64, access: Access) -> Result<(), Failure> {
        let mut buffer = vec![0; 1 << 20];
        for file in 0..count {
            let path = self.path(file);
            let mut opened = fs::File::open(&path).map_err(|e| Failure::file("open", &path, e))?;
            if access == Access::Warm {
                while std::io::Read::read(&mut opened, &mut buffer)
                    .map_err(|e| Failure::file("read", &path, e))?
                    > 0
                {}
            } else {
                fadvise(&opened, 0, None, Advice::DontNeed)
                    .map_err(|e| Failure::file("drop from the page cache", &path, e))?;
            }
        }
        Ok(())
    }
}

/// The samples that are in a file.
fn samples_of(dataset: &Dataset, file: u64) -> Range<u64> {
    let in_file = dataset.samples_per_file();
    let first = file.saturating_mul(in_file);
    first..first.saturating_add(in_file).min(dataset.samples)
}

/// Names of all files below `root`, relative to it, in order.
fn list(root: &Path) -> Result<Vec<String>, Failure> {
    let (mut names, mut pending) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = pending.pop() {
        let directory = root.join(&below);
        let refuse = |error| Failure::file("list", &directory, error);
        for entry in fs::read_dir(&directory).map_err(refuse)? {
            let entry = entry.map_err(refuse)?;
            let path = below.join(entry.file_name());
            let link = entry.path();
            let kind = fs::metadata(&link).map_err(|error| Failure::file("read", &link, error))?;
            if kind.is_dir() && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(path);
            } else if kind.is_file() && kind.len() > 0 {
                names.extend(path.to_str().map(str::to_owned));
            }
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Writes the files of a data set below `root`; `on_bytes` is told how many bytes each write added
/// and says whether to go on.
pub(super) fn generate(
    root: &Path,
    dataset: &Dataset,
    sizes: &Sizes,
    seed: u64,
    mut on_bytes: impl FnMut(u64) -> bool,
) -> Result<(), Failure> {
    // Incompressible, and never at the same place of a block twice in a row.
    let noise = noise(dataset.samples, (4 << 20) + 65_521);
    let images = dataset.image.map(|image| images(dataset, image, seed)).transpose()?;
    for file in 0..dataset.files() {
        let directory = root.join((file / PER_DIRECTORY).to_string());
        if file % PER_DIRECTORY == 0 {
            fs::create_dir_all(&directory).map_err(|e| Failure::file("make", &directory, e))?;
        }
        let path = directory.join(file.to_string());
        let samples = samples_of(dataset, file);
        let length = sizes.sum(samples.start, samples.end, dataset.layout.record());
        let written = match (&images, dataset.image) {
            (Some(images), Some(Image { width, height, .. })) => {
                fs::write(&path, images.jpeg(width as usize, height as usize, file))
            }
            _ => fill(&path, length, &noise, file),
        };
        written.map_err(|e| Failure::file("write", &path, e))?;
        if !on_bytes(length) {
            return Err(Failure::Interrupted);
        }
    }
    Ok(())
}

/// Most pixels of an image that is generated: half a second and 300 MB.
const MOST_PIXELS: f64 = 1e8;

/// Images of the data set's sides, about as large as it says its samples are.
fn images(dataset: &Dataset, image: Image, seed: u64) -> Result<Generated, Failure> {
    let (width, height) = (image.width as usize, image.height as usize);
    let size = dataset.mean_size();
    if image.pixels() > MOST_PIXELS {
        return Err(Failure::Lacking(format!(
            "images of {width} × {height} pixels are too large to generate: name files with --data, or \
             write at most 100 million pixels in `dataset.{}.image`",
            dataset.name
        )));
    }
    Generated::new(seed, QUALITY).of_size(width, height, size).ok_or_else(|| {
        Failure::Input(format!(
            "no image of {width} × {height} pixels that can be generated has {size:.0} bytes as JPEG: \
             write another `dataset.{}.sample_size`; usual are 0.2 to 0.6 bytes per pixel",
            dataset.name
        ))
    })
}

fn fill(path: &Path, length: u64, noise: &[u8], salt: u64) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    let mut left = length;
    let mut at = (salt.wrapping_mul(7919) % 65_521) as usize;
    while left > 0 {
        let part = &noise[at..noise.len().min(at + usize::try_from(left).unwrap_or(usize::MAX))];
        std::io::Write::write_all(&mut file, part)?;
        left -= part.len() as u64;
        at = 0;
    }
    Ok(())
}

/// Bytes without a pattern.
fn noise(salt: u64, length: usize) -> Vec<u8> {
    let mut x = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
