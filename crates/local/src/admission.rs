//! Our defaulting and validation, run inside the embedded API server as a cluster runs them by webhook.

use futures::{FutureExt, future::BoxFuture};
use longboat_admission::{self as admission, Denial, Request, Rules, Subject};
use longboat_api::names::{DEFAULT_PRESET_PREFIX, DEFAULT_SYSTEM_NAMESPACE};
use longboat_apiserver::{
    admission::{Admission, AdmissionAnswer, AdmissionRequest},
    status::ApiError,
};

/// LLMInferenceService and LLMInferenceServiceConfig.
pub(crate) struct OwnKinds;

impl Admission for OwnKinds {
    fn handles(&self, group: &str, resource: &str) -> bool {
        Subject::of(group, resource).is_some()
    }

    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async move {
            let Some(subject) = subject_of(&request) else { return AdmissionAnswer::default() };
            match admission::mutate(subject, &asked(&request)) {
                Ok(object) => AdmissionAnswer { object, ..AdmissionAnswer::default() },
                Err(denial) => {
                    AdmissionAnswer { refused: Some(refusal(denial)), ..AdmissionAnswer::default() }
                }
            }
        }
        .boxed()
    }

    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async move {
            let Some(subject) = subject_of(&request) else { return AdmissionAnswer::default() };
            // A local world is its user's own: presets may go.
            let rules = Rules {
                system_namespace: DEFAULT_SYSTEM_NAMESPACE.to_owned(),
                preset_prefix: DEFAULT_PRESET_PREFIX.to_owned(),
                prevent_preset_deletion: false,
            };
            let answer = admission::validate(subject, &asked(&request), &rules);
            AdmissionAnswer { refused: answer.denial.map(refusal), object: None, warnings: answer.warnings }
        }
        .boxed()
    }
}

/// Subresources are nobody's business here: their writes reach no webhook on a cluster either.
fn subject_of(request: &AdmissionRequest) -> Option<Subject> {
    request.subresource.is_none().then(|| Subject::of(&request.group, &request.resource)).flatten()
}

fn asked(request: &AdmissionRequest) -> Request<'_> {
    Request { operation: request.operation, object: request.object.as_ref(), old: request.old.as_ref() }
}

fn refusal(denial: Denial) -> ApiError {
    let mut error = ApiError::new(denial.code, denial.reason, denial.message);
    error.details = denial.details.as_object().cloned();
    error
}
