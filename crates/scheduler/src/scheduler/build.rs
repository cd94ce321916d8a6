//! Builds a scheduler from a configuration: its profiles, and the handler that chooses among them.

use std::sync::Arc;

use super::{Handler, Options, Scheduler};
use crate::{
    builder::Builder,
    config::{EndpointPickerConfig, ProfilePlugin, nearest::hint_or_all},
    error::ConfigError,
    handlers::single::Single,
    pickers::max_score::MaxScore,
    plugin::{Plugin, ProfileHandler},
    profile::{Profile, WeightedScorer},
    registry,
};

/// The reference's configuration if none is given.
const DEFAULT: &str = "
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
";

impl Scheduler {
    /// Builds the plugins and profiles, with the reference's defaults for missing parts.
    pub fn new(config: &EndpointPickerConfig, options: Options) -> Result<Self, ConfigError> {
        if config.plugins.is_empty() && config.scheduling_profiles.is_empty() {
            let EndpointPickerConfig { plugins, scheduling_profiles, .. } =
                EndpointPickerConfig::parse(DEFAULT)?;
            let config = EndpointPickerConfig { plugins, scheduling_profiles, ..config.clone() };
            return Self::build(&config, options);
        }
        Self::build(config, options)
    }

    fn build(config: &EndpointPickerConfig, options: Options) -> Result<Self, ConfigError> {
        let (plugins, builder) = registry::instantiate(config, options.allow_experimental)?;
        config.check_references()?;
        let mut warnings = Vec::new();
        let profiles = profiles(config, &plugins, &mut warnings)?;
        warnings.extend(of_parameters(config, &builder, &profiles));
        let (name, handler) = handler(&plugins, &profiles)?;
        let plugin_type =
            config.plugin(&name).map_or_else(|| name.clone(), |plugin| plugin.plugin_type.clone());
        Ok(Self {
            options,
            profiles,
            warnings,
            types: config
                .plugins
                .iter()
                .map(|plugin| (plugin.name().to_owned(), plugin.plugin_type.clone()))
                .collect(),
            handler,
            handler_plugin: Handler { name, plugin_type },
            admitters: plugins
                .iter()
                .filter_map(|(name, plugin)| Some((name.clone(), plugin.admitter.clone()?)))
                .collect(),
            peer_sources: builder.peer_sources,
            endpoint_headers: builder.endpoint_headers,
            producers: builder.producers,
            requirements: builder.requirements,
            watched_handler: None,
            latency: builder.latency.map(|latency| latency.settings),
        })
    }
}

/// Returns warnings about parameters that are accepted and do not do what they say.
fn of_parameters(config: &EndpointPickerConfig, builder: &Builder, profiles: &[Profile]) -> Vec<String> {
    let at =
        |name: &String| config.plugins.iter().position(|plugin| plugin.name() == name).unwrap_or_default();
    let parameters =
        builder.warnings.iter().map(|(plugin, why)| format!("plugins[{}].parameters: {why}", at(plugin)));
    let is_known = |name: &String| profiles.iter().any(|profile| profile.name == *name);
    let unknown = builder.wanted_profiles.iter().filter(|(_, profile)| !is_known(profile));
    let unknown = unknown.map(|(plugin, profile)| {
        format!("plugins[{}].parameters.profileName: no session is remembered, because no profile has the name \"{profile}\"", at(plugin))
    });
    parameters.chain(unknown).collect()
}

fn profiles(
    config: &EndpointPickerConfig,
    plugins: &[(String, Plugin)],
    warnings: &mut Vec<String>,
) -> Result<Vec<Profile>, ConfigError> {
    if config.scheduling_profiles.is_empty() {
        let all: Vec<ProfilePlugin> = plugins
            .iter()
            .filter(|(_, plugin)| has_role(plugin))
            .map(|(name, _)| ProfilePlugin { plugin_ref: name.clone(), weight: None })
            .collect();
        return Ok(vec![profile("default", &all, plugins)?]);
    }
    let mut profiles: Vec<Profile> = Vec::new();
    for (index, spec) in config.scheduling_profiles.iter().enumerate() {
        if profiles.iter().any(|known| known.name == spec.name) {
            return Err(ConfigError::DuplicateProfile(spec.name.clone()));
        }
        profiles.push(profile(&spec.name, &spec.plugins, plugins)?);
        let idle = |used: &ProfilePlugin| {
            plugins.iter().any(|(name, plugin)| *name == used.plugin_ref && !has_role(plugin))
        };
        warnings.extend(spec.plugins.iter().enumerate().filter(|(_, used)| idle(used)).map(|(at, used)| {
            format!(
                "schedulingProfiles[{index}].plugins[{at}]: no effect: plugin \"{}\" is no filter, scorer or picker, and \
                 works without being used in a profile",
                used.plugin_ref
            )
        }));
    }
    Ok(profiles)
}

