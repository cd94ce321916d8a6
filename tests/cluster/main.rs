//! Longboat on a real Kubernetes API server: kube-apiserver and etcd with certificates and RBAC. The controller is the built
//! binary in its own process, with exactly the rights of `deploy/rbac`. A refused request of the controller fails the test that
//! runs at that time.
//!
//! Tests take turns in one cluster, and each uses its own namespace. `scripts/cluster-tools.sh` fetches the servers.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

#[allow(dead_code, reason = "shared with the comparison of the API servers")]
mod api;
mod binary;
mod cases;
mod charts;
mod cluster;
#[path = "../../crates/telemetry/tests/traces/collector.rs"]
#[expect(dead_code, reason = "shared with the tests of telemetry")]
mod collector;
mod controller;
mod decisions;
mod definitions;
mod deletion;
mod doctor;
mod downloads;
mod embedded;
mod gateways;
mod handover;
mod hostile;
mod install;
mod installation;
mod installed;
mod installing;
mod late;
#[expect(dead_code, reason = "shared with the bench of scale")]
mod log;
mod migration;
mod operate;
mod picking;
mod policy;
#[expect(dead_code, reason = "shared with the bench of scale")]
mod process;
#[path = "../local/program.rs"]
mod program;
mod proof;
mod ready;
mod replica;
mod restricted;
mod rights;
mod schema;
mod server;
mod shapes;
mod shared_picker;
mod snapshot;
mod soak;
mod takeover;
#[path = "../local/tools.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode, which need other tools too")]
mod tools;
mod traces;
mod versions;
#[path = "../local/wait.rs"]
mod wait;
mod webhooks;
