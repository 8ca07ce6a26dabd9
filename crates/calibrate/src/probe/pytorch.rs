//! The probe `pytorch`: what PyTorch's `DataLoader` costs on this machine: decoding by the libraries that Python finds, collating and
//! handing over a batch, taking it, starting workers, and what several ranks do beside computing. A Python program, which lives as long as the probe, does the work.

use super::decode::Set;
use super::{Bytes, Cell, Context, Count, List, Probe, ProbeError, Rules, Seconds, Trial};
use forebay_image::{Generated, QUALITY};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The table `[pytorch]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PytorchSettings {
    /// The Python interpreter that has PyTorch (default: "python3").
    pub python: Option<String>,
    /// Libraries that decode images: `pillow`, `torchvision`, `turbo` (default: those that Python finds).
    pub library: Option<List<Library>>,
    /// Widths of generated images [pixels]; the height is three quarters of the width (default: [160, 320, 640]).
    pub width: Option<List<Count>>,
    /// JPEG qualities of generated images (default: [50, 90, 97]).
    pub quality: Option<List<Count>>,
    /// Side of the square that images are resized to [pixels] (default: 224).
    pub resize: Option<Count>,
    /// Numbers of threads of one interpreter that decode at the same time (default: 2, half of the cores, and all of them).
    pub threads: Option<List<Count>>,
    /// Sizes of a sample as the data set returns it (default: ["64 KiB", "588 KiB"]).
    pub sample: Option<List<Bytes>>,
    /// Batch sizes (default: [8, 32, 128]).
    pub batch: Option<List<Count>>,
    /// Numbers of workers that are started (default: [1, 2, 4]).
    pub workers: Option<List<Count>>,
    /// Numbers of ranks on this machine that each take batches, compute and wait for each other (default: 1, 2, half of the cores, and
    /// all of them; at most 32).
    pub ranks: Option<List<Count>>,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

/// A library that decodes images in Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Library {
    /// Pillow, `PIL.Image`.
    Pillow,
    /// `torchvision.io`.
    Torchvision,
    /// libjpeg-turbo by `simplejpeg` or `turbojpeg`.
    Turbo,
}

impl Library {
    const ALL: [Library; 3] = [Library::Pillow, Library::Torchvision, Library::Turbo];

    fn name(self) -> &'static str {
        match self {
            Library::Pillow => "pillow",
            Library::Torchvision => "torchvision",
            Library::Turbo => "turbo",
        }
    }
}

const PROGRAM: &str = include_str!("pytorch/loader.py");
/// Time in which Python must answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at whether the user has interrupted the run.
const LOOK: Duration = Duration::from_millis(100);
/// Seed of the generated images: the same in every calibration.
const SEED: u64 = 1;
/// Largest number of trials of each cell.
const TRIALS: usize = 8;
/// Largest number of ranks, unless the plan names more.
const MOST_RANKS: usize = 32;

/// The probe `pytorch`: each operation is an image, a batch or a start.
#[derive(Debug)]
pub struct PytorchProbe {
    settings: PytorchSettings,
    python: Option<Python>,
    /// Libraries to measure; all until `prepare` has found which are there.
    libraries: Vec<Library>,
    /// Numbers of threads of one interpreter.
    threads: Vec<usize>,
    /// Numbers of ranks.
    ranks: Vec<usize>,
    sets: Vec<(Set, Vec<PathBuf>)>,
}

impl PytorchProbe {
    /// Returns a probe with these settings on `cores` cores.
    #[must_use]
    pub fn new(settings: &PytorchSettings, cores: f64) -> PytorchProbe {
        let given = settings.library.as_ref();
        let most = cores.ceil().max(1.0) as usize;
        let usual = BTreeSet::from([2, most.div_ceil(2).max(2), most.max(2)]);
        let threads = counts(&settings.threads, &Vec::from_iter(usual.iter().copied()));
        let usual = usual.into_iter().map(|number| number.min(MOST_RANKS));
        let ranks = BTreeSet::from_iter(usual.chain([1]));
        let ranks = counts(&settings.ranks, &Vec::from_iter(ranks));
        PytorchProbe {
            settings: settings.clone(),
            python: None,
            libraries: given.map_or(Library::ALL.to_vec(), |list| list.0.clone()),
            threads,
            ranks,
            sets: Vec::new(),
        }
    }

    fn resize(&self) -> usize {
        self.settings.resize.map_or(224, |side| side.0)
    }

    /// Returns the requests for batches and starts, each with the cell that it belongs to.
    fn loader_cells(&self) -> Vec<Cell> {
        let settings = &self.settings;
        let sizes = settings.sample.as_ref();
        let sizes =
            sizes.map_or(vec![64 << 10, 588 << 10], |list| list.iter().map(|of| of.0).collect());
        let mut cells = Vec::new();
        for sample in sizes {
            for batch in counts(&settings.batch, &[8, 32, 128]) {
                let numbers = [("sample", sample as f64), ("batch", batch as f64)];
                cells.push(Cell::new(&[("part", "batch")], &numbers));
            }
        }
        let workers = counts(&settings.workers, &[1, 2, 4]);
        let start =
            |workers: usize| Cell::new(&[("part", "start")], &[("workers", workers as f64)]);
        cells.extend(workers.into_iter().map(start));
        let ranks = |ranks: &usize| Cell::new(&[("part", "ranks")], &[("ranks", *ranks as f64)]);
        cells.extend(self.ranks.iter().map(ranks));
        cells
    }

    /// Writes images of each width and quality to files.
    fn write_images(&mut self, context: &Context<'_>) -> Result<(), ProbeError> {
        let scene = Generated::new(SEED, QUALITY);
        for quality in counts(&self.settings.quality, &[50, QUALITY.into(), 97]) {
            let scene = scene.at_quality(quality.min(100) as u8);
            for width in counts(&self.settings.width, &[160, 320, 640]) {
                context.go_on()?;
                let set = Set::generated(&scene, width);
                let write = |(number, image): (usize, &Vec<u8>)| {
                    let path = context.directory.join(format!("{width}-{quality}-{number}.jpg"));
                    fs::write(&path, image).map_err(ProbeError::file("write", &path))?;
                    Ok(path)
                };
                let paths = set.images.iter().enumerate().map(write).collect::<Result<_, _>>()?;
                self.sets.push((set, paths));
            }
        }
        Ok(())
    }
}

fn counts(given: &Option<List<Count>>, usual: &[usize]) -> Vec<usize> {
    given.as_ref().map_or(usual.to_vec(), |list| list.iter().map(|count| count.0).collect())
}

impl Probe for PytorchProbe {
    fn name(&self) -> &'static str {
        "pytorch"
    }

    fn cells(&self) -> Vec<Cell> {
        let unknown = [(Set::default(), Vec::new())];
        let sets = if self.sets.is_empty() { &unknown[..] } else { &self.sets };
        let mut cells = Vec::new();
        let cell = |part, library: Library, set: &Set, threads: usize| {
            let numbers = [
                ("bytes", set.bytes()),
                ("pixels", set.pixels()),
                ("resize", self.resize() as f64),
                ("threads", threads as f64),
            ];
            Cell::new(&[("part", part), ("format", library.name())], &numbers)
        };
        for &library in &self.libraries {
            cells.extend(sets.iter().map(|(set, _)| cell("decode", library, set, 1)));
            // Images of the middle of the range tell what the lock of the interpreter costs.
            let (set, _) = &sets[sets.len() / 2];
            cells.extend(self.threads.iter().map(|number| cell("threads", library, set, *number)));
        }
        cells.extend(self.loader_cells());
        cells
    }

    fn budget(&self) -> Option<Duration> {
        self.settings.budget.map(Seconds::duration)
    }

    fn rules(&self, rules: Rules) -> Rules {
        let most = Count(rules.at_most.0.min(TRIALS));
        Rules { at_least: rules.at_least.min(most), at_most: most, ..rules }
    }

    fn prepare(&mut self, context: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        let name = self.settings.python.as_deref().unwrap_or("python3");
        let (python, found) = Python::start(name, context).map_err(|error| match error {
            ProbeError::Machine(why) => ProbeError::Machine(format!(
                "nothing measured: {why}; name an interpreter that has PyTorch with `python`"
            )),
            other => other,
        })?;
        let is_there = |library: &Library| {
            found["libraries"]
                .as_array()
                .is_some_and(|all| all.iter().any(|of| of == library.name()))
        };
        let (there, missing): (Vec<Library>, Vec<Library>) =
            self.libraries.iter().copied().partition(is_there);
        self.libraries = there;
        self.python = Some(python);
        self.write_images(context)?;
        let note = |of: &Library| {
            format!("decoding by {} not measured: Python does not find it", of.name())
        };
        Ok(missing.iter().map(note).collect())
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let Some(python) = &mut self.python else { return Err(ProbeError::Time) };
        let mut request =
            json!({ "part": cell.label("part"), "seconds": context.length.as_secs_f64() });
        for name in ["sample", "batch", "workers", "resize", "threads", "ranks"] {
            request[name] = cell.count(name).into();
        }
        request["library"] = cell.label("format").into();
        let of = |(set, _): &&(Set, Vec<PathBuf>)| {
            Some(&set.bytes()) == cell.settings.get("bytes")
                && Some(&set.pixels()) == cell.settings.get("pixels")
        };
        if let Some((_, paths)) = self.sets.iter().find(of) {
            request["images"] = paths.iter().map(|path| path.to_string_lossy()).collect();
        }
        trial(&python.ask(&request, context)?, cell.count("threads").max(1))
    }
}

/// Returns the trial of so many threads that an answer describes.
fn trial(answer: &Value, threads: usize) -> Result<Trial, ProbeError> {
    if let Some(why) = answer["failed"].as_str() {
        return Err(ProbeError::Machine(format!("PyTorch failed: {why}")));
    }
    let number = |name: &str| {
        answer[name].as_f64().filter(|value| value.is_finite() && *value >= 0.0).ok_or_else(|| {
            ProbeError::Machine(format!("Python answered {answer} without a number `{name}`"))
        })
    };
    let observed: BTreeMap<String, f64> = answer["observed"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)))
        .collect();
    Ok(Trial {
        operations: number("operations")? as u64,
        seconds: number("seconds")?,
        core_seconds: number("core_seconds")?,
        elsewhere: number("elsewhere")?,
        threads,
        observed,
        ..Trial::default()
    })
}

/// A Python interpreter that answers requests.
#[derive(Debug)]
struct Python {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Python {
    /// Starts an interpreter; also returns what it has.
    fn start(name: &str, context: &Context<'_>) -> Result<(Python, Value), ProbeError> {
        // Workers that are not forked import the program from its file.
        let path = context.directory.join("loader.py");
        fs::write(&path, PROGRAM).map_err(ProbeError::file("write", &path))?;
        let mut python = Python::spawn(name, &path)
            .map_err(|error| ProbeError::Machine(format!("cannot start `{name}`: {error}")))?;
        let found = python.answer(context)?;
        match found["lacking"].as_str() {
            Some(why) => Err(ProbeError::Machine(why.to_owned())),
            None => Ok((python, found)),
        }
    }

    fn spawn(name: &str, program: &Path) -> std::io::Result<Python> {
        let mut command = Command::new(name);
        command.arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let (to, answers) = channel();
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        // The thread ends with the program, whose output it reads.
        thread::Builder::new().spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.take_while(|line| to.send(line.clone()).is_ok()).for_each(drop);
        })?;
        Ok(Python { child, input, answers })
    }

    fn ask(&mut self, request: &Value, context: &Context<'_>) -> Result<Value, ProbeError> {
        let gone = |error| ProbeError::Machine(format!("Python has ended: {error}"));
        writeln!(self.input, "{request}").and_then(|()| self.input.flush()).map_err(gone)?;
        self.answer(context)
    }

    /// Waits for the next answer.
    fn answer(&mut self, context: &Context<'_>) -> Result<Value, ProbeError> {
        let until = Instant::now() + PATIENCE;
        let line = loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => context.go_on()?,
                Err(RecvTimeoutError::Timeout) => {
                    let what = format!("Python did not answer within {} s", PATIENCE.as_secs());
                    return Err(ProbeError::Machine(what));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ProbeError::Machine("Python ended without an answer".to_owned()));
                }
            }
        };
        serde_json::from_str(&line)
            .map_err(|error| ProbeError::Machine(format!("Python answered no JSON: {error}")))
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Ruler;
    use std::sync::atomic::AtomicBool;

    fn context<'a>(directory: &'a Path, stop: &'a AtomicBool) -> Context<'a> {
        Context {
            directory,
            length: Duration::from_millis(20),
            longest: Duration::from_millis(20),
            noise: 1.0,
            ruler: Ruler::default(),
            deadline: Instant::now() + Duration::from_secs(60),
            stop,
            seed: 3,
        }
    }

    /// Writes a program that stands for Python and answers each request with `answer`.
    fn interpreter(place: &Path, first: &str, answer: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = place.join("python");
        let text =
            format!("#!/bin/sh\necho '{first}'\nwhile read -r request; do echo '{answer}'; done\n");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("a mode");
        path.to_string_lossy().into_owned()
    }

    fn probe(python: &str) -> PytorchProbe {
        let text = format!(
            "python = {python:?}\nwidth = [32]\nquality = [90]\nbatch = [4]\nworkers = [1]"
        );
        PytorchProbe::new(&toml::from_str(&text).expect("settings"), 2.0)
    }

    #[test]
    fn answers_of_the_interpreter_become_trials_of_the_libraries_that_it_has() {
        let (stop, place) = (AtomicBool::new(false), tempfile::tempdir().expect("a directory"));
        let context = context(place.path(), &stop);
        let answer = r#"{"operations": 12, "seconds": 0.5, "core_seconds": 0.25, "elsewhere": 0.3, "observed": {"made": 0.02}}"#;
        let python = interpreter(place.path(), r#"{"libraries": ["pillow"]}"#, answer);
        let mut probe = probe(&python);
        let notes = probe.prepare(&context).expect("an interpreter");
        assert_eq!(notes.len(), 2, "two libraries are missing: {notes:?}");
        let cells = probe.cells();
        assert_eq!(cells.iter().filter(|cell| cell.label("part") == "decode").count(), 1);
        assert_eq!(cells.iter().filter(|cell| cell.label("part") == "threads").count(), 1);
        assert_eq!(cells.len(), 1 + 1 + 2 + 1 + 2);
        let found = probe.trial(&cells[0], &context).expect("a trial");
        assert_eq!((found.operations, found.seconds, found.core_seconds), (12, 0.5, 0.25));
        assert_eq!(found.elsewhere, 0.3);
        assert_eq!(found.observed["made"], 0.02);
    }

    #[test]
    fn an_interpreter_that_lacks_pytorch_or_fails_or_does_not_exist_is_said_to() {
        let (stop, place) = (AtomicBool::new(false), tempfile::tempdir().expect("a directory"));
        let context = context(place.path(), &stop);
        let python = interpreter(place.path(), r#"{"lacking": "no module named torch"}"#, "");
        for (python, why) in
            [(python.as_str(), "no module named torch"), ("/nowhere/python", "cannot start")]
        {
            let mut probe = probe(python);
            let error = probe.prepare(&context).expect_err("no PyTorch").to_string();
            assert!(error.contains(why) && error.contains("`python`"), "{error}");
        }
        for (answer, why) in [
            (r#"{"failed": "KeyError"}"#, "PyTorch failed: KeyError"),
            ("?", "no JSON"),
            ("{}", "without a number"),
        ] {
            let python = interpreter(place.path(), r#"{"libraries": []}"#, answer);
            let mut probe = probe(&python);
            probe.prepare(&context).expect("an interpreter");
            let cell = probe.cells().remove(0);
            let error = probe.trial(&cell, &context).expect_err(answer).to_string();
            assert!(error.contains(why), "{answer}: {error}");
        }
    }
}
