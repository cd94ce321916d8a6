//! Deserialized values of presets and base configs that a service does not change.
//!
//! Most of the time of composition goes into deserializing pods and routes. For nearly all services, the managed route and
//! the picker's pod are the same except for a few templates, and of the other pods a service changes a few fields. So these
//! values are deserialized once, with unrendered templates, and copied for each service with the templates rendered. Only the
//! fields that the service changed are deserialized again.
//! the service changed is read.

use k8s_openapi::api::core::v1::{Container, PodSpec, Probe};
use longboat_api::{
    foreign::httproute::{HTTPRouteRule, HTTPRouteSpec},
    v1alpha2::LLMInferenceServiceSpec,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    de::{self, Node, Render, Verbatim},
    fields::Fields,
    leaf,
    merge::{Tree, View},
    overlay::{self, Item, ListChanges, PodChanges},
};

/// The place of a pod in a spec: the JSON path, and the field.
type PodPlace =
    (&'static [&'static str], fn(&mut LLMInferenceServiceSpec) -> Option<&mut Option<Box<PodSpec>>>);

const PODS: [PodPlace; 6] = [
    (&["template"], |spec| Some(&mut spec.workload.template)),
    (&["worker"], |spec| Some(&mut spec.workload.worker)),
    (&["prefill", "template"], |spec| Some(&mut spec.prefill.as_mut()?.template)),
    (&["prefill", "worker"], |spec| Some(&mut spec.prefill.as_mut()?.worker)),
    (&["router", "scheduler", "template"], |spec| {
        Some(&mut spec.router.as_mut()?.scheduler.as_mut()?.template)
    }),
    (&["router", "scheduler", "tokenizer", "template"], |spec| {
        Some(&mut spec.router.as_mut()?.scheduler.as_mut()?.tokenizer.as_mut()?.template)
    }),
];

const ROUTE: &[&str] = &["router", "route", "http", "spec"];

/// The skeletons of merged layers.
#[derive(Debug, Default)]
pub(crate) struct Skeletons {
    pods: [Option<Pod>; PODS.len()],
    route: Option<Skeleton<HTTPRouteSpec>>,
}

/// The parts of a service's spec that come from skeletons. The rest of the spec is deserialized without them.
pub(crate) struct Kept<'a> {
    skeletons: &'a Skeletons,
    pods: [Option<PodChanges<'a>>; PODS.len()],
    route: bool,
}

// === impl Skeletons ===

impl Skeletons {
    /// Deserializes the skeletons of merged layers.
    pub(crate) fn of(layers: &Value) -> Self {
        let at = |path| View::Json(layers).at(path)?.json();
        Self { pods: PODS.map(|(path, _)| Pod::read(at(path)?)), route: at(ROUTE).and_then(Skeleton::read) }
    }

    /// Removes from `spec` the parts that equal the merged `layers`.
    pub(crate) fn split<'a>(&'a self, layers: &'a Value, spec: &mut Tree<'a>) -> Kept<'a> {
        let at = |path| View::Json(layers).at(path)?.json();
        let mut pods = [const { None }; PODS.len()];
        for (((path, _), skeleton), changes) in PODS.iter().zip(&self.pods).zip(&mut pods) {
            if let (Some(_), Some(Value::Object(base))) = (skeleton, at(path)) {
                spec.edit(path, &mut |pod| {
                    let (pod, found) = overlay::pod(pod, base);
                    *changes = found;
                    pod
                });
            }
        }
        let mut route = false;
        if let (Some(_), Some(base)) = (&self.route, at(ROUTE)) {
            spec.edit(ROUTE, &mut |spec| {
                route = spec.is_same(base);
                (!route).then_some(spec)
            });
        }
        Kept { skeletons: self, pods, route }
    }
}

// === impl Kept ===

