//! The yardstick agrees with the same model written for two other simulators.
//!
//! The other simulators' results were recorded in `benches/peers` with `python3 sizes.py lognormal
//! lognormal.f64`, `python3 sizes.py constant constant.f64` and
//!
//! - `pypy3 fletcher_simpy.py sizes=lognormal.f64 jobs=16 steps=200 threads=8 server=2e9` and so on
//!   (PyPy 7.3.11, SimPy 4.1.2; CPython prints the same digits),
//! - `fletcher_simgrid sizes=lognormal.f64 jobs=16 steps=200 threads=8 server=2e9
//!   --cfg=network/model:CM02 --cfg=network/TCP-gamma:0 --cfg=network/optim:Full` and so on
//!   (SimGrid 3.32; it truncates sizes to whole bytes, a relative error of 2e-6).

use std::sync::Arc;

use forebay::report::Outcome;
use forebay::scenario::{SampleSizes, Scenario};

use super::python_random::PythonRandom;
use super::runs::{shipped, simulate};

/// A variant of the yardstick, with the results of another simulator.
#[derive(Clone, Copy)]
struct Case {
    jobs: u32,
    steps: u32,
    threads: u32,
    /// Bandwidth of the server [B/s].
    server: f64,
    makespan: f64,
    mean_step: f64,
}

const fn case(
    (jobs, steps): (u32, u32),
    threads: u32,
    server: f64,
    makespan: f64,
    mean_step: f64,
) -> Case {
    Case { jobs, steps, threads, server, makespan, mean_step }
}

/// Results of SimPy with constant sizes.
const CONSTANT: [Case; 12] = [
    case((16, 200), 8, 2e9, 120.177_182_4, 0.600_885_912),
    case((16, 200), 8, 1000e9, 23.540_418_24, 0.117_702_091_2),
    case((16, 200), 8, 16e9, 26.224_772_8, 0.131_123_864),
    case((16, 200), 16, 2e9, 107.381_182_4, 0.536_905_912),
    case((16, 200), 16, 1000e9, 12.806_355_44, 0.064_031_777_22),
    case((16, 200), 16, 16e9, 13.428_772_8, 0.067_143_864),
    case((64, 50), 8, 2e9, 110.577_182_4, 2.211_543_648),
    case((64, 50), 8, 1000e9, 5.887_354_56, 0.117_747_091_2),
    case((64, 50), 8, 64e9, 6.558_443_2, 0.131_168_864),
    case((64, 50), 16, 2e9, 107.381_182_4, 2.147_623_648),
    case((64, 50), 16, 1000e9, 3.206_355_443, 0.064_127_108_86),
    case((64, 50), 16, 64e9, 3.362_443_2, 0.067_248_864),
];

/// Results of SimPy with lognormal sizes, in cases where rounding does not change the order of events.
const STEADY: [Case; 6] = [
    case((16, 200), 8, 2e9, 107.436_420_4, 0.536_932_282),
    case((16, 200), 16, 2e9, 107.435_768_8, 0.536_959_777_7),
    case((16, 200), 16, 1000e9, 12.830_991_25, 0.064_148_758_75),
    case((64, 100), 8, 2e9, 214.949_187, 2.148_290_235),
    case((64, 100), 16, 2e9, 214.949_021_4, 2.148_665_721),
    case((64, 100), 16, 1000e9, 6.420_045_396, 0.064_177_778_67),
];

/// Results of SimGrid for the cases of `STEADY`.
const STEADY_SIMGRID: [Case; 4] = [
    case((16, 200), 8, 2e9, 107.436_226_6, 0.536_931_237_6),
    case((16, 200), 16, 2e9, 107.435_563_9, 0.536_958_753_3),
    case((16, 200), 16, 1000e9, 12.830_945_22, 0.064_149_270_3),
    case((64, 100), 8, 2e9, 214.948_777_1, 2.148_286_132),
];

/// Results of SimPy with lognormal sizes, where both server and NICs are bottlenecks: the makespan, which is
/// that of one job, is chaotic.
const BOTH_BIND: [Case; 2] = [
    case((16, 200), 16, 16e9, 13.442_859_36, 0.067_172_089_58),
    case((64, 100), 16, 64e9, 6.729_691_777, 0.067_225_779_97),
];

/// Results of SimGrid for the cases of `BOTH_BIND`.
const BOTH_BIND_SIMGRID: [Case; 1] = [case((16, 200), 16, 16e9, 13.442_545_74, 0.067_172_080_26)];

