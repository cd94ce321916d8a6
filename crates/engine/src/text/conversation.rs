//! A conversation as the text that a template in Jinja makes of it, within limits of time and memory.

use std::io;

use minijinja::{
    Environment, ErrorKind, Output, State, Value, context,
    syntax::SyntaxConfig,
    value::{Kwargs, Serde, StringInput, merge_maps},
};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::{Deserialize, Serialize};

use super::json;

const NAME: &str = "chat";
/// The work that one conversation may take, so that no template runs for ever or fills the memory: an instruction takes one,
/// and so do 64 bytes that are written or kept. So a conversation makes 64 MB of texts at most, which is many times the
/// longest context.
const FUEL: u64 = 1_000_000;
/// Bytes for which one is taken.
const BYTES: usize = 64;
/// Bytes of an element of a list.
const ELEMENT: usize = 32;
/// Bytes of a conversation's text.
const MAX_TEXT_BYTES: usize = 32 << 20;
/// Characters of what a template says about a conversation that it refuses.
pub(super) const MAX_REASON_CHARS: usize = 500;

/// Why a template ended early.
pub(super) const LIMIT_EXCEEDED: &str = "it needs more time or memory than the limit of a conversation";

/// The input of a template.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Conversation {
    pub(super) begin: String,
    pub(super) end: String,
    pub(super) messages: Vec<serde_json::Value>,
    pub(super) tools: Vec<serde_json::Value>,
    pub(super) opens_answer: bool,
    pub(super) variables: serde_json::Map<String, serde_json::Value>,
}

/// A conversation as one text, or why there is none.
pub(super) type RenderResult = Result<String, String>;

/// Reads a template. The error says why it cannot be read.
pub(super) fn compiled(source: String) -> Result<Environment<'static>, String> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(|error| error.to_string())?);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(method);
    environment.set_formatter(format);
    environment.add_filter("join", join);
    environment.add_filter("split", split);
    environment.add_filter("lines", lines);
    environment.add_filter("tojson", json::filter);
    environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    environment
        .add_template_owned(NAME, source)
        .map_err(|error| format!("cannot parse the chat template: {error}"))?;
    Ok(environment)
}

// === impl Conversation ===

impl Conversation {
    /// The text that the template of this environment makes.
    pub(super) fn rendered(&self, environment: &Environment<'static>) -> RenderResult {
        // Templates tell none from what is undefined.
        let tools = if self.tools.is_empty() { Value::from(()) } else { Value::from(Serde(&self.tools)) };
        let values = context! {
            messages => Value::from(Serde(&self.messages)),
            tools,
            add_generation_prompt => self.opens_answer,
            bos_token => self.begin.as_str(),
            eos_token => self.end.as_str(),
            // The first value of a name counts, so a request cannot replace the values above.
            ..merge_maps([Value::from(Serde(&self.variables)), context! { documents => () }])
        };
        let template = environment.get_template(NAME).map_err(|error| error.to_string())?;
        let mut text = BoundedText::default();
        template.render_captured_to(values, &mut text).map(drop).map_err(|error| match error.kind() {
            ErrorKind::OutOfFuel | ErrorKind::WriteFailure => LIMIT_EXCEEDED.to_owned(),
            kind => {
                let reason = error.detail().map_or_else(|| kind.to_string(), str::to_owned);
                reason.chars().take(MAX_REASON_CHARS).collect()
            }
        })?;
        String::from_utf8(text.0).map_err(|error| error.to_string())
    }
}

/// A text that does not grow beyond its limit.
#[derive(Default)]
pub(super) struct BoundedText(pub(super) Vec<u8>);

impl io::Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_TEXT_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes what so many bytes cost, before they are there.
pub(super) fn charge(state: &State<'_, '_>, bytes: usize) -> Result<(), minijinja::Error> {
    state.consume_fuel((bytes / BYTES) as u64)
}

/// Writes a value. A list that holds others may be far longer as a text than in memory, so its parts are counted first.
fn format(output: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), minijinja::Error> {
    charge_text(state, value)?;
    minijinja::escape_formatter(output, state, value)
}

