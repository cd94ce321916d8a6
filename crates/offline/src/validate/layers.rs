//! Findings of the controller when it composes a service.

use std::collections::BTreeSet;

use longboat_admission::Facts;
use longboat_api::{fields, reasons::condition, v1alpha2::LLMInferenceService};
use longboat_compose::{ComposeError, Effective, Origin, RefusedField};
use longboat_key::{Key, Name, Namespace, nearest};
use longboat_manifest::Document;
use longboat_strategy::kinds::Resource;

use super::{
    absent::ManifestObjects, advice, attachment::ManifestGateways, base_refs, claims::SingleNodeClaims, keda,
    own_routes, picker, role_flags,
};
use crate::{
    advice::keys,
    finding::{Finding, ObjectName, Severity, Source},
    refusal,
    scene::{PlannedService, PlanningError, Scene},
    stored::{hint, template, unknown},
};

/// What people name a runtime that the presets make unnecessary.
const VLLM: &str = "vllm";
/// The URI schemes of models.
const SCHEMES: &str = "hf://, s3://, gs://, http(s)://, pvc://, oci:// or file://";

/// Composes services, plans their children, and checks the results.
pub(super) struct Layers<'a> {
    pub(super) scene: &'a Scene,
    pub(super) facts: &'a Facts,
    /// The kind LLMInferenceService in the storage version.
    pub(super) resource: &'a Resource,
    /// The configs in the manifests that have errors themselves.
    pub(super) broken: BTreeSet<Key>,
    /// The Gateways in the manifests.
    pub(super) gateways: ManifestGateways<'a>,
    /// The objects in the manifests.
    pub(super) given: ManifestObjects,
    /// The claims in the manifests.
    pub(super) claims: SingleNodeClaims,
}

// === impl Layers ===

