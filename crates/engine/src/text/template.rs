//! Chat templates in Jinja, rendered like Hugging Face's tokenizers.

use std::path::Path;

use longboat_serving::{Message, Tool};
use minijinja::{Environment, ErrorKind, Value, context, syntax::SyntaxConfig, value::Serde};
use serde_json::json;

use super::Tokenizer;
use crate::{
    LoadError,
    weights::{self, Weights, files},
};

const NAME: &str = "chat";
/// The limit of work for one conversation, so that no template runs forever.
const FUEL: u64 = 50_000_000;

/// The chat template of a model.
pub(crate) struct Template {
    environment: Environment<'static>,
    /// Whether the template renders tools.
    pub(crate) knows_tools: bool,
}

// === impl Template ===

impl Template {
    /// Returns the template of a model. Returns `None` if the model has none, like base models.
    pub(crate) fn load(folder: &Path, weights: &Weights) -> Result<Option<Self>, LoadError> {
        let (path, source) = match weights {
            Weights::Gguf(file) => {
                let source =
                    file.get("tokenizer.chat_template").and_then(weights::Value::text).map(str::to_owned);
                (file.path().to_owned(), source)
            }
            Weights::Safetensors(_) => {
                let (file, settings) =
                    (folder.join("chat_template.jinja"), folder.join("tokenizer_config.json"));
                if file.is_file() {
                    let source = files::template(&file)?;
                    (file, Some(source))
                } else if settings.is_file() {
                    let source = files::json(&settings)?["chat_template"].as_str().map(str::to_owned);
                    (settings, source)
                } else {
                    (folder.to_owned(), None)
                }
            }
        };
        source
            .map(|source| Self::new(source).map_err(|reason| LoadError::Malformed { path, reason }))
            .transpose()
    }

    /// Reads a template from a file.
    pub(crate) fn read(file: &Path) -> Result<Self, LoadError> {
        Self::new(files::template(file)?)
            .map_err(|reason| LoadError::Malformed { path: file.to_owned(), reason })
    }

    fn new(source: String) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| error.to_string())?);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        let knows_tools = source.contains("tools");
        environment
            .add_template_owned(NAME, source)
            .map_err(|error| format!("the chat template cannot be read: {error}"))?;
        Ok(Self { environment, knows_tools })
    }

    /// Renders a conversation as one text, up to the start of the model's answer.
    pub(crate) fn render(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        tools: &[Tool],
    ) -> Result<String, String> {
        let messages: Vec<_> = messages.iter().map(message).collect();
        let tools: Vec<_> = tools
            .iter()
            .map(|tool| {
                json!({"type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": tool.parameters,
                }})
            })
            .collect();
        let tools = if tools.is_empty() { Value::UNDEFINED } else { Value::from(Serde(&tools)) };
        let values = context! {
            messages => Value::from(Serde(&messages)),
            tools,
            add_generation_prompt => true,
            bos_token => tokenizer.begin.as_str(),
            eos_token => tokenizer.end.as_str(),
        };
        let template = self.environment.get_template(NAME).map_err(|error| error.to_string())?;
        template
            .render(values)
            .map_err(|error| error.detail().map_or_else(|| error.kind().to_string(), str::to_owned))
    }
}

fn message(message: &Message) -> serde_json::Value {
    let mut value = json!({"role": message.role.name(), "content": message.text});
    if !message.calls.is_empty() {
        let calls = message.calls.iter().map(|call| {
            // Templates print arguments as JSON, so the arguments must be a value and not a text.
            let arguments: serde_json::Value =
                serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.clone().into());
            json!({"type": "function", "function": {"name": call.name, "arguments": arguments}})
        });
        value["tool_calls"] = calls.collect();
    }
    value
}
