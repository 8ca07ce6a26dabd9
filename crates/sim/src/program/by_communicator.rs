//! Tables with an entry for each kind of communicator.

use std::ops::{Index, IndexMut};

use super::op::Communicator;

/// A table with a `T` for each kind of communicator, indexed by the kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByCommunicator<T>([T; Communicator::ALL.len()]);

impl<T> Index<Communicator> for ByCommunicator<T> {
    type Output = T;

    #[inline]
    fn index(&self, kind: Communicator) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<Communicator> for ByCommunicator<T> {
    fn index_mut(&mut self, kind: Communicator) -> &mut T {
        &mut self.0[kind as usize]
    }
}