/// Takes what a value costs as a text.
pub(super) fn charge_text(state: &State<'_, '_>, value: &Value) -> Result<(), minijinja::Error> {
    let mut open = vec![value.clone()];
    while let Some(value) = open.pop() {
        let Some(object) = value.as_object() else { continue };
        for (key, item) in object.try_iter_pairs().into_iter().flatten() {
            state.consume_fuel(1)?;
            for part in [key, item] {
                match part.as_str() {
                    Some(text) => charge(state, text.len())?,
                    None => open.push(part),
                }
            }
        }
    }
    Ok(())
}

/// Python's methods of values. The memory of a result that may be larger than its input is charged first.
fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    let Some(text) = value.as_str() else { return unknown_method_callback(state, value, name, arguments) };
    match (name, arguments) {
        // The filter counts each piece as it comes.
        ("join", [pieces]) => state.apply_filter("join", &[pieces.clone(), value.clone()]),
        ("split", [] | [_] | [_, _]) => {
            charge_parts(state, text, arguments.first())?;
            unknown_method_callback(state, value, name, arguments)
        }
        ("splitlines", _) => {
            charge(state, text.lines().count() * ELEMENT)?;
            unknown_method_callback(state, value, name, arguments)
        }
        ("format", arguments) => {
            charge_format(state, text, arguments)?;
            unknown_method_callback(state, value, name, arguments)
        }
        _ => unknown_method_callback(state, value, name, arguments),
    }
}

/// Charges for splitting a text at a separator or at white space: one element for each part.
fn charge_parts(
    state: &State<'_, '_>,
    text: &str,
    separator: Option<&Value>,
) -> Result<(), minijinja::Error> {
    let parts = match separator.and_then(Value::as_str) {
        Some(separator) => text.matches(separator).count() + 1,
        None => text.split_whitespace().count(),
    };
    charge(state, parts.saturating_mul(ELEMENT))
}

/// Charges for a format: each placeholder may hold the longest value. Refuses large widths, and lists as values, because the
/// length of a list as text is unknown before it is rendered.
fn charge_format(state: &State<'_, '_>, format: &str, values: &[Value]) -> Result<(), minijinja::Error> {
    let refuse = |reason: &str| Err(minijinja::Error::new(ErrorKind::InvalidOperation, reason.to_owned()));
    let is_long = |digits: &str| digits.len() > 3;
    if format.split(|letter: char| !letter.is_ascii_digit()).any(is_long) {
        return refuse("`format` does not support numbers above 999");
    }
    if values.iter().any(|value| value.as_object().is_some()) {
        return refuse("`format` supports only strings and numbers");
    }
    let longest = values.iter().filter_map(|value| value.as_str().map(str::len)).max().unwrap_or(0);
    let places = format.matches('{').count();
    charge(state, places.saturating_mul(longest + 4000))
}

/// The filter `join`, which takes the cost of all pieces first.
fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    more: Kwargs,
) -> Result<Value, minijinja::Error> {
    charge_text(state, value)?;
    minijinja::filters::join(state, value, joiner, attribute, more)
}

/// The filter `split`, which takes the cost of its parts first.
fn split(
    state: &State<'_, '_>,
    value: &Value,
    separator: Option<Value>,
    most: Option<i64>,
) -> Result<Value, minijinja::Error> {
    if let Some(text) = value.as_str() {
        charge_parts(state, text, separator.as_ref())?;
    }
    let separator = separator.filter(|separator| !separator.is_none());
    minijinja::filters::split(value, separator.map(TryInto::try_into).transpose()?, most)
}

/// The filter `lines`, which takes the cost of its parts first.
fn lines(state: &State<'_, '_>, value: &Value) -> Result<Value, minijinja::Error> {
    if let Some(text) = value.as_str() {
        charge(state, text.lines().count() * ELEMENT)?;
    }
    minijinja::filters::lines(value)
}
