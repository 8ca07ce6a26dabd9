//! The ranks of a run as rank 0 knows them: which ones have joined, how far each clock is off, and which ones are lost.

use crate::arrivals::Member;
use crate::clock::{Clock, Offset};
use crate::control::{self, Sender};
use crate::message::{Facts, Found, FromRank, Task, ToRank};
use crate::rank::{self, CONTROL};
use forebay_calibrate::measurement::Sample;
use forebay_calibrate::probe::wall_clock;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Channel, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Largest number of greetings at once.
const MOST_GREETINGS: usize = 4096;
/// Questions for each rank's clock.
const QUESTIONS: u32 = 8;
/// Usual [`Crew::grace`].
const GRACE: Duration = Duration::from_secs(30);

/// What happens on the connections of ranks.
enum Event {
    /// A rank has proved that it belongs to the run.
    Greeted(u32, String, TcpStream),
    Message(u32, FromRank),
    Lost(u32, String),
}

/// A rank that has joined.
#[derive(Debug)]
pub struct Mate {
    /// Name of its node.
    pub node: String,
    /// Where it listens for other ranks.
    pub address: SocketAddr,
    /// What its node is like.
    pub facts: Facts,
    /// Its clock, compared with that of rank 0.
    pub offset: Offset,
    /// By how much its wall clock differs from that of rank 0 [s].
    pub wall: f64,
    to: Sender,
}

/// Rank 0 while it listens for the other ranks, before all have joined.
#[derive(Debug)]
pub struct Gate {
    listener: TcpListener,
    member: Member,
}

/// The ranks of a run.
#[derive(Debug)]
pub struct Crew {
    clock: Clock,
    mates: BTreeMap<u32, Mate>,
    /// Ranks that are lost, and why.
    lost: BTreeMap<u32, String>,
    names: BTreeMap<u32, String>,
    events: Receiver<Event>,
    next: u64,
    /// What failed in the last work.
    failures: Vec<Failed>,
    /// Time after the expected end of a task at which a rank without a result counts as hanging.
    pub(crate) grace: Duration,
    stop: &'static AtomicBool,
}

/// Whether tasks that run at the same time are independent. Where they are not, a task that fails stops the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apart {
    /// They are independent, like probes of single nodes.
    Yes,
    /// They need each other, like the two ends of a transfer.
    No,
}

/// Why a task of a rank has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Rank that failed.
    pub rank: u32,
    /// Name of its node.
    pub node: String,
    /// What happened.
    pub why: String,
    /// Whether the rank is lost, and not only this task.
    pub lost: bool,
    /// Whether the task did not end in time.
    pub hangs: bool,
}

impl Gate {
    /// Listens at `address`, of one interface; port 0 stands for any free one.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn open(address: SocketAddr, member: Member) -> io::Result<Gate> {
        Ok(Gate { listener: TcpListener::bind(address)?, member })
    }

    /// Returns where rank 0 listens.
    ///
    /// # Errors
    /// If the system does not tell the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits until all `size` ranks have joined. Rank 0 joins itself, as node `node`, to measure `directory`. `ended` says which ranks have
    /// ended without joining, as far as that is known.
    ///
    /// # Errors
    /// If ranks are missing after [`rank::PATIENCE`], have another version, or the run is interrupted.
    pub fn gather(
        self,
        size: u32,
        node: &str,
        directory: &Path,
        stop: &'static AtomicBool,
        ended: &mut dyn FnMut() -> Vec<String>,
    ) -> Result<Crew, String> {
        let address = self.address().map_err(|error| format!("cannot listen: {error}"))?;
        let own = self.member.clone();
        let (node, directory) = (node.to_owned(), directory.to_owned());
        let join = move || {
            let stream = own.connect(address, CONTROL).map_err(|error| error.to_string())?;
            rank::work_for(stream, own, &node, &directory, None)
        };
        let spawned = thread::Builder::new().name("rank 0".to_owned()).spawn(move || join().ok());
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        self.admit(size, stop, ended)
    }

    /// Waits until all `size` ranks have joined, of which rank 0 is one.
    pub(crate) fn admit(
        self,
        size: u32,
        stop: &'static AtomicBool,
        ended: &mut dyn FnMut() -> Vec<String>,
    ) -> Result<Crew, String> {
        let (tell, events) = channel();
        let to = tell.clone();
        let accepting = self.member.accept(self.listener, MOST_GREETINGS, move |caller, stream| {
            if caller.purpose == CONTROL {
                to.send(Event::Greeted(caller.rank, caller.version, stream)).ok();
            }
        });
        accepting.map_err(|error| format!("cannot start a thread: {error}"))?;
        let mut crew = Crew {
            clock: Clock::start(),
            mates: BTreeMap::new(),
            lost: BTreeMap::new(),
            names: BTreeMap::new(),
            events,
            next: 0,
            failures: Vec::new(),
            grace: GRACE,
            stop,
        };
        crew.wait_for(size, &tell, ended)?;
        crew.compare_clocks()?;
        Ok(crew)
    }
}

