//! Longboat's own admission inside of the API server, without a controller that serves it.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use longboat_admission::{self as admission, Denial, Facts, Request, Subject, Version};
use longboat_apiserver::{
    admission::{Admission, AdmissionAnswer, AdmissionRequest},
    status::ApiError,
};
use parking_lot::RwLock;

/// Admission of LLMInferenceServices and LLMInferenceServiceConfigs with given facts.
pub struct OwnKinds(RwLock<Arc<Facts>>);

// === impl OwnKinds ===

impl OwnKinds {
    /// Creates the hook.
    pub fn new(facts: Facts) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Arc::new(facts))))
    }

    /// Sets the facts for later requests.
    pub fn know(&self, facts: Facts) {
        *self.0.write() = Arc::new(facts);
    }

    fn answer(
        &self,
        request: AdmissionRequest,
        decide: fn(Subject, &Request<'_>, &Facts) -> AdmissionAnswer,
    ) -> BoxFuture<'static, AdmissionAnswer> {
        let facts = Arc::clone(&self.0.read());
        async move { asked(&request).map(|(subject, asked)| decide(subject, &asked, &facts)).unwrap_or_default() }
            .boxed()
    }
}

impl Admission for OwnKinds {
    fn handles(&self, group: &str, resource: &str) -> bool {
        Subject::of(group, resource).is_some()
    }

    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        self.answer(request, |subject, asked, facts| match admission::mutate(subject, asked, facts) {
            Ok(mutation) => {
                AdmissionAnswer { refused: None, object: mutation.object, warnings: mutation.warnings }
            }
            Err(denial) => AdmissionAnswer { refused: Some(refusal(denial)), ..AdmissionAnswer::default() },
        })
    }

    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        self.answer(request, |subject, asked, facts| {
            let answer = admission::validate(subject, asked, facts);
            AdmissionAnswer { refused: answer.denial.map(refusal), object: None, warnings: answer.warnings }
        })
    }
}

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
