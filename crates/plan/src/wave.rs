//! When children are written.

/// What is written side by side. A wave begins when those before it are written, and only if they were, but for what
/// [`Wave::Binding`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wave {
    /// What the others refer to. Services are among it: certificates name their addresses.
    Foundation,
    /// What pods mount.
    Certificate,
    /// Rights of accounts. Written beside certificates and workloads: an API server may take its time over bindings, and only pods that
    /// run under these accounts wait for them.
    Binding,
    /// What runs pods.
    Workload,
    /// What changes the number of pods.
    Scaling,
    /// What pickers choose from.
    Pool,
    /// What sends traffic.
    Route,
}
