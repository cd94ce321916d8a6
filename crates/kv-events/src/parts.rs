//! Splits long events, so that an index is not locked for long.

use std::borrow::Cow;

use crate::event::{Event, Stored};

impl Event {
    /// Splits an event into events of at most this many blocks. Applied in their order, up to the first that is not applied,
    /// they have the effect of the event.
    pub fn parts(&self, blocks: usize) -> Vec<Cow<'_, Self>> {
        let blocks = blocks.max(1);
        match self {
            Self::Stored(stored) if stored.hashes.len() > blocks && stored.is_whole() => {
                let tokens = stored.tokens.chunks(blocks * stored.block_size);
                let pieces = stored.hashes.chunks(blocks).zip(tokens).enumerate();
                let mut parent = stored.parent;
                let part = |(place, (hashes, tokens)): (usize, (&[u64], &[u32]))| {
                    let extra = stored.extra.iter().skip(place * blocks).take(hashes.len()).cloned();
                    let part = Stored {
                        hashes: hashes.to_vec(),
                        parent: std::mem::replace(&mut parent, hashes.last().copied()),
                        tokens: tokens.to_vec(),
                        extra: extra.collect(),
                        block_size: stored.block_size,
                        lora_id: stored.lora_id,
                        lora_name: stored.lora_name.clone(),
                        medium: stored.medium.clone(),
                    };
                    Cow::Owned(Self::Stored(Box::new(part)))
                };
                pieces.map(part).collect()
            }
            Self::Removed { hashes, medium } if hashes.len() > blocks => {
                let part = |hashes: &[u64]| Self::Removed { hashes: hashes.to_vec(), medium: medium.clone() };
                hashes.chunks(blocks).map(|hashes| Cow::Owned(part(hashes))).collect()
            }
            _ => vec![Cow::Borrowed(self)],
        }
    }
}

impl Stored {
    /// Whether there are as many tokens as the blocks have.
    fn is_whole(&self) -> bool {
        self.block_size > 0 && self.hashes.len().checked_mul(self.block_size) == Some(self.tokens.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ExtraKey, Index, Limits, Outcome};

    fn stored() -> impl Strategy<Value = Event> {
        let block = (0..40_u64, prop::collection::vec(0..5_u32, 4), prop::option::of("[a-c]"));
        (prop::collection::vec(block, 0..12), prop::option::of(0..40_u64), 3..6_usize).prop_map(
            |(blocks, parent, block_size)| {
                let extra =
                    blocks.iter().map(|(.., salt)| salt.clone().map(ExtraKey::Text).into_iter().collect());
                let extra = extra.collect();
                Event::Stored(Box::new(Stored {
                    hashes: blocks.iter().map(|(hash, ..)| *hash).collect(),
                    parent,
                    tokens: blocks.iter().flat_map(|(_, tokens, _)| tokens.clone()).collect(),
                    block_size,
                    medium: "gpu".to_owned(),
                    extra,
                    ..Stored::default()
                }))
            },
        )
    }

    fn event() -> impl Strategy<Value = Event> {
        let removed = prop::collection::vec(0..40_u64, 0..20);
        prop_oneof![
            3 => stored(),
            1 => removed.prop_map(|hashes| Event::Removed { hashes, medium: "gpu".to_owned() }),
        ]
    }

    proptest! {
        #[test]
        fn split_events_have_the_same_effect(events in prop::collection::vec(event(), 0..12), blocks in 1..5_usize) {
            let limits = Limits { block_tokens: 4, ..Limits::default() };
            let (mut unsplit, mut split) = (Index::new(limits.clone()), Index::new(limits.clone()));
            let mut prompts = Vec::new();
            for event in &events {
                unsplit.apply(0, "m", event);
                for part in event.parts(blocks) {
                    if let Event::Stored(stored) = part.as_ref() {
                        prop_assert!(stored.hashes.len() <= blocks || !stored.is_whole());
                    }
                    if split.apply(0, "m", &part) != Outcome::Applied {
                        break;
                    }
                }
                if let Event::Stored(stored) = event {
                    prompts.push(stored.tokens.clone());
                }
            }
            prop_assert_eq!((unsplit.len(), unsplit.traffic(), unsplit.removals()), (split.len(), split.traffic(), split.removals()));
            for tokens in prompts {
                let keys = unsplit.keys("m", &tokens, "");
                prop_assert_eq!(unsplit.held(&keys, &[0]), split.held(&keys, &[0]));
            }
        }
    }
}