/// Results of SimPy with lognormal sizes, for one step of a batch of 32, before rounding errors can grow.
const SHORT: [Case; 12] = [
    case((16, 1), 8, 2e9, 0.072_714_859_42, 0.070_785_580_67),
    case((16, 1), 8, 1000e9, 0.015_677_948_7, 0.014_732_630_61),
    case((16, 1), 8, 16e9, 0.015_912_870_48, 0.014_946_828_74),
    case((16, 1), 16, 2e9, 0.072_692_303_19, 0.071_390_968_77),
    case((16, 1), 16, 1000e9, 0.014_303_972_41, 0.013_374_706_17),
    case((16, 1), 16, 16e9, 0.014_962_394_33, 0.014_104_094_32),
    case((64, 1), 8, 2e9, 0.276_688_021, 0.270_185_217_1),
    case((64, 1), 8, 1000e9, 0.015_787_031_43, 0.014_771_722_13),
    case((64, 1), 8, 64e9, 0.016_096_137_66, 0.015_003_049_9),
    case((64, 1), 16, 2e9, 0.276_765_105_9, 0.271_558_563_5),
    case((64, 1), 16, 1000e9, 0.014_480_762_22, 0.013_345_803_83),
    case((64, 1), 16, 64e9, 0.014_960_339_53, 0.014_034_279_44),
];

/// Result of SimPy for one step of a batch of 12: no thread reads twice, jobs finish one by one, and the
/// bottleneck moves between the server and the NICs.
const RUNNING_OUT: Case = case((64, 1), 16, 60e9, 0.010_009_311_65, 0.008_875_237_396);

/// Results of SimPy with lognormal sizes, in cases where rounding changes the order of events.
const CHAOTIC: [Case; 4] = [
    case((16, 200), 8, 1000e9, 15.731_668_93, 0.078_580_234_06),
    case((16, 200), 8, 16e9, 15.800_567_54, 0.078_917_655_31),
    case((64, 100), 8, 1000e9, 7.887_560_834, 0.078_604_658_31),
    case((64, 100), 8, 64e9, 7.895_416_535, 0.078_632_596_71),
];

/// Results of SimGrid for the cases of `CHAOTIC`.
const CHAOTIC_SIMGRID: [Case; 3] = [
    case((16, 200), 8, 1000e9, 15.736_894_89, 0.078_576_262_62),
    case((16, 200), 8, 16e9, 15.818_010_98, 0.078_908_367_1),
    case((64, 100), 8, 64e9, 7.881_108_544, 0.078_615_379_27),
];

impl Case {
    fn scenario(&self, sizes: &str) -> Scenario {
        let changes = [
            ("cluster.nodes", self.jobs.to_string()),
            ("job.copies", self.jobs.to_string()),
            ("dataset.images.samples", (u64::from(self.steps) * 256).to_string()),
            ("job.loader.tf-queue.threads", self.threads.to_string()),
            ("storage.server.file-server.bandwidth", format!("\"{} GB/s\"", self.server / 1e9)),
            ("dataset.images.sample_size", sizes.to_owned()),
        ];
        let changes: Vec<(&str, &str)> = changes.iter().map(|(k, v)| (*k, v.as_str())).collect();
        shipped("yardstick", &changes)
    }

    /// Returns the outcome with the table of sizes that the other simulators read.
    fn with_table(&self, table: &Arc<[f64]>, batch: u64) -> Outcome {
        let mut scenario = self.scenario("\"256 KiB\"");
        scenario.jobs[0].batch = batch;
        scenario.datasets[0].samples = u64::from(self.steps) * batch;
        scenario.datasets[0].sizes =
            SampleSizes::Table { table: table.clone(), job_stride: 40_503, sample_stride: 25_173 };
        simulate(&scenario)
    }

    fn check(&self, outcome: &Outcome, makespan: f64, mean_step: f64) {
        let Case { jobs, steps, threads, server, .. } = self;
        let near = |what: &str, value: f64, expected: f64, tolerance: f64| {
            let error = value / expected - 1.0;
            assert!(
                error.abs() <= tolerance,
                "{jobs} jobs × {steps} steps, {threads} threads, {server:e} B/s: {what} is {value} \
                 instead of {expected} ({error:+.1e})"
            );
        };
        near("the makespan", outcome.makespan, self.makespan, makespan);
        near("the mean step", mean_step_of(outcome), self.mean_step, mean_step);
    }
}

fn mean_step_of(outcome: &Outcome) -> f64 {
    let last =
        outcome.jobs.iter().filter_map(|job| Some(job.steps.last()?.end / job.steps.len() as f64));
    last.sum::<f64>() / outcome.jobs.len() as f64
}

/// Returns the sizes of `benches/peers/sizes.py lognormal`.
fn lognormal() -> Arc<[f64]> {
    const SIGMA: f64 = 0.6;
    let mut draw = PythonRandom::new(42);
    let raw: Vec<f64> =
        (0..65_536).map(|_| draw.gauss(-SIGMA * SIGMA / 2.0, SIGMA).exp()).collect();
    let mean = raw.iter().sum::<f64>() / raw.len() as f64;
    raw.iter().map(|size| 262_144.0 * size / mean).collect()
}

