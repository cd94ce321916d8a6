//! `options.json`: flags, environment variables and connectors of vLLM.

use longboat_api::vllm;
use serde_json::{Map, Value, json};

use crate::install::{Install, check};

#[tokio::test]
async fn the_recorded_options_are_those_of_this_vllm() {
    let Some(install) = Install::find().await else { return };
    let Value::Object(printed) = install.options(&[], &Value::Null) else { panic!() };
    check("options.json", &text(&install.version(), &printed));
}

/// Returns the text of the file: a line for each name, so that the difference between versions can be read.
fn text(version: &str, options: &Map<String, Value>) -> String {
    let kinds = options.iter().map(|(kind, names)| {
        let (open, lines, close): (_, Vec<String>, _) = match names {
            Value::Object(names) => {
                ("{", names.iter().map(|(name, value)| format!("{}: {value}", json!(name))).collect(), "}")
            }
            names => ("[", names.as_array().unwrap().iter().map(Value::to_string).collect(), "]"),
        };
        format!(",\n{}: {open}\n{}\n{close}", json!(kind), lines.join(",\n"))
    });
    format!("{{\n\"version\": {}{}\n}}\n", json!(version), kinds.collect::<String>())
}

#[tokio::test]
async fn values_that_are_refused_are_refused_by_this_vllm() {
    let Some(install) = Install::find().await else { return };
    let recorded: Value = serde_json::from_str(include_str!("options.json")).unwrap();
    let (mut fields, mut variables) = (Vec::new(), Vec::new());
    for (flag, options) in recorded["flags"].as_object().unwrap() {
        for (field, schema) in options["schema"]["properties"].as_object().into_iter().flatten() {
            fields.extend(values(schema).into_iter().map(|value| json!([flag, field, value])));
        }
    }
    for (name, schema) in recorded["variables"].as_object().unwrap() {
        let texts = values(schema).into_iter().filter(Value::is_string);
        variables.extend(texts.map(|value| json!([name, value])));
    }
    let given = json!({"fields": fields, "variables": variables});
    let refused = install.options(&["judge"], &given);
    let mut refused = refused.as_array().unwrap().iter().map(|refused| refused == true);
    let (mut wrong, mut silent, mut right) = (Vec::new(), Vec::new(), 0);
    let mut compare = |case: &Value, ours: bool| match (ours, refused.next().unwrap()) {
        (true, true) => right += 1,
        (true, false) => wrong.push(case.to_string()),
        (false, true) => silent.push(case.to_string()),
        (false, false) => {}
    };
    for case in &fields {
        let (_, flag) = vllm::flags::find(case[0].as_str().unwrap()).unwrap();
        let value = json!({case[1].as_str().unwrap(): case[2]});
        compare(case, flag.schema.mismatch(&value).is_some());
    }
    for case in &variables {
        let [name, value] = [0, 1].map(|position| case[position].as_str().unwrap());
        compare(case, vllm::variables::expected(name, value).is_some());
    }
    assert!(wrong.is_empty(), "taken by this vLLM:\n{}", wrong.join("\n"));
    assert!(right > 1000, "only {right} values are refused");
    // What code of vLLM refuses, a schema cannot.
    assert!(
        silent.len() < right / 5,
        "{} values are refused by vLLM only:\n{}",
        silent.len(),
        silent.join("\n")
    );
}

/// Returns values of every type, and at the bounds of a schema.
fn values(schema: &Value) -> Vec<Value> {
    let mut values = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(1e12),
        json!(""),
        json!("7"),
        json!("1.5"),
        json!("true"),
        json!("a word"),
        json!([]),
        json!(["a word"]),
        json!([1, 2]),
        json!({}),
        json!({"a": "b"}),
        json!({"a": 1}),
    ];
    let alternatives = schema["anyOf"].as_array().map_or(std::slice::from_ref(schema), Vec::as_slice);
    for schema in alternatives {
        values.extend(schema["enum"].as_array().into_iter().flatten().cloned());
        let bounds = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"];
        for bound in bounds.iter().filter_map(|bound| schema[bound].as_f64()) {
            values.extend([bound - 1.0, bound, bound + 1.0].map(Value::from));
        }
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            values.extend(self::values(schema).into_iter().map(|value| json!({field: value})));
        }
    }
    values
}
