//! Longboat takes over a cluster from the reference controller. The cluster has the recorded objects with the reference's owner
//! references and field manager.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::IpAddr,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use longboat_compose::{PresetNames, presets};
use longboat_golden::{Case, Entry, documents, folders, golden};
use longboat_key::Namespace;
use longboat_tls::{CertificateAuthority, LeafRequest};
use serde_json::{Value, json};

use crate::{
    cluster::installer::{Ports, ask, install},
    definitions::install_api,
    server::Server,
    tools,
    wait::until,
};

/// Kinds of children: kind, path before the namespace, and plural.
const CHILDREN: [(&str, &str, &str); 13] = [
    ("ServiceAccount", "api/v1", "serviceaccounts"),
    ("Service", "api/v1", "services"),
    ("Secret", "api/v1", "secrets"),
    ("Deployment", "apis/apps/v1", "deployments"),
    ("LeaderWorkerSet", "apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    ("HorizontalPodAutoscaler", "apis/autoscaling/v2", "horizontalpodautoscalers"),
    ("ScaledObject", "apis/keda.sh/v1alpha1", "scaledobjects"),
    ("Role", "apis/rbac.authorization.k8s.io/v1", "roles"),
    ("RoleBinding", "apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    ("ClusterRoleBinding", "apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    ("HTTPRoute", "apis/gateway.networking.k8s.io/v1", "httproutes"),
    ("InferencePool", "apis/inference.networking.k8s.io/v1", "inferencepools"),
    ("InferencePool", "apis/inference.networking.x-k8s.io/v1alpha2", "inferencepools"),
];
/// Kinds of the other objects of cases.
const OTHERS: [(&str, &str, &str); 5] = [
    ("LLMInferenceService", "apis/serving.kserve.io/v1alpha2", "llminferenceservices"),
    ("LLMInferenceServiceConfig", "apis/serving.kserve.io/v1alpha2", "llminferenceserviceconfigs"),
    ("Gateway", "apis/gateway.networking.k8s.io/v1", "gateways"),
    ("GatewayClass", "apis/gateway.networking.k8s.io/v1", "gatewayclasses"),
    ("ConfigMap", "api/v1", "configmaps"),
];
/// The reference's field manager.
const REFERENCE: &str = "manager";
/// The installation replaces the reference's account, rights, webhooks and CRDs, and keeps its presets and settings.
const FLAGS: [&str; 3] = ["--force-conflicts", "--set=createPresets=false", "--set=platform.create=false"];

/// The key of a child: `NAMESPACE Kind/name`.
type Name = String;

/// Returns the collection path of an object.
fn path(object: &Value, namespace: &str) -> String {
    let (kind, version) = (object["kind"].as_str().unwrap(), object["apiVersion"].as_str().unwrap());
    let served = CHILDREN.iter().chain(&OTHERS).find(|(known, base, _)| {
        *known == kind && base.trim_start_matches("apis/").trim_start_matches("api/") == version
    });
    let (kind, base, plural) = served.unwrap_or_else(|| panic!("{version} {kind} is not served here"));
    if ["ClusterRoleBinding", "GatewayClass"].contains(kind) {
        format!("/{base}/{plural}")
    } else {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(namespace);
        format!("/{base}/namespaces/{namespace}/{plural}")
    }
}

/// Writes a recorded object with its status, as the reference's field manager.
fn load(server: &Server, mut object: Value, namespace: &str) -> Value {
    let path = path(&object, namespace);
    let status = object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
        metadata.remove(key);
    }
    // The recordings have no addresses of Services.
    if object["kind"] == "Service" && object["spec"]["clusterIP"] != "None" {
        let spec = object["spec"].as_object_mut().unwrap();
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    let stored = server.api.post(&format!("{path}?fieldManager={REFERENCE}"), &object).ok();
    if let Some(status) = status {
        let name = stored["metadata"]["name"].as_str().unwrap();
        let change = json!({"status": status});
        server.api.merge(&format!("{path}/{name}/status?fieldManager={REFERENCE}"), &change).ok();
    }
    stored
}

/// Creates CRDs, settings and presets as they were when the cases were recorded.
fn load_platform(server: &Server, recordings: &Entry) {
    for file in recordings.join("crds").entries() {
        for definition in documents(&file) {
            install_api(&server.api, &definition);
        }
    }
    for definition in longboat_api::crd::own() {
        install_api(&server.api, &definition);
    }
    server.api.make_namespace("kserve");
    for file in ["configmap.yaml", "gateway.yaml", "presets-stored.yaml"] {
        for object in documents(&recordings.join("base").join(file)) {
            if object["kind"] != "Namespace" {
                load(server, object, "kserve");
            }
        }
    }
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "kserve-llmisvc-manager-role"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles?fieldManager=old-installer";
    server.api.post(roles, &role).ok();
    let webhooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": "llminferenceservice.serving.kserve.io",
            "annotations": {"cert-manager.io/inject-ca-from": "kserve/llmisvc-serving-cert"},
        },
        "webhooks": [],
    });
    let path =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?fieldManager=old-installer";
    server.api.post(path, &webhooks).ok();
}

