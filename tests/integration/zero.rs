//! Sharded states (ZeRO): when ranks reduce gradients and gather parameters, with which bytes, and what computing hides.
//!
//! `Rank` is a small program of its own for one rank of a model copy on one GPU, by the rules of DeepSpeed
//! (`runtime/zero/stage_1_and_2.py`, `stage3.py`, `parameter_offload.py`): a communicator does its collectives one after the
//! other; with `overlap`, reductions run while backward goes on and the next parameters are gathered while the present ones are
//! used; without, every collective is waited for. Shards of gradients are complete when backward returns
//! (`independent_gradient_partition_epilogue`), and stages 1 and 2 gather all parameters after the update. With hybrid sharding the
//! shards of a reduced bucket are summed over groups in a communicator of their own, in the last step before an update (`mics.py`;
//! PyTorch's FSDP has a stream for these allreduces); with a secondary partition (hpZ) backward gathers inside the node.

use super::cases::case;
use super::pipeline_schedules::spread;
use super::runs::{Draws, near, run, simulate, step, within, written};
use forebay::report::{ParallelReport, summarise};
use forebay::scenario::{Scenario, ScenarioFile};

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
            compress: draws.log_uniform(1e9, 1e11).round(),
            decompress: draws.log_uniform(1e9, 1e11).round(),
        }
    }

    fn text(&self) -> String {
        let Coding { ratio, compress, decompress } = self;
        format!(
            "{{ ratio = {ratio}, compress = \"{compress} B/s\", decompress = \"{decompress} B/s\" }}"
        )
    }
}

/// Which ranks shard states among themselves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Groups {
    /// All of them.
    All,
    /// Those of each node.
    Node,
    /// So many of them: some GPUs of a node, or all of several nodes.
    Size(u32),
    /// All of them, and those of each node a second copy of the parameters.
    Secondary,
}

