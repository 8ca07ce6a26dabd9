//! The progress of runs: how many are done, how far those in progress are, elapsed time and time left. On a terminal it is one
//! line that is redrawn; elsewhere, as in the log of a batch job, a line from time to time.

use super::output;
use crate::scenario::printable_line;
use crate::sim::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Minimum duration of work for which progress is shown.
const SHORT: Duration = Duration::from_millis(500);

/// Time until the first line where there is no terminal, and the longest time from one line to the next.
const FIRST_LINE: Duration = Duration::from_secs(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1800);

/// The progress of several runs; each run in progress has a slot.
pub(super) struct Watch {
    bar: ProgressBar,
    runs: Arc<Runs>,
}

struct Runs {
    all: AtomicU64,
    done: AtomicU64,
    slots: Vec<Progress>,
}

impl Watch {
    /// Shows the progress of `all` runs, at most `slots` of which are in progress at once, unless `quiet`.
    pub(super) fn new(all: u64, slots: usize, quiet: bool) -> Watch {
        let slots = (0..slots).map(|_| Progress::default()).collect();
        let runs = Arc::new(Runs { all: AtomicU64::new(all), done: AtomicU64::new(0), slots });
        let target =
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(all), target);
        let told = Arc::clone(&runs);
        let line = move |state: &ProgressState, to: &mut dyn Write| {
            if state.elapsed() >= SHORT {
                // An error of the terminal is no reason to stop.
                to.write_str(&told.line(state.elapsed())).ok();
            }
        };
        if let Ok(style) = ProgressStyle::with_template("{line}") {
            bar.set_style(style.with_key("line", line));
        }
        tick(&bar);
        if !quiet && !io::stderr().is_terminal() {
            write_lines(Arc::downgrade(&runs));
        }
        Watch { bar, runs }
    }

    /// Returns the slots, in which runs report their progress.
    pub(super) fn slots(&self) -> &[Progress] {
        &self.runs.slots
    }

    /// Corrects the number of all runs: a point that was assumed to take `assumed` runs takes `runs`.
    pub(super) fn expect(&self, assumed: u32, runs: u32) {
        self.runs.all.fetch_add(u64::from(runs), Ordering::Relaxed);
        self.runs.all.fetch_sub(u64::from(assumed), Ordering::Relaxed);
    }

    /// Counts a run as done.
    pub(super) fn done(&self) {
        self.runs.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends and clears the progress line.
    pub(super) fn end(self) {
        self.bar.finish_and_clear();
    }
}

/// The progress of a verdict; what is known before it is written to standard error if the verdict takes long.
pub(super) struct VerdictWatch {
    bar: ProgressBar,
    begin: Instant,
    /// What is known before the verdict, until it is written.
    interim: Mutex<Option<String>>,
}

/// Duration of a verdict after which users see what is known before it.
const LONG: Duration = Duration::from_secs(5);

impl VerdictWatch {
    /// Shows the progress of a verdict, unless `quiet`.
    pub(super) fn new(quiet: bool, interim: String) -> VerdictWatch {
        let target =
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30.█░} {percent} % of {msg}, {elapsed}")
        {
            bar.set_style(style.progress_chars("█░"));
        }
        tick(&bar);
        let interim = Mutex::new((!quiet).then_some(interim));
        VerdictWatch { bar, begin: Instant::now(), interim }
    }

    /// Shows that a part of the verdict on a job is done.
    pub(super) fn tell(&self, job: &str, share: f64) {
        self.bar.set_message(format!("the verdict on `{}`", printable_line(job)));
        self.bar.set_position((1000.0 * share) as u64);
        if self.begin.elapsed() >= LONG {
            let mut interim = self.interim.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = interim.take() {
                self.bar.suspend(|| output::say_wrapped(&known));
            }
        }
    }

    /// Ends and clears the progress line.
    pub(super) fn end(self) {
        self.bar.finish_and_clear();
    }
}

