use crate::{ManifestError, Position, limits::MAX_DOCUMENTS, parse, parse_all, read, read_all};

const SERVICE: &str = "\
apiVersion: v1
kind: X
metadata:
  name: a
  annotations:
    example.com/a.b: c
    example.com/a: d
spec:
  template:
    containers:
    - name: main
      image: one
    - {name: other,   image: two}
  \"quoted key\": [1, [2,
    3]]
";

fn at(line: u32, column: u32) -> Position {
    Position { line, column }
}

#[test]
fn fields_have_the_line_and_column_of_their_name_and_of_their_value() {
    let document = parse("f.yaml", SERVICE).unwrap().remove(0);
    let place = |path: &str| {
        let found = document.locate(path);
        (found.key, found.value, found.exists)
    };
    assert_eq!(place("spec.template.containers[0].image"), (at(12, 7), at(12, 14), true));
    assert_eq!(place("spec.template.containers[1].image"), (at(13, 23), at(13, 30), true));
    assert_eq!(place("spec.template.containers[1]"), (at(13, 7), at(13, 7), true));
    assert_eq!(place("metadata.annotations.example.com/a.b"), (at(6, 5), at(6, 22), true));
    assert_eq!(place("metadata.annotations[example.com/a]"), (at(7, 5), at(7, 20), true));
    assert_eq!(place("spec.quoted key[1][1]"), (at(15, 5), at(15, 5), true));
    assert_eq!(document.place("spec.template"), "f.yaml:9:3");
}

#[test]
fn fields_have_the_value_at_their_path_whatever_dots_their_names_have() {
    let document = parse("f.yaml", SERVICE).unwrap().remove(0);
    for path in
        ["spec.template.containers[1].image", "metadata.annotations.example.com/a.b", "spec.quoted key[1][1]"]
    {
        assert!(document.value(path).is_some_and(|value| !value.is_object()), "{path}");
    }
    assert_eq!(document.value("spec.template.containers[1].image").unwrap(), "two");
    assert_eq!(
        document.value("metadata.annotations[example.com/a]"),
        document.object.pointer("/metadata/annotations/example.com~1a")
    );
    for path in ["spec.model.uri", "spec.template.containers[7]", "nowhere", "spec.template.containers.image"]
    {
        assert_eq!(document.value(path), None, "{path}");
    }
}

#[test]
fn a_missing_field_has_the_place_of_its_nearest_parent() {
    let document = parse("f.yaml", SERVICE).unwrap().remove(0);
    let found = document.locate("spec.template.containers[0].env[3].name");
    assert_eq!((found.key, found.exists), (at(11, 7), false));
    assert_eq!(document.locate("spec.template.containers[7].image").key, at(10, 5));
    assert_eq!(document.locate("spec.model.uri").key, at(8, 1));
    assert_eq!(document.locate("nowhere").key, at(1, 1));
    assert_eq!(document.locate("<nil>").key, at(1, 1));
    assert_eq!(document.locate("").key, at(1, 1));
}

#[test]
fn several_documents_and_lists_are_taken_apart_with_their_places() {
    let text = "# only a comment\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n--- \napiVersion: v1\nkind: List\n\
                items:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: c\n\
                --- {apiVersion: v1, kind: Pod, metadata: {name: d}}\n";
    let documents = parse("f.yaml", text).unwrap();
    let found: Vec<_> =
        documents.iter().map(|d| (d.name(), d.start(), d.locate("metadata.name").value)).collect();
    assert_eq!(
        found,
        [
            ("a", at(3, 1), at(5, 18)),
            ("b", at(10, 3), at(10, 54)),
            ("c", at(11, 3), at(14, 11)),
            ("d", at(15, 5), at(15, 50)),
        ]
    );
}

#[test]
fn what_kustomize_and_kubectl_print_is_read() {
    let text = "apiVersion: v1\nitems: null\nkind: List\nmetadata:\n  resourceVersion: \"\"\n";
    assert!(parse("-", text).unwrap().is_empty());
    for other in ["spec: {}", "items: {a: b}"] {
        let text = format!("apiVersion: example.com/v1\nkind: AllowList\nmetadata: {{name: a}}\n{other}\n");
        assert_eq!(parse("-", &text).unwrap()[0].kind(), "AllowList", "{other}");
    }
    let json =
        "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"X\",\n\t\"metadata\": {\"name\": \"\\u0061\\/b\"}\n}\n";
    let document = parse("f.json", json).unwrap().remove(0);
    assert_eq!(document.name(), "a/b");
    assert_eq!(document.locate("metadata.name").key.line, 4);
}

