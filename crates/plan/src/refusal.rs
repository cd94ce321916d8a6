//! What an API server would refuse of the planned children. The rules are those of the embedded API server.

use std::{collections::BTreeMap, sync::LazyLock};

use longboat_api::{
    crd,
    labels::{self, COMPONENT},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_strategy::{
    Cause, examine,
    kinds::{Registry, custom},
    template_causes,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    certificate_request::CertificateRequest,
    child::Child,
    children::{ChildKind, Children, ObjectRef, Planned},
    kinds, paths,
    plan::{self, Plan},
    problem::Problem,
    snapshot::Snapshot,
    trace::{GROUPS, Probe, Target, Trace, aligned, have_same_kinds},
};

/// The kinds of every cluster. Created at the first use.
static BUILT_IN: LazyLock<Registry> = LazyLock::new(Registry::default);

/// The other kinds that children have. Their schemas take a while to compile, and a service without a router needs none.
static CUSTOM: LazyLock<Registry> = LazyLock::new(|| {
    let registry = Registry::default();
    for definition in crd::foreign().into_iter().chain(crd::optional()) {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        registry.put_custom(name, custom::resources(&definition));
    }
    registry
});

/// The pod templates of a LeaderWorkerSet. Its schema does not look into them, so the server accepts the set and refuses its
/// pods.
const GROUP_TEMPLATES: [&str; 2] = ["leaderTemplate", "workerTemplate"];

/// The field of a ScaledObject that KEDA copies into its HorizontalPodAutoscaler.
const KEDA_BEHAVIOR: &str = "spec.advanced.horizontalPodAutoscalerConfig.behavior";

/// The most causes whose origins are found. Fields that come from different fields of the spec need a plan each.
const MAX_TRACED_CAUSES: usize = 100;

/// The most fields of a child that are traced for one cause.
const MAX_TRACED_FIELDS: usize = 32;

/// A child that an API server would refuse, or from which an operator creates what it would refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The child.
    pub child: ObjectRef,
    /// The reasons, in the server's words.
    pub causes: Vec<Cause>,
    /// Whether the child is accepted, and what its operator creates from it is refused.
    pub of_operator: bool,
    component: Option<String>,
}

/// Returns the planned children that an API server would refuse. Only children that differ from the live objects are written,
/// so only these are checked.
pub fn refusals(plan: &Plan, snapshot: &Snapshot) -> Vec<Refusal> {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {{
            let mut found = Vec::new();
            $(found.extend(plan.children.$field.iter().filter_map(|child| refusal(child, plan, snapshot)));)*
            found
        }};
    }
    kinds!(children each)
}

fn refusal<K: Child + Serialize>(child: &K, plan: &Plan, snapshot: &Snapshot) -> Option<Refusal> {
    let reference = child.reference();
    let (namespace, name) = (reference.key.namespace.as_deref(), reference.key.name.as_deref());
    if K::observed(snapshot).get(namespace, name).is_some_and(|live| !child.differs(live)) {
        return None;
    }
    // Their contents are only issued when they are written.
    let is_issued = |request: &CertificateRequest| request.secret == name.as_str();
    if reference.kind == ChildKind::Secret && plan.certificates.iter().any(is_issued) {
        return None;
    }
    // Kubernetes objects have string keys only, so this cannot fail.
    let (causes, of_operator) = judge(reference.kind, serde_json::to_value(child).unwrap_or_default())?;
    let component = labels::value(child.metadata(), COMPONENT).map(ToOwned::to_owned);
    (!causes.is_empty()).then_some(Refusal { child: reference, causes, of_operator, component })
}

/// Returns why an API server would refuse a child, and whether it refuses only what an operator creates from it. Returns `None` for an
/// unknown kind.
fn judge(kind: ChildKind, mut object: Value) -> Option<(Vec<Cause>, bool)> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (version, kind_name) = (text("apiVersion"), text("kind"));
    // Lazily: a service without a router then compiles no schema of a custom kind.
    let resource = BUILT_IN.find_kind(version, kind_name).or_else(|| CUSTOM.find_kind(version, kind_name))?;
    let decoded = examine::decode(&resource, &mut object);
    let mut pods = Vec::new();
    let mut causes: Vec<Cause> = if let Some(message) = decoded.mistyped {
        vec![Cause { reason: "BadRequest", message, field: String::new() }]
    } else {
        let judgement = examine::judge(&resource, &object);
        pods = judgement.pods;
        judgement.causes.into_iter().chain(judgement.rules).collect()
    };
    // A rule that is not checked because of another cause is no cause itself.
    causes.retain(|cause| !cause.message.contains("some validation rules were not checked"));
    if !causes.is_empty() {
        return Some((causes, false));
    }
    causes = match kind {
        ChildKind::LeaderWorkerSet => pods_of_group(&mut object),
        ChildKind::ScaledObject => behavior_of_autoscaler(&object),
        _ => pods,
    };
    Some((causes, true))
}

