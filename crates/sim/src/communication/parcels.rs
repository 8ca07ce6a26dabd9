//! Parts of buckets on their way to parameter servers and back. A connection carries one part after the other.

use std::collections::VecDeque;

use super::communicators::Communicators;
use super::exchange::{Around, Exchange};
use crate::env::{Env, Notice};
use crate::ids::{MessageId, ServersId};

/// A part of a bucket that is sent between a model copy and its server, as the content of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parcel {
    pub(crate) worker: u32,
    pub(crate) shard: u32,
    /// Whether the part is pulled from its server; otherwise it is pushed.
    pub(crate) pulled: bool,
    /// Whether the part's bytes still use the connection.
    pub(crate) moving: bool,
}

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

impl Communicators {
    /// Runs `act` on an exchange with servers, and gives freed cores to the next activities; returns the result of `act`.
    pub(crate) fn on_exchange<R>(
        &mut self,
        env: &mut Env,
        s: ServersId,
        act: impl FnOnce(&mut Exchange, &mut Around<'_>) -> R,
    ) -> Option<R> {
        let servers = &mut self.servers[s];
        let ways = self.ways[servers.job()].as_mut()?;
        let exchange = &mut servers.exchange;
        let messages = &mut self.messages;
        let mut around = Around { env, messages, ways, admitted: Vec::new() };
        let done = act(exchange, &mut around);
        let admitted = around.admitted;
        env.notices.extend(admitted.into_iter().map(Notice::CoreFree));
        Some(done)
    }

    /// Removes a part that has arrived from an exchange with servers, and returns it, if there is one.
    pub(crate) fn take_parcel(&mut self, s: ServersId) -> Option<Parcel> {
        let servers = &mut self.servers[s];
        let m = servers.exchange.take_arrived(&mut self.messages)?;
        servers.take_parcel(m)
    }

    /// Sends a part of a bucket between a worker and a server, after all earlier parts on the same connection; returns whether its
    /// transfer begins now. If the job copy has `finished`, nothing follows on the connection.
    pub(crate) fn carry(
        &mut self,
        env: &mut Env,
        s: ServersId,
        of: Parcel,
        finished: bool,
    ) -> bool {
        let begins = self.servers[s].enter(of);
        if begins {
            self.set_out(env, s, of, finished);
        }
        begins
    }

    fn set_out(&mut self, env: &mut Env, s: ServersId, parcel: Parcel, finished: bool) {
        let hop = self.servers[s].set_out(parcel);
        if let Some(m) = self.on_exchange(env, s, |exchange, around| exchange.carry(around, hop)) {
            self.servers[s].note_message(m, parcel);
            self.free_line(env, s, m, finished);
        }
    }

    /// Sends the next part on the connection of message `m` if the message's bytes have left, unless the job copy has `finished`.
    pub(crate) fn free_line(&mut self, env: &mut Env, s: ServersId, m: MessageId, finished: bool) {
        let left = self.messages.get(m).has_left();
        if left
            && !finished
            && let Some(next) = self.servers[s].leave_line(m)
        {
            self.set_out(env, s, next, finished);
        }
    }
}