#[test]
fn items_of_a_typed_list_have_the_kind_of_the_list() {
    let text = "apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: a}\n\
                - {apiVersion: v1, kind: Pod, metadata: {name: b}}\n";
    let documents = parse("f.yaml", text).unwrap();
    let found: Vec<_> = documents.iter().map(|d| (d.api_version(), d.kind(), d.name())).collect();
    assert_eq!(found, [("apps/v1", "Deployment", "a"), ("v1", "Pod", "b")]);
    // A plain list says nothing of its items.
    assert!(parse("f.yaml", "apiVersion: v1\nkind: List\nitems:\n- metadata: {name: a}\n").is_err());
}

#[test]
fn json_objects_that_follow_each_other_are_read_each() {
    let object = |name: &str| format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{{"name":"{name}"}}}}"#);
    let names = |text: &str| {
        let documents = parse("f.json", text).unwrap();
        let named = documents.iter().map(|one| (one.name().to_owned(), one.locate("metadata.name").value));
        named.collect::<Vec<_>>()
    };
    let object_at = |name: &str, position: Position| (name.to_owned(), position);
    let text = format!("{}{}\n{}\n---\n{}", object("a"), object("b"), object("c"), object("d"));
    let expected = [
        object_at("a", at(1, 50)),
        object_at("b", at(1, 104)),
        object_at("c", at(2, 50)),
        object_at("d", at(4, 50)),
    ];
    assert_eq!(names(&text), expected);
    let broken = parse_all("f.json", &format!("{}\n{{\"kind\": ]}}\n", object("a")));
    assert_eq!(broken.documents.len(), 1);
    assert_eq!(broken.problems[0].place().1.unwrap().line, 2);
}

#[test]
fn aliases_and_merge_keys_stand_where_they_are_used() {
    let text = "apiVersion: v1\nkind: X\nmetadata: {name: a}\nbase: &b\n  x: 1\nspec:\n  <<: *b\n  y: *b\n";
    let document = parse("f.yaml", text).unwrap().remove(0);
    assert_eq!(document.object["spec"]["x"], 1);
    assert_eq!(document.locate("spec.y").value, at(8, 6));
}

#[test]
fn mistakes_name_their_place_and_do_not_hide_others() {
    let reading = parse_all(
        "f.yaml",
        "kind: A\n---\napiVersion: v1\nkind: X\n  bad: [\n---\napiVersion: v1\nkind: X\nmetadata: {name: a}\n---\n- 1\n",
    );
    let found: Vec<_> = reading.problems.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 3, "{found:#?}");
    assert_eq!(found[0], "f.yaml:1:1: the object has no `apiVersion`");
    assert!(found[1].starts_with("f.yaml:5:"), "{found:#?}");
    assert!(found[2].starts_with("f.yaml:11:1: expected a Kubernetes object"), "{found:#?}");
    assert_eq!(reading.documents.len(), 1);
    let error = parse("f.yaml", "apiVersion: v1\nkind: Pod\n").unwrap_err();
    assert_eq!(error.to_string(), "f.yaml:1:1: the object has no `metadata.name`");
}

#[test]
fn the_configuration_of_a_picker_is_told_where_it_belongs() {
    for group in ["llm-d.ai/v1", "llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1"] {
        for metadata in ["", "metadata: {name: a}\n"] {
            let text = format!("apiVersion: {group}\nkind: EndpointPickerConfig\n{metadata}plugins: []\n");
            let error = parse("f.yaml", &text).unwrap_err().to_string();
            assert!(
                error.starts_with("f.yaml:1:1: an EndpointPickerConfig is the configuration of a picker"),
                "{error}"
            );
            assert!(error.contains("`spec.router.scheduler.config.inline`"), "{error}");
        }
    }
    assert!(parse("f.yaml", "apiVersion: a/v1\nkind: EndpointPickerConfig\nmetadata: {name: a}\n").is_ok());
}

#[test]
fn a_key_that_is_given_twice_is_refused() {
    let error =
        parse("f.yaml", "apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec:\n  a: 1\n  a: 2\n").unwrap_err();
    let text = error.to_string();
    assert_eq!(text, "f.yaml:6:3: duplicate key `a`: remove one of the two");
}

