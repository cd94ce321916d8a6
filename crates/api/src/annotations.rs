//! Annotation keys of services and their children.

use std::collections::BTreeMap;

pub use longboat_types::LAST_APPLIED;

use crate::conversion;

/// `true`, in any letter case, stops the service.
pub const STOP: &str = "serving.kserve.io/stop";
/// On a service: Secret with the credentials of the download. The setting `credentials.storageSecretNameAnnotation` can name
/// another key.
pub const STORAGE_SECRET_NAME: &str = "serving.kserve.io/storageSecretName";
/// If present, with any value, the service uses no model caches.
pub const DISABLE_LOCAL_MODEL: &str = "serving.kserve.io/disable-localmodel";
/// Node group whose model caches the service uses.
pub const NODE_GROUP: &str = "serving.kserve.io/nodegroup";
/// DeviceClass for dynamic resource allocation (DRA) that the controller manages.
pub const DRA_DEVICE_CLASS: &str = "serving.kserve.io/exp-dra-device-class";
/// Number of DRA devices for each pod.
pub const DRA_DEVICE_COUNT: &str = "serving.kserve.io/exp-dra-device-count";
/// CEL expressions that the DRA devices must satisfy, one per line.
pub const DRA_CEL_SELECTOR: &str = "serving.kserve.io/exp-dra-cel-selector";
/// Container that gets the DRA devices.
pub const DRA_CONTAINER_NAME: &str = "serving.kserve.io/exp-dra-container-name";
/// On claim templates and pods: a hash of the devices that the pods were created for. KServe does not have it.
pub const DRA_DEVICES: &str = "internal.serving.kserve.io/exp-dra-devices";
/// On child objects: the optional parts that the service asks for. The controller removes a part when the service no longer
/// asks for it. KServe does not have it.
pub const ASKED_FOR: &str = "internal.serving.kserve.io/asked-for";
/// `true` asks KServe to run prefill and decode as one DisaggregatedSet. It has no effect: Longboat creates none.
pub const ENABLE_DISAGGREGATED_SET: &str = "serving.kserve.io/enable-disaggregated-set";
/// In `spec.annotations`: `"true"` lets routes match the model header for this service. On a Gateway: `"false"` turns this
/// off for services that name the Gateway, unless the platform forces it.
pub const MODEL_BASED_ROUTING: &str = "serving.kserve.io/model-based-routing-enabled";
/// In `spec.annotations`: how the managed route matches the names of LoRA adapters, `exact` or `regex`. Overrides the setting
/// of the platform.
pub const LORA_MODEL_ROUTING_STRATEGY: &str = "serving.kserve.io/lora-model-routing-strategy";
/// Keys of `spec.annotations` that are for the route, not for pods.
pub const ROUTING: [&str; 2] = [MODEL_BASED_ROUTING, LORA_MODEL_ROUTING_STRATEGY];
/// Prefix of annotations for the controller. On configs, only those of the platform's presets count.
pub const INTERNAL_PREFIX: &str = "internal.serving.kserve.io/";
/// On a preset: what `kvCacheOffloading.cpu` adds to the size of `/dev/shm`, in percent of it, 1 to 10000.
pub const KV_CACHE_SHM_PERCENT: &str = "internal.serving.kserve.io/kv-cache-shm-percent-of-cpu";
/// Source URI of the cached model.
pub const LOCAL_MODEL_SOURCE_URI: &str = "internal.serving.kserve.io/localmodel-sourceuri";
/// PersistentVolumeClaim that holds the cached model.
pub const LOCAL_MODEL_PVC_NAME: &str = "internal.serving.kserve.io/localmodel-pvc-name";
/// The caches of LoRA adapters, as JSON: for each adapter the cache, and the namespace of a LocalModelNamespaceCache.
pub const LOCAL_MODEL_LORA: &str = "internal.serving.kserve.io/localmodel-lora";
/// On a managed HTTPRoute: its Gateway supports InferencePools of `inference.networking.k8s.io`. The controller never
/// removes it.
pub const INFERENCE_POOL_MIGRATED: &str = "serving.kserve.io/inference-pool-migrated";
/// Value of [`INFERENCE_POOL_MIGRATED`].
pub const INFERENCE_POOL_MIGRATED_V1: &str = "v1";
/// Time at which the controller replaces the self-signed certificate (RFC 3339). The setting
/// `scheduler.expirationAnnotations` can name other keys.
pub const CERTIFICATE_EXPIRATION: &str = "certificates.kserve.io/expiration";

/// Beginning of the keys in the status of a service that name its presets; the other keys there name no config.
pub const PRESET_PIN_PREFIX: &str = "serving.kserve.io/config-";
/// In the status of a service: `gpu`, `cpu` or `unknown`, from the resources of its containers after merging. The metric
/// `kserve_llminferenceservice_info` shows it.
pub const ACCELERATOR_TYPE: &str = "serving.kserve.io/accelerator-type";

