//! Prefetching of memory that will be needed soon.

use prefetch_index::prefetch_index;

/// Starts to fetch the first cache line of `of` into the cache, while the program goes on. Changes how long the
/// program takes, and nothing else.
#[inline]
pub fn prefetch<T>(of: &T) {
    prefetch_index(std::slice::from_ref(of), 0);
}
