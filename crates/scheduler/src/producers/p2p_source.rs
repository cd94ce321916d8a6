//! `p2p-source-producer` (alpha): names a pod that has cached the prompt, so that the pod that computes it can pull the
//! blocks.

use crate::{decision::PREFILL, prelude::*};

parameters! {
    struct RawParameters {
        prefix_match_info_producer_name: Option<String>,
        min_cached_token_delta: u64 = 1,
        prefill_profile_name: String = PREFILL.to_owned(),
    }
}

/// Finds such a pod by what a prefix producer knows.
pub(crate) struct PrefixPeers {
    prefix: usize,
    least: u64,
    prefill: String,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    parameters.above_zero("minCachedTokenDelta", raw.min_cached_token_delta)?;
    let prefix = builder.prefix(parameters, raw.prefix_match_info_producer_name.as_deref())?;
    let source = builder.producers[prefix].get::<PrefixSource>();
    parameters.require(
        !matches!(source, Some(PrefixSource::Burst(_))),
        "prefixMatchInfoProducerName",
        "it names a burst-prefix-cache-producer, which does not know what is \
             cached; name an approx-prefix-cache-producer",
    )?;
    parameters.require(
        !matches!(source, Some(PrefixSource::Precise(_))),
        "prefixMatchInfoProducerName",
        "it names a precise-prefix-cache-producer, which is not supported \
             here: blocks in GPU memory cannot be pulled, and the producer does not distinguish the tiers \
             of a match; name an approx-prefix-cache-producer",
    )?;
    let prefill = Some(raw.prefill_profile_name).filter(|name| !name.is_empty());
    let source = PrefixPeers {
        prefix,
        least: raw.min_cached_token_delta,
        prefill: prefill.unwrap_or_else(|| PREFILL.to_owned()),
    };
    builder.peer_sources.push(source);
    Ok(Plugin::default())
}

impl PrefixPeers {
    /// Returns the address of the pod to pull blocks from, if one has cached enough more than the pod that computes the prompt. Among
    /// the pods with about the most cached tokens, idler pods are chosen more often.
    pub(crate) fn find(&self, context: &Context<'_>, runs: &[ProfileRun], primary: usize) -> Option<String> {
        let matches = context.prefix(self.prefix);
        let block = u64::from(matches.block_tokens());
        let cached = |candidate: Candidate| matches.matched_tokens(candidate);
        let computing = runs.iter().find(|run| run.name == self.prefill).unwrap_or(&runs[primary]);
        let computing = *computing.targets.first()?;
        let most = (0..context.candidates.len()).map(cached).max().filter(|most| *most > 0)?;
        let holders: Vec<(Candidate, f64)> = (0..context.candidates.len())
            .filter(|&candidate| cached(candidate) > 0 && cached(candidate) + block >= most)
            .map(|candidate| (candidate, 1.0 / (1.0 + context.metrics(candidate).waiting.max(0.0))))
            .collect();
        let mut left = context.random_share() * holders.iter().map(|(_, weight)| weight).sum::<f64>();
        let chosen = holders.iter().find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        let (chosen, _) = chosen.or_else(|| holders.last())?;
        let enough = cached(*chosen).saturating_sub(cached(computing)) >= self.least;
        (enough && *chosen != computing).then(|| context.endpoint(*chosen).host_port.clone())
    }
}
