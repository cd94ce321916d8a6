//! Renders as the reference does: runs one template over the JSON text of the whole object.

use longboat_template::{Limits, Template, TemplateError, reflect::Value as Data};
use serde_json::Value;

use crate::{codec, error::ComposeError, functions::FUNCTIONS, schema};

/// The start of a template action.
const ACTION: &str = "{{";

/// The name of every template, which is part of its errors.
const TEMPLATE_NAME: &str = "config";

/// The space for the text of an object: most are shorter.
const TEXT_CAPACITY: usize = 64 << 10;

/// Renders the spec of `config`, an object of metadata and spec, over `data` ([`schema::Types::template_data`]).
///
/// # Errors
///
/// Those of [`template`] and [`execute`].
pub(crate) fn whole(config: &Value, data: &Value) -> Result<Value, ComposeError> {
    execute(&template(config)?, data)
}

/// Parses the text of `config` as a template.
///
/// # Errors
///
/// [`ComposeError::TemplateSyntax`].
pub(crate) fn template(config: &Value) -> Result<Template, ComposeError> {
    let mut text = String::with_capacity(TEXT_CAPACITY);
    codec::encode(&mut text, schema::TYPES.config, config);
    parse(&text).map_err(|e| ComposeError::TemplateSyntax(e.to_string()))
}

/// Renders the template of a config over `data`, and returns the spec.
///
/// # Errors
///
/// One of [`ComposeError::TemplateSyntax`], [`ComposeError::TemplateExecution`] and [`ComposeError::Rendered`].
pub(crate) fn execute(template: &Template, data: &Value) -> Result<Value, ComposeError> {
    let data = Data::typed(schema::TYPES.template_data, Some(data));
    let rendered = template.execute(&data, Limits::default()).map_err(|e| match e {
        TemplateError::Parse(message) => ComposeError::TemplateSyntax(message),
        TemplateError::Execute(message) => ComposeError::TemplateExecution(message),
    })?;
    let json = codec::parse(&rendered).map_err(ComposeError::Rendered)?;
    let mut config = codec::normalise(schema::TYPES.config, json).map_err(ComposeError::Rendered)?;
    Ok(config.get_mut("spec").map(Value::take).unwrap_or_default())
}

/// Parses a template.
///
/// # Errors
/// If `text` is not a valid template.
pub(crate) fn parse(text: &str) -> Result<Template, TemplateError> {
    Template::parse(TEMPLATE_NAME, text, FUNCTIONS)
}

/// Whether a value or key in `json` is a template for which `matches` is true.
pub(crate) fn has_template(json: &Value, matches: &impl Fn(&str) -> bool) -> bool {
    let is_match = |text: &str| text.contains(ACTION) && matches(text);
    match json {
        Value::String(text) => is_match(text),
        Value::Array(items) => items.iter().any(|item| has_template(item, matches)),
        Value::Object(map) => map.iter().any(|(key, item)| is_match(key) || has_template(item, matches)),
        _ => false,
    }
}
