//! Tests that compare gradients with central differences in `f64`, and tests of training as a whole.

use super::build::{layer, layers};
use super::layer::{At, Gradient, Layer, uniform};
use super::linear::{Embedding, Linear};
use super::norm::{BatchNorm, LayerNorm};
use super::pointwise::{Gelu, GlobalAverage, MaxPool, Relu};
use super::real::Real;
use super::training::Training;
use super::*;
use crate::Windows;
use forebay_model::random::Generator;
use rand::SeedableRng;

/// A layer, and a random linear combination of its outputs, which has one derivative for each parameter and
/// input.
struct Probe {
    layer: Box<dyn Layer<f64>>,
    parameters: Vec<f64>,
    input: Vec<f64>,
    weights: Vec<f64>,
}

impl Probe {
    fn new(layer: Box<dyn Layer<f64>>, inputs: usize, samples: usize) -> Probe {
        let mut draw = Generator::seed_from_u64(7);
        let mut numbers =
            |n: usize| (0..n).map(|_| 2.0 * uniform(&mut draw) - 1.0).collect::<Vec<f64>>();
        let parameters = numbers(layer.parameters());
        let (input, weights) = (numbers(samples * inputs), numbers(samples * layer.outputs()));
        Probe { layer, parameters, input, weights }
    }

    fn value(&mut self) -> f64 {
        let mut output = vec![0.0; self.weights.len()];
        self.layer.forward(&self.parameters, &self.input, &mut output);
        output.iter().zip(&self.weights).map(|(y, w)| y * w).sum()
    }

    fn gradients(&mut self) -> (Vec<f64>, Vec<f64>) {
        let mut output = vec![0.0; self.weights.len()];
        self.layer.forward(&self.parameters, &self.input, &mut output);
        let mut parameters = vec![0.0; self.parameters.len()];
        let mut input = vec![f64::NAN; self.input.len()];
        let back = Gradient {
            output: &self.weights,
            parameters: &mut parameters,
            input: Some(&mut input),
        };
        let at = At { input: &self.input, output: &output };
        self.layer.backward(&self.parameters, at, back);
        (parameters, input)
    }

    /// Returns the derivative with respect to number `i` of the values that `of` selects, by central
    /// difference.
    fn slope(&mut self, of: fn(&mut Probe) -> &mut Vec<f64>, i: usize) -> f64 {
        const STEP: f64 = 1e-5;
        let kept = of(self)[i];
        let mut at = |x: f64| {
            of(self)[i] = x;
            self.value()
        };
        let slope = (at(kept + STEP) - at(kept - STEP)) / (2.0 * STEP);
        of(self)[i] = kept;
        slope
    }
}

/// Checks up to 150 derivatives each with respect to parameters and to inputs, evenly spaced.
fn check(name: &str, layer: Box<dyn Layer<f64>>, inputs: usize, samples: usize, tokens: bool) {
    let mut probe = Probe::new(layer, inputs, samples);
    if tokens {
        probe.input.iter_mut().enumerate().for_each(|(i, x)| *x = (i * 3 % 5) as f64);
    }
    let (parameters, input) = probe.gradients();
    let mut compare = |of: fn(&mut Probe) -> &mut Vec<f64>, gradient: &[f64], what: &str| {
        for i in (0..gradient.len()).step_by(gradient.len().div_ceil(150).max(1)) {
            let (expected, found) = (probe.slope(of, i), gradient[i]);
            let error = (expected - found).abs() / (1.0 + expected.abs());
            assert!(error < 1e-6, "{name}, {what} {i}: {found} for {expected}");
        }
    };
    compare(|p| &mut p.parameters, &parameters, "parameter");
    if !tokens {
        compare(|p| &mut p.input, &input, "input");
    }
}

fn pool(side: usize, window: usize, stride: usize, padding: usize) -> Windows {
    Windows { channels: 3, side, window, stride, padding }
}

fn conv(side: usize, stride: usize, padding: usize, kernel: usize) -> Box<dyn Layer<f64>> {
    let shape = crate::Shape { from: 2, to: 3, side, kernel, stride, padding };
    Box::new(conv::Conv::new(shape, true))
}

