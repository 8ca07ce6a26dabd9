//! Runs job copies as separate processes that start at the same instant.
//!
//! Each child is this program with a hidden command. It reads its assignment from its standard input as one line of JSON. When it
//! has prepared everything, it writes `Message::Ready` to its standard output. Then all children get the instant of the start on
//! the machine's monotonic clock. Each child returns its outcome as a line of JSON. A child ends when its standard input is
//! closed, so no child is left behind if this process dies.

use super::clock::monotonic;
use super::fault::Failure;
use super::task::{CopyOutcome, CopyTask};
use forebay_model::input;
use forebay_scenario::Override;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The only argument of a process of a live run, which `live` starts for each job copy.
pub const PART: &str = "live-part";
/// Time from the moment when all children are ready to the start, so that every child gets the message in time [ns].
const LEAD: u64 = 20_000_000;

/// The first message to a child.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Assignment {
    /// Name of the scenario file.
    pub name: String,
    /// Text of the scenario file.
    pub text: String,
    /// The user's changes to keys of the scenario, in their order.
    pub overrides: Vec<Override>,
    /// Job copy that the child runs.
    pub part: CopyTask,
}

/// A message from a child.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// The child has prepared everything.
    Ready,
    /// Outcome of the job copy.
    Done(Box<CopyOutcome>),
    /// Reason why the job copy cannot run, or failed.
    Failed(String),
}

/// A child process and the pipe to its standard input. Dropping it kills the child.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    what: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The child may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs job copies side by side: each assignment in its own process of `executable`.
pub(super) fn run(
    executable: &Path,
    assignments: &[(String, Assignment)],
    stop: &AtomicBool,
) -> Result<Vec<CopyOutcome>, Failure> {
    let (sender, receiver) = channel();
    let mut processes = Vec::new();
    for (index, (what, assignment)) in assignments.iter().enumerate() {
        processes.push(start(executable, index, what, assignment, &sender)?);
    }
    drop(sender);
    let mut outcomes: Vec<Option<CopyOutcome>> = assignments.iter().map(|_| None).collect();
    let mut ready = 0;
    while outcomes.iter().any(Option::is_none) {
        let (index, line) = next(&receiver, stop)?;
        match line.map(|line| serde_json::from_str(&line)) {
            Some(Ok(Message::Ready)) => {
                ready += 1;
                if ready == processes.len() {
                    tell(&mut processes, monotonic() + LEAD)?;
                }
            }
            Some(Ok(Message::Done(outcome))) => outcomes[index] = Some(*outcome),
            Some(Ok(Message::Failed(why))) => {
                return Err(Failure::Lacking(format!("{}: {why}", processes[index].what)));
            }
            Some(Err(error)) => {
                let what = &processes[index].what;
                return Err(Failure::Lacking(format!("the process of {what} said: {error}")));
            }
            None if outcomes[index].is_some() => {}
            None => return Err(died(&mut processes[index])),
        }
    }
    Ok(outcomes.into_iter().flatten().collect())
}

fn start(
    executable: &Path,
    index: usize,
    what: &str,
    assignment: &Assignment,
    sender: &Sender<(usize, Option<String>)>,
) -> Result<Process, Failure> {
    let fail = |error| Failure::threads(&format!("the process of {what}"), &error);
    let mut command = Command::new(executable);
    command.arg(PART).stdin(Stdio::piped()).stdout(Stdio::piped());
    // The children do not get Ctrl-C from the terminal: this process ends them in order.
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::OutOfMemory => fail(error),
        _ => {
            Failure::Lacking(format!("cannot start a process for {what}: {}", input::words(&error)))
        }
    })?;
    let stdout = child.stdout.take();
    let stdin = child.stdin.take();
    let mut process = Process { child, stdin, what: what.to_owned() };
    let mut line = serde_json::to_string(assignment).map_err(|error| fail(error.into()))?;
    line.push('\n');
    if let Some(stdin) = &mut process.stdin {
        // A child that has died already is noticed when its output ends.
        stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).ok();
    }
    if let Some(stdout) = stdout {
        let sender = sender.clone();
        let listen = move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send((index, Some(line))).is_err() {
                    return;
                }
            }
            // If sending fails, the receiver is gone.
            sender.send((index, None)).ok();
        };
        let started = std::thread::Builder::new().spawn(listen);
        started.map_err(|error| Failure::threads(&format!("the process of {what}"), &error))?;
    }
    Ok(process)
}

/// Returns the next line from a child with the child's index; the line is `None` if the child has ended.
fn next(
    receiver: &Receiver<(usize, Option<String>)>,
    stop: &AtomicBool,
) -> Result<(usize, Option<String>), Failure> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        match receiver.recv_timeout(Duration::from_millis(50)) {
            Ok(message) => return Ok(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Lacking("no process of the run is left".to_owned()));
            }
        }
    }
}

/// Sends the instant of the start to all children.
fn tell(processes: &mut [Process], start: u64) -> Result<(), Failure> {
    for process in processes {
        let Some(stdin) = &mut process.stdin else { continue };
        if writeln!(stdin, "{start}").and_then(|()| stdin.flush()).is_err() {
            return Err(died(process));
        }
    }
    Ok(())
}

fn died(process: &mut Process) -> Failure {
    process.stdin = None;
    let how = match process.child.wait() {
        Ok(status) => describe(status),
        Err(error) => error.to_string(),
    };
    let what = &process.what;
    Failure::Lacking(format!(
        "the process of {what} ended before the run was complete ({how}); check whether this machine had too little memory"
    ))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "for no known reason".to_owned(),
    }
}
