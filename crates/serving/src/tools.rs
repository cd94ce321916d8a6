//! Tools that a model may call.

use serde_json::{Value, json};

use crate::{Refusal, ids::unique};

/// The most tools in one request.
const MAX_TOOLS: usize = 128;

/// How a tool is named in `tool_choice`.
const USAGE: &str = "Correct usage: `{\"type\": \"function\", \"function\": {\"name\": \"my_function\"}}`";

/// A function that the client can run.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name.
    pub name: String,
    /// The description of its purpose.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
    /// The function as the client describes it.
    pub definition: Value,
}

/// Whether an answer must call a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The model decides.
    Auto,
    /// One of the tools; the model chooses which one.
    Required,
    /// The tool with this name.
    Named(String),
}

/// Tools that an answer may or must call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tools {
    /// The tools, at least one; names are unique.
    pub list: Vec<Tool>,
    /// Whether an answer must call a tool.
    pub choice: Choice,
    /// Whether an answer has one call at most.
    pub one_at_most: bool,
}

// === impl Tools ===

impl Tools {
    /// Returns the tools of which one must be called, or `None` if the model decides.
    #[must_use]
    pub fn forced(&self) -> Option<Vec<&Tool>> {
        match &self.choice {
            Choice::Auto => None,
            Choice::Required => Some(self.list.iter().collect()),
            Choice::Named(name) => Some(self.list.iter().filter(|tool| tool.name == *name).collect()),
        }
    }
}

/// Reads tools in the form of chat requests (`{"type": "function", "function": {…}}`), where `inner` is `.function`, or of responses
/// (`{"type": "function", "name": …}`), where it is empty.
pub(crate) fn list(values: &[Value], inner: &'static str) -> Result<Vec<Tool>, Refusal> {
    if values.len() > MAX_TOOLS {
        return Err(Refusal::field("tools", format!("tools: at most {MAX_TOOLS} are taken at once.")));
    }
    let mut tools: Vec<Tool> = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let place = format!("tools[{index}]");
        let refuse = |field: &str, message: &str| {
            Err(Refusal::invalid(&format!("{place}{field}"), format!("{place}{field}{message}")))
        };
        if !value.is_object() {
            return refuse("", ": expected an object.");
        }
        if value["type"] != "function" {
            return refuse(".type", ": only tools of the type `function` are supported.");
        }
        let function = if inner.is_empty() { value } else { &value["function"] };
        if !function.is_object() {
            return refuse(inner, ": Field required.");
        }
        let Some(name) = function["name"].as_str().filter(|name| !name.is_empty()) else {
            return refuse(&format!("{inner}.name"), ": the function has no name.");
        };
        let parameters = match &function["parameters"] {
            Value::Null => json!({"type": "object", "properties": {}}),
            object @ Value::Object(_) => object.clone(),
            _ => return refuse(&format!("{inner}.parameters"), ": expected a JSON schema."),
        };
        // A call names its tool, and nothing else would tell the two apart.
        if tools.iter().any(|tool| tool.name == name) {
            return refuse(&format!("{inner}.name"), ": another tool has the same name.");
        }
        let description = function["description"].as_str().unwrap_or_default().to_owned();
        tools.push(Tool { name: name.to_owned(), description, parameters, definition: function.clone() });
    }
    Ok(tools)
}

/// Returns the id of a new call.
pub(crate) fn call_id() -> String {
    format!("chatcmpl-tool-{}", unique())
}

/// Applies `tool_choice`. None where no call is wanted.
pub(crate) fn choose(
    list: Vec<Tool>,
    choice: Option<&Value>,
    parallel: Option<bool>,
) -> Result<Option<Tools>, Refusal> {
    let choice = match choice {
        None if list.is_empty() => return Ok(None),
        None => Choice::Auto,
        Some(Value::String(word)) if word == "none" => return Ok(None),
        Some(_) if list.is_empty() => {
            return Err(Refusal::parameter(
                "tool_choice",
                "When using `tool_choice`, `tools` must be set.",
                None,
            ));
        }
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Choice::Auto,
            "required" => Choice::Required,
            other => return Err(unknown_choice(other)),
        },
        Some(object @ Value::Object(_)) => {
            // Responses have the name beside the type, without an object for the function.
            let function = object.get("function").unwrap_or(object);
            match function["name"].as_str() {
                Some(name) if object.get("type").is_none_or(|kind| kind == "function") => {
                    Choice::Named(name.to_owned())
                }
                _ if object.get("function").is_some() => {
                    let message = format!("Expected field `name` in `function` in `tool_choice`! {USAGE}");
                    return Err(Refusal::parameter("tool_choice.function.name", message, None));
                }
                _ => {
                    let message = format!("Invalid value for `function`: `None` in `tool_choice`! {USAGE}");
                    return Err(Refusal::parameter("tool_choice.function", message, None));
                }
            }
        }
        Some(other) => return Err(unknown_choice(&other.to_string())),
    };
    if let Choice::Named(name) = &choice
        && !list.iter().any(|tool| tool.name == *name)
    {
        let message = "The tool specified in `tool_choice` does not match any of the specified `tools`";
        return Err(Refusal::parameter("tool_choice", message, None));
    }
    Ok(Some(Tools { list, choice, one_at_most: parallel == Some(false) }))
}

fn unknown_choice(choice: &str) -> Refusal {
    let choice: String = choice.chars().take(100).collect();
    let message = format!(
        "Invalid value for `tool_choice`: {choice}! Only named tools, \"none\", \"auto\" or \"required\" are supported."
    );
    Refusal::parameter("tool_choice", message, None)
}
