//! Volumes for one node, of which a service has pods on several.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodSpec};
use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_download::address::Scheme;
use longboat_key::{Key, Name, Namespace};
use longboat_plan::Plan;
use serde::Deserialize;

use crate::{finding::Advice, stored::StoredManifest};

const ONE_NODE: &str = "ReadWriteOnce";
const ONE_POD: &str = "ReadWriteOncePod";

/// The claims in the manifests whose volumes only one node, or only one pod, can mount: their access mode.
#[derive(Default)]
pub(super) struct SingleNodeClaims(BTreeMap<Key, &'static str>);

// === impl SingleNodeClaims ===

impl SingleNodeClaims {
    pub(super) fn among(sound: &[StoredManifest]) -> Self {
        let claims =
            sound.iter().filter(|one| one.document.kind() == "PersistentVolumeClaim").filter_map(|one| {
                let claim = PersistentVolumeClaim::deserialize(&one.object).ok()?;
                let modes = claim.spec?.access_modes?;
                // A volume has all modes of its claim, so one mode for several nodes is enough.
                let mode = match modes.as_slice() {
                    [mode] if mode == ONE_NODE => ONE_NODE,
                    [mode] if mode == ONE_POD => ONE_POD,
                    _ => return None,
                };
                Some((one.key(), mode))
            });
        Self(claims.collect())
    }

    /// Returns a warning for each of these claims that several pods of a planned service mount.
    pub(super) fn of_service(
        &self,
        namespace: Namespace<&str>,
        spec: &LLMInferenceServiceSpec,
        plan: &Plan,
    ) -> Vec<Advice> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut users: BTreeMap<&str, i32> = BTreeMap::new();
        for (pod, replicas) in pods(plan, spec) {
            let claims =
                pod.volumes.iter().flatten().filter_map(|volume| volume.persistent_volume_claim.as_ref());
            for claim in claims {
                let count = users.entry(&claim.claim_name).or_default();
                *count = count.saturating_add(replicas);
            }
        }
        let several = users.into_iter().filter(|(_, pods)| *pods > 1);
        let all = several.filter_map(|(claim, pods)| {
            let mode = self.0.get(&Key::new(namespace, Name(claim)))?;
            Some(warning(spec, claim, mode, pods))
        });
        all.collect()
    }
}

fn warning(spec: &LLMInferenceServiceSpec, claim: &str, mode: &str, pods: i32) -> Advice {
    let address = spec.model.uri.address();
    let is_model = address.scheme() == Scheme::Claim && address.host() == claim;
    let (who, rest) = if mode == ONE_POD {
        ("one pod only mounts it", "the others")
    } else {
        ("only pods on one node mount it", "those on other nodes")
    };
    Advice::warning(
        if is_model { "spec.model.uri" } else { "spec" }.to_owned(),
        "ClaimOfOneNode",
        format!(
            "mounts PersistentVolumeClaim {claim}, which is {mode}, so {who}, and the service has up to {pods} pods with it: {rest} \
             do not start"
        ),
        "use a volume that is ReadOnlyMany or ReadWriteMany, or one pod",
    )
}

/// The pods of the model servers, with how many there are at most.
fn pods<'a>(plan: &'a Plan, spec: &LLMInferenceServiceSpec) -> impl Iterator<Item = (&'a PodSpec, i32)> {
    // An autoscaler may raise the number of pods up to its maximum.
    let scaled = spec.workloads().filter_map(|(_, half)| Some(half.scaling.as_ref()?.max_replicas)).max();
    let most = move |replicas: Option<i32>| replicas.unwrap_or(1).max(scaled.unwrap_or(0));
    let children = &plan.children;
    let deployments = children.deployments.iter().filter_map(move |deployment| {
        let spec = deployment.spec.as_ref()?;
        Some((&spec.template, most(spec.replicas)))
    });
    let groups = children.leader_worker_sets.iter().flat_map(move |set| {
        let group = &set.spec.leader_worker_template;
        let (replicas, size) = (most(set.spec.replicas), group.size.unwrap_or(1));
        // The size of a group counts its leader.
        let workers = if group.leader_template.is_some() { size - 1 } else { size };
        let leader = group.leader_template.iter().map(move |template| (template, replicas));
        leader.chain([(&group.worker_template, replicas.saturating_mul(workers))])
    });
    deployments.chain(groups).filter_map(|(template, count)| Some((template.spec.as_ref()?, count)))
}
