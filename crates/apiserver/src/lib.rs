//! An embeddable Kubernetes API server: in memory, kubectl-compatible.
