//! Tests with expensive templates of every kind: each ends soon with a message, and uses limited resources.

use serde_json::{Value as Json, json};

use crate::{Limits, Template, reflect::Value};

/// The stack size of a thread that serves requests. No template may need more.
const STACK: usize = 2 << 20;

/// Renders on a thread with a small stack. Returns the result or the message.
fn outcome(text: &str, data: &Json) -> String {
    within(Limits::default(), text, data)
}

fn within(limits: Limits, text: &str, data: &Json) -> String {
    let run = || match Template::parse("t", text, &[]) {
        Err(error) => error.to_string(),
        Ok(template) => template.execute(&Value::any(data), limits).unwrap_or_else(|error| error.to_string()),
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}

/// Checks that rendering fails with a message about this limit.
fn refused(text: &str, limit: &str) {
    refused_over(text, &json!({}), limit);
}

fn refused_over(text: &str, data: &Json, limit: &str) {
    let message = outcome(text, data);
    let shown: String = message.chars().take(300).collect();
    let start: String = text.chars().take(200).collect();
    assert!(message.len() < text.len() + 1_000 && message.contains(limit), "{start}: {shown}");
}

const OUTPUT: &str = "output exceeds the limit of 4194304 bytes";
const STEPS: &str = "exceeded the limit of 1000000 evaluation steps";

#[test]
fn output_is_bounded() {
    refused(&format!("{{{{ range 1000000 }}}}{}{{{{ end }}}}", "a".repeat(100)), OUTPUT);
    refused("{{ $x := printf `%100000s` `a` }}{{ range 100 }}{{ $x }}{{ end }}", OUTPUT);
}

#[test]
fn values_that_are_not_printed_are_bounded_too() {
    refused("{{ $x := `aaaaaaaaaaaaaaaa` }}{{ range 60 }}{{ $x = printf `%s%s` $x $x }}{{ end }}", OUTPUT);
    refused("{{ $x := `aaaaaaaaaaaaaaaa` }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}", OUTPUT);
    let escaped = format!("{{{{ $x := `{}` }}}}{{{{ $x = html (print $x $x) }}}}", "<".repeat(1_000_000));
    refused(&escaped, OUTPUT);
}

#[test]
fn loops_are_bounded() {
    refused("{{ range 1000000000000 }}{{ end }}", STEPS);
    refused("{{ range 9223372036854775807 }}{{ range 9223372036854775807 }}{{ end }}{{ end }}", STEPS);
    let items = json!({ "l": vec![0; 2_000] });
    refused_over("{{ range .l }}{{ range $.l }}{{ range $.l }}{{ end }}{{ end }}{{ end }}", &items, STEPS);
}

/// The limit of steps in tests of the cost per step. It makes the difference between milliseconds and hours.
const TEST_STEP_LIMIT: usize = 50_000;

/// Checks that rendering ends after a few steps, each of which would be expensive if the size of values were not counted.
fn counted(text: &str, data: &Json) {
    let message = within(Limits { steps: TEST_STEP_LIMIT, ..Limits::default() }, text, data);
    assert!(
        message.contains("exceeded the limit of 50000 evaluation steps"),
        "{}",
        &message[..message.len().min(300)]
    );
}

#[test]
fn long_values_count_as_many_steps() {
    let megabyte = "{{ $x := printf `%999999s` `a` }}";
    for work in [
        "{{ if eq $x $x }}{{ end }}",
        "{{ $y := print $x }}",
        "{{ $y := len (html $x) }}",
        "{{ $y := slice $x 1 }}",
    ] {
        counted(&format!("{megabyte}{{{{ range 1000 }}}}{work}{{{{ end }}}}"), &json!({}));
    }
}

#[test]
fn large_maps_count_as_many_steps() {
    let entries = (0..5_000).map(|i| (format!("key{i}"), json!("value")));
    let data = json!({ "m": entries.collect::<serde_json::Map<_, _>>() });
    for work in [
        "{{ range $k, $v := $.m }}{{ break }}{{ end }}",
        "{{ $y := print $.m }}",
        "{{ $y := printf `%v` $.m }}",
        "{{ $y := js $ }}",
    ] {
        counted(&format!("{{{{ range 1000 }}}}{work}{{{{ end }}}}"), &data);
    }
}

fn variables(count: usize) -> String {
    (0..count).map(|i| format!("{{{{ $v{i} := 1 }}}}")).collect::<Vec<_>>().concat()
}

#[test]
fn looking_through_many_variables_counts() {
    for work in ["{{ $v0 }}", "{{ $v0 = 2 }}"] {
        counted(&format!("{}{{{{ range 5000 }}}}{work}{{{{ end }}}}", variables(256)), &json!({}));
    }
}

#[test]
fn variables_are_bounded_while_parsing() {
    refused(&variables(257), "exceeded the limit of 256 variables");
    // Those of blocks that have ended do not count, and no variable counts twice.
    let block = format!("{{{{ if 1 }}}}{0}{0}{{{{ end }}}}", variables(200));
    assert_eq!(outcome(&block.repeat(2), &json!({})), "");
}

#[test]
fn recursion_is_bounded_within_the_stack_of_a_small_thread() {
    refused(
        "{{ define `t` }}{{ template `t` }}{{ end }}{{ template `t` }}",
        "exceeded maximum template depth (256)",
    );
    refused(
        "{{ define `a` }}{{ template `b` . }}{{ end }}{{ define `b` }}{{ template `a` . }}{{ end }}{{ template `a` . }}",
        "exceeded maximum template depth (256)",
    );
    // A few templates, each with the deepest nesting that the parser allows.
    let nested = format!("{}{{{{ template `t` }}}}{}", "{{ if 1 }}".repeat(90), "{{ end }}".repeat(90));
    refused(
        &format!("{{{{ define `t` }}}}{nested}{{{{ end }}}}{{{{ template `t` }}}}"),
        "exceeded maximum nesting depth",
    );
    let nested = format!("{}{{{{ template `t` }}}}{}", "{{ range 1 }}".repeat(90), "{{ end }}".repeat(90));
    refused(
        &format!("{{{{ define `t` }}}}{nested}{{{{ end }}}}{{{{ template `t` }}}}"),
        "exceeded maximum nesting depth",
    );
    // Two calls at each level, so the number of calls doubles with each level.
    refused(
        "{{ define `t` }}{{ if . }}{{ template `t` . }}{{ end }}{{ end }}{{ range 99 }}{{ template `t` 1 }}{{ end }}",
        "exceeded",
    );
}

#[test]
fn nesting_is_bounded_while_parsing() {
    let limit = "exceeded maximum nesting depth";
    refused(&format!("{}1{}", "{{ if 1 }}".repeat(50_000), "{{ end }}".repeat(50_000)), limit);
    refused(&format!("{}1{}", "{{ with 1 }}{{ else }}".repeat(50_000), "{{ end }}".repeat(50_000)), limit);
    refused(&format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000)), limit);
    refused(&format!("{{{{ {}1{} }}}}", "print (".repeat(50_000), ")".repeat(50_000)), limit);
}