fn pods_of_group(object: &mut Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for name in GROUP_TEMPLATES {
        let pointer = format!("/spec/leaderWorkerTemplate/{name}");
        if let Some(template) = object.pointer_mut(&pointer).filter(|template| template.is_object()) {
            causes.extend(template_causes(template, &format!("spec.leaderWorkerTemplate.{name}")));
        }
    }
    causes
}

/// Judges how fast the HorizontalPodAutoscaler scales that KEDA creates: it copies the field as it is.
fn behavior_of_autoscaler(object: &Value) -> Vec<Cause> {
    let behavior = object.pointer(&format!("/{}", KEDA_BEHAVIOR.replace('.', "/")));
    let Some(resource) = BUILT_IN.find_kind("autoscaling/v2", "HorizontalPodAutoscaler") else {
        return Vec::new();
    };
    let mut autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {"behavior": behavior}});
    examine::decode(&resource, &mut autoscaler);
    let causes = examine::judge(&resource, &autoscaler).causes.into_iter().filter_map(|cause| {
        let below = cause.field.strip_prefix("spec.behavior")?;
        let field = format!("{KEDA_BEHAVIOR}{below}");
        let message = cause.message.replace(&cause.field, &field);
        Some(Cause { field, message, ..cause })
    });
    causes.collect()
}

// === impl Refusal ===

impl Refusal {
    /// Returns, for each of the first hundred causes, the field of the composed spec from which the refused field comes, as far as
    /// one can be found: `spec.template.containers[name=main].image`. Plans the service some dozens of times.
    pub fn origins(
        &self,
        service: &LLMInferenceService,
        spec: &LLMInferenceServiceSpec,
        plan: &Plan,
        snapshot: &Snapshot,
    ) -> Vec<Option<String>> {
        let objects = objects(&plan.children);
        let at = plan.children.references().position(|child| child == self.child).unwrap_or_default();
        let has_field = |cause: &&Cause| cause.reason != examine::TOO_LARGE;
        let first = self.causes.iter().take(MAX_TRACED_CAUSES);
        let places = first.map(|cause| Some(cause).filter(has_field));
        let places: Vec<Option<Place>> =
            places.map(|cause| Place::of(&cause?.field, objects.get(at)?)).collect();
        let targets = places.iter().flatten().flat_map(|place| &place.leaves);
        let targets: Vec<Target> = targets.map(|leaf| (at, leaf.clone())).collect();
        // A spec has string keys only, so this cannot fail.
        let json = serde_json::to_value(spec).unwrap_or_default();
        let replan = |spec: &LLMInferenceServiceSpec| {
            Some(self::objects(&plan::children(service, spec, snapshot).ok()?.children))
        };
        let traces = Probe { plan: &replan, spec: &json, objects: &objects }.traces(&targets, GROUPS);
        let parts = Parts { kind: self.child.kind, at, objects: &objects, spec: &json, plan: &replan };
        // A refused text often stands at many places of a child.
        let mut known: BTreeMap<(String, Vec<&str>), Option<String>> = BTreeMap::new();
        let mut origin = |cause: &Cause, place: &Place| {
            let found: Vec<(&str, &Trace)> = place
                .leaves
                .iter()
                .filter_map(|leaf| Some((leaf.as_str(), traces.get(&(at, leaf.clone()))?)))
                .collect();
            let copied = found.iter().find_map(|(leaf, trace)| place.beside(leaf, trace.copied.as_deref()?));
            let pointer = copied.or_else(|| {
                let inputs = found.iter().flat_map(|(_, trace)| &trace.inputs).map(String::as_str);
                let inputs: Vec<&str> = inputs.take(MAX_TRACED_FIELDS).collect();
                let culprit = known
                    .entry((cause.message.replace(&cause.field, ""), inputs.clone()))
                    .or_insert_with(|| parts.culprit(cause, &place.field, &inputs));
                let input = culprit.clone().or_else(|| inputs.first().map(|first| (*first).to_owned()))?;
                Some(place.below(objects.get(at)?, &input, &json).unwrap_or(input))
            })?;
            Some(format!("spec.{}", paths::of_pointer(&json, &pointer)))
        };
        self.causes.iter().zip(&places).map(|(cause, place)| origin(cause, place.as_ref()?)).collect()
    }

    /// The problem that the refusal means for the service. `message` says why.
    pub fn problem(&self, message: impl std::fmt::Display) -> Problem {
        Problem::of_child(&self.child, self.component.as_deref(), message)
    }
}

/// Finds out which of the fields that a refused text is made of is the one to change.
struct Parts<'a> {
    kind: ChildKind,
    /// The position of the refused child among the objects.
    at: usize,
    objects: &'a [Value],
    spec: &'a Value,
    plan: &'a dyn Fn(&LLMInferenceServiceSpec) -> Option<Vec<Value>>,
}

// === impl Parts ===

