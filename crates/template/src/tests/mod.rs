//! Tables of Go's behaviour, and laws.

mod limits;

use longboat_types::go::Omit;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::{
    Limits, Method, Template,
    reflect::{Field, Struct, Ty, Value},
};

/// Renders with data without types, like `kubectl -o go-template`. Errors have no position.
fn untyped(text: &str, data: &Json) -> String {
    match Template::parse("t", text, &[]) {
        Err(e) => e.to_string(),
        Ok(template) => template.execute(&Value::any(data), Limits::default()).unwrap_or_else(|e| {
            let message = e.to_string();
            message.split_once(">: ").map_or(message.clone(), |(_, m)| m.to_owned())
        }),
    }
}

#[test]
fn templates_over_plain_data_render_as_go_renders_them() {
    let data = json!({
        "name": "x", "n": 3, "f": 1.5, "yes": true, "list": [1, "b", null], "map": {"b": 2, "a": 1}, "empty": "",
        "none": null, "items": [{"k": "v"}, {"k": "w"}],
    });
    for (text, wanted) in [
        ("{{ .name }}-{{ .n }}-{{ .f }}", "x-3-1.5"),
        ("{{ .none }}", "<no value>"),
        ("{{ .nope }}", "map has no entry for key \"nope\""),
        ("{{ .none.x }}", "nil pointer evaluating interface {}.x"),
        ("{{ .list }} {{ .map }}", "[1 b <nil>] map[a:1 b:2]"),
        ("{{ range $i, $e := .list }}{{ $i }}={{ $e }};{{ end }}", "0=1;1=b;2=<no value>;"),
        ("{{ range .map }}{{ . }}{{ else }}none{{ end }}", "12"),
        ("{{ range .empty }}{{ else }}none{{ end }}", "range can't iterate over "),
        ("{{ range 3 }}{{ . }}{{ end }}", "012"),
        (
            "{{ range $x := .list }}{{ if eq $x `b` }}{{ break }}{{ end }}{{ $x }}{{ end }}",
            "error calling eq: incompatible types for comparison: int64 and string",
        ),
        ("{{ with .empty }}a{{ else with .name }}{{ . }}{{ end }}", "x"),
        ("{{ if not .yes }}a{{ else if .n }}b{{ else }}c{{ end }}", "b"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ("{{ and .name .none 1 }} {{ or .empty .name }}", "<no value> x"),
        ("{{ index .items 1 `k` }}{{ index .list 5 }}", "error calling index: index out of range: 5"),
        ("{{ (index .items 0).k }}", "v"),
        ("{{ len .list }}{{ len .name }}{{ len 3 }}", "error calling len: len of type int"),
        (
            "{{ printf `%5.2f|%-4s|%04d|%x|%q|%v|%T` .f .name 7 255 .name .yes .n }}",
            " 1.50|x   |0007|ff|\"x\"|true|int64",
        ),
        (
            "{{ printf `%d` .name }} {{ printf `%s %s` .name }} {{ printf `a` 1 }}",
            "%!d(string=x) x %!s(MISSING) a%!(EXTRA int=1)",
        ),
        ("{{ print 1 2 .name 3 }}|{{ println .name 1 }}", "1 2x3|x 1\n"),
        (
            "{{ html `<a&'\">` }} {{ urlquery `a b/ü` }} {{ js `it's <` }}",
            "&lt;a&amp;&#39;&#34;&gt; a+b%2F%C3%BC it\\'s \\u003C",
        ),
        ("{{ slice .name 0 1 }}{{ slice `abc` 1 }}", "xbc"),
        ("{{ eq 1 2 1 }}{{ ne 1 1 }}{{ lt 1 2 }}{{ ge `b` `a` }}", "truefalsetruetrue"),
        ("{{ 0x1F }} {{ 1e3 }} {{ 'a' }} {{ 0b11 }} {{ 1_000 }} {{ 1.5e-7 }}", "31 1000 97 3 1000 1.5e-07"),
        ("a {{- 1 -}} b{{/* c */}}", "a1b"),
        ("{{- /* c */ -}} x", "x"),
        (
            "{{ define `t` }}<{{ . }}>{{ end }}{{ template `t` .name }}{{ block `u` .n }}{{ . }}{{ end }}",
            "<x>3",
        ),
        ("{{ template `nope` }}", "template \"nope\" not defined"),
        ("{{ .name | printf `%s-%s` `a` }}", "a-x"),
        ("{{ .name 1 }}", "name is not a method but has arguments"),
        ("{{ .n.x }}", "can't evaluate field x in type interface {}"),
        ("{{ call .name }}", "error calling call: non-function .name of type string"),
    ] {
        let ours = untyped(text, &data);
        let wanted = wanted.to_owned();
        // If `a` is followed by an error, nothing is printed at all.
        assert_eq!(ours, wanted, "{text}");
    }
}

#[test]
fn what_does_not_parse_is_refused_in_gos_words() {
    for (text, wanted) in [
        ("{{", "template: t:1: unclosed action"),
        ("{{ .a", "template: t:1: unclosed action"),
        ("\n{{\n.a", "template: t:3: unclosed action started at t:2"),
        ("{{ }}", "template: t:1: missing value for command"),
        ("{{ end }}", "template: t:1: unexpected {{end}}"),
        ("{{ else }}", "template: t:1: unexpected {{else}}"),
        ("{{ if }}x{{ end }}", "template: t:1: missing value for if"),
        ("{{ if .a }}x", "template: t:1: unexpected EOF"),
        ("{{ if .a }}x{{ else }}y{{ else }}z{{ end }}", "template: t:1: expected end; found {{else}}"),
        ("{{ break }}", "template: t:1: {{break}} outside {{range}}"),
        ("{{ $x }}", "template: t:1: undefined variable \"$x\""),
        ("{{ nope }}", "template: t:1: function \"nope\" not defined"),
        ("{{ .a | 1 }}", "template: t:1: non executable command in pipeline stage 2"),
        ("{{ (.a }}", "template: t:1: unclosed left paren"),
        ("{{ .a) }}", "template: t:1: unexpected right paren"),
        ("{{ \"a }}", "template: t:1: unterminated quoted string"),
        ("{{ `a }}", "template: t:1: unterminated raw quoted string"),
        ("{{ /* a }}", "template: t:1: unexpected \"/\" in command"),
        ("{{/* a }}", "template: t:1: unclosed comment"),
        ("{{ 1.2.3 }}", "template: t:1: unexpected \".3\" in operand"),
        ("{{ 3x }}", "template: t:1: bad number syntax: \"3x\""),
        ("{{ 1e999 }}", "template: t:1: illegal number syntax: \"1e999\""),
        ("{{ 1.a }}", "template: t:1: bad number syntax: \"1.a\""),
        ("{{ true.a }}", "template: t:1: unexpected . after term \"true\""),
        ("{{ .a , .b }}", "template: t:1: unexpected \",\" in operand"),
        ("{{ template .a }}", "template: t:1: unexpected \".a\" in template clause"),
        ("{{ range $a, $b, $c := . }}{{ end }}", "template: t:1: too many declarations in range"),
        ("{{ $a := }}", "template: t:1: missing value for command"),
        ("{{ 'ab' }}", "template: t:1: malformed character constant: 'ab'"),
    ] {
        assert_eq!(untyped(text, &json!({})), wanted, "{text}");
    }
}

static INNER: Struct = Struct::new("v1.Inner", &[Method::COPY]);
static INNER_TYPE: Ty = Ty::Struct(&INNER);
static OUTER: Struct = Struct::new("v1.Outer", &[]);

fn outer() -> Ty {
    INNER.declare([field("count", "Count", Ty::Ptr(&Ty::Int("int32"))), field("on", "On", Ty::Bool("bool"))]);
    OUTER.declare([
        field("inner", "Inner", Ty::Ptr(&INNER_TYPE)),
        field("labels", "Labels", Ty::Map("", &Ty::Str("string"))),
        field("size", "Size", Ty::Quantity),
        Field { embedded: true, ..field("", "Inner2", INNER_TYPE) },
    ]);
    Ty::Struct(&OUTER)
}

fn field(json: &'static str, go: &'static str, ty: Ty) -> Field {
    Field { json, go, ty, omit: Omit::Empty, embedded: false }
}

#[test]
fn pointers_behave_as_they_do_in_go() {
    let set = json!({ "inner": { "count": 0 }, "labels": {}, "size": "1Gi" });
    let unset = json!({});
    for (data, text, wanted) in [
        (&set, "{{ .Inner.Count }}{{ if .Inner.Count }}t{{ end }}{{ or .Inner.Count 1 }}", "0t0"),
        (&set, "{{ .Inner.On }} {{ .Size }} {{ .Labels }}", "false 1Gi map[]"),
        (&set, "{{ index .Labels `x` }}|{{ len .Labels }}", "|0"),
        (&set, "{{ .Count }} {{ .On }}", "<nil> false"),
        (&unset, "{{ .Inner }}{{ if .Inner }}t{{ else }}f{{ end }}", "<nil>f"),
        (&unset, "{{ .Inner.Count }}", "nil pointer evaluating *v1.Inner.Count"),
        (&unset, "{{ .Inner.Nope }}", "can't evaluate field Nope in type *v1.Inner"),
        (&unset, "{{ .nope }}", "can't evaluate field nope in type v1.Outer"),
        (&unset, "{{ .Labels.x }}", "map has no entry for key \"x\""),
        (&unset, "{{ eq .Inner nil }}", "true"),
        (
            &set,
            "{{ eq .Inner.Count 0 }}",
            "error calling eq: incompatible types for comparison: *int32 and int",
        ),
    ] {
        let template = Template::parse("t", text, &[]).unwrap();
        let got = template
            .execute(&Value::typed(outer(), Some(data)), Limits::default())
            .unwrap_or_else(|e| e.to_string().split_once(">: ").unwrap().1.to_owned());
        assert_eq!(got, wanted, "{text}");
    }
}

#[test]
fn errors_name_the_place_in_bytes_and_quote_the_node() {
    let template = Template::parse("config", "ü\n  {{ .a.b.c }}", &[]).unwrap();
    let error = template.execute(&Value::any(&json!({"a": {}})), Limits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "template: config:2:7: executing \"config\" at <.a.b.c>: map has no entry for key \"b\""
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        untyped(&text, &json!({}));
        untyped(&format!("{{{{{text}}}}}"), &json!({}));
    }

    #[test]
    fn arbitrary_sequences_of_tokens_never_panic(tokens in prop::collection::vec(prop::sample::select(vec![
        "{{", "}}", "{{-", "-}}", " ", ".", ".a", ".b", "$", "$x", ":=", "=", "|", ",", "(", ")", "if", "else", "end",
        "range", "with", "define", "template", "block", "break", "continue", "nil", "true", "`t`", "\"s\"", "'c'", "1",
        "0x", "1.5", "-", "eq", "and", "or", "not", "index", "slice", "len", "printf", "print", "html", "js", "call",
        "/*", "*/", "ü", "\n", "%d", "`%s %v %q %*d`",
    ]), 0..40)) {
        untyped(&tokens.concat(), &json!({"a": {"b": [1, "x"]}, "b": null}));
        untyped(&format!("{{{{ {} }}}}", tokens.join(" ")), &json!({"a": {"b": [1, "x"]}, "b": null}));
    }

    #[test]
    fn text_without_actions_renders_to_itself(text in "[^{]*") {
        prop_assert_eq!(untyped(&text, &json!({})), text);
    }
}