/// Creates the objects of a case as the reference left them: the stored service, its children and its status.
fn load_case(server: &Server, folder: &Entry, case: &Case) {
    let namespace = &case.name;
    server.api.make_namespace(namespace);
    let mut has_account = !case.has_default_account;
    for input in case.inputs.iter().filter(|input| input["kind"] != "LLMInferenceService") {
        has_account |= input["kind"] == "ServiceAccount" && input["metadata"]["name"] == "default";
        load(server, input.clone(), namespace);
    }
    if !has_account {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        server.api.post(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).ok();
    }
    let mut service = documents(&folder.join("expected/service.yaml")).remove(0);
    service["status"] = case.stages[0].statuses[""].clone();
    let service = load(server, service, namespace);
    let uid = &service["metadata"]["uid"];
    // Secrets come last: their certificates contain the addresses of Services.
    let mut children: Vec<Value> =
        case.stages[0].children.values().map(|child| child.get().clone()).collect();
    children.sort_by_key(|child| child["kind"] == "Secret");
    for mut child in children {
        for owner in child["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
            owner["uid"] = uid.clone();
        }
        if child["kind"] == "Secret" {
            certify(server, case, &mut child);
        }
        load(server, child, namespace);
    }
}

/// Gives a Secret a new certificate for the recorded names: the recordings have no keys.
fn certify(server: &Server, case: &Case, secret: &mut Value) {
    let facts = &case.stages[0].certificates[secret["metadata"]["name"].as_str().unwrap()];
    let list = |key: &str| -> Vec<String> {
        facts[key].as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let address = |name: &String| -> IpAddr {
        let service = name.strip_prefix("<clusterIP of ").map(|rest| rest.trim_end_matches('>'));
        match service {
            None => name.parse().unwrap(),
            Some(service) => {
                let path = format!("/api/v1/namespaces/{}/services/{service}", case.name);
                server.api.get(&path).ok()["spec"]["clusterIP"].as_str().unwrap().parse().unwrap()
            }
        }
    };
    let authority = CertificateAuthority::new("Kserve Self Signed").unwrap();
    let request = LeafRequest {
        common_name: "Kserve Self Signed".to_owned(),
        dns_names: list("dnsNames"),
        ips: list("ipAddresses").iter().map(address).collect(),
        days: 4380,
        ..LeafRequest::default()
    };
    let pair = authority.issue(&request).unwrap();
    let encode = |text: &str| Value::from(BASE64_STANDARD.encode(text));
    secret["data"] = json!({
        "ca.crt": encode(&pair.certificate_pem),
        "tls.crt": encode(&pair.certificate_pem),
        "tls.key": encode(&pair.key_pem),
    });
    secret["metadata"]["annotations"]["certificates.kserve.io/expiration"] = "2038-01-01T00:00:00Z".into();
}

/// Lists all children in these namespaces.
fn children(server: &Server, namespaces: &BTreeSet<String>) -> BTreeMap<Name, Value> {
    let mut all = BTreeMap::new();
    for (kind, base, plural) in CHILDREN {
        let answer = server.api.get(&format!("/{base}/{plural}"));
        for mut object in answer.ok()["items"].as_array().unwrap().clone() {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap().to_owned();
            // The children of a cluster-scoped kind belong to the namespace of their first subject.
            let namespace = metadata["namespace"].as_str().or(object["subjects"][0]["namespace"].as_str());
            let Some(namespace) = namespace.filter(|found| namespaces.contains(*found)) else { continue };
            let group =
                base.split('/').nth(1).filter(|group| group.contains("x-k8s.io") && kind == "InferencePool");
            let group = group.map(|group| format!(".{group}")).unwrap_or_default();
            let key = format!("{namespace} {kind}{group}/{name}");
            object["metadata"].as_object_mut().unwrap().remove("managedFields");
            all.insert(key, object);
        }
    }
    all
}

/// The changes that `diff` or `upgrade --plan` foretell, by the name of the child.
fn foretold(differences: &Value, list: &str) -> BTreeMap<Name, Value> {
    let mut all = BTreeMap::new();
    for difference in differences.as_array().unwrap() {
        let service = difference["service"].as_str().unwrap();
        let namespace = service.split_once('/').unwrap().0;
        for child in difference[list].as_array().unwrap() {
            all.insert(format!("{namespace} {}", child["object"].as_str().unwrap()), child.clone());
        }
    }
    all
}

/// The children when no controller has changed any for some time.
fn rested(server: &Server, namespaces: &BTreeSet<String>) -> BTreeMap<Name, Value> {
    until("the services rest under the new controller", || {
        let one = children(server, namespaces);
        std::thread::sleep(std::time::Duration::from_secs(8));
        (children(server, namespaces) == one).then_some(one)
    })
}

/// The names of children that differ.
fn changed<'a>(before: &'a BTreeMap<Name, Value>, after: &'a BTreeMap<Name, Value>) -> BTreeSet<&'a Name> {
    let names = before.keys().chain(after.keys());
    names.filter(|name| before.get(*name) != after.get(*name)).collect()
}

/// Writes the presets of this build in place of the recorded ones.
fn replace_presets(server: &Server) {
    let path = "/apis/serving.kserve.io/v1alpha2/namespaces/kserve/llminferenceserviceconfigs";
    for mut preset in presets::documents(&PresetNames::default(), Namespace("kserve")).unwrap() {
        let own = format!("{path}/{}", preset["metadata"]["name"].as_str().unwrap());
        let stored = server.api.get(&own);
        if stored.status == 200 {
            preset["metadata"]["resourceVersion"] = stored.ok()["metadata"]["resourceVersion"].clone();
            server.api.put(&own, &preset).ok();
        } else {
            server.api.post(path, &preset).ok();
        }
    }
}

/// Replaces the presets under the running controller. Only pods that `upgrade --plan` named roll, and only children change of which
/// it told.
fn upgrading_presets_rolls_what_the_plan_named(
    server: &Server,
    ports: Ports,
    namespaces: &BTreeSet<String>,
    before: &BTreeMap<Name, Value>,
) {
    let plan = ask(server, "upgrade", ports, &["--plan", "--output=json"]);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap_or_else(|_| panic!("{plan:#?}"));
    replace_presets(server);
    let after = until("the new presets reach the services", || {
        let after = rested(server, namespaces);
        (!changed(before, &after).is_empty()).then_some(after)
    });
    let (told, rolls) = (foretold(&plan["services"], "children"), foretold(&plan["services"], "rolls"));
    let differ = changed(before, &after);
    let rolled: BTreeSet<&Name> = differ
        .iter()
        .copied()
        .filter(|name| {
            ["/spec/template", "/spec/leaderWorkerTemplate"].iter().any(|pods| {
                let of = |all: &BTreeMap<Name, Value>| {
                    all.get(*name).and_then(|child| child.pointer(pods).cloned())
                };
                of(before) != of(&after)
            })
        })
        .collect();
    assert_eq!(
        rolled,
        rolls.keys().collect::<BTreeSet<_>>(),
        "pods that roll, and those that the plan named"
    );
    assert_eq!(differ, told.keys().collect::<BTreeSet<_>>(), "what the plan said and what happened");
    assert!(plan["unchanged"].is_u64() && !rolled.is_empty(), "{plan:#}");
}

#[test]
fn taking_over_writes_what_diff_said_before_and_no_child_without_a_reason() {
    let recordings = golden();
    if tools::kubectl().is_none() {
        return;
    }
    let Some(server) = Server::start() else { return };
    let ports = Ports::free();
    load_platform(&server, &recordings);
    let mut namespaces = BTreeSet::new();
    let mut services = Vec::new();
    for folder in folders(&recordings) {
        let case = Case::read(&folder);
        let fits = case.server.is_none()
            && case.variant.is_none()
            && folder.join("expected/service.yaml").exists()
            && folder.join("expected/children").exists()
            && case.inputs.iter().all(|input| {
                input["metadata"]["namespace"].as_str().is_none_or(|namespace| namespace == case.name)
                    && input["kind"] != "PersistentVolumeClaim"
            });
        let wanted = ["topo-", "scale-", "router-", "lora-"];
        if fits && wanted.iter().any(|prefix| case.name.starts_with(prefix)) {
            load_case(&server, &folder, &case);
            services.push(case.name.clone());
            namespaces.insert(case.name);
        }
    }
    assert!(services.len() > 30, "{services:?}");
    let before = children(&server, &namespaces);

    let list = server.api.get("/apis/serving.kserve.io/v1alpha2/llminferenceservices").ok();
    let file = server.folder.join("services.json");
    fs::write(&file, list.to_string()).unwrap();
    let said = ask(&server, "diff", ports, &["--output=json", file.to_str().unwrap()]);
    let said: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:#?}"));
    let foretold = foretold(&said, "children");

    let (installed, _controller) = install(&server, ports, &FLAGS);
    assert!(installed.status.success(), "{installed:#?}");
    let after = rested(&server, &namespaces);
    let changed = changed(&before, &after);
    assert_eq!(changed, foretold.keys().collect::<BTreeSet<_>>(), "what `diff` said and what happened");
    let unexplained: Vec<String> = changed
        .into_iter()
        .filter_map(|name| {
            let (old, new) = (before.get(name), after.get(name));
            if reason(name, old, new).is_some() {
                return None;
            }
            let (old, new) = (old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null));
            Some(format!("{name}: {}", json_patch::diff(old, new)))
        })
        .collect();
    assert!(unexplained.is_empty(), "changed without a reason: {unexplained:#?}");
    // Most children do not change.
    assert!(
        before.len() > 500 && foretold.len() < before.len() / 20,
        "{} of {}",
        foretold.len(),
        before.len()
    );
    upgrading_presets_rolls_what_the_plan_named(&server, ports, &namespaces, &after);
}

