//! Roles and their bindings.

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};

use super::{Compare, metadata_differs, stored};

impl Compare for Role {
    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata)
            || stored("rbac.v1.Role", self)["rules"] != stored("rbac.v1.Role", live)["rules"]
    }
}

impl Compare for RoleBinding {
    fn differs(&self, live: &Self) -> bool {
        let [desired, present] = [self, live].map(|binding| stored("rbac.v1.RoleBinding", binding));
        metadata_differs(&self.metadata, &live.metadata)
            || ["subjects", "roleRef"].iter().any(|field| desired[field] != present[field])
    }
}

impl Compare for ClusterRoleBinding {
    fn differs(&self, live: &Self) -> bool {
        let [desired, present] = [self, live].map(|binding| stored("rbac.v1.ClusterRoleBinding", binding));
        metadata_differs(&self.metadata, &live.metadata)
            || ["subjects", "roleRef"].iter().any(|field| desired[field] != present[field])
    }
}
