//! A live service of some shape, and the effect of updating it.

use std::{fs, marker::PhantomData, path::Path, sync::Arc};

use longboat_admission::{Facts, Request, Subject, Version, mutate, validate};
use longboat_api::{
    names,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceStatus},
};
use longboat_compose::{Effective, outcome, platform::OBJECTS};
use longboat_offline::{
    Settings,
    scene::{self, Scene},
};
use longboat_plan::{self as plan, Applied, Child, Children, Compare, Plan, Planned, Progress, Snapshot};
use longboat_strategy::{examine, kinds::Resource};
use serde_json::{Value, json};

fn create(object: &Value) -> Request<'_> {
    Request { version: Version::V1Alpha2, operation: "CREATE", object: Some(object), old: None }
}

/// The objects of one shape.
pub(crate) struct Shape {
    pub(crate) name: String,
    /// The service that is changed.
    pub(crate) service: Value,
    scene: Scene,
}

/// Configurations of the picker.
const MAPS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: least}
data:
  epp: '{apiVersion: llm-d.ai/v1alpha1, kind: EndpointPickerConfig, plugins: [{type: queue-scorer}]}'
  other: '{apiVersion: llm-d.ai/v1alpha1, kind: EndpointPickerConfig, plugins: [{type: max-score-picker}]}'
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
data: {epp: '{apiVersion: llm-d.ai/v1alpha1, kind: EndpointPickerConfig, plugins: [{type: active-request-scorer}]}'}
";

/// A service in its stored form, with the warnings about it.
pub(crate) struct Admitted {
    service: LLMInferenceService,
    pub(crate) warnings: Vec<String>,
    /// The plan for the service without live children, or why there is none.
    planned: Result<scene::PlannedService, String>,
}

macro_rules! by_kind {
    ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
        /// Whether the controller would write or delete a child if `live` exists and `planned` is wanted.
        fn is_written(live: &Children<Planned>, planned: &Children<Planned>) -> bool {
            $(differ(&live.$field, &planned.$field))||*
        }

        /// Adds these children to the snapshot as live objects.
        fn populate(snapshot: &mut Snapshot, children: &Children<Planned>) {
            $(for child in &children.$field {
                let mut child = child.clone();
                child.fill_in_defaults();
                snapshot.$field.insert(Arc::new(child));
            })*
        }

        /// The children by kind and name.
        fn objects(children: &Children<Planned>) -> Value {
            let mut all = serde_json::Map::new();
            $(for child in &children.$field {
                all.insert(child.reference().to_string(), serde_json::to_value(child).unwrap());
            })*
            Value::Object(all)
        }

        /// The children after they were written.
        fn applied(children: &Children<Planned>) -> Children<Applied> {
            Children { $($field: children.$field.clone(),)* state: PhantomData }
        }
    };
}

longboat_plan::kinds!(children by_kind);

fn differ<K: Child>(live: &[K], planned: &[K]) -> bool {
    live.len() != planned.len()
        || planned.iter().any(|child| {
            let Some(present) = live.iter().find(|other| other.reference() == child.reference()) else {
                return true;
            };
            child != present && {
                let mut present = present.clone();
                present.fill_in_defaults();
                child.differs(&present)
            }
        })
}

// === impl Shape ===

