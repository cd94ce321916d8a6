//! Compares the schema alone with recorded refusals of the reference, and tests laws for any schema and value.

use longboat_golden::{answer_causes, transcript};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Cause, MAX_OBJECT_BYTES, StructuralSchema, causes_of, default_crd, size, validate_crd};

/// Field, reason and message of each cause, sorted.
fn causes(found: &[Cause]) -> Vec<(String, String, String)> {
    let mut all: Vec<_> = found
        .iter()
        .map(|cause| (cause.field.clone(), cause.reason.to_owned(), cause.message.clone()))
        .collect();
    all.sort();
    all
}

fn widgets() -> StructuralSchema {
    let crd = transcript("setup/widgets-crd.yaml");
    StructuralSchema::compile(&crd, &crd["spec"]["versions"][0])
}

#[test]
fn widgets_are_refused_with_the_recorded_causes() {
    let schema = widgets();
    for scenario in ["cr-messages.yaml", "cr-pruning.yaml", "cr-cel.yaml", "cr-defaults.yaml"] {
        let scenario_steps = transcript(scenario);
        for (index, step) in scenario_steps["steps"].as_array().unwrap().iter().enumerate() {
            let request = &step["request"];
            let body = &request["body"];
            if request["method"] != "POST" || body["apiVersion"] != "example.test/v1" {
                continue;
            }
            let mut object = body.clone();
            schema.prune_and_default(&mut object);
            let mut expected = answer_causes(&step["response"]);
            // The rules of the scale subresource find this, not the schema.
            expected.retain(|(field, ..)| field != ".spec.replicas");
            assert_eq!(causes(&schema.validate(&object, None)), expected, "{scenario}:{index}");
        }
    }
}

#[test]
fn unknown_fields_are_named_in_the_recorded_order() {
    let schema = widgets();
    let scenario = transcript("cr-pruning.yaml");
    let step = &scenario["steps"][0];
    let expected: Vec<String> = step["response"]["headers"]["Warning"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| {
            let text = text.as_str().unwrap().trim_start_matches("299 - \"unknown field \\\"");
            text.trim_end_matches("\\\"\"").to_owned()
        })
        .collect();
    assert_eq!(schema.prune(&mut step["request"]["body"].clone()), expected);
}

#[test]
fn definitions_are_refused_with_the_recorded_causes() {
    let scenario = transcript("crd-invalid.yaml");
    let mut different = Vec::new();
    for (index, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
        let mut crd = step["request"]["body"].clone();
        default_crd(&mut crd);
        let mut expected = answer_causes(&step["response"]);
        // The rules for all names find this, not those for definitions.
        expected.retain(|(field, _, message)| field != "metadata.name" || !message.contains("RFC 1123"));
        let found = causes(&causes_of(&crd, "", |crd| validate_crd(crd, None)));
        if found != expected {
            different.push(format!("{index}: found {found:#?}\nexpected {expected:#?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn ratcheting_tolerates_what_did_not_change() {
    let crd = json!({"spec": {}});
    let version = json!({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
        "type": "object", "required": ["must"], "properties": {
            "must": {"type": "string"}, "s": {"type": "string", "maxLength": 3},
            "l": {"type": "array", "items": {"type": "string", "maxLength": 3}},
        },
    }}}}});
    let schema = StructuralSchema::compile(&crd, &version);
    let old = json!({"spec": {"s": "long value", "l": ["longer", "x"]}});
    let fields = |new: Value| -> Vec<String> {
        schema.validate(&new, Some(&old)).into_iter().map(|cause| cause.field).collect()
    };
    assert!(fields(json!({"metadata": {"labels": {"a": "b"}}, "spec": old["spec"]})).is_empty());
    assert!(fields(json!({"spec": {"must": "x", "s": "long value", "l": ["longer", "x"]}})).is_empty());
    assert_eq!(fields(json!({"spec": {"must": "x", "l": ["longer", "y"]}})), ["spec.l[0]"]);
    assert_eq!(fields(json!({"spec": {"s": "ok"}})), ["spec.must"]);
}

