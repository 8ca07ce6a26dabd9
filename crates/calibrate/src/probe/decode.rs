//! The probe `decode`: measures what it costs to turn a stored image into a tensor.

use super::read::no_file;
use super::{Cell, Context, Count, List, Probe, ProbeError, Seconds, Trial, team};
use forebay_image::{Decoder, Generated, QUALITY};
use forebay_model::input;
use forebay_model::input::shown;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Largest file that is decoded as an image [B]: more than any photograph.
const LARGEST_IMAGE: u64 = 1 << 30;

/// The table `[decode]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecodeSettings {
    /// Widths of generated images [pixels]; the height is three quarters of the width.
    pub width: List<Count>,
    /// JPEG qualities of generated images; several of them make stored bytes vary independently of pixels
    /// (default: [50, 90, 97]).
    #[serde(default = "usual_qualities")]
    pub quality: List<Count>,
    /// Side of the square that images are resized to [pixels] (default: not resized).
    pub resize: Option<Count>,
    /// Numbers of threads that decode at the same time (default: 1, 2, half of the cores, all of them, and twice as many).
    pub threads: Option<List<Count>>,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

fn usual_qualities() -> List<Count> {
    List(vec![Count(50), Count(QUALITY.into()), Count(97)])
}

/// Returns the numbers of threads that tell the speed of `cores` cores, from one busy core to more threads than cores.
fn usual_threads(cores: f64) -> Vec<Count> {
    let all = cores.ceil().max(1.0) as usize;
    let numbers = BTreeSet::from([1, 2, all.div_ceil(2), all, 2 * all]);
    numbers.into_iter().map(Count).collect()
}

impl DecodeSettings {
    /// Returns what is wrong with the settings, with a remedy; `None` if they are valid.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let sides = self.width.iter().chain(&self.resize);
        let side = sides.map(|side| side.0).find(|&side| side > 8192);
        let quality = self.quality.iter().map(|quality| quality.0).find(|&quality| quality > 100);
        side.map(|side| format!("decode: {side} pixels are too many; write at most 8192"))
            .or_else(|| quality.map(|q| format!("decode.quality: {q}; write 1 to 100")))
    }
}

/// Images that cost about the same to decode.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Set {
    pub(super) images: Vec<Vec<u8>>,
    /// Pixels of all images together [pixels].
    pixels: usize,
}

/// Approximate number of pixels of a set of generated images: a few hundredths of a second of decoding.
const PIXELS: usize = 3_000_000;
/// Largest number of images of a set.
const IMAGES: usize = 32;
/// Number of sets into which the user's own images are sorted by stored size.
const CLASSES: usize = 6;
/// Largest number of the user's own files that are considered.
const LOOKED_AT: usize = 20_000;
/// Seed of the generated images: the same in every calibration, so that profiles are comparable.
const SEED: u64 = 1;

impl Set {
    /// Returns the mean stored size of an image [B].
    pub(super) fn bytes(&self) -> f64 {
        let all: usize = self.images.iter().map(Vec::len).sum();
        all as f64 / self.images.len().max(1) as f64
    }

    /// Returns the mean number of pixels of an image.
    pub(super) fn pixels(&self) -> f64 {
        self.pixels as f64 / self.images.len().max(1) as f64
    }

    /// Returns a set of generated images of one width, with the JPEG quality of `scene`.
    pub(super) fn generated(scene: &Generated, width: usize) -> Set {
        let height = (width * 3).div_ceil(4);
        let count = (PIXELS / (width * height)).clamp(2, IMAGES) as u64;
        let images = (0..count).map(|i| scene.jpeg(width, height, i)).collect();
        Set { images, pixels: count as usize * width * height }
    }
}

/// The probe `decode`: each operation is the decoding of one image.
#[derive(Debug)]
pub struct DecodeProbe {
    settings: DecodeSettings,
    /// Directory of the user's own images, decoded instead of generated ones.
    data: Option<PathBuf>,
    /// Numbers of threads that decode at the same time.
    threads: Vec<Count>,
    sets: Vec<Set>,
}

impl DecodeProbe {
    /// Returns a probe with these settings that decodes the JPEG images below `data`, or generated ones if
    /// there are none, on `cores` cores.
    #[must_use]
    pub fn new(settings: &DecodeSettings, cores: f64, data: Option<PathBuf>) -> DecodeProbe {
        let given = settings.threads.as_ref().map(|list| list.0.clone());
        let threads = given.unwrap_or_else(|| usual_threads(cores));
        DecodeProbe { settings: settings.clone(), data, threads, sets: Vec::new() }
    }

    /// Returns the side of the square that images are resized to [pixels]; `None` if they keep their size.
    fn resize(&self) -> Option<u32> {
        self.settings.resize.map(|side| side.0 as u32)
    }

