//! Our defaulting and validation, run inside the embedded API server as a cluster runs them by webhook.

use futures::{FutureExt, future::BoxFuture};
use longboat_apiserver::admission::{Admission, AdmissionAnswer, AdmissionRequest};

/// LLMInferenceService and LLMInferenceServiceConfig.
pub(crate) struct OwnKinds;

impl Admission for OwnKinds {
    fn handles(&self, group: &str, resource: &str) -> bool {
        group == "serving.kserve.io"
            && matches!(resource, "llminferenceservices" | "llminferenceserviceconfigs")
    }

    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async move { longboat_controller::admission::mutate(request) }.boxed()
    }

    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async move { longboat_controller::admission::validate(request) }.boxed()
    }
}
