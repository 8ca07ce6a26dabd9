//! Checks what a device computes: compares single operators with the same operators in `f64` on cores.

use super::batch::{numbers as bytes_of, place_parameters};
use super::piece::piece;
use super::program::{Block, Call, Precision, Slot};
use crate::probe::ProbeError;
use forebay_model::random::Generator;
use forebay_networks::cpu::{self, Reference};
use forebay_networks::{self as network, Operator, Shape, Windows};
use rand::{Rng, SeedableRng};

/// A device that executes calls over a block of memory: a GPU, or the emulator of the tests.
pub(super) trait Device {
    /// Copies `bytes` to a slot.
    fn write(&mut self, to: Slot, bytes: &[u8]) -> Result<(), ProbeError>;

    /// Returns the first `bytes` of a slot.
    fn read(&mut self, from: Slot, bytes: usize) -> Result<Vec<u8>, ProbeError>;

    /// Executes calls, in order.
    fn run(&mut self, calls: &[Call]) -> Result<(), ProbeError>;

    /// Executes the same calls `times` times. A device that can do so records the calls once and repeats them as a
    /// whole. The calls must have been executed before.
    fn repeat(&mut self, calls: &[Call], times: usize) -> Result<(), ProbeError> {
        (0..times).try_for_each(|_| self.run(calls))
    }
}

/// A function that opens a device with a block of memory of a given size [B], for a precision.
pub(super) type Open<'o> =
    &'o mut dyn FnMut(usize, Precision) -> Result<Box<dyn Device>, ProbeError>;

/// The difference between a computed result and the expected one.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// What was computed, such as `conv 3x3: gradient of the input`.
    pub what: String,
    /// Precision of the computation.
    pub precision: Precision,
    /// Norm of the difference, divided by the norm of the expected result.
    pub error: f64,
    /// Largest error that rounding explains.
    pub limit: f64,
}

impl Difference {
    /// Returns whether rounding explains the error.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.error <= self.limit
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { what, error, limit, .. } = self;
        write!(to, "{what} is off by {error:.1e}, more than {limit:.0e}")
    }
}

/// Returns |found − expected| / |expected|, or |found| if all expected values are 0. The result is not finite
/// if a value is not, or if the lengths differ.
#[must_use]
pub fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    let length = |squares: f64| squares.sqrt();
    let apart = length(found.iter().zip(expected).map(|(f, e)| (f - e).powi(2)).sum());
    let whole = length(expected.iter().map(|e| e * e).sum());
    if whole > 0.0 { apart / whole } else { apart }
}

/// Returns the operators that networks use, in sizes that are multiples of vector sizes and in sizes that are not.
pub(super) fn cases() -> Vec<(&'static str, Vec<Operator>)> {
    let conv = |from, to, side, kernel, stride, padding, bias| {
        vec![Operator::Conv { shape: Shape { from, to, side, kernel, stride, padding }, bias }]
    };
    let pool = |side, window, stride, padding| {
        vec![Operator::MaxPool(Windows { channels: 3, side, window, stride, padding })]
    };
    vec![
        ("conv 5x5 with bias", conv(3, 8, 12, 5, 1, 2, true)),
        ("conv 3x3", conv(8, 16, 9, 3, 1, 1, false)),
        ("conv 3x3, stride 2", conv(8, 8, 9, 3, 2, 1, false)),
        ("conv 1x1, stride 2", conv(8, 16, 8, 1, 2, 0, false)),
        ("linear", vec![Operator::Linear { rows: 5, from: 40, to: 72 }]),
        ("linear, odd rows", vec![Operator::Linear { rows: 5, from: 40, to: 7 }]),
        ("relu", vec![Operator::Relu(1001)]),
        ("gelu", vec![Operator::Gelu(1001)]),
        ("max pool 2x2", pool(12, 2, 2, 0)),
        ("max pool 3x3, stride 2", pool(16, 3, 2, 1)),
        ("max pool 3x3, stride 2, odd rows", pool(11, 3, 2, 1)),
        ("average", vec![Operator::Average { channels: 24, plane: 49 }]),
        ("batch norm", vec![Operator::BatchNorm { channels: 5, plane: 304 }]),
        ("batch norm, half vectors", vec![Operator::BatchNorm { channels: 5, plane: 300 }]),
        ("batch norm, odd planes", vec![Operator::BatchNorm { channels: 5, plane: 49 }]),
        ("batch norm, small planes", vec![Operator::BatchNorm { channels: 5, plane: 3 }]),
        ("layer norm", vec![Operator::LayerNorm { rows: 7, width: 200 }]),
        ("layer norm, odd rows", vec![Operator::LayerNorm { rows: 7, width: 201 }]),
        ("attention", vec![Operator::Attention { heads: 4, length: 24, width: 64 }]),
        ("attention, odd rows", vec![Operator::Attention { heads: 2, length: 11, width: 26 }]),
        ("embedding", vec![Operator::Embedding { tokens: 50, length: 12, width: 40 }]),
        ("embedding, odd rows", vec![Operator::Embedding { tokens: 50, length: 12, width: 41 }]),
        ("residual block", vec![network::residual_block(8, 16, 8, 2)]),
        ("transformer block", network::encoder(16, 32, 4).into()),
    ]
}

