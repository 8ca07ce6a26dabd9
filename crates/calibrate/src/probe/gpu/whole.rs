//! Checks what a device computes: compares losses, gradients and training steps of whole networks with those of
//! the cores.

use super::batch::{Batch, place_parameters};
use super::compile::compile;
use super::numerics::{Device, Difference, Open, gradients, numbers_of, relative_error};
use super::program::{Precision, Program};
use crate::probe::ProbeError;
use forebay_networks::{self as network, cpu};

/// Returns small networks that together have every operator, among them the stem and the stages of ResNet-50
/// and the blocks of GPT-2.
pub(super) fn networks() -> Vec<(&'static str, network::Network)> {
    let named = network::model("lenet5").map(|network| ("lenet5", network));
    let small = [
        ("bottlenecks", network::bottlenecks(20, 4, &[1, 2], 5)),
        ("language", network::language(30, 12, 16, 2, 2)),
    ];
    named.into_iter().chain(small).collect()
}

/// Compares a network's loss and gradient with those of the cores. Also checks the loss along the gradient: a
/// small step along it changes the loss by the gradient's squared norm times the step.
pub(super) fn network(
    open: Open<'_>,
    name: &str,
    of: &network::Network,
    samples: usize,
    precision: Precision,
    seed: u64,
) -> Result<Vec<Difference>, ProbeError> {
    let batch = Batch::invent(of, samples, seed);
    let (loss, expected) = cpu::loss(of, samples, seed);
    let program = compile(of, samples, precision);
    let mut device = open(program.bytes, precision)?;
    batch.copy(device.as_mut(), &program)?;
    let found = loss_at(device.as_mut(), &program, &batch.parameters)?;
    device.run(&program.backward)?;
    let gradient = gradients(device.as_mut(), program.gradients, &program.blocks)?;
    let tolerance = precision.tolerance();
    // Rounding in one operator changes the gradients of all operators before it.
    let mut differences = vec![
        ("loss", (found / loss - 1.0).abs(), tolerance.max(1e-4)),
        ("gradient", relative_error(&gradient, &expected), (100.0 * tolerance).min(0.5)),
    ];
    // With 2 bytes per number, rounding hides the change of the loss by a small step.
    if precision != Precision::Bf16 {
        let square: f64 = gradient.iter().map(|g| g * g).sum();
        let step = (0.3 * tolerance).max(0.002) * loss / square;
        let mut along = |by: f64| {
            let moved = batch.parameters.iter().zip(&gradient);
            let moved: Vec<f32> = moved.map(|(&p, g)| (f64::from(p) + by * g) as f32).collect();
            loss_at(device.as_mut(), &program, &moved)
        };
        let slope = (along(step)? - along(-step)?) / (2.0 * step);
        let error = (slope / square - 1.0).abs();
        differences.push(("loss along the gradient", error, 0.02 + 4.0 * tolerance));
    }
    let difference = |(what, error, limit): (&str, f64, f64)| Difference {
        what: format!("{name}: {what}"),
        precision,
        error,
        limit,
    };
    Ok(differences.into_iter().map(difference).collect())
}

/// Compares training steps on a device with the same steps on cores. The first difference compares the losses of
/// all steps. The second difference is the device's last loss divided by its first loss, which shows whether
/// training lowers the loss.
pub(super) fn training(
    open: Open<'_>,
    name: &str,
    of: &network::Network,
    (samples, steps): (usize, usize),
    precision: Precision,
    seed: u64,
) -> Result<Vec<Difference>, ProbeError> {
    let program = compile(of, samples, precision);
    let mut device = open(program.bytes, precision)?;
    begin(device.as_mut(), &program, of, samples, seed)?;
    let mut losses = Vec::new();
    for _ in 0..steps {
        device.run(&program.step().cloned().collect::<Vec<_>>())?;
        losses.extend(numbers_of(device.as_mut(), program.loss, 1, Precision::Fp32)?);
    }
    let wanted = cpu::losses(of, samples, steps, seed);
    let fall = losses.last().zip(losses.first()).map_or(f64::NAN, |(last, first)| last / first);
    let difference = |what: &str, error, limit| Difference {
        what: format!("{name}: {what}"),
        precision,
        error,
        limit,
    };
    let limit = (1000.0 * precision.tolerance()).min(0.15);
    Ok(vec![
        difference("losses of steps", relative_error(&losses, &wanted), limit),
        difference("last loss over first", fall, 0.9),
    ])
}

/// Compares the last loss of steps that are repeated as a whole, as CUDA graphs are, with the last loss of the
/// same steps run call by call.
pub(super) fn repeated(
    open: Open<'_>,
    name: &str,
    of: &network::Network,
    (samples, steps): (usize, usize),
    precision: Precision,
    seed: u64,
) -> Result<Difference, ProbeError> {
    let program = compile(of, samples, precision);
    let calls: Vec<_> = program.step().cloned().collect();
    let mut last = [0.0; 2];
    for (turn, last) in last.iter_mut().enumerate() {
        let mut device = open(program.bytes, precision)?;
        begin(device.as_mut(), &program, of, samples, seed)?;
        device.run(&calls)?;
        match turn {
            0 => (1..steps).try_for_each(|_| device.run(&calls))?,
            _ => device.repeat(&calls, steps - 1)?,
        }
        let loss = numbers_of(device.as_mut(), program.loss, 1, Precision::Fp32)?;
        *last = loss.first().copied().unwrap_or(f64::NAN);
    }
    // Atomic additions and algorithms of libraries add up in any order, so that both may round differently.
    let error = (last[1] / last[0] - 1.0).abs();
    let what = format!("{name}: steps repeated as one");
    Ok(Difference { what, precision, error, limit: (10.0 * precision.tolerance()).max(1e-4) })
}

/// Prepares a program for its first step: clears the state of the optimiser, copies parameters and a batch.
fn begin(
    device: &mut dyn Device,
    program: &Program,
    of: &network::Network,
    samples: usize,
    seed: u64,
) -> Result<(), ProbeError> {
    let batch = Batch::invent(of, samples, seed);
    zero(device, program)?;
    batch.copy(device, program)?;
    place_parameters(device, program.parameters, &program.blocks, &batch.parameters)?;
    device.run(&program.feed)?;
    device.run(&program.settle)
}

/// Sets the state of the optimiser to zero.
fn zero(device: &mut dyn Device, program: &Program) -> Result<(), ProbeError> {
    program.state.iter().try_for_each(|&slot| device.write(slot, &vec![0; slot.bytes()]))
}

/// Returns the loss with these parameters.
fn loss_at(
    device: &mut dyn Device,
    program: &Program,
    parameters: &[f32],
) -> Result<f64, ProbeError> {
    place_parameters(device, program.parameters, &program.blocks, parameters)?;
    for calls in [&program.feed, &program.settle, &program.forward] {
        device.run(calls)?;
    }
    Ok(numbers_of(device, program.loss, 1, Precision::Fp32)?.first().copied().unwrap_or(f64::NAN))
}
