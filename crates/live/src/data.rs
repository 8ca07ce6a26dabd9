//! Data sets as readers see them: in memory, in generated files, or in the user's files.

use super::fault::Failure;
use super::sizes::Sizes;
use forebay_calibrate::probe::read::{no_file, open_data};
use forebay_image::{Generated, QUALITY};
use forebay_model::input::path_as_json;
use forebay_model::input::shown;
use forebay_scenario::{Access, Dataset, Framing, Image, Layout, Scenario};
use rustix::fs::{Advice, CWD, Mode, OFlags, fadvise, open};
use std::fmt::Write as _;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Limit for the number of files in one directory.
const PER_DIRECTORY: u64 = 1000;
/// Limit for the buffer that represents a data set in memory [B]; it is larger than CPU caches.
const MEMORY: u64 = 256 << 20;

/// Location of a data set's files.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Location {
    /// Directory.
    #[serde(with = "path_as_json")]
    pub(super) root: PathBuf,
    /// Whether the directory is the user's. Its files are then listed; generated files are numbered.
    pub(super) users: bool,
    /// Access mode of reads.
    pub(super) access: Access,
    /// Whether the sizes of samples are read from the files instead of sampled.
    pub(super) measured: bool,
    /// Whether the directory is on a file server. The server's limits then apply, not the scenario's.
    pub(super) mounted: bool,
}

/// A data set as readers see it.
pub(super) struct Data {
    pub(super) samples: u64,
    pub(super) sizes: Sizes,
    pub(super) layout: Layout,
    pub(super) place: DataSource,
}

/// Location of the bytes of a data set.
pub(super) enum DataSource {
    /// A buffer in memory; its content does not matter.
    Memory(Vec<u8>),
    Files(Files),
}

/// Files below a directory.
pub(super) struct Files {
    pub(super) root: OwnedFd,
    path: PathBuf,
    /// Names relative to the directory; `None` if files are numbered.
    names: Option<Vec<String>>,
    /// What is below the directory and neither a file nor a directory, with what it is.
    others: Vec<(PathBuf, &'static str)>,
    pub(super) direct: bool,
}

impl Data {
    /// Returns data set number `index` of `scenario`: the files at `location`, or a buffer in memory if `location` is `None`.
    pub(super) fn find(
        scenario: &Scenario,
        index: usize,
        location: Option<&Location>,
    ) -> Result<Data, Failure> {
        let dataset = &scenario.datasets[index];
        let drawn = Sizes::drawn(dataset, index, scenario.run.seed).ok_or_else(|| {
            Failure::Lacking(
                "a live run cannot use a table of sample sizes; such a table can only be simulated"
                    .to_owned(),
            )
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

    /// Returns the name of a file for messages.
    pub(super) fn path(&self, file: u64) -> String {
        match &self.place {
            DataSource::Memory(_) => "memory".to_owned(),
            DataSource::Files(files) => shown(&files.path(file)),
        }
    }
}

impl Files {
    /// Opens the directory at `location` and lists its files if it is the user's.
    pub(super) fn open(location: &Location) -> Result<Files, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(&location.root, flags, Mode::empty())
            .map_err(|error| Failure::file("open", &location.root, error))?;
        let (names, others) = match location.users {
            true => list(&location.root).map(|(names, others)| (Some(names), others))?,
            false => (None, Vec::new()),
        };
        let direct = location.access == Access::Direct;
        Ok(Files { root, path: location.root.clone(), names, others, direct })
    }

    /// Writes the name of a file, relative to the root, into `name`.
    pub(super) fn name(&self, file: u64, name: &mut String) {
        name.clear();
        match &self.names {
            // Writing to a string cannot fail.
            None => write!(name, "{}/{file}", file / PER_DIRECTORY).unwrap_or_default(),
            Some(names) => name.push_str(names.get(file as usize).map_or("", String::as_str)),
        }
    }

    /// Returns the path of a file.
    pub(super) fn path(&self, file: u64) -> PathBuf {
        let mut name = String::new();
        self.name(file, &mut name);
        self.path.join(name)
    }

    /// Returns the number of the user's files; `None` if files are numbered.
    pub(super) fn listed(&self) -> Option<u64> {
        self.names.as_ref().map(|names| names.len() as u64)
    }

    /// Returns which of the user's files are left out, in words; `None` if none is.
    pub(super) fn left_out(&self) -> Option<String> {
        let (path, what) = self.others.first()?;
        let first = format!("{} is {what}", shown(path));
        Some(match self.others.len() {
            1 => format!("left out: {first}"),
            count => format!("left out: {first}, and {} more", count - 1),
        })
    }

    /// Returns the length of a file [B]; 0 if it cannot be read.
    pub(super) fn length(&self, file: u64) -> u64 {
        fs::metadata(self.path(file)).map_or(0, |found| found.len())
    }

    /// Tries to open the first file for direct reads, which bypass the page cache.
    pub(super) fn try_direct(&self) -> io::Result<()> {
        let mut name = String::new();
        self.name(0, &mut name);
        open_data(&self.root, Path::new(&name), true).map(drop)
    }

    /// Returns the sizes of samples according to the files; shards are divided into samples of equal size.
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

    /// Reads the first `count` files into the page cache if `access` is warm; otherwise drops them from the page cache.
    pub(super) fn settle(&self, count: u64, access: Access) -> Result<(), Failure> {
        let mut buffer = vec![0; 1 << 20];
        for file in 0..count {
            let path = self.path(file);
            let mut opened =
                open_data(CWD, &path, false).map_err(|e| Failure::file("open", &path, e))?;
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

/// Returns the range of samples in a file.
fn samples_of(dataset: &Dataset, file: u64) -> Range<u64> {
    let in_file = dataset.samples_per_file();
    let first = file.saturating_mul(in_file);
    first..first.saturating_add(in_file).min(dataset.samples)
}

/// Names of files, and what is no file, with what it is.
type Listed = (Vec<String>, Vec<(PathBuf, &'static str)>);

/// Returns the names of all non-empty files below `root`, relative to it, in order; and the paths of all that is neither a file nor a
/// directory.
fn list(root: &Path) -> Result<Listed, Failure> {
    let (mut names, mut others, mut pending) = (Vec::new(), Vec::new(), vec![PathBuf::new()]);
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
            } else if let Some(what) = no_file(kind.file_type()) {
                others.push((link, what));
            } else if kind.len() > 0 {
                match path.to_str() {
                    Some(name) => names.push(name.to_owned()),
                    None => others.push((link, "a file whose name is not UTF-8")),
                }
            }
        }
    }
    names.sort_unstable();
    others.sort_unstable();
    Ok((names, others))
}

/// Writes the files of a data set below `root`. `on_bytes` gets the number of bytes in each file and returns whether to continue.
pub(super) fn generate(
    root: &Path,
    dataset: &Dataset,
    sizes: &Sizes,
    seed: u64,
    mut on_bytes: impl FnMut(u64) -> bool,
) -> Result<(), Failure> {
    // Incompressible bytes. Files start at different offsets in them, so that they have no identical blocks.
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

/// Limit for the pixels of a generated image: it takes half a second and 300 MB.
const MOST_PIXELS: f64 = 1e8;

/// Returns a generator of images with the data set's width and height, whose JPEG files have about the data set's mean sample
/// size.
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
            "no image of {width} × {height} pixels that can be generated has {size:.0} bytes as JPEG: write another `dataset.{}.sample_size`, usually 0.2 to 0.6 bytes per pixel",
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

/// Returns pseudorandom bytes.
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
