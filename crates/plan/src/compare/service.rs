//! Services.

use k8s_openapi::api::core::v1::Service;

use super::{Compare, carry_over_metadata, metadata_differs, stored};

impl Compare for Service {
    const SPEC: &'static str = "core.v1.ServiceSpec";

    fn differs(&self, live: &Self) -> bool {
        let mut present = live.spec.clone().unwrap_or_default();
        for port in present.ports.iter_mut().flatten() {
            port.node_port = None;
        }
        let (desired, present) = (stored(Self::SPEC, &self.spec), stored(Self::SPEC, &present));
        metadata_differs(&self.metadata, &live.metadata)
            || ["ports", "selector", "type"].iter().any(|field| desired[field] != present[field])
    }

    /// The server chooses the addresses, and they are immutable.
    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
        let (Some(desired), Some(present)) = (&mut self.spec, &live.spec) else { return };
        desired.cluster_ip.clone_from(&present.cluster_ip);
        desired.cluster_ips.clone_from(&present.cluster_ips);
        desired.ip_families.clone_from(&present.ip_families);
        desired.ip_family_policy.clone_from(&present.ip_family_policy);
    }
}
