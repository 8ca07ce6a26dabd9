//! Times: every instant of a step is compute or stall.

use forebay::report::JobOutcome;
use forebay::scenario::{Job, Scenario};

use super::window;

pub(super) fn audit_times(name: &str, scenario: &Scenario, job: &Job, copy: &JobOutcome) {
    assert!(copy.stalls.windows(2).all(|pair| pair[0].step <= pair[1].step), "{name}");
    let mut stalls = copy.stalls.iter().peekable();
    let (mut start, mut stalled, mut computed) = (copy.start, 0.0, 0.0);
    for (index, step) in copy.steps.iter().enumerate() {
        let duration = step.end - start;
        assert!(duration >= 0.0, "{name}: step {index} ends before it begins");
        let mut stall = 0.0;
        while let Some(next) = stalls.next_if(|next| next.step as usize == index) {
            assert!(next.seconds >= 0.0, "{name}: {next:?}");
            stall += next.seconds;
        }
        let sum = step.compute + stall;
        if window(job) == 1 {
            let near = (sum - duration).abs() <= 1e-9 * duration + 4e-12;
            assert!(near, "{name}: step {index} takes {duration} and accounts for {sum}");
        }
        (start, stalled, computed) = (step.end, stalled + stall, computed + step.compute);
    }
    assert!(stalls.next().is_none(), "{name}: a stall of a step that is not there");
    let elapsed = start - copy.start;
    // Stalls and compute make up the whole time.
    let (sum, rounding) = (stalled + computed, 1e-12 * (1 + copy.steps.len()) as f64);
    let near = (sum - elapsed).abs() <= 1e-9 * elapsed + rounding;
    assert!(near, "{name}: {elapsed} s and accounts for {sum}");
    let step =
        (job.step.fixed + job.step.per_sample * job.batch as f64) / scenario.cluster.node.gpu_speed;
    // Learners slow each other down, and overlapping steps may be cut off, so their compute time has no closed
    // form.
    let alone = job.learners.is_one() && job.averaging().is_none();
    if job.step.jitter.is_none() && job.pipeline.is_none() && alone {
        let expected = step * copy.steps.len() as f64;
        assert!((computed - expected).abs() <= 1e-9 * expected + rounding, "{name}: {computed}");
    }
}
