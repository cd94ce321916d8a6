//! An embeddable Kubernetes API server: in memory, kubectl-compatible.

pub mod pod_access;
