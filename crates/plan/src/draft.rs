//! An unfinished plan.

use longboat_compose::Warning;

use crate::{
    certificate_request::CertificateRequest,
    child::Child,
    children::{Children, Planned},
    context::Context,
    owner,
};

/// What was planned so far. It stays planned if a problem occurs later.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) children: Children<Planned>,
    pub(crate) certificates: Vec<CertificateRequest>,
    pub(crate) events: Vec<Warning>,
}

impl Draft {
    /// Adds a child. Fails if a live object of that name belongs to somebody else.
    pub(crate) fn add<K: Child>(&mut self, context: &Context, child: K) -> Result<(), String> {
        let reference = child.reference();
        // A cluster-scoped child has no owner that could be compared.
        if !reference.key.namespace.is_empty() {
            let live = K::observed(context.snapshot)
                .get(reference.key.namespace.as_deref(), reference.key.name.as_deref());
            if live.is_some_and(|live| !owner::controls(context.uid, live.metadata())) {
                return Err(format!(
                    "failed to update {reference}: it is not controlled by v1alpha2.LLMInferenceService {}/{}",
                    context.namespace, context.name
                ));
            }
        }
        K::of_mut(&mut self.children).push(child);
        Ok(())
    }
}
