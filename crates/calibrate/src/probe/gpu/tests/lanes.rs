//! Copies through the lanes to a real GPU; skipped where there is none.

use super::super::{Form, Learners, Precision, Training, ready};
use std::sync::atomic::AtomicBool;

/// System: batches as long as a lane, longer and shorter, in parts, then none. Expectation: the GPU gets exactly the bytes that
/// fit, a short batch is repeated, and without content the lane's last batch is copied again.
#[test]
#[expect(clippy::print_stderr, reason = "whoever reads the test's output is told")]
fn the_bytes_of_a_batch_arrive_on_the_gpu_unchanged() {
    if let Err(why) = ready(0) {
        eprintln!("skipped: {why}");
        return;
    }
    const BYTES: usize = 100_003;
    let training = Training {
        model: "lenet5",
        gpu: 0,
        batches: &[8],
        precision: Precision::Fp32,
        learners: 1,
        graph: false,
        lanes: 1,
        bytes: BYTES,
        form: Form::Bytes,
        brings: false,
        agree_every: None,
        keep: 0.9,
        seed: 1,
    };
    let mut of = Learners::new(&training).expect("learners");
    let batch: Vec<u8> = (0..2 * BYTES).map(|i| (i * 31 % 251) as u8).collect();
    let (never, mut last) = (AtomicBool::new(false), Vec::new());
    for (step, length) in [BYTES, 2 * BYTES, 1000, 0].into_iter().enumerate() {
        let parts: Vec<&[u8]> = batch[..length].chunks(700).collect();
        of.lanes.copy(&parts, &never).expect("a copy");
        if length > 0 {
            last = batch[..length].iter().copied().cycle().take(BYTES).collect();
        }
        let arrival = of.lanes.take().expect("an arrival");
        assert!(of.lanes.read(&arrival).expect("bytes") == last, "{length} bytes");
        of.lanes.give(arrival.lane, arrival.arrived);
        of.learners[0].begin::<&[u8]>(step as u64, 8, false, &[]).expect("a step");
    }
}
