//! `mm-embeddings-cache-scorer`: scores by the share of a request's images, audio and videos that an endpoint has probably
//! encoded.

use crate::{
    prelude::*,
    producers::encoder_cache::{self, lookup::EncoderLookup},
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    producer_name: Option<String>,
}

struct EncoderCache {
    /// The index of the producer.
    producer: usize,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let producer = encoder_cache::place(builder, parameters, "producerName", raw.producer_name.as_deref())?;
    Ok(Plugin::scorer(EncoderCache { producer }))
}

impl Scorer for EncoderCache {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let Some(encoded) = context.findings[self.producer].get::<EncoderLookup>() else { return };
        for (score, &candidate) in scores.iter_mut().zip(candidates) {
            *score = encoded.ratio(candidate);
        }
    }
}
