//! Plans what must exist, from the composed spec and the snapshot.

use std::collections::BTreeSet;

use longboat_api::{
    foreign::httproute::HTTPRoute,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_compose::Warning;
use longboat_key::Key;

use crate::{
    certificate_request::CertificateRequest,
    children::{Children, ObjectRef, Planned},
    context::Context,
    draft::Draft,
    key::ObjectKey,
    problem::{PlanError, Problem},
    prune, router,
    snapshot::Snapshot,
    workload,
};

/// What must be done to bring a service to its spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The children that must exist.
    pub children: Children<Planned>,
    /// Certificates to issue, and to [fill](CertificateRequest::fill) into the planned secrets before these are written.
    pub certificates: Vec<CertificateRequest>,
    /// Live children to delete, in this order.
    pub remove: Vec<ObjectRef>,
    /// Warnings to record once each, as events.
    pub events: Vec<Warning>,
    /// What the plan depends on beside the children themselves: the objects that planning looked up, found or not, and
    /// objects of other owners that have the names of children. When one of these changes, the plan may change.
    pub reads: BTreeSet<ObjectKey>,
    /// Secrets that planning looked up and the snapshot does not have. If they exist, the caller adds them and plans again.
    pub missed_secrets: Vec<Key>,
    /// The problem at which planning stopped. What comes after it is neither in `children` nor in `remove`, so it stays as it
    /// is.
    pub problem: Option<Problem>,
}

/// Plans the children of a service from its composed spec. A stopped service has no children.
///
/// The same input gives the same plan. Planning again after the plan was applied gives the same plan.
///
/// # Errors
/// If the service was never stored, or an object that planning looked up cannot be decoded. Every mistake of a user is a
/// [`Problem`] of the plan instead, so that everything that does not depend on it is still planned.
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
    let mut remove =
        prune::unplanned_children(&context, &children, problem.as_ref().map(|problem| problem.phase));
    workload::predecessor::keep_predecessor(&context, &mut remove);
    let mut reads = snapshot.reads(context.uid);
    let own: BTreeSet<ObjectKey> = children.references().map(|child| child.key()).collect();
    // A change of an object under one of these names reaches the service as a change of its own child.
    reads.retain(|object| !own.contains(object));
    let missed_secrets = snapshot.secrets.missed();
    // At the end, when everything that this plan reads has been looked up.
    check_readable(snapshot)?;
    Ok(Plan { children, certificates, remove, events, reads, missed_secrets, problem })
}

/// Returns the managed route without the members of the group that are being deleted, if it still has such members. The caller
/// writes it before everything else: these members wait for it, and the service itself may have a spec that cannot be planned.
///
/// # Errors
/// If the service was never stored, or an object that was looked up cannot be decoded. The inner error says that the route is
/// not the service's.
pub fn pruned_route(
    service: &LLMInferenceService,
    snapshot: &Snapshot,
) -> Result<Result<Option<HTTPRoute>, String>, PlanError> {
    let pruned = router::leaving::pruned_route(&Context::new(service, &service.spec, snapshot)?);
    check_readable(snapshot)?;
    Ok(pruned)
}

/// What must happen before the finalizer of a deleted service can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalization {
    /// Children without an owner reference. Garbage collection does not delete them.
    pub remove: Vec<ObjectRef>,
    /// Members of the group that still send traffic to the service. The finalizer stays until they have updated their routes.
    pub senders: Vec<String>,
    /// The objects that this result depends on.
    pub reads: BTreeSet<ObjectKey>,
}

/// Returns what must happen before the finalizer of a deleted service can go.
///
/// # Errors
/// If the service was never stored, or an object that was looked up cannot be decoded.
pub fn finalization(service: &LLMInferenceService, snapshot: &Snapshot) -> Result<Finalization, PlanError> {
    let context = Context::new(service, &service.spec, snapshot)?;
    let mut remove = prune::unplanned_children(&context, &Children::<Planned>::default(), None);
    remove.retain(|object| object.key.namespace.is_empty());
    let senders = router::group::senders(&context);
    check_readable(snapshot)?;
    Ok(Finalization { remove, senders, reads: snapshot.reads(context.uid) })
}

/// Fails if an object was taken for absent that exists and cannot be decoded.
pub(crate) fn check_readable(snapshot: &Snapshot) -> Result<(), PlanError> {
    match snapshot.unreadable().into_iter().next() {
        Some((object, reason)) => Err(PlanError::Unreadable { object, reason }),
        None => Ok(()),
    }
}
