//! Model of a pipeline with which tf.data searches for parallelism: a tree of iterators with buffers between them
//! (`tensorflow/core/framework/model.cc`, algorithm `HILL_CLIMB`), here interleave, map, batch and prefetch.

/// Calls of a function that run in parallel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Calls {
    /// Time of one call [s].
    pub(super) time: f64,
    /// Number of calls that run at once, and the largest number allowed.
    pub(super) parallelism: u32,
    pub(super) most: u32,
}

/// A pipeline: its reads, the calls of its map function, and the additional time for a batch [s].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pipeline {
    pub(super) reads: Calls,
    pub(super) calls: Calls,
    pub(super) batch: f64,
}

/// Returns the time that a consumer waits for an element from a buffer of `size` [s]. `producer` and `consumer` are the mean
/// times to make and to use an element, both exponential: an M/M/1/n queue.
pub(super) fn wait_time(producer: f64, consumer: f64, size: f64) -> f64 {
    if producer <= 0.0 {
        return 0.0;
    }
    let ratio = consumer / producer;
    let empty = if consumer <= 0.0 {
        1.0
    } else if ratio == 1.0 {
        1.0 / (size + 1.0)
    } else {
        (1.0 - ratio) / (1.0 - ratio.powf(size + 1.0))
    };
    // Far beyond saturation the power is infinite, and the consumer never waits.
    empty.max(0.0) * producer
}

impl Calls {
    fn each(self) -> f64 {
        self.time / f64::from(self.parallelism)
    }
}

impl Pipeline {
    /// Returns the time that the trainer waits for a batch of `batch` samples [s], if the trainer itself never keeps the pipeline
    /// waiting.
    fn output_time(&self, batch: f64) -> f64 {
        let Pipeline { reads, calls, .. } = *self;
        let consumer = self.batch / batch + calls.each();
        let read = wait_time(reads.each(), consumer, reads.parallelism.into());
        let sample = calls.each() + wait_time(read, consumer, calls.parallelism.into());
        self.batch + batch * sample
    }

    /// Raises the parallelism of reads or of calls, whichever helps more, by one at a time, until the pipeline is as fast as
    /// all cores together could make it, or until both are at their limits. Returns the parallelism of reads and of calls.
    pub(super) fn climb(mut self, batch: f64, cores: f64) -> (u32, u32) {
        let total = self.batch + batch * (self.reads.time + self.calls.time);
        while self.output_time(batch) >= total / cores {
            let with = |reads: u32, calls: u32| {
                let mut raised = self;
                raised.reads.parallelism += reads;
                raised.calls.parallelism += calls;
                raised
            };
            let can = |calls: Calls| calls.parallelism < calls.most;
            let reads = can(self.reads).then(|| with(1, 0));
            let calls = can(self.calls).then(|| with(0, 1));
            let candidates = [reads, calls].into_iter().flatten();
            let time = |pipeline: &Pipeline| pipeline.output_time(batch);
            let Some(best) = candidates.min_by(|a, b| time(a).total_cmp(&time(b))) else { break };
            self = best;
        }
        (self.reads.parallelism, self.calls.parallelism)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_at_a_buffer_follows_tf_datas_formula() {
        // Consumer, producer, size, wait: computed by hand from the formula.
        for (x, y, n, wait) in
            [(10.0, 8.0, 2.0, 2.098), (10.0, 10.0, 4.0, 2.0), (5.0, 10.0, 3.0, 5.333)]
        {
            assert!(
                (wait_time(y, x, n) - wait).abs() < 1e-3,
                "{x} {y} {n}: {}",
                wait_time(y, x, n)
            );
        }
        assert_eq!((wait_time(0.0, 1.0, 2.0), wait_time(3.0, 0.0, 2.0)), (0.0, 3.0));
        assert_eq!(wait_time(1e-9, 1.0, 1e6), 0.0);
    }

    #[test]
    fn auto_tuning_raises_parallelism_until_the_cores_are_used() {
        // System: reads that take no time, calls of 8 ms, batches of 10, at most 8 at once. Expectation: 80 ms of work on 8 cores
        // take 10 ms at best, which only 8 calls reach; half as long with reads fixed.
        let calls = |time: f64, most: u32| Calls { time, parallelism: 1, most };
        let of = |reads, calls| Pipeline { reads, calls, batch: 0.0 }.climb(10.0, 8.0);
        assert_eq!(of(calls(0.0, 8), calls(8e-3, 8)).1, 8);
        // A batch that takes as long as everything else leaves less to gain: 1/8 of 160 ms is 20 ms, less than the batch itself,
        // and everything is at its limit.
        let slow = Pipeline { reads: calls(1e-3, 4), calls: calls(8e-3, 4), batch: 0.08 };
        assert_eq!(slow.climb(10.0, 4.0), (4, 4));
        // Calls that are cheap compared with the reads get less parallelism.
        let (reads, few) = of(calls(8e-3, 8), calls(1e-3, 8));
        assert!(few < reads, "{reads} reads, {few} calls");
    }
}
