//! Complete answers, collected from events, and their token counts.

use futures::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};

use crate::{Call, Event, Stop, Token};

/// Token counts of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    pub(crate) completion: usize,
    pub(crate) cached: usize,
}

impl Usage {
    /// Returns the counts alone, as in chunks before the last one.
    pub(crate) fn counts(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + self.completion,
            "completion_tokens": self.completion,
        })
    }

    /// Returns the form at the end of a stream.
    pub(crate) fn json(self) -> Value {
        let mut usage = self.counts();
        usage["prompt_tokens_details"] = json!({"cached_tokens": self.cached});
        usage
    }
}

/// A complete answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// All tokens, also those of calls.
    pub(crate) tokens: Vec<Token>,
    pub(crate) calls: Vec<Call>,
    pub(crate) reason: &'static str,
    pub(crate) stop: Option<Stop>,
}

/// Waits for all answers.
pub(crate) async fn collect(
    mut events: BoxStream<'static, Event>,
    mut usage: Usage,
    count: usize,
) -> (Vec<Answer>, Usage) {
    let mut answers: Vec<Answer> = std::iter::repeat_with(Answer::default).take(count).collect();
    while let Some(event) = events.next().await {
        usage.completion += tokens(&event);
        match event {
            Event::Text { choice, token } => {
                answers[choice].text += &token.text;
                answers[choice].tokens.push(token);
            }
            Event::Call { choice, index: _, name } => {
                answers[choice].calls.push(Call { name, ..Call::default() });
            }
            Event::Arguments { choice, index, token } => {
                if let Some(call) = answers[choice].calls.get_mut(index) {
                    call.arguments += &token.text;
                }
                answers[choice].tokens.push(token);
            }
            Event::Finished { choice, reason, stop } => {
                answers[choice].reason = reason;
                answers[choice].stop = stop;
            }
        }
    }
    (answers, usage)
}

/// Returns the events of a stream, each with the end of its answer if the limit or a token without a text ends the answer there: vLLM
/// then sends both in one chunk. No event waits for the next one, so the end comes alone if it is late.
pub(crate) fn with_ends(
    events: BoxStream<'static, Event>,
) -> impl Stream<Item = (Event, Option<Event>)> + Send {
    // Fused, because looking ahead may poll the stream again after its end.
    stream::unfold((events.fuse(), None), |(mut events, next)| async {
        let event = match next {
            Some(event) => event,
            None => events.next().await?,
        };
        let next = if tokens(&event) > 0 { events.next().now_or_never().flatten() } else { None };
        let is_silent = matches!(&event, Event::Text { token, .. } if token.text.is_empty());
        let ends =
            |next: &Event| matches!(next, Event::Finished { reason, .. } if is_silent || *reason == "length");
        Some(match next {
            Some(end) if ends(&end) => ((event, Some(end)), (events, None)),
            next => ((event, None), (events, next)),
        })
    })
}

/// Writes why an answer ended into a choice of a chunk.
pub(crate) fn finish(choice: &mut Value, reason: &str, stop: Option<&Stop>) {
    choice["finish_reason"] = reason.into();
    choice["stop_reason"] = json!(stop);
}

/// Returns how many tokens an event adds.
pub(crate) fn tokens(event: &Event) -> usize {
    usize::from(matches!(event, Event::Text { .. } | Event::Arguments { .. }))
}