/// Redraws a bar five times a second until it is finished, in a thread. If the system starts no thread, the bar is redrawn only
/// when the work advances.
pub(super) fn tick(bar: &ProgressBar) {
    if bar.is_hidden() {
        return;
    }
    let weak = bar.downgrade();
    let draw = move || {
        while let Some(bar) = weak.upgrade().filter(|bar| !bar.is_finished()) {
            bar.tick();
            drop(bar);
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    std::thread::Builder::new().name("progress".to_owned()).spawn(draw).ok();
}

/// Writes lines with the progress of `runs` until they are dropped, in a thread. If the system starts no thread, there are none.
fn write_lines(runs: Weak<Runs>) {
    let begin = Instant::now();
    let write = move || {
        let mut due = FIRST_LINE;
        loop {
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            let Some(runs) = runs.upgrade() else { return };
            output::say(&format!("forebay: {}", runs.words(begin.elapsed())));
            due = next_line(begin.elapsed());
        }
    };
    std::thread::Builder::new().name("progress".to_owned()).spawn(write).ok();
}

/// Returns when the next line is written after one at `elapsed`: pauses grow with the time that has gone by.
fn next_line(elapsed: Duration) -> Duration {
    elapsed + elapsed.clamp(FIRST_LINE, LONGEST_PAUSE)
}

impl Runs {
    /// Returns the share of all work that is done, including the finished part of runs in progress.
    fn share(&self) -> f64 {
        let begun: f64 = self.slots.iter().map(Progress::share).sum();
        let all = self.all.load(Ordering::Relaxed).max(1);
        ((self.done.load(Ordering::Relaxed) as f64 + begun) / all as f64).min(1.0)
    }

    /// Returns the line that shows the progress on a terminal: a bar, and the progress in words.
    fn line(&self, elapsed: Duration) -> String {
        let full = (self.share() * 30.0) as usize;
        format!("{}{} {}", "█".repeat(full), "░".repeat(30 - full), self.words(elapsed))
    }

    /// Returns the progress in words.
    fn words(&self, elapsed: Duration) -> String {
        let (share, done) = (self.share(), self.done.load(Ordering::Relaxed));
        let simulated = self.slots.iter().map(Progress::seconds).fold(0.0, f64::max);
        let events: u64 = self.slots.iter().map(Progress::events).sum();
        let left = match share > 0.005 {
            true => clock(elapsed.as_secs_f64() * (1.0 - share) / share) + " left",
            false => "time left not known yet".to_owned(),
        };
        let all = self.all.load(Ordering::Relaxed);
        let runs = if all > 1 { format!("{done} of {all} runs, ") } else { String::new() };
        let now = format!("{simulated:.3} s simulated, {:.1} M events", events as f64 / 1e6);
        format!(
            "{:.0} %, {runs}{now}, {} elapsed, {left}",
            100.0 * share,
            clock(elapsed.as_secs_f64())
        )
    }
}

/// Formats a time as hours, minutes and seconds: `1:02:03`.
fn clock(seconds: f64) -> String {
    let seconds = seconds.min(1e9) as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        _ => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_shows_percentage_and_remaining_time() {
        let slots = vec![Progress::default()];
        let runs = Runs { all: AtomicU64::new(4), done: AtomicU64::new(1), slots };
        let line = runs.line(Duration::from_secs(100));
        assert!(line.contains(" 25 %, 1 of 4 runs"), "{line}");
        assert!(line.ends_with("1:40 elapsed, 5:00 left"), "{line}");
        let begun = Runs { done: AtomicU64::new(0), ..runs };
        let line = begun.line(Duration::from_secs(1));
        assert!(line.ends_with("time left not known yet"), "{line}");
        assert_eq!(clock(3723.9), "1:02:03");
    }

    #[test]
    fn without_a_terminal_progress_lines_come_at_growing_intervals_up_to_half_an_hour() {
        let lines = std::iter::successors(Some(FIRST_LINE), |at| Some(next_line(*at)));
        let seconds: Vec<u64> = lines.take(10).map(|at| at.as_secs()).collect();
        assert_eq!(seconds, [20, 40, 80, 160, 320, 640, 1280, 2560, 4360, 6160]);
    }
}
