//! Typed values of what presets bring and no layer above them changes.
//!
//! Most of composing is reading JSON into the types of pods and routes. The managed route and the picker's pod are the
//! same for nearly all services but for a few templates: they are read once, with the templates in their places, and
//! copied for each service with the templates rendered.

use k8s_openapi::api::core::v1::{Container, PodSpec, Probe};
use longboat_api::{
    foreign::httproute::{HTTPRouteRule, HTTPRouteSpec},
    v1alpha2::LLMInferenceServiceSpec,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    de::{self, Node, Render, Verbatim},
    leaf,
    merge::Place,
};

/// Where a spec has a pod: the path in JSON, and the field.
type PodPlace = (&'static [&'static str], fn(&mut LLMInferenceServiceSpec) -> Option<&mut Option<PodSpec>>);

const PODS: [PodPlace; 6] = [
    (&["template"], |spec| Some(&mut spec.workload.template)),
    (&["worker"], |spec| Some(&mut spec.workload.worker)),
    (&["prefill", "template"], |spec| Some(&mut spec.prefill.as_mut()?.template)),
    (&["prefill", "worker"], |spec| Some(&mut spec.prefill.as_mut()?.worker)),
    (PICKER, |spec| Some(&mut spec.router.as_mut()?.scheduler.as_mut()?.template)),
    (&["router", "scheduler", "tokenizer", "template"], |spec| {
        Some(&mut spec.router.as_mut()?.scheduler.as_mut()?.tokenizer.as_mut()?.template)
    }),
];

/// Where the picker's pod is.
pub(crate) const PICKER: &[&str] = &["router", "scheduler", "template"];

const ROUTE: &[&str] = &["router", "route", "http", "spec"];

/// The parts of merged presets that are copied rather than read.
#[derive(Debug, Default)]
pub(crate) struct Skeletons {
    pods: [Option<Skeleton<PodSpec>>; PODS.len()],
    route: Option<Skeleton<HTTPRouteSpec>>,
}

/// Those of them that a merged spec has as they are.
pub(crate) struct Untouched<'a> {
    skeletons: &'a Skeletons,
    pods: [Option<&'a Value>; PODS.len()],
    route: Option<&'a Value>,
}

// === impl Skeletons ===

impl Skeletons {
    /// Reads what can be copied of merged presets.
    pub(crate) fn of(presets: &Value) -> Self {
        let at = |path| Place::Json(presets).at(path)?.json();
        Self {
            pods: PODS.map(|(path, _)| Skeleton::read(at(path)?)),
            route: at(ROUTE).and_then(Skeleton::read),
        }
    }

    /// What of `spec` is still what the presets brought.
    pub(crate) fn untouched<'a>(&'a self, presets: &'a Value, spec: Place<'_, 'a>) -> Untouched<'a> {
        let same = |path| {
            let preset = Place::Json(presets).at(path)?.json()?;
            spec.at(path)?.json().filter(|json| std::ptr::eq(*json, preset))
        };
        let mut pods = PODS.map(|(path, _)| same(path));
        for (pod, skeleton) in pods.iter_mut().zip(&self.pods) {
            *pod = pod.filter(|_| skeleton.is_some());
        }
        Untouched { skeletons: self, pods, route: same(ROUTE).filter(|_| self.route.is_some()) }
    }
}

// === impl Untouched ===

impl Untouched<'_> {
    /// Whether this value will be copied, and need not be read.
    pub(crate) fn has(&self, json: &Value) -> bool {
        self.pods.iter().chain([&self.route]).flatten().any(|known| std::ptr::eq(*known, json))
    }

    /// Whether the picker's pod will be copied.
    pub(crate) fn has_picker(&self) -> bool {
        PODS.iter().zip(&self.pods).any(|((path, _), pod)| *path == PICKER && pod.is_some())
    }

    /// Puts the copies into the spec that was read without them.
    ///
    /// # Errors
    /// Where a template cannot be rendered on its own.
    pub(crate) fn fill(
        &self,
        spec: &mut LLMInferenceServiceSpec,
        render: &dyn Render,
    ) -> Result<(), de::Error> {
        for (((_, field), pod), skeleton) in PODS.iter().zip(&self.pods).zip(&self.skeletons.pods) {
            if let (Some(_), Some(skeleton), Some(field)) = (pod, skeleton, field(spec)) {
                *field = Some(skeleton.fill(render)?);
            }
        }
        let route = spec.router.as_mut().and_then(|router| router.route.as_mut()?.http.as_mut());
        if let (Some(_), Some(skeleton), Some(route)) = (self.route, &self.skeletons.route, route) {
            route.spec = Some(skeleton.fill(render)?);
        }
        Ok(())
    }
}

/// A type with strings in which presets have templates.
pub(crate) trait Texts {
    /// Calls `visit` with each of these strings.
    fn texts(&mut self, visit: &mut dyn FnMut(&mut String));
}

/// A typed value whose strings may still be templates.
#[derive(Debug)]
pub(crate) struct Skeleton<T>(T);

// === impl Skeleton ===

impl<T: DeserializeOwned + Clone + Texts> Skeleton<T> {
    /// Reads a value; none if a template stands where [`Texts`] does not look, or the value does not fit its type.
    pub(crate) fn read(json: &Value) -> Option<Self> {
        let mut templates = 0_usize;
        leaf::for_each_template(json, &mut |_| templates += 1);
        let mut value = T::deserialize(Node::new(Place::Json(json), &Verbatim)).ok()?;
        value.texts(&mut |text| templates = templates.wrapping_sub(usize::from(leaf::is_template(text))));
        (templates == 0).then_some(Self(value))
    }

    /// The value with its templates rendered.
    ///
    /// # Errors
    /// Where a template cannot be rendered on its own.
    pub(crate) fn fill(&self, render: &dyn Render) -> Result<T, de::Error> {
        let mut value = self.0.clone();
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
