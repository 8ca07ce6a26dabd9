//! Tests that the bytes which arrive at a GPU are those of the samples that the loader read and decoded. Memory takes the place of
//! the GPU.

use super::content::{GpuPath, Pool, Target};
use super::data::{Location, generate};
use super::gpu::Accelerator;
use super::job::run_on;
use super::sizes::Sizes;
use super::task::CopyTask;
use super::{monotonic, notes};
use forebay_calibrate::probe::ProbeError;
use forebay_image::Decoder;
use forebay_live_queue::{Buffer, Step};
use forebay_model::catalogue::Precision;
use forebay_scenario::{Access, Reading, RealGpu, Scenario, ScenarioFile};
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Ten samples, in order, in batches of four.
const SCENARIO: &str = r#"
name = "content"
[run]
steps = 30
warm_up = "off"
[cluster]
nodes = 1
node = { cores = 2 }
[storage.disk.local-disk]
access = "warm"
[dataset.d]
order = "sequential"
"#;
const JOB: &str = r#"
[[job]]
name = "j"
dataset = "d"
storage = "disk"
batch = 4
model.step = "1 ms"
"#;
const IMAGES: &str =
    "samples = 10\nsample_size = \"4886 B\"\nimage = { width = 128, height = 96, resize = 16 }\n";
const BYTES: &str = "samples = 10\nsample_size = \"900 B\"\n";
/// One worker that makes whole batches, the last of an epoch smaller; they are pinned and copied.
const PYTORCH: &str = "loader.pytorch = { workers = 1, pin_memory = \"0 s\", to_device = true";
/// Workers that read single samples, others that decode them, and a stage of batches.
const STAGES: &str = r#"
loader.stages = [
    { name = "read", workers = 2, per_sample = ["read"], order = "in-order", buffer = 8 },
    { name = "decode", workers = 2, per_sample = [{ decode = { fixed = "0 s" } }], order = "in-order", buffer = 8 },
    { name = "batch", workers = 1, unit = "batch", per_item = ["copy"], buffer = 2 },
]
"#;

/// The bytes of all batches that have arrived, in order.
type Arrived = Arc<Mutex<Vec<Vec<u8>>>>;

/// Memory that takes the place of a GPU. Its learners end each step at once, and copy the content of its batch, if it has one.
#[derive(Clone)]
struct Memory {
    bytes: usize,
    arrived: Arrived,
}

impl Memory {
    fn add(&self, content: &[Buffer]) {
        let mut batch: Vec<u8> =
            content.iter().flat_map(|buffer| buffer.as_ref().to_vec()).collect();
        batch.truncate(self.bytes);
        self.arrived.lock().unwrap().push(batch);
    }
}

impl Target for Memory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn copy(&self, content: &[Buffer], _: &AtomicBool) -> Result<(), ProbeError> {
        self.add(content);
        Ok(())
    }
}

impl Accelerator for Memory {
    fn begin(&mut self, step: &Step) -> Result<(), String> {
        if !step.content.is_empty() {
            self.add(&step.content);
        }
        Ok(())
    }

    fn end(&mut self, _: u64) -> Result<Instant, String> {
        Ok(Instant::now())
    }

    fn ended(&mut self, number: u64) -> Result<Option<Instant>, String> {
        self.end(number).map(Some)
    }
}

fn scenario(dataset: &str, job: &str) -> Scenario {
    let text = format!("{SCENARIO}{dataset}{JOB}{job}");
    let file = ScenarioFile::parse("content.toml", text).unwrap();
    let reading = Reading { live: true, ..Reading::default() };
    let mut scenario = file.resolve_as(&[], reading).map_err(|error| error.to_string()).unwrap();
    let gpu = RealGpu { number: 0, precision: Precision::Fp32, graph: false, ahead: 1 };
    scenario.jobs[0].gpu = Some(gpu);
    scenario
}

/// Runs the job over the files below `root`, on a GPU whose lanes have `bytes` bytes. Returns the batches that arrived, and the
/// number of buffers that are not in use at the end.
fn run(scenario: &Scenario, root: &Path, bytes: usize) -> (Vec<Vec<u8>>, usize) {
    let (memory, pool) = (Memory { bytes, arrived: Arrived::default() }, Arc::new(Pool::default()));
    let learner: Box<dyn Accelerator> = Box::new(memory.clone());
    let path = GpuPath { target: Arc::new(memory.clone()), pool: pool.clone() };
    let location = Location {
        root: root.to_owned(),
        users: false,
        access: Access::Warm,
        measured: true,
        mounted: false,
    };
    let part = CopyTask { location: Some(location), ..CopyTask::default() };
    let (never, opened) = (AtomicBool::new(false), vec![(vec![learner], path)]);
    let outcome = run_on(scenario, &part, &never, opened, || Some(monotonic())).unwrap();
    assert_eq!(outcome.job.steps.len(), 30);
    let arrived = memory.arrived.lock().unwrap().clone();
    (arrived, pool.len())
}

