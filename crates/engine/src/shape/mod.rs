//! Answers in a form that the request sets: JSON of a schema, one of several texts, text that a regular expression or a grammar
//! matches, or the call of a tool.
//!
//! After each token, the crate `llguidance` says which tokens may follow. All other tokens are not chosen, so whatever the model
//! says has the form. vLLM uses the same crate, so schemas, expressions and errors are the same.

mod gbnf;
mod limits;
mod schema;
mod vocabulary;

use std::{panic::resume_unwind, sync::Arc, thread};

use llguidance::{Matcher, api::TopLevelGrammar, earley::Parser};
use longboat_serving::{Shape, Tool};
use serde_json::{Value, json};

use self::schema::{bounded, object};
pub(crate) use self::vocabulary::Vocabulary;
use crate::text::{CLOSE, OPEN};

/// An answer that grows in a form.
#[derive(Clone)]
pub(crate) struct Form {
    matcher: Matcher,
    /// The parser before the first token. Its automaton is that of the matcher and of its clones, and grows with them.
    parser: Arc<Parser>,
}

// === impl Form ===

impl Form {
    /// Creates the form of an answer. The error is in the words of `llguidance`, as vLLM shows them.
    pub(crate) fn new(shape: &Shape, vocabulary: &Vocabulary) -> Result<Self, String> {
        let failed = |reason| format!("Grammar error: {reason}");
        let grammar = match shape {
            Shape::JsonObject => of_schema(&json!({"type": "object"})),
            Shape::Json(value) => {
                limits::check_schemas([value]).map_err(failed)?;
                of_schema(value)
            }
            Shape::Choice(texts) => {
                limits::check_text(texts.iter().map(String::len).sum()).map_err(failed)?;
                let texts: Vec<String> = texts.iter().map(|text| literal(text)).collect();
                TopLevelGrammar::from_lark(format!("start: {}", texts.join(" | ")))
            }
            Shape::Regex(text) => {
                limits::check_text(text.len()).map_err(failed)?;
                TopLevelGrammar::from_regex(text)
            }
            Shape::Grammar(text) => {
                let lark = gbnf::to_lark(text);
                let lark = lark.map_err(|reason| format!("Invalid grammar specification: {reason}"))?;
                limits::check_grammar(&lark).map_err(failed)?;
                TopLevelGrammar::from_lark(lark)
            }
        };
        Self::compile(grammar, vocabulary).map_err(failed)
    }

    /// Creates the form of a call of one of these tools, as `text::Calls` parses it. The error names the tool whose arguments are
    /// not supported.
    pub(crate) fn call(tools: &[&Tool], vocabulary: &Vocabulary) -> Result<Self, String> {
        limits::check_schemas(tools.iter().map(|tool| &tool.parameters))?;
        let mut calls = Vec::with_capacity(tools.len());
        for tool in tools {
            let named = |reason| format!("{}: {reason}", tool.name);
            let arguments = bounded(&object(&tool.parameters).map_err(named)?);
            // Each alone, so that the error can name the tool.
            Self::compile(TopLevelGrammar::from_json_schema(arguments.clone()), vocabulary).map_err(named)?;
            let name = Value::from(tool.name.as_str());
            let before = literal(&format!("{OPEN}\n{{\"name\": {name}, \"arguments\": "));
            calls.push(format!("{before} %json {arguments} {}", literal(&format!("}}\n{CLOSE}"))));
        }
        Self::compile(TopLevelGrammar::from_lark(format!("start: {}", calls.join(" | "))), vocabulary)
    }

