//! Broken invariants: states that the simulator excludes. Debug builds, and thus tests, stop there; release builds leave out what
//! could not be done, and a run that then comes to a standstill is reported as an internal error.

/// Reports that an invariant is broken: `what` is a sentence on what should have been there.
#[cold]
#[track_caller]
pub(super) fn broken(what: &str) {
    debug_assert!(false, "{what}");
}
