//! Checks whether our kinds are served, and whether other kinds are served in the versions that we use.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::{
    facts::Facts,
    finding::{Cause, Finding},
    reinstall,
};

/// Our own kinds.
pub(crate) const OURS: [&str; 2] =
    ["llminferenceservices.serving.kserve.io", "llminferenceserviceconfigs.serving.kserve.io"];
const STORED: &str = "v1alpha2";

/// Kinds that clusters may lack, with the version that we use. If one is missing, the service that needs it has a finding.
pub(crate) const FOREIGN: [(&str, &str); 7] = [
    ("gatewayclasses.gateway.networking.k8s.io", "v1"),
    ("gateways.gateway.networking.k8s.io", "v1"),
    ("httproutes.gateway.networking.k8s.io", "v1"),
    ("inferencepools.inference.networking.k8s.io", "v1"),
    ("inferencepools.inference.networking.x-k8s.io", "v1alpha2"),
    ("leaderworkersets.leaderworkerset.x-k8s.io", "v1"),
    ("scaledobjects.keda.sh", "v1alpha1"),
];

/// All definitions that are checked.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OURS.into_iter().chain(FOREIGN.into_iter().map(|(name, _)| name))
}

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let install = reinstall::command(facts, "");
    for name in OURS.into_iter().filter(|name| !facts.unseen_definitions.contains(*name)) {
        let object = format!("CustomResourceDefinition {name}");
        let Some(definition) = facts.definitions.get(name) else {
            findings.push(
                Cause::new("DefinitionMissing", "the API server does not serve this kind", &install)
                    .broken(object),
            );
            continue;
        };
        if let Some(message) = not_established(definition) {
            let fix = format!(
                "delete the other definition with these names (`kubectl get crds`), then {install}; `kubectl describe crd {name}` \
                 shows whether the names are accepted"
            );
            findings.push(Cause::new("DefinitionNotEstablished", message, fix).broken(&object));
        }
        if !serves(definition, STORED) {
            let cause = format!("the API server does not serve version {STORED}, which the controller reads");
            findings.push(Cause::new("VersionMissing", cause, &install).broken(&object));
        }
        let stored = definition.status.iter().flat_map(|status| status.stored_versions.iter().flatten());
        for old in stored.filter(|version| *version != STORED) {
            let cause = format!("objects may be stored as {old}, so this version cannot be removed");
            let fix = format!(
                "write each object once (`kubectl get {name} -A -o name` and an empty patch), then remove \
                 {old} from status.storedVersions"
            );
            findings.push(Cause::new("OldVersionStored", cause, fix).warning_about(&object));
        }
    }
    for (name, version) in FOREIGN {
        let found = facts.definitions.get(name);
        if let Some(definition) = found.filter(|definition| !serves(definition, version)) {
            let served: Vec<&str> = versions(definition).collect();
            let cause =
                format!("the API server serves only {}, but Longboat needs {version}", served.join(", "));
            let fix = format!("install a release of this API that serves {version}");
            let object = format!("CustomResourceDefinition {name}");
            findings.push(Cause::new("VersionMissing", cause, fix).warning_about(object));
        }
    }
}

fn not_established(definition: &CustomResourceDefinition) -> Option<String> {
    let conditions = definition.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == "Established")?;
    let why = || found.message.clone().or_else(|| found.reason.clone()).unwrap_or_default();
    (found.status != "True").then(|| format!("the CustomResourceDefinition is not established: {}", why()))
}

fn versions(definition: &CustomResourceDefinition) -> impl Iterator<Item = &str> {
    definition.spec.versions.iter().filter(|version| version.served).map(|version| version.name.as_str())
}

fn serves(definition: &CustomResourceDefinition, version: &str) -> bool {
    versions(definition).any(|served| served == version)
}