#[test]
fn values_that_no_object_can_hold_are_refused_in_words_of_the_manifest() {
    for (value, at, why) in [
        (
            "&own [*own]",
            10,
            "the alias stands inside of the node that it repeats: write the content without aliases",
        ),
        (
            ".nan",
            4,
            "`.nan` is a number that JSON, and so Kubernetes, cannot hold: put it in quotes, or write another",
        ),
        (
            "-.inf",
            4,
            "`-.inf` is a number that JSON, and so Kubernetes, cannot hold: put it in quotes, or write another",
        ),
    ] {
        let error = parse("f.yaml", &format!("a: {value}\n")).unwrap_err();
        assert_eq!(error.to_string(), format!("f.yaml:1:{at}: {why}"));
    }
}

#[test]
fn a_key_that_is_missing_is_refused() {
    let error = parse("f.yaml", "apiVersion: v1\nkind: X\n: [\n").unwrap_err();
    assert_eq!(error.to_string(), "f.yaml:3:1: expected a key before `:`");
}

#[test]
fn texts_that_would_grow_or_nest_without_end_are_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = level - 1;
        let items = vec![format!("*a{before}"); 10].join(", ");
        bomb = format!("{bomb}a{level}: &a{level} [{items}]\n");
    }
    assert!(matches!(parse("f.yaml", &bomb), Err(ManifestError::Malformed { .. })));
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let deep = format!("{}1{}", open.repeat(5000), close.repeat(5000));
        let Err(error) = parse("f.yaml", &deep) else { panic!("{open} nests without end") };
        assert!(error.to_string().contains("at most 128 levels"), "{error}");
    }
    let mut block = "apiVersion: v1\nkind: X\nmetadata: {name: a}\n".to_owned();
    for level in 0..1000 {
        block = format!("{block}{}a:\n", " ".repeat(level));
    }
    assert!(matches!(parse("f.yaml", &block), Err(ManifestError::Malformed { .. })));
}

#[test]
fn more_documents_than_the_limit_are_refused_in_lists_too() {
    for (item, documents) in [("{apiVersion: v1, kind: X, metadata: {name: a}}", MAX_DOCUMENTS), ("1", 0)] {
        let items = format!("- {item}\n").repeat(MAX_DOCUMENTS + 1);
        let reading = parse_all("f.yaml", &format!("apiVersion: v1\nkind: List\nitems:\n{items}"));
        assert_eq!(reading.documents.len(), documents, "{item}");
        assert_eq!(documents + reading.problems.len(), MAX_DOCUMENTS + 1, "{item}");
        let last = reading.problems.last().unwrap().to_string();
        assert_eq!(last, "f.yaml: too many documents, expected at most 20000 in one input", "{item}");
    }
}

#[test]
fn nesting_up_to_the_limit_is_read() {
    let deep = format!("{}1{}", "[".repeat(crate::MAX_DEPTH - 2), "]".repeat(crate::MAX_DEPTH - 2));
    let text = format!("apiVersion: v1\nkind: X\nmetadata: {{name: a}}\nspec: {deep}\n");
    parse("f.yaml", &text).unwrap();
}

