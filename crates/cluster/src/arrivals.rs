//! Connections that carry data from rank to rank: a rank listens, and hands each connection to the task that waits for its mark.

use crate::secret::{self, Caller, Run, Secret};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time of a greeting, and of a transfer without progress.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// Largest number of greetings at once, so that strangers cannot take all memory.
const MOST_GREETINGS: usize = 256;

/// Who this process is to the others of its run.
#[derive(Debug, Clone)]
pub struct Member {
    /// Secret of the run.
    pub secret: Secret,
    /// Number of the run.
    pub run: Run,
    /// Number of this process.
    pub rank: u32,
}

impl Member {
    /// Returns the greeting of this process for a connection with this purpose.
    #[must_use]
    pub fn caller(&self, purpose: &str) -> Caller {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Caller { rank: self.rank, version, purpose: purpose.to_owned() }
    }

    /// Connects to another process of the run.
    ///
    /// # Errors
    /// If nobody listens there, or it is a stranger.
    pub fn connect(&self, to: SocketAddr, purpose: &str) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        secret::call(&mut stream, &self.secret, self.run, &self.caller(purpose))?;
        Ok(stream)
    }

    /// Accepts connections for as long as this process lives, and passes on those from processes of the run. Each is greeted in a thread
    /// of its own, at most `most` at once, so that a stranger who says nothing keeps nobody waiting; more are closed.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn accept(
        &self,
        listener: TcpListener,
        most: usize,
        on: impl Fn(Caller, TcpStream) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let greetings = Arc::new(AtomicUsize::new(0));
        let (member, on) = (self.clone(), Arc::new(on));
        let accept = move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else {
                    thread::sleep(Duration::from_millis(10));
                    continue;
                };
                if greetings.fetch_add(1, Ordering::Relaxed) >= most {
                    greetings.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (member, on, ended) = (member.clone(), on.clone(), greetings.clone());
                let greet = move || {
                    if let Ok(caller) = member.greet(&mut stream) {
                        on(caller, stream);
                    }
                    ended.fetch_sub(1, Ordering::Relaxed);
                };
                if thread::Builder::new().spawn(greet).is_err() {
                    greetings.fetch_sub(1, Ordering::Relaxed);
                }
            }
        };
        thread::Builder::new().name("accept".to_owned()).spawn(accept)?;
        Ok(())
    }

    /// Lets a process that connects prove that it belongs to the run. Returns who it is.
    fn greet(&self, stream: &mut TcpStream) -> io::Result<Caller> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let caller = secret::answer(&mut Greeting::new(stream), &self.secret, self.run)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(caller)
    }
}

/// A connection with a time limit for the whole greeting: with one for each read, a stranger who sends a byte now and then would never end.
struct Greeting<'a> {
    stream: &'a mut TcpStream,
    until: Instant,
}

impl Greeting<'_> {
    fn new(stream: &mut TcpStream) -> Greeting<'_> {
        Greeting { stream, until: Instant::now() + PATIENCE }
    }
}

impl Read for Greeting<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(to)
    }
}

impl Write for Greeting<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Connections that have arrived, by their marks.
#[derive(Debug, Default)]
struct Waiting {
    streams: Mutex<BTreeMap<String, Vec<TcpStream>>>,
    more: Condvar,
}

/// Where a rank listens for others.
#[derive(Debug, Clone)]
pub struct Arrivals {
    waiting: Arc<Waiting>,
    address: SocketAddr,
}

/// Returns the purpose of a data connection with this mark.
#[must_use]
pub fn marked(tag: u64) -> String {
    format!("data {tag}")
}

impl Arrivals {
    /// Listens at `address`, of one interface, for connections of the run.
    ///
    /// # Errors
    /// If the address is not one of this node's.
    pub fn listen(address: IpAddr, member: &Member) -> io::Result<Arrivals> {
        let listener = TcpListener::bind((address, 0))?;
        let arrivals = Arrivals { waiting: Arc::default(), address: listener.local_addr()? };
        let waiting = arrivals.waiting.clone();
        member.accept(listener, MOST_GREETINGS, move |caller, stream| {
            let mut all = waiting.streams.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(caller.purpose).or_default().push(stream);
            waiting.more.notify_all();
        })?;
        Ok(arrivals)
    }

    /// Returns where the rank listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for `count` connections with the mark `tag`.
    ///
    /// # Errors
    /// If they do not all arrive in time.
    pub fn take(&self, tag: u64, count: usize) -> io::Result<Vec<TcpStream>> {
        let (mark, until) = (marked(tag), Instant::now() + PATIENCE);
        let mut all = self.waiting.streams.lock().unwrap_or_else(PoisonError::into_inner);
        while all.get(&mark).is_none_or(|streams| streams.len() < count) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let there = all.remove(&mark).map_or(0, |streams| streams.len());
                let what = format!(
                    "only {there} of {count} connections arrived in {} s",
                    PATIENCE.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            let waited = self.waiting.more.wait_timeout(all, left);
            all = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(all.remove(&mark).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_reach_the_task_that_waits_for_their_mark() {
        let member = Member { secret: Secret::new().unwrap(), run: Run::new().unwrap(), rank: 1 };
        let arrivals = Arrivals::listen("127.0.0.1".parse().unwrap(), &member).unwrap();
        // A stranger with another protocol, and one that says nothing.
        let mut stranger = TcpStream::connect(arrivals.address()).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let _silent = TcpStream::connect(arrivals.address()).unwrap();
        let wrong = Member { secret: Secret::new().unwrap(), ..member.clone() };
        assert!(wrong.connect(arrivals.address(), &marked(7)).is_err());
        for (tag, byte) in [(8, b'x'), (7, b'a'), (7, b'a')] {
            let mut stream = member.connect(arrivals.address(), &marked(tag)).unwrap();
            stream.write_all(&[byte]).unwrap();
        }
        let taken = arrivals.take(7, 2).unwrap();
        assert_eq!(taken.len(), 2);
        for mut stream in taken {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            assert_eq!(byte, *b"a");
        }
    }
}
