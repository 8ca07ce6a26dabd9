//! Closed queueing networks, written as scenarios, against exact mean value analysis (Reiser and
//! Lavenberg, J. ACM 27(2), 1980; load-dependent stations as in Lazowska et al., Quantitative System
//! Performance, ch. 20).

use rayon::prelude::*;
use statrs::distribution::{ContinuousCDF, StudentsT};

use forebay::scenario::Scenario;
use forebay::sim::{Options, run};

use super::base::changed;

/// A station: mean demand [s], and the number of customers that it serves at full speed at once.
#[derive(Clone, Copy)]
struct Place {
    demand: f64,
    servers: usize,
}

/// Returns the exact throughput [customers/s] with `population` customers in the network: an arriving customer
/// sees `j` customers at a station with the probability of the network with one customer less.
fn throughput(places: &[Place], population: usize) -> f64 {
    let mut chance: Vec<Vec<f64>> = places.iter().map(|_| vec![1.0]).collect();
    let mut rate = 0.0;
    for n in 1..=population {
        let speed = |place: &Place, j: usize| j.min(place.servers) as f64;
        let response = |place: &Place, before: &[f64]| -> f64 {
            (1..=n).map(|j| j as f64 * place.demand / speed(place, j) * before[j - 1]).sum()
        };
        let round: f64 = places.iter().zip(&chance).map(|(p, c)| response(p, c)).sum();
        rate = n as f64 / round;
        for (place, before) in places.iter().zip(&mut chance) {
            let mut now = vec![0.0];
            let some = (1..=n).map(|j| rate * place.demand / speed(place, j) * before[j - 1]);
            now.extend(some);
            now[0] = (1.0 - now.iter().sum::<f64>()).max(0.0);
            *before = now;
        }
    }
    rate
}

/// Returns the samples per second after a warm-up, one value per replication.
fn simulated(scenario: &Scenario) -> Vec<f64> {
    let rate = |replication| {
        let job = run(scenario, replication, &Options::default()).jobs.remove(0);
        let (first, last) = (job.steps[job.steps.len() / 10], job.steps[job.steps.len() - 1]);
        (last.queue.enqueued - first.queue.enqueued) as f64 / (last.end - first.end)
    };
    (0..20).into_par_iter().map(rate).collect()
}

/// Checks the rate of threads that wait `latency`, share 100 MB/s and then the cores.
fn check(threads: usize, cores: usize, latency: &str, size: &str, decode: &str) {
    let storage = format!(
        "{{ local-disk = {{ service = \"fair\", bandwidth = \"100 MB/s\", latency = {latency} }} }}"
    );
    let loader =
        format!("{{ threads = {threads}, capacity = \"100000 samples\", decode = {decode} }}");
    let cores_text = cores.to_string();
    let scenario = changed(&[
        ("run.steps", "600"),
        ("cluster.node.cores", cores_text.as_str()),
        ("storage.s", storage.as_str()),
        ("dataset.d.samples", "1000000000"),
        ("dataset.d.sample_size", size),
        ("job.batch", "64"),
        ("job.loader.tf-queue", loader.as_str()),
        ("job.model.step", "\"1 ns\""),
    ]);
    let places = [
        Place { demand: 2e-3, servers: usize::MAX },
        Place { demand: 1e-3, servers: 1 },
        Place { demand: 1.5e-3, servers: cores },
    ];
    let expected = throughput(&places, threads);
    let rates = simulated(&scenario);
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = StudentsT::new(0.0, 1.0, n - 1.0).expect("degrees of freedom").inverse_cdf(0.9995);
    let half = t * (variance / n).sqrt();
    let what = format!("{threads} threads, {cores} cores, {latency}, {size}, {decode}");
    assert!(half <= 0.01 * expected, "{what}: {mean} ± {half}: too wide");
    assert!((mean - expected).abs() <= half, "{what}: {mean} ± {half}, not {expected}");
}

const CONSTANT: [&str; 3] = ["\"2 ms\"", "\"100 kB\"", "\"1500 us\""];
const EXPONENTIAL: [&str; 3] = [
    r#"{ exponential = { mean = "2 ms" } }"#,
    r#"{ exponential = { mean = "100 kB" } }"#,
    r#"{ exponential = { mean = "1500 us" } }"#,
];
const LOGNORMAL: [&str; 3] = [
    r#"{ lognormal = { mean = "2 ms", cv = 1.5 } }"#,
    r#"{ lognormal = { mean = "100 kB", cv = 1.3 } }"#,
    r#"{ gamma = { mean = "1500 us", cv = 1.5 } }"#,
];

#[test]
fn mean_value_analysis_matches_hand_computed_throughput() {
    // System: a delay of 1 s and one server of 1 s. Expectation: X(1) = 1/2; R(2) = 1 + 1/2, so X(2) = 2/2.5;
    // two servers act as a delay, and X(2) = 1.
    let places =
        |servers| [Place { demand: 1.0, servers: usize::MAX }, Place { demand: 1.0, servers }];
    assert!((throughput(&places(1), 1) - 0.5).abs() < 1e-12);
    assert!((throughput(&places(1), 2) - 0.8).abs() < 1e-12);
    assert!((throughput(&places(2), 2) - 1.0).abs() < 1e-12);
}

#[test]
fn simulated_throughput_with_exponential_times_matches_mean_value_analysis() {
    // System: N threads that cycle through a delay of 2 ms, a bandwidth of 1 ms a sample and c cores of 1.5 ms
    // a sample. Expectation: the network has product form, so the rate is that of mean value analysis.
    let [latency, size, decode] = EXPONENTIAL;
    for (threads, cores) in [(1, 1), (3, 1), (4, 2), (8, 3), (16, 2)] {
        check(threads, cores, latency, size, decode);
    }
}

#[test]
fn processor_sharing_throughput_depends_only_on_mean_service_times() {
    // Expectation: the rates of exponential times, because delays and processor sharing are insensitive to the
    // distribution.
    let [latency, size, decode] = LOGNORMAL;
    for (threads, cores) in [(2, 1), (6, 2), (12, 4)] {
        check(threads, cores, latency, size, decode);
    }
    // A constant time among them changes no rate either.
    check(6, 2, CONSTANT[0], EXPONENTIAL[1], EXPONENTIAL[2]);
    check(6, 2, EXPONENTIAL[0], CONSTANT[1], LOGNORMAL[2]);
}
