//! Switches from single pods to groups of pods and back without an interruption: the old workload is removed when the new one
//! serves.

use longboat_api::labels::{self, COMPONENT};

use super::Half;
use crate::{
    child::Child,
    children::{ChildKind, ObjectRef},
    context::Context,
    kinds::types::{Deployment, LeaderWorkerSet, Role, RoleBinding, ServiceAccount},
    status::workload::{is_available, is_group_available},
};

/// Removes from the list of removals the workload that still serves because its successor does not serve yet, with the
/// account and rights of its pods. The reference deletes that workload at once.
pub(crate) fn keep_predecessor(context: &Context, remove: &mut Vec<ObjectRef>) {
    if context.stopped() {
        return;
    }
    let serving: Vec<ObjectRef> =
        Half::all(context.spec).filter_map(|half| serving_predecessor(context, &half)).collect();
    if serving.is_empty() {
        return;
    }
    let used = [ChildKind::ServiceAccount, ChildKind::Role, ChildKind::RoleBinding];
    let needed = |object: &ObjectRef| {
        serving.contains(object) || (used.contains(&object.kind) && is_of_workload(context, object))
    };
    remove.retain(|object| !needed(object));
}

/// Returns the workload of the other kind, if only that one serves.
fn serving_predecessor(context: &Context, half: &Half) -> Option<ObjectRef> {
    let deployment = context.own::<Deployment>(&half.deployment_name(context.name));
    let group = context.own::<LeaderWorkerSet>(&half.group_name(context.name));
    let ready = deployment.filter(|live| is_available(live));
    let ready_group = group.filter(|live| is_group_available(live));
    if half.is_group() {
        ready.filter(|_| ready_group.is_none()).map(Child::reference)
    } else {
        ready_group.filter(|_| ready.is_none()).map(Child::reference)
    }
}

/// Whether an account, role or binding is for model servers, and not for the picker.
fn is_of_workload(context: &Context, object: &ObjectRef) -> bool {
    fn labelled<K: Child>(context: &Context, object: &ObjectRef) -> bool {
        context.own::<K>(&object.key.name).is_some_and(|live| {
            labels::value(live.metadata(), COMPONENT).is_none_or(|component| component.contains("workload"))
        })
    }
    match object.kind {
        ChildKind::ServiceAccount => labelled::<ServiceAccount>(context, object),
        ChildKind::Role => labelled::<Role>(context, object),
        ChildKind::RoleBinding => labelled::<RoleBinding>(context, object),
        _ => false,
    }
}
