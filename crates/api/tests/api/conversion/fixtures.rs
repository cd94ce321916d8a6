//! Conversions of every field that differs between the versions, with `{}` and missing fields distinguished; of criticality;
//! and of inline pools.

use longboat_api::conversion::{Version, convert};
use serde_json::{Value, json};

use super::{down, up};

#[expect(clippy::needless_pass_by_value, reason = "specs are written where they are used")]
fn service(version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("serving.kserve.io/{version}"), "kind": "LLMInferenceService",
        "metadata": {"name": "llm", "namespace": "ns"}, "spec": spec,
    })
}

/// Specs that are the same in both versions.
fn same() -> Vec<Value> {
    let workload = json!({
        "replicas": 2, "labels": {"a": "b"}, "annotations": {}, "template": {"containers": []},
        "worker": {"containers": [{"name": "main"}]},
        "parallelism": {"tensor": 1, "pipeline": 2, "data": 3, "dataLocal": 4, "dataRPCPort": 5, "expert": false},
        "rolloutStrategy": {"maxUnavailable": "25%", "maxSurge": 0},
    });
    let scaling = json!({"scaling": {
        "minReplicas": 1, "maxReplicas": 2,
        "wva": {"variantCost": "10.0", "hpa": {"behavior": {}}, "keda": {"advanced": {"scalingModifiers": {}}}},
        "keda": {"pollingInterval": 1, "fallback": {"failureThreshold": 1, "replicas": 2, "behavior": "static"},
            "triggers": [{"type": "cpu", "metadata": {"value": "50"}, "authenticationRef": {"name": "a"}}]},
    }});
    let of_scheduler = |scheduler: Value| json!({"router": {"scheduler": scheduler}});
    vec![
        json!({}),
        json!({"model": {"uri": "hf://Org/Model with space", "name": "m"}}),
        json!({"model": {"uri": "", "lora": {"adapters": [], "maxRank": 1, "maxAdapters": 2, "maxCpuAdapters": 3}}}),
        json!({"model": {"uri": "", "lora": {}}}),
        json!({"model": {"uri": "", "lora": {"adapters": [{"name": "a", "uri": "hf://a", "confidential": {"enabled": true},
            "lora": {"adapters": [{"name": "b", "criticality": "Critical", "x": null}]}}]}}}),
        json!({"storageInitializer": {}}),
        json!({"storageInitializer": {"enabled": false}}),
        workload.clone(),
        json!({ "prefill": workload }),
        scaling.clone(),
        json!({ "prefill": scaling }),
        json!({"prefill": {}}),
        json!({"tracing": {}}),
        json!({"tracing": {"exporterEndpoint": "", "sampler": "s", "samplerArg": "1", "exporter": "otlp"}}),
        json!({"baseRefs": []}),
        json!({"baseRefs": [{"name": "a"}, {"name": ""}]}),
        json!({"router": {}}),
        json!({"router": {"route": {}, "gateway": {}, "ingress": {}, "scheduler": {}}}),
        json!({"router": {"route": {"http": {"refs": [{"name": "r"}], "spec": {"rules": []}}, "group": "g", "weight": 0}}}),
        json!({"router": {"gateway": {"refs": [{"name": "g", "namespace": "n", "sectionName": "s"}]}}}),
        json!({"router": {"gateway": {"refs": []}, "ingress": {"refs": [{"name": "i", "namespace": "n"}]}}}),
        of_scheduler(json!({"labels": {}, "annotations": {"a": "b"}, "template": {}, "replicas": 0})),
        of_scheduler(json!({"config": {"inline": {"kind": "X", "n": null}}})),
        of_scheduler(json!({"config": {"ref": {"name": "", "key": "k", "optional": true}}})),
        of_scheduler(json!({"tokenizer": {}})),
        of_scheduler(json!({"tokenizer": {"template": {"containers": []}}})),
        of_scheduler(json!({"pool": {}})),
        of_scheduler(json!({"pool": {"ref": {"name": "p"}}})),
        of_scheduler(json!({"pool": {"spec": {}}})),
    ]
}

#[test]
fn what_both_versions_have_is_carried_over_unchanged() {
    for spec in same() {
        let (older, newer) = (service("v1alpha1", spec.clone()), service("v1alpha2", spec));
        assert_eq!(up(&older), newer);
        assert_eq!(down(&newer), older);
    }
}

