//! Pipelines with drawn stages, schedules and links take the time that an independent list scheduler gives.

use super::list_schedule::{
    Link, Orders, gpipe_orders, interleaved_orders, list_schedule, one_by_one_orders,
    v_shaped_orders, zero_bubble_orders,
};
use super::pipeline_schedules::waits;
use super::runs::{simulate, step, written};
use forebay::report::Cause;
use forebay::scenario::Scenario;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

/// Number of pipelines that are drawn.
const DRAWS: usize = 240;

/// A pipeline whose batch takes a second on one GPU.
struct Drawn {
    schedule: &'static str,
    shares: Vec<f64>,
    chunks: usize,
    micro: usize,
    /// Share of forward passes in the time, and of weight gradients in the rest.
    forward: f64,
    weights: f64,
    link: Link,
}

impl Drawn {
    fn new(generator: &mut Xoshiro256PlusPlus) -> Drawn {
        let all = ["gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-v"];
        let schedule = all[generator.random_range(0..all.len())];
        let (interleaved, v_shaped) = (schedule == "interleaved-1f1b", schedule == "zb-v");
        // In a ring of three GPUs or more, the two directions of each border have links of their own.
        let stages = generator.random_range(if interleaved { 3 } else { 1 }..=6);
        let parts: Vec<f64> = (0..stages).map(|_| generator.random_range(0.5..1.5)).collect();
        let all: f64 = parts.iter().sum();
        let micro: usize = generator.random_range(1..=12);
        let shares: Vec<f64> = parts.into_iter().map(|part| part / all).collect();
        let (forward, weights): (f64, f64) =
            (generator.random_range(0.1..0.9), generator.random_range(0.05..0.95));
        // In a V, activations and gradients cross each border in both directions and would share a link, if a stage sent the next
        // one sooner than the one before had left.
        let bytes = if v_shaped {
            let least = shares.iter().copied().fold(1.0, f64::min);
            let pass = forward.min((1.0 - forward) * (1.0 - weights)) * least / (2 * micro) as f64;
            generator.random_range(0.0..0.95) * pass
        } else {
            generator.random_range(0.0..0.03)
        };
        Drawn {
            schedule,
            shares,
            chunks: match schedule {
                "interleaved-1f1b" => generator.random_range(2..=4),
                "zb-v" => 2,
                _ => 1,
            },
            micro: if interleaved { micro.div_ceil(3) * stages } else { micro },
            forward,
            weights,
            link: Link { bytes, latency: generator.random_range(0.0..0.03) },
        }
    }

    /// Returns a pipeline of equal stages with gradients of weights in a pass of their own, between which nothing is sent.
    fn equal(generator: &mut Xoshiro256PlusPlus) -> Drawn {
        let stages = generator.random_range(1..=7);
        Drawn {
            schedule: ["zb-h1", "zb-v"][generator.random_range(0..2)],
            shares: vec![1.0 / stages as f64; stages],
            chunks: 1,
            micro: generator.random_range(1..=20),
            forward: generator.random_range(0.05..0.9),
            weights: generator.random_range(0.02..0.98),
            link: Link::default(),
        }
    }

    /// Returns the scenario that the simulator runs.
    fn scenario(&self) -> Scenario {
        let Drawn { schedule, shares, chunks, micro, weights, link, .. } = self;
        let more = match *schedule {
            "interleaved-1f1b" => format!(", chunks = {chunks}"),
            "zb-h1" | "zb-v" => format!(", weight_gradients = {weights}"),
            _ => String::new(),
        };
        let (gpus, latency) = (shares.len(), link.latency);
        // Each micro-batch sends 1 MB over each border.
        let (activations, bandwidth) = (micro, 1e6 / link.bytes.max(1e-9));
        let text = format!(
            r#"
name = "drawn"
run = {{ steps = 3, warm_up = "off", replications = 1 }}
storage.ram.memory = {{}}
dataset.d = {{ samples = 10000000, sample_size = "1 B" }}
cluster = {{ nodes = 1, node = {{ cores = 4, gpus = {gpus}, intra = {{ kind = "ring", bandwidth = "{bandwidth} B/s", latency = "{latency} s" }} }} }}
[[job]]
name = "j"
dataset = "d"
storage = "ram"
batch = {micro}
loader.in-memory = {{}}
model.step = "1 s"
parallel.pipeline = {{ shares = {shares:?}, schedule = "{schedule}", micro_batches = {micro}, activations = "{activations} MB"{more} }}
"#
        );
        let mut scenario = written(&text, &[]);
        let parallelism = scenario.jobs[0].parallelism.as_mut().expect("a schedule");
        parallelism.forward = self.forward;
        if link.latency == 0.0 {
            parallelism.activations = 0.0;
        }
        scenario
    }

