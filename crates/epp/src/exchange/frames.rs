//! Splits a gRPC response, which arrives in arbitrary pieces, into its messages.

use longboat_scheduler::Usage;

use crate::body::{Api, HEADER, grpc_usage, length};

/// A longer message is skipped unread. Messages with token counts are far shorter.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Keeps the incomplete message and the last usage.
#[derive(Debug)]
pub(super) struct Frames {
    api: Api,
    kept: Vec<u8>,
    /// The bytes that are still to skip of a message that is too long.
    skip: usize,
    usage: Option<Usage>,
    /// Whether the frames are broken, so that nothing more can be read.
    lost: bool,
}

impl Frames {
    /// Creates a reader for the response to a request of this API. Returns `None` if the API's responses are not gRPC messages
    /// with usage.
    pub(super) fn of(api: Api) -> Option<Self> {
        let has = matches!(api, Api::VllmGenerate | Api::VllmEmbed);
        has.then(|| Self { api, kept: Vec::new(), skip: 0, usage: None, lost: false })
    }

    pub(super) fn push(&mut self, mut chunk: &[u8]) {
        while !self.lost && !chunk.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(chunk.len());
                (self.skip, chunk) = (self.skip - skipped, &chunk[skipped..]);
                continue;
            }
            if let Some(header) = self.kept.first_chunk::<HEADER>() {
                let Ok(length) = length(*header) else {
                    self.lost = true;
                    return;
                };
                if length > MAX_MESSAGE_BYTES {
                    self.kept.clear();
                    self.skip = length;
                    continue;
                }
                self.fill(&mut chunk, HEADER + length);
            } else {
                self.fill(&mut chunk, HEADER);
            }
            self.read();
        }
    }

    /// Moves bytes from `chunk` to `kept` until `kept` has `until` bytes.
    fn fill(&mut self, chunk: &mut &[u8], until: usize) {
        let wanted = until.saturating_sub(self.kept.len()).min(chunk.len());
        let (taken, rest) = chunk.split_at(wanted);
        self.kept.extend_from_slice(taken);
        *chunk = rest;
    }

    /// Reads the message if it is complete.
    fn read(&mut self) {
        let Some((header, message)) = self.kept.split_first_chunk::<HEADER>() else { return };
        let Ok(length) = length(*header) else { return };
        if message.len() == length {
            self.usage = grpc_usage(self.api, message).or(self.usage);
            self.kept.clear();
        }
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with its frame header.
    fn frame(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0], &length[..], message].concat()
    }

    #[test]
    fn usage_is_found_however_the_messages_are_cut() {
        // Two pieces of a stream: {2: 7, 3: 1}, then {2: 7, 3: 2, 4: 3}.
        let first = frame(&[0x0a, 4, 0x10, 7, 0x18, 1]);
        let last = frame(&[0x0a, 6, 0x10, 7, 0x18, 2, 0x20, 3]);
        let all = [first, frame(&[]), last].concat();
        for size in 1..=all.len() {
            let mut frames = Frames::of(Api::VllmGenerate).unwrap();
            all.chunks(size).for_each(|chunk| frames.push(chunk));
            assert_eq!(frames.usage(), Some(Usage { input: 7, output: 2, cached: 3 }), "{size}");
        }
    }

    #[test]
    fn the_whole_has_its_usage_behind_a_reason_and_embeddings_theirs() {
        let mut frames = Frames::of(Api::VllmGenerate).unwrap();
        frames.push(&frame(&[0x12, 9, 0x12, 1, b's', 0x18, 5, 0x20, 6, 0x28, 4]));
        assert_eq!(frames.usage(), Some(Usage { input: 5, output: 6, cached: 4 }));
        let mut frames = Frames::of(Api::VllmEmbed).unwrap();
        frames.push(&frame(&[0x0a, 4, 0, 0, 0, 0, 0x10, 9]));
        assert_eq!(frames.usage(), Some(Usage { input: 9, ..Usage::default() }));
        assert!(Frames::of(Api::VertexChat).is_none() && Frames::of(Api::ChatCompletions).is_none());
    }

    #[test]
    fn long_messages_are_skipped_and_compressed_ones_end_it() {
        let mut frames = Frames::of(Api::VllmGenerate).unwrap();
        let long = frame(&vec![0; MAX_MESSAGE_BYTES + 1]);
        long.chunks(1000).for_each(|chunk| frames.push(chunk));
        assert!(frames.kept.is_empty());
        frames.push(&frame(&[0x0a, 2, 0x10, 7]));
        assert_eq!(frames.usage().map(|usage| usage.input), Some(7));
        frames.push(&[1, 0, 0, 0, 0, 9, 9]);
        assert!(frames.lost);
    }
}
