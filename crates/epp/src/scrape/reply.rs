//! Finds the page in an HTTP response, in the buffer that the response is read into.

use std::ops::Range;

/// The longest head.
const MAX_HEAD: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// The longest chunk header or trailer line.
const MAX_LINE: usize = 4 << 10;

/// Why a response cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplyError {
    #[error("status {0}")]
    Status(u16),
    #[error("the answer is not HTTP/1.1")]
    Malformed,
    #[error("the page is longer than {0} bytes")]
    TooLong(usize),
    #[error("the connection was closed within the answer")]
    Cut,
}

/// A response that is being read. Each byte in the buffer is examined once.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    state: State,
    /// Whether another request may follow on the connection.
    keeps: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    /// The page is this range of the buffer.
    Known(Range<usize>),
    /// The page starts here and ends when the connection is closed.
    Rest(usize),
    /// The page has chunks, which are moved together in the buffer.
    Chunks {
        page: Range<usize>,
        /// The start of the bytes that were not examined yet.
        next: usize,
        last: bool,
    },
}

impl Reply {
    /// Examines the new bytes in the buffer. Returns the page's range once the page is complete. `ended` says that no more
    /// bytes come.
    pub(crate) fn examine(
        &mut self,
        buffer: &mut [u8],
        ended: bool,
        longest: usize,
    ) -> Result<Option<Range<usize>>, ReplyError> {
        if matches!(self.state, State::Head) && !self.head(buffer, longest)? {
            return if ended || buffer.len() > MAX_HEAD { Err(ReplyError::Malformed) } else { Ok(None) };
        }
        let found = match &mut self.state {
            State::Head => None,
            State::Known(page) => (buffer.len() >= page.end).then(|| {
                // The buffer has more bytes than the response, so the next response could not be told from them.
                self.keeps &= buffer.len() == page.end;
                page.clone()
            }),
            State::Rest(start) => {
                if buffer.len() - *start > longest {
                    return Err(ReplyError::TooLong(longest));
                }
                ended.then_some(*start..buffer.len())
            }
            State::Chunks { page, next, last } => {
                // The chunk framing could be much longer than the page, so the whole response has a limit too.
                if buffer.len() - page.start > longest.saturating_mul(2).saturating_add(MAX_LINE) {
                    return Err(ReplyError::TooLong(longest));
                }
                let whole = chunks(buffer, page, next, last, longest)?;
                self.keeps &= !whole || *next == buffer.len();
                whole.then(|| page.clone())
            }
        };
        if found.is_none() && ended { Err(ReplyError::Cut) } else { Ok(found) }
    }

    /// Whether the connection can be used again.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    fn head(&mut self, buffer: &[u8], longest: usize) -> Result<bool, ReplyError> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(buffer).map_err(|_| ReplyError::Malformed)?;
        let httparse::Status::Complete(start) = parsed else { return Ok(false) };
        let status = response.code.unwrap_or_default();
        if !(200..300).contains(&status) {
            return Err(ReplyError::Status(status));
        }
        self.keeps = response.version == Some(1);
        let (mut length, mut chunked) = (None, false);
        for header in response.headers.iter() {
            let value = header.value.trim_ascii();
            if header.name.eq_ignore_ascii_case("content-length") {
                let number = std::str::from_utf8(value).ok().and_then(|value| value.parse::<usize>().ok());
                length = Some(number.ok_or(ReplyError::Malformed)?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(ReplyError::Malformed);
                }
                chunked = true;
            } else if header.name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case(b"close") {
                self.keeps = false;
            }
        }
        self.state = match length {
            _ if chunked => State::Chunks { page: start..start, next: start, last: false },
            Some(length) if length > longest => return Err(ReplyError::TooLong(longest)),
            Some(length) => State::Known(start..start + length),
            None => {
                self.keeps = false;
                State::Rest(start)
            }
        };
        Ok(true)
    }
}