    fn compile(grammar: TopLevelGrammar, vocabulary: &Vocabulary) -> Result<Self, String> {
        let compile = || vocabulary.0.create_parser(grammar).map_err(|error| error.to_string());
        let compiled = thread::scope(|scope| {
            let thread = thread::Builder::new().name("form".into()).stack_size(limits::STACK_BYTES);
            let thread =
                thread.spawn_scoped(scope, compile).map_err(|error| format!("no thread: {error}"))?;
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        let parser = compiled.map_err(|reason| without_stack(&reason))?;
        let start = Arc::new(parser.parser.clone());
        Ok(Self { matcher: Matcher::new(Ok(parser)), parser: start })
    }

    /// The bytes of the automaton, which gets states as answers grow. All clones of a form share it.
    pub(crate) fn bytes(&self) -> usize {
        self.parser.lexer_stats().num_bytes
    }

    /// Takes the weight of every token that may not follow away. Ends may follow where the form is complete. The error says why
    /// the answer cannot go on.
    pub(crate) fn restrict(&mut self, weights: &mut [f32]) -> Result<(), String> {
        let is_complete = self.matcher.is_stopped() && self.matcher.stop_reason().is_ok();
        let allowed =
            if is_complete { self.matcher.compute_mask_or_eos() } else { self.matcher.compute_mask() };
        let allowed = allowed.map_err(|error| without_stack(&error.to_string()));
        for (token, weight) in (0..).zip(weights) {
            if !allowed
                .as_ref()
                .is_ok_and(|allowed| (token as usize) < allowed.len() && allowed.is_allowed(token))
            {
                *weight = f32::NEG_INFINITY;
            }
        }
        allowed.map(drop)
    }

    /// Adds a token to the answer.
    pub(crate) fn consume(&mut self, token: u32) {
        // Only tokens that fit are chosen. If the form needs too much for this one, `restrict` will say so.
        let _ = self.matcher.consume_token(token);
    }
}

/// Returns an error of the library for clients. It catches its own panics, and adds its stack to their text.
fn without_stack(error: &str) -> String {
    let Some(panic) = error.strip_prefix("panic: ") else { return error.trim_end().to_owned() };
    let reason = panic.lines().next();
    tracing::warn!(reason, "The library of structured outputs cannot handle a form.");
    "this form is not supported".to_owned()
}

/// Follows a form for a few steps, for the fuzz targets.
pub(crate) fn probe(bytes: &[u8], shape: impl FnOnce(String) -> Option<Shape>) {
    let Some(shape) = str::from_utf8(bytes).ok().and_then(|text| shape(text.to_owned())) else { return };
    let letters = (0..=u8::MAX).map(|byte| vec![byte]).chain([Vec::new()]).collect();
    let Ok(Ok(mut form)) =
        Vocabulary::new(letters, [256].into_iter()).map(|letters| Form::new(&shape, &letters))
    else {
        return;
    };
    for step in 0..32 {
        let mut weights = [0.0; 257];
        if form.restrict(&mut weights).is_err() {
            return;
        }
        let allowed: Vec<u32> = (0..256).filter(|token| weights[*token as usize] == 0.0).collect();
        let Some(token) = allowed.get(step * 7 % allowed.len().max(1)) else { return };
        form.consume(*token);
    }
}

/// JSON of a schema.
fn of_schema(value: &Value) -> TopLevelGrammar {
    TopLevelGrammar::from_json_schema(bounded(value))
}

/// A text as Lark writes it: like JSON, but without the one control character that JSON leaves as it is.
fn literal(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', r"\u007f")
}

#[cfg(test)]
mod tests {
    use super::{vocabulary::MAX_TOKEN_BYTES, *};

    const END: u32 = 256;

    /// A vocabulary of single bytes, and a token that ends.
    fn letters() -> Vocabulary {
        let letters = (0..=u8::MAX).map(|byte| vec![byte]).chain([b"</s>".to_vec()]).collect();
        Vocabulary::new(letters, [END].into_iter()).unwrap()
    }

    /// Whether a text has the form, and whether it is at least the beginning of a text with the form.
    fn judged(form: &Form, text: &str) -> (bool, bool) {
        let mut form = form.clone();
        for token in text.bytes().map(u32::from) {
            let mut weights = [0.0; END as usize + 1];
            let fits = form.restrict(&mut weights).is_ok() && weights[token as usize] == 0.0;
            if !fits {
                return (false, false);
            }
            form.consume(token);
        }
        let mut weights = [0.0; END as usize + 1];
        (form.restrict(&mut weights).is_ok() && weights[END as usize] == 0.0, true)
    }

    fn fits(shape: &Shape, whole: &[&str], others: &[&str]) {
        let form = Form::new(shape, &letters()).unwrap();
        for text in whole {
            assert_eq!(judged(&form, text), (true, true), "{text}");
        }
        for text in others {
            assert!(!judged(&form, text).0, "{text}");
        }
    }

    #[test]
    fn texts_fit_their_schema_and_no_other() {
        let person = json!({
            "type": "object", "title": "Person", "required": ["name", "age"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 4}, "age": {"type": "integer"},
                "tags": {"type": "array", "items": {"enum": ["a", "b\"", 3]}, "maxItems": 2},
                "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
            },
        });
        fits(
            &Shape::Json(person),
            &[
                r#"{"name":"Ann","age":-30}"#,
                r#"{ "name" : "e\n" , "age" : 0 }"#,
                r#"{"name": "äöü€", "age": 1, "tags": [], "next": null}"#,
                r#"{"name":"x","age":2,"tags":["a", "b\""]}"#,
                r#"{"name":"x","age":2,"next":{"name":"y","age":2}}"#,
            ],
            &[
                r#"{"name":"Ann"}"#,
                r#"{"name":"","age":1}"#,
                r#"{"name":"Annie","age":1}"#,
                r#"{"name":"x","age":1.5}"#,
                r#"{"name":"x","age":01}"#,
                r#"{"name":"x","age":1,"other":1}"#,
                r#"{"age":1,"name":"x"}"#,
                r#"{"name":"x","age":1,"tags":["a","a","a"]}"#,
                r#"{"name":"x","age":1,"tags":["c"]}"#,
                "{\"name\":\"\n\",\"age\":1}",
                r#"{"name":"\x","age":1}"#,
                "[]",
                " {",
            ],
        );
        let exact = json!({
            "type": "object", "required": ["code", "level"],
            "properties": {
                "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]$"},
                "level": {"type": "integer", "minimum": 3, "exclusiveMaximum": 12},
                "at": {"oneOf": [{"type": "string", "format": "date"}, {"type": "boolean"}]},
            },
        });
        fits(
            &Shape::Json(exact),
            &[r#"{"code":"AB3","level":11}"#, r#"{"code":"AB3","level":3,"at":"2026-02-28"}"#],
            &[
                r#"{"code":"ab3","level":3}"#,
                r#"{"code":"AB3","level":12}"#,
                r#"{"code":"AB3","level":3,"at":"now"}"#,
            ],
        );
    }

    #[test]
    fn objects_have_more_properties_where_their_schema_asks_for_them() {
        let a = json!({"properties": {"a": {"type": "integer"}}, "required": ["a"]});
        let mut open = a.clone();
        open["additionalProperties"] = true.into();
        fits(&Shape::Json(a.clone()), &[r#"{"a":1}"#], &[r#"{"a":1,"b":2}"#]);
        fits(&Shape::Json(open), &[r#"{"a":1}"#, r#"{"a":1,"b":2}"#], &[r#"{"b":2}"#]);
        let joined = json!({"allOf": [a, {"properties": {"b": {"const": 2}}, "required": ["b"]}]});
        fits(&Shape::Json(joined), &[r#"{"a":1,"b":2}"#], &[r#"{"a":1}"#, r#"{"a":1,"b":3}"#]);
    }

    #[test]
    fn any_json_is_an_object_of_any_values_with_little_space() {
        let most = format!("{{{}}}", " ".repeat(20));
        let more = format!("{{{}}}", " ".repeat(21));
        let whole = r#"{"a": [1, -2.5e+10, true, null, {"b": "c"}], "": false}"#;
        fits(&Shape::JsonObject, &["{}", whole, &most], &["[1]", &more]);
    }

    #[test]
    fn choices_expressions_and_grammars_match_as_a_whole() {
        let choice = Shape::Choice(vec!["yes".into(), "yesterday".into(), "n\"\u{7f}\n".into()]);
        fits(&choice, &["yes", "yesterday", "n\"\u{7f}\n"], &["yeste", "maybe", ""]);
        let expression = |text: &str| Shape::Regex(text.into());
        fits(&expression(r"\d{3}-\d{4}"), &["555-1234"], &["555-12345", "555-"]);
        fits(&expression("(a*)*b?"), &["aaab", ""], &["ba"]);
        fits(&expression("a|ab|abc"), &["ab", "abc"], &["abcd"]);
        fits(&expression("[äö]+"), &["äöä"], &["a"]);
        let grammar = |text: &str| Shape::Grammar(text.into());
        fits(&grammar("root ::= \"(\" root? \")\""), &["()", "((()))"], &["(", "(()"]);
        fits(&grammar("start: \"a\" start | NUMBER\nNUMBER: /[0-9]+/"), &["aa12", "3"], &["a", "12a"]);
    }

    #[test]
    fn forced_calls_have_the_arguments_of_their_tool() {
        let tool = |name: &str, parameters| Tool {
            name: name.into(),
            description: String::new(),
            parameters,
            definition: Value::Null,
        };
        let number = json!({
            "type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"], "$defs": {"n": {"type": "integer"}},
        });
        let (add, now) = (tool("add", number), tool("\"now\"", json!({"type": ["object", "null"]})));
        let form = Form::call(&[&add, &now], &letters()).unwrap();
        let call = |call: &str| format!("<tool_call>\n{call}\n</tool_call>");
        for fit in
            [r#"{"name": "add", "arguments": {"a": 1}}"#, r#"{"name": "\"now\"", "arguments": {"x": []}}"#]
        {
            assert_eq!(judged(&form, &call(fit)), (true, true), "{fit}");
        }
        for other in [
            r#"{"name": "add", "arguments": {"x": []}}"#,
            r#"{"name": "add", "arguments": {}}"#,
            r#"{"name": "\"now\"", "arguments": null}"#,
            r#"{"name": "sub", "arguments": {}}"#,
        ] {
            assert!(!judged(&form, &call(other)).1, "{other}");
        }
        assert!(!judged(&form, "Well").1);
        for (parameters, reason) in [
            (
                json!({"type": "string"}),
                "f: arguments are an object, and this schema allows only other values",
            ),
            (json!(false), "f: no value matches this schema"),
            (json!({"properties": {"a": {"not": {}}}}), "f: Unimplemented keys: [\"not\"]"),
        ] {
            assert_eq!(Form::call(&[&now, &tool("f", parameters)], &letters()).map(drop), Err(reason.into()));
        }
    }

    #[test]
    fn unsupported_forms_are_refused_in_the_words_of_the_library() {
        for (shape, words) in [
            (Shape::Json(json!({"type": "unheard"})), "Grammar error: Invalid type: unheard"),
            (Shape::Json(json!({"not": {}})), "Grammar error: Unimplemented keys: [\"not\"]"),
            (Shape::Json(json!({"$ref": "other.json"})), "Grammar error: "),
            (Shape::Regex("(".into()), "Grammar error: at 1(8): invalid regex \"(\""),
            (Shape::Regex(r"(a)\1".into()), "Grammar error: "),
            (Shape::Grammar("nonsense ::=".into()), "Invalid grammar specification: Failed to convert"),
            (Shape::Grammar("root ::= other".into()), "Grammar error: "),
            (Shape::Grammar(format!("start: {}", "(".repeat(100_000))), "Grammar error: "),
        ] {
            let error = Form::new(&shape, &letters()).map(drop).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }

    #[test]
    fn a_panic_of_the_library_is_a_sentence() {
        for (schema, reason) in [
            (json!({"type": "integer", "minimum": -1e300}), "the number -1e+300 is below those of 64 bits"),
            (json!({"const": i64::MIN}), "the number -9223372036854775808 is below those of 64 bits"),
            // Its error would cut this text within a letter.
            (json!({"type": "string", "minLength": "ä".repeat(99)}), "this form is not supported"),
        ] {
            let error = Form::new(&Shape::Json(schema), &letters()).map(drop);
            assert_eq!(error, Err(format!("Grammar error: {reason}")));
        }
        assert_eq!(without_stack("panic: too deep\n  0: main\n"), "this form is not supported");
        assert_eq!(without_stack("too many items\n"), "too many items");
    }

    #[test]
    fn hostile_forms_are_refused_or_stay_small() {
        let wide: Vec<String> = (0..200).map(|number| format!("(x{number}{{1000}}y){{1000}}|")).collect();
        let wide = wide.concat();
        let list =
            json!({"type": "array", "minItems": 100_000, "items": {"type": "string", "maxLength": 100_000}});
        for shape in [
            Shape::Json(json!({"anyOf": [{"$ref": "#"}]})),
            Shape::Json(json!({"type": "array", "minItems": 100_000, "items": list})),
            Shape::Json(json!({"type": "string", "pattern": "(a|b)*a(a|b){200}", "minLength": 300})),
            Shape::Regex(r"(\w{999}){999}".into()),
            Shape::Regex("(a|b)*a(a|b){200}".into()),
            Shape::Regex(wide),
            Shape::Grammar("start: start start | \"a\" | \"a\" start | start \"b\" |".into()),
            Shape::Grammar("root ::= any any*\nany ::= any any any | [a-z] | [a-z ]+".into()),
        ] {
            let Ok(mut form) = Form::new(&shape, &letters()) else { continue };
            assert!(form.bytes() < 16 << 20, "{shape:?} takes {} bytes", form.bytes());
            for step in 0..100 {
                let mut weights = [0.0; END as usize + 1];
                if form.restrict(&mut weights).is_err() {
                    assert!(weights.iter().all(|weight| *weight == f32::NEG_INFINITY), "{shape:?}");
                    break;
                }
                let allowed: Vec<u32> = (0..END).filter(|token| weights[*token as usize] == 0.0).collect();
                let Some(token) = allowed.get(step * 7 % allowed.len().max(1)) else { break };
                form.consume(*token);
            }
        }
    }

    #[test]
    fn a_form_beyond_its_limits_ends_the_answer_with_an_error() {
        let kind = |number: u32| {
            let properties = json!({format!("kind{number}"): {"const": number}, "name": {"type": "string"}});
            json!({"type": "object", "properties": properties, "required": ["name"]})
        };
        let kinds: Vec<Value> = (0..400).map(kind).collect();
        let mut form = Form::new(&Shape::Json(json!({"anyOf": kinds})), &letters()).unwrap();
        let refused = br#"{"name":"a"}"#.iter().any(|byte| {
            let mut weights = [0.0; END as usize + 1];
            let restricted = form.restrict(&mut weights);
            form.consume(u32::from(*byte));
            restricted.is_err()
        });
        assert!(refused);
    }

    #[test]
    fn vocabularies_that_the_library_cannot_hold_are_refused_or_cut() {
        let long = vec![b"a".to_vec(), vec![b'a'; 4000], b"end".to_vec()];
        let mut form =
            Form::new(&Shape::Regex("a+".into()), &Vocabulary::new(long, [2, 77].into_iter()).unwrap())
                .unwrap();
        // One more weight than there are tokens, as some models have.
        let mut weights = [0.0; 4];
        form.restrict(&mut weights).unwrap();
        assert_eq!(weights.map(|weight| weight == 0.0), [true, false, false, false]);
        let many = vec![vec![b'a'; MAX_TOKEN_BYTES]; 10_000];
        assert!(Vocabulary::new(many, [].into_iter()).is_err());
    }
}
