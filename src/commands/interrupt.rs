//! Ctrl-C and termination: finish nothing new, keep what is done.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
static INSTALLED: OnceLock<bool> = OnceLock::new();

/// The flag that the first signal raises; the second ends the process at once.
pub(super) fn flag() -> &'static AtomicBool {
    INSTALLED.get_or_init(|| {
        ctrlc::set_handler(|| {
            if STOP.swap(true, Ordering::SeqCst) {
                std::process::exit(4);
            }
        })
        .is_ok()
    });
    &STOP
}

/// Whether a signal has come.
pub(super) fn raised() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// Ends the work in progress as a signal would: nobody can take its results.
pub(super) fn raise() {
    STOP.store(true, Ordering::SeqCst);
}
