//! A barrier that `n` parties pass together, round after round.

/// Counts arrivals in each round; consecutive rounds may overlap, up to a window.
#[derive(Debug, Clone)]
pub struct Barrier {
    parties: u32,
    arrived: Vec<u32>,
}

impl Barrier {
    /// Returns a barrier for `parties` parties; round `r` must be over before any party arrives at round `r + window`.
    pub fn new(parties: u32, window: u32) -> Barrier {
        Barrier { parties, arrived: vec![0; window.max(1) as usize] }
    }

    /// Counts the arrival of a party at `round`; returns true if it was the last one, so that the round is over.
    pub fn arrive(&mut self, round: u64) -> bool {
        let slot = (round % self.arrived.len() as u64) as usize;
        self.arrived[slot] += 1;
        let last = self.arrived[slot] == self.parties;
        if last {
            self.arrived[slot] = 0;
        }
        last
    }

    /// Forgets all arrivals.
    pub fn reset(&mut self) {
        self.arrived.fill(0);
    }

    /// Sets the number of parties from the next round on; no party may have arrived at that round yet.
    pub fn set_parties(&mut self, parties: u32) {
        self.parties = parties;
    }

    /// Returns the number of parties.
    pub fn parties(&self) -> u32 {
        self.parties
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barrier_opens_with_the_last_arrival_of_each_round() {
        let mut barrier = Barrier::new(3, 1);
        for round in 0..3 {
            assert!(!barrier.arrive(round));
            assert!(!barrier.arrive(round));
            assert!(barrier.arrive(round));
        }
    }

    #[test]
    fn arrivals_of_different_barrier_rounds_are_counted_separately() {
        let mut barrier = Barrier::new(2, 2);
        assert!(!barrier.arrive(0));
        assert!(!barrier.arrive(1));
        assert!(barrier.arrive(1));
        assert!(!barrier.arrive(2 + 1));
        assert!(barrier.arrive(0));
    }
}
