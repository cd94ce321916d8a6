//! What a real vLLM answered.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value};

const TEXT: &str = include_str!("../../../../tests/vllm/answers.json");

/// The facts of vLLM's answers.
#[derive(Debug)]
pub struct Recording {
    /// The version of vLLM.
    pub version: String,
    /// The facts by the name of the request.
    answers: BTreeMap<String, Value>,
}

// === impl Recording ===

impl Recording {
    /// Reads the recording of the repository.
    pub fn committed() -> Self {
        let mut file: Value =
            serde_json::from_str(TEXT).unwrap_or_else(|error| panic!("tests/vllm/answers.json: {error}"));
        let version = file["version"].as_str().unwrap_or_default().to_owned();
        let answers: BTreeMap<String, Value> = serde_json::from_value(file["answers"].take()).unwrap();
        Self { version, answers }
    }

    /// Returns the facts of the answer to the request with this name.
    pub fn answer(&self, request: &str) -> &Value {
        let missing =
            || panic!("tests/vllm/answers.json has no answer to `{request}`: record it (CONTRIBUTING.md)");
        let found = self.answers.get(request).unwrap_or_else(missing);
        // Most answers are like that to another request, and the file then names that request.
        found.as_str().map_or(found, |other| self.answers.get(other).unwrap_or_else(missing))
    }

    /// Returns the names of all requests that have an answer.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.answers.keys().map(String::as_str)
    }
}

/// Returns the text of the file for the answers of this version.
pub fn write(version: &str, answers: &BTreeMap<String, Value>) -> String {
    let mut first = BTreeMap::new();
    let mut lines = Map::new();
    for (name, facts) in answers {
        let text = facts.to_string();
        let value = match first.get(&text) {
            Some(other) => Value::from(String::clone(other)),
            None => facts.clone(),
        };
        first.entry(text).or_insert_with(|| name.clone());
        lines.insert(name.clone(), value);
    }
    // One line for each request, so that a change is easy to read.
    let mut file = format!("{{\n\"version\": {},\n\"answers\": {{", Value::from(version));
    for (position, (name, value)) in lines.iter().enumerate() {
        let comma = if position == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(file, "{comma}\n{}: {value}", Value::from(name.as_str()));
    }
    file + "\n}\n}\n"
}