#[test]
fn gradients_of_every_operator_match_finite_differences() {
    check("conv 3", conv(6, 1, 1, 3), 72, 2, false);
    check("conv 5, no padding", conv(6, 1, 0, 5), 72, 2, false);
    check("conv 3, stride 2", conv(6, 2, 1, 3), 72, 2, false);
    check("conv 1, stride 2", conv(6, 2, 0, 1), 72, 2, false);
    // With these sides, patches are packed without im2col.
    check("conv 3 of 8", conv(8, 1, 1, 3), 128, 2, false);
    check("conv 5 of 8, no padding", conv(8, 1, 0, 5), 128, 2, false);
    check("conv 3 of 16, stride 2", conv(16, 2, 1, 3), 512, 2, false);
    check("linear", Box::new(Linear::new(3, 7, 5)), 21, 2, false);
    check("embedding", Box::new(Embedding { tokens: 5, length: 4, width: 3 }), 4, 3, true);
    check("relu", Box::new(Relu(20)), 20, 2, false);
    check("gelu", Box::new(Gelu(20)), 20, 2, false);
    check("max pool", Box::new(MaxPool::new(pool(6, 2, 2, 0))), 108, 2, false);
    check("overlapping pool", Box::new(MaxPool::new(pool(5, 3, 2, 1))), 75, 2, false);
    check("average", Box::new(GlobalAverage { channels: 3, plane: 7 }), 21, 2, false);
    check("batch norm", Box::new(BatchNorm::new(3, 5)), 15, 4, false);
    check("layer norm", Box::new(LayerNorm::new(3, 8)), 24, 2, false);
    check("attention", Box::new(attention::Attention::new(2, 5, 6)), 90, 2, false);
}

#[test]
fn gradients_of_composed_operators_match_finite_differences() {
    check("block", layer(&crate::residual_block(2, 2, 4, 1)), 32, 3, false);
    check("block with a shortcut", layer(&crate::residual_block(2, 3, 4, 2)), 32, 3, false);
    let bottleneck = &crate::bottlenecks(8, 2, &[1, 1], 3).operators[4..];
    check("bottlenecks", Box::new(layers(bottleneck)), 2 * 2 * 2, 3, false);
    check("encoder", Box::new(layers(&crate::encoder(4, 8, 2))), 32, 2, false);
}

/// System: the loss of whole networks along the direction of the gradient of all parameters. Expectation: its
/// slope is the gradient's squared norm.
#[test]
fn gradients_of_whole_networks_match_finite_differences() {
    let named = MODELS.map(|name| (name, crate::model(name).expect("a model")));
    let small = ("bottlenecks", crate::bottlenecks(20, 2, &[1, 2], 5));
    for (name, model) in named.into_iter().chain([small]) {
        let mut training = Training::<f64>::new(&model, 2, 3, 5);
        training.differentiate();
        let gradient = training.parts[0].gradient.clone();
        let length = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let step = 1e-6 / length;
        let kept = training.parameters.clone();
        let mut along = |by: f64| {
            let moved = kept.iter().zip(&gradient).map(|(p, g)| p + by * g);
            training.parameters = moved.collect();
            training.differentiate()
        };
        let slope = (along(step) - along(-step)) / (2.0 * step);
        let error = (slope / (length * length) - 1.0).abs();
        assert!(error < 1e-4, "{name}: {slope} for {}", length * length);
    }
}

#[test]
fn training_lowers_the_loss_on_learnable_data() {
    for (name, steps) in [("lenet5", 30), ("resnet-small", 15), ("transformer-small", 25)] {
        let mut network = build(name, 1, 10, 1).expect("a model");
        let first = network.step();
        let last = (1..steps).map(|_| network.step()).last().expect("steps");
        let chance = if name == "transformer-small" { 256_f64.ln() } else { 10_f64.ln() };
        assert!((first / chance - 1.0).abs() < 0.5, "{name} begins by guessing: {first}");
        assert!(last < 0.6 * first, "{name}: {first} then {last}");
    }
}

#[test]
fn equal_seeds_give_equal_training_losses() {
    for name in MODELS {
        let losses = |seed: u64, threads: usize| -> Vec<u64> {
            let mut network = build(name, threads, 3, seed).expect("a model");
            (0..3).map(|_| network.step().to_bits()).collect()
        };
        assert_eq!(losses(1, 2), losses(1, 2), "{name}");
        assert_ne!(losses(1, 2), losses(2, 2), "{name}");
    }
}

