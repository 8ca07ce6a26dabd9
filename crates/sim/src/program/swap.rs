//! Swapping: copies of model state that does not fit on a GPU, from and to its node's memory.

use crate::env::Env;
use crate::event::ActivityId;
use crate::ids::DeviceId;
use crate::jobs::Jobs;

impl Jobs {
    /// Begins to copy `bytes[0]` from the node's memory to each GPU of device `d`, and `bytes[1]` from each GPU to the node's
    /// memory [B].
    pub(super) fn begin_swap(&mut self, env: &mut Env, d: DeviceId, bytes: [f64; 2]) {
        let spread = self.spread(d);
        let (ranks, part) = (f64::from(spread.ranks), spread.part(d));
        let ways: Vec<_> = part.pcie.iter().flat_map(|ways| ways.iter().zip(bytes)).collect();
        let flows = ways.iter().filter_map(|(group, bytes)| group.zip(Some(*bytes)));
        let flows: Vec<_> = flows.filter(|(_, bytes)| *bytes > 0.0).collect();
        part.swapping += flows.len() as u32;
        spread.books.swapped += ranks * (bytes[0] + bytes[1]);
        for (group, bytes) in flows {
            env.network.start(env.now, group, bytes, ActivityId::Swap(d));
        }
    }

    /// Ends one of the copies of device `d` from or to its node's memory.
    pub(crate) fn swapped(&mut self, env: &mut Env, d: DeviceId) {
        let part = self.part(d);
        part.swapping -= 1;
        if part.swapping == 0 {
            self.wake_program(env, d);
        }
    }
}