    /// Returns the step time of the list scheduler [s].
    fn listed(&self) -> f64 {
        let (stages, micro) = (self.shares.len(), self.micro);
        let orders: Orders = match self.schedule {
            "gpipe" => gpipe_orders(stages, micro),
            "1f1b" => one_by_one_orders(stages, micro),
            "interleaved-1f1b" => interleaved_orders(stages, self.chunks, micro),
            "zb-v" => v_shaped_orders(stages, micro),
            _ => zero_bubble_orders(stages, micro),
        };
        let v_shaped = self.schedule == "zb-v";
        let apart = v_shaped || self.schedule == "zb-h1";
        let chunks = if v_shaped { 2 } else { self.chunks };
        let long = |pass, place: usize| {
            let backward = 1.0 - self.forward;
            let part = match (pass, apart) {
                ('F', _) => self.forward,
                ('B', false) => backward,
                ('B', true) => backward * (1.0 - self.weights),
                _ => backward * self.weights,
            };
            let stage = match place {
                place if v_shaped && place >= stages => 2 * stages - 1 - place,
                place => place % stages,
            };
            part * self.shares[stage] / (chunks * micro) as f64
        };
        let place = |stage, chunk| match chunk {
            1 if v_shaped => 2 * stages - 1 - stage,
            _ => chunk * stages + stage,
        };
        list_schedule(&orders, place, long, self.link)
    }
}

#[test]
fn drawn_pipelines_on_idle_links_take_the_time_of_a_list_schedule() {
    // System: pipelines of up to six unequal stages under each schedule, with bytes and latencies between stages on links that
    // nothing else uses. Expectation: each pass begins when its stage is free and its input has arrived.
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(52);
    for number in 0..DRAWS {
        let drawn = Drawn::new(&mut generator);
        let found = step(&simulate(&drawn.scenario()).jobs[0]);
        let expected = drawn.listed();
        let Drawn { schedule, shares, micro, .. } = &drawn;
        assert!(
            (found / expected - 1.0).abs() < 1e-3,
            "{number}: {schedule} {shares:?} {micro}: {found}, not {expected}"
        );
    }
}

#[test]
fn bubbles_with_drawn_shares_of_weight_gradients_follow_the_formula_of_the_guide() {
    // System: up to seven equal stages, any share of forward passes and of gradients of weights, and no other delays.
    // Expectation: the share of bubbles in the report, that in a run, and that of a list schedule agree. With as many
    // micro-batches as stages, those of ZB-H1 are (p − 1) (TF + TB − min(TF, TB, TW)), which is (p − 1) (TF + max(TB − TW, 0))
    // unless forward is the shortest pass; those of ZB-V with equal passes are a sixth of those of 1F1B.
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(53);
    let near = |found: f64, expected: f64| (found - expected).abs() < 1e-3 * expected.max(1e-6);
    for number in 0..DRAWS {
        let mut drawn = Drawn::equal(&mut generator);
        if number % 8 == 0 {
            (drawn.forward, drawn.weights) = (1.0 / 3.0, 0.5);
        }
        let Drawn { schedule, micro, forward, weights, .. } = drawn;
        let what = format!(
            "{number}: {schedule}, {} stages, {micro}, {forward} {weights}",
            drawn.shares.len()
        );
        let scenario = drawn.scenario();
        let told = scenario.jobs[0].parallelism.as_ref().expect("a schedule").bubble();
        let waited = waits(&simulate(&scenario).jobs[0], Cause::Bubble);
        let (p, m) = (drawn.shares.len() as f64, micro as f64);
        let listed = 1.0 - 1.0 / (drawn.listed() * p);
        assert!(near(waited, listed) && near(told, listed), "{what}: {told}, {waited}, {listed}");
        let (inputs, weights) = ((1.0 - forward) * (1.0 - weights), (1.0 - forward) * weights);
        let equal = number % 8 == 0;
        let idle = match schedule {
            "zb-h1" if m >= p => forward + inputs - forward.min(inputs).min(weights),
            "zb-v" if m >= 2.0 * p - 1.0 && equal => 1.0 / 6.0,
            _ => continue,
        };
        let idle = (p - 1.0) * idle;
        assert!(near(told, idle / (m + idle)), "{what}: {told}");
    }
}