/// Writes the files of the data set below `root`; returns the bytes of each sample.
fn files(scenario: &Scenario, root: &Path) -> Vec<Vec<u8>> {
    let dataset = &scenario.datasets[0];
    let sizes = Sizes::drawn(dataset, 0, 1).unwrap();
    generate(root, dataset, &sizes, 1, |_| true).unwrap();
    (0..dataset.samples).map(|file| fs::read(root.join(format!("0/{file}"))).unwrap()).collect()
}

/// Returns the decoded images as the bytes of 32-bit floats.
fn decoded(stored: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new(Some(16));
    let floats = |image: &Vec<u8>| {
        let tensor = decoder.decode(image).unwrap();
        tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    stored.iter().map(floats).collect()
}

/// Checks that `arrived` are the batches of `samples` in order, epoch after epoch, each cut after `bytes` bytes. If `ends`, the
/// last batch of an epoch has the rest of its samples, otherwise batches go on into the next epoch.
fn check(arrived: &[Vec<u8>], samples: &[Vec<u8>], bytes: usize, ends: bool) {
    let numbers: Vec<usize> = (0..400).map(|place| place % samples.len()).collect();
    let epochs: Vec<&[usize]> =
        numbers.chunks(if ends { samples.len() } else { numbers.len() }).collect();
    let batches = epochs.iter().flat_map(|epoch| epoch.chunks(4));
    assert!(arrived.len() >= 30, "{} batches", arrived.len());
    for (number, (found, batch)) in arrived.iter().zip(batches).enumerate() {
        let mut expected: Vec<u8> = batch.iter().flat_map(|&i| samples[i].clone()).collect();
        expected.truncate(bytes);
        assert!(*found == expected, "batch {number}: {} bytes", found.len());
    }
}

/// System: images that are decoded in the stage that reads them, or in a later one. Expectation: each batch that is copied has the
/// floats that the decoder gives for its images, in order; from shorter lanes the rest is left out.
#[test]
fn the_gpu_gets_the_decoded_images_of_each_batch_in_order() {
    let place = tempfile::tempdir().unwrap();
    let whole = 4 * 3 * 16 * 16 * 4;
    let expected = decoded(&files(&scenario(IMAGES, STAGES), place.path()));
    for (loader, ends) in
        [(format!("{PYTORCH}, decode = \"decode\" }}\n"), true), (STAGES.to_owned(), false)]
    {
        for copy in ["[\"copy\"]", "[]"] {
            let scenario = scenario(IMAGES, &loader.replace("[\"copy\"]", copy));
            for bytes in [whole, whole / 3] {
                let (arrived, _) = run(&scenario, place.path(), bytes);
                check(&arrived, &expected, bytes, ends);
            }
        }
    }
}

/// System: samples that are not images, copied by a stage or by the learner itself. Expectation: each batch has the stored bytes of
/// its samples, in order.
#[test]
fn the_gpu_gets_the_stored_bytes_of_samples_that_are_no_images() {
    let place = tempfile::tempdir().unwrap();
    let expected = files(&scenario(BYTES, STAGES), place.path());
    let unpinned = "loader.pytorch = { workers = 1, to_device = true }\n".to_owned();
    for (loader, ends) in [
        (format!("{PYTORCH} }}\n"), true),
        (unpinned, true),
        (STAGES.to_owned(), false),
        (STAGES.replace("[\"copy\"]", "[]"), false),
    ] {
        let (arrived, _) = run(&scenario(BYTES, &loader), place.path(), 3600);
        check(&arrived, &expected, 3600, ends);
    }
}

/// System: 30 batches of four samples, each sample in a buffer of its own. Expectation: buffers are used again, so that there are no
/// more than samples on their way at a time.
#[test]
fn buffers_of_batches_on_the_gpu_are_used_again() {
    let place = tempfile::tempdir().unwrap();
    files(&scenario(BYTES, STAGES), place.path());
    for copy in ["[\"copy\"]", "[]"] {
        let scenario = scenario(BYTES, &STAGES.replace("[\"copy\"]", copy));
        let (arrived, buffers) = run(&scenario, place.path(), 3600);
        assert!(arrived.len() >= 30);
        // Samples in the three buffers, in the hands of the workers, and in two batches of the learner.
        assert!((1..=3 * 8 + 8 + 2 * 4).contains(&buffers), "{buffers} buffers");
    }
}

#[test]
fn a_warning_says_that_decoded_images_are_larger_than_what_is_copied() {
    let note = |size: &str| {
        let scenario = scenario(&format!("{IMAGES}decoded_size = \"{size}\"\n"), STAGES);
        notes::cut(&scenario, &scenario.jobs[0])
    };
    assert!(note("1 kB").is_some_and(|note| note.contains("decoded_size = \"3072 B\"")));
    assert_eq!(note("3072 B"), None);
}
