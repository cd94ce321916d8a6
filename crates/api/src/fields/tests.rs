//! The table against the CRD, and what it says about services.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{config_warnings, older, rows, v1alpha1_warnings, warnings};
use crate::crd;
use crate::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};

/// Subtrees of other APIs whose fields we describe: one leaf each.
const FOREIGN: [&str; 2] = ["spec.router.route.http.spec", "spec.router.scheduler.pool.spec"];

/// Own leaves of the spec of a version of LLMInferenceService. What belongs to a core type has no descriptions.
fn leaves(version: &str) -> BTreeSet<String> {
    let crd =
        crd::own().into_iter().find(|crd| crd["spec"]["names"]["kind"] == "LLMInferenceService").unwrap();
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let schema = &versions.iter().find(|each| each["name"] == version).unwrap()["schema"]["openAPIV3Schema"];
    let mut found = BTreeSet::new();
    visit(&schema["properties"]["spec"], "spec".to_owned(), &mut found);
    found
}

fn visit(schema: &Value, path: String, found: &mut BTreeSet<String>) {
    if schema["items"]["properties"].is_object() {
        return visit(&schema["items"], format!("{path}[]"), found);
    }
    match &schema["properties"] {
        Value::Object(fields)
            if !FOREIGN.contains(&path.as_str())
                && fields.values().all(|field| field["description"].is_string()) =>
        {
            for (name, field) in fields {
                visit(field, format!("{path}.{name}"), found);
            }
        }
        _ => {
            found.insert(path);
        }
    }
}

#[test]
fn every_own_leaf_has_one_row_and_every_row_a_leaf() {
    let rows: Vec<String> = rows().into_iter().map(|(path, _)| path).collect();
    let paths: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(rows.len(), paths.len(), "a field has two rows");
    let leaves = leaves("v1alpha2");
    let without: Vec<_> = leaves.difference(&paths).collect();
    let gone: Vec<_> = paths.difference(&leaves).collect();
    assert!(
        without.is_empty() && gone.is_empty(),
        "leaves without a row: {without:#?}\nrows without a leaf: {gone:#?}"
    );
}

#[test]
fn what_only_v1alpha1_has_is_known() {
    let only: Vec<String> = leaves("v1alpha1").difference(&leaves("v1alpha2")).cloned().collect();
    assert_eq!(only, older::FIELDS);
}

fn service(spec: &Value) -> LLMInferenceService {
    serde_json::from_value(json!({"metadata": {"name": "llm"}, "spec": spec})).unwrap()
}

/// The fields that the warnings about a spec begin with.
fn warned(spec: &Value) -> Vec<String> {
    let first = |text: &String| text.split(' ').next().unwrap_or_default().to_owned();
    warnings(&service(spec)).iter().map(first).collect()
}

#[test]
fn a_service_whose_fields_all_act_is_not_warned_about() {
    let spec = json!({
        "model": {"uri": "hf://a/b", "name": "b"},
        "replicas": 2,
        "parallelism": {"tensor": 2},
        "labels": {"team": "a"},
        "annotations": {"serving.kserve.io/model-based-routing-enabled": "true"},
        "template": {"containers": [{"name": "main", "args": ["--max-model-len=1024"]}]},
        "kvCacheOffloading": {"cpu": "1Gi", "evictionPolicy": "arc"},
        "tracing": {"sampler": "traceidratio", "samplerArg": "0.1"},
        "router": {
            "route": {"http": {"spec": {"hostnames": ["a.example"], "rules": [{"backendRefs": [{"name": "x"}]}]}}},
            "gateway": {"refs": [{"name": "gw"}]},
            "scheduler": {"replicas": 1, "labels": {"a": "b"}, "config": {"inline": {
                "apiVersion": "llm-d.ai/v1alpha1", "plugins": [{"type": "queue-scorer"}],
            }}},
        },
    });
    assert_eq!(warnings(&service(&spec)), Vec::<String>::new());
}

