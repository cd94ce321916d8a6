//! Services.

use k8s_openapi::api::core::v1::Service;

use super::{Compare, carry_over_metadata, metadata_differs, same};
use crate::server_defaults;

impl Compare for Service {
    fn differs(&self, live: &Self) -> bool {
        let mut desired = self.spec.clone().unwrap_or_default();
        server_defaults::service(&mut desired);
        let mut present = live.spec.clone().unwrap_or_default();
        for port in present.ports.iter_mut().flatten() {
            port.node_port = None;
        }
        metadata_differs(&self.metadata, &live.metadata)
            || !same(&desired.ports, &present.ports)
            || desired.selector != present.selector
            || desired.type_ != present.type_
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

    fn fill_in_defaults(&mut self) {
        server_defaults::service(self.spec.get_or_insert_default());
    }
}
