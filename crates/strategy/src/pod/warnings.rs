//! Warnings about settings of pods that are valid but may surprise the user.
//!
//! Kubernetes: pkg/api/pod/warnings.go.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::quantity::Quantity;

/// Labels of nodes that have other names now.
const FORMER_NODE_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

/// Returns the warnings about a pod or about the template of pods at `path`, which is empty or ends with a dot.
pub(crate) fn warnings(pod: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for annotation in pod["metadata"]["annotations"].as_object().into_iter().flat_map(|all| all.keys()) {
        if annotation.starts_with("container.apparmor.security.beta.kubernetes.io/") {
            warnings.push(format!(
                "{path}metadata.annotations[{annotation}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
            ));
        }
    }
    let (spec, path) = (&pod["spec"], format!("{path}spec"));
    of_nodes(spec, &path, &mut warnings);
    for (list, key, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        let mut seen = BTreeSet::new();
        for (index, value) in texts(&spec[list], key) {
            if !value.is_empty() && !seen.insert(value) {
                warnings.push(format!("{path}.{list}[{index}].{key}: duplicate {what} \"{value}\""));
            }
        }
    }
    for (index, name) in texts(&spec["imagePullSecrets"], "name") {
        if name.is_empty() {
            warnings.push(format!("{path}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    // In a pod itself, a server has replaced the value.
    let is_template = path != "spec";
    if is_template && spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    of_volumes(&spec["volumes"], &mut warnings);
    of_containers(spec, &path, &mut warnings);
    of_selectors(spec, &path, &mut warnings);
    warnings
}

/// Returns a text of each item of a list.
fn texts<'a>(list: &'a Value, key: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let text = move |item: &'a Value| item[key].as_str().unwrap_or_default();
    list.as_array().into_iter().flatten().map(text).enumerate()
}

fn of_nodes(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for (former, since, now) in FORMER_NODE_LABELS {
        let advice = format!("deprecated since {since}; use \"{now}\" instead");
        if spec["nodeSelector"].get(former).is_some() {
            warnings.push(format!("{path}.nodeSelector[{former}]: {advice}"));
        }
        let mut of_keys = |list: &Value, key: &str, path: String| {
            for (index, _) in texts(list, key).filter(|(_, text)| *text == former) {
                warnings.push(format!("{path}[{index}].{key}: {former} is {advice}"));
            }
        };
        of_keys(
            &spec["topologySpreadConstraints"],
            "topologyKey",
            format!("{path}.topologySpreadConstraints"),
        );
        let (affinity, path) = (&spec["affinity"]["nodeAffinity"], format!("{path}.affinity.nodeAffinity"));
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let terms = affinity[required]["nodeSelectorTerms"].as_array();
        for (index, term) in terms.into_iter().flatten().enumerate() {
            let path = format!("{path}.{required}.nodeSelectorTerms[{index}].matchExpressions");
            of_keys(&term["matchExpressions"], "key", path);
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in affinity[preferred].as_array().into_iter().flatten().enumerate() {
            let path = format!("{path}.{preferred}[{index}].preference.matchExpressions");
            of_keys(&term["preference"]["matchExpressions"], "key", path);
        }
    }
}

fn of_volumes(volumes: &Value, warnings: &mut Vec<String>) {
    for volume in volumes.as_array().into_iter().flatten().filter(|volume| volume["projected"].is_object()) {
        let (name, sources) = (&volume["name"], &volume["projected"]["sources"]);
        let mut files: Vec<(&str, String)> = Vec::new();
        for source in sources.as_array().into_iter().flatten() {
            let own = files_of(source);
            for (path, of) in &own {
                let overlaps = |other: &&(&str, String)| is_within(path, other.0) || is_within(other.0, path);
                if let Some((other, of_other)) = files.iter().find(overlaps) {
                    warnings.push(format!(
                        "volume {name} (Projected): overlapping paths: \"{path}\" ({of}) with \"{other}\" ({of_other})"
                    ));
                }
            }
            files.extend(own);
        }
    }
}

/// Returns the paths of the files of a projected source, each with the source's name.
fn files_of(source: &Value) -> Vec<(&str, String)> {
    let named = |kind: &str, key: &str| format!("{kind} {}", source[key]["name"]);
    let token =
        source["serviceAccountToken"]["path"].as_str().map(|path| (path, "ServiceAccountToken".to_owned()));
    let of_items = [
        ("secret", named("Secret", "secret")),
        ("configMap", named("ConfigMap", "configMap")),
        ("downwardAPI", "DownwardAPI".to_owned()),
    ];
    let items = of_items.into_iter().flat_map(|(key, of)| {
        texts(&source[key]["items"], "path").map(|(_, path)| (path, of.clone())).collect::<Vec<_>>()
    });
    items.chain(token).collect()
}

fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A selector that is absent selects nothing here, and one that is empty selects everything.
fn of_selectors(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    let mut check = |list: &Value, path: String, term: &str| {
        for (index, item) in list.as_array().into_iter().flatten().enumerate() {
            let holder = if term.is_empty() { item } else { &item[term] };
            if holder["labelSelector"].is_null() {
                let dot = if term.is_empty() { "" } else { "." };
                warnings.push(format!(
                    "{path}[{index}]{dot}{term}.labelSelector: a null labelSelector results in matching no pod"
                ));
            }
        }
    };
    check(&spec["topologySpreadConstraints"], format!("{path}.topologySpreadConstraints"), "");
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (list, term) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
        ] {
            check(&spec["affinity"][kind][list], format!("{path}.affinity.{kind}.{list}"), term);
        }
    }
}

fn of_containers(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for list in ["initContainers", "containers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            for kind in ["limits", "requests"] {
                for resource in ["ephemeral-storage", "memory"] {
                    let amount = &container["resources"][kind][resource];
                    if let Some(text) = amount.as_str()
                        && let Some(quantity) = Quantity::parse(text)
                        && quantity.milli() % 1000 != 0
                    {
                        warnings.push(format!(
                            "{path}.{list}[{index}].resources.{kind}[{resource}]: fractional byte value \"{text}\" is \
                             invalid, must be an integer"
                        ));
                    }
                }
            }
            let mut ports: BTreeMap<String, usize> = BTreeMap::new();
            for (at, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
                let id = format!("{} {}", port["containerPort"], port["protocol"]);
                if let Some(first) = ports.get(&id) {
                    warnings.push(format!(
                        "{path}.{list}[{index}].ports[{at}]: duplicate port definition with \
                         {path}.{list}[{index}].ports[{first}]"
                    ));
                }
                ports.entry(id).or_insert(at);
            }
            let mut names = BTreeSet::new();
            for (at, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
                let name = variable["name"].as_str().unwrap_or_default();
                if !names.insert(name) {
                    warnings.push(format!(
                        "{path}.{list}[{index}].env[{at}]: hides previous definition of \"{name}\", which may be \
                         dropped when using apply"
                    ));
                }
            }
        }
    }
}