#[test]
fn the_status_that_both_versions_have_is_carried_over_unchanged() {
    let status = json!({
        "url": "http://a", "observedGeneration": 3, "annotations": {"a": "b"}, "address": {"url": "http://a"},
        "conditions": [{"type": "Ready", "status": "True", "severity": "Info"}],
        "addresses": [{"name": "n", "url": "http://a", "CACerts": "c", "audience": "d"}, {}],
    });
    for status in [status, json!({}), json!({"addresses": []}), json!({"annotations": {}})] {
        let with = |version: &str| {
            let mut object = service(version, json!({}));
            object["status"] = status.clone();
            object
        };
        assert_eq!(up(&with("v1alpha1")), with("v1alpha2"));
        assert_eq!(down(&with("v1alpha2")), with("v1alpha1"));
    }
}

#[test]
fn what_only_v1alpha2_has_is_kept_in_annotations() {
    let mut object = service(
        "v1alpha2",
        json!({
            "kvCacheOffloading": {"cpu": 5}, "prefill": {"kvCacheOffloading": {"cpu": "1Gi"}},
            "model": {"uri": "hf://a/b", "confidential": {"enabled": true}},
        }),
    );
    object["status"] = json!({
        "addresses": [{"url": "http://a"}, {"url": "http://b", "models": [{"name": "m"}]}],
        "workloads": {"primary": {"kind": "Deployment", "name": "d"}},
    });
    let older = down(&object);
    assert_eq!(older["spec"], json!({"prefill": {}, "model": {"uri": "hf://a/b"}}));
    assert_eq!(
        older["metadata"]["annotations"],
        json!({
            "internal.serving.kserve.io/v1alpha2.kvCacheOffloading.cpu": "5",
            "internal.serving.kserve.io/v1alpha2.prefill.kvCacheOffloading.cpu": "\"1Gi\"",
            "internal.serving.kserve.io/v1alpha2.model.confidential.enabled": "true",
        })
    );
    let text = older["status"]["annotations"]["internal.serving.kserve.io/v1alpha2.status"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(text).unwrap(),
        json!({
            "addresses": [{"url": "http://a"}, {"url": "http://b", "models": [{"name": "m"}]}],
            "workloads": {"primary": {"kind": "Deployment", "name": "d"}},
        })
    );
    assert_eq!(older["status"]["addresses"], json!([{"url": "http://a"}, {"url": "http://b"}]));
    assert_eq!(up(&older), object);
}

#[test]
fn an_empty_map_is_kept_as_one() {
    let object =
        service("v1alpha2", json!({"kvCacheOffloading": {}, "model": {"confidential": {"other": 1}}}));
    let older = down(&object);
    assert_eq!(
        older["metadata"]["annotations"],
        json!({
            "internal.serving.kserve.io/v1alpha2.kvCacheOffloading": "{}",
            "internal.serving.kserve.io/v1alpha2.model.confidential": "{\"other\":1}",
        })
    );
    assert_eq!(up(&older), object);
}

#[test]
fn criticality_becomes_annotations_and_back() {
    let mut older = service(
        "v1alpha1",
        json!({"model": {"criticality": "Critical", "lora": {"adapters": [
            {"name": "a", "criticality": "Standard"}, {"name": "b"}, {"name": "c", "criticality": "She<d"},
        ]}}}),
    );
    let newer = up(&older);
    assert_eq!(
        newer["metadata"]["annotations"],
        json!({
            "internal.serving.kserve.io/model-criticality": "Critical",
            "internal.serving.kserve.io/lora-criticalities": "{\"0\":\"Standard\",\"2\":\"She\\u003cd\"}",
        })
    );
    assert_eq!(
        newer["spec"],
        json!({"model": {"lora": {"adapters": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}}})
    );
    assert_eq!(down(&newer), older);
    // An annotation stays unchanged if no field has its value.
    let annotations = json!({
        "internal.serving.kserve.io/model-criticality": "Critical",
        "internal.serving.kserve.io/lora-criticalities": "{}",
    });
    older = service("v1alpha1", json!({"model": {"uri": ""}}));
    older["metadata"]["annotations"] = annotations.clone();
    assert_eq!(up(&older)["metadata"]["annotations"], annotations);
}

#[test]
fn annotations_of_criticality_that_cannot_be_read_go() {
    let mut newer = service("v1alpha2", json!({"model": {"uri": ""}}));
    let lora = "internal.serving.kserve.io/lora-criticalities";
    let own = "internal.serving.kserve.io/model-criticality";
    for text in ["not json", "{\"0\":\"Standard\"}", "[1]", "{\"0\":5}"] {
        newer["metadata"]["annotations"] = json!({lora: text, "a": "b"});
        assert_eq!(down(&newer)["metadata"]["annotations"], json!({"a": "b"}), "{text}");
        newer["metadata"]["annotations"] = json!({lora: text});
        assert_eq!(down(&newer)["metadata"].get("annotations"), None, "{text}");
    }
    // Empty annotations stay.
    newer["metadata"]["annotations"] = json!({lora: "", own: ""});
    assert_eq!(down(&newer)["metadata"]["annotations"], json!({lora: "", own: ""}));
    assert_eq!(down(&newer)["spec"], json!({"model": {"uri": ""}}));
}

