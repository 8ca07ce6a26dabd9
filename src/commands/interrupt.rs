//! Ctrl-C and termination signals: start nothing new, keep finished results, and respond within a second.
//!
//! The first signal asks the command to end. A command that has not called [`flag`] does not notice, so the process ends at
//! once with a message. A command that has called it gets [`GRACE`] to end by itself. After that, the process ends or prints
//! what it still waits for, as set by [`when_late`]. A second signal always ends the process.

use super::output;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

/// Signals within this time of the first count as one: `timeout` sends one to its child and one to its group.
const SAME: Duration = Duration::from_secs(1);

/// Time that a command may take to end by itself after the first signal.
const GRACE: Duration = Duration::from_millis(500);

/// Exit code of an interrupted command.
pub(super) const CODE: u8 = 4;

static STOP: AtomicBool = AtomicBool::new(false);
static INSTALLED: OnceLock<bool> = OnceLock::new();
static STATE: Mutex<State> = Mutex::new(State::new());

/// What happens to a command that has not ended within [`GRACE`] of the first signal.
#[derive(Debug, Clone)]
pub(super) enum Late {
    /// The process ends; the message says what was kept.
    End(String),
    /// The command continues work that must not be cut short; the message names this work.
    GoOn(String),
}

struct State {
    /// When the first signal was handled.
    first: Option<Instant>,
    /// Whether the command has called [`flag`], and so polls it.
    asked: bool,
    late: Option<Late>,
    /// What remains on disk if a second signal ends the process, for the message.
    kept: Option<String>,
}

impl State {
    const fn new() -> State {
        State { first: None, asked: false, late: None, kept: None }
    }
}

/// Starts a thread that handles signals. If the system refuses, signals keep their default action, which ends the process.
pub(super) fn install() {
    INSTALLED.get_or_init(|| {
        // Without a handler, a file that outgrows `ulimit -f` ends the process; with one, the write fails with a message.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).ok();
        let (tell, ready) = sync_channel(1);
        let listen = move || {
            let signals = Signals::new(heeded(ignored()));
            tell.send(signals.is_ok()).ok();
            if let Ok(mut signals) = signals {
                signals.forever().for_each(|_| on_signal());
            }
        };
        thread::Builder::new().spawn(listen).is_ok() && ready.recv().unwrap_or(false)
    });
}

/// Returns the signals to handle: interrupt, termination and hang-up, except those in `ignored` (bit 0 for signal 1). The
/// program's parent wants these ignored, as `nohup` does with hang-up.
fn heeded(ignored: u64) -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// Returns the signals that are ignored when the command starts, as a bit mask with bit 0 for signal 1.
fn ignored() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

/// Returns the flag that the first signal raises, and records that the command polls it.
pub(super) fn flag() -> &'static AtomicBool {
    state().asked = true;
    &STOP
}

/// Returns the flag that the first signal raises, for a command that must not be cut short: after a signal, the command ends what
/// it has started and removes its files, however long that takes.
pub(super) fn careful_flag() -> &'static AtomicBool {
    when_late(Late::GoOn("ending what was started and removing its files".to_owned()));
    flag()
}

/// Returns whether a signal has come, or [`raise`] was called.
pub(super) fn raised() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// Raises the flag as a signal would, to end work in progress whose results cannot be used.
pub(super) fn raise() {
    STOP.store(true, Ordering::SeqCst);
}

/// Undoes [`raise`], so that the command goes on with its other work, unless a signal has come.
pub(super) fn lower() {
    let now = state();
    if now.first.is_none() {
        STOP.store(false, Ordering::SeqCst);
    }
}

/// Sets what happens to a command that has not ended within [`GRACE`] of a signal.
pub(super) fn when_late(late: Late) {
    state().late = Some(late);
}

/// Sets the message for a process that a second signal ends at once: what remains on disk.
pub(super) fn when_ended_at_once(kept: String) {
    state().kept = Some(kept);
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Meaning of a signal for the command.
#[derive(Debug, PartialEq, Eq)]
enum Signal {
    First,
    /// A repetition of the first signal, within [`SAME`]; ignored.
    Same,
    Second,
}

impl Signal {
    /// Classifies a signal that arrives at `now`. `first` is the time of the first signal; `None` if no signal came before.
    fn new(first: Option<Instant>, now: Instant) -> Signal {
        match first {
            None => Signal::First,
            Some(first) if now.saturating_duration_since(first) < SAME => Signal::Same,
            Some(_) => Signal::Second,
        }
    }
}

fn on_signal() {
    let mut now = state();
    match Signal::new(now.first, Instant::now()) {
        Signal::Same => {}
        Signal::Second => {
            let kept = now.kept.take();
            let kept = kept.unwrap_or_else(|| "what was not finished is lost".to_owned());
            drop(now);
            end(&format!("interrupted again, and ended at once: {kept}"));
        }
        Signal::First => {
            now.first = Some(Instant::now());
            let asked = now.asked;
            drop(now);
            STOP.store(true, Ordering::SeqCst);
            if !asked {
                late();
            } else if thread::Builder::new().spawn(wait).is_err() {
                // No thread can be started, so this one sleeps; later signals are handled only after that.
                wait();
            }
        }
    }
}

fn wait() {
    thread::sleep(GRACE);
    late();
}

/// Does what [`when_late`] has set, because the command has not ended in time or does not poll the flag; by default ends the
/// process.
fn late() {
    let late = state().late.take();
    match late {
        Some(Late::GoOn(with)) => {
            output::say(&format!("forebay: interrupted: {with}; a second signal ends it at once"));
        }
        Some(Late::End(kept)) => end(&format!("interrupted: {kept}")),
        None => end("interrupted: nothing more was written"),
    }
}

/// Ends the process without waiting for anything.
fn end(message: &str) {
    output::remove_unfinished();
    // Holding standard error keeps other threads from writing after this message.
    let _held = io::stderr().lock();
    output::say(&format!("forebay: {message}"));
    exit(CODE.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_of_the_first_signal_count_as_one() {
        let first = Instant::now();
        let after =
            |seconds: f64| Signal::new(Some(first), first + Duration::from_secs_f64(seconds));
        assert_eq!(Signal::new(None, first), Signal::First);
        assert_eq!([after(0.0), after(0.001), after(0.999)], [const { Signal::Same }; 3]);
        assert_eq!([after(1.0), after(60.0)], [const { Signal::Second }; 2]);
    }

    #[test]
    fn signals_that_are_ignored_at_the_start_stay_ignored() {
        let of = |ignored| heeded(ignored).collect::<Vec<i32>>();
        assert_eq!(of(0), [SIGINT, SIGTERM, SIGHUP]);
        assert_eq!(of(1 << (SIGHUP - 1)), [SIGINT, SIGTERM], "nohup");
        assert_eq!(of(1 << (SIGINT - 1)), [SIGTERM, SIGHUP], "a shell's background job");
    }

    #[test]
    fn interrupted_commands_have_a_grace_period_of_less_than_a_second() {
        assert!(GRACE < SAME && GRACE + Duration::from_millis(500) <= Duration::from_secs(1));
    }
}