#[test]
fn a_part_that_stands_at_several_depths_is_the_same_at_each_until_the_deepest_that_is_compiled() {
    let wrap =
        |inner: Value, levels: usize, of: fn(Value) -> Value| (0..levels).fold(inner, |inner, _| of(inner));
    let schema = |inner| json!({"type": "object", "properties": {"a": inner}});
    let value = |inner| json!({"a": inner});
    let part = wrap(json!({"type": "object"}), 30, schema);
    let fields = json!({"near": part, "far": wrap(part.clone(), 30, schema), "beyond": wrap(part.clone(), 80, schema)});
    let version = json!({"schema": {"openAPIV3Schema": {"type": "object", "properties": fields}}});
    let compiled = StructuralSchema::compile(&json!({}), &version);
    let object = |levels| wrap(json!({"unknown": 1}), levels, value);
    let unknown = |field: &str, levels| compiled.prune(&mut json!({field: object(levels)}));
    assert_eq!(unknown("near", 30), [format!("near{}.unknown", ".a".repeat(30))]);
    assert_eq!(unknown("far", 60), [format!("far{}.unknown", ".a".repeat(60))]);
    assert!(unknown("beyond", 110).is_empty());
}

/// Returns the messages of a rule on `spec` for a value, with the stored value if there is one.
fn rule(rule: &Value, fields: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let version = json!({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
        "type": "object", "properties": fields, "x-kubernetes-validations": [rule],
    }}}}});
    let schema = StructuralSchema::compile(&json!({}), &version);
    let old = old.map(|old| json!({"spec": old}));
    let found = schema.validate(&json!({"spec": new}), old.as_ref());
    found.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn rules_see_values_as_the_reference_shows_them() {
    let text = json!({"type": "string"});
    for (expression, fields, value) in [
        (
            "self.a_b == 'x' && self.c__dash__d == 'y'",
            json!({"a_b": text, "c-d": text}),
            json!({"a_b": "x", "c-d": "y"}),
        ),
        ("self.__namespace__ == 'x'", json!({"namespace": text}), json!({"namespace": "x"})),
        (
            "self.namespace == 'x' && has(self.__namespace__)",
            json!({"namespace": text}),
            json!({"namespace": "x"}),
        ),
        ("!has(self.namespace)", json!({"namespace": text}), json!({})),
        ("self.?a.orValue('none') == 'none'", json!({"a": text}), json!({})),
        (
            "self.?o.?a.orValue('none') == 'none'",
            json!({"o": {"type": "object", "properties": {"a": text}}}),
            json!({"o": {}}),
        ),
        (
            "self.?o.a.value() == 'x'",
            json!({"o": {"type": "object", "properties": {"a": text}}}),
            json!({"o": {"a": "x"}}),
        ),
        ("self.n > 1.5", json!({"n": {"type": "number"}}), json!({"n": 2})),
        ("self.i == 2", json!({"i": {"type": "integer"}}), json!({"i": 2.0})),
        (
            "self.t < timestamp('2021-01-01T00:00:00Z') && self.d < duration('2h')",
            json!({"t": {"type": "string", "format": "date-time"}, "d": {"type": "string", "format": "duration"}}),
            json!({"t": "2020-01-01T00:00:00Z", "d": "90m"}),
        ),
        (
            "self.l.all(x, x.n.startsWith('a')) && self.l.exists_one(x, x.n == 'ab')",
            json!({"l": {"type": "array", "items": {"type": "object", "properties": {"n": text}}}}),
            json!({"l": [{"n": "ab"}, {"n": "ac"}]}),
        ),
        ("quantity(self.q).isLessThan(quantity('2Gi'))", json!({"q": text}), json!({"q": "1500Mi"})),
        (
            "self.a.matches('^\\\\d$') && !self.b.matches('^\\\\d$')",
            json!({"a": text, "b": text}),
            json!({"a": "3", "b": "\u{663}"}),
        ),
        ("isIP(self.a) && !isURL(self.a)", json!({"a": text}), json!({"a": "10.0.0.1"})),
        (
            "self.m['k.x'] == 'v'",
            json!({"m": {"type": "object", "additionalProperties": text}}),
            json!({"m": {"k.x": "v"}}),
        ),
        (
            "type(self.p) == int || self.p.endsWith('%')",
            json!({"p": {"x-kubernetes-int-or-string": true}}),
            json!({"p": "5%"}),
        ),
    ] {
        assert_eq!(rule(&json!({"rule": expression}), &fields, &value, None), [""; 0], "{expression}");
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {
                "type": "object", "properties": fields, "x-kubernetes-validations": [{"rule": expression}],
            }},
        }}});
        let mut crd = json!({
            "metadata": {"name": "as.b.c"},
            "spec": {"group": "b.c", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"}, "versions": [version]},
        });
        default_crd(&mut crd);
        assert_eq!(causes_of(&crd, "", |crd| validate_crd(crd, None)), [], "{expression}");
    }
}

