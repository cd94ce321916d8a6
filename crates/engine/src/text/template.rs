//! Chat templates in Jinja, rendered like Hugging Face's tokenizers.

use std::path::{Path, PathBuf};

use longboat_serving::{Layout, Message, Role, Tool};
use minijinja::Environment;
use serde_json::json;

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

/// Lays a conversation out by a template, for the fuzz target.
pub(crate) fn probe(source: &[u8]) {
    let Ok(source) = std::str::from_utf8(source) else { return };
    let Ok(template) = Template::new(source.to_owned(), None) else { return };
    let messages = [Role::System, Role::User, Role::Assistant]
        .map(|role| Message::new(role, format!("I am {}.", role.name())));
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
