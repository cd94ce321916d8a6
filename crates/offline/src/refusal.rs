//! Findings about children that an API server would refuse. All commands report these.

use std::collections::{BTreeMap, BTreeSet};

use longboat_api::{
    names::MAIN_CONTAINER,
    v1alpha2::{API_VERSION, LLMInferenceService},
};
use longboat_compose::Effective;
use longboat_key::{Key, Namespace};
use longboat_manifest::Document;
use longboat_plan::{ChildKind, Refusal, counted, paths, refusals};
use longboat_strategy::Cause;

use crate::{
    finding::{Finding, ObjectName, Source},
    objects,
    scene::{PlannedService, Scene},
};

/// The handlers of probes and hooks, of which each has one.
const HANDLERS: [&str; 5] = ["exec", "grpc", "httpGet", "sleep", "tcpSocket"];

/// Returns a finding for each reason why an API server would refuse a planned child of a service, at the field of the service
/// from which the refused field comes.
pub fn findings(scene: &Scene, service: &LLMInferenceService, planned: &PlannedService) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for refusal in refusals(&planned.plan, &planned.snapshot) {
        // One value may be refused at many places of a child.
        let mut known: BTreeSet<(String, &str, String)> = BTreeSet::new();
        let spec = planned.effective.as_ref().map_or(&service.spec, |effective| &*effective.spec);
        let origins = refusal.origins(service, spec, &planned.plan, &planned.snapshot);
        let layers = Layers { scene, service, effective: planned.effective.as_ref() };
        // Tracing plans dozens of times, so it ends after the first causes of a child.
        let untraced = refusal.causes.get(origins.len()..).filter(|causes| !causes.is_empty());
        let rest = untraced.map(|causes| {
            let message = format!("{} that are not listed", counted(causes.len(), "more error"));
            layers.finding(&refusal, &Cause { message, field: String::new(), ..causes[0].clone() }, None)
        });
        for (cause, origin) in refusal.causes.iter().zip(origins) {
            let finding = layers.finding(&refusal, cause, origin.as_deref());
            let is_new = origin.is_none_or(|origin| {
                known.insert((origin, cause.reason, cause.message.replace(&cause.field, "")))
            });
            if is_new && !all.contains(&finding) {
                all.push(finding);
            }
        }
        all.extend(rest);
    }
    all
}

/// Returns the sentences of [`findings`] as one message, or `None` if all children would be accepted.
pub(crate) fn message(
    scene: &Scene,
    service: &LLMInferenceService,
    planned: &PlannedService,
) -> Option<String> {
    let found = findings(scene, service, planned);
    let sentences: Vec<String> = found.iter().map(Finding::what).collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

struct Layers<'a> {
    scene: &'a Scene,
    service: &'a LLMInferenceService,
    effective: Option<&'a Effective>,
}

// === impl Layers ===

