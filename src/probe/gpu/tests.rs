//! Steps carried out without a GPU: `tests/cuda/emulator.cpp` runs the kernels' own source.

use super::numerics::{self, Device};
use super::program::{Call, Convolution, Launch, Matrix, Product, Slot, Way, Word};
use super::*;
use crate::probe::{ProbeError, network};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The emulator; `None` and a message where there is no C++ compiler.
struct Emulator {
    place: TempDir,
}

impl Emulator {
    #[expect(clippy::print_stderr, reason = "whoever reads the test's output is told")]
    fn build() -> Option<Emulator> {
        let place = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| place.path().join(name);
        fs::write(at("kernels.inc"), kernels::source()).expect("a file");
        let table = kernels::names().iter().fold(String::new(), |mut table, name| {
            writeln!(table, "KERNEL({name})").expect("a string");
            table
        });
        fs::write(at("table.inc"), table).expect("a file");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/emulator.cpp");
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let built = Command::new(compiler)
            .args(["-std=c++17", "-O1", "-o"])
            .args([at("emulator"), source])
            .arg("-I")
            .arg(place.path())
            .output();
        match built {
            Ok(output) if output.status.success() => Some(Emulator { place }),
            Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                eprintln!("skipped: no C++ compiler: {error}");
                None
            }
        }
    }

    /// A device with `bytes` of memory, none of which is a number.
    fn open(&self, bytes: usize, precision: Precision) -> Emulated {
        let device = tempfile::tempdir_in(self.place.path()).expect("a directory");
        fs::write(device.path().join("memory"), vec![0xff; bytes]).expect("a file");
        Emulated { program: self.place.path().join("emulator"), device, precision }
    }
}

struct Emulated {
    program: PathBuf,
    device: TempDir,
    precision: Precision,
}

/// A call as the emulator reads it.
fn line(call: &Call) -> String {
    match call {
        Call::Launch(Launch { kernel, blocks, threads, words }) => {
            let mut line = format!("launch {kernel} {blocks} {threads} {}", words.len());
            for word in words {
                match word {
                    Word::At(slot) => write!(line, " a:{}", slot.offset()),
                    Word::Int(number) => write!(line, " i:{number}"),
                    Word::Float(factor) => write!(line, " f:{factor:e}"),
                }
                .expect("a string");
            }
            line
        }
        Call::Product(Product { a, b, c, wide, sides: [m, n, k], count }) => {
            let matrix = |of: &Matrix| {
                format!("{} {} {} {}", of.slot.offset(), u8::from(of.turned), of.down, of.apart)
            };
            let (wide, a, b, c) = (u8::from(*wide), matrix(a), matrix(b), matrix(c));
            format!("product {m} {n} {k} {count} {wide} {a} {b} {c}")
        }
        Call::Convolution(Convolution { way, shape, samples, x, w, y }) => {
            let way = match way {
                Way::Forward => "forward",
                Way::Data => "data",
                Way::Filters => "filters",
            };
            let network::Shape { from, to, side, kernel, stride, padding } = shape;
            let [x, w, y] = [x, w, y].map(|slot| slot.offset());
            let sizes = format!("{from} {to} {side} {kernel} {stride} {padding} {samples}");
            format!("convolution {way} {sizes} {x} {w} {y}")
        }
    }
}

impl Device for Emulated {
    fn write(&mut self, to: Slot, bytes: &[u8]) -> Result<(), ProbeError> {
        let path = self.device.path().join("memory");
        let mut memory = fs::read(&path).expect("memory");
        memory[to.offset()..to.offset() + bytes.len()].copy_from_slice(bytes);
        fs::write(&path, memory).expect("memory");
        Ok(())
    }

    fn read(&mut self, from: Slot, bytes: usize) -> Result<Vec<u8>, ProbeError> {
        let memory = fs::read(self.device.path().join("memory")).expect("memory");
        Ok(memory[from.offset()..from.offset() + bytes].to_vec())
    }

