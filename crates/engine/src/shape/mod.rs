//! Answers in a form that the request sets: JSON of a schema, one of several texts, text that a regular expression matches,
//! or the call of a tool.
//!
//! The form becomes an automaton over bytes: of nodes (`schema`, `automaton`), or of a regular expression (`pattern`). After
//! each token it says which tokens may follow (`words`). All other tokens are not chosen, so whatever the model says has the
//! form.
//!
//! The crate `llguidance`, which vLLM uses, knows grammars and more keywords. It cannot be built without
//! `serde_json/preserve_order`, which cargo would then switch on for every crate of the workspace: objects would keep the
//! order of their keys in what the tests build, and be sorted in what `cargo run` builds.

mod automaton;
mod pattern;
mod schema;
mod sorted_vocabulary;

use std::sync::Arc;

use longboat_serving::{Shape, Tool};

use self::{
    automaton::State,
    pattern::{Pattern, Place},
    schema::Nodes,
};
pub(crate) use self::{pattern::probe, sorted_vocabulary::SortedVocabulary};

/// An answer that grows in a form.
#[derive(Clone)]
pub(crate) struct Form {
    machine: Machine,
    words: Arc<SortedVocabulary>,
}

/// A form, and where in it an answer is.
#[derive(Clone)]
enum Machine {
    Nodes(Arc<Nodes>, State),
    Pattern(Arc<Pattern>, Place),
}

// === impl Form ===

impl Form {
    /// Creates the form of an answer. The error names the part of the form that is not supported.
    pub(crate) fn new(shape: &Shape, words: Arc<SortedVocabulary>) -> Result<Self, String> {
        let nodes = match shape {
            Shape::JsonObject => Nodes::object()?,
            Shape::Json(schema) => Nodes::schema(schema)?,
            Shape::Choice(texts) => Nodes::choice(texts)?,
            Shape::Regex(text) => {
                let pattern = Pattern::new(text)?;
                let start = pattern.start();
                return Ok(Self { machine: Machine::Pattern(Arc::new(pattern), start), words });
            }
        };
        Ok(Self::begin(nodes, words))
    }

    /// Creates the form of a call of one of these tools. The error names the tool whose arguments are not supported.
    pub(crate) fn call(tools: &[&Tool], words: Arc<SortedVocabulary>) -> Result<Self, String> {
        Nodes::call(tools).map(|nodes| Self::begin(nodes, words))
    }

    fn begin(nodes: Nodes, words: Arc<SortedVocabulary>) -> Self {
        let state = State::start(&nodes);
        Self { machine: Machine::Nodes(Arc::new(nodes), state), words }
    }

    /// Bytes that the form takes for itself, where that is more than a request.
    pub(crate) fn bytes(&self) -> usize {
        match &self.machine {
            Machine::Nodes(..) => 0,
            Machine::Pattern(pattern, _) => pattern.bytes(),
        }
    }

    /// Takes the weight of every token that may not follow away. Ends may follow where the form is complete.
    pub(crate) fn restrict(&self, weights: &mut [f32], ends: impl Iterator<Item = u32>) {
        let mut allowed = vec![false; weights.len()];
        let may_end = match &self.machine {
            Machine::Nodes(nodes, state) => {
                let after = |state: &State, byte| state.after(nodes, byte);
                self.words.following(state.clone(), after, &mut allowed);
                state.may_end()
            }
            Machine::Pattern(pattern, place) => {
                self.words.following(*place, |place, byte| pattern.after(*place, byte), &mut allowed);
                pattern.may_end(*place)
            }
        };
        for end in ends {
            if let Some(allowed) = allowed.get_mut(end as usize) {
                *allowed = may_end;
            }
        }
        for (weight, allowed) in weights.iter_mut().zip(&allowed) {
            if !allowed {
                *weight = f32::NEG_INFINITY;
            }
        }
    }

