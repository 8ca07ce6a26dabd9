//! Memory that will be needed soon.

use prefetch_index::prefetch_index;

/// Has the first cache line of `of` fetched while the program goes on. Changes nothing but the time that
/// it takes.
#[inline]
pub fn prefetch<T>(of: &T) {
    prefetch_index(std::slice::from_ref(of), 0);
}
