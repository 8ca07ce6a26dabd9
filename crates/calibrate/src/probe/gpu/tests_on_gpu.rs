//! Tests that need a GPU, the first of the machine; without one they say so and pass. They run one after the
//! other, because each measures or fills the GPU's memory.
//!
//!     cargo test --release -p forebay-calibrate on_gpu -- --nocapture --test-threads 1
#![expect(clippy::print_stderr, reason = "whoever reads the test's output is told")]

mod averaged;

use super::batch::{Batch, place_parameters};
use super::call::{Cuda, Gpu, Ranks};
use super::compile::compile;
use super::numerics::{self, Device, numbers_of};
use super::program::{Call, Launch, Program};
use super::{
    Board, Copies, Difference, Exchange, Form, Learners, Precision, Task, Training, survey, whole,
};
use crate::probe::fresh::Decoding;
use crate::probe::{HostMemory, ProbeError};
use forebay_networks as network;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Held by the test that uses the GPU.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a test on the first GPU, if there is one.
fn on_gpu(test: impl FnOnce(&Gpu)) {
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Err(why) = survey::ready(0) {
        eprintln!("skipped: {why}");
        return;
    }
    test(&Gpu::open(0).expect("a GPU"));
}

/// Prints all differences and checks that none exceeds its limit. A part that the GPU refuses counts as wrong, and
/// the others are still compared.
fn compare(parts: impl Iterator<Item = (String, Result<Vec<Difference>, ProbeError>)>) {
    let mut wrong = Vec::new();
    for (part, found) in parts {
        match found {
            Ok(found) => {
                for of in &found {
                    eprintln!("{part}: {}: {:.1e} of {:.0e}", of.what, of.error, of.limit);
                }
                wrong.extend(
                    found.iter().filter(|of| !of.passes()).map(|of| format!("{part}: {of}")),
                );
            }
            Err(why) => wrong.push(format!("{part}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn on_gpu_every_operator_agrees_with_the_cores_in_every_precision() {
    on_gpu(|gpu| {
        let names: Vec<&str> = numerics::cases().iter().map(|(name, _)| *name).collect();
        let parts = Precision::ALL.into_iter().flat_map(|precision| {
            let names = names.clone();
            (0..names.len()).map(move |case| (precision, case, names[case]))
        });
        compare(parts.map(|(precision, case, name)| {
            let mut open = |bytes, precision| -> Result<Box<dyn Device>, ProbeError> {
                Ok(Box::new(Cuda::new(gpu, bytes, precision)?))
            };
            let found = numerics::operators_of_case(&mut open, case, precision, 11);
            (format!("{} {name}", precision.name()), found)
        }));
    });
}

/// System: LeNet-5, two small networks with the operators of ResNet-50 and GPT. Expectation: loss, gradients, ten
/// training steps and steps repeated as a CUDA graph agree with the cores.
#[test]
fn on_gpu_networks_and_their_graphs_agree_with_the_cores_in_every_precision() {
    on_gpu(|gpu| {
        let networks = whole::networks();
        let of = networks.iter().flat_map(|of| Precision::ALL.map(|precision| (of, precision)));
        let parts = of.flat_map(|((name, of), precision)| {
            let mut open = |bytes, precision| -> Result<Box<dyn Device>, ProbeError> {
                Ok(Box::new(Cuda::new(gpu, bytes, precision)?))
            };
            let said = precision.name().to_owned();
            let loss = whole::network(&mut open, name, of, 16, precision, 5);
            let training = whole::training(&mut open, name, of, (16, 10), precision, 5);
            let repeated = whole::repeated(&mut open, name, of, (16, 10), precision, 5);
            let repeated = repeated.map(|one| vec![one]);
            [loss, training, repeated].map(|found| (said.clone(), found))
        });
        compare(parts.collect::<Vec<_>>().into_iter());
    });
}

/// System: a batch that does not fit; calls that cannot be recorded, because one names no kernel. Expectation: an
/// error each time; then the same GPU and the same stream train as before, and no memory is lost.
#[test]
fn on_gpu_errors_leave_the_gpu_usable_and_free_its_memory() {
    on_gpu(|gpu| {
        let of = network::model("lenet5").expect("a model");
        let step = |cuda: &mut Cuda, program: &Program| {
            let batch = Batch::invent(&of, 8, 1);
            batch.copy(cuda, program)?;
            place_parameters(cuda, program.parameters, &program.blocks, &batch.parameters)?;
            let calls: Vec<Call> = program.feed.iter().chain(program.step()).cloned().collect();
            cuda.run(&calls)?;
            Ok::<f64, ProbeError>(numbers_of(cuda, program.loss, 1, Precision::Fp32)?[0])
        };
        let program = compile(&of, 8, Precision::Fp32);
        let fresh = || Cuda::new(gpu, program.bytes, Precision::Fp32).expect("a stream");
        let expected = step(&mut fresh(), &program).expect("a step");
        let (before, total) = gpu.memory().expect("memory");
        let refused = Cuda::new(gpu, total, Precision::Fp32).err().expect("too much memory");
        assert!(refused.to_string().contains("lower the batch"), "{refused}");
        let mut cuda = fresh();
        let first = step(&mut cuda, &program).expect("a step");
        let nameless = Launch { kernel: "none".into(), blocks: 1, threads: 32, words: Vec::new() };
        let calls: Vec<Call> =
            program.forward.iter().cloned().chain([Call::Launch(nameless)]).collect();
        let refused = cuda.record(&calls).err().expect("no such kernel");
        assert!(refused.to_string().contains("find a kernel"), "{refused}");
        let again = step(&mut cuda, &program).expect("a step after an error");
        assert!((first - expected).abs() < 1e-5 && (again - expected).abs() < 1e-5);
        drop(cuda);
        let (after, _) = gpu.memory().expect("memory");
        assert!(before.saturating_sub(after) < 64 << 20, "{before} {after}");
    });
}

/// System: one to four learners that average every second step, with and without CUDA graphs, fed through lanes.
/// Expectation: all steps end in order and every loss falls.
#[test]
fn on_gpu_learners_train_at_the_same_time() {
    on_gpu(|gpu| {
        for (learners, graph, brings) in [(1, true, true), (2, false, true), (4, true, true)] {
            let training = Training {
                model: "lenet5",
                gpu: 0,
                batches: &[32, 5],
                precision: Precision::Tf32,
                learners,
                graph,
                lanes: 4,
                bytes: 32 * 784,
                form: Form::Bytes,
                brings,
                agree_every: Some(2),
                keep: 0.9,
                seed: 3,
            };
            let Learners { learners, lanes } = Learners::on(gpu, &training).expect("learners");
            assert_eq!(lanes.bytes(), 32 * 784);
            let start = Instant::now();
            std::thread::scope(|threads| {
                for mut learner in learners {
                    threads.spawn(move || {
                        let mut last = start;
                        let mut first = f64::NAN;
                        for step in 0..40 {
                            let samples = if step % 10 == 9 { 5 } else { 32 };
                            let fresh = step == 0;
                            learner.begin(step, samples, fresh, &[[7_u8; 784]]).expect("a step");
                            let end = learner.end(step).expect("an end");
                            assert!(end >= last, "ends are in order");
                            last = end;
                            if step == 1 {
                                first = learner.loss().expect("a loss");
                            }
                        }
                        let loss = learner.loss().expect("a loss");
                        assert!(loss < first, "{loss} after {first}");
                    });
                }
            });
            eprintln!("{learners} learners", learners = training.learners);
        }
    });
}

/// System: batches of four decoded samples as long as a lane, longer and shorter ones, and one without content. Expectation: the
/// GPU's memory has the bytes that fit, a short batch repeated, without content those of the last batch; the network's input has
/// evenly spaced values of them.
#[test]
fn on_gpu_batches_arrive_with_the_bytes_of_their_samples() {
    on_gpu(|gpu| {
        const BYTES: usize = 4 * 3000;
        let training = Training {
            model: "lenet5",
            gpu: 0,
            batches: &[4],
            precision: Precision::Fp32,
            learners: 1,
            graph: true,
            lanes: 1,
            bytes: BYTES,
            form: Form::Floats,
            brings: false,
            agree_every: None,
            keep: 0.0,
            seed: 1,
        };
        let Learners { mut learners, lanes } = Learners::on(gpu, &training).expect("learners");
        let (never, mut last) = (AtomicBool::new(false), Vec::new());
        for (step, length) in [BYTES, 2 * BYTES, 1000, 0, BYTES].into_iter().enumerate() {
            let number = |i: usize| (step * 10_000 + i) as f32;
            let content: Vec<u8> = (0..length / 4).flat_map(|i| number(i).to_le_bytes()).collect();
            let samples: Vec<&[u8]> = content.chunks(3000).collect();
            if length > 0 {
                last = content.iter().copied().cycle().take(BYTES).collect();
            }
            lanes.copy(&samples, &never).expect("a copy");
            let arrival = lanes.take().expect("a batch");
            assert!(lanes.read(&arrival).expect("bytes") == last, "{length} bytes");
            lanes.give(arrival.lane, arrival.arrived);
            // The learner gets the next copy of the same batch.
            lanes.copy(&samples, &never).expect("a copy");
            learners[0].begin::<&[u8]>(step as u64, 4, true, &[]).expect("a step");
            learners[0].end(step as u64).expect("an end");
            // The lane's batch can be taken again without a copy.
            lanes.repeat();
            learners[0].begin::<&[u8]>(100 + step as u64, 4, true, &[]).expect("a step");
            learners[0].end(100 + step as u64).expect("an end");
            let input = learners[0].input().expect("numbers");
            let value = |i: usize| {
                let at = 4 * (i * (BYTES / 4) / input.len());
                f32::from_le_bytes([last[at], last[at + 1], last[at + 2], last[at + 3]])
            };
            let found = input.iter().enumerate().all(|(i, found)| *found == f64::from(value(i)));
            assert!(found, "{length} bytes");
        }
    });
}

#[test]
fn on_gpu_copies_of_each_kind_of_memory_take_the_time_of_a_bus() {
    on_gpu(|_| {
        let board = Board::open(0).expect("a GPU");
        let decoding = Decoding::new(2, 64, 224);
        for memory in [HostMemory::Pinned, HostMemory::Pageable, HostMemory::Staged] {
            for (bytes, decoding) in [4 << 10, 1 << 20, 64 << 20]
                .into_iter()
                .flat_map(|bytes| [(bytes, None), (bytes, Some(&decoding))])
            {
                let copies = Copies { bytes, memory, times: 20, within: 1.0, beside: None };
                let copied = board.copy(copies, decoding).expect("copies");
                let seconds = copied.seconds / copied.times as f64;
                let rate = bytes as f64 / seconds;
                let beside = if decoding.is_some() { " beside decoding" } else { "" };
                eprintln!(
                    "{memory:?} {bytes} B{beside}: {:.1} us, {:.2} GB/s",
                    1e6 * seconds,
                    rate / 1e9
                );
                assert!(rate > 1e6 && rate < 1e12, "{rate} B/s");
            }
        }
    });
}

#[test]
fn on_gpu_nccl_runs_every_collective_with_one_rank() {
    on_gpu(|_| {
        if let Err(why) = super::nccl() {
            eprintln!("skipped: {why}");
            return;
        }
        let ranks = Ranks::open(1, 1 << 20).expect("a rank");
        for exchange in Exchange::ALL {
            ranks.run(exchange, 1 << 20, 3).expect("a collective");
        }
    });
}

/// Prints where the time of trials and of steps goes, for the tasks in `FOREBAY_GPU_TASKS`, such as
/// `resnet50:64:bf16,gpt-small:8:tf32`.
#[test]
#[ignore = "prints times; checks nothing"]
fn on_gpu_times_of_trials_and_kernels() {
    let tasks = std::env::var("FOREBAY_GPU_TASKS").unwrap_or_default();
    on_gpu(|gpu| {
        let board = Board::open(0).expect("a GPU");
        for task in tasks.split(',').filter(|task| !task.is_empty()) {
            let parts: Vec<&str> = task.split(':').collect();
            let batch = parts[1].parse().expect("a batch");
            let precision = Precision::ALL.into_iter().find(|of| of.name() == parts[2]);
            let precision = precision.expect("a precision");
            let network = network::model(parts[0]).expect("a model");
            eprintln!("== {task}");
            for graph in [false, true] {
                let task = Task {
                    model: parts[0],
                    batch,
                    precision,
                    learners: 1,
                    average_every: None,
                    graph,
                    seed: 1,
                };
                for _ in 0..2 {
                    let start = Instant::now();
                    let ran = match board.train(task, 0.1) {
                        Ok(ran) => ran,
                        Err(why) => {
                            eprintln!("graph {graph}: {why}");
                            continue;
                        }
                    };
                    let all = start.elapsed().as_secs_f64();
                    eprintln!(
                        "graph {graph}: {:.4} ms a step, {} steps, trial {all:.3} s, loss {:.3}, \
                         {:.2} GB of {:.2} GB taken, {:?}",
                        1e3 * ran.seconds / ran.rounds as f64,
                        ran.rounds,
                        ran.loss,
                        ran.memory as f64 / 1e9,
                        ran.memory_taken as f64 / 1e9,
                        ran.beats.map(|(a, b)| (a.clock / 1e6, b.clock / 1e6, b.held)),
                    );
                }
            }
            if let Err(why) = kernels(gpu, &network, batch, precision) {
                eprintln!("kernels: {why}");
            }
        }
    });
}

/// Prints the time of a step's calls by kernel, the longest first.
fn kernels(
    gpu: &Gpu,
    network: &network::Network,
    batch: usize,
    precision: Precision,
) -> Result<(), ProbeError> {
    const STEPS: usize = 5;
    let mut begin = Instant::now();
    let mut lap = |what: &str| {
        eprintln!("{what}: {:.3} s", begin.elapsed().as_secs_f64());
        begin = Instant::now();
    };
    let program = compile(network, batch, precision);
    lap("compile");
    let mut cuda = Cuda::new(gpu, program.bytes, precision)?;
    lap("open");
    let drawn = Batch::invent(network, batch, 1);
    lap("draw");
    drawn.copy(&mut cuda, &program)?;
    lap("copy");
    place_parameters(&mut cuda, program.parameters, &program.blocks, &drawn.parameters)?;
    lap("place");
    cuda.run(&program.feed)?;
    cuda.run(&program.settle)?;
    let calls: Vec<Call> = program.step().cloned().collect();
    cuda.run(&calls)?;
    cuda.wait()?;
    lap("first step");
    let mut spent: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    for _ in 0..STEPS {
        let mut marks = vec![cuda.mark()?];
        for call in &calls {
            cuda.run(std::slice::from_ref(call))?;
            marks.push(cuda.mark()?);
        }
        cuda.wait()?;
        for (call, pair) in calls.iter().zip(marks.windows(2)) {
            let name = match call {
                Call::Launch(launch) => launch.kernel.clone(),
                Call::Product(_) => "product".to_owned(),
                Call::Convolution(of) => format!("convolution {:?}", of.way),
            };
            let of = spent.entry(name).or_default();
            of.0 += 1;
            of.1 += pair[1].since(&pair[0])?;
        }
    }
    let mut spent: Vec<_> = spent.into_iter().collect();
    spent.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    let all: f64 = spent.iter().map(|(_, (_, seconds))| seconds).sum();
    eprintln!("kernels of a step: {:.4} ms", 1e3 * all / STEPS as f64);
    for (name, (count, seconds)) in spent.iter().take(30) {
        let (count, ms) = (count / STEPS, 1e3 * seconds / STEPS as f64);
        eprintln!("  {name}: {count} calls, {ms:.4} ms");
    }
    Ok(())
}