#[test]
fn rules_that_fail_are_worded_as_the_reference_words_them() {
    let fields = json!({"a": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}}});
    let say = |source: Value, new: Value, old: Option<Value>| rule(&source, &fields, &new, old.as_ref());
    assert_eq!(
        say(json!({"rule": " self.a == 'x' "}), json!({"a": "y"}), None),
        ["spec: Invalid value: \"object\": failed rule: self.a == 'x'"]
    );
    assert_eq!(
        say(json!({"rule": "self.a == 'x'", "message": "no"}), json!({}), None),
        ["spec: Invalid value: \"object\": no such key: a evaluating rule: no"]
    );
    assert_eq!(
        say(json!({"rule": "self.l[3] == 'x'"}), json!({"l": []}), None),
        ["spec: Invalid value: \"object\": index out of bounds: 3 evaluating rule: self.l[3] == 'x'"]
    );
    let once = json!({"rule": "oldSelf.orValue({'a': self.a}).a == self.a", "optionalOldSelf": true, "message": "no"});
    assert!(say(once.clone(), json!({"a": "y"}), None).is_empty());
    assert_eq!(
        say(once, json!({"a": "y"}), Some(json!({"a": "x"}))),
        ["spec: Invalid value: \"object\": no"]
    );
    let kept =
        json!({"rule": "!oldSelf.?a.hasValue() || has(self.a)", "optionalOldSelf": true, "message": "no"});
    assert!(say(kept.clone(), json!({}), None).is_empty());
    assert!(say(kept.clone(), json!({}), Some(json!({"l": []}))).is_empty());
    assert_eq!(say(kept, json!({}), Some(json!({"a": "x"}))).len(), 1);
    let required = json!({"rule": "self.a != ''", "reason": "FieldValueRequired", "fieldPath": ".a", "message": "say it"});
    assert_eq!(say(required, json!({"a": ""}), None), ["spec.a: Required value: say it"]);
}

#[test]
fn a_number_that_no_integer_type_of_go_has_is_no_integer() {
    let schema = StructuralSchema::parse(r#"{"type": "object", "properties": {"n": {"type": "integer"}}}"#);
    assert_eq!(schema.validate(&json!({"n": 2.0}), None), []);
    let found = causes(&schema.validate(&json!({"n": 1e300}), None));
    assert_eq!(found[0].2, "Invalid value: \"number\": n in body must be of type integer: \"number\"");
}

/// Any small JSON value.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-c]|metadata|apiVersion", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Something similar to a schema: known keywords, with values that may be invalid.
fn schema() -> impl Strategy<Value = Value> {
    let keyword = prop_oneof![
        Just("type"),
        Just("default"),
        Just("enum"),
        Just("required"),
        Just("nullable"),
        Just("minimum"),
        Just("maxLength"),
        Just("pattern"),
        Just("format"),
        Just("multipleOf"),
        Just("maxItems"),
        Just("x-kubernetes-preserve-unknown-fields"),
        Just("x-kubernetes-embedded-resource"),
        Just("x-kubernetes-int-or-string"),
        Just("x-kubernetes-list-map-keys"),
        Just("minProperties"),
    ];
    let value = prop_oneof![
        json(),
        Just(json!("object")),
        Just(json!("array")),
        Just(json!("string")),
        Just(json!("integer")),
        Just(json!("date-time")),
        Just(json!("duration")),
        Just(json!("cidr")),
        Just(json!("[")),
        Just(json!(true)),
        Just(json!(["a", "b"])),
        Just(json!(0)),
    ];
    let leaf = prop::collection::hash_map(keyword.prop_map(str::to_owned), value, 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect()));
    leaf.prop_recursive(4, 24, 3, |inner| {
        (
            inner.clone(),
            prop_oneof![
                Just("properties"), Just("items"), Just("additionalProperties"), Just("oneOf"), Just("anyOf"),
                Just("allOf"), Just("not"), Just("x-kubernetes-validations"),
            ],
            prop_oneof![Just("set"), Just("map"), Just("atomic")],
            inner,
        )
            .prop_map(|(mut node, keyword, list, child)| {
                node["x-kubernetes-list-type"] = list.into();
                node[keyword] = match keyword {
                    "properties" => json!({"a": child, "b": child}),
                    "oneOf" | "anyOf" | "allOf" => json!([child, {"required": ["a"]}]),
                    "x-kubernetes-validations" => json!([
                        {"rule": "self.a > 1 || size(self) > 2"}, {"rule": "self == oldSelf"}, {"rule": "self +"}, child,
                    ]),
                    _ => child,
                };
                node
            })
    })
}

