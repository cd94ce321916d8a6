//! `precise-prefix-cache-scorer`: a precise prefix producer and its scorer in one, as before router 0.9.

use crate::{
    prelude::*,
    producers::precise_prefix::{RawParameters, declare},
};

struct PrecisePrefix {
    prefix: usize,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let given: RawParameters = parameters.read()?;
    let prefix = declare(given, parameters, builder)?;
    Ok(Plugin::scorer(PrecisePrefix { prefix }))
}

impl Scorer for PrecisePrefix {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let matches = context.prefix(self.prefix);
        for (score, &candidate) in scores.iter_mut().zip(candidates) {
            *score = matches.ratio(candidate);
        }
    }
}