impl Layers<'_> {
    fn finding(&self, refusal: &Refusal, cause: &Cause, origin: Option<&str>) -> Finding {
        let kind = objects::kind_of(refusal.child.kind);
        let whose = match refusal.child.kind {
            _ if !refusal.of_operator => "",
            ChildKind::ScaledObject => "the HorizontalPodAutoscaler of ",
            _ => "the pods of ",
        };
        let field = if cause.field.is_empty() { String::new() } else { format!(" at {}", cause.field) };
        let path = origin.unwrap_or("spec");
        let mut finding = self.place(path);
        // A refused name identifies nothing, so its element is addressed by position.
        let is_name = |path: &str| path.ends_with("].name");
        if !is_name(path) || !is_name(&finding.path) {
            path.clone_into(&mut finding.path);
        }
        cause.reason.clone_into(&mut finding.reason);
        finding.message = format!(
            "{} (an API server would refuse {whose}{kind} {}{field})",
            cause.message, refusal.child.key.name
        );
        finding.hint = self
            .routing_advice(refusal, cause)
            .or_else(|| self.handlers(cause, path))
            .or_else(|| self.advice(cause, path))
            .or_else(|| self.limits(cause, path))
            .or(finding.hint);
        finding
    }

    /// Creates a finding at the field of the service, or of the config from which the field comes.
    fn place(&self, path: &str) -> Finding {
        let metadata = &self.service.metadata;
        let own = self.scene.document("LLMInferenceService", &Key::of(self.service));
        // A manifest may have another version.
        let name = own.map_or_else(
            || ObjectName {
                api_version: API_VERSION.to_owned(),
                kind: "LLMInferenceService".to_owned(),
                namespace: metadata.namespace.clone().unwrap_or_default(),
                name: metadata.name.clone().unwrap_or_default(),
            },
            |own| ObjectName::of(own, Namespace::of(metadata)),
        );
        let given = self.effective.into_iter().flat_map(|effective| self.scene.layer_documents(effective));
        let given = given.map(|(key, document)| (document, Some(key)));
        // The topmost of the layers that have the most of the path.
        let mut found: Option<(usize, String, &Document, Option<Key>)> = None;
        for (document, key) in own.map(|document| (document, None)).into_iter().chain(given) {
            let (steps, written) = nearest(document, path);
            if found.as_ref().is_none_or(|(most, ..)| steps > *most) {
                found = Some((steps, written, document, key));
            }
        }
        let Some((_, written, document, key)) = found else {
            return Finding {
                object: Some(name.clone()),
                ..Finding::of_file(name.to_string(), None, Source::Plan)
            };
        };
        let mut finding = Finding::at(document, &name, &written, Source::Plan);
        finding.hint = key.map(|key| {
            format!("the field comes from LLMInferenceServiceConfig {}/{}", key.namespace, key.name)
        });
        finding
    }

    /// Advice for a header value that has no room for the names of all adapters.
    fn routing_advice(&self, refusal: &Refusal, cause: &Cause) -> Option<String> {
        let adapters = self.effective?.spec.adapters().len();
        if refusal.child.kind != ChildKind::HTTPRoute || adapters == 0 {
            return None;
        }
        (cause.reason == "FieldValueTooLong" && cause.field.contains(".headers[")).then(|| {
            format!(
                "the value names the base model and {adapters} LoRA adapters: shorten their names, or use several services"
            )
        })
    }

    /// Advice for a probe or a hook that has handlers of several layers.
    fn handlers(&self, cause: &Cause, path: &str) -> Option<String> {
        if !cause.message.contains("more than 1 handler type") {
            return None;
        }
        let is_handler = |name: &str| HANDLERS.contains(&name);
        let parent = match path.rsplit_once('.') {
            Some((parent, last)) if is_handler(last) => parent,
            _ => path,
        };
        let parent = format!("{}.", parent.strip_prefix("spec.")?);
        let provenance = self.effective?.provenance();
        let mut origins: BTreeMap<&str, String> = BTreeMap::new();
        for (leaf, from) in provenance.iter() {
            let Some(below) = leaf.strip_prefix(&*parent) else { continue };
            let handler = below.split(['.', '[']).next().unwrap_or_default();
            if is_handler(handler) {
                origins.entry(handler).or_insert_with(|| from.origin.to_string());
            }
        }
        let listed: Vec<String> =
            origins.iter().map(|(handler, origin)| format!("{handler} from {origin}")).collect();
        let is_merged = origins.values().collect::<BTreeSet<_>>().len() > 1;
        is_merged.then(|| {
            format!(
                "merging keeps both handlers ({}): write the same handler in both, because no layer can remove that of a lower one",
                listed.join(", ")
            )
        })
    }

    /// Advice for a container without an image.
    fn advice(&self, cause: &Cause, path: &str) -> Option<String> {
        if cause.reason != "FieldValueRequired" {
            return None;
        }
        let (containers, container) = path.strip_suffix("].image")?.rsplit_once("[name=")?;
        let composed = serde_json::to_value(&self.effective?.spec).ok()?;
        let main = format!("{}[name={MAIN_CONTAINER}].image", containers.strip_prefix("spec.")?);
        let has_main = paths::positions(&composed, &main).is_some();
        Some(if has_main && containers.ends_with("containers") && container != MAIN_CONTAINER {
            let what = if containers.contains("scheduler") { "the picker" } else { "the model server" };
            format!(
                "did you mean `{MAIN_CONTAINER}`? the presets describe {what} in the container `{MAIN_CONTAINER}`, and none has a container \
                 `{container}`"
            )
        } else {
            format!("set the image: no layer of the service has one for the container `{container}`")
        })
    }

    /// Advice for devices that are requested and not limited: the two must be equal.
    fn limits(&self, cause: &Cause, path: &str) -> Option<String> {
        if cause.reason != "FieldValueRequired" {
            return None;
        }
        let resources = path.strip_prefix("spec.")?.strip_suffix(".limits")?;
        let composed = serde_json::to_value(&self.effective?.spec).ok()?;
        let steps = paths::parse(resources)?;
        let resources = steps.iter().try_fold(&composed, |value, step| Some(step.follow(value)?.0))?;
        let requests = resources["requests"].as_object()?.iter();
        let mut wanted =
            requests.filter(|(name, _)| name.contains('/') && resources["limits"].get(*name).is_none());
        let (name, amount) = wanted.next()?;
        Some(format!("write {name}: {amount} below `limits` too: devices are given by their limit"))
    }
}

