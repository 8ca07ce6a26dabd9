//! Sharded states (ZeRO): when ranks reduce gradients and gather parameters, with which bytes, and what computing hides.
//!
//! `Rank` is a small program of its own for one rank of a model copy on one GPU, by the rules of DeepSpeed
//! (`runtime/zero/stage_1_and_2.py`, `stage3.py`, `parameter_offload.py`): a communicator does its collectives one after the
//! other; with `overlap`, reductions run while backward goes on and the next parameters are gathered while the present ones are
//! used; without, every collective is waited for. Shards of gradients are complete when backward returns
//! (`independent_gradient_partition_epilogue`), and stages 1 and 2 gather all parameters after the update.

use super::runs::{near, repository, run, step};
use forebay::scenario::{Override, ScenarioFile};

/// Draws numbers, the same ones in each run (L'Ecuyer 1999, a 64-bit congruential generator).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(3_935_559_000_370_003_845).wrapping_add(2_691_343_689_449_507_681);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.next())
    }

    fn whole(&mut self, low: u32, high: u32) -> u32 {
        low + (self.next() * f64::from(high - low + 1)) as u32
    }

    fn whether(&mut self) -> bool {
        self.next() < 0.5
    }
}

/// Bytes that are sent ÷ bytes before, and the rates at which a GPU compresses and decompresses [B/s].
#[derive(Debug, Clone, Copy)]
struct Coding {
    ratio: f64,
    compress: f64,
    decompress: f64,
}

impl Coding {
    const NONE: Coding = Coding { ratio: 1.0, compress: f64::INFINITY, decompress: f64::INFINITY };

    fn draw(draws: &mut Draws) -> Coding {
        Coding {
            ratio: f64::from(draws.whole(1, 100)) / 100.0,
            compress: draws.between(1e9, 1e11).round(),
            decompress: draws.between(1e9, 1e11).round(),
        }
    }

    fn text(&self) -> String {
        let Coding { ratio, compress, decompress } = self;
        format!(
            "{{ ratio = {ratio}, compress = \"{compress} B/s\", decompress = \"{decompress} B/s\" }}"
        )
    }
}

/// A job whose ranks shard states, and its links.
#[derive(Debug, Clone)]
struct Sharded {
    stage: u32,
    overlap: bool,
    accumulation: u32,
    /// Nodes of one GPU each.
    nodes: u32,
    /// Gradients, in equal buckets, and parameters [B].
    gradients: f64,
    buckets: u32,
    parameters: f64,
    compression: Option<Coding>,
    weights: Option<Coding>,
    /// Time of forward and backward [s].
    step: f64,
    nic: f64,
    latency: f64,
}

impl Sharded {
    fn draw(draws: &mut Draws) -> Sharded {
        let buckets = draws.whole(1, 5);
        // Whole bytes in each bucket, and in each rank's part of it.
        let unit = f64::from(buckets * 60 * 4);
        let size = |draws: &mut Draws| (draws.between(1e8, 4e9) / unit).round() * unit;
        let gradients = size(draws);
        Sharded {
            stage: draws.whole(1, 3),
            overlap: draws.whether(),
            accumulation: if draws.whether() { 1 } else { draws.whole(2, 4) },
            nodes: draws.whole(2, 6),
            gradients,
            buckets,
            parameters: if draws.whether() { gradients } else { size(draws) },
            compression: draws.whether().then(|| Coding::draw(draws)),
            weights: draws.whether().then(|| Coding::draw(draws)),
            step: draws.between(0.03, 3.0),
            nic: draws.between(1e9, 1e11).round(),
            latency: draws.between(1e-6, 1e-4),
        }
    }

    fn text(&self) -> String {
        let Sharded { stage, overlap, accumulation, nodes, gradients, buckets, .. } = self;
        let quantised = |key: &str, of: Option<Coding>| {
            of.map_or(String::new(), |of| format!("{key} = {}\n", of.text()))
        };
        format!(
            r#"
name = "sharded"
[run]
steps = {steps}
warm_up = "off"
[cluster]
nodes = {nodes}
network = {{ nic = "{nic} B/s", latency = "{latency} ns" }}
node = {{ gpus = 1, cores = 8 }}
[storage.ram.memory]
[dataset.d]
samples = 100000
sample_size = "1 kB"
[[job]]
name = "j"
nodes = {nodes}
dataset = "d"
storage = "ram"
batch = 1
accumulation = {accumulation}
loader.in-memory = {{}}
model = {{ step = "{step} ns", memory = {{ parameters = "{parameters} B", activations = "1 MB" }} }}
[job.sync.allreduce]
gradients = "{gradients} B"
tensors = {buckets}
buckets = "{bucket} B"
overlap = {overlap}
algorithm = "ring"
fidelity = "flow"
{compression}[job.parallel.zero]
stage = {stage}
{weights}"#,
            steps = 1 + 2 * accumulation,
            nic = self.nic,
            latency = (self.latency * 1e9).round(),
            step = (self.step * 1e9).round(),
            parameters = self.parameters,
            bucket = gradients / f64::from(*buckets),
            compression = quantised("compression.quantised", self.compression),
            weights = quantised("quantised_weights", self.weights),
        )
    }