/// Moves the complete chunks to the end of the page. Returns whether the last chunk has come.
fn chunks(
    buffer: &mut [u8],
    page: &mut Range<usize>,
    next: &mut usize,
    last: &mut bool,
    longest: usize,
) -> Result<bool, ReplyError> {
    loop {
        let rest = &buffer[*next..];
        let Some(end) = memchr::memchr(b'\n', rest) else {
            return if rest.len() > MAX_LINE { Err(ReplyError::Malformed) } else { Ok(false) };
        };
        let line = rest[..end].trim_ascii();
        if *last {
            // Trailers are skipped.
            *next += end + 1;
            if line.is_empty() {
                return Ok(true);
            }
            continue;
        }
        let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let size = std::str::from_utf8(size).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.ok_or(ReplyError::Malformed)?;
        if size == 0 {
            *last = true;
            *next += end + 1;
            continue;
        }
        if size > longest - page.len() {
            return Err(ReplyError::TooLong(longest));
        }
        let data = *next + end + 1..*next + end + 1 + size;
        let Some(after) = buffer.get(data.end..data.end + 2) else { return Ok(false) };
        if after != b"\r\n" {
            return Err(ReplyError::Malformed);
        }
        *next = data.end + 2;
        buffer.copy_within(data, page.end);
        page.end += size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nx: y\r\n\r\n";

    /// Reads a response byte by byte. Returns the page, and whether the connection can be used again.
    fn read(answer: &str) -> Result<(String, bool), ReplyError> {
        let mut reply = Reply::default();
        let mut buffer = Vec::new();
        for byte in answer.bytes() {
            buffer.push(byte);
            if let Some(page) = reply.examine(&mut buffer, false, 100)? {
                return Ok((String::from_utf8(buffer[page].to_vec()).unwrap(), reply.keeps()));
            }
        }
        let page = reply.examine(&mut buffer, true, 100)?.unwrap();
        Ok((String::from_utf8(buffer[page].to_vec()).unwrap(), reply.keeps()))
    }

    fn at_once(answer: &str) -> Result<(String, bool), ReplyError> {
        let mut reply = Reply::default();
        let mut buffer = answer.as_bytes().to_vec();
        let page = reply.examine(&mut buffer, true, 100)?.unwrap();
        Ok((String::from_utf8(buffer[page].to_vec()).unwrap(), reply.keeps()))
    }

    #[test]
    fn a_page_is_found_however_it_is_framed_and_cut() {
        for (answer, keeps) in [
            (PLAIN.to_owned(), true),
            (CHUNKED.to_owned(), true),
            (PLAIN.replace("OK\r\n", "OK\r\nConnection: close\r\n"), false),
            (PLAIN.replace("1.1", "1.0"), false),
            (PLAIN.replace("Content-Length: 11\r\n", ""), false),
        ] {
            assert_eq!(read(&answer), Ok(("hello world".to_owned(), keeps)), "{answer}");
            assert_eq!(at_once(&answer), Ok(("hello world".to_owned(), keeps)), "{answer}");
        }
        assert_eq!(at_once(&format!("{PLAIN}more")), Ok(("hello world".to_owned(), false)));
        assert_eq!(at_once(&format!("{CHUNKED}more")), Ok(("hello world".to_owned(), false)));
    }

    #[test]
    fn frames_and_trailers_without_end_are_too_long() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        for endless in
            [format!("1;{}\r\na\r\n", "x".repeat(4000)), format!("0\r\n{}", "x: y\r\n".repeat(700))]
        {
            let mut reply = Reply::default();
            let mut buffer = head.as_bytes().to_vec();
            let error = (0..100).find_map(|_| {
                buffer.extend_from_slice(endless.as_bytes());
                reply.examine(&mut buffer, false, 100).err()
            });
            assert_eq!(error, Some(ReplyError::TooLong(100)));
        }
    }

    #[test]
    fn what_is_no_page_is_an_error() {
        for (answer, error) in [
            ("HTTP/1.1 503 No\r\n\r\n".to_owned(), ReplyError::Status(503)),
            (PLAIN.replace("11", "12"), ReplyError::Cut),
            (PLAIN.replace("11", "101"), ReplyError::TooLong(100)),
            (PLAIN.replace("11", "-1"), ReplyError::Malformed),
            (CHUNKED.replace("5\r\n", "ffffffffffffffff\r\n"), ReplyError::TooLong(100)),
            (CHUNKED.replace("hello\r\n", "hello!!"), ReplyError::Malformed),
            (CHUNKED.replace("chunked", "gzip"), ReplyError::Malformed),
            (CHUNKED.replace("0\r\nx: y\r\n\r\n", ""), ReplyError::Cut),
            ("SSH-2.0-OpenSSH".to_owned(), ReplyError::Malformed),
            (String::new(), ReplyError::Malformed),
        ] {
            assert_eq!(read(&answer), Err(error.clone()), "{answer}");
            assert_eq!(at_once(&answer), Err(error), "{answer}");
        }
    }
}
