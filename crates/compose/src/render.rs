//! Renders as the reference does: runs one template over the JSON text of the whole object.
//!
//! [`crate::leaf`] is the fast path for the usual case. This path defines the result, and only this path reports errors,
//! because their positions refer to that text.

use longboat_template::{Limits, Template, TemplateError, reflect::Value as Data};
use serde_json::Value;

use crate::{codec, error::ComposeError, functions::FUNCTIONS, leaf::TEMPLATE_NAME, schema};

/// Renders the spec of `config`, an object of metadata and spec, over `data` ([`schema::TEMPLATE_DATA`]).
///
/// # Errors
///
/// One of [`ComposeError::TemplateSyntax`], [`ComposeError::TemplateExecution`] and [`ComposeError::Rendered`].
pub(crate) fn whole(config: &Value, data: &Value) -> Result<Value, ComposeError> {
    let mut text = String::with_capacity(16 << 10);
    codec::encode(&mut text, schema::CONFIG, config);
    let template = Template::parse(TEMPLATE_NAME, &text, FUNCTIONS)
        .map_err(|e| ComposeError::TemplateSyntax(e.to_string()))?;
    let data = Data::typed(schema::TEMPLATE_DATA, Some(data));
    let rendered = template.execute(&data, Limits::default()).map_err(|e| match e {
        TemplateError::Parse(message) => ComposeError::TemplateSyntax(message),
        TemplateError::Execute(message) => ComposeError::TemplateExecution(message),
    })?;
    let json = codec::parse(&rendered).map_err(ComposeError::Rendered)?;
    let mut config = codec::normalise(schema::CONFIG, json).map_err(ComposeError::Rendered)?;
    Ok(config.get_mut("spec").map(Value::take).unwrap_or_default())
}
