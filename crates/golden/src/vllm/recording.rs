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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// The files that name metrics of vLLM: what the picker, the proof and the dashboard read, and what the simulator and the
    /// engine serve.
    const FILES: [&str; 6] = [
        "scheduler/src/config/data_layer.rs",
        "plan/src/proof/counters.rs",
        "dashboard/src/metrics.rs",
        "serving/src/metrics.rs",
        "serving/src/encoding_metrics.rs",
        "serving/src/transfer_metrics.rs",
    ];

    #[test]
    fn metrics_that_are_read_or_served_are_those_of_vllm() {
        let recording = Recording::committed();
        let page = recording.answer("get /metrics")["metrics"].as_object().unwrap();
        let (mut known, mut unknown) = (BTreeSet::new(), BTreeSet::new());
        for file in FILES {
            let text =
                fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for part in code.split("\"vllm:").skip(1) {
                let name =
                    part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
                // Each connector has series of its own, and the recorded vLLM has none. Earlier releases have names with `gpu_`.
                if name.is_empty() || name.starts_with("nixl_") || name.starts_with("gpu_") {
                    continue;
                }
                // Some clients write the family, and some the name with the unit.
                let ends = ["", "_total", "_sum", "_seconds_sum"];
                let is_known = ends.iter().any(|end| page.contains_key(&format!("vllm:{name}{end}")));
                if is_known {
                    known.insert(name.to_owned())
                } else {
                    unknown.insert(format!("{file}: vllm:{name}"))
                };
            }
        }
        assert_eq!(unknown, BTreeSet::new(), "vLLM {} has no such metric", recording.version);
        assert!(known.len() > 10, "{known:?}");
        for (name, labels) in [
            ("vllm:cache_config_info", &["block_size", "num_gpu_blocks"][..]),
            ("vllm:lora_requests_info", &["max_lora", "running_lora_adapters", "waiting_lora_adapters"]),
            ("vllm:prompt_tokens_by_source_total", &["source"]),
            ("vllm:num_requests_running", &["engine", "model_name"]),
        ] {
            let recorded: Vec<&str> = page[name]["labels"].as_str().unwrap().split(", ").collect();
            assert!(labels.iter().all(|label| recorded.contains(label)), "{name}: {recorded:?}");
        }
    }
}
