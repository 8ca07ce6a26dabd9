//! How the bytes of a batch are laid out in the memory from which they are copied to a GPU.

/// Form of the samples in a batch that is copied to a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Bytes as stored, each a value by itself.
    #[default]
    Bytes,
    /// 32-bit floats, least significant byte first: decoded images.
    Floats,
}

/// Fills `to` with the parts of `content`, one after the other. What does not fit is left out; if there is too little, the content
/// is repeated. Without content, `to` stays as it is.
#[inline]
pub(super) fn lay(content: &[impl AsRef<[u8]>], to: &mut [u8]) {
    let mut filled = 0;
    for part in content {
        let part = part.as_ref();
        let fits = part.len().min(to.len() - filled);
        to[filled..filled + fits].copy_from_slice(&part[..fits]);
        filled += fits;
    }
    while filled > 0 && filled < to.len() {
        // Copies all bytes filled so far, so that the filled length stays a multiple of the content's length until the last copy.
        let more = filled.min(to.len() - filled);
        to.copy_within(..more, filled);
        filled += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_at_the_end_of_its_memory_or_repeated_up_to_it() {
        let laid = |parts: &[&[u8]], size: usize| {
            let mut memory = vec![9; size];
            lay(parts, &mut memory);
            memory
        };
        assert_eq!(laid(&[&[1, 2], &[3, 4, 5]], 5), [1, 2, 3, 4, 5]);
        assert_eq!(laid(&[&[1, 2], &[3, 4, 5], &[6]], 4), [1, 2, 3, 4]);
        assert_eq!(laid(&[&[1, 2], &[3]], 11), [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2]);
        assert_eq!(laid(&[&[], &[7]], 3), [7, 7, 7]);
        assert_eq!(laid(&[], 2), [9, 9], "no content");
    }
}
