//! A conversation with a service, in the terminal.

use std::{io, time::Duration};

use owo_colors::OwoColorize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    Service,
    interrupts::Interrupts,
    prompt::{self, Answer},
};
use crate::printer::{self, Stream};

const HELP: &str = "  /system TEXT   set the system prompt; without a text, remove it
  /stats         show the tokens and times of the last answer and of all answers
  /clear         forget the conversation
  /bye, /exit    end, as Ctrl-D does
Ctrl-C stops an answer.";

/// The longest line that a person can type, in bytes. A terminal passes on at most 4 KiB at a time; pasted text is longer.
const MAX_LINE: u64 = 1 << 20;

/// The messages so far, and what they have cost.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    system: Option<String>,
    temperature: f32,
    /// Questions and answers in turn.
    messages: Vec<Value>,
    stats: Stats,
}

/// Tokens and times of answers.
#[derive(Debug, Default)]
struct Stats {
    /// Answers that came to their end. For others, the server reports no tokens.
    answers: u64,
    tokens: u64,
    streaming: Duration,
    last: Option<String>,
}

/// What a person typed.
#[derive(Debug, PartialEq, Eq)]
enum Input<'a> {
    Nothing,
    Help,
    System(&'a str),
    Stats,
    Clear,
    Bye,
    Unknown(&'a str),
    Prompt(&'a str),
}

// === impl Input ===

impl<'a> Input<'a> {
    fn parse(line: &'a str) -> Self {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "" => Self::Nothing,
            "/help" | "/?" => Self::Help,
            "/system" => Self::System(rest.trim()),
            "/stats" => Self::Stats,
            "/clear" => Self::Clear,
            "/bye" | "/exit" | "/quit" => Self::Bye,
            // A path is no command: `/usr/bin/env python3 fails, why?`
            word if word.starts_with('/') && !word[1..].contains('/') => Self::Unknown(word),
            _ => Self::Prompt(line),
        }
    }
}

// === impl Stats ===

impl Stats {
    fn add(&mut self, answer: &Answer) {
        let Some(first) = answer.time_to_first_token else { return };
        let seconds = first.as_secs_f64();
        self.last = Some(match answer.tokens {
            Some((prompt, completion)) => {
                self.answers += 1;
                self.tokens += completion;
                self.streaming += answer.streaming;
                format!(
                    "{prompt} tokens of prompt, {completion} of answer, time to first token {seconds:.2} s, {}",
                    rate(completion.saturating_sub(1), answer.streaming)
                )
            }
            None => format!("stopped, time to first token {seconds:.2} s"),
        });
    }

    fn lines(&self) -> Vec<String> {
        let Some(last) = &self.last else { return vec!["no answer yet".into()] };
        let rate = rate(self.tokens.saturating_sub(self.answers), self.streaming);
        vec![
            format!("last answer: {last}"),
            format!("all complete answers: {}, with {} tokens, {rate}", self.answers, self.tokens),
        ]
    }
}

/// Formats a rate of tokens. The first token is not counted, because the time before it is the prompt's.
fn rate(tokens: u64, streaming: Duration) -> String {
    let millis = u64::try_from(streaming.as_millis()).unwrap_or(u64::MAX);
    match tokens.saturating_mul(10_000).checked_div(millis) {
        Some(tenths) if tokens > 0 => format!("{}.{} tokens/s", tenths / 10, tenths % 10),
        _ => "too short for a rate".to_owned(),
    }
}

// === impl Conversation ===

impl Conversation {
    pub(crate) fn new(system: Option<String>, temperature: f32) -> Self {
        Self { system, temperature, ..Self::default() }
    }

    fn body(&self, model: &str) -> Value {
        let system = self.system.iter().map(|text| json!({"role": "system", "content": text}));
        let messages: Vec<Value> = system.chain(self.messages.iter().cloned()).collect();
        json!({
            "model": model, "messages": messages, "temperature": self.temperature,
            "stream_options": {"include_usage": true},
        })
    }

    /// Sends a prompt with what was said before, and prints the answer. A question without an answer is forgotten.
    pub(crate) async fn ask(
        &mut self,
        service: &Service,
        prompt: &str,
        interrupts: &Interrupts,
    ) -> anyhow::Result<()> {
        self.messages.push(json!({"role": "user", "content": prompt}));
        let mut answer = Answer::default();
        let body = self.body(&service.model);
        let result = tokio::select! {
            result = prompt::stream(service, body, &mut answer) => result.map(drop),
            // Dropping the request closes its connection, so the engine stops computing.
            () = interrupts.interrupted() => Ok(()),
        };
        if !answer.text.is_empty() {
            printer::line("");
        }
        self.stats.add(&answer);
        if answer.text.is_empty() {
            self.messages.pop();
        } else {
            self.messages.push(json!({"role": "assistant", "content": answer.text}));
        }
        result
    }

    /// Answers lines of standard input until it ends.
    pub(crate) async fn chat(&mut self, service: &Service, interrupts: &Interrupts) -> anyhow::Result<()> {
        printer::note(&format!("{} answers. /help lists commands; Ctrl-D ends.", service.model.bold()));
        let mut lines = lines();
        loop {
            printer::write(Stream::Stderr, &">>> ".bold().to_string());
            let line = tokio::select! {
                line = lines.recv() => line,
                () = interrupts.interrupted() => {
                    printer::note("\nCtrl-D or /bye ends");
                    continue;
                }
            };
            let Some(line) = line else {
                printer::note("");
                return Ok(());
            };
            match Input::parse(&line?) {
                Input::Nothing => {}
                Input::Help => printer::note(HELP),
                Input::System("") => self.system = None,
                Input::System(text) => self.system = Some(text.to_owned()),
                Input::Stats => self.stats.lines().iter().for_each(|line| printer::note(line)),
                Input::Clear => self.messages.clear(),
                Input::Bye => return Ok(()),
                Input::Unknown(word) => printer::note(&format!("no command `{word}`: /help lists all")),
                Input::Prompt(text) => {
                    if let Err(error) = self.ask(service, text, interrupts).await {
                        let hint = "/clear forgets the conversation, if it has become too long for the model";
                        printer::error(&error, (self.messages.len() > 2).then_some(hint));
                    }
                }
            }
        }
    }
}

/// Reads the lines of standard input on a thread of its own, because a read cannot be cancelled. The thread reads a line ahead at
/// most.
fn lines() -> mpsc::Receiver<io::Result<String>> {
    let (sink, lines) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut line = Vec::new();
            let mut input = io::Read::take(io::stdin().lock(), MAX_LINE);
            let line = match io::BufRead::read_until(&mut input, b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => Ok(String::from_utf8_lossy(&line).into_owned()),
                Err(error) => Err(error),
            };
            if sink.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_a_prompt() {
        for (line, expected) in [
            ("  \n", Input::Nothing),
            ("/help\n", Input::Help),
            ("/system  You are a pirate. \n", Input::System("You are a pirate.")),
            ("/system", Input::System("")),
            ("/stats", Input::Stats),
            ("/bye", Input::Bye),
            ("/set temperature 1", Input::Unknown("/set")),
            ("/usr/bin/env fails", Input::Prompt("/usr/bin/env fails")),
            ("What is /help?", Input::Prompt("What is /help?")),
        ] {
            assert_eq!(Input::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn the_first_token_is_no_part_of_the_rate() {
        let mut stats = Stats::default();
        assert_eq!(stats.lines(), ["no answer yet"]);
        let answer = |tokens, seconds| Answer {
            text: "a".into(),
            tokens,
            time_to_first_token: Some(Duration::from_millis(250)),
            streaming: Duration::from_secs(seconds),
        };
        stats.add(&answer(Some((7, 21)), 2));
        stats.add(&answer(Some((30, 41)), 2));
        // An answer that was stopped has no count.
        stats.add(&answer(None, 1));
        assert_eq!(
            stats.lines(),
            [
                "last answer: stopped, time to first token 0.25 s",
                "all complete answers: 2, with 62 tokens, 15.0 tokens/s"
            ]
        );
        stats.add(&answer(Some((30, 41)), 2));
        assert!(stats.lines()[0].ends_with("41 of answer, time to first token 0.25 s, 20.0 tokens/s"));
    }

    #[test]
    fn a_request_has_the_system_prompt_first_and_then_the_conversation() {
        let mut conversation = Conversation::new(Some("be brief".into()), 0.5);
        conversation.messages.push(json!({"role": "user", "content": "hi"}));
        assert_eq!(
            conversation.body("m"),
            json!({
                "model": "m", "temperature": 0.5, "stream_options": {"include_usage": true},
                "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
            })
        );
    }
}
