//! Chat templates in Jinja, rendered like Hugging Face's tokenizers.

use std::path::{Path, PathBuf};

use longboat_serving::{Call, Layout, Message, Role, Tool};
use minijinja::Environment;
use serde_json::{Map, Value, json};

use super::{
    conversation::{Conversation, RenderResult, compiled},
    template_process::TemplateProcess,
    tokenizer::Tokenizer,
};
use crate::{
    LoadError,
    weights::{self, Weights, files},
};

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
            .map(|source| Self::new(source, program).map_err(|reason| LoadError::malformed(path, reason)))
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

/// Lays a conversation out by a template, for the fuzz target.
pub(crate) fn probe(source: &[u8]) {
    let Ok(source) = std::str::from_utf8(source) else { return };
    let Ok(template) = Template::new(source.to_owned(), None) else { return };
    let messages = [Role::System, Role::User, Role::Assistant]
        .map(|role| Message::new(role, format!("I am {}.", role.name())));
    let parameters = json!({"type": "object"});
    let definition = json!({"name": "f", "parameters": parameters});
    let tool = Tool { name: "f".into(), description: String::new(), parameters, definition };
    let variables = Map::new();
    let layout = Layout { messages: &messages, tools: &[tool], opens_answer: true, variables: &variables };
    let _ = template.render_between("<s>", "</s>", &layout);
}

/// A tool with the fields that vLLM hands on, in its order.
fn tool(tool: &Tool) -> Value {
    let mut function = json!({"name": tool.name});
    for (field, is_optional) in
        [("description", false), ("parameters", false), ("strict", true), ("defer_loading", true)]
    {
        let value = &tool.definition[field];
        if !(is_optional && value.is_null()) {
            function[field] = value.clone();
        }
    }
    json!({"type": "function", "function": function})
}

/// A message with the fields that vLLM hands on, in its order.
fn message(message: &Message) -> Value {
    let mut value = json!({"role": message.role.name(), "content": message.text});
    if !message.calls.is_empty() {
        value["tool_calls"] = message.calls.iter().map(call).collect();
    }
    for (field, text) in [
        ("reasoning", &message.reasoning),
        ("reasoning_content", &message.reasoning),
        ("tool_call_id", &message.tool_call_id),
        ("name", &message.name),
    ] {
        if let Some(text) = text {
            value[field] = text.as_str().into();
        }
    }
    value
}

fn call(call: &Call) -> Value {
    // Templates print arguments as JSON, so the arguments must be a value and not a text. Like vLLM, whatever is no object becomes an
    // empty one: otherwise a conversation with it could not go on.
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    let mut value = json!({});
    if !call.id.is_empty() {
        value["id"] = call.id.as_str().into();
    }
    value["type"] = "function".into();
    value["function"] = json!({"name": call.name, "arguments": arguments});
    value
}

#[cfg(test)]
mod tests {
    use super::{super::conversation::MAX_REASON_CHARS, *};

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

    /// The lines are what Hugging Face's `apply_chat_template` makes of the conversation that vLLM hands on.
    #[test]
    fn tools_and_messages_render_as_in_hugging_face() {
        let source = "{% for tool in tools %}{{ tool|tojson }}\n{% endfor %}{% for message in messages %}{{ message|tojson }}\n{% endfor %}\
                      {{ tools[0].function|tojson(indent=2, sort_keys=true) }}\n{{ tools[0].function.description|tojson(ensure_ascii=true) }}\n\
                      {{ {'b': [], 'a': [1, 2.0]}|tojson(separators=(',', ':')) }}\n{{ documents is none }}";
        let tool = |definition: Value| Tool {
            name: definition["name"].as_str().unwrap().to_owned(),
            description: String::new(),
            parameters: Value::Null,
            definition,
        };
        let parameters = json!({"type": "object", "properties": {"z": {"default": 1.0}, "a": {}}});
        let described = json!({"parameters": parameters, "name": "weather", "description": "<it's> & é"});
        let tools = [tool(described), tool(json!({"name": "f", "strict": true, "other": 1}))];
        let call =
            |id: &str, arguments: &str| Call { id: id.into(), name: "f".into(), arguments: arguments.into() };
        let calls =
            vec![call("c1", "{\"z\": 1, \"a\": 1.0}"), call("", ""), call("", "{\"a"), call("", "[1]")];
        let messages = [
            Message { calls, reasoning: Some("Hm.".into()), ..Message::new(Role::Assistant, String::new()) },
            Message { tool_call_id: Some("c1".into()), ..Message::new(Role::Tool, "<b>".into()) },
            Message { name: Some("ann".into()), ..Message::new(Role::User, "x".into()) },
        ];
        let variables = Map::new();
        let layout = Layout { messages: &messages, tools: &tools, opens_answer: true, variables: &variables };
        let text = Template::new(source.to_owned(), None).unwrap().render_between("", "", &layout).unwrap();
        let expected = r#"{"type": "function", "function": {"name": "weather", "description": "<it's> & é", "parameters": {"type": "object", "properties": {"z": {"default": 1.0}, "a": {}}}}}
{"type": "function", "function": {"name": "f", "description": null, "parameters": null, "strict": true}}
{"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"z": 1, "a": 1.0}}}, {"type": "function", "function": {"name": "f", "arguments": {}}}, {"type": "function", "function": {"name": "f", "arguments": {}}}, {"type": "function", "function": {"name": "f", "arguments": {}}}], "reasoning": "Hm.", "reasoning_content": "Hm."}
{"role": "tool", "content": "<b>", "tool_call_id": "c1"}
{"role": "user", "content": "x", "name": "ann"}
{
  "description": "<it's> & é",
  "name": "weather",
  "parameters": {
    "properties": {
      "a": {},
      "z": {
        "default": 1.0
      }
    },
    "type": "object"
  }
}
"<it's> & \u00e9"
{"b":[],"a":[1,2.0]}
True"#;
        assert_eq!(text, expected);
        assert_eq!(rendered("{{ tools is none }} {{ tools is defined }}").unwrap(), "True True");
    }

    #[test]
    fn reasons_are_short() {
        assert_eq!(rendered("{{ raise_exception('no') }}").unwrap_err(), "no");
        let long = rendered("{{ raise_exception('no' * 100000) }}").unwrap_err();
        assert_eq!(long.len(), MAX_REASON_CHARS);
    }

    #[test]
    fn counted_methods_return_what_python_returns() {
        let source = "{{ 'a-b'.split('-')|join('+') }} {{ ' a  b '.split()|join('+') }} {{ 'a-b-c'.split('-', 1)|join('+') }} \
                      {{ ','.join(['a', 1]) }} {{ '{0}: {1}'.format('a', 1) }} {{ 'a\nb'.splitlines()|join('+') }} \
                      {{ 'a-b'|split('-')|join('+') }} {{ 'a\nb'|lines|join('+') }}";
        assert_eq!(rendered(source).unwrap(), "a+b a+b a+b-c a,1 a: 1 a+b a+b a+b");
    }
}