    fn run(&mut self, calls: &[Call]) -> Result<(), ProbeError> {
        let lines: Vec<String> = calls.iter().map(line).collect();
        let text = format!("{}\n{}\n", self.precision.bytes(), lines.join("\n"));
        fs::write(self.device.path().join("calls"), text).expect("a file");
        let ran = Command::new(&self.program)
            .args(["calls", "memory"])
            .current_dir(self.device.path())
            .output()
            .expect("the emulator");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Ok(())
    }
}

/// One test, because the emulator takes long to compile.
#[test]
fn what_cores_compute_kernels_compute() {
    let Some(emulator) = Emulator::build() else { return };
    averaging(&emulator);
    operators(&emulator);
    networks(&emulator);
    steps(&emulator);
}

/// Checks differences against their limits.
fn small(differences: &[Difference]) {
    for of in differences {
        assert!(of.error <= of.limit, "{of:?}");
    }
    assert!(!differences.is_empty());
}

/// Each operator, forward and backward.
fn operators(emulator: &Emulator) {
    for precision in [Precision::Fp32, Precision::Bf16] {
        let mut open = |bytes, precision| -> Result<Box<dyn Device>, ProbeError> {
            Ok(Box::new(emulator.open(bytes, precision)))
        };
        small(&numerics::operators(&mut open, precision, 11).expect("a check"));
    }
}

/// Loss and gradient of networks, and the loss along the gradient.
fn networks(emulator: &Emulator) {
    let mut open = |bytes, precision| -> Result<Box<dyn Device>, ProbeError> {
        Ok(Box::new(emulator.open(bytes, precision)))
    };
    for (name, network) in whole::networks() {
        for precision in [Precision::Fp32, Precision::Bf16] {
            small(&whole::network(&mut open, name, &network, 6, precision, 5).expect("a check"));
        }
    }
}

/// Steps, which lower the loss.
fn steps(emulator: &Emulator) {
    let mut open = |bytes, precision| -> Result<Box<dyn Device>, ProbeError> {
        Ok(Box::new(emulator.open(bytes, precision)))
    };
    for (name, network) in whole::networks() {
        let steps = if name == "language" { 12 } else { 5 };
        for precision in [Precision::Fp32, Precision::Bf16] {
            let found = whole::training(&mut open, name, &network, (5, steps), precision, 5);
            small(&found.expect("a check"));
        }
    }
}

/// Two replicas, drawn to a central model by a quarter of their distance, which moves by what they moved
/// and by half of its last move: by hand.
fn averaging(emulator: &Emulator) {
    let mut memory = super::program::Memory::default();
    let [a, b, central, last, correction] = [(); 5].map(|()| memory.take(4 * 3));
    let mut device = emulator.open(memory.bytes(), Precision::Fp32);
    let numbers = |values: [f32; 3]| values.map(f32::to_le_bytes).concat();
    for (slot, values) in [
        (a, [4.0, 0.0, 1.0]),
        (b, [0.0, 8.0, 1.0]),
        (central, [0.0, 4.0, 1.0]),
        (last, [-2.0, 4.0, 1.0]),
        (correction, [0.0; 3]),
    ] {
        device.write(slot, &numbers(values)).expect("memory");
    }
    let launch = |kernel: &str, words: Vec<Word>| {
        Call::Launch(Launch { kernel: kernel.to_owned(), blocks: 1, threads: 256, words })
    };
    let near = |replica: Slot| {
        let words =
            vec![replica.into(), central.into(), correction.into(), 3.into(), 0.25_f32.into()];
        launch("draw_near", words)
    };
    let words = vec![central.into(), last.into(), correction.into(), 3.into(), 0.5_f32.into()];
    device.run(&[near(a), near(b), launch("move_central", words)]).expect("a run");
    for (slot, expected) in [
        (a, [3.0, 1.0, 1.0]),
        (b, [0.0, 7.0, 1.0]),
        (central, [2.0, 4.0, 1.0]),
        (last, [0.0, 4.0, 1.0]),
        (correction, [0.0; 3]),
    ] {
        assert_eq!(device.read(slot, 12).expect("memory"), numbers(expected));
    }
}