    /// Generates a set of images for each quality and width in the settings.
    fn generate(&self, context: &Context<'_>) -> Result<Vec<Set>, ProbeError> {
        let mut sets = Vec::new();
        let scene = Generated::new(SEED, QUALITY);
        for quality in &self.settings.quality {
            let scene = scene.at_quality(quality.0.min(100) as u8);
            for width in &self.settings.width {
                context.go_on()?;
                sets.push(Set::generated(&scene, width.0));
            }
        }
        Ok(sets)
    }
}

impl Probe for DecodeProbe {
    fn name(&self) -> &'static str {
        "decode"
    }

    /// Returns a cell for each set and number of threads. Before `prepare`, bytes and pixels are 0 because they
    /// are not known yet.
    fn cells(&self) -> Vec<Cell> {
        let unknown = [Set::default()];
        let sets = if self.sets.is_empty() { &unknown[..] } else { &self.sets };
        let resize = self.resize().map_or(0.0, f64::from);
        let cell = |set: &Set, threads: &Count| {
            let settings = [
                ("bytes", set.bytes()),
                ("pixels", set.pixels()),
                ("resize", resize),
                ("threads", threads.0 as f64),
            ];
            Cell::new(&[("format", "jpeg")], &settings)
        };
        let of = |set| self.threads.iter().map(move |threads| cell(set, threads));
        sets.iter().flat_map(of).collect()
    }

    fn budget(&self) -> Option<Duration> {
        self.settings.budget.map(Seconds::duration)
    }

    fn prepare(&mut self, context: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        let mut notes = Vec::new();
        self.sets = match &self.data {
            Some(data) => own(data, context, &mut notes)?,
            None => Vec::new(),
        };
        if self.sets.is_empty() {
            self.sets = self.generate(context)?;
        }
        Ok(notes)
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let of = |set: &&Set| {
            Some(&set.bytes()) == cell.settings.get("bytes")
                && Some(&set.pixels()) == cell.settings.get("pixels")
        };
        let Some(set) = self.sets.iter().find(of) else { return Ok(Trial::default()) };
        let (threads, resize) = (cell.count("threads"), self.resize());
        let team = team(threads, |index| passes(set, index, resize, context.length))?;
        let members = || team.members.iter().map(|member| member.value);
        let seconds = team.longest();
        let operations = members().map(|(images, _)| images).sum();
        let looks = members().map(|(_, looks)| looks).max().unwrap_or(0);
        Ok(Trial {
            operations,
            seconds: context.ruler.less(seconds, looks),
            core_seconds: team.core_seconds(),
            threads,
            waited: team.waited(),
            ..Trial::default()
        })
    }
}

/// Decodes all images of a set again and again until `length` is over. Only whole passes count, so that cheap
/// and expensive images have their proper weight; each thread begins with a different image. Returns the
/// numbers of decoded images and of clock readings.
fn passes(set: &Set, index: usize, resize: Option<u32>, length: Duration) -> (u64, u64) {
    let mut decoder = Decoder::new(resize);
    let (start, mut images, mut looks) = (Instant::now(), 0, 1);
    loop {
        let order = set.images.iter().cycle().skip(index % set.images.len().max(1));
        for image in order.take(set.images.len()) {
            // Decoding does not fail here: each image was decoded once before in `own`, or made by the encoder.
            images += u64::from(std::hint::black_box(decoder.decode(image)).is_ok());
        }
        looks += 1;
        if start.elapsed() >= length {
            return (images, looks);
        }
    }
}

/// Returns the user's own JPEG files below `data`, evenly sampled, in sets by stored size. Adds a note on files
/// that are left out.
fn own(
    data: &Path,
    context: &Context<'_>,
    notes: &mut Vec<String>,
) -> Result<Vec<Set>, ProbeError> {
    let (mut files, mut others) = (Vec::new(), Vec::new());
    find(data, context, (&mut files, &mut others))?;
    if let Some(first) = others.first() {
        notes.push(format!("{} images left out, as {first}", others.len()));
    }
    files.sort();
    let some = files.len().div_ceil(CLASSES * IMAGES).max(1);
    let (mut images, mut refused, mut first) = (Vec::new(), 0, None);
    let mut decoder = Decoder::new(None);
    for (_, path) in files.iter().step_by(some) {
        context.go_on()?;
        let read = input::bytes(path, LARGEST_IMAGE)
            .map_err(|error| ProbeError::input(path, error).to_string());
        let decoded = read.and_then(|bytes| match decoder.decode(&bytes) {
            Ok(tensor) => Ok((tensor.pixels, bytes)),
            Err(error) => Err(format!("{}: {error}", shown(path))),
        });
        match decoded {
            Ok(image) => images.push(image),
            Err(why) => {
                refused += 1;
                first.get_or_insert(why);
            }
        }
    }
    if let Some(first) = first {
        notes.push(format!("{refused} images left out, as {first}"));
    }
    if images.is_empty() {
        let place = shown(data);
        notes.push(format!("{place}: no JPEG image there; generated images are decoded instead"));
    }
    let per_class = images.len().div_ceil(CLASSES).max(1);
    let set = |class: &[(usize, Vec<u8>)]| Set {
        pixels: class.iter().map(|(pixels, _)| pixels).sum(),
        images: class.iter().map(|(_, bytes)| bytes.clone()).collect(),
    };
    let mut sets: Vec<Set> = images.chunks(per_class).map(set).collect();
    sets.dedup_by(|a, b| a.bytes() == b.bytes() && a.pixels() == b.pixels());
    Ok(sets)
}