/// Returns how many steps of a path lead into a document, and these steps with positions in place of names.
pub(crate) fn nearest(document: &Document, path: &str) -> (usize, String) {
    let steps = paths::parse(path).unwrap_or_default();
    (1..=steps.len())
        .rev()
        .find_map(|end| Some((end, paths::positions(&document.object, &paths::written(&steps[..end]))?)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::{
        diff,
        render::{self, Severity},
        scene::Scene,
        settings::Settings,
        validate::validate,
    };

    /// Returns `file:line severity path reason: message (hint)` for each finding of `validate`.
    fn finding_lines(text: &str) -> Vec<String> {
        let reading = longboat_manifest::parse_all("f.yaml", text);
        let findings = validate(reading, &Settings::default()).findings.into_iter();
        // The model servers here have no devices, which is no topic of these tests.
        let show = findings.filter(|finding| finding.reason != "NoDevice").map(|finding| {
            let hint = finding.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            let (line, word) = (finding.line.unwrap_or_default(), finding.severity.name());
            format!("{line} {word} {} {}: {}{hint}", finding.path, finding.reason, finding.message)
        });
        show.collect()
    }

    fn service(more: &str) -> String {
        format!(
            "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: one}}\nspec:\n  model: {{uri: 'hf://a/b'}}\n{more}"
        )
    }

    const NO_IMAGE: &str =
        "  template:\n    containers:\n    - name: vllm\n      args: [--max-model-len, '10']\n";

    const CONFIG: &str = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: probes}\nspec:\n  template:\n    containers:\n    - name: main\n      livenessProbe:\n        exec: {command: ['true']}\n";

    #[test]
    fn a_container_without_an_image_is_an_error_at_the_container() {
        assert_eq!(
            finding_lines(&service(NO_IMAGE)),
            [
                "8 error spec.template.containers[name=vllm].image FieldValueRequired: Required value (an API server would \
                 refuse Deployment one-kserve at spec.template.spec.containers[0].image) (did you mean `main`? the presets \
                 describe the model server in the container `main`, and none has a container `vllm`)"
            ]
        );
    }

    #[test]
    fn a_finding_has_the_version_of_the_manifest() {
        let text = service(NO_IMAGE).replace("v1alpha2", "v1alpha1");
        let reading = longboat_manifest::parse_all("f.yaml", &text);
        let report = validate(reading, &Settings::default());
        let refused: Vec<_> = report.findings.iter().filter(|found| found.is_error()).collect();
        let object = refused[0].object.as_ref().unwrap();
        assert_eq!(object.api_version, "serving.kserve.io/v1alpha1", "{refused:#?}");
        assert_eq!(report.checked, [(object.clone(), false)]);
    }

    #[test]
    fn a_device_that_is_only_requested_is_an_error_with_the_limit_to_write() {
        let pod = "  template:\n    containers:\n    - name: main\n      resources: {requests: {cpu: 1, nvidia.com/gpu: 2}}\n";
        assert_eq!(
            finding_lines(&service(pod)),
            [
                "9 error spec.template.containers[name=main].resources.limits FieldValueRequired: Required value: Limit must be \
                 set for non overcommitable resources (an API server would refuse Deployment one-kserve at \
                 spec.template.spec.containers[0].resources.limits) (write nvidia.com/gpu: \"2\" below `limits` too: devices are \
                 given by their limit)"
            ]
        );
    }

    #[test]
    fn two_handlers_after_merging_are_an_error_in_the_layer_that_added_one() {
        let found = finding_lines(&(service("  baseRefs: [{name: probes}]\n") + CONFIG));
        assert_eq!(found.len(), 1, "{found:#?}");
        let start = "15 error spec.template.containers[name=main].livenessProbe";
        assert!(found[0].starts_with(start), "{found:#?}");
        assert!(found[0].contains("may not specify more than 1 handler type"), "{found:#?}");
        assert!(
            found[0].ends_with(
                "(merging keeps both handlers (exec from LLMInferenceServiceConfig default/probes, httpGet from \
                 LLMInferenceServiceConfig kserve/kserve-config-llm-template): write the same handler in both, because no layer can \
                 remove that of a lower one)"
            ),
            "{found:#?}"
        );
    }

    #[test]
    fn a_route_that_grows_over_a_limit_is_an_error() {
        let with_adapters = |count: usize, name: &str, annotation: &str| {
            let adapters: Vec<String> =
                (0..count).map(|at| format!("{{name: {name}{at}, uri: 'hf://a/adapter-{at}'}}")).collect();
            let router = format!("  router: {{gateway: {{}}, route: {{}}, scheduler: {{}}}}\n{annotation}");
            let text = service(&router).replace(
                "model: {uri: 'hf://a/b'}",
                &format!("model: {{uri: 'hf://a/b', lora: {{adapters: [{}]}}}}", adapters.join(", ")),
            );
            finding_lines(&text)
        };
        let regex = "  annotations: {serving.kserve.io/lora-model-routing-strategy: regex}\n";
        // The controller adds a match to each rule for each adapter.
        assert_eq!(with_adapters(7, "a", ""), Vec::<String>::new());
        let found = with_adapters(8, "a", "");
        let [line] = found.as_slice() else { panic!("{found:#?}") };
        assert!(line.contains("5 error spec.model.lora RoutingPreconditionNotMet: "), "{line}");
        assert!(line.contains("so 7 of the 8 LoRA adapters fit; set spec.annotations["), "{line}");

        assert_eq!(with_adapters(70, "a", regex), Vec::<String>::new());
        let found = with_adapters(70, &"long".repeat(20), regex);
        assert!(
            found.iter().all(|line| line.contains("shorten their names")) && !found.is_empty(),
            "{found:#?}"
        );
    }

    #[test]
    fn a_name_that_no_header_can_have_is_one_error_at_the_name() {
        let finding_lines = |base: &str, adapters: &[&str], more: &str| {
            let adapters = adapters.iter().map(|name| format!("      - {{name: {name}, uri: 'hf://a/x'}}\n"));
            let adapters: String = adapters.collect();
            let text = format!(
                "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: one}}\nspec:\n  model:\n    uri: hf://a/b\n    name: {base}\n    lora:\n      adapters:\n{adapters}  router: {{gateway: {{}}, route: {{}}, scheduler: {{}}}}\n{more}"
            );
            let errors = finding_lines(&text).into_iter().filter(|line| line.contains(" error "));
            errors.map(|line| line.split(": ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let regex = "  annotations: {serving.kserve.io/lora-model-routing-strategy: regex}\n";
        let invalid = |line: u32, path: &str| format!("{line} error spec.model.{path} FieldValueInvalid");
        for more in ["", regex] {
            let found = finding_lines("base", &["'ok'", "'é'", "also"], more);
            assert_eq!(found, [invalid(11, "lora.adapters[1].name")], "{more}");
        }
        let two = finding_lines("base", &["'é'", "'ü'"], "");
        assert_eq!(two, [invalid(10, "lora.adapters[0].name"), invalid(11, "lora.adapters[1].name")]);
        let base = finding_lines("'é'", &["ok"], "");
        assert_eq!(base, ["7 error spec.model.name InvalidRenderedConfig"]);
    }

    #[test]
    fn pods_of_groups_are_checked_although_the_server_accepts_the_group() {
        let worker = "  parallelism: {data: 2, dataLocal: 1}\n  worker:\n    containers:\n    - name: main\n    - name: logs\n      args: [-f]\n";
        let found = finding_lines(&service(worker));
        assert!(
            found.iter().any(|line| line.starts_with("10 error spec.worker.containers[name=logs].image")
                && line.contains("refuse the pods of LeaderWorkerSet")),
            "{found:#?}"
        );
    }

    #[test]
    fn render_prints_the_refusal_and_diff_stops_at_it() {
        let scene = |text: &str| {
            let documents = longboat_manifest::parse("f.yaml", text).unwrap();
            Scene::new(&documents, &Settings::default()).unwrap()
        };
        let broken = scene(&service(NO_IMAGE));
        let rendered = render::children(&broken, &broken.subjects[0].service).unwrap();
        assert!(rendered.incomplete);
        let refused: Vec<&str> = rendered
            .notes
            .iter()
            .filter(|note| note.severity == Severity::Refused)
            .map(|note| note.message.as_str())
            .collect();
        assert_eq!(refused.len(), 1);
        assert!(
            refused[0].starts_with("spec.template.containers[name=vllm].image: Required value"),
            "{refused:#?}"
        );
        let (differences, failed) = diff::diff(&scene(&service("")), &broken, false);
        assert!(differences.is_empty());
        assert_eq!(failed[0].source.to_string(), render_sentence(refused[0]));
    }

    /// The sentence without the advice.
    fn render_sentence(refused: &str) -> String {
        refused.split(" (did you mean").next().unwrap_or_default().to_owned()
    }

    #[test]
    fn pipeline_parallelism_without_a_preset_is_an_error_that_names_the_presets() {
        let found = finding_lines(&service(
            "  parallelism:\n    pipeline: 2\n  worker: {containers: [{name: main}]}\n",
        ));
        let start =
            "7 error spec.parallelism.pipeline ConfigNotFound: there is no preset for pipeline parallelism: ";
        let error = found.iter().find(|line| line.starts_with(start)).unwrap();
        assert!(error.contains("kserve-config-llm-worker-data-parallel"), "{error}");
        let half = "{template: {}, parallelism: {pipeline: 2}, worker: {containers: [{name: main}]}}";
        let found = finding_lines(&service(&format!("  prefill: {half}\n")));
        let is_it =
            |line: &String| line.starts_with("6 error spec.prefill.parallelism.pipeline ConfigNotFound");
        assert!(found.iter().any(is_it), "{found:#?}");
    }

    #[test]
    fn a_topology_that_only_the_layers_together_have_is_a_warning() {
        let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: four}\nspec:\n  parallelism: {tensor: 4}\n";
        let limits = "  baseRefs: [{name: four}]\n  template:\n    containers:\n    - name: main\n      resources: {limits: {nvidia.com/gpu: '1'}}\n";
        assert_eq!(
            finding_lines(&(service(limits) + config)),
            ["10 warning spec.template.containers[0].resources.limits Warning: gives the model server 1 of \
                 nvidia.com/gpu, and parallelism.tensor needs 4: it will not start"]
        );
    }

    #[test]
    fn each_pod_of_a_group_needs_devices_for_its_ranks() {
        let with = |tensor: &str| {
            let main = |count: u8| {
                format!(
                    "{{containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: '{count}'}}}}}}]}}"
                )
            };
            finding_lines(&service(&format!(
                "  parallelism: {{data: 16, dataLocal: 8{tensor}}}\n  template: {}\n  worker: {}\n",
                main(8),
                main(4)
            )))
        };
        for tensor in ["", ", tensor: 1"] {
            let found = with(tensor);
            let why = "gives the model server 4 of nvidia.com/gpu, and parallelism.tensor 1 for each of 8 local ranks needs 8";
            assert!(found.len() == 1 && found[0].contains(why), "{found:#?}");
        }
    }

    #[test]
    fn the_autoscaler_that_keda_creates_is_checked_although_the_server_accepts_its_object() {
        let scaling = |behavior: &str| {
            finding_lines(&service(&format!(
                "  scaling:\n    maxReplicas: 3\n    keda:\n      triggers:\n      - {{type: cpu, metricType: Utilization, metadata: {{value: '80'}}}}\n      \
                 advanced:\n        horizontalPodAutoscalerConfig:\n          behavior: {{scaleDown: {behavior}}}\n  template: {{containers: [{{name: main, resources: {{requests: {{cpu: '1'}}}}}}]}}\n"
            )))
        };
        assert_eq!(scaling("{stabilizationWindowSeconds: 60}"), [""; 0]);
        let path = "advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds";
        assert_eq!(
            scaling("{stabilizationWindowSeconds: 4000}"),
            [format!(
                "13 error spec.scaling.keda.{path} FieldValueInvalid: Invalid value: 4000: must be less than or equal to 3600 (an \
                 API server would refuse the HorizontalPodAutoscaler of ScaledObject one-kserve-keda at spec.{path})"
            )]
        );
    }
}
