//! Kinds that are stored but not run locally: the server warns the client that writes such an object.

use futures::{FutureExt, future::BoxFuture};
use longboat_apiserver::{
    admission::{Admission, AdmissionAnswer, AdmissionRequest},
    status::ApiError,
};

/// Warns about DaemonSets and CronJobs, and refuses debug containers.
pub(crate) struct UnsupportedKinds;

// === impl UnsupportedKinds ===

impl Admission for UnsupportedKinds {
    fn handles(&self, group: &str, resource: &str) -> bool {
        matches!((group, resource), ("apps", "daemonsets") | ("batch", "cronjobs") | ("", "pods"))
    }

    fn mutate(&self, _: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        std::future::ready(AdmissionAnswer::default()).boxed()
    }

    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        std::future::ready(answer(&request)).boxed()
    }
}

fn answer(request: &AdmissionRequest) -> AdmissionAnswer {
    match (request.resource.as_str(), request.subresource.as_deref(), request.operation) {
        ("daemonsets" | "cronjobs", None, "CREATE") => AdmissionAnswer {
            warnings: vec![format!(
                "kind {} does not run on this machine: use a Deployment, a StatefulSet or a Job, or run it \
                 on a cluster",
                request.kind
            )],
            ..AdmissionAnswer::default()
        },
        ("pods", Some("ephemeralcontainers"), _) => AdmissionAnswer {
            refused: Some(ApiError::new(
                403,
                "Forbidden",
                "debug containers do not run on this machine, because pods are processes: use `kubectl \
                 exec`",
            )),
            ..AdmissionAnswer::default()
        },
        _ => AdmissionAnswer::default(),
    }
}