impl Shape {
    /// Returns all shapes of `tests/cases/topology` that serve. The scene has settings for every way to scale, and ConfigMaps
    /// to refer to.
    pub(crate) fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = root.join("tests/cases/topology");
        let read =
            |file: &Path| longboat_manifest::parse("shape.yaml", &fs::read_to_string(file).unwrap()).unwrap();
        let mut platform = longboat_manifest::parse("platform.yaml", OBJECTS).unwrap();
        platform.retain(|document| document.name() == names::PLATFORM_CONFIG_MAP);
        let mut platform = platform.pop().unwrap();
        platform.object["data"]["autoscaling-wva-controller-config"] =
            json!({"prometheus": {"url": "https://prometheus.example.com:9090"}}).to_string().into();
        let settings = Settings { platform: Some(platform), ..Settings::default() };
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let shapes = files.iter().map(|file| {
            let mut documents = read(file);
            documents.extend(longboat_manifest::parse("maps.yaml", MAPS).unwrap());
            let service = documents.iter().find(|document| document.kind() == "LLMInferenceService").unwrap();
            let mut service = service.object.clone();
            service["metadata"]["namespace"] = Settings::default().namespace.as_deref().as_str().into();
            service["metadata"]["uid"] = "00000000-0000-0000-0000-000000000001".into();
            service["metadata"]["generation"] = 1.into();
            Self {
                name: file.file_stem().unwrap().to_string_lossy().into_owned(),
                service,
                scene: Scene::new(&documents, &settings).unwrap(),
            }
        });
        // A stopped service has no children to change, and its status says that it is stopped.
        shapes.filter(|shape| shape.name != "stopped").collect()
    }

    /// Returns the object in its stored form with its plan. If it is refused, returns the fields at fault.
    pub(crate) fn admit(
        &self,
        resource: &Resource,
        facts: &Facts,
        object: &Value,
    ) -> Result<Admitted, Vec<String>> {
        let mut value = object.clone();
        let decoded = examine::decode(resource, &mut value);
        assert!(decoded.unknown.is_empty(), "{:?}", decoded.unknown);
        if decoded.mistyped.is_some() {
            return Err(Vec::new());
        }
        let mutation = mutate(Subject::Service, &create(&value), facts).map_err(|_| Vec::new())?;
        let mut warnings = mutation.warnings;
        if let Some(changed) = mutation.object {
            value = changed;
            examine::complete(resource, &mut value);
        }
        let judgement = examine::judge(resource, &value);
        if !judgement.causes.is_empty() || !judgement.rules.is_empty() {
            let causes = judgement.causes.into_iter().chain(judgement.rules);
            return Err(causes.map(|cause| cause.field).collect());
        }
        let answer = validate(Subject::Service, &create(&value), facts);
        if let Some(denial) = answer.denial {
            let causes = denial.details["causes"].as_array().cloned().unwrap_or_default();
            return Err(causes
                .iter()
                .filter_map(|cause| cause["field"].as_str())
                .map(str::to_owned)
                .collect());
        }
        warnings.extend(judgement.warnings);
        warnings.extend(answer.warnings);
        let mut service: LLMInferenceService = serde_json::from_value(value).map_err(|_| Vec::new())?;
        service.metadata.finalizers = Some(vec![names::SERVICE_FINALIZER.to_owned()]);
        let planned = self.scene.plan(&service).map_err(|error| error.to_string());
        if let Ok(Effective { warnings: said, .. }) = planned.as_ref().map(composed) {
            warnings.extend(said.iter().map(|warning| warning.message.clone()));
        }
        Ok(Admitted { service, warnings, planned })
    }

    /// Whether a change from one service to the other has an effect on the live service.
    pub(crate) fn notices(from: &Admitted, to: &Admitted) -> bool {
        let (live, wanted) = match (&from.planned, &to.planned) {
            (Ok(live), Ok(wanted)) => (live, wanted),
            (Err(before), Err(after)) => return before != after,
            // The condition about composition changes.
            _ => return true,
        };
        let mut world = wanted.snapshot.clone();
        populate(&mut world, &live.plan.children);
        // Live objects affect the plan.
        let plan = plan::children(&to.service, &composed(wanted).spec, &world).unwrap();
        is_written(&live.plan.children, &plan.children)
            || !plan.remove.is_empty()
            || plan.events != live.plan.events
            || to.status(&plan, &world) != from.status(&live.plan, &world)
    }
}

// === impl Admitted ===

impl Admitted {
    /// Whether the controller cannot plan it, which the status of the service reports.
    pub(crate) fn is_refused(&self) -> bool {
        self.planned.is_err()
    }

    /// Returns the children as objects, or `None` if there is no plan.
    pub(crate) fn children(&self) -> Option<Value> {
        Some(objects(&self.planned.as_ref().ok()?.plan.children))
    }

    fn status(&self, plan: &Plan, world: &Snapshot) -> LLMInferenceServiceStatus {
        let effective = composed(self.planned.as_ref().unwrap());
        let presets = outcome::Outcome::of_merged(&effective.applied, None, false);
        let pass = Progress {
            presets: &presets,
            pins: &effective.status_annotations,
            spec: Some(&effective.spec),
            problem: plan.problem.as_ref(),
            proof: None,
            download: None,
            adapters: &[],
        };
        plan::status(&self.service, pass, &applied(&plan.children), world, world.now).unwrap()
    }
}

/// Returns the composed spec of a plan. Only stopped services may have a plan without one.
fn composed(planned: &scene::PlannedService) -> &Effective {
    planned.effective.as_ref().unwrap()
}
