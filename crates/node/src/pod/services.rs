//! The environment variables by which a pod finds the Services of its namespace. There is no DNS, so they are the only
//! names.
//!
//! Kubernetes: pkg/kubelet/envvars.

use k8s_openapi::api::core::v1::Service;

/// Returns `{NAME}_SERVICE_HOST`, `{NAME}_SERVICE_PORT` and `{NAME}_SERVICE_PORT_{PORT NAME}` for each Service with an
/// address.
pub(super) fn variables<'s>(services: impl IntoIterator<Item = &'s Service>) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for service in services {
        let Some(spec) = &service.spec else { continue };
        let Some(ip) = spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None") else {
            continue;
        };
        let prefix = variable_name(service.metadata.name.as_deref().unwrap_or_default());
        variables.push((format!("{prefix}_SERVICE_HOST"), ip.to_owned()));
        for (index, port) in spec.ports.iter().flatten().enumerate() {
            if index == 0 {
                variables.push((format!("{prefix}_SERVICE_PORT"), port.port.to_string()));
            }
            if let Some(name) = &port.name {
                variables
                    .push((format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), port.port.to_string()));
            }
        }
    }
    variables.sort();
    variables
}

fn variable_name(name: &str) -> String {
    name.to_uppercase().replace(['-', '.'], "_")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_with_an_address_are_named() {
        let services: Vec<Service> = serde_json::from_value(json!([
            {"metadata": {"name": "a-b"}, "spec": {"clusterIP": "127.80.0.1", "ports": [{"name": "http-x", "port": 80}, {"port": 81}]}},
            {"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
        ]))
        .unwrap();
        let expected = [
            ("A_B_SERVICE_HOST", "127.80.0.1"),
            ("A_B_SERVICE_PORT", "80"),
            ("A_B_SERVICE_PORT_HTTP_X", "80"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(variables(&services), expected);
    }
}
