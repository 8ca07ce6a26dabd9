//! Runs another program.

use super::Worker;
use crate::message::Found;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Largest output that is kept [B].
const MOST: u64 = 4 << 20;

/// Runs a program, without a shell, in the environment of this process; returns the lines that it prints.
pub(super) fn run(worker: &Worker, command: &[String], patience: f64) -> Result<Found, String> {
    let [program, arguments @ ..] = command else { return Err("no program".to_owned()) };
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What it starts itself ends with it.
        .process_group(0)
        .spawn();
    let mut child = started.map_err(|error| format!("cannot start {program}: {error}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let until = Instant::now() + Duration::from_secs_f64(patience);
    let (text, complaint, status) = thread::scope(|scope| {
        let text = scope.spawn(move || all(out));
        let complaint = scope.spawn(move || all(err));
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Err(error) => break Err(error.to_string()),
                Ok(None) if Instant::now() >= until || worker.stopped() => {
                    end(&child);
                    child.wait().ok();
                    break Err(format!("it took longer than {patience} s"));
                }
                Ok(None) => thread::sleep(Duration::from_millis(20)),
            }
        };
        end(&child);
        (text.join().unwrap_or_default(), complaint.join().unwrap_or_default(), status)
    });
    let why = match status {
        Ok(status) if status.success() => {
            let lines = text.lines().map(str::to_owned).collect();
            return Ok(Found { lines, ..Found::default() });
        }
        Ok(status) => status.to_string(),
        Err(why) => why,
    };
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{program} failed: {why}: {last}"))
}

/// Ends a program with everything that it has started: its output is complete only then.
fn end(child: &Child) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        kill_process_group(group, Signal::KILL).ok();
    }
}

fn all(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(MOST).read_to_end(&mut bytes).ok();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