#[test]
fn fields_that_do_nothing_beside_the_others_are_named() {
    let model = json!({"uri": "hf://a/b"});
    let cases = [
        (json!({"model": model, "storageInitializer": {"enabled": false}}), vec!["spec.model.uri"]),
        (
            json!({"model": {"uri": "pvc://c/m"}, "storageInitializer": {"enabled": true}}),
            vec!["spec.storageInitializer.enabled"],
        ),
        (json!({"model": {"uri": "hf://a/b", "lora": {"maxRank": 8}}}), vec!["spec.model.lora.maxRank"]),
        (
            json!({"model": {"uri": "hf://a/b", "confidential": {"enabled": false, "resourceId": "kbs:///a/b/c"}}}),
            vec!["spec.model.confidential.resourceId"],
        ),
        (
            json!({"model": model, "tracing": {"exporterEndpoint": "", "sampler": "always_on", "samplerArg": "1"}}),
            vec!["spec.tracing.exporterEndpoint", "spec.tracing.samplerArg"],
        ),
        (
            json!({"model": model, "tracing": {"sampler": "foo", "samplerArg": "2"}}),
            vec!["spec.tracing.sampler"],
        ),
        (json!({"model": model, "tracing": {"samplerArg": "2"}}), vec!["spec.tracing.samplerArg"]),
        (
            json!({"model": model, "parallelism": {"data": 2, "dataLocal": 1, "dataRPCPort": 1, "expert": true}}),
            vec![
                "spec.parallelism.data",
                "spec.parallelism.dataLocal",
                "spec.parallelism.dataRPCPort",
                "spec.parallelism.expert",
            ],
        ),
        (json!({"model": model, "parallelism": {"pipeline": 2}}), vec!["spec.parallelism.pipeline"]),
        (
            json!({"model": model, "labels": {"llm-d.ai/role": "x"}, "annotations": {"serving.kserve.io/stop": "true"}}),
            vec!["spec.labels", "spec.annotations[serving.kserve.io/stop]"],
        ),
        (
            json!({
                "model": model,
                "parallelism": {"tensor": 2},
                "kvCacheOffloading": {"cpu": "1Gi", "evictionPolicy": "arc"},
                "template": {"containers": [{"name": "main", "command": ["vllm"]}]},
            }),
            vec![
                "spec.parallelism.tensor",
                "spec.kvCacheOffloading.cpu",
                "spec.kvCacheOffloading.evictionPolicy",
            ],
        ),
        (json!({"model": model, "kvCacheOffloading": {"cpu": "0Gi"}}), vec!["spec.kvCacheOffloading.cpu"]),
        (
            json!({"model": model, "template": {
                "containers": [{"name": "main", "args": ["--kv-transfer-config={}"]}],
                "initContainers": [{"name": "storage-initializer", "args": ["x"]}],
            }, "kvCacheOffloading": {"cpu": "1Gi", "evictionPolicy": "lru"}}),
            vec!["spec.template.initContainers[storage-initializer].args", "spec.kvCacheOffloading.cpu"],
        ),
        (
            json!({"model": model, "router": {"ingress": {"refs": [{"name": "a"}]}, "gateway": {"refs": [{"name": "g"}]}}}),
            vec!["spec.router.gateway.refs", "spec.router.ingress"],
        ),
        (
            json!({"model": model, "router": {"route": {"http": {"spec": {"rules": [{}]}}}}}),
            vec!["spec.router.route.http.spec.rules[0]"],
        ),
        (
            json!({"model": model, "router": {"scheduler": {
                "pool": {"ref": {"name": "theirs"}},
                "template": {"containers": []},
                "labels": {"a": "b"},
                "annotations": {"a": "b"},
                "config": {"inline": {"plugins": []}},
                "replicas": 2,
                "tokenizer": {},
            }}}),
            vec![
                "spec.router.scheduler.template",
                "spec.router.scheduler.labels",
                "spec.router.scheduler.annotations",
                "spec.router.scheduler.config",
                "spec.router.scheduler.replicas",
                "spec.router.scheduler.tokenizer",
            ],
        ),
        (
            json!({"model": model, "router": {"scheduler": {
                "pool": {"ref": {"name": ""}},
                "config": {"ref": {"name": "c", "key": "epp", "optional": true}},
            }}}),
            vec!["spec.router.scheduler.pool.ref", "spec.router.scheduler.config.ref.optional"],
        ),
        (
            json!({"model": model, "router": {"scheduler": {"config": {"inline": {
                "plugins": [{"type": "pd-profile-handler"}],
            }}}}}),
            vec!["spec.router.scheduler.config.inline"],
        ),
    ];
    for (spec, fields) in cases {
        assert_eq!(warned(&spec), fields, "{spec}");
        // API servers pass on 256 characters, in a header.
        assert!(warnings(&service(&spec)).iter().all(|text| text.is_ascii() && text.len() < 256), "{spec}");
    }
}