/// On a service: whether a test request must prove that it serves. `off` sends no request, `report` reports the result in
/// conditions, `gate` also makes `Ready` depend on it. Overrides the setting of the platform.
pub const SERVING_PROOF: &str = "longboat.dev/serving-proof";
/// In the status of a service: the subject and the time of the last proof of serving.
pub const SERVING_PROOF_RECORD: &str = "longboat.dev/serving-proof-record";

/// On a service with separate prefill: whether prefill and decode pods of different revisions are kept apart, `true` or
/// `false`. Overrides the setting of the platform.
pub const KV_PAIRING: &str = "longboat.dev/kv-pairing";

/// On a service: whether LoRA adapters are loaded and unloaded while pods run, `true` or `false` (default). Then a change of
/// `spec.model.lora.adapters` replaces no pod.
pub const RUNTIME_ADAPTERS: &str = "longboat.dev/runtime-adapters";

/// On a service: which picker picks for it where the platform shares one. `own`: pods of its own. `shared`, or absent: the shared
/// picker. `shared` has no effect where the setting `picker` of the platform is not `shared`.
pub const PICKER: &str = "longboat.dev/picker";

/// On a service or a Gateway: `required`: requests need an API key. `off`, or absent: they do not. Only Longboat's gateway checks
/// keys.
pub const API_KEYS: &str = "longboat.dev/api-keys";
/// On a service, a Deployment or a LeaderWorkerSet: `true`: requests wait in Longboat's gateway while there is no replica, although
/// no autoscaler starts one.
pub const WAIT_AT_ZERO: &str = "longboat.dev/wait-at-zero";

/// On a Deployment of local mode: nothing makes pods of it, because it runs in the process of `longboat up`.
pub const IN_PROCESS: &str = "longboat.dev/in-process";

/// Domains whose annotations only KServe and Longboat define.
pub(crate) const DOMAINS: [&str; 3] = ["serving.kserve.io/", INTERNAL_PREFIX, "longboat.dev/"];
/// Keys that are read from the metadata of a service only.
pub(crate) const OF_SERVICES: [&str; 15] = [
    STOP,
    STORAGE_SECRET_NAME,
    DISABLE_LOCAL_MODEL,
    NODE_GROUP,
    DRA_DEVICE_CLASS,
    DRA_DEVICE_COUNT,
    DRA_CEL_SELECTOR,
    DRA_CONTAINER_NAME,
    ENABLE_DISAGGREGATED_SET,
    SERVING_PROOF,
    KV_PAIRING,
    RUNTIME_ADAPTERS,
    PICKER,
    API_KEYS,
    WAIT_AT_ZERO,
];
/// Keys that other objects have, too.
const OTHERS: [&str; 14] = [
    DRA_DEVICES,
    ASKED_FOR,
    KV_CACHE_SHM_PERCENT,
    LOCAL_MODEL_SOURCE_URI,
    LOCAL_MODEL_PVC_NAME,
    LOCAL_MODEL_LORA,
    INFERENCE_POOL_MIGRATED,
    PRESET_PIN_PREFIX,
    ACCELERATOR_TYPE,
    SERVING_PROOF_RECORD,
    IN_PROCESS,
    conversion::MODEL_CRITICALITY,
    conversion::LORA_CRITICALITIES,
    conversion::KEPT_PREFIX,
];

/// Prefixes of annotation keys that are copied from a service to its workloads.
pub const PROPAGATED_PREFIXES: [&str; 4] =
    ["k8s.v1.cni.cncf.io", "kueue.x-k8s.io", "prometheus.io", "internal.serving.kserve.io/localmodel"];
/// A further prefix, which is copied to LeaderWorkerSets only.
pub const LEADER_WORKER_SET_PREFIX: &str = "leaderworkerset.sigs.k8s.io";

/// The keys under [`DOMAINS`] that an object may have. A key that ends with `-` or `.` stands for all keys that begin with
/// it. Keys beside these are probably misspelt ([`crate::fields`]).
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    OF_SERVICES.into_iter().chain(ROUTING).chain(OTHERS)
}

/// Whether annotations stop a service.
pub fn is_stopped(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.and_then(|a| a.get(STOP)).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_our_own_domains_is_listed() {
        let values = include_str!("annotations.rs").lines().filter_map(|line| {
            let (_, value) = line.strip_prefix("pub const ")?.split_once(": &str = \"")?;
            value.strip_suffix("\";")
        });
        let own = values.filter(|key| DOMAINS.iter().any(|domain| key.starts_with(domain)));
        let missing: Vec<&str> =
            own.filter(|key| *key != INTERNAL_PREFIX && keys().all(|known| known != *key)).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