/// Returns what explains the change of a child.
fn reason(name: &Name, old: Option<&Value>, new: Option<&Value>) -> Option<&'static str> {
    match (old, new) {
        // The account of single-node workloads, next to a service that has only multi-node workloads.
        (Some(old), None) => {
            let is_right = ["ServiceAccount", "Role", "RoleBinding"]
                .iter()
                .any(|kind| name.contains(&format!(" {kind}/")));
            let component = &old["metadata"]["labels"]["app.kubernetes.io/component"];
            (is_right && component != "llminferenceservice-router-scheduler")
                .then_some("compatibility.yaml#account-per-topology")
        }
        // The reference creates no router if the settings lack what autoscaling needs.
        (None, Some(_)) => {
            name.starts_with("scale-wva-keda-no-config ").then_some("compatibility.yaml#keda-missing")
        }
        (Some(old), Some(new)) => {
            let mut old = old.clone();
            old["metadata"]["resourceVersion"] = new["metadata"]["resourceVersion"].clone();
            old["metadata"]["annotations"][ASKED_FOR] = new["metadata"]["annotations"][ASKED_FOR].clone();
            let rules = new["spec"]["rules"].as_array().into_iter().flatten();
            for (at, rule) in rules.enumerate() {
                if old["spec"]["rules"][at].is_object() && old["spec"]["rules"][at]["backendRefs"].is_null() {
                    old["spec"]["rules"][at]["backendRefs"] = rule["backendRefs"].clone();
                }
            }
            (name.contains(" HTTPRoute/") && old == *new)
                .then_some("compatibility.yaml#dropped-hosts, compatibility.yaml#route-no-backends")
        }
        (None, None) => None,
    }
}

/// An annotation that Longboat adds to routes.
const ASKED_FOR: &str = "internal.serving.kserve.io/asked-for";
