//! Chat templates in Jinja, rendered like Hugging Face's tokenizers.

use std::{
    io,
    path::{Path, PathBuf},
};

use longboat_serving::{Layout, Message, Role, Tool};
use minijinja::{
    Environment, ErrorKind, Output, State, Value, context,
    syntax::SyntaxConfig,
    value::{Kwargs, Serde, StringInput},
};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Tokenizer, template_process::TemplateProcess};
use crate::{
    LoadError,
    weights::{self, Weights, files},
};

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
const MAX_REASON_CHARS: usize = 500;

/// Why a template ended early.
pub(super) const LIMIT_EXCEEDED: &str = "it needs more time or memory than the limit of a conversation";

/// The chat template of a model.
pub(crate) struct Template {
    renderer: Renderer,
    /// Whether the template renders tools.
    pub(crate) knows_tools: bool,
}

/// The place where a template is rendered.
enum Renderer {
    /// In this process, which it may end.
    InProcess(Box<Environment<'static>>),
    /// In a process of its own.
    Separate(TemplateProcess),
}

/// The input of a template.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Conversation {
    begin: String,
    end: String,
    messages: Vec<serde_json::Value>,
    tools: Vec<serde_json::Value>,
    opens_answer: bool,
    variables: serde_json::Map<String, serde_json::Value>,
}

/// A conversation as one text, or why there is none.
pub(super) type RenderResult = Result<String, String>;

// === impl Template ===

impl Template {
    /// Returns the template of a model, or the one in `file` in its place. Returns `None` if there is none, as for base
    /// models. `program` renders it, if it is given.
    pub(crate) fn load(
        file: Option<&Path>,
        folder: &Path,
        weights: &Weights,
        program: Option<PathBuf>,
    ) -> Result<Option<Self>, LoadError> {
        let (path, source) = match (file, weights) {
            (Some(file), _) => (file.to_owned(), Some(files::template(file)?)),
            (None, Weights::Gguf(file)) => {
                let source =
                    file.get("tokenizer.chat_template").and_then(weights::Value::text).map(str::to_owned);
                (file.path().to_owned(), source)
            }
            (None, Weights::Safetensors(_)) => {
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
            .map(|source| Self::new(source, program).map_err(|reason| LoadError::Malformed { path, reason }))
            .transpose()
    }

    fn new(source: String, program: Option<PathBuf>) -> Result<Self, String> {
        let knows_tools = source.contains("tools");
        let renderer = match program {
            Some(program) => Renderer::Separate(TemplateProcess::new(program, source)?),
            None => Renderer::InProcess(compiled(source)?.into()),
        };
        Ok(Self { renderer, knows_tools })
    }

    /// A conversation as one text.
    pub(crate) fn render(&self, tokenizer: &Tokenizer, layout: &Layout<'_>) -> Result<String, String> {
        self.render_between(&tokenizer.begin, &tokenizer.end, layout)
    }

    /// The same with these special tokens at the beginning and the end of texts.
    fn render_between(&self, begin: &str, end: &str, layout: &Layout<'_>) -> RenderResult {
        let tool = |tool: &Tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.parameters,
            }})
        };
        let conversation = Conversation {
            begin: begin.to_owned(),
            end: end.to_owned(),
            messages: layout.messages.iter().map(message).collect(),
            tools: layout.tools.iter().map(tool).collect(),
            opens_answer: layout.opens_answer,
            variables: layout.variables.clone(),
        };
        match &self.renderer {
            Renderer::InProcess(environment) => conversation.rendered(environment),
            Renderer::Separate(process) => process.render(&conversation),
        }
    }
}

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
        let tools = if self.tools.is_empty() { Value::UNDEFINED } else { Value::from(Serde(&self.tools)) };
        let values = context! {
            messages => Value::from(Serde(&self.messages)),
            tools,
            add_generation_prompt => self.opens_answer,
            bos_token => self.begin.as_str(),
            eos_token => self.end.as_str(),
            // The first value of a name counts, so a request cannot replace the values above.
            ..Value::from(Serde(&self.variables))
        };
        let template = environment.get_template(NAME).map_err(|error| error.to_string())?;
        let mut text = BoundedText(Vec::new());
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
struct BoundedText(Vec<u8>);

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
fn charge(state: &State<'_, '_>, bytes: usize) -> Result<(), minijinja::Error> {
    state.consume_fuel((bytes / BYTES) as u64)
}

/// Writes a value. A list that holds others may be far longer as a text than in memory, so its parts are counted first.
fn format(output: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), minijinja::Error> {
    charge_text(state, value)?;
    minijinja::escape_formatter(output, state, value)
}

