//! Go's text/template, with the semantics that it has for the typed data of a Go program.
//!
//! Presets and users' configs are Go templates. They are rendered here with the same results and error texts, because users
//! see both: for example, a nil pointer prints `<nil>`, a pointer to 0 is true, and the error about an unknown field names
//! the type that lacks it. The data is plain JSON, together with a description of the reference's Go types for it
//! ([`reflect`]). `missingkey=error` is always on.
//!
//! Anyone who may create a service can provide a template. So evaluation is limited in output, depth and steps ([`Limits`]),
//! and no input makes it panic.

mod arena;
mod call;
mod escape;
mod exec;
mod format;
mod functions;
mod lexer;
mod method;
mod node;
mod number;
mod parser;
mod quote;
pub mod reflect;

use std::collections::{BTreeMap, BTreeSet};

pub use functions::Function;
pub use method::{Answer, Call, Implementation, Method, Param, Receiver, go::go_methods};
use node::Node;
use reflect::Value;

/// The limits of one rendering.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the output, and of any intermediate string.
    pub output: usize,
    /// The nesting of templates that call templates.
    pub depth: usize,
    /// Evaluated nodes, pipelines, operands and loop iterations. A long value counts as several.
    pub steps: usize,
}

impl Default for Limits {
    /// Enough for every object that Kubernetes would store (1.5 MiB), and at worst milliseconds of evaluation.
    fn default() -> Self {
        Self { output: format::MAX_TEXT, depth: 256, steps: 1_000_000 }
    }
}

/// An error of parsing or rendering, with Go's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is not a valid template.
    #[error("{0}")]
    Parse(String),
    /// The template failed on its data.
    #[error("{0}")]
    Execute(String),
}

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    name: Box<str>,
    text: Box<str>,
    root: Vec<Node>,
    defines: BTreeMap<Box<str>, Vec<Node>>,
    functions: &'static [Function],
}

impl Template {
    /// Parses `text`. `name` appears in messages. `functions` are available in addition to Go's own.
    ///
    /// # Errors
    ///
    /// [`TemplateError::Parse`] with the text `template: NAME:LINE: …`.
    pub fn parse(name: &str, text: &str, functions: &'static [Function]) -> Result<Self, TemplateError> {
        let known =
            |name: &str| functions.iter().any(|f| f.name == name) || functions::builtin(name).is_some();
        let parsed = parser::parse(name, text, &known).map_err(TemplateError::Parse)?;
        Ok(Self {
            name: name.into(),
            text: text.into(),
            root: parsed.root,
            defines: parsed.defines,
            functions,
        })
    }

    /// Renders the template with `data`, the initial value of `.` and `$`.
    ///
    /// # Errors
    ///
    /// [`TemplateError::Execute`] with the text `template: NAME:LINE:COLUMN: executing … at <…>: …`.
    pub fn execute<'a>(&'a self, data: &Value<'a>, limits: Limits) -> Result<String, TemplateError> {
        exec::execute(self, data, limits).map_err(TemplateError::Execute)
    }

    /// The fields that the template reads from the top of the data, such as `.Spec.Model.Name`: the fields of `$`, and
    /// outside of `with` and `range` those of `.`. Sorted, without repetitions.
    pub fn fields(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for node in &self.root {
            node.fields(true, &mut found);
        }
        found
    }
}

#[cfg(test)]
mod tests;