impl Kept<'_> {
    /// Adds copies of the skeletons to a spec that was deserialized without them.
    ///
    /// # Errors
    /// If a template cannot be rendered on its own.
    pub(crate) fn fill(
        self,
        spec: &mut LLMInferenceServiceSpec,
        render: &dyn Render,
    ) -> Result<(), de::Error> {
        let skeletons = self.skeletons;
        for (((_, field), changes), skeleton) in PODS.iter().zip(self.pods).zip(&skeletons.pods) {
            if let (Some(changes), Some(skeleton), Some(field)) = (changes, skeleton, field(spec)) {
                let own = field.take().map(|pod| *pod).unwrap_or_default();
                *field = Some(Box::new(skeleton.fill(&changes, own, render)?));
            }
        }
        let route = spec.router.as_mut().and_then(|router| router.route.as_mut()?.http.as_mut());
        if let (true, Some(skeleton), Some(route)) = (self.route, &skeletons.route, route) {
            route.spec = Some(Box::new(skeleton.fill(render)?));
        }
        Ok(())
    }
}

/// A pod, with its containers stored separately, because nearly every service changes a field of one of them.
#[derive(Debug)]
struct Pod {
    /// The pod without containers.
    rest: Skeleton<PodSpec>,
    containers: Vec<Skeleton<Container>>,
    init_containers: Option<Vec<Skeleton<Container>>>,
}

// === impl Pod ===

impl Pod {
    /// Deserializes a pod. Returns `None` if it cannot be a skeleton.
    fn read(json: &Value) -> Option<Self> {
        let Skeleton(mut rest) = Skeleton::<PodSpec>::read(json)?;
        let apart = |containers: Vec<Container>| containers.into_iter().map(Skeleton).collect();
        let containers = apart(std::mem::take(&mut rest.containers));
        let init_containers = rest.init_containers.take().map(apart);
        Some(Self { rest: Skeleton(rest), containers, init_containers })
    }

    /// Returns the complete pod. `own` has the fields that a service changed.
    fn fill(
        &self,
        changes: &PodChanges<'_>,
        mut own: PodSpec,
        render: &dyn Render,
    ) -> Result<PodSpec, de::Error> {
        let mut containers = Some(std::mem::take(&mut own.containers));
        let mut init_containers = own.init_containers.take();
        let mut pod = self.rest.with(&changes.fields, &mut own, render)?;
        lists(&changes.containers, Some(&self.containers), &mut containers, render)?;
        lists(&changes.init_containers, self.init_containers.as_ref(), &mut init_containers, render)?;
        pod.containers = containers.unwrap_or_default();
        pod.init_containers = init_containers;
        Ok(pod)
    }
}

/// Completes a list of containers. At first, `list` has only what a service changed.
fn lists(
    changes: &ListChanges<'_>,
    skeletons: Option<&Vec<Skeleton<Container>>>,
    list: &mut Option<Vec<Container>>,
    render: &dyn Render,
) -> Result<(), de::Error> {
    let skeletons = skeletons.map_or(&[][..], Vec::as_slice);
    match changes {
        ListChanges::Replaced => {}
        ListChanges::None if skeletons.is_empty() => {}
        ListChanges::None => {
            *list = Some(skeletons.iter().map(|skeleton| skeleton.fill(render)).collect::<Result<_, _>>()?);
        }
        ListChanges::Items(items) => {
            let mut own = list.take().unwrap_or_default().into_iter();
            let whole = items.iter().map(|item| match item {
                Item::Kept(at) => skeletons[*at].fill(render),
                Item::Changed(at, fields) => {
                    skeletons[*at].with(fields, &mut own.next().unwrap_or_default(), render)
                }
                Item::Own => Ok(own.next().unwrap_or_default()),
            });
            *list = Some(whole.collect::<Result<_, _>>()?);
        }
    }
    Ok(())
}

/// A type with strings in which presets have templates.
pub(crate) trait Texts {
    /// Calls `visit` with each of these strings.
    fn texts(&mut self, visit: &mut dyn FnMut(&mut String));
}

/// A deserialized value whose strings may still be templates.
#[derive(Debug)]
pub(crate) struct Skeleton<T>(T);

// === impl Skeleton ===

