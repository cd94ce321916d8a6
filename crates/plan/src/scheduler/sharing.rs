//! Whether the picker that pools share picks for a service, in place of pods of the service's own.
//!
//! The Deployment of the picker stays, without replicas: it says with which flags to pick, and going back is cheap. Service and
//! selector stay too. Its EndpointSlices are those of its pods, which Kubernetes writes, and the one of the shared picker, which
//! nobody else touches. So each step below adds a picker before it takes one away, and the controller may end between any two:
//!
//! * to the shared picker: the Deployment is labelled; the shared picker picks and names itself in its slice; the replicas go.
//! * back: the replicas come; they are available; the label changes, and the shared picker removes its slice.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::PodSpec, discovery::v1::EndpointSlice};
use longboat_api::{
    labels::value,
    picker_choice::PickerChoice,
    shared_picker::{
        LIMIT, NEEDS_POD, OWN, PICKER, PROBLEM, SERVICE, SHARED, annotation, is_ready, slice_name,
    },
};
use longboat_key::Name;

use crate::{
    context::Context,
    names,
    status::rollout::wanted_replicas,
    workload::pod_spec::{MAIN, container},
};

/// Sets the replicas and the label of the picker's Deployment.
pub(super) fn apply(context: &Context, service: String, live: Option<&Deployment>, picker: &mut Deployment) {
    let Some(spec) = &mut picker.spec else { return };
    let mark = live.and_then(|live| value(&live.metadata, PICKER));
    let live_spec = live.and_then(|live| live.spec.as_ref());
    let live_replicas = live_spec.and_then(|spec| spec.replicas);
    let is_shared = mark == Some(SHARED);
    // Nobody has asked for zero replicas of a shared picker but this function.
    let own = if is_shared && live_replicas == Some(0) {
        spec.replicas.filter(|count| *count > 0)
    } else {
        spec.replicas
    };
    let value = if wants_to_share(context, spec.template.spec.as_ref()) {
        let slice = slice(context);
        let needs_pod = slice.is_some_and(|slice| annotation(slice, NEEDS_POD).is_some());
        // Where nothing picks yet, nothing is interrupted, so a new picker starts without pods.
        let is_taken = live.is_none()
            || is_shared && live_replicas == Some(0)
            || is_shared && slice.is_some_and(is_ready);
        spec.replicas = if is_taken && !needs_pod { Some(0) } else { own.or(Some(1)) };
        SHARED
    } else if is_shared {
        spec.replicas = own.or(Some(1));
        // The label keeps the shared picker until the pods pick.
        if live.is_some_and(has_own_pods) { OWN } else { SHARED }
    } else if mark.is_some() {
        OWN
    } else {
        return;
    };
    picker.metadata.labels.get_or_insert_default().insert(PICKER.to_owned(), value.to_owned());
    let annotations = picker.metadata.annotations.get_or_insert_default();
    annotations.extend(BTreeMap::from([(SERVICE.to_owned(), service)]));
}

/// Whether platform and service want the shared picker, and nothing keeps this one in pods of its own.
fn wants_to_share(context: &Context, pod: Option<&PodSpec>) -> bool {
    is_asked_for(context) && pod.is_some_and(|pod| other_image(context, pod).is_none())
}

/// Whether the platform wants shared pickers, and the service does not ask for its own.
fn is_asked_for(context: &Context) -> bool {
    let annotations = context.service.metadata.annotations.as_ref();
    let choice = PickerChoice::of_annotations(annotations);
    context.snapshot.platform.shared_picker && choice != Some(PickerChoice::Own)
}

/// The image of the picker if it is not the platform's: the shared picker would be another program.
fn other_image<'a>(context: &Context, pod: &'a PodSpec) -> Option<&'a str> {
    let image = container(pod, MAIN)?.image.as_deref().unwrap_or_default();
    (!context.snapshot.platform.images.are_ours(image)).then_some(image)
}

fn slice<'a>(context: &Context<'a>) -> Option<&'a EndpointSlice> {
    let name = slice_name(&names::scheduler(context.name));
    context.snapshot.endpoint_slices.get(context.namespace, Name(&name))
}

/// Whether pods of the Deployment pick, and go on to do so: the status is that of the present number of replicas.
fn has_own_pods(picker: &Deployment) -> bool {
    picker.status.as_ref().is_some_and(|status| {
        wanted_replicas(picker) > 0
            && status.available_replicas.is_some_and(|available| available > 0)
            && status.observed_generation >= picker.metadata.generation
    })
}

/// Who picks for a service in whose Deployment the shared picker has a part.
pub(crate) enum Sharing {
    /// The shared picker does. It may have a problem with the newest configuration, or refuse requests beyond a limit.
    Shared { problem: Option<String>, limit: Option<String> },
    /// The shared picker does, with the former configuration, until pods of the service do.
    Leaving,
    /// The shared picker does not pick yet, or no longer.
    Missing { problem: Option<String> },
    /// Pods of the service do, although the platform wants the shared picker, because of this need.
    Own { need: String },
}

/// Returns who picks, or `None` if the Deployment decides, as without a shared picker.
pub(crate) fn sharing(context: &Context, picker: &Deployment) -> Option<Sharing> {
    let pod = picker.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    if is_asked_for(context)
        && let Some(image) = pod.and_then(|pod| other_image(context, pod))
    {
        return Some(Sharing::Own { need: format!("the image {image}, which is not the platform's") });
    }
    if value(&picker.metadata, PICKER) != Some(SHARED) {
        return None;
    }
    let slice = slice(context);
    let text = |key| slice.and_then(|slice| annotation(slice, key)).map(str::to_owned);
    let (problem, need) = (text(PROBLEM), text(NEEDS_POD));
    if slice.is_some_and(is_ready) {
        return Some(match need {
            Some(_) => Sharing::Leaving,
            None => Sharing::Shared { problem, limit: text(LIMIT) },
        });
    }
    if let Some(need) = need {
        return Some(Sharing::Own { need });
    }
    let is_scaled_down = picker.spec.as_ref().and_then(|spec| spec.replicas) == Some(0);
    (is_scaled_down && !has_own_pods(picker)).then_some(Sharing::Missing { problem })
}
