//! Applies the events of an engine to the index.

use longboat_kv_events::{Batch, Event, Outcome};
use longboat_scheduler::Holdings;

use crate::pool::Member;

/// The most blocks that change the index at once. Requests that are picked for wait for no more.
const MAX_BLOCKS: usize = 512;

/// The warnings that were already logged about a publisher, so that each is logged once.
#[derive(Debug, Default)]
pub(super) struct LoggedWarnings {
    malformed: bool,
    unusable: bool,
    nameless: bool,
}

/// Applies the events of a payload to the index entries of an endpoint.
pub(super) async fn apply(
    holdings: &Holdings,
    member: &Member,
    model: &str,
    payload: &[u8],
    logged: &mut LoggedWarnings,
) {
    let endpoint = &member.endpoint.host_port;
    let batch = match Batch::decode(payload) {
        Ok(batch) => batch,
        Err(error) => {
            if !std::mem::replace(&mut logged.malformed, true) {
                tracing::warn!(endpoint, %error, "Cannot read KV cache events; ignoring them.");
            }
            return;
        }
    };
    if model.is_empty() && !std::mem::replace(&mut logged.nameless, true) {
        tracing::warn!(
            endpoint,
            "The topic of KV cache events names no model, so they match no request; expected kv@ENDPOINT@MODEL."
        );
    }
    for event in &batch.events {
        let failed = apply_event(holdings, member, model, event).await;
        if failed == Some(Outcome::Unusable) && !std::mem::replace(&mut logged.unusable, true) {
            tracing::warn!(
                endpoint,
                block_tokens = holdings.settings().limits.block_tokens,
                "The engine's block size is not a multiple of blockSizeTokens; set blockSizeTokens to the \
                 engine's block size."
            );
        }
    }
}

/// Applies an event in parts. If a part cannot be applied, returns its outcome, and leaves out the parts after it.
async fn apply_event(holdings: &Holdings, member: &Member, model: &str, event: &Event) -> Option<Outcome> {
    let slot = member.endpoint.slot.0;
    if *event == Event::Cleared {
        forget(holdings, member).await;
    }
    for part in event.parts(MAX_BLOCKS) {
        // The lock is taken for each part, so that picks go on in between. The check for a removed endpoint is under the lock
        // too, because the index entries of a removed endpoint are deleted under it.
        let outcome = holdings.update(|index| (!member.is_gone()).then(|| index.apply(slot, model, &part)));
        // One endpoint with much to say must not keep scrapes and health checks waiting.
        tokio::task::yield_now().await;
        if let Some(outcome) = outcome.filter(|outcome| *outcome != Outcome::Applied) {
            return Some(outcome);
        }
    }
    None
}

/// Removes the index entries of an endpoint in parts, between which picks and other endpoints go on.
pub(super) async fn forget(holdings: &Holdings, member: &Member) {
    let slot = member.endpoint.slot.0;
    while holdings.update(|index| !member.is_gone() && index.forget_part(slot, MAX_BLOCKS)) {
        tokio::task::yield_now().await;
    }
}
