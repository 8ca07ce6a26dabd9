//! The live world's own overhead: samples per second through reader threads, queue and trainer where
//! reading copies a byte, nothing is decoded and a step takes no time.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::live::{CopyTask, run_copy};
use forebay::scenario::ScenarioFile;
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

const STEPS: u64 = 2000;
const BATCH: u64 = 256;

fn scenario(threads: u32, batches: bool) -> String {
    let loader = if batches {
        format!(
            "[[job.loader.stages]]\nname = \"load\"\nworkers = {threads}\nunit = \"batch\"\n\
             per_sample = [\"read\"]\nbuffer = \"16 batches\""
        )
    } else {
        format!("[job.loader.tf-queue]\nthreads = {threads}\ncapacity = \"4096 samples\"")
    };
    format!(
        r#"# What does the live world itself cost?
name = "overhead"
[run]
steps = {STEPS}
warm_up = "off"
[cluster]
nodes = 1
node.cores = 1
[storage.ram.memory]
[dataset.bytes]
samples = 100000
sample_size = "1 B"
order = "sequential"
[[job]]
name = "nothing"
dataset = "bytes"
storage = "ram"
batch = {BATCH}
model.step = "1 ns"
{loader}
"#
    )
}

fn overhead(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("live");
    group.sample_size(10).throughput(Throughput::Elements(STEPS * BATCH));
    for (name, threads, batches) in
        [("sample by sample, 1 thread", 1, false), ("2 threads", 2, false), ("batches", 1, true)]
    {
        let file = ScenarioFile::parse("overhead.toml", scenario(threads, batches)).unwrap();
        let scenario = file.resolve(&[]).unwrap();
        let part = CopyTask::default();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let stop = AtomicBool::new(false);
                black_box(run_copy(&scenario, &part, &stop, || Some(0)).unwrap())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, overhead);
criterion_main!(benches);
