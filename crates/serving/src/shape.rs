//! The required form of an answer: `response_format`, `structured_outputs` and the older `guided_…` fields.

use serde_json::Value;

use crate::{Refusal, fields::Fields};

/// The most choices in one request.
const MAX_ENUM_CHOICES: usize = 1024;

/// The required form of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Any JSON object.
    JsonObject,
    /// JSON that conforms to this schema.
    Json(Value),
    /// Text that matches this regular expression as a whole.
    Regex(String),
    /// Text that this grammar, of Lark or in llama.cpp's notation, derives.
    Grammar(String),
    /// One of these texts.
    Choice(Vec<String>),
}

/// Returns the form that a request requires, and the field that requires it.
pub(crate) fn read(fields: &Fields) -> Result<Option<(Shape, String)>, Refusal> {
    let mut found: Vec<(Shape, String)> = Vec::new();
    if let Some(format) = &fields.response_format {
        let place = "response_format";
        found.extend(format_of(format, place)?.map(|shape| (shape, place.to_owned())));
    }
    if let Some(outputs) = &fields.structured_outputs {
        let Value::Object(outputs) = outputs else {
            return Err(Refusal::invalid("structured_outputs", "structured_outputs must be an object."));
        };
        for (key, value) in outputs.iter().filter(|(_, value)| !value.is_null()) {
            let place = format!("structured_outputs.{key}");
            found.extend(constraint(key, value, &place)?.map(|shape| (shape, place)));
        }
    }
    let guided = [
        ("json", "guided_json", &fields.guided_json),
        ("regex", "guided_regex", &fields.guided_regex),
        ("choice", "guided_choice", &fields.guided_choice),
        ("grammar", "guided_grammar", &fields.guided_grammar),
    ];
    for (key, place, value) in guided {
        if let Some(value) = value {
            found.extend(constraint(key, value, place)?.map(|shape| (shape, place.to_owned())));
        }
    }
    if found.len() > 1 {
        return Err(several());
    }
    Ok(found.pop())
}

/// A request that asks for several forms.
pub(crate) fn several() -> Refusal {
    Refusal::field(
        "structured_outputs",
        "You can only use one kind of structured outputs constraint but multiple are specified.",
    )
}

/// `{"type": "json_schema", …}` and its siblings, in the form of chat (the schema one level down) or of responses.
pub(crate) fn format_of(format: &Value, place: &str) -> Result<Option<Shape>, Refusal> {
    match format["type"].as_str() {
        // Options of a response's text may have no format.
        _ if format.is_null() => Ok(None),
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(Shape::JsonObject)),
        Some("json_schema") => {
            let (holder, inner) = match format.get("json_schema") {
                Some(holder) => (holder, ".json_schema"),
                None => (format, ""),
            };
            if !holder["name"].is_string() && holder["schema"].is_object() {
                let place = format!("{place}{inner}.name");
                return Err(Refusal::invalid(&place, format!("{place}: Field required.")));
            }
            match &holder["schema"] {
                schema @ Value::Object(_) => Ok(Some(Shape::Json(schema.clone()))),
                Value::Null => Err(Refusal::field(
                    place,
                    format!("{place}: the type `json_schema` needs a schema, none is given."),
                )),
                _ => {
                    let place = format!("{place}{inner}.schema");
                    Err(Refusal::invalid(&place, format!("{place} must be an object.")))
                }
            }
        }
        Some("structural_tag") => Err(Refusal::unsupported(place)),
        _ => Err(Refusal::invalid(
            &if format.is_object() { format!("{place}.type") } else { place.to_owned() },
            format!("{place}.type: expected `text`, `json_object` or `json_schema`."),
        )),
    }
}

fn constraint(key: &str, value: &Value, place: &str) -> Result<Option<Shape>, Refusal> {
    let text = || value.as_str().ok_or_else(|| Refusal::invalid(place, format!("{place} must be a string.")));
    match key {
        "json" => schema_of(value, place).map(Some),
        "json_object" => Ok((value == true).then_some(Shape::JsonObject)),
        "regex" => Ok(Some(Shape::Regex(text()?.to_owned()))),
        "grammar" => Ok(Some(Shape::Grammar(text()?.to_owned()))),
        "choice" => {
            let list = value.as_array().filter(|list| !list.is_empty() && list.len() <= MAX_ENUM_CHOICES);
            let texts =
                list.map(|list| list.iter().map(|choice| choice.as_str().map(str::to_owned)).collect());
            match texts {
                Some(Some(texts)) => Ok(Some(Shape::Choice(texts))),
                _ => Err(Refusal::field(
                    place,
                    format!("{place} must be a list of 1 to {MAX_ENUM_CHOICES} strings."),
                )),
            }
        }
        // How a constraint is kept, not which one: nothing of it is visible in an answer.
        "disable_fallback" => Ok(None),
        "disable_any_whitespace" | "disable_additional_properties" if value == false => Ok(None),
        _ => Err(Refusal::unsupported(place)),
    }
}

/// Reads a schema, which is an object or the text of one.
fn schema_of(value: &Value, place: &str) -> Result<Shape, Refusal> {
    match value {
        Value::Object(_) => Ok(Shape::Json(value.clone())),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(schema @ Value::Object(_)) => Ok(Shape::Json(schema)),
            _ => Err(Refusal::field(place, format!("{place}: the schema is not JSON of an object."))),
        },
        _ => Err(Refusal::invalid(place, format!("{place} must be a JSON schema."))),
    }
}
