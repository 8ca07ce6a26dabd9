//! A rank: joins rank 0, does what it is asked for, and ends when rank 0 does.

use crate::arrivals::{Arrivals, Member};
use crate::clock::Clock;
use crate::control::{self, Sender};
use crate::facts;
use crate::launch::Launch;
use crate::message::{FromRank, Task, ToRank};
use crate::rendezvous::Rendezvous;
use crate::work::Worker;
use forebay_calibrate::probe::wall_clock;
use forebay_model::input::shown;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Purpose of the connection between a rank and rank 0.
pub(crate) const CONTROL: &str = "control";

/// Time that a rank waits for rank 0: file servers may show old directories for a minute.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// Time that tasks get to end when the rank ends.
const ENDING: Duration = Duration::from_secs(5);
/// Time between two attempts.
const AGAIN: Duration = Duration::from_millis(300);

/// How a rank finds rank 0.
#[derive(Debug, Clone)]
pub enum Way {
    /// By the file below the output directory, which all nodes see.
    File {
        /// The output directory.
        output: PathBuf,
        /// Job of the launcher; a file of another job is left over from it.
        job: Option<String>,
    },
    /// By an address and a secret from the process that started this one.
    Told(Rendezvous),
}

/// Joins rank 0, which listens where `way` tells, and works for it until it ends the run, or until `leave` is set. `directory` is what will
/// be measured.
///
/// # Errors
/// If there is no rank 0, or the connection to it ends early.
pub fn serve(
    launch: &Launch,
    way: &Way,
    directory: &Path,
    leave: &'static AtomicBool,
) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    let (stream, member) = join(launch, way, until)?;
    work_for(stream, member, &launch.node, directory, Some(leave))
}

/// Connects to rank 0.
fn join(launch: &Launch, way: &Way, until: Instant) -> Result<(TcpStream, Member), String> {
    let rank = launch.rank;
    // A rank 0 that answered and has ended meanwhile tells less than its answer did.
    let mut answered = None;
    loop {
        let why = match find(way) {
            Ok(found) => {
                let member = Member { secret: found.secret, run: found.run, rank };
                match member.connect(found.address, CONTROL) {
                    Ok(stream) => return Ok((stream, member)),
                    Err(error) => {
                        let why = refused(found.address, &error);
                        if is_stranger(&error) {
                            answered = Some(why.clone());
                        }
                        why
                    }
                }
            }
            Err(why) => why,
        };
        if Instant::now() >= until {
            let (node, why) = (&launch.node, answered.unwrap_or(why));
            return Err(format!(
                "rank {rank} on {node} found no rank 0 in {} s: {why}",
                PATIENCE.as_secs()
            ));
        }
        thread::sleep(AGAIN);
    }
}

fn find(way: &Way) -> Result<Rendezvous, String> {
    let (output, job) = match way {
        Way::Told(told) => return Ok(told.clone()),
        Way::File { output, job } => (output, job),
    };
    let place = shown(output);
    let found = Rendezvous::read(output).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!(
            "{place} has no rendezvous here; name an --output on a file system that all nodes mount, the same for all ranks"
        ),
        _ => format!("the rendezvous in {place} cannot be used: {error}"),
    })?;
    match (job, &found.job) {
        (Some(own), Some(other)) if own != other => Err(format!(
            "the rendezvous in {place} is of job {other}, and this is job {own}: did rank 0 start?"
        )),
        _ => Ok(found),
    }
}

/// Returns whether the other end of a connection has another secret or run: it says so, or it hangs up.
fn is_stranger(error: &io::Error) -> bool {
    [ErrorKind::PermissionDenied, ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset]
        .contains(&error.kind())
}

fn refused(address: SocketAddr, error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::ConnectionRefused => {
            ": did rank 0 end, or is this left over from an earlier run?"
        }
        _ if is_stranger(error) => {
            ": it may be of another run; do all ranks have the same FOREBAY_SECRET, or the same --output?"
        }
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            ": does a firewall keep nodes apart? `--interface` names another network interface"
        }
        _ => "",
    };
    format!("rank 0 at {address}: {error}{remedy}")
}

