//! What does not fit on a GPU: from its node's memory, and back there.

use crate::env::Env;
use crate::event::ActivityId;
use crate::index::DeviceId;
use crate::jobs::Jobs;

impl Jobs {
    /// Each GPU of device `d` starts to copy so many bytes from its node's memory, and so many there.
    pub(super) fn begin_swap(&mut self, env: &mut Env, d: DeviceId, bytes: [f64; 2]) {
        let Some(parallel) = self.parallel(d) else { return };
        let (ranks, part) = (f64::from(parallel.ranks), parallel.part(d));
        let ways: Vec<_> = part.pcie.iter().flat_map(|ways| ways.iter().zip(bytes)).collect();
        let flows = ways.iter().filter_map(|(group, bytes)| group.zip(Some(*bytes)));
        let flows: Vec<_> = flows.filter(|(_, bytes)| *bytes > 0.0).collect();
        part.swapping += flows.len() as u32;
        parallel.books.swapped += ranks * (bytes[0] + bytes[1]);
        for (group, bytes) in flows {
            env.network.start(env.now, group, bytes, ActivityId::Swap(d));
        }
    }

    /// Bytes of device `d` have come or gone.
    pub(crate) fn swapped(&mut self, env: &mut Env, d: DeviceId) {
        let Some(part) = self.part(d) else { return };
        part.swapping -= 1;
        if part.swapping == 0 {
            self.wake_program(env, d);
        }
    }
}
