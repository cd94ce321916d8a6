//! Plugin parameters: strict, so that a misspelt or misplaced key is an error and not silence.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{error::ConfigError, reading};

/// The `parameters` of one plugin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameters<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: Option<&'a Value>,
}

impl Parameters<'_> {
    /// Reads them into a type that denies unknown fields and has defaults.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self) -> Result<T, ConfigError> {
        match self.value {
            None | Some(Value::Null) => Ok(T::default()),
            Some(value) => reading::read(value).map_err(|error| self.invalid(error.to_string())),
        }
    }

    pub(crate) fn invalid(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::Parameters { name: self.name.to_owned(), message: message.into() }
    }
}

/// For plugins without parameters.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}
