//! Compares merging and templates with `merge/`.

use longboat_api::{child_name, engine::VLLM};
use longboat_golden::{Entry, golden};
use longboat_key::{Key, Name, Namespace};
use serde_json::{Value, json};

use super::recordings::{differences, remark, text, yaml};
use crate::{codec, compose::merge_layers, layer::fill_containers, platform::Platform, render, schema};

/// Merges layers like the function of the reference, with the messages of its recorder.
fn merged(layers: Vec<Value>) -> Result<Value, String> {
    let mut decoded = Vec::new();
    for (i, layer) in layers.into_iter().enumerate() {
        let mut layer = codec::normalise(schema::TYPES.spec, layer).map_err(|message| {
            format!("DECODE layer {}: error unmarshaling JSON: while decoding JSON: {message}", i + 1)
        })?;
        if i > 0 {
            fill_containers(&mut layer);
        }
        decoded.push(layer);
    }
    let merged = merge_layers(decoded.iter()).map_err(|error| error.to_string())?;
    codec::normalise(schema::TYPES.spec, merged.unwrap())
}

fn layers(folder: &Entry) -> Vec<Value> {
    (1..=9)
        .map(|i| folder.join(&format!("layer-{i}.yaml")))
        .take_while(Entry::exists)
        .map(|file| yaml(&file))
        .collect()
}

fn rendered(folder: &Entry) -> Result<Value, String> {
    let service = yaml(&folder.join("service.yaml"));
    let config = yaml(&folder.join("config.yaml"));
    let globals = yaml(&folder.join("globals.yaml"));
    let spec = codec::normalise(schema::TYPES.spec, config.get("spec").cloned().unwrap_or(json!({})))?;
    let own = codec::normalise(schema::TYPES.spec, service.get("spec").cloned().unwrap_or(json!({})))?;
    let metadata = service["metadata"].clone();
    let mut platform = Platform::default();
    let global = |key: &str| globals[key].as_str().unwrap_or_default().to_owned();
    platform.ingress.gateway =
        Key::new(Namespace(&global("ingressGatewayNamespace")), Name(&global("ingressGatewayName")));
    platform.ingress.enable_tls = globals["enableTLS"] == true;
    platform.ingress.model_header = global("modelBasedRoutingHeaderName");
    let pool = child_name(metadata["name"].as_str().unwrap_or_default(), "-inference-pool");
    let data = json!({
        schema::SERVICE_KEY: {
            "metadata": metadata,
            "spec": own,
            "status": service.get("status").cloned().unwrap_or_default(),
        },
        schema::GLOBAL_KEY: platform.template_globals(
            &VLLM,
            Namespace(&global("systemNamespace")),
            Namespace(metadata["namespace"].as_str().unwrap_or_default()),
            &pool,
        ),
    });
    let config = json!({ "metadata": data[schema::SERVICE_KEY]["metadata"], "spec": spec, "status": {} });
    render::whole(&config, &data).map(|spec| json!({ "spec": spec })).map_err(|e| e.to_string())
}

/// Replaces addresses, which also differ between runs of the reference.
fn without_addresses(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with("0x") && text.len() > 8 => json!("<address>"),
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), without_addresses(v))).collect(),
        Value::Array(items) => items.iter().map(without_addresses).collect(),
        other => other.clone(),
    }
}

#[test]
fn merging_and_rendering_equal_the_recordings() {
    let golden = golden();
    let mut different = Vec::new();
    let mut equal = 0;
    for folder in golden.join("merge").folders() {
        let case = folder.name();
        let result = if case.starts_with("template-") { rendered(&folder) } else { merged(layers(&folder)) };
        let expected = match text(&folder.join("error.txt")) {
            Some(error) => Err(error),
            None => Ok(yaml(&folder.join("expected.yaml"))),
        };
        let problem = match (&result, &expected) {
            (Ok(ours), Ok(theirs)) => {
                let found = differences(&without_addresses(ours), &without_addresses(theirs));
                (!found.is_empty()).then(|| found.join("\n    "))
            }
            (Err(ours), Err(theirs)) if ours == theirs => None,
            _ => Some(format!("ours {result:?}\n    theirs {expected:?}")),
        };
        match problem {
            None => equal += 1,
            Some(problem) => different.push(format!("{case}:\n    {problem}")),
        }
    }
    remark(&format!("merge: {equal} equal, {} different", different.len()));
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// With a search of the list for each element, this takes minutes.
#[test]
fn large_lists_merge() {
    let layer = |from: u32, value: &str| {
        let variables: Vec<Value> =
            (from..from + 10_000).map(|n| json!({"name": format!("E{n}"), "value": value})).collect();
        json!({"template": {"containers": [{"name": "main", "env": variables}]}})
    };
    let merged = merged(vec![layer(0, "v"), layer(5_000, "w")]).unwrap();
    let variables = merged["template"]["containers"][0]["env"].as_array().unwrap();
    let written: Vec<(&str, &str)> = variables
        .iter()
        .map(|variable| (variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap()))
        .collect();
    let names: Vec<String> = (0..15_000).map(|n| format!("E{n}")).collect();
    let expected: Vec<(&str, &str)> = names
        .iter()
        .enumerate()
        .map(|(n, name)| (name.as_str(), if n < 5_000 { "v" } else { "w" }))
        .collect();
    assert_eq!(written, expected);
}

#[test]
fn child_names_equal_the_recordings() {
    let golden = golden();
    for entry in yaml(&golden.join("merge/childname.yaml")).as_array().unwrap() {
        let [parent, suffix, result] = ["parent", "suffix", "result"].map(|k| entry[k].as_str().unwrap());
        assert_eq!(child_name(parent, suffix), result);
    }
}