/// Whether a plugin does something in a profile.
fn has_role(plugin: &Plugin) -> bool {
    plugin.filter.is_some() || plugin.scorer.is_some() || plugin.picker.is_some()
}

fn profile(name: &str, uses: &[ProfilePlugin], plugins: &[(String, Plugin)]) -> Result<Profile, ConfigError> {
    let mut profile = Profile {
        name: name.to_owned(),
        filters: Vec::new(),
        scorers: Vec::new(),
        picker: Arc::new(MaxScore::default()),
        picker_name: None,
    };
    let mut picker = None;
    for used in uses {
        let plugin = plugins
            .iter()
            .find(|(known, _)| *known == used.plugin_ref)
            .map(|(_, plugin)| plugin)
            .ok_or_else(|| {
                ConfigError::reference(
                    format!("schedulingProfiles: profile \"{name}\": pluginRef"),
                    &used.plugin_ref,
                    "a declared plugin",
                    plugins.iter().map(|(name, _)| name.as_str()),
                )
            })?;
        profile.filters.extend(plugin.filter.clone().map(|filter| (used.plugin_ref.clone(), filter)));
        if let Some(scorer) = &plugin.scorer {
            let weight = used.weight.unwrap_or(1.0);
            if weight < 0.0 {
                let (profile, plugin) = (name.to_owned(), used.plugin_ref.clone());
                return Err(ConfigError::Weight { profile, plugin, weight });
            }
            profile.scorers.push(WeightedScorer {
                name: used.plugin_ref.clone(),
                weight,
                scorer: Arc::clone(scorer),
            });
        }
        if let Some(found) = &plugin.picker
            && picker.replace((used.plugin_ref.clone(), Arc::clone(found))).is_some()
        {
            return Err(ConfigError::Pickers(name.to_owned()));
        }
    }
    // A picker that is declared but used by no profile serves the profiles without a picker.
    let declared = || plugins.iter().find_map(|(name, plugin)| Some((name.clone(), plugin.picker.clone()?)));
    if let Some((name, picker)) = picker.or_else(declared) {
        profile.picker = picker;
        profile.picker_name = Some(name);
    }
    Ok(profile)
}

fn handler(
    plugins: &[(String, Plugin)],
    profiles: &[Profile],
) -> Result<(String, Arc<dyn ProfileHandler>), ConfigError> {
    let mut handlers = plugins.iter().filter_map(|(name, plugin)| Some((name, plugin.handler.as_ref()?)));
    let first = handlers.next();
    if let (Some((first, _)), Some((second, _))) = (first, handlers.next()) {
        return Err(ConfigError::ProfileHandlers(first.clone(), second.clone()));
    }
    let (name, handler) = first.map_or_else(
        || ("single-profile-handler".to_owned(), Arc::new(Single) as Arc<dyn ProfileHandler>),
        |(name, handler)| (name.clone(), Arc::clone(handler)),
    );
    if handler.takes_one_profile() && profiles.len() != 1 {
        return Err(ConfigError::SingleProfile(profiles.len()));
    }
    for wanted in handler.profiles() {
        if !profiles.iter().any(|profile| profile.name == wanted) {
            let hint = hint_or_all(profiles.iter().map(|profile| profile.name.as_str()), wanted);
            let (handler, profile) = (name.clone(), wanted.to_owned());
            return Err(ConfigError::MissingProfile { handler, profile, hint });
        }
    }
    Ok((name, handler))
}
