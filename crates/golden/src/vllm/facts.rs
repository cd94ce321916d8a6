//! What is compared of an answer: the status, the names and types of fields, the order of events, the texts of errors, and the
//! names and labels of metrics. Texts, numbers and ids that every run makes anew are left out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::judge::sorted_text;

/// Fields with values of a fixed set, which are compared.
const FIXED_VALUES: [&str; 17] = [
    "action",
    "code",
    "detail",
    "error",
    "event",
    "finish_reason",
    "message",
    "object",
    "owned_by",
    "param",
    "reason",
    "role",
    "service_tier",
    "status",
    "stop_reason",
    "truncation",
    "type",
];

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type`, or an empty text.
    pub content_type: String,
    /// The body.
    pub body: String,
}

/// Returns the facts of a response.
pub fn facts(response: &Response) -> Value {
    let kind = response.content_type.split(';').next().unwrap_or_default().trim();
    let mut facts = json!({"status": response.status, "type": kind});
    let body = response.body.as_str();
    if kind == "text/event-stream" {
        facts["events"] = events(body);
    } else if body.starts_with("# HELP") {
        facts["type"] = "metrics".into();
        facts["metrics"] = metrics(body);
    } else if let Ok(body) = serde_json::from_str::<Value>(body) {
        facts["body"] = if body["openapi"].is_string() { interface(&body) } else { shape("", &body) };
    } else {
        let is_page = body.starts_with('<') || body.trim_start().starts_with("<!");
        facts["text"] = if is_page { "<page>".into() } else { body.into() };
    }
    facts
}

/// Returns the shapes of the events of a stream, those of each answer together: how answers that are computed at the same time
/// take turns is chance. Of equal neighbours, one remains: how many tokens share an event is chance, too.
fn events(body: &str) -> Value {
    let mut all: Vec<(u64, Value)> = Vec::new();
    for block in body.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let mut event = Map::new();
        // Events of no answer are the last ones: the usage of all, and the end.
        let mut answer = u64::MAX;
        for line in block.lines() {
            let (field, text) = line.split_once(": ").unwrap_or((line, ""));
            let value = match serde_json::from_str::<Value>(text) {
                Ok(value) if field == "data" => {
                    answer = value["choices"][0]["index"].as_u64().unwrap_or(u64::MAX);
                    shape("", &value)
                }
                _ => text.into(),
            };
            event.insert(field.to_owned(), value);
        }
        all.push((answer, Value::Object(event)));
    }
    all.sort_by_key(|(answer, _)| *answer);
    let mut events: Vec<Value> = all.into_iter().map(|(_, event)| event).collect();
    events.dedup();
    events.into()
}

/// Returns a value without what changes from run to run: types instead of most values.
fn shape(field: &str, value: &Value) -> Value {
    match value {
        Value::Null => "<null>".into(),
        Value::Bool(_) => "<boolean>".into(),
        Value::Number(_) | Value::String(_) if FIXED_VALUES.contains(&field) => value.clone(),
        Value::Number(number) if number.is_f64() => "<number>".into(),
        Value::Number(_) => "<integer>".into(),
        Value::String(text) if field == "id" || field.ends_with("_id") => id(text).into(),
        Value::String(_) => "<text>".into(),
        Value::Array(items) => {
            let mut shapes: Vec<Value> = Vec::new();
            for item in items {
                let shape = shape(field, item);
                if !shapes.contains(&shape) {
                    shapes.push(shape);
                }
            }
            if shapes.is_empty() { "<empty list>".into() } else { shapes.into() }
        }
        Value::Object(fields) if fields.is_empty() => "<empty object>".into(),
        // Probabilities by token, whose keys are the tokens.
        Value::Object(fields)
            if field == "prompt_logprobs" || (field == "top_logprobs" && !fields.contains_key("token")) =>
        {
            let shapes: BTreeSet<String> =
                fields.values().map(|value| sorted_text(&shape("", value))).collect();
            json!({"<token>": shapes.into_iter().collect::<Vec<_>>()})
        }
        // A message with its tokens is no error.
        Value::Object(fields) if fields.contains_key("tokens") && fields.contains_key("message") => {
            fields.keys().map(|key| (key.clone(), "<text>".into())).collect::<Map<_, _>>().into()
        }
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), shape(key, value))).collect::<Map<_, _>>().into()
        }
    }
}

/// Returns what ids of one kind have in common: the part before the first piece that is chance.
fn id(text: &str) -> String {
    let is_chance = |piece: &str| piece.len() >= 8 && piece.chars().all(|c| c.is_ascii_hexdigit());
    let start =
        text.split_inclusive(['-', '_']).take_while(|piece| !is_chance(piece.trim_end_matches(['-', '_'])));
    let kept: String = start.collect();
    if kept.len() == text.len() { kept } else { kept + "…" }
}

/// Returns the types and the labels of all metrics but those of the process that serves them.
fn metrics(page: &str) -> Value {
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in page.lines() {
        if let Some(line) = line.strip_prefix("# TYPE ") {
            let (name, kind) = line.split_once(' ').unwrap_or((line, ""));
            types.insert(name, kind);
        } else if !line.starts_with('#') {
            let end = line.find(['{', ' ']).unwrap_or(line.len());
            let names = labels.entry(&line[..end]).or_default();
            let inside = line[end..]
                .strip_prefix('{')
                .and_then(|rest| rest.rsplit_once('}'))
                .map_or("", |(inside, _)| inside);
            // A label's name ends at `="`, and begins after the value before it.
            names.extend(inside.split("=\"").filter_map(|text| {
                let name = text.rsplit(['"', ',']).next().unwrap_or_default();
                Some(name).filter(|name| !name.is_empty())
            }));
        }
    }
    let all = labels
        .into_iter()
        .filter(|(name, _)| !["python_", "process_"].iter().any(|own| name.starts_with(own)));
    let series = all.map(|(name, labels)| {
        let family =
            ["_total", "_bucket", "_sum", "_count", "_created"].iter().find_map(|end| name.strip_suffix(end));
        let kind = types.get(name).or_else(|| family.and_then(|family| types.get(family)));
        let labels = labels.into_iter().collect::<Vec<_>>().join(", ");
        (name.to_owned(), json!({"type": kind, "labels": labels}))
    });
    series.collect::<Map<_, _>>().into()
}