/// A job whose ranks shard states, and its links.
#[derive(Debug, Clone)]
struct Sharded {
    groups: Groups,
    /// GPUs of a node, on a switch with these ports [B/s] and this latency [s].
    gpus: u32,
    ports: f64,
    latency_inside: f64,
    stage: u32,
    overlap: bool,
    accumulation: u32,
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
        let size = |draws: &mut Draws| (draws.log_uniform(1e8, 4e9) / unit).round() * unit;
        let gradients = size(draws);
        let nic = draws.log_uniform(1e9, 1e11).round();
        let latency = draws.log_uniform(1e-6, 1e-4);
        let (groups, gpus, nodes) = match draws.below(5) {
            0 => (Groups::All, 1, draws.whole(2, 6)),
            1 => (Groups::Node, draws.whole(2, 4), draws.whole(2, 4)),
            2 => (Groups::Size(2), 4, draws.whole(2, 4)),
            3 => {
                let gpus = draws.whole(2, 3);
                (Groups::Size(2 * gpus), gpus, 4)
            }
            _ => (Groups::Secondary, draws.whole(2, 4), draws.whole(2, 4)),
        };
        // Groups whose sums cross the links on which their ranks gather and reduce do so at the same time with several buckets.
        let buckets = if matches!(groups, Groups::Size(_)) { 1 } else { buckets };
        Sharded {
            groups,
            gpus,
            // The ring over all ranks is as fast as its NICs.
            ports: (nic * draws.log_uniform(1.0, 20.0)).round(),
            latency_inside: latency * draws.uniform(0.0, 1.0),
            stage: if groups == Groups::Secondary { 3 } else { draws.whole(1, 3) },
            overlap: draws.whether(),
            accumulation: if draws.whether() { 1 } else { draws.whole(2, 4) },
            nodes,
            gradients,
            buckets,
            parameters: if draws.whether() { gradients } else { size(draws) },
            compression: draws.whether().then(|| Coding::draw(draws)),
            weights: draws.whether().then(|| Coding::draw(draws)),
            step: draws.log_uniform(0.03, 3.0),
            nic,
            latency,
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
node = {{ gpus = {gpus}, cores = 8, intra = {{ kind = "switch", bandwidth = "{ports} B/s", latency = "{inside} ns" }} }}
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
{compression}[job.parallel]
data.copies_per_node = {gpus}
[job.parallel.zero]
stage = {stage}
{sharding}{weights}"#,
            steps = 1 + 2 * accumulation,
            nic = self.nic,
            gpus = self.gpus,
            ports = self.ports,
            inside = (self.latency_inside * 1e9).round(),
            sharding = match self.groups {
                Groups::All => String::new(),
                Groups::Node => "groups = \"node\"\n".to_owned(),
                Groups::Size(ranks) => format!("groups = {{ size = {ranks} }}\n"),
                Groups::Secondary => "secondary = \"node\"\n".to_owned(),
            },
            latency = (self.latency * 1e9).round(),
            step = (self.step * 1e9).round(),
            parameters = self.parameters,
            bucket = gradients / f64::from(*buckets),
            compression = quantised("compression.quantised", self.compression),
            weights = quantised("quantised_weights", self.weights),
        )
    }

    /// Returns the number of ranks that shard states, or from which a rank gathers parameters, for backward if `back` is true.
    fn ranks(&self, back: bool) -> f64 {
        f64::from(match self.groups {
            Groups::Node => self.gpus,
            Groups::Size(ranks) => ranks,
            Groups::Secondary if back => self.gpus,
            Groups::All | Groups::Secondary => self.gpus * self.nodes,
        })
    }

    /// Returns the time of a reduce-scatter or an allgather of `bytes` bytes around a ring, which is that of its slowest link [s].
    fn ring(&self, bytes: f64, back: bool) -> f64 {
        let n = self.ranks(back);
        let inside = n <= f64::from(self.gpus) && self.gpus > 1;
        let (latency, rate) =
            if inside { (self.latency_inside, self.ports) } else { (self.latency, self.nic) };
        (n - 1.0) * (latency + bytes / n / rate)
    }

    /// Returns the time of the allreduces in which all ranks of a group sum their shards of `bytes` bytes over the groups, with those
    /// ranks of the group that share a NIC at once [s].
    fn across(&self, bytes: f64) -> f64 {
        let ranks = self.ranks(false);
        let groups = f64::from(self.gpus * self.nodes) / ranks;
        let rings = ranks.min(f64::from(self.gpus));
        2.0 * (groups - 1.0) * (self.latency + rings * bytes / ranks / groups / self.nic)
    }
}

/// The clock of a rank in a step [s].
struct Rank<'a> {
    of: &'a Sharded,
    now: f64,
    /// Time from which the communicator of the ranks that shard states is free.
    free: f64,
    /// Time from which the communicator of the ranks that hold the same shards is free.
    across: f64,
    /// Time from which the communicator of the ranks of a secondary partition is free.
    second: f64,
}

