//! Where the controller may read Secrets.

use longboat_key::Namespace;

/// The namespaces whose Secrets a process may read. Empty for all.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretNamespaces(pub(crate) Vec<Namespace>);

// === impl SecretNamespaces ===

impl SecretNamespaces {
    /// The namespaces to watch one by one; `None` is the whole cluster.
    pub(crate) fn scopes(&self) -> Vec<Option<Namespace<&str>>> {
        if self.0.is_empty() {
            return vec![None];
        }
        self.0.iter().map(|namespace| Some(namespace.as_deref())).collect()
    }

    pub(crate) fn contains(&self, namespace: &Namespace) -> bool {
        self.0.is_empty() || self.0.contains(namespace)
    }
}
