//! Compares the calendar with a plain heap: each pops the next event and schedules another (hold model).

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use forebay::engine::{Calendar, Heap, Time};

/// Returns random waiting times [ps], exponential with a mean of about 1e6.
fn waits() -> Vec<u64> {
    let mut state = 1u64;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    };
    (0..65_536).map(|_| (-1e6 * draw().ln()) as u64).collect()
}

fn hold(c: &mut Criterion) {
    let waits = waits();
    let mut group = c.benchmark_group("hold");
    for pending in [10, 1_000, 100_000] {
        let mut heap = Heap::new();
        let mut calendar = Calendar::new();
        for event in 0..pending {
            heap.push(u128::from(waits[event % 65_536]) << 64 | event as u128, event);
            calendar.schedule(Time(waits[event % 65_536]), event);
        }
        let mut turn = pending;
        group.bench_function(BenchmarkId::new("bare heap", pending), |b| {
            b.iter(|| {
                turn += 1;
                let (key, event) = heap.pop().expect("events never run out");
                let at = (key >> 64) as u64 + waits[turn & 65_535];
                heap.push(u128::from(at) << 64 | turn as u128, event);
            });
        });
        let mut turn = pending;
        group.bench_function(BenchmarkId::new("calendar", pending), |b| {
            b.iter(|| {
                turn += 1;
                let (now, event) = calendar.pop().expect("events never run out");
                calendar.schedule(Time(now.0 + waits[turn & 65_535]), event);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, hold);
criterion_main!(benches);
