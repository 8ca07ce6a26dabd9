//! Connections between model copies and parameter servers. Each connection sends parts of buckets one after the other; the next
//! part begins when the bytes of the one before have left, and does not wait for their latency.

use std::collections::VecDeque;

use super::servers::Parcel;

/// The connections of all workers with all servers, one for each direction.
#[derive(Debug)]
pub(super) struct Lines {
    servers: u32,
    all: Vec<Line>,
}

#[derive(Debug, Clone, Default)]
struct Line {
    busy: bool,
    waiting: VecDeque<Parcel>,
}

impl Lines {
    /// Returns the connections of `workers` workers with `servers` servers.
    pub(super) fn new(workers: u32, servers: u32) -> Lines {
        let lines = 2 * workers as usize * servers as usize;
        Lines { servers, all: vec![Line::default(); lines] }
    }

    /// Returns the connection that carries `parcel` to or from server number `server`.
    fn at(&mut self, parcel: Parcel, server: u32) -> &mut Line {
        let pair = parcel.worker as usize * self.servers as usize;
        let pair = pair + server as usize;
        &mut self.all[2 * pair + usize::from(parcel.pulled)]
    }

    /// Removes all parcels from all connections.
    pub(super) fn clear(&mut self) {
        self.all.fill(Line::default());
    }

    /// Puts `parcel` on its connection; returns true if its transfer can begin now, false if it waits for earlier parcels.
    pub(super) fn enter(&mut self, parcel: Parcel, server: u32) -> bool {
        let line = self.at(parcel, server);
        if line.busy {
            line.waiting.push_back(parcel);
            return false;
        }
        line.busy = true;
        true
    }

    /// Removes `parcel`, whose bytes have left, from its connection; returns the parcel whose transfer begins next, if one
    /// waits.
    pub(super) fn leave(&mut self, parcel: Parcel, server: u32) -> Option<Parcel> {
        let line = self.at(parcel, server);
        let next = line.waiting.pop_front();
        line.busy = next.is_some();
        next
    }
}
