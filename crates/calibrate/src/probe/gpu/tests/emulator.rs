//! Runs calls of kernels on the CPU: `tests/cuda/emulator.cpp` is compiled with the kernels' own source.

use super::super::numerics::Device;
use super::super::program::{
    Call, Convolution, ConvolutionPass, Launch, Matrix, Product, Slot, Word,
};
use super::super::{Precision, kernels};
use crate::probe::ProbeError;
use forebay_networks::Shape;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The compiled emulator, in a temporary directory. If there is no C++ compiler, [`Emulator::build`] prints a
/// message and returns `None`.
pub(super) struct Emulator {
    place: TempDir,
}

impl Emulator {
    #[expect(clippy::print_stderr, reason = "whoever reads the test's output is told")]
    pub(super) fn build() -> Option<Emulator> {
        let place = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| place.path().join(name);
        fs::write(at("kernels.inc"), kernels::source()).expect("a file");
        let table = kernels::names().iter().fold(String::new(), |mut table, name| {
            writeln!(table, "KERNEL({name})").expect("a string");
            table
        });
        fs::write(at("table.inc"), table).expect("a file");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cuda/emulator.cpp");
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let built = Command::new(compiler)
            .args(["-std=c++17", "-O1"])
            // A load of 16 bytes from elsewhere than a multiple of 16 ends the emulator, as it would end a kernel.
            .args(["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error", "-o"])
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

    /// Returns a device with `bytes` of memory, filled with NaN.
    pub(super) fn open(&self, bytes: usize, precision: Precision) -> Emulated {
        let device = tempfile::tempdir_in(self.place.path()).expect("a directory");
        fs::write(device.path().join("memory"), vec![0xff; bytes]).expect("a file");
        Emulated { program: self.place.path().join("emulator"), device, precision }
    }
}

pub(super) struct Emulated {
    program: PathBuf,
    device: TempDir,
    precision: Precision,
}

/// Formats a call as the emulator reads it.
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
                ConvolutionPass::Forward => "forward",
                ConvolutionPass::Data => "data",
                ConvolutionPass::Filters => "filters",
            };
            let Shape { from, to, side, kernel, stride, padding } = shape;
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
        let (bytes, tf32) = (self.precision.bytes(), self.precision == Precision::Tf32);
        let text = format!("{bytes} {}\n{}\n", u8::from(tf32), lines.join("\n"));
        fs::write(self.device.path().join("calls"), text).expect("a file");
        let ran = Command::new(&self.program)
            .args(["calls", "memory"])
            .current_dir(self.device.path())
            .output()
            .expect("the emulator");
        assert!(ran.status.success(), "{}: {}", ran.status, String::from_utf8_lossy(&ran.stderr));
        Ok(())
    }
}