/// Adds the JPEG files below `directory`, in order of name, to `files`, each with its size [B], and to `others`
/// why one of such a name is none. Stops at [`LOOKED_AT`] files.
fn find(
    directory: &Path,
    context: &Context<'_>,
    (files, others): (&mut Vec<(u64, PathBuf)>, &mut Vec<String>),
) -> Result<(), ProbeError> {
    context.go_on()?;
    let failed = |source| ProbeError::File { doing: "list", path: directory.to_owned(), source };
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        entries.push(entry.map_err(failed)?);
    }
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().map_err(failed)?;
        let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        if files.len() >= LOOKED_AT {
            return Ok(());
        }
        if kind.is_dir() {
            find(&path, context, (files, others))?;
        } else if matches!(ending.as_deref(), Some("jpg" | "jpeg")) {
            match fs::metadata(&path).map(|found| (no_file(found.file_type()), found.len())) {
                Ok((None, size)) => files.push((size, path)),
                Ok((Some(what), _)) => others.push(format!("{} is {what}", shown(&path))),
                Err(error) => others.push(ProbeError::file("read", &path)(error).to_string()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Ruler;
    use std::sync::atomic::AtomicBool;

    fn context<'a>(directory: &'a Path, stop: &'a AtomicBool) -> Context<'a> {
        Context {
            directory,
            length: Duration::from_millis(2),
            longest: Duration::from_millis(2),
            noise: 1.0,
            ruler: Ruler { look: 0.0, turn: 0.0 },
            deadline: Instant::now() + Duration::from_secs(60),
            stop,
            seed: 0,
        }
    }

    fn settings(text: &str) -> DecodeSettings {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn decoding_is_measured_by_bytes_and_pixels_over_whole_image_sets() {
        let (stop, here) = (AtomicBool::new(false), tempfile::tempdir().unwrap());
        let context = context(here.path(), &stop);
        let text = "width = [64, 128]\nquality = [50, 95]\nresize = 32\nthreads = [1, 2]";
        let mut probe = DecodeProbe::new(&settings(text), 2.0, None);
        assert!(probe.prepare(&context).unwrap().is_empty());
        let cells = probe.cells();
        assert_eq!(cells.len(), 8);
        let bytes = |i: usize| cells[i].settings["bytes"] / cells[i].settings["pixels"];
        assert!(bytes(4) > 1.5 * bytes(0), "higher quality has more bytes per pixel");
        let trial = probe.trial(&cells[1], &context).unwrap();
        assert_eq!((trial.threads, trial.operations % 32), (2, 0));
        assert_eq!(probe.settings.problem(), None);
        let wrong = settings("width = [64]\nquality = [101]\nthreads = [1]").problem();
        assert_eq!(wrong.unwrap(), "decode.quality: 101; write 1 to 100");
        assert!(trial.operations >= 64 && trial.core_seconds > 0.0 && trial.seconds > 0.0);
    }

    #[test]
    fn the_users_images_are_sorted_by_size_and_invalid_images_left_out() {
        let (stop, here) = (AtomicBool::new(false), tempfile::tempdir().unwrap());
        let scene = Generated::new(1, 90);
        fs::create_dir(here.path().join("class")).unwrap();
        for i in 0..12 {
            let bytes = scene.jpeg(16 * (1 + i % 4), 32, i as u64);
            fs::write(here.path().join(format!("class/{i}.JPG")), bytes).unwrap();
        }
        fs::write(here.path().join("broken.jpg"), "x").unwrap();
        fs::write(here.path().join("notes.txt"), "x").unwrap();
        std::os::unix::net::UnixListener::bind(here.path().join("socket.jpg")).unwrap();
        let text = "width = [64]\nthreads = [1]";
        let mut probe = DecodeProbe::new(&settings(text), 2.0, Some(here.path().to_owned()));
        let notes = probe.prepare(&context(here.path(), &stop)).unwrap();
        assert!(notes[0].contains("1 images left out, as") && notes[0].ends_with("is a socket"));
        assert!(notes[1].contains("broken.jpg: not a JPEG image"), "{notes:?}");
        let pixels: f64 = probe.sets.iter().map(|set| set.pixels as f64).sum();
        assert_eq!((probe.sets.len(), pixels), (6, 30.0 * 512.0));
        let bytes: Vec<f64> = probe.sets.iter().map(Set::bytes).collect();
        assert!(bytes.is_sorted(), "{bytes:?}");
        fs::remove_dir_all(here.path().join("class")).unwrap();
        let notes = probe.prepare(&context(here.path(), &stop)).unwrap();
        assert!(notes[2].contains("generated images are decoded instead"), "{notes:?}");
        assert_eq!(probe.sets.len(), 3);
    }
}
