//! Plugin parameters. Unknown keys are errors, so that a misspelt or misplaced key is not silently ignored.

use std::{fmt::Display, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{config::PluginSpec, error::ConfigError, plugin::Plugin, reading};

/// Declares the parameters of a plugin. A field without a value has the default of its type.
macro_rules! parameters {
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $Parameters:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $Type:ty $(= $default:expr)?,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        $visibility struct $Parameters {
            $($(#[$field_attribute])* $field_visibility $field: $Type,)+
        }

        impl Default for $Parameters {
            fn default() -> Self {
                Self { $($field: $crate::parameters::parameters!(@default $($default)?),)+ }
            }
        }
    };
}
pub(crate) use parameters;

/// The `parameters` of one plugin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameters<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: Option<&'a Value>,
}

impl<'a> Parameters<'a> {
    /// The parameters of a declared plugin.
    pub(crate) fn of(plugin: &'a PluginSpec) -> Self {
        Self { name: plugin.name(), value: plugin.parameters.as_ref() }
    }

    /// The parameters of a plugin that is used without a declaration.
    pub(crate) fn undeclared(name: &'a str) -> Self {
        Self { name, value: None }
    }

    /// Reads the parameters into a type that denies unknown fields and has defaults.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self) -> Result<T, ConfigError> {
        match self.value {
            None | Some(Value::Null) => Ok(T::default()),
            Some(value) => reading::read(value).map_err(|error| ConfigError::Parameters {
                name: self.name.to_owned(),
                path: error.place(),
                message: error.to_string(),
            }),
        }
    }

    /// Returns a plugin that has no parameters.
    pub(crate) fn none(&self, plugin: Plugin) -> Result<Plugin, ConfigError> {
        self.read::<NoParameters>().map(|_| plugin)
    }

    /// Refuses a field with this message unless a condition is met. A comparison with NaN is not.
    pub(crate) fn require(
        &self,
        is_met: bool,
        field: &str,
        message: impl Display,
    ) -> Result<(), ConfigError> {
        if is_met { Ok(()) } else { Err(self.invalid(field, message)) }
    }

    pub(crate) fn above_zero<T>(&self, field: &str, value: T) -> Result<(), ConfigError>
    where
        T: Copy + PartialOrd + Default + Display,
    {
        self.require(value > T::default(), field, format!("expected a number above 0, found {value}"))
    }

    pub(crate) fn zero_or_more(&self, field: &str, value: f64) -> Result<(), ConfigError> {
        let is_met = value.is_finite() && value >= 0.0;
        self.require(is_met, field, format!("expected 0 or more, found {value}"))
    }

    pub(crate) fn share(&self, field: &str, value: f64) -> Result<(), ConfigError> {
        let is_met = (0.0..=1.0).contains(&value);
        self.require(is_met, field, format!("expected a number from 0 to 1, found {value}"))
    }

    /// Reads a duration above 0.
    pub(crate) fn duration(&self, field: &str, text: &str) -> Result<Duration, ConfigError> {
        let time = longboat_quantity::duration::parse(text).ok().filter(|time| !time.is_zero());
        time.ok_or_else(|| {
            self.invalid(field, format!("expected a duration above 0 such as 50ms, found \"{text}\""))
        })
    }

    /// The error for the field at this path, or for the parameters as a whole if the path is empty.
    pub(crate) fn invalid(&self, field: &str, message: impl Display) -> ConfigError {
        let path = field.to_owned();
        let message = if path.is_empty() { message.to_string() } else { format!("{path}: {message}") };
        ConfigError::Parameters { name: self.name.to_owned(), path, message }
    }

    /// The error for a field that refers to an unknown plugin. `known` are the names that the field may have.
    pub(crate) fn unknown_reference<'k>(
        &self,
        field: &str,
        reference: &str,
        expected: &'static str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> ConfigError {
        ConfigError::reference(format!("{field} of plugin \"{}\"", self.name), reference, expected, known)
    }
}

/// The type for plugins without parameters.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}