/// Takes what a value costs as a text.
fn charge_text(state: &State<'_, '_>, value: &Value) -> Result<(), minijinja::Error> {
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

/// Python's methods of values. Those that make more than they get take its cost first.
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

/// Lays a conversation out by a template, for the fuzz target.
pub(crate) fn probe(source: &[u8]) {
    let Ok(source) = std::str::from_utf8(source) else { return };
    let Ok(template) = Template::new(source.to_owned(), None) else { return };
    let messages = [Role::System, Role::User, Role::Assistant].map(|role| Message {
        role,
        text: format!("I am {}.", role.name()),
        calls: Vec::new(),
    });
    let tool = Tool { name: "f".into(), description: String::new(), parameters: json!({"type": "object"}) };
    let variables = serde_json::Map::new();
    let layout = Layout { messages: &messages, tools: &[tool], opens_answer: true, variables: &variables };
    let _ = template.render_between("<s>", "</s>", &layout);
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

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    /// Renders a template without variables.
    fn rendered(source: &str) -> Result<String, String> {
        let variables = Map::new();
        let layout = Layout { messages: &[], tools: &[], opens_answer: true, variables: &variables };
        Template::new(source.to_owned(), None).unwrap().render_between("", "", &layout)
    }

    /// The most memory that this process had, in MiB.
    fn peak() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() >> 10
    }

    #[test]
    fn a_template_that_would_fill_the_memory_ends_in_a_sentence() {
        let doubles = |start: &str, step: &str, end: &str| {
            format!(
                "{{% set n = namespace(x={start}) %}}{{% for i in range(34) %}}{{% set n.x = {step} %}}{{% endfor %}}{end}"
            )
        };
        // As long as a text can be.
        let long =
            "{% set n = namespace(x='a,') %}{% for i in range(21) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
        let before = peak();
        for source in [
            doubles("'a'", "n.x ~ n.x", "{{ n.x|length }}"),
            doubles("'a'", "n.x + n.x", "{{ n.x|length }}"),
            doubles("'a'", "n.x * 2", "{{ n.x|length }}"),
            doubles("'a'", "n.x|replace('a', 'aa')", "{{ n.x|length }}"),
            doubles("'a'", "n.x.replace('a', 'aa')", "{{ n.x|length }}"),
            doubles("'a'", "[n.x, n.x]|join", "{{ n.x|length }}"),
            doubles("'a'", "''.join([n.x, n.x])", "{{ n.x|length }}"),
            doubles("'a'", "'{0}{0}'.format(n.x)", "{{ n.x|length }}"),
            doubles("'a'", "'%s%s'|format(n.x, n.x)", "{{ n.x|length }}"),
            // Lists that hold themselves again and again are short until they become texts.
            doubles("[1]", "[n.x, n.x]", "{{ n.x }}"),
            doubles("[1]", "[n.x, n.x]", "{% set y %}{{ n.x }}{% endset %}"),
            doubles("[1]", "[n.x, n.x]", "{{ ''.join([n.x])|length }}"),
            doubles("[1]", "[n.x, n.x]", "{{ n.x|join|length }}"),
            doubles("[1]", "[n.x, n.x]", "{{ '{}'.format(n.x)|length }}"),
            "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}".to_owned()
                + &doubles("'a'", "m(n.x)", "{{ n.x|length }}"),
            format!("{long}{{{{ ''.join([n.x] * 1000)|length }}}}"),
            format!("{long}{{{{ ([n.x] * 1000)|join|length }}}}"),
            format!("{long}{{{{ ('{{0}}' * 1000).format(n.x)|length }}}}"),
            format!("{long}{{{{ n.x.split(',')|length }}}}{{{{ n.x|split(',')|length }}}}"),
            format!("{long}{{{{ n.x|list|length }}}}"),
            "{{ '{:>4000000000}'.format(1)|length }}".to_owned(),
            "{{ ('%4000000000d'|format(1))|length }}".to_owned(),
            "{{ 'a' * 4000000000 }}".to_owned(),
            "{{ ('a\n' * 1000)|indent(100000000) }}".to_owned(),
            "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}".to_owned(),
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(),
        ] {
            let error = rendered(&source).map(|text| text.len()).unwrap_err();
            assert!(!error.is_empty() && error.len() <= 4 * MAX_REASON_CHARS, "{source}: {error}");
            let grown = peak() - before;
            assert!(grown < 300, "{source}: {grown} MiB");
        }
    }

    #[test]
    fn a_reason_is_told_in_a_few_words() {
        assert_eq!(rendered("{{ raise_exception('no') }}").unwrap_err(), "no");
        let long = rendered("{{ raise_exception('no' * 100000) }}").unwrap_err();
        assert_eq!(long.len(), MAX_REASON_CHARS);
    }

    #[test]
    fn methods_that_are_counted_say_what_they_say_in_python() {
        let source = "{{ 'a-b'.split('-')|join('+') }} {{ ' a  b '.split()|join('+') }} {{ 'a-b-c'.split('-', 1)|join('+') }} \
                      {{ ','.join(['a', 1]) }} {{ '{0}: {1}'.format('a', 1) }} {{ 'a\nb'.splitlines()|join('+') }} \
                      {{ 'a-b'|split('-')|join('+') }} {{ 'a\nb'|lines|join('+') }}";
        assert_eq!(rendered(source).unwrap(), "a+b a+b a+b-c a,1 a: 1 a+b a+b a+b");
    }
}
