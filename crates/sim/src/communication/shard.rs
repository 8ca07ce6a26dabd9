//! A server's part of a bucket: the pushes that it has received, and the model copies that wait to pull it.

use forebay_scenario::BucketShare;

use crate::ids::{IdVec, ModelId};

/// A server's part of a bucket.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Number of the server.
    pub(super) server: u32,
    pub(super) part: BucketShare,
    /// Number of pushes of each model copy.
    pushes: IdVec<ModelId, u64>,
    /// Minimum number of pushes over model copies; `slowest` is the number of model copies with this minimum.
    least: u64,
    slowest: u32,
    /// Model copies that have pushed and have not pulled since then, in order of their pushes.
    waiting: Vec<u32>,
}

impl Shard {
    /// Returns a shard to which none of `workers` model copies has pushed yet.
    pub(crate) fn new(server: u32, part: BucketShare, workers: u32) -> Shard {
        let pushes = IdVec::filled(0, workers);
        Shard { server, part, pushes, least: 0, slowest: workers, waiting: Vec::new() }
    }

    /// Restarts with the given number of pushes of each model copy; no model copy waits to pull.
    pub(super) fn restart(&mut self, pushes: &[u64]) {
        self.pushes = pushes.iter().copied().collect();
        self.least = pushes.iter().copied().min().unwrap_or(0);
        self.slowest = pushes.iter().filter(|of| **of == self.least).count() as u32;
        self.waiting.clear();
    }

    /// Lets all model copies request a pull; returns the model copies that may pull now.
    pub(super) fn begin(&mut self, slack: u64) -> Vec<u32> {
        self.waiting = (0..self.pushes.len() as u32).collect();
        self.release(slack)
    }

    /// Adds a push of `worker`; returns whether the minimum number of pushes has grown.
    pub(super) fn add(&mut self, worker: u32) -> bool {
        let pushes = &mut self.pushes[ModelId::new(worker)];
        *pushes += 1;
        self.waiting.push(worker);
        if *pushes > self.least + 1 {
            return false;
        }
        self.slowest -= 1;
        if self.slowest > 0 {
            return false;
        }
        self.least += 1;
        self.slowest = self.pushes.iter().filter(|of| **of == self.least).count() as u32;
        true
    }

    /// Returns the waiting model copies that may pull now, because they are at most `slack` exchanges ahead of the slowest, in
    /// the order of their pushes.
    pub(super) fn release(&mut self, slack: u64) -> Vec<u32> {
        let most = self.least.saturating_add(slack);
        let (pushes, mut released) = (&self.pushes, Vec::new());
        self.waiting.retain(|worker| {
            let waits = pushes[ModelId::new(*worker)] > most;
            if !waits {
                released.push(*worker);
            }
            waits
        });
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the model copies that may pull after each push.
    fn released(slack: u64, pushes: &[u32]) -> Vec<Vec<u32>> {
        let mut shard = Shard::new(3, BucketShare { push: 1, pull: 1 }, 3);
        let one = |worker: &u32| {
            shard.add(*worker);
            shard.release(slack)
        };
        pushes.iter().map(one).collect()
    }

    #[test]
    fn the_staleness_bound_limits_the_lead_over_the_slowest_model_copy() {
        // System: three model copies, of which 0 is fast and 2 slow. Expectation: without slack all pull when the last one has
        // pushed; with a slack of one, 0 pulls once and then waits; without a limit each pulls at once.
        let pushes = [0, 1, 2];
        assert_eq!(released(0, &pushes), [vec![], vec![], vec![0, 1, 2]]);
        assert_eq!(released(u64::MAX, &pushes), [[0], [1], [2]]);
        let ahead = released(1, &[0, 1, 0, 2]);
        assert_eq!(ahead, [vec![0], vec![1], vec![], vec![0, 2]]);
    }

    #[test]
    fn a_parameter_shard_tracks_the_fewest_pushes_of_any_worker() {
        let mut shard = Shard::new(0, BucketShare { push: 1, pull: 1 }, 4);
        let mut pushes = [0_u64; 4];
        let mut draw = 12_345_u32;
        for _ in 0..2000 {
            draw = draw.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let worker = (draw >> 16) % 4;
            let before = *pushes.iter().min().expect("four");
            pushes[worker as usize] += 1;
            let after = *pushes.iter().min().expect("four");
            assert_eq!(shard.add(worker), after > before);
            assert_eq!(shard.least, after);
        }
    }
}