/// Works for the rank 0 at the other end of `stream` until it ends the run.
pub(crate) fn work_for(
    stream: TcpStream,
    member: Member,
    node: &str,
    directory: &Path,
    leave: Option<&'static AtomicBool>,
) -> Result<(), String> {
    let lost = |error: io::Error| format!("{node} has lost rank 0: {}", control::ended(&error));
    let own = stream.local_addr().map_err(lost)?.ip();
    let arrivals = Arrivals::listen(own, &member)
        .map_err(|error| format!("{node} cannot listen at {own}: {error}"))?;
    let (to, mut from) = control::split(stream).map_err(lost)?;
    let facts = Box::new(facts::look(own, directory));
    to.send(&FromRank::Joined { node: node.to_owned(), address: arrivals.address(), facts })
        .map_err(lost)?;
    to.beat(FromRank::Beat);
    let stop = Arc::new(AtomicBool::new(false));
    let worker = Worker {
        member,
        arrivals,
        clock: Clock::start(),
        stop: stop.clone(),
        to: to.clone(),
        node: node.to_owned(),
    };
    let mut tasks: Vec<thread::JoinHandle<()>> = Vec::new();
    let ended = loop {
        // Rank 0 says something every two seconds.
        if leave.is_some_and(|leave| leave.load(Ordering::Relaxed)) {
            break Ok(());
        }
        match from.message::<ToRank>() {
            Ok(ToRank::Beat) => {}
            Ok(ToRank::Clock { number }) => {
                let here = worker.clock.now();
                let wall = wall_clock();
                to.send(&FromRank::Clock { number, here, wall }).ok();
            }
            Ok(ToRank::Do { id, task }) => {
                // Rank 0 asks for more only when what it has stopped here has ended.
                stop.store(false, Ordering::Relaxed);
                tasks.retain(|task| !task.is_finished());
                tasks.extend(start(&worker, &to, id, *task));
            }
            Ok(ToRank::Stop) => stop.store(true, Ordering::Relaxed),
            Ok(ToRank::End) => break Ok(()),
            Err(error) => break Err(lost(error)),
        }
    };
    stop.store(true, Ordering::Relaxed);
    to.close();
    // Tasks remove their own files; one that hangs is not waited for.
    let until = Instant::now() + ENDING;
    while Instant::now() < until && tasks.iter().any(|task| !task.is_finished()) {
        thread::sleep(Duration::from_millis(20));
    }
    ended
}

/// Does a task in a thread of its own, and sends its result.
fn start(worker: &Worker, to: &Sender, id: u64, task: Task) -> Option<thread::JoinHandle<()>> {
    let (worker, sender) = (worker.clone(), to.clone());
    let work = move || {
        let result = worker.work(task);
        sender.send(&FromRank::Done { id, result }).ok();
    };
    match thread::Builder::new().name("task".to_owned()).spawn(work) {
        Ok(task) => Some(task),
        Err(error) => {
            let result = Err(format!("cannot start a thread: {error}; raise `ulimit -u`"));
            to.send(&FromRank::Done { id, result }).ok();
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_says_why_it_found_no_rank_0() {
        let output = tempfile::tempdir().unwrap();
        let launch = Launch {
            rank: 2,
            size: 3,
            node: "n3".into(),
            job: Some("8.0".into()),
            launcher: "srun",
        };
        let way = Way::File { output: output.path().to_owned(), job: launch.job.clone() };
        let at_once = || join(&launch, &way, Instant::now()).map(|_| ()).unwrap_err();
        let none = at_once();
        assert!(
            none.contains("rank 2 on n3 found no rank 0") && none.contains("all nodes mount"),
            "{none}"
        );
        let stale = Rendezvous {
            run: crate::secret::Run::new().unwrap(),
            secret: crate::secret::Secret::new().unwrap(),
            address: "127.0.0.1:9".parse().unwrap(),
            job: Some("7.0".into()),
            node: "n1".into(),
        };
        let _published = stale.publish(output.path()).unwrap();
        let other = at_once();
        assert!(other.contains("is of job 7.0, and this is job 8.0"), "{other}");
        let same = Rendezvous { job: Some("8.0".into()), ..stale };
        let _published = same.publish(output.path()).unwrap();
        let dead = at_once();
        assert!(dead.contains("127.0.0.1:9") && dead.contains("earlier run"), "{dead}");
    }

    #[test]
    fn a_rank_with_another_secret_is_told_so_also_when_rank_0_has_ended_meanwhile() {
        let (run, secret) = (crate::secret::Run::new().unwrap(), crate::secret::Secret::new);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let first = Member { secret: secret().unwrap(), run, rank: 0 };
        // Greets one rank, and ends.
        let gate = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            crate::secret::answer(&mut stream, &first.secret, first.run).unwrap_err();
        });
        let (secret, node) = (secret().unwrap(), "n1".to_owned());
        let way = Way::Told(Rendezvous { run, secret, address, job: None, node });
        let node = "n2".to_owned();
        let launch = Launch { rank: 1, size: 2, node, job: None, launcher: "FOREBAY_RANK" };
        let until = Instant::now() + 2 * AGAIN;
        let why = join(&launch, &way, until).map(|_| ()).unwrap_err();
        gate.join().unwrap();
        assert!(why.contains("n2") && why.contains("same FOREBAY_SECRET"), "{why}");
    }
}
