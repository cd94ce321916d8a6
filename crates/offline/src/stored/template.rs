//! Finds the field that causes a template error: the reference runs one template over a whole object, and its errors do not
//! name a field.

use longboat_compose::template_is_sound;
use serde_json::Value;

/// The start of a template action.
const ACTION: &str = "{{";

/// If the message is that of a template error, returns the path of the first string of `object` that explains it: a string
/// that is not a valid template on its own, or that contains the failed expression.
pub(crate) fn culprit(object: &Value, message: &str) -> Option<String> {
    if !message.contains("template: ") {
        return None;
    }
    // `executing "config" at <.Spec.Foo>: …`
    let expression = message.split_once(" at <").and_then(|(_, rest)| rest.split_once(">: ")).map(|(e, _)| e);
    let blamed = |text: &str| match expression {
        Some(expression) => text.contains(expression),
        None => !template_is_sound(text),
    };
    find(&object["spec"], "spec".to_owned(), &blamed)
}

fn find(value: &Value, path: String, blamed: &impl Fn(&str) -> bool) -> Option<String> {
    match value {
        Value::String(text) => (text.contains(ACTION) && blamed(text)).then_some(path),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(i, item)| find(item, format!("{path}[{i}]"), blamed))
        }
        Value::Object(fields) => {
            fields.iter().find_map(|(name, field)| find(field, format!("{path}.{name}"), blamed))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
