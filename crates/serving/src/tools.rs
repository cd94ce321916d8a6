//! Tools that a model may call.

use serde_json::{Value, json};

use crate::Refusal;

/// The most tools in one request.
const MAX_TOOLS: usize = 128;

/// A function that the client can run.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name.
    pub name: String,
    /// The description of its purpose.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
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

/// Reads tools in the form of chat requests (`{"type": "function", "function": {…}}`) or of responses (`{"type": "function",
/// "name": …}`).
pub(crate) fn list(values: &[Value]) -> Result<Vec<Tool>, Refusal> {
    if values.len() > MAX_TOOLS {
        return Err(Refusal::field("tools", format!("tools: at most {MAX_TOOLS} are taken at once.")));
    }
    let mut tools: Vec<Tool> = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let place = format!("tools[{index}]");
        let refuse = |message: &str| Err(Refusal::field(place.clone(), format!("{place}{message}")));
        if value["type"] != "function" {
            return refuse(".type: only tools of the type `function` are supported.");
        }
        let function = value.get("function").unwrap_or(value);
        let Some(name) = function["name"].as_str().filter(|name| !name.is_empty()) else {
            return refuse(": the function has no name.");
        };
        let parameters = match &function["parameters"] {
            Value::Null => json!({"type": "object", "properties": {}}),
            object @ Value::Object(_) => object.clone(),
            _ => return refuse(": the function's parameters must be a JSON schema."),
        };
        if tools.iter().any(|tool| tool.name == name) {
            return refuse(": another tool has the same name.");
        }
        let description = function["description"].as_str().unwrap_or_default().to_owned();
        tools.push(Tool { name: name.to_owned(), description, parameters });
    }
    Ok(tools)
}

/// Applies `tool_choice`. None where no call is wanted.
pub(crate) fn choose(
    list: Vec<Tool>,
    choice: Option<&Value>,
    parallel: Option<bool>,
) -> Result<Option<Tools>, Refusal> {
    let choice = match choice {
        None | Some(Value::Null) if list.is_empty() => return Ok(None),
        None | Some(Value::Null) => Choice::Auto,
        Some(Value::String(word)) => match word.as_str() {
            "none" => return Ok(None),
            "auto" if list.is_empty() => return Ok(None),
            "auto" => Choice::Auto,
            "required" => Choice::Required,
            _ => return Err(unknown_choice()),
        },
        Some(object) => {
            let name = object["function"]["name"].as_str().or_else(|| object["name"].as_str());
            match name {
                Some(name) if object["type"] == "function" => Choice::Named(name.to_owned()),
                _ => return Err(unknown_choice()),
            }
        }
    };
    if list.is_empty() {
        return Err(Refusal::field("tools", "When using `tool_choice`, `tools` must be set."));
    }
    if let Choice::Named(name) = &choice
        && !list.iter().any(|tool| tool.name == *name)
    {
        return Err(Refusal::field(
            "tool_choice",
            format!(
                "The tool `{name}` specified in `tool_choice` does not match any of the specified `tools`"
            ),
        ));
    }
    Ok(Some(Tools { list, choice, one_at_most: parallel == Some(false) }))
}

fn unknown_choice() -> Refusal {
    Refusal::field(
        "tool_choice",
        "Invalid value for `tool_choice`: expected `none`, `auto`, `required`, or a named tool as \
         {\"type\": \"function\", \"function\": {\"name\": \"…\"}}.",
    )
}
