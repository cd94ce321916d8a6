//! Roles and their bindings.

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};

use super::{Compare, carry_over_metadata, metadata_differs, same};

impl Compare for Role {
    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata) || !same(&self.rules, &live.rules)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }
}

impl Compare for RoleBinding {
    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata)
            || !same(&self.subjects, &live.subjects)
            || !same(&self.role_ref, &live.role_ref)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }
}

impl Compare for ClusterRoleBinding {
    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata)
            || !same(&self.subjects, &live.subjects)
            || !same(&self.role_ref, &live.role_ref)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }
}
