use longboat_kv_events::{Event, Stored};

use super::*;
use crate::{
    Prompt,
    tests::{REQUEST, idle},
};

fn holdings(speculative_ms: Option<u64>) -> Holdings {
    let limits = Limits { block_tokens: 2, entries: 100, ..Limits::default() };
    Holdings::new(PreciseSettings { limits, speculative_ms, events: EventSource::default() })
}

fn prompt(tokens: &[u32]) -> Prompt {
    Prompt::from(tokens.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<u8>>())
}

fn request(prompts: &[Prompt], exact: bool) -> Request<'_> {
    Request { prompts, exact, ..REQUEST }
}

fn store(holdings: &Holdings, slot: u32, medium: &str, tokens: &[u32]) {
    let stored = Stored {
        hashes: tokens.chunks(2).map(|block| u64::from(block[0])).collect(),
        tokens: tokens.to_vec(),
        block_size: 2,
        medium: medium.into(),
        ..Stored::default()
    };
    holdings.update(|index| index.apply(slot, "m", &Event::Stored(Box::new(stored))));
}

#[test]
fn only_prompts_in_the_models_own_tokens_are_looked_up() {
    let holdings = holdings(None);
    store(&holdings, 1, "gpu", &[1, 2, 3, 4]);
    let prompts = [prompt(&[1, 2, 3, 4, 5]), prompt(&[1, 2])];
    let found = holdings.matches(&request(&prompts, true), &idle(2), 0);
    assert_eq!((found.matched(0), found.matched(1), found.total()), (0, 3, 3), "the sum over the prompts");
    let found = holdings.matches(&request(&prompts, false), &idle(2), 0);
    assert_eq!((found.matched(1), found.total()), (0, 0));
}

#[test]
fn a_part_of_a_block_counts_as_none() {
    let holdings = holdings(None);
    store(&holdings, 0, "cpu", &[1, 2, 3, 4]);
    let prompts = [prompt(&[1, 2])];
    assert_eq!(holdings.matches(&request(&prompts, true), &idle(2), 0).matched(0), 0, "0.8 of a block");
    let prompts = [prompt(&[1, 2, 3, 4])];
    assert_eq!(holdings.matches(&request(&prompts, true), &idle(2), 0).matched(0), 1, "1.6 blocks");
}

#[test]
fn a_request_that_was_just_sent_counts_for_a_moment() {
    let prompts = [prompt(&[1, 2, 3, 4])];
    let asked = request(&prompts, true);
    for (speculative, expected) in [(Some(2000), [2, 2, 0]), (None, [0, 0, 0])] {
        let holdings = holdings(speculative);
        let found = holdings.matches(&asked, &idle(2), 10);
        holdings.learn(Slot(1), &found, 10);
        let later = |now| holdings.matches(&asked, &idle(2), now).matched(1);
        assert_eq!([10, 2009, 2010].map(later), expected);
        holdings.learn(Slot(1), &found, 2010);
        holdings.forget(Slot(1));
        assert_eq!(later(2010), 0, "the endpoint is gone");
    }
}
