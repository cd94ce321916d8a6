//! The addresses of models and adapters.

use longboat_admission::unfetchable;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use super::Advice;

/// An address from which no download can succeed.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let found = unfetchable(spec).into_iter();
    found
        .map(|(path, message)| Advice { path, fatal: true, reason: "ModelAddress", message, hint: None })
        .collect()
}
