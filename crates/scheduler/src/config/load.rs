//! Loads a configuration: everything that decides whether a picker starts with it.

use super::{DataLayer, EndpointPickerConfig, Parser};
use crate::{ConfigError, Options, Scheduler, flow};

/// A configuration with which a picker starts, and the parts that are made of it.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The document.
    pub config: EndpointPickerConfig,
    /// The metrics to scrape.
    pub layer: DataLayer,
    /// The plugins and profiles.
    pub scheduler: Scheduler,
    /// How requests wait.
    pub flow: flow::Settings,
    /// How requests are parsed, in the order in which the parsers are tried.
    pub parsers: Vec<Parser>,
}

// === impl LoadedConfig ===

impl LoadedConfig {
    /// Warnings about parts that are accepted but have no effect, for the operator. Each begins with the path of its field.
    pub fn warnings(&self) -> Vec<String> {
        self.config.warnings().into_iter().chain(self.scheduler.warnings.iter().cloned()).collect()
    }
}

/// Loads a text, with the feature gates of the command line. The picker starts only with a configuration that this function
/// accepts; tools that judge configurations call it too.
///
/// # Errors
/// The first reason for which the picker does not start.
pub fn load(text: &str, gates: &[String], options: Options) -> Result<LoadedConfig, ConfigError> {
    let mut config = EndpointPickerConfig::parse(text)?;
    config.add_gates(gates)?;
    let layer = DataLayer::from_config(&config)?;
    let scheduler = Scheduler::new(&config, options)?;
    let flow = flow::Settings::from_config(&config)?;
    let parsers = config.parsers()?;
    Ok(LoadedConfig { config, layer, scheduler, flow, parsers })
}
