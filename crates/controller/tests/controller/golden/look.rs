//! Compares the state of the world with the recordings.

use std::collections::BTreeMap;

use kube::{ResourceExt, api::ListParams};
use longboat_golden::{Case, Difference, Stage, differences, normal_child, normal_status};
use longboat_testkit::TestCluster;
use serde_json::{Value, json};
use x509_parser::{extensions::GeneralName, pem::parse_x509_pem};

use super::{difference, events, run::api};

/// The kinds of children, with their names in the file names of recordings.
const CHILDREN: [(&str, &str, &str); 15] = [
    ("v1", "ConfigMap", "configmap"),
    ("v1", "Secret", "secret"),
    ("v1", "ServiceAccount", "serviceaccount"),
    ("rbac.authorization.k8s.io/v1", "Role", "role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebinding"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplate"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkerset"),
    ("apps/v1", "Deployment", "deployment"),
    ("v1", "Service", "service"),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscaler"),
    ("keda.sh/v1alpha1", "ScaledObject", "scaledobject"),
    ("inference.networking.k8s.io/v1", "InferencePool", "inferencepool"),
    ("inference.networking.x-k8s.io/v1alpha2", "InferencePool", "inferencepool.x-k8s.io"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute", "httproute"),
];

/// Compares children, statuses and certificates after a stage.
pub(super) async fn compare(world: &TestCluster, case: &Case, stage: &Stage, found: &mut Vec<Difference>) {
    let generated = generated_name(world, case).await;
    let as_recorded = |text: &str| match (&generated, recorded_name(stage)) {
        (Some(ours), Some(theirs)) => text.replace(ours.as_str(), &theirs),
        _ => text.to_owned(),
    };
    let ours: BTreeMap<String, Value> = children(world, &case.name)
        .await
        .into_iter()
        .map(|(name, object)| {
            (as_recorded(&name), serde_json::from_str(&as_recorded(&object.to_string())).unwrap())
        })
        .collect();
    // The recorded world had no garbage collection.
    let recorded: BTreeMap<&String, &Value> = stage
        .children
        .iter()
        .map(|(name, recorded)| (name, recorded.get()))
        .filter(|(_, recorded)| is_wanted(stage, recorded))
        .collect();
    let mut names: Vec<&String> = recorded.keys().copied().chain(ours.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let place = format!("{}/{name}", stage.name);
        match (recorded.get(name), ours.get(name)) {
            (Some(recorded), Some(ours)) => {
                let (recorded, ours) = (normal_child((*recorded).clone()), normal_child(ours.clone()));
                differences(&place, &recorded, &ours, found);
            }
            (Some(_), None) => found.push(difference(place, "exists", "does not")),
            (None, _) => found.push(difference(place, "does not exist", "exists")),
        }
    }
    let statuses: BTreeMap<String, Value> = statuses(world, &case.name).await;
    for (suffix, recorded) in &stage.statuses {
        let status = if suffix.is_empty() { statuses.values().next() } else { statuses.get(suffix) };
        let status = serde_json::from_str(&as_recorded(&status.unwrap_or(&Value::Null).to_string())).unwrap();
        let place = format!("{}/status", stage.name);
        differences(&place, &normal_status(recorded.clone()), &normal_status(status), found);
    }
    if stage.statuses.is_empty() && !statuses.is_empty() {
        let names: Vec<_> = statuses.keys().cloned().collect();
        found.push(difference(format!("{}/service", stage.name), "no service", names.join(", ")));
    }
    for (secret, facts) in stage.certificates.as_object().into_iter().flatten() {
        // The certificate of a deleted Secret stays listed.
        if !recorded.contains_key(&format!("secret-{secret}.yaml")) {
            continue;
        }
        let secret = match (&generated, recorded_name(stage)) {
            (Some(ours), Some(theirs)) => secret.replace(&theirs, ours),
            _ => secret.clone(),
        };
        let names = as_recorded(&json!(dns_names(world, &case.name, &secret).await).to_string());
        let names = serde_json::from_str(&names).unwrap();
        differences(&format!("{}/{secret}.dnsNames", stage.name), &facts["dnsNames"], &names, found);
    }
}

/// Whether the owner of a recorded child still exists, or the child has no owner.
fn is_wanted(stage: &Stage, child: &Value) -> bool {
    child["metadata"]["ownerReferences"].as_array().into_iter().flatten().all(|owner| {
        let name = owner["name"].as_str().unwrap_or_default();
        owner["kind"] != "LLMInferenceService"
            || stage.statuses.contains_key("")
            || stage.statuses.contains_key(name)
    })
}

/// Compares the events of a complete case.
pub(super) async fn compare_events(world: &TestCluster, case: &Case, found: &mut Vec<Difference>) {
    let ours = api(world, "v1", "Event", &case.name).list(&ListParams::default()).await.unwrap();
    let generated = generated_name(world, case).await;
    let theirs = case.stages.first().and_then(recorded_name);
    let ours: Vec<Value> = ours
        .items
        .into_iter()
        .map(|event| {
            let text = serde_json::to_string(&event).unwrap();
            let text = match (&generated, &theirs) {
                (Some(ours), Some(theirs)) => text.replace(ours.as_str(), theirs),
                _ => text,
            };
            serde_json::from_str(&text).unwrap()
        })
        .collect();
    let recorded: Vec<&String> = case.stages.iter().flat_map(|stage| &stage.events).collect();
    events::compare(&recorded, &ours, found);
}

/// The name that the API server generated for the only service of a case without a name.
async fn generated_name(world: &TestCluster, case: &Case) -> Option<String> {
    let prefix = case.inputs.iter().find_map(|input| input["metadata"]["generateName"].as_str())?;
    statuses(world, &case.name).await.into_keys().find(|name| name.starts_with(prefix))
}

/// The name that was generated when the case was recorded.
fn recorded_name(stage: &Stage) -> Option<String> {
    let main =
        stage.children.keys().find_map(|file| file.strip_prefix("deployment-")?.strip_suffix("-kserve.yaml"));
    main.map(str::to_owned)
}

async fn children(world: &TestCluster, namespace: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (version, kind, file) in CHILDREN {
        let Ok(all) = api(world, version, kind, namespace).list(&ListParams::default()).await else {
            continue;
        };
        for object in all {
            let name = object.name_any();
            let mut object = serde_json::to_value(object).unwrap();
            if is_child(kind, &object, namespace) {
                (object["apiVersion"], object["kind"]) = (version.into(), kind.into());
                found.insert(format!("{file}-{name}.yaml"), object);
            }
        }
    }
    found
}

/// Whether an object is a child. Inputs have no owner, and not the name of a child without an owner either. A cluster-scoped
/// object is a child if it gives rights to an account in the namespace.
fn is_child(kind: &str, object: &Value, namespace: &str) -> bool {
    if kind == "ClusterRoleBinding" {
        return object["subjects"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|subject| subject["namespace"] == namespace);
    }
    let metadata = &object["metadata"];
    metadata["name"] == "global-ca-bundle"
        || metadata["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty())
}

/// The status of each service.
async fn statuses(world: &TestCluster, namespace: &str) -> BTreeMap<String, Value> {
    let services = api(world, "serving.kserve.io/v1alpha2", "LLMInferenceService", namespace);
    let services = services.list(&ListParams::default()).await.unwrap();
    services.into_iter().map(|service| (service.name_any(), service.data["status"].clone())).collect()
}

/// The names in the certificate of a secret, sorted.
async fn dns_names(world: &TestCluster, namespace: &str, secret: &str) -> Vec<String> {
    let secret = api(world, "v1", "Secret", namespace).get_opt(secret).await.unwrap();
    let Some(secret) = secret else { return Vec::new() };
    let secret: k8s_openapi::api::core::v1::Secret =
        serde_json::from_value(serde_json::to_value(secret).unwrap()).unwrap();
    let Some(certificate) = secret.data.unwrap_or_default().remove("tls.crt") else { return Vec::new() };
    let (_, pem) = parse_x509_pem(&certificate.0).unwrap();
    let certificate = pem.parse_x509().unwrap();
    let names = certificate.subject_alternative_name().unwrap();
    let mut names: Vec<String> = names
        .iter()
        .flat_map(|names| &names.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    names.sort();
    names
}
