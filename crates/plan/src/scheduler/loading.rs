//! Whether a picker would start with the configuration that its Deployment gives it.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Container, KeyToPath, PodSpec, Volume},
};
use longboat_api::{
    picker_config::{config_flag, config_text, is_text_flag},
    picker_plugins::{PRECISE_PRODUCER, PRECISE_SCORER},
    v1alpha2::SchedulerSpec,
};
use longboat_compose::{
    platform::Images,
    version::{ANNOTATION, Version},
};
use longboat_key::{Key, Name, Namespace};
use longboat_scheduler::{
    ConfigError, Options,
    config::{self, LlmdRelease, LoadedConfig},
};
use longboat_store::Objects;
use serde_json::{Map, Value};

use super::{
    config as own_config,
    config_text::parse,
    plugin_list::{name_of, plugins},
    transform,
};
use crate::{
    flags,
    workload::pod_spec::{MAIN, container, main_args},
};

/// The start of an expression that composing replaces.
const TEMPLATE: &str = "{{";
/// A version to which every migration applies.
const NEWEST: &str = "999.0.0";
const ANY_TOKENIZER: &str = "http://tokenizer";
const EXPERIMENTAL: &str = "allow-experimental-plugins";
const GATES: &str = "feature-gates";

/// Why a picker will not start, or will not start after an upgrade.
#[derive(Debug)]
pub struct PickerRefusal {
    /// The image of the picker.
    pub image: String,
    /// Where its configuration is.
    pub origin: ConfigOrigin,
    /// Who refuses the configuration.
    pub by: RefusedBy,
    /// What is wrong with the configuration.
    pub error: ConfigError,
}

/// Parts of a picker's configuration that have no effect.
#[derive(Debug)]
pub struct PickerWarnings {
    /// Where the configuration is.
    pub origin: ConfigOrigin,
    /// Each begins with the path of its field in the configuration.
    pub texts: Vec<String>,
}

/// Who refuses a picker's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedBy {
    /// This build's picker.
    ThisBuild,
    /// The release of llm-d's picker that the pod template names. This build's picker would start.
    Llmd,
    /// Later releases only: this build's picker runs, and still takes a field that is gone in llm-d's.
    LaterReleases,
}

/// Where a picker's configuration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// In its arguments.
    Arguments,
    /// In a ConfigMap that is mounted as a file.
    ConfigMap {
        /// The ConfigMap.
        map: Key,
        /// The key of its data.
        key: String,
    },
}

/// The configuration that a picker's Deployment gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickerConfig {
    /// Where it is.
    pub origin: ConfigOrigin,
    /// The image of the picker.
    pub image: String,
    /// The text.
    pub text: String,
    /// The feature gates of the command line.
    pub gates: Vec<String>,
    /// Whether alpha plugins may be declared.
    pub allow_experimental: bool,
}

// === impl PickerConfig ===

impl PickerConfig {
    /// Reads the configuration of a picker's Deployment. Returns `None` if it is not known: it may be a file of the image.
    pub fn of(picker: &Deployment, config_maps: &Objects<ConfigMap>) -> Option<Self> {
        let pod = picker.spec.as_ref()?.template.spec.as_ref()?;
        let main = container(pod, MAIN)?;
        let words: Vec<&str> =
            [&main.command, &main.args].into_iter().flatten().flatten().map(String::as_str).collect();
        let namespace = Namespace::of(&picker.metadata);
        let (flag, value) = config_flag(&words)?;
        let (origin, text) = if is_text_flag(flag) {
            (ConfigOrigin::Arguments, value?.to_owned())
        } else {
            mounted(pod, main, value?, namespace, config_maps)?
        };
        let gates = gates(flags::value(&words, GATES).unwrap_or_default());
        let image = main.image.clone().unwrap_or_default();
        Some(Self { origin, image, text, gates, allow_experimental: flags::is_on(&words, EXPERIMENTAL) })
    }

    /// Returns the paths of parameters that `written`, the configuration before the controller adapted it to the picker's release, has
    /// and this one lacks, each after the type of its plugin. Parameters that have moved are not among them.
    pub fn removed_parameters(&self, written: &str) -> Vec<(String, String)> {
        let (written, own) = (parse(written), parse(&self.text));
        let mut removed = Vec::new();
        for (at, plugin) in plugins(&written).iter().enumerate() {
            let same = plugins(&own).iter().find(|own| name_of(own) == name_of(plugin));
            let Some(same) = same else { continue };
            let type_ = plugin["type"].as_str().unwrap_or_default();
            for parameter in plugin["parameters"].as_object().into_iter().flat_map(Map::keys) {
                if transform::is_dropped(type_, parameter) && same["parameters"][parameter].is_null() {
                    removed.push((type_.to_owned(), format!("plugins[{at}].parameters.{parameter}")));
                }
            }
        }
        removed
    }