impl Layers<'_> {
    /// Composes and plans one service that is valid on its own.
    pub(super) fn check(
        &self,
        document: &Document,
        service: &LLMInferenceService,
        name: &ObjectName,
        planned: &Result<PlannedService, PlanningError>,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut incomplete = false;
        for (index, reference) in service.spec.base_refs.iter().enumerate() {
            if self.is_there(Namespace(&name.namespace), Name(&reference.name)) {
                continue;
            }
            incomplete = true;
            findings.push(if self.is_broken(Namespace(&name.namespace), Name(&reference.name)) {
                base_refs::broken(document, name, index, &reference.name)
            } else if let Some(misnamed) = base_refs::misnamed(document, name, index, &reference.name) {
                misnamed
            } else {
                self.missing(document, name, index, &reference.name)
            });
        }
        // Without one of its layers a service lacks fields, and every other finding might be wrong.
        if incomplete {
            return findings;
        }
        let of_plan = planned.as_ref().ok().and_then(|planned| Some((planned, planned.effective.as_ref()?)));
        let composed;
        let effective = match of_plan {
            Some((_, effective)) => effective,
            // The plan has nothing of a spec that is refused, and a stopped service has a plan without one.
            None => match self.scene.compose(service) {
                Ok(effective) => {
                    composed = effective;
                    &composed
                }
                Err(error) => return self.failed(document, service, name, &error),
            },
        };
        for warning in &effective.warnings {
            let finding = Finding::at(document, name, "spec", Source::Compose);
            findings.push(finding.warning(warning.reason, &warning.message));
        }
        findings.extend(topologies(document, name, service, effective));
        findings.extend(unknown::of_adapters(self.resource, document, name));
        findings.extend(unknown::without_value(document, name));
        self.rendered(document, name, effective, &mut findings);
        let plan = of_plan.map(|(planned, _)| planned);
        findings.extend(advice::findings(self.scene, document, name, service, effective, plan));
        if findings.iter().all(|finding| finding.severity != Severity::Error) {
            self.planned(document, service, name, (effective, planned), &mut findings);
        }
        findings
    }

    /// Adds why the controller could not plan the objects of a composed service, why an API server would refuse them, and
    /// why its picker would not start.
    fn planned(
        &self,
        document: &Document,
        service: &LLMInferenceService,
        name: &ObjectName,
        (effective, planned): (&Effective, &Result<PlannedService, PlanningError>),
        findings: &mut Vec<Finding>,
    ) {
        let model = &effective.spec.model.uri;
        let (reason, message) = match planned {
            Ok(planned) => {
                findings.extend(picker::findings(self.scene, document, service, planned));
                findings.extend(role_flags::findings(self.scene, document, service, planned));
                findings.extend(refusal::findings(self.scene, service, planned));
                if let Some(effective) = &planned.effective {
                    let (plan, namespace) = (&planned.plan, Namespace(&*name.namespace));
                    let mut advice = self.gateways.of_service(&effective.spec, plan);
                    advice.extend(self.claims.of_service(namespace, &effective.spec, plan));
                    advice.extend(keys::of_plan(self.scene.snapshot(), service, &effective.spec, plan));
                    advice.extend(keda::of_service(service, plan, &self.given));
                    advice.extend(own_routes::of_service(
                        self.scene.snapshot(),
                        namespace,
                        &effective.spec,
                        plan,
                    ));
                    findings.extend(advice::located(self.scene, document, name, effective, advice));
                }
                findings.extend(self.given.note(document, service, planned, findings));
                let Some(problem) = &planned.plan.problem else { return };
                (problem.reason, problem.message.clone())
            }
            Err(PlanningError::Rejected(message)) => ("InvalidRenderedConfig", message.clone()),
            Err(error) => ("PlanError", error.to_string()),
        };
        let is_about_the_model = message.contains("model URI");
        let is_about_a_name = message.contains("it is not controlled by");
        let path = match reason {
            _ if is_about_the_model => "spec.model.uri",
            _ if is_about_a_name => "spec",
            condition::ROUTING_PRECONDITION_NOT_MET => "spec.model.lora",
            condition::SCHEDULER_RECONCILE_ERROR => "spec.router.scheduler",
            condition::HTTP_ROUTE_RECONCILE_ERROR => "spec.router.route",
            _ => "spec",
        };
        let mut finding = Finding::at(document, name, path, Source::Plan).error(reason, &message);
        if is_about_the_model {
            finding.hint = Some(match model.as_str() {
                "" => format!("set the address of the model: {SCHEMES}"),
                uri if let Some(hint) = hint::placeholder(uri) => hint,
                _ if let Some(meant) = model.address().meant() => format!("did you mean `{meant}`?"),
                _ => format!("models are downloaded from {SCHEMES}"),
            });
        } else if is_about_a_name {
            finding.hint =
                Some("rename or remove that object: the service makes one with this name".to_owned());
        } else if message.ends_with("not found") {
            // An object that is not in the files may be in the cluster.
            finding.severity = Severity::Warning;
            finding.hint = Some("it is not in these files, so it must exist on the cluster".to_owned());
        }
        findings.push(finding);
    }

    /// Describes why a service does not compose.
    fn failed(
        &self,
        document: &Document,
        service: &LLMInferenceService,
        name: &ObjectName,
        error: &ComposeError,
    ) -> Vec<Finding> {
        let found = failed(document, name, error);
        match error {
            ComposeError::ConfigNotFound { name: missing, .. } => {
                vec![self.missing_preset(document, missing, error, found)]
            }
            ComposeError::RefusedFields { fields, .. } => {
                fields.iter().map(|field| self.refused_field(document, field, found.clone())).collect()
            }
            ComposeError::RuntimeNotFound { name: wanted, .. } => {
                let meant = self.scene.nearest_runtime(Namespace(&name.namespace), wanted);
                let hint = match meant {
                    Some(meant) => Some(format!("did you mean `{meant}`?")),
                    None if wanted.contains(VLLM) => {
                        Some("remove spec.runtime: without it, the presets serve with vLLM".to_owned())
                    }
                    None => found.hint.clone(),
                };
                vec![Finding { hint, ..found }]
            }
            ComposeError::SchedulerConfigKey { namespace, name: map, key } => {
                vec![self.not_as_text(Namespace(namespace), Name(map), key, found)]
            }
            ComposeError::SchedulerConfigMissing { name: map, .. } => {
                vec![self.map_elsewhere(name, map, error, found)]
            }
            ComposeError::TemplateSyntax(message) | ComposeError::TemplateExecution(message) => {
                vec![self.broken_template(document, service, message, found)]
            }
            _ => vec![found],
        }
    }

    /// Adds what to do about a ConfigMap whose key has bytes.
    fn not_as_text(
        &self,
        namespace: Namespace<&str>,
        map: Name<&str>,
        key: &str,
        finding: Finding,
    ) -> Finding {
        let found = self.scene.snapshot().config_maps.get(namespace, map);
        let bytes = found.and_then(|found| found.binary_data.as_ref());
        let has_bytes = bytes.is_some_and(|bytes| bytes.contains_key(key));
        let hint = format!("write `{key}` as text below `data`: it is in `binaryData`, which nobody reads");
        if has_bytes { finding.with_hint(hint) } else { finding }
    }

    /// Says of a ConfigMap that is in another namespace where it must be.
    fn map_elsewhere(&self, name: &ObjectName, map: &str, error: &ComposeError, finding: Finding) -> Finding {
        let Some(elsewhere) = base_refs::elsewhere(self.given.of_kind("ConfigMap"), map) else {
            return finding;
        };
        let message = format!("{error}: it is in namespace {elsewhere}");
        let hint = format!("move the ConfigMap to namespace {}", name.namespace);
        Finding { message, ..finding }.with_hint(hint)
    }

    /// Moves a finding to the field in the layer that sets it, and names that layer.
    fn refused_field(&self, document: &Document, field: &RefusedField, mut finding: Finding) -> Finding {
        if let Some(layer) = self.scene.document_of(&field.origin, document) {
            finding.move_to(layer, field.path);
        }
        field.path.clone_into(&mut finding.path);
        finding.message.clone_from(&field.why);
        finding.hint =
            (field.origin != Origin::Service).then(|| format!("the field comes from {}", field.origin));
        finding
    }

    /// Moves a finding to the template that failed, if the files have it.
    fn broken_template(
        &self,
        document: &Document,
        service: &LLMInferenceService,
        message: &str,
        mut finding: Finding,
    ) -> Finding {
        let namespaces = [Namespace::of(&service.metadata), self.system()];
        let bases = service.spec.base_refs.iter().filter_map(|base| {
            namespaces.iter().find_map(|at| self.scene.config_document(&Key::new(*at, Name(&*base.name))))
        });
        let mut layers = std::iter::once(document).chain(bases);
        let found = layers.find_map(|layer| Some((layer, template::culprit(&layer.object, message)?)));
        if let Some((layer, path)) = found {
            finding.move_to(layer, &path);
        }
        finding
    }

    /// A preset that a service selects comes with the platform, so a missing one is not elsewhere on the cluster.
    fn missing_preset(
        &self,
        document: &Document,
        missing: &str,
        error: &ComposeError,
        mut finding: Finding,
    ) -> Finding {
        let presets = self.scene.preset_configs();
        if !missing.ends_with("-pipeline-parallel") || presets.is_empty() {
            return finding;
        }
        let of_groups: Vec<&str> =
            presets.iter().map(String::as_str).filter(|preset| preset.contains("-worker-")).collect();
        finding.severity = Severity::Error;
        let half = if missing.contains("-prefill-") { "spec.prefill" } else { "spec" };
        finding.move_to(document, &format!("{half}.parallelism.pipeline"));
        finding.message = format!("there is no preset for pipeline parallelism: {error}");
        finding.hint = Some(format!(
            "the presets of groups of pods are {}: set spec.parallelism.data and spec.parallelism.dataLocal, or add a config \
             {missing} with the pods of the group to these files",
            of_groups.join(", ")
        ));
        finding
    }

    fn is_there(&self, namespace: Namespace<&str>, name: Name<&str>) -> bool {
        [namespace, self.system()].iter().any(|at| self.scene.has_config(*at, name))
    }

    fn is_broken(&self, namespace: Namespace<&str>, name: Name<&str>) -> bool {
        [namespace, self.system()].iter().any(|at| self.broken.contains(&Key::new(*at, name)))
    }

    fn system(&self) -> Namespace<&str> {
        self.scene.snapshot().system_namespace.as_deref()
    }

    fn missing(&self, document: &Document, name: &ObjectName, index: usize, wanted: &str) -> Finding {
        let namespaces = format!("{} {}", name.namespace, self.system());
        let finding = Finding::at(document, name, &format!("spec.baseRefs[{index}].name"), Source::Compose);
        if let Some(elsewhere) = base_refs::elsewhere(self.scene.given_configs().chain(&self.broken), wanted)
        {
            let message = format!(
                "LLMInferenceServiceConfig {wanted:?} is in namespace {elsewhere}: it must be in one of the namespaces [{namespaces}]"
            );
            let hint = format!("move the config to namespace {}", name.namespace);
            return finding.warning("ConfigNotFound", message).with_hint(hint);
        }
        let message = format!(
            "LLMInferenceServiceConfig {wanted:?} is not in these files: it must be in one of the namespaces [{namespaces}] of the cluster"
        );
        let presets = self.scene.preset_configs();
        let known =
            self.scene.given_configs().map(|key| &*key.name).chain(presets.iter().map(String::as_str));
        let hint = match nearest(known, wanted) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "pass the file of the config too, to check the layers together".to_owned(),
        };
        finding.warning("ConfigNotFound", message).with_hint(hint)
    }
}