impl Rank<'_> {
    /// Returns the mean time of the steps of an update.
    fn step(of: &Sharded) -> f64 {
        let mut rank = Rank { of, now: 0.0, free: 0.0, across: 0.0, second: 0.0 };
        for step in 1..=of.accumulation {
            rank.passes(step == of.accumulation);
        }
        rank.now / f64::from(of.accumulation)
    }

    /// Starts a collective of this duration, of a secondary partition if `second` is true; returns when it ends.
    fn start(&mut self, seconds: f64, second: bool) -> f64 {
        let free = if second { &mut self.second } else { &mut self.free };
        *free = free.max(self.now) + seconds;
        *free
    }

    fn wait(&mut self, until: f64) {
        self.now = self.now.max(until);
    }

    /// Compresses and reduces a bucket of gradients, and in the `last` step before an update sums its shards over groups.
    fn reduce(&mut self, last: bool) {
        let of = self.of;
        let coding = of.compression.unwrap_or(Coding::NONE);
        let bytes = of.gradients / f64::from(of.buckets);
        self.now += bytes / coding.compress;
        let end = self.start(of.ring(bytes * coding.ratio, false), false);
        if last && matches!(of.groups, Groups::Node | Groups::Size(_)) {
            self.across = self.across.max(end) + of.across(bytes * coding.ratio);
        }
    }

    /// Quantises and gathers the parameters of a bucket, for backward if `back` is true; returns when they are there.
    fn gather(&mut self, back: bool) -> f64 {
        let (coding, n) = (self.of.weights.unwrap_or(Coding::NONE), self.of.ranks(back));
        let bytes = self.of.parameters / f64::from(self.of.buckets);
        self.now += bytes / n / coding.compress;
        let second = back && self.of.groups == Groups::Secondary;
        self.start(self.of.ring(bytes * coding.ratio, back), second)
    }

    /// Waits for gathered parameters, and dequantises those of the other ranks.
    fn take(&mut self, arrival: f64, back: bool) {
        self.wait(arrival);
        let (coding, n) = (self.of.weights.unwrap_or(Coding::NONE), self.of.ranks(back));
        let bytes = self.of.parameters / f64::from(self.of.buckets);
        self.now += bytes * coding.ratio * (n - 1.0) / n / coding.decompress;
    }

    /// Forward and backward of a step, and the update if it is the `last` step before one.
    fn passes(&mut self, last: bool) {
        let of = self.of;
        let coding = of.compression.unwrap_or(Coding::NONE);
        let reduces = last || of.stage >= 2;
        for (time, back) in [(of.step / 3.0, false), (of.step * 2.0 / 3.0, true)] {
            let mut coming = None;
            if of.stage == 3 && of.overlap {
                coming = Some(self.gather(back));
            }
            for bucket in 1..=of.buckets {
                if of.stage == 3 {
                    let arrival = coming.take().unwrap_or_else(|| self.gather(back));
                    self.take(arrival, back);
                    if of.overlap && bucket < of.buckets {
                        coming = Some(self.gather(back));
                    }
                }
                self.now += time / f64::from(of.buckets);
                if back && reduces && of.overlap {
                    self.reduce(last);
                }
            }
        }
        if reduces && !of.overlap {
            (0..of.buckets).for_each(|_| self.reduce(last));
        }
        if reduces {
            self.wait(self.free.max(self.across));
            self.now += of.gradients * coding.ratio / of.ranks(false) / coding.decompress;
        }
        if last && of.stage < 3 {
            let mut arrivals = Vec::new();
            for _ in 0..of.buckets {
                let arrival = self.gather(false);
                if of.overlap {
                    arrivals.push(arrival);
                } else {
                    self.take(arrival, false);
                }
            }
            arrivals.into_iter().for_each(|arrival| self.take(arrival, false));
        }
    }
}

#[test]
fn sharded_steps_take_what_a_small_program_of_one_rank_takes() {
    // System: 400 random jobs: ZeRO's stages, overlap or not, accumulation, compressed gradients, quantised parameters, as many
    // bytes of parameters as of gradients or others; states sharded over all nodes of one GPU, inside nodes of several, inside parts
    // of nodes, over two nodes of four, or over all with a secondary partition inside nodes. Expectation: the steps of `Rank`. With
    // overlap, gathers of a secondary partition share links inside nodes with reduce-scatters of all ranks: at least the steps of
    // `Rank`, and at most those without overlap.
    let mut draws = Draws(52);
    let mut exact = 0;
    for number in 0..400 {
        let of = Sharded::draw(&mut draws);
        let (found, expected) = (step(&run(&of.text())), Rank::step(&of));
        let most = if of.overlap && of.groups == Groups::Secondary {
            Rank::step(&Sharded { overlap: false, ..of.clone() })
        } else {
            exact += 1;
            expected
        };
        let around = expected * (1.0 - 1e-4)..most * (1.0 + 1e-4);
        assert!(around.contains(&found), "{number}: {found}, not {expected} to {most}: {of:?}");
    }
    assert!(exact > 300, "{exact}");
}

