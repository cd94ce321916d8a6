//! Annotation keys of services and their children.

use std::collections::BTreeMap;

/// `true` (in any case) stops a service.
pub const STOP: &str = "serving.kserve.io/stop";
/// Its presence keeps a service from using model caches.
pub const DISABLE_LOCAL_MODEL: &str = "serving.kserve.io/disable-localmodel";
/// Node group whose model caches a service uses.
pub const NODE_GROUP: &str = "serving.kserve.io/nodegroup";
/// Device class of managed dynamic resource allocation.
pub const DRA_DEVICE_CLASS: &str = "serving.kserve.io/exp-dra-device-class";
/// Number of devices for each pod.
pub const DRA_DEVICE_COUNT: &str = "serving.kserve.io/exp-dra-device-count";
/// CEL expressions that devices satisfy, one on each line.
pub const DRA_CEL_SELECTOR: &str = "serving.kserve.io/exp-dra-cel-selector";
/// Container that gets the devices.
pub const DRA_CONTAINER_NAME: &str = "serving.kserve.io/exp-dra-container-name";
/// On a claim template and on pods: which devices the pods were made for, as a digest. Ours alone.
pub const DRA_DEVICES: &str = "internal.serving.kserve.io/exp-dra-devices";
/// On a child: which optional parts the service has asked for, so that they can be removed when it no longer asks for them.
/// Ours alone.
pub const ASKED_FOR: &str = "internal.serving.kserve.io/asked-for";
/// Marks a workload (in `spec.annotations`) as able to route by model name; `"false"` on a Gateway vetoes it.
pub const MODEL_BASED_ROUTING: &str = "serving.kserve.io/model-based-routing-enabled";
/// Source URI of a cached model.
pub const LOCAL_MODEL_SOURCE_URI: &str = "internal.serving.kserve.io/localmodel-sourceuri";
/// Claim that holds a cached model.
pub const LOCAL_MODEL_PVC_NAME: &str = "internal.serving.kserve.io/localmodel-pvc-name";
/// On a managed HTTPRoute: its gateway takes InferencePools of `inference.networking.k8s.io`. Never taken back.
pub const INFERENCE_POOL_MIGRATED: &str = "serving.kserve.io/inference-pool-migrated";
/// Value of [`INFERENCE_POOL_MIGRATED`].
pub const INFERENCE_POOL_MIGRATED_V1: &str = "v1";
/// When the self-signed certificate is to be replaced (RFC 3339); the platform can name other keys.
pub const CERTIFICATE_EXPIRATION: &str = "certificates.kserve.io/expiration";

/// On a service: whether a request has to prove that it serves; `off`, `report` or `gate`. It overrides the platform's setting.
pub const SERVING_PROOF: &str = "longboat.dev/serving-proof";
/// In the status of a service: what the last proof was about, and when it was.
pub const SERVING_PROOF_RECORD: &str = "longboat.dev/serving-proof-record";

/// On a service whose prefill is apart: whether pods of different revisions are kept apart, `true` or `false`. It overrides the
/// platform's setting.
pub const KV_PAIRING: &str = "longboat.dev/kv-pairing";

/// Prefixes of annotation keys that travel from a service to its workloads.
pub const PROPAGATED_PREFIXES: [&str; 4] =
    ["k8s.v1.cni.cncf.io", "kueue.x-k8s.io", "prometheus.io", "internal.serving.kserve.io/localmodel"];
/// A further prefix that travels to LeaderWorkerSets only.
pub const LEADER_WORKER_SET_PREFIX: &str = "leaderworkerset.sigs.k8s.io";

/// Whether annotations stop a service.
pub fn is_stopped(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.and_then(|a| a.get(STOP)).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}
