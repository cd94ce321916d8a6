//! Services.

use k8s_openapi::api::core::v1::Service;

use super::{Compare, carry_over_metadata, fields_differ};

impl Compare for Service {
    const SPEC: &'static str = "core.v1.ServiceSpec";

    fn content_differs(&self, live: &Self) -> bool {
        // The server allocates node ports where the type has them, and the plan names none.
        let mut present = live.spec.clone();
        for port in present.iter_mut().flat_map(|spec| spec.ports.iter_mut().flatten()) {
            port.node_port = None;
        }
        fields_differ(Self::SPEC, &["ports", "selector", "sessionAffinity", "type"], &self.spec, &present)
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
