//! Trials of learners that average their models.

use super::super::{Board, Precision, Task};
use super::on_gpu;

/// System: trials of two and three learners that average after each step or each fourth step, with and without CUDA graphs.
/// Expectation: whole periods of steps, which all end in order, in the time of the trial; the loss falls, and the time of an
/// averaging is printed.
#[test]
fn on_gpu_trials_of_learners_that_average_take_whole_periods() {
    on_gpu(|_| {
        let board = Board::open(0).expect("a GPU");
        for (learners, every, graph) in [(2, 1, true), (2, 1, false), (3, 1, true), (2, 4, true)] {
            let precision = Precision::Fp32;
            let plain = Task {
                model: "lenet5",
                batch: 16,
                precision,
                learners,
                average_every: None,
                graph,
                seed: 1,
            };
            let task = Task { average_every: Some(every), ..plain };
            let trials = [plain, task].map(|task| board.train(task, 0.06).expect("steps"));
            let [alone, averaged] = &trials;
            assert!(averaged.rounds >= 3 && averaged.rounds.is_multiple_of(every));
            assert_eq!(averaged.laps.len() as u64, averaged.rounds);
            let laps: f64 = averaged.laps.iter().sum();
            assert!(laps <= 1.01 * averaged.seconds && laps > 0.5 * averaged.seconds, "{laps}");
            assert!(averaged.loss.is_finite() && averaged.memory == alone.memory);
            let [without, with] = [alone, averaged].map(|of| of.seconds / of.rounds as f64);
            let latency = every as f64 * (with - without);
            eprintln!(
                "{learners} learners, every {every}, graph {graph}: {:.1} us, {:.1} us without averaging: {:.1} us each",
                1e6 * with,
                1e6 * without,
                1e6 * latency
            );
        }
    });
}
