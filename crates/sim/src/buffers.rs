//! Buffers in a GPU's memory that learners share: who needs one takes one that is free, or has one made; who is done
//! leaves it to others (Koliousis et al., *Crossbow*, PVLDB 12(11), 2019).

/// Buffers of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Buffers {
    used: u32,
    made: u32,
}

impl Buffers {
    /// Someone needs one.
    pub(super) fn take(&mut self) {
        self.used += 1;
        self.made = self.made.max(self.used);
    }

    /// Someone is done with one.
    pub(super) fn leave(&mut self) {
        self.used -= 1;
    }

    /// All are free.
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// How many there are, used or free: the most that ever were used at once.
    pub(super) fn made(&self) -> u32 {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_made_only_where_none_is_free() {
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
