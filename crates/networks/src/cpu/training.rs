//! One step: forward, loss, backward, update, the batch split among threads.

use super::Network;
use super::build::{layers, optimiser};
use super::layer::{Layer, Sequential, uniform};
use super::loss::cross_entropy;
use super::optimiser::Optimiser;
use super::real::Real;
use crate::Feed;
use forebay_model::random::Generator;
use rand::{Rng, SeedableRng};

/// Maximum number of different patterns (classes) in synthetic images: more would need much memory.
const CLASSES: usize = 10;

/// A network with its parameters and a batch.
pub(super) struct Training<F> {
    feed: Feed,
    batch: usize,
    pub(super) parameters: Vec<F>,
    optimiser: Optimiser<F>,
    /// Parts of the batch, one for each thread.
    pub(super) parts: Vec<Part<F>>,
    /// Error with which the system refused to start a thread; `None` if it refused none.
    refused: Option<std::io::Error>,
}

/// Data of one thread: its part of the batch with loss and gradient, and its own layers, which keep data for
/// the backward pass.
pub(super) struct Part<F> {
    layers: Sequential<F>,
    pub(super) input: Vec<F>,
    pub(super) targets: Vec<usize>,
    output: Vec<F>,
    d_output: Vec<F>,
    pub(super) gradient: Vec<F>,
    loss: f64,
}

impl<F: Real> Part<F> {
    /// Computes loss and gradients of this part of a batch; the whole batch has `rows` targets.
    fn run(&mut self, parameters: &[F], rows: usize) {
        self.gradient.fill(F::default());
        self.layers.forward(parameters, &self.input, &mut self.output);
        self.loss = cross_entropy(&self.output, &self.targets, rows, &mut self.d_output);
        let at = super::layer::At { input: &self.input, output: &self.output };
        let back = super::layer::Gradient {
            output: &self.d_output,
            parameters: &mut self.gradient,
            input: None,
        };
        self.layers.backward(parameters, at, back);
    }
}

impl<F: Real> Training<F> {
    /// Returns a network before its first step, with a synthetic batch that can be learnt.
    pub(super) fn new(model: &crate::Network, threads: usize, batch: usize, seed: u64) -> Self {
        let (batch, mut draw) = (batch.max(1), Generator::seed_from_u64(seed));
        let threads = threads.clamp(1, batch);
        let own = layers(&model.operators);
        let mut parameters = vec![F::default(); own.parameters()];
        own.initialise(&mut parameters, &mut draw);
        let (values, targets) = model.feed.sizes();
        let part = |i: usize| {
            let samples = (i + 1) * batch / threads - i * batch / threads;
            let layers: Sequential<F> = layers(&model.operators);
            let scores = vec![F::default(); samples * layers.outputs()];
            Part {
                input: vec![F::default(); samples * values],
                targets: vec![0; samples * targets],
                output: scores.clone(),
                d_output: scores,
                gradient: vec![F::default(); parameters.len()],
                loss: 0.0,
                layers,
            }
        };
        let parts = (0..threads).map(part).collect();
        let optimiser = optimiser(model.update, parameters.len());
        let feed = model.feed;
        let mut training = Training { feed, batch, parameters, optimiser, parts, refused: None };
        invent(training.feed, training.samples(), &mut draw);
        training
    }

    /// Returns every sample of the batch with its targets.
    fn samples(&mut self) -> impl Iterator<Item = (&mut [F], &mut [usize])> {
        let (values, targets) = self.feed.sizes();
        self.parts.iter_mut().flat_map(move |part| {
            part.input.chunks_exact_mut(values).zip(part.targets.chunks_exact_mut(targets))
        })
    }