    /// Returns the time of a reduce-scatter or an allgather of `bytes` bytes around a ring [s].
    fn ring(&self, bytes: f64) -> f64 {
        let n = f64::from(self.nodes);
        (n - 1.0) * (self.latency + bytes / n / self.nic)
    }
}

/// A rank in a step: the present time, and the time from which the communicator is free [s].
struct Rank<'a> {
    of: &'a Sharded,
    now: f64,
    free: f64,
}

impl Rank<'_> {
    /// Returns the mean time of the steps of an update.
    fn step(of: &Sharded) -> f64 {
        let mut rank = Rank { of, now: 0.0, free: 0.0 };
        for step in 1..=of.accumulation {
            rank.passes(step == of.accumulation);
        }
        rank.now / f64::from(of.accumulation)
    }

    /// Starts a collective of this duration; returns when it ends.
    fn start(&mut self, seconds: f64) -> f64 {
        self.free = self.free.max(self.now) + seconds;
        self.free
    }

    fn wait(&mut self, until: f64) {
        self.now = self.now.max(until);
    }

    /// Quantises and gathers the parameters of a bucket; returns when they are there.
    fn gather(&mut self) -> f64 {
        let (coding, n) = (self.of.weights.unwrap_or(Coding::NONE), f64::from(self.of.nodes));
        let bytes = self.of.parameters / f64::from(self.of.buckets);
        self.now += bytes / n / coding.compress;
        self.start(self.of.ring(bytes * coding.ratio))
    }

    /// Waits for gathered parameters, and dequantises those of the other ranks.
    fn take(&mut self, arrival: f64) {
        self.wait(arrival);
        let (coding, n) = (self.of.weights.unwrap_or(Coding::NONE), f64::from(self.of.nodes));
        let bytes = self.of.parameters / f64::from(self.of.buckets);
        self.now += bytes * coding.ratio * (n - 1.0) / n / coding.decompress;
    }

    /// Forward and backward of a step, and the update if it is the `last` step before one.
    fn passes(&mut self, last: bool) {
        let of = self.of;
        let coding = of.compression.unwrap_or(Coding::NONE);
        let bytes = of.gradients / f64::from(of.buckets);
        let reduces = last || of.stage >= 2;
        for (time, back) in [(of.step / 3.0, false), (of.step * 2.0 / 3.0, true)] {
            let mut coming = None;
            if of.stage == 3 && of.overlap {
                coming = Some(self.gather());
            }
            for bucket in 1..=of.buckets {
                if of.stage == 3 {
                    let arrival = coming.take().unwrap_or_else(|| self.gather());
                    self.take(arrival);
                    if of.overlap && bucket < of.buckets {
                        coming = Some(self.gather());
                    }
                }
                self.now += time / f64::from(of.buckets);
                if back && reduces && of.overlap {
                    self.now += bytes / coding.compress;
                    self.start(of.ring(bytes * coding.ratio));
                }
            }
        }
        if reduces && !of.overlap {
            for _ in 0..of.buckets {
                self.now += bytes / coding.compress;
                self.start(of.ring(bytes * coding.ratio));
            }
        }
        if reduces {
            self.wait(self.free);
            self.now += of.gradients * coding.ratio / f64::from(of.nodes) / coding.decompress;
        }
        if last && of.stage < 3 {
            let mut arrivals = Vec::new();
            for _ in 0..of.buckets {
                let arrival = self.gather();
                if of.overlap {
                    arrivals.push(arrival);
                } else {
                    self.take(arrival);
                }
            }
            arrivals.into_iter().for_each(|arrival| self.take(arrival));
        }
    }
}

#[test]
fn sharded_steps_take_what_a_small_program_of_one_rank_takes() {
    // System: 300 random jobs: ZeRO's stages, overlap or not, accumulation, compressed gradients, quantised parameters, as many
    // bytes of parameters as of gradients or others, on nodes of one GPU. Expectation: the steps of `Rank`.
    let mut draws = Draws(52);
    for number in 0..300 {
        let of = Sharded::draw(&mut draws);
        let (found, expected) = (step(&run(&of.text())), Rank::step(&of));
        assert!((found / expected - 1.0).abs() < 1e-4, "{number}: {found}, not {expected}: {of:?}");
    }
}

