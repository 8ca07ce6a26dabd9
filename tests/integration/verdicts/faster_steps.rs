//! Verdicts on jobs that have input in time, and whose loaders are the next limit once steps are faster.

use super::{broken, judged};
use crate::runs::Case;

/// Four nodes that exchange gradients in each step through NICs of 1 Gbit/s, which takes nearly 300 ms. On each node eight workers share
/// two cores.
const SLOW_NICS: &str = r#"
name = "slow-nics"
run = { steps = 100, replications = 1, seed = 36 }
[cluster]
nodes = 4
node = { cores = 2, gpus = 4, intra = { kind = "switch", bandwidth = "10 GB/s", latency = "2 us" } }
network = { nic = "1 Gbit/s", latency = "100 us" }
[storage.s.file-server]
bandwidth = "4 GB/s"
latency = "1 ms"
[dataset.d]
samples = 200000
sample_size = "100 kB"
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "s"
batch = 64
loader.pytorch = { workers = 8, decode = "4 ms" }
model = { step = "5 ms", jitter = { lognormal = { cv = 0.05 } } }
parallel.pipeline = { stages = 2, schedule = "gpipe", micro_batches = 8, activations = "1 MB" }
sync.allreduce.gradients = "20 MB"
"#;

#[test]
fn trials_with_faster_steps_cover_whole_cycles_of_workers_that_were_held_up_before() {
    // System: workers that wait most of the time because queues are full. With NICs twice as fast, or steps half as long, trainers wait
    // for the workers in one step of each cycle of the workers. Expectation: the step time that the verdict promises agrees with a long
    // run.
    let shipped = Case::shipped("mlperf-flux", &[("run.replications", "1")]);
    for case in [Case::written(SLOW_NICS, &[]), shipped] {
        let (_, verdict) = judged(&case);
        assert_eq!(broken(&case, &verdict), None, "{}", verdict.text);
    }
}
