//! Compares templates with Go's own implementation: `kubectl -o go-template`.
//!
//! Starting kubectl takes some time. So templates that render are compared in batches, and those that fail one by one.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use longboat_template::{Limits, Template, reflect::Value as Data};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::{Value, json};

/// The number of templates.
const TEMPLATES: usize = 900;
/// The most failing templates that are compared. Each needs its own kubectl.
const FAILURES: usize = 40;
/// The number of rendering templates per kubectl.
const BATCH: usize = 60;
/// The separator of the results in a batch. Trimming does not remove it.
const MARK: &str = "\u{b6}\u{b6}";

fn data() -> Value {
    json!({
        "apiVersion": "x.y/v1", "kind": "Data", "metadata": {"name": "d", "labels": {"a": "b"}},
        "name": "x<y>", "n": 3, "zero": 0, "f": 1.5, "big": 12_000_000_000_i64, "yes": true, "no": false, "empty": "",
        "list": [1, "b", true, null], "words": ["a", "b c", "d"], "numbers": [3, 1, 2], "nothing": [],
        "map": {"b": 2, "a": "one", "c": {"d": [1, 2]}}, "none": null, "things": [{"k": "v"}, {"k": "w", "l": 1}],
    })
}

/// An operand: fields, literals, and expressions in parentheses.
fn operand() -> impl Strategy<Value = String> {
    let field = prop::sample::select(vec![
        ".", "$", ".name", ".n", ".zero", ".f", ".big", ".yes", ".no", ".empty", ".list", ".words",
        ".numbers", ".nothing", ".map", ".map.a", ".map.c.d", ".none", ".none.x", ".nope", ".things",
        ".name.x", "$.n", "$x", ".k",
    ]);
    let literal = prop::sample::select(vec![
        "1",
        "0",
        "-2",
        "1.5",
        "1e3",
        "0x10",
        "'a'",
        "\"b\"",
        "`c d`",
        "\"\"",
        "true",
        "false",
        "nil",
        "\"%d|%v\"",
        "\"%5.1f\"",
        "\"%q\"",
        "\"a\"",
        "\"k\"",
    ]);
    prop_oneof![5 => field, 3 => literal].prop_map(ToOwned::to_owned)
}

/// A command: an operand, or a function of some operands. Without `slice`, because Go's refuses indexes from untyped data.
fn command() -> impl Strategy<Value = String> {
    let function = prop::sample::select(vec![
        "len", "index", "printf", "print", "println", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not",
        "html", "js", "urlquery", "call",
    ]);
    let operand = operand().prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            (
                prop::sample::select(vec!["len", "index", "print", "printf", "or", "and", "not"]),
                prop::collection::vec(inner, 1..3)
            )
                .prop_map(|(name, arguments)| format!("({name} {})", arguments.join(" ")))
        ]
    });
    let operand = operand.boxed();
    prop_oneof![
        2 => operand.clone(),
        3 => (function, prop::collection::vec(operand, 1..4))
            .prop_map(|(name, arguments)| format!("{name} {}", arguments.join(" "))),
    ]
}

fn pipeline() -> impl Strategy<Value = String> {
    let stage =
        prop::sample::select(vec!["len", "html", "js", "urlquery", "not", "print", "printf \"%v;\"", "eq 1"]);
    (command(), prop::collection::vec(stage, 0..2)).prop_map(|(command, stages)| {
        std::iter::once(command)
            .chain(stages.into_iter().map(ToOwned::to_owned))
            .collect::<Vec<_>>()
            .join(" | ")
    })
}