    /// Adds a token to the answer. Returns whether the answer is complete and nothing can follow.
    pub(crate) fn take(&mut self, token: u32) -> bool {
        for byte in self.words.bytes(token) {
            // Only tokens that fit are chosen.
            let fits = match &mut self.machine {
                Machine::Nodes(nodes, state) => state.after(nodes, *byte).map(|next| *state = next).is_some(),
                Machine::Pattern(pattern, place) => {
                    pattern.after(*place, *byte).map(|next| *place = next).is_some()
                }
            };
            if !fits {
                return true;
            }
        }
        match &self.machine {
            Machine::Nodes(_, state) => state.must_end(),
            Machine::Pattern(pattern, place) => pattern.must_end(*place),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn nodes(schema: &Value) -> Result<Nodes, String> {
        Nodes::schema(schema)
    }

    /// Whether a text has the form, and whether it is at least the beginning of a text with the form.
    fn judged(nodes: &Nodes, text: &str) -> (bool, bool) {
        let mut state = State::start(nodes);
        for byte in text.bytes() {
            match state.after(nodes, byte) {
                Some(next) => state = next,
                None => return (false, false),
            }
        }
        (state.may_end(), true)
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
        let nodes = nodes(&person).unwrap();
        for text in [
            r#"{"name":"Ann","age":-30}"#,
            r#"{ "age" : 0, "name" : "\u00e9\n" }"#,
            r#"{"name": "äöü€", "age": 1, "tags": [], "next": null}"#,
            r#"{"tags":["a", "b\""],"name":"x","age":2}"#,
            r#"{"name":"x","next":{"age":2,"name":"y"},"age":2}"#,
        ] {
            assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
            assert_eq!(judged(&nodes, text), (true, true), "{text}");
        }
        for text in [
            r#"{"name":"Ann"}"#,
            r#"{"name":"","age":1}"#,
            r#"{"name":"Annie","age":1}"#,
            r#"{"age":1.5"#,
            r#"{"age":01"#,
            r#"{"other":1"#,
            r#"{"age":1,"age""#,
            "[]",
            " {",
            r#"{"tags":["a","a","a"#,
            r#"{"tags":["c"#,
            "{\"name\":\"\n",
            r#"{"name":"\x"#,
            r#"{"name":"\ud800"#,
            r"{,",
        ] {
            assert!(!judged(&nodes, text).0, "{text}");
        }
        assert_eq!(judged(&nodes, r#"{"na"#), (false, true));
    }

    #[test]
    fn any_json_is_an_object_of_any_values() {
        let nodes = Nodes::object().unwrap();
        for text in ["{}", r#"{"a": [1, -2.5e+10, true, null, {"b": "c"}], "": false}"#] {
            assert_eq!(judged(&nodes, text), (true, true), "{text}");
        }
        assert_eq!(judged(&nodes, "[1]"), (false, false));
        assert!(!judged(&nodes, &"{\"a\":".repeat(200)).1, "no deeper than the stack");
        assert!(!judged(&nodes, &format!("{{{}", " ".repeat(21))).1, "no endless space");
    }

    #[test]
    fn a_choice_is_one_of_its_texts() {
        let nodes = Nodes::choice(&["yes".into(), "yesterday".into(), "no".into()]).unwrap();
        assert_eq!(judged(&nodes, "yes"), (true, true));
        assert_eq!(judged(&nodes, "yeste"), (false, true));
        assert_eq!(judged(&nodes, "maybe"), (false, false));
    }

    #[test]
    fn a_call_is_of_one_tool_with_what_that_one_takes() {
        let tool =
            |name: &str, parameters| Tool { name: name.into(), description: String::new(), parameters };
        let (add, now) = (
            tool(
                "add",
                json!({
                    "type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"],
                    "$defs": {"n": {"type": "integer"}},
                }),
            ),
            tool("\"now\"", json!({})),
        );
        let nodes = Nodes::call(&[&add, &now]).unwrap();
        let written = |call: &str| format!("<tool_call>\n{call}\n</tool_call>");
        for call in
            [r#"{"name": "add", "arguments": {"a": 1}}"#, r#"{"name": "\"now\"", "arguments": {"x": []}}"#]
        {
            assert_eq!(judged(&nodes, &written(call)), (true, true), "{call}");
        }
        for call in [
            r#"{"name": "add", "arguments": {"x": []}}"#,
            r#"{"name": "add", "arguments": {}}"#,
            r#"{"name": "\"now\"", "arguments": 1}"#,
            r#"{"name": "sub", "arguments": {}}"#,
        ] {
            assert!(!judged(&nodes, &written(call)).1, "{call}");
        }
        assert!(!judged(&nodes, "Well").1);
        assert!(
            !judged(&Nodes::call(&[&add]).unwrap(), &written(r#"{"name": "\"now\"", "arguments": {}}"#)).1
        );
        let strict =
            tool("s", json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}));
        let error = Nodes::call(&[&now, &strict]).unwrap_err();
        assert_eq!(error, "s: #/properties/a: `pattern` is not supported by this engine here");
    }

    #[test]
    fn arguments_are_objects_whatever_the_schema_leaves_open() {
        let nodes =
            |parameters| Nodes::call(&[&Tool { name: "f".into(), description: String::new(), parameters }]);
        let call = |arguments: &str| {
            format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {arguments}}}\n</tool_call>")
        };
        for schema in
            [json!({}), json!({"description": "d", "title": "t"}), json!({"$defs": {}, "$schema": "s"})]
        {
            let nodes = nodes(schema).unwrap();
            assert_eq!(judged(&nodes, &call(r#"{"a": 1}"#)), (true, true));
            for other in ["1", "[]", "null", r#""text""#] {
                assert!(!judged(&nodes, &call(other)).1, "{other}");
            }
        }
        for schema in [
            json!({"type": "string"}),
            json!({"type": ["object", "null"]}),
            json!({"anyOf": [{"type": "object"}, {"type": "array"}]}),
            json!({"enum": [{"a": 1}, 2]}),
            json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}),
        ] {
            let error = nodes(schema).unwrap_err();
            assert_eq!(error, "f: #: arguments are an object, and this schema allows other values");
        }
        assert!(nodes(json!({"anyOf": [{"type": "object"}, {"enum": [{"a": 1}]}]})).is_ok());
    }

    #[test]
    fn what_cannot_be_kept_is_refused_by_name() {
        for (schema, words) in [
            (json!({"type": "string", "pattern": "a+"}), "#: `pattern` is not supported by this engine here"),
            (
                json!({"type": "object", "properties": {"a": {"type": "number", "minimum": 1}}}),
                "#/properties/a: `minimum`",
            ),
            (json!({"oneOf": [{"type": "null"}]}), "#: `oneOf` is not supported"),
            (json!({"type": "object", "required": ["a"]}), "#/required: `a` is not one of the properties"),
            (json!({"$ref": "#/$defs/a"}), "#: the target of `$ref`, #/$defs/a, does not exist"),
            (json!({"$ref": "other.json"}), "#: `$ref` refers to another document"),
            (json!({"type": "string", "minLength": 3, "maxLength": 2}), "#: at least 3 and at most 2"),
            (json!({"enum": []}), "#: 0 alternatives"),
            (json!(false), "#: no value matches"),
        ] {
            let error = nodes(&schema).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        // The schema only refers to itself. No value matches it, and the expansion must end.
        assert!(State::start(&nodes(&json!({"anyOf": [{"$ref": "#"}]})).unwrap()).must_end());
    }
}
