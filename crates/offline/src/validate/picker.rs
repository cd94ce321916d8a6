//! Findings about the configuration of a service's picker: what the picker itself would say when it starts.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use longboat_api::{
    picker_config::{is_text_flag, plugin_types},
    picker_plugins::{PRECISE_PRODUCER, PRECISE_SCORER, PREFIX_SCORER, TOKEN_PRODUCER},
    reasons::event::DEPRECATED_PLUGIN,
    v1alpha2::LLMInferenceService,
};
use longboat_compose::{DEFAULT_CONFIG_KEY, platform::Images};
use longboat_key::{Key, Name, Namespace, nearest};
use longboat_manifest::{Document, parallel};
use longboat_plan::{ConfigOrigin, Objects, PickerConfig, PickerRefusal, PickerWarnings, RefusedBy, names};
use serde_json::Value;

use super::role_flags;
use crate::{
    finding::{Finding, ObjectName, Severity, Source},
    scene::{PlannedService, Scene},
};

/// The reason of findings about the configuration of a picker.
pub const PICKER_CONFIG: &str = "PickerConfigRefused";
/// The reason of findings about a configuration that this build's picker reads, and another release does not.
const PICKER_CONFIG_VERSION: &str = "PickerConfigVersion";
/// The reason of findings about fields of a configuration that have no effect.
const PICKER_CONFIG_WITHOUT_EFFECT: &str = "PickerConfigWithoutEffect";

/// A former parameter, which now has the name `blockSizeTokens`.
const HASH_BLOCK_SIZE: &str = "hashBlockSize";
/// The parameters that `prefix-cache-scorer` had. All others are those of `approx-prefix-cache-producer` now.
const PREFIX_PARAMETERS: [&str; 8] = [
    "autoTune",
    "blockSize",
    "blockSizeTokens",
    HASH_BLOCK_SIZE,
    "lruCapacityPerServer",
    "maxPrefixBlocksToMatch",
    "maxPrefixTokensToMatch",
    "sharedPrefixAfter",
];

/// The fields of a service or config that may hold a picker's configuration.
const SCHEDULER: &str = "spec.router.scheduler";

/// Returns the findings about the pickers and sidecars of all services of a scene that come from manifests.
pub fn picker_findings(scene: &Scene) -> Vec<Finding> {
    let given: Vec<_> = scene.subjects.iter().filter(|subject| subject.given).collect();
    let of_each = parallel::map(&given, |subject| {
        let document = scene.document("LLMInferenceService", &Key::of(subject.service.as_ref()));
        // The verbs themselves report what cannot be planned.
        let (Some(document), Ok(planned)) = (document, scene.plan(&subject.service)) else {
            return Vec::new();
        };
        let mut all = findings(scene, document, &subject.service, &planned);
        all.extend(role_flags::findings(scene, document, &subject.service, &planned));
        all
    });
    of_each.into_iter().flatten().collect()
}

/// Returns all reasons why the picker of a planned service will not start, and which parts of its configuration have no effect. The
/// position is that of the field in the manifest that has the configuration.
pub(crate) fn findings(
    scene: &Scene,
    document: &Document,
    service: &LLMInferenceService,
    planned: &PlannedService,
) -> Vec<Finding> {
    let own = Name::of(&service.metadata);
    let Some(picker) = planned.plan.children.deployment(&names::scheduler(own)) else { return Vec::new() };
    let config_maps = &planned.snapshot.config_maps;
    let written = |origin: &ConfigOrigin| PickerConfigText::find(scene, document, service, planned, origin);
    let name = ObjectName::of(document, Namespace::of(&service.metadata));
    let at_scheduler = || Finding::at(document, &name, SCHEDULER, Source::Plan);
    let mut findings = Vec::new();
    let images = &planned.snapshot.platform.images;
    for refusal in PickerRefusal::all(picker, config_maps, images) {
        let finding = refused(&refusal, images, at_scheduler());
        findings.push(match written(&refusal.origin) {
            Some(written) => {
                let place = refusal.place(&written.text);
                let hint = finding.hint.clone().or_else(|| estimating(&written.text, &place));
                written.locate(&place, Finding { hint, ..finding })
            }
            None => finding,
        });
    }
    findings.extend(removed(picker, config_maps, &written, &at_scheduler));
    findings.extend(deprecated(planned, &written, &at_scheduler));
    // A configuration that no manifest has is none of the user's.
    let warnings = PickerWarnings::of(picker, config_maps);
    if let Some((warnings, written)) = warnings.and_then(|all| written(&all.origin).map(|text| (all, text))) {
        findings.extend(warnings.texts.into_iter().map(|message| {
            let inner = message.split([':', ' ']).next().unwrap_or_default();
            let rest = message.strip_prefix(inner).and_then(|rest| rest.strip_prefix(": "));
            let finding = at_scheduler().warning(PICKER_CONFIG_WITHOUT_EFFECT, rest.unwrap_or(&message));
            written.locate(inner, finding)
        }));
    }
    findings
}