#[test]
fn of_a_folder_everything_but_the_kustomization_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n";
    for (file, text) in [
        ("b.yaml", object.replace("NAME", "b")),
        (
            "a.json",
            serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
                .to_string(),
        ),
        ("kustomization.yaml", "kind: Kustomization\nresources: [b.yaml]\n".to_owned()),
        ("notes.txt", "no manifest".to_owned()),
    ] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let documents = read(&[folder.path().to_owned()]).unwrap();
    let names: Vec<_> =
        documents.iter().map(|document| document.object["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
    let unapplied = crate::Unapplied {
        file: folder.path().join("kustomization.yaml").display().to_string(),
        hint: format!(
            "pass the objects that it makes, as in `kubectl kustomize {} | longboat validate -`",
            folder.path().display()
        ),
    };
    assert_eq!(crate::read_all(&[folder.path().to_owned()]).unapplied, [unapplied]);
    assert_eq!(crate::read_all(&[folder.path().join("a.json")]).unapplied, []);
}

#[test]
fn an_empty_or_unreadable_input_is_said_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let error = read(&[folder.path().to_owned()]).unwrap_err();
    let empty = format!("no Kubernetes object in `{}`", folder.path().display());
    assert_eq!(error.to_string(), empty);
    let below = folder.path().join("below");
    std::fs::create_dir(&below).unwrap();
    assert_eq!(read(&[folder.path().to_owned()]).unwrap_err().to_string(), empty);
    std::fs::write(below.join("x.yaml"), "").unwrap();
    let hint = format!("{empty}: add -R to read the folders in it, too");
    assert_eq!(read(&[folder.path().to_owned()]).unwrap_err().to_string(), hint);
    assert!(matches!(read(&["/no/such/file.yaml".into()]), Err(ManifestError::Read { .. })));
    let error = read_all(&["https://example.org/a.yaml".into()]).problems.remove(0);
    assert!(error.problem().contains("`curl -fsSL https://example.org/a.yaml | longboat"), "{error:?}");
    let kustomization = folder.path().join("kustomization.yaml");
    std::fs::write(&kustomization, "resources: [below]").unwrap();
    let build = format!("`kubectl kustomize {} | longboat validate -`", folder.path().display());
    for input in [folder.path(), &kustomization] {
        let error = read(&[input.to_owned()]).unwrap_err().to_string();
        assert!(error.ends_with(&build), "{error}");
    }
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, b"a: b\nc: \xff\n").unwrap();
    let error = read(&[file]).unwrap_err();
    assert!(error.to_string().ends_with("a.yaml:2:4: this is not UTF-8 text"), "{error}");
}

#[test]
fn scalars_are_typed_as_kubectl_types_them() {
    let text = "apiVersion: v1\nkind: X\nmetadata: {name: a}\nv: [yes, \"yes\", 0644, 0x10, 2.0, 1.5, ~, 2024-01-01, 1e3, off, 1_000, 8080:80]\n";
    let document = parse("f.yaml", text).unwrap().remove(0);
    assert_eq!(
        document.object["v"],
        serde_json::json!([true, "yes", 420, 16, 2, 1.5, null, "2024-01-01", 1000, false, 1000, "8080:80"])
    );
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[-a-z:{}\\[\\]&*!|>'\"#%@, \n\t0-9\u{e9}]{0,120}") {
        let _ = parse_all("f.yaml", &text);
    }
}

#[test]
fn a_name_or_namespace_that_yaml_does_not_read_as_text_is_refused_as_kubectl_does() {
    for (word, found) in [
        ("n", "the boolean false"),
        ("y", "the boolean true"),
        ("true", "the boolean true"),
        ("5", "the number 5"),
    ] {
        let text = format!("apiVersion: v1\nkind: X\nmetadata:\n  name: a\n  namespace: {word}\n");
        let error = parse("f.yaml", &text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "f.yaml:5:14: expected a string in `metadata.namespace`, found {found}"
            )),
            "{word}: {error}"
        );
        let quoted = text.replace(&format!(": {word}\n"), &format!(": '{word}'\n"));
        assert_eq!(parse("f.yaml", &quoted).unwrap()[0].namespace(), word);
    }
}

#[test]
fn fields_inside_of_block_texts_have_positions_in_the_file() {
    let place = |text: &str, inner: &str| {
        let document = parse("f", text).unwrap().remove(0);
        let data = document.object["data"]["epp"].as_str().unwrap().to_owned();
        let Position { line, column } = document.locate_within("data.epp", &data, inner);
        (line, column)
    };
    let head = "kind: X\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  ";
    let head = &head["kind: X\n".len()..];
    let block = format!(
        "{head}epp: |  # the picker\n    # first\n    plugins:\n    - type: a\n    - name: b\n      type: c\n"
    );
    assert_eq!(place(&block, "plugins[1].type"), (11, 7));
    assert_eq!(place(&block, "plugins[0]"), (9, 7));
    assert_eq!(place(&block, "plugins[7].type"), (8, 5), "of the nearest parent");
    let strip = block.replace("|  #", "|-  #");
    assert_eq!(place(&strip, "plugins[1].type"), (11, 7));
    for other in [
        format!("{head}epp: \"plugins: [{{type: a}}]\"\n"),
        format!("{head}epp: >\n    plugins:\n    - type: a\n"),
        format!("{head}epp: |\n    plugins: [\n"),
    ] {
        assert_eq!(place(&other, "plugins[0].type"), (6, 3), "{other}");
    }
}

