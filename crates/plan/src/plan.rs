//! Plans what must exist, from the composed spec and the snapshot.

use std::collections::BTreeSet;

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use longboat_store::Key;

use crate::{
    children::{Children, ObjectRef, Planned},
    context::Context,
    draft::Draft,
    event::PlannedEvent,
    key::ObjectKey,
    kinds,
    problem::{PlanError, Problem},
    router,
    snapshot::Snapshot,
    workload::{self, CertificateRequest},
};

/// What must be done so that a service is as its spec says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The children that must exist.
    pub children: Children<Planned>,
    /// Certificates to issue, and to [fill](CertificateRequest::fill) into planned secrets, before those are written.
    pub certificates: Vec<CertificateRequest>,
    /// Live children that must go, in the order in which they go.
    pub remove: Vec<ObjectRef>,
    /// Events, each for the user to see once.
    pub events: Vec<PlannedEvent>,
    /// What planning depends on beside the children themselves: what it asked for, found or not, and the objects of others that have the
    /// names of children. When one of these changes, planning again may say something else.
    pub reads: BTreeSet<ObjectKey>,
    /// Secrets that planning asked for and the snapshot lacks. Where they exist, they are to be added, and then it is planned again.
    pub missed_secrets: Vec<Key>,
    /// What planning stopped at. What comes after it is neither in `children` nor in `remove`: it stays as it is.
    pub problem: Option<Problem>,
}

/// Plans the children of a service from its composed spec; of a stopped one, that there are none.
///
/// The same input gives the same plan, and a plan that was applied plans itself again.
///
/// # Errors
/// When the service was never stored, or an object that was asked for cannot be read. Everything that a user can get wrong is a
/// [`Problem`] of the plan instead, because what does not depend on it is planned all the same.
pub fn children(
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    snapshot: &Snapshot,
) -> Result<Plan, PlanError> {
    let context = Context::new(service, spec, snapshot)?;
    let mut draft = Draft::default();
    let problem = if context.stopped() {
        None
    } else {
        workload::plan(&context, &mut draft).and_then(|()| router::plan(&context, &mut draft)).err()
    };
    let Draft { children, certificates, events } = draft;
    let mut remove = kinds::superfluous(&context, &children, problem.as_ref().map(|problem| problem.phase));
    workload::handover::spare(&context, &mut remove);
    let mut reads = snapshot.reads(context.uid);
    let own: BTreeSet<ObjectKey> = children.references().map(|child| child.key()).collect();
    // What is written under these names concerns the service as its own child.
    reads.retain(|object| !own.contains(object));
    let missed_secrets = snapshot.secrets.missed();
    check_readable(snapshot)?;
    Ok(Plan { children, certificates, remove, events, reads, missed_secrets, problem })
}

/// What must happen before the finalizer of a deleted service can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalization {
    /// Children without an owner, which nothing else collects.
    pub remove: Vec<ObjectRef>,
    /// Members of its group that still send it traffic: they write their routes anew, and then it may go.
    pub senders: Vec<String>,
    /// What this depends on.
    pub reads: BTreeSet<ObjectKey>,
}

/// What must happen before the finalizer of a deleted service can go.
///
/// # Errors
/// When the service was never stored, or an object that was asked for cannot be read.
pub fn finalization(service: &LLMInferenceService, snapshot: &Snapshot) -> Result<Finalization, PlanError> {
    let context = Context::new(service, &service.spec, snapshot)?;
    let mut remove = kinds::superfluous(&context, &Children::<Planned>::default(), None);
    remove.retain(|object| object.namespace.is_empty());
    let senders = router::group::senders(&context);
    check_readable(snapshot)?;
    Ok(Finalization { remove, senders, reads: snapshot.reads(context.uid) })
}

/// Checks that nothing was taken for absent that is there and cannot be read.
pub(crate) fn check_readable(snapshot: &Snapshot) -> Result<(), PlanError> {
    match snapshot.unreadable().into_iter().next() {
        Some((object, reason)) => Err(PlanError::Unreadable { object, reason }),
        None => Ok(()),
    }
}