/// Says what to do about a `token-producer` that estimates, beside the tokenizer that the controller adds to each.
fn estimating(written: &str, place: &str) -> Option<String> {
    let config: Value = serde_saphyr::from_str(written).ok()?;
    let is_estimating = |(at, plugin): (usize, &Value)| {
        let parameters = &plugin["parameters"];
        place == format!("plugins[{at}].parameters")
            && plugin["type"] == TOKEN_PRODUCER
            && !parameters["estimate"].is_null()
            && parameters["vllm"].is_null()
    };
    config["plugins"].as_array()?.iter().enumerate().any(is_estimating).then(|| {
        format!("remove the plugin {TOKEN_PRODUCER}: the controller gives each one a tokenizer, and without it tokens are estimated")
    })
}

/// Returns the warning of the plan about a plugin that newer pickers lack. The webhooks say the same about an inline object.
fn deprecated<'a>(
    planned: &PlannedService,
    written: &impl Fn(&ConfigOrigin) -> Option<PickerConfigText<'a>>,
    at_scheduler: &impl Fn() -> Finding,
) -> Option<Finding> {
    let event = planned.plan.events.iter().find(|event| event.reason == DEPRECATED_PLUGIN)?;
    let written = written(&ConfigOrigin::Arguments).filter(|written| written.is_text)?;
    let config: Value = serde_saphyr::from_str(&written.text).ok()?;
    let at = plugin_types(&config).position(|name| name == PRECISE_SCORER)?;
    let message = format!(
        "uses the deprecated plugin {PRECISE_SCORER}: it is read as {PRECISE_PRODUCER} with {PREFIX_SCORER}"
    );
    let finding = at_scheduler().warning(event.reason, message);
    Some(written.locate(&format!("plugins[{at}].type"), finding))
}

/// Returns a warning for each parameter that the controller leaves out, as the reference does without a word.
fn removed<'a>(
    picker: &Deployment,
    config_maps: &Objects<ConfigMap>,
    written: &impl Fn(&ConfigOrigin) -> Option<PickerConfigText<'a>>,
    at_scheduler: &impl Fn() -> Finding,
) -> Vec<Finding> {
    let config = PickerConfig::of(picker, config_maps);
    let Some((config, written)) =
        config.and_then(|config| written(&config.origin).map(|text| (config, text)))
    else {
        return Vec::new();
    };
    let warning = |(plugin, inner): (String, String)| {
        const MESSAGE: &str =
            "has no effect: pickers of this release do not have it here, so the controller leaves it out";
        let parameter = inner.rsplit('.').next().unwrap_or_default();
        let finding = at_scheduler().warning(PICKER_CONFIG_WITHOUT_EFFECT, MESSAGE);
        written.locate(&inner, finding.with_hint(in_place_of(&plugin, parameter)))
    };
    config.removed_parameters(&written.text).into_iter().map(warning).collect()
}

/// Says what to write in place of a parameter that the controller leaves out.
fn in_place_of(plugin: &str, parameter: &str) -> String {
    const PRODUCER: &str = "as a parameter of a plugin of the type `approx-prefix-cache-producer`";
    if plugin != "prefix-cache-scorer" {
        return "remove it".to_owned();
    }
    let is_known = PREFIX_PARAMETERS.contains(&parameter);
    match is_known.then_some(parameter).or_else(|| nearest(PREFIX_PARAMETERS, parameter)) {
        None => "remove it".to_owned(),
        Some(HASH_BLOCK_SIZE) => format!("write `blockSizeTokens` {PRODUCER}"),
        Some(meant) => format!("write `{meant}` {PRODUCER}"),
    }
}

/// Describes a refusal: an error if the picker is this build's, a warning for another one.
fn refused(refusal: &PickerRefusal, images: &Images, finding: Finding) -> Finding {
    let image = if refusal.image.is_empty() { "another picker" } else { &refusal.image };
    let (reason, hint) = match refusal.by {
        RefusedBy::ThisBuild if refusal.is_ours(images) => (PICKER_CONFIG, None),
        RefusedBy::ThisBuild => {
            let hint = "this is what this build's picker says; {image} may know other plugins and fields";
            (PICKER_CONFIG, Some(hint.replace("{image}", image)))
        }
        RefusedBy::Llmd => {
            let hint = "this is what llm-d's picker of the version in annotation app.kubernetes.io/version says; {image} may \
                        be another one";
            (PICKER_CONFIG_VERSION, Some(hint.replace("{image}", image)))
        }
        RefusedBy::LaterReleases => {
            (PICKER_CONFIG_VERSION, Some("this build's picker takes the field as before".to_owned()))
        }
    };
    let finding = finding.error(reason, refusal.to_string());
    // What another release of the picker takes, this build cannot say for certain.
    let severity = if hint.is_some() { Severity::Warning } else { Severity::Error };
    Finding { severity, hint, ..finding }
}

