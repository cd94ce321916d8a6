//! Advice about a composed service: what a cluster accepts and what will not do what its writer means.

mod memory;
mod model;
mod names;
mod pool;
mod probe_scheme;
mod routing;
mod scaling;
#[cfg(test)]
mod tests;
mod variables;

use longboat_api::v1alpha2::LLMInferenceService;
use longboat_compose::Effective;

use crate::scene::Scene;

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    /// The path of the field in the composed service, with names in place of positions where lists merge by name.
    pub(crate) path: String,
    /// Whether the service cannot work at all.
    pub(crate) fatal: bool,
    /// Its reason.
    pub(crate) reason: &'static str,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

/// Returns all advice about a service that composed to `effective`.
pub(crate) fn of(scene: &Scene, service: &LLMInferenceService, effective: &Effective) -> Vec<Advice> {
    let mut all = model::check(&effective.spec);
    all.extend(memory::check(&effective.spec));
    all.extend(scaling::check(&effective.spec));
    all.extend(routing::check(scene.snapshot(), service, &effective.spec));
    all.extend(probe_scheme::check(&effective.spec));
    all.extend(pool::check(scene, service, effective));
    all.extend(names::check(scene.snapshot(), service, effective));
    all.extend(variables::check(scene.snapshot(), service, &effective.spec));
    all
}

// === impl Advice ===

impl Advice {
    fn warning(path: String, reason: &'static str, message: String, hint: String) -> Self {
        Self { path, fatal: false, reason, message, hint: Some(hint) }
    }

    /// Formats the advice as one sentence.
    pub(crate) fn sentence(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}: {} {}{hint}", self.reason, self.path, self.message)
    }
}
