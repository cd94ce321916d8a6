//! Go's text/template, with the semantics it has over a Go program's typed data.
//!
//! Presets and users' configs are Go templates. They are rendered here with the same results and
//! the same error texts, because users see both: a nil pointer to 0 is true, a nil pointer prints `<nil>`, an
//! unknown field names the type it is missing from. Data is plain JSON together with a description of the Go types
//! that the reference has for it ([`reflect`]). `missingkey=error` is always on.
//!
//! A template can come from anyone who may create a service, so evaluation is bounded in output, depth and steps
//! ([`Limits`]), and no input makes it panic.

mod call;
mod escape;
mod exec;
mod format;
mod functions;
mod lexer;
mod made;
mod method;
mod node;
mod number;
mod parser;
mod quote;
pub mod reflect;

use std::collections::{BTreeMap, BTreeSet};

pub use functions::{Function, Param};
use node::Node;
use reflect::Value;

/// What one rendering may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of output, and of any single string on the way to it.
    pub output: usize,
    /// Templates that call templates.
    pub depth: usize,
    /// Nodes, pipelines, operands and loop iterations evaluated; long values count as more than one.
    pub steps: usize,
}

impl Default for Limits {
    /// Enough for anything that Kubernetes would store (1.5 MiB an object), milliseconds at worst.
    fn default() -> Self {
        Self { output: format::MAX_TEXT, depth: 256, steps: 1_000_000 }
    }
}

/// A template that does not parse or render, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is no template.
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
    filter: Option<Filter>,
}

/// Turns a printed value into what goes to the output; `None` if it must not.
pub type Filter = fn(&str) -> Option<String>;

impl Template {
    /// Parses `text`. `name` appears in messages; `functions` are known besides Go's own.
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
            filter: None,
        })
    }

    /// Renders over `data`, which `.` and `$` are at the start.
    ///
    /// # Errors
    ///
    /// [`TemplateError::Execute`] with the text `template: NAME:LINE:COLUMN: executing … at <…>: …`.
    pub fn execute<'a>(&'a self, data: &Value<'a>, limits: Limits) -> Result<String, TemplateError> {
        exec::execute(self, data, limits).map_err(TemplateError::Execute)
    }

    /// The template with `filter` applied to its literal text now, and to each value when it is printed. `None` if the
    /// filter refuses a piece of the text.
    ///
    /// For text in an encoding that can be decoded piece by piece, this decodes once what every rendering shares.
    pub fn filtered(mut self, filter: Filter) -> Option<Self> {
        for node in self.root.iter_mut().chain(self.defines.values_mut().flatten()) {
            node.map_text(filter)?;
        }
        self.filter = Some(filter);
        Some(self)
    }

    /// Whether a field name of which `wanted` holds is used anywhere.
    pub fn mentions(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.root.iter().chain(self.defines.values().flatten()).any(|n| n.mentions(&wanted))
    }

    /// The fields of the data that are named from its top, such as `.Spec.Model.Name`: outside of `with` and `range` those
    /// of `.`, and everywhere those of `$`. Each once, sorted.
    pub fn fields(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for node in &self.root {
            node.fields(true, &mut found);
        }
        found
    }

    /// Whether the text stands on its own: it declares no template that other text could call.
    pub fn is_self_contained(&self) -> bool {
        self.defines.is_empty()
    }
}

#[cfg(test)]
mod limits;
#[cfg(test)]
mod tests;
