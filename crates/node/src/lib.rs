//! Pods as processes on loopback addresses, and the workload controllers a cluster would have.
