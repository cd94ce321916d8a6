//! A plan in the making.

use crate::{
    children::{Children, Planned},
    context::Context,
    event::PlannedEvent,
    kinds::Child,
    owner,
    workload::CertificateRequest,
};

/// What has been decided so far. A problem later on does not undo it.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) children: Children<Planned>,
    pub(crate) certificates: Vec<CertificateRequest>,
    pub(crate) events: Vec<PlannedEvent>,
}

impl Draft {
    /// Adds a child, unless a live object of that name is not ours.
    pub(crate) fn add<K: Child>(&mut self, context: &Context, child: K) -> Result<(), String> {
        let reference = child.reference();
        // Without a namespace there is no owner to compare.
        if !reference.namespace.is_empty() {
            let live = K::observed(context.snapshot).get(&reference.namespace, &reference.name);
            owner::check(context, &reference, live)?;
        }
        K::of_mut(&mut self.children).push(child);
        Ok(())
    }
}
