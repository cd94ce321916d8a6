//! The quality-of-service class. Kubernetes: pkg/apis/core/v1/helper/qos.

use k8s_openapi::api::core::v1::{Container, PodSpec};

use longboat_quantity::Quantity;

/// Returns `Guaranteed`, `Burstable` or `BestEffort`.
pub(super) fn class(spec: &PodSpec) -> &'static str {
    let containers = || spec.init_containers.iter().flatten().chain(&spec.containers);
    let stated = |container: &Container, limits: bool, name: &str| {
        let resources = container.resources.as_ref()?;
        let map = if limits { resources.limits.as_ref() } else { resources.requests.as_ref() };
        Quantity::parse(&map?.get(name)?.0).filter(|amount| amount.nano() > 0)
    };
    let any = containers().any(|container| {
        ["cpu", "memory"]
            .iter()
            .any(|name| stated(container, true, name).is_some() || stated(container, false, name).is_some())
    });
    if !any {
        return "BestEffort";
    }
    let guaranteed = containers().all(|container| {
        ["cpu", "memory"].iter().all(|name| {
            let limit = stated(container, true, name);
            limit.is_some() && stated(container, false, name).or(limit) == limit
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_follow_requests_and_limits() {
        for (resources, class) in [
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
            (
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}),
                "Guaranteed",
            ),
            (json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}), "Burstable"),
            (json!({"limits": {"nvidia.com/gpu": "1"}}), "BestEffort"),
        ] {
            let spec: PodSpec =
                serde_json::from_value(json!({"containers": [{"name": "c", "resources": resources}]}))
                    .unwrap();
            assert_eq!(super::class(&spec), class, "{resources}");
        }
    }
}