impl<T: DeserializeOwned + Clone + Texts> Skeleton<T> {
    /// Deserializes a value. Returns `None` if a template is in a string that [`Texts`] does not visit, or if the value does
    /// not fit its type.
    pub(crate) fn read(json: &Value) -> Option<Self> {
        let mut templates = 0_usize;
        leaf::for_each_template(json, &mut |_| templates += 1);
        let mut value = T::deserialize(Node::new(View::Json(json), &Verbatim)).ok()?;
        value.texts(&mut |text| templates = templates.wrapping_sub(usize::from(leaf::is_template(text))));
        (templates == 0).then_some(Self(value))
    }

    /// Returns the value with its templates rendered.
    ///
    /// # Errors
    /// If a template cannot be rendered on its own.
    pub(crate) fn fill(&self, render: &dyn Render) -> Result<T, de::Error> {
        rendered(self.0.clone(), render)
    }
}

impl<T: Clone + Default + Texts + Fields> Skeleton<T> {
    /// Returns the value with its templates rendered and `fields` taken from `changed`, where templates are rendered already.
    /// An inserted text must never be interpreted as a template.
    fn with(&self, fields: &[&str], changed: &mut T, render: &dyn Render) -> Result<T, de::Error> {
        let mut value = self.0.clone();
        let mut replaced = T::default();
        for field in fields {
            value.exchange(field, &mut replaced);
        }
        let mut value = rendered(value, render)?;
        for field in fields {
            value.exchange(field, changed);
        }
        Ok(value)
    }
}

fn rendered<T: Texts>(mut value: T, render: &dyn Render) -> Result<T, de::Error> {
    let mut rendered = true;
    value.texts(&mut |text| {
        if rendered && leaf::is_template(text) {
            match render.render(text) {
                Some(result) => *text = result,
                None => rendered = false,
            }
        }
    });
    if rendered { Ok(value) } else { Err(de::Error::Unrendered) }
}

// === impl Texts ===

impl Texts for PodSpec {
    fn texts(&mut self, visit: &mut dyn FnMut(&mut String)) {
        for container in self.containers.iter_mut().chain(self.init_containers.iter_mut().flatten()) {
            container.texts(visit);
        }
        for volume in self.volumes.iter_mut().flatten() {
            if let Some(name) = volume.secret.as_mut().and_then(|secret| secret.secret_name.as_mut()) {
                visit(name);
            }
        }
    }
}

impl Texts for Container {
    fn texts(&mut self, visit: &mut dyn FnMut(&mut String)) {
        self.image.iter_mut().for_each(&mut *visit);
        [&mut self.command, &mut self.args].into_iter().flatten().flatten().for_each(&mut *visit);
        self.env.iter_mut().flatten().filter_map(|variable| variable.value.as_mut()).for_each(&mut *visit);
        let probes = [&mut self.liveness_probe, &mut self.readiness_probe, &mut self.startup_probe];
        for probe in probes.into_iter().flatten() {
            probe.texts(visit);
        }
    }
}

impl Texts for Probe {
    fn texts(&mut self, visit: &mut dyn FnMut(&mut String)) {
        if let Some(scheme) = self.http_get.as_mut().and_then(|get| get.scheme.as_mut()) {
            visit(scheme);
        }
    }
}

impl Texts for HTTPRouteSpec {
    fn texts(&mut self, visit: &mut dyn FnMut(&mut String)) {
        for parent in &mut self.parent_refs {
            visit(&mut parent.name);
            parent.namespace.iter_mut().for_each(&mut *visit);
        }
        self.hostnames.iter_mut().for_each(&mut *visit);
        self.rules.iter_mut().for_each(|rule| rule.texts(visit));
    }
}

impl Texts for HTTPRouteRule {
    fn texts(&mut self, visit: &mut dyn FnMut(&mut String)) {
        for matched in &mut self.matches {
            if let Some(value) = matched.path.as_mut().and_then(|path| path.value.as_mut()) {
                visit(value);
            }
            for header in &mut matched.headers {
                visit(&mut header.name);
                visit(&mut header.value);
            }
        }
        for reference in &mut self.backend_refs {
            visit(&mut reference.backend.name);
            reference.backend.namespace.iter_mut().for_each(&mut *visit);
        }
    }
}