    /// Replaces the inputs of the batch. `values` holds one sample after another; the inputs of a sample are
    /// evenly spaced values of it. Tokens also get new targets.
    pub(super) fn feed(&mut self, values: &[f32]) {
        let (feed, batch) = (self.feed, self.batch);
        let (length, top) = (values.len() / batch, feed.kinds() as f64 - 1.0);
        let top = top.min(255.0);
        for (i, (input, targets)) in self.samples().enumerate() {
            let sample = &values[i * length..(i + 1) * length];
            let wanted = input.len();
            for (j, x) in input.iter_mut().enumerate() {
                let value = sample.get(j * length / wanted).copied().unwrap_or(0.0);
                // NaN would pass through `clamp`; this comparison turns it and infinity into 0.
                let value = if value.is_finite() { value.clamp(-4.0, 4.0) } else { 0.0 };
                *x = match feed {
                    Feed::Image { .. } => F::of(f64::from(value)),
                    Feed::Tokens { .. } => {
                        F::of((f64::from(value) * 32.0 + 128.0).floor().min(top))
                    }
                };
            }
            if let Feed::Tokens { .. } = feed {
                let next = input.iter().skip(1).chain(&input[..1]);
                targets.iter_mut().zip(next).for_each(|(t, x)| *t = x.wide() as usize);
            }
        }
    }

    /// Computes loss and gradient of the batch. Returns the loss; the gradient is then in the first part.
    pub(super) fn differentiate(&mut self) -> f64 {
        let rows = self.batch * self.feed.sizes().1;
        let parameters = &self.parameters;
        let Some((first, others)) = self.parts.split_first_mut() else { return 0.0 };
        let refused = std::thread::scope(|scope| {
            let mut refused = None;
            for part in others.iter_mut() {
                let run = || part.run(parameters, rows);
                let started = std::thread::Builder::new().spawn_scoped(scope, run);
                refused = started.err().or(refused);
            }
            first.run(parameters, rows);
            refused
        });
        // One step with fewer threads makes the times of all steps worthless.
        self.refused = self.refused.take().or(refused);
        for part in others.iter() {
            first.gradient.iter_mut().zip(&part.gradient).for_each(|(sum, &g)| *sum += g);
        }
        self.parts.iter().map(|part| part.loss).sum()
    }
}

/// Fills samples with synthetic data that can be learnt: images of at most ten patterns under noise, or
/// sequences in which each token follows from the one before.
fn invent<'s, F: Real>(
    feed: Feed,
    samples: impl Iterator<Item = (&'s mut [F], &'s mut [usize])>,
    draw: &mut Generator,
) {
    let ((values, _), kinds) = (feed.sizes(), feed.kinds());
    let classes = kinds.min(CLASSES);
    let patterns: Vec<f64> = (0..classes * values).map(|_| 2.0 * uniform(draw) - 1.0).collect();
    for (i, (input, targets)) in samples.enumerate() {
        match feed {
            Feed::Image { .. } => {
                targets[0] = i % classes;
                let pattern = &patterns[targets[0] * values..];
                for (x, &p) in input.iter_mut().zip(pattern) {
                    *x = F::of(p + 2.0 * uniform(draw) - 1.0);
                }
            }
            Feed::Tokens { .. } => {
                let mut token = draw.next_u64() as usize % kinds;
                for (x, target) in input.iter_mut().zip(targets) {
                    *x = F::of(token as f64);
                    token = (token * 5 + 17) % kinds;
                    *target = token;
                }
            }
        }
    }
}

/// Returns the data with which training begins: parameters, inputs of the batch, and targets.
pub fn begin(
    network: &crate::Network,
    batch: usize,
    seed: u64,
) -> (Vec<f32>, Vec<f32>, Vec<usize>) {
    let mut draw = Generator::seed_from_u64(seed);
    let layers: Sequential<f32> = layers(&network.operators);
    let mut parameters = vec![0.0; layers.parameters()];
    layers.initialise(&mut parameters, &mut draw);
    let (values, targets) = network.feed.sizes();
    let (mut input, mut wanted) = (vec![0.0; batch * values], vec![0; batch * targets]);
    let samples = input.chunks_exact_mut(values).zip(wanted.chunks_exact_mut(targets));
    invent(network.feed, samples, &mut draw);
    (parameters, input, wanted)
}

impl<F: Real> Network for Training<F> {
    fn step(&mut self) -> f64 {
        let loss = self.differentiate();
        if let Some(part) = self.parts.first() {
            self.optimiser.update(&mut self.parameters, &part.gradient);
        }
        loss
    }

    fn step_on(&mut self, values: &[f32]) -> f64 {
        self.feed(values);
        self.step()
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn threads(&self) -> usize {
        self.parts.len()
    }

    fn parameters(&self) -> usize {
        self.parameters.len()
    }

    fn lacked_threads(&mut self) -> Option<std::io::Error> {
        self.refused.take()
    }
}
