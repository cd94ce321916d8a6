//! The requests, which a table describes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::judge::sorted_text;

const TABLE: &str = include_str!("../../../../tests/vllm/requests.yaml");

/// A request with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The group, and what is special about this request.
    pub name: String,
    /// The HTTP method.
    pub method: &'static str,
    /// The path.
    pub path: String,
    /// The `Content-Type`, if it has one.
    pub content_type: Option<String>,
    /// The body, if it has one.
    pub body: Option<String>,
}

/// Requests that have much in common. The head of the table explains the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(rename = "group")]
    name: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    body: Map<String, Value>,
    repeat: Option<usize>,
    #[serde(default)]
    fields: BTreeMap<String, Vec<Value>>,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    with: BTreeMap<String, Map<String, Value>>,
    #[serde(default)]
    raw: BTreeMap<String, String>,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    get: Vec<String>,
    #[serde(default)]
    delete: Vec<String>,
}

/// Returns all requests, in the order of the table.
pub fn requests() -> Vec<Request> {
    let groups: Vec<Group> =
        serde_saphyr::from_str(TABLE).unwrap_or_else(|error| panic!("tests/vllm/requests.yaml: {error}"));
    groups.into_iter().flat_map(Group::requests).collect()
}

// === impl Group ===

impl Group {
    fn requests(mut self) -> Vec<Request> {
        if let Some(times) = self.repeat {
            let text = sorted_text(&Value::Object(std::mem::take(&mut self.body)));
            let long = text.replace("\"Hi\"", &format!("\"{}\"", "Hi ".repeat(times)));
            self.body = serde_json::from_str(&long).unwrap();
        }
        let mut requests = Vec::new();
        for (field, values) in &self.fields {
            for value in values {
                let mut body = self.body.clone();
                body.insert(field.clone(), value.clone());
                requests.push(self.post(&format!("{field}={}", sorted_text(value)), body));
            }
        }
        for field in &self.without {
            let mut body = self.body.clone();
            assert!(body.remove(field).is_some(), "{}: there is no {field} to leave out", self.name);
            requests.push(self.post(&format!("without {field}"), body));
        }
        for (name, changes) in &self.with {
            let mut body = self.body.clone();
            body.extend(changes.clone());
            requests.push(self.post(name, body));
        }
        for (name, text) in &self.raw {
            requests.push(self.send("POST", name, &self.path, Some("application/json"), Some(text.clone())));
        }
        for kind in &self.types {
            let content_type = Some(kind.as_str()).filter(|kind| !kind.is_empty());
            let name = content_type.unwrap_or("none");
            requests.push(self.send("POST", name, &self.path, content_type, Some(self.text())));
        }
        for (method, paths) in [("GET", &self.get), ("DELETE", &self.delete)] {
            requests.extend(paths.iter().map(|path| self.send(method, path, path, None, None)));
        }
        requests
    }

    fn text(&self) -> String {
        sorted_text(&Value::Object(self.body.clone()))
    }

    fn post(&self, name: &str, body: Map<String, Value>) -> Request {
        let text = sorted_text(&Value::Object(body));
        self.send("POST", name, &self.path, Some("application/json"), Some(text))
    }

    fn send(
        &self,
        method: &'static str,
        name: &str,
        path: &str,
        content_type: Option<&str>,
        body: Option<String>,
    ) -> Request {
        Request {
            name: format!("{} {name}", self.name),
            method,
            path: path.to_owned(),
            content_type: content_type.map(str::to_owned),
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::vllm::Recording;

    /// A path that changes the server, and fields that only servers which share media send.
    const LEFT_OUT: [&str; 4] = ["/scale_elastic_ep", "mm_payload", "return_mm_kwargs", "ec_transfer_params"];

    #[test]
    fn every_request_has_a_name_of_its_own() {
        let all = requests();
        let names: BTreeSet<&str> = all.iter().map(|request| request.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
    }
    #[test]
    fn every_path_and_every_field_that_vllm_describes_is_asked_for() {
        let recording = Recording::committed();
        let described = &recording.answer("get /openapi.json")["body"];
        let all = requests();
        let mut missing = Vec::new();
        for path in described["paths"].as_object().unwrap().keys() {
            // A name in braces stands for a part of the path.
            let parts: Vec<&str> = path.split('/').collect();
            let fits = |request: &Request| {
                let asked: Vec<&str> = request.path.split('/').collect();
                let same = |(part, asked): (&&str, &&str)| part == asked || part.starts_with('{');
                asked.len() == parts.len() && parts.iter().zip(&asked).all(same)
            };
            if !all.iter().any(fits) {
                missing.push(path.clone());
            }
        }
        for (kind, path) in [
            ("ChatCompletionRequest", "/v1/chat/completions"),
            ("CompletionRequest", "/v1/completions"),
            ("TokenizeCompletionRequest", "/tokenize"),
        ] {
            let bodies =
                all.iter().filter(|request| request.path == path).filter_map(|request| request.body.as_ref());
            let asked: BTreeSet<String> = bodies
                .filter_map(|body| serde_json::from_str::<Map<String, Value>>(body).ok())
                .flat_map(|body| body.into_iter().map(|(field, _)| field))
                .collect();
            let fields = described["requests"][kind].as_array().unwrap();
            let fields = fields.iter().filter_map(Value::as_str).filter(|field| !asked.contains(*field));
            missing.extend(fields.map(|field| format!("{kind}.{field}")));
        }
        missing.retain(|name| !LEFT_OUT.iter().any(|left_out| name.ends_with(left_out)));
        assert_eq!(missing, Vec::<String>::new(), "add them to tests/vllm/requests.yaml");
    }
}
