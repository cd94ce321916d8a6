//! Tracks the part of a response that the picker has received but not returned. The client must get this part even if the
//! picker dies.

use std::collections::VecDeque;

use bytes::Bytes;

/// The most bytes to buffer. If a picker holds back more than this and then fails, the response cannot continue.
const LIMIT: usize = 4 << 20;

/// The chunks that have not come back.
#[derive(Debug)]
pub(super) struct PendingChunks {
    chunks: VecDeque<Bytes>,
    bytes: usize,
    /// Whether a part of the first chunk has come back.
    cut: bool,
    /// Whether it is still known which chunks have come back.
    known: bool,
}

impl Default for PendingChunks {
    fn default() -> Self {
        Self { chunks: VecDeque::new(), bytes: 0, cut: false, known: true }
    }
}

// === impl PendingChunks ===

impl PendingChunks {
    /// Adds a chunk that is sent to the picker next.
    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.known && !chunk.is_empty() {
            self.bytes += chunk.len();
            self.chunks.push_back(chunk);
            if self.bytes > LIMIT {
                self.stop_tracking();
            }
        }
    }

    /// Records bytes that came back: either the next bytes unchanged, or the next chunk with changes. Typical changes, such
    /// as another model name, keep the number of lines. If the number differs, the picker splits the body in its own way,
    /// and the position is unknown from then on.
    pub(super) fn record_reply(&mut self, reply: &[u8]) {
        if !self.known || reply.is_empty() || self.as_sent(reply) {
            return;
        }
        let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').count();
        match self.chunks.pop_front() {
            Some(chunk) if !self.cut && lines(&chunk) == lines(reply) => self.bytes -= chunk.len(),
            _ => self.stop_tracking(),
        }
    }

    /// Removes the oldest chunk, or what is left of it, because it goes on as it was sent.
    pub(super) fn pass(&mut self) -> Option<Bytes> {
        let chunk = self.chunks.pop_front()?;
        self.bytes -= chunk.len();
        self.cut = false;
        Some(chunk)
    }

    /// Whether it is known which chunks have not come back.
    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    /// Returns the part that the client has not got yet, or `None` if it is unknown.
    pub(super) fn rest(self) -> Option<VecDeque<Bytes>> {
        self.known.then_some(self.chunks)
    }

    /// Removes bytes that came back unchanged. Returns `false`, and removes nothing, if they were changed.
    fn as_sent(&mut self, reply: &[u8]) -> bool {
        let mut left = reply;
        for chunk in &self.chunks {
            let count = left.len().min(chunk.len());
            if left[..count] != chunk[..count] {
                return false;
            }
            left = &left[count..];
            if left.is_empty() {
                break;
            }
        }
        if !left.is_empty() {
            return false;
        }
        // From here on chunks are removed. The comparison could have failed in any of them.
        let mut count = reply.len();
        self.bytes -= count;
        while count > 0
            && let Some(chunk) = self.chunks.front_mut()
        {
            self.cut = chunk.len() > count;
            if self.cut {
                let _ = chunk.split_to(count);
                break;
            }
            count -= chunk.len();
            self.chunks.pop_front();
        }
        true
    }

    fn stop_tracking(&mut self) {
        self.known = false;
        self.chunks = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(sent: &[&'static str], back: &[&str]) -> Option<String> {
        let mut shown = PendingChunks::default();
        for chunk in sent {
            shown.push(Bytes::from_static(chunk.as_bytes()));
        }
        for reply in back {
            shown.record_reply(reply.as_bytes());
        }
        let rest = shown.rest()?.into_iter().collect::<Vec<_>>().concat();
        Some(String::from_utf8(rest).unwrap())
    }

    #[test]
    fn what_did_not_come_back_is_left() {
        assert_eq!(rest(&["ab", "cd"], &[]).as_deref(), Some("abcd"));
        assert_eq!(rest(&["ab", "cd"], &["ab"]).as_deref(), Some("cd"));
        assert_eq!(rest(&["ab", "cd"], &["abc"]).as_deref(), Some("d"));
        assert_eq!(rest(&["ab", "cd"], &["a", "", "bcd"]).as_deref(), Some(""));
    }

    #[test]
    fn a_changed_chunk_counts_as_one_and_changed_lines_as_unknown() {
        assert_eq!(rest(&["m: x\n\n", "m: x\n\n"], &["m: yyy\n\n"]).as_deref(), Some("m: x\n\n"));
        assert_eq!(rest(&["m: x\n\n", "m: x\n\n"], &["m: y\n\nm: y\n\n"]), None);
        assert_eq!(rest(&["abcd", "x"], &["ab", "CD"]), None, "the first chunk had come back in part");
        assert_eq!(rest(&["ab"], &["ab", "more"]), None);
    }

    #[test]
    fn a_picker_that_holds_too_much_back_is_not_done_without() {
        let mut shown = PendingChunks::default();
        for _ in 0..5 {
            shown.push(Bytes::from(vec![0; 1 << 20]));
        }
        assert_eq!(shown.rest(), None);
    }
}
