//! The answers of an exchange.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::message::{Action, MAX_BODY_CHUNK, Reply};

/// The answers of an exchange, in order. Answers that are added together leave in one write if they fit.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(super) queue: VecDeque<Reply>,
    pub(super) finished: bool,
}

impl Outbox {
    /// Adds an answer. A body that is longer than [`MAX_BODY_CHUNK`] is sent in several messages. The last message has the
    /// end of stream and the metadata.
    pub fn push(&mut self, reply: impl Into<Reply>) {
        let mut reply = reply.into();
        match &mut reply.action {
            Action::RequestBody { body, .. } => {
                while let Some(piece) = cut(body) {
                    self.queue.push_back(Action::RequestBody { body: piece, end_of_stream: false }.into());
                }
            }
            Action::ResponseBody { body, .. } => {
                while let Some(piece) = cut(body) {
                    self.queue.push_back(Action::ResponseBody { body: piece, end_of_stream: false }.into());
                }
            }
            _ => {}
        }
        self.queue.push_back(reply);
    }

    /// Takes the next answer.
    pub(crate) fn pop(&mut self) -> Option<Reply> {
        self.queue.pop_front()
    }

    /// Whether no answer is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the stream ends after the queued answers.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns the answers as a proxy will see them; for driving an exchange without a connection.
    pub fn into_replies(self) -> Vec<Reply> {
        self.queue.into_iter().filter_map(|reply| Reply::from_wire(reply.into_wire())).collect()
    }

    /// Ends the stream without an error after the queued answers. Must not be called before the request's body was returned:
    /// a proxy would send an empty body.
    pub fn finish(&mut self) {
        self.finished = true;
    }
}

fn cut(body: &mut Bytes) -> Option<Bytes> {
    (body.len() > MAX_BODY_CHUNK).then(|| body.split_to(MAX_BODY_CHUNK))
}
