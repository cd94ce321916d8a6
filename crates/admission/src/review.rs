//! Responds to an `AdmissionReview`.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use longboat_api::v1alpha2::GROUP;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Denial, Facts, Request, Subject, Version,
    envelope::{self, MalformedReview},
    mutate, validate,
};

/// A webhook: its action, and the kind and version of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Its action.
    pub action: Action,
    /// The kind of its objects.
    pub subject: Subject,
    /// The version of its objects.
    pub version: Version,
}

/// The action of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fills in defaults.
    Mutate,
    /// Accepts or refuses.
    Validate,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionRequest {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource: Resource,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
    #[serde(default)]
    sub_resource: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    group: String,
    version: String,
    #[serde(rename = "resource")]
    plural: String,
}

/// Responds to a review that the webhook `hook` received. Returns the JSON of the response.
///
/// A request for another kind, version or subresource, and an operation without its object, is refused in the response with
/// code 400. So is every object that the rules refuse.
///
/// # Errors
///
/// [`MalformedReview`] if the body is not an `AdmissionReview` of version `v1` or `v1beta1`, because then there is no review to
/// respond to.
pub fn review(hook: Hook, body: &[u8], facts: &Facts) -> Result<Vec<u8>, MalformedReview> {
    let (api_version, kind, admission_request): (_, _, AdmissionRequest) =
        envelope::read(body, "admission.k8s.io", "AdmissionReview")?;
    let mut response = match misdirected(hook, &admission_request) {
        Some(why) => denied(&Denial::bad_request(why)),
        None => answer(hook, &admission_request, facts),
    };
    response["uid"] = Value::String(admission_request.uid);
    let reply = json!({"apiVersion": api_version, "kind": kind, "response": response});
    Ok(reply.to_string().into_bytes())
}

/// Returns why a request is not for this webhook, or `None` if it is.
fn misdirected(hook: Hook, admission_request: &AdmissionRequest) -> Option<String> {
    let Resource { group, version, plural } = &admission_request.resource;
    let (expected, name) = (hook.subject.resource(), hook.version.name());
    if group != GROUP || plural != expected || version != name {
        return Some(format!(
            "this webhook answers for {expected} of {GROUP}/{name}, not for {plural:?} of \"{group}/{version}\""
        ));
    }
    if let Some(subresource) = admission_request.sub_resource.as_deref().filter(|name| !name.is_empty()) {
        return Some(format!("this webhook does not answer for the subresource {subresource:?}"));
    }
    let missing = match admission_request.operation.as_str() {
        "CREATE" | "UPDATE" if admission_request.object.is_null() => "object",
        "DELETE" if admission_request.old_object.is_null() => "oldObject",
        "CREATE" | "UPDATE" | "DELETE" => return None,
        other => return Some(format!("expected operation CREATE, UPDATE or DELETE, got {other:?}")),
    };
    Some(format!("the request to {} has no {missing}", admission_request.operation))
}

fn answer(hook: Hook, admission_request: &AdmissionRequest, facts: &Facts) -> Value {
    let present = |value| Some(value).filter(|value: &&Value| !value.is_null());
    let request = Request {
        version: hook.version,
        operation: &admission_request.operation,
        object: present(&admission_request.object),
        old: present(&admission_request.old_object),
    };
    match hook.action {
        Action::Mutate => match mutate(hook.subject, &request, facts) {
            Err(denial) => denied(&denial),
            Ok(mutation) => {
                let mut response = json!({"allowed": true});
                if let Some(object) = &mutation.object {
                    let patch = json!(json_patch::diff(&admission_request.object, object));
                    response["patchType"] = json!("JSONPatch");
                    response["patch"] = json!(BASE64_STANDARD.encode(patch.to_string()));
                }
                warn(&mut response, &mutation.warnings);
                response
            }
        },
        Action::Validate => {
            let answer = validate(hook.subject, &request, facts);
            let mut response = match &answer.denial {
                Some(denial) => denied(denial),
                None => json!({"allowed": true}),
            };
            warn(&mut response, &answer.warnings);
            response
        }
    }
}

fn denied(denial: &Denial) -> Value {
    json!({"allowed": false, "status": denial.status()})
}

fn warn(response: &mut Value, warnings: &[String]) {
    if !warnings.is_empty() {
        response["warnings"] = json!(warnings);
    }
}

// === impl Hook ===

impl Hook {
    /// All webhooks. Configs have no defaulting webhook.
    pub fn all() -> impl Iterator<Item = Self> {
        Version::ALL.into_iter().flat_map(|version| {
            let hook = move |action, subject| Self { action, subject, version };
            [
                hook(Action::Mutate, Subject::Service),
                hook(Action::Validate, Subject::Service),
                hook(Action::Validate, Subject::Config),
            ]
        })
    }

    /// The webhook at a path of the server.
    pub fn at(path: &str) -> Option<Self> {
        Self::all().find(|hook| hook.path() == path)
    }

    /// Its path: `/mutate-serving-kserve-io-v1alpha2-llminferenceservice`.
    pub fn path(&self) -> String {
        format!(
            "/{}-serving-kserve-io-{}-{}",
            self.action,
            self.version.name(),
            self.subject.kind().to_lowercase()
        )
    }

    /// Its name in webhook configurations: `llminferenceservice.kserve-webhook-server.v1alpha2.defaulter`.
    pub fn name(&self) -> String {
        let role = match self.action {
            Action::Mutate => "defaulter",
            Action::Validate => "validator",
        };
        format!("{}.kserve-webhook-server.{}.{role}", self.subject.kind().to_lowercase(), self.version.name())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        })
    }
}
