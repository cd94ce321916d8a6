//! Roles and their bindings.

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};

use super::{Compare, fields_differ};

impl Compare for Role {
    fn content_differs(&self, live: &Self) -> bool {
        fields_differ("rbac.v1.Role", &["rules"], self, live)
    }
}

impl Compare for RoleBinding {
    fn content_differs(&self, live: &Self) -> bool {
        fields_differ("rbac.v1.RoleBinding", &["subjects", "roleRef"], self, live)
    }

    /// An API server refuses to change the role of a binding.
    fn must_be_recreated(&self, live: &Self) -> bool {
        self.role_ref != live.role_ref
    }
}

impl Compare for ClusterRoleBinding {
    fn content_differs(&self, live: &Self) -> bool {
        fields_differ("rbac.v1.ClusterRoleBinding", &["subjects", "roleRef"], self, live)
    }

    fn must_be_recreated(&self, live: &Self) -> bool {
        self.role_ref != live.role_ref
    }
}
