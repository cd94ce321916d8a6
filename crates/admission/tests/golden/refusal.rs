//! A refusal in a recording (`denied*.txt`), and in a response to a client.

use longboat_golden::Entry;
use serde_json::Value;

/// The parts of a refusal that a client gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Reason, field and message of each cause, sorted.
    pub(crate) causes: Vec<[String; 3]>,
}

/// A recorded refusal, and the request that was refused.
pub(crate) struct Recorded {
    pub(crate) file: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) refusal: Refusal,
}

// === impl Refusal ===

impl Refusal {
    pub(crate) fn of(status: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes = status["details"]["causes"].as_array().into_iter().flatten();
        let mut causes: Vec<_> =
            causes.map(|cause| ["reason", "field", "message"].map(|key| text(&cause[key]))).collect();
        causes.sort();
        Self {
            code: u16::try_from(status["code"].as_u64().unwrap_or_default()).unwrap(),
            reason: text(&status["reason"]),
            message: text(&status["message"]),
            causes,
        }
    }

    /// Describes the difference for users, or returns `None` if there is none. Some differences do not matter: the name of
    /// the webhook before the message, the position of a template error (it counts characters of metadata that differ between
    /// servers), and the order of causes.
    pub(crate) fn difference(&self, recorded: &Self) -> Option<String> {
        let mut found = Vec::new();
        if self.code != recorded.code {
            found.push(format!("code {} instead of {}", self.code, recorded.code));
        }
        if self.reason != recorded.reason {
            found.push(format!("reason {:?} instead of {:?}", self.reason, recorded.reason));
        }
        if self.causes != recorded.causes && !recorded.causes.is_empty() {
            found.push(format!("causes {:#?} instead of {:#?}", self.causes, recorded.causes));
        }
        if recorded.causes.len() < 2 && comparable(&self.message) != comparable(&recorded.message) {
            found.push(format!("message {:?} instead of {:?}", self.message, recorded.message));
        }
        (!found.is_empty()).then(|| found.join("; "))
    }
}

/// A message without the name of a webhook and without the column of a template's error.
fn comparable(message: &str) -> String {
    let message = message.split_once(" denied the request: ").map_or(message, |(_, message)| message);
    match message.split_once("config:1:") {
        Some((before, after)) => {
            format!("{before}config:{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => message.to_owned(),
    }
}

/// The refusals that a stage records.
pub(crate) fn recorded(stage: &Entry) -> Vec<Recorded> {
    let files = stage.entries().into_iter();
    files
        .filter(|file| file.name().starts_with("denied"))
        .map(|file| {
            let text = file.read();
            let line = |key: &str| {
                text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().to_owned()
            };
            let request = line("request: ");
            let mut words = request.split(' ').skip(1).map(ToOwned::to_owned);
            let status: Value = serde_json::from_str(&line("body: ")).unwrap();
            Recorded {
                file: file.name().to_owned(),
                kind: words.next().unwrap(),
                name: words.next().unwrap_or_default(),
                refusal: Refusal::of(&status),
            }
        })
        .collect()
}
