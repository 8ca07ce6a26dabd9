//! Steps carried out without a GPU: `tests/cuda/emulator.cpp` runs the kernels' own source.

mod emulator;

use super::batch::{Batch, place_parameters};
use super::crew::{Crew, Wanted};
use super::numerics::{self, Device, numbers_of};
use super::program::{Call, Launch, Slot, Word};
use super::*;
use crate::probe::ProbeError;
use emulator::{Emulated, Emulator};
use forebay_networks as network;

/// Runs all checks in one test, because the emulator takes long to compile.
#[test]
fn gpu_kernels_compute_the_same_results_as_the_cpu() {
    let Some(emulator) = Emulator::build() else { return };
    let emulator = &emulator;
    let parts: [fn(&Emulator); 7] =
        [averaging, agreement, arrivals, arrivals_in_trials, operators, networks, steps];
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(move || part(emulator));
        }
    });
}

/// Checks that `differences` is not empty and that no difference exceeds its limit.
fn small(differences: &[Difference]) {
    for of in differences {
        assert!(of.error <= of.limit, "{of:?}");
    }
    assert!(!differences.is_empty());
}

/// System: each operator, forward and backward, in each precision. Expectation: errors stay below their limits.
/// Convolutions and linear layers exceed the tolerance of FP32 exactly where they round to TF32 or BF16.
fn operators(emulator: &Emulator) {
    for precision in Precision::ALL {
        let mut open = |bytes, precision| -> Result<Box<dyn Device>, ProbeError> {
            Ok(Box::new(emulator.open(bytes, precision)))
        };
        let found = numerics::operators(&mut open, precision, 11).expect("a check");
        small(&found);
        let rounded = |of: &&Difference| of.error > Precision::Fp32.tolerance();
        let products =
            found.iter().filter(|of| of.what.starts_with("conv") || of.what.starts_with("linear"));
        let far = products.filter(rounded).count();
        assert_eq!(far > 0, precision != Precision::Fp32, "{precision:?}: {far}");
    }
}

/// System: small networks in FP32 and BF16. Expectation: loss, gradient and change of the loss along the
/// gradient are those of the cores.
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

/// System: training steps of small networks. Expectation: losses are those of the cores and fall; steps
/// repeated as a whole end with the loss of steps run call by call.
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
        if name == "lenet5" {
            let same = whole::repeated(&mut open, name, &network, (3, 2), Precision::Fp32, 5);
            small(&[same.expect("a check")]);
        }
    }
}

/// System: two replicas that move towards a central model by a quarter of their distance. The central model
/// moves by the sum of their corrections and by half of its last move. Expectation: the values computed by
/// hand.
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

/// System: crews of one and of three learners, without an emulator. Expectation: no two programs use the same
/// slot, and averaging needs the memory of three models only.
#[test]
fn learners_on_a_gpu_share_no_memory_slots() {
    let network = network::model("lenet5").expect("a model");
    let crew = |learners, precision| {
        let wanted = Wanted { batches: &[8, 3], precision, learners, arrivals: (3, 1000) };
        Crew::new(&network, wanted)
    };
    for precision in Precision::ALL {
        let (one, three) = (crew(1, precision), crew(3, precision));
        assert!(one.agree(0.5, 0.0).is_empty() && one.gather().is_empty());
        let mut taken: Vec<(usize, usize, usize)> = Vec::new();
        for (owner, program) in three.learners.iter().flatten().enumerate() {
            let all = [&program.feed, &program.forward, &program.backward, &program.update];
            for call in all.into_iter().flatten().chain(&program.settle) {
                let ends = |slot: Slot| (slot.offset(), slot.offset() + slot.bytes(), owner);
                taken.extend(slots(call).into_iter().map(ends));
            }
        }
        taken.extend(
            three
                .arrivals
                .iter()
                .zip(100..)
                .map(|(slot, owner)| (slot.offset(), slot.offset() + slot.bytes(), owner)),
        );
        taken.sort_unstable();
        let mut reached = (0, usize::MAX);
        for (start, end, owner) in taken {
            assert!(start >= reached.0 || owner == reached.1, "{owner} and {}", reached.1);
            assert!(end <= three.bytes);
            if end > reached.0 {
                reached = (end, owner);
            }
        }
        let model = three.learners[0][0].parameters.bytes();
        let arrivals = 3 * 1024;
        assert_eq!(three.bytes - arrivals, 3 * (one.bytes - arrivals) + 3 * model);
    }
}

