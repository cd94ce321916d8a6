//! Pickers choose from scored candidates.

use crate::prelude::*;

pub(crate) mod max_score;
pub(crate) mod random;
pub(crate) mod weighted_random;

parameters! {
    /// The parameters of every picker.
    #[derive(Clone, Copy)]
    pub(crate) struct Count {
        max_num_of_endpoints: usize = 1,
    }
}

impl Count {
    fn read(parameters: &Parameters<'_>) -> Result<Self, ConfigError> {
        let count: Self = parameters.read()?;
        parameters.above_zero("maxNumOfEndpoints", count.max_num_of_endpoints)?;
        Ok(count)
    }
}
