//! Longboat's defaulting and validation as in-process admission of the embedded API server. On a cluster they run as
//! webhooks.

use futures::{FutureExt, future::BoxFuture};
use kube::Client;
use longboat_admission::{self as admission, Action, Denial, Facts, Hook, Request, Subject, Version};
use longboat_apiserver::{
    admission::{Admission, AdmissionAnswer, AdmissionRequest},
    status::ApiError,
};
use longboat_controller::{Args, webhook::LiveFacts};
use longboat_key::Namespace;

/// Admission of LLMInferenceServices and LLMInferenceServiceConfigs.
pub(crate) struct OwnKinds {
    facts: LiveFacts,
}

// === impl OwnKinds ===

impl OwnKinds {
    /// Creates the hook. It reads the settings of this cluster at the time of each request.
    pub(crate) fn new(client: Client) -> Self {
        Self { facts: LiveFacts::new(client, Args::default()) }
    }

    fn answer(
        &self,
        request: AdmissionRequest,
        action: Action,
        decide: fn(Subject, &Request<'_>, &Facts) -> AdmissionAnswer,
    ) -> BoxFuture<'static, AdmissionAnswer> {
        let facts = self.facts.clone();
        async move {
            let Some((subject, asked)) = asked(&request) else { return AdmissionAnswer::default() };
            let hook = Hook { action, subject, version: asked.version };
            match facts.read(hook, request.namespace.as_deref().map(Namespace)).await {
                Ok(facts) => decide(subject, &asked, &facts),
                Err(error) => refused(ApiError::internal(format!("reading the settings: {error}"))),
            }
        }
        .boxed()
    }
}

impl Admission for OwnKinds {
    fn handles(&self, group: &str, resource: &str) -> bool {
        Subject::of(group, resource).is_some()
    }

    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        self.answer(request, Action::Mutate, |subject, asked, facts| {
            match admission::mutate(subject, asked, facts) {
                Ok(mutation) => {
                    AdmissionAnswer { refused: None, object: mutation.object, warnings: mutation.warnings }
                }
                Err(denial) => refused(refusal(denial)),
            }
        })
    }

    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        self.answer(request, Action::Validate, |subject, asked, facts| {
            let answer = admission::validate(subject, asked, facts);
            AdmissionAnswer { refused: answer.denial.map(refusal), object: None, warnings: answer.warnings }
        })
    }
}

fn refused(error: ApiError) -> AdmissionAnswer {
    AdmissionAnswer { refused: Some(error), ..AdmissionAnswer::default() }
}

/// Returns the request if this hook handles it. Writes to subresources are not handled, because they do not reach the
/// webhook on a cluster either.
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
