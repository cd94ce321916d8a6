//! `burst-prefix-cache-producer` (alpha): keeps requests together that arrive at the same time and share a prompt.

use std::time::Duration;

use crate::{
    burst::{Balance, BurstSettings},
    prelude::*,
};

parameters! {
    struct RawParameters {
        window_duration_ms: i64 = 100,
        max_per_replica: i64 = UNLIMITED,
        block_size_tokens: i64 = 64,
        max_prefix_tokens_to_match: i64,
        min_colocate_blocks: i64,
        max_batch_size: i64 = 1000,
        balance_by: String,
    }
}

const UNLIMITED: i64 = -1;
/// The longest window. Every request waits for it.
const MAX_WINDOW_MS: i64 = 10_000;
/// The most blocks that are compared, if no number of tokens is given.
const MAX_BLOCKS: usize = 2048;

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let within = |field: &str, value: i64, least: i64, most: i64, meaning: &str| {
        let number = u32::try_from(value).ok().filter(|_| (least..=most).contains(&value));
        number.ok_or_else(|| parameters.invalid(field, format!("expected {meaning}, found {value}")))
    };
    let most = i64::from(u32::MAX);
    let limit = |field: &str, value: i64| match value {
        UNLIMITED => Ok(usize::MAX),
        value => within(field, value, 1, most, "1 or more, or -1 for no limit").map(|limit| limit as usize),
    };
    let window = within(
        "windowDurationMs",
        raw.window_duration_ms,
        1,
        MAX_WINDOW_MS,
        "a number of milliseconds from 1 to 10000",
    )?;
    let block_tokens = within("blockSizeTokens", raw.block_size_tokens, 1, most, "1 or more")?;
    let tokens = within("maxPrefixTokensToMatch", raw.max_prefix_tokens_to_match, 0, most, "0 or more")?;
    parameters.require(
        !(1..block_tokens).contains(&tokens),
        "maxPrefixTokensToMatch",
        format!("expected 0, or at least the {block_tokens} of blockSizeTokens, found {tokens}"),
    )?;
    let balance = match raw.balance_by.as_str() {
        "" | "requests" => Balance::Requests,
        "tokens" => Balance::Blocks,
        other => {
            return Err(
                parameters.invalid("balanceBy", format!("expected requests or tokens, found \"{other}\""))
            );
        }
    };
    if builder.all::<PrefixSource>().any(|(_, _, source)| matches!(source, PrefixSource::Burst(_))) {
        return Err(parameters.invalid("", "another plugin already delays requests; only one is allowed"));
    }
    let settings = BurstSettings {
        window: Duration::from_millis(window.into()),
        per_endpoint: limit("maxPerReplica", raw.max_per_replica)?,
        block_tokens,
        max_blocks: if tokens == 0 { MAX_BLOCKS } else { (tokens / block_tokens) as usize },
        shared_blocks: within("minColocateBlocks", raw.min_colocate_blocks, 0, most, "0 or more")? as usize,
        max_requests: limit("maxBatchSize", raw.max_batch_size)?,
        balance,
    };
    builder.add(parameters, PrefixSource::Burst(settings));
    Ok(Plugin::default())
}