    fn load(&self) -> Result<LoadedConfig, ConfigError> {
        load(&self.text, self.allow_experimental, &self.gates)
    }

    fn mistakes(&self) -> Vec<ConfigError> {
        config::mistakes(&self.text, &self.gates, options(self.allow_experimental))
    }
}

// === impl PickerRefusal ===

impl PickerRefusal {
    /// Judges the configuration of a picker's Deployment. Returns the first of [`Self::all`].
    pub fn of(picker: &Deployment, config_maps: &Objects<ConfigMap>, images: &Images) -> Option<Self> {
        Self::all(picker, config_maps, images).into_iter().next()
    }

    /// Judges the configuration of a picker's Deployment with the picker's own loader, and with what is known of other pickers.
    /// Returns nothing if the picker starts with it, or if the configuration is not known: it may be a file of the image.
    pub fn all(picker: &Deployment, config_maps: &Objects<ConfigMap>, images: &Images) -> Vec<Self> {
        let Some(config) = PickerConfig::of(picker, config_maps) else { return Vec::new() };
        let (image, origin) = (config.image.clone(), config.origin.clone());
        let of = |by| move |error| Self { image: image.clone(), origin: origin.clone(), by, error };
        match config.load() {
            Err(_) => config.mistakes().into_iter().map(of(RefusedBy::ThisBuild)).collect(),
            Ok(loaded) => {
                let other = Self::refusal_by_other_picker(picker, &config.image, &loaded, images);
                other.map(|(by, error)| of(by)(error)).into_iter().collect()
            }
        }
    }

    /// Judges a configuration that this build's picker reads.
    fn refusal_by_other_picker(
        picker: &Deployment,
        image: &str,
        loaded: &LoadedConfig,
        images: &Images,
    ) -> Option<(RefusedBy, ConfigError)> {
        if images.are_ours(image) {
            return Some((RefusedBy::LaterReleases, loaded.config.refusal_by(LlmdRelease::Since011)?));
        }
        let template = &picker.spec.as_ref()?.template;
        let annotations = template.metadata.as_ref()?.annotations.as_ref()?;
        let version = Version::parse(annotations.get(ANNOTATION)?).ok()?;
        let is_new = version >= Version::new(0, 11, 0);
        let release = if is_new { LlmdRelease::Since011 } else { LlmdRelease::Before011 };
        Some((RefusedBy::Llmd, loaded.config.refusal_by(release)?))
    }

    /// Whether the picker is this build's. Another one may know other plugins.
    pub fn is_ours(&self, images: &Images) -> bool {
        images.are_ours(&self.image)
    }

    /// Returns the path of the field that is wrong in the configuration as the user wrote it, before it was migrated to the
    /// picker's version. Empty for the configuration as a whole.
    pub fn place(&self, written: &str) -> String {
        let Ok(document) = serde_saphyr::from_str::<Value>(written) else { return String::new() };
        // Migrations move and rename plugins, so the same error about the written form has the better position.
        let renamed = |error: &ConfigError| error.to_string().replace(PRECISE_SCORER, PRECISE_PRODUCER);
        let own = load(written, true, &[]).err().filter(|own| renamed(own) == renamed(&self.error));
        config::place(own.as_ref().unwrap_or(&self.error), &document)
    }
}

// === impl PickerWarnings ===

impl PickerWarnings {
    /// Loads the configuration of a picker's Deployment. Returns `None` if there is nothing to warn of, or if the picker does not
    /// start with the configuration.
    pub fn of(picker: &Deployment, config_maps: &Objects<ConfigMap>) -> Option<Self> {
        let config = PickerConfig::of(picker, config_maps)?;
        let texts = config.load().ok()?.warnings();
        (!texts.is_empty()).then_some(Self { origin: config.origin, texts })
    }
}