#[test]
fn pools_change_their_shape() {
    let of = |version: &str, pool: Value| {
        service(version, json!({"router": {"scheduler": {"pool": {"spec": pool}}}}))
    };
    let pool_of = |object: &Value| object["spec"]["router"]["scheduler"]["pool"]["spec"].clone();
    for (older, newer) in [
        (
            json!({"selector": {"a": "b"}, "targetPortNumber": 8080, "extensionRef": {"name": "e"}}),
            json!({
                "selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 8080}], "appProtocol": "http",
                "endpointPickerRef": {"name": "e", "kind": "Service", "failureMode": "FailClose", "port": {"number": 9002}},
            }),
        ),
        (
            json!({"selector": {}, "extensionRef": {"name": "e", "group": "", "kind": "Custom", "failureMode": "FailOpen"}}),
            json!({
                "selector": {"matchLabels": {}}, "appProtocol": "http",
                "endpointPickerRef": {"name": "e", "group": "", "kind": "Custom", "failureMode": "FailOpen"},
            }),
        ),
        (
            json!({"targetPortNumber": 1, "extensionRef": {"name": "e", "kind": "", "portNumber": 0}}),
            json!({
                "targetPorts": [{"number": 1}], "appProtocol": "http",
                "endpointPickerRef": {"name": "e", "kind": "", "failureMode": "FailClose", "port": {"number": 9002}},
            }),
        ),
        (
            json!({"targetPortNumber": 1, "extensionRef": {"name": "e", "portNumber": 7}}),
            json!({
                "targetPorts": [{"number": 1}], "appProtocol": "http",
                "endpointPickerRef": {"name": "e", "kind": "Service", "failureMode": "FailClose", "port": {"number": 7}},
            }),
        ),
    ] {
        assert_eq!(pool_of(&up(&of("v1alpha1", older))), newer);
        assert_eq!(pool_of(&up(&down(&of("v1alpha2", newer.clone())))), newer);
    }
    let rich = of(
        "v1alpha2",
        json!({
            "selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 1}, {"number": 2}],
            "appProtocol": "kubernetes.io/h2c",
            "endpointPickerRef": {"name": "e", "kind": "Service", "failureMode": "FailOpen", "port": {"number": 5}},
        }),
    );
    assert_eq!(
        pool_of(&down(&rich)),
        json!({
            "selector": {"a": "b"}, "targetPortNumber": 1,
            "extensionRef": {"name": "e", "kind": "Service", "failureMode": "FailOpen", "portNumber": 5},
        })
    );
    assert_eq!(up(&down(&rich)), rich);
}

#[test]
fn what_cannot_be_converted_is_refused_by_name() {
    let refused = |object: Value, version| convert(&mut { object }, version).unwrap_err().to_string();
    assert_eq!(
        refused(service("v1alpha1", json!({})), Version::V1Alpha1),
        "LLMInferenceService ns/llm: apiVersion is serving.kserve.io/v1alpha1 already"
    );
    assert_eq!(
        refused(service("v2", json!({})), Version::V1Alpha1),
        "LLMInferenceService ns/llm: apiVersion `serving.kserve.io/v2` is not known; it must be \
         serving.kserve.io/v1alpha1 or serving.kserve.io/v1alpha2"
    );
    let mut other = service("v1alpha1", json!({}));
    other["kind"] = "InferenceService".into();
    assert_eq!(
        refused(other, Version::V1Alpha2),
        "InferenceService ns/llm: kind `InferenceService` is not known; it must be LLMInferenceService or \
         LLMInferenceServiceConfig"
    );
    let mut misshapen = service("v1alpha2", json!({"kvCacheOffloading": {"cpu": 1}}));
    misshapen["metadata"]["annotations"] = json!([]);
    assert_eq!(
        refused(misshapen, Version::V1Alpha1),
        "LLMInferenceService ns/llm: metadata.annotations must be a map"
    );
    assert_eq!(
        refused(json!(5), Version::V1Alpha1),
        "object without a name: apiVersion `` is not known; it must be serving.kserve.io/v1alpha1 or \
         serving.kserve.io/v1alpha2"
    );
}
