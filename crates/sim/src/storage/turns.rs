//! A storage whose requests wait for their turn: the bytes of a few are transferred at once. Turns come in order of arrival, or the
//! clients of the storage take turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_engine::fluid::GroupId;

use crate::env::{ActivityId, Delay, Env, Event};
use crate::ids::{JobId, TurnsId};

/// A client of a storage: a job copy on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StorageClient {
    pub(crate) job: JobId,
    /// Number of the node among those of the job copy.
    pub(crate) node: u32,
}

/// A request for bytes that waits for its turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) activity: ActivityId,
    pub(crate) client: StorageClient,
    /// Route of the bytes.
    pub(crate) group: GroupId,
    /// Bytes that no turn has begun to serve [B].
    pub(crate) bytes: f64,
}

/// What the storage spends on each turn before its bytes, and the storage's number.
#[derive(Debug, Clone, Copy)]
struct Overhead {
    turns: TurnsId,
    delay: Delay,
}

/// The requests at a storage where they wait for their turn.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Number of requests that are served at once.
    at_once: usize,
    /// Bytes of a request that are served in a turn [B]; infinite if it is served as a whole.
    piece: f64,
    /// `None` if a turn begins with its bytes.
    overhead: Option<Overhead>,
    /// Number of requests so far.
    arrived: u64,
    /// Requests whose bytes are being transferred.
    served: Vec<Arrived>,
    waiting: Waiting,
}

/// A request, and its number in order of arrival.
#[derive(Debug, Clone, Copy)]
struct Arrived {
    number: u64,
    turn: Turn,
    /// Bytes of its current turn [B].
    piece: f64,
}

#[derive(Debug)]
enum Waiting {
    /// The next turn is that of the request that came first.
    InOrder(Arrivals),
    /// The next turn is that of the client whose last turn began longest ago.
    RoundRobin(Clients),
}

/// Requests in order of arrival.
#[derive(Debug, Default)]
struct Arrivals(VecDeque<Arrived>);

/// The requests of each client, in order of arrival.
#[derive(Debug, Default)]
struct Clients {
    /// For each client, the number of its last turn and its requests.
    queues: BTreeMap<StorageClient, (u64, Arrivals)>,
    /// Clients with requests, by the number of their last turn.
    next: BTreeSet<(u64, StorageClient)>,
    /// Number of turns so far.
    begun: u64,
}

impl Turns {
    /// Returns a storage without requests that serves `at_once` of them at once: in order of arrival, or, if `piece` is set, in turns
    /// of its clients of so many bytes [B].
    pub(crate) fn new(at_once: u32, piece: Option<f64>) -> Turns {
        Turns {
            at_once: at_once as usize,
            piece: piece.unwrap_or(f64::INFINITY),
            overhead: None,
            arrived: 0,
            served: Vec::new(),
            waiting: match piece {
                None => Waiting::InOrder(Arrivals::default()),
                Some(_) => Waiting::RoundRobin(Clients::default()),
            },
        }
    }

    /// Returns the storage, whose number is `turns`, where each turn begins with `seconds` before its bytes.
    pub(crate) fn with_overhead(self, turns: TurnsId, seconds: f64) -> Turns {
        let overhead = (seconds > 0.0).then(|| Overhead { turns, delay: Delay::once(seconds) });
        Turns { overhead, ..self }
    }

    /// Adds a request; its transfer begins now or when it is its turn.
    pub(crate) fn ask(&mut self, env: &mut Env, turn: Turn) {
        self.waiting.add(Arrived { number: self.arrived, turn, piece: 0.0 });
        self.arrived += 1;
        self.serve(env);
    }

    /// Ends the turn of `activity`. Returns whether all bytes of its request have been transferred; otherwise the rest waits for another
    /// turn.
    pub(crate) fn end(&mut self, env: &mut Env, activity: ActivityId) -> bool {
        let place = self.served.iter().position(|of| of.turn.activity == activity);
        let ended = place.map(|place| self.served.swap_remove(place));
        let rest = ended.filter(|of| of.turn.bytes > 0.0);
        rest.into_iter().for_each(|of| self.waiting.add(of));
        self.serve(env);
        rest.is_none()
    }

    /// Removes the requests of each activity for which `is` returns true, and whose transfers have been cancelled.
    pub(crate) fn forget(&mut self, env: &mut Env, is: impl Fn(&ActivityId) -> bool) {
        self.served.retain(|of| !is(&of.turn.activity));
        self.waiting.retain(|of| !is(&of.turn.activity));
        self.serve(env);
    }

    /// Begins the transfers of the requests whose turn it is.
    fn serve(&mut self, env: &mut Env) {
        while self.served.len() < self.at_once
            && let Some(mut of) = self.waiting.next()
        {
            let bytes = of.turn.bytes;
            // Half a byte of slack, because differences of sizes are rounded.
            of.piece = if bytes < self.piece + 0.5 { bytes } else { self.piece };
            of.turn.bytes -= of.piece;
            self.served.push(of);
            match self.overhead {
                None => of.begin(env),
                Some(Overhead { turns, delay }) => {
                    env.after(delay, Event::Begun { turns, request: of.number as u32 });
                }
            }
        }
    }

    /// Begins the transfer of a request after the overhead of its turn, unless the request has been cancelled.
    pub(crate) fn begin(&self, env: &mut Env, request: u32) {
        if let Some(of) = self.served.iter().find(|of| of.number as u32 == request) {
            of.begin(env);
        }
    }
}

impl Arrived {
    /// Begins the transfer of the bytes of its turn.
    fn begin(&self, env: &mut Env) {
        env.network.start(env.now, self.turn.group, self.piece, self.turn.activity);
    }
}

impl Waiting {
    fn add(&mut self, request: Arrived) {
        match self {
            Waiting::InOrder(all) => all.add(request),
            Waiting::RoundRobin(clients) => clients.add(request),
        }
    }

    fn next(&mut self) -> Option<Arrived> {
        match self {
            Waiting::InOrder(all) => all.0.pop_front(),
            Waiting::RoundRobin(clients) => clients.next(),
        }
    }

    fn retain(&mut self, keep: impl Fn(&Arrived) -> bool) {
        match self {
            Waiting::InOrder(all) => all.0.retain(keep),
            Waiting::RoundRobin(clients) => clients.retain(keep),
        }
    }
}

impl Arrivals {
    /// Adds a request, or the rest of one, at its place.
    fn add(&mut self, request: Arrived) {
        let place = self.0.partition_point(|of| of.number < request.number);
        self.0.insert(place, request);
    }
}

impl Clients {
    fn add(&mut self, request: Arrived) {
        let client = request.turn.client;
        let (last, queue) = self.queues.entry(client).or_default();
        queue.add(request);
        self.next.insert((*last, client));
    }

    fn next(&mut self) -> Option<Arrived> {
        let (_, client) = self.next.pop_first()?;
        let (last, queue) = self.queues.get_mut(&client)?;
        let request = queue.0.pop_front()?;
        self.begun += 1;
        *last = self.begun;
        if !queue.0.is_empty() {
            self.next.insert((*last, client));
        }
        Some(request)
    }

    fn retain(&mut self, keep: impl Fn(&Arrived) -> bool) {
        for (_, queue) in self.queues.values_mut() {
            queue.0.retain(&keep);
        }
        self.next.retain(|(_, client)| !self.queues[client].1.0.is_empty());
    }
}