#[test]
fn without_overlap_computing_hides_no_collective_of_sharded_states() {
    // System: each stage without overlap, gradients of one or four steps in an update. Expectation: computing and all collectives,
    // one after the other: at stage 1 a reduce-scatter R and a gather G in an update; at stage 2 a reduce-scatter in each step; at
    // stage 3 two gathers in each step too, and none after the update.
    for accumulation in [1_u32, 4] {
        for stage in 1..=3 {
            let of = Sharded {
                groups: Groups::All,
                gpus: 1,
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

#[test]
fn compression_of_gradients_leaves_gathers_of_sharded_parameters_alone() {
    // System: 2 GB of parameters on two nodes with NICs of 1 GB/s, gradients compressed to a thousandth, a step of 100 ms.
    // Expectation: a gather takes 1 s, a compressed reduce-scatter 1 ms; stage 3 gathers twice in a step, stages 1 and 2 once.
    let step_of = |stage: &str, more: &[(&str, &str)]| {
        let ratio = ("job.sync.allreduce.compression.quantised.ratio", "0.001");
        let changes = [&[ratio, ("job.parallel.zero.stage", stage)], more].concat();
        step(&simulate(&case("turn3/f5-zero3-compression", &changes)).jobs[0])
    };
    for (stage, gathers) in [("1", 1.0), ("2", 1.0), ("3", 2.0)] {
        near(step_of(stage, &[]), 0.1 + gathers + 1e-3, stage);
        let weights = ("job.parallel.zero.quantised_weights.ratio", "0.25");
        near(step_of(stage, &[weights]), 0.1 + 0.25 * gathers + 1e-3, weights.0);
    }
}

#[test]
fn ranks_decompress_the_sparse_gradients_of_all_other_ranks() {
    // System: n nodes of one GPU, 1 GB of gradients of which a hundredth is sent, decompressed at 100 MB/s. Expectation: each rank
    // receives and decompresses n − 1 times 10 MB, whether a step is simulated as a whole or pass by pass, or its ranks split
    // sequences. Sums of quantised gradients are decompressed once.
    let text = |nodes: u32, kind: &str, rest: &str| {
        let of = Sharded {
            groups: Groups::All,
            gpus: 1,
            ports: 1e9,
            latency_inside: 1e-6,
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
        let zero = "[job.parallel]\ndata.copies_per_node = 1\n[job.parallel.zero]\nstage = 1\n";
        of.text().replace(zero, &compression)
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

/// Links between the GPUs of a node.
const SWITCH: &str = "intra = { kind = \"switch\", bandwidth = \"100 GB/s\", latency = \"5 us\" }, gpu_memory = \"80 GB\"";

/// Returns a job of GPT-2 XL in mixed precision with Adam, on `nodes` nodes.
fn gpt(nodes: u32, parallel: &str) -> String {
    let model = "model = { catalogue = \"gpt2-xl\", step = \"1 s\", precision = \"fp16\", optimizer = \"adam\" }";
    let job = format!(
        "nodes = {nodes}\n{model}\nsync.allreduce = {{ algorithm = \"ring\" }}\n{parallel}"
    );
    spread(SWITCH, &job).replace("batch = 240", "batch = 8")
}

/// Returns what a report says of how the model copies of a job are spread over GPUs.
fn told(scenario: &Scenario) -> ParallelReport {
    let outcome = simulate(scenario);
    summarise(scenario, &[outcome], 0.0).jobs.remove(0).parallel.expect("it is spread")
}

#[test]
fn hybrid_sharding_divides_states_over_the_ranks_of_a_group() {
    // System: GPT-2 XL on two nodes of four ranks. Expectation: 2, 2 and 12 bytes for each parameter, divided by the ranks of a
    // group; a secondary partition holds as many more parameters as its ranks divide (ZeRO++, section 3.2). With tensor parallelism
    // a rank holds half of that, and a node has two ranks with each half.
    let held = |parallel: &str| {
        let scenario = written(&gpt(2, parallel), &[]);
        let held = scenario.jobs[0].footprint().expect("known");
        [held.parameters, held.gradients, held.optimizer].map(|bytes| bytes / 1_557_611_200.0)
    };
    let four = |zero: &str| held(&format!("parallel = {{ data.copies_per_node = 4, {zero} }}"));
    assert_eq!(four("zero.stage = 3"), [0.25, 0.25, 1.5]);
    assert_eq!(four("zero = { stage = 3, groups = \"node\" }"), [0.5, 0.5, 3.0]);
    assert_eq!(four("zero = { stage = 3, groups = { size = 2 } }"), [1.0, 1.0, 6.0]);
    assert_eq!(four("zero = { stage = 1, groups = \"node\" }"), [2.0, 2.0, 3.0]);
    assert_eq!(four("zero = { stage = 3, secondary = \"node\" }"), [0.75, 0.25, 1.5]);
    let tensor = "parallel = { data.copies_per_node = 2, tensor.ranks = 2, zero = { stage = 3, groups = \"node\" } }";
    assert_eq!(held(tensor), [0.5, 0.5, 3.0]);
}

#[test]
fn hybrid_sharding_sends_what_its_groups_gather_and_sum_in_every_split() {
    // System: B bytes of gradients on four nodes, in model copies of t tensor-parallel ranks, c ranks that split sequences and p
    // stages; groups of s ranks out of n shard states; with experts, a half of the parameters belongs to them, and e model copies
    // hold them together. Expectation: of the b = B / t / p bytes on it, a GPU sends (s − 1) / s in each gather and reduce-scatter, and
    // 2 (g − 1) / g of its shard, b / s, in the allreduce over the g = n / s groups; of experts, with an e-th of the bytes, the same among n / e ranks.
    let sent = |text: &str| told(&written(text, &[])).gradient_bytes.expect("known");
    for (parallel, [t, c, p, e], [s, n], halves) in [
        (
            "data.copies_per_node = 4, zero = { stage = 3, groups = \"node\" }",
            [1, 1, 1, 1],
            [4, 16],
            3,
        ),
        (
            "data.copies_per_node = 4, zero = { stage = 2, groups = { size = 8 } }",
            [1, 1, 1, 1],
            [8, 16],
            2,
        ),
        (
            "data.copies_per_node = 4, zero = { stage = 1, groups = { size = 2 } }",
            [1, 1, 1, 1],
            [2, 16],
            2,
        ),
        (
            "data.copies_per_node = 2, tensor = { ranks = 2, allreduces = 2, activations = \"1 kB\" }, \
             zero = { stage = 3, groups = \"node\" }",
            [2, 1, 1, 1],
            [2, 8],
            3,
        ),
        (
            "data.copies_per_node = 2, context = { ranks = 2, attentions = 0, keys_values = \"1 B\" }, \
             zero = { stage = 3, groups = \"node\" }",
            [1, 2, 1, 1],
            [4, 16],
            3,
        ),
        (
            "data.copies_per_node = 2, pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 1 }, \
             zero = { stage = 3, groups = \"node\" }",
            [1, 1, 2, 1],
            [2, 8],
            3,
        ),
        (
            "data.copies_per_node = 4, expert = { ranks = 2, layers = 2, dispatched = \"1 B\", parameters = 0.5, time = 0.5 }, \
             zero = { stage = 3, groups = \"node\" }",
            [1, 1, 1, 2],
            [4, 16],
            3,
        ),
        (
            "data.copies_per_node = 4, expert = { ranks = 8, layers = 2, dispatched = \"1 B\", parameters = 0.5, time = 0.5 }, \
             zero = { stage = 3, groups = \"node\" }",
            [1, 1, 1, 8],
            [4, 16],
            3,
        ),
    ] {
        let gradients = 9.6e9;
        let of = |part: f64, [s, n]: [u32; 2]| {
            let (s, groups) = (f64::from(s), f64::from(n / s));
            let bytes = part * gradients / f64::from(t * p);
            f64::from(halves) * (s - 1.0) / s * bytes + 2.0 * (groups - 1.0) / groups * bytes / s
        };
        let experts = if e > 1 { 0.5 } else { 0.0 };
        let expected =
            of(1.0 - experts, [s, n]) + of(experts / f64::from(e), [(s / e).max(1), n / e]);
        let text = spread(
            SWITCH,
            &format!(
                "nodes = 4\nmodel.step = \"1 s\"\n\
                 sync.allreduce = {{ gradients = \"9.6 GB\", algorithm = \"ring\" }}\nparallel = {{ {parallel} }}"
            ),
        );
        let found = sent(&text);
        near(found, expected, &format!("{parallel}, context {c}"));
        let analytic = text.replace("\"ring\"", "\"ring\", fidelity = \"analytic\"");
        let [flow, analytic] = [&text, &analytic].map(|text| step(&run(text)));
        // Stages, and experts and other parts, use the same links at once, which times on an idle network leave out.
        let most = if p > 1 || e > 1 { f64::INFINITY } else { 1.02 };
        assert!((0.98..most).contains(&(flow / analytic)), "{parallel}: {flow}, {analytic}");
    }
}

#[test]
fn groups_wait_for_each_other_only_where_they_sum_their_shards() {
    // System: two nodes of two ranks, gradients of eight steps in an update; GPUs take 2 s in place of 1 s for a step, on the first
    // node until 4 s, and on the second from then on. Expectation: sharded over all, ranks gather and reduce-scatter together, so
    // that each step takes 2 s; sharded inside nodes they wait once, for the second node, which has done four steps after 4 s.
    let slow = "fault = [
        { node = \"gpus\", nodes = [0], factor = 0.5, until = \"4 s\" },
        { node = \"gpus\", nodes = [1], factor = 0.5, from = \"4 s\" },
    ]\n";
    for (groups, expected) in [("all", 16.0), ("node", 12.0)] {
        let groups = if groups == "all" { "" } else { ", groups = \"node\"" };
        let job = format!(
            "nodes = 2\naccumulation = 8\nmodel.step = \"1 s\"\n\
             sync.allreduce = {{ gradients = \"1 MB\", algorithm = \"ring\" }}\n\
             parallel = {{ data.copies_per_node = 2, zero = {{ stage = 3{groups} }} }}"
        );
        let text = slow.to_owned() + &spread(SWITCH, &job).replace("steps = 4", "steps = 8");
        let job = run(&text);
        within(job.steps[7].end, expected, 3e-3, groups);
    }
}

#[test]
fn hybrid_sharding_is_faster_where_nics_are_slow() {
    // System: 3.64 GB of gradients and of parameters on four nodes of four GPUs with ports of 300 GB/s and NICs of 100 Gbit/s, four
    // steps of 2.1 s in an update. Reported: 55.3 samples/s with full sharding, 74.4 with hybrid sharding, 1.35 times as many.
    // Expectation: 65.8 and 85.8, 1.31 times as many. One allreduce of shards over NICs in an update, in place of 8 gathers and 4
    // reduce-scatters; a secondary partition leaves out the 4 gathers of backward. None is hidden, since there is one bucket.
    let bytes = 3.64e9;
    let of = |zero: &str| {
        let changes = [("run.steps", "9"), ("run.warm_up", "off"), ("job.parallel.zero", zero)];
        let outcome = simulate(&case("turn3/oumi-213", &changes));
        let nics = outcome.resources.iter().find(|of| of.name == "node.nic.out").expect("NICs");
        (step(&outcome.jobs[0]), nics.served)
    };
    // A gather or a reduce-scatter over all ranks or inside nodes, and the allreduces of the shards of four GPUs over four nodes.
    let (all, inside) = (15.0 / 16.0 * bytes / 12.5e9, 3.0 / 4.0 * bytes / 300e9);
    let across = 2.0 * 3.0 / 4.0 * bytes / 12.5e9;
    for (zero, exchanges, of_nics) in [
        ("{ stage = 3 }", 3.0 * all, 9.0 * 3.0 * 15.0 / 16.0),
        ("{ stage = 3, secondary = \"node\" }", 2.0 * all + inside, 9.0 * 2.0 * 15.0 / 16.0),
        ("{ stage = 3, groups = \"node\" }", 3.0 * inside + across / 4.0, 2.0 * 2.0 * 3.0 / 4.0),
    ] {
        let (took, sent) = of(zero);
        within(took, 2.1 + exchanges, 1e-3, zero);
        within(sent, 4.0 * of_nics * bytes, 1e-3, zero);
    }
}

#[test]
fn each_group_holds_a_whole_checkpoint_and_the_first_writes_it() {
    // System: two nodes of four ranks. Expectation: with states sharded over all ranks each node writes and reads a half, and each rank
    // its own file; inside nodes the first node writes all, or each a half, and each node reads all: the files of the first, or its own.
    let of = |zero: &str, writers: &str| {
        let checkpoint = format!(
            "checkpoint = {{ steps = 2, storage = \"memory\", bytes = \"8 GB\", writers = \"{writers}\" }}"
        );
        let parallel = format!("parallel = {{ data.copies_per_node = 4, zero = {zero} }}");
        let scenario = written(&gpt(2, &format!("{parallel}\n{checkpoint}")), &[]);
        let job = &scenario.jobs[0];
        let checkpoint = job.checkpoint.as_ref().expect("written");
        let parts = [job.parts_written(checkpoint), job.parts_read(checkpoint, false)];
        let gigabytes = parts.each_ref().map(|parts| {
            [0, 1].map(|node| {
                let own = parts.iter().filter(|part| part.node == node);
                own.map(|part| part.bytes / 1e9).sum::<f64>().round()
            })
        });
        (gigabytes, parts[1].iter().map(|part| part.file).collect::<Vec<usize>>())
    };
    let own: Vec<usize> = (0..8).collect();
    assert_eq!(of("{ stage = 3 }", "first"), ([[4.0, 4.0], [4.0, 4.0]], own.clone()));
    let inside = "{ stage = 3, groups = \"node\" }";
    let of_first = vec![0, 1, 2, 3, 0, 1, 2, 3];
    assert_eq!(of(inside, "first"), ([[8.0, 0.0], [8.0, 8.0]], of_first));
    assert_eq!(of(inside, "each"), ([[4.0, 4.0], [8.0, 8.0]], own));
}

#[test]
fn impossible_groups_of_sharding_ranks_are_refused_with_a_remedy() {
    let four = "data.copies_per_node = 4";
    for (parallel, what) in [
        ("zero = { stage = 3, groups = \"node\" }".to_owned(), "write `{ size = … }` with the ranks of several nodes"),
        (format!("{four}, zero = {{ stage = 3, groups = {{ size = 3 }} }}"), "8 ranks cannot be divided into groups of 3"),
        (format!("{four}, zero = {{ stage = 2, secondary = \"node\" }}"), "write `stage = 3`, or leave out `secondary`"),
        (
            format!("{four}, zero = {{ stage = 3, groups = \"node\", secondary = {{ size = 8 }} }}"),
            "4 ranks cannot be divided into groups of 8",
        ),
        (
            "data = { copies_per_node = [4, 2], loaders = \"per-rank\" }, zero = { stage = 3, groups = \"node\" }".to_owned(),
            "groups of different sizes",
        ),
        (
            "data = { copies_per_node = [4, 2], loaders = \"per-rank\" }, zero = { stage = 3, groups = { size = 3 } }".to_owned(),
            "on different numbers of nodes",
        ),
        (
            "data.copies_per_node = 2, context.ranks = 2, zero = { stage = 3, groups = { size = 3 } }".to_owned(),
            "a multiple of `context.ranks`",
        ),
        (
            format!("{four}, zero = {{ stage = 3, quantised_weights.ratio = 0 }}"),
            "the ratio is out of range",
        ),
    ] {
        let text = gpt(2, &format!("parallel = {{ {parallel} }}"));
        let found = ScenarioFile::parse("test.toml", text).and_then(|file| file.resolve(&[]));
        let found = found.expect_err(&parallel).to_string();
        assert!(found.contains(what), "{parallel}: {found}");
    }
    for (zero, what) in [
        ("groups = { size = 8 }", "`job.j.parallel.zero.groups` has no effect"),
        ("secondary = { size = 8 }", "`job.j.parallel.zero.secondary` has no effect"),
    ] {
        let text = gpt(2, &format!("parallel = {{ {four}, zero = {{ stage = 3, {zero} }} }}"));
        let remarks = written(&text, &[]).remarks.join("\n");
        assert!(remarks.contains(what), "{zero}: {remarks}");
    }
}