#[test]
fn wide_fields_are_bounded_one_by_one_and_together() {
    assert_eq!(outcome("{{ printf `%999999999d` 1 }}", &json!({})), "%!(BADWIDTH)%!(EXTRA int=1)");
    assert_eq!(outcome("{{ len (printf `%1000000d` 1) }}", &json!({})), "1000000");
    for (format, argument, length) in [
        ("%100000d", "1", 100_000),
        ("%.100000d", "1", 100_000),
        ("%0100000d", "-1", 100_000),
        ("%.100000f", "1.5", 100_002),
        ("%.100000e", "1.5", 100_006),
        ("%100000.2f", "1.5", 100_000),
        ("%.100000x", "255", 100_000),
        ("%-100000s", "`a`", 100_000),
    ] {
        let printed = outcome(&format!("{{{{ len (printf `{format}` {argument}) }}}}"), &json!({}));
        assert_eq!(printed, length.to_string(), "{format}");
    }
    assert_eq!(outcome("{{ printf `%.100000g` 1.5 }}", &json!({})), "1.5");
    assert_eq!(outcome("{{ printf `%*d` 5 1 }}", &json!({})), "    1");
    refused(
        &format!("{{{{ $x := printf `{}` {} }}}}", "%1000000d".repeat(5_000), "1 ".repeat(5_000)),
        OUTPUT,
    );
}

#[test]
fn long_texts_that_do_not_parse_are_refused_at_once() {
    for text in
        ["{{/*".repeat(100_000), "{{ \"".repeat(100_000), "{{`".repeat(100_000), "{{ $x := ".repeat(100_000)]
    {
        assert!(outcome(&text, &json!({})).starts_with("template: t:1: "));
    }
    assert_eq!(outcome(&"{{/* */}}".repeat(100_000), &json!({})), "");
}
