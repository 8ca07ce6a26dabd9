//! Buffers in a GPU's memory that learners share: a learner takes a free buffer, or a new one is allocated; it later gives the
//! buffer back for others (Koliousis et al., *Crossbow*, PVLDB 12(11), 2019).

/// Buffers of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Buffers {
    used: u32,
    made: u32,
}

impl Buffers {
    /// Takes a buffer; allocates one if none is free.
    pub(super) fn take(&mut self) {
        self.used += 1;
        self.made = self.made.max(self.used);
    }

    /// Gives a buffer back.
    pub(super) fn leave(&mut self) {
        self.used -= 1;
    }

    /// Gives all buffers back.
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// Returns the number of buffers, used or free: the maximum that was ever used at once.
    pub(super) fn made(&self) -> u32 {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_allocated_only_if_none_is_free() {
        let mut buffers = Buffers::default();
        buffers.take();
        buffers.take();
        buffers.leave();
        buffers.take();
        assert_eq!(buffers.made(), 2);
        buffers.take();
        assert_eq!(buffers.made(), 3);
    }
}
