//! Compares merging and templates with `merge/`.

use longboat_api::child_name;
use longboat_golden::{Entry, golden};
use longboat_key::{Key, Name, Namespace};
use serde_json::{Value, json};

use super::recordings::{differences, remark, text, yaml};
use crate::{
    codec,
    compose::fill_containers,
    merge::{Tree, merge},
    platform::Platform,
    render, schema,
};

/// Merges layers like the function of the reference, with the messages of its recorder.
fn merged(layers: Vec<Value>) -> Result<Value, String> {
    let mut decoded = Vec::new();
    for (i, layer) in layers.into_iter().enumerate() {
        let mut layer = codec::normalise(schema::SPEC, layer).map_err(|message| {
            format!("DECODE layer {}: error unmarshaling JSON: while decoding JSON: {message}", i + 1)
        })?;
        if i > 0 {
            fill_containers(&mut layer);
        }
        decoded.push(layer);
    }
    let (first, rest) = decoded.split_first().unwrap();
    let tree = rest
        .iter()
        .try_fold(Tree::Leaf(first), |base, layer| merge(schema::SPEC, base, layer))
        .map_err(|message| format!("failed to merge specs: could not apply merge patch: {message}"))?;
    codec::normalise(schema::SPEC, tree.to_value())
}

/// Merges layers with the general implementation, which the API server uses.
fn merged_generally(layers: Vec<Value>) -> Result<Value, String> {
    let mut result: Option<Value> = None;
    for layer in layers {
        let mut layer = codec::normalise(schema::SPEC, layer)?;
        result = Some(match result {
            None => layer,
            Some(base) => {
                fill_containers(&mut layer);
                if layer["model"]["uri"] == "" {
                    layer["model"].as_object_mut().unwrap().remove("uri");
                    if layer["model"].as_object().unwrap().is_empty() {
                        layer.as_object_mut().unwrap().remove("model");
                    }
                }
                longboat_patch::strategic::merge(base, layer, "serving.v1alpha2.LLMInferenceServiceSpec")
                    .map_err(|e| format!("failed to merge specs: could not apply merge patch: {e}"))?
            }
        });
    }
    codec::normalise(schema::SPEC, result.unwrap())
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
    let spec = codec::normalise(schema::SPEC, config.get("spec").cloned().unwrap_or(json!({})))?;
    let own = codec::normalise(schema::SPEC, service.get("spec").cloned().unwrap_or(json!({})))?;
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

#[test]
fn merging_over_borrowed_trees_equals_the_general_strategic_merge() {
    let golden = golden();
    for folder in golden.join("merge").folders().iter().filter(|f| f.name().starts_with("merge-")) {
        let Ok(ours) = merged(layers(folder)) else { continue };
        let theirs = merged_generally(layers(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
        assert_eq!(differences(&ours, &theirs), Vec::<String>::new(), "{folder}");
    }
}

/// With a search of the list for each element, this takes minutes.
#[test]
fn large_lists_merge_like_the_general_strategic_merge() {
    let layer = |from: u32, value: &str| {
        let variables: Vec<Value> =
            (from..from + 10_000).map(|n| json!({"name": format!("E{n}"), "value": value})).collect();
        json!({"template": {"containers": [{"name": "main", "env": variables}]}})
    };
    let layers = vec![layer(0, "v"), layer(5_000, "w")];
    let ours = merged(layers.clone()).unwrap();
    assert_eq!(ours["template"]["containers"][0]["env"].as_array().unwrap().len(), 15_000);
    assert_eq!(ours, merged_generally(layers).unwrap());
}

#[test]
fn child_names_equal_the_recordings() {
    let golden = golden();
    for entry in yaml(&golden.join("merge/childname.yaml")).as_array().unwrap() {
        let [parent, suffix, result] = ["parent", "suffix", "result"].map(|k| entry[k].as_str().unwrap());
        assert_eq!(child_name(parent, suffix), result);
    }
}