/// Returns why a picker will not start with the configuration in a scheduler's own spec, without its other layers. `None` if that
/// is not sure: layers decide on the picker's version and flags, and templates on values.
///
/// `is_complete` says that there are no further layers than presets.
pub fn refusal_of_spec(scheduler: &SchedulerSpec, is_complete: bool) -> Option<(&'static str, ConfigError)> {
    let args = scheduler.template.as_deref().and_then(main_args);
    let words: Vec<&str> = args.into_iter().flatten().map(String::as_str).collect();
    let (path, text) = match own_config::inline_text(scheduler) {
        Some(text) => ("spec.router.scheduler.config.inline", text),
        None => ("spec.router.scheduler.template", config_text(&words)?.to_owned()),
    };
    let allow_experimental = !is_complete || flags::is_on(&words, EXPERIMENTAL);
    if text.contains(TEMPLATE) {
        return None;
    }
    // Feature gates of the command line say nothing about the text.
    load(&text, allow_experimental, &[]).err()?;
    // The picker may be one for which the controller migrates the text, or one for which it does not.
    let main = Container {
        name: MAIN.into(),
        args: Some(vec!["--config-text".to_owned(), text]),
        ..Container::default()
    };
    let mut pod = PodSpec { containers: vec![main], ..PodSpec::default() };
    transform::apply(&mut pod, NEWEST, Some(ANY_TOKENIZER)).ok()?;
    let migrated = pod.containers.first()?.args.as_ref()?.last()?;
    Some((path, load(migrated, allow_experimental, &[]).err()?))
}

/// Returns why no picker of this build starts with a text, and the path of the field that is wrong. The path is empty for the text
/// as a whole.
pub fn refusal_of_text(text: &str) -> Option<(String, ConfigError)> {
    let error = load(text, true, &[]).err()?;
    let document = serde_saphyr::from_str::<Value>(text).unwrap_or_default();
    Some((config::place(&error, &document), error))
}

impl std::fmt::Display for PickerRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.by {
            RefusedBy::ThisBuild | RefusedBy::Llmd => write!(f, "the picker will not start: {}", self.error),
            RefusedBy::LaterReleases => write!(f, "a later picker will not start: {}", self.error),
        }
    }
}

/// Loads a text as this build's picker does.
fn load(text: &str, allow_experimental: bool, gates: &[String]) -> Result<LoadedConfig, ConfigError> {
    config::load(text, gates, options(allow_experimental))
}

fn options(allow_experimental: bool) -> Options {
    Options { allow_experimental, trace: false }
}

/// Reads a list with commas.
fn gates(list: &str) -> Vec<String> {
    list.split(',').filter(|gate| !gate.is_empty()).map(str::to_owned).collect()
}

/// Returns the text of a file that comes from a ConfigMap.
fn mounted(
    pod: &PodSpec,
    container: &Container,
    file: &str,
    namespace: Namespace<&str>,
    config_maps: &Objects<ConfigMap>,
) -> Option<(ConfigOrigin, String)> {
    let mounts = container.volume_mounts.iter().flatten().filter_map(|mount| {
        let rest = file.strip_prefix(mount.mount_path.trim_end_matches('/'))?;
        let inner = match (mount.sub_path.as_deref().filter(|path| !path.is_empty()), rest) {
            (Some(path), "") => path.to_owned(),
            (Some(path), rest) => format!("{path}{}", rest.strip_prefix('/').map(|_| rest)?),
            (None, rest) => rest.strip_prefix('/')?.to_owned(),
        };
        Some((mount, inner))
    });
    // The innermost mount hides the others.
    let (mount, inner) = mounts.max_by_key(|(mount, _)| mount.mount_path.len())?;
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == mount.name)?;
    sources(volume).find_map(|(name, items)| {
        let key = match items {
            None => inner.clone(),
            Some(items) => items.iter().find(|item| item.path == inner)?.key.clone(),
        };
        let text = config_maps.get(namespace, Name(name))?.data.as_ref()?.get(&key)?.clone();
        Some((ConfigOrigin::ConfigMap { map: Key::new(namespace, Name(name)), key }, text))
    })
}

/// The ConfigMaps of a volume, each with its selected keys.
fn sources(volume: &Volume) -> impl Iterator<Item = (&str, Option<&[KeyToPath]>)> {
    let plain = volume.config_map.iter().map(|map| (map.name.as_str(), map.items.as_deref()));
    let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    let projected = projected.filter_map(|source| source.config_map.as_ref());
    plain.chain(projected.map(|map| (map.name.as_str(), map.items.as_deref())))
}