impl Parts<'_> {
    /// Returns the first of `inputs` for which the field at the JSON pointer `field` is still refused when all others are plain
    /// names. Inputs that only decide whether the field exists, such as a switch, are left out.
    fn culprit(&self, cause: &Cause, field: &str, inputs: &[&str]) -> Option<String> {
        let object = &self.objects[self.at];
        let is_part = |input: &&&str| {
            let planned = self.with_plain(&[input]);
            planned
                .is_some_and(|planned| planned.pointer(field).is_some() && aligned(object, &planned, field))
        };
        let parts: Vec<&str> = inputs.iter().filter(is_part).copied().collect();
        let is_refused = |part: &&&str| {
            let others: Vec<&str> = parts.iter().filter(|other| other != part).copied().collect();
            let causes = self.with_plain(&others).and_then(|planned| judge(self.kind, planned));
            // Elements that are sorted by name may have moved.
            let is_same = |found: &Cause| {
                found.reason == cause.reason
                    && without_positions(&found.field) == without_positions(&cause.field)
            };
            causes.is_some_and(|(causes, _)| causes.iter().any(is_same))
        };
        parts.iter().find(is_refused).map(|part| (*part).to_owned())
    }

    /// The child, if these texts of the spec were plain names.
    fn with_plain(&self, inputs: &[&str]) -> Option<Value> {
        let mut spec = self.spec.clone();
        for (number, input) in inputs.iter().enumerate() {
            let text = spec.pointer_mut(input).filter(|value| value.is_string())?;
            *text = json!(format!("plain-{number}"));
        }
        let planned = (self.plan)(&serde_json::from_value(spec).ok()?)?;
        have_same_kinds(&planned, self.objects).then(|| planned.into_iter().nth(self.at)).flatten()
    }
}

fn without_positions(path: &str) -> String {
    path.split('[').map(|part| part.split_once(']').map_or(part, |(_, after)| after)).collect()
}

/// All children as JSON, in the order of [`Children::references`].
fn objects(children: &Children<Planned>) -> Vec<Value> {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {{
            let mut all = Vec::new();
            $(all.extend(children.$field.iter().map(|child| serde_json::to_value(child).unwrap_or_default()));)*
            all
        }};
    }
    kinds!(children each)
}

/// The path of a refused field, for which kube-apiserver has another one in a few places.
fn real_path(path: &str) -> String {
    let limit = path.split_once(".resources.containers[").and_then(|(spec, limit)| {
        let (index, name) = limit.strip_suffix("].limits")?.split_once("][")?;
        Some(format!("{spec}.containers[{index}].resources.limits[{name}]"))
    });
    limit.unwrap_or_else(|| path.replace(".template.annotations", ".template.metadata.annotations"))
}

/// A refused field of a child, and fields by which its origin can be found.
struct Place {
    /// The refused field, as a JSON pointer. The child may lack it.
    field: String,
    /// The field, or its nearest parent that the child has.
    known: String,
    /// Fields at and below `known`.
    leaves: Vec<String>,
}

// === impl Place ===

impl Place {
    fn of(path: &str, object: &Value) -> Option<Self> {
        let mut field = String::new();
        for step in paths::parse(&real_path(path))? {
            let (paths::Step::Field(name) | paths::Step::Bracket(name)) = step;
            field = format!("{field}/{}", name.replace('~', "~0").replace('/', "~1"));
        }
        let mut known = field.clone();
        // The empty pointer is the object itself, so there is always a parent.
        while object.pointer(&known).is_none() {
            known.truncate(known.rfind('/')?);
        }
        // A child may have thousands of refused fields, so only what is below the field is read.
        let below = paths::leaves(object.pointer(&known)?).into_iter();
        let leaves =
            below.take(MAX_TRACED_FIELDS).map(|(place, _)| format!("{known}{}", place.pointer)).collect();
        Some(Self { field, known, leaves })
    }

    /// Returns the origin of the refused field, if it depends on the name of a list's element because it is below the element of this
    /// name: the same field of that element, which sets it, or leaves it to the planner.
    fn below(&self, object: &Value, input: &str, spec: &Value) -> Option<String> {
        let (element, name) = (input.strip_suffix("/name")?, spec.pointer(input)?);
        let is_item =
            |pointer: &str| pointer.rsplit('/').next().is_some_and(|step| step.parse::<usize>().is_ok());
        let ends = self.field.match_indices('/').map(|(at, _)| &self.field[..at]);
        let mut items = ends.filter(|pointer| is_item(element) && is_item(pointer));
        let own = items.find(|item| object.pointer(item).is_some_and(|item| item["name"] == *name))?;
        Some(format!("{element}{}", self.field.strip_prefix(own)?))
    }

    /// Returns the origin of the refused field, if the field `leaf` beside it is a copy of `copied`.
    fn beside(&self, leaf: &str, copied: &str) -> Option<String> {
        let parent = copied.strip_suffix(leaf.strip_prefix(&self.known)?)?;
        Some(format!("{parent}{}", self.field.strip_prefix(&self.known)?))
    }
}
