//! The order in which children are written.

/// A set of children that are written concurrently. A wave begins when all earlier waves have succeeded, except as
/// [`Wave::Binding`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wave {
    /// Children that others refer to. Services are among them, because certificates contain their addresses.
    Foundation,
    /// Children that pods mount.
    Certificate,
    /// Role bindings. They are written concurrently with certificates and workloads, because an API server may be slow to
    /// authorize bindings. Only workloads whose pods run under these accounts wait for them.
    Binding,
    /// Children that run pods.
    Workload,
    /// Children that change the number of pods.
    Scaling,
    /// Pools, from which pickers choose.
    Pool,
    /// Routes, which send traffic.
    Route,
}