/// Returns the paths with their methods, and the fields of each request, of a description in OpenAPI's form.
fn interface(description: &Value) -> Value {
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flat_map(Map::keys).cloned().collect()
    };
    let paths: Map<String, Value> = keys(&description["paths"])
        .into_iter()
        .map(|path| {
            let methods = keys(&description["paths"][&path]);
            (path, methods.into())
        })
        .collect();
    let schemas = &description["components"]["schemas"];
    let requests: Map<String, Value> = keys(schemas)
        .into_iter()
        .filter(|name| name.ends_with("Request"))
        .map(|name| {
            let fields = keys(&schemas[&name]["properties"]);
            (name, fields.into())
        })
        .collect();
    json!({"paths": paths, "requests": requests})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content_type: &str, body: &str) -> Value {
        facts(&Response { status: 200, content_type: content_type.into(), body: body.into() })
    }

    #[test]
    fn values_that_change_are_left_out_and_names_stay() {
        let body = r#"{"id":"chatcmpl-tool-b1cde03d378909e2","role":"assistant","n":1,"x":1.5,"s":"Hi","e":[],"l":[1,2,null]}"#;
        let expected = json!({"id": "chatcmpl-tool-…", "role": "assistant", "n": "<integer>", "x": "<number>", "s": "<text>",
            "e": "<empty list>", "l": ["<integer>", "<null>"]});
        assert_eq!(of("application/json", body)["body"], expected);
    }

    #[test]
    fn equal_events_that_follow_each_other_are_one() {
        let body = "event: a\ndata: {\"x\":1}\n\ndata: {\"x\":2}\n\ndata: {\"x\":3}\n\ndata: [DONE]\n\n";
        let expected = json!([{"event": "a", "data": {"x": "<integer>"}}, {"data": {"x": "<integer>"}}, {"data": "[DONE]"}]);
        assert_eq!(of("text/event-stream; charset=utf-8", body)["events"], expected);
    }

    #[test]
    fn answers_of_a_stream_that_take_turns_are_compared_one_after_the_other() {
        let stream = |order: &[(u8, bool)]| {
            let event = |(index, ends): &(u8, bool)| {
                let reason = if *ends { "\"length\"" } else { "null" };
                format!("data: {{\"choices\":[{{\"index\":{index},\"finish_reason\":{reason}}}]}}\n\n")
            };
            let end = "data: {\"choices\":[]}\n\ndata: [DONE]\n\n".to_owned();
            of("text/event-stream", &order.iter().map(event).chain([end]).collect::<String>())
        };
        let (goes_on, ends) = (false, true);
        let in_turn = stream(&[(0, goes_on), (1, goes_on), (0, ends), (1, goes_on), (1, ends)]);
        assert_eq!(in_turn, stream(&[(0, goes_on), (0, ends), (1, goes_on), (1, ends)]));
        assert_ne!(in_turn, stream(&[(0, ends), (0, goes_on), (1, goes_on), (1, ends)]));
    }

    #[test]
    fn metrics_are_named_with_their_labels() {
        let page = "# HELP a_total A\n# TYPE a counter\na_total{x=\"1,y=\\\"\",z=\"\"} 2\n# HELP b B\n# TYPE b gauge\nb 1\npython_info 1\n";
        let expected =
            json!({"a_total": {"type": "counter", "labels": "x, z"}, "b": {"type": "gauge", "labels": ""}});
        assert_eq!(of("text/plain", page)["metrics"], expected);
    }
}
