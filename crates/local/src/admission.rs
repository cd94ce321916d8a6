//! Our defaulting and validation, run inside the embedded API server as a cluster runs them by webhook.

use futures::{FutureExt, future::BoxFuture};
use longboat_admission::{self as admission, Denial, Facts, Request, Subject, Version};
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
            let Some((subject, asked)) = asked(&request) else { return AdmissionAnswer::default() };
            match admission::mutate(subject, &asked, &facts()) {
                Ok(mutation) => {
                    AdmissionAnswer { refused: None, object: mutation.object, warnings: mutation.warnings }
                }
                Err(denial) => {
                    AdmissionAnswer { refused: Some(refusal(denial)), ..AdmissionAnswer::default() }
                }
            }
        }
        .boxed()
    }

    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async move {
            let Some((subject, asked)) = asked(&request) else { return AdmissionAnswer::default() };
            let answer = admission::validate(subject, &asked, &facts());
            AdmissionAnswer { refused: answer.denial.map(refusal), object: None, warnings: answer.warnings }
        }
        .boxed()
    }
}

/// A local world is its user's own: presets may go.
fn facts() -> Facts {
    Facts { prevent_preset_deletion: false, ..Facts::default() }
}

/// What is asked, if it is ours to answer. Subresources are nobody's business here: their writes reach no webhook on a
/// cluster either.
fn asked(request: &AdmissionRequest) -> Option<(Subject, Request<'_>)> {
    if request.subresource.is_some() {
        return None;
    }
    let subject = Subject::of(&request.group, &request.resource)?;
    let version = Version::of(&request.version)?;
    let (object, old) = (request.object.as_ref(), request.old.as_ref());
    Some((subject, Request { version, operation: request.operation, object, old }))
}

fn refusal(denial: Denial) -> ApiError {
    let mut error = ApiError::new(denial.code, denial.reason, denial.message);
    error.details = denial.details.as_object().cloned();
    error
}