#[test]
fn what_a_base_config_may_bring_is_not_missed() {
    let spec = json!({
        "model": {"uri": "hf://a/b", "lora": {"maxRank": 8}},
        "parallelism": {"data": 2, "dataLocal": 1},
        "router": {"gateway": {"refs": [{"name": "g"}]}},
        "baseRefs": [{"name": "base"}],
    });
    assert_eq!(warned(&spec), Vec::<String>::new());
}

#[test]
fn fields_that_templates_read_act() {
    let spec = json!({
        "model": {"uri": "hf://a/b"},
        "parallelism": {"data": 2, "dataLocal": 2, "tensor": 2},
        "template": {"containers": [{
            "name": "main", "command": ["vllm"], "args": ["--data-parallel-size={{ .Spec.Parallelism.Data }}"],
        }]},
    });
    assert_eq!(warned(&spec), Vec::<String>::new());
}

#[test]
fn criticality_is_deprecated() {
    let object = json!({"spec": {"model": {
        "uri": "hf://a/b", "criticality": "Critical", "lora": {"adapters": [{"name": "a"}, {"criticality": "Standard"}]},
    }}});
    let fields: Vec<_> = v1alpha1_warnings(&object)
        .iter()
        .map(|text| text.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(fields, ["spec.model.criticality", "spec.model.lora.adapters[1].criticality"]);
}

#[test]
fn a_value_that_does_not_stop_a_service_is_warned_about() {
    let said = |value: &str| {
        let object = json!({
            "metadata": {"name": "llm", "annotations": {"serving.kserve.io/stop": value}}, "spec": {"model": {"uri": "hf://a/b"}},
        });
        warnings(&serde_json::from_value(object).unwrap())
    };
    assert_eq!(
        said("yes"),
        [
            "metadata.annotations[serving.kserve.io/stop] is \"yes\", which does not stop the service: write \"true\" to stop it, \
             or \"false\""
        ]
    );
    for plain in ["true", "True", "false"] {
        assert_eq!(said(plain), Vec::<String>::new());
    }
}

#[test]
fn presets_of_the_platform_are_not_warned_about() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets");
    let mut seen = 0;
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    for file in files.filter(|file| !file.ends_with("kustomization.yaml")) {
        let text = std::fs::read_to_string(file).unwrap();
        let preset: LLMInferenceServiceConfig = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(config_warnings(&preset), Vec::<String>::new());
        seen += 1;
    }
    assert_eq!(seen, crate::names::preset::shipped().count());
}

#[test]
fn topologies_that_cannot_work_are_warned_about() {
    let pod = |devices: u32| {
        json!({"containers": [{"name": "main", "resources": {"limits": {
            "cpu": "8", "nvidia.com/gpu": devices.to_string(), "rdma/ib": "1"}}}]})
    };
    let with = |parallelism: Value, more: Value| {
        let mut spec = json!({"model": {"uri": "hf://a/b"}, "parallelism": parallelism});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        warned(&spec)
    };
    let limits = "spec.template.containers[0].resources.limits";
    assert_eq!(with(json!({"tensor": 2}), json!({"template": pod(1)})), [limits]);
    assert!(with(json!({"tensor": 2}), json!({"template": pod(2)})).is_empty());
    assert!(with(json!({"tensor": 2}), json!({"template": {"containers": [{"name": "main"}]}})).is_empty());
    let groups = json!({"tensor": 2, "data": 4, "dataLocal": 2});
    assert_eq!(with(groups.clone(), json!({"template": pod(2), "worker": pod(4)})), [limits]);
    assert!(with(groups, json!({"template": pod(4), "worker": pod(4)})).is_empty());
    assert_eq!(
        with(json!({"data": 2, "dataLocal": 2}), json!({"worker": {"containers": []}})),
        ["spec.worker"]
    );
    let pipeline = json!({"pipeline": 2});
    assert_eq!(with(pipeline, json!({"worker": {"containers": []}})), ["spec.parallelism.pipeline"]);
    // What the layers below have is not known.
    let base = json!({"worker": {"containers": []}, "baseRefs": [{"name": "base"}]});
    assert!(with(json!({"pipeline": 2}), base).is_empty());
}

