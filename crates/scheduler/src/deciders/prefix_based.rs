//! `prefix-based-pd-decider`: requests with enough prompt that the decode endpoint has not cached.

use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    /// 0: never.
    non_cached_tokens: u64,
    prompt_tokens: u64,
}

pub(crate) struct PrefixBased {
    raw: RawParameters,
    prefix: usize,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    // As in llm-d, this is the default producer, even if the scorers of the profiles name another one.
    let prefix = builder.prefix(parameters, None)?;
    Ok(Plugin::decider(PrefixBased { raw, prefix }))
}

impl PrefixBased {
    /// Creates the decider of the deprecated handler, whose threshold means the same.
    pub(crate) fn new(non_cached_tokens: u64, prefix: usize) -> Self {
        Self { raw: RawParameters { non_cached_tokens, prompt_tokens: 0 }, prefix }
    }
}

impl Decider for PrefixBased {
    fn decide(&self, context: &Context<'_>, decode: Option<&ProfileRun>) -> bool {
        let least = self.raw.non_cached_tokens;
        let prompt = context.request.tokens() as u64;
        let Some(target) = decode.and_then(|run| run.targets.first()) else {
            return false;
        };
        if least == 0 || prompt < self.raw.prompt_tokens {
            return false;
        }
        let cached = context.prefix(self.prefix).matched_tokens(*target);
        prompt.saturating_sub(cached) >= least
    }
}