/// Returns the slots that a call uses.
fn slots(call: &Call) -> Vec<Slot> {
    match call {
        Call::Launch(launch) => {
            let at = |word: &Word| if let Word::At(slot) = word { Some(*slot) } else { None };
            launch.words.iter().filter_map(at).collect()
        }
        Call::Product(of) => vec![of.a.slot, of.b.slot, of.c.slot],
        Call::Convolution(of) => vec![of.x, of.w, of.y],
    }
}

/// System: three learners with batches of their own, averaged after every step with a share of a third and a
/// momentum of 0.9. Expectation: replicas and central model are those of the same averaging in `f64` on cores;
/// without momentum, the central model is the mean of the replicas.
fn agreement(emulator: &Emulator) {
    let network = network::model("lenet5").expect("a model");
    let (share, keep) = (1.0 / 3.0, 0.9);
    // Averaging uses 4 bytes per number in every precision; here matrix products use copies of the parameters
    // in 2 bytes.
    let precision = Precision::Bf16;
    let wanted = Wanted { batches: &[4], precision, learners: 3, arrivals: (0, 0) };
    let crew = Crew::new(&network, wanted);
    let mut device = emulator.open(crew.bytes, precision);
    for (seed, learner) in crew.learners.iter().enumerate() {
        let batch = Batch::invent(&network, 4, seed as u64);
        let first = Batch::invent(&network, 4, 0);
        let program = &learner[0];
        // The gaps between parameter blocks are zero at first, as on a GPU, and must stay zero.
        for slot in program.state.iter().chain([&program.parameters, &program.gradients]) {
            device.write(*slot, &vec![0; slot.bytes()]).expect("memory");
        }
        batch.copy(&mut device, program).expect("memory");
        let blocks = &program.blocks;
        place_parameters(&mut device, program.parameters, blocks, &first.parameters)
            .expect("memory");
        for calls in [&program.feed, &program.settle] {
            device.run(calls).expect("a run");
        }
    }
    device.run(&crew.gather()).expect("a run");
    let model = |device: &mut Emulated, slot: Slot| {
        numbers_of(device, slot, slot.bytes() / 4, Precision::Fp32).expect("numbers")
    };
    let centre = crew.centre().expect("several learners");
    let mut last = model(&mut device, centre.model);
    for round in 0..2 {
        for learner in &crew.learners {
            let step: Vec<Call> = learner[0].step().cloned().collect();
            device.run(&step).expect("a run");
        }
        let keep = if round == 1 { 0.0 } else { keep };
        let before: Vec<Vec<f64>> =
            crew.learners.iter().map(|of| model(&mut device, of[0].parameters)).collect();
        let now = model(&mut device, centre.model);
        device.run(&crew.agree(share, keep)).expect("a run");
        let (replicas, moved) = agree(&before, &now, &last, f64::from(share), f64::from(keep));
        for (learner, expected) in crew.learners.iter().zip(&replicas) {
            let found = model(&mut device, learner[0].parameters);
            assert!(relative_error(&found, expected) < 1e-6);
        }
        let found = model(&mut device, centre.model);
        assert!(relative_error(&found, &moved) < 1e-6, "round {round}");
        if keep == 0.0 {
            let mean = |i: usize| before.iter().map(|of| of[i]).sum::<f64>() / 3.0;
            let means: Vec<f64> = (0..now.len()).map(mean).collect();
            assert!(relative_error(&found, &means) < 1e-6);
        }
        last = now;
    }
    let apart = |device: &mut Emulated, a: usize, b: usize| {
        let of = |device: &mut Emulated, i: usize| model(device, crew.learners[i][0].parameters);
        relative_error(&of(device, a), &of(device, b))
    };
    assert!(apart(&mut device, 0, 1) > 1e-4, "learners with batches of their own differ");
}

/// Averages replicas by synchronous model averaging on cores; returns the replicas and the central model
/// afterwards.
fn agree(
    replicas: &[Vec<f64>],
    central: &[f64],
    last: &[f64],
    share: f64,
    keep: f64,
) -> (Vec<Vec<f64>>, Vec<f64>) {
    let correction = |replica: &[f64], i: usize| share * (replica[i] - central[i]);
    let drawn = |replica: &Vec<f64>| {
        (0..central.len()).map(|i| replica[i] - correction(replica, i)).collect()
    };
    let moved = |i: usize| {
        let sum: f64 = replicas.iter().map(|replica| correction(replica, i)).sum();
        central[i] + sum + keep * (central[i] - last[i])
    };
    (replicas.iter().map(drawn).collect(), (0..central.len()).map(moved).collect())
}

