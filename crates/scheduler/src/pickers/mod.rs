//! Pickers choose from scored candidates.

use crate::prelude::*;

pub(crate) mod max_score;
pub(crate) mod random;
pub(crate) mod weighted_random;

/// The parameters of every picker.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Count {
    max_num_of_endpoints: usize,
}

impl Default for Count {
    fn default() -> Self {
        Self { max_num_of_endpoints: 1 }
    }
}

impl Count {
    fn read(parameters: &Parameters<'_>) -> Result<Self, ConfigError> {
        let count: Self = parameters.read()?;
        if count.max_num_of_endpoints == 0 {
            return Err(parameters.invalid("maxNumOfEndpoints must be positive"));
        }
        Ok(count)
    }
}
