//! Initial parameters and a batch, and how they are copied to a device.

use super::Form;
use super::numerics::Device;
use super::program::{Block, Program, Slot};
use crate::probe::ProbeError;
use forebay_networks::{self as network, cpu};
use std::rc::Rc;

/// Returns the network with the name `model`.
pub(super) fn network_of(model: &str) -> Result<network::Network, ProbeError> {
    let unknown = || ProbeError::Machine(format!("no model is called `{model}`"));
    network::model(model).ok_or_else(unknown)
}

/// Initial parameters and a generated batch.
pub(super) struct Batch {
    pub(super) parameters: Vec<f32>,
    /// Input of all samples and their targets, as a device stores them.
    input: Vec<u8>,
    targets: Vec<u8>,
}

impl Batch {
    /// Returns the parameters and the batch with which training on cores begins for the same seed.
    pub(super) fn invent(network: &network::Network, samples: usize, seed: u64) -> Batch {
        let (parameters, input, targets) = cpu::begin(network, samples, seed);
        let tokens = matches!(network.feed, network::Feed::Tokens { .. });
        let targets = targets.iter().flat_map(|&target| (target as i32).to_le_bytes()).collect();
        Batch { parameters, input: numbers(&input, tokens), targets }
    }

    /// Copies input and targets to a device.
    pub(super) fn copy(
        &self,
        device: &mut dyn Device,
        program: &Program,
    ) -> Result<(), ProbeError> {
        device.write(program.input, &self.input)?;
        device.write(program.targets, &self.targets)
    }

    /// Returns the input as a lane brings it to a learner, and its form: numbers of 4 bytes, or a byte for each token.
    pub(super) fn arriving(&self, feed: network::Feed) -> (Vec<u8>, Form) {
        match feed {
            network::Feed::Image { .. } => (self.input.clone(), Form::Floats),
            network::Feed::Tokens { .. } => {
                (self.input.iter().copied().step_by(4).collect(), Form::Bytes)
            }
        }
    }
}

/// What a learner begins with: its initial parameters as the GPU stores them, and its batch.
pub(super) type Beginning = (Rc<Vec<u8>>, Rc<Batch>);

/// Returns the bytes of `values` as a device stores them: 32-bit integers if they are tokens, otherwise 32-bit
/// floats.
pub(super) fn numbers(values: &[f32], tokens: bool) -> Vec<u8> {
    if tokens {
        values.iter().flat_map(|&x| (x as i32).to_le_bytes()).collect()
    } else {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }
}

/// Copies `parameters` to the slot `to` of a device. The parameters are in the order of the layers on cores;
/// `blocks` says where each block of parameters lies within the slot.
pub(super) fn place_parameters(
    device: &mut dyn Device,
    to: Slot,
    blocks: &[Block],
    parameters: &[f32],
) -> Result<(), ProbeError> {
    device.write(to, &placed(to, blocks, parameters))
}

/// Returns the content of the slot `to` with the given parameters, as [`place_parameters`] copies it.
pub(super) fn placed(to: Slot, blocks: &[Block], parameters: &[f32]) -> Vec<u8> {
    let mut all = vec![0_u8; to.bytes()];
    let mut rest = parameters;
    for block in blocks {
        let (own, others) = rest.split_at(block.len);
        rest = others;
        for (to, x) in all[4 * block.at..].chunks_exact_mut(4).zip(own) {
            to.copy_from_slice(&x.to_le_bytes());
        }
    }
    all
}