impl Crew {
    /// Waits until ranks 0 to `size` − 1 have joined.
    fn wait_for(
        &mut self,
        size: u32,
        tell: &Channel<Event>,
        ended: &mut dyn FnMut() -> Vec<String>,
    ) -> Result<(), String> {
        let until = Instant::now() + rank::PATIENCE;
        let mut senders = BTreeMap::new();
        while self.mates.len() < size as usize {
            if self.stop.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            let gone = ended();
            if !gone.is_empty() {
                return Err(format!("ranks ended before they joined: {}", gone.join(", ")));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let missing: Vec<String> = (0..size)
                    .filter(|rank| !self.mates.contains_key(rank))
                    .map(|rank| rank.to_string())
                    .collect();
                return Err(format!(
                    "{} of {size} ranks joined in {} s; missing: {}. Do they run, see the same --output (or have the same FOREBAY_SECRET), and reach this node?",
                    self.mates.len(),
                    rank::PATIENCE.as_secs(),
                    missing.join(", ")
                ));
            }
            match self.events.recv_timeout(left.min(Duration::from_millis(200))) {
                Ok(Event::Greeted(rank, version, stream)) => {
                    let own = env!("CARGO_PKG_VERSION");
                    if version != own {
                        return Err(format!(
                            "rank {rank} runs forebay {version}, and this is {own}: install the same version on all nodes"
                        ));
                    }
                    if rank >= size || senders.contains_key(&rank) {
                        return Err(format!(
                            "a second rank {rank}, or one beyond {size} ranks, has joined: is another calibration running with this --output?"
                        ));
                    }
                    let lost = |error: io::Error| format!("rank {rank} is lost: {error}");
                    let (to, mut from) = control::split(stream).map_err(lost)?;
                    to.beat(ToRank::Beat);
                    senders.insert(rank, to);
                    let tell = tell.clone();
                    let listen = move || loop {
                        match from.message::<FromRank>() {
                            Ok(message) => {
                                if tell.send(Event::Message(rank, message)).is_err() {
                                    return;
                                }
                            }
                            Err(error) => {
                                tell.send(Event::Lost(rank, control::ended(&error))).ok();
                                return;
                            }
                        }
                    };
                    let spawned = thread::Builder::new().spawn(listen);
                    spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
                }
                Ok(Event::Message(rank, FromRank::Joined { node, address, facts })) => {
                    let Some(to) = senders.get(&rank) else { continue };
                    self.names.insert(rank, node.clone());
                    let offset = Offset { seconds: 0.0, error: f64::INFINITY };
                    let to = to.clone();
                    let mate = Mate { node, address, facts: *facts, offset, wall: 0.0, to };
                    self.mates.insert(rank, mate);
                }
                Ok(Event::Lost(rank, why)) => {
                    return Err(format!("rank {rank} was lost while others joined: {why}"));
                }
                Ok(Event::Message(..)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("the gate is closed".to_owned()),
            }
        }
        Ok(())
    }

    /// Compares the clocks of all ranks with that of rank 0.
    fn compare_clocks(&mut self) -> Result<(), String> {
        for number in 0..QUESTIONS {
            for rank in self.ranks() {
                let Some(mate) = self.mates.get(&rank) else { continue };
                let asked = self.clock.now();
                if mate.to.send(&ToRank::Clock { number }).is_err() {
                    continue;
                }
                let until = Instant::now() + Duration::from_secs(5);
                while let Some(event) = self.event(until) {
                    let (from, of, here, wall) = match event {
                        Event::Message(from, FromRank::Clock { number, here, wall }) => {
                            (from, number, here, wall)
                        }
                        Event::Lost(rank, why) => {
                            let node = self.node(rank);
                            return Err(format!("{node} (rank {rank}) was lost: {why}"));
                        }
                        Event::Message(..) | Event::Greeted(..) => continue,
                    };
                    let back = self.clock.now();
                    if (from, of) == (rank, number)
                        && let Some(mate) = self.mates.get_mut(&rank)
                    {
                        mate.wall = wall - (wall_clock() - 0.5 * (back - asked));
                        mate.offset = mate.offset.better(Offset::of(asked, here, back));
                        break;
                    }
                }
            }
        }
        match self.mates.iter().find(|(_, mate)| mate.offset.error.is_infinite()) {
            Some((rank, mate)) => {
                Err(format!("{} (rank {rank}) did not tell its clock", mate.node))
            }
            None => Ok(()),
        }
    }

    /// Returns what failed in the last work.
    #[must_use]
    pub fn failures(&self) -> &[Failed] {
        &self.failures
    }

    /// Returns the ranks that are there.
    #[must_use]
    pub fn ranks(&self) -> Vec<u32> {
        self.mates.keys().copied().collect()
    }

    /// Returns a rank that is there.
    #[must_use]
    pub fn mate(&self, rank: u32) -> Option<&Mate> {
        self.mates.get(&rank)
    }

    /// Returns the name of a rank's node, also if the rank is lost.
    #[must_use]
    pub fn node(&self, rank: u32) -> String {
        self.names.get(&rank).cloned().unwrap_or_else(|| format!("rank {rank}"))
    }

    /// Returns the ranks that are lost, and why.
    #[must_use]
    pub fn lost(&self) -> &BTreeMap<u32, String> {
        &self.lost
    }

    /// Returns the lowest rank of each node, in order of the nodes' lowest ranks, and the number of ranks of each node.
    #[must_use]
    pub fn leaders(&self) -> Vec<(u32, usize)> {
        let mut seen: BTreeMap<&str, (u32, usize)> = BTreeMap::new();
        for (rank, mate) in &self.mates {
            seen.entry(&mate.node).or_insert((*rank, 0)).1 += 1;
        }
        let mut leaders: Vec<(u32, usize)> = seen.into_values().collect();
        leaders.sort_unstable();
        leaders
    }

    /// Returns the largest error of the ranks' clocks [s].
    #[must_use]
    pub fn skew(&self) -> f64 {
        self.mates.values().map(|mate| mate.offset.error).fold(0.0, f64::max)
    }

    /// Returns the time in `ahead` seconds by the clock of each of `ranks`.
    #[must_use]
    pub fn at(&self, ranks: &[u32], ahead: f64) -> Vec<f64> {
        let time = self.clock.now() + ahead;
        let of = |rank: &u32| self.mates.get(rank).map_or(0.0, |mate| mate.offset.seconds);
        ranks.iter().map(|rank| time + of(rank)).collect()
    }

    /// Returns a new mark, by which the ranks of a task know its connections.
    pub fn tag(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Runs `tasks` at the same time, each for about `seconds`, and returns their results in the same order. Samples that arrive while
    /// tasks run go to `on`. A task that fails stops the others, unless they are independent (`apart`).
    ///
    /// # Errors
    /// Returns the first failure; that of a lost rank comes before others, which it may have caused.
    pub fn work(
        &mut self,
        tasks: Vec<(u32, Task)>,
        seconds: f64,
        apart: Apart,
        on: &mut dyn FnMut(Sample),
    ) -> Result<Vec<Found>, Failed> {
        let mut until = Instant::now() + Duration::from_secs_f64(seconds) + self.grace;
        let (mut ids, mut order) = (BTreeMap::new(), Vec::new());
        let mut failed: Vec<Failed> = Vec::new();
        for (rank, task) in tasks {
            let id = self.tag();
            let sent = match self.mates.get(&rank) {
                Some(mate) => mate.to.send(&ToRank::Do { id, task: Box::new(task) }),
                None => {
                    let why = self.lost.get(&rank).cloned().unwrap_or_default();
                    failed.push(Failed {
                        rank,
                        node: self.node(rank),
                        why,
                        lost: true,
                        hangs: false,
                    });
                    continue;
                }
            };
            match sent {
                Ok(()) => {
                    ids.insert(id, rank);
                    order.push(id);
                }
                Err(error) => failed.push(self.lose(rank, control::ended(&error))),
            }
        }
        let mut found: BTreeMap<u64, Found> = BTreeMap::new();
        let mut told = false;
        while !ids.is_empty() {
            let ends = apart == Apart::No && !failed.is_empty();
            if !told && (self.stop.load(Ordering::Relaxed) || ends) {
                // The results of the other tasks would not be used.
                self.tell_all(&ToRank::Stop);
                told = true;
            }
            let Some(event) = self.event(until) else {
                let hanging: BTreeSet<u32> = ids.values().copied().collect();
                for rank in hanging {
                    let why =
                        "it has not ended its part in time: does its storage or network hang?";
                    failed.push(Failed { hangs: true, ..self.lose(rank, why.to_owned()) });
                }
                break;
            };
            match event {
                Event::Message(_, FromRank::Sample(sample)) => on(*sample),
                Event::Message(_, FromRank::Going) => {
                    until = until.max(Instant::now() + self.grace)
                }
                Event::Message(rank, FromRank::Done { id, result }) => {
                    if ids.remove(&id).is_none() {
                        continue;
                    }
                    match result {
                        Ok(result) => {
                            found.insert(id, result);
                        }
                        Err(why) => {
                            let node = self.node(rank);
                            failed.push(Failed { rank, node, why, lost: false, hangs: false });
                        }
                    }
                }
                Event::Lost(rank, why) => {
                    if self.mates.contains_key(&rank) {
                        failed.push(self.lose(rank, why));
                    }
                    ids.retain(|_, of| *of != rank);
                }
                Event::Message(..) | Event::Greeted(..) => {}
            }
        }
        self.failures = failed;
        if let Some(first) = self.failures.iter().find(|of| of.lost).or(self.failures.first()) {
            return Err(first.clone());
        }
        Ok(order.iter().filter_map(|id| found.remove(id)).collect())
    }

    /// Waits for the next event, at most until `until`.
    fn event(&self, until: Instant) -> Option<Event> {
        self.events.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }

    /// Counts a rank as lost and closes its connection.
    fn lose(&mut self, rank: u32, why: String) -> Failed {
        if let Some(mate) = self.mates.remove(&rank) {
            mate.to.close();
        }
        self.lost.insert(rank, why.clone());
        Failed { rank, node: self.node(rank), why, lost: true, hangs: false }
    }

    fn tell_all(&self, message: &ToRank) {
        for mate in self.mates.values() {
            mate.to.send(message).ok();
        }
    }

    /// Ends all ranks.
    pub fn end(self) {
        self.tell_all(&ToRank::End);
        // Gives the message time to leave before the process ends.
        thread::sleep(Duration::from_millis(100));
    }
}