/// Returns warnings about topologies that only the layers together have. Admission warns of those of the service itself.
fn topologies(
    document: &Document,
    name: &ObjectName,
    service: &LLMInferenceService,
    effective: &Effective,
) -> Vec<Finding> {
    let own = fields::topology_warnings(&service.spec);
    let composed = fields::topology_warnings(&effective.spec).into_iter();
    let new = composed.filter(|warning| !own.contains(warning)).map(|warning| {
        let (path, text) = warning.split_once(' ').unwrap_or(("spec", &warning));
        Finding::at(document, name, path, Source::Compose).warning("Warning", text)
    });
    new.collect()
}

fn failed(document: &Document, name: &ObjectName, error: &ComposeError) -> Finding {
    let adapter;
    let path = match error {
        ComposeError::Adapter { name, .. } => {
            adapter = adapter_address(document, name);
            &*adapter
        }
        ComposeError::LoraMountPathCollision(_) => "spec.model.lora",
        ComposeError::SchedulerConfigKey { .. } | ComposeError::SchedulerConfigMissing { .. } => {
            "spec.router.scheduler.config"
        }
        ComposeError::KvTransferSlot { workload: "worker" } => "spec.worker",
        ComposeError::KvTransferSlot { workload: "prefill template" } => "spec.prefill.template",
        ComposeError::KvTransferSlot { workload: "prefill worker" } => "spec.prefill.worker",
        ComposeError::KvTransferSlot { .. } => "spec.template",
        ComposeError::ConfigNotFound { .. } | ComposeError::TemplateExecution(_) => "spec.baseRefs",
        ComposeError::RuntimeNotFound { .. }
        | ComposeError::RuntimeUnsupported { .. }
        | ComposeError::RefusedFields { .. } => "spec.runtime",
        _ => "spec",
    };
    let mut finding =
        Finding::at(document, name, path, Source::Compose).error(error.reason(), error.to_string());
    // An object that is not in the files may be in the cluster.
    if matches!(
        error,
        ComposeError::ConfigNotFound { .. }
            | ComposeError::RuntimeNotFound { .. }
            | ComposeError::SchedulerConfigMissing { .. }
    ) {
        finding.severity = Severity::Warning;
        finding.hint = Some("it is not in these files, so it must exist on the cluster".to_owned());
    }
    finding
}

/// Returns the path of the address of an adapter, or of the adapters if another layer has it.
fn adapter_address(document: &Document, name: &str) -> String {
    let adapters = document.object.pointer("/spec/model/lora/adapters").and_then(serde_json::Value::as_array);
    let at = adapters.and_then(|adapters| adapters.iter().position(|adapter| adapter["name"] == name));
    at.map_or_else(|| "spec.model.lora".to_owned(), |at| format!("spec.model.lora.adapters[{at}].uri"))
}

/// The key of a config in [`Layers`].
pub(super) fn key_of(name: &ObjectName) -> Key {
    Key::new(Namespace(&name.namespace), Name(&name.name))
}