#[test]
fn a_container_that_was_meant_to_be_main_is_warned_about() {
    let containers = |containers: Value| {
        warned(&json!({"model": {"uri": "hf://a/b"}, "template": {"containers": containers}}))
    };
    let name = ["spec.template.containers[0].name"];
    assert_eq!(containers(json!([{"name": "kserve-container", "image": "vllm/vllm-openai:latest"}])), name);
    let device = json!({"limits": {"nvidia.com/gpu": "1"}});
    assert_eq!(containers(json!([{"name": "vllm", "resources": device}])), name);
    let workers = |container: Value| {
        let parallelism = json!({"data": 4, "dataLocal": 2});
        let worker = json!({"containers": [container]});
        warned(&json!({"model": {"uri": "hf://a/b"}, "parallelism": parallelism, "worker": worker}))
    };
    let name_of_worker = ["spec.worker.containers[0].name"];
    assert_eq!(workers(json!({"name": "vllm", "image": "vllm/vllm-openai:latest"})), name_of_worker);
    assert_eq!(
        workers(json!({"name": "vllm", "image": "x", "command": ["vllm", "serve", "m"]})),
        name_of_worker
    );
    assert!(workers(json!({"name": "main", "image": "vllm/vllm-openai:latest"})).is_empty());
    let picker = |name: &str, image: &str| {
        let template = json!({"containers": [{"name": name, "image": image}]});
        warned(
            &json!({"model": {"uri": "hf://a/b"}, "router": {"route": {}, "scheduler": {"template": template}}}),
        )
    };
    let of_llmd = "ghcr.io/llm-d/llm-d-inference-scheduler:v0.3";
    assert_eq!(picker("epp", of_llmd), ["spec.router.scheduler.template.containers[0].name"]);
    assert!(picker("main", of_llmd).is_empty());
    assert!(picker("logs", "example.com/logs:1").is_empty());
    assert!(containers(json!([{"name": "logs", "image": "example.com/logs:1"}])).is_empty());
    assert!(containers(json!([{"name": "main"}, {"name": "bench", "image": "vllm/bench:1"}])).is_empty());
}

#[test]
fn annotations_are_warned_about_where_nothing_reads_them() {
    const LORA: &str = "serving.kserve.io/lora-model-routing-strategy";
    const SET: &str = "serving.kserve.io/enable-disaggregated-set";
    const ROUTING: &str = "serving.kserve.io/model-based-routing-enabled";
    let said = |metadata: Value, annotations: Value, prefill: Value| {
        let spec = json!({"model": {"uri": "hf://a/b"}, "annotations": annotations, "prefill": {"annotations": prefill}});
        let object = json!({"metadata": {"name": "llm", "annotations": metadata}, "spec": spec});
        warnings(&serde_json::from_value(object).unwrap())
    };
    assert_eq!(
        said(
            json!({LORA: "regex", ROUTING: "true", SET: "false"}),
            json!({SET: "true"}),
            json!({LORA: "regex"})
        ),
        [
            format!("metadata.annotations[{LORA}] has no effect here: it belongs in spec.annotations"),
            format!("metadata.annotations[{ROUTING}] has no effect here: it belongs in spec.annotations"),
            format!("spec.annotations[{SET}] has no effect here: it belongs in metadata.annotations"),
            format!("spec.prefill.annotations[{LORA}] has no effect here: it belongs in spec.annotations"),
        ]
    );
    for value in ["true", "false", "{{ .ObjectMeta.Name }}"] {
        assert_eq!(said(json!({}), json!({ROUTING: value}), json!({})), Vec::<String>::new(), "{value}");
    }
    for value in ["maybe", "True", ""] {
        let expected = format!(
            "spec.annotations[{ROUTING}] is {value:?}, which counts as \"false\": write \"true\" or \"false\""
        );
        assert_eq!(said(json!({}), json!({ROUTING: value}), json!({})), [expected]);
    }
    let config = json!({"metadata": {"name": "c", "annotations": {LORA: "regex", SET: "true"}}, "spec": {}});
    let config: LLMInferenceServiceConfig = serde_json::from_value(config).unwrap();
    assert_eq!(
        config_warnings(&config),
        [
            format!("metadata.annotations[{LORA}] has no effect here: it belongs in spec.annotations"),
            format!(
                "metadata.annotations[{SET}] has no effect here: it belongs in metadata.annotations of the service"
            ),
        ]
    );
}

