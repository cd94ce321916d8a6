//! What kind of processor a service computes on: an annotation of the status, and from there a label of the info metric.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

/// Resources that are GPUs, and beginnings of the names of others, which end with a profile or a driver.
const GPUS: [&str; 4] = ["nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu", "habana.ai/gaudi"];
const GPU_PREFIXES: [&str; 2] = ["nvidia.com/mig", "gpu.intel.com/"];

/// Returns `gpu`, `cpu` or `unknown` for a merged spec. Managed devices are claims of its pods. A claim or an extended resource
/// may be anything, so it is `unknown` unless a GPU stands beside it.
pub fn accelerator_type(spec: &LLMInferenceServiceSpec) -> &'static str {
    let pods: Vec<&PodSpec> = spec.server_pods().map(|(_, pod)| pod).collect();
    let containers =
        || pods.iter().flat_map(|pod| pod.containers.iter().chain(pod.init_containers.iter().flatten()));
    if containers().flat_map(resources).any(is_gpu) {
        return "gpu";
    }
    let has_claims = pods.iter().any(|pod| pod.resource_claims.iter().flatten().next().is_some());
    // Extended resources have a domain before a slash; `cpu`, `memory` and the others of Kubernetes have none.
    if has_claims || containers().flat_map(resources).any(|name| name.contains('/')) {
        "unknown"
    } else {
        "cpu"
    }
}

/// Whether an extended resource is a GPU.
pub fn is_gpu(resource: &str) -> bool {
    GPUS.contains(&resource) || GPU_PREFIXES.iter().any(|prefix| resource.starts_with(prefix))
}

/// The names of the resources that a container requests or is limited to.
fn resources(container: &Container) -> impl Iterator<Item = &str> {
    let resources = container.resources.as_ref();
    let amounts = resources.into_iter().flat_map(|all| [all.requests.as_ref(), all.limits.as_ref()]);
    amounts.flatten().flat_map(|amounts| amounts.keys()).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::accelerator_type;

    fn of(spec: Value) -> &'static str {
        accelerator_type(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn a_gpu_anywhere_counts_before_what_may_be_anything() {
        let main = |resources: Value| json!({"containers": [{"name": "main", "resources": resources}]});
        assert_eq!(of(json!({})), "cpu");
        assert_eq!(of(json!({"template": main(json!({"limits": {"cpu": "4", "memory": "1Gi"}}))})), "cpu");
        for name in [
            "nvidia.com/gpu",
            "amd.com/gpu",
            "habana.ai/gaudi",
            "nvidia.com/mig-1g.10gb",
            "gpu.intel.com/i915",
        ] {
            assert_eq!(of(json!({"template": main(json!({"requests": {name: "1"}}))})), "gpu", "{name}");
        }
        assert_eq!(of(json!({"template": main(json!({"limits": {"google.com/tpu": "4"}}))})), "unknown");
        assert_eq!(of(json!({"worker": main(json!({"limits": {"nvidia.com/gpu": "8"}}))})), "gpu");
        let claimed = json!({"containers": [{"name": "main"}], "resourceClaims": [{"name": "gpu"}]});
        assert_eq!(of(json!({"prefill": {"template": claimed}})), "unknown");
        assert_eq!(
            of(json!({
                "template": main(json!({"limits": {"nvidia.com/gpu": "1"}})), "prefill": {"template": claimed}
            })),
            "gpu"
        );
    }
}