/// Returns an error if the service or its layers refer to a ConfigMap of these manifests whose text is no configuration of a picker.
/// An API server would only say that the merged field has the wrong type.
pub(super) fn unreadable_reference(
    scene: &Scene,
    layers: &[&Document],
    finding: &Finding,
    namespace: Namespace<&str>,
) -> Option<Finding> {
    let configured = layers.iter().find_map(|layer| layer.object.pointer("/spec/router/scheduler/config"))?;
    let written = PickerConfigText::of_reference(scene, namespace, configured)?;
    let (inner, error) = longboat_plan::refusal_of_text(&written.text)?;
    let finding = finding.clone().error(PICKER_CONFIG, format!("the picker will not start: {error}"));
    Some(written.locate(&inner, Finding { hint: None, ..finding }))
}

/// The configuration as a user wrote it.
struct PickerConfigText<'a> {
    /// The manifest that has it.
    document: &'a Document,
    /// Its field there.
    path: String,
    /// The configuration, as YAML or JSON.
    text: String,
    /// Whether the field is this text, and not an object.
    is_text: bool,
}

// === impl PickerConfigText ===

impl<'a> PickerConfigText<'a> {
    /// Moves a finding to a field of the configuration.
    fn locate(&self, inner: &str, finding: Finding) -> Finding {
        let path = below(&self.path, inner);
        let place = if self.is_text {
            self.document.locate_within(&self.path, &self.text, inner)
        } else {
            self.document.locate(&path).key
        };
        let file = self.document.source.to_string();
        let own = finding.object.as_ref().map_or("", |object| &*object.namespace);
        let namespace = Some(self.document.namespace()).filter(|named| !named.is_empty()).unwrap_or(own);
        let object = Some(ObjectName::of(self.document, Namespace(namespace)));
        Finding { file, line: Some(place.line), column: Some(place.column), object, path, ..finding }
    }

    /// Finds the configuration in the manifests. Returns `None` if it is in none of them, such as one of a cluster.
    fn find(
        scene: &'a Scene,
        document: &'a Document,
        service: &LLMInferenceService,
        planned: &PlannedService,
        origin: &ConfigOrigin,
    ) -> Option<Self> {
        if let ConfigOrigin::ConfigMap { map, key } = origin {
            return Self::of_map(scene, map, key);
        }
        // A later layer replaces what an earlier one sets, and the service is the last one.
        let configs = planned.effective.iter().flat_map(|effective| scene.layer_documents(effective));
        let configs = configs.map(|(_, document)| document);
        let layers: Vec<&Document> = std::iter::once(document).chain(configs).collect();
        let configured = layers.iter().find_map(|layer| {
            let config = layer.object.pointer("/spec/router/scheduler/config")?;
            Self::of_reference(scene, Namespace::of(&service.metadata), config)
                .or_else(|| Self::of_field(layer, format!("{SCHEDULER}.config.inline"), &config["inline"]))
        });
        configured.or_else(|| layers.into_iter().find_map(Self::of_arguments))
    }

    fn of_field(document: &'a Document, path: String, value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(Self { document, path, text: text.clone(), is_text: true }),
            value => Some(Self { document, path, text: value.to_string(), is_text: false }),
        }
    }

    /// The text of the ConfigMap that a service or config refers to.
    fn of_reference(scene: &'a Scene, namespace: Namespace<&str>, config: &Value) -> Option<Self> {
        let name = Name(config["ref"]["name"].as_str()?);
        let key = config["ref"]["key"].as_str().filter(|key| !key.is_empty()).unwrap_or(DEFAULT_CONFIG_KEY);
        let system = scene.snapshot().system_namespace.as_deref();
        let namespaces = [namespace, system];
        namespaces.into_iter().find_map(|namespace| Self::of_map(scene, &Key::new(namespace, name), key))
    }

    fn of_map(scene: &'a Scene, map: &Key, key: &str) -> Option<Self> {
        let document = scene.document("ConfigMap", map)?;
        Self::of_field(document, format!("data.{key}"), &document.object["data"][key])
    }

    /// The text in the arguments of the picker's container.
    fn of_arguments(document: &'a Document) -> Option<Self> {
        let containers = document.object.pointer("/spec/router/scheduler/template/containers")?.as_array()?;
        let (at, main) = containers.iter().enumerate().find(|(_, container)| container["name"] == "main")?;
        ["args", "command"].into_iter().find_map(|field| {
            let words: Vec<&str> = main[field].as_array()?.iter().filter_map(Value::as_str).collect();
            // The last of several flags counts.
            let flag = words.iter().rposition(|word| is_text_flag(word.split('=').next().unwrap_or(word)))?;
            let path = |index| format!("{SCHEDULER}.template.containers[{at}].{field}[{index}]");
            let (path, text) = match words[flag].split_once('=') {
                Some((_, text)) => (path(flag), text),
                None => (path(flag + 1), *words.get(flag + 1)?),
            };
            Some(Self { document, path, text: text.to_owned(), is_text: true })
        })
    }
}

fn below(path: &str, inner: &str) -> String {
    if inner.is_empty() { path.to_owned() } else { format!("{path}.{inner}") }
}
