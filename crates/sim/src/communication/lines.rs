//! Connections between model copies and servers, each of which carries one part of a bucket after the other.

use std::collections::VecDeque;

use super::servers::Parcel;

/// The connections of all model copies with all servers, there and back.
#[derive(Debug)]
pub(super) struct Lines {
    servers: u32,
    workers: u32,
    all: Vec<Line>,
}

#[derive(Debug, Clone, Default)]
struct Line {
    busy: bool,
    waiting: VecDeque<Parcel>,
}

impl Lines {
    /// Those of so many.
    pub(super) fn new(workers: u32, servers: u32) -> Lines {
        let lines = 2 * workers as usize * servers as usize;
        Lines { servers, workers, all: vec![Line::default(); lines] }
    }

    /// That of a parcel from or to `server`, by its place among those who exchange.
    fn at(&mut self, parcel: Parcel, server: u32) -> &mut Line {
        let pair = parcel.worker as usize * self.servers as usize;
        let pair = pair + (server - self.workers) as usize;
        &mut self.all[2 * pair + usize::from(parcel.pulled)]
    }

    /// Nothing is on its way any more.
    pub(super) fn clear(&mut self) {
        self.all.fill(Line::default());
    }

    /// `parcel` is to go; true if it goes now.
    pub(super) fn enter(&mut self, parcel: Parcel, server: u32) -> bool {
        let line = self.at(parcel, server);
        if line.busy {
            line.waiting.push_back(parcel);
            return false;
        }
        line.busy = true;
        true
    }

    /// `parcel` is over; which goes next.
    pub(super) fn leave(&mut self, parcel: Parcel, server: u32) -> Option<Parcel> {
        let line = self.at(parcel, server);
        let next = line.waiting.pop_front();
        line.busy = next.is_some();
        next
    }
}
