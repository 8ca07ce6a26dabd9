//! Crossbow's claims, by the shipped scenarios: learners gain less in larger batches, averaged models reach a target
//! 1.3 to 4 times as fast, and neither the smallest nor the largest batch is best.

use super::runs::{shipped, simulate};
use forebay::report::{JobReport, summarise};

const BATCHES: [u32; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];

fn jobs(name: &str, changes: &[(&str, String)]) -> Vec<JobReport> {
    let changes: Vec<(&str, &str)> =
        changes.iter().map(|(key, value)| (*key, &value[..])).collect();
    let scenario = shipped(name, &changes);
    summarise(&scenario, &[simulate(&scenario)], 0.0).jobs
}

#[test]
fn learners_gain_less_the_larger_their_batches_are() {
    let gains = |learners: u32| {
        let gain = |batch: &u32| {
            let changes = [
                ("job.batch", batch.to_string()),
                ("job.parallel.data.learners", learners.to_string()),
            ];
            let job = jobs("learners", &changes).remove(0);
            job.learners.expect("learners").gain.expect("a gain")
        };
        BATCHES.iter().map(gain).collect::<Vec<f64>>()
    };
    let (two, four) = (gains(2), gains(4));
    for gains in [&two, &four] {
        let falls = gains.windows(2).all(|pair| pair[1] < pair[0] * 1.03);
        assert!(falls && gains[7] < 1.1, "{gains:?}");
    }
    assert!((1.8..=2.0).contains(&two[0]) && (3.4..=4.0).contains(&four[0]), "{two:?}, {four:?}");
    assert!((1.0..1.6).contains(&two[4]), "{two:?}");
}

/// By job, the time to accuracy with each batch [s].
fn times(gpus: u32) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new(); 4];
    for batch in BATCHES {
        let changes = [
            ("job.batch", batch.to_string()),
            ("job.parallel.data.copies_per_node", gpus.to_string()),
            ("run.steps", "60".to_owned()),
        ];
        for (times, job) in all.iter_mut().zip(jobs("crossbow", &changes)) {
            let accuracy = job.time_to_accuracy.expect("accuracy");
            times.push(accuracy.time.mean.expect("a time"));
        }
    }
    all
}

/// The least, and which it is.
fn least(times: &[f64]) -> (usize, f64) {
    let all = times.iter().copied().enumerate();
    all.min_by(|a, b| a.1.total_cmp(&b.1)).expect("some")
}

#[test]
fn averaged_models_are_as_much_faster_as_published_and_the_best_batch_lies_inside() {
    // Published (PVLDB 12(11), abstract): 1.3 to 4 times. Expectation by hand: the best of (1 + 8b/1000)(4 + 0.061b)/8b
    // against (1 + 32/1000)·0.061/8·1.093 on eight GPUs is 2.7, on one GPU 1.5; all eight
    // wait for the slowest and for the ring in every step of synchronous SGD, and seldom where models are averaged.
    for (gpus, expected) in [(1, 1.5), (8, 2.7 * 1.12)] {
        let all = times(gpus);
        for times in &all {
            let (place, _) = least(times);
            assert!(place > 0 && place + 1 < BATCHES.len(), "{gpus} GPUs: {times:?}");
        }
        let best: Vec<f64> = all.iter().map(|times| least(times).1).collect();
        let speedup = best[0] / best[3];
        assert!((1.3..=4.0).contains(&speedup), "{gpus} GPUs: {speedup}");
        assert!((speedup / expected - 1.0).abs() < 0.08, "{gpus} GPUs: {speedup}, not {expected}");
        assert!(best[3] < best[2] && best[2] < best[1], "more learners, in less time: {best:?}");
    }
}