/// Runs each operator forward and backward on random inputs and compares the results with those of the cores in
/// `f64`.
pub(super) fn operators(
    open: Open<'_>,
    precision: Precision,
    seed: u64,
) -> Result<Vec<Difference>, ProbeError> {
    let mut found = Vec::new();
    for case in 0..cases().len() {
        found.extend(operators_of_case(open, case, precision, seed)?);
    }
    Ok(found)
}

/// Runs the operators of one case, as [`operators`] does for all.
pub(super) fn operators_of_case(
    open: Open<'_>,
    case: usize,
    precision: Precision,
    seed: u64,
) -> Result<Vec<Difference>, ProbeError> {
    let cases = cases();
    let (name, operators) = &cases[case];
    let mut draw = Generator::seed_from_u64(seed.wrapping_add(case as u64));
    // The last two cases are chains of operators, which also round between operators.
    let limit = precision.tolerance() * if case >= cases.len() - 2 { 4.0 } else { 1.0 };
    let found = operator(open, operators, precision, &mut draw)?;
    let difference = |(what, error): (&str, f64)| Difference {
        what: format!("{name}: {what}"),
        precision,
        error,
        limit,
    };
    Ok(found.into_iter().map(difference).collect())
}

/// Runs consecutive operators on a device and on cores. Returns the errors of the device's output, of its
/// parameter gradients and of its input gradient.
fn operator(
    open: Open<'_>,
    operators: &[Operator],
    precision: Precision,
    draw: &mut Generator,
) -> Result<Vec<(&'static str, f64)>, ProbeError> {
    const SAMPLES: usize = 6;
    let piece = piece(operators, SAMPLES, precision);
    // Inputs have no more digits than the device keeps, so that max pooling chooses the same values on device
    // and cores.
    let unseen = if precision == Precision::Bf16 { 0xffff } else { 0 };
    let mut numbers = |n: usize| -> Vec<f32> {
        let number = |_| (draw.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0;
        (0..n).map(number).map(|x| f32::from_bits(x.to_bits() & !unseen)).collect()
    };
    let parameters = numbers(piece.blocks.iter().map(|block| block.len).sum());
    let mut input = numbers(SAMPLES * operators.first().map_or(0, Operator::inputs));
    let given = numbers(SAMPLES * operators.last().map_or(0, Operator::outputs));
    let tokens = match operators {
        [Operator::Embedding { tokens, .. }] => Some(*tokens),
        _ => None,
    };
    if let Some(kinds) = tokens {
        input.iter_mut().for_each(|x| *x = ((*x + 1.0) / 2.0 * kinds as f32).floor());
    }
    let wanted = cpu::reference(operators, &parameters, &input, &given);
    let mut device = open(piece.bytes, precision)?;
    device.write(piece.input, &bytes_of(&input, tokens.is_some()))?;
    device.write(piece.given, &bytes_of(&given, false))?;
    place_parameters(device.as_mut(), piece.parameters, &piece.blocks, &parameters)?;
    device.run(&piece.calls)?;
    let Reference { output, input: d_input, parameters: d_parameters } = wanted;
    let got = numbers_of(device.as_mut(), piece.output, output.len(), precision)?;
    let mut errors = vec![("output", relative_error(&got, &output))];
    if !d_parameters.is_empty() {
        let got = gradients(device.as_mut(), piece.gradients, &piece.blocks)?;
        errors.push(("gradient of the parameters", relative_error(&got, &d_parameters)));
    }
    if let Some(back) = piece.back {
        let got = numbers_of(device.as_mut(), back, d_input.len(), precision)?;
        errors.push(("gradient of the input", relative_error(&got, &d_input)));
    }
    Ok(errors)
}

/// Returns the gradients of all parameters, in the order of the layers on cores.
pub(super) fn gradients(
    device: &mut dyn Device,
    slot: Slot,
    blocks: &[Block],
) -> Result<Vec<f64>, ProbeError> {
    let all = numbers_of(device, slot, slot.bytes() / 4, Precision::Fp32)?;
    Ok(blocks.iter().flat_map(|block| all[block.at..block.at + block.len].to_vec()).collect())
}

/// Returns the first `n` numbers of a slot that holds numbers in this precision.
pub(super) fn numbers_of(
    device: &mut dyn Device,
    slot: Slot,
    n: usize,
    precision: Precision,
) -> Result<Vec<f64>, ProbeError> {
    let bytes = device.read(slot, n * precision.bytes())?;
    Ok(match precision.bytes() {
        2 => bytes
            .chunks_exact(2)
            .map(|b| f64::from(f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16)))
            .collect(),
        _ => bytes
            .chunks_exact(4)
            .map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_the_expected_result() {
        assert_eq!(relative_error(&[3.0, 4.5], &[3.0, 4.0]), 0.1);
        assert_eq!(relative_error(&[0.5], &[0.0]), 0.5);
        assert!(relative_error(&[1.0], &[]).is_infinite());
        assert!(relative_error(&[f64::NAN], &[1.0]).is_nan());
    }
}