#[test]
fn without_overlap_computing_hides_no_collective_of_sharded_states() {
    // System: each stage without overlap, gradients of one or four steps in an update. Expectation: computing and all collectives,
    // one after the other: at stage 1 a reduce-scatter R and a gather G in an update; at stage 2 a reduce-scatter in each step; at
    // stage 3 two gathers in each step too, and none after the update.
    for accumulation in [1_u32, 4] {
        for stage in 1..=3 {
            let of = Sharded {
                stage,
                overlap: false,
                accumulation,
                compression: None,
                weights: None,
                ..Sharded::draw(&mut Draws(u64::from(stage)))
            };
            let n = f64::from(of.nodes);
            let ring = |bytes: f64| {
                f64::from(of.buckets) * (n - 1.0) * of.latency + (n - 1.0) / n * bytes / of.nic
            };
            let (reduce, gather) = (ring(of.gradients), ring(of.parameters));
            let updates = 1.0 / f64::from(accumulation);
            let expected = of.step
                + match stage {
                    1 => updates * (reduce + gather),
                    2 => reduce + updates * gather,
                    _ => reduce + 2.0 * gather,
                };
            let found = step(&run(&of.text()));
            assert!((found / expected - 1.0).abs() < 1e-4, "{found}, not {expected}: {of:?}");
        }
    }
}

/// Returns the step time of a case with some keys changed, as by `--set` [s].
fn case(name: &str, changes: &[&str]) -> f64 {
    let file = ScenarioFile::open(&repository(&format!("tests/data/cases/turn3/{name}.toml")))
        .unwrap_or_else(|problems| panic!("{problems}"));
    let changes: Vec<Override> =
        changes.iter().map(|change| change.parse().expect("an override")).collect();
    let scenario = file.resolve(&changes).unwrap_or_else(|problems| panic!("{problems}"));
    let job = super::runs::simulate(&scenario).jobs.remove(0);
    step(&job)
}

#[test]
fn compression_of_gradients_leaves_gathers_of_sharded_parameters_alone() {
    // System: 2 GB of parameters on two nodes with NICs of 1 GB/s, gradients compressed to a thousandth, a step of 100 ms.
    // Expectation: a gather takes 1 s, a compressed reduce-scatter 1 ms; stage 3 gathers twice in a step, stages 1 and 2 once.
    let ratio = "job.sync.allreduce.compression.quantised.ratio=0.001";
    for (stage, gathers) in [(1, 1.0), (2, 1.0), (3, 2.0)] {
        let stage = format!("job.parallel.zero.stage={stage}");
        near(case("f5-zero3-compression", &[ratio, &stage]), 0.1 + gathers + 1e-3, &stage);
        let weights = "job.parallel.zero.quantised_weights.ratio=0.25";
        let quantised = 0.1 + 0.25 * gathers + 1e-3;
        near(case("f5-zero3-compression", &[ratio, &stage, weights]), quantised, weights);
    }
}

#[test]
fn ranks_decompress_the_sparse_gradients_of_all_other_ranks() {
    // System: n nodes of one GPU, 1 GB of gradients of which a hundredth is sent, decompressed at 100 MB/s. Expectation: each rank
    // receives and decompresses n − 1 times 10 MB, whether a step is simulated as a whole or pass by pass, or its ranks split
    // sequences. Sums of quantised gradients are decompressed once.
    let text = |nodes: u32, kind: &str, rest: &str| {
        let of = Sharded {
            stage: 1,
            overlap: true,
            accumulation: 1,
            nodes,
            gradients: 1e9,
            buckets: 1,
            parameters: 1e9,
            compression: None,
            weights: None,
            step: 0.1,
            nic: 1e9,
            latency: 1e-6,
        };
        let compression = format!(
            "compression.{kind} = {{ ratio = 0.01, decompress = \"100 MB/s\" }}\n[job.parallel]\n{rest}"
        );
        of.text().replace("[job.parallel.zero]\nstage = 1\n", &compression)
    };
    let passes = "pipeline = { stages = 1, schedule = \"1f1b\", micro_batches = 1 }";
    for nodes in 2..=5 {
        let n = f64::from(nodes);
        let gathered = (n - 1.0) * (1e-6 + 1e7 / 1e9);
        for rest in ["", passes] {
            let found = step(&run(&text(nodes, "sparse", rest)));
            near(found, 0.1 + gathered + (n - 1.0) * 0.1, &format!("{nodes} nodes, {rest}"));
            let found = step(&run(&text(nodes, "quantised", rest)));
            let reduced = 2.0 * (n - 1.0) * (1e-6 + 1e7 / n / 1e9);
            near(found, 0.1 + reduced + 0.1, &format!("{nodes} nodes, quantised, {rest}"));
        }
    }
    // Two ranks of a model copy on each node split sequences: four ranks have gradients of the same parameters.
    let context = "context = { ranks = 2, attentions = 0, keys_values = \"1 B\" }";
    let found = step(&run(&text(2, "sparse", context).replace("gpus = 1", "gpus = 2, nics = 1")));
    let expected = 0.05 + 3.0 * (1e-6 + 1e7 / 1e9) + 3.0 * 0.1;
    near(found, expected, "split sequences");
}
