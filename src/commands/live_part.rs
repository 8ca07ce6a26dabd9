//! `forebay live-part`: runs one job copy of a live run. The parent process sends its assignment on standard input.

use super::{Failure, output};
use crate::live::{self, Assignment, CopyOutcome, Message};
use crate::probe::limits;
use crate::scenario::{Problems, Reading, ScenarioFile};
use std::io::{self, BufRead, stdin};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};

pub(super) fn execute() -> Result<(), Failure> {
    let lines = match listen() {
        Ok(lines) => lines,
        Err(error) => {
            let why = live::Failure::threads("a job copy", &error).to_string();
            return say(&Message::Failed(why));
        }
    };
    let Ok(line) = lines.recv() else {
        let what = "live-part is for `forebay live`, which tells it what to run";
        return Err(Failure::Input(what.to_owned()));
    };
    let message = match run(&line, &lines) {
        Ok(outcome) => Message::Done(Box::new(outcome)),
        Err(why) => Message::Failed(why),
    };
    say(&message)
}

fn run(line: &str, lines: &Receiver<String>) -> Result<CopyOutcome, String> {
    let assignment: Assignment = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let wrong = |problems: Problems| problems.to_string();
    let file = ScenarioFile::parse(&assignment.name, assignment.text).map_err(wrong)?;
    let reading = Reading { live: true, ..Reading::default() };
    let scenario = file.resolve_as(&assignment.overrides, reading).map_err(wrong)?;
    // Without a smaller number of cores in the scenario, this process keeps all cores that it may use and is not pinned: other
    // processes may have been pinned to the first cores.
    let node = &scenario.cluster.node;
    if node.usable_cores < limits::cores() {
        live::use_cores(node.cores).map_err(|error| error.to_string())?;
    }
    let never = AtomicBool::new(false);
    let ready = || {
        say(&Message::Ready).ok()?;
        lines.recv().ok()?.trim().parse().ok()
    };
    live::run_copy(&scenario, &assignment.part, &never, ready).map_err(|error| error.to_string())
}

/// Starts a thread that sends each line from the parent to the returned receiver. When the parent has ended, the thread ends
/// this process at once.
fn listen() -> io::Result<Receiver<String>> {
    let (sender, receiver) = channel();
    let listen = move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            // A line that nobody receives is no error: the command reads only two.
            sender.send(line).ok();
        }
        std::process::exit(4);
    };
    std::thread::Builder::new().spawn(listen)?;
    Ok(receiver)
}

fn say(message: &Message) -> Result<(), Failure> {
    let mut line = serde_json::to_string(message).map_err(|error| {
        Failure::Machine(format!("cannot write the outcome of a job copy as JSON: {error}"))
    })?;
    line.push('\n');
    output::stdout(line.as_bytes())
}