/// A template: text, actions and blocks, sometimes with trimming.
fn template() -> impl Strategy<Value = String> {
    let text = prop::sample::select(vec!["", "a", " b ", "\n", "{", "}}", "\"q\"", "ü "])
        .prop_map(ToOwned::to_owned);
    let action = (pipeline(), any::<(bool, bool)>()).prop_map(|(pipeline, (left, right))| {
        format!("{{{{{} {pipeline} {}}}}}", if left { "-" } else { "" }, if right { "-" } else { "" })
    });
    let leaf = prop_oneof![
        2 => text,
        4 => action,
        1 => Just("{{/* a remark */}}".to_owned()),
        1 => pipeline().prop_map(|pipeline| format!("{{{{ $x := {pipeline} }}}}{{{{ $x }}}}")),
    ];
    leaf.prop_recursive(2, 10, 3, |inner| {
        let body = prop::collection::vec(inner, 0..3).prop_map(|parts| parts.concat());
        prop_oneof![
            (pipeline(), body.clone(), prop::option::of(body.clone())).prop_map(
                |(condition, then, otherwise)| {
                    let otherwise = otherwise.map(|body| format!("{{{{ else }}}}{body}")).unwrap_or_default();
                    format!("{{{{ if {condition} }}}}{then}{otherwise}{{{{ end }}}}")
                }
            ),
            (command(), body.clone(), body.clone()).prop_map(|(value, body, otherwise)| format!(
                "{{{{ with {value} }}}}{body}{{{{ else }}}}{otherwise}{{{{ end }}}}"
            )),
            (
                prop::sample::select(vec![
                    // Older releases of Go cannot range over integers.
                    ".list", ".map", ".words", ".numbers", ".nothing", ".things", ".none", ".f"
                ]),
                prop::sample::select(vec!["", "$x := ", "$i, $x := "]),
                body.clone(),
                prop::sample::select(vec!["", "{{ break }}", "{{ continue }}-"]),
            )
                .prop_map(|(value, declared, body, last)| {
                    format!("{{{{ range {declared}{value} }}}}{body}{last}{{{{ else }}}}none{{{{ end }}}}")
                }),
            body,
        ]
    })
}

/// The kubectl of the checkout, or else of the system.
fn kubectl() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/bin/kubectl");
    [own, PathBuf::from("kubectl")]
        .into_iter()
        .find(|program| Command::new(program).args(["version", "--client"]).output().is_ok())
}

/// Renders a template with Go. Returns the output or the error.
fn go(kubectl: &Path, template: &str, data: &Value) -> Result<String, String> {
    let mut child = Command::new(kubectl)
        .args(["label", "--local", "a=b", "-f", "-", "--allow-missing-template-keys=false"])
        .arg(format!("--output=go-template={template}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(data.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn ours(template: &str, data: &Value) -> Result<String, String> {
    let template = Template::parse("output", template, &[]).map_err(|e| e.to_string())?;
    template.execute(&Data::any(data), Limits::default()).map_err(|e| e.to_string())
}

/// Returns the part of a message before names of types. Elements of untyped lists are interfaces in Go and plain values here,
/// and older releases of Go name no types if a comparison fails. Recordings compare typed data elsewhere.
fn without_types(message: &str) -> &str {
    let ends = [" in type ", " type ", "incompatible types for comparison: "];
    let end = ends.iter().filter_map(|end| message.find(end)).min();
    end.map_or(message, |end| message[..end].trim_end_matches(": "))
}

#[test]
#[expect(clippy::print_stderr, reason = "how much is equal is what the test is for")]
fn go_renders_alike() {
    let Some(kubectl) = kubectl() else {
        longboat_golden::skipped("no kubectl on the PATH");
        return;
    };
    let data = data();
    let mut runner = TestRunner::deterministic();
    let (mut rendering, mut failing) = (Vec::new(), Vec::new());
    for _ in 0..TEMPLATES {
        let template = template().new_tree(&mut runner).unwrap().current();
        if template.is_empty() {
            continue;
        }
        match ours(&template, &data) {
            Ok(text) => rendering.push((template, text)),
            Err(message) => failing.push((template, message)),
        }
    }
    let mut different = Vec::new();
    for batch in rendering.chunks(BATCH) {
        let templates: Vec<&str> = batch.iter().map(|(template, _)| template.as_str()).collect();
        let together = go(&kubectl, &templates.join(MARK), &data);
        let parts: Vec<String> = match &together {
            Ok(text) => text.split(MARK).map(ToOwned::to_owned).collect(),
            Err(_) => Vec::new(),
        };
        let whole = parts.len() == batch.len();
        for (i, (template, ours)) in batch.iter().enumerate() {
            // If a template of the batch failed, the templates are rendered one by one.
            let theirs = if whole { Ok(parts[i].clone()) } else { go(&kubectl, template, &data) };
            if theirs.as_ref() != Ok(ours) {
                different.push(format!("{template}\n  ours {ours:?}\n  Go   {theirs:?}"));
            }
        }
    }
    failing.truncate(FAILURES);
    for (template, message) in &failing {
        match go(&kubectl, template, &data) {
            Err(theirs) if theirs.contains(without_types(message)) => {}
            theirs => different.push(format!("{template}\n  ours {message}\n  Go   {theirs:?}")),
        }
    }
    eprintln!(
        "go-template: {} render, {} fail, {} different",
        rendering.len(),
        failing.len(),
        different.len()
    );
    assert!(rendering.len() >= 200 && failing.len() >= 30, "the templates prove too little");
    assert!(different.is_empty(), "{}", different.join("\n"));
}
