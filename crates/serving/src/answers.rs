//! Complete answers, collected from events, and their token counts.

use futures::{StreamExt, stream::BoxStream};
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
    pub(crate) fn json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + self.completion,
            "completion_tokens": self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        })
    }
}

/// A complete answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The tokens of the text.
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
                answers[choice].calls.push(Call { name, arguments: String::new() });
            }
            Event::Arguments { choice, index, token } => {
                if let Some(call) = answers[choice].calls.get_mut(index) {
                    call.arguments += &token.text;
                }
            }
            Event::Finished { choice, reason, stop } => {
                answers[choice].reason = reason;
                answers[choice].stop = stop;
            }
        }
    }
    (answers, usage)
}

/// Returns how many tokens an event adds.
pub(crate) fn tokens(event: &Event) -> usize {
    usize::from(matches!(event, Event::Text { .. } | Event::Arguments { .. }))
}