#[test]
fn mistakes_in_yaml_are_described_by_what_was_typed() {
    for (text, expected) in [
        (
            "spec:\n  a:\n    b: x\n\tc: 1\n  d: 2\n",
            "6:1: a tab indents this line: YAML allows only spaces there",
        ),
        ("spec:\n\ta: 1\n", "4:1: a tab indents this line: YAML allows only spaces there"),
        (
            "spec:\n  a:\n    b: x\n     c: y\n",
            "6:6: this line is indented by 5 spaces, but the lines before it by 0, 2, 4: indent all fields of a mapping by \
             the same number of spaces",
        ),
        (
            "spec:\n  a:\n    b: x\n   c: y\n",
            "6:4: this line is indented by 3 spaces, but the lines before it by 0, 2, 4: indent all fields of a mapping by \
             the same number of spaces",
        ),
        (
            "spec:\n  a:\n  - b: x\n   c: y\n",
            "6:4: this line is indented by 3 spaces, but the lines before it by 0, 2, 4: indent all fields of a mapping by \
             the same number of spaces",
        ),
        (
            "spec:\n  a: b\n  - c\n",
            "5:3: this line is an item between fields with the same indentation: a mapping has only fields, and a list only \
             items",
        ),
        (
            "spec:\n  - a\n  b: c\n",
            "5:3: this line is a field between items (`- …`) with the same indentation: a mapping has only fields, and a \
             list only items",
        ),
        (
            "spec:\n  a: \"b\nc:\n  d: e\n",
            "4:6: the quote \" that begins here does not end: close it with \"",
        ),
        ("spec:\n  a: b: c\n", "4:6: the value of `a` has a colon: put the value in quotes, \"b: c\""),
        ("spec\n  a: b\n", "3:1: expected `key: value`, found `spec`: a colon is missing"),
        ("spec:\n  a b\n  c: d\n", "4:3: expected `key: value`, found `a b`: a colon is missing"),
        ("spec:\n  a:b\n  c: d\n", "4:3: `a:b` needs a space after the colon: `a: b`"),
        (
            "spec:\n  a:\u{a0}b\n  c: d\n",
            "4:3: the character U+00A0 after `a:` only looks like a space, perhaps a no-break space of a web page: type a space \
             instead",
        ),
        ("spec:\n  uri hf://a/b\n  c: d\n", "4:3: `uri` needs a colon after it: `uri: hf://a/b`"),
        ("spec:\n  args:\n  --foo\n  c: d\n", "5:3: `--foo` is an item of a list: write `- --foo`"),
        (
            "spec:\n  a: {}\n    b: c\n",
            "4:3: `a: {}` is complete, so no lines can follow below it: remove the `{}`",
        ),
        (
            "spec:\n  - b\n  \u{a0}c: d\n",
            "5:3: a character that only looks like a space indents this line, perhaps a no-break space of a web page: type \
             spaces instead",
        ),
        ("spec:\n  a: [b, c\nd: e\n", "4:6: the `[` that begins here does not end: close it with `]`"),
        ("spec:\n  a: {b: c\nd: e\n", "4:6: the `{` that begins here does not end: close it with `}`"),
        ("spec:\n  a: @b\n", "4:6: a value cannot begin with `@`: put it in quotes"),
        (
            "spec:\n  a: *.example\n",
            "4:6: `*` begins a reference to an anchor, and this document has no such anchor: put a value that begins with \
             `*` in quotes",
        ),
        (
            "spec:\n  a: [\"*\", *b]\n",
            "4:12: `*` begins a reference to an anchor, and this document has no such anchor: put a value that begins with \
             `*` in quotes",
        ),
        (
            "spec:\n  a: {{ .Values.a }}\n",
            "4:6: `{{` is a template: render it first (for example with `helm template`), or put the value in quotes",
        ),
        (
            "a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> x\n",
            "4:1: this line is the mark of a merge conflict: resolve the conflict, and remove its marks",
        ),
        ("```\n", "3:1: this line belongs to Markdown, not to YAML: remove the lines with ```"),
    ] {
        let error = parse("f.yaml", &format!("apiVersion: v1\nkind: X\n{text}")).unwrap_err();
        assert_eq!(error.to_string(), format!("f.yaml:{expected}"), "{text}");
    }
    let text = "# A service.\n apiVersion: v1\nkind: X\n";
    assert_eq!(
        parse("f.yaml", text).unwrap_err().to_string(),
        "f.yaml:2:2: this line begins an object and is indented by 1, but a later one is not: indent all fields of an object by \
         the same number of spaces"
    );
}