#[test]
fn lognormal_sample_sizes_equal_those_generated_by_python() {
    // When recorded, every bit was the same; on other machines the last bit of logarithms may differ. With a =
    // array of the doubles in lognormal.f64: a[0], a[65535], sum((i + 1) * a[i]) / 65536.
    let table = lognormal();
    let weighted = (1..).zip(table.iter()).map(|(i, size)| f64::from(i) * size).sum::<f64>();
    for (value, expected) in [
        (table[0], 200_288.662_152_657_52),
        (table[65_535], 265_325.061_513_593_54),
        (weighted / 65_536.0, 8_612_705_502.719_538),
    ] {
        assert!((value / expected - 1.0).abs() < 1e-13, "{value} instead of {expected}");
    }
}

#[test]
fn results_with_constant_sample_sizes_match_simpy_to_nine_digits() {
    for case in CONSTANT {
        case.check(&simulate(&case.scenario("\"256 KiB\"")), 1e-9, 1e-9);
    }
}

#[test]
fn first_steps_with_lognormal_sample_sizes_match_simpy_to_nine_digits() {
    let table = lognormal();
    for case in SHORT {
        case.check(&case.with_table(&table, 32), 1e-9, 1e-9);
    }
    RUNNING_OUT.check(&RUNNING_OUT.with_table(&table, 12), 1e-9, 1e-9);
}

#[test]
fn lognormal_sample_size_results_match_simpy_and_simgrid_to_four_digits() {
    check_all(&STEADY, &STEADY_SIMGRID, 1e-4, 1e-4);
}

/// Near a tie between two threads a picosecond decides which is first. Where neither the server nor the cores
/// keep the threads of a job waiting, such differences grow a thousandfold in a hundred samples. Changes of
/// sizes by 1e-9 spread forebay's own results with a standard deviation of 1.2e-4 of the makespan and 6e-6 of
/// the mean step in the first case of `BOTH_BIND`, and of 4e-4 and 1.6e-4 in the cases of `CHAOTIC` with 16
/// jobs. The other simulators differ from each other by as much.
#[test]
fn rounding_sensitive_results_match_simpy_and_simgrid_within_0_2_percent() {
    check_all(&BOTH_BIND, &BOTH_BIND_SIMGRID, 6e-4, 1e-4);
    check_all(&CHAOTIC, &CHAOTIC_SIMGRID, 2e-3, 6e-4);
}

fn check_all(simpy: &[Case], simgrid: &[Case], makespan: f64, mean_step: f64) {
    let table = lognormal();
    for case in simpy {
        let outcome = case.with_table(&table, 256);
        case.check(&outcome, makespan, mean_step);
        let key = |case: &Case| (case.jobs, case.threads, case.server.to_bits());
        if let Some(other) = simgrid.iter().find(|&other| key(other) == key(case)) {
            other.check(&outcome, makespan, mean_step);
        }
    }
}

#[test]
fn random_and_tabulated_sample_sizes_give_the_same_mean_makespan() {
    // A run samples 51,200 sizes, so its mean size is known to 0.3 %; that of four runs to half of this.
    let makespan =
        |seed: u32| simulate(&shipped("yardstick", &[("run.seed", &seed.to_string())])).makespan;
    let mean = (1..=4).map(makespan).sum::<f64>() / 4.0;
    let error = mean / STEADY[0].makespan - 1.0;
    assert!(error.abs() < 0.005, "{mean} instead of {} ({error:+.4})", STEADY[0].makespan);
}

#[test]
fn makespan_does_not_grow_from_16_to_600_jobs_at_equal_bandwidth_per_job() {
    // System: 600 jobs, 4,800 workers, whose state is prefetched from memory, with the same share of the server
    // for each job as with 16 jobs. Expectation: copies that read equal sizes take as long; copies that read
    // sizes of their own keep the server busy with all their bytes, until the last 1 % of the time.
    let part = |jobs: u32| Case { jobs, steps: 2, server: 125e6 * f64::from(jobs), ..STEADY[0] };
    let [few, many] = [16, 600].map(|jobs| simulate(&part(jobs).scenario("\"256 KiB\"")));
    assert!(
        (many.makespan / few.makespan - 1.0).abs() < 1e-9,
        "{} {}",
        many.makespan,
        few.makespan
    );
    let (case, table) = (Case { server: 2e9, ..part(600) }, lognormal());
    let outcome = case.with_table(&table, 256);
    let size = |job: u64, sample: u64| table[((job * 40_503 + sample * 25_173) % 65_536) as usize];
    let bytes: f64 =
        (0..600).flat_map(|job| (0..512).map(move |i| (job, i))).map(|(j, i)| size(j, i)).sum();
    let busy = outcome.makespan / (bytes / case.server);
    assert!((1.0..1.01).contains(&busy), "{busy}");
    assert_eq!(outcome.flows, 600 * 512);
}