/// Returns the gradient of a batch that is split into `threads` parts.
fn gradient(name: &str, batch: usize, threads: usize, values: Option<&[f32]>) -> Vec<f32> {
    let model = crate::model(name).expect("a model");
    let mut training = Training::<f32>::new(&model, threads, batch, 3);
    if let Some(values) = values {
        training.feed(values);
    }
    training.differentiate();
    training.parts[0].gradient.clone()
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let apart: f64 = a.iter().zip(b).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    let length: f64 = a.iter().map(|&a| square(f64::from(a))).sum();
    (apart / length).sqrt()
}

#[test]
fn threads_change_the_gradient_by_rounding_only() {
    for (name, threads) in [("lenet5", 2), ("lenet5", 3), ("transformer-small", 2)] {
        let (whole, parts) = (gradient(name, 4, 1, None), gradient(name, 4, threads, None));
        assert!(distance(&whole, &parts) < 1e-5, "{name}: {}", distance(&whole, &parts));
    }
}

/// System: a batch of two equal halves, as a whole and split between two threads. Expectation: equal gradients.
/// Batch norm sees only the part of its thread, and equal parts have the moments of the whole.
#[test]
fn two_threads_give_the_gradient_of_one_thread_for_equal_batch_halves() {
    let half: Vec<f32> = (0..10 * 300).map(|i| (i as f32).sin()).collect();
    let values = Some(&half.repeat(2)[..]);
    let (whole, parts) =
        (gradient("resnet-small", 20, 1, values), gradient("resnet-small", 20, 2, values));
    assert!(distance(&whole, &parts) < 1e-4, "{}", distance(&whole, &parts));
}

#[test]
fn short_or_invalid_inputs_give_a_finite_loss() {
    for name in MODELS {
        let mut network = build(name, 2, 2, 1).expect("a model");
        for values in [&[][..], &[1.0], &[0.5; 20], &[f32::NAN, f32::INFINITY, -1e30, 3.0]] {
            let loss = network.step_on(values);
            assert!(loss.is_finite(), "{name} {values:?}: {loss}");
        }
    }
}

#[test]
fn parameter_counts_of_neural_networks_match_the_papers() {
    let parameters = |name| build(name, 1, 1, 1).expect("a model").parameters();
    assert_eq!(parameters("lenet5"), 61_706);
    let stem = 3 * 9 * 16 + 32;
    let block = |from: usize, to: usize| 9 * to * (from + to) + 4 * to;
    let shortcuts = 16 * 32 + 64 + 32 * 64 + 128;
    let blocks = block(16, 16) + block(16, 32) + block(32, 64);
    assert_eq!(parameters("resnet-small"), stem + blocks + shortcuts + 650);
    let layer = 12 * 128 * 128 + 13 * 128;
    assert_eq!(parameters("transformer-small"), 320 * 128 + 2 * layer + 256 + 129 * 256);
    assert_eq!(build("vgg", 1, 1, 1).err(), Some(UnknownModel("vgg".into())));
    // Networks for GPUs, which are not in `MODELS`.
    let sizes = |name| -> usize {
        let network = crate::model(name).expect("a model");
        layers::<f32>(&network.operators).parameters()
    };
    assert_eq!(sizes("resnet50"), 25_557_032);
    let layer = 12 * 768 * 768 + 13 * 768;
    assert_eq!(sizes("gpt-small"), (256 + 1024) * 768 + 12 * layer + 1536 + 769 * 256);
    let network = build("lenet5", 8, 3, 1).expect("a model");
    assert_eq!((network.threads(), network.batch()), (3, 3));
}

#[test]
fn the_fast_exponential_is_right_to_a_few_roundings() {
    for i in -6_000..8_700 {
        let x = i as f32 / 100.0 + 0.003;
        let error = f64::from(Real::exp(x)) / f64::from(x).exp() - 1.0;
        assert!(error.abs() < 1e-6, "{x}: {error}");
    }
    assert!(Real::exp(-1e30_f32) < 1e-26 && Real::exp(1e30_f32).is_finite());
}

#[test]
fn the_begin_function_returns_initial_training_parameters_and_data() {
    for name in MODELS {
        let model = crate::model(name).expect("a model");
        let training = Training::<f32>::new(&model, 1, 12, 4);
        let (parameters, input, targets) = begin(&model, 12, 4);
        assert_eq!((training.parameters, &training.parts[0].input), (parameters, &input), "{name}");
        assert_eq!(training.parts[0].targets, targets, "{name}");
    }
}