/// System: batches with more, equally many and fewer bytes than the network takes values. Expectation: the
/// network gets evenly spaced bytes, as values from -1 to 1 or as tokens. A batch of floats: the network gets
/// evenly spaced floats as they are.
fn arrivals(emulator: &Emulator) {
    for (name, precision) in [
        ("lenet5", Precision::Fp32),
        ("lenet5", Precision::Bf16),
        ("transformer-small", Precision::Fp32),
    ] {
        let network = network::model(name).expect("a model");
        let n = 2 * network.feed.sizes().0;
        for count in [n / 3, n, 5 * n] {
            let wanted = Wanted { batches: &[2], precision, learners: 1, arrivals: (2, count) };
            let crew = Crew::new(&network, wanted);
            let mut device = emulator.open(crew.bytes, precision);
            let bytes: Vec<u8> = (0..count).map(|i| (i * 31 % 251) as u8).collect();
            device.write(crew.arrivals[1], &bytes).expect("memory");
            let program = &crew.learners[0][0];
            device.run(&crew.feed(program, crew.arrivals[1], (count, Form::Bytes))).expect("a run");
            let whole = program.input.bytes() / 4;
            let found = device.read(program.input, 4 * n).expect("memory");
            for (i, four) in found.chunks_exact(4).enumerate() {
                let byte = bytes[i * count / whole];
                let four = [four[0], four[1], four[2], four[3]];
                match network.feed {
                    network::Feed::Image { .. } => {
                        let wanted = f32::from(byte) / 127.5 - 1.0;
                        assert!((f32::from_le_bytes(four) - wanted).abs() < 1e-6, "{name} {i}");
                    }
                    network::Feed::Tokens { kinds, .. } => {
                        assert_eq!(i32::from_le_bytes(four), i32::from(byte) % kinds as i32);
                    }
                }
            }
            if let network::Feed::Image { .. } = network.feed {
                let floats: Vec<f32> = (0..count / 4).map(|i| (i as f32).sin()).collect();
                device
                    .write(
                        crew.arrivals[1],
                        &floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>(),
                    )
                    .expect("memory");
                device
                    .run(&crew.feed(program, crew.arrivals[1], (count, Form::Floats)))
                    .expect("a run");
                let found =
                    numbers_of(&mut device, program.input, n, Precision::Fp32).expect("numbers");
                for (i, value) in found.iter().enumerate() {
                    assert_eq!(*value, f64::from(floats[i * floats.len() / whole]), "{name} {i}");
                }
            }
        }
    }
}

/// System: a batch of 64 samples, as a lane of a trial brings it. Expectation: a program gets the batch itself; of tokens, the low
/// bytes.
fn arrivals_in_trials(emulator: &Emulator) {
    for name in ["lenet5", "transformer-small"] {
        let network = network::model(name).expect("a model");
        let (content, form) = Batch::invent(&network, 64, 5).arriving(network.feed);
        let arrivals = (1, content.len());
        let wanted = Wanted { batches: &[64], precision: Precision::Fp32, learners: 1, arrivals };
        let crew = Crew::new(&network, wanted);
        let mut device = emulator.open(crew.bytes, Precision::Fp32);
        device.write(crew.arrivals[0], &content).expect("memory");
        let program = &crew.learners[0][0];
        device.run(&crew.feed(program, crew.arrivals[0], (content.len(), form))).expect("a run");
        let (_, values, _) = network::cpu::begin(&network, 64, 5);
        let found = device.read(program.input, 4 * values.len()).expect("memory");
        for (value, four) in values.iter().zip(found.chunks_exact(4)) {
            let four = [four[0], four[1], four[2], four[3]];
            match network.feed {
                network::Feed::Image { .. } => assert_eq!(f32::from_le_bytes(four), *value),
                network::Feed::Tokens { .. } => {
                    assert_eq!(i32::from_le_bytes(four), *value as i32 % 256);
                }
            }
        }
    }
}