#[test]
fn metadata_that_go_cannot_decode_is_refused_with_the_type_of_the_field() {
    let schema = StructuralSchema::parse("{}");
    let wrong = [
        (json!({"generation": 1.5}), "number", "generation", "int64"),
        (json!({"labels": {"a": null, "b": 1}}), "number", "labels", "string"),
        (json!({"annotations": []}), "array", "annotations", "map[string]string"),
        (json!({"finalizers": [null, {}]}), "object", "finalizers", "string"),
        (json!({"uid": 1}), "number", "uid", "types.UID"),
        (json!({"creationTimestamp": 1}), "number", "creationTimestamp", "string"),
        (json!({"ownerReferences": {}}), "object", "ownerReferences", "[]v1.OwnerReference"),
        (json!({"managedFields": ["x"]}), "string", "managedFields", "v1.ManagedFieldsEntry"),
    ];
    for (metadata, got, field, expected) in wrong {
        let why = format!(
            "json: cannot unmarshal {got} into Go struct field ObjectMeta.{field} of type {expected}"
        );
        assert_eq!(schema.coerce_metadata(&mut json!({"metadata": metadata})), Some(why));
    }
}

#[test]
fn a_pattern_that_does_not_compile_is_refused_whatever_letters_it_has() {
    for (pattern, part) in [
        ("é|*", "missing argument to repetition operator: `*`"),
        ("a|+?", "missing argument to repetition operator: `+`"),
        (r"\(?é(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ] {
        let schema = json!({"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}});
        let crd = json!({
            "metadata": {"name": "as.b.c"}, "status": {"storedVersions": ["v1"]},
            "spec": {
                "group": "b.c", "scope": "Cluster",
                "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let found = causes_of(&crd, "", |crd| validate_crd(crd, None));
        let why = format!("must be a valid regular expression, but isn't: error parsing regexp: {part}");
        let field = "spec.validation.openAPIV3Schema.properties[x].pattern";
        assert_eq!(found, [Cause::invalid(field, &json!(pattern), why)]);
    }
}

#[test]
fn defaults_stop_when_the_object_is_too_large_to_be_stored() {
    let long = "x".repeat(50_000);
    let item = json!({"type": "object", "default": {"y": long}, "properties": {
        "x": {"type": "string", "default": long}, "y": {"type": "string"}}});
    let list = json!({"type": "array", "items": item});
    let schema =
        StructuralSchema::of(&json!({"type": "object", "properties": {"a": list, "b": list}}), false);
    let added = |items: &[Value]| {
        let mut object = json!({"a": items, "b": items});
        let before = size(&object);
        schema.default(&mut object);
        size(&object) - before
    };
    assert!((20 * 50_000..20 * 50_100).contains(&added(&vec![json!({}); 10])));
    for item in [json!({}), json!(null)] {
        let added = added(&vec![item; 6000]);
        assert!((MAX_OBJECT_BYTES..MAX_OBJECT_BYTES + 100_000).contains(&added), "{added}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_schema_and_no_value_cause_a_panic(schema in schema(), value in json(), old in json()) {
        let version = json!({"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}});
        let mut crd = json!({
            "metadata": {"name": "as.b.c"},
            "spec": {"group": "b.c", "names": {"plural": "as", "kind": "A"}, "versions": [version]},
        });
        default_crd(&mut crd);
        causes_of(&crd, "", |crd| validate_crd(crd, None));
        let compiled = StructuralSchema::compile(&crd, &version);
        let mut object = value;
        compiled.prune_and_default(&mut object);
        compiled.validate(&object, None);
        compiled.validate(&object, Some(&old));
    }

    #[test]
    fn pruning_and_defaulting_twice_changes_nothing(schema in schema(), value in json()) {
        let version = json!({"schema": {"openAPIV3Schema": schema}});
        let compiled = StructuralSchema::compile(&json!({}), &version);
        let mut once = value;
        compiled.default(&mut once);
        let mut twice = once.clone();
        compiled.default(&mut twice);
        prop_assert_eq!(&once, &twice);
        compiled.prune(&mut once);
        prop_assert!(compiled.prune(&mut once.clone()).is_empty());
    }
}