#[test]
fn a_misspelt_key_of_ours_is_named_with_the_nearest_and_a_foreign_one_is_not() {
    let object = json!({
        "metadata": {"name": "llm", "annotations": {
            "serving.kserve.io/nodegrup": "a",
            "longboat.dev/stop": "true",
            "internal.serving.kserve.io/localmodel-sourceurl": "hf://a/b",
            "serving.kserve.io/deploymentMode": "Standard",
            "serving.kserve.io/config-llm-template": "kserve-config-llm-template",
            "internal.serving.kserve.io/v1alpha2.model.x": "1",
            "example.com/nodegrup": "a",
        }, "labels": {
            "serving.kserve.io/stop": "true",
            "serving.kserve.io/routing-group": "g",
            "team": "a",
        }},
        "spec": {
            "model": {"uri": "hf://a/b"},
            "annotations": {"serving.kserve.io/model-based-routing": "true", "serving.kserve.io/lora-model-routing-stratgy": "exact"},
            "labels": {"serving.kserve.io/lora-model-routing-strategy": "regex"},
            "prefill": {"labels": {"longboat.dev/kv-paring": "true"}},
        },
    });
    let found = warnings(&serde_json::from_value(object).unwrap());
    let nothing = "has no effect, because nothing reads this key: did you mean";
    assert_eq!(
        found,
        [
            format!(
                "metadata.annotations[internal.serving.kserve.io/localmodel-sourceurl] {nothing} \
                 internal.serving.kserve.io/localmodel-sourceuri?"
            ),
            format!("metadata.annotations[longboat.dev/stop] {nothing} serving.kserve.io/stop?"),
            format!("metadata.annotations[serving.kserve.io/nodegrup] {nothing} serving.kserve.io/nodegroup?"),
            format!(
                "spec.annotations[serving.kserve.io/lora-model-routing-stratgy] {nothing} \
                 serving.kserve.io/lora-model-routing-strategy?"
            ),
            "metadata.labels[serving.kserve.io/stop] has no effect: serving.kserve.io/stop is no label but an annotation; \
             move it to metadata.annotations"
                .to_owned(),
            "spec.labels[serving.kserve.io/lora-model-routing-strategy] has no effect: \
             serving.kserve.io/lora-model-routing-strategy is no label but an annotation; move it to spec.annotations"
                .to_owned(),
            "spec.prefill.labels[longboat.dev/kv-paring] has no effect: longboat.dev/kv-pairing is no label but an \
             annotation; move it to metadata.annotations"
                .to_owned(),
        ]
    );
}

#[test]
fn what_the_engine_refuses_is_not_warned_about_too() {
    let spec = |runtime: &str| {
        json!({"model": {"uri": "hf://a/b"}, "runtime": runtime, "worker": {"containers": []},
            "parallelism": {"data": 5, "dataLocal": 2}})
    };
    assert_eq!(warned(&spec("longboat-tensorrt-llm")), Vec::<String>::new());
    assert_eq!(warned(&spec("kserve-llm-sglang")), ["spec.parallelism.data"]);
}
