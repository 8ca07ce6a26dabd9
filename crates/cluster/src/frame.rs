//! Frames: four bytes that mark the protocol, the length, the content. A length beyond the limit is refused before anything is
//! allocated for it.

use std::io::{self, ErrorKind, Read, Write};

/// Bytes at the beginning of each frame.
const MARK: [u8; 4] = *b"fb1\n";

/// Largest content of a frame of processes that have not proved who they are [B].
pub const MOST_BEFORE: usize = 1 << 10;
/// Largest content of other frames [B].
pub const MOST: usize = 16 << 20;

/// Reads a frame of at most `most` bytes of content.
///
/// # Errors
/// If the connection ends or times out, or what comes is no such frame.
pub fn read(from: &mut impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut head = [0; 8];
    from.read_exact(&mut head)?;
    let [a, b, c, d, length @ ..] = head;
    if [a, b, c, d] != MARK {
        return Err(io::Error::new(ErrorKind::InvalidData, "this is not forebay's protocol"));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > most {
        let what = format!("a frame of {length} B is longer than {most} B");
        return Err(io::Error::new(ErrorKind::InvalidData, what));
    }
    let mut content = Vec::new();
    // Memory grows with what arrives, not with what the length promises.
    let got = from.take(length as u64).read_to_end(&mut content)?;
    if got < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(content)
}

/// Writes a frame.
///
/// # Errors
/// If the connection fails, or the content is longer than [`MOST`].
pub fn write(to: &mut impl Write, content: &[u8]) -> io::Result<()> {
    if content.len() > MOST {
        let what = format!("a frame of {} B is longer than {MOST} B", content.len());
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let mut whole = Vec::with_capacity(8 + content.len());
    whole.extend(MARK);
    whole.extend(length.to_be_bytes());
    whole.extend(content);
    to.write_all(&whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_as_they_were_written() {
        let mut bytes = Vec::new();
        for content in [&b"one"[..], b"", b"three"] {
            write(&mut bytes, content).unwrap();
        }
        let mut from = &bytes[..];
        let all: Vec<Vec<u8>> = (0..3).map(|_| read(&mut from, 100).unwrap()).collect();
        assert_eq!(all, [&b"one"[..], b"", b"three"]);
        assert_eq!(read(&mut from, 100).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn other_protocols_and_long_or_cut_frames_are_refused() {
        let refused = |bytes: &[u8]| read(&mut &bytes[..], 1000).unwrap_err().to_string();
        assert!(refused(b"GET / HTTP/1.1\r\n").contains("not forebay's protocol"));
        let huge = [&MARK[..], &u32::MAX.to_be_bytes()].concat();
        assert!(refused(&huge).contains("longer than 1000 B"));
        let cut = [&MARK[..], &9_u32.to_be_bytes(), b"four"].concat();
        assert_eq!(read(&mut &cut[..], 1000).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(write(&mut Vec::new(), &vec![0; MOST + 1]).is_err());
    }
}
