//! The pods of presets comply with the standard "restricted" of Pod Security, except for what an engine needs.

use longboat_key::Namespace;
use serde_json::Value;

use crate::{Layer, PresetNames, advice::PODS, presets};

/// What a container may do although the standard forbids it: preset, container, rule, reason.
const EXCEPTIONS: [(&str, &str, &str, &str); 7] = [
    ("-worker-data-parallel", "main", CAPABILITIES, "RDMA pins memory and opens raw queue pairs"),
    ("config-llm-tokenizer", "main", NON_ROOT, "the engine's CPU image runs as root"),
    ("config-sglang-", "main", NON_ROOT, "SGLang's images run as root"),
    ("config-tensorrt-llm-template", "main", NON_ROOT, "TensorRT-LLM's images run as root"),
    ("config-llama-cpp-template", "main", NON_ROOT, "llama.cpp's images run as root"),
    // These presets only patch a container of another preset.
    ("config-sglang-sidecar", "main", "", "the server is that of config-sglang-template"),
    ("config-llm-scheduler-latency-predictor", "main", "", "the picker is the scheduler preset's"),
];

const CAPABILITIES: &str = "capabilities.add must be NET_BIND_SERVICE at most";
const NON_ROOT: &str = "runAsNonRoot must be true";

/// Volumes that the standard allows.
const VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The rules that a container violates.
fn broken(container: &Value) -> Vec<&'static str> {
    let context = &container["securityContext"];
    let mut broken = Vec::new();
    let mut rule = |holds: bool, rule: &'static str| {
        if !holds {
            broken.push(rule);
        }
    };
    rule(context["allowPrivilegeEscalation"] == false, "allowPrivilegeEscalation must be false");
    rule(context["privileged"] != true, "privileged must not be set");
    rule(context["runAsNonRoot"] == true, NON_ROOT);
    rule(context["runAsUser"] != 0, "runAsUser must not be 0");
    let dropped =
        context["capabilities"]["drop"].as_array().is_some_and(|all| all.iter().any(|c| c == "ALL"));
    rule(dropped, "capabilities.drop must have ALL");
    let added = context["capabilities"]["add"]
        .as_array()
        .is_none_or(|all| all.iter().all(|c| c == "NET_BIND_SERVICE"));
    rule(added, CAPABILITIES);
    let profile = &context["seccompProfile"]["type"];
    rule(
        profile == "RuntimeDefault" || profile == "Localhost",
        "seccompProfile must be RuntimeDefault or Localhost",
    );
    let ports = container["ports"].as_array().into_iter().flatten();
    rule(ports.clone().all(|port| port["hostPort"].is_null()), "ports must not be those of the host");
    broken
}

fn excepted(preset: &str, container: &str, rule: &str) -> bool {
    EXCEPTIONS.iter().any(|(of, name, what, _)| {
        preset.contains(of) && container == *name && (what.is_empty() || *what == rule)
    })
}

#[test]
fn pods_of_the_presets_are_restricted_but_for_what_the_engine_needs() {
    let mut containers = 0;
    for preset in presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap() {
        let layer = Layer::new(&preset).unwrap();
        for at in PODS {
            let Some(pod) = layer.spec().pointer(at) else { continue };
            let place = format!("{}{at}", layer.name());
            for field in ["hostNetwork", "hostPID", "hostIPC"] {
                assert!(pod[field] != true, "{place} shares the host's {field}");
            }
            for volume in pod["volumes"].as_array().into_iter().flatten() {
                let kinds: Vec<&String> =
                    volume.as_object().unwrap().keys().filter(|key| *key != "name").collect();
                assert!(kinds.iter().all(|kind| VOLUMES.contains(&kind.as_str())), "{place}: {volume}");
            }
            for list in ["initContainers", "containers"] {
                for container in pod[list].as_array().into_iter().flatten() {
                    containers += 1;
                    let name = container["name"].as_str().unwrap();
                    let broken: Vec<&str> = broken(container)
                        .into_iter()
                        .filter(|rule| !excepted(&layer.name(), name, rule))
                        .collect();
                    assert!(broken.is_empty(), "{place}, container {name}: {broken:?}");
                }
            }
        }
    }
    assert_eq!(containers, 24, "every container was looked at");
}
