//! Messages between `culd` and a program of its own that it keeps running.
//!
//! In: parts, which are any bytes. Out: the same parts on the other side of a stream. Guaranteed:
//! memory is taken for bytes that have come, not for a length that is announced.
//!
//! A message is the number of its parts in a line, then for each part a line with its length in
//! bytes and its bytes.

use std::io::{self, BufRead, Read, Write};

/// The longest line: the digits of a length and the end of the line.
const LONGEST_LINE: u64 = 21;

/// Bytes of the first step in which memory for a part is taken; each other step doubles it.
const FIRST_STEP: usize = 64 << 10;

/// Writes a message of `parts`.
///
/// # Errors
/// Those of `to`.
pub fn write(to: &mut impl Write, parts: &[impl AsRef<[u8]>]) -> io::Result<()> {
    let mut bytes = format!("{}\n", parts.len()).into_bytes();
    for part in parts.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("{}\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
    }
    to.write_all(&bytes)?;
    to.flush()
}

/// The parts of the next message; `None` where the stream ends in front of one.
///
/// # Errors
/// Those of `from`; what comes is no message, or ends inside one.
pub fn read(from: &mut impl BufRead) -> io::Result<Option<Vec<Vec<u8>>>> {
    let Some(count) = number(from)? else { return Ok(None) };
    let mut parts = Vec::new();
    for _ in 0..count {
        let length = number(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        parts.push(part(from, length)?);
    }
    Ok(Some(parts))
}

/// The next `length` bytes. The steps in which memory is taken do not depend on how they come:
/// NVIDIA's compiler orders some of its output by addresses.
fn part(from: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    loop {
        let left = length - part.len() as u64;
        let Ok(step) = usize::try_from(left.min(part.len().max(FIRST_STEP) as u64)) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if step == 0 {
            return Ok(part);
        }
        let begin = part.len();
        part.resize(begin + step, 0);
        from.read_exact(&mut part[begin..])?;
    }
}

/// The number in the next line; `None` at the end of the stream.
fn number(from: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut line = Vec::new();
    from.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let number = line.strip_suffix(b"\n").and_then(|digits| crate::bytes(digits).parse().ok());
    number.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_sent() {
        let messages: [&[&[u8]]; 3] = [&[b"ptx", b"", b"12\n3\0\xff"], &[], &[b"last"]];
        let mut stream = Vec::new();
        for message in messages {
            write(&mut stream, message).unwrap();
        }
        assert!(stream.starts_with(b"3\n3\nptx0\n6\n12\n"));
        let mut stream = stream.as_slice();
        for message in messages {
            assert_eq!(read(&mut stream).unwrap().unwrap(), message);
        }
        assert_eq!(read(&mut stream).unwrap(), None);
    }

    #[test]
    fn other_streams_are_errors() {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        for (stream, kind) in [
            ("1", InvalidData),
            ("x\n", InvalidData),
            ("-1\n", InvalidData),
            ("99999999999999999999999\n", InvalidData),
            ("1\n", UnexpectedEof),
            ("1\n3\nab", UnexpectedEof),
            ("2\n1\na", UnexpectedEof),
            ("1\n18446744073709551615\na", UnexpectedEof),
            ("18446744073709551615\n", UnexpectedEof),
        ] {
            assert_eq!(read(&mut stream.as_bytes()).unwrap_err().kind(), kind, "{stream:?}");
        }
    }
}
